// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: scans in the order of memory, without a kernel: the snapshot is a memory file.
 *
 * Logs are random: entries of all types and sizes, live, dead, and newer than the snapshot, in chains of seglets
 * in any order, with payloads that look like entries.  A scan must find exactly the live ones.  Then bytes of
 * headers, chains and the bitmap are broken at random: a scan may then fail, and must not read behind the
 * windows, each of which is followed by a page without access.  Scans of columns must gather what the objects have.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define lsmem_crc32c	lsm_crc32c

#include "internal.h"
#include "../common/content.h"
#include "../common/random.h"
#include "../common/tap.h"

#define SEGLETS		64u
#define HANDLES		8192u
#define LOGS		60
#define BROKEN		20	/* times that each log is broken */
#define PAGE		4096u
#define SALT		0x12345678u
#define VERSION		1000000u
#define ALL		(SEGLETS * LSMEM_SEGLET_BYTES)
#define MAP_BYTES	(ALL / 32 / 8)

/**
 * struct log - a store
 * @seglets: window
 * @table: window of the seglet table
 * @handles: window of the handle table, all FREE
 * @lsm: of the windows
 * @page: the snapshot, mapped
 * @fd: of the snapshot
 * @order: seglets in the order of the log
 * @state: of random numbers
 * @versions: by handle index: of the object that is live at VERSION; 0: none
 * @lengths: likewise
 * @seen: rows of an object
 * @wrong: rows that are not right
 * @revoke_at: the snapshot is revoked when so many batches were given; 0: never
 * @batches: given
 * @result: what batches return
 */
struct log {
	uint8_t *seglets;
	struct lsmem_seglet *table;
	struct lsmem_handle *handles;
	struct lsm *lsm;
	struct lsmem_snapshot_page *page;
	int fd;
	uint32_t order[SEGLETS];
	uint64_t state;
	uint64_t versions[HANDLES];
	uint32_t lengths[HANDLES];
	atomic_uint seen[HANDLES];
	atomic_uint wrong;
	uint32_t revoke_at;
	atomic_uint batches;
	int result;
};

/* Memory of whole pages, followed by a page without access. */
static void *window(size_t bytes)
{
	uint8_t *memory = mmap(NULL, bytes + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || mprotect(memory, bytes, PROT_READ | PROT_WRITE))
		abort();
	return memory;
}

static int call(struct lsm *lsm, unsigned long request, void *argument)
{
	struct log *log = lsm->private;
	struct lsmem_snapshot *snapshot = argument;
	struct lsmem_query *query = argument;
	struct lsmem_stat *stat = argument;

	switch (request) {
	case LSMEM_IOC_QUERY:
		query->features = LSMEM_FEATURE_SNAPSHOT | LSMEM_FEATURE_WINDOWS;
		return 0;
	case LSMEM_IOC_STAT:
		stat->handles_used = HANDLES;
		return 0;
	case LSMEM_IOC_SNAPSHOT:
		snapshot->version = VERSION;
		snapshot->bytes = 2 * PAGE + MAP_BYTES;
		snapshot->fd = dup(log->fd);
		return 0;
	default:
		return -ENOTTY;
	}
}

/* ---- Logs ------------------------------------------------------------------- */

static uint64_t *bitmap(const struct log *log)
{
	return (uint64_t *)((uint8_t *)log->page + 2 * PAGE);
}

/* Where byte @at of the log is. */
static uint8_t *place(const struct log *log, uint32_t at)
{
	return log->seglets + (size_t)log->order[at / LSMEM_SEGLET_BYTES] * LSMEM_SEGLET_BYTES +
	       at % LSMEM_SEGLET_BYTES;
}

/* Writes an entry at @at of the log.  Return: its end. */
static uint32_t write_entry(struct log *log, uint32_t at, struct lsmem_entry *entry, const uint8_t *payload)
{
	uint32_t length = lsmem_entry_length(entry), header = lsmem_entry_header(entry), i;
	uint32_t crc = lsmem_entry_covers(entry) ? lsmem_crc32c(~0u, payload, length) : ~0u;

	entry->crc = __cpu_to_le32(lsmem_entry_crc(entry, crc, SALT));
	memcpy(place(log, at), entry, header);
	for (i = 0; i < length; i++)
		*place(log, at + header + i) = payload[i];
	return at + lsmem_entry_bytes(entry);
}

