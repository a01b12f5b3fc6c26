/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The store that the target of a migration makes in this host's kernel while its source serves it (MADE_FIRST), and the words that
 * are placed in it meanwhile (PREPARE). Documentation/migration.rst, The target's daemon, Words that are placed ahead.
 */
#ifndef LSMEMD_MADE_H
#define LSMEMD_MADE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lsmemd.h"
#include "move/placing.h"

/**
 * struct made - the store
 * @d: the daemon
 * @plan: of the store
 * @uuid: of the store
 * @thread: makes it
 * @making: @thread was started, and not joined
 * @done: @thread is done, with @err
 * @err: 0 or a negative errno
 * @placing: places the words of what was told; NULL: the recovery does
 * @told: what the recovery is told, with the words placed
 */
struct made {
	struct lsmemd *d;
	struct lsmem_create plan;
	uint8_t uuid[LSMEM_UUID_BYTES];
	pthread_t thread;
	bool making;
	atomic_bool done;
	int err;
	struct placing *placing;
	struct recover_told told;
};

void made_begin(struct made *m, struct lsmemd *d, const uint8_t *uuid);
void made_knows(struct made *m, struct known *known);
int made_step(struct made *m);
void made_place(struct made *m);
bool made_waits(const struct made *m);
const struct recover_told *made_told(struct made *m, const struct recover_told *told);
void made_forget(struct made *m);
int made_undo(struct made *m);
void made_end(struct made *m);

#endif
