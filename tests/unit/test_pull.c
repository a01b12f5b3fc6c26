// SPDX-License-Identifier: GPL-2.0
/*
 * Objects from the memory of a migration's source: daemon/move/pull.h, with a simulated memory of the source, READs that end in any
 * order, late or never, and a kernel that looks for the newest version in the first block, as the module does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/fetch.h"
#include "move/pull.h"
#include "source_memory.h"

static struct {
	struct pull *p;
	uint8_t *memory;
	struct pull_read reads[PULL_TAGS];
	bool in_flight[PULL_TAGS];
	uint32_t nr_reads;
	uint64_t now;
	uint32_t given;		/* answers that the kernel got */
	int refuse;		/* the kernel's answer to what is right; 0: it takes it */
	const char *error;
} t;

static void keys(void)
{
	pull_open(t.p, &source_keys);
}

static void finish(void)
{
	pull_free(t.p);
	free(t.memory);
	t.p = NULL;
	t.memory = NULL;
	source_free();
}

/* A source with all its objects, told, and a target with keys. */
static bool begin(uint64_t seed)
{
	finish();
	memset(&t, 0, sizeof(t));
	t.now = 1000 * MS;
	if (!source_begin(seed, false))
		return false;
	t.memory = calloc(1, PULL_MEMORY);
	t.p = pull_new(source.known, INDICES, SEGLETS, t.memory, t.now);
	CHECK(t.p && t.memory);
	keys();
	return true;
}

static struct lsmem_fetch_one request(uint32_t index)
{
	return (struct lsmem_fetch_one){
		.cookie = (uint64_t)(index + 9) << 32 | index,
		.segment = SEGMENT,
		.generation = GENERATION,
		.block = source.objects[index].home / LSMEM_BLOCK,
		.blocks = 1,
	};
}

static bool ask(uint32_t index)
{
	struct lsmem_fetch_one one = request(index);

	return source.objects[index].asked = pull_take(t.p, &one, t.now);
}

/* ---- The source's adapter --------------------------------------------------------- */

