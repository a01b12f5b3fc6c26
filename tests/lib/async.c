// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Vectors that end later (lsm_async_*), over a ring in memory.  syscall() of this program is the kernel: it takes
 * submissions, holds them as long as a test wants, and ends them in any order.  tests/guest/async.c has the module.
 *
 *	async [SEED]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"
#include "../common/random.h"
#include "../common/tap.h"

#define MOST		6u	/* vectors; the ring has 8 places for submissions, and 16 for completions */
#define PLACES		8u
#define STEPS		20000u
#define GROUP_MAX	4u
#define STORE_FD	77
#define CQES_AT		4096u
#define RINGS_BYTES	8192u

/* Where the words of the ring are, in bytes */
enum { SQ_HEAD = 0, SQ_TAIL = 64, SQ_MASK = 128, SQ_ARRAY = 256, CQ_HEAD = 512, CQ_TAIL = 576, CQ_MASK = 640 };

/**
 * struct kernel - the other side
 * @fd: of the ring, which is a file
 * @rings: its first part
 * @sqes: its second part
 * @flying: submissions that have not ended, @nr
 * @features: of the ring
 * @refuse_setup: errno of io_uring_setup(); 0: none
 * @refuse: errno of the next io_uring_enter(); 0: none
 * @interrupts: so many calls of that return EINTR first
 * @takes_none: it returns 0
 * @stuck: it was to wait for what does not come
 * @wrong: what was wrong with a submission; NULL: nothing
 */
static struct kernel {
	int fd;
	uint8_t *rings;
	struct io_uring_sqe *sqes;
	struct io_uring_sqe flying[PLACES];
	unsigned int nr;
	uint32_t features;
	int refuse_setup;
	int refuse;
	unsigned int interrupts;
	bool takes_none;
	bool stuck;
	const char *wrong;
} kernel;

static struct fake *fake;
static uint64_t seed;

static uint32_t *word(uint32_t at)
{
	return (uint32_t *)(kernel.rings + at);
}

static struct lsmem_vector *vector_of(const struct io_uring_sqe *sqe)
{
	struct lsmem_command command;

	memcpy(&command, sqe->cmd, sizeof(command));
	return (struct lsmem_vector *)(uintptr_t)command.structure;
}

static int setup(struct io_uring_params *params)
{
	if (kernel.refuse_setup) {
		errno = kernel.refuse_setup;
		return -1;
	}
	kernel.fd = memfd_create("ring", MFD_CLOEXEC);
	if (kernel.fd < 0 || ftruncate(kernel.fd, IORING_OFF_SQES + RINGS_BYTES))
		abort();
	kernel.rings = mmap(NULL, RINGS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, kernel.fd, IORING_OFF_SQ_RING);
	kernel.sqes = mmap(NULL, RINGS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, kernel.fd, IORING_OFF_SQES);
	if (kernel.rings == MAP_FAILED || kernel.sqes == MAP_FAILED)
		abort();
	/* What was there is no part of a submission. */
	memset(kernel.sqes, 0x55, PLACES * sizeof(*kernel.sqes));
	*word(SQ_MASK) = PLACES - 1;
	*word(CQ_MASK) = 2 * PLACES - 1;
	params->features = kernel.features;
	params->sq_entries = PLACES;
	params->cq_entries = 2 * PLACES;
	params->sq_off.head = SQ_HEAD;
	params->sq_off.tail = SQ_TAIL;
	params->sq_off.ring_mask = SQ_MASK;
	params->sq_off.array = SQ_ARRAY;
	params->cq_off.head = CQ_HEAD;
	params->cq_off.tail = CQ_TAIL;
	params->cq_off.ring_mask = CQ_MASK;
	params->cq_off.cqes = CQES_AT;
	return kernel.fd;
}

/* Nothing of a submission may be set but what has a meaning. */
static void check(const struct io_uring_sqe *sqe)
{
	struct lsmem_command command = { 0 };
	struct io_uring_sqe wanted;

	memset(&wanted, 0, sizeof(wanted));
	wanted.opcode = IORING_OP_URING_CMD;
	wanted.fd = STORE_FD;
	wanted.cmd_op = (uint32_t)LSMEM_IOC_VECTOR;
	wanted.user_data = sqe->user_data;
	command.structure = (uintptr_t)vector_of(sqe);
	memcpy(wanted.cmd, &command, sizeof(command));
	if (memcmp(sqe, &wanted, sizeof(wanted)))
		kernel.wrong = "a submission has what has no meaning";
	if (vector_of(sqe)->size != sizeof(struct lsmem_vector))
		kernel.wrong = "a vector has another size";
}

