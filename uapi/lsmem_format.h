/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * lsmem: the on-disk format.
 *
 * The only definition of everything that lsmem writes: log entries (the same bytes in DRAM and on
 * a backup), frames of a backup, superblock and digest log.  Kernel, daemon, tools and tests
 * include this file.  Documentation/format.rst describes the same with pictures.
 *
 * All integers are little-endian.  The unit of I/O is LSMEM_BLOCK bytes; a write of one such block
 * is assumed to be atomic, no larger one.  CRCs are CRC-32C (Castagnoli) without final inversion;
 * the seed is named beside the field.
 *
 * What includes this file provides, by linking,
 *	u32 lsmem_crc32c(u32 seed, const void *data, size_t length);
 */
#ifndef _UAPI_LSMEM_FORMAT_H
#define _UAPI_LSMEM_FORMAT_H

#include <linux/types.h>
#include <asm/byteorder.h>

/* ---- Geometry ---------------------------------------------------------- */

#define LSMEM_BLOCK		4096u		/* unit of backup I/O, bytes */
#define LSMEM_SEGLET_BYTES	(64u << 10)	/* a seglet of memory, bytes */
#define LSMEM_SEGMENT_BYTES	(8u << 20)	/* a frame of a backup, bytes */
#define LSMEM_SEGLETS		(LSMEM_SEGMENT_BYTES / LSMEM_SEGLET_BYTES)
#define LSMEM_OBJECT_MAX	(1u << 20)	/* largest payload, bytes */
#define LSMEM_ALIGN		8u		/* entries begin and end on it */
#define LSMEM_TABLES		4096u		/* table ids are below this */
#define LSMEM_UUID_BYTES	16u

/* ---- Log entries ------------------------------------------------------- */

/**
 * struct lsmem_entry - the header of every entry in a log
 * @hcrc:    CRC of the 28 bytes that follow, seeded with the segment's salt
 *	     (lsmem_segment_salt()), so that an old entry in a reused frame is not
 *	     taken for one of the segment that owns the frame now
 * @pcrc:    CRC of the payload, seed ~0; independent of the place, so that a
 *	     move copies it
 * @key:     object, tombstone: the handle.  Commit: the offset that was
 *	     acknowledged in this segment when the record was written: if
 *	     the record is found, but not all bytes below that offset, data are lost
 * @version: object, tombstone: the version, which is also the creation time
 *	     (lsmem_version_time()).  Commit: the store's clock
 * @meta:    length, type, home offset and table: LSMEM_META_*
 *
 * A header lies within one seglet: if fewer than sizeof(struct lsmem_entry) bytes of a seglet are
 * left, the next entry begins in the next one and the gap is zero (lsmem_entry_start()).  Payloads
 * can cross seglets.
 */
struct lsmem_entry {
	__le32 hcrc;
	__le32 pcrc;
	__le64 key;
	__le64 version;
	__le64 meta;
};

#define LSMEM_ENTRY_BYTES	32u

#define LSMEM_META_LENGTH_SHIFT	0		/* payload bytes, 0..1 MiB */
#define LSMEM_META_LENGTH_BITS	21
#define LSMEM_META_TYPE_SHIFT	21		/* enum below */
#define LSMEM_META_TYPE_BITS	6
#define LSMEM_META_HOME_SHIFT	27		/* offset in the segment as it is
						 * on backups, in 8-byte units
						 */
#define LSMEM_META_HOME_BITS	20
#define LSMEM_META_TABLE_SHIFT	47		/* table id */
#define LSMEM_META_TABLE_BITS	12
/* bits 59..63 are zero; a reader refuses an entry that has one set */

#define LSMEM_TYPE_OBJECT	1u	/* a version of an object */
#define LSMEM_TYPE_TOMBSTONE	2u	/* payload: struct lsmem_tombstone */
#define LSMEM_TYPE_COMMIT	3u	/* no payload; ends a replicated group */
#define LSMEM_TYPE_PAD		4u	/* bytes to be skipped */
#define LSMEM_TYPE_SKIPPABLE	0x20u	/* unknown types with it are skipped,
					 * without it they stop the reader
					 */

