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

#include "core.h"

#define STATUS_LOST_MAX		4096u	/* losses named in the file; all are in the log */
#define STATUS_LOST_BYTES	160u
#define STATUS_BUCKETS		48u	/* bucket n: below 2^n ns */

/**
 * struct status - what there is to tell
 * @recovery: there was one; what follows is of it
 * @losses: how many; @lost: the first STATUS_LOST_MAX of them, by name
 * @core: what the state machine counts
 * @events: taken from the kernel; @ranges of them
 * @groups: times that ranges were acknowledged
 * @passes: of combined cleaning that were asked for and begun, over
 *	@passes_segments; @passes_fruitless: wanted, and nothing was worth it
 * @ack: histogram of ns from a range's taking to its acknowledgement
 */
struct status {
	char path[PATH_MAX];
	const char *state;
	char store[LSMEM_NAME_BYTES];
	uint32_t kind;
	uint8_t uuid[16];
	const char *backup;

	bool recovery;
	uint64_t read_bytes;
	uint64_t recovered_bytes;
	uint64_t recovered_objects;
	uint64_t recovered_segments;
	uint64_t recovery_ms;
	uint64_t losses;
	char (*lost)[STATUS_LOST_BYTES];

	uint64_t start_ns;
	struct core_stats core;
	uint64_t events, ranges, groups;
	uint64_t passes, passes_segments, passes_fruitless;
	uint64_t ack[STATUS_BUCKETS];
	uint64_t ack_ns;

	char *text;
	size_t used;
};

uint64_t status_now_ns(void);
int status_open(struct status *status);
void status_close(struct status *status);
void status_lost(struct status *status, const char *what);
void status_ack(struct status *status, uint64_t ns);
int status_write(struct status *status);

#endif
