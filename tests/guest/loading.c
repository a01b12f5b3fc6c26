// SPDX-License-Identifier: GPL-2.0
/* Recovery through LSMEM_REPL_LOAD: what it restores, and what it refuses. */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "store.h"

#define HANDLES		32768u
#define OBJECTS		24000u
#define LENGTH_MAX	255u	/* small, so that headers often do not fit at the end of a seglet */
#define LARGE		(200u << 10)	/* in four seglets or more */
#define FIRST		5ull		/* segment ids */
#define SECOND		9ull
#define GENERATION	1u
#define SECONDS		60
#define PAGE		4096u

FIXTURE(loading) {
	struct store store;
	struct follower follower;
	uint8_t *blob;
	uint32_t length;
	uint64_t live;			/* bytes of tombstones; then of objects, too */
	uint64_t random;
	struct {
		uint64_t version;	/* 0: no entry */
		uint32_t length;
		bool deleted;
	} expected[HANDLES];
};

static uint64_t handle_of(uint64_t index)
{
	return lsmem_handle_make(index, GENERATION);
}

static uint32_t salt_of(const struct _test_data_loading *self, uint64_t segment)
{
	return lsmem_segment_salt(self->follower.attach.uuid, segment, GENERATION);
}

/* Write a header, and its CRC, before the payload that is there. */
static void put_header(const struct _test_data_loading *self, uint64_t segment, uint8_t *to,
		       struct lsmem_entry e)
{
	uint32_t header = lsmem_entry_header(&e);
	uint32_t pcrc = crc32c(~0u, to + header, lsmem_entry_length(&e));

	e.crc = __cpu_to_le32(lsmem_entry_crc(&e, pcrc, salt_of(self, segment)));
	memcpy(to, &e, header);
}

/* Append an entry to the blob; @length: 0 for a tombstone. */
static void add(struct _test_data_loading *self, uint64_t segment, uint64_t index, uint32_t length,
		uint32_t type, uint64_t version)
{
	uint32_t size = lsmem_entry_size(length);
	uint8_t *to = self->blob + self->length;

	memset(to, 0, size);
	content_fill(to + lsmem_header_bytes(length), length, index, version);
	put_header(self, segment, to,
		   lsmem_entry_make(type, type == LSMEM_TYPE_TOMBSTONE ? segment : length,
				    handle_of(index), version, (uint32_t)index % 32, 0,
				    self->length));
	self->length += size;
	if (type == LSMEM_TYPE_TOMBSTONE) {
		self->live += size;
		self->expected[index].deleted = true;
	}
	if (version < self->expected[index].version)
		return;
	self->expected[index].version = version;
	self->expected[index].length = length;
}

static bool wanted(const struct _test_data_loading *self, uint64_t index)
{
	return self->expected[index].version && !self->expected[index].deleted;
}

static uint32_t some_length(struct _test_data_loading *self)
{
	uint64_t random = random_next(&self->random);

	return random % 5000 ? 16 + (uint32_t)(random % (LENGTH_MAX - 15)) : LARGE;
}

static int load(const struct _test_data_loading *self, uint64_t segment, const void *data,
		uint32_t length)
{
	struct lsmem_load load = {
		.size = sizeof(load),
		.segment = segment,
		.generation = GENERATION,
		.sealed = LSMEM_SEGMENT_BYTES,
		.data = (uintptr_t)data,
		.length = length,
	};

	return ioctl(self->follower.attach.fd, LSMEM_REPL_LOAD, &load) ? -errno : 0;
}

static int attach(struct _test_data_loading *self)
{
	self->length = 0;
	self->live = 0;
	memset(self->expected, 0, sizeof(self->expected));
	return follower_attach(&self->follower, self->store.name);
}

FIXTURE_SETUP(loading)
{
	self->random = test_seed;
	self->blob = malloc(2 * LSMEM_SEGMENT_BYTES);
	ASSERT_NE(NULL, self->blob);
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, HANDLES, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, attach(self));
}

/* Detach the daemon, and destroy the store. */
static int lose(struct _test_data_loading *self)
{
	struct lsmem_destroy destroy = { .size = sizeof(destroy), .flags = LSMEM_DESTROY_FORCE };
	unsigned int tries;
	int ret;

	lsm_close(self->store.lsm);
	if (self->follower.thread) {
		follower_stop(&self->follower);
		follower_free(&self->follower);
	} else {
		close(self->follower.attach.fd);
	}
	close(self->store.fd);
	memcpy(destroy.name, self->store.name, sizeof(destroy.name));
	/* udev may have the disk open for a moment. */
	for (tries = 0; (ret = control_call(LSMEM_CTL_DESTROY, &destroy)) == -EBUSY && tries < 1000;
	     tries++)
		usleep(10000);
	return ret;
}

FIXTURE_TEARDOWN(loading)
{
	EXPECT_EQ(0, lose(self));
	free(self->blob);
}

