// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/class/lsmem/<store>/: one value per file, except four histograms and node_bytes, which
 * are arrays of numbers.  All files are described in Documentation/ABI/testing/sysfs-class-lsmem.
 *
 *	(top)		geometry and use of the store
 *	limits/		bounds of waits, writable
 *	cleaner/	limits of the policy, and statistics of cleaning
 *	stats/		statistics of writers
 *	tier/		of a tiered store: what is in memory, and statistics of fetching
 *	pages/		of an object store: ranges of pages that are open, and statistics of all
 *
 * The files are attribute groups of the device, so they exist before udev sees the device.
 * Values are read without locks: each is consistent by itself, two of them may be of
 * different moments.
 *
 * Locks: lsmem_limits_lock, for values derived from a limit; innermost.  lsmem_stores_lock, for
 * given_name; never held while the device is removed.  Never store->mutex, which is held while
 * the device, and with it these files, is removed.
 */
#include <linux/device.h>
#include <linux/kstrtox.h>
#include <linux/math64.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/sysfs.h>

#include "balance.h"
#include "pagefs.h"
#include "registry.h"
#include "store.h"
#include "sysfs.h"

#define LSMEM_REQUEST_MAX	1000000	/* segments */

static DEFINE_MUTEX(lsmem_limits_lock);

static struct lsmem_store *lsmem_dev_store(struct device *dev)
{
	return container_of(dev, struct lsmem_store, dev);
}

static struct lsmem_counters lsmem_sum(struct lsmem_store *store)
{
	struct lsmem_counters sum;

	lsmem_store_counters(store, &sum);
	return sum;
}

/* A file that shows @value of the store. */
#define LSMEM_ATTR(name, format, value)							\
static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf) \
{											\
	struct lsmem_store *store = lsmem_dev_store(dev);				\
											\
	return sysfs_emit(buf, format "\n", value);					\
}											\
static DEVICE_ATTR_RO(name)

/* ---- Geometry and use --------------------------------------------------- */

static const char *lsmem_state_name(u32 state)
{
	switch (state) {
	case LSMEM_STATE_NEW:
		return "new";
	case LSMEM_STATE_RECOVERING:
		return "recovering";
	case LSMEM_STATE_ACTIVE:
		return "active";
	default:
		return "dying";
	}
}

LSMEM_ATTR(kind, "%s", store->kind == LSMEM_KIND_BLOCK ? "block" : "object");
LSMEM_ATTR(durability, "%s", store->durable ? "durable" : "volatile");
LSMEM_ATTR(state, "%s", lsmem_state_name(READ_ONCE(store->state)));
LSMEM_ATTR(attached, "%d", READ_ONCE(store->repl.attached) ? 1 : 0);
LSMEM_ATTR(frozen, "%d", lsmem_store_frozen(store) ? 1 : 0);
LSMEM_ATTR(uuid, "%pUb", store->uuid);

static ssize_t given_name_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	char name[LSMEM_GIVEN_BYTES];

	lsmem_store_given(lsmem_dev_store(dev), name);
	return sysfs_emit(buf, "%s\n", name);
}

static ssize_t given_name_store(struct device *dev, struct device_attribute *attr,
				const char *buf, size_t count)
{
	size_t length = count && buf[count - 1] == '\n' ? count - 1 : count;
	int ret = lsmem_store_give(lsmem_dev_store(dev), buf, length);

	return ret ?: count;
}
static DEVICE_ATTR_RW(given_name);

LSMEM_ATTR(charged, "%d", store->charged);
LSMEM_ATTR(size_bytes, "%llu", store->bytes);

/* In the format of numa_maps, in bytes; nodes without memory of the store are left out. */
static ssize_t node_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct lsmem_seglets *seglets = &lsmem_dev_store(dev)->seglets;
	ssize_t length = 0;
	int node;

	for (node = 0; node < nr_node_ids; node++)
		if (seglets->on_node[node])
			length += sysfs_emit_at(buf, length, "%sN%d=%llu", length ? " " : "", node,
						(u64)seglets->on_node[node] * LSMEM_SEGLET_BYTES);
	return length + sysfs_emit_at(buf, length, "\n");
}
static DEVICE_ATTR_RO(node_bytes);

