// SPDX-License-Identifier: GPL-2.0
/*
 * Random calls: those of a daemon.  It takes events, acknowledges them, and loads whole entries,
 * so that stores get active and work.  Now and then it acknowledges or loads something wrong.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calls.h"

#define NR(x)	(sizeof(x) / sizeof(*(x)))

/* As place(), for an array of the call: the kernel may refuse another field before it reads it. */
uint8_t *place_array(struct making *m, const struct gene *gene, uint32_t offset, uint32_t length,
		     bool out)
{
	uint32_t wrong = m->wrong;
	uint8_t *at = place(m, gene, offset, length, out);

	if (m->wrong != wrong)
		m->expected = 0;
	return at;
}

long repl_call(struct making *m, unsigned long request)
{
	long ret;

	m->argument = place_argument(m, &m->call->gene[1]);
	note(m, m->fd, request, m->argument, m->bytes, m->size);
	ret = syscall(SYS_ioctl, m->fd, request, m->argument) ? -errno : 0;
	judge(m, &descriptions[m->call->kind], ret);
	return ret;
}

long run_next(struct making *m)
{
	static const struct field fields[] = {
		FIELD(lsmem_next, size, SIZE),
		FIELD(lsmem_next, flags, ZERO),
		FIELD(lsmem_next, nr, NUMBER, .low = 128, .high = 256),
		FIELD(lsmem_next, store_time, ANY),
	};
	const struct gene *gene = m->call->gene;
	struct caller *me = m->me;
	struct lsmem_next next;
	uint64_t events;
	long ret;

	pick_fd(m, &gene[0], FD_REPL);
	m->size = sizeof(next);
	make_fields(m, fields, NR(fields), &gene[2], m->bytes);
	if (gene[6].how > 250)
		m->bytes[offsetof(struct lsmem_next, nr)] = 0x7f;	/* 127: refused, 383: not */
	events = (uintptr_t)place_array(m, &gene[7], HEAP_ARRAY, sizeof(me->events), true);
	memcpy(m->bytes + offsetof(struct lsmem_next, events), &events, sizeof(events));
	if (gene[6].how > 250)
		is_wrong(m, 0);
	ret = repl_call(m, LSMEM_REPL_NEXT);
	if (ret || !touch_copy(&next, m->argument, sizeof(next)) || next.nr > 256 ||
	    !touch_copy(me->events, (void *)(uintptr_t)next.events, next.nr * sizeof(*me->events)))
		return ret;
	me->nr_events = next.nr;
	me->generation_wanted = next.generation_wanted;
	return 0;
}

/* Make acknowledgements of the last events, or, with one field changed, of others. */
static uint32_t make_acks(struct making *m, struct lsmem_ack_one *acks)
{
	const struct gene *gene = m->call->gene;
	struct caller *me = m->me;
	uint32_t nr = 0, i;

	for (i = 0; i < me->nr_events; i++) {
		const struct lsmem_event *event = &me->events[i];

		if (event->type == LSMEM_EVENT_RETIRE && event->flags & LSMEM_EVENT_MORE)
			continue;
		if (event->type == LSMEM_EVENT_RESUME)
			continue;
		acks[nr++] = (struct lsmem_ack_one){ event->type, event->to, event->segment };
	}
	if (how_of(&gene[7]) == VALID)
		return nr;
	if (!nr)
		acks[nr++] = (struct lsmem_ack_one){ 1 + gene[7].bits % 5, gene[7].small,
						     gene[7].at % 16 };
	i = gene[7].bits % nr;
	switch (how_of(&gene[7])) {
	case BOUNDARY:
		acks[i].to += gene[7].small % 2 ? 8 : -8u;
		break;
	case STALE:
		acks[i].type = gene[7].small % 8;
		break;
	case FOREIGN:
		acks[i].segment += gene[7].small % 5 - 2ull;
		break;
	default:
		acks[i].segment = random_next(&m->random);
		acks[i].to = gene[8].bits;
	}
	return nr;
}

