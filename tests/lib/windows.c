// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: reading through windows with any contents.
 *
 * First with one thread: objects in every position, stale handles, broken chains, wrong headers,
 * windows full of random bits; an index that the library does not check hits a guard page.  Then
 * with several threads: readers and views check every byte while the main thread, in the role of
 * the kernel, moves, replaces and frees objects and reuses their memory.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fake.h"
#include "../common/tap.h"

#define READERS		3
#define STORM_OBJECTS	6u

#ifdef __SANITIZE_THREAD__
#define ROUNDS		1000u	/* with TSan a round takes much longer */
#else
#define ROUNDS		4000u
#endif

static uint64_t seed = 1;

static bool view_right(const struct lsm_view *view, uint64_t handle)
{
	uint32_t i, from = 0;

	for (i = 0; i < view->nr; i++) {
		if (!fake_bytes_right(view->iov[i].iov_base, handle, view->object.version, from,
				      (uint32_t)view->iov[i].iov_len))
			return false;
		from += (uint32_t)view->iov[i].iov_len;
	}
	return from == view->object.length;
}

static void test_positions(void)
{
	static const uint32_t lengths[] = { 1, 7, 8, 9, 100, LSMEM_SHORT_MAX, LSMEM_SHORT_MAX + 1,
					    4096, 65504, 65536, 200001, 1 << 20 };
	static const uint32_t offsets[] = { 0, 8, 4096, LSMEM_SEGLET_BYTES - 40,
					    LSMEM_SEGLET_BYTES - 32 };
	struct fake *fake = fake_new();
	uint8_t *bytes = malloc(1 << 20);
	uint32_t i, j, most = 0, wrong = 0, views_wrong = 0, parts_wrong = 0;
	struct lsm_object object;
	struct lsm_view view;
	uint64_t handle, version = 1;

	for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		for (j = 0; j < sizeof(offsets) / sizeof(*offsets); j++, version++) {
			uint32_t length = lengths[i], at = length / 3;

			if (!fake_put(fake, 5, 1, version, length, offsets[j]))
				abort();
			handle = fake_handle(fake, 5);
			if (lsm_read(fake->lsm, handle, bytes, 1 << 20, 0, &object) != length ||
			    object.length != length || object.version != version ||
			    object.table != 5 ||
			    !fake_bytes_right(bytes, handle, version, 0, length))
				wrong++;
			if (lsm_read(fake->lsm, handle, bytes, length / 2, at, NULL) !=
			    length / 2 ||
			    !fake_bytes_right(bytes, handle, version, at, length / 2))
				parts_wrong++;
			if (lsm_view_begin(fake->lsm, handle, &view) || !view_right(&view, handle))
				views_wrong++;
			most = view.nr > most ? view.nr : most;
			if (lsm_view_end(fake->lsm, &view))
				views_wrong++;
		}
	}
	tap_is(wrong, 0, "read: every length in every position");
	tap_is(parts_wrong, 0, "read: parts of them");
	tap_is(views_wrong, 0, "view: every length in every position");
	tap_ok(most >= 1 && most <= LSM_VIEW_PIECES, "view: %u pieces at most", most);
	tap_is(atomic_load(&fake->calls), 0, "no system call was made");
	tap_is(lsm_read(fake->lsm, handle, NULL, 0, 0, &object), 0, "read: of nothing");
	tap_is(object.length, 1 << 20, "read: of nothing tells the length");
	tap_is(lsm_read(fake->lsm, handle, bytes, 10, 1 << 20, NULL), 0, "read: at the end");
	tap_is(lsm_read(fake->lsm, handle, bytes, 10, (1 << 20) + 1, NULL), -EINVAL,
	       "read: beyond the end");
	free(bytes);
	fake_delete(fake);
}

