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
#define LSMEM_SEGMENT_LEAST	(7u << 20)	/* least that a segment can have on backups, bytes */
#define LSMEM_SEGLETS		(LSMEM_SEGMENT_BYTES / LSMEM_SEGLET_BYTES)
#define LSMEM_OBJECT_MAX	(1u << 20)	/* largest payload, bytes */
#define LSMEM_ALIGN		8u		/* entries begin and end on it */
#define LSMEM_TABLES		4096u		/* table ids are below this */
#define LSMEM_UUID_BYTES	16u

/* ---- Log entries ------------------------------------------------------- */

/**
 * struct lsmem_entry - the header of every entry in a log
 * @crc:     CRC of the payload, seed ~0, continued over the rest of the header, XOR the segment's
 *	     salt (lsmem_segment_salt()), so that an old entry in a reused frame is not taken for
 *	     one of the segment that owns the frame now.  The payload comes first, so a move that
 *	     verifies it has what the new header needs
 * @meta:    length, table, home block (low bits): LSMEM_META_*.  Length 0: @more follows
 * @key:     object, tombstone: the handle, with the interval in bits that no handle of a store uses:
 *	     LSMEM_KEY_*
 * @version: object, tombstone: the version, which is also the creation time
 *	     (lsmem_version_time()).  Commit: the store's clock.  Above: the home block's high bits
 * @more:    type and value: LSMEM_MORE_*; the header of a short entry ends before
 *
 * An entry is short if it is an object of 1 to LSMEM_SHORT_MAX bytes; all others are long.  The home
 * block is that of the place of the header on backups: home offset / LSMEM_BLOCK.
 *
 * A header lies within one seglet: if fewer than LSMEM_LONG_BYTES bytes of a seglet are left, the
 * next entry begins in the next one and the gap is zero (lsmem_entry_start()).  Payloads can cross
 * seglets.
 */
struct lsmem_entry {
	__le32 crc;
	__le32 meta;
	__le64 key;
	__le64 version;
	__le64 more;
};

#define LSMEM_SHORT_BYTES	24u		/* header of a short entry */
#define LSMEM_LONG_BYTES	32u		/* header of a long entry; no entry is smaller */
#define LSMEM_SHORT_MAX		2047u		/* largest payload of a short entry, bytes */

#define LSMEM_META_LENGTH_SHIFT	0		/* payload bytes; 0: in @more */
#define LSMEM_META_LENGTH_BITS	11
#define LSMEM_META_TABLE_SHIFT	11		/* table id */
#define LSMEM_META_TABLE_BITS	12
#define LSMEM_META_HOME_SHIFT	23		/* home block, low bits */
#define LSMEM_META_HOME_BITS	9

#define LSMEM_KEY_INTERVAL_SHIFT 31		/* as lsmem_policy_interval(); 0: unknown */
#define LSMEM_KEY_INTERVAL_BITS	5

#define LSMEM_ENTRY_VERSION_BITS 62		/* of @version; the home block's high bits follow */

#define LSMEM_MORE_TYPE_BITS	6		/* enum below */
#define LSMEM_MORE_VALUE_SHIFT	6		/* tombstone: barrier; commit, group: see
						 * below; others: payload bytes, 0..8 MiB
						 */

#define LSMEM_TYPE_OBJECT	1u	/* a version of an object */
#define LSMEM_TYPE_TOMBSTONE	2u	/* the object is deleted.  Its barrier: every older copy of
					 * the object was written to a segment with a lower id.  The
					 * tombstone can be dropped when no durable digest lists any
					 * of these (invariant 13)
					 */
#define LSMEM_TYPE_COMMIT	3u	/* ends a replicated group.  Its value: the offset that was
					 * acknowledged in this segment when the record was written:
					 * if the record is found, but not all bytes below that
					 * offset, data are lost
					 */
#define LSMEM_TYPE_PAD		4u	/* bytes to be skipped; no CRC covers them */
#define LSMEM_TYPE_GROUP	5u	/* a group follows: a change of several objects that is
					 * whole or none.  Its value: bytes from the end of this
					 * record to the end of the group's last entry, gaps
					 * included; all are in this segment.  Where not all of
					 * them are found, the log of the segment ends at this
					 * record.  Such a group was not acknowledged
					 */
