// SPDX-License-Identifier: GPL-2.0
/*
 * Any messages to both sides of the protocol between a daemon and the server of its backup.
 * Input: steps, each
 *
 *	byte 0	bit 0: the message is for the client, else for the server; bit 1: make the
 *		head valid; bit 2: make the proof valid; bit 3: first answer all requests;
 *		bit 4: first send a request; bit 5: a write; bit 6: first give receipts;
 *		bit 7: do not make the tag valid
 *	byte 1	type, with bit 1
 *	byte 2	length of the bytes that follow; with bit 1 they go behind the head
 *
 * Runs the steps with a server of each version, and with a client that writes, or one that reads, and asks for the hold where the
 * other would write.
 */
#include <string.h>

#include "remote/session.h"
#include "image.h"

#define SLOTS	8u
#define BYTES	(1u << 20)

static const struct secret key = { 16, "sixteen letters." };
static const struct session_setup setups[2] = {
	{ .lowest = WIRE_VERSION_MIN, .highest = WIRE_VERSION_MAX, .link = { 1, 2 }, .nonce = "client" },
	{ .lowest = WIRE_VERSION_MIN, .highest = WIRE_VERSION_MAX, .link = { 1, 2 }, .nonce = "server" },
};
static const struct session_export export = {
	.bytes = BYTES, .address = 0x100000, .slots = SLOTS, .slot_bytes = 1u << 16,
	.logical = 512, .physical = 4096,
};

struct both {
	struct session server, client;
	bool proved, accepted, holds;
	uint8_t asked[SLOTS], wanted[WIRE_SLOTS];
};

static void serve(struct both *both, const union wire_message *message, size_t length, bool right)
{
	struct session *s = &both->server;
	bool over = s->state == SESSION_OVER;
	const struct session_io *io = &s->io;
	uint32_t slot;

	switch (session_receive(s, message, length)) {
	case SESSION_ASK:
		if (session_read_only(s) && both->proved)
			fuzz_fail("a reader asks again");
		if (both->proved) {	/* HOLD */
			for (slot = 0; slot < SLOTS; slot++)
				if (both->asked[slot])
					fuzz_fail("the hold is asked for while a request is in flight");
			session_grant(s, 1);
			break;
		}
		if (!right)
			fuzz_fail("an export is asked for without a proof");
		both->proved = true;
		session_accept(s, &export);
		break;
	case SESSION_IO:
		if (!both->proved)
			fuzz_fail("I/O without a proof");
		if (io->slot >= SLOTS || both->asked[io->slot])
			fuzz_fail("slot %u has two requests", io->slot);
		if (io->type == WIRE_FLUSH ? io->length || io->offset :
		    !io->length || io->length > export.slot_bytes ||
		    (io->length | io->offset) % LSMEM_BLOCK || io->offset > BYTES ||
		    io->length > BYTES - io->offset)
			fuzz_fail("a request outside its bounds");
		if ((io->type == WIRE_WRITE || io->type == WIRE_WRITE_DURABLE) &&
		    session_read_only(s))
			fuzz_fail("a reader writes");
		both->asked[io->slot] = 1;
		break;
	case SESSION_SEND:
	case SESSION_SEND_CLOSE:
		if (wire_check(&s->out, le32toh(s->out.head.length), s->version, 0))
			fuzz_fail("an answer is no message");
		break;
	case SESSION_CLOSE:
		if (!s->why || s->state != SESSION_OVER)
			fuzz_fail("closed, and not said why");
		return;
	default:
		fuzz_fail("a server does what a client does");
	}
	if (over)
		fuzz_fail("something is done after the end");
}

static void call(struct both *both, const union wire_message *message, size_t length, bool right)
{
	struct session *s = &both->client;
	const struct wire_accept *accept = &s->accept;

	switch (session_answer(s, message, length)) {
	case SESSION_READY:
		if (both->accepted && !both->holds)
			fuzz_fail("a hold is granted that was not asked for");
		both->holds = false;
		if (!right && !both->accepted)
			fuzz_fail("a server is believed that has proved nothing");
		both->accepted = true;
		if (!le32toh(accept->slots) || le32toh(accept->slots) > WIRE_SLOTS)
			fuzz_fail("%u slots", le32toh(accept->slots));
		break;
	case SESSION_IO:
		if (!both->accepted || s->io.slot >= WIRE_SLOTS || !both->wanted[s->io.slot])
			fuzz_fail("an answer to what was not asked");
		both->wanted[s->io.slot] = 0;
		session_release(s, s->io.slot);
		break;
	case SESSION_RECEIVED:
		if (!both->accepted || s->io.slot >= WIRE_SLOTS || both->wanted[s->io.slot] != 2)
			fuzz_fail("a receipt of what was not sent");
		both->wanted[s->io.slot] = 1;
		break;
	case SESSION_SEND:
		break;
	case SESSION_CLOSE:
		if (!s->why || s->state != SESSION_OVER)
			fuzz_fail("closed, and not said why");
		break;
	default:
		fuzz_fail("a client does what a server does");
	}
}

