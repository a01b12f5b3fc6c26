// SPDX-License-Identifier: GPL-2.0
/*
 * The memory of a store, in seglets of 64 KiB.
 *
 * A store allocates all its seglets when it is created and frees them when it is
 * destroyed.  In between it never calls the page allocator, so append, cleaning and
 * block I/O cannot wait for reclaim that waits for them.  Memory is allocated in
 * blocks of order 9 where possible and split: each page has its own reference count
 * and can be mapped by the daemon or outlive the store under a pin.  Seglets are
 * zeroed when they are allocated: nothing leaks between stores.
 *
 * A seglet keeps its number, which is its place in every window.  Free seglets are a
 * stack under @lock, a leaf lock held for a few instructions once per 64 KiB
 * appended and once per compaction.  The last @base free seglets are reserved for
 * the cleaner; during a pass it can claim more, so that writers cannot take what its
 * survivors need.  A compaction borrows from this reserve: it returns more than it
 * takes, so writers continue as if it had taken none.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "seglet.h"

#define LSMEM_SEGLET_ORDER	(ilog2(LSMEM_SEGLET_BYTES) - PAGE_SHIFT)
#define LSMEM_BLOCK_ORDER	9
#define LSMEM_SEGLETS_KEPT	8	/* that compaction leaves: heads end their segments */

static u64 lsmem_seglets_mib(u32 nr)
{
	return ((u64)nr * LSMEM_SEGLET_BYTES) >> 20;
}

/* Allocate 2^order pages and make seglets of them. Returns how many, or a negative errno. */
static int lsmem_seglets_add(struct lsmem_seglets *seglets, u32 first, unsigned int order)
{
	u32 nr = 1u << (order - LSMEM_SEGLET_ORDER);
	struct page *page;
	u32 i;

	/* __GFP_NORETRY, not __GFP_RETRY_MAYFAIL: on failure a smaller block is tried. */
	page = alloc_pages((seglets->gfp & ~__GFP_RETRY_MAYFAIL) | __GFP_ZERO | __GFP_NORETRY |
			   __GFP_NOWARN, order);
	if (!page)
		return -ENOMEM;
	split_page(page, order);	/* and with it what the block is charged to */
	seglets->on_node[page_to_nid(page)] += nr;
	for (i = 0; i < nr; i++)
		seglets->address[first + i] = page_address(page + i * LSMEM_SEGLET_PAGES);
	return nr;
}

/**
 * lsmem_seglets_fill - take the memory of a store
 * @seglets: from lsmem_seglets_init()
 *
 * The last step of creating a store, because it takes long and evicts other memory.
 * Context: sleeps; killable.  Return: 0; -ENOMEM (the log says how much could be
 * allocated) or -EINTR; then lsmem_seglets_destroy() frees what was allocated.
 */
int lsmem_seglets_fill(struct lsmem_seglets *seglets)
{
	unsigned int order = LSMEM_BLOCK_ORDER;
	u32 have = 0, i;
	int ret;

	while (have < seglets->nr) {
		if (fatal_signal_pending(current))
			return -EINTR;
		while ((1u << (order - LSMEM_SEGLET_ORDER)) > seglets->nr - have)
			order--;
		ret = lsmem_seglets_add(seglets, have, order);
		if (ret < 0) {
			if (order == LSMEM_SEGLET_ORDER) {
				pr_err("%llu MiB of seglets could be had of %llu MiB: no store was made\n",
				       lsmem_seglets_mib(have), lsmem_seglets_mib(seglets->nr));
				return ret;
			}
			order--;	/* memory is fragmented: try smaller blocks */
			continue;
		}
		have += ret;
		cond_resched();
	}
	/* Lowest numbers on top: a store that is nearly empty uses the front of its window. */
	for (i = 0; i < seglets->nr; i++)
		seglets->free[i] = seglets->nr - 1 - i;
	seglets->nr_free = seglets->nr;
	return 0;
}

/**
 * lsmem_seglets_init - make the tables of a store's seglets
 * @seglets: what to fill in
 * @bytes: a multiple of LSMEM_SEGMENT_BYTES, up to LSMEM_BYTES_MAX
 * @gfp: of the tables, and of the seglets to come: LSMEM_GFP or LSMEM_GFP_CHARGED
 *
 * The store has no seglets before lsmem_seglets_fill().
 * Context: sleeps.  Return: 0 or -ENOMEM; nothing stays allocated on error.
 */
