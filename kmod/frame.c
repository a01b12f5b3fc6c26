// SPDX-License-Identifier: GPL-2.0
/*
 * Frames: the memory of a store, in seglets of 64 KiB.
 *
 * All frames come when the store is made and go when it is destroyed; in
 * between the page allocator is never asked, so that append, cleaning and
 * block I/O cannot wait for reclaim that waits for them.  Blocks of order 9
 * are taken where they can be had and split, so that each page has a count of
 * its own and may be put into the daemon's window or outlive the store under a
 * pin.  Frames are zeroed when a store gets them: nothing leaks between stores.
 *
 * A frame has a number, its place in every window; it never moves to another.
 * Free frames are a stack under @lock, a leaf lock held for a few instructions
 * once per 64 KiB appended, and once for the frames of each compaction.  The last
 * @base frames are the cleaner's; for the length of a pass it may claim more, so
 * that writers cannot take away what the survivors were promised.  What a
 * compaction takes is lent to it from these: it gives more back, so writers go on
 * meanwhile as if it had taken none.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "frame.h"

#define LSMEM_SEGLET_ORDER	(ilog2(LSMEM_SEGLET_BYTES) - PAGE_SHIFT)
#define LSMEM_BLOCK_ORDER	9
#define LSMEM_FRAMES_KEPT	8	/* that compaction leaves: heads end their segments */

static u64 lsmem_frames_mib(u32 nr)
{
	return ((u64)nr * LSMEM_SEGLET_BYTES) >> 20;
}

/* Take 2^order pages and make frames of them; returns how many, or an errno. */
static int lsmem_frames_add(struct lsmem_frames *frames, u32 first, unsigned int order)
{
	u32 nr = 1u << (order - LSMEM_SEGLET_ORDER);
	struct page *page;
	u32 i;

	/* __GFP_NORETRY: less than __GFP_RETRY_MAYFAIL, smaller blocks are tried. */
	page = alloc_pages((frames->gfp & ~__GFP_RETRY_MAYFAIL) | __GFP_ZERO | __GFP_NORETRY |
			   __GFP_NOWARN, order);
	if (!page)
		return -ENOMEM;
	split_page(page, order);	/* and with it what the block is charged to */
	frames->on_node[page_to_nid(page)] += nr;
	for (i = 0; i < nr; i++)
		frames->address[first + i] = page_address(page + i * LSMEM_SEGLET_PAGES);
	return nr;
}

/**
 * lsmem_frames_fill - take the memory of a store
 * @frames: from lsmem_frames_init()
 *
 * After all else that a store needs is there: this is what takes long, and drives
 * other memory out.
 * Context: sleeps; killable.  Return: 0; -ENOMEM (the log says how much there was)
 * or -EINTR: lsmem_frames_destroy() gives back what was had.
 */
int lsmem_frames_fill(struct lsmem_frames *frames)
{
	unsigned int order = LSMEM_BLOCK_ORDER;
	u32 have = 0, i;
	int ret;

	while (have < frames->nr) {
		if (fatal_signal_pending(current))
			return -EINTR;
		while ((1u << (order - LSMEM_SEGLET_ORDER)) > frames->nr - have)
			order--;
		ret = lsmem_frames_add(frames, have, order);
		if (ret < 0) {
			if (order == LSMEM_SEGLET_ORDER) {
				pr_err("%llu MiB of frames could be had of %llu MiB: no store was made\n",
				       lsmem_frames_mib(have), lsmem_frames_mib(frames->nr));
				return ret;
			}
			order--;	/* memory is fragmented: smaller blocks do */
			continue;
		}
		have += ret;
		cond_resched();
	}
	/* Lowest numbers on top: a young store uses the front of its window. */
	for (i = 0; i < frames->nr; i++)
		frames->free[i] = frames->nr - 1 - i;
	frames->nr_free = frames->nr;
	return 0;
}

/**
 * lsmem_frames_init - make the tables of a store's frames
 * @frames: what to fill in
 * @bytes: a multiple of LSMEM_SEGMENT_BYTES, up to LSMEM_BYTES_MAX
 * @gfp: of the tables, and of the frames to come: LSMEM_GFP or LSMEM_GFP_CHARGED
 *
 * No frame is there, so none is free, before lsmem_frames_fill().
 * Context: sleeps.  Return: 0 or -ENOMEM; nothing is kept on error.
 */
