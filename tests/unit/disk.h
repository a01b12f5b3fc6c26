/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A simulated disk with a volatile cache.
 *
 * A write lies in flight until it is completed; somewhere between it is applied
 * to the cache, in any order among those in flight, reading the caller's memory
 * at that moment.  A flush makes durable what had completed when it was issued,
 * and need not do more.  A power cut leaves in each block, independently, what
 * was durable or any later version of it: writes come out reordered, torn at
 * block boundaries, or not at all.
 *
 * It stands for several drives that lie behind each other, each with a cache of its
 * own: a flush is of one of them.
 *
 * Sparse: a block that was never written reads as zero.
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
	DISK_CUT_DROP,		/* nothing that was not flushed */
	DISK_CUT_KEEP,		/* everything */
	DISK_CUT_LATE,		/* later writes rather than earlier ones */
	DISK_CUT_KINDS
};

/* @drives of @bytes each. */
struct disk *disk_new(uint64_t bytes, uint32_t drives, uint64_t *random);
void disk_free(struct disk *disk);

/* Handles of requests in flight: small numbers. */
uint32_t disk_write(struct disk *disk, uint64_t offset, const struct iovec *iov, uint32_t nr_iov);
/* A write that is durable when it is completed. */
void disk_durable(struct disk *disk, uint32_t request);
uint32_t disk_flush(struct disk *disk, uint32_t drive);
uint32_t disk_in_flight(const struct disk *disk);
/* The nth request in flight, for a scheduler that picks one. */
uint32_t disk_nth(const struct disk *disk, uint32_t n);
void disk_apply(struct disk *disk, uint32_t request);
void disk_complete(struct disk *disk, uint32_t request);
/* Ends without having done anything that was not done already. */
void disk_drop(struct disk *disk, uint32_t request);
/* A flush fails: what it should have made durable is lost, as far as it likes. */
void disk_fail_flush(struct disk *disk, uint32_t request);

void disk_read(struct disk *disk, uint64_t offset, void *data, uint32_t length);
bool disk_hole(const struct disk *disk, uint64_t offset, uint32_t length);
void disk_cut(struct disk *disk, enum disk_cut kind);
/* A writer is killed: what it had in flight lands, whole, in any order. */
void disk_land(struct disk *disk);
/* Durable damage: a block reads as zero, or one bit of it is turned. */
void disk_zero(struct disk *disk, uint64_t offset);
void disk_flip(struct disk *disk, uint64_t offset, uint32_t bit);
/* Everything is durable as it reads now. */
void disk_settle(struct disk *disk);

#endif
