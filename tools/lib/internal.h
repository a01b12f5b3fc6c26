/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* liblsmem: what its files share.  Nothing here is exported. */
#ifndef LSMEM_LIB_INTERNAL_H
#define LSMEM_LIB_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include <lsmem/lsmem_format.h>

#include "lsmem.h"

#define LSM_CACHE_LINE	64

/* The thread that uses a view slot; kept by the library.  On a cache line of its own, as the
 * slots are.
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
	LSM_MAPS,
};

/**
 * struct lsm - an open store
 * @fd: of the device, -1 in tests
 * @windows: seglets, tables and epoch can be read
 * @view_ms: after which the kernel may revoke a view
 * @nr_slots: entries of @slots and @owners
 * @nr_seglets: entries of @seglets and @seglet_table
 * @nr_handles: entries of @handles
 * @alive: 1 in the process that mapped the windows, 0 in the child of a fork, where the kernel has
 *	wiped the page (MADV_WIPEONFORK)
 * @seglets: @nr_seglets * LSMEM_SEGLET_BYTES
 * @seglet_table: struct lsmem_seglet for each seglet
 * @handles: the handle table
 * @epoch: the view epoch, in the info page
 * @slots: NULL: no views
 * @owners: one per slot
 * @vector_max: most operations in one call
 * @call: the ioctl; tests replace it
 * @private: for @call
 * @maps: all mappings
 *
 * Only the contents of @owners change after lsm_open(), so no lock is needed.
 */
struct lsm {
	int fd;
	bool windows;
	uint32_t view_ms;
	uint32_t nr_slots;
	uint64_t nr_seglets;
	uint64_t nr_handles;
	const uint32_t *alive;
	const uint8_t *seglets;
	const struct lsmem_seglet *seglet_table;
	const struct lsmem_handle *handles;
	const __u64 *epoch;
	struct lsmem_slot *slots;
	struct lsm_owner *owners;
	uint32_t vector_max;
	int (*call)(struct lsm *lsm, unsigned long request, void *argument);
	void *private;
	struct lsm_mapping maps[LSM_MAPS];
};

/**
 * struct lsm_place - where an object was when its header was read
 * @word: handle word at that time; if it is the same afterwards, what was read is valid
 * @seglet: of the first payload byte
 * @offset: in @seglet, below LSMEM_SEGLET_BYTES + 1
 * @object: from the header
 */
struct lsm_place {
	uint64_t word;
	uint32_t seglet;
	uint32_t offset;
	struct lsm_object object;
};

/* Results of lsm_locate(). Only the kernel refuses finally. */
enum lsm_locate {
	LSM_FOUND,
	LSM_CHANGING,	/* try again */
	LSM_ASK,	/* the windows do not suffice: make a system call */
};

/* Mapped windows and their sizes. @slots may be NULL. */
struct lsm_memory {
	const struct lsmem_info *info;
	const __u64 *epoch;
	const void *seglets;
	const void *seglet_table;
	const void *handles;
	void *slots;
};

int lsm_from_memory(const struct lsm_memory *memory, uint32_t vector_max,
		    int (*call)(struct lsm *lsm, unsigned long request, void *argument),
		    void *private, struct lsm **lsm);
int lsm_check_info(const struct lsmem_info *info);
int lsm_kernel_read(struct lsm *lsm, uint64_t handle, void *data, uint32_t length,
		    uint32_t offset, struct lsm_object *object);

enum lsm_locate lsm_locate(const struct lsm *lsm, uint64_t handle, struct lsm_place *place);
bool lsm_place_unchanged(const struct lsm *lsm, uint64_t handle, const struct lsm_place *place);
bool lsm_next_seglet(const struct lsm *lsm, uint32_t *seglet);

static inline bool lsm_windows_here(const struct lsm *lsm)
{
	return lsm->windows && __atomic_load_n(lsm->alive, __ATOMIC_RELAXED);
}

/* Bytes of a seglet. */
static inline const uint8_t *lsm_seglet_bytes(const struct lsm *lsm, uint32_t seglet)
{
	return lsm->seglets + (size_t)seglet * LSMEM_SEGLET_BYTES;
}

/* Between two reads of something that another CPU changes. */
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
