// SPDX-License-Identifier: GPL-2.0
/*
 * Snapshots of a scan, as a client sees them.
 *
 * The model: writers allocate, replace and free objects that they share, singly and in vectors, while segments are
 * compacted and cleaned, and scanners read snapshots.  Each writer logs handle, version and content of each
 * change.  When all have ended, the logs are merged: at V an object is what its last change with a version
 * up to V made of it.  Each snapshot that stood to its end must have found exactly that, each object
 * once, byte by byte.  A snapshot that was revoked must have been told so.
 */
#include <errno.h>
#include <fcntl.h>
#include <lsmem/lsmem_format.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "store.h"

#define PAGE		4096u
#define OBJECTS		100000u	/* most at a time, in the model: about half of the store */
#define WRITERS		3u
#define CHANGES		100000u	/* of each writer, in a round */
#define ROUNDS		3u	/* at least, until both cleaners have worked */
#define ROUNDS_MOST	30u
#define SCANS		400u	/* most of a scanner in a round */
#define VECTOR		24u
#define AGAIN		400u	/* replaces of one object in a vector */
#define LENGTH_MAX	9000u
#define LARGE_MAX	300000u	/* spans seglets */
#define BATCH		64u	/* seglets that are read between two looks at the state */
#define WAIT_MS		20000u

/* ---- A store and its windows ------------------------------------------------ */

/**
 * struct client - a store, and what a client sees of it
 * @store: has @info
 * @info: a copy of the info page
 * @seglets: window
 * @table: window, the chains of seglets
 * @objects: OBJECTS handles; 0: none
 * @follower: the daemon of a durable store
 */
struct client {
	struct store store;
	struct follower follower;
	struct lsmem_info info;
	const uint8_t *seglets;
	const struct lsmem_seglet *table;
	_Atomic uint64_t *objects;
};

FIXTURE(snapshot) {
	struct client client;
};

/* What is retired in a durable store waits for a digest. */
FIXTURE_VARIANT(snapshot) {
	uint32_t flags;
};

FIXTURE_VARIANT_ADD(snapshot, unbacked) {
	.flags = 0,
};

FIXTURE_VARIANT_ADD(snapshot, backed) {
	.flags = LSMEM_STORE_DURABLE,
};

static const void *map(int fd, uint64_t offset, uint64_t length)
{
	void *address = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, (off_t)offset);

	return address == MAP_FAILED ? NULL : address;
}

FIXTURE_SETUP(snapshot)
{
	struct client *client = &self->client;
	const struct lsmem_info *info;

	ASSERT_EQ(0, store_create(&client->store, STORE_BYTES, 0, variant->flags));
	if (variant->flags) {
		ASSERT_EQ(0, follower_start(&client->follower, client->store.name));
		ASSERT_EQ(0, lsm_open(client->store.path, 0, &client->store.lsm));
	}
	info = map(client->store.fd, LSMEM_WINDOW_INFO, PAGE);
	ASSERT_NE(NULL, info);
	client->info = *info;
	munmap((void *)info, PAGE);
	client->seglets = map(client->store.fd, client->info.seglets.offset, client->info.seglets.length);
	client->table = map(client->store.fd, client->info.seglet_table.offset,
			    client->info.seglet_table.length);
	client->objects = calloc(OBJECTS, sizeof(*client->objects));
	ASSERT_TRUE(client->seglets && client->table && client->objects);
}

FIXTURE_TEARDOWN(snapshot)
{
	struct client *client = &self->client;

	munmap((void *)client->seglets, client->info.seglets.length);
	munmap((void *)client->table, client->info.seglet_table.length);
	free((void *)client->objects);
	EXPECT_EQ(0, store_attribute(&client->store, "cleaner/snapshots"));
	EXPECT_EQ(0, store_attribute(&client->store, "cleaner/snapshot_seglets"));
	if (variant->flags) {
		EXPECT_EQ(0, lsm_sync(client->store.lsm, 0));
		follower_stop(&client->follower);
		EXPECT_STREQ("", client->follower.wrong);
		follower_free(&client->follower);
	}
	EXPECT_EQ(0, store_destroy(&client->store));
}

/* ---- A snapshot --------------------------------------------------------------- */

/**
 * struct snapshot - a snapshot that is open
 * @call: as the ioctl filled it in
 * @page: its window
 * @bits: the frozen bitmap
 * @salts: of the seglets
 */
struct snapshot {
	struct lsmem_snapshot call;
	const struct lsmem_snapshot_page *page;
	const uint64_t *bits;
	const uint32_t *salts;
};

static int snapshot_open(int fd, uint32_t kept_max, uint32_t time_ms, struct snapshot *snapshot)
{
	snapshot->call = (struct lsmem_snapshot){
		.size = sizeof(snapshot->call), .kept_max = kept_max, .time_ms = time_ms,
	};
	if (ioctl(fd, LSMEM_IOC_SNAPSHOT, &snapshot->call))
		return -errno;
	snapshot->page = map(snapshot->call.fd, 0, snapshot->call.bytes);
	if (!snapshot->page)
		return -errno;
	snapshot->bits = (const void *)((const uint8_t *)snapshot->page + snapshot->page->livemap.offset);
	snapshot->salts = (const void *)((const uint8_t *)snapshot->page + snapshot->page->salts.offset);
	return 0;
}

static void snapshot_close(struct snapshot *snapshot)
{
	munmap((void *)snapshot->page, snapshot->call.bytes);
	close(snapshot->call.fd);
}

static int snapshot_done(const struct snapshot *snapshot, uint32_t seglet)
{
	struct lsmem_snapshot_done done = { .size = sizeof(done), .seglet = seglet };

	return ioctl(snapshot->call.fd, LSMEM_IOC_SNAPSHOT_DONE, &done) ? -errno : 0;
}

/* The state, after all loads from the store that precede. */
static uint32_t snapshot_state(const struct snapshot *snapshot)
{
	atomic_thread_fence(memory_order_acquire);
	return __atomic_load_n(&snapshot->page->state, __ATOMIC_RELAXED);
}

static bool snapshot_becomes(const struct snapshot *snapshot, uint32_t state)
{
	uint64_t end = now_ms() + test_limit(WAIT_MS);

	while (snapshot_state(snapshot) != state && now_ms() < end)
		usleep(1000);	/* no event tells a reader */
	return snapshot_state(snapshot) == state;
}

