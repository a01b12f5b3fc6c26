// SPDX-License-Identifier: GPL-2.0
/* Torture: the operations of a worker, and the checks of their results.  See torture.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <lsmem.h>

#include "store.h"
#include "torture.h"

#define LENGTH_MAX	(1u << 20)

/**
 * struct self - a thread of a worker
 * @number: of the thread, unique over all workers
 * @state: its slots and blocks in the model
 * @lsm: the object store, shared by the threads of the worker
 * @disk: the block store, or -1
 * @random: state of its random numbers
 * @injected: calls of the present operation may fail by injection
 * @data: buffer for writes, LENGTH_MAX bytes
 * @check: buffer for reads, LENGTH_MAX bytes
 */
struct self {
	uint32_t number;
	struct thread_state *state;
	struct lsm *lsm;
	int disk;
	uint64_t random;
	bool injected;
	uint8_t *data, *check;
};


static uint64_t below(struct self *s, uint64_t n)
{
	return random_below(&s->random, n);
}

static uint64_t id_of(uint32_t thread, uint32_t slot)
{
	return (uint64_t)(thread + 1) << 32 | slot;
}

static uint32_t some_length(struct self *s)
{
	uint64_t dice = below(s, 1000);

	if (dice < 600)
		return 1 + below(s, 200);
	if (dice < 900)
		return 1 + below(s, 4096);
	if (dice < 995)
		return 1 + below(s, 32768);
	return 1 + below(s, LENGTH_MAX);
}

/* ---- Permitted results ------------------------------------------------- */

/* Is an error permitted that does not depend on the object?  Count it if so. */
static bool excused(const struct self *s, int ret)
{
	switch (ret) {
	case -ENOMEM:
	case -EFAULT:
	case -EIO:
		if (!s->injected)
			return false;
		count(COUNT_INJECTED, 1);
		return true;
	case -ENOSPC:
	case -EAGAIN:
		/* Without a daemon the store gets no more segments and generations. */
		if (s->injected && ret == -EAGAIN) {
			count(COUNT_INJECTED, 1);
			return true;
		}
		if (!model->durable)
			return false;
		count(COUNT_FULL, 1);
		return true;
	default:
		return false;
	}
}

static bool gone(int ret)
{
	return ret == -ESTALE || (ret == -ENOENT && atomic_load(&model->lossy));
}

static ssize_t read_sure(struct self *s, uint64_t handle, struct lsm_object *object)
{
	ssize_t n;

	inject(false);
	n = lsm_read(s->lsm, handle, s->check, LENGTH_MAX, 0, object);
	return n;
}

/* Is the object as @c says?  Reads without injection. */
static bool holds(struct self *s, uint64_t id, const struct content *c)
{
	struct lsm_object object = { 0 };
	ssize_t n;

	if (!c->handle)
		return !c->serial;
	n = read_sure(s, c->handle, &object);
	if (!c->serial)
		return gone(n);
	return n == c->length && content_is(s->check, c->length, id, c->serial) &&
	       (!c->version || object.version == c->version);
}

static void describe(struct self *s, uint64_t id, const struct slot *slot, const char *what)
{
	struct lsm_object object = { 0 };
	ssize_t n = slot->now.handle ? read_sure(s, slot->now.handle, &object) : -ENOENT;

	wrong("%s: object %#llx handle %#llx: wanted serial %llu length %u version %#llx, or serial %llu length %u; read %zd version %#llx",
	      what, (unsigned long long)id, (unsigned long long)slot->now.handle,
	      (unsigned long long)slot->now.serial, slot->now.length,
	      (unsigned long long)slot->now.version, (unsigned long long)slot->next.serial,
	      slot->next.length, n, (unsigned long long)object.version);
}

static void settle(struct self *s, struct slot *slot)
{
	atomic_store(&slot->stage, DONE);
	if (!slot->next.serial)
		s->state->freed[s->state->nr_freed++ % FREED] = slot->next.handle;
	slot->now = slot->next;
	atomic_store(&slot->stage, IDLE);
}

