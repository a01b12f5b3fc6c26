// SPDX-License-Identifier: GPL-2.0
/*
 * A disk whose capacity is larger than its memory: blocks leave memory and come back, whole, whatever is
 * done to them meanwhile.  The backup is in this program (keeper.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "keeper.h"
#include "store.h"

#define BLOCK		4096u
#define CAPACITY	(320 * MIB)
#define GROUP		64u	/* blocks that are changed under one lock */
#define CHUNK		256u	/* blocks of the longest read */
#define PIECE		16u	/* blocks of reads that go on where the last has ended */
#define AHEAD		(1 << 20)	/* bytes that a tiered disk reads ahead */
#define THREADS		3u
#define STEPS		8000u	/* of each thread: together they write more than the log has room for */
#define DEPTH		48u	/* reads of a chunk: more than there may be requests */
#define SECONDS		300

FIXTURE(tier_disk) {
	struct store store;
	struct follower follower;
	struct keeper keeper;
	uint64_t blocks;
	uint32_t *serials;		/* of each block; 0: zeroes */
	pthread_mutex_t *locks;		/* of each group */
	uint8_t *bytes;			/* CHUNK blocks */
	uint64_t random;
};

static uint8_t *make_buffer(uint64_t blocks)
{
	void *buffer;

	return posix_memalign(&buffer, BLOCK, blocks * BLOCK) ? NULL : buffer;
}

/* New contents for @nr blocks. This and the next return 0 or a negative errno. */
static int put(struct _test_data_tier_disk *self, uint8_t *bytes, uint64_t block, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr; i++)
		content_fill(bytes + i * BLOCK, BLOCK, block + i, ++self->serials[block + i]);
	return pwrite(self->store.fd, bytes, nr * BLOCK, (off_t)(block * BLOCK)) == nr * BLOCK ? 0 : -errno;
}

static int discard(struct _test_data_tier_disk *self, uint64_t block, uint32_t nr)
{
	uint64_t range[2] = { block * BLOCK, (uint64_t)nr * BLOCK };

	memset(self->serials + block, 0, nr * sizeof(*self->serials));
	return ioctl(self->store.fd, BLKDISCARD, range) ? -errno : 0;
}

/* Are these the contents of the blocks? */
static bool right(const struct _test_data_tier_disk *self, const uint8_t *bytes, uint64_t block, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr; i++, block++, bytes += BLOCK)
		if (self->serials[block] ? !content_is(bytes, BLOCK, block, self->serials[block]) :
					   *bytes || memcmp(bytes, bytes + 1, BLOCK - 1))
			return false;
	return true;
}

/* 0: they are as they were written; 1: they are not; else a negative errno. */
static int check(struct _test_data_tier_disk *self, uint8_t *bytes, uint64_t block, uint32_t nr)
{
	memset(bytes, 0xa5, (size_t)nr * BLOCK);
	if (pread(self->store.fd, bytes, nr * BLOCK, (off_t)(block * BLOCK)) != nr * BLOCK)
		return -errno;
	return !right(self, bytes, block, nr);
}

/* Write the whole disk once. */
static int fill(struct _test_data_tier_disk *self)
{
	uint64_t block;
	int ret = 0;

	for (block = 0; !ret && block < self->blocks; block += GROUP)
		ret = put(self, self->bytes, block, GROUP);
	return ret;
}

/*
 * Check the disk; where that is slow, a chunk of each few.  Returns the first block of a chunk that is
 * not right, or the size of the disk.
 */
static uint64_t check_all(struct _test_data_tier_disk *self)
{
	uint32_t each = 100 / (uint32_t)test_scaled(100);
	uint64_t block;

	for (block = random_below(&self->random, each) * CHUNK; block < self->blocks; block += each * CHUNK)
		if (check(self, self->bytes, block, CHUNK))
			return block;
	return self->blocks;
}

