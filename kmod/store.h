/* SPDX-License-Identifier: GPL-2.0 */
/* A store: one log with its frames, handles, cleaner and faces.  See store.c. */
#ifndef LSMEM_STORE_H
#define LSMEM_STORE_H

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/ktime.h>
#include <linux/mutex.h>
#include <linux/percpu_counter.h>
#include <linux/wait.h>

#include "counters.h"
#include "frame.h"
#include "indices.h"
#include "log.h"
#include "policy.h"
#include "segment.h"
#include "sizes.h"

struct gendisk;
struct lsmem_attachment;

#define LSMEM_VICTIMS		LSMEM_POLICY_VICTIMS	/* segments cleaned together */
#define LSMEM_RETIRES		8	/* groups waiting for their digest */
#define LSMEM_VACATED		64	/* compactions whose old frames may still be seen */
#define LSMEM_COMPACTORS	4u	/* most compactors of a store */
#define LSMEM_PLANNED		16	/* victims that compactors get at a time */
#define LSMEM_CLIENTS_MAX	4096u	/* limits/clients_max by default */
#define LSMEM_GIVEN_BYTES	32	/* a given name and its terminating zero */

/**
 * struct lsmem_retire - segments whose survivors are written
 * @nr: victims, 0: free slot
 * @epoch: views that began before it may still use the frames
 * @rcu: grace period after which no kernel reader does
 * @begun: when the pass ended, ktime in ns
 * @after: everything that superseded their entries lies before it (invariant 9)
 * @emitted, @acked: the daemon has been told; a digest without them is durable
 */
struct lsmem_retire {
	u32 nr;
	bool emitted;
	bool acked;
	u64 epoch;
	unsigned long rcu;
	u64 begun;
	struct lsmem_vector_point after;
	struct lsmem_segment *victims[LSMEM_VICTIMS];
};

/* What the cleaner has done; written by the cleaner alone. */
struct lsmem_cleaner_stats {
	u64 passes;
	u64 segments_cleaned;
	u64 relocated_bytes;
	u64 relocated_entries;
	u64 freed_bytes;
	u64 clean_ns;
};

/**
 * struct lsmem_store - a store
 *
 * Lock order, outermost first; written here and nowhere else:
 *
 *	attachment->mutex		one call of a daemon at a time (repl.c)
 *	  mmap_lock (the kernel's)
 *	    lsmem_stores_lock		the set of stores (store.c)
 *	      store->mutex		life: state, attach, load, activation
 *	        disk->open_mutex	(the block layer's) opens of a disk (block.c)
 *	        store->balance_mutex	levels and victims (balance.c)
 *	        store->epoch_lock	set of clients (epoch.c)
 *	          queue->lock		bios that wait for the daemon (bioqueue.c)
 *	          head->lock		one head (log.c); never two
 *	            store->segment_lock	segments, spares, retires (segment.c)
 *	              frames.lock	free frames (frame.c)
 *
 * No user memory is touched under any spinlock, nor under store->mutex; the
 * copies of NEXT, ACK and LOAD run under attachment->mutex, which no page fault
 * takes.
 * Kernel-side readers of frames hold rcu_read_lock(): a frame is given out
 * again only after a grace period.
 *
 * @capacity: live bytes admitted; @live: bytes of live entries
 * @era: of versions; @generation_floor, _ceiling, _max: see handle.c
 * @clock: store time when ktime was @clock_base
 * @space: writers waiting for a frame or a spare; @acks: durable waits;
 * @work: cleaner and compactors; @events: the daemon's poll
 */
struct lsmem_store {
	char name[LSMEM_NAME_BYTES];
	u32 kind;
	bool durable;
	bool charged;			/* to a memory cgroup */
	u32 state;			/* enum lsmem_store_state */
	u8 uuid[LSMEM_UUID_BYTES];
	struct mutex mutex;
	struct list_head node;
	u32 opens;			/* under lsmem_stores_lock */
	bool sealed;			/* under lsmem_stores_lock: no new opens */
	char given[LSMEM_GIVEN_BYTES];	/* given name, "": none; under lsmem_stores_lock */
	int minor;
	u64 bytes;

	struct lsmem_frames frames;

	struct lsmem_segment *segments;
	u32 nr_segments;
	spinlock_t segment_lock;
	struct hlist_head *segment_hash;
	u32 segment_hash_bits;
	struct list_head log;		/* all but FREE, by id */
	struct list_head todo;		/* those not durably closed, by id */
	struct list_head spares;	/* those that are SPARE, by id */
	struct list_head free;		/* those that are FREE: the longest first */
	u32 nr_log;
	u32 nr_spares;			/* OPENING or SPARE */
	u32 claimed;			/* segments that a pass may still take */
	u64 next_segment;
	u64 barrier;			/* above the ids of all segments ever written to */

	unsigned int nr_heads;
	struct lsmem_head *heads;
	atomic64_t rolls;
	atomic_t stalled;		/* writers that wait for space */
	atomic_t space_serial;		/* changes when space may have come */
	u32 clean_below;		/* free frames below which memory is low */
	u32 throttle_below;		/* ... and below which writers are slowed down */
	atomic64_t gate;		/* see space.c */
	u64 frame_ns;			/* what it takes of late to free a frame */

