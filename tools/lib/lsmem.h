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
 *
 * Documentation/abi.rst says what stays as it is, and how the structures grow.  Members named reserved: in what the
 * library fills, 0; in what it is given, not looked at until a flag says so.
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

#pragma GCC visibility push(default)

struct lsm;

#define LSM_DEFAULT_STORE	"/dev/lsmem"

/* lsm_open() */
#define LSM_RDONLY		(1u << 0)	/* open for reading; no views */
#define LSM_NO_WINDOWS		(1u << 1)	/* map nothing, read by system call */

/* lsm_alloc(), lsm_replace(), lsm_free(), lsm_vector(), lsm_update() and others */
#define LSM_DURABLE		LSMEM_OPF_DURABLE /* return when it is durable: see LSMEM_OPF_DURABLE */
#define LSM_EXPECT		LSMEM_OPF_EXPECT  /* only if *version is the present one */
#define LSM_ATOMIC		LSMEM_OPF_ATOMIC  /* lsm_vector(): all operations or none */
#define LSM_OLDER		(1u << 14)	/* not of lsm_vector(): only if the present one is older than *version */
#define LSM_NEWER		(1u << 15)	/* likewise: only if it is newer */
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
 * @reserved: 0
 */
struct lsm_object {
	uint64_t version;
	uint32_t length;
	uint32_t table;
	uint64_t reserved[2];
};

/**
 * struct lsm_view - a view of an object, from lsm_view_begin() to lsm_view_end()
 * @iov: the bytes in order; a write there raises SIGSEGV
 * @nr: pieces in @iov, 1..LSM_VIEW_PIECES
 * @slot: private to the library
 * @object: as of lsm_view_begin()
 * @epoch: private to the library
 * @reserved: 0
 */
struct lsm_view {
	struct iovec iov[LSM_VIEW_PIECES];
	uint32_t nr;
	uint32_t slot;
	struct lsm_object object;
	uint64_t epoch;
	uint64_t reserved[2];
};

/**
 * lsm_open() - open a store and map its windows
 * @path: an object store, as for lsm_path()
 * @flags: LSM_RDONLY, LSM_NO_WINDOWS
 * @lsm: out
 *
 * Return: 0; -ENOENT, -EACCES .. as open(2); as lsm_path(); -ENOTTY: not an object store;
 * -EAGAIN: the store is not active (no daemon has recovered or formatted it yet): lsm_wait_active();
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
 * lsm_query_sized() - lsm_query() of a program that knows so much of the structure
 * @lsm: store
 * @query: out
 * @size: bytes of it, at least LSMEM_QUERY_SIZE_VER0
 *
 * Return: 0; -EINVAL: @size; -E2BIG: an older kernel.
 */
int lsm_query_sized(struct lsm *lsm, struct lsmem_query *query, size_t size);

/**
 * lsm_query() - features and limits of kernel and store
 * @lsm: store
 * @query: out
 */
static inline int lsm_query(struct lsm *lsm, struct lsmem_query *query)
{
	return lsm_query_sized(lsm, query, sizeof(*query));
}

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
 * volatile store; -EREMCHG: the store is frozen, because another host takes it over.
 */
int lsm_alloc(struct lsm *lsm, const void *data, size_t length, unsigned int flags,
	      uint64_t *handle, uint64_t *version);

/**
 * lsm_replace() - replace bytes and length of an object
 * @lsm: store
 * @handle: object
 * @data: new bytes
 * @length: 1 .. 1 MiB
 * @flags: LSM_DURABLE, and one of LSM_EXPECT, LSM_OLDER, LSM_NEWER
 * @version: in, with one of these: the version that the present one must be, or be older or newer than; out: the
 *	present version; may be NULL without them
 *
 * With LSM_OLDER and LSM_NEWER it reads the version, and begins again if it has changed since.
 *
 * Readers see the old bytes or the new ones, never a mixture.
 *
 * Return: 0; -ENOENT: the handle was never given out; -ESTALE: the object was freed; -EILSEQ: nothing
 * is changed because of LSM_EXPECT, LSM_OLDER or LSM_NEWER, and @version is the present one; and as lsm_alloc().
 */
int lsm_replace(struct lsm *lsm, uint64_t handle, const void *data, size_t length,
		unsigned int flags, uint64_t *version);

/**
 * lsm_free() - free an object; calls with its handle return -ESTALE from then on
 * @lsm: store
 * @handle: object
 * @flags: as for lsm_replace()
 * @version: likewise
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
 * Return: bytes copied; -ENOENT, -ESTALE: as lsm_replace(); -EINVAL: @offset; -EFAULT; -EREMCHG: as lsm_alloc().
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
 * it; -EINVAL also if it is not a read.  All have the size of the first.
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
 * @ops: operations, made by lsm_op_alloc(), lsm_op_read() and so on, all of one size; out: their results
 * @nr: any number; more than the kernel takes at once are passed in several system calls
 * @flags: LSM_DURABLE for all, with one wait at the end of each system call; LSM_ATOMIC
 * @done: out, operations tried; may be NULL
 *
 * Operations are carried out in order; one that fails does not stop the next.  With LSM_ATOMIC all are carried
 * out or none, as struct lsmem_vector says; they are up to 256, with 1 MiB of data.  lsm_op_check() makes an operation
 * of such a vector that changes nothing, and without which the others are not carried out.
 *
 * Return: 0 if all were tried, each with its own result; else an error, and the operations from @done
 * on were not tried.  With LSM_ATOMIC: 0 if all were carried out, and with LSM_DURABLE results of -ETIMEDOUT
 * if it is not known whether they are durable; -EOPNOTSUPP: an older kernel; else the
 * error of the operation that cannot be carried out, whose result says so, too.
 */
int lsm_vector(struct lsm *lsm, struct lsmem_op *ops, size_t nr, unsigned int flags,
	       size_t *done);

/*
 * Vectors that end later, so that no thread waits for durability: they are commands of an io_uring, of which programs
 * see a descriptor.  For one thread at a time, and not for the child of a fork.
 */
struct lsm_async;

/**
 * lsm_async_open() - prepare for vectors that end later
 * @lsm: store; stays open until lsm_async_close()
 * @nr: most of them under way at a time, 1 .. 4096
 * @async: out
 *
 * Return: 0; -EOPNOTSUPP: the kernel has no io_uring, or not for this process; -EINVAL; -ENOMEM; -EMFILE; -ENFILE.
 */
int lsm_async_open(struct lsm *lsm, unsigned int nr, struct lsm_async **async);

/**
 * lsm_async_close() - wait for the vectors that are under way, and close
 * @async: may be NULL
 *
 * The wait is bounded by limits/durable_ms and limits/stall_ms of the store.
 */
void lsm_async_close(struct lsm_async *async);

/**
 * lsm_async_fd() - the descriptor to poll
 * @async: from lsm_async_open()
 *
 * Return: a descriptor, which poll() and epoll find readable when a vector has ended; it belongs to @async.
 */
int lsm_async_fd(const struct lsm_async *async);

/**
 * lsm_async_submit() - begin a vector
 * @async: from lsm_async_open()
 * @ops: as for lsm_vector(); they and their data stay, and are not changed, until lsm_async_next() has returned @context
 * @nr: operations, at least 1, as many as the kernel takes at once
 * @flags: LSM_DURABLE, LSM_ATOMIC
 * @context: for lsm_async_next()
 *
 * This may wait for memory and missing pages, and not for space or durability.  Vectors have no order among each other.
 *
 * Return: 0: it is under way; -EBUSY: as many are as may be; -E2BIG: too many operations; -EINVAL; -EOPNOTSUPP: an older
 * kernel; -EAGAIN, -ENOMEM: the kernel has no memory.
 */
int lsm_async_submit(struct lsm_async *async, struct lsmem_op *ops, size_t nr, unsigned int flags,
		     void *context);

/**
 * lsm_async_next() - take a vector that has ended
 * @async: from lsm_async_open()
 * @context: out, of lsm_async_submit()
 * @result: out, what lsm_vector() returns
 * @done: out, operations tried, as of lsm_vector(); may be NULL
 *
 * Return: 1; 0: none has ended that was not taken yet.
 */
int lsm_async_next(struct lsm_async *async, void **context, int *result, size_t *done);

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
 * lsm_strerror() - what an error of this library means
 * @error: errno, negative as the functions return it, or positive
 *
 * Of all that a call can mean by it: lsm_replace() can only mean some of that, which is in its description.
 *
 * Return: a constant text, in English, without a full stop.
 */
