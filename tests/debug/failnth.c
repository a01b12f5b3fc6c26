// SPDX-License-Identifier: GPL-2.0
/*
 * Every call, with each allocation and each copy from or to user memory made to fail in turn.
 *
 * fail-nth makes the n-th of these operations fail in one thread; n grows until the call ends
 * before it reaches the n-th.  For each n the call succeeds or returns an error.  After an error
 * nothing may have changed, and the same call without a failure must succeed.  EFAULT guarantees
 * less: the copy of the result may have failed after the work was done.  Then the call was carried
 * out in full, or not at all.
 *
 * The tests compare the available memory before and after.  tests/run checks kmemleak and the
 * kernel log for other leaks and errors.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "failnth.h"
#include "follower.h"
#include "store.h"

#define SECONDS		600	/* time limit of a test */
#define BLOCK		4096u
#define IO		(16 * BLOCK)
#define HANDLES		1000u	/* few, so that stores are created fast */
#define LEAK_KIB	(100 << 10)	/* less than a store */
#define DESTROY_MS	60000

/* ---- Calls -------------------------------------------------------------- */

static int open_error(const char *path, int flags, int *fd)
{
	*fd = open(path, flags | O_CLOEXEC);
	return *fd < 0 ? -errno : 0;
}

static long long available_kib(void)
{
	long long kib = -1;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "re");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

/*
 * The step of sweeps over slow calls.  On debug kernels it takes a second or more to create and
 * destroy a store, and these calls have hundreds of failures.  With $LSMEM_SCALE below 100
 * (store.h), inject only $LSMEM_SCALE percent of them.
 */
static uint32_t slow_step(void)
{
	uint64_t scaled = test_scaled(100);

	return scaled < 100 ? (uint32_t)(100 / scaled) : 1;
}

/* ---- Stores ------------------------------------------------------------- */

/* The number of stores; @name: out, the name of one of them, or NULL. */
static unsigned int stores(char *name)
{
	DIR *dir = opendir("/sys/class/lsmem");
	struct dirent *entry;
	unsigned int nr = 0;

	while (dir && (entry = readdir(dir))) {
		if (*entry->d_name == '.')
			continue;
		nr++;
		if (name)
			snprintf(name, LSMEM_NAME_BYTES, "%.*s", LSMEM_NAME_BYTES - 1,
				 entry->d_name);
	}
	if (dir)
		closedir(dir);
	return nr;
}

static struct lsmem_create create_of(uint32_t kind, uint32_t flags)
{
	return (struct lsmem_create){
		.size = sizeof(struct lsmem_create),
		.flags = flags,
		.kind = kind,
		.bytes = STORE_BYTES,
		.handles_max = kind == LSMEM_KIND_OBJECT ? HANDLES : 0,
	};
}

/* Destroy a store. udev may have its disk open for a moment: wait until it has closed the disk. */
static int destroy(int control, const void *name)
{
	struct lsmem_destroy destroy = { .size = sizeof(destroy), .flags = LSMEM_DESTROY_FORCE };
	uint64_t end = now_ms() + DESTROY_MS;
	int ret;

	memcpy(destroy.name, name, sizeof(destroy.name));
	while ((ret = call(control, LSMEM_CTL_DESTROY, &destroy)) == -EBUSY && now_ms() < end)
		usleep(20000);
	return ret;
}

FIXTURE(kinds) {
	int control;
	long long kib;
};

/* The activation of a durable store is tested below. */
FIXTURE_VARIANT(kinds) {
	uint32_t kind;
	uint32_t flags;
	uint64_t capacity;
};

FIXTURE_VARIANT_ADD(kinds, object) {
	.kind = LSMEM_KIND_OBJECT,
};

FIXTURE_VARIANT_ADD(kinds, block) {
	.kind = LSMEM_KIND_BLOCK,
};

FIXTURE_VARIANT_ADD(kinds, tiered) {
	.kind = LSMEM_KIND_OBJECT,
	.flags = LSMEM_STORE_DURABLE,
	.capacity = 2 * STORE_BYTES,
};

FIXTURE_SETUP(kinds)
{
	ASSERT_EQ(NULL, fail_setup());
	ASSERT_EQ(0, open_error("/dev/lsmem-control", O_RDWR, &self->control));
	ASSERT_EQ(0, stores(NULL));
	self->kib = available_kib();
}

FIXTURE_TEARDOWN(kinds)
{
	long long kib = available_kib();

	EXPECT_LT(self->kib - LEAK_KIB, kib) TH_LOG("%lld KiB available before", self->kib);
	EXPECT_EQ(0, stores(NULL));
	close(self->control);
}

static struct lsmem_create create_kind(const struct _fixture_variant_kinds *variant)
{
	struct lsmem_create create = create_of(variant->kind, variant->flags);

	create.capacity = variant->capacity;
	return create;
}

TEST_F_TIMEOUT(kinds, create, SECONDS)
{
	struct failing last = { 0 };
	uint32_t step = slow_step();

	FOR_SOME_FAILURES(f, step) {
		struct lsmem_create create = create_kind(variant);
		char name[LSMEM_NAME_BYTES] = "";
		int ret;

		INJECT(f, ret = call(self->control, LSMEM_CTL_CREATE, &create));
		JUDGE(f, ret);
		if (ret == -EFAULT)
			stores(name);
		if (!ret || *name)
			EXPECT_EQ(0, destroy(self->control, ret ? (void *)name : create.name));
		ASSERT_EQ(0, stores(NULL)) TH_LOG("failure %u: %s", f.nth, strerror(-ret));
	}
	JUDGE_ALL(40 / step);
}

TEST_F_TIMEOUT(kinds, destroy, SECONDS)
{
	struct failing last = { 0 };

	FOR_SOME_FAILURES(f, variant->kind == LSMEM_KIND_BLOCK ? (slow_step() + 3) / 4 : 1) {
		struct lsmem_create create = create_kind(variant);
		struct lsmem_destroy one = { .size = sizeof(one) };
		int ret;

		ASSERT_EQ(0, call(self->control, LSMEM_CTL_CREATE, &create));
		memcpy(one.name, create.name, sizeof(one.name));
		do {
			INJECT(f, ret = call(self->control, LSMEM_CTL_DESTROY, &one));
		} while (ret == -EBUSY && !usleep(20000));
		JUDGE(f, ret);
		if (ret && stores(NULL))
			EXPECT_EQ(0, destroy(self->control, create.name));
		ASSERT_EQ(0, stores(NULL)) TH_LOG("failure %u: %s", f.nth, strerror(-ret));
	}
	JUDGE_ALL(0);	/* it need not fail at all */
}

