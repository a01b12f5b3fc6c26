/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a daemon and the server of its backup say to each other: the one
 * description of every byte.  Documentation/protocol.rst tells the same with
 * its reasons.
 *
 * A message is one SEND of a reliable RDMA connection: a head and what its
 * type asks for, of exactly that length.  All integers are little-endian.
 *
 *	daemon				server
 *	HELLO	------------------->
 *		<-------------------	CHALLENGE
 *	PROOF	------------------->
 *		<-------------------	ACCEPT, or REFUSE and the end
 *	then, many at a time, one for each slot:
 *	RDMA WRITE into the slot; WRITE ------->
 *		<-------------------	RECEIVED, if HELLO asked for it
 *		<-------------------	DONE
 *	READ	------------------->
 *		<-------------------	DONE; then RDMA READ from the slot
 *	FLUSH	------------------->
 *		<-------------------	DONE
 *
 * HELLO says which versions the client speaks, CHALLENGE which the server does; the highest
 * that both speak is used.  The layouts of HELLO, CHALLENGE and REFUSE are the same in each
 * version from WIRE_VERSION_MIN on.  From WIRE_VERSION_TAGS on each message after ACCEPT ends
 * with a tag of WIRE_TAG bytes.
 *
 * Bulk data are moved by the daemon alone, from its memory to the server's
 * slots and back: the server never has a key to the daemon's memory, and the
 * keys to the slots are the connection's own and end with it.
 *
 * Nothing here does I/O.  What comes from the other side is looked at by
 * wire_check() first, whatever it is.
 */
#ifndef LSMEMD_WIRE_H
#define LSMEMD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/types.h>

#include <nettle/hmac.h>

#include "base/address.h"
#include "base/secret.h"

#define WIRE_MAGIC	0x574d534cu	/* "LSMW" */
#define WIRE_VERSION_MIN	3u	/* lowest and highest version spoken here */
#define WIRE_VERSION_MAX	4u
#define WIRE_VERSION_TAGS	4u	/* messages after ACCEPT bear a tag */
#define WIRE_PORT	"7471"		/* unless the address says otherwise */
#define WIRE_NONCE	32u
#define WIRE_MAC	32u		/* HMAC-SHA256 */
#define WIRE_TAG	16u		/* its first bytes */
#define WIRE_NAME	64u		/* bytes, a final zero among them */
#define WIRE_BYTES	256u		/* no message is longer */
#define WIRE_SLOTS	64u		/* most of a connection */

enum wire_type {
	WIRE_HELLO	= 1,
	WIRE_CHALLENGE	= 2,
	WIRE_PROOF	= 3,
	WIRE_ACCEPT	= 4,
	WIRE_REFUSE	= 5,
	WIRE_READ	= 6,
	WIRE_WRITE	= 7,
	WIRE_FLUSH	= 8,
	WIRE_DONE	= 9,
	WIRE_RECEIVED	= 10,
	WIRE_WRITE_DURABLE = 11,	/* a WRITE whose DONE says that it is durable */
	WIRE_TYPES
};

struct wire_head {
	__le32 magic;
	__le16 version;
	__le16 type;
	__le32 length;		/* of the message, head included */
	__le32 zero;
};

#define WIRE_READ_ONLY	1u	/* HELLO: beside the holder of the export; writes are refused */
#define WIRE_RECEIPTS	2u	/* HELLO: RECEIVED is wanted for each WRITE */

#define WIRE_FEATURE_RECEIPTS	1u	/* RECEIVED is known */
#define WIRE_FEATURES		WIRE_FEATURE_RECEIPTS	/* all that are known here */

struct wire_hello {
	struct wire_head head;	/* version: the highest that the client speaks */
	__le32 flags;
	__le16 lowest;		/* version that the client speaks */
	__le16 zero;
	__le64 term;		/* takes the hold from a lower one; 0: takes it from none */
	__le64 features;	/* WIRE_FEATURE_*; a bit that is not known means nothing */
	__u8 nonce[WIRE_NONCE];
	char name[WIRE_NAME];	/* of the export */
	char who[WIRE_NAME];	/* is asking, for the log of the server */
};

struct wire_challenge {
	struct wire_head head;	/* version: the one that is used */
	__le16 lowest;		/* version that the server speaks */
	__le16 highest;
	__le32 zero;
	__le64 features;	/* of HELLO's, those that the server has */
	__u8 nonce[WIRE_NONCE];
};

struct wire_proof {
	struct wire_head head;
	__u8 mac[WIRE_MAC];	/* of "lsmem client", the link, HELLO, CHALLENGE */
};

#define WIRE_VOLATILE	1u	/* ACCEPT: a flush is needed for anything to last */
#define WIRE_HELD	2u	/* ACCEPT of a reader: another client may write meanwhile */

struct wire_accept {
	struct wire_head head;
	__le32 flags;
	__le32 slots;		/* 1..WIRE_SLOTS */
	__le32 slot_bytes;	/* longest request */
	__le32 key;		/* to the slots */
	__le64 address;		/* of slot 0; the others follow */
	__le64 bytes;		/* of the export */
	__le32 logical;
	__le32 physical;
	__le64 term;		/* highest that was granted */
	__u8 mac[WIRE_MAC];	/* of "lsmem server", the link, HELLO, CHALLENGE, ACCEPT up to here */
};

