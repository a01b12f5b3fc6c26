/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * liblsmem: objects in log-structured memory.
 *
 * A store is a device, /dev/lsmem by default.  An object is 1 byte to 1 MiB
 * under a 64-bit handle that stays the same while the object moves.  Reading
 * takes no system call: lsm_read() copies, lsm_view_begin() shows the bytes
 * where they lie.  lsmem(3) has the whole story, lsmem(7) the overview.
 *
 * Calls return 0 or a count, or a negative errno; errno itself is not set.
 * All calls on one struct lsm may be made from many threads at once, lsm_close()
 * excepted.  After fork() the child keeps the descriptor and not the windows:
 * there lsm_read() makes a system call and lsm_view_begin() returns -ECHILD; for
 * windows of its own the child calls lsm_open().
 */
#ifndef _LSMEM_H
#define _LSMEM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <lsmem/lsmem.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lsm;

#define LSM_DEFAULT_STORE	"/dev/lsmem"

/* lsm_open() */
#define LSM_RDONLY		(1u << 0)	/* open for reading; no views */
#define LSM_NO_WINDOWS		(1u << 1)	/* map nothing, read by system call */

/* lsm_alloc(), lsm_replace(), lsm_free(), lsm_vector() */
#define LSM_DURABLE		LSMEM_OPF_DURABLE /* return when it is on the backup, see there */
#define LSM_EXPECT		LSMEM_OPF_EXPECT  /* only if *version is current */
#define LSM_TABLE(id)		((uint32_t)(id) << 16) /* lsm_alloc(): table id, 0..4095 */

/* A view has at most so many pieces: 1 MiB in 64 KiB seglets, and both ends. */
#define LSM_VIEW_PIECES		18

/**
 * struct lsm_object - what is known of an object beside its bytes
 * @version: grows with each replace, never comes again
 * @length: bytes of the whole object
 * @table: id given to lsm_alloc()
 */
struct lsm_object {
	uint64_t version;
	uint32_t length;
	uint32_t table;
};

/**
 * struct lsm_view - an object's bytes in place, between begin and end
 * @iov: the bytes in order, read-only; writing there is a SIGSEGV
 * @nr: pieces in @iov, 1..LSM_VIEW_PIECES
 * @slot: the library's
 * @object: as of lsm_view_begin()
 * @epoch: the library's
 */
struct lsm_view {
	struct iovec iov[LSM_VIEW_PIECES];
	uint32_t nr;
	uint32_t slot;
	struct lsm_object object;
	uint64_t epoch;
};

/**
 * lsm_open() - open a store and map its windows
 * @path: device node of an object store, NULL for LSM_DEFAULT_STORE
 * @flags: LSM_RDONLY, LSM_NO_WINDOWS
 * @lsm: out
 *
 * Return: 0; -ENOENT, -EACCES .. as open(2); -ENOTTY: not an object store;
 * -EAGAIN: the store is not active (no daemon has brought it up yet).  With
 * LSM_NO_WINDOWS it may be just being recovered: lsm_read() has what is loaded already, and
 * -EAGAIN for the rest, as for all other calls;
 * -EPROTO: the kernel speaks an ABI this library does not know; -ENOMEM.
 */
int lsm_open(const char *path, unsigned int flags, struct lsm **lsm);

/**
 * lsm_close() - unmap and close
 * @lsm: NULL is allowed; no other call may be under way, no view open
 */
void lsm_close(struct lsm *lsm);

/**
 * lsm_fd() - the descriptor, for poll, fsync, fchmod and raw ioctls
 * @lsm: store
 */
int lsm_fd(const struct lsm *lsm);

/**
 * lsm_query() - what this kernel and store can do
 * @lsm: store
 * @query: out
 */
int lsm_query(struct lsm *lsm, struct lsmem_query *query);

/**
 * lsm_alloc() - make an object
 * @lsm: store
 * @data: its bytes
 * @length: 1 .. 1 MiB
 * @flags: LSM_DURABLE, LSM_TABLE(id)
 * @handle: out, never 0
 * @version: out, may be NULL
 *
 * Return: 0; -EINVAL; -EFAULT; -ENOSPC: live bytes are at the store's capacity;
 * -EMFILE: no free handle; -ETIMEDOUT: made and @handle set, durability
 * unknown; -EOPNOTSUPP: LSM_DURABLE on a volatile store.
 */
int lsm_alloc(struct lsm *lsm, const void *data, size_t length, unsigned int flags,
	      uint64_t *handle, uint64_t *version);

/**
 * lsm_replace() - give an object new bytes, and a new length with them
 * @lsm: store
 * @handle: object
 * @data: new bytes
 * @length: 1 .. 1 MiB
 * @flags: LSM_DURABLE, LSM_EXPECT
 * @version: in with LSM_EXPECT: the version to be replaced; out: the version
 *	now; may be NULL without LSM_EXPECT
 *
 * Readers see the old bytes or the new ones, never a mixture.
 *
 * Return: 0; -ENOENT: no such handle was given out; -ESTALE: freed; -EILSEQ:
 * LSM_EXPECT and another version (@version tells which); and as lsm_alloc().
 */
int lsm_replace(struct lsm *lsm, uint64_t handle, const void *data, size_t length,
		unsigned int flags, uint64_t *version);

/**
 * lsm_free() - end an object; its handle is -ESTALE from then on
 * @lsm: store
 * @handle: object
 * @flags: LSM_DURABLE, LSM_EXPECT
 * @version: as for lsm_replace()
 *
 * Return: as lsm_replace().
 */
int lsm_free(struct lsm *lsm, uint64_t handle, unsigned int flags, uint64_t *version);

