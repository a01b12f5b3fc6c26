/* SPDX-License-Identifier: GPL-2.0 */
/* The workload of the power-cut tests; see acked.c. */
#ifndef TESTS_POWER_ACKED_H
#define TESTS_POWER_ACKED_H

#include <stdatomic.h>

#include "oracle.h"

/**
 * struct work - what a loading thread works on
 * @thread: number of the thread, over both kinds
 * @first, @step: its slots are @first, @first + @step ..
 * @path, @fd: the store's device
 * @oracle: its model; each thread touches its own slots only
 * @sequence: shared counter of operations
 * @ready: counts threads that load in earnest
 * @live: per mille of the capacity to hold live (objects)
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
	uint64_t random;
};

/* What a verification found. */
struct verdict {
	uint64_t checked;
	uint64_t lost;
	uint64_t corrupt;
	uint64_t resolved;
	uint64_t present;
	uint64_t bytes;
};

void *load_objects(void *work);
void *load_readers(void *work);
void *load_blocks(void *work);
int verify_objects(int fd, struct oracle *oracle, struct verdict *verdict);
int verify_blocks(int fd, struct oracle *oracle, struct verdict *verdict);

/* Shared by both: is @found right for the slot?  Reports and counts if not. */
void verify_slot(struct oracle *o, uint64_t slot, const struct state *found, bool corrupt,
		 struct verdict *verdict);

#define OBJECT_LENGTH_MIN	32u
#define OBJECT_LENGTH_MAX	4096u
#define BLOCK_BYTES		4096u
#define BATCH			64u

#endif
