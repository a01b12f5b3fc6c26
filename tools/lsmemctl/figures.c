// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl: figures of a store, computed from two snapshots.
 *
 * The functions make no system call and read no clock.  They take objects of ctl_store_read() and
 * return an object.  A figure is null if the snapshots do not give it: the module does not have the
 * file, or the divisor is 0.
 */
#include <stdio.h>
#include <string.h>

#include <lsmem/lsmem_format.h>

#include "ctl.h"

#define BUCKETS_MAX	62	/* 2^62 fits into an int64_t */

/**
 * struct interval - two snapshots of a store
 * @now: snapshot
 * @before: an earlier snapshot; NULL: the interval began when the store was created
 * @seconds: between the snapshots; 0: rates are not known
 */
struct interval {
	struct json_object *now, *before;
	double seconds;
};

/* A figure that is the value of a file: its name, and the key of the file. */
struct gauge {
	const char *name, *key;
};

/* @by: out: growth of a counter.  Return: false: not known. */
static bool growth(const struct interval *interval, const char *key, double *by)
{
	struct json_object *to = ctl_find(interval->now, key), *from;
	int64_t difference;

	if (!to)
		return false;
	difference = json_object_get_int64(to);
	if (interval->before) {
		from = ctl_find(interval->before, key);
		if (!from)
			return false;
		difference -= json_object_get_int64(from);
	}
	*by = (double)difference;
	return difference >= 0;
}

/* Adds @number / @by; null if it is not known. */
static void add_ratio(struct json_object *out, const char *key, bool known, double number,
		      double by)
{
	if (known)
		ctl_add_decimal(out, key, number / by);
	else
		json_object_object_add(out, key, NULL);
}

/* Adds the growth of a counter per second, divided by @unit; nothing without @before. */
static void add_rate(struct json_object *out, const char *key, const struct interval *interval,
		     const char *counter, double unit)
{
	double by = 0;
	bool known;

	if (!interval->before)
		return;
	known = growth(interval, counter, &by) && interval->seconds > 0;
	add_ratio(out, key, known, by, interval->seconds * unit);
}

#define PERCENT_OF_NS	1e7	/* nanoseconds per second that make 1 % */

/* Figures of one level of cleaning; the arguments are the keys of its counters. */
static struct json_object *level(const struct interval *interval, const char *segments,
				 const char *copied, const char *freed, const char *ns)
{
	struct json_object *out = json_object_new_object();
	double bytes_copied = 0, bytes_freed = 0;
	bool known;

	add_rate(out, "segments_per_second", interval, segments, 1);
	add_rate(out, "copied_bytes_per_second", interval, copied, 1);
	add_rate(out, "freed_bytes_per_second", interval, freed, 1);
	add_rate(out, "time_percent", interval, ns, PERCENT_OF_NS);
	known = growth(interval, copied, &bytes_copied) && growth(interval, freed, &bytes_freed) &&
		bytes_freed > 0;
	add_ratio(out, "copied_per_freed", known, bytes_copied, bytes_freed);
	return out;
}

/* Bytes written to the log, by users, cleaning and compaction, for each byte that users wrote. */
static void add_write_cost(struct json_object *out, const struct interval *interval)
{
	double appended = 0, relocated = 0, compacted = 0;
	bool known;

	known = growth(interval, "stats.appended_bytes", &appended) && appended > 0 &&
		growth(interval, "cleaner.relocated_bytes", &relocated);
	/* A module that does not compact has no such counter. */
	if (known && ctl_find(interval->now, "cleaner.compacted_bytes"))
		known = growth(interval, "cleaner.compacted_bytes", &compacted);
	add_ratio(out, "write_cost", known, appended + relocated + compacted, appended);
}

/*
 * @key: of a histogram.  @counts: out: waits in bucket i, of 2^i to 2^(i+1) microseconds.
 * Return: number of buckets; 0: not known.
 */
static size_t histogram(const struct interval *interval, const char *key, int64_t *counts)
{
	struct json_object *to = ctl_find(interval->now, key), *from = NULL;
	size_t i, nr;

	if (!json_object_is_type(to, json_type_array))
		return 0;
	nr = json_object_array_length(to);
	if (interval->before) {
		from = ctl_find(interval->before, key);
		if (!json_object_is_type(from, json_type_array) ||
		    json_object_array_length(from) != nr)
			return 0;
	}
	if (nr > BUCKETS_MAX)
		return 0;
	for (i = 0; i < nr; i++) {
		counts[i] = json_object_get_int64(json_object_array_get_idx(to, i));
		if (from)
			counts[i] -= json_object_get_int64(json_object_array_get_idx(from, i));
		if (counts[i] < 0)
			return 0;
	}
	return nr;
}

/* Upper bound of the bucket that contains the quantile @permille of all waits; NULL: no waits. */
static struct json_object *below_us(const int64_t *counts, size_t nr, int64_t permille)
{
	int64_t total = 0, wanted, seen = 0;
	size_t i;

