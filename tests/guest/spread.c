// SPDX-License-Identifier: GPL-2.0
/*
 * lsm_spread(): values of many objects are changed.
 *
 * At rest each kind of change, for each type, must leave each object as a computation from its old bytes says,
 * and those that are not selected as they were.  While writers raise the same values, no change of either side is
 * lost: the sum tells.  A spread that is cut off, or killed, and goes on changes each object once.  A snapshot has all
 * changes of a group or none.
 */
#include <errno.h>
#include <lsmem/lsmem_format.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "store.h"

#define OBJECTS		20000u
#define WRITERS		2u
#define BIG		200000u

/* What each object begins with. Some are longer, and some too short. */
struct row {
	uint64_t number;
	uint32_t u32;
	uint32_t group;
	uint64_t u64;
	int64_t i64;
	double f64;
};

/**
 * struct rows - a store, and what its objects were
 * @store: store
 * @handles: OBJECTS
 * @lengths: of the objects
 * @rows: their beginnings
 * @state: of random numbers
 * @bytes: room for an object
 */
struct rows {
	struct store store;
	uint64_t *handles;
	uint32_t *lengths;
	struct row *rows;
	uint64_t state;
	uint8_t *bytes;
};

FIXTURE(spread) {
	struct rows rows;
};

FIXTURE_VARIANT(spread) {
	uint32_t flags;
};

FIXTURE_VARIANT_ADD(spread, alone) {
	.flags = 0,
};

FIXTURE_VARIANT_ADD(spread, groups) {
	.flags = LSM_ATOMIC,
};

FIXTURE_SETUP(spread)
{
	struct rows *rows = &self->rows;
	uint32_t i;

	ASSERT_EQ(0, store_create(&rows->store, STORE_BYTES, 2 * OBJECTS, 0));
	rows->handles = calloc(OBJECTS, sizeof(*rows->handles));
	rows->lengths = calloc(OBJECTS, sizeof(*rows->lengths));
	rows->rows = calloc(OBJECTS, sizeof(*rows->rows));
	rows->bytes = calloc(1, BIG);
	rows->state = test_seed;
	ASSERT_TRUE(rows->handles && rows->lengths && rows->rows && rows->bytes);
	for (i = 0; i < OBJECTS; i++) {
		struct row *row = &rows->rows[i];
		uint32_t dice = random_below(&rows->state, 1000);

		*row = (struct row){
			.number = i,
			.u32 = random_below(&rows->state, 1000000),
			.group = random_below(&rows->state, 4),
			.u64 = random_below(&rows->state, 1u << 30),
			.i64 = (int64_t)random_below(&rows->state, 2000000) - 1000000,
			.f64 = (double)random_below(&rows->state, 1u << 30) / 1024 - 1000,
		};
		rows->lengths[i] = dice < 2 ? BIG : dice < 10 ? 3000 : dice < 30 ? sizeof(*row) - 1 :
				   sizeof(*row) + random_below(&rows->state, 200);
		memcpy(rows->bytes, row, sizeof(*row));
		ASSERT_EQ(0, lsm_alloc(rows->store.lsm, rows->bytes, rows->lengths[i], 0, &rows->handles[i], NULL));
	}
}

FIXTURE_TEARDOWN(spread)
{
	free(self->rows.handles);
	free(self->rows.lengths);
	free(self->rows.rows);
	free(self->rows.bytes);
	EXPECT_EQ(0, store_destroy(&self->rows.store));
}

static const struct lsm_column u32_column = { .type = LSM_U32, .offset = offsetof(struct row, u32) };
static const struct lsm_column u64_column = { .type = LSM_U64, .offset = offsetof(struct row, u64) };
static const struct lsm_column i64_column = { .type = LSM_I64, .offset = offsetof(struct row, i64) };
static const struct lsm_column f64_column = { .type = LSM_F64, .offset = offsetof(struct row, f64) };
/* Groups 1 and 2 */
static const struct lsm_range half = {
	.column = { .type = LSM_U32, .offset = offsetof(struct row, group) }, .low.u64 = 1, .high.u64 = 2,
};

static bool selected(const struct rows *rows, uint32_t i)
{
	return rows->lengths[i] >= sizeof(struct row) && rows->rows[i].group >= 1 && rows->rows[i].group <= 2;
}

