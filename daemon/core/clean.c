// SPDX-License-Identifier: GPL-2.0
/*
 * The choice of segments to clean: see clean.h.
 *
 * The gain. A pass is the only way to free a part of a backup, and it frees whole frames. It costs
 * what the survivors take of new frames: their bytes and their part of the directory. Without the
 * directory a segment full of small live objects would look as if a sixth of it were garbage, and
 * would be copied again and again. For the same reason the unused end of a frame counts as used if
 * a large object that did not fit can have left it: frames of survivors end in the same way.
 *
 * The kernel asks for a pass when a backup is short of frames, or when memory is short and
 * compaction, which costs no I/O, gains too little. While there are enough frames, the measure is
 * memory: a choice that frees more of the backup would cost I/O without a use. When writers wait
 * and the measure finds nothing, the other measure is tried: something is chosen as long as
 * anything can be gained.
 *
 * If more is live in a tiered store than its memory holds, memory is gained by eviction, without I/O:
 * then a pass is measured by the backup only. Live are also the entries that are on backups only, which
 * the pass reads from there.
 *
 * The kernel changes the table while it is read: each field is loaded once, and values that
 * contradict each other are limited to valid ranges.
 */
#include <lsmem_format.h>

#include "clean.h"

#define LOAD(field)	__atomic_load_n(&(field), __ATOMIC_RELAXED)

/* So few segments are few in a table of any size: heads alone may need them. */
#define CLEAN_FEW	8u
/* Live bytes that a frame holds at least, as in kmod/balance.c: in the worst case all entries are
 * of the smallest size, 32 bytes and 24 of directory, and a large one did not fit at the end.
 */
#define CLEAN_FRAME_LIVE(bytes)	(((bytes) - LSMEM_OBJECT_MAX - LSMEM_SEGLET_BYTES) / 7 * 4)
/* Bytes; a pass that gains less is useless, even if writers wait. */
#define CLEAN_GAIN	LSMEM_SEGLET_BYTES

/**
 * struct clean_oldest - the oldest segments, on which the barriers of tombstones depend
 * @first: lowest id of a segment that holds entries; UINT64_MAX: there is none
 * @second: the next one
 * @left: entries of the table that are free, or whose segment is empty
 */
struct clean_oldest {
	uint64_t first, second;
	uint32_t left;
};

/**
 * clean_measure_name - the name of a measure
 * @measure: the measure
 *
 * Return: the name that the status file uses.
 */
const char *clean_measure_name(enum clean_measure measure)
{
	return measure == CLEAN_MEMORY ? "memory" : "backup";
}

