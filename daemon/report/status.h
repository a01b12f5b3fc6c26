/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the daemon tells about itself: a JSON file, replaced at once (written
 * under another name and renamed) on SIGUSR1, at the end of a recovery and at
 * exit.  Counters grow from the daemon's start.  The buffer is allocated with
 * status_open(); nothing is allocated after that.
 */
#ifndef LSMEMD_STATUS_H
#define LSMEMD_STATUS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"
#include "cluster/cluster.h"
#include "core/core.h"

#define LSMEMD_VERSION		"0.1.0"

#define STATUS_LOST_MAX		4096u	/* losses named in the file; all are in the log */
#define STATUS_LOST_BYTES	160u
#define STATUS_ERROR_BYTES	96u
#define STATUS_UUID_BYTES	37u

/**
 * struct status_backup - one of the backups
 * @name: of its section in the configuration
 * @path: of the configuration
 * @domain: its failure domain, of the configuration
 * @ack_memory: bytes in the memory of its host are acknowledged, by the configuration
 * @index: in struct core_stats; LSMEM_BACKUPS: it is not there, or not used
 * @error: the last error; "": none
 */
struct status_backup {
	const char *name, *path, *domain;
	bool ack_memory;
	uint32_t index;
	char error[STATUS_ERROR_BYTES];
};

/**
 * struct status - what the status file and the metrics tell
 * @path: of the status file
 * @state: starting, recovering, waiting, active, draining, stopped, undrained, failed
 * @store: its node
 * @name: that the store was given; "": none
 * @kind: enum lsmem_store_kind
 * @uuid: of the store
 * @where: the backups, in words
 * @backups: in the order of the configuration
 * @nr_backups: how many
 * @cluster: of the ownership
 * @recovery: a recovery is under way or has ended; what follows up to @lost is of it
 * @read_bytes: from the backups
 * @recovered_bytes: of live entries
 * @recovered_objects: how many
 * @recovered_segments: how many
 * @recovery_ms: how long it took
 * @recovery_done: steps that are done; reading a segment is one
 * @recovery_all: steps in all
 * @losses: how many
 * @lost: the first STATUS_LOST_MAX losses, by name
 * @start_ns: when the daemon was started, by clock_now_ns()
 * @start_time: when the daemon was started, in seconds since 1970
 * @serving: what follows is known
 * @core: what the state machine counts
 * @events: taken from the kernel
 * @ranges: of @events, those that are ranges to make durable
 * @groups: times that ranges were acknowledged together
 * @passes: of combined cleaning that were begun
 * @passes_segments: segments in @passes
 * @passes_fruitless: passes that were wanted when no segment was worth one
 * @ack: ns from taking a range to its acknowledgement
 * @text: buffer in which the file is composed
 * @used: bytes of @text
 */
struct status {
	char path[PATH_MAX];
	const char *state;
	char store[LSMEM_NAME_BYTES];
	char name[LSMEM_NAME_BYTES];
	uint32_t kind;
	uint8_t uuid[16];
	const char *where;
	struct status_backup backups[LSMEM_BACKUPS];
	uint32_t nr_backups;
	struct cluster_figures cluster;

	bool recovery;
	uint64_t read_bytes;
	uint64_t recovered_bytes;
	uint64_t recovered_objects;
	uint64_t recovered_segments;
	uint64_t recovery_ms;
	uint64_t recovery_done, recovery_all;
	uint64_t losses;
	char (*lost)[STATUS_LOST_BYTES];

	uint64_t start_ns, start_time;
	bool serving;
	struct core_stats core;
	uint64_t events, ranges, groups;
	uint64_t passes, passes_segments, passes_fruitless;
	struct histogram ack;

	char *text;
	size_t used;
};

const char *status_backup_state(const struct status *status, uint32_t nr);
const char *status_backup_ack(const struct status *status, uint32_t nr);
const char *status_kind(const struct status *status);
const char *uuid_text(const uint8_t uuid[16], char text[STATUS_UUID_BYTES]);
const char *status_uuid(const struct status *status, char text[STATUS_UUID_BYTES]);
int status_open(struct status *status);
void status_close(struct status *status);
void status_lost(struct status *status, const char *what);
int status_write(struct status *status);

#endif
