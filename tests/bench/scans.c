// SPDX-License-Identifier: GPL-2.0
/*
 * Scans: questions of some or all objects, by each plan of lsm_scan(), and beside them what limits a scan: the memory,
 * and the same question of columns in plain arrays.
 *
 * The objects were replaced in random order after they were allocated, so that they lie in memory in another
 * order than in the handle table, between dead ones.  Object n has n as u64 at 0, n % GROUPS as u64 at 8, and at
 * 20 a u32 that is as good as random.
 *
 * The mode scan replaces random objects in a round.  Its orders:
 *
 *	sum PLAN PER_MILLE THREADS	add the values of so many objects; PLAN as enum lsm_plan, or 5:
 *				lsm_read() of one after the other in random order
 *	rows THREADS	add all words of all objects, in log order; rows_ms: from the first batch on, without the
 *				snapshot
 *	array THREADS	add the words of an array that is as large as all objects
 *	ask QUESTION THREADS	enum question, of the objects in log order
 *	plain QUESTION THREADS	of columns in arrays; not ALL
 *	columns		write the columns to a file for other programs: u64, u64, u32
 *	spread HOW GROUPS	set (0) the second word of all objects, or add to it (1), by lsm_spread(); GROUPS 1: in groups
 *	each VECTOR	add to it by reading and replacing objects in random order: one after the other (1), or so many
 *				at once
 *	beside MS PLAIN	begin to scan in log order on the last processor, each so many milliseconds; 0: one after the
 *				other; PLAIN 1: no scan, but sums of an array, which have nothing to do with the store
 *	alone		end that
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lsmem/lsmem_format.h>

#include "../guest/store.h"
#include "bench.h"

#define ONE_BY_ONE	5
#define OTHER_BYTES	(128u << 20)
#define REFUSED_NS	10000000u	/* until the next try */
#define THREADS_MAX	64u
#define GROUPS		100u
#define PICK_OFFSET	20u
#define OBJECT_BYTES	24u		/* least size of an object */
#define PICK_BELOW	(UINT32_MAX / 10)	/* a tenth of the objects */
#define FAST		__attribute__((optimize("O3"), target_clones("avx2", "default")))

/* What is asked: the sum of the values, that of a tenth of the objects, one for each group, that of all words. */
enum question { SUM, FILTER, GROUP, ALL };

static struct store store;
static uint64_t *handles;	/* in random order */
static uint64_t nr_handles;

/* Each sum begins with a cold cache, as a scan does that is not one of many. */
static void empty_cache(void)
{
	static uint8_t *other;
	static uint8_t turn;

	if (!other)
		other = get_memory(OTHER_BYTES, 64);
	memset(other, ++turn, OTHER_BYTES);
	/* Else nothing reads it. */
	__asm__ volatile("" : : "r"(other) : "memory");
}

static void remove_store(void)
{
	if (store_destroy(&store))
		fprintf(stderr, "bench: %s is left\n", store.name);
}

static void write_all(const struct bench *bench, bool first)
{
	struct lsmem_op *ops = get_memory(sizeof(*ops) * bench->batch, 64);
	uint8_t *data = get_memory((uint64_t)bench->size * bench->batch, 64);
	uint64_t done;
	uint32_t nr, i;
	int ret;

	for (done = 0; done < nr_handles; done += nr) {
		nr = nr_handles - done < bench->batch ? (uint32_t)(nr_handles - done) : bench->batch;
		for (i = 0; i < nr; i++) {
			uint8_t *bytes = data + (size_t)i * bench->size;

			content_fill(bytes, bench->size, (done + i) % GROUPS, done + i);
			ops[i] = first ? lsm_op_alloc(bytes, bench->size, 0) :
					 lsm_op_replace(handles[done + i], bytes, bench->size, 0, 0);
		}
		ret = lsm_vector(store.lsm, ops, nr, 0, NULL);
		for (i = 0; i < nr && !ret; i++) {
			ret = ops[i].result;
			handles[done + i] = ops[i].handle;
		}
		if (ret)
			fail("vector call", -ret);
	}
	free(data);
	free(ops);
}