static uint32_t least(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

static void clean_oldest(const struct lsmem_segment_stat *table, uint32_t nr,
			 struct clean_oldest *oldest)
{
	uint32_t i;

	*oldest = (struct clean_oldest) { .first = UINT64_MAX, .second = UINT64_MAX };
	for (i = 0; i < nr; i++) {
		uint64_t id = LOAD(table[i].id);

		if (!id || !LOAD(table[i].home)) {
			oldest->left++;
		} else if (id < oldest->first) {
			oldest->second = oldest->first;
			oldest->first = id;
		} else if (id < oldest->second) {
			oldest->second = id;
		}
	}
}

/* CLEAN_BACKUP: see the comment at the top. */
static void clean_weigh_backup(struct lsmem_candidate *c, uint32_t live, uint32_t home,
			       uint32_t entries)
{
	uint64_t directory = (uint64_t)entries * sizeof(struct lsmem_directory_entry);
	uint64_t used = home + directory, full = LSMEM_SEGMENT_BYTES - LSMEM_OBJECT_MAX;

	c->held = least(used > full ? used : full, LSMEM_SEGMENT_BYTES);
	/* The share of the directory that live entries have is that of their bytes. */
	c->live = least(live + (home ? live * directory / home : 0), c->held);
}

static uint32_t clean_candidates(const struct lsmem_cleaning *want,
				 const struct lsmem_segment_stat *table, uint32_t nr,
				 const struct clean_oldest *oldest, enum clean_measure measure,
				 struct lsmem_candidate *candidates)
{
	uint32_t found = 0, i;

	for (i = 0; i < nr; i++) {
		const struct lsmem_segment_stat *stat = &table[i];
		struct lsmem_candidate *c = &candidates[found];
		uint64_t id = LOAD(stat->id), opened = LOAD(stat->opened);
		uint64_t live = LOAD(stat->live), tombstones = LOAD(stat->tombstones);
		uint32_t home = least(LOAD(stat->home), LSMEM_SEGMENT_BYTES);
		uint32_t entries = least(LOAD(stat->entries),
					 LSMEM_SEGMENT_BYTES / LSMEM_LONG_BYTES);

		if (!id || !(LOAD(stat->flags) & LSMEM_SEGMENT_CLEANABLE))
			continue;
		/* Tombstones whose barrier waits for this segment only go with it. */
		if (LOAD(stat->barrier) <= (id == oldest->first ? oldest->second : oldest->first))
			live -= least(live, tombstones);
		live = least(live + LOAD(stat->cold), LSMEM_SEGMENT_BYTES);
		*c = (struct lsmem_candidate) {
			.id = id,
			.age = want->store_time > opened ? (want->store_time - opened) >> 10 : 0,
			.cookie = i,
		};
		if (measure == CLEAN_BACKUP) {
			clean_weigh_backup(c, live, home, entries);
		} else {
			c->held = least(LOAD(stat->held), LSMEM_SEGMENT_BYTES);
			c->live = least(live, c->held);
		}
		found++;
	}
	return found;
}

static void clean_choose_by(const struct lsmem_cleaning *want,
			    const struct lsmem_segment_stat *table, uint32_t nr, uint64_t room,
			    const struct clean_oldest *oldest, enum clean_measure measure,
			    struct lsmem_candidate *candidates, struct clean_choice *choice)
{
	uint32_t found = clean_candidates(want, table, nr, oldest, measure, candidates), chosen;

	*choice = (struct clean_choice) { .measure = measure };
	chosen = lsmem_policy_select_by(want->rule <= LSMEM_RULE_DECAY ? want->rule :
					LSMEM_RULE_DEFAULT, candidates, found, room,
					want->urgent ? LSMEM_UTILIZATION_FORCED :
					want->utilization_max,
					want->oldest_first);
	for (; choice->nr < chosen; choice->nr++) {
		const struct lsmem_candidate *c = &candidates[found - 1 - choice->nr];

		choice->segments[choice->nr] = c->id;
		choice->live += c->live;
		choice->held += c->held;
	}
	if (!want->oldest_first && choice->held < choice->live + CLEAN_GAIN)
		choice->nr = 0;
}

/**
 * clean_choose - choose the segments of a pass
 * @want: what the kernel wants; a copy that does not change
 * @table: the kernel's segments; may change during the call
 * @nr: entries of @table
 * @frames: frames that survivors can have; see core_frames_left()
 * @segment_bytes: what a survivor has on backups, LSMEM_SEGMENT_LEAST .. LSMEM_SEGMENT_BYTES
 * @candidates: room for @nr
 * @choice: out
 */
void clean_choose(const struct lsmem_cleaning *want, const struct lsmem_segment_stat *table,
		  uint32_t nr, uint32_t frames, uint32_t segment_bytes, struct lsmem_candidate *candidates,
		  struct clean_choice *choice)
{
	uint64_t room = (uint64_t)frames * CLEAN_FRAME_LIVE(segment_bytes);
	enum clean_measure measure = CLEAN_BACKUP;
	struct clean_oldest oldest;

	/* Survivors without a frame would delay all later writes, so they must fit @frames. If the
	 * kernel states no room, it checks its own limit when it is asked for the pass.
	 */
	if (want->room && room > want->room)
		room = want->room;
	clean_oldest(table, nr, &oldest);
	oldest.left = least(oldest.left, frames);	/* a lost backup leaves fewer */
	if (!want->by_backup && oldest.left > CLEAN_FEW &&
	    (uint64_t)oldest.left * 1000 > (uint64_t)nr * (1000 - LSMEM_BACKUP_HIGH))
		measure = CLEAN_MEMORY;
	clean_choose_by(want, table, nr, room, &oldest, measure, candidates, choice);
	if (!choice->nr && want->urgent && !want->by_backup)
		clean_choose_by(want, table, nr, room, &oldest,
				measure == CLEAN_BACKUP ? CLEAN_MEMORY : CLEAN_BACKUP, candidates,
				choice);
}
