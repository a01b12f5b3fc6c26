// SPDX-License-Identifier: GPL-2.0
/*
 * The digest logs of all backups: which digest is the newest, which backups are its members, and
 * whether recovery can read enough of them to rely on it.
 *
 * The digest log of a backup that newer digests have dropped is consistent, but ends too early.
 * digest_enough() decides, by the members that can be read, whether the newest digest found is the
 * newest of all. If a recovery was cut off, and a later one did not see its records, these have
 * a lower term than the records of the later recovery: see recover_promise().
 */
#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "private.h"

/* Write a record to the beginning of half @half of one backup, and flush it. */
static int recover_write_record(struct recover *r, uint32_t slot, uint32_t half,
				const uint8_t *record, uint64_t bytes)
{
	uint64_t where = format_half_offset(&r->backups[slot].super, half), done;
	uint32_t part;
	int ret = 0;

	for (done = 0; done < bytes && !ret; done += part) {
		part = bytes - done < LSMEM_SEGMENT_BYTES ? bytes - done : LSMEM_SEGMENT_BYTES;
		ret = r->env.write(r->env.context, recover_address(slot, where + done),
				   record + done, part);
	}
	if (!ret && RULE(COMMIT_FLUSH))
		ret = r->env.flush(r->env.context, slot);
	return ret;
}

/**
 * recover_write_digest - write the map as a full record to all members
 * @r: recovery
 * @half: to the beginning of this half; on backups of @map.odd, of the other one
 *
 * Return: 0: the record is durable; -ENOMEM; or what a call returned.
 */
int recover_write_digest(struct recover *r, uint32_t half)
{
	uint64_t bytes = digest_full_bytes(&r->map);
	uint8_t *record = memory_get(bytes);
	uint32_t index, slot;
	int ret = 0;

	if (!record)
		return -ENOMEM;
	memset(record, 0, bytes);
	r->map.exact = 1;	/* no segment is open any more */
	digest_full((struct lsmem_digest *)record, &r->map, &r->super);
	for (index = 0; index < r->map.backups && !ret; index++) {
		slot = recover_slot(r, index);
		if (slot != RECOVER_NONE)
			ret = recover_write_record(r, slot, half ^ (r->map.odd >> index & 1u),
						   record, bytes);
	}
	memory_put(record);
	r->map.half = half;
	r->map.at = bytes;
	r->map.sequence_seen = r->map.sequence;
	return ret;
}

/**
 * recover_members - make the members that are there the members of the new digest
 * @r: recovery; @map is the digest to be written
 */
void recover_members(struct recover *r)
{
	struct digest_map *map = &r->map;
	uint8_t domain[LSMEM_BACKUPS] = { 0 };
	uint32_t mask = 0, slot, b;

	for (slot = 0; slot < LSMEM_BACKUPS; slot++) {
		b = r->backups[slot].index;
		if (!r->backups[slot].there || b == RECOVER_NONE)
			continue;
		mask |= 1u << b;
		domain[b] = r->domains ? r->env.domain[slot] + 1 : 0;
	}
	if (mask != map->mask || memcmp(domain, map->domain, sizeof(domain)))
		map->set_generation++;
	map->mask = mask;
	memcpy(map->domain, domain, sizeof(domain));
	map->floor = digest_floor(map);
	for (b = 0; b < LSMEM_BACKUPS; b++)
		if (!(mask >> b & 1u))
			map->members[b] = 0;
}

/**
 * recover_read_log - read the newest digest of one backup
 * @r: recovery
 * @slot: of the backup
 *
 * Return: 0, also if there is no digest or it contradicts itself, which is reported; -ENOMEM; or
 * what a call returned.
 */
