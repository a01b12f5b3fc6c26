// SPDX-License-Identifier: GPL-2.0
/*
 * Reads of a tiered store that the kernel makes itself, from a drive of the same host, and reads of several objects together.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tier.h"

/* ---- Near reads: from a drive, without the daemon ------------------------- */

#define NOT_FORGED	UINT64_MAX

static int near_tell(const struct _test_data_tier *self, uint64_t segment, uint64_t offset, int fd)
{
	struct lsmem_near near = { .size = sizeof(near), .segment = segment, .offset = offset, .fd = fd };

	return ioctl(self->follower.attach.fd, LSMEM_REPL_NEAR, &near) ? -errno : 0;
}

/*
 * Put what the keeper has on the drive, with a byte in each 16 changed by @mask, and tell the kernel places
 * that are @wrong by so many bytes.  Returns how many segments were told, or a negative errno.
 */
static int near_place(struct _test_data_tier *self, int drive, uint8_t mask, uint64_t wrong)
{
	struct keeper *keeper = &self->keeper;
	uint8_t *copy = aligned_alloc(LSMEM_BLOCK, LSMEM_SEGMENT_BYTES);	/* the drive is O_DIRECT */
	uint64_t offset = 0, bytes;
	int ret = 0, nr = 0;
	uint32_t i, j;

	pthread_mutex_lock(&keeper->lock);
	for (i = 0; i < KEEPER_FRAMES && ret >= 0; i++) {
		const struct keeper_frame *frame = &keeper->frames[i];

		if (!frame->id)
			continue;
		bytes = lsmem_block_round(frame->length);
		memcpy(copy, frame->bytes, bytes);
		for (j = 0; j < bytes; j += 16)
			copy[j] ^= mask;
		ret = pwrite(drive, copy, bytes, (off_t)offset) == (ssize_t)bytes && !fsync(drive) ? 0 : -errno;
		if (!ret)
			ret = near_tell(self, frame->id, offset + wrong, 0);
		offset += bytes;
		nr += !ret;
		ret = ret == -ENOENT ? 0 : ret;		/* it was retired */
	}
	pthread_mutex_unlock(&keeper->lock);
	free(copy);
	return ret ?: nr;
}

/* Read some cold objects, and replace some. Returns how many fetches the kernel made alone, or -1. */
static long long read_cold(struct _test_data_tier *self, bool replace)
{
	long long before = tier_attribute(&self->store, "fetches_near");
	uint32_t left = 100 + (uint32_t)test_scaled(2000), i;
	int ret = 0;

	for (i = find_cold(self, 0); !ret && i < self->nr && left--; i = find_cold(self, i + 5)) {
		if (replace && i % 3 == 0)
			ret = put(self->store.lsm, &self->objects[i], i, self->bytes, &self->random);
		if (!ret)
			ret = check(self->store.lsm, &self->objects[i], i, self->bytes);
		if (ret)
			printf("# object %u: %d\n", i, ret);
	}
	return ret ? -1 : tier_attribute(&self->store, "fetches_near") - before;
}

TEST_F_TIMEOUT(tier, near, SECONDS)
{
	int drive = open_drive();
	long long near;

	if (drive < 0)
		SKIP(return, "no drive in /dev/drive");
	ASSERT_EQ(0, fill(self, 80));
	ASSERT_EQ(0, near_tell(self, 0, 0, drive));
	ASSERT_LT(0, near_place(self, drive, 0, 0));
	near = read_cold(self, false);
	tier_print(&self->store);
	printf("# %lld of %lld fetches were near\n", near, tier_attribute(&self->store, "fetches"));
	EXPECT_LT(tier_attribute(&self->store, "fetches") / 2, near);
	EXPECT_LT(tier_attribute(&self->store, "near_reads") / 2, tier_attribute(&self->store, "near_waited"));

	/* What is damaged, or another's, comes from the daemon. */
	ASSERT_LT(0, near_place(self, drive, 1, 0));
	EXPECT_EQ(0, read_cold(self, false));
	ASSERT_LT(0, near_place(self, drive, 0, LSMEM_BLOCK));
	EXPECT_EQ(0, read_cold(self, false));

	/* All at once, as objects are replaced. */
	ASSERT_LT(0, near_place(self, drive, 0, 0));
	EXPECT_LT(0, read_cold(self, true));
	EXPECT_EQ(0, tier_attribute(&self->store, "fetch_failures"));

	/* Another daemon has named none, and neither has this one any more. */
	ASSERT_EQ(0, near_tell(self, 0, 0, -1));
	EXPECT_EQ(-ENODEV, near_place(self, drive, 0, 0));
	ASSERT_EQ(0, near_tell(self, 0, 0, drive));
	ASSERT_EQ(0, keeper_succeed(&self->keeper, &self->follower, &self->store));
	EXPECT_EQ(-ENODEV, near_place(self, drive, 0, 0));
	EXPECT_EQ(0, check(self->store.lsm, &self->objects[0], 0, self->bytes));
	close(drive);
}

