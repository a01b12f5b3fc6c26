// SPDX-License-Identifier: GPL-2.0
/*
 * The handle table: stable names for entries that move.
 *
 * A word per index, mapped read-only into clients: {tag, state, position}, always exchanged
 * as a whole.  The order of the exchanges of a word is the order of the changes to its object
 * (invariant 6).  The generation of a live index is in the key of its entry, which is read
 * anyway; that of any other is in the word, where a live one has its position.
 *
 * Indices are given out in turn (indices.c), so that generations grow slowly and
 * evenly.  A generation of an index is never used twice: after a crash, new ones begin
 * above a ceiling that was durable before any generation below it was issued
 * (invariant 14).  Otherwise a handle whose allocation was lost could name another
 * object.  An index whose generations are used up is retired.
 *
 * A recovery begins above the highest generation of any index, so an index that one
 * client cycles would use up the generations of all.  In a durable store an index that
 * runs ahead of the floor by lsmem_generations_ahead() plus LSMEM_GENERATIONS_SHARE times
 * the mean is set aside until the next recovery: its bit stays set.  This withholds
 * generations and never issues one that would not be issued otherwise.
 *
 * Indices from handles.common on are reserved: they are never given out in turn.  A call that names one owns it when it
 * has exchanged the word from FREE to BUSY.
 *
 * Block stores use the table by block number, and every generation is 1; a second table has
 * the last version of a discarded block, so that its next version is higher.
 *
 * Each change of a word keeps the live bitmap (livemap.c).
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

#define LSMEM_GENERATIONS_PART	256	/* an index uses up this part of what is left, until a recovery */
#define LSMEM_GENERATIONS_LEAST	4096u	/* and at least so many */
#define LSMEM_GENERATIONS_SHARE	64	/* 1/64 of the table can be cycled for ever */
#define LSMEM_COUNT_STEP	4096u	/* words of lsmem_handles_count() between two looks for signals */

/**
 * lsmem_handles_init - make a store's handle table
 * @store: its kind and handles.common are set
 * Return: 0 or -ENOMEM.
 */
int lsmem_handles_init(struct lsmem_store *store)
{
	int ret;

	store->handles.nr = store->handles.common + (store->kind == LSMEM_KIND_OBJECT ? LSMEM_RESERVED : 0);
	store->handles.table = lsmem_table_alloc(store->handles.nr * sizeof(*store->handles.table),
						 store->seglets.gfp);
	if (!store->handles.table)
		return -ENOMEM;
	ret = lsmem_livemap_init(&store->handles.livemap, &store->seglets);
	if (ret)
		return ret;
	store->handles.ceiling = store->durable ? 0 : LSMEM_GENERATION_MAX;
	store->handles.limit = store->durable ? 0 : LSMEM_GENERATION_MAX;
	if (store->kind == LSMEM_KIND_BLOCK) {
		store->handles.discarded = lsmem_table_alloc(store->handles.nr * sizeof(u64),
							     store->seglets.gfp);
		return store->handles.discarded ? 0 : -ENOMEM;
	}
	ret = lsmem_indices_init(&store->handles.map, store->handles.common, store->seglets.gfp);
	/* All words are 0: FREE.  Generations begin at 1: index 0 with generation 0 is no handle. */
	return ret;
}

/**
 * lsmem_handles_destroy - free what lsmem_handles_init() has taken
 * @store: initialised, in part or whole
 */
void lsmem_handles_destroy(struct lsmem_store *store)
{
	kvfree(store->handles.unsettled);
	store->handles.unsettled = NULL;
	lsmem_indices_destroy(&store->handles.map);
	lsmem_livemap_destroy(&store->handles.livemap);
	vfree(store->handles.discarded);
	vfree(store->handles.table);
}

/*
 * How far one index may run ahead of the floor: a part of what is left above it.  A fixed number would
 * be used up by as many recoveries, each after the cycles of one client.
 */
static u32 lsmem_generations_ahead(u32 floor)
{
	return max((LSMEM_GENERATION_MAX - floor) / LSMEM_GENERATIONS_PART, LSMEM_GENERATIONS_LEAST);
}

