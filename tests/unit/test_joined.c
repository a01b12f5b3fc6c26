// SPDX-License-Identifier: GPL-2.0
/* Which objects of a call are one fetch request: kmod/joined.c. */
#include <string.h>

#include "../common/random.h"
#include "../common/tap.h"
#include "../../kmod/joined.c"

#define MOST	256u
#define RUNS	20000u

struct object {
	uint32_t segment, block, blocks;
};

/* Objects in the order of the log, with gaps, and sometimes not in order. Return: how many. */
static uint32_t make(struct object *o, uint64_t *random)
{
	uint32_t nr = 1 + random_below(random, MOST), segment = 0, block = 0, gap = 1 + random_below(random, 12), i;

	for (i = 0; i < nr; i++) {
		if (!random_below(random, 50))
			segment = random_below(random, 4);
		if (!random_below(random, 50))
			block = random_below(random, 2000);
		block += random_below(random, gap);
		o[i] = (struct object) { segment, block, 1 + (random_below(random, 4) ? 0 : random_below(random, 10)) };
	}
	return nr;
}

/* The same, by looking at each block: the objects from @from on that a request has. */
static uint32_t reference(const struct object *o, uint32_t from, uint32_t nr)
{
	uint32_t to, i, end;

	for (to = from + 1; to < nr; to++) {
		for (end = 0, i = from; i < to; i++)
			end = o[i].block + o[i].blocks + 1 > end ? o[i].block + o[i].blocks + 1 : end;
		if (o[to].segment != o[from].segment || o[to].block < o[from].block)
			break;
		end = o[to].block + o[to].blocks + 1 > end ? o[to].block + o[to].blocks + 1 : end;
		if (end - o[from].block > LSMEM_JOINED_BLOCKS)
			break;
	}
	return to - from;
}

/* Is each object in the request, with the block behind those that are likely to have it, if there are others? */
static bool suffices(const struct lsmem_joined *joined, const struct object *o)
{
	uint32_t i, more = joined->nr > 1;

	for (i = 0; i < joined->nr; i++)
		if (o[i].segment != joined->segment || o[i].block < joined->block ||
		    o[i].block + o[i].blocks + more > joined->block + joined->blocks)
			return false;
	return joined->nr == 1 ? joined->blocks == o[0].blocks : joined->blocks <= LSMEM_JOINED_BLOCKS;
}

static bool test_random(void)
{
	struct object o[MOST];
	uint64_t random = 11;
	uint32_t run, several = 0, single = 0;

	for (run = 0; run < RUNS; run++) {
		uint32_t nr = make(o, &random), from = 0, i;

		while (from < nr) {
			struct lsmem_joined joined = { 0 }, before;

			for (i = from; i < nr; i++) {
				before = joined;
				if (!lsmem_join(&joined, o[i].segment, o[i].block, o[i].blocks))
					break;
			}
			CHECK(i == nr || !memcmp(&joined, &before, sizeof(joined)));
			CHECK(joined.nr == i - from && joined.nr == reference(o, from, nr));
			CHECK(suffices(&joined, o + from));
			several += joined.nr > 1;
			single += joined.nr == 1;
			from = i;
		}
	}
	CHECK(several > RUNS && single > RUNS);
	return true;
}

/* Objects of a dense log. */
static bool test_dense(void)
{
	struct lsmem_joined joined = { 0 };
	uint32_t i, requests = 1;

	for (i = 0; i < MOST; i++) {
		if (lsmem_join(&joined, 3, i * 128 / 4096, 1))
			continue;
		joined.nr = 0;
		CHECK(lsmem_join(&joined, 3, i * 128 / 4096, 1));
		requests++;
	}
	CHECK(requests == 2);
	return true;
}

int main(void)
{
	tap_ok(test_random(), "each object is in one request, as a slow reference has it");
	tap_ok(test_dense(), "objects that lie one behind the other are few requests");
	return tap_end();
}