/* Load the blob in pieces of random length, each of whole entries. */
static int load_in_pieces(struct _test_data_loading *self, uint64_t segment)
{
	uint32_t from = 0, to = 0;

	while (to < self->length) {
		const struct lsmem_entry *e = (const void *)(self->blob + to);
		int ret;

		to += lsmem_entry_bytes(e);
		if (to < self->length && random_next(&self->random) % 100)
			continue;
		ret = load(self, segment, self->blob + from, to - from);
		if (ret)
			return ret;
		from = to;
	}
	return 0;
}

static struct lsmem_activate activation(uint64_t next_segment)
{
	return (struct lsmem_activate) {
		.size = sizeof(struct lsmem_activate),
		.era = 1,
		.generation_floor = GENERATION,
		.generation_ceiling = 1000,
		.next_segment = next_segment,
	};
}

/* Exactly the newest version of each object is restored: its bytes, length, version and handle. */
TEST_F_TIMEOUT(loading, everything_comes_back, SECONDS)
{
	struct lsmem_activate activate = activation(SECOND + 1);
	uint8_t *data = malloc(LARGE);
	uint64_t i, handle, objects = 0;

	ASSERT_NE(NULL, data);
	for (i = 0; i < OBJECTS && self->length < LSMEM_SEGMENT_BYTES - 2 * LARGE; i++)
		add(self, FIRST, i, some_length(self), LSMEM_TYPE_OBJECT, 1000 + i);
	TH_LOG("%llu objects, %u bytes", (unsigned long long)i, self->length);
	ASSERT_EQ(-EAGAIN, lsm_open(self->store.path, LSM_NO_WINDOWS, &self->store.lsm));
	ASSERT_EQ(0, load_in_pieces(self, FIRST));
	ASSERT_EQ(-EAGAIN, lsm_open(self->store.path, 0, &self->store.lsm));
	ASSERT_EQ(0, lsm_open(self->store.path, LSM_NO_WINDOWS, &self->store.lsm));
	/* During recovery, loaded objects can be read; other calls return EAGAIN. */
	for (i = 0; i < HANDLES; i += 7) {
		uint64_t serial = 0;
		ssize_t ret = lsm_read(self->store.lsm, handle_of(i), data, LARGE, 0, NULL);

		ASSERT_EQ(self->expected[i].version ? (ssize_t)self->expected[i].length : -EAGAIN,
			  ret) TH_LOG("object %llu, early", (unsigned long long)i);
		ASSERT_TRUE(ret < 0 || content_right(data, (uint32_t)ret, i, &serial));
	}
	EXPECT_EQ(-EAGAIN, lsm_free(self->store.lsm, handle_of(0), 0, NULL));
	EXPECT_EQ(-EAGAIN, lsm_alloc(self->store.lsm, data, 16, 0, &handle, NULL));
	lsm_close(self->store.lsm);
	self->store.lsm = NULL;
	/* Newer versions, older versions, tombstones, and one new object. */
	self->length = 0;
	for (i = 0; i < OBJECTS / 4; i++)
		add(self, SECOND, i * 2, some_length(self), LSMEM_TYPE_OBJECT,
		    i % 5 ? 10000 + i : 1);
	for (i = 1; i < OBJECTS / 4; i += 4)
		add(self, SECOND, i, 0, LSMEM_TYPE_TOMBSTONE, 20000 + i);
	add(self, SECOND, HANDLES - 1, 16, LSMEM_TYPE_OBJECT, 30000);
	ASSERT_EQ(0, load_in_pieces(self, SECOND));
	EXPECT_EQ(-EINVAL, load(self, FIRST, self->blob, self->length)) TH_LOG("an older segment");
	ASSERT_EQ(0, follower_activate(&self->follower, &activate));

	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
	for (i = 0; i < HANDLES; i++) {
		struct lsm_object object = { 0 };
		uint64_t serial = 0;
		ssize_t ret = lsm_read(self->store.lsm, handle_of(i), data, LARGE, 0, &object);

		if (!wanted(self, i)) {
			ASSERT_EQ(-ESTALE, ret) TH_LOG("object %llu", (unsigned long long)i);
			continue;
		}
		ASSERT_EQ(self->expected[i].length, ret) TH_LOG("object %llu", (unsigned long long)i);
		ASSERT_EQ(self->expected[i].version, object.version);
		ASSERT_TRUE(content_right(data, self->expected[i].length, i, &serial));
		ASSERT_EQ(object.version, serial);
		self->live += lsmem_entry_size(self->expected[i].length);
		objects++;
	}
	EXPECT_EQ(objects, store_attribute(&self->store, "handles_used"));
	EXPECT_EQ(self->live, store_attribute(&self->store, "live_bytes"));
	/* An allocation gets no handle index that is in use. */
	for (i = objects; i < HANDLES; i++) {
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, data, 16, 0, &handle, NULL));
		ASSERT_FALSE(wanted(self, lsmem_handle_index(handle)));
	}
	EXPECT_EQ(-EMFILE, lsm_alloc(self->store.lsm, data, 16, 0, &handle, NULL));
	free(data);
}

