/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The listener of a move's source: the RDMA connections (verbs.h) of the targets of a struct move_source. It knows how bytes
 * get to a target, and move_source.c decides which. Documentation/migration.rst.
 *
 *	move_listen_open()			memory for all connections that there can be
 *	move_listen_tick()			once a second: listens, or tries again
 *	move_listen_slots() .. _keys()		callbacks of struct move_source_user, as they are
 *	move_listen_run()			after each round of the loop
 *	move_listen_stop(), move_listen_close()	listen no more; the end
 *
 * A connection ends in move_listen_run(), never in a callback: first its queue pair is destroyed, then its keys, and then
 * @gone is called (REVOKE_TO_RESUME, REVOKE_TO_FREE). Each connection has a protection domain of its own, so that its keys
 * are valid for no other one.
 *
 * Nothing is allocated here after move_listen_open(): MOVE_PEERS connections, of which MOVE_AREAS have slots at a time.
 */
#ifndef LSMEMD_MOVE_LISTEN_H
#define LSMEMD_MOVE_LISTEN_H

#include "move.h"
#include "verbs.h"

#define MOVE_PEERS	(MOVE_TARGETS + MOVE_STRANGERS + MOVE_ENDING)
#define MOVE_AREAS	(MOVE_TARGETS + 2u)	/* two more, for connections that are ending */
#define MOVE_AREA_BYTES	((size_t)MOVE_SLOTS * AHEAD_BYTES)

struct move_listener;

/**
 * struct move_listener_user - what the listener needs of its caller
 * @connect: source_connect() or move_source_connect(): takes a connection, or returns false
 * @gone: source_gone() or move_source_gone(). @why: for the status, as it is in the log
 */
struct move_listener_user {
	bool (*connect)(struct move_listener *listener, struct move_peer *peer, const struct session_setup *setup);
	void (*gone)(struct move_listener *listener, struct move_peer *peer, const char *why);
};

/**
 * struct move_memory - what a target may read once it has keys
 * @seglets: window of the store's memory, mapped read-only
 * @seglets_bytes: its length
 * @table: window of its seglet table, likewise. Targets read a copy, as it was when they got their keys: kernels up to 6.1
 *	cannot register a window that they do not let be made writable (verbs_register())
 * @table_bytes: its length
 */
struct move_memory {
	const void *seglets;
	size_t seglets_bytes;
	const void *table;
	size_t table_bytes;
};

/**
 * struct move_connection - a connection of a target
 * @verbs: the RDMA connection
 * @peer: state of the move on it
 * @listener: the listener; NULL: this one is free
 * @address: address of the target, for messages
 * @area: memory of its slots; NULL: none
 * @slots: registration of @area
 * @seglets: of the store's memory, from keys on; NULL: it has no keys
 * @table: of @table of the listener, likewise
 * @over_ns: when the source ended it, by clock_now_ns(); 0: it has not
 * @why: for the log: why it ended
 * @broken: the RDMA connection is over
 * @cut: queue pair and keys are destroyed, and @gone was called
 */
struct move_connection {
	struct verbs verbs;
	struct move_peer peer;
	struct move_listener *listener;
	char address[64];
	uint8_t *area;
	struct ibv_mr *slots, *seglets, *table;
	uint64_t over_ns;
	const char *why;
	bool broken, cut;
};

/**
 * struct move_listener - a listener, and all its connections
 * @user: callbacks
 * @loop: carries its I/O
 * @address: that it listens on
 * @memory: of the store
 * @table: copy of its seglet table, for one connection at a time
 * @events: event channel of the connection manager; NULL: none yet
 * @id: NULL: it does not listen
 * @op: the poll of @events
 * @polling: @op is in flight
 * @stopped: it listens no more
 * @lost: the RDMA device is being removed
 * @error: the error of the last attempt to listen that was logged; 0: none
 * @due_ns: when the next attempt is due, by clock_now_ns()
 * @areas: memory for slots, MOVE_AREA_BYTES each
 * @used: mask of @areas in use
 * @connections: the connections
 */
struct move_listener {
	const struct move_listener_user *user;
	struct loop *loop;
	const struct wire_address *address;
	struct move_memory memory;
	uint8_t *table;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct loop_op op;
	bool polling, stopped, lost;
	int error;
	uint64_t due_ns;
	uint8_t *areas;
	uint32_t used;
	struct move_connection connections[MOVE_PEERS];
};

int move_listen_open(struct move_listener *listener, const struct move_listener_user *user, struct loop *loop,
		     const struct wire_address *address, const struct move_memory *memory);
void move_listen_tick(struct move_listener *listener, uint64_t now_ns);
void move_listen_run(struct move_listener *listener);
void move_listen_stop(struct move_listener *listener);
void move_listen_close(struct move_listener *listener);

int move_listen_slots(struct move_peer *peer, struct session_export *offer);
void move_listen_send(struct move_peer *peer, const union wire_message *message);
unsigned int move_listen_room(const struct move_peer *peer);
void move_listen_end(struct move_peer *peer, const char *why);
int move_listen_keys(struct move_peer *peer, struct move_keys *keys);

#endif
