// SPDX-License-Identifier: GPL-2.0
/* Random calls: the tables of all calls and of their fields. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"




/* ---- Operations on objects ---------------------------------------------- */

/* The order matters: a length before its data, flags before a version. */
const struct field op_fields[OPS][OP_FIELDS] = {
	[LSMEM_OP_ALLOC - 1] = {
		FIELD(lsmem_op, size, SIZE),
		FIELD(lsmem_op, op, CONST, .low = LSMEM_OP_ALLOC, .error = EINVAL),
		FIELD(lsmem_op, flags, FLAGS, .low = LSMEM_OPF_DURABLE),
		FIELD(lsmem_op, result, ZERO),
		FIELD(lsmem_op, handle, ZERO),
		FIELD(lsmem_op, version, ANY),
		FIELD(lsmem_op, length, LENGTH),
		FIELD(lsmem_op, data, IN),
		FIELD(lsmem_op, table, NUMBER, .high = LSMEM_TABLES - 1, .error = EINVAL),
		FIELD(lsmem_op, offset, ZERO),
		FIELD(lsmem_op, object_length, ZERO),
	},
	[LSMEM_OP_READ - 1] = {
		FIELD(lsmem_op, size, SIZE),
		FIELD(lsmem_op, op, CONST, .low = LSMEM_OP_READ, .error = EINVAL),
		FIELD(lsmem_op, flags, FLAGS, .low = LSMEM_OPF_NOWAIT),
		FIELD(lsmem_op, result, ZERO),
		FIELD(lsmem_op, handle, HANDLE),
		FIELD(lsmem_op, version, ANY),
		FIELD(lsmem_op, length, ROOM),
		FIELD(lsmem_op, data, OUT),
		FIELD(lsmem_op, table, ANY),
		FIELD(lsmem_op, offset, OFFSET),
		FIELD(lsmem_op, object_length, ANY),
	},
	[LSMEM_OP_REPLACE - 1] = {
		FIELD(lsmem_op, size, SIZE),
		FIELD(lsmem_op, op, CONST, .low = LSMEM_OP_REPLACE, .error = EINVAL),
		FIELD(lsmem_op, flags, FLAGS, .low = LSMEM_OPF_DURABLE | LSMEM_OPF_EXPECT),
		FIELD(lsmem_op, result, ZERO),
		FIELD(lsmem_op, handle, HANDLE),
		FIELD(lsmem_op, version, VERSION),
		FIELD(lsmem_op, length, LENGTH),
		FIELD(lsmem_op, data, IN),
		FIELD(lsmem_op, table, ZERO),
		FIELD(lsmem_op, offset, ZERO),
		FIELD(lsmem_op, object_length, ZERO),
	},
	[LSMEM_OP_FREE - 1] = {
		FIELD(lsmem_op, size, SIZE),
		FIELD(lsmem_op, op, CONST, .low = LSMEM_OP_FREE, .error = EINVAL),
		FIELD(lsmem_op, flags, FLAGS, .low = LSMEM_OPF_DURABLE | LSMEM_OPF_EXPECT),
		FIELD(lsmem_op, result, ZERO),
		FIELD(lsmem_op, handle, HANDLE),
		FIELD(lsmem_op, version, VERSION),
		FIELD(lsmem_op, length, ZERO),
		FIELD(lsmem_op, data, ZERO),
		FIELD(lsmem_op, table, ZERO),
		FIELD(lsmem_op, offset, ZERO),
		FIELD(lsmem_op, object_length, ZERO),
	},
	[LSMEM_OP_CHECK - 1] = {
		FIELD(lsmem_op, size, SIZE),
		FIELD(lsmem_op, op, CONST, .low = LSMEM_OP_CHECK, .error = EINVAL),
		FIELD(lsmem_op, flags, FLAGS, .low = LSMEM_OPF_EXPECT),
		FIELD(lsmem_op, result, ZERO),
		FIELD(lsmem_op, handle, HANDLE),
		FIELD(lsmem_op, version, VERSION),
		FIELD(lsmem_op, length, ZERO),
		FIELD(lsmem_op, data, ZERO),
		FIELD(lsmem_op, table, ZERO),
		FIELD(lsmem_op, offset, ZERO),
		FIELD(lsmem_op, object_length, ZERO),
	},
};

