/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A simulated disk with a volatile cache.
 *
 * A write is in flight until it is completed.  At some time before that it is applied to the cache,
 * in any order among the requests in flight; it reads the caller's memory at that time.  A flush
 * makes durable what had completed when the flush was issued, and possibly not more.  After a power
 * cut each block has, independently, its durable version or any later one: writes are reordered,
 * torn at block boundaries, or lost.
 *
 * The disk stands for several drives, one after the other, each with its own cache; a flush is for
 * one drive.
 *
 * The disk is sparse: a block that was never written reads as zero.
 */
#ifndef UNIT_DISK_H
#define UNIT_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "../common/random.h"

struct disk;

enum disk_cut {
	DISK_CUT_RANDOM,	/* any version of any block */
	DISK_CUT_DROP,		/* the durable version of each block */
	DISK_CUT_KEEP,		/* the newest version of each block */
	DISK_CUT_LATE,		/* later versions more often than earlier ones */
	DISK_CUT_KINDS
};

/* @drives drives of @bytes bytes each */
struct disk *disk_new(uint64_t bytes, uint32_t drives, uint64_t *random);
void disk_free(struct disk *disk);

/* Requests in flight have small numbers. */
uint32_t disk_write(struct disk *disk, uint64_t offset, const struct iovec *iov, uint32_t nr_iov);
/* Make a write durable when it is completed. */
void disk_durable(struct disk *disk, uint32_t request);
uint32_t disk_flush(struct disk *disk, uint32_t drive);
uint32_t disk_in_flight(const struct disk *disk);
/* The nth request in flight, for a scheduler that picks one. */
uint32_t disk_nth(const struct disk *disk, uint32_t n);
void disk_apply(struct disk *disk, uint32_t request);
void disk_complete(struct disk *disk, uint32_t request);
/* End a request; a write that is not applied yet has no effect. */
void disk_drop(struct disk *disk, uint32_t request);
/* A flush fails: any of the writes that it should make durable are lost. */
void disk_fail_flush(struct disk *disk, uint32_t request);

void disk_read(struct disk *disk, uint64_t offset, void *data, uint32_t length);
bool disk_hole(const struct disk *disk, uint64_t offset, uint32_t length);
void disk_cut(struct disk *disk, enum disk_cut kind);
/* A writer is killed: its writes in flight are applied, each whole, in any order. */
void disk_land(struct disk *disk);
/* Durable damage: set a block to zero, or turn one bit of it. */
void disk_zero(struct disk *disk, uint64_t offset);
void disk_flip(struct disk *disk, uint64_t offset, uint32_t bit);
/* Make the newest version of each block durable. */
void disk_settle(struct disk *disk);

#endif
