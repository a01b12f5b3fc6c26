/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * lsmem: the interface between the kernel module and user space.
 *
 * Four faces:
 *	/dev/lsmem, /dev/lsmem1 ..	object stores: LSMEM_IOC_*, mmap windows
 *	/dev/lsmemb0 ..			block stores: an ordinary block device
 *	/dev/lsmem-control		LSMEM_CTL_*: make, destroy, attach (CAP_SYS_ADMIN)
 *	a replication descriptor	LSMEM_REPL_*: made by LSMEM_CTL_ATTACH, for lsmemd
 *
 * Every structure begins with its size.  A larger structure than the kernel
 * knows is taken if what is beyond is zero (else E2BIG), a smaller one is
 * filled up with zeros, and gets back no more than it has room for; smaller
 * than the first one published (LSMEM_*_SIZE_VER0) is EINVAL.
 * Reserved fields and unknown flags must be zero (EINVAL).  Nothing is changed
 * by a call that returns an error, with one exception: ETIMEDOUT from a durable
 * call means that the operation is applied and its durability unknown; a later
 * sync still waits for it.  (And a structure that another thread unmaps during
 * the call: EFAULT, and the operation is applied, or not, whole.)
 *
 * Errors common to all calls: EFAULT (a pointer), EINVAL (a field, see dmesg
 * with dynamic debug), ENOTTY (not a call of this file), EAGAIN (the store is
 * not active: no daemon has brought it up yet), EPERM, EINTR.
 */
#ifndef _UAPI_LSMEM_H
#define _UAPI_LSMEM_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define LSMEM_ABI		1u
#define LSMEM_NAME_BYTES	32u

enum lsmem_store_kind {
	LSMEM_KIND_OBJECT	= 1,
	LSMEM_KIND_BLOCK	= 2,
};

/* A store's life.  Data calls work in ACTIVE only. */
enum lsmem_store_state {
	LSMEM_STATE_NEW		= 1,	/* durable, its daemon not yet attached */
	LSMEM_STATE_RECOVERING	= 2,	/* the daemon is loading a backup */
	LSMEM_STATE_ACTIVE	= 3,
	LSMEM_STATE_DYING	= 4,
};

/* ---- Object calls: on /dev/lsmem* -------------------------------------- */

#define LSMEM_FEATURE_VECTOR	(1ull << 0)
#define LSMEM_FEATURE_WINDOWS	(1ull << 1)
#define LSMEM_FEATURE_DURABLE	(1ull << 2)	/* this store can make durable */

/**
 * struct lsmem_query - LSMEM_IOC_QUERY: what this kernel and store can do
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @features: out, LSMEM_FEATURE_*
 * @abi: LSMEM_ABI
 * @kind: enum lsmem_store_kind
 * @state: enum lsmem_store_state
 * @object_max: largest object, bytes
 * @vector_max: most operations in one vector call
 * @reserved: 0
 * @capacity: live bytes, headers included, that the store admits
 * @handles_max: objects that there can be
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
	__u32 reserved;
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

/* lsmem_op.flags */
#define LSMEM_OPF_DURABLE	(1u << 0)	/* return when it is on the backup, or in the
						 * memory of the hosts that keep it (ack = memory)
						 */
#define LSMEM_OPF_EXPECT	(1u << 1)	/* REPLACE, FREE: only if @version is current */

