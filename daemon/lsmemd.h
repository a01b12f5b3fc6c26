/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The program. Its parts, in the order in which a run uses them:
 *
 *	main.c		options, preparations, the end
 *	own.c		the ownership of the store in a cluster, and its backups as etcd has them
 *	standby.c	a start that moves the store from another host, or waits until that is wanted
 *	take.c		moves the store from another host to this one: the target of a migration
 *	open.c		opens the backups and holds them
 *	start.c		finds the store, and recovers, resumes or formats it
 *	store.c		creates the store in the kernel, or attaches to it
 *	frozen.c	.. which a former daemon has frozen: keeps it, drops it, thaws it
 *	expect.c	compares the store with the one that was served before (record.c)
 *	restore.c	I/O for recover/
 *	serve.c		the steady state (core/), until a signal or a failure; see serve.h
 *	rejoin.c	backups that come back while the store is served
 *	reload.c	settings that change while the store is served, and the port of the metrics
 *	exports.c	instead of all this: a server of backups
 *
 * The folders below, lowest first; no file in them includes this header:
 *
 *	base/		the loop, threads, messages, memory
 *	format/		the bytes on a backup
 *	core/		decides what is written where, and acknowledged when: no I/O of its own
 *	recover/	reads what backups hold, recovers, formats: no I/O of its own
 *	module/		the kernel module: ioctls, windows, attributes
 *	backup/		a range of bytes to read, write and flush: files, drives, NVMe-oF
 *	remote/		backups on other hosts, and the server that keeps them
 *	cluster/	the ownership of a store, in etcd
 *	report/		status file, metrics
 *	config/		the configuration file
 */
#ifndef LSMEMD_LSMEMD_H
#define LSMEMD_LSMEMD_H

#include <stdbool.h>

#include "backup/backup.h"
#include "core/clean.h"
#include "cluster/cluster.h"
#include "config/config.h"
#include "core/core.h"
#include "core/fetch.h"
#include "report/http.h"
#include "module/kernel.h"
#include "base/loop.h"
#include "record.h"
#include "recover/recover.h"
#include "base/signals.h"
#include "base/stages.h"
#include "report/status.h"

/* Exit statuses: see lsmemd(8). */
enum {
	STATUS_OK	= 0,
	STATUS_ERROR	= 1,
	STATUS_USAGE	= 2,
	STATUS_LOST	= 3,
	STATUS_BUSY	= 4,
	STATUS_REFUSED	= 5,
	STATUS_BACKUP	= 6,
	STATUS_DRAIN	= 7,
	STATUS_OWNER	= 8,
};

/**
 * struct options - the command line; see lsmemd(8)
 * @config_path: -c
 * @status_file: --status-file, or NULL
 * @state_directory: --state-directory: the directory of the records (record.h)
 * @drain: --drain, in seconds
 * @move_from: --move-from, or NULL
 * @verbose: number of -v
 * @check_config: --check-config
 * @check: --check
 * @accept_loss: --accept-loss
 * @accept_missing: --accept-missing
 * @verify_first: --verify-first
 * @take_over: --take-over
 * @init: --init
 * @format: --format
 * @force: --force
 * @again: --again
 */
struct options {
	const char *config_path;
	const char *status_file;
	const char *state_directory, *move_from;
	unsigned int drain;
	unsigned int verbose;
	bool check_config, check;
	bool accept_loss, accept_missing, verify_first, take_over;
	bool init, format, force;
	bool again;
};

enum open_mode {
	OPEN_WRITE,
	OPEN_READ,
	OPEN_LOOK,		/* to read, also while another daemon holds the backup */
};

/**
 * struct lsmemd - the daemon, its store, the store's backups
 * @options: the command line
 * @config: the configuration file
 * @loop: the main thread's loop
 * @signals: signals that arrived
 * @backups: by slot, the place of the backup in the configuration; @private of a closed one is NULL
 * @nr_open: number of open backups
 * @late: a backup that could not be opened may be there later
 * @slots: slot of each index in the digest; LSMEM_BACKUPS: the backup is absent
 * @where: the backups, as text for messages
 * @io_bytes: longest request of core, a multiple of LSMEM_SEGLET_BYTES
 * @term: the highest term that the backups tell of
 * @record: the store that this configuration served before
 * @cluster: the ownership
 * @status: for the status file and the metrics
 * @http: the server of the metrics
 * @kernel: the store in memory
 * @coded: new segments are coded: as the configuration says, unless the kernel has longer ones (store.c)
 * @control: the module's control device; -1: not open
 * @newest: the store in the kernel is frozen, and etcd says that no other host took it (frozen.c)
 * @created: this start has created the store, and the store holds nothing yet: if the start fails,
 *	it destroys the store
 * @keeps: the store in the kernel is frozen and another host's, which may read its memory (frozen.c)
 * @moved: another host has the store, and needs nothing of it here: the end destroys it
 * @recovery_ns: when the recovery began, by clock_now_ns()
 * @stages: of the start, or, if the store is moved here, from the word that its source has to stop its clients; then of a move away
 * @unconnected: the only backup, on another host, was lost with its connection, and not because
 *	its drive failed a request: a successor can wait for it
 * @core: the state machine; NULL before start() has succeeded
 * @fetch: of a tiered store: what is read for the kernel; otherwise NULL
 * @candidates: memory for clean_choose(), an element for each segment that the kernel shows
 * @damaged: ids of segments that the recovery, or scrubbing, found damaged, and that have not been
 *	cleaned yet; there is room for all segments
 * @nr_damaged: elements of @damaged
 */
