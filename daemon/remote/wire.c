// SPDX-License-Identifier: GPL-2.0
/* Messages between a daemon and the server of its backup: see wire.h. */
#include <endian.h>
#include <string.h>

#include <nettle/hmac.h>
#include <nettle/memops.h>

#include "wire.h"

static const size_t lengths[WIRE_TYPES] = {
	[WIRE_HELLO] = sizeof(struct wire_hello),
	[WIRE_CHALLENGE] = sizeof(struct wire_challenge),
	[WIRE_PROOF] = sizeof(struct wire_proof),
	[WIRE_ACCEPT] = sizeof(struct wire_accept),
	[WIRE_REFUSE] = sizeof(struct wire_refuse),
	[WIRE_READ] = sizeof(struct wire_request),
	[WIRE_WRITE] = sizeof(struct wire_request),
	[WIRE_WRITE_DURABLE] = sizeof(struct wire_request),
	[WIRE_FLUSH] = sizeof(struct wire_request),
	[WIRE_DONE] = sizeof(struct wire_done),
	[WIRE_RECEIVED] = sizeof(struct wire_done),
};

/**
 * wire_length - bytes of a message
 * @type: of the message
 */
size_t wire_length(enum wire_type type)
{
	return lengths[type];
}

/**
 * wire_seal - fill in the head
 * @message: its other fields are set or will be
 * @type: of the message
 * @version: of its head
 */
void wire_seal(union wire_message *message, enum wire_type type, unsigned int version)
{
	message->head.magic = htole32(WIRE_MAGIC);
	message->head.version = htole16((uint16_t)version);
	message->head.type = htole16(type);
	message->head.length = htole32(lengths[type]);
	message->head.zero = 0;
}

/**
 * wire_check_name - is this a name as the protocol has them?
 * @name: from a peer
 *
 * Return: NULL, or what is wrong with it.
 */
const char *wire_check_name(const char name[WIRE_NAME])
{
	size_t i, length = strnlen(name, WIRE_NAME);

	if (!length || length == WIRE_NAME)
		return "a name is empty or has no end";
	for (i = 0; i < WIRE_NAME; i++)
		if (i < length ? name[i] <= ' ' || name[i] > '~' : name[i])
			return "a name has bytes that names do not have";
	return NULL;
}

/**
 * wire_check - is this a message?
 * @message: what came in, WIRE_BYTES of room, whatever is in it
 * @length: how much came in
 *
 * @version: that has been agreed on; 0: none yet
 * @tag: bytes of a tag at its end, which are not looked at here
 *
 * Only what can be told from the message alone: names end, reserved fields are
 * zero, the length is that of the type.  Of a version below WIRE_VERSION_MIN only
 * the head of HELLO and REFUSE is looked at, which tell each other's versions.
 *
 * Returns NULL, or what is wrong.
 */
const char *wire_check(const union wire_message *message, size_t length, unsigned int version,
		       size_t tag)
{
	uint32_t type, says;

	if (length < sizeof(message->head) || length > WIRE_BYTES)
		return "shorter than a head, or longer than any message";
	if (le32toh(message->head.magic) != WIRE_MAGIC)
		return "no message of lsmem";
	type = le16toh(message->head.type);
	if (!type || type >= WIRE_TYPES)
		return "of an unknown type";
	says = le16toh(message->head.version);
	if (says < WIRE_VERSION_MIN && !version)
		return type == WIRE_HELLO || type == WIRE_REFUSE ? NULL : "of another version";
	if (version ? says != version : type > WIRE_REFUSE)
		return "of another version";
	if (length != lengths[type] + tag || le32toh(message->head.length) != length)
		return "of a length that its type does not have";
	if (message->head.zero)
		return "a reserved field is not zero";
	switch (type) {
	case WIRE_HELLO:
		if (message->hello.zero || le16toh(message->hello.lowest) > says ||
		    le32toh(message->hello.flags) & ~(WIRE_READ_ONLY | WIRE_RECEIPTS))
			return "a reserved field is not zero";
		if (wire_check_name(message->hello.who))
			return wire_check_name(message->hello.who);
		return wire_check_name(message->hello.name);
	case WIRE_REFUSE:
		return message->refuse.who[0] ? wire_check_name(message->refuse.who) : NULL;
	case WIRE_CHALLENGE:
		return message->challenge.zero ? "a reserved field is not zero" : NULL;
	case WIRE_ACCEPT:
		if (le32toh(message->accept.flags) & ~(WIRE_VOLATILE | WIRE_HELD))
			return "a reserved field is not zero";
		return NULL;
	case WIRE_RECEIVED:
		return message->done.error ? "a reserved field is not zero" : NULL;
	default:
		return NULL;
	}
}

