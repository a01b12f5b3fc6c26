// SPDX-License-Identifier: GPL-2.0
/*
 * A backup on another host, with a running server: requests, the fence, receipts, hostile peers, a
 * lost peer.  TAP.
 *
 *	rdma rdma://HOST:PORT/NAME KEYFILE
 *
 * The test overwrites the export.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <lsmem_format.h>

#include "backup/backup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "remote/remote.h"
#include "remote/server.h"
#include "remote/session.h"
#include "remote/verbs.h"
#include "../common/tap.h"

#define MANY	200u
/* More connections than the server has room for; less time than it waits for a proof. */
#define SILENT	70u
#define SILENT_MS	4000u
#define PIECES	6u

static struct loop loop;
static const char *path, *key_file;
static struct wire_address address;

static unsigned int lock_wait = 1;
static bool receipts;

static struct backup_options options_for(uint64_t term, bool read_only)
{
	return (struct backup_options){
		.path = path, .key = key_file, .lock_wait = lock_wait, .timeout = 10,
		.fence_term = term, .read_only = read_only, .receipts = receipts,
	};
}

static int open_backup(struct backup *backup, uint64_t term, bool read_only)
{
	struct backup_options options = options_for(term, read_only);

	return backup_open(backup, &loop, &options);
}

/* Open it to read, whether another client holds it or not. */
static int open_beside(struct backup *backup)
{
	struct backup_options options = options_for(0, true);

	options.receipts = false;
	options.beside = true;
	return backup_open(backup, &loop, &options);
}

static int hold_backup(struct backup *backup, uint64_t term)
{
	struct backup_options options = options_for(term, false);

	return backup_hold(backup, &options);
}

/* ---- Requests ---------------------------------------------------------- */

/**
 * struct batch - MANY requests
 * @completed, @failed: numbers of requests
 * @error: error of the last request that failed
 */
struct batch {
	struct request {
		struct backup_io io;
		struct iovec iov[PIECES];
		struct batch *batch;
	} requests[MANY];
	unsigned int completed, failed;
	int error;
};

static void done(struct backup_io *io, int error)
{
	struct batch *batch = ((struct request *)io)->batch;

	batch->completed++;
	batch->failed += !!error;
	if (error)
		batch->error = error;
}

/* Bytes of a request; it has pieces of several lengths, in reverse order. */
#define REQUEST	(8 * LSMEM_BLOCK)

static void submit(struct batch *batch, struct backup *backup, enum backup_what what,
		   uint8_t *data)
{
	static const uint32_t blocks[PIECES] = { 1, 2, 1, 1, 1, 2 };
	uint32_t i, at, piece;

	memset(batch, 0, sizeof(*batch));
	for (i = 0; i < MANY; i++) {
		struct request *r = &batch->requests[i];

		for (piece = 0, at = REQUEST; piece < PIECES; piece++) {
			at -= blocks[piece] * LSMEM_BLOCK;
			r->iov[piece].iov_base = data + (size_t)i * REQUEST + at;
			r->iov[piece].iov_len = blocks[piece] * LSMEM_BLOCK;
		}
		r->batch = batch;
		r->io.what = what;
		r->io.offset = (uint64_t)i * REQUEST;
		r->io.length = REQUEST;
		r->io.iov = r->iov;
		r->io.nr_iov = PIECES;
		r->io.done = done;
		backup_submit(&r->io, backup);
	}
}

static void drain(struct batch *batch)
{
	while (batch->completed < MANY && loop_run(&loop, true) >= 0)
		;
}