LSMEM_ATTR(capacity_bytes, "%llu", store->capacity);
LSMEM_ATTR(live_bytes, "%lld", percpu_counter_sum_positive(&store->live));
LSMEM_ATTR(seglets, "%u", store->seglets.nr);
LSMEM_ATTR(free_seglets, "%u", READ_ONCE(store->seglets.nr_free));
LSMEM_ATTR(reserved_seglets, "%u", READ_ONCE(store->seglets.reserve));
LSMEM_ATTR(handles_max, "%llu", store->handles.common);
LSMEM_ATTR(handles_used, "%lld", percpu_counter_sum_positive(&store->handles.used));
LSMEM_ATTR(segments, "%u", READ_ONCE(store->segments.nr_log));
LSMEM_ATTR(segments_max, "%u", store->segments.nr);
LSMEM_ATTR(segments_limit, "%u", READ_ONCE(store->segments.limit));
LSMEM_ATTR(segment_bytes, "%u", READ_ONCE(store->segments.bytes));
LSMEM_ATTR(spares, "%u", READ_ONCE(store->segments.nr_spares));
LSMEM_ATTR(era, "%u", READ_ONCE(store->handles.era));
LSMEM_ATTR(generation, "%u", READ_ONCE(store->handles.max));

static struct attribute *lsmem_store_attrs[] = {
	&dev_attr_kind.attr,
	&dev_attr_durability.attr,
	&dev_attr_state.attr,
	&dev_attr_attached.attr,
	&dev_attr_frozen.attr,
	&dev_attr_uuid.attr,
	&dev_attr_given_name.attr,
	&dev_attr_charged.attr,
	&dev_attr_node_bytes.attr,
	&dev_attr_size_bytes.attr,
	&dev_attr_capacity_bytes.attr,
	&dev_attr_live_bytes.attr,
	&dev_attr_seglets.attr,
	&dev_attr_free_seglets.attr,
	&dev_attr_reserved_seglets.attr,
	&dev_attr_handles_max.attr,
	&dev_attr_handles_used.attr,
	&dev_attr_segments.attr,
	&dev_attr_segments_max.attr,
	&dev_attr_segments_limit.attr,
	&dev_attr_segment_bytes.attr,
	&dev_attr_spares.attr,
	&dev_attr_era.attr,
	&dev_attr_generation.attr,
	NULL,
};

static const struct attribute_group lsmem_store_group = {
	.attrs = lsmem_store_attrs,
};

/* ---- Limits: writable numbers ------------------------------------------- */

/**
 * struct lsmem_limit - a file for a u32 of struct lsmem_store
 * @attr: the file
 * @offset: of the number in struct lsmem_store
 * @min: lowest value
 * @max: highest value
 */
struct lsmem_limit {
	struct device_attribute attr;
	size_t offset;
	u32 min;
	u32 max;
};

static u32 *lsmem_limit_value(struct device *dev, const struct lsmem_limit *limit)
{
	return (void *)lsmem_dev_store(dev) + limit->offset;
}

static ssize_t lsmem_limit_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct lsmem_limit *limit = container_of(attr, struct lsmem_limit, attr);

	return sysfs_emit(buf, "%u\n", READ_ONCE(*lsmem_limit_value(dev, limit)));
}

static ssize_t lsmem_limit_store(struct device *dev, struct device_attribute *attr,
				 const char *buf, size_t count)
{
	const struct lsmem_limit *limit = container_of(attr, struct lsmem_limit, attr);
	struct lsmem_store *store = lsmem_dev_store(dev);
	u32 value;
	int ret;

	ret = kstrtou32(buf, 0, &value);
	if (ret)
		return ret;
	if (value < limit->min || value > limit->max)
		return -ERANGE;
	mutex_lock(&lsmem_limits_lock);
	WRITE_ONCE(*lsmem_limit_value(dev, limit), value);
	WRITE_ONCE(store->views.info->view_ms, store->views.view_ms);	/* clients read it there */
	lsmem_balance_tune(store);
	mutex_unlock(&lsmem_limits_lock);
	wake_up_all(&store->plan.work);	/* the new limit may call for work, or for more threads */
	return count;
}

