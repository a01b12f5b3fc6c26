// SPDX-License-Identifier: GPL-2.0
/* The source of a move: see move.h. */
#include <stdio.h>
#include <string.h>

#include "lsmem.h"
#include "move.h"

#define SECOND_NS	1000000000ull
#define ROOM_KEPT	8u	/* messages other than BLOCK that a connection can need at once */

/* ---- The end of a connection --------------------------------------------- */

static void end(struct move_peer *peer, const char *why)
{
	if (peer->over)
		return;
	peer->over = true;
	peer->session.state = SESSION_OVER;
	peer->source->user->end(peer, why);
}

static void refuse(struct move_peer *peer, enum wire_reason reason)
{
	struct move_source *source = peer->source;

	if (peer->over)
		return;
	session_refuse(&peer->session, reason, source->store->term, source->host);
	source->user->send(peer, &peer->session.out);
	end(peer, wire_reason(reason));
}

static void set_phase(struct move_source *source, enum move_phase phase)
{
	source->phase = phase;
	source->since_ns = source->now_ns;
}

/* ---- Its beginning ------------------------------------------------------- */

static const struct secret *secret(void *source, const char *name)
{
	(void)name;
	return ((struct move_source *)source)->key;
}

/**
 * move_source_begin - begin to offer a store
 * @source: out, without connections
 * @user: callbacks; must stay as long as @source
 * @store: the store; must stay as long as @source
 * @key: the secret of moves; must stay as long as @source
 * @host: NULL: this host serves the store. Else it keeps the frozen memory for this host, which has taken it
 * @now_ns: as for move_source_tick()
 */
void move_source_begin(struct move_source *source, const struct move_source_user *user,
		       const struct move_store *store, const struct secret *key, const char *host,
		       uint64_t now_ns)
{
	memset(source, 0, sizeof(*source));
	source->user = user;
	source->store = store;
	source->key = key;
	source->now_ns = now_ns;
	if (host)
		memcpy(source->host, host, strnlen(host, WIRE_NAME - 1));
	set_phase(source, host ? MOVE_MOVED : MOVE_SERVES);
}

static bool is_stranger(const struct move_peer *peer)
{
	return !peer->over && peer->session.state < SESSION_ASKING;
}

/**
 * move_source_connect - a target has connected
 * @source: the source
 * @peer: out
 * @setup: queue pairs and nonce; versions and purpose are filled in here
 *
 * Return: false: there are too many connections; @peer is not used.
 */
bool move_source_connect(struct move_source *source, struct move_peer *peer,
			 const struct session_setup *setup)
{
	struct move_peer *other, *oldest = NULL;
	struct session_setup own = *setup;
	unsigned int nr = 0, strangers = 0;

	for (other = source->peers; other; other = other->next) {
		nr++;
		if (!is_stranger(other))
			continue;
		strangers++;
		oldest = other;
	}
	if (nr >= MOVE_TARGETS + MOVE_STRANGERS + MOVE_ENDING)
		return false;
	if (strangers >= MOVE_STRANGERS)
		end(oldest, "it said too little, and others wait");
	memset(peer, 0, sizeof(*peer));
	own.lowest = WIRE_VERSION_MOVE;
	own.highest = WIRE_VERSION_MAX;
	own.moves = true;
	session_begin(&peer->session, &own, secret, source);
	peer->source = source;
	peer->since_ns = source->now_ns;
	peer->next = source->peers;
	source->peers = peer;
	return true;
}

static void tell_store(struct move_peer *peer)
{
	const struct move_store *store = peer->source->store;
	union wire_message message = {
		.store = { .indices = htole64(store->indices), .seglets = htole32(store->seglets) },
	};

	memcpy(message.store.uuid, store->uuid, sizeof(message.store.uuid));
	session_say(&peer->session, WIRE_STORE, &message);
	peer->source->user->send(peer, &peer->session.out);
}

/* Return: whether the target is served now. */
static bool accept_target(struct move_peer *peer)
{
	struct move_source *source = peer->source;
	struct session_export offer = {
		.term = source->store->term, .slots = MOVE_SLOTS, .slot_bytes = AHEAD_BYTES,
	};

	if (source->user->slots(peer, &offer)) {
		refuse(peer, WIRE_REASON_BUSY);
		return false;
	}
	session_accept(&peer->session, &offer);
	source->user->send(peer, &peer->session.out);
	peer->since_ns = source->now_ns;
	peer->stream = (struct ahead_stream){
		.term = source->store->term, .sequence = 1,
		.indices = source->store->indices, .seglets = source->store->seglets,
		.cached = peer->session.version >= WIRE_VERSION_CACHED,
	};
	memcpy(peer->stream.uuid, source->store->uuid, sizeof(peer->stream.uuid));
	tell_store(peer);
	return true;
}

