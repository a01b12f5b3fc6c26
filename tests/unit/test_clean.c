// SPDX-License-Identifier: GPL-2.0
/*
 * The daemon's choice of segments to clean: daemon/core/clean.c with tables like those of the
 * kernel, and with the module's own policy file.
 */
#include <string.h>

#include <lsmem_format.h>

#include "../common/random.h"
#include "../common/tap.h"
#include "core/clean.h"

#define SLOTS	200u
#define MIB	(1u << 20)

static struct lsmem_segment_stat table[SLOTS];
static struct lsmem_candidate candidates[SLOTS];
static struct lsmem_cleaning want;
static struct clean_choice choice;
static bool by_backup;

/* Put a closed segment of @entries entries into the table; its frame is full. */
static struct lsmem_segment_stat *put(uint32_t slot, uint64_t id, uint32_t entries, uint32_t live)
{
	table[slot] = (struct lsmem_segment_stat) {
		.id = id,
		.opened = id << 10,
		.live = live,
		.home = LSMEM_SEGMENT_BYTES - 2 * LSMEM_BLOCK - lsmem_directory_bytes(entries),
		.flags = LSMEM_SEGMENT_CLEANABLE,
		.entries = entries,
	};
	table[slot].held = (table[slot].home + LSMEM_SEGLET_BYTES - 1) & ~(LSMEM_SEGLET_BYTES - 1);
	return &table[slot];
}

/* A full table, without segments to clean: the backup is short of frames. */
static void begin(void)
{
	uint32_t slot;

	memset(table, 0, sizeof(table));
	for (slot = 0; slot < SLOTS; slot++)
		table[slot] = (struct lsmem_segment_stat) { .id = 5000 + slot, .home = 4096 };
	want = (struct lsmem_cleaning) {
		.level = LSMEM_LEVEL_CLEAN,
		.rule = LSMEM_RULE_LFS,
		.utilization_max = 980,
		.room = 32 * MIB,
		.store_time = 1000 << 10,
		.by_backup = by_backup,
	};
}

static uint32_t choose(uint32_t frames)
{
	clean_choose(&want, table, SLOTS, frames, LSMEM_SEGMENT_BYTES, candidates, &choice);
	return choice.nr;
}

static bool chosen(uint64_t id)
{
	uint32_t i;

	for (i = 0; i < choice.nr; i++)
		if (choice.segments[i] == id)
			return true;
	return false;
}

static bool test_nothing(void)
{
	begin();
	CHECK(!choose(100));
	put(0, 1, 8000, 4 * MIB)->flags = 0;		/* a head, or being cleaned */
	CHECK(!choose(100));
	put(0, 1, 8000, 4 * MIB);
	CHECK(choose(100) == 1 && choice.segments[0] == 1);
	want.room = 3 * MIB;
	CHECK(!choose(100));
	want.room = 32 * MIB;
	CHECK(!choose(0));				/* no frame for survivors */
	CHECK(choose(2) == 1);
	return true;
}

/* Compaction of a segment in memory does not change its frame on the backup. */
static bool test_frames(void)
{
	begin();
	put(0, 1, 8000, 1 * MIB)->held = 1 * MIB;	/* compacted */
	put(1, 2, 8000, 4 * MIB);
	CHECK(choose(100) == 2 && choice.segments[0] == 1 && choice.measure == CLEAN_BACKUP);
	CHECK(choice.held == 2 * (LSMEM_SEGMENT_BYTES - 2 * LSMEM_BLOCK) -
			     2 * (lsmem_directory_bytes(8000) - 8000 * 24));
	return true;
}