static void give_receipts(struct both *both)
{
	uint32_t slot;

	for (slot = 0; slot < SLOTS && both->server.state == SESSION_SERVING; slot++)
		if (both->asked[slot] && session_received(&both->server, slot) &&
		    session_received(&both->server, slot))
			fuzz_fail("a receipt is given twice");
}

static void answer(struct both *both)
{
	uint32_t slot;

	for (slot = 0; slot < SLOTS; slot++) {
		if (!both->asked[slot] || both->server.state != SESSION_SERVING)
			continue;
		both->asked[slot] = 0;
		session_done(&both->server, slot, 0);
	}
}

static void ask(struct both *both, bool write)
{
	int slot = session_slot(&both->client);

	if (both->client.state != SESSION_SERVING || slot < 0)
		return;
	if (write && session_read_only(&both->client)) {
		if (!both->client.in_use)
			both->holds = session_hold(&both->client, 1, WIRE_RECEIPTS);
		return;
	}
	session_request(&both->client, write ? WIRE_WRITE : WIRE_READ, (uint32_t)slot, 0,
			LSMEM_BLOCK);
	both->wanted[slot] = 1 + write;
}

/* Is the proof of a message valid?  @make: make it valid first. */
static bool proof(struct both *both, union wire_message *message, bool client, bool make)
{
	struct session *s = client ? &both->client : &both->server;
	uint8_t *mac = client ? message->accept.mac : message->proof.mac, wanted[WIRE_MAC];

	if (client)
		wire_prove_server(&key, &s->setup.link, &s->hello, &s->challenge, &message->accept, wanted);
	else
		wire_prove_client(&key, &s->setup.link, &s->hello, &s->challenge, wanted);
	if (make)
		memcpy(mac, wanted, WIRE_MAC);
	return !memcmp(mac, wanted, WIRE_MAC);
}

static const struct secret *secret(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return &key;
}

/* Is the tag of a message valid?  @make: make it valid. */
static bool tag(const struct session *to, union wire_message *message, size_t length, bool make)
{
	struct wire_direction direction = to->from_peer;
	union wire_message wanted = *message;

	if (!to->tag)
		return true;
	if (length < WIRE_TAG || length > WIRE_BYTES)
		return false;
	wire_tag(&direction, &wanted, length - WIRE_TAG);
	if (make)
		*message = wanted;
	return !memcmp(message, &wanted, length);
}

static void converse(const uint8_t *data, size_t size, uint16_t version, bool reader)
{
	struct session_setup server = setups[1];
	struct both both = { 0 };

	server.highest = version;
	session_begin(&both.server, &server, secret, NULL);
	session_call(&both.client, &setups[0], &key, "data", "db1", 1, reader ? WIRE_READ_ONLY : WIRE_RECEIPTS);
	while (size >= 3) {
		uint8_t flags = data[0], type = data[1];
		struct session *to = flags & 1 ? &both.client : &both.server;
		union wire_message message;
		size_t length, from = 0;
		bool right, tagged, open;

		memset(&message, 0xa5, sizeof(message));
		if (flags & 64)
			give_receipts(&both);
		if (flags & 8)
			answer(&both);
		if (flags & 16)
			ask(&both, flags & 32);
		length = data[2];
		data += 3;
		size -= 3;
		if (length > size)
			length = size;
		if (flags & 2 && type && type < WIRE_TYPES) {
			wire_seal(&message, type, to->version ? to->version : WIRE_VERSION_MAX);
			from = sizeof(message.head);
		}
		if (length > WIRE_BYTES - from)
			length = WIRE_BYTES - from;
		memcpy(message.bytes + from, data, length);
		data += length;
		size -= length;
		right = proof(&both, &message, flags & 1, flags & 4);
		length += from;
		if (from) {
			length = wire_length(type) + to->tag;
			message.head.length = htole32((uint32_t)length);
		}
		tagged = tag(to, &message, length, !(flags & 128));
		open = to->state != SESSION_OVER;
		if (flags & 1)
			call(&both, &message, length, right);
		else
			serve(&both, &message, length, right);
		if (open && !tagged && to->state != SESSION_OVER)
			fuzz_fail("a message without a right tag is taken");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint16_t version, reader;

	for (version = WIRE_VERSION_MIN; version <= WIRE_VERSION_MAX; version++)
		for (reader = 0; reader < 2; reader++)
			converse(data, size, version, reader);
	return 0;
}