/**
 * struct lsmem_op - one operation on one object
 * @size: bytes of this structure, as the caller knows it
 * @op: LSMEM_OP_*; must be the ioctl's own in a single call
 * @flags: LSMEM_OPF_*
 * @result: out, vector only: 0 or a negative errno
 * @handle: ALLOC: out; otherwise in
 * @version: EXPECT: in, the version wanted; out: the object's version now
 * @data: user pointer to @length bytes (ALLOC, REPLACE: source, READ: target)
 * @length: ALLOC, REPLACE: bytes of the object, 1..object_max.  READ: room at
 *	@data; out: bytes copied
 * @table: ALLOC: table id, below 4096; READ: out
 * @offset: READ: first byte wanted, at most the object's length
 * @object_length: READ: out, bytes of the whole object
 *
 * Errors: ENOENT (no such handle: never given out, or 0), ESTALE (freed, or
 * given out before a crash that lost it), EILSEQ (EXPECT and another version;
 * @version tells it), ENOSPC (live bytes at capacity, or no room within the
 * store's bound), EMFILE (no free handle, or what is free has been used up or set
 * aside until the store is loaded again), ETIMEDOUT (above), EAGAIN (above;
 * READ: while the store is recovered, of what is not loaded yet, if there is such a
 * handle; ALLOC: or the daemon has yet to make durable that handles have been issued).
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
 * struct lsmem_vector - LSMEM_IOC_VECTOR: many operations, each with its result
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0, or LSMEM_OPF_DURABLE for all: one wait at the end
 * @ops: user pointer to the operations
 * @nr: operations at @ops, 1..vector_max; out: operations carried out
 * @stride: bytes from one operation to the next, at least the smallest struct
 *	lsmem_op ever published; each bears its own size too
 *
 * Operations are carried out in order, and a failed one does not stop the
 * next.  The flags of an operation stay as they were given.  Returns 0 when all
 * were tried, an errno if not (@nr tells how many).
 * When the durable wait fails, the durable operations bear ETIMEDOUT.
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
 * struct lsmem_sync - LSMEM_IOC_SYNC: make everything before it durable
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @timeout_ms: 0 for the store's bound
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
 * @capacity: live bytes that are admitted, now
 * @live_bytes: of entries that count, headers included; now
 * @seglets: of the store, LSMEM_SEGLET_BYTES each
 * @free_seglets: now
 * @handles_max: objects that there can be
 * @handles_used: now
 * @segments: in the log, now
 * @segments_cleaned: freed by cleaning
 * @appended_bytes: by users
 * @relocated_bytes: by cleaning and compaction
 * @durable_bytes: acknowledged by the daemon
 * @stalls: waits of writers for space
 * @stall_ns: that these took
 * @segments_compacted: by compaction
 *
 * All since creation unless said otherwise; sysfs has the same and more.
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

#define LSMEM_IOC_MAGIC		'L'	/* 0x4c, numbers 0xc0 .. 0xdf */
#define LSMEM_IOC_QUERY		_IOWR(LSMEM_IOC_MAGIC, 0xc0, struct lsmem_query)
#define LSMEM_IOC_STAT		_IOWR(LSMEM_IOC_MAGIC, 0xc1, struct lsmem_stat)
#define LSMEM_IOC_ALLOC		_IOWR(LSMEM_IOC_MAGIC, 0xc2, struct lsmem_op)
#define LSMEM_IOC_READ		_IOWR(LSMEM_IOC_MAGIC, 0xc3, struct lsmem_op)
#define LSMEM_IOC_REPLACE	_IOWR(LSMEM_IOC_MAGIC, 0xc4, struct lsmem_op)
#define LSMEM_IOC_FREE		_IOWR(LSMEM_IOC_MAGIC, 0xc5, struct lsmem_op)
#define LSMEM_IOC_VECTOR	_IOWR(LSMEM_IOC_MAGIC, 0xc6, struct lsmem_vector)
#define LSMEM_IOC_SYNC		_IOWR(LSMEM_IOC_MAGIC, 0xc7, struct lsmem_sync)
/* The size in a number is that of the structure that the program was built
 * with: the kernel compares magic and number only.
 */

/* ---- Windows: mmap of /dev/lsmem* -------------------------------------- */

