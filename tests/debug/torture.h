/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Torture: what the supervisor (torture.c) and the workers (torture_work.c) share.
 *
 * The model lies in memory that outlives a worker.  A slot belongs to one thread
 * of one worker; it is as @now says, or, while an operation is under way, as
 * @now or as @next says, and nothing else.  A worker that begins where a killed one
 * ended looks which.
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
#define SHARED		8u	/* objects that all threads change */
#define FREED		64u	/* handles that a thread has freed: stale for ever */
#define BATCH		16u
#define BLOCK		4096u

enum stage {
	IDLE,			/* it is as @now says */
	UNDER_WAY,		/* as @now or as @next */
	DONE,			/* as @next */
};

/**
 * struct content - what a slot may hold
 * @handle: 0: none was ever given out; @serial: 0: nothing is there
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

/* A block: 0 is zeroes. */
struct block {
	uint64_t now, next;
	_Atomic uint32_t stage;
};

/**
 * struct shared_object - replaced by any thread, by its version
 * @done: replaces that are known to have been applied; @unsure: that may have been
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
	_Atomic uint64_t cas;		/* index + 1 of a shared object being replaced */
};

enum count {
	COUNT_OPERATIONS,
	COUNT_WRITES,
	COUNT_READS,
	COUNT_VIEWS,
	COUNT_REVOKED,		/* views that the kernel ended */
	COUNT_VECTORS,
	COUNT_REFUSED,		/* versions that did not fit */
	COUNT_SHARED,
	COUNT_BLOCKS,
	COUNT_STALE,
	COUNT_INJECTED,		/* errors that only injection explains */
	COUNT_FULL,		/* no room while the daemon was away */
	COUNT_TIMEOUT,
	COUNT_RESOLVED,		/* slots of killed workers */
	COUNT_ORPHANS,		/* objects whose handle may not have been got */
	COUNTS
};

struct model {
	char path[64];		/* of the object store */
	char disk[64];		/* of the block store, "" for none */
	bool durable;
	bool inject;
	_Atomic bool stop;
	_Atomic bool lossy;	/* memory has been lost: handles of then may be unknown */
	_Atomic uint32_t failures;
	_Atomic uint64_t counts[COUNTS];
	struct shared_object shared[SHARED];
	struct thread_state threads[NR_THREADS];
};

extern struct model *model;

/* Prints it and counts it. */
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
void count(enum count what, uint64_t n);


/* A worker's life: until it is killed or told to stop; @life tells its random numbers. */
int worker(uint32_t number, uint64_t life);
/* All slots, by a process that has the store to itself; objects that are there. */
uint64_t verify_all(void);
int shared_begin(void);
/* Failures of this thread's calls from now on, or none. */
void inject(bool on);
bool inject_setup(void);

#endif
