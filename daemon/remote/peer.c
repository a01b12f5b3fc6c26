// SPDX-License-Identifier: GPL-2.0
/*
 * A connection to the server of backups: see server.h. Its life:
 *
 *	talking	  the client has not proved the secret yet; ends after PROOF_S
 *	waiting	  the client fences; waits until the former holder is gone
 *	serving	  the client has slots and sends requests
 *	cut	  queue pair and keys are destroyed; requests to the drive go on
 *	gone	  no request is left; the hold goes to the next client
 *
 * Invariant 17 depends on the order in peer_end() and peer_gone(): destroy the queue pair, destroy
 * the keys, wait for the requests to the drive, then pass on the hold.
 */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lsmem_format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include "server.h"

#define PROOF_S		5u
#define LAST_WORD_MS	100u

static struct peer *from_verbs(struct verbs *verbs)
{
	return (struct peer *)((char *)verbs - offsetof(struct peer, verbs));
}

static void send_out(struct peer *peer)
{
	verbs_send(&peer->verbs, &peer->session.out, 0);
}

static void refuse(struct peer *peer, enum wire_reason reason, const struct export *export)
{
	session_refuse(&peer->session, reason, export ? export->hold.term : 0,
		       export ? export->who : NULL);
	send_out(peer);
	peer->closing = true;
}

/* ---- The hold ----------------------------------------------------------- */

static bool make_slots(struct peer *peer, uint32_t slot_bytes)
{
	size_t bytes = (size_t)WIRE_SLOTS * slot_bytes;

	peer->memory = memory_get(bytes);
	if (!peer->memory)
		return false;
	/* The client can read the slots: clear them of other clients' data. */
	memset(peer->memory, 0, bytes);
	peer->mr = ibv_reg_mr(peer->verbs.pd, peer->memory, bytes,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			      IBV_ACCESS_REMOTE_READ);
	return peer->mr;
}

/* Accept the client: it has the hold, or only reads. */
static void grant(struct peer *peer)
{
	struct export *export = peer->export;
	const struct backup_limits *limits = &export->backup.limits;
	bool reader = session_read_only(&peer->session);
	bool later = peer->memory;	/* it was a reader until now */
	struct session_export offer = {
		.bytes = limits->bytes,
		.term = export->hold.term,
		.slots = WIRE_SLOTS,
		.slot_bytes = limits->io_bytes < SERVER_SLOT_BYTES ? limits->io_bytes :
			      SERVER_SLOT_BYTES,
		.logical = limits->logical,
		.physical = limits->physical,
		.flags = (limits->volatile_cache ? WIRE_VOLATILE : 0) |
			 (reader && export->hold.holder ? WIRE_HELD : 0),
	};

	if (!later && !make_slots(peer, offer.slot_bytes)) {
		log_err("%s: no memory for %s", export->options->name, peer->address);
		refuse(peer, WIRE_REASON_BUSY, NULL);
		return;
	}
	offer.address = (uintptr_t)peer->memory;
	offer.key = peer->mr->rkey;
	if (!reader)
		memcpy(export->who, peer->session.hello.who, sizeof(export->who));
	if (later)
		session_grant(&peer->session, export->hold.term);
	else
		session_accept(&peer->session, &offer);
	send_out(peer);
	log_notice("%s: %s by %s at %s, term %" PRIu64 ", version %u of the protocol",
		   export->options->name, reader ? "read" : "held", peer->session.hello.who,
		   peer->address, export->hold.term, peer->session.version);
}

/*
 * End the old holder: send REFUSE, wait for at most LAST_WORD_MS until it has arrived, and cut the
 * connection. The server takes no request of the old holder any more.
 */
static void fence(struct peer *old, struct peer *new)
{
	uint64_t end = clock_now_ns() + LAST_WORD_MS * 1000000ull;
	struct pollfd pollfd = { .events = POLLIN };

	if (old->cut)
		return;
	log_notice("%s: taken from %s at %s by %s at %s with term %" PRIu64,
		   old->export->options->name, old->session.hello.who, old->address,
		   new->session.hello.who, new->address, old->export->hold.term);
	memcpy(old->export->who, new->session.hello.who, sizeof(old->export->who));
	refuse(old, WIRE_REASON_FENCED, old->export);
	pollfd.fd = old->verbs.channel->fd;
	while (!old->cut && clock_now_ns() < end) {
		(void)poll(&pollfd, 1, LAST_WORD_MS / 10);
		verbs_poll(&old->verbs);
	}
	peer_end(old, "fenced");
}

