/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recovery: looking at backups, formatting them, reading the digest log, recovering a store, and
 * the check, which is a recovery that writes nothing.
 *
 * Recovery is sequential code over a few synchronous calls that the caller provides (struct
 * recover_env). It makes no system calls, reads no clock, and has no threads and no locks: one
 * thread uses a struct recover at a time. A call that fails ends the recovery. The recovery can
 * then be repeated from the beginning, as after a crash at that point (invariant 20).
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
 * After a crash between recover_run() and the activation, the next daemon recovers the store again,
 * in the next term.
 *
 * Of a tiered store the objects are not read: the kernel gets to know where they are, and fetches
 * them from there. An object that is damaged on all replicas is found then; or before, if the
 * caller wants all segments verified first.
 *
 * Missing bytes are a loss if a proof says that they were acknowledged: see "Torn or lost" in
 * Documentation/durability.rst. recover_damage() reports each loss (RECOVER_DAMAGE) and counts it.
 *
 * If a call of struct recover_env returns -ECANCELED, the function returns it at once.
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
 * An address is the slot of a backup and a byte in the backup. The slot is the number of the backup
 * in struct recover_env; a digest can know it by another index.
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
 * @backups: number of slots; 0: one
 * @backup_bytes: size of each backup, by slot; 0: absent
 * @domain: failure domain of each backup, also of absent ones; all equal: each backup is a domain
 *	of its own
 * @names: names of the backups for messages; NULL: "backup" and the slot
 * @read: read @length bytes at the address @offset; multiples of LSMEM_BLOCK, @length up to
 *	LSMEM_SEGMENT_BYTES, @data aligned to LSMEM_BLOCK. The caller may split a request and do the
 *	parts in parallel
 * @write: write; as @read
 * @ahead: begin to read; may be NULL. At most RECOVER_AHEAD ranges are begun at a time. A @read of
 *	the same range to the same @data completes each of them, in the order in which they were
 *	begun; other calls can come in between
 * @flush: return when all writes to the slot that were done before it are durable
 * @load: give entries to the kernel, as struct lsmem_load; may be NULL with recover_check().
 *	Segments come in the order of their ids, each once, and only if they have entries. Of a
 *	tiered store it gets tombstones only
 * @place: tell the kernel where objects of a tiered store are, as struct lsmem_placement: at most 65536
 *	of a segment, all in the log data below @sealed. Its call comes before those of @load for the
 *	same segment; may be NULL with recover_check()
 * @loaded: wait until everything given to @load is loaded; may be NULL if @load itself waits.
 *	Otherwise @data must not change before the next @load or @loaded has returned, which can
 *	return the error of the previous @load. The last call is @loaded
 * @hole: true if a range is known to read as zeroes, so that recovery does not read it; may be NULL
 * @report: print a line for the operator; @text has no newline; may be NULL
 * @progress: called from time to time: @done of @all steps, one for each segment and pass; may be NULL
 *
 * All calls except @ahead and the last three return 0 or a negative errno.
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
	int (*place)(void *context, uint64_t segment, uint32_t generation, uint32_t sealed,
		     const struct lsmem_directory_entry *entries, uint32_t nr);
	int (*loaded)(void *context);
	bool (*hole)(void *context, uint64_t offset, uint32_t length);
	void (*report)(void *context, enum recover_severity severity, const char *text);
	void (*progress)(void *context, uint64_t done, uint64_t all);
};

enum recover_state {
	RECOVER_BLANK,		/* no backup holds a store; a formatting may have been cut off */
	RECOVER_FULL,		/* at least one backup holds a store */
};

/**
 * struct recover_geometry - what a blank backup is formatted for
 * @uuid: of the store, random
 * @incarnation: of the first backup, random, not 0; the others are made from it
 * @kind: enum lsmem_store_kind
 * @store_bytes: memory of the store's log, bytes
 * @max_handles: of the store
 * @capacity: of a tiered store, bytes; 0: the store is not tiered
 * @frames: segments that the backups must have room for
 * @replicas: of each segment; 0: one on every backup
 * @k: of a coded store: data shards of each segment; 0: the store is not coded
 * @m: parity shards
 * @half_bytes: size of a half of the digest log; 0: chosen by the size of the backups
 * @force: overwrite a backup that holds a store (invariant 18)
 */
struct recover_geometry {
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint64_t incarnation;
	uint32_t kind;
	uint64_t store_bytes;
	uint64_t max_handles;
	uint64_t capacity;
	uint32_t frames;
	uint32_t replicas;
	uint32_t k, m;
	uint64_t half_bytes;
	bool force;
};

/**
 * struct recover_told - what the source of a migration has told of the store: pass 1 reads no directory
 * @context: first argument of all calls
 * @term: of the digest that it named
 * @sequence: of this digest; it must be the newest one
 * @segments: how many segments were told, and are not gone
 * @objects: how many objects count of all that was told ..
 * @expected: .. and how many the source has
 * @bytes: of the entries of these objects; if @placing
 * @placing: the kernel has the objects that count already, in segments that have them: @listing is called for tombstones only;
 *	first argument of @tombstone and @newest. NULL: it has none
 * @segment: was this segment told, with this generation and log data of @length bytes?  @nr: its number from now on;
 *	@count: out: how many objects of it count
 * @listing: what counts for an index. Return: false: nothing does; else @listing, exact but for its place in a block of
 *	LSMEM_BLOCK bytes, and the number @nr of its segment, for which @segment was called
 * @tombstone: if @placing: the indices for which tombstones count, one after the other. Return: false: there are no more
 * @newest: if @placing: the highest time, era and generation of all that was told
 */