#define LSMEM_LIMIT(name, field, low, high)						\
static struct lsmem_limit lsmem_limit_##name = {					\
	.attr = __ATTR(name, 0644, lsmem_limit_show, lsmem_limit_store),		\
	.offset = offsetof(struct lsmem_store, field),					\
	.min = (low),									\
	.max = (high),									\
}

#define LSMEM_WAIT_MS_MIN	100
#define LSMEM_WAIT_MS_MAX	(60 * 60 * MSEC_PER_SEC)

LSMEM_LIMIT(view_ms, views.view_ms, 10, 60 * MSEC_PER_SEC);
LSMEM_LIMIT(durable_ms, repl.durable_ms, LSMEM_WAIT_MS_MIN, LSMEM_WAIT_MS_MAX);
LSMEM_LIMIT(flush_ms, repl.flush_ms, LSMEM_WAIT_MS_MIN, LSMEM_WAIT_MS_MAX);
LSMEM_LIMIT(stall_ms, space.stall_ms, LSMEM_WAIT_MS_MIN, LSMEM_WAIT_MS_MAX);
LSMEM_LIMIT(clients_max, views.clients_max, 1, 65536);
LSMEM_LIMIT(fetch_ms, fetches.fetch_ms, LSMEM_WAIT_MS_MIN, LSMEM_WAIT_MS_MAX);
LSMEM_LIMIT(snapshots_max, snapshots.most, 0, 16);
LSMEM_LIMIT(snapshot_ms, snapshots.time_ms, 10, LSMEM_WAIT_MS_MAX);
LSMEM_LIMIT(snapshot_kept, snapshots.share, 1, 1000);

static struct attribute *lsmem_limits_attrs[] = {
	&lsmem_limit_view_ms.attr.attr,
	&lsmem_limit_durable_ms.attr.attr,
	&lsmem_limit_flush_ms.attr.attr,
	&lsmem_limit_stall_ms.attr.attr,
	&lsmem_limit_clients_max.attr.attr,
	&lsmem_limit_fetch_ms.attr.attr,
	&lsmem_limit_snapshots_max.attr.attr,
	&lsmem_limit_snapshot_ms.attr.attr,
	&lsmem_limit_snapshot_kept.attr.attr,
	NULL,
};

static const struct attribute_group lsmem_limits_group = {
	.name = "limits",
	.attrs = lsmem_limits_attrs,
};

/* ---- The cleaner -------------------------------------------------------- */

/* Bytes written per 1000 bytes that users wrote; 0 before they have written any. */
static u64 lsmem_write_cost(struct lsmem_store *store)
{
	struct lsmem_counters sum = lsmem_sum(store);
	u64 copied = READ_ONCE(store->cleaner.stats.relocated_bytes) + sum.compacted_bytes;

	if (!sum.appended_bytes)
		return 0;
	return 1000 + mul_u64_u64_div_u64(copied, 1000, sum.appended_bytes);
}

static const char * const lsmem_balancers[] = {
	[LSMEM_BALANCER_ADAPTIVE] = "adaptive",
	[LSMEM_BALANCER_TOMBSTONES] = "tombstone-ratio",
	[LSMEM_BALANCER_FIXED] = "fixed",
};

static const char * const lsmem_levels[] = {
	[LSMEM_LEVEL_NONE] = "none",
	[LSMEM_LEVEL_COMPACT] = "compact",
	[LSMEM_LEVEL_CLEAN] = "clean",
};

static const char * const lsmem_orders[] = {
	[LSMEM_SURVIVORS_COLDNESS] = "coldness",
	[LSMEM_SURVIVORS_AGE] = "age",
};

/* A file that shows all @names, with the chosen one in brackets, and takes one of them. */
#define LSMEM_CHOICE(name, field, names)						\
static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf) \
{											\
	u32 chosen = READ_ONCE(lsmem_dev_store(dev)->plan.limits.field), i;		\
	ssize_t length = 0;								\
											\
	for (i = 0; i < ARRAY_SIZE(names); i++)						\
		length += sysfs_emit_at(buf, length, i == chosen ? "%s[%s]" : "%s%s",	\
					i ? " " : "", names[i]);			\
	return length + sysfs_emit_at(buf, length, "\n");				\
}											\
											\
