// SPDX-License-Identifier: GPL-2.0
/*
 * Indices: which entries of a handle table are taken.
 *
 * One bit per index.  An sbitmap takes 128 bytes for 64 indices, which is 4 GiB for
 * 2^31 handles and more than kvmalloc() allocates.  Each CPU takes free indices in
 * turn, from its own position: generations grow slowly and evenly, and CPUs do not
 * share a cache line.  Groups without a free index are skipped, so a scan of a full
 * map of 2^31 indices reads 8 KiB.
 *
 * No locks: bits change atomically, one by one.  Taking an index is an acquire, freeing
 * it a release: the next owner sees everything that the last one did to the entry.
 */
#include <linux/bitmap.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/slab.h>

#include "indices.h"

static u32 lsmem_indices_groups(u64 nr)
{
	return DIV_ROUND_UP_ULL(nr, LSMEM_INDICES_GROUP);
}

/**
 * lsmem_indices_bytes - memory of a set of indices
 * @nr: indices, up to 2^31
 * Return: bytes, without the few per CPU.
 */
u64 lsmem_indices_bytes(u64 nr)
{
	return (BITS_TO_LONGS(nr) + BITS_TO_LONGS(lsmem_indices_groups(nr))) *
	       sizeof(unsigned long);
}

/**
 * lsmem_indices_init - make a set of indices, all free
 * @indices: zeroed
 * @nr: how many, 1 .. 2^31 - 1
 * @gfp: for the bitmaps
 * Context: sleeps.  Return: 0 or -ENOMEM; lsmem_indices_destroy() is to be called after either.
 */
int lsmem_indices_init(struct lsmem_indices *indices, u32 nr, gfp_t gfp)
{
	unsigned int cpu, nth = 0;

	indices->nr = nr;
	indices->map = kvcalloc(BITS_TO_LONGS(nr), sizeof(*indices->map), gfp);
	indices->full = kvcalloc(BITS_TO_LONGS(lsmem_indices_groups(nr)),
				 sizeof(*indices->full), gfp);
	indices->next = alloc_percpu(u32);
	if (!indices->map || !indices->full || !indices->next)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		*per_cpu_ptr(indices->next, cpu) = (u64)nr * nth++ / num_possible_cpus();
	return 0;
}

/**
 * lsmem_indices_destroy - free a set of indices
 * @indices: initialised, in part or whole, or zeroed
 */
void lsmem_indices_destroy(struct lsmem_indices *indices)
{
	free_percpu(indices->next);
	kvfree(indices->full);
	kvfree(indices->map);
	memset(indices, 0, sizeof(*indices));
}

/* Take a free index of [@from, @end). Negative if there is none. */
static int lsmem_indices_take(struct lsmem_indices *indices, u32 from, u32 end)
{
	u32 index;

	for (index = find_next_zero_bit(indices->map, end, from); index < end;
	     index = find_next_zero_bit(indices->map, end, index + 1))
		if (!test_and_set_bit_lock(index, indices->map))
			return index;
	return -1;
}

/* A scan of [@from, @end), all of a group, has found no free index: mark the group full. */
static void lsmem_indices_fill(struct lsmem_indices *indices, u32 from, u32 end)
{
	u32 group = from / LSMEM_INDICES_GROUP;

	set_bit(group, indices->full);
	/*
	 * Store buffering: either this scan sees the bit that lsmem_indices_put() cleared,
	 * or lsmem_indices_put() sees the group's bit.
	 */
	smp_mb__after_atomic();
	if (find_next_zero_bit(indices->map, end, from) < end)
		clear_bit(group, indices->full);
}

/**
 * lsmem_indices_get - take a free index
 * @indices: the set
 *
 * Context: any; does not sleep.  Can miss an index that is freed meanwhile.
 * Return: the index, the caller's until lsmem_indices_put(); negative when none is
 * free.
 */
int lsmem_indices_get(struct lsmem_indices *indices)
{
	u32 groups = lsmem_indices_groups(indices->nr), group, left;
	u32 from = this_cpu_read(*indices->next);

	if (from >= indices->nr)
		from = 0;
	group = from / LSMEM_INDICES_GROUP;
	/* The first group is scanned twice: from the position to its end, last up to the position. */
	for (left = groups + 1; left; left--) {
		u32 begin = group * LSMEM_INDICES_GROUP;
		u32 end = min(begin + LSMEM_INDICES_GROUP, indices->nr);

		if (!test_bit(group, indices->full)) {
			int index = lsmem_indices_take(indices, max(from, begin), end);

			if (index >= 0) {
				this_cpu_write(*indices->next, index + 1);
				return index;
			}
			if (from <= begin)
				lsmem_indices_fill(indices, begin, end);
		}
		group = group + 1 < groups ? group + 1 : 0;
		from = 0;
	}
	return -1;
}

/**
 * lsmem_indices_put - free an index
 * @indices: the set
 * @index: from lsmem_indices_get() or lsmem_indices_set()
 *
 * Context: any.  The next owner of the index sees what the caller did before.
 */
void lsmem_indices_put(struct lsmem_indices *indices, u32 index)
{
	u32 group = index / LSMEM_INDICES_GROUP;

	clear_bit_unlock(index, indices->map);
	smp_mb__after_atomic();		/* pairs with lsmem_indices_fill() */
	if (test_bit(group, indices->full))
		clear_bit(group, indices->full);
}

/**
 * lsmem_indices_set - take a certain index
 * @indices: the set; no other thread uses it
 * @index: below its number
 */
void lsmem_indices_set(struct lsmem_indices *indices, u32 index)
{
	__set_bit(index, indices->map);
}

/**
 * lsmem_indices_clear - free all indices
 * @indices: the set; no other thread uses it
 */
void lsmem_indices_clear(struct lsmem_indices *indices)
{
	memset(indices->map, 0, BITS_TO_LONGS(indices->nr) * sizeof(*indices->map));
	bitmap_zero(indices->full, lsmem_indices_groups(indices->nr));
}