/* Recover the store from one segment of @nr objects, and open it. */
static int recover(struct _test_data_loading *self, uint64_t nr)
{
	struct lsmem_activate activate = activation(FIRST + 1);
	uint64_t i;
	int ret;

	for (i = 0; i < nr; i++)
		add(self, FIRST, i * 3, 16 + (uint32_t)i % 100, LSMEM_TYPE_OBJECT, 1000 + i);
	ret = load(self, FIRST, self->blob, self->length);
	ret = ret ?: follower_activate(&self->follower, &activate);
	return ret ?: lsm_open(self->store.path, 0, &self->store.lsm);
}

/* Lists from @cursor on up to @nr objects, and counts each of them; @cursor: where to go on.  Return: objects. */
static uint64_t list(const struct _test_data_loading *self, uint64_t *cursor, uint64_t nr, uint8_t *times)
{
	struct lsm_listed listed[64];
	uint64_t all = 0;
	ssize_t ret, i;

	while (all < nr && (ret = lsm_next(self->store.lsm, -1, cursor, listed, nr - all < 64 ? nr - all : 64)) > 0)
		for (i = 0; i < ret; i++, all++)
			times[lsmem_handle_index(listed[i].handle)]++;
	return all;
}

/* A cursor of lsm_next() goes on after a crash: in a store that was recovered each object that was there is listed once. */
TEST_F_TIMEOUT(loading, cursor_after_a_crash, SECONDS)
{
	enum { NR = 5000, BEFORE = 2000 };
	uint8_t *times = calloc(1, HANDLES);
	uint64_t cursor = 0, i;

	ASSERT_NE(NULL, times);
	ASSERT_EQ(0, recover(self, NR));
	ASSERT_EQ(BEFORE, list(self, &cursor, BEFORE, times));
	/* The memory is lost, and another store gets what was on the backups. */
	ASSERT_EQ(0, lose(self));
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, HANDLES, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, attach(self));
	ASSERT_EQ(0, recover(self, NR));
	ASSERT_EQ(NR - BEFORE, list(self, &cursor, HANDLES, times));
	for (i = 0; i < HANDLES; i++)
		ASSERT_EQ(wanted(self, i) ? 1 : 0, times[i]) TH_LOG("index %llu", (unsigned long long)i);
	free(times);
}

/*
 * A recovery may use what writers leave to the cleaners: the log had been in this memory. Then there is room for
 * writers again, from what is dead.
 */
TEST_F_TIMEOUT(loading, to_the_brim, SECONDS)
{
	const uint32_t segments = STORE_BYTES / LSMEM_SEGMENT_BYTES, distinct = segments - 2;
	const uint32_t each = LSMEM_SEGMENT_BYTES / lsmem_entry_size(LARGE);
	struct lsmem_activate activate = activation(FIRST + segments);
	uint8_t *data = malloc(LARGE);
	uint32_t s, i;

	ASSERT_NE(NULL, data);
	for (s = 0; s < segments; s++) {
		self->length = 0;
		for (i = 0; i < each; i++)
			add(self, FIRST + s, s % distinct * each + i, LARGE, LSMEM_TYPE_OBJECT, 1000 + s);
		ASSERT_EQ(0, load(self, FIRST + s, self->blob, self->length)) TH_LOG("segment %u of %u", s, segments);
	}
	EXPECT_LT(store_attribute(&self->store, "free_seglets"), store_attribute(&self->store, "reserved_seglets"));
	ASSERT_EQ(0, follower_activate(&self->follower, &activate));
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
	memset(data, 0, LARGE);
	for (i = 0; i < each; i++)
		ASSERT_EQ(0, lsm_replace(self->store.lsm, handle_of(i), data, LARGE, 0, NULL)) TH_LOG("object %u", i);
	free(data);
}

/* Give a call to a ring. Return: its result. */
static int command(struct io_uring *ring, int fd, unsigned long request, void *structure)
{
	const struct lsmem_command area = { .structure = (uintptr_t)structure };
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe;
	int ret;

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = (uint32_t)request;
	memcpy(sqe->cmd, &area, sizeof(area));
	ret = io_uring_submit(ring);
	if (ret == 1)
		ret = io_uring_wait_cqe(ring, &cqe);
	if (ret < 0)
		return ret;
	ret = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return ret;
}

