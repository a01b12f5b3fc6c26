/* SPDX-License-Identifier: GPL-2.0 */
/* The workload of the power-cut tests; see acked.c. */
#ifndef TESTS_POWER_ACKED_H
#define TESTS_POWER_ACKED_H

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "oracle.h"

#define MSYNCS		1000u	/* tries */

/**
 * struct work - the arguments and the state of a loading thread
 * @thread: number of the thread; no two threads of either kind have the same
 * @first: its first slot
 * @step: its slots are @first, @first + @step ..
 * @path: of the store's device, or of the server's socket
 * @fd: the device, or the range
 * @oracle: the model of the store; a writer changes its own slots only
 * @sequence: number of the last operation, of all threads
 * @ready: number of threads that have filled their store and carry out their load
 * @live: objects: how much of the capacity to keep live, per mille
 * @shortest: objects: bytes of the shortest one
 * @longest: objects: bytes of the longest one
 * @batch: objects: operations in a vector, BATCH at most
 * @zipf: objects: some slots are used more often than others, by Zipf's law
 * @fill: blocks: write all once, in order, before the load
 * @random: state of the thread's random numbers
 */
struct work {
	uint8_t thread;
	uint64_t first;
	uint64_t step;
	const char *path;
	int fd;
	struct oracle *oracle;
	_Atomic uint64_t *sequence;
	atomic_int *ready;
	unsigned int live;
	uint32_t shortest;
	uint32_t longest;
	uint32_t batch;
	bool zipf;
	bool fill;
	uint64_t random;
};

/* Counts of all threads so far; --figures writes them. */
struct figures {
	_Atomic uint64_t reads;		/* by readers */
	_Atomic uint64_t changes;	/* replaced and freed objects, written and discarded blocks */
	_Atomic uint64_t checked;	/* slots, by a verification */
};

extern struct figures figures;

/* The counts of a verification, and its times: seconds of CLOCK_MONOTONIC. */
struct verdict {
	double first_read;	/* the first object was read and was right; 0: none yet */
	double all_read;
	uint64_t checked;
	uint64_t lost;
	uint64_t corrupt;
	uint64_t resolved;
	uint64_t present;
	uint64_t groups;	/* of objects, of which slots show whether they are there */
	uint64_t item_groups;	/* likewise, of keys */
	uint64_t item_asked;	/* objects of keys that were asked for again */
	/* Ranges with an unacknowledged transaction, whose msync() had begun or not; of the former, whole */
	uint64_t in_msync;
	uint64_t before_msync;
	uint64_t kept;
};

void *load_objects(void *work);
void *load_readers(void *work);
void *load_blocks(void *work);
void *load_block_readers(void *work);
void *load_range(void *work);
void *load_items(void *work);
void *load_served(void *work);
int verify_objects(int fd, struct oracle *oracle, unsigned int threads, struct verdict *verdict);
int verify_blocks(int fd, struct oracle *oracle, struct verdict *verdict);
void verify_items(const char *path, struct oracle *oracle, struct verdict *verdict);
/* Items of the server at @where; wait until it can be connected to. */
void verify_served(const char *where, struct oracle *oracle, struct verdict *verdict);

/*
 * Ranges of pages: the last slot of the oracle is a range that is not atomic, whose pages are blocks for
 * load_blocks() and verify_blocks(); the others are atomic.
 */
int ranges_init(struct oracle *o, uint32_t atomic, uint32_t pages, uint32_t most);
/* Open range @slot, and make it if there is none.  Returns its descriptor; it is made durable. */
int range_open(struct oracle *o, uint64_t slot, const char *store, _Atomic uint64_t *sequence);
/*
 * Set @found to the state that a range shows; its sequence is 0 if no state that is permitted is shown whole.
 * Returns true if pages are torn, or of an unacknowledged transaction that is not whole.
 */
bool range_look(const struct oracle *o, uint64_t slot, const char *range, struct state *found);
/* Compare all atomic ranges. Returns the descriptor of the range that is not atomic; -1: there is none. */
int verify_ranges(const char *store, struct oracle *o, struct verdict *verdict);

/*
 * Does the model permit the state @found for the slot?  @corrupt: its bytes are wrong.  Count the
 * result in @verdict, print an error, and write RESOLVED if several states were permitted.
 */
void verify_slot(struct oracle *o, uint64_t slot, const struct state *found, bool corrupt,
		 struct verdict *verdict);

/*
 * msync() until what was stored is durable.  Durability unknown, no space, no generations of handles yet: call
 * again, says uapi.rst.  Each call waits, as the store's limits say.
 */
static inline int msync_durable(void *at, uint64_t bytes)
{
	unsigned int tries = 0;

	while (msync(at, bytes, MS_SYNC))
		if ((errno != ETIMEDOUT && errno != ENOSPC && errno != EAGAIN) || ++tries == MSYNCS)
			return -1;
	return 0;
}

double seconds_now(void);

/* Wait for a moment: the store is not ready.  Return: false: the time of --wait is over. */
bool wait_store(void);

#define OBJECT_LENGTH_MIN	32u
#define OBJECT_LENGTH_MAX	16384u
#define BLOCK_BYTES		4096u
#define BATCH			64u
#define WRITERS			2u	/* threads that change objects; they share the slots */
#define ITEMS_LEAST	64u	/* keys, if any */
#define VERIFIERS		64u

#endif