/* Record the handle of an object that was allocated, replaced or freed. */
void op_done(struct making *m, const struct lsmem_op *op, long ret)
{
	struct store_slot *store;

	if (ret || m->store < 0)
		return;
	store = &shared->store[m->store];
	if (op->op == LSMEM_OP_FREE) {
		pool_update(&store->live, op->handle, 0, 0);
		pool_put(&store->stale, op->handle, op->version);
	} else if (op->op == LSMEM_OP_REPLACE) {
		pool_update(&store->live, op->handle, op->handle, op->version);
	} else if (op->op == LSMEM_OP_ALLOC) {
		struct lsmem_op old = {
			.size = sizeof(old),
			.op = LSMEM_OP_FREE,
			.handle = pool_put(&store->live, op->handle, op->version),
		};

		/* Free the object whose handle was overwritten, or the store would fill up. */
		if (old.handle && !is_owned(old.handle) && !ioctl(m->fd, LSMEM_IOC_FREE, &old))
			pool_put(&store->stale, old.handle, old.version);
	}
}

static void single_done(struct making *m, const uint8_t *bytes, long ret)
{
	struct lsmem_op op;

	memcpy(&op, bytes, sizeof(op));
	op_done(m, &op, ret);
}

static const struct field query_fields[] = {
	FIELD(lsmem_query, size, SIZE),
	FIELD(lsmem_query, flags, ZERO),
	FIELD(lsmem_query, features, ANY),
	FIELD(lsmem_query, abi, ANY),
	FIELD(lsmem_query, kind, ANY),
	FIELD(lsmem_query, state, ANY),
	FIELD(lsmem_query, object_max, ANY),
	FIELD(lsmem_query, vector_max, ANY),
	FIELD(lsmem_query, group_max, ZERO),
	FIELD(lsmem_query, capacity, ANY),
	FIELD(lsmem_query, handles_max, ANY),
};

static const struct field stat_fields[] = {
	FIELD(lsmem_stat, size, SIZE),
	FIELD(lsmem_stat, flags, ZERO),
	FIELD(lsmem_stat, capacity, ANY),
	FIELD(lsmem_stat, stall_ns, ANY),
};

static const struct field sync_fields[] = {
	FIELD(lsmem_sync, size, SIZE),
	FIELD(lsmem_sync, flags, ZERO),
	FIELD(lsmem_sync, timeout_ms, TIMEOUT),
	FIELD(lsmem_sync, reserved, ZERO),
};

/* ---- Ranges of pages ---------------------------------------------------- */

#define BUFFER_MAX	(64ull << 20)	/* any number is valid; a full buffer is rare with more */

static const struct field pages_make_fields[] = {
	FIELD(lsmem_pages, size, SIZE),
	FIELD(lsmem_pages, flags, FLAGS, .low = LSMEM_PAGES_POOL | LSMEM_PAGES_ATOMIC,
	      .high = LSMEM_PAGES_CREATE),
	FIELD(lsmem_pages, root, ZERO),
	FIELD(lsmem_pages, length, SPAN, .high = LSMEM_PAGES_LENGTH_MAX, .error = EINVAL),
	FIELD(lsmem_pages, buffer, SPAN, .high = BUFFER_MAX),
	FIELD(lsmem_pages, table, NUMBER, .high = LSMEM_TABLES - 1, .error = EINVAL),
	FIELD(lsmem_pages, fd, ZERO),
};

static const struct field pages_open_fields[] = {
	FIELD(lsmem_pages, size, SIZE),
	FIELD(lsmem_pages, flags, FLAGS),
	FIELD(lsmem_pages, root, ROOT),
	FIELD(lsmem_pages, length, ZERO),
	FIELD(lsmem_pages, buffer, SPAN, .high = BUFFER_MAX),
	FIELD(lsmem_pages, table, ZERO),
	FIELD(lsmem_pages, fd, ZERO),
};

static const struct field pages_remove_fields[] = {
	FIELD(lsmem_pages, size, SIZE),
	FIELD(lsmem_pages, flags, FLAGS, .high = LSMEM_PAGES_REMOVE),
	FIELD(lsmem_pages, root, ROOT),
	FIELD(lsmem_pages, length, ZERO),
	FIELD(lsmem_pages, buffer, ANY),
	FIELD(lsmem_pages, table, ZERO),
	FIELD(lsmem_pages, fd, ZERO),
};

