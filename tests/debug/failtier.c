// SPDX-License-Identifier: GPL-2.0
/*
 * Calls on objects that are on backups only, and those of their daemon, with each allocation and each
 * user copy made to fail in turn; as failnth.c.
 *
 * After an error nothing has changed: the object is there, and the same call without a failure succeeds.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "failnth.h"
#include "follower.h"
#include "keeper.h"
#include "store.h"

#define SECONDS		600	/* time limit of a test */
#define OBJECTS		900u	/* each is used for one call */
#define LENGTH		1500u	/* some cross blocks */
#define NEIGHBOURS	4u	/* of a call that reads through: one request */
#define SOON_MS		100	/* the lowest bound of the wait for a fetch */

static const uint8_t uuid[LSMEM_UUID_BYTES] = { 1, 2, 3 };

FIXTURE(cold) {
	struct store store;
	struct follower follower;
	struct keeper keeper;
	struct io_uring ring;
	struct io_uring *through;	/* &ring, or NULL: ioctls */
	struct lsmem_directory_entry listings[OBJECTS];
	uint32_t next;			/* index of the next object to use */
};

FIXTURE_VARIANT(cold) {
	bool ring;
};

FIXTURE_VARIANT_ADD(cold, ioctl) {
	.ring = false,
};

FIXTURE_VARIANT_ADD(cold, ring) {
	.ring = true,
};

