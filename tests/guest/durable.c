// SPDX-License-Identifier: GPL-2.0
/*
 * Objects of a durable store whose daemon fails: it sleeps, or it changes seglets while the kernel
 * uses them, as bad memory would.  Objects may be lost then, but the kernel must not crash.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "store.h"

#define OBJECTS		14000u
#define LENGTH		5000u
#define REPLACES	40000u
#define SHRINKS		8u
#define PAGE		4096u
#define SECONDS		120	/* time limit of a test; sufficient under emulation */

struct ruin {
	const struct lsmem_handle *handles;
	uint8_t *seglets;
	uint64_t *handle;
	atomic_bool stop;
};

/* Change the length in the header of one entry after the other, each for a moment. */
static void *ruin_main(void *argument)
{
	const uint64_t offsets = (1ull << LSMEM_POSITION_OFFSET_BITS) - 1;
	const uint64_t change = 1ull << (LSMEM_MORE_VALUE_SHIFT + 20);	/* LENGTH + 1 MiB */
	struct ruin *ruin = argument;
	uint64_t random = test_seed;

	while (!atomic_load(&ruin->stop)) {
		uint64_t handle = ruin->handle[random_next(&random) % OBJECTS];
		uint64_t word = __atomic_load_n(&ruin->handles[lsmem_handle_index(handle)].word,
						__ATOMIC_ACQUIRE);
		uint64_t position = word & ((1ull << LSMEM_POSITION_BITS) - 1);
		struct lsmem_entry *e = (void *)(ruin->seglets +
			(position >> LSMEM_POSITION_OFFSET_BITS) * LSMEM_SEGLET_BYTES +
			(position & offsets) * LSMEM_ALIGN);

		if ((word >> LSMEM_WORD_STATE_SHIFT & ((1u << LSMEM_WORD_STATE_BITS) - 1)) !=
		    LSMEM_WORD_LIVE)
			continue;
		__atomic_fetch_xor(&e->more, change, __ATOMIC_SEQ_CST);
		__atomic_fetch_xor(&e->more, change, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

/*
 * Does the module permit writable seglets, because the kernel requires a writable mapping even
 * if an RDMA device only reads?  Kernels up to 6.1 require it.  The module cannot distinguish
 * 6.2, so it permits them there too.
 */
static bool rdma_writes(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;

	if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return false;
	return major < 6 || (major == 6 && minor < 3);
}

static void *map(int fd, int prot, const struct lsmem_window *window)
{
	return mmap(NULL, window->length, prot, MAP_SHARED, fd, (off_t)window->offset);
}

FIXTURE(durable) {
	struct follower follower;
	struct store store;
	struct ruin ruin;
};

FIXTURE_SETUP(durable)
{
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_start(&self->follower, self->store.name));
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
	self->ruin.seglets = map(self->follower.attach.fd, PROT_READ, &self->follower.info->seglets);
	ASSERT_NE(MAP_FAILED, self->ruin.seglets);
	self->ruin.handles = map(self->store.fd, PROT_READ, &self->follower.info->handles);
	ASSERT_NE(MAP_FAILED, self->ruin.handles);
	self->ruin.handle = calloc(OBJECTS, sizeof(*self->ruin.handle));
	ASSERT_NE(NULL, self->ruin.handle);
}

FIXTURE_TEARDOWN(durable)
{
	struct lsmem_destroy destroy = { .size = sizeof(destroy), .flags = LSMEM_DESTROY_FORCE };
	const struct lsmem_info *info = self->follower.info;

	munmap((void *)self->ruin.handles, info->handles.length);
	munmap(self->ruin.seglets, info->seglets.length);
	follower_stop(&self->follower);
	follower_free(&self->follower);
	free(self->ruin.handle);
	lsm_close(self->store.lsm);
	close(self->store.fd);
	memcpy(destroy.name, self->store.name, sizeof(destroy.name));
	EXPECT_EQ(0, control_call(LSMEM_CTL_DESTROY, &destroy));
}

/* If the wait of a durable vector times out, only its writes return -ETIMEDOUT, not its reads. */
TEST_F_TIMEOUT(durable, vector_timeout, SECONDS)
{
	struct lsmem_op ops[2] = { lsm_op_alloc("x", 1, 0) };
	struct lsmem_vector vector = {
		.size = sizeof(vector),
		.flags = LSMEM_OPF_DURABLE,
		.ops = (uintptr_t)ops,
		.nr = 2,
		.stride = sizeof(*ops),
	};
	struct {
		struct lsmem_op op;
		uint64_t gap;
	} apart = { 0 };
	uint64_t handle;
	char data;

	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 100));
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, 0, &handle, NULL));
	follower_sleep(&self->follower, true);
	ops[1] = lsm_op_read(handle, &data, 1, 0);
	EXPECT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_VECTOR, &vector));
	EXPECT_EQ(-ETIMEDOUT, ops[0].result);
	EXPECT_EQ(0, ops[1].result);
	/* The kernel must not copy the vector's flag to its operations, which can be used again. */
	EXPECT_EQ(0, ops[0].flags);
	ops[0] = lsm_op_replace(handle, "y", 1, 0, 0);
	ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_VECTOR, &vector));
	EXPECT_EQ(-ETIMEDOUT, ops[0].result);
	/* The kernel copies operations that lie apart one by one. */
	apart.op = lsm_op_replace(handle, "z", 1, 0, 0);
	vector.ops = (uintptr_t)&apart;
	vector.nr = 1;
	vector.stride = sizeof(apart);
	ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_VECTOR, &vector));
	EXPECT_EQ(-ETIMEDOUT, apart.op.result);
	EXPECT_EQ(0, apart.op.flags);
	vector.ops = (uintptr_t)ops;
	vector.nr = 2;
	vector.stride = sizeof(*ops);
	vector.flags = 0;
	ops[0].result = 0;
	ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_VECTOR, &vector));
	EXPECT_EQ(0, ops[0].result);
	follower_sleep(&self->follower, false);
}

