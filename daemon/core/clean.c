// SPDX-License-Identifier: GPL-2.0
/*
 * Combined cleaning, the choice: see clean.h.
 *
 * What is gained.  On the backup only a pass gives anything back, and always a
 * whole frame; what it costs is what the survivors take of new frames: their
 * bytes and their part of the directory.  Without the directory a segment full
 * of small live objects would look like a sixth of garbage, and be copied for
 * ever.  For the same reason the end of a frame counts as far as only a large
 * object can have left it free: the survivors' frames end so, too.
 *
 * The kernel asks when the backup is short of frames, or when memory is and
 * compaction, which costs no I/O, gains too little there.  While there are frames
 * enough a segment is worth the memory it holds: to take then what would free
 * most of the backup would be I/O without a use.  When writers wait and
 * this measure finds nothing, the other is tried: as long as anything can be
 * gained, something is chosen.
 *
 * The table is the kernel's, and changes while it is read: each field is loaded
 * once, and what does not fit together is brought within bounds.
 */
#include <string.h>

#include <lsmem_format.h>

#include "clean.h"

#define LOAD(field)	__atomic_load_n(&(field), __ATOMIC_RELAXED)

/* Fewer segments left than this (a head each, and some) are few in any table. */
#define CLEAN_FEW	8u
/* Live bytes that a frame holds for sure; as in kmod/balance.c: at worst all are
 * tiny entries, and a large one did not fit at its end.
 */
#define CLEAN_FRAME_LIVE \
	((LSMEM_SEGMENT_BYTES - LSMEM_OBJECT_MAX - LSMEM_SEGLET_BYTES) / 8 * 5)
/* Less than this is not worth a pass, even to writers that wait. */
#define CLEAN_GAIN	LSMEM_SEGLET_BYTES

/* Two lowest ids of segments that hold something; records wait for these. */
struct clean_oldest {
	uint64_t first, second;
	uint32_t left;		/* slots that are free, or hold nothing yet */
};

/**
 * clean_measure_name - the name of what a pass is to give back
 * @measure: which
 *
 * Return: as the status file has it.
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

/* By the measure of the backup; see above. */
static void clean_weigh_backup(struct lsmem_candidate *c, uint32_t live, uint32_t home,
			       uint32_t entries)
{
	uint64_t directory = (uint64_t)entries * sizeof(struct lsmem_directory_entry);
	uint64_t used = home + directory, full = LSMEM_SEGMENT_BYTES - LSMEM_OBJECT_MAX;

	c->held = least(used > full ? used : full, LSMEM_SEGMENT_BYTES);
	/* Of the dead as many have a place in the directory as of the living. */
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
		uint32_t live = LOAD(stat->live), tombstones = LOAD(stat->tombstones);
		uint32_t home = least(LOAD(stat->home), LSMEM_SEGMENT_BYTES);
		uint32_t entries = least(LOAD(stat->entries),
					 LSMEM_SEGMENT_BYTES / LSMEM_ENTRY_BYTES);

		if (!id || !(LOAD(stat->flags) & LSMEM_SEGMENT_CLEANABLE))
			continue;
		/* Records that wait for nothing but this segment go with it. */
		if (LOAD(stat->barrier) <= (id == oldest->first ? oldest->second : oldest->first))
			live -= least(live, tombstones);
		live = least(live, LSMEM_SEGMENT_BYTES);
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
 * @want: what the kernel wants, copied
 * @table: of the kernel's segments
 * @nr: slots in it
 * @frames: of the backup that survivors can have
 * @candidates: room for @nr
 * @choice: out
 */
void clean_choose(const struct lsmem_cleaning *want, const struct lsmem_segment_stat *table,
		  uint32_t nr, uint32_t frames, struct lsmem_candidate *candidates,
		  struct clean_choice *choice)
{
	uint64_t room = (uint64_t)frames * CLEAN_FRAME_LIVE;
	enum clean_measure measure = CLEAN_BACKUP;
	struct clean_oldest oldest;

	/* Survivors that find no frame would hold up all that comes behind them.
	 * What the kernel does not tell it sees to itself, when it is asked.
	 */
	if (want->room && room > want->room)
		room = want->room;
	clean_oldest(table, nr, &oldest);
	if (oldest.left > CLEAN_FEW &&
	    (uint64_t)oldest.left * 1000 > (uint64_t)nr * (1000 - LSMEM_BACKUP_HIGH))
		measure = CLEAN_MEMORY;
	clean_choose_by(want, table, nr, room, &oldest, measure, candidates, choice);
	if (!choice->nr && want->urgent)
		clean_choose_by(want, table, nr, room, &oldest,
				measure == CLEAN_BACKUP ? CLEAN_MEMORY : CLEAN_BACKUP, candidates,
				choice);
}