/* The target has proved the secret. */
static void ask(struct move_peer *peer)
{
	struct move_source *source = peer->source;
	bool gone = source->phase == MOVE_TOLD || source->phase == MOVE_MOVED;
	struct move_peer *other;
	unsigned int nr = 0;

	for (other = source->peers; other; other = other->next)
		nr += other != peer && !other->over && !is_stranger(other);
	if (strcmp(peer->session.hello.name, source->store->name) || source->phase == MOVE_CLOSED) {
		refuse(peer, WIRE_REASON_EXPORT);
	} else if (nr >= MOVE_TARGETS) {
		refuse(peer, WIRE_REASON_BUSY);
	} else if (session_term(&peer->session)) {
		peer->since_ns = source->now_ns;
		if (gone && session_term(&peer->session) > source->store->term)
			source->user->look(source);
		else
			refuse(peer, WIRE_REASON_TERM);
	} else if (source->phase != MOVE_SERVES) {
		refuse(peer, WIRE_REASON_HELD);
	} else {
		accept_target(peer);
	}
}

/* ---- READY --------------------------------------------------------------- */

/* Say READY: with consent, or to the owner, which needs only the keys. */
static bool tell_ready(struct move_peer *peer, bool consent)
{
	struct move_source *source = peer->source;
	union wire_message message = { .ready = { .term = htole64(source->store->term) } };
	struct wire_ready *ready = &message.ready;
	struct move_keys keys;

	if (source->user->keys(peer, &keys)) {
		end(peer, "no keys can be made");
		return false;
	}
	if (consent) {
		ready->revision = htole64(source->revision);
		ready->digest = htole64(source->digest);
		ready->last = htole64(peer->stream.sequence - 1);
		ready->objects = htole64(source->objects);
	}
	ready->seglets_address = htole64(keys.seglets.address);
	ready->seglets_bytes = htole64(keys.seglets.bytes);
	ready->seglets_key = htole32(keys.seglets.key);
	ready->table_address = htole64(keys.table.address);
	ready->table_bytes = htole64(keys.table.bytes);
	ready->table_key = htole32(keys.table.key);
	session_say(&peer->session, WIRE_READY, &message);
	source->user->send(peer, &peer->session.out);
	return true;
}

static void give_keys_again(struct move_peer *peer)
{
	if (!accept_target(peer))
		return;
	peer->source->chosen = peer;
	(void)tell_ready(peer, false);
}

/* ---- Blocks -------------------------------------------------------------- */

static bool gets_blocks(const struct move_peer *peer)
{
	const struct move_source *source = peer->source;

	return !peer->over && (source->phase == MOVE_SERVES ||
			       (source->phase == MOVE_STOPS && source->chosen == peer));
}

/**
 * move_source_more - there may be a block, or room for a message
 * @peer: in any state
 */
void move_source_more(struct move_peer *peer)
{
	struct move_source *source = peer->source;
	struct ahead_head *block;
	uint64_t number;
	uint32_t slot, length;
	int more = 1;

	while (gets_blocks(peer) && peer->nr_wanted && source->user->room(peer) > ROOM_KEPT) {
		slot = peer->wanted[0];
		block = (struct ahead_head *)(peer->memory + (size_t)slot * AHEAD_BYTES);
		more = source->user->block(peer, block);
		if (more <= 0)
			break;
		peer->marked |= block->kind == htole32(AHEAD_MARK);
		number = peer->stream.sequence;
		length = (uint32_t)ahead_seal(&peer->stream, block);
		peer->bytes += length;
		session_block(&peer->session, slot, length, number);
		source->user->send(peer, &peer->session.out);
		memmove(peer->wanted, peer->wanted + 1, --peer->nr_wanted);
	}
	if (more < 0)
		end(peer, "its next block cannot be made");
	else if (!more && source->phase == MOVE_STOPS && source->ready && tell_ready(peer, true))
		set_phase(source, MOVE_TOLD);
}

/**
 * move_source_ready - all that the store was is durable, closed and frozen
 * @source: in MOVE_STOPS
 * @revision: of the owner's key in etcd: cluster_consent()
 * @digest: sequence number of the newest digest; 0: the store is volatile
 * @objects: how many objects the store has: kernel_freeze()
 *
 * READY follows the last block.
 *
 * Return: false: the target has gone meanwhile, and @left was called.
 */
bool move_source_ready(struct move_source *source, uint64_t revision, uint64_t digest, uint64_t objects)
{
	if (source->phase != MOVE_STOPS || !source->chosen)
		return false;
	source->ready = true;
	source->revision = revision;
	source->digest = digest;
	source->objects = objects;
	move_source_more(source->chosen);
	return true;
}

/* ---- What a target says -------------------------------------------------- */

