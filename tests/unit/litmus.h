/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Named scenarios: each sets up one situation and looks at every way out.
 */
#ifndef UNIT_LITMUS_H
#define UNIT_LITMUS_H

#include <stdbool.h>
#include <stdint.h>

extern const struct litmus {
	const char *name;
	bool (*run)(void);
} litmus[];
extern const uint32_t nr_litmus;

/* The first that fails, with the rules as they are now; NULL: none does. */
const char *litmus_fails(void);

#endif
