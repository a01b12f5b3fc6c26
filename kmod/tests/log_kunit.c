// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: the log, as the head of log.c specifies it.  The reader that checks it goes from header to
 * header as recovery does, and compares every payload with lsmem_test_payload().
 */
#include <linux/crc32c.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/uaccess.h>

#include "fixture.h"
#include "../load.h"
#include "../object.h"
#include "../policy.h"
#include "../space.h"

#define LOG_HEAD	1u	/* head of a writer */
#define LOG_OTHER	2u	/* head of another writer */
#define LOG_ROOM	(2 * 32u)	/* bytes for a last commit record and its gap */

static const struct lsmem_test_shape log_shape = {
	.segments = 8, .heads = 3, .handles = 64,
};

static const struct lsmem_test_shape log_durable_shape = {
	.segments = 16, .heads = 3, .handles = 64, .durable = true,
};

static int log_init(struct kunit *test)
{
	return lsmem_test_store(test, &log_shape);
}

static int log_durable_init(struct kunit *test)
{
	return lsmem_test_store(test, &log_durable_shape);
}

/* ---- Writing and reading ------------------------------------------------ */

/*
 * Appends that a test holds while it does something else.  The module disables preemption between
 * begin and commit; a test may sleep there.
 */
static int log_begin_held(struct lsmem_store *store, unsigned int head, u32 length, u32 type,
			  struct lsmem_append *ap)
{
	int ret = lsmem_append_begin(store, head, length, type, ap);

	if (!ret)
		lsmem_append_unpin();
	return ret;
}

static void log_commit_held(struct lsmem_store *store, struct lsmem_append *ap)
{
	lsmem_append_pin();
	lsmem_append_commit(store, ap);
}

static void log_abort_held(struct lsmem_store *store, struct lsmem_append *ap)
{
	lsmem_append_pin();
	lsmem_append_abort(store, ap);
}

/* Fill in the entry of @ap, with the payload of @key, which is a handle. */
static void log_fill(struct lsmem_store *store, const struct lsmem_append *ap, u64 key, u32 length)
{
	struct lsmem_source source = { .kernel = lsmem_test_payload(key) };
	u32 pcrc;

	lsmem_append_copy(store, ap, &source, length, &pcrc);
	lsmem_object_stamp(store, ap, key, key + 1, length, key % (LSMEM_INTERVAL_MAX + 1),
			   key % LSMEM_TABLES, pcrc);
}

static int log_append(struct lsmem_store *store, unsigned int head, u64 key, u32 length,
		      struct lsmem_append *ap)
{
	int ret;

	lsmem_test_list_spares(store);
	ret = log_begin_held(store, head, length, LSMEM_TYPE_OBJECT, ap);
	if (ret)
		return ret;
	log_fill(store, ap, key, length);
	log_commit_held(store, ap);
	return 0;
}

/* Write a commit record, as the daemon's call does. Returns whether there was one to write. */
static bool log_record(struct lsmem_store *store)
{
	struct lsmem_head *head = &store->heads.table[LOG_HEAD];
	bool written;

	spin_lock(&head->lock);
	written = lsmem_head_commit_record(store, head);
	spin_unlock(&head->lock);
	return written;
}

/* The entries that a reader has found so far in one segment */
struct log_reader {
	u32 offset;
	u32 listed;
	u32 objects;
	u32 pads;
	u32 commits;
	u64 commit_value;
};

static bool log_zero(struct lsmem_store *store, const struct lsmem_segment *seg, u32 from, u32 to)
{
	for (; from < to; from++)
		if (*(u8 *)lsmem_segment_at(store, seg, from))
			return false;
	return true;
}

/* The CRC that an entry must have, computed by the kernel's own crc32c(). */
static u32 log_crc(const struct lsmem_entry *e, u32 header, u32 pcrc, u32 salt)
{
	return crc32c(pcrc, (const u8 *)e + sizeof(e->crc), header - sizeof(e->crc)) ^ salt;
}

/*
 * Is the payload at @offset that of @key, followed by zeroes up to the alignment?  @pcrc: out, its
 * CRC.
 */
static bool log_payload(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset,
			u64 key, u32 length, u32 *pcrc)
{
	const void *want = lsmem_test_payload(key);
	u32 done = 0, crc = ~0u;

	while (done < length) {
		u32 piece = min(length - done,
				LSMEM_SEGLET_BYTES - (offset + done) % LSMEM_SEGLET_BYTES);
		const void *at = lsmem_segment_at(store, seg, offset + done);

		if (memcmp(at, want + done, piece))
			return false;
		crc = crc32c(crc, at, piece);
		done += piece;
	}
	*pcrc = crc;
	return log_zero(store, seg, offset + length, offset + ALIGN(length, LSMEM_ALIGN));
}

/* Are version, interval and table those that log_fill() gives to the key of @e? */
static bool log_named(const struct lsmem_entry *e)
{
	u64 key = lsmem_entry_handle(e);

	return lsmem_entry_version(e) == key + 1 && lsmem_entry_interval(e) == key % 32 &&
	       lsmem_entry_table(e) == key % LSMEM_TABLES;
}

/* Read one entry, which must end before @end. Returns NULL or an error message. */
static const char *log_read_entry(struct lsmem_store *store, const struct lsmem_segment *seg,
				  u32 end, struct log_reader *r)
{
	u32 offset = lsmem_entry_start(r->offset), length, header, payload, pcrc = ~0u;
	const struct lsmem_entry *e;

	if (!log_zero(store, seg, r->offset, min(offset, end)))
		return "the gap before an entry is not zero";
	if (end - offset < LSMEM_LONG_BYTES || offset > end)
		return "the prefix ends within a header";
	e = lsmem_segment_at(store, seg, offset);
	if (!lsmem_entry_sane(e))
		return "a header is not one";
	length = lsmem_entry_length(e);
	header = lsmem_entry_type(e) == LSMEM_TYPE_OBJECT && length < 2048 ? 24 : 32;
	if (lsmem_entry_header(e) != header || lsmem_entry_bytes(e) != header + ALIGN(length, 8))
		return "an entry has another size";
	payload = offset + header;
	if (lsmem_entry_bytes(e) > end - offset)
		return "the prefix ends within an entry";
	if (lsmem_entry_home(e) != offset / LSMEM_BLOCK)
		return "a header tells another offset";
	switch (lsmem_entry_type(e)) {
	case LSMEM_TYPE_OBJECT:
		r->objects++;
		r->listed++;
		if (!log_payload(store, seg, payload, lsmem_entry_handle(e), length, &pcrc))
			return "a payload is not what was written";
		if (!log_named(e))
			return "a header is not what was written";
		break;
	case LSMEM_TYPE_PAD:
		r->pads++;
		if (!log_zero(store, seg, payload, payload + length))
			return "padding holds what was refused";
		break;
	case LSMEM_TYPE_COMMIT:
		r->commits++;
		r->commit_value = lsmem_entry_value(e);
		break;
	default:
		return "a type that was not written";
	}
	if (le32_to_cpu(e->crc) != log_crc(e, header, pcrc, seg->salt))
		return "a CRC is wrong";
	r->offset = payload + ALIGN(length, 8);
	return NULL;
}

/* Read on to @end. Returns NULL or an error message. */
static const char *log_read(struct lsmem_store *store, const struct lsmem_segment *seg, u32 end,
			    struct log_reader *r)
{
	while (r->offset < end) {
		const char *wrong = log_read_entry(store, seg, end, r);

		if (wrong)
			return wrong;
		cond_resched();
	}
	return r->offset == end ? NULL : "entries end beyond the prefix";
}

