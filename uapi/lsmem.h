/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * lsmem: the interface between the kernel module and user space.
 *
 * Four interfaces:
 *	/dev/lsmem, /dev/lsmem1 ..	object stores: LSMEM_IOC_*, mmap windows
 *	/dev/lsmemb0 ..			block stores: an ordinary block device
 *	/dev/lsmem-control		LSMEM_CTL_*: create, destroy, attach (CAP_SYS_ADMIN)
 *	a replication descriptor	LSMEM_REPL_*: made by LSMEM_CTL_ATTACH, for lsmemd
 *
 * Every structure begins with its size.  A structure that is larger than the one the
 * kernel knows is accepted if the bytes beyond are zero (else E2BIG).  A smaller one is
 * extended with zeros, and the kernel writes back only what it has room for; one smaller
 * than the first published version (LSMEM_*_SIZE_VER0) is refused with EINVAL.  Reserved
 * fields and unknown flags must be zero (EINVAL).  A call that returns an error has changed
 * nothing, with two exceptions.  ETIMEDOUT of a durable call: the operation is applied and
 * its durability unknown; a later sync still waits for it.  EFAULT because another thread
 * unmaps the structure during the call: the operation is applied as a whole, or not.
 *
 * Errors common to all calls: EFAULT (a pointer), EINVAL (a field, see dmesg
 * with dynamic debug), ENOTTY (not a call of this file), EAGAIN (the store is
 * not active: no daemon has recovered or formatted it yet), EPERM, EINTR.
 */
#ifndef _UAPI_LSMEM_H
#define _UAPI_LSMEM_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define LSMEM_ABI		2u
#define LSMEM_NAME_BYTES	32u

enum lsmem_store_kind {
	LSMEM_KIND_OBJECT	= 1,
	LSMEM_KIND_BLOCK	= 2,
};

/* The states of a store.  Data calls work in ACTIVE only. */
enum lsmem_store_state {
	LSMEM_STATE_NEW		= 1,	/* durable, its daemon not yet attached */
	LSMEM_STATE_RECOVERING	= 2,	/* the daemon is loading a backup */
	LSMEM_STATE_ACTIVE	= 3,
	LSMEM_STATE_DYING	= 4,
};

/* ---- Object calls: on /dev/lsmem* -------------------------------------- */

#define LSMEM_FEATURE_VECTOR	(1ull << 0)
#define LSMEM_FEATURE_WINDOWS	(1ull << 1)
#define LSMEM_FEATURE_DURABLE	(1ull << 2)	/* this store is durable */
#define LSMEM_FEATURE_URING	(1ull << 3)	/* calls are commands of io_uring, too */
#define LSMEM_FEATURE_TIER	(1ull << 4)	/* this store has a capacity of its own: it is tiered */
#define LSMEM_FEATURE_PAGES	(1ull << 5)	/* LSMEM_IOC_PAGES */
#define LSMEM_FEATURE_SNAPSHOT	(1ull << 6)	/* LSMEM_IOC_SNAPSHOT */
#define LSMEM_FEATURE_ATOMIC	(1ull << 7)	/* LSMEM_OPF_ATOMIC */
#define LSMEM_FEATURE_INDEX	(1ull << 8)	/* LSMEM_OPF_INDEX */
#define LSMEM_FEATURE_SHARED	(1ull << 9)	/* LSMEM_IOC_SHARED */
#define LSMEM_FEATURE_POLL	(1ull << 10)	/* poll() waits until the store is active */
#define LSMEM_FEATURE_WATCH	(1ull << 11)	/* LSMEM_IOC_WATCH */
#define LSMEM_FEATURE_CHECK	(1ull << 12)	/* LSMEM_OP_CHECK */

/**
 * struct lsmem_query - LSMEM_IOC_QUERY: features and limits of kernel and store
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @features: out, LSMEM_FEATURE_*
 * @abi: LSMEM_ABI
 * @kind: enum lsmem_store_kind
 * @state: enum lsmem_store_state
 * @object_max: largest object, bytes
 * @vector_max: most operations in one vector call
 * @group_max: in: 0; out: most operations in one with LSMEM_OPF_ATOMIC
 * @capacity: most live bytes, headers included
 * @handles_max: most objects
 * @uuid: of the store's log
 */
struct lsmem_query {
	__u32 size;
	__u32 flags;
	__u64 features;
	__u32 abi;
	__u32 kind;
	__u32 state;
	__u32 object_max;
	__u32 vector_max;
	__u32 group_max;
	__u64 capacity;
	__u64 handles_max;
	__u8 uuid[16];
};

#define LSMEM_QUERY_SIZE_VER0	72

/* enum-like values of lsmem_op.op */
#define LSMEM_OP_ALLOC		1u
#define LSMEM_OP_READ		2u
#define LSMEM_OP_REPLACE	3u
#define LSMEM_OP_FREE		4u
#define LSMEM_OP_CHECK		5u		/* LSMEM_OPF_ATOMIC only: the object stays as it is */

/* lsmem_op.flags */
#define LSMEM_OPF_DURABLE	(1u << 0)	/* return when it is on the backups, or in the
						 * memory of their hosts (ack = memory)
						 */
#define LSMEM_OPF_EXPECT	(1u << 1)	/* REPLACE, FREE, CHECK: only if @version is current */
#define LSMEM_OPF_NOWAIT	(1u << 2)	/* READ: an object that is not in memory is asked for, and
						 * the result is -EAGAIN; needs LSMEM_FEATURE_TIER
						 */
#define LSMEM_OPF_ATOMIC	(1u << 3)	/* struct lsmem_vector only: all operations or none */
#define LSMEM_OPF_INDEX		(1u << 4)	/* READ: @handle is an index, of whatever object it has now; ALLOC:
						 * a reserved one: handles_max of struct lsmem_query +
						 * LSMEM_RESERVED_*; needs LSMEM_FEATURE_INDEX
						 */

/**
 * struct lsmem_op - one operation on one object
 * @size: bytes of this structure, as the caller knows it
 * @op: LSMEM_OP_*; in a single call, that of the ioctl
 * @flags: LSMEM_OPF_*
 * @result: out, vector only: 0 or a negative errno
 * @handle: ALLOC: out; otherwise in.  With LSMEM_OPF_INDEX: in, the index; out, the handle
 * @version: EXPECT: in, the expected version; out: the present version of the object
 * @data: user pointer to @length bytes (ALLOC, REPLACE: source, READ: target)
 * @length: ALLOC, REPLACE: bytes of the object, 1..object_max.  READ: room at
 *	@data; out: bytes copied
 * @table: ALLOC: table id, below 4096; READ: out
 * @offset: READ: first byte wanted, at most the object's length
 * @object_length: READ: out, bytes of the whole object
 *
 * Errors:
 * ENOENT: the handle was never given out; INDEX: the index has no object.  EEXIST: ALLOC of a reserved index
 * that has an object; EBUSY: that another call is about to give one or to free.  ESTALE: the object was freed, or a crash lost it.
 * EILSEQ: EXPECT, and @version, which is now the present one, was not expected.  ENOSPC: the
 * store is full, or no space became free within its bound.  EMFILE: no index is free, or those
 * that are free are used up or set aside until the next recovery.  ETIMEDOUT: see above.
 * EAGAIN: see above; READ: the store is being recovered, and the object, if it exists, is not
 * loaded yet; ALLOC: also when the daemon must first make higher generations durable.  Of a tiered
 * store (LSMEM_FEATURE_TIER): EIO: no backup has the object whole; ETIMEDOUT: it is on backups only
 * and was not fetched within its bound (limits/fetch_ms); ENOMEM: likewise, and the memory cgroup of the
 * caller has no memory for the request.  Of a durable store: EBUSY: the last group (LSMEM_OPF_ATOMIC) that has
 * changed the object is not durable within limits/durable_ms; what follows it has to wait.  In a vector these two
 * waits are over for all operations when one has waited in vain.  EREMCHG: its daemon has
 * frozen it (LSMEM_REPL_FREEZE), and not thawed it within limits/stall_ms.
 */
struct lsmem_op {
	__u32 size;
	__u32 op;
	__u32 flags;
	__s32 result;
	__u64 handle;
	__u64 version;
	__u64 data;
	__u32 length;
	__u32 table;
	__u32 offset;
	__u32 object_length;
};

#define LSMEM_OP_SIZE_VER0	56

/**
 * struct lsmem_vector - LSMEM_IOC_VECTOR: several operations, each with its own result
 * @size: bytes of this structure, as the caller knows it
 * @flags: LSMEM_OPF_DURABLE for all: one wait at the end; LSMEM_OPF_ATOMIC
 * @ops: user pointer to the operations
 * @nr: operations at @ops, 1..vector_max; out: operations carried out
 * @stride: bytes from one operation to the next, at least LSMEM_OP_SIZE_VER0; each operation has
 *	its size, too
 *
 * Operations are carried out in order; one that fails does not stop the next.  Returns 0 if all
 * were tried, else an errno, and @nr tells how many were.  The flags of the operations are not
 * changed.  If the durable wait fails, the result of the durable operations is -ETIMEDOUT.
 *
 * LSMEM_OPF_ATOMIC (LSMEM_FEATURE_ATOMIC): up to group_max operations, ALLOC, REPLACE, FREE and CHECK, of different
 * objects, with payloads of at most object_max bytes together, are carried out all or none, also after a
 * crash: all get one version, no other client changes one of the objects in between, and a snapshot has all
 * of them or none.  A client that reads the objects meanwhile may see some as they are, and others as they
 * were.  If one operation fails, none is carried out: the call returns its error, @nr is 0, the result of that
 * operation is the error (with EILSEQ also its version), and that of the others -ECANCELED.  The errors are those of
 * the operations, and EINVAL: also another operation, or an object named twice; E2BIG: too many operations or
 * bytes.
 *
 * CHECK (LSMEM_FEATURE_CHECK) writes nothing.  The others are carried out only if its object is there when they are, with
 * EXPECT only if it has @version, which is always set to the present one.  The object keeps its version, and no
 * watcher is told.  No crash leaves the others, and not the version that was there.  LSMEM_OPF_DURABLE for all waits
 * until what is checked is durable, also if all operations are checks.  If the wait fails, their result is
 * -ETIMEDOUT, too.  Of a cold object CHECK waits until it is fetched, as REPLACE does.
 */