static const struct field page_fields[] = {
	FIELD(lsmem_page, size, SIZE),
	FIELD(lsmem_page, op, NUMBER, .low = LSMEM_PAGE_ALLOC, .high = LSMEM_PAGE_NEXT,
	      .error = EINVAL),
	FIELD(lsmem_page, page, SPAN, .high = LSMEM_PAGES_LENGTH_MAX / PAGE),
	FIELD(lsmem_page, handle, ANY),
	FIELD(lsmem_page, length, NUMBER, .low = 1, .high = LSMEM_BLOCK),
	FIELD(lsmem_page, reserved, ZERO),
};

/* ---- Snapshots ----------------------------------------------------------- */

static const struct field snapshot_fields[] = {
	FIELD(lsmem_snapshot, size, SIZE),
	FIELD(lsmem_snapshot, flags, ZERO),
	FIELD(lsmem_snapshot, kept_max, ANY),
	FIELD(lsmem_snapshot, time_ms, SPAN, .high = 1000),
	FIELD(lsmem_snapshot, version, ZERO),
	FIELD(lsmem_snapshot, bytes, ZERO),
	FIELD(lsmem_snapshot, fd, ZERO),
	FIELD(lsmem_snapshot, reserved, ZERO),
};

/* Of the object that an index has: most of the indices are in use */
static const struct field read_index_fields[OP_FIELDS] = {
	FIELD(lsmem_op, size, SIZE),
	FIELD(lsmem_op, op, CONST, .low = LSMEM_OP_READ, .error = EINVAL),
	FIELD(lsmem_op, flags, NUMBER, .low = LSMEM_OPF_INDEX, .high = LSMEM_OPF_INDEX),
	FIELD(lsmem_op, result, ZERO),
	FIELD(lsmem_op, handle, NUMBER, .high = 3000),
	FIELD(lsmem_op, version, ANY),
	FIELD(lsmem_op, length, ROOM),
	FIELD(lsmem_op, data, OUT),
	FIELD(lsmem_op, table, ANY),
	FIELD(lsmem_op, offset, OFFSET),
	FIELD(lsmem_op, object_length, ANY),
};

/* At a reserved index: that of most stores */
static const struct field alloc_index_fields[OP_FIELDS] = {
	FIELD(lsmem_op, size, SIZE),
	FIELD(lsmem_op, op, CONST, .low = LSMEM_OP_ALLOC, .error = EINVAL),
	FIELD(lsmem_op, flags, NUMBER, .low = LSMEM_OPF_INDEX, .high = LSMEM_OPF_INDEX),
	FIELD(lsmem_op, result, ZERO),
	FIELD(lsmem_op, handle, NUMBER, .low = WORK_HANDLES, .high = WORK_HANDLES),
	FIELD(lsmem_op, version, ANY),
	FIELD(lsmem_op, length, LENGTH),
	FIELD(lsmem_op, data, IN),
	FIELD(lsmem_op, table, NUMBER, .high = LSMEM_TABLES - 1, .error = EINVAL),
	FIELD(lsmem_op, offset, ZERO),
	FIELD(lsmem_op, object_length, ZERO),
};

static const struct field shared_fields[] = {
	FIELD(lsmem_shared, size, SIZE),
	FIELD(lsmem_shared, flags, ZERO),
	FIELD(lsmem_shared, id, NUMBER, .high = 3),
	FIELD(lsmem_shared, fd, ZERO),
	FIELD(lsmem_shared, bytes, CONST, .low = 2 * PAGE),
};

/* Use the memory, from which others may take nothing. */
static void shared_done(struct making *m, const uint8_t *bytes, long ret)
{
	struct lsmem_shared shared;
	uint8_t *window;

	(void)m;
	memcpy(&shared, bytes, sizeof(shared));
	if (ret)
		return;
	window = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, shared.fd, PAGE);
	if (window != MAP_FAILED) {
		window[shared.id]++;
		munmap(window, PAGE);
	}
	close(shared.fd);
}

static const struct field watch_fields[] = {
	FIELD(lsmem_watch, size, SIZE),
	FIELD(lsmem_watch, flags, FLAGS, .high = LSMEM_WATCH_NONBLOCK),
	FIELD(lsmem_watch, table, NUMBER, .high = 3),
	FIELD(lsmem_watch, entries, CONST, .low = 8),
	FIELD(lsmem_watch, cursor, ANY),
	FIELD(lsmem_watch, eventfd, ZERO),
	FIELD(lsmem_watch, fd, ZERO),
};

