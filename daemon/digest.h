/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The digest log's meaning: which segments the log consists of.  A map is what
 * the newest durable digest says; records are made from and applied to it.
 * Reading the log is here too (digest_read()); writing it in normal operation
 * is core's (core_digest.c), in recovery recover's.
 */
#ifndef LSMEMD_DIGEST_H
#define LSMEMD_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "format.h"

/**
 * struct digest_item - a listed segment, as struct lsmem_digest_item
 */
struct digest_item {
	uint64_t segment;
	uint32_t generation;
	uint32_t replica_generation;
	uint32_t frame;
	uint32_t state;
	uint32_t length;
};

/**
 * struct digest_map - the log according to the newest durable digest
 * @half, @at: where the next delta goes: half of the digest log, byte in it
 * @nr, @items: listed segments by frame: items[frame].state is 0 when free
 */
struct digest_map {
	uint64_t epoch;
	uint64_t sequence;
	uint32_t era;
	uint32_t generation_ceiling;
	uint64_t store_time;
	uint64_t next_segment;
	uint32_t half;
	uint64_t at;
	uint32_t frames;
	uint32_t nr;
	struct digest_item *items;
};

#endif
