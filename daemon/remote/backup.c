// SPDX-License-Identifier: GPL-2.0
/*
 * A backup on another host: the client of a server (server.h), over RDMA.
 *
 * The device reads log memory directly: rdma_memory() registers it once. Other memory (headers,
 * tail blocks, directories, digests, the buffers of a recovery) goes through a bounce buffer,
 * one per slot. A slot is the server's buffer for one request. A request that finds no free slot
 * waits in a queue.
 *
 * The server guarantees one holder: it gives the hold to another client only when the connection
 * of the holder is cut and has no I/O in flight. So a broken connection is never made again: all
 * its requests fail with the error that ended it, and core loses the backup (invariant 3).
 *
 * Bounds: a dead peer is detected within VERBS_DEAD_S, or by the ticks of verbs.h if the transport
 * fails to; a server that is alive and does not answer, after @timeout seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lsmem_format.h>

#include "backup/backup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "client.h"
#include "remote.h"

#define TICK_NS		1000000000u
#define HOLD_S		10u	/* for an answer to HOLD: the server ends what the client before has in flight */

static struct rdma_backup *from_verbs(struct verbs *verbs)
{
	return (struct rdma_backup *)((char *)verbs - offsetof(struct rdma_backup, verbs));
}

/* ---- The end ----------------------------------------------------------- */

static void fail_all(struct loop_op *op, int res)
{
	struct rdma_backup *r = (struct rdma_backup *)((char *)op -
						       offsetof(struct rdma_backup, fail));
	struct backup_io *io;
	uint32_t i;

	(void)res;
	r->failing = false;
	r->waiting--;
	for (i = 0; i < WIRE_SLOTS; i++) {
		io = r->slots[i].io;
		r->slots[i].io = NULL;
		if (io)
			backup_io_complete(io, r->error);
	}
	while ((io = r->first)) {
		r->first = io->next;
		if (!r->first)
			r->last = &r->first;
		backup_io_complete(io, r->error);
	}
}

/* Complete all requests with @error, from the loop: backup_submit() must not complete them. */
static void fail_soon(struct rdma_backup *r)
{
	if (r->failing || r->closing)
		return;
	r->failing = true;
	r->waiting++;
	io_uring_prep_nop(loop_sqe(r->backup->loop, &r->fail));
}

/*
 * Cut the connection before requests are completed: the owner of a completed request may reuse its
 * memory.
 */
static void rdma_broken(struct verbs *verbs, int error, const char *why)
{
	struct rdma_backup *r = from_verbs(verbs);
	const struct wire_refuse *refused = &r->session.refused;

	r->error = error;
	verbs_cut(verbs);
	if (r->closing)
		return;
	r->backup->error = error;
	if (refused->reason)
		log_err("%s: the connection is over: %s (%s, term %" PRIu64 ")", r->backup->path,
			why, refused->who, (uint64_t)le64toh(refused->term));
	else
		log_err("%s: the connection is over: %s", r->backup->path, why);
	if (r->backup->in_flight)
		fail_soon(r);
}

/* ---- Requests ---------------------------------------------------------- */

static const enum wire_type types[] = {
	[BACKUP_READ] = WIRE_READ, [BACKUP_WRITE] = WIRE_WRITE, [BACKUP_FLUSH] = WIRE_FLUSH,
};

static uint64_t slot_address(const struct rdma_backup *r, uint32_t slot)
{
	return le64toh(r->session.accept.address) +
	       (uint64_t)slot * le32toh(r->session.accept.slot_bytes);
}

/* Make an sge of @iov: of its own memory if that is log memory, else of a copy at @at of @data. */
static struct ibv_sge piece(struct rdma_backup *r, const struct slot *slot,
			    const struct iovec *iov, uint32_t at)
{
	uintptr_t base = (uintptr_t)iov->iov_base, log = (uintptr_t)r->log;
	bool direct = r->log_mr && base >= log && base - log < r->log_bytes &&
		      iov->iov_len <= r->log_bytes - (base - log);

	if (!direct)
		memcpy(slot->data + at, iov->iov_base, iov->iov_len);
	return (struct ibv_sge) {
		.addr = direct ? base : (uintptr_t)slot->data + at,
		.length = (uint32_t)iov->iov_len,
		.lkey = direct ? r->log_mr->lkey : r->bounce_mr->lkey,
	};
}

