// SPDX-License-Identifier: GPL-2.0
/* The protocol between client and server of a backup, and the hold that decides which may write. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "remote/hold.h"
#include "remote/session.h"
#include "lsmem_format.h"
#include "../common/tap.h"

#define BYTES	(64u << 20)
#define SLOTS	4u

static const struct secret key = { 16, "sixteen letters." };
static const struct secret other_key = { 16, "sixteen Letters." };
static const struct session_setup client_setup = {
	.lowest = WIRE_VERSION_MIN, .highest = WIRE_VERSION_MAX, .link = { 17, 23 },
	.nonce = "client",
};
static const struct session_setup server_setup = {
	.lowest = WIRE_VERSION_MIN, .highest = WIRE_VERSION_MAX, .link = { 17, 23 },
	.nonce = "server",
};

/* Export "data" has the secret; "other" and exports that do not exist have another one. */
static const struct secret *secret(void *arg, const char *name)
{
	(void)arg;
	return !strcmp(name, "data") ? &key : &other_key;
}

static const struct session_export export = {
	.bytes = BYTES, .address = 0x100000, .term = 3, .slots = SLOTS, .slot_bytes = 1u << 18,
	.key = 77, .logical = 512, .physical = 4096, .flags = WIRE_VOLATILE,
};

static enum session_do to_server(struct session *server, const struct session *client)
{
	return session_receive(server, &client->out, le32toh(client->out.head.length));
}

static enum session_do to_client(struct session *client, const struct session *server)
{
	return session_answer(client, &server->out, le32toh(server->out.head.length));
}

/* Give @message the tag of the next message to @to, so that @to accepts it. */
static void tag_again(const struct session *to, union wire_message *message)
{
	struct wire_direction direction = to->from_peer;

	if (to->tag)
		wire_tag(&direction, message, wire_length(le16toh(message->head.type)));
}

static enum session_do say(struct session *client, const union wire_message *message)
{
	union wire_message copy = *message;

	tag_again(client, &copy);
	return session_answer(client, &copy, le32toh(copy.head.length));
}

static void begin(struct session *client, struct session *server, uint32_t flags)
{
	session_call(client, &client_setup, &key, "data", "db1", 5, flags);
	session_begin(server, &server_setup, secret, NULL);
}

/* Do the handshake. */
static bool converse(struct session *client, struct session *server, uint32_t flags)
{
	begin(client, server, flags);
	CHECK(to_server(server, client) == SESSION_SEND);
	CHECK(to_client(client, server) == SESSION_SEND);
	CHECK(to_server(server, client) == SESSION_ASK);
	CHECK(session_term(server) == 5 && !strcmp(server->hello.name, "data") &&
	      !strcmp(server->hello.who, "db1"));
	session_accept(server, &export);
	CHECK(to_client(client, server) == SESSION_READY);
	CHECK(le64toh(client->accept.bytes) == BYTES && le32toh(client->accept.key) == 77);
	return true;
}

static bool test_requests(void)
{
	static const enum wire_type types[] = {
		WIRE_WRITE, WIRE_READ, WIRE_WRITE_DURABLE, WIRE_FLUSH,
	};
	struct session client, server;
	uint32_t i;

	CHECK(converse(&client, &server, 0));
	for (i = 0; i < 4; i++) {
		int slot = session_slot(&client);
		uint32_t length = types[i] == WIRE_FLUSH ? 0 : 8192;

		CHECK(slot >= 0);
		session_request(&client, types[i], (uint32_t)slot, length, length);
		CHECK(to_server(&server, &client) == SESSION_IO);
		CHECK(server.io.type == types[i] && server.io.length == length &&
		      server.io.offset == length && server.io.slot == (uint32_t)slot);
		session_done(&server, server.io.slot, i == 1 ? -EIO : 0);
		CHECK(to_client(&client, &server) == SESSION_IO);
		CHECK(client.io.type == types[i] && client.io.error == (i == 1 ? -EIO : 0));
		/* A second answer to the same request. */
		if (i == 3) {
			CHECK(to_client(&client, &server) == SESSION_CLOSE);
			return true;
		}
		session_release(&client, (uint32_t)slot);
	}
	return false;
}

/* The receipt of a write: once, before its answer, and only to a client that asked for receipts. */
static bool test_receipts(void)
{
	static const enum wire_type types[] = { WIRE_READ, WIRE_FLUSH };
	struct session client, server;
	union wire_message receipt;
	uint32_t i;

	CHECK(converse(&client, &server, WIRE_RECEIPTS));
	session_request(&client, WIRE_WRITE, 2, 0, LSMEM_BLOCK);
	CHECK(to_server(&server, &client) == SESSION_IO);
	CHECK(session_received(&server, 2) && !wire_check(&server.out, sizeof(server.out.done) + WIRE_TAG,
						   WIRE_VERSION_MAX, WIRE_TAG));
	receipt = server.out;
	CHECK(to_client(&client, &server) == SESSION_RECEIVED && client.io.slot == 2);
	CHECK(!session_received(&server, 2) && client.busy[2] && server.in_use == 1);
	session_done(&server, 2, 0);
	CHECK(to_client(&client, &server) == SESSION_IO && !client.io.error);
	session_release(&client, 2);
	/* The same slot again; the answer without a receipt is enough. */
	session_request(&client, WIRE_WRITE, 2, 0, LSMEM_BLOCK);
	CHECK(to_server(&server, &client) == SESSION_IO);
	session_done(&server, 2, -EIO);
	CHECK(to_client(&client, &server) == SESSION_IO && client.io.error == -EIO);
	/* A receipt after the answer. */
	CHECK(say(&client, &receipt) == SESSION_CLOSE);
	/* A receipt twice. */
	CHECK(converse(&client, &server, WIRE_RECEIPTS));
	session_request(&client, WIRE_WRITE, 2, 0, LSMEM_BLOCK);
	CHECK(say(&client, &receipt) == SESSION_RECEIVED);
	CHECK(say(&client, &receipt) == SESSION_CLOSE);
	/* The receipt of a read or a flush; without having asked; of no slot. */
	for (i = 0; i < 2; i++) {
		CHECK(converse(&client, &server, WIRE_RECEIPTS));
		session_request(&client, types[i], 2, 0, i ? 0 : LSMEM_BLOCK);
		CHECK(to_server(&server, &client) == SESSION_IO && !session_received(&server, 2));
		CHECK(say(&client, &receipt) == SESSION_CLOSE);
	}
	CHECK(converse(&client, &server, 0));
	session_request(&client, WIRE_WRITE, 2, 0, LSMEM_BLOCK);
	CHECK(to_server(&server, &client) == SESSION_IO && !session_received(&server, 2));
	CHECK(say(&client, &receipt) == SESSION_CLOSE);
	CHECK(converse(&client, &server, WIRE_RECEIPTS));
	receipt.done.slot = htole32(SLOTS);
	CHECK(say(&client, &receipt) == SESSION_CLOSE);
	/* A receipt must not have an error. */
	receipt.done.error = htole32(5);
	CHECK(wire_check(&receipt, sizeof(receipt.done) + WIRE_TAG, WIRE_VERSION_MAX, WIRE_TAG));
	/* A client must not send a receipt, nor ask for unknown features. */
	CHECK(converse(&client, &server, WIRE_RECEIPTS));
	session_done(&client, 0, 0);
	client.out.head.type = htole16(WIRE_RECEIVED);
	tag_again(&server, &client.out);
	CHECK(to_server(&server, &client) == SESSION_CLOSE);
	begin(&client, &server, WIRE_MOVES << 1);
	CHECK(to_server(&server, &client) == SESSION_CLOSE);
	return true;
}

