// SPDX-License-Identifier: GPL-2.0
/*
 * What the source of a migration tells (LSMEM_REPL_WORDS): a daemon gathers words while clients write and delete, and
 * cleaner and compactors work; then it freezes the store and takes the rest.  What counts of all that was told must be
 * exactly what is live, and the bytes at each place those of the entry.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "keeper.h"
#include "store.h"

#define TERM		7u
#define STALL_MS	100u	/* the least that the kernel takes */
#define WAIT_MS		20000u
#define HANDLES		(1u << 14)
#define ROOM		8192u	/* most listings of a call */
#define WRITERS		3u
#define OBJECTS		2000u	/* most of a writer */
#define FREEZES		4u
#define BETWEEN		(STORE_BYTES / 2)	/* bytes that are written between two of them */
#define BLOCK		4096u
#define BLOCKS		1024u
#define SECONDS		120	/* time limit of a test; sufficient under emulation */

static int call(int fd, unsigned long request, void *argument)
{
	return ioctl(fd, request, argument) ? -errno : 0;
}

/* ---- Gathering ------------------------------------------------------------ */

/* What counts for an index, @counts: as that of an object. @segment 0: nothing was told. */
struct known {
	uint64_t key;
	uint64_t version;
	uint64_t meta;
	uint64_t place;
	uint64_t segment;
	uint32_t generation;
	bool tombstone;
	bool counts;
};

/**
 * struct gathered - what a target knows
 * @known: by index
 * @listings: of a call
 * @segment: that the last call has told
 * @home: where its last listing ends
 * @told: listings that counted when they were told
 * @parts: calls that told a segment in part
 * @again: listings of something that was known, in another place of the same segment
 * @cold: those that are not in memory
 * @ask: flags to ask with for places of what is not in the memory of its segment
 * @cached: places in cache segments, in the end
 * @wrong: the first thing that is not as it should be
 */
struct gathered {
	struct known known[HANDLES + LSMEM_RESERVED];
	struct lsmem_listing listings[ROOM];
	uint64_t segment;
	uint32_t home;
	uint64_t told, parts, again, cold, cached;
	uint32_t ask;
	char wrong[160];
};

#define WRONG(g, ...) do {							\
	if (!*(g)->wrong)							\
		snprintf((g)->wrong, sizeof((g)->wrong), __VA_ARGS__);		\
} while (0)

/* Of two listings of an index the one with the higher generation counts, then the higher version, then the later one. */
static void count(struct gathered *g, const struct lsmem_listing *listing, const struct lsmem_words *words)
{
	uint64_t key = __le64_to_cpu(listing->key), index = lsmem_handle_index(key);
	uint64_t meta = __le64_to_cpu(listing->meta);
	struct known new = {
		.key = key,
		.version = __le64_to_cpu(listing->version),
		.meta = meta,
		.place = __le64_to_cpu(listing->place),
		.segment = words->segment,
		.generation = words->generation,
		.tombstone = LSMEM_LISTING_GET(meta, TYPE) == LSMEM_TYPE_TOMBSTONE,
	}, *old;

	if (index >= HANDLES + LSMEM_RESERVED || !lsmem_handle_generation(key)) {
		WRONG(g, "key %#llx", (unsigned long long)key);
		return;
	}
	old = &g->known[index];
	if (new.tombstone && old->key == key && !old->tombstone && new.place <= old->segment)
		WRONG(g, "barrier %llu of the tombstone of an object of segment %llu",
		      (unsigned long long)new.place, (unsigned long long)old->segment);
	if (old->segment && (lsmem_handle_generation(old->key) > lsmem_handle_generation(key) ||
			     (old->key == key && old->version > new.version)))
		return;
	g->again += old->key == key && old->version == new.version && old->segment == new.segment &&
		    old->place != new.place;
	*old = new;
	g->told++;
}