const char *lsm_strerror(int error);

/**
 * lsm_path() - the device node of a store
 * @store: a device node, "name:NAME" (a given name), "uuid:UUID" as sysfs has it, or NULL for LSM_DEFAULT_STORE
 * @path: out: the node; a path that is given is copied, whether it exists or not
 * @size: room at @path
 *
 * Names and uuids are looked up in sysfs, of object and block stores.
 *
 * Return: 0; -ENOENT: no store has the name or the uuid, or the module is not loaded; -EINVAL: they are empty;
 * -ENAMETOOLONG: @size.
 */
int lsm_path(const char *store, char *path, size_t size);

/**
 * lsm_wait_active() - wait until a store is there and active
 * @store: as for lsm_path()
 * @timeout_ms: bound; 0: do not wait; negative: none
 *
 * A store that is there cannot be destroyed while this waits for its activation.  To wait together with other things,
 * poll a descriptor of its node: it is readable when the store is active.
 *
 * Return: 0; -ETIMEDOUT; -EINTR: a signal; -EACCES, -ENOTTY ..: as lsm_open(); -EOPNOTSUPP: it is there and not active,
 * and the kernel is too old for waiting; -EAFNOSUPPORT, -EPERM ..: it is not there, and the process may not open
 * a socket of AF_NETLINK, by which it would be told.
 */
int lsm_wait_active(const char *store, int timeout_ms);

/**
 * lsm_allocv() - allocate an object with bytes from several places
 * @lsm: store
 * @iov: pieces, in order; @length of all as for lsm_alloc()
 * @nr: pieces
 * @flags: as for lsm_alloc()
 * @handle: out, never 0
 * @version: out, may be NULL
 *
 * The pieces are put together in memory first.
 *
 * Return: as lsm_alloc(); -ENOMEM.
 */
int lsm_allocv(struct lsm *lsm, const struct iovec *iov, size_t nr, unsigned int flags,
	       uint64_t *handle, uint64_t *version);

/**
 * lsm_replacev() - replace an object with bytes from several places
 * @lsm: store
 * @handle: object
 * @iov: pieces, as for lsm_allocv()
 * @nr: pieces
 * @flags: as for lsm_replace()
 * @version: likewise
 *
 * Return: as lsm_replace(); -ENOMEM.
 */
int lsm_replacev(struct lsm *lsm, uint64_t handle, const struct iovec *iov, size_t nr,
		 unsigned int flags, uint64_t *version);

/*
 * Changes of parts.  The kernel replaces an object as a whole, so these calls read it, change it in memory, and
 * replace it if it still has the version that was read.  If another client was faster they begin again: there is no
 * bound on that, but each time another client has succeeded.  Readers see the object as it was before the call
 * or after it.  An object of 4 KiB costs little more than lsm_read() and lsm_replace(), one of 1 MiB is copied whole
 * for each byte that is changed.
 *
 * @flags: LSM_DURABLE, and one of LSM_EXPECT, LSM_OLDER, LSM_NEWER, which are as for lsm_replace()
 * @version: in, with one of these: the version that the present one is compared with; out: the present version, also
 *	if nothing was changed because of what the object has; may be NULL without them
 *
 * Return: as lsm_read() and lsm_replace().  -ETIMEDOUT with LSM_DURABLE: changed, durability unknown.
 */

/**
 * typedef lsm_change_fn - change an object in memory, for lsm_update()
 * @context: of the caller
 * @object: as it is
 * @data: its bytes
 * @room: at @data
 * @length: in: of the object; out: 1 .. @room
 *
 * Return: 0: replace the object; a negative errno: leave it.  It can be called several times, each time with what the
 * object has then.
 */
typedef int (*lsm_change_fn)(void *context, const struct lsm_object *object, void *data, size_t room,
			     size_t *length);

/**
 * lsm_update() - change an object by a function of what it has
 * @lsm: store
 * @handle: object
 * @more: bytes that the object may become longer; it has 1 MiB at most
 * @change: the function
 * @context: for @change
 * @flags: see above
 * @version: see above
 *
 * Return: 0; -EINVAL: also a length that @change has set; -ENOMEM; what @change returned; see above.
 */
int lsm_update(struct lsm *lsm, uint64_t handle, size_t more, lsm_change_fn change, void *context,
	       unsigned int flags, uint64_t *version);

/**
 * lsm_write() - write to a part of an object, or behind its end
 * @lsm: store
 * @handle: object
 * @data: new bytes
 * @length: at least 1
 * @offset: of the first; what is between the end of the object and @offset is filled with zeroes
 * @flags: see above
 * @version: see above
 *
 * Return: 0; -EFBIG: beyond 1 MiB; -EINVAL; -ENOMEM; see above.
 */
int lsm_write(struct lsm *lsm, uint64_t handle, const void *data, size_t length, uint32_t offset,
	      unsigned int flags, uint64_t *version);

/**
 * lsm_append() - write behind the end of an object
 * @lsm: store
 * @handle: object
 * @data: new bytes
 * @length: at least 1
 * @flags: see above
 * @offset: out: of the first, the length of the object before; may be NULL
 * @version: see above
 *
 * Return: as lsm_write().
 */
int lsm_append(struct lsm *lsm, uint64_t handle, const void *data, size_t length, unsigned int flags,
	       uint32_t *offset, uint64_t *version);

/**
 * lsm_truncate() - set the length of an object
 * @lsm: store
 * @handle: object
 * @length: at least 1; bytes behind the present end are zeroes
 * @flags: see above
 * @version: see above
 *
 * Return: as lsm_write().
 */
int lsm_truncate(struct lsm *lsm, uint64_t handle, size_t length, unsigned int flags, uint64_t *version);

/**
 * lsm_compare_exchange() - write to a part of an object if it has the bytes that are expected there
 * @lsm: store
 * @handle: object
 * @offset: of the part
 * @expected: bytes; out: if they differ, those that are there
 * @desired: bytes
 * @length: of both, at least 1
 * @flags: see above
 * @version: see above
 *
 * Return: 1: written, 0: they differ; -EINVAL: the object is too short; -ENOMEM; see above.
 */
int lsm_compare_exchange(struct lsm *lsm, uint64_t handle, uint32_t offset, void *expected,
			 const void *desired, size_t length, unsigned int flags, uint64_t *version);

union lsm_value;

/**
 * lsm_add() - add to a number in an object
 * @lsm: store
 * @handle: object
 * @type: enum lsm_type of the number, which is little endian
 * @offset: of the number
 * @value: in: the amount, i64 or, of LSM_F64, f64; out: the sum, of @type
 * @flags: see above
 * @version: see above
 *
 * Return: 0; -EOVERFLOW: the sum is beyond the type; -EINVAL: the type, or the object is too short; -ENOMEM; see above.
 */
int lsm_add(struct lsm *lsm, uint64_t handle, uint32_t type, uint32_t offset, union lsm_value *value,
	    unsigned int flags, uint64_t *version);

/*
 * Large objects: up to 32 GiB with parts of 256 KiB, and 128 GiB with the largest parts.  A large object is an index
 * object, whose handle stands for it, and parts, which are objects of the same table.  It is read, written, and freed
 * with these calls alone; its version is that of the index object.
 *
 * A write makes new parts, then replaces the index object, then frees the old parts.  So a reader, and what a crash
 * leaves, has all of a write or nothing of it.  In a durable store each step is durable before the next one begins, and
 * each write when it returns; LSM_DURABLE is not given.  A write that fails may take as much memory of the store as
 * it would have written, until lsm_large_sweep().  Of two clients that write to one object at the same time, one begins
 * again, as often as the other succeeds; a reader, too.
 *
 * @flags: 0 or LSM_EXPECT
 * @version: in, with LSM_EXPECT: the expected version; out: the present version; may be NULL without LSM_EXPECT
 */
#define LSM_LARGE_PART_MIN	4096u
#define LSM_LARGE_PART_MAX	((1u << 20) - 32u)

/**
 * struct lsm_large - attributes of a large object
 * @version: changes with each write
 * @length: bytes
 * @part: most bytes of a part
 * @table: id given to lsm_large_create()
 * @reserved: 0
 */
struct lsm_large {
	uint64_t version;
	uint64_t length;
	uint32_t part;
	uint32_t table;
	uint64_t reserved[2];
};