struct lsmem_vector {
	__u32 size;
	__u32 flags;
	__u64 ops;
	__u32 nr;
	__u32 stride;
};

#define LSMEM_VECTOR_SIZE_VER0	24

/**
 * struct lsmem_sync - LSMEM_IOC_SYNC: wait until all changes so far are durable
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @timeout_ms: bound, 0: that of the store (limits/flush_ms)
 * @reserved: 0
 *
 * EOPNOTSUPP on a volatile store.
 */
struct lsmem_sync {
	__u32 size;
	__u32 flags;
	__u32 timeout_ms;
	__u32 reserved;
};

#define LSMEM_SYNC_SIZE_VER0	16

/**
 * struct lsmem_stat - LSMEM_IOC_STAT: counters of a store
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @capacity: most live bytes
 * @live_bytes: gauge: bytes of live entries, headers included
 * @seglets: of the store, LSMEM_SEGLET_BYTES each
 * @free_seglets: gauge
 * @handles_max: most objects
 * @handles_used: gauge
 * @segments: gauge: in the log
 * @segments_cleaned: freed by cleaning
 * @appended_bytes: by users
 * @relocated_bytes: by cleaning and compaction
 * @durable_bytes: acknowledged by the daemon
 * @stalls: waits of writers for space
 * @stall_ns: time of these waits, nanoseconds
 * @segments_compacted: by compaction
 *
 * Counters since the store was created, but for limits and gauges.  sysfs has the same and more.
 */
struct lsmem_stat {
	__u32 size;
	__u32 flags;
	__u64 capacity;
	__u64 live_bytes;
	__u64 seglets;
	__u64 free_seglets;
	__u64 handles_max;
	__u64 handles_used;
	__u64 segments;
	__u64 segments_cleaned;
	__u64 appended_bytes;
	__u64 relocated_bytes;
	__u64 durable_bytes;
	__u64 stalls;
	__u64 stall_ns;
	__u64 segments_compacted;
};

#define LSMEM_STAT_SIZE_VER0	112

/**
 * struct lsmem_pages - LSMEM_IOC_PAGES: make, open or remove a range of pages
 * @size: bytes of this structure, as the caller knows it
 * @flags: LSMEM_PAGES_*
 * @root: handle of the range's root; out with LSMEM_PAGES_CREATE.  Keep it: it is the only way back
 * @length: bytes of the range; with LSMEM_PAGES_CREATE in, else out.  At most 2^44
 * @buffer: most bytes of pages in memory, 0: an eighth of the store's memory; out: what it is.  Of
 *	a range that is open already it changes that
 * @table: with LSMEM_PAGES_CREATE: table id of all objects of the range, else out
 * @fd: out: a descriptor for mmap(), msync(), read(), write(), ftruncate(), fallocate(), fsync() and
 *	LSMEM_IOC_PAGE, with the access mode of the store's; -1 with LSMEM_PAGES_REMOVE
 *
 * A range is a file of 4096-byte pages, and each page an object of the store.  Documentation/uapi.rst
 * says how it can be used, what is whole after a crash, and the order of changes.
 *
 * EBADF: CREATE or REMOVE through a descriptor that cannot write.  ENOENT, ESTALE: no object @root.
 * EBADMSG: it is no root.  EBUSY: REMOVE of a range that is open.  EMFILE, ENFILE: no descriptor.
 * Others as for struct lsmem_op.
 */
struct lsmem_pages {
	__u32 size;
	__u32 flags;
	__u64 root;
	__u64 length;
	__u64 buffer;
	__u32 table;
	__s32 fd;
};

#define LSMEM_PAGES_SIZE_VER0	40

#define LSMEM_PAGES_CREATE	(1u << 0)	/* a new range, all holes */
#define LSMEM_PAGES_REMOVE	(1u << 1)	/* free all of it, the root last */
#define LSMEM_PAGES_POOL	(1u << 2)	/* with CREATE; else out: a pool: page i is object i, with a
						 * length of its own (LSMEM_IOC_PAGE), padded with
						 * zeroes.  Without: a region: page i is bytes 4096 * i
						 * and following of one range, a hole reads as zeroes
						 */
#define LSMEM_PAGES_ATOMIC	(1u << 3)	/* with CREATE; else out: written back by msync(), by
						 * fsync(), when a descriptor that can write is closed,
						 * and when half of the buffer or 2048 pages are dirty
						 */

/**
 * struct lsmem_page - LSMEM_IOC_PAGE, of the descriptor of a pool: a page's object
 * @size: bytes of this structure, as the caller knows it
 * @op: LSMEM_PAGE_*
 * @page: number of the page; out with LSMEM_PAGE_ALLOC and LSMEM_PAGE_NEXT
 * @handle: out: of its object
 * @length: of its object, 1 .. 4096 bytes; out with LSMEM_PAGE_FIND and LSMEM_PAGE_NEXT: 0: another
 *	client has freed it, or no backup has it
 * @reserved: 0
 *
 * ENOSPC: no page at or behind @page is free, or the store is full.  ENOENT: the page has no object;
 * none at or behind it has one.  EOPNOTSUPP: of a region.
 */
struct lsmem_page {
	__u32 size;
	__u32 op;
	__u64 page;
	__u64 handle;
	__u32 length;
	__u32 reserved;
};

#define LSMEM_PAGE_SIZE_VER0	32

#define LSMEM_PAGE_ALLOC	1u	/* an object of @length zeroes at the first free page from @page on */
#define LSMEM_PAGE_FREE		2u	/* the page's object goes */
#define LSMEM_PAGE_FIND		3u	/* the page's object */
#define LSMEM_PAGE_NEXT		4u	/* the first page from @page on that has an object */

/**
 * struct lsmem_snapshot - LSMEM_IOC_SNAPSHOT: freeze the live bitmap at a version, for a scan
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @kept_max: most seglets that the snapshot keeps back, 0 or too many: what the store allows
 *	(limits/snapshot_kept); out: what it is
 * @time_ms: how long the snapshot may last, milliseconds, 0 or too long: limits/snapshot_ms; out: what
 *	it is
 * @version: out: V: the snapshot has all changes with versions up to V and no others
 * @bytes: out: length of the window of @fd, from offset 0 on
 * @fd: out: a descriptor for mmap() and LSMEM_IOC_SNAPSHOT_DONE; it is closed by execve()
 * @reserved: 0
 *
 * See struct lsmem_snapshot_page.  Frozen bitmap and salts are charged to the memory cgroup of the caller:
 * a 250th of the store's memory; of a tiered store twice as much, and a bit for each handle.  The call takes about a
 * millisecond for each GiB of the store, and of a tiered one for each million of handles, in which both cleaners rest,
 * and nothing is fetched; a fatal signal ends it.
 *
 * EBADF: this descriptor cannot read.  EBUSY: the store has
 * limits/snapshots_max snapshots, or one less, and some of them are of the caller's effective user, and the caller has
 * no CAP_SYS_RESOURCE.  ENOSPC: no seglet may be kept back, or a writer waits for space.
 * ETIMEDOUT: the copy was not made within limits/view_ms.  ENOMEM.  EMFILE, ENFILE: no descriptor.
 */
struct lsmem_snapshot {
	__u32 size;
	__u32 flags;
	__u32 kept_max;
	__u32 time_ms;
	__u64 version;
	__u64 bytes;
	__s32 fd;
	__u32 reserved;
};

#define LSMEM_SNAPSHOT_SIZE_VER0 40

/**
 * struct lsmem_snapshot_done - LSMEM_IOC_SNAPSHOT_DONE, of the descriptor of a snapshot
 * @size: bytes of this structure, as the caller knows it
 * @flags: LSMEM_SNAPSHOT_SETTLE: the reader has read what was not in memory (LSMEM_IOC_SNAPSHOT_READ): when the call
 *	returns, the late bitmap has all objects of it that have changed
 * @seglet: the reader is done with all entries that begin in seglets with lower numbers; of the late bitmap,
 *	nr_seglets + the number of the seglet
 * @reserved: 0
 *
 * The kernel frees what it kept back for these entries alone: not a seglet in which an entry ends that
 * begins in a seglet from @seglet on.  A lower @seglet than before changes nothing.
 *
 * ECANCELED: the snapshot is revoked.
 */
struct lsmem_snapshot_done {
	__u32 size;
	__u32 flags;
	__u32 seglet;
	__u32 reserved;
};