/* Is @generation beyond what the use of all indices since the recovery allows one index? */
static bool lsmem_handle_ahead(struct lsmem_store *store, u32 generation)
{
	struct lsmem_counters sum;
	u64 limit;

	if (generation <= READ_ONCE(store->handles.limit))
		return false;
	lsmem_store_counters(store, &sum);
	limit = (u64)store->handles.floor + lsmem_generations_ahead(store->handles.floor) +
		div64_u64(sum.handles_given * LSMEM_GENERATIONS_SHARE, store->handles.nr);
	limit = min_t(u64, limit, LSMEM_GENERATION_MAX);
	WRITE_ONCE(store->handles.limit, limit);
	return generation > limit;
}

/* Do not give the index out again before the next recovery: its bit stays set. */
static void lsmem_handle_retire(struct lsmem_store *store, u64 index)
{
	if (atomic64_inc_return(&store->handles.aside) == 1)
		pr_warn("%s: index %llu has had too many objects: it is set aside\n", store->name,
			index);
}

/* A generation is about to be given out. */
static void lsmem_handle_raise(struct lsmem_handles *handles, u32 generation)
{
	u32 max = READ_ONCE(handles->max);

	while (generation > max) {
		u32 seen = cmpxchg(&handles->max, max, generation);

		if (seen == max)
			break;
		max = seen;
	}
}

/**
 * lsmem_handle_alloc - give out a handle that has never been given out
 * @store: active, object kind
 * @handle: out
 *
 * The caller owns the index, which is BUSY until the caller makes the word live or frees it.
 *
 * Context: may sleep.
 * Return: 0; -EMFILE: all indices are in use, used up or set aside; -EAGAIN: the daemon has
 * not yet made higher generations durable; -EINTR: a fatal signal while used-up indices
 * were skipped.
 */
