// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that holds a part of the objects, in segments, as in a store whose capacity exceeds its
 * memory.  All objects have one size.
 *
 * Writes append to a head, fetches to another one; a head takes seglets as it fills.  When memory
 * has no free seglet, room is made.  If compaction of the emptiest segment is cheap
 * (LSMEM_EVICT_COST), that is done; else the hand sweeps the segment whose turn it is: it drops
 * objects, and packs what it keeps into fewer seglets of the same segment.  Heads are not swept.
 * What is dropped can be read again, by a fetch, because backups have everything.  Backups and
 * combined cleaning are not simulated.
 *
 * The policy "half-spread" is that of the module: lsmem_policy_turn() and lsmem_policy_keep().  The
 * other policies are there to be compared with it.  For single objects, segments have one object.
 */
#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <string.h>

#include "tier.h"
#include "../../tests/common/random.h"
#include "../../kmod/policy.h"

#define NONE		(~0u)
#define SAMPLE		1024u	/* requests from one sample of memory to the next */
#define PROBATION	10u	/* s3-fifo: percent of the memory that what is new may have */
#define AGE_BITS	40u	/* of an age in steps, and of an id */

/**
 * struct object - an object
 * @written: time of the last write, in requests
 * @evicted: number of objects that had come into memory when this one was evicted; 0: never
 * @segment: index of its segment, NONE if it is not in memory
 * @index: of the object in the segment
 * @interval: lsmem_policy_interval()
 * @touched: the touched bit
 */
struct object {
	uint64_t written;
	uint64_t evicted;
	uint32_t segment;
	uint32_t index;
	uint8_t interval;
	bool touched;
};

/**
 * struct segment - a segment in memory
 * @id: grows with each segment that is opened; 0: free
 * @stamp: step at which it was opened, or the hand last swept it
 * @round: sieve: the round in which the hand sweeps it next
 * @objects: numbers of the objects in it, @used; one that is not live is somewhere else or dropped
 * @used: objects appended since it was opened or packed
 * @live: of these, objects in memory
 * @seglets: seglets that it holds
 * @swept: the hand has swept it
 * @closed: it is no head
 */
struct segment {
	uint64_t id;
	uint64_t stamp;
	uint64_t round;
	uint32_t *objects;
	uint32_t used;
	uint32_t live;
	uint32_t seglets;
	bool swept;
	bool closed;
};

enum tier_head { HEAD_WRITE, HEAD_FETCH, HEAD_KEPT, HEADS };

/* A segment and its turn. */
struct planned {
	uint64_t turn;
	uint64_t id;
	uint32_t segment;
};

struct tier {
	const struct tier_settings *set;
	const struct tier_policy *policy;
	struct object *objects;
	struct segment *segments;
	uint32_t *free;			/* indexes of free segments */
	uint32_t *moving;		/* objects that move to HEAD_KEPT */
	struct planned *plan;		/* the last comes first */
	uint64_t clock;			/* requests */
	uint64_t steps;			/* segments opened and segments swept */
	uint64_t ids;			/* segments opened */
	uint64_t arrived;		/* objects that came into memory */
	uint64_t round;			/* of the segment swept last */
	uint64_t random;
	uint64_t coldness;		/* interval: what is colder is dropped */
	int64_t free_seglets;
	uint32_t nr_segments;
	uint32_t nr_free;
	uint32_t nr_plan;
	uint32_t per_seglet;		/* objects in a seglet */
	uint32_t live;			/* objects in memory */
	uint32_t fresh;			/* of these, objects in segments that were never swept */
	uint32_t heads[HEADS];
	struct tier_result result;
};

/**
 * struct tier_policy - which segment the hand sweeps next, and what it keeps there
 * @name: name on the command line
 * @turn: the segment with the largest comes next
 * @keep: does an object stay
 * @new: clock: the age of a segment that was never swept counts so many times
 */
struct tier_policy {
	const char *name;
	uint64_t (*turn)(struct tier *t, const struct segment *seg);
	bool (*keep)(struct tier *t, const struct object *object);
	uint32_t new;
};

static uint64_t tier_age(const struct tier *t, const struct segment *seg)
{
	return t->steps - seg->stamp;
}

static uint64_t turn_random(struct tier *t, const struct segment *seg)
{
	(void)seg;
	return random_next(&t->random);
}

static uint64_t turn_clock(struct tier *t, const struct segment *seg)
{
	return tier_age(t, seg) * (seg->swept ? 1 : t->policy->new);
}