/*
 * Behind the end of a frame put another version of its last object, if there is room in the object's block.
 * Returns the index of the handle, or NOT_FORGED; @where: out: the entry.
 */
static uint64_t forge(const struct _test_data_tier *self, const struct keeper_frame *frame,
		      const struct place *places, struct lsmem_entry **where)
{
	uint32_t salt = lsmem_segment_salt(self->follower.attach.uuid, frame->id, 1), at, last = 0, length;
	const struct lsmem_entry *e;
	struct lsmem_entry forged;
	uint64_t index;
	uint8_t *payload;

	for (at = 0; at < frame->length; at = lsmem_entry_start(at + lsmem_entry_bytes(e))) {
		e = (const void *)(frame->bytes + at);
		if (lsmem_entry_type(e) == LSMEM_TYPE_OBJECT)
			last = at;
	}
	e = (const void *)(frame->bytes + last);
	length = lsmem_entry_length(e);
	index = lsmem_handle_index(lsmem_entry_handle(e));
	if (lsmem_entry_type(e) != LSMEM_TYPE_OBJECT || places[index].id != frame->id ||
	    last / LSMEM_BLOCK != at / LSMEM_BLOCK || at % LSMEM_BLOCK + lsmem_entry_bytes(e) > LSMEM_BLOCK)
		return NOT_FORGED;
	*where = (void *)(frame->bytes + at);
	forged = lsmem_entry_make(LSMEM_TYPE_OBJECT, length, lsmem_entry_handle(e),
				  lsmem_entry_version(e) + 1, lsmem_entry_interval(e), lsmem_entry_table(e), at);
	payload = (uint8_t *)*where + lsmem_entry_header(&forged);
	memset(payload, 0x5a, length);
	forged.crc = lsmem_entry_crc(&forged, crc32c(~0u, payload, length), salt);
	memcpy(*where, &forged, lsmem_entry_header(&forged));
	return index;
}

/* Behind the cut of a sealed segment there can be whole entries: they do not count. */
TEST_F_TIMEOUT(tier, near_sealed, SECONDS)
{
	struct place *places = calloc(self->follower.attach.handles_max, sizeof(*places));
	uint8_t *forged = calloc(self->follower.attach.handles_max, 1);
	struct lsmem_entry *where[KEEPER_FRAMES] = { NULL };
	int drive = open_drive(), nr = 0;
	uint64_t index;
	uint32_t i;

	if (drive < 0)
		SKIP(return, "no drive in /dev/drive");
	/* Every other one is small, so that some segments end with one, and have room behind it in its block. */
	while (self->nr < OBJECTS / 2) {
		ASSERT_EQ(0, put_length(self->store.lsm, &self->objects[self->nr], self->nr, self->bytes,
					self->nr % 2 ? CONTENT_MIN : choose_length(&self->random)));
		self->nr++;
	}
	ASSERT_EQ(0, lsm_sync(self->store.lsm, 0));
	ASSERT_LT(0, place_all(self, places, LSMEM_ACTIVATE_COLD | LSMEM_ACTIVATE_UNVERIFIED));
	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
	ASSERT_EQ(0, near_tell(self, 0, 0, drive));
	for (i = 0; i < KEEPER_FRAMES; i++) {
		index = self->keeper.frames[i].id ? forge(self, &self->keeper.frames[i], places, &where[i]) :
						    NOT_FORGED;
		if (index != NOT_FORGED)
			forged[index] = 1;
	}
	ASSERT_LT(0, near_place(self, drive, 0, 0));
	for (i = 0; i < KEEPER_FRAMES; i++)	/* the keeper has none, so that it could not answer for the drive */
		if (where[i])
			memset(where[i], 0, lsmem_entry_bytes(where[i]));
	for (i = 0; i < self->nr; i++) {
		if (!forged[lsmem_handle_index(self->objects[i].handle)])
			continue;
		nr++;
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	}
	ASSERT_LT(0, nr);
	EXPECT_EQ(nr, tier_attribute(&self->store, "fetches_near"));
	close(drive);
	free(forged);
	free(places);
}