#define LSMEM_SNAPSHOT_DONE_SIZE_VER0 16
#define LSMEM_SNAPSHOT_SETTLE	(1u << 0)

/**
 * struct lsmem_snapshot_read - LSMEM_IOC_SNAPSHOT_READ, of the descriptor of a snapshot of a tiered store: read objects
 *	that were not in memory at its version
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @ops: user pointer to the operations: LSMEM_OP_READ with LSMEM_OPF_INDEX alone, offset and result 0
 * @nr: operations at @ops, 1 .. LSMEM_SNAPSHOT_READ_MAX
 * @prefix: bytes that are wanted of each object, 0: all
 *
 * Each operation has its result.  With 0 the object is the caller's, as it was at the version: no other call gets it,
 * and its bit in the bitmap of cold objects is clear.  What is on backups only is read from there without being put
 * into memory: nothing leaves memory for it.  Requests of a call are on their way together; those for places that lie
 * close together are read together, so pass indices in the order of their handle words.
 *
 * Results: ENOENT: the bit of the index is clear: it was in memory at the version, or has no object, or the caller has
 * read it, or it has changed since, and is or will be in the late bitmap.  EMSGSIZE: the room does not suffice for
 * the object, whose length is in object_length, or for @prefix bytes of it: call again.  EIO, ETIMEDOUT, ENOMEM: as
 * those of a read of a tiered store.  EFAULT.
 *
 * Returns 0 if all were tried.  ECANCELED: the snapshot is revoked.  EOPNOTSUPP: the store is not tiered.  EAGAIN: it is not
 * active.  EINTR: a fatal signal.
 */
struct lsmem_snapshot_read {
	__u32 size;
	__u32 flags;
	__u64 ops;
	__u32 nr;
	__u32 prefix;
};

#define LSMEM_SNAPSHOT_READ_SIZE_VER0 24
#define LSMEM_SNAPSHOT_READ_MAX	256u

/**
 * struct lsmem_shared - LSMEM_IOC_SHARED: memory that all clients of a store share
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @id: which; below 4096.  That of a table is for the index of its keys (lsm_table_open())
 * @fd: in: 0; out: a descriptor for mmap(), with the access mode of the store's; it is closed by execve()
 * @bytes: in: 0, or make it, if it is not there, with this length, a multiple of 4096, at most 2^40; out: its length
 *
 * The memory begins as zeroes, takes what is used of it, and is charged to the memory cgroup of who uses a page
 * first.  It stays until the store is destroyed or its device is removed, and is never written to a backup.  Its
 * length cannot be changed.  Each call opens a file description of its own, so that clients can lock ranges of bytes
 * against each other (F_OFD_SETLK), which ends with the description.
 *
 * ENOENT: @bytes is 0, and it is not there.  EBADF: it is not there, and the store's descriptor cannot write.  ENOMEM.
 * EMFILE, ENFILE: no descriptor.  EOPNOTSUPP: not an object store.
 */
struct lsmem_shared {
	__u32 size;
	__u32 flags;
	__u32 id;
	__s32 fd;
	__u64 bytes;
};

#define LSMEM_SHARED_SIZE_VER0 24

/* lsmem_watch.flags */
#define LSMEM_WATCH_NONBLOCK	(1u << 0)	/* read() returns EAGAIN instead of waiting: O_NONBLOCK of @fd */
#define LSMEM_WATCH_EVENTFD	(1u << 1)	/* there is an @eventfd */

#define LSMEM_WATCH_ENTRIES	65536u		/* most notes that are kept for a table */
#define LSMEM_WATCH_TABLES	64u		/* tables of a store that can be watched at a time */

/**
 * struct lsmem_watch - LSMEM_IOC_WATCH: be told which objects of a table change
 * @size: bytes of this structure, as the caller knows it
 * @flags: LSMEM_WATCH_*
 * @table: id, below 4096
 * @entries: in: notes that are kept, a power of two up to LSMEM_WATCH_ENTRIES, 0: 1024; out: as the first
 *	watcher of the table has chosen
 * @cursor: in: 0: changes from now on; else go on behind the note, of any watcher of this table, that has this
 *	cursor; out: where @fd begins
 * @eventfd: with LSMEM_WATCH_EVENTFD: an eventfd to which 1 is added when @fd becomes readable; else 0
 * @fd: in: 0; out: a descriptor for read() and poll(); it is closed by execve()
 *
 * read() returns as many struct lsmem_note as there are and the buffer has room for (EINVAL: for none), and waits for
 * the first; it is interrupted by signals.  EAGAIN: LSMEM_WATCH_NONBLOCK, and there is none.  An edge of epoll and the
 * eventfd announce a first change: then read until there are no more.
 *
 * A change by a call that begins after this one has returned is told.  The descriptor does not keep the store from
 * being destroyed: then read() returns 0 when all has been read, and poll() POLLHUP.  The notes are charged to
 * the memory cgroup of the first watcher of the table, and go with the last.
 *
 * EBADF: the store was not opened for reading, or @eventfd is none.  EINVAL: also @eventfd is no eventfd.  EBUSY:
 * LSMEM_WATCH_TABLES tables are watched.  ENOMEM.  EMFILE, ENFILE: no descriptor.  EOPNOTSUPP: not an object store.
 */
struct lsmem_watch {
	__u32 size;
	__u32 flags;
	__u32 table;
	__u32 entries;
	__u64 cursor;
	__s32 eventfd;
	__s32 fd;
};

#define LSMEM_WATCH_SIZE_VER0	32

/* lsmem_note.kind */
#define LSMEM_NOTE_NEW		1u	/* the object was allocated */
#define LSMEM_NOTE_REPLACED	2u	/* it has new bytes */
#define LSMEM_NOTE_FREED	3u	/* it is gone; its handle is never given out again */
#define LSMEM_NOTE_LOST		4u	/* changes are missing here: the watcher was too slow, or its cursor is not known */

/* lsmem_note.flags */
#define LSMEM_NOTE_MORE		(1u << 0)	/* the next note is of the same group (LSMEM_OPF_ATOMIC) */

/**
 * struct lsmem_note - a change of an object of a watched table
 * @cursor: for lsmem_watch.cursor: go on behind this note
 * @handle: of the object; LSMEM_NOTE_LOST: 0
 * @version: that the change made; LSMEM_NOTE_LOST: the missing changes have higher ones
 * @kind: LSMEM_NOTE_*
 * @flags: LSMEM_NOTE_*
 *
 * When a change is told it is visible: a reader finds this version or a later one.  It need not be durable.  Notes of
 * one object are in the order of its versions.  Those of a group are beside each other.
 *
 * After LSMEM_NOTE_LOST no more is missing, up to the next such note: all that is missing was visible when this note
 * was read, so that a watcher that lists the table then, and goes on, misses nothing.  Freed objects are those that
 * it does not find.
 */
struct lsmem_note {
	__u64 cursor;
	__u64 handle;
	__u64 version;
	__u32 kind;
	__u32 flags;
};

#define LSMEM_IOC_MAGIC		'L'	/* 0x4c, numbers 0xc0 .. 0xef */
#define LSMEM_IOC_QUERY		_IOWR(LSMEM_IOC_MAGIC, 0xc0, struct lsmem_query)
#define LSMEM_IOC_STAT		_IOWR(LSMEM_IOC_MAGIC, 0xc1, struct lsmem_stat)
#define LSMEM_IOC_ALLOC		_IOWR(LSMEM_IOC_MAGIC, 0xc2, struct lsmem_op)
#define LSMEM_IOC_READ		_IOWR(LSMEM_IOC_MAGIC, 0xc3, struct lsmem_op)
#define LSMEM_IOC_REPLACE	_IOWR(LSMEM_IOC_MAGIC, 0xc4, struct lsmem_op)
#define LSMEM_IOC_FREE		_IOWR(LSMEM_IOC_MAGIC, 0xc5, struct lsmem_op)
#define LSMEM_IOC_VECTOR	_IOWR(LSMEM_IOC_MAGIC, 0xc6, struct lsmem_vector)
#define LSMEM_IOC_SYNC		_IOWR(LSMEM_IOC_MAGIC, 0xc7, struct lsmem_sync)
#define LSMEM_IOC_PAGES		_IOWR(LSMEM_IOC_MAGIC, 0xc8, struct lsmem_pages)
#define LSMEM_IOC_PAGE		_IOWR(LSMEM_IOC_MAGIC, 0xc9, struct lsmem_page)
#define LSMEM_IOC_SNAPSHOT	_IOWR(LSMEM_IOC_MAGIC, 0xca, struct lsmem_snapshot)
#define LSMEM_IOC_SNAPSHOT_DONE	_IOWR(LSMEM_IOC_MAGIC, 0xcb, struct lsmem_snapshot_done)
#define LSMEM_IOC_SHARED	_IOWR(LSMEM_IOC_MAGIC, 0xcc, struct lsmem_shared)
#define LSMEM_IOC_WATCH		_IOWR(LSMEM_IOC_MAGIC, 0xcd, struct lsmem_watch)
#define LSMEM_IOC_SNAPSHOT_READ	_IOWR(LSMEM_IOC_MAGIC, 0xce, struct lsmem_snapshot_read)
/* The kernel ignores the size in these numbers, which is that of the structure at build time of
 * the program.
 */