/* Make segment 1 of the backup: objects with the indices from 1 on. */
static void frame_make(struct keeper_frame *frame, struct lsmem_directory_entry *listings)
{
	uint32_t salt = lsmem_segment_salt(uuid, 1, 1), at = 0, i;

	frame->id = 1;
	frame->bytes = mmap(NULL, LSMEM_SEGMENT_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	for (i = 0; i < OBJECTS; i++) {
		struct lsmem_entry e;
		uint8_t *payload;

		at = lsmem_entry_start(at);
		e = lsmem_entry_make(LSMEM_TYPE_OBJECT, LENGTH, lsmem_handle_make(i + 1, 1), 1, 0, 0, at);
		payload = frame->bytes + at + lsmem_entry_header(&e);
		content_fill(payload, LENGTH, i + 1, 0);
		e.crc = lsmem_entry_crc(&e, crc32c(~0u, payload, LENGTH), salt);
		memcpy(frame->bytes + at, &e, lsmem_entry_header(&e));
		listings[i] = lsmem_entry_listing(&e, at);
		at += lsmem_entry_bytes(&e);
	}
	frame->length = at;
}

static struct lsmem_placement placement_of(const struct keeper_frame *frame,
					   const struct lsmem_directory_entry *listings)
{
	return (struct lsmem_placement){
		.size = sizeof(struct lsmem_placement),
		.segment = frame->id,
		.generation = 1,
		.sealed = frame->length,
		.entries = (uintptr_t)listings,
		.nr = OBJECTS,
	};
}

FIXTURE_SETUP(cold)
{
	struct lsmem_placement place;

	ASSERT_EQ(NULL, fail_setup());
	if (variant->ring) {
		int ret = io_uring_queue_init(8, &self->ring, 0);

		if (ret == -ENOSYS)
			SKIP(return, "this kernel has no io_uring");
		ASSERT_EQ(0, ret);
		self->through = &self->ring;
	}
	self->next = 1;
	keeper_init(&self->keeper);
	crc32c(0, "", 1);
	frame_make(&self->keeper.frames[0], self->listings);
	place = placement_of(&self->keeper.frames[0], self->listings);
	ASSERT_EQ(0, store_create_tiered(&self->store, STORE_BYTES, 2 * STORE_BYTES, OBJECTS + 100,
					 LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_attach_as(&self->follower, self->store.name, uuid));
	self->follower.keeper = &self->keeper;
	ASSERT_EQ(0, call(self->follower.attach.fd, LSMEM_REPL_PLACE, &place));
	ASSERT_EQ(0, follower_activate(&self->follower, &(struct lsmem_activate){
		.size = sizeof(struct lsmem_activate),
		.flags = LSMEM_ACTIVATE_COLD | LSMEM_ACTIVATE_UNVERIFIED,
		.era = 1,
		.generation_floor = 1,
		.generation_ceiling = 1u << 20,
		.next_segment = 2,
	}));
	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
}

FIXTURE_TEARDOWN(cold)
{
	struct lsmem_sync sync = { .size = sizeof(sync) };

	if (self->through)
		io_uring_queue_exit(&self->ring);
	EXPECT_EQ(0, call(self->store.fd, LSMEM_IOC_SYNC, &sync));
	keeper_stop(&self->keeper);
	EXPECT_EQ(0, atomic_load(&self->keeper.error));
	EXPECT_EQ(0, store_attribute(&self->store, "tier/fetch_failures"));
	follower_stop(&self->follower);
	EXPECT_STREQ("", self->follower.wrong);
	follower_free(&self->follower);
	keeper_free(&self->keeper);
	EXPECT_EQ(0, store_destroy(&self->store));
}

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

/* The serial number of an object's contents; ~0 if it does not exist or its bytes are wrong. */
static uint64_t serial_of(const struct store *store, uint32_t index)
{
	static uint8_t bytes[LENGTH + 1];
	struct lsmem_op op = op_of(LSMEM_OP_READ, lsmem_handle_make(index, 1), bytes, sizeof(bytes));
	uint64_t serial;

	if (call(store->fd, LSMEM_IOC_READ, &op) || !content_right(bytes, op.length, index, &serial))
		return ~0ull;
	return serial;
}

/* ---- Object calls ------------------------------------------------------- */

TEST_F_TIMEOUT(cold, read, SECONDS)
{
	struct failing last = { 0 };
	uint8_t bytes[LENGTH];
	uint64_t serial;

	FOR_EACH_FAILURE(f) {
		uint32_t index = self->next++;
		struct lsmem_op op = op_of(LSMEM_OP_READ, lsmem_handle_make(index, 1), bytes, LENGTH);
		int ret;

		ASSERT_GE(OBJECTS, index);
		memset(bytes, 0, sizeof(bytes));
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_READ, &op);
		JUDGE(f, ret);
		if (!ret)
			EXPECT_TRUE(content_right(bytes, LENGTH, index, &serial) && !serial);
		EXPECT_EQ(0, serial_of(&self->store, index));
	}
	JUDGE_ALL(1);
}

TEST_F_TIMEOUT(cold, replace, SECONDS)
{
	struct failing last = { 0 };
	uint8_t bytes[LENGTH];

	FOR_EACH_FAILURE(f) {
		uint32_t index = self->next++;
		struct lsmem_op op = op_of(LSMEM_OP_REPLACE, lsmem_handle_make(index, 1), bytes, LENGTH);
		long long live = store_attribute(&self->store, "live_bytes");
		uint64_t serial;
		int ret;

		ASSERT_GE(OBJECTS, index);
		content_fill(bytes, LENGTH, index, f.nth);
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_REPLACE, &op);
		JUDGE(f, ret);
		serial = serial_of(&self->store, index);
		EXPECT_TRUE(serial == f.nth || (ret && !serial)) TH_LOG("%d, serial %llu", ret, (unsigned long long)serial);
		EXPECT_EQ(live, store_attribute(&self->store, "live_bytes"));
		EXPECT_EQ(0, call(self->store.fd, LSMEM_IOC_REPLACE, &op));
		EXPECT_EQ(f.nth, serial_of(&self->store, index));
	}
	JUDGE_ALL(1);
}

TEST_F_TIMEOUT(cold, free, SECONDS)
{
	struct failing last = { 0 };

	FOR_EACH_FAILURE(f) {
		uint32_t index = self->next++;
		struct lsmem_op op = op_of(LSMEM_OP_FREE, lsmem_handle_make(index, 1), NULL, 0);
		bool there;
		int ret;

		ASSERT_GE(OBJECTS, index);
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_FREE, &op);
		JUDGE(f, ret);
		there = serial_of(&self->store, index) == 0;
		EXPECT_TRUE(ret ? there || ret == -EFAULT : !there);
		if (there)
			EXPECT_EQ(0, call(self->store.fd, LSMEM_IOC_FREE, &op));
		EXPECT_EQ(~0ull, serial_of(&self->store, index));
		EXPECT_EQ(OBJECTS - index, store_attribute(&self->store, "handles_used"));
	}
	JUDGE_ALL(1);
}

