/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bench programs: one process is one contestant.  It sets itself up, says
 * "ready", and then for each line "SECONDS THREADS" on its standard input runs
 * a round and answers "OPERATIONS_PER_SECOND".  So several of them can be held
 * ready side by side, and take turns.
 */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_THREADS	64u

/**
 * struct bench - what is to be measured
 * @bytes: of the ring or store
 * @live: per mille of the store's capacity that objects take
 * @size: of an object or write
 * @batch: operations in one call
 * @random: which object is next: any; otherwise one after the other
 * @path: of a device; NULL: make a store
 * @threads: of this round
 * @stop: the round is over
 */
struct bench {
	uint64_t bytes;
	uint32_t live;
	uint32_t size;
	uint32_t batch;
	bool random;
	const char *path;
	unsigned int threads;
	atomic_bool stop;
};

/**
 * struct worker - a thread of a round
 * @state: of its random numbers
 * @next: which object it has come to; kept from round to round
 */
struct worker {
	struct bench *bench;
	unsigned int nr;
	uint64_t state;
	uint64_t next;
	uint64_t operations;
	uint64_t begin;
	uint64_t end;
};

/**
 * struct mode - a contestant
 * @setup: once
 * @work: until bench->stop; returns operations
 */
struct mode {
	const char *name;
	void (*setup)(struct bench *bench);
	uint64_t (*work)(struct worker *worker);
};

extern const struct mode memory_modes[], object_modes[], block_modes[];

/* The one after the other, or any, of the objects of this worker. */
static inline uint64_t worker_next(struct worker *worker, uint64_t objects)
{
	uint64_t each = objects / worker->bench->threads, next;

	if (worker->bench->random) {
		worker->state ^= worker->state << 13;
		worker->state ^= worker->state >> 7;
		worker->state ^= worker->state << 17;
		next = (worker->state >> 32) * each >> 32;
	} else {
		next = worker->next = worker->next + 1 < each ? worker->next + 1 : 0;
	}
	return worker->nr * each + next;
}

/* At least once, however late the thread came to run. */
static inline bool worker_goes_on(const struct worker *worker, uint64_t operations)
{
	return !operations ||
	       !atomic_load_explicit(&worker->bench->stop, memory_order_relaxed);
}

/* Prints what and why, and ends the program. */
void fail(const char *what, int error) __attribute__((noreturn));
void *get_memory(uint64_t bytes, uint64_t align);

#endif