int lsmem_frames_init(struct lsmem_frames *frames, u64 bytes, gfp_t gfp)
{
	u32 i;

	frames->nr = bytes / LSMEM_SEGLET_BYTES;
	frames->gfp = gfp;
	spin_lock_init(&frames->lock);
	frames->on_node = kcalloc(nr_node_ids, sizeof(*frames->on_node), gfp);
	frames->address = kvcalloc(frames->nr, sizeof(*frames->address), gfp);
	frames->owner = kvcalloc(frames->nr, sizeof(*frames->owner), gfp);
	frames->free = kvcalloc(frames->nr, sizeof(*frames->free), gfp);
	frames->table = lsmem_table_alloc(array_size(frames->nr, sizeof(*frames->table)), gfp);
	if (!frames->on_node || !frames->address || !frames->owner || !frames->free ||
	    !frames->table) {
		lsmem_frames_destroy(frames);
		return -ENOMEM;
	}
	for (i = 0; i < frames->nr; i++) {
		frames->owner[i] = LSMEM_NO_FRAME;
		frames->table[i].next = LSMEM_NO_FRAME;
	}
	return 0;
}

/**
 * lsmem_frames_destroy - give the memory back
 * @frames: initialised, in part or whole; not used any more
 *
 * Pages pinned by a window's O_DIRECT stay until the pin goes.
 */
void lsmem_frames_destroy(struct lsmem_frames *frames)
{
	u32 i, j;

	for (i = 0; frames->address && i < frames->nr; i++) {
		struct page *page;

		if (!frames->address[i])
			break;
		page = virt_to_page(frames->address[i]);
		for (j = 0; j < LSMEM_SEGLET_PAGES; j++)
			__free_page(page + j);
		if (i % 512 == 0)
			cond_resched();
	}
	vfree(frames->table);
	kvfree(frames->free);
	kvfree(frames->owner);
	kvfree(frames->address);
	kfree(frames->on_node);
	memset(frames, 0, sizeof(*frames));
}

/* How many free frames are left to others. */
static u32 lsmem_frames_floor(const struct lsmem_frames *frames, enum lsmem_taker taker)
{
	if (taker == LSMEM_TAKER_CLEANER)
		return 0;
	if (taker == LSMEM_TAKER_RECORD)
		return frames->claimed;
	return max(min(frames->claimed + LSMEM_FRAMES_KEPT, frames->reserve),
		   frames->reserve - min(frames->lent, frames->base));
}

/**
 * lsmem_frame_get - take a free frame
 * @frames: the store's frames
 * @owner: slot of the segment that takes it
 * @taker: what for
 *
 * Context: any; does not sleep.  Return: the frame's number or -ENOSPC.
 */
int lsmem_frame_get(struct lsmem_frames *frames, u32 owner, enum lsmem_taker taker)
{
	int frame = -ENOSPC;

	spin_lock(&frames->lock);
	if (frames->nr_free > lsmem_frames_floor(frames, taker)) {
		WRITE_ONCE(frames->nr_free, frames->nr_free - 1);
		frame = frames->free[frames->nr_free];
		WRITE_ONCE(frames->owner[frame], owner);
		WRITE_ONCE(frames->table[frame].next, LSMEM_NO_FRAME);
		if (taker == LSMEM_TAKER_CLEANER && frames->reserve > frames->base)
			WRITE_ONCE(frames->reserve, frames->reserve - 1);
		if (taker == LSMEM_TAKER_CLEANER && frames->claimed)
			frames->claimed--;
		WRITE_ONCE(frames->table[frame].incarnation,
			   frames->table[frame].incarnation + 1);
	}
	spin_unlock(&frames->lock);
	return frame;
}

/**
 * lsmem_frames_take - take all frames that a compaction needs, or none
 * @frames: the store's
 * @owner: slot of the segment
 * @nr: how many, at least 1
 * @taken: out: @nr frames, chained in this order
 *
 * Those that a pass has claimed are left to it, and a few to commit records.
 * They are lent until lsmem_frames_give() or lsmem_frames_keep().
 * Return: false when there are not so many.
 */
