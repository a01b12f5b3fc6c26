// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: scans by handles, and what all scans have in common.
 *
 * The work is divided into units in order: handles of a list, indices, or seglets.  Threads take some of
 * them at a time.  Objects that are found by handles are read as by lsm_read_many(), which
 * fetches several of them from memory at the same time; what the windows do not show, it asks the
 * kernel for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "aggregate.h"
#include "scan.h"

#define MANY		64u		/* objects that are read together */
#define ROW_BYTES	2048u		/* room for one of them; larger ones are read alone */
#define LISTED		4096u		/* units of work of lists */
#define INDICES		65536u		/* units of work of the handle table */
#define SEGLETS		16u		/* units of work of the memory */
#define TRIES		4096		/* to read an object whose word keeps changing */
#define RADIX_BITS	11

/* ---- Batches --------------------------------------------------------------- */

/**
 * lsm_batch_deliver() - give the batch to the caller, and begin a new one
 * @worker: thread
 *
 * Return: 0; -ECANCELED: the snapshot is revoked; what the caller's function returned.
 */
int lsm_batch_deliver(struct lsm_worker *worker)
{
	const struct lsm_run *run = worker->run;
	size_t nr = worker->nr_rows;
	int ret;

	worker->nr_rows = 0;
	worker->row_bytes = 0;
	worker->used = 0;
	if (!nr)
		return 0;
	ret = lsm_snapshot_stands(run);
	if (!ret)
		ret = run->scan->batch(run->scan->context, worker->nr, worker->rows, nr);
	if (!ret)
		ret = lsm_snapshot_stands(run);
	worker->result.rows += nr;
	return ret;
}

/* ---- Objects by their handles ----------------------------------------------- */

/**
 * lsm_worker_big() - have room for the largest object
 * @worker: thread; sets its big
 *
 * Return: 0 or -ENOMEM.
 */
int lsm_worker_big(struct lsm_worker *worker)
{
	if (!worker->big)
		worker->big = malloc(LSMEM_OBJECT_MAX);
	return worker->big ? 0 : -ENOMEM;
}

/* Gives an object that is larger than ROW_BYTES to the caller, in a batch of its own. */
static int add_big(struct lsm_worker *worker, uint64_t handle)
{
	const struct lsm_scan *scan = worker->run->scan;
	struct lsm_object object;
	ssize_t bytes;
	int ret;

	ret = lsm_batch_deliver(worker);
	if (!ret)
		ret = lsm_worker_big(worker);
	if (ret)
		return ret;
	bytes = lsm_read(worker->run->lsm, handle, worker->big,
			 scan->prefix ? scan->prefix : LSMEM_OBJECT_MAX, 0, &object);
	if (bytes < 0)
		return (int)bytes;
	worker->found++;
	if (!lsm_suits(scan, object.version, object.length, object.table))
		return 0;
	worker->rows[0] = (struct lsm_row){
		.handle = handle, .version = object.version, .data = worker->big,
		.bytes = (uint32_t)bytes, .length = object.length, .table = object.table,
	};
	worker->nr_rows = 1;
	return lsm_batch_deliver(worker);
}

