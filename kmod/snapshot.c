// SPDX-License-Identifier: GPL-2.0
/*
 * Snapshots of a scan: each object once, as it was at a version V.
 *
 * A cut chooses V and copies the live bitmap:
 *
 *	choose	V is the higher of the store's clock and the highest version ahead of the clock
 *		(handles.mark).  From then on all versions are higher than V (handles.cut)
 *	wait	a grace period: all changes with versions up to V are complete, and nothing moves
 *	copy	the live bitmap, by chunks.  From the choice on, a writer whose change has a version above V
 *		saves the bit of the older entry in the copy, before it clears it in the live bitmap, unless
 *		the chunk is already copied: then the copy has the bit
 *	wait	a grace period: no writer looks at the copy any more, and each entry that has a bit is whole
 *
 * So a bit in the copy leads to each object that lived at V, and to entries with higher versions, which
 * the reader drops.  Two entries of an object with versions up to V have no bits: one of them was dead at V,
 * by a change with a version up to V, which has cleared its bit before the copy and saves none in it.
 *
 * Which writers see the cut: handles.cut is CHOOSING while V is chosen, for a few instructions with
 * interrupts off, and who takes a version waits.  The cut stores CHOOSING and where the copy is, then reads
 * clock and mark.  A writer takes a version (from the clock, or it raises the mark), and after its exchange
 * looks for the copy.  There are full barriers on both sides.  So if it does not see the copy, the cut has
 * read a clock or a mark of at least its version, which is then not above V
 * (tests/litmus/snapshot-version.litmus).  Who takes a version after a change above V takes one above
 * V, too: so V cuts between causes and effects.
 *
 * What is kept back: seglets that are vacated or retired at a later epoch than that of the beginning of
 * the cut leave their rings as ever, but are not freed, if a bit of the copy is in them, or if an entry
 * ends in them that began in a seglet with such a bit.  They stay until the reader is done with the seglets
 * in which these entries begin, or the snapshot ends or is revoked: by its number of seglets, by time, or as
 * soon as writers find fewer free seglets than those below which they are slowed down.  A
 * revocation changes the state in the window before any of the seglets is freed
 * (tests/litmus/snapshot-state.litmus).
 *
 * Locks: snapshots.cutting for a cut; snapshots.lock for what is kept back, for at most LSMEM_SEGLETS
 * seglets of LSMEM_SNAPSHOTS_MOST snapshots at a time.
 */
#include <linux/bitmap.h>
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "handle.h"
#include "segment.h"
#include "snapshot.h"
#include "space.h"
#include "store.h"

#define LSMEM_COLD_CHUNK	65536u	/* handle words, likewise */
#define LSMEM_COPY_CHUNKS	64u	/* chunks of the bitmap between two looks at what ends a copy */
#define LSMEM_CUT_PACE		8u	/* between two cuts cleaners run so many times as long as they rested */
#define LSMEM_SNAPSHOT_ROOM	16u	/* of a tiered store: one of so many seglets is made free for snapshots */
#define LSMEM_KEPT_CHUNK	64u	/* seglets freed together */
#define LSMEM_KEPT_RANGE	(64u << 10)	/* seglets looked through under the lock */
/* In so many seglets behind that in which it begins can an entry end. */
#define LSMEM_ENTRY_SEGLETS	DIV_ROUND_UP(LSMEM_OBJECT_MAX, LSMEM_SEGLET_BYTES)

static struct workqueue_struct *lsmem_snapshot_works;

/* ---- What is kept back --------------------------------------------------- */

static bool lsmem_frozen_holds(const struct lsmem_snapshots *snapshots, u32 seglet)
{
	const struct lsmem_frozen *frozen;

	list_for_each_entry(frozen, &snapshots->list, node)
		if (test_bit(seglet, frozen->kept))
			return true;
	return false;
}

static void lsmem_frozen_count(struct lsmem_frozen *frozen, s32 nr)
{
	frozen->nr_kept += nr;
	WRITE_ONCE(frozen->window->kept, frozen->nr_kept);
}

/*
 * Revoke a snapshot.  Its seglets are freed by its work.  What is freed after the lock is released is
 * written after the state has changed.
 */
static void lsmem_frozen_revoke(struct lsmem_frozen *frozen, u32 state)
{
	lockdep_assert_held(&frozen->store->snapshots.lock);
	frozen->stands = false;
	WRITE_ONCE(frozen->window->state, state);
	frozen->store->snapshots.revoked++;
	mod_delayed_work(lsmem_snapshot_works, &frozen->over, 0);
}

