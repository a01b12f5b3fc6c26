/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The steady state. Its parts share this header:
 *
 *	serve.c		the loop, the kernel's stream, failed requests, acknowledgements, the end
 *	serve_backups.c	slow, lost and nearly full backups, bad replicas; are enough backups left?
 *	serve_clean.c	passes of cleaning
 *	serve_convert.c	segments of another kind than new ones
 *	serve_fetch.c	objects of a tiered store that are on backups only
 *	serve_move.c	another host moves the store to itself: the source of a migration
 */
#ifndef LSMEMD_SERVE_H
#define LSMEMD_SERVE_H

#include "lsmemd.h"
#include "move/bulk.h"

#define ACKS		512u
#define RANGES		1024u
#define NEAR_TOLD	1024u

struct serve;
struct serve_move;

/**
 * struct slot - memory for a request in flight
 * @io: the request to the backup
 * @request: the request of core
 * @begun_ns: when the request was started, by clock_now_ns(), or when a tick saw it first; 0: no tick has
 *	seen it yet
 * @busy: the request is in flight
 * @awaited: the end of the request may lead to an acknowledgement
 * @serve: the steady state
 * @next: in the list of free slots
 */
struct slot {
	struct backup_io io;
	struct core_io request;
	uint64_t begun_ns;
	bool busy, awaited;
	struct serve *serve;
	struct slot *next;
};

/**
 * struct fetch_slot - memory for a read of fetching; its place is the id of the read
 * @io: the request to the backup
 * @iov: its memory
 * @read: the read
 * @begun_ns: when it was started, by clock_now_ns(); 0: none is in flight
 * @serve: the steady state
 */
struct fetch_slot {
	struct backup_io io;
	struct iovec iov;
	struct fetch_read read;
	uint64_t begun_ns;
	struct serve *serve;
};

/**
 * enum clean_state - what cleaning waits for
 * @CLEAN_IDLE: nothing: serve_clean() starts the poll for POLLPRI
 * @CLEAN_POLLED: the poll: the kernel wants no pass, or one is under way
 * @CLEAN_WANTED: nothing: the kernel wants a pass, and serve_clean() chooses segments
 * @CLEAN_FRUITLESS: an event or the tick: no segment was worth a pass
 * @CLEAN_PAUSED: FRUITLESS_NS after that event
 */
enum clean_state {
	CLEAN_IDLE,
	CLEAN_POLLED,
	CLEAN_WANTED,
	CLEAN_FRUITLESS,
	CLEAN_PAUSED,
};

/**
 * struct near_told - where the kernel was told that a segment is on the near drive
 * @segment: id; 0: none
 * @offset: of its log data, bytes
 */
struct near_told {
	uint64_t segment;
	uint64_t offset;
};

/**
 * struct range - a range whose acknowledgement is timed
 * @segment: id of the segment
 * @ns: when the range was taken from the kernel, by clock_now_ns()
 * @to: end of the range, a byte in the segment
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
 * @poll: poll of the replication descriptor for POLLIN
 * @tick: timer, every serve_tick_ns()
 * @pause: timer, before the next @poll if @quiet
 * @bound: timer that bounds the shutdown
 * @batch: timer, until core_due()
 * @armed: @poll is in flight
 * @ready: the kernel may have events
 * @quiet: @poll completed, and no event has come since: pause before the next one
 * @pausing: @pause is running
 * @batching: @batch is running
 * @stopping: a signal has begun the shutdown
 * @drained: the stream was empty after @stopping and no pass was under way: core was told to stop
 * @late: @bound has expired
 * @stopped_ns: when the shutdown began, by clock_now_ns()
 * @resumed: core has found that store and backups belong together
 * @io_error: error of the last request or backup that failed; 0: none
 * @error: error of the kernel or the loop, which ends the daemon; 0: none
 * @unowned: another host may own the store
 * @parked: .. and the daemon goes on, since it was moved: nothing is taken from the kernel, written or acknowledged
 * @few: too few backups are left to acknowledge anything
 * @low: backups that were logged as nearly full: a mask of their indexes
 * @limit: segments that the kernel was told last that there is room for; 0: nothing
 * @watchdog_ns: timeout of the service manager's watchdog; 0: none
 * @watchdog_last: when WATCHDOG=1 was sent last, by clock_now_ns()
 * @convert_left: bytes that conversion may clean now; negative: it has to wait
 * @convert_from: lowest id of a segment that is converted next
 * @converting: there was something to convert
 * @clean: what cleaning waits for
 * @clean_poll: poll of the replication descriptor for POLLPRI
 * @clean_pause: timer of CLEAN_PAUSED
 * @choice: the segments chosen for a pass
 * @fetch_poll: poll of the replication descriptor for POLLRDBAND
 * @fetch_timer: timer, before the next look at deadlines
 * @fetch_armed: @fetch_poll is in flight
 * @fetch_wanted: the kernel may have fetch requests
 * @fetch_timing: @fetch_timer is running
 * @fetch_said_ns: when the next message about failures is allowed, by clock_now_ns()
 * @fetch_unsaid: failures that were not logged
 * @near: index of the backup that the kernel reads itself; CORE_BACKUPS: none
 * @near_slots: slots of the backups that are members and on this host, when @near was chosen; LSMEM_BACKUPS:
 *	the others
 * @near_told: what the kernel was told last of places on it, by id
 * @fetches: requests of the kernel
 * @fills: answers for the kernel
 * @brings: objects for the kernel that it has not asked for
 * @fetch_slots: reads of fetching
 * @move: the source of a migration; NULL: the store cannot be moved
 * @free: slots without a request
 * @slots: all slots
 * @awaited: by index of the backup: slots with @awaited
 * @states: by index of the backup: the state that was logged last
 * @events: events from the kernel
 * @acks: acknowledgements for the kernel
 * @ranges: ranges that are being timed; further ones are not timed
 * @nr_ranges: number of @ranges
 * @clock_ns: a time by clock_now_ns(), read again after each tick; 0: to be read
 * @clock_store: the store's clock at @clock_ns
 */