/* Compares all objects with @rows. Returns how many differ. */
static uint32_t differ(const struct rows *rows)
{
	uint32_t i, nr = 0, want;
	ssize_t got;

	for (i = 0; i < OBJECTS; i++) {
		want = rows->lengths[i] < sizeof(struct row) ? rows->lengths[i] : sizeof(struct row);
		got = lsm_read(rows->store.lsm, rows->handles[i], rows->bytes, BIG, 0, NULL);
		nr += got != rows->lengths[i] || memcmp(rows->bytes, &rows->rows[i], want);
	}
	return nr;
}

/* ---- At rest ----------------------------------------------------------------- */

TEST_F_TIMEOUT(spread, kinds, 240)
{
	struct lsm_spread spread = { .flags = variant->flags, .ranges = &half, .nr_ranges = 1 };
	struct rows *rows = &self->rows;
	struct lsm_spread_report report;
	struct lsm_scan all = { 0 };
	uint64_t nr = 0, shorter = 0, beyond, weights = 0;
	int64_t given;
	double real = 0;
	uint32_t i;

	for (i = 0; i < OBJECTS; i++) {
		nr += selected(rows, i);
		shorter += rows->lengths[i] < sizeof(struct row);
		weights += selected(rows, i) ? rows->rows[i].u64 : 0;
	}
	ASSERT_LT(0, shorter);

	/* Set; the column is the last one, so that the short ones do not have it. */
	spread.how = LSM_SPREAD_SET;
	spread.column = f64_column;
	spread.amount.f64 = 0.25;
	ASSERT_EQ(0, lsm_spread(rows->store.lsm, &all, &spread, &report));
	EXPECT_EQ(nr, report.selected);
	EXPECT_EQ(nr, report.changed);
	EXPECT_EQ(shorter, report.shorter);
	EXPECT_LT(0, report.version);
	for (i = 0; i < OBJECTS; i++)
		rows->rows[i].f64 = selected(rows, i) ? 0.25 : rows->rows[i].f64;
	EXPECT_EQ(0, differ(rows));

	/* Add, where some become negative, which they cannot. */
	spread.how = LSM_SPREAD_ADD;
	spread.column = u32_column;
	spread.amount.i64 = -500000;
	all.length_min = sizeof(struct row);
	ASSERT_EQ(0, lsm_spread(rows->store.lsm, &all, &spread, &report));
	for (beyond = 0, i = 0; i < OBJECTS; i++) {
		if (selected(rows, i) && rows->rows[i].u32 >= 500000)
			rows->rows[i].u32 -= 500000;
		else
			beyond += selected(rows, i);
	}
	EXPECT_LT(0, beyond);
	EXPECT_EQ(beyond, report.beyond);
	EXPECT_EQ(nr, report.changed + report.beyond);
	EXPECT_EQ(0, differ(rows));

	/* Scale, to the nearest. */
	spread.how = LSM_SPREAD_SCALE;
	spread.column = i64_column;
	spread.factor = -1.5;
	ASSERT_EQ(0, lsm_spread(rows->store.lsm, &all, &spread, &report));
	for (i = 0; i < OBJECTS; i++)
		if (selected(rows, i))
			rows->rows[i].i64 = (-3 * rows->rows[i].i64 + (rows->rows[i].i64 > 0 ? -1 : 1)) / 2;
	EXPECT_EQ(nr, report.changed);
	EXPECT_EQ(0, differ(rows));

	/* Share out: by weights, integers and doubles, and to all alike. */
	spread.how = LSM_SPREAD_SHARE;
	spread.amount.i64 = -123456789;
	spread.weight = &u64_column;
	ASSERT_EQ(0, lsm_spread(rows->store.lsm, &all, &spread, &report));
	for (given = 0, i = 0; i < OBJECTS; i++) {
		int64_t share = (int64_t)((__int128)-123456789 * rows->rows[i].u64 / (__int128)weights);

		if (!selected(rows, i))
			continue;
		rows->rows[i].i64 += share;
		given += share;
	}
	EXPECT_EQ(weights, report.weights.u64);
	EXPECT_EQ(given, report.given.i64);
	EXPECT_EQ(0, differ(rows));
	spread.column = f64_column;
	spread.amount.f64 = 1e6;
	ASSERT_EQ(0, lsm_spread(rows->store.lsm, &all, &spread, &report));
	for (i = 0; i < OBJECTS; i++) {
		if (!selected(rows, i))
			continue;
		rows->rows[i].f64 += 1e6 * ((double)rows->rows[i].u64 / (double)weights);
		real += 1e6 * ((double)rows->rows[i].u64 / (double)weights);
	}
	EXPECT_TRUE(fabs(real - report.given.f64) < 1e-6);
	EXPECT_TRUE(fabs(1e6 - report.given.f64) < 1e-6);
	EXPECT_EQ(0, differ(rows));
	spread.weight = NULL;
	spread.column = u64_column;
	spread.amount.i64 = (int64_t)(10 * nr + 3);
	ASSERT_EQ(0, lsm_spread(rows->store.lsm, &all, &spread, &report));
	for (i = 0; i < OBJECTS; i++)
		rows->rows[i].u64 += selected(rows, i) ? 10 : 0;
	EXPECT_EQ(nr, report.weights.u64);
	EXPECT_EQ((int64_t)(10 * nr), report.given.i64);
	EXPECT_EQ(0, differ(rows));

	/* A list, of which some are gone. */
	spread.how = LSM_SPREAD_ADD;
	spread.amount.i64 = 7;
	spread.nr_ranges = 0;
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, lsm_free(rows->store.lsm, rows->handles[i], 0, NULL));
		ASSERT_EQ(0, lsm_alloc(rows->store.lsm, &rows->rows[i], sizeof(struct row), 0, &rows->handles[i], NULL));
		rows->lengths[i] = sizeof(struct row);
		rows->rows[i].u64 += i % 2 ? 7 : 0;
	}
	for (i = 0; i < 50; i++)
		rows->handles[OBJECTS - 50 + i] = rows->handles[2 * i + 1];
	all.handles = &rows->handles[OBJECTS - 50];
	all.nr_handles = 50;
	ASSERT_EQ(0, lsm_spread(rows->store.lsm, &all, &spread, &report));
	EXPECT_EQ(50, report.changed);
	for (i = 0; i < 50; i++) {
		rows->rows[OBJECTS - 50 + i] = rows->rows[2 * i + 1];
		rows->lengths[OBJECTS - 50 + i] = sizeof(struct row);
	}
	EXPECT_EQ(0, differ(rows));
}

