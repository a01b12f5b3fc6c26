// SPDX-License-Identifier: GPL-2.0
/*
 * The block device: what fio and filesystems do not test.
 *
 * The contents of a block depend on its number and on the serial number of the write.  So a read
 * must return either the whole contents of one write, or zeroes.  A durable store has a daemon in
 * this program (follower.h) that records what a recovery would find: after a FLUSH the device
 * must show exactly that.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/blkpg.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "store.h"

#define BLOCK		4096u
#define ENTRY		(BLOCK + LSMEM_LONG_BYTES)
#define RECORD		LSMEM_LONG_BYTES
#define CHUNK		(256u * BLOCK)
#define SPAN		16u	/* blocks that a write appends together */
#define SECONDS		60	/* time limit of a test; sufficient under emulation */

/**
 * struct disk - a disk under test
 * @store: its store; @store.fd is the disk, opened with O_DIRECT
 * @follower: the daemon of a durable store
 * @blocks: size of the disk, in blocks
 * @buffer: CHUNK + BLOCK bytes, aligned to a block
 * @serial: serial number of the last write
 */
struct disk {
	struct store store;
	struct follower follower;
	uint64_t blocks;
	uint8_t *buffer;
	uint64_t serial;
};

FIXTURE(disk) {
	struct disk disk;
};

FIXTURE_VARIANT(disk) {
	uint32_t flags;
};

FIXTURE_VARIANT_ADD(disk, unbacked) {
	.flags = 0,
};

FIXTURE_VARIANT_ADD(disk, backed) {
	.flags = LSMEM_STORE_DURABLE,
};

FIXTURE_SETUP(disk)
{
	struct disk *disk = &self->disk;
	uint64_t bytes;

	ASSERT_EQ(0, store_create_disk(&disk->store, STORE_BYTES, 0, variant->flags));
	if (variant->flags) {
		/* Invariant 18: there is no disk before recovery has ended. */
		ASSERT_EQ(-1, open(disk->store.path, O_RDWR));
		ASSERT_EQ(0, follower_start(&disk->follower, disk->store.name));
	}
	disk->store.fd = open(disk->store.path, O_RDWR | O_DIRECT | O_EXCL | O_CLOEXEC);
	ASSERT_LE(0, disk->store.fd) TH_LOG("%s: %s", disk->store.path, strerror(errno));
	ASSERT_EQ(0, ioctl(disk->store.fd, BLKGETSIZE64, &bytes));
	disk->blocks = bytes / BLOCK;
	ASSERT_EQ(0, posix_memalign((void **)&disk->buffer, BLOCK, CHUNK + BLOCK));
	disk->serial = test_seed;
}

FIXTURE_TEARDOWN(disk)
{
	struct disk *disk = &self->disk;
	close(disk->store.fd);
	disk->store.fd = -1;
	if (variant->flags) {
		follower_sleep(&disk->follower, false);
		follower_stop(&disk->follower);
		EXPECT_STREQ("", disk->follower.wrong);
		EXPECT_EQ(0, store_attribute(&disk->store, "attached"));
	}
	EXPECT_EQ(0, store_destroy_disk(&disk->store));
	follower_free(&disk->follower);
	free(disk->buffer);
}

static uint64_t attribute(const struct disk *disk, const char *name)
{
	return (uint64_t)store_attribute(&disk->store, name);
}

/* Read the first line of a file in sysfs of the disk; an empty @text if that fails. */
static void disk_attribute(const struct disk *disk, const char *name, char *text, int size)
{
	char path[128];
	FILE *file;

	*text = '\0';
	snprintf(path, sizeof(path), "/sys/block/%s/%s", disk->store.name, name);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(text, size, file))
		text[strcspn(text, "\n")] = '\0';
	fclose(file);
}

static int delete_blocks(int fd, unsigned long request, uint64_t block, uint64_t nr)
{
	uint64_t range[2] = { block * BLOCK, nr * BLOCK };

	return ioctl(fd, request, range) ? -errno : 0;
}