static void shuffle(void)
{
	static uint64_t state = 1;
	uint64_t i, other, handle;

	for (i = nr_handles; i > 1; i--) {
		other = random_below(&state, i);
		handle = handles[i - 1];
		handles[i - 1] = handles[other];
		handles[other] = handle;
	}
}

static void scan_setup(struct bench *bench)
{
	int ret;

	if (!bench->handles || bench->size < OBJECT_BYTES)
		fail("-n NUMBER -s BYTES", EINVAL);
	ret = store_create(&store, bench->bytes, bench->handles + 1024, 0);
	if (ret)
		fail("store", -ret);
	atexit(remove_store);
	nr_handles = bench->handles;
	handles = get_memory(nr_handles * sizeof(*handles), 64);
	write_all(bench, true);
	shuffle();
	write_all(bench, false);
	/* Look-ups are in yet another order than memory. */
	shuffle();
}

static uint64_t read_all(uint64_t nr)
{
	uint64_t sum = 0, value, i;

	for (i = 0; i < nr; i++) {
		if (lsm_read(store.lsm, handles[i], &value, sizeof(value), 0, NULL) != sizeof(value))
			fail("lsm_read", EIO);
		sum += value;
	}
	return sum;
}

static uint64_t scan_all(struct lsm_scan *scan, struct lsm_scan_result *result)
{
	const struct lsm_measure measure = { .column = { .type = LSM_U64 } };
	const struct lsm_question question = { .measures = &measure, .nr_measures = 1 };
	struct lsm_aggregate *aggregate;
	struct lsm_total total;
	int ret;

	ret = lsm_scan_aggregate(store.lsm, scan, &question, &aggregate, result);
	if (!ret)
		ret = lsm_aggregate_total(aggregate, 0, &total);
	if (ret)
		fail("scan", -ret);
	lsm_aggregate_destroy(aggregate);
	return total.sum_low;
}

/* Prints how long something took. */
static void answer(uint64_t ns, uint64_t sum)
{
	printf("{\"ms\": %.3f, \"sum\": %" PRIu64 "}\n", (double)ns / 1e6, sum);
}

static void order_sum(const double *arguments)
{
	struct lsm_scan_result result = { 0 };
	struct lsm_scan scan = { 0 };
	uint64_t wanted, sum, time;
	bool alone;

	alone = arguments[0] == ONE_BY_ONE;
	wanted = (uint64_t)((double)nr_handles * arguments[1] / 1000);
	scan.plan = alone ? LSM_PLAN_LOOKUP : (uint32_t)arguments[0];
	scan.threads = (uint32_t)arguments[2];
	/* All objects are those of a list, or need none. */
	if (wanted < nr_handles || scan.plan == LSM_PLAN_LOOKUP || scan.plan == LSM_PLAN_SORTED) {
		scan.handles = handles;
		scan.nr_handles = wanted;
	}
	empty_cache();
	time = now_ns();
	sum = alone ? read_all(wanted) : scan_all(&scan, &result);
	time = now_ns() - time;
	printf("{\"ns\": %.3f, \"ms\": %.3f, \"sum\": %" PRIu64 ", \"plan\": \"%s\", \"estimate_ms\": %.3f}\n",
	       (double)time / (double)wanted, (double)time / 1e6, sum, lsm_plan_name(result.explain.plan),
	       (double)result.explain.cost_ns[result.explain.plan] / 1e6);
}

/* ---- Changes of all objects ---------------------------------------------------- */

#define VECTOR_MOST	64u

static void order_spread(uint32_t how, bool grouped)
{
	const struct lsm_spread spread = {
		.how = how ? LSM_SPREAD_ADD : LSM_SPREAD_SET, .flags = grouped ? LSM_ATOMIC : 0,
		.column = { .type = LSM_U64, .offset = 8 }, .amount.u64 = 1,
	};
	const struct lsm_scan all = { .threads = 1 };
	struct lsm_spread_report report;
	uint64_t time;
	int ret;

	empty_cache();
	time = now_ns();
	ret = lsm_spread(store.lsm, &all, &spread, &report);
	if (ret)
		fail("lsm_spread", -ret);
	answer(now_ns() - time, report.changed);
}

