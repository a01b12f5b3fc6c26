/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol between a daemon and the server of its backup: the only definition of the bytes.
 * Documentation/protocol.rst describes the protocol and gives the reasons.
 *
 * A message is one SEND of a reliable RDMA connection: a head, and the fields of its type. The
 * length of a message is fixed by its type. All integers are little-endian.
 *
 *	daemon				server
 *	HELLO	------------------->
 *		<-------------------	CHALLENGE
 *	PROOF	------------------->
 *		<-------------------	ACCEPT, or REFUSE and the end
 *	then requests, at most one per slot at a time:
 *	RDMA WRITE into the slot; WRITE ------->
 *		<-------------------	RECEIVED, if HELLO asked for it
 *		<-------------------	DONE
 *	READ	------------------->
 *		<-------------------	DONE; then RDMA READ from the slot
 *	FLUSH	------------------->
 *		<-------------------	DONE
 *
 *	HOLD	------------------->	from a reader, once: it wants to write from now on
 *		<-------------------	GRANTED, or REFUSE and the end
 *
 * A connection moves a store instead if HELLO has WIRE_MOVE: the server is the store's source, the
 * client its target (move.h). No other HELLO opens it, and this one opens no backup:
 *
 *	PROOF	------------------->
 *		<-------------------	ACCEPT, STORE; or REFUSE and the end
 *	READ	------------------->
 *		<-------------------	BLOCK; then RDMA READ from the slot
 *	MOVE	------------------->
 *		<-------------------	READY, after BLOCKs of the rest
 *	TAKEN	------------------->, or GIVE_UP, at any time before it, and the end
 *	CLOSE	------------------->
 *		<-------------------	CLOSE, and the end
 *
 * HELLO states the versions that the client speaks, CHALLENGE those of the server. Both use the
 * highest version that they have in common. HELLO, CHALLENGE and REFUSE have the same layout in
 * all versions from WIRE_VERSION_MIN on. From WIRE_VERSION_TAGS on, each message after ACCEPT
 * ends with a tag of WIRE_TAG bytes.
 *
 * Only the daemon moves bulk data, between its memory and the server's slots. The server never
 * has a key to the daemon's memory. The key to the slots belongs to one connection and becomes
 * invalid when the connection ends.
 *
 * Nothing here does I/O. wire_check() checks every message before anything else reads it.
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
#include "lsmem_format.h"

#define WIRE_MAGIC	0x574d534cu	/* "LSMW" */
#define WIRE_VERSION_MIN	3u	/* lowest and highest version of this build */
#define WIRE_VERSION_MAX	9u
#define WIRE_VERSION_TAGS	4u	/* messages after ACCEPT end with a tag */
#define WIRE_VERSION_MOVE	5u	/* stores can move */
#define WIRE_VERSION_GIVE_UP	6u	/* the target of a move tells why it gives up */
#define WIRE_VERSION_CACHED	7u	/* the source of a move tells where what it has fetched is in its memory */
#define WIRE_VERSION_HOLD	8u	/* a reader of a backup can get the hold without another connection */
#define WIRE_VERSION_STANDBY	9u	/* the target of a move can stand by until it is wanted */
#define WIRE_PORT	"7471"		/* if the address names none */
#define WIRE_NONCE	32u
#define WIRE_MAC	32u		/* HMAC-SHA256 */
#define WIRE_TAG	16u		/* bytes of a tag: the first ones of a HMAC-SHA256 */
#define WIRE_NAME	64u		/* bytes, including the final zero */
#define WIRE_CAUSE	160u		/* bytes of the text of GIVE_UP, including the final zero */
#define WIRE_ERRNO	4095u		/* the highest errno of Linux */
#define WIRE_BYTES	256u		/* no message is longer */
#define WIRE_SLOTS	64u		/* at most, per connection */

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
	WIRE_STORE	= 12,
	WIRE_BLOCK	= 13,
	WIRE_MOVE	= 14,
	WIRE_READY	= 15,
	WIRE_TAKEN	= 16,
	WIRE_CLOSE	= 17,
	WIRE_GIVE_UP	= 18,
	WIRE_HOLD	= 19,
	WIRE_GRANTED	= 20,
	WIRE_TYPES
};

struct wire_head {
	__le32 magic;
	__le16 version;
	__le16 type;
	__le32 length;		/* bytes of the message, including the head and the tag */
	__le32 zero;
};

