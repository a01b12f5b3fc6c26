/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Backups for the fuzzers to damage.  The daemon's own code has written them to the simulated disk
 * of tests/unit until a power cut; the model knows what recovery must find.
 */
#ifndef FUZZ_BASES_H
#define FUZZ_BASES_H

#include "image.h"
#include "../unit/sim.h"

#define BASES	10u

enum part_kind {
	PART_SUPER,		/* a superblock copy */
	PART_DIGEST,		/* a record of the chain */
	PART_HEADER,		/* of a listed segment, as all below */
	PART_FOOTER,
	PART_DIRECTORY,		/* one of its entries */
	PART_ENTRY,		/* the header of an entry */
	PART_PAYLOAD,		/* the payload of an entry */
	PART_LISTED,		/* the whole segment */
	PART_STRUCTURES,	/* number of kinds above, which have a known meaning */
	PART_FRAME = PART_STRUCTURES, /* any frame */
	PART_LOG,		/* the digest log */
	PART_KINDS
};

/*
 * The effect of a damaged byte.  If nothing proves that a tail was acknowledged, it is torn, not
 * lost: see "Torn or lost" in durability.rst.
 */
enum part_class {
	CLASS_FREE,		/* none: recovery does not read it */
	CLASS_TOLD,		/* recovery reports it, or finds all that was acknowledged */
	CLASS_PROOF,		/* acknowledged bytes may be lost without a proof */
};

struct part {
	enum part_kind kind;
	enum part_class class;
	uint64_t offset;
	uint32_t length;
	uint32_t frame;
	uint32_t salt;
	uint32_t header;	/* of an entry or a payload: bytes of the entry's header */
};

/**
 * struct base - a backup
 * @groups: group records among the parts
 * @parts: sorted by kind: from @first[kind] to before @first[kind + 1]
 */
struct base {
	struct image *image;
	struct sim *sim;
	struct lsmem_super super;
	uint32_t groups;
	struct part *parts;
	uint32_t nr_parts, first[PART_KINDS + 1];
};

/* Backup @n; the first call makes it. */
const struct base *base_get(uint32_t n);
/* The worst effect of damage to a range. */
enum part_class base_class(const struct base *base, uint64_t offset, uint64_t length);

#endif