/*
 * Map the info page first (offset LSMEM_WINDOW_INFO, one page, read-only,
 * shared): it tells where the other windows lie and how long they are.  All
 * windows are MAP_SHARED, mapped whole from their offset or in part; never
 * executable, and writable only the slots (EPERM, EINVAL).  They are not
 * inherited by fork, not expanded, not dumped.  Seglets mapped by a client do
 * not take O_DIRECT, splice or RDMA (EFAULT).
 *
 * A store is the unit of isolation: a process that may map a window sees every byte
 * of the store, freed and uncommitted ones included.
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
 * @compat: readers that know ABI n take any page with @compat <= n
 * @length: bytes of this structure
 * @kind: enum lsmem_store_kind
 * @nr_seglets: in @seglets and @seglet_table
 * @nr_handles: in @handles
 * @nr_slots: in @slots
 * @view_ms: bound after which the kernel revokes a published epoch
 * @seglets: LSMEM_SEGLET_BYTES each, by number
 * @seglet_table: struct lsmem_seglet for each seglet
 * @handles: struct lsmem_handle for each index
 * @slots: this file's epoch slots, read-write; made when they are first mapped, charged
 *	to the caller's memory cgroup.  ENOMEM; ENFILE: limits/clients_max files have some
 * @uuid: of the store's log
 * @epoch: the store's epoch; a client publishes it in a slot
 * @reserved: 0; keeps @epoch on a cache line of its own
 * @segments: struct lsmem_cleaning and its table: the daemon's only
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
};

/* What the seglet table says of a seglet: seglets of a segment are chained. */
struct lsmem_seglet {
	__u32 next;		/* next seglet of its segment, or LSMEM_NO_SEGLET */
	__u32 incarnation;	/* grows each time the seglet is given out */
};

/*
 * The handle table entry.  @word is the only thing that is exchanged:
 *	bits 0..36	position: seglet << 13 | offset in the seglet / 8
 *	bits 37..39	LSMEM_WORD_*
 *	bits 40..63	tag, grows at each exchange
 * @info changes only while the state is LSMEM_WORD_BUSY or _FREE:
 *	bits 0..27	generation, 28..39 table (object stores);
 *	the last version (block stores).
 *
 * To read with no system call: load word (acquire), check state, info's
 * generation, the entry header at the position (its key is the handle), copy,
 * following the seglet table where the payload crosses a seglet, then load word
 * again: if it has not changed, the copy is the object.  Bound every step:
 * what is read meanwhile may be anything.
 */
struct lsmem_handle {
	__u64 word;
	__u64 info;
};

#define LSMEM_POSITION_BITS	37
#define LSMEM_POSITION_OFFSET_BITS 13
#define LSMEM_WORD_STATE_SHIFT	37
#define LSMEM_WORD_STATE_BITS	3
#define LSMEM_WORD_TAG_SHIFT	40
#define LSMEM_WORD_FREE		0u
#define LSMEM_WORD_LIVE		1u
#define LSMEM_WORD_BUSY		2u

/*
 * An epoch slot, one a thread, one cache line each.  To hold what is read:
 * store info->epoch, a full barrier, then read the word and use the bytes in
 * place; the seglets are not given out again until the slot is 0, or the bound
 * has passed and the kernel has exchanged it for LSMEM_SLOT_REVOKED.  To end,
 * exchange it for 0: if the old value is LSMEM_SLOT_REVOKED, the bytes may have
 * changed under the view.  Nonsense in a slot makes its owner's views invalid,
 * and the kernel wait for the bound before it frees seglets.
 */
struct lsmem_slot {
	__u64 epoch;
	__u64 reserved[7];
};

#define LSMEM_SLOT_IDLE		0ull
#define LSMEM_SLOT_REVOKED	(~0ull)

/* ---- /dev/lsmem-control ------------------------------------------------ */

#define LSMEM_STORE_DURABLE	(1u << 0)
#define LSMEM_STORE_CHARGED	(1u << 1)	/* to the memory cgroup of the caller */

/* Segments that a log may have, for each that would fill its memory. */
#define LSMEM_SEGMENTS_LEAST	2u
#define LSMEM_SEGMENTS_MOST	16u