/* ---- A daemon ----------------------------------------------------------- */

FIXTURE(attaching) {
	int control;
	struct lsmem_create create;
};

FIXTURE_VARIANT(attaching) {
	uint32_t kind;
};

FIXTURE_VARIANT_ADD(attaching, object) {
	.kind = LSMEM_KIND_OBJECT,
};

FIXTURE_VARIANT_ADD(attaching, block) {
	.kind = LSMEM_KIND_BLOCK,
};

FIXTURE_SETUP(attaching)
{
	ASSERT_EQ(NULL, fail_setup());
	ASSERT_EQ(0, open_error("/dev/lsmem-control", O_RDWR, &self->control));
	self->create = create_of(variant->kind, LSMEM_STORE_DURABLE);
	ASSERT_EQ(0, call(self->control, LSMEM_CTL_CREATE, &self->create));
}

FIXTURE_TEARDOWN(attaching)
{
	EXPECT_EQ(0, destroy(self->control, self->create.name));
	close(self->control);
}

static long long attribute(const struct lsmem_create *create, const char *name)
{
	struct store store;

	memcpy(store.name, create->name, sizeof(store.name));
	return store_attribute(&store, name);
}

static struct lsmem_attach attach_of(const struct lsmem_create *create)
{
	struct lsmem_attach attach = { .size = sizeof(attach), .uuid = { 1, 2, 3 }, .fd = -1 };

	memcpy(attach.name, create->name, sizeof(attach.name));
	return attach;
}

TEST_F_TIMEOUT(attaching, attach, SECONDS)
{
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		struct lsmem_attach attach = attach_of(&self->create);
		int ret, next = dup(self->control);

		close(next);
		INJECT(f, ret = call(self->control, LSMEM_CTL_ATTACH, &attach));
		JUDGE(f, ret);
		if (!ret)
			ASSERT_EQ(next, attach.fd);
		/* After EFAULT the descriptor may be open although its number was not returned. */
		if (!ret || (ret == -EFAULT && attribute(&self->create, "attached")))
			EXPECT_EQ(0, close(next));
		ASSERT_EQ(0, attribute(&self->create, "attached"));
	}
	/* Most failures are in other parts of the kernel, which work without that allocation. */
	JUDGE_ALL(1);
}

/* After an activation that failed, the store is new again when its daemon has detached. */
TEST_F_TIMEOUT(attaching, activate, SECONDS)
{
	struct failing last = { 0 };

	FOR_SOME_FAILURES(f, variant->kind == LSMEM_KIND_BLOCK ? (slow_step() + 3) / 4 : 1) {
		struct lsmem_attach attach = attach_of(&self->create);
		struct lsmem_activate activate = {
			.size = sizeof(activate),
			.era = 1,
			.generation_ceiling = 1000,
			.next_segment = 1,
		};
		char state[16] = "", path[64];
		FILE *file;
		int ret;

		ASSERT_EQ(0, call(self->control, LSMEM_CTL_ATTACH, &attach));
		INJECT(f, ret = call(attach.fd, LSMEM_REPL_ACTIVATE, &activate));
		JUDGE(f, ret);
		EXPECT_EQ(0, close(attach.fd));
		snprintf(path, sizeof(path), "/sys/class/lsmem/%s/state", self->create.name);
		file = fopen(path, "re");
		ASSERT_TRUE(file);
		ASSERT_EQ(1, fscanf(file, "%15s", state));
		fclose(file);
		if (ret && ret != -EFAULT)
			ASSERT_STREQ("new", state) TH_LOG("failure %u: %d", f.nth, ret);
		if (!ret)
			ASSERT_STREQ("active", state);
		if (strcmp(state, "active"))
			continue;
		ASSERT_EQ(0, destroy(self->control, self->create.name));
		self->create = create_of(variant->kind, LSMEM_STORE_DURABLE);
		ASSERT_EQ(0, call(self->control, LSMEM_CTL_CREATE, &self->create));
	}
	JUDGE_ALL(1);
}

/* Write the entry of one object of @length bytes to @buffer. Returns the size of the entry. */
static uint32_t backup_entry(void *buffer, const struct lsmem_attach *attach, uint32_t length)
{
	uint32_t salt = lsmem_segment_salt(attach->uuid, 1, 1), size = lsmem_entry_size(length);
	struct lsmem_entry e = lsmem_entry_make(LSMEM_TYPE_OBJECT, length, lsmem_handle_make(1, 1), 1,
						0, 0, 0);
	uint8_t *payload = (uint8_t *)buffer + lsmem_entry_header(&e);

	memset(buffer, 0, size);
	content_fill(payload, length, 1, 1);
	e.crc = lsmem_entry_crc(&e, crc32c(~0u, payload, length), salt);
	memcpy(buffer, &e, lsmem_entry_header(&e));
	return size;
}

/* The kernel drops what was loaded when the daemon detaches before the activation. */
TEST_F_TIMEOUT(attaching, load, SECONDS)
{
	static uint64_t buffer[1024];
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		struct lsmem_attach attach = attach_of(&self->create);
		struct lsmem_load load = {
			.size = sizeof(load),
			.segment = 1,
			.generation = 1,
			.data = (uintptr_t)buffer,
			.length = backup_entry(buffer, &attach, BLOCK),
		};
		int ret;

		load.sealed = load.length;
		ASSERT_EQ(0, call(self->control, LSMEM_CTL_ATTACH, &attach));
		INJECT(f, ret = call(attach.fd, LSMEM_REPL_LOAD, &load));
		JUDGE(f, ret);
		if (!ret)
			EXPECT_EQ(1, attribute(&self->create, "handles_used"));
		EXPECT_EQ(0, close(attach.fd));
		ASSERT_EQ(0, attribute(&self->create, "handles_used"));
		ASSERT_EQ(0, attribute(&self->create, "live_bytes"));
		ASSERT_EQ(0, attribute(&self->create, "segments"));
	}
	JUDGE_ALL(1);
}

