// SPDX-License-Identifier: GPL-2.0
/*
 * All of the memory of a migration's source: daemon/move/bulk.h, with a simulated memory of the source, READs that end in any order,
 * or never, and a kernel that checks each entry.
 */
#include <errno.h>

#include "core/fetch.h"
#include "move/bulk.h"
#include "source_memory.h"

static struct {
	struct bulk *b;
	uint8_t *memory;
	struct pull_read reads[BULK_TAGS];
	bool in_flight[BULK_TAGS];
	uint32_t most;		/* seglets that were read at once */
	uint64_t now;
	bool behind;
	uint64_t rate;
	uint32_t room;		/* objects that the kernel has room for */
	uint32_t given;
	uint64_t first, last;	/* segments of the objects that were given first and last */
	const char *error;
} t;

static void finish(void)
{
	bulk_free(t.b);
	free(t.memory);
	t.b = NULL;
	t.memory = NULL;
	source_free();
}

static bool begin(uint64_t seed)
{
	finish();
	memset(&t, 0, sizeof(t));
	t.now = 1000 * MS;
	t.room = UINT32_MAX;
	if (!source_begin(seed, true))
		return false;
	t.memory = calloc(1, BULK_MEMORY);
	t.b = bulk_new(source.known, INDICES, SEGLETS, t.memory, t.now);
	CHECK(t.b && t.memory);
	bulk_open(t.b, &source_keys);
	return true;
}

/* ---- The source's adapter --------------------------------------------------------- */

static void start(void)
{
	struct pull_read read;
	uint32_t tag, nr = 0;

	bulk_step(t.b, t.now);
	bulk_pace(t.b, t.rate, t.behind, t.now);
	while (bulk_next(t.b, t.now, &read)) {
		if (read.tag >= BULK_TAGS || t.in_flight[read.tag] || (uint8_t *)read.data < t.memory ||
		    (uint8_t *)read.data + read.length > t.memory + BULK_MEMORY)
			t.error = "an impossible read";
		if (!source_has(&read))
			t.error = "a read beyond its key";
		if (t.error)
			return;
		t.reads[read.tag] = read;
		t.in_flight[read.tag] = true;
	}
	for (tag = 0; tag < BULK_TAGS; tag++)
		nr += t.in_flight[tag] && t.reads[tag].key == source_keys.seglets.key;
	if (nr > t.most)
		t.most = nr;
}

static void complete(uint32_t tag)
{
	source_read(&t.reads[tag]);
	t.in_flight[tag] = false;
	bulk_done(t.b, tag);
}

static bool complete_some(uint32_t percent)
{
	bool any = false;
	uint32_t tag;

	start();
	for (tag = 0; tag < BULK_TAGS && !t.error; tag++) {
		any |= t.in_flight[tag];
		if (t.in_flight[tag] && random_chance(&source.random, percent))
			complete(tag);
	}
	return any;
}

static void cut(void)
{
	bulk_cut(t.b);
	memset(t.in_flight, 0, sizeof(t.in_flight));
}

/* ---- The kernel ---------------------------------------------------------------------- */

static int bring_one(const struct lsmem_bring_one *one)
{
	const struct lsmem_entry *e = (const void *)(uintptr_t)one->data;
	uint64_t index = lsmem_handle_index(lsmem_entry_handle(e));
	struct object *o = &source.objects[index];
	uint32_t i;

	t.given++;
	if (one->result || one->data < (uintptr_t)t.memory ||
	    one->data + one->length > (uintptr_t)t.memory + BULK_MEMORY || index >= OBJECTS ||
	    one->length != lsmem_entry_size(o->length) || lsmem_entry_version(e) != o->version || !o->told)
		t.error = "it is not what was told";
	if (t.error || !lsmem_entry_valid(e, format_payload(e), lsmem_segment_salt(uuid, o->segment, GENERATION)))
		return -EBADMSG;
	for (i = 0; i < o->length; i++)
		if (((const uint8_t *)format_payload(e))[i] != content((uint32_t)index, o->version, i))
			t.error = "another content";
	if (!t.room)
		return -EAGAIN;
	t.room--;
	if (o->got++)
		return -ENOENT;
	t.first = t.first ? t.first : o->segment;
	t.last = o->segment;
	return 0;
}

static bool bring(void)
{
	struct lsmem_bring_one ones[BULK_OBJECTS];
	uint32_t nr = bulk_objects(t.b, ones), i;

	for (i = 0; i < nr; i++)
		ones[i].result = bring_one(&ones[i]);
	if (nr)
		bulk_brought(t.b, ones, nr, t.now);
	return nr;
}