/**
 * lsm_large_create() - make a large object without bytes
 * @lsm: store
 * @part: bytes of a part, LSM_LARGE_PART_MIN .. LSM_LARGE_PART_MAX; 0: 256 KiB.  A write copies what it leaves of the
 *	first and the last part that it changes
 * @flags: LSM_TABLE(id)
 * @handle: out, never 0
 *
 * Return: 0; -EINVAL; as lsm_alloc().
 */
int lsm_large_create(struct lsm *lsm, uint32_t part, unsigned int flags, uint64_t *handle);

/**
 * lsm_large_read() - copy bytes of a large object
 * @lsm: store
 * @handle: of it
 * @data: target; may be NULL if @length is 0
 * @length: room at @data
 * @offset: first byte wanted, at most the length
 * @large: out, may be NULL
 *
 * The bytes are of one version.
 *
 * Return: bytes copied; -EBADMSG: the object is no large one; -EINVAL: @offset; -EUCLEAN: a part is missing; as
 * lsm_read().
 */
ssize_t lsm_large_read(struct lsm *lsm, uint64_t handle, void *data, size_t length, uint64_t offset,
		       struct lsm_large *large);

/**
 * lsm_large_write() - write to a large object, or behind its end
 * @lsm: store
 * @handle: of it
 * @data: new bytes
 * @length: at least 1
 * @offset: of the first; what is between the end of the object and @offset is zeroes, which take no memory
 * @flags: see above
 * @version: see above
 *
 * Return: 0; -EFBIG: more parts than there can be; -EINVAL; -ENOMEM; -EBADMSG, -EUCLEAN: as lsm_large_read(); -EBUSY: new
 * parts were not durable in time, and nothing is changed; -ETIMEDOUT: written, durability unknown; -EILSEQ, -ENOSPC ..:
 * as lsm_replace().
 */
int lsm_large_write(struct lsm *lsm, uint64_t handle, const void *data, size_t length, uint64_t offset,
		    unsigned int flags, uint64_t *version);

/**
 * lsm_large_append() - write behind the end of a large object
 * @lsm: store
 * @handle: of it
 * @data: new bytes
 * @length: at least 1
 * @flags: see above
 * @offset: out: of the first; may be NULL
 * @version: see above
 *
 * Return: as lsm_large_write().
 */
int lsm_large_append(struct lsm *lsm, uint64_t handle, const void *data, size_t length, unsigned int flags,
		     uint64_t *offset, uint64_t *version);

/**
 * lsm_large_free() - free a large object
 * @lsm: store
 * @handle: of it
 * @flags: see above
 * @version: see above
 *
 * The index object is freed first: what a crash leaves are parts for lsm_large_sweep().
 *
 * Return: 0; -ENOMEM; -EBADMSG: the object is no large one; as lsm_free().
 */
int lsm_large_free(struct lsm *lsm, uint64_t handle, unsigned int flags, uint64_t *version);

/**
 * struct lsm_large_report - what lsm_large_sweep() has found
 * @objects: large objects
 * @parts: that they have
 * @orphans: parts that no object has, and that were freed
 * @broken: large objects that lack a part, or name one of another object
 * @unseen: objects that the scan has not seen: see struct lsm_scan_result, cold
 * @reserved: 0
 */
struct lsm_large_report {
	uint64_t objects;
	uint64_t parts;
	uint64_t orphans;
	uint64_t broken;
	uint64_t unseen;
	uint64_t reserved[3];
};

/**
 * lsm_large_sweep() - free what writers that ended in the middle have left of large objects
 * @lsm: store, opened for writing
 * @table: of the large objects; an object that begins as a part does counts as one
 * @report: out
 *
 * Other clients may read and write meanwhile.  To be called after a crash of the host or of a writer.  Takes 40 bytes
 * of memory for each part.
 *
 * Return: 0; -EBADMSG: the owner of a part is no large object; as lsm_scan(), lsm_sync() and lsm_replace().
 */
int lsm_large_sweep(struct lsm *lsm, uint32_t table, struct lsm_large_report *report);

/**
 * lsm_stat_sized() - lsm_stat() of a program that knows so much of the structure
 * @lsm: store
 * @stat: out
 * @size: bytes of it, at least LSMEM_STAT_SIZE_VER0
 *
 * Return: as lsm_query_sized().
 */
int lsm_stat_sized(struct lsm *lsm, struct lsmem_stat *stat, size_t size);

/**
 * lsm_stat() - counters of the store
 * @lsm: store
 * @stat: out
 */
static inline int lsm_stat(struct lsm *lsm, struct lsmem_stat *stat)
{
	return lsm_stat_sized(lsm, stat, sizeof(*stat));
}

/**
 * struct lsm_listed - an object of lsm_next()
 * @handle: of the object
 * @object: its attributes
 */
struct lsm_listed {
	uint64_t handle;
	struct lsm_object object;
};

/**
 * lsm_next() - the next objects, in the order of the handle table
 * @lsm: store
 * @table: only of this table; -1: of all
 * @cursor: in: 0, or as the last call has left it, also in another process, or after a crash; out: where to go on
 * @listed: out
 * @nr: most objects to list
 *
 * An object that is there from the first call to the last is listed exactly once.  What is on backups only is fetched,
 * many objects at a time.  To see all objects as they were at one version, use lsm_scan() with LSM_SCAN_EXACT.
 *
 * Return: objects at @listed, fewer than @nr at the end alone; 0: there are no more; -EINVAL; -EOPNOTSUPP: an older
 * kernel; as lsm_read().
 */
ssize_t lsm_next(struct lsm *lsm, int table, uint64_t *cursor, struct lsm_listed *listed, size_t nr);

#define LSM_NONBLOCK		LSMEM_WATCH_NONBLOCK /* lsm_watch_open(): O_NONBLOCK */

/**
 * lsm_watch_open() - be told which objects of a table change
 * @lsm: store; can be closed before the descriptor
 * @table: table id, 0 .. 4095
 * @entries: notes that are kept for watchers, a power of two up to LSMEM_WATCH_ENTRIES; 0: 1024.  The first watcher of
 *	the table decides
 * @cursor: 0: changes from now on; else go on behind the note that has this cursor, also one of another process
 * @flags: LSM_NONBLOCK
 *
 * To have the table and all that follows, open first, and list it by lsm_next() then.  What is lost, because the watcher
 * is too slow or its cursor is no more known, is one note, LSMEM_NOTE_LOST: list the table again.
 *
 * Return: a descriptor for lsm_watch_read(), poll() and close(), as struct lsmem_watch says; -EOPNOTSUPP: an older
 * kernel; -EBUSY: LSMEM_WATCH_TABLES tables are watched; -EINVAL; -EAGAIN; -ENOMEM; -EMFILE; -ENFILE.
 */
int lsm_watch_open(struct lsm *lsm, uint32_t table, uint32_t entries, uint64_t cursor, unsigned int flags);

/**
 * lsm_watch_read() - take notes, in their order
 * @watch: from lsm_watch_open() or lsm_table_watch()
 * @notes: out
 * @nr: most notes to take, at least 1
 *
 * Return: notes at @notes; 0: the store is gone; -EAGAIN: LSM_NONBLOCK, and there is none; -EINTR: a signal came while it
 * waited.
 */
ssize_t lsm_watch_read(int watch, struct lsmem_note *notes, size_t nr);

/*
 * Roots: names of handles, by which a program finds its objects again.  All roots of a store take at most 1 MiB, so
 * there are for a few things: the root of a tree, not each of its nodes.
 */
#define LSM_ROOT_NAME		255u	/* most bytes of a name */

/**
 * struct lsm_root - a root
 * @handle: what it names
 * @name: ends with a zero
 * @reserved: 0
 */
struct lsm_root {
	uint64_t handle;
	char name[LSM_ROOT_NAME + 1];
	uint64_t reserved[1];
};

/**
 * lsm_root_set() - set, change or remove a root
 * @lsm: store, opened for writing
 * @name: 1 .. LSM_ROOT_NAME bytes
 * @handle: what it is to name; 0: nothing any more
 * @flags: LSM_DURABLE
 * @expected: only if it names this now, 0: nothing; NULL: whatever it names
 *
 * Atomic: a reader sees the old handle or the new one, also after a crash.  The object is not looked at; make it
 * durable before, or with lsm_sync() after, or the root may be there after a crash without it.
 *
 * Return: 0; -EILSEQ: it does not name @expected; -EINVAL; -ENOSPC: too many roots; -EOPNOTSUPP: an older kernel;
 * -EBADMSG: the object of the roots is not in order; as lsm_replace().
 */
