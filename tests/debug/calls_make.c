// SPDX-License-Identifier: GPL-2.0
/* Random calls: makes descriptors, fields and buffers, and judges the results of calls. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"

__thread struct way_back *touching;

#define GUARD_BYTE	0xa5
#define BIG_ONE_IN	128u	/* one in so many calls has much data */
#define CALLS_A_STORE	20000u	/* one store may be created for so many calls */
#define PLACE_FOREIGN	222u	/* from this @at of a gene on: memory of others, or none */
#define TIMED_ONE_IN	16u	/* one in so many calls is timed: that takes two more calls */

uint64_t calls_made(void)
{
	uint64_t calls = 0;
	uint32_t i;

	for (i = 0; i < CALLERS; i++)
		calls += atomic_load_explicit(&shared->progress[i].calls, memory_order_relaxed);
	return calls;
}

void failed(enum verdict verdict, const char *format, ...)
{
	va_list args;

	if (atomic_fetch_add(&shared->failures[verdict], 1))
		return;
	va_start(args, format);
	vsnprintf(shared->failure[verdict], sizeof(shared->failure[verdict]), format, args);
	va_end(args);
}

bool touch_copy(void *to, const void *from, size_t length)
{
	struct way_back back;

	if (sigsetjmp(back.at, 0)) {
		touching = NULL;
		return false;
	}
	touching = &back;
	memcpy(to, from, length);
	atomic_signal_fence(memory_order_seq_cst);
	touching = NULL;
	return true;
}

/* ---- Genes -------------------------------------------------------------- */

/* Most fields are valid: a call has about ten, and should often have exactly one wrong. */
#define HOW_VALID	238

enum how how_of(const struct gene *gene)
{
	static const enum how others[] = { BOUNDARY, STALE, FOREIGN, GARBAGE, NONE };

	return gene->how < HOW_VALID ? VALID : others[gene->how % 5];
}

void random_gene(uint64_t *random, struct gene *gene)
{
	uint64_t bits = random_next(random);

	gene->bits = (uint32_t)(bits >> 32);
	gene->small = (uint16_t)(bits >> 16);
	bits = random_next(random);
	gene->how = (uint8_t)(bits >> 40);
	gene->at = (uint8_t)(bits >> 48);
}

void is_wrong(struct making *m, int expected)
{
	m->wrong++;
	m->expected = expected;
}

/* ---- Handles ------------------------------------------------------------ */

uint64_t pool_put(struct pool *pool, uint64_t handle, uint64_t version)
{
	uint32_t at = atomic_fetch_add(&pool->next, 1) % POOL;

	atomic_store_explicit(&pool->at[at].version, version, memory_order_relaxed);
	return atomic_exchange(&pool->at[at].handle, handle);
}

/* Find a handle near place @which; false if there is none in 16 places. */
bool pool_get(struct pool *pool, uint32_t which, uint64_t *handle, uint64_t *version)
{
	uint32_t i;

	for (i = 0; i < 16; i++) {
		uint32_t at = (which + i) % POOL;

		*version = atomic_load_explicit(&pool->at[at].version, memory_order_relaxed);
		*handle = atomic_load_explicit(&pool->at[at].handle, memory_order_relaxed);
		if (*handle)
			break;
	}
	return *handle;
}

/* Record a new version of a handle, or, if @to is 0, remove the handle. */
void pool_update(struct pool *pool, uint64_t handle, uint64_t to, uint64_t version)
{
	uint32_t i;

	for (i = 0; i < POOL; i++)
		if (atomic_load_explicit(&pool->at[i].handle, memory_order_relaxed) == handle) {
			atomic_store_explicit(&pool->at[i].version, version, memory_order_relaxed);
			atomic_compare_exchange_strong(&pool->at[i].handle, &handle, to);
			return;
		}
}

/* ---- Stores ------------------------------------------------------------- */

int store_named(const void *name)
{
	int i;

	for (i = 0; i < STORES; i++)
		if (atomic_load(&shared->store[i].state) == SLOT_THERE &&
		    !strncmp(shared->store[i].name, name, LSMEM_NAME_BYTES))
			return i;
	return -1;
}

