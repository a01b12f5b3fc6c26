/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * liblsmem: objects in log-structured memory.
 *
 * A store is a device, /dev/lsmem by default.  An object has 1 byte to 1 MiB, and a 64-bit handle
 * that does not change when the object moves.  Reading takes no system call: lsm_read() copies,
 * lsm_view_begin() gives access to the bytes in place.  lsmem(3) is the reference, lsmem(7) the
 * overview.
 *
 * Calls return 0 or a count, or a negative errno; errno itself is not set.  All calls but
 * lsm_close() can be made on one struct lsm by many threads at once.  After fork() the child has the
 * descriptor but not the windows: lsm_read() makes a system call there, and lsm_view_begin() returns
 * -ECHILD.  The child calls lsm_open() to get windows.
 *
 * Ranges of pages (lsm_pages_*, lsm_pool_*, lsm_array_*) are memory that is mapped and written to, with
 * an object behind each page.  lsmem.hpp has containers of C++ in them.
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
#define LSM_DURABLE		LSMEM_OPF_DURABLE /* return when it is durable: see LSMEM_OPF_DURABLE */
#define LSM_EXPECT		LSMEM_OPF_EXPECT  /* only if *version is the present one */
#define LSM_TABLE(id)		((uint32_t)(id) << 16) /* lsm_alloc(), lsm_pages_create(): table id, 0..4095 */

/* lsm_pages_create(), lsm_pool_create(), lsm_array_create() */
#define LSM_PAGES_POOL		LSMEM_PAGES_POOL   /* pages are objects with a length of their own */
#define LSM_PAGES_ATOMIC	LSMEM_PAGES_ATOMIC /* written back by syncs, closes and a bound alone */

/* Most pieces of a view: 1 MiB in seglets of 64 KiB, and both ends. */
#define LSM_VIEW_PIECES		18

/**
 * struct lsm_object - attributes of an object
 * @version: increases with each replace, and is never used again
 * @length: bytes of the whole object
 * @table: id given to lsm_alloc()
 */
struct lsm_object {
	uint64_t version;
	uint32_t length;
	uint32_t table;
};

/**
 * struct lsm_view - a view of an object, from lsm_view_begin() to lsm_view_end()
 * @iov: the bytes in order; a write there raises SIGSEGV
 * @nr: pieces in @iov, 1..LSM_VIEW_PIECES
 * @slot: private to the library
 * @object: as of lsm_view_begin()
 * @epoch: private to the library
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
 * -EAGAIN: the store is not active (no daemon has recovered or formatted it yet);
 * -EPROTO: this library does not know the ABI of the kernel; -ENOMEM.
 *
 * With LSM_NO_WINDOWS a store that is being recovered can be opened: lsm_read() reads what is loaded
 * already and returns -EAGAIN for the rest, and all other calls return -EAGAIN.
 */
int lsm_open(const char *path, unsigned int flags, struct lsm **lsm);

/**
 * lsm_close() - unmap and close
 * @lsm: may be NULL; no other call is under way, and no view is open
 */
void lsm_close(struct lsm *lsm);

/**
 * lsm_fd() - the descriptor, for poll, fsync, fchmod and raw ioctls
 * @lsm: store
 */
int lsm_fd(const struct lsm *lsm);

/**
 * lsm_query() - features and limits of kernel and store
 * @lsm: store
 * @query: out
 */
int lsm_query(struct lsm *lsm, struct lsmem_query *query);

/**
 * lsm_alloc() - allocate an object
 * @lsm: store
 * @data: its bytes
 * @length: 1 .. 1 MiB
 * @flags: LSM_DURABLE, LSM_TABLE(id)
 * @handle: out, never 0
 * @version: out, may be NULL
 *
 * Return: 0; -EINVAL; -EFAULT; -ENOSPC: the store is full; -EMFILE: no index is free;
 * -ETIMEDOUT: allocated and @handle set, durability unknown; -EOPNOTSUPP: LSM_DURABLE on a
 * volatile store.
 */
int lsm_alloc(struct lsm *lsm, const void *data, size_t length, unsigned int flags,
	      uint64_t *handle, uint64_t *version);

