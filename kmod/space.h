/* SPDX-License-Identifier: GPL-2.0 */
/* Space: waiting for it, and being slowed down before it is gone.  See space.c. */
#ifndef LSMEM_SPACE_H
#define LSMEM_SPACE_H

#include <linux/types.h>

struct lsmem_head;
struct lsmem_store;

void lsmem_space_came(struct lsmem_store *store);
void lsmem_space_made(struct lsmem_store *store, u32 frames, u64 ns);
void lsmem_space_taken(struct lsmem_store *store, struct lsmem_head *head);
void lsmem_space_throttle(struct lsmem_store *store, struct lsmem_head *head);
int lsmem_space_wait(struct lsmem_store *store, int serial, u64 *deadline);

#endif
