// SPDX-License-Identifier: GPL-2.0
/*
 * Readers check every byte of objects, millions of times, while a writer replaces half of all
 * objects and the cleaner moves the other half.
 *
 * Cold objects are written once, between hot ones, so every segment gets holes and must be
 * cleaned.  At the end every cold object must have been moved, and its bytes must be unchanged.
 * Readers alternate between lsm_read() and views.  seccomp refuses their ioctls, so they can read
 * through the windows only.  A reader must find one whole version, which is not older than the
 * last one that was complete before the read began.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "store.h"

#define READERS		2u
#define READS_WANTED	3000000u	/* of all readers together */
#define LENGTH_MAX	(300u << 10)
#define BATCH		256u
#define LIMIT_MS	90000u
#define FILL_PERCENT	80u

struct object {
	uint64_t handle;
	uint64_t first_word;		/* handle word when the object was allocated */
	_Atomic uint64_t serial;	/* of the last replacement that is complete */
	uint32_t length;
	bool hot;
};

FIXTURE(moving) {
	struct store store;
	const struct lsmem_handle *handles;
	size_t handles_length;
	struct object *objects;
	uint32_t nr;
	uint8_t *batch;
};

/* Most lengths are small; some objects cross a seglet boundary, a few need several seglets. */
static uint32_t choose_length(uint64_t *state)
{
	uint64_t dice = random_next(state) % 1000;
	uint64_t number = random_next(state);

	if (dice < 900)
		return 16 + (uint32_t)(number % 400);
	if (dice < 995)
		return 1000 + (uint32_t)(number % 7000);
	if (dice < 999)
		return 60000 + (uint32_t)(number % 20000);
	return LENGTH_MAX - (uint32_t)(number % 100000);
}

static uint64_t word_of(const struct lsmem_handle *handles, uint64_t handle)
{
	return __atomic_load_n(&handles[handle & ((1ull << 36) - 1)].word, __ATOMIC_RELAXED);
}

static uint64_t position_of(uint64_t word)
{
	return word & ((1ull << LSMEM_POSITION_BITS) - 1);
}

FIXTURE_SETUP(moving)
{
	const struct lsmem_info *info;
	struct lsmem_stat stat;
	uint64_t state = test_seed;
	uint8_t *bytes = malloc(LENGTH_MAX);
	uint32_t room = 200000;

	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, 0));
	info = mmap(NULL, 4096, PROT_READ, MAP_SHARED, self->store.fd, LSMEM_WINDOW_INFO);
	ASSERT_NE(MAP_FAILED, info);
	self->handles_length = info->handles.length;
	self->handles = mmap(NULL, self->handles_length, PROT_READ, MAP_SHARED, self->store.fd,
			     (off_t)info->handles.offset);
	ASSERT_NE(MAP_FAILED, self->handles);
	munmap((void *)info, 4096);
	self->objects = calloc(room, sizeof(*self->objects));
	self->batch = malloc(BATCH * 8000ul);
	ASSERT_TRUE(bytes && self->objects && self->batch);
	do {
		struct object *object = &self->objects[self->nr];

		object->length = choose_length(&state);
		object->hot = self->nr % 2;
		content_fill(bytes, object->length, self->nr, 0);
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, bytes, object->length, 0, &object->handle,
				       NULL));
		object->first_word = word_of(self->handles, object->handle);
		self->nr++;
		if (self->nr % 100 == 0)
			ASSERT_EQ(0, lsm_stat(self->store.lsm, &stat));
		ASSERT_GT(room, self->nr);
	} while (self->nr % 100 || stat.live_bytes < stat.capacity / 100 * FILL_PERCENT);
	free(bytes);
	TH_LOG("%u objects, %llu MiB live of %llu", self->nr,
	       (unsigned long long)(stat.live_bytes >> 20),
	       (unsigned long long)(stat.capacity >> 20));
}

FIXTURE_TEARDOWN(moving)
{
	munmap((void *)self->handles, self->handles_length);
	EXPECT_EQ(0, store_destroy(&self->store));
	free(self->objects);
	free(self->batch);
}

