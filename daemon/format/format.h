/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Makes and checks the blocks of a backup. A check covers the whole block; the caller uses nothing
 * of a block that has not passed it. lsmem_format.h alone describes the bytes.
 */
#ifndef LSMEMD_FORMAT_H
#define LSMEMD_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lsmem_format.h>

/* The feature bits that this program supports; see struct lsmem_features. */
#define FORMAT_COMPAT		0u
#define FORMAT_RO_COMPAT	0u
#define FORMAT_INCOMPAT		(LSMEM_INCOMPAT_BACKUPS | LSMEM_INCOMPAT_TIER | LSMEM_INCOMPAT_MANY | LSMEM_INCOMPAT_CODE)

/* What is wrong with a block; FORMAT_OK is 0. */
enum format_error {
	FORMAT_OK,
	FORMAT_ZERO,		/* the block is zero: never written */
	FORMAT_MAGIC,
	FORMAT_CRC,
	FORMAT_OLD,		/* of a format before LSMEM_FORMAT */
	FORMAT_VERSION,
	FORMAT_INCOMPATIBLE,	/* an unknown incompat feature */
	FORMAT_READ_ONLY,	/* an unknown ro_compat feature */
	FORMAT_RANGE,		/* a field is out of range */
	FORMAT_FOREIGN,		/* of another store, backup, segment or time */
	FORMAT_UNFIT,		/* of a shard: of other data than the entries, or than other shards */
};

const char *format_strerror(enum format_error error);
bool format_is_zero(const void *data, size_t length);
bool format_is_blank(const void *block);

void format_super_seal(struct lsmem_super *super);
enum format_error format_super_check(const struct lsmem_super *super, uint64_t backup_bytes);

void format_header_seal(struct lsmem_segment_header *header);
enum format_error format_header_check(const struct lsmem_segment_header *header,
				      const struct lsmem_super *super, uint64_t segment,
				      uint32_t generation);

void format_footer_seal(struct lsmem_segment_footer *footer);
enum format_error format_footer_check(const struct lsmem_segment_footer *footer,
				      const struct lsmem_super *super, uint64_t segment,
				      uint32_t generation);
enum format_error format_listing_check(const struct lsmem_directory_entry *listing, uint32_t length,
				       uint64_t indices, uint32_t *end);
enum format_error format_directory_check(const struct lsmem_directory_entry *directory,
					 const struct lsmem_segment_footer *footer,
					 uint64_t indices);
uint32_t format_end_bytes(uint32_t length);
enum format_error format_end_check(const uint8_t *end, const struct lsmem_super *super, uint64_t segment,
				   uint32_t generation, uint32_t length, uint64_t indices,
				   const struct lsmem_directory_entry **directory);
uint64_t format_indices(const struct lsmem_super *super);

/* A digest record takes whole blocks; the bytes after its items are zero. */
uint64_t format_digest_bytes(uint32_t items);
void format_digest_seal(struct lsmem_digest *digest);
enum format_error format_digest_check(const struct lsmem_digest *digest,
				      const struct lsmem_super *super, uint64_t room);

static inline struct lsmem_digest_item *format_digest_items(struct lsmem_digest *digest)
{
	return (struct lsmem_digest_item *)(digest + 1);
}

/* Return: the byte of the backup at which a frame begins. */
static inline uint64_t format_frame_offset(const struct lsmem_super *super, uint32_t frame)
{
	return __le64_to_cpu(super->frames_start) + (uint64_t)frame * LSMEM_SEGMENT_BYTES;
}

/* Return: the byte of the backup at which a half of the digest log begins. */
static inline uint64_t format_half_offset(const struct lsmem_super *super, uint32_t half)
{
	return __le64_to_cpu(super->digest_start) + half * __le64_to_cpu(super->digest_bytes);
}

uint64_t format_half_bytes(uint64_t frames);
uint32_t format_domains(const uint32_t *domain, uint32_t mask);
uint64_t format_segments_of(const uint64_t *frames, const uint32_t *domain, uint32_t nr,
			    uint32_t replicas);

/* Return: number of backups of the store that a backup belongs to. */
static inline uint32_t format_backups(const struct lsmem_super *super)
{
	uint32_t backups = __le32_to_cpu(super->backups);

	return backups ? backups : 1;
}

bool format_code(uint32_t k, uint32_t m, uint32_t backups);

/* Return: does the superblock say that the store is coded? */
static inline bool format_coded(const struct lsmem_super *super)
{
	return super->features.incompat & __cpu_to_le32(LSMEM_INCOMPAT_CODE);
}

/* Return: frames of the largest backup of the store. */
static inline uint64_t format_set_frames(const struct lsmem_super *super)
{
	uint64_t frames = __le64_to_cpu(super->set_frames);

	return frames ? frames : __le64_to_cpu(super->frames);
}

/**
 * struct format_walk - steps through the entries of a segment
 * @salt: lsmem_segment_salt() of the segment
 * @at: home offset at which the next header is expected; begins with 0
 * @end: home offset at which the log data end
 */
struct format_walk {
	uint32_t salt;
	uint32_t at;
	uint32_t end;
};

/*
 * A length is followed only after a CRC that covers it, which takes the whole entry.
 * format_walk_step() does all of it; if the entry is not in one piece, format_walk_look() says how
 * much of it there would be, and format_walk_pass() takes the CRC of the payload.
 */
enum format_error format_walk_look(const struct format_walk *walk, const struct lsmem_entry *entry);
enum format_error format_walk_pass(struct format_walk *walk, const struct lsmem_entry *entry,
				   uint32_t pcrc);
enum format_error format_walk_step(struct format_walk *walk, const struct lsmem_entry *entry);

/* Return: the payload of an entry that is in one piece. */
static inline const void *format_payload(const struct lsmem_entry *entry)
{
	return (const uint8_t *)entry + lsmem_entry_header(entry);
}

/* Does the directory list an entry? It lists objects and tombstones. */
static inline bool format_is_listed(const struct lsmem_entry *entry)
{
	uint32_t type = lsmem_entry_type(entry);

	return type == LSMEM_TYPE_OBJECT || type == LSMEM_TYPE_TOMBSTONE;
}

/* Are two listings of one version the same, but for their places? @a, @b: their @meta. */
static inline bool format_listing_same(uint64_t a, uint64_t b)
{
	return !((a ^ b) & ~(((1ull << LSMEM_LISTING_HOME_BITS) - 1) << LSMEM_LISTING_HOME_SHIFT));
}

/**
 * struct format_verify - checks all of a closed or sealed segment, as its bytes arrive
 * @walk: at the end of the entries that have been checked
 * @entries: objects and tombstones among these entries
 * @entries_crc: CRC over the CRCs of all entries, as in a footer
 * @directory_crc: CRC over their directory, as in a footer
 */
struct format_verify {
	struct format_walk walk;
	uint32_t entries;
	uint32_t entries_crc;
	uint32_t directory_crc;
};

void format_verify_begin(struct format_verify *verify, const uint8_t *uuid, uint64_t segment,
			 uint32_t generation, uint32_t length);
enum format_error format_verify_data(struct format_verify *verify, const uint8_t *data,
				     uint32_t have);
enum format_error format_verify_length(const struct format_verify *verify);
void format_footer_make(struct lsmem_segment_footer *footer, const uint8_t *uuid, uint64_t segment,
			uint32_t generation, const struct format_verify *verify);
enum format_error format_verify_closed(const struct format_verify *verify, const uint8_t *frame,
				       const struct lsmem_super *super, uint64_t segment,
				       uint32_t generation);

#endif
