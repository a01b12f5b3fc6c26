/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bringing a backup up: what is on it, making a blank one, reading the digest
 * log, recovery, the check that is its dry run.
 *
 * Written as straight code over a few synchronous calls that the caller
 * provides (struct recover_env): no system calls, no clocks, no threads here.
 * A call that fails ends the recovery, which may then be repeated from the
 * beginning, as after a crash at that point (invariant 20).
 *
 * The caller's part, as lsmemd does it:
 *
 *	recover_new(&env), recover_open(r)
 *	    RECOVER_BLANK: recover_format(r, ...)
 *	    RECOVER_FULL:  kernel store is NEW:    recover_run(r, &options, &result)
 *			   kernel store is ACTIVE: recover_map(r)
 *	core_new() with recover_super(r) and recover_digest(r), recover_free(r)
 *	kernel store is NEW: LSMEM_REPL_ACTIVATE with what recover_activation() says
 *
 * After recover_run() and before the activation a crash leaves a backup that is
 * recovered again, in one more epoch.
 */
#ifndef LSMEMD_RECOVER_H
#define LSMEMD_RECOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/digest.h"
#include "format/format.h"

#define RECOVER_AHEAD	16u

/*
 * An address: the slot of the backup, that is its place among those that the
 * caller gives, and the byte in it.
 */
#define RECOVER_SLOT_SHIFT	56

static inline uint64_t recover_address(uint32_t slot, uint64_t offset)
{
	return (uint64_t)slot << RECOVER_SLOT_SHIFT | offset;
}

static inline uint32_t recover_address_slot(uint64_t address)
{
	return address >> RECOVER_SLOT_SHIFT;
}

static inline uint64_t recover_address_offset(uint64_t address)
{
	return address & ((1ull << RECOVER_SLOT_SHIFT) - 1);
}

struct recover;

enum recover_severity {
	RECOVER_INFO,
	RECOVER_DAMAGE,		/* acknowledged data are lost, or may be */
};

/**
 * struct recover_env - what recovery needs of its caller
 * @context: first argument of all calls
 * @backups: slots; 0: one
 * @backup_bytes: sizes of the backups, by slot; 0: it is not there
 * @domain: of several backups, where each is, also of those that are not there; all equal:
 *	each is a domain of its own
 * @names: of several backups, for messages
 * @read, @write: @length bytes at @offset, an address; multiples of LSMEM_BLOCK, @length up to LSMEM_SEGMENT_BYTES, @data aligned to
 *	LSMEM_BLOCK.  The caller may split them and do the parts in parallel
 * @ahead: begin to read, may be NULL: up to RECOVER_AHEAD ranges at once; a
 *	@read of the same range to the same @data follows and ends what was begun,
 *	in the order of the beginnings; other calls may come in between
 * @flush: all writes done before it to a slot are durable when it returns
 * @load: hand entries to the kernel, as struct lsmem_load; may be NULL with
 *	recover_check().  Segments come in the order of their ids, each once,
 *	and none without entries
 * @loaded: wait until what was given is loaded; may be NULL when that is so as
 *	@load returns.  Else @data stays as it is until the next of the two has
 *	returned, which may tell of an error of the load before.  The last is
 *	@loaded
 * @hole: true when a range is known to read as zero, so that it need not be
 *	read; may be NULL
 * @report: a line for the operator, without newline
 * @progress: now and then, may be NULL: @done of @all segments
 *
 * All but @ahead and the last three return 0 or a negative errno.
 */
struct recover_env {
	void *context;
	uint32_t backups;
	uint64_t backup_bytes[LSMEM_BACKUPS];
	uint32_t domain[LSMEM_BACKUPS];
	const char *names[LSMEM_BACKUPS];
	int (*read)(void *context, uint64_t offset, void *data, uint32_t length);
	int (*write)(void *context, uint64_t offset, const void *data, uint32_t length);
	void (*ahead)(void *context, uint64_t offset, void *data, uint32_t length);
	int (*flush)(void *context, uint32_t slot);
	int (*load)(void *context, uint64_t segment, uint32_t generation, uint32_t sealed,
		    const void *data, uint32_t length);
	int (*loaded)(void *context);
	bool (*hole)(void *context, uint64_t offset, uint32_t length);
	void (*report)(void *context, enum recover_severity severity, const char *text);
	void (*progress)(void *context, uint64_t done, uint64_t all);
};

enum recover_state {
	RECOVER_BLANK,		/* superblock slots are zero; on all backups */
	RECOVER_FULL,		/* holds a store; one of them at least */
};

/**
 * struct recover_geometry - what a blank backup is formatted for
 * @uuid: of the store, random
 * @incarnation: of the backup, random, not 0; those of others are made from it
 * @kind: enum lsmem_store_kind
 * @store_bytes, @max_handles: of the store
 * @frames: the backups must hold so many segments at least
 * @replicas: of each segment, 0: on every backup
 * @half_bytes: of half the digest log, 0 for what is good
 * @force: overwrite a backup that holds a store (invariant 18)
 */
struct recover_geometry {
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint64_t incarnation;
	uint32_t kind;
	uint64_t store_bytes;
	uint64_t max_handles;
	uint32_t frames;
	uint32_t replicas;
	uint64_t half_bytes;
	bool force;
};

