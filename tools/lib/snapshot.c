// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: scans in the order of memory.
 *
 * The kernel has frozen the live bitmap at a version, and keeps the bytes back that it leads to
 * (struct lsmem_snapshot_page).  Entries never change in place, so rows are used where they lie.
 * All this holds as long as the snapshot stands.  Its state is looked at before a batch is given to the
 * caller, so that no pointer and no length is wrong, and afterwards, because the bytes were used meanwhile.
 * Until then what is read can be anything: each step is checked against its bounds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* The function that <lsmem/lsmem_format.h> leaves to its users; the name stays inside. */
#define lsmem_crc32c	lsm_crc32c

#include "scan.h"

/* Dead entries are walked over for so many bytes; over more, a trial is faster. */
#define WALK_MAX	1024u
/* Bits whose entries are fetched ahead, and how much of each at most */
#define AHEAD		24u
#define FETCH_MAX	2048u
/* A batch has not many more bytes than this: they were fetched ahead, and are to be found in the nearest cache. */
#define BATCH_BYTES	16384u
/* Behind an entry that was fetched, in a tiered store */
#define TRAILER_BYTES	8u
/* Units of work of what was not in memory, and of what of that has changed */
#define COLD_UNIT	262144u
#define LATE_UNIT	1024u

/**
 * struct lsm_snapshot - an open snapshot
 * @fd: its descriptor
 * @window: its pages
 * @bytes: of @window
 * @page: the first of them
 * @livemap: frozen live bitmap
 * @salts: of the CRCs, by seglet
 * @late: of a tiered store: the late bitmap, likewise
 * @trailers: likewise: seglets in which each entry has a trailer
 * @cold: likewise: indices of objects that are still to be read; NULL: the store is not tiered
 * @version: objects are seen as at this version
 * @done: what the kernel was told last; protected by lsm_run.lock
 */
struct lsm_snapshot {
	int fd;
	void *window;
	uint64_t bytes;
	const struct lsmem_snapshot_page *page;
	const uint64_t *livemap;
	const uint32_t *salts;
	const uint64_t *late;
	const uint64_t *trailers;
	const uint64_t *cold;
	uint64_t version;
	uint64_t done;
};

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_fast(uint32_t seed, const uint8_t *bytes, size_t length)
{
	uint64_t wide = seed, word;

	for (; length >= sizeof(word); length -= sizeof(word), bytes += sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		wide = __builtin_ia32_crc32di(wide, word);
	}
	seed = (uint32_t)wide;
	while (length--)
		seed = __builtin_ia32_crc32qi(seed, *bytes++);
	return seed;
}
#endif

/**
 * lsm_crc32c() - CRC-32C of bytes, by four bits at a time where the processor has no instruction
 * @seed: start value, or the CRC of the bytes before
 * @data: bytes
 * @length: how many
 */