/* ---- A scan -------------------------------------------------------------------- */

/**
 * struct found - an object in a snapshot
 * @handle: its handle
 * @version: of the entry
 * @crc: of its payload
 * @length: bytes
 * @table: its table
 */
struct found {
	uint64_t handle;
	uint64_t version;
	uint32_t crc;
	uint32_t length;
	uint32_t table;
};

/**
 * struct scan - one scan of one snapshot
 * @version: V
 * @state: at the end
 * @objects: that it found
 * @nr: how many
 * @room: of @objects
 * @newer: bits of entries above V
 * @strays: bits that lead to no object
 * @walks: entries found from the one before
 * @trials: entries found by their CRC
 * @apart: walks that led to another entry than the trial
 * @kept: most seglets that were kept back
 */
struct scan {
	uint64_t version;
	uint32_t state;
	struct found *objects;
	uint64_t nr, room;
	uint64_t newer, strays, walks, trials, apart;
	uint32_t kept;
};

/* Copy bytes of the log from a place in a seglet on. Returns false if the chain of seglets ends before. */
static bool copy_log(const struct client *client, uint32_t seglet, uint32_t offset, uint8_t *to,
		     uint32_t length)
{
	while (length) {
		uint32_t piece;

		for (; offset >= LSMEM_SEGLET_BYTES; offset -= LSMEM_SEGLET_BYTES) {
			seglet = __atomic_load_n(&client->table[seglet].next, __ATOMIC_RELAXED);
			if (seglet >= client->info.nr_seglets)
				return false;
		}
		piece = LSMEM_SEGLET_BYTES - offset;
		piece = length < piece ? length : piece;
		memcpy(to, client->seglets + (uint64_t)seglet * LSMEM_SEGLET_BYTES + offset, piece);
		to += piece;
		offset += piece;
		length -= piece;
	}
	return true;
}

/* Is this the place of an entry? @pcrc: out: CRC of its payload. */
static bool entry_at(const struct client *client, const struct snapshot *snapshot, uint32_t seglet,
		     uint32_t offset, struct lsmem_entry *entry, uint32_t *pcrc)
{
	static _Thread_local uint8_t payload[LSMEM_OBJECT_MAX];

	if (offset > LSMEM_SEGLET_BYTES - LSMEM_LONG_BYTES)
		return false;
	memcpy(entry, client->seglets + (uint64_t)seglet * LSMEM_SEGLET_BYTES + offset, sizeof(*entry));
	if (!lsmem_entry_sane(entry) || lsmem_entry_type(entry) != LSMEM_TYPE_OBJECT ||
	    !copy_log(client, seglet, offset + lsmem_entry_header(entry), payload,
		      lsmem_entry_length(entry)))
		return false;
	*pcrc = lsmem_crc32c(~0u, payload, lsmem_entry_length(entry));
	return __le32_to_cpu(entry->crc) == lsmem_entry_crc(entry, *pcrc, snapshot->salts[seglet]);
}

/* Walk from an entry that begins at @offset to that at the bit of @first. Returns where, 0: it leads elsewhere. */
static uint32_t walk(const struct client *client, uint32_t seglet, uint32_t offset, uint32_t first)
{
	struct lsmem_entry entry;

	while (offset < first) {
		memcpy(&entry, client->seglets + (uint64_t)seglet * LSMEM_SEGLET_BYTES + offset,
		       sizeof(entry));
		if (!lsmem_entry_sane(&entry))
			return 0;
		offset += lsmem_entry_bytes(&entry);
		if (offset > LSMEM_SEGLET_BYTES - LSMEM_LONG_BYTES)
			return 0;
	}
	return offset < first + 32 ? offset : 0;
}

static void add(struct scan *scan, const struct lsmem_entry *entry, uint32_t pcrc)
{
	if (lsmem_entry_version(entry) > scan->version) {
		scan->newer++;
		return;
	}
	if (scan->nr == scan->room) {
		scan->room = scan->room ? 2 * scan->room : 1024;
		scan->objects = realloc(scan->objects, scan->room * sizeof(*scan->objects));
		if (!scan->objects)
			abort();
	}
	scan->objects[scan->nr++] = (struct found){
		.handle = lsmem_entry_handle(entry), .version = lsmem_entry_version(entry),
		.crc = pcrc, .length = lsmem_entry_length(entry), .table = lsmem_entry_table(entry),
	};
}

static void scan_seglet(const struct client *client, const struct snapshot *snapshot, uint32_t seglet,
			struct scan *scan)
{
	uint32_t known = 0, i, offset, walked;
	struct lsmem_entry entry;
	uint32_t pcrc = 0;

	for (i = 0; i < 32; i++) {
		uint64_t word = snapshot->bits[seglet * 32ull + i];

		for (; word; word &= word - 1) {
			uint32_t first = (i * 64 + (uint32_t)__builtin_ctzll(word)) * 32;

			walked = known ? walk(client, seglet, known, first) : 0;
			for (offset = first; offset < first + 32; offset += LSMEM_ALIGN)
				if (entry_at(client, snapshot, seglet, offset, &entry, &pcrc))
					break;
			if (offset == first + 32) {
				scan->strays++;
				continue;
			}
			scan->walks += walked && walked == offset;
			scan->trials += !walked;
			scan->apart += walked && walked != offset;
			known = offset + lsmem_entry_bytes(&entry);
			if (known > LSMEM_SEGLET_BYTES - LSMEM_LONG_BYTES)
				known = 0;
			add(scan, &entry, pcrc);
		}
	}
}

/* Read a snapshot, from seglet 0 on. @pause: called once, in the midst of the first batch. */
static void scan_all(const struct client *client, const struct snapshot *snapshot, struct scan *scan,
		     void (*pause)(const struct client *client, const struct snapshot *snapshot))
{
	uint32_t seglet, kept;
	uint64_t before = 0;

	scan->version = snapshot->call.version;
	for (seglet = 0; seglet < client->info.nr_seglets; seglet++) {
		if (pause && seglet == BATCH / 2)
			pause(client, snapshot);
		scan_seglet(client, snapshot, seglet, scan);
		if ((seglet + 1) % BATCH && seglet + 1 < client->info.nr_seglets)
			continue;
		kept = __atomic_load_n(&snapshot->page->kept, __ATOMIC_RELAXED);
		scan->kept = kept > scan->kept ? kept : scan->kept;
		scan->state = snapshot_state(snapshot);
		if (scan->state != LSMEM_SNAPSHOT_STANDS) {
			scan->nr = before;
			return;
		}
		before = scan->nr;
		snapshot_done(snapshot, seglet + 1);
	}
}

