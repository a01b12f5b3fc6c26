// SPDX-License-Identifier: GPL-2.0
/* The RDMA connections of a move's source: see move_listen.h. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include "move_listen.h"

#define SECOND_NS	1000000000ull
#define AGAIN_NS	(5 * SECOND_NS)	/* between attempts to listen */
#define BACKLOG		16

static struct move_connection *of_verbs(struct verbs *verbs)
{
	return (struct move_connection *)((char *)verbs - offsetof(struct move_connection, verbs));
}

static struct move_connection *of_peer(const struct move_peer *peer)
{
	return (struct move_connection *)((char *)peer - offsetof(struct move_connection, peer));
}

/* ---- A connection: in -------------------------------------------------------- */

static void take_message(struct verbs *verbs, const union wire_message *message, size_t length)
{
	move_source_message(&of_verbs(verbs)->peer, message, length);
}

static void was_sent(struct verbs *verbs, uint32_t tag)
{
	(void)tag;
	move_source_more(&of_verbs(verbs)->peer);
}

/* A source reads nothing. */
static void was_read(struct verbs *verbs, uint32_t tag)
{
	(void)verbs;
	(void)tag;
}

/* Also called from within move_source.c, which must not be called back: move_listen_run() ends it. */
static void has_broken(struct verbs *verbs, int error, const char *why)
{
	struct move_connection *c = of_verbs(verbs);

	(void)error;
	c->broken = true;
	if (!c->why)
		c->why = why;
}

static const struct verbs_user verbs_user = {
	.message = take_message,
	.sent = was_sent,
	.read = was_read,
	.broken = has_broken,
};

/* ---- A connection: what the source asks for ------------------------------------ */

/**
 * move_listen_slots - @slots of struct move_source_user
 * @peer: of a connection of the listener
 * @offer: see there
 *
 * Return: 0; -EBUSY: all slots are in use; or a negative errno of the verbs library.
 */
int move_listen_slots(struct move_peer *peer, struct session_export *offer)
{
	struct move_connection *c = of_peer(peer);
	struct move_listener *l = c->listener;
	uint32_t i = 0;

	while (i < MOVE_AREAS && l->used >> i & 1u)
		i++;
	if (i == MOVE_AREAS)
		return -EBUSY;
	l->used |= 1u << i;
	c->area = l->areas + i * MOVE_AREA_BYTES;
	/* The target can read the slots: clear them of other targets' blocks. */
	memset(c->area, 0, MOVE_AREA_BYTES);
	c->slots = ibv_reg_mr(c->verbs.pd, c->area, MOVE_AREA_BYTES, IBV_ACCESS_REMOTE_READ);
	if (!c->slots) {
		log_err("%s: no slots: %s", c->address, strerror(errno));
		return -errno;		/* move_listen_run() gives @area back */
	}
	peer->memory = c->area;
	offer->address = (uintptr_t)c->area;
	offer->key = c->slots->rkey;
	log_notice("%s: %s at %s reads what it is to take, version %u of the protocol", peer->source->store->name,
		   peer->session.hello.who, c->address, peer->session.version);
	return 0;
}

/**
 * move_listen_send - @send of struct move_source_user
 * @peer: of a connection of the listener
 * @message: is copied
 */
void move_listen_send(struct move_peer *peer, const union wire_message *message)
{
	struct move_connection *c = of_peer(peer);

	if (verbs_room(&c->verbs))
		verbs_send(&c->verbs, message, 0);
	else
		verbs_break(&c->verbs, -ENOBUFS, "it does not take its messages");
}

/**
 * move_listen_room - @room of struct move_source_user
 * @peer: of a connection of the listener
 *
 * Return: how many more messages can be sent now.
 */
unsigned int move_listen_room(const struct move_peer *peer)
{
	return verbs_room(&of_peer(peer)->verbs);
}

/**
 * move_listen_end - @end of struct move_source_user
 * @peer: of a connection of the listener
 * @why: for the log
 */
void move_listen_end(struct move_peer *peer, const char *why)
{
	struct move_connection *c = of_peer(peer);

	c->over_ns = clock_now_ns();
	if (!c->why)
		c->why = why;
}

/**
 * move_listen_keys - @keys of struct move_source_user
 * @peer: of a connection of the listener; no other one has keys
 * @keys: out: to the store's memory, for RDMA READ by this connection alone
 *
 * Return: 0 or a negative errno of the verbs library, which is logged.
 */
int move_listen_keys(struct move_peer *peer, struct move_keys *keys)
{
	struct move_connection *c = of_peer(peer);
	struct move_listener *l = c->listener;
	const struct move_memory *memory = &l->memory;

	memcpy(l->table, memory->table, memory->table_bytes);
	c->seglets = verbs_register(&c->verbs, memory->seglets, memory->seglets_bytes, IBV_ACCESS_REMOTE_READ);
	c->table = c->seglets ? ibv_reg_mr(c->verbs.pd, l->table, memory->table_bytes, IBV_ACCESS_REMOTE_READ) : NULL;
	if (!c->table) {
		int err = -errno;

		log_err("%s: the store's memory, %zu MiB, cannot be registered with the RDMA device: %s", c->address,
			memory->seglets_bytes >> 20, strerror(-err));
		return err;
	}
	keys->seglets = (struct move_region){
		(uintptr_t)memory->seglets, memory->seglets_bytes, c->seglets->rkey,
	};
	keys->table = (struct move_region){ (uintptr_t)l->table, memory->table_bytes, c->table->rkey };
	return 0;
}

