// SPDX-License-Identifier: GPL-2.0
/*
 * Metrics: see metrics.h.
 *
 * The name of a metric implies more: lsmem_backup_.. has a label "backup", .._total is a counter,
 * figures of .._seconds.. are in ns here.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "module/kernel.h"
#include "metrics.h"

#define NS_PER_S	1000000000u
#define WAITS		24u		/* buckets in stats/stall_histogram */
#define NO_BACKUP	(-1)
#define SIZE(array)	(sizeof(array) / sizeof((array)[0]))

/**
 * struct page - the page that is being written
 * @out: the stream
 * @status: the status of the store
 * @backup: place of the backup whose metrics are being written, or NO_BACKUP
 */
struct page {
	FILE *out;
	const struct status *status;
	int backup;
};

/* A metric with one figure. */
struct row {
	const char *name, *help;
	uint64_t figure;
};

static void put_header(const struct page *page, const char *name, const char *type,
		       const char *help)
{
	fprintf(page->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static const char *type_of(const char *name)
{
	const char *last = strrchr(name, '_');

	return strcmp(last, "_total") ? "gauge" : "counter";
}

/* Bytes that are not ASCII are written in hex: the format allows UTF-8 only. */
static void put_label(const struct page *page, char before, const char *label,
		      const char *value)
{
	fprintf(page->out, "%c%s=\"", before, label);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fprintf(page->out, "\\%c", *value);
		else if (*value < 0x20 || *value > 0x7e)
			fprintf(page->out, "\\\\x%02x", (unsigned char)*value);
		else
			putc(*value, page->out);
	}
	putc('"', page->out);
}

/* The name of a backup; the path, if there is only one and it has no name. */
static const char *backup_label(const struct page *page)
{
	const struct status_backup *backup = &page->status->backups[page->backup];

	return *backup->name ? backup->name : backup->path;
}

/* Labels of the store. The node is not one: it can change at a boot, which would end the series. */
static void put_store(const struct page *page)
{
	const struct status *status = page->status;
	char uuid[UUID_TEXT_BYTES];

	put_label(page, '{', "name", *status->name ? status->name : status->store);
	put_label(page, ',', "uuid", uuid_text(status->uuid, uuid));
}

/* Write a metric's name and labels: those of the store and the backup, and @label if not NULL. */
static void put_name(const struct page *page, const char *name, const char *suffix,
		     const char *label, const char *value)
{
	fprintf(page->out, "%s%s", name, suffix);
	put_store(page);
	if (!strncmp(name, "lsmem_backup_", 13))
		put_label(page, ',', "backup", backup_label(page));
	if (label)
		put_label(page, ',', label, value);
	fputs("} ", page->out);
}

static void put_figure(const struct page *page, const char *name, uint64_t figure)
{
	if (strstr(name, "_seconds"))
		fprintf(page->out, "%" PRIu64 ".%09" PRIu64 "\n", figure / NS_PER_S,
			figure % NS_PER_S);
	else
		fprintf(page->out, "%" PRIu64 "\n", figure);
}

static void put(const struct page *page, const char *name, const char *label, const char *value,
		uint64_t figure)
{
	put_name(page, name, "", label, value);
	put_figure(page, name, figure);
}

static void put_rows(const struct page *page, const struct row *rows, size_t nr)
{
	for (; nr--; rows++) {
		put_header(page, rows->name, type_of(rows->name), rows->help);
		put(page, rows->name, NULL, NULL, rows->figure);
	}
}

/*
 * Write the buckets up to 2^@first .. 2^@last, and +Inf. @per of the histogram's units are one unit
 * of the metric. The buckets are always the same: rates over different ones would be wrong.
 */
static void put_histogram(const struct page *page, const char *name,
			  const struct histogram *histogram, double per, unsigned int first,
			  unsigned int last)
{
	uint64_t count = 0;
	unsigned int i;
	char le[32];

	for (i = 0; i < HISTOGRAM_BUCKETS; i++) {
		count += histogram->count[i];
		if (i < first || i > last)
			continue;
		snprintf(le, sizeof(le), "%.12g", (double)(1ull << i) / per);
		put_name(page, name, "_bucket", "le", le);
		fprintf(page->out, "%" PRIu64 "\n", count);
	}
	put_name(page, name, "_bucket", "le", "+Inf");
	fprintf(page->out, "%" PRIu64 "\n", count);
	put_name(page, name, "_sum", NULL, NULL);
	put_figure(page, name, histogram->sum);
	put_name(page, name, "_count", NULL, NULL);
	fprintf(page->out, "%" PRIu64 "\n", count);
}

/* ---- The daemon -------------------------------------------------------- */

static void put_info(const struct page *page)
{
	const char *name = "lsmem_daemon_info";

	put_header(page, name, "gauge", "Always 1: the store, its kind and the version of lsmemd.");
	fputs(name, page->out);
	put_store(page);
	put_label(page, ',', "store", page->status->store);
	put_label(page, ',', "backup", page->status->where);
	put_label(page, ',', "kind", kernel_kind(page->status->kind));
	put_label(page, ',', "version", LSMEMD_VERSION);
	fputs("} 1\n", page->out);
}

static void put_state(const struct page *page)
{
	static const char *const states[] = { "starting", "recovering", "active", "waiting",
					       "draining" };
	const char *name = "lsmem_daemon_state";
	unsigned int i;

	put_header(page, name, "gauge", "1 for the state that the daemon is in, else 0.");
	for (i = 0; i < SIZE(states); i++)
		put(page, name, "state", states[i], !strcmp(page->status->state, states[i]));
}

static void put_daemon(const struct page *page, uint64_t age_ns)
{
	const struct row rows[] = {
		{ "lsmem_daemon_start_time_seconds", "Start of the daemon, since 1970.",
		  page->status->start_time * NS_PER_S },
		{ "lsmem_daemon_snapshot_age_seconds",
		  "Age of the figures; more than a few seconds: the daemon hangs.", age_ns },
	};

	put_info(page);
	put_state(page);
	put_rows(page, rows, SIZE(rows));
}

static void put_cluster(const struct page *page)
{
	const struct cluster_figures *c = &page->status->cluster;
	const struct row rows[] = {
		{ "lsmem_cluster_term", "Term of the ownership of the store.", c->term },
		{ "lsmem_cluster_left_seconds",
		  "Time until the ownership ends, if the lease is not renewed.", c->left_ns },
		{ "lsmem_cluster_failures_total", "Calls to etcd without an answer.",
		  c->failures },
		{ "lsmem_cluster_members_stale", "1: etcd does not have the newest list of the backups.",
		  c->stale },
	};

	put_rows(page, rows, SIZE(rows));
}

static void put_move(const struct page *page)
{
	const struct row rows[] = {
		{ "lsmem_standby", "1: the store can be moved at once, since another host stands by, or this one does.",
		  page->status->move.standby },
	};

	put_rows(page, rows, SIZE(rows));
}

static void put_recovery(const struct page *page)
{
	const struct status *s = page->status;
	const char *progress = "lsmem_recovery_progress_ratio";
	const struct row rows[] = {
		{ "lsmem_recovery_duration_seconds", "Duration of the recovery.",
		  s->recovery_ms * (NS_PER_S / 1000) },
		{ "lsmem_recovery_read_bytes", "Read from the backup.", s->read_bytes },
		{ "lsmem_recovery_live_bytes", "Bytes of live objects, after the recovery.",
		  s->recovered_bytes },
		{ "lsmem_recovery_objects", "Objects found, after the recovery.",
		  s->recovered_objects },
		{ "lsmem_recovery_segments", "Segments found, after the recovery.",
		  s->recovered_segments },
		{ "lsmem_recovery_losses", "Losses of acknowledged data.", s->losses },
	};

	put_header(page, progress, "gauge", "Part of the recovery that is done, 0 to 1.");
	put_name(page, progress, "", NULL, NULL);
	fprintf(page->out, "%.4f\n",
		s->recovery_all ? (double)s->recovery_done / (double)s->recovery_all : 0);
	put_rows(page, rows, SIZE(rows));
}

static void put_stream(const struct page *page)
{
	const struct status *s = page->status;
	const struct core_stats *core = &s->core;
	const char *latency = "lsmem_ack_latency_seconds";
	const struct row rows[] = {
		{ "lsmem_events_total", "Events taken from the kernel.", s->events },
		{ "lsmem_ranges_total", "Of these, ranges: committed bytes of a segment.",
		  s->ranges },
		{ "lsmem_acks_total", "Times that ranges were acknowledged.", s->groups },
		{ "lsmem_durable_bytes_total", "Bytes of the log made durable.", core->log_bytes },
		{ "lsmem_memory_bytes",
		  "Bytes acknowledged from the memory of backups, and not durable yet.",
		  core->memory_bytes },
		{ "lsmem_copied_bytes_total", "Bytes of the log that were copied before writing: tail blocks.",
		  core->bounced_bytes },
		{ "lsmem_segments_opened_total", "Segments opened on the backups.",
		  core->opened },
		{ "lsmem_segments_closed_total", "Segments closed on the backup.", core->closed },
		{ "lsmem_segments_retired_total", "Segments that no digest lists any more.",
		  core->retired },
		{ "lsmem_segments_coded", "Segments that are coded; the others have replicas.", core->coded },
		{ "lsmem_segments_unlike", "Segments of another kind than new ones, coded or with replicas.", core->unlike },
		{ "lsmem_converted_bytes_total",
		  "Bytes of segments cleaned only because new ones are of another kind.", s->converted },
		{ "lsmem_digests_total", "Digests made durable.", core->digests },
		{ "lsmem_digests_full_total", "Of these, those that list all segments.",
		  core->digests_full },
		{ "lsmem_digest_term", "Term of the last durable digest.", core->term },
		{ "lsmem_digest_sequence", "Number of the last durable digest.", core->sequence },
		{ "lsmem_segments_short",
		  "Segments with fewer replicas than wanted, or whose backups are leaving.",
		  core->short_segments + core->short_open },
		{ "lsmem_replicas_copied_total", "Replicas restored by copying.", core->copied },
		{ "lsmem_replicas_copied_bytes_total", "Bytes copied to restore replicas.", core->copied_bytes },
		{ "lsmem_replicas_memory_total",
		  "Replicas restored from the store's memory, because no backup had a sound one.",
		  core->copied_memory },
		{ "lsmem_replicas_kept_total",
		  "Sound replicas, and shards, that a returning backup still had.", core->kept },
		{ "lsmem_replicas_checked_total",
		  "Replicas read to check them.", core->checked },
		{ "lsmem_replicas_bad_total",
		  "Bad replicas found while copying and checking.", core->bad_replicas },
		{ "lsmem_shards_unfit_total",
		  "Shards, and segments, found to be of other data than what they belong to, with right checksums.",
		  core->unfit },
		{ "lsmem_batches_total", "Of a coded store: batches of rows written.", core->batches },
		{ "lsmem_batches_partial_total", "Of these, those that end with a partial row.",
		  core->batches_partial },
		{ "lsmem_rows_full_total", "Full rows in these batches.", core->rows_full },
		{ "lsmem_data_blocks_total", "Blocks of log data in these batches, 4 KiB each.", core->data_blocks },
		{ "lsmem_parity_blocks_total", "Blocks of parity and of its records in these batches, 4 KiB each.",
		  core->parity_blocks },
		{ "lsmem_replicas_failed_total",
		  "Segments that could not be copied: none of their replicas is sound.",
		  core->copies_failed },
		{ "lsmem_cleaning_passes_total", "Passes that the daemon asked for, and that began.",
		  s->passes },
		{ "lsmem_cleaning_segments_total", "Segments that the daemon chose for passes.",
		  s->passes_segments },
		{ "lsmem_cleaning_fruitless_total",
		  "Times that a pass was wanted and no segment was worth it.",
		  s->passes_fruitless },
	};

	put_header(page, latency, "histogram",
		   "Time from taking a range from the kernel to its acknowledgement.");
	put_histogram(page, latency, &s->ack, NS_PER_S, 13, 35);	/* 8 us .. 34 s */
	put_rows(page, rows, SIZE(rows));
}

static void put_fetching(const struct page *page)
{
	const struct fetch_stats *fetch = &page->status->fetch;
	const struct pull_stats *pull = &page->status->move.pull;
	const struct bulk_stats *bulk = &page->status->move.bulk;
	const char *latency = "lsmem_fetch_latency_seconds";
	const struct row rows[] = {
		{ "lsmem_fetches_total", "Fetch requests of the kernel that were answered with data.",
		  fetch->fetches },
		{ "lsmem_fetched_bytes_total", "Bytes of these data.", fetch->bytes },
		{ "lsmem_fetch_segments_total", "Of these requests, whole segments, for cleaning.",
		  fetch->segments },
		{ "lsmem_fetch_merged_total",
		  "Reads saved: times that a request was read together with another.", fetch->merged },
		{ "lsmem_fetch_second_total",
		  "Times that a replica was late, and another was read as well.", fetch->second },
		{ "lsmem_fetch_replaced_total",
		  "Times that a replica failed or was damaged, and another was read.",
		  fetch->replaced },
		{ "lsmem_fetch_degraded_total",
		  "Of a coded store: of these requests, those with blocks that were decoded from other shards.",
		  fetch->degraded },
		{ "lsmem_fetch_longer_total",
		  "Times that more was read because an object was longer than expected.",
		  fetch->longer },
		{ "lsmem_fetch_again_total",
		  "Times that the kernel had no memory for an answer, and got it again later.",
		  fetch->again },
		{ "lsmem_fetch_failures_total",
		  "Fetch requests that no replica could answer: their readers got an error.",
		  fetch->failures },
		{ "lsmem_fetch_requests", "Fetch requests under way.", fetch->under_way },
		{ "lsmem_fetch_source_total",
		  "After a move to this host: requests that were answered from its source's memory.", pull->objects },
		{ "lsmem_fetch_source_bytes_total", "Bytes of these objects.", pull->bytes },
		{ "lsmem_fetch_source_failed_total",
		  "Requests that the source's memory was asked for, and a backup has answered.",
		  pull->late + pull->wrong + pull->cut },
		{ "lsmem_brought_total",
		  "After a move to this host: objects that were read from its source's memory before anything asked for them.",
		  bulk->objects },
		{ "lsmem_brought_bytes_total", "Bytes of these objects.", bulk->bytes },
	};

	put_header(page, latency, "histogram",
		   "Time from taking a fetch request from the kernel to its answer.");
	put_histogram(page, latency, &fetch->latency, NS_PER_S, 13, 35);	/* 8 us .. 34 s */
	put_rows(page, rows, SIZE(rows));
}

/* ---- The backups ------------------------------------------------------- */

/* The figures of the page's backup; all zero if the backup is missing. */
static const struct core_backup_stats *backup_stats(const struct page *page)
{
	static const struct core_backup_stats none;
	uint32_t index = page->status->backups[page->backup].index;

	return index == LSMEM_BACKUPS ? &none : &page->status->core.backup[index];
}

/* The uint64_t at @offset in these figures. */
static const uint64_t *backup_figures(const struct page *page, size_t offset)
{
	return (const uint64_t *)((const char *)backup_stats(page) + offset);
}

/* Go to the next backup. Return: false: there are no more, and the page has none again. */
static bool next_backup(struct page *page)
{
	if (++page->backup < (int)page->status->nr_backups)
		return true;
	page->backup = NO_BACKUP;
	return false;
}

static void put_backup_info(struct page *page)
{
	const char *name = "lsmem_backup_info";

	put_header(page, name, "gauge", "Always 1: path, failure domain and \"ack =\" of a backup.");
	while (next_backup(page)) {
		const struct status_backup *backup = &page->status->backups[page->backup];
		const char *ack = status_backup_ack(page->status, (uint32_t)page->backup);

		fputs(name, page->out);
		put_store(page);
		put_label(page, ',', "backup", backup_label(page));
		put_label(page, ',', "path", backup->path);
		put_label(page, ',', "domain", backup->domain);
		put_label(page, ',', "ack", ack);
		fputs("} 1\n", page->out);
	}
}

static void put_backup_state(struct page *page)
{
	static const char *const states[] = { "used", "leaving", "lost", "missing", "joining" };
	const char *name = "lsmem_backup_state";
	unsigned int i;

	put_header(page, name, "gauge", "1 for the state that the backup is in, else 0.");
	while (next_backup(page))
		for (i = 0; i < SIZE(states); i++)
			put(page, name, "state", states[i],
			    !strcmp(status_backup_state(page->status, (uint32_t)page->backup), states[i]));
}

/* Write a metric of each backup and each kind of write. */
static void put_parts(struct page *page, const char *name, const char *help, size_t offset)
{
	static const char *const parts[CORE_PARTS] = {
		[CORE_PART_HEADER] = "header", [CORE_PART_LOG] = "log",
		[CORE_PART_DIRECTORY] = "directory", [CORE_PART_DIGEST] = "digest",
	};
	unsigned int i;

	put_header(page, name, type_of(name), help);
	while (next_backup(page))
		for (i = 0; i < CORE_PARTS; i++)
			put(page, name, "kind", parts[i], backup_figures(page, offset)[i]);
}

static void put_groups(struct page *page)
{
	const char *bytes = "lsmem_backup_group_bytes", *segments = "lsmem_backup_group_segments";

	put_header(page, bytes, "histogram", "Bytes of the log that one flush made durable.");
	while (next_backup(page))
		put_histogram(page, bytes, &backup_stats(page)->group_bytes, 1, 8, 27);
	put_header(page, segments, "histogram", "Segments whose bytes one flush made durable.");
	while (next_backup(page))
		put_histogram(page, segments, &backup_stats(page)->group_segments, 1, 0, 7);
}

static void put_backups(struct page *page)
{
	static const struct {
		const char *name, *help;
		size_t offset;
	} figures[] = {
#define FIGURE(member) offsetof(struct core_backup_stats, member)
		{ "lsmem_backup_flushes_total", "Flushes done.", FIGURE(flushes) },
		{ "lsmem_backup_lag_bytes", "Committed bytes that are not durable on the backup.",
		  FIGURE(lag_bytes) },
		{ "lsmem_backup_lag_segments", "Segments with such bytes.",
		  FIGURE(lag_segments) },
		{ "lsmem_backup_frames", "Frames of the backup, one segment each.", FIGURE(frames) },
		{ "lsmem_backup_frames_free", "Free frames of the backup.", FIGURE(frames_free) },
		{ "lsmem_backup_frames_low", "1: the backup is nearly full.", FIGURE(frames_low) },
		{ "lsmem_backup_replicas", "Replicas of segments.", FIGURE(replicas) },
		{ "lsmem_backup_data_shards", "Of a coded store: shards that have log data.", FIGURE(data_shards) },
		{ "lsmem_backup_parity_shards", "Of a coded store: shards that have parity.", FIGURE(parity_shards) },
		{ "lsmem_backup_requests", "Requests in flight.", FIGURE(in_flight) },
#undef FIGURE
	};
	unsigned int i;

	put_backup_info(page);
	put_backup_state(page);
	put_parts(page, "lsmem_backup_written_bytes_total", "Bytes written.",
		  offsetof(struct core_backup_stats, bytes));
	put_parts(page, "lsmem_backup_writes_total", "Writes done.",
		  offsetof(struct core_backup_stats, writes));
	put_groups(page);
	for (i = 0; i < SIZE(figures); i++) {
		put_header(page, figures[i].name, type_of(figures[i].name), figures[i].help);
		while (next_backup(page))
			put(page, figures[i].name, NULL, NULL,
			    *backup_figures(page, figures[i].offset));
	}
}

/* Figures of fetching from each backup. */
static void put_backups_fetching(struct page *page)
{
	static const struct {
		const char *name, *help;
		size_t offset;
	} figures[] = {
#define FIGURE(member) (offsetof(struct fetch_stats, backup[0].member) - \
			offsetof(struct fetch_stats, backup))
		{ "lsmem_backup_fetch_reads_total", "Reads of fetching done.", FIGURE(reads) },
		{ "lsmem_backup_fetch_bytes_total", "Bytes of these reads.", FIGURE(bytes) },
		{ "lsmem_backup_fetch_mean_seconds",
		  "Moving mean of the latency of these reads, by which a replica is chosen.",
		  FIGURE(mean_ns) },
#undef FIGURE
	};
	const char *start;
	uint32_t index;
	unsigned int i;

	for (i = 0; i < SIZE(figures); i++) {
		put_header(page, figures[i].name, type_of(figures[i].name), figures[i].help);
		while (next_backup(page)) {
			index = page->status->backups[page->backup].index;
			if (index == LSMEM_BACKUPS)
				continue;
			start = (const char *)&page->status->fetch.backup[index];
			put(page, figures[i].name, NULL, NULL,
			    *(const uint64_t *)(start + figures[i].offset));
		}
	}
}

