// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: ranges of pages, and what can be kept in them: a pool of objects, an array.
 *
 * A pool and an array are a descriptor and a mapping of the whole range.  Where something is, only the
 * kernel knows (pool) or its number says (array): nothing here has to be written back or recovered.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

#define PAGE		LSMEM_BLOCK
#define TABLE_SHIFT	16

/**
 * struct range - a range that is open and mapped
 * @fd: descriptor
 * @at: where it is mapped
 * @length: bytes
 */
struct range {
	int fd;
	uint8_t *at;
	uint64_t length;
};

/**
 * struct lsm_pool - a pool
 * @range: of it
 * @next: page from which the next allocation looks for a free one
 * @freed: lowest page that was freed since the last lsm_pool_sync(); UINT64_MAX: none
 *
 * @next and @freed only save time: an allocation looks at the pages below @next before it fails.
 */
struct lsm_pool {
	struct range range;
	_Atomic uint64_t next;
	_Atomic uint64_t freed;
};

/**
 * struct lsm_array - an array
 * @range: of it
 * @nr: elements
 * @size: of an element, bytes
 * @per_page: elements of a page
 */
struct lsm_array {
	struct range range;
	uint64_t nr;
	uint32_t size;
	uint32_t per_page;
};

/* ---- Ranges -------------------------------------------------------------- */

static int call_pages(struct lsm *lsm, struct lsmem_pages *pages)
{
	pages->size = sizeof(*pages);
	return lsm->call(lsm, LSMEM_IOC_PAGES, pages);
}

static int create(struct lsm *lsm, uint64_t length, uint64_t buffer, unsigned int flags,
		  struct lsmem_pages *pages)
{
	const unsigned int known = LSM_PAGES_POOL | LSM_PAGES_ATOMIC;

	if (flags & ((1u << TABLE_SHIFT) - 1) & ~known)
		return -EINVAL;
	*pages = (struct lsmem_pages){
		.flags = LSMEM_PAGES_CREATE | (flags & known),
		.length = length,
		.buffer = buffer,
		.table = flags >> TABLE_SHIFT,
	};
	return call_pages(lsm, pages);
}

static int open_pages(struct lsm *lsm, uint64_t root, uint64_t buffer, struct lsmem_pages *pages)
{
	*pages = (struct lsmem_pages){ .root = root, .buffer = buffer };
	return call_pages(lsm, pages);
}

int lsm_pages_create(struct lsm *lsm, uint64_t length, uint64_t buffer, unsigned int flags,
		     uint64_t *root)
{
	struct lsmem_pages pages;
	int ret;

	ret = create(lsm, length, buffer, flags, &pages);
	if (ret)
		return ret;
	*root = pages.root;
	return pages.fd;
}

int lsm_pages_open(struct lsm *lsm, uint64_t root, uint64_t buffer)
{
	struct lsmem_pages pages;
	int ret;

	ret = open_pages(lsm, root, buffer, &pages);
	return ret ? ret : pages.fd;
}

int lsm_pages_remove(struct lsm *lsm, uint64_t root)
{
	struct lsmem_pages pages = { .flags = LSMEM_PAGES_REMOVE, .root = root };

	return call_pages(lsm, &pages);
}

/* Maps a range, as its descriptor can be used.  Consumes the descriptor. */
static int range_map(struct range *range, const struct lsmem_pages *pages)
{
	int mode = fcntl(pages->fd, F_GETFL), ret = -ENOMEM;
	void *at = MAP_FAILED;

	if (pages->length <= SIZE_MAX) {
		at = mmap(NULL, pages->length,
			  (mode & O_ACCMODE) == O_RDWR ? PROT_READ | PROT_WRITE : PROT_READ,
			  MAP_SHARED, pages->fd, 0);
		ret = -errno;
	}
	if (at == MAP_FAILED) {
		close(pages->fd);
		return ret;
	}
	range->fd = pages->fd;
	range->at = at;
	range->length = pages->length;
	return 0;
}

static void range_unmap(struct range *range)
{
	munmap(range->at, range->length);
	close(range->fd);
}