static ssize_t name##_store(struct device *dev, struct device_attribute *attr,		\
			    const char *buf, size_t count)				\
{											\
	int which = sysfs_match_string(names, buf);					\
											\
	if (which < 0)									\
		return which;								\
	WRITE_ONCE(lsmem_dev_store(dev)->plan.limits.field, which);			\
	return count;									\
}											\
static DEVICE_ATTR_RW(name)

LSMEM_CHOICE(balancer, balancer, lsmem_balancers);
LSMEM_CHOICE(survivors, survivors, lsmem_orders);

/* Write: work on so many segments, whatever the policy says. Read: how many are left. */
static ssize_t lsmem_request(struct lsmem_store *store, atomic_t *asked, bool possible,
			     const char *buf, size_t count)
{
	u32 nr;
	int ret;

	ret = kstrtou32(buf, 0, &nr);
	if (ret)
		return ret;
	if (!nr || nr > LSMEM_REQUEST_MAX)
		return -ERANGE;
	if (!lsmem_store_active(store) || !possible)
		return -EAGAIN;
	atomic_set(asked, nr);
	wake_up_all(&store->plan.work);
	return count;
}

static ssize_t request_compact_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&lsmem_dev_store(dev)->plan.compact_asked));
}

static ssize_t request_compact_store(struct device *dev, struct device_attribute *attr,
				     const char *buf, size_t count)
{
	struct lsmem_store *store = lsmem_dev_store(dev);

	return lsmem_request(store, &store->plan.compact_asked, true, buf, count);
}
static DEVICE_ATTR_RW(request_compact);

static ssize_t request_clean_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&lsmem_dev_store(dev)->plan.clean_asked));
}

static ssize_t request_clean_store(struct device *dev, struct device_attribute *attr,
				   const char *buf, size_t count)
{
	struct lsmem_store *store = lsmem_dev_store(dev);

	return lsmem_request(store, &store->plan.clean_asked, lsmem_clean_possible(store), buf,
			     count);
}
static DEVICE_ATTR_RW(request_clean);

/* Histogram of closed segments by the live share of what they hold, or take on a backup. */
static ssize_t lsmem_tenths(struct device *dev, char *buf, bool backup)
{
	struct lsmem_store *store = lsmem_dev_store(dev);
	u32 tenths[10] = { 0 }, index, i;
	ssize_t length = 0;

	for (index = 0; index < store->segments.nr; index++) {
		const struct lsmem_segment_stat *stat = store->segments.table[index].stat;
		u32 held = backup ? LSMEM_SEGMENT_BYTES : READ_ONCE(stat->held);

		u32 live = READ_ONCE(stat->live) + (backup ? READ_ONCE(stat->cold) : 0);

		if (READ_ONCE(stat->flags) & LSMEM_SEGMENT_CLEANABLE)
			tenths[held ? min(9u, live / DIV_ROUND_UP(held, 10)) : 0]++;
	}
	for (i = 0; i < ARRAY_SIZE(tenths); i++)
		length += sysfs_emit_at(buf, length, i ? " %u" : "%u", tenths[i]);
	return length + sysfs_emit_at(buf, length, "\n");
}

static ssize_t segments_by_memory_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return lsmem_tenths(dev, buf, false);
}
static DEVICE_ATTR_RO(segments_by_memory);

static ssize_t segments_by_backup_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return lsmem_tenths(dev, buf, true);
}
static DEVICE_ATTR_RO(segments_by_backup);

