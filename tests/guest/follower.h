/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A daemon for tests: brings a durable store up, follows its stream, checks
 * every entry in it, acknowledges at once and writes nothing; it remembers what
 * a recovery would find, and can be told to fall asleep.
 */
#ifndef TESTS_GUEST_FOLLOWER_H
#define TESTS_GUEST_FOLLOWER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lsmem/lsmem.h>
#include <lsmem/lsmem_format.h>

/**
 * struct follower_key - the newest seen of a handle's index
 * @version: of the highest generation; 0: none
 * @generation: of the handle
 * @pcrc: of its payload
 * @deleted: it is a tombstone
 */
struct follower_key {
	uint64_t version;
	uint32_t generation;
	uint32_t pcrc;
	bool deleted;
};

/**
 * struct follower - one attachment
 * @asleep: takes and acknowledges nothing; until then calls made before are done
 * @keys: by handle index; only the last generation is kept
 * @wrong: what was first found wrong in the stream; empty: nothing
 */
struct follower {
	struct lsmem_attach attach;
	const struct lsmem_info *info;
	const uint8_t *seglets;
	const struct lsmem_seglet *table;
	pthread_t thread;
	pthread_mutex_t lock;		/* held while a batch is worked on */
	bool asleep;			/* under lock */
	atomic_bool stop;
	struct follower_key *keys;
	uint64_t nr_keys;
	atomic_ullong entries;
	char wrong[160];
};

/* Attach to a store.  0 or a negative errno, as those below. */
int follower_attach(struct follower *follower, const char *name);
/* Make the store active, follow it. */
int follower_activate(struct follower *follower, struct lsmem_activate *activate);
/* Both, for a store that is new. */
int follower_start(struct follower *follower, const char *name);
void follower_sleep(struct follower *follower, bool asleep);
/* Detach; @follower->keys and @wrong stay until follower_free(). */
void follower_stop(struct follower *follower);
void follower_free(struct follower *follower);

uint32_t crc32c(uint32_t seed, const void *data, size_t length);

#endif