/* As a command of io_uring the call loads the same, and has the same errors. */
TEST_F_TIMEOUT(loading, by_io_uring, SECONDS)
{
	struct lsmem_activate activate = activation(SECOND + 1);
	struct lsmem_load load = {
		.size = sizeof(load), .segment = FIRST, .generation = GENERATION,
		.sealed = LSMEM_SEGMENT_BYTES, .data = (uintptr_t)self->blob,
	};
	int fd = self->follower.attach.fd;
	uint8_t data[200];
	struct io_uring ring;
	uint64_t i, serial;

	ASSERT_EQ(0, io_uring_queue_init(4, &ring, 0));
	EXPECT_EQ(-ENOTTY, command(&ring, fd, LSMEM_REPL_ACTIVATE, &activate));
	for (i = 0; i < OBJECTS / 2; i++)
		add(self, FIRST, i, 200, LSMEM_TYPE_OBJECT, 1000 + i);
	load.length = self->length;
	ASSERT_EQ(0, command(&ring, fd, LSMEM_REPL_LOAD, &load));
	load.reserved = 1;
	EXPECT_EQ(-EINVAL, command(&ring, fd, LSMEM_REPL_LOAD, &load));
	load.reserved = 0;
	ASSERT_EQ(0, follower_activate(&self->follower, &activate));
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
	EXPECT_EQ(OBJECTS / 2, store_attribute(&self->store, "handles_used"));
	for (i = 0; i < OBJECTS / 2; i++) {
		ASSERT_EQ(200, lsm_read(self->store.lsm, handle_of(i), data, sizeof(data), 0, NULL));
		ASSERT_TRUE(content_right(data, 200, i, &serial));
	}
	/* Active: nothing is loaded any more. */
	EXPECT_EQ(-EINVAL, command(&ring, fd, LSMEM_REPL_LOAD, &load));
	io_uring_queue_exit(&ring);
}

/* A damaged payload is found, also by a command. */
TEST_F_TIMEOUT(loading, damage_by_io_uring, SECONDS)
{
	struct lsmem_load load = {
		.size = sizeof(load), .segment = FIRST, .generation = GENERATION,
		.sealed = LSMEM_SEGMENT_BYTES, .data = (uintptr_t)self->blob,
	};
	struct io_uring ring;

	ASSERT_EQ(0, io_uring_queue_init(4, &ring, 0));
	add(self, FIRST, 1, 200, LSMEM_TYPE_OBJECT, 1000);
	load.length = self->length;
	self->blob[self->length - 100] ^= 1;
	EXPECT_EQ(-EBADMSG, command(&ring, self->follower.attach.fd, LSMEM_REPL_LOAD, &load));
	io_uring_queue_exit(&ring);
}

/* Compaction finds the garbage of segments that were loaded. */
TEST_F_TIMEOUT(loading, garbage_is_found, SECONDS)
{
	struct lsmem_activate activate = activation(FIRST + 1);
	long long free_seglets;
	uint64_t i, loaded;
	unsigned int waited;

	for (i = 0; self->length < LSMEM_SEGMENT_BYTES - LARGE; i++)
		add(self, FIRST, i, 1000, LSMEM_TYPE_OBJECT, 1000 + i);
	loaded = i;
	ASSERT_EQ(0, load_in_pieces(self, FIRST));
	ASSERT_EQ(0, follower_activate(&self->follower, &activate));
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
	for (i = 0; i < loaded; i++)
		if (i % 4)
			ASSERT_EQ(0, lsm_free(self->store.lsm, handle_of(i), 0, NULL));
	free_seglets = store_attribute(&self->store, "free_seglets");
	ASSERT_EQ(0, store_set_attribute(&self->store, "cleaner/request_compact", 1));
	for (waited = 0; !store_attribute(&self->store, "cleaner/compactions"); waited++) {
		ASSERT_GT(1000, waited) TH_LOG("nothing is compacted");
		usleep(10000);
	}
	for (waited = 0; store_attribute(&self->store, "free_seglets") < free_seglets + 64; waited++) {
		ASSERT_GT(1000, waited) TH_LOG("and gives no seglets");
		usleep(10000);
	}
}

/* What no segment can have on backups: the store is not activated. */
static void refuse_bytes(struct _test_data_loading *self, struct __test_metadata *_metadata)
{
	static const uint32_t wrong[] = {
		1, LSMEM_BLOCK, LSMEM_SEGMENT_LEAST - LSMEM_BLOCK, LSMEM_SEGMENT_LEAST + LSMEM_ALIGN,
		LSMEM_SEGMENT_BYTES - 1, LSMEM_SEGMENT_BYTES + LSMEM_BLOCK, UINT32_MAX,
	};
	struct lsmem_activate activate = activation(FIRST + 1);
	uint32_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		activate.segment_bytes = wrong[i];
		EXPECT_EQ(-1, ioctl(self->follower.attach.fd, LSMEM_REPL_ACTIVATE, &activate));
		EXPECT_EQ(EINVAL, errno) TH_LOG("%u bytes", wrong[i]);
	}
}

/* Return: the most that one of the closed segments needs on backups, or @most. */
static uint32_t most_bytes(struct _test_data_loading *self, uint32_t most)
{
	const struct lsmem_window *window = &self->follower.info->segments;
	const struct lsmem_cleaning *cleaning = mmap(NULL, window->length, PROT_READ, MAP_SHARED,
						     self->follower.attach.fd, (off_t)window->offset);
	uint32_t bytes, i;

	for (i = 0; cleaning != MAP_FAILED && i < cleaning->nr_segments; i++) {
		const struct lsmem_segment_stat *stat =
			(const void *)((const char *)cleaning + cleaning->segments + i * sizeof(*stat));

		if (stat->id <= FIRST || !(stat->flags & LSMEM_SEGMENT_CLEANABLE))
			continue;
		bytes = 2 * LSMEM_BLOCK + lsmem_block_round(stat->home) + lsmem_directory_bytes(stat->entries);
		most = bytes > most ? bytes : most;
	}
	if (cleaning != MAP_FAILED)
		munmap((void *)cleaning, window->length);
	return most;
}

