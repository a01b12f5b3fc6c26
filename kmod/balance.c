// SPDX-License-Identifier: GPL-2.0
/*
 * Balance: which level makes room, and from which segments.
 *
 * Compaction (compact.c) moves the live entries of one segment to fewer seglets: it
 * needs no I/O, but frees no segment.  Cleaning (clean.c) merges the live entries of
 * several segments and frees these, on the backup too.  This file scans the table of
 * segments, asks policy.c which level is due, and plans the next victims of compaction.
 * Compactors take victims from the plan.  Cleaning is started by the cleaner or, in a
 * durable store, by the daemon, which reads the level and chooses the victims.
 *
 * The scan takes no lock and reads each number by itself: the thread that takes a victim
 * checks it again under segments.lock.
 *
 * Lock: plan.mutex for the candidates, the plan and the level.
 */
#include <linux/slab.h>

#include "balance.h"
#include "log.h"
#include "segment.h"
#include "store.h"
#include "trace.h"

/* Live bytes that a survivor holds in the worst case: tiny entries, with 24 bytes of
 * directory for each 32, and a large one that did not fit at its end.
 */
#define LSMEM_SURVIVOR_LIVE(bytes)	(((bytes) - LSMEM_OBJECT_MAX - LSMEM_SEGLET_BYTES) / 7 * 4)

/**
 * lsmem_balance_init - allocate the plan, and set the defaults of the policy
 * @store: has segments
 * Return: 0 or -ENOMEM.
 */
int lsmem_balance_init(struct lsmem_store *store)
{
	store->plan.limits = (struct lsmem_policy_limits){
		.free_low = LSMEM_FREE_LOW_DEFAULT,
		.utilization_max = LSMEM_UTILIZATION_DEFAULT,
		.tombstones_max = LSMEM_TOMBSTONES_MAX_DEFAULT,
		.balancer = LSMEM_BALANCER_ADAPTIVE,
		.fixed_clean = LSMEM_FIXED_CLEAN_DEFAULT,
		.tombstone_ratio = LSMEM_TOMBSTONES_DEFAULT,
		.clean_price = store->durable ? LSMEM_CLEAN_PRICE_DURABLE :
						LSMEM_CLEAN_PRICE_VOLATILE,
	};
	store->seglets.base = LSMEM_CLEANER_RESERVE;
	store->seglets.reserve = LSMEM_CLEANER_RESERVE;
	mutex_init(&store->plan.mutex);
	lsmem_balance_tune(store);
	store->plan.candidates = kvcalloc(store->segments.nr_all, sizeof(*store->plan.candidates),
					  store->seglets.gfp);
	return store->plan.candidates ? 0 : -ENOMEM;
}

/**
 * lsmem_balance_destroy - undo lsmem_balance_init()
 * @store: initialised, in part or whole
 */
void lsmem_balance_destroy(struct lsmem_store *store)
{
	kvfree(store->plan.candidates);
}

/**
 * lsmem_balance_tune - apply a changed limit
 * @store: the store
 */
void lsmem_balance_tune(struct lsmem_store *store)
{
	u64 low = (u64)store->seglets.nr * READ_ONCE(store->plan.limits.free_low) / 1000;

	WRITE_ONCE(store->space.throttle_below, store->seglets.base + low / 2);
	WRITE_ONCE(store->space.clean_below, store->seglets.base + low);
}

/* Segments in the log, without those that wait to be retired. */
static u32 lsmem_segments_used(const struct lsmem_store *store)
{
	u32 leaving = READ_ONCE(store->retires.segments), used = READ_ONCE(store->segments.nr_log);

	return used > leaving ? used - leaving : 0;
}

/* Are few segments left, whether or not memory is low? */
static bool lsmem_segments_few(const struct lsmem_store *store)
{
	return lsmem_segments_short(store) ||
	       (u64)lsmem_segments_used(store) * 1000 >= (u64)READ_ONCE(store->segments.limit) * LSMEM_BACKUP_HIGH;
}

