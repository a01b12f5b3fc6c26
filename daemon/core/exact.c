// SPDX-License-Identifier: GPL-2.0
/*
 * Segments in which nothing lies beyond what the digest lists (invariant 23).
 *
 * Bytes that were acknowledged can be missing on a drive. So a recovery looks for commit records
 * beyond the end of an open segment, up to the end of its frame; and of the segments that are open
 * most are spares, which no data were written to. Each record names an id: segments from there on
 * have no log data beyond the lengths that the record lists.
 *
 *	core runs	segments behind those that have data, and behind the next one that a head takes
 *	core has ended	all: everything that was committed is durable, and the record lists it
 *
 * Before core writes to another segment, it makes a record that names a higher id. That rarely
 * delays a write: a head that takes a spare makes the kernel open another one, whose record names
 * the spare that comes next.
 *
 * Heads take the oldest spare that they can, so an id is enough to tell spares from heads. If they
 * took another one, recovery would only read more, or a write would wait for a record.
 */
#include "private.h"

/* Were log data written to the segment, or are they going to be? */
static bool core_has_data(const struct core_open *open)
{
	/* A former daemon can have written everything up to @hold. */
	return open->committed || open->hold;
}

/* Do backups have nothing of a segment but what is durable? */
static bool core_exact_one(const struct core_open *open)
{
	return open->durable >= open->committed && open->durable >= open->hold;
}

static bool core_exact_all(const struct core *core)
{
	uint32_t i;

	for (i = 0; i < core->nr_opens; i++)
		if (!core_exact_one(core->list[i]))
			return false;
	return true;
}

/**
 * core_exact - the id from which on a record made now calls lengths exact
 * @core: core
 *
 * The id never decreases while core runs: core may write to segments below that of the last record
 * until the next one is durable.
 *
 * Return: the id, at least 1.
 */
uint64_t core_exact(const struct core *core)
{
	uint64_t written = 1, next = UINT64_MAX, id;
	uint32_t i;

	if (core->state == CORE_DRAINING && core_exact_all(core))
		return 1;
	for (i = 0; i < core->nr_opens; i++) {
		id = core->list[i]->event.segment;
		if (core_has_data(core->list[i]) && id >= written)
			written = id + 1;
	}
	for (i = 0; i < core->nr_opens; i++) {
		id = core->list[i]->event.segment;
		if (id >= written && id < next)
			next = id;
	}
	if (next != UINT64_MAX)
		written = next + 1;
	return written > core->map.exact ? written : core->map.exact;
}

/**
 * core_exact_allows - may log data be written to a segment?
 * @core: core; if the segment needs a record first, that is going to be made
 * @open: the segment
 *
 * A record that is being written counts too: it can be durable before the data are. What is durable already is
 * written to a replica that is made anew, while core drains too: it was allowed before, or the record lists it.
 */
bool core_exact_allows(struct core *core, const struct core_open *open)
{
	const struct core_record *record = &core->record;
	uint64_t segment = open->event.segment;
	bool now = !core->map.exact || segment < core->map.exact;
	bool next = !record->under_way || segment < record->map.exact;

	if ((now && next) || core_exact_one(open) || !RULE(EXACT))
		return true;
	if (!next || !record->under_way)
		core->urgent = true;
	return false;
}
