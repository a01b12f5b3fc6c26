/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The target of a migration: objects that the kernel asks for come from the memory of the source, the fastest replica, by
 * RDMA READ, while there is a connection with keys. No I/O, no clock. Documentation/migration.rst, Bytes from the source's memory.
 *
 * In:	pull_open()	keys have come			pull_cut()	the connection is destroyed
 *	pull_take()	a request of the kernel		pull_done()	a READ has ended
 *	pull_filled()	what the kernel has answered	pull_late()	deadlines
 * Out:	pull_next()	READs to start at once		pull_fills()	answers for the kernel
 *	pull_back()	requests that the backups are to answer	pull_due()	when pull_late() is next needed
 *	pull_wants()	is the source still needed?
 *
 * What it guarantees, whatever the source's memory has:
 *  - the kernel gets an entry only if its handle, version, block and length are those of the listing that counts for the index,
 *    and the request is for the place of this listing (PULL_CHECK). The kernel checks its CRC, as of bytes from a backup;
 *  - each request that was taken is answered with such an entry, or comes out of pull_back(), once: a READ that fails, is late, or
 *    brings something else costs time and no answer;
 *  - a READ stays within the memory of its key.
 *
 * While a READ is late no request is taken: a source that hangs delays PULL_SLOTS requests, once.
 */
#ifndef LSMEMD_PULL_H
#define LSMEMD_PULL_H

#include <stdbool.h>
#include <stdint.h>

#include "known.h"
#include "lsmem.h"
#include "remote/move.h"

#define PULL_SLOTS	16u			/* requests under way */
#define PULL_TAGS	(2 * PULL_SLOTS)	/* READs in flight */
#define PULL_LATE_NS	50000000u		/* until the backups are asked; a READ takes some 10 us */
/*
 * Where an entry begins in its buffer. What is before it in its block at home is not known, nor how much: the kernel, which
 * takes this for the place at home, must not expect it to end in an earlier block than it does.
 */
#define PULL_HEAD	(LSMEM_BLOCK - LSMEM_ALIGN)
#define PULL_BYTES	(LSMEM_OBJECT_MAX + 2 * LSMEM_BLOCK)	/* a buffer */
#define PULL_MEMORY	(PULL_SLOTS * (PULL_BYTES + LSMEM_BLOCK))	/* buffers, and a block each for the seglet table */
#define PULL_IDLE_S	10u			/* nothing has come: the source is not needed any more .. */
#define PULL_MOST_S	600u			/* .. nor after that */

struct pull;

/**
 * struct pull_read - an RDMA READ to start
 * @tag: for pull_done(); tags are below PULL_TAGS
 * @address: in the memory of the source
 * @key: of this memory
 * @length: bytes
 * @data: memory for it, within that of pull_new()
 */
struct pull_read {
	uint32_t tag, key, length;
	uint64_t address;
	void *data;
};

/**
 * struct pull_stats - counters since pull_new()
 * @objects: requests that were answered from the source's memory
 * @bytes: of the entries
 * @late: requests that the backups were asked for, because a READ was late
 * @wrong: .. because something else was there
 * @cut: .. because the connection was lost
 */
struct pull_stats {
	uint64_t objects, bytes, late, wrong, cut;
};

struct pull *pull_new(const struct known *known, uint64_t indices, uint32_t seglets, void *memory, uint64_t now);
void pull_free(struct pull *p);
void pull_open(struct pull *p, const struct move_keys *keys);
void pull_cut(struct pull *p);
bool pull_is_open(const struct pull *p);
bool pull_take(struct pull *p, const struct lsmem_fetch_one *one, uint64_t now);
uint32_t pull_held(const struct pull *p);
bool pull_next(struct pull *p, struct pull_read *read);
void pull_done(struct pull *p, uint32_t tag);
uint32_t pull_fills(struct pull *p, struct lsmem_fill_one *fills, uint32_t max);
void pull_filled(struct pull *p, const struct lsmem_fill_one *fills, uint32_t nr, uint64_t now);
bool pull_has_back(const struct pull *p);
bool pull_back(struct pull *p, struct lsmem_fetch_one *one);
uint64_t pull_due(const struct pull *p);
void pull_late(struct pull *p, uint64_t now);
bool pull_wants(struct pull *p, bool all, uint64_t now);
void pull_stats(const struct pull *p, struct pull_stats *stats);

#endif