static bool dm_there(void)
{
	int fd;

	/* Where it is a module, nothing else may have loaded it. If it cannot be loaded, the open says so. */
	(void)!system("modprobe -q dm_mod");
	fd = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);	/* the file can be there without the device mapper */
	if (fd < 0)
		return false;
	close(fd);
	return !system("set -- /dev/drive/*; [ -b $1 ]");
}

/* A device on the drive that can be suspended. Returns its descriptor, or -1. */
static int dm_make(const char *name, int flags)
{
	char text[256];

	snprintf(text, sizeof(text), "set -- /dev/drive/*; dmsetup create %s --table \"0 $(blockdev --getsz $1) linear $1 0\"",
		 name);
	if (system(text) || system("dmsetup mknodes"))
		return -1;
	snprintf(text, sizeof(text), "/dev/mapper/%s", name);
	return open(text, O_RDWR | O_CLOEXEC | flags);
}

/* The drive answers again: reads are near. Then it is given back. Returns 0, or a line. */
static int near_resume(struct _test_data_tier *self, int fd)
{
	if (system("dmsetup resume near"))
		return __LINE__;
	if (read_cold(self, false) <= 0)
		return __LINE__;
	if (tier_attribute(&self->store, "fetch_failures"))
		return __LINE__;
	if (near_tell(self, 0, 0, -1))
		return __LINE__;
	close(fd);
	return system("dmsetup remove --retry near") ? __LINE__ : 0;
}

/* A drive that does not answer: the daemon gets the requests. */
TEST_F_TIMEOUT(tier, near_late, SECONDS)
{
	uint32_t i, nr;
	uint64_t begin;
	int fd;

	if (!dm_there())
		SKIP(return, "no drive in /dev/drive, or no device mapper");
	ASSERT_EQ(0, fill(self, 80));
	fd = dm_make("near", O_DIRECT);		/* with pages cached, the close takes long */
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, near_tell(self, 0, 0, fd));
	ASSERT_LT(0, near_place(self, fd, 0, 0));
	ASSERT_EQ(0, system("dmsetup suspend --noflush near"));
	begin = now_ms();
	for (nr = 0, i = find_cold(self, 0); nr < 20; nr++, i = find_cold(self, i + 1))	/* all reads of the drive */
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	EXPECT_GT(10000u, now_ms() - begin);
	EXPECT_EQ(0, tier_attribute(&self->store, "fetches_near"));
	EXPECT_EQ(0, near_resume(self, fd));
}

/* ---- Near reads of several objects ----------------------------------------- */

#define SMALL		20u		/* objects that lie one behind the other, then one that is as long as can be */
#define SMALL_BYTES	200u
#define GROUP		(SMALL + 1u)
#define TOGETHER	64u		/* operations that a call asks for together */
#define READ_MOST	16u		/* objects of a near read */
#define EACH_MOST	12u		/* near reads of a thread, at a time */
#define READS		16u		/* of a store */

static int fill_groups(struct _test_data_tier *self)
{
	struct lsmem_stat stat = { 0 };
	int ret = 0;

	while (!ret && self->nr < OBJECTS && stat.live_bytes <= CAPACITY / 10 * 8) {
		ret = put_length(self->store.lsm, &self->objects[self->nr], self->nr, self->bytes,
				 self->nr % GROUP < SMALL ? SMALL_BYTES : LENGTH_MAX);
		self->nr += !ret;
		if (!ret && self->nr % GROUP == 0)
			ret = lsm_stat(self->store.lsm, &stat);
	}
	return ret;
}

/*
 * Choose the first @each objects of @nr groups, none of which is in memory, from group @from on.  Returns the group behind
 * them, or 0: there are too few.
 */