/* Read a whole segment. No append to it may be under way. */
static struct log_reader log_read_all(struct kunit *test, struct lsmem_store *store,
				      const struct lsmem_segment *seg)
{
	struct log_reader r = { 0 };
	u32 i;

	KUNIT_EXPECT_EQ(test, seg->committed, seg->reserved);
	KUNIT_EXPECT_STREQ(test, log_read(store, seg, seg->committed, &r) ?: "", "");
	KUNIT_EXPECT_EQ(test, r.listed, seg->entries);
	KUNIT_EXPECT_TRUE(test, lsmem_segment_fits_into(store->segments.bytes, seg->committed, seg->entries));
	/* Clients follow the chain of seglets in the table that they map. */
	for (i = 0; i < seg->nr_seglets; i++) {
		KUNIT_EXPECT_EQ(test, store->seglets.owner[seg->seglets[i]],
				(u32)(seg - store->segments.table));
		KUNIT_EXPECT_EQ(test, store->seglets.table[seg->seglets[i]].next,
				i + 1 < seg->nr_seglets ? seg->seglets[i + 1] : LSMEM_NO_SEGLET);
	}
	return r;
}

/* Append an entry such that @left bytes of its last seglet remain. */
static void log_seek(struct kunit *test, struct lsmem_store *store, u32 left)
{
	const struct lsmem_segment *seg = store->heads.table[LOG_HEAD].segment;
	struct lsmem_append ap;

	KUNIT_ASSERT_EQ(test, log_append(store, LOG_HEAD, 1,
					 lsmem_test_seek(seg ? seg->reserved : 0, left), &ap), 0);
	KUNIT_ASSERT_EQ(test, -ap.segment->reserved % LSMEM_SEGLET_BYTES, left);
}

/* ---- Order of commits --------------------------------------------------- */

struct log_under_way {
	struct lsmem_append ap;
	u64 key;
	u32 length;
	u32 end;
	u32 rank;
	bool whole;
};

enum log_order { LOG_FORWARD, LOG_BACKWARD, LOG_FIRST_LAST, LOG_RANDOM };

static const struct log_order_case {
	const char *name;
	enum log_order order;
} log_orders[] = {
	{ "as begun", LOG_FORWARD },
	{ "in reverse", LOG_BACKWARD },
	{ "the first at last", LOG_FIRST_LAST },
	{ "at random", LOG_RANDOM },
};

static void log_order_desc(const struct log_order_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(log_order, log_orders, log_order_desc);

static int log_rank_cmp(const void *a, const void *b)
{
	const struct log_under_way *const *x = a, *const *y = b;

	return (*x)->rank < (*y)->rank ? -1 : (*x)->rank > (*y)->rank;
}

/* The committed prefix of @seg: the end of the last append before which all are ended. */
static u32 log_expected(const struct log_under_way *all, u32 nr, const struct lsmem_segment *seg)
{
	u32 i, end = 0;

	for (i = 0; i < nr && all[i].whole; i++)
		if (all[i].ap.segment == seg)
			end = all[i].end;
	return end;
}

/*
 * As many appends as a ring holds, in two segments, are ended one by one in some order, every
 * seventh by an abort.  The committed prefix never passes an append that is under way, and passes
 * every one that it can.  Another head has an append under way all the time.
 */
static void log_test_order(struct kunit *test)
{
	const struct log_order_case *param = test->param_value;
	const u32 nr = LSMEM_RING - 1;
	struct log_under_way *all, **order;
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *first, *last;
	struct lsmem_append stuck;
	struct rnd_state random;
	u32 i;

	lsmem_test_seed(test, &random);
	all = kunit_kcalloc(test, nr, sizeof(*all), GFP_KERNEL);
	order = kunit_kcalloc(test, nr, sizeof(*order), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, all && order);
	KUNIT_ASSERT_EQ(test, log_begin_held(store, LOG_OTHER, 100, LSMEM_TYPE_OBJECT,
					     &stuck), 0);
	for (i = 0; i < nr; i++) {
		all[i].key = i;
		/* 10 MiB in all: one segment is not enough */
		all[i].length = 30000 + lsmem_test_below(&random, 24000);
		KUNIT_ASSERT_EQ(test, log_begin_held(store, LOG_HEAD, all[i].length,
						     LSMEM_TYPE_OBJECT, &all[i].ap), 0);
		all[i].end = all[i].ap.segment->reserved;
		all[i].rank = param->order == LOG_RANDOM ? prandom_u32_state(&random) :
			      param->order == LOG_BACKWARD ? nr - i :
			      param->order == LOG_FIRST_LAST && !i ? nr : i;
		order[i] = &all[i];
	}
	first = all[0].ap.segment;
	last = all[nr - 1].ap.segment;
	KUNIT_ASSERT_PTR_NE(test, first, last);
	KUNIT_EXPECT_TRUE(test, first->final);
	sort(order, nr, sizeof(*order), log_rank_cmp, NULL);

	for (i = 0; i < nr; i++) {
		log_fill(store, &order[i]->ap, order[i]->key, order[i]->length);
		if (i % 7 == 3)
			log_abort_held(store, &order[i]->ap);
		else
			log_commit_held(store, &order[i]->ap);
		order[i]->whole = true;
		KUNIT_ASSERT_EQ(test, first->committed, log_expected(all, nr, first));
		KUNIT_ASSERT_EQ(test, last->committed, log_expected(all, nr, last));
		/* The segment is closed when its last append is ended, not before. */
		KUNIT_ASSERT_EQ(test, first->state == LSMEM_SEGMENT_CLOSED,
				first->committed == first->reserved);
	}
	KUNIT_EXPECT_EQ(test, log_read_all(test, store, first).objects +
			log_read_all(test, store, last).objects, nr - DIV_ROUND_UP(nr - 3, 7));
	KUNIT_EXPECT_EQ(test, stuck.segment->committed, 0);
	log_abort_held(store, &stuck);
	KUNIT_EXPECT_EQ(test, stuck.segment->committed, stuck.segment->reserved);
}

/* ---- Seglets ------------------------------------------------------------ */

/* Bytes that an object takes, as the format has it: objects below 2 KiB have a short header. */
static u32 log_size(u32 length)
{
	return (length < 2048 ? 24 : 32) + ALIGN(length, 8);
}

static const u32 log_lefts[] = { 0, 8, 16, 24, 32, 40, 64, 4096, LSMEM_SEGLET_BYTES - 32 };

static void log_left_desc(const u32 *param, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u bytes left", *param);
}

KUNIT_ARRAY_PARAM(log_left, log_lefts, log_left_desc);

/* Place and payload of an entry that begins when some bytes of a seglet remain. */
static void log_test_straddle(struct kunit *test)
{
	static const u32 lengths[] = { 1, 8, 33, 2047, 2048, 4095, LSMEM_SEGLET_BYTES - 32,
				       LSMEM_SEGLET_BYTES, LSMEM_SEGLET_BYTES + 1,
				       3 * LSMEM_SEGLET_BYTES - 7, LSMEM_OBJECT_MAX };
	u32 left = *(const u32 *)test->param_value;
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct lsmem_append ap;
		struct lsmem_entry *e;
		u32 before, seglet;

		log_seek(test, store, left);
		seg = store->heads.table[LOG_HEAD].segment;
		before = seg->reserved;
		KUNIT_ASSERT_EQ(test, log_append(store, LOG_HEAD, i, lengths[i], &ap), 0);
		KUNIT_ASSERT_PTR_EQ(test, ap.segment, seg);
		/* A header does not cross seglets: a rest that is too small for one stays empty. */
		KUNIT_EXPECT_EQ(test, ap.offset, left < 32 ? before + left : before);
		KUNIT_EXPECT_EQ(test, seg->reserved, ap.offset + log_size(lengths[i]));
		/* The position leads back to the entry. */
		e = lsmem_word_entry(&store->seglets, ap.position);
		KUNIT_EXPECT_PTR_EQ(test, e, lsmem_segment_at(store, seg, ap.offset));
		KUNIT_EXPECT_PTR_EQ(test, lsmem_segment_of(store, ap.position), seg);
		seglet = ap.position >> LSMEM_POSITION_OFFSET_BITS;
		KUNIT_EXPECT_EQ(test, seglet, seg->seglets[ap.offset / LSMEM_SEGLET_BYTES]);
	}
	KUNIT_EXPECT_EQ(test, log_read_all(test, store, seg).objects, 2 * ARRAY_SIZE(lengths));
}