/* The operations of lsm_read_many() say and do what lsm_read() does. */
static void test_many(void)
{
	static const uint32_t lengths[] = { 1, 100, 2047, 5000, 65600 };
	enum { OPS = 2 * FAKE_HANDLES + 5, ROOM = 70000 };
	struct fake *fake = fake_new();
	uint8_t *bytes = calloc(OPS, ROOM), *one = malloc(ROOM);
	struct lsmem_op ops[OPS];
	struct lsm_object object;
	uint32_t i, nr, wrong = 0;
	uint64_t state = seed;
	ssize_t ret;

	for (i = 0; i < FAKE_HANDLES; i++)
		if (!fake_put(fake, i, 1, i + 1, lengths[i % 5],
			      8 * (uint32_t)random_below(&state, LSMEM_SEGLET_BYTES / 8 - 3)))
			break;
	nr = i;
	fake_free(fake, 3);
	fake->refuse = -ESTALE;
	for (i = 0; i < OPS; i++) {
		uint64_t handle = fake_handle(fake, (uint32_t)random_below(&state, nr));
		uint32_t room = (uint32_t)random_below(&state, ROOM);

		if (i % 20 == 19)
			handle = random_next(&state);	/* any index */
		ops[i] = lsm_op_read(handle, bytes + (size_t)i * ROOM, room,
				     i % 7 ? 0 : (uint32_t)random_below(&state, 800));
	}
	ops[9] = lsm_op_free(fake_handle(fake, 1), 0, 0);
	for (i = 0; i <= OPS; i += i < 40 ? 1 : 23)
		lsm_read_many(fake->lsm, ops + (OPS - i), i);
	for (i = 0; i < OPS; i++) {
		struct lsmem_op *op = &ops[i];

		if (i == 9) {
			wrong += op->result != -EINVAL;
			continue;
		}
		op->length = ROOM;
		lsm_read_many(fake->lsm, op, 1);
		ret = lsm_read(fake->lsm, op->handle, one, ROOM, op->offset, &object);
		if (ret < 0)
			wrong += op->result != ret;
		else
			wrong += op->result || op->length != ret || op->version != object.version ||
				 op->object_length != object.length || op->table != object.table ||
				 memcmp(bytes + (size_t)i * ROOM, one, (size_t)ret);
	}
	tap_is(wrong, 0, "many: %u operations on %u objects are as single ones", OPS, nr);
	lsm_read_many(fake->lsm, NULL, 0);
	tap_ok(true, "many: none");
	free(one);
	free(bytes);
	fake_delete(fake);
}

static void test_scattered(void)
{
	struct fake *fake = fake_new();
	struct lsm_view view;
	uint64_t handle;
	uint32_t i;

	/* Every second seglet is in use, so that no two pieces are adjacent. */
	for (i = 0; i < FAKE_SEGLETS; i += 2)
		fake->retired_at[i] = ~0ull;
	fake_put(fake, 0, 1, 1, 1 << 20, LSMEM_SEGLET_BYTES - 40);
	handle = fake_handle(fake, 0);
	tap_is(lsm_view_begin(fake->lsm, handle, &view), 0, "view: scattered seglets");
	tap_is(view.nr, 17, "view: a piece for each");
	tap_ok(view_right(&view, handle), "view: the pieces are right");
	tap_is(lsm_view_end(fake->lsm, &view), 0, "view: ends well");
	tap_is(view.nr, 0, "view: shows nothing after its end");
	tap_is(lsm_view_end(fake->lsm, &view), -EINVAL, "view: ends once");
	fake_delete(fake);
}

