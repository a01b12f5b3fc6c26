/* SPDX-License-Identifier: GPL-2.0 */
/* Damage to a backup, as a fuzzer's input tells it: the base's number, then edits. */
#ifndef FUZZ_EDITS_H
#define FUZZ_EDITS_H

#include "bases.h"

#define EDITS_MAX	16u

enum edit_op {
	EDIT_FLIP,		/* bits of a byte */
	EDIT_SET8,
	EDIT_SET32,
	EDIT_SET64,
	EDIT_ADD,		/* to 64 bits */
	EDIT_ZERO,		/* the whole part */
	EDIT_ZERO_BLOCK,	/* that the byte lies in */
	EDIT_COPY,		/* another part of its kind over this one */
	EDIT_COPY_BLOCK,
	EDIT_TRUNCATE,		/* the backup */
	EDIT_FAULT,		/* reading the block fails */
	EDIT_OPS
};

#define SEAL_PART	1u	/* its own CRC is put right */
#define SEAL_SEGMENT	2u	/* footer and directory of its segment too */

/**
 * struct edit - 16 bytes of input
 * @kind: enum part_kind, @which: of those; @at: in it; all of them modulo
 * @seal: SEAL_*: not what a drive does, but it gets behind the checksums
 */
struct edit {
	uint8_t op;
	uint8_t kind;
	uint8_t seal;
	uint8_t which;
	uint32_t at;
	uint64_t value;
};

/**
 * struct edited - what the edits of an input did
 * @forged: checksums do not tell what was changed
 * @class: the worst that they can do
 */
struct edited {
	const struct base *base;
	struct image *image;
	bool forged;
	enum part_class class;
};

/* False: no input.  The image is to be reset, not freed. */
bool edits_apply(struct edited *edited, const uint8_t *data, size_t size);

#endif
