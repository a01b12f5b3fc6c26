// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: spreads, without a kernel.
 *
 * The kernel is a log of objects that only grows, with a bitmap of those that are live: a snapshot of it is a memory
 * file, which lsm_scan() reads as one of the real kernel.  Before objects are replaced another client can
 * change or free one of them: what is lost, or changed twice, then shows in the values.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define lsmem_crc32c	lsm_crc32c

#include "internal.h"
#include "../common/tap.h"

#define SEGLETS		64u
#define OBJECTS		200u
#define BIG		6u		/* objects that are larger than what a spread reads of many at once */
#define BIG_BYTES	3000u
#define VECTOR_MAX	64u
#define PAGE		4096u
#define SALT		0x12345678u
#define ALL		(SEGLETS * LSMEM_SEGLET_BYTES)
#define MAP_BYTES	(ALL / 32 / 8)

/* What each object begins with. */
struct row {
	int64_t value;
	uint64_t weight;
	uint32_t small;
	uint32_t number;
};

/**
 * struct object - where an object is, as the kernel knows it
 * @version: of the object; 0: it was freed
 * @at: of its header in the log
 * @length: in bytes
 */
struct object {
	uint64_t version;
	uint32_t at;
	uint32_t length;
};

/**
 * struct kernel - a store
 * @seglets: the log: seglets follow each other
 * @table: window of the seglet table
 * @handles: window of the handle table, all FREE: look-ups ask the kernel
 * @page: the snapshot, mapped
 * @fd: of the snapshot
 * @lsm: of the windows
 * @end: of the log
 * @clock: the last version
 * @objects: by handle index, from 1
 * @features: that it tells of
 * @calls: replaces and vectors of replaces
 * @flags: of the last of these
 * @rival: called before each of them, and before it counts; NULL: there is none
 * @fail: result of each replace; 0: it is made
 */
struct kernel {
	uint8_t *seglets;
	struct lsmem_seglet *table;
	struct lsmem_handle *handles;
	struct lsmem_snapshot_page *page;
	int fd;
	struct lsm *lsm;
	uint32_t end;
	uint64_t clock;
	struct object objects[OBJECTS + 1];
	uint64_t features;
	uint32_t calls;
	uint32_t flags;
	void (*rival)(struct kernel *kernel);
	int fail;
};