TEST_F(spread, refused)
{
	struct lsm_spread spread = { .how = LSM_SPREAD_SHARE, .column = i64_column, .weight = &i64_column,
				     .amount.i64 = 1 };
	struct lsm *lsm = self->rows.store.lsm;
	struct lsm_spread_report report;
	struct lsm_scan all = { 0 };

	EXPECT_EQ(-EDOM, lsm_spread(lsm, &all, &spread, &report));	/* some are negative */
	spread.weight = &f64_column;
	EXPECT_EQ(-EINVAL, lsm_spread(lsm, &all, &spread, NULL));
	spread.column = f64_column;
	spread.amount.f64 = NAN;
	spread.weight = NULL;
	EXPECT_EQ(-EINVAL, lsm_spread(lsm, &all, &spread, NULL));
	spread.how = LSM_SPREAD_SCALE;
	spread.factor = INFINITY;
	EXPECT_EQ(-EINVAL, lsm_spread(lsm, &all, &spread, NULL));
	spread.how = LSM_SPREAD_SHARE + 1;
	EXPECT_EQ(-EINVAL, lsm_spread(lsm, &all, &spread, NULL));
	spread.how = LSM_SPREAD_SET;
	spread.column = u32_column;
	spread.amount.u64 = 1ull << 32;
	EXPECT_EQ(-EINVAL, lsm_spread(lsm, &all, &spread, NULL));
	spread.column.nr = 2;
	spread.amount.u64 = 1;
	EXPECT_EQ(-EINVAL, lsm_spread(lsm, &all, &spread, NULL));
	spread.column.nr = 0;
	/* Nothing is selected. */
	all.length_min = LSMEM_OBJECT_MAX;
	EXPECT_EQ(0, lsm_spread(lsm, &all, &spread, &report));
	EXPECT_EQ(0, report.selected);
	EXPECT_EQ(0, differ(&self->rows));
}

/* ---- Going on ------------------------------------------------------------------ */