/**
 * struct lsmem_command - the 16 bytes of an SQE at cmd, for an object call through io_uring
 * @structure: user pointer to the structure of the call
 * @reserved: 0
 *
 * The SQE: opcode IORING_OP_URING_CMD, cmd_op LSMEM_IOC_*, uring_cmd_flags 0.  The res of the CQE is
 * 0 or a negative errno, that of the call.  Until the CQE is posted, the structure and what it points
 * to must stay and not be changed; then they have the results of the call.  No thread waits for the
 * durability of an operation.  Commands have no order among each other.
 *
 * EINVAL: also @reserved or uring_cmd_flags is not 0.  EOPNOTSUPP: also the kernel has no commands
 * of io_uring, or not on a ring with IORING_SETUP_IOPOLL.  ECANCELED, as ETIMEDOUT: the operation is
 * applied (of a vector, nr operations), its durability unknown; the ring was closed, or the submitter
 * began another program.  LSMEM_FEATURE_URING: the kernel has commands of io_uring.
 */
struct lsmem_command {
	__u64 structure;
	__u64 reserved;
};

/* ---- Windows: mmap of /dev/lsmem* -------------------------------------- */

/*
 * The info page (offset LSMEM_WINDOW_INFO, one page) has the offsets and lengths of the other
 * windows.  Windows are mapped MAP_SHARED, as a whole or in part; never executable, and writable
 * only the slots (EPERM, EINVAL).  A mapping is not inherited by fork, cannot be expanded, and is
 * not dumped.  Seglets mapped by a client are no source or target for O_DIRECT, splice or RDMA
 * (EFAULT).
 *
 * A store is the unit of isolation: a process that can map a window can read every byte of the
 * store, including freed and uncommitted ones.
 */
#define LSMEM_WINDOW_INFO	0ull
#define LSMEM_INFO_MAGIC	0x4f464e494d534c00ull
#define LSMEM_NO_SEGLET		0xffffffffu

struct lsmem_window {
	__u64 offset;		/* for mmap; the window ends at 2^44 at most */
	__u64 length;		/* bytes, a multiple of the page size */
};

/**
 * struct lsmem_info - the info page
 * @magic: LSMEM_INFO_MAGIC
 * @abi: LSMEM_ABI of the kernel
 * @compat: the oldest ABI whose readers can use this page
 * @length: bytes of this structure
 * @kind: enum lsmem_store_kind
 * @nr_seglets: entries of @seglets and @seglet_table
 * @nr_handles: entries of @handles
 * @nr_slots: entries of @slots
 * @view_ms: bound of a view, after which the kernel revokes it
 * @seglets: LSMEM_SEGLET_BYTES each, by number
 * @seglet_table: struct lsmem_seglet for each seglet
 * @handles: struct lsmem_handle for each index
 * @slots: view slots of this file, read-write.  The first mmap allocates them, charged to the
 *	memory cgroup of the caller: ENOMEM; ENFILE: limits/clients_max files have slots
 * @uuid: of the store's log
 * @epoch: the view epoch, which a client publishes in a slot
 * @reserved: 0; keeps @epoch on a cache line of its own
 * @segments: struct lsmem_cleaning and its table, for the daemon only
 * @touched: of a tiered store, else of length 0: a bit for each index, in words of 64 bits, read-write;
 *	who reads an object without a system call sets its bit, if it is not set: it says what is to stay
 *	in memory, and nothing else depends on it
 * @livemap: the live bitmap: a bit for each 32 bytes of @seglets, in words of 64 bits: the entry of a
 *	live object begins there; see LSMEM_LIVEMAP_SHIFT
 */
struct lsmem_info {
	__u64 magic;
	__u32 abi;
	__u32 compat;
	__u32 length;
	__u32 kind;
	__u64 nr_seglets;
	__u64 nr_handles;
	__u32 nr_slots;
	__u32 view_ms;
	struct lsmem_window seglets;
	struct lsmem_window seglet_table;
	struct lsmem_window handles;
	struct lsmem_window slots;
	__u8 uuid[16];
	__u64 epoch;		/* on a cache line of its own */
	__u64 reserved[7];
	struct lsmem_window segments;
	struct lsmem_window touched;
	struct lsmem_window livemap;
};

/* An entry of the seglet table. The seglets of a segment form a chain. */
struct lsmem_seglet {
	__u32 next;		/* next seglet of its segment, or LSMEM_NO_SEGLET */
	__u32 incarnation;	/* incremented each time the seglet is taken */
};

/*
 * An entry of the handle table.  @word is always exchanged as a whole:
 *	bits 0..36	LIVE: position: seglet << 13 | offset in the seglet / 8.  COLD: where it is
 *			on backups: LSMEM_COLD_*.  FREE, BUSY, object stores: the last generation of
 *			the index
 *	bits 37..39	LSMEM_WORD_*
 *	bits 40..63	tag, incremented by each exchange
 *
 * To read without a system call: load the word (acquire); check its state, and the entry header at
 * the position, whose key has the handle (lsmem_entry_handle()); copy the payload, following the
 * seglet table where it crosses a seglet; load the word again.  If it has not changed, the copy is
 * the object.  Check the bounds of every step: what is read before that may be anything.
 */
struct lsmem_handle {
	__u64 word;
};

#define LSMEM_POSITION_BITS	37
#define LSMEM_POSITION_OFFSET_BITS 13
#define LSMEM_WORD_STATE_SHIFT	37
#define LSMEM_WORD_STATE_BITS	3
#define LSMEM_WORD_TAG_SHIFT	40
#define LSMEM_WORD_FREE		0u
#define LSMEM_WORD_LIVE		1u
#define LSMEM_WORD_BUSY		2u
#define LSMEM_WORD_COLD		3u	/* on backups only: a call fetches it */
/* 4 is kept for objects that are in a page. */

/*
 * Where a COLD object is: the segment's place in the table of segments; the block of its log, as it is
 * on backups, in which the entry begins; and a class of how many blocks to read.
 */
#define LSMEM_COLD_SEGMENT_SHIFT 16
#define LSMEM_COLD_BLOCK_SHIFT	5
#define LSMEM_COLD_BLOCK_BITS	11
#define LSMEM_COLD_CLASS_BITS	5

/* How many blocks the class of a COLD word stands for: 1 to 8, then in steps of a quarter of an octave. */
static inline __u32 lsmem_cold_blocks(__u64 word)
{
	__u32 size = word & ((1u << LSMEM_COLD_CLASS_BITS) - 1);

	return size < 8 ? size + 1 : (4 + size % 4) << (size / 4 - 1);
}

/*
 * The live bitmap finds objects in the order of memory, that is, of the log.  Bit position >>
 * LSMEM_LIVEMAP_SHIFT is set before a word points to the position, and cleared after no word points
 * there.  No two entries begin in the 32 bytes of a bit; in which of the four positions it begins, the
 * end of the entry before it tells, or a trial.
 *
 * A bit alone proves nothing: load the word of the bitmap (acquire), then the header; then read the object
 * of its key as above, and use it only if the handle word points to this position.  Of an object that
 * neither changes nor moves meanwhile the bit is found set.
 */
#define LSMEM_LIVEMAP_SHIFT	2

/*
 * A view slot, one cache line, used by one thread at a time.  To begin a view, store info->epoch
 * in the slot, execute a full barrier, then load the word and use the bytes in place.  The kernel
 * does not reuse the seglets until the slot is 0, or the bound has passed and it has exchanged the
 * slot for LSMEM_SLOT_REVOKED.  To end the view, exchange the slot for 0: if the old value is
 * LSMEM_SLOT_REVOKED, the bytes may have changed during the view.  Other values in a slot make the
 * views of their owner invalid, and delay the reuse of seglets by the bound at most.
 */
struct lsmem_slot {
	__u64 epoch;
	__u64 reserved[7];
};

#define LSMEM_SLOT_IDLE		0ull
#define LSMEM_SLOT_REVOKED	(~0ull)

/* ---- Snapshots: mmap of the descriptor of LSMEM_IOC_SNAPSHOT ------------- */

