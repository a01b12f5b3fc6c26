/* SPDX-License-Identifier: GPL-2.0 */
/* Common to the KUnit suites of compaction: objects, and asking for it.  See compaction.c. */
#ifndef LSMEM_TESTS_COMPACTION_H
#define LSMEM_TESTS_COMPACTION_H

#include "fixture.h"

#define COMPACT_HEAD	1u
#define COMPACT_ALL	1000	/* victims to ask for: more than there are */
#define COMPACT_BOUND	(60 * HZ)
#define COMPACT_KEPT	8u	/* free seglets that compaction does not take */
#define COMPACT_OBJECTS	2048u

/* Wait until a condition holds, for COMPACT_BOUND at most. No event shows it: poll every tick. */
#define compact_await(test, condition)						\
do {										\
	unsigned long __end = jiffies + COMPACT_BOUND;				\
	bool __so;								\
										\
	while (!(__so = (condition)) && time_before(jiffies, __end))		\
		schedule_timeout_uninterruptible(1);				\
	KUNIT_ASSERT_TRUE_MSG(test, __so, "never: %s", #condition);		\
} while (0)

/**
 * struct compact_object - an object as the model has it
 * @handle: its handle; 0: there is no object
 * @key: key of its payload
 * @length: length of its payload in bytes
 * @seg: segment of its entry
 * @word: word of its handle, when the test last read it
 * @e: header of its entry as written; compaction does not change it, cleaning only the home block
 */
struct compact_object {
	u64 handle;
	u64 key;
	u32 length;
	struct lsmem_segment *seg;
	u64 word;
	struct lsmem_entry e;
};

/* Fields of a segment that compaction does not change */
struct compact_before {
	u64 id;
	u64 open_time;
	u64 barrier;
	u32 home;
	u32 acked;
	u32 emitted;
	u32 entries;
};

int compact_store(struct kunit *test, const struct lsmem_test_shape *shape, u32 reserve);
int compact_init(struct kunit *test);
int compact_durable_init(struct kunit *test);
void compact_exit(struct kunit *test);
struct lsmem_handle *compact_handle(struct lsmem_store *store,
				    const struct compact_object *o);
int compact_write(struct lsmem_store *store, unsigned int head, struct compact_object *o,
		  u64 key, u32 length);
int compact_free(struct lsmem_store *store, struct compact_object *o);
void compact_put(struct kunit *test, struct compact_object *o, u32 length);
void compact_garbage(struct kunit *test, u32 length);
struct lsmem_segment *compact_close(struct kunit *test);
bool compact_same(struct lsmem_store *store, u64 position, u64 key, u32 length);
const char *compact_look(struct lsmem_store *store, const struct compact_object *o);
void compact_look_all(struct kunit *test, const struct compact_object *o, u32 nr);
struct compact_object *compact_objects(struct kunit *test);
struct lsmem_segment *compact_fill(struct kunit *test, struct compact_object *o, u32 nr,
				   u32 length);
void compact_tombstone(struct kunit *test, u64 barrier, struct lsmem_entry *e);
struct lsmem_counters compact_counters(struct lsmem_store *store);
bool compact_busy(struct lsmem_store *store);
u32 compact_ring(const struct lsmem_store *store);
void compact_ask(struct lsmem_store *store, int nr);
void compact_all(struct kunit *test);
void compact_cleaner(struct kunit *test);
bool compact_cleanable(struct lsmem_store *store, u64 id);
void compact_clean(struct kunit *test, const u64 *ids, u32 nr);
struct compact_before compact_before(const struct lsmem_segment *seg);
void compact_unchanged(struct kunit *test, const struct lsmem_segment *seg,
		       const struct compact_before *before);
void compact_check_seglets(struct kunit *test);

#endif
