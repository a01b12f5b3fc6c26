// SPDX-License-Identifier: GPL-2.0
/*
 * Reading ahead of direct readers of a tiered disk.
 *
 * A read that begins where another has ended goes on with a stream.  What comes next is asked for before it
 * is read, by requests that nothing waits for; the daemon takes them after all others (fetch.c).  The
 * window begins with twice the read, and doubles each time that the stream has come into its second half,
 * up to the disk's read_ahead_kb.  A read that goes on with no stream, and meets a COLD block, begins one.
 *
 * The page cache reads ahead by itself, by the same read_ahead_kb, and marks its reads: these are left
 * alone.
 *
 * What is read ahead comes into memory at the cost of something else.  So a stream is read ahead while
 * memory is not short, and its reads do not count as uses, by which eviction would keep the blocks:
 * they are as those of a reader that has waited.
 *
 * All of it is a hint: a stream may be forgotten, and a block that was asked for may leave memory again.
 *
 * Locks: aheads->lock for the streams.  A reader that goes on with none only looks at @next.
 */
#include <linux/backing-dev.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/slab.h>

#include "ahead.h"
#include "blockio.h"
#include "fetch.h"
#include "handle.h"
#include "store.h"

#define LSMEM_STREAMS		16u	/* of a disk */
#define LSMEM_STREAM_AGE	64u	/* so many begin before one that is read ahead counts as left */
#define LSMEM_AHEAD_MOST	1024u	/* blocks: a quarter of the requests that there may be */

/**
 * struct lsmem_stream - reads that go on where others have ended
 * @window: blocks to ask for ahead; 0: it has been one read
 * @end: block behind what was looked at
 * @turn: aheads->turn when it was last read
 * @asked: of what was looked at last, some blocks were asked for
 */
struct lsmem_stream {
	u32 window;
	u64 end;
	u64 turn;
	bool asked;
};

/**
 * struct lsmem_aheads - the streams of a disk
 * @next: of each stream the block at which it goes on; 0: none
 * @lock: see above
 * @turn: streams that have begun
 * @streams: the streams
 */
struct lsmem_aheads {
	u64 next[LSMEM_STREAMS];
	spinlock_t lock;
	u64 turn;
	struct lsmem_stream streams[LSMEM_STREAMS];
};

/**
 * lsmem_aheads_make - make the streams of a disk
 * Return: none has begun; or NULL.
 */
struct lsmem_aheads *lsmem_aheads_make(void)
{
	struct lsmem_aheads *aheads = kzalloc(sizeof(*aheads), GFP_KERNEL);

	if (aheads)
		spin_lock_init(&aheads->lock);
	return aheads;
}

/**
 * lsmem_aheads_free - the last bio has ended
 * @aheads: NULL: nothing
 */
void lsmem_aheads_free(struct lsmem_aheads *aheads)
{
	kfree(aheads);
}

/* The stream that goes on at a block, or LSMEM_STREAMS. */
static u32 lsmem_stream_find(const struct lsmem_aheads *aheads, u64 block)
{
	u32 i;

	for (i = 0; i < LSMEM_STREAMS && READ_ONCE(aheads->next[i]) != block; i++)
		;
	return i;
}

/* Is there memory for @blocks more that nothing waits for? */
static bool lsmem_ahead_fits(const struct lsmem_store *store, u64 blocks)
{
	return !atomic_read(&store->space.stalled) && lsmem_seglets_free(&store->seglets) >
	       READ_ONCE(store->seglets.reserve) + 2 * blocks * LSMEM_BLOCK / LSMEM_SEGLET_BYTES;
}

/* A stream has gone on up to ahead->to: what is to be asked for? */
static void lsmem_stream_on(struct lsmem_store *store, struct lsmem_stream *s, u64 from, u32 most,
			    struct lsmem_ahead *ahead)
{
	u64 to = ahead->to;

