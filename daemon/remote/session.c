// SPDX-License-Identifier: GPL-2.0
/* The protocol of wire.h as two state machines: see session.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <lsmem_format.h>

#include "session.h"

static enum session_do close_session(struct session *session, const char *why)
{
	session->state = SESSION_OVER;
	session->why = why;
	return SESSION_CLOSE;
}

static const char *say_versions(struct session *session, unsigned int lowest,
				unsigned int highest)
{
	snprintf(session->said, sizeof(session->said),
		 "no version of the protocol in common: the other side speaks %u to %u, this one %u to %u; upgrade the older one",
		 lowest, highest, session->setup.lowest, session->setup.highest);
	return session->said;
}

/* The highest version that both sides speak; 0: none. */
static unsigned int common_version(const struct session *session, unsigned int lowest,
				   unsigned int highest)
{
	unsigned int version = highest < session->setup.highest ? highest :
			       session->setup.highest;

	return version >= lowest && version >= session->setup.lowest ? version : 0;
}

/* Begin a message in @out. */
static void begin_out(struct session *session, enum wire_type type)
{
	memset(&session->out, 0, sizeof(session->out));
	wire_seal(&session->out, type, session->version);
}

/* Complete the message in @out: messages after ACCEPT get a tag. */
static void end_out(struct session *session)
{
	if (session->tag)
		wire_tag(&session->to_peer, &session->out, le32toh(session->out.head.length));
}

/* Return: NULL, or what is wrong with @message. */
static const char *check(struct session *session, const union wire_message *message,
			 size_t length)
{
	if (session->tag && !wire_tagged(&session->from_peer, message, length))
		return "a message that the other side did not say, or not now";
	return wire_check(message, length, session->version, session->tag);
}

/* After ACCEPT: each message has a tag from now on. */
static void begin_tags(struct session *session, bool server)
{
	if (session->version < WIRE_VERSION_TAGS)
		return;
	wire_directions(session->key, &session->setup.link, &session->hello, &session->challenge,
			server ? &session->from_peer : &session->to_peer,
			server ? &session->to_peer : &session->from_peer);
	session->tag = WIRE_TAG;
}

/**
 * session_say - make a message of a move
 * @session: in state SESSION_SERVING
 * @type: of the message
 * @message: its fields
 *
 * The caller sends @session->out.
 */
void session_say(struct session *session, enum wire_type type, const union wire_message *message)
{
	session->out = *message;
	wire_seal(&session->out, type, session->version);
	end_out(session);
}

static bool is_write(enum wire_type type)
{
	return type == WIRE_WRITE || type == WIRE_WRITE_DURABLE;
}

/* ---- The server's side ------------------------------------------------- */

/**
 * session_begin - begin the server's side: a client has connected
 * @session: out
 * @setup: of the server; is copied
 * @secret: returns the secret of an export, see struct session
 * @arg: first argument of @secret
 */
void session_begin(struct session *session, const struct session_setup *setup,
		   const struct secret *(*secret)(void *arg, const char *name), void *arg)
{
	memset(session, 0, sizeof(*session));
	session->setup = *setup;
	session->secret = secret;
	session->secret_arg = arg;
}

static enum session_do refuse(struct session *session, enum wire_reason reason)
{
	session->why = wire_reason(reason);
	session_refuse(session, reason, 0, NULL);
	return SESSION_SEND_CLOSE;
}

static enum session_do take_hello(struct session *session, const struct wire_hello *hello)
{
	struct wire_challenge *challenge = &session->out.challenge;
	unsigned int highest = le16toh(hello->head.version);
	/* Only the head of a HELLO below WIRE_VERSION_MIN has a known layout. */
	unsigned int lowest = highest < WIRE_VERSION_MIN ? highest : le16toh(hello->lowest);
	unsigned int version = common_version(session, lowest, highest);
	enum session_do todo;

	if (!version) {
		todo = refuse(session, WIRE_REASON_VERSION);
		session->why = say_versions(session, lowest, highest);
		return todo;
	}
	session->version = version;
	session->hello = *hello;
	if (session_moves(session) != session->setup.moves)
		return refuse(session, WIRE_REASON_PURPOSE);
	session->key = session->secret(session->secret_arg, hello->name);
	begin_out(session, WIRE_CHALLENGE);
	challenge->lowest = htole16(session->setup.lowest);
	challenge->highest = htole16(session->setup.highest);
	challenge->features = hello->features & htole64(WIRE_FEATURES);
	memcpy(challenge->nonce, session->setup.nonce, WIRE_NONCE);
	session->challenge = *challenge;
	session->state = SESSION_PROOF;
	return SESSION_SEND;
}