#define LSMEM_TYPE_SKIPPABLE	0x20u	/* unknown types with it are skipped,
					 * without it they stop the reader
					 */

/* Segment ids are below this: a barrier fits into an entry. */
#define LSMEM_SEGMENT_ID_END	(1ull << 58)

/* ---- Handles and versions ---------------------------------------------- */

/*
 * A handle: index in bits 0..35, generation in 36..63.  0 is no handle.  No store has indices from
 * LSMEM_INDEX_END on.
 */
#define LSMEM_HANDLE_INDEX_BITS	36
#define LSMEM_HANDLE_INDEX_MASK	((1ull << LSMEM_HANDLE_INDEX_BITS) - 1)
#define LSMEM_INDEX_END		(1ull << LSMEM_KEY_INTERVAL_SHIFT)
#define LSMEM_GENERATION_BITS	28
#define LSMEM_GENERATION_MAX	((1u << LSMEM_GENERATION_BITS) - 1)

/*
 * Object stores have reserved indices, which follow those of other objects: max_handles of struct lsmem_super plus one
 * of these.  Only a call that names one gives it an object, which can so be found without its handle, also after a crash.
 */
#define LSMEM_RESERVED_ROOTS	0u	/* names of handles, kept by liblsmem: lsm_root_set() */
#define LSMEM_RESERVED		1u	/* so many reserved indices */

/*
 * A version: bits 0..47, the store's clock when it was issued, in units of 1024 ns, at least one
 * more than in the version it replaces; bits 48..61, the era, which each recovery raises.  So a
 * version is larger than all earlier ones of the same handle, also across a crash (invariant 14),
 * and gives the age of the entry.
 */