/* If NEXT fails, the attachment cannot be used further; the next one gets all events again. */
TEST_F_TIMEOUT(attaching, stream, SECONDS)
{
	static struct lsmem_event events[256];
	struct lsmem_attach attach = attach_of(&self->create);
	struct lsmem_activate activate = {
		.size = sizeof(activate),
		.era = 1,
		.generation_ceiling = 1000,
		.next_segment = 1,
	};
	struct lsmem_next all = {
		.size = sizeof(all),
		.events = (uintptr_t)events,
		.nr = 256,
	};
	struct failing last = { 0 };
	uint32_t first;

	ASSERT_EQ(0, call(self->control, LSMEM_CTL_ATTACH, &attach));
	ASSERT_EQ(0, call(attach.fd, LSMEM_REPL_ACTIVATE, &activate));
	FOR_EACH_FAILURE(f) {
		struct lsmem_next next = all;
		int ret, fd = attach.fd;

		memset(events, 0, sizeof(events));
		INJECT(f, ret = call(attach.fd, LSMEM_REPL_NEXT, &next));
		JUDGE(f, ret);
		if (!ret)
			ASSERT_LT(1, next.nr);	/* the end of RESUME, and OPEN of spares */
		close(fd);
		attach = attach_of(&self->create);
		INJECT(f, ret = call(self->control, LSMEM_CTL_ATTACH, &attach));
		EXPECT_TRUE(fail_allowed(ret));
		if (ret) {
			close(fd);	/* the new descriptor, if only its number was lost */
			attach = attach_of(&self->create);
			ASSERT_EQ(0, call(self->control, LSMEM_CTL_ATTACH, &attach));
		}
	}
	JUDGE_ALL(1);
	/* Find OPEN of the first spare, which follows RESUME. */
	ASSERT_EQ(0, call(attach.fd, LSMEM_REPL_NEXT, &all));
	for (first = 0; first < all.nr; first++)
		if (events[first].type == LSMEM_EVENT_OPEN)
			break;
	ASSERT_LT(first, all.nr);
	FOR_EACH_FAILURE(f) {
		struct pollfd pollfd = { .fd = attach.fd, .events = POLLIN };
		struct lsmem_ack_one one = { 0 };
		struct lsmem_ack ack = { .size = sizeof(ack), .acks = (uintptr_t)&one, .nr = 1 };
		int ret;

		one.type = LSMEM_EVENT_OPEN;
		one.segment = events[first].segment;
		INJECT(f, ret = call(attach.fd, LSMEM_REPL_ACK, &ack));
		JUDGE(f, ret);
		EXPECT_LE(0, poll(&pollfd, 1, 0));
	}
	JUDGE_ALL(1);
	FOR_EACH_FAILURE(f) {
		struct lsmem_clean clean = { .size = sizeof(clean), .flags = LSMEM_CLEAN_LAST };
		int ret;

		INJECT(f, ret = call(attach.fd, LSMEM_REPL_CLEAN, &clean));
		JUDGE(f, ret);
	}
	JUDGE_ALL(1);
	FOR_EACH_FAILURE(f) {
		struct lsmem_freeze freeze = { .size = sizeof(freeze), .term = 1 };
		int ret;

		INJECT(f, ret = call(attach.fd, LSMEM_REPL_FREEZE, &freeze));
		JUDGE(f, ret);
		freeze = (struct lsmem_freeze){ .size = sizeof(freeze), .flags = LSMEM_FREEZE_THAW };
		INJECT(f, ret = call(attach.fd, LSMEM_REPL_FREEZE, &freeze));
		JUDGE(f, ret);
	}
	JUDGE_ALL(1);
	FOR_EACH_FAILURE(f) {
		struct lsmem_listing listings[2];
		struct lsmem_words words = {
			.size = sizeof(words), .flags = LSMEM_WORDS_BEGIN, .listings = (uintptr_t)listings, .nr = 2,
		};
		int ret;

		INJECT(f, ret = call(attach.fd, LSMEM_REPL_WORDS, &words));
		JUDGE(f, ret);
	}
	JUDGE_ALL(1);
	close(attach.fd);
}

/* ---- Objects ------------------------------------------------------------ */

FIXTURE(object) {
	struct store store;
	struct follower follower;
	struct io_uring ring;
	struct io_uring *through;	/* &ring, or NULL: ioctls */
	uint32_t durable;	/* LSMEM_OPF_DURABLE or 0 */
	__u64 handle;	/* of an object of LENGTH bytes, serial number 0 */
	uint8_t *bytes;
};

/* @ring: the object calls are commands of io_uring. */
FIXTURE_VARIANT(object) {
	uint32_t flags;
	bool ring;
};

FIXTURE_VARIANT_ADD(object, unbacked) {
	.flags = 0,
};

FIXTURE_VARIANT_ADD(object, backed) {
	.flags = LSMEM_STORE_DURABLE,
};

FIXTURE_VARIANT_ADD(object, unbacked_ring) {
	.ring = true,
};

FIXTURE_VARIANT_ADD(object, backed_ring) {
	.flags = LSMEM_STORE_DURABLE,
	.ring = true,
};

#define LENGTH	70000u	/* more than a seglet */

static struct lsmem_op op_of(uint32_t op, uint64_t handle, void *data, uint32_t length)
{
	return (struct lsmem_op){
		.size = sizeof(struct lsmem_op),
		.op = op,
		.handle = handle,
		.data = (uintptr_t)data,
		.length = length,
	};
}

static struct lsmem_stat stat_of(const struct store *store)
{
	struct lsmem_stat stat = { .size = sizeof(stat) };

	if (call(store->fd, LSMEM_IOC_STAT, &stat))
		memset(&stat, 0xff, sizeof(stat));
	return stat;
}