/* ---- The end of a segment ----------------------------------------------- */

static const u32 log_lengths[] = { 1, 8, 100, 1000, 2047, 2048, 4096, 40000, LSMEM_OBJECT_MAX };

static void log_length_desc(const u32 *param, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u bytes", *param);
}

KUNIT_ARRAY_PARAM(log_length, log_lengths, log_length_desc);

/*
 * Do @bytes on a backup hold @end bytes of log with a last commit record and its gap,
 * @listed directory entries of 24 bytes, a header and a footer?
 */
static bool log_holds(u32 bytes, u32 end, u32 listed)
{
	return 4096 + ALIGN(end + LOG_ROOM, 4096) + ALIGN(24 * listed, 4096) + 4096 <= bytes;
}

/* Appends of one size fill a segment as far as @bytes on a backup can hold them. */
static void log_fill_segment(struct kunit *test, u32 bytes)
{
	u32 length = *(const u32 *)test->param_value, size = log_size(length);
	u32 offset = 0, end = 0, nr = 0;
	struct lsmem_store *store = test->priv;
	const struct lsmem_segment *seg;
	struct lsmem_append ap;

	while (log_holds(bytes, lsmem_entry_start(offset) + size, nr + 1)) {
		offset = lsmem_entry_start(offset) + size;
		KUNIT_ASSERT_EQ(test, log_append(store, LOG_HEAD, nr++, length, &ap), 0);
		end = ap.offset + ap.size;
		if (end != offset)
			break;
	}
	KUNIT_ASSERT_EQ(test, end, offset);
	seg = ap.segment;
	KUNIT_EXPECT_PTR_EQ(test, store->heads.table[LOG_HEAD].segment, seg);
	KUNIT_ASSERT_EQ(test, log_append(store, LOG_HEAD, nr, length, &ap), 0);
	KUNIT_EXPECT_PTR_NE(test, ap.segment, seg);
	KUNIT_EXPECT_EQ(test, ap.offset, 0);
	KUNIT_EXPECT_GT(test, ap.segment->id, seg->id);
	KUNIT_EXPECT_EQ(test, seg->state, LSMEM_SEGMENT_CLOSED);
	KUNIT_EXPECT_EQ(test, log_read_all(test, store, seg).objects, nr);
}

/* A frame of a backup. */
static void log_test_fill(struct kunit *test)
{
	log_fill_segment(test, 8 << 20);
}

/* A store whose segments are shorter on backups, as those of a coded store. */
static void log_test_fill_short(struct kunit *test)
{
	struct lsmem_store *store = test->priv;

	store->segments.bytes = 2029 * 4096;
	log_fill_segment(test, 2029 * 4096);
}

/* The largest entry that fits is appended at the end of a segment, the next larger is not. */
static void log_test_last_entry(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg;
	u32 length, offset, nr = 0;
	struct lsmem_append ap;
	unsigned int head;

	for (head = LOG_HEAD; head <= LOG_OTHER; head++) {
		/* The other head gets 8 bytes more. */
		u32 more = head == LOG_HEAD ? 0 : LSMEM_ALIGN;

		for (nr = 0; nr < 7; nr++)
			KUNIT_ASSERT_EQ(test, log_append(store, head, nr, LSMEM_OBJECT_MAX, &ap),
					0);
		seg = ap.segment;
		offset = lsmem_entry_start(seg->reserved) + LSMEM_LONG_BYTES;
		for (length = LSMEM_OBJECT_MAX; !log_holds(8 << 20, offset + length, nr + 1);)
			length -= LSMEM_ALIGN;
		KUNIT_ASSERT_LT(test, length, LSMEM_OBJECT_MAX);
		KUNIT_ASSERT_EQ(test, log_append(store, head, nr, length + more, &ap), 0);
		KUNIT_EXPECT_EQ(test, ap.segment == seg, !more);
		log_read_all(test, store, seg);
	}
}

/* ---- Space -------------------------------------------------------------- */

/*
 * Writers leave the reserve to the cleaner and get ENOSPC.  The next append uses the seglets that a
 * refused append got.  The cleaner's head takes the reserve.
 */
static void log_test_reserve(struct kunit *test)
{
	const u32 three = 3 * LSMEM_SEGLET_BYTES;
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg;
	struct lsmem_counters sum;
	struct lsmem_append ap;
	u32 taken, i;

	taken = lsmem_test_take_seglets(store, LSMEM_TEST_RESERVE + 3);
	KUNIT_EXPECT_EQ(test, log_append(store, LOG_HEAD, 1, three, &ap), -ENOSPC);
	seg = store->heads.table[LOG_HEAD].segment;
	KUNIT_ASSERT_NOT_NULL(test, seg);
	KUNIT_EXPECT_EQ(test, seg->reserved, 0);
	KUNIT_EXPECT_EQ(test, seg->entries, 0);
	KUNIT_EXPECT_EQ(test, seg->nr_seglets, 3);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, LSMEM_TEST_RESERVE);

	KUNIT_EXPECT_EQ(test, log_append(store, LOG_HEAD, 2, three - LSMEM_LONG_BYTES, &ap), 0);
	KUNIT_EXPECT_EQ(test, seg->committed, three);
	KUNIT_EXPECT_EQ(test, log_append(store, LOG_HEAD, 3, 1, &ap), -ENOSPC);
	KUNIT_EXPECT_EQ(test, log_append(store, LOG_OTHER, 4, 1, &ap), -ENOSPC);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, LSMEM_TEST_RESERVE);
	lsmem_store_counters(store, &sum);
	KUNIT_EXPECT_EQ(test, sum.stalls, 3);
	KUNIT_EXPECT_EQ(test, atomic_read(&store->space.stalled), 0);

	for (i = 0; i < LSMEM_TEST_RESERVE; i++)
		KUNIT_EXPECT_EQ(test, log_append(store, LSMEM_CLEANER_HEAD, 5,
						 LSMEM_SEGLET_BYTES - LSMEM_LONG_BYTES, &ap), 0);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, 0);
	KUNIT_EXPECT_EQ(test, log_append(store, LSMEM_CLEANER_HEAD, 6, 1, &ap), -EAGAIN);

	lsmem_test_put_seglets(store, LSMEM_TEST_RESERVE);
	KUNIT_EXPECT_EQ(test, log_append(store, LOG_HEAD, 7, 1, &ap), -ENOSPC);
	lsmem_test_put_seglets(store, 1);
	KUNIT_EXPECT_EQ(test, log_append(store, LOG_HEAD, 8, 1, &ap), 0);
	KUNIT_EXPECT_EQ(test, log_read_all(test, store, seg).objects, 2);
	lsmem_test_put_seglets(store, taken - LSMEM_TEST_RESERVE - 1);
}

struct log_waiter {
	struct lsmem_test_thread thread;
	struct lsmem_store *store;
	int ret;
};

