/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The target of a migration: this host's kernel gets the words of what was told while the source still serves the store, so that
 * little is left to be done while no host does (PREPARE). No I/O. Documentation/migration.rst, Words that are placed ahead.
 *
 *	placing_new()		before the first block
 *	placing_run()		after blocks: gives the kernel what counts now, and takes back what does not
 *	placing_finish()	all was told: then the kernel has the objects that count, and no others
 *	placing_told()		for recover_run()
 *
 * What was told changes as it comes: an object is moved, replaced, deleted, its segment is retired. So an object that was placed
 * and counts no more is taken back, before anything is placed for its index again. Tombstones are not placed: the recovery reads
 * them.
 *
 * Memory: 4 bytes for each listing that came since the last placing_run(), 40 for each that is to be taken back, 4 for each
 * tombstone.
 */
#ifndef LSMEMD_PLACING_H
#define LSMEMD_PLACING_H

#include <stdbool.h>
#include <stdint.h>

#include "known.h"
#include "lsmem.h"

#define PLACING_BATCH	1024u	/* objects of a call, at most */

/**
 * struct placing_user - what it needs of its caller
 * @place: do LSMEM_REPL_PLACE; its size is not filled in. Return: 0 or a negative errno
 */
struct placing_user {
	int (*place)(void *context, struct lsmem_placement *place);
};

struct placing;

struct placing *placing_new(struct known *known, const struct placing_user *user, void *context);
void placing_free(struct placing *p);
int placing_run(struct placing *p, uint32_t most);
bool placing_waits(const struct placing *p);
int placing_finish(struct placing *p);
void placing_told(struct placing *p, struct recover_told *told);

#endif
