/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The status of the daemon: a JSON file, written when the store becomes active, on SIGUSR1, when a
 * recovery fails and at exit. It is written under another name and renamed, so a reader sees a
 * whole file. Counters start with the daemon. Nothing is allocated after status_open().
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
#include "core/fetch.h"
#include "move/bulk.h"
#include "move/pull.h"

#define LSMEMD_VERSION		"0.1.0"

#define STATUS_LOST_MAX		4096u	/* losses named in the file; the log has all of them */
#define STATUS_LOST_BYTES	160u
#define STATUS_ERROR_BYTES	96u
#define STATUS_HOST_BYTES	256u
#define STATUS_CAUSE_BYTES	272u

/**
 * struct status_backup - a backup
 * @name: of its section in the configuration
 * @path: as in the configuration
 * @domain: its failure domain, as in the configuration
 * @ack_memory: as in the configuration: bytes in the memory of its host are acknowledged
 * @index: its index in struct core_stats; LSMEM_BACKUPS: it is missing, or not used
 * @error: the last error; "": none
 */
struct status_backup {
	const char *name, *path, *domain;
	bool ack_memory;
	uint32_t index;
	char error[STATUS_ERROR_BYTES];
};

/**
 * struct status_move - the moves of the store: from this host, or to it
 * @role: "source" or "target"; NULL: the store cannot be moved from here, and is not moved to here
 * @state: of the order of its role (migration.rst), in lower case
 * @host: the other host; of a target, the address of its source. "": none takes part now
 * @standby: a move could begin at once: this host stands by, or another one knows all that this one has
 * @bytes: of the blocks that were told in this move
 * @blocks: how many
 * @objects: source: of the frozen store, 0 before; target: that are known
 * @left: source: segments that are still to be told
 * @stopped_ns: how long the clients were stopped, or are, by the last move that has stopped them
 * @pull: target: what was read from the source's memory when the kernel asked
 * @bulk: target: .. and behind that
 * @cancels: SIGUSR2 that were answered
 * @refused: why the last of these has cancelled nothing; "": it has cancelled a move
 * @asks: SIGRTMIN that were answered
 * @ask_refused: why the last of these has begun nothing; "": it has begun a move
 * @ask_ends: @ends when it was answered
 * @ends: moves that have ended since the daemon was started
 * @last: how the last one of these has ended: the other host; a negative errno, 0: it is not an error, or not known; why; and
 *	when, by clock_now_ns()
 */
struct status_move {
	const char *role, *state;
	char host[STATUS_HOST_BYTES];
	bool standby;
	uint64_t bytes, blocks, objects, left, stopped_ns;
	struct pull_stats pull;
	struct bulk_stats bulk;
	uint64_t cancels;
	char refused[STATUS_CAUSE_BYTES];
	uint64_t asks, ask_ends;
	char ask_refused[STATUS_CAUSE_BYTES];
	uint64_t ends;
	struct {
		char host[STATUS_HOST_BYTES], cause[STATUS_CAUSE_BYTES];
		int error;
		uint64_t at_ns;
	} last;
};

/**
 * struct status - the status, for the status file and the metrics
 * @path: of the status file; "": none is written
 * @state: starting, recovering, waiting, active, draining, stopped, undrained, failed
 * @store: node of the store
 * @name: name of the store; "": none
 * @kind: enum lsmem_store_kind
 * @uuid: of the store
 * @where: the backups, as text for messages
 * @backups: in the order of the configuration
 * @nr_backups: number of backups
 * @k: of a coded store: data shards of each coded segment; 0: not coded
 * @m: parity shards
 * @cluster: figures of the ownership
 * @move: its moves
 * @recovery: a recovery is under way or has ended; the members up to @lost describe it
 * @read_bytes: bytes read from the backups
 * @recovered_bytes: bytes of live entries
 * @recovered_objects: number of objects
 * @recovered_segments: number of segments
 * @recovery_ms: duration of the recovery
 * @recovery_done: steps that are done; reading a segment is a step
 * @recovery_all: all steps
 * @losses: number of losses
 * @lost: the first STATUS_LOST_MAX losses, as text
 * @start_ns: when the daemon was started, by clock_now_ns()
 * @start_time: when the daemon was started, in seconds since 1970
 * @serving: the store is served; the members up to @ack are valid
 * @core: counters of the state machine
 * @events: events taken from the kernel
 * @ranges: of @events, ranges to make durable
 * @groups: acknowledgements of one or more ranges together
 * @passes: passes of cleaning that began
 * @passes_segments: segments chosen for @passes
 * @passes_fruitless: times that a pass was wanted and no segment was worth it
 * @converted: bytes of segments that passes began to clean only because new ones are of another kind
 * @tiered: the store is tiered, and @fetch is valid
 * @fetch: counters of fetching
 * @ack: ns from taking a range to its acknowledgement
 * @text: buffer for the text of the file
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
	uint32_t k, m;
	struct cluster_figures cluster;
	struct status_move move;

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
	uint64_t passes, passes_segments, passes_fruitless, converted;
	bool tiered;
	struct fetch_stats fetch;
	struct histogram ack;

	char *text;
	size_t used;
};

const char *status_backup_state(const struct status *status, uint32_t nr);
const char *status_backup_ack(const struct status *status, uint32_t nr);
int status_open(struct status *status);
void status_close(struct status *status);
void status_lost(struct status *status, const char *what);
void status_move_ended(struct status_move *move, const char *host, int error, const char *cause);
void status_move_cancel(struct status_move *move, const char *refused);
void status_move_ask(struct status_move *move, const char *name, const char *refused);
int status_write(struct status *status);

#endif
