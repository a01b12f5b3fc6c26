// SPDX-License-Identifier: GPL-2.0
/*
 * The set of backups: places for replicas, backups that are lost, backups that join.
 *
 * A lost backup gets no more requests, but counts for what is durable until a durable digest has
 * removed it from the members (invariant 3). Until then core acknowledges nothing of the segments
 * on it. If there is a crash before this digest, a recovery that uses the backup finds everything
 * that was acknowledged. After the digest, a recovery refuses to use the backup alone.
 */
#include "../../kmod/policy.h"
#include "private.h"

uint32_t core_domains_left(const struct core *core)
{
	return format_domains(core->domain, core_alive(core));
}

/**
 * core_wanted - count the replicas that a segment should have with the present backups
 * @core: core
 */
uint32_t core_wanted(const struct core *core)
{
	uint32_t domains = core_domains_left(core);

	return core->replicas && core->replicas < domains ? core->replicas : domains;
}

/* Count the free frames in the failure domain of a backup. */
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
 * core_left_without - as core_left_of(), if a backup had one free frame less
 * @core: core
 * @nr: frames, no two in one failure domain
 * @less: the backup; CORE_BACKUPS: none has
 */
uint32_t core_left_without(const struct core *core, uint32_t nr, uint32_t less)
{
	uint64_t frames[CORE_BACKUPS] = { 0 };
	uint32_t b;

	core_each_backup(b, core_alive(core))
		frames[b] = core->nr_free[b] - (b == less);
	return nr ? format_segments_of(frames, core->domain, core->nr_backups, nr) : 0;
}

/**
 * core_left_of - count how often so many frames are free
 * @core: core
 * @nr: frames, no two in one failure domain
 */
uint32_t core_left_of(const struct core *core, uint32_t nr)
{
	return core_left_without(core, nr, CORE_BACKUPS);
}

/**
 * core_segments_left - count the segments that there are frames for
 * @core: core
 *
 * Return: new segments that can have core_wanted() replicas; if new segments are coded: core_lanes_left().
 */
uint32_t core_segments_left(const struct core *core)
{
	return core->coding ? core_lanes_left(core) : core_left_of(core, core_wanted(core));
}

/*
 * Is @a a better place than @b? There are frames for @left more segments. A domain with at least so
 * many free frames comes first: a segment that did not use it would leave frames that no segment
 * can use. Then comes the backup with the larger share of free frames: so backups of all sizes fill
 * evenly, and a recovery reads from all of them.
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
 * core_domain_taken - is any of several backups in the failure domain of a backup?
 * @core: core
 * @taken: mask of the several backups
 * @b: index of the backup
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
 * Choose the best place outside the domains of @taken; of equal ones the next from index @first on.
 * There are frames for @left more segments. Return: CORE_BACKUPS: there is no place.
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
 * core_choose - choose the backups for the replicas of a new segment
 * @core: core
 * @id: of the segment
 *
 * Return: a mask of backups; 0: there are not enough frames.
 */
uint32_t core_choose(const struct core *core, uint64_t id)
{
	uint32_t wanted = core_wanted(core);

	return core_choose_some(core, id, wanted, core_left_of(core, wanted));
}

/**
 * core_choose_some - choose backups in different failure domains
 * @core: core
 * @id: of a segment: where to begin, of equal places
 * @nr: how many
 * @left: core_left_of() this number
 *
 * Return: a mask of backups; 0: there are not enough frames.
 */
uint32_t core_choose_some(const struct core *core, uint64_t id, uint32_t nr, uint32_t left)
{
	uint32_t mask = 0, b;

	for (; nr; nr--) {
		b = core_choose_one(core, mask, id % core->nr_backups, left);
		if (b == CORE_BACKUPS)
			return 0;
		mask |= 1u << b;
	}
	return mask;
}

/**
 * core_choose_shard - choose the backup for one more shard of a stripe
 * @core: core
 * @taken: mask of the backups that have a shard
 * @first: number of the stripe: where to begin, of equal places
 *
 * Return: the backup; CORE_BACKUPS: there is no place.
 */
uint32_t core_choose_shard(const struct core *core, uint32_t taken, uint32_t first)
{
	return core_choose_one(core, taken, first % core->nr_backups, core_left_of(core, core_shards(core)));
}

/**
 * core_choose_more - choose the backup for one more replica of a segment
 * @core: core
 * @seg: has at least one replica
 *
 * Return: the backup; CORE_BACKUPS: there is no place.
 */
uint32_t core_choose_more(const struct core *core, const struct core_segment *seg)
{
	return core_choose_one(core, seg->on | seg->listed, seg->item.segment % core->nr_backups,
			       core_left_of(core, core_wanted(core)));
}

/**
 * core_choose_copy - choose the backup for a copy of a closed or sealed segment
 * @core: core
 * @seg: has at least one replica
 *
 * The last frames are left for new segments, and for replicas of open ones, for which writers wait: if copies took
 * them, nothing could be cleaned, so no frame would ever become free, and writers would wait for ever.
 *
 * Return: the backup; CORE_BACKUPS: there is no place.
 */