enum wire_reason {
	WIRE_REASON_VERSION	= 1,	/* none in common; @lowest and @highest are the server's */
	WIRE_REASON_PROOF	= 2,	/* the secrets differ */
	WIRE_REASON_EXPORT	= 3,	/* there is none of this name */
	WIRE_REASON_HELD	= 4,	/* by @who */
	WIRE_REASON_TERM	= 5,	/* @term was granted, to @who */
	WIRE_REASON_BUSY	= 6,	/* the server has no room */
	WIRE_REASON_FENCED	= 7,	/* at any time: @who took the hold with @term */
	WIRE_REASON_FAR		= 8,	/* the term is too far above @term, see hold.h */
	WIRE_REASONS
};

struct wire_refuse {
	struct wire_head head;
	__le32 reason;
	__le16 lowest;		/* version that the server speaks */
	__le16 highest;
	__le64 term;
	char who[WIRE_NAME];
};

struct wire_request {		/* READ, WRITE, WRITE_DURABLE, FLUSH */
	struct wire_head head;
	__le32 slot;
	__le32 length;		/* 0 for a flush */
	__le64 offset;
};

struct wire_done {		/* DONE; RECEIVED: the bytes are in the server's memory */
	struct wire_head head;
	__le32 slot;
	__le32 error;		/* an errno of Linux, 0: none, as in RECEIVED */
};

union wire_message {
	struct wire_head head;
	struct wire_hello hello;
	struct wire_challenge challenge;
	struct wire_proof proof;
	struct wire_accept accept;
	struct wire_refuse refuse;
	struct wire_request request;
	struct wire_done done;
	__u8 bytes[WIRE_BYTES];
};

_Static_assert(sizeof(struct wire_head) == 16, "head");
_Static_assert(sizeof(struct wire_hello) == 200, "HELLO");
_Static_assert(sizeof(struct wire_challenge) == 64, "CHALLENGE");
_Static_assert(sizeof(struct wire_proof) == 48, "PROOF");
_Static_assert(sizeof(struct wire_accept) == 96, "ACCEPT");
_Static_assert(offsetof(struct wire_accept, mac) == 64, "ACCEPT's mac is its end");
_Static_assert(sizeof(struct wire_refuse) == 96, "REFUSE");
_Static_assert(sizeof(struct wire_request) == 32, "READ, WRITE, FLUSH");
_Static_assert(sizeof(struct wire_done) == 24, "DONE, RECEIVED");
_Static_assert(sizeof(union wire_message) == WIRE_BYTES, "no message is longer");

/**
 * struct wire_link - the queue pairs that a conversation is carried by
 * @client_qp: number of the client's, as its device has it; 0: the transport has none
 * @server_qp: number of the server's, likewise
 */
struct wire_link {
	uint32_t client_qp, server_qp;
};

/**
 * struct wire_direction - what tags the messages of one side
 * @hmac: with the key of this connection and direction
 * @sequence: number of the next message
 */
struct wire_direction {
	struct hmac_sha256_ctx hmac;
	uint64_t sequence;
};

/* Sealed messages: the head is filled in, the rest is the caller's. */
void wire_seal(union wire_message *message, enum wire_type type, unsigned int version);
size_t wire_length(enum wire_type type);

const char *wire_check(const union wire_message *message, size_t length, unsigned int version,
		       size_t tag);

const char *wire_check_name(const char name[WIRE_NAME]);

void wire_prove_client(const struct secret *key, const struct wire_link *link,
		       const struct wire_hello *hello, const struct wire_challenge *challenge,
		       uint8_t mac[WIRE_MAC]);
void wire_prove_server(const struct secret *key, const struct wire_link *link,
		       const struct wire_hello *hello, const struct wire_challenge *challenge,
		       const struct wire_accept *accept, uint8_t mac[WIRE_MAC]);
void wire_directions(const struct secret *key, const struct wire_link *link,
		     const struct wire_hello *hello, const struct wire_challenge *challenge,
		     struct wire_direction *to_server, struct wire_direction *to_client);
void wire_tag(struct wire_direction *direction, union wire_message *message, size_t length);
bool wire_tagged(struct wire_direction *direction, const union wire_message *message,
		 size_t length);
bool wire_equal(const uint8_t a[WIRE_MAC], const uint8_t b[WIRE_MAC]);

const char *wire_reason(uint32_t reason);

#define WIRE_SCHEME	"rdma://"

/**
 * struct wire_address - rdma://HOST[:PORT][/NAME]
 * @host: a name or an address; one of IPv6 is written in brackets
 * @port: WIRE_PORT unless it is said
 * @name: of the export, "" if it is not said
 */
struct wire_address {
	char host[ADDRESS_HOST];
	char port[ADDRESS_PORT];
	char name[WIRE_NAME];
};

bool wire_scheme(const char *path);
bool wire_address(const char *text, struct wire_address *address);

#endif