/**
 * lsm_replace() - replace bytes and length of an object
 * @lsm: store
 * @handle: object
 * @data: new bytes
 * @length: 1 .. 1 MiB
 * @flags: LSM_DURABLE, LSM_EXPECT
 * @version: in, with LSM_EXPECT: the expected version; out: the present version; may be NULL without
 *	LSM_EXPECT
 *
 * Readers see the old bytes or the new ones, never a mixture.
 *
 * Return: 0; -ENOENT: the handle was never given out; -ESTALE: the object was freed; -EILSEQ:
 * LSM_EXPECT, and @version, which is now the present one, was not expected; and as lsm_alloc().
 */
int lsm_replace(struct lsm *lsm, uint64_t handle, const void *data, size_t length,
		unsigned int flags, uint64_t *version);

/**
 * lsm_free() - free an object; calls with its handle return -ESTALE from then on
 * @lsm: store
 * @handle: object
 * @flags: LSM_DURABLE, LSM_EXPECT
 * @version: as for lsm_replace()
 *
 * Return: as lsm_replace().
 */
int lsm_free(struct lsm *lsm, uint64_t handle, unsigned int flags, uint64_t *version);

/**
 * lsm_read() - copy bytes of an object, without a system call
 * @lsm: store
 * @handle: object
 * @data: target; may be NULL if @length is 0
 * @length: room at @data
 * @offset: first byte wanted, at most the object's length
 * @object: out, may be NULL
 *
 * The bytes are of one version.  If the windows do not suffice (an object that keeps changing, a
 * handle that is not live, the child of a fork) the library makes a system call.  CRCs are not
 * checked.
 *
 * Return: bytes copied; -ENOENT, -ESTALE: as lsm_replace(); -EINVAL: @offset; -EFAULT.
 */
ssize_t lsm_read(struct lsm *lsm, uint64_t handle, void *data, size_t length,
		 uint32_t offset, struct lsm_object *object);

/**
 * lsm_read_many() - copy bytes of several objects, without a system call
 * @lsm: store
 * @ops: operations, made by lsm_op_read(); out: their results, as of lsm_vector()
 * @nr: any number
 *
 * As lsm_read() for one after the other, but the processor fetches several objects from memory at
 * the same time.  Each object's bytes are of one version; two objects may be of different times.
 * What the windows do not show is asked for in vector calls, so objects that are not in memory are
 * fetched together.  The result of an operation is 0, or an error as lsm_read() or lsm_vector() returns
 * it; -EINVAL also if it is not a read.
 */
void lsm_read_many(struct lsm *lsm, struct lsmem_op *ops, size_t nr);

/**
 * lsm_prefetch() - have objects of a tiered store brought into memory, without waiting
 * @lsm: store
 * @handles: of the objects
 * @nr: any number
 *
 * A hint: objects that are in memory cost no system call; what goes wrong, a read says later.  They are
 * read from the backups at the same time, and leave memory again if they are not used.
 *
 * Return: 0; -EINTR; -EOPNOTSUPP: the kernel has no vector calls.
 */
int lsm_prefetch(struct lsm *lsm, const uint64_t *handles, size_t nr);

/**
 * lsm_view_begin() - begin a view: access to the bytes of an object in place
 * @lsm: store
 * @handle: object
 * @view: out
 *
 * The bytes are of one version and do not change, also if the object is replaced, freed or moved,
 * until lsm_view_end() or the bound on views (lsm_view_bound()), whichever comes first.  Only when
 * lsm_view_end() has returned 0 is it certain that all bytes read were right.
 *
 * A view takes one view slot and is ended once, by any thread.  Views nest, also of one object; on one
 * struct lsm as many can be open as there are slots (64).  A thread prefers the slot that it used
 * last, so threads do not share cache lines.
 *
 * Return: 0; -ENOENT, -ESTALE: as lsm_read(); -EAGAIN: all slots are in use, or the object keeps
 * changing (lsm_read() works); -EOPNOTSUPP: opened with LSM_RDONLY or LSM_NO_WINDOWS, or the kernel
 * has no windows; -ECHILD: after a fork.
 */