/**
 * lsmem_memory_low - are few seglets free?
 * @store: the store
 *
 * Vacated seglets, which only wait for readers, count as free.
 */
bool lsmem_memory_low(struct lsmem_store *store)
{
	u32 below = READ_ONCE(store->space.clean_below);
	bool over = lsmem_tier_over(store);

	/*
	 * Survivors of what is cold need memory: evict for them before a pass begins, and while it waits
	 * for a backup what it has claimed is not there for readers.
	 */
	if (over && lsmem_segments_few(store))
		below += min(LSMEM_PASS_SEGLETS, store->seglets.nr / 4);
	else if (over)
		below += READ_ONCE(store->seglets.reserve) - store->seglets.base;
	/* A full memory has no seglets for a snapshot to keep back; to evict for it costs no I/O. */
	if (over)
		below += READ_ONCE(store->snapshots.room);
	return READ_ONCE(store->seglets.nr_free) + READ_ONCE(store->compaction.vacating) < below;
}

/**
 * lsmem_level - the level that is to make room
 * @store: the store
 * Return: LSMEM_LEVEL_*.
 */
u32 lsmem_level(const struct lsmem_store *store)
{
	return READ_ONCE(store->segments.shown->level);
}

/**
 * lsmem_clean_underway - is a pass under way?
 * @store: the store
 */
bool lsmem_clean_underway(const struct lsmem_store *store)
{
	return READ_ONCE(store->segments.shown->begun) != READ_ONCE(store->segments.shown->ended);
}

/**
 * lsmem_clean_possible - can victims be retired?
 * @store: the store
 *
 * Return: true if the store is volatile, or it is not frozen, and a daemon is attached and is not about to end.
 */
bool lsmem_clean_possible(const struct lsmem_store *store)
{
	return !store->durable ||
	       (READ_ONCE(store->repl.attached) && !READ_ONCE(store->cleaner.last) && !lsmem_store_frozen(store));
}

/**
 * lsmem_clean_fits - live bytes that survivors hold in the worst case
 * @store: the store
 * @seglets: that they get
 * @segments: that they get
 * Return: bytes.
 */
u64 lsmem_clean_fits(const struct lsmem_store *store, u32 seglets, u32 segments)
{
	/* The ends of the survivors' last seglets, and commit records, hold no live bytes. */
	u64 room = seglets > LSMEM_PASS_SLACK ? seglets - LSMEM_PASS_SLACK : 0;

	return min(room * LSMEM_SEGLET_BYTES, (u64)segments * LSMEM_SURVIVOR_LIVE(READ_ONCE(store->segments.bytes)));
}

/**
 * lsmem_clean_room - live bytes that the survivors of a pass could hold now
 * @store: the store
 * Return: bytes.
 */
u64 lsmem_clean_room(const struct lsmem_store *store)
{
	return lsmem_clean_fits(store, lsmem_seglets_claimable(&store->seglets, LSMEM_PASS_SEGLETS),
				lsmem_segments_claimable(store));
}

/**
 * lsmem_balance_due - may a level have to make room?
 * @store: the store
 */
bool lsmem_balance_due(struct lsmem_store *store)
{
	return lsmem_memory_low(store) || lsmem_segments_few(store) ||
	       atomic_read(&store->plan.compact_asked) || atomic_read(&store->plan.clean_asked);
}

/**
 * lsmem_balance_limit - how full a victim may be
 * @store: the store
 *
 * Return: per mille; see lsmem_policy_select_by().
 */
u32 lsmem_balance_limit(const struct lsmem_store *store)
{
	if (atomic_read(&store->space.stalled) || atomic_read(&store->plan.compact_asked) ||
	    atomic_read(&store->plan.clean_asked))
		return LSMEM_UTILIZATION_FORCED;
	return READ_ONCE(store->plan.limits.utilization_max);
}