int lsm_root_set(struct lsm *lsm, const char *name, uint64_t handle, unsigned int flags,
		 const uint64_t *expected);

/**
 * lsm_root_get() - what a root names
 * @lsm: store
 * @name: its name
 * @handle: out
 *
 * Makes a system call.  Return: 0; -ENOENT: there is no such root; as lsm_root_set() and lsm_read().
 */
int lsm_root_get(struct lsm *lsm, const char *name, uint64_t *handle);

/**
 * lsm_root_list() - all roots, at one moment
 * @lsm: store
 * @roots: out, in no order
 * @nr: room at @roots
 *
 * Return: how many there are, which may be more than @nr; as lsm_root_get().
 */
ssize_t lsm_root_list(struct lsm *lsm, struct lsm_root *roots, size_t nr);

/*
 * Tables with keys.  An item is an object: the value, then the key, then its length, so that the columns of values
 * can be scanned.  All objects with the table's id are items, and clients that do not use the table should leave them
 * alone.  An index leads from keys to objects; it is in memory that all processes share which have the store open,
 * and is made anew by the first client that opens the table after the store was created or recovered.  Readers take no lock
 * and make no system call, but for a key that a group is just adding: they wait until that is done.
 *
 * A key is there once.  What is durable is there after a crash, with the last value that is.  A process can die at any
 * instruction: others wait for a part of the index that it was changing some hundredths of a second, and then as long as
 * it takes to look at the keys of all items.  A process that is stopped there delays others for ten seconds, after which
 * they get -ETIMEDOUT; likewise one that died there those that opened the table with LSM_RDONLY, until another one
 * has changed that part.
 *
 * All calls on a table but lsm_table_close() can be made by many threads at once.  In the child of a fork they return
 * -ECHILD.
 */
struct lsm_table;

#define LSM_KEY_MAX		65535u		/* most bytes of a key */

/* lsm_table_put() */
#define LSM_NEW			(1u << 16)	/* only if the key is not there */
#define LSM_OLD			(1u << 17)	/* only if it is there */

/**
 * struct lsm_item - attributes of an item
 * @handle: of its object; a key that is removed and put again has another one
 * @version: increases with each put of the key
 * @length: bytes of the value
 * @reserved: 0
 */
struct lsm_item {
	uint64_t handle;
	uint64_t version;
	uint32_t length;
	uint32_t reserved[3];
};

/**
 * lsm_table_open() - open a table
 * @lsm: store with windows; stays open until lsm_table_close()
 * @id: table id, 0 .. 4095
 * @flags: LSM_RDONLY
 * @table: out
 *
 * The first to open it makes the index, which takes a fraction of a microsecond for each object of the store, and of a
 * tiered store reads those that are on backups only.  The index takes some 20 bytes of memory for each item, charged
 * to the memory cgroup of who uses a page of it first.
 *
 * Return: 0; -EAGAIN: LSM_RDONLY, and the index has not been made; -EUSERS: 4095 clients have it open; -EPROTO: another
 * version of the library has made the index; -EOPNOTSUPP: no windows, or an older kernel; -EBADF: the store was opened
 * with LSM_RDONLY; -EINVAL; -ENOMEM; -ETIMEDOUT: who makes the index takes longer than ten seconds; as lsm_next().
 */
int lsm_table_open(struct lsm *lsm, uint32_t id, unsigned int flags, struct lsm_table **table);

/**
 * lsm_table_close() - close a table
 * @table: may be NULL; no other call is under way
 */
void lsm_table_close(struct lsm_table *table);

/**
 * lsm_table_get() - copy the value of a key, without a system call
 * @table: table
 * @key: key
 * @key_length: 1 .. LSM_KEY_MAX bytes
 * @value: out
 * @room: at @value
 * @item: out; its length may be more than @room; may be NULL
 *
 * Return: bytes copied; -ENOENT: no such key; -EINVAL; -ECHILD; -ETIMEDOUT: see above; as lsm_read().
 */
ssize_t lsm_table_get(struct lsm_table *table, const void *key, size_t key_length, void *value, size_t room,
		      struct lsm_item *item);

/**
 * lsm_table_put() - put a value
 * @table: table, opened for writing
 * @key: key
 * @key_length: 1 .. LSM_KEY_MAX bytes
 * @value: its bytes
 * @length: bytes; key and value take at most 1 MiB - 2
 * @flags: LSM_DURABLE; LSM_NEW; LSM_OLD; LSM_EXPECT: only if *@version is the present one
 * @version: in with LSM_EXPECT; out: that of the item, also of one that was not expected; may be NULL otherwise
 *
 * Return: 0; -EEXIST, -ENOENT: LSM_NEW, LSM_OLD; -EILSEQ: LSM_EXPECT, and another version is present; -ENOENT also:
 * LSM_EXPECT, and there is none; -ENOSPC; -ETIMEDOUT: it is put, its durability unknown, or see above; -EBADF: opened
 * with LSM_RDONLY; as lsm_alloc().
 */
int lsm_table_put(struct lsm_table *table, const void *key, size_t key_length, const void *value,
		  size_t length, unsigned int flags, uint64_t *version);

/**
 * lsm_table_alloc() - the object of a key, which is made if it is not there
 * @table: table, opened for writing
 * @key: key, which the caller knows again after a crash: the number of an order, the name of a file
 * @key_length: 1 .. LSM_KEY_MAX bytes
 * @value: its bytes, if it is made
 * @length: bytes; key and value take at most 1 MiB - 2
 * @flags: LSM_DURABLE
 * @item: out: of the object, made now or before; may be NULL
 *
 * Can be repeated after any error, in another process when the first one has died, and after a crash of the host: a key
 * has one object, until it is removed.  So a client that does not know whether it had made an object calls again, and
 * has the object.  The value of one that was there stays.  With LSM_DURABLE the object is durable when the call
 * returns, also if another client has made it, and has died before it was durable; that client's lsm_table_put() with
 * LSM_NEW and a following -EEXIST would tell nothing of it.
 *
 * Return: 0: it is made; 1: it was there; -ETIMEDOUT: it is there, its durability unknown, or see above; -EOPNOTSUPP:
 * LSM_DURABLE, and the store is volatile: nothing was made; as lsm_table_put() and lsm_table_get().
 */
int lsm_table_alloc(struct lsm_table *table, const void *key, size_t key_length, const void *value, size_t length,
		    unsigned int flags, struct lsm_item *item);

/**
 * lsm_table_remove() - remove a key
 * @table: table, opened for writing
 * @key: key
 * @key_length: 1 .. LSM_KEY_MAX bytes
 * @flags: LSM_DURABLE, LSM_EXPECT
 * @version: as for lsm_table_put(); out: higher than any of the item
 *
 * Return: 0; -ENOENT: no such key; as lsm_table_put().
 */
int lsm_table_remove(struct lsm_table *table, const void *key, size_t key_length, unsigned int flags,
		     uint64_t *version);

/**
 * struct lsm_get - one of several values
 * @key: key
 * @key_length: bytes
 * @value: where it is copied to
 * @room: at @value
 * @item: out
 * @result: out: as lsm_table_get() returns
 * @flags: 0
 * @reserved: not looked at
 */
struct lsm_get {
	const void *key;
	size_t key_length;
	void *value;
	size_t room;
	struct lsm_item item;
	ssize_t result;
	uint32_t flags;
	uint32_t reserved[3];
};

/**
 * lsm_table_get_many() - copy the values of several keys
 * @table: table
 * @gets: keys
 * @nr: any number
 *
 * As lsm_table_get() for one after the other, but the processor fetches several from memory at the same time.
 */
void lsm_table_get_many(struct lsm_table *table, struct lsm_get *gets, size_t nr);

/**
 * struct lsm_put - one of several puts
 * @key: key
 * @key_length: bytes
 * @value: its bytes
 * @length: bytes
 * @flags: LSM_NEW, LSM_OLD, LSM_EXPECT
 * @version: as for lsm_table_put()
 * @result: out: as lsm_table_put() returns
 * @reserved: not looked at
 */
