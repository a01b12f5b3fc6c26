/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The programs that SSDAlloc was shown with: an array, a B+tree, a packet cache and a hash index.  Each is
 * one source of which three programs are built: with malloc(); with LSMEM, where what it allocates is in a
 * pool of a store; and with malloc() from a mapped file (arena.c).  The lines between "#ifdef LSMEM" and
 * "#endif" are all that differs (tests/guest/ssdalloc.sh counts them).
 *
 * What is small for each object (tables of pointers) comes from get_memory() in all of them.
 *
 * ../bench.h tells how a program is spoken to.  Its options: -n: number of objects (keys, packets at most); -s: bytes
 * of an element of the array; -r or -z: any object, or by Zipf's law; -w: share of puts; with LSMEM also
 * -p: store, -m: its page buffer.  The other orders are:
 *
 *	check			compare all contents with what they have to be; ends the program if they differ
 */
#ifndef TESTS_BENCH_SSDALLOC_PROGRAM_H
#define TESTS_BENCH_SSDALLOC_PROGRAM_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/content.h"
#include "../bench.h"

/* The end of a program that has met what cannot be. */
#define wrong(what)	fail(what, EBADMSG)

/*
 * program_make() - make bench->handles objects
 * program_put() - change an object, or make it
 * program_get() - read an object
 * program_check() - check all contents; @puts: how many there were
 *
 * @nr: which object, 0 .. bench->handles - 1
 */
void program_make(const struct bench *bench);
void program_put(uint64_t nr);
void program_get(uint64_t nr);
void program_check(uint64_t puts);

#endif