/* From the oldest segment to the youngest, and again. */
static uint64_t turn_sieve(struct tier *t, const struct segment *seg)
{
	(void)t;
	return ~(seg->round << AGE_BITS | seg->id);
}

/* What is new, while it has more than its share; else what was kept. */
static uint64_t turn_s3(struct tier *t, const struct segment *seg)
{
	bool much = t->fresh > (uint64_t)t->set->memory * PROBATION / 100;

	return tier_age(t, seg) + ((uint64_t)(seg->swept != much) << AGE_BITS);
}

static uint64_t turn_half_spread(struct tier *t, const struct segment *seg)
{
	return lsmem_policy_turn(seg->id, tier_age(t, seg), seg->swept);
}

static bool keep_none(struct tier *t, const struct object *object)
{
	(void)t;
	(void)object;
	return false;
}

static bool keep_touched(struct tier *t, const struct object *object)
{
	(void)t;
	return lsmem_policy_keep(object->touched);
}

/* The half that is expected to be written first; the limit follows what it sees. */
static bool keep_interval(struct tier *t, const struct object *object)
{
	bool keep = lsmem_policy_coldness(object->interval, t->clock - object->written) <
		    t->coldness;

	if (keep)
		t->coldness -= t->coldness >> 10;
	else
		t->coldness += (t->coldness >> 10) + 1;
	return keep;
}

static bool keep_either(struct tier *t, const struct object *object)
{
	return keep_touched(t, object) || (object->interval && keep_interval(t, object));
}

static const struct tier_policy policies[] = {
	{ "random", turn_random, keep_none, 0 },
	{ "fifo", turn_clock, keep_none, 1 },
	{ "interval", turn_half_spread, keep_interval, 0 },
	{ "clock", turn_clock, keep_touched, 1 },
	{ "sieve", turn_sieve, keep_touched, 0 },
	{ "s3-fifo", turn_s3, keep_touched, 0 },
	{ "half", turn_clock, keep_touched, 2 },
	{ "third", turn_clock, keep_touched, 3 },
	{ "quarter", turn_clock, keep_touched, 4 },
	{ "half-spread", turn_half_spread, keep_touched, 0 },
	{ "half-spread-interval", turn_half_spread, keep_either, 0 },
};

/**
 * tier_policies - get the names of all policies, for a usage text
 */
const char *tier_policies(void)
{
	return "random fifo interval clock sieve s3-fifo half third quarter half-spread half-spread-interval";
}

static bool tier_is_live(const struct tier *t, const struct segment *seg, uint32_t i)
{
	const struct object *object = &t->objects[seg->objects[i]];

	return object->segment == seg - t->segments && object->index == i;
}

static void tier_free(struct tier *t, struct segment *seg)
{
	t->free_seglets += seg->seglets;
	seg->id = 0;
	seg->closed = false;
	t->free[t->nr_free++] = seg - t->segments;
}

/* Takes an object out of its segment. */
static void tier_drop(struct tier *t, struct object *object)
{
	struct segment *seg = &t->segments[object->segment];

	object->segment = NONE;
	seg->live--;
	t->live--;
	t->fresh -= !seg->swept;
}

/* Moves live objects to the front.  Returns their number. */
static uint32_t tier_pack(struct tier *t, struct segment *seg)
{
	uint32_t nr = 0, i;

	for (i = 0; i < seg->used; i++) {
		if (!tier_is_live(t, seg, i))
			continue;
		t->objects[seg->objects[i]].index = nr;
		seg->objects[nr++] = seg->objects[i];
	}
	t->free_seglets += seg->seglets;
	seg->used = nr;
	seg->seglets = (nr + t->per_seglet - 1) / t->per_seglet;
	t->free_seglets -= seg->seglets;
	return nr;
}

static void tier_open(struct tier *t, enum tier_head head)
{
	struct segment *seg;

	if (!t->nr_free)
		error(1, 0, "no segment is free: this should not happen");
	t->heads[head] = t->free[--t->nr_free];
	seg = &t->segments[t->heads[head]];
	if (!seg->objects)
		seg->objects = calloc(t->set->objects, sizeof(*seg->objects));
	if (!seg->objects)
		error(1, ENOMEM, "a segment");
	*seg = (struct segment){
		.id = ++t->ids,
		.stamp = ++t->steps,
		.round = t->round + (head == HEAD_KEPT),
		.objects = seg->objects,
		.swept = head == HEAD_KEPT,
	};
}