static uint32_t choose_cold(struct _test_data_tier *self, uint32_t from, uint32_t nr, uint32_t each, uint32_t *ids)
{
	uint32_t i;

	for (; nr && (from + 1) * GROUP <= self->nr; from++) {
		for (i = 0; i < each && find_cold(self, from * GROUP + i) == from * GROUP + i; i++)
			*ids++ = from * GROUP + i;
		if (i < each)
			ids -= i;
		nr -= i == each;
	}
	return nr ? 0 : from;
}

/* Read objects in one call, in any order. Returns how many are right, or a negative errno. */
static int read_together(struct _test_data_tier *self, uint32_t *ids, uint32_t nr, uint64_t *random)
{
	static _Thread_local uint8_t bytes[TOGETHER][SMALL_BYTES];
	struct lsmem_op ops[TOGETHER];
	uint32_t i, other, id;
	int ret;

	for (i = nr; i-- > 1; ids[i] = ids[other], ids[other] = id) {
		id = ids[i];
		other = random_below(random, i + 1);
	}
	for (i = 0; i < nr; i++)
		ops[i] = lsm_op_read(self->objects[ids[i]].handle, bytes[i], SMALL_BYTES, 0);
	ret = lsm_vector(self->store.lsm, ops, nr, 0, NULL);
	for (i = 0; i < nr && ret >= 0; i++)
		ret += !ops[i].result && ops[i].length == SMALL_BYTES &&
		       content_is(bytes[i], SMALL_BYTES, ids[i], self->objects[ids[i]].serial);
	return ret;
}

/* What lies close together is one read, whatever the order of the operations, and so is what comes later in the call. */
TEST_F_TIMEOUT(tier, near_together, SECONDS)
{
	enum { GROUPS = 21, EACH = 3 };
	uint32_t ids[TOGETHER], next, round;
	long long reads, near;
	int drive = open_drive();

	if (drive < 0)
		SKIP(return, "no drive in /dev/drive");
	ASSERT_EQ(0, fill_groups(self));
	ASSERT_EQ(0, near_tell(self, 0, 0, drive));
	ASSERT_LT(0, near_place(self, drive, 0, 0));
	for (next = 0, round = 0; round < 4; round++) {
		next = choose_cold(self, next, GROUPS, EACH, ids);
		ASSERT_LT(0, next);
		reads = tier_attribute(&self->store, "near_reads");
		near = tier_attribute(&self->store, "fetches_near");
		ASSERT_EQ(GROUPS * EACH, read_together(self, ids, GROUPS * EACH, &self->random));
		reads = tier_attribute(&self->store, "near_reads") - reads;
		near = tier_attribute(&self->store, "fetches_near") - near;
		printf("# %u objects of %u places: %lld fetches in %lld near reads\n", GROUPS * EACH, GROUPS, near, reads);
		EXPECT_LE(GROUPS * EACH - EACH, near);
		EXPECT_GE(GROUPS + 2, reads);		/* a segment can end within a group */
	}
	/* More than one read has room for. */
	next = choose_cold(self, next, 1, SMALL, ids);
	ASSERT_LT(0, next);
	reads = tier_attribute(&self->store, "near_reads");
	near = tier_attribute(&self->store, "fetches_near");
	ASSERT_EQ(SMALL, read_together(self, ids, SMALL, &self->random));
	EXPECT_EQ(SMALL, tier_attribute(&self->store, "fetches_near") - near);
	reads = tier_attribute(&self->store, "near_reads") - reads;
	EXPECT_LE((SMALL + READ_MOST - 1) / READ_MOST, reads);
	EXPECT_GE(3, reads);
	EXPECT_EQ(0, tier_attribute(&self->store, "fetch_failures"));
	close(drive);
}

struct beside {
	struct _test_data_tier *tier;
	pthread_t thread;
	uint32_t ids[TOGETHER];
	uint32_t nr;
	int ret;
};

static void *beside_main(void *argument)
{
	struct beside *beside = argument;
	uint64_t random = test_seed + 1;

	beside->ret = read_together(beside->tier, beside->ids, beside->nr, &random);
	return NULL;
}