/* Claim a slot for a store that is to be created. Returns -1 if there is none. */
static int store_claim(void)
{
	int i;

	if (atomic_load(&shared->made) > calls_made() / CALLS_A_STORE)
		return -1;
	for (i = STORE_DYNAMIC; i < STORES; i++) {
		int state = SLOT_FREE;

		if (atomic_compare_exchange_strong(&shared->store[i].state, &state, SLOT_MAKING))
			return i;
	}
	return -1;
}

static void make_name(struct making *m, const struct gene *gene, char *name)
{
	static const char *const other[] = { "lsmem999", "lsmemb", "/dev/lsmem", "../lsmem", "" };
	uint32_t i;

	switch (how_of(gene)) {
	case VALID:
		/* One in 16 is a store that exists during the whole test; one in four is that of which
		 * callers are the daemon.
		 */
		i = gene->small % 16 ? STORE_DYNAMIC + gene->bits % (STORES - STORE_DYNAMIC) :
				       gene->bits % STORE_DYNAMIC;
		if (gene->small % 16 > 11)
			i = STORE_PLACED;
		memcpy(name, shared->store[i].name, LSMEM_NAME_BYTES - 1);
		break;
	case BOUNDARY:
		memset(name, 'x', LSMEM_NAME_BYTES);
		is_wrong(m, EINVAL);
		break;
	case STALE:
	case FOREIGN:
		strcpy(name, other[gene->bits % 5]);
		is_wrong(m, 0);
		break;
	case GARBAGE:
		for (i = 0; i < LSMEM_NAME_BYTES - 1; i++)
			name[i] = (char)random_next(&m->random);
		is_wrong(m, 0);
		break;
	case NONE:
		is_wrong(m, ENODEV);
	}
}

/* ---- Descriptors -------------------------------------------------------- */

void keep_fd(struct process *process, int fd, enum fd_kind kind, int store)
{
	static _Atomic uint32_t next;
	uint32_t at = atomic_fetch_add(&next, 1);
	struct fd_slot *slot;
	int old;

	at = kind == FD_PAGES ? FD_SLOTS + at % RANGE_SLOTS : at % FD_SLOTS;
	slot = &process->fds[at];

	atomic_fetch_add(&slot->begun, 1);
	atomic_store(&slot->kind, kind);
	atomic_store(&slot->store, store);
	old = atomic_exchange(&slot->fd, fd);
	atomic_fetch_add(&slot->done, 1);
	if (old >= 0)
		close(old);
}

bool fd_changed(const struct making *m)
{
	return m->from && atomic_load(&m->from->begun) != m->changes;
}

static void pick_dynamic(struct making *m, uint32_t which, enum fd_kind kind)
{
	struct process *process = m->me->process;
	uint32_t i;

	for (i = 0; i < FD_SLOTS + RANGE_SLOTS; i++) {
		struct fd_slot *slot = &process->fds[(which + i) % (FD_SLOTS + RANGE_SLOTS)];

		m->changes = atomic_load(&slot->done);
		if ((int)kind != atomic_load(&slot->kind) && kind != FD_NONE)
			continue;
		m->fd = atomic_load(&slot->fd);
		m->store = atomic_load(&slot->store);
		m->from = slot;
		if (m->fd >= 0 && !fd_changed(m))
			return;
	}
	m->fd = -1;
	m->store = -1;
}

/*
 * Choose a descriptor of a kind.  It is sure if it is never closed; any other number may be of
 * another file by the time of the call.
 */