	for (i = 0; i < nr; i++)
		total += counts[i];
	wanted = (total * permille + 999) / 1000;
	for (i = 0; i < nr; i++) {
		seen += counts[i];
		if (seen && seen >= wanted)
			return json_object_new_int64((int64_t)1 << (i + 1));
	}
	return NULL;
}

static struct json_object *waits(const struct interval *interval)
{
	struct json_object *out = json_object_new_object();
	int64_t counts[BUCKETS_MAX];
	size_t nr = histogram(interval, "stats.stall_histogram", counts);

	json_object_object_add(out, "p50_us", below_us(counts, nr, 500));
	json_object_object_add(out, "p99_us", below_us(counts, nr, 990));
	json_object_object_add(out, "max_us", below_us(counts, nr, 1000));
	return out;
}

static void add_cleaning(struct json_object *out, const struct interval *interval)
{
	add_write_cost(out, interval);
	json_object_object_add(out, "compact", level(interval, "cleaner.compactions",
						     "cleaner.compacted_bytes",
						     "cleaner.compact_freed_bytes",
						     "cleaner.compact_ns"));
	json_object_object_add(out, "clean", level(interval, "cleaner.segments_cleaned",
						   "cleaner.relocated_bytes",
						   "cleaner.freed_bytes", "cleaner.clean_ns"));
	json_object_object_add(out, "waits", waits(interval));
}

/**
 * ctl_cleaning() - compute the cost of cleaning since the store was created
 * @store: snapshot
 *
 * Return: an object with "write_cost", "compact", "clean" and "waits".
 */
struct json_object *ctl_cleaning(struct json_object *store)
{
	const struct interval interval = { .now = store };
	struct json_object *out = json_object_new_object();

	add_cleaning(out, &interval);
	return out;
}

static void add_gauges(struct json_object *out, struct json_object *store,
		       const struct gauge *gauges, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		json_object_object_add(out, gauges[i].name,
				       json_object_get(ctl_find(store, gauges[i].key)));
}

static const struct gauge tier_gauges[] = {
	{ "memory_bytes", "size_bytes" },
	{ "capacity_bytes", "capacity_bytes" },
	{ "resident_bytes", "tier.resident_bytes" },
	{ "cold_bytes", "tier.cold_bytes" },
	{ "cached_bytes", "tier.cached_bytes" },
	{ "unverified_segments", "tier.unverified_segments" },
	{ "unreadable_segments", "tier.unreadable_segments" },
	{ "requests", "tier.requests" },
	{ "fetches", "tier.fetches" },
	{ "fetches_near", "tier.fetches_near" },
	{ "fetched_bytes", "tier.fetched_bytes" },
	{ "evicted_bytes", "tier.evicted_bytes" },
	{ "failures", "tier.fetch_failures" },
};

/**
 * ctl_tier_figures() - compute the state of a tiered store and its fetching
 * @now: snapshot
 * @before: an earlier snapshot; NULL: latencies are of all fetches since the store was created, and
 *	there are no rates
 * @seconds: between the snapshots; 0: rates are null
 *
 * Return: the object that lsmemctl(8) describes for tier, without the name; NULL: the store has no
 * tier.
 */
struct json_object *ctl_tier_figures(struct json_object *now, struct json_object *before,
				     double seconds)
{
	const struct interval interval = { .now = now, .before = before, .seconds = seconds };
	int64_t counts[BUCKETS_MAX];
	struct json_object *out;
	double fetches = 0, ns = 0;
	bool known;
	size_t nr;

	if (!ctl_find(now, "tier.resident_bytes"))
		return NULL;
	out = json_object_new_object();
	add_gauges(out, now, tier_gauges, sizeof(tier_gauges) / sizeof(*tier_gauges));
	add_rate(out, "fetches_per_second", &interval, "tier.fetches", 1);
	add_rate(out, "fetched_bytes_per_second", &interval, "tier.fetched_bytes", 1);
	add_rate(out, "evicted_bytes_per_second", &interval, "tier.evicted_bytes", 1);
	known = growth(&interval, "tier.fetches", &fetches) && fetches > 0 &&
		growth(&interval, "tier.fetch_ns", &ns);
	add_ratio(out, "mean_us", known, ns / 1000, fetches);
	nr = histogram(&interval, "tier.fetch_histogram", counts);
	json_object_object_add(out, "p99_us", below_us(counts, nr, 990));
	return out;
}

static const struct gauge pages_gauges[] = {
	{ "ranges", "pages.ranges" },
	{ "buffered_pages", "pages.buffered_pages" },
	{ "dirty_pages", "pages.dirty_pages" },
	{ "faults", "pages.faults" },
	{ "read_pages", "pages.read_pages" },
	{ "fetched_pages", "pages.fetched_pages" },
	{ "written_pages", "pages.written_pages" },
	{ "written_bytes", "pages.written_bytes" },
	{ "groups", "pages.groups" },
	{ "syncs", "pages.syncs" },
};

