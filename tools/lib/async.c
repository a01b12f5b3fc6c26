// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: vectors that end later (lsm_async_*), as commands of an io_uring of their own.
 *
 * The kernel reads a command in io_uring_enter(), which submits it, and makes it wait for durability without a thread.
 * Its end is an entry of the completion ring, and the descriptor of the ring is readable then.
 *
 *	submission		completion
 *	write the entry		kernel: write the entry
 *	tail + 1 (release)	kernel: tail + 1 (release)
 *	io_uring_enter()	load the tail (acquire), read the entry, head + 1 (release)
 *
 * The vectors belong to the kernel until they have ended, so the ring is closed only then.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#define VECTORS_MAX	4096u	/* of lsm_async_open() */

struct under_way {
	struct lsmem_vector vector;
	void *context;
	struct under_way *next;		/* free */
};

struct lsm_async {
	struct lsm *lsm;
	int fd;
	unsigned int nr;		/* under way */
	struct under_way *free;
	uint8_t *rings;
	size_t rings_bytes;
	struct io_uring_sqe *sqes;
	size_t sqes_bytes;
	uint32_t *sq_tail, *sq_array, *cq_head, *cq_tail;
	uint32_t sq_mask, cq_mask;
	struct io_uring_cqe *cqes;
	struct under_way all[];
};

static int enter(const struct lsm_async *async, unsigned int submit, unsigned int wait)
{
	long ret;

	do {
		ret = syscall(__NR_io_uring_enter, async->fd, submit, wait,
			      wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
	} while (ret < 0 && errno == EINTR);
	return ret < 0 ? -errno : (int)ret;
}

static void unmap(struct lsm_async *async)
{
	if (async->sqes)
		munmap(async->sqes, async->sqes_bytes);
	if (async->rings)
		munmap(async->rings, async->rings_bytes);
	close(async->fd);
	free(async);
}

static void *map(const struct lsm_async *async, size_t bytes, off_t offset)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, async->fd, offset);

	if (at == MAP_FAILED)
		return NULL;
	/* The child of a fork would submit what is its parent's. */
	madvise(at, bytes, MADV_DONTFORK);
	return at;
}

int lsm_async_open(struct lsm *lsm, unsigned int nr, struct lsm_async **out)
{
	struct io_uring_params params = { .flags = 0 };
	struct lsm_async *async;
	size_t sq, cq;
	unsigned int i;
	int ret;

	if (!nr || nr > VECTORS_MAX)
		return -EINVAL;
	async = calloc(1, sizeof(*async) + nr * sizeof(async->all[0]));
	if (!async)
		return -ENOMEM;
	/* The completion ring has twice as many entries: it cannot overflow. */
	async->fd = (int)syscall(__NR_io_uring_setup, nr, &params);
	if (async->fd < 0) {
		ret = errno == ENOSYS || errno == EPERM ? -EOPNOTSUPP : -errno;
		free(async);
		return ret;
	}
	if (!(params.features & IORING_FEAT_SINGLE_MMAP)) {
		unmap(async);
		return -EOPNOTSUPP;
	}
	sq = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
	cq = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	async->rings_bytes = sq > cq ? sq : cq;
	async->sqes_bytes = params.sq_entries * sizeof(struct io_uring_sqe);
	async->rings = map(async, async->rings_bytes, IORING_OFF_SQ_RING);
	async->sqes = map(async, async->sqes_bytes, IORING_OFF_SQES);
	if (!async->rings || !async->sqes) {
		unmap(async);
		return -ENOMEM;
	}
	async->lsm = lsm;
	async->sq_tail = (uint32_t *)(async->rings + params.sq_off.tail);
	async->sq_array = (uint32_t *)(async->rings + params.sq_off.array);
	async->sq_mask = *(uint32_t *)(async->rings + params.sq_off.ring_mask);
	async->cq_head = (uint32_t *)(async->rings + params.cq_off.head);
	async->cq_tail = (uint32_t *)(async->rings + params.cq_off.tail);
	async->cq_mask = *(uint32_t *)(async->rings + params.cq_off.ring_mask);
	async->cqes = (struct io_uring_cqe *)(async->rings + params.cq_off.cqes);
	for (i = 0; i < nr; i++) {
		async->all[i].next = async->free;
		async->free = &async->all[i];
	}
	*out = async;
	return 0;
}

int lsm_async_fd(const struct lsm_async *async)
{
	return async->fd;
}

int lsm_async_submit(struct lsm_async *async, struct lsmem_op *ops, size_t nr, unsigned int flags,
		     void *context)
{
	const struct lsm *lsm = async->lsm;
	struct under_way *one = async->free;
	uint32_t tail = *async->sq_tail;
	struct io_uring_sqe *sqe = &async->sqes[tail & async->sq_mask];
	struct lsmem_command command = { .reserved = 0 };
	int ret;

	if (!lsm->vector_max || (flags & LSM_ATOMIC && !lsm->group_max))
		return -EOPNOTSUPP;
	if (!nr)
		return -EINVAL;
	if (nr > (flags & LSM_ATOMIC ? lsm->group_max : lsm->vector_max))
		return -E2BIG;
	if (!one)
		return -EBUSY;
	memset(&one->vector, 0, sizeof(one->vector));
	one->vector.size = sizeof(one->vector);
	one->vector.flags = flags;
	one->vector.ops = (uintptr_t)ops;
	one->vector.nr = (uint32_t)nr;
	one->vector.stride = (uint32_t)lsm_op_stride(ops);
	one->context = context;
	command.structure = (uintptr_t)&one->vector;
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = lsm_fd(lsm);
	sqe->cmd_op = (uint32_t)LSMEM_IOC_VECTOR;
	sqe->user_data = (uintptr_t)one;
	memcpy(sqe->cmd, &command, sizeof(command));
	async->sq_array[tail & async->sq_mask] = tail & async->sq_mask;
	/* Release: the entry is complete when the kernel sees the tail. */
	__atomic_store_n(async->sq_tail, tail + 1, __ATOMIC_RELEASE);
	ret = enter(async, 1, 0);
	if (ret < 1) {
		/* The kernel has not taken it, and looks at the tail in io_uring_enter() alone. */
		__atomic_store_n(async->sq_tail, tail, __ATOMIC_RELEASE);
		return ret ? ret : -EAGAIN;
	}
	async->free = one->next;
	async->nr++;
	return 0;
}

int lsm_async_next(struct lsm_async *async, void **context, int *result, size_t *done)
{
	uint32_t head = *async->cq_head;
	const struct io_uring_cqe *cqe = &async->cqes[head & async->cq_mask];
	struct under_way *one;

	/* Acquire: the entry, and what the kernel has written to the vector, come before the tail. */
	if (head == __atomic_load_n(async->cq_tail, __ATOMIC_ACQUIRE))
		return 0;
	one = (struct under_way *)(uintptr_t)cqe->user_data;
	*result = cqe->res;
	*context = one->context;
	if (done)
		*done = one->vector.nr;
	/* Release: the entry was read before the kernel may write there again. */
	__atomic_store_n(async->cq_head, head + 1, __ATOMIC_RELEASE);
	one->next = async->free;
	async->free = one;
	async->nr--;
	return 1;
}

void lsm_async_close(struct lsm_async *async)
{
	void *context;
	int result;

	if (!async)
		return;
	while (async->nr) {
		if (lsm_async_next(async, &context, &result, NULL))
			continue;
		if (enter(async, 0, 1) < 0) {
			close(async->fd);
			return;		/* the kernel may still write to the vectors: they stay */
		}
	}
	unmap(async);
}