/* Sync, and repeat that after a timeout until model->stop is set. 0 or a negative errno. */
static int sync_sure(struct self *s)
{
	int ret;

	inject(false);
	while ((ret = lsm_sync(s->lsm, 0)) == -ETIMEDOUT && !atomic_load(&model->stop))
		count(COUNT_TIMEOUT, 1);
	return ret;
}

/* Find out whether an operation of unknown result was applied, and set the slot accordingly. */
static void resolve(struct self *s, uint32_t number, struct slot *slot)
{
	uint64_t id = id_of(s->number, number);
	struct lsm_object object;

	if (atomic_load(&slot->stage) == IDLE)
		return;
	if (atomic_load(&slot->stage) == DONE) {
		settle(s, slot);
		return;
	}
	count(COUNT_RESOLVED, 1);
	slot->next.version = 0;
	if (!slot->now.serial && !slot->next.handle) {
		/* An allocation: if it was applied, its handle is lost with the killed worker. */
		count(COUNT_ORPHANS, 1);
	} else if (holds(s, id, &slot->next)) {
		if (slot->next.serial && read_sure(s, slot->next.handle, &object) >= 0)
			slot->next.version = object.version;
		/* Without a sync it may still be lost: then the slot stays UNDER_WAY. */
		if (!model->durable || !sync_sure(s))
			settle(s, slot);
		return;
	} else if (!holds(s, id, &slot->now)) {
		describe(s, id, slot, "neither old nor new");
	}
	slot->next = slot->now;
	atomic_store(&slot->stage, IDLE);
}

/* ---- Objects ----------------------------------------------------------- */

/* Choose the next operation for a slot, and record it in the model. */
static void choose(struct self *s, struct slot *slot, uint32_t length_max)
{
	uint32_t length = some_length(s);

	slot->next = slot->now;
	if (slot->now.serial && below(s, 8) == 0) {
		slot->next.serial = 0;
		slot->next.length = 0;
	} else {
		if (!slot->now.serial)
			slot->next.handle = 0;
		slot->next.serial = ++s->state->serial;
		slot->next.length = length < length_max ? length : length_max;
	}
	slot->next.version = 0;
	atomic_store(&slot->stage, UNDER_WAY);
}

/* Check the result of the operation that choose() has recorded, and update the slot. */
static void ended(struct self *s, uint32_t number, struct slot *slot, int ret)
{
	uint64_t id = id_of(s->number, number);

	inject(false);
	if (ret == -ETIMEDOUT && model->durable) {
		/* The operation was applied; it is durable after a sync. */
		count(COUNT_TIMEOUT, 1);
		ret = sync_sure(s);
		if (ret == -ETIMEDOUT)
			return;		/* the slot stays UNDER_WAY, as after a kill */
	}
	if (!ret) {
		if (slot->next.serial && slot->next.version <= slot->now.version)
			wrong("object %#llx: version %#llx after %#llx", (unsigned long long)id,
			      (unsigned long long)slot->next.version,
			      (unsigned long long)slot->now.version);
		settle(s, slot);
		return;
	}
	if (!excused(s, ret)) {
		wrong("object %#llx: %s", (unsigned long long)id, strerror(-ret));
		resolve(s, number, slot);
		return;
	}
	/* A call that returns an error must change nothing. */
	if (slot->now.serial && !holds(s, id, &slot->now))
		describe(s, id, slot, strerror(-ret));
	if (!slot->now.serial && ret == -EFAULT)
		count(COUNT_ORPHANS, 1);
	slot->next = slot->now;
	atomic_store(&slot->stage, IDLE);
}

