// SPDX-License-Identifier: GPL-2.0
/*
 * The handle table: stable names for entries that move.
 *
 * 16 bytes for each index, mapped read-only into clients: one word that is
 * only ever exchanged as a whole {position, state, tag}, and one that changes
 * only while the index belongs to one task {generation, table}.  The order
 * of the exchanges on a word is the order of the changes to its object
 * (invariant 6).
 *
 * Indices are given out in turn (indices.c), so that generations grow
 * slowly and evenly.  A generation is never used twice: after a crash new ones
 * begin above a ceiling that had been durable before any below it was issued
 * (invariant 14), else a handle whose allocation was lost could name another
 * object.  An index whose generations are used up is retired.
 *
 * A recovery begins above the highest generation of any index, so an index that one
 * client cycles would use up those of all.  In a durable store an index that runs
 * LSMEM_GENERATIONS_AHEAD and LSMEM_GENERATIONS_SHARE times the mean ahead of the
 * floor is set aside until the store is loaded again: its bit stays set.  That only
 * withholds generations; none is given out that would not be without it.
 *
 * Block stores use the table by block number, every generation 1; there the
 * second word is the last version of a block that has been discarded, so that
 * its next version is higher.
 *
 * No locks of its own.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "handle.h"
#include "store.h"

#define LSMEM_GENERATIONS_AHEAD	(1u << 20)	/* 2^28 / 2^20 recoveries see it through */
#define LSMEM_GENERATIONS_SHARE	64	/* 1/64 of the table may be cycled for ever */

/**
 * lsmem_handles_init - make a store's handle table
 * @store: nr_handles is set
 * Return: 0 or -ENOMEM.
 */
int lsmem_handles_init(struct lsmem_store *store)
{
	u64 i;
	int ret;

	store->handles.table = lsmem_table_alloc(store->handles.nr * sizeof(*store->handles.table),
						 store->seglets.gfp);
	if (!store->handles.table)
		return -ENOMEM;
	store->handles.ceiling = store->durable ? 0 : LSMEM_GENERATION_MAX;
	store->handles.limit = store->durable ? 0 : LSMEM_GENERATION_MAX;
	if (store->kind == LSMEM_KIND_BLOCK)
		return 0;
	ret = lsmem_indices_init(&store->handles.map, store->handles.nr, store->seglets.gfp);
	if (ret)
		return ret;
	/* Index 0 with generation 0 would be no handle: generations begin at 1. */
	for (i = 0; i < store->handles.nr; i++)
		store->handles.table[i].info = 0;
	return 0;
}

/**
 * lsmem_handles_destroy - free what lsmem_handles_init() has taken
 * @store: may have none of it
 */
void lsmem_handles_destroy(struct lsmem_store *store)
{
	lsmem_indices_destroy(&store->handles.map);
	vfree(store->handles.table);
}

/* May an index have @generation, by what all indices together have used since the load? */
static bool lsmem_handle_ahead(struct lsmem_store *store, u32 generation)
{
	struct lsmem_counters sum;
	u64 limit;

	if (generation <= READ_ONCE(store->handles.limit))
		return false;
	lsmem_store_counters(store, &sum);
	limit = store->handles.floor + LSMEM_GENERATIONS_AHEAD +
		div64_u64(sum.handles_given * LSMEM_GENERATIONS_SHARE, store->handles.nr);
	limit = min_t(u64, limit, LSMEM_GENERATION_MAX);
	WRITE_ONCE(store->handles.limit, limit);
	return generation > limit;
}

/* An index is given out no more, at least until the store is loaded again: its bit stays set. */
static void lsmem_handle_retire(struct lsmem_store *store, u64 index)
{
	if (atomic64_inc_return(&store->handles.aside) == 1)
		pr_warn("%s: index %llu has had too many objects: it is set aside\n", store->name,
			index);
}

