/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol of wire.h: each side is a state machine without I/O, clocks or allocations. The
 * caller passes in each message and does what the returned enum session_do says.
 *
 * Both sides guarantee, whatever they receive:
 *  - they do nothing for a peer that has not proved that it knows the secret;
 *  - after ACCEPT they take only the message that the other side sent next on this connection
 *    (from WIRE_VERSION_TAGS on);
 *  - a slot has one request at a time; a second one ends the connection;
 *  - a request lies within the export and the slot, in whole blocks;
 *  - an invalid message ends the connection and has no other effect;
 *  - a connection moves a store, or serves a backup: each side knows which, and takes no other messages.
 *
 * Of a move this file knows which side may send which message, READ and BLOCK; move_source.c and move_target.c know
 * the rest.
 */
#ifndef LSMEMD_SESSION_H
#define LSMEMD_SESSION_H

#include <endian.h>

#include "wire.h"

enum session_state {
	SESSION_HELLO,		/* server: expects HELLO; client: CHALLENGE */
	SESSION_PROOF,		/* server: expects PROOF; client: ACCEPT or REFUSE */
	SESSION_ASKING,		/* server: waits for session_accept(), session_grant() or session_refuse(); client: GRANTED or
				 * REFUSE
				 */
	SESSION_SERVING,	/* server: expects requests; client: answers */
	SESSION_OVER,
};

enum session_do {
	SESSION_SEND,		/* send @out */
	SESSION_SEND_CLOSE,	/* send @out, then close */
	SESSION_ASK,		/* server: call session_accept(), or after a HOLD session_grant(), or session_refuse() */
	SESSION_READY,		/* client: the server has accepted, or granted the hold; requests can be sent */
	SESSION_IO,		/* server: do @io; client: @io is done */
	SESSION_RECEIVED,	/* client: the server has the bytes of @io; its DONE will follow */
	SESSION_MOVE,		/* a message of a move, other than READ and BLOCK: act on it */
	SESSION_CLOSE,		/* close at once, for the reason @why */
};

/**
 * struct session_io - a request that the server is to do, or one that it has done for the client
 * @type: WIRE_READ, WIRE_WRITE, WIRE_WRITE_DURABLE, WIRE_FLUSH
 * @slot: its memory has the bytes
 * @length: bytes; server, and client of a move: of the block
 * @offset: bytes from the start of the export; server only. Client of a move: number of the block
 * @error: client: 0 or a negative errno
 */
struct session_io {
	enum wire_type type;
	uint32_t slot;
	uint32_t length;
	uint64_t offset;
	int error;
};

/**
 * struct session_setup - what one side brings to a session
 * @lowest: lowest version that it speaks
 * @highest: highest version that it speaks
 * @link: the queue pairs of the connection
 * @moves: server: it moves a store; else it serves backups
 * @nonce: random bytes, never used before
 */
struct session_setup {
	uint16_t lowest, highest;
	bool moves;
	struct wire_link link;
	uint8_t nonce[WIRE_NONCE];
};

/**
 * struct session - one side of a conversation
 * @state: what this side expects next
 * @setup: copy of the caller's
 * @key: the secret, in memory of the caller; server: the result of @secret, set by HELLO
 * @secret: server: returns the secret of the export @name; never NULL, also for a name without an
 *	export
 * @secret_arg: first argument of @secret
 * @version: the version in use; 0: not agreed on yet
 * @tag: bytes of the tag at the end of each message: 0, after ACCEPT WIRE_TAG
 * @to_peer: makes the tags of messages to the peer
 * @from_peer: checks the tags of messages from the peer
 * @said: text that @why may point to, and that of GIVE_UP
 * @hello: as the client sent it; after HOLD with the flags and the term of that
 * @challenge: as the server sent it
 * @accept: as the server sent it
 * @refused: client: the server's REFUSE; its @reason is 0 if there was none
 * @busy: by slot: type of its request; 0: the slot is free
 * @received: by slot: the server has sent RECEIVED; client: it has come
 * @done: by slot: client: DONE has come, and session_release() has not been called
 * @in_use: number of busy slots
 * @out: the message to send. The caller sends each message once, in the order in which the calls
 *	of this file made them: tags count messages
 * @io: for SESSION_IO and SESSION_RECEIVED
 * @why: for SESSION_CLOSE and SESSION_SEND_CLOSE
 */
struct session {
	enum session_state state;
	struct session_setup setup;
	const struct secret *key;
	const struct secret *(*secret)(void *arg, const char *name);
	void *secret_arg;
	unsigned int version;
	size_t tag;
	struct wire_direction to_peer, from_peer;
	char said[WIRE_CAUSE + 96];
	struct wire_hello hello;
	struct wire_challenge challenge;
	struct wire_accept accept;
	struct wire_refuse refused;
	uint8_t busy[WIRE_SLOTS];
	bool received[WIRE_SLOTS];
	bool done[WIRE_SLOTS];
	uint32_t in_use;
	union wire_message out;
	struct session_io io;
	const char *why;
};

/**
 * struct session_export - an export, as ACCEPT describes it
 * @bytes: size of the export, a multiple of LSMEM_BLOCK
 * @address: RDMA address of slot 0
 * @term: the highest that a client has asked for; 0: none
 * @slots: number of slots
 * @slot_bytes: bytes of a slot
 * @key: RDMA key of the slots' memory
 * @logical: as in struct backup_limits
 * @physical: as in struct backup_limits
 * @flags: WIRE_VOLATILE, WIRE_HELD
 */
struct session_export {
	uint64_t bytes, address, term;
	uint32_t slots, slot_bytes, key, logical, physical, flags;
};

/* The server */
void session_begin(struct session *session, const struct session_setup *setup,
		   const struct secret *(*secret)(void *arg, const char *name), void *arg);
enum session_do session_receive(struct session *session, const union wire_message *message,
				size_t length);
void session_accept(struct session *session, const struct session_export *export);
void session_grant(struct session *session, uint64_t term);
void session_refuse(struct session *session, enum wire_reason reason, uint64_t term,
		    const char *who);
bool session_received(struct session *session, uint32_t slot);
void session_done(struct session *session, uint32_t slot, int error);
void session_block(struct session *session, uint32_t slot, uint32_t length, uint64_t sequence);

/* Either side */
void session_say(struct session *session, enum wire_type type, const union wire_message *message);

/* The client */
void session_call(struct session *session, const struct session_setup *setup,
		  const struct secret *key, const char *name, const char *who,
		  uint64_t term, uint32_t flags);
enum session_do session_answer(struct session *session, const union wire_message *message,
			       size_t length);
int session_slot(const struct session *session);
void session_request(struct session *session, enum wire_type type, uint32_t slot,
		     uint64_t offset, uint32_t length);
void session_release(struct session *session, uint32_t slot);
bool session_hold(struct session *session, uint64_t term, uint32_t flags);

static inline uint64_t session_term(const struct session *session)
{
	return le64toh(session->hello.term);
}

static inline bool session_moves(const struct session *session)
{
	return le32toh(session->hello.flags) & WIRE_MOVES;
}

static inline bool session_read_only(const struct session *session)
{
	return le32toh(session->hello.flags) & WIRE_READ_ONLY;
}

#endif
