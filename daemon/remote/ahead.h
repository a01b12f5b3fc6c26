/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the source of a migration tells its target of the store, ahead and once more at the end: the
 * only definition of the bytes. Documentation/migration.rst describes the protocol.
 *
 * A block is a head, and records of one kind. The target reads it from a slot of the source, as the
 * answer of a READ (wire.h), into memory that the source cannot reach, and calls ahead_check() before
 * anything else reads it. All integers are little-endian.
 *
 *	AHEAD_LISTINGS	live entries of one segment, objects and tombstones, in the order of their home
 *			offsets. Without records: the segment exists
 *	AHEAD_GONE	segments that are retired: what is live is told in other segments. No listing of them
 *			follows
 *	AHEAD_MARK	little is left to tell; again and again until the target moves the store, so that it knows that
 *			the source is there
 *	AHEAD_COME	an operator of the source wants the target to move the store now. From WIRE_VERSION_STANDBY on
 *
 * Of two listings of an index the one with the higher generation counts, then the one with the higher
 * version, then the later one: a cleaner moves an entry, and compaction its place in memory.
 *
 * Blocks of a connection are numbered without gaps. So none is missing when the number that READY
 * names has come, and none of another connection, store or term is taken.
 */
#ifndef LSMEMD_AHEAD_H
#define LSMEMD_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/types.h>

#include "lsmem_format.h"

#define AHEAD_MAGIC	0x414d534cu	/* "LSMA" */
#define AHEAD_BYTES	(256u << 10)	/* no block is longer: a slot of the source */
#define AHEAD_COLD	UINT64_MAX	/* place of an object that is not in its segment's memory */

enum ahead_kind {
	AHEAD_LISTINGS	= 1,
	AHEAD_GONE	= 2,
	AHEAD_MARK	= 3,
	AHEAD_COME	= 4,
	AHEAD_KINDS
};

struct ahead_head {
	__le32 magic;
	__le32 crc;		/* CRC32C of all bytes after this field */
	__le32 length;		/* bytes of the block, head included */
	__le32 kind;
	__u8 uuid[LSMEM_UUID_BYTES];
	__le64 term;		/* of the source's ownership */
	__le64 sequence;	/* of the block on its connection, from 1 */
	__le64 segment;		/* LISTINGS: id; else 0, as the next two */
	__le32 generation;	/* of the segment */
	__le32 end;		/* bytes of log data that the segment has, at home */
	__le32 nr;		/* records that follow */
	__le32 zero;
};

struct ahead_listing {
	struct lsmem_directory_entry entry;
	__le64 place;		/* as struct lsmem_listing. Object: position in the source's memory, with the
				 * number of the cache segment if it is in one, or AHEAD_COLD; tombstone: its
				 * barrier
				 */
};

#define AHEAD_ROOM	((AHEAD_BYTES - sizeof(struct ahead_head)) / sizeof(struct ahead_listing))	/* listings of a block */

_Static_assert(sizeof(struct ahead_head) == 72, "head");
_Static_assert(sizeof(struct ahead_listing) == 32, "listing");

/**
 * struct ahead_stream - the blocks of one connection, for either side
 * @uuid: of the store
 * @term: of the source's ownership
 * @sequence: of the next block; begins with 1
 * @indices: of the store: format_indices()
 * @seglets: of the source's memory
 * @cached: places in cache segments are told (WIRE_VERSION_CACHED)
 */
struct ahead_stream {
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint64_t term, sequence;
	uint64_t indices;
	uint32_t seglets;
	bool cached;
};

/* The source */
void ahead_begin(struct ahead_head *block, enum ahead_kind kind);
void ahead_begin_segment(struct ahead_head *block, uint64_t segment, uint32_t generation, uint32_t end);
bool ahead_add_listing(struct ahead_head *block, const struct lsmem_directory_entry *entry, uint64_t place);
bool ahead_add_gone(struct ahead_head *block, uint64_t segment);
void ahead_added(struct ahead_head *block, uint32_t nr);
size_t ahead_seal(struct ahead_stream *stream, struct ahead_head *block);

/* Room for AHEAD_ROOM listings of a block, to be written before ahead_added(). */
static inline struct ahead_listing *ahead_room(struct ahead_head *block)
{
	return (struct ahead_listing *)(block + 1);
}

/* The target */
const char *ahead_check(struct ahead_stream *stream, const struct ahead_head *block, size_t length);

/* Records of a LISTINGS that ahead_check() has accepted. */
static inline const struct ahead_listing *ahead_listings(const struct ahead_head *block)
{
	return (const struct ahead_listing *)(block + 1);
}

/* Ids of a GONE that ahead_check() has accepted. */
static inline const __le64 *ahead_gone(const struct ahead_head *block)
{
	return (const __le64 *)(block + 1);
}

#endif
