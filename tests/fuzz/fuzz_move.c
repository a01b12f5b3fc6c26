// SPDX-License-Identifier: GPL-2.0
/*
 * Any messages of a peer that knows the secret, to both ends of a move, and any order of what the daemons do.
 * Input: steps, each
 *
 *	byte 0	bits 0-1: what; bit 2: to the target, else to the source; bit 3: the other connection; bit 4: the
 *		tag is wrong
 *	byte 1	what 0: deliver so many; 1: a daemon does this; 2: say a message of this type
 *	byte 2	with 2: length of the bytes that follow
 *
 * The bytes of a message are those of a right one, each XORed with a byte of the input. What must always hold is in
 * tests/unit/moves.c.
 */
#include <string.h>

#include "lsmem.h"
#include "../unit/moves.h"
#include "image.h"

static void deliver(struct link *link, bool to_target, unsigned int nr)
{
	while (nr-- && (to_target ? moves_to_target(link) || moves_read(link) : moves_to_source(link)))
		;
}

static void act(struct link *link, uint8_t what)
{
	struct move_source *source = &world.source;
	uint32_t nr = (uint32_t)(link - links);

	switch (what % 16) {
	case 0:
	case 1:
		moves_call(nr, nr ? "C" : "B", what & 1 ? TERM + 1 : 0);
		break;
	case 2:
		if (link->connected)
			(void)move_target_move(&link->target);
		break;
	case 3:
		(void)move_source_ready(source, REVISION, DIGEST, OBJECTS);
		break;
	case 4:
	case 5:
		move_source_owner(source, what & 1 ? "C" : "B", TERM + 1);
		break;
	case 6:
		if (link->connected)
			move_target_taken(&link->target, TERM + 1);
		break;
	case 7:
		if (link->connected)
			move_target_close(&link->target, TERM + 1);
		break;
	case 8:
		world.now_ns += (uint64_t)what << 28;
		move_source_tick(source, world.now_ns);
		if (link->connected)
			move_target_tick(&link->target, world.now_ns);
		break;
	case 9:
		moves_cut(link);
		break;
	case 10:
		if (move_source_resume(source) && (links[0].keyed || links[1].keyed))
			fuzz_fail("clients are served again, and a target has keys");
		break;
	case 11:
		if (source->phase == MOVE_SERVES || (source->phase == MOVE_STOPS && !source->ready))
			moves_change(1);
		break;
	case 12:
		if (what & 16 && link->connected)
			move_target_give_up(&link->target, -1 - (int)(what >> 5), "a cause");
		else
			move_source_owner(source, "A", TERM);
		break;
	case 13:
		if (what == 13)
			(void)move_source_close(source);
		break;
	default:
		moves_settle();
		break;
	}
}

/* What the right message of a type has. */
static union wire_message right(const struct link *link, enum wire_type type)
{
	union wire_message message = { 0 };

	switch (type) {
	case WIRE_STORE:
		memcpy(message.store.uuid, moves_store.uuid, sizeof(message.store.uuid));
		message.store.indices = htole64(moves_store.indices);
		message.store.seglets = htole32(SEGLETS);
		break;
	case WIRE_BLOCK:
		message.block.length = htole32(sizeof(struct ahead_head));
		message.block.sequence = htole64(link->target.announced + 1);
		break;
	case WIRE_MOVE:
		message.move.term = htole64(TERM);
		break;
	case WIRE_TAKEN:
	case WIRE_CLOSE:
		message.move.term = htole64(TERM + 1);
		break;
	case WIRE_GIVE_UP:
		message.give_up.error = htole32(5);
		wire_put_cause(message.give_up.cause, "input/output error");
		break;
	case WIRE_READY:
		message.ready.term = htole64(TERM);
		message.ready.revision = htole64(REVISION);
		message.ready.last = htole64(link->target.announced);
		message.ready.objects = htole64(OBJECTS);
		message.ready.seglets_bytes = htole64(SEGLETS * LSMEM_SEGLET_BYTES);
		message.ready.table_bytes = htole64(SEGLETS * sizeof(struct lsmem_seglet));
		break;
	default:
		break;
	}
	return message;
}

static void forge(struct link *link, bool to_target, bool wrong, enum wire_type type, const uint8_t *data, size_t size)
{
	struct session *from = to_target ? &link->peer.session : &link->target.session;
	const bool *over = to_target ? &link->target_ended : &link->peer_ended;
	union wire_message message = right(link, type);
	bool was_over;
	size_t i;

	if (!link->connected || !type || type >= WIRE_TYPES)
		return;
	deliver(link, to_target, UINT32_MAX);	/* with earlier numbers */
	was_over = *over;
	for (i = 0; i < size && i + sizeof(message.head) < wire_length(type); i++)
		message.bytes[sizeof(message.head) + i] ^= data[i];
	from->version = WIRE_VERSION_MAX;
	session_say(from, type, &message);
	wrong &= !!from->tag;
	if (wrong)
		from->out.bytes[le32toh(from->out.head.length) - 1] ^= 1;
	if (to_target)
		move_target_message(&link->target, &from->out, le32toh(from->out.head.length));
	else
		move_source_message(&link->peer, &from->out, le32toh(from->out.head.length));
	if (wrong && !was_over && !*over)
		fuzz_fail("a message with a wrong tag is taken");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	moves_start(NULL);
	while (size >= 3) {
		struct link *link = &links[data[0] >> 3 & 1];
		bool to_target = data[0] & 4;
		size_t length = (data[0] & 3) == 2 ? data[2] : 0;

		if (length > size - 3)
			length = size - 3;
		if (!(data[0] & 3))
			deliver(link, to_target, data[1]);
		else if ((data[0] & 3) == 1)
			act(link, data[1]);
		else
			forge(link, to_target, data[0] & 16, data[1], data + 3, length);
		if (world.broken)
			fuzz_fail("what must always hold does not");
		data += 3 + length;
		size -= 3 + length;
	}
	moves_settle();
	if (world.broken)
		fuzz_fail("what must always hold does not");
	moves_start(NULL);
	return 0;
}