/* ---- The store, as sysfs tells ----------------------------------------- */

/* A metric from the file @path; or from @path for compaction and @clean for cleaning. */
static const struct source {
	const char *name, *help, *path, *clean;
} sources[] = {
	{ "lsmem_store_size_bytes", "Memory of the log.", "size_bytes", NULL },
	{ "lsmem_store_capacity_bytes", "Live bytes that the store admits.", "capacity_bytes",
	  NULL },
	{ "lsmem_store_live_bytes", "Entries that count now, with their headers.", "live_bytes",
	  NULL },
	{ "lsmem_store_seglets", "Seglets of memory, 64 KiB each.", "seglets", NULL },
	{ "lsmem_store_seglets_free", "Seglets that are not in use.", "free_seglets", NULL },
	{ "lsmem_store_seglets_reserved", "Seglets that only the cleaner may take.",
	  "reserved_seglets", NULL },
	{ "lsmem_store_handles_max", "Most objects; blocks of the device.", "handles_max", NULL },
	{ "lsmem_store_handles_used", "Objects, or blocks that hold something.", "handles_used",
	  NULL },
	{ "lsmem_store_segments", "Segments in the log.", "segments", NULL },
	{ "lsmem_store_segments_max", "Most segments that the log can have.", "segments_max",
	  NULL },
	{ "lsmem_store_segments_limit", "Of these, for how many the backups have room at present.",
	  "segments_limit", NULL },
	{ "lsmem_store_resident_bytes", "Of a tiered store: live bytes in memory.",
	  "tier/resident_bytes", NULL },
	{ "lsmem_store_cold_bytes", "Of a tiered store: live bytes that are not in their segment's memory.",
	  "tier/cold_bytes", NULL },
	{ "lsmem_store_cached_bytes", "Of a tiered store: bytes in memory that were fetched.",
	  "tier/cached_bytes", NULL },
	{ "lsmem_store_unverified_segments",
	  "Of a tiered store: segments that are still to be verified after a restart.",
	  "tier/unverified_segments", NULL },
	{ "lsmem_store_unreadable_segments", "Of a tiered store: segments that no backup has whole.",
	  "tier/unreadable_segments", NULL },
	{ "lsmem_store_evicted_total", "Objects that left memory, and are on backups only.",
	  "tier/evicted", NULL },
	{ "lsmem_store_evicted_bytes_total", "Bytes of these.", "tier/evicted_bytes", NULL },
	{ "lsmem_pages_ranges", "Ranges of pages that are open.", "pages/ranges", NULL },
	{ "lsmem_pages_buffered", "Pages in their page buffers, 4096 bytes each.",
	  "pages/buffered_pages", NULL },
	{ "lsmem_pages_dirty", "Of these pages, those that are not written back.",
	  "pages/dirty_pages", NULL },
	{ "lsmem_pages_faults_total", "Page faults of mappings of ranges.", "pages/faults", NULL },
	{ "lsmem_pages_read_total", "Pages read whose objects were in memory.", "pages/read_pages",
	  NULL },
	{ "lsmem_pages_fetched_total", "Pages read whose objects were on backups only.",
	  "pages/fetched_pages", NULL },
	{ "lsmem_pages_written_total", "Pages written back.", "pages/written_pages", NULL },
	{ "lsmem_pages_written_bytes_total", "Bytes of the groups with these pages.",
	  "pages/written_bytes", NULL },
	{ "lsmem_pages_groups_total", "Groups written back.", "pages/groups", NULL },
	{ "lsmem_pages_syncs_total", "Calls of msync() and fsync() on ranges that have ended.",
	  "pages/syncs", NULL },
	{ "lsmem_pages_sync_seconds_total", "Time of these calls.", "pages/sync_ns", NULL },
	{ "lsmem_store_appends_total", "Entries that users have written.", "stats/appends", NULL },
	{ "lsmem_store_appended_bytes_total", "Bytes of these entries, with their headers.",
	  "stats/appended_bytes", NULL },
	{ "lsmem_store_replaced_total", "Objects or blocks overwritten.", "stats/replaced", NULL },
	{ "lsmem_store_deleted_total", "Objects freed, or blocks discarded.", "stats/deleted",
	  NULL },
	{ "lsmem_store_durable_waits_total", "Waits of calls and FUA requests to be durable.",
	  "stats/durable_waits", NULL },
	{ "lsmem_store_stalls_total", "Waits of writers for space.", "stats/stalls", NULL },
	{ "lsmem_store_throttles_total", "Times that a writer was slowed down before the space ran out.",
	  "stats/throttles", NULL },
	{ "lsmem_cleaner_segments_total", "Segments compacted, or emptied by cleaning.",
	  "cleaner/compactions", "cleaner/segments_cleaned" },
	{ "lsmem_cleaner_moved_bytes_total",
	  "Bytes of entries moved; those that cleaning moves are also written to the backups.",
	  "cleaner/compacted_bytes", "cleaner/relocated_bytes" },
	{ "lsmem_cleaner_freed_bytes_total", "Memory gained.", "cleaner/compact_freed_bytes",
	  "cleaner/freed_bytes" },
	{ "lsmem_cleaner_seconds_total", "Time spent.", "cleaner/compact_ns",
	  "cleaner/clean_ns" },
	{ "lsmem_cleaner_passes_total", "Passes that emptied segments.", "cleaner/passes", NULL },
	{ "lsmem_cleaner_views_revoked_total", "Views that outlived their bound.",
	  "cleaner/views_revoked", NULL },
};

