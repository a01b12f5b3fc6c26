/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Torture: the model that the supervisor (torture.c) and the workers (torture_work.c) share.
 *
 * The model is in memory that outlives a worker.  A slot of the model stands for one object, and
 * belongs to one thread of one worker.  The object must be as @now says, or, while an operation
 * is under way, as @now or as @next says.  A worker that replaces a killed one reads the object
 * to find out which.
 */
#ifndef DEBUG_TORTURE_H
#define DEBUG_TORTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WORKERS		4u
#define THREADS		3u
#define NR_THREADS	(WORKERS * THREADS)
#define SLOTS		512u	/* of a thread */
#define BLOCKS		128u	/* of a thread */
#define SHARED		8u	/* objects that all threads replace */
#define FREED		64u	/* freed handles that a thread records; they must stay stale */
#define BATCH		16u
#define BLOCK		4096u

enum stage {
	IDLE,			/* the object is as @now says */
	UNDER_WAY,		/* as @now or as @next says */
	DONE,			/* as @next says */
};

/**
 * struct content - a state of an object
 * @handle: 0 if the slot never had an object
 * @version: 0 if it is not known
 * @serial: number of the write, which decides the bytes; 0 if there is no object
 * @length: in bytes
 */
struct content {
	uint64_t handle;
	uint64_t version;
	uint64_t serial;
	uint32_t length;
	uint32_t reserved;
};

struct slot {
	struct content now, next;
	_Atomic uint32_t stage;
};

/* A block and the serial numbers of its contents; 0 stands for zeroes. */
struct block {
	uint64_t now, next;
	_Atomic uint32_t stage;
};

/**
 * struct shared_object - an object that any thread replaces, with LSM_EXPECT
 * @handle: of the object
 * @done: how many replacements are known to have been applied
 * @unsure: how many replacements may have been applied
 */
struct shared_object {
	uint64_t handle;
	_Atomic uint64_t done, unsure;
};

struct thread_state {
	struct slot slots[SLOTS];
	struct block blocks[BLOCKS];
	uint64_t freed[FREED];
	uint64_t nr_freed;
	uint64_t serial;
	_Atomic uint64_t cas;		/* index + 1 of the shared object being replaced; 0: none */
};

enum count {
	COUNT_OPERATIONS,
	COUNT_WRITES,
	COUNT_READS,
	COUNT_VIEWS,
	COUNT_REVOKED,		/* views that the kernel ended */
	COUNT_VECTORS,
	COUNT_REFUSED,		/* calls with a wrong version */
	COUNT_SHARED,
	COUNT_BLOCKS,
	COUNT_STALE,
	COUNT_INJECTED,		/* errors that injection has caused */
	COUNT_FULL,		/* no space while there was no daemon */
	COUNT_TIMEOUT,
	COUNT_RESOLVED,		/* slots whose last operation had an unknown result */
	COUNT_ORPHANS,		/* objects that may exist although no worker has their handle */
	COUNTS
};

struct model {
	char path[64];		/* of the object store */
	char disk[64];		/* of the block store, "" for none */
	bool durable;
	bool inject;
	_Atomic bool stop;
	_Atomic bool lossy;	/* memory has been lost: older handles may return ENOENT */
	_Atomic uint32_t failures;
	_Atomic uint64_t counts[COUNTS];
	struct shared_object shared[SHARED];
	struct thread_state threads[NR_THREADS];
};

extern struct model *model;

/* Count an error, and print the first ones. */
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
void count(enum count what, uint64_t n);


/*
 * The main function of a worker, which runs until model->stop is set or the worker is killed.
 * @life: number of workers started so far; decides its random numbers.
 */
int worker(uint32_t number, uint64_t life);
/* Check all slots; no worker may run. Returns the number of objects in the model. */
uint64_t verify_all(void);
/* Allocate the shared objects. 0 or a negative errno. */
int shared_begin(void);
/* Let calls of this thread fail by injection, or stop that. */
void inject(bool on);
/* Configure fault injection. Returns false if the kernel has none. */
bool inject_setup(void);

#endif