static bool test_all_slots(void)
{
	struct session client, server;
	uint32_t i;

	CHECK(converse(&client, &server, 0));
	for (i = 0; i < SLOTS; i++) {
		CHECK(session_slot(&client) == (int)i);
		session_request(&client, WIRE_WRITE, i, 0, LSMEM_BLOCK);
		CHECK(to_server(&server, &client) == SESSION_IO);
	}
	CHECK(session_slot(&client) == -1);
	CHECK(server.in_use == SLOTS);
	for (i = SLOTS; i--;) {
		session_done(&server, i, 0);
		CHECK(to_client(&client, &server) == SESSION_IO);
		session_release(&client, i);
	}
	CHECK(!server.in_use && !client.in_use && !session_slot(&client));
	return true;
}

/* Requests that end the connection: each row is one. */
static bool test_bad_requests(void)
{
	static const struct {
		enum wire_type type;
		uint32_t slot, length;
		uint64_t offset;
	} bad[] = {
		{ WIRE_WRITE, SLOTS, 4096, 0 },
		{ WIRE_WRITE, UINT32_MAX, 4096, 0 },
		{ WIRE_WRITE, 0, 0, 0 },
		{ WIRE_WRITE, 0, 4095, 0 },
		{ WIRE_WRITE, 0, (1u << 18) + 4096, 0 },
		{ WIRE_WRITE, 0, 4096, 512 },
		{ WIRE_WRITE, 0, 4096, BYTES },
		{ WIRE_WRITE, 0, 8192, BYTES - 4096 },
		{ WIRE_READ, 0, 8192, UINT64_MAX & ~4095ull },
		{ WIRE_READ, 0, 0, 0 },
		{ WIRE_FLUSH, 0, 4096, 0 },
		{ WIRE_FLUSH, 0, 0, 4096 },
		{ WIRE_DONE, 0, 0, 0 },
		{ WIRE_HELLO, 0, 0, 0 },
	};
	struct session client, server;
	uint32_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(converse(&client, &server, 0));
		session_request(&client, bad[i].type, 0, bad[i].offset, bad[i].length);
		client.out.request.slot = htole32(bad[i].slot);
		tag_again(&server, &client.out);
		if (to_server(&server, &client) != SESSION_CLOSE || !server.why ||
		    server.state != SESSION_OVER) {
			tap_note("row %u was taken", i);
			return false;
		}
	}
	CHECK(converse(&client, &server, 0));
	session_request(&client, WIRE_WRITE, 1, 0, 4096);
	CHECK(to_server(&server, &client) == SESSION_IO);
	CHECK(to_server(&server, &client) == SESSION_CLOSE);
	CHECK(converse(&client, &server, WIRE_READ_ONLY));
	session_request(&client, WIRE_READ, 0, 0, 4096);
	CHECK(to_server(&server, &client) == SESSION_IO);
	session_request(&client, WIRE_WRITE, 1, 0, 4096);
	CHECK(to_server(&server, &client) == SESSION_CLOSE);
	return true;
}

static bool test_secrets(void)
{
	struct session client, server;
	union wire_message proof;

	/* The client does not know the secret. */
	begin(&client, &server, 0);
	client.key = &other_key;
	to_server(&server, &client);
	to_client(&client, &server);
	CHECK(to_server(&server, &client) == SESSION_SEND_CLOSE);
	CHECK(to_client(&client, &server) == SESSION_CLOSE);
	CHECK(le32toh(client.refused.reason) == WIRE_REASON_PROOF);
	/* The server does not know the secret. */
	begin(&client, &server, 0);
	to_server(&server, &client);
	to_client(&client, &server);
	CHECK(to_server(&server, &client) == SESSION_ASK);
	server.key = &other_key;
	session_accept(&server, &export);
	CHECK(to_client(&client, &server) == SESSION_CLOSE && !client.refused.reason);
	/* A proof is not valid twice: it depends on the challenge. */
	begin(&client, &server, 0);
	to_server(&server, &client);
	to_client(&client, &server);
	proof = client.out;
	session_begin(&server, &client_setup, secret, NULL);
	session_call(&client, &client_setup, &key, "data", "db1", 5, 0);
	CHECK(to_server(&server, &client) == SESSION_SEND);
	CHECK(session_receive(&server, &proof, sizeof(proof.proof)) == SESSION_SEND_CLOSE);
	/* The proof of the client is not valid as that of the server. */
	begin(&client, &server, 0);
	to_server(&server, &client);
	to_client(&client, &server);
	to_server(&server, &client);
	session_accept(&server, &export);
	memcpy(server.out.accept.mac, client.out.proof.mac, WIRE_MAC);
	CHECK(to_client(&client, &server) == SESSION_CLOSE);
	return true;
}

