/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fetching: what is on backups only is brought into memory.  See fetch.c.  chardev.c asks and waits for
 * objects, misses.c for many, coldbio.c for blocks, fetched.c for segments; repl.c passes the daemon's calls on.
 * lsmem_fetch_find() decides which bytes are the object's, lsmem_fetch_fill() what becomes of a request.
 */
#ifndef LSMEM_FETCH_H
#define LSMEM_FETCH_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "../uapi/lsmem.h"
#include "../uapi/lsmem_format.h"

struct lsmem_segment;
struct lsmem_store;
struct lsmem_wanted;

#define LSMEM_FETCH_BITS	10
#define LSMEM_FETCHES_MAX	4096u	/* requests of a store */
#define LSMEM_FETCHES_AHEAD	1024u	/* from so many on, none for what nothing waits for */
#define LSMEM_FETCH_MS		10000	/* default of limits/fetch_ms */

/**
 * struct lsmem_want - a wait for an answer that no thread makes
 * @node: of the list of a request, or empty
 * @answered: called once, with 0 (the caller looks again) or the error of lsmem_fetch(); the want can
 *	be used again from there on.  Context: does not sleep; holds no spinlock
 */
struct lsmem_want {
	struct list_head node;
	void (*answered)(struct lsmem_want *want, int result);
};

/**
 * struct lsmem_miss - an object that was found COLD
 * @word: COLD
 * @index: of its handle, below handles.nr
 * @op: which operation of the call needs it first
 * @wanted: its request, for lsmem_fetch_wait(); NULL: none
 */
struct lsmem_miss {
	u64 word;
	u32 index;
	u32 op;
	struct lsmem_wanted *wanted;
};

/**
 * struct lsmem_sought - an object of a request that is read through
 * @word: COLD
 * @index: of its handle, below handles.nr
 * @at: where its bytes are in the room of the request
 * @found: header of its entry; its length is 0: it was not found
 */
struct lsmem_sought {
	u64 word;
	u32 index;
	u32 at;
	struct lsmem_entry found;
};

/**
 * struct lsmem_fetches - the fetch requests of a store
 * @lock: for all members but @fetch_ms and the buffers
 * @hash: by index
 * @queue: those that the daemon has not taken, the oldest first
 * @ahead: the same, of what nothing has waited for; the daemon takes it last
 * @nr: requests
 * @serial: of requests
 * @stopped: the store is being destroyed: no more
 * @fetch_ms: bound of the waits of an operation, milliseconds
 * @buffer: what a backup has of an object; under tier.fill
 * @segment: what a backup has of a segment: from the answer on the cleaner's
 */
struct lsmem_fetches {
	spinlock_t lock;
	struct hlist_head *hash;
	struct list_head queue;
	struct list_head ahead;
	u32 nr;
	u32 serial;
	bool stopped;
	u32 fetch_ms;
	void *buffer;
	void *segment;
};

int lsmem_fetches_init(struct lsmem_store *store);
void lsmem_fetches_destroy(struct lsmem_store *store);
void lsmem_fetch_stop(struct lsmem_store *store);
void lsmem_fetch_ask(struct lsmem_store *store, u64 index, u64 word);
bool lsmem_fetch_ahead(struct lsmem_store *store, u64 index, u64 word);
void lsmem_fetch_together(struct lsmem_store *store, struct lsmem_miss *misses, u32 nr, u32 end);
int lsmem_fetch_wait(struct lsmem_store *store, struct lsmem_wanted *wanted, u64 *until, u64 deadline);
bool lsmem_fetch_end(struct lsmem_store *store, struct lsmem_wanted *wanted);
void lsmem_fetch_leave(struct lsmem_store *store, struct lsmem_wanted *wanted);
int lsmem_fetch(struct lsmem_store *store, u64 index, u64 *until, u64 deadline);
int lsmem_fetch_want(struct lsmem_store *store, u64 index, u64 word, struct lsmem_want *want);
bool lsmem_fetch_unwant(struct lsmem_store *store, struct lsmem_want *want);
struct lsmem_wanted *lsmem_through_ask(struct lsmem_store *store, const struct lsmem_sought *sought, u32 nr,
				       u32 blocks);
const void *lsmem_through_wait(struct lsmem_wanted *wanted, u32 which, u64 until, struct lsmem_entry *found);
void lsmem_through_put(struct lsmem_wanted *wanted);
int lsmem_fetch_segment(struct lsmem_store *store, const struct lsmem_segment *seg);

bool lsmem_fetch_pending(const struct lsmem_store *store);
void lsmem_fetch_rewind(struct lsmem_store *store);
long lsmem_fetch_take(struct lsmem_store *store, struct lsmem_fetch *fetch);
long lsmem_fetch_fill(struct lsmem_store *store, struct lsmem_fill *fill);

#endif