/* The objects of a vector are asked for together; what cannot be asked for is waited for in its turn. */
TEST_F_TIMEOUT(cold, vector, SECONDS)
{
	struct failing last = { 0 };
	static uint8_t bytes[4][LENGTH];

	FOR_EACH_FAILURE(f) {
		struct lsmem_op ops[4];
		struct lsmem_vector vector = {
			.size = sizeof(vector),
			.ops = (uintptr_t)ops,
			.nr = 4,
			.stride = sizeof(ops[0]),
		};
		uint32_t index = self->next, i;
		int ret;

		self->next += 4;
		ASSERT_GE(OBJECTS, index + 3);
		for (i = 0; i < 4; i++)
			ops[i] = op_of(LSMEM_OP_READ, lsmem_handle_make(index + i, 1), bytes[i], LENGTH);
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_VECTOR, &vector);
		JUDGE(f, ret);
		for (i = 0; i < 4; i++) {
			uint64_t serial;

			if (!ret)
				EXPECT_TRUE(ops[i].result ? f.hit && fail_allowed(ops[i].result) :
					    content_right(bytes[i], LENGTH, index + i, &serial) && !serial);
			EXPECT_EQ(0, serial_of(&self->store, index + i));
		}
	}
	JUDGE_ALL(1);
}

/* A group whose objects are fetched first is made or not, as a whole; what it checks stays as it is. */
TEST_F_TIMEOUT(cold, group, SECONDS)
{
	struct failing last = { 0 };
	static uint8_t bytes[2][LENGTH];

	FOR_EACH_FAILURE(f) {
		struct lsmem_op ops[4];
		struct lsmem_vector vector = {
			.size = sizeof(vector),
			.flags = LSMEM_OPF_ATOMIC,
			.ops = (uintptr_t)ops,
			.nr = 4,
			.stride = sizeof(ops[0]),
		};
		uint64_t used = (uint64_t)store_attribute(&self->store, "handles_used");
		long long live = store_attribute(&self->store, "live_bytes");
		uint32_t index = self->next;
		uint64_t serial;
		bool replaced, freed;
		int ret;

		self->next += 3;
		ASSERT_GE(OBJECTS, index + 2);
		content_fill(bytes[0], LENGTH, index, f.nth);
		content_fill(bytes[1], LENGTH, 1, 0);
		ops[0] = op_of(LSMEM_OP_REPLACE, lsmem_handle_make(index, 1), bytes[0], LENGTH);
		ops[1] = op_of(LSMEM_OP_FREE, lsmem_handle_make(index + 1, 1), NULL, 0);
		ops[2] = op_of(LSMEM_OP_ALLOC, 0, bytes[1], LENGTH);
		ops[3] = op_of(LSMEM_OP_CHECK, lsmem_handle_make(index + 2, 1), NULL, 0);
		ops[3].flags = LSMEM_OPF_EXPECT;
		ops[3].version = 1;
		ret = call_failing(self->through, self->store.fd, &f, LSMEM_IOC_VECTOR, &vector);
		JUDGE(f, ret);
		serial = serial_of(&self->store, index);
		replaced = serial == f.nth;
		ASSERT_TRUE(replaced || !serial);
		freed = serial_of(&self->store, index + 1) == ~0ull;
		EXPECT_EQ(replaced, freed);
		/* One object is freed, which leaves a tombstone, and one of its length made; or neither. */
		EXPECT_EQ(used, store_attribute(&self->store, "handles_used"));
		EXPECT_EQ(live + (freed ? lsmem_entry_size(0) : 0), store_attribute(&self->store, "live_bytes"));
		/* The copy of the results may have failed. */
		EXPECT_TRUE(ret ? !replaced || ret == -EFAULT : replaced) TH_LOG("failure %u: %d", f.nth, ret);
		EXPECT_EQ(0, serial_of(&self->store, index + 2));
	}
	JUDGE_ALL(1);
}