/* Until nothing goes on any more. */
static void run_all(void)
{
	while (complete_some(60) || bring() || bulk_waits(t.b, t.now))
		bring();
}

static struct bulk_stats stats(void)
{
	struct bulk_stats s;

	bulk_stats(t.b, &s);
	return s;
}

static uint32_t told(void)
{
	uint32_t nr = 0, i;

	for (i = 0; i < OBJECTS; i++)
		nr += source.objects[i].told;
	return nr;
}

static bool sound(void)
{
	if (t.error)
		tap_note("%s", t.error);
	return !t.error;
}

/* ---- The tests -------------------------------------------------------------------------- */

static bool all_come(uint64_t seed)
{
	uint32_t i;

	CHECK(begin(seed) && told() > 30 && bulk_wants(t.b, t.now) && !bulk_is_all(t.b));
	run_all();
	for (i = 0; i < OBJECTS; i++)
		CHECK(source.objects[i].got == source.objects[i].told);
	CHECK(stats().objects == told() && !stats().wrong && !stats().left && stats().seglets > 10);
	CHECK(bulk_is_all(t.b) && !bulk_wants(t.b, t.now) && t.most == BULK_SLOTS);
	/* New objects first. */
	CHECK(t.first > t.last && t.last == SEGMENT);
	return sound();
}

/* Requests of the kernel are under way: one seglet at a time. */
static bool it_stays_behind(void)
{
	CHECK(begin(2));
	t.behind = true;
	run_all();
	CHECK(t.most == 1 && bulk_is_all(t.b));
	CHECK(sound());
	/* The next one comes soon after. */
	CHECK(begin(2));
	t.behind = true;
	start();
	t.behind = false;
	t.now += BULK_BEHIND_NS - 1;
	start();
	CHECK(t.most == 1);
	t.now++;
	start();
	CHECK(t.most == 2);
	run_all();
	CHECK(bulk_is_all(t.b));
	return sound();
}

/* A second for each MiB, and no READ is begun before its time. */
static bool it_keeps_its_rate(void)
{
	uint64_t begun;

	CHECK(begin(8));
	begun = t.now;
	t.rate = 1 << 20;
	while (bulk_wants(t.b, t.now)) {
		run_all();
		CHECK(t.error || !bulk_wants(t.b, t.now) || bulk_due(t.b, t.now) > t.now);
		if (bulk_wants(t.b, t.now))
			t.now = bulk_due(t.b, t.now);
	}
	CHECK(bulk_is_all(t.b));
	CHECK(t.now - begun == (uint64_t)(stats().seglets - 1) * 1000 * MS / 16);
	/* The rate changes. */
	CHECK(begin(8));
	t.rate = 1 << 20;
	run_all();
	CHECK(bulk_due(t.b, t.now) != FETCH_NEVER);
	t.rate = 0;
	start();
	run_all();
	CHECK(bulk_is_all(t.b));
	return sound();
}

/* An object with another one behind it in its seglet, and the place of its entry in the log. */
static uint32_t some_object(uint32_t least, uint32_t most, uint64_t *at)
{
	uint32_t index = 0;

	while (!source.objects[index].told || source.objects[index].length < least || source.objects[index].length > most)
		index++;
	*at = 0;
	while (position(*at) != position_of(&source.objects[index]))
		*at += LSMEM_ALIGN;
	return index;
}

/* An older version, which is whole, at the place that was told; another object; damage; a length; a chain that leaves the memory. */
static bool wrong_bytes_are_not_given(void)
{
	uint32_t i, index, length;
	uint64_t at;

	for (i = 0; i < 5; i++) {
		CHECK(begin(3));
		index = i == 4 ? some_object(100000, LSMEM_OBJECT_MAX, &at) : some_object(1000, 9000, &at);
		length = source.objects[index].length;
		if (i == 0)
			put_entry(at, index, source.objects[index].version - 1, length, source.objects[index].home);
		if (i == 1)
			put_entry(at, index + 1, source.objects[index + 1].version, length, source.objects[index].home);
		if (i == 2)
			*byte_at(at + lsmem_header_bytes(length)) ^= 1;
		if (i == 3)
			*byte_at(at + 4) ^= 1;
		if (i == 4)
			source.table[position_of(&source.objects[index]) >> LSMEM_POSITION_OFFSET_BITS].next = SEGLETS;
		run_all();
		CHECK(!source.objects[index].got && stats().wrong && !bulk_is_all(t.b) && !bulk_wants(t.b, t.now));
		/* With a wrong length, what lies behind it in the seglet is not found either. */
		CHECK(i == 3 ? stats().objects < told() : stats().objects == told() - 1);
		CHECK(sound());
	}
	return true;
}