static int open_disk(struct _test_data_tier_disk *self)
{
	uint64_t bytes;

	self->store.fd = open(self->store.path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (self->store.fd < 0 || ioctl(self->store.fd, BLKGETSIZE64, &bytes))
		return -errno;
	self->blocks = bytes / BLOCK;
	return 0;
}

FIXTURE_SETUP(tier_disk)
{
	uint64_t i;

	self->random = test_seed;
	keeper_init(&self->keeper);
	ASSERT_EQ(0, store_create_disk(&self->store, STORE_BYTES, CAPACITY, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_attach(&self->follower, self->store.name));
	EXPECT_EQ(CAPACITY, self->follower.attach.capacity);
	self->follower.keeper = &self->keeper;
	ASSERT_EQ(0, follower_activate(&self->follower, &(struct lsmem_activate){
		.size = sizeof(struct lsmem_activate),
		.era = 1,
		.generation_ceiling = 1,
		.next_segment = 1,
	}));
	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
	ASSERT_EQ(0, open_disk(self));
	self->serials = calloc(self->blocks, sizeof(*self->serials));
	self->locks = calloc(self->blocks / GROUP, sizeof(*self->locks));
	self->bytes = make_buffer(CHUNK);
	ASSERT_TRUE(self->serials && self->locks && self->bytes);
	for (i = 0; i < self->blocks / GROUP; i++)
		pthread_mutex_init(&self->locks[i], NULL);
}

FIXTURE_TEARDOWN(tier_disk)
{
	close(self->store.fd);
	self->store.fd = -1;
	keeper_stop(&self->keeper);
	EXPECT_EQ(0, atomic_load(&self->keeper.error));
	EXPECT_STREQ("", self->follower.wrong);
	follower_stop(&self->follower);
	EXPECT_EQ(0, store_destroy_disk(&self->store));
	follower_free(&self->follower);
	keeper_free(&self->keeper);
	free(self->serials);
	free(self->locks);
	free(self->bytes);
}

/* Its size follows the capacity; it is written, read back twice, changed without reads, discarded. */
TEST_F_TIMEOUT(tier_disk, more_than_memory, SECONDS)
{
	long long fetches;
	uint64_t block;

	EXPECT_LT(STORE_BYTES / 10 * 22, self->blocks * BLOCK);
	EXPECT_GT(CAPACITY, self->blocks * BLOCK);
	ASSERT_EQ(0, fill(self));
	tier_print(&self->store);
	EXPECT_LT(0, tier_attribute(&self->store, "cold_bytes"));
	EXPECT_GT((long long)STORE_BYTES, tier_attribute(&self->store, "resident_bytes"));
	EXPECT_EQ(0, tier_attribute(&self->store, "fetches"));
	EXPECT_EQ(self->blocks, check_all(self));
	EXPECT_EQ(self->blocks, check_all(self));
	tier_print(&self->store);
	fetches = tier_attribute(&self->store, "fetches");
	/* A third of all is in memory; what a short run reads fits there the second time. */
	EXPECT_LT((long long)test_scaled(self->blocks) / 2, fetches);
	/* What is replaced as a whole, or goes, need not be read; the cleaner reads whole segments. */
	for (block = 0; block < self->blocks; block += 3 * GROUP)
		ASSERT_EQ(0, put(self, self->bytes, block, GROUP / 2));
	for (block = GROUP; block < self->blocks; block += 3 * GROUP)
		ASSERT_EQ(0, discard(self, block, GROUP / 2));
	EXPECT_GE(fetches + (long long)atomic_load(&self->keeper.segments),
		  tier_attribute(&self->store, "fetches"));
	EXPECT_EQ(self->blocks, check_all(self));
	tier_print(&self->store);
	ASSERT_EQ(0, discard(self, 0, (uint32_t)self->blocks));
	EXPECT_EQ(self->blocks, check_all(self));
	tier_print(&self->store);
	EXPECT_EQ(0, store_attribute(&self->store, "handles_used"));
	EXPECT_EQ(0, tier_attribute(&self->store, "cold_bytes"));
	EXPECT_EQ(0, tier_attribute(&self->store, "cached_bytes"));
	EXPECT_EQ(0, tier_attribute(&self->store, "fetch_failures"));
}

struct worker {
	struct _test_data_tier_disk *disk;
	pthread_t thread;
	uint64_t random;
	uint8_t *bytes;
	uint32_t steps;
	int error;
	uint64_t at;
};

static int step(struct worker *worker, uint64_t block, uint32_t nr)
{
	uint32_t dice = random_below(&worker->random, 100);

	if (dice < 45)
		return check(worker->disk, worker->bytes, block, nr);
	if (dice < 90)
		return put(worker->disk, worker->bytes, block, nr);
	return discard(worker->disk, block, nr);
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct _test_data_tier_disk *disk = worker->disk;

	while (!worker->error && worker->steps--) {
		uint64_t group = random_below(&worker->random, (uint32_t)(disk->blocks / GROUP));
		uint32_t first = random_below(&worker->random, GROUP);
		uint32_t nr = 1 + random_below(&worker->random, GROUP - first);

		/* Half of all goes to a tenth of the blocks; a quarter of it is one block. */
		if (random_chance(&worker->random, 50))
			group /= 10;
		if (random_chance(&worker->random, 25))
			nr = 1;
		worker->at = group * GROUP + first;
		pthread_mutex_lock(&disk->locks[group]);
		worker->error = step(worker, worker->at, nr);
		pthread_mutex_unlock(&disk->locks[group]);
	}
	return NULL;
}

/* Several threads do what they like; eviction, fetching, compaction and cleaning go on beside. */
TEST_F_TIMEOUT(tier_disk, all_at_once, SECONDS)
{
	struct worker workers[THREADS] = { 0 };
	uint32_t i;

	ASSERT_EQ(0, fill(self));
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){
			.disk = self,
			.random = test_seed + i + 1,
			.bytes = make_buffer(GROUP),
			.steps = (uint32_t)test_scaled(STEPS),
		};
		ASSERT_EQ(0, pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]));
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		EXPECT_EQ(0, workers[i].error) TH_LOG("block %llu", (unsigned long long)workers[i].at);
		free(workers[i].bytes);
	}
	tier_print(&self->store);
	EXPECT_EQ(self->blocks, check_all(self));
	tier_print(&self->store);
	if (test_scaled(STEPS) == STEPS) {
		EXPECT_LT(0, store_attribute(&self->store, "cleaner/segments_cleaned"));
		EXPECT_LT(0ul, atomic_load(&self->keeper.segments));
	}
	EXPECT_EQ(0, tier_attribute(&self->store, "fetch_failures"));
}

