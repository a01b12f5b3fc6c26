/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The oracle of the power-cut tests: a journal kept outside the guest, and what
 * it says each slot may hold after the power has gone.
 *
 * A slot is an object (kind 'o') or a block (kind 'b').  A thread owns its
 * slots, has at most one operation on each under way, and writes to the journal
 *
 *	ISSUED	 before an operation is begun
 *	DONE	 when it has returned, not durable (tells the handle)
 *	DURABLE	 when it has returned, durable
 *	REFUSED	 when it has returned with an error: it must never be seen
 *	SYNCED	 when a sync has returned: all the thread has done until then is durable
 *	RESOLVED what a verification found where more than one answer was right
 *
 * A slot is right if it is as the last durable operation left it, or as any
 * that was issued after that did.
 */
#ifndef TESTS_POWER_ORACLE_H
#define TESTS_POWER_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/content.h"
#include "../common/random.h"

#define ORACLE_MAGIC	0x4c4e524au
#define ORACLE_FREED	4096u	/* handles kept that must stay stale */

enum record_what { ISSUED = 1, DONE, DURABLE, REFUSED, SYNCED, RESOLVED };
enum record_op { OP_NONE, OP_ALLOC, OP_REPLACE, OP_FREE };	/* for blocks: write, write, discard */

struct record {
	uint32_t magic;
	uint32_t check;		/* of the rest: a record may be cut */
	uint8_t kind;
	uint8_t what;
	uint8_t op;
	uint8_t thread;
	uint32_t length;
	uint64_t slot;
	uint64_t sequence;
	uint64_t handle;
};

/* What a slot holds, or may hold. */
struct state {
	uint64_t sequence;	/* of the operation that left it so */
	uint64_t handle;	/* 0: not known */
	uint32_t length;
	uint8_t op;		/* OP_FREE, OP_NONE: nothing */
	uint8_t refused;
};

#define PENDING	64u	/* operations on one slot since it was last durable */

struct slot {
	struct state base;
	struct state *pending;
	uint32_t nr_pending;
	uint8_t thread;
};

struct oracle {
	uint8_t kind;
	uint64_t nr_slots;
	struct slot *slots;
	uint64_t sequence;	/* highest seen */
	uint64_t acknowledged;	/* operations known durable */
	uint64_t freed[ORACLE_FREED];
	uint64_t nr_freed;
};

int oracle_init(struct oracle *o, uint8_t kind, uint64_t nr_slots);
void oracle_take(struct oracle *o, const struct record *r);
int oracle_read(struct oracle **oracles, size_t nr, const char *directory);

/* The journal port; one writer at a time. */
int journal_open(void);
void journal_write(const struct record *records, size_t nr);
void record_fill(struct record *r, uint8_t kind, uint8_t what, uint8_t op, uint8_t thread);
void record_seal(struct record *r);

/* The state a thread's next operation on the slot starts from: all has returned. */
struct state slot_now(const struct slot *slot);

#endif