/* The serial number of an object's contents; ~0 if it does not exist or its bytes are wrong. */
static uint64_t serial_of(const struct store *store, uint64_t handle, uint64_t id)
{
	static uint8_t bytes[LENGTH];
	struct lsmem_op op = op_of(LSMEM_OP_READ, handle, bytes, sizeof(bytes));
	uint64_t serial;

	if (call(store->fd, LSMEM_IOC_READ, &op) ||
	    !content_right(bytes, op.length, id, &serial))
		return ~0ull;
	return serial;
}

static int alloc(const struct store *store, uint64_t id, uint32_t length, uint8_t *bytes,
		 __u64 *handle)
{
	struct lsmem_op op = op_of(LSMEM_OP_ALLOC, 0, bytes, length);
	int ret;

	content_fill(bytes, length, id, 0);
	ret = call(store->fd, LSMEM_IOC_ALLOC, &op);
	*handle = op.handle;
	return ret;
}

FIXTURE_SETUP(object)
{
	ASSERT_EQ(NULL, fail_setup());
	if (variant->ring) {
		int ret = io_uring_queue_init(8, &self->ring, 0);

		if (ret == -ENOSYS)
			SKIP(return, "this kernel has no io_uring");
		ASSERT_EQ(0, ret);
		self->through = &self->ring;
	}
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, HANDLES, variant->flags));
	if (variant->flags) {
		self->durable = LSMEM_OPF_DURABLE;
		ASSERT_EQ(0, follower_start(&self->follower, self->store.name));
	}
	self->bytes = malloc(LENGTH);
	ASSERT_TRUE(self->bytes);
	ASSERT_EQ(0, alloc(&self->store, 1, LENGTH, self->bytes, &self->handle));
}

FIXTURE_TEARDOWN(object)
{
	if (!self->bytes)
		return;
	if (self->through)
		io_uring_queue_exit(&self->ring);
	/* Make everything durable before the daemon stops. */
	if (variant->flags) {
		struct lsmem_sync sync = { .size = sizeof(sync) };

		EXPECT_EQ(0, call(self->store.fd, LSMEM_IOC_SYNC, &sync));
		follower_stop(&self->follower);
		EXPECT_STREQ("", self->follower.wrong);
		follower_free(&self->follower);
	}
	/* This returns EBUSY if an open() that failed has left a reference to the store. */
	EXPECT_EQ(0, store_destroy(&self->store));
	free(self->bytes);
}

/* A snapshot: after an error none is left, and its descriptor neither. */
TEST_F_TIMEOUT(object, snapshot, SECONDS)
{
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		struct lsmem_snapshot snapshot = { .size = sizeof(snapshot) };
		struct lsmem_snapshot_done done = { .size = sizeof(done), .seglet = 5 };
		int ret, lost = dup(self->store.fd);

		close(lost);	/* the next descriptor */
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_SNAPSHOT, &snapshot);
		JUDGE(f, ret);
		/* The result could not be copied back: the descriptor is there, and must be that. */
		if (ret == -EFAULT && store_attribute(&self->store, "cleaner/snapshots"))
			snapshot.fd = lost;
		else if (ret)
			snapshot.fd = -1;
		if (snapshot.fd >= 0) {
			EXPECT_EQ(1, store_attribute(&self->store, "cleaner/snapshots"));
			EXPECT_EQ(0, call(snapshot.fd, LSMEM_IOC_SNAPSHOT_DONE, &done));
			EXPECT_EQ(0, close(snapshot.fd));
		}
		EXPECT_EQ(0, store_attribute(&self->store, "cleaner/snapshots"))
			TH_LOG("failure %u: %s", f.nth, strerror(-ret));
	}
	JUDGE_ALL(1);
}

/* Memory that clients share, of an id that has none yet each time. */
TEST_F_TIMEOUT(object, shared, SECONDS)
{
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		struct lsmem_shared shared = { .size = sizeof(shared), .id = f.nth, .bytes = 1ull << 30 };
		struct lsmem_shared found = { .size = sizeof(found), .id = f.nth };
		int ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_SHARED, &shared);

		JUDGE(f, ret);
		if (!ret)
			EXPECT_EQ(0, close(shared.fd));
		/* It is there as a whole or not at all. */
		ret = call(self->store.fd, LSMEM_IOC_SHARED, &found);
		EXPECT_TRUE(!ret || ret == -ENOENT);
		if (!ret) {
			EXPECT_EQ(1ull << 30, found.bytes);
			EXPECT_EQ(0, close(found.fd));
		}
	}
	JUDGE_ALL(1);
}

/* A watch: after an error no ring is left, with its number of entries, and no eventfd. */
TEST_F_TIMEOUT(object, watch, SECONDS)
{
	struct failing last = { 0 };
	int signals;

	signals = eventfd(0, EFD_CLOEXEC);
	ASSERT_LE(0, signals);
	FOR_EACH_FAILURE(f) {
		struct lsmem_watch watch = { .size = sizeof(watch), .table = 3, .entries = 1u << f.nth % 16,
					     .flags = LSMEM_WATCH_EVENTFD | LSMEM_WATCH_NONBLOCK };
		int ret, lost;

		watch.eventfd = signals;
		lost = dup(self->store.fd);
		close(lost);	/* the next descriptor */
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_WATCH, &watch);
		JUDGE(f, ret);
		/* The result may not have been copied back: then the descriptor is there, and must be that. */
		if (!ret || (ret == -EFAULT && fcntl(lost, F_GETFD) == FD_CLOEXEC))
			EXPECT_EQ(0, close(ret ? lost : watch.fd));
		watch = (struct lsmem_watch){ .size = sizeof(watch), .table = 3, .entries = 1u << (f.nth + 1) % 16 };
		ASSERT_EQ(0, call(self->store.fd, LSMEM_IOC_WATCH, &watch));
		EXPECT_EQ(1u << (f.nth + 1) % 16, watch.entries) TH_LOG("failure %u: %s", f.nth, strerror(-ret));
		EXPECT_EQ(0, close(watch.fd));
	}
	EXPECT_EQ(0, close(signals));
	JUDGE_ALL(1);
}