/* Write @nr blocks, at most CHUNK bytes, with a new serial number. 0 or a negative errno. */
static int put(struct disk *disk, uint64_t block, uint32_t nr, int flags)
{
	struct iovec iov = { disk->buffer, nr * BLOCK };
	uint32_t i;

	disk->serial++;
	for (i = 0; i < nr; i++)
		content_fill(disk->buffer + i * BLOCK, BLOCK, block + i, disk->serial);
	if (pwritev2(disk->store.fd, &iov, 1, (off_t)(block * BLOCK), flags) == (ssize_t)iov.iov_len)
		return 0;
	return -errno;
}

static bool is_zero(const uint8_t *data, uint32_t length)
{
	return !*data && !memcmp(data, data + 1, length - 1);
}

/* Read a block. Returns 0 if it is zeroes, 1 if it has contents of this block, else -1. */
static int look(int fd, uint8_t *buffer, uint64_t block, uint64_t *serial)
{
	if (pread(fd, buffer, BLOCK, (off_t)(block * BLOCK)) != BLOCK)
		return -1;
	if (is_zero(buffer, BLOCK))
		return 0;
	return content_right(buffer, BLOCK, block, serial) ? 1 : -1;
}

/* After a FLUSH, count the blocks that differ from what a recovery would find. */
static uint64_t differences(struct disk *disk)
{
	uint64_t different = 0, block;
	uint32_t i;

	if (fsync(disk->store.fd))
		return disk->blocks;
	for (block = 0; block < disk->blocks; block += CHUNK / BLOCK) {
		if (pread(disk->store.fd, disk->buffer, CHUNK, (off_t)(block * BLOCK)) != CHUNK)
			return disk->blocks;
		for (i = 0; i < CHUNK / BLOCK; i++) {
			const struct follower_key *key = &disk->follower.keys[block + i];
			const uint8_t *data = disk->buffer + i * BLOCK;

			if (key->version && !key->deleted)
				different += crc32c(~0u, data, BLOCK) != key->pcrc;
			else
				different += !is_zero(data, BLOCK);
		}
	}
	return different;
}

/* The sum of the live bytes that the segments count; the cleaner chooses victims by these. */
static uint64_t segments_live(const struct disk *disk)
{
	uint64_t live, sum = 0;
	char line[256], state[16];
	FILE *file;

	snprintf(line, sizeof(line), "/sys/kernel/debug/lsmem/%s/segments", disk->store.name);
	file = fopen(line, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%*u %15s %*u %*u %*u %*u %*u %*u %ju", state, &live) == 2 &&
		    strcmp(state, "victim"))
			sum += live;
	if (file)
		fclose(file);
	return sum;
}

/* ---- Size and accounting -------------------------------------------------- */

TEST_F_TIMEOUT(disk, geometry, SECONDS)
{
	struct disk *disk = &self->disk;
	bool durable = variant->flags;
	unsigned int physical;
	char text[32];
	int logical;

	EXPECT_EQ(attribute(disk, "handles_max"), disk->blocks);
	EXPECT_EQ(0, disk->blocks * BLOCK % MIB);
	EXPECT_LE(STORE_BYTES * 8 / 10, disk->blocks * BLOCK);
	EXPECT_GT(attribute(disk, "capacity_bytes"), disk->blocks * (ENTRY + RECORD));
	ASSERT_EQ(0, ioctl(disk->store.fd, BLKSSZGET, &logical));
	EXPECT_EQ(BLOCK, logical);
	ASSERT_EQ(0, ioctl(disk->store.fd, BLKPBSZGET, &physical));
	EXPECT_EQ(BLOCK, physical);
	disk_attribute(disk, "queue/discard_granularity", text, sizeof(text));
	EXPECT_STREQ("4096", text);
	disk_attribute(disk, "queue/rotational", text, sizeof(text));
	EXPECT_STREQ("0", text);
	disk_attribute(disk, "queue/write_cache", text, sizeof(text));
	EXPECT_STREQ(durable ? "write back" : "write through", text);
	disk_attribute(disk, "queue/fua", text, sizeof(text));
	EXPECT_STREQ(durable ? "1" : "0", text);
}

