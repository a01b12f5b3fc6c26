/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of recovery share; recover.h describes recovery as a whole. */
#ifndef LSMEMD_RECOVER_PRIVATE_H
#define LSMEMD_RECOVER_PRIVATE_H

#include "recover.h"
#include "base/rule.h"

/* The longest log data, bytes: a frame without header and footer. */
#define RECOVER_DATA_MAX	(LSMEM_SEGMENT_BYTES - 2 * LSMEM_BLOCK)

/**
 * struct recover_segment - a listed segment
 * @item: what the digest says
 * @coded: it is in a lane of a stripe; @copies are its shards
 * @lane: of a coded segment: its part of their frames
 * @place: of a coded segment: its lane in the digest, as in struct digest_stripes
 * @proven: of an open coded segment: so many bytes of log data were durable, by its parity records
 * @nr_copies: elements of @copies in use
 * @copy: number in @copies of the replica that is read
 * @good: mask of the replicas in @copies that are to stay listed
 * @copies: slot and frame of each replica that can be read; the shard, of a coded segment
 * @slot: backup of the replica that is read
 * @frame: of the replica that is read
 * @salt: of its entries
 * @cut: bytes of log data that are there: where the last valid entry ends
 * @entries_crc: of the footer
 * @directory_crc: of the footer
 * @winners: its entries that are the newest of their index; after pass 2, those handed on
 * @placed: objects of it that the kernel had before; in @winners after pass 2
 * @closed: footer and directory are sound
 * @damaged: @closed, and entries are not sound: each later recovery would find that again
 * @lost: no replica can be read
 * @end: directory and footer that recovery has made for it: see close.c; NULL: none
 * @end_bytes: their length
 */
struct recover_segment {
	struct digest_item item;
	bool coded;
	uint32_t lane, place, proven;
	uint32_t nr_copies, copy, good;
	struct {
		uint32_t slot, frame, shard;
	} copies[LSMEM_BACKUPS];
	uint32_t slot, frame;
	uint32_t salt;
	uint32_t cut;
	uint32_t entries_crc;
	uint32_t directory_crc;
	uint32_t winners, placed;
	bool closed;
	bool damaged;
	bool lost;
	uint8_t *end;
	uint32_t end_bytes;
};

/**
 * struct recover_winner - the newest entry found for an index
 * @version: of the entry
 * @meta: of its listing
 * @generation: of its handle
 * @segment: number of its segment, from 1; 0: no entry was found, or the kernel has it
 */
struct recover_winner {
	uint64_t version;
	uint64_t meta;
	uint32_t generation;
	uint32_t segment;
};

/* Segments in memory at a time: the kernel is loading one, recovery is reading one, and the others
 * are read ahead. Each backup adds some. More do not make it faster, and each is 8 MiB to be taken
 * and to pass through the processor's cache.
 */
#define RECOVER_FRAMES		(RECOVER_AHEAD / 2 + 1)
#define RECOVER_FRAMES_FIRST	3u
#define RECOVER_FRAMES_EACH	2u	/* and for each backup */

/* A read that was begun ahead; see @ahead in struct recover_env. */
struct recover_range {
	uint64_t offset;
	void *data;
	uint32_t length;
};

#define RECOVER_NONE	LSMEM_BACKUPS

/**
 * struct recover_backup - one of the backups, by slot
 * @there: it can be read, and holds a store
 * @blank: it can be read, and both superblock copies are zero
 * @chain: @map is a digest that was read from it
 * @may_join: it is blank, or no member by the newest digest
 * @index: its index in the newest digest; RECOVER_NONE: it is no member
 * @joiner: its index when it joins; RECOVER_NONE: it does not join
 * @super: its superblock
 * @super_copy: number of the newest superblock copy
 * @super_sequence: of that copy
 * @map: the newest digest on it
 * @past: see recover_past(); it has the items of @map
 */
