// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery of a tiered store (daemon/recover/place.c): what it reads, and entries that are damaged.
 * test_sim.c has it in random runs.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tiers.h"
#include "../common/tap.h"

uint64_t lsmem_mutation;

static const struct sim_options loaded = { .frames = 12, .size = 2, .steps = 100 };
static const struct sim_options tiered = { .frames = 12, .size = 2, .steps = 100, .tiered = true };
static const struct sim_options three = {
	.frames = 12, .size = 2, .steps = 100, .tiered = true, .backups = 3, .min_replicas = 2,
};
static const struct sim_options coded = {
	.frames = 12, .size = 2, .steps = 100, .tiered = true, .backups = 5, .k = 3, .m = 2,
};
static const struct sim_options coded_loaded = {
	.frames = 12, .size = 2, .steps = 100, .backups = 5, .k = 3, .m = 2,
};
static const struct sim_options verified = {
	.frames = 12, .size = 2, .steps = 100, .tiered = true, .verify = true,
};
static const struct sim_options three_verified = {
	.frames = 12, .size = 2, .steps = 100, .tiered = true, .verify = true, .backups = 3,
	.min_replicas = 2,
};

/* Everything is there, and objects were not read. */
static bool test_read(void)
{
	const struct sim_options *kinds[] = { &loaded, &tiered, &three, &coded_loaded, &coded };
	uint64_t bytes[5];
	uint32_t i;

	for (i = 0; i < 5; i++) {
		struct sim *sim = tier_begin(kinds[i]);

		sim_cut(sim, DISK_CUT_DROP);
		CHECK(sim_start(sim, false));
		CHECK(tier_live(sim, TIER_DEAD) && sim->result.objects == 8 && sim->result.tombstones == 2);
		bytes[i] = sim->result.read_bytes;
		/* It works, and recovers once more. */
		sim_settle(sim);
		CHECK(!sim->error[0]);
		sim_cut(sim, DISK_CUT_DROP);
		CHECK(sim_start(sim, false) && tier_live(sim, TIER_DEAD));
		sim_free(sim);
	}
	tap_note("%llu KiB read, tiered %llu KiB", (unsigned long long)bytes[0] >> 10,
		 (unsigned long long)bytes[1] >> 10);
	/* What is left are headers, directories, and segments that were open, these of each replica. */
	CHECK(bytes[0] > bytes[1] + 7 * TIER_LARGE && bytes[2] < 3 * bytes[1]);
	CHECK(bytes[3] > bytes[4] + 7 * TIER_LARGE);
	return true;
}

/* A tombstone is damaged on the only backup: an object would come back. */
static bool test_lost(void)
{
	struct sim *sim = tier_begin(&tiered);
	uint64_t at = tier_where(sim, 0, LSMEM_TYPE_TOMBSTONE, 5);

	CHECK(at);
	sim_cut(sim, DISK_CUT_DROP);
	tier_flip(sim, at, 200);
	CHECK(sim_attempt(sim) == -ENODATA && sim->nr_damage == 1);
	CHECK(strstr(sim->last_damage, "1 of 2 tombstones are lost"));
	/* Nothing was changed: with the bytes back, all is there. */
	tier_flip(sim, at, 200);
	CHECK(sim_start(sim, false) && tier_live(sim, TIER_DEAD));
	sim_free(sim);
	return true;
}

/* Another replica has it. */
static bool test_other(void)
{
	uint32_t bad, drive, used = 0;

	for (bad = 1; bad < 7; bad++) {
		struct sim *sim = tier_begin(&three);
		uint64_t at[3];

		for (drive = 0; drive < 3; drive++)
			at[drive] = tier_where(sim, drive, LSMEM_TYPE_TOMBSTONE, 3);
		sim_cut(sim, DISK_CUT_DROP);
		for (drive = 0; drive < 3; drive++)
			if (bad >> drive & 1u)
				tier_flip(sim, at[drive], 77);
		CHECK(sim_start(sim, false) && tier_live(sim, TIER_DEAD));
		CHECK(sim->result.tombstones == 2 && !sim->nr_damage);
		used += sim->result.bad_copies;
		sim_free(sim);
	}
	CHECK(used);
	return true;
}