/**
 * struct lsmem_snapshot_page - the beginning of a snapshot's window
 * @magic: LSMEM_SNAPSHOT_MAGIC
 * @abi: LSMEM_ABI of the kernel
 * @length: bytes of this structure
 * @version: V
 * @nr_seglets: of the store
 * @livemap: where in this window the frozen live bitmap is; its bits are those of lsmem_info.livemap
 * @salts: where in this window the salts are: __u32 for each seglet, that of the CRCs of its entries
 * @kept_max: most seglets that may be kept back
 * @time_ms: how long the snapshot may last, milliseconds
 * @kept: seglets that are kept back now
 * @done: of the last LSMEM_IOC_SNAPSHOT_DONE
 * @trailers: where in this window, of a tiered store, the bitmap of seglets is in which each entry is followed by 8
 *	bytes more: they are, or were, of cache segments
 * @cold: likewise, the bitmap of indices whose objects were not in memory at V, and have still to be read
 * @late: likewise, the late bitmap, as @livemap: entries of those that have changed before they were read
 * @state: LSMEM_SNAPSHOT_STANDS, or why the snapshot is revoked
 * @reserved2: 0
 *
 * The window is mapped MAP_SHARED and read-only, as a whole or in part; fork() does not inherit it.  The
 * snapshot ends when its descriptor is closed and its window unmapped.
 *
 * To read it: each object that lived at V has exactly one bit in the frozen bitmap that leads to an
 * entry of type object with a version up to V.  Drop entries of other types and with higher versions.
 * The entry begins at one of four positions in the 32 bytes of its bit.  Entries lie one after the other,
 * dead ones and padding included: from an entry that is known, the next begins at lsmem_entry_start() of its
 * end, up to the position of the next bit, in the same seglet or along the seglet table.  Where no
 * entry is known, as at the first bit of a seglet, try the four: lsmem_entry_valid(), with the salt of the
 * seglet, tells.  Entries never change in place, and the seglet table has the chains of seglets that are
 * kept back.  Check the bounds of every step: in a snapshot that is revoked, all may be anything.
 *
 * Of a tiered store (@cold has a length) objects that were not in memory at V have no bit in the frozen bitmap.  When
 * that is read, pass the indices of the bits in @cold to LSMEM_IOC_SNAPSHOT_READ.  A bit that is found clear may be that
 * of an object that has changed: its entry as at V is in memory, and kept back, and has a bit in @late.  Then
 * call LSMEM_IOC_SNAPSHOT_DONE with LSMEM_SNAPSHOT_SETTLE, and read @late like the frozen bitmap.  So each object
 * that lived at V is found once: by its bit in memory, by reading it, or by its late bit.
 *
 * After each batch, and before the batch is used: execute an acquire fence (smp_rmb(), on arm64 DMB ISHLD),
 * then load @state.  If it is LSMEM_SNAPSHOT_STANDS, the bytes of the batch were those at V.  The
 * kernel changes @state before it frees what it kept back: a load that read a later byte is ordered by the
 * fence before the load of @state, which then finds the change.  A load-acquire of @state is not
 * enough: it orders what follows it, not the bytes read before.
 */
struct lsmem_snapshot_page {
	__u64 magic;
	__u32 abi;
	__u32 length;
	__u64 version;
	__u64 nr_seglets;
	struct lsmem_window livemap;
	struct lsmem_window salts;
	__u32 kept_max;
	__u32 time_ms;
	__u32 kept;
	__u32 done;
	struct lsmem_window trailers;
	struct lsmem_window cold;
	struct lsmem_window late;
	__u32 state;
	__u32 reserved2;
};

#define LSMEM_SNAPSHOT_MAGIC	0x50414e534d534c00ull

#define LSMEM_SNAPSHOT_STANDS	0u
#define LSMEM_SNAPSHOT_KEPT	1u	/* revoked: @kept_max seglets did not suffice */
#define LSMEM_SNAPSHOT_TIME	2u	/* revoked: after @time_ms */
#define LSMEM_SNAPSHOT_SPACE	3u	/* revoked: writers and cleaners need the seglets */
#define LSMEM_SNAPSHOT_FROZEN	4u	/* revoked: the store is frozen (LSMEM_REPL_FREEZE) */

/* ---- /dev/lsmem-control ------------------------------------------------ */

#define LSMEM_STORE_DURABLE	(1u << 0)
#define LSMEM_STORE_CHARGED	(1u << 1)	/* to the memory cgroup of the caller */
/* Durable stores: a recovery may leave objects on the backups, as that of a tiered store does. */
#define LSMEM_STORE_INSTANT	(1u << 2)

/* Bounds of lsmem_create.segments, as multiples of the segments that fill the memory. */
#define LSMEM_SEGMENTS_LEAST	2u
#define LSMEM_SEGMENTS_MOST	16u
/* The default: what a backup of twice the size has room for, beside its superblocks and its digest log. */
#define LSMEM_SEGMENTS_DEFAULT(full)	(2u * (full) - (2u + 2u * (full) / 8192u))
#define LSMEM_CAPACITY_MOST	64u	/* bound of lsmem_create.capacity, as a multiple of the memory */

/**
 * struct lsmem_create - LSMEM_CTL_CREATE: create a store
 * @size: bytes of this structure, as the caller knows it
 * @flags: LSMEM_STORE_*
 * @kind: enum lsmem_store_kind
 * @mode: permissions of the device node (object stores); 0 means 0600
 * @bytes: memory for the log, a multiple of 8 MiB, 128 MiB .. 1 TiB
 * @handles_max: object stores: 1..2^31-1, 0 for one per 256 bytes of @bytes;
 *	block stores: 0 (it follows from the capacity)
 * @uid: owner of the node
 * @gid: group of the node
 * @name: out, name of the store and of its node in /dev
 * @segments: most segments in the log, which is the number of frames used on a backup: 0 for the
 *	default, or 2 to 16 times what fills @bytes, of a tiered store @capacity.  With more segments
 *	each is emptier when it is cleaned, so cleaning writes less
 * @reserved: 0
 * @capacity: durable stores: most live bytes, of which memory holds those in use: a tiered
 *	store; a multiple of 8 MiB, at least @bytes, at most LSMEM_CAPACITY_MOST times @bytes and 1 TiB;
 *	0: what fits into memory.  Of an object store, one handle per 256 bytes of it is the default then
 * @uuid: durable stores: of the log that the store is made for, so that a next daemon knows it as such before any has attached;
 *	zeroes: a random one, until a daemon attaches
 *
 * EEXIST.  ENOSPC: no minor number is free.  ENOMEM: the store takes more memory than is available
 * or than a limit of the memory cgroup allows, or an allocation failed; nothing stays allocated,
 * and the kernel log says what is missing.  EOPNOTSUPP: LSMEM_STORE_CHARGED on a kernel without
 * memory cgroups.
 *
 * LSMEM_STORE_CHARGED: log and tables are charged as long as the store exists.  If the cgroup is
 * removed, the charge stays with its ancestors.  The root cgroup is not charged.
 *
 * LSMEM_STORE_INSTANT: with @capacity it says nothing new.  Without, the store admits what other stores
 * do, and all of it comes into memory after the recovery.
 */
struct lsmem_create {
	__u32 size;
	__u32 flags;
	__u32 kind;
	__u32 mode;
	__u64 bytes;
	__u64 handles_max;
	__u32 uid;
	__u32 gid;
	__u8 name[LSMEM_NAME_BYTES];
	__u32 segments;
	__u32 reserved;
	__u64 capacity;
	__u8 uuid[16];
};

#define LSMEM_CREATE_SIZE_VER0	72

#define LSMEM_DESTROY_FORCE	(1u << 0)

/**
 * struct lsmem_destroy - LSMEM_CTL_DESTROY
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0 or LSMEM_DESTROY_FORCE
 * @name: of the store
 *
 * EBUSY: it is open, mapped, mounted or attached; or, without LSMEM_DESTROY_FORCE, a range of pages of it is
 * still written after its last close, or it is durable and has data that are on no backup.  ENODEV: no such store.
 */
struct lsmem_destroy {
	__u32 size;
	__u32 flags;
	__u8 name[LSMEM_NAME_BYTES];
};

#define LSMEM_DESTROY_SIZE_VER0	40

/**
 * struct lsmem_attach - LSMEM_CTL_ATTACH: become the daemon of a durable store
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @name: of the store
 * @uuid: in; NEW: becomes that of the store; ACTIVE: must be that of the store (EXDEV)
 * @fd: out, the replication descriptor; closing it detaches
 * @state: out, enum lsmem_store_state: NEW: call LSMEM_REPL_ACTIVATE, or _LOAD
 *	before that; ACTIVE: the stream begins with the state of every segment
 * @kind: out, enum lsmem_store_kind
 * @instant: in: 0; out: 1: a recovery may leave objects on the backups (LSMEM_REPL_PLACE); 0: it may not
 * @bytes: out, memory of the log
 * @handles_max: out, most objects or blocks
 * @capacity: out, of a tiered store, else 0
 * @term: in: 0; out: as LSMEM_REPL_FREEZE has set it, 0: never
 * @frozen: in: 0; out: 1: the store is frozen (LSMEM_REPL_FREEZE), and stays so until it is thawed; 0: it is not
 * @reserved: 0
 *
 * EBUSY: another daemon is attached.  EOPNOTSUPP: the store is volatile.  EREMCHG: the store is frozen, and @size
 * too small for @frozen.
 *
 * A daemon that attaches to an ACTIVE store guarantees that no I/O of a predecessor can still read
 * the seglets of the store, for which it holds the lock of the backup: the kernel drops the leases
 * of the predecessor.
 */
struct lsmem_attach {
	__u32 size;
	__u32 flags;
	__u8 name[LSMEM_NAME_BYTES];
	__u8 uuid[16];
	__s32 fd;
	__u32 state;
	__u32 kind;
	__u32 instant;
	__u64 bytes;
	__u64 handles_max;
	__u64 capacity;
	__u64 term;
	__u32 frozen;
	__u32 reserved;
};

#define LSMEM_ATTACH_SIZE_VER0	88

#define LSMEM_CTL_CREATE	_IOWR(LSMEM_IOC_MAGIC, 0xd0, struct lsmem_create)
#define LSMEM_CTL_DESTROY	_IOWR(LSMEM_IOC_MAGIC, 0xd1, struct lsmem_destroy)
#define LSMEM_CTL_ATTACH	_IOWR(LSMEM_IOC_MAGIC, 0xd2, struct lsmem_attach)

/* ---- The replication descriptor ---------------------------------------- */

