/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Combined cleaning: which segments, in which order.  A pure function from what
 * the kernel shows of its segments to ids; scores and selection are those of
 * kmod/policy.c, the very file.  What is asked for then is the kernel's to do or
 * to refuse: a wrong answer costs time, never data.
 */
#ifndef LSMEMD_CLEAN_H
#define LSMEMD_CLEAN_H

#include <stdint.h>

#include <lsmem.h>

#include "../../kmod/policy.h"

/**
 * enum clean_measure - what a segment holds, and what its survivors take
 * @CLEAN_BACKUP: of the backup: a frame against entries and their directory
 * @CLEAN_MEMORY: of memory: its seglets against entries
 */
enum clean_measure {
	CLEAN_BACKUP,
	CLEAN_MEMORY,
};

/**
 * struct clean_choice - a pass to be asked for
 * @segments, @nr: ids in the order wanted; 0: nothing is worth it
 * @live, @held: of all of them, by @measure
 */
struct clean_choice {
	uint64_t segments[LSMEM_POLICY_VICTIMS];
	uint32_t nr;
	enum clean_measure measure;
	uint64_t live, held;
};

const char *clean_measure_name(enum clean_measure measure);
void clean_choose(const struct lsmem_cleaning *want, const struct lsmem_segment_stat *table,
		  uint32_t nr, uint32_t frames, struct lsmem_candidate *candidates,
		  struct clean_choice *choice);

#endif
