/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Codecs: the blocks of a backup to and from what the daemon works with, each
 * checked whole before any of it is believed.  The bytes themselves are
 * described in lsmem_format.h and nowhere else.
 */
#ifndef LSMEMD_FORMAT_H
#define LSMEMD_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lsmem_format.h>

/* Feature bits that this program knows; see struct lsmem_features. */
#define FORMAT_COMPAT		0u
#define FORMAT_RO_COMPAT	0u
#define FORMAT_INCOMPAT		LSMEM_INCOMPAT_BACKUPS

/* What is wrong with a block; FORMAT_OK is 0.  format_strerror() says it. */
enum format_error {
	FORMAT_OK,
	FORMAT_ZERO,		/* nothing was ever written here */
	FORMAT_MAGIC,
	FORMAT_CRC,
	FORMAT_VERSION,
	FORMAT_INCOMPATIBLE,	/* an incompat feature that we do not know */
	FORMAT_READ_ONLY,	/* a ro_compat feature that we do not know */
	FORMAT_RANGE,		/* a field is out of range */
	FORMAT_FOREIGN,		/* of another store, backup, segment or time */
};

const char *format_strerror(enum format_error error);
bool format_is_zero(const void *data, size_t length);
/* A block that may be there before a backup is formatted. */
bool format_is_blank(const void *block);

/* Each *_seal() computes the CRC of a block whose other fields are set. */
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
enum format_error format_directory_check(const struct lsmem_directory_entry *directory,
					 const struct lsmem_segment_footer *footer,
					 uint64_t max_handles);

/* A digest record lies in whole blocks, zero behind the items. */
uint64_t format_digest_bytes(uint32_t items);
void format_digest_seal(struct lsmem_digest *digest);
/* The head alone, before its items are read: magic, kind, bounds of @room. */
enum format_error format_digest_head_check(const struct lsmem_digest *digest,
					   const struct lsmem_super *super, uint64_t room);
/* All of it, format_digest_bytes() long. */
enum format_error format_digest_check(const struct lsmem_digest *digest,
				      const struct lsmem_super *super, uint64_t room);

static inline struct lsmem_digest_item *format_digest_items(struct lsmem_digest *digest)
{
	return (struct lsmem_digest_item *)(digest + 1);
}

/* Where things lie. */
static inline uint64_t format_frame_offset(const struct lsmem_super *super, uint32_t frame)
{
	return __le64_to_cpu(super->frames_start) + (uint64_t)frame * LSMEM_SEGMENT_BYTES;
}

static inline uint64_t format_half_offset(const struct lsmem_super *super, uint32_t half)
{
	return __le64_to_cpu(super->digest_start) + half * __le64_to_cpu(super->digest_bytes);
}

uint64_t format_half_bytes(uint64_t frames);
uint64_t format_segments_of(const uint64_t *frames, const uint32_t *domain, uint32_t nr,
			    uint32_t replicas);

/* Of the store that a backup is of: how many it has, and frames of the largest. */
static inline uint32_t format_backups(const struct lsmem_super *super)
{
	uint32_t backups = __le32_to_cpu(super->backups);

	return backups ? backups : 1;
}

static inline uint64_t format_set_frames(const struct lsmem_super *super)
{
	uint64_t frames = __le64_to_cpu(super->set_frames);

	return frames ? frames : __le64_to_cpu(super->frames);
}

/**
 * struct format_walk - steps through the entries of a segment by their headers
 * @salt: lsmem_segment_salt()
 * @at: where the next header is expected: set to 0 to begin; home offset
 * @end: where the log data end
 */
struct format_walk {
	uint32_t salt;
	uint32_t at;
	uint32_t end;
};

/* Takes @entry, read at @walk->at, and steps over it.  A header that is not
 * valid here, or that reaches beyond @walk->end, is an error and no step.
 */
enum format_error format_walk_step(struct format_walk *walk, const struct lsmem_entry *entry);

/**
 * struct format_verify - checks all of a closed or sealed segment, as its bytes arrive
 * @walk: entries that have been checked end where it is
 * @entries: objects and tombstones among these
 * @headers_crc: over their headers, as in a footer
 * @directory_crc: over their directory, as in a footer
 */
struct format_verify {
	struct format_walk walk;
	uint32_t entries;
	uint32_t headers_crc;
	uint32_t directory_crc;
};

void format_verify_begin(struct format_verify *verify, const uint8_t *uuid, uint64_t segment,
			 uint32_t generation, uint32_t length);
enum format_error format_verify_data(struct format_verify *verify, const uint8_t *data,
				     uint32_t have);
enum format_error format_verify_length(const struct format_verify *verify);
enum format_error format_verify_closed(const struct format_verify *verify, const uint8_t *frame,
				       const struct lsmem_super *super, uint64_t segment,
				       uint32_t generation);

#endif