/* A change of any byte of the handshake is found. */
static bool test_changed(void)
{
	struct session client, server;
	uint32_t i, length = sizeof(struct wire_accept);

	for (i = sizeof(struct wire_head); i < sizeof(struct wire_hello); i++) {
		begin(&client, &server, 0);
		client.out.bytes[i] ^= i < 17 || i == offsetof(struct wire_hello, features) ? 1 : 2;
		if (to_server(&server, &client) != SESSION_SEND)
			continue;
		CHECK(to_client(&client, &server) == SESSION_SEND);
		CHECK(to_server(&server, &client) == SESSION_SEND_CLOSE);
	}
	for (i = 0; i < length; i++) {
		begin(&client, &server, 0);
		to_server(&server, &client);
		to_client(&client, &server);
		to_server(&server, &client);
		session_accept(&server, &export);
		server.out.bytes[i] ^= 1;
		CHECK(session_answer(&client, &server.out, length) == SESSION_CLOSE);
	}
	return true;
}

/* Messages out of turn, and requests before the proof, end the connection. */
static bool test_turns(void)
{
	struct session client, server;
	union wire_message request = { 0 };
	enum wire_type type;
	uint32_t step;

	for (step = 0; step < 3; step++) {
		for (type = 1; type < WIRE_TYPES; type++) {
			begin(&client, &server, 0);
			if (step > 0)
				to_server(&server, &client);
			if (step > 1) {
				to_client(&client, &server);
				to_server(&server, &client);
			}
			memset(&request, 0, sizeof(request));
			strcpy(request.hello.name, "data");
			strcpy(request.hello.who, "db1");
			wire_seal(&request, type, step ? WIRE_VERSION_MAX : WIRE_VERSION_MIN);
			if ((step == 0 && type == WIRE_HELLO) || (step == 1 && type == WIRE_PROOF))
				continue;
			CHECK(session_receive(&server, &request, wire_length(type)) == SESSION_CLOSE);
			CHECK(session_receive(&server, &request, wire_length(type)) == SESSION_CLOSE);
			/* The client gets messages out of turn. */
			begin(&client, &server, 0);
			if (type == WIRE_CHALLENGE || type == WIRE_REFUSE)
				continue;
			CHECK(session_answer(&client, &request, wire_length(type)) == SESSION_CLOSE);
		}
	}
	return true;
}

static bool test_refusals(void)
{
	struct session client, server;

	begin(&client, &server, 0);
	to_server(&server, &client);
	to_client(&client, &server);
	CHECK(to_server(&server, &client) == SESSION_ASK);
	session_refuse(&server, WIRE_REASON_HELD, 9, "db2");
	CHECK(to_client(&client, &server) == SESSION_CLOSE);
	CHECK(le32toh(client.refused.reason) == WIRE_REASON_HELD &&
	      le64toh(client.refused.term) == 9 && !strcmp(client.refused.who, "db2"));
	/* While it serves. */
	CHECK(converse(&client, &server, 0));
	session_refuse(&server, WIRE_REASON_FENCED, 10, "db2");
	CHECK(to_client(&client, &server) == SESSION_CLOSE);
	CHECK(le32toh(client.refused.reason) == WIRE_REASON_FENCED);
	return true;
}

/* Ask for the hold, as a reader. */
static bool asks_to_hold(struct session *client, struct session *server, uint64_t term, uint32_t flags)
{
	CHECK(converse(client, server, WIRE_READ_ONLY) && session_read_only(server));
	CHECK(session_hold(client, term, flags));
	CHECK(to_server(server, client) == SESSION_ASK && !session_read_only(server) && session_term(server) == term);
	return true;
}

/* Can the client write now, and does it get receipts? */
static bool writes(struct session *client, struct session *server, bool receipts)
{
	session_request(client, WIRE_WRITE, 1, 0, LSMEM_BLOCK);
	CHECK(to_server(server, client) == SESSION_IO && server->io.type == WIRE_WRITE);
	CHECK(session_received(server, 1) == receipts);
	if (receipts)
		CHECK(to_client(client, server) == SESSION_RECEIVED);
	session_done(server, 1, 0);
	CHECK(to_client(client, server) == SESSION_IO);
	session_release(client, 1);
	return true;
}

/* A reader gets the hold on its connection, once, when nothing of it is in flight; or it is refused. */
static bool test_hold_later(void)
{
	struct session client, server, from, to;
	union wire_message message = { 0 };
	uint32_t flags;

	for (flags = 0; flags <= WIRE_RECEIPTS; flags += WIRE_RECEIPTS) {
		CHECK(asks_to_hold(&client, &server, 9, flags));
		/* Nothing is asked for meanwhile. */
		from = client;
		to = server;
		session_request(&from, WIRE_READ, 0, 0, LSMEM_BLOCK);
		CHECK(to_server(&to, &from) == SESSION_CLOSE);
		from = client;
		to = server;
		session_done(&to, 0, 0);
		CHECK(to_client(&from, &to) == SESSION_CLOSE);
		session_grant(&server, 9);
		CHECK(to_client(&client, &server) == SESSION_READY && le64toh(client.accept.term) == 9);
		CHECK(writes(&client, &server, flags));
		/* It has the hold. */
		session_say(&client, WIRE_HOLD, &message);
		CHECK(to_server(&server, &client) == SESSION_CLOSE);
	}
	CHECK(asks_to_hold(&client, &server, 9, 0));
	session_refuse(&server, WIRE_REASON_TERM, 11, "db2");
	CHECK(to_client(&client, &server) == SESSION_CLOSE && le64toh(client.refused.term) == 11);
	/* What was not asked for. */
	CHECK(converse(&client, &server, WIRE_READ_ONLY));
	session_say(&server, WIRE_GRANTED, &message);
	CHECK(to_client(&client, &server) == SESSION_CLOSE);
	/* A request of the reader is in flight. */
	CHECK(converse(&client, &server, WIRE_READ_ONLY));
	session_request(&client, WIRE_READ, 0, 0, LSMEM_BLOCK);
	CHECK(to_server(&server, &client) == SESSION_IO && session_hold(&client, 9, 0));
	CHECK(to_server(&server, &client) == SESSION_CLOSE);
	/* No reader. */
	CHECK(converse(&client, &server, 0) && session_hold(&client, 9, 0) && to_server(&server, &client) == SESSION_CLOSE);
	/* Reserved fields are zero. */
	message.hold.flags = htole32(WIRE_READ_ONLY);
	CHECK(converse(&client, &server, WIRE_READ_ONLY));
	session_say(&client, WIRE_HOLD, &message);
	CHECK(to_server(&server, &client) == SESSION_CLOSE);
	message.hold.flags = htole32(WIRE_RECEIPTS);
	CHECK(asks_to_hold(&client, &server, 9, 0));
	session_say(&server, WIRE_GRANTED, &message);
	CHECK(to_client(&client, &server) == SESSION_CLOSE);
	return true;
}