static void ask(struct peer *peer)
{
	struct server *server = peer->server;
	struct export *export = NULL;
	void *loser;
	unsigned int i;

	for (i = 0; i < server->nr_exports; i++)
		if (!strcmp(server->exports[i].options->name, peer->session.hello.name))
			export = &server->exports[i];
	if (!export) {
		log_warn("%s: %s at %s asks for it, and there is no such export",
			 peer->session.hello.name, peer->session.hello.who, peer->address);
		refuse(peer, WIRE_REASON_EXPORT, NULL);
		return;
	}
	peer->export = export;
	if (session_read_only(&peer->session)) {
		grant(peer);
		return;
	}
	switch (hold_ask(&export->hold, peer, session_term(&peer->session), &loser)) {
	case HOLD_GRANTED:
		grant(peer);
		break;
	case HOLD_HELD:
		refuse(peer, WIRE_REASON_HELD, export);
		break;
	case HOLD_STALE:
		log_warn("%s: refused to %s at %s: term %" PRIu64 ", %s has had %" PRIu64,
			 export->options->name, peer->session.hello.who, peer->address,
			 session_term(&peer->session), export->who, export->hold.term);
		refuse(peer, WIRE_REASON_TERM, export);
		break;
	case HOLD_FAR:
		log_warn("%s: refused to %s at %s: term %" PRIu64 " is too far above %" PRIu64,
			 export->options->name, peer->session.hello.who, peer->address,
			 session_term(&peer->session), export->hold.term);
		refuse(peer, WIRE_REASON_FAR, export);
		break;
	case HOLD_FENCING:
		if (loser)
			refuse(loser, WIRE_REASON_TERM, export);
		fence(export->hold.holder, peer);
		break;
	}
}

/* ---- Its end ------------------------------------------------------------ */

static void peer_gone(struct peer *peer)
{
	struct peer *next;

	peer->gone = true;
	memory_put(peer->memory);
	peer->memory = NULL;
	if (!peer->export)
		return;
	next = hold_left(&peer->export->hold, peer);
	if (next)
		grant(next);
}

/**
 * peer_end - cut a connection
 * @peer: in any state; nothing happens if it is cut
 * @why: a text for the log
 *
 * peer_free() frees it when its requests have ended.
 */
void peer_end(struct peer *peer, const char *why)
{
	if (peer->cut)
		return;
	peer->cut = true;
	if (peer->closing)
		log_debug("%s: %s", peer->address, why);
	else if (!peer->memory)
		log_warn("%s: turned away: %s", peer->address, why);
	else
		log_notice("%s: %s at %s has gone: %s", peer->export->options->name,
			   peer->session.hello.who, peer->address, why);
	verbs_cut(&peer->verbs);
	if (peer->mr)
		ibv_dereg_mr(peer->mr);
	peer->mr = NULL;
	peer->session.state = SESSION_OVER;
	if (!peer->in_flight)
		peer_gone(peer);
}

static void peer_broken(struct verbs *verbs, int error, const char *why)
{
	(void)error;
	peer_end(from_verbs(verbs), why);
}

/* ---- Requests ----------------------------------------------------------- */

/* Send RECEIVED and DONE messages, as many as there is room for. */
static void answer(struct peer *peer)
{
	uint32_t nr;

	for (nr = 0; nr < WIRE_SLOTS && verbs_room(&peer->verbs); nr++) {
		struct peer_slot *slot = &peer->slots[nr];

		if (peer->session.state != SESSION_SERVING)
			return;
		if (slot->receipt && session_received(&peer->session, nr))
			send_out(peer);
		slot->receipt = false;
		if (!slot->answer || !verbs_room(&peer->verbs))
			continue;
		slot->answer = false;
		session_done(&peer->session, nr, slot->error);
		send_out(peer);
	}
}

static bool overlap(const struct peer_slot *a, const struct peer_slot *b)
{
	return a->io.offset < b->io.offset + b->io.length &&
	       b->io.offset < a->io.offset + a->io.length;
}

/* Must a write wait for an older write of the same blocks? */
static bool is_behind(const struct peer_slot *slot)
{
	uint32_t nr;

	for (nr = 0; nr < WIRE_SLOTS; nr++) {
		const struct peer_slot *other = &slot->peer->slots[nr];

		if (other->busy && other->io.what == BACKUP_WRITE && !other->instead &&
		    other->turn < slot->turn && overlap(other, slot))
			return true;
	}
	return false;
}

/*
 * Keep writes of the same blocks in the order in which they came: a client that has got RECEIVED
 * writes the tail block of its log again. If a younger write covers all blocks of a write that
 * still waits, the older one is not submitted and ends with the younger one.
 */
static void line_up(struct peer_slot *slot)
{
	uint32_t nr;

	slot->turn = slot->peer->turns++;
	for (nr = 0; nr < WIRE_SLOTS; nr++) {
		struct peer_slot *other = &slot->peer->slots[nr];

		if (!other->waits || other->io.offset < slot->io.offset ||
		    other->io.offset + other->io.length > slot->io.offset + slot->io.length)
			continue;
		other->waits = false;
		other->instead = slot;
		slot->io.durable |= other->io.durable;
	}
	slot->waits = is_behind(slot);
}

