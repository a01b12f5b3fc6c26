/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The target of a migration: all that the source has told comes from its memory, seglet by seglet, behind what the kernel asks for
 * (pull.h). No I/O, no clock. Documentation/migration.rst, All of the source's memory.
 *
 * In:	bulk_open()	keys have come			bulk_cut()	the connection is destroyed
 *	bulk_step()	goes on with the list of seglets	bulk_done()	a READ has ended
 *	bulk_brought()	what the kernel has answered	bulk_pace()	how much is read at once, and in a second
 *	bulk_end()	nothing more is to be read
 * Out:	bulk_next()	READs to start at once		bulk_objects()	entries for the kernel (LSMEM_REPL_BRING)
 *	bulk_waits()	is there something to do now?	bulk_due()	when is there, by its rate?
 *	bulk_wants()	is the source still needed?
 *
 * What it guarantees, whatever the source's memory has:
 *  - the kernel gets an entry only if it is the one of the listing that counts for its index, at its place (PULL_CHECK). The kernel
 *    checks its CRC, and that the object is COLD at this place;
 *  - a READ stays within the memory of its key.
 *
 * The seglets of the youngest segment come first: new objects, and those that change most. Each is read once, from the first
 * listing in it on, and what an entry that crosses its end has in others.
 */
#ifndef LSMEMD_BULK_H
#define LSMEMD_BULK_H

#include <stdbool.h>
#include <stdint.h>

#include "known.h"
#include "lsmem.h"
#include "pull.h"

/* One is read while the other is given to the kernel. A READ of the kernel's waits for so many seglets at most. */
#define BULK_SLOTS	2u
#define BULK_TAGS	(2 * BULK_SLOTS)	/* READs in flight */
#define BULK_OBJECTS	256u			/* for bulk_objects(): so many LSMEM_REPL_BRING takes */
/* A buffer: a seglet, the rest of the largest entry, and the entry of the seglet table. */
#define BULK_BYTES	(LSMEM_SEGLET_BYTES + LSMEM_OBJECT_MAX + LSMEM_BLOCK)
#define BULK_MEMORY	(BULK_SLOTS * BULK_BYTES)
#define BULK_BEHIND_NS	10000000u		/* after a request of the kernel: the next one is to wait for one seglet, not for two */
#define BULK_STEP	65536u			/* indices that bulk_step() looks at: less than a millisecond */

struct bulk;

/**
 * struct bulk_stats - counters since bulk_new()
 * @objects: that the kernel has put into memory
 * @bytes: of their entries
 * @wrong: entries that were not what was told, or not whole; the backups have them
 * @seglets: of the source's memory, in which a listing begins
 * @left: .. and are still to be read
 */
struct bulk_stats {
	uint64_t objects, bytes, wrong;
	uint32_t seglets, left;
};

struct bulk *bulk_new(const struct known *known, uint64_t indices, uint32_t seglets, void *memory, uint64_t now);
void bulk_free(struct bulk *b);
void bulk_open(struct bulk *b, const struct move_keys *keys);
void bulk_cut(struct bulk *b);
void bulk_step(struct bulk *b, uint64_t now);
void bulk_pace(struct bulk *b, uint64_t rate, bool behind, uint64_t now);
bool bulk_next(struct bulk *b, uint64_t now, struct pull_read *read);
void bulk_done(struct bulk *b, uint32_t tag);
uint32_t bulk_objects(struct bulk *b, struct lsmem_bring_one *ones);
void bulk_brought(struct bulk *b, const struct lsmem_bring_one *ones, uint32_t nr, uint64_t now);
void bulk_end(struct bulk *b);
bool bulk_is_all(const struct bulk *b);
bool bulk_waits(const struct bulk *b, uint64_t now);
uint64_t bulk_due(const struct bulk *b, uint64_t now);
bool bulk_wants(struct bulk *b, uint64_t now);
void bulk_stats(const struct bulk *b, struct bulk_stats *stats);

#endif