static void operate(struct self *s)
{
	uint32_t number = below(s, SLOTS);
	struct slot *slot = &s->state->slots[number];
	unsigned int flags = model->durable && below(s, 4) ? LSM_DURABLE : 0;
	struct content *next = &slot->next;
	int ret;

	choose(s, slot, LENGTH_MAX);
	content_fill(s->data, next->length, id_of(s->number, number), next->serial);
	if (slot->now.serial && below(s, 4) == 0) {
		flags |= LSM_EXPECT;
		next->version = slot->now.version;
	}
	inject(s->injected);
	if (!next->serial)
		ret = lsm_free(s->lsm, next->handle, flags, &next->version);
	else if (!slot->now.serial)
		ret = lsm_alloc(s->lsm, s->data, next->length, flags | LSM_TABLE(s->number),
				&next->handle, &next->version);
	else
		ret = lsm_replace(s->lsm, next->handle, s->data, next->length, flags,
				  &next->version);
	/* The model counts an operation as acknowledged only when it is durable. */
	if (!ret && model->durable && !(flags & LSM_DURABLE)) {
		inject(false);
		ret = lsm_sync(s->lsm, 0);
	}
	count(COUNT_WRITES, 1);
	if (ret == -EFAULT && excused(s, ret)) {
		/* The copy of the result may have failed: the operation was applied or not. */
		inject(false);
		resolve(s, number, slot);
		return;
	}
	ended(s, number, slot, ret);
}

static void vector(struct self *s)
{
	struct lsmem_op ops[BATCH];
	uint32_t first = below(s, SLOTS - BATCH), nr = 1 + below(s, BATCH), i;
	uint8_t *data = s->data;
	size_t done = 0;
	int ret;

	for (i = 0; i < nr; i++) {
		struct slot *slot = &s->state->slots[first + i];

		choose(s, slot, LENGTH_MAX / BATCH);
		content_fill(data, slot->next.length, id_of(s->number, first + i),
			      slot->next.serial);
		if (!slot->next.serial)
			ops[i] = lsm_op_free(slot->next.handle, 0, 0);
		else if (!slot->now.serial)
			ops[i] = lsm_op_alloc(data, slot->next.length, LSM_TABLE(s->number));
		else
			ops[i] = lsm_op_replace(slot->next.handle, data, slot->next.length, 0, 0);
		data += slot->next.length;
	}
	inject(s->injected);
	ret = lsm_vector(s->lsm, ops, nr, model->durable ? LSM_DURABLE : 0, &done);
	inject(false);
	count(COUNT_VECTORS, 1);
	for (i = 0; i < nr; i++) {
		struct slot *slot = &s->state->slots[first + i];

		if (ret || i >= done) {
			/* The result of this operation is not known. */
			if (!ret || !excused(s, ret))
				wrong("vector: %s, %zu of %u", strerror(-ret), done, nr);
			resolve(s, first + i, slot);
			continue;
		}
		slot->next.handle = ops[i].handle;
		slot->next.version = ops[i].version;
		ended(s, first + i, slot, ops[i].result);
	}
}

/* A handle that was freed is stale, and a wrong version is refused. */
static void refused(struct self *s)
{
	struct slot *slot = &s->state->slots[below(s, SLOTS)];
	struct lsm_object object;
	uint64_t handle, version;
	int ret;

	if (s->state->nr_freed) {
		handle = s->state->freed[below(s, s->state->nr_freed < FREED ? s->state->nr_freed :
					       FREED)];
		inject(s->injected);
		ret = below(s, 2) ? lsm_read(s->lsm, handle, s->check, 16, 0, &object) :
				    lsm_replace(s->lsm, handle, s->data, 16, 0, NULL);
		inject(false);
		count(COUNT_STALE, 1);
		if (!gone(ret) && !excused(s, ret))
			wrong("freed handle %#llx: %d", (unsigned long long)handle, ret);
	}
	if (!slot->now.serial)
		return;
	version = slot->now.version + 1;
	inject(s->injected);
	ret = below(s, 2) ? lsm_free(s->lsm, slot->now.handle, LSM_EXPECT, &version) :
			    lsm_replace(s->lsm, slot->now.handle, s->data, 1, LSM_EXPECT, &version);
	inject(false);
	count(COUNT_REFUSED, 1);
	/* With injection the copy of the true version may fail: @version has not changed then. */
	if ((ret != -EILSEQ || version - slot->now.version > (s->injected ? 1 : 0)) &&
	    !excused(s, ret))
		wrong("handle %#llx with version %#llx, not %#llx: %d",
		      (unsigned long long)slot->now.handle, (unsigned long long)version,
		      (unsigned long long)slot->now.version, ret);
}