static void slot_done(struct peer_slot *slot, int error)
{
	struct peer *peer = slot->peer;
	uint32_t nr;

	slot->busy = false;
	slot->error = error;
	slot->answer = true;
	peer->in_flight--;
	for (nr = 0; nr < WIRE_SLOTS; nr++)
		if (peer->slots[nr].busy && peer->slots[nr].instead == slot)
			slot_done(&peer->slots[nr], error);
}

/*
 * Submit the writes that waited for this request, even if the peer is cut: the client may have
 * RECEIVED for them.
 */
static void io_done(struct backup_io *io, int error)
{
	struct peer_slot *slot = (struct peer_slot *)io;
	struct peer *peer = slot->peer;
	uint32_t nr;

	if (error)
		log_err("%s: %s of %" PRIu32 " bytes at %" PRIu64 " failed: %s",
			peer->export->backup.path, io->what == BACKUP_READ ? "read" :
			io->what == BACKUP_WRITE ? "write" : "flush", io->length, io->offset,
			strerror(-error));
	slot_done(slot, error);
	for (nr = 0; nr < WIRE_SLOTS; nr++) {
		slot = &peer->slots[nr];
		if (!slot->waits || is_behind(slot))
			continue;
		slot->waits = false;
		backup_submit(&slot->io, &peer->export->backup);
	}
	if (!peer->cut)
		answer(peer);
	else if (!peer->in_flight)
		peer_gone(peer);
}

static void start_io(struct peer *peer, const struct session_io *want)
{
	struct peer_slot *slot = &peer->slots[want->slot];

	memset(slot, 0, sizeof(*slot));
	slot->peer = peer;
	slot->iov.iov_base = peer->memory +
			     (size_t)want->slot * le32toh(peer->session.accept.slot_bytes);
	slot->iov.iov_len = want->length;
	slot->io.what = want->type == WIRE_READ ? BACKUP_READ :
			want->type == WIRE_FLUSH ? BACKUP_FLUSH : BACKUP_WRITE;
	slot->io.durable = want->type == WIRE_WRITE_DURABLE;
	slot->io.offset = want->offset;
	slot->io.length = want->length;
	slot->io.iov = &slot->iov;
	slot->io.nr_iov = 1;
	slot->io.done = io_done;
	slot->busy = true;
	peer->in_flight++;
	if (slot->io.what == BACKUP_WRITE)
		line_up(slot);
	if (!slot->waits)
		backup_submit(&slot->io, &peer->export->backup);
	slot->receipt = slot->io.what == BACKUP_WRITE;
	answer(peer);
}

static void peer_message(struct verbs *verbs, const union wire_message *message, size_t length)
{
	struct peer *peer = from_verbs(verbs);
	struct session *session = &peer->session;

	if (peer->closing)
		return;
	switch (session_receive(session, message, length)) {
	case SESSION_SEND:
		send_out(peer);
		break;
	case SESSION_SEND_CLOSE:
		log_warn("%s: turned away: %s", peer->address, session->why);
		send_out(peer);
		peer->closing = true;
		break;
	case SESSION_ASK:
		ask(peer);
		break;
	case SESSION_IO:
		start_io(peer, &session->io);
		break;
	default:
		verbs_break(verbs, -EPROTO, session->why);
		break;
	}
}

static void peer_sent(struct verbs *verbs, uint32_t tag)
{
	struct peer *peer = from_verbs(verbs);

	(void)tag;
	if (!peer->closing)
		answer(peer);
	else if (verbs_room(verbs) == VERBS_SENDS)
		verbs_break(verbs, -ECONNRESET, "refused");
}

static void peer_read(struct verbs *verbs, uint32_t tag)
{
	(void)verbs;
	(void)tag;
}

static const struct verbs_user peer_user = {
	.message = peer_message,
	.sent = peer_sent,
	.read = peer_read,
	.broken = peer_broken,
};

/* ---- Its beginning ------------------------------------------------------ */

static void name_address(struct peer *peer, struct rdma_cm_id *id)
{
	char host[48] = "?", port[8] = "?";

	(void)getnameinfo(rdma_get_peer_addr(id), sizeof(struct sockaddr_storage), host,
			  sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(peer->address, sizeof(peer->address), "%s port %s", host, port);
}

static void copy_address(struct sockaddr_storage *to, const struct sockaddr *from)
{
	memcpy(to, from, from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
	       sizeof(struct sockaddr_in));
}

/* An IPv6 host chooses the lower 64 bits of its address: compare the network only. */
static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct in6_addr *a6 = &((const struct sockaddr_in6 *)a)->sin6_addr;
	const struct in6_addr *b6 = &((const struct sockaddr_in6 *)b)->sin6_addr;

	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET6)
		return !memcmp(a6, b6, IN6_IS_ADDR_V4MAPPED(a6) || IN6_IS_ADDR_LINKLOCAL(a6) ?
			       16 : 8);
	return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
	       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
}