/* Revoke all that keep back anything. */
static void lsmem_snapshots_revoke(struct lsmem_snapshots *snapshots)
{
	struct lsmem_frozen *frozen;

	list_for_each_entry(frozen, &snapshots->list, node)
		if (frozen->stands && frozen->nr_kept)
			lsmem_frozen_revoke(frozen, LSMEM_SNAPSHOT_SPACE);
}

/* What the reader must know of the segment of a seglet. */
static void lsmem_frozen_note(struct lsmem_frozen *frozen, u32 seglet, u32 salt, bool trailers)
{
	WRITE_ONCE(frozen->salts[seglet], salt);
	if (!frozen->trailers)
		return;
	if (trailers)
		set_bit(seglet, frozen->trailers);
	else if (test_bit(seglet, frozen->trailers))
		clear_bit(seglet, frozen->trailers);
}

/* How far the reader must be to be done with the entries that begin in a seglet; 0: there are none. */
static u32 lsmem_frozen_until(const struct lsmem_frozen *frozen, u32 seglet)
{
	if (!frozen->copied)
		return U32_MAX;		/* until the end */
	if (frozen->cold && test_bit(seglet, frozen->some_late))
		return frozen->store->seglets.nr + seglet + 1;
	return test_bit(seglet, frozen->some) ? seglet + 1 : 0;
}

/*
 * Keep back what a snapshot needs of the seglets of a segment, which are in their order, or revoke the
 * snapshot if these are too many.
 */
static void lsmem_frozen_keep(struct lsmem_frozen *frozen, const u32 *seglets, u32 nr, u32 salt, bool trailers)
{
	u32 until[LSMEM_SEGLETS], needed = 0, i, from = U32_MAX, last = 0, own;

	lockdep_assert_held(&frozen->store->snapshots.lock);
	for (i = 0; i < nr; i++) {
		until[i] = 0;
		/* The nearest seglet before this one in which entries begin: the last may end here. */
		if (from != U32_MAX && i - from <= LSMEM_ENTRY_SEGLETS)
			until[i] = last;
		own = lsmem_frozen_until(frozen, seglets[i]);
		if (own) {
			until[i] = max(until[i], own);
			from = i;
			last = own;
		}
		needed += until[i] > frozen->done;
	}
	if (frozen->nr_kept + needed > frozen->window->kept_max) {
		lsmem_frozen_revoke(frozen, LSMEM_SNAPSHOT_KEPT);
		return;
	}
	for (i = 0; i < nr; i++) {
		if (until[i] <= frozen->done)
			continue;
		__set_bit(seglets[i], frozen->kept);
		frozen->until[seglets[i]] = until[i];
		lsmem_frozen_note(frozen, seglets[i], salt, trailers);
	}
	lsmem_frozen_count(frozen, needed);
}

/**
 * lsmem_snapshots_keep - no view and no kernel reader sees seglets any more; which can be freed?
 * @store: the store
 * @seglets: of one segment, in their order; out: those to be freed
 * @nr: how many, at most LSMEM_SEGLETS
 * @epoch: they were vacated or retired at
 * @salt: of their segment
 * @trailers: it is a cache segment
 *
 * Context: does not sleep.
 * Return: how many can be freed; the others are freed when no snapshot keeps them back.
 */
u32 lsmem_snapshots_keep(struct lsmem_store *store, u32 *seglets, u32 nr, u64 epoch, u32 salt, bool trailers)
{
	struct lsmem_snapshots *snapshots = &store->snapshots;
	struct lsmem_frozen *frozen;
	u32 left = 0, i;

	spin_lock(&snapshots->lock);
	list_for_each_entry(frozen, &snapshots->list, node)
		if (frozen->stands && frozen->epoch < epoch)
			lsmem_frozen_keep(frozen, seglets, nr, salt, trailers);
	for (i = 0; i < nr; i++)
		if (!lsmem_frozen_holds(snapshots, seglets[i]))
			seglets[left++] = seglets[i];
	WRITE_ONCE(snapshots->kept, snapshots->kept + nr - left);
	/* Compaction has taken seglets, and made none. */
	if (left < nr &&
	    lsmem_seglets_free(&store->seglets) < READ_ONCE(store->space.throttle_below))
		lsmem_snapshots_revoke(snapshots);
	spin_unlock(&snapshots->lock);
	return left;
}