/* An object is damaged on the only backup: that is found when it is read, or before the store is. */
static bool test_verified(void)
{
	struct sim *sim = tier_begin(&tiered);
	uint64_t at = tier_where(sim, 0, LSMEM_TYPE_OBJECT, 6);

	CHECK(at);
	sim_cut(sim, DISK_CUT_DROP);
	tier_flip(sim, at, 500);
	CHECK(!sim_attempt(sim) && !sim->nr_damage && strstr(sim->error, "not where it was placed"));
	sim_free(sim);

	sim = tier_begin(&verified);
	sim_cut(sim, DISK_CUT_DROP);
	tier_flip(sim, at, 500);
	CHECK(sim_attempt(sim) == -ENODATA);
	CHECK(strstr(sim->last_damage, "1 of 6 objects or tombstones are lost"));
	/* Nothing was changed: with the bytes back, all is there. */
	tier_flip(sim, at, 500);
	CHECK(sim_start(sim, false) && tier_live(sim, TIER_DEAD));
	CHECK(sim->result.objects == 8 && sim->result.tombstones == 2);
	CHECK(sim->result.read_bytes > 7 * TIER_LARGE);
	sim_free(sim);
	return true;
}

/* A bad replica is passed over, and not listed any more; without a good one it is a loss. */
static bool test_verified_other(void)
{
	uint32_t bad, drive, used = 0;

	for (bad = 1; bad < 8; bad++) {
		struct sim *sim = tier_begin(&three_verified);
		uint64_t at[3];

		for (drive = 0; drive < 3; drive++)
			at[drive] = tier_where(sim, drive, LSMEM_TYPE_OBJECT, 6);
		sim_cut(sim, DISK_CUT_DROP);
		for (drive = 0; drive < 3; drive++)
			if (bad >> drive & 1u)
				tier_flip(sim, at[drive], 500);
		if (bad == 7) {
			CHECK(sim_attempt(sim) == -ENODATA && sim->result.bad_copies == 3);
		} else {
			CHECK(sim_start(sim, false) && tier_live(sim, TIER_DEAD) && !sim->nr_damage);
			used += sim->result.bad_copies;
		}
		sim_free(sim);
	}
	CHECK(used);
	return true;
}

/* A recovery does not look at the handles that are not used, each page of which would be a page fault. */
static bool test_unused(void)
{
	static const struct sim_options many = {
		.frames = 12, .size = 2, .steps = 100, .tiered = true, .handles = 1u << 23,
	};
	struct sim *sim = tier_begin(&many);
	struct rusage before, after;
	long faults, unused = (long)(many.handles * 2 * sizeof(uint64_t) / (uint64_t)sysconf(_SC_PAGESIZE));

	sim_cut(sim, DISK_CUT_DROP);
	getrusage(RUSAGE_SELF, &before);
	CHECK(sim_start(sim, false) && tier_live(sim, TIER_DEAD));
	getrusage(RUSAGE_SELF, &after);
	sim_free(sim);
	faults = after.ru_minflt - before.ru_minflt;
	tap_note("%ld page faults, %ld pages have 16 bytes for each handle", faults, unused);
	CHECK(faults < unused);
	return true;
}

int main(void)
{
	tap_ok(test_read(), "objects are found, and not read");
	tap_ok(test_unused(), "handles that are not used cost nothing");
	tap_ok(test_lost(), "a damaged tombstone is a loss");
	tap_ok(test_other(), "a damaged tombstone, and another replica");
	tap_ok(test_verified(), "a damaged object is found before the store is served, if that is wanted");
	tap_ok(test_verified_other(), "a damaged object, and another replica");
	return tap_end();
}
