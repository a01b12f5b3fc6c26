// SPDX-License-Identifier: GPL-2.0
/*
 * Objects from the memory of a migration's source: daemon/move/pull.h, with a simulated memory of the source, READs that end in any
 * order, late or never, and a kernel that looks for the newest version in the first block, as the module does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/fetch.h"
#include "format/format.h"
#include "move/pull.h"
#include "../common/random.h"
#include "../common/tap.h"

#define INDICES		1000u
#define SEGLETS		256u
#define OBJECTS		60u
#define SEGMENT		7u
#define GENERATION	3u
#define MS		1000000ull

static const uint8_t uuid[LSMEM_UUID_BYTES] = { 1, 2, 3 };
static const uint32_t lengths[] = { 1, 100, 2047, 2048, 4000, 9000, 65000, 70000, 300000, LSMEM_OBJECT_MAX };

/**
 * struct object - an object of the source
 * @version: the newest
 * @length: bytes
 * @home: in the segment
 * @place: position in the source's memory
 * @told: there was room for it there
 * @asked: pull_take() has taken the request
 * @got: it came, so many times
 * @back: the backups are to answer it
 */
struct object {
	uint64_t version, place;
	uint32_t length, home;
	bool told, asked;
	uint32_t got, back;
};

static struct {
	uint8_t *memory;
	struct lsmem_seglet table[SEGLETS];
	uint32_t order[SEGLETS];	/* seglets of the log, in its order */
	uint64_t end;			/* bytes of the log */
	struct object objects[OBJECTS];
	struct known *known;
	struct pull *p;
	struct pull_read reads[PULL_TAGS];
	bool in_flight[PULL_TAGS];
	uint32_t nr_reads;
	uint64_t now, random;
	uint32_t given;		/* answers that the kernel got */
	int refuse;		/* the kernel's answer to what is right; 0: it takes it */
	const char *error;
} t;

static union {
	struct ahead_head head;
	uint8_t bytes[AHEAD_BYTES];
} block;

static uint8_t content(uint32_t index, uint64_t version, uint32_t i)
{
	return (uint8_t)(index * 31 + version * 7 + i * 3 + (i >> 8));
}

/* Byte @at of the log, as the source has it. */
static uint8_t *byte_at(uint64_t at)
{
	return t.memory + (size_t)t.order[at / LSMEM_SEGLET_BYTES] * LSMEM_SEGLET_BYTES + at % LSMEM_SEGLET_BYTES;
}

static void copy_in(uint64_t at, const void *data, uint32_t bytes)
{
	uint32_t i;

	for (i = 0; i < bytes; i++)
		*byte_at(at + i) = ((const uint8_t *)data)[i];
}

/* Put an entry into the source's memory at @at of the log. */
static void put_entry(uint64_t at, uint32_t index, uint64_t version, uint32_t length, uint32_t home)
{
	struct lsmem_entry e = lsmem_entry_make(LSMEM_TYPE_OBJECT, length, lsmem_handle_make(index, 2), version, 4, 1, home);
	static uint8_t payload[LSMEM_OBJECT_MAX];
	uint32_t i;

	for (i = 0; i < length; i++)
		payload[i] = content(index, version, i);
	e.crc = __cpu_to_le32(lsmem_entry_crc(&e, lsmem_crc32c(~0u, payload, length),
					      lsmem_segment_salt(uuid, SEGMENT, GENERATION)));
	copy_in(at, &e, lsmem_entry_header(&e));
	copy_in(at + lsmem_entry_header(&e), payload, length);
}

/* Tell the listing of an object to the target. */
static int tell(uint32_t index, uint64_t version, uint64_t place)
{
	const struct object *o = &t.objects[index];
	struct lsmem_directory_entry e = {
		__cpu_to_le64(lsmem_handle_make(index, 2)), __cpu_to_le64(version),
		__cpu_to_le64(lsmem_listing_make(o->length, LSMEM_TYPE_OBJECT, o->home, 1, 4)),
	};

	ahead_begin_segment(&block.head, SEGMENT, GENERATION, LSMEM_SEGMENT_BYTES - 4 * LSMEM_BLOCK);
	(void)ahead_add_listing(&block.head, &e, place);
	return known_block(t.known, &block.head);
}

