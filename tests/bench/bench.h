/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bench programs: one process is one contestant.  After its setup it prints "ready".  For each line
 * "SECONDS THREADS" on its standard input it runs a round and answers with
 * "OPERATIONS_PER_SECOND CPU_SECONDS", the processor time of its threads.  So several contestants
 * can be ready at the same time and take turns.  A line that begins with a word is an order; the
 * answer is one line of JSON.  All modes know "batch N" and "writes PER_MILLE"; other orders are
 * described in their files.
 */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/random.h"
#include "../common/zipf.h"

#define BENCH_THREADS	64u
#define BENCH_SOURCES	64u	/* number of different payloads */

/**
 * struct bench - options of a measurement
 * @bytes: size of the ring or store
 * @live: objects fill this share of the store's capacity, per mille
 * @size: of an object or write, in bytes
 * @batch: operations in one call, or in flight
 * @random: the next object is random; else objects follow one after the other
 * @zipf: the next object is random, by Zipf's law
 * @skew: the exponent of Zipf's law
 * @chain: the next object to read depends on the bytes of the last one
 * @handles: number of handles of the store; 0: as many as objects fit.  Of modes that mix reads and
 *	writes, the number of objects
 * @writes: share of writes of modes that mix, per mille
 * @path: of a device; NULL: create a store
 * @threads: number of threads of this round
 * @stop: the round is over
 */
struct bench {
	uint64_t bytes;
	uint32_t live;
	uint32_t size;
	uint32_t batch;
	bool random;
	bool zipf;
	double skew;
	bool chain;
	uint64_t handles;
	uint32_t writes;
	const char *path;
	unsigned int threads;
	atomic_bool stop;
};

/**
 * struct worker - a thread of a round
 * @state: of its random numbers
 * @next: number of its last object; kept from round to round
 * @cpu_ns: processor time of the round
 */
struct worker {
	struct bench *bench;
	unsigned int nr;
	uint64_t state;
	uint64_t next;
	uint64_t operations;
	uint64_t begin;
	uint64_t end;
	uint64_t cpu_ns;
};

/**
 * struct mode - a contestant
 * @setup: called once
 * @work: works until bench->stop, returns the number of operations; NULL: the mode has only orders
 * @order: executes @verb with @nr arguments and prints the answer; returns false for unknown verbs
 * @processes: several workers are processes, not threads: in User-mode Linux the system calls of
 *	threads of one process wait for each other
 */
struct mode {
	const char *name;
	void (*setup)(struct bench *bench);
	uint64_t (*work)(struct worker *worker);
	bool (*order)(struct bench *bench, const char *verb, const double *arguments,
		      unsigned int nr);
	bool processes;
};

extern const struct mode memory_modes[], object_modes[], arrival_modes[], block_modes[], churn_modes[],
	page_modes[], range_modes[], request_modes[], scan_modes[], server_modes[], table_modes[];

/* The modes of a program, up to NULL; defined beside bench.c, which has only main() and the rounds. */
extern const struct mode *const bench_modes[];

/* The number of the next object of a worker; each worker has its own objects. */
static inline uint64_t worker_next(struct worker *worker, uint64_t objects)
{
	uint64_t each = objects / worker->bench->threads, next;

	if (worker->bench->random)
		next = random_below(&worker->state, each);
	else
		next = worker->next = worker->next + 1 < each ? worker->next + 1 : 0;
	return worker->nr * each + next;
}

/* The number of the next object to read; @copy has the bytes of the last one. */
static inline uint64_t worker_read_next(struct worker *worker, uint64_t objects,
					const uint8_t *copy)
{
	uint64_t next = worker_next(worker, objects);

	return worker->bench->chain ? (next + copy[0]) % objects : next;
}

/*
 * The number of the next object of all, by Zipf's law or as worker_next().  The frequent ones are far from
 * each other: the factor is a prime larger than numbers of objects, and no product overflows.
 */
static inline uint64_t worker_any(struct worker *worker, uint64_t objects)
{
	return worker->bench->zipf ? zipf_next(&worker->state) * 4294967291ull % objects :
				     worker_next(worker, objects);
}

/* Does the round go on?  Each worker works at least once, however late it starts. */
static inline bool worker_goes_on(const struct worker *worker, uint64_t operations)
{
	return !operations ||
	       !atomic_load_explicit(&worker->bench->stop, memory_order_relaxed);
}

/* Print an error and end the program. */
void fail(const char *what, int error) __attribute__((noreturn));
void *get_memory(uint64_t bytes, uint64_t align);
uint64_t now_ns(void);
void use_cpu(unsigned int nr);

#endif