/**
 * lsmem_handle_alloc - a handle that has never been given out
 * @store: active, object kind
 * @table: table id
 * @handle: out
 *
 * The index is the caller's: BUSY until it makes the word live or frees it.
 *
 * Context: may sleep.
 * Return: 0; -EMFILE when all are in use, used up or set aside; -EAGAIN when the
 * daemon has not yet made room for higher generations; -EINTR: a fatal signal came
 * while used up indices were passed over.
 */
int lsmem_handle_alloc(struct lsmem_store *store, u32 table, u64 *handle)
{
	if (store->handles.floor >= LSMEM_GENERATION_MAX)
		return -EMFILE;		/* the recovery has found them all used up */
	for (;;) {
		struct lsmem_handle *h;
		u32 generation, max;
		int index;

		index = lsmem_indices_get(&store->handles.map);
		if (index < 0)
			return -EMFILE;
		h = &store->handles.table[index];
		generation = max(lsmem_info_generation(h->info), store->handles.floor) + 1;
		if (generation > LSMEM_GENERATION_MAX || lsmem_handle_ahead(store, generation)) {
			/* Each index once: a call is bounded by the table, and may be killed. */
			lsmem_handle_retire(store, index);
			if (fatal_signal_pending(current))
				return -EINTR;
			cond_resched();
			continue;
		}
		if (generation > READ_ONCE(store->handles.ceiling)) {
			lsmem_indices_put(&store->handles.map, index);
			return -EAGAIN;
		}
		for (max = READ_ONCE(store->handles.max); generation > max;) {
			u32 seen = cmpxchg(&store->handles.max, max, generation);

			if (seen == max)
				break;
			max = seen;
		}
		WRITE_ONCE(h->word, lsmem_word_next(h->word, LSMEM_WORD_BUSY, 0));
		smp_wmb();	/* readers that see the new info see no old word */
		WRITE_ONCE(h->info, (u64)table << LSMEM_INFO_TABLE_SHIFT | generation);
		percpu_counter_inc(&store->handles.used);
		lsmem_count(store, handles_given, 1);
		*handle = lsmem_handle_make(index, generation);
		return 0;
	}
}

/**
 * lsmem_handle_free - an index may be given out again
 * @store: object kind
 * @handle: its word is BUSY or FREE and the caller's
 */
void lsmem_handle_free(struct lsmem_store *store, u64 handle)
{
	u64 index = lsmem_handle_index(handle);
	struct lsmem_handle *h = &store->handles.table[index];

	/* Pairs with the load of a word: what preceded it is over. */
	smp_store_release(&h->word, lsmem_word_next(h->word, LSMEM_WORD_FREE, 0));
	percpu_counter_dec(&store->handles.used);
	/* A release: the next owner's words come after this one (tests/litmus/handle-free.litmus). */
	lsmem_indices_put(&store->handles.map, index);
}

/**
 * lsmem_handle_find - look a handle up
 * @store: object kind
 * @handle: from a user
 * @found: out
 *
 * Return: 0, -ENOENT (never given out), -ESTALE (given out, gone).  The object
 * can go at any time after: the exchange of its word decides.
 */
int lsmem_handle_find(struct lsmem_store *store, u64 handle, struct lsmem_handle **found)
{
	u64 index = lsmem_handle_index(handle);
	u32 generation = lsmem_handle_generation(handle), current_generation;
	struct lsmem_handle *h;

	if (!generation || index >= store->handles.nr)
		return -ENOENT;
	h = lsmem_handle_at(&store->handles, index);
	current_generation = lsmem_info_generation(READ_ONCE(h->info));
	if (generation > current_generation)
		return generation > store->handles.floor ? -ENOENT : -ESTALE;
	if (generation < current_generation)
		return -ESTALE;
	*found = h;
	return 0;
}

/**
 * lsmem_handle_version - the version after @last
 * @store: the store
 * @last: the version it replaces, 0 for none
 */
u64 lsmem_handle_version(struct lsmem_store *store, u64 last)
{
	u64 now = lsmem_version_make(store->handles.era, lsmem_store_time(store));

	return max(now, last + 1);
}