/* Listings of a segment are in the order of their homes, and within the log that it has. */
static void check_home(struct gathered *g, const struct lsmem_listing *listing, const struct lsmem_words *words)
{
	uint64_t meta = __le64_to_cpu(listing->meta);
	uint32_t home = LSMEM_LISTING_GET(meta, HOME) * LSMEM_ALIGN, length = LSMEM_LISTING_GET(meta, LENGTH);

	if (home < g->home || lsmem_entry_start(home) != home || home + lsmem_entry_size(length) > words->end)
		WRONG(g, "segment %llu: an entry of %u bytes at %u, behind %u, of %u",
		      (unsigned long long)words->segment, length, home, g->home, words->end);
	g->home = home + lsmem_entry_size(length);
}

/* Have the places of the entries of a segment that are not in memory. Returns 0 or a negative errno. */
static int gather_cold(struct gathered *g, struct keeper *keeper, int fd, uint64_t segment)
{
	struct lsmem_words words = {
		.size = sizeof(words), .flags = LSMEM_WORDS_PLACES | g->ask, .listings = (uintptr_t)g->listings,
	}, ask = words;
	const uint8_t *bytes = NULL;
	uint32_t length = 0, at = 0, nr = 0, i;
	int ret = 0;

	pthread_mutex_lock(&keeper->lock);
	for (i = 0; i < KEEPER_FRAMES; i++)
		if (keeper->frames[i].id == segment) {
			bytes = keeper->frames[i].bytes;
			length = keeper->frames[i].length;
		}
	while (bytes && !ret && (nr || at < length)) {
		const struct lsmem_entry *e = (const void *)(bytes + at);

		if (at < length && nr < LSMEM_WORDS_PLACES_MAX) {
			struct lsmem_directory_entry entry = lsmem_entry_listing(e, at);

			if (lsmem_entry_type(e) == LSMEM_TYPE_OBJECT || lsmem_entry_type(e) == LSMEM_TYPE_TOMBSTONE)
				g->listings[nr++] = (struct lsmem_listing){ entry.key, entry.version, entry.meta, 0 };
			at = lsmem_entry_start(at + lsmem_entry_bytes(e));
			continue;
		}
		ask = words;
		ask.segment = segment;
		ask.nr = nr;
		ret = call(fd, LSMEM_REPL_WORDS, &ask);
		for (i = 0; !ret && i < nr; i++) {
			if (g->listings[i].place == __cpu_to_le64(LSMEM_PLACE_NONE))
				continue;
			g->cold += g->listings[i].place == __cpu_to_le64(LSMEM_PLACE_COLD);
			count(g, &g->listings[i], &ask);
		}
		nr = 0;
	}
	pthread_mutex_unlock(&keeper->lock);
	return ret == -ENOENT ? 0 : ret;	/* it was retired */
}

/* One call. Returns 1: a segment was told; 0: none has changed; or a negative errno. */
static int gather(struct gathered *g, const struct follower *follower, uint32_t flags, uint32_t room)
{
	struct lsmem_words words = {
		.size = sizeof(words), .flags = flags, .listings = (uintptr_t)g->listings, .nr = room,
	};
	int ret = call(follower->attach.fd, LSMEM_REPL_WORDS, &words);
	uint32_t i;

	if (ret || !words.segment)
		return ret;
	if (words.nr > room || words.state & ~LSMEM_WORDS_MORE)
		WRONG(g, "%u listings, state %#x", words.nr, words.state);
	if (words.segment != g->segment)
		g->home = 0;
	for (i = 0; i < words.nr; i++) {
		/* An open segment goes on where it was, one that has changed from its beginning. */
		if (!i && LSMEM_LISTING_GET(__le64_to_cpu(g->listings[0].meta), HOME) * LSMEM_ALIGN < g->home)
			g->home = 0;
		check_home(g, &g->listings[i], &words);
		count(g, &g->listings[i], &words);
	}
	g->parts += words.state & LSMEM_WORDS_MORE;
	g->segment = words.segment;
	if (words.cold && !(words.state & LSMEM_WORDS_MORE) && follower->keeper)
		ret = gather_cold(g, follower->keeper, follower->attach.fd, words.segment);
	return ret ?: 1;
}

