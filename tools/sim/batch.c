// SPDX-License-Identifier: GPL-2.0
/*
 * Simulator of group commit: how long durable writes wait, and how many bytes they cost, with a code and with replicas.
 *
 * Writes arrive at random times (Poisson), each of the same size, and go to one segment, without an end. Batches are made as
 * by daemon/stripe/row.c: full rows at once, up to ROW_ROWS of them, up to ROW_BATCHES batches that are not durable;
 * the partial row when the oldest byte that is in no batch has waited for epsilon, and no partial batch is on its way. A batch
 * is durable when all shards have it, and counts after those before it. The time of a write to a shard is uniformly
 * distributed within 20 % of a round trip. Replicas: rows are blocks, and the last block is written as often as a partial row.
 *
 * The output is one line of JSON on standard output.
 */
#include <errno.h>
#include <error.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "../../tests/common/random.h"

#define BLOCK		4096u
#define ROW_ROWS	8u	/* as in daemon/stripe/row.h */
#define ROW_BATCHES	4u
#define INSIDE		3840u	/* LSMEM_PARITY_INSIDE of uapi/lsmem_format.h */
#define NEVER		1e300

/**
 * struct settings - of a simulation
 * @k: data shards; 1: replicas
 * @m: parity shards, or replicas less one
 * @rate: writes a second
 * @bytes: of a write in the log
 * @epsilon: seconds, at most, until a partial row is written
 * @trip: seconds of a durable write to a backup
 * @writes: number of writes
 * @seed: of the random numbers
 */
struct settings {
	uint32_t k, m;
	double rate, bytes, epsilon, trip;
	uint32_t writes;
	uint64_t seed;
};

/**
 * struct batch - a batch on its way
 * @end: byte of the log at which it ends
 * @done: when all shards have it
 * @partial: it ends with a partial row
 */
struct batch {
	uint64_t end;
	double done;
	bool partial;
};

/**
 * struct sim - a simulation
 * @set: settings
 * @random: state of the random numbers
 * @now: seconds
 * @at: of each write: when it arrived
 * @wait: of each write: seconds until it was in a batch
 * @latency: of each write: seconds until it was durable
 * @arrived: writes that have arrived
 * @batched: of these, that are in a batch
 * @counted: of these, that are durable
 * @issued: bytes of the log in batches
 * @blocks: blocks sent to all backups
 * @made: batches
 * @partials: of these, that end with a partial row
 * @batches: on their way, the oldest first
 * @nr: elements of @batches in use
 */
struct sim {
	const struct settings *set;
	uint64_t random;
	double now;
	double *at, *wait, *latency;
	uint32_t arrived, batched, counted;
	uint64_t issued, blocks, made, partials;
	struct batch batches[ROW_BATCHES];
	uint32_t nr;
};

static double unit(struct sim *s)
{
	return ((random_next(&s->random) >> 11) + 1) * 0x1p-53;
}

static uint64_t end_of(const struct sim *s, uint32_t writes)
{
	return (uint64_t)(writes * s->set->bytes);
}

/* Blocks of a partial row whose new bytes are [@from, @to) of the row. */
static uint32_t partial_blocks(const struct settings *set, uint64_t from, uint64_t to)
{
	uint32_t data = (uint32_t)((to + BLOCK - 1) / BLOCK - from / BLOCK);

	if (set->k == 1)
		return data * (1 + set->m);
	return data + set->m * (to <= INSIDE ? 1 : 2);
}

static void sim_batch(struct sim *s)
{
	const struct settings *set = s->set;
	uint64_t row = (uint64_t)set->k * BLOCK, committed = end_of(s, s->arrived), end;
	uint64_t rows = committed / row - s->issued / row;
	bool due = s->batched < s->arrived && s->now >= s->at[s->batched] + set->epsilon - 1e-12, partial;
	struct batch *batch = &s->batches[s->nr];
	uint32_t i, shard;

	for (i = 0; i < s->nr; i++)
		if (s->batches[i].partial)
			return;
	if (s->nr == ROW_BATCHES)
		return;
	if (rows > ROW_ROWS)
		rows = ROW_ROWS;
	end = (s->issued / row + rows) * row;
	partial = due && committed < end + row && committed > end;
	if (!rows && !partial)
		return;
	if (rows) {
		/* Data blocks that a partial row has sent already are not sent again; replicas have no other blocks. */
		uint64_t sent = s->issued % row / BLOCK;

		s->blocks += rows * (set->k + set->m) - sent;
		s->issued = end;
	}
	if (partial) {
		s->blocks += partial_blocks(set, s->issued % row, committed % row);
		s->issued = committed;
		s->partials++;
	}
	*batch = (struct batch) { .end = s->issued, .partial = partial };
	for (shard = 0; shard < set->k + set->m; shard++) {
		double done = s->now + set->trip * (0.8 + 0.4 * unit(s));

		if (batch->done < done)
			batch->done = done;
	}
	s->nr++;
	s->made++;
	for (; s->batched < s->arrived && end_of(s, s->batched + 1) <= s->issued; s->batched++)
		s->wait[s->batched] = s->now - s->at[s->batched];
}