/*
 * lsm_table_alloc() with LSM_DURABLE does not tell of an object that a crash could still undo: one that another client
 * has made, which had no time to wait for it.
 */
TEST_F_TIMEOUT(durable, alloc_once, SECONDS)
{
	struct lsm_table *table;
	struct lsm_item item;

	ASSERT_EQ(0, lsm_table_open(self->store.lsm, 7, 0, &table));
	ASSERT_EQ(0, lsm_table_alloc(table, "before", 6, "x", 1, LSM_DURABLE, &item));
	EXPECT_EQ(item.version, self->follower.keys[lsmem_handle_index(item.handle)].version);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/flush_ms", 100));
	follower_sleep(&self->follower, true);
	ASSERT_EQ(0, lsm_table_alloc(table, "key", 3, "x", 1, 0, NULL));
	EXPECT_EQ(-EEXIST, lsm_table_put(table, "key", 3, "x", 1, LSM_NEW | LSM_DURABLE, NULL));
	EXPECT_EQ(-ETIMEDOUT, lsm_table_alloc(table, "key", 3, "y", 1, LSM_DURABLE, &item));
	EXPECT_EQ(0, self->follower.keys[lsmem_handle_index(item.handle)].version);
	follower_sleep(&self->follower, false);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/flush_ms", test_limit(20000)));
	EXPECT_EQ(1, lsm_table_alloc(table, "key", 3, "y", 1, LSM_DURABLE, &item));
	EXPECT_EQ(item.version, self->follower.keys[lsmem_handle_index(item.handle)].version);
	lsm_table_close(table);
}

struct shrink {
	const struct store *store;
	uint64_t handle;
	const void *source;
	pthread_t thread;
	int error;
};

static void *shrink_main(void *argument)
{
	struct shrink *shrink = argument;
	struct lsmem_op op = lsm_op_replace(shrink->handle, shrink->source, 1, 0, 0);

	shrink->error = ioctl(shrink->store->fd, LSMEM_IOC_REPLACE, &op) ? -errno : 0;
	return NULL;
}

/*
 * All objects of a full store can be deleted.  Here some replacements by shorter data blocked on
 * their source pages while other objects were allocated, and then failed, because the source pages
 * were unmapped.
 */