static int range_sync(struct range *range)
{
	return fsync(range->fd) ? -errno : 0;
}

/* ---- Pools --------------------------------------------------------------- */

static int pool_make(const struct lsmem_pages *pages, struct lsm_pool **out)
{
	struct lsm_pool *pool = malloc(sizeof(*pool));
	int ret;

	if (!pool) {
		close(pages->fd);
		return -ENOMEM;
	}
	ret = range_map(&pool->range, pages);
	if (ret) {
		free(pool);
		return ret;
	}
	atomic_init(&pool->next, 0);
	atomic_init(&pool->freed, UINT64_MAX);
	*out = pool;
	return 0;
}

int lsm_pool_create(struct lsm *lsm, uint64_t length, uint64_t buffer, unsigned int flags,
		    uint64_t *root, struct lsm_pool **pool)
{
	struct lsmem_pages pages;
	int ret;

	ret = create(lsm, length, buffer, flags | LSM_PAGES_POOL, &pages);
	if (ret)
		return ret;
	ret = pool_make(&pages, pool);
	if (ret)
		lsm_pages_remove(lsm, pages.root);
	else
		*root = pages.root;
	return ret;
}

int lsm_pool_open(struct lsm *lsm, uint64_t root, uint64_t buffer, struct lsm_pool **pool)
{
	struct lsmem_pages pages;
	int ret;

	ret = open_pages(lsm, root, buffer, &pages);
	if (ret)
		return ret;
	if (!(pages.flags & LSMEM_PAGES_POOL)) {
		close(pages.fd);
		return -EOPNOTSUPP;
	}
	return pool_make(&pages, pool);
}

void lsm_pool_close(struct lsm_pool *pool)
{
	if (!pool)
		return;
	range_unmap(&pool->range);
	free(pool);
}

int lsm_pool_sync(struct lsm_pool *pool)
{
	uint64_t freed = atomic_exchange(&pool->freed, UINT64_MAX);
	int ret = range_sync(&pool->range);

	/* What was freed is free now, also if its durability is unknown. */
	if (freed < atomic_load(&pool->next))
		atomic_store(&pool->next, freed);
	return ret;
}

static int call_page(const struct lsm_pool *pool, uint32_t op, struct lsmem_page *page)
{
	page->size = sizeof(*page);
	page->op = op;
	return ioctl(pool->range.fd, LSMEM_IOC_PAGE, page) < 0 ? -errno : 0;
}

/* As call_page(), for the page that @object points into. */
static int call_object(const struct lsm_pool *pool, uint32_t op, const void *object,
		       struct lsmem_page *page)
{
	int64_t number = lsm_pool_page(pool, object);

	if (number < 0)
		return (int)number;
	*page = (struct lsmem_page){ .page = (uint64_t)number };
	return call_page(pool, op, page);
}

int lsm_pool_alloc(struct lsm_pool *pool, size_t length, void **object)
{
	uint64_t next = atomic_load(&pool->next);
	struct lsmem_page page = { .page = next, .length = (uint32_t)length };
	int ret;

	if (length > PAGE)
		return -EINVAL;
	ret = call_page(pool, LSMEM_PAGE_ALLOC, &page);
	if (ret == -ENOSPC && next) {
		page = (struct lsmem_page){ .length = (uint32_t)length };
		ret = call_page(pool, LSMEM_PAGE_ALLOC, &page);
	}
	if (ret)
		return ret;
	atomic_store(&pool->next, page.page + 1);
	*object = pool->range.at + page.page * PAGE;
	return 0;
}

int lsm_pool_free(struct lsm_pool *pool, void *object)
{
	struct lsmem_page page;
	uint64_t freed;
	int ret;

	ret = call_object(pool, LSMEM_PAGE_FREE, object, &page);
	if (ret)
		return ret;
	freed = atomic_load(&pool->freed);
	while (page.page < freed &&
	       !atomic_compare_exchange_weak(&pool->freed, &freed, page.page))
		;
	return 0;
}

