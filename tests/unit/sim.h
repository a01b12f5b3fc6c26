/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The daemon's core and recovery, the model of the kernel and the simulated
 * disk, run together by a scheduler that picks at random what happens next:
 * nothing else is random, so a seed repeats a run.
 */
#ifndef UNIT_SIM_H
#define UNIT_SIM_H

#include "disk.h"
#include "model.h"
#include "core/clean.h"
#include "core/core.h"
#include "recover/recover.h"

#define SIM_EVENTS	128u

/**
 * struct sim_options - what a run is like
 * @frames: of the backup; @extra: segments that the kernel has beyond that
 * @size: of segments, see struct model
 * @kills: percent of ends that are SIGKILLs of the daemon, not power cuts
 * @faults: percent of ends that begin with a failed flush
 * @damage: percent of power cuts that also destroy something acknowledged
 * @backups: 0: one; @replicas, @min_replicas: as in struct core_params
 * @memory: drives of hosts that tell what they have received
 * @smaller: frames by which each backup is smaller than the one before
 */
struct sim_options {
	uint32_t frames;
	uint32_t extra;
	uint32_t size;
	uint32_t steps;
	uint32_t kills;
	uint32_t faults;
	uint32_t damage;
	uint32_t backups, replicas, min_replicas;
	uint32_t memory;
	uint32_t smaller;
	bool pairs;			/* two backups each are in one domain */
	bool join;			/* those that were left behind join again, any time */
};

struct sim_request {
	bool used;
	uint32_t id;			/* core's */
	bool flush, received;
	uint32_t backup;		/* core's */
	uint64_t offset;		/* of a read, on the disk */
	uint32_t length;
	struct iovec into;
};

/**
 * struct sim - a run
 * @error: what went wrong, "" if nothing
 * @crashes: power cuts, in recovery too; @kills: of the daemon
 */
struct sim {
	uint64_t random;
	struct sim_options options;
	struct disk *disk;
	struct model *model;
	struct core *core;
	struct lsmem_segment_stat table[MODEL_SEGMENTS];
	struct lsmem_candidate candidates[MODEL_SEGMENTS];
	struct recover_geometry geometry;
	struct recover_env env;
	uint64_t span;			/* of a drive on the disk */
	uint32_t rotate;		/* drive of slot 0 */
	uint32_t there;			/* drives that a recovery is given */
	uint32_t drive[LSMEM_BACKUPS];	/* by core's index */
	struct sim_request requests[512];
	void *ahead[RECOVER_AHEAD];	/* begun to be read there, in this order */
	uint32_t nr_ahead;
	uint32_t io_left;		/* recovery's requests before the next crash */
	bool draining;
	bool cut;			/* the power has gone, and sim_cut() is to follow */
	bool accept_missing;		/* by recovery */
	uint64_t frames_start;		/* of the first drive */
	struct {			/* what env.load was given last */
		uint64_t segment;
		uint32_t generation, sealed, length;
		const void *data;
	} load;
	struct recover_result result;
	char last_damage[256];
	uint32_t nr_damage;
	char error[512];
	uint64_t seed, steps;
	uint64_t crashes, kills, recoveries, shutdowns, faults, losses_found;
	uint64_t lost, joined, refused;	/* backups, starts with too few */
	uint64_t copied, kept;		/* replicas */
	uint64_t added;				/* of those that joined: while all went on */
	uint64_t alone;				/* crashes of the primary alone */
	bool memory_lost;			/* with a backup, since the last recovery */
};

struct sim *sim_new(uint64_t seed, const struct sim_options *options);
void sim_free(struct sim *sim);
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One attempt to do so: 0, -ECANCELED when it crashed, or an error. */
int sim_attempt(struct sim *sim);
/* Bring the daemon up; @crash: with crashes on the way. */
bool sim_start(struct sim *sim, bool crash);
/* One thing happens. */
void sim_step(struct sim *sim);
/* The kernel's events go to core and core's requests to the disk. */
void sim_events(struct sim *sim);
void sim_issue(struct sim *sim);
void sim_acks(struct sim *sim);
void sim_complete(struct sim *sim, uint32_t n);
/* The host of its drive has the nth request in flight, a write, and says so. */
void sim_receive(struct sim *sim, uint32_t n);
/* The daemon chooses the segments of a pass; false: none, or one is under way. */
bool sim_clean(struct sim *sim);
/* Until nothing is on its way. */
void sim_settle(struct sim *sim);
void sim_shutdown(struct sim *sim);
void sim_cut(struct sim *sim, enum disk_cut kind);
/* The power goes, but not that of hosts with a memory of their own. */
void sim_cut_alone(struct sim *sim, enum disk_cut kind);
void sim_kill(struct sim *sim);
/* The nth request in flight fails, as the backup is concerned. */
void sim_fail_request(struct sim *sim, uint32_t n);
/* Core does without one of its backups, if it can. */
bool sim_lose(struct sim *sim);
/* A drive that is no member is made one while all goes on; false: there is none. */
bool sim_add(struct sim *sim, bool blank);
/* A whole life of a store: many crashes.  False: sim->error. */
bool sim_life(struct sim *sim, uint32_t crashes);

#endif