/* Reads up to MANY objects, and gives them to the caller. */
static int read_some(struct lsm_worker *worker, const uint64_t *handles, size_t nr)
{
	const struct lsm_scan *scan = worker->run->scan;
	uint32_t room = scan->prefix && scan->prefix < ROW_BYTES ? lsmem_align(scan->prefix) : ROW_BYTES;
	uint32_t want = scan->prefix ? scan->prefix : LSMEM_OBJECT_MAX;
	struct lsmem_op ops[MANY];
	size_t i;
	int ret;

	for (i = 0; i < nr; i++)
		ops[i] = lsm_op_read(handles[i], worker->buffer + i * room, want < room ? want : room, 0);
	lsm_read_many(worker->run->lsm, ops, nr);
	for (i = 0; i < nr; i++) {
		const struct lsmem_op *op = &ops[i];

		ret = op->result;
		if (!ret && op->length < (op->object_length < want ? op->object_length : want)) {
			ret = add_big(worker, op->handle);
			if (!ret)
				continue;
		} else if (!ret) {
			worker->found++;
			if (!lsm_suits(scan, op->version, op->object_length, op->table))
				continue;
			worker->rows[worker->nr_rows++] = (struct lsm_row){
				.handle = op->handle, .version = op->version,
				.data = (const void *)(uintptr_t)op->data, .bytes = op->length,
				.length = op->object_length, .table = op->table,
			};
			continue;
		}
		if (ret != -ENOENT && ret != -ESTALE)
			return ret;
	}
	return lsm_batch_deliver(worker);
}

/* LSM_PLAN_LOOKUP and LSM_PLAN_SORTED: handles @from .. @to - 1 of the list. */
static int scan_list(struct lsm_worker *worker, uint64_t from, uint64_t to)
{
	const struct lsm_run *run = worker->run;
	const uint64_t *list = run->sorted ? run->sorted : run->scan->handles;
	uint64_t some[MANY];
	size_t nr = 0;
	int ret = 0;

	for (; !ret && from < to; from++) {
		if (!lsm_in_range(run->scan, list[from]))
			continue;
		some[nr++] = list[from];
		if (nr == MANY) {
			ret = read_some(worker, some, nr);
			nr = 0;
		}
	}
	return ret || !nr ? ret : read_some(worker, some, nr);
}

/* The handle of the object at @index, if it is wanted.  Return: 0: there is none. */
static uint64_t find_handle(struct lsm_worker *worker, uint64_t index)
{
	const struct lsm_run *run = worker->run;
	enum lsm_locate found = LSM_CHANGING;
	struct lsm_place place;
	uint64_t handle = 0;
	int tries;

	for (tries = 0; found == LSM_CHANGING && tries < TRIES; tries++) {
		if (tries)
			lsm_relax();
		found = lsm_identify(run->lsm, index, &handle, &place);
	}
	if (found == LSM_COLD)
		worker->result.cold++;
	/* A handle of an object that changes all the time is right, too, if it was found: the kernel knows. */
	if (found == LSM_CHANGING && lsmem_handle_index(handle) == index && lsm_wanted(run, handle))
		return handle;
	if (found != LSM_FOUND || !lsm_wanted(run, handle))
		return 0;
	/* Of a list all that are found are counted; what does not suit is not read. */
	if (!run->members &&
	    !lsm_suits(run->scan, place.object.version, place.object.length, place.object.table))
		return 0;
	return handle;
}

/* Has the table an object at @index that may be wanted?  If so, fetch its header into the cache. */
static bool fetch_header(const struct lsm_run *run, uint64_t index)
{
	uint64_t word = __atomic_load_n(&run->lsm->handles[index].word, __ATOMIC_RELAXED), at;
	uint32_t ahead = run->scan->prefix ? run->scan->prefix : 4 * LSM_CACHE_LINE;
	const uint8_t *header;

	if ((word >> LSMEM_WORD_STATE_SHIFT & ((1u << LSMEM_WORD_STATE_BITS) - 1)) == LSMEM_WORD_FREE ||
	    (run->members && !(run->members[index / 64] >> index % 64 & 1)))
		return false;
	/* A prefetch of an address that is not mapped does nothing. */
	header = run->lsm->seglets + (word & ((1ull << LSMEM_POSITION_BITS) - 1)) * LSMEM_ALIGN;
	if (ahead > 4 * LSM_CACHE_LINE)
		ahead = 4 * LSM_CACHE_LINE;
	for (at = 0; at < LSMEM_SHORT_BYTES + ahead; at += LSM_CACHE_LINE)
		__builtin_prefetch(header + at);
	return true;
}