/* Reads of chunks under way at the same time. */
struct reads {
	aio_context_t queue;
	struct iocb iocbs[DEPTH];
	struct io_event events[DEPTH];
	uint32_t nr_ended;
	uint8_t *bytes;
};

static int reads_begin(struct _test_data_tier_disk *self, struct reads *reads)
{
	struct iocb *each[DEPTH];
	uint32_t i;

	memset(reads, 0, sizeof(*reads));
	reads->bytes = make_buffer(DEPTH * CHUNK);
	if (!reads->bytes || syscall(SYS_io_setup, DEPTH, &reads->queue))
		return -ENOMEM;
	for (i = 0; i < DEPTH; i++) {
		each[i] = &reads->iocbs[i];
		reads->iocbs[i] = (struct iocb){
			.aio_data = i,
			.aio_lio_opcode = IOCB_CMD_PREAD,
			.aio_fildes = (uint32_t)self->store.fd,
			.aio_buf = (uintptr_t)(reads->bytes + (size_t)i * CHUNK * BLOCK),
			.aio_nbytes = CHUNK * BLOCK,
			.aio_offset = (int64_t)i * CHUNK * BLOCK,
		};
	}
	return syscall(SYS_io_submit, reads->queue, DEPTH, each) == DEPTH ? 0 : -errno;
}