TEST_F_TIMEOUT(object, alloc, SECONDS)
{
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		struct lsmem_stat before = stat_of(&self->store), after;
		struct lsmem_op op = op_of(LSMEM_OP_ALLOC, 0, self->bytes, LENGTH);
		int ret;

		op.flags = self->durable;
		content_fill(self->bytes, LENGTH, 2, f.nth);
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_ALLOC, &op);
		JUDGE(f, ret);
		after = stat_of(&self->store);
		if (!ret) {
			EXPECT_EQ(f.nth, serial_of(&self->store, op.handle, 2));
		} else if (after.handles_used == before.handles_used) {
			EXPECT_EQ(before.live_bytes, after.live_bytes);
			EXPECT_EQ(0, alloc(&self->store, 3, LENGTH, self->bytes, &op.handle));
		} else {
			EXPECT_EQ(-EFAULT, ret);
			EXPECT_EQ(before.handles_used + 1, after.handles_used);
			EXPECT_EQ(before.live_bytes + lsmem_entry_size(LENGTH), after.live_bytes);
		}
	}
	JUDGE_ALL(1);
}

TEST_F_TIMEOUT(object, read, SECONDS)
{
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		/* A new buffer each time, so that its pages are allocated during the call. */
		uint8_t *fresh = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct lsmem_op op = op_of(LSMEM_OP_READ, self->handle, fresh, LENGTH);
		uint64_t serial;
		int ret;

		ASSERT_NE(MAP_FAILED, fresh);
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_READ, &op);
		JUDGE(f, ret);
		if (!ret) {
			EXPECT_EQ(LENGTH, op.length);
			EXPECT_TRUE(content_right(fresh, LENGTH, 1, &serial));
		}
		EXPECT_EQ(0, serial_of(&self->store, self->handle, 1));
		munmap(fresh, LENGTH);
	}
	JUDGE_ALL(1);
}

/* As read, of the object that an index has: after an error the operation still names the index. */
TEST_F_TIMEOUT(object, by_index_read, SECONDS)
{
	uint64_t index = lsmem_handle_index(self->handle);
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		uint8_t *fresh = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct lsmem_op op = op_of(LSMEM_OP_READ, index, fresh, LENGTH);
		uint64_t serial;
		int ret;

		ASSERT_NE(MAP_FAILED, fresh);
		op.flags = LSMEM_OPF_INDEX;
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_READ, &op);
		JUDGE(f, ret);
		EXPECT_EQ(ret ? index : self->handle, op.handle);
		if (ret)
			EXPECT_EQ(0, call(self->store.fd, LSMEM_IOC_READ, &op));
		EXPECT_EQ(self->handle, op.handle);
		EXPECT_EQ(LENGTH, op.length);
		EXPECT_TRUE(content_right(fresh, LENGTH, 1, &serial));
		munmap(fresh, LENGTH);
	}
	JUDGE_ALL(1);
}

/* A reserved index has the whole object or none, and after an error it can be given one. */
TEST_F_TIMEOUT(object, by_index_alloc, SECONDS)
{
	uint64_t index = stat_of(&self->store).handles_max + LSMEM_RESERVED_ROOTS;
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		struct lsmem_stat before = stat_of(&self->store), after;
		struct lsmem_op op = op_of(LSMEM_OP_ALLOC, index, self->bytes, LENGTH);
		struct lsmem_op found = op_of(LSMEM_OP_READ, index, NULL, 0);
		int ret, there;

		op.flags = self->durable | LSMEM_OPF_INDEX;
		found.flags = LSMEM_OPF_INDEX;
		content_fill(self->bytes, LENGTH, 7, f.nth);
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_ALLOC, &op);
		JUDGE(f, ret);
		there = call(self->store.fd, LSMEM_IOC_READ, &found);
		after = stat_of(&self->store);
		if (there) {
			EXPECT_EQ(-ENOENT, there);
			EXPECT_NE(0, ret);
			EXPECT_EQ(before.handles_used, after.handles_used);
			EXPECT_EQ(before.live_bytes, after.live_bytes);
			EXPECT_EQ(index, op.handle);
			EXPECT_EQ(0, call(self->store.fd, LSMEM_IOC_ALLOC, &op));
			found.handle = op.handle;
		} else {
			EXPECT_TRUE(!ret || ret == -EFAULT);
			EXPECT_EQ(before.handles_used + 1, after.handles_used);
			EXPECT_EQ(before.live_bytes + lsmem_entry_size(LENGTH), after.live_bytes);
			EXPECT_EQ(ret ? index : found.handle, op.handle);
		}
		EXPECT_EQ(index, lsmem_handle_index(found.handle));
		EXPECT_EQ(f.nth, serial_of(&self->store, found.handle, 7));
		op = op_of(LSMEM_OP_FREE, found.handle, NULL, 0);
		ASSERT_EQ(0, call(self->store.fd, LSMEM_IOC_FREE, &op));
	}
	JUDGE_ALL(1);
}

TEST_F_TIMEOUT(object, replace, SECONDS)
{
	struct failing last = { 0 };
	uint64_t now = 0;

	FOR_EACH_FAILURE(f) {
		struct lsmem_op op = op_of(LSMEM_OP_REPLACE, self->handle, self->bytes, LENGTH);
		struct lsmem_stat before = stat_of(&self->store), after;
		uint64_t serial;
		int ret;

		op.flags = self->durable;
		content_fill(self->bytes, LENGTH, 1, f.nth);
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_REPLACE, &op);
		JUDGE(f, ret);
		after = stat_of(&self->store);
		EXPECT_EQ(before.live_bytes, after.live_bytes);
		serial = serial_of(&self->store, self->handle, 1);
		EXPECT_TRUE(!ret || ret == -EFAULT || serial == now);
		if (ret && serial == now)
			EXPECT_EQ(0, call(self->store.fd, LSMEM_IOC_REPLACE, &op));
		now = serial_of(&self->store, self->handle, 1);
		ASSERT_EQ(f.nth, now);
	}
	JUDGE_ALL(1);
}