__u32 lsm_crc32c(__u32 seed, const void *data, __kernel_size_t length)
{
	static const uint32_t nibbles[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
		0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	const uint8_t *bytes = data;

#if defined(__x86_64__)
	if (__builtin_cpu_supports("sse4.2"))
		return crc_fast(seed, bytes, length);
#endif
	while (length--) {
		seed ^= *bytes++;
		seed = seed >> 4 ^ nibbles[seed & 15];
		seed = seed >> 4 ^ nibbles[seed & 15];
	}
	return seed;
}

/* ---- The snapshot ---------------------------------------------------------- */

/* True when @window lies in the snapshot's window and holds @nr items of @bytes. */
static bool holds(const struct lsm_snapshot *snapshot, const struct lsmem_window *window, uint64_t nr,
		  uint64_t bytes)
{
	return window->offset <= snapshot->bytes && window->length <= snapshot->bytes - window->offset &&
	       window->length / bytes >= nr && window->offset % sizeof(uint64_t) == 0;
}

static int check_page(const struct lsm *lsm, struct lsm_snapshot *snapshot)
{
	struct lsmem_snapshot_page page;

	if (snapshot->bytes < sizeof(page))
		return -EPROTO;
	memcpy(&page, snapshot->window, sizeof(page));
	if (page.magic != LSMEM_SNAPSHOT_MAGIC || page.length < sizeof(page) ||
	    page.nr_seglets != lsm->nr_seglets ||
	    !holds(snapshot, &page.livemap, lsm->nr_seglets, LSM_LIVE_WORDS * sizeof(uint64_t)) ||
	    !holds(snapshot, &page.salts, lsm->nr_seglets, sizeof(uint32_t)))
		return -EPROTO;
	if (page.cold.length &&
	    (!holds(snapshot, &page.late, lsm->nr_seglets, LSM_LIVE_WORDS * sizeof(uint64_t)) ||
	     !holds(snapshot, &page.trailers, (lsm->nr_seglets + 63) / 64, sizeof(uint64_t)) ||
	     !holds(snapshot, &page.cold, (lsm->nr_handles + 63) / 64, sizeof(uint64_t))))
		return -EPROTO;
	if (page.cold.length) {
		snapshot->late = (const void *)((const uint8_t *)snapshot->window + page.late.offset);
		snapshot->trailers = (const void *)((const uint8_t *)snapshot->window + page.trailers.offset);
		snapshot->cold = (const void *)((const uint8_t *)snapshot->window + page.cold.offset);
	}
	snapshot->page = snapshot->window;
	snapshot->livemap = (const void *)((const uint8_t *)snapshot->window + page.livemap.offset);
	snapshot->salts = (const void *)((const uint8_t *)snapshot->window + page.salts.offset);
	return 0;
}

/**
 * lsm_snapshot_open() - freeze the store for a scan
 * @run: scan; sets its snapshot and the version of its result
 *
 * Return: 0; -EPROTO: another ABI; as LSMEM_IOC_SNAPSHOT.
 */
int lsm_snapshot_open(struct lsm_run *run)
{
	struct lsmem_snapshot call = { .size = sizeof(call), .kept_max = run->scan->kept_max,
				       .time_ms = run->scan->time_ms };
	struct lsm_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	int ret;

	if (!snapshot)
		return -ENOMEM;
	snapshot->fd = -1;
	ret = run->lsm->call(run->lsm, LSMEM_IOC_SNAPSHOT, &call);
	if (ret)
		goto fail;
	snapshot->fd = call.fd;
	snapshot->bytes = call.bytes;
	snapshot->version = call.version;
	snapshot->window = mmap(NULL, call.bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, call.fd, 0);
	if (snapshot->window == MAP_FAILED) {
		ret = -errno;
		snapshot->window = NULL;
		goto fail;
	}
	ret = check_page(run->lsm, snapshot);
	if (ret)
		goto fail;
	run->snapshot = snapshot;
	run->result.version = call.version;
	return 0;
fail:
	run->snapshot = snapshot;
	lsm_snapshot_close(run);
	return ret;
}

/**
 * lsm_snapshot_close() - let the kernel free what it kept back
 * @run: scan
 */
void lsm_snapshot_close(struct lsm_run *run)
{
	struct lsm_snapshot *snapshot = run->snapshot;

	if (!snapshot)
		return;
	if (snapshot->window)
		munmap(snapshot->window, snapshot->bytes);
	if (snapshot->fd >= 0)
		close(snapshot->fd);
	free(snapshot);
	run->snapshot = NULL;
}

/**
 * lsm_snapshot_stands() - were all bytes that this thread has read those of the snapshot?
 * @run: scan
 *
 * Return: 0; -ECANCELED: not certain.
 */
int lsm_snapshot_stands(const struct lsm_run *run)
{
	if (!run->snapshot)
		return 0;
	/* The loads of bytes come before that of the state: see struct lsmem_snapshot_page. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&run->snapshot->page->state, __ATOMIC_RELAXED) == LSMEM_SNAPSHOT_STANDS ?
	       0 : -ECANCELED;
}

/**
 * lsm_snapshot_done() - tell the kernel how far the scan is
 * @run: scan; its lock is held
 * @seglet: entries that begin before it are done with
 *
 * Return: 0; -ECANCELED.
 */
int lsm_snapshot_done(struct lsm_run *run, uint64_t seglet)
{
	struct lsmem_snapshot_done call = { .size = sizeof(call) };
	struct lsm_snapshot *snapshot = run->snapshot;

	if (run->part == LSM_PART_LATE)
		seglet += run->lsm->nr_seglets;
	call.seglet = (uint32_t)seglet;
	/* A call for each segment's worth of seglets. */
	if (seglet < snapshot->done + LSMEM_SEGLETS)
		return 0;
	snapshot->done = seglet;
	return ioctl(snapshot->fd, LSMEM_IOC_SNAPSHOT_DONE, &call) < 0 ? -errno : 0;
}

/**
 * lsm_snapshot_tiered() - is it a snapshot with objects that were not in memory?
 * @run: scan
 */
bool lsm_snapshot_tiered(const struct lsm_run *run)
{
	return run->snapshot && run->snapshot->cold;
}

/**
 * lsm_snapshot_next() - begin the next part of the scan
 * @run: scan, none of whose threads runs
 *
 * Return: 1; 0: there is none; -ECANCELED.
 */
int lsm_snapshot_next(struct lsm_run *run)
{
	struct lsmem_snapshot_done call = { .size = sizeof(call), .seglet = (uint32_t)run->lsm->nr_seglets };
	bool cold = run->part == LSM_PART_MEMORY;

	if (!lsm_snapshot_tiered(run) || run->part == LSM_PART_LATE)
		return 0;
	if (!cold)
		call.flags = LSMEM_SNAPSHOT_SETTLE;
	if (ioctl(run->snapshot->fd, LSMEM_IOC_SNAPSHOT_DONE, &call) < 0)
		return -errno;
	run->snapshot->done = call.seglet;
	run->part = cold ? LSM_PART_COLD : LSM_PART_LATE;
	run->total = cold ? run->lsm->nr_handles : run->lsm->nr_seglets;
	if (cold)
		run->unit = COLD_UNIT;
	else
		run->unit = LATE_UNIT;
	run->next = 0;
	return 1;
}

/* ---- Entries --------------------------------------------------------------- */

static void read_entry(const struct lsm *lsm, uint32_t seglet, uint32_t offset, struct lsmem_entry *entry)
{
	memcpy(entry, lsm_seglet_bytes(lsm, seglet) + offset, sizeof(*entry));
	/* What is checked from now on is the copy. */
	__asm__ volatile("" : : : "memory");
}

/*
 * Goes through @length bytes from @offset on: copies them to @to, or with NULL, updates *crc.  False: the chain
 * of seglets is too short.
 */
static bool follow(const struct lsm *lsm, uint32_t seglet, uint32_t offset, uint32_t length, uint8_t *to,
		   uint32_t *crc)
{
	uint32_t piece;

	while (length) {
		if (offset == LSMEM_SEGLET_BYTES) {
			if (!lsm_next_seglet(lsm, &seglet))
				return false;
			offset = 0;
		}
		piece = LSMEM_SEGLET_BYTES - offset;
		if (piece > length)
			piece = length;
		if (to) {
			memcpy(to, lsm_seglet_bytes(lsm, seglet) + offset, piece);
			to += piece;
		} else {
			*crc = lsm_crc32c(*crc, lsm_seglet_bytes(lsm, seglet) + offset, piece);
		}
		offset += piece;
		length -= piece;
	}
	return true;
}

/* Is there an entry at @offset?  Its CRC tells. */
static bool entry_valid(const struct lsm_worker *worker, uint32_t seglet, uint32_t offset,
			const struct lsmem_entry *entry)
{
	const struct lsm *lsm = worker->run->lsm;
	uint32_t crc = ~0u;

	if (!lsmem_entry_sane(entry))
		return false;
	if (lsmem_entry_covers(entry) && !follow(lsm, seglet, offset + lsmem_entry_header(entry),
						 lsmem_entry_length(entry), NULL, &crc))
		return false;
	return __le32_to_cpu(entry->crc) == lsmem_entry_crc(entry, crc, worker->run->snapshot->salts[seglet]);
}

/*
 * Finds the entry in the bytes of a bit, from @at on.  @known: where an entry begins, or behind @at.  @trailer: bytes
 * behind each entry.  Return: its offset; LSMEM_SEGLET_BYTES: there is none.
 */
static uint32_t find_entry(const struct lsm_worker *worker, uint32_t seglet, uint32_t at, uint32_t known,
			   uint32_t trailer, struct lsmem_entry *entry)
{
	const uint32_t last = LSMEM_SEGLET_BYTES - LSMEM_LONG_BYTES;
	uint32_t offset;

	for (offset = known; offset <= at && at - offset < WALK_MAX && offset <= last;
	     offset = lsmem_entry_start(offset + lsmem_entry_bytes(entry) + trailer)) {
		read_entry(worker->run->lsm, seglet, offset, entry);
		if (offset == at)
			return offset;
		if (!lsmem_entry_sane(entry))
			break;
	}
	if (offset > at && offset < at + LSM_LIVE_BYTES && offset <= last) {
		read_entry(worker->run->lsm, seglet, offset, entry);
		return offset;
	}
	for (offset = at; offset < at + LSM_LIVE_BYTES && offset <= last; offset += LSMEM_ALIGN) {
		read_entry(worker->run->lsm, seglet, offset, entry);
		if (entry_valid(worker, seglet, offset, entry))
			return offset;
	}
	return LSMEM_SEGLET_BYTES;
}

/* ---- Rows ------------------------------------------------------------------ */

/* Adds an object to the batch: in place, or a copy if it is in several pieces. */
static int add_row(struct lsm_worker *worker, uint32_t seglet, uint32_t offset,
		   const struct lsmem_entry *entry)
{
	const struct lsm_scan *scan = worker->run->scan;
	const struct lsm *lsm = worker->run->lsm;
	uint32_t length = lsmem_entry_length(entry), bytes = length;
	struct lsm_row *row;
	int ret;

	offset += lsmem_entry_header(entry);
	if (scan->prefix && scan->prefix < bytes)
		bytes = scan->prefix;
	if (worker->nr_rows == LSM_BATCH ||
	    (offset + bytes > LSMEM_SEGLET_BYTES && bytes > worker->room - worker->used)) {
		ret = lsm_batch_deliver(worker);
		if (ret)
			return ret;
	}
	row = &worker->rows[worker->nr_rows];
	*row = (struct lsm_row){
		.handle = lsmem_entry_handle(entry), .version = lsmem_entry_version(entry),
		.data = lsm_seglet_bytes(lsm, seglet) + offset, .bytes = bytes, .length = length,
		.table = lsmem_entry_table(entry),
	};
	if (offset + bytes > LSMEM_SEGLET_BYTES) {
		row->data = worker->buffer + worker->used;
		if (!follow(lsm, seglet, offset, bytes, worker->buffer + worker->used, NULL))
			return lsm_snapshot_stands(worker->run) ? -ECANCELED : -EUCLEAN;
		worker->used += lsmem_align(bytes);
		worker->result.copied++;
	}
	worker->nr_rows++;
	worker->row_bytes += bytes;
	return worker->row_bytes < BATCH_BYTES ? 0 : lsm_batch_deliver(worker);
}

/* Adds the numbers of the bits of @word, the lowest of which is @first, to @bits.  Return: how many. */
static uint32_t spread(uint64_t word, uint32_t first, uint16_t *bits)
{
	uint32_t nr = 0;

	for (; word; word &= word - 1)
		bits[nr++] = (uint16_t)(first + (uint32_t)__builtin_ctzll(word));
	return nr;
}

/*
 * Lists the bits of a seglet in @bits, and behind them those of the next seglet whose entries are to be fetched while
 * the last ones of this are looked at.  Return: how many this seglet has.
 */
static uint32_t list_bits(const struct lsm_run *run, uint32_t seglet, uint16_t *bits)
{
	const uint64_t *livemap = (run->part == LSM_PART_LATE ? run->snapshot->late : run->snapshot->livemap) +
				  (size_t)seglet * LSM_LIVE_WORDS;
	uint32_t words = seglet + 1 < run->lsm->nr_seglets ? 2 * LSM_LIVE_WORDS : LSM_LIVE_WORDS, nr = 0, end, i;

	for (i = 0; i < LSM_LIVE_WORDS; i++)
		nr += spread(livemap[i], i * 64, bits + nr);
	for (end = nr; nr && i < words && end <= nr + AHEAD; i++)
		end += spread(livemap[i], i * 64, bits + end);
	for (; nr && end <= nr + AHEAD; end++)
		bits[end] = bits[end - 1];
	return nr;
}

/* How much of an entry is to be fetched. */
static uint32_t fetch_bytes(const struct lsm_scan *scan)
{
	return scan->prefix && scan->prefix < FETCH_MAX ? scan->prefix + LSMEM_LONG_BYTES : FETCH_MAX;
}

/*
 * Fetches up to @bytes of the entry at @bit into the cache, but not of the next one, at @next.  In line, because
 * compilers leave out calls of a function that only fetches.
 */
static inline __attribute__((always_inline)) void fetch(const uint8_t *base, uint32_t bit, uint32_t next,
							uint32_t bytes)
{
	uint32_t at;

	base += (size_t)bit * LSM_LIVE_BYTES;
	__builtin_prefetch(base);
	__builtin_prefetch(base + LSM_CACHE_LINE);
	if (bytes > (next - bit) * LSM_LIVE_BYTES)
		bytes = (next - bit) * LSM_LIVE_BYTES;
	for (at = 2 * LSM_CACHE_LINE; at < bytes + LSM_LIVE_BYTES; at += LSM_CACHE_LINE)
		__builtin_prefetch(base + at);
}

/* Bytes behind each entry of a seglet. */
static uint32_t trailer_of(const struct lsm_snapshot *snapshot, uint32_t seglet)
{
	return snapshot->trailers && snapshot->trailers[seglet / 64] >> seglet % 64 & 1 ? TRAILER_BYTES : 0;
}

static int scan_seglet(struct lsm_worker *worker, uint32_t seglet)
{
	const struct lsm_run *run = worker->run;
	const uint8_t *base = lsm_seglet_bytes(run->lsm, seglet);
	/* An entry that ends there is known; at first none is. */
	uint32_t known = LSMEM_SEGLET_BYTES, bytes = fetch_bytes(run->scan), nr, i, offset;
	uint32_t trailer = trailer_of(run->snapshot, seglet);
	/* A word of the next seglet can have more bits than are needed. */
	uint16_t bits[LSM_LIVE_WORDS * 64 + AHEAD + 64];
	struct lsmem_entry entry;
	uint64_t handle;
	int ret;

	nr = list_bits(run, seglet, bits);
	for (i = 0; i < nr; i++) {
		fetch(base, bits[i + AHEAD - 1], bits[i + AHEAD], bytes);
		offset = find_entry(worker, seglet, bits[i] * LSM_LIVE_BYTES, known, trailer, &entry);
		if (offset == LSMEM_SEGLET_BYTES || !lsmem_entry_sane(&entry))
			return lsm_snapshot_stands(run) ? -ECANCELED : -EUCLEAN;
		known = lsmem_entry_start(offset + lsmem_entry_bytes(&entry) + trailer);
		handle = lsmem_entry_handle(&entry);
		if (lsmem_entry_type(&entry) != LSMEM_TYPE_OBJECT ||
		    lsmem_entry_version(&entry) > run->snapshot->version ||
		    lsmem_handle_index(handle) >= run->lsm->nr_handles ||
		    !lsm_in_range(run->scan, handle) || !lsm_wanted(run, handle))
			continue;
		worker->found++;
		if (!lsm_suits(run->scan, lsmem_entry_version(&entry), lsmem_entry_length(&entry),
			       lsmem_entry_table(&entry)))
			continue;
		ret = add_row(worker, seglet, offset, &entry);
		if (ret)
			return ret;
	}
	return 0;
}

/**
 * lsm_snapshot_seglets() - give the objects in some seglets to the caller
 * @worker: thread
 * @from: first seglet
 * @to: last seglet + 1
 *
 * Return: 0; -ECANCELED: the snapshot is revoked; -EUCLEAN: there is no entry where a bit says so; what
 * the caller's function returned.
 */
int lsm_snapshot_seglets(struct lsm_worker *worker, uint64_t from, uint64_t to)
{
	int ret = 0;

	for (; !ret && from < to; from++)
		ret = scan_seglet(worker, (uint32_t)from);
	return ret ? ret : lsm_batch_deliver(worker);
}

/* ---- What was not in memory ------------------------------------------------- */

/**
 * struct cold - an object that was not in memory
 * @place: its handle word: where it is now
 * @index: of the object
 */
struct cold {
	uint64_t place;
	uint64_t index;
};

static int cold_cmp(const void *a, const void *b)
{
	const struct cold *x = a, *y = b;

	return x->place < y->place ? -1 : x->place > y->place;
}

/* Lists the objects with indices @from .. @to - 1 that are still to be read.  Return: how many. */
static size_t list_cold(const struct lsm_run *run, uint64_t from, uint64_t to, struct cold *colds)
{
	const struct lsm *lsm = run->lsm;
	uint64_t word, index;
	size_t nr = 0;

	for (; from < to; from += 64) {
		word = __atomic_load_n(&run->snapshot->cold[from / 64], __ATOMIC_RELAXED);
		if (run->members)
			word &= run->members[from / 64];
		for (; word; word &= word - 1) {
			index = from + (uint64_t)__builtin_ctzll(word);
			if (index >= to || !lsm_in_range(run->scan, index))
				continue;
			colds[nr].index = index;
			colds[nr++].place = __atomic_load_n(&lsm->handles[index].word, __ATOMIC_RELAXED) &
					    ((1ull << (LSMEM_WORD_STATE_SHIFT + LSMEM_WORD_STATE_BITS)) - 1);
		}
	}
	/* What lies together on the backups is read together. */
	qsort(colds, nr, sizeof(*colds), cold_cmp);
	return nr;
}

/* The most that an object can need of the buffer. */
static uint32_t cold_room(const struct lsm_run *run, const struct cold *cold)
{
	uint32_t room = FETCH_MAX;

	if (cold->place >> LSMEM_WORD_STATE_SHIFT == LSMEM_WORD_COLD)
		room = lsmem_cold_blocks(cold->place) * LSMEM_BLOCK;
	if (run->scan->prefix && run->scan->prefix < room)
		room = lsmem_align(run->scan->prefix);
	return room < LSMEM_OBJECT_MAX ? room : LSMEM_OBJECT_MAX;
}

static int read_cold(const struct lsm_run *run, struct lsmem_op *ops, uint32_t nr)
{
	struct lsmem_snapshot_read call = { .size = sizeof(call), .ops = (uintptr_t)ops, .nr = nr,
					    .prefix = run->scan->prefix };

	return ioctl(run->snapshot->fd, LSMEM_IOC_SNAPSHOT_READ, &call) < 0 ? -errno : 0;
}

/* Adds an object that was read, if it is wanted.  There is room for it. */
static void add_cold(struct lsm_worker *worker, const struct lsmem_op *op)
{
	const struct lsm_scan *scan = worker->run->scan;
	uint32_t bytes = scan->prefix && scan->prefix < op->length ? scan->prefix : op->length;

	if (!lsm_wanted(worker->run, op->handle))
		return;
	worker->found++;
	if (lsm_suits(scan, op->version, op->object_length, op->table))
		worker->rows[worker->nr_rows++] = (struct lsm_row){
			.handle = op->handle, .version = op->version, .data = (const void *)(uintptr_t)op->data,
			.bytes = bytes, .length = op->object_length, .table = op->table,
		};
}

static struct lsmem_op cold_op(uint64_t index, uint8_t *data, uint32_t room)
{
	struct lsmem_op op = lsm_op_read(index, data, room, 0);

	op.flags = LSMEM_OPF_INDEX;
	return op;
}

/* Reads an object that needs more room than was thought, and gives it to the caller. */
static int add_cold_big(struct lsm_worker *worker, uint64_t index)
{
	struct lsmem_op op;
	int ret;

	ret = lsm_worker_big(worker);
	if (ret)
		return ret;
	op = cold_op(index, worker->big, LSMEM_OBJECT_MAX);
	ret = read_cold(worker->run, &op, 1);
	if (!ret)
		ret = op.result;
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	add_cold(worker, &op);
	return lsm_batch_deliver(worker);
}

/* Reads up to @nr objects together, and gives them to the caller.  Return: how many, or a negative errno. */
static ssize_t scan_cold(struct lsm_worker *worker, const struct cold *colds, size_t nr)
{
	struct lsmem_op ops[LSM_BATCH];
	size_t used = 0, some, i;
	uint32_t room;
	int ret;

	_Static_assert(LSM_BATCH <= LSMEM_SNAPSHOT_READ_MAX, "a batch is a call");
	for (some = 0; some < nr && some < LSM_BATCH; some++) {
		room = cold_room(worker->run, &colds[some]);
		if (used + room > worker->room)
			break;
		ops[some] = cold_op(colds[some].index, worker->buffer + used, room);
		used += room;
	}
	ret = read_cold(worker->run, ops, (uint32_t)some);
	if (ret)
		return ret;
	for (i = 0; i < some; i++) {
		if (!ops[i].result)
			add_cold(worker, &ops[i]);
		else if (ops[i].result != -ENOENT && ops[i].result != -EMSGSIZE)
			return ops[i].result;
	}
	ret = lsm_batch_deliver(worker);
	for (i = 0; !ret && i < some; i++)
		if (ops[i].result == -EMSGSIZE)
			ret = add_cold_big(worker, colds[i].index);
	return ret ? ret : (ssize_t)some;
}

/**
 * lsm_snapshot_cold() - give objects to the caller that were not in memory
 * @worker: thread
 * @from: first index, of a unit of work
 * @to: last index + 1
 *
 * Return: as lsm_snapshot_seglets(); -ENOMEM; as LSMEM_IOC_SNAPSHOT_READ and the results of its operations.
 */
int lsm_snapshot_cold(struct lsm_worker *worker, uint64_t from, uint64_t to)
{
	struct cold *colds = malloc((size_t)(to - from) * sizeof(*colds));
	size_t nr, done = 0;
	ssize_t ret = 0;

	if (!colds)
		return -ENOMEM;
	nr = list_cold(worker->run, from, to, colds);
	while (done < nr && ret >= 0) {
		ret = scan_cold(worker, colds + done, nr - done);
		done += ret > 0 ? (size_t)ret : 0;
	}
	free(colds);
	return ret < 0 ? (int)ret : 0;
}