TEST_F_TIMEOUT(disk, accounting, SECONDS)
{
	struct disk *disk = &self->disk;
	uint64_t serial, records = variant->flags ? RECORD : 0;
	const uint32_t nr = CHUNK / BLOCK;

	EXPECT_EQ(0, look(disk->store.fd, disk->buffer, 7, &serial));
	EXPECT_EQ(0, look(disk->store.fd, disk->buffer, disk->blocks - 1, &serial));
	ASSERT_EQ(0, put(disk, 7, nr, 0));
	ASSERT_EQ(0, put(disk, disk->blocks - 1, 1, 0));
	EXPECT_EQ((nr + 1) * ENTRY, attribute(disk, "live_bytes"));
	EXPECT_EQ(nr + 1, attribute(disk, "handles_used"));
	/* A block that is written twice counts once. */
	ASSERT_EQ(0, put(disk, 7, nr, 0));
	EXPECT_EQ((nr + 1) * ENTRY, attribute(disk, "live_bytes"));
	EXPECT_EQ(nr, attribute(disk, "stats/replaced"));
	EXPECT_EQ(1, look(disk->store.fd, disk->buffer, 7, &serial));
	EXPECT_EQ(disk->serial, serial);
	EXPECT_EQ(1, look(disk->store.fd, disk->buffer, disk->blocks - 1, &serial));
	/* A discard removes the entry, and writes a tombstone if the store is durable. */
	ASSERT_EQ(0, delete_blocks(disk->store.fd, BLKDISCARD, 7, 10));
	EXPECT_EQ((nr - 9) * ENTRY + 10 * records, attribute(disk, "live_bytes"));
	EXPECT_EQ(nr - 9, attribute(disk, "handles_used"));
	EXPECT_EQ(0, look(disk->store.fd, disk->buffer, 16, &serial));
	EXPECT_EQ(1, look(disk->store.fd, disk->buffer, 17, &serial));
	/* A discard of a free block writes no tombstone. */
	ASSERT_EQ(0, delete_blocks(disk->store.fd, BLKZEROOUT, 0, 18));
	EXPECT_EQ((nr - 10) * ENTRY + 11 * records, attribute(disk, "live_bytes"));
	EXPECT_EQ(11, attribute(disk, "stats/deleted"));
	EXPECT_EQ(0, look(disk->store.fd, disk->buffer, 17, &serial));
	ASSERT_EQ(0, delete_blocks(disk->store.fd, BLKDISCARD, 0, disk->blocks));
	EXPECT_EQ((nr + 1) * records, attribute(disk, "live_bytes"));
	EXPECT_EQ(0, attribute(disk, "handles_used"));
	EXPECT_EQ(0, fsync(disk->store.fd));	/* on a volatile store too */
	if (variant->flags)
		EXPECT_EQ(0, differences(disk));
}