LSMEM_LIMIT(free_low, plan.limits.free_low, 1, 500);
LSMEM_LIMIT(utilization_max, plan.limits.utilization_max, 500, 1000);
LSMEM_LIMIT(tombstones_max, plan.limits.tombstones_max, 1, 500);
LSMEM_LIMIT(fixed_clean, plan.limits.fixed_clean, 0, 1000);
LSMEM_LIMIT(tombstone_ratio, plan.limits.tombstone_ratio, 1, 1000);
LSMEM_LIMIT(clean_price, plan.limits.clean_price, 0, 100000);
LSMEM_LIMIT(nr_compactors, compaction.nr_compactors, 0, LSMEM_COMPACTORS);
LSMEM_ATTR(level, "%s", lsmem_levels[lsmem_level(store)]);
LSMEM_ATTR(compactions, "%llu", lsmem_sum(store).compactions);
LSMEM_ATTR(compacted_bytes, "%llu", lsmem_sum(store).compacted_bytes);
LSMEM_ATTR(compact_freed_bytes, "%llu", lsmem_sum(store).compact_freed_bytes);
LSMEM_ATTR(compact_ns, "%llu", lsmem_sum(store).compact_ns);
LSMEM_ATTR(passes, "%llu", READ_ONCE(store->cleaner.stats.passes));
LSMEM_ATTR(segments_cleaned, "%llu", READ_ONCE(store->cleaner.stats.segments_cleaned));
LSMEM_ATTR(relocated_bytes, "%llu", READ_ONCE(store->cleaner.stats.relocated_bytes));
LSMEM_ATTR(relocated_entries, "%llu", READ_ONCE(store->cleaner.stats.relocated_entries));
LSMEM_ATTR(freed_bytes, "%llu", READ_ONCE(store->cleaner.stats.freed_bytes));
LSMEM_ATTR(clean_ns, "%llu", READ_ONCE(store->cleaner.stats.clean_ns));
LSMEM_ATTR(forced_rolls, "%llu", lsmem_sum(store).forced_rolls);
LSMEM_ATTR(views_revoked, "%llu", lsmem_sum(store).views_revoked);
LSMEM_ATTR(snapshots, "%u", READ_ONCE(store->snapshots.nr));
LSMEM_ATTR(snapshots_revoked, "%llu", READ_ONCE(store->snapshots.revoked));
LSMEM_ATTR(snapshot_seglets, "%u", READ_ONCE(store->snapshots.kept));
LSMEM_ATTR(write_cost_permille, "%llu", lsmem_write_cost(store));

static struct attribute *lsmem_cleaner_attrs[] = {
	&dev_attr_balancer.attr,
	&dev_attr_survivors.attr,
	&dev_attr_level.attr,
	&dev_attr_request_compact.attr,
	&dev_attr_request_clean.attr,
	&lsmem_limit_nr_compactors.attr.attr,
	&lsmem_limit_free_low.attr.attr,
	&lsmem_limit_utilization_max.attr.attr,
	&lsmem_limit_tombstones_max.attr.attr,
	&lsmem_limit_fixed_clean.attr.attr,
	&lsmem_limit_tombstone_ratio.attr.attr,
	&lsmem_limit_clean_price.attr.attr,
	&dev_attr_segments_by_memory.attr,
	&dev_attr_segments_by_backup.attr,
	&dev_attr_compactions.attr,
	&dev_attr_compacted_bytes.attr,
	&dev_attr_compact_freed_bytes.attr,
	&dev_attr_compact_ns.attr,
	&dev_attr_passes.attr,
	&dev_attr_segments_cleaned.attr,
	&dev_attr_relocated_bytes.attr,
	&dev_attr_relocated_entries.attr,
	&dev_attr_freed_bytes.attr,
	&dev_attr_clean_ns.attr,
	&dev_attr_forced_rolls.attr,
	&dev_attr_views_revoked.attr,
	&dev_attr_snapshots.attr,
	&dev_attr_snapshots_revoked.attr,
	&dev_attr_snapshot_seglets.attr,
	&dev_attr_write_cost_permille.attr,
	NULL,
};

static const struct attribute_group lsmem_cleaner_group = {
	.name = "cleaner",
	.attrs = lsmem_cleaner_attrs,
};

/* ---- Statistics --------------------------------------------------------- */