/* ---- Writers -------------------------------------------------------------------- */

/**
 * struct writer - a thread that changes objects at random
 * @client: the store
 * @number: from 0
 * @state: of its random numbers
 * @changes: to make
 * @serial: of the next content
 * @log: of its changes: what an object is from a version on; length 0: freed
 * @nr: how many
 * @room: of @log
 * @error: the first that is not one of a lost race
 */
struct writer {
	const struct client *client;
	uint32_t number;
	uint64_t state;
	uint64_t changes;
	uint64_t serial;
	struct found *log;
	uint64_t nr, room;
	int error;
};

static void note(struct writer *writer, const struct lsmem_op *op, uint32_t table)
{
	struct found *found;

	if (writer->nr == writer->room) {
		writer->room = writer->room ? 2 * writer->room : 1024;
		writer->log = realloc(writer->log, writer->room * sizeof(*writer->log));
		if (!writer->log)
			abort();
	}
	found = &writer->log[writer->nr++];
	*found = (struct found){ .handle = op->handle, .version = op->version, .table = table };
	if (op->op == LSMEM_OP_FREE)
		return;
	found->length = op->length;
	found->crc = lsmem_crc32c(~0u, (const void *)(uintptr_t)op->data, op->length);
}

/* Most are small, from the smallest on; some cross a seglet, few cross several. */
static uint32_t choose_length(uint64_t *state)
{
	uint64_t number = random_next(state);

	if (number % 4096 == 0)
		return 1 + (uint32_t)(number >> 12) % LARGE_MAX;
	if (number % 16)
		return 1 + (uint32_t)(number >> 8) % 300;
	return 1 + (uint32_t)(number >> 8) % LENGTH_MAX;
}

/* Tables go with handles, so that each change of an object can tell its table. */
static uint32_t choose_table(uint64_t which)
{
	return (uint32_t)which % 5 * 777;
}

static int call(struct writer *writer, unsigned long request, struct lsmem_op *op, uint64_t which)
{
	if (ioctl(writer->client->store.fd, request, op))
		return -errno;
	note(writer, op, choose_table(which));
	return 0;
}

/*
 * A vector of replaces, of different objects or, again and again, of one: its versions run ahead of the
 * clock.
 */
static void replace_some(struct writer *writer, uint8_t *bytes)
{
	uint32_t most = random_chance(&writer->state, 50) ? AGAIN : VECTOR, i;
	uint64_t which[AGAIN], same = random_below(&writer->state, OBJECTS);
	struct lsmem_op ops[AGAIN];
	struct lsmem_vector vector = { .size = sizeof(vector), .ops = (uintptr_t)ops,
				       .stride = sizeof(ops[0]) };

	for (i = 0; i < most; i++) {
		uint64_t at = most == AGAIN ? same : random_below(&writer->state, OBJECTS);

		which[vector.nr] = at;
		ops[vector.nr] = (struct lsmem_op){
			.size = sizeof(ops[0]), .op = LSMEM_OP_REPLACE,
			.handle = writer->client->objects[at],
			.data = (uintptr_t)bytes + i * 64,
			.length = 1 + random_below(&writer->state, most == AGAIN ? 64 : 500),
		};
		content_fill(bytes + i * 64, 64, writer->number, writer->serial++);
		vector.nr += !!ops[vector.nr].handle;
	}
	if (vector.nr && ioctl(writer->client->store.fd, LSMEM_IOC_VECTOR, &vector))
		writer->error = -errno;
	for (i = 0; i < vector.nr; i++) {
		if (!ops[i].result)
			note(writer, &ops[i], choose_table(which[i]));
		else if (ops[i].result != -ESTALE && ops[i].result != -ENOSPC)
			writer->error = ops[i].result;
	}
}

static void *write_all(void *argument)
{
	struct writer *writer = argument;
	const struct client *client = writer->client;
	uint8_t *bytes = malloc(LARGE_MAX);
	uint64_t i;

	for (i = 0; i < writer->changes && !writer->error; i++) {
		uint64_t which = random_below(&writer->state, OBJECTS), none = 0;
		uint32_t dice = random_below(&writer->state, 16);
		struct lsmem_op op = {
			.size = sizeof(op), .handle = client->objects[which],
		};
		int ret = 0;

		if (!dice) {
			replace_some(writer, bytes);
			continue;
		}
		if (op.handle && dice < 4) {
			/* Freed before the slot is empty: others replace it meanwhile. */
			op.op = LSMEM_OP_FREE;
			ret = call(writer, LSMEM_IOC_FREE, &op, which);
			if (!ret)
				client->objects[which] = 0;
		} else {
			op.data = (uintptr_t)bytes;
			op.length = choose_length(&writer->state);
			content_fill(bytes, op.length, writer->number, writer->serial++);
			op.op = op.handle ? LSMEM_OP_REPLACE : LSMEM_OP_ALLOC;
			op.table = op.handle ? 0 : choose_table(which);
			ret = call(writer, op.handle ? LSMEM_IOC_REPLACE : LSMEM_IOC_ALLOC, &op, which);
		}
		if (!ret && op.op == LSMEM_OP_ALLOC &&
		    !atomic_compare_exchange_strong(&client->objects[which], &none, op.handle)) {
			op = (struct lsmem_op){ .size = sizeof(op), .op = LSMEM_OP_FREE,
						.handle = op.handle };
			ret = call(writer, LSMEM_IOC_FREE, &op, which);
		}
		if (ret && ret != -ESTALE && ret != -ENOSPC)
			writer->error = ret;
	}
	free(bytes);
	return NULL;
}

/* ---- The comparison ---------------------------------------------------------------- */

static int found_cmp(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->handle != y->handle)
		return x->handle < y->handle ? -1 : 1;
	return x->version < y->version ? -1 : x->version > y->version;
}

