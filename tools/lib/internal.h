/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* liblsmem: declarations that its files share.  Nothing here is exported. */
#ifndef LSMEM_LIB_INTERNAL_H
#define LSMEM_LIB_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include <lsmem/lsmem_format.h>

#include "lsmem.h"

#define LSM_CACHE_LINE	64

/* The live bitmap: bytes of memory that a bit stands for, and words of a seglet */
#define LSM_LIVE_BYTES	(LSMEM_ALIGN << LSMEM_LIVEMAP_SHIFT)
#define LSM_LIVE_WORDS	(LSMEM_SEGLET_BYTES / LSM_LIVE_BYTES / 64)

/**
 * struct lsm_owner - whether a thread uses a view slot
 * @taken: 1 from take_slot() to give_slot()
 *
 * Each has a cache line of its own, as each view slot has.
 */
struct lsm_owner {
	_Alignas(LSM_CACHE_LINE) atomic_uint taken;
};

struct lsm_mapping {
	void *address;
	size_t length;
};

enum lsm_map {
	LSM_MAP_INFO,
	LSM_MAP_SEGLETS,
	LSM_MAP_SEGLET_TABLE,
	LSM_MAP_HANDLES,
	LSM_MAP_SLOTS,
	LSM_MAP_TOUCHED,
	LSM_MAP_LIVEMAP,
	LSM_MAPS,
};

/**
 * struct lsm - an open store
 * @fd: descriptor of the device, -1 in tests
 * @windows: @seglets, @seglet_table, @handles and @epoch can be read
 * @view_ms: milliseconds after which the kernel may revoke a view
 * @nr_slots: entries of @slots and @owners
 * @nr_seglets: entries of @seglets and @seglet_table
 * @nr_handles: entries of @handles; 0 without windows
 * @handles_max: most objects; their indices are below
 * @last_header: offset in @seglets of the last place that can have a header, bytes
 * @alive: 1 in the process that mapped the windows; 0 in the child of a fork, because the kernel
 *	wipes the page (MADV_WIPEONFORK)
 * @seglets: @nr_seglets * LSMEM_SEGLET_BYTES
 * @seglet_table: struct lsmem_seglet for each seglet
 * @handles: the handle table
 * @epoch: the view epoch, in the info page
 * @slots: view slots; NULL: no views
 * @owners: one for each view slot
 * @touched: of a tiered store: a bit for each handle that was read; NULL: none is to be set
 * @livemap: the live bitmap: LSM_LIVE_WORDS for each seglet; NULL: it is not mapped
 * @vector_max: most operations in one LSMEM_IOC_VECTOR
 * @durable: LSM_DURABLE if the store is durable; else 0
 * @group_max: most operations in one with LSM_ATOMIC; 0: there is none
 * @call: makes the ioctl; tests replace it
 * @private: data of @call
 * @maps: all mappings, by enum lsm_map
 *
 * After lsm_open() the library changes only what @owners, @slots and @touched point to, with atomic
 * operations.  So no lock is needed.
 */
struct lsm {
	int fd;
	bool windows;
	uint32_t view_ms;
	uint32_t nr_slots;
	uint64_t nr_seglets;
	uint64_t nr_handles;
	uint64_t handles_max;
	uint64_t last_header;
	const uint32_t *alive;
	const uint8_t *seglets;
	const struct lsmem_seglet *seglet_table;
	const struct lsmem_handle *handles;
	const __u64 *epoch;
	struct lsmem_slot *slots;
	struct lsm_owner *owners;
	uint64_t *touched;
	const uint64_t *livemap;
	uint32_t vector_max;
	uint32_t durable;
	uint32_t group_max;
	int (*call)(struct lsm *lsm, unsigned long request, void *argument);
	void *private;
	struct lsm_mapping maps[LSM_MAPS];
};

/**
 * struct lsm_place - where an object was when its header was read
 * @word: handle word, loaded before the header; if the word is the same afterwards, all that was
 *	read in between is valid
 * @seglet: seglet that contains the header
 * @offset: of the first payload byte from the start of @seglet, in bytes, at most
 *	LSMEM_SEGLET_BYTES: then the payload begins in the next seglet
 * @object: attributes from the header
 */