/**
 * struct recover_options - how to recover
 * @accept_loss: go on without what is lost; it is reported all the same
 * @accept_missing: the backups that are not there are gone for good, and nothing
 *	has been written without those that are there
 * @branch: with @accept_missing, random, not 0: what tells this recovery from others
 */
struct recover_options {
	bool accept_loss;
	bool accept_missing;
	uint32_t branch;
};

/**
 * struct recover_result - what was found
 * @segments: adopted; @dropped: listed ones that hold nothing any more
 * @closed, @sealed, @open: the listed segments by state
 * @objects, @deletes: entries that won; deletes: those that must be kept
 * @entries: all that were seen
 * @live_bytes: of winning objects, headers included
 * @read_bytes: from the backup
 * @torn: tails that were cut with something of theirs behind the cut: writes
 *	that were on their way; @torn_bytes: up to the last such entry
 * @losses: reports of RECOVER_DAMAGE
 * @bad_copies: replicas that were passed over, another is good
 */
struct recover_result {
	uint64_t segments, dropped;
	uint64_t closed, sealed, open;
	uint64_t objects, deletes, entries;
	uint64_t live_bytes, read_bytes;
	uint64_t torn, torn_bytes;
	uint64_t losses;
	uint64_t bad_copies;
};

/**
 * struct recover_activation - for LSMEM_REPL_ACTIVATE; durable already
 */
struct recover_activation {
	uint32_t era;
	uint32_t generation_floor;
	uint32_t generation_ceiling;
	uint64_t store_time;
	uint64_t next_segment;
};

#define RECOVER_GENERATIONS	4096u	/* room between floor and first ceiling */

struct recover *recover_new(const struct recover_env *env);
void recover_free(struct recover *r);

/* 0 and *state; -EBADMSG: damaged or not for this program, reported; or what a
 * call returned.  Writes nothing.
 */
int recover_open(struct recover *r, enum recover_state *state);
/* The superblock of one slot alone, for recover_ready(). */
int recover_open_slot(struct recover *r, uint32_t slot);

/* Valid after recover_open() said RECOVER_FULL, or recover_format(). */
const struct lsmem_super *recover_super(const struct recover *r);

/* After recover_format(), recover_map() or recover_run(): the slot of the backup
 * that the digest calls @index; LSMEM_BACKUPS: it is not there.
 */
uint32_t recover_slot(const struct recover *r, uint32_t index);
/* The superblock of a slot; NULL when there is none. */
const struct lsmem_super *recover_slot_super(const struct recover *r, uint32_t slot);
/* After recover_open(): a slot can be read, and holds no superblock. */
bool recover_slot_blank(const struct recover *r, uint32_t slot);

/* After recover_open(): segments that the backups hold, or will when they are
 * formatted, with @replicas of each; 0: on every backup.
 */
uint64_t recover_room(const struct recover *r, uint32_t replicas);
/* After recover_map() or recover_run(): those of several backups that are blank, or
 * were left behind, are made ready to become members, by core_params.joining.
 * @incarnation: random, not 0; theirs are made from it.  0, or -ECANCELED from a call.
 */
int recover_join(struct recover *r, uint64_t incarnation);
/* The same for one that comes while the store is served (core_add()): @r has nothing but
 * it, and recover_open_slot() has looked at it.  @like: superblock of a member; @log: of the
 * newest digest.  0; -EEXIST: another store's; -ESTALE: the store has been gone on with
 * there; -ENOSPC; or what a call returned; reported.
 */
int recover_ready(struct recover *r, uint32_t slot, const struct lsmem_super *like,
		  const struct digest_log *log, uint64_t incarnation);
/* What a backup held before recover_join() or recover_ready() has made it ready, for core;
 * NULL: nothing that could be kept.  It is as long there as @r.
 */
const struct digest_past *recover_past(const struct recover *r, uint32_t slot);
/* After recover_join(): the slot of the backup that is to be called @index. */
uint32_t recover_joiner(const struct recover *r, uint32_t index);

/* Size of the smallest backup that holds a number of frames. */
uint64_t recover_backup_bytes(uint64_t frames);

/* -EEXIST: holds a store, and no force.  -ENOSPC: too small.  Afterwards the
 * digest lists nothing and recover_activation() holds.
 */
int recover_format(struct recover *r, const struct recover_geometry *geometry);

/* Read the digest log and nothing else: for a daemon that resumes;
 * @accept_missing as in struct recover_options.  0;
 * -EBADMSG: there is no digest; -ENODATA: the newest are lost; reported.
 */
int recover_map(struct recover *r, bool accept_missing);

/* The newest durable digest; after recover_run() the one it committed. */
const struct digest_map *recover_digest(const struct recover *r);

/* 0; -ENODATA: acknowledged data are lost and @options does not accept it:
 * nothing was written; or an error as above.
 */
int recover_run(struct recover *r, const struct recover_options *options,
		struct recover_result *result);

/* Everything that is listed is read and checked, nothing written.  0: sound;
 * -ENODATA: not, see the reports.
 */
int recover_check(struct recover *r, struct recover_result *result);

void recover_activation(const struct recover *r, struct recover_activation *activation);

#endif