static void test_stale(void)
{
	struct fake *fake = fake_new();
	uint64_t first, second, position;
	struct lsm_view view;
	uint8_t bytes[32];

	fake_put(fake, 9, 1, 1, 32, 0);
	first = fake_handle(fake, 9);
	fake_free(fake, 9);
	tap_is(lsm_read(fake->lsm, first, bytes, 32, 0, NULL), -ESTALE, "read: freed");
	tap_is(lsm_view_begin(fake->lsm, first, &view), -ESTALE, "view: freed");
	tap_is(lsm_view_end(fake->lsm, &view), -EINVAL, "view: none began");
	fake_put(fake, 9, 2, 2, 32, 64);
	second = fake_handle(fake, 9);
	tap_is(lsm_read(fake->lsm, first, bytes, 32, 0, NULL), -ESTALE, "read: index used again");
	tap_is(lsm_read(fake->lsm, second, bytes, 32, 0, NULL), 32, "read: the new object");
	tap_is(lsm_read(fake->lsm, 0, bytes, 32, 0, NULL), -ESTALE, "read: handle 0");
	tap_is(lsm_read(fake->lsm, ~0ull, bytes, 32, 0, NULL), -ENOENT, "read: handle ~0");
	tap_is(lsm_view_begin(fake->lsm, FAKE_HANDLES | 1ull << LSMEM_HANDLE_INDEX_BITS, &view),
	       -ENOENT, "view: an index just outside");

	/* Bits that the interval has in a key are a part of the index in a handle. */
	tap_is(lsm_read(fake->lsm, second | LSMEM_KEY_INTERVAL_MASK, bytes, 32, 0, NULL), -ENOENT,
	       "read: an index with the bits of an interval");
	tap_is(lsm_read(fake->lsm, second | 2ull << LSMEM_KEY_INTERVAL_SHIFT, bytes, 32, 0, NULL),
	       -ENOENT, "read: with those of the object's own");

	/* Only the key in the header shows another object. */
	fake->objects[9].generation = 1;
	atomic_store(&fake->calls, 0);
	tap_is(lsm_read(fake->lsm, first, bytes, 32, 0, NULL), 32, "read: another object's bytes");
	tap_is(atomic_load(&fake->calls), 1, "read: are not taken for one's own");

	/* Other states say no position, even if the bits that they have there could be one. */
	fake->objects[9].generation = 2;
	position = (uint64_t)fake->objects[9].seglets[0] << LSMEM_POSITION_OFFSET_BITS |
		   fake->objects[9].offset / LSMEM_ALIGN;
	fake_set_word(fake, 9, LSMEM_WORD_BUSY, position);
	atomic_store(&fake->calls, 0);
	tap_is(lsm_read(fake->lsm, second, bytes, 32, 0, NULL), 32, "read: busy for ever");
	tap_is(atomic_load(&fake->calls), 1, "read: busy, so the kernel was asked");
	tap_is(lsm_view_begin(fake->lsm, second, &view), -EAGAIN, "view: busy for ever");
	fake_set_word(fake, 9, 7, position);
	tap_is(lsm_read(fake->lsm, second, bytes, 32, 0, NULL), 32, "read: a state of the future");
	tap_is(lsm_view_begin(fake->lsm, second, &view), -EAGAIN, "view: a state of the future");
	fake_delete(fake);
}

static void test_slots(void)
{
	struct fake *fake = fake_new();
	struct lsm_view views[FAKE_SLOTS], one_more;
	uint64_t handle;
	uint32_t i, bad = 0, idle = 0;

	fake_put(fake, 1, 1, 1, 1000, 0);
	handle = fake_handle(fake, 1);
	for (i = 0; i < FAKE_SLOTS; i++)
		bad += !!lsm_view_begin(fake->lsm, handle, &views[i]);
	tap_is(bad, 0, "views nest, as many as there are slots");
	tap_is(lsm_view_begin(fake->lsm, handle, &one_more), -EAGAIN, "one more has no slot");
	tap_is(lsm_view_end(fake->lsm, &views[20]), 0, "one ends");
	tap_is(lsm_view_begin(fake->lsm, handle, &views[20]), 0, "then there is one again");

	/* Write new versions while all views show the old one. */
	for (i = 2; i < 60; i++)
		fake_put(fake, 1, 1, i, 1000, 0);
	for (i = 0, bad = 0; i < FAKE_SLOTS; i++)
		bad += !view_right(&views[i], handle) || views[i].object.version != 1;
	tap_is(bad, 0, "views show what they showed at first");
	__atomic_store_n(&fake->slots[views[10].slot].epoch, LSMEM_SLOT_REVOKED, __ATOMIC_SEQ_CST);
	__atomic_store_n(&fake->slots[views[11].slot].epoch, 12345, __ATOMIC_SEQ_CST);
	__atomic_store_n(&fake->slots[views[12].slot].epoch, 0, __ATOMIC_SEQ_CST);
	for (i = 0, bad = 0; i < FAKE_SLOTS; i++)
		bad += lsm_view_end(fake->lsm, &views[i]) != (i >= 10 && i <= 12 ? -ECANCELED : 0);
	tap_is(bad, 0, "revoked and scribbled slots are found out, the others are true");
	for (i = 0; i < FAKE_SLOTS; i++)
		idle += fake->slots[i].epoch == LSMEM_SLOT_IDLE;
	tap_is(idle, FAKE_SLOTS, "all slots are idle again");
	fake->info.epoch = LSMEM_SLOT_REVOKED;
	tap_is(lsm_view_begin(fake->lsm, handle, &one_more), -EAGAIN, "an epoch that cannot be");
	fake->info.epoch = 0;
	tap_is(lsm_view_begin(fake->lsm, handle, &one_more), -EAGAIN, "nor 0");
	fake->info.epoch = 100;
	tap_is(lsm_view_begin(fake->lsm, handle, &one_more), 0, "and after that, one that can");
	tap_is(lsm_view_end(fake->lsm, &one_more), 0, "and ends");
	fake_delete(fake);
}