/*
 * The daemon says how much a segment has on backups (LSMEM_REPL_ACTIVATE): heads and survivors of cleaning keep to it, with
 * objects of any length, also the longest; what was loaded may be longer.
 */
TEST_F_TIMEOUT(loading, short_segments, SECONDS)
{
	struct lsmem_activate activate = activation(FIRST + 1);
	uint8_t *data = calloc(1, LSMEM_OBJECT_MAX);
	uint32_t most = 0, i, loaded;
	unsigned int waited;

	ASSERT_NE(NULL, data);
	for (i = 0; self->length < LSMEM_SEGMENT_BYTES - LARGE - 300000; i++)
		add(self, FIRST, i, 1000, LSMEM_TYPE_OBJECT, 1000 + i);
	loaded = i;
	ASSERT_EQ(0, load_in_pieces(self, FIRST));
	EXPECT_EQ(LSMEM_SEGMENT_BYTES, store_attribute(&self->store, "segment_bytes"));
	refuse_bytes(self, _metadata);
	EXPECT_EQ(LSMEM_SEGMENT_BYTES, store_attribute(&self->store, "segment_bytes"));
	activate.segment_bytes = LSMEM_SEGMENT_LEAST;
	ASSERT_EQ(0, follower_activate(&self->follower, &activate));
	EXPECT_EQ(LSMEM_SEGMENT_LEAST, store_attribute(&self->store, "segment_bytes"));
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
	for (i = 0; i < 12; i++)
		ASSERT_EQ(0, lsm_replace(self->store.lsm, handle_of(0), data, LSMEM_OBJECT_MAX, 0, NULL));
	for (i = 0; i < loaded * 8; i++) {
		ASSERT_EQ(0, lsm_replace(self->store.lsm, handle_of(random_next(&self->random) % loaded), data,
					 500 + (uint32_t)(random_next(&self->random) % 1000), 0, NULL));
		if (!(i % 500))
			most = most_bytes(self, most);
	}
	ASSERT_EQ(0, store_set_attribute(&self->store, "cleaner/request_clean", 1));
	for (waited = 0; !store_attribute(&self->store, "cleaner/passes"); waited++) {
		ASSERT_GT(1000, waited) TH_LOG("nothing is cleaned");
		usleep(10000);
	}
	most = most_bytes(self, most);
	TH_LOG("the longest segment has %u bytes", most);
	EXPECT_GE(LSMEM_SEGMENT_LEAST, most);
	EXPECT_LT(LSMEM_SEGMENT_LEAST - 4 * LSMEM_BLOCK, most);
	EXPECT_STREQ("", self->follower.wrong);
	free(data);
}

struct reader {
	pthread_t thread;
	struct lsm *lsm;
	atomic_bool stop;
	uint64_t reads, early, wrong;
};

static void *read_all(void *context)
{
	struct reader *reader = context;
	uint8_t *data = malloc(LARGE);
	uint64_t i, serial = 0;
	ssize_t ret;

	for (i = 0; data && !reader->stop; i = (i + 1) % 500) {
		ret = lsm_read(reader->lsm, handle_of(i), data, LARGE, 0, NULL);
		reader->reads += ret >= 0;
		reader->early += ret == -EAGAIN;
		reader->wrong += ret >= 0 ? !content_right(data, (uint32_t)ret, i, &serial) :
				 ret != -EAGAIN;
	}
	free(data);
	return NULL;
}

/* A reader reads while recoveries begin and are abandoned. */
TEST_F_TIMEOUT(loading, forgotten_while_read, SECONDS)
{
	struct reader reader = { 0 };
	uint32_t round, rounds = 20;
	uint64_t i;

	for (round = 0; round < rounds || (reader.reads < 1000 && round < 10000); round++) {
		if (round)
			ASSERT_EQ(0, attach(self));
		for (i = 0; i < 500; i++)
			add(self, FIRST, i, i % 100 ? 200 : LARGE / 8, LSMEM_TYPE_OBJECT, 1000 + i);
		ASSERT_EQ(0, load_in_pieces(self, FIRST));
		if (!round) {
			ASSERT_EQ(0, lsm_open(self->store.path, LSM_NO_WINDOWS, &reader.lsm));
			ASSERT_EQ(0, pthread_create(&reader.thread, NULL, read_all, &reader));
		}
		close(self->follower.attach.fd);
	}
	ASSERT_EQ(0, attach(self));
	reader.stop = true;
	pthread_join(reader.thread, NULL);
	lsm_close(reader.lsm);
	EXPECT_EQ(0, reader.wrong);
	EXPECT_GT(reader.reads, 0);
	EXPECT_GT(reader.early, 0);
}

