/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The oracle of the power-cut tests: a journal outside the guest, and a model that computes from
 * the journal what each slot may hold after a power cut.
 *
 * A slot is an object (kind 'o'), a block (kind 'b'), a page of a range that is not atomic (kind 'p'),
 * an item of a table or a root (kind 'i'), an item of a server (kind 'm'), or a whole range that changes by
 * transactions (kind 'r').  A thread owns its slots, has at most one operation on each under way, and writes
 * records to the journal:
 *
 *	ISSUED	 before an operation begins
 *	DONE	 when an operation has returned and may not be durable; it has the handle.  Of a
 *		 transaction: its stores are done, what makes it durable begins
 *	DURABLE	 when a durable operation has returned
 *	REFUSED	 when an operation has failed; its effect must never be seen
 *	SYNCED	 when a sync has returned: all operations of the thread so far are durable
 *	RESOLVED by a verification: the state that it found where several were permitted
 *
 * A slot is right if it has the state after its last durable operation, or after any operation
 * that was issued later.
 *
 * Operations of a group have the sequence of its first as their @group: after a cut it is there with all or none.
 * A slot shows that a group was there if it has the state after its operation, or after a later one.
 *
 * OP_CHECK, of a group, does not change its slot: the group is not there without the state that the slot had then, or
 * a later one.  The reverse says nothing.
 *
 * Of a range: OP_ALLOC makes it; OP_REPLACE is a transaction, whose @length are random bits, from which,
 * with its sequence, follows what it changes; @handle is always that of the range.
 */
#ifndef TESTS_POWER_ORACLE_H
#define TESTS_POWER_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/content.h"
#include "../common/random.h"

#define ORACLE_MAGIC	0x4c4e524au
#define ORACLE_FREED	4096u	/* number of freed handles that a verification checks */

enum record_what { ISSUED = 1, DONE, DURABLE, REFUSED, SYNCED, RESOLVED };
/* Blocks, pages: write, write, discard */
enum record_op { OP_NONE, OP_ALLOC, OP_REPLACE, OP_FREE, OP_CHECK };

struct record {
	uint32_t magic;
	uint32_t check;		/* checksum of the fields below: a record may be torn */
	uint8_t kind;
	uint8_t what;
	uint8_t op;
	uint8_t thread;
	uint32_t length;
	uint64_t slot;
	uint64_t sequence;
	uint64_t handle;
	uint64_t group;		/* 0: none */
};

_Static_assert(sizeof(struct record) == 48, "qemu/testbed/replicated.py reads it");

/* A state that a slot has or may have: that after an operation. */
struct state {
	uint64_t sequence;	/* of the operation */
	uint64_t check;		/* the operation left the state as it was: of OP_CHECK; else 0 */
	uint64_t handle;	/* 0: not known */
	uint64_t group;		/* 0: none */
	uint32_t length;
	uint8_t op;		/* after OP_FREE or OP_NONE the slot is empty */
	uint8_t refused;
	uint8_t done;		/* there was a record DONE */
};

/* What one slot shows of a group. */
struct shown {
	uint64_t group;
	bool there;
};

#define PENDING	64u	/* most operations on one slot since it was last durable */

/* @base: after the last durable operation. @pending: after each operation issued later. */
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
	uint64_t sequence;	/* highest in any record so far */
	uint64_t acknowledged;	/* number of operations known to be durable */
	uint64_t freed[ORACLE_FREED];	/* a ring: handles whose free is durable */
	uint64_t nr_freed;
	/* A verification: what slots show of groups. */
	bool shows;
	struct shown *shown;
	size_t nr_shown;
	uint64_t checks;	/* of states that were not known to be durable */
	/*
	 * Of ranges, else NULL: a state becomes the durable one of a slot.  @model is what it changes, of
	 * @model_bytes; the state file has it.
	 */
	void (*settled)(struct oracle *o, uint64_t slot, const struct state *state);
	void *model;
	size_t model_bytes;
};

int oracle_init(struct oracle *o, uint8_t kind, uint64_t nr_slots);
void oracle_take(struct oracle *o, const struct record *r);
int oracle_read(struct oracle **oracles, size_t nr, const char *directory);
/* A slot shows whether a group is there. */
void oracle_show(struct oracle *o, uint64_t group, bool there);
/* Print the groups that are there with some operations only, and return their number. @all: out: all groups. */
uint64_t oracle_torn(struct oracle *o, uint64_t *all);
/* The state file of a verification: what is durable in all slots. */
void oracle_save(struct oracle **oracles, size_t nr, const char *path);
void oracle_load(struct oracle **oracles, size_t nr, const char *path);

/*
 * The journal port of the guest.  journal_write() returns when the records are outside the guest,
 * where a power cut cannot remove them.  Any number of threads may call it.
 */
int journal_open(void);
void journal_write(const struct record *records, size_t nr);
void record_fill(struct record *r, uint8_t kind, uint8_t what, uint8_t op, uint8_t thread);
void record_seal(struct record *r);

/* The present state of a slot; no operation on it is under way. */
struct state slot_now(const struct slot *slot);

#endif