static void write_slot(struct rdma_backup *r, uint32_t nr, const struct backup_io *io)
{
	uint32_t i, sges = 0, at = 0, from = 0;
	struct ibv_sge list[VERBS_SGES];

	for (i = 0; i < io->nr_iov; i++) {
		list[sges++] = piece(r, &r->slots[nr], &io->iov[i], at);
		at += (uint32_t)io->iov[i].iov_len;
		if (sges < r->verbs.sges && i + 1 < io->nr_iov)
			continue;
		verbs_write(&r->verbs, list, sges, slot_address(r, nr) + from,
			    le32toh(r->session.accept.key));
		from = at;
		sges = 0;
	}
}

static void start(struct rdma_backup *r, struct backup_io *io, uint32_t nr)
{
	struct slot *slot = &r->slots[nr];

	slot->io = io;
	slot->begun_ns = clock_now_ns();
	slot->sent = false;
	slot->answered = false;
	if (io->what == BACKUP_WRITE)
		write_slot(r, nr, io);
	session_request(&r->session, io->durable ? WIRE_WRITE_DURABLE : types[io->what], nr,
			io->offset, io->length);
	verbs_send(&r->verbs, &r->session.out, nr);
}

static void start_more(struct rdma_backup *r)
{
	struct backup_io *io;
	int slot;

	while (!r->error && (io = r->first) && (slot = session_slot(&r->session)) >= 0) {
		r->first = io->next;
		if (!r->first)
			r->last = &r->first;
		start(r, io, (uint32_t)slot);
	}
}

static void rdma_submit(struct backup *backup, struct backup_io *io)
{
	struct rdma_backup *r = backup->private;

	io->next = NULL;
	*r->last = io;
	r->last = &io->next;
	if (r->error)
		fail_soon(r);
	else
		start_more(r);
}

static void release(struct rdma_backup *r, uint32_t nr)
{
	if (!r->slots[nr].sent || !r->slots[nr].answered)
		return;
	session_release(&r->session, nr);
	start_more(r);
}

/* Complete a request. Free the slot first: the owner may submit another request. */
static void finish(struct rdma_backup *r, uint32_t nr, int error)
{
	struct backup_io *io = r->slots[nr].io;

	r->slots[nr].io = NULL;
	r->slots[nr].answered = true;
	release(r, nr);
	backup_io_complete(io, error);
}

static void answered(struct rdma_backup *r, const struct session_io *done)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)r->slots[done->slot].data,
		.length = r->slots[done->slot].io->length,
		.lkey = r->bounce_mr->lkey,
	};

	if (done->type == WIRE_READ && !done->error)
		verbs_read(&r->verbs, &sge, slot_address(r, done->slot),
			   le32toh(r->session.accept.key), done->slot);
	else
		finish(r, done->slot, done->error);
}

static void rdma_read(struct verbs *verbs, uint32_t nr)
{
	struct rdma_backup *r = from_verbs(verbs);
	const struct backup_io *io = r->slots[nr].io;
	const uint8_t *data = r->slots[nr].data;
	uint32_t i;

	for (i = 0; i < io->nr_iov; i++) {
		memcpy(io->iov[i].iov_base, data, io->iov[i].iov_len);
		data += io->iov[i].iov_len;
	}
	finish(r, nr, 0);
}

static void rdma_sent(struct verbs *verbs, uint32_t nr)
{
	struct rdma_backup *r = from_verbs(verbs);

	if (nr >= WIRE_SLOTS)
		return;		/* a message of the handshake */
	r->slots[nr].sent = true;
	release(r, nr);
}

static void received(struct backup_io *io)
{
	if (io->received)
		io->received(io);
}

static void rdma_message(struct verbs *verbs, const union wire_message *message, size_t length)
{
	struct rdma_backup *r = from_verbs(verbs);
	struct session *session = &r->session;

	switch (session_answer(session, message, length)) {
	case SESSION_SEND:
		verbs_send(verbs, &session->out, WIRE_SLOTS);
		break;
	case SESSION_IO:
		answered(r, &session->io);
		break;
	case SESSION_RECEIVED:
		received(r->slots[session->io.slot].io);
		break;
	case SESSION_CLOSE:
		verbs_break(verbs, session->refused.reason ? -ESTALE : -EPROTO, session->why);
		break;
	default:	/* SESSION_READY: agree() looks at the state */
		break;
	}
}