/* Ends one with a result, and so many operations done.  The vector is written to, as long as it is under way. */
static void finish(unsigned int which, int result, uint32_t done)
{
	struct io_uring_cqe *cqes = (struct io_uring_cqe *)(kernel.rings + CQES_AT);
	uint32_t tail = *word(CQ_TAIL);

	if (tail - __atomic_load_n(word(CQ_HEAD), __ATOMIC_ACQUIRE) >= 2 * PLACES)
		kernel.wrong = "there is no room for a completion";
	vector_of(&kernel.flying[which])->nr = done;
	cqes[tail % (2 * PLACES)] = (struct io_uring_cqe){ .user_data = kernel.flying[which].user_data, .res = result };
	__atomic_store_n(word(CQ_TAIL), tail + 1, __ATOMIC_RELEASE);
	kernel.flying[which] = kernel.flying[--kernel.nr];
}

static int enter(unsigned int submit, unsigned int wait)
{
	uint32_t head = *word(SQ_HEAD), taken;

	if (kernel.interrupts) {
		kernel.interrupts--;
		errno = EINTR;
		return -1;
	}
	if (kernel.refuse) {
		errno = kernel.refuse;
		kernel.refuse = 0;
		return -1;
	}
	for (taken = 0; taken < submit && !kernel.takes_none && head != __atomic_load_n(word(SQ_TAIL), __ATOMIC_ACQUIRE);
	     taken++, head++) {
		if (kernel.nr == PLACES) {
			kernel.wrong = "more are under way than may be";
			break;
		}
		kernel.flying[kernel.nr] = kernel.sqes[word(SQ_ARRAY)[head % PLACES] % PLACES];
		check(&kernel.flying[kernel.nr++]);
	}
	__atomic_store_n(word(SQ_HEAD), head, __ATOMIC_RELEASE);
	if (!wait || *word(CQ_HEAD) != *word(CQ_TAIL))
		return (int)taken;
	if (!kernel.nr) {
		kernel.stuck = true;
		errno = EDEADLK;
		return -1;
	}
	finish(0, -ETIMEDOUT, vector_of(&kernel.flying[0])->nr);
	return (int)taken;
}

long syscall(long number, ...)
{
	unsigned int a, b, c;
	va_list list;
	void *pointer;

	va_start(list, number);
	a = va_arg(list, unsigned int);
	if (number == __NR_io_uring_setup) {
		pointer = va_arg(list, void *);
		va_end(list);
		return a && a <= PLACES ? setup(pointer) : -1;
	}
	b = va_arg(list, unsigned int);
	c = va_arg(list, unsigned int);
	va_end(list);
	if (number != __NR_io_uring_enter || (int)a != kernel.fd)
		abort();
	return enter(b, c);
}

static void kernel_begin(void)
{
	kernel = (struct kernel){ .fd = -1, .features = IORING_FEAT_SINGLE_MMAP };
}

/* Return: false: something was wrong with what it was asked for. */
static bool kernel_end(void)
{
	munmap(kernel.rings, RINGS_BYTES);
	munmap(kernel.sqes, RINGS_BYTES);
	CHECK(!kernel.stuck);
	if (kernel.wrong)
		tap_note("%s", kernel.wrong);
	return !kernel.wrong;
}

static bool is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

/* ---- Tests -------------------------------------------------------------------------- */

static bool refused_opens(void)
{
	static const struct {
		int error, ret;
	} refused[] = { { ENOSYS, -EOPNOTSUPP }, { EPERM, -EOPNOTSUPP }, { ENOMEM, -ENOMEM }, { EMFILE, -EMFILE } };
	struct lsm_async *async = NULL;
	unsigned int i;

	kernel_begin();
	CHECK(lsm_async_open(fake->lsm, 0, &async) == -EINVAL);
	CHECK(lsm_async_open(fake->lsm, 4097, &async) == -EINVAL);
	for (i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		kernel.refuse_setup = refused[i].error;
		CHECK(lsm_async_open(fake->lsm, MOST, &async) == refused[i].ret);
	}
	kernel.refuse_setup = 0;
	kernel.features = 0;
	CHECK(lsm_async_open(fake->lsm, MOST, &async) == -EOPNOTSUPP);
	CHECK(is_closed(kernel.fd));
	CHECK(!async);
	return kernel_end();
}