/* Memory that is only aligned to 512 bytes: blocks cross the ends of pages and of iovecs. */
TEST_F_TIMEOUT(disk, pieces, SECONDS)
{
	struct disk *disk = &self->disk;
	uint8_t *data = disk->buffer + 512, *more = disk->buffer + 16 * BLOCK + 1536;
	struct iovec iov[] = { { data, 2 * BLOCK }, { more, BLOCK }, { more + BLOCK, 2 * BLOCK } };
	uint8_t *block[] = { data, data + BLOCK, more, more + BLOCK, more + 2 * BLOCK };
	uint64_t serial;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(block); i++)
		content_fill(block[i], BLOCK, 100 + i, 1);
	ASSERT_EQ(5 * BLOCK, pwritev(disk->store.fd, iov, ARRAY_SIZE(iov), 100 * BLOCK))
		TH_LOG("%s", strerror(errno));
	memset(disk->buffer, 0xa5, CHUNK);
	ASSERT_EQ(5 * BLOCK, preadv(disk->store.fd, iov, ARRAY_SIZE(iov), 100 * BLOCK));
	for (i = 0; i < ARRAY_SIZE(block); i++)
		EXPECT_TRUE(content_right(block[i], BLOCK, 100 + i, &serial));
	EXPECT_EQ(0xa5, data[-1]);
	EXPECT_EQ(0xa5, data[2 * BLOCK]);
	EXPECT_EQ(0xa5, more[-1]);
	EXPECT_EQ(0xa5, more[3 * BLOCK]);
	/* A read of unwritten blocks fills such memory with zeroes. */
	ASSERT_EQ(5 * BLOCK, preadv(disk->store.fd, iov, ARRAY_SIZE(iov), 200 * BLOCK));
	EXPECT_TRUE(is_zero(data, 2 * BLOCK));
	EXPECT_TRUE(is_zero(more, 3 * BLOCK));
	EXPECT_EQ(0xa5, data[2 * BLOCK]);
	/* I/O of a part of a block, and I/O behind the end of the device, are refused. */
	EXPECT_EQ(-1, pwrite(disk->store.fd, disk->buffer, 512, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(0, pread(disk->store.fd, disk->buffer, BLOCK, (off_t)(disk->blocks * BLOCK)));
	EXPECT_EQ(-1, pwrite(disk->store.fd, disk->buffer, BLOCK, (off_t)(disk->blocks * BLOCK)));
	EXPECT_EQ(ENOSPC, errno);
}

/*
 * Writes of a length below, at and above a span, some from memory in which each block lies in two
 * pages; each replaces a part of the one before.  Entries lie at all distances from the end of a
 * seglet.
 */
TEST_F_TIMEOUT(disk, spans, SECONDS)
{
	const uint32_t lengths[] = { 1, 2, SPAN - 1, SPAN, SPAN + 1, 3 * SPAN - 1, 40 };
	const uint32_t blocks = 2 * 3 * SPAN;
	uint8_t *memory = self->disk.buffer;
	struct disk *disk = &self->disk;
	uint64_t serials[2 * 3 * SPAN] = { 0 }, serial, used = 0;
	uint32_t round, i;

	for (round = 0; round < 40 * ARRAY_SIZE(lengths); round++) {
		uint32_t nr = lengths[round % ARRAY_SIZE(lengths)];
		uint32_t block = round * 7 % (blocks - nr);

		disk->buffer = memory + (round % 3 == 2 ? 512 : 0);
		ASSERT_EQ(0, put(disk, block, nr, 0));
		disk->buffer = memory;
		for (i = block; i < block + nr; i++) {
			used += !serials[i];
			serials[i] = disk->serial;
		}
		if (round % 5 == 4) {
			ASSERT_EQ(0, delete_blocks(disk->store.fd, BLKDISCARD, block + nr / 2, 1));
			used -= !!serials[block + nr / 2];
			serials[block + nr / 2] = 0;
		}
		ASSERT_EQ(used, attribute(disk, "handles_used"));
	}
	/* Never written blocks lie between those that are read together. */
	ASSERT_EQ(blocks * BLOCK, pread(disk->store.fd, disk->buffer, blocks * BLOCK, 0));
	for (i = 0; i < blocks; i++) {
		const uint8_t *data = disk->buffer + i * BLOCK;

		if (serials[i]) {
			EXPECT_TRUE(content_right(data, BLOCK, i, &serial));
			EXPECT_EQ(serials[i], serial);
		} else {
			EXPECT_TRUE(is_zero(data, BLOCK));
		}
	}
	if (!variant->flags)
		EXPECT_EQ(used * ENTRY, attribute(disk, "live_bytes"));
	if (variant->flags)
		EXPECT_EQ(0, differences(disk));
}

/* A write may wait for the cleaner, so RWF_NOWAIT is refused, and nothing is written. */
TEST_F_TIMEOUT(disk, nowait, SECONDS)
{
	struct disk *disk = &self->disk;
	uint64_t serial;
	int ret = put(disk, 3, 1, RWF_NOWAIT);

	EXPECT_TRUE(ret == -EOPNOTSUPP || ret == -EAGAIN) TH_LOG("%s", strerror(-ret));
	EXPECT_EQ(0, look(disk->store.fd, disk->buffer, 3, &serial));
}

/* A store cannot be destroyed while a partition of its disk is open. */
TEST_F_TIMEOUT(disk, partition, SECONDS)
{
	struct disk *disk = &self->disk;
	struct blkpg_partition part = {
		.start = MIB,
		.length = 8 * MIB,
		.pno = 1,
	};
	struct blkpg_ioctl_arg arg = {
		.op = BLKPG_ADD_PARTITION,
		.datalen = sizeof(part),
		.data = &part,
	};
	struct lsmem_destroy destroy = { .size = sizeof(destroy) };
	uint64_t serial, end = now_ms() + test_limit(5000);
	char path[80];
	int fd;

	memcpy(destroy.name, disk->store.name, sizeof(destroy.name));
	EXPECT_EQ(-EBUSY, control_call(LSMEM_CTL_DESTROY, &destroy));
	ASSERT_EQ(0, ioctl(disk->store.fd, BLKPG, &arg)) TH_LOG("%s", strerror(errno));
	snprintf(path, sizeof(path), "%sp1", disk->store.path);
	close(disk->store.fd);
	do {
		fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	} while (fd < 0 && now_ms() < end);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EBUSY, control_call(LSMEM_CTL_DESTROY, &destroy));
	content_fill(disk->buffer, BLOCK, 2 + MIB / BLOCK, 1);
	EXPECT_EQ(BLOCK, pwrite(fd, disk->buffer, BLOCK, 2 * BLOCK));
	EXPECT_EQ(0, fsync(fd));
	EXPECT_EQ(0, close(fd));
	disk->store.fd = open(disk->store.path, O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, disk->store.fd);
	EXPECT_EQ(1, look(disk->store.fd, disk->buffer, 2 + MIB / BLOCK, &serial));
}