struct lsm_place {
	uint64_t word;
	uint32_t seglet;
	uint32_t offset;
	struct lsm_object object;
};

/* Results of lsm_locate().  None of them is an error: only a system call finds an error. */
enum lsm_locate {
	LSM_FOUND,
	LSM_CHANGING,	/* a thread is changing the object: try again */
	LSM_ASK,	/* the windows do not show the object: make a system call */
	LSM_COLD,	/* lsm_identify(): it is on backups only */
};

/**
 * struct lsm_memory - mapped windows
 * @info: info page, or a copy; its numbers give the sizes of the other windows
 * @epoch: view epoch
 * @seglets: window of seglets
 * @seglet_table: window of the seglet table
 * @handles: window of the handle table
 * @slots: window of the view slots; NULL: no views
 * @touched: window of the bits of touched objects; NULL: the store is not tiered
 * @livemap: window of the live bitmap; may be NULL
 */
struct lsm_memory {
	const struct lsmem_info *info;
	const __u64 *epoch;
	const void *seglets;
	const void *seglet_table;
	const void *handles;
	void *slots;
	void *touched;
	const void *livemap;
};

int lsm_from_memory(const struct lsm_memory *memory, uint32_t vector_max,
		    int (*call)(struct lsm *lsm, unsigned long request, void *argument),
		    void *private, struct lsm **lsm);
int lsm_check_info(const struct lsmem_info *info);
int lsm_index_read(struct lsm *lsm, uint64_t index, void *data, uint32_t length, uint64_t *handle,
		   struct lsm_object *object);
int lsm_kernel_read(struct lsm *lsm, uint64_t handle, void *data, uint32_t length,
		    uint32_t offset, struct lsm_object *object);
int lsm_change_by_rule(struct lsm *lsm, uint64_t handle, bool frees, const void *data, size_t length,
		       unsigned int flags, uint64_t *version);
int lsm_path_in(const char *class, const char *store, char *path, size_t size);

enum lsm_locate lsm_locate(const struct lsm *lsm, uint64_t handle, struct lsm_place *place);
bool lsm_place_unchanged(const struct lsm *lsm, uint64_t handle, const struct lsm_place *place);
enum lsm_locate lsm_identify(const struct lsm *lsm, uint64_t index, uint64_t *handle,
			     struct lsm_place *place);
bool lsm_place_copy(const struct lsm *lsm, const struct lsm_place *place, void *data, uint32_t length,
		    uint32_t offset);
bool lsm_next_seglet(const struct lsm *lsm, uint32_t *seglet);

/* True when this process can read the windows: false in the child of a fork. */
static inline bool lsm_windows_here(const struct lsm *lsm)
{
	return lsm->windows && __atomic_load_n(lsm->alive, __ATOMIC_RELAXED);
}

/* Tells the kernel that object @index, below nr_handles, is in use: it stays in memory longer. */
static inline void lsm_touch(const struct lsm *lsm, uint64_t index)
{
	uint64_t bit = 1ull << index % 64;

	/* Relaxed, and only if it is not set: a hint is not worth a cache miss of another thread. */
	if (lsm->touched && !(__atomic_load_n(&lsm->touched[index / 64], __ATOMIC_RELAXED) & bit))
		__atomic_fetch_or(&lsm->touched[index / 64], bit, __ATOMIC_RELAXED);
}

/* Bytes from one operation of the caller's array to the next: its struct lsmem_op can be older or newer than ours. */
static inline size_t lsm_op_stride(const struct lsmem_op *ops)
{
	return ops->size < LSMEM_OP_SIZE_VER0 ? sizeof(*ops) : ops->size;
}

static inline struct lsmem_op *lsm_op_at(struct lsmem_op *ops, size_t stride, size_t i)
{
	return (struct lsmem_op *)((char *)ops + i * stride);
}

/* First byte of a seglet. */
static inline const uint8_t *lsm_seglet_bytes(const struct lsm *lsm, uint32_t seglet)
{
	return lsm->seglets + (size_t)seglet * LSMEM_SEGLET_BYTES;
}

/* CLOCK_MONOTONIC, nanoseconds. */
static inline int64_t lsm_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* To be called between two loads of a word that another CPU changes. */
static inline void lsm_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