static uint32_t random_length(struct log *log)
{
	uint32_t dice = random_below(&log->state, 100);

	return 1 + random_below(&log->state, dice < 60 ? 100 : dice < 98 ? 3000 : 200000);
}

/* Payload that begins as an entry, with the right CRC, and goes on as what may be one. */
static void make_trap(struct log *log, uint8_t *payload, uint32_t length)
{
	struct lsmem_entry entry;
	uint32_t i;

	for (i = 0; i + 8 <= length; i += 8) {
		uint64_t word = random_next(&log->state) >> (random_next(&log->state) % 64);

		memcpy(payload + i, &word, 8);
	}
	entry = lsmem_entry_make(LSMEM_TYPE_OBJECT, 8, lsmem_handle_make(random_below(&log->state, HANDLES), 1),
				 1 + random_below(&log->state, VERSION), 0, 0, 0);
	if (length < 32)
		return;
	entry.crc = __cpu_to_le32(lsmem_entry_crc(&entry, lsmem_crc32c(~0u, payload + 24, 8), SALT));
	memcpy(payload, &entry, 24);
}

/* Fills the log up to some byte.  A live object has the content of its handle and version. */
static void make_log(struct log *log)
{
	uint32_t end = random_below(&log->state, ALL), at = 0, index, length, type, bit, i, j, density;
	uint8_t *payload = malloc(LSMEM_OBJECT_MAX);
	struct lsmem_entry entry;
	uint64_t version, handle;

	for (i = 0; i < SEGLETS; i++)
		log->order[i] = i;
	for (i = random_chance(&log->state, 50) ? SEGLETS : 0; i > 1; i--) {
		j = random_below(&log->state, i);
		index = log->order[i - 1];
		log->order[i - 1] = log->order[j];
		log->order[j] = index;
	}
	for (i = 0; i < SEGLETS; i++)
		log->table[log->order[i]] = (struct lsmem_seglet){ .next = i + 1 < SEGLETS ? log->order[i + 1] :
									   LSMEM_NO_SEGLET };
	memset(log->seglets, 0, ALL);
	memset(bitmap(log), 0, MAP_BYTES);
	memset(log->versions, 0, sizeof(log->versions));
	density = random_below(&log->state, 100);
	for (;;) {
		at = lsmem_entry_start(at);
		length = random_length(log);
		if (at + length + 64 > end)
			break;
		index = random_below(&log->state, HANDLES);
		handle = lsmem_handle_make(index, 1 + index % 7);
		version = 1 + random_below(&log->state, 2 * VERSION);
		type = random_below(&log->state, 20);
		if (type < 2) {
			make_trap(log, payload, length);
			if (type)
				entry = lsmem_entry_make(LSMEM_TYPE_PAD, length, 0, 0, 0, 0, at);
			else
				entry = lsmem_entry_make(LSMEM_TYPE_TOMBSTONE, 5, handle, version, 3, 0, at);
			/* A bit that leads to something else. */
			bit = (uint32_t)(place(log, at) - log->seglets) / 32;
			if (random_chance(&log->state, 50))
				bitmap(log)[bit / 64] |= 1ull << bit % 64;
			at = write_entry(log, at, &entry, payload);
			continue;
		}
		entry = lsmem_entry_make(LSMEM_TYPE_OBJECT, length, handle, version, index % 32, index % LSMEM_TABLES, at);
		bit = (uint32_t)(place(log, at) - log->seglets) / 32;
		if ((version > VERSION || !log->versions[index]) && random_chance(&log->state, density)) {
			bitmap(log)[bit / 64] |= 1ull << bit % 64;
			content_fill(payload, length, handle, version);
			if (version <= VERSION) {
				log->versions[index] = version;
				log->lengths[index] = length;
			}
		} else {
			make_trap(log, payload, length);
		}
		at = write_entry(log, at, &entry, payload);
	}
	free(payload);
}