static void put_sources(const struct page *page)
{
	const struct source *s;
	uint64_t number, clean = 0;

	for (s = sources; s < sources + SIZE(sources); s++) {
		if (!kernel_number(page->status->store, s->path, &number) ||
		    (s->clean && !kernel_number(page->status->store, s->clean, &clean)))
			continue;	/* another version of the module may lack the file */
		put_header(page, s->name, type_of(s->name), s->help);
		put(page, s->name, s->clean ? "level" : NULL, "compact", number);
		if (s->clean)
			put(page, s->name, "level", "clean", clean);
	}
}

/* Number i counts waits of 2^i .. 2^(i+1) microseconds; the last number also longer waits. */
static void put_waits(const struct page *page)
{
	struct histogram histogram = { .sum = 0 };
	uint64_t stalls, throttles;
	const char *name = "lsmem_store_wait_seconds";
	char text[1024], *at, *end;
	unsigned int i;

	kernel_attribute(page->status->store, "stats/stall_histogram", text, sizeof(text));
	for (i = 0, at = text; i < WAITS; i++, at = end) {
		histogram.count[i + 1] = strtoull(at, &end, 10);
		if (end == at)
			return;
	}
	if (*end || !kernel_number(page->status->store, "stats/stall_ns", &stalls) ||
	    !kernel_number(page->status->store, "stats/throttle_ns", &throttles))
		return;
	histogram.sum = stalls + throttles;
	put_header(page, name, "histogram", "Stalls and throttles of writers.");
	put_histogram(page, name, &histogram, 1e6, 1, WAITS - 1);
}

/**
 * metrics_write - write all metrics
 * @out: the stream
 * @status: the store is known
 * @age_ns: age of @status
 *
 * Context: reads sysfs; a thread that nothing waits for.
 */
void metrics_write(FILE *out, const struct status *status, uint64_t age_ns)
{
	struct page page = { .out = out, .status = status, .backup = NO_BACKUP };

	put_daemon(&page, age_ns);
	if (status->cluster.host)
		put_cluster(&page);
	if (status->move.role)
		put_move(&page);
	if (status->recovery)
		put_recovery(&page);
	if (status->serving) {
		put_stream(&page);
		put_backups(&page);
	}
	if (status->serving && status->tiered) {
		put_fetching(&page);
		put_backups_fetching(&page);
	}
	put_sources(&page);
	put_waits(&page);
}