/**
 * struct lsmem_tombstone - the payload of a tombstone
 * @barrier: every older copy of the object was written to a segment with a lower id.  The tombstone
 *	     can be dropped when no durable digest lists any of these (invariant 13)
 */
struct lsmem_tombstone {
	__le64 barrier;
};

/* ---- Handles and versions ---------------------------------------------- */

/* A handle: index in bits 0..35, generation in 36..63.  0 is no handle. */
#define LSMEM_HANDLE_INDEX_BITS	36
#define LSMEM_HANDLE_INDEX_MASK	((1ull << LSMEM_HANDLE_INDEX_BITS) - 1)
#define LSMEM_GENERATION_BITS	28
#define LSMEM_GENERATION_MAX	((1u << LSMEM_GENERATION_BITS) - 1)

/*
 * A version: bits 0..47, the store's clock when it was issued, in units of 1024 ns, at least one
 * more than in the version it replaces; bits 48..63, the era, which each recovery raises.  So a
 * version is larger than all earlier ones of the same handle, also across a crash (invariant 14),
 * and gives the age of the entry.
 */
#define LSMEM_VERSION_TIME_BITS	48
#define LSMEM_ERA_MAX		0xffffu

static inline __u64 lsmem_version_time(__u64 version)
{
	return version & ((1ull << LSMEM_VERSION_TIME_BITS) - 1);
}

static inline __u64 lsmem_version_make(__u32 era, __u64 time)
{
	return ((__u64)era << LSMEM_VERSION_TIME_BITS) | lsmem_version_time(time);
}

static inline __u64 lsmem_handle_make(__u64 index, __u32 generation)
{
	return ((__u64)generation << LSMEM_HANDLE_INDEX_BITS) | index;
}

static inline __u64 lsmem_handle_index(__u64 handle)
{
	return handle & LSMEM_HANDLE_INDEX_MASK;
}

static inline __u32 lsmem_handle_generation(__u64 handle)
{
	return (__u32)(handle >> LSMEM_HANDLE_INDEX_BITS);
}

/* ---- Entry codec ------------------------------------------------------- */

__u32 lsmem_crc32c(__u32 seed, const void *data, __kernel_size_t length);