static enum session_do take_request(struct session *session, const union wire_message *message)
{
	const struct wire_request *request = &message->request;
	enum wire_type type = le16toh(request->head.type);
	uint32_t slot = le32toh(request->slot), length = le32toh(request->length);
	uint64_t offset = le64toh(request->offset), bytes = le64toh(session->accept.bytes);

	if (slot >= le32toh(session->accept.slots))
		return close_session(session, "a request for a slot that is not there");
	if (session->busy[slot])
		return close_session(session, "a request for a slot that has one");
	if (is_write(type) && session_read_only(session))
		return close_session(session, "a write from a client that asked for reading only");
	if (type == WIRE_FLUSH || session_moves(session) ? length || offset :
	    !length || length > le32toh(session->accept.slot_bytes) ||
	    (length | offset) % LSMEM_BLOCK || offset > bytes || length > bytes - offset)
		return close_session(session, "a request outside its bounds");
	session->busy[slot] = type;
	session->received[slot] = false;
	session->in_use++;
	session->io = (struct session_io) {
		.type = type, .slot = slot, .length = length, .offset = offset,
	};
	return SESSION_IO;
}

/* A reader wants the hold. It has no request in flight: no answer of those could be of what it reads as the holder. */
static enum session_do take_hold(struct session *session, const struct wire_hold *hold)
{
	if (!session_read_only(session) || session->in_use)
		return close_session(session, "a message out of turn");
	session->hello.flags = hold->flags;
	session->hello.term = hold->term;
	session->state = SESSION_ASKING;
	return SESSION_ASK;
}

/* A message from the target of a move. */
static enum session_do take_from_target(struct session *session, const union wire_message *message)
{
	switch (le16toh(message->head.type)) {
	case WIRE_READ:
		return take_request(session, message);
	case WIRE_MOVE:
	case WIRE_TAKEN:
	case WIRE_CLOSE:
	case WIRE_GIVE_UP:
		return SESSION_MOVE;
	default:
		return close_session(session, "a message out of turn");
	}
}

/**
 * session_receive - handle a message from the client
 * @session: the server's side
 * @message: unchecked, WIRE_BYTES of room
 * @length: bytes received
 *
 * Return: SESSION_SEND, SESSION_SEND_CLOSE, SESSION_ASK, SESSION_IO, SESSION_MOVE or SESSION_CLOSE: what
 * the caller must do.
 */
enum session_do session_receive(struct session *session, const union wire_message *message,
				size_t length)
{
	uint8_t mac[WIRE_MAC];
	const char *why = check(session, message, length);
	enum wire_type type;

	if (why)
		return close_session(session, why);
	type = le16toh(message->head.type);
	switch (session->state) {
	case SESSION_HELLO:
		if (type != WIRE_HELLO)
			break;
		return take_hello(session, &message->hello);
	case SESSION_PROOF:
		if (type != WIRE_PROOF)
			break;
		wire_prove_client(session->key, &session->setup.link, &session->hello,
				  &session->challenge, mac);
		if (!wire_equal(mac, message->proof.mac))
			return refuse(session, WIRE_REASON_PROOF);
		session->state = SESSION_ASKING;
		return SESSION_ASK;
	case SESSION_SERVING:
		if (session_moves(session))
			return take_from_target(session, message);
		if (type == WIRE_HOLD)
			return take_hold(session, &message->hold);
		if (type != WIRE_READ && !is_write(type) && type != WIRE_FLUSH)
			break;
		return take_request(session, message);
	default:
		break;
	}
	return close_session(session, "a message out of turn");
}

/**
 * session_accept - grant the export to the client
 * @session: in state SESSION_ASKING
 * @export: the export and the slots
 *
 * The caller sends @session->out.
 */
void session_accept(struct session *session, const struct session_export *export)
{
	struct wire_accept *accept = &session->out.accept;

	begin_out(session, WIRE_ACCEPT);
	accept->flags = htole32(export->flags);
	accept->slots = htole32(export->slots);
	accept->slot_bytes = htole32(export->slot_bytes);
	accept->key = htole32(export->key);
	accept->address = htole64(export->address);
	accept->bytes = htole64(export->bytes);
	accept->logical = htole32(export->logical);
	accept->physical = htole32(export->physical);
	accept->term = htole64(export->term);
	wire_prove_server(session->key, &session->setup.link, &session->hello,
			  &session->challenge, accept, accept->mac);
	session->accept = *accept;
	begin_tags(session, true);
	session->state = SESSION_SERVING;
}