/* ---- Concurrent I/O --------------------------------------------------------- */

struct racer {
	struct disk *disk;
	pthread_t thread;
	uint64_t seed;
	uint64_t blocks;
	uint64_t end;
	uint64_t changes;
	const char *wrong;
};

static void *race(void *argument)
{
	struct racer *racer = argument;
	int fd = racer->disk->store.fd;
	uint8_t *buffer;

	if (posix_memalign((void **)&buffer, BLOCK, 2 * SPAN * BLOCK)) {
		racer->wrong = "memory";
		return NULL;
	}
	while (!racer->wrong && now_ms() < racer->end) {
		uint64_t random = random_next(&racer->seed), serial;
		uint64_t block = random % racer->blocks, nr = random >> 40 & (2 * SPAN - 1), i;
		unsigned int what = random >> 32 & 15;

		if (nr > racer->blocks - block)
			nr = racer->blocks - block;
		racer->changes++;
		if (what < 8) {
			if (what < 4 || !nr)
				nr = 1;
			for (i = 0; i < nr; i++)
				content_fill(buffer + i * BLOCK, BLOCK, block + i, random);
			if (pwrite(fd, buffer, nr * BLOCK, (off_t)(block * BLOCK)) !=
			    (ssize_t)(nr * BLOCK))
				racer->wrong = "write";
		} else if (what < 10) {
			if (nr && delete_blocks(fd, BLKDISCARD, block, nr))
				racer->wrong = "discard";
		} else if (what < 11) {
			if (nr && delete_blocks(fd, BLKZEROOUT, block, nr))
				racer->wrong = "write zeroes";
		} else if (what < 12) {
			if (fdatasync(fd))
				racer->wrong = "flush";
		} else {
			racer->changes--;
			if (look(fd, buffer, block, &serial) < 0)
				racer->wrong = "contents";
		}
	}
	free(buffer);
	return NULL;
}

#define RACERS	4
#define RACE_MS	2500

/*
 * Write, discard, flush and read the first @blocks blocks from RACERS threads.  Returns NULL, or
 * the name of the operation that failed.  @changes: out, number of operations other than reads.
 */
static const char *races(struct disk *disk, uint64_t blocks, uint64_t *changes)
{
	struct racer racers[RACERS];
	const char *wrong = NULL;
	unsigned int i;

	*changes = 0;
	for (i = 0; i < RACERS; i++) {
		racers[i] = (struct racer){
			.disk = disk,
			.seed = test_seed + blocks + i,
			.blocks = blocks,
			.end = now_ms() + RACE_MS,
		};
		if (pthread_create(&racers[i].thread, NULL, race, &racers[i]))
			return "threads";
	}
	for (i = 0; i < RACERS; i++) {
		pthread_join(racers[i].thread, NULL);
		*changes += racers[i].changes;
		if (racers[i].wrong)
			wrong = racers[i].wrong;
	}
	return wrong;
}