/* The eventfd has further signals for as long as the watch is kept. */
static const struct field watch_eventfd_fields[] = {
	FIELD(lsmem_watch, size, SIZE),
	FIELD(lsmem_watch, flags, NUMBER, .low = LSMEM_WATCH_EVENTFD | LSMEM_WATCH_NONBLOCK,
	      .high = LSMEM_WATCH_EVENTFD | LSMEM_WATCH_NONBLOCK, .error = EINVAL),
	FIELD(lsmem_watch, table, NUMBER, .high = 3),
	FIELD(lsmem_watch, entries, CONST, .low = 8),
	FIELD(lsmem_watch, cursor, ANY),
	FIELD(lsmem_watch, eventfd, EVENTFD),
	FIELD(lsmem_watch, fd, ZERO),
};

static void watch_done(struct making *m, const uint8_t *bytes, long ret)
{
	struct lsmem_watch watch;

	memcpy(&watch, bytes, sizeof(watch));
	if (!ret)
		keep_fd(m->me->process, watch.fd, FD_WATCH, m->store);
}

static const struct field snapshot_done_fields[] = {
	FIELD(lsmem_snapshot_done, size, SIZE),
	FIELD(lsmem_snapshot_done, flags, NUMBER, .low = 0, .high = LSMEM_SNAPSHOT_SETTLE),
	FIELD(lsmem_snapshot_done, seglet, ANY),
	FIELD(lsmem_snapshot_done, reserved, ZERO),
};

/* Keep the descriptor of a snapshot, and look at all of its window. */
static void snapshot_done(struct making *m, const uint8_t *bytes, long ret)
{
	struct lsmem_snapshot snapshot;
	const uint8_t *window;
	uint64_t at, sum = 0;

	memcpy(&snapshot, bytes, sizeof(snapshot));
	if (ret)
		return;
	window = mmap(NULL, snapshot.bytes, PROT_READ, MAP_SHARED, snapshot.fd, 0);
	for (at = 0; window != MAP_FAILED && at < snapshot.bytes; at += PAGE)
		sum += __atomic_load_n(&window[at], __ATOMIC_RELAXED);
	if (window != MAP_FAILED)
		munmap((void *)window, snapshot.bytes);
	(void)sum;
	keep_fd(m->me->process, snapshot.fd, FD_SNAPSHOT, m->store);
}

/* ---- The control node --------------------------------------------------- */

static const struct field create_fields[] = {
	FIELD(lsmem_create, size, SIZE),
	FIELD(lsmem_create, flags, FLAGS, .low = LSMEM_STORE_DURABLE),
	FIELD(lsmem_create, kind, NUMBER, .low = LSMEM_KIND_OBJECT, .high = LSMEM_KIND_BLOCK,
	      .error = EINVAL),
	FIELD(lsmem_create, mode, NUMBER, .high = 0777, .error = EINVAL),
	FIELD(lsmem_create, bytes, BYTES),
	FIELD(lsmem_create, handles_max, HANDLES),
	FIELD(lsmem_create, uid, NUMBER, .low = NOBODY - 1, .high = NOBODY),
	FIELD(lsmem_create, gid, NUMBER, .low = NOBODY - 1, .high = NOBODY),
	FIELD(lsmem_create, name[0], ZERO),
	FIELD(lsmem_create, name[31], ZERO),
	FIELD(lsmem_create, reserved, ZERO),
	FIELD(lsmem_create, capacity, CAPACITY),
	FIELD(lsmem_create, uuid[0], NUMBER, .high = 1),
};

/* A tiered store, which is seldom made of random flags and kinds. */
static const struct field create_tier_fields[] = {
	FIELD(lsmem_create, size, SIZE),
	FIELD(lsmem_create, flags, NUMBER, .low = LSMEM_STORE_DURABLE, .high = LSMEM_STORE_DURABLE),
	FIELD(lsmem_create, kind, NUMBER, .low = LSMEM_KIND_OBJECT, .high = LSMEM_KIND_OBJECT),
	FIELD(lsmem_create, bytes, BYTES),
	FIELD(lsmem_create, handles_max, HANDLES),
	FIELD(lsmem_create, uid, NUMBER, .low = NOBODY, .high = NOBODY),
	FIELD(lsmem_create, gid, NUMBER, .low = NOBODY, .high = NOBODY),
	FIELD(lsmem_create, capacity, CAPACITY),
};