TEST_F_TIMEOUT(durable, full_can_delete, SECONDS)
{
	struct shrink shrinks[SHRINKS] = { 0 };
	uint8_t *bytes = calloc(1, OBJECT_MAX);
	uint32_t nr = 0, length, i;
	struct pollfd wait = { .events = POLLIN };
	void *pages;

	ASSERT_NE(NULL, bytes);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", test_limit(5000)));
	for (length = OBJECT_MAX; length >= 4096; length /= 16)
		while (nr < OBJECTS && !lsm_alloc(self->store.lsm, bytes, length, 0,
						  &self->ruin.handle[nr], NULL))
			nr++;
	wait.fd = slow_pages(&pages, SHRINKS * PAGE);
	if (wait.fd < 0 && errno == ENOSYS)
		SKIP(return, "this kernel has no userfaultfd");
	ASSERT_LE(0, wait.fd);
	for (i = 0; i < SHRINKS; i++) {
		struct uffd_msg message;

		shrinks[i].store = &self->store;
		shrinks[i].handle = self->ruin.handle[i];
		shrinks[i].source = (uint8_t *)pages + i * PAGE;
		ASSERT_EQ(0, pthread_create(&shrinks[i].thread, NULL, shrink_main, &shrinks[i]));
		ASSERT_EQ(1, poll(&wait, 1, 20000));
		ASSERT_EQ(sizeof(message), read(wait.fd, &message, sizeof(message)));
	}
	for (i = 0; i < SHRINKS; i++)
		nr += !lsm_alloc(self->store.lsm, bytes, OBJECT_MAX - PAGE, 0,
				 &self->ruin.handle[nr], NULL);
	ASSERT_EQ(0, munmap(pages, SHRINKS * PAGE));
	close(wait.fd);
	for (i = 0; i < SHRINKS; i++) {
		pthread_join(shrinks[i].thread, NULL);
		EXPECT_EQ(-EFAULT, shrinks[i].error);
	}
	EXPECT_GE(store_attribute(&self->store, "capacity_bytes"),
		  store_attribute(&self->store, "live_bytes"));
	for (i = 0; i < nr; i++)
		ASSERT_EQ(0, lsm_free(self->store.lsm, self->ruin.handle[i], 0, NULL))
			TH_LOG("object %u of %u", i, nr);
	EXPECT_EQ(0, store_attribute(&self->store, "handles_used"));
	free(bytes);
}

/* An entry may change after the cleaner has checked it and before the cleaner moves it. */
TEST_F_TIMEOUT(durable, cleaning_ruined_seglets, SECONDS)
{
	uint64_t random = test_seed + 1, end;
	uint8_t data[LENGTH];
	pthread_t thread;
	uint32_t i, done = 0;

	if (!rdma_writes())
		SKIP(return, "no process can write to seglets on this kernel");
	ASSERT_EQ(0, mprotect(self->ruin.seglets, self->follower.info->seglets.length,
			      PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", 100));
	for (i = 0; i < OBJECTS; i++) {
		content_fill(data, sizeof(data), i, 0);
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, data, sizeof(data), 0,
				       &self->ruin.handle[i], NULL));
	}
	ASSERT_EQ(0, pthread_create(&thread, NULL, ruin_main, &self->ruin));
	end = now_ms() + test_limit(20000);
	for (i = 0; i < REPLACES && now_ms() < end; i++)
		done += !lsm_replace(self->store.lsm, self->ruin.handle[random_next(&random) % OBJECTS],
				     data, sizeof(data), 0, NULL);
	atomic_store(&self->ruin.stop, true);
	pthread_join(thread, NULL);
	TH_LOG("%u objects replaced, %lld segments compacted, %lld cleaned",
	       done, store_attribute(&self->store, "cleaner/compactions"),
	       store_attribute(&self->store, "cleaner/segments_cleaned"));
	EXPECT_LT(0, store_attribute(&self->store, "cleaner/compactions") +
		     store_attribute(&self->store, "cleaner/segments_cleaned"));
}

/* The daemon may map seglets writable only where RDMA needs it (rdma_writes()); clients never. */
TEST_F(durable, writable_seglets)
{
	const struct lsmem_window *window = &self->follower.info->seglets;
	int fds[] = { self->follower.attach.fd, self->store.fd };
	unsigned int i;

	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		bool may = !i && rdma_writes();
		uint8_t *seglets = map(fds[i], PROT_READ, window);

		ASSERT_NE(MAP_FAILED, seglets);
		errno = 0;
		EXPECT_EQ(may ? 0 : -1, mprotect(seglets, PAGE, PROT_READ | PROT_WRITE));
		EXPECT_EQ(may ? 0 : EACCES, errno);
		EXPECT_EQ(-1, mprotect(seglets, PAGE, PROT_READ | PROT_EXEC));
		EXPECT_EQ(EACCES, errno);
		munmap(seglets, window->length);
		errno = 0;
		seglets = map(fds[i], PROT_READ | PROT_WRITE, window);
		EXPECT_EQ(may, seglets != MAP_FAILED);
		EXPECT_EQ(may ? 0 : i ? EPERM : EACCES, errno);
		if (may)
			munmap(seglets, window->length);
	}
}