TEST_F_TIMEOUT(disk, races, SECONDS)
{
	struct disk *disk = &self->disk;
	uint64_t changes, block, serial, used = 0, live, end;
	const char *wrong;

	wrong = races(disk, 2, &changes);
	EXPECT_EQ(NULL, wrong) TH_LOG("two blocks: %s", wrong);
	EXPECT_LT(100, changes);
	if (variant->flags)
		EXPECT_EQ(0, differences(disk));
	/* Spans that overlap, in part. */
	wrong = races(disk, 3 * SPAN, &changes);
	EXPECT_EQ(NULL, wrong) TH_LOG("a few blocks: %s", wrong);
	EXPECT_LT(100, changes);
	if (variant->flags)
		EXPECT_EQ(0, differences(disk));
	/* Now the store is full, so the cleaner works all the time. */
	for (block = 0; block < disk->blocks; block += CHUNK / BLOCK)
		ASSERT_EQ(0, put(disk, block, CHUNK / BLOCK, 0));
	wrong = races(disk, disk->blocks, &changes);
	EXPECT_EQ(NULL, wrong) TH_LOG("%s", wrong);
	EXPECT_LT(0, attribute(disk, "cleaner/segments_cleaned") +
		     attribute(disk, "cleaner/compactions"));
	if (variant->flags)
		EXPECT_EQ(0, differences(disk));
	end = now_ms() + test_limit(5000);
	for (block = 0; block < disk->blocks; block++) {
		int what = look(disk->store.fd, disk->buffer, block, &serial);

		ASSERT_LE(0, what);
		used += (uint64_t)what;
	}
	EXPECT_EQ(used, attribute(disk, "handles_used"));
	do {	/* a pass may be under way */
		live = attribute(disk, "live_bytes");
	} while (segments_live(disk) != live && now_ms() < end);
	EXPECT_EQ(segments_live(disk), live);
	EXPECT_LE(used * ENTRY, live);
	if (!variant->flags)
		EXPECT_EQ(used * ENTRY, live);
}

/* The cleaner must drop old tombstones, or they would take the space of the blocks. */
TEST_F_TIMEOUT(disk, fill_and_discard, SECONDS)
{
	struct disk *disk = &self->disk;
	unsigned int round;
	uint64_t block;

	if (!variant->flags)
		SKIP(return, "no records on a volatile store");
	for (round = 0; round < 2; round++) {
		for (block = 0; block < disk->blocks; block += CHUNK / BLOCK)
			ASSERT_EQ(0, put(disk, block, CHUNK / BLOCK, 0))
				TH_LOG("round %u, block %llu", round, (unsigned long long)block);
		ASSERT_EQ(0, delete_blocks(disk->store.fd, round % 2 ? BLKZEROOUT : BLKDISCARD, 0,
					   disk->blocks));
		EXPECT_GE(2 * disk->blocks * RECORD, attribute(disk, "live_bytes"));
	}
	EXPECT_LT(0, attribute(disk, "cleaner/segments_cleaned") +
		     attribute(disk, "cleaner/compactions"));
	EXPECT_EQ(0, differences(disk));
}

/* ---- Durability ------------------------------------------------------------ */

struct waiter {
	struct disk *disk;
	uint32_t nr;		/* blocks */
	pthread_t thread;
	atomic_int result;	/* 1: still waiting */
};

static void *write_fua(void *argument)
{
	struct waiter *waiter = argument;

	atomic_store(&waiter->result, put(waiter->disk, 5, waiter->nr, RWF_DSYNC));
	return NULL;
}

TEST_F_TIMEOUT(disk, durable_write, SECONDS)
{
	struct disk *disk = &self->disk;
	struct waiter waiter = { .disk = disk, .nr = CHUNK / BLOCK, .result = 1 };
	uint64_t i, waits;

	if (!variant->flags)
		SKIP(return, "nothing is durable here");
	ASSERT_EQ(0, put(disk, 0, 1, RWF_DSYNC));
	waits = attribute(disk, "stats/durable_waits");
	follower_sleep(&disk->follower, true);
	ASSERT_EQ(0, pthread_create(&waiter.thread, NULL, write_fua, &waiter));
	usleep(500000);
	EXPECT_EQ(1, atomic_load(&waiter.result));	/* it waits for the acknowledgement */
	follower_sleep(&disk->follower, false);
	pthread_join(waiter.thread, NULL);
	EXPECT_EQ(0, atomic_load(&waiter.result));
	EXPECT_LT(waits, attribute(disk, "stats/durable_waits"));
	follower_sleep(&disk->follower, true);
	for (i = 0; i < CHUNK / BLOCK; i++)
		EXPECT_EQ(crc32c(~0u, disk->buffer + i * BLOCK, BLOCK),
			  disk->follower.keys[5 + i].pcrc);
}

