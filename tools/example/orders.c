// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * An order table, transactions, and the revenue of each region once a second.
 *
 *	orders STORE ORDERS SECONDS WRITERS
 *
 * Each order is an object of 100 bytes.  Writers change orders at random: the amount, and sometimes the region.  Each
 * second an exact scan sums the amounts by region, as they were at one version, while the writers go on.
 * Each writer notes what its changes have added to and taken from regions; so every sum is compared with what it must
 * be at that version, to the cent.  A line of JSON for each second, and one at the end, go to standard output.
 */
#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lsmem.h>

#define REGIONS		8u
#define WRITERS_MAX	16u
#define LOADED		64u	/* orders of a vector call */
#define QUIET		5u	/* seconds without scans, before and after */
#define ROUNDS		5u	/* of look-ups and scans at rest */
#define SECONDS_MAX	3600u

struct order {
	uint64_t number;
	uint32_t region;
	uint32_t changed;	/* how often */
	int64_t cents;
	char note[76];
} __attribute__((packed));

static const struct lsm_column region_column = { .type = LSM_U32, .offset = offsetof(struct order, region) };
static const struct lsm_measure revenue = {
	.column = { .type = LSM_I64, .offset = offsetof(struct order, cents) },
};
static const struct lsm_question question = {
	.group = &region_column, .groups_max = REGIONS, .measures = &revenue, .nr_measures = 1,
};

/* A change of an order: one region loses what the other gains, if it is not the same. */
struct event {
	uint64_t version;
	uint32_t from;
	uint32_t to;
	int64_t less;
	int64_t more;
};

/**
 * struct writer - a thread that changes its own orders
 * @lsm: store
 * @orders: all; its own are every @nr_writers th from @number on
 * @handles: of all orders
 * @nr_orders: of all
 * @number: of the writer
 * @nr_writers: how many there are
 * @changes: made so far
 * @stop: set by main
 * @error: the first
 * @lock: protects all that follows
 * @noted: an event with a version above @awaited is there, or the writer has ended
 * @awaited: main waits for such an event; UINT64_MAX: it does not
 * @ended: no event follows
 * @events: not yet settled, in the order of their versions
 * @nr: entries of @events
 * @room: for so many
 */
struct writer {
	struct lsm *lsm;
	struct order *orders;
	const uint64_t *handles;
	uint64_t nr_orders;
	uint32_t number;
	uint32_t nr_writers;
	_Atomic uint64_t changes;
	atomic_bool stop;
	int error;
	pthread_mutex_t lock;
	pthread_cond_t noted;
	uint64_t awaited;
	bool ended;
	struct event *events;
	size_t nr;
	size_t room;
};

static struct writer writers[WRITERS_MAX];
static uint32_t nr_writers;
static int64_t expected[REGIONS];	/* at the version of the last scan */

static void check(int ret, const char *what)
{
	if (ret)
		error(1, -ret, "%s", what);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* xorshift64* */
static uint32_t draw(uint64_t *state, uint64_t below)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (uint32_t)((*state * 0x2545f4914f6cdd1dull >> 32) % below);
}

/* ---- Transactions -------------------------------------------------------------- */

static int note(struct writer *writer, const struct event *event)
{
	struct event *more;
	int ret = 0;

	pthread_mutex_lock(&writer->lock);
	if (writer->nr == writer->room) {
		writer->room = writer->room ? 2 * writer->room : 4096;
		more = realloc(writer->events, writer->room * sizeof(*more));
		ret = more ? 0 : -ENOMEM;
		writer->events = more ? more : writer->events;
	}
	if (!ret)
		writer->events[writer->nr++] = *event;
	if (event->version > writer->awaited)
		pthread_cond_signal(&writer->noted);
	pthread_mutex_unlock(&writer->lock);
	return ret;
}

static int change_order(struct writer *writer, uint64_t *state)
{
	uint64_t nr_own = (writer->nr_orders - writer->number + writer->nr_writers - 1) / writer->nr_writers;
	uint64_t i = draw(state, nr_own) * (uint64_t)writer->nr_writers + writer->number;
	struct order *order = &writer->orders[i];
	struct event event = { .from = order->region, .less = order->cents };
	int ret;

	order->cents = 100 + draw(state, 1000000);
	if (draw(state, 10) == 0)
		order->region = draw(state, REGIONS);
	order->changed++;
	event.to = order->region;
	event.more = order->cents;
	ret = lsm_replace(writer->lsm, writer->handles[i], order, sizeof(*order), 0, &event.version);
	return ret ? ret : note(writer, &event);
}

static void *write_orders(void *argument)
{
	struct writer *writer = argument;
	uint64_t state = 0x9e3779b97f4a7c15ull * (writer->number + 1);

	while (!writer->stop && !writer->error) {
		writer->error = change_order(writer, &state);
		writer->changes++;
	}
	pthread_mutex_lock(&writer->lock);
	writer->ended = true;
	pthread_cond_signal(&writer->noted);
	pthread_mutex_unlock(&writer->lock);
	return NULL;
}