/* A read that the compiler does not remove. */
static void touch(const void *address)
{
	(void)__atomic_load_n((const uint8_t *)address, __ATOMIC_RELAXED);
}

/* How many pages of @length bytes are mapped. Touches none of them; SIZE_MAX: it cannot be read. */
static size_t mapped(const void *address, size_t length)
{
	uint64_t *entries = calloc(length / PAGE, sizeof(*entries));
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t size = length / PAGE * sizeof(*entries), nr = 0, i;

	if (!entries || pread(fd, entries, size, (uintptr_t)address / PAGE * sizeof(*entries)) !=
			(ssize_t)size)
		nr = SIZE_MAX;
	for (i = 0; nr != SIZE_MAX && i < length / PAGE; i++)
		nr += entries[i] >> 63;
	free(entries);
	close(fd);
	return nr;
}

/*
 * A fault of the daemon maps 2 MiB, and those that are mapped in part as well.  It sees what a
 * client sees.
 */
TEST_F(durable, daemon_faults)
{
	const struct lsmem_window *window = &self->follower.info->seglets;
	const size_t length = window->length, around = 2u << 20;
	uint8_t *daemon = map(self->follower.attach.fd, PROT_READ, window), *client, *part;
	size_t at;

	ASSERT_NE(MAP_FAILED, daemon);
	client = map(self->store.fd, PROT_READ, window);
	ASSERT_NE(MAP_FAILED, client);
	EXPECT_EQ(0, mapped(daemon, length));
	part = (uint8_t *)((uintptr_t)daemon / around * around) + around;
	touch(part + around / 2);
	EXPECT_EQ(around / PAGE, mapped(daemon, length));
	for (at = 0; at < length; at += around)
		touch(daemon + at);
	touch(daemon + length - PAGE);		/* if the address is not aligned */
	EXPECT_EQ(length / PAGE, mapped(daemon, length));
	EXPECT_EQ(0, memcmp(daemon, client, length));

	/* Holes in what is mapped */
	ASSERT_EQ(0, madvise(part + PAGE, PAGE, MADV_DONTNEED));
	ASSERT_EQ(0, madvise(part + 5 * PAGE, 18 * PAGE, MADV_DONTNEED));
	EXPECT_EQ(around / PAGE - 19, mapped(part, around));
	touch(part + PAGE);
	EXPECT_EQ(around / PAGE, mapped(part, around));
	ASSERT_EQ(0, munmap(part + 7 * PAGE, PAGE));
	ASSERT_EQ(0, madvise(part, 7 * PAGE, MADV_DONTNEED));
	ASSERT_EQ(0, madvise(part + 8 * PAGE, around - 8 * PAGE, MADV_DONTNEED));
	EXPECT_EQ(0, mapped(part, around));
	touch(part);
	EXPECT_EQ(7, mapped(part, around));
	touch(part + around - PAGE);
	EXPECT_EQ(around / PAGE - 1, mapped(part, around));
	EXPECT_EQ(0, memcmp(part, client + (part - daemon), 7 * PAGE));
	EXPECT_EQ(0, memcmp(part + 8 * PAGE, client + (part - daemon) + 8 * PAGE, around - 8 * PAGE));
	munmap(daemon, length);
	munmap(client, length);
}

static int clean(int fd, uint32_t flags, const uint64_t *ids, uint32_t nr)
{
	struct lsmem_clean clean = {
		.size = sizeof(clean),
		.flags = flags,
		.segments = (uintptr_t)ids,
		.nr = nr,
	};

	return ioctl(fd, LSMEM_REPL_CLEAN, &clean) ? -errno : 0;
}