int lsm_pool_handle(const struct lsm_pool *pool, const void *object, uint64_t *handle)
{
	struct lsmem_page page;
	int ret;

	ret = call_object(pool, LSMEM_PAGE_FIND, object, &page);
	if (!ret)
		*handle = page.handle;
	return ret;
}

ssize_t lsm_pool_length(const struct lsm_pool *pool, const void *object)
{
	struct lsmem_page page;
	int ret;

	ret = call_object(pool, LSMEM_PAGE_FIND, object, &page);
	return ret ? ret : (ssize_t)page.length;
}

int lsm_pool_next(const struct lsm_pool *pool, void **object)
{
	int64_t number = *object ? lsm_pool_page(pool, *object) : -1;
	struct lsmem_page page = { .page = (uint64_t)(number + 1) };
	int ret;

	if (*object && number < 0)
		return (int)number;
	ret = call_page(pool, LSMEM_PAGE_NEXT, &page);
	if (ret && ret != -ENOENT)
		return ret;
	*object = ret ? NULL : pool->range.at + page.page * PAGE;
	return 0;
}

int64_t lsm_pool_page(const struct lsm_pool *pool, const void *object)
{
	uintptr_t offset = (uintptr_t)object - (uintptr_t)pool->range.at;

	return offset < pool->range.length ? (int64_t)(offset / PAGE) : -EINVAL;
}

void *lsm_pool_pointer(const struct lsm_pool *pool, uint64_t page)
{
	return page < (pool->range.length + PAGE - 1) / PAGE ? pool->range.at + page * PAGE : NULL;
}

/* ---- Arrays -------------------------------------------------------------- */

/* A last page that is not full ends behind its last element: so the range's length says how many it has. */
static int array_make(const struct lsmem_pages *pages, size_t size, struct lsm_array **out)
{
	struct lsm_array *array = malloc(sizeof(*array));
	int ret;

	if (!array) {
		close(pages->fd);
		return -ENOMEM;
	}
	ret = range_map(&array->range, pages);
	if (ret) {
		free(array);
		return ret;
	}
	array->size = (uint32_t)size;
	array->per_page = PAGE / array->size;
	array->nr = pages->length / PAGE * array->per_page + pages->length % PAGE / size;
	*out = array;
	return 0;
}

int lsm_array_create(struct lsm *lsm, uint64_t nr, size_t size, uint64_t buffer,
		     unsigned int flags, uint64_t *root, struct lsm_array **array)
{
	struct lsmem_pages pages;
	uint64_t per_page;
	int ret;

	if (!nr || !size || size > PAGE || flags & LSM_PAGES_POOL)
		return -EINVAL;
	per_page = PAGE / size;
	if (nr / per_page >= LSMEM_PAGES_LENGTH_MAX / PAGE)
		return -EINVAL;
	ret = create(lsm, nr / per_page * PAGE + nr % per_page * size, buffer, flags, &pages);
	if (ret)
		return ret;
	ret = array_make(&pages, size, array);
	if (ret)
		lsm_pages_remove(lsm, pages.root);
	else
		*root = pages.root;
	return ret;
}

int lsm_array_open(struct lsm *lsm, uint64_t root, size_t size, uint64_t buffer,
		   struct lsm_array **array)
{
	struct lsmem_pages pages;
	int ret;

	if (!size || size > PAGE)
		return -EINVAL;
	ret = open_pages(lsm, root, buffer, &pages);
	if (ret)
		return ret;
	if (pages.flags & LSMEM_PAGES_POOL) {
		close(pages.fd);
		return -EOPNOTSUPP;
	}
	return array_make(&pages, size, array);
}

void lsm_array_close(struct lsm_array *array)
{
	if (!array)
		return;
	range_unmap(&array->range);
	free(array);
}

int lsm_array_sync(struct lsm_array *array)
{
	return range_sync(&array->range);
}

uint64_t lsm_array_nr(const struct lsm_array *array)
{
	return array->nr;
}

void *lsm_array_at(const struct lsm_array *array, uint64_t i)
{
	if (i >= array->nr)
		return NULL;
	return array->range.at + i / array->per_page * PAGE + i % array->per_page * array->size;
}