static void load_orders(struct lsm *lsm, struct order *orders, uint64_t *handles, uint64_t nr)
{
	struct lsmem_op ops[LOADED];
	uint64_t state = 1, i, j;

	for (i = 0; i < nr; i += LOADED) {
		uint64_t some = nr - i < LOADED ? nr - i : LOADED;

		for (j = 0; j < some; j++) {
			struct order *order = &orders[i + j];

			*order = (struct order){ .number = i + j, .region = draw(&state, REGIONS),
						 .cents = 100 + draw(&state, 1000000), .note = "ordered" };
			expected[order->region] += order->cents;
			ops[j] = lsm_op_alloc(order, sizeof(*order), 0);
		}
		check(lsm_vector(lsm, ops, some, 0, NULL), "loading");
		for (j = 0; j < some; j++) {
			check(ops[j].result, "an order");
			handles[i + j] = ops[j].handle;
		}
	}
}

/* ---- Revenue -------------------------------------------------------------------- */

/* What the regions must have at @version. */
static void settle(uint64_t version)
{
	struct writer *writer;
	size_t i;

	for (writer = writers; writer < writers + nr_writers; writer++) {
		pthread_mutex_lock(&writer->lock);
		/* Its changes are in the order of their versions: behind a later one there is none before. */
		writer->awaited = version;
		while (!writer->ended && !(writer->nr && writer->events[writer->nr - 1].version > version))
			pthread_cond_wait(&writer->noted, &writer->lock);
		writer->awaited = UINT64_MAX;
		for (i = 0; i < writer->nr && writer->events[i].version <= version; i++) {
			expected[writer->events[i].from] -= writer->events[i].less;
			expected[writer->events[i].to] += writer->events[i].more;
		}
		writer->nr -= i;
		memmove(writer->events, writer->events + i, writer->nr * sizeof(*writer->events));
		pthread_mutex_unlock(&writer->lock);
	}
}

/* Sums the revenue of the regions.  Return: as lsm_scan_aggregate(). */
static int sum_regions(struct lsm *lsm, const struct lsm_scan *scan, int64_t *sums, struct lsm_scan_result *result)
{
	struct lsm_aggregate *aggregate;
	struct lsm_counts counts;
	struct lsm_total total;
	union lsm_value region;
	size_t i;
	int ret;

	memset(sums, 0, REGIONS * sizeof(*sums));
	ret = lsm_scan_aggregate(lsm, scan, &question, &aggregate, result);
	if (ret)
		return ret;
	check(lsm_aggregate_counts(aggregate, &counts), "counts");
	for (i = 0; i < counts.groups; i++) {
		check(lsm_aggregate_group(aggregate, i, &region, NULL, &total), "a group");
		if (region.u64 < REGIONS)
			sums[region.u64] = (int64_t)total.sum_low;
	}
	lsm_aggregate_destroy(aggregate);
	return 0;
}

static uint64_t all_changes(void)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < nr_writers; i++)
		sum += writers[i].changes;
	return sum;
}

/* Changes of the second that ends at @end, which is moved on; waits for it. */
static uint64_t next_second(uint64_t *end, uint64_t *before)
{
	struct timespec until;
	uint64_t now, changes;

	*end += 1000000000u;
	until.tv_sec = (time_t)(*end / 1000000000u);
	until.tv_nsec = (long)(*end % 1000000000u);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
	now = all_changes();
	changes = now - *before;
	*before = now;
	return changes;
}