/* LSMEM_REPL_CLEAN: what a daemon can request, what it sees of the passes, what is refused. */
TEST_F(durable, asking_for_passes)
{
	const struct lsmem_window *window = &self->follower.info->segments;
	const uint64_t nothing[2] = { ~0ull, ~0ull - 1 };
	int fd = self->follower.attach.fd;
	const struct lsmem_cleaning *cleaning = map(fd, PROT_READ, window);
	struct lsmem_clean reserved = { .size = sizeof(reserved), .nr = 1, .reserved = 1 };

	ASSERT_NE(MAP_FAILED, cleaning);
	EXPECT_EQ(sizeof(*cleaning), cleaning->length);
	EXPECT_EQ(store_attribute(&self->store, "segments_max"), cleaning->nr_segments);
	EXPECT_GE(window->length, cleaning->segments + cleaning->nr_segments *
				  sizeof(struct lsmem_segment_stat));
	EXPECT_EQ(MAP_FAILED, map(fd, PROT_READ | PROT_WRITE, window));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(MAP_FAILED, map(self->store.fd, PROT_READ, window));
	EXPECT_EQ(-EINVAL, clean(fd, 4, nothing, 1));
	EXPECT_EQ(-EINVAL, clean(fd, LSMEM_CLEAN_DAMAGED, nothing, 0));
	EXPECT_EQ(-EINVAL, clean(fd, 0, nothing, 0));
	EXPECT_EQ(-EINVAL, clean(fd, 0, nothing, 65));
	EXPECT_EQ(-EINVAL, clean(fd, LSMEM_CLEAN_LAST, nothing, 1));
	EXPECT_EQ(-1, ioctl(fd, LSMEM_REPL_CLEAN, &reserved));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-EFAULT, clean(fd, 0, (const uint64_t *)8, 1));
	EXPECT_EQ(-ENOENT, clean(fd, 0, nothing, 2));
	EXPECT_EQ(cleaning->begun, cleaning->ended) TH_LOG("nothing was begun");
	EXPECT_EQ(0, clean(fd, LSMEM_CLEAN_LAST, NULL, 0));
	EXPECT_EQ(-EBUSY, clean(fd, 0, nothing, 2));
	EXPECT_EQ(-EAGAIN, store_set_text(&self->store, "cleaner/request_clean", "1"));
	munmap((void *)cleaning, window->length);
}

static bool is_listed(const struct lsmem_segment_stat *table, uint32_t nr, uint64_t id)
{
	while (nr--)
		if (__atomic_load_n(&table[nr].id, __ATOMIC_ACQUIRE) == id)
			return true;
	return false;
}

/* While backups have room for fewer segments than the store was made for, the log has no more, and writers go on. */
TEST_F_TIMEOUT(durable, fewer_segments, SECONDS)
{
	struct lsmem_room room = { .size = sizeof(room) };
	uint64_t most = store_attribute(&self->store, "segments_max"), handles[4];
	uint8_t *data = calloc(1, LSMEM_OBJECT_MAX);
	int fd = self->follower.attach.fd;
	uint32_t i;

	ASSERT_TRUE(data != NULL);
	EXPECT_EQ(-1, ioctl(fd, LSMEM_REPL_ROOM, &room));
	EXPECT_EQ(EINVAL, errno);
	room.segments = 1;
	room.reserved = 1;
	EXPECT_EQ(-1, ioctl(fd, LSMEM_REPL_ROOM, &room));
	EXPECT_EQ(EINVAL, errno);
	room.reserved = 0;
	EXPECT_EQ(most, store_attribute(&self->store, "segments_limit"));
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, data, LSMEM_OBJECT_MAX, 0, &handles[i], NULL));
	room.segments = (uint32_t)store_attribute(&self->store, "segments") + 6;
	ASSERT_LT(room.segments, most);
	ASSERT_EQ(0, ioctl(fd, LSMEM_REPL_ROOM, &room));
	EXPECT_EQ(room.segments, store_attribute(&self->store, "segments_limit"));
	for (i = 0; i < 8 * room.segments + 80; i++) {
		ASSERT_EQ(0, lsm_replace(self->store.lsm, handles[i % 4], data, LSMEM_OBJECT_MAX, 0, NULL));
		ASSERT_GE(room.segments, store_attribute(&self->store, "segments"));
	}
	EXPECT_LT(0, store_attribute(&self->store, "cleaner/passes"));
	room.segments = UINT32_MAX;
	ASSERT_EQ(0, ioctl(fd, LSMEM_REPL_ROOM, &room));
	EXPECT_EQ(most, store_attribute(&self->store, "segments_limit"));
	free(data);
}