/* Take all that is left. Returns 0 or a negative errno. */
static int gather_all(struct gathered *g, const struct follower *follower, uint32_t flags)
{
	int ret = gather(g, follower, flags, ROOM);

	while (ret > 0)
		ret = gather(g, follower, 0, ROOM);
	return ret;
}

/* ---- Freezing -------------------------------------------------------------- */

/*
 * Freeze the store, and have the follower acknowledge all events.  Returns how many objects there are, or a negative
 * errno.
 */
static int64_t freeze(struct follower *follower)
{
	struct pollfd pollfd = { .fd = follower->attach.fd, .events = POLLIN };
	struct lsmem_freeze freeze = { .size = sizeof(freeze), .term = TERM };
	uint64_t end = now_ms() + test_limit(WAIT_MS);
	bool pending = true;
	int ret;

	do {
		if (now_ms() > end)
			return -ETIMEDOUT;
		freeze.frozen = 0;
		freeze.objects = 0;
		ret = call(follower->attach.fd, LSMEM_REPL_FREEZE, &freeze);
		usleep(1000);
	} while (!ret && !freeze.frozen);
	while (!ret && pending) {
		if (now_ms() > end)
			return -ETIMEDOUT;
		follower_sleep(follower, true);		/* what it has taken is acknowledged */
		pending = poll(&pollfd, 1, 0) > 0;
		follower_sleep(follower, false);
		usleep(1000);
	}
	return ret ?: (int64_t)freeze.objects;
}

static int thaw(const struct follower *follower)
{
	struct lsmem_freeze freeze = { .size = sizeof(freeze), .flags = LSMEM_FREEZE_THAW };

	return call(follower->attach.fd, LSMEM_REPL_FREEZE, &freeze);
}

/* Is the object where it was told to be, says its word? */
static bool is_placed(const struct gathered *g, const struct follower *follower, const struct known *known)
{
	struct lsmem_listing listing = {
		__cpu_to_le64(known->key), __cpu_to_le64(known->version), __cpu_to_le64(known->meta), 0,
	};
	struct lsmem_words words = {
		.size = sizeof(words), .flags = LSMEM_WORDS_PLACES | g->ask, .segment = known->segment,
		.listings = (uintptr_t)&listing, .nr = 1,
	};

	return !call(follower->attach.fd, LSMEM_REPL_WORDS, &words) && words.generation == known->generation &&
	       listing.place == __cpu_to_le64(known->place);
}

/*
 * What was told of a segment that is retired counts no more; the bytes at each place are those of the entry.  Returns how
 * many objects count.
 */
static int64_t check_places(struct gathered *g, struct follower *follower)
{
	int64_t nr = 0;
	uint32_t i;

	g->cached = 0;
	for (i = 0; i < HANDLES + LSMEM_RESERVED; i++) {
		struct known *known = &g->known[i];
		struct lsmem_directory_entry entry;
		const struct lsmem_entry *e;
		uint64_t cache;
		uint32_t salt;

		known->counts = known->segment && !known->tombstone && !atomic_load(&follower->gone[known->segment]);
		nr += known->counts;
		if (known->counts && !is_placed(g, follower, known))
			WRONG(g, "index %u: not in segment %llu at %#llx", i, (unsigned long long)known->segment,
			      (unsigned long long)known->place);
		if (!known->counts || known->place == LSMEM_PLACE_COLD)
			continue;
		cache = known->place >> LSMEM_PLACE_CACHE_SHIFT;
		g->cached += cache != 0;
		salt = cache ? lsmem_segment_salt(follower->attach.uuid, LSMEM_SEGMENT_ID_END + cache, 1) :
		       lsmem_segment_salt(follower->attach.uuid, known->segment, known->generation);
		e = follower_entry(follower, known->place & ((1ull << LSMEM_POSITION_BITS) - 1), salt);
		if (!e) {
			WRONG(g, "index %u: no entry of segment %llu at %#llx", i, (unsigned long long)known->segment,
			      (unsigned long long)known->place);
			return nr;
		}
		entry = lsmem_entry_listing(e, LSMEM_LISTING_GET(known->meta, HOME) * LSMEM_ALIGN);
		if (entry.key != __cpu_to_le64(known->key) || entry.version != __cpu_to_le64(known->version) ||
		    entry.meta != __cpu_to_le64(known->meta) ||
		    lsmem_entry_home(e) != LSMEM_LISTING_GET(known->meta, HOME) * LSMEM_ALIGN / LSMEM_BLOCK)
			WRONG(g, "index %u: another entry at %#llx", i, (unsigned long long)known->place);
	}
	return nr;
}

