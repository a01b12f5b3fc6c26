// SPDX-License-Identifier: GPL-2.0
/*
 * Misses: objects of a call that are on backups only are asked for together, before the call waits for the first.
 *
 * Sorted by their places on the backups, those that lie close together become a run: one read of the near drive
 * (joined.c, near.c).  The runs are asked for in the order in which the operations need them.  A thread has a bounded number of
 * reads of the near drive; so each time that the call comes to an object that is not there, the next runs are asked
 * for, as far as reads have ended.  What the near drive does not have is asked of the daemon at once, which joins requests
 * itself.
 *
 * Each operation waits for its own request, and takes its result: an object that no backup has is asked for, and
 * counted, once.
 *
 * Context: asking allocates memory, and can wait for the drive's queue, so that nothing is held.  No locks.
 */
#include <linux/blkdev.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "fetch.h"
#include "handle.h"
#include "joined.h"
#include "misses.h"
#include "store.h"

/**
 * struct lsmem_run - misses that are asked for together
 * @first: of them
 * @nr: of them
 * @op: the first operation that needs one
 * @end: block behind what is read of the segment's log
 */
struct lsmem_run {
	u8 first;
	u8 nr;
	u8 op;
	u32 end;
};

/**
 * struct lsmem_misses - the misses of up to LSMEM_MISSES_MAX operations
 * @store: tiered
 * @nr: of @miss
 * @runs: of @run
 * @asked: of these, how many were asked for
 * @of: of each operation: which miss it has to wait for, or LSMEM_MISSES_MAX
 * @miss: by place
 * @run: by operation
 */
struct lsmem_misses {
	struct lsmem_store *store;
	u32 nr;
	u32 runs;
	u32 asked;
	u8 of[LSMEM_MISSES_MAX];
	struct lsmem_miss miss[LSMEM_MISSES_MAX];
	struct lsmem_run run[LSMEM_MISSES_MAX];
};

static_assert(LSMEM_MISSES_MAX <= BITS_PER_TYPE(u64) && LSMEM_MISSES_MAX < U8_MAX);

static u64 lsmem_miss_place(const struct lsmem_miss *miss)
{
	return (u64)lsmem_cold_segment(miss->word) << 32 | lsmem_cold_block(miss->word);
}

/* By place; those of one object follow each other, the first operation first. */
static int lsmem_miss_cmp(const void *a, const void *b)
{
	const struct lsmem_miss *x = a, *y = b;
	u64 p = lsmem_miss_place(x), q = lsmem_miss_place(y);

	if (p != q)
		return p < q ? -1 : 1;
	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	return (int)x->op - (int)y->op;
}

static int lsmem_run_cmp(const void *a, const void *b)
{
	const struct lsmem_run *x = a, *y = b;

	return (int)x->op - (int)y->op;
}

/* Collect what is COLD, by place, no object twice. */
static void lsmem_misses_collect(struct lsmem_misses *misses, const struct lsmem_op *ops, u64 cold)
{
	const struct lsmem_handles *handles = &misses->store->handles;
	u32 nr = 0, i;

	for (; cold; cold &= cold - 1) {
		struct lsmem_miss *miss = &misses->miss[nr];

		miss->wanted = NULL;
		miss->op = __ffs64(cold);
		miss->index = lsmem_handle_index(ops[miss->op].handle);
		miss->word = READ_ONCE(lsmem_handle_at(handles, miss->index)->word);
		nr += lsmem_word_state(miss->word) == LSMEM_WORD_COLD;
	}
	sort(misses->miss, nr, sizeof(*misses->miss), lsmem_miss_cmp, NULL);
	for (i = 0; i < nr; i++)
		if (!misses->nr || misses->miss[misses->nr - 1].index != misses->miss[i].index)
			misses->miss[misses->nr++] = misses->miss[i];
}

/* Make runs of what lies close together. */
static void lsmem_misses_join(struct lsmem_misses *misses)
{
	struct lsmem_joined joined = { };
	u32 i;

	for (i = 0; i < misses->nr; i++) {
		const struct lsmem_miss *miss = &misses->miss[i];
		u32 segment = lsmem_cold_segment(miss->word), block = lsmem_cold_block(miss->word);
		u32 blocks = lsmem_cold_blocks(miss->word);
		struct lsmem_run *run = &misses->run[misses->runs];

		if (joined.nr == LSMEM_NEAR_OBJECTS || !lsmem_join(&joined, segment, block, blocks)) {
			joined.nr = 0;
			lsmem_join(&joined, segment, block, blocks);
		}
		if (joined.nr == 1) {
			*run = (struct lsmem_run){ .first = i, .op = miss->op };
			misses->runs++;
		} else {
			run--;
		}
		run->nr = joined.nr;
		run->op = min_t(u8, run->op, miss->op);
		run->end = joined.block + joined.blocks;
		misses->of[miss->op] = i;
	}
	sort(misses->run, misses->runs, sizeof(*misses->run), lsmem_run_cmp, NULL);
}