static void take_move(struct move_peer *peer, const struct wire_move *move)
{
	struct move_source *source = peer->source;
	struct move_peer *other;

	if (source->phase != MOVE_SERVES || !peer->marked || le64toh(move->term) != source->store->term ||
	    le64toh(move->last) >= peer->stream.sequence) {
		end(peer, "a MOVE out of turn");
		return;
	}
	source->chosen = peer;
	memcpy(source->host, peer->session.hello.who, sizeof(source->host));
	source->ready = false;
	set_phase(source, MOVE_STOPS);
	for (other = source->peers; other; other = other->next)
		if (other != peer && !is_stranger(other))
			refuse(other, WIRE_REASON_HELD);
	source->user->stop(source);
}

/* The connection ends, and the way back is that of one that was cut. The message is checked: printable, with an end. */
static void take_give_up(struct move_peer *peer, const struct wire_give_up *give_up)
{
	struct session *session = &peer->session;

	if (peer->taken || session_term(session)) {
		end(peer, "a message out of turn");
		return;
	}
	peer->error = -(int)le32toh(give_up->error);
	snprintf(session->said, sizeof(session->said), "it gives up: %s (%s)", give_up->cause, strerror(-peer->error));
	end(peer, session->said);
}

static void take(struct move_peer *peer, const union wire_message *message)
{
	const struct wire_move *move = &message->move;
	struct move_source *source = peer->source;
	bool told = peer == source->chosen && (source->phase == MOVE_TOLD || source->phase == MOVE_MOVED);
	uint64_t term = le64toh(move->term);

	switch (le16toh(move->head.type)) {
	case WIRE_MOVE:
		take_move(peer, move);
		return;
	case WIRE_TAKEN:
		if (!told || peer->taken || session_term(&peer->session) || term != source->store->term + 1)
			break;
		peer->taken = true;
		source->user->look(source);
		return;
	case WIRE_CLOSE:
		if (!told || peer->close_term || term <= source->store->term)
			break;
		peer->close_term = term;
		source->user->look(source);
		return;
	case WIRE_GIVE_UP:
		take_give_up(peer, &message->give_up);
		return;
	}
	end(peer, "a message out of turn");
}

/**
 * move_source_message - a target has sent a message
 * @peer: its connection
 * @message: unchecked, WIRE_BYTES of room
 * @length: bytes received
 */
void move_source_message(struct move_peer *peer, const union wire_message *message, size_t length)
{
	struct session *session = &peer->session;

	if (peer->over)
		return;
	switch (session_receive(session, message, length)) {
	case SESSION_SEND:
		peer->source->user->send(peer, &session->out);
		break;
	case SESSION_SEND_CLOSE:
		peer->source->user->send(peer, &session->out);
		end(peer, session->why);
		break;
	case SESSION_ASK:
		ask(peer);
		break;
	case SESSION_IO:
		peer->since_ns = peer->source->now_ns;
		peer->wanted[peer->nr_wanted++] = (uint8_t)session->io.slot;
		move_source_more(peer);
		break;
	case SESSION_MOVE:
		peer->since_ns = peer->source->now_ns;
		take(peer, message);
		break;
	default:
		end(peer, session->why);
		break;
	}
}

/* ---- What etcd says ------------------------------------------------------ */

/* The sender of CLOSE has the store: say so, and end. It does not say CLOSE again after the answer. */
static void let_go(struct move_source *source)
{
	union wire_message message = { .move = { .term = htole64(source->chosen->close_term) } };

	if (!source->user->let_go(source)) {
		end(source->chosen, "this host's next daemon would not know of its CLOSE");
		return;
	}
	session_say(&source->chosen->session, WIRE_CLOSE, &message);
	source->user->send(source->chosen, &source->chosen->session.out);
	(void)move_source_close(source);
}

/* The owner has lost its connection: the keys of that one go first. */
static void offer_again(struct move_peer *peer)
{
	struct move_source *source = peer->source;

	if (!source->chosen) {
		give_keys_again(peer);
		return;
	}
	if (source->heir && source->heir != peer)
		refuse(source->heir, WIRE_REASON_BUSY);
	source->heir = peer;
	end(source->chosen, "its target has connected again");
}

/**
 * move_source_owner - which host has the store, according to etcd
 * @source: in any phase
 * @host: that took the store's term; "": not known
 * @term: of the store
 */