/* Read an object of this thread, through the windows or by ioctl: it must be as the slot says. */
static void read_own(struct self *s)
{
	uint32_t number = below(s, SLOTS);
	struct slot *slot = &s->state->slots[number];
	uint64_t id = id_of(s->number, number);
	struct lsmem_op op;
	ssize_t n;

	count(COUNT_READS, 1);
	if (!slot->now.serial)
		return;
	if (below(s, 2)) {
		if (!holds(s, id, &slot->now))
			describe(s, id, slot, "read");
		return;
	}
	op = lsm_op_read(slot->now.handle, s->check, LENGTH_MAX, 0);
	inject(s->injected);
	n = ioctl(lsm_fd(s->lsm), LSMEM_IOC_READ, &op) ? -errno : (ssize_t)op.length;
	inject(false);
	if (n < 0 ? !excused(s, n) :
	    n != slot->now.length || op.version != slot->now.version ||
	    !content_is(s->check, slot->now.length, id, slot->now.serial))
		describe(s, id, slot, "read by ioctl");
}

/* Read an object of any thread: it must be one whole version, or not exist. */
static void read_other(struct self *s)
{
	uint32_t thread = below(s, NR_THREADS), number = below(s, SLOTS);
	uint64_t handle = __atomic_load_n(&model->threads[thread].slots[number].now.handle,
					  __ATOMIC_RELAXED), serial;
	ssize_t n;

	if (!handle)
		return;
	count(COUNT_READS, 1);
	n = read_sure(s, handle, NULL);
	if (n >= 16 && !content_right(s->check, n, id_of(thread, number), &serial))
		wrong("handle %#llx has bytes that were not written", (unsigned long long)handle);
	if (n < 0 && !gone(n) && n != -ENOENT)
		wrong("handle %#llx: %s", (unsigned long long)handle, strerror(-n));
}

/* A view must show the same bytes while its object is replaced or freed. */
static void view(struct self *s)
{
	uint32_t number = below(s, SLOTS), i, length = 0;
	struct slot *slot = &s->state->slots[number];
	struct content was = slot->now;
	struct lsm_view view;
	bool right;
	int ret;

	if (!was.serial)
		return;
	ret = lsm_view_begin(s->lsm, was.handle, &view);
	if (ret == -EAGAIN)
		return;
	if (ret) {
		wrong("view of %#llx: %s", (unsigned long long)was.handle, strerror(-ret));
		return;
	}
	count(COUNT_VIEWS, 1);
	if (below(s, 2))
		operate(s);
	for (i = 0; i < view.nr; i++) {
		if (length + view.iov[i].iov_len > LENGTH_MAX)
			break;
		memcpy(s->check + length, view.iov[i].iov_base, view.iov[i].iov_len);
		length += view.iov[i].iov_len;
	}
	right = length == was.length &&
		content_is(s->check, length, id_of(s->number, number), was.serial);
	ret = lsm_view_end(s->lsm, &view);
	if (ret == -ECANCELED)
		count(COUNT_REVOKED, 1);
	else if (ret || !right)
		wrong("view of %#llx: end %d, bytes %s", (unsigned long long)was.handle, ret,
		      right ? "right" : "wrong");
}

