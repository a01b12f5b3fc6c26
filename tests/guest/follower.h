/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A daemon for tests.  It activates a durable store, follows its stream of events, checks every
 * entry, and acknowledges at once; it writes to no backup.  It records which version of each key
 * a recovery would restore.  A test can stop it for a while (follower_sleep()).
 */
#ifndef TESTS_GUEST_FOLLOWER_H
#define TESTS_GUEST_FOLLOWER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lsmem/lsmem.h>
#include <lsmem/lsmem_format.h>

#define FOLLOWER_SEGMENTS	(1u << 16)

/**
 * struct follower_key - the newest entry that the follower has seen for a handle index
 * @version: of that entry; 0 if there is none
 * @generation: of its handle, the highest seen for the index
 * @pcrc: CRC of its payload
 * @deleted: the entry is a tombstone
 */
struct follower_key {
	uint64_t version;
	uint32_t generation;
	uint32_t pcrc;
	bool deleted;
};

struct keeper;
struct store;

/**
 * struct follower - one attachment to a store
 * @attach: of LSMEM_CTL_ATTACH; its @fd is the replication descriptor
 * @info: the info page of the store
 * @seglets: the window of all seglets
 * @table: the window of the seglet table
 * @thread: follows the stream
 * @lock: held while the thread works on a batch of events
 * @asleep: the thread takes and acknowledges no events; under @lock
 * @stop: the thread must end
 * @keeper: keeps what the stream has (keeper.h), or NULL; set before the store is activated
 * @keys: by handle index
 * @nr_keys: entries of @keys
 * @entries: number of entries that were checked
 * @gone: by id: the segment was retired
 * @open: segments with entries that are not closed; from the activation on, without a successor
 * @wrong: the first error that was found in the stream; empty if there is none
 */
struct follower {
	struct lsmem_attach attach;
	const struct lsmem_info *info;
	const uint8_t *seglets;
	const struct lsmem_seglet *table;
	pthread_t thread;
	pthread_mutex_t lock;
	bool asleep;
	atomic_bool stop;
	struct keeper *keeper;
	struct follower_key *keys;
	uint64_t nr_keys;
	atomic_ullong entries;
	atomic_uint open;
	atomic_bool gone[FOLLOWER_SEGMENTS];
	char wrong[160];
};

/* The next five functions return 0 or a negative errno. */
/* Attach to the store @name with @uuid, 16 bytes. */
int follower_attach_as(struct follower *follower, const char *name, const uint8_t *uuid);
/* Attach to the store @name. */
int follower_attach(struct follower *follower, const char *name);
/* Activate the store, a new one with @activate NULL, and begin to follow it. */
int follower_activate(struct follower *follower, struct lsmem_activate *activate);
/* Attach to a new store and activate it. */
int follower_start(struct follower *follower, const char *name);
/* Attach to an active store with @uuid, after follower_stop() and follower_free(); the keeper stays. */
int follower_succeed(struct follower *follower, const struct store *store, const uint8_t *uuid);
/*
 * Stop (@asleep) or continue the follower.  When the call returns with @asleep, the batch under
 * way has been acknowledged, and the follower takes no more events.
 */
void follower_sleep(struct follower *follower, bool asleep);
/* Detach. @follower->keys stays valid until follower_free(). */
void follower_stop(struct follower *follower);
void follower_free(struct follower *follower);

/* The entry at a position in memory, or NULL: there is none that is whole, of the segment with @salt. */
const struct lsmem_entry *follower_entry(const struct follower *follower, uint64_t position, uint32_t salt);

/* Copy the bytes of a RANGE to @to. */
void follower_copy(const struct follower *follower, const struct lsmem_event *event, uint8_t *to);

/* Raw CRC-32C: no inversion of @seed or of the result. */
uint32_t crc32c(uint32_t seed, const void *data, size_t length);

#endif