#define WIRE_READ_ONLY	1u	/* HELLO: the client only reads; it does not ask for the hold */
#define WIRE_RECEIPTS	2u	/* HELLO: the server sends RECEIVED for each WRITE */
#define WIRE_MOVES	4u	/* HELLO: the client wants the store; no other flag, lowest is 5 or more */

#define WIRE_FEATURE_RECEIPTS	1u	/* the sender knows RECEIVED */
#define WIRE_FEATURES		WIRE_FEATURE_RECEIPTS	/* all of this build */

struct wire_hello {
	struct wire_head head;	/* version: the highest that the client speaks */
	__le32 flags;
	__le16 lowest;		/* lowest version that the client speaks */
	__le16 zero;
	__le64 term;		/* fences a holder with a lower term; 0: fences none. WIRE_MOVES: with
				 * which the client has taken the store; 0: not yet
				 */
	__le64 features;	/* WIRE_FEATURE_*; the server ignores unknown bits */
	__u8 nonce[WIRE_NONCE];
	char name[WIRE_NAME];	/* of the export, or of the store */
	char who[WIRE_NAME];	/* name of the client, for the server's log */
};

struct wire_challenge {
	struct wire_head head;	/* version: the one that both use from now on */
	__le16 lowest;		/* lowest and highest version that the server speaks */
	__le16 highest;
	__le32 zero;
	__le64 features;	/* the bits of HELLO that the server has, too */
	__u8 nonce[WIRE_NONCE];
};

struct wire_proof {
	struct wire_head head;
	__u8 mac[WIRE_MAC];	/* over "lsmem client", the link, HELLO, CHALLENGE */
};

#define WIRE_VOLATILE	1u	/* ACCEPT: writes are durable only after a flush */
#define WIRE_HELD	2u	/* ACCEPT of a reader: another client has the hold and may write */

struct wire_accept {
	struct wire_head head;
	__le32 flags;
	__le32 slots;		/* 1..WIRE_SLOTS */
	__le32 slot_bytes;	/* bytes of a slot, the longest request */
	__le32 key;		/* RDMA key of the slots */
	__le64 address;		/* RDMA address of slot 0; the others follow */
	__le64 bytes;		/* of the export; of a move 0, as the next two */
	__le32 logical;		/* as in struct backup_limits */
	__le32 physical;
	__le64 term;		/* highest that a client has asked for; of a move: the source's */
	__u8 mac[WIRE_MAC];	/* over "lsmem server", the link, HELLO, CHALLENGE, ACCEPT before @mac */
};

enum wire_reason {
	WIRE_REASON_VERSION	= 1,	/* no version in common */
	WIRE_REASON_PROOF	= 2,	/* the client has not proved the secret */
	WIRE_REASON_EXPORT	= 3,	/* the server has no export of this name */
	WIRE_REASON_HELD	= 4,	/* @who has the hold */
	WIRE_REASON_TERM	= 5,	/* @who has asked for @term, which is not lower */
	WIRE_REASON_BUSY	= 6,	/* the server has no room */
	WIRE_REASON_FENCED	= 7,	/* sent at any time: @who takes the hold with @term */
	WIRE_REASON_FAR		= 8,	/* the term is too far above @term, see hold.h */
	WIRE_REASON_PURPOSE	= 9,	/* it moves stores and HELLO asks for a backup, or the other way round */
	WIRE_REASON_CANCELLED	= 10,	/* sent at any time: an operator has cancelled the move */
	WIRE_REASONS
};

struct wire_refuse {
	struct wire_head head;
	__le32 reason;		/* enum wire_reason */
	__le16 lowest;		/* lowest and highest version that the server speaks */
	__le16 highest;
	__le64 term;
	char who[WIRE_NAME];
};

struct wire_request {		/* READ, WRITE, WRITE_DURABLE, FLUSH; offset and length in bytes */
	struct wire_head head;
	__le32 slot;
	__le32 length;		/* 0 for a flush, and for a READ of a move, as @offset */
	__le64 offset;
};

struct wire_done {		/* DONE; RECEIVED: the server has the bytes of a WRITE in memory */
	struct wire_head head;
	__le32 slot;
	__le32 error;		/* a positive errno of Linux; 0: none; RECEIVED: always 0 */
};