/* What a program keeps of a spread, and when it is cut off. */
struct kept {
	uint64_t version;
	union lsm_value weights;
	uint64_t stop;
	uint32_t begun;
};

static int keep(void *context, uint64_t version, union lsm_value weights)
{
	struct kept *kept = context;

	kept->begun++;
	kept->version = version;
	kept->weights = weights;
	return 0;
}

static int cut_off(void *context, uint64_t done, uint64_t total)
{
	struct kept *kept = context;

	return done > total ? -EPROTO : kept->stop && done >= kept->stop ? -EINTR : 0;
}

TEST_F_TIMEOUT(spread, goes_on, 240)
{
	struct kept kept = { .stop = 3000 };
	struct lsm_spread spread = {
		.how = LSM_SPREAD_SHARE, .flags = variant->flags, .column = i64_column, .weight = &u64_column,
		.amount.i64 = 1000000000,
		.begun = keep, .progress = cut_off, .context = &kept,
	};
	struct rows *rows = &self->rows;
	struct lsm_spread_report first, second;
	struct lsm_scan all = { 0 };
	uint64_t weights = 0;
	int64_t given = 0;
	uint32_t i;

	ASSERT_EQ(-EINTR, lsm_spread(rows->store.lsm, &all, &spread, &first));
	EXPECT_EQ(1, kept.begun);
	EXPECT_LE(3000, first.changed);
	EXPECT_GT(first.selected, first.changed);
	EXPECT_LT(0, differ(rows));
	kept.stop = 0;
	spread.version = kept.version;
	spread.weights = kept.weights;
	ASSERT_EQ(0, lsm_spread(rows->store.lsm, &all, &spread, &second));
	EXPECT_EQ(first.selected, first.changed + second.changed);
	EXPECT_EQ(second.selected, second.changed);
	EXPECT_EQ(first.version, second.version);
	for (i = 0; i < OBJECTS; i++)
		weights += rows->lengths[i] >= offsetof(struct row, f64) ? rows->rows[i].u64 : 0;
	for (i = 0; i < OBJECTS; i++) {
		int64_t share = (int64_t)((__int128)1000000000 * rows->rows[i].u64 / (__int128)weights);

		rows->rows[i].i64 += share;
		given += share;
	}
	EXPECT_EQ(weights, first.weights.u64);
	EXPECT_EQ(given, first.given.i64 + second.given.i64);
	EXPECT_EQ(0, differ(rows));
	/* And once more does nothing. */
	ASSERT_EQ(0, lsm_spread(rows->store.lsm, &all, &spread, &second));
	EXPECT_EQ(0, second.selected);
	EXPECT_EQ(0, differ(rows));
}

/* ---- With writers ---------------------------------------------------------------- */

/**
 * struct writer - a thread that raises the values of objects, as others do
 * @rows: the objects
 * @state: of random numbers
 * @raised: by so much, in all
 * @lost: how often another was faster
 * @stop: set by the test
 * @error: the first
 */
struct writer {
	const struct rows *rows;
	uint64_t state;
	int64_t raised;
	uint64_t lost;
	atomic_bool stop;
	int error;
};

static void *raise_values(void *argument)
{
	struct writer *writer = argument;
	struct lsm *lsm = writer->rows->store.lsm;
	uint8_t *bytes = malloc(BIG);

	while (!writer->stop && !writer->error) {
		uint32_t i = random_below(&writer->state, OBJECTS), by = random_below(&writer->state, 1000);
		struct row *row = (struct row *)bytes;
		struct lsm_object object;
		uint64_t version;
		ssize_t length;
		int ret;

		length = lsm_read(lsm, writer->rows->handles[i], bytes, BIG, 0, &object);
		if (length < (ssize_t)sizeof(*row)) {
			writer->error = length < 0 ? (int)length : 0;
			continue;
		}
		row->i64 += by;
		version = object.version;
		ret = lsm_replace(lsm, writer->rows->handles[i], bytes, (uint32_t)length, LSM_EXPECT, &version);
		if (!ret)
			writer->raised += by;
		else if (ret == -EILSEQ)
			writer->lost++;
		else
			writer->error = ret;
	}
	free(bytes);
	return NULL;
}