/*
 * The kernel tells the daemon, in one ordered stream of events, what is to be made durable, and the
 * daemon acknowledges.  Rules (numbers: invariants of Documentation/durability.rst):
 *
 * OPEN	    assign the segment a frame on the backup.  Acknowledge when its header
 *	    is durable and a durable digest lists it (2); only then does the
 *	    kernel write to it.  Spares are opened ahead.
 * RANGE    [from, to) of the segment is committed and leased: read it from the
 *	    seglets window, beginning at @first_seglet (the one that @from lies in)
 *	    and following the seglet table.  It ends with a whole entry.  The kernel
 *	    writes a commit record before it tells a range, if there is room for one;
 *	    other entries may follow the record.
 *	    Acknowledge the offset below which everything is durable.
 * CLOSE    the segment has its final length @to, and @entries directory
 *	    entries; @first_seglet is the segment's first seglet.  Acknowledge when
 *	    directory and footer are durable (8).
 * RETIRE   the segments of this group (all but the last have LSMEM_EVENT_MORE) are
 *	    superseded by what precedes the group in the stream.  Acknowledge the id of
 *	    the last one when all of that is durable (9), and then one digest record
 *	    that removes the whole group (10).
 * RESUME   after an attach to an active store, for each segment in the log,
 *	    oldest first: @from is acknowledged, @to is committed (home offsets; of a
 *	    loaded segment both are its length on the backup), @first_seglet is its
 *	    first seglet or LSMEM_NO_SEGLET, @flags what else was acknowledged.
 *	    @segment ~0 ends the list.  The stream follows, with everything that was
 *	    not acknowledged.
 */
#define LSMEM_EVENT_OPEN	1u
#define LSMEM_EVENT_RANGE	2u
#define LSMEM_EVENT_CLOSE	3u
#define LSMEM_EVENT_RETIRE	4u
#define LSMEM_EVENT_RESUME	5u

#define LSMEM_EVENT_MORE	(1u << 0)	/* RETIRE: more of the group follows */
#define LSMEM_EVENT_OPENED	(1u << 1)	/* RESUME: OPEN was acknowledged */
#define LSMEM_EVENT_CLOSED	(1u << 2)	/* RESUME: CLOSE was acknowledged */
#define LSMEM_EVENT_SURVIVOR	(1u << 3)	/* RANGE, CLOSE, RESUME: a survivor of cleaning */
#define LSMEM_EVENT_RETIRED	(1u << 4)	/* RESUME: RETIRE was told and not
						 * acknowledged; it is told again.  Only such
						 * a segment may be missing in the digest
						 */

struct lsmem_event {
	__u32 type;
	__u32 flags;
	__u64 segment;
	__u32 generation;
	__u32 first_seglet;
	__u32 from;
	__u32 to;
	__u32 entries;
	__u32 reserved;
	__u64 time;		/* store time at which the segment was opened */
};

/**
 * struct lsmem_next - LSMEM_REPL_NEXT: take events, without waiting; poll() waits
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @events: user pointer to room for @nr events
 * @nr: in: room at @events, at least 128; out: events filled in
 * @generation_wanted: out: make a generation ceiling of at least this durable and acknowledge it,
 *	before handles run out of generations (14)
 * @store_time: out: the store's clock, for the next digest
 * @next_segment: out: ids from here on have not been used
 */
struct lsmem_next {
	__u32 size;
	__u32 flags;
	__u64 events;
	__u32 nr;
	__u32 generation_wanted;
	__u64 store_time;
	__u64 next_segment;
};

#define LSMEM_NEXT_SIZE_VER0	40

/*
 * An acknowledgement: type LSMEM_EVENT_OPEN .. RETIRE; RANGE: all below @to is durable.  For a range
 * that is not durable yet, LSMEM_ACK_RECEIVED: all below @to is durable, or in the memory of hosts
 * that keep a backup and write it whatever happens to this host.  It completes waits of
 * LSMEM_OPF_DURABLE only; an acknowledgement of the RANGE follows.
 */
#define LSMEM_ACK_RECEIVED	6u

struct lsmem_ack_one {
	__u32 type;
	__u32 to;
	__u64 segment;
};

/**
 * struct lsmem_ack - LSMEM_REPL_ACK
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @acks: user pointer to the acknowledgements
 * @nr: how many, 0..4096
 * @generation_ceiling: durable ceiling, 0 for no change
 *
 * EINVAL: an acknowledgement answers no event; those before it count, and @nr tells how many.
 */
struct lsmem_ack {
	__u32 size;
	__u32 flags;
	__u64 acks;
	__u32 nr;
	__u32 generation_ceiling;
};

#define LSMEM_ACK_SIZE_VER0	24

/**
 * struct lsmem_load - LSMEM_REPL_LOAD: load entries of a segment (NEW, RECOVERING)
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @segment: id as on the backup; consecutive calls can load parts of one segment
 * @generation: as on the backup
 * @sealed: length of the segment on the backup
 * @data: entries one after the other as in the log, no gaps (the rule of
 *	lsmem_entry_start() does not hold here); objects and tombstones only
 * @length: bytes at @data, a multiple of 8, up to LSMEM_SEGMENT_BYTES
 * @reserved: 0
 *
 * If a key comes again, the later version replaces the earlier one.  EBADMSG: a CRC is wrong.
 * ENOSPC.  EINVAL: no valid entry.
 *
 * Also a command of io_uring on the replication descriptor, as struct lsmem_command; it is carried
 * out in a thread of io_uring.  Other commands there: ENOTTY.
 */
struct lsmem_load {
	__u32 size;
	__u32 flags;
	__u64 segment;
	__u32 generation;
	__u32 sealed;
	__u64 data;
	__u32 length;
	__u32 reserved;
};

#define LSMEM_LOAD_SIZE_VER0	40

/* lsmem_activate.flags */
#define LSMEM_ACTIVATE_COLD	(1u << 0)	/* tiered: what was placed comes into memory only when it is used */
#define LSMEM_ACTIVATE_UNVERIFIED (1u << 1)	/* tiered: what memory has no room for is not verified either */

/**
 * struct lsmem_activate - LSMEM_REPL_ACTIVATE: the store takes writes
 * @size: bytes of this structure, as the caller knows it
 * @flags: LSMEM_ACTIVATE_*
 * @era: of versions
 * @generation_floor: new handles have higher generations
 * @generation_ceiling: highest generation of new handles
 * @segment_bytes: what a new segment has on backups, for a block of header, log data, directory and footer: a multiple
 *	of LSMEM_BLOCK, LSMEM_SEGMENT_LEAST .. LSMEM_SEGMENT_BYTES; 0: LSMEM_SEGMENT_BYTES
 * @store_time: the store's clock continues from here
 * @next_segment: first id of new segments
 *
 * All but @segment_bytes are durable in the digest of a new term, and higher than any before the crash (14).
 */
struct lsmem_activate {
	__u32 size;
	__u32 flags;
	__u32 era;
	__u32 generation_floor;
	__u32 generation_ceiling;
	__u32 segment_bytes;
	__u64 store_time;
	__u64 next_segment;
};

#define LSMEM_ACTIVATE_SIZE_VER0	40

#define LSMEM_REPL_NEXT		_IOWR(LSMEM_IOC_MAGIC, 0xd8, struct lsmem_next)
#define LSMEM_REPL_ACK		_IOWR(LSMEM_IOC_MAGIC, 0xd9, struct lsmem_ack)
#define LSMEM_REPL_LOAD		_IOWR(LSMEM_IOC_MAGIC, 0xda, struct lsmem_load)
#define LSMEM_REPL_ACTIVATE	_IOWR(LSMEM_IOC_MAGIC, 0xdb, struct lsmem_activate)

/*
 * mmap of a replication descriptor: the info page at LSMEM_WINDOW_INFO as for clients, and at the
 * offsets in it, read-only, seglets, seglet table and segments; no slots.  Seglets have struct pages
 * here, so O_DIRECT and RDMA registration work; they can be mapped writable only on kernels where
 * RDMA registration needs that.
 */

/* ---- Cleaning by the daemon --------------------------------------------- */

/* lsmem_segment_stat.flags */
#define LSMEM_SEGMENT_CLEANABLE	(1u << 0)	/* durably closed, and neither cleaner works on it */

/**
 * struct lsmem_segment_stat - an entry of the table of segments
 * @id: 0 if this entry is free; the other members are undefined then
 * @opened: store time at which it was opened
 * @barrier: its tombstones can be dropped when no segment with a lower id is left
 * @live: bytes of live entries, tombstones included
 * @tombstones: bytes of tombstones among them
 * @held: bytes of memory; compaction reduces this
 * @home: length on the backup, bytes; only cleaning frees that
 * @flags: LSMEM_SEGMENT_*
 * @entries: objects and tombstones on the backup, live or not
 * @cold: bytes of live entries that are not in the segment's memory: on backups only, or fetched
 *	from there since.  @live does not count them; who cleans the segment keeps both
 * @reserved: 0
 *
 * Each number is consistent by itself; two of them may be of different moments.
 */
struct lsmem_segment_stat {
	__u64 id;
	__u64 opened;
	__u64 barrier;
	__u32 live;
	__u32 tombstones;
	__u32 held;
	__u32 home;
	__u32 flags;
	__u32 entries;
	__u32 cold;
	__u32 reserved;
};

/* The level that is to make room: lsmem_cleaning.level. */
#define LSMEM_LEVEL_NONE	0u
#define LSMEM_LEVEL_COMPACT	1u	/* the kernel compacts in memory */
#define LSMEM_LEVEL_CLEAN	2u	/* the daemon is to call LSMEM_REPL_CLEAN */

