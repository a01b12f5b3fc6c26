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
 * @name, @path, @domain, @ack_memory: of the configuration
 * @index: in @core; LSMEM_BACKUPS: it is not there, or not used
 * @error: the last that there was, "" if none
 */
struct status_backup {
	const char *name, *path, *domain;
	bool ack_memory;
	uint32_t index;
	char error[STATUS_ERROR_BYTES];
};

/**
 * struct status - what there is to tell
 * @state: starting, recovering, active, draining, stopped, undrained, failed
 * @store: its node; @name: that it was given, "": none
 * @where: the backups, in words
 * @backups: @nr_backups of them, in the order of the configuration
 * @cluster: of the owner
 * @recovery: there is or was one; what follows is of it
 * @recovery_done: of @recovery_all steps, a segment read being one
 * @losses: how many; @lost: the first STATUS_LOST_MAX of them, by name
 * @serving: what follows is known
 * @core: what the state machine counts
 * @events: taken from the kernel; @ranges of them
 * @groups: times that ranges were acknowledged
 * @passes: of combined cleaning that were asked for and begun, over
 *	@passes_segments; @passes_fruitless: wanted, and nothing was worth it
 * @ack: ns from a range's taking to its acknowledgement
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
