/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Makes the n-th call of a named function of the C library fail.  Two ways:
 *
 *	- linked with nth.c and @nth.wrap, which has the linker's options: calls of the program's own objects, also with ASan;
 *	- nth.c as a library for LD_PRELOAD (-DNTH_PRELOAD -shared): calls of all objects, of libraries too.
 *
 * $LSMEM_NTH=NAME:N at the start, or nth_set().  A call that fails says "# failed: NAME" on standard error.
 * Functions and their errors are in nth.c.
 */
#ifndef TESTS_COMMON_NTH_H
#define TESTS_COMMON_NTH_H

#include <stdbool.h>

/* The @n-th call of @name from now on fails; @name stays valid.  @n 0: none.  Without a line on standard error. */
void nth_set(const char *name, unsigned long n);
/* Return: whether it has failed. */
bool nth_hit(void);

#endif