/* What the connection calls */
const struct verbs_user client_user = {
	.message = rdma_message,
	.sent = rdma_sent,
	.read = rdma_read,
	.broken = rdma_broken,
};

/* ---- In the loop ------------------------------------------------------- */

/**
 * client_take_events - take what the connection manager has to tell, without waiting
 * @r: the backup; its @error is set if the connection has ended
 */
void client_take_events(struct rdma_backup *r)
{
	struct rdma_cm_event *event, copy;

	while (!verbs_get_event(r->events, &event)) {
		copy = *event;
		rdma_ack_cm_event(event);
		verbs_event(&r->verbs, &copy);
	}
}

static void events_done(struct loop_op *op, int res)
{
	struct rdma_backup *r = (struct rdma_backup *)((char *)op -
						       offsetof(struct rdma_backup, events_op));

	(void)res;
	r->waiting--;
	if (r->error || r->closing)
		return;
	client_take_events(r);
	if (r->error)
		return;
	r->waiting++;
	loop_poll(r->backup->loop, &r->events_op, r->events->fd, POLLIN);
}

/*
 * End the connection to a server that has not answered a request for its timeout. If the loop was
 * delayed, restart the timeouts of all requests in flight.
 */
static void miss_answers(struct rdma_backup *r)
{
	bool stood_still = loop_stood_still(&r->tick);
	uint64_t now = clock_now_ns();
	uint32_t i;

	for (i = 0; i < WIRE_SLOTS && !r->error; i++)
		if (stood_still)
			r->slots[i].begun_ns = now;
		else if (r->slots[i].io &&
			 now - r->slots[i].begun_ns > r->timeout * 1000000000ull)
			verbs_break(&r->verbs, -ETIMEDOUT,
				    "the server is there and has not answered for \"timeout =\" seconds");
}

static void tick_done(struct loop_op *op, int res)
{
	struct rdma_backup *r = (struct rdma_backup *)((char *)op -
						       offsetof(struct rdma_backup, tick.op));

	(void)res;
	r->waiting--;
	if (!r->closing)
		miss_answers(r);
	if (r->error || r->closing)
		return;
	verbs_tick(&r->verbs);
	r->waiting++;
	loop_timer_start(r->backup->loop, &r->tick, TICK_NS);
}

/* ---- Opening and closing ----------------------------------------------- */

static int make_slots(struct rdma_backup *r)
{
	uint32_t slots = le32toh(r->session.accept.slots), i;
	uint32_t slot_bytes = le32toh(r->session.accept.slot_bytes);
	size_t bytes = (size_t)slots * slot_bytes;

	r->bounce = memory_get(bytes);
	if (!r->bounce)
		return -ENOMEM;
	memset(r->bounce, 0, bytes);
	r->bounce_mr = ibv_reg_mr(r->verbs.pd, r->bounce, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!r->bounce_mr) {
		log_err("%s: %zu MiB cannot be registered with the RDMA device: %s",
			r->backup->path, bytes >> 20, strerror(errno));
		return -errno;
	}
	for (i = 0; i < slots; i++)
		r->slots[i].data = r->bounce + (size_t)i * slot_bytes;
	return 0;
}

static void give_back(struct rdma_backup *r)
{
	verbs_cut(&r->verbs);
	if (r->log_mr)
		ibv_dereg_mr(r->log_mr);
	if (r->bounce_mr)
		ibv_dereg_mr(r->bounce_mr);
	memory_put(r->bounce);
	verbs_close(&r->verbs);
	if (r->events)
		rdma_destroy_event_channel(r->events);
	explicit_bzero(&r->session, sizeof(r->session));
	explicit_bzero(&r->key, sizeof(r->key));
	free(r);
}

