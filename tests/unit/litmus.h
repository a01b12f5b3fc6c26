/* SPDX-License-Identifier: GPL-2.0 */
/* Named scenarios: each sets up one situation and checks every way in which it can end. */
#ifndef UNIT_LITMUS_H
#define UNIT_LITMUS_H

#include <stdbool.h>
#include <stdint.h>

extern const struct litmus {
	const char *name;
	bool (*run)(void);
} litmus[];
extern const uint32_t nr_litmus;

/* The name of the first scenario that fails with the present rules; NULL: none fails. */
const char *litmus_fails(void);

#endif