/**
 * session_grant - grant the hold to a reader
 * @session: in state SESSION_ASKING, because of a HOLD
 * @term: the highest that a client has asked for; 0: none
 *
 * The caller sends @session->out.
 */
void session_grant(struct session *session, uint64_t term)
{
	begin_out(session, WIRE_GRANTED);
	session->out.hold.term = htole64(term);
	end_out(session);
	session->state = SESSION_SERVING;
}

/**
 * session_refuse - refuse the client, or end the session of a fenced client
 * @session: in any state
 * @reason: the reason that REFUSE states
 * @term: of the hold; 0: not part of the reason
 * @who: name of the client that has the hold; NULL: not part of the reason
 *
 * The caller sends @session->out, then closes the connection.
 */
void session_refuse(struct session *session, enum wire_reason reason, uint64_t term,
		    const char *who)
{
	struct wire_refuse *refuse = &session->out.refuse;

	begin_out(session, WIRE_REFUSE);
	if (!session->version)
		refuse->head.version = htole16(session->setup.highest);
	refuse->reason = htole32(reason);
	refuse->lowest = htole16(session->setup.lowest);
	refuse->highest = htole16(session->setup.highest);
	refuse->term = htole64(term);
	if (who)
		memcpy(refuse->who, who, strnlen(who, WIRE_NAME - 1));
	end_out(session);
	session->state = SESSION_OVER;
}

/* Make a DONE or RECEIVED in @out. */
static void say_done(struct session *session, enum wire_type type, uint32_t slot, int error)
{
	struct wire_done *done = &session->out.done;

	begin_out(session, type);
	done->slot = htole32(slot);
	done->error = htole32((uint32_t)-error);
	end_out(session);
}

/**
 * session_received - tell the client that the server has the bytes of a write
 * @session: in state SESSION_SERVING
 * @slot: of a request without a DONE; the server writes its bytes even if the client disconnects
 *
 * Return: true: the caller sends @session->out; false: the request is no write, the client asked
 * for no receipts, or it has had this one.
 */
bool session_received(struct session *session, uint32_t slot)
{
	if (!(le32toh(session->hello.flags) & WIRE_RECEIPTS) || session->received[slot] ||
	    !is_write(session->busy[slot]))
		return false;
	session->received[slot] = true;
	say_done(session, WIRE_RECEIVED, slot, 0);
	return true;
}

/**
 * session_done - answer a request
 * @session: in state SESSION_SERVING
 * @slot: of the request
 * @error: 0 or a negative errno
 *
 * The caller sends @session->out.
 */
void session_done(struct session *session, uint32_t slot, int error)
{
	say_done(session, WIRE_DONE, slot, error);
	session->busy[slot] = 0;
	session->in_use--;
}

/**
 * session_block - answer a READ of a move
 * @session: in state SESSION_SERVING
 * @slot: of the request
 * @length: bytes of the block that is in the slot
 * @sequence: its number
 *
 * The caller sends @session->out.
 */
void session_block(struct session *session, uint32_t slot, uint32_t length, uint64_t sequence)
{
	union wire_message message = {
		.block = { .slot = htole32(slot), .length = htole32(length), .sequence = htole64(sequence) },
	};

	session_say(session, WIRE_BLOCK, &message);
	session->busy[slot] = 0;
	session->in_use--;
}

/* ---- The client's side ------------------------------------------------- */

/**
 * session_call - begin the client's side with HELLO
 * @session: out
 * @setup: of the client; is copied
 * @key: the secret; must stay as long as @session is used
 * @name: of the export, shorter than WIRE_NAME
 * @who: name of this client, shorter than WIRE_NAME
 * @term: fences a holder with a lower term; 0: fences none
 * @flags: WIRE_READ_ONLY and WIRE_RECEIPTS, or WIRE_MOVES, with @setup->lowest not below WIRE_VERSION_MOVE
 *
 * The caller sends @session->out.
 */
void session_call(struct session *session, const struct session_setup *setup,
		  const struct secret *key, const char *name, const char *who,
		  uint64_t term, uint32_t flags)
{
	struct wire_hello *hello = &session->out.hello;

	memset(session, 0, sizeof(*session));
	session->setup = *setup;
	session->key = key;
	begin_out(session, WIRE_HELLO);
	hello->head.version = htole16(setup->highest);
	hello->lowest = htole16(setup->lowest);
	hello->features = htole64(WIRE_FEATURES);
	hello->flags = htole32(flags);
	hello->term = htole64(term);
	memcpy(hello->nonce, setup->nonce, WIRE_NONCE);
	memcpy(hello->name, name, strnlen(name, WIRE_NAME - 1));
	memcpy(hello->who, who, strnlen(who, WIRE_NAME - 1));
	session->hello = *hello;
}

