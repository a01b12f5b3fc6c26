/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A backup in memory for the follower of a tiered store: it keeps the log of each segment, and answers
 * fetch requests from that.  A test can have it answer late, or wrong.
 */
#ifndef TESTS_GUEST_KEEPER_H
#define TESTS_GUEST_KEEPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "follower.h"

#define KEEPER_FRAMES	512u

enum keeper_mood {
	KEEPER_GOOD,
	KEEPER_ASLEEP,		/* takes no requests */
	KEEPER_SILENT,		/* takes requests, and answers none */
	KEEPER_DAMAGED,		/* each answer has a changed byte, then an error follows */
	KEEPER_SHORT,		/* answers with one block less than asked for at first */
};

/**
 * struct keeper - the backup
 * @lock: of the frames
 * @frames: by no order; id 0: free
 * @thread: answers
 * @fd: the replication descriptor
 * @mood: enum keeper_mood
 * @answered: requests that were answered
 * @again: answers that the kernel wanted longer
 * @late: answers that the kernel wanted later
 * @segments: whole segments among them
 * @stop: the thread must end
 * @error: the first errno of a call, negative
 */
struct keeper {
	pthread_mutex_t lock;
	struct keeper_frame {
		uint64_t id;
		uint8_t *bytes;
		uint32_t length;
	} frames[KEEPER_FRAMES];
	pthread_t thread;
	int fd;
	atomic_int mood;
	atomic_ulong answered;
	atomic_ulong again;
	atomic_ulong late;
	atomic_ulong segments;
	atomic_bool stop;
	atomic_int error;
};

/* Begin to answer the requests of an active store. Returns 0 or a negative errno. */
int keeper_start(struct keeper *keeper, const struct follower *follower);
/* Before the follower stops. What it keeps stays. */
void keeper_stop(struct keeper *keeper);
/* A daemon follows a new store, and keeper_start(). Returns 0 or a negative errno. */
int keeper_follow(struct keeper *keeper, struct follower *follower, const char *name);
/* Another daemon follows the store, and answers right. Returns 0 or a negative errno. */
int keeper_succeed(struct keeper *keeper, struct follower *follower, const struct store *store);
void keeper_init(struct keeper *keeper);
void keeper_free(struct keeper *keeper);
/* Called by the follower for each event. */
void keeper_event(struct keeper *keeper, const struct follower *follower,
		  const struct lsmem_event *event);

#endif