int lsm_view_begin(struct lsm *lsm, uint64_t handle, struct lsm_view *view);

/**
 * lsm_view_end() - end a view, and tell whether it was valid until now
 * @lsm: store
 * @view: from lsm_view_begin()
 *
 * Return: 0; -ECANCELED: the view lasted longer than the bound and was revoked, so the bytes that were
 * read may be wrong; -ECHILD: after a fork, for a view of the parent; -EINVAL: not an open view.
 */
int lsm_view_end(struct lsm *lsm, struct lsm_view *view);

/**
 * lsm_view_bound() - how long a view may last before the kernel revokes it
 * @lsm: store
 *
 * Each revocation halves the bound for this struct lsm; a minute without one restores it.
 *
 * Return: milliseconds; -EOPNOTSUPP without windows.
 */
int lsm_view_bound(const struct lsm *lsm);

/**
 * lsm_vector() - carry out several operations in one system call
 * @lsm: store
 * @ops: operations, made by lsm_op_alloc(), lsm_op_read() and so on; out: their results
 * @nr: any number; more than the kernel takes at once are passed in several system calls
 * @flags: LSM_DURABLE for all, with one wait at the end of each system call; or 0
 * @done: out, operations tried; may be NULL
 *
 * Operations are carried out in order; one that fails does not stop the next.
 *
 * Return: 0 if all were tried, each with its own result; else an error, and the operations from @done
 * on were not tried.
 */
int lsm_vector(struct lsm *lsm, struct lsmem_op *ops, size_t nr, unsigned int flags,
	       size_t *done);

/**
 * lsm_sync() - wait until all changes so far are durable
 * @lsm: store
 * @timeout_ms: bound, 0: that of the store
 *
 * Return: 0; -ETIMEDOUT: durability unknown, and another sync continues the wait; -EOPNOTSUPP: the
 * store is volatile.
 */
int lsm_sync(struct lsm *lsm, uint32_t timeout_ms);

/**
 * lsm_stat() - counters of the store
 * @lsm: store
 * @stat: out
 */
int lsm_stat(struct lsm *lsm, struct lsmem_stat *stat);

/*
 * Ranges of pages.  A range is a file of 4096-byte pages, each of which is an object of the store; it can
 * be larger than memory.  lsm_pages_* are for programs that call mmap() themselves; lsm_pool_* and
 * lsm_array_* map the whole range.  A store to a page that the kernel cannot fetch or has no memory
 * for raises SIGBUS.  Common arguments:
 *
 * @length: of the range, bytes, 1 .. 2^44
 * @buffer: most bytes of its pages in memory, 0: an eighth of the store's memory
 * @root: handle of the range, the only way back to it; durable after lsm_sync()
 *
 * Pages are written back at any time and in any order; with LSM_PAGES_ATOMIC, only by a sync, when a
 * descriptor that can write is closed, and when 8 MiB or half of @buffer are dirty.  After a crash a sync of
 * a region of a durable store is there whole or not at all, if no more than that was dirty;
 * Documentation/uapi.rst says more.
 */

/**
 * lsm_pages_create() - make a range of pages, all holes, and open it
 * @lsm: store, opened for writing
 * @length: bytes of the range, at most 2^44
 * @buffer: most bytes of its pages in memory, 0: an eighth of the store's memory
 * @flags: LSM_PAGES_POOL, LSM_PAGES_ATOMIC, LSM_TABLE(id)
 * @root: out: handle of the range
 *
 * Return: a descriptor for mmap(), msync(), read(), write(), ftruncate(), fallocate() and fsync(), which the
 * caller closes, and which can outlive @lsm; -EINVAL; -EBADF: opened with LSM_RDONLY; -ENOTTY: the kernel
 * has no ranges of pages; -EMFILE, -ENFILE: no descriptor; as lsm_alloc().
 */
int lsm_pages_create(struct lsm *lsm, uint64_t length, uint64_t buffer, unsigned int flags,
		     uint64_t *root);