/*
 * Take a chunk of what a snapshot keeps back, and may go, out of [*@at, @end), and advance *@at.  Returns
 * how many no other snapshot keeps back, in @seglets.
 */
static u32 lsmem_frozen_take(struct lsmem_frozen *frozen, u32 below, u32 *at, u32 end, u32 *seglets)
{
	struct lsmem_snapshots *snapshots = &frozen->store->snapshots;
	u32 nr = 0, looked = 0;

	spin_lock(&snapshots->lock);
	for (; looked < LSMEM_KEPT_CHUNK; looked++) {
		u32 seglet = find_next_bit(frozen->kept, end, *at);

		*at = min(seglet + 1, end);
		if (seglet >= end)
			break;
		if (frozen->until[seglet] > below)
			continue;
		__clear_bit(seglet, frozen->kept);
		lsmem_frozen_count(frozen, -1);
		if (!lsmem_frozen_holds(snapshots, seglet))
			seglets[nr++] = seglet;
	}
	WRITE_ONCE(snapshots->kept, snapshots->kept - nr);
	spin_unlock(&snapshots->lock);
	return nr;
}

/* Free what a snapshot keeps back only for entries that begin in seglets below @below. */
static void lsmem_frozen_free(struct lsmem_frozen *frozen, u32 below)
{
	struct lsmem_store *store = frozen->store;
	u32 seglets[LSMEM_KEPT_CHUNK], at = 0, nr, freed = 0;

	while (READ_ONCE(frozen->nr_kept) && at < store->seglets.nr) {
		u32 end = min(round_up(at + 1, LSMEM_KEPT_RANGE), store->seglets.nr);

		while (at < end) {
			nr = lsmem_frozen_take(frozen, below, &at, end, seglets);
			if (nr)
				lsmem_seglets_put(&store->seglets, seglets, nr);
			freed += nr;
			cond_resched();
		}
	}
	if (freed)
		lsmem_space_came(store);
}

/* The time of a snapshot is over, or it is revoked. */
static void lsmem_frozen_over(struct work_struct *work)
{
	struct lsmem_frozen *frozen = container_of(to_delayed_work(work), struct lsmem_frozen, over);
	struct lsmem_snapshots *snapshots = &frozen->store->snapshots;

	spin_lock(&snapshots->lock);
	if (frozen->stands)
		lsmem_frozen_revoke(frozen, LSMEM_SNAPSHOT_TIME);
	spin_unlock(&snapshots->lock);
	lsmem_frozen_free(frozen, U32_MAX);
}

/**
 * lsmem_snapshots_press - writers or cleaners need what snapshots keep back
 * @store: the store
 *
 * Revokes all snapshots that keep back anything.
 * Context: does not sleep; snapshots.lock is not held.
 */
void lsmem_snapshots_press(struct lsmem_store *store)
{
	if (likely(!READ_ONCE(store->snapshots.kept)))
		return;
	spin_lock(&store->snapshots.lock);
	lsmem_snapshots_revoke(&store->snapshots);
	spin_unlock(&store->snapshots.lock);
}

/**
 * lsmem_snapshots_stop - revoke all snapshots
 * @store: frozen
 *
 * Context: sleeps.
 * Return: false: one is being made.
 */
bool lsmem_snapshots_stop(struct lsmem_store *store)
{
	struct lsmem_snapshots *snapshots = &store->snapshots;
	struct lsmem_frozen *frozen;

	if (!mutex_trylock(&snapshots->cutting))
		return false;
	spin_lock(&snapshots->lock);
	list_for_each_entry(frozen, &snapshots->list, node)
		if (frozen->stands)
			lsmem_frozen_revoke(frozen, LSMEM_SNAPSHOT_FROZEN);
	spin_unlock(&snapshots->lock);
	mutex_unlock(&snapshots->cutting);
	return true;
}

/**
 * lsmem_snapshot_done - LSMEM_IOC_SNAPSHOT_DONE
 * @frozen: cut
 * @seglet: the reader is done with what begins in those with lower numbers
 *
 * Context: may sleep.
 * Return: 0; -ECANCELED: it is revoked.
 */
int lsmem_snapshot_done(struct lsmem_frozen *frozen, u32 seglet)
{
	struct lsmem_snapshots *snapshots = &frozen->store->snapshots;
	bool stands;

	spin_lock(&snapshots->lock);
	stands = frozen->stands;
	seglet = max(seglet, frozen->done);
	frozen->done = seglet;
	WRITE_ONCE(frozen->window->done, seglet);
	spin_unlock(&snapshots->lock);
	if (!stands)
		return -ECANCELED;
	lsmem_frozen_free(frozen, seglet);
	return 0;
}