TEST_F_TIMEOUT(spread, writers, 240)
{
	struct lsm_spread spread = {
		.how = LSM_SPREAD_ADD, .flags = variant->flags, .column = i64_column, .amount.i64 = 1000000,
	};
	uint64_t changed = 0, lost = 0, revoked = 0, spreads = 0, again = 0;
	struct lsm_scan all = { .length_min = sizeof(struct row) };
	struct writer writers[WRITERS] = { 0 };
	struct rows *rows = &self->rows;
	struct lsm_spread_report report;
	pthread_t threads[WRITERS];
	uint32_t i, number;
	int64_t sum = 0;
	int ret;

	for (i = 0; i < OBJECTS; i++)
		sum += rows->lengths[i] >= sizeof(struct row) ? rows->rows[i].i64 : 0;
	for (i = 0; i < WRITERS; i++) {
		writers[i].rows = rows;
		writers[i].state = test_seed + i;
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, raise_values, &writers[i]));
	}
	for (number = 0; number < 5 + test_scaled(20); number++) {
		ret = lsm_spread(rows->store.lsm, &all, &spread, &report);
		/* A scan has changed nothing. */
		if (ret == -ECANCELED || ret == -ENOSPC || ret == -EBUSY) {
			revoked++;
			continue;
		}
		ASSERT_EQ(0, ret);
		spreads++;
		EXPECT_EQ(report.selected, report.changed + report.lost);
		EXPECT_EQ(0, report.gone + report.beyond);
		changed += report.changed;
		lost += report.lost;
	}
	for (i = 0; i < WRITERS; i++) {
		writers[i].stop = true;
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, writers[i].error);
		sum += writers[i].raised;
		again += writers[i].lost;
	}
	sum += (int64_t)changed * 1000000;
	for (i = 0; i < OBJECTS; i++) {
		if (rows->lengths[i] < sizeof(struct row))
			continue;
		ASSERT_EQ(rows->lengths[i], lsm_read(rows->store.lsm, rows->handles[i], rows->bytes, BIG, 0, NULL));
		sum -= ((struct row *)rows->bytes)->i64;
	}
	EXPECT_EQ(0, sum);
	printf("# %llu spreads, %llu revoked; %llu objects changed, %llu lost to writers, %llu won from them\n",
	       (unsigned long long)spreads, (unsigned long long)revoked, (unsigned long long)changed,
	       (unsigned long long)lost, (unsigned long long)again);
	EXPECT_LT(0, spreads);
	EXPECT_LT(0, lost);
}

/* ---- Killed ---------------------------------------------------------------------- */

/**
 * struct life - what a program that may be killed keeps, in memory that it shares with the test
 * @version: set last: what spread.version must be to go on
 * @weights: likewise, spread.weights
 * @done: objects of the life that is running
 */
struct life {
	_Atomic uint64_t version;
	union lsm_value weights;
	_Atomic uint64_t done;
};

static int keep_for_next(void *context, uint64_t version, union lsm_value weights)
{
	struct life *life = context;

	life->weights = weights;
	life->version = version;
	return 0;
}

static int tell_done(void *context, uint64_t done, uint64_t total)
{
	struct life *life = context;

	(void)total;
	life->done = done;
	return 0;
}

/* One life, in a process of its own.  Return: its pid. */
static pid_t begin_life(struct rows *rows, struct life *life, uint32_t flags, int64_t amount)
{
	struct lsm_spread spread = {
		.how = LSM_SPREAD_SHARE, .flags = flags, .column = i64_column, .weight = &u64_column,
		.amount.i64 = amount, .begun = keep_for_next, .progress = tell_done, .context = life,
		.version = life->version, .weights = life->weights,
	};
	struct lsm_scan all = { .threads = 1 };
	struct lsm *lsm;
	pid_t pid;
	int ret;

	life->done = 0;
	pid = fork();
	if (pid)
		return pid;
	ret = lsm_open(rows->store.path, 0, &lsm);
	if (!ret)
		ret = lsm_spread(lsm, &all, &spread, NULL);
	_exit(ret ? 1 : 0);
}

static bool lives_on(pid_t pid)
{
	siginfo_t info = { 0 };

	return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid;
}

/*
 * A program that is killed again and again, at any moment, and goes on with what it kept, gives each object its share
 * once.
 */