static bool refused_vectors(void)
{
	struct lsmem_op ops[FAKE_VECTOR_MAX + 1];
	struct lsm_async *async;
	uint32_t i;

	for (i = 0; i <= FAKE_VECTOR_MAX; i++)
		ops[i] = lsm_op_alloc("x", 1, 0);
	kernel_begin();
	CHECK(!lsm_async_open(fake->lsm, MOST, &async));
	CHECK(lsm_async_fd(async) == kernel.fd);
	CHECK(lsm_async_submit(async, ops, 0, 0, NULL) == -EINVAL);
	CHECK(lsm_async_submit(async, ops, FAKE_VECTOR_MAX + 1, 0, NULL) == -E2BIG);
	CHECK(lsm_async_submit(async, ops, GROUP_MAX + 1, LSM_ATOMIC, NULL) == -E2BIG);
	fake->lsm->group_max = 0;
	CHECK(lsm_async_submit(async, ops, 1, LSM_ATOMIC, NULL) == -EOPNOTSUPP);
	fake->lsm->group_max = GROUP_MAX;
	fake->lsm->vector_max = 0;
	CHECK(lsm_async_submit(async, ops, 1, 0, NULL) == -EOPNOTSUPP);
	fake->lsm->vector_max = FAKE_VECTOR_MAX;
	CHECK(!kernel.nr);
	CHECK(!lsm_async_submit(async, ops, FAKE_VECTOR_MAX, LSM_DURABLE, ops));
	CHECK(!lsm_async_submit(async, ops, GROUP_MAX, LSM_ATOMIC, ops));
	CHECK(kernel.nr == 2 && vector_of(&kernel.flying[0])->nr == FAKE_VECTOR_MAX);
	lsm_async_close(async);
	CHECK(!kernel.nr && is_closed(kernel.fd));
	lsm_async_close(NULL);
	return kernel_end();
}

/* What the kernel does not take is not submitted later, and leaves room. */
static bool not_taken(void)
{
	static const int errors[] = { EAGAIN, EBUSY, ENOMEM, EBADR };
	struct lsmem_op ops[3];
	struct lsm_async *async;
	unsigned int i, round;
	void *context;
	size_t done;
	int result;

	for (i = 0; i < 3; i++)
		ops[i] = lsm_op_alloc("x", 1, 0);
	kernel_begin();
	CHECK(!lsm_async_open(fake->lsm, 2, &async));
	for (round = 0; round < 5 * PLACES; round++) {
		CHECK(!lsm_async_submit(async, ops, 1, 0, ops));
		for (i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
			kernel.refuse = errors[i];
			CHECK(lsm_async_submit(async, ops, 1, 0, ops) == -errors[i]);
		}
		kernel.takes_none = true;
		CHECK(lsm_async_submit(async, ops, 2, LSM_DURABLE, ops) == -EAGAIN);
		kernel.takes_none = false;
		CHECK(kernel.nr == 1);
		/* What comes next has the place of the one that ends here, not that of those that were not taken. */
		finish(0, 0, 1);
		CHECK(lsm_async_next(async, &context, &result, NULL) == 1 && context == ops && !result);
		kernel.interrupts = round % 3;
		CHECK(!lsm_async_submit(async, ops + 1, 2, LSM_ATOMIC, &ops[2]));
		CHECK(!kernel.interrupts && kernel.nr == 1);
		CHECK(vector_of(&kernel.flying[0])->nr == 2 && vector_of(&kernel.flying[0])->flags == LSM_ATOMIC);
		CHECK(!lsm_async_submit(async, ops, 1, 0, ops));
		CHECK(lsm_async_submit(async, ops, 1, 0, ops) == -EBUSY);
		finish(0, -EILSEQ, 1);
		/* It counts until it is taken. */
		CHECK(lsm_async_submit(async, ops, 1, 0, ops) == -EBUSY);
		CHECK(lsm_async_next(async, &context, &result, &done) == 1);
		CHECK(context == &ops[2] && result == -EILSEQ && done == 1);
		finish(0, 0, 1);
		CHECK(lsm_async_next(async, &context, &result, &done) == 1 && context == ops);
		CHECK(!lsm_async_next(async, &context, &result, &done));
	}
	lsm_async_close(async);
	return kernel_end();
}

/**
 * struct vector - one that a test may have under way
 * @ops: operations of another version of the header
 * @nr: of @ops
 * @flags: of the vector
 * @flies: it is under way
 * @ended: it has ended, and was not taken
 * @result: what it has ended with, and @done
 */
struct vector {
	struct {
		struct lsmem_op op;
		uint64_t more;
	} ops[FAKE_VECTOR_MAX];
	uint32_t nr, flags, done;
	int result;
	bool flies, ended;
};