/**
 * struct lsmem_cleaning - the beginning of the segments window
 * @length: bytes of this structure
 * @nr_segments: entries of the table
 * @segments: offset of struct lsmem_segment_stat[@nr_segments] in the window
 * @level: LSMEM_LEVEL_*; a replication descriptor polls POLLPRI while it is
 *	LSMEM_LEVEL_CLEAN and no pass is under way
 * @urgent: writers wait for space
 * @rule: enum lsmem_policy_rule of the scores
 * @oldest_first: tombstones take too much: clean the oldest segments, whatever their score
 * @utilization_max: per mille; do not clean fuller segments, unless @urgent
 * @room: bytes that the survivors of a pass may take
 * @begun: passes that have begun; one is under way while this differs from @ended
 * @ended: passes that have ended
 * @store_time: the store's clock when @level was last chosen
 * @by_backup: a pass is to make room on the backups: the store is tiered, more is live than memory
 *	holds, and eviction makes memory
 * @reserved: 0
 */
struct lsmem_cleaning {
	__u32 length;
	__u32 nr_segments;
	__u32 segments;
	__u32 level;
	__u32 urgent;
	__u32 rule;
	__u32 oldest_first;
	__u32 utilization_max;
	__u64 room;
	__u64 begun;
	__u64 ended;
	__u64 store_time;
	__u32 by_backup;
	__u32 reserved;
};

/* lsmem_clean.flags */
#define LSMEM_CLEAN_LAST	(1u << 0)
#define LSMEM_CLEAN_DAMAGED	(1u << 1)

/**
 * struct lsmem_clean - LSMEM_REPL_CLEAN: clean segments
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0, or LSMEM_CLEAN_LAST with @nr 0: begin no pass while this descriptor is open, also none
 *	chosen by the kernel, because the daemon is about to end and survivors would not reach the
 *	backup; or LSMEM_CLEAN_DAMAGED: the segments are to leave the backups, since they are damaged
 *	there or of another kind than new ones, so they are cleaned even if nothing is gained
 * @segments: user pointer to __u64 ids, the first to clean first
 * @nr: in: ids at @segments, 1..64; out: how many become victims.  Ids that cannot be cleaned are
 *	skipped, and so is the rest when the survivors have no more room
 * @reserved: 0
 *
 * Returns at once; the events of the pass follow in the stream, RETIRE last.  EBUSY: a pass is under
 * way, eight groups wait for a digest, or LSMEM_CLEAN_LAST was set.  ENOENT: none can be cleaned.
 */
struct lsmem_clean {
	__u32 size;
	__u32 flags;
	__u64 segments;
	__u32 nr;
	__u32 reserved;
};

#define LSMEM_CLEAN_SIZE_VER0	24

#define LSMEM_REPL_CLEAN	_IOWR(LSMEM_IOC_MAGIC, 0xdc, struct lsmem_clean)

/* ---- The tier ------------------------------------------------------------ */

/*
 * A tiered store keeps in memory what is in use.  Objects and blocks that are COLD are on the backups
 * only; a call or a bio that needs one becomes a fetch request, which the daemon takes (FETCH; poll()
 * says POLLRDBAND while there are any) and answers with what a backup has there (FILL).  The kernel
 * finds the entry in that by its key and its checksum: the daemon needs not know entries.  A request
 * stays until it is answered; those of a daemon that died are told to the next one again.
 */

/* lsmem_fetch_one.flags */
#define LSMEM_FETCH_SEGMENT	(1u << 0)	/* all of a segment, for the cleaner */

/**
 * struct lsmem_fetch_one - a fetch request
 * @cookie: names it in the answer; of an object, bits 0..31 are the index of its handle, of several objects that of the first
 * @segment: id
 * @generation: of its frame
 * @block: first block wanted, counted from the beginning of the log data in the frame
 * @blocks: how many are likely to suffice; they may end beyond the segment, then what is there suffices
 * @flags: LSMEM_FETCH_*
 */
struct lsmem_fetch_one {
	__u64 cookie;
	__u64 segment;
	__u32 generation;
	__u32 block;
	__u32 blocks;
	__u32 flags;
};

/**
 * struct lsmem_fetch - LSMEM_REPL_FETCH: take fetch requests, without waiting
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @requests: user pointer to room for @nr requests, struct lsmem_fetch_one
 * @nr: in: 1..256; out: how many were filled in
 * @reserved: 0
 *
 * EOPNOTSUPP: the store is not tiered.
 */
struct lsmem_fetch {
	__u32 size;
	__u32 flags;
	__u64 requests;
	__u32 nr;
	__u32 reserved;
};

#define LSMEM_FETCH_SIZE_VER0	24

/**
 * struct lsmem_fill_one - the answer to a fetch request
 * @cookie: of the request
 * @data: user pointer to what the backup has, from the first block wanted on
 * @length: bytes at @data, a multiple of 8
 * @result: in: 0, or a negative errno: no backup can be read, the request fails.  Out: 0: it is
 *	answered; -ENODATA: the entry is longer: read at least a block more and answer again; -EBADMSG: it
 *	is not there: answer with what another backup has, or with an error; -EAGAIN: there is no memory
 *	for it now: answer again later; -ENOENT: there is no such request, or it has been answered
 */
struct lsmem_fill_one {
	__u64 cookie;
	__u64 data;
	__u32 length;
	__s32 result;
};

/**
 * struct lsmem_fill - LSMEM_REPL_FILL: answer fetch requests
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @fills: user pointer to @nr answers, struct lsmem_fill_one
 * @nr: 1..256
 * @reserved: 0
 */
struct lsmem_fill {
	__u32 size;
	__u32 flags;
	__u64 fills;
	__u32 nr;
	__u32 reserved;
};

#define LSMEM_FILL_SIZE_VER0	24

/**
 * struct lsmem_placement - LSMEM_REPL_PLACE: objects of a segment that stay on backups (NEW, RECOVERING)
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0, LSMEM_PLACEMENT_BACK or LSMEM_PLACEMENT_GONE
 * @segment: id, as for LSMEM_REPL_LOAD, whose calls can be mixed with these
 * @generation: as there
 * @sealed: as there; may rise from call to call until something is loaded into the segment
 * @entries: user pointer to struct lsmem_directory_entry, of objects only, each the newest version of
 *	its object
 * @nr: of @entries, up to 65536; LSMEM_PLACEMENT_BACK: at least 1; LSMEM_PLACEMENT_GONE: 0. Without flags and 0: only the segment
 *	is made, or grows
 * @reserved: 0
 *
 * Their bytes are checked when they are fetched.  EINVAL: an entry is not valid, or its index has
 * another object.  EOPNOTSUPP: the store is not tiered.
 *
 * Objects can be placed while they change, as the target of a migration does: with LSMEM_PLACEMENT_BACK, entries that were
 * placed are taken back, and their indices can be placed again, with the same generation or a later one, in this segment
 * or another one.  EINVAL: the index has no such object; entries before it are taken back.  With LSMEM_PLACEMENT_GONE a
 * segment of which all is taken back leaves the log.  EBUSY: something of it is placed, or was loaded.  ENOENT: there is no
 * such segment, as with LSMEM_PLACEMENT_BACK.  Segments of a tiered store may be placed and loaded in any order; LSMEM_REPL_LOAD
 * goes on with one that is older than another only if nothing was loaded into it before.
 */
struct lsmem_placement {
	__u32 size;
	__u32 flags;
	__u64 segment;
	__u32 generation;
	__u32 sealed;
	__u64 entries;
	__u32 nr;
	__u32 reserved;
};

/* lsmem_placement.flags */
#define LSMEM_PLACEMENT_BACK	(1u << 0)	/* the entries were placed, and are not any more */
#define LSMEM_PLACEMENT_GONE	(1u << 1)	/* the segment is not in the log any more */

#define LSMEM_PLACEMENT_SIZE_VER0	40

/**
 * struct lsmem_near - LSMEM_REPL_NEAR: a drive that the kernel reads itself for fetch requests
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @segment: id; 0: this call names the drive
 * @offset: byte on the drive at which the log data of @segment begin, a multiple of 4096; 0 with @segment 0
 * @fd: with @segment 0: a block device, open for reading, or -1: none any more; else ignored
 * @reserved: 0
 *
 * Naming a drive, or none, forgets all places that were told.  What the kernel reads counts
 * only if it is sound; whatever cannot be read there is asked for by LSMEM_REPL_FETCH.  The descriptor may
 * be closed after the call.  When the caller detaches, there is no drive any more.
 *
 * EBADF, ENOTBLK, EINVAL: @fd is not such a device, or its logical blocks are larger than 4096 bytes.
 * ENOENT: there is no such segment (any more).  ENODEV: no drive was named.  EOPNOTSUPP: the store is not
 * tiered.
 */
struct lsmem_near {
	__u32 size;
	__u32 flags;
	__u64 segment;
	__u64 offset;
	__s32 fd;
	__u32 reserved;
};

#define LSMEM_NEAR_SIZE_VER0	32

/**
 * struct lsmem_bring_one - an object that was not asked for
 * @data: user pointer to its entry, as it is in the log, in memory or on a backup; the newest version of the object
 * @length: bytes of the entry
 * @result: in: 0.  Out: 0: it is in memory; -ENOENT: it is not COLD (any more), or elsewhere, and nothing is to be done;
 *	-EBADMSG: it is not whole; -EAGAIN: memory has no room for more than writers want
 */