TEST_F_TIMEOUT(spread, killed, 240)
{
	const int64_t amount = 1000000000;
	struct rows *rows = &self->rows;
	uint32_t i, lives = 0, early = 0, midst = 0;
	bool ended = false;
	uint64_t weights = 0;
	struct life *life;
	int status;

	life = mmap(NULL, sizeof(*life), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, life);
	while (!ended) {
		uint64_t until = random_below(&rows->state, OBJECTS / 8);
		pid_t pid = begin_life(rows, life, variant->flags, amount);

		ASSERT_LT(0, pid);
		ASSERT_GT(1000, lives++);
		/* Some die before they have listed anything. */
		while (until >= 64 && life->done < until && lives_on(pid))
			sched_yield();	/* no event tells */
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ended = WIFEXITED(status);
		midst += !ended && life->done;
		early += !ended && !life->done;
	}
	ASSERT_EQ(0, WEXITSTATUS(status));
	munmap(life, sizeof(*life));
	TH_LOG("%u lives: %u killed before the first objects were changed, %u later", lives, early, midst);
	EXPECT_LT(0, midst);
	for (i = 0; i < OBJECTS; i++)
		weights += rows->lengths[i] >= offsetof(struct row, f64) ? rows->rows[i].u64 : 0;
	for (i = 0; i < OBJECTS; i++)
		rows->rows[i].i64 += (int64_t)((__int128)amount * rows->rows[i].u64 / (__int128)weights);
	EXPECT_EQ(0, differ(rows));
}

/* ---- Groups --------------------------------------------------------------------- */

#define SMALL		2048u	/* objects, of which each group has 64 */
#define GROUP		64u
#define SMALL_BYTES	2000u
#define SNAPSHOTS	600u
#define ROUNDS		20000u	/* spreads, at most */

/**
 * struct watched - a store whose objects are changed in groups, while a thread makes exact snapshots
 * @store: store
 * @handles: SMALL
 * @mark: an object that is replaced after each group: the versions of a group lie between two of its own
 * @marks: its versions
 * @nr_marks: entries of @marks
 * @room: for so many
 * @versions: of the objects in each snapshot, SMALL each
 * @counts: rows of each snapshot
 * @nr: snapshots that stood to their end
 * @wanted: so many, up to SNAPSHOTS
 * @revoked: those that did not
 * @state: of random numbers
 * @stop: set when there are so many, and when no spread follows
 * @error: the first
 */
struct watched {
	struct store store;
	uint64_t handles[SMALL];
	uint64_t mark;
	uint64_t *marks;
	size_t nr_marks;
	size_t room;
	uint64_t *versions;
	uint32_t counts[SNAPSHOTS];
	uint32_t nr;
	uint32_t wanted;
	uint32_t revoked;
	uint64_t state;
	atomic_bool stop;
	int error;
};

/* After a group. */
static int make_mark(void *context, uint64_t done, uint64_t total)
{
	struct watched *watched = context;

	(void)done;
	(void)total;
	if (watched->nr_marks == watched->room)
		return -E2BIG;
	return lsm_replace(watched->store.lsm, watched->mark, "mark", 4, 0, &watched->marks[watched->nr_marks++]);
}

static int note_versions(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	struct watched *watched = context;
	size_t i;

	(void)thread;
	for (i = 0; i < nr && watched->counts[watched->nr] < SMALL; i++)
		watched->versions[watched->nr * SMALL + watched->counts[watched->nr]++] = rows[i].version;
	return i < nr ? -E2BIG : 0;
}

static void *watch(void *argument)
{
	struct watched *watched = argument;
	struct lsm_scan all = {
		.flags = LSM_SCAN_EXACT, .threads = 1, .one_table = 1, .table = 1, .batch = note_versions,
		.context = watched,
	};
	struct lsm_scan_result result;
	int ret;

	while (watched->nr < watched->wanted && !watched->error && !watched->stop) {
		usleep(random_below(&watched->state, 2000));	/* at any moment */
		watched->counts[watched->nr] = 0;
		ret = lsm_scan(watched->store.lsm, &all, &result);
		if (!ret)
			watched->nr++;
		else if (ret == -ECANCELED || ret == -ENOSPC || ret == -EBUSY)
			watched->revoked++;
		else
			watched->error = ret;
	}
	watched->stop = true;
	return NULL;
}

