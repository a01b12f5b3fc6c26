// SPDX-License-Identifier: GPL-2.0
/* A target's kernel: see placed.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "placed.h"

void placed_begin(struct placed *placed, uint32_t room)
{
	memset(placed, 0, sizeof(*placed));
	placed->room = room;
}

static int refuse(struct placed *placed, const char *why)
{
	placed->wrong = why;
	return -EINVAL;
}

static struct placed_segment *find(struct placed *placed, uint64_t id)
{
	uint32_t i;

	for (i = 0; i < PLACED_SEGMENTS; i++)
		if (placed->segments[i].id == id)
			return &placed->segments[i];
	return NULL;
}

/* Return: NULL: there is no such segment. */
const struct placed_segment *placed_find(const struct placed *placed, uint64_t id)
{
	return find((struct placed *)placed, id);
}

static int place_one(struct placed *placed, struct placed_segment *seg, const struct lsmem_directory_entry *e)
{
	struct placed_word *word = &placed->words[lsmem_handle_index(__le64_to_cpu(e->key))];
	uint32_t generation = lsmem_handle_generation(__le64_to_cpu(e->key));
	uint64_t meta = __le64_to_cpu(e->meta);

	if (word->segment || generation <= word->generation)
		return refuse(placed, "an index is placed twice");
	if (LSMEM_LISTING_GET(meta, TYPE) != LSMEM_TYPE_OBJECT ||
	    LSMEM_LISTING_GET(meta, HOME) * LSMEM_ALIGN + lsmem_entry_size((uint32_t)LSMEM_LISTING_GET(meta, LENGTH)) > seg->home)
		return refuse(placed, "no object of this segment");
	*word = (struct placed_word){ *e, seg->id, generation };
	seg->placed++;
	return 0;
}

static int back_one(struct placed *placed, struct placed_segment *seg, const struct lsmem_directory_entry *e)
{
	struct placed_word *word = &placed->words[lsmem_handle_index(__le64_to_cpu(e->key))];

	if (word->segment != seg->id || memcmp(&word->listing, e, sizeof(*e)))
		return refuse(placed, "what was not placed is taken back");
	word->segment = 0;
	word->generation--;
	seg->placed--;
	return 0;
}

static int place(void *context, struct lsmem_placement *p)
{
	const struct lsmem_directory_entry *entries = (const void *)(uintptr_t)p->entries;
	bool back = p->flags & LSMEM_PLACEMENT_BACK, gone = p->flags & LSMEM_PLACEMENT_GONE;
	struct placed *placed = context;
	struct placed_segment *seg = find(placed, p->segment);
	uint32_t i;
	int ret = 0;

	if (++placed->calls == placed->fails)
		return -EIO;
	if (!p->segment || (back && !p->nr) || (gone && p->nr) || p->nr > PLACING_BATCH)
		return refuse(placed, "arguments");
	if (!seg) {
		if (back || gone)
			return refuse(placed, "there is no such segment");
		if (placed->nr == placed->room)
			return -ENOSPC;
		placed->nr++;
		seg = find(placed, 0);
		*seg = (struct placed_segment){ .id = p->segment, .generation = p->generation };
	}
	if (p->generation != seg->generation || p->sealed < seg->home)
		return refuse(placed, "another segment, or one that shrinks");
	seg->home = p->sealed;
	if (gone) {
		if (seg->placed)
			return refuse(placed, "something is placed in a segment that goes");
		*seg = (struct placed_segment){ .id = 0 };
		placed->nr--;
	}
	for (i = 0; i < p->nr && !ret; i++)
		ret = back ? back_one(placed, seg, &entries[i]) : place_one(placed, seg, &entries[i]);
	return ret;
}

const struct placing_user placed_user = { .place = place };

/* ---- For a recovery ------------------------------------------------------------- */

/* One recovery at a time, whose calls these are. @given: ids up to this one were given to it. */
static struct {
	struct placed *placed;
	struct recover_env env;
	uint64_t given;
} target;

static int give_segment(void *context, const struct placed_segment *seg)
{
	struct lsmem_directory_entry entries[PLACED_INDICES];
	uint32_t nr = 0, i;

	for (i = 0; i < PLACED_INDICES; i++)
		if (target.placed->words[i].segment == seg->id)
			entries[nr++] = target.placed->words[i].listing;
	return target.env.place(context, seg->id, seg->generation, seg->home, entries, nr);
}

/* Give the segments up to @last, as a recovery does that places them: in the order of their ids. */
static int give(void *context, uint64_t last)
{
	const struct placed_segment *next;
	uint32_t i;
	int ret = 0;

	do {
		for (next = NULL, i = 0; i < PLACED_SEGMENTS; i++) {
			const struct placed_segment *seg = &target.placed->segments[i];

			if (seg->id > target.given && seg->id <= last && (!next || seg->id < next->id))
				next = seg;
		}
		if (next) {
			target.given = next->id;
			ret = give_segment(context, next);
		}
	} while (next && !ret);
	return ret;
}

static int load(void *context, uint64_t segment, uint32_t generation, uint32_t sealed, const void *data, uint32_t length)
{
	int ret = give(context, segment);

	return ret ? ret : target.env.load(context, segment, generation, sealed, data, length);
}

static int loaded(void *context)
{
	int ret = give(context, UINT64_MAX);

	target.given = 0;	/* another recovery can follow */
	return ret ? ret : target.env.loaded(context);
}

/* A recovery that is told that the words are placed (placing_told()) uses @env. NULL: no recovery is any more. */
void placed_env(struct placed *placed, struct recover_env *env)
{
	if (target.placed) {
		env->load = target.env.load;
		env->loaded = target.env.loaded;
	}
	target.placed = placed;
	target.given = 0;
	target.env = *env;
	if (!placed)
		return;
	env->load = load;
	env->loaded = loaded;
}
