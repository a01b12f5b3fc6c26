/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The conversation of wire.h, each side a state machine without I/O, clocks or
 * memory of its own: messages in, what is to be done out.
 *
 * What both sides make sure of, whatever comes in:
 *  - nothing is done for, or believed of, a peer that has not proved the secret;
 *  - after ACCEPT nothing is taken that the other side did not say next on this connection
 *    (from WIRE_VERSION_TAGS on);
 *  - a slot has one request at a time: who asks twice is cut off;
 *  - a request lies within the export and the slot, in whole blocks;
 *  - a message that makes no sense ends the connection, and only that.
 */
#ifndef LSMEMD_SESSION_H
#define LSMEMD_SESSION_H

#include <endian.h>

#include "wire.h"

enum session_state {
	SESSION_HELLO,		/* wants HELLO (server); CHALLENGE (client) */
	SESSION_PROOF,		/* wants PROOF; ACCEPT or REFUSE */
	SESSION_ASKING,		/* server: session_accept() or session_refuse() is to come */
	SESSION_SERVING,	/* requests; answers */
	SESSION_OVER,
};

enum session_do {
	SESSION_SEND,		/* @out */
	SESSION_SEND_CLOSE,	/* @out, then close */
	SESSION_ASK,		/* server: may it have the export? */
	SESSION_READY,		/* client: the export is there */
	SESSION_IO,		/* server: @io is wanted; client: @io is done */
	SESSION_RECEIVED,	/* client: the server has the bytes of @io; it goes on */
	SESSION_CLOSE,		/* at once; @why */
};

/**
 * struct session_io - a request, or its end
 * @type: WIRE_READ, WIRE_WRITE, WIRE_WRITE_DURABLE, WIRE_FLUSH
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
 * struct session_setup - what one side brings along
 * @lowest, @highest: versions that it speaks
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
 * @setup: as it was given
 * @key: the secret; the caller's; the server: once @hello is there, from @secret
 * @secret, @secret_arg: the server: the secret of the export @name, never NULL: an export that is
 *	not there has one too
 * @version: that is spoken; 0: not agreed on yet
 * @tag: bytes at the end of each message from now on
 * @to_peer, @from_peer: what makes these
 * @said: text for @why
 * @hello, @challenge, @accept: as they were said
 * @refused: client: why it is over, a wire_reason or 0
 * @busy: by slot: the type of its request, 0: it is free
 * @received: by slot: its RECEIVED has been sent, or has come
 * @done: by slot: client: it is answered, and not yet released
 * @in_use: slots that are busy
 * @out: what SESSION_SEND asks to be sent, in this order, each once; @io: of SESSION_IO; @why: of
 *	SESSION_CLOSE, SESSION_SEND_CLOSE
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
 * struct session_export - what is accepted
 * @bytes: of the export, a multiple of LSMEM_BLOCK
 * @address, @key: of the slots
 */
struct session_export {
	uint64_t bytes, address, epoch;
	uint32_t slots, slot_bytes, key, logical, physical, flags;
};

/* The server's side. */
void session_begin(struct session *session, const struct session_setup *setup,
		   const struct secret *(*secret)(void *arg, const char *name), void *arg);
enum session_do session_receive(struct session *session, const union wire_message *message,
				size_t length);
/* After SESSION_ASK, now or later: @out is to be sent. */
void session_accept(struct session *session, const struct session_export *export);
/* At any time: @out is to be sent, then it is over. */
void session_refuse(struct session *session, enum wire_reason reason, uint64_t epoch,
		    const char *who);
/* The bytes of a write are here: true: @out is to be sent. */
bool session_received(struct session *session, uint32_t slot);
/* A request has ended: @out is to be sent. */
void session_done(struct session *session, uint32_t slot, int error);

/* The client's side: @out is the first message. */
void session_call(struct session *session, const struct session_setup *setup,
		  const struct secret *key, const char *name, const char *who,
		  uint64_t epoch, uint32_t flags);
enum session_do session_answer(struct session *session, const union wire_message *message,
			       size_t length);
/* A free slot, or -1. */
int session_slot(const struct session *session);
/* Ask for @session->io: @out is to be sent. */
void session_request(struct session *session, enum wire_type type, uint32_t slot,
		     uint64_t offset, uint32_t length);
/* The slot may be used again. */
void session_release(struct session *session, uint32_t slot);

static inline uint64_t session_epoch(const struct session *session)
{
	return le64toh(session->hello.epoch);
}

static inline bool session_read_only(const struct session *session)
{
	return le32toh(session->hello.flags) & WIRE_READ_ONLY;
}

#endif