static uint64_t position(uint64_t at)
{
	return (uint64_t)t.order[at / LSMEM_SEGLET_BYTES] << LSMEM_POSITION_OFFSET_BITS | at % LSMEM_SEGLET_BYTES / LSMEM_ALIGN;
}

static void keys(void)
{
	const struct move_keys all = {
		.seglets = { 0x100000000ull, (uint64_t)SEGLETS * LSMEM_SEGLET_BYTES, 11 },
		.table = { 0x7000, sizeof(t.table), 22 },
	};

	pull_open(t.p, &all);
}

static void finish(void)
{
	pull_free(t.p);
	known_free(t.known);
	free(t.memory);
	t.p = NULL;
	t.known = NULL;
	t.memory = NULL;
}

/* A source with all its objects, told, and a target with keys. */
static bool begin(uint64_t seed)
{
	uint32_t i, j;
	uint64_t at = 0;

	finish();
	memset(&t, 0, sizeof(t));
	t.random = seed;
	t.now = 1000 * MS;
	t.memory = calloc(SEGLETS, LSMEM_SEGLET_BYTES);
	t.known = known_new(INDICES, 100);
	for (i = 0; i < SEGLETS; i++)
		t.order[i] = i;
	for (i = SEGLETS - 1; i; i--) {
		uint32_t other = random_below(&t.random, i + 1), was = t.order[i];

		t.order[i] = t.order[other];
		t.order[other] = was;
	}
	for (i = 0; i < SEGLETS; i++)
		t.table[t.order[i]].next = i + 1 < SEGLETS ? t.order[i + 1] : UINT32_MAX;
	for (i = 0; i < OBJECTS; i++) {
		struct object *o = &t.objects[i];

		j = random_below(&t.random, sizeof(lengths) / sizeof(lengths[0]));
		o->length = lengths[j];
		o->version = 100 + i;
		o->home = i * 9 * LSMEM_BLOCK + random_below(&t.random, LSMEM_BLOCK / 8) * 8;
		at = (at + LSMEM_SEGLET_BYTES - 1) / LSMEM_SEGLET_BYTES * LSMEM_SEGLET_BYTES +
		     random_below(&t.random, LSMEM_SEGLET_BYTES / 8 - 4) * 8;
		if (at + lsmem_entry_size(o->length) > (uint64_t)SEGLETS * LSMEM_SEGLET_BYTES) {
			o->length = 100;
			at = i * 24ull;		/* never told */
			continue;
		}
		put_entry(at, i, o->version, o->length, o->home);
		o->place = position(at);
		CHECK(!tell(i, o->version, o->place));
		o->told = true;
		at += lsmem_entry_size(o->length);
	}
	t.p = pull_new(t.known, INDICES, SEGLETS, t.now);
	CHECK(t.p);
	keys();
	return true;
}

static struct lsmem_fetch_one request(uint32_t index)
{
	return (struct lsmem_fetch_one){
		.cookie = (uint64_t)(index + 9) << 32 | index,
		.segment = SEGMENT,
		.generation = GENERATION,
		.block = t.objects[index].home / LSMEM_BLOCK,
		.blocks = 1,
	};
}

static bool ask(uint32_t index)
{
	struct lsmem_fetch_one one = request(index);

	return t.objects[index].asked = pull_take(t.p, &one, t.now);
}

/* ---- The source's adapter --------------------------------------------------------- */

static void start(void)
{
	uint8_t *from = pull_memory(t.p);
	struct pull_read read;

	while (pull_next(t.p, &read)) {
		if (read.tag >= PULL_TAGS || t.in_flight[read.tag] || !read.length || (uint8_t *)read.data < from ||
		    (uint8_t *)read.data + read.length > from + PULL_MEMORY)
			t.error = "an impossible read";
		if (read.key == 11 ? read.address < 0x100000000ull || read.address - 0x100000000ull + read.length >
				     (uint64_t)SEGLETS * LSMEM_SEGLET_BYTES :
		    read.key != 22 || read.address < 0x7000 || read.address - 0x7000 + read.length > sizeof(t.table))
			t.error = "a read beyond its key";
		if (t.error)
			return;
		t.reads[read.tag] = read;
		t.in_flight[read.tag] = true;
		t.nr_reads++;
	}
}