struct lsm_put {
	const void *key;
	size_t key_length;
	const void *value;
	size_t length;
	unsigned int flags;
	uint64_t version;
	int result;
	uint32_t reserved[3];
};

/**
 * lsm_table_put_many() - put several values
 * @table: table, opened for writing
 * @puts: keys and values; puts of one key are carried out in their order
 * @nr: any number
 * @flags: LSM_DURABLE for all, with one wait
 *
 * Values of keys that are there are replaced in few system calls.
 *
 * Return: 0: all were tried; -ETIMEDOUT: likewise, and durability is unknown; another error, which the results of
 * those that were not tried have, too.
 */
int lsm_table_put_many(struct lsm_table *table, struct lsm_put *puts, size_t nr, unsigned int flags);

/* struct lsm_item_op, op */
#define LSM_ITEM_PUT		1u
#define LSM_ITEM_REMOVE		2u
#define LSM_ITEM_CHECK		3u		/* changes nothing */

/**
 * struct lsm_item_op - an operation on a key in a group
 * @table: opened for writing with the store of the group; several can be in a group
 * @key: key
 * @key_length: 1 .. LSM_KEY_MAX bytes
 * @value: LSM_ITEM_PUT: its bytes
 * @length: LSM_ITEM_PUT: bytes; otherwise 0
 * @op: LSM_ITEM_*
 * @flags: LSM_EXPECT; LSM_ITEM_PUT: LSM_NEW, LSM_OLD; LSM_ITEM_CHECK: LSM_NEW: the key is not there; otherwise it is
 * @version: in with LSM_EXPECT; out: of the item, also of one that was not expected; 0: there is none
 * @handle: out: of its object; 0: there is none
 * @result: out: 0; why the group was not made; or -ECANCELED: because of another operation
 * @reserved: not looked at
 */
struct lsm_item_op {
	struct lsm_table *table;
	const void *key;
	size_t key_length;
	const void *value;
	size_t length;
	uint32_t op;
	uint32_t flags;
	uint64_t version;
	uint64_t handle;
	int32_t result;
	uint32_t reserved[5];
};

/**
 * lsm_table_group() - put, remove and check several keys, all or none
 * @lsm: store of the tables
 * @items: of different keys
 * @nr: of @items
 * @ops: operations on other objects, as of lsm_vector() with LSM_ATOMIC; may be NULL
 * @nr_ops: of @ops; with @nr at most 256, with keys and values 1 MiB
 * @flags: LSM_DURABLE
 *
 * As struct lsmem_vector says of LSM_ATOMIC: all are carried out or none, also after a crash and whenever a process
 * dies, and no other client changes what is checked in between.  A client that reads several keys meanwhile may see
 * some as they are, and others as they were.  Keys that come, go or must not be there are locked for other clients
 * that add or remove keys; other groups delay no client.  That a key is not there is what the index says: a crash
 * can undo a removal that is not durable yet.
 *
 * Return: 0; -ETIMEDOUT with results of 0: carried out, durability unknown; otherwise nothing has changed, and if
 * the error is that of an operation, its result says so: -EEXIST, -ENOENT, -EILSEQ as lsm_table_put(); -EINVAL:
 * also a key or an object that is named twice, or a table of another struct lsm; -E2BIG; -EBADF; -ETIMEDOUT: as
 * lsm_table_put(); as lsm_vector().
 */
int lsm_table_group(struct lsm *lsm, struct lsm_item_op *items, size_t nr, struct lsmem_op *ops, size_t nr_ops,
		    unsigned int flags);

/**
 * lsm_table_next() - the next item, in no order
 * @table: table
 * @cursor: as for lsm_next()
 * @key: out
 * @key_length: in: room at @key; out: bytes of the key, which may be more
 * @value: out
 * @room: at @value
 * @item: out; may be NULL
 *
 * An item that is there from the first call to the last is seen exactly once.  Of an item in memory no more of the value
 * is read than there is room for; one that is on backups is fetched whole.  Return: 1; 0: there are no more; as
 * lsm_next().
 */
int lsm_table_next(struct lsm_table *table, uint64_t *cursor, void *key, size_t *key_length, void *value,
		   size_t room, struct lsm_item *item);

/**
 * lsm_table_watch() - be told which items change
 * @table: table
 * @entries: as for lsm_watch_open()
 * @cursor: likewise
 * @flags: likewise
 *
 * Return: as lsm_watch_open(), for lsm_watch_read() and lsm_table_note().
 */
int lsm_table_watch(struct lsm_table *table, uint32_t entries, uint64_t cursor, unsigned int flags);

/**
 * lsm_table_note() - the item that a note is about, as it is by now
 * @table: table
 * @note: of the table
 * @key: out
 * @key_length: in: room at @key; out: bytes of the key, which may be more
 * @value: out
 * @room: at @value
 * @item: out; its version is that of @note or a later one; may be NULL
 *
 * An item that is gone has no key any more: who wants to know which it was keeps handles with keys.  A key whose last
 * item is gone may be there with another handle.
 *
 * Return: 1; 0: it was removed, or the object is no item; -EINVAL: LSMEM_NOTE_LOST; as lsm_read().
 */
int lsm_table_note(struct lsm_table *table, const struct lsmem_note *note, void *key, size_t *key_length,
		   void *value, size_t room, struct lsm_item *item);

/**
 * lsm_table_evict() - remove items that were not read for a while, for caches
 * @table: table, opened for writing
 * @bytes: memory of the store to be given back, headers included; somewhat more is
 * @evicted: out: items removed; may be NULL
 *
 * A hand goes over memory in the order of the log (clock, or second chance): an item that was read since the hand
 * passed last stays, others go, the oldest first.  So cleaners get memory that is empty, and copy little.  It stops
 * after two rounds.  Items that are on backups only stay.
 *
 * Return: bytes given back; -EBADF: opened with LSM_RDONLY; -EOPNOTSUPP: an older kernel, without a live bitmap; as
 * lsm_table_remove().
 */
ssize_t lsm_table_evict(struct lsm_table *table, size_t bytes, uint64_t *evicted);

#define LSM_EVICTED_HEAD	64u		/* most bytes of a value in struct lsm_evicted */

/**
 * struct lsm_evicted - an item that lsm_table_evict_each() has removed
 * @key: of the item
 * @key_length: bytes
 * @head: first bytes of the value
 * @head_length: of them, LSM_EVICTED_HEAD or fewer
 * @item: attributes
 * @reserved: 0
 */
struct lsm_evicted {
	const void *key;
	size_t key_length;
	const void *head;
	size_t head_length;
	struct lsm_item item;
	uint64_t reserved[4];
};

/**
 * lsm_table_evict_each() - as lsm_table_evict(), and tell which items were removed
 * @table: table, opened for writing
 * @bytes: as for lsm_table_evict()
 * @each: called for each item after it was removed, with @context, by the calling thread; what it is given is valid
 *	until it returns.  It may use the table, but not evict from it or close it.  NULL: as lsm_table_evict()
 * @context: for @each
 * @evicted: out: items removed; may be NULL
 *
 * @each is called for what this call has removed, also if it returns an error then.
 *
 * Return: as lsm_table_evict().
 */
ssize_t lsm_table_evict_each(struct lsm_table *table, size_t bytes,
			     void (*each)(void *context, const struct lsm_evicted *evicted), void *context,
			     uint64_t *evicted);

/**
 * struct lsm_table_stat - figures of a table
 * @items: that are there
 * @index_bytes: memory of the index
 * @evicted: items that lsm_table_evict() has removed since the index was made
 * @reserved: 0
 */
struct lsm_table_stat {
	uint64_t items;
	uint64_t index_bytes;
	uint64_t evicted;
	uint64_t reserved[5];
};

/**
 * lsm_table_stat() - figures of a table
 * @table: table
 * @stat: out
 *
 * Return: 0; -ECHILD.
 */
int lsm_table_stat(struct lsm_table *table, struct lsm_table_stat *stat);

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

/*
 * Aggregates.  An object is a row, and has values of a type at offsets: columns, little endian.  Rows
 * are fed in any order and by any number of threads, each with an aggregate of its own, and merged; the
 * result is the same to the bit, on any processor:
 *
 * - Integers are added in 128 bits, and cannot overflow.
 * - Doubles are added without rounding; the sum is rounded once, to the nearest.
 * - NaN is no value: it is counted apart, and lies in no range.  An infinity is a value; the sum with both is
 *   NaN.  For min and max -0 is below +0; a range that begins or ends with a zero has both.
 * - An object that is too short for a column that is asked for is counted and left out.
 */
