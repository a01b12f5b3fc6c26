/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol of wire.h: each side is a state machine without I/O, clocks or allocations. Messages
 * go in; what the caller has to do comes out.
 *
 * Both sides guarantee, whatever comes in:
 *  - they do nothing for a peer that has not proved the secret, and believe nothing of it;
 *  - after ACCEPT they take only the message that the other side sent next on this connection
 *    (from WIRE_VERSION_TAGS on);
 *  - a slot has one request at a time; a second one ends the connection;
 *  - a request lies within the export and the slot, in whole blocks;
 *  - an invalid message ends the connection, and nothing else.
 */
#ifndef LSMEMD_SESSION_H
#define LSMEMD_SESSION_H

#include <endian.h>

#include "wire.h"

enum session_state {
	SESSION_HELLO,		/* server: expects HELLO; client: CHALLENGE */
	SESSION_PROOF,		/* server: expects PROOF; client: ACCEPT or REFUSE */
	SESSION_ASKING,		/* server: waits for session_accept() or session_refuse() */
	SESSION_SERVING,	/* server: expects requests; client: answers */
	SESSION_OVER,
};

enum session_do {
	SESSION_SEND,		/* send @out */
	SESSION_SEND_CLOSE,	/* send @out, then close */
	SESSION_ASK,		/* server: decide whether the peer gets the export */
	SESSION_READY,		/* client: the export is there */
	SESSION_IO,		/* server: do @io; client: @io is done */
	SESSION_RECEIVED,	/* client: the server has the bytes of @io, which is not done yet */
	SESSION_CLOSE,		/* close at once; @why tells why */
};

/**
 * struct session_io - a request, or its end
 * @type: WIRE_READ, WIRE_WRITE, WIRE_WRITE_DURABLE, WIRE_FLUSH
 * @slot: whose memory has the bytes
 * @length: bytes
 * @offset: byte in the export
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
 * struct session_setup - what one side contributes
 * @lowest: version that it speaks
 * @highest: version that it speaks
 * @link: the connection
 * @nonce: fresh random bytes
 */
struct session_setup {
	uint16_t lowest, highest;
	struct wire_link link;
	uint8_t nonce[WIRE_NONCE];
};

/**
 * struct session - one side of a conversation
 * @state: what comes next
 * @setup: as it was given
 * @key: the secret, in memory of the caller; server: from @secret, once @hello is there
 * @secret: server: returns the secret of the export @name, never NULL: a name without an export has
 *	a secret, too
 * @secret_arg: its argument
 * @version: that is spoken; 0: not agreed on yet
 * @tag: bytes of the tag at the end of each message from now on
 * @to_peer: makes the tags of messages to the peer
 * @from_peer: checks the tags of messages from the peer
 * @said: memory for @why
 * @hello: as it was sent
 * @challenge: as it was sent
 * @accept: as it was sent
 * @refused: client: why the server refused, an enum wire_reason, or 0
 * @busy: by slot: the type of its request; 0: it is free
 * @received: by slot: RECEIVED was sent, or has come
 * @done: by slot: client: it is answered, and not released yet
 * @in_use: slots that are busy
 * @out: message to send, once, in the order in which the calls ask for it
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
	char said[160];
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
 * struct session_export - an export, as ACCEPT tells it
 * @bytes: of the export, a multiple of LSMEM_BLOCK
 * @address: of the slots' memory, for RDMA
 * @term: that the export is held with
 * @slots: how many
 * @slot_bytes: memory of a slot
 * @key: of the slots' memory, for RDMA
 * @logical: as in struct backup_limits
 * @physical: as in struct backup_limits
 * @flags: WIRE_VOLATILE, WIRE_HELD and others
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
void session_refuse(struct session *session, enum wire_reason reason, uint64_t term,
		    const char *who);
bool session_received(struct session *session, uint32_t slot);
void session_done(struct session *session, uint32_t slot, int error);

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

static inline uint64_t session_term(const struct session *session)
{
	return le64toh(session->hello.term);
}

static inline bool session_read_only(const struct session *session)
{
	return le32toh(session->hello.flags) & WIRE_READ_ONLY;
}

#endif