uint32_t core_choose_copy(const struct core *core, const struct core_segment *seg)
{
	uint32_t to = core_choose_more(core, seg), wanted = core_wanted(core), left = core_left_of(core, wanted), after;

	if (to == CORE_BACKUPS)
		return to;
	/* What open segments have room for counts as well, as it does for the kernel. */
	after = core_left_without(core, wanted, to);
	return after == left || core_frames_left(core) - (left - after) >= LSMEM_SEGMENTS_RESERVE ?
	       to : CORE_BACKUPS;
}

/**
 * core_join - make the joining backups members
 * @core: core, about to make the record that names them as members
 *
 * New segments can have replicas on them from now on; later records list these.
 *
 * Return: a mask of the new members.
 */
uint32_t core_join(struct core *core)
{
	uint32_t joiners = core->joining & ~core->map.mask, b;

	core->joining &= ~joiners;
	core->members |= joiners;
	core->stripes_changed = true;
	core_rebuild_retry(core);
	core_each_backup(b, joiners)
		core_keep_join(core, b);
	core->was_member |= joiners;
	core->copies |= joiners != 0;
	return joiners;
}

/**
 * core_frame_free - make a frame of a backup free
 * @core: core
 * @backup: index of the backup; nothing happens if the backup is lost or no member
 * @frame: no durable digest lists it
 */
void core_frame_free(struct core *core, uint32_t backup, uint32_t frame)
{
	if (core_alive(core) >> backup & 1u)
		core->free_frames[backup][core->nr_free[backup]++] = frame;
}

/**
 * core_shrunk - take note that a durable digest has fewer members
 * @core: core
 * @members: mask of the members that are left
 */
void core_shrunk(struct core *core, uint32_t members)
{
	uint32_t i, b;

	core->members = members;
	core->lost &= members;
	core->stripes_changed = true;
	core_rebuild_retry(core);
	for (i = 0; i < core->nr_segments; i++) {
		struct core_segment *seg = &core->segments[i];

		if (!seg->life)
			continue;
		core_each_backup(b, seg->open && seg->open->rows ? seg->on & ~members : 0)
			core_rows_shrunk(seg->open->rows, b);
		seg->on &= members;
		seg->listed &= members;
		seg->bad &= members;
		seg->kept &= members | core->joining;
		if (!core_readable(core, seg, seg->on) && seg->life != CORE_HEADER) {
			core_fail(core, "segment %llu: its last %s lost", (unsigned long long)seg->item.segment,
				  seg->coded ? "shards that it can be read from are" : "replica is");
			return;
		}
	}
	core->copies = true;
}

/* A segment that is not listed yet goes on without a lost backup: nothing is acknowledged of it. */
static void core_lost_header(struct core *core, struct core_open *open, uint32_t backup)
{
	struct core_segment *seg = open->segment;

	if (!seg || seg->life != CORE_HEADER || !(seg->on >> backup & 1u))
		return;
	if (open->rows)
		core_rows_shrunk(open->rows, backup);
	seg->on &= ~(1u << backup);
	if (seg->on || seg->coded) {
		core_header_check(core, open);
		return;
	}
	open->segment = NULL;
	core_segment_free(core, seg);
}

/**
 * core_backup_stop - start no more requests to a backup
 * @core: core; fails if it cannot go on without the backup
 * @backup: its index; nothing happens if it is no member, or lost
 * @why: for core_error()
 */
void core_backup_stop(struct core *core, uint32_t backup, const char *why)
{
	uint32_t left = core_alive(core) & ~(1u << backup) & core->map.mask, i;

	if (!(core_alive(core) >> backup & 1u) || core->state == CORE_FAILED)
		return;
	if (!left) {
		core_fail(core, "%s: no other backup is left", why);
		return;
	}
	/* Otherwise a recovery could read the other backups only, and miss what comes now. */
	if (!digest_counts(&core->map, left)) {
		core_fail(core, "%s: of %u backups %u are left, in too few failure domains for a digest to count",
			  why, __builtin_popcount(core->map.mask), __builtin_popcount(left));
		return;
	}
	core->lost |= 1u << backup;
	core->nr_free[backup] = 0;
	core_rebuild_lost(core, backup);
	core_stripes_lose(core, backup);
	core_keep_lose(core, backup);
	if (core->copy.segment != CORE_NONE &&
	    (core->copy.from == backup || core->copy.to == backup))
		core_copy_stop(core, core->copy.segment);
	for (i = core->nr_opens; i-- > 0;) {
		if (core->list[i]->segment)
			core_extend_stop(core->list[i]->segment, backup);
		if (core->list[i]->rows)
			core_rows_lost(core->list[i]->rows, backup);
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
	core_backup_stop(core, backup, why);
	core_run(core);
}

const struct lsmem_super *core_super(const struct core *core, struct digest_log *log)
{
	uint32_t b;

	log->term = core->map.term;
	log->branch = core->map.branch;
	for (b = 0; b < LSMEM_BACKUPS; b++)
		log->members[b] = core_incarnation(core, b);
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