static void create_done(struct making *m, const uint8_t *bytes, long ret)
{
	struct store_slot *store;
	struct lsmem_create create;

	memcpy(&create, bytes, sizeof(create));
	if (m->slot < 0)
		return;
	store = &shared->store[m->slot];
	if (!ret) {
		memcpy(store->name, create.name, sizeof(store->name));
		store->block = create.kind == LSMEM_KIND_BLOCK;
		store->durable = create.flags & LSMEM_STORE_DURABLE;
		store->tiered = create.capacity;
		limits_lower(store->name);
		atomic_store(&store->segment, 0);
		atomic_fetch_add(&shared->made, 1);
	}
	atomic_store(&store->state, ret ? SLOT_FREE : SLOT_THERE);
}

static const struct field destroy_fields[] = {
	FIELD(lsmem_destroy, size, SIZE),
	FIELD(lsmem_destroy, flags, FLAGS, .low = LSMEM_DESTROY_FORCE),
	FIELD(lsmem_destroy, name, STORE),
};

static void destroy_done(struct making *m, const uint8_t *bytes, long ret)
{
	struct lsmem_destroy destroy;
	int slot;

	(void)m;
	memcpy(&destroy, bytes, sizeof(destroy));
	if (ret)
		return;
	slot = store_named(destroy.name);
	if (slot >= STORE_DYNAMIC)
		atomic_store(&shared->store[slot].state, SLOT_FREE);
	else
		failed(VERDICT_LOAD, "store %.32s was destroyed while it was open",
		       (const char *)destroy.name);
}

static const struct field attach_fields[] = {
	FIELD(lsmem_attach, size, SIZE),
	FIELD(lsmem_attach, flags, ZERO),
	FIELD(lsmem_attach, name, STORE),
	FIELD(lsmem_attach, uuid, UUID),
	FIELD(lsmem_attach, fd, ANY),
	FIELD(lsmem_attach, state, ANY),
	FIELD(lsmem_attach, kind, ANY),
	FIELD(lsmem_attach, instant, ZERO),
	FIELD(lsmem_attach, bytes, ANY),
	FIELD(lsmem_attach, handles_max, ANY),
	FIELD(lsmem_attach, capacity, ANY),
	FIELD(lsmem_attach, term, ZERO),
	FIELD(lsmem_attach, frozen, ZERO),
	FIELD(lsmem_attach, reserved, ZERO),
};

static void attach_done(struct making *m, const uint8_t *bytes, long ret)
{
	struct lsmem_attach attach;

	memcpy(&attach, bytes, sizeof(attach));
	if (!ret)
		keep_fd(m->me->process, attach.fd, FD_REPL, store_named(attach.name));
}

/* ---- The replication descriptor ----------------------------------------- */

/* More than any store has: with fewer all writers would wait. */
static const struct field room_fields[] = {
	FIELD(lsmem_room, size, SIZE),
	FIELD(lsmem_room, flags, ZERO),
	FIELD(lsmem_room, segments, NUMBER, .low = 1000, .high = 2000),
	FIELD(lsmem_room, reserved, ZERO),
};

static const struct field activate_fields[] = {
	FIELD(lsmem_activate, size, SIZE),
	FIELD(lsmem_activate, flags, FLAGS, .low = LSMEM_ACTIVATE_COLD | LSMEM_ACTIVATE_UNVERIFIED),
	FIELD(lsmem_activate, era, NUMBER, .low = 1, .high = LSMEM_ERA_MAX, .error = EINVAL),
	FIELD(lsmem_activate, generation_floor, NUMBER, .high = 1000),
	FIELD(lsmem_activate, generation_ceiling, NUMBER, .low = 1000,
	      .high = LSMEM_GENERATION_MAX, .error = EINVAL),
	FIELD(lsmem_activate, segment_bytes, ZERO),	/* others: loading.c */
	FIELD(lsmem_activate, store_time, NUMBER, .high = (1ull << 48) - 1, .error = EINVAL),
	FIELD(lsmem_activate, next_segment, NUMBER, .low = 1, .high = 1ull << 40),
};

/* ---- The table ---------------------------------------------------------- */