struct recover_told {
	void *context;
	void *placing;
	uint64_t term, sequence, objects, expected, bytes;
	uint32_t segments;
	bool (*segment)(void *context, uint32_t nr, uint64_t segment, uint32_t generation, uint32_t length, uint32_t *count);
	bool (*listing)(void *context, uint64_t index, struct lsmem_directory_entry *listing, uint32_t *nr);
	bool (*tombstone)(void *placing, uint32_t i, uint64_t *index);
	void (*newest)(void *placing, uint64_t *time, uint32_t *era, uint32_t *generation);
};

/**
 * struct recover_code - what new segments of the store are to have
 * @k: data shards; 0: replicas
 * @m: parity shards
 */
struct recover_code {
	uint32_t k, m;
};

/**
 * struct recover_options - how to recover
 * @accept_loss: go on without data that are lost; each loss is reported
 * @accept_missing: the operator states that the absent backups are gone for good, and that no
 *	daemon has written to them without the backups that are there
 * @instant: leave objects on the backups, and tell the kernel their places
 * @verify: with @instant, read and verify the segments that hold live entries. Without, all is
 *	verified, as it is loaded
 * @told: with @instant and without @verify: take the listings from there; NULL: from the backups
 * @code: make the superblocks fit for such segments; NULL: for what they are fit for
 * @branch: with @accept_missing: a random number, not 0, that identifies this recovery
 */
struct recover_options {
	bool accept_loss;
	bool accept_missing;
	bool instant;
	bool verify;
	const struct recover_told *told;
	const struct recover_code *code;
	uint32_t branch;
};

/**
 * struct recover_result - what a recovery or a check has found
 * @segments: segments that hold live entries
 * @coded: of these, coded ones
 * @dropped: listed segments that hold none any more
 * @closed: of the listed segments, closed ones
 * @sealed: of the listed segments, sealed ones
 * @open: of the listed segments, open ones
 * @whole: of @open, those that were read up to the ends of their frames
 * @objects: live objects
 * @tombstones: tombstones that must be kept
 * @entries: all entries that pass 1 found
 * @live_bytes: bytes of @objects, with their headers
 * @read_bytes: bytes read from the backups
 * @torn: segments that were cut although a commit record follows: writes that were in flight
 * @torn_bytes: bytes from the cuts to the last such records
 * @losses: reports of RECOVER_DAMAGE
 * @bad_copies: replicas that were bad while another one of the segment was used
 */
struct recover_result {
	uint64_t segments, coded, dropped;
	uint64_t closed, sealed, open, whole;
	uint64_t objects, tombstones, entries;
	uint64_t live_bytes, read_bytes;
	uint64_t torn, torn_bytes;
	uint64_t losses;
	uint64_t bad_copies;
};

/**
 * struct recover_activation - for LSMEM_REPL_ACTIVATE; durable already
 * @era: as in struct lsmem_activate
 * @generation_floor: as in struct lsmem_activate
 * @generation_ceiling: as in struct lsmem_activate
 * @store_time: as in struct lsmem_activate
 * @next_segment: as in struct lsmem_activate
 */
struct recover_activation {
	uint32_t era;
	uint32_t generation_floor;
	uint32_t generation_ceiling;
	uint64_t store_time;
	uint64_t next_segment;
};

#define RECOVER_GENERATIONS	4096u	/* generations between the floor and the first ceiling */

struct recover *recover_new(const struct recover_env *env);
void recover_free(struct recover *r);
int recover_open(struct recover *r, enum recover_state *state);
int recover_open_slot(struct recover *r, uint32_t slot);
const struct lsmem_super *recover_super(const struct recover *r);
uint32_t recover_slot(const struct recover *r, uint32_t index);
const struct lsmem_super *recover_slot_super(const struct recover *r, uint32_t slot);
bool recover_slot_blank(const struct recover *r, uint32_t slot);
bool recover_unread(const struct recover *r);
uint64_t recover_room(const struct recover *r, uint32_t replicas);
int recover_join(struct recover *r, uint64_t incarnation);
int recover_ready(struct recover *r, uint32_t slot, const struct lsmem_super *like,
		  const struct digest_log *log, uint64_t incarnation);
const struct digest_past *recover_past(const struct recover *r, uint32_t slot);
uint32_t recover_joiner(const struct recover *r, uint32_t index);
uint64_t recover_backup_bytes(uint64_t frames);
int recover_format(struct recover *r, const struct recover_geometry *g);
int recover_map(struct recover *r, bool accept_missing);
const struct digest_map *recover_digest(const struct recover *r);
int recover_run(struct recover *r, const struct recover_options *options,
		struct recover_result *result);
int recover_check(struct recover *r, struct recover_result *result);
void recover_activation(const struct recover *r, struct recover_activation *activation);
uint32_t recover_damaged(const struct recover *r, const uint64_t **segments);

#endif