void pick_fd(struct making *m, const struct gene *gene, enum fd_kind kind)
{
	const struct process *process = m->me->process;

	m->store = -1;
	m->sure = false;
	switch (how_of(gene)) {
	case VALID:
		if (kind == FD_OBJECT && gene->small % 16) {
			static const uint8_t others[] = { STORE_DURABLE, STORE_TIER, STORE_DURABLE,
							  STORE_TIER, STORE_PLACED };

			/* Most calls use the volatile store, where no call waits for a daemon. */
			m->store = gene->small % 4 ? STORE_WORK : others[gene->small / 16 % 5];
			m->fd = process->pinned[m->store][O_RDWR];
			m->sure = true;
		} else if (kind == FD_CONTROL) {
			m->fd = process->control;
			m->sure = true;
		} else if (kind == FD_BLOCK && gene->small % 16) {
			m->store = STORE_BLOCK;
			m->fd = process->block[gene->small / 16 % 2];
			m->sure = true;
		} else {
			pick_dynamic(m, gene->bits, kind);
			m->sure = kind == FD_REPL || kind == FD_PAGES;
		}
		break;
	case BOUNDARY:	/* the right file, opened for reading or for writing only */
		m->store = STORE_WORK;
		m->fd = process->pinned[STORE_WORK][gene->bits % 2 ? O_RDONLY : O_WRONLY];
		is_wrong(m, 0);
		break;
	case STALE:
		pick_dynamic(m, gene->bits, FD_NONE);
		is_wrong(m, 0);
		break;
	case FOREIGN: {
		const int fds[] = { process->control, process->block[0], process->block[1],
				    process->null, process->pinned[STORE_WORK][O_RDWR] };

		m->fd = fds[gene->bits % 5];
		is_wrong(m, 0);
		break;
	}
	case GARBAGE:
		m->fd = (int)(gene->bits | 0x10000);
		is_wrong(m, 0);
		break;
	case NONE:
		m->fd = -1;
		is_wrong(m, EBADF);
	}
	if (m->fd < 0 || (m->store >= STORE_DYNAMIC && kind != FD_REPL))
		m->sure = false;
	m->durable = m->store >= 0 && shared->store[m->store].durable;
}

/* ---- Buffers ------------------------------------------------------------ */

uint32_t some_length(const struct gene *gene)
{
	if (gene->small % BIG_ONE_IN == 0)
		return 1 + gene->bits % LSMEM_OBJECT_MAX;
	if (gene->small % 8 == 0)
		return 1 + gene->bits % (16u << 10);
	return 1 + gene->bits % 400;
}

static uint8_t *window_of(struct caller *of, const struct gene *gene, bool slots)
{
	uint32_t i;

	for (i = 0; i < MAPS; i++) {
		uint32_t at = (gene->small + i) % MAPS;
		const struct map_slot *map = &of->map[at];

		if (map->length && (map->window == WINDOW_SLOTS) == slots)
			return of->arena + at * MAP_ROOM + gene->bits % map->length / 64 * 64;
	}
	return NULL;
}

/*
 * Choose the address of @length bytes.  Valid is memory of this caller: on the heap, with guard
 * bytes behind an output buffer, or at the end of the mapped area.  Any other address may be of
 * memory that another thread changes, is partly mapped, read-only, a window, or not mapped.
 */
uint8_t *place(struct making *m, const struct gene *gene, uint32_t offset, uint32_t length,
	       bool out)
{
	struct caller *me = m->me;
	uint8_t *at;

	if (gene->at < 200 || length > AREA_BYTES) {
		at = me->heap + offset + (gene->at % 8 ? 0 : gene->small % 64);
		if (out && m->guards < 2) {
			m->guard[m->guards++] = at + length;
			memset(at + length, GUARD_BYTE, GUARD);
		}
		return at;
	}
	if (gene->at < 215)
		return me->edge - length;
	if (gene->at < PLACE_FOREIGN) {	/* a page that the access allocates */
		at = me->heap + offset;
		madvise((void *)((uintptr_t)at & ~(uintptr_t)(PAGE - 1)), PAGE, MADV_DONTNEED);
		return at;
	}
	is_wrong(m, 0);
	if (gene->at < 226)
		return me->flip;
	if (gene->at < 232)
		return me->edge - length / 2;
	if (gene->at < 236)
		return me->constant + gene->bits % PAGE;
	if (gene->at < 241) {
		at = window_of(me, gene, true);
		return at ?: me->flip;
	}
	if (gene->at < 246) {
		at = window_of(me, gene, false);
		return at ?: me->constant;
	}
	if (gene->at < 247)
		return me->process->callers[gene->small % THREADS].ranges +
		       gene->bits % (RANGE_MAPS * RANGE_ROOM);
	if (gene->at < 248)
		return me->process->callers[gene->small % THREADS].arena +
		       gene->bits % (MAPS * MAP_ROOM);
	if (gene->at < 250)
		return NULL;
	if (gene->at < 252)	/* too low to be mapped */
		return (uint8_t *)(uintptr_t)(gene->bits % 65536);
	m->expected = EFAULT;	/* not an address of user space */
	if (gene->at < 254)
		return (uint8_t *)(0xffff888000000000ull + gene->bits);
	return (uint8_t *)(0x8000000000000000ull + gene->bits);
}