static void make_page(struct log *log)
{
	struct lsmem_snapshot_page *page = log->page;
	uint32_t i;

	*page = (struct lsmem_snapshot_page){
		.magic = LSMEM_SNAPSHOT_MAGIC, .abi = LSMEM_ABI, .length = sizeof(*page), .version = VERSION,
		.nr_seglets = SEGLETS, .livemap = { 2 * PAGE, MAP_BYTES }, .salts = { PAGE, PAGE },
	};
	for (i = 0; i < SEGLETS; i++)
		((uint32_t *)((uint8_t *)page + PAGE))[i] = SALT;
}

static struct log *log_new(uint64_t seed)
{
	struct log *log = calloc(1, sizeof(*log));
	struct lsm_memory memory = { 0 };
	struct lsmem_info info = {
		.magic = LSMEM_INFO_MAGIC, .abi = LSMEM_ABI, .compat = LSMEM_ABI, .length = sizeof(info),
		.kind = LSMEM_KIND_OBJECT, .nr_seglets = SEGLETS, .nr_handles = HANDLES,
		.seglets.length = ALL, .seglet_table.length = SEGLETS * sizeof(struct lsmem_seglet),
		.handles.length = HANDLES * sizeof(struct lsmem_handle),
	};

	if (!log)
		abort();
	log->state = seed;
	log->seglets = window(ALL);
	/* Whole pages: the tests of windows have the ends. */
	log->table = window(PAGE);
	log->handles = window(HANDLES * sizeof(*log->handles));
	log->fd = memfd_create("snapshot", MFD_CLOEXEC);
	if (log->fd < 0 || ftruncate(log->fd, 2 * PAGE + MAP_BYTES))
		abort();
	log->page = mmap(NULL, 2 * PAGE + MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, log->fd, 0);
	if (log->page == MAP_FAILED)
		abort();
	memory.info = &info;
	memory.epoch = &info.epoch;
	memory.seglets = log->seglets;
	memory.seglet_table = log->table;
	memory.handles = log->handles;
	if (lsm_from_memory(&memory, 8, call, log, &log->lsm))
		abort();
	make_page(log);
	return log;
}

static void log_delete(struct log *log)
{
	lsm_close(log->lsm);
	munmap(log->seglets, ALL + PAGE);
	munmap(log->table, 2 * PAGE);
	munmap(log->handles, HANDLES * sizeof(*log->handles) + PAGE);
	munmap(log->page, 2 * PAGE + MAP_BYTES);
	close(log->fd);
	free(log);
}

/* ---- Scans -------------------------------------------------------------------- */

static int look(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	struct log *log = context;
	size_t i;

	(void)thread;
	for (i = 0; i < nr; i++) {
		uint64_t index = lsmem_handle_index(rows[i].handle);

		if (index >= HANDLES || rows[i].version != log->versions[index] ||
		    rows[i].length != log->lengths[index] || rows[i].bytes != rows[i].length ||
		    rows[i].table != index % LSMEM_TABLES ||
		    !content_is(rows[i].data, rows[i].bytes, rows[i].handle, rows[i].version))
			atomic_fetch_add(&log->wrong, 1);
		else
			atomic_fetch_add(&log->seen[index], 1);
	}
	if (atomic_fetch_add(&log->batches, 1) + 1 == log->revoke_at)
		__atomic_store_n(&log->page->state, LSMEM_SNAPSHOT_TIME, __ATOMIC_SEQ_CST);
	return log->result;
}

static int scan(struct log *log, uint32_t threads)
{
	const struct lsm_scan what = { .plan = LSM_PLAN_LOG, .threads = threads, .batch = look, .context = log };
	struct lsm_scan_result result;
	uint32_t i;

	for (i = 0; i < HANDLES; i++)
		log->seen[i] = 0;
	log->wrong = 0;
	log->batches = 0;
	log->page->state = LSMEM_SNAPSHOT_STANDS;
	return lsm_scan(log->lsm, &what, &result);
}

static bool scan_right(struct log *log, uint32_t threads)
{
	uint32_t i;
	int ret;

	ret = scan(log, threads);
	CHECK(!ret);
	CHECK(!log->wrong);
	for (i = 0; i < HANDLES; i++)
		CHECK(log->seen[i] == !!log->versions[i]);
	return true;
}

