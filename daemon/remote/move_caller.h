/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The RDMA connection (verbs.h) of a move's target to its source, for a struct move_target: move_target.c decides what is said
 * on it. The twin of move_listen.h. Documentation/migration.rst.
 *
 *	move_caller_open()			memory, and the source's address
 *	move_caller_connect()			connect; @connected or @gone follows
 *	move_caller_slots() .. _end()		callbacks of struct move_target_user, as they are
 *	move_caller_memory(), _pull()		READs of the source's memory, into memory of the caller; @pulled follows
 *	move_caller_run()			after each round of the loop
 *	move_caller_tick()			once a second
 *	move_caller_close()			the end
 *
 * Nothing waits after move_caller_open(). A connection ends in move_caller_run(), never in a callback: when the messages so far
 * have arrived, or after a second, its queue pair is destroyed, then @gone is called, so that no READ writes into the slots of
 * the next connection.
 */
#ifndef LSMEMD_MOVE_CALLER_H
#define LSMEMD_MOVE_CALLER_H

#include <sys/socket.h>

#include "move.h"
#include "verbs.h"

#define MOVE_CONNECT_S	10u	/* until there is a connection, at most; a tick more */

struct move_caller;

/**
 * struct move_caller_user - what the connection needs of its caller
 * @connected: there is a connection: call move_target_begin() with @setup. Called by the loop
 * @pulled: a READ of move_caller_pull() has ended well. Called by the loop. One that fails ends the connection
 * @gone: the connection is destroyed, or could not be made, and @why tells why. Called by move_caller_run()
 */
struct move_caller_user {
	void (*connected)(struct move_caller *caller, const struct session_setup *setup);
	void (*pulled)(struct move_caller *caller, uint32_t tag);
	void (*gone)(struct move_caller *caller, const char *why);
};

enum move_caller_step {
	CALLER_IDLE,		/* there is no connection, and none is being made */
	CALLER_ADDRESS,		/* a way to the address is looked for */
	CALLER_ROUTE,
	CALLER_CONNECTS,	/* @verbs is open */
	CALLER_CONNECTED,
};

/**
 * struct move_caller - a connection to a source, or none
 * @user: callbacks
 * @loop: carries its I/O
 * @target: whose connection it is
 * @address: of the source
 * @to: likewise, as a socket address
 * @events: event channel of the connection manager
 * @op: the poll of @events
 * @polling: @op is in flight
 * @stopped: the end has begun
 * @step: how far the connection is
 * @id: in CALLER_ADDRESS and CALLER_ROUTE; later, that of @verbs
 * @verbs: the RDMA connection, from CALLER_CONNECTS on
 * @memory: MOVE_SLOTS blocks
 * @slots: registration of @memory; NULL: none
 * @pull: registration of what move_caller_memory() got; NULL: none
 * @due_ns: when there must be a connection, by clock_now_ns()
 * @over: it is to end ..
 * @end_ns: .. when what was said has arrived, or a second after this time, by clock_now_ns()
 * @broken: .. at once
 * @cut: its queue pair is destroyed
 * @why: .. and why
 */
struct move_caller {
	const struct move_caller_user *user;
	struct loop *loop;
	struct move_target *target;
	const struct wire_address *address;
	struct sockaddr_storage to;
	struct rdma_event_channel *events;
	struct loop_op op;
	bool polling, stopped;
	enum move_caller_step step;
	struct rdma_cm_id *id;
	struct verbs verbs;
	uint8_t *memory;
	struct ibv_mr *slots, *pull;
	uint64_t due_ns;
	bool over, broken, cut;
	uint64_t end_ns;
	const char *why;
};

int move_caller_open(struct move_caller *caller, const struct move_caller_user *user, struct loop *loop,
		     struct move_target *target, const struct wire_address *address);
void move_caller_connect(struct move_caller *caller);
void move_caller_run(struct move_caller *caller);
void move_caller_tick(struct move_caller *caller, uint64_t now_ns);
void move_caller_close(struct move_caller *caller);

int move_caller_slots(struct move_caller *caller);
void move_caller_send(struct move_caller *caller, const union wire_message *message);
void move_caller_read(struct move_caller *caller, uint32_t slot, uint32_t length, uint64_t address, uint32_t key);
void move_caller_end(struct move_caller *caller, const char *why);

int move_caller_memory(struct move_caller *caller, void *memory, size_t bytes);
void move_caller_pull(struct move_caller *caller, uint32_t tag, void *data, uint32_t length, uint64_t address, uint32_t key);

#endif