long run_ack(struct making *m)
{
	static const struct field fields[] = {
		FIELD(lsmem_ack, size, SIZE),
		FIELD(lsmem_ack, flags, ZERO),
		FIELD(lsmem_ack, generation_ceiling, NUMBER, .high = LSMEM_GENERATION_MAX,
		      .error = EINVAL),
	};
	const struct gene *gene = m->call->gene;
	struct lsmem_ack_one acks[257];
	struct caller *me = m->me;
	struct lsmem_ack ack;
	uint8_t *at;

	pick_fd(m, &gene[0], FD_REPL);
	m->size = sizeof(ack);
	make_fields(m, fields, NR(fields), &gene[2], m->bytes);
	memcpy(&ack, m->bytes, sizeof(ack));
	ack.nr = make_acks(m, acks);
	at = place_array(m, &gene[6], HEAP_ARRAY, sizeof(acks), false);
	touch_copy(at, acks, ack.nr * sizeof(*acks));
	ack.acks = (uintptr_t)at;
	if (how_of(&gene[5]) != VALID) {
		ack.nr = gene[5].bits % 2 ? 4097 : 4096 + gene[5].bits;
		is_wrong(m, 0);
	}
	if (ack.generation_ceiling <= LSMEM_GENERATION_MAX && gene[4].small % 8)
		ack.generation_ceiling = me->generation_wanted;
	memcpy(m->bytes, &ack, sizeof(ack));
	me->nr_events = gene[8].small % 8 ? 0 : me->nr_events;	/* or acknowledge them again */
	return repl_call(m, LSMEM_REPL_ACK);
}

/* Make entries as they are on a backup; the last one may be damaged or torn. */
static uint32_t make_entries(struct making *m, const struct lsmem_load *load, uint8_t *data)
{
	const struct gene *gene = m->call->gene;
	bool block = m->store >= 0 && shared->store[m->store].block;
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint32_t i, nr = 1 + gene[5].small % (block ? 4 : 16), length = 0, salt;

	memset(uuid, 7, sizeof(uuid));
	salt = lsmem_segment_salt(uuid, load->segment, load->generation);
	for (i = 0; i < nr; i++) {
		uint64_t bits = random_next(&m->random);
		bool deleted = bits % 8 == 0;
		uint32_t bytes = deleted ? 0 : block ? LSMEM_BLOCK : 1 + (bits >> 8) % 300;
		uint32_t generation = block ? 1 : 1 + (bits >> 20) % 3, header, size;
		bool last = i + 1 == nr;
		struct lsmem_entry e;

		e = lsmem_entry_make(deleted ? LSMEM_TYPE_TOMBSTONE : LSMEM_TYPE_OBJECT,
				     deleted ? load->segment : bytes,
				     lsmem_handle_make((bits >> 24) % 64, generation),
				     (bits >> 32) % 1000, bits >> 59, block ? 0 : 5,
				     (bits >> 40) % 2048 * LSMEM_BLOCK);
		header = lsmem_entry_header(&e);
		size = lsmem_entry_size(bytes);
		memset(data + length, (int)i, size);
		if (how_of(&gene[5]) == BOUNDARY && last)
			e.key = bits;
		if (how_of(&gene[5]) == FOREIGN && last && lsmem_entry_is_long(&e))
			e.more ^= 1ull << bits % 64;
		else if (how_of(&gene[5]) == FOREIGN && last)
			e.meta ^= 1u << bits % 32;
		e.crc = lsmem_entry_crc(&e, lsmem_crc32c(~0u, data + length + header, bytes), salt);
		memcpy(data + length, &e, header);
		if (how_of(&gene[5]) == GARBAGE && last)
			data[length + bits % size] ^= 1 << bits % 8;
		length += size;
	}
	if (how_of(&gene[5]) == STALE)
		length -= 8 * (1 + gene[5].bits % (length / 8));	/* torn */
	return length;
}