#define LSMEM_META_GET(meta, field)					\
	(((meta) >> LSMEM_META_##field##_SHIFT) &			\
	 ((1ull << LSMEM_META_##field##_BITS) - 1))

static inline __u64 lsmem_meta_make(__u32 length, __u32 type, __u32 home, __u32 table)
{
	return ((__u64)length << LSMEM_META_LENGTH_SHIFT) |
	       ((__u64)type << LSMEM_META_TYPE_SHIFT) |
	       ((__u64)(home / LSMEM_ALIGN) << LSMEM_META_HOME_SHIFT) |
	       ((__u64)table << LSMEM_META_TABLE_SHIFT);
}

static inline __u32 lsmem_entry_length(const struct lsmem_entry *e)
{
	return (__u32)LSMEM_META_GET(__le64_to_cpu(e->meta), LENGTH);
}

static inline __u32 lsmem_entry_type(const struct lsmem_entry *e)
{
	return (__u32)LSMEM_META_GET(__le64_to_cpu(e->meta), TYPE);
}

static inline __u32 lsmem_entry_home(const struct lsmem_entry *e)
{
	return (__u32)LSMEM_META_GET(__le64_to_cpu(e->meta), HOME) * LSMEM_ALIGN;
}

static inline __u32 lsmem_entry_table(const struct lsmem_entry *e)
{
	return (__u32)LSMEM_META_GET(__le64_to_cpu(e->meta), TABLE);
}

/* Bytes that an entry with this payload takes in the log, header included. */
static inline __u32 lsmem_entry_size(__u32 length)
{
	return LSMEM_ENTRY_BYTES + ((length + LSMEM_ALIGN - 1) & ~(LSMEM_ALIGN - 1));
}

/* Where the entry after @offset begins: a header never crosses a seglet. */
static inline __u32 lsmem_entry_start(__u32 offset)
{
	__u32 left = LSMEM_SEGLET_BYTES - offset % LSMEM_SEGLET_BYTES;

	return left < LSMEM_ENTRY_BYTES ? offset + left : offset;
}

/* The seed of all header CRCs in a segment, which ties entries to their segment. */
static inline __u32 lsmem_segment_salt(const __u8 *uuid, __u64 segment, __u32 generation)
{
	__le64 id = __cpu_to_le64(segment);
	__le32 gen = __cpu_to_le32(generation);
	__u32 crc;

	crc = lsmem_crc32c(~0u, uuid, LSMEM_UUID_BYTES);
	crc = lsmem_crc32c(crc, &id, sizeof(id));
	return lsmem_crc32c(crc, &gen, sizeof(gen));
}

static inline __u32 lsmem_entry_hcrc(const struct lsmem_entry *e, __u32 salt)
{
	return lsmem_crc32c(salt, (const __u8 *)e + sizeof(e->hcrc),
			    LSMEM_ENTRY_BYTES - sizeof(e->hcrc));
}

/* Is @e a valid header of an entry in the segment with @salt? */
static inline int lsmem_entry_valid(const struct lsmem_entry *e, __u32 salt)
{
	__u64 meta = __le64_to_cpu(e->meta);
	__u32 type = (__u32)LSMEM_META_GET(meta, TYPE);

	return __le32_to_cpu(e->hcrc) == lsmem_entry_hcrc(e, salt) && type &&
	       !(meta >> (LSMEM_META_TABLE_SHIFT + LSMEM_META_TABLE_BITS)) &&
	       (type == LSMEM_TYPE_PAD || LSMEM_META_GET(meta, LENGTH) <= LSMEM_OBJECT_MAX);
}

/* ---- A segment on a backup --------------------------------------------- */

/*
 * A backup frame of LSMEM_SEGMENT_BYTES:
 *
 *	block 0			struct lsmem_segment_header
 *	block 1 ..		log data; home offset o is byte LSMEM_BLOCK + o
 *	.. block n-2		directory, when closed; ends where the footer begins
 *	block n-1		struct lsmem_segment_footer, when closed
 *
 * lsmem_segment_fits() keeps the three apart.
 */
#define LSMEM_SEGMENT_MAGIC	0x3130474553534d4cull	/* "LMSSEG01" */
#define LSMEM_FOOTER_MAGIC	0x3130544f46534d4cull	/* "LMSFOT01" */
#define LSMEM_DIGEST_MAGIC	0x3130474944534d4cull	/* "LMSDIG01" */
#define LSMEM_SUPER_MAGIC	0x3130505553534d4cull	/* "LMSSUP01" */
#define LSMEM_FORMAT		1u

#define LSMEM_BACKUPS		8u	/* most backups of a store */

/* In @incompat of a superblock: the backup is one of several. */
#define LSMEM_INCOMPAT_BACKUPS	1u

/* Feature masks.  With unknown ro_compat bits the backup can only be read, with unknown incompat
 * bits it is refused; unknown compat bits are ignored.
 */
struct lsmem_features {
	__le32 compat;
	__le32 ro_compat;
	__le32 incompat;
	__le32 reserved;
};

/**
 * struct lsmem_segment_header - block 0 of a backup frame
 * @magic: LSMEM_SEGMENT_MAGIC
 * @crc: of the block with this field zero, seed ~0; likewise in all blocks below
 * @format: LSMEM_FORMAT
 * @features: that a reader must know
 * @uuid: of the store
 * @incarnation: of the backup (struct lsmem_super)
 * @term: of the owner that opened the segment
 * @segment: its id
 * @generation: of the segment, from 1
 * @replica_generation: of the segment's replica set
 * @digest_sequence: highest digest sequence durable when it was opened
 * @open_time: store time when it was opened
 * @key_id: encryption key, 0 for none; @nonce goes with it
 * @reserved0: 0
 * @nonce: 0
 * @reserved: 0
 */
struct lsmem_segment_header {
	__le64 magic;
	__le32 crc;
	__le32 format;
	struct lsmem_features features;
	__u8 uuid[LSMEM_UUID_BYTES];
	__le64 incarnation;
	__le64 term;
	__le64 segment;
	__le32 generation;
	__le32 replica_generation;
	__le64 digest_sequence;
	__le64 open_time;
	__le32 key_id;
	__le32 reserved0;
	__u8 nonce[16];
	__u8 reserved[3976];
};

/**
 * struct lsmem_directory_entry - one object or tombstone of a closed segment
 * @key: the handle
 * @version: of the object or record
 * @meta: as in the entry: length, type, home offset, table
 */
struct lsmem_directory_entry {
	__le64 key;
	__le64 version;
	__le64 meta;
};

/**
 * struct lsmem_segment_footer - last block of a backup frame
 * @magic: LSMEM_FOOTER_MAGIC
 * @crc: as in struct lsmem_segment_header
 * @format: LSMEM_FORMAT
 * @uuid: of the store
 * @segment: its id
 * @generation: of the frame: grows with each use
 * @length: bytes of log data
 * @entries: directory entries
 * @headers_crc: CRC, seed ~0, of the @hcrc fields of all entries in order, which verifies the
 *	sequence of entries without a second pass over payloads
 * @directory_crc: CRC, seed ~0, of the directory's entries, without the zeros after the last
 * @reserved0: 0
 * @reserved: 0
 */
struct lsmem_segment_footer {
	__le64 magic;
	__le32 crc;
	__le32 format;
	__u8 uuid[LSMEM_UUID_BYTES];
	__le64 segment;
	__le32 generation;
	__le32 length;
	__le32 entries;
	__le32 headers_crc;
	__le32 directory_crc;
	__le32 reserved0;
	__u8 reserved[4032];
};

static inline __u32 lsmem_block_round(__u32 bytes)
{
	return (bytes + LSMEM_BLOCK - 1) & ~(LSMEM_BLOCK - 1);
}

static inline __u32 lsmem_directory_bytes(__u32 entries)
{
	return lsmem_block_round(entries * (__u32)sizeof(struct lsmem_directory_entry));
}

/* Do @length bytes of log, and a directory of @entries objects and tombstones, fit into one frame
 * of a backup?
 */
static inline int lsmem_segment_fits(__u32 length, __u32 entries)
{
	return length <= LSMEM_SEGMENT_BYTES && entries <= LSMEM_SEGMENT_BYTES / LSMEM_ENTRY_BYTES &&
	       2 * LSMEM_BLOCK + lsmem_block_round(length) + lsmem_directory_bytes(entries) <=
	       LSMEM_SEGMENT_BYTES;
}

/* ---- Superblock and digest log ----------------------------------------- */

/*
 * A backup:
 *
 *	block 0, block 1	superblock copies; only the older is overwritten,
 *				after the newer is flushed
 *	@digest_start ..	the digest log: two halves of @digest_bytes each
 *	@frames_start ..	@frames segment frames
 *
 * Each half of the digest log begins with a full record; deltas follow, each
 * beginning on a block, with consecutive sequence numbers.  A record that does not fit is written as
 * a full record to the other half.  The newest durable record is the last of the longest valid chain
 * with the highest (term, sequence).
 */

/**
 * struct lsmem_super - a superblock copy
 * @magic: LSMEM_SUPER_MAGIC
 * @crc: as in struct lsmem_segment_header
 * @format: LSMEM_FORMAT
 * @features: that a reader must know
 * @uuid: of the store
 * @incarnation: random number of this formatting; a backup with another incarnation never takes
 *	the place of this one (invariant 18)
 * @sequence: of two valid copies, the one with the higher sequence is the newer
 * @digest_start: offset of the digest log, bytes
 * @digest_bytes: of each half of it
 * @frames_start: offset of the frames, bytes
 * @frames: how many
 * @kind: enum lsmem_store_kind of the store; with @store_bytes and @max_handles, what a recovery
 *	creates the store from
 * @backups: of the store, when it was formatted; 0: this is the only one
 * @store_bytes: memory of the store's log
 * @max_handles: objects or blocks of the store
 * @set_frames: most frames of any backup of the store; 0: @frames
 * @promise: the newest term that a recovery intended to begin on this backup and others, whether or
 *	not it succeeded; the next recovery begins a later term (invariant 1)
 * @reserved: 0
 */
struct lsmem_super {
	__le64 magic;
	__le32 crc;
	__le32 format;
	struct lsmem_features features;
	__u8 uuid[LSMEM_UUID_BYTES];
	__le64 incarnation;
	__le64 sequence;
	__le64 digest_start;
	__le64 digest_bytes;
	__le64 frames_start;
	__le64 frames;
	__le32 kind;
	__le32 backups;
	__le64 store_bytes;
	__le64 max_handles;
	__le64 set_frames;
	__le64 promise;
	__u8 reserved[3960];
};

#define LSMEM_DIGEST_FULL	1u
#define LSMEM_DIGEST_DELTA	2u

/**
 * struct lsmem_digest - the head of a digest record; items follow
 * @magic: LSMEM_DIGEST_MAGIC
 * @crc: CRC, seed ~0, of head (this field zero) and items together
 * @kind: LSMEM_DIGEST_FULL or _DELTA
 * @uuid: of the store
 * @term: raised by each recovery and takeover
 * @sequence: grows by one with each record, across terms too
 * @items: struct lsmem_digest_item that follow
 * @era: of the versions issued in this term
 * @generation_ceiling: no higher handle generation has been issued
 * @floor: in how many failure domains of members the next record must be durable to count; 0: 1
 * @store_time: the store's clock, which never decreases, also across recoveries
 * @next_segment: ids from here on have not been used
 * @members: low halves of the incarnations of the backups, at the index by which items name them;
 *	0: none.  All 0: there is a single backup
 * @set_generation: raised when @members or @domains change
 * @domains: failure domain of each member, from 1 on; 0: the member is one by itself
 * @reserved: 0
 */
struct lsmem_digest {
	__le64 magic;
	__le32 crc;
	__le32 kind;
	__u8 uuid[LSMEM_UUID_BYTES];
	__le64 term;
	__le64 sequence;
	__le32 items;
	__le32 era;
	__le32 generation_ceiling;
	__le32 floor;
	__le64 store_time;
	__le64 next_segment;
	__le32 members[LSMEM_BACKUPS];
	__le32 set_generation;
	__u8 domains[LSMEM_BACKUPS];
	__u8 reserved[4];
};

#define LSMEM_ITEM_OPEN		1u	/* listed, may still grow */
#define LSMEM_ITEM_CLOSED	2u	/* footer and directory durable */
#define LSMEM_ITEM_SEALED	3u	/* sealed by a recovery at @length; no footer */
#define LSMEM_ITEM_REMOVED	4u	/* in deltas: no longer listed */
/*
 * Not a segment: in full records, a recovery that continued without members that it could not read.
 * @cut is the term that it began, @segment the sequence of its first record, @generation a random
 * number of this recovery, not 0; the other members are 0.
 */
#define LSMEM_ITEM_BRANCH	5u

#define LSMEM_ITEM_FRAME_BITS	24

/**
 * struct lsmem_digest_item - one replica of a segment in a digest record
 * @segment: its id
 * @generation: of the segment
 * @replica_generation: of its replica set
 * @frame: index of the backup, shifted by LSMEM_ITEM_FRAME_BITS, and of the frame on it.  A segment
 *	has one item per replica
 * @state: LSMEM_ITEM_*
 * @length: bytes of log data that are known to be durable; exact if closed or sealed.  If a recovery
 *	finds fewer, data are lost
 * @bitmap: index of the checkpointed live bitmap; 0: none
 * @cut: @bitmap covers all operations in segments that were closed before segment @cut was opened;
 *	0: none
 */
struct lsmem_digest_item {
	__le64 segment;
	__le32 generation;
	__le32 replica_generation;
	__le32 frame;
	__le32 state;
	__le32 length;
	__le32 bitmap;
	__le64 cut;
};

#define LSMEM_FORMAT_ASSERT(type, bytes) \
	_Static_assert(sizeof(struct type) == (bytes), #type " has no padding")

LSMEM_FORMAT_ASSERT(lsmem_entry, LSMEM_ENTRY_BYTES);
LSMEM_FORMAT_ASSERT(lsmem_segment_header, LSMEM_BLOCK);
LSMEM_FORMAT_ASSERT(lsmem_segment_footer, LSMEM_BLOCK);
LSMEM_FORMAT_ASSERT(lsmem_super, LSMEM_BLOCK);
LSMEM_FORMAT_ASSERT(lsmem_directory_entry, 24);
LSMEM_FORMAT_ASSERT(lsmem_digest, 128);
LSMEM_FORMAT_ASSERT(lsmem_digest_item, 40);

#endif /* _UAPI_LSMEM_FORMAT_H */