/**
 * struct lsmem_create - LSMEM_CTL_CREATE: make a store
 * @size: bytes of this structure, as the caller knows it
 * @flags: LSMEM_STORE_*
 * @kind: enum lsmem_store_kind
 * @mode: permissions of the device node (object stores); 0 means 0600
 * @bytes: memory for the log, a multiple of 8 MiB, 128 MiB .. 1 TiB
 * @handles_max: object stores: 1..2^31-1, 0 for one per 256 bytes of @bytes;
 *	block stores: 0 (the capacity tells)
 * @uid: its owner
 * @gid: its group
 * @name: out, the store's name: that of its node in /dev
 * @segments: most segments in the log, that is frames on its backup: 0, or from
 *	twice to 16 times what fills @bytes.  The more, the emptier segments are
 *	when they have to be cleaned, and the less is written for it
 * @reserved: 0
 *
 * EEXIST, ENOSPC (no minor), ENOMEM (less memory is available than the store takes, or
 * a limit of the memory cgroup is lower, or it could not be had; nothing is kept, and the
 * kernel log says what is missing), EOPNOTSUPP (LSMEM_STORE_CHARGED, and the kernel has no
 * memory cgroups).
 *
 * LSMEM_STORE_CHARGED: the log and all tables are charged for as long as the store lives.
 * When the cgroup is removed, the charge stays with its ancestors.  The root cgroup is
 * charged nothing.
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
};

#define LSMEM_CREATE_SIZE_VER0	72

#define LSMEM_DESTROY_FORCE	(1u << 0)

/**
 * struct lsmem_destroy - LSMEM_CTL_DESTROY
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0 or LSMEM_DESTROY_FORCE
 * @name: of the store
 *
 * EBUSY while it is open, mapped, mounted or attached, and, for a
 * durable store with data that are not on its backup, unless @flags has
 * LSMEM_DESTROY_FORCE.  ENODEV: no such store.
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
 * @uuid: NEW: in, becomes the store's; ACTIVE: must be the store's (EXDEV)
 * @fd: out, the replication descriptor; closing it detaches
 * @state: out, enum lsmem_store_state: NEW: call LSMEM_REPL_ACTIVATE, or _LOAD
 *	first; ACTIVE: the stream begins with the state of every segment
 * @kind: out, enum lsmem_store_kind
 * @reserved: 0
 * @bytes: out, memory of the log
 * @handles_max: out, objects or blocks that there can be
 *
 * EBUSY: another daemon is attached.  EOPNOTSUPP: the store is volatile.
 *
 * By attaching to an ACTIVE store a daemon states that no I/O of a
 * predecessor can still read the store's seglets (it holds the lock on the
 * backup): the kernel drops the leases of the predecessor.
 */
struct lsmem_attach {
	__u32 size;
	__u32 flags;
	__u8 name[LSMEM_NAME_BYTES];
	__u8 uuid[16];
	__s32 fd;
	__u32 state;
	__u32 kind;
	__u32 reserved;
	__u64 bytes;
	__u64 handles_max;
};

#define LSMEM_ATTACH_SIZE_VER0	88

#define LSMEM_CTL_CREATE	_IOWR(LSMEM_IOC_MAGIC, 0xd0, struct lsmem_create)
#define LSMEM_CTL_DESTROY	_IOWR(LSMEM_IOC_MAGIC, 0xd1, struct lsmem_destroy)
#define LSMEM_CTL_ATTACH	_IOWR(LSMEM_IOC_MAGIC, 0xd2, struct lsmem_attach)

/* ---- The replication descriptor ---------------------------------------- */

/*
 * The kernel tells, in one ordered stream, what is to be made durable; the
 * daemon acknowledges.  Rules (numbers: invariants of Documentation/durability.rst):
 *
 * OPEN	    a segment wants a frame on the backup.  Acknowledge when its header
 *	    is durable and a durable digest lists it (2): only then does the
 *	    kernel write to it.  Spares are opened ahead.
 * RANGE    [from, to) of the segment is committed and leased: read it from the
 *	    seglets window, beginning at @first_seglet (the one that @from lies in)
 *	    and following the seglet table.  It ends with an entry; a commit record
 *	    is written before it is told, if there is room for one, and other entries
 *	    may follow that.
 *	    Acknowledge the offset below which everything is durable.
 * CLOSE    the segment has its final length @to, and @entries directory
 *	    entries; @first_seglet is the segment's first seglet.  Acknowledge when
 *	    directory and footer are durable (8).
 * RETIRE   the segments in this group (all but the last bear
 *	    LSMEM_EVENT_MORE) are superseded by what came before in the stream.
 *	    Acknowledge the last one's id when all that is durable (9) and then
 *	    a digest without the group is durable (10).  One digest record for
 *	    the group.
 * RESUME   after an attach to an active store, for each segment in the log,
 *	    oldest first: @from is what was acknowledged, @to what is committed
 *	    (home offsets: of a loaded segment both are its length on the backup),
 *	    @first_seglet its first seglet, or LSMEM_NO_SEGLET, @flags what else was.  @segment ~0 ends the list; the stream
 *	    follows, beginning again from what was acknowledged.
 */
