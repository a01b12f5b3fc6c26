// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: opening a store and mapping its windows.
 *
 * The info page says where the windows are.  lsm_open() copies the page and checks the copy once.
 * The library then uses only the copied numbers to check what it reads from the windows.
 *
 * fork() does not copy the windows (VM_DONTCOPY), and the view slots belong to the open file that
 * parent and child share.  So the child must not read the windows and must not use the view slots.
 * The library detects the child by a page that the kernel wipes on fork (MADV_WIPEONFORK).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

static int kernel_call(struct lsm *lsm, unsigned long request, void *argument)
{
	return ioctl(lsm->fd, request, argument) < 0 ? -errno : 0;
}

/* True when @window holds at least @nr items of @bytes. */
static bool window_holds(const struct lsmem_window *window, uint64_t nr, uint64_t bytes)
{
	return window->length <= SIZE_MAX && window->length / bytes >= nr;
}

static bool has_livemap(const struct lsmem_info *info)
{
	return info->length > offsetof(struct lsmem_info, livemap) && info->livemap.length;
}

/**
 * lsm_check_info() - check that this is an info page with possible numbers
 * @info: the page, or a copy
 *
 * Return: 0; -EPROTO: not an info page, another ABI, or numbers that do not fit together.
 */
int lsm_check_info(const struct lsmem_info *info)
{
	/* The windows of an older kernel have another layout. */
	if (info->magic != LSMEM_INFO_MAGIC || info->abi < LSMEM_ABI ||
	    info->compat > LSMEM_ABI || info->length < offsetof(struct lsmem_info, touched) ||
	    info->kind != LSMEM_KIND_OBJECT)
		return -EPROTO;
	if (!info->nr_seglets || info->nr_seglets > 1ull << (LSMEM_POSITION_BITS -
							    LSMEM_POSITION_OFFSET_BITS) ||
	    !info->nr_handles || info->nr_handles > LSMEM_INDEX_END)
		return -EPROTO;
	if (!window_holds(&info->seglets, info->nr_seglets, LSMEM_SEGLET_BYTES) ||
	    !window_holds(&info->seglet_table, info->nr_seglets, sizeof(struct lsmem_seglet)) ||
	    !window_holds(&info->handles, info->nr_handles, sizeof(struct lsmem_handle)) ||
	    !window_holds(&info->slots, info->nr_slots, sizeof(struct lsmem_slot)))
		return -EPROTO;
	if (info->touched.length &&
	    !window_holds(&info->touched, (info->nr_handles + 63) / 64, sizeof(uint64_t)))
		return -EPROTO;
	if (has_livemap(info) &&
	    !window_holds(&info->livemap, info->nr_seglets, LSM_LIVE_WORDS * sizeof(uint64_t)))
		return -EPROTO;
	return 0;
}

/* Returns a word that is 1 in this process and 0 in each child; NULL: no memory. */
static const uint32_t *make_alive(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint32_t *alive;

	alive = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (alive == MAP_FAILED)
		return NULL;
	if (madvise(alive, page, MADV_WIPEONFORK)) {
		munmap(alive, page);
		return NULL;
	}
	*alive = 1;
	return alive;
}

/* Uses windows that are mapped already.  lsm_close() undoes this. */
static int use_memory(struct lsm *lsm, const struct lsm_memory *memory)
{
	const struct lsmem_info *info = memory->info;
	struct lsm_owner *owners = NULL;
	const uint32_t *alive;
	size_t slot;
	int ret;

	ret = lsm_check_info(info);
	if (ret)
		return ret;
	if (memory->slots && info->nr_slots) {
		owners = aligned_alloc(LSM_CACHE_LINE, info->nr_slots * sizeof(*owners));
		if (!owners)
			return -ENOMEM;
		for (slot = 0; slot < info->nr_slots; slot++)
			atomic_init(&owners[slot].taken, 0);
	}
	alive = make_alive();
	if (!alive) {
		free(owners);
		return -ENOMEM;
	}
	lsm->alive = alive;
	lsm->owners = owners;
	lsm->slots = owners ? memory->slots : NULL;
	lsm->nr_slots = owners ? info->nr_slots : 0;
	lsm->view_ms = info->view_ms;
	lsm->nr_seglets = info->nr_seglets;
	lsm->nr_handles = info->nr_handles;
	lsm->handles_max = info->nr_handles;
	lsm->last_header = info->nr_seglets * LSMEM_SEGLET_BYTES - LSMEM_LONG_BYTES;
	lsm->seglets = memory->seglets;
	lsm->seglet_table = memory->seglet_table;
	lsm->handles = memory->handles;
	lsm->epoch = memory->epoch;
	lsm->touched = memory->touched;
	lsm->livemap = memory->livemap;
	lsm->windows = true;
	return 0;
}

static int map_window(struct lsm *lsm, enum lsm_map which, const struct lsmem_window *window,
		      int protection)
{
	void *address;

	address = mmap(NULL, window->length, protection, MAP_SHARED, lsm->fd,
		       (off_t)window->offset);
	if (address == MAP_FAILED)
		return -errno;
	lsm->maps[which].address = address;
	lsm->maps[which].length = window->length;
	return 0;
}

