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
#define RANGES		1024u

struct serve;

/**
 * struct slot - a request in flight
 * @io: to the backup
 * @request: of core
 * @begun_ns: when it was started; 0: there is none
 * @awaited: its end may lead to an acknowledgement
 * @serve: the steady state
 * @next: in the list of free slots
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
 * enum clean_state - what combined cleaning waits for
 * @CLEAN_IDLE: the poll for POLLPRI is to be started
 * @CLEAN_POLLED: the kernel wants no pass, or one is under way
 * @CLEAN_WANTED: a choice is to be made
 * @CLEAN_FRUITLESS: no segment was worth a pass: the next choice waits for an event or for the tick
 * @CLEAN_PAUSED: an event came: the next choice waits until FRUITLESS_NS have passed
 */
enum clean_state {
	CLEAN_IDLE,
	CLEAN_POLLED,
	CLEAN_WANTED,
	CLEAN_FRUITLESS,
	CLEAN_PAUSED,
};

/**
 * struct range - a range whose acknowledgement is timed
 * @segment: its id
 * @ns: when the range was taken from the kernel
 * @to: its end
 */
struct range {
	uint64_t segment;
	uint64_t ns;
	uint32_t to;
};

/**
 * struct serve - the steady state
 * @d: the daemon
 * @core: its state machine
 * @poll: of the replication descriptor; started when the stream was empty
 * @tick: every serve_tick_ns()
 * @pause: before @poll is started again, with @quiet
 * @bound: of the shutdown
 * @armed: @poll is in flight
 * @ready: the kernel may have events
 * @quiet: the poll completed although there were no events: pause before the next one
 * @pausing: @pause is running
 * @stopping: a signal asked for the end
 * @drained: with @stopping: the stream was empty once and no pass was under way: core was told to
 *	stop
 * @late: @bound has expired
 * @resumed: store and backups belong together, as far as core can tell
 * @io_error: of the first request that failed, or of a backup that failed without one
 * @error: of the kernel or the loop: the daemon ends
 * @unowned: another host may own the store
 * @few: too few backups are left to acknowledge anything
 * @low: backups that were logged as nearly full, a mask
 * @watchdog_ns: period of the service manager's watchdog; 0: none
 * @watchdog_last: when it was told last
 * @clean: what cleaning waits for
 * @clean_poll: for POLLPRI
 * @clean_pause: of CLEAN_PAUSED
 * @choice: of segments
 * @free: slots without a request
 * @slots: requests
 * @awaited: by backup: slots with @awaited
 * @states: by backup: as it was logged last
 * @events: taken from the kernel
 * @acks: for the kernel
 * @ranges: being timed; more than RANGES are not
 * @nr_ranges: how many
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
	enum core_backup_state states[CORE_BACKUPS];
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