/*
 * Choose the address of the argument, and copy the argument there.  If the copy fails, or others
 * can write there too, the kernel may find the argument of another call, with other buffers.  Then
 * the guards of this call's buffers may change.
 */
uint8_t *place_argument(struct making *m, const struct gene *gene)
{
	uint8_t *at = place(m, gene, 0, m->size, true);

	/* Write it if possible, even if this is memory of another caller. */
	touch_copy(at, m->bytes, m->size);
	if (gene->at >= PLACE_FOREIGN)
		m->guards = 0;
	return at;
}

/*
 * May the call create or destroy a store, or open a range, a snapshot or a watch, while its result is lost, or changed by others?
 * Then no caller would know the store, or close the descriptor.
 */
static bool is_unsafe(const struct making *m, const struct description *d, const struct gene *gene)
{
	if (d->request == LSMEM_IOC_PAGES || d->request == LSMEM_IOC_SNAPSHOT || d->request == LSMEM_IOC_SHARED ||
	    d->request == LSMEM_IOC_WATCH)
		return gene->at >= PLACE_FOREIGN;
	return d->on == FD_CONTROL && m->me->process->root &&
	       (m->slot >= 0 || (gene->at >= 222 && gene->at < 247));
}

/* ---- Fields ------------------------------------------------------------- */

static uint64_t make_size(struct making *m, const struct gene *gene, uint32_t bytes)
{
	switch (how_of(gene)) {
	case VALID:
		if (gene->how >= 200)	/* of a later version; its new fields are zero */
			bytes += 8 * (1 + gene->bits % 16);
		m->size = bytes;
		return bytes;
	case BOUNDARY:
		is_wrong(m, EINVAL);
		m->size = (m->first ?: bytes) - 1;
		return m->size;
	case STALE:	/* of a later version; a new field is not zero */
		is_wrong(m, E2BIG);
		m->size = bytes + 8 * (1 + gene->bits % 16);
		m->bytes[bytes + gene->small % (m->size - bytes)] = 1;
		return m->size;
	case FOREIGN:
		is_wrong(m, E2BIG);
		m->size = bytes;
		return PAGE + 1 + gene->bits % PAGE;
	case GARBAGE:
		is_wrong(m, 0);
		m->size = bytes;
		return gene->bits;
	default:
		is_wrong(m, EINVAL);
		m->size = bytes;
		return 0;
	}
}

bool is_owned(uint64_t handle)
{
	uint64_t index = lsmem_handle_index(handle);

	return index < WORK_HANDLES && atomic_load_explicit(&shared->owned[index / 64],
							    memory_order_relaxed) >> index % 64 & 1;
}