static void tier_make_room(struct tier *t);

static void tier_append(struct tier *t, enum tier_head head, uint32_t id)
{
	struct segment *seg;

	if (t->heads[head] == NONE)
		tier_open(t, head);
	seg = &t->segments[t->heads[head]];
	if (seg->used % t->per_seglet == 0) {
		/* The hand moves objects while it makes room: it frees more than it takes. */
		if (t->free_seglets <= 0 && head != HEAD_KEPT)
			tier_make_room(t);
		t->free_seglets--;
		seg->seglets++;
	}
	t->objects[id].segment = t->heads[head];
	t->objects[id].index = seg->used;
	seg->objects[seg->used++] = id;
	seg->live++;
	t->live++;
	t->fresh += !seg->swept;
	if (seg->used < t->set->objects)
		return;
	t->heads[head] = NONE;
	seg->closed = true;
	if (!seg->live)
		tier_free(t, seg);
}

/* Moves all that is left in a segment to HEAD_KEPT. */
static void tier_merge(struct tier *t, struct segment *seg)
{
	uint32_t nr = 0, i;

	for (i = 0; i < seg->used; i++) {
		if (!tier_is_live(t, seg, i))
			continue;
		t->moving[nr++] = seg->objects[i];
		tier_drop(t, &t->objects[seg->objects[i]]);
	}
	tier_free(t, seg);
	for (i = 0; i < nr; i++)
		tier_append(t, HEAD_KEPT, t->moving[i]);
	t->result.copied += nr;
}

/* The hand sweeps a segment. */
static void tier_sweep(struct tier *t, struct segment *seg)
{
	uint32_t i;

	for (i = 0; i < seg->used; i++) {
		struct object *object = &t->objects[seg->objects[i]];

		if (!tier_is_live(t, seg, i))
			continue;
		if (!t->policy->keep(t, object)) {
			tier_drop(t, object);
			object->evicted = t->arrived;
			t->result.evicted++;
		}
		object->touched = false;
	}
	if (!seg->swept)
		t->fresh -= seg->live;
	seg->swept = true;
	t->round = seg->round++;
	seg->stamp = ++t->steps;
	t->result.swept++;
	if (!seg->live)
		tier_free(t, seg);
	else if (seg->live * 1000ull < (uint64_t)t->set->objects * t->set->merge)
		tier_merge(t, seg);
	else if (seg->live + t->per_seglet <= seg->seglets * t->per_seglet)
		t->result.copied += tier_pack(t, seg);
}

static bool plan_before(const struct planned *a, const struct planned *b)
{
	return a->turn != b->turn ? a->turn > b->turn : a->id < b->id;
}

/* Adds a segment to the plan if it comes before others there, or there is space. */
static void plan_add(struct tier *t, struct planned next)
{
	uint32_t i = 0;

	if (t->nr_plan == t->set->plan) {
		if (!plan_before(&next, &t->plan[0]))
			return;
		memmove(t->plan, t->plan + 1, --t->nr_plan * sizeof(*t->plan));
	}
	while (i < t->nr_plan && plan_before(&next, &t->plan[i]))
		i++;
	memmove(t->plan + i + 1, t->plan + i, (t->nr_plan++ - i) * sizeof(*t->plan));
	t->plan[i] = next;
}

/* Compacts the emptiest segment if that is cheap.  Else plans what the hand sweeps next. */
static void tier_plan(struct tier *t)
{
	struct segment *emptiest = NULL;
	uint64_t least = LSMEM_COST_NONE;
	uint32_t i;

	t->nr_plan = 0;
	for (i = 0; i < t->nr_segments; i++) {
		struct segment *seg = &t->segments[i];
		uint64_t cost;

		if (!seg->closed)
			continue;
		cost = lsmem_policy_cost((seg->live + t->per_seglet - 1) / t->per_seglet,
					 seg->seglets);
		if (cost < least) {
			least = cost;
			emptiest = seg;
		}
	}
	if (emptiest && least <= t->set->evict_cost) {
		t->result.compacted += tier_pack(t, emptiest);
		return;
	}
	for (i = 0; i < t->nr_segments; i++) {
		const struct segment *seg = &t->segments[i];

		if (seg->closed)
			plan_add(t, (struct planned){ t->policy->turn(t, seg), seg->id, i });
	}
	if (!t->nr_plan)
		error(1, 0, "nothing to evict: the memory is too small");
}