/* ---- The daemon --------------------------------------------------------- */

/* Have an object asked for: no daemon answers, so the wait is over soon, and the request stays. */
static int ask(const struct store *store, uint32_t index)
{
	uint8_t byte;
	struct lsmem_op op = op_of(LSMEM_OP_READ, lsmem_handle_make(index, 1), &byte, 1);

	return call(store->fd, LSMEM_IOC_READ, &op);
}

static struct lsmem_fetch fetch_of(struct lsmem_fetch_one *request)
{
	return (struct lsmem_fetch){
		.size = sizeof(struct lsmem_fetch),
		.requests = (uintptr_t)request,
		.nr = 1,
	};
}

/* The answer to a request, from the only frame. */
static struct lsmem_fill_one answer_of(const struct keeper *keeper, const struct lsmem_fetch_one *request)
{
	uint32_t from = request->block * LSMEM_BLOCK;
	uint32_t left = lsmem_block_round(keeper->frames[0].length) - from;

	return (struct lsmem_fill_one){
		.cookie = request->cookie,
		.data = (uintptr_t)(keeper->frames[0].bytes + from),
		.length = request->blocks * LSMEM_BLOCK < left ? request->blocks * LSMEM_BLOCK : left,
	};
}

TEST_F_TIMEOUT(cold, fetch, SECONDS)
{
	int fd = self->follower.attach.fd;
	struct failing last = { 0 };

	if (variant->ring)
		return;		/* no command */
	keeper_stop(&self->keeper);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/fetch_ms", SOON_MS));
	FOR_EACH_FAILURE(f) {
		struct lsmem_fetch_one request = { 0 };
		struct lsmem_fetch fetch = fetch_of(&request);
		struct lsmem_fill_one one;
		struct lsmem_fill fill = { .size = sizeof(fill), .fills = (uintptr_t)&one, .nr = 1 };
		uint32_t index = self->next++;
		int ret;

		ASSERT_EQ(-ETIMEDOUT, ask(&self->store, index));
		INJECT(f, ret = call(fd, LSMEM_REPL_FETCH, &fetch));
		JUDGE(f, ret);
		if (ret) {	/* only the copy of its structure may have failed: the request is there */
			fetch.nr = 1;
			EXPECT_EQ(0, call(fd, LSMEM_REPL_FETCH, &fetch));
			EXPECT_TRUE(fetch.nr == 1 || request.cookie);
		} else {
			EXPECT_EQ(1, fetch.nr);
		}
		ASSERT_EQ(1, request.segment);
		one = answer_of(&self->keeper, &request);
		EXPECT_EQ(0, call(fd, LSMEM_REPL_FILL, &fill));
		EXPECT_EQ(0, one.result);
		EXPECT_EQ(0, serial_of(&self->store, index));
	}
	JUDGE_ALL(1);
	EXPECT_EQ(0, store_attribute(&self->store, "tier/requests"));
	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
}

