/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A simulation: the daemon's core and recovery, the model of the kernel and the simulated disk.
 * A scheduler chooses at random what happens next.  All random numbers come from one seed, so a
 * seed repeats a run.
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
 * struct sim_options - options of a run
 * @frames: of a backup; @extra: segments that the kernel has more than the backup
 * @size: of objects and segments, see struct model
 * @steps: between two crashes, at most (sometimes five times as many more)
 * @kills: percent of ends that are SIGKILLs of the daemon, not power cuts
 * @faults: percent of ends that begin with a failed flush
 * @damage: percent of power cuts that also destroy acknowledged bytes
 * @backups: 0: one; @replicas, @min_replicas: as in struct core_params
 * @memory: mask of drives whose hosts report what they have received
 * @tiered: the store is tiered: recovery tells the kernel where objects are
 * @verify: recovery verifies all segments before
 * @k: the store is coded, with @m parity shards; 0: it has replicas
 * @min_parity: as in struct core_params
 * @turns: each daemon gives new segments shards of the code or replicas, as chance says
 * @batch_us: of a coded store: microseconds that partial rows wait, see core_batch()
 * @smaller: frames by which each backup is smaller than the one before
 * @handles: of the store, of which the model uses MODEL_HANDLES; 0: no others
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
	uint32_t k, m, min_parity;
	uint32_t batch_us;
	uint32_t smaller;
	uint32_t handles;
	bool pairs;			/* each failure domain has two backups */
	bool tiered;
	bool verify;
	bool turns;
	bool join;			/* lost backups come back, at any time */
};

struct sim_request {
	bool used;
	uint32_t id;			/* of core */
	bool flush, received;
	uint32_t backup;		/* index of core */
	uint64_t offset;		/* of a read, on the disk */
	uint32_t length;
	struct iovec into;
};

/**
 * struct sim - a run
 * @error: the first error, or ""
 * @crashes: power cuts, also during recovery; @kills: SIGKILLs of the daemon
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
	uint64_t span;			/* bytes of a drive on the disk */
	uint32_t rotate;		/* drive that recovery knows as its backup 0 */
	uint32_t there;			/* mask of the drives that a recovery gets */
	uint32_t drive[LSMEM_BACKUPS];	/* by core's index */
	struct sim_request requests[CORE_IOS * CORE_BACKUPS];
	void *ahead[RECOVER_AHEAD];	/* buffers of reads ahead, in their order */
	uint32_t nr_ahead;
	uint32_t io_left;		/* requests of recovery before the next crash */
	bool draining;
	bool cut;			/* the power has failed; sim_cut() must follow */
	bool accept_missing;		/* options of recovery */
	const struct recover_told *told;
	struct recover_code code;	/* options of recovery, if @options has an m */
	uint64_t frames_start;		/* of the first drive */
	struct {			/* last arguments of env.load */
		uint64_t segment;
		uint32_t generation, sealed, length, crc;
		const void *data;
	} load;
	struct recover *recover;	/* in sim_attempt() */
	uint8_t *placed;		/* entries of the segment that recovery tells of */
	uint32_t nr_placed;		/* bytes of them */
	uint8_t *stream;		/* log data of the open coded segment @stream_of */
	uint64_t stream_of;
	struct recover_result result;
	char last_damage[256];
	uint32_t nr_damage;
	char error[512];
	uint64_t seed, steps;
	uint64_t crashes, kills, recoveries, shutdowns, faults, losses_found;
	uint64_t lost, joined, refused;	/* backups; starts with too few backups */
	uint64_t copied, kept;		/* replicas */
	uint64_t added;				/* of those that joined: while the daemon ran */
	uint64_t alone;				/* crashes of the primary without any backup */
	uint64_t now_ns;			/* by core_time(), with @batch_us of the options */
	bool memory_lost;			/* of a backup, since the last recovery */
	uint64_t mixed;				/* starts of core with coded segments and others */
	uint64_t raised, lowered;		/* recoveries that gave the superblocks a code, or took it away */
};

struct sim *sim_new(uint64_t seed, const struct sim_options *options);
void sim_free(struct sim *sim);
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Try once to start the daemon. Returns 0, -ECANCELED if it crashed, or another error. */
int sim_attempt(struct sim *sim);
/* Start the daemon; @crash: it may crash and try again. */
bool sim_start(struct sim *sim, bool crash);
/* Do one random action. */
void sim_step(struct sim *sim);
/* Time passes, as far as core waits for it. */
void sim_time(struct sim *sim, uint64_t ns);
/* Pass the kernel's events to core, and core's requests to the disk. */
void sim_events(struct sim *sim);
void sim_issue(struct sim *sim);
void sim_acks(struct sim *sim);
void sim_complete(struct sim *sim, uint32_t n);
/* If the nth request in flight is a write, the host of its drive reports that it has it. */
void sim_receive(struct sim *sim, uint32_t n);
/* Begin a pass over segments that the daemon chooses. False: none, or a pass is under way. */
bool sim_clean(struct sim *sim);
/* Continue until no event, request or acknowledgement is left. */
void sim_settle(struct sim *sim);
void sim_shutdown(struct sim *sim);
void sim_cut(struct sim *sim, enum disk_cut kind);
/* The power fails, but not that of hosts that report what they have received. */
void sim_cut_alone(struct sim *sim, enum disk_cut kind);
void sim_kill(struct sim *sim);
/* The nth request in flight fails with EIO. */
void sim_fail_request(struct sim *sim, uint32_t n);
/* Core loses one of its backups, if it can continue without it. */
bool sim_lose(struct sim *sim);
/* Add a drive that is not a member to the running store. False: there is none. */
bool sim_add(struct sim *sim, bool blank);
/* A whole life of a store, with many crashes.  False: see sim->error. */
bool sim_life(struct sim *sim, uint32_t crashes);

#endif