/* What counts is what is live.  The store is thawed, and nothing changes. */
static void check_live(struct gathered *g, int fd)
{
	uint64_t live = 0, i;
	char data[8];

	for (i = 0; i < HANDLES + LSMEM_RESERVED; i++) {
		struct lsmem_op op = lsm_op_read(i, data, sizeof(data), 0);
		const struct known *known = &g->known[i];
		int ret;

		op.flags = LSMEM_OPF_INDEX;
		ret = call(fd, LSMEM_IOC_READ, &op);
		if (ret && ret != -ENOENT)
			WRONG(g, "index %llu: %s", (unsigned long long)i, strerror(-ret));
		live += !ret;
		if (!ret != known->counts ||
		    (!ret && (op.handle != known->key || op.version != known->version)))
			WRONG(g, "index %llu: handle %#llx version %#llx; told: %#llx %#llx segment %llu%s",
			      (unsigned long long)i, ret ? 0ull : (unsigned long long)op.handle,
			      ret ? 0ull : (unsigned long long)op.version, (unsigned long long)known->key,
			      (unsigned long long)known->version, (unsigned long long)known->segment,
			      known->counts ? "" : known->tombstone ? ", a tombstone" : ", retired");
	}
	if (!live)
		WRONG(g, "nothing is live");
}

/* ---- Objects --------------------------------------------------------------- */

FIXTURE(words) {
	struct follower follower;
	struct keeper keeper;
	struct store store;
	struct gathered *gathered;
};

/* With @capacity the store is tiered: @objects of each writer are more than its memory holds. */
FIXTURE_VARIANT(words) {
	uint64_t capacity;
	uint32_t objects;
	uint32_t large;		/* percent */
};

FIXTURE_VARIANT_ADD(words, memory) {
	.objects = 800,
	.large = 20,
};

FIXTURE_VARIANT_ADD(words, tiered) {
	.capacity = 3 * STORE_BYTES,
	.objects = OBJECTS,
	.large = 60,
};