static void raise_word(uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes + 8, sizeof(word));
	word++;
	memcpy(bytes + 8, &word, sizeof(word));
}

/* Reads, changes and replaces objects, each if it has not changed since.  Return: how many were replaced. */
static uint64_t raise_one(uint64_t handle, uint8_t *bytes, uint32_t size)
{
	struct lsm_object object;
	ssize_t length = lsm_read(store.lsm, handle, bytes, size, 0, &object);
	int ret;

	if (length != size)
		fail("lsm_read", EIO);
	raise_word(bytes);
	ret = lsm_replace(store.lsm, handle, bytes, size, LSM_EXPECT, &object.version);
	if (ret)
		fail("lsm_replace", -ret);
	return 1;
}

static uint64_t raise_many(const uint64_t *some, uint32_t nr, uint8_t *bytes, uint32_t size)
{
	struct lsmem_op ops[VECTOR_MOST];
	uint32_t i;
	int ret;

	for (i = 0; i < nr; i++)
		ops[i] = lsm_op_read(some[i], bytes + (size_t)i * size, size, 0);
	lsm_read_many(store.lsm, ops, nr);
	for (i = 0; i < nr; i++) {
		if (ops[i].result)
			fail("lsm_read_many", -ops[i].result);
		raise_word(bytes + (size_t)i * size);
		ops[i] = lsm_op_replace(some[i], bytes + (size_t)i * size, size, LSM_EXPECT, ops[i].version);
	}
	ret = lsm_vector(store.lsm, ops, nr, 0, NULL);
	for (i = 0; i < nr && !ret; i++)
		ret = ops[i].result;
	if (ret)
		fail("lsm_vector", -ret);
	return nr;
}

static void order_each(const struct bench *bench, uint32_t vector)
{
	uint8_t *bytes = get_memory((uint64_t)VECTOR_MOST * bench->size, 64);
	uint64_t done, time, changed = 0;

	/* What was replaced in this order the last time lies in it. */
	shuffle();
	empty_cache();
	time = now_ns();
	for (done = 0; done < nr_handles; done += vector) {
		if (vector == 1)
			changed += raise_one(handles[done], bytes, bench->size);
		else
			changed += raise_many(handles + done, nr_handles - done < vector ?
					      (uint32_t)(nr_handles - done) : vector, bytes, bench->size);
	}
	answer(now_ns() - time, changed);
	free(bytes);
}

/* ---- Memory, and columns in arrays ------------------------------------------- */

/**
 * struct slice - what a thread computes
 * @work: computes it of elements @from .. @to - 1
 * @sum: result
 * @groups: likewise, of GROUP
 */
struct slice {
	void (*work)(struct slice *slice);
	uint64_t from;
	uint64_t to;
	uint64_t sum;
	uint64_t groups[GROUPS];
	pthread_t thread;
} __attribute__((aligned(128)));

static struct slice slices[THREADS_MAX];
static uint64_t *array;		/* as many bytes as all objects */
static uint64_t array_words;
static uint64_t *values;	/* of object n */
static uint64_t *groups;
static uint32_t *picks;

FAST static uint64_t sum_words(const uint8_t *bytes, uint64_t nr)
{
	uint64_t sum = 0, word, i;

	for (i = 0; i < nr; i++) {
		memcpy(&word, bytes + 8 * i, 8);
		sum += word;
	}
	return sum;
}

static void sum_array(struct slice *slice)
{
	slice->sum = sum_words((const uint8_t *)(array + slice->from), slice->to - slice->from);
}

static void sum_values(struct slice *slice)
{
	slice->sum = sum_words((const uint8_t *)(values + slice->from), slice->to - slice->from);
}

FAST static uint64_t sum_picked(uint64_t from, uint64_t to)
{
	uint64_t sum = 0, i;

	for (i = from; i < to; i++)
		sum += picks[i] < PICK_BELOW ? values[i] : 0;
	return sum;
}