static uint64_t some_handle(struct making *m, const struct gene *gene)
{
	int store = m->store >= 0 ? m->store : STORE_WORK;
	uint64_t handle = 0;

	switch (how_of(gene)) {
	case VALID:
		if (!pool_get(&shared->store[store].live, gene->bits, &handle, &m->version))
			is_wrong(m, ENOENT);
		return handle;
	case BOUNDARY: {
		const uint64_t bounds[] = {
			lsmem_handle_make(0, 0), lsmem_handle_make(WORK_HANDLES, 1),
			lsmem_handle_make(0, LSMEM_GENERATION_MAX), lsmem_handle_make(~0ull, 1), ~0ull,
			lsmem_handle_make(0, 1), lsmem_handle_make(WORK_HANDLES - 1, 1),
		};

		is_wrong(m, 0);
		return bounds[gene->bits % 7];
	}
	case STALE:
		is_wrong(m, ESTALE);
		if (!pool_get(&shared->store[store].stale, gene->bits, &handle, &m->version))
			m->expected = ENOENT;
		return handle;
	case FOREIGN:
		is_wrong(m, 0);
		pool_get(&shared->store[(store + 1) % STORES].live, gene->bits, &handle,
			 &m->version);
		return handle;
	case GARBAGE:
		is_wrong(m, 0);
		return random_next(&m->random);
	default:
		is_wrong(m, ENOENT);
		return 0;
	}
}

static uint64_t make_handle(struct making *m, const struct gene *gene)
{
	uint64_t handle = some_handle(m, gene);

	if (m->reads || !is_owned(handle))
		return handle;
	is_wrong(m, 0);
	return lsmem_handle_make(WORK_HANDLES, 1);
}

/* Opening or removing anything else fails in some way: objects of the load are no roots. */
static uint64_t make_root(struct making *m, const struct gene *gene)
{
	int store = m->store >= 0 ? m->store : STORE_WORK;
	uint64_t handle = 0;

	if (how_of(gene) == VALID &&
	    pool_get(&shared->store[store].roots, gene->bits, &handle, &m->version))
		return handle;
	is_wrong(m, 0);
	return how_of(gene) == VALID ? 0 : some_handle(m, gene);
}

static uint64_t make_bytes(struct making *m, const struct gene *gene)
{
	static const uint64_t bad[] = {
		0, 120ull << 20, (128ull << 20) + 1, (132ull << 20), (1ull << 40) + (8ull << 20),
		~0ull, 8ull << 20,
	};

	/* Claim a slot only if nothing is wrong so far; other calls cannot create a store. */
	if (how_of(gene) == VALID && !m->wrong && m->me->process->root && !m->me->child)
		m->slot = store_claim();
	if (m->slot >= 0)
		return 128ull << 20;
	if (how_of(gene) == VALID && m->wrong == 1 && m->expected)
		return 128ull << 20;	/* the field that is wrong makes the call fail */
	is_wrong(m, how_of(gene) == GARBAGE ? 0 : EINVAL);
	return how_of(gene) == GARBAGE ? 1ull << 39 : bad[gene->bits % 7];
}

static uint64_t make_capacity(struct making *m, const struct gene *gene)
{
	static const uint64_t bad[] = {
		8ull << 20, 120ull << 20, (136ull << 20) + 4096, (64ull * 128 + 8) << 20, 1ull << 40, ~0ull,
	};

	if (how_of(gene) != VALID) {
		is_wrong(m, EINVAL);
		return bad[gene->bits % 6];
	}
	return m->durable_kind && !m->block_kind && gene->small % 4 ? TIER_CAPACITY : 0;
}

static uint64_t make_number(struct making *m, const struct field *f, const struct gene *gene)
{
	uint64_t span = f->high - f->low + 1, bits = gene->bits * 0x100000001ull;

	switch (how_of(gene)) {
	case VALID:
		bits %= span;
		return f->low + (f->kind == FIELD_SPAN ? bits >> gene->small % 64 : bits);
	case BOUNDARY:
		return gene->bits % 2 ? f->low : f->high;
	default:
		bits = f->high + 1 + gene->bits % 1000;
		if (f->bytes == 8 ? !bits : bits >> (8 * f->bytes))
			return f->high;
		is_wrong(m, f->error);
		return bits;
	}
}

static uint64_t make_nothing(struct making *m, const struct field *f, const struct gene *gene)
{
	if (how_of(gene) == VALID)
		return 0;
	is_wrong(m, EINVAL);
	return how_of(gene) == GARBAGE && gene->bits ? gene->bits :
						       1ull << gene->bits % (8 * f->bytes);
}