static const char *log_wait(void *data)
{
	struct log_waiter *w = data;
	struct lsmem_append ap;

	w->ret = log_append(w->store, LOG_HEAD, 1, 100, &ap);
	return NULL;
}

/* Spin until @w waits for space. False if it has ended instead. */
static bool log_stalled(struct log_waiter *w)
{
	while (!atomic_read(&w->store->space.stalled)) {
		if (completion_done(&w->thread.done))
			return false;
		cond_resched();
	}
	return true;
}

/* A writer that wakes up and finds no space waits again, until there is space or the store dies. */
static void log_test_wait(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct log_waiter w = { .store = store };
	struct lsmem_counters sum;
	u32 taken, round;

	store->space.stall_ms = 600 * MSEC_PER_SEC;
	taken = lsmem_test_take_seglets(store, LSMEM_TEST_RESERVE);
	for (round = 0; round < 2; round++) {
		KUNIT_ASSERT_EQ(test, lsmem_test_start(&w.thread, log_wait, &w), 0);
		KUNIT_EXPECT_TRUE(test, log_stalled(&w));
		lsmem_space_came(store);
		do {	/* until its first wait is over, and it sleeps again */
			cond_resched();
			lsmem_store_counters(store, &sum);
		} while (sum.stalls <= 2 * round && !completion_done(&w.thread.done));
		KUNIT_EXPECT_TRUE(test, log_stalled(&w));
		if (!round) {
			lsmem_test_put_seglets(store, 1);
			taken--;
			lsmem_space_came(store);
		} else {
			WRITE_ONCE(store->state, LSMEM_STATE_DYING);
			wake_up_all(&store->space.wait);
		}
		lsmem_test_join(test, &w.thread);
		KUNIT_EXPECT_EQ(test, w.ret, round ? -EAGAIN : 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&store->space.stalled), 0);
		if (!round)
			log_seek(test, store, 0);	/* use up the seglet */
	}
	lsmem_test_put_seglets(store, taken);
}

/* ---- Many under way ----------------------------------------------------- */

struct log_begin {
	struct lsmem_test_thread thread;
	struct lsmem_store *store;
	struct lsmem_append ap;
	int ret;
};

static const char *log_begin(void *data)
{
	struct log_begin *b = data;

	b->ret = log_begin_held(b->store, LOG_HEAD, 8, LSMEM_TYPE_OBJECT, &b->ap);
	return NULL;
}

/*
 * If the ring is full, a further append waits until the first one is ended or its time is over.
 * A commit record still finds a place.
 */
static void log_test_ring(struct kunit *test)
{
	const u32 nr = LSMEM_RING - 1;
	struct lsmem_store *store = test->priv;
	struct log_begin b = { .store = store };
	struct lsmem_append *ap;
	unsigned long early;
	u32 i;

	ap = kunit_kcalloc(test, nr, sizeof(*ap), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, ap);
	for (i = 0; i < nr; i++) {
		KUNIT_ASSERT_EQ(test, log_begin_held(store, LOG_HEAD, 8, LSMEM_TYPE_OBJECT,
						     &ap[i]), 0);
		log_fill(store, &ap[i], i, 8);
	}
	KUNIT_EXPECT_TRUE(test, log_record(store));
	KUNIT_EXPECT_FALSE(test, log_record(store));
	KUNIT_EXPECT_EQ(test, log_begin_held(store, LOG_HEAD, 8, LSMEM_TYPE_OBJECT, &b.ap),
			-ENOSPC);

	store->space.stall_ms = 600 * MSEC_PER_SEC;
	KUNIT_ASSERT_EQ(test, lsmem_test_start(&b.thread, log_begin, &b), 0);
	/* No event shows that the append does not begin: wait for some time. */
	early = wait_for_completion_timeout(&b.thread.done, HZ / 20);
	KUNIT_EXPECT_EQ(test, early, 0);
	if (early)
		complete(&b.thread.done);	/* for lsmem_test_join() */
	for (i = nr; --i;)
		log_commit_held(store, &ap[i]);
	KUNIT_EXPECT_EQ(test, ap[0].segment->committed, 0);
	KUNIT_EXPECT_FALSE(test, completion_done(&b.thread.done));
	log_commit_held(store, &ap[0]);
	lsmem_test_join(test, &b.thread);
	KUNIT_ASSERT_EQ(test, b.ret, 0);
	KUNIT_EXPECT_EQ(test, ap[0].segment->committed, b.ap.offset);
	log_abort_held(store, &b.ap);
	KUNIT_EXPECT_EQ(test, log_read_all(test, store, ap[0].segment).objects, nr);
}

/* An append is not preempted from its reservation to its end, but may be before and after. */
static void log_test_pinned(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_append ap;
	bool before, between, after;

	if (!IS_ENABLED(CONFIG_PREEMPT_COUNT) || IS_ENABLED(CONFIG_PREEMPT_RT))
		kunit_skip(test, "preemption is not counted, or spinlocks sleep");
	before = preemptible();
	KUNIT_ASSERT_EQ(test, lsmem_append_begin(store, LOG_HEAD, 8, LSMEM_TYPE_OBJECT, &ap), 0);
	between = preemptible();
	log_fill(store, &ap, 1, 8);
	lsmem_append_commit(store, &ap);
	after = preemptible();
	KUNIT_EXPECT_TRUE(test, before);
	KUNIT_EXPECT_FALSE(test, between);
	KUNIT_EXPECT_TRUE(test, after);
	KUNIT_ASSERT_EQ(test, lsmem_append_begin(store, LOG_HEAD, 8, LSMEM_TYPE_OBJECT, &ap), 0);
	lsmem_append_abort(store, &ap);
	KUNIT_EXPECT_TRUE(test, preemptible());
}

#define LOG_THREADS	4
#define LOG_APPENDS	3000

struct log_appender {
	struct lsmem_test_thread thread;
	struct lsmem_store *store;
	struct rnd_state random;
	unsigned int head;
	u32 number;
	u32 objects;
	u32 pads;
};

static const char *log_appender(void *data)
{
	struct log_appender *a = data;
	u32 i;

	for (i = 0; i < LOG_APPENDS; i++) {
		u32 dice = lsmem_test_below(&a->random, 100);
		u32 most = dice < 2 ? 200000 : dice < 20 ? 5000 : 300;
		u32 length = 1 + lsmem_test_below(&a->random, most);
		u64 key = lsmem_handle_make(i, 1 + a->number);
		struct lsmem_append ap;

		if (log_begin_held(a->store, a->head, length, LSMEM_TYPE_OBJECT, &ap))
			return "an append could not begin";
		if (dice & 1)
			log_fill(a->store, &ap, key, length);
		if (dice % 10 == 9) {
			log_abort_held(a->store, &ap);
			a->pads++;
			continue;
		}
		cond_resched();
		log_fill(a->store, &ap, key, length);
		log_commit_held(a->store, &ap);
		a->objects++;
	}
	return NULL;
}

/*
 * Threads append to three heads; two threads share one of these.  Meanwhile a reader follows the
 * committed prefix of every segment, and finds only whole entries in it.
 */