/* ---- What was COLD at V --------------------------------------------------- */

/**
 * lsmem_word_late - an object of a tiered store has changed
 * @handles: of the store
 * @index: of the object
 * @position: of its older entry, whose bit in the live bitmap is not cleared yet
 *
 * What was COLD can be changed only after it was fetched, or cleaned: its older entry is in memory.  A snapshot that
 * has still to read it keeps that.
 *
 * Context: under rcu_read_lock() or in an append, from before the exchange on.
 */
void lsmem_word_late(const struct lsmem_handles *handles, u64 index, u64 position)
{
	struct lsmem_store *store = container_of(handles, struct lsmem_store, handles);
	u64 bit = lsmem_livemap_bit(position);
	u32 seglet = position >> LSMEM_POSITION_OFFSET_BITS;
	const struct lsmem_segment *seg;
	struct lsmem_frozen *frozen;

	rcu_read_lock();
	list_for_each_entry_rcu(frozen, &store->snapshots.list, node) {
		if (!frozen->cold || !test_bit(index, frozen->cold) ||
		    !test_and_clear_bit(index, frozen->cold))
			continue;
		seg = lsmem_segment_of(store, position);
		lsmem_frozen_note(frozen, seglet, seg->salt,
				  lsmem_segment_is_cache(&store->segments, seg->index));
		set_bit(seglet, frozen->some_late);
		set_bit(bit % LSMEM_CHUNK_BITS, lsmem_livemap_chunk(&frozen->late, bit / LSMEM_CHUNK_BITS));
	}
	rcu_read_unlock();
}

/**
 * lsmem_snapshot_settle - the reader has read what was COLD, or found that it has changed
 * @frozen: cut, of a tiered store
 *
 * When it returns, the late bitmap has all that has changed.  Context: sleeps for an RCU grace period, which is
 * not expedited: the caller chooses how often.
 */
void lsmem_snapshot_settle(struct lsmem_frozen *frozen)
{
	if (frozen->cold)
		synchronize_rcu();
}

/* ---- The cut -------------------------------------------------------------- */

/**
 * lsmem_snapshots_rest - wait while a cut copies the live bitmap
 * @store: the store
 *
 * Context: a thread that moves entries; sleeps, for limits/view_ms at most.
 */
void lsmem_snapshots_rest(struct lsmem_store *store)
{
	wait_event_freezable(store->plan.work, kthread_should_stop() ||
			     !READ_ONCE(store->snapshots.copying));
}

/**
 * lsmem_snapshots_hold - must a compactor not begin anything?
 * @store: the store
 *
 * A cut of a tiered store waits until compactors have ended what they do: of a segment that is compacted, or from
 * which objects are evicted, while V is chosen, all seglets would be kept back.  Not while writers are slowed down.
 * In a frozen store nothing begins.
 */
bool lsmem_snapshots_hold(const struct lsmem_store *store)
{
	if (lsmem_store_frozen(store))
		return true;
	return unlikely(READ_ONCE(store->snapshots.waiting)) && !atomic_read(&store->space.stalled) &&
	       lsmem_seglets_free(&store->seglets) >= READ_ONCE(store->space.throttle_below);
}

/**
 * lsmem_snapshots_moving - a compactor works, unless it must rest
 * @store: the store
 * @moving: it begins, and looks at lsmem_snapshots_hold() next; false: it has ended
 */
void lsmem_snapshots_moving(struct lsmem_store *store, bool moving)
{
	if (moving)
		atomic_inc_return(&store->snapshots.moving);	/* a full barrier; pairs with lsmem_cut_wait() */
	else if (atomic_dec_and_test(&store->snapshots.moving) && READ_ONCE(store->snapshots.waiting))
		wake_up_all(&store->space.wait);
}

/**
 * lsmem_snapshots_copying - must no word of an object that stays as it is be exchanged now?
 * @store: the store
 *
 * Context: under rcu_read_lock() or in an append, until the exchange.
 */
bool lsmem_snapshots_copying(const struct lsmem_store *store)
{
	return smp_load_acquire(&store->snapshots.copying);	/* pairs with lsmem_cut_make() */
}

