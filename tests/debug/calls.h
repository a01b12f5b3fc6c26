/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random callers of everything that lsmem lets in.
 *
 * A program is a few calls; a call is a line of a table (calls_describe.c) and a
 * gene for each of its fields, which says how the field is made: valid, at a
 * bound, of something that has gone, of something else, garbage, none.  What
 * calls return (handles, descriptors, windows, events) is kept, and later calls
 * use it.  Where the kernel has KCOV, programs that reached new code of the
 * module are kept and come again, changed.
 *
 *	calls.c			processes, the watch over them, what was found
 *	calls_describe.c	the calls and their fields
 *	calls_make.c		how fields, buffers and descriptors are made
 *	calls_run.c		calls that are no plain ioctl
 *	calls_repl.c		a daemon that knows what it does, and does not
 *	calls_cover.c		programs: made, changed, kept
 *	calls_load.c		what goes on meanwhile, and must go well
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

#define NOBODY		65534u
#define PAGE		4096u
#define ERRNOS		134
#define GENES		16	/* of a call */
#define PROGRAM		10	/* calls of a program */
#define CALLERS		6
#define PROCESSES	3
#define THREADS		2	/* of a process */
#define KINDS_MAX	64

/* ---- Stores ------------------------------------------------------------- */

/* The first three are there from beginning to end, and have their daemon. */
enum {
	STORE_WORK,		/* volatile, objects */
	STORE_DURABLE,		/* objects; followed */
	STORE_BLOCK,		/* volatile, blocks */
	STORE_DYNAMIC,		/* those that callers make and destroy */
	STORES = STORE_DYNAMIC + 3,
};

#define POOL		512	/* handles remembered of a store */
#define WORK_HANDLES	40000u
#define LOAD_BLOCKS	4u	/* the last 1/n of the block store is the load's */

/* Handles that calls have given or taken back; 0: none. */
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
	_Atomic uint64_t segment;	/* that was loaded last */
	struct pool live;
	struct pool stale;
};

/* ---- Programs ----------------------------------------------------------- */

/**
 * struct gene - how one field is made
 * @how: class, see how_of()
 * @at: where a pointer points, see place()
 * @small, @bits: which of its class
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

/* ---- What all processes share ------------------------------------------- */

/* What can go wrong: each is a test. */
enum verdict {
	VERDICT_HANG,
	VERDICT_DEATH,
	VERDICT_PRIVILEGE,
	VERDICT_REFUSED,
	VERDICT_BEYOND,
	VERDICT_LOAD,
	VERDICTS,
};

/* What a caller is doing: written by it, looked at by the parent. */
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
	uint64_t ns[KINDS_MAX];		/* all that were timed */
};

#define CORPUS		1024
#define COVER_BITS	(1u << 21)

struct shared {
	_Atomic bool stop;
	_Atomic uint64_t made;	/* stores made by callers */
	struct store_slot store[STORES];
	_Atomic uint64_t owned[WORK_HANDLES / 64 + 1];	/* indices of the load's own objects */
	struct lsmem_info info;		/* of STORE_WORK */
	uint64_t block_bytes;		/* of STORE_BLOCK */
	uint64_t budget;		/* calls wanted in all */
	int passing[2];			/* sockets through which descriptors pass */
	struct progress progress[CALLERS];
	_Atomic uint64_t failures[VERDICTS];
	char failure[VERDICTS][240];
	_Atomic uint64_t sweeps;	/* of stores that were full */
	_Atomic uint64_t refusals;	/* calls of which the errno was known */
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
	FD_OBJECT,	/* of an object store */
	FD_CONTROL,
	FD_REPL,
	FD_BLOCK,
	FD_OTHER,	/* not lsmem's */
	FD_KINDS,
};

struct fd_slot {
	_Atomic int fd;		/* -1: none */
	_Atomic int kind;
	_Atomic int store;
};

#define FD_SLOTS	24
#define MODES		3	/* O_RDONLY, O_WRONLY, O_RDWR */

/**
 * struct process - what the threads of a process share
 * @pinned: descriptors that are never closed: object stores by access mode
 * @block: of the block store: through the page cache, and O_DIRECT
 * @fds: those that come and go
 */
struct process {
	bool root;
	int pinned[2][MODES];
	int block[2];
	int control;
	int null;
	struct fd_slot fds[FD_SLOTS];
	struct caller *callers;
};

#define MAPS		8
#define MAP_ROOM	(256ull << 20)	/* of address space for a window */

enum window { WINDOW_INFO, WINDOW_SEGLETS, WINDOW_TABLE, WINDOW_HANDLES, WINDOW_SLOTS, WINDOWS };

struct map_slot {
	size_t length;		/* 0: nothing mapped */
	enum window window;
	bool writable;
	bool daemon;		/* of a replication descriptor */
};

#define HEAP_BYTES	(6u << 20)
#define HEAP_VECTOR	(64u << 10)	/* where operations lie */
#define HEAP_ARRAY	(512u << 10)	/* events, acknowledgements, entries */
#define HEAP_DATA	(2u << 20)
#define AREA_BYTES	(2u << 20)
#define GUARD		64u		/* bytes that are watched beyond a buffer */

struct caller {
	struct process *process;
	struct progress *progress;
	uint64_t random;
	uint8_t *heap;
	uint8_t *edge;		/* what is there ends here */
	uint8_t *constant;	/* may only be read */
	uint8_t *flip;		/* comes and goes */
	uint8_t *arena;		/* windows, MAP_ROOM for each */
	struct map_slot map[MAPS];
	struct lsmem_event events[256];
	uint32_t nr_events;
	uint32_t generation_wanted;
	bool child;		/* forked for a moment */
	uint64_t *kcov;
	uint32_t (*counts)[ERRNOS];
};