/* How many have ended, when at least @nr have. */
static uint32_t reads_end(struct reads *reads, uint32_t nr)
{
	struct timespec none = { 0 };
	uint32_t wait = nr > reads->nr_ended ? nr - reads->nr_ended : 0;
	long ret;

	ret = syscall(SYS_io_getevents, reads->queue, (long)wait, (long)(DEPTH - reads->nr_ended),
		      reads->events + reads->nr_ended, wait ? NULL : &none);
	if (ret > 0)
		reads->nr_ended += (uint32_t)ret;
	return reads->nr_ended;
}

/* How many of the events have this result? */
static uint32_t reads_with(const struct reads *reads, int64_t result)
{
	uint32_t nr = 0, i;

	for (i = 0; i < reads->nr_ended; i++)
		nr += reads->events[i].res == result;
	return nr;
}

static void reads_free(struct reads *reads)
{
	syscall(SYS_io_destroy, reads->queue);
	free(reads->bytes);
}

/*
 * Who reads at depth waits for none of the reads; more blocks than there may be requests, and than
 * memory has room for, stand in line.
 */
TEST_F_TIMEOUT(tier_disk, at_depth, SECONDS)
{
	struct reads reads;
	uint64_t begin;

	ASSERT_EQ(0, fill(self));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/fetch_ms", 600000));
	atomic_store(&self->keeper.mood, KEEPER_ASLEEP);
	begin = now_ms();
	ASSERT_EQ(0, reads_begin(self, &reads));
	EXPECT_GT(test_limit(5000), now_ms() - begin);
	EXPECT_GT(DEPTH / 2, reads_end(&reads, 0));	/* whose blocks are all in memory */
	TH_LOG("%u reads submitted in %llu ms, %lld requests", DEPTH, (unsigned long long)(now_ms() - begin),
	       tier_attribute(&self->store, "requests"));
	EXPECT_EQ(4096, tier_attribute(&self->store, "requests"));
	atomic_store(&self->keeper.mood, KEEPER_GOOD);
	ASSERT_EQ(DEPTH, reads_end(&reads, DEPTH));
	EXPECT_EQ(DEPTH, reads_with(&reads, CHUNK * BLOCK));
	EXPECT_TRUE(right(self, reads.bytes, 0, DEPTH * CHUNK));
	reads_free(&reads);
	EXPECT_EQ(0, tier_attribute(&self->store, "requests"));
	EXPECT_EQ(0, tier_attribute(&self->store, "fetch_failures"));
}

static void queue_path(const struct store *store, char *path, size_t size)
{
	snprintf(path, size, "/sys/class/block/%s/queue/read_ahead_kb", store->name);
}

static int read_ahead_kb(const struct store *store)
{
	char path[80];
	FILE *file;
	int kb = -1;

	queue_path(store, path, sizeof(path));
	file = fopen(path, "re");
	if (!file || fscanf(file, "%d", &kb) != 1)
		kb = -1;
	if (file)
		fclose(file);
	return kb;
}

static bool set_read_ahead_kb(const struct store *store, int kb)
{
	char path[80];
	FILE *file;
	bool set;

	queue_path(store, path, sizeof(path));
	file = fopen(path, "we");
	if (!file)
		return false;
	set = fprintf(file, "%d\n", kb) > 0;
	return !fclose(file) && set;
}

/* Check a part of the disk in reads of PIECE blocks. Returns 0 or as check(). */
static int scan(struct _test_data_tier_disk *self, uint64_t from, uint64_t end)
{
	int ret = 0;

	for (; !ret && from < end; from += PIECE)
		ret = check(self, self->bytes, from, PIECE);
	return ret;
}

/*
 * What is read on and on is asked for ahead, once; what is not, or by the page cache, which reads ahead
 * itself, is not.
 */
