/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random calls of all interfaces of lsmem.
 *
 * A program is a sequence of a few calls.  A call is an entry of a table (calls_describe.c) and a
 * gene for each of its fields.  The gene decides the value: valid, at a bound, of an object that
 * has been freed, of another object, garbage, or none.  Handles, descriptors, windows and events
 * that calls return are recorded for later calls.  If the kernel has KCOV, programs that have
 * reached new code of the module are kept, and used again with changes.
 *
 *	calls.c			the processes, the watchdog, the results
 *	calls_describe.c	the table of calls and their fields
 *	calls_make.c		makes fields, buffers and descriptors; judges results
 *	calls_run.c		calls that are not a single ioctl with a fixed structure
 *	calls_repl.c		calls of a daemon
 *	calls_tier.c		calls of the daemon of a tiered store
 *	calls_pages.c		ranges of pages
 *	calls_cover.c		makes, changes and keeps programs
 *	calls_load.c		a load beside the random calls, which must succeed
 */
#ifndef TESTS_DEBUG_CALLS_H
#define TESTS_DEBUG_CALLS_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lsmem/lsmem.h>
#include <lsmem/lsmem_format.h>

#include "../common/random.h"

struct io_uring;

#define NOBODY		65534u
#define PAGE		4096u
#define ERRNOS		134
#define GENES		16	/* of a call */
#define PROGRAM		10	/* calls of a program */
#define CALLERS		6
#define PROCESSES	3
#define THREADS		2	/* of a process */
#define KINDS_MAX	72

/* ---- Stores ------------------------------------------------------------- */

/* The first five exist during the whole test. */
enum {
	STORE_WORK,		/* volatile, objects */
	STORE_DURABLE,		/* durable, objects; the parent is its daemon */
	STORE_TIER,		/* as STORE_DURABLE, with more capacity than memory */
	STORE_PLACED,		/* tiered, objects that are on backups; callers are its daemon */
	STORE_BLOCK,		/* volatile, blocks */
	STORE_DYNAMIC,		/* from here on, stores that callers create and destroy */
	STORES = STORE_DYNAMIC + 3,
};

#define POOL		512	/* handles that a pool of a store holds */
#define WORK_HANDLES	40000u
#define OBJECT_STORES	STORE_BLOCK	/* of those that exist during the whole test */
#define LOADED_STORES	STORE_PLACED	/* of them, those that the load uses */
#define TIER_CAPACITY	(192ull << 20)
#define LOAD_BLOCKS	4u	/* only the load writes to the last 1/n of the block store */

/* A ring of handles that calls have returned (live) or freed (stale); 0: none. */
struct pool {
	_Atomic uint32_t next;
	struct {
		_Atomic uint64_t handle;
		_Atomic uint64_t version;
	} at[POOL];
};

enum slot_state { SLOT_FREE, SLOT_MAKING, SLOT_THERE };

struct store_slot {
	_Atomic int state;
	char name[LSMEM_NAME_BYTES];
	bool block;
	bool durable;
	bool tiered;
	_Atomic uint64_t segment;	/* id of the segment that was loaded last */
	struct pool live;
	struct pool stale;
	struct pool roots;	/* of ranges of pages */
};

/* ---- Programs ----------------------------------------------------------- */

/**
 * struct gene - random numbers that decide the value of one field
 * @how: its class, see how_of()
 * @at: where a pointer points, see place()
 * @small: decides between variants of the value
 * @bits: chooses a value of the class
 */
struct gene {
	uint8_t how;
	uint8_t at;
	uint16_t small;
	uint32_t bits;
};

struct call {
	uint32_t kind;
	struct gene gene[GENES];
};

struct program {
	uint32_t nr;
	struct call call[PROGRAM];
};

enum how { VALID, BOUNDARY, STALE, FOREIGN, GARBAGE, NONE };

/* ---- Memory that all processes share ------------------------------------ */