/* Choose V.  Interrupts are off, because writers wait for the choice. */
static u64 lsmem_cut_choose(struct lsmem_handles *handles, const struct lsmem_store *store,
			    const struct lsmem_livemap_copy *copy)
{
	unsigned long flags;
	u64 version;

	local_irq_save(flags);
	version = handles->cut;
	WRITE_ONCE(handles->cut, LSMEM_CUT_CHOOSING);
	/* Pairs with lsmem_word_save(): who finds the copy finds CHOOSING, or V. */
	smp_store_release(&handles->livemap.saved, copy);
	smp_mb();	/* before clock and mark are read; see above */
	version = max3(version, lsmem_version_make(handles->era, lsmem_store_time(store)),
		       (u64)atomic64_read(&handles->mark));
	smp_store_release(&handles->cut, version);	/* pairs with lsmem_handles_cut() */
	local_irq_restore(flags);
	return version;
}

/* Must a copy be given up?  @end: jiffies. */
static int lsmem_cut_pause(const struct lsmem_frozen *frozen, unsigned long end)
{
	if (fatal_signal_pending(current))
		return -EINTR;
	if (atomic_read(&frozen->store->space.stalled) || !READ_ONCE(frozen->stands))
		return -ENOSPC;
	if (time_after(jiffies, end))
		return -ETIMEDOUT;
	cond_resched();
	return 0;
}

/* List what is COLD.  Nothing becomes COLD meanwhile, or is fetched, so that nothing of it is changed. */
static int lsmem_cut_cold(struct lsmem_frozen *frozen, unsigned long end)
{
	const struct lsmem_handles *handles = &frozen->store->handles;
	int ret = 0;
	u64 i;

	for (i = 0; !ret && i < handles->nr; i++) {
		if (lsmem_word_state(READ_ONCE(handles->table[i].word)) == LSMEM_WORD_COLD)
			__set_bit(i, frozen->cold);
		if ((i + 1) % LSMEM_COLD_CHUNK == 0)
			ret = lsmem_cut_pause(frozen, end);
	}
	return ret;
}

/* Copy the live bitmap, and note which seglets have bits. */
static int lsmem_cut_copy(struct lsmem_frozen *frozen)
{
	struct lsmem_store *store = frozen->store;
	const struct lsmem_livemap *livemap = &store->handles.livemap;
	u64 chunks = livemap->bytes / LSMEM_CHUNK_BYTES, i;
	unsigned long end = jiffies + msecs_to_jiffies(READ_ONCE(store->views.view_ms));
	int ret = 0;

	for (i = 0; !ret && i < chunks; i++) {
		lsmem_livemap_copy_chunk(livemap, &frozen->copy, i, frozen->some);
		if ((i + 1) % LSMEM_COPY_CHUNKS == 0)
			ret = lsmem_cut_pause(frozen, end);
	}
	return ret || !frozen->cold ? ret : lsmem_cut_cold(frozen, end);
}

/* The copy is made: note the salts of seglets that have bits and are not kept back yet. */
static void lsmem_cut_note(struct lsmem_frozen *frozen)
{
	struct lsmem_store *store = frozen->store;
	unsigned long i = 0, end, owner;

	while (i < store->seglets.nr) {
		end = min(i + LSMEM_KEPT_CHUNK, (unsigned long)store->seglets.nr);
		/* A segment that is freed has had its seglets looked at under the lock. */
		spin_lock(&store->snapshots.lock);
		for_each_set_bit_from(i, frozen->some, end) {
			owner = READ_ONCE(store->seglets.owner[i]);
			if (!test_bit(i, frozen->kept) && owner < store->segments.nr_all)
				/* Of a segment that begins meanwhile all entries are above V. */
				lsmem_frozen_note(frozen, i, data_race(store->segments.table[owner].salt),
						  lsmem_segment_is_cache(&store->segments, owner));
		}
		spin_unlock(&store->snapshots.lock);
		i = end;
		cond_resched();
	}
}