static void *window(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

/* ---- The kernel ---------------------------------------------------------------- */

static uint8_t *bytes_of(const struct kernel *kernel, uint32_t index)
{
	struct lsmem_entry *entry = (void *)(kernel->seglets + kernel->objects[index].at);

	return (uint8_t *)entry + lsmem_entry_header(entry);
}

static struct row row_of(const struct kernel *kernel, uint32_t index)
{
	struct row row;

	memcpy(&row, bytes_of(kernel, index), sizeof(row));
	return row;
}

/* Writes an object behind the others, none across two seglets. */
static void put(struct kernel *kernel, uint32_t index, const void *data, uint32_t length)
{
	uint32_t bytes = lsmem_entry_size(length), at = lsmem_entry_start(kernel->end);
	struct lsmem_entry entry;

	if (at / LSMEM_SEGLET_BYTES != (at + bytes - 1) / LSMEM_SEGLET_BYTES)
		at = (at / LSMEM_SEGLET_BYTES + 1) * LSMEM_SEGLET_BYTES;
	if (at + bytes > ALL)
		abort();
	entry = lsmem_entry_make(LSMEM_TYPE_OBJECT, length, lsmem_handle_make(index, 1), ++kernel->clock, 0, 0, at);
	entry.crc = __cpu_to_le32(lsmem_entry_crc(&entry, lsmem_crc32c(~0u, data, length), SALT));
	memcpy(kernel->seglets + at, &entry, lsmem_entry_header(&entry));
	memcpy(kernel->seglets + at + lsmem_entry_header(&entry), data, length);
	kernel->end = at + lsmem_entry_bytes(&entry);
	kernel->objects[index] = (struct object){ kernel->clock, at, length };
}

static int find(struct kernel *kernel, uint64_t handle, struct object **object)
{
	uint64_t index = lsmem_handle_index(handle);

	if (!index || index > OBJECTS)
		return -ENOENT;
	*object = &kernel->objects[index];
	return (*object)->version ? 0 : -ESTALE;
}

static int call_read(struct kernel *kernel, struct lsmem_op *op)
{
	struct object *object;
	int ret = find(kernel, op->handle, &object);

	if (ret)
		return ret;
	if (op->length > object->length - op->offset)
		op->length = object->length - op->offset;
	memcpy((void *)(uintptr_t)op->data, bytes_of(kernel, (uint32_t)lsmem_handle_index(op->handle)) + op->offset,
	       op->length);
	op->version = object->version;
	op->object_length = object->length;
	return 0;
}

/* Could the object be replaced? */
static int check_replace(struct kernel *kernel, struct lsmem_op *op)
{
	struct object *object;
	int ret = find(kernel, op->handle, &object);

	if (ret || kernel->fail)
		return ret ? ret : kernel->fail;
	if (op->flags & LSM_EXPECT && op->version != object->version) {
		op->version = object->version;
		return -EILSEQ;
	}
	return 0;
}

static int call_replace(struct kernel *kernel, struct lsmem_op *op)
{
	int ret = check_replace(kernel, op);

	if (ret)
		return ret;
	put(kernel, (uint32_t)lsmem_handle_index(op->handle), (void *)(uintptr_t)op->data, op->length);
	op->version = kernel->clock;
	return 0;
}

static void begin_change(struct kernel *kernel, uint32_t flags)
{
	if (kernel->rival)
		kernel->rival(kernel);
	kernel->calls++;
	kernel->flags = flags;
}

static int call_vector(struct kernel *kernel, struct lsmem_vector *vector)
{
	struct lsmem_op *ops = (void *)(uintptr_t)vector->ops;
	uint32_t i, failed;
	int ret = 0;

	if (!vector->nr || vector->nr > VECTOR_MAX || vector->stride != sizeof(*ops))
		return -EINVAL;
	if (ops[0].op == LSMEM_OP_REPLACE)
		begin_change(kernel, vector->flags);
	for (i = 0; vector->flags & LSM_ATOMIC && i < vector->nr; i++) {
		ret = check_replace(kernel, &ops[i]);
		if (!ret)
			continue;
		failed = i;
		for (i = 0; i < vector->nr; i++)
			ops[i].result = i == failed ? ret : -ECANCELED;
		vector->nr = 0;
		return ret;
	}
	for (i = 0; i < vector->nr; i++)
		ops[i].result = (ops[i].op == LSMEM_OP_REPLACE ? call_replace : call_read)(kernel, &ops[i]);
	return 0;
}

static int call_snapshot(struct kernel *kernel, struct lsmem_snapshot *snapshot)
{
	uint64_t *bitmap = (uint64_t *)((uint8_t *)kernel->page + 2 * PAGE);
	uint32_t i;

	memset(bitmap, 0, MAP_BYTES);
	for (i = 1; i <= OBJECTS; i++)
		if (kernel->objects[i].version)
			bitmap[kernel->objects[i].at / 32 / 64] |= 1ull << kernel->objects[i].at / 32 % 64;
	kernel->page->version = kernel->clock;
	snapshot->version = kernel->clock;
	snapshot->bytes = 2 * PAGE + MAP_BYTES;
	snapshot->fd = dup(kernel->fd);
	return 0;
}

static int call(struct lsm *lsm, unsigned long request, void *argument)
{
	struct kernel *kernel = lsm->private;

	switch (request) {
	case LSMEM_IOC_QUERY:
		((struct lsmem_query *)argument)->features = kernel->features;
		return 0;
	case LSMEM_IOC_STAT:
		((struct lsmem_stat *)argument)->handles_used = OBJECTS;
		return 0;
	case LSMEM_IOC_SNAPSHOT:
		return call_snapshot(kernel, argument);
	case LSMEM_IOC_READ:
		return call_read(kernel, argument);
	case LSMEM_IOC_REPLACE:
		begin_change(kernel, ((struct lsmem_op *)argument)->flags & ~LSM_EXPECT);
		return call_replace(kernel, argument);
	case LSMEM_IOC_VECTOR:
		return call_vector(kernel, argument);
	default:
		return -ENOTTY;
	}
}

/* A store with OBJECTS objects. */
static struct kernel *kernel_new(void)
{
	struct kernel *kernel = calloc(1, sizeof(*kernel));
	struct lsm_memory memory = { 0 };
	struct lsmem_info info = {
		.magic = LSMEM_INFO_MAGIC, .abi = LSMEM_ABI, .compat = LSMEM_ABI, .length = sizeof(info),
		.kind = LSMEM_KIND_OBJECT, .nr_seglets = SEGLETS, .nr_handles = OBJECTS + 1,
		.seglets.length = ALL, .seglet_table.length = SEGLETS * sizeof(struct lsmem_seglet),
		.handles.length = (OBJECTS + 1) * sizeof(struct lsmem_handle),
	};
	uint8_t bytes[BIG_BYTES] = { 0 };
	struct row row;
	uint32_t i;

	if (!kernel)
		abort();
	kernel->features = LSMEM_FEATURE_SNAPSHOT | LSMEM_FEATURE_WINDOWS;
	kernel->clock = 1000;
	kernel->seglets = window(ALL);
	kernel->table = window(PAGE);
	kernel->handles = window(PAGE);
	for (i = 0; i < SEGLETS; i++)
		kernel->table[i].next = i + 1 < SEGLETS ? i + 1 : LSMEM_NO_SEGLET;
	kernel->fd = memfd_create("snapshot", MFD_CLOEXEC);
	if (kernel->fd < 0 || ftruncate(kernel->fd, 2 * PAGE + MAP_BYTES))
		abort();
	kernel->page = mmap(NULL, 2 * PAGE + MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, kernel->fd, 0);
	if (kernel->page == MAP_FAILED)
		abort();
	*kernel->page = (struct lsmem_snapshot_page){
		.magic = LSMEM_SNAPSHOT_MAGIC, .abi = LSMEM_ABI, .length = sizeof(*kernel->page), .nr_seglets = SEGLETS,
		.livemap = { 2 * PAGE, MAP_BYTES }, .salts = { PAGE, PAGE },
	};
	for (i = 0; i < SEGLETS; i++)
		((uint32_t *)((uint8_t *)kernel->page + PAGE))[i] = SALT;
	for (i = 1; i <= OBJECTS; i++) {
		row = (struct row){ .value = i, .weight = i % 10, .small = i, .number = i };
		memcpy(bytes, &row, sizeof(row));
		put(kernel, i, bytes, i > OBJECTS - BIG ? BIG_BYTES : sizeof(row) + i % 50);
	}
	memory.info = &info;
	memory.epoch = &info.epoch;
	memory.seglets = kernel->seglets;
	memory.seglet_table = kernel->table;
	memory.handles = kernel->handles;
	if (lsm_from_memory(&memory, VECTOR_MAX, call, kernel, &kernel->lsm))
		abort();
	kernel->lsm->group_max = VECTOR_MAX;
	return kernel;
}

static void kernel_delete(struct kernel *kernel)
{
	lsm_close(kernel->lsm);
	munmap(kernel->seglets, ALL);
	munmap(kernel->table, PAGE);
	munmap(kernel->handles, PAGE);
	munmap(kernel->page, 2 * PAGE + MAP_BYTES);
	close(kernel->fd);
	free(kernel);
}

/* ---- Spreads --------------------------------------------------------------------- */

static const struct lsm_column value_column = { .type = LSM_I64, .offset = offsetof(struct row, value) };
static const struct lsm_column weight_column = { .type = LSM_U64, .offset = offsetof(struct row, weight) };
static const struct lsm_column small_column = { .type = LSM_U32, .offset = offsetof(struct row, small) };
static const struct lsm_scan all = { .threads = 1 };

#define WEIGHTS		900u	/* 20 times 0 .. 9 */
#define AMOUNT		90007

/**
 * struct kept - what a program keeps of a spread
 * @version: as told
 * @weights: as told
 * @kernel: store
 * @calls: changes that there were when it was told
 * @stop: progress() ends the spread after so many objects; 0: never
 * @refuse: begun() returns it
 */
struct kept {
	uint64_t version;
	union lsm_value weights;
	struct kernel *kernel;
	uint32_t calls;
	uint64_t stop;
	int refuse;
};

static int keep(void *context, uint64_t version, union lsm_value weights)
{
	struct kept *kept = context;

	kept->version = version;
	kept->weights = weights;
	kept->calls = kept->kernel->calls;
	return kept->refuse;
}

static int cut_off(void *context, uint64_t done, uint64_t total)
{
	struct kept *kept = context;

	return done > total ? -EPROTO : kept->stop && done >= kept->stop ? -EINTR : 0;
}

static struct lsm_spread shares(struct kept *kept, uint32_t flags)
{
	return (struct lsm_spread){
		.how = LSM_SPREAD_SHARE, .flags = flags, .column = value_column, .weight = &weight_column,
		.amount.i64 = AMOUNT, .begun = keep, .progress = cut_off, .context = kept,
	};
}

/* The share of an object, and what its value was. */
static int64_t share_of(uint32_t index)
{
	return (int64_t)AMOUNT * (index % 10) / WEIGHTS;
}

/* The sum of all shares of objects that are not @but. */
static int64_t shares_of_all(uint32_t but, uint32_t other)
{
	int64_t sum = 0;
	uint32_t i;

	for (i = 1; i <= OBJECTS; i++)
		sum += i == but || i == other ? 0 : share_of(i);
	return sum;
}

/* At rest: each object has its share, and the kernel was asked for what the caller wanted. */
static bool shares_right(uint32_t flags)
{
	struct kernel *kernel = kernel_new();
	struct kept kept = { .kernel = kernel };
	struct lsm_spread spread = shares(&kept, flags);
	struct lsm_spread_report report;
	uint32_t i;

	CHECK(!lsm_spread(kernel->lsm, &all, &spread, &report));
	for (i = 1; i <= OBJECTS; i++) {
		CHECK(row_of(kernel, i).value == i + share_of(i));
		CHECK(row_of(kernel, i).number == i && row_of(kernel, i).weight == i % 10);
		CHECK(kernel->objects[i].length == (i > OBJECTS - BIG ? BIG_BYTES : sizeof(struct row) + i % 50));
	}
	CHECK(report.selected == OBJECTS && report.changed == OBJECTS && report.weights.u64 == WEIGHTS);
	CHECK(report.given.i64 == shares_of_all(0, 0) && report.given.i64 < AMOUNT);
	CHECK(kept.version == report.version && kept.weights.u64 == WEIGHTS);
	CHECK(!kept.calls && kernel->calls);
	CHECK((kernel->flags & LSM_DURABLE) == (flags & LSM_DURABLE));
	kernel_delete(kernel);
	return true;
}

/* Other clients: one changes an object, and one frees another, after they were listed, with or without a group. */
#define RAISED		3u
#define FREED		70u
#define RAISED_BIG	(OBJECTS - 1)

static void raise_one(struct kernel *kernel, uint32_t index)
{
	uint8_t bytes[BIG_BYTES];
	struct row row = row_of(kernel, index);

	memcpy(bytes, bytes_of(kernel, index), kernel->objects[index].length);
	row.value += 1000;
	memcpy(bytes, &row, sizeof(row));
	put(kernel, index, bytes, kernel->objects[index].length);
}

static void change_two(struct kernel *kernel)
{
	kernel->rival = NULL;
	raise_one(kernel, RAISED);
	kernel->objects[FREED].version = 0;
}

static void change_big(struct kernel *kernel)
{
	if (row_of(kernel, OBJECTS - 2).value == OBJECTS - 2)
		return;
	/* The next one to be replaced is the one that is raised. */
	kernel->rival = NULL;
	raise_one(kernel, RAISED_BIG);
}

static bool races_right(uint32_t flags)
{
	struct kernel *kernel = kernel_new();
	struct kept kept = { .kernel = kernel };
	struct lsm_spread spread = shares(&kept, flags);
	struct lsm_spread_report report;
	uint32_t i;

	kernel->rival = change_two;
	CHECK(!lsm_spread(kernel->lsm, &all, &spread, &report));
	CHECK(!kernel->rival);
	CHECK(report.selected == OBJECTS && report.lost == 1 && report.gone == 1 && report.changed == OBJECTS - 2);
	CHECK(report.given.i64 == shares_of_all(RAISED, FREED));
	for (i = 1; i <= OBJECTS; i++)
		CHECK(i == FREED || row_of(kernel, i).value == i + (i == RAISED ? 1000 : share_of(i)));
	kernel_delete(kernel);

	/* A large object, which is replaced alone */
	kernel = kernel_new();
	kept.kernel = kernel;
	kernel->rival = change_big;
	CHECK(!lsm_spread(kernel->lsm, &all, &spread, &report));
	CHECK(!kernel->rival);
	CHECK(report.lost == 1 && !report.gone && report.changed == OBJECTS - 1);
	for (i = 1; i <= OBJECTS; i++)
		CHECK(row_of(kernel, i).value == i + (i == RAISED_BIG ? 1000 : share_of(i)));
	kernel_delete(kernel);
	return true;
}

/* A spread that is cut off goes on with what it was told: each object gets its share once. */
static bool goes_on(uint32_t flags)
{
	struct kernel *kernel = kernel_new();
	struct kept kept = { .kernel = kernel, .stop = 100 };
	struct lsm_spread spread = shares(&kept, flags);
	struct lsm_spread_report first, second;
	struct lsm_scan half = all;
	uint32_t i;

	CHECK(lsm_spread(kernel->lsm, &all, &spread, &first) == -EINTR);
	CHECK(first.changed >= 100 && first.changed < OBJECTS);
	kept.stop = 0;
	spread.version = kept.version;
	spread.weights = kept.weights;
	/* The caller's own bound holds, too. */
	half.version_max = 1000;
	CHECK(!lsm_spread(kernel->lsm, &half, &spread, &second));
	CHECK(!second.selected);
	CHECK(!lsm_spread(kernel->lsm, &all, &spread, &second));
	CHECK(first.changed + second.changed == OBJECTS && second.changed == second.selected);
	CHECK(second.version == first.version && second.weights.u64 == WEIGHTS);
	CHECK(first.given.i64 + second.given.i64 == shares_of_all(0, 0));
	for (i = 1; i <= OBJECTS; i++)
		CHECK(row_of(kernel, i).value == i + share_of(i));
	kernel_delete(kernel);
	return true;
}

/* What has no place in the type stays as it is, and is counted. */
static bool beyond_told(void)
{
	struct kernel *kernel = kernel_new();
	struct lsm_spread spread = { .how = LSM_SPREAD_ADD, .column = small_column, .amount.i64 = -50 };
	struct lsm_spread_report report;
	uint32_t i;

	CHECK(!lsm_spread(kernel->lsm, &all, &spread, &report));
	CHECK(report.beyond == 49 && report.changed == OBJECTS - 49);
	for (i = 1; i <= OBJECTS; i++)
		CHECK(row_of(kernel, i).small == (i < 50 ? i : i - 50));
	kernel_delete(kernel);
	return true;
}

/* Errors end a spread; before the caller knows how to go on, nothing is changed. */
static bool errors_told(void)
{
	struct kernel *kernel = kernel_new();
	struct kept kept = { .kernel = kernel, .refuse = -EDQUOT };
	struct lsm_spread spread = shares(&kept, 0);
	struct lsm_spread_report report;
	uint32_t i;

	CHECK(lsm_spread(kernel->lsm, &all, &spread, &report) == -EDQUOT);
	CHECK(!kernel->calls && !report.changed && report.selected == OBJECTS);
	kept.refuse = 0;
	kernel->fail = -ENOSPC;
	CHECK(lsm_spread(kernel->lsm, &all, &spread, &report) == -ENOSPC);
	CHECK(!report.changed && kernel->calls == 1);
	spread.flags = LSM_ATOMIC;
	CHECK(lsm_spread(kernel->lsm, &all, &spread, &report) == -ENOSPC);
	CHECK(!report.changed && kernel->calls == 2);
	kernel->fail = 0;
	/* Weights that are negative */
	spread.column = value_column;
	spread.weight = &value_column;
	raise_one(kernel, 1);
	kernel->objects[2].version = 0;
	((struct row *)bytes_of(kernel, 5))->value = -1;
	CHECK(lsm_spread(kernel->lsm, &all, &spread, &report) == -EDOM);
	/* A kernel without snapshots: a list would not be exact. */
	kernel->features = LSMEM_FEATURE_WINDOWS;
	spread.weight = &weight_column;
	CHECK(lsm_spread(kernel->lsm, &all, &spread, &report) == -EOPNOTSUPP);
	CHECK(kernel->calls == 2);
	for (i = 6; i <= OBJECTS; i++)
		CHECK(row_of(kernel, i).value == i);
	kernel_delete(kernel);
	return true;
}

int main(void)
{
	static const struct {
		uint32_t flags;
		const char *name;
	} kinds[] = { { 0, "alone" }, { LSM_ATOMIC, "groups" }, { LSM_DURABLE, "durable" } };
	uint32_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		tap_ok(shares_right(kinds[i].flags), "%s: each object gets its share", kinds[i].name);
		tap_ok(races_right(kinds[i].flags), "%s: what others change is not changed", kinds[i].name);
		tap_ok(goes_on(kinds[i].flags), "%s: cut off, it goes on", kinds[i].name);
	}
	tap_ok(beyond_told(), "what is beyond the type stays");
	tap_ok(errors_told(), "errors");
	return tap_end();
}