static void filter_values(struct slice *slice)
{
	slice->sum = sum_picked(slice->from, slice->to);
}

static void group_values(struct slice *slice)
{
	uint64_t i;

	for (i = slice->from; i < slice->to; i++)
		slice->groups[groups[i]] += values[i];
	for (i = 0; i < GROUPS; i++)
		slice->sum += (i + 1) * slice->groups[i];
}

static void *slice_main(void *argument)
{
	struct slice *slice = argument;

	slice->work(slice);
	return NULL;
}

/* Computes something of @nr elements in threads.  Return: the sum of the results. */
static uint64_t in_slices(void (*work)(struct slice *slice), uint64_t nr, uint32_t threads)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < threads; i++) {
		slices[i] = (struct slice){ .work = work, .from = nr * i / threads, .to = nr * (i + 1) / threads };
		if (i && pthread_create(&slices[i].thread, NULL, slice_main, &slices[i]))
			fail("thread", EAGAIN);
	}
	work(&slices[0]);
	for (i = 0; i < threads; i++) {
		if (i)
			pthread_join(slices[i].thread, NULL);
		sum += slices[i].sum;
	}
	return sum;
}

static void make_array(const struct bench *bench)
{
	array_words = nr_handles * bench->size / 8;
	if (!array)
		array = get_memory(array_words * 8, 64);
}

static void order_array(const struct bench *bench, uint32_t threads)
{
	uint64_t sum, time;

	make_array(bench);
	empty_cache();
	time = now_ns();
	sum = in_slices(sum_array, array_words, threads);
	answer(now_ns() - time, sum);
}

static uint32_t pick_of(uint64_t number)
{
	return (uint32_t)(content_word(number % GROUPS, number, PICK_OFFSET / 8) >> 32);
}

static void make_columns(void)
{
	uint64_t i;

	if (values)
		return;
	values = get_memory(nr_handles * sizeof(*values), 64);
	groups = get_memory(nr_handles * sizeof(*groups), 64);
	picks = get_memory(nr_handles * sizeof(*picks), 64);
	for (i = 0; i < nr_handles; i++) {
		values[i] = i;
		groups[i] = i % GROUPS;
		picks[i] = pick_of(i);
	}
}

static void order_plain(uint32_t question, uint32_t threads)
{
	void (*const works[])(struct slice *slice) = { sum_values, filter_values, group_values };
	uint64_t sum, time;

	make_columns();
	empty_cache();
	time = now_ns();
	sum = in_slices(works[question], nr_handles, threads);
	answer(now_ns() - time, sum);
}

static void order_columns(void)
{
	char path[] = "/tmp/lsmem-bench.XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	make_columns();
	if (!file || fwrite(values, sizeof(*values), nr_handles, file) != nr_handles ||
	    fwrite(groups, sizeof(*groups), nr_handles, file) != nr_handles ||
	    fwrite(picks, sizeof(*picks), nr_handles, file) != nr_handles || fclose(file))
		fail(path, errno);
	printf("{\"path\": \"%s\", \"objects\": %" PRIu64 ", \"below\": %u}\n", path, nr_handles, PICK_BELOW);
}

/* ---- Questions of the objects --------------------------------------------------- */

/* @context: when the first thread had its first batch; 0: not yet */
static int sum_rows(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	uint64_t *first = context;
	size_t i;

	if (!thread && !*first)
		*first = now_ns();
	for (i = 0; i < nr; i++)
		slices[thread].sum += sum_words(rows[i].data, rows[i].bytes / 8);
	return 0;
}

