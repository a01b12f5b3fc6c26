/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Backups to be damaged: what the daemon's own code left on the simulated disk
 * of tests/unit when the power went, and what has to be found there.
 */
#ifndef FUZZ_BASES_H
#define FUZZ_BASES_H

#include "image.h"
#include "../unit/sim.h"

#define BASES	10u

enum part_kind {
	PART_SUPER,		/* a slot */
	PART_DIGEST,		/* a record of the chain */
	PART_HEADER,		/* of a listed segment, as all below */
	PART_FOOTER,
	PART_DIRECTORY,		/* one of its entries */
	PART_ENTRY,		/* the header of one */
	PART_PAYLOAD,		/* and what follows it */
	PART_LISTED,		/* whole */
	PART_STRUCTURES,	/* those above say what a byte means */
	PART_FRAME = PART_STRUCTURES, /* any frame */
	PART_LOG,		/* the digest log */
	PART_KINDS
};

/*
 * What a damaged byte does.  A tail that nothing proves to have been
 * acknowledged is torn, not lost: see "Torn or lost" in durability.rst.
 */
enum part_class {
	CLASS_FREE,		/* nothing: it is not looked at */
	CLASS_TOLD,		/* it is told, or all that was acknowledged is found */
	CLASS_PROOF,		/* perhaps nothing else proves what is lost then */
};

struct part {
	enum part_kind kind;
	enum part_class class;
	uint64_t offset;
	uint32_t length;
	uint32_t frame;
	uint32_t salt;
};

/**
 * struct base - a backup
 * @parts: by kind: @first[kind] .. @first[kind + 1]
 */
struct base {
	struct image *image;
	struct sim *sim;
	struct lsmem_super super;
	struct part *parts;
	uint32_t nr_parts, first[PART_KINDS + 1];
};

/* The nth, made when it is wanted for the first time. */
const struct base *base_get(uint32_t n);
/* The worst that damage to a range can do. */
enum part_class base_class(const struct base *base, uint64_t offset, uint64_t length);

#endif