int lsmem_seglets_init(struct lsmem_seglets *seglets, u64 bytes, gfp_t gfp)
{
	u32 i;

	seglets->nr = bytes / LSMEM_SEGLET_BYTES;
	seglets->gfp = gfp;
	spin_lock_init(&seglets->lock);
	seglets->on_node = kcalloc(nr_node_ids, sizeof(*seglets->on_node), gfp);
	seglets->address = kvcalloc(seglets->nr, sizeof(*seglets->address), gfp);
	seglets->owner = kvcalloc(seglets->nr, sizeof(*seglets->owner), gfp);
	seglets->free = kvcalloc(seglets->nr, sizeof(*seglets->free), gfp);
	seglets->table = lsmem_table_alloc(array_size(seglets->nr, sizeof(*seglets->table)), gfp);
	if (!seglets->on_node || !seglets->address || !seglets->owner || !seglets->free ||
	    !seglets->table) {
		lsmem_seglets_destroy(seglets);
		return -ENOMEM;
	}
	for (i = 0; i < seglets->nr; i++) {
		seglets->owner[i] = LSMEM_NO_SEGLET;
		seglets->table[i].next = LSMEM_NO_SEGLET;
	}
	return 0;
}

/**
 * lsmem_seglets_destroy - give the memory back
 * @seglets: initialised, in part or whole; no longer in use
 *
 * Pages that O_DIRECT through a window has pinned are freed when the pin is dropped.
 */
void lsmem_seglets_destroy(struct lsmem_seglets *seglets)
{
	u32 i, j;

	for (i = 0; seglets->address && i < seglets->nr; i++) {
		struct page *page;

		if (!seglets->address[i])
			break;
		page = virt_to_page(seglets->address[i]);
		for (j = 0; j < LSMEM_SEGLET_PAGES; j++)
			__free_page(page + j);
		if (i % 512 == 0)
			cond_resched();
	}
	vfree(seglets->table);
	kvfree(seglets->free);
	kvfree(seglets->owner);
	kvfree(seglets->address);
	kfree(seglets->on_node);
	memset(seglets, 0, sizeof(*seglets));
}

/* Free seglets that a taker of this kind must leave. */
static u32 lsmem_seglets_floor(const struct lsmem_seglets *seglets, enum lsmem_taker taker)
{
	if (taker == LSMEM_TAKER_CLEANER)
		return 0;
	if (taker == LSMEM_TAKER_RECORD)
		return seglets->claimed;
	return max(min(seglets->claimed + LSMEM_SEGLETS_KEPT, seglets->reserve),
		   seglets->reserve - min(seglets->lent, seglets->base));
}

/**
 * lsmem_seglet_get - take a free seglet
 * @seglets: the store's seglets
 * @owner: index of the segment that takes it
 * @taker: what for
 *
 * Context: any; does not sleep.  Return: the seglet's number or -ENOSPC.
 */
int lsmem_seglet_get(struct lsmem_seglets *seglets, u32 owner, enum lsmem_taker taker)
{
	int seglet = -ENOSPC;

	spin_lock(&seglets->lock);
	if (seglets->nr_free > lsmem_seglets_floor(seglets, taker)) {
		WRITE_ONCE(seglets->nr_free, seglets->nr_free - 1);
		seglet = seglets->free[seglets->nr_free];
		WRITE_ONCE(seglets->owner[seglet], owner);
		WRITE_ONCE(seglets->table[seglet].next, LSMEM_NO_SEGLET);
		if (taker == LSMEM_TAKER_CLEANER && seglets->reserve > seglets->base)
			WRITE_ONCE(seglets->reserve, seglets->reserve - 1);
		if (taker == LSMEM_TAKER_CLEANER && seglets->claimed)
			seglets->claimed--;
		WRITE_ONCE(seglets->table[seglet].incarnation,
			   seglets->table[seglet].incarnation + 1);
	}
	spin_unlock(&seglets->lock);
	return seglet;
}

/**
 * lsmem_seglets_take - borrow all seglets that a compaction needs, or none
 * @seglets: the store's
 * @owner: index of the segment
 * @nr: how many, at least 1
 * @taken: out: @nr seglets, chained in this order
 *
 * Leaves the seglets that a pass has claimed, and a few for commit records.  The loan
 * ends with lsmem_seglets_give() or lsmem_seglets_keep().
 * Return: false if there are too few.
 */
bool lsmem_seglets_take(struct lsmem_seglets *seglets, u32 owner, u32 nr, u32 *taken)
{
	bool enough;
	u32 i;

	spin_lock(&seglets->lock);
	enough = seglets->nr_free >= nr + seglets->claimed + LSMEM_SEGLETS_KEPT;
	for (i = 0; enough && i < nr; i++) {
		u32 seglet = seglets->free[seglets->nr_free - 1];
		struct lsmem_seglet *shown = &seglets->table[seglet];

		WRITE_ONCE(seglets->nr_free, seglets->nr_free - 1);
		WRITE_ONCE(seglets->owner[seglet], owner);
		WRITE_ONCE(shown->next, LSMEM_NO_SEGLET);
		WRITE_ONCE(shown->incarnation, shown->incarnation + 1);
		if (i)
			WRITE_ONCE(seglets->table[taken[i - 1]].next, seglet);
		taken[i] = seglet;
	}
	if (enough)
		WRITE_ONCE(seglets->lent, seglets->lent + nr);
	spin_unlock(&seglets->lock);
	return enough;
}