/**
 * lsm_pages_open() - open a range of pages
 * @lsm: store; with LSM_RDONLY the descriptor can only read
 * @root: handle of the range
 * @buffer: as for lsm_pages_create(); of a range that is open already: its new bound, or 0: no change
 *
 * Return: a descriptor as lsm_pages_create(); -ENOENT, -ESTALE: as lsm_replace(); -EBADMSG: the object is
 * no root; -EMFILE, -ENFILE, -ENOTTY, -ENOMEM.
 */
int lsm_pages_open(struct lsm *lsm, uint64_t root, uint64_t buffer);

/**
 * lsm_pages_remove() - free all objects of a range, also of a pool or an array
 * @lsm: store, opened for writing
 * @root: handle of the range
 *
 * Return: 0; -EBUSY: it is open or mapped; -EBADF; as lsm_pages_open().  After an error the call can be
 * repeated.
 */
int lsm_pages_remove(struct lsm *lsm, uint64_t root);

/*
 * A pool: objects of 1 to 4096 bytes, each in a page of its own, which is written to in place.  Addresses
 * are those of one mapping: keep page numbers (lsm_pool_page(), lsm_pool_pointer()) or handles.  In these
 * calls a pointer to any byte of an object's page stands for the object.
 */
struct lsm_pool;

/**
 * lsm_pool_create() - make a pool, and map it
 * @lsm: store, opened for writing
 * @length: 4096 bytes for each object there can be
 * @buffer: as for lsm_pages_create()
 * @flags: LSM_PAGES_ATOMIC, LSM_TABLE(id)
 * @root: out: handle of the range
 * @pool: out
 *
 * Return: 0; -ENOMEM: also if there is no room for the mapping; as lsm_pages_create().
 */
int lsm_pool_create(struct lsm *lsm, uint64_t length, uint64_t buffer, unsigned int flags,
		    uint64_t *root, struct lsm_pool **pool);

/**
 * lsm_pool_open() - open a pool, and map it; read-only if the store was opened with LSM_RDONLY
 * @lsm: store
 * @root: handle of the range
 * @buffer: as for lsm_pages_open()
 * @pool: out
 *
 * Return: 0; -EOPNOTSUPP: the range is no pool; -ENOMEM; as lsm_pages_open().
 */
int lsm_pool_open(struct lsm *lsm, uint64_t root, uint64_t buffer, struct lsm_pool **pool);

/**
 * lsm_pool_close() - unmap and close
 * @pool: may be NULL; no other call is under way.  Pointers into it are invalid from then on
 *
 * What is dirty is written back when no child of a fork has the pool any more.  Errors of that are in the
 * kernel log alone: to see them, call lsm_pool_sync() before.
 */
void lsm_pool_close(struct lsm_pool *pool);

/**
 * lsm_pool_sync() - write back all changes, and wait until they are durable
 * @pool: pool
 *
 * Of a volatile store, write them to the store.  Afterwards lsm_read() of an object's handle reads
 * what is in its page, and pages of freed objects can be used again.
 *
 * Return: 0; -EIO: an object that was changed is gone, because another client freed it;
 * -ENOSPC; -ETIMEDOUT: durability unknown; -EINTR, -ENOMEM.
 */
int lsm_pool_sync(struct lsm_pool *pool);

/**
 * lsm_pool_alloc() - allocate an object of zeroes
 * @pool: pool
 * @length: of the object, 1 .. 4096 bytes; bytes of its page behind that are not kept
 * @object: out: its page
 *
 * The first free page behind the last allocation, else the first of all.
 *
 * Return: 0; -EINVAL; -ENOSPC: no page is free (until lsm_pool_sync(), if objects were freed), or the
 * store is full; -EMFILE: as lsm_alloc(); -EBADF: read-only; -ENOMEM, -EINTR, -EIO.
 */
int lsm_pool_alloc(struct lsm_pool *pool, size_t length, void **object);

/**
 * lsm_pool_free() - free an object
 * @pool: pool
 * @object: its page, which raises SIGBUS when it is used from then on
 *
 * Return: 0; -ENOENT: there is no object; -EINVAL: @object is not in the pool; -EBADF, -ENOMEM, -EINTR,
 * -EIO.
 */
