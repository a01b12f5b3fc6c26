// SPDX-License-Identifier: GPL-2.0
/* The target of a move: see move.h. */
#include <errno.h>
#include <string.h>

#include "lsmem.h"
#include "move.h"

#define SECOND_NS	1000000000ull

static void end(struct move_target *target, const char *why)
{
	if (target->step == MOVE_OVER)
		return;
	target->step = MOVE_OVER;
	target->session.state = SESSION_OVER;
	target->user->end(target, why);
}

static void set_step(struct move_target *target, enum move_step step)
{
	target->step = step;
	target->since_ns = target->now_ns;
}

static void send_out(struct move_target *target)
{
	target->user->send(target, &target->session.out);
}

static void say(struct move_target *target, enum wire_type type, uint64_t term, uint64_t last)
{
	union wire_message message = { .move = { .term = htole64(term), .last = htole64(last) } };

	session_say(&target->session, type, &message);
	send_out(target);
}

/**
 * move_target_give_up - end the connection, and tell the source why, if it does not know that this host has the store
 * @target: in any step
 * @error: a negative errno
 * @why: for both logs
 *
 * @end follows at once, if it was not called yet. A source that does not know GIVE_UP sees an ended connection.
 */
void move_target_give_up(struct move_target *target, int error, const char *why)
{
	union wire_message message = { .give_up = { .error = htole32((uint32_t)-error) } };

	if (target->step != MOVE_OVER && target->session.state == SESSION_SERVING && !target->taken &&
	    !session_term(&target->session) && target->session.version >= WIRE_VERSION_GIVE_UP) {
		wire_put_cause(message.give_up.cause, why);
		session_say(&target->session, WIRE_GIVE_UP, &message);
		send_out(target);
	}
	end(target, why);
}

static void end_wrong(struct move_target *target, const char *why)
{
	move_target_give_up(target, -EPROTO, why);
}

/**
 * move_target_begin - ask a source for its store
 * @target: out; its queue pair is connected
 * @user: callbacks; must stay as long as @target
 * @call: what it wants
 * @now_ns: as for move_target_tick()
 */
void move_target_begin(struct move_target *target, const struct move_target_user *user,
		       const struct move_call *call, uint64_t now_ns)
{
	struct session_setup setup = call->setup;

	memset(target, 0, sizeof(*target));
	target->user = user;
	target->now_ns = now_ns;
	set_step(target, MOVE_CALLS);
	setup.lowest = WIRE_VERSION_MOVE;
	setup.highest = WIRE_VERSION_MAX;
	session_call(&target->session, &setup, call->key, call->name, call->who, call->term, WIRE_MOVES);
	send_out(target);
}

/* ---- Blocks ------------------------------------------------------------ */

static void want_block(struct move_target *target, uint32_t slot)
{
	session_request(&target->session, WIRE_READ, slot, 0, 0);
	send_out(target);
}

static void take_store(struct move_target *target, const struct wire_store *message)
{
	const struct wire_accept *accept = &target->session.accept;
	struct move_store *store = &target->store;
	uint32_t slot;
	int err;

	*store = (struct move_store){
		.term = le64toh(accept->term), .indices = le64toh(message->indices),
		.seglets = le32toh(message->seglets),
	};
	memcpy(store->name, target->session.hello.name, sizeof(store->name));
	memcpy(store->uuid, message->uuid, sizeof(store->uuid));
	if (!store->term || !store->indices || store->indices > LSMEM_HANDLE_INDEX_MASK + 1 ||
	    !store->seglets || store->seglets > 1u << (LSMEM_POSITION_BITS - LSMEM_POSITION_OFFSET_BITS) ||
	    (session_term(&target->session) && session_term(&target->session) <= store->term)) {
		end_wrong(target, "a store that cannot be");
		return;
	}
	target->stream = (struct ahead_stream){
		.term = store->term, .sequence = 1, .indices = store->indices, .seglets = store->seglets,
		.cached = target->session.version >= WIRE_VERSION_CACHED,
	};
	memcpy(target->stream.uuid, store->uuid, sizeof(store->uuid));
	err = target->user->store(target, store);
	if (err) {
		move_target_give_up(target, err, "not the store that was asked for");
		return;
	}
	set_step(target, MOVE_READS);
	if (session_term(&target->session))
		return;
	err = target->user->slots(target);
	if (err) {
		move_target_give_up(target, err, "no memory for blocks");
		return;
	}
	target->slots = le32toh(accept->slots) < MOVE_SLOTS ? le32toh(accept->slots) : MOVE_SLOTS;
	for (slot = 0; slot < target->slots; slot++)
		want_block(target, slot);
}