/**
 * lsmem_seglets_keep - a compaction keeps the seglets that it borrowed
 * @seglets: the store's
 * @lent: how many
 */
void lsmem_seglets_keep(struct lsmem_seglets *seglets, u32 lent)
{
	spin_lock(&seglets->lock);
	WRITE_ONCE(seglets->lent, seglets->lent - lent);
	spin_unlock(&seglets->lock);
}

static void lsmem_seglet_put_locked(struct lsmem_seglets *seglets, u32 seglet)
{
	WRITE_ONCE(seglets->owner[seglet], LSMEM_NO_SEGLET);
	seglets->free[seglets->nr_free] = seglet;
	WRITE_ONCE(seglets->nr_free, seglets->nr_free + 1);
}

/**
 * lsmem_seglets_give - free a chain of seglets
 * @seglets: the store's
 * @first: of the chain
 * @nr: how many; no reader can see any of them
 * @lent: how many of these had been borrowed
 */
void lsmem_seglets_give(struct lsmem_seglets *seglets, u32 first, u32 nr, u32 lent)
{
	u32 seglet = first, next;

	spin_lock(&seglets->lock);
	for (; nr; nr--, seglet = next) {
		next = seglets->table[seglet].next;
		lsmem_seglet_put_locked(seglets, seglet);
	}
	WRITE_ONCE(seglets->lent, seglets->lent - lent);
	spin_unlock(&seglets->lock);
}

/**
 * lsmem_seglets_claimable - how many seglets a pass could claim
 * @seglets: the store's
 * @most: that it can use
 * Return: the reserve, and half of the free seglets beyond it.
 */
u32 lsmem_seglets_claimable(const struct lsmem_seglets *seglets, u32 most)
{
	u32 free = READ_ONCE(seglets->nr_free);

	if (free > seglets->base)
		free = seglets->base + (free - seglets->base) / 2;
	return min(free, max(most, seglets->base));
}

/**
 * lsmem_seglets_claim - claim seglets for a pass that begins
 * @seglets: the store's seglets
 * @most: that the pass can use
 *
 * Claims the base reserve and half of the free seglets beyond it; writers get the rest.
 * Return: seglets that the pass can take, whatever writers take meanwhile.
 */
u32 lsmem_seglets_claim(struct lsmem_seglets *seglets, u32 most)
{
	u32 claimed;

	spin_lock(&seglets->lock);
	claimed = lsmem_seglets_claimable(seglets, most);
	seglets->claimed = claimed;
	WRITE_ONCE(seglets->reserve, max(claimed, seglets->base));
	spin_unlock(&seglets->lock);
	return claimed;
}

/**
 * lsmem_seglets_reclaim - reduce the claim to what the pass needs
 * @seglets: the store's
 * @needed: seglets; the rest of the claim is free for compaction
 */
void lsmem_seglets_reclaim(struct lsmem_seglets *seglets, u32 needed)
{
	spin_lock(&seglets->lock);
	seglets->claimed = min(seglets->claimed, needed);
	WRITE_ONCE(seglets->reserve, max(seglets->claimed, seglets->base));
	spin_unlock(&seglets->lock);
}

/**
 * lsmem_seglets_unclaim - drop the claim of a pass that has ended
 * @seglets: the store's seglets
 */
void lsmem_seglets_unclaim(struct lsmem_seglets *seglets)
{
	spin_lock(&seglets->lock);
	seglets->claimed = 0;
	WRITE_ONCE(seglets->reserve, seglets->base);
	spin_unlock(&seglets->lock);
}

/**
 * lsmem_seglets_put - free seglets
 * @seglets: the store's seglets
 * @put: their numbers; no view, kernel reader or lease covers them (invariant 10)
 * @nr: how many, at most LSMEM_SEGLETS, which bounds how long the lock is held
 *
 * Context: any; does not sleep.
 */
void lsmem_seglets_put(struct lsmem_seglets *seglets, const u32 *put, u32 nr)
{
	u32 i;

	spin_lock(&seglets->lock);
	for (i = 0; i < nr; i++)
		lsmem_seglet_put_locked(seglets, put[i]);
	spin_unlock(&seglets->lock);
}
