// SPDX-License-Identifier: GPL-2.0
/* The messages of the protocol: see wire.h. */
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
	[WIRE_STORE] = sizeof(struct wire_store),
	[WIRE_BLOCK] = sizeof(struct wire_block),
	[WIRE_MOVE] = sizeof(struct wire_move),
	[WIRE_READY] = sizeof(struct wire_ready),
	[WIRE_TAKEN] = sizeof(struct wire_move),
	[WIRE_CLOSE] = sizeof(struct wire_move),
	[WIRE_GIVE_UP] = sizeof(struct wire_give_up),
	[WIRE_HOLD] = sizeof(struct wire_hold),
	[WIRE_GRANTED] = sizeof(struct wire_hold),
};

/**
 * wire_length - length of a message in bytes, without a tag
 * @type: below WIRE_TYPES
 */
size_t wire_length(enum wire_type type)
{
	return lengths[type];
}

/**
 * wire_seal - fill in the head of a message
 * @message: the caller fills in the rest
 * @type: of the message
 * @version: for the head
 */
void wire_seal(union wire_message *message, enum wire_type type, unsigned int version)
{
	message->head.magic = htole32(WIRE_MAGIC);
	message->head.version = htole16((uint16_t)version);
	message->head.type = htole16(type);
	message->head.length = htole32(lengths[type]);
	message->head.zero = 0;
}

/* Are these @size bytes a text of characters from @first to '~', not empty, with zeroes to its end? */
static const char *check_text(const char *text, size_t size, char first)
{
	size_t i, length = strnlen(text, size);

	if (!length || length == size)
		return "a name or a text is empty or has no end";
	for (i = 0; i < size; i++)
		if (i < length ? text[i] < first || text[i] > '~' : text[i])
			return "a name or a text has bytes that it must not have";
	return NULL;
}

/**
 * wire_check_name - is a name valid?
 * @name: from a peer, not necessarily with a final zero
 *
 * Return: NULL, or what is wrong with it.
 */
const char *wire_check_name(const char name[WIRE_NAME])
{
	return check_text(name, WIRE_NAME, ' ' + 1);
}

/**
 * wire_put_cause - fill in the text of GIVE_UP
 * @cause: out: as wire_check() takes it
 * @text: any text: what is too long is cut off, and bytes that are not printable become "?"
 */
void wire_put_cause(char cause[WIRE_CAUSE], const char *text)
{
	size_t i;

	memset(cause, 0, WIRE_CAUSE);
	for (i = 0; i < WIRE_CAUSE - 1 && text[i]; i++)
		cause[i] = text[i] < ' ' || text[i] > '~' ? '?' : text[i];
	if (!i)
		cause[0] = '?';
}

static const char *check_give_up(const struct wire_give_up *give_up)
{
	uint32_t error = le32toh(give_up->error);

	if (give_up->zero)
		return "a reserved field is not zero";
	if (!error || error > WIRE_ERRNO)
		return "an error that there is not";
	return check_text(give_up->cause, WIRE_CAUSE, ' ');
}

static const char *check_hello(const struct wire_hello *hello)
{
	uint32_t flags = le32toh(hello->flags), lowest = le16toh(hello->lowest);

	if (hello->zero || lowest > le16toh(hello->head.version) ||
	    flags & ~(WIRE_READ_ONLY | WIRE_RECEIPTS | WIRE_MOVES))
		return "a reserved field is not zero";
	/* So no version is agreed on that has no moves. */
	if (flags & WIRE_MOVES && (flags != WIRE_MOVES || lowest < WIRE_VERSION_MOVE))
		return "a store cannot move so";
	if (wire_check_name(hello->who))
		return wire_check_name(hello->who);
	return wire_check_name(hello->name);
}

/* From which version on there are messages of this type; 0: in all. */
static unsigned int first_version(enum wire_type type)
{
	return type >= WIRE_HOLD ? WIRE_VERSION_HOLD : type >= WIRE_GIVE_UP ? WIRE_VERSION_GIVE_UP :
	       type >= WIRE_STORE ? WIRE_VERSION_MOVE : 0;
}

/**
 * wire_check - is a message valid?
 * @message: unchecked, WIRE_BYTES of room
 * @length: bytes received
 * @version: the version in use; 0: not agreed on yet
 * @tag: bytes of the tag at the end, which this function does not check
 *
 * Checks what the message alone shows: names are valid, reserved fields are zero, the length is
 * that of the type. Of a HELLO or REFUSE below WIRE_VERSION_MIN it checks only the head, from
 * which the receiver learns the version.
 *
 * Return: NULL, or what is wrong.
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
	if (says < first_version(type))
		return "of another version";
	if (length != lengths[type] + tag || le32toh(message->head.length) != length)
		return "of a length that its type does not have";
	if (message->head.zero)
		return "a reserved field is not zero";
	switch (type) {
	case WIRE_HELLO:
		return check_hello(&message->hello);
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
	case WIRE_STORE:
		return message->store.zero ? "a reserved field is not zero" : NULL;
	case WIRE_TAKEN:
	case WIRE_CLOSE:
		return message->move.last ? "a reserved field is not zero" : NULL;
	case WIRE_GIVE_UP:
		return check_give_up(&message->give_up);
	case WIRE_HOLD:
	case WIRE_GRANTED:
		return message->hold.zero || le32toh(message->hold.flags) & ~(type == WIRE_HOLD ? WIRE_RECEIPTS : 0u) ?
		       "a reserved field is not zero" : NULL;
	default:
		return NULL;
	}
}

/* ---- Proofs ------------------------------------------------------------ */