LSMEM_ATTR(appends, "%llu", lsmem_sum(store).appends);
LSMEM_ATTR(appended_bytes, "%llu", lsmem_sum(store).appended_bytes);
LSMEM_ATTR(replaced, "%llu", lsmem_sum(store).replaced);
LSMEM_ATTR(deleted, "%llu", lsmem_sum(store).deleted);
LSMEM_ATTR(stalls, "%llu", lsmem_sum(store).stalls);
LSMEM_ATTR(stall_ns, "%llu", lsmem_sum(store).stall_ns);
LSMEM_ATTR(throttles, "%llu", lsmem_sum(store).throttles);
LSMEM_ATTR(throttle_ns, "%llu", lsmem_sum(store).throttle_ns);
LSMEM_ATTR(durable_waits, "%llu", lsmem_sum(store).durable_waits);
LSMEM_ATTR(padding_bytes, "%llu", lsmem_sum(store).padding_bytes);
LSMEM_ATTR(durable_bytes, "%llu", READ_ONCE(store->repl.durable_bytes));

static ssize_t lsmem_histogram(char *buf, const u64 *waits)
{
	ssize_t length = 0;
	u32 i;

	for (i = 0; i < LSMEM_WAITS; i++)
		length += sysfs_emit_at(buf, length, i ? " %llu" : "%llu", waits[i]);
	return length + sysfs_emit_at(buf, length, "\n");
}

static ssize_t stall_histogram_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lsmem_counters sum = lsmem_sum(lsmem_dev_store(dev));

	return lsmem_histogram(buf, sum.waits);
}
static DEVICE_ATTR_RO(stall_histogram);

static struct attribute *lsmem_stats_attrs[] = {
	&dev_attr_appends.attr,
	&dev_attr_appended_bytes.attr,
	&dev_attr_replaced.attr,
	&dev_attr_deleted.attr,
	&dev_attr_stalls.attr,
	&dev_attr_stall_ns.attr,
	&dev_attr_throttles.attr,
	&dev_attr_throttle_ns.attr,
	&dev_attr_stall_histogram.attr,
	&dev_attr_durable_waits.attr,
	&dev_attr_durable_bytes.attr,
	&dev_attr_padding_bytes.attr,
	NULL,
};

static const struct attribute_group lsmem_stats_group = {
	.name = "stats",
	.attrs = lsmem_stats_attrs,
};

/* ---- The tier ------------------------------------------------------------ */

LSMEM_ATTR(resident_bytes, "%llu", lsmem_resident_bytes(store));
LSMEM_ATTR(cold_bytes, "%lld", percpu_counter_sum_positive(&store->tier.cold));
LSMEM_ATTR(cached_bytes, "%lld", percpu_counter_sum_positive(&store->tier.cached));
LSMEM_ATTR(warm_segments, "%u",
	   READ_ONCE(store->tier.warm.fill) ? READ_ONCE(store->tier.warm.left) : 0);
LSMEM_ATTR(unverified_segments, "%u",
	   READ_ONCE(store->tier.warm.verify) ? READ_ONCE(store->tier.warm.left) : 0);
LSMEM_ATTR(unreadable_segments, "%u", READ_ONCE(store->segments.nr_unreadable));
LSMEM_ATTR(requests, "%u", READ_ONCE(store->fetches.nr));
LSMEM_ATTR(evicted, "%llu", lsmem_sum(store).evicted);
LSMEM_ATTR(evicted_bytes, "%llu", lsmem_sum(store).evicted_bytes);
LSMEM_ATTR(fetches, "%llu", lsmem_sum(store).fetches);
LSMEM_ATTR(fetches_near, "%llu", lsmem_sum(store).fetches_near);
LSMEM_ATTR(near_reads, "%llu", lsmem_sum(store).near_reads);
LSMEM_ATTR(near_waited, "%llu", lsmem_sum(store).near_waited);
LSMEM_ATTR(fetches_through, "%llu", lsmem_sum(store).fetches_through);
LSMEM_ATTR(fetches_ahead, "%llu", lsmem_sum(store).fetches_ahead);
LSMEM_ATTR(fetched_bytes, "%llu", lsmem_sum(store).fetched_bytes);
LSMEM_ATTR(fetch_ns, "%llu", lsmem_sum(store).fetch_ns);
LSMEM_ATTR(fetch_failures, "%llu", lsmem_sum(store).fetch_failures);

