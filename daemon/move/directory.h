/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The source of a migration: reads the listings of a segment from a replica, for source_directory(), and from another one if
 * the first fails or is damaged. No I/O: the caller reads. One segment at a time.
 *
 *	directory_begin(), then directory_read() for each read that has ended
 */
#ifndef LSMEMD_DIRECTORY_H
#define LSMEMD_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "listings.h"

/**
 * struct directory - a segment whose listings are read
 * @core: knows the replicas
 * @indices: of the store: format_indices()
 * @bytes: memory for what is read: LSMEM_SEGMENT_BYTES, aligned to LSMEM_BLOCK
 * @listings: room for LISTINGS_MAX
 * @segment: id
 * @tried: mask of the backups whose replica was read
 * @backup: index of the backup to read
 * @offset: .. its byte
 * @length: .. bytes, into @bytes; both are multiples of LSMEM_BLOCK
 * @of: what is read
 */
struct directory {
	struct core *core;
	uint64_t indices;
	uint8_t *bytes;
	struct lsmem_listing *listings;
	uint64_t segment;
	uint32_t tried, backup;
	uint64_t offset;
	uint32_t length;
	struct listings of;
};

int directory_begin(struct directory *directory, uint64_t segment);
int directory_read(struct directory *directory, int error, uint32_t *nr);

#endif