static void order_rows(uint32_t threads)
{
	uint64_t sum = 0, first = 0, time, end;
	struct lsm_scan scan = { .plan = LSM_PLAN_LOG, .threads = threads, .batch = sum_rows, .context = &first };
	uint32_t i;
	int ret;

	memset(slices, 0, sizeof(slices));
	empty_cache();
	time = now_ns();
	ret = lsm_scan(store.lsm, &scan, NULL);
	end = now_ns();
	if (ret)
		fail("scan", -ret);
	for (i = 0; i < threads; i++)
		sum += slices[i].sum;
	printf("{\"ms\": %.3f, \"rows_ms\": %.3f, \"sum\": %" PRIu64 "}\n", (double)(end - time) / 1e6,
	       (double)(end - first) / 1e6, sum);
}

/* Return: 0, or a negative errno. */
static int ask(uint32_t question, uint32_t threads, uint64_t *sum)
{
	const struct lsm_scan scan = { .plan = LSM_PLAN_LOG, .threads = threads };
	const struct lsm_measure measure = { .column = { .type = LSM_U64, .nr = question == ALL ? LSM_TO_END : 1 } };
	const struct lsm_column group = { .type = LSM_U64, .offset = 8 };
	const struct lsm_range range = { .column = { .type = LSM_U32, .offset = PICK_OFFSET },
					 .high.u64 = PICK_BELOW - 1 };
	const struct lsm_question asked = { .ranges = &range, .nr_ranges = question == FILTER, .measures = &measure,
					    .nr_measures = 1, .group = question == GROUP ? &group : NULL };
	struct lsm_aggregate *aggregate;
	struct lsm_counts counts;
	struct lsm_total total;
	union lsm_value value;
	uint64_t objects;
	size_t i;
	int ret;

	*sum = 0;
	ret = lsm_scan_aggregate(store.lsm, &scan, &asked, &aggregate, NULL);
	if (ret)
		return ret;
	ret = lsm_aggregate_counts(aggregate, &counts);
	if (!ret && question != GROUP) {
		ret = lsm_aggregate_total(aggregate, 0, &total);
		*sum = total.sum_low;
	}
	for (i = 0; !ret && question == GROUP && i < counts.groups; i++) {
		ret = lsm_aggregate_group(aggregate, i, &value, &objects, &total);
		*sum += (value.u64 + 1) * total.sum_low;
	}
	lsm_aggregate_destroy(aggregate);
	return ret;
}

static void order_ask(uint32_t question, uint32_t threads)
{
	uint64_t sum, time;
	int ret;

	empty_cache();
	time = now_ns();
	ret = ask(question, threads, &sum);
	time = now_ns() - time;
	if (ret)
		fail("scan", -ret);
	answer(time, sum);
}

/* ---- Scans beside writers --------------------------------------------------------- */

/**
 * struct beside - scans beside writers
 * @thread: thread
 * @lock: protects the following
 * @wake: @over is set
 * @over: end
 * @period_ns: from one begin to the next
 * @plain: sum an array instead
 * @scans: that stood
 * @revoked: that did not
 * @refused: no snapshot, because too little memory was free
 * @ns: of @scans, together
 */
static struct beside {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool over;
	uint64_t period_ns;
	bool plain;
	uint64_t scans;
	uint64_t revoked;
	uint64_t refused;
	uint64_t ns;
} beside = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Waits until @until, or the end.  Return: it goes on. */
static bool wait_until(uint64_t until)
{
	const struct timespec time = { .tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u) };
	bool over;

	pthread_mutex_lock(&beside.lock);
	while (!beside.over && now_ns() < until)
		pthread_cond_timedwait(&beside.wake, &beside.lock, &time);
	over = beside.over;
	pthread_mutex_unlock(&beside.lock);
	return !over;
}

/* Takes a processor and the memory as a scan does.  Return: 0. */
static int sum_plainly(uint64_t *sum)
{
	*sum = sum_words((const uint8_t *)array, array_words);
	return 0;
}

