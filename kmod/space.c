// SPDX-License-Identifier: GPL-2.0
/*
 * Space: waiting for it, and being slowed down before it is gone.
 *
 * A writer that finds no seglet and no spare waits until something is freed, at
 * most stall_ms.  So that writers seldom come to that, and then not all at once,
 * they are slowed down before: once free seglets are fewer than throttle_below,
 * each seglet that a writer takes moves a gate that all of them share into the
 * future, by what it takes the cleaners to free a seglet, times how far memory
 * has run down.  The writer that took the seglet waits at the gate before its next
 * append.  Half way down writers get what is freed, and no more: they settle
 * there, at the cleaners' speed, and none of them stops.
 *
 * No locks.  The gate and the cleaners' speed are single words; two writers may
 * both move the gate from the same place, and one of the two steps is lost.
 */
#include <linux/hrtimer.h>
#include <linux/sched/signal.h>

#include "space.h"
#include "store.h"
#include "trace.h"

#define LSMEM_THROTTLE_MAX_NS	(20 * NSEC_PER_MSEC)	/* longest sleep at the gate */
#define LSMEM_THROTTLE_MIN_NS	(20 * NSEC_PER_USEC)	/* shorter ones are saved up */
#define LSMEM_SEGLET_MAX_NS	(5 * NSEC_PER_MSEC)	/* of a seglet, at most */

/* A wait has ended: count it in its power of two of microseconds. */
static void lsmem_space_waited(struct lsmem_store *store, u64 ns)
{
	u32 bucket = min_t(u32, fls64(ns >> 11), LSMEM_WAITS - 1);

	lsmem_count(store, waits[bucket], 1);
}

/**
 * lsmem_space_came - seglets or spares have become available
 * @store: the store
 */
void lsmem_space_came(struct lsmem_store *store)
{
	atomic_inc(&store->space.serial);
	wake_up_all(&store->space.wait);
	wake_up(&store->plan.work);
}

/**
 * lsmem_space_made - a cleaner or compactor tells how fast it is
 * @store: the store
 * @seglets: that it has emptied, less those it has filled
 * @ns: that it took
 */
void lsmem_space_made(struct lsmem_store *store, u32 seglets, u64 ns)
{
	u64 mean = READ_ONCE(store->space.seglet_ns), each;

	if (!seglets)
		return;
	each = min_t(u64, div_u64(ns, seglets), LSMEM_SEGLET_MAX_NS);
	WRITE_ONCE(store->space.seglet_ns, mean ? mean - mean / 8 + each / 8 : each);
}

/**
 * lsmem_space_taken - a writer has taken a seglet
 * @store: the store
 * @head: its head, locked
 */
void lsmem_space_taken(struct lsmem_store *store, struct lsmem_head *head)
{
	u32 free = lsmem_seglets_free(&store->seglets), base = store->seglets.base;
	u32 below = READ_ONCE(store->space.throttle_below);
	u64 now, gate, step;

	if (free >= below)
		return;
	now = ktime_get_ns();
	gate = max_t(u64, atomic64_read(&store->space.gate), now);
	step = READ_ONCE(store->space.seglet_ns) * 2 * (below - max(free, base)) / (below - base);
	gate = min(gate + step, now + LSMEM_THROTTLE_MAX_NS);
	atomic64_set(&store->space.gate, gate);
	if (gate > now + LSMEM_THROTTLE_MIN_NS)
		WRITE_ONCE(head->gate, gate);
}

/**
 * lsmem_space_throttle - wait at the gate, if one is before this head
 * @store: active
 * @head: not locked; nothing is held
 */
void lsmem_space_throttle(struct lsmem_store *store, struct lsmem_head *head)
{
	u64 gate = READ_ONCE(head->gate), now;
	ktime_t until;

	if (likely(!gate))
		return;
	WRITE_ONCE(head->gate, 0);	/* one writer waits for a seglet, not all that come */
	now = ktime_get_ns();
	if (gate <= now || gate > now + LSMEM_THROTTLE_MAX_NS)
		return;
	until = ns_to_ktime(gate - now);
	/* As lsmem_wait_event(): block I/O comes from threads that must not be frozen. */
	set_current_state(store->kind == LSMEM_KIND_BLOCK ? TASK_IDLE :
			  TASK_KILLABLE | TASK_FREEZABLE);
	schedule_hrtimeout_range(&until, LSMEM_THROTTLE_MIN_NS, HRTIMER_MODE_REL);
	now = ktime_get_ns() - now;
	lsmem_count(store, throttles, 1);
	lsmem_count(store, throttle_ns, now);
	lsmem_space_waited(store, now);
	trace_lsmem_throttle(store->name, now);
}

/**
 * lsmem_space_wait - wait until an append may succeed
 * @store: active
 * @serial: store->space.serial before it was tried
 * @deadline: ktime in ns by which all waits of a call must have ended: what comes
 *	may always go to others; 0 before the first, then set to stall_ms from now
 *
 * Return: 0, -EINTR, -EAGAIN (not active) or -ETIMEDOUT.
 */
int lsmem_space_wait(struct lsmem_store *store, int serial, u64 *deadline)
{
	u64 begin = ktime_get_ns(), ns;
	long ret;

	if (!*deadline)
		*deadline = begin + (u64)READ_ONCE(store->space.stall_ms) * NSEC_PER_MSEC;
	if (*deadline <= begin)
		return -ETIMEDOUT;
	atomic_inc(&store->space.stalled);	/* before the cleaners are woken: they look then */
	wake_up_all(&store->plan.work);
	wake_up(&store->repl.events);	/* what was rolled over has to be told */
	ret = lsmem_wait_event(store, space.wait, atomic_read(&store->space.serial) != serial ||
			       !lsmem_store_active(store),
			       nsecs_to_jiffies(*deadline - begin) + 1);
	atomic_dec(&store->space.stalled);
	ns = ktime_get_ns() - begin;
	lsmem_count(store, stalls, 1);
	lsmem_count(store, stall_ns, ns);
	lsmem_space_waited(store, ns);
	trace_lsmem_stall(store->name, ns);
	if (ret < 0)
		return -EINTR;
	if (!lsmem_store_active(store))
		return -EAGAIN;
	return ret ? 0 : -ETIMEDOUT;
}