bool lsmem_frames_take(struct lsmem_frames *frames, u32 owner, u32 nr, u32 *taken)
{
	bool enough;
	u32 i;

	spin_lock(&frames->lock);
	enough = frames->nr_free >= nr + frames->claimed + LSMEM_FRAMES_KEPT;
	for (i = 0; enough && i < nr; i++) {
		u32 frame = frames->free[frames->nr_free - 1];
		struct lsmem_frame *shown = &frames->table[frame];

		WRITE_ONCE(frames->nr_free, frames->nr_free - 1);
		WRITE_ONCE(frames->owner[frame], owner);
		WRITE_ONCE(shown->next, LSMEM_NO_FRAME);
		WRITE_ONCE(shown->incarnation, shown->incarnation + 1);
		if (i)
			WRITE_ONCE(frames->table[taken[i - 1]].next, frame);
		taken[i] = frame;
	}
	if (enough)
		WRITE_ONCE(frames->lent, frames->lent + nr);
	spin_unlock(&frames->lock);
	return enough;
}

/**
 * lsmem_frames_keep - frames that a compaction took will not come back
 * @frames: the store's
 * @lent: how many
 */
void lsmem_frames_keep(struct lsmem_frames *frames, u32 lent)
{
	spin_lock(&frames->lock);
	WRITE_ONCE(frames->lent, frames->lent - lent);
	spin_unlock(&frames->lock);
}

static void lsmem_frame_put_locked(struct lsmem_frames *frames, u32 frame)
{
	WRITE_ONCE(frames->owner[frame], LSMEM_NO_FRAME);
	frames->free[frames->nr_free] = frame;
	WRITE_ONCE(frames->nr_free, frames->nr_free + 1);
}

/**
 * lsmem_frames_give - give a chain of frames back
 * @frames: the store's
 * @first: of the chain
 * @nr: how many; no reader can see any of them any more
 * @lent: as many had been lent for them
 */
void lsmem_frames_give(struct lsmem_frames *frames, u32 first, u32 nr, u32 lent)
{
	u32 frame = first, next;

	spin_lock(&frames->lock);
	for (; nr; nr--, frame = next) {
		next = frames->table[frame].next;
		lsmem_frame_put_locked(frames, frame);
	}
	WRITE_ONCE(frames->lent, frames->lent - lent);
	spin_unlock(&frames->lock);
}

/**
 * lsmem_frames_claimable - what a pass could claim
 * @frames: the store's
 * @most: that it can use
 * Return: all of the reserve, and half of what is free beyond it.
 */
u32 lsmem_frames_claimable(const struct lsmem_frames *frames, u32 most)
{
	u32 free = READ_ONCE(frames->nr_free);

	if (free > frames->base)
		free = frames->base + (free - frames->base) / 2;
	return min(free, max(most, frames->base));
}

/**
 * lsmem_frames_claim - the cleaner begins a pass
 * @frames: the store's frames
 * @most: frames it could use
 *
 * The base reserve, and half of what is free beyond it: writers go on meanwhile.
 * Return: frames that it will find, whatever others take.
 */
u32 lsmem_frames_claim(struct lsmem_frames *frames, u32 most)
{
	u32 claimed;

	spin_lock(&frames->lock);
	claimed = lsmem_frames_claimable(frames, most);
	frames->claimed = claimed;
	WRITE_ONCE(frames->reserve, max(claimed, frames->base));
	spin_unlock(&frames->lock);
	return claimed;
}

/**
 * lsmem_frames_reclaim - a pass knows what it needs
 * @frames: the store's
 * @needed: of the frames that it has claimed; compaction may have the rest
 */
void lsmem_frames_reclaim(struct lsmem_frames *frames, u32 needed)
{
	spin_lock(&frames->lock);
	frames->claimed = min(frames->claimed, needed);
	WRITE_ONCE(frames->reserve, max(frames->claimed, frames->base));
	spin_unlock(&frames->lock);
}

/**
 * lsmem_frames_unclaim - the pass is over
 * @frames: the store's frames
 */
void lsmem_frames_unclaim(struct lsmem_frames *frames)
{
	spin_lock(&frames->lock);
	frames->claimed = 0;
	WRITE_ONCE(frames->reserve, frames->base);
	spin_unlock(&frames->lock);
}

/**
 * lsmem_frames_put - frames are free again
 * @frames: the store's frames
 * @put: their numbers; no epoch and no lease can see them (invariant 10)
 * @nr: how many, at most LSMEM_SEGLETS: this bounds how long the lock is held
 *
 * Context: any; does not sleep.
 */
void lsmem_frames_put(struct lsmem_frames *frames, const u32 *put, u32 nr)
{
	u32 i;

	spin_lock(&frames->lock);
	for (i = 0; i < nr; i++)
		lsmem_frame_put_locked(frames, put[i]);
	spin_unlock(&frames->lock);
}