/* A payload with a wrong CRC ends the recovery; the next attachment can load everything again. */
TEST_F(loading, bad_checksum)
{
	uint64_t i;

	if (!store_fault(&self->store, "bad_crc", 1))
		SKIP(return, "this kernel has no fault injection");
	for (i = 0; i < 500; i++)
		add(self, FIRST, i, 200, LSMEM_TYPE_OBJECT, 1000 + i);
	EXPECT_EQ(-EBADMSG, load(self, FIRST, self->blob, self->length));
	close(self->follower.attach.fd);
	ASSERT_EQ(0, attach(self));
	for (i = 0; i < 500; i++)
		add(self, FIRST, i, 200, LSMEM_TYPE_OBJECT, 1000 + i);
	EXPECT_EQ(0, load(self, FIRST, self->blob, self->length));
	EXPECT_EQ(500, store_attribute(&self->store, "handles_used"));
}

static void *map(const struct _test_data_loading *self, int prot, uint64_t offset, uint64_t length)
{
	return mmap(NULL, length, prot, MAP_SHARED, self->store.fd, (off_t)offset);
}

/*
 * A view, by the protocol of the windows, of an object of an abandoned recovery.  Before its
 * seglets are used again, the view must be revoked.
 */
TEST_F_TIMEOUT(loading, forgotten_while_viewed, SECONDS)
{
	const uint64_t offsets = (1ull << LSMEM_POSITION_OFFSET_BITS) - 1;
	const struct lsmem_handle *handles;
	const struct lsmem_info *info;
	uint64_t i, word, epoch, ended, serial = 0;
	struct lsmem_slot *slots;
	const uint8_t *seglets, *payload;

	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/view_ms", 300));
	for (i = 0; i < 500; i++)
		add(self, FIRST, i, 1000, LSMEM_TYPE_OBJECT, 1000 + i);
	ASSERT_EQ(0, load_in_pieces(self, FIRST));
	info = map(self, PROT_READ, LSMEM_WINDOW_INFO, PAGE);
	ASSERT_NE(MAP_FAILED, info);
	handles = map(self, PROT_READ, info->handles.offset, info->handles.length);
	seglets = map(self, PROT_READ, info->seglets.offset, info->seglets.length);
	slots = map(self, PROT_READ | PROT_WRITE, info->slots.offset, info->slots.length);
	ASSERT_TRUE(handles != MAP_FAILED && seglets != MAP_FAILED && slots != MAP_FAILED);

	epoch = __atomic_load_n(&info->epoch, __ATOMIC_ACQUIRE);
	__atomic_store_n(&slots->epoch, epoch, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	word = __atomic_load_n(&handles[0].word, __ATOMIC_ACQUIRE);
	ASSERT_EQ(LSMEM_WORD_LIVE, word >> LSMEM_WORD_STATE_SHIFT & ((1u << LSMEM_WORD_STATE_BITS) - 1));
	word &= (1ull << LSMEM_POSITION_BITS) - 1;
	payload = seglets + (word >> LSMEM_POSITION_OFFSET_BITS) * LSMEM_SEGLET_BYTES +
		  (word & offsets) * LSMEM_ALIGN + lsmem_header_bytes(1000);
	ASSERT_TRUE(content_right(payload, 1000, 0, &serial));

	/* The next recovery loads other objects to the same memory. */
	close(self->follower.attach.fd);
	ASSERT_EQ(0, attach(self));
	for (i = 0; i < 500; i++)
		add(self, FIRST, 1000 + i, 1000, LSMEM_TYPE_OBJECT, 1000 + i);
	ASSERT_EQ(0, load_in_pieces(self, FIRST));
	EXPECT_FALSE(content_right(payload, 1000, 0, &serial)) TH_LOG("it was used again");
	ended = __atomic_exchange_n(&slots->epoch, LSMEM_SLOT_IDLE, __ATOMIC_ACQ_REL);
	EXPECT_EQ(LSMEM_SLOT_REVOKED, ended);
	munmap((void *)handles, info->handles.length);
	munmap((void *)seglets, info->seglets.length);
	munmap(slots, info->slots.length);
	munmap((void *)info, PAGE);
}

#define BLOCK		4096u
#define BLOCK_SEGMENTS	28u	/* of 30: so many that the cleaner must begin at once */

static int load_blocks(struct _test_data_loading *self)
{
	uint64_t i;
	int ret = 0;

	for (i = 0; i < BLOCK_SEGMENTS && !ret; i++) {
		self->length = 0;
		add(self, FIRST + i, i, BLOCK, LSMEM_TYPE_OBJECT, 1000 + i);
		ret = load(self, FIRST + i, self->blob, self->length);
	}
	return ret;
}

/* Read a number from a file with a scanf() format; -1 on error. */
static long number_in(const char *path, const char *format)
{
	FILE *file = fopen(path, "re");
	long number = -1;

	if (file && fscanf(file, format, &number) != 1)
		number = -1;
	if (file)
		fclose(file);
	return number;
}

static int threads_max(long number)
{
	FILE *file = fopen("/proc/sys/kernel/threads-max", "we");
	int ret;

	if (!file)
		return -errno;
	ret = fprintf(file, "%ld", number) < 0 ? -EIO : 0;
	return fclose(file) ? -errno : ret;
}

/* Is no level chosen to make room? The first thread that runs chooses one, if segments are few. */
static bool level_is_none(const struct store *store)
{
	char path[128], level[16] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/lsmem/%s/cleaner/level", store->name);
	file = fopen(path, "re");
	if (file && fscanf(file, "%15s", level) != 1)
		*level = '\0';
	if (file)
		fclose(file);
	return !strcmp(level, "none");
}

/*
 * An activation fails because a thread cannot be created: a compactor, the cleaner, or one for the
 * disk.  None of the threads that were created has run then, and nothing has been moved; a later
 * recovery and activation succeed, and the store is cleaned and accepts writes.
 */
TEST_F_TIMEOUT(loading, activation_that_fails, SECONDS)
{
	struct lsmem_create create = {
		.size = sizeof(create),
		.flags = LSMEM_STORE_DURABLE,
		.kind = LSMEM_KIND_BLOCK,
		.bytes = STORE_BYTES,
	};
	struct lsmem_destroy destroy = { .size = sizeof(destroy) };
	struct lsmem_activate activate = activation(FIRST + BLOCK_SEGMENTS);
	long threads, before = number_in("/proc/sys/kernel/threads-max", "%ld");
	uint8_t *data = aligned_alloc(PAGE, BLOCK);
	uint64_t i, serial;
	unsigned int more;
	int ret, fd;

	ASSERT_NE(NULL, data);
	ASSERT_LT(0, before);
	close(self->follower.attach.fd);
	close(self->store.fd);
	self->store.fd = -1;
	memcpy(destroy.name, self->store.name, sizeof(destroy.name));
	ASSERT_EQ(0, control_call(LSMEM_CTL_DESTROY, &destroy));
	ASSERT_EQ(0, control_call(LSMEM_CTL_CREATE, &create));
	memcpy(self->store.name, create.name, sizeof(self->store.name));
	for (more = 0; more <= 5; more++) {	/* for compactors, cleaner, a queue of the disk */
		ASSERT_EQ(0, attach(self));
		ASSERT_EQ(0, load_blocks(self));
		threads = number_in("/proc/loadavg", "%*s %*s %*s %*[0-9]/%ld");
		ASSERT_LT(0, threads);
		ASSERT_EQ(0, threads_max(threads + more));
		ret = ioctl(self->follower.attach.fd, LSMEM_REPL_ACTIVATE, &activate) ? -errno : 0;
		ASSERT_EQ(0, threads_max(before));
		ASSERT_TRUE(ret == -ENOMEM || ret == -EAGAIN) TH_LOG("%d with %u threads", ret, more);
		EXPECT_TRUE(level_is_none(&self->store)) TH_LOG("a thread ran, with %u threads", more);
		close(self->follower.attach.fd);
		ASSERT_EQ(0, store_attribute(&self->store, "segments"));
	}
	ASSERT_EQ(0, attach(self));
	ASSERT_EQ(0, load_blocks(self));
	ASSERT_EQ(0, follower_activate(&self->follower, &activate));
	snprintf(self->store.path, sizeof(self->store.path), "/dev/%s", self->store.name);
	fd = open(self->store.path, O_RDWR | O_CLOEXEC | O_DIRECT);
	ASSERT_LE(0, fd);
	for (i = 0; i < 200; i++) {
		content_fill(data, BLOCK, 1000 + i, i);
		ASSERT_EQ(BLOCK, pwrite(fd, data, BLOCK, (1000 + i) * BLOCK));
	}
	ASSERT_EQ(0, fsync(fd));
	for (i = 0; i < BLOCK_SEGMENTS; i++) {
		ASSERT_EQ(BLOCK, pread(fd, data, BLOCK, i * BLOCK));
		ASSERT_TRUE(content_right(data, BLOCK, i, &serial)) TH_LOG("block %llu",
									   (unsigned long long)i);
	}
	close(fd);
	EXPECT_STREQ("", self->follower.wrong);
	free(data);
}

/*
 * The generations of handles are used up.  An allocation returns EMFILE at once: it does not
 * search the table, which would set every index aside.  Objects stay in use.
 */
TEST_F_TIMEOUT(loading, generations_used_up, SECONDS)
{
	struct lsmem_activate activate = activation(FIRST + 1);
	int said = log_says("it is set aside"), i;
	uint64_t handle, serial = 0;
	uint8_t data[1000];

	add(self, FIRST, 0, sizeof(data), LSMEM_TYPE_OBJECT, 1000);
	ASSERT_EQ(0, load_in_pieces(self, FIRST));
	activate.generation_floor = LSMEM_GENERATION_MAX;
	activate.generation_ceiling = LSMEM_GENERATION_MAX;
	ASSERT_EQ(0, follower_activate(&self->follower, &activate));
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(-EMFILE, lsm_alloc(self->store.lsm, data, 16, 0, &handle, NULL));
	EXPECT_EQ(sizeof(data), lsm_read(self->store.lsm, handle_of(0), data, sizeof(data), 0, NULL));
	EXPECT_TRUE(content_right(data, sizeof(data), 0, &serial));
	EXPECT_EQ(0, lsm_free(self->store.lsm, handle_of(0), 0, NULL));
	EXPECT_EQ(-EMFILE, lsm_alloc(self->store.lsm, data, 16, 0, &handle, NULL));
	EXPECT_EQ(said, log_says("it is set aside"));
	EXPECT_STREQ("", self->follower.wrong);
}

/* Anything but whole, undamaged entries of the segment is refused; closing then drops all. */
TEST_F_TIMEOUT(loading, what_is_refused, SECONDS)
{
	static const struct {
		const char *what;
		int error;
		uint32_t byte;		/* offset in the last entry of a byte to change; 0: none */
		uint32_t cut;		/* how many bytes to cut off at the end */
		uint64_t index;
		uint32_t type;		/* of a long header that replaces the right one; 0: none */
	} cases[] = {
		{ "payload", -EBADMSG, LSMEM_SHORT_BYTES + 5, 0, 7, 0 },
		{ "header", -EBADMSG, 9, 0, 7, 0 },
		{ "cut in the payload", -EINVAL, 0, 8, 7, 0 },
		{ "cut in the header", -EINVAL, 0, 1024 + 8, 7, 0 },
		{ "length", -EINVAL, 0, 3, 7, 0 },
		{ "handle", -EINVAL, 0, 0, HANDLES + LSMEM_RESERVED, 0 },
		{ "commit record", -EINVAL, 0, 0, 7, LSMEM_TYPE_COMMIT },
		{ "padding", -EINVAL, 0, 0, 7, LSMEM_TYPE_PAD },
		{ "short object with a long header", -EINVAL, 0, 0, 7, LSMEM_TYPE_OBJECT },
	};
	/* With it, as many bytes as an object of 1024 bytes takes with a short header. */
	const uint64_t value = 1024 + LSMEM_SHORT_BYTES - LSMEM_LONG_BYTES;
	struct lsmem_entry e;
	uint32_t i, j, last, length;

	/* 100 entries before it, so that the bad entry is not in the first seglet. */
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		for (j = 0; j < 100; j++)
			add(self, FIRST, 100 + j, 1000, LSMEM_TYPE_OBJECT, 1000 + j);
		last = self->length;
		add(self, FIRST, cases[i].index % HANDLES, 1024, LSMEM_TYPE_OBJECT, 2000);
		length = 1024;
		if (cases[i].type)
			length = 0;	/* as of a long header */
		e = lsmem_entry_make(LSMEM_TYPE_OBJECT, length, handle_of(cases[i].index), 2000, 0,
				     0, last);
		if (!length)
			e.more = __cpu_to_le64(cases[i].type | value << LSMEM_MORE_VALUE_SHIFT);
		put_header(self, FIRST, self->blob + last, e);
		if (cases[i].byte)
			self->blob[last + cases[i].byte] ^= 1;
		EXPECT_EQ(cases[i].error, load(self, FIRST, self->blob,
					       self->length - cases[i].cut))
			TH_LOG("%s", cases[i].what);
		close(self->follower.attach.fd);
		EXPECT_EQ(0, store_attribute(&self->store, "handles_used"));
		EXPECT_EQ(0, store_attribute(&self->store, "live_bytes"));
		ASSERT_EQ(0, attach(self));
	}
}

/* The second half of the daemon's buffer is not mapped. */
TEST_F_TIMEOUT(loading, bytes_that_are_not_there, SECONDS)
{
	uint32_t pages = (1u << 20) / PAGE, half = pages / 2 * PAGE;
	uint8_t *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t i;

	ASSERT_NE(MAP_FAILED, memory);
	for (i = 0; self->length <= half; i++)
		add(self, FIRST, i, 1000, LSMEM_TYPE_OBJECT, 1000 + i);
	memcpy(memory, self->blob, half);
	ASSERT_EQ(0, munmap(memory + half, half));
	EXPECT_EQ(-EFAULT, load(self, FIRST, memory, self->length));
	EXPECT_EQ(-EINVAL, load(self, FIRST, self->blob, LSMEM_SEGMENT_BYTES + 8));
	EXPECT_EQ(-EINVAL, load(self, 0, self->blob, self->length));
	EXPECT_EQ(-EINVAL, load(self, LSMEM_SEGMENT_ID_END, self->blob, self->length));
	munmap(memory, half);
}

TEST_HARNESS_MAIN