struct recover_backup {
	bool there, blank, chain, may_join;
	uint32_t index, joiner;
	struct lsmem_super super;
	uint32_t super_copy;
	uint64_t super_sequence;
	struct digest_map map;
	struct digest_past past;
};

/**
 * struct recover - a recovery
 * @env: the caller's part
 * @backups: by slot
 * @super: superblock of the first backup that holds a store; used for what all superblocks have in
 *	common
 * @several: number of slots if there is more than one; otherwise 0
 * @domains: failure domains are configured; false: each backup is a domain of its own
 * @blank: recover_open() returned RECOVER_BLANK
 * @unread: a backup is of an older format
 * @check: nothing is written
 * @told: listings do not say more of a place than its block
 * @verifying: the pass that reads all of a tiered store, and gives nothing to the kernel
 * @pass: passes that are done
 * @passes: how many there are
 * @accepted: members are absent that could have newer digests, and the operator accepts that
 * @map: the newest digest
 * @activation: for recover_activation()
 * @segments: the listed segments, by id
 * @nr_segments: elements of @segments
 * @winners: by handle index: the memory grows with the handles, never with the data
 * @indices: elements of @winners
 * @dense: nearly all pages of @winners will be used
 * @touched: of each RECOVER_TOUCH of @winners, whether one of them may be there
 * @frames: buffers of LSMEM_SEGMENT_BYTES, used in turn
 * @nr_frames: elements of @frames
 * @frame: the buffer in use, laid out like a backup frame
 * @buffer: the log data in @frame, after its first block
 * @coded: for coded segments; NULL: there are none
 * @begun: ranges that are being read ahead
 * @begun_first: of @begun, the oldest
 * @begun_next: of @begun, the next to use; both count modulo RECOVER_AHEAD
 * @time: highest time of all versions seen, and of the digest
 * @barrier: highest barrier of all tombstones that won: a segment id
 * @era: highest era of all versions seen, and of the digest
 * @generation: highest generation of all handles seen, and the ceiling of the digest
 * @sequence: highest sequence of all digest records seen, or named by segment headers
 * @max_segment: highest id of a listed segment
 * @damaged: ids of the segments for recover_damaged()
 * @nr_damaged: elements of @damaged
 * @result: what was found
 */
struct recover {
	struct recover_env env;
	struct recover_backup backups[LSMEM_BACKUPS];
	struct lsmem_super super;
	uint32_t several;
	bool domains;
	bool blank;
	bool unread;
	bool check;
	bool told;
	bool verifying;
	uint32_t pass, passes;
	bool accepted;
	struct digest_map map;
	struct recover_activation activation;
	struct recover_segment *segments;
	uint32_t nr_segments;
	struct recover_winner *winners;
	uint64_t indices;
	bool dense;
	bool *touched;
	uint8_t *frames[RECOVER_FRAMES];
	uint32_t nr_frames;
	uint8_t *frame;
	uint8_t *buffer;
	struct recover_coded *coded;
	struct recover_range begun[RECOVER_AHEAD];
	uint32_t begun_first, begun_next;
	uint64_t time;
	uint64_t barrier;
	uint32_t era;
	uint32_t generation;
	uint64_t sequence;
	uint64_t max_segment;
	uint64_t *damaged;
	uint32_t nr_damaged;
	struct recover_result result;
};