long run_load(struct making *m)
{
	static const struct field fields[] = {
		FIELD(lsmem_load, size, SIZE),
		FIELD(lsmem_load, flags, ZERO),
		FIELD(lsmem_load, reserved, ZERO),
	};
	const struct gene *gene = m->call->gene;
	struct lsmem_load load;
	uint8_t *data = m->me->heap + HEAP_ARRAY, *at;

	pick_fd(m, &gene[0], FD_REPL);
	m->size = sizeof(load);
	make_fields(m, fields, NR(fields), &gene[2], m->bytes);
	memcpy(&load, m->bytes, sizeof(load));
	/* Continue the present segment, or begin the next one. */
	load.segment = gene[6].bits * 0x100000001ull;
	if (how_of(&gene[6]) == VALID && m->store >= 0)
		load.segment = atomic_fetch_add(&shared->store[m->store].segment,
						gene[6].small % 4 == 0) + 1;
	load.generation = how_of(&gene[7]) == VALID ? 1 : gene[7].bits % 3;
	load.sealed = how_of(&gene[8]) == VALID ? segment_sealed(load.segment) : gene[8].bits;
	load.length = make_entries(m, &load, data);
	at = place_array(m, &gene[9], HEAP_DATA, load.length, false);
	touch_copy(at, data, load.length);
	load.data = (uintptr_t)at;
	if (how_of(&gene[10]) != VALID)
		load.length = gene[10].bits;
	memcpy(m->bytes, &load, sizeof(load));
	return repl_call(m, LSMEM_REPL_LOAD);
}

/* Clean segments of the last events, and others. */
long run_clean(struct making *m)
{
	static const struct field fields[] = {
		FIELD(lsmem_clean, size, SIZE),
		FIELD(lsmem_clean, reserved, ZERO),
		FIELD(lsmem_clean, nr, NUMBER, .low = 1, .high = 64, .error = EINVAL),
	};
	const struct gene *gene = m->call->gene;
	struct caller *me = m->me;
	struct lsmem_clean clean;
	uint64_t ids[64];
	uint8_t *at;
	uint32_t i;

	pick_fd(m, &gene[0], FD_REPL);
	m->size = sizeof(clean);
	make_fields(m, fields, NR(fields), &gene[2], m->bytes);
	memcpy(&clean, m->bytes, sizeof(clean));
	for (i = 0; i < NR(ids); i++)
		ids[i] = me->nr_events && gene[6].small % 8 ?
			 me->events[(gene[6].bits + i) % me->nr_events].segment :
			 1 + random_next(&m->random) % 64;
	at = place_array(m, &gene[7], HEAP_ARRAY, sizeof(ids), false);
	touch_copy(at, ids, sizeof(ids));
	clean.segments = (uintptr_t)at;
	if (gene[8].how > 250) {	/* seldom: after that the descriptor begins no pass */
		clean.flags = LSMEM_CLEAN_LAST;
		clean.nr = 0;
		is_wrong(m, 0);
	} else if (how_of(&gene[8]) != VALID) {
		clean.flags = 1u << gene[8].bits % 32;
		is_wrong(m, clean.flags == LSMEM_CLEAN_DAMAGED ? 0 : EINVAL);
	}
	memcpy(m->bytes, &clean, sizeof(clean));
	return repl_call(m, LSMEM_REPL_CLEAN);
}