/* Breaks the log somewhere. */
static void break_log(struct log *log)
{
	uint32_t what = random_below(&log->state, 4), i;

	for (i = 0; i < 50; i++) {
		uint64_t word = random_next(&log->state) >> random_below(&log->state, 64);

		if (what == 0)
			memcpy(log->seglets + random_below(&log->state, ALL / 8) * 8, &word, 8);
		else if (what == 1)
			log->table[random_below(&log->state, SEGLETS)].next =
				random_chance(&log->state, 50) ? (uint32_t)word : (uint32_t)word % SEGLETS;
		else if (what == 2)
			bitmap(log)[random_below(&log->state, MAP_BYTES / 8)] ^= word;
		else
			bitmap(log)[random_below(&log->state, MAP_BYTES / 8)] = ~0ull;
	}
}

static bool logs_right(uint64_t seed)
{
	uint64_t rows = 0;
	struct log *log;
	int number, i;

	for (number = 0; number < LOGS; number++) {
		log = log_new(seed + (uint64_t)number);
		make_log(log);
		CHECK(scan_right(log, 1 + (uint32_t)number % 3));
		for (i = 0; i < (int)HANDLES; i++)
			rows += log->seen[i];
		for (i = 0; i < BROKEN; i++) {
			int ret;

			break_log(log);
			ret = scan(log, 1 + (uint32_t)i % 2);
			CHECK(!ret || ret == -EUCLEAN);
		}
		log_delete(log);
	}
	tap_note("%llu rows of %d logs", (unsigned long long)rows, LOGS);
	CHECK(rows > LOGS * 100);
	return true;
}

static bool revoked_told(uint64_t seed)
{
	struct log *log;
	int number;

	for (number = 0; number < 10; number++) {
		log = log_new(seed + (uint64_t)number);
		make_log(log);
		CHECK(!scan(log, 1));
		log->revoke_at = random_below(&log->state, log->batches) + 1;
		if (log->batches) {
			CHECK(scan(log, 1 + (uint32_t)number % 3) == -ECANCELED);
			log->revoke_at = 0;
			log->result = -EDOM;
			CHECK(scan(log, 1) == -EDOM && log->batches == 1);
		}
		log_delete(log);
	}
	return true;
}

static void test_page(uint64_t seed)
{
	struct log *log = log_new(seed);

#define REFUSED(field, value) do {						\
	make_page(log);								\
	log->page->field = (value);						\
	tap_is(scan(log, 1), -EPROTO, "page refused: " #field " = " #value);	\
} while (0)
	make_log(log);
	REFUSED(magic, 7);
	REFUSED(length, sizeof(struct lsmem_snapshot_page) - 1);
	REFUSED(nr_seglets, SEGLETS - 1);
	REFUSED(nr_seglets, SEGLETS + 1);
	REFUSED(livemap.length, MAP_BYTES - 8);
	REFUSED(livemap.offset, 2 * PAGE + 8);
	REFUSED(livemap.offset, ~0ull);
	REFUSED(salts.length, SEGLETS * 4 - 4);
	REFUSED(salts.offset, 1);
	REFUSED(salts.length, ~0ull);
	make_page(log);
	tap_is(scan(log, 1), 0, "a good page");
	log_delete(log);
}

/* ---- Columns ------------------------------------------------------------------- */

#define FIELDS	9u
#define NEED	24u	/* bytes of the longest field's object */

static const struct lsm_field fields[FIELDS] = {
	{ .type = LSM_FIELD_HANDLE }, { .type = LSM_U32, .offset = 20 }, { .type = LSM_FIELD_VERSION },
	{ .type = LSM_U64, .offset = 3 }, { .type = LSM_FIELD_LENGTH }, { .type = LSM_I64, .offset = 16 },
	{ .type = LSM_FIELD_TABLE }, { .type = LSM_F64 }, { .type = LSM_FIELD_BYTES, .offset = 7, .bytes = 5 },
};

static const struct lsm_range upper_half = {
	.column = { .type = LSM_U32, .offset = NEED - 4 }, .low.u64 = 1u << 31, .high.u64 = UINT32_MAX,
};

/**
 * struct columns_check - a scan of columns, and what its callback finds
 * @log: store
 * @gather: what is gathered
 * @batches: given
 * @most: rows of the largest
 */
struct columns_check {
	struct log *log;
	struct lsm_gather gather;
	atomic_uint batches;
	atomic_size_t most;
};