int lsm_pool_free(struct lsm_pool *pool, void *object);

/**
 * lsm_pool_handle() - the handle of an object, for lsm_read() and other clients
 * @pool: pool
 * @object: its page
 * @handle: out; can be read when lsm_pool_sync() has returned
 *
 * Return: 0, also if another client has freed the object (lsm_pool_length()); -ENOENT, -EINVAL: as
 * lsm_pool_free().
 */
int lsm_pool_handle(const struct lsm_pool *pool, const void *object, uint64_t *handle);

/**
 * lsm_pool_length() - the length of an object
 * @pool: pool
 * @object: its page
 *
 * Return: 1 .. 4096 bytes; 0: another client has freed the object, or no backup has it; errors as
 * lsm_pool_handle().
 */
ssize_t lsm_pool_length(const struct lsm_pool *pool, const void *object);

/**
 * lsm_pool_next() - go to the next object, in the order of pages
 * @pool: pool
 * @object: in: any page of the pool, or NULL: before the first; out: page of the next object, NULL: there
 *	is none
 *
 * Return: 0, also at the end; -EINVAL: *@object is not in the pool; -EIO, -EINTR, -ENOMEM.  After an error
 * *@object is as it was.
 */
int lsm_pool_next(const struct lsm_pool *pool, void **object);

/**
 * lsm_pool_page() - the number of a page
 * @pool: pool
 * @object: address in the page
 *
 * Return: 0 .. pages - 1; -EINVAL: @object is not in the pool.  No system call.
 */
int64_t lsm_pool_page(const struct lsm_pool *pool, const void *object);

/**
 * lsm_pool_pointer() - the address of a page
 * @pool: pool
 * @page: its number
 *
 * Return: the address, also if the page has no object; NULL: @page is behind the end.  No system call.
 */
void *lsm_pool_pointer(const struct lsm_pool *pool, uint64_t page);

/*
 * An array: elements of a fixed size.  Element i is in page i / n, at i % n times the size, where n is
 * how many whole elements a page has room for.  So no element is in two pages.
 */
struct lsm_array;

/**
 * lsm_array_create() - make an array of zeroes, and map it
 * @lsm: store, opened for writing
 * @nr: elements, at least 1; all pages together are less than 2^44 bytes
 * @size: of an element, 1 .. 4096 bytes
 * @buffer: as for lsm_pages_create()
 * @flags: LSM_PAGES_ATOMIC, LSM_TABLE(id)
 * @root: out: handle of the range
 * @array: out
 *
 * Return: as lsm_pool_create().
 */
int lsm_array_create(struct lsm *lsm, uint64_t nr, size_t size, uint64_t buffer,
		     unsigned int flags, uint64_t *root, struct lsm_array **array);

/**
 * lsm_array_open() - open an array, and map it; read-only if the store was opened with LSM_RDONLY
 * @lsm: store
 * @root: handle of the range
 * @size: as it was made with; the store does not know it
 * @buffer: as for lsm_pages_open()
 * @array: out
 *
 * Return: 0; -EOPNOTSUPP: the range is a pool; -EINVAL: @size; -ENOMEM; as lsm_pages_open().
 */
int lsm_array_open(struct lsm *lsm, uint64_t root, size_t size, uint64_t buffer,
		   struct lsm_array **array);

/**
 * lsm_array_close() - unmap and close, as lsm_pool_close()
 * @array: may be NULL; no other call is under way
 */
void lsm_array_close(struct lsm_array *array);

/**
 * lsm_array_sync() - write back all changes, and wait until they are durable
 * @array: array
 *
 * Return: as lsm_pool_sync().
 */
int lsm_array_sync(struct lsm_array *array);

/**
 * lsm_array_nr() - how many elements an array has
 * @array: array
 */
uint64_t lsm_array_nr(const struct lsm_array *array);

/**
 * lsm_array_at() - the address of an element
 * @array: array
 * @i: its number
 *
 * Return: the address; NULL: @i is behind the end.  No system call.
 */
void *lsm_array_at(const struct lsm_array *array, uint64_t i);

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

/* @version: expected, if @flags has LSM_EXPECT */
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