/* Freeze a store, seldom for longer than the call: then all that others do with it waits, and fails. */
long run_freeze(struct making *m)
{
	static const struct field fields[] = {
		FIELD(lsmem_freeze, size, SIZE),
		FIELD(lsmem_freeze, term, NUMBER, .low = 1, .high = 1000),	/* that and more */
		FIELD(lsmem_freeze, frozen, ZERO),
		FIELD(lsmem_freeze, reserved, ZERO),
		FIELD(lsmem_freeze, objects, ZERO),
	};
	const struct gene *gene = m->call->gene;
	struct lsmem_freeze freeze, thaw = { .size = sizeof(thaw), .flags = LSMEM_FREEZE_THAW };
	long ret;

	pick_fd(m, &gene[0], FD_REPL);
	m->size = sizeof(freeze);
	m->first = LSMEM_FREEZE_SIZE_VER0;
	make_fields(m, fields, NR(fields), &gene[2], m->bytes);
	memcpy(&freeze, m->bytes, sizeof(freeze));
	freeze.flags = gene[6].small % 4 ? 0 : LSMEM_FREEZE_THAW;
	if (how_of(&gene[7]) != VALID) {
		freeze.flags |= 2u << gene[7].bits % 31;
		is_wrong(m, EINVAL);
	}
	if (how_of(&gene[8]) == NONE) {
		freeze.term = 0;
		if (!(freeze.flags & LSMEM_FREEZE_THAW))
			is_wrong(m, EINVAL);
	}
	memcpy(m->bytes, &freeze, sizeof(freeze));
	ret = repl_call(m, LSMEM_REPL_FREEZE);
	if (gene[8].small % 16)
		(void)syscall(SYS_ioctl, m->fd, LSMEM_REPL_FREEZE, &thaw);
	return ret;
}

/* Have words told; or ask for the places of listings that were told before, or that never were. */
long run_words(struct making *m)
{
	static const struct field fields[] = {
		FIELD(lsmem_words, size, SIZE),
		FIELD(lsmem_words, generation, ZERO),
		FIELD(lsmem_words, end, ZERO),
		FIELD(lsmem_words, cold, ZERO),
		FIELD(lsmem_words, state, ZERO),
		FIELD(lsmem_words, left, ZERO),
		FIELD(lsmem_words, reserved, ZERO),
	};
	const struct gene *gene = m->call->gene;
	struct lsmem_listing listings[LSMEM_WORDS_PLACES_MAX];
	struct caller *me = m->me;
	bool places = gene[9].small % 2;
	struct lsmem_words words;
	uint32_t i;
	void *at;

	pick_fd(m, &gene[0], FD_REPL);
	m->size = sizeof(words);
	make_fields(m, fields, NR(fields), &gene[2], m->bytes);
	memcpy(&words, m->bytes, sizeof(words));
	words.flags = places ? LSMEM_WORDS_PLACES | (gene[9].small % 4 == 1 ? LSMEM_WORDS_CACHED : 0) :
			       gene[9].small % 16 ? 0 : LSMEM_WORDS_BEGIN;
	words.nr = 1 + gene[10].bits % NR(listings);
	at = place_array(m, &gene[11], HEAP_ARRAY, sizeof(listings), !places);
	if (places) {
		words.segment = me->nr_events && gene[9].small % 8 ? me->events[gene[9].bits % me->nr_events].segment :
								    1 + gene[9].bits % 64;
		/* The heap has what the calls before have told, and other things. */
		for (i = 0; i < gene[12].small % 8; i++)
			touch_copy((char *)at + gene[12].bits % (sizeof(listings) - 8), &m->random, 8);
	}
	if (how_of(&gene[10]) != VALID) {
		words.nr = places ? NR(listings) + 1 + gene[10].bits % 1000 : 0;
		is_wrong(m, EINVAL);
	}
	if (how_of(&gene[12]) != VALID) {
		words.flags |= 2 * LSMEM_WORDS_CACHED << gene[12].bits % 29;
		is_wrong(m, EINVAL);
	}
	words.listings = (uintptr_t)at;
	memcpy(m->bytes, &words, sizeof(words));
	return repl_call(m, LSMEM_REPL_WORDS);
}

long run_poll(struct making *m)
{
	const struct gene *gene = m->call->gene;
	struct pollfd pollfd = { .events = POLLIN | POLLRDBAND };

	pick_fd(m, &gene[0], FD_REPL);
	pollfd.fd = m->fd;
	note(m, m->fd, 0, NULL, NULL, 0);
	return poll(&pollfd, 1, gene[1].small % 8 ? 0 : 5) < 0 ? -errno : 0;
}