int recover_read_log(struct recover *r, uint32_t slot)
{
	struct recover_backup *backup = &r->backups[slot];
	const struct lsmem_super *super = &backup->super;
	uint64_t length = 2 * __le64_to_cpu(super->digest_bytes), done;
	enum format_error error;
	const char *why;
	uint8_t *halves;
	uint32_t part;
	int ret = 0;

	backup->chain = false;
	/* A killed daemon may have left writes that are not durable. Before recovery relies on
	 * what it reads, and overwrites the other half of the digest log, this must be durable.
	 */
	if (!r->check && RULE(RESUME_FLUSH))
		ret = r->env.flush(r->env.context, slot);
	if (ret)
		return ret;
	halves = memory_get(length);
	if (!halves)
		return -ENOMEM;
	for (done = 0; done < length && !ret; done += part) {
		part = length - done < LSMEM_SEGMENT_BYTES ? length - done : LSMEM_SEGMENT_BYTES;
		ret = recover_read(r, recover_address(slot, __le64_to_cpu(super->digest_start) +
						      done), halves + done, part);
	}
	digest_map_destroy(&backup->map);
	if (!ret)
		ret = digest_map_init(&backup->map, format_backups(super),
				      format_set_frames(super));
	if (!ret && format_coded(super))
		ret = digest_map_code(&backup->map);
	if (!ret) {
		error = digest_read(&backup->map, super, halves);
		why = error == FORMAT_ZERO ? "there is no digest" :
					     "a digest contradicts the one before it";
		backup->chain = !error;
		if (error && !r->several)
			recover_damage(r, "digest log: %s", why);
		else if (error)
			recover_info(r, "%s: digest log: %s", recover_name(r, slot), why);
	}
	memory_put(halves);
	return ret;
}

/**
 * recover_index - find the index of a backup in a digest
 * @r: recovery
 * @map: the digest
 * @slot: of the backup, whose superblock was read
 *
 * Return: the index; RECOVER_NONE: the backup is no member.
 */
uint32_t recover_index(const struct recover *r, const struct digest_map *map, uint32_t slot)
{
	const struct lsmem_super *super = &r->backups[slot].super;
	uint32_t incarnation = __le64_to_cpu(super->incarnation), b;

	if (format_backups(super) == 1)
		return 0;
	for (b = 0; b < map->backups; b++)
		if (map->mask >> b & 1u && map->members[b] == incarnation)
			return b;
	return RECOVER_NONE;
}

static uint32_t recover_newest(const struct recover *r)
{
	uint32_t best = RECOVER_NONE, slot;

	for (slot = 0; slot < LSMEM_BACKUPS; slot++) {
		const struct recover_backup *backup = &r->backups[slot];
		const struct digest_map *map = &backup->map;

		if (!backup->there || !backup->chain)
			continue;
		if (best == RECOVER_NONE || map->term > r->backups[best].map.term ||
		    (map->term == r->backups[best].map.term &&
		     map->sequence > r->backups[best].map.sequence))
			best = slot;
	}
	return best;
}

/*
 * Are enough of the members there? Otherwise the newest digest found can be that of a backup that
 * newer digests have dropped.
 */
static bool recover_enough(struct recover *r, uint32_t members, bool accept_missing)
{
	uint32_t have = __builtin_popcount(members), need, b;
	const struct digest_map *map = &r->map;

	if (digest_enough(map, members) || !RULE(READ_QUORUM))
		return true;
	for (b = 0; b < map->backups; b++)
		if (map->mask >> b & 1u && recover_slot(r, b) == RECOVER_NONE)
			recover_info(r, "the backup with incarnation ..%08x is not there",
				     map->members[b]);
	if (accept_missing) {
		recover_info(r, "%u of %u backups are there: going on without the others",
			     have, __builtin_popcount(map->mask));
		r->accepted = true;
		return true;
	}
	need = digest_need(map);
	recover_damage(r, "%u of %u backups of digest %llu are there; only %u%s can tell that there is no newer digest",
		       have, __builtin_popcount(map->mask), (unsigned long long)map->sequence,
		       need, have < need ? "" : " of other failure domains");
	return false;
}

