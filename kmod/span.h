/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Spans: changes of several objects in one append.  See span.c.  lsmem_span_gather() decides which
 * operations a span takes, lsmem_span_publish() makes them visible in order; chardev.c calls
 * lsmem_span_change() for the vector call.
 */
#ifndef LSMEM_SPAN_H
#define LSMEM_SPAN_H

#include "../uapi/lsmem.h"

struct lsmem_store;

#define LSMEM_SPAN_MAX		64u	/* operations in a span, and in a chunk of a vector call */

u32 lsmem_span_change(struct lsmem_store *store, struct lsmem_op *ops, u32 nr, u64 deadline);

#endif