static uint64_t make_flags(struct making *m, const struct field *f, const struct gene *gene)
{
	uint64_t flags = (gene->bits & f->low) | f->high;

	if (f->offset == offsetof(struct lsmem_op, flags) && f->low & LSMEM_OPF_EXPECT) {
		m->expect = flags & LSMEM_OPF_EXPECT && gene->small % 4 == 0;
		flags = m->expect ? LSMEM_OPF_EXPECT : 0;
	}
	/* Few operations are durable: a caller that waits for a daemon makes no other calls. */
	if (m->call && descriptions[m->call->kind].on == FD_OBJECT && f->low & LSMEM_OPF_DURABLE) {
		flags &= ~(uint64_t)LSMEM_OPF_DURABLE;
		if (m->durable && gene->small % 32 == 0)
			flags |= LSMEM_OPF_DURABLE;
	}
	if (how_of(gene) == VALID)
		return flags;
	is_wrong(m, EINVAL);
	return flags | 1ull << (5 + gene->bits % 27);	/* above all flags that there are */
}

static uint64_t make_length(struct making *m, const struct field *f, const struct gene *gene)
{
	switch (how_of(gene)) {
	case VALID:
		m->length = some_length(gene);
		break;
	case BOUNDARY:
		m->length = gene->bits % 4 ? 1 : LSMEM_OBJECT_MAX;
		break;
	case NONE:
		m->length = 0;
		if (f->kind == FIELD_LENGTH)
			is_wrong(m, EINVAL);
		break;
	case GARBAGE:
		m->length = (LSMEM_OBJECT_MAX + 1) | gene->bits;
		is_wrong(m, EINVAL);
		break;
	default:
		m->length = LSMEM_OBJECT_MAX + 1;
		is_wrong(m, EINVAL);
	}
	return m->length;
}

static uint64_t make_data(struct making *m, const struct field *f, const struct gene *gene)
{
	/* A length that the kernel refuses needs no memory. */
	uint32_t length = m->length > LSMEM_OBJECT_MAX ? 0 : m->length;
	uint32_t wrong = m->wrong;
	uint8_t *at = place(m, gene, HEAP_DATA, length, f->kind == FIELD_OUT);

	if (m->wrong != wrong && !length)	/* the kernel does not access the address */
		m->expected = 0;
	return (uintptr_t)at;
}

/* One in four is closed by later calls, maybe while what it was given to has it. */
static uint64_t make_eventfd(struct making *m, const struct gene *gene)
{
	struct process *process = m->me->process;
	int fd;

	switch (how_of(gene)) {
	case VALID:
		if (gene->small % 4)
			return (uint32_t)process->eventfd;
		fd = eventfd(gene->small % 8, EFD_CLOEXEC | EFD_NONBLOCK);
		if (fd < 0)
			is_wrong(m, 0);
		else
			keep_fd(process, fd, FD_OTHER, -1);
		return (uint32_t)fd;
	case STALE:
		is_wrong(m, 0);
		return (uint32_t)atomic_load(&process->fds[gene->bits % (FD_SLOTS + RANGE_SLOTS)].fd);
	case FOREIGN:	/* other stores may be inactive, which is told first */
		is_wrong(m, m->store == STORE_WORK ? EINVAL : 0);
		return (uint32_t)(gene->bits % 2 ? process->null : process->pinned[STORE_WORK][O_RDWR]);
	case NONE:
		is_wrong(m, m->store == STORE_WORK ? EBADF : 0);
		return (uint32_t)-1;
	default:
		is_wrong(m, 0);
		return gene->bits % 2 ? gene->bits : gene->bits % 256;
	}
}

