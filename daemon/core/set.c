// SPDX-License-Identifier: GPL-2.0
/*
 * The set of backups: where replicas go, and what happens when one is lost, or
 * comes to them.
 *
 * A lost backup gets no more requests, but counts for what is durable until a
 * durable digest says that it is no member (invariant 3): meanwhile nothing of
 * the segments on it is acknowledged.  After a crash in between, a recovery that
 * finds it and believes it finds all that was acknowledged; after the digest, one
 * that has it alone is refused.
 */
#include <stdio.h>
#include <string.h>

#include "private.h"

/* Is @b the first of @mask in its failure domain? */
static bool core_first(const struct core *core, uint32_t mask, uint32_t b)
{
	uint32_t before = b;

	core_each_backup(before, mask)
		if (core->domain[before] == core->domain[b])
			break;
	return before == b;
}

static uint32_t core_domains(const struct core *core, uint32_t mask)
{
	uint32_t nr = 0, b;

	core_each_backup(b, mask)
		nr += core_first(core, mask, b);
	return nr;
}

uint32_t core_domains_left(const struct core *core)
{
	return core_domains(core, core_alive(core));
}

/**
 * core_wanted - replicas that a segment should have, with the backups there are
 * @core: core
 */
uint32_t core_wanted(const struct core *core)
{
	uint32_t domains = core_domains(core, core_alive(core));

	return core->replicas && core->replicas < domains ? core->replicas : domains;
}

/* Free frames of all backups in the failure domain of one. */
static uint64_t core_domain_free(const struct core *core, uint32_t backup)
{
	uint64_t nr = 0;
	uint32_t b;

	core_each_backup(b, core_alive(core))
		if (core->domain[b] == core->domain[backup])
			nr += core->nr_free[b];
	return nr;
}

/**
 * core_segments_left - how many more segments there are frames for
 * @core: core
 */
uint32_t core_segments_left(const struct core *core)
{
	uint32_t wanted = core_wanted(core), b;
	uint64_t frames[CORE_BACKUPS] = { 0 };

	core_each_backup(b, core_alive(core))
		frames[b] = core->nr_free[b];
	return wanted ? format_segments_of(frames, core->domain, core->nr_backups, wanted) : 0;
}

/*
 * Is @a the better place of two?  First comes a domain with as many free frames as there are
 * segments @left: passed over, it would keep frames that no segment can use.  Then the backup of
 * which a larger share is free: those of all sizes fill alike, and a recovery reads from all.
 */
static bool core_better(const struct core *core, uint32_t a, uint32_t b, uint32_t left)
{
	bool first_a = core_domain_free(core, a) >= left, first_b = core_domain_free(core, b) >= left;

	if (first_a != first_b)
		return first_a;
	return core->nr_free[a] * __le64_to_cpu(core->super[b].frames) >
	       core->nr_free[b] * __le64_to_cpu(core->super[a].frames);
}

/**
 * core_domain_taken - is there one of several backups in the failure domain of one
 * @core: core
 * @taken: mask of the several
 * @b: the one
 */
bool core_domain_taken(const struct core *core, uint32_t taken, uint32_t b)
{
	uint32_t t;

	core_each_backup(t, taken)
		if (core->domain[t] == core->domain[b])
			return true;
	return false;
}

/*
 * The best place in no domain of @taken, of equal ones from @first on, with frames for @left
 * more segments; CORE_BACKUPS: none.
 */
static uint32_t core_choose_one(const struct core *core, uint32_t taken, uint32_t first,
				uint32_t left)
{
	uint32_t best = CORE_BACKUPS, i, b;

	for (i = 0; i < core->nr_backups; i++) {
		b = (first + i) % core->nr_backups;
		if (!(core_alive(core) >> b & 1u) || !core->nr_free[b] ||
		    (best < CORE_BACKUPS && !core_better(core, b, best, left)))
			continue;
		if (!core_domain_taken(core, taken, b))
			best = b;
	}
	return best;
}

/**
 * core_choose - where the replicas of a new segment go
 * @core: core
 * @id: of the segment
 *
 * Return: a mask of backups, 0 when there are no frames.
 */
uint32_t core_choose(const struct core *core, uint64_t id)
{
	uint32_t wanted = core_wanted(core), left = core_segments_left(core), mask = 0, b;

	for (; wanted; wanted--) {
		b = core_choose_one(core, mask, id % core->nr_backups, left);
		if (b == CORE_BACKUPS)
			return 0;
		mask |= 1u << b;
	}
	return mask;
}

/**
 * core_choose_copy - where one more replica of a segment goes
 * @core: core
 * @seg: has at least one
 * Return: CORE_BACKUPS when there is no place.
 */
uint32_t core_choose_copy(const struct core *core, const struct core_segment *seg)
{
	return core_choose_one(core, seg->on | seg->listed, seg->item.segment % core->nr_backups,
			       core_segments_left(core));
}

