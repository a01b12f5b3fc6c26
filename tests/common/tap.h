/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* The Test Anything Protocol, version 13: the output of a test program. */
#ifndef TESTS_COMMON_TAP_H
#define TESTS_COMMON_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static int tap_nr, tap_failed;

/* Print the result of one test and its name, a printf() format. Returns @ok. */
static inline bool __attribute__((format(printf, 2, 3)))
tap_ok(bool ok, const char *format, ...)
{
	va_list args;

	printf("%sok %d - ", ok ? "" : "not ", ++tap_nr);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
	tap_failed += !ok;
	return ok;
}

#define tap_note(...) do { printf("# " __VA_ARGS__); putchar('\n'); fflush(stdout); } while (0)

/* One test: are two integers equal?  If they differ, print both. */
#define tap_is(got, wanted, ...)						\
	do {									\
		long long tap_got = (long long)(got);				\
		long long tap_wanted = (long long)(wanted);			\
										\
		if (!tap_ok(tap_got == tap_wanted, __VA_ARGS__))		\
			tap_note("%s:%d: got %lld, wanted %lld", __FILE__,	\
				 __LINE__, tap_got, tap_wanted);		\
	} while (0)

/*
 * One of several checks that make one test.  If it fails, print it, and return false from the
 * function that contains it.
 */
#define CHECK(condition)							\
	do {									\
		if (!(condition)) {						\
			tap_note("%s:%d: %s", __FILE__, __LINE__, #condition);	\
			return false;						\
		}								\
	} while (0)

/* Print the plan, after the last test. Returns the exit status of the program. */
static inline int tap_end(void)
{
	printf("1..%d\n", tap_nr);
	return tap_failed != 0;
}

#endif