static uint64_t make_field(struct making *m, const struct field *f, const struct gene *gene)
{
	switch ((enum field_kind)f->kind) {
	case FIELD_SIZE:
		return make_size(m, gene, m->size);
	case FIELD_CONST:
		m->reads = f->low == LSMEM_OP_READ;
		if (how_of(gene) == VALID)
			return f->low;
		is_wrong(m, f->error);
		return how_of(gene) == NONE ? 0 : OPS + 1 + gene->bits % 0xffff;
	case FIELD_ZERO:
		return make_nothing(m, f, gene);
	case FIELD_FLAGS:
		return make_flags(m, f, gene);
	case FIELD_ANY:
		return gene->bits;
	case FIELD_NUMBER:
	case FIELD_SPAN:
		return make_number(m, f, gene);
	case FIELD_HANDLE:
		return make_handle(m, gene);
	case FIELD_ROOT:
		return make_root(m, gene);
	case FIELD_VERSION:
		if (m->expect && how_of(gene) != VALID)
			is_wrong(m, 0);
		return how_of(gene) == VALID ? m->version : gene->bits;
	case FIELD_LENGTH:
	case FIELD_ROOM:
		return make_length(m, f, gene);
	case FIELD_IN:
	case FIELD_OUT:
		return make_data(m, f, gene);
	case FIELD_OFFSET:
		if (how_of(gene) == VALID && gene->small % 8)
			return 0;
		is_wrong(m, 0);
		return how_of(gene) == GARBAGE ? gene->bits : gene->bits % 512;
	case FIELD_TIMEOUT:
		return 1 + gene->bits % 50;
	case FIELD_BYTES:
		return make_bytes(m, gene);
	case FIELD_HANDLES:
		if (m->slot >= 0)	/* few, so that the store is created fast */
			return m->block_kind ? 0 : 1 + gene->bits % 3000;
		if (how_of(gene) != VALID)
			is_wrong(m, EINVAL);
		return how_of(gene) == VALID ? 0 : 1ull << 31 | (uint64_t)gene->bits << 32;
	case FIELD_CAPACITY:
		return make_capacity(m, gene);
	case FIELD_EVENTFD:
		return make_eventfd(m, gene);
	default:
		return 0;
	}
}

void make_fields(struct making *m, const struct field *fields, uint32_t nr,
		 const struct gene *genes, uint8_t *bytes)
{
	uint32_t i;

	for (i = 0; i < nr; i++) {
		const struct field *f = &fields[i];
		uint64_t value;

		if (f->kind == FIELD_STORE) {
			make_name(m, &genes[i], (char *)bytes + f->offset);
			continue;
		}
		if (f->kind == FIELD_UUID) {
			/* All stores of callers have the same uuid: make_entries() uses it. */
			memset(bytes + f->offset, how_of(&genes[i]) == VALID ? 7 : genes[i].at,
			       f->bytes);
			if (how_of(&genes[i]) != VALID)
				is_wrong(m, 0);
			continue;
		}
		value = make_field(m, f, &genes[i]);
		memcpy(bytes + f->offset, &value, f->bytes);
		if (f->offset == offsetof(struct lsmem_create, flags))
			m->durable_kind = value & LSMEM_STORE_DURABLE;
		if (f->offset == offsetof(struct lsmem_create, kind))
			m->block_kind = value == LSMEM_KIND_BLOCK;
	}
}

/* ---- The call ----------------------------------------------------------- */

void note(struct making *m, int fd, uint64_t request, const void *argument, const void *bytes,
	  uint32_t nr_bytes)
{
	struct progress *p = m->me->progress;

	p->kind = m->call->kind;
	p->fd = fd;
	p->request = request;
	p->argument = (uintptr_t)argument;
	p->nr_bytes = nr_bytes < sizeof(p->bytes) ? nr_bytes : sizeof(p->bytes);
	if (bytes)
		memcpy(p->bytes, bytes, p->nr_bytes);
	else
		p->nr_bytes = 0;
}

static void guards_check(const struct making *m, const struct description *d, long ret)
{
	uint32_t i, j, wrong;

	for (i = 0; i < m->guards; i++) {
		const uint8_t *guard = m->guard[i];

		for (wrong = j = 0; j < GUARD; j++)
			wrong += guard[j] != GUARD_BYTE;
		if (wrong)
			failed(VERDICT_BEYOND, "%s, returning %ld, changed %u of %u bytes at %p beyond its buffer (argument %p, %u bytes; data %u bytes): %02x %02x %02x %02x",
			       d->name, ret, wrong, GUARD, (const void *)guard,
			       (const void *)m->argument, m->size, m->length, guard[0], guard[1],
			       guard[2], guard[3]);
	}
}