/* LSM_PLAN_TABLE: indices @from .. @to - 1. */
static int scan_table(struct lsm_worker *worker, uint64_t from, uint64_t to)
{
	const struct lsm_run *run = worker->run;
	uint64_t ahead[MANY], some[MANY];
	size_t nr_ahead, nr = 0, i;
	int ret = 0;

	while (!ret && from < to) {
		/* Headers are fetched for some objects, before the first of them is looked at. */
		for (nr_ahead = 0; nr_ahead < MANY && from < to; from++) {
			ahead[nr_ahead] = from;
			nr_ahead += fetch_header(run, from);
		}
		for (i = 0; !ret && i < nr_ahead; i++) {
			some[nr] = find_handle(worker, ahead[i]);
			nr += !!some[nr];
			if (nr == MANY) {
				ret = read_some(worker, some, nr);
				nr = 0;
			}
		}
	}
	return ret || !nr ? ret : read_some(worker, some, nr);
}

/* ---- Preparation ------------------------------------------------------------- */

static int check_scan(const struct lsm_scan *scan)
{
	if (scan->plan >= LSM_PLANS || scan->flags & ~LSM_SCAN_EXACT || scan->threads > LSM_THREADS_MAX ||
	    (scan->one_table && scan->table >= LSMEM_TABLES) || (scan->nr_handles && !scan->handles))
		return -EINVAL;
	if (!scan->handles && (scan->plan == LSM_PLAN_LOOKUP || scan->plan == LSM_PLAN_SORTED))
		return -EINVAL;
	return 0;
}

/* Memory of zeroes, all of which is soon touched: its pages are made at once.  NULL: there is none. */
static void *get_scratch(size_t bytes)
{
	void *address = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return address == MAP_FAILED ? NULL : address;
}

static void put_scratch(void *address, size_t bytes)
{
	if (address)
		munmap(address, bytes + 1);
}

/*
 * Sorts the list by the indices of its handles, RADIX_BITS at a time.  Without windows their number is not
 * known, and the order is not that of a table; else handles that no object can have are left out.
 */
static int sort_list(struct lsm_run *run)
{
	uint64_t *from, *to, *other, handles = run->lsm->nr_handles;
	const struct lsm_scan *scan = run->scan;
	size_t counts[1u << RADIX_BITS];
	size_t i, sum, had, nr = 0;
	unsigned int shift;

	from = get_scratch(scan->nr_handles * sizeof(*from));
	to = get_scratch(scan->nr_handles * sizeof(*to));
	if (!from || !to) {
		put_scratch(from, scan->nr_handles * sizeof(*from));
		put_scratch(to, scan->nr_handles * sizeof(*to));
		return -ENOMEM;
	}
	for (i = 0; i < scan->nr_handles; i++) {
		from[nr] = scan->handles[i];
		nr += !handles || lsmem_handle_index(scan->handles[i]) < handles;
	}
	for (shift = 0; shift < LSMEM_HANDLE_INDEX_BITS && handles >> shift; shift += RADIX_BITS) {
		memset(counts, 0, sizeof(counts));
		for (i = 0; i < nr; i++)
			counts[from[i] >> shift & ((1u << RADIX_BITS) - 1)]++;
		for (sum = 0, i = 0; i < 1u << RADIX_BITS; i++) {
			had = counts[i];
			counts[i] = sum;
			sum += had;
		}
		for (i = 0; i < nr; i++)
			to[counts[from[i] >> shift & ((1u << RADIX_BITS) - 1)]++] = from[i];
		other = from;
		from = to;
		to = other;
	}
	put_scratch(to, scan->nr_handles * sizeof(*to));
	run->sorted = from;
	run->nr_sorted = nr;
	return 0;
}

static size_t words_of(const struct lsm_run *run)
{
	return run->lsm->nr_handles / 64 + 1;
}

