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

#include <lsmem.h>

#define STATUS_LOST_MAX		4096u	/* losses named in the file; all are in the log */
#define STATUS_BUCKETS		48u	/* bucket n: below 2^n ns */

/**
 * struct status_loss - something acknowledged that a recovery did not find
 * @segment: where
 * @generation: of the segment
 * @from, @to: offsets in it; @to 0: unknown
 * @what: a short text
 */
struct status_loss {
	uint64_t segment;
	uint32_t generation;
	uint32_t from, to;
	char what[96];
};

struct status {
	char path[PATH_MAX];
	const char *state;
	char store[LSMEM_NAME_BYTES];
	uint32_t kind;
	uint8_t uuid[16];
	const char *backup;

	bool recovery;			/* there was one */
	uint64_t read_bytes;
	uint64_t recovered_bytes;
	uint64_t recovered_objects;
	uint64_t recovered_segments;
	uint64_t recovery_ms;
	uint64_t losses;
	struct status_loss *lost;	/* the first STATUS_LOST_MAX of them */

	uint64_t start_ns;
	uint64_t groups;		/* of ranges acknowledged together */
	uint64_t ranges, opened, closed, retired;
	uint64_t log_bytes;		/* of ranges */
	uint64_t written_bytes, writes;
	uint64_t read_ios;
	uint64_t flushes;
	uint64_t digests;
	uint64_t ack[STATUS_BUCKETS];	/* ns from range taken to acknowledged */
	uint64_t ack_ns;

	char *text;
	size_t used;
};

uint64_t status_now_ns(void);
int status_open(struct status *status);
void status_close(struct status *status);
void status_lost(struct status *status, uint64_t segment, uint32_t generation, uint32_t from,
		 uint32_t to, const char *what);
void status_ack(struct status *status, uint64_t ns);
int status_write(struct status *status);

#endif
