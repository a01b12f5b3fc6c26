/* SPDX-License-Identifier: GPL-2.0 */
/* The client of a server: what backup.c and connect.c share. */
#ifndef LSMEMD_CLIENT_H
#define LSMEMD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

#include "base/loop.h"
#include "base/secret.h"
#include "session.h"
#include "verbs.h"
#include "wire.h"

struct backup;
struct backup_io;
struct backup_options;

/**
 * struct slot - a request in flight; the slot is free when it is @sent and @answered
 * @io: the request; NULL: none, or it is completed
 * @data: bounce buffer
 * @begun_ns: when the request was sent
 * @sent: the send of the message has completed
 * @answered: the server has answered, and an RDMA READ after the answer has completed
 */
struct slot {
	struct backup_io *io;
	uint8_t *data;
	uint64_t begun_ns;
	bool sent, answered;
};

/**
 * struct rdma_backup - a backup on another host
 * @verbs: the connection
 * @backup: its backup
 * @address: of the export
 * @key: the secret
 * @session: state of the protocol
 * @events: event channel of the connection manager
 * @events_op: the poll of @events
 * @fail: completes requests after the connection has ended
 * @tick: expires every second
 * @waiting: how many of @events_op, @fail and @tick are in the loop
 * @failing: @fail is in the loop
 * @slots: requests in flight, by slot
 * @bounce: memory of all bounce buffers
 * @bounce_mr: registration of @bounce
 * @log_mr: registration of @log
 * @log: memory that the device reads directly; NULL: none
 * @log_bytes: bytes at @log
 * @first: first of the requests that wait for a slot
 * @last: where the next waiting request is linked
 * @timeout: seconds after which an unanswered request has failed
 * @error: 0, or the negative errno that ended the connection
 * @closing: it is in no loop, or leaves its loop: rdma_broken() only cuts the connection
 */
struct rdma_backup {
	struct verbs verbs;
	struct backup *backup;
	struct wire_address address;
	struct secret key;
	struct session session;
	struct rdma_event_channel *events;
	struct loop_op events_op, fail;
	struct loop_timer tick;
	unsigned int waiting;
	bool failing;
	struct slot slots[WIRE_SLOTS];
	uint8_t *bounce;
	struct ibv_mr *bounce_mr, *log_mr;
	const uint8_t *log;
	size_t log_bytes;
	struct backup_io *first, **last;
	unsigned int timeout;
	int error;
	bool closing;
};

extern const struct verbs_user client_user;

void client_take_events(struct rdma_backup *r);
int client_connect(struct rdma_backup *r, const struct backup_options *options);

#endif