static void test_chains(void)
{
	struct fake *fake = fake_new();
	struct fake_object *object = &fake->objects[2];
	uint8_t *bytes = malloc(1 << 20);
	struct lsm_view view;
	uint64_t handle;
	uint32_t i;
	static const struct {
		const char *what;
		uint32_t next;
	} bad[] = {
		{ "ends", LSMEM_NO_SEGLET },
		{ "leaves the store", FAKE_SEGLETS },
		{ "leaves it far", 0xfffffffe },
	};

	fake_put(fake, 2, 1, 1, 300000, 0);
	handle = fake_handle(fake, 2);
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		fake->seglet_table[object->seglets[2]].next = bad[i].next;
		atomic_store(&fake->calls, 0);
		tap_is(lsm_read(fake->lsm, handle, bytes, 1 << 20, 0, NULL), 300000,
		       "read: a chain that %s", bad[i].what);
		tap_ok(atomic_load(&fake->calls) == 1 && fake_bytes_right(bytes, handle, 1, 0, 300000),
		    "read: and the kernel gave the bytes");
		tap_is(lsm_view_begin(fake->lsm, handle, &view), -EAGAIN,
		       "view: a chain that %s", bad[i].what);
	}
	/* A chain that is a ring: the length of the payload ends the walk. */
	for (i = 0; i < object->nr_seglets; i++)
		fake->seglet_table[object->seglets[i]].next = object->seglets[i];
	tap_is(lsm_read(fake->lsm, handle, bytes, 1 << 20, 0, NULL), 300000,
	       "read: a chain that is a ring ends");
	tap_is(lsm_view_begin(fake->lsm, handle, &view), 0, "view: a ring ends");
	tap_ok(view.nr == 5, "view: after as many pieces as the length has");
	lsm_view_end(fake->lsm, &view);
	free(bytes);
	fake_delete(fake);
}

/* Random bits in all windows; some words and headers are valid, so that reads get further. */
static void test_garbage(void)
{
	struct fake *fake = fake_new();
	uint8_t *bytes = malloc(1 << 20);
	uint64_t state = seed * 2 + 1, handle, position;
	unsigned long rounds = 5 * ROUNDS, i, strange = 0, read = 0;
	struct lsm_view view;
	uint64_t *seglets = (uint64_t *)fake->seglets;
	struct lsmem_entry *entry;
	ssize_t ret;

	for (i = 0; i < FAKE_SEGLETS * LSMEM_SEGLET_BYTES / 8; i++)
		seglets[i] = random_next(&state);
	fake->refuse = -EBADMSG;
	for (i = 0; i < rounds; i++) {
		uint64_t index = random_next(&state) % FAKE_HANDLES;

		handle = lsmem_handle_make(index, random_next(&state) % 2);
		fake->handles[index].word = random_next(&state);
		if (random_next(&state) % 8)	/* live, in the store or just behind its end */
			fake->handles[index].word =
				(uint64_t)LSMEM_WORD_LIVE << LSMEM_WORD_STATE_SHIFT |
				random_next(&state) % ((FAKE_SEGLETS + 1) <<
						       LSMEM_POSITION_OFFSET_BITS);
		position = fake->handles[index].word & ((1ull << LSMEM_POSITION_BITS) - 1);
		if (position >> LSMEM_POSITION_OFFSET_BITS < FAKE_SEGLETS &&
		    position * 8 % LSMEM_SEGLET_BYTES <= LSMEM_SEGLET_BYTES - 32) {
			/* A header, short or long, of any length; often something is wrong. */
			entry = (struct lsmem_entry *)(fake->seglets + position * 8);
			*entry = lsmem_entry_make(LSMEM_TYPE_OBJECT, random_next(&state) %
						  (random_next(&state) % 2 ? 2048 : 2 << 20),
						  handle, i, i % 32, 0, 0);
			if (!(random_next(&state) % 4))
				entry->key = random_next(&state);
			if (!(random_next(&state) % 4))
				entry->meta = (uint32_t)random_next(&state);
			if (!(random_next(&state) % 4))
				entry->more = random_next(&state);
		}
		fake->seglet_table[random_next(&state) % FAKE_SEGLETS].next =
			random_next(&state) % 4 ? (uint32_t)(random_next(&state) % FAKE_SEGLETS) :
			(uint32_t)random_next(&state);
		fake->info.epoch = i + 1;
		if (i % 2) {
			struct lsmem_op op = lsm_op_read(handle, bytes, 1 << 20, 0);

			lsm_read_many(fake->lsm, &op, 1);
			ret = op.result ?: (ssize_t)op.length;
		} else {
			ret = lsm_read(fake->lsm, handle, bytes, 1 << 20, 0, NULL);
		}
		read += ret > 0;
		strange += ret > 1 << 20 || (ret <= 0 && ret != -EBADMSG);
		ret = lsm_view_begin(fake->lsm, handle, &view);
		if (!ret) {
			strange += view.nr > LSM_VIEW_PIECES || view.object.length > 1 << 20;
			lsm_view_end(fake->lsm, &view);
		} else {
			strange += ret != -EBADMSG && ret != -EAGAIN;
		}
	}
	tap_is(strange, 0, "garbage: %lu windows, nothing outside them was touched", rounds);
	tap_ok(read > rounds / 100, "garbage: %lu were right enough to be copied", read);
	free(bytes);
	fake_delete(fake);
}