/* A call leaves near reads to others; the daemon gets all objects of a read that takes too long. */
TEST_F_TIMEOUT(tier, near_share, SECONDS)
{
	enum { GROUPS = 20, EACH = 3, OTHERS = 8 };
	struct beside beside = { .tier = self, .nr = OTHERS };
	uint32_t ids[TOGETHER], next, single;
	uint64_t begin;
	int fd;

	if (!dm_there())
		SKIP(return, "no drive in /dev/drive, or no device mapper");
	ASSERT_EQ(0, fill_groups(self));
	fd = dm_make("near", O_DIRECT);		/* with pages cached, the close takes long */
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, near_tell(self, 0, 0, fd));
	ASSERT_LT(0, near_place(self, fd, 0, 0));
	next = choose_cold(self, 0, GROUPS, EACH, ids);
	next = next ? choose_cold(self, next, OTHERS, 1, beside.ids) : 0;
	next = next ? choose_cold(self, next, 1, 1, &single) : 0;
	ASSERT_LT(0, next);
	ASSERT_EQ(0, system("dmsetup suspend --noflush near"));
	begin = now_ms();
	EXPECT_EQ(GROUPS * EACH, read_together(self, ids, GROUPS * EACH, &self->random));
	EXPECT_EQ(EACH_MOST, tier_attribute(&self->store, "near_reads"));
	ASSERT_EQ(0, pthread_create(&beside.thread, NULL, beside_main, &beside));
	pthread_join(beside.thread, NULL);
	EXPECT_EQ(OTHERS, beside.ret);
	EXPECT_EQ(READS, tier_attribute(&self->store, "near_reads"));
	EXPECT_EQ(0, check(self->store.lsm, &self->objects[single], single, self->bytes));
	EXPECT_EQ(READS, tier_attribute(&self->store, "near_reads"));
	EXPECT_GT(10000u, now_ms() - begin);
	EXPECT_EQ(0, tier_attribute(&self->store, "fetches_near"));
	EXPECT_EQ(0, near_resume(self, fd));
}

/* Wait until so many objects more have come from the near drive. */
static bool near_come(const struct _test_data_tier *self, long long nr)
{
	uint64_t end = now_ms() + test_limit(5000);

	while (tier_attribute(&self->store, "fetches_near") < nr && now_ms() < end)
		usleep(200);
	return tier_attribute(&self->store, "fetches_near") >= nr;
}

/* Suspend or resume a device of the device mapper, as dmsetup does, but at once.  Returns 0 or a negative errno. */
static int dm_hold(const char *name, bool hold)
{
	struct dm_ioctl dm = {
		.version = { 4 }, .data_size = sizeof(dm),
		.flags = hold ? DM_SUSPEND_FLAG | DM_NOFLUSH_FLAG | DM_SKIP_LOCKFS_FLAG : 0,
	};
	int fd = open("/dev/mapper/control", O_RDWR | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	strncpy(dm.name, name, sizeof(dm.name) - 1);
	ret = ioctl(fd, DM_DEV_SUSPEND, &dm) ? -errno : 0;
	close(fd);
	return ret;
}

/*
 * Ask for a cold object and do not wait, while the drive is held, so that it cannot be there at once.  Returns after how many
 * ms it is, UINT32_MAX if the daemon had to be asked as well, or a negative errno or line.
 */
static int64_t near_leave(struct _test_data_tier *self, uint32_t id)
{
	long long before = tier_attribute(&self->store, "fetches_near");
	unsigned long answered = atomic_load(&self->keeper.answered);
	struct lsmem_op op = lsm_op_read(self->objects[id].handle, self->bytes, SMALL_BYTES, 0);
	uint64_t begin;
	int ret;

	op.flags = LSMEM_OPF_NOWAIT;
	ret = dm_hold("near", true);
	if (ret)
		return ret;
	begin = now_ms();
	ret = lsm_vector(self->store.lsm, &op, 1, 0, NULL);
	ret = dm_hold("near", false) ?: ret;
	if (ret)
		return ret;
	if (op.result != -EAGAIN)
		return -__LINE__;
	while (tier_attribute(&self->store, "fetches_near") == before) {
		if (atomic_load(&self->keeper.answered) != answered)
			return UINT32_MAX;
		if (now_ms() > begin + test_limit(5000))
			return -__LINE__;
		usleep(200);
	}
	return (int64_t)(now_ms() - begin);
}

/*
 * A call that does not wait leaves what it has asked for to a worker, at once; so does one that is killed.  What is not left
 * is taken over when it is late, never within SOON_MS: one try in which it is there sooner is proof, and a busy machine may
 * need several.
 */
TEST_F_TIMEOUT(tier, near_left, SECONDS)
{
	enum { TRIES = 64, SOON_MS = 80 };
	int64_t took = INT64_MAX, best = INT64_MAX;
	uint32_t ids[TRIES], i;
	long long reads;
	uint64_t end;
	pid_t child;
	int fd;

	if (!dm_there())
		SKIP(return, "no drive in /dev/drive, or no device mapper");
	ASSERT_EQ(0, fill_groups(self));
	fd = dm_make("near", O_DIRECT);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, near_tell(self, 0, 0, fd));
	ASSERT_LT(0, near_place(self, fd, 0, 0));
	ASSERT_LT(0, choose_cold(self, 0, TRIES, 1, ids));
	for (i = 0; i < TRIES - 1 && best >= SOON_MS; i++) {
		took = near_leave(self, ids[i]);
		ASSERT_LE(0, took);
		best = took < best ? took : best;
	}
	printf("# left: there after %lld ms at best of %u\n", (long long)best, i);
	EXPECT_GT(SOON_MS, best);

	/* Killed while it waits. */
	ASSERT_EQ(0, dm_hold("near", true));
	reads = tier_attribute(&self->store, "near_reads");
	child = fork();
	if (!child) {
		check(self->store.lsm, &self->objects[ids[i]], ids[i], self->bytes);
		_exit(0);
	}
	end = now_ms() + SECONDS * 500;
	while (tier_attribute(&self->store, "near_reads") == reads && now_ms() < end)
		usleep(200);
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	ASSERT_EQ(0, dm_hold("near", false));
	EXPECT_EQ(0, check(self->store.lsm, &self->objects[ids[i]], ids[i], self->bytes));
	EXPECT_EQ(0, near_resume(self, fd));
}