static void complete(uint32_t tag)
{
	const struct pull_read *read = &t.reads[tag];

	if (read->key == 11)
		memcpy(read->data, t.memory + (read->address - 0x100000000ull), read->length);
	else
		memcpy(read->data, (uint8_t *)t.table + (read->address - 0x7000), read->length);
	t.in_flight[tag] = false;
	pull_done(t.p, tag);
}

static bool complete_some(uint32_t percent)
{
	bool any = false;
	uint32_t tag;

	start();
	for (tag = 0; tag < PULL_TAGS && !t.error; tag++) {
		if (!t.in_flight[tag] || !random_chance(&t.random, percent))
			continue;
		complete(tag);
		any = true;
	}
	return any;
}

/* ---- The kernel ---------------------------------------------------------------------- */

/* Look for the newest version that is whole among what begins in the first block. */
static int look(uint32_t index, const uint8_t *data, uint32_t length)
{
	uint32_t salt = lsmem_segment_salt(uuid, SEGMENT, GENERATION), at, i;
	const struct object *o = &t.objects[index];
	const struct lsmem_entry *best = NULL;

	for (at = 0; at < LSMEM_BLOCK; at += LSMEM_ALIGN) {
		const struct lsmem_entry *e = (const void *)(data + at);

		if (lsmem_handle_index(lsmem_entry_handle(e)) != index || !lsmem_entry_sane(e) ||
		    lsmem_entry_type(e) != LSMEM_TYPE_OBJECT || lsmem_entry_home(e) != o->home / LSMEM_BLOCK ||
		    at + lsmem_entry_bytes(e) > length || !lsmem_entry_valid(e, format_payload(e), salt))
			continue;
		if (!best || lsmem_entry_version(e) > lsmem_entry_version(best))
			best = e;
	}
	if (!best)
		return -EBADMSG;
	if (lsmem_entry_version(best) != o->version)
		t.error = "another version";
	for (i = 0; i < lsmem_entry_length(best); i++)
		if (((const uint8_t *)format_payload(best))[i] != content(index, o->version, i))
			t.error = "another content";
	if (!format_is_zero((const uint8_t *)best + lsmem_entry_bytes(best),
			    (size_t)(data + length - (const uint8_t *)best) - lsmem_entry_bytes(best)))
		t.error = "more than the object";
	/* The word that an eviction makes of it must have enough blocks for its place at home. */
	if ((uint32_t)((const uint8_t *)best - data) < o->home % LSMEM_BLOCK)
		t.error = "it may end in a later block";
	return t.refuse;
}

static void fill(void)
{
	struct lsmem_fill_one fills[PULL_SLOTS];
	struct lsmem_fetch_one one;
	uint32_t n = pull_fills(t.p, fills, PULL_SLOTS), i;

	for (i = 0; i < n; i++) {
		uint32_t index = (uint32_t)fills[i].cookie;

		if (fills[i].length % LSMEM_BLOCK || fills[i].length < 2 * LSMEM_BLOCK || fills[i].result ||
		    !t.objects[index].asked)
			t.error = "an impossible answer";
		t.given++;
		fills[i].result = look(index, (const void *)(uintptr_t)fills[i].data, fills[i].length);
		t.objects[index].got += !fills[i].result || fills[i].result == -ENOENT;
	}
	pull_filled(t.p, fills, n, t.now);
	while (pull_back(t.p, &one)) {
		const struct lsmem_fetch_one same = request((uint32_t)one.cookie);

		if (memcmp(&one, &same, sizeof(one)))
			t.error = "another request";
		t.objects[(uint32_t)one.cookie].back++;
	}
}

static void run_all(void)
{
	do
		fill();
	while (complete_some(100) || pull_has_back(t.p));
	fill();
}

static struct pull_stats stats(void)
{
	struct pull_stats s;

	pull_stats(t.p, &s);
	return s;
}

/* Was each request answered once, here or by the backups? */
static bool each_once(void)
{
	uint32_t i;

	for (i = 0; i < OBJECTS; i++)
		CHECK(t.objects[i].got + t.objects[i].back == t.objects[i].asked);
	CHECK(!pull_held(t.p));
	if (t.error)
		tap_note("%s", t.error);
	return !t.error;
}

/* ---- The tests -------------------------------------------------------------------------- */