struct lsmem_bring_one {
	__u64 data;
	__u32 length;
	__s32 result;
};

/**
 * struct lsmem_bring - LSMEM_REPL_BRING: put objects into memory that nothing has asked for
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @entries: user pointer to @nr objects, struct lsmem_bring_one
 * @nr: 0..256; 0: no more come
 * @reserved: 0
 *
 * For a caller that has bytes of many objects, such as the target of a migration.  From the first call to one with @nr 0 the kernel
 * does not warm by segments itself, nor after the caller detaches, until another one attaches.  Of an entry, key, home and CRC are
 * compared with the word and its segment; that it is the newest of the versions that begin in its block is for the
 * caller to know.
 *
 * EOPNOTSUPP: the store is not tiered.  EAGAIN: it is not active.  EFAULT: entries before the one at fault count.
 */
struct lsmem_bring {
	__u32 size;
	__u32 flags;
	__u64 entries;
	__u32 nr;
	__u32 reserved;
};

#define LSMEM_BRING_SIZE_VER0	24

/* lsmem_freeze.flags: clients are served again. */
#define LSMEM_FREEZE_THAW	(1u << 0)

/**
 * struct lsmem_freeze - LSMEM_REPL_FREEZE: serve no client, or serve clients again
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0 or LSMEM_FREEZE_THAW
 * @term: of the store's owner, from now on, for LSMEM_CTL_ATTACH to tell; 0 only with LSMEM_FREEZE_THAW
 * @frozen: in: 0; out: 1: nothing is under way that changes the log, and all that is committed is in closed
 *	segments; 0: not yet, or the store is thawed
 * @reserved: 0
 * @objects: in: 0; out: with @frozen 1: how many objects the store has, in memory or on the backups, as its handle table
 *	says; of a disk: blocks.  A structure without this field is not told
 *
 * From the first call on no client changes the store, or reads what another host may have changed since: its calls
 * wait for a thaw, as long as for space, and then fail with EREMCHG; bios of a disk wait, at most flush_ms after
 * their start, and then fail with a timeout.  Snapshots are revoked (LSMEM_SNAPSHOT_FROZEN), windows show no object,
 * and cleaners and compactors begin nothing.  The stream goes on: the daemon acknowledges, and repeats the call,
 * which does not wait, until @frozen is 1.
 *
 * A store that is frozen stays so when the daemon detaches.  It can be destroyed.
 *
 * @objects is what LSMEM_REPL_WORDS has to list: it follows from no header in memory, so a header that damage has made
 * another's is noticed by it.  Each call that says @frozen counts anew, through the whole table.
 *
 * EAGAIN: the store is not active.  EBUSY: a range of pages is open, or still written after its last close; the
 * store is not frozen.  EINTR: a fatal signal while the objects were counted; the store is frozen.
 */
struct lsmem_freeze {
	__u32 size;
	__u32 flags;
	__u64 term;
	__u32 frozen;
	__u32 reserved;
	__u64 objects;
};

#define LSMEM_FREEZE_SIZE_VER0	24

/**
 * struct lsmem_listing - an object or tombstone that is live
 * @key: as in struct lsmem_directory_entry
 * @version: as there
 * @meta: as there, but its place at home is exact to a block of LSMEM_BLOCK bytes: in that it is the first that the
 *	listings before leave
 * @place: object: its position, as in a handle word, or LSMEM_PLACE_*; tombstone: its barrier
 */
struct lsmem_listing {
	__le64 key;
	__le64 version;
	__le64 meta;
	__le64 place;
};

#define LSMEM_PLACE_COLD	(~0ull)		/* it is not in the memory of its segment */
#define LSMEM_PLACE_NONE	(~1ull)		/* it is not live there */
/*
 * A place with a number above the position, only with LSMEM_WORDS_CACHED: what was fetched lies there, in the cache segment with
 * this number.  The CRC of its entry is that of a segment with the id LSMEM_SEGMENT_ID_END + number and the generation 1, and
 * LSMEM_TRAILER_BYTES follow each entry there.
 */
#define LSMEM_PLACE_CACHE_SHIFT	LSMEM_POSITION_BITS
#define LSMEM_PLACE_CACHE_BITS	26
#define LSMEM_TRAILER_BYTES	8u

/* lsmem_words.flags */
#define LSMEM_WORDS_BEGIN	(1u << 0)	/* all segments are to be told, from now on */
#define LSMEM_WORDS_PLACES	(1u << 1)	/* where are the objects of these listings? */
#define LSMEM_WORDS_CACHED	(1u << 2)	/* .. also those that were fetched */

#define LSMEM_WORDS_PLACES_MAX	256u

/* lsmem_words.state */
#define LSMEM_WORDS_MORE	(1u << 0)	/* there was no room for all of the segment: the next call goes on */
#define LSMEM_WORDS_DAMAGED	(1u << 1)	/* in memory: not all is listed, and not all objects have a place */

/**
 * struct lsmem_words - LSMEM_REPL_WORDS: which objects and tombstones are live, and where
 * @size: bytes of this structure, as the caller knows it
 * @flags: LSMEM_WORDS_BEGIN, LSMEM_WORDS_PLACES with or without LSMEM_WORDS_CACHED, or 0
 * @segment: in: 0; out: id of the segment that is told, 0: none has changed.  LSMEM_WORDS_PLACES: in: id
 * @listings: user pointer to room for @nr listings, struct lsmem_listing.  LSMEM_WORDS_PLACES: to @nr of them
 * @nr: in: at least 1; out: listings filled in.  LSMEM_WORDS_PLACES: 1..LSMEM_WORDS_PLACES_MAX
 * @generation: in: 0, as all that follow; out: of the segment's frame
 * @end: out: bytes of log data that the segment has, at home
 * @cold: out: bytes of objects of the segment that are live, and not in its memory
 * @state: out: LSMEM_WORDS_MORE, LSMEM_WORDS_DAMAGED
 * @left: out: about how many segments are to be told, without those that are open
 * @reserved: 0
 *
 * For the source of a migration, while its store is served, and once more when it is frozen.  A call tells one segment
 * that has changed since it was told: the objects that are live in its memory, in the order of their places at home, and
 * tombstones that are needed; only what is new, or, if what was told has changed, all again.  Of two listings of an index
 * the one with the higher generation counts, then the higher version, then the later one; one of a segment that the
 * stream has told RETIRE of counts no more.  When the store is frozen, all events of the stream are acknowledged, and a
 * call says that no segment has changed, what counts is what is live.  A call without LSMEM_WORDS_BEGIN goes on, also after
 * another daemon's.
 *
 * Objects that are not in memory, @cold, are in the directory of the segment on the backups.  LSMEM_WORDS_PLACES says of
 * its entries which are live: @place is filled in, of tombstones with LSMEM_PLACE_NONE.  Of an object that is cold also
 * older versions that begin in the same block of LSMEM_BLOCK bytes are said to be: the newest counts.  The place of an object that
 * was fetched is that of this moment: it changes without being told again.
 *
 * EFAULT, EINTR: the segment is told again from its beginning.  ENOENT: LSMEM_WORDS_PLACES of a segment that is not in
 * the log (any more).
 */
struct lsmem_words {
	__u32 size;
	__u32 flags;
	__u64 segment;
	__u64 listings;
	__u32 nr;
	__u32 generation;
	__u32 end;
	__u32 cold;
	__u32 state;
	__u32 left;
	__u64 reserved;
};

#define LSMEM_WORDS_SIZE_VER0	56

/**
 * struct lsmem_room - LSMEM_REPL_ROOM: how many segments the backups have room for
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @segments: most segments that the log can have at present, with those that it has; more than it was created for:
 *	as many as that
 * @reserved: 0
 *
 * The log of a store can have the segments for which its backups had room when it was created.  When one is lost,
 * and its replicas are made anew on the others, there is room for fewer: then the kernel cleans earlier, and
 * writers leave the last of these segments to the cleaner.  Counts until the descriptor is closed.
 *
 * EINVAL: @segments is 0.
 */
struct lsmem_room {
	__u32 size;
	__u32 flags;
	__u32 segments;
	__u32 reserved;
};

#define LSMEM_ROOM_SIZE_VER0	16

#define LSMEM_REPL_FETCH	_IOWR(LSMEM_IOC_MAGIC, 0xdd, struct lsmem_fetch)
#define LSMEM_REPL_FILL		_IOWR(LSMEM_IOC_MAGIC, 0xde, struct lsmem_fill)
#define LSMEM_REPL_PLACE	_IOWR(LSMEM_IOC_MAGIC, 0xdf, struct lsmem_placement)
#define LSMEM_REPL_NEAR		_IOW(LSMEM_IOC_MAGIC, 0xe0, struct lsmem_near)
#define LSMEM_REPL_FREEZE	_IOWR(LSMEM_IOC_MAGIC, 0xe1, struct lsmem_freeze)
#define LSMEM_REPL_WORDS	_IOWR(LSMEM_IOC_MAGIC, 0xe2, struct lsmem_words)
#define LSMEM_REPL_ROOM	_IOW(LSMEM_IOC_MAGIC, 0xe3, struct lsmem_room)
#define LSMEM_REPL_BRING	_IOWR(LSMEM_IOC_MAGIC, 0xe4, struct lsmem_bring)

#endif /* _UAPI_LSMEM_H */
