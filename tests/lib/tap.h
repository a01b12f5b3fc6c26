/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* The Test Anything Protocol, version 13, as small as it goes. */
#ifndef TESTS_LIB_TAP_H
#define TESTS_LIB_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static int tap_tests, tap_failed;

/* One test: @good, and what it was. */
__attribute__((format(printf, 2, 3), unused))
static bool tap(bool good, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("%sok %d - ", good ? "" : "not ", ++tap_tests);
	vprintf(format, args);
	printf("\n");
	fflush(stdout);
	va_end(args);
	if (!good)
		tap_failed++;
	return good;
}

/* A comparison of integers: both are printed when they differ. */
#define tap_is(got, wanted, ...) do {						\
	long long tap_got = (long long)(got), tap_wanted = (long long)(wanted);	\
										\
	if (!tap(tap_got == tap_wanted, __VA_ARGS__))				\
		printf("# %s:%d: got %lld, wanted %lld\n", __FILE__, __LINE__,	\
		       tap_got, tap_wanted);					\
} while (0)

/* The plan comes last; the exit code of the program. */
static inline int tap_done(void)
{
	printf("1..%d\n", tap_tests);
	return tap_failed ? 1 : 0;
}

#endif