/* ---- Proofs ------------------------------------------------------------ */

/* Both sides have given a nonce: neither can be made to repeat a proof. */
static void begin(struct hmac_sha256_ctx *hmac, const struct secret *key, const char *side,
		  const struct wire_link *link, const struct wire_hello *hello,
		  const struct wire_challenge *challenge)
{
	__le32 qps[2] = { htole32(link->client_qp), htole32(link->server_qp) };

	hmac_sha256_set_key(hmac, key->length, key->bytes);
	/* With its zero: what follows cannot be taken for a part of it. */
	hmac_sha256_update(hmac, strlen(side) + 1, (const uint8_t *)side);
	hmac_sha256_update(hmac, sizeof(qps), (const uint8_t *)qps);
	hmac_sha256_update(hmac, sizeof(*hello), (const uint8_t *)hello);
	hmac_sha256_update(hmac, sizeof(*challenge), (const uint8_t *)challenge);
}

/**
 * wire_prove_client - the proof of the client
 * @key: the secret
 * @link: the connection
 * @hello: as it was sent
 * @challenge: as it was sent
 * @mac: out
 */
void wire_prove_client(const struct secret *key, const struct wire_link *link,
		       const struct wire_hello *hello, const struct wire_challenge *challenge,
		       uint8_t mac[WIRE_MAC])
{
	struct hmac_sha256_ctx hmac;

	begin(&hmac, key, "lsmem client", link, hello, challenge);
	hmac_sha256_digest(&hmac, WIRE_MAC, mac);
	explicit_bzero(&hmac, sizeof(hmac));	/* the secret's hash can stand for the secret */
}

/**
 * wire_prove_server - the proof of the server, which covers all that it says
 * @key: the secret
 * @link: the connection
 * @hello: as it was sent
 * @challenge: as it was sent
 * @accept: that is to be sent
 * @mac: out, may lie in @accept
 */
void wire_prove_server(const struct secret *key, const struct wire_link *link,
		       const struct wire_hello *hello, const struct wire_challenge *challenge,
		       const struct wire_accept *accept, uint8_t mac[WIRE_MAC])
{
	struct hmac_sha256_ctx hmac;

	begin(&hmac, key, "lsmem server", link, hello, challenge);
	hmac_sha256_update(&hmac, offsetof(struct wire_accept, mac), (const uint8_t *)accept);
	hmac_sha256_digest(&hmac, WIRE_MAC, mac);
	explicit_bzero(&hmac, sizeof(hmac));	/* the secret's hash can stand for the secret */
}

static void make_direction(const struct secret *key, const char *side,
			   const struct wire_link *link, const struct wire_hello *hello,
			   const struct wire_challenge *challenge,
			   struct wire_direction *direction)
{
	struct hmac_sha256_ctx hmac;
	uint8_t derived[WIRE_MAC];

	begin(&hmac, key, side, link, hello, challenge);
	hmac_sha256_digest(&hmac, sizeof(derived), derived);
	hmac_sha256_set_key(&direction->hmac, sizeof(derived), derived);
	direction->sequence = 0;
	explicit_bzero(derived, sizeof(derived));
	explicit_bzero(&hmac, sizeof(hmac));
}

/**
 * wire_directions - derive the keys of a connection
 * @key: the secret
 * @link: the connection
 * @hello: as it was sent
 * @challenge: as it was sent
 * @to_server: out
 * @to_client: out
 *
 * The keys are those of this connection and direction alone: both nonces and both queue pairs
 * are in them.
 */