/* Makes it quick to find out whether a handle is in the list: see lsm_wanted(). */
static int mark_members(struct lsm_run *run)
{
	uint64_t word, last = 0;
	size_t i;
	int ret;

	ret = sort_list(run);
	if (ret)
		return ret;
	run->members = get_scratch(words_of(run) * sizeof(*run->members));
	run->starts = get_scratch(words_of(run) * sizeof(*run->starts));
	if (!run->members || !run->starts)
		return -ENOMEM;
	for (i = 0; i < run->nr_sorted; i++) {
		word = lsmem_handle_index(run->sorted[i]) / 64;
		while (last < word)
			run->starts[++last] = i;
		run->members[word] |= 1ull << lsmem_handle_index(run->sorted[i]) % 64;
	}
	return 0;
}

static void forget(struct lsm_run *run)
{
	put_scratch(run->sorted, run->scan->nr_handles * sizeof(*run->sorted));
	put_scratch(run->members, words_of(run) * sizeof(*run->members));
	put_scratch(run->starts, words_of(run) * sizeof(*run->starts));
	run->sorted = NULL;
	run->members = NULL;
	run->starts = NULL;
}

/* Prepares the plan that was chosen. */
static int prepare(struct lsm_run *run)
{
	const struct lsm_scan *scan = run->scan;
	struct lsm *lsm = run->lsm;
	uint32_t plan = run->result.explain.plan;
	int ret = 0;

	switch (plan) {
	case LSM_PLAN_SORTED:
		ret = sort_list(run);
		run->all = run->total = run->nr_sorted;
		run->unit = LISTED;
		return ret;
	case LSM_PLAN_LOOKUP:
		run->all = run->total = scan->nr_handles;
		run->unit = LISTED;
		return 0;
	case LSM_PLAN_TABLE:
		run->total = scan->index_end && scan->index_end < lsm->nr_handles ? scan->index_end :
										 lsm->nr_handles;
		run->unit = INDICES;
		run->next = scan->index_first < run->total ? scan->index_first : run->total;
		run->finished = run->next;
		break;
	default:
		run->total = lsm->nr_seglets;
		run->unit = SEGLETS;
		break;
	}
	if (scan->handles)
		ret = mark_members(run);
	if (!ret && plan == LSM_PLAN_LOG)
		ret = lsm_snapshot_open(run);
	run->all = run->total;
	if (!ret && lsm_snapshot_tiered(run))
		run->all += lsm->nr_handles + lsm->nr_seglets;
	return ret;
}

/* ---- Threads ------------------------------------------------------------------ */

static void fail(struct lsm_run *run, int error)
{
	int none = 0;

	atomic_compare_exchange_strong(&run->error, &none, error);
}

/* The first unit that may be unfinished. */
static uint64_t finished_before(struct lsm_run *run)
{
	uint64_t first = atomic_load(&run->next), begun;
	uint32_t i;

	for (i = 0; i < run->threads; i++) {
		begun = atomic_load(&run->begun[i]);
		first = begun < first ? begun : first;
	}
	return first < run->total ? first : run->total;
}

/*
 * Takes units for a worker.  It first says that it may begin anywhere from the next unit on, so
 * that finished_before() never misses units between the two steps.
 */
static bool take(struct lsm_worker *worker, uint64_t *from, uint64_t *to)
{
	struct lsm_run *run = worker->run;

	atomic_store(&run->begun[worker->nr], atomic_load(&run->next));
	*from = atomic_fetch_add(&run->next, run->unit);
	atomic_store(&run->begun[worker->nr], *from);
	if (*from >= run->total || atomic_load(&run->error))
		return false;
	*to = run->total - *from < run->unit ? run->total : *from + run->unit;
	return true;
}