FIXTURE_SETUP(words)
{
	self->gathered = calloc(1, sizeof(*self->gathered));
	ASSERT_NE(NULL, self->gathered);
	keeper_init(&self->keeper);
	ASSERT_EQ(0, store_create_tiered(&self->store, STORE_BYTES, variant->capacity, HANDLES, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, variant->capacity ? keeper_follow(&self->keeper, &self->follower, self->store.name) :
					 follower_start(&self->follower, self->store.name));
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
}

FIXTURE_TEARDOWN(words)
{
	EXPECT_STREQ("", self->gathered->wrong);
	if (self->follower.keeper)
		keeper_stop(&self->keeper);
	follower_stop(&self->follower);
	EXPECT_STREQ("", self->follower.wrong);
	follower_free(&self->follower);
	EXPECT_EQ(0, store_destroy(&self->store));
	EXPECT_EQ(0, atomic_load(&self->keeper.error));
	keeper_free(&self->keeper);
	free(self->gathered);
}

TEST_F(words, refused)
{
	struct lsmem_listing listings[2] = { };
	struct lsmem_words wrong[] = {
		{ .size = sizeof(*wrong) - 1, .nr = 1 },
		{ .size = sizeof(*wrong), .nr = 0 },
		{ .size = sizeof(*wrong), .nr = 1, .flags = LSMEM_WORDS_PLACES << 1 },
		{ .size = sizeof(*wrong), .nr = 1, .segment = 1 },
		{ .size = sizeof(*wrong), .nr = 1, .generation = 1 },
		{ .size = sizeof(*wrong), .nr = 1, .end = 1 },
		{ .size = sizeof(*wrong), .nr = 1, .cold = 1 },
		{ .size = sizeof(*wrong), .nr = 1, .state = 1 },
		{ .size = sizeof(*wrong), .nr = 1, .left = 1 },
		{ .size = sizeof(*wrong), .nr = 1, .reserved = 1 },
		{ .size = sizeof(*wrong), .nr = 1, .flags = LSMEM_WORDS_PLACES },
		{ .size = sizeof(*wrong), .nr = 0, .flags = LSMEM_WORDS_PLACES, .segment = 1 },
		{ .size = sizeof(*wrong), .nr = LSMEM_WORDS_PLACES_MAX + 1, .flags = LSMEM_WORDS_PLACES, .segment = 1 },
		{ .size = sizeof(*wrong), .nr = 1, .flags = LSMEM_WORDS_PLACES | LSMEM_WORDS_BEGIN, .segment = 1 },
	};
	struct lsmem_words words = {
		.size = sizeof(words), .nr = 1, .flags = LSMEM_WORDS_PLACES, .segment = 1u << 30,
		.listings = (uintptr_t)listings,
	}, again;
	int fd = self->follower.attach.fd;
	struct follower other;
	struct store new;
	uint64_t handle;
	unsigned int i;

	for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		wrong[i].listings = (uintptr_t)listings;
		EXPECT_EQ(-EINVAL, call(fd, LSMEM_REPL_WORDS, &wrong[i])) TH_LOG("case %u", i);
	}
	EXPECT_EQ(-ENOENT, call(fd, LSMEM_REPL_WORDS, &words));
	words.listings = 0;
	EXPECT_EQ(-EFAULT, call(fd, LSMEM_REPL_WORDS, &words));
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "new", 4, 0, &handle, NULL));
	/* What could not be copied is told again. */
	words = (struct lsmem_words){ .size = sizeof(words), .nr = 2, .flags = LSMEM_WORDS_BEGIN };
	again = words;
	EXPECT_EQ(-EFAULT, call(fd, LSMEM_REPL_WORDS, &words));
	again.flags = 0;
	again.listings = (uintptr_t)listings;
	EXPECT_EQ(0, call(fd, LSMEM_REPL_WORDS, &again));
	EXPECT_EQ(1, again.nr);
	EXPECT_EQ(handle, __le64_to_cpu(listings[0].key));

	ASSERT_EQ(0, store_create(&new, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_attach(&other, new.name));
	again = (struct lsmem_words){ .size = sizeof(again), .nr = 2, .listings = (uintptr_t)listings };
	EXPECT_EQ(-EAGAIN, call(other.attach.fd, LSMEM_REPL_WORDS, &again));
	close(other.attach.fd);
	follower_free(&other);
	EXPECT_EQ(0, store_destroy(&new));
}

/* With little room a segment is told in parts, each listing once; later what is new, alone. */
TEST_F(words, room)
{
	struct gathered *g = self->gathered;
	uint64_t handles[5];
	unsigned int i;

	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, "new", 4, 0, &handles[i], NULL));
	ASSERT_EQ(0, lsm_free(self->store.lsm, handles[3], 0, NULL));
	ASSERT_EQ(1, gather(g, &self->follower, LSMEM_WORDS_BEGIN, 1));
	while (gather(g, &self->follower, 0, 1) > 0)
		;
	EXPECT_EQ(4, g->told);
	EXPECT_LE(1, g->parts);
	for (i = 0; i < 4; i++) {
		const struct known *known = &g->known[lsmem_handle_index(handles[i])];

		EXPECT_EQ(handles[i], known->key);
		EXPECT_EQ(i == 3, known->tombstone);
	}
	EXPECT_EQ(0, gather(g, &self->follower, 0, 1));
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "new", 4, 0, &handles[4], NULL));
	ASSERT_EQ(0, gather_all(g, &self->follower, 0));
	EXPECT_EQ(5, g->told);
	EXPECT_EQ(handles[4], g->known[lsmem_handle_index(handles[4])].key);
	ASSERT_EQ(0, gather_all(g, &self->follower, LSMEM_WORDS_BEGIN));
	EXPECT_EQ(10, g->told);
}