/* What a caller can find to be wrong; each is a test. */
enum verdict {
	VERDICT_HANG,
	VERDICT_DEATH,
	VERDICT_PRIVILEGE,
	VERDICT_REFUSED,
	VERDICT_BEYOND,
	VERDICT_LOAD,
	VERDICTS,
};

/* The present call and the counts of a caller, which the parent reads. */
struct progress {
	_Atomic uint64_t calls;
	_Atomic int tid;
	bool root;
	uint32_t kind;
	int fd;
	uint64_t request;
	uint64_t argument;
	uint32_t nr_bytes;
	uint8_t bytes[128];
	uint32_t counts[KINDS_MAX][ERRNOS];
	uint32_t timed[KINDS_MAX];
	uint64_t ns[KINDS_MAX];		/* sum over the calls that were timed */
};

#define CORPUS		1024
#define COVER_BITS	(1u << 21)

struct shared {
	_Atomic bool stop;
	_Atomic uint64_t made;	/* number of stores that callers have created */
	struct store_slot store[STORES];
	_Atomic uint64_t owned[WORK_HANDLES / 64 + 1];	/* handle indices of the load's objects */
	struct lsmem_info info;		/* the info page of STORE_WORK, with the last window of STORE_TIER */
	uint64_t block_bytes;		/* size of STORE_BLOCK */
	uint64_t budget;		/* calls to make in all */
	int passing[2];			/* a pair of sockets to pass descriptors */
	struct progress progress[CALLERS];
	_Atomic uint64_t failures[VERDICTS];
	char failure[VERDICTS][240];
	_Atomic uint64_t sweeps;	/* how often a full store was swept, see sweep() */
	_Atomic uint64_t refusals;	/* number of calls whose errno was known before */
	_Atomic uint32_t corpus_nr;
	struct program corpus[CORPUS];
	_Atomic uint64_t covered;
	_Atomic uint64_t cover[COVER_BITS / 64];
};

extern struct shared *shared;

