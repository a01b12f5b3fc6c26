/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Transactions on the pages of a range, and a check of the range against them.
 *
 * What a transaction changes follows from its seed and its number alone.  It leaves in each page that it
 * changes its number, with contents that can be checked (content.h), or zeroes.  A copy of a range is an
 * array that has, for each page, the number of the transaction that changed it last, 0 for zeroes.
 */
#ifndef TESTS_COMMON_TRANSACTION_H
#define TESTS_COMMON_TRANSACTION_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "content.h"
#include "random.h"

#define TRANSACTION_PAGE	4096u	/* bytes */

/**
 * struct transactions - the transactions of a range
 * @seed: of one of them or of all
 * @id: of the range: part of the contents of its pages
 * @pages: of the range, 2^32 - 1 at most
 * @most: pages that one of them changes
 */
struct transactions {
	uint64_t seed;
	uint64_t id;
	uint32_t pages;
	uint32_t most;
};

/* Call @change for each page that transaction @number changes; @fill: its number, or 0: zeroes. */
static inline void transaction_each(const struct transactions *all, uint64_t number,
				    void (*change)(const struct transactions *all, void *context,
						   uint32_t page, uint64_t fill), void *context)
{
	uint64_t state = all->seed + number * 0x9e3779b97f4a7c15ull;
	uint32_t few = all->most < 8 ? all->most : 8, some = (all->most + 9) / 10;
	uint32_t kind = random_below(&state, 10);
	uint32_t nr = 1 + random_below(&state, kind < 5 ? few : kind < 8 ? some : all->most);
	uint32_t at = random_below(&state, all->pages);

	while (nr--) {
		change(all, context, at, random_chance(&state, 5) ? 0 : number);
		at = random_chance(&state, 50) ? (at + 1) % all->pages :
		     random_below(&state, all->pages);
	}
}

static inline uint64_t transaction_content(const struct transactions *all, uint32_t page)
{
	return all->id << 32 | page;
}

static inline void transaction_store_page(const struct transactions *all, void *range, uint32_t page,
					  uint64_t fill)
{
	char *at = (char *)range + (uint64_t)page * TRANSACTION_PAGE;

	if (fill)
		content_fill(at, TRANSACTION_PAGE, transaction_content(all, page), fill);
	else
		memset(at, 0, TRANSACTION_PAGE);
}

/* Carry out a transaction on a range that is mapped; what makes it durable is left to the caller. */
static inline void transaction_store(const struct transactions *all, uint64_t number, void *range)
{
	transaction_each(all, number, transaction_store_page, range);
}

static inline void transaction_note_page(const struct transactions *all, void *copy, uint32_t page,
					 uint64_t fill)
{
	(void)all;
	((uint64_t *)copy)[page] = fill;
}

/* Carry out a transaction on a copy. */
static inline void transaction_note(const struct transactions *all, uint64_t number, uint64_t *copy)
{
	transaction_each(all, number, transaction_note_page, copy);
}

static inline bool transaction_page_is(const struct transactions *all, const char *at, uint32_t page,
				       uint64_t fill)
{
	static const char zeroes[TRANSACTION_PAGE];

	return fill ? content_is(at, TRANSACTION_PAGE, transaction_content(all, page), fill) :
	       !memcmp(at, zeroes, TRANSACTION_PAGE);
}

/* How many pages of a range are not as in a copy; the first in @where. */
static inline uint32_t transaction_differ(const struct transactions *all, const char *range,
					  const uint64_t *copy, uint32_t *where)
{
	uint32_t page, nr = 0;

	for (page = 0; page < all->pages; page++)
		if (!transaction_page_is(all, range + (uint64_t)page * TRANSACTION_PAGE, page,
					 copy[page]) && !nr++)
			*where = page;
	return nr;
}

#endif
