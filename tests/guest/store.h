/* SPDX-License-Identifier: GPL-2.0 */
/* Guest tests: stores, contents that can be checked, random numbers. */
#ifndef TESTS_GUEST_STORE_H
#define TESTS_GUEST_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lsmem.h>

#include "../common/content.h"
#include "../common/random.h"

#define MIB		(1ull << 20)
#define STORE_BYTES	(128 * MIB)	/* the smallest there is */
#define OBJECT_MAX	(1u << 20)

/**
 * struct store - a store of a test's own
 * @fd: its device, opened again, apart from @lsm
 */
struct store {
	char name[LSMEM_NAME_BYTES];
	char path[64];
	int fd;
	struct lsm *lsm;
};

/* --seed N or $LSMEM_SEED, else random; printed when the program begins. */
extern uint64_t test_seed;

/* 0 or a negative errno. */
int control_call(unsigned long request, void *argument);
int store_create(struct store *store, uint64_t bytes, uint64_t handles, uint32_t flags);
int store_destroy(struct store *store);

/* Segments that have been cleaned or compacted. */
static inline uint64_t made_room(const struct lsmem_stat *stat)
{
	return stat->segments_cleaned + stat->segments_compacted;
}

/* One attribute, such as "cleaner/views_revoked"; -1 when there is none. */
long long store_attribute(const struct store *store, const char *name);
int store_set_attribute(const struct store *store, const char *name, unsigned long value);
int store_set_text(const struct store *store, const char *name, const char *text);

/* @fault happens @times times from now on (kmod/fault.c); false: this kernel has no such faults. */
bool store_fault(const struct store *store, const char *fault, unsigned int times);

/*
 * Map @length bytes whose page faults wait for UFFDIO_COPY on the descriptor that is
 * returned; -1: not permitted.
 */
int slow_pages(void **pages, size_t length);

uint64_t now_ms(void);

/*
 * For kernels that are slow on purpose: $LSMEM_SCALE percent of an amount of
 * work (not 0), and $LSMEM_PATIENCE times a time limit, those of the harness
 * among them: its alarm() is test_alarm(), by the Makefile.
 */
uint64_t test_scaled(uint64_t amount);
uint64_t test_limit(uint64_t time);
unsigned int test_alarm(unsigned int seconds);

#endif
