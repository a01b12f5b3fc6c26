/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Make each allocation and each user copy of a call fail, one after the other, by
 * /proc/thread-self/fail-nth.
 */
#ifndef TESTS_DEBUG_FAILNTH_H
#define TESTS_DEBUG_FAILNTH_H

#include <stdbool.h>

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

/* Prepare for calls of this thread. Returns NULL, or why this kernel cannot inject failures. */
const char *fail_setup(void);
/* Make the @nth operation from now on that can fail, fail. */
void fail_begin(unsigned int nth);
/* End the injection. Returns true if a failure was injected since fail_begin(). */
bool fail_end(void);

#endif