/* If all is live there is no gain, however small the entries are, even if writers wait. */
static bool test_full(void)
{
	uint32_t entries[] = { 8, 64, 8000, 55000, 130000 };
	uint32_t i, slot;

	for (i = 0; i < 5; i++) {
		begin();
		for (slot = 0; slot < SLOTS; slot++) {
			struct lsmem_segment_stat *stat = put(slot, slot + 1, entries[i], 0);

			/* A large object did not fit into the rest of the frame. */
			if (entries[i] == 8)
				stat->home -= MIB - 100;
			stat->held = (stat->home + LSMEM_SEGLET_BYTES - 1) &
				     ~(LSMEM_SEGLET_BYTES - 1);
			stat->live = stat->home - 64;	/* commit records */
		}
		CHECK(!choose(100));
		want.urgent = 1;
		want.room = 8 * MIB + MIB / 2;
		CHECK(!choose(100));
		/* A little of one segment is dead: it is chosen, because writers wait. */
		table[17].live -= 200 << 10;
		CHECK(choose(100) && choice.segments[0] == 18);
	}
	return true;
}

/* Small segments that were closed early are merged, though all is live. */
static bool test_small(void)
{
	uint32_t slot;

	begin();
	for (slot = 0; slot < 20; slot++) {
		struct lsmem_segment_stat *stat = put(slot, slot + 1, 100, 0);

		stat->home = 128 << 10;
		stat->live = stat->held = stat->home;
	}
	CHECK(choose(100) == 20);
	return true;
}

/* Memory is short, the backup is not: the score of a segment counts its memory. */
static bool test_memory(void)
{
	begin();
	put(0, 1, 8000, 1 * MIB)->held = 1 * MIB;
	put(1, 900, 8000, 4 * MIB);
	CHECK(choose(100) && choice.segments[0] == 1);
	memset(table + 2, 0, (SLOTS - 2) * sizeof(*table));
	CHECK(choose(100) == 1 && choice.measure == CLEAN_MEMORY && choice.segments[0] == 900);
	/* No memory can be gained: frames are gained only if writers wait, perhaps for them. */
	table[1].id = 0;
	CHECK(!choose(100));
	want.urgent = 1;
	CHECK(choose(100) && choice.measure == CLEAN_BACKUP && choice.segments[0] == 1);
	return true;
}

/* The free entries of the table, and segments without data, decide whether frames are short. */
static bool test_short(void)
{
	uint32_t left;

	for (left = 1; left < 30; left++) {
		begin();
		put(0, 1, 8000, 1 * MIB);
		memset(table + SLOTS - left, 0, left * sizeof(*table));
		table[SLOTS - 1] = (struct lsmem_segment_stat) { .id = 7000 };
		CHECK(choose(100) == 1);
		CHECK(choice.measure == (left > SLOTS / 20 ? CLEAN_MEMORY : CLEAN_BACKUP));
		/* After the loss of a backup there are fewer frames than entries. */
		CHECK(choose(3) == 1 && choice.measure == CLEAN_BACKUP);
	}
	return true;
}

/* Tombstones that wait for no segment, or only for their own. */
static bool test_deletes(void)
{
	begin();
	put(0, 5, 8000, 1 * MIB);
	put(1, 6, 8000, 7 * MIB + MIB / 2)->tombstones = 2 * MIB;
	table[1].barrier = 6;
	CHECK(choose(100) == 2 && choice.live > 8 * MIB);
	table[1].barrier = 5;
	CHECK(choose(100) == 2 && choice.live < 7 * MIB);
	/* For the oldest segment the second oldest counts; a spare holds nothing. */
	table[1].barrier = 6;
	table[0].id = 0;
	put(2, 3, 0, 0)->home = 0;
	table[2].flags = 0;
	CHECK(choose(100) == 1 && choice.live < 6 * MIB);
	return true;
}

static bool test_oldest_first(void)
{
	uint32_t slot;

	begin();
	want.oldest_first = 1;
	for (slot = 0; slot < 20; slot++)
		put(slot, 100 - slot, 8000, slot < 10 ? 7 * MIB : 7 * MIB + 512);
	CHECK(choose(100) == 4 && choice.segments[0] == 81 && choice.segments[3] == 84);
	return true;
}

static bool test_room(void)
{
	uint32_t slot, frames;

	begin();
	for (slot = 0; slot < SLOTS; slot++)
		put(slot, slot + 1, 8000, MIB);
	want.room = 1u << 30;
	CHECK(choose(1000) == LSMEM_POLICY_VICTIMS);
	for (frames = 0; frames < 20; frames++) {
		choose(frames);
		/* The survivors fit into @frames frames with directories and unused ends. */
		CHECK(choice.live <= (uint64_t)frames * (LSMEM_SEGMENT_BYTES - 2 * MIB));
		CHECK(choice.nr || !frames);
	}
	return true;
}

