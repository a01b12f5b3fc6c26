/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The model of load.c: what a store must have.  The file is mapped shared.
 *
 * A slot is an object of an object store or a block of a block store.  It has at most one operation under
 * way: @next is the state after it, @last the last acknowledged state.
 */
#ifndef TESTS_DAEMON_MODEL_H
#define TESTS_DAEMON_MODEL_H

#include <stdint.h>

enum what { NOTHING, WRITTEN };

struct state {
	uint64_t sequence;
	uint64_t handle;
	uint32_t length;
	uint32_t what;
};

struct slot {
	struct state last, next;
	_Atomic uint32_t under_way;
	uint32_t pad;
};

struct model {
	uint64_t slots;
	_Atomic uint64_t sequence;
	_Atomic uint64_t acknowledged;
	struct slot slot[];
};

#endif
