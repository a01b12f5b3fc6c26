/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Included before all else of the library for deaths.c: a call of step() before each store to memory that clients
 * share.  GCC's functions take pointers to atomic types, too.
 */
#ifndef TESTS_LIB_STEPS_H
#define TESTS_LIB_STEPS_H

#include <stdatomic.h>

void step(void);

#undef atomic_store
#undef atomic_store_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_weak_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit

#define atomic_store_explicit(at, value, order) (step(), __atomic_store_n(at, value, order))
#define atomic_store(at, value) atomic_store_explicit(at, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_add_explicit(at, value, order) (step(), __atomic_fetch_add(at, value, order))
#define atomic_fetch_add(at, value) atomic_fetch_add_explicit(at, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_sub_explicit(at, value, order) (step(), __atomic_fetch_sub(at, value, order))
#define atomic_compare_exchange_strong_explicit(at, old, value, order, failed) \
	(step(), __atomic_compare_exchange_n(at, old, value, 0, order, failed))
#define atomic_compare_exchange_strong(at, old, value) \
	atomic_compare_exchange_strong_explicit(at, old, value, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define atomic_compare_exchange_weak_explicit atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_weak atomic_compare_exchange_strong

#endif