/* The source has put a block into a slot. */
static void fetch_block(struct move_target *target, const struct session_io *io)
{
	const struct wire_accept *accept = &target->session.accept;
	uint64_t address = le64toh(accept->address) + (uint64_t)io->slot * le32toh(accept->slot_bytes);

	if (target->told || io->length > AHEAD_BYTES || io->offset != target->announced + 1) {
		end_wrong(target, "a block out of turn");
		return;
	}
	target->announced++;
	target->reading[target->nr_reading] = (uint8_t)io->slot;
	target->lengths[target->nr_reading++] = io->length;
	target->user->read(target, io->slot, io->length, address, le32toh(accept->key));
}

/* READY has come: is all that it counts here? */
static void complete(struct move_target *target)
{
	if (!target->told || target->nr_reading || target->step == MOVE_HAS)
		return;
	if (!session_term(&target->session) && !target->marked) {
		end_wrong(target, "READY, and not all was told");
		return;
	}
	set_step(target, MOVE_HAS);
	target->user->ready(target, &target->ready);
}

/**
 * move_target_read - an RDMA READ is done
 * @target: the target
 * @slot: into the memory of this slot
 */
void move_target_read(struct move_target *target, uint32_t slot)
{
	const struct ahead_head *block = (void *)(target->memory + (size_t)slot * AHEAD_BYTES);
	uint32_t length = target->lengths[0];
	const char *wrong;
	int err;

	if (target->step == MOVE_OVER)
		return;
	if (!target->nr_reading || target->reading[0] != slot) {
		end_wrong(target, "a read that was not asked for");
		return;
	}
	target->nr_reading--;
	memmove(target->reading, target->reading + 1, target->nr_reading);
	memmove(target->lengths, target->lengths + 1, target->nr_reading * sizeof(target->lengths[0]));
	wrong = ahead_check(&target->stream, block, length);
	if (wrong) {
		end_wrong(target, wrong);
		return;
	}
	err = target->user->block(target, block);
	if (err) {
		move_target_give_up(target, err, "a block cannot be taken");
		return;
	}
	target->bytes += length;
	target->marked |= block->kind == htole32(AHEAD_MARK);
	target->wanted |= block->kind == htole32(AHEAD_COME);
	if (target->step == MOVE_READS)
		target->since_ns = target->now_ns;
	session_release(&target->session, slot);
	if (!target->told)
		want_block(target, slot);
	complete(target);
}

/* ---- Messages ------------------------------------------------------------ */

/* Is this memory of @bytes, and no more? */
static bool is_region(const struct move_region *region, uint64_t bytes)
{
	return region->bytes == bytes && region->address <= UINT64_MAX - bytes;
}

static void take_ready(struct move_target *target, const struct wire_ready *message)
{
	bool again = session_term(&target->session);
	struct move_ready *ready = &target->ready;
	uint64_t seglets = target->store.seglets;

	*ready = (struct move_ready){
		.term = le64toh(message->term), .revision = le64toh(message->revision),
		.digest = le64toh(message->digest), .last = le64toh(message->last),
		.objects = le64toh(message->objects),
		.keys = {
			.seglets = {
				le64toh(message->seglets_address), le64toh(message->seglets_bytes),
				le32toh(message->seglets_key),
			},
			.table = {
				le64toh(message->table_address), le64toh(message->table_bytes),
				le32toh(message->table_key),
			},
		},
	};
	if (target->told || target->step != (again ? MOVE_READS : MOVE_WAITS)) {
		end_wrong(target, "a READY out of turn");
		return;
	}
	if (ready->term != target->store.term || ready->last != target->announced ||
	    (again ? ready->revision || ready->digest || ready->objects :
		     !ready->revision || ready->revision > INT64_MAX)) {
		end_wrong(target, "a READY of another term, or with blocks that were not told");
		return;
	}
	if (ready->objects > target->store.indices) {
		end_wrong(target, "a READY with more objects than a store of this size has");
		return;
	}
	if (!is_region(&ready->keys.seglets, seglets * LSMEM_SEGLET_BYTES) ||
	    !is_region(&ready->keys.table, seglets * sizeof(struct lsmem_seglet))) {
		end_wrong(target, "a READY with keys that are not to the store's memory");
		return;
	}
	target->told = true;
	complete(target);
}

