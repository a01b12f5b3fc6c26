// SPDX-License-Identifier: GPL-2.0
/*
 * Space: waiting for it, and being slowed down before it is gone.
 *
 * A writer that finds no free seglet or no spare waits until one is freed, at most
 * stall_ms.  To keep such stalls rare, writers are slowed down earlier: with fewer
 * than throttle_below free seglets, each seglet that a writer takes moves a gate, which
 * all writers share, into the future, by the time the cleaners take to free a seglet
 * times the share of throttle_below that is gone, doubled.  The writer that took the
 * seglet waits at the gate before its next append.  At half of throttle_below writers
 * take seglets as fast as the cleaners free them: the system settles there.
 *
 * No locks.  The gate and the cleaners' speed are single words; if two writers move the
 * gate from the same place, one of the two steps is lost.
 */
#include <linux/hrtimer.h>
#include <linux/sched/signal.h>

#include "space.h"
#include "store.h"
#include "trace.h"

#define LSMEM_THROTTLE_MAX_NS	(20 * NSEC_PER_MSEC)	/* longest sleep at the gate */
#define LSMEM_THROTTLE_MIN_NS	(20 * NSEC_PER_USEC)	/* shorter ones are saved up */
#define LSMEM_SEGLET_MAX_NS	(5 * NSEC_PER_MSEC)	/* of a seglet, at most */

/* Count a wait that has ended, by its power of two of microseconds. */
static void lsmem_space_waited(struct lsmem_store *store, u64 ns)
{
	u32 bucket = min_t(u32, fls64(ns >> 11), LSMEM_WAITS - 1);

	lsmem_count(store, waits[bucket], 1);
}

/**
 * lsmem_space_came - wake up writers that wait for space
 * @store: the store
 */
void lsmem_space_came(struct lsmem_store *store)
{
	atomic_inc(&store->space.serial);
	wake_up_all(&store->space.wait);
	wake_up(&store->plan.work);
}

/**
 * lsmem_space_made - account for the speed of a cleaner or compactor
 * @store: the store
 * @seglets: freed, net of those that it filled
 * @ns: time that it took, nanoseconds
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
 * lsmem_space_taken - move the gate for a seglet that a writer has taken
 * @store: the store
 * @head: that took it, locked
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
 * lsmem_space_throttle - wait at the gate, if this head has to
 * @store: active
 * @head: not locked; the caller holds nothing
 * @deadline: LSMEM_NO_WAIT: leave the gate to the next writer
 *
 * Return: 0; -LSMEM_EWAIT: it has to, and @deadline is LSMEM_NO_WAIT.
 */
int lsmem_space_throttle(struct lsmem_store *store, struct lsmem_head *head, u64 deadline)
{
	u64 gate = READ_ONCE(head->gate), now;
	ktime_t until;

	if (likely(!gate))
		return 0;
	now = ktime_get_ns();
	if (gate > now && gate <= now + LSMEM_THROTTLE_MAX_NS && deadline == LSMEM_NO_WAIT)
		return -LSMEM_EWAIT;
	WRITE_ONCE(head->gate, 0);	/* one writer waits for each seglet */
	if (gate <= now || gate > now + LSMEM_THROTTLE_MAX_NS)
		return 0;
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
	return 0;
}

/**
 * lsmem_space_wait - wait until an append may succeed
 * @store: active
 * @serial: store->space.serial before the attempt that failed
 * @deadline: ktime in ns by which all waits of a call must have ended, because others may
 *	take what is freed; 0 before the first wait, which sets it to stall_ms from now;
 *	LSMEM_NO_WAIT, LSMEM_NO_STALL: do not wait; see also lsmem_space_stop()
 *
 * Return: 0, -EINTR, -EAGAIN (not active), -ETIMEDOUT; -LSMEM_EWAIT: do not wait.
 */
int lsmem_space_wait(struct lsmem_store *store, int serial, u64 *deadline)
{
	u64 begin = ktime_get_ns(), until = READ_ONCE(*deadline), ns;
	long ret;

	if (!until) {
		until = begin + (u64)READ_ONCE(store->space.stall_ms) * NSEC_PER_MSEC;
		if (cmpxchg(deadline, 0, until))
			until = LSMEM_NO_WAIT;
	}
	if (until == LSMEM_NO_WAIT || until == LSMEM_NO_STALL)
		return -LSMEM_EWAIT;
	if (until <= begin)
		return -ETIMEDOUT;
	atomic_inc(&store->space.stalled);	/* before the cleaners wake up and read it */
	wake_up_all(&store->plan.work);
	wake_up(&store->repl.events);	/* the daemon must be told of heads that rolled over */
	ret = lsmem_wait_event(store, space.wait, atomic_read(&store->space.serial) != serial ||
			       !lsmem_store_active(store) ||
			       READ_ONCE(*deadline) == LSMEM_NO_WAIT,
			       nsecs_to_jiffies(until - begin) + 1);
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
	/* Ticks can be late: the clock decides. */
	return ret || begin + ns < until ? 0 : -ETIMEDOUT;
}

/**
 * lsmem_space_thaw - wait until a store is not frozen (freeze.c)
 * @store: active
 * @deadline: as for lsmem_space_wait()
 *
 * Return: 0; -EREMCHG: it still is; -EINTR, -EAGAIN, -LSMEM_EWAIT: as lsmem_space_wait().
 */
int lsmem_space_thaw(struct lsmem_store *store, u64 *deadline)
{
	int serial, ret;

	for (;;) {
		serial = atomic_read_acquire(&store->space.serial);	/* a thaw is followed by another one */
		if (!lsmem_store_frozen(store))
			return 0;
		ret = lsmem_space_wait(store, serial, deadline);
		if (ret)
			return ret == -ETIMEDOUT ? -EREMCHG : ret;
	}
}

/**
 * lsmem_space_stop - end another task's waits for space
 * @store: the store
 * @deadline: of these waits; becomes LSMEM_NO_WAIT
 *
 * Context: does not sleep.
 * Return: false: it was called before.
 */
bool lsmem_space_stop(struct lsmem_store *store, u64 *deadline)
{
	if (xchg(deadline, LSMEM_NO_WAIT) == LSMEM_NO_WAIT)
		return false;
	wake_up_all(&store->space.wait);
	return true;
}