/* ---- A connection: its end ------------------------------------------------------ */

static void take_back(struct ibv_mr **mr)
{
	if (*mr)
		ibv_dereg_mr(*mr);
	*mr = NULL;
}

static void cut(struct move_connection *c)
{
	struct move_listener *l = c->listener;

	if (c->slots)
		log_notice("%s: %s at %s has gone: %s", c->peer.source->store->name, c->peer.session.hello.who,
			   c->address, c->why);
	else
		log_warn("%s: turned away: %s", c->address, c->why);
	verbs_cut(&c->verbs);
	take_back(&c->seglets);
	take_back(&c->table);
	take_back(&c->slots);
	if (c->area)
		l->used &= ~(1u << (uint32_t)((size_t)(c->area - l->areas) / MOVE_AREA_BYTES));
	c->area = NULL;
	c->cut = true;
	l->user->gone(l, &c->peer, c->why);
}

/* All messages have arrived, or a second is over. */
static bool has_ended(const struct move_connection *c, uint64_t now)
{
	return c->over_ns && (verbs_room(&c->verbs) == VERBS_SENDS || now - c->over_ns > SECOND_NS);
}

static void free_connection(struct move_connection *c)
{
	verbs_close(&c->verbs);
	explicit_bzero(&c->peer, sizeof(c->peer));
	c->listener = NULL;
}

static void stop_listening(struct move_listener *l)
{
	if (l->id)
		rdma_destroy_id(l->id);
	l->id = NULL;
	l->lost = false;
}

/**
 * move_listen_run - end what is to end
 * @listener: open
 *
 * Context: after each round of the loop, and after calls of the source; not from a callback of either. Calls @gone.
 */
void move_listen_run(struct move_listener *listener)
{
	uint64_t now = clock_now_ns();
	struct move_connection *c;

	if (listener->lost)
		stop_listening(listener);
	for (c = listener->connections; c < listener->connections + MOVE_PEERS; c++) {
		if (!c->listener)
			continue;
		if (!c->cut && (c->broken || has_ended(c, now)))
			cut(c);
		if (c->cut && !c->verbs.polling)
			free_connection(c);
	}
}

/* ---- A connection: its beginning ------------------------------------------------- */

static void name_address(struct move_connection *c, struct rdma_cm_id *id)
{
	char host[48] = "?", port[8] = "?";

	(void)getnameinfo(rdma_get_peer_addr(id), sizeof(struct sockaddr_storage), host, sizeof(host), port,
			  sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(c->address, sizeof(c->address), "%s port %s", host, port);
}

static int accept_connection(struct move_connection *c, struct rdma_cm_id *id)
{
	struct session_setup setup = { .lowest = 0 };	/* the source fills the rest in */
	struct rdma_conn_param params;
	int err = verbs_open(&c->verbs, id, &verbs_user);

	if (err)
		return err;
	verbs_params(&c->verbs, &params);
	if (rdma_accept(id, &params))
		return -errno;
	err = verbs_qps(&c->verbs, &setup.link.server_qp, &setup.link.client_qp);
	if (!err)
		err = secret_random(setup.nonce, sizeof(setup.nonce));
	if (!err && !c->listener->user->connect(c->listener, &c->peer, &setup))
		err = -EBUSY;
	return err;
}

static void connect_new(struct move_listener *l, struct rdma_cm_id *id)
{
	struct move_connection *c = l->connections;
	int err;

	while (c < l->connections + MOVE_PEERS && c->listener)
		c++;
	if (c == l->connections + MOVE_PEERS || l->stopped) {
		log_warn("a connection for a move is turned away: %s", l->stopped ? "the daemon ends" :
			 "too many connections are ending");
		(void)rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return;
	}
	memset(c, 0, sizeof(*c));
	c->listener = l;
	name_address(c, id);
	id->context = c;
	err = accept_connection(c, id);
	if (err) {
		log_warn("%s: cannot be accepted: %s", c->address, strerror(-err));
		free_connection(c);
		return;
	}
	verbs_poll_in(&c->verbs, l->loop);
}

static void take_events(struct move_listener *l)
{
	struct rdma_cm_event *event, copy;

	while (!verbs_get_event(l->events, &event)) {
		copy = *event;
		rdma_ack_cm_event(event);
		if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			connect_new(l, copy.id);
		else if (copy.id != l->id)
			verbs_event(&((struct move_connection *)copy.id->context)->verbs, &copy);
		else if (copy.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
			l->lost = true;	/* the kernel removes the device only after it is closed */
		else
			log_warn("listening for moves: %s", rdma_event_str(copy.event));
	}
}

static void polled(struct loop_op *op, int res)
{
	struct move_listener *l = (struct move_listener *)((char *)op - offsetof(struct move_listener, op));

	l->polling = false;
	if (l->stopped || res == -ECANCELED)
		return;
	take_events(l);
	l->polling = true;
	loop_poll(l->loop, &l->op, l->events->fd, POLLIN);
}

/* ---- Listening --------------------------------------------------------------------- */

static int bind_to(struct move_listener *l)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
	}, *info;
	int err = 0;

	if (getaddrinfo(l->address->host, l->address->port, &hints, &info))
		return -EINVAL;
	if (rdma_create_id(l->events, &l->id, NULL, RDMA_PS_TCP)) {
		l->id = NULL;
		err = -errno;
	}
	if (!err && (rdma_bind_addr(l->id, info->ai_addr) || rdma_listen(l->id, BACKLOG)))
		err = -errno;
	freeaddrinfo(info);
	if (err)
		stop_listening(l);
	return err;
}