uint64_t calls_made(void);
void failed(enum verdict verdict, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- Callers ------------------------------------------------------------ */

enum fd_kind {
	FD_NONE,
	FD_OBJECT,	/* an object store */
	FD_CONTROL,
	FD_REPL,
	FD_BLOCK,
	FD_PAGES,	/* a range of pages */
	FD_SNAPSHOT,	/* a snapshot of a scan */
	FD_WATCH,	/* notes of the changes of a table */
	FD_OTHER,	/* any other file, or one of unknown kind */
	FD_KINDS,
};

/* A descriptor. Its number alone does not tell it from one that was opened when it was closed: so changes are counted. */
struct fd_slot {
	_Atomic int fd;		/* -1: none */
	_Atomic int kind;
	_Atomic int store;
	_Atomic uint32_t begun, done;	/* changes */
};

#define FD_SLOTS	24	/* of all kinds but FD_PAGES */
#define RANGE_SLOTS	8	/* of FD_PAGES */
#define MODES		3	/* O_RDONLY, O_WRONLY, O_RDWR */

/**
 * struct process - a process of callers; its threads share this
 * @root: it has the privileges of root
 * @pinned: the object stores that exist during the whole test, by access mode; never closed
 * @block: STORE_BLOCK through the page cache, and with O_DIRECT; never closed
 * @control: /dev/lsmem-control; never closed
 * @null: /dev/null; never closed
 * @eventfd: never closed
 * @fds: descriptors that calls open and close
 * @callers: its threads
 */
struct process {
	bool root;
	int pinned[OBJECT_STORES][MODES];
	int block[2];
	int control;
	int null;
	int eventfd;
	struct fd_slot fds[FD_SLOTS + RANGE_SLOTS];
	struct caller *callers;
};

#define MAPS		8
#define MAP_ROOM	(256ull << 20)	/* bytes of address space for a window */

enum window { WINDOW_INFO, WINDOW_SEGLETS, WINDOW_TABLE, WINDOW_HANDLES, WINDOW_SLOTS,
	      WINDOW_TOUCHED, WINDOW_LIVEMAP, WINDOWS };

struct map_slot {
	size_t length;		/* in bytes; 0: nothing is mapped */
	enum window window;
	bool writable;
	bool daemon;		/* mapped through a replication descriptor */
};

#define RANGE_MAPS	4
#define RANGE_ROOM	(256u << 10)	/* bytes of address space for pages of a range */

#define HEAP_BYTES	(6u << 20)
#define HEAP_VECTOR	(64u << 10)	/* offset in the heap: operations of a vector */
#define HEAP_ARRAY	(512u << 10)	/* offset: events, acknowledgements, entries */
#define HEAP_DATA	(2u << 20)	/* offset: data */
#define AREA_BYTES	(2u << 20)
#define GUARD		64u		/* bytes behind a buffer that must not change */

struct caller {
	struct process *process;
	struct progress *progress;
	uint64_t random;
	uint8_t *heap;
	uint8_t *edge;		/* the end of a mapped area */
	uint8_t *constant;	/* a read-only area */
	uint8_t *flip;		/* an area whose protection run_flip() changes */
	uint8_t *arena;		/* address space for windows, MAP_ROOM for each */
	struct map_slot map[MAPS];
	uint8_t *ranges;	/* address space for pages of ranges, RANGE_ROOM for each mapping */
	struct io_uring *ring;	/* NULL: this kernel has none */
	struct lsmem_event events[256];
	uint32_t nr_events;
	struct lsmem_fetch_one requests[256];
	uint32_t nr_requests;
	uint32_t generation_wanted;
	bool child;		/* this is the child of run_fork() */
	uint64_t *kcov;
	uint32_t (*counts)[ERRNOS];
};

/* Where touch_copy() continues after SIGSEGV or SIGBUS. */
struct way_back {
	sigjmp_buf at;
};

extern __thread struct way_back *touching;
/* Copy from or to memory that may not be mapped. Returns false on SIGSEGV or SIGBUS. */
bool touch_copy(void *to, const void *from, size_t length);

/* ---- Making ------------------------------------------------------------- */

enum field_kind {
	FIELD_SIZE,	/* of the structure */
	FIELD_CONST,	/* must be @low, else @error */
	FIELD_ZERO,	/* must be 0 */
	FIELD_FLAGS,	/* some of the bits of @low, and those of @high */
	FIELD_ANY,	/* ignored by the kernel */
	FIELD_NUMBER,	/* must be @low .. @high, else @error */
	FIELD_SPAN,	/* the same; small numbers are as frequent as large ones */
	FIELD_HANDLE,
	FIELD_ROOT,	/* of a range of pages */
	FIELD_VERSION,
	FIELD_LENGTH,	/* of data for the kernel: 1 .. LSMEM_OBJECT_MAX */
	FIELD_ROOM,	/* of a buffer that the kernel fills: 0 .. LSMEM_OBJECT_MAX */
	FIELD_IN,	/* pointer to data for the kernel */
	FIELD_OUT,	/* pointer to a buffer that the kernel fills */
	FIELD_OFFSET,	/* in an object */
	FIELD_TIMEOUT,
	FIELD_STORE,	/* name of a store */
	FIELD_BYTES,	/* size of a store */
	FIELD_HANDLES,	/* handles_max of a store */
	FIELD_CAPACITY,	/* of a store */
	FIELD_UUID,
	FIELD_EVENTFD,	/* a descriptor of an eventfd */
};

struct field {
	const char *name;
	uint8_t kind;
	uint8_t offset;
	uint8_t bytes;
	uint8_t error;
	uint64_t low;
	uint64_t high;
};

#define FIELD(type, member, what, ...)						\
	{ .name = #member, .kind = FIELD_##what, .offset = offsetof(struct type, member), \
	  .bytes = sizeof(((struct type *)0)->member), __VA_ARGS__ }

/**
 * struct making - a call that is being made
 * @me: the caller
 * @call: its kind and genes
 * @random: state of its random numbers
 * @fd: descriptor for the call
 * @from: the slot that @fd is from, if other threads may close it; else NULL
 * @changes: of @from, when @fd was read
 * @store: index of the store of @fd in shared->store; -1: unknown
 * @durable: that store is durable
 * @sure: @fd is of the right kind, whatever other threads do
 * @wrong: number of fields that are not valid
 * @expected: errno for the last of these fields if it is the only one; 0: unknown
 * @expect: LSMEM_OPF_EXPECT is set
 * @reads: the operation changes nothing
 * @block_kind: the store to create is a block store
 * @durable_kind: the store to create is durable
 * @slot: index in shared->store for the store to create; -1: none is created
 * @version: of the object
 * @length: of the data, in bytes
 * @size: of the argument, in bytes
 * @first: size of the first version of the structure; 0: of this one
 * @guard: ends of buffers; the GUARD bytes behind them must not change
 * @guards: entries of @guard
 * @bytes: contents of the argument
 * @argument: where the argument is
 */
struct making {
	struct caller *me;
	const struct call *call;
	uint64_t random;
	int fd;
	struct fd_slot *from;
	uint32_t changes;
	int store;
	bool durable;
	bool sure;
	uint32_t wrong;
	int expected;
	bool expect;
	bool reads;
	bool block_kind;
	bool durable_kind;
	int slot;
	uint64_t version;
	uint32_t length;
	uint32_t size;
	uint32_t first;
	uint8_t *guard[2];
	uint32_t guards;
	uint8_t bytes[PAGE];
	uint8_t *argument;
};

struct description {
	const char *name;
	enum fd_kind on;
	uint32_t weight[2];	/* how often, without privilege and as root; 0: never */
	unsigned long request;
	uint32_t bytes;
	uint32_t first;		/* size of the first version of the structure; 0: @bytes */
	const struct field *fields;
	uint32_t nr_fields;
	bool must;		/* succeeds if all fields are valid */
	bool never;		/* never succeeds */
	void (*done)(struct making *m, const uint8_t *bytes, long ret);
	long (*run)(struct making *m);
};

extern const struct description descriptions[];
extern const uint32_t nr_descriptions;

/*
 * Does an object of the load have this handle index, in either store?  Callers must not change it.
 * The store is not considered, because a descriptor may be of another store than recorded.
 */
bool is_owned(uint64_t handle);
enum how how_of(const struct gene *gene);
void is_wrong(struct making *m, int expected);
/* Choose the address of a buffer of @length bytes. @out: the kernel writes to it. */
uint8_t *place(struct making *m, const struct gene *gene, uint32_t offset, uint32_t length,
	       bool out);
uint8_t *place_argument(struct making *m, const struct gene *gene);
uint32_t some_length(const struct gene *gene);
/* Make an ioctl with a fixed structure, or, with @uring, the same call as a command of io_uring. */
long run_fixed(struct making *m, const struct description *d,
	       long (*uring)(struct making *m, unsigned long request));
/* Check the result of a call, as far as it is known before. */
void judge(const struct making *m, const struct description *d, long ret);
void pick_fd(struct making *m, const struct gene *gene, enum fd_kind kind);
/* May @m->fd be of another file by now? */
bool fd_changed(const struct making *m);
void keep_fd(struct process *process, int fd, enum fd_kind kind, int store);
void make_fields(struct making *m, const struct field *fields, uint32_t nr,
		 const struct gene *genes, uint8_t *bytes);
int store_named(const void *name);
/* Returns the handle that was overwritten, or 0. */
uint64_t pool_put(struct pool *pool, uint64_t handle, uint64_t version);
bool pool_get(struct pool *pool, uint32_t which, uint64_t *handle, uint64_t *version);
void pool_update(struct pool *pool, uint64_t handle, uint64_t to, uint64_t version);
void note(struct making *m, int fd, uint64_t request, const void *argument, const void *bytes,
	  uint32_t nr_bytes);
void random_gene(uint64_t *random, struct gene *gene);
/* Make one call, and count it. */
void call_make(struct caller *me, const struct call *call);

/* calls_describe.c: the fields of one operation; the index is LSMEM_OP_* - 1 */
#define OP_FIELDS	11u
#define OPS		5u
extern const struct field op_fields[OPS][OP_FIELDS];
void op_done(struct making *m, const struct lsmem_op *op, long ret);

/* calls_repl.c: for calls of a daemon */
uint8_t *place_array(struct making *m, const struct gene *gene, uint32_t offset, uint32_t length,
		     bool out);
long repl_call(struct making *m, unsigned long request);
/* calls_run.c: reserve addresses, so that no other mapping gets them */
void reserve(void *at, size_t length);
/* calls_run.c: madvise(), mlock() and the like */
long advise(struct making *m, const struct gene *gene, uint8_t *at, size_t length);
/* calls_pages.c: record what a call on ranges has returned */
void pages_done(struct making *m, const uint8_t *bytes, long ret);
void page_done(struct making *m, const uint8_t *bytes, long ret);
/* calls_tier.c: the length that a segment has on the backups that callers make up */
uint32_t segment_sealed(uint64_t segment);
/* Place all objects of a segment.  Returns 0 or a negative errno. */
int segment_place(int fd, uint64_t segment);

/* calls_run.c, calls_repl.c, calls_tier.c, calls_pages.c */
long run_vector(struct making *m);
long run_through(struct making *m);
long run_uring(struct making *m);
long run_unknown(struct making *m);
long run_file(struct making *m);
long run_watch(struct making *m);
long run_open(struct making *m);
long run_close(struct making *m);
long run_dup(struct making *m);
long run_pass(struct making *m);
long run_mmap(struct making *m);
long run_munmap(struct making *m);
long run_mprotect(struct making *m);
long run_mremap(struct making *m);
long run_madvise(struct making *m);
long run_touch(struct making *m);
long run_scribble(struct making *m);
long run_memory(struct making *m);
long run_flip(struct making *m);
long run_fork(struct making *m);
long run_sysfs_read(struct making *m);
long run_sysfs_write(struct making *m);
long run_debugfs(struct making *m);
long run_block_io(struct making *m);
long run_block_range(struct making *m);
long run_block_ioctl(struct making *m);
long run_next(struct making *m);
long run_ack(struct making *m);
long run_load(struct making *m);
long run_clean(struct making *m);
long run_fetch(struct making *m);
long run_fill(struct making *m);
long run_near(struct making *m);
long run_bring(struct making *m);
long run_freeze(struct making *m);
long run_words(struct making *m);
long run_place(struct making *m);
long run_poll(struct making *m);
long run_range_forge(struct making *m);
long run_range_file(struct making *m);
long run_range_map(struct making *m);
long run_range_touch(struct making *m);
long run_range_advise(struct making *m);
long run_range_remap(struct making *m);
void limits_lower(const char *name);

/* ---- The rest ----------------------------------------------------------- */

/* An attribute that callers may write, and its range. */
struct limit {
	const char *name;
	unsigned long min, max;	/* what the kernel accepts */
	unsigned long low, high;	/* what callers write, so that no call waits long */
	bool objects;		/* only of object stores: it would make block I/O fail */
};

extern const struct limit limits[];
extern const uint32_t nr_limits;

/* calls_cover.c */
bool cover_open(int *fds, uint32_t nr);
void cover_start(struct caller *me, int fd);
void caller_main(struct caller *me);

/* calls_load.c: the main function of the load's process; ends after shared->stop */
_Noreturn void load_main(void);

#endif