/**
 * struct verdict - what a comparison finds
 * @right: objects as they were at V
 * @missing: that the scan did not find
 * @wrong: with another version or content
 * @beyond: found twice, or not living at V
 */
struct verdict {
	uint64_t right, missing, wrong, beyond;
};

static bool found_same(const struct found *a, const struct found *b)
{
	return a->version == b->version && a->crc == b->crc && a->length == b->length &&
	       a->table == b->table;
}

/* Compare a scan, sorted, with all changes, sorted. */
static void compare(struct scan *scan, const struct found *changes, uint64_t nr, struct verdict *verdict)
{
	uint64_t i = 0, at = 0, next;

	qsort(scan->objects, scan->nr, sizeof(*scan->objects), found_cmp);
	while (i < nr) {
		const struct found *last = NULL;

		for (next = i; next < nr && changes[next].handle == changes[i].handle; next++)
			if (changes[next].version <= scan->version)
				last = &changes[next];
		for (; at < scan->nr && scan->objects[at].handle < changes[i].handle; at++)
			verdict->beyond++;
		if (last && last->length) {
			if (at == scan->nr || scan->objects[at].handle != last->handle) {
				verdict->missing++;
			} else {
				verdict->right += found_same(&scan->objects[at], last);
				verdict->wrong += !found_same(&scan->objects[at], last);
				at++;
			}
		}
		i = next;
	}
	verdict->beyond += scan->nr - at;
}

/**
 * struct scanner - a thread that makes and reads snapshots
 * @client: the store
 * @scans: of the round
 * @nr: how many
 * @refused: snapshots that were not to be had
 * @stop: set by the test
 * @error: the first that must not be
 */
struct scanner {
	const struct client *client;
	struct scan *scans;
	uint32_t nr;
	uint32_t refused;
	atomic_bool stop;
	int error;
};

/* Have what is there moved: whether there is anything to gain does not matter. */
static void stir(const struct client *client)
{
	store_set_attribute(&client->store, "cleaner/request_clean", 2);
	store_set_attribute(&client->store, "cleaner/request_compact", 4);
}

static void stir_amid(const struct client *client, const struct snapshot *snapshot __attribute__((unused)))
{
	stir(client);
}

static void *scan_on(void *argument)
{
	struct scanner *scanner = argument;
	struct snapshot snapshot;

	while (!atomic_load(&scanner->stop) && scanner->nr < SCANS) {
		int ret = snapshot_open(scanner->client->store.fd, 0, 0, &snapshot);

		if (ret == -ENOSPC || ret == -ETIMEDOUT) {
			scanner->refused++;
			continue;
		}
		if (ret) {
			scanner->error = ret;
			break;
		}
		scan_all(scanner->client, &snapshot, &scanner->scans[scanner->nr],
			 scanner->nr % 2 ? stir_amid : NULL);
		scanner->nr++;
		snapshot_close(&snapshot);
	}
	return NULL;
}

/* All changes of all writers, sorted by object and version. */
static struct found *merge(const struct writer *writers, uint64_t *nr)
{
	struct found *changes;
	uint64_t at = 0, i;

	*nr = 0;
	for (i = 0; i < WRITERS; i++)
		*nr += writers[i].nr;
	changes = malloc(*nr * sizeof(*changes));
	if (!changes)
		abort();
	for (i = 0; i < WRITERS; i++) {
		memcpy(&changes[at], writers[i].log, writers[i].nr * sizeof(*changes));
		at += writers[i].nr;
	}
	qsort(changes, *nr, sizeof(*changes), found_cmp);
	return changes;
}

/* ---- Tests --------------------------------------------------------------------------- */

TEST_F_TIMEOUT(snapshot, model, 300)
{
	struct client *client = &self->client;
	struct scanner scanners[2] = { 0 };
	struct writer writers[WRITERS] = { 0 };
	pthread_t threads[WRITERS + 2];
	struct verdict verdict = { 0 };
	uint64_t stood = 0, revoked = 0, refused = 0, newer = 0, strays = 0, walks = 0, trials = 0;
	uint64_t apart = 0, nr, kept = 0;
	struct found *changes;
	struct lsmem_stat stat = { 0 };
	uint32_t round, i, j;

	for (round = 0; round < ROUNDS ||
	     (round < ROUNDS_MOST && !(kept && stat.segments_compacted && stat.segments_cleaned)); round++) {
		for (i = 0; i < WRITERS; i++) {
			writers[i].client = client;
			writers[i].number = i;
			writers[i].state = test_seed + i + 10 * round;
			writers[i].changes = test_scaled(CHANGES);
			ASSERT_EQ(0, pthread_create(&threads[i], NULL, write_all, &writers[i]));
		}
		for (i = 0; i < 2; i++) {
			scanners[i] = (struct scanner){
				.client = client, .scans = calloc(SCANS, sizeof(struct scan)),
			};
			ASSERT_EQ(0, pthread_create(&threads[WRITERS + i], NULL, scan_on, &scanners[i]));
		}
		for (i = 0; i < WRITERS; i++) {
			pthread_join(threads[i], NULL);
			EXPECT_EQ(0, writers[i].error);
		}
		for (i = 0; i < 2; i++) {
			atomic_store(&scanners[i].stop, true);
			pthread_join(threads[WRITERS + i], NULL);
			EXPECT_EQ(0, scanners[i].error);
			refused += scanners[i].refused;
		}
		changes = merge(writers, &nr);
		for (i = 0; i < 2; i++) {
			for (j = 0; j < scanners[i].nr; j++) {
				struct scan *scan = &scanners[i].scans[j];

				if (scan->state == LSMEM_SNAPSHOT_STANDS)
					compare(scan, changes, nr, &verdict);
				stood += scan->state == LSMEM_SNAPSHOT_STANDS;
				revoked += scan->state != LSMEM_SNAPSHOT_STANDS;
				newer += scan->newer;
				strays += scan->strays;
				walks += scan->walks;
				trials += scan->trials;
				apart += scan->state == LSMEM_SNAPSHOT_STANDS ? scan->apart : 0;
				kept = scan->kept > kept ? scan->kept : kept;
				free(scan->objects);
			}
			free(scanners[i].scans);
		}
		free(changes);
		ASSERT_EQ(0, lsm_stat(client->store.lsm, &stat));
	}
	TH_LOG("%llu snapshots stood, %llu were revoked, %llu refused; %llu objects right, %llu missing, %llu wrong, %llu beyond",
	       (unsigned long long)stood, (unsigned long long)revoked, (unsigned long long)refused,
	       (unsigned long long)verdict.right, (unsigned long long)verdict.missing,
	       (unsigned long long)verdict.wrong, (unsigned long long)verdict.beyond);
	TH_LOG("%llu newer, %llu strays; %llu found by walking, %llu by trial; %llu seglets kept; %llu compacted, %llu cleaned",
	       (unsigned long long)newer, (unsigned long long)strays, (unsigned long long)walks,
	       (unsigned long long)trials, (unsigned long long)kept,
	       (unsigned long long)stat.segments_compacted, (unsigned long long)stat.segments_cleaned);
	EXPECT_LT(0, stood);
	EXPECT_LT(0, verdict.right);
	EXPECT_EQ(0, verdict.missing);
	EXPECT_EQ(0, verdict.wrong);
	EXPECT_EQ(0, verdict.beyond);
	EXPECT_EQ(0, apart);
	EXPECT_LT(0, kept);
	EXPECT_LT(0, stat.segments_compacted);
	EXPECT_LT(0, stat.segments_cleaned);
	for (i = 0; i < WRITERS; i++)
		free(writers[i].log);
}