#define LSMEM_EVENT_OPEN	1u
#define LSMEM_EVENT_RANGE	2u
#define LSMEM_EVENT_CLOSE	3u
#define LSMEM_EVENT_RETIRE	4u
#define LSMEM_EVENT_RESUME	5u

#define LSMEM_EVENT_MORE	(1u << 0)	/* RETIRE: the group goes on */
#define LSMEM_EVENT_OPENED	(1u << 1)	/* RESUME: OPEN was acknowledged */
#define LSMEM_EVENT_CLOSED	(1u << 2)	/* RESUME: CLOSE was acknowledged */
#define LSMEM_EVENT_SURVIVOR	(1u << 3)	/* RANGE, CLOSE, RESUME: a survivor of cleaning */
#define LSMEM_EVENT_RETIRED	(1u << 4)	/* RESUME: RETIRE was given to a daemon and
						 * not acknowledged; it comes again.  Only
						 * such a segment may be missing in the digest
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
 * struct lsmem_next - LSMEM_REPL_NEXT: take events; does not wait (poll does)
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @events: user pointer to room for @nr of them
 * @nr: in: room at @events, at least 128; out: events filled in
 * @generation_wanted: out: make a ceiling at least this high durable and
 *	acknowledge it, before handle generations run into the old one (14)
 * @store_time: out: the store's clock, for the next digest
 * @next_segment: out: no segment id at or above it has been opened
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
 * One acknowledgement: type LSMEM_EVENT_OPEN .. RETIRE; RANGE: all below @to.  Or, of
 * what was told as a RANGE and is not durable yet, LSMEM_ACK_RECEIVED: all below @to is
 * durable, or in the memory of hosts that keep a backup and write it whatever becomes of
 * this one.  That is enough for LSMEM_OPF_DURABLE, and for nothing else; RANGE follows.
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
 * @acks: user pointer to them
 * @nr: acknowledgements at @acks, 0..4096
 * @generation_ceiling: durable ceiling, 0 for no change
 *
 * EINVAL: an acknowledgement of what was not asked; those before it stand, and
 * out, @nr tells how many.
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
 * struct lsmem_load - LSMEM_REPL_LOAD: bring entries of a segment back (NEW, RECOVERING)
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @segment: id as on the backup; entries of one segment may come in several calls, one after
 *	the other
 * @generation: as on the backup
 * @sealed: length of the segment on the backup
 * @data: entries one after the other as in the log, no gaps (the rule of
 *	lsmem_entry_start() does not hold here); objects and tombstones only
 * @length: bytes at @data, a multiple of 8, up to LSMEM_SEGMENT_BYTES
 * @reserved: 0
 *
 * Each entry's CRCs are checked and each key may come once: a later version
 * replaces an earlier one.  EBADMSG: a CRC; ENOSPC; EINVAL: what is no entry.
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

/**
 * struct lsmem_activate - LSMEM_REPL_ACTIVATE: the store takes writes
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0
 * @era: of versions
 * @generation_floor: new handles have generations above it
 * @generation_ceiling: and up to this one
 * @reserved: 0
 * @store_time: the clock goes on from here
 * @next_segment: ids of new segments begin here
 *
 * All are durable in the digest of a new term and higher than anything before
 * the crash (14).
 */
struct lsmem_activate {
	__u32 size;
	__u32 flags;
	__u32 era;
	__u32 generation_floor;
	__u32 generation_ceiling;
	__u32 reserved;
	__u64 store_time;
	__u64 next_segment;
};