/* What is on the backup only is live there, and memory does not count. */
static bool test_tiered(void)
{
	by_backup = true;
	begin();
	put(0, 1, 8000, 0)->held = 0;			/* evicted: all is live */
	table[0].cold = table[0].home - 64;
	CHECK(!choose(100));
	put(1, 2, 8000, 1 * MIB)->held = 1 * MIB;	/* half of it is live */
	table[1].cold = 3 * MIB;
	put(2, 3, 8000, 0)->cold = 1 * MIB;
	CHECK(choose(100) == 2 && choice.segments[0] == 3 && choice.segments[1] == 2);
	CHECK(choice.live > 5 * MIB && choice.held > 2 * 7 * MIB);
	/* Many entries are free, and writers wait: the measure is the same. */
	memset(table + 20, 0, (SLOTS - 20) * sizeof(*table));
	want.urgent = 1;
	CHECK(choose(100) == 2 && choice.measure == CLEAN_BACKUP);
	table[1].cold = table[1].home;
	table[2].id = 0;
	CHECK(!choose(100));
	/* Tombstones that can be dropped are in memory. */
	table[1].cold = 5 * MIB;
	table[1].live = table[1].tombstones = 2 * MIB;
	table[1].barrier = 0;
	CHECK(choose(100) == 1 && choice.live < 7 * MIB);
	by_backup = false;
	return true;
}

/* Any table: the choice is within bounds, has a gain, and has existing ids, each once. */
static bool test_nonsense(void)
{
	uint64_t random = 11;
	uint32_t round, slot, i;

	for (round = 0; round < 4000; round++) {
		begin();
		want.urgent = random_below(&random, 2);
		want.oldest_first = random_below(&random, 4) == 0;
		want.rule = random_next(&random) >> random_below(&random, 64);
		want.utilization_max = random_next(&random) >> random_below(&random, 64);
		want.room = random_next(&random) >> random_below(&random, 64);
		want.store_time = random_next(&random);
		for (slot = 0; slot < SLOTS; slot++) {
			uint32_t *word = (void *)&table[slot];

			for (i = 0; i < sizeof(*table) / 4; i++)
				word[i] = random_next(&random) >> random_below(&random, 64);
			table[slot].id = random_below(&random, 3) ? slot + 1 : 0;
		}
		choose(random_next(&random) >> random_below(&random, 64));
		CHECK(choice.nr <= LSMEM_POLICY_VICTIMS);
		CHECK(!want.room || choice.live <= want.room);
		CHECK(!choice.nr || want.oldest_first || choice.held > choice.live);
		for (i = 0; i < choice.nr; i++) {
			uint64_t id = choice.segments[i];

			CHECK(id && id <= SLOTS && table[id - 1].id == id);
			CHECK(table[id - 1].flags & LSMEM_SEGMENT_CLEANABLE);
			table[id - 1].flags = 0;
		}
		CHECK(!choice.nr || !chosen(0));
	}
	return true;
}

int main(void)
{
	tap_ok(test_nothing(), "nothing to clean, no room for survivors");
	tap_ok(test_frames(), "the gain is frames of the backup");
	tap_ok(test_full(), "segments that are all live are left alone");
	tap_ok(test_small(), "segments that were closed early are merged");
	tap_ok(test_memory(), "memory is short, the backup is not");
	tap_ok(test_short(), "the backup is short of frames");
	tap_ok(test_deletes(), "tombstones that can be dropped are not live");
	tap_ok(test_oldest_first(), "oldest first");
	tap_ok(test_room(), "not more survivors than frames for them");
	tap_ok(test_tiered(), "a tiered store");
	tap_ok(test_nonsense(), "random contents of the table");
	by_backup = true;
	tap_ok(test_nonsense(), "the same, by the backup");
	return tap_end();
}