static void start(void)
{
	struct pull_read read;

	while (pull_next(t.p, &read)) {
		if (read.tag >= PULL_TAGS || t.in_flight[read.tag] || (uint8_t *)read.data < t.memory ||
		    (uint8_t *)read.data + read.length > t.memory + PULL_MEMORY)
			t.error = "an impossible read";
		if (!source_has(&read))
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
	source_read(&t.reads[tag]);
	t.in_flight[tag] = false;
	pull_done(t.p, tag);
}

static bool complete_some(uint32_t percent)
{
	bool any = false;
	uint32_t tag;

	start();
	for (tag = 0; tag < PULL_TAGS && !t.error; tag++) {
		if (!t.in_flight[tag] || !random_chance(&source.random, percent))
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
	const struct object *o = &source.objects[index];
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
		    !source.objects[index].asked)
			t.error = "an impossible answer";
		t.given++;
		fills[i].result = look(index, (const void *)(uintptr_t)fills[i].data, fills[i].length);
		source.objects[index].got += !fills[i].result || fills[i].result == -ENOENT;
	}
	pull_filled(t.p, fills, n, t.now);
	while (pull_back(t.p, &one)) {
		const struct lsmem_fetch_one same = request((uint32_t)one.cookie);

		if (memcmp(&one, &same, sizeof(one)))
			t.error = "another request";
		source.objects[(uint32_t)one.cookie].back++;
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
		CHECK(source.objects[i].got + source.objects[i].back == source.objects[i].asked);
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
		CHECK(ask(i) == source.objects[i].told);
		asked += source.objects[i].asked;
		run_all();
		CHECK(source.objects[i].got == source.objects[i].asked);
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
	CHECK(source.objects[0].told);
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
	CHECK(!tell(0, source.objects[0].version, AHEAD_COLD) && !ask(0));
	CHECK(!tell(0, source.objects[0].version, (uint64_t)SEGLETS << LSMEM_POSITION_OFFSET_BITS) && !ask(0));
	CHECK(!tell(0, source.objects[0].version, source.objects[0].place) && ask(0));
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
		for (index = 0; !source.objects[index].told || source.objects[index].length > 9000; index++)
			;
		for (big = 0; !source.objects[big].told || source.objects[big].length < 100000; big++)
			;
		at = 0;
		while (position(at) != position_of(&source.objects[index]))
			at += LSMEM_ALIGN;
		if (i == 0)
			put_entry(at, index, source.objects[index].version - 1, source.objects[index].length, source.objects[index].home);
		if (i == 1)
			put_entry(at, index + 1, source.objects[index].version, source.objects[index].length, source.objects[index].home);
		if (i == 2)
			*byte_at(at + lsmem_header_bytes(source.objects[index].length)) ^= 1;
		if (i == 3)
			*byte_at(at + 4) ^= 1;		/* its length */
		if (i == 4) {
			source.table[position_of(&source.objects[big]) >> LSMEM_POSITION_OFFSET_BITS].next = SEGLETS;
			index = big;
		}
		CHECK(ask(index));
		run_all();
		CHECK(!source.objects[index].got && source.objects[index].back == 1);
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
	CHECK(source.objects[0].back == 1 && !stats().wrong && !stats().objects);
	CHECK(begin(4) && ask(0));
	t.refuse = -ENOENT;
	run_all();
	CHECK(source.objects[0].got == 1 && !stats().objects);
	return each_once();
}

/* A READ that does not end: the backups answer; nothing more is asked of this source until it has ended. */
static bool late_is_for_the_backups(void)
{
	uint32_t tag;

	CHECK(begin(5) && source.objects[0].told && source.objects[1].told && ask(0));
	start();
	CHECK(pull_due(t.p) == t.now + PULL_LATE_NS);
	t.now += PULL_LATE_NS - 1;
	pull_late(t.p, t.now);
	CHECK(!pull_has_back(t.p));
	t.now++;
	pull_late(t.p, t.now);
	fill();
	CHECK(source.objects[0].back == 1 && stats().late == 1 && pull_due(t.p) == FETCH_NEVER && !ask(1));
	CHECK(pull_wants(t.p, true, t.now));	/* the buffer is being written to */
	for (tag = 0; tag < PULL_TAGS; tag++)
		if (t.in_flight[tag])
			complete(tag);
	run_all();
	CHECK(!source.objects[0].got && !pull_wants(t.p, true, t.now));
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
		back += source.objects[i].back;
	CHECK(back && stats().cut == back && stats().objects == asked - back && each_once());
	for (i = 0; i < OBJECTS && !source.objects[i].told; i++)
		;
	source.objects[i] = (struct object){ .version = source.objects[i].version, .length = source.objects[i].length,
					.home = source.objects[i].home, .told = true, .place = source.objects[i].place };
	CHECK(!ask(i));
	keys();
	CHECK(ask(i));
	run_all();
	CHECK(source.objects[i].got == 1);
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
	CHECK(source.objects[0].got == 1 && !pull_wants(t.p, true, t.now));
	CHECK(begin(7));
	for (i = 0; i < PULL_MOST_S / 5; i++) {
		source.objects[0].got = 0;
		CHECK(ask(0));
		run_all();
		CHECK(source.objects[0].got == 1 && pull_wants(t.p, false, t.now));
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
		i = random_below(&source.random, OBJECTS);
		if (!source.objects[i].asked)
			ask(i);
		complete_some(40);
		t.now += random_below(&source.random, 10) * MS;
		if (random_chance(&source.random, 10))
			pull_late(t.p, t.now);
		if (random_chance(&source.random, 3)) {
			pull_cut(t.p);
			memset(t.in_flight, 0, sizeof(t.in_flight));
			keys();
		}
		if (random_chance(&source.random, 5))
			*byte_at(random_below(&source.random, SEGLETS * LSMEM_SEGLET_BYTES)) ^= 4;
		fill();
		/* Asked for again, as after an eviction. */
		if (source.objects[i].got + source.objects[i].back == 1) {
			source.objects[i].got = source.objects[i].back = 0;
			source.objects[i].asked = false;
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