TEST_F_TIMEOUT(object, free, SECONDS)
{
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		struct lsmem_stat before;
		struct lsmem_op op = op_of(LSMEM_OP_FREE, 0, NULL, 0);
		bool there;
		int ret;

		ASSERT_EQ(0, alloc(&self->store, 4, 100, self->bytes, &op.handle));
		before = stat_of(&self->store);
		op.flags = self->durable;
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_FREE, &op);
		JUDGE(f, ret);
		there = serial_of(&self->store, op.handle, 4) == 0;
		EXPECT_TRUE(!ret || ret == -EFAULT || there);
		if (ret && there)
			EXPECT_EQ(0, call(self->store.fd, LSMEM_IOC_FREE, &op));
		EXPECT_EQ(~0ull, serial_of(&self->store, op.handle, 4));
		EXPECT_EQ(before.handles_used - 1, stat_of(&self->store).handles_used);
	}
	JUDGE_ALL(1);
}

/* If a vector fails, its operations up to some point have been carried out, and no later one. */
TEST_F_TIMEOUT(object, vector, SECONDS)
{
	struct failing last = { 0 };
	uint64_t now = 0;

	FOR_EACH_FAILURE(f) {
		struct lsmem_op ops[4];
		struct lsmem_vector vector = {
			.size = sizeof(vector),
			.flags = self->durable,
			.ops = (uintptr_t)ops,
			.nr = 4,
			.stride = sizeof(ops[0]),
		};
		uint8_t target[100];
		uint64_t used, serial;
		__u64 victim;
		bool replaced, freed, made;
		int ret;

		ASSERT_EQ(0, alloc(&self->store, 5, 100, self->bytes, &victim));
		used = stat_of(&self->store).handles_used;
		content_fill(self->bytes, LENGTH, 1, f.nth);
		ops[0] = op_of(LSMEM_OP_REPLACE, self->handle, self->bytes, LENGTH);
		ops[1] = op_of(LSMEM_OP_FREE, victim, NULL, 0);
		ops[2] = op_of(LSMEM_OP_ALLOC, 0, self->bytes, 100);
		ops[3] = op_of(LSMEM_OP_READ, self->handle, target, sizeof(target));
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_VECTOR, &vector);
		JUDGE(f, ret);
		serial = serial_of(&self->store, self->handle, 1);
		replaced = serial == f.nth;
		ASSERT_TRUE(replaced || serial == now);
		now = serial;
		freed = serial_of(&self->store, victim, 5) != 0;
		made = stat_of(&self->store).handles_used + freed > used;
		if (!ret) {
			/* A single operation may have failed; its result says so. */
			EXPECT_EQ(4, vector.nr);
			EXPECT_EQ(replaced, !ops[0].result);
			EXPECT_EQ(freed, !ops[1].result);
			EXPECT_EQ(made, !ops[2].result);
			EXPECT_TRUE(f.hit || (replaced && freed && made && !ops[3].result));
		} else {
			EXPECT_TRUE(replaced >= freed && freed >= made);
		}
		if (!freed) {
			ops[1] = op_of(LSMEM_OP_FREE, victim, NULL, 0);
			EXPECT_EQ(0, call(self->store.fd, LSMEM_IOC_FREE, &ops[1]));
		}
	}
	JUDGE_ALL(1);
}

/* A group is made or not, as a whole. */
TEST_F_TIMEOUT(object, group, SECONDS)
{
	struct failing last = { 0 };
	uint64_t now = 0;
	__u64 checked;

	ASSERT_EQ(0, alloc(&self->store, 6, 100, self->bytes, &checked));
	FOR_EACH_FAILURE(f) {
		struct lsmem_op ops[4];
		struct lsmem_vector vector = {
			.size = sizeof(vector),
			.flags = self->durable | LSMEM_OPF_ATOMIC,
			.ops = (uintptr_t)ops,
			.nr = 4,
			.stride = sizeof(ops[0]),
		};
		uint64_t used, serial;
		__u64 victim;
		bool replaced, freed, made;
		int ret;

		ASSERT_EQ(0, alloc(&self->store, 5, 100, self->bytes, &victim));
		used = stat_of(&self->store).handles_used;
		content_fill(self->bytes, LENGTH, 1, f.nth);
		ops[0] = op_of(LSMEM_OP_REPLACE, self->handle, self->bytes, LENGTH);
		ops[1] = op_of(LSMEM_OP_FREE, victim, NULL, 0);
		ops[2] = op_of(LSMEM_OP_ALLOC, 0, self->bytes, 100);
		ops[3] = op_of(LSMEM_OP_CHECK, checked, NULL, 0);
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_VECTOR, &vector);
		JUDGE(f, ret);
		serial = serial_of(&self->store, self->handle, 1);
		replaced = serial == f.nth;
		ASSERT_TRUE(replaced || serial == now);
		now = serial;
		freed = serial_of(&self->store, victim, 5) != 0;
		made = stat_of(&self->store).handles_used + freed > used;
		EXPECT_TRUE(replaced == freed && freed == made);
		/* The copy of the results may have failed. */
		EXPECT_TRUE(ret ? !replaced || ret == -EFAULT : replaced);
		EXPECT_EQ(0, serial_of(&self->store, checked, 6));
		if (!freed) {
			ops[1] = op_of(LSMEM_OP_FREE, victim, NULL, 0);
			EXPECT_EQ(0, call(self->store.fd, LSMEM_IOC_FREE, &ops[1]));
		}
	}
	JUDGE_ALL(1);
}

TEST_F_TIMEOUT(object, asking, SECONDS)
{
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		struct lsmem_query query = { .size = sizeof(query) };
		int ret;

		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_QUERY, &query);
		JUDGE(f, ret);
		if (!ret)
			EXPECT_EQ(LSMEM_ABI, query.abi);
	}
	JUDGE_ALL(1);
	FOR_EACH_FAILURE(f) {
		struct lsmem_stat stat = { .size = sizeof(stat) };
		int ret;

		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_STAT, &stat);
		JUDGE(f, ret);
		if (!ret)
			EXPECT_EQ(HANDLES, stat.handles_max);
	}
	JUDGE_ALL(1);
}