struct lsm_aggregate;

enum lsm_type {
	LSM_U32 = 1,
	LSM_U64,
	LSM_I64,
	LSM_F64,
};

#define LSM_TO_END		0xffffffffu	/* lsm_column.nr */

union lsm_value {
	uint64_t u64;	/* LSM_U32, LSM_U64 */
	int64_t i64;
	double f64;
};

/**
 * struct lsm_column - values in each object
 * @type: enum lsm_type
 * @offset: of the first, bytes
 * @nr: how many; 0: one; LSM_TO_END: as many as the object has room for, at least one
 * @stride: bytes from one to the next; 0: that of the type
 */
struct lsm_column {
	uint32_t type;
	uint32_t offset;
	uint32_t nr;
	uint32_t stride;
};

/**
 * struct lsm_range - a predicate: @low <= value <= @high
 * @column: of one value
 * @low: of the column's type
 * @high: of the column's type
 */
struct lsm_range {
	struct lsm_column column;
	union lsm_value low;
	union lsm_value high;
};

#define LSM_SMALLEST		(1u << 0)	/* lsm_measure.flags: the smallest instead of the largest */

/**
 * struct lsm_measure - what is to be known of a column; count, sum, min, max and average always are
 * @column: its values
 * @flags: LSM_SMALLEST or 0
 * @top: how many of its largest values are kept, at most 65536
 * @bounds: ascending bounds of a histogram, not NaN: value v is in bucket i if i bounds are <= v; NULL: none
 * @nr_bounds: at most 65536
 * @reserved: not looked at
 */
struct lsm_measure {
	struct lsm_column column;
	uint32_t flags;
	uint32_t top;
	const union lsm_value *bounds;
	size_t nr_bounds;
	uint64_t reserved[2];
};

/**
 * struct lsm_question - what lsm_aggregate_create() is to compute
 * @ranges: all must hold
 * @nr_ranges: at @ranges
 * @group: integer column of one value; one group for each value.  NULL: one group in all
 * @groups_max: most groups, at most 2^24; 0: 65536
 * @measures: at least one, or none to count objects
 * @nr_measures: at @measures, at most 64
 * @flags: 0
 * @reserved: not looked at
 */
struct lsm_question {
	const struct lsm_range *ranges;
	size_t nr_ranges;
	const struct lsm_column *group;
	size_t groups_max;
	const struct lsm_measure *measures;
	size_t nr_measures;
	uint32_t flags;
	uint32_t reserved[7];
};

/**
 * struct lsm_row - an object in a batch
 * @handle: of the object
 * @version: of the object
 * @data: its bytes
 * @bytes: how many there are at @data
 * @length: of the object
 * @table: of the object
 * @reserved: 0
 */
struct lsm_row {
	uint64_t handle;
	uint64_t version;
	const void *data;
	uint32_t bytes;
	uint32_t length;
	uint32_t table;
	uint32_t reserved[3];
};

/**
 * struct lsm_counts - the rows of an aggregate
 * @fed: all
 * @shorter: left out, because they are too short for a column
 * @selected: neither short nor out of a range
 * @groups: how many
 * @reserved: 0
 */
struct lsm_counts {
	uint64_t fed;
	uint64_t shorter;
	uint64_t selected;
	uint64_t groups;
	uint64_t reserved[4];
};

/**
 * struct lsm_total - a measure of all selected rows, or of those of a group
 * @count: values that are not NaN
 * @nan: NaN
 * @min: of the column's type; 0 if @count is 0
 * @max: likewise
 * @sum_low: the sum of integers, lower half
 * @sum_high: upper half
 * @sum: the sum as the nearest double; infinite if it is too large
 * @average: @sum / @count, 0 if @count is 0
 * @reserved: 0
 */
struct lsm_total {
	uint64_t count;
	uint64_t nan;
	union lsm_value min;
	union lsm_value max;
	uint64_t sum_low;
	int64_t sum_high;
	double sum;
	double average;
	uint64_t reserved[2];
};

/**
 * struct lsm_top - one of the largest or smallest values
 * @value: of the column's type
 * @handle: of the object; of equal values those with the smallest handles are kept
 * @position: of the value in its column
 * @reserved: 0
 */
struct lsm_top {
	union lsm_value value;
	uint64_t handle;
	uint64_t position;
	uint64_t reserved[1];
};

/**
 * lsm_aggregate_create() - prepare to aggregate
 * @question: what is to be computed; copied
 * @aggregate: out
 *
 * Return: 0; -EINVAL: a type, a column that does not fit an object, a number; -ENOMEM.
 */
int lsm_aggregate_create(const struct lsm_question *question, struct lsm_aggregate **aggregate);

/**
 * lsm_aggregate_destroy() - free an aggregate
 * @aggregate: may be NULL
 */
void lsm_aggregate_destroy(struct lsm_aggregate *aggregate);

/**
 * lsm_aggregate_feed() - add rows; one thread at a time
 * @aggregate: aggregate
 * @rows: objects
 * @nr: any number
 *
 * Return: 0; -EOVERFLOW: there are more groups than the question allows; -EINVAL: a row has fewer bytes
 * than the columns need, and the object has them; -ENOMEM.  After an error the aggregate has no result,
 * and all calls return the error.
 */
int lsm_aggregate_feed(struct lsm_aggregate *aggregate, const struct lsm_row *rows, size_t nr);

/**
 * lsm_aggregate_merge() - add the rows of another aggregate
 * @into: aggregate
 * @from: aggregate of the same question; not changed
 *
 * Return: 0; -EINVAL: of another question; as lsm_aggregate_feed().
 */
int lsm_aggregate_merge(struct lsm_aggregate *into, const struct lsm_aggregate *from);

/**
 * lsm_aggregate_counts() - how many rows and groups there are
 * @aggregate: aggregate
 * @counts: out
 *
 * Return: 0; as lsm_aggregate_feed().
 */
int lsm_aggregate_counts(const struct lsm_aggregate *aggregate, struct lsm_counts *counts);

/**
 * lsm_aggregate_total() - a measure of all selected rows
 * @aggregate: aggregate
 * @measure: its number in the question
 * @total: out
 *
 * Return: 0; -EINVAL: no such measure; as lsm_aggregate_feed().
 */
int lsm_aggregate_total(const struct lsm_aggregate *aggregate, size_t measure,
			struct lsm_total *total);

/**
 * lsm_aggregate_group() - a group, in the order of their values
 * @aggregate: aggregate; no other call with it is under way
 * @group: 0 .. groups - 1
 * @value: out: what its rows have in common; may be NULL
 * @rows: out: how many; may be NULL
 * @totals: out: one for each measure; may be NULL
 *
 * Return: 0; -EINVAL: no such group; -ENOMEM; as lsm_aggregate_feed().
 */
int lsm_aggregate_group(struct lsm_aggregate *aggregate, size_t group, union lsm_value *value,
			uint64_t *rows, struct lsm_total *totals);

/**
 * lsm_aggregate_histogram() - the histogram of a measure, of all selected rows
 * @aggregate: aggregate
 * @measure: its number in the question
 * @buckets: out: one more than there are bounds
 *
 * Return: 0; -EINVAL: no such measure, or it has no bounds; as lsm_aggregate_feed().
 */
int lsm_aggregate_histogram(const struct lsm_aggregate *aggregate, size_t measure,
			    uint64_t *buckets);

/**
 * lsm_aggregate_top() - the largest values of a measure, of all selected rows, the largest first
 * @aggregate: aggregate
 * @measure: its number in the question
 * @top: out
 * @nr: room at @top
 *
 * Return: values at @top; -EINVAL: no such measure; -ENOMEM; as lsm_aggregate_feed().
 */
ssize_t lsm_aggregate_top(const struct lsm_aggregate *aggregate, size_t measure, struct lsm_top *top,
			  size_t nr);