struct lsmemd {
	struct options options;
	struct config config;
	struct loop loop;
	struct signals signals;
	struct backup backups[LSMEM_BACKUPS];
	uint32_t nr_open;
	bool late;
	uint32_t slots[LSMEM_BACKUPS];
	char where[PATH_MAX];
	uint32_t io_bytes;
	uint64_t term;
	struct record record;
	struct cluster cluster;
	struct status status;
	struct http http;
	struct kernel kernel;
	bool coded;
	int control;
	bool newest;
	bool created, keeps, moved;
	uint64_t recovery_ns;
	struct stages stages;
	bool unconnected;
	struct core *core;
	struct fetch *fetch;
	struct lsmem_candidate *candidates;
	uint64_t *damaged;
	uint32_t nr_damaged;
};

void name_where(struct lsmemd *d);
int check_take_over(const struct lsmemd *d);

int own_open(struct lsmemd *d);
int own(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES]);
void own_tell(struct lsmemd *d);
int own_look(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES]);
int own_consented(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES], const struct cluster_consent *consent);
bool owned(struct lsmemd *d, const char *doing);

int take_store(struct lsmemd *d);
int take_attempt(struct lsmemd *d, bool *again);
void take_answer(struct lsmemd *d, const char *refused);
void take_refuse_reload(struct lsmemd *d);
bool take_has(const struct lsmemd *d);
const struct recover_told *take_told(const struct lsmemd *d);
void take_stale(struct lsmemd *d);
void take_served(struct lsmemd *d);
bool take_is_open(const struct lsmemd *d);
bool take_run(struct lsmemd *d);
void take_tick(struct lsmemd *d, uint64_t now);
void take_gather(struct lsmemd *d);
struct pull *take_pull(const struct lsmemd *d);
struct bulk *take_bulk(const struct lsmemd *d);
void take_pull_start(struct lsmemd *d);
bool take_pull_waits(const struct lsmemd *d);
void take_close(struct lsmemd *d);

int frozen_claim(struct lsmemd *d, const struct cluster_taken *taken);
void frozen_lost(struct lsmemd *d);
int frozen_drop(const struct lsmemd *d);
bool frozen_is_kept(const struct lsmemd *d);
int frozen_check(const struct lsmemd *d);
int frozen_thaw(struct lsmemd *d);

int expect_open(struct lsmemd *d);
void expect_missing(const struct lsmemd *d);
int expect_blank(const struct lsmemd *d);
int expect_store(const struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES]);
int expect_formatting(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES]);
int expect_ready(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES]);

void open_options(const struct lsmemd *d, uint32_t slot, enum open_mode how,
		  struct backup_options *options);
bool connection_lost(const struct lsmemd *d);
int open_backups(struct lsmemd *d, enum open_mode how, uint64_t fence_term);
int wait_backups(struct lsmemd *d);
void close_backup(struct lsmemd *d, uint32_t slot);
void close_backups(struct lsmemd *d);

void restore_env(struct lsmemd *d, struct recover_env *env);
int restore_blank(const struct recover_env *env, uint32_t slot, bool *blank);
void restore_foreign(struct lsmemd *d);
int restore_wipe(struct lsmemd *d, uint32_t slot);

void rejoin_tick(struct lsmemd *d, uint64_t now);
bool rejoin_running(void);
void rejoin_stop(void);
bool rejoin_end(void);

void port_open(struct lsmemd *d, uint64_t now);
void reload_tick(struct lsmemd *d, uint64_t now);

uint32_t store_segment_bytes(const struct lsmemd *d);
uint64_t store_room(const struct lsmemd *d, const struct recover *r);
int store_check_geometry(const struct lsmemd *d, const struct lsmem_super *super);
int store_check_active(const struct lsmemd *d, const uint8_t *uuid);
void store_plan(const struct lsmemd *d, const struct recover *r, const struct lsmem_super *super,
		struct lsmem_create *plan);
int store_make(struct lsmemd *d, struct lsmem_create *plan, const uint8_t *uuid);
void store_give_memory(struct lsmemd *d);
void store_detach(struct lsmemd *d);
void store_forget(struct lsmemd *d, const uint8_t *uuid);
int store_attach(struct lsmemd *d, const struct recover *r, const struct lsmem_super *super,
		 const uint8_t *uuid);
int store_give_name(const struct lsmemd *d);

void warn_slow(const struct lsmemd *d);
bool new_incarnation(uint64_t *incarnation);
int start(struct lsmemd *d);
int check(struct lsmemd *d);
int prepare_ahead(void);
int prepare(bool ahead);
void lock_rest(void);
int serve(struct lsmemd *d);
int serve_kept(struct lsmemd *d);
void start_name_status(struct lsmemd *d);
int serve_exports(struct lsmemd *d);
uint64_t serve_tick_ns(void);
void serve_scrub(struct lsmemd *d);
void serve_batch(struct lsmemd *d);

#endif
