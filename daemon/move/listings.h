/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The source of a migration: the listings of a segment, from the bytes of a replica, for tell_directory(). The kernel does
 * not know what is not in its memory. No I/O.
 */
#ifndef LSMEMD_LISTINGS_H
#define LSMEMD_LISTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "lsmem.h"
#include "lsmem_format.h"

#define LISTINGS_MAX	(LSMEM_SEGMENT_BYTES / LSMEM_LONG_BYTES)	/* of a segment */

/**
 * struct listings - which segment, and how
 * @super: superblock of the backup
 * @indices: of the store: format_indices()
 * @segment: id
 * @generation: of the segment
 * @length: bytes of log data, as the digest lists them
 * @closed: it has a directory; false: a recovery has sealed it, and its entries are looked at
 */
struct listings {
	const struct lsmem_super *super;
	uint64_t indices, segment;
	uint32_t generation, length;
	bool closed;
};

void listings_range(const struct listings *l, uint32_t *from, uint32_t *to);
int listings_make(const struct listings *l, const uint8_t *bytes, struct lsmem_listing *listings);

#endif