/* An older server, or client, knows no HOLD. */
static bool test_hold_versions(void)
{
	struct session_setup old = server_setup;
	struct session client, server;
	union wire_message message = { 0 };

	old.highest = WIRE_VERSION_HOLD - 1;
	session_call(&client, &client_setup, &key, "data", "db1", 5, WIRE_READ_ONLY);
	session_begin(&server, &old, secret, NULL);
	CHECK(to_server(&server, &client) == SESSION_SEND && to_client(&client, &server) == SESSION_SEND);
	CHECK(to_server(&server, &client) == SESSION_ASK);
	session_accept(&server, &export);
	CHECK(to_client(&client, &server) == SESSION_READY);
	CHECK(!session_hold(&client, 9, 0) && client.state == SESSION_SERVING && session_read_only(&client));
	session_say(&client, WIRE_HOLD, &message);
	CHECK(to_server(&server, &client) == SESSION_CLOSE);
	return true;
}

/* What a GIVE_UP must have to be taken. */
static void fill_give_up(union wire_message *message)
{
	message->give_up.error = htole32(EEXIST);
	wire_put_cause(message->give_up.cause, "the store cannot be made here");
}

static bool test_lengths(void)
{
	union wire_message message;
	enum wire_type type;
	size_t length;

	for (type = 1; type < WIRE_TYPES; type++) {
		for (length = 0; length <= WIRE_BYTES; length++) {
			memset(&message, 0, sizeof(message));
			wire_seal(&message, type, WIRE_VERSION_MAX);
			if (type == WIRE_HELLO) {
				strcpy(message.hello.name, "a");
				strcpy(message.hello.who, "b");
			}
			if (type == WIRE_GIVE_UP)
				fill_give_up(&message);
			CHECK(!wire_check(&message, length, WIRE_VERSION_MAX, 0) ==
			      (length == wire_length(type)));
			message.head.length = htole32(length);
			CHECK(!wire_check(&message, length, WIRE_VERSION_MAX, 0) ==
			      (length == wire_length(type)));
		}
	}
	return true;
}

/* ---- Versions ----------------------------------------------------------- */

/* Both sides use the highest version that both know; or each knows the other's range. */
static bool versions(uint16_t client_low, uint16_t client_high, uint16_t server_low,
		     uint16_t server_high)
{
	uint16_t wanted = client_high < server_high ? client_high : server_high;
	struct session_setup of_client = client_setup, of_server = server_setup;
	struct session client, server;
	char text[64];

	of_client.lowest = client_low;
	of_client.highest = client_high;
	of_server.lowest = server_low;
	of_server.highest = server_high;
	session_call(&client, &of_client, &key, "data", "db1", 5, WIRE_RECEIPTS);
	session_begin(&server, &of_server, secret, NULL);
	if (wanted < client_low || wanted < server_low) {
		CHECK(to_server(&server, &client) == SESSION_SEND_CLOSE);
		CHECK(le16toh(server.out.head.version) == server_high);
		CHECK(to_client(&client, &server) == SESSION_CLOSE);
		CHECK(le32toh(client.refused.reason) == WIRE_REASON_VERSION);
		snprintf(text, sizeof(text), "other side speaks %u to %u, this one %u to %u",
			 server_low, server_high, client_low, client_high);
		CHECK(strstr(client.why, text));
		snprintf(text, sizeof(text), "other side speaks %u to %u, this one %u to %u",
			 client_low, client_high, server_low, server_high);
		CHECK(strstr(server.why, text));
		return true;
	}
	CHECK(to_server(&server, &client) == SESSION_SEND);
	CHECK(to_client(&client, &server) == SESSION_SEND);
	CHECK(to_server(&server, &client) == SESSION_ASK);
	session_accept(&server, &export);
	CHECK(to_client(&client, &server) == SESSION_READY);
	CHECK(client.version == wanted && server.version == wanted);
	session_request(&client, WIRE_WRITE, 0, 0, LSMEM_BLOCK);
	CHECK(le32toh(client.out.head.length) == sizeof(struct wire_request) +
	      (wanted >= WIRE_VERSION_TAGS ? WIRE_TAG : 0));
	CHECK(to_server(&server, &client) == SESSION_IO && session_received(&server, 0));
	CHECK(to_client(&client, &server) == SESSION_RECEIVED);
	session_done(&server, 0, 0);
	CHECK(to_client(&client, &server) == SESSION_IO);
	return true;
}

static bool test_ranges(void)
{
	/* Two more than today's versions, for later peers. */
	uint16_t low = WIRE_VERSION_MIN, high = WIRE_VERSION_MAX + 2, a, b, c, d;

	for (a = low; a <= high; a++)
		for (b = a; b <= high; b++)
			for (c = low; c <= high; c++)
				for (d = c; d <= high; d++)
					if (!versions(a, b, c, d)) {
						tap_note("%u to %u with %u to %u", a, b, c, d);
						return false;
					}
	return true;
}

/* The range of either side is changed on the way; a choice is not the highest common version. */
static bool test_downgrade(void)
{
	struct session client, server;
	uint16_t version;

	begin(&client, &server, 0);
	client.out.head.version = htole16(WIRE_VERSION_MIN);
	CHECK(to_server(&server, &client) == SESSION_SEND);
	CHECK(to_client(&client, &server) == SESSION_CLOSE);	/* is not the highest of both */
	begin(&client, &server, 0);
	client.out.head.version = htole16(WIRE_VERSION_MIN);
	CHECK(to_server(&server, &client) == SESSION_SEND);
	server.out.challenge.highest = htole16(WIRE_VERSION_MIN);
	CHECK(to_client(&client, &server) == SESSION_SEND);
	CHECK(to_server(&server, &client) == SESSION_SEND_CLOSE);	/* the proof covers it */
	for (version = 0; version < WIRE_VERSION_MAX + 2; version++) {
		begin(&client, &server, 0);
		to_server(&server, &client);
		server.out.head.version = htole16(version);
		CHECK((to_client(&client, &server) == SESSION_SEND) ==
		      (version == WIRE_VERSION_MAX));
	}
	return true;
}