/* Between two cuts what moves entries has its time. */
static int lsmem_cut_pace(const struct lsmem_snapshots *snapshots)
{
	u64 now;

	while ((now = ktime_get_ns()) < snapshots->next_cut) {
		schedule_timeout_killable(nsecs_to_jiffies(snapshots->next_cut - now) + 1);
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	return 0;
}

/* Of a tiered store, tier.fill is held: nothing is put into memory. */
static int lsmem_cut_make(struct lsmem_frozen *frozen)
{
	struct lsmem_store *store = frozen->store;
	struct lsmem_snapshots *snapshots = &store->snapshots;
	u64 begin;
	int ret;

	spin_lock(&snapshots->lock);
	/* What is vacated or retired at an epoch up to this one was empty before V is chosen. */
	frozen->epoch = smp_load_acquire(&store->views.info->epoch);
	frozen->stands = true;
	spin_unlock(&snapshots->lock);
	begin = ktime_get_ns();
	WRITE_ONCE(snapshots->copying, true);
	frozen->window->version = lsmem_cut_choose(&store->handles, store, &frozen->copy);
	synchronize_rcu_expedited();	/* changes up to V are complete; nothing moves */
	ret = lsmem_cut_copy(frozen);
	/* Pairs with lsmem_snapshots_copying(): who moves what was COLD has listed it. */
	smp_store_release(&snapshots->copying, false);
	wake_up_all(&store->plan.work);
	WRITE_ONCE(store->handles.livemap.saved, NULL);
	snapshots->next_cut = ktime_get_ns() + LSMEM_CUT_PACE * (ktime_get_ns() - begin);
	synchronize_rcu_expedited();	/* no writer looks at the copy any more; entries are whole */
	if (ret)
		return ret;
	lsmem_cut_note(frozen);
	spin_lock(&snapshots->lock);
	frozen->copied = true;
	ret = frozen->stands ? 0 : -ENOSPC;
	spin_unlock(&snapshots->lock);
	return ret;
}

/* How many seglets may a snapshot keep back now? */
static u32 lsmem_cut_most(const struct lsmem_store *store)
{
	u32 free = READ_ONCE(store->seglets.nr_free), below = READ_ONCE(store->space.throttle_below);

	return free > below ? (u64)(free - below) * READ_ONCE(store->snapshots.share) / 1000 : 0;
}

/*
 * A tiered store: wait until something was evicted, if memory is full, and until compactors rest, for limits/view_ms
 * each at most.  They rest until snapshots.waiting is cleared.  Returns 0 or -EINTR.
 */
static int lsmem_cut_wait(struct lsmem_store *store)
{
	u32 room = max(store->seglets.nr / LSMEM_SNAPSHOT_ROOM, 2 * LSMEM_SEGLETS);
	u32 most = (u64)room * READ_ONCE(store->snapshots.share) / 1000 / 2;
	unsigned long left = msecs_to_jiffies(READ_ONCE(store->views.view_ms));
	int ret;

	/* Not longer: what leaves memory while a snapshot needs it makes no room. */
	WRITE_ONCE(store->snapshots.room, room);
	wake_up_all(&store->plan.work);
	ret = wait_event_killable_timeout(store->space.wait, !lsmem_tier_over(store) ||
					  (lsmem_cut_most(store) >= most &&
					   !atomic_read(&store->space.stalled)), left);
	WRITE_ONCE(store->snapshots.room, 0);
	if (ret < 0)
		return -EINTR;
	smp_store_mb(store->snapshots.waiting, true);	/* pairs with lsmem_snapshots_moving() */
	return wait_event_killable_timeout(store->space.wait, !atomic_read(&store->snapshots.moving),
					   left) < 0 ? -EINTR : 0;
}

/**
 * lsmem_snapshot_cut - begin a snapshot
 * @frozen: new
 * @kept_max: most seglets to be kept back, 0: as many as the store allows
 * @time_ms: how long it may last, 0: as long as the store allows
 *
 * Context: sleeps; killable.
 * Return: 0; -ENOSPC: nothing may be kept back, or a writer waits for space; -ETIMEDOUT: the copy
 * took too long; -EREMCHG: the store is frozen; -EINTR.  After an error the caller ends the snapshot.
 */
int lsmem_snapshot_cut(struct lsmem_frozen *frozen, u32 kept_max, u32 time_ms)
{
	struct lsmem_store *store = frozen->store;
	struct lsmem_snapshots *snapshots = &store->snapshots;
	u32 ms = READ_ONCE(snapshots->time_ms), most;
	int ret;

	frozen->window->time_ms = time_ms ? min(time_ms, ms) : ms;
	if (mutex_lock_killable(&snapshots->cutting))
		return -EINTR;
	ret = lsmem_store_frozen(store) ? -EREMCHG : lsmem_cut_pace(snapshots);
	if (!ret && frozen->cold)
		ret = lsmem_cut_wait(store);
	most = lsmem_cut_most(store);
	if (!ret && !most)
		ret = -ENOSPC;
	frozen->window->kept_max = kept_max ? min(kept_max, most) : most;
	if (!ret && frozen->cold && mutex_lock_killable(&store->tier.fill))
		ret = -EINTR;
	if (!ret) {
		ret = lsmem_cut_make(frozen);
		if (frozen->cold)
			mutex_unlock(&store->tier.fill);
	}
	if (frozen->cold) {
		WRITE_ONCE(snapshots->waiting, false);
		wake_up_all(&store->plan.work);
	}
	mutex_unlock(&snapshots->cutting);
	if (ret)
		return ret;
	spin_lock(&snapshots->lock);
	if (frozen->stands)
		mod_delayed_work(lsmem_snapshot_works, &frozen->over,
				 msecs_to_jiffies(frozen->window->time_ms));
	spin_unlock(&snapshots->lock);
	return 0;
}

/* ---- Life ------------------------------------------------------------------ */

/* Allocate what a snapshot needs, charged to the caller. */
static int lsmem_frozen_alloc(struct lsmem_frozen *frozen)
{
	/* At the limit of the caller's cgroup the call fails; no task is killed for it. */
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;
	struct lsmem_store *store = frozen->store;
	size_t salts = PAGE_ALIGN((size_t)store->seglets.nr * sizeof(*frozen->salts));
	size_t trailers = store->tier.on ? PAGE_ALIGN(BITS_TO_LONGS(store->seglets.nr) * sizeof(long)) : 0;
	size_t cold = store->tier.on ? PAGE_ALIGN(BITS_TO_LONGS(store->handles.nr) * sizeof(long)) : 0;
	size_t first = PAGE_SIZE + salts + trailers + cold, bits = store->handles.livemap.bytes;
	struct lsmem_snapshot_page *window;

	frozen->bytes = first + bits + (store->tier.on ? bits : 0);
	window = __vmalloc(first, gfp | __GFP_ZERO);
	frozen->window = window;
	frozen->some = kvcalloc(BITS_TO_LONGS(store->seglets.nr), sizeof(long), gfp);
	frozen->kept = kvcalloc(BITS_TO_LONGS(store->seglets.nr), sizeof(long), gfp);
	frozen->until = kvcalloc(store->seglets.nr, sizeof(*frozen->until), gfp);
	if (!window || !frozen->some || !frozen->kept || !frozen->until)
		return -ENOMEM;
	/* Each byte of it is written before a reader can map it. */
	if (lsmem_livemap_copy_init(&frozen->copy, &store->handles.livemap, gfp))
		return -ENOMEM;
	if (store->tier.on) {
		frozen->some_late = kvcalloc(BITS_TO_LONGS(store->seglets.nr), sizeof(long), gfp);
		if (!frozen->some_late ||
		    lsmem_livemap_copy_init(&frozen->late, &store->handles.livemap, gfp | __GFP_ZERO))
			return -ENOMEM;
		frozen->trailers = (void *)window + PAGE_SIZE + salts;
		frozen->cold = (void *)frozen->trailers + trailers;
		window->trailers = (struct lsmem_window){ PAGE_SIZE + salts, trailers };
		window->cold = (struct lsmem_window){ PAGE_SIZE + salts + trailers, cold };
		window->late = (struct lsmem_window){ first + bits, bits };
	}
	frozen->salts = (void *)window + PAGE_SIZE;
	window->magic = LSMEM_SNAPSHOT_MAGIC;
	window->abi = LSMEM_ABI;
	window->length = sizeof(*window);
	window->nr_seglets = store->seglets.nr;
	window->salts = (struct lsmem_window){ PAGE_SIZE, salts };
	window->livemap = (struct lsmem_window){ first, bits };
	return 0;
}

static void lsmem_frozen_destroy(struct lsmem_frozen *frozen)
{
	lsmem_livemap_copy_destroy(&frozen->late);
	lsmem_livemap_copy_destroy(&frozen->copy);
	kvfree(frozen->some_late);
	kvfree(frozen->until);
	kvfree(frozen->kept);
	kvfree(frozen->some);
	vfree(frozen->window);
	kfree(frozen);
}

/*
 * Take one of the store's places for a snapshot.  The last one that is left is for a user that has none: so one user
 * alone cannot keep all others from exact scans.  Who may exceed limits may take it, too.
 */
static bool lsmem_frozen_place(struct lsmem_frozen *frozen)
{
	bool may = ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE), room;
	struct lsmem_snapshots *snapshots = &frozen->store->snapshots;
	u32 most = READ_ONCE(snapshots->most), own = 0;
	const struct lsmem_frozen *other;

	frozen->user = current_euid();
	spin_lock(&snapshots->lock);
	list_for_each_entry(other, &snapshots->places, place)
		own += uid_eq(other->user, frozen->user);
	room = snapshots->nr < most && (snapshots->nr + 1 < most || !own || may);
	if (room) {
		list_add_tail(&frozen->place, &snapshots->places);
		snapshots->nr++;
	}
	spin_unlock(&snapshots->lock);
	return room;
}

