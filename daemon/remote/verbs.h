/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A reliable RDMA connection, for client and server: SENDs carry the messages of wire.h, the
 * client's RDMA WRITE and READ carry bulk data. This layer does not interpret messages.
 *
 * Every fault ends the connection: a completion with an error, a message without a receive
 * buffer, an event of the connection manager, a peer that does not respond. The connection calls
 * @broken once and no callback after it. The user then calls verbs_cut(), which destroys the
 * queue pair: from then on no device reads or writes memory for this connection. verbs_close()
 * frees the rest.
 *
 * If the peer is dead, requests in flight fail within VERBS_DEAD_S, by the retry limit of the
 * transport. If nothing has completed for VERBS_PING_S, verbs_tick() posts a WRITE of no bytes (a
 * ping), which the adapter of the peer acknowledges without its program. The transport's limit
 * is not enough: if the source address of a queue pair is removed, soft RoCE stops the queue pair
 * without a completion and without a timer. So verbs_tick() ends a connection on which nothing
 * completes for VERBS_SILENT_TICKS after the ping.
 *
 * The kernel removes a device only after all its users have closed it. librdmacm does not close it
 * with the last connection: verbs_close() and, without a connection, verbs_release() close removed
 * devices. They know the devices from verbs_get_event().
 */
#ifndef LSMEMD_VERBS_H
#define LSMEMD_VERBS_H

#include <rdma/rdma_cma.h>

#include "base/loop.h"
#include "wire.h"

#define VERBS_PING_S	2u
#define VERBS_DEAD_S	8u		/* at most, from the death of a peer to its detection */
#define VERBS_SILENT_TICKS	10u	/* the transport's retries take less */
#define VERBS_SENDS	(2 * WIRE_SLOTS)	/* messages in flight, at most */
#define VERBS_RECEIVES	(2 * WIRE_SLOTS + 8)
#define VERBS_SGES	32u		/* pieces of a WRITE or READ, at most */
#define VERBS_SGES_MIN	5u		/* a device with fewer is refused */
#define VERBS_WRITES	4u		/* WRITEs of a request, at most */

struct verbs;

/**
 * struct verbs_user - callbacks of the user of a connection; none may call verbs_close()
 * @message: a message has come
 * @sent: the other side has a message; @tag as given to verbs_send()
 * @read: an RDMA READ is done; @tag as given to verbs_read()
 * @broken: the connection is over, the last callback; @error is a negative errno, @why a text
 */
struct verbs_user {
	void (*message)(struct verbs *verbs, const union wire_message *message, size_t length);
	void (*sent)(struct verbs *verbs, uint32_t tag);
	void (*read)(struct verbs *verbs, uint32_t tag);
	void (*broken)(struct verbs *verbs, int error, const char *why);
};

/**
 * struct verbs - a connection
 * @user: callbacks
 * @id: of the connection manager; verbs_close() destroys it
 * @pd: of this connection alone: its keys are not valid on other connections
 * @channel: notifies of completions
 * @cq: completions of sends and receives
 * @messages_mr: registration of @messages
 * @messages: VERBS_RECEIVES buffers to receive into, then VERBS_SENDS to send
 * @sends: number of messages sent
 * @sends_done: number of messages sent and completed
 * @tags: of the messages in flight, by their number modulo VERBS_SENDS
 * @sges: pieces that a WRITE or READ can have
 * @heard_ns: when a send or receive last completed successfully; at first, when it was opened
 * @pinging: a ping is in flight
 * @silent: calls of verbs_tick() since the ping without a completion. verbs_tick() counts calls
 *	instead of time: a thread that was delayed has not looked for completions either
 * @over: @user->broken has been called, or the connection is cut
 * @loop: polls @channel; NULL: none does
 * @op: the poll of @channel
 * @polling: @op is in flight
 * @next: in the list of all open connections
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

struct ibv_mr *verbs_register(struct verbs *verbs, const void *base, size_t bytes, int access);

int verbs_qps(const struct verbs *verbs, uint32_t *own, uint32_t *other);

/* How many more messages can be in flight now. */
static inline uint32_t verbs_room(const struct verbs *verbs)
{
	return VERBS_SENDS - (uint32_t)(verbs->sends - verbs->sends_done);
}

/* On an error, these functions call @user->broken before they return. */
void verbs_send(struct verbs *verbs, const union wire_message *message, uint32_t tag);
void verbs_write(struct verbs *verbs, struct ibv_sge *sges, uint32_t nr, uint64_t address,
		 uint32_t key);
void verbs_read(struct verbs *verbs, struct ibv_sge *sge, uint64_t address, uint32_t key,
		uint32_t tag);
void verbs_tick(struct verbs *verbs);

void verbs_event(struct verbs *verbs, const struct rdma_cm_event *event);
void verbs_break(struct verbs *verbs, int error, const char *why);
bool verbs_gone(const struct rdma_cm_id *id);
void verbs_release(void);
int verbs_get_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);

#endif
