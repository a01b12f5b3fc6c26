/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Make each allocation and each user copy of a call fail, one after the other, by
 * /proc/thread-self/fail-nth.
 */
#ifndef TESTS_DEBUG_FAILNTH_H
#define TESTS_DEBUG_FAILNTH_H

#include <stdbool.h>

#define NTH_MAX	3000u	/* no call has so many; a higher n means an endless sweep */

struct io_uring;

/**
 * struct failing - a sweep over all failures of one call
 * @nth: number of the failure that is injected now, from 1
 * @hit: the last call reached this failure; if not, the sweep is complete
 * @errors: how many calls have returned an error
 */
struct failing {
	unsigned int nth;
	bool hit;
	unsigned int errors;
};

/* Repeat, with @f.nth = 1, 2, .., until the call inside INJECT() ends without a failure. */
#define FOR_EACH_FAILURE(f) FOR_SOME_FAILURES(f, 1)

/* Inject only every @step-th failure; test_seed decides with which to begin. */
#define FOR_SOME_FAILURES(f, step)						\
	for (struct failing f = { 1 + test_seed % (step), true, 0 }; f.hit; f.nth += (step))

/* Carry out @statement with failure number @f.nth injected, and set @f.hit. */
#define INJECT(f, statement) do {	\
	fail_begin((f).nth);		\
	statement;			\
	(f).hit = fail_end();		\
} while (0)

/* What must hold after every call of a sweep; @ret: its result, 0 or a negative errno. */
#define JUDGE(f, ret) do {								\
	ASSERT_GT(NTH_MAX, (f).nth);							\
	EXPECT_TRUE(fail_allowed(ret)) TH_LOG("failure %u: %s", (f).nth, strerror(-(ret)));	\
	if (!(f).hit)									\
		EXPECT_EQ(0, ret) TH_LOG("without a failure");				\
	if (ret)									\
		(f).errors++;								\
	last = (f);									\
} while (0)

/*
 * The end of a sweep: at least @at_least calls must have returned an error.  More than one would be
 * a guess: a failed refill of a slab, or of KASAN's stacks, is absorbed and shifts what follows.
 */
#define JUDGE_ALL(at_least) do {							\
	TH_LOG("%u failures, %u errors", last.nth - 1, last.errors);			\
	EXPECT_LE((unsigned int)(at_least), last.errors);				\
} while (0)

/* An ioctl. Returns 0 or a negative errno. */
int call(int fd, unsigned long request, void *argument);
/*
 * An object call, through @ring or by ioctl, with failure number @f->nth injected.  Of a command the
 * failure is in its submission.  If that took no SQE, it is repeated without a failure.
 */
int call_failing(struct io_uring *ring, int fd, struct failing *f, unsigned long request,
		 void *structure);
/* Is @ret, 0 or a negative errno, a permitted result of a call with a failure? */
bool fail_allowed(int ret);
/* Prepare for calls of this thread. Returns NULL, or why this kernel cannot inject failures. */
const char *fail_setup(void);
/* Make the @nth operation from now on that can fail, fail. */
void fail_begin(unsigned int nth);
/* End the injection. Returns true if a failure was injected since fail_begin(). */
bool fail_end(void);

#endif