const char *recover_name(const struct recover *r, uint32_t slot);
void recover_info(struct recover *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void recover_damage(struct recover *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int recover_read(struct recover *r, uint64_t offset, void *data, uint32_t length);
void recover_ahead(struct recover *r, uint64_t offset, void *data, uint32_t length);

/* Return: the address of the log data of the replica that is read. */
static inline uint64_t recover_data_offset(const struct recover *r,
					   const struct recover_segment *seg)
{
	return recover_address(seg->slot, format_frame_offset(&r->backups[seg->slot].super,
							      seg->frame) + LSMEM_BLOCK);
}

/* Choose the replica of a segment that is read from now on. */
static inline void recover_use_copy(struct recover_segment *seg, uint32_t copy)
{
	seg->copy = copy;
	seg->slot = seg->copies[copy].slot;
	seg->frame = seg->copies[copy].frame;
}

void recover_ahead_end(struct recover *r);
void recover_progress(const struct recover *r, uint32_t done);
void recover_bad_copy(struct recover *r, struct recover_segment *seg, const char *why);

#define RECOVER_PREFETCH	24u	/* keys ahead: so many cache misses a CPU has in flight */

#define RECOVER_TOUCH		(1u << 16)	/* winners whose pages are taken together: 1.5 MiB */

void recover_touch(struct recover *r, uint64_t index);
uint64_t recover_winner_from(const struct recover *r, uint64_t index);

/* Prefetch the winner of @key, which can lie in two cache lines. */
static inline void recover_prefetch(struct recover *r, uint64_t key)
{
	uint64_t index = lsmem_handle_index(key);
	const struct recover_winner *winner = &r->winners[index];

	if (index >= r->indices)
		return;
	if (r->dense && !r->touched[index / RECOVER_TOUCH])
		recover_touch(r, index);
	__builtin_prefetch(winner, 1);
	__builtin_prefetch((const char *)(winner + 1) - 1, 1);
}

/* Use the buffer of a turn. */
static inline void recover_use(struct recover *r, uint32_t turn)
{
	r->frame = r->frames[turn % r->nr_frames];
	r->buffer = r->frame + LSMEM_BLOCK;
}

/* recover/digest.c */
int recover_read_log(struct recover *r, uint32_t slot);
uint32_t recover_index(const struct recover *r, const struct digest_map *map, uint32_t slot);
int recover_read_digests(struct recover *r, bool accept_missing);
int recover_write_digest(struct recover *r, uint32_t half);
void recover_members(struct recover *r);
int recover_promise(struct recover *r);

#define RECOVER_STEP	0x9e3779b97f4a7c15ull	/* odd: 2^32 steps visit all low halves */

/* recover/format.c: for new members */
uint64_t recover_slot_frames(const struct recover *r, uint32_t slot, uint64_t start);
int recover_write_super(struct recover *r, uint32_t slot);
void recover_set_code(struct recover *r, const struct recover_code *code);
int recover_forget_code(struct recover *r);
uint64_t recover_incarnation(const struct recover *r, uint64_t incarnation);

/* recover/scan.c: pass 1 */
void recover_scan_ahead(struct recover *r, uint32_t nr, uint32_t turn);
int recover_scan(struct recover *r, uint32_t nr);

/* recover/coded.c */
struct recover_coded *recover_coded_new(uint32_t k, uint32_t m);
void recover_coded_free(struct recover_coded *coded);
int recover_seg_read(struct recover *r, struct recover_segment *seg, uint32_t at, void *data, uint32_t length);
int recover_coded_finish(struct recover *r, struct recover_segment *seg, uint32_t *slots);
bool recover_coded_room(const struct recover *r, uint32_t length, uint32_t end);

/* recover/close.c */
void recover_close(struct recover *r, struct recover_segment *seg);
int recover_close_all(struct recover *r);
void recover_close_end(struct recover *r);

/* recover/told.c: pass 1 of a migration's target */
int recover_told_digest(struct recover *r, const struct recover_told *told);
int recover_told(struct recover *r, const struct recover_told *told, uint64_t *oldest);

/* recover/load.c: winners, pass 2 */
void recover_consider(struct recover *r, uint32_t nr, const struct lsmem_directory_entry *listing);
void recover_entry(struct recover *r, uint32_t nr, const struct lsmem_entry *entry, uint32_t home);
void recover_load_ahead(struct recover *r, uint32_t nr, uint32_t turn);
int recover_load(struct recover *r, uint32_t nr, uint64_t oldest);
int recover_loaded(struct recover *r);
bool recover_keeps(struct recover *r, const struct lsmem_entry *entry, uint64_t oldest);

/* recover/place.c: pass 2 of a tiered store */
int recover_places(struct recover *r, uint64_t oldest);

#endif