/* A shared object holds the number of its replacements; replace it, expecting its version. */
static void replace_shared(struct self *s)
{
	uint32_t number = below(s, SHARED);
	struct shared_object *shared = &model->shared[number];
	uint64_t values[2], done = atomic_load(&shared->done), version;
	struct lsm_object object;
	ssize_t n;
	int ret;

	inject(false);
	n = lsm_read(s->lsm, shared->handle, values, sizeof(values), 0, &object);
	if (n != sizeof(values) || values[1] != ~values[0] || values[0] < done) {
		wrong("shared object %u: %zd bytes, %llu replaced %llu times", number, n,
		      (unsigned long long)values[0], (unsigned long long)done);
		return;
	}
	values[0]++;
	values[1] = ~values[0];
	version = object.version;
	atomic_store(&s->state->cas, number + 1);
	inject(s->injected);
	ret = lsm_replace(s->lsm, shared->handle, values, sizeof(values), LSM_EXPECT, &version);
	inject(false);
	if (!ret)
		atomic_fetch_add(&shared->done, 1);
	atomic_store(&s->state->cas, 0);
	count(COUNT_SHARED, 1);
	if (!ret ? version <= object.version : ret != -EILSEQ && !excused(s, ret))
		wrong("shared object %u: replace returns %d, version %#llx after %#llx", number, ret,
		      (unsigned long long)version, (unsigned long long)object.version);
}

/* ---- Blocks ------------------------------------------------------------ */

static uint64_t block_id(const struct self *s, uint32_t number)
{
	return id_of(s->number, number) | 1ull << 63;
}

static off_t block_place(const struct self *s, uint32_t number)
{
	return ((off_t)s->number * BLOCKS + number) * BLOCK;
}

static bool block_is(const uint8_t *data, uint64_t id, uint64_t serial)
{
	static const uint8_t zero[BLOCK];

	return serial ? content_is(data, BLOCK, id, serial) : !memcmp(data, zero, BLOCK);
}

static void block_read(struct self *s, uint32_t first, uint32_t nr)
{
	uint32_t i;

	inject(false);
	if (pread(s->disk, s->check, nr * BLOCK, block_place(s, first)) != nr * BLOCK) {
		wrong("blocks %u: read: %s", first, strerror(errno));
		return;
	}
	for (i = 0; i < nr; i++) {
		struct block *b = &s->state->blocks[first + i];
		bool new = atomic_load(&b->stage) == UNDER_WAY &&
			   block_is(s->check + i * BLOCK, block_id(s, first + i), b->next);

		if (!new && !block_is(s->check + i * BLOCK, block_id(s, first + i), b->now))
			wrong("thread %u block %u: neither %llu nor %llu", s->number, first + i,
			      (unsigned long long)b->now, (unsigned long long)b->next);
		if (new)
			b->now = b->next;
		atomic_store(&b->stage, IDLE);
	}
}

static void blocks(struct self *s)
{
	uint32_t nr = 1 + below(s, 16), first = below(s, BLOCKS - nr), i;
	bool discard = below(s, 10) == 0, sure;
	ssize_t n = nr * BLOCK;

	count(COUNT_BLOCKS, 1);
	if (below(s, 2)) {
		block_read(s, first, nr);
		return;
	}
	for (i = 0; i < nr; i++) {
		struct block *b = &s->state->blocks[first + i];

		b->next = discard ? 0 : ++s->state->serial;
		if (!discard)
			content_fill(s->data + i * BLOCK, BLOCK, block_id(s, first + i), b->next);
		atomic_store(&b->stage, UNDER_WAY);
	}
	inject(s->injected);
	if (discard) {
		uint64_t range[2] = { (uint64_t)block_place(s, first), (uint64_t)n };

		sure = !ioctl(s->disk, BLKDISCARD, range);
	} else {
		sure = pwrite(s->disk, s->data, n, block_place(s, first)) == n;
	}
	if (!sure && !excused(s, -errno))
		wrong("blocks %u: %s", first, strerror(errno));
	inject(false);
	for (i = 0; i < nr && sure; i++) {
		struct block *b = &s->state->blocks[first + i];

		b->now = b->next;
		atomic_store(&b->stage, IDLE);
	}
	if (!sure)
		block_read(s, first, nr);
}

/* ---- Life -------------------------------------------------------------- */