static int scan_units(struct lsm_worker *worker, uint64_t from, uint64_t to)
{
	switch (worker->run->result.explain.plan) {
	case LSM_PLAN_TABLE:
		return scan_table(worker, from, to);
	case LSM_PLAN_LOG:
		return worker->run->part == LSM_PART_COLD ? lsm_snapshot_cold(worker, from, to) :
							    lsm_snapshot_seglets(worker, from, to);
	default:
		return scan_list(worker, from, to);
	}
}

static int tell(struct lsm_worker *worker, uint64_t units)
{
	struct lsm_run *run = worker->run;
	int ret = 0;

	atomic_store(&run->begun[worker->nr], UINT64_MAX);
	pthread_mutex_lock(&run->lock);
	run->finished += units;
	if (run->snapshot && run->part != LSM_PART_COLD)
		ret = lsm_snapshot_done(run, finished_before(run));
	if (run->scan->progress)
		run->scan->progress(run->scan->context, run->finished, run->all);
	pthread_mutex_unlock(&run->lock);
	return ret;
}

static void *work(void *argument)
{
	struct lsm_worker *worker = argument;
	struct lsm_run *run = worker->run;
	uint64_t from, to;
	int ret = 0;

	/* Memory that is not used is not taken. */
	worker->room = LSMEM_OBJECT_MAX + MANY * ROW_BYTES;
	worker->buffer = aligned_alloc(LSM_CACHE_LINE, worker->room);
	worker->rows = malloc(LSM_BATCH * sizeof(*worker->rows));
	if (!worker->buffer || !worker->rows)
		ret = -ENOMEM;
	while (!ret && take(worker, &from, &to)) {
		ret = scan_units(worker, from, to);
		if (!ret)
			ret = tell(worker, to - from);
	}
	atomic_store(&run->begun[worker->nr], UINT64_MAX);
	if (ret)
		fail(run, ret);
	free(worker->buffer);
	free(worker->rows);
	free(worker->big);
	pthread_mutex_lock(&run->lock);
	run->result.rows += worker->result.rows;
	run->result.copied += worker->result.copied;
	run->result.cold += worker->result.cold;
	run->found += worker->found;
	pthread_mutex_unlock(&run->lock);
	return NULL;
}

/* Runs all workers, this thread being the first.  If a thread cannot be made, the others do its work. */
static void run_workers(struct lsm_run *run)
{
	struct lsm_worker workers[LSM_THREADS_MAX] = { 0 };
	pthread_t threads[LSM_THREADS_MAX];
	uint32_t i, made;

	for (i = 0; i < run->threads; i++) {
		atomic_store(&run->begun[i], UINT64_MAX);
		workers[i].run = run;
		workers[i].nr = i;
	}
	for (made = 1; made < run->threads; made++)
		if (pthread_create(&threads[made], NULL, work, &workers[made]))
			break;
	work(&workers[0]);
	while (--made)
		pthread_join(threads[made], NULL);
}

/* How many handles of the list are in the range of indices. */
static uint64_t count_listed(const struct lsm_scan *scan)
{
	uint64_t nr = 0;
	size_t i;

	for (i = 0; i < scan->nr_handles; i++)
		nr += lsm_in_range(scan, scan->handles[i]);
	return nr;
}

static int run_scan(struct lsm_run *run)
{
	int ret, more;

	ret = prepare(run);
	/* The store may be used up, or have its snapshots.  The plan was our choice: take another. */
	if ((ret == -EBUSY || ret == -ENOSPC || ret == -ETIMEDOUT || ret == -ENOMEM) &&
	    run->result.explain.plan == LSM_PLAN_LOG && run->scan->plan == LSM_PLAN_AUTO &&
	    !(run->scan->flags & LSM_SCAN_EXACT) && run->result.explain.cost_ns[LSM_PLAN_TABLE] >= 0) {
		run->result.explain.plan = LSM_PLAN_TABLE;
		forget(run);
		ret = prepare(run);
	}
	if (ret)
		return ret;
	do {
		run_workers(run);
		ret = atomic_load(&run->error);
		more = ret ? 0 : lsm_snapshot_next(run);
	} while (more > 0);
	if (!ret)
		ret = more;
	if (!ret)
		ret = lsm_snapshot_stands(run);
	if (run->scan->handles)
		run->result.gone = count_listed(run->scan) - run->found;
	return ret;
}