/* Of messages with versions before there were ranges only the head is read. */
static bool test_older(void)
{
	struct session client, server;
	union wire_message message;

	memset(&message, 0xff, sizeof(message));
	wire_seal(&message, WIRE_HELLO, 2);
	session_begin(&server, &server_setup, secret, NULL);
	CHECK(session_receive(&server, &message, 192) == SESSION_SEND_CLOSE);
	CHECK(strstr(server.why, "the other side speaks 2 to 2, this one 3 to 9"));
	CHECK(le32toh(server.out.refuse.reason) == WIRE_REASON_VERSION);
	begin(&client, &server, 0);
	memset(&message, 0xff, sizeof(message));
	wire_seal(&message, WIRE_REFUSE, 2);
	CHECK(session_answer(&client, &message, 96) == SESSION_CLOSE);
	CHECK(strstr(client.why, "the other side speaks 2 to 2, this one 3 to 9"));
	CHECK(le32toh(client.refused.reason) == WIRE_REASON_VERSION);
	return true;
}

/* The server ignores unknown features; the client sees which features the server lacks. */
static bool test_features(void)
{
	struct session client, server;

	begin(&client, &server, 0);
	client.hello.features |= htole64(1ull << 63);
	client.out.hello.features = client.hello.features;
	CHECK(to_server(&server, &client) == SESSION_SEND);
	CHECK(le64toh(server.out.challenge.features) == WIRE_FEATURES);
	CHECK(to_client(&client, &server) == SESSION_SEND);
	CHECK(to_server(&server, &client) == SESSION_ASK);
	begin(&client, &server, WIRE_RECEIPTS);
	CHECK(to_server(&server, &client) == SESSION_SEND);
	server.out.challenge.features = 0;
	CHECK(to_client(&client, &server) == SESSION_CLOSE && strstr(client.why, "receipts"));
	return true;
}

/* ---- Moves of stores ----------------------------------------------------- */

/* The handshake of a move, between sides that speak these versions. Return: what the server does with HELLO. */
static enum session_do call_mover(struct session *client, struct session *server, uint16_t low, uint16_t high,
				  bool moves)
{
	struct session_setup of_client = client_setup, of_server = server_setup;

	of_client.lowest = WIRE_VERSION_MOVE;
	of_server.lowest = low;
	of_server.highest = high;
	of_server.moves = moves;
	session_call(client, &of_client, &key, "data", "db1", 0, WIRE_MOVES);
	session_begin(server, &of_server, secret, NULL);
	return to_server(server, client);
}

/* A store moves from version 5 on; a server is for one purpose. */
static bool test_move_opens(void)
{
	struct session client, server;
	uint16_t high;

	for (high = WIRE_VERSION_MIN; high < WIRE_VERSION_MOVE; high++) {
		CHECK(call_mover(&client, &server, WIRE_VERSION_MIN, high, true) == SESSION_SEND_CLOSE);
		CHECK(to_client(&client, &server) == SESSION_CLOSE);
		CHECK(le32toh(client.refused.reason) == WIRE_REASON_VERSION);
	}
	CHECK(call_mover(&client, &server, WIRE_VERSION_MIN, WIRE_VERSION_MAX, false) == SESSION_SEND_CLOSE);
	CHECK(to_client(&client, &server) == SESSION_CLOSE);
	CHECK(le32toh(client.refused.reason) == WIRE_REASON_PURPOSE);
	begin(&client, &server, 0);
	server.setup.moves = true;
	CHECK(to_server(&server, &client) == SESSION_SEND_CLOSE);
	CHECK(to_client(&client, &server) == SESSION_CLOSE);
	CHECK(le32toh(client.refused.reason) == WIRE_REASON_PURPOSE);
	/* No version without moves can be agreed on, and nothing else be asked for. */
	CHECK(call_mover(&client, &server, WIRE_VERSION_MOVE, WIRE_VERSION_MAX, true) == SESSION_SEND);
	session_begin(&server, &server.setup, secret, NULL);
	client.out.hello = client.hello;
	client.out.hello.lowest = htole16(WIRE_VERSION_MOVE - 1);
	CHECK(to_server(&server, &client) == SESSION_CLOSE);
	session_begin(&server, &server.setup, secret, NULL);
	client.out.hello = client.hello;
	client.out.hello.flags = htole32(WIRE_MOVES | WIRE_READ_ONLY);
	CHECK(to_server(&server, &client) == SESSION_CLOSE);
	return true;
}

/* The proof of a client that uses the secret itself. */
static const uint8_t *underived(const struct wire_hello *hello, const struct session *server)
{
	static uint8_t mac[WIRE_MAC];
	__le32 qps[2] = { htole32(server->setup.link.client_qp), htole32(server->setup.link.server_qp) };
	struct hmac_sha256_ctx hmac;

	hmac_sha256_set_key(&hmac, key.length, key.bytes);
	hmac_sha256_update(&hmac, sizeof("lsmem client"), (const uint8_t *)"lsmem client");
	hmac_sha256_update(&hmac, sizeof(qps), (const uint8_t *)qps);
	hmac_sha256_update(&hmac, sizeof(*hello), (const uint8_t *)hello);
	hmac_sha256_update(&hmac, sizeof(server->challenge), (const uint8_t *)&server->challenge);
	hmac_sha256_digest(&hmac, sizeof(mac), mac);
	return mac;
}

/* The same secret does not open both: a proof and the tags of one purpose are none of the other. */
static bool test_move_secret(void)
{
	struct wire_direction move[2], backup[2];
	struct session client, server;
	uint8_t mac[2][WIRE_MAC];
	struct wire_hello hello;
	union wire_message message = { 0 };

	CHECK(call_mover(&client, &server, WIRE_VERSION_MOVE, WIRE_VERSION_MAX, true) == SESSION_SEND);
	CHECK(to_client(&client, &server) == SESSION_SEND);
	wire_prove_client(&key, &server.setup.link, &server.hello, &server.challenge, mac[0]);
	CHECK(wire_equal(mac[0], client.out.proof.mac));
	/* What a client makes that knows the secret, and proves it as for a backup. */
	hello = server.hello;
	hello.flags = 0;
	wire_prove_client(&key, &server.setup.link, &hello, &server.challenge, mac[1]);
	CHECK(!wire_equal(mac[0], mac[1]));
	wire_directions(&key, &server.setup.link, &server.hello, &server.challenge, &move[0], &move[1]);
	wire_directions(&key, &server.setup.link, &hello, &server.challenge, &backup[0], &backup[1]);
	wire_seal(&message, WIRE_MOVE, WIRE_VERSION_MOVE);
	wire_tag(&move[0], &message, sizeof(message.move));
	CHECK(!wire_tagged(&backup[0], &message, sizeof(message.move) + WIRE_TAG));
	/* The secret itself proves nothing, also over the HELLO of a move; of a backup it is the key. */
	CHECK(!wire_equal(mac[0], underived(&server.hello, &server)));
	CHECK(wire_equal(mac[1], underived(&hello, &server)));
	CHECK(to_server(&server, &client) == SESSION_ASK);
	return true;
}

