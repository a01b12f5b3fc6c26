// SPDX-License-Identifier: GPL-2.0
/*
 * The oracle.  After a crash each index must be in the state of its last acknowledged operation or
 * of a later one that was applied.  An older state is wrong, and so is that of an operation that
 * was refused, or an object whose free was acknowledged.  Operations that were acknowledged because
 * backups had received them must be found if none of these backups has failed.  A group is found whole
 * or not at all.
 *
 * Operations of all generations of an index are in one list, in the order of their exchanges: a
 * newer generation begins after the older one was freed.
 */
#include <stdlib.h>
#include <string.h>

#include "model.h"

void oracle_applied(struct model *m, uint64_t key, uint64_t version, uint32_t length,
		    const struct model_pending *pending, uint64_t segment)
{
	struct oracle *o = &m->oracle;

	if (o->nr_ops == o->room_ops) {
		o->room_ops = o->room_ops ? 2 * o->room_ops : 256;
		o->ops = realloc(o->ops, o->room_ops * sizeof(*o->ops));
	}
	o->ops[o->nr_ops++] = (struct oracle_op) {
		.key = key, .version = version, .segment = segment, .length = length,
		.end = pending->end, .group = pending->group, .free = pending->free,
	};
	if (segment > o->segment)
		o->segment = segment;
	if (version >> LSMEM_VERSION_TIME_BITS > o->era)
		o->era = version >> LSMEM_VERSION_TIME_BITS;
}

void oracle_acked(struct model *m, uint64_t segment, uint32_t to)
{
	struct oracle *o = &m->oracle;
	uint32_t i;

	for (i = 0; i < o->nr_ops; i++) {
		struct oracle_op *op = &o->ops[i];

		if (op->segment == segment && op->end <= to && !op->acked) {
			op->acked = true;
			o->acked++;
			if (lsmem_version_time(op->version) > o->time)
				o->time = lsmem_version_time(op->version);
		}
	}
}

void oracle_received(struct model *m, uint64_t segment, uint32_t to)
{
	struct oracle *o = &m->oracle;
	uint32_t i;

	for (i = 0; i < o->nr_ops; i++) {
		struct oracle_op *op = &o->ops[i];

		if (op->segment != segment || op->end > to || op->acked || op->received)
			continue;
		op->received = true;
		o->received++;
	}
}

bool oracle_all_acked(const struct model *m)
{
	uint32_t i;

	for (i = 0; i < m->oracle.nr_ops; i++)
		if (!m->oracle.ops[i].acked)
			return false;
	return true;
}

/* A recovery begins: forget the results of an earlier attempt. */
void oracle_begin(struct model *m)
{
	memset(m->oracle.found, 0, sizeof(m->oracle.found));
}

void oracle_found(struct model *m, uint64_t key, uint64_t version, uint32_t length)
{
	uint32_t index = lsmem_handle_index(key);

	m->oracle.found[index].key = key;
	m->oracle.found[index].version = version;
	m->oracle.found[index].length = length;
}

static bool oracle_is(const struct model *m, uint32_t index, const struct oracle_op *op)
{
	if (op->free)
		return !m->oracle.found[index].key;
	return m->oracle.found[index].key == op->key &&
	       m->oracle.found[index].version == op->version &&
	       m->oracle.found[index].length == op->length;
}

static struct oracle_op oracle_base(const struct model *m, uint32_t index)
{
	return (struct oracle_op) {
		.key = m->oracle.base[index].key, .version = m->oracle.base[index].version,
		.length = m->oracle.base[index].length, .free = !m->oracle.base[index].key,
	};
}

/* Can operation @n have been found (@in), or not, judged by its index alone? */
static bool oracle_may(const struct model *m, uint32_t n, bool in)
{
	const struct oracle *o = &m->oracle;
	uint32_t index = lsmem_handle_index(o->ops[n].key), i;
	struct oracle_op base = oracle_base(m, index);

	if (!in && oracle_is(m, index, &base))
		return true;
	for (i = in ? n : 0; i < o->nr_ops; i++)
		if ((in || i != n) && lsmem_handle_index(o->ops[i].key) == index &&
		    oracle_is(m, index, &o->ops[i]))
			return true;
	return false;
}

/* Invariant 21: a group is found whole or not at all. */
static void oracle_check_group(struct model *m, uint32_t first)
{
	struct oracle *o = &m->oracle;
	uint32_t group = o->ops[first].group, i;
	bool in = true, out = true;

	/* The operations of a group are applied together. */
	for (i = first; i < o->nr_ops && o->ops[i].group == group; i++) {
		in = in && oracle_may(m, i, true);
		out = out && oracle_may(m, i, false);
	}
	o->groups++;
	if (!in && !out)
		model_fail(m, "of the group with handle %#llx version %#llx only a part was found",
			   (unsigned long long)o->ops[first].key,
			   (unsigned long long)o->ops[first].version);
}

/* What was found is right? It is not taken for what is there from now on. */
void oracle_look(struct model *m)
{
	struct oracle *o = &m->oracle;
	uint32_t index, i, last;
	bool right;

	for (index = 0; index < MODEL_HANDLES; index++) {
		struct oracle_op base = oracle_base(m, index);

		for (last = o->nr_ops; last-- > 0;)
			if (lsmem_handle_index(o->ops[last].key) == index &&
			    (o->ops[last].acked || (o->alone && o->ops[last].received)))
				break;
		right = last == UINT32_MAX && oracle_is(m, index, &base);
		for (i = last == UINT32_MAX ? 0 : last; i < o->nr_ops && !right; i++)
			if (lsmem_handle_index(o->ops[i].key) == index)
				right = oracle_is(m, index, &o->ops[i]);
		o->checked++;
		if (right)
			continue;
		if (last != UINT32_MAX)
			base = o->ops[last];
		model_fail(m, "index %u: found %#llx version %#llx, last acknowledged %s %#llx version %#llx",
			   index, (unsigned long long)o->found[index].key,
			   (unsigned long long)o->found[index].version,
			   base.free ? "free of" : "write of", (unsigned long long)base.key,
			   (unsigned long long)base.version);
	}
	for (i = 0; i < o->nr_ops; i++)
		if (o->ops[i].group && (!i || o->ops[i].group != o->ops[i - 1].group))
			oracle_check_group(m, i);
}

/* A recovery is complete: check its result, which becomes the base for the next one. */
void oracle_check(struct model *m)
{
	struct oracle *o = &m->oracle;

	oracle_look(m);
	memcpy(o->base, o->found, sizeof(o->base));
	o->nr_ops = 0;
	o->alone = false;
}