	if (!s->window)
		s->window = 2 * (to - from);
	s->window = min(s->window, most);
	s->end = max(s->end, to);
	if (s->end - to > s->window / 2 || !lsmem_ahead_fits(store, s->window))
		return;
	ahead->from = s->end;
	ahead->end = min(to + s->window, store->handles.nr);
	s->end = max(s->end, ahead->end);
	s->window *= 2;
}

/**
 * lsmem_ahead_look - a bio reads the disk
 * @store: tiered, with a disk
 * @bio: a read of whole blocks of the disk, which has not begun
 * @ahead: out: for lsmem_ahead_ask()
 */
void lsmem_ahead_look(struct lsmem_store *store, const struct bio *bio, struct lsmem_ahead *ahead)
{
	u32 most = min_t(unsigned long, LSMEM_AHEAD_MOST,
			 READ_ONCE(bio->bi_bdev->bd_disk->bdi->ra_pages) * (PAGE_SIZE / LSMEM_BLOCK));
	u64 from = bio->bi_iter.bi_sector / LSMEM_BLOCK_SECTORS;
	struct lsmem_aheads *aheads = store->aheads;
	u32 i;

	*ahead = (struct lsmem_ahead){ .to = bio_end_sector(bio) / LSMEM_BLOCK_SECTORS };
	if (!from || lsmem_stream_find(aheads, from) == LSMEM_STREAMS)
		return;
	spin_lock(&aheads->lock);
	i = lsmem_stream_find(aheads, from);
	if (i < LSMEM_STREAMS) {
		struct lsmem_stream *s = &aheads->streams[i];

		ahead->follows = true;
		ahead->once = s->asked;
		s->turn = aheads->turn;
		WRITE_ONCE(aheads->next[i], ahead->to);
		if (most && !(bio->bi_opf & REQ_RAHEAD))
			lsmem_stream_on(store, s, from, most, ahead);
	}
	spin_unlock(&aheads->lock);
}

/* Begin a stream, in place of one that has been one read, or was not read for long. */
static void lsmem_stream_begin(struct lsmem_aheads *aheads, u64 next)
{
	u64 least = U64_MAX;
	u32 i, found = 0;

	spin_lock(&aheads->lock);
	aheads->turn++;
	for (i = 0; i < LSMEM_STREAMS; i++) {
		u64 turn = aheads->streams[i].turn + (aheads->streams[i].window ? LSMEM_STREAM_AGE : 0);

		if (turn < least) {
			least = turn;
			found = i;
		}
	}
	aheads->streams[found] = (struct lsmem_stream){ .turn = aheads->turn };
	WRITE_ONCE(aheads->next[found], next);
	spin_unlock(&aheads->lock);
}

/**
 * lsmem_ahead_ask - a bio has been read, or waits for its blocks
 * @store: as lsmem_ahead_look() was told
 * @ahead: what that has found
 * @cold: it has met a COLD block
 *
 * Context: may sleep.
 */
void lsmem_ahead_ask(struct lsmem_store *store, const struct lsmem_ahead *ahead, bool cold)
{
	u64 block;
	u32 asked = 0, i;

	if (!ahead->follows && cold)
		lsmem_stream_begin(store->aheads, ahead->to);
	if (ahead->from >= ahead->end)
		return;
	for (block = ahead->from; block < ahead->end; block++) {
		u64 word = READ_ONCE(lsmem_handle_at(&store->handles, block)->word);

		if (lsmem_word_state(word) == LSMEM_WORD_COLD)
			asked += lsmem_fetch_ahead(store, block, word);
		cond_resched();
	}
	lsmem_count(store, fetches_ahead, asked);
	spin_lock(&store->aheads->lock);
	i = lsmem_stream_find(store->aheads, ahead->to);
	if (i < LSMEM_STREAMS)
		store->aheads->streams[i].asked = asked;
	spin_unlock(&store->aheads->lock);
}
