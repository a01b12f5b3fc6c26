/* SPDX-License-Identifier: GPL-2.0 */
/* TAP, the way kselftest speaks it. */
#ifndef UNIT_TAP_H
#define UNIT_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static int tap_nr, tap_failed;

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

/* Checks that stand behind one line of output: the first that fails is named. */
#define CHECK(condition)							\
	do {									\
		if (!(condition)) {						\
			tap_note("%s:%d: %s", __FILE__, __LINE__, #condition);	\
			return false;						\
		}								\
	} while (0)

static inline int tap_end(void)
{
	printf("1..%d\n", tap_nr);
	return tap_failed != 0;
}

#endif