/* Adds the bytes of @pages pages. */
static void add_page_bytes(struct json_object *out, const char *key, struct json_object *now,
			   const char *pages)
{
	json_object_object_add(out, key,
			       json_object_new_int64(json_object_get_int64(ctl_find(now, pages)) *
						     LSMEM_BLOCK));
}

/**
 * ctl_pages_figures() - compute the state of the ranges of pages of a store, and what they do
 * @now: snapshot
 * @before: an earlier snapshot; NULL: the mean is of all syncs since the store was created, and there are
 *	no rates
 * @seconds: between the snapshots; 0: rates are null
 *
 * Return: the object that lsmemctl(8) describes for pages, without the name; NULL: the store has no
 * ranges.
 */
struct json_object *ctl_pages_figures(struct json_object *now, struct json_object *before,
				      double seconds)
{
	const struct interval interval = { .now = now, .before = before, .seconds = seconds };
	struct json_object *out;
	double syncs = 0, ns = 0;
	bool known;

	if (!ctl_find(now, "pages.ranges"))
		return NULL;
	out = json_object_new_object();
	add_gauges(out, now, pages_gauges, sizeof(pages_gauges) / sizeof(*pages_gauges));
	add_page_bytes(out, "buffered_bytes", now, "pages.buffered_pages");
	add_page_bytes(out, "dirty_bytes", now, "pages.dirty_pages");
	add_rate(out, "faults_per_second", &interval, "pages.faults", 1);
	add_rate(out, "read_pages_per_second", &interval, "pages.read_pages", 1);
	add_rate(out, "fetched_pages_per_second", &interval, "pages.fetched_pages", 1);
	add_rate(out, "written_pages_per_second", &interval, "pages.written_pages", 1);
	add_rate(out, "written_bytes_per_second", &interval, "pages.written_bytes", 1);
	add_rate(out, "groups_per_second", &interval, "pages.groups", 1);
	add_rate(out, "syncs_per_second", &interval, "pages.syncs", 1);
	known = growth(&interval, "pages.syncs", &syncs) && syncs > 0 &&
		growth(&interval, "pages.sync_ns", &ns);
	add_ratio(out, "sync_us", known, ns / 1000, syncs);
	return out;
}

/* The name in brackets, as sysfs marks the one in use: "[adaptive] fixed". */
static struct json_object *chosen(struct json_object *names)
{
	const char *text = names ? json_object_get_string(names) : "";
	const char *from = strchr(text, '['), *to = strchr(text, ']');

	if (!from || !to || to < from)
		return json_object_get(names);
	return json_object_new_string_len(from + 1, (int)(to - from - 1));
}

static const struct gauge gauges[] = {
	{ "name", "name" },
	{ "kind", "kind" },
	{ "durability", "durability" },
	{ "state", "state" },
	{ "capacity_bytes", "capacity_bytes" },
	{ "live_bytes", "live_bytes" },
	{ "used_percent", "used_percent" },
	{ "seglets", "seglets" },
	{ "free_seglets", "free_seglets" },
	{ "level", "cleaner.level" },
	{ "nr_compactors", "cleaner.nr_compactors" },
	{ "segments_by_memory", "cleaner.segments_by_memory" },
	{ "segments_by_backup", "cleaner.segments_by_backup" },
};

static void add_pair(struct json_object *out, const char *key, const struct interval *interval,
		     const char *counter, const char *ns)
{
	struct json_object *pair = json_object_new_object();

	add_rate(pair, "per_second", interval, counter, 1);
	add_rate(pair, "time_percent", interval, ns, PERCENT_OF_NS);
	json_object_object_add(out, key, pair);
}

/**
 * ctl_figures() - compute the state of a store and its rates
 * @now: snapshot
 * @before: an earlier snapshot
 * @seconds: between the snapshots; 0: rates are null
 *
 * Return: the object that lsmemctl(8) describes for top.
 */
struct json_object *ctl_figures(struct json_object *now, struct json_object *before,
				double seconds)
{
	const struct interval interval = { .now = now, .before = before, .seconds = seconds };
	struct json_object *out = json_object_new_object(), *append;

	add_gauges(out, now, gauges, sizeof(gauges) / sizeof(*gauges));
	json_object_object_add(out, "balancer", chosen(ctl_find(now, "cleaner.balancer")));
	append = json_object_new_object();
	add_rate(append, "bytes_per_second", &interval, "stats.appended_bytes", 1);
	add_rate(append, "operations_per_second", &interval, "stats.appends", 1);
	json_object_object_add(out, "append", append);
	add_cleaning(out, &interval);
	add_pair(out, "stalls", &interval, "stats.stalls", "stats.stall_ns");
	add_pair(out, "throttles", &interval, "stats.throttles", "stats.throttle_ns");
	json_object_object_add(out, "tier", ctl_tier_figures(now, before, seconds));
	return out;
}
