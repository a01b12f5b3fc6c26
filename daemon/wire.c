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
 */
void wire_seal(union wire_message *message, enum wire_type type)
{
	message->head.magic = htole32(WIRE_MAGIC);
	message->head.version = htole16(WIRE_VERSION);
	message->head.type = htole16(type);
	message->head.length = htole32(lengths[type]);
	message->head.zero = 0;
}

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
 * Only what can be told from the message alone: names end, reserved fields are
 * zero, the length is that of the type.  A head of another version is let
 * through with the type HELLO or REFUSE, which tell each other's versions.
 *
 * Returns NULL, or what is wrong.
 */
const char *wire_check(const union wire_message *message, size_t length)
{
	uint32_t type;

	if (length < sizeof(message->head) || length > WIRE_BYTES)
		return "shorter than a head, or longer than any message";
	if (le32toh(message->head.magic) != WIRE_MAGIC)
		return "no message of lsmem";
	type = le16toh(message->head.type);
	if (!type || type >= WIRE_TYPES)
		return "of an unknown type";
	if (le16toh(message->head.version) != WIRE_VERSION)
		return type == WIRE_HELLO || type == WIRE_REFUSE ? NULL : "of another version";
	if (length != lengths[type] || le32toh(message->head.length) != length)
		return "of a length that its type does not have";
	if (message->head.zero)
		return "a reserved field is not zero";
	switch (type) {
	case WIRE_HELLO:
		if (message->hello.zero ||
		    le32toh(message->hello.flags) & ~(WIRE_READ_ONLY | WIRE_RECEIPTS))
			return "a reserved field is not zero";
		if (wire_check_name(message->hello.who))
			return wire_check_name(message->hello.who);
		return wire_check_name(message->hello.name);
	case WIRE_REFUSE:
		if (message->refuse.zero)
			return "a reserved field is not zero";
		return message->refuse.who[0] ? wire_check_name(message->refuse.who) : NULL;
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
static void begin(struct hmac_sha256_ctx *hmac, const struct wire_key *key, const char *side,
		  const struct wire_hello *hello, const struct wire_challenge *challenge)
{
	hmac_sha256_set_key(hmac, key->length, key->bytes);
	/* With its zero: what follows cannot be taken for a part of it. */
	hmac_sha256_update(hmac, strlen(side) + 1, (const uint8_t *)side);
	hmac_sha256_update(hmac, sizeof(*hello), (const uint8_t *)hello);
	hmac_sha256_update(hmac, sizeof(*challenge), (const uint8_t *)challenge);
}

/**
 * wire_prove_client - the proof of whoever asks
 * @key: the secret
 * @hello, @challenge: what has been said
 * @mac: out
 */
void wire_prove_client(const struct wire_key *key, const struct wire_hello *hello,
		       const struct wire_challenge *challenge, uint8_t mac[WIRE_MAC])
{
	struct hmac_sha256_ctx hmac;

	begin(&hmac, key, "lsmem client", hello, challenge);
	hmac_sha256_digest(&hmac, WIRE_MAC, mac);
	explicit_bzero(&hmac, sizeof(hmac));	/* the secret's hash can stand for the secret */
}

/**
 * wire_prove_server - the proof of whoever answers, of all that it says
 * @key: the secret
 * @hello, @challenge: what has been said
 * @accept: what is being said
 * @mac: out, may lie in @accept
 */
void wire_prove_server(const struct wire_key *key, const struct wire_hello *hello,
		       const struct wire_challenge *challenge,
		       const struct wire_accept *accept, uint8_t mac[WIRE_MAC])
{
	struct hmac_sha256_ctx hmac;

	begin(&hmac, key, "lsmem server", hello, challenge);
	hmac_sha256_update(&hmac, offsetof(struct wire_accept, mac), (const uint8_t *)accept);
	hmac_sha256_digest(&hmac, WIRE_MAC, mac);
	explicit_bzero(&hmac, sizeof(hmac));	/* the secret's hash can stand for the secret */
}

/* In a time that does not tell where they differ. */
bool wire_equal(const uint8_t a[WIRE_MAC], const uint8_t b[WIRE_MAC])
{
	return memeql_sec(a, b, WIRE_MAC);
}

const char *wire_reason(uint32_t reason)
{
	static const char *const reasons[WIRE_REASONS] = {
		[WIRE_REASON_VERSION] = "it speaks another version of the protocol; install the same lsmem on both",
		[WIRE_REASON_PROOF] = "the secrets differ: \"key =\" must name the same bytes on both",
		[WIRE_REASON_EXPORT] = "it has no export of this name",
		[WIRE_REASON_HELD] = "it is held",
		[WIRE_REASON_EPOCH] = "a primary with the same or a higher epoch had it",
		[WIRE_REASON_BUSY] = "the server has no room for another connection",
		[WIRE_REASON_FENCED] = "another primary took it over",
	};

	return reason < WIRE_REASONS && reasons[reason] ? reasons[reason] : "for a reason unknown here";
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
	const char *end;

	memset(address, 0, sizeof(*address));
	if (strncmp(text, WIRE_SCHEME, strlen(WIRE_SCHEME)))
		return false;
	strcpy(address->port, WIRE_PORT);
	end = address_host(text + strlen(WIRE_SCHEME), address->host, sizeof(address->host),
			   address->port);
	if (!end)
		return false;
	if (*end == '/')
		memcpy(address->name, end + 1, strnlen(end + 1, sizeof(address->name)));
	return !*end || !wire_check_name(address->name);
}
