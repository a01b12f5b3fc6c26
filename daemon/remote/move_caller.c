// SPDX-License-Identifier: GPL-2.0
/* The RDMA connection of a move's target: see move_caller.h. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include "move_caller.h"

#define SECOND_NS	1000000000ull
#define RESOLVE_MS	2000

static struct move_caller *of_verbs(struct verbs *verbs)
{
	return (struct move_caller *)((char *)verbs - offsetof(struct move_caller, verbs));
}

/* Also called from within move_target.c, which must not be called back: move_caller_run() ends it. */
static void set_over(struct move_caller *c, const char *why)
{
	if (!c->over)
		c->why = why;
	c->over = true;
}

/* ---- What comes ------------------------------------------------------------- */

static void take_message(struct verbs *verbs, const union wire_message *message, size_t length)
{
	struct move_caller *c = of_verbs(verbs);

	if (!c->over)
		move_target_message(c->target, message, length);
}

static void was_sent(struct verbs *verbs, uint32_t tag)
{
	(void)verbs;
	(void)tag;
}

static void was_read(struct verbs *verbs, uint32_t tag)
{
	struct move_caller *c = of_verbs(verbs);

	if (c->over)
		return;
	if (tag < MOVE_SLOTS)
		move_target_read(c->target, tag);
	else
		c->user->pulled(c, tag - MOVE_SLOTS);
}

static void has_broken(struct verbs *verbs, int error, const char *why)
{
	(void)error;
	of_verbs(verbs)->broken = true;
	set_over(of_verbs(verbs), why);
}

static const struct verbs_user verbs_user = {
	.message = take_message,
	.sent = was_sent,
	.read = was_read,
	.broken = has_broken,
};

/* ---- What the target asks for -------------------------------------------------- */

/**
 * move_caller_slots - @slots of struct move_target_user
 * @caller: connected
 *
 * Return: 0 or a negative errno of the verbs library.
 */
int move_caller_slots(struct move_caller *caller)
{
	if (!caller->slots)
		caller->slots = ibv_reg_mr(caller->verbs.pd, caller->memory, MOVE_SLOTS * AHEAD_BYTES,
					   IBV_ACCESS_LOCAL_WRITE);
	caller->target->memory = caller->memory;
	return caller->slots ? 0 : -errno;
}

/**
 * move_caller_send - @send of struct move_target_user
 * @caller: connected
 * @message: is copied
 */
void move_caller_send(struct move_caller *caller, const union wire_message *message)
{
	if (verbs_room(&caller->verbs))
		verbs_send(&caller->verbs, message, 0);
	else
		verbs_break(&caller->verbs, -ENOBUFS, "it does not take its messages");
}

/**
 * move_caller_read - @read of struct move_target_user
 * @caller: connected, with slots
 * @slot: of the target
 * @length: bytes, at most AHEAD_BYTES
 * @address: in the memory of the source
 * @key: of this memory
 */
void move_caller_read(struct move_caller *caller, uint32_t slot, uint32_t length, uint64_t address, uint32_t key)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(caller->memory + (size_t)slot * AHEAD_BYTES), .length = length,
		.lkey = caller->slots->lkey,
	};

	verbs_read(&caller->verbs, &sge, address, key, slot);
}

/**
 * move_caller_end - @end of struct move_target_user
 * @caller: connected, or connecting
 * @why: for the log
 */
void move_caller_end(struct move_caller *caller, const char *why)
{
	if (!caller->over)
		caller->end_ns = clock_now_ns();
	set_over(caller, why);
}

/**
 * move_caller_memory - let READs of move_caller_pull() write to memory
 * @caller: connected
 * @memory: must stay until @gone, or move_caller_close()
 * @bytes: its length
 *
 * Return: 0 or a negative errno of the verbs library.
 */