struct stuck {
	struct _test_data_tier *tier;
	pthread_t thread;
	uint32_t ids[TOGETHER];
	uint32_t nr;
	uint32_t hot;
	uint8_t *mapped;		/* a store to it waits */
	uint32_t right;
};

static void *stuck_main(void *argument)
{
	struct stuck *stuck = argument;
	const struct object *objects = stuck->tier->objects;
	static uint8_t bytes[TOGETHER][SMALL_BYTES];
	struct lsmem_op ops[TOGETHER + 1];
	uint32_t i;

	ops[0] = lsm_op_read(objects[stuck->hot].handle, stuck->mapped, SMALL_BYTES, 0);
	for (i = 0; i < stuck->nr; i++)
		ops[i + 1] = lsm_op_read(objects[stuck->ids[i]].handle, bytes[i], SMALL_BYTES, 0);
	if (lsm_vector(stuck->tier->store.lsm, ops, stuck->nr + 1, 0, NULL))
		return NULL;
	for (i = 0; i < stuck->nr; i++)
		stuck->right += !ops[i + 1].result &&
				content_is(bytes[i], SMALL_BYTES, stuck->ids[i], objects[stuck->ids[i]].serial);
	return NULL;
}

/*
 * A thread has asked for objects, and is held up by a page fault, for as long as its user likes.  Another thread that wants
 * one does not wait for it; and when the reads are late, a worker takes them over.
 */