static void begin(struct self *s)
{
	uint32_t i;

	for (i = 0; i < SLOTS; i++)
		resolve(s, i, &s->state->slots[i]);
	for (i = 0; i < BLOCKS && s->disk >= 0; i += 16)
		block_read(s, i, 16);
	i = atomic_exchange(&s->state->cas, 0);
	if (i)
		atomic_fetch_add(&model->shared[i - 1].unsure, 1);
}

static void *run(void *argument)
{
	struct self *s = argument;
	uint64_t dice;

	begin(s);
	while (!atomic_load(&model->stop) && atomic_load(&model->failures) < 20) {
		dice = below(s, 100);
		s->injected = model->inject && below(s, 2);
		if (dice < 35)
			operate(s);
		else if (dice < 42)
			vector(s);
		else if (dice < 55)
			read_own(s);
		else if (dice < 70)
			read_other(s);
		else if (dice < 80)
			view(s);
		else if (dice < 85)
			refused(s);
		else if (dice < 90 && !model->durable)
			replace_shared(s);
		else if (s->disk >= 0)
			blocks(s);
		count(COUNT_OPERATIONS, 1);
	}
	return NULL;
}

static int self_init(struct self *s, uint32_t number, struct lsm *lsm, uint64_t random)
{
	s->number = number;
	s->state = &model->threads[number];
	s->lsm = lsm;
	s->random = random + number;
	s->disk = -1;
	if (model->disk[0]) {
		s->disk = open(model->disk, O_RDWR | O_DIRECT | O_CLOEXEC);
		if (s->disk < 0)
			return -errno;
	}
	if (posix_memalign((void **)&s->data, BLOCK, LENGTH_MAX) ||
	    posix_memalign((void **)&s->check, BLOCK, LENGTH_MAX))
		return -ENOMEM;
	return 0;
}

int worker(uint32_t number, uint64_t life)
{
	struct self selves[THREADS] = { 0 };
	pthread_t threads[THREADS];
	struct lsm *lsm;
	uint32_t i;
	int ret;

	ret = lsm_open(model->path, 0, &lsm);
	for (i = 0; i < THREADS && !ret; i++)
		ret = self_init(&selves[i], number * THREADS + i, lsm,
				test_seed + (life << 16 | (uint64_t)number << 8));
	for (i = 0; i < THREADS && !ret; i++)
		ret = -pthread_create(&threads[i], NULL, run, &selves[i]);
	if (ret) {
		wrong("worker %u: %s", number, strerror(-ret));
		return 1;
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	lsm_close(lsm);
	return 0;
}

uint64_t verify_all(void)
{
	uint64_t live = 0;
	struct lsm *lsm;
	uint32_t thread, i;
	int ret = lsm_open(model->path, 0, &lsm);

	if (ret) {
		wrong("%s: %s", model->path, strerror(-ret));
		return 0;
	}
	for (thread = 0; thread < NR_THREADS; thread++) {
		struct self s = { 0 };

		ret = self_init(&s, thread, lsm, 0);
		if (ret) {
			wrong("memory: %s", strerror(-ret));
			break;
		}
		begin(&s);
		for (i = 0; i < SLOTS; i++) {
			struct slot *slot = &s.state->slots[i];

			if (!holds(&s, id_of(thread, i), &slot->now))
				describe(&s, id_of(thread, i), slot, "verify");
			live += slot->now.serial != 0;
		}
		if (s.disk >= 0)
			close(s.disk);
		free(s.data);
		free(s.check);
	}
	lsm_close(lsm);
	return live;
}

int shared_begin(void)
{
	uint64_t values[2] = { 0, ~0ull };
	struct lsm *lsm;
	uint32_t i;
	int ret = lsm_open(model->path, 0, &lsm);

	for (i = 0; i < SHARED && !ret; i++)
		ret = lsm_alloc(lsm, values, sizeof(values), 0, &model->shared[i].handle, NULL);
	if (!ret)
		lsm_close(lsm);
	return ret;
}
