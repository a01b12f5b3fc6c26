/* SPDX-License-Identifier: GPL-2.0 */
/* Damage to a backup. The input of the fuzzer is the number of the backup, then edits. */
#ifndef FUZZ_EDITS_H
#define FUZZ_EDITS_H

#include "bases.h"

#define EDITS_MAX	16u

enum edit_op {
	EDIT_FLIP,		/* bits of a byte */
	EDIT_SET8,
	EDIT_SET32,
	EDIT_SET64,
	EDIT_ADD,		/* to a number of 64 bits */
	EDIT_ZERO,		/* the whole part */
	EDIT_ZERO_BLOCK,	/* the block of the byte */
	EDIT_COPY,		/* another part of this kind over this one */
	EDIT_COPY_BLOCK,	/* any block over the block of the byte */
	EDIT_TRUNCATE,		/* the backup */
	EDIT_FAULT,		/* reading the block fails */
	EDIT_OPS
};

#define SEAL_PART	1u	/* correct the CRC of the part */
#define SEAL_SEGMENT	2u	/* also footer and directory of its segment */

/**
 * struct edit - 16 bytes of input
 * @kind: enum part_kind; @which: number of the part of this kind; @at: offset in the part;
 *	all modulo their number
 * @seal: SEAL_*; no drive does this, but it tests the checks behind the checksums
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
 * struct edited - the effect of the edits of an input
 * @forged: checksums may not reveal the change
 * @class: the worst effect of the edits
 */
struct edited {
	const struct base *base;
	struct image *image;
	bool forged;
	enum part_class class;
};

/* Returns false without input.  The caller must reset the image after use, and not free it. */
bool edits_apply(struct edited *edited, const uint8_t *data, size_t size);

#endif