TEST_F_TIMEOUT(tier, near_stuck, SECONDS)
{
	enum { GROUPS = 6, ROUNDS = 4 };
	struct stuck stuck = { .tier = self, .nr = GROUPS };
	uint32_t next = 0, i, round;
	long long near, waited = 0, reads;
	uint64_t end;
	int fd, hung;

	if (!dm_there())
		SKIP(return, "no drive in /dev/drive, or no device mapper");
	ASSERT_EQ(0, fill_groups(self));
	fd = dm_make("near", O_DIRECT);
	hung = dm_make("hung", 0);
	ASSERT_LE(0, fd);
	ASSERT_LE(0, hung);
	ASSERT_EQ(0, near_tell(self, 0, 0, fd));
	ASSERT_LT(0, near_place(self, fd, 0, 0));
	ASSERT_EQ(0, put_length(self->store.lsm, &self->objects[self->nr], self->nr, self->bytes, SMALL_BYTES));
	stuck.hot = self->nr;
	for (round = 0; round < ROUNDS && (round < 2 || !waited); round++) {
		bool alone = !round;	/* no other thread wants the objects */

		next = choose_cold(self, next, GROUPS, 1, stuck.ids);
		ASSERT_LT(0, next);
		stuck.right = 0;
		stuck.mapped = mmap(NULL, LSMEM_BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, hung, 0);
		ASSERT_NE(MAP_FAILED, stuck.mapped);
		ASSERT_EQ(0, posix_fadvise(hung, 0, 0, POSIX_FADV_DONTNEED));
		ASSERT_EQ(0, system("dmsetup suspend --noflush hung"));
		near = tier_attribute(&self->store, "fetches_near");
		reads = tier_attribute(&self->store, "near_reads");
		waited = tier_attribute(&self->store, "near_waited");
		EXPECT_EQ(0, pthread_create(&stuck.thread, NULL, stuck_main, &stuck));
		if (alone) {
			EXPECT_TRUE(near_come(self, near + GROUPS));
		} else {
			end = now_ms() + test_limit(5000);
			while (tier_attribute(&self->store, "near_reads") < reads + GROUPS && now_ms() < end)
				usleep(100);
			for (i = GROUPS; i-- > 0;)
				EXPECT_EQ(0, check(self->store.lsm, &self->objects[stuck.ids[i]], stuck.ids[i], self->bytes));
		}
		waited = tier_attribute(&self->store, "near_waited") - waited;
		printf("# stuck, round %u: %lld of %lld reads ended by a thread that waits\n", round, waited,
		       tier_attribute(&self->store, "near_reads") - reads);
		EXPECT_EQ(near + GROUPS, tier_attribute(&self->store, "fetches_near"));
		EXPECT_EQ(0, system("dmsetup resume hung"));
		pthread_join(stuck.thread, NULL);
		EXPECT_EQ(GROUPS, stuck.right);
		munmap(stuck.mapped, LSMEM_BLOCK);
	}
	EXPECT_LT(0, waited);
	close(hung);
	EXPECT_EQ(0, system("dmsetup remove --retry hung"));
	EXPECT_EQ(0, near_resume(self, fd));
}

/* Each object of a call that no backup has whole is one failure, and fails no other. */
TEST_F_TIMEOUT(tier, failed_together, SECONDS)
{
	enum { GROUPS = 10, EACH = 2 };
	uint32_t ids[TOGETHER], i;

	ASSERT_EQ(0, fill_groups(self));
	ASSERT_LT(0, choose_cold(self, 0, GROUPS, EACH, ids));
	atomic_store(&self->keeper.mood, KEEPER_DAMAGED);
	EXPECT_EQ(0, read_together(self, ids, GROUPS * EACH, &self->random));
	EXPECT_EQ(GROUPS * EACH, tier_attribute(&self->store, "fetch_failures"));
	atomic_store(&self->keeper.mood, KEEPER_GOOD);
	EXPECT_EQ(GROUPS * EACH, read_together(self, ids, GROUPS * EACH, &self->random));
	for (i = 0; i < GROUPS * EACH; i++)
		EXPECT_EQ(0, check(self->store.lsm, &self->objects[ids[i]], ids[i], self->bytes));
	EXPECT_EQ(GROUPS * EACH, tier_attribute(&self->store, "fetch_failures"));
}

TEST_F_TIMEOUT(tier, near_errors, SECONDS)
{
	struct lsmem_near near = { .size = sizeof(near), .flags = 1, .fd = -1 };
	int null = open("/dev/null", O_RDONLY), drive = open_drive();

	EXPECT_EQ(-EBADF, near_tell(self, 0, 0, 10000));
	EXPECT_EQ(-ENOTBLK, near_tell(self, 0, 0, null));
	EXPECT_EQ(-ENODEV, near_tell(self, 1, 0, 0));
	EXPECT_EQ(-EINVAL, near_tell(self, 1, 512, 0));
	EXPECT_EQ(-EINVAL, near_tell(self, 1, 1ull << 63, 0));
	EXPECT_EQ(-1, ioctl(self->follower.attach.fd, LSMEM_REPL_NEAR, &near));
	EXPECT_EQ(EINVAL, errno);
	close(null);
	if (drive < 0)
		SKIP(return, "no drive in /dev/drive");
	close(drive);
	drive = open_drive();
	EXPECT_EQ(0, near_tell(self, 0, 0, drive));
	close(drive);		/* the kernel holds it, and lets it go */
	EXPECT_EQ(-ENOENT, near_tell(self, 1ull << 60, 0, 0));
}

TEST_HARNESS_MAIN