TEST_F_TIMEOUT(object, sync, SECONDS)
{
	struct failing last = { 0 };

	if (!variant->flags)
		return;	/* a volatile store refuses it: tests/guest/object.c */
	FOR_EACH_FAILURE(f) {
		struct lsmem_sync sync = { .size = sizeof(sync) };
		int ret;

		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_SYNC, &sync);
		JUDGE(f, ret);
	}
	JUDGE_ALL(1);
	FOR_EACH_FAILURE(f) {
		int ret;

		INJECT(f, ret = fsync(self->store.fd) ? -errno : 0);
		JUDGE(f, ret);
	}
}

TEST_F_TIMEOUT(object, open, SECONDS)
{
	struct failing last = { 0 };

	if (variant->ring)
		return;		/* no command */
	FOR_EACH_FAILURE(f) {
		int ret, fd;

		INJECT(f, ret = open_error(self->store.path, O_RDWR, &fd));
		JUDGE(f, ret);
		if (!ret)
			EXPECT_EQ(0, close(fd));
	}
	JUDGE_ALL(1);
	FOR_EACH_FAILURE(f) {
		int ret = open("/dev/lsmem-control", O_RDWR | O_CLOEXEC), fd;

		ASSERT_LE(0, ret);
		/* close() must not fail. */
		INJECT(f, fd = close(ret) ? -errno : 0);
		JUDGE(f, fd);
	}
}

static void touch(const uint8_t *byte)
{
	(void)__atomic_load_n(byte, __ATOMIC_RELAXED);
}

/* Map a window, and read its first and its last byte, with failures. */
static void window(struct __test_metadata *_metadata, int fd, const char *name,
		   struct lsmem_window where)
{
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		const uint8_t *map;
		int ret;

		INJECT(f, map = mmap(NULL, where.length, PROT_READ, MAP_SHARED, fd,
				     (off_t)where.offset));
		ret = map == MAP_FAILED ? -errno : 0;
		JUDGE(f, ret);
		if (!ret)
			munmap((void *)map, where.length);
	}
	TH_LOG("%s: %u failures, %u errors", name, last.nth - 1, last.errors);
	EXPECT_LT(0, last.errors);
	FOR_EACH_FAILURE(f) {
		const uint8_t *map = mmap(NULL, where.length, PROT_READ, MAP_SHARED, fd,
					  (off_t)where.offset);

		ASSERT_NE(MAP_FAILED, map);
		/* A page fault without memory is repeated: the access must succeed in the end. */
		INJECT(f, touch(map); touch(map + where.length - 1));
		JUDGE(f, 0);
		munmap((void *)map, where.length);
	}
}

TEST_F_TIMEOUT(object, windows, SECONDS)
{
	const struct lsmem_info *info;
	const struct lsmem_window page = { LSMEM_WINDOW_INFO, BLOCK };

	if (variant->ring)
		return;		/* no command */
	info = mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, self->store.fd, LSMEM_WINDOW_INFO);
	ASSERT_NE(MAP_FAILED, info);
	window(_metadata, self->store.fd, "info page", page);
	window(_metadata, self->store.fd, "seglets", info->seglets);
	window(_metadata, self->store.fd, "seglet table", info->seglet_table);
	window(_metadata, self->store.fd, "handles", info->handles);
	window(_metadata, self->store.fd, "slots", info->slots);
	if (variant->flags) {
		int fd = self->follower.attach.fd;

		window(_metadata, fd, "daemon's info page", page);
		window(_metadata, fd, "daemon's seglets", info->seglets);
		window(_metadata, fd, "daemon's seglet table", info->seglet_table);
	}
	munmap((void *)info, BLOCK);
}

/* ---- sysfs, debugfs ----------------------------------------------------- */

static int read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;
	ssize_t length;

	if (fd < 0)
		return -errno;
	length = read(fd, text, size - 1);
	ret = length < 0 ? -errno : 0;
	text[length < 0 ? 0 : length] = '\0';
	close(fd);
	return ret;
}

TEST_F_TIMEOUT(object, sysfs, SECONDS)
{
	struct failing last = { 0 };
	long long now = store_attribute(&self->store, "limits/view_ms");

	if (variant->ring)
		return;		/* no command */
	FOR_EACH_FAILURE(f) {
		int ret;

		INJECT(f, ret = store_set_attribute(&self->store, "limits/view_ms",
						    2000 + f.nth));
		JUDGE(f, ret);
		if (!ret)
			now = 2000 + f.nth;
		EXPECT_EQ(now, store_attribute(&self->store, "limits/view_ms"));
	}
	JUDGE_ALL(1);
}

TEST_F_TIMEOUT(object, files, SECONDS)
{
	static const char *const format[] = {
		"/sys/class/lsmem/%s/live_bytes", "/sys/class/lsmem/%s/uevent",
		"/sys/class/lsmem/%s/stats/appends", "/sys/kernel/debug/lsmem/%s/segments",
	};
	struct failing last = { 0 };
	char path[128], text[8192];
	size_t i;

	if (variant->ring)
		return;		/* no command */
	for (i = 0; i < sizeof(format) / sizeof(*format); i++) {
		snprintf(path, sizeof(path), format[i], self->store.name);
		FOR_EACH_FAILURE(f) {
			int ret;

			INJECT(f, ret = read_file(path, text, sizeof(text)));
			JUDGE(f, ret);
			EXPECT_TRUE(ret || *text) TH_LOG("%s", path);
		}
		JUDGE_ALL(1);
	}
}

/* ---- Block I/O ---------------------------------------------------------- */

FIXTURE(disk) {
	struct store store;	/* @store.fd is the disk, opened with O_DIRECT */
	struct follower follower;
	int control;
	uint8_t *bytes;
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
	struct lsmem_create create = create_of(LSMEM_KIND_BLOCK, variant->flags);

	ASSERT_EQ(NULL, fail_setup());
	ASSERT_EQ(0, open_error("/dev/lsmem-control", O_RDWR, &self->control));
	ASSERT_EQ(0, call(self->control, LSMEM_CTL_CREATE, &create));
	memcpy(self->store.name, create.name, sizeof(self->store.name));
	snprintf(self->store.path, sizeof(self->store.path), "/dev/%s", self->store.name);
	if (variant->flags)
		ASSERT_EQ(0, follower_start(&self->follower, self->store.name));
	ASSERT_EQ(0, open_error(self->store.path, O_RDWR | O_DIRECT, &self->store.fd));
	ASSERT_EQ(0, posix_memalign((void **)&self->bytes, BLOCK, IO));
}