static void log_test_threads(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct log_appender *a;
	struct log_reader *r;
	u32 objects = 0, pads = 0, i;
	struct rnd_state random;
	bool running = true;

	lsmem_test_seed(test, &random);
	a = kunit_kcalloc(test, LOG_THREADS, sizeof(*a), GFP_KERNEL);
	r = kunit_kcalloc(test, store->segments.nr, sizeof(*r), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, a && r);
	for (i = 0; i < LOG_THREADS; i++) {
		a[i].store = store;
		a[i].number = i;
		a[i].head = (i + 1) % store->heads.nr;	/* the cleaner's head has one thread only */
		prandom_seed_state(&a[i].random, lsmem_test_u64(&random));
		KUNIT_ASSERT_EQ(test, lsmem_test_start(&a[i].thread, log_appender, &a[i]), 0);
	}
	while (running) {
		running = false;
		for (i = 0; i < LOG_THREADS; i++)
			running |= !completion_done(&a[i].thread.done);
		for (i = 0; i < store->segments.nr; i++) {
			const struct lsmem_segment *seg = &store->segments.table[i];
			/* Pairs with lsmem_head_advance(): all entries below are whole. */
			u32 end = smp_load_acquire(&seg->committed);
			const char *wrong = log_read(store, seg, end, &r[i]);

			if (wrong) {	/* the reader cannot find the next entry */
				KUNIT_FAIL(test, "segment %llu, offset %u of %u: %s", seg->id,
					   r[i].offset, end, wrong);
				running = false;
				break;
			}
		}
		cond_resched();
	}
	for (i = 0; i < LOG_THREADS; i++) {
		lsmem_test_join(test, &a[i].thread);
		objects += a[i].objects;
		pads += a[i].pads;
	}
	for (i = 0; i < store->segments.nr; i++) {
		struct log_reader all;

		if (!store->segments.table[i].reserved)
			continue;
		all = log_read_all(test, store, &store->segments.table[i]);
		objects -= all.objects;
		pads -= all.pads;
	}
	KUNIT_EXPECT_EQ(test, objects, 0);
	KUNIT_EXPECT_EQ(test, pads, 0);
}

/* ---- Durable ------------------------------------------------------------ */

/* A commit record is written only after other entries; it holds what was acknowledged before. */
static void log_test_record(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_append ap;
	struct log_reader r;
	u32 taken;

	KUNIT_EXPECT_FALSE(test, log_record(store));
	/* The entry fills its seglet: the record needs another one, and uses the reserve. */
	KUNIT_ASSERT_EQ(test, log_append(store, LOG_HEAD, 1,
					 LSMEM_SEGLET_BYTES - LSMEM_LONG_BYTES, &ap), 0);
	taken = lsmem_test_take_seglets(store, LSMEM_TEST_RESERVE);
	ap.segment->acked = 4096;
	KUNIT_EXPECT_TRUE(test, log_record(store));
	lsmem_test_put_seglets(store, taken);
	KUNIT_EXPECT_EQ(test, ap.segment->committed, LSMEM_SEGLET_BYTES + LSMEM_LONG_BYTES);
	r = log_read_all(test, store, ap.segment);
	KUNIT_EXPECT_EQ(test, r.commits, 1);
	KUNIT_EXPECT_EQ(test, r.commit_value, 4096);

	ap.segment->emitted = ap.segment->committed;
	KUNIT_EXPECT_FALSE(test, log_record(store));
	/* A head that leaves a segment writes a record, if entries follow the last record. */
	KUNIT_EXPECT_EQ(test, lsmem_head_roll(store, LOG_HEAD), 0);
	KUNIT_EXPECT_EQ(test, log_read_all(test, store, ap.segment).commits, 1);
	KUNIT_ASSERT_EQ(test, log_append(store, LOG_HEAD, 2, 8, &ap), 0);
	KUNIT_EXPECT_EQ(test, lsmem_head_roll(store, LOG_HEAD), 0);
	KUNIT_EXPECT_EQ(test, log_read_all(test, store, ap.segment).commits, 1);
	KUNIT_EXPECT_EQ(test, ap.segment->state, LSMEM_SEGMENT_CLOSED);
	KUNIT_EXPECT_FALSE(test, ap.segment->close_acked);	/* needs an ack of the daemon */
}

/*
 * A commit record that needs a seglet takes none that a pass has claimed, and moves the gate like
 * the seglet of a writer.
 */
static void log_test_record_claimed(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_append ap;
	u32 taken;

	KUNIT_ASSERT_EQ(test, log_append(store, LOG_HEAD, 1,
					 LSMEM_SEGLET_BYTES - LSMEM_LONG_BYTES, &ap), 0);
	taken = lsmem_test_take_seglets(store, LSMEM_TEST_RESERVE);
	KUNIT_EXPECT_EQ(test, lsmem_seglets_claim(&store->seglets, LSMEM_TEST_RESERVE),
			LSMEM_TEST_RESERVE);
	store->space.seglet_ns = NSEC_PER_MSEC;
	store->space.throttle_below = store->seglets.nr;
	KUNIT_EXPECT_FALSE(test, log_record(store));
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, LSMEM_TEST_RESERVE);
	KUNIT_EXPECT_EQ(test, store->seglets.claimed, LSMEM_TEST_RESERVE);
	KUNIT_EXPECT_EQ(test, store->heads.table[LOG_HEAD].gate, 0);

	lsmem_seglets_unclaim(&store->seglets);
	KUNIT_EXPECT_TRUE(test, log_record(store));
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, LSMEM_TEST_RESERVE - 1);
	KUNIT_EXPECT_GT(test, store->heads.table[LOG_HEAD].gate, 0);
	KUNIT_EXPECT_EQ(test, log_read_all(test, store, ap.segment).commits, 1);
	lsmem_test_put_seglets(store, taken);
}

/* A full segment of a durable store has room for its last commit record. */
static void log_test_record_room(struct kunit *test)
{
	u32 length = *(const u32 *)test->param_value;
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = NULL;
	struct lsmem_append ap;
	struct log_reader r;
	u32 nr = 0;

	for (;;) {
		KUNIT_ASSERT_EQ(test, log_append(store, LOG_HEAD, nr, length, &ap), 0);
		if (seg && seg != ap.segment)
			break;
		seg = ap.segment;
		nr++;
	}
	r = log_read_all(test, store, seg);
	KUNIT_EXPECT_EQ(test, r.objects, nr);
	KUNIT_EXPECT_EQ(test, r.commits, 1);
}

#define LOG_POINTS	32

struct log_point {
	struct lsmem_vector_point point;
	u32 before[64];		/* by segment index: bytes reserved before the point */
};

/* Has the daemon acknowledged all bytes that were reserved when @p was taken? */
static bool log_point_reached(const struct lsmem_store *store, const struct log_point *p)
{
	u32 i;

	for (i = 0; i < store->segments.nr; i++)
		if (store->segments.table[i].acked < p->before[i])
			return false;
	return true;
}

/*
 * Random appends, some of them long under way, rollovers and acknowledgements: a point is durable
 * when all bytes reserved before it are acknowledged, independent of later writes.
 */