static enum session_do take_challenge(struct session *session,
				      const struct wire_challenge *challenge)
{
	unsigned int lowest = le16toh(challenge->lowest), highest = le16toh(challenge->highest);

	/* The proof covers both ranges: a third party cannot force an older version. */
	if (!common_version(session, lowest, highest) ||
	    le16toh(challenge->head.version) != common_version(session, lowest, highest))
		return close_session(session, say_versions(session, lowest, highest));
	if (le32toh(session->hello.flags) & WIRE_RECEIPTS &&
	    !(le64toh(challenge->features) & WIRE_FEATURE_RECEIPTS))
		return close_session(session,
				     "the server gives no receipts, which \"ack = memory\" needs; upgrade it");
	session->version = le16toh(challenge->head.version);
	session->challenge = *challenge;
	begin_out(session, WIRE_PROOF);
	wire_prove_client(session->key, &session->setup.link, &session->hello,
			  &session->challenge, session->out.proof.mac);
	session->state = SESSION_PROOF;
	return SESSION_SEND;
}

static enum session_do take_refuse(struct session *session, const struct wire_refuse *refuse)
{
	unsigned int version = le16toh(refuse->head.version);

	/* Only the head of a REFUSE below WIRE_VERSION_MIN has a known layout. */
	if (version < WIRE_VERSION_MIN) {
		session->refused.reason = htole32(WIRE_REASON_VERSION);
		return close_session(session, say_versions(session, version, version));
	}
	session->refused = *refuse;
	if (le32toh(refuse->reason) == WIRE_REASON_VERSION)
		return close_session(session, say_versions(session, le16toh(refuse->lowest),
							   le16toh(refuse->highest)));
	return close_session(session, wire_reason(le32toh(refuse->reason)));
}

static enum session_do take_accept(struct session *session, const union wire_message *message)
{
	const struct wire_accept *accept = &message->accept;
	uint32_t slots = le32toh(accept->slots), slot_bytes = le32toh(accept->slot_bytes);
	uint8_t mac[WIRE_MAC];

	wire_prove_server(session->key, &session->setup.link, &session->hello,
			  &session->challenge, accept, mac);
	if (!wire_equal(mac, accept->mac))
		return close_session(session, "the server does not know the secret");
	if (!slots || slots > WIRE_SLOTS || slot_bytes < LSMEM_SEGLET_BYTES ||
	    slot_bytes > LSMEM_SEGMENT_BYTES || slot_bytes % LSMEM_BLOCK ||
	    le64toh(accept->bytes) % LSMEM_BLOCK ||
	    le64toh(accept->address) > UINT64_MAX - (uint64_t)slots * slot_bytes)
		return close_session(session, "the server offers slots that make no sense");
	session->accept = *accept;
	session->state = SESSION_SERVING;
	begin_tags(session, false);
	return SESSION_READY;
}

static enum session_do take_granted(struct session *session, const struct wire_hold *granted)
{
	session->accept.term = granted->term;
	session->accept.flags &= ~htole32(WIRE_HELD);
	session->state = SESSION_SERVING;
	return SESSION_READY;
}

static enum session_do take_done(struct session *session, const union wire_message *message)
{
	uint32_t slot = le32toh(message->done.slot), error = le32toh(message->done.error);

	if (slot >= le32toh(session->accept.slots) || !session->busy[slot] || session->done[slot])
		return close_session(session, "an answer to what was not asked");
	session->done[slot] = true;
	session->io = (struct session_io) {
		.type = session->busy[slot],
		.slot = slot,
		.error = !error ? 0 : error < 4096 ? -(int)error : -EIO,
	};
	return SESSION_IO;
}

/* Valid once per WRITE, before its DONE, and only if HELLO asked for it. */
static enum session_do take_received(struct session *session, const union wire_message *message)
{
	uint32_t slot = le32toh(message->done.slot);

	if (!(le32toh(session->hello.flags) & WIRE_RECEIPTS) ||
	    slot >= le32toh(session->accept.slots) || !is_write(session->busy[slot]) ||
	    session->done[slot] || session->received[slot])
		return close_session(session, "an answer to what was not asked");
	session->received[slot] = true;
	session->io = (struct session_io) { .type = session->busy[slot], .slot = slot };
	return SESSION_RECEIVED;
}

static enum session_do take_block(struct session *session, const struct wire_block *block)
{
	uint32_t slot = le32toh(block->slot), length = le32toh(block->length);