/* ---- Several threads ---------------------------------------------------- */

struct storm {
	struct fake *fake;
	atomic_bool stop;
	bool reuse;		/* free objects and use their indices again */
	atomic_ulong reads, asked, views, canceled, stale, wrong, moves, versions[STORM_OBJECTS];
	atomic_uint generations[STORM_OBJECTS];
};

static void *storm_reader(void *argument)
{
	static atomic_ulong number;
	struct storm *storm = argument;
	uint64_t state = seed * 31 + atomic_fetch_add(&number, 1) + 1, handle;
	uint8_t *bytes = malloc(1 << 20);
	struct fake *fake = storm->fake;
	struct lsm_object object;
	struct lsm_view view;
	ssize_t ret;

	while (!atomic_load(&storm->stop)) {
		uint32_t index = (uint32_t)(random_next(&state) % STORM_OBJECTS);
		unsigned long before = atomic_load(&storm->versions[index]);

		handle = lsmem_handle_make(index, atomic_load(&storm->generations[index]));
		if (random_next(&state) % 2) {
			ret = lsm_read(fake->lsm, handle, bytes, 1 << 20, 0, &object);
			if (ret == -EBUSY) {
				atomic_fetch_add(&storm->asked, 1);
				continue;
			}
			atomic_fetch_add(&storm->reads, 1);
			/* All bytes are of one version, not older than the one noted before. */
			if (ret != (ssize_t)object.length || object.version < before ||
			    !fake_bytes_right(bytes, handle, object.version, 0, object.length))
				atomic_fetch_add(&storm->wrong, 1);
		} else {
			ret = lsm_view_begin(fake->lsm, handle, &view);
			if (ret) {
				atomic_fetch_add(&storm->asked, 1);
				if (ret != -EBUSY && ret != -EAGAIN)
					atomic_fetch_add(&storm->wrong, 1);
				continue;
			}
			atomic_fetch_add(&storm->views, 1);
			if (view.object.version < before || !view_right(&view, handle))
				atomic_fetch_add(&storm->wrong, 1);
			if (lsm_view_end(fake->lsm, &view))
				atomic_fetch_add(&storm->canceled, 1);
		}
	}
	free(bytes);
	return NULL;
}

/* The kernel's role: move, replace and free objects, and use their indices again. */
static void storm_kernel(struct storm *storm, unsigned long rounds)
{
	static const uint32_t lengths[] = { 64, LSMEM_SHORT_MAX - 4, 40000, 140000 };
	struct fake *fake = storm->fake;
	uint64_t state = seed * 77 + 1;
	unsigned long i;

	for (i = 0; i < rounds; i++) {
		uint32_t index = (uint32_t)(random_next(&state) % STORM_OBJECTS);
		struct fake_object *object = &fake->objects[index];
		uint64_t version = object->version;
		uint32_t generation = object->generation, length = object->length;
		uint32_t offset = (uint32_t)(random_next(&state) %
					     (LSMEM_SEGLET_BYTES / 8 - 3)) * 8;

		if (random_next(&state) % 2) {
			version++;
			length = lengths[random_next(&state) % 4] +
				 (uint32_t)(random_next(&state) % 9);
		}
		if (storm->reuse && !(random_next(&state) % 8)) {
			fake_free(fake, index);
			generation++;
		}
		/* Views may hold up all free seglets; they end soon. */
		while (!fake_put(fake, index, generation, version, length, offset))
			lsm_relax();
		atomic_store(&storm->versions[index], version);
		atomic_store(&storm->generations[index], generation);
		atomic_fetch_add(&storm->moves, 1);
	}
}