TEST_F_TIMEOUT(cold, fill, SECONDS)
{
	int fd = self->follower.attach.fd;
	struct failing last = { 0 };

	if (variant->ring)
		return;		/* no command */
	keeper_stop(&self->keeper);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/fetch_ms", SOON_MS));
	FOR_EACH_FAILURE(f) {
		struct lsmem_fetch_one request = { 0 };
		struct lsmem_fetch fetch = fetch_of(&request);
		struct lsmem_fill_one one;
		struct lsmem_fill fill = { .size = sizeof(fill), .fills = (uintptr_t)&one, .nr = 1 };
		uint32_t index = self->next++;
		int ret;

		ASSERT_EQ(-ETIMEDOUT, ask(&self->store, index));
		ASSERT_EQ(0, call(fd, LSMEM_REPL_FETCH, &fetch));
		ASSERT_EQ(1, fetch.nr);
		one = answer_of(&self->keeper, &request);
		INJECT(f, ret = call(fd, LSMEM_REPL_FILL, &fill));
		JUDGE(f, ret);
		if (!ret)
			EXPECT_TRUE(!one.result || (f.hit && one.result == -EAGAIN));
		if (ret || one.result) {	/* only the copy of the result may have failed */
			one = answer_of(&self->keeper, &request);
			EXPECT_EQ(0, call(fd, LSMEM_REPL_FILL, &fill));
			EXPECT_TRUE(!one.result || one.result == -ENOENT);
		}
		EXPECT_EQ(0, serial_of(&self->store, index));
	}
	JUDGE_ALL(1);
	EXPECT_EQ(0, store_attribute(&self->store, "tier/requests"));
	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
}

/* The kernel drops what was placed when the daemon detaches before the activation. */
TEST_F_TIMEOUT(cold, place, SECONDS)
{
	struct failing last = { 0 };
	struct store other;

	if (variant->ring)
		return;		/* no command */
	ASSERT_EQ(0, store_create_tiered(&other, STORE_BYTES, 2 * STORE_BYTES, OBJECTS + 100,
					 LSMEM_STORE_DURABLE));
	FOR_SOME_FAILURES(f, 7) {	/* a copy for each few entries, all alike */
		struct lsmem_placement place = placement_of(&self->keeper.frames[0], self->listings);
		struct follower daemon;
		int ret;

		ASSERT_EQ(0, follower_attach_as(&daemon, other.name, uuid));
		INJECT(f, ret = call(daemon.attach.fd, LSMEM_REPL_PLACE, &place));
		JUDGE(f, ret);
		if (!ret)
			EXPECT_EQ(OBJECTS, store_attribute(&other, "handles_used"));
		EXPECT_EQ(store_attribute(&other, "live_bytes"), store_attribute(&other, "tier/cold_bytes"));
		EXPECT_EQ(store_attribute(&other, "live_bytes"),
			  store_attribute(&other, "handles_used") * lsmem_entry_size(LENGTH));
		EXPECT_EQ(0, close(daemon.attach.fd));
		ASSERT_EQ(0, store_attribute(&other, "handles_used"));
		ASSERT_EQ(0, store_attribute(&other, "live_bytes"));
		ASSERT_EQ(0, store_attribute(&other, "tier/cold_bytes"));
		ASSERT_EQ(0, store_attribute(&other, "segments"));
	}
	JUDGE_ALL(1);
	EXPECT_EQ(0, store_destroy(&other));
}

/* Objects that a snapshot reads through, neighbours: after an error they are still to be read, but for results that were lost. */
TEST_F_TIMEOUT(cold, through, SECONDS)
{
	struct lsmem_snapshot snapshot = { .size = sizeof(snapshot) };
	static uint8_t bytes[NEIGHBOURS][LENGTH];
	struct failing last = { 0 };
	uint64_t serial;
	uint32_t i;

	if (variant->ring)
		return;		/* no command */
	ASSERT_EQ(0, call(self->store.fd, LSMEM_IOC_SNAPSHOT, &snapshot));
	FOR_EACH_FAILURE(f) {
		struct lsmem_op ops[NEIGHBOURS];
		struct lsmem_snapshot_read read = { .size = sizeof(read), .ops = (uintptr_t)ops, .nr = NEIGHBOURS };
		uint32_t index = self->next;
		int ret;

		self->next += NEIGHBOURS;
		for (i = 0; i < NEIGHBOURS; i++) {
			ops[i] = op_of(LSMEM_OP_READ, index + i, bytes[i], LENGTH);
			ops[i].flags = LSMEM_OPF_INDEX;
		}
		memset(bytes, 0, sizeof(bytes));
		INJECT(f, ret = call(snapshot.fd, LSMEM_IOC_SNAPSHOT_READ, &read));
		for (i = 0; i < NEIGHBOURS; i++)
			ret = ret ? ret : ops[i].result;
		JUDGE(f, ret);
		for (i = 0; i < NEIGHBOURS; i++) {
			if (ret && !content_right(bytes[i], LENGTH, index + i, &serial)) {
				ops[i] = op_of(LSMEM_OP_READ, index + i, bytes[i], LENGTH);
				ops[i].flags = LSMEM_OPF_INDEX;
				read.ops = (uintptr_t)&ops[i];
				read.nr = 1;
				EXPECT_EQ(0, call(snapshot.fd, LSMEM_IOC_SNAPSHOT_READ, &read));
				EXPECT_EQ(0, ops[i].result);
			}
			EXPECT_TRUE(content_right(bytes[i], LENGTH, index + i, &serial));
		}
	}
	JUDGE_ALL(1);
	EXPECT_EQ(0, store_attribute(&self->store, "tier/fetches"));
	EXPECT_EQ(0, close(snapshot.fd));
}

