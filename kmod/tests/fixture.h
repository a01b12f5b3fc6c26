/* SPDX-License-Identifier: GPL-2.0 */
/* Common to the KUnit suites: a store, threads, random numbers.  See fixture.c. */
#ifndef LSMEM_TESTS_FIXTURE_H
#define LSMEM_TESTS_FIXTURE_H

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/prandom.h>

#include "../handle.h"
#include "../log.h"
#include "../store.h"

/* Seglets that only the cleaner may take, in the store of a test. */
#define LSMEM_TEST_RESERVE	8u

/**
 * struct lsmem_test_shape - the store that a suite creates for each test
 * @segments: memory, in units of a full segment
 * @heads: number of heads, the cleaner's included
 * @handles: number of indices in the handle table
 * @durable: the store is durable; the test does the work of the daemon
 * @tiered: its capacity is twice its memory
 */
struct lsmem_test_shape {
	u32 segments;
	unsigned int heads;
	u32 handles;
	bool durable;
	bool tiered;
};

int lsmem_test_store(struct kunit *test, const struct lsmem_test_shape *shape);
void lsmem_test_store_exit(struct kunit *test);
void lsmem_test_livemap(struct kunit *test);
void lsmem_test_list_spares(struct lsmem_store *store);
int lsmem_test_compactors(struct lsmem_store *store);
void lsmem_test_read(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset,
		     void *to, u32 length);
u32 lsmem_test_take_seglets(struct lsmem_store *store, u32 leave);
void lsmem_test_put_seglets(struct lsmem_store *store, u32 nr);
const void *lsmem_test_payload(u64 key);
u32 lsmem_test_seek(u32 end, u32 left);
void __user *lsmem_test_user(struct kunit *test, size_t bytes);

/**
 * struct lsmem_test_thread - a thread that a test starts
 * @run: returns NULL or an error message; only the test's own thread may assert
 * @data: argument of @run
 * @wrong: return value of @run, valid after @done
 * @done: complete when @run has returned
 */
struct lsmem_test_thread {
	const char *(*run)(void *data);
	void *data;
	const char *wrong;
	struct completion done;
};

int lsmem_test_start(struct lsmem_test_thread *thread, const char *(*run)(void *), void *data);
void lsmem_test_join(struct kunit *test, struct lsmem_test_thread *thread);

void lsmem_test_seed(struct kunit *test, struct rnd_state *random);

static inline u64 lsmem_test_u64(struct rnd_state *random)
{
	u64 high = prandom_u32_state(random);

	return high << 32 | prandom_u32_state(random);
}

/* A random number from 0 to @n - 1 */
static inline u32 lsmem_test_below(struct rnd_state *random, u32 n)
{
	return ((u64)prandom_u32_state(random) * n) >> 32;
}

#endif