TEST_F_TIMEOUT(tier_disk, reads_ahead, SECONDS)
{
	uint64_t part = test_scaled(self->blocks / 8) / PIECE * PIECE, i;
	long long before, ahead, fetches;
	int fd;

	ASSERT_EQ(0, fill(self));
	EXPECT_EQ(AHEAD / 1024, read_ahead_kb(&self->store));
	EXPECT_EQ(0, tier_attribute(&self->store, "fetches_ahead"));
	EXPECT_EQ(0, scan(self, 0, part));
	ahead = tier_attribute(&self->store, "fetches_ahead");
	fetches = tier_attribute(&self->store, "fetches");
	TH_LOG("%llu blocks read, %lld asked for ahead, %lld fetches", (unsigned long long)part, ahead, fetches);
	EXPECT_LT((long long)part / 3, ahead);	/* on a slow machine some come too late */
	EXPECT_GE((long long)part + AHEAD / BLOCK, ahead);
	EXPECT_GE((long long)part + AHEAD / BLOCK, fetches);

	/* Backwards, and with gaps. */
	before = ahead;
	for (i = 0; i < 300; i++)
		ASSERT_EQ(0, check(self, self->bytes, part + AHEAD / BLOCK + 3 * (300 - i), 2));
	EXPECT_EQ(before, tier_attribute(&self->store, "fetches_ahead"));
	EXPECT_LT(fetches, tier_attribute(&self->store, "fetches"));

	/* By the page cache. */
	fetches = tier_attribute(&self->store, "fetches");
	fd = open(self->store.path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	for (i = 2 * part; i < 3 * part; i += PIECE) {
		ASSERT_EQ(PIECE * BLOCK, pread(fd, self->bytes, PIECE * BLOCK, (off_t)(i * BLOCK)));
		ASSERT_TRUE(right(self, self->bytes, i, PIECE));
	}
	close(fd);
	EXPECT_EQ(before, tier_attribute(&self->store, "fetches_ahead"));
	EXPECT_LT(fetches, tier_attribute(&self->store, "fetches"));

	/* Not, if the operator wants none. */
	ASSERT_TRUE(set_read_ahead_kb(&self->store, 0));
	EXPECT_EQ(0, scan(self, 4 * part, 5 * part));
	EXPECT_EQ(before, tier_attribute(&self->store, "fetches_ahead"));
	ASSERT_TRUE(set_read_ahead_kb(&self->store, 128));
	EXPECT_EQ(0, scan(self, 5 * part, 6 * part));
	EXPECT_LT(before, tier_attribute(&self->store, "fetches_ahead"));
	EXPECT_EQ(0, tier_attribute(&self->store, "fetch_failures"));
}

/* Where the newest version of a block is on the backup; NULL: nowhere. */
struct place {
	struct keeper_frame *frame;
	uint64_t version;
	uint32_t at;
	bool object;
};

/* Note the entries of a frame that are newer than what is known. */
static void list_frame(struct keeper_frame *frame, struct place *places, uint64_t nr)
{
	uint32_t at = 0;

	while (frame->id && at < frame->length) {
		const struct lsmem_entry *e = (const void *)(frame->bytes + at);
		uint64_t index = lsmem_handle_index(lsmem_entry_handle(e));
		bool object = lsmem_entry_type(e) == LSMEM_TYPE_OBJECT;

		if ((object || lsmem_entry_type(e) == LSMEM_TYPE_TOMBSTONE) && index < nr &&
		    (!places[index].frame || lsmem_entry_version(e) > places[index].version))
			places[index] = (struct place){ frame, lsmem_entry_version(e), at, object };
		at = lsmem_entry_start(at + lsmem_entry_bytes(e));
	}
}

static struct place *list_frames(struct _test_data_tier_disk *self)
{
	struct place *places = calloc(self->blocks, sizeof(*places));
	uint32_t i;

	pthread_mutex_lock(&self->keeper.lock);
	for (i = 0; i < KEEPER_FRAMES; i++)
		list_frame(&self->keeper.frames[i], places, self->blocks);
	pthread_mutex_unlock(&self->keeper.lock);
	return places;
}

static void flip(struct _test_data_tier_disk *self, const struct place *place)
{
	pthread_mutex_lock(&self->keeper.lock);
	place->frame->bytes[place->at + 100] ^= 1;
	pthread_mutex_unlock(&self->keeper.lock);
}

/* A block that is damaged on the backup: an error for it alone, until it is written. */
TEST_F_TIMEOUT(tier_disk, damaged_backup, SECONDS)
{
	struct place *places;
	uint64_t i;

	ASSERT_EQ(0, fill(self));
	ASSERT_EQ(0, fsync(self->store.fd));
	places = list_frames(self);
	/* The first that is not in memory. */
	for (i = CHUNK; i < self->blocks - CHUNK; i++) {
		flip(self, &places[i]);
		if (check(self, self->bytes, i, 1))
			break;
		flip(self, &places[i]);
	}
	ASSERT_GT(self->blocks - CHUNK, i);
	EXPECT_EQ(-EIO, check(self, self->bytes, i, 1));
	EXPECT_EQ(-EIO, check(self, self->bytes, i - 3, 8));
	EXPECT_EQ(0, check(self, self->bytes, i - 3, 3));
	EXPECT_EQ(0, check(self, self->bytes, i + 1, 8));
	EXPECT_LE(3, tier_attribute(&self->store, "fetch_failures"));
	/* Neither needs it. */
	EXPECT_EQ(0, put(self, self->bytes, i, 1));
	EXPECT_EQ(0, check(self, self->bytes, i - 3, 8));
	EXPECT_EQ(self->blocks, check_all(self));
	free(places);
}

/* A daemon that does not answer: the waits are bounded; its successor is told again. */
TEST_F_TIMEOUT(tier_disk, silent_daemon, SECONDS)
{
	struct reads reads;
	uint64_t begin, i = 0;
	int err;

	ASSERT_EQ(0, fill(self));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/fetch_ms", 300));
	atomic_store(&self->keeper.mood, KEEPER_SILENT);
	/* The first of what was written may have been brought back to memory. */
	do {
		begin = now_ms();
		err = check(self, self->bytes, i, CHUNK);
		i += CHUNK;
	} while (!err && i < self->blocks);
	EXPECT_EQ(-ETIMEDOUT, err);
	EXPECT_LE(300, now_ms() - begin);
	EXPECT_GT(test_limit(2000), now_ms() - begin);
	EXPECT_LT(0, tier_attribute(&self->store, "requests"));
	/* Those in line, too; and they change nothing for who writes. */
	begin = now_ms();
	ASSERT_EQ(0, reads_begin(self, &reads));
	EXPECT_EQ(0, put(self, self->bytes, 0, 1));
	ASSERT_EQ(DEPTH, reads_end(&reads, DEPTH));
	EXPECT_GT(test_limit(4000), now_ms() - begin);
	EXPECT_LT(DEPTH / 2, reads_with(&reads, -ETIMEDOUT));
	EXPECT_EQ(DEPTH, reads_with(&reads, -ETIMEDOUT) + reads_with(&reads, CHUNK * BLOCK));
	reads_free(&reads);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/fetch_ms", 10000));

	/* The same store, another attachment. */
	ASSERT_EQ(0, keeper_succeed(&self->keeper, &self->follower, &self->store));
	EXPECT_EQ(self->blocks, check_all(self));
}

/* Place the blocks that a frame has the newest version of, and load the tombstones. */
static int place_frame(const struct _test_data_tier_disk *self, struct keeper_frame *frame,
		       const struct place *places)
{
	struct lsmem_directory_entry *listings = calloc(self->blocks, sizeof(*listings));
	uint8_t *tombstones = malloc(LSMEM_SEGMENT_BYTES);
	struct lsmem_placement place = {
		.size = sizeof(place),
		.segment = frame->id,
		.generation = 1,
		.sealed = frame->length,
		.entries = (uintptr_t)listings,
	};
	struct lsmem_load load = {
		.size = sizeof(load),
		.segment = frame->id,
		.generation = 1,
		.sealed = frame->length,
		.data = (uintptr_t)tombstones,
	};
	int fd = self->follower.attach.fd, ret = 0;
	uint64_t i;

	for (i = 0; i < self->blocks; i++) {
		const struct lsmem_entry *e = (const void *)(frame->bytes + places[i].at);

		if (places[i].frame != frame)
			continue;
		if (places[i].object) {
			listings[place.nr++] = lsmem_entry_listing(e, places[i].at);
		} else {
			memcpy(tombstones + load.length, e, lsmem_entry_bytes(e));
			load.length += lsmem_entry_bytes(e);
		}
	}
	if (place.nr && ioctl(fd, LSMEM_REPL_PLACE, &place))
		ret = -errno;
	if (!ret && load.length && ioctl(fd, LSMEM_REPL_LOAD, &load))
		ret = -errno;
	free(listings);
	free(tombstones);
	return ret;
}

static int by_id(const void *a, const void *b)
{
	const struct keeper_frame *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* Overwrite some, in pieces; discard others. */
static int change(struct _test_data_tier_disk *self)
{
	int ret = 0;
	uint32_t i;

	for (i = 0; !ret && i < 1000; i++) {
		uint64_t block = random_below(&self->random, (uint32_t)self->blocks - GROUP);
		uint32_t nr = 1 + random_below(&self->random, GROUP);

		ret = i % 3 ? put(self, self->bytes, block, nr) : discard(self, block, nr);
	}
	return ret;
}

/* All memory is lost: what the backup lists is there at once, and is read when it is wanted. */
TEST_F_TIMEOUT(tier_disk, everything_is_placed, SECONDS)
{
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint64_t last = 0, begin;
	struct place *places;
	uint32_t i;

	memcpy(uuid, self->follower.attach.uuid, sizeof(uuid));
	ASSERT_EQ(0, fill(self));
	ASSERT_EQ(0, change(self));
	ASSERT_EQ(0, fsync(self->store.fd));
	close(self->store.fd);
	keeper_stop(&self->keeper);
	follower_stop(&self->follower);
	follower_free(&self->follower);
	ASSERT_EQ(0, store_destroy_disk(&self->store));

	qsort(self->keeper.frames, KEEPER_FRAMES, sizeof(*self->keeper.frames), by_id);
	places = list_frames(self);
	ASSERT_EQ(0, store_create_disk(&self->store, STORE_BYTES, CAPACITY, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_attach_as(&self->follower, self->store.name, uuid));
	self->follower.keeper = &self->keeper;
	for (i = 0; i < KEEPER_FRAMES; i++) {
		if (!self->keeper.frames[i].id)
			continue;
		last = self->keeper.frames[i].id;
		ASSERT_EQ(0, place_frame(self, &self->keeper.frames[i], places));
	}
	free(places);
	/* Nobody answers yet: the call must not wait for the disk to be read. */
	begin = now_ms();
	ASSERT_EQ(0, follower_activate(&self->follower, &(struct lsmem_activate){
		.size = sizeof(struct lsmem_activate),
		.era = 2,
		.generation_ceiling = 1,
		.store_time = 1ull << 40,
		.next_segment = last + 1,
	}));
	EXPECT_GT(test_limit(5000), now_ms() - begin);
	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
	ASSERT_EQ(0, open_disk(self));
	EXPECT_EQ(self->blocks, check_all(self));
	ASSERT_EQ(0, change(self));
	EXPECT_EQ(self->blocks, check_all(self));
	EXPECT_EQ(0, tier_attribute(&self->store, "fetch_failures"));
	tier_print(&self->store);
}

TEST_HARNESS_MAIN
