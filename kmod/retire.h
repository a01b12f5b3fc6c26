/* SPDX-License-Identifier: GPL-2.0 */
/* Retiring: segments whose entries have been moved.  See retire.c. */
#ifndef LSMEM_RETIRE_H
#define LSMEM_RETIRE_H

#include <linux/types.h>

struct lsmem_event;
struct lsmem_segment;
struct lsmem_store;

bool lsmem_retires_full(const struct lsmem_store *store);
void lsmem_retire_add(struct lsmem_store *store, struct lsmem_segment *const *victims, u32 nr);
bool lsmem_retire_due(struct lsmem_store *store);
bool lsmem_retire_free(struct lsmem_store *store);
u32 lsmem_retire_tell(struct lsmem_store *store, struct lsmem_event *events, u32 room);
bool lsmem_retire_pending(struct lsmem_store *store);
bool lsmem_retire_ack(struct lsmem_store *store, u64 last);
void lsmem_retire_rewind(struct lsmem_store *store);
void lsmem_retire_forget(struct lsmem_store *store);

#endif
