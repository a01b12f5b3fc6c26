// SPDX-License-Identifier: GPL-2.0
/* Objects under power cuts: vectors, half of which are durable, and fsync. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <lsmem.h>

#include "../common/zipf.h"
#include "acked.h"

#define SYNC_EVERY	16u	/* batches */
#define SCATTER		2654435761ull	/* a prime */

/* Slot number @i of @nr in an order in which neighbours are far apart; each one once. */
static uint64_t scatter(uint64_t i, uint64_t nr)
{
	return i % nr * SCATTER % nr;
}

/* The id depends on the length too, so that contents that were cut short are wrong. */
static uint64_t content_id(uint64_t slot, uint64_t length)
{
	return slot | length << 32;
}

static bool present(const struct state *s)
{
	return s->op == OP_ALLOC || s->op == OP_REPLACE;
}

static void die(const char *what)
{
	fprintf(stderr, "acked: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Are at least @live per mille of the store's capacity live? */
static bool store_full(int fd, unsigned int live)
{
	struct lsmem_stat stat = { .size = sizeof(stat) };

	if (ioctl(fd, LSMEM_IOC_STAT, &stat))
		die("stat");
	return stat.live_bytes >= stat.capacity / 1000 * live;
}

/* @versions: of objects, by slot; 0: not known.  @before: slots of the batch before, @nr_before */
struct batch {
	uint64_t *versions;
	uint64_t before[BATCH];
	uint32_t nr_before;
	struct lsmem_op ops[BATCH];
	struct record records[BATCH];
	uint8_t data[BATCH][OBJECT_LENGTH_MAX];
	uint32_t nr;
};

/* Add an operation on a slot to the batch.  @dice: of the length, if it has bytes */
static void batch_add(struct work *w, struct batch *b, uint64_t slot, uint8_t kind, uint64_t dice)
{
	struct state now = slot_now(&w->oracle->slots[slot]);
	struct lsmem_op *op = &b->ops[b->nr];
	struct record *r = &b->records[b->nr];

	record_fill(r, 'o', ISSUED, kind, w->thread);
	r->slot = slot;
	r->sequence = atomic_fetch_add(w->sequence, 1) + 1;
	r->handle = kind == OP_ALLOC ? 0 : now.handle;
	*op = (struct lsmem_op){ .size = sizeof(*op), .handle = r->handle };
	if (kind == OP_FREE) {
		op->op = LSMEM_OP_FREE;
	} else if (kind == OP_CHECK) {
		op->op = LSMEM_OP_CHECK;
		op->flags = LSMEM_OPF_EXPECT;
		op->version = b->versions[slot];
	} else {
		r->length = w->shortest + dice % (w->longest - w->shortest + 1);
		content_fill(b->data[b->nr], r->length, content_id(slot, r->length), r->sequence);
		op->op = kind == OP_ALLOC ? LSMEM_OP_ALLOC : LSMEM_OP_REPLACE;
		op->data = (uintptr_t)b->data[b->nr];
		op->length = r->length;
		op->table = kind == OP_ALLOC ? slot % 16 : 0;
	}
	record_seal(r);
	oracle_take(w->oracle, r);
	b->nr++;
}

/* Change the object of a slot in the batch.  @full: allocate no more, and free some objects. */
static void batch_change(struct work *w, struct batch *b, uint64_t slot, bool full)
{
	struct state now = slot_now(&w->oracle->slots[slot]);
	uint64_t dice = random_next(&w->random);

	if (present(&now))
		batch_add(w, b, slot, dice % 8 == 0 && full ? OP_FREE : OP_REPLACE, dice >> 8);
	else if (!full)
		batch_add(w, b, slot, OP_ALLOC, dice >> 8);
}

/* Check some objects of the batch before, which may not be durable yet, in this one. */
static void batch_check(struct work *w, struct batch *b)
{
	uint32_t i;

	for (i = 0; i < b->nr_before; i++) {
		struct state now = slot_now(&w->oracle->slots[b->before[i]]);

		if (b->nr < w->batch && present(&now) && b->versions[b->before[i]] && random_chance(&w->random, 10))
			batch_add(w, b, b->before[i], OP_CHECK, 0);
	}
}

/* Write the batch to the journal, carry it out, perhaps as a group, and write its results to the journal. */
static void batch_run(struct work *w, struct batch *b, bool durable, bool atomic)
{
	struct lsmem_vector vector = {
		.size = sizeof(vector),
		.flags = (durable ? LSMEM_OPF_DURABLE : 0) | (atomic ? LSMEM_OPF_ATOMIC : 0),
		.ops = (uintptr_t)b->ops,
		.nr = b->nr,
		.stride = sizeof(b->ops[0]),
	};
	bool refused = false;
	uint32_t i;

	journal_write(b->records, b->nr);
	if (ioctl(w->fd, LSMEM_IOC_VECTOR, &vector) && errno != ETIMEDOUT) {
		/* A group is refused as a whole; so is what follows one that does not become durable. */
		refused = atomic && (errno == ENOSPC || errno == EBUSY);
		if (!refused)
			die("vector");
	}
	for (i = 0; i < b->nr; i++) {
		struct record *r = &b->records[i];
		int result = refused ? -ENOSPC : b->ops[i].result;

		if (result == -EBUSY)
			result = -ENOSPC;
		if (result && result != -ETIMEDOUT && result != -ENOSPC) {
			errno = -result;
			die("operation");
		}
		r->what = result == -ENOSPC ? REFUSED :
			  durable && !result ? DURABLE : DONE;
		if (r->op == OP_ALLOC)
			r->handle = b->ops[i].handle;
		if (r->what != REFUSED)
			b->versions[r->slot] = b->ops[i].version;
		figures.changes += r->op == OP_REPLACE || r->op == OP_FREE;
		record_seal(r);
		oracle_take(w->oracle, r);
	}
	journal_write(b->records, b->nr);
}

/* The operations of the batch are a group. */
static void batch_group(struct batch *b)
{
	uint32_t i;

	for (i = 0; i < b->nr; i++) {
		b->records[i].group = b->records[0].sequence;
		record_seal(&b->records[i]);
	}
}

static void sync_objects(struct work *w)
{
	struct record r;

	if (fsync(w->fd))
		die("fsync");
	record_fill(&r, 'o', SYNCED, OP_NONE, w->thread);
	r.sequence = atomic_load(w->sequence);
	record_seal(&r);
	journal_write(&r, 1);
	oracle_take(w->oracle, &r);
}

static bool batch_has(const struct batch *b, uint64_t slot)
{
	uint32_t i;

	for (i = 0; i < b->nr && b->records[i].slot != slot; i++)
		;
	return i < b->nr;
}

/* A slot by Zipf's law, of writer number @first; the frequent ones are far from each other. */
static uint64_t zipf_slot(struct work *w, uint64_t first)
{
	return first + scatter(zipf_next(&w->random), w->oracle->nr_slots / w->step) * w->step;
}

/* Carry out one batch of operations on different slots. */
static void load_batch(struct work *w, struct batch *b, uint64_t *next, bool filling)
{
	bool full = store_full(w->fd, w->live);
	uint64_t mine = (w->oracle->nr_slots - w->first + w->step - 1) / w->step, tries, slot;
	uint64_t dice = filling ? 0 : random_next(&w->random);
	bool durable = dice & 1, atomic = dice & 2;
	uint32_t i;

	b->nr = 0;
	if (atomic)
		batch_check(w, b);
	for (tries = 0; tries < 2 * w->batch && b->nr < w->batch && tries < mine; tries++) {
		/* Consecutive slots of this thread */
		slot = w->first + (*next + tries) % mine * w->step;
		if (w->zipf && !filling)
			slot = zipf_slot(w, w->first);
		if (!batch_has(b, slot))
			batch_change(w, b, slot, full);
	}
	*next = filling ? *next + tries : random_next(&w->random);
	if (!b->nr)
		return;
	if (atomic)
		batch_group(b);
	batch_run(w, b, durable, atomic);
	b->nr_before = b->nr;
	for (i = 0; i < b->nr; i++)
		b->before[i] = b->records[i].slot;
}

void *load_objects(void *arg)
{
	struct work *w = arg;
	struct batch *b = calloc(1, sizeof(*b));
	uint64_t next = 0, batches;

	if (b)
		b->versions = calloc(w->oracle->nr_slots, sizeof(*b->versions));
	if (!b || !b->versions)
		die("memory");
	while (next * w->step < w->oracle->nr_slots && !store_full(w->fd, w->live)) {
		load_batch(w, b, &next, true);
		if (next / BATCH % SYNC_EVERY == 0)
			sync_objects(w);
	}
	sync_objects(w);
	atomic_fetch_add(w->ready, 1);
	for (batches = 1;; batches++) {
		load_batch(w, b, &next, false);
		if (batches % SYNC_EVERY == 0)
			sync_objects(w);
	}
	return NULL;
}

/* ---- Reading during the load -------------------------------------------- */

/* Read objects through the windows: the bytes must be one whole version. */
void *load_readers(void *arg)
{
	uint8_t data[OBJECT_LENGTH_MAX];
	struct work *w = arg;
	struct lsm *lsm;
	int ret;

	ret = lsm_open(w->path, 0, &lsm);
	if (ret) {
		errno = -ret;
		die("lsm_open");
	}
	for (;;) {
		uint64_t slot = random_next(&w->random) % w->oracle->nr_slots, sequence;

		if (w->zipf)
			slot = zipf_slot(w, slot % w->step);
		/* Another thread may change the handle; an old one only fails with ESTALE. */
		uint64_t handle = __atomic_load_n(&w->oracle->slots[slot].base.handle,
						  __ATOMIC_RELAXED);
		ssize_t n = handle ? lsm_read(lsm, handle, data, sizeof(data), 0, NULL) : -ESTALE;

		/* The limit of a fetch: the test may have shortened it, or stopped the daemon. */
		if (n == -ESTALE || n == -ENOENT || n == -ETIMEDOUT)
			continue;
		if (n < 0) {
			errno = -n;
			die("lsm_read");
		}
		if (!content_right(data, n, content_id(slot, n), &sequence)) {
			errno = EBADMSG;
			die("lsm_read gave bytes that were not written");
		}
		figures.reads++;
	}
	return NULL;
}

/* ---- Verification ------------------------------------------------------- */

/* Read an object and set @found. Returns true if its bytes are not those that were written. */
static bool object_look(int fd, uint64_t slot, uint64_t handle, struct state *found)
{
	uint8_t data[OBJECT_LENGTH_MAX];
	struct lsmem_op op = {
		.size = sizeof(op),
		.op = LSMEM_OP_READ,
		.handle = handle,
		.data = (uintptr_t)data,
		.length = sizeof(data),
	};

	*found = (struct state){ .op = OP_FREE };
	while (ioctl(fd, LSMEM_IOC_READ, &op)) {
		if (errno == ESTALE || errno == ENOENT)
			return false;
		/* The recovery has not ended. */
		if (errno != EAGAIN || !wait_store())
			die("read");
	}
	*found = (struct state){ .op = OP_REPLACE, .handle = handle, .length = op.length };
	return !content_right(data, op.length, content_id(slot, op.length),
			      &found->sequence);
}

/* Try all handles that a slot may have, and set @found to the object that exists. */
static bool slot_look(int fd, const struct slot *slot, uint64_t number, struct state *found)
{
	bool corrupt = false;
	uint64_t last = 0;
	uint32_t i;

	*found = (struct state){ .op = OP_FREE };
	for (i = 0; i <= slot->nr_pending; i++) {
		const struct state *s = i ? &slot->pending[i - 1] : &slot->base;
		struct state one;

		if (!s->handle || s->handle == last)
			continue;
		last = s->handle;
		if (object_look(fd, number, s->handle, &one))
			corrupt = true;
		if (present(&one))
			*found = one;
	}
	return corrupt;
}

/* A verification: its threads take the next slot each. @lock: protects model and verdict. */
struct verification {
	int fd;
	struct oracle *oracle;
	struct verdict *verdict;
	_Atomic uint64_t next;
	pthread_mutex_t lock;
};

static void *verify_slots(void *arg)
{
	struct verification *all = arg;
	struct oracle *o = all->oracle;
	struct verdict *v = all->verdict;
	struct state found;
	uint64_t i, slot;
	bool corrupt;

	while ((i = all->next++) < o->nr_slots) {
		slot = scatter(i, o->nr_slots);
		corrupt = slot_look(all->fd, &o->slots[slot], slot, &found);
		pthread_mutex_lock(&all->lock);
		if (!v->first_read && present(&found) && !corrupt)
			v->first_read = seconds_now();
		verify_slot(o, slot, &found, corrupt, v);
		pthread_mutex_unlock(&all->lock);
		figures.checked++;
	}
	return NULL;
}

int verify_objects(int fd, struct oracle *o, unsigned int threads, struct verdict *v)
{
	struct verification all = { .fd = fd, .oracle = o, .verdict = v,
				    .lock = PTHREAD_MUTEX_INITIALIZER };
	uint64_t i, n = o->nr_freed < ORACLE_FREED ? o->nr_freed : ORACLE_FREED;
	pthread_t thread[VERIFIERS];
	struct state found;

	/* Wait for the end of a recovery in one thread: many would take processor time from it. */
	for (i = 0; i < o->nr_slots && !o->slots[i].base.handle; i++)
		;
	if (i < o->nr_slots)
		object_look(fd, i, o->slots[i].base.handle, &found);
	for (i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, verify_slots, &all))
			die("thread");
	for (i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	v->all_read = seconds_now();
	/* A handle whose free is durable must stay stale; no other object may have it. */
	for (i = 0; i < n; i++) {
		object_look(fd, 0, o->freed[i], &found);
		v->checked++;
		if (!present(&found))
			continue;
		fprintf(stderr, "handle %#llx was freed, durably, and is back\n",
			(unsigned long long)o->freed[i]);
		v->corrupt++;
	}
	return 0;
}