#define QUEUE		1100u	/* more requests than the device carries out at once */
#define TOGETHER	256u	/* fewer requests than that */

/* How many writes are in flight. */
static uint32_t under_way(const struct disk *disk)
{
	unsigned int reads, writes = 0;
	char text[64];

	disk_attribute(disk, "inflight", text, sizeof(text));
	return sscanf(text, "%u %u", &reads, &writes) == 2 ? writes : 0;
}

/* The durable writes of one thread wait at the same time, not one after the other. */
TEST_F_TIMEOUT(disk, durable_queue, SECONDS)
{
	struct disk *disk = &self->disk;
	struct timespec none = { 0 };
	struct io_event events[QUEUE];
	struct iocb blocks[QUEUE] = { 0 }, *each[QUEUE];
	uint64_t end = now_ms() + test_limit(10000);
	aio_context_t queue = 0;
	uint32_t i;

	if (!variant->flags)
		SKIP(return, "nothing is durable here");
	ASSERT_EQ(0, put(disk, 0, 1, RWF_DSYNC));
	ASSERT_EQ(0, syscall(SYS_io_setup, QUEUE, &queue));
	for (i = 0; i < QUEUE; i++) {
		each[i] = &blocks[i];
		blocks[i].aio_lio_opcode = IOCB_CMD_PWRITE;
		blocks[i].aio_rw_flags = RWF_DSYNC;
		blocks[i].aio_fildes = (uint32_t)disk->store.fd;
		blocks[i].aio_buf = (uintptr_t)disk->buffer;
		blocks[i].aio_nbytes = BLOCK;
		blocks[i].aio_offset = (int64_t)i * BLOCK;
	}
	follower_sleep(&disk->follower, true);
	EXPECT_EQ(QUEUE, syscall(SYS_io_submit, queue, QUEUE, each));
	while (under_way(disk) < TOGETHER && now_ms() < end)
		usleep(10000);
	EXPECT_LE(TOGETHER, under_way(disk));
	EXPECT_EQ(0, syscall(SYS_io_getevents, queue, 0, QUEUE, events, &none));
	follower_sleep(&disk->follower, false);
	ASSERT_EQ(QUEUE, syscall(SYS_io_getevents, queue, QUEUE, QUEUE, events, NULL));
	for (i = 0; i < QUEUE; i++)
		EXPECT_EQ(BLOCK, (uint64_t)events[i].res);
	EXPECT_EQ(0, syscall(SYS_io_destroy, queue));
	EXPECT_EQ(0, differences(disk));
}

/*
 * Write until a write fails, and return its errno.  @begin: out, when that write began, in ms.
 * @wrote: grows by the number of writes that succeeded.
 */
static int put_until_full(struct disk *disk, uint64_t *begin, uint64_t *wrote)
{
	uint64_t block;
	int ret = 0;

	for (block = 0; !ret && block < disk->blocks; block += CHUNK / BLOCK) {
		*begin = now_ms();
		ret = put(disk, block, CHUNK / BLOCK, 0);
		*wrote += !ret;
	}
	return ret;
}

