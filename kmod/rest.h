/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How the threads that make room give way to writers.  See rest.c.  lsmem_rest() decides about
 * priority and rests.  Callers: compact.c and clean.c.
 */
#ifndef LSMEM_REST_H
#define LSMEM_REST_H

#include <linux/types.h>

struct lsmem_store;

/**
 * struct lsmem_rest - rests of a thread
 * @since: when it last rested or began, ktime in ns
 * @ns: time of its rests since lsmem_rest_begin()
 */
struct lsmem_rest {
	u64 since;
	u64 ns;
};

u64 lsmem_rest_begin(struct lsmem_rest *rest);
void lsmem_rest(const struct lsmem_store *store, struct lsmem_rest *rest);

#endif