/* Give the place back; under snapshots.lock. */
static void lsmem_frozen_leave(struct lsmem_frozen *frozen)
{
	lockdep_assert_held(&frozen->store->snapshots.lock);
	list_del(&frozen->place);
	frozen->store->snapshots.nr--;
}

/**
 * lsmem_snapshot_new - prepare a snapshot
 * @store: active, object kind
 *
 * Context: sleeps.
 * Return: the snapshot, which keeps nothing back before its cut, or an ERR_PTR: -EBUSY: the store has
 * limits/snapshots_max, or one less and the caller's user has some of them; -ENOMEM.
 */
struct lsmem_frozen *lsmem_snapshot_new(struct lsmem_store *store)
{
	struct lsmem_snapshots *snapshots = &store->snapshots;
	struct lsmem_frozen *frozen;

	frozen = kzalloc(sizeof(*frozen), GFP_KERNEL_ACCOUNT);
	if (!frozen)
		return ERR_PTR(-ENOMEM);
	frozen->store = store;
	INIT_DELAYED_WORK(&frozen->over, lsmem_frozen_over);
	if (!lsmem_frozen_place(frozen)) {
		kfree(frozen);
		return ERR_PTR(-EBUSY);
	}
	if (lsmem_frozen_alloc(frozen)) {
		spin_lock(&snapshots->lock);
		lsmem_frozen_leave(frozen);
		spin_unlock(&snapshots->lock);
		lsmem_frozen_destroy(frozen);
		return ERR_PTR(-ENOMEM);
	}
	spin_lock(&snapshots->lock);
	list_add_tail_rcu(&frozen->node, &snapshots->list);
	WRITE_ONCE(store->handles.colds, store->handles.colds + !!frozen->cold);
	spin_unlock(&snapshots->lock);
	return frozen;
}