/* The next daemon goes on, or begins anew. */
TEST_F(words, successor)
{
	uint8_t uuid[16];
	uint64_t handle, other;

	memcpy(uuid, self->follower.attach.uuid, sizeof(uuid));
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "new", 4, 0, &handle, NULL));
	ASSERT_EQ(0, gather_all(self->gathered, &self->follower, LSMEM_WORDS_BEGIN));
	EXPECT_EQ(1, self->gathered->told);
	if (self->follower.keeper)
		keeper_stop(&self->keeper);
	follower_stop(&self->follower);
	EXPECT_STREQ("", self->follower.wrong);
	follower_free(&self->follower);
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "new", 4, 0, &other, NULL));
	ASSERT_EQ(0, follower_succeed(&self->follower, &self->store, uuid));
	if (self->follower.keeper)
		ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
	ASSERT_EQ(0, gather_all(self->gathered, &self->follower, 0));
	EXPECT_EQ(2, self->gathered->told);
	ASSERT_EQ(2, freeze(&self->follower));
	ASSERT_EQ(0, gather_all(self->gathered, &self->follower, LSMEM_WORDS_BEGIN));
	EXPECT_EQ(4, self->gathered->told);
	EXPECT_EQ(2, check_places(self->gathered, &self->follower));
	ASSERT_EQ(0, thaw(&self->follower));
	check_live(self->gathered, self->store.fd);
}

/*
 * A bit of a header in memory flips, so that it names another handle: its object looks dead.  The calls do not notice; the
 * number of objects does.
 */
TEST_F(words, damaged)
{
	struct follower *follower = &self->follower;
	const struct lsmem_info *info = follower->info;
	struct gathered *g = self->gathered;
	const struct known *known;
	struct lsmem_entry *e;
	uint64_t handles[3];
	uint8_t *seglets;
	unsigned int i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, "new", 4, 0, &handles[i], NULL));
	ASSERT_EQ(3, freeze(follower));
	ASSERT_EQ(0, gather_all(g, follower, LSMEM_WORDS_BEGIN));
	EXPECT_EQ(3, check_places(g, follower));
	seglets = mmap(NULL, info->seglets.length, PROT_READ | PROT_WRITE, MAP_SHARED, follower->attach.fd,
		       (off_t)info->seglets.offset);
	if (seglets == MAP_FAILED && errno == EACCES)
		SKIP(return, "memory cannot be written to here: RDMA needs no writable window of this kernel");
	ASSERT_NE(MAP_FAILED, seglets);
	known = &g->known[lsmem_handle_index(handles[1])];
	e = (void *)(seglets + (known->place >> LSMEM_POSITION_OFFSET_BITS) * LSMEM_SEGLET_BYTES +
		     (known->place & ((1u << LSMEM_POSITION_OFFSET_BITS) - 1)) * LSMEM_ALIGN);
	ASSERT_EQ(handles[1], lsmem_entry_handle(e));
	e->key ^= __cpu_to_le64(1u << 10);
	memset(g->known, 0, sizeof(g->known));
	ASSERT_EQ(0, gather_all(g, follower, LSMEM_WORDS_BEGIN));
	EXPECT_STREQ("", g->wrong);
	EXPECT_EQ(2, check_places(g, follower));
	EXPECT_EQ(3, freeze(follower));
	e->key ^= __cpu_to_le64(1u << 10);
	munmap(seglets, info->seglets.length);
	ASSERT_EQ(0, thaw(follower));
}

/* ---- Under load ------------------------------------------------------------------ */

struct writer {
	pthread_t thread;
	struct lsm *lsm;
	uint64_t random;
	uint32_t objects;
	uint32_t large;
	uint64_t handles[OBJECTS];
	int error;
};