static bool objects_come(void)
{
	uint32_t i, asked = 0;

	CHECK(begin(1));
	for (i = 0; i < OBJECTS; i++) {
		CHECK(ask(i) == t.objects[i].told);
		asked += t.objects[i].asked;
		run_all();
		CHECK(t.objects[i].got == t.objects[i].asked);
	}
	CHECK(asked > 20 && stats().objects == asked && !stats().wrong && !stats().late);
	return each_once();
}

/* What the source has not, or has not told, or is asked for another place, is for the backups. */
static bool others_are_refused(void)
{
	struct lsmem_fetch_one one;
	uint32_t i;

	CHECK(begin(2));
	CHECK(t.objects[0].told);
	for (i = 0; i < 6; i++) {
		one = request(0);
		one.segment += i == 0;
		one.block += i == 1;
		one.flags = i == 2 ? LSMEM_FETCH_SEGMENT : 0;
		one.cookie += i == 3 ? INDICES : 0;
		one.cookie += i == 4 ? INDICES - 1 : 0;
		one.blocks = i == 5 ? 100000 : 1;
		CHECK(!pull_take(t.p, &one, t.now));
	}
	CHECK(!tell(0, t.objects[0].version, AHEAD_COLD) && !ask(0));
	CHECK(!tell(0, t.objects[0].version, (uint64_t)SEGLETS << LSMEM_POSITION_OFFSET_BITS) && !ask(0));
	CHECK(!tell(0, t.objects[0].version, t.objects[0].place) && ask(0));
	run_all();
	return each_once();
}

/* An older version, which is whole, at the place that was told; another object; damage; a chain that leaves the memory. */
static bool wrong_bytes_are_not_given(void)
{
	uint32_t i, index, big = 0, all = 0;
	uint64_t at;

	for (i = 0; i < 5; i++) {
		CHECK(begin(3));
		for (index = 0; !t.objects[index].told || t.objects[index].length > 9000; index++)
			;
		for (big = 0; !t.objects[big].told || t.objects[big].length < 100000; big++)
			;
		at = 0;
		while (position(at) != t.objects[index].place)
			at += LSMEM_ALIGN;
		if (i == 0)
			put_entry(at, index, t.objects[index].version - 1, t.objects[index].length, t.objects[index].home);
		if (i == 1)
			put_entry(at, index + 1, t.objects[index].version, t.objects[index].length, t.objects[index].home);
		if (i == 2)
			*byte_at(at + lsmem_header_bytes(t.objects[index].length)) ^= 1;
		if (i == 3)
			*byte_at(at + 4) ^= 1;		/* its length */
		if (i == 4) {
			t.table[t.objects[big].place >> LSMEM_POSITION_OFFSET_BITS].next = SEGLETS;
			index = big;
		}
		CHECK(ask(index));
		run_all();
		CHECK(!t.objects[index].got && t.objects[index].back == 1);
		CHECK(t.given == (i == 2));	/* the CRC is for the kernel */
		all += stats().wrong == 1;
		CHECK(each_once());
	}
	CHECK(all == 5);
	return true;
}

/* The kernel has no memory: that is for the backups; the object was replaced: that is an answer. */
static bool refusals_are_taken(void)
{
	CHECK(begin(4) && ask(0));
	t.refuse = -EAGAIN;
	run_all();
	CHECK(t.objects[0].back == 1 && !stats().wrong && !stats().objects);
	CHECK(begin(4) && ask(0));
	t.refuse = -ENOENT;
	run_all();
	CHECK(t.objects[0].got == 1 && !stats().objects);
	return each_once();
}

/* A READ that does not end: the backups answer; nothing more is asked of this source until it has ended. */
static bool late_is_for_the_backups(void)
{
	uint32_t tag;

	CHECK(begin(5) && t.objects[0].told && t.objects[1].told && ask(0));
	start();
	CHECK(pull_due(t.p) == t.now + PULL_LATE_NS);
	t.now += PULL_LATE_NS - 1;
	pull_late(t.p, t.now);
	CHECK(!pull_has_back(t.p));
	t.now++;
	pull_late(t.p, t.now);
	fill();
	CHECK(t.objects[0].back == 1 && stats().late == 1 && pull_due(t.p) == FETCH_NEVER && !ask(1));
	CHECK(pull_wants(t.p, true, t.now));	/* the buffer is being written to */
	for (tag = 0; tag < PULL_TAGS; tag++)
		if (t.in_flight[tag])
			complete(tag);
	run_all();
	CHECK(!t.objects[0].got && !pull_wants(t.p, true, t.now));
	return each_once();
}