static void *scan_beside(void *argument)
{
	uint64_t begin, next = now_ns(), sum;
	int ret;

	use_cpu((unsigned int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
	while (wait_until(next)) {
		begin = now_ns();
		next = begin + beside.period_ns;
		ret = beside.plain ? sum_plainly(&sum) : ask(GROUP, 1, &sum);
		if (ret && ret != -ECANCELED && ret != -ENOSPC)
			fail("scan", -ret);
		/* Cleaners are behind the writer: a snapshot would make it wait. */
		if (ret == -ENOSPC && beside.period_ns < REFUSED_NS)
			next = begin + REFUSED_NS;
		beside.refused += ret == -ENOSPC;
		beside.revoked += ret == -ECANCELED;
		beside.scans += !ret;
		beside.ns += ret ? 0 : now_ns() - begin;
	}
	return argument;
}

static void order_beside(const struct bench *bench, double ms, bool plain)
{
	pthread_condattr_t clock;

	if (plain)
		make_array(bench);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&beside.wake, &clock);
	beside.over = false;
	beside.period_ns = (uint64_t)(ms * 1e6);
	beside.plain = plain;
	beside.scans = 0;
	beside.revoked = 0;
	beside.refused = 0;
	beside.ns = 0;
	if (pthread_create(&beside.thread, NULL, scan_beside, NULL))
		fail("thread", EAGAIN);
	printf("{\"ms\": %.0f}\n", ms);
}

static void order_alone(void)
{
	pthread_mutex_lock(&beside.lock);
	beside.over = true;
	pthread_cond_signal(&beside.wake);
	pthread_mutex_unlock(&beside.lock);
	pthread_join(beside.thread, NULL);
	printf("{\"scans\": %" PRIu64 ", \"revoked\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"ms\": %.3f}\n",
	       beside.scans, beside.revoked, beside.refused, beside.scans ? (double)beside.ns / 1e6 / (double)beside.scans : 0);
}

/* Replaces random objects until the end of the round. */
static uint64_t write_some(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	struct lsmem_op *ops = get_memory(sizeof(*ops) * bench->batch, 64);
	uint8_t *data = get_memory((uint64_t)bench->size * bench->batch, 64);
	uint64_t operations = 0;
	uint32_t i;
	int ret;

	for (i = 0; i < bench->batch; i++)
		content_fill(data + (size_t)i * bench->size, bench->size, i % GROUPS, i);
	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < bench->batch; i++)
			ops[i] = lsm_op_replace(handles[worker_next(worker, nr_handles)],
						data + (size_t)i * bench->size, bench->size, 0, 0);
		ret = lsm_vector(store.lsm, ops, bench->batch, 0, NULL);
		for (i = 0; i < bench->batch && !ret; i++)
			ret = ops[i].result;
		if (ret)
			fail("vector call", -ret);
		operations += bench->batch;
	}
	free(data);
	free(ops);
	return operations;
}

/* ---- The mode ---------------------------------------------------------------------- */

static bool scan_order(struct bench *bench, const char *verb, const double *arguments, unsigned int nr)
{
	uint32_t last = nr ? (uint32_t)arguments[nr - 1] : 0, question = nr ? (uint32_t)arguments[0] : 0;
	bool threads = last && last <= THREADS_MAX;

	if (!strcmp(verb, "sum") && nr == 3)
		order_sum(arguments);
	else if (!strcmp(verb, "rows") && nr == 1 && threads)
		order_rows(last);
	else if (!strcmp(verb, "array") && nr == 1 && threads)
		order_array(bench, last);
	else if (!strcmp(verb, "ask") && nr == 2 && threads && question <= ALL)
		order_ask(question, last);
	else if (!strcmp(verb, "plain") && nr == 2 && threads && question < ALL)
		order_plain(question, last);
	else if (!strcmp(verb, "columns") && !nr)
		order_columns();
	else if (!strcmp(verb, "spread") && nr == 2)
		order_spread((uint32_t)arguments[0], last);
	else if (!strcmp(verb, "each") && nr == 1 && last && last <= VECTOR_MOST)
		order_each(bench, last);
	else if (!strcmp(verb, "beside") && nr == 2)
		order_beside(bench, arguments[0], last);
	else if (!strcmp(verb, "alone") && !nr)
		order_alone();
	else
		return false;
	return true;
}

const struct mode scan_modes[] = {
	{ "scan", scan_setup, write_some, scan_order, false },
	{ 0 }
};