/* Each side of either purpose takes the messages that are meant for it, and no others. */
static bool test_move_types(void)
{
	static const struct { enum wire_type type; bool to_server, to_client; } types[] = {
		{ WIRE_READ, true, false }, { WIRE_MOVE, true, false }, { WIRE_TAKEN, true, false },
		{ WIRE_CLOSE, true, true }, { WIRE_STORE, false, true }, { WIRE_READY, false, true },
		{ WIRE_BLOCK, false, true }, { WIRE_WRITE, false, false }, { WIRE_FLUSH, false, false },
		{ WIRE_WRITE_DURABLE, false, false }, { WIRE_DONE, false, false }, { WIRE_RECEIVED, false, false },
		{ WIRE_HELLO, false, false }, { WIRE_GIVE_UP, true, false }, { WIRE_HOLD, false, false },
		{ WIRE_GRANTED, false, false },
	};
	struct session client, server, from, to;
	union wire_message message;
	uint32_t i;

	CHECK(call_mover(&client, &server, WIRE_VERSION_MOVE, WIRE_VERSION_MAX, true) == SESSION_SEND);
	CHECK(to_client(&client, &server) == SESSION_SEND && to_server(&server, &client) == SESSION_ASK);
	session_accept(&server, &export);
	CHECK(to_client(&client, &server) == SESSION_READY);
	session_request(&client, WIRE_READ, 0, 0, 0);
	CHECK(to_server(&server, &client) == SESSION_IO && server.io.type == WIRE_READ && !server.io.length);
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		memset(&message, 0, sizeof(message));
		message.request.slot = htole32(types[i].to_client ? 0 : 1);
		if (types[i].type == WIRE_BLOCK)
			message.block.length = htole32(72);
		if (types[i].type == WIRE_HELLO)
			message.hello = client.hello;
		if (types[i].type == WIRE_GIVE_UP)
			fill_give_up(&message);
		from = client;
		to = server;
		session_say(&from, types[i].type, &message);
		CHECK((to_server(&to, &from) != SESSION_CLOSE) == types[i].to_server);
		from = server;
		to = client;
		session_say(&from, types[i].type, &message);
		CHECK((to_client(&to, &from) != SESSION_CLOSE) == types[i].to_client);
		/* To both sides of a backup. */
		if (types[i].type < WIRE_STORE)
			continue;
		CHECK(converse(&from, &to, 0));
		session_say(&from, types[i].type, &message);
		CHECK(to_server(&to, &from) == SESSION_CLOSE);
		session_say(&to, types[i].type, &message);
		CHECK(to_client(&from, &to) == SESSION_CLOSE);
	}
	/* A READ of a move has no place and no length; its answer comes once, within the slot. */
	from = client;
	to = server;
	session_request(&from, WIRE_READ, 1, 0, LSMEM_BLOCK);
	CHECK(to_server(&to, &from) == SESSION_CLOSE);
	from = client;
	to = server;
	session_request(&from, WIRE_READ, 0, 0, 0);
	CHECK(to_server(&to, &from) == SESSION_CLOSE);
	to = client;
	from = server;
	session_block(&from, 0, export.slot_bytes + 1, 1);
	CHECK(to_client(&to, &from) == SESSION_CLOSE);
	session_block(&server, 0, export.slot_bytes, 7);
	CHECK(to_client(&client, &server) == SESSION_IO && client.io.length == export.slot_bytes &&
	      client.io.offset == 7 && !client.io.slot);
	session_block(&server, 0, 72, 8);
	CHECK(to_client(&client, &server) == SESSION_CLOSE);
	return true;
}

/* Messages of a move are none of an older version, and their reserved fields are zero. */
static bool test_move_messages(void)
{
	static const struct { enum wire_type type; size_t zero; } zeroes[] = {
		{ WIRE_STORE, offsetof(struct wire_store, zero) }, { WIRE_TAKEN, offsetof(struct wire_move, last) },
		{ WIRE_CLOSE, offsetof(struct wire_move, last) },
	};
	union wire_message message = { 0 };
	enum wire_type type;
	uint32_t i;

	for (type = WIRE_STORE; type < WIRE_GIVE_UP; type++) {
		wire_seal(&message, type, WIRE_VERSION_MOVE);
		CHECK(!wire_check(&message, wire_length(type), WIRE_VERSION_MOVE, 0));
		wire_seal(&message, type, WIRE_VERSION_MOVE - 1);
		CHECK(wire_check(&message, wire_length(type), WIRE_VERSION_MOVE - 1, 0));
	}
	CHECK(wire_length(WIRE_READY) == 96 && offsetof(struct wire_ready, objects) == 48);	/* protocol.rst */
	for (i = 0; i < sizeof(zeroes) / sizeof(zeroes[0]); i++) {
		memset(&message, 0, sizeof(message));
		wire_seal(&message, zeroes[i].type, WIRE_VERSION_MOVE);
		message.bytes[zeroes[i].zero] = 1;
		CHECK(wire_check(&message, wire_length(zeroes[i].type), WIRE_VERSION_MOVE, 0));
	}
	return true;
}

/* GIVE_UP with one change: is not taken. */
#define GIVE_UP_REFUSED(change)							\
	do {									\
		union wire_message message = { 0 };				\
		struct wire_give_up *give_up = &message.give_up;		\
										\
		fill_give_up(&message);						\
		wire_seal(&message, WIRE_GIVE_UP, WIRE_VERSION_GIVE_UP);	\
		CHECK(!wire_check(&message, sizeof(*give_up), WIRE_VERSION_GIVE_UP, 0));	\
		change;								\
		CHECK(wire_check(&message, sizeof(*give_up), WIRE_VERSION_GIVE_UP, 0));	\
	} while (0)