/* ---- The interface -------------------------------------------------------------------- */

static int snapshot_try(int fd, struct lsmem_snapshot call)
{
	int ret;

	call.size = sizeof(call);
	ret = ioctl(fd, LSMEM_IOC_SNAPSHOT, &call) ? -errno : 0;
	if (!ret)
		close(call.fd);
	return ret;
}

/* What is at an offset of the descriptor's window, with this access; NULL and errno if it cannot be mapped. */
static void *try_map(int fd, int protection, int flags, uint64_t offset, uint64_t length)
{
	void *address = mmap(NULL, length, protection, flags, fd, (off_t)offset);

	if (address == MAP_FAILED)
		return NULL;
	munmap(address, length);
	return address;
}

TEST_F(snapshot, fields)
{
	struct client *client = &self->client;
	struct lsmem_query query = { .size = sizeof(query) };
	int fd = client->store.fd, write_only, none;
	struct snapshot snapshot;
	uint64_t seglets = client->info.nr_seglets;
	uint32_t free_low;

	ASSERT_EQ(0, ioctl(fd, LSMEM_IOC_QUERY, &query));
	EXPECT_TRUE(query.features & LSMEM_FEATURE_SNAPSHOT);
	EXPECT_EQ(-EINVAL, snapshot_try(fd, (struct lsmem_snapshot){ .flags = 1 }));
	EXPECT_EQ(-EINVAL, snapshot_try(fd, (struct lsmem_snapshot){ .version = 1 }));
	EXPECT_EQ(-EINVAL, snapshot_try(fd, (struct lsmem_snapshot){ .bytes = 1 }));
	EXPECT_EQ(-EINVAL, snapshot_try(fd, (struct lsmem_snapshot){ .fd = 1 }));
	EXPECT_EQ(-EINVAL, snapshot_try(fd, (struct lsmem_snapshot){ .reserved = 1 }));
	write_only = open(client->store.path, O_WRONLY | O_CLOEXEC);
	ASSERT_LE(0, write_only);
	EXPECT_EQ(-EBADF, snapshot_try(write_only, (struct lsmem_snapshot){ 0 }));
	close(write_only);

	ASSERT_EQ(0, snapshot_open(fd, 0, 0, &snapshot));
	EXPECT_EQ(FD_CLOEXEC, fcntl(snapshot.call.fd, F_GETFD));
	EXPECT_EQ(LSMEM_SNAPSHOT_MAGIC, snapshot.page->magic);
	EXPECT_EQ(LSMEM_ABI, snapshot.page->abi);
	EXPECT_EQ(sizeof(*snapshot.page), snapshot.page->length);
	EXPECT_EQ(snapshot.call.version, snapshot.page->version);
	EXPECT_EQ(seglets, snapshot.page->nr_seglets);
	EXPECT_EQ(seglets * LSMEM_SEGLET_BYTES / 256, snapshot.page->livemap.length);
	EXPECT_LE(seglets * 4, snapshot.page->salts.length);
	EXPECT_EQ(PAGE + snapshot.page->salts.length + snapshot.page->livemap.length, snapshot.call.bytes);
	EXPECT_EQ(snapshot.call.kept_max, snapshot.page->kept_max);
	EXPECT_EQ(snapshot.call.time_ms, snapshot.page->time_ms);
	EXPECT_EQ(store_attribute(&client->store, "limits/snapshot_ms"), snapshot.call.time_ms);
	/* Half of the free seglets above those below which writers are slowed down. */
	free_low = (uint32_t)(seglets * (uint64_t)store_attribute(&client->store, "cleaner/free_low") / 1000);
	EXPECT_EQ((store_attribute(&client->store, "free_seglets") - 144 - free_low / 2) / 2,
		  snapshot.call.kept_max);
	EXPECT_EQ(LSMEM_SNAPSHOT_STANDS, snapshot_state(&snapshot));
	none = snapshot.call.fd;
	EXPECT_EQ(NULL, try_map(none, PROT_READ | PROT_WRITE, MAP_SHARED, 0, PAGE));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(NULL, try_map(none, PROT_READ, MAP_PRIVATE, 0, PAGE));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(NULL, try_map(none, PROT_READ | PROT_EXEC, MAP_SHARED, 0, PAGE));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(NULL, try_map(none, PROT_READ, MAP_SHARED, 0, snapshot.call.bytes + PAGE));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(NULL, try_map(none, PROT_READ, MAP_SHARED, snapshot.call.bytes, PAGE));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_NE(NULL, try_map(none, PROT_READ, MAP_SHARED, snapshot.call.bytes - PAGE, PAGE));
	EXPECT_EQ(-1, mprotect((void *)snapshot.page, PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(0, snapshot_done(&snapshot, 7));
	EXPECT_EQ(0, snapshot_done(&snapshot, 3));
	EXPECT_EQ(7, snapshot.page->done);
	EXPECT_EQ(-1, ioctl(none, LSMEM_IOC_SNAPSHOT, &snapshot.call));
	EXPECT_EQ(ENOTTY, errno);
	EXPECT_EQ(-EBUSY, store_destroy(&client->store) ?: 0);
	client->store.fd = open(client->store.path, O_RDWR | O_CLOEXEC);
	ASSERT_EQ(0, lsm_open(client->store.path, 0, &client->store.lsm));
	snapshot_close(&snapshot);

	/* More is not to be had, less is. */
	ASSERT_EQ(0, snapshot_open(client->store.fd, ~0u, ~0u, &snapshot));
	EXPECT_EQ(store_attribute(&client->store, "limits/snapshot_ms"), snapshot.call.time_ms);
	EXPECT_GT(seglets / 2, snapshot.call.kept_max);
	snapshot_close(&snapshot);
	ASSERT_EQ(0, snapshot_open(client->store.fd, 17, 1234, &snapshot));
	EXPECT_EQ(1234, snapshot.call.time_ms);
	EXPECT_EQ(17, snapshot.call.kept_max);
	snapshot_close(&snapshot);
}

/* So many at a time, and no more; those that end make room. */
TEST_F(snapshot, few)
{
	struct client *client = &self->client;
	struct snapshot snapshots[4];
	uint32_t i;

	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, snapshot_open(client->store.fd, 0, 0, &snapshots[i]));
		EXPECT_EQ(i + 1, store_attribute(&client->store, "cleaner/snapshots"));
		if (i)
			EXPECT_LE(snapshots[i - 1].call.version, snapshots[i].call.version);
	}
	EXPECT_EQ(-EBUSY, snapshot_try(client->store.fd, (struct lsmem_snapshot){ 0 }));
	snapshot_close(&snapshots[2]);
	ASSERT_EQ(0, snapshot_open(client->store.fd, 0, 0, &snapshots[2]));
	EXPECT_EQ(0, store_set_attribute(&client->store, "limits/snapshots_max", 0));
	for (i = 0; i < 4; i++)
		snapshot_close(&snapshots[i]);
	EXPECT_EQ(-EBUSY, snapshot_try(client->store.fd, (struct lsmem_snapshot){ 0 }));
}

