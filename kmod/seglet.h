/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The memory of a store, in seglets of 64 KiB.  See seglet.c.  lsmem_seglets_floor() decides how
 * many free seglets each enum lsmem_taker must leave.  segment.c takes seglets for appends,
 * compact.c for compactions; clean.c claims them for a pass.
 */
#ifndef LSMEM_SEGLET_H
#define LSMEM_SEGLET_H

#include <linux/mm.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/vmalloc.h>

#include "../uapi/lsmem.h"
#include "../uapi/lsmem_format.h"

#define LSMEM_SEGLET_PAGES	(LSMEM_SEGLET_BYTES >> PAGE_SHIFT)

/**
 * enum lsmem_taker - what a free seglet is taken for
 * @LSMEM_TAKER_WRITER: an entry of a writer; leaves the reserve
 * @LSMEM_TAKER_RECORD: a commit record of a writer's head; may take from the reserve, but
 *	leaves what a pass has claimed
 * @LSMEM_TAKER_CLEANER: a survivor; takes what the pass has claimed; a recovery, which takes all
 */
enum lsmem_taker {
	LSMEM_TAKER_WRITER,
	LSMEM_TAKER_RECORD,
	LSMEM_TAKER_CLEANER,
};

/**
 * struct lsmem_seglets - the seglets of one store
 * @nr: seglets in the store
 * @gfp: LSMEM_GFP or LSMEM_GFP_CHARGED, for seglets and tables
 * @on_node: seglets on each memory node, nr_node_ids entries; constant after
 *	lsmem_seglets_fill()
 * @base: free seglets that only the cleaner may take, so that a full store can be cleaned
 * @reserve: @base, or more while a pass claims more
 * @claimed: seglets that the pass under way may still take
 * @lent: seglets that compactions have borrowed
 * @address: kernel address of each seglet, by its number
 * @table: what clients see of each seglet (mapped read-only)
 * @owner: index of the segment that has the seglet, LSMEM_NO_SEGLET when free
 * @lock: innermost lock of the module; protects @free, @nr_free, incarnations
 * @free: stack of free seglets
 * @nr_free: entries of @free; read without the lock as a hint
 */
struct lsmem_seglets {
	u32 nr;
	gfp_t gfp;
	u32 *on_node;
	u32 base;
	u32 reserve;
	u32 claimed;
	u32 lent;
	void **address;
	struct lsmem_seglet *table;
	u32 *owner;
	spinlock_t lock;
	u32 *free;
	u32 nr_free;
};

/*
 * For a store that is not charged, and one that is charged to its creator's cgroup.  At the
 * cgroup's limit an allocation fails; without __GFP_RETRY_MAYFAIL the kernel would kill a
 * task of the cgroup instead.
 */
#define LSMEM_GFP		GFP_KERNEL
#define LSMEM_GFP_CHARGED	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/*
 * A zeroed table that windows map; freed by vfree().  From 2 MiB on it is made of whole 2 MiB, if
 * such blocks are free.  If not, vmalloc_huge() tries pages, which is nothing to warn of.
 */
static inline void *lsmem_table_alloc(size_t bytes, gfp_t gfp)
{
	return vmalloc_huge(bytes, gfp | __GFP_ZERO | __GFP_NOWARN);
}

int lsmem_seglets_init(struct lsmem_seglets *seglets, u64 bytes, gfp_t gfp);
int lsmem_seglets_fill(struct lsmem_seglets *seglets);
void lsmem_seglets_destroy(struct lsmem_seglets *seglets);
int lsmem_seglet_get(struct lsmem_seglets *seglets, u32 owner, enum lsmem_taker taker);
bool lsmem_seglets_take(struct lsmem_seglets *seglets, u32 owner, u32 nr, u32 *taken);
void lsmem_seglets_keep(struct lsmem_seglets *seglets, u32 lent);
void lsmem_seglets_give(struct lsmem_seglets *seglets, u32 first, u32 nr, u32 lent);
u32 lsmem_seglets_claimable(const struct lsmem_seglets *seglets, u32 most);
u32 lsmem_seglets_claim(struct lsmem_seglets *seglets, u32 most);
void lsmem_seglets_reclaim(struct lsmem_seglets *seglets, u32 needed);
void lsmem_seglets_unclaim(struct lsmem_seglets *seglets);
void lsmem_seglets_put(struct lsmem_seglets *seglets, const u32 *put, u32 nr);

/* Seglets that are free, or borrowed from the reserve; a hint. */
static inline u32 lsmem_seglets_free(const struct lsmem_seglets *seglets)
{
	return READ_ONCE(seglets->nr_free) + min(READ_ONCE(seglets->lent), seglets->base);
}

static inline void *lsmem_seglet_address(const struct lsmem_seglets *seglets, u32 seglet)
{
	return seglets->address[seglet];
}

#endif