/* Set the index of each backup in the newest digest. Return: a mask of the members there are. */
static uint32_t recover_assign(struct recover *r, uint32_t best)
{
	struct digest_map *map = &r->map;
	uint32_t members = 0, slot;

	map->odd = 0;
	for (slot = 0; slot < LSMEM_BACKUPS; slot++) {
		struct recover_backup *backup = &r->backups[slot];

		backup->index = RECOVER_NONE;
		backup->may_join = backup->blank;
		if (!backup->there)
			continue;
		backup->may_join = recover_index(r, map, slot) == RECOVER_NONE;
		/* A member whose digest log cannot be read does not count: it could have a newer
		 * digest.
		 */
		if (backup->chain)
			backup->index = recover_index(r, map, slot);
		if (backup->index == RECOVER_NONE) {
			recover_info(r, "%s was left behind, at digest %llu: what is on it is not used",
				     recover_name(r, slot), (unsigned long long)backup->map.sequence);
			continue;
		}
		members |= 1u << backup->index;
		map->odd |= (backup->map.half != r->backups[best].map.half) << backup->index;
		if (backup->map.sequence_seen > map->sequence_seen)
			map->sequence_seen = backup->map.sequence_seen;
	}
	return members;
}

/*
 * Have two backups been recovered without each other, and are they in the same term? Then recovery
 * cannot tell which of them has the data that are wanted.
 */
static bool recover_two_branches(struct recover *r)
{
	uint32_t slot;

	for (slot = 0; slot < r->several; slot++) {
		const struct recover_backup *backup = &r->backups[slot];

		if (!backup->there || !backup->chain || backup->index != RECOVER_NONE ||
		    backup->map.term != r->map.term || !RULE(BRANCH) ||
		    !digest_split(&backup->map, &r->map.branch))
			continue;
		recover_damage(r, "split brain: %s has gone on to digest %llu without the others, and they to digest %llu without it, all in term %llu; use \"lsmemctl format --force\" on those whose data are not needed",
			       recover_name(r, slot), (unsigned long long)backup->map.sequence,
			       (unsigned long long)r->map.sequence,
			       (unsigned long long)r->map.term);
		return true;
	}
	return false;
}

/**
 * recover_read_digests - find the newest digest and its members
 * @r: recovery
 * @accept_missing: go on even if too few members are there
 *
 * If there were newer digests than the newest one found, they are reported as lost.
 *
 * Return: 0; -EBADMSG: there is no digest; -ENODATA: too few members are there, or some backups
 * have been recovered apart from each other; -ENOMEM; or what a call returned.
 */
int recover_read_digests(struct recover *r, bool accept_missing)
{
	uint32_t slot, best, members;
	int ret;

	r->accepted = false;
	for (slot = 0; slot < LSMEM_BACKUPS; slot++) {
		if (!r->backups[slot].there)
			continue;
		ret = recover_read_log(r, slot);
		if (ret && (!r->several || ret == -ECANCELED || ret == -ENOMEM))
			return ret;
		if (ret)
			recover_info(r, "%s: its digest log cannot be read: %s",
				     recover_name(r, slot), strerror(-ret));
	}
	best = recover_newest(r);
	if (best == RECOVER_NONE) {
		if (r->several)
			recover_damage(r, "digest log: no backup has a digest");
		return -EBADMSG;
	}
	digest_map_destroy(&r->map);
	r->map = r->backups[best].map;
	r->backups[best].map.items = NULL;
	r->backups[best].map.stripes = NULL;
	members = recover_assign(r, best);
	if (!recover_enough(r, members, accept_missing) || recover_two_branches(r))
		return -ENODATA;
	if (r->map.sequence_seen > r->map.sequence && RULE(PROOF_DIGEST))
		recover_damage(r, "digest log: digests %llu to %llu are lost",
			       (unsigned long long)r->map.sequence + 1,
			       (unsigned long long)r->map.sequence_seen);
	return 0;
}

/**
 * recover_map - read the digest logs, and nothing else
 * @r: recover_open() returned RECOVER_FULL
 * @accept_missing: as in struct recover_options
 *
 * A daemon that resumes an active store uses this.
 *
 * Return: 0; -EBADMSG: there is no digest; -ENODATA: too few members are there, some backups have
 * been recovered apart from each other, or newer digests are lost; -ENOMEM; or what a call
 * returned. The first two are reported.
 */
int recover_map(struct recover *r, bool accept_missing)
{
	int ret = recover_read_digests(r, accept_missing);

	if (!ret && r->map.sequence_seen > r->map.sequence)
		ret = -ENODATA;
	return ret;
}