static void take(struct move_target *target, const union wire_message *message)
{
	uint32_t type = le16toh(message->head.type);

	if (target->step == MOVE_CALLS) {
		if (type == WIRE_STORE)
			take_store(target, &message->store);
		else
			end_wrong(target, "a message before STORE");
	} else if (type == WIRE_READY) {
		take_ready(target, &message->ready);
	} else if (type == WIRE_CLOSE && target->step == MOVE_CLOSES &&
		   le64toh(message->move.term) == target->close_term) {
		target->user->closed(target);
		end(target, "the source needs it no more");
	} else {
		end_wrong(target, "a message out of turn");
	}
}

/**
 * move_target_message - the source has sent a message
 * @target: the target
 * @message: unchecked, WIRE_BYTES of room
 * @length: bytes received
 */
void move_target_message(struct move_target *target, const union wire_message *message, size_t length)
{
	struct session *session = &target->session;

	if (target->step == MOVE_OVER)
		return;
	switch (session_answer(session, message, length)) {
	case SESSION_SEND:
		send_out(target);
		break;
	case SESSION_READY:	/* STORE follows */
		break;
	case SESSION_IO:
		fetch_block(target, &session->io);
		break;
	case SESSION_MOVE:
		take(target, message);
		break;
	default:
		end(target, session->why);
		break;
	}
}

/* ---- What its daemon says ------------------------------------------------ */

/**
 * move_target_move - let the source stop its clients, and tell the rest
 * @target: has got AHEAD_MARK
 *
 * Return: false: not all that was live has come yet, or the connection is past that.
 */
bool move_target_move(struct move_target *target)
{
	if (target->step != MOVE_READS || !target->marked)
		return false;
	set_step(target, MOVE_WAITS);
	say(target, WIRE_MOVE, target->store.term, target->stream.sequence - 1);
	return true;
}

/**
 * move_target_taken - this host has taken the store in etcd
 * @target: after @ready; nothing happens if the connection is over
 * @term: of this host's ownership
 */
void move_target_taken(struct move_target *target, uint64_t term)
{
	if (target->step != MOVE_HAS)
		return;
	target->taken = true;
	say(target, WIRE_TAKEN, term, 0);
}

/**
 * move_target_close - this host has all bytes, or they are on the backups (CLOSE_COMPLETE)
 * @target: after @ready; nothing happens if the connection is over
 * @term: of this host's ownership
 *
 * @closed tells that the source knows. If the connection ends without it, connect again, with the term, and say it
 * again (ASK).
 */
void move_target_close(struct move_target *target, uint64_t term)
{
	if (target->step != MOVE_HAS)
		return;
	target->close_term = term;
	set_step(target, MOVE_CLOSES);
	say(target, WIRE_CLOSE, term, 0);
}

/**
 * move_target_end - end the connection
 * @target: in any step
 * @why: for the log
 *
 * @end follows at once, if it was not called yet.
 */
void move_target_end(struct move_target *target, const char *why)
{
	end(target, why);
}

/* Seconds that the step may take; 0: its end is for the caller to choose. */
static unsigned int patience(const struct move_target *target)
{
	switch (target->step) {
	case MOVE_CALLS:
	case MOVE_CLOSES:
		return MOVE_ANSWER_S;
	case MOVE_READS:
		if (session_term(&target->session))
			return MOVE_ANSWER_S;
		return target->marked && target->session.version < WIRE_VERSION_STANDBY ? 0 : MOVE_IDLE_S;
	case MOVE_WAITS:	/* the source gives up first */
		return MOVE_READY_S + MOVE_TAKEN_S;
	default:
		return 0;
	}
}

/**
 * move_target_tick - end a connection whose source takes too long
 * @target: the target
 * @now_ns: of a clock that only rises
 *
 * Context: call it once a second.
 */
void move_target_tick(struct move_target *target, uint64_t now_ns)
{
	target->now_ns = now_ns;
	if (patience(target) && now_ns - target->since_ns > patience(target) * SECOND_NS)
		move_target_give_up(target, -ETIMEDOUT, "the source does not answer in time");
}