static int compare_numbers(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double median(double *values, size_t nr)
{
	qsort(values, nr, sizeof(*values), compare_numbers);
	return nr % 2 ? values[nr / 2] : (values[nr / 2 - 1] + values[nr / 2]) / 2;
}

/* Look-ups of all orders, one after the other in random order, by the time of a scan. */
static double compare_plans(struct lsm *lsm, const uint64_t *handles, uint64_t nr)
{
	struct lsm_scan scan = { .flags = LSM_SCAN_EXACT, .threads = 1 };
	uint64_t *shuffled = malloc(nr * sizeof(*shuffled)), state = 7, i, other, had, begin, middle;
	int64_t sums[REGIONS], looked[REGIONS];
	struct lsm_scan_result result;
	double ratios[ROUNDS];
	struct order order;
	uint32_t round;

	if (!shuffled)
		error(1, ENOMEM, "look-ups");
	memcpy(shuffled, handles, nr * sizeof(*shuffled));
	for (i = nr; i > 1; i--) {
		other = draw(&state, i);
		had = shuffled[i - 1];
		shuffled[i - 1] = shuffled[other];
		shuffled[other] = had;
	}
	for (round = 0; round < ROUNDS; round++) {
		memset(looked, 0, sizeof(looked));
		begin = now_ns();
		for (i = 0; i < nr; i++) {
			if (lsm_read(lsm, shuffled[i], &order, offsetof(struct order, note), 0, NULL) < 0)
				error(1, EIO, "a look-up");
			looked[order.region % REGIONS] += order.cents;
		}
		middle = now_ns();
		check(sum_regions(lsm, &scan, sums, &result), "a scan");
		ratios[round] = (double)(middle - begin) / (double)(now_ns() - middle);
		if (memcmp(sums, looked, sizeof(sums)))
			error(1, 0, "look-ups and scan differ");
	}
	free(shuffled);
	return median(ratios, ROUNDS);
}

static void start_writers(struct lsm *lsm, struct order *orders, const uint64_t *handles, uint64_t nr,
			  pthread_t *threads)
{
	uint32_t i;

	for (i = 0; i < nr_writers; i++) {
		writers[i] = (struct writer){
			.lsm = lsm, .orders = orders, .handles = handles, .nr_orders = nr, .number = i,
			.nr_writers = nr_writers, .awaited = UINT64_MAX,
		};
		pthread_mutex_init(&writers[i].lock, NULL);
		pthread_cond_init(&writers[i].noted, NULL);
		check(-pthread_create(&threads[i], NULL, write_orders, &writers[i]), "a writer");
	}
}

static void stop_writers(const pthread_t *threads)
{
	uint32_t i;

	for (i = 0; i < nr_writers; i++) {
		writers[i].stop = true;
		pthread_join(threads[i], NULL);
		check(writers[i].error, "a writer");
	}
}

/**
 * struct tally - what the seconds with scans have shown
 * @scans: that were compared
 * @wrong: of these
 * @revoked: scans that were told so
 */
struct tally {
	uint64_t scans;
	uint64_t wrong;
	uint64_t revoked;
};

static void scan_once(struct lsm *lsm, uint64_t second, struct tally *tally)
{
	struct lsm_scan scan = { .flags = LSM_SCAN_EXACT, .threads = 1 };
	uint64_t begin = now_ns(), end;
	struct lsm_scan_result result;
	int64_t sums[REGIONS];
	bool wrong;
	uint32_t i;
	int ret;

	ret = sum_regions(lsm, &scan, sums, &result);
	end = now_ns();
	if (ret == -ECANCELED || ret == -ENOSPC || ret == -ETIMEDOUT) {
		tally->revoked++;
		printf("{\"second\": %" PRIu64 ", \"revoked\": \"%s\"}\n", second, strerror(-ret));
		fflush(stdout);
		return;
	}
	check(ret, "a scan");
	settle(result.version);
	wrong = memcmp(sums, expected, sizeof(sums));
	tally->scans++;
	tally->wrong += wrong;
	printf("{\"second\": %" PRIu64 ", \"rows\": %" PRIu64 ", \"scan_ms\": %.3f, \"wrong\": %d, \"cents\": [",
	       second, result.rows, (double)(end - begin) / 1e6, wrong);
	for (i = 0; i < REGIONS; i++)
		printf("%s%" PRId64, i ? ", " : "", sums[i]);
	printf("]}\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	uint64_t nr = argc == 5 ? strtoull(argv[2], NULL, 0) : 0, end, before = 0, second;
	uint64_t seconds = argc == 5 ? strtoull(argv[3], NULL, 0) : 0, quiet = 0;
	double alone[2 * QUIET], beside[SECONDS_MAX], lookups;
	pthread_t threads[WRITERS_MAX];
	struct tally tally = { 0 };
	struct order *orders;
	uint64_t *handles;
	struct lsm *lsm;

	nr_writers = argc == 5 ? (uint32_t)strtoul(argv[4], NULL, 0) : 0;
	if (!nr_writers || nr_writers > WRITERS_MAX || nr < nr_writers || nr > UINT32_MAX || !seconds ||
	    seconds > SECONDS_MAX) {
		fprintf(stderr, "usage: %s STORE ORDERS SECONDS WRITERS\n", argv[0]);
		return 2;
	}
	check(lsm_open(argv[1], 0, &lsm), argv[1]);
	orders = calloc(nr, sizeof(*orders));
	handles = calloc(nr, sizeof(*handles));
	if (!orders || !handles)
		error(1, ENOMEM, "%" PRIu64 " orders", nr);
	load_orders(lsm, orders, handles, nr);
	start_writers(lsm, orders, handles, nr, threads);
	end = now_ns();
	next_second(&end, &before);		/* they warm up */
	while (quiet < QUIET)
		alone[quiet++] = (double)next_second(&end, &before);
	for (second = 0; second < seconds; second++) {
		scan_once(lsm, second, &tally);
		beside[second] = (double)next_second(&end, &before);
	}
	while (quiet < 2 * QUIET)
		alone[quiet++] = (double)next_second(&end, &before);
	stop_writers(threads);
	scan_once(lsm, seconds, &tally);
	lookups = compare_plans(lsm, handles, nr);
	printf("{\"objects\": %" PRIu64 ", \"scans\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"revoked\": %" PRIu64,
	       nr, tally.scans, tally.wrong, tally.revoked);
	printf(", \"changes\": %" PRIu64 ", \"changes_per_second\": %.0f", all_changes(), median(alone, quiet));
	printf(", \"lookup_over_log\": %.2f, \"writer_ratio\": %.3f}\n", lookups,
	       median(beside, seconds) / median(alone, quiet));
	lsm_close(lsm);
	return tally.wrong != 0;
}
