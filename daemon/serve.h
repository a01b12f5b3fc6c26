/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The steady state, as its parts share it:
 *
 *	serve.c		the loop, the kernel's stream, acknowledgements, the end
 *	serve_backups.c	backups that are slow, gone, bad, nearly full; whether enough are left
 *	serve_clean.c	passes of combined cleaning
 */
#ifndef LSMEMD_SERVE_H
#define LSMEMD_SERVE_H

#include "lsmemd.h"

#define ACKS		512u
#define RANGES		1024u		/* measured at a time; more are not measured */

struct serve;

/**
 * struct slot - a request in flight
 * @begun_ns: when, 0: it is not
 * @awaited: somebody waits for it, as far as can be told
 */
struct slot {
	struct backup_io io;
	struct core_io request;
	uint64_t begun_ns;
	bool awaited;
	struct serve *serve;
	struct slot *next;
};

/**
 * enum clean_state - who waits for what, in cleaning
 * @CLEAN_IDLE: the poll for POLLPRI is to be armed
 * @CLEAN_POLLED: the kernel wants no pass, or one is under way
 * @CLEAN_WANTED: a choice is to be made
 * @CLEAN_FRUITLESS: there was nothing to choose: until the stream goes on, or
 *	the tick
 * @CLEAN_PAUSED: it has gone on: not before FRUITLESS_NS have passed
 */
enum clean_state {
	CLEAN_IDLE,
	CLEAN_POLLED,
	CLEAN_WANTED,
	CLEAN_FRUITLESS,
	CLEAN_PAUSED,
};

struct range {
	uint64_t segment;
	uint64_t ns;
	uint32_t to;
};

/**
 * struct serve - the steady state
 * @poll: on the replication descriptor; armed when the stream was empty
 * @ready: the kernel may have events
 * @quiet: the poll came and there was nothing: wait before it is armed again
 * @drained: after the signal, the stream was empty once and no pass of cleaning
 *	under way: core is told to stop
 * @resumed: store and backup belong together, as far as core can tell
 * @io_error: of the first request that failed, or of a backup without one
 * @unowned: the store may be another host's
 * @few: backups are left, fewer than nothing can be acknowledged with
 * @low: backups that have been called nearly full
 */
struct serve {
	struct lsmemd *d;
	struct core *core;
	struct loop_op poll;
	struct loop_timer tick, pause, bound;
	bool armed, ready, quiet, pausing;
	bool stopping, drained, late, resumed;
	int io_error, error;
	bool unowned, few;
	uint32_t low;
	uint64_t watchdog_ns, watchdog_last;
	enum clean_state clean;
	struct loop_op clean_poll;
	struct loop_timer clean_pause;
	struct clean_choice choice;
	struct slot *free;
	struct slot slots[CORE_IOS * CORE_BACKUPS];
	uint32_t awaited[CORE_BACKUPS];
	enum core_backup_state states[CORE_BACKUPS];	/* as far as they have been told */
	struct lsmem_event events[KERNEL_EVENTS];
	struct lsmem_ack_one acks[ACKS];
	struct range ranges[RANGES];
	unsigned int nr_ranges;
};

void serve_failed(const struct slot *slot, int error, const char *why);

bool serve_waits_for_answers(const struct serve *s);
bool serve_waits_for_backups(const struct serve *s);
void serve_lose_slow(struct serve *s, uint64_t now);
void serve_lose_gone(struct serve *s);
bool serve_watch_backups(struct serve *s);
void serve_watch_room(struct serve *s);

void serve_clean_init(struct serve *s);
void serve_clean(struct serve *s, bool progress);

#endif