static uint8_t *buffer(void)
{
	void *data = mmap(NULL, (size_t)MANY * REQUEST, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return data == MAP_FAILED ? NULL : data;
}

static void fill(uint8_t *data, uint32_t seed)
{
	uint32_t i;

	for (i = 0; i < MANY * REQUEST; i++)
		data[i] = (uint8_t)((i + seed) * 2654435761u >> 13);
}

static void test_io(uint8_t *data, uint8_t *back)
{
	static struct batch batch;
	struct backup backup;
	int round;

	tap_is(open_backup(&backup, 0, false), 0, "opened");
	tap_ok(backup.limits.io_bytes >= LSMEM_SEGLET_BYTES, "requests of a seglet");
	for (round = 0; round < 2; round++) {
		const char *how = round ? "from registered memory" : "copied";

		fill(data, (uint32_t)round);
		if (round)
			backup_memory(&backup, data, MANY * REQUEST);
		submit(&batch, &backup, BACKUP_WRITE, data);
		tap_is(batch.completed, 0, "%s: nothing completes before the loop runs", how);
		drain(&batch);
		tap_is(batch.failed, 0, "%s: more writes than slots", how);
		tap_is(backup_transfer(&backup, BACKUP_FLUSH, 0, NULL, 0), 0, "%s: flush", how);
		memset(back, 0, MANY * REQUEST);
		submit(&batch, &backup, BACKUP_READ, back);
		drain(&batch);
		tap_ok(!batch.failed && !memcmp(data, back, MANY * REQUEST),
		    "%s: the bytes read are those written", how);
	}
	tap_is(backup_transfer(&backup, BACKUP_READ, backup.limits.bytes - LSMEM_BLOCK, back,
			       LSMEM_BLOCK), 0, "the last block");
	backup_close(&backup);
	tap_is(backup.in_flight, 0, "nothing is left");
	/* backup_memory() makes registered memory read-only, like the memory of a store. */
	mprotect(data, (size_t)MANY * REQUEST, PROT_READ | PROT_WRITE);
}

/* ---- The fence ---------------------------------------------------------- */

static void test_fence(uint8_t *data, uint8_t *back)
{
	static struct batch old, new;
	struct backup first, second, reader;

	tap_is(open_backup(&first, 5, false), 0, "first, term 5");
	tap_is(open_backup(&second, 0, false), -EBUSY, "a second without a term: held");
	tap_is(open_backup(&second, 5, false), -ESTALE, "with the same term: refused");
	tap_is(open_backup(&second, 4, false), -ESTALE, "with a lower one: refused");
	fill(data, 2);
	submit(&old, &first, BACKUP_WRITE, data);
	tap_is(open_backup(&second, 6, false), 0, "with a higher one, writes in flight: has it");
	/* From now on no write of the first may reach the drive. */
	fill(back, 3);
	submit(&new, &second, BACKUP_WRITE, back);
	drain(&new);
	tap_is(new.failed, 0, "the second writes");
	drain(&old);
	tap_ok(old.failed, "some of the first's writes have failed");
	submit(&old, &first, BACKUP_WRITE, data);
	drain(&old);
	tap_is(old.failed, MANY, "the first cannot write any more");
	tap_is(old.error, -ESTALE, "its error is ESTALE");
	memset(data, 0, MANY * REQUEST);
	submit(&new, &second, BACKUP_READ, data);
	drain(&new);
	tap_ok(!new.failed && !memcmp(data, back, MANY * REQUEST),
	    "no write of the first has reached the drive since");
	tap_is(open_backup(&reader, 0, true), -EBUSY, "a reader while the export is held: refused");
	backup_close(&first);
	backup_close(&second);
	tap_is(open_backup(&second, 6, false), -ESTALE, "the term is used up");
	tap_is(open_backup(&reader, 0, true), 0, "a reader while the export is not held");
	tap_is(backup_transfer(&reader, BACKUP_READ, 0, data, LSMEM_BLOCK), 0, "the reader reads");
	backup_close(&reader);
}

/* ---- Receipts ----------------------------------------------------------- */

/* One of many writes of the same blocks; its bytes are its number. */
static struct tail {
	struct backup_io io;
	struct iovec iov;
	struct backup *backup;
	uint8_t *data;
	uint32_t receipts, answers;
	bool late;
	int error;
} tails[MANY];
static uint32_t nr_tails, tail_answers;

static void tail_next(struct backup *backup, uint8_t *data);

/* A receipt: issue the next write. */
static void tail_received(struct backup_io *io)
{
	struct tail *tail = (struct tail *)io;

	tail->receipts++;
	tail->late |= tail->answers;
	tail_next(tail->backup, tail->data);
}

static void tail_done(struct backup_io *io, int error)
{
	struct tail *tail = (struct tail *)io;

	tail->answers++;
	tail->error = error;
	tail_answers++;
}

/* Write one to three blocks of the four. */
static void tail_next(struct backup *backup, uint8_t *data)
{
	uint32_t number = nr_tails;
	struct tail *tail = &tails[number];

	if (number == MANY)
		return;
	nr_tails++;
	*tail = (struct tail) {
		.backup = backup, .data = data,
		.io = {
			.what = BACKUP_WRITE, .iov = &tail->iov, .nr_iov = 1,
			.length = LSMEM_BLOCK * (1 + number % 3),
			.offset = LSMEM_BLOCK * (number % 5 == 4),
			.done = tail_done, .received = tail_received,
		},
	};
	tail->iov = (struct iovec) { data, tail->io.length };
	memset(data, (int)number, tail->io.length);
	backup_submit(&tail->io, backup);
}

static bool writes(const struct tail *tail, uint32_t block)
{
	return tail->io.offset <= block * LSMEM_BLOCK &&
	       tail->io.offset + tail->io.length > block * LSMEM_BLOCK;
}

/* Does each block have the bytes of its last write with a receipt, or of a later write? */
static bool tails_are(const uint8_t *back)
{
	uint32_t block, last, i;

	for (block = 0; block < 4; block++) {
		for (i = 0, last = 0; i < nr_tails; i++)
			if (tails[i].receipts && writes(&tails[i], block))
				last = i;
		i = back[block * LSMEM_BLOCK];
		if (i < last || i >= nr_tails || !writes(&tails[i], block))
			return false;
	}
	return true;
}

static void test_receipts(uint8_t *data, uint8_t *back)
{
	struct backup backup, next;
	uint32_t i, wrong = 0;

	receipts = true;
	tap_is(open_backup(&backup, 7, false), 0, "receipts are wanted: opened");
	tail_next(&backup, data);
	while (tail_answers < MANY && loop_run(&loop, true) >= 0)
		;
	for (i = 0; i < MANY; i++)
		wrong += tails[i].receipts != 1 || tails[i].answers != 1 || tails[i].late ||
			 tails[i].error;
	tap_is(wrong, 0, "each write has a receipt, then an answer");
	tap_is(backup_transfer(&backup, BACKUP_READ, 0, back, 4 * LSMEM_BLOCK), 0, "read");
	tap_ok(tails_are(back), "writes of the same blocks are done in order");
	/* A write with a receipt is done although the connection of its sender is cut. */
	nr_tails = 0;
	tail_next(&backup, data);
	while (nr_tails < MANY / 2 && loop_run(&loop, true) >= 0)
		;
	tap_is(open_backup(&next, 8, false), 0, "fenced in the middle");
	tap_is(backup_transfer(&next, BACKUP_READ, 0, back, 4 * LSMEM_BLOCK), 0, "read");
	tap_ok(tails_are(back), "writes with a receipt are done");
	backup_close(&backup);
	backup_close(&next);
	receipts = false;
}

/* ---- A reader that gets the hold ---------------------------------------------- */

static void test_hold(uint8_t *data, uint8_t *back)
{
	struct batch old, new;
	struct backup first, second;

	tap_is(open_backup(&first, 9, false), 0, "a holder");
	tap_is(open_beside(&second), 0, "a reader beside it");
	tap_is(hold_backup(&second, 9), -ESTALE, "wants the hold, with the same term: refused");
	backup_close(&second);
	tap_is(open_beside(&second), 0, "another reader");
	tap_is(backup_transfer(&second, BACKUP_READ, 0, back, LSMEM_BLOCK), 0, "it reads");
	fill(data, 4);
	submit(&old, &first, BACKUP_WRITE, data);
	receipts = true;
	tap_is(hold_backup(&second, 10), 0, "wants the hold with a higher one, writes in flight: has it");
	fill(back, 5);
	submit(&new, &second, BACKUP_WRITE, back);
	drain(&new);
	tap_is(new.failed, 0, "it writes");
	drain(&old);
	submit(&old, &first, BACKUP_WRITE, data);
	drain(&old);
	tap_is(old.failed, MANY, "the holder before cannot any more");
	tap_is(old.error, -ESTALE, "its error is ESTALE");
	memset(data, 0, MANY * REQUEST);
	submit(&new, &second, BACKUP_READ, data);
	drain(&new);
	tap_ok(!new.failed && !memcmp(data, back, MANY * REQUEST), "no write of that has reached the drive since");
	nr_tails = tail_answers = 0;
	tail_next(&second, data);
	while (tail_answers < MANY && loop_run(&loop, true) >= 0)
		;
	tap_is(tails[MANY - 1].receipts, 1, "it gets receipts, which it did not as a reader");
	receipts = false;
	backup_close(&first);
	tap_is(open_beside(&first), 0, "a reader beside it");
	backup_close(&second);
	tap_is(hold_backup(&first, 0), 0, "gets the hold without a term when it is free");
	tap_is(backup_transfer(&first, BACKUP_WRITE, 0, data, LSMEM_BLOCK), 0, "and writes");
	backup_close(&first);
}

/* ---- Hostile peers ------------------------------------------------------ */

/**
 * struct stranger - a connection that sends any messages
 * @serving: the server has accepted it
 */
struct stranger {
	struct verbs verbs;
	struct session session;
	struct secret key;
	struct rdma_event_channel *events;
	bool over, serving, read_done;
	unsigned int answers;
};

static struct stranger *from_verbs(struct verbs *verbs)
{
	return (struct stranger *)((char *)verbs - offsetof(struct stranger, verbs));
}

static void stranger_message(struct verbs *verbs, const union wire_message *message,
			     size_t length)
{
	struct stranger *s = from_verbs(verbs);

	switch (session_answer(&s->session, message, length)) {
	case SESSION_SEND:
		verbs_send(verbs, &s->session.out, 0);
		break;
	case SESSION_READY:
		s->serving = true;
		break;
	default:
		s->answers++;
		break;
	}
}

static void stranger_sent(struct verbs *verbs, uint32_t tag)
{
	(void)verbs;
	(void)tag;
}

static void stranger_read(struct verbs *verbs, uint32_t tag)
{
	(void)tag;
	from_verbs(verbs)->read_done = true;
}

static void stranger_broken(struct verbs *verbs, int error, const char *why)
{
	(void)error;
	(void)why;
	from_verbs(verbs)->over = true;
}

static const struct verbs_user stranger_user = {
	.message = stranger_message, .sent = stranger_sent,
	.read = stranger_read, .broken = stranger_broken,
};

/* Wait until @flag is set, the connection ends, or @ms have passed. */
static void stranger_wait(struct stranger *s, const bool *flag, unsigned int ms)
{
	uint64_t end = clock_now_ns() + ms * 1000000ull;
	struct rdma_cm_event *event, copy;

	while (!*flag && !s->over && clock_now_ns() < end) {
		struct pollfd fds[2] = {
			{ .fd = s->events->fd, .events = POLLIN },
			{ .fd = s->verbs.channel->fd, .events = POLLIN },
		};

		if (poll(fds, 2, 50) > 0 && fds[0].revents && !rdma_get_cm_event(s->events, &event)) {
			copy = *event;
			rdma_ack_cm_event(event);
			verbs_event(&s->verbs, &copy);
		}
		verbs_poll(&s->verbs);
	}
}

static bool step(struct stranger *s, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	bool good;

	if (rdma_get_cm_event(s->events, &event))
		return false;
	good = event->event == wanted;
	rdma_ack_cm_event(event);
	return good;
}

static bool stranger_connect(struct stranger *s)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct rdma_conn_param params;
	struct rdma_cm_id *id;

	memset(s, 0, sizeof(*s));
	s->events = rdma_create_event_channel();
	to.sin_port = htons((uint16_t)atoi(address.port));
	if (inet_pton(AF_INET, address.host, &to.sin_addr) != 1 || !s->events ||
	    rdma_create_id(s->events, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000) ||
	    !step(s, RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(id, 2000) ||
	    !step(s, RDMA_CM_EVENT_ROUTE_RESOLVED) ||
	    verbs_open(&s->verbs, id, &stranger_user))
		return false;
	verbs_params(&s->verbs, &params);
	return !rdma_connect(id, &params) && step(s, RDMA_CM_EVENT_ESTABLISHED);
}

static void stranger_leave(struct stranger *s)
{
	verbs_close(&s->verbs);
	rdma_destroy_event_channel(s->events);
}

static void stranger_begin(struct stranger *s, const struct secret *key, uint64_t term,
			   uint32_t flags)
{
	struct session_setup setup = {
		.lowest = WIRE_VERSION_MIN, .highest = WIRE_VERSION_MAX, .nonce = "not very random",
	};

	verbs_qps(&s->verbs, &setup.link.client_qp, &setup.link.server_qp);
	session_call(&s->session, &setup, key, address.name, "stranger", term, flags);
}

static void stranger_call(struct stranger *s, uint32_t flags)
{
	secret_read(key_file, &s->key);
	stranger_begin(s, &s->key, 0, flags);
	verbs_send(&s->verbs, &s->session.out, 0);
	stranger_wait(s, &s->serving, 5000);
}

static void raw_send(struct stranger *s, const void *data, size_t length)
{
	union wire_message message;

	memset(&message, 0, sizeof(message));
	memcpy(&message, data, length < sizeof(message) ? length : sizeof(message));
	/* The head has the length for verbs_send(). */
	verbs_send(&s->verbs, &message, 0);
}

/* A changed request: with the right tag; with the tag from before the change; sent twice. */
enum change { TAGGED, CHANGED, TWICE };

/* Invalid requests of a client with the secret, and requests that are changed on the way. */
static void test_serving(struct stranger *s, const char *name, enum wire_type type, uint32_t slot,
			 uint64_t offset, uint32_t length, enum change change)
{
	bool never = false;

	if (!stranger_connect(s)) {
		tap_ok(false, "%s: connected", name);
		return;
	}
	stranger_call(s, WIRE_READ_ONLY);
	session_request(&s->session, type, 0, offset, length);
	s->session.out.request.slot = htole32(slot);
	if (change == TAGGED) {
		s->session.to_peer.sequence--;
		wire_tag(&s->session.to_peer, &s->session.out, sizeof(s->session.out.request));
	}
	raw_send(s, &s->session.out, sizeof(s->session.out));
	if (change == TWICE)
		raw_send(s, &s->session.out, sizeof(s->session.out));
	stranger_wait(s, &never, 5000);
	tap_ok(s->serving && s->over && s->answers <= (change == TWICE), "%s: cut off", name);
	stranger_leave(s);
}

static void test_hostile(void)
{
	static struct stranger s;
	struct backup holder;
	union wire_message message;
	struct secret wrong = { .length = 16, .bytes = "sixteen letters." };
	struct ibv_mr *mr;
	struct ibv_sge sge;
	bool never = false;
	uint32_t i;
	void *data;

	tap_is(open_backup(&holder, 0, false), 0, "a holder, all the time");
	for (i = 0; i < 4; i++) {
		static const char *const what[] = {
			"garbage", "a request before anything", "silence", "a wrong proof",
		};

		if (!stranger_connect(&s)) {
			tap_ok(false, "%s: connected", what[i]);
			continue;
		}
		memset(&message, 0xee, sizeof(message));
		message.head.length = htole32(100);
		if (i == 0)
			raw_send(&s, &message, sizeof(message));
		stranger_begin(&s, &wrong, 0, 0);
		if (i == 1) {
			s.session.accept.slots = htole32(1);
			session_request(&s.session, WIRE_WRITE, 0, 0, LSMEM_BLOCK);
			verbs_send(&s.verbs, &s.session.out, 0);
		}
		if (i == 3)
			verbs_send(&s.verbs, &s.session.out, 0);
		stranger_wait(&s, &never, 12000);
		tap_ok(s.over && !s.serving, "%s: cut off", what[i]);
		stranger_leave(&s);
	}
	test_serving(&s, "a slot that does not exist", WIRE_READ, WIRE_SLOTS, 0, LSMEM_BLOCK,
		     TAGGED);
	test_serving(&s, "beyond the end", WIRE_READ, 0, holder.limits.bytes, LSMEM_BLOCK,
		     TAGGED);
	test_serving(&s, "a write by a reader", WIRE_WRITE, 0, 0, LSMEM_BLOCK,
		     TAGGED);
	test_serving(&s, "a misaligned read", WIRE_READ, 0, 512, LSMEM_BLOCK,
		     TAGGED);
	test_serving(&s, "a request that was changed on its way", WIRE_READ, 1, 0, LSMEM_BLOCK,
		     CHANGED);
	test_serving(&s, "a request that comes a second time", WIRE_FLUSH, 0, 0, 0, TWICE);

	/* Memory of others: a client can access only its own slots. */
	if (posix_memalign(&data, LSMEM_BLOCK, LSMEM_BLOCK) || !stranger_connect(&s))
		exit(1);
	stranger_call(&s, WIRE_READ_ONLY);
	mr = ibv_reg_mr(s.verbs.pd, data, LSMEM_BLOCK, IBV_ACCESS_LOCAL_WRITE);
	sge = (struct ibv_sge) {
		.addr = (uintptr_t)data, .length = LSMEM_BLOCK, .lkey = mr->lkey,
	};
	verbs_read(&s.verbs, &sge, le64toh(s.session.accept.address),
		   le32toh(s.session.accept.key), 0);
	stranger_wait(&s, &s.read_done, 5000);
	tap_ok(s.read_done, "its own slot can be read");
	s.read_done = false;
	verbs_read(&s.verbs, &sge, le64toh(s.session.accept.address) +
		   (uint64_t)le32toh(s.session.accept.slots) * le32toh(s.session.accept.slot_bytes),
		   le32toh(s.session.accept.key), 0);
	stranger_wait(&s, &s.read_done, 5000);
	tap_ok(s.over && !s.read_done, "memory behind its slots cannot be read");
	verbs_cut(&s.verbs);
	ibv_dereg_mr(mr);
	stranger_leave(&s);

	tap_is(backup_transfer(&holder, BACKUP_WRITE, 0, data, LSMEM_BLOCK), 0,
	       "the holder is not disturbed");
	tap_is(backup_transfer(&holder, BACKUP_FLUSH, 0, NULL, 0), 0, "the holder goes on");
	backup_close(&holder);
	free(data);
}

/* Silent connections do not keep out a client that has the secret. */
static void test_silent(void)
{
	static struct stranger silent[SILENT];
	unsigned int i, connected = 0, left = 0, wait = lock_wait;
	bool never = false;
	struct backup backup;
	uint64_t begun;
	int err;

	for (i = 0; i < SILENT; i++)
		connected += stranger_connect(&silent[i]);
	tap_is(connected, SILENT, "%u silent connections are made", SILENT);
	begun = clock_now_ns();
	lock_wait = 0;
	err = open_backup(&backup, 0, false);
	lock_wait = wait;
	tap_is(err, 0, "a client with the secret is accepted");
	tap_ok(clock_now_ns() - begun < SILENT_MS * 1000000ull, "before silent connections time out");
	printf("# after %u ms\n", (unsigned int)((clock_now_ns() - begun) / 1000000));
	for (i = 0; i < SILENT; i++) {
		if (!silent[i].verbs.id)
			continue;
		stranger_wait(&silent[i], &never, 1);
		left += !silent[i].over;
	}
	tap_ok(left <= SERVER_STRANGERS_HOST, "few silent connections are left: %u", left);
	if (!err) {
		tap_is(backup_transfer(&backup, BACKUP_FLUSH, 0, NULL, 0), 0, "the client is served");
		backup_close(&backup);
	}
	for (i = 0; i < SILENT; i++)
		stranger_leave(&silent[i]);
}

/* A term that no other could exceed is refused without effect. */
static void test_far(void)
{
	struct backup backup;

	tap_is(open_backup(&backup, UINT64_MAX, false), -ESTALE, "the highest term there is: refused");
	tap_is(open_backup(&backup, 10 + HOLD_TERM_STEP + 1, false), -ESTALE,
	       "a term too far above the last: refused");
	tap_is(open_backup(&backup, 11, false), 0, "the next one: accepted");
	backup_close(&backup);
}

/*
 * A lost host sends nothing: here its queue pair is destroyed without a message.  The server must
 * notice although no request is in flight.
 */
static void test_lost(void)
{
	static struct stranger s;
	struct backup backup;
	uint64_t begun;
	int err;

	if (!stranger_connect(&s)) {
		tap_ok(false, "a holder: connected");
		return;
	}
	stranger_call(&s, 0);
	tap_ok(s.serving, "it is held");
	rdma_destroy_qp(s.verbs.id);
	lock_wait = 3 * VERBS_DEAD_S;
	begun = clock_now_ns();
	err = open_backup(&backup, 0, false);
	tap_is(err, 0, "its host is lost: another one gets the export");
	tap_ok(clock_now_ns() - begun < 2 * VERBS_DEAD_S * 1000000000ull, "in time");
	printf("# after %u ms\n", (unsigned int)((clock_now_ns() - begun) / 1000000));
	if (!err)
		backup_close(&backup);
	stranger_leave(&s);
}

int main(int argc, char **argv)
{
	uint8_t *data, *back;

	if (argc != 3 || !wire_address(argv[1], &address)) {
		fprintf(stderr, "usage: %s rdma://HOST[:PORT]/NAME KEYFILE\n", argv[0]);
		return 2;
	}
	path = argv[1];
	key_file = argv[2];
	log_setup(getenv("VERBOSE") ? LOG_PRI_INFO : -1);
	backup_register(&remote_backup_make);
	data = buffer();
	back = buffer();
	if (!data || !back || loop_open(&loop, 256))
		return 1;
	test_io(data, back);
	test_fence(data, back);
	test_receipts(data, back);
	test_hold(data, back);
	test_far();
	test_hostile();
	test_silent();
	test_lost();
	loop_close(&loop);
	return tap_end();
}