/**
 * lsm_read() - copy an object's bytes, with no system call
 * @lsm: store
 * @handle: object
 * @data: where to; NULL if @length is 0
 * @length: room at @data
 * @offset: first byte wanted, at most the object's length
 * @object: out, may be NULL
 *
 * The copy is of one version.  Where the windows do not tell (an object that
 * changes all the time, a handle that is no more, the child of a fork) the
 * kernel is asked.
 *
 * Return: bytes copied; -ENOENT, -ESTALE: as lsm_replace(); -EINVAL: @offset;
 * -EFAULT.  CRCs are not looked at: they are for backups.
 */
ssize_t lsm_read(struct lsm *lsm, uint64_t handle, void *data, size_t length,
		 uint32_t offset, struct lsm_object *object);

/**
 * lsm_view_begin() - show an object's bytes in place
 * @lsm: store
 * @handle: object
 * @view: out
 *
 * The bytes are those of one version and stay so while the object is replaced,
 * freed or moved, until lsm_view_end() or the store's bound on views
 * (lsm_view_bound()), whichever comes first.  What was read is known to be
 * right when lsm_view_end() has returned 0, not before.
 *
 * A view holds one epoch slot and is ended once, by any thread.  Views nest,
 * also of one object; as many may be open at a time on one struct lsm as the
 * kernel gives slots (64).  A thread finds the slot it had last, so threads do
 * not share cache lines.
 *
 * Return: 0; -ENOENT, -ESTALE: as lsm_read(); -EAGAIN: all slots are in use, or
 * the object never stood still: lsm_read() works; -EOPNOTSUPP: opened with
 * LSM_RDONLY or LSM_NO_WINDOWS, or the kernel has no windows; -ECHILD: after a
 * fork.
 */
int lsm_view_begin(struct lsm *lsm, uint64_t handle, struct lsm_view *view);

/**
 * lsm_view_end() - end a view and tell whether it was true to its end
 * @lsm: store
 * @view: from lsm_view_begin()
 *
 * Return: 0; -ECANCELED: the bound passed and the kernel took the memory back,
 * what was read since may be anything; -ECHILD: after a fork, the view is the
 * parent's; -EINVAL: not an open view.
 */
int lsm_view_end(struct lsm *lsm, struct lsm_view *view);

/**
 * lsm_view_bound() - how long a view may last before the kernel ends it
 * @lsm: store
 *
 * A view that the kernel had to end halves the bound for the next ones of this
 * struct lsm; a minute without one restores it.
 *
 * Return: milliseconds; -EOPNOTSUPP without windows.
 */
int lsm_view_bound(const struct lsm *lsm);

/**
 * lsm_vector() - many operations in one system call
 * @lsm: store
 * @ops: operations, made by lsm_op_alloc() and its like; each bears its result
 * @nr: any number; more than the kernel takes at once go in several calls
 * @flags: LSM_DURABLE for all, with one wait at the end of each call; or 0
 * @done: out, operations carried out; may be NULL
 *
 * The operations are carried out in order and a failed one does not stop the
 * next.
 *
 * Return: 0 when all were tried: then look at the results; else an error, and
 * the operations from @done on were not tried.
 */
int lsm_vector(struct lsm *lsm, struct lsmem_op *ops, size_t nr, unsigned int flags,
	       size_t *done);

/**
 * lsm_sync() - make durable what was done before
 * @lsm: store
 * @timeout_ms: 0 for the store's own bound
 *
 * Return: 0; -ETIMEDOUT: durability unknown, another sync waits on;
 * -EOPNOTSUPP: a volatile store.
 */
int lsm_sync(struct lsm *lsm, uint32_t timeout_ms);

/**
 * lsm_stat() - counters of the store
 * @lsm: store
 * @stat: out
 */
int lsm_stat(struct lsm *lsm, struct lsmem_stat *stat);

static inline struct lsmem_op lsm_op_alloc(const void *data, uint32_t length,
					   unsigned int flags)
{
	struct lsmem_op op;

	memset(&op, 0, sizeof(op));
	op.size = sizeof(op);
	op.op = LSMEM_OP_ALLOC;
	op.flags = flags & 0xffffu;
	op.table = flags >> 16;
	op.data = (uintptr_t)data;
	op.length = length;
	return op;
}

static inline struct lsmem_op lsm_op_read(uint64_t handle, void *data, uint32_t length,
					  uint32_t offset)
{
	struct lsmem_op op;

	memset(&op, 0, sizeof(op));
	op.size = sizeof(op);
	op.op = LSMEM_OP_READ;
	op.handle = handle;
	op.data = (uintptr_t)data;
	op.length = length;
	op.offset = offset;
	return op;
}

/* @version: wanted, if @flags has LSM_EXPECT */
static inline struct lsmem_op lsm_op_replace(uint64_t handle, const void *data, uint32_t length,
					     unsigned int flags, uint64_t version)
{
	struct lsmem_op op;

	memset(&op, 0, sizeof(op));
	op.size = sizeof(op);
	op.op = LSMEM_OP_REPLACE;
	op.flags = flags;
	op.handle = handle;
	op.version = flags & LSM_EXPECT ? version : 0;
	op.data = (uintptr_t)data;
	op.length = length;
	return op;
}

static inline struct lsmem_op lsm_op_free(uint64_t handle, unsigned int flags, uint64_t version)
{
	struct lsmem_op op;

	memset(&op, 0, sizeof(op));
	op.size = sizeof(op);
	op.op = LSMEM_OP_FREE;
	op.flags = flags;
	op.handle = handle;
	op.version = flags & LSM_EXPECT ? version : 0;
	return op;
}

#ifdef __cplusplus
}
#endif

#endif /* _LSMEM_H */