/* As lsmem_balance_limit(), of compaction: beyond it objects leave memory instead (evict.c). */
static u32 lsmem_compact_limit(struct lsmem_store *store)
{
	if (lsmem_tier_over(store) && !atomic_read(&store->plan.compact_asked))
		return LSMEM_EVICT_COST * 1000 / (LSMEM_EVICT_COST + 1000);
	return lsmem_balance_limit(store);
}

/* ---- Scanning the table ------------------------------------------------- */

/* What the scan finds. */
struct lsmem_scan {
	u64 oldest;		/* lowest id of a segment with entries ... */
	u64 second;		/* ... and the second lowest; ~0: none */
	bool stuck;		/* the oldest is damaged: tombstones wait for ever */
	u64 tombstones;
};

static void lsmem_scan_begin(struct lsmem_store *store, struct lsmem_scan *scan)
{
	const struct lsmem_segment *seg;

	*scan = (struct lsmem_scan){ .oldest = ~0ull, .second = ~0ull };
	spin_lock(&store->segments.lock);
	list_for_each_entry(seg, &store->segments.log, node) {
		if (!READ_ONCE(seg->reserved) && !seg->home)
			continue;
		if (scan->oldest != ~0ull) {
			scan->second = seg->id;
			break;
		}
		scan->oldest = seg->id;
		scan->stuck = READ_ONCE(seg->damaged);
	}
	spin_unlock(&store->segments.lock);
}

/*
 * Fill store->plan.candidates with the segments that @level can work on.  The gain of
 * compaction is counted in whole seglets, that of cleaning in seglets or, if few segments
 * are left or eviction makes memory, in segments.
 */
static u32 lsmem_scan(struct lsmem_store *store, struct lsmem_scan *scan, bool compact)
{
	u32 nr = 0, index, all = compact ? store->segments.nr_all : store->segments.nr;
	bool by_segments = store->plan.by_segments || lsmem_tier_over(store);
	u64 now = lsmem_store_time(store);

	lockdep_assert_held(&store->plan.mutex);
	lsmem_scan_begin(store, scan);
	for (index = 0; index < all; index++) {
		const struct lsmem_segment_stat *stat = store->segments.table[index].stat;
		u64 id = READ_ONCE(stat->id), since = READ_ONCE(stat->opened), wait = scan->oldest;
		u32 live, tombstones, held = READ_ONCE(stat->held);

		if (!id)
			continue;
		tombstones = READ_ONCE(stat->tombstones);
		scan->tombstones += tombstones;
		if (!(READ_ONCE(stat->flags) & LSMEM_SEGMENT_CLEANABLE))
			continue;
		live = READ_ONCE(stat->live);
		if (!compact && id == scan->oldest)
			wait = scan->second;	/* it would not hold its own tombstones any more */
		if (READ_ONCE(stat->barrier) <= wait)
			live -= min(live, tombstones);	/* they can be dropped */
		if (compact) {
			since = READ_ONCE(store->segments.table[index].packed_time);
			live = lsmem_packed_seglets(live) * LSMEM_SEGLET_BYTES;
		} else {
			live += READ_ONCE(stat->cold);
			if (by_segments)
				held = LSMEM_SEGMENT_BYTES;
		}
		store->plan.candidates[nr++] = (struct lsmem_candidate){
			.id = id,
			.held = held,
			.live = min(live, held),
			.age = now > since ? (now - since) >> 10 : 0,
			.cookie = index,
		};
	}
	if (scan->stuck)
		scan->tombstones = 0;
	return nr;
}

/**
 * lsmem_balance_cleanable - list the segments that can be cleaned
 * @store: plan.mutex held
 * Return: how many are in store->plan.candidates.
 */
u32 lsmem_balance_cleanable(struct lsmem_store *store)
{
	struct lsmem_scan scan;

	return lsmem_scan(store, &scan, false);
}

/* ---- Deciding ----------------------------------------------------------- */