static void log_test_point(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_append held[3];
	bool holds[3] = { 0 };
	u32 nr = 0, reached = 0, i, step;
	struct rnd_state random;
	struct log_point *p;

	lsmem_test_seed(test, &random);
	p = kunit_kcalloc(test, LOG_POINTS, sizeof(*p), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, p);
	KUNIT_ASSERT_LE(test, store->segments.nr, ARRAY_SIZE(p->before));
	for (step = 0; step < 3000; step++) {
		unsigned int h = lsmem_test_below(&random, store->heads.nr);
		u32 dice = lsmem_test_below(&random, 100);
		struct lsmem_append ap;

		lsmem_test_list_spares(store);
		if (dice < 30) {
			KUNIT_ASSERT_EQ(test, log_append(store, h, step,
							 1 + lsmem_test_below(&random, 4000), &ap), 0);
		} else if (dice < 45 && !holds[h]) {
			KUNIT_ASSERT_EQ(test, log_begin_held(store, h, 64, LSMEM_TYPE_OBJECT,
							     &held[h]), 0);
			holds[h] = true;
		} else if (dice < 60 && holds[h]) {
			log_abort_held(store, &held[h]);
			holds[h] = false;
		} else if (dice < 61) {
			/* Leave some segments for heads that have none yet. */
			if (store->segments.nr - store->segments.nr_log > 8)
				lsmem_head_roll(store, h);
		} else if (dice < 90) {
			/* Acknowledge some or all committed bytes of any segment. */
			struct lsmem_segment *seg =
				&store->segments.table[lsmem_test_below(&random, store->segments.nr)];
			u32 rest = seg->committed - seg->acked;

			spin_lock(&store->segments.lock);
			seg->acked += dice < 70 ? lsmem_test_below(&random, rest + 1) : rest;
			seg->emitted = seg->acked;
			if (seg->state == LSMEM_SEGMENT_CLOSED && !seg->close_acked &&
			    seg->acked == seg->committed)
				lsmem_segment_done(seg);
			spin_unlock(&store->segments.lock);
		} else if (dice < 95) {
			struct log_point *new = &p[nr++ % LOG_POINTS];

			lsmem_log_point(store, &new->point);
			for (i = 0; i < store->segments.nr; i++)
				new->before[i] = store->segments.table[i].reserved;
		}
		for (i = 0; i < min(nr, LOG_POINTS); i++) {
			bool durable = log_point_reached(store, &p[i]);

			KUNIT_ASSERT_EQ(test, lsmem_log_reached(store, &p[i].point,
								LSMEM_REACH_DURABLE), durable);
			reached += durable;
		}
	}
	KUNIT_EXPECT_GT(test, reached, 0);
	KUNIT_EXPECT_LT(test, reached, 3000 * LOG_POINTS);
	for (i = 0; i < ARRAY_SIZE(held); i++)
		if (holds[i])
			log_abort_held(store, &held[i]);
}

/*
 * lsmem_crc32c(), lsmem_crc32c_copy() and the CRC of entries are what the kernel's crc32c() computes;
 * a copy has these bytes and no others.
 */
static void log_test_crc(struct kunit *test)
{
	const u32 bytes = 3000;
	u8 *data = kunit_kmalloc(test, bytes, GFP_KERNEL);
	u8 *copy = kunit_kzalloc(test, bytes + 16, GFP_KERNEL);
	struct lsmem_entry e;
	u32 length, i, seed;

	KUNIT_ASSERT_NOT_NULL(test, data);
	KUNIT_ASSERT_NOT_NULL(test, copy);
	get_random_bytes(data, bytes);
	for (length = 0; length <= bytes - 8; length += length < 100 ? 1 : 61) {
		for (i = 0; i < 8; i++) {
			memcpy(&seed, data + i, sizeof(seed));
			KUNIT_ASSERT_EQ(test, lsmem_crc32c(seed, data + i, length),
					crc32c(seed, data + i, length));
			memset(copy, 0x5a, bytes + 16);
			KUNIT_ASSERT_EQ(test, lsmem_crc32c_copy(seed, copy + 8, data + i, length),
					crc32c(seed, data + i, length));
			KUNIT_ASSERT_EQ(test, memcmp(copy + 8, data + i, length), 0);
			KUNIT_ASSERT_EQ(test, copy[7], 0x5a);
			KUNIT_ASSERT_EQ(test, copy[8 + length], 0x5a);
		}
	}
	for (i = 0; i < 200; i++) {
		u32 pcrc = i * 0x9e3779b9, salt = ~pcrc * 3, header, crc;

		memcpy(&e, data + i * sizeof(e) % 2048, sizeof(e));
		if (i % 2)
			e.meta &= ~cpu_to_le32(LSMEM_SHORT_MAX);	/* a long entry */
		header = lsmem_entry_header(&e);
		crc = log_crc(&e, header, pcrc, salt);
		KUNIT_ASSERT_EQ(test, lsmem_entry_crc(&e, pcrc, salt), crc);
		e.crc = cpu_to_le32(crc);
		KUNIT_ASSERT_TRUE(test, lsmem_entry_copied(&e, pcrc, salt));
		KUNIT_ASSERT_FALSE(test, lsmem_entry_copied(&e, pcrc ^ 1, salt));
		KUNIT_ASSERT_FALSE(test, lsmem_entry_copied(&e, pcrc, salt ^ 1));
	}
}

/* Every field of a header has its whole range, and none affects another. */
static void log_test_fields(struct kunit *test)
{
	const u64 last = LSMEM_INDEX_END - 1, versions = 1ull << LSMEM_ENTRY_VERSION_BITS;
	struct lsmem_store *store = test->priv;
	struct rnd_state random;
	u32 i;

	lsmem_test_seed(test, &random);
	for (i = 0; i < 20000; i++) {
		bool ends = i % 2;	/* the ends of the ranges, or anything */
		u64 u = lsmem_test_u64(&random);
		u64 handle = ends ? lsmem_handle_make(u & 1 ? last : 0,
						      u & 2 ? LSMEM_GENERATION_MAX : 1) :
				    lsmem_handle_make(u & last, u >> LSMEM_HANDLE_INDEX_BITS);
		u64 version = ends ? (u & 4 ? versions - 1 : 0) :
				     lsmem_test_u64(&random) % versions;
		u32 interval = ends ? (u & 8 ? 31 : 0) : lsmem_test_below(&random, 32);
		u32 table = ends ? (u & 16 ? LSMEM_TABLES - 1 : 0) :
				   lsmem_test_below(&random, LSMEM_TABLES);
		u32 home = ends ? (u & 32 ? LSMEM_SEGMENT_BYTES - LSMEM_BLOCK : 0) :
				  lsmem_test_below(&random, LSMEM_SEGMENT_BYTES);
		static const u32 lengths[] = { 1, 2046, 2047, 2048, 2049, LSMEM_OBJECT_MAX };
		u64 length = ends ? lengths[i / 2 % ARRAY_SIZE(lengths)] :
				    1 + lsmem_test_below(&random, LSMEM_OBJECT_MAX);
		u32 type = i % 5 == 4 ? LSMEM_TYPE_TOMBSTONE : LSMEM_TYPE_OBJECT;
		u64 value = type == LSMEM_TYPE_OBJECT ? length :
			    ends ? LSMEM_SEGMENT_ID_END - 1 : u % LSMEM_SEGMENT_ID_END;
		struct lsmem_entry e = lsmem_entry_make(type, value, handle, version, interval,
							table, home);

		KUNIT_ASSERT_TRUE(test, lsmem_entry_sane(&e));
		KUNIT_ASSERT_EQ(test, lsmem_entry_type(&e), type);
		KUNIT_ASSERT_EQ(test, lsmem_entry_handle(&e), handle);
		KUNIT_ASSERT_EQ(test, lsmem_entry_version(&e), version);
		KUNIT_ASSERT_EQ(test, lsmem_entry_interval(&e), interval);
		KUNIT_ASSERT_EQ(test, lsmem_entry_table(&e), table);
		KUNIT_ASSERT_EQ(test, lsmem_entry_home(&e), home / LSMEM_BLOCK);
		if (type == LSMEM_TYPE_TOMBSTONE) {
			KUNIT_ASSERT_EQ(test, lsmem_entry_value(&e), value);
			KUNIT_ASSERT_EQ(test, lsmem_entry_bytes(&e), 32);
			KUNIT_ASSERT_EQ(test, lsmem_entry_size(0), 32);
		} else {
			KUNIT_ASSERT_EQ(test, lsmem_entry_length(&e), length);
			KUNIT_ASSERT_EQ(test, lsmem_entry_header(&e), length < 2048 ? 24 : 32);
			KUNIT_ASSERT_EQ(test, lsmem_entry_bytes(&e), log_size(length));
			KUNIT_ASSERT_EQ(test, lsmem_entry_size(length), log_size(length));
		}
	}
	KUNIT_EXPECT_LE(test, store->handles.nr, LSMEM_INDEX_END);
}