/* The others are small, so that many are in a block. */
static uint32_t length(struct writer *writer)
{
	return 8 + random_below(&writer->random, random_chance(&writer->random, writer->large) ? 1u << 17 : 1u << 7);
}

static int free_one(struct lsm *lsm, uint64_t *handle)
{
	int ret = lsm_free(lsm, *handle, 0, NULL);

	if (!ret)
		*handle = 0;
	return ret;
}

static void *writer_main(void *argument)
{
	struct writer *writer = argument;
	char *bytes = calloc(1, 1u << 18);
	int ret = bytes ? 0 : -ENOMEM;

	while (!ret) {
		uint64_t *handle = &writer->handles[random_below(&writer->random, writer->objects)];

		if (!*handle)
			ret = lsm_alloc(writer->lsm, bytes, length(writer), 0, handle, NULL);
		else if (random_chance(&writer->random, 25))
			ret = free_one(writer->lsm, handle);
		else
			ret = lsm_replace(writer->lsm, *handle, bytes, length(writer), 0, NULL);
		if (ret == -EREMCHG)
			break;
		if (ret == -ENOSPC)	/* limits/stall_ms is short */
			ret = 0;
	}
	free(bytes);
	writer->error = ret == -EREMCHG ? 0 : ret ?: -ECANCELED;
	return NULL;
}

/* Read all objects: what is cold comes into cache segments. */
static void read_all(const struct writer *writers)
{
	static char bytes[1u << 18];
	uint32_t i, n;

	for (i = 0; i < WRITERS; i++)
		for (n = 0; n < writers[i].objects; n++)
			if (writers[i].handles[n])
				(void)lsm_read(writers[i].lsm, writers[i].handles[n], bytes, sizeof(bytes), 0, NULL);
}

/*
 * Words are gathered beside writers, cleaner and compactors, with any room, until the store is frozen, which ends the
 * writers; a thaw begins the next round.  In the end another target gets all anew.
 */
TEST_F_TIMEOUT(words, load, SECONDS)
{
	struct writer *writers = calloc(WRITERS, sizeof(*writers));
	uint64_t end = now_ms() + test_limit(60000), random = test_seed, calls = 0;
	struct gathered *g = self->gathered;
	struct lsmem_stat stat, before;
	uint32_t flags = LSMEM_WORDS_BEGIN, i, n;
	int64_t objects;
	int ret;

	ASSERT_NE(NULL, writers);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", STALL_MS));
	for (i = 0; i < WRITERS; i++)
		writers[i] = (struct writer){
			.lsm = self->store.lsm, .random = test_seed + i,
			.objects = variant->objects, .large = variant->large,
		};
	for (n = 0; n < FREEZES; n++) {
		ASSERT_EQ(0, lsm_stat(self->store.lsm, &before));
		for (i = 0; i < WRITERS; i++)
			ASSERT_EQ(0, pthread_create(&writers[i].thread, NULL, writer_main, &writers[i]));
		do {
			ret = gather(g, &self->follower, flags, 1 + random_below(&random, random_chance(&random, 50) ? ROOM : 50));
			ASSERT_LE(0, ret);
			flags = 0;
			if (++calls % 8 == 0)
				(void)store_set_text(&self->store, calls % 16 ? "cleaner/request_compact" :
						     "cleaner/request_clean", "4");
			usleep(1000);	/* for writers, if there is one processor */
			ASSERT_EQ(0, lsm_stat(self->store.lsm, &stat));
		} while (stat.appended_bytes < before.appended_bytes + BETWEEN && now_ms() < end);
		objects = freeze(&self->follower);
		ASSERT_LE(0, objects);
		for (i = 0; i < WRITERS; i++) {
			pthread_join(writers[i].thread, NULL);
			EXPECT_EQ(0, writers[i].error);
		}
		ASSERT_EQ(0, gather_all(g, &self->follower, 0));
		EXPECT_EQ(0, gather(g, &self->follower, 0, ROOM));
		EXPECT_EQ(objects, check_places(g, &self->follower));
		if (n == FREEZES - 1) {
			memset(g->known, 0, sizeof(g->known));
			ASSERT_EQ(0, gather_all(g, &self->follower, LSMEM_WORDS_BEGIN));
			EXPECT_EQ(objects, check_places(g, &self->follower));
		}
		ASSERT_EQ(0, thaw(&self->follower));
		check_live(g, self->store.fd);
		ASSERT_STREQ("", g->wrong) TH_LOG("round %u, seed %llu", n, (unsigned long long)test_seed);
	}
	TH_LOG("%llu calls, %llu listings, %llu again, %llu cold, %llu parts; %llu cleaned, %llu compacted",
	       (unsigned long long)calls, (unsigned long long)g->told, (unsigned long long)g->again,
	       (unsigned long long)g->cold, (unsigned long long)g->parts, (unsigned long long)stat.segments_cleaned,
	       (unsigned long long)stat.segments_compacted);
	EXPECT_LT(0, g->again) TH_LOG("no place has changed");
	EXPECT_LT(0, stat.segments_cleaned) TH_LOG("nothing was cleaned");
	if (variant->capacity) {
		EXPECT_LT(0, g->cold) TH_LOG("nothing was cold");
		read_all(writers);
		objects = freeze(&self->follower);
		g->ask = LSMEM_WORDS_CACHED;
		ASSERT_EQ(0, gather_all(g, &self->follower, LSMEM_WORDS_BEGIN));
		EXPECT_EQ(objects, check_places(g, &self->follower));
		EXPECT_LT(50u, g->cached) TH_LOG("few objects were fetched");
		EXPECT_STREQ("", g->wrong);
		ASSERT_EQ(0, thaw(&self->follower));
	}
	free(writers);
}

