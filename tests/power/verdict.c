// SPDX-License-Identifier: GPL-2.0
/* What a verification finds, compared with the model. */
#include <stdio.h>

#include "acked.h"

#define COMPLAINTS	20u	/* most errors that are printed; all are counted */

static const char *what_of(uint8_t kind)
{
	switch (kind) {
	case 'o':
		return "object";
	case 'b':
		return "block";
	case 'p':
		return "page";
	case 'i':
		return "item";
	case 'm':
		return "item of the server";
	default:
		return "range";
	}
}

static bool state_equal(const struct state *want, const struct state *found)
{
	bool there = want->op == OP_ALLOC || want->op == OP_REPLACE;

	if (!there || found->op == OP_FREE)
		return !there && found->op == OP_FREE;
	return want->sequence == found->sequence && want->length == found->length;
}

/* May the slot have the state @found after pending operation @i?  The handle of an allocation may be unknown. */
static bool state_found(const struct state *s, const struct state *found)
{
	return !s->refused && (state_equal(s, found) ||
			       (s->op == OP_ALLOC && !s->handle && found->op == OP_FREE));
}

/*
 * What a slot shows of the groups that changed it, unless the state found is one both before and after that; and that
 * those which checked it are not there, if the state found is one before that alone.
 */
static void show_groups(struct oracle *o, const struct slot *slot, const struct state *found)
{
	int first = slot->nr_pending, last = -1, i;

	for (i = (int)slot->nr_pending - 1; i >= 0; i--) {
		if (!state_found(&slot->pending[i], found))
			continue;
		first = i;
		last = i > last ? i : last;
	}
	if (state_equal(&slot->base, found))
		first = -1;
	for (i = 0; i < (int)slot->nr_pending; i++) {
		const struct state *state = &slot->pending[i];

		if (state->refused)
			continue;
		o->checks += state->check && state->group && state->sequence != slot->base.sequence;
		if (i > last || (i <= first && !state->check))
			oracle_show(o, state->group, i <= first);
	}
}

void verify_slot(struct oracle *o, uint64_t number, const struct state *found, bool corrupt,
		 struct verdict *v)
{
	struct slot *slot = &o->slots[number];
	bool right = state_equal(&slot->base, found);
	struct record r;
	uint32_t i;

	v->checked++;
	v->present += found->op != OP_FREE;
	for (i = 0; i < slot->nr_pending; i++) {
		if (state_found(&slot->pending[i], found))
			right = true;
	}
	if (corrupt || !right) {
		if (v->lost + v->corrupt < COMPLAINTS)
			fprintf(stderr,
				"%s %llu: %s: found %s sequence %llu, acknowledged %s sequence %llu and %u later\n",
				what_of(o->kind), (unsigned long long)number,
				corrupt ? "corrupt" : "lost",
				found->op == OP_FREE ? "nothing," : "contents",
				(unsigned long long)found->sequence,
				slot->base.op == OP_ALLOC || slot->base.op == OP_REPLACE ?
				"contents" : "nothing,",
				(unsigned long long)slot->base.sequence, slot->nr_pending);
		if (corrupt)
			v->corrupt++;
		else
			v->lost++;
		return;
	}
	if (!slot->nr_pending)
		return;
	show_groups(o, slot, found);
	v->resolved++;
	record_fill(&r, o->kind, RESOLVED, found->op, slot->thread);
	r.slot = number;
	r.sequence = found->sequence;
	r.handle = found->handle;
	r.length = found->length;
	record_seal(&r);
	journal_write(&r, 1);
	oracle_take(o, &r);
}