/* The error is one, and the text has an end and no byte that could do harm in a log or a terminal. */
static bool test_give_up(void)
{
	static const char bytes[] = { 1, 7, '\n', '\r', 27, 31, 127, (char)128, (char)255 };
	char cause[WIRE_CAUSE], text[WIRE_CAUSE * 2];
	union wire_message old = { 0 };
	uint32_t i;

	CHECK(sizeof(struct wire_give_up) == 184 && offsetof(struct wire_give_up, cause) == 24);	/* protocol.rst */
	GIVE_UP_REFUSED(give_up->error = 0);
	GIVE_UP_REFUSED(give_up->error = htole32(WIRE_ERRNO + 1));
	GIVE_UP_REFUSED(give_up->error = htole32(UINT32_MAX));
	GIVE_UP_REFUSED(give_up->error = htole32(1u << 31));
	GIVE_UP_REFUSED(give_up->zero = htole32(1));
	GIVE_UP_REFUSED(memset(give_up->cause, 0, WIRE_CAUSE));
	GIVE_UP_REFUSED(memset(give_up->cause, 'a', WIRE_CAUSE));
	GIVE_UP_REFUSED(give_up->cause[WIRE_CAUSE - 1] = 'a');
	GIVE_UP_REFUSED(give_up->cause[0] = 0);
	for (i = 0; i < sizeof(bytes); i++)
		GIVE_UP_REFUSED(give_up->cause[3] = bytes[i]);
	fill_give_up(&old);
	wire_seal(&old, WIRE_GIVE_UP, WIRE_VERSION_MOVE);
	CHECK(wire_check(&old, sizeof(old.give_up), WIRE_VERSION_MOVE, 0));
	/* Any text becomes one that is taken. */
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	memcpy(text, bytes, sizeof(bytes));
	wire_put_cause(cause, text);
	CHECK(strlen(cause) == WIRE_CAUSE - 1 && !strncmp(cause, "?????????x", 10));
	wire_put_cause(cause, "");
	CHECK(!strcmp(cause, "?"));
	return true;
}

/* ---- After the handshake ------------------------------------------------- */

/* A change of any bit of a message, or of its place in the stream, is found. */
static bool test_tags(void)
{
	struct session client, server, copy;
	union wire_message first;
	uint32_t i, length;

	CHECK(converse(&client, &server, WIRE_RECEIPTS));
	session_request(&client, WIRE_WRITE, 0, 0, LSMEM_BLOCK);
	first = client.out;
	length = le32toh(first.head.length);
	CHECK(length == sizeof(struct wire_request) + WIRE_TAG);
	for (i = 0; i < 8 * length; i++) {
		copy = server;
		client.out = first;
		client.out.bytes[i / 8] ^= 1u << i % 8;
		CHECK(session_receive(&copy, &client.out, length) == SESSION_CLOSE);
	}
	/* Without a tag, as version 3 has it. */
	copy = server;
	client.out = first;
	client.out.head.length = htole32(sizeof(struct wire_request));
	CHECK(session_receive(&copy, &client.out, sizeof(struct wire_request)) == SESSION_CLOSE);
	/* A message that comes twice; one that is left out; one that comes back to its sender. */
	copy = server;
	CHECK(session_receive(&copy, &first, length) == SESSION_IO);
	session_done(&copy, 0, 0);
	CHECK(session_receive(&copy, &first, length) == SESSION_CLOSE);
	copy = server;
	session_request(&client, WIRE_WRITE, 1, 0, LSMEM_BLOCK);
	CHECK(to_server(&copy, &client) == SESSION_CLOSE);
	copy = client;
	CHECK(session_answer(&copy, &first, length) == SESSION_CLOSE);
	/* Messages of the server. */
	CHECK(session_receive(&server, &first, length) == SESSION_IO);
	session_done(&server, 0, 0);
	length = le32toh(server.out.head.length);
	for (i = 0; i < 8 * length; i++) {
		copy = client;
		first = server.out;
		first.bytes[i / 8] ^= 1u << i % 8;
		CHECK(session_answer(&copy, &first, length) == SESSION_CLOSE);
	}
	session_refuse(&server, WIRE_REASON_FENCED, 1, "db2");
	server.out.refuse.who[0] = 'x';
	CHECK(to_client(&client, &server) == SESSION_CLOSE && !client.refused.reason);
	return true;
}

/* Messages of one connection are not valid on another one with the same secret. */
static bool test_other_connection(void)
{
	struct session_setup setup = server_setup;
	struct session client, server, other_client, other_server;

	CHECK(converse(&client, &server, 0));
	session_call(&other_client, &client_setup, &key, "data", "db1", 5, 0);
	setup.nonce[0]++;
	session_begin(&other_server, &setup, secret, NULL);
	CHECK(to_server(&other_server, &other_client) == SESSION_SEND);
	CHECK(to_client(&other_client, &other_server) == SESSION_SEND);
	CHECK(to_server(&other_server, &other_client) == SESSION_ASK);
	session_accept(&other_server, &export);
	CHECK(to_client(&other_client, &other_server) == SESSION_READY);
	session_request(&other_client, WIRE_WRITE, 0, 0, LSMEM_BLOCK);
	CHECK(to_server(&server, &other_client) == SESSION_CLOSE);
	/* A proof that is passed on over other queue pairs is not valid. */
	setup = server_setup;
	setup.link.client_qp++;
	session_call(&client, &client_setup, &key, "data", "db1", 5, 0);
	session_begin(&server, &setup, secret, NULL);
	CHECK(to_server(&server, &client) == SESSION_SEND);
	CHECK(to_client(&client, &server) == SESSION_SEND);
	CHECK(to_server(&server, &client) == SESSION_SEND_CLOSE);
	return true;
}

/* The secret of one export is not valid for another, and does not show which exports exist. */
static bool test_export_secrets(void)
{
	struct session client, server;
	const char *name;
	uint32_t i;

	for (i = 0; i < 4; i++) {
		name = i & 1 ? "data" : "other";
		session_call(&client, &client_setup, i & 2 ? &key : &other_key, name, "db1", 5, 0);
		session_begin(&server, &server_setup, secret, NULL);
		CHECK(to_server(&server, &client) == SESSION_SEND);
		CHECK(to_client(&client, &server) == SESSION_SEND);
		CHECK(to_server(&server, &client) == (!(i & 1) == !(i & 2) ? SESSION_ASK :
						      SESSION_SEND_CLOSE));
	}
	return true;
}