#define LSMEM_VERSION_TIME_BITS	48
#define LSMEM_ERA_MAX		0x3fffu

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
	 ((1u << LSMEM_META_##field##_BITS) - 1))

static inline __u32 lsmem_entry_table(const struct lsmem_entry *e)
{
	return LSMEM_META_GET(__le32_to_cpu(e->meta), TABLE);
}

/* The block of the segment, as it is on backups, in which the header begins. */
static inline __u32 lsmem_entry_home(const struct lsmem_entry *e)
{
	return LSMEM_META_GET(__le32_to_cpu(e->meta), HOME) |
	       (__u32)(__le64_to_cpu(e->version) >> LSMEM_ENTRY_VERSION_BITS) <<
	       LSMEM_META_HOME_BITS;
}

static inline __u64 lsmem_entry_version(const struct lsmem_entry *e)
{
	return __le64_to_cpu(e->version) & ((1ull << LSMEM_ENTRY_VERSION_BITS) - 1);
}

#define LSMEM_KEY_INTERVAL_MASK	\
	(((1ull << LSMEM_KEY_INTERVAL_BITS) - 1) << LSMEM_KEY_INTERVAL_SHIFT)

static inline __u64 lsmem_entry_handle(const struct lsmem_entry *e)
{
	return __le64_to_cpu(e->key) & ~LSMEM_KEY_INTERVAL_MASK;
}

static inline __u32 lsmem_entry_interval(const struct lsmem_entry *e)
{
	return (__u32)((__le64_to_cpu(e->key) & LSMEM_KEY_INTERVAL_MASK) >>
		       LSMEM_KEY_INTERVAL_SHIFT);
}

static inline int lsmem_entry_is_long(const struct lsmem_entry *e)
{
	return !LSMEM_META_GET(__le32_to_cpu(e->meta), LENGTH);
}

static inline __u32 lsmem_entry_type(const struct lsmem_entry *e)
{
	return lsmem_entry_is_long(e) ?
	       (__u32)__le64_to_cpu(e->more) & ((1u << LSMEM_MORE_TYPE_BITS) - 1) :
	       LSMEM_TYPE_OBJECT;
}

/* The value of a long entry. */
static inline __u64 lsmem_entry_value(const struct lsmem_entry *e)
{
	return __le64_to_cpu(e->more) >> LSMEM_MORE_VALUE_SHIFT;
}

/* Has a long entry of this type a payload, whose length is its value? */
static inline int lsmem_type_has_payload(__u32 type)
{
	return type != LSMEM_TYPE_TOMBSTONE && type != LSMEM_TYPE_COMMIT &&
	       type != LSMEM_TYPE_GROUP;
}

/* Payload bytes, for a header that lsmem_entry_sane() has accepted. */
static inline __u32 lsmem_entry_length(const struct lsmem_entry *e)
{
	if (!lsmem_entry_is_long(e))
		return LSMEM_META_GET(__le32_to_cpu(e->meta), LENGTH);
	return lsmem_type_has_payload(lsmem_entry_type(e)) ? (__u32)lsmem_entry_value(e) : 0;
}

/* Bytes of the header. */
static inline __u32 lsmem_entry_header(const struct lsmem_entry *e)
{
	return lsmem_entry_is_long(e) ? LSMEM_LONG_BYTES : LSMEM_SHORT_BYTES;
}

static inline __u32 lsmem_align(__u32 bytes)
{
	return (bytes + LSMEM_ALIGN - 1) & ~(LSMEM_ALIGN - 1);
}

/* Bytes that the entry takes in the log, for a header that lsmem_entry_sane() has accepted. */
static inline __u32 lsmem_entry_bytes(const struct lsmem_entry *e)
{
	return lsmem_entry_header(e) + lsmem_align(lsmem_entry_length(e));
}

/* Bytes of the header of an object with a payload of @length bytes; @length 0: of other entries. */
static inline __u32 lsmem_header_bytes(__u32 length)
{
	return length - 1 < LSMEM_SHORT_MAX ? LSMEM_SHORT_BYTES : LSMEM_LONG_BYTES;
}

/* Bytes that an object with this payload takes in the log.  @length 0: a tombstone or commit record. */
static inline __u32 lsmem_entry_size(__u32 length)
{
	return lsmem_header_bytes(length) + lsmem_align(length);
}

/* Where the entry after @offset begins: a header never crosses a seglet. */
static inline __u32 lsmem_entry_start(__u32 offset)
{
	__u32 left = LSMEM_SEGLET_BYTES - offset % LSMEM_SEGLET_BYTES;

	return left < LSMEM_LONG_BYTES ? offset + left : offset;
}

/**
 * lsmem_entry_make - make a header, without its CRC
 * @type: LSMEM_TYPE_*
 * @value: object, padding: payload bytes; others: as the type says
 * @handle: object, tombstone: the handle, whose index is below LSMEM_INDEX_END
 * @version: see struct lsmem_entry
 * @interval: 0..31
 * @table: below LSMEM_TABLES
 * @home: offset of the header in the segment as it is on backups
 */
static inline struct lsmem_entry lsmem_entry_make(__u32 type, __u64 value, __u64 handle,
						  __u64 version, __u32 interval, __u32 table,
						  __u32 home)
{
	__u32 length = type == LSMEM_TYPE_OBJECT && value <= LSMEM_SHORT_MAX ? (__u32)value : 0;
	__u32 block = home / LSMEM_BLOCK;
	struct lsmem_entry e;

	e.crc = 0;
	e.meta = __cpu_to_le32(length << LSMEM_META_LENGTH_SHIFT |
			       table << LSMEM_META_TABLE_SHIFT | block << LSMEM_META_HOME_SHIFT);
	e.key = __cpu_to_le64(handle | (__u64)interval << LSMEM_KEY_INTERVAL_SHIFT);
	e.version = __cpu_to_le64(version | (__u64)(block >> LSMEM_META_HOME_BITS) <<
				  LSMEM_ENTRY_VERSION_BITS);
	e.more = length ? 0 : __cpu_to_le64(type | value << LSMEM_MORE_VALUE_SHIFT);
	return e;
}

/*
 * Can this be a header?  Only its CRC, which covers the payload too, tells whether it is one: until
 * then its length is a guess within the bounds of a segment.
 */
static inline int lsmem_entry_sane(const struct lsmem_entry *e)
{
	__u32 type = lsmem_entry_type(e);
	__u64 value = lsmem_entry_value(e);

	if (!lsmem_entry_is_long(e))
		return 1;
	switch (type) {
	case 0:
		return 0;
	case LSMEM_TYPE_TOMBSTONE:
	case LSMEM_TYPE_COMMIT:
		return 1;
	case LSMEM_TYPE_OBJECT:
		return value > LSMEM_SHORT_MAX && value <= LSMEM_OBJECT_MAX;
	case LSMEM_TYPE_GROUP:
		return value >= LSMEM_SHORT_BYTES + LSMEM_ALIGN && value < LSMEM_SEGMENT_BYTES;
	default:
		return value < LSMEM_SEGMENT_BYTES;
	}
}

/* The CRC of an entry, from @pcrc, that of its payload. */
static inline __u32 lsmem_entry_crc(const struct lsmem_entry *e, __u32 pcrc, __u32 salt)
{
	return lsmem_crc32c(pcrc, (const __u8 *)e + sizeof(e->crc),
			    lsmem_entry_header(e) - (__u32)sizeof(e->crc)) ^ salt;
}

/* Does the CRC of @e cover its payload? */
static inline int lsmem_entry_covers(const struct lsmem_entry *e)
{
	return lsmem_entry_type(e) != LSMEM_TYPE_PAD;
}

/*
 * Is this the whole entry of the segment with @salt?  @payload: the bytes after the header, which
 * lsmem_entry_sane() has accepted.
 */
static inline int lsmem_entry_valid(const struct lsmem_entry *e, const void *payload, __u32 salt)
{
	__u32 pcrc = lsmem_entry_covers(e) ?
		     lsmem_crc32c(~0u, payload, lsmem_entry_length(e)) : ~0u;

	return __le32_to_cpu(e->crc) == lsmem_entry_crc(e, pcrc, salt);
}

/* Part of the CRCs of all entries of a segment, which ties them to their segment. */
static inline __u32 lsmem_segment_salt(const __u8 *uuid, __u64 segment, __u32 generation)
{
	__le64 id = __cpu_to_le64(segment);
	__le32 gen = __cpu_to_le32(generation);
	__u32 crc;

	crc = lsmem_crc32c(~0u, uuid, LSMEM_UUID_BYTES);
	crc = lsmem_crc32c(crc, &id, sizeof(id));
	return lsmem_crc32c(crc, &gen, sizeof(gen));
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
#define LSMEM_FORMAT		2u	/* 1: entries with a header of 32 bytes and two CRCs */

#define LSMEM_BACKUPS		16u	/* most backups of a store */
#define LSMEM_BACKUPS_FEW	8u	/* so many all versions of lsmem know */

/* In @incompat of a superblock: */
#define LSMEM_INCOMPAT_BACKUPS	1u	/* the backup is one of several */
#define LSMEM_INCOMPAT_TIER	2u	/* the store is tiered: its memory does not hold all of it */
#define LSMEM_INCOMPAT_MANY	4u	/* the store has more than LSMEM_BACKUPS_FEW backups */
#define LSMEM_INCOMPAT_CODE	8u	/* the store has a code: its digests may list stripes */

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
 * @meta: payload length, type, home offset, table, interval: LSMEM_LISTING_*
 */
struct lsmem_directory_entry {
	__le64 key;
	__le64 version;
	__le64 meta;
};

#define LSMEM_LISTING_LENGTH_SHIFT	0	/* payload bytes, 0..1 MiB */
#define LSMEM_LISTING_LENGTH_BITS	21
#define LSMEM_LISTING_TYPE_SHIFT	21	/* LSMEM_TYPE_OBJECT or _TOMBSTONE */
#define LSMEM_LISTING_TYPE_BITS		6
#define LSMEM_LISTING_HOME_SHIFT	27	/* home offset, in 8-byte units */
#define LSMEM_LISTING_HOME_BITS		20
#define LSMEM_LISTING_TABLE_SHIFT	47	/* table id */
#define LSMEM_LISTING_TABLE_BITS	12
#define LSMEM_LISTING_INTERVAL_SHIFT	59	/* as in the entry */
#define LSMEM_LISTING_INTERVAL_BITS	5

#define LSMEM_LISTING_GET(meta, field)					\
	(((meta) >> LSMEM_LISTING_##field##_SHIFT) &			\
	 ((1ull << LSMEM_LISTING_##field##_BITS) - 1))

static inline __u64 lsmem_listing_make(__u32 length, __u32 type, __u32 home, __u32 table,
				       __u32 interval)
{
	return ((__u64)length << LSMEM_LISTING_LENGTH_SHIFT) |
	       ((__u64)type << LSMEM_LISTING_TYPE_SHIFT) |
	       ((__u64)(home / LSMEM_ALIGN) << LSMEM_LISTING_HOME_SHIFT) |
	       ((__u64)table << LSMEM_LISTING_TABLE_SHIFT) |
	       ((__u64)interval << LSMEM_LISTING_INTERVAL_SHIFT);
}

/* What the directory says of an object or tombstone at home offset @home. */
static inline struct lsmem_directory_entry lsmem_entry_listing(const struct lsmem_entry *e,
							       __u32 home)
{
	struct lsmem_directory_entry listing = {
		__cpu_to_le64(lsmem_entry_handle(e)),
		__cpu_to_le64(lsmem_entry_version(e)),
		__cpu_to_le64(lsmem_listing_make(lsmem_entry_length(e), lsmem_entry_type(e), home,
						 lsmem_entry_table(e), lsmem_entry_interval(e))),
	};

	return listing;
}

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
 * @entries_crc: CRC, seed ~0, of the @crc fields of all entries in order, which verifies the
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
	__le32 entries_crc;
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

/* Do @length bytes of log, and a directory of @entries objects and tombstones, fit into a segment that
 * has @bytes on backups?
 */
static inline int lsmem_segment_fits_into(__u32 bytes, __u32 length, __u32 entries)
{
	return length <= LSMEM_SEGMENT_BYTES && entries <= LSMEM_SEGMENT_BYTES / LSMEM_LONG_BYTES &&
	       2 * LSMEM_BLOCK + lsmem_block_round(length) + lsmem_directory_bytes(entries) <= bytes;
}

/* Do they fit into one frame of a backup? */
static inline int lsmem_segment_fits(__u32 length, __u32 entries)
{
	return lsmem_segment_fits_into(LSMEM_SEGMENT_BYTES, length, entries);
}

/* ---- A shard of a coded segment ---------------------------------------- */

/*
 * What one backup has of a segment of a coded store (Documentation/stripes.rst): a lane of one of its frames.
 *
 *	block 0			struct lsmem_segment_header
 *	block 1 ..		a block of each row
 *	then, on parity shards	two sides: a struct lsmem_shard_record each, and a block for its parity
 *	last blocks		struct lsmem_shard_table of a closed or sealed segment
 */
#define LSMEM_SHARDS		16u			/* most shards of a segment: k + m */
#define LSMEM_RECORD_MAGIC	0x3130524150534d4cull	/* "LMSPAR01" */
#define LSMEM_TABLE_MAGIC	0x3130424154534d4cull	/* "LMSTAB01" */
#define LSMEM_PARITY_INSIDE	3840u	/* parity of up to so many bytes is in the block of its record */

/**
 * struct lsmem_shard_head - what parity records and tables begin with
 * @magic: LSMEM_RECORD_MAGIC or LSMEM_TABLE_MAGIC
 * @crc: of all blocks of the record or table with this field zero, seed ~0
 * @length: bytes of log data of the segment; of a record, when it was made: the log ends in the record's row, which is
 *	not full
 * @uuid: of the store
 * @segment: its id
 * @generation: of the segment
 * @k: data shards
 * @m: parity shards
 * @shard: that this is on, the data shards first
 * @reserved: 0
 */
struct lsmem_shard_head {
	__le64 magic;
	__le32 crc;
	__le32 length;
	__u8 uuid[LSMEM_UUID_BYTES];
	__le64 segment;
	__le32 generation;
	__u8 k;
	__u8 m;
	__u8 shard;
	__u8 reserved;
};

/**
 * struct lsmem_shard_record - the parity of a partial row on one parity shard
 * @head: as in struct lsmem_shard_head
 * @number: of the record, the same on all parity shards; a later record of the segment has a higher one
 * @durable: so many bytes of log data were durable on all shards before this record was made; a range ends there
 * @bytes: of parity: as many as the row's first data block has below the length
 * @parity_crc: of the parity, seed ~0: @bytes bytes, in @parity if they fit, else at the beginning of the next block
 * @reserved0: 0
 * @data_crc: of each data block of the row, of its bytes below the length, seed ~0; ~0 if it has none
 * @reserved: 0
 * @parity: parity of up to LSMEM_PARITY_INSIDE bytes; else 0
 */
struct lsmem_shard_record {
	struct lsmem_shard_head head;
	__le64 number;
	__le32 durable;
	__le32 bytes;
	__le32 parity_crc;
	__le32 reserved0;
	__le32 data_crc[LSMEM_SHARDS];
	__u8 reserved[120];
	__u8 parity[LSMEM_PARITY_INSIDE];
};

/**
 * struct lsmem_shard_table - the checksums of a shard of a closed or sealed segment; the rest of its blocks is zero
 * @head: as in struct lsmem_shard_head
 * @front: rows from the first one on that are written
 * @back: rows up to the last one that are written, not among @front
 * @reserved: 0
 * @block_crc: of the shard's block of each row, seed ~0; 0 of rows that are not written
 */
struct lsmem_shard_table {
	struct lsmem_shard_head head;
	__le32 front;
	__le32 back;
	__u8 reserved[8];
	__le32 block_crc[];
};

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
 * @capacity: most live bytes of a tiered store (LSMEM_INCOMPAT_TIER), at least @store_bytes; else 0
 * @code: of a coded store (LSMEM_INCOMPAT_CODE): lsmem_code_make() with shard 0; else 0
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
	__le64 capacity;
	__le32 code;
	__u8 reserved[3948];
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
 * @domains: failure domain of each member, from 1 on; 0: the member is one by itself
 * @set_generation: raised when @members or @domains change
 * @pad: 0
 * @exact: of segments with this id or a higher one no log data were written beyond the @length of
 *	their items, and none will be before the next record is durable; 0: not known
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
	__u8 domains[LSMEM_BACKUPS];
	__le32 set_generation;
	__le32 pad;
	__le64 exact;
	__u8 reserved[16];
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
/*
 * Not a segment: a frame of a stripe of a coded store. @stripe is the number of the stripe, @frame the frame,
 * @generation the shard of all its segments that is there, and the code: lsmem_code_make(); the other members are 0.
 * LSMEM_ITEM_REMOVED with @segment 0 and all else the same: the frame is no longer listed.
 */
#define LSMEM_ITEM_STRIPE	6u

#define LSMEM_ITEM_FRAME_BITS	24
#define LSMEM_ITEM_NO_FRAME	0xffffffffu	/* in @frame of a coded segment, which has a lane */
#define LSMEM_ITEM_LANE_BITS	4		/* of @stripe of a coded segment: its lane; above, the stripe */

/* Shard @shard of a code of @k data and @m parity shards, as an item names it. */
static inline __u32 lsmem_code_make(__u32 k, __u32 m, __u32 shard)
{
	return k | m << 4 | shard << 8;
}

static inline __u32 lsmem_code_k(__u32 code)
{
	return code & 15;
}

static inline __u32 lsmem_code_m(__u32 code)
{
	return code >> 4 & 15;
}

static inline __u32 lsmem_code_shard(__u32 code)
{
	return code >> 8;
}

/**
 * struct lsmem_digest_item - one replica of a segment, or a coded segment, in a digest record
 * @segment: its id
 * @generation: of the segment
 * @replica_generation: of its replica set
 * @frame: index of the backup, shifted by LSMEM_ITEM_FRAME_BITS, and of the frame on it.  A segment
 *	has one item per replica; a coded one has a single item, with LSMEM_ITEM_NO_FRAME
 * @state: LSMEM_ITEM_*
 * @length: bytes of log data that are known to be durable; exact if closed or sealed.  If a recovery
 *	finds fewer, data are lost
 * @bitmap: index of the checkpointed live bitmap; 0: none
 * @cut: @bitmap covers all operations in segments that were closed before segment @cut was opened;
 *	0: none
 * @stripe: of a coded segment: number of its stripe, shifted by LSMEM_ITEM_LANE_BITS, and its lane; else 0
 * @live: 0; room for the live bytes of the segment on its backups
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
	__le32 stripe;
	__le32 live;
};

/* ---- Pages ------------------------------------------------------------- */

/*
 * A range of pages consists of ordinary objects: its root, the nodes of a radix tree, and the pages.
 * A node has the handles of its children, or of pages, each as __le64, 0: none; zeroes at its end are
 * left out, as at the end of a page of a region.  A range whose tree has @levels levels has at most
 * LSMEM_NODE_SLOTS ^ @levels pages.
 */
#define LSMEM_PAGES_MAGIC	0x3130474150534d4cull	/* "LMSPAG01" */
#define LSMEM_NODE_BITS		9
#define LSMEM_NODE_SLOTS	(1u << LSMEM_NODE_BITS)
#define LSMEM_PAGES_LENGTH_MAX	(1ull << 44)

/**
 * struct lsmem_pages_root - the payload of a root
 * @magic: LSMEM_PAGES_MAGIC
 * @flags: LSMEM_PAGES_POOL, LSMEM_PAGES_ATOMIC
 * @table: table id of all objects of the range
 * @length: of the range, bytes
 * @top: handle of the top node, 0: the range is all holes
 * @levels: of the tree, 0: there is no node
 * @stage: of @journal: LSMEM_JOURNAL_*
 * @journal: handle of a journal, 0: there is none
 */
struct lsmem_pages_root {
	__le64 magic;
	__le32 flags;
	__le32 table;
	__le64 length;
	__le64 top;
	__le32 levels;
	__le32 stage;
	__le64 journal;
};

/* Stages of a journal */
#define LSMEM_JOURNAL_PREPARED	1	/* its pages are as they were; its new objects are to be freed */
#define LSMEM_JOURNAL_MADE	2	/* its pages have their new objects, whatever nodes say */

#define LSMEM_JOURNAL_MAGIC	0x3130464a50534d4cull	/* "LMSPJF01" */
#define LSMEM_JOURNAL_MAX	4096	/* pages in a journal */

/**
 * struct lsmem_page_move - a page in a journal
 * @page: its number
 * @new: handle of the object that it gets, 0: none
 * @old: handle of the object that it has had, 0: none
 */
struct lsmem_page_move {
	__le64 page;
	__le64 new;
	__le64 old;
};

/**
 * struct lsmem_pages_journal - the payload of a journal: a change of more pages than a group takes
 * @magic: LSMEM_JOURNAL_MAGIC
 * @nr: pages, up to LSMEM_JOURNAL_MAX
 * @moves: of each page
 */
struct lsmem_pages_journal {
	__le64 magic;
	__le64 nr;
	struct lsmem_page_move moves[];
};

/* ---- Roots ------------------------------------------------------------- */

/**
 * struct lsmem_roots - the object of the index LSMEM_RESERVED_ROOTS, which liblsmem keeps
 * @magic: LSMEM_ROOTS_MAGIC
 * @nr: roots that follow, one behind the other
 */
struct lsmem_roots {
	__le32 magic;
	__le32 nr;
};

#define LSMEM_ROOTS_MAGIC	0x524d534cu	/* "LSMR" */

/**
 * struct lsmem_root - a name of a handle
 * @handle: never 0
 * @length: of the name, which follows, without a zero at its end; 1 .. 255 bytes
 */
struct lsmem_root {
	__le64 handle;
	__le16 length;
} __attribute__((packed));

/* ---- Items of tables with keys ----------------------------------------- */

/**
 * struct lsmem_item_end - what an item ends with: value, key, this
 * @key_length: bytes of the key; 1 .. 65535
 */
struct lsmem_item_end {
	__le16 key_length;
};

#define LSMEM_FORMAT_ASSERT(type, bytes) \
	_Static_assert(sizeof(struct type) == (bytes), #type " has no padding")

LSMEM_FORMAT_ASSERT(lsmem_entry, LSMEM_LONG_BYTES);
LSMEM_FORMAT_ASSERT(lsmem_segment_header, LSMEM_BLOCK);
LSMEM_FORMAT_ASSERT(lsmem_segment_footer, LSMEM_BLOCK);
LSMEM_FORMAT_ASSERT(lsmem_shard_head, 48);
LSMEM_FORMAT_ASSERT(lsmem_shard_record, LSMEM_BLOCK);
LSMEM_FORMAT_ASSERT(lsmem_shard_table, 64);
LSMEM_FORMAT_ASSERT(lsmem_super, LSMEM_BLOCK);
LSMEM_FORMAT_ASSERT(lsmem_directory_entry, 24);
LSMEM_FORMAT_ASSERT(lsmem_digest, 192);
LSMEM_FORMAT_ASSERT(lsmem_digest_item, 48);
LSMEM_FORMAT_ASSERT(lsmem_pages_root, 48);
LSMEM_FORMAT_ASSERT(lsmem_page_move, 24);
LSMEM_FORMAT_ASSERT(lsmem_pages_journal, 16);

#endif /* _UAPI_LSMEM_FORMAT_H */
