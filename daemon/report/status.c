// SPDX-License-Identifier: GPL-2.0
/* The status of the daemon: see status.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "module/kernel.h"
#include "status.h"

#define TEXT_BYTES	(24576u + STATUS_LOST_MAX * 256u)

/**
 * status_open - allocate the buffers of a status
 * @status: zeroed by the caller
 *
 * Return: 0 or -ENOMEM.
 */
int status_open(struct status *status)
{
	status->text = malloc(TEXT_BYTES);
	status->lost = calloc(STATUS_LOST_MAX, sizeof(*status->lost));
	if (!status->text || !status->lost) {
		status_close(status);
		return -ENOMEM;
	}
	status->state = "starting";
	status->start_ns = clock_now_ns();
	status->start_time = (uint64_t)time(NULL);
	return 0;
}

/**
 * status_close - free what status_open() has allocated
 * @status: the status
 */
void status_close(struct status *status)
{
	free(status->text);
	free(status->lost);
	status->text = NULL;
	status->lost = NULL;
}

/**
 * status_lost - add a loss
 * @status: the status
 * @what: what was lost, as text
 */
void status_lost(struct status *status, const char *what)
{
	if (status->losses < STATUS_LOST_MAX)
		snprintf(status->lost[status->losses], STATUS_LOST_BYTES, "%s", what);
	status->losses++;
}

/**
 * status_move_ended - a move has ended, or one side has left it
 * @move: its status
 * @host: the other host
 * @error: a negative errno; 0: it is no error, or not known
 * @cause: why
 */
void status_move_ended(struct status_move *move, const char *host, int error, const char *cause)
{
	snprintf(move->last.host, sizeof(move->last.host), "%s", host);
	snprintf(move->last.cause, sizeof(move->last.cause), "%s", cause);
	move->last.error = error;
	move->last.at_ns = clock_now_ns();
	move->ends++;
}

/**
 * status_move_cancel - answer a request to cancel a move
 * @move: its status
 * @refused: why nothing is cancelled; NULL: a move is
 */
void status_move_cancel(struct status_move *move, const char *refused)
{
	snprintf(move->refused, sizeof(move->refused), "%s", refused ? refused : "");
	move->cancels++;
}

/**
 * status_move_ask - answer a request to begin a move, which is logged
 * @move: its status
 * @name: of the store, for the log
 * @refused: why none begins; NULL: it does
 */
void status_move_ask(struct status_move *move, const char *name, const char *refused)
{
	snprintf(move->ask_refused, sizeof(move->ask_refused), "%s", refused ? refused : "");
	move->asks++;
	move->ask_ends = move->ends;
	log_notice("%s: an operator wants it to be moved now (SIGRTMIN)%s%s", name, refused ? ", which is refused: " : "",
		   refused ? refused : "");
}