static ssize_t fetch_histogram_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lsmem_counters sum = lsmem_sum(lsmem_dev_store(dev));

	return lsmem_histogram(buf, sum.fetch_waits);
}
static DEVICE_ATTR_RO(fetch_histogram);

static struct attribute *lsmem_tier_attrs[] = {
	&dev_attr_resident_bytes.attr,
	&dev_attr_cold_bytes.attr,
	&dev_attr_cached_bytes.attr,
	&dev_attr_warm_segments.attr,
	&dev_attr_unverified_segments.attr,
	&dev_attr_unreadable_segments.attr,
	&dev_attr_requests.attr,
	&dev_attr_evicted.attr,
	&dev_attr_evicted_bytes.attr,
	&dev_attr_fetches.attr,
	&dev_attr_fetches_near.attr,
	&dev_attr_near_reads.attr,
	&dev_attr_near_waited.attr,
	&dev_attr_fetches_through.attr,
	&dev_attr_fetches_ahead.attr,
	&dev_attr_fetched_bytes.attr,
	&dev_attr_fetch_ns.attr,
	&dev_attr_fetch_failures.attr,
	&dev_attr_fetch_histogram.attr,
	NULL,
};

static umode_t lsmem_tier_visible(struct kobject *kobj, struct attribute *attr, int index)
{
	return lsmem_dev_store(kobj_to_dev(kobj))->tier.on ? attr->mode : 0;
}

static const struct attribute_group lsmem_tier_group = {
	.name = "tier",
	.attrs = lsmem_tier_attrs,
	.is_visible = lsmem_tier_visible,
};

/* ---- Ranges of pages ----------------------------------------------------- */

LSMEM_ATTR(ranges, "%llu", lsmem_buffers_count(store, false).ranges);
LSMEM_ATTR(buffered_pages, "%llu", lsmem_buffers_count(store, false).pages);
LSMEM_ATTR(dirty_pages, "%llu", lsmem_buffers_count(store, true).dirty);
LSMEM_ATTR(faults, "%llu", lsmem_sum(store).page_faults);
LSMEM_ATTR(read_pages, "%llu", lsmem_sum(store).pages_read);
LSMEM_ATTR(fetched_pages, "%llu", lsmem_sum(store).pages_fetched);
LSMEM_ATTR(written_pages, "%llu", lsmem_sum(store).pages_written);
LSMEM_ATTR(written_bytes, "%llu", lsmem_sum(store).pages_bytes);
LSMEM_ATTR(groups, "%llu", lsmem_sum(store).pages_groups);
LSMEM_ATTR(syncs, "%llu", lsmem_sum(store).pages_syncs);
LSMEM_ATTR(sync_ns, "%llu", lsmem_sum(store).pages_sync_ns);

static struct attribute *lsmem_pages_attrs[] = {
	&dev_attr_ranges.attr,
	&dev_attr_buffered_pages.attr,
	&dev_attr_dirty_pages.attr,
	&dev_attr_faults.attr,
	&dev_attr_read_pages.attr,
	&dev_attr_fetched_pages.attr,
	&dev_attr_written_pages.attr,
	&dev_attr_written_bytes.attr,
	&dev_attr_groups.attr,
	&dev_attr_syncs.attr,
	&dev_attr_sync_ns.attr,
	NULL,
};

static umode_t lsmem_pages_visible(struct kobject *kobj, struct attribute *attr, int index)
{
	struct lsmem_store *store = lsmem_dev_store(kobj_to_dev(kobj));

	return store->kind == LSMEM_KIND_OBJECT && lsmem_pages_there() ? attr->mode : 0;
}

static const struct attribute_group lsmem_pages_group = {
	.name = "pages",
	.attrs = lsmem_pages_attrs,
	.is_visible = lsmem_pages_visible,
};

const struct attribute_group *lsmem_store_groups[] = {
	&lsmem_store_group,
	&lsmem_limits_group,
	&lsmem_cleaner_group,
	&lsmem_stats_group,
	&lsmem_tier_group,
	&lsmem_pages_group,
	NULL,
};