/*
 * Scans: all objects of a store, or many of them, in batches.  There are four ways to go about it:
 *
 * LSM_PLAN_LOOKUP	the handles of a list, in its order
 * LSM_PLAN_SORTED	the same in the order of the handle table
 * LSM_PLAN_TABLE	the handle table from one end to the other
 * LSM_PLAN_LOG		the memory from one end to the other, as a snapshot has frozen it
 *
 * With LSM_PLAN_LOG each object is seen exactly once, as it was at the snapshot's version.  The kernel
 * keeps seglets back for that, within bounds; a scan that is too slow for them fails with
 * -ECANCELED.  Of a tiered store, what is on backups only is read there, without being put into memory; LSM_PLAN_TABLE
 * leaves it out, and LSM_PLAN_AUTO does not choose that.  With the other plans each object is read as by lsm_read(), one earlier than another; one
 * that exists from the beginning of the scan to its end is seen exactly once.
 */
enum lsm_plan {
	LSM_PLAN_AUTO,
	LSM_PLAN_LOOKUP,
	LSM_PLAN_SORTED,
	LSM_PLAN_TABLE,
	LSM_PLAN_LOG,
};

#define LSM_PLANS		5u	/* plans of this version */
#define LSM_PLANS_MAX		16u	/* there never are more */

#define LSM_SCAN_EXACT		(1u << 0)	/* lsm_scan.flags: only LSM_PLAN_LOG will do */

/**
 * struct lsm_scan - what to scan, and how; all zero but for @batch: all objects
 * @plan: enum lsm_plan; LSM_PLAN_AUTO: the one that costs least
 * @flags: LSM_SCAN_EXACT
 * @threads: 1 .. 64; 0: one for each processor
 * @prefix: bytes of each object that rows need; 0: all
 * @one_table: only objects of @table
 * @table: table id
 * @length_min: least length of an object
 * @length_max: largest length; 0: any
 * @version_min: least version
 * @version_max: largest version; 0: any
 * @index_first: least index (lsmem_handle_index()) of an object
 * @index_end: largest index + 1; 0: any
 * @handles: list of handles, none twice; NULL: all objects
 * @nr_handles: at @handles
 * @kept_max: bound of the snapshot, seglets; 0: that of the store
 * @time_ms: likewise, milliseconds
 * @batch: called with 1 to 256 rows, in any order, by @threads threads at once, with their number.  The bytes
 *	are valid until it returns.  With LSM_PLAN_LOG they are used in place: only when lsm_scan() has
 *	returned 0 is it certain that they were right.  Return: 0, or a negative errno, which ends the scan
 * @progress: called now and then by one thread at a time; NULL: not
 * @context: for @batch and @progress
 * @reserved: not looked at
 */
struct lsm_scan {
	uint32_t plan;
	uint32_t flags;
	uint32_t threads;
	uint32_t prefix;
	uint32_t one_table;
	uint32_t table;
	uint32_t length_min;
	uint32_t length_max;
	uint64_t version_min;
	uint64_t version_max;
	uint64_t index_first;
	uint64_t index_end;
	const uint64_t *handles;
	size_t nr_handles;
	uint32_t kept_max;
	uint32_t time_ms;
	int (*batch)(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr);
	void (*progress)(void *context, uint64_t done, uint64_t total);
	void *context;
	uint64_t reserved[8];
};

/**
 * struct lsm_explain - how a scan is carried out, and why
 * @plan: the plan
 * @threads: threads
 * @objects: in the store
 * @bytes: live bytes of the store
 * @wanted: objects in the list, or as @objects
 * @cold: of a tiered store: objects that are on backups only, estimated
 * @cost_ns: of each plan, estimated nanoseconds; negative: it is not possible
 * @reserved: 0
 */
struct lsm_explain {
	uint32_t plan;
	uint32_t threads;
	uint64_t objects;
	uint64_t bytes;
	uint64_t wanted;
	uint64_t cold;
	int64_t cost_ns[LSM_PLANS_MAX];
	uint64_t reserved[4];
};

/**
 * struct lsm_scan_result - what a scan has done
 * @explain: plan and estimate
 * @version: of the snapshot; 0: there was none
 * @rows: objects given to the caller
 * @copied: of LSM_PLAN_LOG: rows that were copied, because they lie in seglets that are apart
 * @gone: handles of the list without an object
 * @cold: of LSM_PLAN_TABLE, in a tiered store: objects that are not in memory, and were not seen
 * @reserved: 0
 */
struct lsm_scan_result {
	struct lsm_explain explain;
	uint64_t version;
	uint64_t rows;
	uint64_t copied;
	uint64_t gone;
	uint64_t cold;
	uint64_t reserved[4];
};

/**
 * lsm_scan() - give objects to a callback
 * @lsm: store
 * @scan: which, and how
 * @result: out; may be NULL
 *
 * Return: 0: all objects were given; -ECANCELED: the snapshot was revoked, and what the callback has computed
 * is not to be used; -EOPNOTSUPP: LSM_SCAN_EXACT or a plan, and the store (tiered, or an older kernel) or
 * the way it was opened (no windows) does not allow it; -EINVAL: a plan that needs a list, a number;
 * -ECHILD: after a fork, but for look-ups; -EBUSY, -ENOSPC, -ETIMEDOUT: no snapshot, as
 * LSMEM_IOC_SNAPSHOT, and it was asked for; -EIO, -ETIMEDOUT, -ENOMEM: as lsm_read(), of an object;
 * -EUCLEAN: the memory has no entries where the snapshot says; what @batch returned.
 */
int lsm_scan(struct lsm *lsm, const struct lsm_scan *scan, struct lsm_scan_result *result);

/* A scan that its caller has go on, batch by batch.  For one thread at a time, and not after a fork. */
struct lsm_cursor;

/**
 * lsm_scan_open() - begin a scan that goes on when it is asked to
 * @lsm: store, which stays open
 * @scan: which objects, and how; batch, progress, context and threads are not used; a list of handles stays where it is
 *	until the scan is closed
 * @cursor: out
 *
 * With LSM_SCAN_EXACT the objects are those at the version of this call, however long the caller takes from one batch to
 * the next, within limits/snapshot_ms or @scan->time_ms, and what the store may keep back.  A thread reads for it, and
 * waits for the caller.
 *
 * Return: 0; -ENOMEM, -EAGAIN: no thread; as lsm_scan().
 */
int lsm_scan_open(struct lsm *lsm, const struct lsm_scan *scan, struct lsm_cursor **cursor);

/**
 * lsm_scan_next() - the next batch
 * @cursor: scan
 * @rows: out: 1 to 256 rows, in any order, valid until the next call
 *
 * Return: rows; 0: all objects were given, and all rows were right; -ECANCELED: the snapshot was revoked, and rows of
 * this scan may not have been right; as lsm_scan().  After 0 and after an error again the same.
 */
ssize_t lsm_scan_next(struct lsm_cursor *cursor, const struct lsm_row **rows);

/**
 * lsm_scan_version() - the version at which a scan sees objects
 * @cursor: scan
 *
 * Return: that of its snapshot; 0: it has none.
 */
uint64_t lsm_scan_version(const struct lsm_cursor *cursor);

/**
 * lsm_scan_close() - end a scan, at its end or before
 * @cursor: scan; may be NULL
 * @result: out: what it has done so far; may be NULL
 */
void lsm_scan_close(struct lsm_cursor *cursor, struct lsm_scan_result *result);

/**
 * lsm_scan_aggregate() - aggregate the objects of a scan
 * @lsm: store
 * @scan: which, and how; batch, context and prefix are not used, but for progress()
 * @question: what is to be computed
 * @aggregate: out
 * @result: out; may be NULL
 *
 * Return: as lsm_scan(), lsm_aggregate_create() and lsm_aggregate_feed().
 */
int lsm_scan_aggregate(struct lsm *lsm, const struct lsm_scan *scan,
		       const struct lsm_question *question, struct lsm_aggregate **aggregate,
		       struct lsm_scan_result *result);

/**
 * lsm_scan_explain() - estimate what the plans cost, and choose one, without a scan
 * @lsm: store
 * @scan: which, and how
 * @explain: out
 *
 * Return: 0; -EINVAL, -EOPNOTSUPP: as lsm_scan().
 */
int lsm_scan_explain(struct lsm *lsm, const struct lsm_scan *scan, struct lsm_explain *explain);

/**
 * lsm_plan_name() - a word for a plan
 * @plan: enum lsm_plan
 *
 * Return: "auto", "lookup", "sorted", "table" or "log"; NULL: no plan.
 */
const char *lsm_plan_name(uint32_t plan);

/**
 * lsm_explain_text() - an explanation as lines of text
 * @explain: explanation
 * @text: out
 * @size: room at @text
 *
 * Return: bytes of the whole text, as snprintf().
 */