/* The source dies in the midst: each request is answered by the backups, and a later connection serves again. */
static bool a_cut_is_for_the_backups(void)
{
	uint32_t i, asked = 0, back = 0;

	CHECK(begin(6));
	for (i = 0; i < OBJECTS; i++)
		asked += ask(i);
	CHECK(asked == PULL_SLOTS);
	complete_some(50);
	pull_cut(t.p);
	memset(t.in_flight, 0, sizeof(t.in_flight));
	CHECK(!pull_is_open(t.p));
	run_all();
	for (i = 0; i < OBJECTS; i++)
		back += t.objects[i].back;
	CHECK(back && stats().cut == back && stats().objects == asked - back && each_once());
	for (i = 0; i < OBJECTS && !t.objects[i].told; i++)
		;
	t.objects[i] = (struct object){ .version = t.objects[i].version, .length = t.objects[i].length,
					.home = t.objects[i].home, .told = true, .place = t.objects[i].place };
	CHECK(!ask(i));
	keys();
	CHECK(ask(i));
	run_all();
	CHECK(t.objects[i].got == 1);
	return each_once();
}

/* CLOSE can be said when nothing comes any more, after a time in any case, and never with a READ in flight. */
static bool it_has_an_end(void)
{
	uint64_t s = 1000 * MS, i;

	CHECK(begin(7) && pull_wants(t.p, false, t.now + 9 * s));
	CHECK(!pull_wants(t.p, false, t.now + PULL_IDLE_S * s) && !ask(0));
	CHECK(begin(7) && ask(0) && pull_wants(t.p, true, t.now));
	CHECK(!ask(1));
	run_all();
	CHECK(t.objects[0].got == 1 && !pull_wants(t.p, true, t.now));
	CHECK(begin(7));
	for (i = 0; i < PULL_MOST_S / 5; i++) {
		t.objects[0].got = 0;
		CHECK(ask(0));
		run_all();
		CHECK(t.objects[0].got == 1 && pull_wants(t.p, false, t.now));
		t.now += 5 * s;
	}
	CHECK(!pull_wants(t.p, false, t.now));
	return each_once();
}

/* All of it at once. */
static bool random_lives(uint64_t seed)
{
	uint32_t step, i;

	CHECK(begin(seed));
	for (step = 0; step < 400 && !t.error; step++) {
		i = random_below(&t.random, OBJECTS);
		if (!t.objects[i].asked)
			ask(i);
		complete_some(40);
		t.now += random_below(&t.random, 10) * MS;
		if (random_chance(&t.random, 10))
			pull_late(t.p, t.now);
		if (random_chance(&t.random, 3)) {
			pull_cut(t.p);
			memset(t.in_flight, 0, sizeof(t.in_flight));
			keys();
		}
		if (random_chance(&t.random, 5))
			*byte_at(random_below(&t.random, SEGLETS * LSMEM_SEGLET_BYTES)) ^= 4;
		fill();
		/* Asked for again, as after an eviction. */
		if (t.objects[i].got + t.objects[i].back == 1) {
			t.objects[i].got = t.objects[i].back = 0;
			t.objects[i].asked = false;
		}
	}
	run_all();
	return each_once();
}

int main(void)
{
	bool good = true;
	uint64_t seed;

	tap_ok(objects_come(), "objects come from the source's memory, across seglets");
	tap_ok(others_are_refused(), "what the source does not have at this place is for the backups");
	tap_ok(wrong_bytes_are_not_given(), "PULL_CHECK: an older version, another object, damage, a wrong chain: the backups answer");
	tap_ok(refusals_are_taken(), "what the kernel answers");
	tap_ok(late_is_for_the_backups(), "a late READ: the backups answer");
	tap_ok(a_cut_is_for_the_backups(), "the source dies: the backups answer; and it comes back");
	tap_ok(it_has_an_end(), "CLOSE_COMPLETE: when nothing comes any more, and not with a READ in flight");
	for (seed = 1; seed <= 60 && good; seed++) {
		good = random_lives(seed);
		if (!good)
			tap_note("seed %llu", (unsigned long long)seed);
	}
	tap_ok(good, "random lives");
	finish();
	return tap_end();
}