void wire_directions(const struct secret *key, const struct wire_link *link,
		     const struct wire_hello *hello, const struct wire_challenge *challenge,
		     struct wire_direction *to_server, struct wire_direction *to_client)
{
	make_direction(key, "lsmem to server", link, hello, challenge, to_server);
	make_direction(key, "lsmem to client", link, hello, challenge, to_client);
}

/* The number is not sent: messages of a reliable connection come in their order, or it ends. */
static void make_tag(struct wire_direction *direction, const union wire_message *message,
		     size_t length, uint8_t tag[WIRE_TAG])
{
	__le64 sequence = htole64(direction->sequence++);

	hmac_sha256_update(&direction->hmac, sizeof(sequence), (const uint8_t *)&sequence);
	hmac_sha256_update(&direction->hmac, length, message->bytes);
	hmac_sha256_digest(&direction->hmac, WIRE_TAG, tag);
}

/**
 * wire_tag - end a message with its tag
 * @direction: to the other side; its sequence number goes on
 * @message: sealed; the tag is added to the length in its head
 * @length: of the message without the tag, at most WIRE_BYTES - WIRE_TAG
 */
void wire_tag(struct wire_direction *direction, union wire_message *message, size_t length)
{
	message->head.length = htole32((uint32_t)(length + WIRE_TAG));
	make_tag(direction, message, length, message->bytes + length);
}

/**
 * wire_tagged - is a message the one that the other side sent next?
 * @direction: from the other side; its sequence number goes on
 * @message: what came
 * @length: bytes of it, with the tag
 *
 * Return: false: it was changed, forged, replayed, or is of another connection.
 */
bool wire_tagged(struct wire_direction *direction, const union wire_message *message,
		 size_t length)
{
	uint8_t tag[WIRE_TAG];

	if (length < sizeof(message->head) + WIRE_TAG || length > WIRE_BYTES)
		return false;
	make_tag(direction, message, length - WIRE_TAG, tag);
	return memeql_sec(tag, message->bytes + length - WIRE_TAG, WIRE_TAG);
}

/**
 * wire_equal - are two proofs the same?
 * @a: one
 * @b: the other
 *
 * In a time that does not tell where they differ.
 */
bool wire_equal(const uint8_t a[WIRE_MAC], const uint8_t b[WIRE_MAC])
{
	return memeql_sec(a, b, WIRE_MAC);
}

/**
 * wire_reason - why a server refuses, in words
 * @reason: WIRE_REASON_*, or a number not known here
 */
const char *wire_reason(uint32_t reason)
{
	static const char *const reasons[WIRE_REASONS] = {
		[WIRE_REASON_VERSION] = "no version of the protocol in common",
		[WIRE_REASON_PROOF] = "the secrets differ, or it has no export of this name: \"key =\" must name the bytes that the server has as \"secret =\" of the export, or as \"key =\" of all",
		[WIRE_REASON_EXPORT] = "it has no export of this name",
		[WIRE_REASON_HELD] = "it is held",
		[WIRE_REASON_TERM] = "a primary with the same or a higher term had it",
		[WIRE_REASON_BUSY] = "the server has no room for another connection",
		[WIRE_REASON_FAR] = "the term is too far above the highest that the server knows of",
		[WIRE_REASON_FENCED] = "another primary took it over",
	};

	return reason < WIRE_REASONS && reasons[reason] ? reasons[reason] : "for a reason unknown here";
}

/**
 * wire_scheme - is a path meant to be an export of another host?
 * @path: of a backup
 */
bool wire_scheme(const char *path)
{
	return !strncmp(path, WIRE_SCHEME, strlen(WIRE_SCHEME));
}

/**
 * wire_address - parse an address
 * @text: rdma://HOST[:PORT][/NAME]
 * @address: out
 *
 * Returns whether it is one.
 */
bool wire_address(const char *text, struct wire_address *address)
{
	struct address url;

	memset(address, 0, sizeof(*address));
	if (!wire_scheme(text) || !address_parse(text, &url) || *url.query ||
	    strlen(url.path) >= sizeof(address->name))
		return false;
	strcpy(address->host, url.host);
	strcpy(address->port, *url.port ? url.port : WIRE_PORT);
	strcpy(address->name, url.path);
	return !*url.path || !wire_check_name(address->name);
}