/* Batches that are durable count, in order. */
static void sim_count(struct sim *s)
{
	while (s->nr && s->batches[0].done <= s->now) {
		for (; s->counted < s->batched && end_of(s, s->counted + 1) <= s->batches[0].end; s->counted++)
			s->latency[s->counted] = s->now - s->at[s->counted];
		memmove(s->batches, s->batches + 1, --s->nr * sizeof(*s->batches));
	}
}

static void sim_run(struct sim *s)
{
	const struct settings *set = s->set;
	double next = -log(unit(s)) / set->rate;

	while (s->counted < set->writes) {
		double done = s->nr ? s->batches[0].done : NEVER;
		double due = s->batched < s->arrived ? s->at[s->batched] + set->epsilon : NEVER;

		if (due <= s->now)
			due = NEVER;	/* waits for a batch */
		if (s->arrived == set->writes)
			next = NEVER;
		s->now = fmin(next, fmin(done, due));
		if (s->now == NEVER)
			error(1, 0, "nothing happens any more");
		if (s->now == next) {
			s->at[s->arrived++] = s->now;
			next = s->now - log(unit(s)) / set->rate;
		}
		sim_count(s);
		sim_batch(s);
	}
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double mean(const double *values, uint32_t nr)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < nr; i++)
		sum += values[i];
	return sum / nr;
}

static void usage(FILE *to)
{
	fprintf(to, "usage: batch [OPTION]...\n"
		"  --k N           (3) data shards; 1: replicas\n"
		"  --m N           (2) parity shards, or replicas less one\n"
		"  --rate N        (100000) writes a second\n"
		"  --bytes N       (128) of a write in the log\n"
		"  --epsilon US    (100) until a partial row is written\n"
		"  --trip US       (100) a durable write to a backup\n"
		"  --writes N      (100000) number of writes\n"
		"  --seed N        (1) of the random numbers\n"
		"Prints one line of JSON: mean wait until a write is in a batch, mean latency, its 50th and 99th percentiles,\n"
		"all in microseconds; bytes sent for each byte of the log; the share of batches with a partial row.\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "k", required_argument, NULL, 'k' },
		{ "m", required_argument, NULL, 'm' },
		{ "rate", required_argument, NULL, 'r' },
		{ "bytes", required_argument, NULL, 'b' },
		{ "epsilon", required_argument, NULL, 'e' },
		{ "trip", required_argument, NULL, 't' },
		{ "writes", required_argument, NULL, 'w' },
		{ "seed", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	struct settings set = {
		.k = 3, .m = 2, .rate = 1e5, .bytes = 128, .epsilon = 1e-4, .trip = 1e-4, .writes = 100000, .seed = 1,
	};
	struct sim s = { .set = &set };
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'k':
			set.k = number_parse(optarg, 1, 15);
			break;
		case 'm':
			set.m = number_parse(optarg, 0, 15);
			break;
		case 'r':
			set.rate = number_parse(optarg, 1, 1e9);
			break;
		case 'b':
			set.bytes = number_parse(optarg, 32, 1 << 20);
			break;
		case 'e':
			set.epsilon = number_parse(optarg, 0, 1e6) / 1e6;
			break;
		case 't':
			set.trip = number_parse(optarg, 0.1, 1e6) / 1e6;
			break;
		case 'w':
			set.writes = number_parse(optarg, 100, 1e7);
			break;
		case 's':
			set.seed = number_parse(optarg, 0, 1e15);
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind != argc) {
		usage(stderr);
		return 2;
	}
	s.random = set.seed;
	s.at = calloc(set.writes, sizeof(double));
	s.wait = calloc(set.writes, sizeof(double));
	s.latency = calloc(set.writes, sizeof(double));
	if (!s.at || !s.wait || !s.latency)
		error(1, ENOMEM, "%u writes", set.writes);
	sim_run(&s);
	qsort(s.latency, set.writes, sizeof(double), order);
	printf("{\"k\": %u, \"m\": %u, \"rate\": %g, \"bytes\": %g, \"epsilon\": %g, \"trip\": %g, \"seed\": %llu",
	       set.k, set.m, set.rate, set.bytes, set.epsilon * 1e6, set.trip * 1e6, (unsigned long long)set.seed);
	printf(", \"wait\": %.3f, \"latency\": %.3f, \"p50\": %.3f, \"p99\": %.3f, \"most\": %.3f",
	       mean(s.wait, set.writes) * 1e6, mean(s.latency, set.writes) * 1e6,
	       s.latency[set.writes / 2] * 1e6, s.latency[set.writes / 100 * 99] * 1e6,
	       s.latency[set.writes - 1] * 1e6);
	printf(", \"sent\": %.4f, \"partial\": %.4f}\n", s.blocks * (double)BLOCK / (set.writes * set.bytes),
	       s.partials / (double)s.made);
	free(s.at);
	free(s.wait);
	free(s.latency);
	return 0;
}