#define LSMEM_ACTIVATE_SIZE_VER0	40

#define LSMEM_REPL_NEXT		_IOWR(LSMEM_IOC_MAGIC, 0xd8, struct lsmem_next)
#define LSMEM_REPL_ACK		_IOWR(LSMEM_IOC_MAGIC, 0xd9, struct lsmem_ack)
#define LSMEM_REPL_LOAD		_IOWR(LSMEM_IOC_MAGIC, 0xda, struct lsmem_load)
#define LSMEM_REPL_ACTIVATE	_IOWR(LSMEM_IOC_MAGIC, 0xdb, struct lsmem_activate)

/*
 * mmap of a replication descriptor: the info page at LSMEM_WINDOW_INFO as for
 * clients, seglets (here with struct pages, so that O_DIRECT and RDMA registration
 * work; writable only on kernels that register nothing else) and seglet table at the
 * offsets it tells, and the segments, read-only.  No slots.
 */

/* ---- Cleaning, as the daemon sees it ------------------------------------ */

/* lsmem_segment_stat.flags */
#define LSMEM_SEGMENT_CLEANABLE	(1u << 0)	/* durably closed, not worked on */

/**
 * struct lsmem_segment_stat - what there is in a segment
 * @id: 0 when the slot is free; the rest means nothing then
 * @opened: store time when it was opened (for ages)
 * @barrier: its tombstones may go when no segment with an id below it is
 *	left
 * @live: bytes of entries that count, tombstones included
 * @tombstones: bytes of tombstones among them
 * @held: bytes of memory it holds; compaction makes this less
 * @home: its length on the backup; only cleaning gives that back
 * @flags: LSMEM_SEGMENT_*
 * @entries: objects and tombstones on the backup, live or not
 *
 * Each number is right by itself; two of them may be of different moments.
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
};

/* What the balancer wants: lsmem_cleaning.level. */
#define LSMEM_LEVEL_NONE	0u
#define LSMEM_LEVEL_COMPACT	1u	/* the kernel compacts in memory */
#define LSMEM_LEVEL_CLEAN	2u	/* LSMEM_REPL_CLEAN is wanted */

/**
 * struct lsmem_cleaning - the beginning of the segments window
 * @length: bytes of this structure
 * @nr_segments: slots in the table
 * @segments: offset of struct lsmem_segment_stat[@nr_segments] in the window
 * @level: LSMEM_LEVEL_*; a replication descriptor polls POLLPRI while it is
 *	LSMEM_LEVEL_CLEAN and no pass is under way
 * @urgent: writers wait for space
 * @rule: enum lsmem_policy_rule of the scores
 * @oldest_first: tombstones hold too much: clean the oldest segments,
 *	whatever their score
 * @utilization_max: per mille; fuller victims are not worth it, unless @urgent
 * @room: bytes that the survivors of a pass may take
 * @begun: passes; one is under way while it differs from @ended
 * @ended: passes that are over
 * @store_time: the store's clock when @level was last decided
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
};

/* lsmem_clean.flags */
#define LSMEM_CLEAN_LAST	(1u << 0)

/**
 * struct lsmem_clean - LSMEM_REPL_CLEAN: merge the survivors of segments
 * @size: bytes of this structure, as the caller knows it
 * @flags: 0, or LSMEM_CLEAN_LAST with @nr 0: no pass begins any more while this
 *	descriptor is open, also none of the kernel's own: its daemon is about to go,
 *	and survivors would not reach the backup
 * @segments: user pointer to __u64 ids, in the order wanted
 * @nr: in: ids at @segments, 1..64; out: how many of them, from the first, are
 *	being cleaned: those that cannot be (any more) are passed over, and the
 *	rest when the survivors would not find room
 * @reserved: 0
 *
 * Returns at once; the stream tells what follows, RETIRE at last.  EBUSY: a
 * pass is under way, eight groups wait for a digest, or LSMEM_CLEAN_LAST was
 * said.  ENOENT: none of them can be cleaned.
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

#endif /* _UAPI_LSMEM_H */