/* A segment that is damaged on the backups is cleaned even if all of it is live. */
TEST_F(durable, cleaning_what_is_damaged)
{
	const struct lsmem_window *window = &self->follower.info->segments;
	const struct lsmem_cleaning *cleaning = map(self->follower.attach.fd, PROT_READ, window);
	uint8_t *data = calloc(1, LSMEM_OBJECT_MAX), *read = calloc(1, LSMEM_OBJECT_MAX);
	const struct lsmem_segment_stat *table;
	uint64_t handles[9], full = 0, end = now_ms() + test_limit(20000);
	int fd = self->follower.attach.fd;
	cpu_set_t here;
	uint32_t i;

	ASSERT_NE(MAP_FAILED, cleaning);
	ASSERT_TRUE(data && read);
	/* Writers of another processor have another head: the objects would not fill a segment. */
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(here), &here));
	table = (const void *)((const char *)cleaning + cleaning->segments);
	for (i = 0; i < 9; i++) {
		content_fill(data, LSMEM_OBJECT_MAX, i, 0);
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, data, LSMEM_OBJECT_MAX, 0, &handles[i], NULL));
	}
	while (!full && now_ms() < end)
		for (i = 0; i < cleaning->nr_segments; i++)
			if (__atomic_load_n(&table[i].flags, __ATOMIC_ACQUIRE) & LSMEM_SEGMENT_CLEANABLE)
				full = table[i].id;
	ASSERT_NE(0, full);
	EXPECT_EQ(-ENOENT, clean(fd, 0, &full, 1)) TH_LOG("nothing is gained");
	EXPECT_EQ(0, clean(fd, LSMEM_CLEAN_DAMAGED, &full, 1));
	/* It goes when a digest without it is durable. */
	while (is_listed(table, cleaning->nr_segments, full) && now_ms() < end)
		usleep(1000);
	EXPECT_FALSE(is_listed(table, cleaning->nr_segments, full));
	for (i = 0; i < 9; i++) {
		content_fill(data, LSMEM_OBJECT_MAX, i, 0);
		EXPECT_EQ(LSMEM_OBJECT_MAX, lsm_read(self->store.lsm, handles[i], read,
						     LSMEM_OBJECT_MAX, 0, NULL));
		EXPECT_EQ(0, memcmp(data, read, LSMEM_OBJECT_MAX));
	}
	munmap((void *)cleaning, window->length);
	free(data);
	free(read);
}

struct suspend {
	int state;			/* /sys/power/state */
	int error;			/* errno of the write to it; 0 if it succeeded */
	_Atomic pid_t thread;
	atomic_bool over;
};

static void *suspend_main(void *argument)
{
	struct suspend *suspend = argument;

	suspend->thread = gettid();
	suspend->error = write(suspend->state, "freeze", 6) < 0 ? errno : 0;
	suspend->over = true;
	return NULL;
}

/* Wait until the suspend is in lsmem_pm_notify(). Returns false if the suspend ended before. */
static bool suspend_asks(struct suspend *suspend)
{
	char path[64], stack[4096];

	while (!suspend->over) {
		ssize_t length;
		int fd;

		snprintf(path, sizeof(path), "/proc/self/task/%d/stack", suspend->thread);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		length = fd < 0 ? -1 : read(fd, stack, sizeof(stack) - 1);
		close(fd);
		if (length > 0) {
			stack[length] = 0;
			if (strstr(stack, "lsmem_pm_notify"))
				return true;
		}
		usleep(1000);
	}
	return false;
}

/* While a suspend waits for the daemon of one store, a daemon can attach to another store. */
TEST_F_TIMEOUT(durable, suspend_waits_for_a_daemon, SECONDS)
{
	struct suspend suspend = { .state = open("/sys/power/state", O_WRONLY | O_CLOEXEC) };
	const uint64_t flush_ms = test_limit(4000);
	struct follower other;
	struct store second;
	pthread_t thread;
	uint64_t handle, begin;

	if (suspend.state < 0)
		SKIP(return, "this kernel has no /sys/power/state");
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/flush_ms", flush_ms));
	ASSERT_EQ(0, store_create(&second, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	follower_sleep(&self->follower, true);
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, 0, &handle, NULL));
	ASSERT_EQ(0, pthread_create(&thread, NULL, suspend_main, &suspend));
	EXPECT_TRUE(suspend_asks(&suspend)) TH_LOG("%s", strerror(suspend.error));
	begin = now_ms();
	ASSERT_EQ(0, follower_start(&other, second.name));
	EXPECT_GT(flush_ms / 2, now_ms() - begin);
	EXPECT_FALSE(suspend.over) TH_LOG("it waits for the other store");
	pthread_join(thread, NULL);
	EXPECT_NE(0, suspend.error) TH_LOG("the daemon is asleep: the suspend is refused");
	follower_sleep(&self->follower, false);
	follower_stop(&other);
	follower_free(&other);
	close(suspend.state);
	EXPECT_EQ(0, store_destroy(&second));
}

TEST_HARNESS_MAIN