/**
 * lsm_run_all() - carry out a scan
 * @run: zeroed but for its store, scan and lock
 *
 * Return: as lsm_scan().
 */
int lsm_run_all(struct lsm_run *run)
{
	int ret;

	ret = run->scan->batch ? lsm_scan_explain(run->lsm, run->scan, &run->result.explain) : -EINVAL;
	if (ret)
		return ret;
	run->threads = run->result.explain.threads;
	ret = run_scan(run);
	lsm_snapshot_close(run);
	forget(run);
	return ret;
}

int lsm_scan(struct lsm *lsm, const struct lsm_scan *scan, struct lsm_scan_result *result)
{
	struct lsm_run run = { .lsm = lsm, .scan = scan, .lock = PTHREAD_MUTEX_INITIALIZER };
	int ret = lsm_run_all(&run);

	if (result)
		*result = run.result;
	return ret;
}

int lsm_scan_explain(struct lsm *lsm, const struct lsm_scan *scan, struct lsm_explain *explain)
{
	cpu_set_t processors;
	int ret;

	memset(explain, 0, sizeof(*explain));
	ret = check_scan(scan);
	if (ret)
		return ret;
	explain->threads = scan->threads;
	if (!explain->threads) {
		CPU_ZERO(&processors);
		sched_getaffinity(0, sizeof(processors), &processors);
		explain->threads = (uint32_t)CPU_COUNT(&processors);
		if (explain->threads > LSM_THREADS_MAX)
			explain->threads = LSM_THREADS_MAX;
		if (!explain->threads)
			explain->threads = 1;
	}
	return lsm_plan_choose(lsm, scan, explain);
}

/* ---- Aggregates of a scan ------------------------------------------------------ */

struct aggregated {
	struct lsm_aggregate *aggregates[LSM_THREADS_MAX];
	const struct lsm_scan *scan;
};

static int feed(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	struct aggregated *aggregated = context;

	return lsm_aggregate_feed(aggregated->aggregates[thread], rows, nr);
}

static void pass_progress(void *context, uint64_t done, uint64_t total)
{
	const struct lsm_scan *scan = ((struct aggregated *)context)->scan;

	scan->progress(scan->context, done, total);
}

int lsm_scan_aggregate(struct lsm *lsm, const struct lsm_scan *scan,
		       const struct lsm_question *question, struct lsm_aggregate **aggregate,
		       struct lsm_scan_result *result)
{
	struct aggregated aggregated = { .scan = scan };
	struct lsm_scan inner = *scan;
	struct lsm_explain explain;
	uint32_t i;
	int ret;

	ret = lsm_scan_explain(lsm, scan, &explain);
	for (i = 0; !ret && i < explain.threads; i++)
		ret = lsm_aggregate_create(question, &aggregated.aggregates[i]);
	if (!ret) {
		inner.threads = explain.threads;
		inner.prefix = lsm_aggregate_prefix(aggregated.aggregates[0]);
		inner.batch = feed;
		inner.progress = scan->progress ? pass_progress : NULL;
		inner.context = &aggregated;
		ret = lsm_scan(lsm, &inner, result);
	}
	for (i = 1; i < LSM_THREADS_MAX; i++) {
		if (!ret && i < explain.threads)
			ret = lsm_aggregate_merge(aggregated.aggregates[0], aggregated.aggregates[i]);
		lsm_aggregate_destroy(aggregated.aggregates[i]);
	}
	if (ret)
		lsm_aggregate_destroy(aggregated.aggregates[0]);
	else
		*aggregate = aggregated.aggregates[0];
	return ret;
}