/* Has the client not proved the secret yet? */
static bool is_stranger(const struct peer *peer)
{
	return !peer->cut && peer->session.state < SESSION_ASKING;
}

/*
 * Make room for one more connection from @from. If there are too many connections, end the oldest
 * one whose client has not proved a secret: a proof takes milliseconds. So silent connections,
 * from any address, do not keep other clients out. Connections with a proof are never ended here.
 *
 * Return: NULL, or why there is no room.
 */
static const char *make_room(struct server *server, const struct sockaddr_storage *from)
{
	struct peer *peer, *oldest = NULL, *oldest_here = NULL;
	unsigned int strangers = 0, strangers_here = 0, peers = 0, here = 0;

	for (peer = server->peers; peer; peer = peer->next) {
		bool local = same_host(&peer->from, from);

		peers += !peer->cut;
		here += !peer->cut && local;
		if (!is_stranger(peer))
			continue;
		/* The list begins with the youngest: the last match is the oldest. */
		strangers++;
		oldest = peer;
		strangers_here += local;
		oldest_here = local ? peer : oldest_here;
	}
	if (server->nr_peers >= SERVER_PEERS + SERVER_ENDING)
		return "too many connections are ending";
	if (strangers_here >= SERVER_STRANGERS_HOST || (here >= SERVER_PEERS_HOST && oldest_here))
		oldest = oldest_here;
	else if (here >= SERVER_PEERS_HOST)
		return "too many connections from this address";
	else if (strangers < SERVER_STRANGERS && peers < SERVER_PEERS)
		return NULL;
	if (!oldest)
		return "too many connections";
	peer_end(oldest, "it said too little, and others wait");
	return NULL;
}

static int begin_session(struct peer *peer)
{
	struct session_setup setup = {
		.lowest = peer->server->options->wire_min, .highest = peer->server->options->wire_max,
	};
	int err;

	err = verbs_qps(&peer->verbs, &setup.link.server_qp, &setup.link.client_qp);
	if (!err)
		err = secret_random(setup.nonce, sizeof(setup.nonce));
	if (!err)
		session_begin(&peer->session, &setup, server_secret, peer->server);
	return err;
}

/**
 * peer_new - accept or reject a connection
 * @server: the server
 * @id: of the connection; this function or peer_free() destroys it
 */
void peer_new(struct server *server, struct rdma_cm_id *id)
{
	struct rdma_conn_param params;
	struct sockaddr_storage from = { 0 };
	struct peer *peer;
	const char *why;
	int err;

	copy_address(&from, rdma_get_peer_addr(id));
	why = make_room(server, &from);
	peer = why ? NULL : calloc(1, sizeof(*peer));
	if (!peer) {
		log_warn("a connection is turned away: %s", why ? why : strerror(ENOMEM));
		(void)rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return;
	}
	name_address(peer, id);
	peer->from = from;
	id->context = peer;
	peer->server = server;
	peer->since_ns = clock_now_ns();
	err = verbs_open(&peer->verbs, id, &peer_user);
	if (!err) {
		verbs_params(&peer->verbs, &params);
		err = rdma_accept(id, &params) ? -errno : 0;
	}
	if (!err)
		err = begin_session(peer);
	if (err) {
		log_err("%s: cannot be accepted: %s", peer->address, strerror(-err));
		peer->verbs.id = id;
		verbs_close(&peer->verbs);
		free(peer);
		return;
	}
	verbs_poll_in(&peer->verbs, server->loop);
	peer->next = server->peers;
	server->peers = peer;
	server->nr_peers++;
}

/**
 * peer_tick - end a connection that is silent or whose client is gone
 * @peer: the connection
 *
 * Context: call it once a second.
 */
void peer_tick(struct peer *peer)
{
	uint64_t age = clock_now_ns() - peer->since_ns;

	if (peer->cut)
		return;
	if ((peer->session.state < SESSION_ASKING && age > PROOF_S * 1000000000ull) ||
	    (peer->closing && age > 2 * PROOF_S * 1000000000ull))
		peer_end(peer, "it said too little for too long");
	else if (peer->session.state == SESSION_SERVING)
		verbs_tick(&peer->verbs);
}

/**
 * peer_free - free a connection
 * @peer: in any state
 *
 * Return: false if it is not gone, or its poll is still in the loop; @peer stays.
 */
bool peer_free(struct peer *peer)
{
	if (!peer->gone || peer->verbs.polling)
		return false;
	verbs_close(&peer->verbs);
	explicit_bzero(&peer->session, sizeof(peer->session));
	free(peer);
	return true;
}