#define USER		65534	/* without privileges */

/* A process of another user takes a snapshot, and keeps it until it is killed.  Returns 0, or why it got none. */
static int user_take(const char *path, pid_t *child)
{
	int answer[2], got = 0;

	if (pipe(answer))
		return -errno;
	*child = fork();
	if (!*child) {
		struct snapshot snapshot;
		int fd = open(path, O_RDWR | O_CLOEXEC);

		got = setgid(USER) || setuid(USER) ? -EPERM : snapshot_open(fd, 0, 0, &snapshot);
		if (write(answer[1], &got, sizeof(got)) != sizeof(got))
			_exit(1);
		for (;;)
			pause();
	}
	close(answer[1]);
	got = read(answer[0], &got, sizeof(got)) == sizeof(got) ? got : -EIO;
	close(answer[0]);
	return got;
}

static void user_end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* The last one that is left is not for a user that has others, by however many files and processes. */
TEST_F(snapshot, user)
{
	struct client *client = &self->client;
	const char *path = client->store.path;
	struct snapshot own[2];
	pid_t users[4];
	uint32_t i;

	for (i = 0; i < 3; i++)
		EXPECT_EQ(0, user_take(path, &users[i]));
	EXPECT_EQ(-EBUSY, user_take(path, &users[3]));
	user_end(users[3]);
	/* It is for others; then there is none. */
	ASSERT_EQ(0, snapshot_open(client->store.fd, 0, 0, &own[0]));
	EXPECT_EQ(-EBUSY, snapshot_try(client->store.fd, (struct lsmem_snapshot){ 0 }));
	user_end(users[2]);
	EXPECT_EQ(-EBUSY, user_take(path, &users[2]));
	/* A user that may exceed limits takes that as well. */
	ASSERT_EQ(0, snapshot_open(client->store.fd, 0, 0, &own[1]));
	for (i = 0; i < 3; i++)
		user_end(users[i]);
	/* Whichever user has the others. */
	EXPECT_EQ(0, user_take(path, &users[0]));
	EXPECT_EQ(-EBUSY, user_take(path, &users[1]));
	snapshot_close(&own[0]);
	snapshot_close(&own[1]);
	for (i = 0; i < 2; i++)
		user_end(users[i]);
	/* Of one in all nothing is set aside. */
	EXPECT_EQ(0, store_set_attribute(&client->store, "limits/snapshots_max", 1));
	EXPECT_EQ(0, user_take(path, &users[0]));
	EXPECT_EQ(-EBUSY, user_take(path, &users[1]));
	for (i = 0; i < 2; i++)
		user_end(users[i]);
}