/* Put into memory what the near drive has read for the call meanwhile. Returns false if there was nothing. */
static bool lsmem_misses_end(struct lsmem_misses *misses)
{
	bool any = false;
	u32 i;

	for (i = 0; i < misses->nr; i++)
		if (misses->miss[i].wanted)
			any |= lsmem_fetch_end(misses->store, misses->miss[i].wanted);
	return any;
}

/* Ask for the next runs, as far as there is room. */
static void lsmem_misses_ask(struct lsmem_misses *misses)
{
	struct blk_plug plug;

	if (misses->asked == misses->runs)
		return;
	blk_start_plug(&plug);
	for (; misses->asked < misses->runs; misses->asked++) {
		const struct lsmem_run *run = &misses->run[misses->asked];
		struct lsmem_miss *miss = &misses->miss[run->first];

		while (lsmem_near_room(misses->store, lsmem_cold_segment(miss->word), current) == LSMEM_NEAR_LATER)
			if (!lsmem_misses_end(misses))
				goto out;
		lsmem_fetch_together(misses->store, miss, run->nr, run->end);
	}
out:
	blk_finish_plug(&plug);
}

/**
 * lsmem_misses_new - ask for the objects of operations that are COLD
 * @store: tiered, active
 * @ops: the operations
 * @cold: a bit for each of them whose object was found COLD; its index is below handles.nr
 *
 * Context: sleeps.
 * Return: for lsmem_misses_fetch() and lsmem_misses_free(); NULL: there is nothing to ask for, or no memory.
 */
struct lsmem_misses *lsmem_misses_new(struct lsmem_store *store, const struct lsmem_op *ops, u64 cold)
{
	struct lsmem_misses *misses;

	if (!cold)
		return NULL;
	misses = kmalloc(sizeof(*misses), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!misses)
		return NULL;
	misses->store = store;
	misses->nr = 0;
	misses->runs = 0;
	misses->asked = 0;
	memset(misses->of, LSMEM_MISSES_MAX, sizeof(misses->of));
	lsmem_misses_collect(misses, ops, cold);
	lsmem_misses_join(misses);
	lsmem_misses_ask(misses);
	return misses;
}

/**
 * lsmem_misses_has - was the object of an operation COLD?
 * @misses: of the operations; NULL: none
 * @which: of the operations
 * Return: false as well if an earlier one needs the same object.
 */
bool lsmem_misses_has(const struct lsmem_misses *misses, u32 which)
{
	return misses && misses->of[which] < misses->nr;
}

/**
 * lsmem_misses_fetch - have the object of an operation in memory, which was found COLD
 * @store: tiered, active
 * @misses: of the operations; NULL: none
 * @which: of the operations
 * @index: of the handle of its object, below handles.nr
 * @until: as of lsmem_fetch()
 * @deadline: as of lsmem_fetch()
 *
 * Asks for more of the misses first.
 *
 * Context: sleeps, killable; holds nothing.
 * Return: as lsmem_fetch().
 */
int lsmem_misses_fetch(struct lsmem_store *store, struct lsmem_misses *misses, u32 which, u64 index, u64 *until,
		       u64 deadline)
{
	struct lsmem_wanted *wanted = NULL;

	if (misses) {
		lsmem_misses_ask(misses);
		if (lsmem_misses_has(misses, which))
			swap(wanted, misses->miss[misses->of[which]].wanted);
	}
	return wanted ? lsmem_fetch_wait(store, wanted, until, deadline) :
			lsmem_fetch(store, index, until, deadline);
}

/**
 * lsmem_misses_free - the operations have been carried out, or given up
 * @misses: NULL: nothing
 *
 * What was asked for comes into memory nevertheless.
 */
void lsmem_misses_free(struct lsmem_misses *misses)
{
	u32 i;

	if (!misses)
		return;
	for (i = 0; i < misses->nr; i++)
		if (misses->miss[i].wanted)
			lsmem_fetch_leave(misses->store, misses->miss[i].wanted);
	kfree(misses);
}