/* A move has a key of its own, derived from the secret: its proofs and tags are none of a backup's. */
static void set_key(struct hmac_sha256_ctx *hmac, const struct secret *key, const struct wire_hello *hello)
{
	static const char purpose[] = "lsmem move";
	uint8_t derived[WIRE_MAC];

	hmac_sha256_set_key(hmac, key->length, key->bytes);
	if (!(le32toh(hello->flags) & WIRE_MOVES))
		return;
	hmac_sha256_update(hmac, sizeof(purpose), (const uint8_t *)purpose);
	hmac_sha256_digest(hmac, sizeof(derived), derived);
	hmac_sha256_set_key(hmac, sizeof(derived), derived);
	explicit_bzero(derived, sizeof(derived));
}

/* HELLO and CHALLENGE have a nonce of each side: an attacker cannot replay a proof. */
static void begin(struct hmac_sha256_ctx *hmac, const struct secret *key, const char *side,
		  const struct wire_link *link, const struct wire_hello *hello,
		  const struct wire_challenge *challenge)
{
	__le32 qps[2] = { htole32(link->client_qp), htole32(link->server_qp) };

	set_key(hmac, key, hello);
	/* Include the final zero, to separate @side from the bytes that follow. */
	hmac_sha256_update(hmac, strlen(side) + 1, (const uint8_t *)side);
	hmac_sha256_update(hmac, sizeof(qps), (const uint8_t *)qps);
	hmac_sha256_update(hmac, sizeof(*hello), (const uint8_t *)hello);
	hmac_sha256_update(hmac, sizeof(*challenge), (const uint8_t *)challenge);
}

/**
 * wire_prove_client - compute the proof of the client
 * @key: the secret
 * @link: the queue pairs of the connection
 * @hello: as the client sent it
 * @challenge: as the server sent it
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
 * wire_prove_server - compute the proof of the server, which covers ACCEPT
 * @key: the secret
 * @link: the queue pairs of the connection
 * @hello: as the client sent it
 * @challenge: as the server sent it
 * @accept: complete except for its @mac
 * @mac: out; may be @accept->mac
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
 * wire_directions - derive the tag keys of a connection
 * @key: the secret
 * @link: the queue pairs of the connection
 * @hello: as the client sent it
 * @challenge: as the server sent it
 * @to_server: out: for messages to the server
 * @to_client: out: for messages to the client
 *
 * Both nonces and both queue pairs go into the keys: no other connection or direction has them.
 */
void wire_directions(const struct secret *key, const struct wire_link *link,
		     const struct wire_hello *hello, const struct wire_challenge *challenge,
		     struct wire_direction *to_server, struct wire_direction *to_client)
{
	make_direction(key, "lsmem to server", link, hello, challenge, to_server);
	make_direction(key, "lsmem to client", link, hello, challenge, to_client);
}

/* No message carries its sequence number: a reliable connection delivers in order or ends. */
static void make_tag(struct wire_direction *direction, const union wire_message *message,
		     size_t length, uint8_t tag[WIRE_TAG])
{
	__le64 sequence = htole64(direction->sequence++);

	hmac_sha256_update(&direction->hmac, sizeof(sequence), (const uint8_t *)&sequence);
	hmac_sha256_update(&direction->hmac, length, message->bytes);
	hmac_sha256_digest(&direction->hmac, WIRE_TAG, tag);
}

/**
 * wire_tag - append the tag to a message
 * @direction: to the other side; its sequence number grows by one
 * @message: complete; the length in its head grows by WIRE_TAG
 * @length: bytes without the tag, at most WIRE_BYTES - WIRE_TAG
 */
void wire_tag(struct wire_direction *direction, union wire_message *message, size_t length)
{
	message->head.length = htole32((uint32_t)(length + WIRE_TAG));
	make_tag(direction, message, length, message->bytes + length);
}

/**
 * wire_tagged - is a message the one that the other side sent next?
 * @direction: from the other side; its sequence number grows by one
 * @message: unchecked, WIRE_BYTES of room
 * @length: bytes received, including the tag
 *
 * Return: false: a third party has changed, forged, replayed or dropped a message.
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
 * The time that it takes does not depend on where they differ.
 */
bool wire_equal(const uint8_t a[WIRE_MAC], const uint8_t b[WIRE_MAC])
{
	return memeql_sec(a, b, WIRE_MAC);
}

/**
 * wire_reason - describe why a server refuses
 * @reason: WIRE_REASON_*, or any other number
 */
const char *wire_reason(uint32_t reason)
{
	static const char *const reasons[WIRE_REASONS] = {
		[WIRE_REASON_VERSION] = "no version of the protocol in common",
		[WIRE_REASON_PROOF] = "the secrets differ, or it has no export of this name: \"key =\" must name the bytes that the server has as \"secret =\" of the export, or as \"key =\" of all",
		[WIRE_REASON_EXPORT] = "it has no export of this name, or no store",
		[WIRE_REASON_HELD] = "it is held",
		[WIRE_REASON_TERM] = "a primary with the same or a higher term had it",
		[WIRE_REASON_BUSY] = "the server has no room for another connection",
		[WIRE_REASON_FAR] = "the term is too far above the highest that the server knows of",
		[WIRE_REASON_PURPOSE] = "backups and stores that move have listeners of their own: this one is for the other",
		[WIRE_REASON_CANCELLED] = "an operator has cancelled the move",
		[WIRE_REASON_FENCED] = "another primary took it over",
	};

	return reason < WIRE_REASONS && reasons[reason] ? reasons[reason] : "for a reason unknown here";
}

/**
 * wire_scheme - does a path begin with "rdma://"?
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
 * Return: whether @text is such an address.
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
