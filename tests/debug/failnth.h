/* SPDX-License-Identifier: GPL-2.0 */
/* Each thing in a call that can fail made to fail in turn: /proc/thread-self/fail-nth. */
#ifndef TESTS_DEBUG_FAILNTH_H
#define TESTS_DEBUG_FAILNTH_H

#include <stdbool.h>

/**
 * struct failing - a sweep over the failures of one call
 * @nth: which of them is injected now
 * @hit: the last call came as far as that
 * @errors: calls that returned an error because of it
 */
struct failing {
	unsigned int nth;
	bool hit;
	unsigned int errors;
};

/* Until the call inside INJECT() ends without a failure. */
#define FOR_EACH_FAILURE(f) FOR_SOME_FAILURES(f, 1)

/* Every @step-th of them; the first: test_seed tells. */
#define FOR_SOME_FAILURES(f, step)						\
	for (struct failing f = { 1 + test_seed % (step), true, 0 }; f.hit; f.nth += (step))

/* Carry out @statement, its failure number @f.nth injected; tells f.hit. */
#define INJECT(f, statement) do {	\
	fail_begin(f.nth);		\
	statement;			\
	f.hit = fail_end();		\
} while (0)

/* NULL, or why this kernel cannot do it. */
const char *fail_setup(void);
void fail_begin(unsigned int nth);
bool fail_end(void);

#endif
