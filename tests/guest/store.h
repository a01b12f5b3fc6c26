/* SPDX-License-Identifier: GPL-2.0 */
/* Functions for the guest tests: stores, their attributes and faults, time, scaling. */
#ifndef TESTS_GUEST_STORE_H
#define TESTS_GUEST_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lsmem.h>

#include "../common/content.h"
#include "../common/random.h"

#define MIB		(1ull << 20)
#define STORE_BYTES	(128 * MIB)	/* the smallest size that the kernel accepts */
#define OBJECT_MAX	(1u << 20)

/**
 * struct store - a store that a test has created
 * @name: of the store, such as "lsmem0"
 * @path: of its device
 * @fd: the device, opened by the test; @lsm has its own descriptor
 * @lsm: from lsm_open(), or NULL
 */
struct store {
	char name[LSMEM_NAME_BYTES];
	char path[64];
	int fd;
	struct lsm *lsm;
};

/* From --seed N or $LSMEM_SEED, else random; printed when the program begins. */
extern uint64_t test_seed;

/* An ioctl on /dev/lsmem-control. This and the next five return 0 or a negative errno. */
int control_call(unsigned long request, void *argument);
int store_create(struct store *store, uint64_t bytes, uint64_t handles, uint32_t flags);
int store_create_tiered(struct store *store, uint64_t bytes, uint64_t capacity, uint64_t handles,
			uint32_t flags);
int store_destroy(struct store *store);
/*
 * A store with a disk, which is not opened; @capacity is 0, or that of a tiered store.  It is closed, if
 * it was opened, and destroyed: udev may have it open for a moment.
 */
int store_create_disk(struct store *store, uint64_t bytes, uint64_t capacity, uint32_t flags);
int store_destroy_disk(struct store *store);

/* How many segments have been cleaned or compacted. */
static inline uint64_t made_room(const struct lsmem_stat *stat)
{
	return stat->segments_cleaned + stat->segments_compacted;
}

/* The value of an attribute in sysfs, such as "cleaner/views_revoked"; -1 if it cannot be read. */
long long store_attribute(const struct store *store, const char *name);
/* The same of tier/. */
long long tier_attribute(const struct store *store, const char *name);
/* Print what of a tiered store is where. */
void tier_print(const struct store *store);
int store_set_attribute(const struct store *store, const char *name, unsigned long value);
int store_set_text(const struct store *store, const char *name, const char *text);

/*
 * Compare the live bitmap with the handle table, until they agree or it takes too long: then -EUCLEAN,
 * and a message.  -ENOENT: debugfs is not mounted.  @live: NULL, or out: objects in memory.
 */
int store_livemap(const struct store *store, uint64_t *live);

/* Have the index of a table made anew by the next client that opens it, as after a restart. */
int store_forget_index(const struct store *store, uint32_t id);

/* Inject @fault (kmod/fault.c) @times times. Returns false if the kernel has no fault injection. */
bool store_fault(const struct store *store, const char *fault, unsigned int times);

/* How often @text is in the kernel log; -1 if the log cannot be read. */
int log_says(const char *text);

/*
 * Map @length bytes, a multiple of the page size.  Each page fault there waits for UFFDIO_COPY on
 * the descriptor that this returns; -1 with errno if userfaultfd is not available.
 */
int slow_pages(void **pages, size_t length);

/*
 * The first drive of the guest, which a test may overwrite, or -1.  It is O_DIRECT: to write out, and drop, the pages
 * of a whole store takes long.
 */
int open_drive(void);

/* CLOCK_MONOTONIC in milliseconds. */
uint64_t now_ms(void);

/*
 * For debug kernels and emulation, which are slow.  test_scaled() returns $LSMEM_SCALE percent of
 * an amount of work, at least 1.  test_limit() multiplies a time limit by $LSMEM_PATIENCE.
 * test_alarm() does so for the time limits of the harness: the Makefile defines alarm() as it.
 */
uint64_t test_scaled(uint64_t amount);
uint64_t test_limit(uint64_t time);
unsigned int test_alarm(unsigned int seconds);

#endif
