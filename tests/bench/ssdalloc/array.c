// SPDX-License-Identifier: GPL-2.0
/* An array of elements of -s bytes, each with contents that tell how often it was put. */
#include "program.h"

static uint64_t nr_elements;
static uint32_t size;
static uint8_t *copy;

#ifdef LSMEM
#include <lsmem.h>

static struct lsm_pool *pool;

/* Objects of a new pool are in its pages in their order. */
static void *element(uint64_t nr)
{
	return lsm_pool_pointer(pool, nr);
}

static void make_elements(const struct bench *bench)
{
	struct lsm *lsm;
	uint64_t root;
	int ret;

	ret = lsm_open(bench->path, 0, &lsm) ?:
	      lsm_pool_create(lsm, nr_elements * 4096, bench->bytes, 0, &root, &pool);
	if (ret)
		fail("pool", -ret);
}
#else
static uint8_t *elements;

static void *element(uint64_t nr)
{
	return elements + nr * size;
}

static void make_elements(const struct bench *bench)
{
	elements = malloc(bench->handles * size);
	if (!elements)
		fail("malloc", ENOMEM);
}
#endif

void program_make(const struct bench *bench)
{
	uint64_t i;

	nr_elements = bench->handles;
	size = bench->size;
	if (size < CONTENT_MIN)
		fail("-s BYTES", EINVAL);
	copy = get_memory(size, 64);
	make_elements(bench);
	for (i = 0; i < nr_elements; i++) {
#ifdef LSMEM
		void *page;
		int ret = lsm_pool_alloc(pool, size, &page);

		if (ret)
			fail("pool", -ret);
#endif
		content_fill(element(i), size, i, 0);
	}
}

void program_put(uint64_t nr)
{
	uint64_t serial;

	memcpy(&serial, element(nr), sizeof(serial));
	content_fill(element(nr), size, nr, serial + 1);
}

void program_get(uint64_t nr)
{
	uint64_t id;

	memcpy(copy, element(nr), size);
	memcpy(&id, copy + sizeof(id), sizeof(id));
	if (id != nr)
		wrong("element");
}

void program_check(uint64_t puts)
{
	uint64_t i, serial, sum = 0;

	for (i = 0; i < nr_elements; i++) {
		if (!content_right(element(i), size, i, &serial))
			wrong("element");
		sum += serial;
	}
	if (sum != puts)
		wrong("puts");
}