/* Memory is full: nothing more is read. */
static bool a_full_memory_is_the_end(void)
{
	CHECK(begin(4));
	t.room = 5;
	while (t.given <= 5) {
		complete_some(100);
		bring();
	}
	CHECK(!bulk_waits(t.b, t.now));
	while (complete_some(100))
		;
	CHECK(stats().objects == 5 && !bulk_wants(t.b, t.now) && !bulk_is_all(t.b));
	start();
	CHECK(!complete_some(100));
	return sound();
}

/* The connection is lost again and again: what was being read is read again. */
static bool a_cut_loses_nothing(void)
{
	uint32_t i, cuts = 0;

	CHECK(begin(5));
	while (bulk_wants(t.b, t.now)) {
		complete_some(50);
		if (random_chance(&source.random, 20)) {
			cut();
			CHECK(bulk_wants(t.b, t.now));
			while (bring())
				;
			CHECK(!complete_some(100));
			bulk_open(t.b, &source_keys);
			cuts++;
		}
		bring();
	}
	for (i = 0; i < OBJECTS; i++)
		CHECK(source.objects[i].got >= source.objects[i].told);
	CHECK(cuts > 5 && bulk_is_all(t.b) && stats().objects == told());
	return sound();
}

/* CLOSE can be said when nothing has come for a time, and never with a READ in flight. */
static bool it_has_an_end(void)
{
	uint64_t s = 1000 * MS;

	CHECK(begin(6));
	t.now += 100 * s;
	start();		/* a long list is no time without an answer */
	CHECK(bulk_wants(t.b, t.now + 9 * s));
	CHECK(bulk_wants(t.b, t.now + PULL_IDLE_S * s) && !bulk_waits(t.b, t.now));
	complete_some(100);
	CHECK(!bulk_wants(t.b, t.now + PULL_IDLE_S * s) && !bring());
	CHECK(begin(6));
	start();
	bulk_end(t.b);
	CHECK(bulk_wants(t.b, t.now));
	cut();
	CHECK(!bulk_wants(t.b, t.now) && !bring());
	return sound();
}

/* All of it at once, and memory that changes. */
static bool random_lives(uint64_t seed)
{
	uint32_t step, i;

	CHECK(begin(seed));
	for (step = 0; step < 3000 && bulk_wants(t.b, t.now) && !t.error; step++) {
		t.behind = random_chance(&source.random, 30);
		complete_some(40);
		t.now += random_below(&source.random, 10) * MS;
		if (random_chance(&source.random, 2)) {
			cut();
			bulk_open(t.b, &source_keys);
		}
		if (random_chance(&source.random, 20))
			*byte_at(random_below(&source.random, SEGLETS * LSMEM_SEGLET_BYTES)) ^= 4;
		if (random_chance(&source.random, 2))
			source.table[random_below(&source.random, SEGLETS)].next = (uint32_t)random_next(&source.random) % (2 * SEGLETS);
		for (i = random_below(&source.random, 3); i; i--)
			bring();
	}
	CHECK(!bulk_wants(t.b, t.now));
	return sound();
}

int main(void)
{
	bool good = true;
	uint64_t seed;

	for (seed = 1; seed <= 10 && good; seed++)
		good = all_come(seed);
	tap_ok(good, "all objects come, those of the youngest segment first");
	tap_ok(it_stays_behind(), "behind requests of the kernel one seglet is read at a time");
	tap_ok(it_keeps_its_rate(), "at a rate");
	tap_ok(wrong_bytes_are_not_given(), "PULL_CHECK: an older version, another object, damage, a wrong length, a wrong chain");
	tap_ok(a_full_memory_is_the_end(), "a full memory is the end");
	tap_ok(a_cut_loses_nothing(), "a lost connection: what was being read is read again");
	tap_ok(it_has_an_end(), "CLOSE_COMPLETE: when nothing comes any more, and not with a READ in flight");
	good = true;
	for (seed = 1; seed <= 60 && good; seed++) {
		good = random_lives(seed);
		if (!good)
			tap_note("seed %llu", (unsigned long long)seed);
	}
	tap_ok(good, "random lives");
	finish();
	return tap_end();
}