/* ---- A disk ------------------------------------------------------------------------ */

/* Blocks are objects with one generation; one that is discarded has a tombstone. */
TEST(disk)
{
	struct gathered *g = calloc(1, sizeof(*g));
	uint64_t range[2] = { BLOCK, 2 * BLOCK };
	struct follower follower;
	struct store store;
	uint8_t *buffer;
	unsigned int i;

	ASSERT_NE(NULL, g);
	ASSERT_EQ(0, store_create_disk(&store, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_start(&follower, store.name));
	store.fd = open(store.path, O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, store.fd);
	ASSERT_EQ(0, posix_memalign((void **)&buffer, BLOCK, BLOCKS * BLOCK));
	memset(buffer, 1, BLOCKS * BLOCK);
	ASSERT_EQ(BLOCKS * BLOCK, pwrite(store.fd, buffer, BLOCKS * BLOCK, 0));
	ASSERT_EQ(0, gather_all(g, &follower, LSMEM_WORDS_BEGIN));
	EXPECT_EQ(BLOCKS, g->told);
	ASSERT_EQ(0, ioctl(store.fd, BLKDISCARD, range));
	ASSERT_EQ(BLOCK, pwrite(store.fd, buffer, BLOCK, 0));
	ASSERT_EQ(BLOCKS - 2, freeze(&follower));
	ASSERT_EQ(0, gather_all(g, &follower, 0));
	EXPECT_EQ(BLOCKS - 2, check_places(g, &follower));
	EXPECT_STREQ("", g->wrong);
	EXPECT_EQ(BLOCKS + 3, g->told);
	for (i = 0; i < BLOCKS + 1; i++)
		EXPECT_EQ(i < BLOCKS && i != 1 && i != 2, g->known[i].counts);
	EXPECT_TRUE(g->known[1].tombstone && g->known[2].tombstone);
	EXPECT_LT(g->known[3].version, g->known[0].version);
	ASSERT_EQ(0, thaw(&follower));
	close(store.fd);
	store.fd = -1;
	follower_stop(&follower);
	EXPECT_STREQ("", follower.wrong);
	follower_free(&follower);
	EXPECT_EQ(0, store_destroy_disk(&store));
	free(buffer);
	free(g);
}

TEST_HARNESS_MAIN
