// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: one object after the other, in the order of the handle table.
 *
 * What is in memory is found in the windows.  Of an object that is on backups only the table says nothing but where
 * it is: the kernel fetches it, and tells.
 */
#include <errno.h>

#include "internal.h"

#define TRIES	64	/* to find an object that moves */
#define AHEAD	32u	/* indices whose objects are fetched into the cache together */
#define ASKED	64u	/* indices that the kernel is asked for together */

static uint32_t state_of(const struct lsm *lsm, uint64_t index, uint64_t *position)
{
	uint64_t word = __atomic_load_n(&lsm->handles[index].word, __ATOMIC_RELAXED);

	*position = word & ((1ull << LSMEM_POSITION_BITS) - 1);
	return word >> LSMEM_WORD_STATE_SHIFT & ((1u << LSMEM_WORD_STATE_BITS) - 1);
}

/* Looks at an index.  Return: LSM_FOUND; LSM_ASK: the kernel has to be asked; LSM_CHANGING: it has no object. */
static enum lsm_locate look(const struct lsm *lsm, uint64_t index, struct lsm_listed *listed)
{
	enum lsm_locate found;
	struct lsm_place place;
	uint64_t position;
	int tries;

	for (tries = 0; tries < TRIES; tries++) {
		switch (state_of(lsm, index, &position)) {
		case LSMEM_WORD_LIVE:
			break;
		case LSMEM_WORD_COLD:
			return LSM_ASK;
		default:
			return LSM_CHANGING;	/* also while it comes or goes */
		}
		found = lsm_identify(lsm, index, &listed->handle, &place);
		if (found == LSM_FOUND) {
			listed->object = place.object;
			return found;
		}
		lsm_relax();
	}
	return LSM_ASK;
}

/* Asks the kernel for up to ASKED indices.  Return: objects listed, or a negative errno. */
static ssize_t ask(struct lsm *lsm, const uint64_t *indices, size_t nr, int table, struct lsm_listed *listed)
{
	struct lsmem_op ops[ASKED];
	char bytes[ASKED];
	size_t i, found = 0;
	int ret;

	for (i = 0; i < nr; i++) {
		ops[i] = lsm_op_read(indices[i], &bytes[i], 1, 0);
		ops[i].flags = LSMEM_OPF_INDEX;
	}
	ret = lsm_vector(lsm, ops, nr, 0, NULL);
	if (ret)
		return ret;
	for (i = 0; i < nr; i++) {
		if (ops[i].result == -ENOENT)
			continue;
		if (ops[i].result)
			return ops[i].result;
		if (table < 0 || (uint32_t)table == ops[i].table)
			listed[found++] = (struct lsm_listed){
				.handle = ops[i].handle,
				.object = { .version = ops[i].version, .length = ops[i].object_length,
					    .table = ops[i].table },
			};
	}
	return (ssize_t)found;
}

static void fetch(const struct lsm *lsm, uint64_t from, uint64_t to)
{
	uint64_t position;

	for (; from < to; from++)
		if (state_of(lsm, from, &position) == LSMEM_WORD_LIVE)
			__builtin_prefetch(lsm->seglets + position * LSMEM_ALIGN);
}

ssize_t lsm_next(struct lsm *lsm, int table, uint64_t *cursor, struct lsm_listed *listed, size_t nr)
{
	bool here = lsm_windows_here(lsm);
	uint64_t index = *cursor, fetched = 0, asked[ASKED];
	size_t found = 0, waiting = 0;
	enum lsm_locate where;
	ssize_t ret = 0;

	if (!nr || table >= (int)LSMEM_TABLES)
		return -EINVAL;
	while (index < lsm->handles_max && found + waiting < nr) {
		if (here && index >= fetched) {
			fetched = lsm->handles_max - index < AHEAD ? lsm->handles_max : index + AHEAD;
			fetch(lsm, index, fetched);
		}
		where = here ? look(lsm, index, &listed[found]) : LSM_ASK;
		if (where == LSM_FOUND)
			found += table < 0 || (uint32_t)table == listed[found].object.table;
		else if (where == LSM_ASK)
			asked[waiting++] = index;
		index++;
		if (!waiting || (waiting < ASKED && index < lsm->handles_max && found + waiting < nr))
			continue;
		ret = ask(lsm, asked, waiting, table, &listed[found]);
		if (ret < 0)
			return ret;
		found += (size_t)ret;
		waiting = 0;
	}
	*cursor = index;
	return (ssize_t)found;
}