int move_caller_memory(struct move_caller *caller, void *memory, size_t bytes)
{
	caller->pull = ibv_reg_mr(caller->verbs.pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
	return caller->pull ? 0 : -errno;
}

/**
 * move_caller_pull - read the source's memory
 * @caller: connected, with memory
 * @tag: for @pulled; the caller has few in flight
 * @data: in the memory of move_caller_memory()
 * @length: bytes
 * @address: in the memory of the source
 * @key: of this memory
 */
void move_caller_pull(struct move_caller *caller, uint32_t tag, void *data, uint32_t length, uint64_t address, uint32_t key)
{
	struct ibv_sge sge = { .addr = (uintptr_t)data, .length = length, .lkey = caller->pull->lkey };

	verbs_read(&caller->verbs, &sge, address, key, MOVE_SLOTS + tag);
}

/* ---- Connecting ----------------------------------------------------------------- */

static void open_verbs(struct move_caller *c)
{
	struct rdma_conn_param params;

	c->step = CALLER_CONNECTS;
	if (verbs_open(&c->verbs, c->id, &verbs_user)) {
		set_over(c, "the RDMA device has no queues for it");
		return;
	}
	verbs_params(&c->verbs, &params);
	if (rdma_connect(c->id, &params))
		set_over(c, "the RDMA device does not connect");
}

static void tell_connected(struct move_caller *c)
{
	struct session_setup setup = { .lowest = 0 };	/* move_target_begin() fills the versions in */

	if (verbs_qps(&c->verbs, &setup.link.client_qp, &setup.link.server_qp) ||
	    secret_random(setup.nonce, sizeof(setup.nonce))) {
		set_over(c, "the queue pair or the random numbers fail");
		return;
	}
	c->step = CALLER_CONNECTED;
	verbs_poll_in(&c->verbs, c->loop);
	c->user->connected(c, &setup);
}

static void take_event(struct move_caller *c, const struct rdma_cm_event *event)
{
	if (c->over)
		return;
	if (c->step == CALLER_CONNECTED) {
		verbs_event(&c->verbs, event);
	} else if (c->step == CALLER_ADDRESS && event->event == RDMA_CM_EVENT_ADDR_RESOLVED) {
		c->step = CALLER_ROUTE;
		if (rdma_resolve_route(c->id, RESOLVE_MS))
			set_over(c, "no RDMA device of this host has a way to it (rdma link; ip route)");
	} else if (c->step == CALLER_ROUTE && event->event == RDMA_CM_EVENT_ROUTE_RESOLVED) {
		open_verbs(c);
	} else if (c->step == CALLER_CONNECTS && event->event == RDMA_CM_EVENT_ESTABLISHED) {
		tell_connected(c);
	} else if (event->event == RDMA_CM_EVENT_ADDR_ERROR || event->event == RDMA_CM_EVENT_ROUTE_ERROR) {
		set_over(c, "no RDMA device of this host has a way to it (rdma link; ip route)");
	} else if (event->event == RDMA_CM_EVENT_REJECTED) {
		set_over(c, "nothing listens there for moves");
	} else if (event->event == RDMA_CM_EVENT_UNREACHABLE || event->event == RDMA_CM_EVENT_CONNECT_ERROR) {
		set_over(c, "it does not answer");
	} else {
		set_over(c, rdma_event_str(event->event));
	}
}

static void polled(struct loop_op *op, int res)
{
	struct move_caller *c = (struct move_caller *)((char *)op - offsetof(struct move_caller, op));
	struct rdma_cm_event *event, copy;

	c->polling = false;
	if (c->stopped || res == -ECANCELED)
		return;
	while (!verbs_get_event(c->events, &event)) {
		copy = *event;
		rdma_ack_cm_event(event);
		if (copy.id == c->id)
			take_event(c, &copy);
	}
	c->polling = true;
	loop_poll(c->loop, &c->op, c->events->fd, POLLIN);
}

/**
 * move_caller_connect - connect to the source
 * @caller: without a connection
 *
 * @connected of the user follows, or @gone within MOVE_CONNECT_S. Does not wait.
 */
void move_caller_connect(struct move_caller *caller)
{
	caller->step = CALLER_ADDRESS;
	caller->over = caller->broken = caller->cut = false;
	caller->why = NULL;
	caller->due_ns = clock_now_ns() + MOVE_CONNECT_S * SECOND_NS;
	if (rdma_create_id(caller->events, &caller->id, NULL, RDMA_PS_TCP)) {
		caller->id = NULL;
		set_over(caller, "no RDMA connection can be made");
	} else if (rdma_resolve_addr(caller->id, NULL, (struct sockaddr *)&caller->to, RESOLVE_MS)) {
		set_over(caller, "no RDMA device of this host has a way to it (rdma link; ip route)");
	}
}

/* ---- Its end ---------------------------------------------------------------------- */

static void cut(struct move_caller *c)
{
	c->cut = true;
	if (c->step < CALLER_CONNECTS)
		return;
	verbs_cut(&c->verbs);
	if (c->slots)
		ibv_dereg_mr(c->slots);
	c->slots = NULL;
	if (c->pull)
		ibv_dereg_mr(c->pull);
	c->pull = NULL;
}

static void destroy(struct move_caller *c)
{
	if (c->step >= CALLER_CONNECTS) {
		verbs_close(&c->verbs);
	} else if (c->id) {
		rdma_destroy_id(c->id);
		verbs_release();
	}
	c->id = NULL;
	c->step = CALLER_IDLE;
}

/* GIVE_UP has arrived, or a second is over. */
static bool has_ended(const struct move_caller *c)
{
	return c->step != CALLER_CONNECTED || c->broken || verbs_room(&c->verbs) == VERBS_SENDS ||
	       clock_now_ns() - c->end_ns > SECOND_NS;
}

/**
 * move_caller_run - end what is to end
 * @caller: open
 *
 * Context: after each round of the loop, and after calls of the target; not from a callback of either. Calls @gone.
 */
void move_caller_run(struct move_caller *caller)
{
	if (caller->step == CALLER_IDLE || !caller->over)
		return;
	if (!caller->cut && !has_ended(caller))
		return;
	if (!caller->cut)
		cut(caller);
	if (caller->step >= CALLER_CONNECTS && caller->verbs.polling)
		return;
	destroy(caller);
	caller->user->gone(caller, caller->why);
}

/**
 * move_caller_tick - end a connection whose device or source is gone
 * @caller: open
 * @now_ns: by clock_now_ns()
 *
 * Context: call it once a second, then move_caller_run().
 */
void move_caller_tick(struct move_caller *caller, uint64_t now_ns)
{
	if (caller->step == CALLER_IDLE || caller->over)
		return;
	if (caller->step == CALLER_CONNECTED)
		verbs_tick(&caller->verbs);
	else if (now_ns >= caller->due_ns)
		set_over(caller, "it does not answer");
	else if (verbs_gone(caller->id))
		set_over(caller, "the RDMA device is gone");
}

/* ---- Life -------------------------------------------------------------------------- */

static int find_address(struct move_caller *c)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *info;
	int err = getaddrinfo(c->address->host, c->address->port, &hints, &info);

	if (err) {
		log_err("rdma://%s: %s", c->address->host, gai_strerror(err));
		return -EHOSTUNREACH;
	}
	memcpy(&c->to, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
	return 0;
}

/**
 * move_caller_open - get the memory of a connection, and find the source's address
 * @caller: out: without a connection
 * @user: callbacks; must stay until move_caller_close()
 * @loop: likewise
 * @target: likewise; it may be zero
 * @address: of the source; likewise. If it is a name, the resolver is waited for
 *
 * Return: 0; -ENOMEM; -EHOSTUNREACH: there is no such host, which is logged; or a negative errno: there is no RDMA.
 */
int move_caller_open(struct move_caller *caller, const struct move_caller_user *user, struct loop *loop,
		     struct move_target *target, const struct wire_address *address)
{
	int err;

	memset(caller, 0, sizeof(*caller));
	caller->user = user;
	caller->loop = loop;
	caller->target = target;
	caller->address = address;
	err = find_address(caller);
	if (err)
		return err;
	caller->events = rdma_create_event_channel();
	if (!caller->events)
		return -errno;
	caller->memory = fcntl(caller->events->fd, F_SETFL, O_NONBLOCK) ? NULL : memory_get(MOVE_SLOTS * AHEAD_BYTES);
	if (!caller->memory) {
		rdma_destroy_event_channel(caller->events);
		caller->events = NULL;
		return -ENOMEM;
	}
	caller->op.done = polled;
	caller->polling = true;
	loop_poll(loop, &caller->op, caller->events->fd, POLLIN);
	return 0;
}

/**
 * move_caller_close - end the connection, without a word to the source, and free the memory
 * @caller: open, or zero
 *
 * @gone is not called. Runs the loop until no poll is in flight.
 */
void move_caller_close(struct move_caller *caller)
{
	if (!caller->events)
		return;
	caller->stopped = caller->over = true;
	if (caller->polling)
		loop_cancel(caller->loop, &caller->op);
	if (caller->step != CALLER_IDLE) {
		cut(caller);
		while (caller->step >= CALLER_CONNECTS && caller->verbs.polling && loop_run(caller->loop, true) >= 0)
			;
		destroy(caller);
	}
	while (caller->polling && loop_run(caller->loop, true) >= 0)
		;
	rdma_destroy_event_channel(caller->events);
	memory_put(caller->memory);
	memset(caller, 0, sizeof(*caller));
}