/* What is not active has none; of a store that is not tiered nothing is to be read from backups. */
TEST_F(snapshot, other_stores)
{
	struct lsmem_query query = { .size = sizeof(query) };
	struct lsmem_snapshot_read read = { .size = sizeof(read), .nr = 1 };
	struct snapshot snapshot;
	struct store other;

	ASSERT_EQ(0, snapshot_open(self->client.store.fd, 0, 0, &snapshot));
	EXPECT_EQ(0, snapshot.page->cold.length);
	EXPECT_EQ(-1, ioctl(snapshot.call.fd, LSMEM_IOC_SNAPSHOT_READ, &read));
	EXPECT_EQ(EOPNOTSUPP, errno);
	snapshot_close(&snapshot);
	ASSERT_EQ(0, store_create(&other, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	EXPECT_EQ(-EAGAIN, snapshot_try(other.fd, (struct lsmem_snapshot){ 0 }));
	EXPECT_EQ(0, store_destroy(&other));
	ASSERT_EQ(0, store_create_tiered(&other, STORE_BYTES, 2 * STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	EXPECT_EQ(-EAGAIN, snapshot_try(other.fd, (struct lsmem_snapshot){ 0 }));
	ASSERT_EQ(0, ioctl(other.fd, LSMEM_IOC_QUERY, &query));
	EXPECT_TRUE(query.features & LSMEM_FEATURE_SNAPSHOT);
	EXPECT_EQ(0, store_destroy(&other));
}

/* ---- What is kept back ------------------------------------------------------------------ */

#define FILL		2000u	/* objects of LENGTH_FILL bytes: three segments */
#define LENGTH_FILL	9000u

/* Objects 0 .. FILL - 1, with content @serial. */
static int fill(const struct client *client, uint64_t serial)
{
	uint8_t bytes[LENGTH_FILL];
	uint32_t i;
	int ret;

	for (i = 0; i < FILL; i++) {
		uint64_t handle = client->objects[i];

		content_fill(bytes, sizeof(bytes), i, serial);
		ret = handle ? lsm_replace(client->store.lsm, handle, bytes, sizeof(bytes), 0, NULL) :
			       lsm_alloc(client->store.lsm, bytes, sizeof(bytes), 0, &handle, NULL);
		if (ret)
			return ret;
		client->objects[i] = handle;
	}
	return 0;
}

/* Have all garbage collected, until @condition. */
#define collect(client, condition) ({					\
	uint64_t __end = now_ms() + test_limit(WAIT_MS);		\
	bool __is;							\
									\
	while (!(__is = (condition)) && now_ms() < __end) {		\
		stir(client);						\
		usleep(1000);						\
	}								\
	__is;								\
})

/* How many of the objects of fill() does a snapshot have with this content? */
static uint32_t count_filled(const struct client *client, const struct snapshot *snapshot, uint64_t serial)
{
	struct scan scan = { .version = snapshot->call.version };
	uint8_t bytes[LENGTH_FILL];
	uint32_t seglet, i, nr = 0;
	uint64_t j;

	for (seglet = 0; seglet < client->info.nr_seglets; seglet++)
		scan_seglet(client, snapshot, seglet, &scan);
	qsort(scan.objects, scan.nr, sizeof(*scan.objects), found_cmp);
	for (i = 0; i < FILL; i++) {
		uint32_t crc;

		content_fill(bytes, sizeof(bytes), i, serial);
		crc = lsmem_crc32c(~0u, bytes, sizeof(bytes));
		for (j = 0; j < scan.nr && scan.objects[j].handle != client->objects[i]; j++)
			;
		nr += j < scan.nr && scan.objects[j].crc == crc;
	}
	free(scan.objects);
	return nr;
}

/* What is replaced stays in the snapshot until it ends, and then becomes free. */
TEST_F(snapshot, kept)
{
	struct client *client = &self->client;
	struct snapshot first, second;
	long long before;

	ASSERT_EQ(0, fill(client, 1));
	ASSERT_EQ(0, snapshot_open(client->store.fd, 0, 0, &first));
	ASSERT_EQ(0, fill(client, 2));
	ASSERT_EQ(0, snapshot_open(client->store.fd, 0, 0, &second));
	ASSERT_EQ(0, fill(client, 3));
	ASSERT_TRUE(collect(client, second.page->kept >= 128));
	EXPECT_LE(128, first.page->kept);
	EXPECT_EQ(FILL, count_filled(client, &first, 1));
	EXPECT_EQ(FILL, count_filled(client, &second, 2));
	EXPECT_EQ(LSMEM_SNAPSHOT_STANDS, snapshot_state(&first));
	EXPECT_EQ(LSMEM_SNAPSHOT_STANDS, snapshot_state(&second));
	/* Each keeps back its own, and what both keep back only once counts. */
	EXPECT_LE(first.page->kept, store_attribute(&client->store, "cleaner/snapshot_seglets"));
	EXPECT_GE(first.page->kept + second.page->kept,
		  store_attribute(&client->store, "cleaner/snapshot_seglets"));
	before = store_attribute(&client->store, "free_seglets");
	snapshot_close(&first);
	EXPECT_EQ(FILL, count_filled(client, &second, 2));
	EXPECT_EQ(LSMEM_SNAPSHOT_STANDS, snapshot_state(&second));
	/* It is done with the lower half: what is above stays. */
	EXPECT_EQ(0, snapshot_done(&second, 1));
	EXPECT_EQ(FILL, count_filled(client, &second, 2));
	EXPECT_EQ(0, snapshot_done(&second, ~0u));
	EXPECT_EQ(0, second.page->kept);
	EXPECT_EQ(0, store_attribute(&client->store, "cleaner/snapshot_seglets"));
	EXPECT_LT(before, store_attribute(&client->store, "free_seglets"));
	snapshot_close(&second);
}

/* Too many seglets: the snapshot is told so. */
TEST_F(snapshot, budget)
{
	struct client *client = &self->client;
	struct snapshot snapshot, other;

	ASSERT_EQ(0, fill(client, 1));
	ASSERT_EQ(0, snapshot_open(client->store.fd, 100, 0, &snapshot));
	ASSERT_EQ(0, snapshot_open(client->store.fd, 0, 0, &other));
	ASSERT_EQ(0, fill(client, 2));
	ASSERT_TRUE(collect(client, snapshot_state(&snapshot) != LSMEM_SNAPSHOT_STANDS));
	EXPECT_EQ(LSMEM_SNAPSHOT_KEPT, snapshot_state(&snapshot));
	EXPECT_EQ(-ECANCELED, snapshot_done(&snapshot, 1));
	EXPECT_EQ(LSMEM_SNAPSHOT_STANDS, snapshot_state(&other));
	EXPECT_EQ(FILL, count_filled(client, &other, 1));
	EXPECT_EQ(1, store_attribute(&client->store, "cleaner/snapshots_revoked"));
	snapshot_close(&snapshot);
	EXPECT_EQ(FILL, count_filled(client, &other, 1));
	snapshot_close(&other);
}

/* Is there anything in the second half of the first batch that is not of the snapshot? */
static bool is_spoilt(const struct client *client, const struct snapshot *snapshot)
{
	struct scan scan = { .version = snapshot->call.version };
	uint32_t seglet;

	for (seglet = BATCH / 2; seglet < BATCH; seglet++)
		scan_seglet(client, snapshot, seglet, &scan);
	free(scan.objects);
	return scan.strays + scan.newer > 0;
}

/* Have the snapshot revoked, and what it kept back in the first batch used again. */
static void spoil(const struct client *client, const struct snapshot *snapshot)
{
	if (fill(client, 2) ||
	    !collect(client, store_attribute(&client->store, "cleaner/snapshots_revoked") > 0) ||
	    !collect(client, !fill(client, 3) && is_spoilt(client, snapshot)))
		abort();
}

/* Revoked in the midst of a batch, which is not what it was at V: the look behind the batch tells. */
TEST_F(snapshot, batch)
{
	struct client *client = &self->client;
	struct scan scan = { 0 };
	struct snapshot snapshot;

	ASSERT_EQ(0, fill(client, 1));
	ASSERT_EQ(0, snapshot_open(client->store.fd, 100, 0, &snapshot));
	scan_all(client, &snapshot, &scan, spoil);
	EXPECT_EQ(LSMEM_SNAPSHOT_KEPT, scan.state);
	EXPECT_EQ(0, scan.nr);
	EXPECT_LT(0, scan.strays + scan.newer);
	free(scan.objects);
	snapshot_close(&snapshot);
}

/* Too long: it is told so, and what it kept back is free while it is still open. */
TEST_F(snapshot, time)
{
	struct client *client = &self->client;
	struct snapshot snapshot;

	ASSERT_EQ(0, fill(client, 1));
	ASSERT_EQ(0, snapshot_open(client->store.fd, 0, 1, &snapshot));
	ASSERT_TRUE(snapshot_becomes(&snapshot, LSMEM_SNAPSHOT_TIME));
	EXPECT_EQ(-ECANCELED, snapshot_done(&snapshot, 1));
	ASSERT_EQ(0, fill(client, 2));
	/* And is used again. */
	ASSERT_TRUE(collect(client, !fill(client, 3) && count_filled(client, &snapshot, 1) < FILL));
	EXPECT_EQ(0, store_attribute(&client->store, "cleaner/snapshot_seglets"));
	snapshot_close(&snapshot);
}

/*
 * Writers fill what is left: they take the seglets that the snapshot keeps back.  None of them is told that the
 * store is full, and none waits for long: not until the snapshot's time is over, nor for the kernel's patience with
 * a store without space (limits/stall_ms), which are a minute and half of it, but for the work that frees what was kept
 * back, and for cleaners.  These wait for an epoch, for limits/view_ms at most, and move a segment.
 */
TEST_F(snapshot, pressed)
{
	struct client *client = &self->client;
	uint8_t bytes[LENGTH_FILL] = { 0 };
	struct snapshot snapshot;
	struct lsmem_stat before, stat;
	uint64_t handle, nr = 0, begin, took, longest = 0, patience;
	int ret = 0;

	ASSERT_EQ(0, fill(client, 1));
	ASSERT_EQ(0, snapshot_open(client->store.fd, 0, 0, &snapshot));
	ASSERT_EQ(0, fill(client, 2));
	ASSERT_TRUE(collect(client, snapshot.page->kept >= 128));
	patience = test_limit(2 * (uint64_t)store_attribute(&client->store, "limits/view_ms"));
	ASSERT_EQ(0, lsm_stat(client->store.lsm, &before));
	/* Up to the capacity, and all that is admitted finds space. */
	while (!ret) {
		begin = now_ms();
		ret = lsm_alloc(client->store.lsm, bytes, sizeof(bytes), 0, &handle, NULL);
		took = now_ms() - begin;
		longest = took > longest ? took : longest;
		nr += !ret;
	}
	EXPECT_EQ(-ENOSPC, ret);
	EXPECT_GT(patience, longest);
	ASSERT_EQ(0, lsm_stat(client->store.lsm, &stat));
	EXPECT_LT(stat.capacity - 2 * LENGTH_FILL, stat.live_bytes);
	EXPECT_EQ(LSMEM_SNAPSHOT_SPACE, snapshot_state(&snapshot));
	EXPECT_EQ(0, store_attribute(&client->store, "cleaner/snapshot_seglets"));
	TH_LOG("%llu objects, %llu stalls of %llu us in all, the longest call %llu ms", (unsigned long long)nr,
	       (unsigned long long)(stat.stalls - before.stalls),
	       (unsigned long long)(stat.stall_ns - before.stall_ns) / 1000, (unsigned long long)longest);
	snapshot_close(&snapshot);
	/* Where nothing may be kept back there is none. */
	EXPECT_EQ(0, store_set_attribute(&client->store, "limits/snapshot_kept", 1));
	EXPECT_EQ(-ENOSPC, snapshot_try(client->store.fd, (struct lsmem_snapshot){ 0 }));
}

/* A process that is killed leaves nothing. */
TEST_F(snapshot, killed)
{
	struct client *client = &self->client;
	int ready[2], i, status;
	char byte;

	ASSERT_EQ(0, fill(client, 1));
	for (i = 0; i < 5; i++) {
		pid_t child;

		ASSERT_EQ(0, pipe(ready));
		child = fork();
		ASSERT_LE(0, child);
		if (!child) {
			int fd = open(client->store.path, O_RDWR | O_CLOEXEC);
			struct snapshot snapshot;

			if (snapshot_open(fd, 0, 0, &snapshot) || write(ready[1], "", 1) != 1)
				_exit(1);
			/* Until it is killed. */
			for (;;)
				snapshot_try(fd, (struct lsmem_snapshot){ 0 });
		}
		close(ready[1]);
		ASSERT_EQ(1, read(ready[0], &byte, 1));
		close(ready[0]);
		ASSERT_EQ(0, fill(client, 2));
		stir(client);
		ASSERT_EQ(0, kill(child, SIGKILL));
		ASSERT_EQ(child, waitpid(child, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status));
		EXPECT_EQ(0, store_attribute(&client->store, "cleaner/snapshots"));
	}
	ASSERT_TRUE(collect(client, !store_attribute(&client->store, "cleaner/snapshot_seglets")));
}

/* The mapping alone holds the snapshot, and a child does not inherit it. */
TEST_F(snapshot, mapping)
{
	struct client *client = &self->client;
	struct snapshot snapshot;
	pid_t child;
	int status;

	ASSERT_EQ(0, fill(client, 1));
	ASSERT_EQ(0, snapshot_open(client->store.fd, 0, 0, &snapshot));
	close(snapshot.call.fd);
	ASSERT_EQ(0, fill(client, 2));
	ASSERT_TRUE(collect(client, snapshot.page->kept >= 128));
	EXPECT_EQ(FILL, count_filled(client, &snapshot, 1));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		signal(SIGSEGV, SIG_DFL);
		_exit((int)snapshot.page->state);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	munmap((void *)snapshot.page, snapshot.call.bytes);
}

TEST_HARNESS_MAIN