/**
 * core_join - take in those that are to become members
 * @core: core, about to make the record that says so
 *
 * Segments may be put on them from now on: what lists those comes in later records.
 * Return: a mask of them.
 */
uint32_t core_join(struct core *core)
{
	uint32_t joiners = core->joining & ~core->map.mask, b;

	core->joining &= ~joiners;
	core->members |= joiners;
	core_each_backup(b, joiners)
		core_keep_join(core, b);
	core->was_member |= joiners;
	core->copies |= joiners != 0;
	return joiners;
}

/**
 * core_frame_free - a frame of a backup may be used again
 * @core: core
 * @backup: its number; nothing happens if it is lost or left
 * @frame: no durable digest lists it
 */
void core_frame_free(struct core *core, uint32_t backup, uint32_t frame)
{
	if (core_alive(core) >> backup & 1u)
		core->free_frames[backup][core->nr_free[backup]++] = frame;
}

/**
 * core_shrunk - a digest with fewer members is durable
 * @core: core
 * @members: those that are left
 */
void core_shrunk(struct core *core, uint32_t members)
{
	uint32_t i;

	core->members = members;
	core->lost &= members;
	for (i = 0; i < core->nr_segments; i++) {
		struct core_segment *seg = &core->segments[i];

		if (!seg->life)
			continue;
		seg->on &= members;
		seg->listed &= members;
		seg->bad &= members;
		seg->kept &= members | core->joining;
		if (!seg->on && seg->life != CORE_HEADER) {
			core_fail(core, "segment %llu: its last replica is lost",
				  (unsigned long long)seg->item.segment);
			return;
		}
	}
	core->copies = true;
}

/* Not listed yet, so nothing has been acknowledged that would need it. */
static void core_lost_header(struct core *core, struct core_open *open, uint32_t backup)
{
	struct core_segment *seg = open->segment;

	if (!seg || seg->life != CORE_HEADER)
		return;
	seg->on &= ~(1u << backup);
	if (seg->on) {
		core_header_check(core, open);
		return;
	}
	open->segment = NULL;
	core_segment_free(core, seg);
}

/**
 * core_lost - no more requests to a backup
 * @core: core
 * @backup: its index
 * @why: for the operator
 */
void core_lost(struct core *core, uint32_t backup, const char *why)
{
	uint32_t left = core_alive(core) & ~(1u << backup) & core->map.mask, i;

	if (!(core_alive(core) >> backup & 1u) || core->state == CORE_FAILED)
		return;
	if (!left) {
		core_fail(core, "%s: the replica is lost", why);
		return;
	}
	/* A recovery could read others, and go on without what comes now. */
	if (!digest_counts(&core->map, left)) {
		core_fail(core, "%s: the replica is lost, and of %u backups %u are left, in too few failure domains for a digest to count",
			  why, __builtin_popcount(core->map.mask), __builtin_popcount(left));
		return;
	}
	core->lost |= 1u << backup;
	core->nr_free[backup] = 0;
	if (core->copy.segment != CORE_NONE &&
	    (core->copy.from == backup || core->copy.to == backup))
		core_copy_stop(core, core->copy.segment);
	for (i = core->nr_opens; i-- > 0;) {
		if (core->list[i]->segment)
			core_extend_stop(core->list[i]->segment, backup);
		core_lost_header(core, core->list[i], backup);
	}
	core->urgent = true;
	core->changes++;
	core_record_check(core);
}

void core_lose(struct core *core, uint32_t backup, const char *why)
{
	if (backup >= core->nr_backups)
		return;
	core_lost(core, backup, why);
	core_run(core);
}

const struct lsmem_super *core_super(const struct core *core, struct digest_log *log)
{
	log->term = core->map.term;
	log->branch = core->map.branch;
	return &core->super[__builtin_ctz(core_alive(core))];
}

uint32_t core_incarnation(const struct core *core, uint32_t backup)
{
	return (uint32_t)__le64_to_cpu(core->super[backup].incarnation);
}

bool core_add(struct core *core, uint32_t backup, const struct lsmem_super *super,
	      uint32_t domain, const struct digest_past *past)
{
	if (core->state != CORE_RUNNING || backup >= core->nr_backups ||
	    (core->members | core->joining) >> backup & 1u ||
	    (core->nr_ops[backup] && RULE(ADD_QUIET)) ||
	    __le64_to_cpu(super->frames) > core->map.frames)
		return false;
	core->super[backup] = *super;
	core->domain[backup] = core->domains ? domain : backup;
	core->flush_wanted[backup] = false;
	core->flushing[backup] = false;
	core->joining |= 1u << backup;
	if (past)
		core_keep_past(core, backup, past);
	core_run(core);
	return true;
}