/*
 * The drive that the kernel reads itself: all or nothing, and the reads need no memory but for the requests.  Those of a vector
 * that get none are asked for in their turn.
 */
TEST_F_TIMEOUT(cold, near, SECONDS)
{
	static uint8_t read[NEIGHBOURS][LENGTH];
	struct lsmem_near near = { .size = sizeof(near) }, place = { .size = sizeof(place), .segment = 1 };
	const struct keeper_frame *frame = &self->keeper.frames[0];
	int fd = self->follower.attach.fd;
	size_t bytes = lsmem_block_round(frame->length);
	struct failing last = { 0 };
	void *copy;

	if (variant->ring)
		return;		/* no command */
	near.fd = open_drive();
	if (near.fd < 0)
		SKIP(return, "no drive in /dev/drive");
	copy = aligned_alloc(LSMEM_BLOCK, bytes);
	memcpy(copy, frame->bytes, bytes);
	ASSERT_EQ((ssize_t)bytes, pwrite(near.fd, copy, bytes, 0));
	free(copy);
	ASSERT_EQ(0, fsync(near.fd));
	FOR_EACH_FAILURE(f) {
		int ret;

		INJECT(f, ret = call(fd, LSMEM_REPL_NEAR, &near));
		JUDGE(f, ret);
	}
	JUDGE_ALL(1);
	ASSERT_EQ(0, call(fd, LSMEM_REPL_NEAR, &place));
	EXPECT_EQ(0, serial_of(&self->store, self->next++));
	EXPECT_EQ(1, store_attribute(&self->store, "tier/fetches_near"));
	last = (struct failing){ 0 };
	FOR_EACH_FAILURE(f) {
		struct lsmem_op ops[NEIGHBOURS];
		struct lsmem_vector vector = {
			.size = sizeof(vector), .ops = (uintptr_t)ops, .nr = NEIGHBOURS, .stride = sizeof(ops[0]),
		};
		uint32_t index = self->next, i;
		uint64_t serial;
		int ret;

		self->next += NEIGHBOURS;
		ASSERT_GE(OBJECTS, self->next - 1);
		for (i = 0; i < NEIGHBOURS; i++)	/* backwards: they are sorted to become one read */
			ops[i] = op_of(LSMEM_OP_READ, lsmem_handle_make(index + NEIGHBOURS - 1 - i, 1), read[i], LENGTH);
		INJECT(f, ret = call(self->store.fd, LSMEM_IOC_VECTOR, &vector));
		JUDGE(f, ret);
		for (i = 0; i < NEIGHBOURS; i++) {
			if (!ret)
				EXPECT_TRUE(ops[i].result ? f.hit && fail_allowed(ops[i].result) :
					    content_right(read[i], LENGTH, index + NEIGHBOURS - 1 - i, &serial) && !serial);
			EXPECT_EQ(0, serial_of(&self->store, index + i));
		}
	}
	JUDGE_ALL(1);
	EXPECT_GT(store_attribute(&self->store, "tier/fetches_near"), store_attribute(&self->store, "tier/near_reads"));
	close(near.fd);
}

TEST_HARNESS_MAIN