/* Plan the first of the @chosen victims. Their cost goes to @balance. */
static void lsmem_balance_plan(struct lsmem_store *store, u32 nr, u32 chosen,
			       struct lsmem_balance *balance)
{
	u64 held = 0, packed = 0, live = 0;
	u32 i;

	store->plan.nr = min_t(u32, chosen, LSMEM_PLANNED);
	for (i = 0; i < store->plan.nr; i++) {
		const struct lsmem_candidate *c = &store->plan.candidates[nr - 1 - i];

		store->plan.indices[store->plan.nr - 1 - i] = c->cookie;
		held += c->held;
		packed += c->live;
		live += min_t(u32, c->held, atomic_read(store->segments.table[c->cookie].live));
	}
	balance->compact_cost = lsmem_policy_cost(packed, held);
	balance->clean_cost = lsmem_policy_cost(live, held);
}

/*
 * Writers wait: close heads that hold more garbage than the best victim, so that they can
 * become victims.  @gain: garbage of the best victim, bytes.
 */
static void lsmem_balance_roll(struct lsmem_store *store, u32 gain)
{
	u32 least = max_t(u32, gain, LSMEM_SEGLET_BYTES);
	unsigned int i = LSMEM_CLEANER_HEAD;

	/* A pass has claimed the segments that it needs; its head is one of them. */
	if (lsmem_clean_underway(store))
		i++;
	for (; i < store->heads.nr; i++) {
		struct lsmem_head *head = &store->heads.table[i];
		u32 garbage;

		spin_lock(&head->lock);
		garbage = head->segment ?
			  head->segment->reserved - atomic_read(head->segment->live) : 0;
		spin_unlock(&head->lock);
		if (garbage >= least && !lsmem_head_roll(store, i))
			lsmem_count(store, forced_rolls, 1);
	}
}

/* Apply the constraints that the policy cannot see. */
static u32 lsmem_balance_possible(struct lsmem_store *store, u32 level, bool oldest_first, int asked)
{
	bool compact = store->plan.nr;

	if (atomic_read(&store->plan.clean_asked))
		level = LSMEM_LEVEL_CLEAN;
	else if (atomic_read(&store->plan.compact_asked) && compact)
		level = LSMEM_LEVEL_COMPACT;
	if (!compact)	/* no victim is left: what was asked for is done */
		atomic_cmpxchg(&store->plan.compact_asked, asked, 0);
	if (level != LSMEM_LEVEL_CLEAN)
		return level;
	/* Eviction makes memory; cleaning only makes room on the backups. */
	if (lsmem_tier_over(store) && !store->plan.by_segments && !oldest_first &&
	    !atomic_read(&store->plan.clean_asked))
		return LSMEM_LEVEL_COMPACT;
	/* A pass has just gained nothing, or no daemon would acknowledge it: try compaction. */
	if ((store->cleaner.barren || !lsmem_clean_possible(store)) && compact &&
	    lsmem_memory_low(store))
		return LSMEM_LEVEL_COMPACT;
	if (!lsmem_clean_possible(store))
		return LSMEM_LEVEL_NONE;
	return level;
}

static void lsmem_balance_show(struct lsmem_store *store, u32 level, bool oldest_first)
{
	struct lsmem_cleaning *cleaning = store->segments.shown;
	bool changed = level != cleaning->level;

	WRITE_ONCE(cleaning->urgent, atomic_read(&store->space.stalled) ? 1 : 0);
	WRITE_ONCE(cleaning->rule, LSMEM_RULE_DEFAULT);
	WRITE_ONCE(cleaning->oldest_first, oldest_first);
	WRITE_ONCE(cleaning->utilization_max, lsmem_balance_limit(store));
	WRITE_ONCE(cleaning->room, lsmem_clean_room(store));
	WRITE_ONCE(cleaning->store_time, lsmem_store_time(store));
	WRITE_ONCE(cleaning->by_backup, lsmem_tier_over(store));
	smp_store_release(&cleaning->level, level);	/* the daemon reads it first */
	if (!changed)
		return;
	wake_up_all(&store->plan.work);
	if (store->durable)
		wake_up(&store->repl.events);
}

