/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A reliable RDMA connection as both its sides use it: messages of wire.h in
 * SENDs, bulk data by RDMA WRITE and READ of the side that asks.  It knows
 * nothing of what is said.
 *
 * Whatever goes wrong ends the connection: a completion with an error, a
 * message without room to receive it, an event of the connection manager, a peer that
 * is silent.  It is told once, by @broken; after that nothing more is told.
 * verbs_cut() is to come, which destroys the queue pair: from then on no device
 * reads or writes memory for this connection; then verbs_close().
 *
 * A peer that does not answer: what is in flight fails after VERBS_DEAD_S at
 * most, the transport counts its own retries.  When nothing is in flight, a
 * WRITE of no bytes asks the other side's adapter, not its program, each
 * VERBS_PING_S.  The transport may also lose count: soft RoCE ends a queue pair
 * that has lost its source address without a completion of what is in flight,
 * and without a timer.  So verbs_tick() ends a connection on which nothing has
 * completed for VERBS_SILENT_TICKS after that WRITE was posted.
 *
 * A device that is taken away is given back when the last of its connections has been
 * closed: the kernel waits for that.
 */
#ifndef LSMEMD_VERBS_H
#define LSMEMD_VERBS_H

#include <rdma/rdma_cma.h>

#include "base/loop.h"
#include "wire.h"

#define VERBS_PING_S	2u
#define VERBS_DEAD_S	8u		/* from the death of a peer to its detection */
#define VERBS_SILENT_TICKS	10u	/* more than the transport's retries take */
#define VERBS_SENDS	(2 * WIRE_SLOTS)	/* messages in flight */
#define VERBS_RECEIVES	(2 * WIRE_SLOTS + 8)
#define VERBS_SGES	32u		/* pieces of a WRITE or READ, if the device can */
#define VERBS_SGES_MIN	5u		/* below that the device is refused */
#define VERBS_WRITES	4u		/* WRITEs of a request, at most */

struct verbs;

/**
 * struct verbs_user - what the user of a connection does
 * @message: a message has come; may call verbs_cut(), but not verbs_close()
 * @sent: a message has arrived at the other side; @tag as given to verbs_send()
 * @read: an RDMA READ is done; @tag as given to verbs_read()
 * @broken: the connection is over; @error is a negative errno
 */
struct verbs_user {
	void (*message)(struct verbs *verbs, const union wire_message *message, size_t length);
	void (*sent)(struct verbs *verbs, uint32_t tag);
	void (*read)(struct verbs *verbs, uint32_t tag);
	void (*broken)(struct verbs *verbs, int error, const char *why);
};

/**
 * struct verbs - a connection
 * @user: its user
 * @id: of the connection manager; owned by this connection from verbs_open() on
 * @pd: a protection domain of its own: keys of one connection are not valid on another
 * @channel: of completions
 * @cq: completions
 * @messages_mr: registration of @messages
 * @messages: VERBS_RECEIVES to receive into, then VERBS_SENDS to send
 * @sends: messages sent, in order
 * @sends_done: of these, completed
 * @tags: by message in flight
 * @sges: pieces that a WRITE or READ can have
 * @heard_ns: when the other side last showed that it is alive
 * @pinging: a WRITE of no bytes is in flight
 * @silent: calls of verbs_tick() since @heard_ns that saw no completion. They are counted, not
 *	timed: a thread that did not run has not looked for completions either
 * @gone: the device is being removed
 * @over: @user->broken has been called, or the connection is cut
 * @loop: that polls @channel
 * @op: the poll
 * @polling: it is in flight
 * @next: in a list of connections to poll
 */
struct verbs {
	const struct verbs_user *user;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *messages_mr;
	union wire_message *messages;
	uint64_t sends, sends_done;
	uint32_t tags[VERBS_SENDS];
	uint32_t sges;
	uint64_t heard_ns;
	bool pinging;
	unsigned int silent;
	bool gone;
	bool over;
	struct loop *loop;
	struct loop_op op;
	bool polling;
	struct verbs *next;
};

int verbs_open(struct verbs *verbs, struct rdma_cm_id *id, const struct verbs_user *user);
void verbs_params(const struct verbs *verbs, struct rdma_conn_param *params);
void verbs_poll_in(struct verbs *verbs, struct loop *loop);
void verbs_poll_out(struct verbs *verbs);
void verbs_poll(struct verbs *verbs);
void verbs_cut(struct verbs *verbs);
void verbs_close(struct verbs *verbs);

int verbs_qps(const struct verbs *verbs, uint32_t *own, uint32_t *other);

/* How many messages can be sent now */
static inline uint32_t verbs_room(const struct verbs *verbs)
{
	return VERBS_SENDS - (uint32_t)(verbs->sends - verbs->sends_done);
}

/* If one of these fails, @user->broken is called later. */
void verbs_send(struct verbs *verbs, const union wire_message *message, uint32_t tag);
void verbs_write(struct verbs *verbs, struct ibv_sge *sges, uint32_t nr, uint64_t address,
		 uint32_t key);
void verbs_read(struct verbs *verbs, struct ibv_sge *sge, uint64_t address, uint32_t key,
		uint32_t tag);
void verbs_tick(struct verbs *verbs);

/* An event of the connection manager that is not part of connecting. */
void verbs_event(struct verbs *verbs, const struct rdma_cm_event *event);
void verbs_break(struct verbs *verbs, int error, const char *why);
bool verbs_gone(const struct rdma_cm_id *id);

#endif