static void test_storm(bool reuse)
{
	const char *name = reuse ? "storm with reuse" : "storm";
	struct storm storm = { .fake = fake_new(), .reuse = reuse };
	pthread_t readers[READERS];
	uint32_t i;

	for (i = 0; i < STORM_OBJECTS; i++) {
		fake_put(storm.fake, i, 1, 1, 1000, 0);
		atomic_store(&storm.generations[i], 1);
	}
	storm.fake->refuse = -EBUSY;
	for (i = 0; i < READERS; i++)
		pthread_create(&readers[i], NULL, storm_reader, &storm);
	storm_kernel(&storm, ROUNDS);
	/* On a loaded machine the readers may have read little so far. */
	while (atomic_load(&storm.reads) < 500 || atomic_load(&storm.views) < 500)
		storm_kernel(&storm, 100);
	atomic_store(&storm.stop, true);
	for (i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	tap_is(atomic_load(&storm.wrong), 0,
	       "%s: %lu reads, %lu views, %lu left to the kernel, %lu moves: all bytes right",
	       name, atomic_load(&storm.reads), atomic_load(&storm.views),
	       atomic_load(&storm.asked), atomic_load(&storm.moves));
	tap_is(atomic_load(&storm.canceled), 0, "%s: no view was revoked", name);
	fake_delete(storm.fake);
}

/* ---- The object moves while it is being copied ------------------------------ */

static struct interrupted {
	struct fake *fake;
	uint8_t *target;
	size_t length;
	unsigned int faults;
} interrupted;

/*
 * The first store of a copy faults.  This handler then writes a new version of the object to other
 * seglets, and overwrites the bytes that the copy reads.
 */
static void interrupt(int number, siginfo_t *info, void *context)
{
	struct fake_object *object = &interrupted.fake->objects[5];
	uint32_t seglet = object->seglets[0], offset = object->offset;

	(void)number;
	(void)context;
	if ((uint8_t *)info->si_addr < interrupted.target ||
	    (uint8_t *)info->si_addr >= interrupted.target + interrupted.length)
		abort();
	interrupted.faults++;
	fake_put(interrupted.fake, 5, 1, object->version + 1, object->length, 64);
	memset(interrupted.fake->seglets + (uint64_t)seglet * LSMEM_SEGLET_BYTES + offset +
	       lsmem_header_bytes(object->length), 0xee, object->length);
	mprotect(interrupted.target, interrupted.length, PROT_READ | PROT_WRITE);
}

static void test_moved_while_copied(void)
{
	struct sigaction action = { .sa_sigaction = interrupt, .sa_flags = SA_SIGINFO }, before;
	static const uint32_t lengths[] = { 8, 100, 2000, 4000, 60000 };
	struct fake *fake = fake_new();
	uint32_t i, wrong = 0;

	interrupted.fake = fake;
	interrupted.length = LSMEM_SEGLET_BYTES;
	interrupted.target = mmap(NULL, interrupted.length, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSEGV, &action, &before);
	/* All of an object, of a short entry the quick way, and a part of it. */
	for (i = 0; i < 2 * sizeof(lengths) / sizeof(*lengths); i++) {
		uint32_t length = lengths[i / 2], from = i % 2;
		struct lsm_object object;
		uint64_t handle;

		fake_put(fake, 5, 1, 10 * (i + 1), length, 0);
		handle = fake_handle(fake, 5);
		mprotect(interrupted.target, interrupted.length, PROT_NONE);
		wrong += lsm_read(fake->lsm, handle, interrupted.target, interrupted.length, from,
				  &object) != length - from ||
			 object.version != 10 * (i + 1) + 1 ||
			 !fake_bytes_right(interrupted.target, handle, object.version, from,
					   length - from);
	}
	sigaction(SIGSEGV, &before, NULL);
	tap_is(interrupted.faults, i, "copies that were interrupted by a move");
	tap_is(wrong, 0, "none of them is torn");
	munmap(interrupted.target, interrupted.length);
	fake_delete(fake);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--seed"))
		seed = strtoull(argv[2], NULL, 0);
	printf("# seed %llu\n", (unsigned long long)seed);
	test_positions();
	test_many();
	test_scattered();
	test_stale();
	test_slots();
	test_chains();
	test_garbage();
	test_moved_while_copied();
	test_storm(false);
	test_storm(true);
	return tap_end();
}