/**
 * lsmem_balance - choose the level and plan the victims again
 * @store: active
 */
void lsmem_balance(struct lsmem_store *store)
{
	struct lsmem_balance balance = {
		.memory_low = lsmem_memory_low(store),
		.segments_max = READ_ONCE(store->segments.limit),
		.bytes = (u64)store->seglets.nr * LSMEM_SEGLET_BYTES,
		.live = store->tier.on ? lsmem_resident_bytes(store) :
					 percpu_counter_read_positive(&store->live),
		.clean_ns = READ_ONCE(store->cleaner.stats.clean_ns),
	};
	int asked = atomic_read(&store->plan.compact_asked);
	struct lsmem_counters sum;
	u32 nr, chosen = 0, level;
	struct lsmem_scan scan;
	bool oldest_first;

	lsmem_store_counters(store, &sum);
	balance.compact_ns = sum.compact_ns;
	mutex_lock(&store->plan.mutex);
	nr = lsmem_scan(store, &scan, true);
	if (READ_ONCE(store->compaction.nr_compactors))
		chosen = lsmem_policy_select(store->plan.candidates, nr, ~0ull,
					     lsmem_compact_limit(store), 0);
	lsmem_balance_plan(store, nr, chosen, &balance);
	if (atomic_read(&store->space.stalled))
		lsmem_balance_roll(store, chosen ? store->plan.candidates[nr - 1].held -
						   store->plan.candidates[nr - 1].live : 0);
	balance.tombstones = scan.tombstones;
	balance.segments_used = lsmem_segments_used(store);
	store->plan.by_segments = lsmem_segments_few(store);
	if (lsmem_segments_short(store))
		balance.segments_used = balance.segments_max;
	level = lsmem_policy_level(&store->plan.limits, &balance);
	oldest_first = scan.tombstones * 1000 >
		       balance.bytes * READ_ONCE(store->plan.limits.tombstones_max);
	level = lsmem_balance_possible(store, level, oldest_first, asked);
	if (level == LSMEM_LEVEL_NONE)
		store->plan.nr = 0;
	lsmem_balance_show(store, level, oldest_first);
	mutex_unlock(&store->plan.mutex);
	trace_lsmem_balance(store->name, level, store->seglets.nr_free, &balance);
}

/* May planned victims be compacted? Also while a pass is under way. */
static bool lsmem_compaction_on(const struct lsmem_store *store)
{
	return lsmem_level(store) == LSMEM_LEVEL_COMPACT ||
	       lsmem_clean_underway(store);
}

/**
 * lsmem_balance_next - the next victim of compaction
 * @store: active
 *
 * Return: a segment, now COMPACTING and owned by the caller, or NULL.
 */
struct lsmem_segment *lsmem_balance_next(struct lsmem_store *store)
{
	struct lsmem_segment *found = NULL;

	/* Cleaning may be due and not happen, for example because the daemon has gone. */
	if (!READ_ONCE(store->plan.nr) || !lsmem_compaction_on(store))
		lsmem_balance(store);
	mutex_lock(&store->plan.mutex);
	if (lsmem_compaction_on(store)) {
		spin_lock(&store->segments.lock);
		while (!found && store->plan.nr) {
			struct lsmem_segment *seg =
				&store->segments.table[store->plan.indices[--store->plan.nr]];

			if (!(seg->stat->flags & LSMEM_SEGMENT_CLEANABLE) ||
			    lsmem_packed_seglets(atomic_read(seg->live)) >= seg->nr_seglets)
				continue;
			seg->state = LSMEM_SEGMENT_COMPACTING;
			lsmem_segment_show(seg);
			found = seg;
		}
		spin_unlock(&store->segments.lock);
	}
	mutex_unlock(&store->plan.mutex);
	return found;
}