/* No wait exceeds its bound. A write that timed out has been applied; a later FLUSH covers it. */
TEST_F_TIMEOUT(disk, bounds, SECONDS)
{
	struct disk *disk = &self->disk;
	uint64_t begin, serial, wrote = 0;

	if (!variant->flags)
		SKIP(return, "no daemon to wait for");
	/* Wait until the daemon has opened segments. */
	ASSERT_EQ(0, put(disk, 0, 1, RWF_DSYNC));
	ASSERT_EQ(0, store_set_attribute(&disk->store, "limits/flush_ms", 400));
	ASSERT_EQ(0, store_set_attribute(&disk->store, "limits/stall_ms", 100));
	follower_sleep(&disk->follower, true);
	ASSERT_EQ(0, put(disk, 1, 1, 0));
	begin = now_ms();
	EXPECT_EQ(-1, fsync(disk->store.fd));
	EXPECT_EQ(ETIMEDOUT, errno);
	EXPECT_LE(400, now_ms() - begin);
	EXPECT_GT(test_limit(5000), now_ms() - begin);
	EXPECT_EQ(-ETIMEDOUT, put(disk, 2, 1, RWF_DSYNC));
	EXPECT_EQ(1, look(disk->store.fd, disk->buffer, 2, &serial));
	/* While the daemon sleeps the log runs out of segments: ETIMEDOUT, never ENOSPC. */
	EXPECT_EQ(-ETIMEDOUT, put_until_full(disk, &begin, &wrote));
	EXPECT_LT(0, wrote);
	EXPECT_GT(test_limit(5000), now_ms() - begin);
	/*
	 * The bound also holds if stall_ms, the bound of one wait for space, is larger than
	 * flush_ms, the bound of the write.  Compaction may have made space for some more writes.
	 */
	ASSERT_EQ(0, store_set_attribute(&disk->store, "limits/stall_ms", 60000));
	EXPECT_EQ(-ETIMEDOUT, put_until_full(disk, &begin, &wrote));
	EXPECT_LE(400, now_ms() - begin);
	EXPECT_GT(test_limit(5000), now_ms() - begin);
	ASSERT_EQ(0, store_set_attribute(&disk->store, "limits/stall_ms", 100));
	EXPECT_LE(0, look(disk->store.fd, disk->buffer, 1, &serial));	/* reads go on */
	ASSERT_EQ(0, store_set_attribute(&disk->store, "limits/flush_ms", 30000));
	follower_sleep(&disk->follower, false);
	EXPECT_EQ(0, put(disk, 1, 1, 0));
	EXPECT_EQ(0, fsync(disk->store.fd));
	EXPECT_EQ(0, differences(disk));
}

/* Let the head of the second block of a write roll over. False: there is no fault injection. */
static bool roll_at_second(const struct disk *disk)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/kernel/debug/lsmem/%s/segment_full/interval",
		 disk->store.name);
	file = fopen(path, "we");
	if (!file)
		return false;
	fprintf(file, "2");
	return !fclose(file) && store_fault(&disk->store, "segment_full", 1);
}

/*
 * A durable write that waits for space for a part of flush_ms waits for the daemon for the rest of
 * it only.  In the second round its second block is in another segment, and the write waits until
 * the first block is durable.
 */
TEST_F_TIMEOUT(disk, bounds_together, SECONDS)
{
	struct lsmem_ack nothing = { .size = sizeof(nothing) };
	struct disk *disk = &self->disk;
	uint64_t bound = test_limit(500), begin, stalls, segments;
	struct waiter waiter = { .disk = disk };

	if (!variant->flags)
		SKIP(return, "no daemon to wait for");
	/* Wait until the daemon has opened segments. */
	ASSERT_EQ(0, put(disk, 0, 1, RWF_DSYNC));
	ASSERT_EQ(0, store_set_attribute(&disk->store, "limits/flush_ms", bound));
	follower_sleep(&disk->follower, true);
	for (waiter.nr = 1; waiter.nr <= 2; waiter.nr++) {
		/* Once for the span, once for its first block. */
		if (!store_fault(&disk->store, "no_space", 2) ||
		    (waiter.nr == 2 && !roll_at_second(disk)))
			SKIP(return, "this kernel has no fault injection");
		stalls = attribute(disk, "stats/stalls");
		segments = attribute(disk, "segments");
		waiter.result = 1;
		begin = now_ms();
		ASSERT_EQ(0, pthread_create(&waiter.thread, NULL, write_fua, &waiter));
		usleep((useconds_t)(bound / 2 * 1000));
		/* After an acknowledgement, even of nothing, writers look for space again. */
		EXPECT_EQ(0, ioctl(disk->follower.attach.fd, LSMEM_REPL_ACK, &nothing));
		pthread_join(waiter.thread, NULL);
		EXPECT_EQ(-ETIMEDOUT, waiter.result);
		EXPECT_LE(bound, now_ms() - begin);
		EXPECT_GT(bound * 14 / 10, now_ms() - begin) TH_LOG("%u blocks", waiter.nr);
		EXPECT_EQ(stalls + 1, attribute(disk, "stats/stalls"));
		EXPECT_EQ(segments + waiter.nr - 1, attribute(disk, "segments"));
	}
	ASSERT_EQ(0, store_set_attribute(&disk->store, "limits/flush_ms", 30000));
	follower_sleep(&disk->follower, false);
	EXPECT_EQ(0, differences(disk));
}

TEST_HARNESS_MAIN