struct readers {
	struct lsm *lsm;
	struct object *objects;
	uint32_t nr;
	atomic_bool stop;
	atomic_ulong reads;		/* of all readers; grows by batches */
	struct reader {
		struct readers *all;
		uint64_t state;
		unsigned long copies, views, pieces, asked, canceled, torn, old, failed;
	} reader[READERS];
};

/* Make all further ioctls of this thread fail with EPERM, so that it can use the windows only. */
static int forbid_ioctl(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

static void check(struct reader *reader, const void *data, uint32_t length, uint32_t which,
		  uint64_t least)
{
	uint64_t serial;

	if (!content_right(data, length, which, &serial))
		reader->torn++;
	else if (serial < least)
		reader->old++;
}

static void copy_one(struct reader *reader, uint32_t which, uint8_t *buffer)
{
	const struct object *object = &reader->all->objects[which];
	uint64_t least = atomic_load(&object->serial);
	ssize_t length;

	length = lsm_read(reader->all->lsm, object->handle, buffer, LENGTH_MAX, 0, NULL);
	if (length == -EPERM) {
		reader->asked++;
		return;
	}
	reader->copies++;
	if (length != (ssize_t)object->length)
		reader->failed++;
	else
		check(reader, buffer, object->length, which, least);
}

static void view_one(struct reader *reader, uint32_t which, uint8_t *buffer)
{
	const struct object *object = &reader->all->objects[which];
	uint64_t least = atomic_load(&object->serial);
	struct reader before = *reader;
	struct lsm_view view;
	uint32_t i, at = 0;
	const void *data;
	int ret;

	ret = lsm_view_begin(reader->all->lsm, object->handle, &view);
	if (ret) {
		reader->asked += ret == -EPERM;
		reader->failed += ret != -EPERM;
		return;
	}
	/* Check the object in place if it is in one piece; else copy the pieces together. */
	data = view.iov[0].iov_base;
	if (view.nr > 1) {
		for (i = 0; i < view.nr; at += (uint32_t)view.iov[i++].iov_len)
			memcpy(buffer + at, view.iov[i].iov_base, view.iov[i].iov_len);
		data = buffer;
	}
	if (view.object.length != object->length)
		reader->failed++;
	else
		check(reader, data, object->length, which, least);
	reader->pieces += view.nr > 1;
	if (lsm_view_end(reader->all->lsm, &view)) {
		*reader = before;	/* revoked: the bytes that were read do not count */
		reader->canceled++;
	}
	reader->views++;
}

static void *read_all(void *argument)
{
	struct reader *reader = argument;
	uint8_t *buffer = malloc(LENGTH_MAX);
	unsigned int i;

	if (!buffer || forbid_ioctl()) {
		reader->failed++;
		return NULL;
	}
	while (!atomic_load(&reader->all->stop)) {
		for (i = 0; i < 500; i++) {
			copy_one(reader, (uint32_t)(random_next(&reader->state) % reader->all->nr),
				 buffer);
			view_one(reader, (uint32_t)(random_next(&reader->state) % reader->all->nr),
				 buffer);
		}
		atomic_fetch_add(&reader->all->reads, 2 * i);
	}
	free(buffer);
	return NULL;
}

/* Replace a batch of hot objects: small ones in one vector, large ones at once, one by one. */
static int write_batch(struct lsm *lsm, struct object *objects, uint32_t nr, uint8_t *bytes,
		       uint64_t *state, uint64_t serial)
{
	struct lsmem_op ops[BATCH];
	uint32_t which[BATCH], i, first = (uint32_t)(random_next(state) % nr) | 1;
	static uint8_t large[LENGTH_MAX];
	int ret;

	for (i = 0; i < BATCH; first = (first + 2) % nr | 1) {
		if (objects[first].length > 8000) {
			content_fill(large, objects[first].length, first, serial);
			ret = lsm_replace(lsm, objects[first].handle, large, objects[first].length,
					  0, NULL);
			if (ret)
				return ret;
			atomic_store(&objects[first].serial, serial);
			continue;
		}
		content_fill(bytes + i * 8000ul, objects[first].length, first, serial);
		ops[i] = lsm_op_replace(objects[first].handle, bytes + i * 8000ul,
					objects[first].length, 0, 0);
		which[i++] = first;
	}
	ret = lsm_vector(lsm, ops, BATCH, 0, NULL);
	for (i = 0; i < BATCH && !ret; i++) {
		ret = ops[i].result;
		if (!ret)
			atomic_store(&objects[which[i]].serial, serial);
	}
	return ret;
}

static uint32_t count_unmoved(const struct _test_data_moving *self)
{
	uint32_t i, unmoved = 0;

	for (i = 0; i < self->nr; i += 2)
		unmoved += position_of(word_of(self->handles, self->objects[i].handle)) ==
			   position_of(self->objects[i].first_word);
	return unmoved;
}

TEST_F_TIMEOUT(moving, every_byte_of_every_object, 115)
{
	struct readers readers = { .lsm = self->store.lsm, .objects = self->objects,
				   .nr = self->nr };
	uint64_t state = test_seed + 1, serial = 0, end;
	uint32_t i, unmoved = self->nr, wanted = (uint32_t)test_scaled(READS_WANTED);
	unsigned long written = 0;
	pthread_t threads[READERS];
	struct lsmem_stat stat;
	struct reader sum = { 0 };
	uint8_t *back = malloc(LENGTH_MAX);
	int ret = 0;

	ASSERT_NE(NULL, back);
	for (i = 0; i < READERS; i++) {
		readers.reader[i].all = &readers;
		readers.reader[i].state = test_seed + 100 + i;
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, read_all, &readers.reader[i]));
	}
	end = now_ms() + test_limit(LIMIT_MS);
	while (!ret && now_ms() < end &&
	       (unmoved || atomic_load(&readers.reads) < wanted)) {
		ret = write_batch(self->store.lsm, self->objects, self->nr, self->batch, &state,
				  ++serial);
		written += BATCH;
		if (serial % 64 == 0)
			unmoved = count_unmoved(self);
	}
	atomic_store(&readers.stop, true);
	for (i = 0; i < READERS; i++) {
		pthread_join(threads[i], NULL);
		sum.copies += readers.reader[i].copies;
		sum.views += readers.reader[i].views;
		sum.pieces += readers.reader[i].pieces;
		sum.asked += readers.reader[i].asked;
		sum.canceled += readers.reader[i].canceled;
		sum.torn += readers.reader[i].torn;
		sum.old += readers.reader[i].old;
		sum.failed += readers.reader[i].failed;
	}
	ASSERT_EQ(0, lsm_stat(self->store.lsm, &stat));
	TH_LOG("%lu copies and %lu views (%lu in pieces, %lu revoked), %lu replacements",
	       sum.copies, sum.views, sum.pieces, sum.canceled, written);
	TH_LOG("%llu segments cleaned or compacted, %llu MiB moved; %lu reads were left to the kernel",
	       (unsigned long long)made_room(&stat),
	       (unsigned long long)(stat.relocated_bytes >> 20), sum.asked);
	EXPECT_EQ(0, ret);
	EXPECT_EQ(0, sum.torn);
	EXPECT_EQ(0, sum.old);
	EXPECT_EQ(0, sum.failed);
	EXPECT_EQ(0, unmoved) TH_LOG("cold objects that lie where they lay at first");
	EXPECT_LE(wanted, atomic_load(&readers.reads));
	EXPECT_GE(wanted / 1000, sum.asked);
	EXPECT_GE(wanted / 1000, sum.canceled);

	/* Read all objects once more, now with the ioctl. */
	for (i = 0; i < self->nr; i++) {
		struct lsmem_op op = lsm_op_read(self->objects[i].handle, back, LENGTH_MAX, 0);

		ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_READ, &op));
		ASSERT_EQ(self->objects[i].length, op.length);
		ASSERT_TRUE(content_right(back, op.length, i, &serial));
		EXPECT_EQ(atomic_load(&self->objects[i].serial), serial);
	}
	free(back);
}

TEST_HARNESS_MAIN