/* Reading or writing memory that may not be there; false on SIGSEGV, SIGBUS. */
struct way_back {
	sigjmp_buf at;
};

extern __thread struct way_back *touching;
bool touch_copy(void *to, const void *from, size_t length);

/* ---- Making ------------------------------------------------------------- */

enum field_kind {
	FIELD_SIZE,	/* of the structure */
	FIELD_CONST,	/* @low and nothing else, or @error */
	FIELD_ZERO,	/* reserved */
	FIELD_FLAGS,	/* of @low */
	FIELD_ANY,	/* whatever it is */
	FIELD_NUMBER,	/* @low .. @high, or @error */
	FIELD_HANDLE,
	FIELD_VERSION,
	FIELD_LENGTH,	/* of data that come: 1 .. the largest object */
	FIELD_ROOM,	/* for data that go: 0 .. */
	FIELD_IN,	/* pointer to the data that come */
	FIELD_OUT,	/* ... and that go */
	FIELD_OFFSET,	/* in an object */
	FIELD_TIMEOUT,
	FIELD_STORE,	/* name */
	FIELD_BYTES,	/* of a store */
	FIELD_HANDLES,	/* of a store */
	FIELD_UUID,
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
 * struct making - a call being made
 * @store: slot of the store it is for, -1: unknown
 * @from: where the descriptor came from, if it may go meanwhile
 * @sure: the descriptor is what it should be, whatever other threads do
 * @slot: where a store that is being made is to be noted, -1: none is made
 * @wrong: fields that are not valid
 * @expected: errno that the last of them gives if it is the only one, 0: unknown
 * @expect: LSMEM_OPF_EXPECT is set
 * @reads: it is an operation that changes nothing
 * @block_kind: the store that is being made is one of blocks
 * @length: of the data
 * @guard: bytes that must not be written
 */
struct making {
	struct caller *me;
	const struct call *call;
	uint64_t random;
	int fd;
	struct fd_slot *from;
	int store;
	bool durable;
	bool sure;
	uint32_t wrong;
	int expected;
	bool expect;
	bool reads;
	bool block_kind;
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
	uint32_t weight[2];	/* unprivileged, root; 0: never made */
	unsigned long request;
	uint32_t bytes;
	uint32_t first;		/* of the first version, 0: @bytes */
	const struct field *fields;
	uint32_t nr_fields;
	bool must;		/* all valid: it succeeds */
	bool never;		/* it never succeeds */
	void (*done)(struct making *m, const uint8_t *bytes, long ret);
	long (*run)(struct making *m);
};

extern const struct description descriptions[];
extern const uint32_t nr_descriptions;

/* May a caller change it?  Its store may be another than it seems: descriptors come and go. */
bool is_owned(uint64_t handle);
enum how how_of(const struct gene *gene);
void is_wrong(struct making *m, int expected);
/* Where @length bytes are to be; @out: for the kernel to write. */
uint8_t *place(struct making *m, const struct gene *gene, uint32_t offset, uint32_t length,
	       bool out);
uint8_t *place_argument(struct making *m, const struct gene *gene);
uint32_t some_length(const struct gene *gene);
/* Was the answer right, as far as that is known? */
void judge(const struct making *m, const struct description *d, long ret);
void pick_fd(struct making *m, const struct gene *gene, enum fd_kind kind);
void keep_fd(struct process *process, int fd, enum fd_kind kind, int store);
void make_fields(struct making *m, const struct field *fields, uint32_t nr,
		 const struct gene *genes, uint8_t *bytes);
int store_named(const void *name);
/* Returns the handle that had to make room, or 0. */
uint64_t pool_put(struct pool *pool, uint64_t handle, uint64_t version);
bool pool_get(struct pool *pool, uint32_t which, uint64_t *handle, uint64_t *version);
void pool_update(struct pool *pool, uint64_t handle, uint64_t to, uint64_t version);
void note(struct making *m, int fd, uint64_t request, const void *argument, const void *bytes,
	  uint32_t nr_bytes);
void random_gene(uint64_t *random, struct gene *gene);
/* Make the call; counted. */
void call_make(struct caller *me, const struct call *call);

/* calls_describe.c: fields of one operation, LSMEM_OP_* - 1 */
#define OP_FIELDS	11u
extern const struct field op_fields[4][OP_FIELDS];
void op_done(struct making *m, const struct lsmem_op *op, long ret);

/* calls_run.c, calls_repl.c */
long run_vector(struct making *m);
long run_unknown(struct making *m);
long run_file(struct making *m);
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
long run_poll(struct making *m);
void limits_lower(const char *name);

/* ---- The rest ----------------------------------------------------------- */

/* An attribute that may be written, and within what. */
struct limit {
	const char *name;
	unsigned long min, max;	/* taken by the kernel */
	unsigned long low, high;	/* written by us: so that no call waits long */
	bool objects;		/* only of object stores: a block device's I/O would fail */
};

extern const struct limit limits[];
extern const uint32_t nr_limits;

/* calls_cover.c */
bool cover_open(int *fds, uint32_t nr);
void cover_start(struct caller *me, int fd);
void caller_main(struct caller *me);

/* calls_load.c: until shared->stop; never returns */
_Noreturn void load_main(void);

#endif