static int map_windows(struct lsm *lsm, bool writable)
{
	struct lsmem_window window = {
		.offset = LSMEM_WINDOW_INFO,
		.length = (size_t)sysconf(_SC_PAGESIZE),
	};
	struct lsm_memory memory = { 0 };
	struct lsmem_info info;
	int ret;

	ret = map_window(lsm, LSM_MAP_INFO, &window, PROT_READ);
	if (ret)
		return ret;
	/* The page may change: check a copy and use only the copy. */
	memcpy(&info, lsm->maps[LSM_MAP_INFO].address, sizeof(info));
	ret = lsm_check_info(&info);
	if (ret)
		return ret;
	ret = map_window(lsm, LSM_MAP_SEGLETS, &info.seglets, PROT_READ);
	if (ret)
		return ret;
	ret = map_window(lsm, LSM_MAP_SEGLET_TABLE, &info.seglet_table, PROT_READ);
	if (ret)
		return ret;
	ret = map_window(lsm, LSM_MAP_HANDLES, &info.handles, PROT_READ);
	if (ret)
		return ret;
	if (writable && info.nr_slots) {
		ret = map_window(lsm, LSM_MAP_SLOTS, &info.slots, PROT_READ | PROT_WRITE);
		if (ret)
			return ret;
	}
	if (writable && info.touched.length) {
		ret = map_window(lsm, LSM_MAP_TOUCHED, &info.touched, PROT_READ | PROT_WRITE);
		if (ret)
			return ret;
	}
	if (has_livemap(&info)) {
		ret = map_window(lsm, LSM_MAP_LIVEMAP, &info.livemap, PROT_READ);
		if (ret)
			return ret;
	}
	memory.info = &info;
	memory.epoch = &((const struct lsmem_info *)lsm->maps[LSM_MAP_INFO].address)->epoch;
	memory.seglets = lsm->maps[LSM_MAP_SEGLETS].address;
	memory.seglet_table = lsm->maps[LSM_MAP_SEGLET_TABLE].address;
	memory.handles = lsm->maps[LSM_MAP_HANDLES].address;
	memory.slots = lsm->maps[LSM_MAP_SLOTS].address;
	memory.touched = lsm->maps[LSM_MAP_TOUCHED].address;
	memory.livemap = lsm->maps[LSM_MAP_LIVEMAP].address;
	return use_memory(lsm, &memory);
}

int lsm_open(const char *path, unsigned int flags, struct lsm **out)
{
	struct lsmem_query query;
	char node[PATH_MAX];
	struct lsm *lsm;
	int ret;

	if (!out || flags & ~(LSM_RDONLY | LSM_NO_WINDOWS))
		return -EINVAL;
	ret = lsm_path(path, node, sizeof(node));
	if (ret)
		return ret;
	lsm = calloc(1, sizeof(*lsm));
	if (!lsm)
		return -ENOMEM;
	lsm->call = kernel_call;
	lsm->fd = open(node, (flags & LSM_RDONLY ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (lsm->fd < 0) {
		ret = -errno;
		goto fail;
	}
	ret = lsm_query(lsm, &query);
	if (ret)
		goto fail;
	if (query.kind != LSMEM_KIND_OBJECT) {
		ret = -ENOTTY;
		goto fail;
	}
	/*
	 * While a store recovers, the windows may show old versions of objects.  LSMEM_IOC_READ
	 * returns -EAGAIN for those, so a store can be opened without windows.
	 */
	if (query.state != LSMEM_STATE_ACTIVE &&
	    !(query.state == LSMEM_STATE_RECOVERING && flags & LSM_NO_WINDOWS)) {
		ret = -EAGAIN;
		goto fail;
	}
	lsm->handles_max = query.handles_max;
	lsm->vector_max = query.features & LSMEM_FEATURE_VECTOR ? query.vector_max : 0;
	lsm->durable = query.features & LSMEM_FEATURE_DURABLE ? LSM_DURABLE : 0;
	lsm->group_max = query.features & LSMEM_FEATURE_ATOMIC ? query.group_max : 0;
	if (query.features & LSMEM_FEATURE_WINDOWS && !(flags & LSM_NO_WINDOWS)) {
		ret = map_windows(lsm, !(flags & LSM_RDONLY));
		if (ret)
			goto fail;
	}
	*out = lsm;
	return 0;
fail:
	lsm_close(lsm);
	return ret;
}

/**
 * lsm_from_memory() - make a store from windows in memory, for tests
 * @memory: windows.  The caller frees them after lsm_close(); @memory->info only has to last
 *	until this function returns
 * @vector_max: most operations in one LSMEM_IOC_VECTOR
 * @call: called instead of ioctl()
 * @private: data of @call
 * @out: out: the store
 *
 * Return: 0; -EPROTO: see lsm_check_info(); -ENOMEM.
 */
int lsm_from_memory(const struct lsm_memory *memory, uint32_t vector_max,
		    int (*call)(struct lsm *lsm, unsigned long request, void *argument),
		    void *private, struct lsm **out)
{
	struct lsm *lsm;
	int ret;

	lsm = calloc(1, sizeof(*lsm));
	if (!lsm)
		return -ENOMEM;
	lsm->fd = -1;
	lsm->vector_max = vector_max;
	lsm->call = call;
	lsm->private = private;
	ret = use_memory(lsm, memory);
	if (ret) {
		lsm_close(lsm);
		return ret;
	}
	*out = lsm;
	return 0;
}

void lsm_close(struct lsm *lsm)
{
	bool here;
	int map;

	if (!lsm)
		return;
	/* In the child of a fork, another mapping may be at the addresses of the windows. */
	here = !lsm->alive || lsm_windows_here(lsm);
	for (map = 0; map < LSM_MAPS; map++) {
		if (lsm->maps[map].address && here)
			munmap(lsm->maps[map].address, lsm->maps[map].length);
	}
	if (lsm->alive)
		munmap((void *)lsm->alive, (size_t)sysconf(_SC_PAGESIZE));
	free(lsm->owners);
	if (lsm->fd >= 0)
		close(lsm->fd);
	free(lsm);
}

int lsm_fd(const struct lsm *lsm)
{
	return lsm->fd;
}