	if (slot >= le32toh(session->accept.slots) || !session->busy[slot] || session->done[slot])
		return close_session(session, "an answer to what was not asked");
	if (!length || length > le32toh(session->accept.slot_bytes))
		return close_session(session, "a block longer than its slot");
	session->done[slot] = true;
	session->io = (struct session_io) {
		.type = WIRE_READ, .slot = slot, .length = length, .offset = le64toh(block->sequence),
	};
	return SESSION_IO;
}

/* A message from the source of a move. */
static enum session_do take_from_source(struct session *session, const union wire_message *message)
{
	switch (le16toh(message->head.type)) {
	case WIRE_BLOCK:
		return take_block(session, &message->block);
	case WIRE_STORE:
	case WIRE_READY:
	case WIRE_CLOSE:
		return SESSION_MOVE;
	default:
		return close_session(session, "a message out of turn");
	}
}

/**
 * session_answer - handle a message from the server
 * @session: the client's side
 * @message: unchecked, WIRE_BYTES of room
 * @length: bytes received
 *
 * Return: SESSION_SEND, SESSION_READY, SESSION_IO, SESSION_RECEIVED, SESSION_MOVE or SESSION_CLOSE: what
 * the caller must do. If the server sent REFUSE, @session->refused is set.
 */
enum session_do session_answer(struct session *session, const union wire_message *message,
			       size_t length)
{
	const char *why = check(session, message, length);
	enum wire_type type;

	if (why)
		return close_session(session, why);
	type = le16toh(message->head.type);
	if (type == WIRE_REFUSE && session->state != SESSION_OVER)
		return take_refuse(session, &message->refuse);
	switch (session->state) {
	case SESSION_HELLO:
		if (type != WIRE_CHALLENGE)
			break;
		return take_challenge(session, &message->challenge);
	case SESSION_PROOF:
		if (type == WIRE_ACCEPT)
			return take_accept(session, message);
		break;
	case SESSION_ASKING:
		if (type == WIRE_GRANTED)
			return take_granted(session, &message->hold);
		break;
	case SESSION_SERVING:
		if (session_moves(session))
			return take_from_source(session, message);
		if (type == WIRE_DONE)
			return take_done(session, message);
		if (type == WIRE_RECEIVED)
			return take_received(session, message);
		break;
	default:
		break;
	}
	return close_session(session, "a message out of turn");
}

/**
 * session_slot - find a free slot
 * @session: the client's side, in state SESSION_SERVING
 *
 * Return: its number; -1: all slots are busy.
 */
int session_slot(const struct session *session)
{
	uint32_t slot, slots = le32toh(session->accept.slots);

	for (slot = 0; slot < slots; slot++)
		if (!session->busy[slot])
			return (int)slot;
	return -1;
}

/**
 * session_request - make a request
 * @session: the client's side, in state SESSION_SERVING
 * @type: WIRE_READ, WIRE_WRITE, WIRE_WRITE_DURABLE or WIRE_FLUSH
 * @slot: from session_slot()
 * @offset: bytes from the start of the export; 0 for a flush
 * @length: bytes; 0 for a flush
 *
 * The caller sends @session->out.
 */
void session_request(struct session *session, enum wire_type type, uint32_t slot,
		     uint64_t offset, uint32_t length)
{
	struct wire_request *request = &session->out.request;

	begin_out(session, type);
	request->slot = htole32(slot);
	request->length = htole32(length);
	request->offset = htole64(offset);
	end_out(session);
	session->busy[slot] = type;
	session->received[slot] = false;
	session->done[slot] = false;
	session->in_use++;
}

/**
 * session_release - make a slot free again
 * @session: the client's side, in state SESSION_SERVING
 * @slot: of a request that the server has answered and the caller has finished
 */
void session_release(struct session *session, uint32_t slot)
{
	session->busy[slot] = 0;
	session->in_use--;
}

/**
 * session_hold - ask for the hold
 * @session: the client's side, in state SESSION_SERVING, of a reader without a request in flight
 * @term: fences a holder with a lower term; 0: fences none
 * @flags: WIRE_RECEIPTS or 0
 *
 * The caller sends @session->out.
 *
 * Return: false: the server knows no such message, or not with this flag.
 */
bool session_hold(struct session *session, uint64_t term, uint32_t flags)
{
	if (session->version < WIRE_VERSION_HOLD ||
	    (flags & WIRE_RECEIPTS && !(le64toh(session->challenge.features) & WIRE_FEATURE_RECEIPTS)))
		return false;
	begin_out(session, WIRE_HOLD);
	session->out.hold.flags = htole32(flags);
	session->out.hold.term = htole64(term);
	end_out(session);
	session->hello.flags = htole32(flags);
	session->hello.term = htole64(term);
	session->state = SESSION_ASKING;
	return true;
}