/* Has row @at of a batch what its object has? */
static bool row_right(const struct log *log, const struct lsm_columns *columns, size_t at)
{
	uint64_t handle = ((uint64_t *)columns->data[0])[at], version = ((uint64_t *)columns->data[2])[at];
	uint64_t index = lsmem_handle_index(handle);
	uint8_t bytes[NEED];

	if (index >= HANDLES || handle != lsmem_handle_make(index, 1 + index % 7))
		return false;
	content_fill(bytes, sizeof(bytes), handle, version);
	return version == log->versions[index] && ((uint32_t *)columns->data[4])[at] == log->lengths[index] &&
	       ((uint32_t *)columns->data[6])[at] == index % LSMEM_TABLES &&
	       !memcmp((uint32_t *)columns->data[1] + at, bytes + 20, 4) &&
	       !memcmp((uint64_t *)columns->data[3] + at, bytes + 3, 8) &&
	       !memcmp((int64_t *)columns->data[5] + at, bytes + 16, 8) &&
	       !memcmp((double *)columns->data[7] + at, bytes, 8) &&
	       !memcmp((uint8_t *)columns->data[8] + 5 * at, bytes + 7, 5);
}

static int look_columns(void *context, unsigned int thread, struct lsm_columns *columns)
{
	struct columns_check *check = context;
	struct log *log = check->log;
	size_t i;

	(void)thread;
	for (i = 0; i < columns->nr; i++)
		if ((uintptr_t)columns->data[i] % 64)
			atomic_fetch_add(&log->wrong, 1);
	for (i = 0; i < columns->rows; i++) {
		if (row_right(log, columns, i))
			atomic_fetch_add(&log->seen[lsmem_handle_index(((uint64_t *)columns->data[0])[i])], 1);
		else
			atomic_fetch_add(&log->wrong, 1);
	}
	if (columns->nr != FIELDS || !columns->rows || columns->rows > check->gather.rows_max)
		atomic_fetch_add(&log->wrong, 1);
	if (columns->rows > check->most)
		check->most = columns->rows;
	lsm_columns_free(columns);
	if (atomic_fetch_add(&check->batches, 1) + 1 == log->revoke_at)
		__atomic_store_n(&log->page->state, LSMEM_SNAPSHOT_TIME, __ATOMIC_SEQ_CST);
	return log->result;
}

static int gather(struct columns_check *check, uint32_t threads, struct lsm_counts *counts)
{
	const struct lsm_scan what = { .plan = LSM_PLAN_LOG, .threads = threads };
	struct log *log = check->log;
	uint32_t i;

	for (i = 0; i < HANDLES; i++)
		log->seen[i] = 0;
	log->wrong = 0;
	check->batches = 0;
	check->most = 0;
	log->page->state = LSMEM_SNAPSHOT_STANDS;
	return lsm_scan_columns(log->lsm, &what, &check->gather, counts, NULL);
}

static bool columns_right(uint64_t seed)
{
	struct columns_check check = { .gather = { .fields = fields, .nr_fields = FIELDS, .batch = look_columns,
						   .context = &check } };
	uint64_t fed = 0, shorter = 0, selected = 0;
	size_t most = 0;
	struct lsm_counts counts;
	uint8_t bytes[NEED];
	uint32_t word;
	int number, i;

	/* Until a batch was larger than a scan's, too: that takes a log with many objects. */
	for (number = 0; number < LOGS || (most <= 256 && number < 20 * LOGS); number++) {
		struct log *log = check.log = log_new(seed + (uint64_t)number);

		make_log(log);
		check.gather.ranges = number % 2 ? &upper_half : NULL;
		check.gather.nr_ranges = number % 2;
		check.gather.rows_max = number % 4 < 2 ? 256 : 300;
		CHECK(!gather(&check, 1 + (uint32_t)number % 3, &counts));
		CHECK(!log->wrong);
		fed += counts.fed;
		shorter += counts.shorter;
		selected += counts.selected;
		CHECK(!counts.groups);
		for (i = 0; i < (int)HANDLES; i++) {
			bool wanted = log->versions[i] && log->lengths[i] >= NEED;

			counts.fed -= !!log->versions[i];
			counts.shorter -= log->versions[i] && !wanted;
			if (wanted && number % 2) {
				content_fill(bytes, NEED, lsmem_handle_make((uint64_t)i, 1 + (uint64_t)i % 7),
					     log->versions[i]);
				memcpy(&word, bytes + NEED - 4, 4);
				wanted = word >> 31;
			}
			CHECK(log->seen[i] == wanted);
			counts.selected -= wanted;
		}
		CHECK(!counts.fed && !counts.shorter && !counts.selected);
		most = check.most > most ? check.most : most;
		/* What a scan gives before it fails is right, too. */
		CHECK(!gather(&check, 1, NULL));
		most = check.most > most ? check.most : most;
		log->revoke_at = 1 + random_below(&log->state, check.batches);
		if (check.batches > log->revoke_at) {
			CHECK(gather(&check, 1, NULL) == -ECANCELED && !log->wrong);
			CHECK(check.batches == log->revoke_at);
			log->revoke_at = 0;
			log->result = -EDOM;
			CHECK(gather(&check, 1, NULL) == -EDOM && check.batches == 1);
		}
		log_delete(log);
	}
	tap_note("%llu rows, %llu too short, %llu selected; largest batch %zu", (unsigned long long)fed,
		 (unsigned long long)shorter, (unsigned long long)selected, most);
	CHECK(shorter && selected < fed - shorter && most > 256);
	return true;
}