/* ---- Loading ------------------------------------------------------------- */

#define LOAD_BYTES	(1u << 20)
#define LOAD_GENERATION	3u

/**
 * struct load_stream - the entries of a call of LSMEM_REPL_LOAD
 * @store: that is loaded
 * @load: the call
 * @salt: of the segment
 * @at: the entries
 */
struct load_stream {
	struct lsmem_store *store;
	struct lsmem_load load;
	u32 salt;
	u8 *at;
};

/* A durable store as it is before a recovery: without segments. */
static int load_init(struct kunit *test)
{
	struct lsmem_segment *seg;
	struct lsmem_store *store;

	lsmem_test_store(test, &log_durable_shape);
	store = test->priv;
	store->state = LSMEM_STATE_NEW;
	spin_lock(&store->segments.lock);
	while ((seg = list_first_entry_or_null(&store->segments.log, struct lsmem_segment, node)))
		lsmem_segment_free(store, seg);
	store->segments.nr_spares = 0;
	store->segments.next_id = 1;
	store->segments.barrier = 0;
	spin_unlock(&store->segments.lock);
	return 0;
}

static void load_begin(struct kunit *test, struct load_stream *s, u64 segment)
{
	s->store = test->priv;
	s->salt = lsmem_segment_salt(s->store->uuid, segment, LOAD_GENERATION);
	if (!s->at) {
		s->at = kunit_kzalloc(test, LOAD_BYTES, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, s->at);
		s->load.data = (uintptr_t)lsmem_test_user(test, LOAD_BYTES);
	}
	s->load.segment = segment;
	s->load.generation = LOAD_GENERATION;
	s->load.sealed = LSMEM_SEGMENT_BYTES / 2;
	s->load.length = 0;
}

/* Add an entry; an object has the payload of its handle. */
static void load_add(struct kunit *test, struct load_stream *s, u32 type, u64 value, u64 handle,
		     u64 version)
{
	const void *payload = lsmem_test_payload(handle);
	struct lsmem_entry e = lsmem_entry_make(type, value, handle, version, handle % 32, 9,
						8 * LSMEM_BLOCK);
	u32 length = lsmem_entry_length(&e);
	u8 *to = s->at + s->load.length;

	KUNIT_ASSERT_LE(test, s->load.length + lsmem_entry_bytes(&e), LOAD_BYTES);
	e.crc = cpu_to_le32(log_crc(&e, lsmem_entry_header(&e), crc32c(~0u, payload, length),
				    s->salt));
	memset(to, 0, lsmem_entry_bytes(&e));
	memcpy(to, &e, lsmem_entry_header(&e));
	memcpy(to + lsmem_entry_header(&e), payload, length);
	s->load.length += lsmem_entry_bytes(&e);
}

static int load_call(struct kunit *test, struct load_stream *s)
{
	KUNIT_ASSERT_EQ(test, copy_to_user(u64_to_user_ptr(s->load.data), s->at, s->load.length), 0);
	return lsmem_load(s->store, &s->load);
}

/* What is found of an object after loading: 0 and its payload, or the error of lsmem_look(). */
static int load_look(struct kunit *test, u64 handle, u64 version, u32 length)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg;
	struct lsmem_look look;
	u32 at, pcrc, i;
	int ret;

	KUNIT_ASSERT_EQ(test, lsmem_handle_find(store, handle, &look.h), 0);
	ret = lsmem_look(store, handle, &look);
	if (ret)
		return ret;
	KUNIT_EXPECT_EQ(test, look.version, version);
	KUNIT_EXPECT_EQ(test, look.length, length);
	KUNIT_EXPECT_EQ(test, look.table, 9);
	KUNIT_EXPECT_EQ(test, look.interval, handle % 32);
	seg = lsmem_segment_of(store, lsmem_word_position(look.word));
	for (i = 0; i < seg->nr_seglets; i++)
		if (seg->seglets[i] == lsmem_word_position(look.word) >> LSMEM_POSITION_OFFSET_BITS)
			break;
	KUNIT_ASSERT_LT(test, i, seg->nr_seglets);
	at = i * LSMEM_SEGLET_BYTES + lsmem_word_position(look.word) %
	     (1u << LSMEM_POSITION_OFFSET_BITS) * LSMEM_ALIGN;
	KUNIT_EXPECT_TRUE(test, log_payload(store, seg, at + lsmem_header_bytes(length), handle,
					    length, &pcrc));
	return 0;
}

/*
 * Short and long objects, and tombstones, which have no payload.  Of two versions the newer counts, in
 * whatever order they come.  A deleted index keeps the generation of its tombstone.
 */
static void load_test_entries(struct kunit *test)
{
	static const u32 lengths[] = { 1, 2046, 2047, 2048, 70000, 2047, 1, 300000, 9 };
	struct lsmem_store *store = test->priv;
	struct load_stream s = { };
	u32 live = 0, nr = ARRAY_SIZE(lengths), i;
	const struct lsmem_segment *seg;

	load_begin(test, &s, 5);
	for (i = 0; i < nr; i++) {
		load_add(test, &s, LSMEM_TYPE_OBJECT, lengths[i], lsmem_handle_make(i, 1 + i),
			 100 + i);
		live += lsmem_entry_size(lengths[i]);
	}
	load_add(test, &s, LSMEM_TYPE_TOMBSTONE, 4, lsmem_handle_make(40, 7), 200);
	KUNIT_ASSERT_EQ(test, load_call(test, &s), 0);
	seg = lsmem_segment_of(store, lsmem_word_position(store->handles.table[0].word));
	KUNIT_EXPECT_EQ(test, seg->id, 5);
	KUNIT_EXPECT_EQ(test, seg->entries, nr + 1);
	KUNIT_EXPECT_EQ(test, seg->barrier, 4);
	KUNIT_EXPECT_EQ(test, seg->home, s.load.sealed);
	KUNIT_EXPECT_EQ(test, atomic_read(seg->tombstones), 32);
	KUNIT_EXPECT_EQ(test, atomic_read(seg->live), live + 32);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), live + 32);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->handles.used), nr);
	KUNIT_EXPECT_EQ(test, store->handles.max, nr);
	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_EQ(test, load_look(test, lsmem_handle_make(i, 1 + i), 100 + i,
						lengths[i]), 0);
		KUNIT_EXPECT_EQ(test, load_look(test, lsmem_handle_make(i, 2 + i), 0, 0), -ENOENT);
	}
	KUNIT_EXPECT_EQ(test, lsmem_word_state(store->handles.table[40].word), LSMEM_WORD_FREE);
	KUNIT_EXPECT_EQ(test, lsmem_word_generation(store->handles.table[40].word), 7);
	KUNIT_EXPECT_EQ(test, load_look(test, lsmem_handle_make(40, 7), 0, 0), -ESTALE);
	KUNIT_EXPECT_EQ(test, load_look(test, lsmem_handle_make(40, 8), 0, 0), -ENOENT);

	/* 0 is deleted, 1 replaced; 2 comes again, and an object that is known as deleted. */
	load_begin(test, &s, 6);
	load_add(test, &s, LSMEM_TYPE_TOMBSTONE, 6, lsmem_handle_make(0, 1), 300);
	load_add(test, &s, LSMEM_TYPE_OBJECT, 3000, lsmem_handle_make(1, 2), 301);
	load_add(test, &s, LSMEM_TYPE_OBJECT, 77, lsmem_handle_make(2, 3), 90);
	load_add(test, &s, LSMEM_TYPE_OBJECT, 77, lsmem_handle_make(40, 7), 199);
	KUNIT_ASSERT_EQ(test, load_call(test, &s), 0);
	KUNIT_EXPECT_EQ(test, load_look(test, lsmem_handle_make(0, 1), 0, 0), -ESTALE);
	KUNIT_EXPECT_EQ(test, load_look(test, lsmem_handle_make(1, 2), 301, 3000), 0);
	KUNIT_EXPECT_EQ(test, load_look(test, lsmem_handle_make(2, 3), 102, lengths[2]), 0);
	KUNIT_EXPECT_EQ(test, load_look(test, lsmem_handle_make(40, 7), 0, 0), -ESTALE);
	live += lsmem_entry_size(3000) - lsmem_entry_size(lengths[0]) - lsmem_entry_size(lengths[1]);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), live + 2 * 32);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->handles.used), nr - 1);
	KUNIT_EXPECT_EQ(test, atomic_read(seg->live), live - lsmem_entry_size(3000) + 32);
}