	struct lsmem_handle *handles;
	u64 nr_handles;
	struct lsmem_indices handle_map;
	u32 era;
	u32 generation_floor;
	u32 generation_ceiling;
	u32 generation_max;
	u32 generation_limit;		/* of an index, until it is reckoned anew: see handle.c */
	atomic64_t handles_aside;	/* indices that are used up or set aside */
	u64 clock;
	u64 clock_base;

	u64 capacity;
	struct percpu_counter live;
	struct percpu_counter handles_used;
	struct lsmem_counters __percpu *counters;

	struct lsmem_info *info;
	struct list_head clients;
	u32 nr_clients;			/* in the list */
	struct mutex epoch_lock;
	u32 view_ms;
	u32 clients_max;		/* files that may have slots */

	struct lsmem_retire retires[LSMEM_RETIRES];	/* a ring, under segment_lock */
	u32 retire_first;
	u32 retire_next;
	u32 retiring;			/* segments in it */
	struct lsmem_vacated vacated[LSMEM_VACATED];	/* likewise */
	u32 vacated_first;
	u32 vacated_next;
	u32 vacating;			/* frames in it */
	unsigned long freeing;		/* bit 0: somebody frees the oldest of them */

	struct task_struct *cleaner;
	struct lsmem_compactor *compactors;
	u32 nr_compactors;		/* of them, how many may work */
	bool cleaner_idle;		/* one of these waits for frames to become few */
	struct lsmem_policy_limits policy;
	struct lsmem_cleaner_stats cleaned;

	struct mutex balance_mutex;
	struct lsmem_cleaning *cleaning;	/* what the daemon sees, and the table */
	size_t cleaning_bytes;
	struct lsmem_candidate *candidates;
	u32 planned[LSMEM_PLANNED];	/* slots to be compacted next, the last first */
	u32 nr_planned;
	bool by_slots;			/* cleaning is to free segments, not memory */
	bool clean_last;		/* no pass begins any more: the daemon is going */
	bool clean_barren;		/* cleaning has just gained nothing; the cleaner's */
	atomic_t compact_asked;		/* segments, by hand */
	atomic_t clean_asked;
	struct lsmem_pass *pass;	/* of the cleaner */
	struct lsmem_survivor *survivors;

	wait_queue_head_t space;
	wait_queue_head_t acks;
	wait_queue_head_t work;
	wait_queue_head_t events;
	struct lsmem_attachment *attached;	/* under mutex */
	u64 durable_bytes;
	u32 durable_ms;			/* bound of a durable wait */
	u32 flush_ms;			/* bound of FLUSH and fsync */
	u32 stall_ms;			/* bound of a wait for space */

	struct device dev;
	struct cdev cdev;
	struct gendisk *disk;		/* block stores, while active; see lsmem_store_give() */
	struct lsmem_bioqueue *waiting;	/* its FLUSH and FUA, if the store is durable */
	struct dentry *debugfs;
	uid_t uid;
	gid_t gid;
	umode_t mode;
};

/*
 * Wait on a queue of the store until @condition, at most @bound jiffies: returns
 * as wait_event_killable_timeout().  Callers of object calls hold nothing: they
 * may be killed and frozen.  Block I/O comes from kernel threads too, and from
 * under a filesystem's locks: it waits idle, and cannot be frozen.
 */
#define lsmem_wait_event(store, queue, condition, bound)				\
({											\
	long __bound = (bound), __ret = __bound;					\
											\
	might_sleep();									\
	if (___wait_cond_timeout(condition))						\
		;									\
	else if ((store)->kind == LSMEM_KIND_BLOCK)					\
		__ret = ___wait_event((store)->queue, ___wait_cond_timeout(condition),	\
				      TASK_IDLE, 0, __bound,				\
				      __ret = schedule_timeout(__ret));			\
	else										\
		__ret = ___wait_event((store)->queue, ___wait_cond_timeout(condition),	\
				      (TASK_KILLABLE | TASK_FREEZABLE), 0, __bound,	\
				      __ret = schedule_timeout(__ret));			\
	__ret;										\
})

int lsmem_store_create(const struct lsmem_create *create, struct lsmem_store **out);
int lsmem_store_destroy(const char *name, bool force);
int lsmem_stores_init(void);
void lsmem_stores_exit(void);


/**
 * lsmem_store_time - the store's clock
 * @store: the store
 * Return: units of 1024 ns; never goes back, also across a recovery.
 */
static inline u64 lsmem_store_time(const struct lsmem_store *store)
{
	return store->clock + ((ktime_get_ns() - store->clock_base) >> 10);
}

static inline bool lsmem_store_active(const struct lsmem_store *store)
{
	/* Pairs with activation: whoever sees it active sees all of it. */
	return smp_load_acquire(&store->state) == LSMEM_STATE_ACTIVE;
}

#endif