static void test_fields(uint64_t seed)
{
	struct columns_check check = { .log = log_new(seed), .gather = { .batch = look_columns, .context = &check } };
	struct lsm_field field;

#define FIELD(wanted, nr, rows, ...) do {							\
	field = (struct lsm_field){ __VA_ARGS__ };						\
	check.gather.fields = &field;								\
	check.gather.nr_fields = (nr);								\
	check.gather.rows_max = (rows);								\
	tap_is(gather(&check, 1, NULL), wanted, #nr " fields, " #rows " rows: " #__VA_ARGS__);	\
} while (0)
	FIELD(0, 1, 0, .type = LSM_U32, .offset = LSMEM_OBJECT_MAX - 4);
	FIELD(-EINVAL, 1, 0, .type = LSM_U32, .offset = LSMEM_OBJECT_MAX - 3);
	FIELD(-EINVAL, 1, 0, .type = LSM_F64, .offset = UINT32_MAX);
	FIELD(-EINVAL, 1, 0, .type = 0);
	FIELD(-EINVAL, 1, 0, .type = 5);
	FIELD(-EINVAL, 1, 0, .type = LSM_FIELD_TABLE + 1);
	FIELD(-EINVAL, 1, 0, .type = LSM_FIELD_BYTES);
	FIELD(0, 1, 256, .type = LSM_FIELD_BYTES, .bytes = LSMEM_OBJECT_MAX);
	FIELD(-EINVAL, 1, 0, .type = LSM_FIELD_BYTES, .bytes = LSMEM_OBJECT_MAX, .offset = 1);
	FIELD(-EINVAL, 1, 0, .type = LSM_U64, .bytes = 8);
	FIELD(-EINVAL, 1, 0, .type = LSM_FIELD_HANDLE, .offset = 8);
	FIELD(-EINVAL, 0, 0, .type = LSM_U32);
	FIELD(-EINVAL, LSM_FIELDS_MAX + 1, 0, .type = LSM_U32);
	FIELD(-EINVAL, 1, 255, .type = LSM_U32);
	FIELD(-EINVAL, 1, (1u << 24) + 1, .type = LSM_U32);
	check.gather.flags = 1;
	FIELD(-EINVAL, 1, 0, .type = LSM_U32);
	check.gather.flags = 0;
	check.gather.batch = NULL;
	FIELD(-EINVAL, 1, 0, .type = LSM_U32);
	log_delete(check.log);
}

int main(void)
{
	const char *given = getenv("LSMEM_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);

	tap_note("LSMEM_SEED=%llu", (unsigned long long)seed);
	tap_is(~lsmem_crc32c(~0u, "123456789", 9), 0xe3069283u, "the CRC of nine digits");
	test_page(seed);
	tap_ok(logs_right(seed), "%d random logs, each broken %d times", LOGS, BROKEN);
	tap_ok(revoked_told(seed), "a scan whose snapshot is revoked fails");
	test_fields(seed);
	tap_ok(columns_right(seed), "columns of %d random logs", LOGS);
	return tap_end();
}