struct wire_store {		/* STORE: what is to move, once after ACCEPT */
	struct wire_head head;
	__u8 uuid[LSMEM_UUID_BYTES];
	__le64 indices;		/* format_indices() */
	__le32 seglets;		/* of the source's memory */
	__le32 zero;
};

struct wire_block {		/* BLOCK: the answer of a READ of a move */
	struct wire_head head;
	__le32 slot;
	__le32 length;		/* bytes of the block in the slot, see ahead.h */
	__le64 sequence;	/* its number, from 1 */
};

struct wire_move {		/* MOVE, TAKEN, CLOSE */
	struct wire_head head;
	__le64 term;		/* MOVE: the source's; TAKEN: with which the client has taken the store; CLOSE:
				 * with which it has it; the answer repeats it
				 */
	__le64 last;		/* MOVE: number of the last block that the client has taken; else 0 */
};

struct wire_ready {		/* READY; if HELLO had a term, only the keys, and the source's term */
	struct wire_head head;
	__le64 term;		/* of the source, which the client's transaction compares .. */
	__le64 revision;	/* .. as the revision of the owner's key in etcd */
	__le64 digest;		/* sequence number of the newest digest; 0: the store is volatile */
	__le64 last;		/* number of the last block */
	__le64 objects;		/* that are live, of all that was told in blocks */
	__le64 seglets_address;	/* RDMA address of the source's memory */
	__le64 seglets_bytes;
	__le64 table_address;	/* of its seglet table */
	__le64 table_bytes;
	__le32 seglets_key;	/* RDMA keys, for reading */
	__le32 table_key;
};

struct wire_give_up {		/* GIVE_UP: the client does not take the store; the end of the connection follows */
	struct wire_head head;
	__le32 error;		/* a positive errno of Linux, at most WIRE_ERRNO */
	__le32 zero;
	char cause[WIRE_CAUSE];	/* printable, blanks included; zeroes to its end */
};

struct wire_hold {		/* HOLD; GRANTED */
	struct wire_head head;
	__le32 flags;		/* HOLD: WIRE_RECEIPTS or 0, instead of those of HELLO; GRANTED: 0 */
	__le32 zero;
	__le64 term;		/* HOLD: instead of that of HELLO; GRANTED: highest that a client has asked for */
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
	struct wire_store store;
	struct wire_block block;
	struct wire_move move;
	struct wire_ready ready;
	struct wire_give_up give_up;
	struct wire_hold hold;
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
_Static_assert(sizeof(struct wire_store) == 48, "STORE");
_Static_assert(sizeof(struct wire_block) == 32, "BLOCK");
_Static_assert(sizeof(struct wire_move) == 32, "MOVE, TAKEN, CLOSE");
_Static_assert(sizeof(struct wire_ready) == 96, "READY");
_Static_assert(sizeof(struct wire_give_up) == 184, "GIVE_UP");
_Static_assert(sizeof(struct wire_hold) == 32, "HOLD, GRANTED");
_Static_assert(sizeof(union wire_message) == WIRE_BYTES, "no message is longer");

/**
 * struct wire_link - the two queue pairs of a connection
 * @client_qp: number of the client's queue pair; 0 on iWARP, where peers do not know it
 * @server_qp: number of the server's queue pair, likewise
 */
struct wire_link {
	uint32_t client_qp, server_qp;
};

/**
 * struct wire_direction - tags the messages that one side sends
 * @hmac: keyed for this connection and direction
 * @sequence: number of the next message
 */
struct wire_direction {
	struct hmac_sha256_ctx hmac;
	uint64_t sequence;
};

void wire_seal(union wire_message *message, enum wire_type type, unsigned int version);
size_t wire_length(enum wire_type type);

const char *wire_check(const union wire_message *message, size_t length, unsigned int version,
		       size_t tag);

const char *wire_check_name(const char name[WIRE_NAME]);
void wire_put_cause(char cause[WIRE_CAUSE], const char *text);

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
 * @host: a name or an address, without the brackets of IPv6
 * @port: WIRE_PORT if the text names none
 * @name: of the export; "" if the text names none
 */
struct wire_address {
	char host[ADDRESS_HOST];
	char port[ADDRESS_PORT];
	char name[WIRE_NAME];
};

bool wire_scheme(const char *path);
bool wire_address(const char *text, struct wire_address *address);

#endif