int lsm_explain_text(const struct lsm_explain *explain, char *text, size_t size);

/*
 * Columns: a scan that gathers values of the objects into arrays, for programs that compute with arrays.
 *
 * A value is gathered before the snapshot is known to have stood until then, and a batch is given away
 * afterwards: values in a batch are always right.  But a scan that fails has not given all of them.  So a
 * consumer must learn at the end what lsm_scan_columns() has returned.
 */
enum lsm_field_type {	/* beside enum lsm_type */
	LSM_FIELD_BYTES = 16,	/* lsm_field.bytes bytes, as they are */
	LSM_FIELD_HANDLE,	/* uint64_t */
	LSM_FIELD_VERSION,	/* uint64_t */
	LSM_FIELD_LENGTH,	/* uint32_t */
	LSM_FIELD_TABLE,	/* uint32_t */
};

#define LSM_FIELDS_MAX		1024u

/**
 * struct lsm_field - what to gather of each object
 * @type: enum lsm_type or enum lsm_field_type
 * @offset: of a value or of bytes; else 0
 * @bytes: of LSM_FIELD_BYTES: how many; else 0
 * @reserved: not looked at
 */
struct lsm_field {
	uint32_t type;
	uint32_t offset;
	uint32_t bytes;
	uint32_t reserved;
};

/**
 * struct lsm_columns - a batch: the arrays of some objects
 * @rows: objects
 * @nr: fields
 * @reserved: 0
 * @data: of each field, @rows values in the byte order of the processor.  An array begins at a multiple of 64
 *	bytes
 */
struct lsm_columns {
	size_t rows;
	size_t nr;
	uint64_t reserved[2];
	void *data[];
};

/**
 * struct lsm_gather - what lsm_scan_columns() is to gather
 * @fields: of each object
 * @nr_fields: 1 .. LSM_FIELDS_MAX
 * @ranges: which of the objects of the scan; all must hold
 * @nr_ranges: at @ranges
 * @rows_max: most objects of a batch, 256 .. 2^24; 0: 65536, or what 1 MiB has room for
 * @batch: called by the threads of the scan at once, with their number, for each batch of 1 to @rows_max
 *	objects, in no order; for the last one of each thread by the caller's thread, when the scan has ended.  The
 *	batch belongs to it: see lsm_columns_free().  Return: 0, or a negative errno, which ends the scan.  Other
 *	threads may give some batches after that
 * @context: for @batch
 * @flags: 0
 * @reserved: not looked at
 */
struct lsm_gather {
	const struct lsm_field *fields;
	size_t nr_fields;
	const struct lsm_range *ranges;
	size_t nr_ranges;
	size_t rows_max;
	int (*batch)(void *context, unsigned int thread, struct lsm_columns *columns);
	void *context;
	uint32_t flags;
	uint32_t reserved[7];
};

/**
 * lsm_scan_columns() - give columns of the objects of a scan to a callback
 * @lsm: store
 * @scan: which, and how; batch, progress, context and prefix are not used
 * @gather: columns
 * @counts: out; groups is 0; may be NULL
 * @result: out; may be NULL
 *
 * An object that is too short for a field or a range is counted and left out.
 *
 * Return: 0: all objects were given; -EINVAL: a field, a number; -ENOMEM; as lsm_scan(); what the function of
 * @gather returned.
 */
int lsm_scan_columns(struct lsm *lsm, const struct lsm_scan *scan, const struct lsm_gather *gather,
		     struct lsm_counts *counts, struct lsm_scan_result *result);

/**
 * lsm_columns_free() - free a batch and its arrays
 * @columns: batch; may be NULL
 */
void lsm_columns_free(struct lsm_columns *columns);

/*
 * Spreads: a value in each of many objects is set, raised or scaled, or an amount is shared out among them.  The
 * objects are chosen by an exact scan at a version V.  Then each is replaced, in vectors, if it is still as it
 * was at V: what others change meanwhile is left as it is, and is counted.
 *
 * Each replace is atomic, or with LSM_ATOMIC each vector; all of them together are not.  A spread that was cut off
 * goes on with V: an object that was changed has a later version, by which it is not chosen again.
 */
enum lsm_spread_how {
	LSM_SPREAD_SET = 1,	/* the value is @amount */
	LSM_SPREAD_ADD,		/* @amount is added */
	LSM_SPREAD_SCALE,	/* the value is multiplied by @factor; integers: to the nearest, in long doubles */
	LSM_SPREAD_SHARE,	/* @amount * weight of the object / weights of all is added; integers: towards 0 */
};

/**
 * struct lsm_spread - how objects are to be changed
 * @how: enum lsm_spread_how
 * @flags: LSM_DURABLE: each vector is waited for; LSM_ATOMIC: each vector is changed as a whole or not at all, but for
 *	objects that lost a race, and objects of more than 2 KiB, each by itself: up to 64 objects
 * @column: one value of each object
 * @amount: LSM_SPREAD_SET: of the column's type; ADD, SHARE: i64 for integers, f64 for doubles
 * @factor: of LSM_SPREAD_SCALE
 * @weight: of LSM_SPREAD_SHARE: one value of each object, none negative; integers for a @column of integers.
 *	NULL: the same for all
 * @ranges: which of the objects of the scan; all must hold
 * @nr_ranges: at @ranges
 * @version: to go on: that of the report; else 0
 * @weights: likewise, of LSM_SPREAD_SHARE
 * @begun: called when @version and @weights of the report are known, before the first change: keep
 *	them, to go on after a crash.  Return: 0, or a negative errno, which ends the spread.  NULL: not
 * @progress: called after each vector.  Return: likewise.  NULL: not
 * @context: for @begun and @progress
 * @reserved: not looked at
 */
struct lsm_spread {
	uint32_t how;
	uint32_t flags;
	struct lsm_column column;
	union lsm_value amount;
	double factor;
	const struct lsm_column *weight;
	const struct lsm_range *ranges;
	size_t nr_ranges;
	uint64_t version;
	union lsm_value weights;
	int (*begun)(void *context, uint64_t version, union lsm_value weights);
	int (*progress)(void *context, uint64_t done, uint64_t total);
	void *context;
	uint64_t reserved[6];
};

/**
 * struct lsm_spread_report - what a spread has done
 * @version: V
 * @weights: of LSM_SPREAD_SHARE: the sum; u64 for a column of integers, else f64
 * @given: likewise: what was added, i64 or f64.  Less than the amount: by what is rounded, and the shares of objects
 *	that were not changed
 * @shorter: objects that are too short for a column, and were left out
 * @selected: objects to be changed
 * @changed: of these, those that were
 * @lost: were changed by others since V, and left as they are
 * @gone: were freed since V
 * @beyond: have no value, or their new value is beyond the type: left as they are
 * @reserved: 0
 */
struct lsm_spread_report {
	uint64_t version;
	union lsm_value weights;
	union lsm_value given;
	uint64_t shorter;
	uint64_t selected;
	uint64_t changed;
	uint64_t lost;
	uint64_t gone;
	uint64_t beyond;
	uint64_t reserved[6];
};

/**
 * lsm_spread() - change a value in each of many objects
 * @lsm: store, opened for writing
 * @scan: which objects; plan, flags, batch, progress, context and prefix are not used
 * @spread: how
 * @report: out, also after an error; may be NULL
 *
 * Takes 16 to 32 bytes of memory for each object that is selected.
 *
 * Return: 0: selected is changed + lost + gone + beyond; -EINVAL: a column, a number; -EDOM: a weight that
 * is negative or no number, or they are all 0; -EOVERFLOW: their sum is 2^64 or more; as lsm_scan() with
 * LSM_SCAN_EXACT; -ENOSPC, -ETIMEDOUT and others: as lsm_vector(), of an object; what @begun or @progress
 * returned.
 */
int lsm_spread(struct lsm *lsm, const struct lsm_scan *scan, const struct lsm_spread *spread,
	       struct lsm_spread_report *report);

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

/* With LSM_ATOMIC only: the object is there, with LSM_EXPECT in @flags at @version */
static inline struct lsmem_op lsm_op_check(uint64_t handle, unsigned int flags, uint64_t version)
{
	struct lsmem_op op = lsm_op_free(handle, flags, version);

	op.op = LSMEM_OP_CHECK;
	return op;
}

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* _LSMEM_H */
