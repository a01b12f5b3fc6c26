/* SPDX-License-Identifier: GPL-2.0 */
/* Which object is written next. */
#ifndef SIM_PATTERN_H
#define SIM_PATTERN_H

#include <stdint.h>

#include "../../tests/common/random.h"

/**
 * struct pattern - a stream of writes
 * @pick: the next object, 0 .. @objects - 1
 * @random: where chance comes from
 * @objects: how many there are
 * @written: picks until now
 * @cdf: Zipf: share of the writes that go to objects up to this one
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