struct serve {
	struct lsmemd *d;
	struct core *core;
	struct loop_op poll;
	struct loop_timer tick, pause, bound, batch;
	bool armed, ready, quiet, pausing, batching;
	bool stopping, drained, late, resumed;
	uint64_t stopped_ns;
	int io_error, error;
	bool unowned, parked, few;
	uint32_t low, limit;
	int64_t convert_left;
	uint64_t convert_from;
	bool converting;
	uint64_t watchdog_ns, watchdog_last;
	enum clean_state clean;
	struct loop_op clean_poll;
	struct loop_timer clean_pause;
	struct clean_choice choice;
	struct loop_op fetch_poll;
	struct loop_timer fetch_timer;
	bool fetch_armed, fetch_wanted, fetch_timing;
	uint64_t fetch_said_ns, fetch_unsaid;
	uint32_t near, near_slots[CORE_BACKUPS];
	struct near_told near_told[NEAR_TOLD];
	struct lsmem_fetch_one fetches[KERNEL_FETCHES];
	struct lsmem_fill_one fills[KERNEL_FETCHES];
	struct lsmem_bring_one brings[BULK_OBJECTS];
	struct fetch_slot fetch_slots[FETCH_READS * CORE_BACKUPS];
	struct serve_move *move;
	struct slot *free;
	struct slot slots[CORE_IOS * CORE_BACKUPS];
	uint32_t awaited[CORE_BACKUPS];
	enum core_backup_state states[CORE_BACKUPS];
	struct lsmem_event events[KERNEL_EVENTS];
	struct lsmem_ack_one acks[ACKS];
	struct range ranges[RANGES];
	unsigned int nr_ranges;
	uint64_t clock_ns, clock_store;
};

void serve_failed(const struct slot *slot, int error, const char *why);
bool serve_is_quiet(struct serve *s);

bool serve_waits_for_answers(const struct serve *s);
bool serve_waits_for_backups(const struct serve *s);
void serve_lose_slow(struct serve *s, uint64_t now);
void serve_lose_gone(struct serve *s);
bool serve_watch_backups(struct serve *s);
void serve_watch_room(struct serve *s);

void serve_clean_init(struct serve *s);
void serve_clean(struct serve *s, bool progress);
bool serve_mend_also(struct serve *s, uint64_t segment);
bool serve_mend(struct serve *s);
void serve_mend_stop(struct serve *s, const char *why);

void serve_convert(struct serve *s);

void serve_fetch_init(struct serve *s);
bool serve_fetch(struct serve *s);
bool serve_fetch_waits(const struct serve *s);
void serve_fetch_tick(struct serve *s, uint64_t now);

void serve_move_begin(struct serve *s);
bool serve_move(struct serve *s);
void serve_move_tick(struct serve *s, uint64_t now);
void serve_move_gather(struct serve *s);
void serve_move_cancel(struct serve *s);
void serve_move_ask(struct serve *s);
void serve_move_retired(struct serve *s, uint64_t segment);
bool serve_move_ticks(const struct serve *s);
bool serve_move_goes_on(const struct serve *s);
bool serve_move_has_moved(const struct serve *s);
bool serve_move_stop(struct serve *s);
bool serve_move_is_over(const struct serve *s);
int serve_move_finish(struct serve *s);
void serve_move_close(struct serve *s);

#endif