static int compare_versions(const void *a, const void *b)
{
	const uint64_t *one = a, *other = b;

	return *one < *other ? -1 : *one > *other;
}

/* How many objects of a snapshot were changed by the last group that has changed any; 0: none was. */
static uint32_t count_last(const struct watched *watched, uint32_t snapshot)
{
	uint64_t *versions = &watched->versions[snapshot * SMALL], last;
	size_t low = 0, high = watched->nr_marks;
	uint32_t nr = 0;

	qsort(versions, SMALL, sizeof(*versions), compare_versions);
	last = versions[SMALL - 1];
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (watched->marks[middle] < last)
			low = middle + 1;
		else
			high = middle;
	}
	/* The first mark is made before all groups. */
	if (!low)
		return 0;
	while (nr < SMALL && versions[SMALL - 1 - nr] > watched->marks[low - 1])
		nr++;
	return nr;
}

FIXTURE(groups) {
	struct watched watched;
};

FIXTURE_SETUP(groups)
{
	struct watched *watched = &self->watched;
	uint8_t bytes[SMALL_BYTES] = { 0 };
	uint32_t i;

	watched->state = test_seed;
	watched->room = 1 + (size_t)ROUNDS * SMALL / GROUP;
	watched->marks = malloc(watched->room * sizeof(*watched->marks));
	watched->versions = malloc(SNAPSHOTS * SMALL * sizeof(*watched->versions));
	ASSERT_TRUE(watched->marks && watched->versions);
	ASSERT_EQ(0, store_create(&watched->store, STORE_BYTES, 2 * SMALL, 0));
	for (i = 0; i < SMALL; i++)
		ASSERT_EQ(0, lsm_alloc(watched->store.lsm, bytes, sizeof(bytes), LSM_TABLE(1), &watched->handles[i],
				       NULL));
	ASSERT_EQ(0, lsm_alloc(watched->store.lsm, "mark", 4, 0, &watched->mark, &watched->marks[0]));
	watched->nr_marks = 1;
}

FIXTURE_TEARDOWN(groups)
{
	free(self->watched.marks);
	free(self->watched.versions);
	EXPECT_EQ(0, store_destroy(&self->watched.store));
}

/*
 * A snapshot has all of a group or nothing of it: the newest of its groups, too, has changed all of its objects.  One
 * thread changes them, so that the groups before are complete.
 */
TEST_F_TIMEOUT(groups, change_together, 240)
{
	struct lsm_scan all = { .threads = 1, .one_table = 1, .table = 1 };
	struct watched *watched = &self->watched;
	struct lsm_spread spread = {
		.how = LSM_SPREAD_ADD, .flags = LSM_ATOMIC, .column = u64_column, .amount.i64 = 1,
		.progress = make_mark, .context = watched,
	};
	uint32_t rounds = 0, whole = 0, torn = 0, i, nr;
	struct lsm_spread_report report = { 0 };
	pthread_t thread;
	int ret = 0;

	watched->wanted = 20 + (uint32_t)test_scaled(SNAPSHOTS - 20);
	if (watched->wanted > SNAPSHOTS)
		watched->wanted = SNAPSHOTS;
	ASSERT_EQ(0, pthread_create(&thread, NULL, watch, watched));
	while (!ret && !watched->stop && rounds < ROUNDS) {
		ret = lsm_spread(watched->store.lsm, &all, &spread, &report);
		if (ret == -ECANCELED || ret == -ENOSPC || ret == -EBUSY)
			ret = 0;	/* of its scan: nothing has changed */
		else
			rounds++;
	}
	watched->stop = true;
	pthread_join(thread, NULL);
	EXPECT_EQ(0, ret);
	EXPECT_EQ(0, watched->error);
	EXPECT_EQ(SMALL, report.changed);
	for (i = 0; i < watched->nr; i++) {
		EXPECT_EQ(SMALL, watched->counts[i]);
		nr = count_last(watched, i);
		whole += nr == GROUP;
		torn += nr && nr != GROUP;
	}
	TH_LOG("%u spreads; %u snapshots, %u within spreads, %u with a part of a group; %u revoked", rounds, watched->nr,
	       whole + torn, torn, watched->revoked);
	EXPECT_EQ(0, torn);
	EXPECT_LT(0, whole);
}

TEST_HARNESS_MAIN