static const struct load_flip_case {
	const char *name;
	u32 type;
	u32 value;
} load_flips[] = {
	{ "a short object", LSMEM_TYPE_OBJECT, 13 },
	{ "the longest short object", LSMEM_TYPE_OBJECT, 2047 },
	{ "the shortest long object", LSMEM_TYPE_OBJECT, 2048 },
	{ "a tombstone", LSMEM_TYPE_TOMBSTONE, 3 },
};

static void load_flip_desc(const struct load_flip_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(load_flip, load_flips, load_flip_desc);

/* Each bit of an entry: flipped, it is refused, and nothing comes into the handle table. */
static void load_test_flip(struct kunit *test)
{
	const struct load_flip_case *param = test->param_value;
	const u64 handle = lsmem_handle_make(20, 5);
	struct lsmem_store *store = test->priv;
	bool object = param->type == LSMEM_TYPE_OBJECT;
	struct load_stream s = { };
	u32 bits, header, bit = 0, bad = 0;
	struct lsmem_load call;

	load_begin(test, &s, 5);
	load_add(test, &s, param->type, param->value, handle, 100);
	header = object ? 8 * lsmem_header_bytes(param->value) : 8 * 32;
	bits = header + (object ? 8 * param->value : 0);
	while (bit < bits) {
		int ret;

		s.at[bit / 8] ^= 1 << bit % 8;
		ret = load_call(test, &s);
		s.at[bit / 8] ^= 1 << bit % 8;
		bad += ret == -EBADMSG;
		/* A length, type or index can be wrong for the store; anything else is damage. */
		if (bit < 32 || bit >= header)
			KUNIT_ASSERT_EQ(test, ret, -EBADMSG);
		else
			KUNIT_ASSERT_TRUE(test, ret == -EBADMSG || ret == -EINVAL);
		KUNIT_ASSERT_EQ(test, store->handles.table[20].word, 0);
		bit += bit < header + 128 || bit + 64 >= bits ? 1 : bits - 64 - bit;
	}
	KUNIT_EXPECT_GE(test, bad, 100);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), 0);
	KUNIT_EXPECT_EQ(test, store->handles.max, 0);
	/* It is the entry of another segment; the whole one of this segment is loaded. */
	call = s.load;
	s.load.segment = 6;
	KUNIT_EXPECT_EQ(test, load_call(test, &s), -EBADMSG);
	s.load = call;
	s.load.segment = 7;
	s.salt = lsmem_segment_salt(store->uuid, 7, LOAD_GENERATION);
	s.load.length = 0;
	load_add(test, &s, param->type, param->value, handle, 100);
	KUNIT_EXPECT_EQ(test, load_call(test, &s), 0);
	KUNIT_EXPECT_EQ(test, load_look(test, handle, 100, param->value), object ? 0 : -ESTALE);
}

/* An object of a length that it cannot have, or a type that no recovery passes, is refused. */
static void load_test_refused(struct kunit *test)
{
	static const struct {
		u32 type;
		u64 value;
		u32 index;
		u32 generation;
	} entries[] = {
		{ LSMEM_TYPE_COMMIT, 100, 1, 1 },
		{ LSMEM_TYPE_PAD, 8, 1, 1 },
		{ LSMEM_TYPE_SKIPPABLE, 8, 1, 1 },
		{ LSMEM_TYPE_OBJECT, 0, 1, 1 },
		{ LSMEM_TYPE_OBJECT, 100, 64 + LSMEM_RESERVED, 1 },
		{ LSMEM_TYPE_OBJECT, 100, 1, 0 },
		{ LSMEM_TYPE_TOMBSTONE, 1, 64 + LSMEM_RESERVED, 1 },
	};
	struct load_stream s = { };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(entries); i++) {
		load_begin(test, &s, 1 + i);
		load_add(test, &s, entries[i].type, entries[i].value,
			 lsmem_handle_make(entries[i].index, entries[i].generation), 100);
		KUNIT_EXPECT_EQ(test, load_call(test, &s), -EINVAL);
	}
	/* A short entry without its end. */
	load_begin(test, &s, 100);
	load_add(test, &s, LSMEM_TYPE_OBJECT, 100, lsmem_handle_make(1, 1), 100);
	for (i = s.load.length - LSMEM_ALIGN; i; i -= LSMEM_ALIGN) {
		s.load.length = i;
		KUNIT_EXPECT_EQ(test, load_call(test, &s), -EINVAL);
	}
}

static struct kunit_case log_cases[] = {
	KUNIT_CASE(log_test_crc),
	KUNIT_CASE(log_test_fields),
	KUNIT_CASE_PARAM(log_test_order, log_order_gen_params),
	KUNIT_CASE_PARAM(log_test_straddle, log_left_gen_params),
	KUNIT_CASE_PARAM(log_test_fill, log_length_gen_params),
	KUNIT_CASE_PARAM(log_test_fill_short, log_length_gen_params),
	KUNIT_CASE(log_test_last_entry),
	KUNIT_CASE(log_test_reserve),
	KUNIT_CASE(log_test_wait),
	KUNIT_CASE(log_test_ring),
	KUNIT_CASE(log_test_pinned),
	KUNIT_CASE(log_test_threads),
	{}
};

static struct kunit_case log_durable_cases[] = {
	KUNIT_CASE(log_test_record),
	KUNIT_CASE(log_test_record_claimed),
	KUNIT_CASE_PARAM(log_test_record_room, log_length_gen_params),
	KUNIT_CASE(log_test_point),
	{}
};

static struct kunit_suite log_suite = {
	.name = "lsmem-log",
	.init = log_init,
	.exit = lsmem_test_store_exit,
	.test_cases = log_cases,
};

static struct kunit_suite log_durable_suite = {
	.name = "lsmem-log-durable",
	.init = log_durable_init,
	.exit = lsmem_test_store_exit,
	.test_cases = log_durable_cases,
};

static struct kunit_case load_cases[] = {
	KUNIT_CASE(load_test_entries),
	KUNIT_CASE_PARAM(load_test_flip, load_flip_gen_params),
	KUNIT_CASE(load_test_refused),
	{}
};

static struct kunit_suite load_suite = {
	.name = "lsmem-load",
	.init = load_init,
	.exit = lsmem_test_store_exit,
	.test_cases = load_cases,
};

kunit_test_suites(&log_suite, &log_durable_suite, &load_suite);