static bool submit(struct lsm_async *async, struct vector *vector, unsigned int under_way)
{
	const struct lsmem_vector *got;
	unsigned int before = kernel.nr;
	uint32_t i;
	int ret;

	vector->flags = (random_chance(&seed, 50) ? LSM_DURABLE : 0) | (random_chance(&seed, 50) ? LSM_ATOMIC : 0);
	vector->nr = 1 + random_below(&seed, vector->flags & LSM_ATOMIC ? GROUP_MAX : FAKE_VECTOR_MAX);
	for (i = 0; i < vector->nr; i++) {
		vector->ops[i].op = lsm_op_alloc("x", 1, 0);
		vector->ops[i].op.size = sizeof(vector->ops[i]);
	}
	ret = lsm_async_submit(async, &vector->ops[0].op, vector->nr, vector->flags, vector);
	if (under_way == MOST) {
		CHECK(ret == -EBUSY && kernel.nr == before);
		return true;
	}
	CHECK(!ret && kernel.nr == before + 1);
	got = vector_of(&kernel.flying[before]);
	CHECK(got->nr == vector->nr && got->flags == vector->flags && got->stride == sizeof(vector->ops[0]));
	CHECK(got->ops == (uintptr_t)vector->ops);
	vector->flies = true;
	return true;
}

/* Ends any of those that the kernel has, which tells which one it is. */
static void finish_any(void)
{
	unsigned int which = random_below(&seed, kernel.nr);
	struct vector *vector = (struct vector *)(uintptr_t)vector_of(&kernel.flying[which])->ops;

	vector->result = -(int)random_below(&seed, 100);
	vector->done = random_below(&seed, vector->nr + 1);
	vector->ended = true;
	finish(which, vector->result, vector->done);
}

static bool take(struct lsm_async *async, unsigned int *under_way, unsigned int *ended)
{
	void *context = NULL;
	struct vector *vector;
	size_t done = 99;
	int result = 99;
	bool counts = random_chance(&seed, 70);

	if (!*ended) {
		CHECK(!lsm_async_next(async, &context, &result, &done) && !context && result == 99 && done == 99);
		return true;
	}
	CHECK(lsm_async_next(async, &context, &result, counts ? &done : NULL) == 1);
	vector = context;
	CHECK(vector && vector->flies && vector->ended);
	CHECK(result == vector->result && done == (counts ? vector->done : 99));
	vector->flies = vector->ended = false;
	--*under_way;
	--*ended;
	return true;
}

/* Any order: each vector ends once, with its own result.  @closes: with some under way. */
static bool any_order(bool closes)
{
	static struct vector vectors[MOST + 1];
	unsigned int under_way = 0, ended = 0, step, i;
	struct lsm_async *async;

	memset(vectors, 0, sizeof(vectors));
	kernel_begin();
	CHECK(!lsm_async_open(fake->lsm, MOST, &async));
	for (step = 0; step < STEPS || (!closes && under_way); step++) {
		uint32_t what = random_below(&seed, step < STEPS ? 3 : 2);

		if (what == 2) {
			for (i = 0; vectors[i].flies; i++)
				;
			CHECK(submit(async, &vectors[i], under_way));
			under_way += vectors[i].flies;
		} else if (what && kernel.nr) {
			finish_any();
			ended++;
		} else {
			CHECK(take(async, &under_way, &ended));
		}
		CHECK(kernel.nr == under_way - ended && !kernel.wrong);
	}
	for (i = 0; closes && under_way < MOST / 2; i++) {
		if (vectors[i].flies)
			continue;
		CHECK(submit(async, &vectors[i], under_way));
		under_way++;
	}
	lsm_async_close(async);
	CHECK(!kernel.nr && is_closed(kernel.fd));
	return kernel_end();
}

/* If a close cannot wait, what the kernel still writes to stays. */
static bool closed_early(void)
{
	struct lsmem_op op = lsm_op_alloc("x", 1, 0);
	struct lsm_async *async;

	kernel_begin();
	CHECK(!lsm_async_open(fake->lsm, MOST, &async));
	CHECK(!lsm_async_submit(async, &op, 1, LSM_DURABLE, NULL));
	kernel.refuse = EBADF;
	lsm_async_close(async);
	CHECK(is_closed(kernel.fd) && kernel.nr == 1);
	finish(0, 0, 1);
	return kernel_end();
}

int main(int argc, char **argv)
{
	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	fake = fake_new();
	fake->lsm->fd = STORE_FD;
	fake->lsm->group_max = GROUP_MAX;
	tap_ok(refused_opens(), "opens that are refused");
	tap_ok(refused_vectors(), "vectors that are refused");
	tap_ok(not_taken(), "vectors that the kernel does not take");
	tap_ok(any_order(false), "any order");
	tap_ok(any_order(true), "a close with vectors under way");
	tap_ok(closed_early(), "a close that cannot wait");
	fake->lsm->fd = -1;
	fake_delete(fake);
	return tap_end();
}