/**
 * lsmem_snapshot_end - end a snapshot, and free what it keeps back
 * @frozen: from lsmem_snapshot_new(); invalid afterwards
 *
 * Context: sleeps.
 */
void lsmem_snapshot_end(struct lsmem_frozen *frozen)
{
	struct lsmem_snapshots *snapshots = &frozen->store->snapshots;

	spin_lock(&snapshots->lock);
	frozen->stands = false;
	spin_unlock(&snapshots->lock);
	cancel_delayed_work_sync(&frozen->over);
	lsmem_frozen_free(frozen, U32_MAX);
	spin_lock(&snapshots->lock);
	list_del_rcu(&frozen->node);
	WRITE_ONCE(frozen->store->handles.colds, frozen->store->handles.colds - !!frozen->cold);
	lsmem_frozen_leave(frozen);
	spin_unlock(&snapshots->lock);
	if (frozen->cold)
		synchronize_rcu();	/* lsmem_word_late() */
	lsmem_frozen_destroy(frozen);
}

/**
 * lsmem_snapshots_setup - prepare a store for snapshots
 * @store: new
 */
void lsmem_snapshots_setup(struct lsmem_store *store)
{
	spin_lock_init(&store->snapshots.lock);
	INIT_LIST_HEAD(&store->snapshots.list);
	INIT_LIST_HEAD(&store->snapshots.places);
	mutex_init(&store->snapshots.cutting);
	store->snapshots.most = LSMEM_SNAPSHOTS_MAX;
	store->snapshots.time_ms = LSMEM_SNAPSHOT_MS;
	store->snapshots.share = LSMEM_SNAPSHOT_SHARE;
}

/**
 * lsmem_snapshots_init - make what snapshots of all stores share
 * Context: sleeps.  Return: 0 or -ENOMEM.
 */
int lsmem_snapshots_init(void)
{
	/* Writers may wait for what it frees. */
	lsmem_snapshot_works = alloc_workqueue("lsmem_snapshots", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return lsmem_snapshot_works ? 0 : -ENOMEM;
}

/**
 * lsmem_snapshots_exit - undo lsmem_snapshots_init(); no snapshot is left
 */
void lsmem_snapshots_exit(void)
{
	destroy_workqueue(lsmem_snapshot_works);
}