static void put(struct status *status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void put(struct status *status, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(status->text + status->used, TEXT_BYTES - status->used, format, args);
	va_end(args);
	if (n > 0 && (size_t)n < TEXT_BYTES - status->used)
		status->used += (size_t)n;
}

static void put_string(struct status *status, const char *text)
{
	put(status, "\"");
	for (; text && *text; text++) {
		if (*text == '"' || *text == '\\')
			put(status, "\\%c", *text);
		else if ((unsigned char)*text < 0x20)
			put(status, "\\u%04x", (unsigned int)*text);
		else
			put(status, "%c", *text);
	}
	put(status, "\"");
}

static void put_recovery(struct status *status)
{
	uint64_t i, named = status->losses < STATUS_LOST_MAX ? status->losses : STATUS_LOST_MAX;

	put(status, "  \"recovered\": %s,\n", status->recovery ? "true" : "false");
	put(status, "  \"recovered_bytes\": %" PRIu64 ",\n", status->recovered_bytes);
	put(status, "  \"recovered_objects\": %" PRIu64 ",\n", status->recovered_objects);
	put(status, "  \"recovered_segments\": %" PRIu64 ",\n", status->recovered_segments);
	put(status, "  \"recovery_read_bytes\": %" PRIu64 ",\n", status->read_bytes);
	put(status, "  \"recovery_seconds\": %" PRIu64 ".%03" PRIu64 ",\n",
	    status->recovery_ms / 1000, status->recovery_ms % 1000);
	put(status, "  \"lost_count\": %" PRIu64 ",\n  \"lost\": [", status->losses);
	for (i = 0; i < named; i++) {
		put(status, "%s\n    ", i ? "," : "");
		put_string(status, status->lost[i]);
	}
	put(status, "%s],\n", named ? "\n  " : "");
}

static void put_latency(struct status *status, const char *name,
			const struct histogram *histogram)
{
	bool first = true;
	unsigned int i;

	put(status, "  \"%s\": [", name);
	for (i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (!histogram->count[i])
			continue;
		put(status, "%s\n    {\"at_most_ns\": %" PRIu64 ", \"count\": %" PRIu64 "}",
		    first ? "" : ",", (uint64_t)1 << i, histogram->count[i]);
		first = false;
	}
	put(status, "%s]", first ? "" : "\n  ");
}

/* Reads of all backups for fetching. */
static uint64_t fetch_reads(const struct fetch_stats *fetch)
{
	uint64_t reads = 0;
	uint32_t b;

	for (b = 0; b < CORE_BACKUPS; b++)
		reads += fetch->backup[b].reads;
	return reads;
}

/* Figures of fetching, of a tiered store. */
static void put_fetching(struct status *status)
{
	const struct fetch_stats *fetch = &status->fetch;
	uint64_t reads = fetch_reads(fetch);
	const struct {
		const char *name;
		uint64_t value;
	} counters[] = {
		{ "fetches", fetch->fetches },
		{ "fetched_bytes", fetch->bytes },
		{ "fetch_reads", reads },
		{ "fetch_merged", fetch->merged },
		{ "fetch_segments", fetch->segments },
		{ "fetch_second", fetch->second },
		{ "fetch_replaced", fetch->replaced },
		{ "fetch_degraded", fetch->degraded },
		{ "fetch_longer", fetch->longer },
		{ "fetch_again", fetch->again },
		{ "fetch_failures", fetch->failures },
		{ "fetch_requests", fetch->under_way },
		{ "fetch_ns", fetch->latency.sum },
	};
	unsigned int i;

	if (!status->tiered)
		return;
	for (i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		put(status, "  \"%s\": %" PRIu64 ",\n", counters[i].name, counters[i].value);
	put_latency(status, "fetch_latency", &fetch->latency);
	put(status, ",\n");
}

static void put_counters(struct status *status)
{
	const struct core_stats *core = &status->core;
	const struct {
		const char *name;
		uint64_t value;
	} counters[] = {
		{ "events", status->events },
		{ "ranges", status->ranges },
		{ "groups", status->groups },
		{ "log_bytes", core->log_bytes },
		{ "written_bytes", core->written_bytes },
		{ "bounced_bytes", core->bounced_bytes },
		{ "writes", core->writes },
		{ "flushes", core->flushes },
		{ "digests", core->digests },
		{ "digests_full", core->digests_full },
		{ "segments_opened", core->opened },
		{ "segments_closed", core->closed },
		{ "segments_retired", core->retired },
		{ "passes_asked", status->passes },
		{ "passes_segments", status->passes_segments },
		{ "passes_fruitless", status->passes_fruitless },
		{ "backup_frames", core->frames },
		{ "backup_frames_free", core->frames_free },
		{ "segments", core->segments },
		{ "segments_coded", core->coded },
		{ "segments_unlike", core->unlike },
		{ "converted_bytes", status->converted },
		{ "in_flight", core->in_flight },
		{ "lag_segments", core->lag_segments },
		{ "lag_bytes", core->lag_bytes },
		{ "memory_bytes", core->memory_bytes },
		{ "segments_short", core->short_segments + core->short_open },
		{ "replicas_copied", core->copied },
		{ "replicas_copied_bytes", core->copied_bytes },
		{ "replicas_copied_memory", core->copied_memory },
		{ "replicas_kept", core->kept },
		{ "replicas_checked", core->checked },
		{ "replicas_bad", core->bad_replicas },
		{ "shards_unfit", core->unfit },
		{ "batches", core->batches },
		{ "batches_partial", core->batches_partial },
		{ "rows_full", core->rows_full },
		{ "data_blocks", core->data_blocks },
		{ "parity_blocks", core->parity_blocks },
		{ "replicas_failed", core->copies_failed },
		{ "term", core->term },
		{ "sequence", core->sequence },
		{ "ack_ns", status->ack.sum },
	};
	unsigned int i;

	for (i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		put(status, "  \"%s\": %" PRIu64 ",\n", counters[i].name, counters[i].value);
	put_latency(status, "ack_latency", &status->ack);
	put(status, "\n");
}

/**
 * status_backup_state - the name of a backup's state
 * @status: the status
 * @nr: its place in the configuration
 *
 * Return: a constant text.
 */
const char *status_backup_state(const struct status *status, uint32_t nr)
{
	static const char *const states[] = {
		[CORE_BACKUP_NONE] = "missing", [CORE_BACKUP_JOINING] = "joining",
		[CORE_BACKUP_MEMBER] = "used",
		[CORE_BACKUP_LEAVING] = "leaving", [CORE_BACKUP_LOST] = "lost",
	};
	uint32_t index = status->backups[nr].index;

	if (!status->serving)
		return "unknown";
	return index == LSMEM_BACKUPS ? "missing" : states[status->core.backup[index].state];
}

/**
 * status_backup_ack - the value of "ack =" of a backup
 * @status: the status
 * @nr: its place in the configuration
 *
 * Return: a constant text.
 */
const char *status_backup_ack(const struct status *status, uint32_t nr)
{
	return status->backups[nr].ack_memory ? "memory" : "durable";
}

static void put_backup(struct status *status, uint32_t nr)
{
	static const struct core_backup_stats none;
	const struct status_backup *backup = &status->backups[nr];
	const struct core_backup_stats *stats = backup->index == LSMEM_BACKUPS ? &none :
						&status->core.backup[backup->index];
	uint64_t written = 0;
	uint32_t part;

	for (part = 0; part < CORE_PARTS; part++)
		written += stats->bytes[part];
	put(status, "%s\n    {\"name\": ", nr ? "," : "");
	put_string(status, backup->name);
	put(status, ", \"path\": ");
	put_string(status, backup->path);
	put(status, ", \"domain\": ");
	put_string(status, backup->domain);
	put(status, ", \"error\": ");
	put_string(status, backup->error);
	put(status, ", \"ack\": \"%s\"", status_backup_ack(status, nr));
	put(status, ", \"state\": \"%s\", \"frames\": %" PRIu64 ", \"frames_free\": %" PRIu64 ", \"frames_low\": %s, \"lag_bytes\": %" PRIu64 ", \"lag_segments\": %" PRIu64 ", \"in_flight\": %" PRIu64 ", \"written_bytes\": %" PRIu64 ", \"flushes\": %" PRIu64,
	    status_backup_state(status, nr), stats->frames, stats->frames_free,
	    stats->frames_low ? "true" : "false", stats->lag_bytes, stats->lag_segments,
	    stats->in_flight, written, stats->flushes);
	if (status->k)
		put(status, ", \"replicas\": %" PRIu64 ", \"data_shards\": %" PRIu64 ", \"parity_shards\": %" PRIu64,
		    stats->replicas, stats->data_shards, stats->parity_shards);
	put(status, "}");
}

/* The code of a coded store, as on its backups. */
static void put_code(struct status *status)
{
	if (status->k)
		put(status, "  \"code\": \"%u+%u\",\n", status->k, status->m);
}

static void put_backups(struct status *status)
{
	uint32_t nr;

	put(status, "  \"backups\": [");
	for (nr = 0; nr < status->nr_backups; nr++)
		put_backup(status, nr);
	put(status, "\n  ],\n");
}

static void put_seconds(struct status *status, const char *name, uint64_t ns)
{
	put(status, "\"%s\": %" PRIu64 ".%03" PRIu64, name, ns / 1000000000u, ns / 1000000u % 1000u);
}

static void put_cluster(struct status *status)
{
	const struct cluster_figures *c = &status->cluster;

	if (!c->host)
		return;
	put(status, "  \"cluster_host\": \"%s\",\n  \"cluster_term\": %" PRIu64 ",\n", c->host,
	    c->term);
	put(status, "  ");
	put_seconds(status, "cluster_left_seconds", c->left_ns);
	put(status, ",\n");
	put(status, "  \"cluster_failures\": %" PRIu64 ",\n", c->failures);
	put(status, "  \"cluster_members_stale\": %s,\n", c->stale ? "true" : "false");
}

static void put_move(struct status *status)
{
	const struct status_move *move = &status->move;

	if (!move->role)
		return;
	put(status, "  \"move\": {\"role\": \"%s\", \"state\": \"%s\", \"host\": ", move->role, move->state);
	put_string(status, move->host);
	put(status, ", \"standby\": %s", move->standby ? "true" : "false");
	put(status, ", \"bytes\": %" PRIu64 ", \"blocks\": %" PRIu64 ", \"objects\": %" PRIu64 ", \"segments_left\": %" PRIu64 ", ",
	    move->bytes, move->blocks, move->objects, move->left);
	put(status, "\"pulled\": %" PRIu64 ", \"pulled_bytes\": %" PRIu64 ", \"pulls_late\": %" PRIu64
	    ", \"pulls_failed\": %" PRIu64 ", ",
	    move->pull.objects, move->pull.bytes, move->pull.late, move->pull.wrong + move->pull.cut);
	put(status, "\"brought\": %" PRIu64 ", \"brought_bytes\": %" PRIu64 ", \"brought_wrong\": %" PRIu64
	    ", \"bring_left_bytes\": %" PRIu64 ", ",
	    move->bulk.objects, move->bulk.bytes, move->bulk.wrong, (uint64_t)move->bulk.left * LSMEM_SEGLET_BYTES);
	put_seconds(status, "stopped_seconds", move->stopped_ns);
	put(status, ", \"cancels\": %" PRIu64 ", \"cancel_refused\": ", move->cancels);
	put_string(status, move->refused);
	put(status, ", \"asks\": %" PRIu64 ", \"ask_ends\": %" PRIu64 ", \"ask_refused\": ", move->asks, move->ask_ends);
	put_string(status, move->ask_refused);
	put(status, ", \"ends\": %" PRIu64, move->ends);
	if (move->ends) {
		put(status, ",\n    \"last\": {\"host\": ");
		put_string(status, move->last.host);
		put(status, ", \"cause\": ");
		put_string(status, move->last.cause);
		put(status, ", \"error\": %d, ", -move->last.error);
		put_seconds(status, "seconds_ago", clock_now_ns() - move->last.at_ns);
		put(status, "}");
	}
	put(status, "},\n");
}

static int replace(const struct status *status)
{
	char temporary[PATH_MAX];
	size_t done = 0;
	ssize_t n;
	int fd, err = 0;

	if (snprintf(temporary, sizeof(temporary), "%s.new", status->path) >=
	    (int)sizeof(temporary))
		return -ENAMETOOLONG;
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	while (done < status->used && !err) {
		n = write(fd, status->text + done, status->used - done);
		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			err = -errno;
	}
	close(fd);
	if (!err && rename(temporary, status->path))
		err = -errno;
	if (err)
		unlink(temporary);
	return err;
}

/**
 * status_write - replace the status file
 * @status: the status; without a path nothing is done
 *
 * Return: 0 or a negative errno, which was logged.
 */
int status_write(struct status *status)
{
	uint64_t ms = (clock_now_ns() - status->start_ns) / 1000000;
	char uuid[UUID_TEXT_BYTES];
	int err;

	if (!status->path[0])
		return 0;
	status->used = 0;
	put(status, "{\n  \"state\": \"%s\",\n  \"store\": ", status->state);
	put_string(status, status->store);
	put(status, ",\n  \"given_name\": ");
	put_string(status, status->name);
	put(status, ",\n  \"kind\": \"%s\",\n  \"uuid\": \"%s\",\n  \"backup\": ",
	    kernel_kind(status->kind), uuid_text(status->uuid, uuid));
	put_string(status, status->where);
	put(status, ",\n  \"pid\": %ld,\n  \"uptime_seconds\": %" PRIu64 ".%03" PRIu64 ",\n",
	    (long)getpid(), ms / 1000, ms % 1000);
	put_code(status);
	put_backups(status);
	put_cluster(status);
	put_move(status);
	put_recovery(status);
	put_fetching(status);
	put_counters(status);
	put(status, "}\n");
	err = replace(status);
	if (err)
		log_warn("%s: cannot be written: %s", status->path, strerror(-err));
	return err;
}
