/* SPDX-License-Identifier: GPL-2.0 */
/* Access patterns of the simulator: they choose the object that is written next. */
#ifndef SIM_PATTERN_H
#define SIM_PATTERN_H

#include <stdint.h>

#include "../../tests/common/random.h"

/**
 * struct pattern - a stream of writes
 * @pick: chooses the next object, 0 to @objects - 1
 * @random: state of the random numbers
 * @objects: number of objects
 * @written: number of writes so far; the caller counts
 * @cdf: Zipf: for each object, share of the writes that go to objects up to this one; else NULL
 */
struct pattern {
	uint32_t (*pick)(struct pattern *p);
	uint64_t random;
	uint32_t objects;
	uint64_t written;
	double *cdf;
};

int pattern_init(struct pattern *p, const char *name, uint32_t objects, uint64_t seed);
void pattern_destroy(struct pattern *p);
const char *pattern_names(void);

#endif