static void tier_make_room(struct tier *t)
{
	while (t->free_seglets < t->set->room) {
		struct planned next;

		if (!t->nr_plan) {
			tier_plan(t);
			continue;
		}
		next = t->plan[--t->nr_plan];
		if (t->segments[next.segment].id == next.id)
			tier_sweep(t, &t->segments[next.segment]);
	}
}

static void tier_write(struct tier *t, uint32_t id)
{
	struct object *object = &t->objects[id];

	if (object->segment != NONE) {
		struct segment *seg = &t->segments[object->segment];

		tier_drop(t, object);
		if (seg->closed && !seg->live)
			tier_free(t, seg);
	}
	if (object->written)
		object->interval = lsmem_policy_interval(object->interval,
							 t->clock - object->written);
	object->written = t->clock;
	if (t->set->write != TOUCH_LEAVE)
		object->touched = t->set->write == TOUCH_SET;
	t->arrived++;
	tier_append(t, HEAD_WRITE, id);
}

static void tier_read(struct tier *t, uint32_t id)
{
	struct object *object = &t->objects[id];
	double gone;

	if (object->segment != NONE) {
		object->touched = true;
		return;
	}
	gone = t->arrived - object->evicted;
	object->touched = t->set->fetch_touched ||
			  (object->evicted && gone < t->set->remember * t->set->memory);
	t->arrived++;
	tier_append(t, HEAD_FETCH, id);
}

static const struct tier_policy *tier_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(policies) / sizeof(*policies); i++)
		if (!strcmp(policies[i].name, name))
			return &policies[i];
	return NULL;
}

static int tier_init(struct tier *t, const struct tier_settings *set, uint32_t objects)
{
	uint32_t i;

	*t = (struct tier){
		.set = set,
		.policy = tier_find(set->policy),
		.coldness = objects,
		.per_seglet = set->objects / set->seglets,
		.heads = { NONE, NONE, NONE },
	};
	if (!t->policy)
		return -EINVAL;
	t->free_seglets = set->memory / t->per_seglet;
	/* A closed segment has a seglet, or more. */
	t->nr_segments = t->free_seglets + HEADS;
	t->objects = calloc(objects, sizeof(*t->objects));
	t->segments = calloc(t->nr_segments, sizeof(*t->segments));
	t->free = calloc(t->nr_segments, sizeof(*t->free));
	t->moving = calloc(set->objects, sizeof(*t->moving));
	t->plan = calloc(set->plan + 1, sizeof(*t->plan));
	if (!t->objects || !t->segments || !t->free || !t->moving || !t->plan)
		return -ENOMEM;
	for (i = 0; i < objects; i++)
		t->objects[i].segment = NONE;
	while (t->nr_free < t->nr_segments) {
		t->free[t->nr_free] = t->nr_segments - 1 - t->nr_free;
		t->nr_free++;
	}
	return 0;
}

static void tier_destroy(struct tier *t)
{
	uint32_t i;

	for (i = 0; t->segments && i < t->nr_segments; i++)
		free(t->segments[i].objects);
	free(t->objects);
	free(t->segments);
	free(t->free);
	free(t->moving);
	free(t->plan);
}

/**
 * tier_run - simulate memory in segments
 * @set: memory and policy
 * @trace: requests
 * @result: out
 * Return: 0, -EINVAL for an unknown policy or -ENOMEM.
 */
int tier_run(const struct tier_settings *set, const struct trace *trace,
	     struct tier_result *result)
{
	uint64_t samples = 0, live = 0, segments = 0, i;
	struct tier t;
	int ret;

	ret = tier_init(&t, set, trace->objects);
	for (i = 0; !ret && i < trace->nr; i++) {
		const struct request *r = &trace->requests[i];

		if (i == trace->measured)
			t.result = (struct tier_result){ };
		t.clock = i;
		trace_count(trace, i, t.objects[r->object].segment != NONE, &t.result.counts);
		if (r->op == REQUEST_WRITE)
			tier_write(&t, r->object);
		else
			tier_read(&t, r->object);
		if (i >= trace->measured && i % SAMPLE == 0) {
			samples++;
			live += t.live;
			segments += t.nr_segments - t.nr_free;
		}
	}
	*result = t.result;
	if (samples) {
		result->resident = (double)live / samples / set->memory;
		result->segments = (double)segments / samples;
	}
	tier_destroy(&t);
	return ret;
}