#define IOCTL(call, where, user, root, number, type, table, ...)		\
	{ .name = call, .on = FD_##where, .weight = { user, root },		\
	  .request = number, .bytes = sizeof(struct type),			\
	  .fields = table, .nr_fields = sizeof(table) / sizeof(*(table)), __VA_ARGS__ }

#define CALL(call, where, user, root, function, ...)				\
	{ .name = call, .on = FD_##where, .weight = { user, root }, .run = function, __VA_ARGS__ }

const struct description descriptions[] = {
	IOCTL("QUERY", OBJECT, 30, 20, LSMEM_IOC_QUERY, lsmem_query, query_fields, .must = true),
	IOCTL("STAT", OBJECT, 30, 20, LSMEM_IOC_STAT, lsmem_stat, stat_fields, .must = true,
	      .first = LSMEM_STAT_SIZE_VER0),
	IOCTL("ALLOC", OBJECT, 170, 90, LSMEM_IOC_ALLOC, lsmem_op, op_fields[0],
	      .done = single_done),
	IOCTL("READ", OBJECT, 190, 90, LSMEM_IOC_READ, lsmem_op, op_fields[1]),
	IOCTL("REPLACE", OBJECT, 170, 90, LSMEM_IOC_REPLACE, lsmem_op, op_fields[2],
	      .done = single_done),
	IOCTL("FREE", OBJECT, 150, 80, LSMEM_IOC_FREE, lsmem_op, op_fields[3],
	      .done = single_done),
	IOCTL("READ index", OBJECT, 30, 15, LSMEM_IOC_READ, lsmem_op, read_index_fields),
	IOCTL("ALLOC index", OBJECT, 20, 10, LSMEM_IOC_ALLOC, lsmem_op, alloc_index_fields,
	      .done = single_done),
	IOCTL("SHARED", OBJECT, 10, 6, LSMEM_IOC_SHARED, lsmem_shared, shared_fields, .done = shared_done),
	CALL("VECTOR", OBJECT, 60, 30, run_vector, .request = LSMEM_IOC_VECTOR),
	CALL("uring", OBJECT, 90, 60, run_uring),
	IOCTL("SYNC", OBJECT, 6, 6, LSMEM_IOC_SYNC, lsmem_sync, sync_fields),
	IOCTL("PAGES make", OBJECT, 15, 12, LSMEM_IOC_PAGES, lsmem_pages, pages_make_fields,
	      .done = pages_done),
	IOCTL("PAGES open", OBJECT, 15, 12, LSMEM_IOC_PAGES, lsmem_pages, pages_open_fields,
	      .done = pages_done),
	IOCTL("PAGES remove", OBJECT, 10, 8, LSMEM_IOC_PAGES, lsmem_pages, pages_remove_fields,
	      .done = pages_done),
	IOCTL("PAGE", PAGES, 40, 25, LSMEM_IOC_PAGE, lsmem_page, page_fields, .done = page_done),
	IOCTL("SNAPSHOT", OBJECT, 15, 12, LSMEM_IOC_SNAPSHOT, lsmem_snapshot, snapshot_fields,
	      .done = snapshot_done),
	IOCTL("SNAPSHOT done", SNAPSHOT, 15, 12, LSMEM_IOC_SNAPSHOT_DONE, lsmem_snapshot_done,
	      snapshot_done_fields),
	IOCTL("WATCH", OBJECT, 10, 8, LSMEM_IOC_WATCH, lsmem_watch, watch_fields, .done = watch_done),
	IOCTL("WATCH eventfd", OBJECT, 10, 8, LSMEM_IOC_WATCH, lsmem_watch, watch_eventfd_fields,
	      .done = watch_done),
	CALL("watch", WATCH, 30, 20, run_watch),
	CALL("SNAPSHOT read", SNAPSHOT, 15, 12, run_through, .request = LSMEM_IOC_SNAPSHOT_READ),
	CALL("range forge", OBJECT, 4, 3, run_range_forge),
	CALL("range file", PAGES, 50, 30, run_range_file),
	CALL("range map", PAGES, 20, 15, run_range_map),
	CALL("range touch", NONE, 70, 50, run_range_touch),
	CALL("range advise", NONE, 40, 25, run_range_advise),
	CALL("range remap", NONE, 4, 4, run_range_remap),
	CALL("ioctl", NONE, 10, 10, run_unknown, .never = true),
	CALL("file", OBJECT, 20, 20, run_file),
	CALL("open", NONE, 20, 20, run_open),
	CALL("close", NONE, 20, 25, run_close),
	CALL("dup", NONE, 5, 5, run_dup),
	CALL("pass", OBJECT, 4, 4, run_pass),
	CALL("mmap", OBJECT, 50, 30, run_mmap),
	CALL("munmap", NONE, 25, 20, run_munmap),
	CALL("mprotect", NONE, 10, 10, run_mprotect),
	CALL("mremap", NONE, 5, 5, run_mremap),
	CALL("madvise", NONE, 10, 10, run_madvise),
	CALL("touch", NONE, 40, 30, run_touch),
	CALL("scribble", NONE, 20, 20, run_scribble),
	CALL("mem", NONE, 4, 4, run_memory, .never = true),
	CALL("flip", NONE, 30, 20, run_flip),
	CALL("fork", NONE, 1, 1, run_fork),
	CALL("sysfs read", NONE, 4, 8, run_sysfs_read),
	CALL("sysfs write", NONE, 4, 12, run_sysfs_write),
	CALL("debugfs", NONE, 1, 6, run_debugfs),
	CALL("block I/O", BLOCK, 30, 40, run_block_io),
	CALL("block range", BLOCK, 8, 10, run_block_range),
	CALL("block ioctl", BLOCK, 5, 5, run_block_ioctl),
	IOCTL("CREATE", CONTROL, 4, 10, LSMEM_CTL_CREATE, lsmem_create, create_fields,
	      .done = create_done, .first = LSMEM_CREATE_SIZE_VER0),
	IOCTL("CREATE tier", CONTROL, 1, 10, LSMEM_CTL_CREATE, lsmem_create, create_tier_fields,
	      .done = create_done, .first = LSMEM_CREATE_SIZE_VER0),
	IOCTL("DESTROY", CONTROL, 4, 2, LSMEM_CTL_DESTROY, lsmem_destroy, destroy_fields,
	      .done = destroy_done),
	IOCTL("ATTACH", CONTROL, 4, 25, LSMEM_CTL_ATTACH, lsmem_attach, attach_fields,
	      .done = attach_done, .first = LSMEM_ATTACH_SIZE_VER0),
	CALL("NEXT", REPL, 0, 30, run_next),
	CALL("ACK", REPL, 0, 30, run_ack),
	CALL("LOAD", REPL, 0, 30, run_load),
	CALL("CLEAN", REPL, 0, 15, run_clean),
	CALL("FREEZE", REPL, 0, 5, run_freeze),
	CALL("WORDS", REPL, 0, 20, run_words),
	CALL("FETCH", REPL, 0, 30, run_fetch),
	CALL("FILL", REPL, 0, 30, run_fill),
	CALL("NEAR", REPL, 0, 10, run_near),
	CALL("BRING", REPL, 0, 20, run_bring),
	CALL("PLACE", REPL, 0, 30, run_place),
	CALL("poll", REPL, 0, 10, run_poll),
	IOCTL("ROOM", REPL, 0, 5, LSMEM_REPL_ROOM, lsmem_room, room_fields),
	IOCTL("ACTIVATE", REPL, 0, 1, LSMEM_REPL_ACTIVATE, lsmem_activate, activate_fields),
};

const uint32_t nr_descriptions = sizeof(descriptions) / sizeof(*descriptions);

_Static_assert(sizeof(descriptions) / sizeof(*descriptions) <= KINDS_MAX, "room to count");
_Static_assert(OP_FIELDS + 4 <= GENES, "genes for all fields, descriptor, pointer and ring");

const struct limit limits[] = {
	{ "limits/view_ms", 10, 60000, 10, 20, false },
	{ "limits/durable_ms", 100, 3600000, 100, 200, true },
	{ "limits/flush_ms", 100, 3600000, 100, 300, true },
	{ "limits/stall_ms", 100, 3600000, 100, 110, true },
	{ "limits/fetch_ms", 100, 3600000, 100, 200, true },
	{ "cleaner/free_low", 1, 500, 1, 60, false },
	{ "cleaner/utilization_max", 500, 1000, 700, 980, false },
	{ "cleaner/tombstones_max", 1, 500, 10, 500, false },
};

const uint32_t nr_limits = sizeof(limits) / sizeof(*limits);