static void take_limits(struct backup *backup, const struct rdma_backup *r)
{
	const struct wire_accept *accept = &r->session.accept;

	backup->limits = (struct backup_limits) {
		.bytes = le64toh(accept->bytes),
		.logical = le32toh(accept->logical),
		.physical = le32toh(accept->physical),
		.io_bytes = le32toh(accept->slot_bytes),
		.io_vectors = r->verbs.sges * VERBS_WRITES,
		.volatile_cache = le32toh(accept->flags) & WIRE_VOLATILE,
		.term = le64toh(accept->term),
	};
}

static int rdma_open(struct backup *backup, const struct backup_options *options)
{
	struct rdma_backup *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->backup = backup;
	r->last = &r->first;
	r->timeout = options->timeout;
	err = -EINVAL;
	if (!wire_address(options->path, &r->address) || !*r->address.name || !options->key) {
		log_err("%s: rdma://HOST[:PORT]/NAME and \"key =\" are needed", options->path);
		goto fail;
	}
	err = secret_read(options->key, &r->key);
	if (err)
		goto fail;
	r->events = rdma_create_event_channel();
	if (!r->events || fcntl(r->events->fd, F_SETFL, O_NONBLOCK)) {
		err = -errno;
		log_err("%s: no RDMA here: %s; modprobe rdma_ucm, and a driver for the device",
			options->path, strerror(-err));
		goto fail;
	}
	err = client_connect(r, options);
	if (!err)
		err = make_slots(r);
	if (err)
		goto fail;
	take_limits(backup, r);
	backup->private = r;
	r->closing = true;
	return 0;
fail:
	give_back(r);
	return err;
}

static int rdma_attach(struct backup *backup)
{
	struct rdma_backup *r = backup->private;

	r->backup = backup;
	r->closing = false;
	r->fail.done = fail_all;
	r->events_op.done = events_done;
	r->tick.op.done = tick_done;
	r->waiting = 2;
	loop_poll(backup->loop, &r->events_op, r->events->fd, POLLIN);
	loop_timer_start(backup->loop, &r->tick, TICK_NS);
	verbs_poll_in(&r->verbs, backup->loop);
	return 0;
}

static void rdma_detach(struct backup *backup)
{
	struct rdma_backup *r = backup->private;

	r->closing = true;
	verbs_poll_out(&r->verbs);
	loop_cancel(backup->loop, &r->events_op);
	loop_cancel(backup->loop, &r->tick.op);
	while ((r->waiting || r->verbs.polling) && loop_run(backup->loop, true) >= 0)
		;
}

static void rdma_close(struct backup *backup)
{
	struct rdma_backup *r = backup->private;

	give_back(r);
}

static int rdma_hold(struct backup *backup, const struct backup_options *options)
{
	struct rdma_backup *r = backup->private;
	uint64_t end = clock_now_ns() + HOLD_S * 1000000000ull;
	int err = 0;

	if (r->error)
		return r->error;
	if (!session_hold(&r->session, options->fence_term, options->receipts ? WIRE_RECEIPTS : 0))
		return -EOPNOTSUPP;
	verbs_send(&r->verbs, &r->session.out, WIRE_SLOTS);
	while (!r->error && r->session.state != SESSION_SERVING && err >= 0) {
		err = options->progress ? options->progress("waited", 0, 0) : 0;
		if (!err && clock_now_ns() >= end)
			err = -ETIMEDOUT;
		if (!err)
			err = loop_run(backup->loop, true);	/* the tick ends it at the latest */
	}
	backup->limits.term = le64toh(r->session.accept.term);
	return r->error ? r->error : err < 0 ? err : 0;
}

static int rdma_memory(struct backup *backup, const void *base, size_t bytes)
{
	struct rdma_backup *r = backup->private;

	if (r->log_mr)
		ibv_dereg_mr(r->log_mr);
	r->log_mr = NULL;
	if (!base)
		return 0;
	r->log_mr = verbs_register(&r->verbs, base, bytes, 0);
	if (!r->log_mr)
		return -errno;
	r->log = base;
	r->log_bytes = bytes;
	return 0;
}

const struct backup_make remote_backup_make = {
	.name = "rdma",
	.takes = wire_scheme,
	.open = rdma_open,
	.attach = rdma_attach,
	.detach = rdma_detach,
	.submit = rdma_submit,
	.close = rdma_close,
	.hold = rdma_hold,
	.memory = rdma_memory,
};