/* What a descriptor is of. */
static const char *name_of(int fd, char *name, size_t size)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, name, size - 1) < 0 ? "?" : name;
}

void judge(const struct making *m, const struct description *d, long ret)
{
	const struct process *process = m->me->process;
	char name[64] = "";

	if (!process->root && d->on == FD_CONTROL && m->sure && ret != -EPERM)
		failed(VERDICT_PRIVILEGE, "%s without privilege returned %ld", d->name, ret);
	guards_check(m, d, ret);
	/* Another thread may have closed the descriptor, and reused its number. */
	if (fd_changed(m) || (m->from && ret == -EBADF))
		return;
	if (!m->sure || (!process->root && d->on == FD_CONTROL))
		return;
	if (m->wrong == 1 && m->expected) {
		atomic_fetch_add_explicit(&shared->refusals, 1, memory_order_relaxed);
		if (ret != -m->expected)
			failed(VERDICT_REFUSED, "%s with one field wrong returned %ld (%s), not %d; descriptor %d: %s",
			       d->name, ret, strerrorname_np((int)-ret) ?: "?", m->expected, m->fd,
			       name_of(m->fd, name, sizeof(name)));
	}
	if (!m->wrong && d->must && ret)
		failed(VERDICT_REFUSED, "%s with nothing wrong returned %ld", d->name, ret);
}

long run_fixed(struct making *m, const struct description *d,
	       long (*uring)(struct making *m, unsigned long request))
{
	const struct gene *gene = m->call->gene;
	unsigned long request = d->request;
	uint8_t after[PAGE];
	long ret;

	pick_fd(m, &gene[0], d->on);
	m->size = d->bytes;
	m->first = d->first;
	make_fields(m, d->fields, d->nr_fields, &gene[2], m->bytes);
	if (is_unsafe(m, d, &gene[1]))
		m->argument = memcpy(m->me->heap, m->bytes, m->size);
	else
		m->argument = place_argument(m, &gene[1]);
	if (gene[1].small % 16 == 0)	/* the kernel ignores size and direction in the number */
		request = (request & 0xffff) | (gene[1].bits & 0xffff0000ul);
	note(m, m->fd, request, m->argument, m->bytes, m->size);
	if (uring)
		ret = uring(m, request);
	else
		ret = syscall(SYS_ioctl, m->fd, request, m->argument) ? -errno : 0;
	judge(m, d, ret);
	if (!d->done)
		return ret;
	/* After an error the argument is unchanged: do not read it back. */
	if (!ret) {
		if (!touch_copy(after, m->argument, d->bytes))
			return ret;
		/* /dev/null accepts each command of io_uring and does nothing: there is no new descriptor. */
		if (uring && !memcmp(after, m->bytes, d->bytes))
			return -ENOTTY;
		memcpy(m->bytes, after, d->bytes);
	}
	d->done(m, m->bytes, ret);
	return ret;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void call_make(struct caller *me, const struct call *call)
{
	const struct description *d = &descriptions[call->kind];
	uint64_t calls = atomic_load_explicit(&me->progress->calls, memory_order_relaxed);
	uint64_t begin = calls % TIMED_ONE_IN ? 0 : now_ns();
	struct making m;
	long ret;

	memset(&m, 0, offsetof(struct making, bytes));
	m.me = me;
	m.call = call;
	m.store = -1;
	m.slot = -1;
	m.random = call->gene[0].bits | 1ull << 40;
	memset(m.bytes, 0, 512);
	ret = d->run ? d->run(&m) : run_fixed(&m, d, NULL);
	me->counts[call->kind][ret < 0 && ret > -ERRNOS ? -ret : 0]++;
	if (begin) {
		me->progress->timed[call->kind]++;
		me->progress->ns[call->kind] += now_ns() - begin;
	}
	atomic_store_explicit(&me->progress->calls, calls + 1, memory_order_relaxed);
}
