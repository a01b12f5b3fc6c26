/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The choice of segments to clean, and their order: a pure function from the kernel's table of
 * segments to ids. Scores and selection come from kmod/policy.c, which is compiled here as well.
 * The kernel does the pass or refuses it: a wrong choice costs time, never data.
 */
#ifndef LSMEMD_CLEAN_H
#define LSMEMD_CLEAN_H

#include <stdbool.h>
#include <stdint.h>

#include <lsmem.h>

#include "../../kmod/policy.h"

/**
 * enum clean_measure - in what a pass is measured
 * @CLEAN_BACKUP: a segment holds its frame; its survivors take entries and their directory
 * @CLEAN_MEMORY: a segment holds its seglets; its survivors take entries
 */
enum clean_measure {
	CLEAN_BACKUP,
	CLEAN_MEMORY,
};

/**
 * struct clean_choice - the pass to ask the kernel for
 * @segments: ids, in the order wanted
 * @nr: elements of @segments in use; 0: no segment is worth a pass
 * @measure: by which they were chosen
 * @live: live bytes of all of them, by @measure
 * @held: bytes that they hold, by @measure
 */
struct clean_choice {
	uint64_t segments[LSMEM_POLICY_VICTIMS];
	uint32_t nr;
	enum clean_measure measure;
	uint64_t live, held;
};

const char *clean_measure_name(enum clean_measure measure);
void clean_choose(const struct lsmem_cleaning *want, const struct lsmem_segment_stat *table,
		  uint32_t nr, uint32_t frames, uint32_t segment_bytes, struct lsmem_candidate *candidates,
		  struct clean_choice *choice);

#endif