/* The cost of tags: the time of a request and its answer. */
static bool test_cost(void)
{
	struct session client, server;
	struct timespec from, to;
	uint32_t i, rounds = 20000;
	double us;

	CHECK(converse(&client, &server, 0));
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (i = 0; i < rounds; i++) {
		session_request(&client, WIRE_WRITE_DURABLE, 0, 0, LSMEM_BLOCK);
		CHECK(to_server(&server, &client) == SESSION_IO);
		session_done(&server, 0, 0);
		CHECK(to_client(&client, &server) == SESSION_IO);
		session_release(&client, 0);
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	us = ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / 1e3;
	tap_note("a durable write: %.2f us of both sides' processors", us / rounds);
	return true;
}

/* ---- The hold ----------------------------------------------------------- */

static bool test_hold(void)
{
	struct hold hold = { 0 };
	char a, b, c;
	void *loser;

	CHECK(hold_ask(&hold, &a, 0, &loser) == HOLD_GRANTED);
	CHECK(hold_ask(&hold, &b, 0, &loser) == HOLD_HELD);
	CHECK(!hold_left(&hold, &b));
	CHECK(!hold_left(&hold, &a) && !hold.holder);
	CHECK(hold_ask(&hold, &b, 4, &loser) == HOLD_GRANTED && hold.term == 4);
	CHECK(hold_ask(&hold, &c, 4, &loser) == HOLD_STALE);
	CHECK(hold_ask(&hold, &c, 3, &loser) == HOLD_STALE);
	CHECK(hold.holder == &b);
	return true;
}

/* Invariant 17: a fence is answered when the old holder is gone, not before. */
static bool test_fence(void)
{
	struct hold hold = { 0 };
	char a, b, c;
	void *loser;

	CHECK(hold_ask(&hold, &a, 1, &loser) == HOLD_GRANTED);
	CHECK(hold_ask(&hold, &b, 2, &loser) == HOLD_FENCING && !loser);
	CHECK(hold.holder == &a);
	CHECK(hold_ask(&hold, &c, 2, &loser) == HOLD_STALE);
	CHECK(hold_ask(&hold, &c, 0, &loser) == HOLD_HELD);
	CHECK(hold_left(&hold, &a) == &b && hold.holder == &b && !hold.fencer);
	CHECK(hold_ask(&hold, &a, 1, &loser) == HOLD_STALE);
	/* A higher fence overtakes a fence. */
	CHECK(hold_ask(&hold, &c, 3, &loser) == HOLD_FENCING && !loser);
	CHECK(hold_ask(&hold, &a, 4, &loser) == HOLD_FENCING && loser == &c);
	CHECK(!hold_left(&hold, &c) && hold.fencer == &a);
	CHECK(hold_left(&hold, &b) == &a);
	/* The fencing client leaves before its answer: the term stays. */
	CHECK(hold_ask(&hold, &b, 5, &loser) == HOLD_FENCING);
	CHECK(!hold_left(&hold, &b));
	CHECK(!hold_left(&hold, &a) && !hold.holder);
	CHECK(hold_ask(&hold, &a, 5, &loser) == HOLD_STALE);
	CHECK(hold_ask(&hold, &a, 6, &loser) == HOLD_GRANTED);
	return true;
}

/* Requests cannot raise the term so far that no higher one is left. */
static bool test_far(void)
{
	struct hold hold = { 0 };
	char a, b;
	void *loser;

	CHECK(hold_ask(&hold, &a, UINT64_MAX, &loser) == HOLD_FAR && !hold.term && !hold.holder);
	CHECK(hold_ask(&hold, &a, HOLD_TERM_FIRST + 1, &loser) == HOLD_FAR);
	CHECK(hold_ask(&hold, &a, HOLD_TERM_FIRST, &loser) == HOLD_GRANTED);
	CHECK(hold_ask(&hold, &b, HOLD_TERM_FIRST + HOLD_TERM_STEP + 1, &loser) == HOLD_FAR);
	CHECK(hold_ask(&hold, &b, UINT64_MAX, &loser) == HOLD_FAR);
	CHECK(hold.term == HOLD_TERM_FIRST && hold.holder == &a && !hold.fencer);
	CHECK(hold_ask(&hold, &b, HOLD_TERM_FIRST + HOLD_TERM_STEP, &loser) == HOLD_FENCING);
	/* The next takeover still has a higher term. */
	CHECK(hold_left(&hold, &a) == &b);
	CHECK(hold_ask(&hold, &a, hold.term + 1, &loser) == HOLD_FENCING);
	return true;
}

int main(void)
{
	tap_ok(test_lengths(), "a message with a wrong length for its type is refused");
	tap_ok(test_requests(), "requests and answers; an answer comes once");
	tap_ok(test_receipts(), "receipts of writes, for clients that asked for them");
	tap_ok(test_all_slots(), "all slots in flight, answered in any order");
	tap_ok(test_bad_requests(), "invalid requests end the connection");
	tap_ok(test_secrets(), "either side without the secret is refused");
	tap_ok(test_changed(), "a changed byte of the handshake is found");
	tap_ok(test_turns(), "messages out of turn end the connection");
	tap_ok(test_refusals(), "refusals have a reason");
	tap_ok(test_hold_later(), "a reader gets the hold on its connection");
	tap_ok(test_hold_versions(), "a hold on a connection of its reader is none of an older version");
	tap_ok(test_ranges(), "the highest common version is used; else both ranges are known");
	tap_ok(test_downgrade(), "a version that is not the highest common one is refused");
	tap_ok(test_older(), "versions before there were ranges are recognised");
	tap_ok(test_features(), "only features of both sides are used");
	tap_ok(test_move_opens(), "a store moves from version 5 on; a server is for backups or for moves");
	tap_ok(test_move_secret(), "a proof and tags for a move are none for a backup, with the same secret");
	tap_ok(test_move_types(), "each side of a move takes the messages that are meant for it");
	tap_ok(test_move_messages(), "messages of a move are none of an older version");
	tap_ok(test_give_up(), "a target's cause has an error, and a text that is printable and has an end");
	tap_ok(test_tags(), "after the handshake a changed bit or place of a message is found");
	tap_ok(test_other_connection(), "messages of another connection are refused");
	tap_ok(test_export_secrets(), "each export has its own secret");
	tap_ok(test_cost(), "many requests and answers with tags");
	tap_ok(test_hold(), "one holder; the same term or a lower one is refused");
	tap_ok(test_fence(), "a fence is answered when the old holder is gone");
	tap_ok(test_far(), "a term far above the highest is refused");
	return tap_end();
}