void move_source_owner(struct move_source *source, const char *host, uint64_t term)
{
	struct move_peer *peer, *chosen = source->chosen, *next;
	bool ours = term > source->store->term && !strcmp(host, source->host);

	if (source->phase != MOVE_TOLD && source->phase != MOVE_MOVED)
		return;
	if (source->phase == MOVE_TOLD && term > source->store->term)
		set_phase(source, MOVE_MOVED);
	if (chosen && !chosen->over) {
		if (term > source->store->term && !ours)
			end(chosen, "another host has the store");
		else if (chosen->close_term && (!ours || chosen->close_term != term))
			end(chosen, "a CLOSE of a host that does not have the store");
		else if (chosen->close_term)
			let_go(source);
	}
	for (peer = source->peers; peer; peer = next) {
		next = peer->next;
		if (peer->over || peer->session.state != SESSION_ASKING || peer == source->heir)
			continue;
		if (ours && source->phase == MOVE_MOVED && session_term(&peer->session) == term &&
		    !strcmp(peer->session.hello.who, host))
			offer_again(peer);
		else
			refuse(peer, WIRE_REASON_TERM);
	}
}

/**
 * move_source_resume - the source is to serve clients again: its consent, if it gave one, is void in etcd
 * @source: in MOVE_STOPS or MOVE_TOLD, after @left
 *
 * Return: false: a connection may have keys (REVOKE_TO_RESUME), or there is nothing to resume; nothing was done.
 */
bool move_source_resume(struct move_source *source)
{
	if (source->chosen || (source->phase != MOVE_STOPS && source->phase != MOVE_TOLD))
		return false;
	source->host[0] = '\0';
	set_phase(source, MOVE_SERVES);
	return true;
}

/**
 * move_source_end - end all connections; the move goes on without one, as @left says
 * @source: in any phase
 * @why: for the log
 */
void move_source_end(struct move_source *source, const char *why)
{
	struct move_peer *peer;

	for (peer = source->peers; peer; peer = peer->next)
		end(peer, why);
}

/**
 * move_source_cancel - end the move, if it can be ended here: its targets are told so
 * @source: in any phase
 *
 * Before READY; then @left tells when clients can be served again, if they were stopped.
 *
 * Return: NULL: it ends; or why not: no target takes part, or the store may be another host's.
 */
const char *move_source_cancel(struct move_source *source)
{
	struct move_peer *peer;
	bool any = false;

	if (source->phase == MOVE_TOLD)
		return "READY was told: the other host may have the store, and takes it within seconds, or the move ends by itself";
	if (source->phase > MOVE_TOLD)
		return "another host has the store";
	for (peer = source->peers; peer; peer = peer->next) {
		if (peer->over || is_stranger(peer))
			continue;
		refuse(peer, WIRE_REASON_CANCELLED);
		any = true;
	}
	return any ? NULL : "no host moves the store";
}

/**
 * move_source_close - let the memory go
 * @source: in any phase
 *
 * All connections end. Also called for the CLOSE of the owner, or by the caller if a third host has the store.
 *
 * Return: true: no connection has keys, the memory can be freed; false: @left tells when.
 */
bool move_source_close(struct move_source *source)
{
	set_phase(source, MOVE_CLOSED);
	move_source_end(source, "the move is over");
	return !source->chosen;
}

/* ---- The loop ------------------------------------------------------------ */

/**
 * move_source_gone - the queue pair and the keys of a connection are destroyed
 * @peer: in any state; is not used any more
 */
void move_source_gone(struct move_peer *peer)
{
	struct move_source *source = peer->source;
	struct move_peer **at = &source->peers, *heir = source->heir;

	while (*at != peer)
		at = &(*at)->next;
	*at = peer->next;
	peer->over = true;
	if (heir == peer)
		source->heir = NULL;
	if (source->chosen != peer)
		return;
	source->chosen = NULL;
	source->heir = NULL;
	if (heir && !heir->over && source->phase == MOVE_MOVED)
		give_keys_again(heir);
	else
		source->user->left(source);
}

static unsigned int patience(const struct move_peer *peer)
{
	if (peer->session.state < SESSION_ASKING)
		return MOVE_PROOF_S;
	if (peer->session.state == SESSION_ASKING)
		return MOVE_ASK_S;
	/* With a READ it waits for the source; after MOVE there are other bounds. */
	return peer->nr_wanted || peer->source->phase != MOVE_SERVES ? 0 : MOVE_IDLE_S;
}

/**
 * move_source_tick - end what takes too long
 * @source: the source
 * @now_ns: of a clock that only rises
 *
 * Context: call it once a second.
 */
void move_source_tick(struct move_source *source, uint64_t now_ns)
{
	uint64_t age = now_ns - source->since_ns;
	struct move_peer *peer;

	source->now_ns = now_ns;
	for (peer = source->peers; peer; peer = peer->next)
		if (!peer->over && patience(peer) && now_ns - peer->since_ns > patience(peer) * SECOND_NS)
			end(peer, "it said too little for too long");
	if (!source->chosen)
		return;
	if (source->phase == MOVE_STOPS && age > MOVE_READY_S * SECOND_NS)
		end(source->chosen, "its move takes too long");
	else if (source->phase == MOVE_TOLD && age > MOVE_TAKEN_S * SECOND_NS)
		end(source->chosen, "it has not taken the store in time");
}