int lsmem_handle_alloc(struct lsmem_store *store, u64 *handle)
{
	if (store->handles.floor >= LSMEM_GENERATION_MAX)
		return -EMFILE;		/* the recovery found all used up */
	for (;;) {
		struct lsmem_handle *h;
		u32 generation;
		int index;

		index = lsmem_indices_get(&store->handles.map);
		if (index < 0)
			return -EMFILE;
		h = &store->handles.table[index];
		generation = max(lsmem_word_generation(h->word), store->handles.floor) + 1;
		if (generation > LSMEM_GENERATION_MAX || lsmem_handle_ahead(store, generation)) {
			/* Each index once: a call is bounded by the table, and killable. */
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
		lsmem_handle_raise(&store->handles, generation);
		WRITE_ONCE(h->word, lsmem_word_next(h->word, LSMEM_WORD_BUSY, generation));
		percpu_counter_inc(&store->handles.used);
		lsmem_count(store, handles_given, 1);
		*handle = lsmem_handle_make(index, generation);
		return 0;
	}
}

/**
 * lsmem_handle_reserved - give out a handle of a reserved index
 * @store: active, object kind
 * @index: at least handles.common, below handles.nr
 * @handle: out; as lsmem_handle_alloc()
 *
 * Context: any.
 * Return: 0; -EEXIST: the index has an object; -EBUSY: it has another owner; -EMFILE: it has had too many; -EAGAIN:
 * as lsmem_handle_alloc().
 */
int lsmem_handle_reserved(struct lsmem_store *store, u64 index, u64 *handle)
{
	struct lsmem_handle *h = lsmem_handle_at(&store->handles, index);
	u64 word = READ_ONCE(h->word);
	u32 generation;

	if (lsmem_word_state(word) != LSMEM_WORD_FREE)
		return lsmem_word_state(word) == LSMEM_WORD_BUSY ? -EBUSY : -EEXIST;
	generation = max(lsmem_word_generation(word), store->handles.floor) + 1;
	if (generation > LSMEM_GENERATION_MAX || lsmem_handle_ahead(store, generation))
		return -EMFILE;
	if (generation > READ_ONCE(store->handles.ceiling))
		return -EAGAIN;
	lsmem_handle_raise(&store->handles, generation);
	if (!lsmem_word_swap(h, word, lsmem_word_next(word, LSMEM_WORD_BUSY, generation)))
		return -EBUSY;
	percpu_counter_inc(&store->handles.used);
	lsmem_count(store, handles_given, 1);
	*handle = lsmem_handle_make(index, generation);
	return 0;
}

/**
 * lsmem_handle_free - free the index of a handle
 * @store: object kind
 * @handle: owned by the caller, its word BUSY or FREE
 */
void lsmem_handle_free(struct lsmem_store *store, u64 handle)
{
	u64 index = lsmem_handle_index(handle);
	struct lsmem_handle *h = &store->handles.table[index];

	/* Pairs with the load of a word. */
	smp_store_release(&h->word, lsmem_word_next(h->word, LSMEM_WORD_FREE,
						    lsmem_handle_generation(handle)));
	percpu_counter_dec(&store->handles.used);
	/* A release: the next owner's words come after this one (tests/litmus/handle-free.litmus). */
	if (likely(index < store->handles.common))
		lsmem_indices_put(&store->handles.map, index);
}

/**
 * lsmem_handle_find - find the word of a handle
 * @store: object kind
 * @handle: from a user
 * @found: out
 *
 * Return: 0, or -ENOENT: no handle of this store.  Whether the object exists, lsmem_look() says.
 */
int lsmem_handle_find(struct lsmem_store *store, u64 handle, struct lsmem_handle **found)
{
	u64 index = lsmem_handle_index(handle);

	if (!lsmem_handle_generation(handle) || index >= store->handles.nr)
		return -ENOENT;
	*found = lsmem_handle_at(&store->handles, index);
	return 0;
}

/**
 * lsmem_handle_missing - why a handle names no object
 * @store: object kind
 * @handle: the handle
 * @generation: the last one of its index
 *
 * Return: -ENOENT (never given out), -ESTALE (given out, freed).
 */
int lsmem_handle_missing(const struct lsmem_store *store, u64 handle, u32 generation)
{
	u32 wanted = lsmem_handle_generation(handle);

	return wanted > generation && wanted > store->handles.floor ? -ENOENT : -ESTALE;
}

/**
 * lsmem_handles_count - how many objects does a store have?
 * @store: frozen (freeze.c), so that none comes and none goes; a word may become COLD, or LIVE again, meanwhile
 * @objects: out; 0 after an error
 *
 * Context: sleeps; reads the whole table.  Return: 0, or -EINTR: a fatal signal.
 */
int lsmem_handles_count(const struct lsmem_store *store, u64 *objects)
{
	u64 index, nr = 0;
	u32 state;

	*objects = 0;
	for (index = 0; index < store->handles.nr; index++) {
		if (index % LSMEM_COUNT_STEP == 0) {
			if (fatal_signal_pending(current))
				return -EINTR;
			cond_resched();
		}
		state = lsmem_word_state(READ_ONCE(store->handles.table[index].word));
		nr += state == LSMEM_WORD_LIVE || state == LSMEM_WORD_COLD;
	}
	*objects = nr;
	return 0;
}

/**
 * lsmem_version_ahead - a version that may be ahead of the clock is taken
 * @handles: of the store
 * @version: not yet in any word
 *
 * A snapshot that does not see the change that follows is cut at a lower version: see snapshot.c.
 */
void lsmem_version_ahead(struct lsmem_handles *handles, u64 version)
{
	s64 mark = atomic64_read(&handles->mark);

	while (mark < (s64)version && !atomic64_try_cmpxchg(&handles->mark, &mark, version))
		;
}

/**
 * lsmem_handle_version - a version for a change that happens now
 * @store: the store
 * @last: the version to exceed, 0: none
 *
 * Context: rcu_read_lock() held, or in an append, until the change is made.
 */
u64 lsmem_handle_version(struct lsmem_store *store, u64 last)
{
	u64 now = lsmem_version_make(store->handles.era, lsmem_store_time(store));

	/* A snapshot may be cut ahead of the clock, as versions are. */
	return lsmem_version_after(&store->handles, now,
				   max(last, lsmem_handles_cut(&store->handles)));
}