static int listen_now(struct move_listener *l)
{
	if (!l->events) {
		l->events = rdma_create_event_channel();
		if (!l->events)
			return -errno;
		if (fcntl(l->events->fd, F_SETFL, O_NONBLOCK)) {
			int err = -errno;

			rdma_destroy_event_channel(l->events);
			l->events = NULL;
			return err;
		}
		l->op.done = polled;
		l->polling = true;
		loop_poll(l->loop, &l->op, l->events->fd, POLLIN);
	}
	return bind_to(l);
}

static void try_to_listen(struct move_listener *l, uint64_t now)
{
	int err = listen_now(l);

	l->due_ns = now + AGAIN_NS;
	if (err && err != l->error)
		log_warn("[move] listen = rdma://%s port %s: %s%s; the store cannot be moved, trying again each %u s",
			 l->address->host, l->address->port, strerror(-err),
			 err == -ENODEV ? "; no RDMA device has this address (rdma link)" :
			 err == -EADDRINUSE ? "; each daemon needs a port of its own" : "",
			 (unsigned int)(AGAIN_NS / SECOND_NS));
	else if (!err)
		log_notice("listening for moves at %s port %s", l->address->host, l->address->port);
	l->error = err;
}

/**
 * move_listen_tick - listen, and end connections whose device or target is gone
 * @listener: open
 * @now_ns: by clock_now_ns()
 *
 * If it cannot listen, it says why, and tries again.
 *
 * Context: call it once a second, then move_listen_run().
 */
void move_listen_tick(struct move_listener *listener, uint64_t now_ns)
{
	struct move_connection *c;

	listener->lost |= listener->id && verbs_gone(listener->id);
	for (c = listener->connections; c < listener->connections + MOVE_PEERS; c++)
		if (c->listener && !c->cut && c->peer.session.state == SESSION_SERVING)
			verbs_tick(&c->verbs);
	if (!listener->id && !listener->stopped && now_ns >= listener->due_ns)
		try_to_listen(listener, now_ns);
}

/**
 * move_listen_stop - listen no more; the connections go on
 * @listener: open
 */
void move_listen_stop(struct move_listener *listener)
{
	listener->stopped = true;
	stop_listening(listener);
}

/**
 * move_listen_open - get the memory for all connections
 * @listener: out: does not listen yet
 * @user: callbacks; must stay until move_listen_close()
 * @loop: likewise
 * @address: to listen on, a number; likewise
 * @memory: of the store; the windows stay likewise
 *
 * Return: 0 or -ENOMEM.
 */
int move_listen_open(struct move_listener *listener, const struct move_listener_user *user, struct loop *loop,
		     const struct wire_address *address, const struct move_memory *memory)
{
	memset(listener, 0, sizeof(*listener));
	listener->user = user;
	listener->loop = loop;
	listener->address = address;
	listener->memory = *memory;
	listener->areas = memory_get(MOVE_AREAS * MOVE_AREA_BYTES);
	listener->table = memory_get(memory->table_bytes);
	return listener->areas && listener->table ? 0 : -ENOMEM;
}

/**
 * move_listen_close - end all connections, without a word to their targets, and free the memory
 * @listener: open, or zero
 *
 * @gone is not called. Runs the loop until no poll is in flight.
 */
void move_listen_close(struct move_listener *listener)
{
	struct move_connection *c;

	if (!listener->areas)
		return;
	move_listen_stop(listener);
	if (listener->polling)
		loop_cancel(listener->loop, &listener->op);
	for (c = listener->connections; c < listener->connections + MOVE_PEERS; c++) {
		if (!c->listener)
			continue;
		verbs_cut(&c->verbs);
		take_back(&c->seglets);
		take_back(&c->table);
		take_back(&c->slots);
		while (c->verbs.polling && loop_run(listener->loop, true) >= 0)
			;
		free_connection(c);
	}
	while (listener->polling && loop_run(listener->loop, true) >= 0)
		;
	if (listener->events)
		rdma_destroy_event_channel(listener->events);
	memory_put(listener->areas);
	memory_put(listener->table);
	memset(listener, 0, sizeof(*listener));
}