FIXTURE_TEARDOWN(disk)
{
	close(self->store.fd);
	if (variant->flags) {
		follower_stop(&self->follower);
		EXPECT_STREQ("", self->follower.wrong);
		follower_free(&self->follower);
	}
	EXPECT_EQ(0, destroy(self->control, self->store.name));
	close(self->control);
	free(self->bytes);
}

static int blocks_write(int fd, uint8_t *bytes, uint64_t serial)
{
	uint32_t i;
	ssize_t ret;

	for (i = 0; i < IO / BLOCK; i++)
		content_fill(bytes + i * BLOCK, BLOCK, i, serial);
	ret = pwrite(fd, bytes, IO, 0);
	return ret < 0 ? -errno : ret == IO ? 0 : -EIO;
}

static int blocks_read(int fd, uint8_t *bytes)
{
	ssize_t ret = pread(fd, bytes, IO, 0);

	return ret < 0 ? -errno : ret == IO ? 0 : -EIO;
}

static bool is_zero(const uint8_t *bytes)
{
	return !bytes[0] && !memcmp(bytes, bytes + 1, BLOCK - 1);
}

/* Does each block have the whole contents of write @before or @after?  ~0 stands for zeroes. */
static bool blocks_are(int fd, uint8_t *bytes, uint64_t before, uint64_t after)
{
	uint64_t serial;
	uint32_t i;

	if (blocks_read(fd, bytes))
		return false;
	for (i = 0; i < IO / BLOCK; i++) {
		if (is_zero(bytes + i * BLOCK))
			serial = ~0ull;
		else if (!content_right(bytes + i * BLOCK, BLOCK, i, &serial))
			return false;
		if (serial != before && serial != after)
			return false;
	}
	return true;
}

TEST_F_TIMEOUT(disk, write, SECONDS)
{
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		int ret;

		ASSERT_EQ(0, blocks_write(self->store.fd, self->bytes, 1));
		INJECT(f, ret = blocks_write(self->store.fd, self->bytes, 1 + f.nth));
		JUDGE(f, ret);
		EXPECT_TRUE(blocks_are(self->store.fd, self->bytes, ret ? 1 : 1 + f.nth,
				       1 + f.nth));
	}
	JUDGE_ALL(1);
	/* Each write followed by fsync(). */
	FOR_EACH_FAILURE(f) {
		int ret;

		INJECT(f, ret = blocks_write(self->store.fd, self->bytes, f.nth) ?:
				fsync(self->store.fd) ? -errno : 0);
		JUDGE(f, ret);
	}
}

TEST_F_TIMEOUT(disk, read, SECONDS)
{
	struct failing last = { 0 };

	ASSERT_EQ(0, blocks_write(self->store.fd, self->bytes, 1));
	FOR_EACH_FAILURE(f) {
		int ret;

		memset(self->bytes, 0, IO);
		INJECT(f, ret = blocks_read(self->store.fd, self->bytes));
		JUDGE(f, ret);
		EXPECT_TRUE(blocks_are(self->store.fd, self->bytes, 1, 1));
	}
	JUDGE_ALL(1);
}

static void erase(struct __test_metadata *_metadata, int fd, uint8_t *bytes, unsigned long request)
{
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		uint64_t range[2] = { 0, IO };
		int ret;

		ASSERT_EQ(0, blocks_write(fd, bytes, 1));
		INJECT(f, ret = call(fd, request, range));
		JUDGE(f, ret);
		EXPECT_TRUE(blocks_are(fd, bytes, ret ? 1 : ~0ull, ~0ull));
	}
	TH_LOG("%u failures, %u errors", last.nth - 1, last.errors);
}

TEST_F_TIMEOUT(disk, erase, SECONDS)
{
	erase(_metadata, self->store.fd, self->bytes, BLKDISCARD);
	erase(_metadata, self->store.fd, self->bytes, BLKZEROOUT);
}

TEST_F_TIMEOUT(disk, open, SECONDS)
{
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		int ret, fd;

		INJECT(f, ret = open_error(self->store.path, O_RDWR | O_DIRECT, &fd));
		JUDGE(f, ret);
		if (!ret)
			EXPECT_EQ(0, close(fd));
	}
	JUDGE_ALL(1);
	FOR_EACH_FAILURE(f) {
		int ret;

		INJECT(f, ret = call(self->store.fd, BLKFLSBUF, NULL));
		JUDGE(f, ret);
	}
}

/*
 * A file system on the disk.  The file system decides which errno mount(2) returns.  After a
 * failure the disk must be unchanged and closed, so that the next mount succeeds.
 */
TEST_F_TIMEOUT(disk, mount, SECONDS)
{
	char point[] = "/tmp/failnth.XXXXXX", command[128];
	unsigned int errors = 0;

	ASSERT_NE(NULL, mkdtemp(point));
	close(self->store.fd);
	snprintf(command, sizeof(command), "mkfs.ext4 -q -F %s", self->store.path);
	ASSERT_EQ(0, system(command));
	FOR_SOME_FAILURES(f, slow_step()) {
		int ret;

		ASSERT_GT(NTH_MAX, f.nth);
		INJECT(f, ret = mount(self->store.path, point, "ext4", 0, "") ? -errno : 0);
		if (!f.hit)
			EXPECT_EQ(0, ret);
		errors += !!ret;
		if (!ret)
			ASSERT_EQ(0, umount(point)) TH_LOG("%m");
	}
	TH_LOG("%u errors", errors);
	EXPECT_LT(0, errors);
	ASSERT_EQ(0, mount(self->store.path, point, "ext4", 0, ""));
	EXPECT_EQ(0, umount(point));
	rmdir(point);
	ASSERT_EQ(0, open_error(self->store.path, O_RDWR | O_DIRECT, &self->store.fd));
}

TEST_HARNESS_MAIN
