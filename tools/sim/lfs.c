// SPDX-License-Identifier: GPL-2.0
/*
 * Simulator of the cost of a cleaning policy in a log-structured store.
 *
 * The model is that of Rosenblum's LFS simulator, as RAMCloud rebuilt it, so that the figures can
 * be compared.  All objects have one size, and a segment holds OBJECTS of them.  100 segments of
 * live objects are written once in random order.  A pattern then overwrites them.  When the head is
 * full and no segment is free, a pass cleans the segments that kmod/policy.c selects, until there
 * are PASS survivors.  The pass sorts the survivors and writes them to new segments; the last one
 * of these becomes the head.
 *
 * Options change the model towards lsmem.  With --seglets N, a segment takes memory in N seglets as
 * it fills, survivors have a head of their own, and there are --backup times as many segments as
 * fit into memory.  With --tail, the hottest survivors of a pass, those that do not fill a whole
 * segment, go to a second survivor head: otherwise they would share a segment with the coldest
 * survivors of the next pass.  With --two-level, segments are compacted in memory or cleaned, as
 * the balancer of the module decides; the time of a level is the number of objects that it copies.
 *
 * The module's own kmod/policy.c computes scores, selection and the order of survivors.  This file
 * has only the store and the counters.  The clock counts written objects.
 *
 * The output is one line of JSON on standard output.
 */
#include <errno.h>
#include <error.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "pattern.h"
#include "../../kmod/policy.h"

#define OBJECTS		512u		/* in a segment */
#define OBJECT_BYTES	4096u		/* size of an object, for the policy */
#define PASS		2560u		/* most survivors of a pass */
#define SPARE_SEGMENTS	16u		/* for survivors: victims are freed after they are written */
#define NONE		(~0u)
#define PLANNED		16u		/* victims whose cost the balancer gets */

enum sort { SORT_NONE, SORT_AGE, SORT_COLDNESS };

/**
 * struct policy - a cleaning policy
 * @name: name on the command line
 * @rule: rule of the scores
 * @youngest: the age of a segment is that of its youngest live object, not that of the segment
 * @sort: order of survivors
 */
struct policy {
	const char *name;
	enum lsmem_policy_rule rule;
	bool youngest;
	enum sort sort;
};

static const struct policy policies[] = {
	{ "greedy-unsorted", LSMEM_RULE_GREEDY, false, SORT_NONE },
	{ "greedy", LSMEM_RULE_GREEDY, false, SORT_AGE },
	{ "lfs-youngest", LSMEM_RULE_LFS, true, SORT_AGE },
	{ "lfs-segment", LSMEM_RULE_LFS, false, SORT_AGE },
	{ "ramcloud", LSMEM_RULE_RAMCLOUD, false, SORT_AGE },
	{ "decay", LSMEM_RULE_DECAY, false, SORT_AGE },
	{ "decay-coldness", LSMEM_RULE_DECAY, false, SORT_COLDNESS },
};

/**
 * struct object - an object; it is never deleted
 * @written: time of the last write, by the clock
 * @segment: index of its segment, NONE before the first write
 * @index: of the object in the segment
 * @interval: lsmem_policy_interval()
 */
struct object {
	uint64_t written;
	uint32_t segment;
	uint16_t index;
	uint8_t interval;
};

/**
 * struct segment - a part of the log
 * @id: breaks ties; it says nothing of age, as in the model
 * @opened: time at which the segment became a head
 * @compacted: time of the last compaction; @opened if there was none
 * @used: number of objects appended
 * @live: number of these objects that are live
 * @seglets: number of seglets that the segment holds
 * @closed: the segment may be cleaned
 * @objects: numbers of the objects appended; a dead one has its live version at another place
 */
struct segment {
	uint64_t id;
	uint64_t opened;
	uint64_t compacted;
	uint32_t used;
	uint32_t live;
	uint32_t seglets;
	bool closed;
	uint32_t objects[OBJECTS];
};

/* All counters. */
struct counts {
	uint64_t written;	/* objects written by the pattern */
	uint64_t cleaned;	/* objects copied by cleaning */
	uint64_t read;		/* segments read by cleaning: victims that were not empty */
	uint64_t compacted;	/* objects copied by compaction */
};

struct store {
	const struct policy *policy;
	struct object *objects;
	struct segment *segments;
	struct lsmem_candidate *candidates;
	uint32_t *survivors;
	uint32_t *free;		/* indexes of free segments */
	uint64_t ties;		/* state of the random numbers that break ties */
	uint64_t clock;		/* objects written */
	int64_t free_seglets;
	uint32_t nr_objects;
	uint32_t nr_usable;	/* segments that may be in use between passes */
	uint32_t nr_segments;	/* all segments, SPARE_SEGMENTS included */
	uint32_t nr_free;	/* entries of @free */
	uint32_t per_seglet;	/* objects in a seglet */
	uint32_t pass;		/* most survivors of a pass */
	uint32_t tick;		/* writes in a unit of ages */
	uint32_t heads[3];	/* for writes; with @split, for survivors; for their tail */
	struct lsmem_policy_limits limits;
	bool two_level;
	bool tail;
	bool split;
	struct counts counts;
};

struct settings {
	const char *pattern;
	const struct policy *policy;
	uint64_t seed;
	double utilization;
	double backup;
	double warm;
	double measure;
	uint32_t segments;
	uint32_t seglets;
	uint32_t pass;
	uint32_t tick;
	uint32_t balancer;
	uint32_t price;
	uint32_t share;
	bool two_level;
	bool tail;
};

static bool sim_is_live(const struct store *s, const struct segment *seg, uint32_t i)
{
	const struct object *object = &s->objects[seg->objects[i]];

	return object->segment == seg - s->segments && object->index == i;
}

static uint64_t sim_age(const struct store *s, uint64_t since)
{
	return (s->clock - since) / s->tick;
}

/* Appends to a head; closes the head if it is full. */
static void sim_append(struct store *s, uint32_t head, uint32_t id)
{
	struct segment *seg = &s->segments[s->heads[head]];

	if (seg->used % s->per_seglet == 0) {
		seg->seglets++;
		s->free_seglets--;
	}
	s->objects[id].segment = s->heads[head];
	s->objects[id].index = seg->used;
	seg->objects[seg->used++] = id;
	seg->live++;
	if (seg->used == OBJECTS) {
		seg->closed = true;
		s->heads[head] = NONE;
	}
}

/* Takes a free segment as the new head. */
static void sim_roll(struct store *s, uint32_t head)
{
	struct segment *seg;

	if (!s->nr_free)
		error(1, 0, "no segment is free: this should not happen");
	s->heads[head] = s->free[--s->nr_free];
	seg = &s->segments[s->heads[head]];
	seg->id = random_next(&s->ties);
	seg->opened = s->clock;
	seg->compacted = s->clock;
	seg->used = 0;
	seg->live = 0;
	seg->seglets = 0;
	seg->closed = false;
}

static uint64_t sim_youngest(const struct store *s, const struct segment *seg)
{
	uint64_t youngest = 0;
	uint32_t i;

	for (i = 0; i < seg->used; i++)
		if (sim_is_live(s, seg, i) && s->objects[seg->objects[i]].written > youngest)
			youngest = s->objects[seg->objects[i]].written;
	return youngest;
}

/* Fills the candidates for cleaning, or with @in_memory for compaction.  Returns their number. */
static uint32_t sim_candidates(struct store *s, bool in_memory)
{
	uint32_t seglet = s->per_seglet, nr = 0, index;

	for (index = 0; index < s->nr_segments; index++) {
		struct segment *seg = &s->segments[index];
		uint64_t since = in_memory ? seg->compacted : seg->opened;
		uint32_t held = OBJECTS, live = seg->live;

		if (!seg->closed)
			continue;
		if (s->policy->youngest)
			since = sim_youngest(s, seg);
		if (in_memory) {
			held = seg->seglets * seglet;
			live = (live + seglet - 1) / seglet * seglet;
		}
		s->candidates[nr++] = (struct lsmem_candidate){
			.id = seg->id,
			.held = held * OBJECT_BYTES,
			.live = live * OBJECT_BYTES,
			.age = sim_age(s, since),
			.cookie = index,
		};
	}
	return nr;
}

struct order {
	uint64_t coldness;
	uint32_t id;
};

static int sim_order(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	if (x->coldness != y->coldness)
		return x->coldness > y->coldness ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void sim_sort(struct store *s, uint32_t nr)
{
	static struct order order[PASS * 4];
	uint32_t i;

	for (i = 0; i < nr; i++) {
		const struct object *object = &s->objects[s->survivors[i]];
		uint64_t age = sim_age(s, object->written);

		order[i].id = s->survivors[i];
		order[i].coldness = s->policy->sort == SORT_AGE ? s->clock - object->written :
				    lsmem_policy_coldness(object->interval, age);
	}
	qsort(order, nr, sizeof(*order), sim_order);
	for (i = 0; i < nr; i++)
		s->survivors[i] = order[i].id;
}

/* Does one pass of cleaning. */
static void sim_clean(struct store *s)
{
	uint32_t nr = sim_candidates(s, false), survivors = 0, head = s->split, chosen, i, k;

	chosen = lsmem_policy_select_by(s->policy->rule, s->candidates, nr,
					(uint64_t)s->pass * OBJECT_BYTES,
					LSMEM_UTILIZATION_ANY, 0);
	if (!chosen)
		error(1, 0, "the policy finds nothing to clean");
	for (i = 0; i < chosen; i++) {
		uint32_t index = s->candidates[nr - 1 - i].cookie;
		struct segment *seg = &s->segments[index];

		for (k = 0; k < seg->used; k++)
			if (sim_is_live(s, seg, k))
				s->survivors[survivors++] = seg->objects[k];
		s->counts.read += seg->live != 0;
		s->free_seglets += seg->seglets;
		s->free[s->nr_free++] = index;
		seg->closed = false;
	}
	if (s->policy->sort != SORT_NONE)
		sim_sort(s, survivors);
	for (i = 0; i < survivors; i++) {
		if (s->tail && i == survivors / OBJECTS * OBJECTS)
			head = 2;
		if (s->heads[head] == NONE)
			sim_roll(s, head);
		sim_append(s, head, s->survivors[i]);
	}
	s->counts.cleaned += survivors;
}

/* Asks the balancer for the level.  @best: out: index of the segment to compact. */
static uint32_t sim_level(struct store *s, uint32_t *best)
{
	struct lsmem_balance balance = {
		.memory_low = 1,
		.segments_used = s->nr_usable + SPARE_SEGMENTS - s->nr_free,
		.segments_max = s->nr_usable,
		.clean_ns = s->counts.cleaned << 16,
		.compact_ns = s->counts.compacted << 16,
	};
	uint32_t nr = sim_candidates(s, true), chosen, i;
	uint64_t held = 0, packed = 0, live = 0;

	chosen = lsmem_policy_select_by(s->policy->rule, s->candidates, nr, ~0ull,
					LSMEM_UTILIZATION_ANY, 0);
	for (i = 0; i < chosen && i < PLANNED; i++) {
		const struct lsmem_candidate *c = &s->candidates[nr - 1 - i];

		held += c->held;
		packed += c->live;
		live += s->segments[c->cookie].live * OBJECT_BYTES;
	}
	*best = chosen ? s->candidates[nr - 1].cookie : 0;
	balance.compact_cost = lsmem_policy_cost(packed, held);
	balance.clean_cost = lsmem_policy_cost(live, held);
	return lsmem_policy_level(&s->limits, &balance);
}

/* Compacts one segment in place.  False: the balancer wants cleaning instead. */
static bool sim_compact(struct store *s)
{
	struct segment *seg;
	uint32_t best, nr, i;

	if (sim_level(s, &best) != LSMEM_LEVEL_COMPACT)
		return false;
	seg = &s->segments[best];
	s->free_seglets += seg->seglets;
	for (nr = 0, i = 0; i < seg->used; i++) {
		if (!sim_is_live(s, seg, i))
			continue;
		s->objects[seg->objects[i]].index = nr;
		seg->objects[nr++] = seg->objects[i];
	}
	seg->used = nr;
	seg->seglets = (nr + s->per_seglet - 1) / s->per_seglet;
	seg->compacted = s->clock;
	s->free_seglets -= seg->seglets;
	s->counts.compacted += nr;
	return true;
}

/* Cleans or compacts until the head has space and memory for one more object. */
static void sim_make_room(struct store *s)
{
	for (;;) {
		if (s->heads[0] == NONE) {
			if (s->nr_free <= SPARE_SEGMENTS || s->free_seglets <= 0) {
				if (s->nr_free <= SPARE_SEGMENTS || !s->two_level || !sim_compact(s))
					sim_clean(s);
				continue;
			}
			sim_roll(s, 0);
		}
		if (s->segments[s->heads[0]].used % s->per_seglet || s->free_seglets > 0)
			return;
		if (!s->two_level || !sim_compact(s))
			sim_clean(s);
	}
}

static void sim_write(struct store *s, uint32_t id)
{
	struct object *object = &s->objects[id];

	sim_make_room(s);
	if (object->segment != NONE) {
		s->segments[object->segment].live--;
		object->interval = lsmem_policy_interval(object->interval,
							 sim_age(s, object->written));
	}
	object->written = s->clock++;
	sim_append(s, 0, id);
	s->counts.written++;
}

/* Writes each object once.  The order is random, so that hot objects do not lie together. */
static void sim_fill(struct store *s, struct pattern *pattern)
{
	uint32_t *ids = calloc(s->nr_objects, sizeof(*ids)), i;

	if (!ids)
		error(1, ENOMEM, "fill");
	for (i = 0; i < s->nr_objects; i++) {
		uint32_t k = random_below(&pattern->random, i + 1);

		ids[i] = ids[k];
		ids[k] = i;
	}
	for (i = 0; i < s->nr_objects; i++)
		sim_write(s, ids[i]);
	free(ids);
}

static void sim_init(struct store *s, const struct settings *set)
{
	uint32_t total = set->segments * 100.0 / set->utilization, i;

	*s = (struct store){
		.policy = set->policy,
		.nr_objects = set->segments * OBJECTS,
		.nr_usable = total * set->backup,
		.free_seglets = (int64_t)total * set->seglets,
		.per_seglet = OBJECTS / set->seglets,
		.pass = set->pass,
		.tick = set->tick,
		.heads = { NONE, NONE, NONE },
		.limits = {
			.balancer = set->balancer,
			.fixed_clean = set->share,
			.tombstone_ratio = LSMEM_TOMBSTONES_DEFAULT,
			.tombstones_max = LSMEM_TOMBSTONES_MAX_DEFAULT,
			.clean_price = set->price,
		},
		.two_level = set->two_level,
		.tail = set->tail,
		.split = set->seglets > 1,
	};
	s->nr_segments = s->nr_usable + SPARE_SEGMENTS;
	s->ties = set->seed + 1;
	s->objects = calloc(s->nr_objects, sizeof(*s->objects));
	s->segments = calloc(s->nr_segments, sizeof(*s->segments));
	s->candidates = calloc(s->nr_segments, sizeof(*s->candidates));
	s->survivors = calloc(s->pass, sizeof(*s->survivors));
	s->free = calloc(s->nr_segments, sizeof(*s->free));
	if (!s->objects || !s->segments || !s->candidates || !s->survivors || !s->free)
		error(1, ENOMEM, "a store of %u segments", s->nr_segments);
	for (i = 0; i < s->nr_objects; i++)
		s->objects[i].segment = NONE;
	while (s->nr_free < s->nr_segments) {
		s->free[s->nr_free] = s->nr_segments - 1 - s->nr_free;
		s->nr_free++;
	}
}

static void sim_destroy(struct store *s)
{
	free(s->objects);
	free(s->segments);
	free(s->candidates);
	free(s->survivors);
	free(s->free);
}

/* Runs the simulation.  Returns the counts without those of filling and warming up. */
static struct counts sim_run(const struct settings *set)
{
	struct counts counts, before;
	struct pattern pattern;
	struct store s;
	uint64_t end;
	int ret;

	ret = pattern_init(&pattern, set->pattern, set->segments * OBJECTS, set->seed);
	if (ret)
		error(1, -ret, "pattern %s", set->pattern);
	sim_init(&s, set);
	sim_fill(&s, &pattern);
	end = s.nr_objects * set->warm;
	for (; pattern.written < end; pattern.written++)
		sim_write(&s, pattern.pick(&pattern));
	before = s.counts;
	end += s.nr_objects * set->measure;
	for (; pattern.written < end; pattern.written++)
		sim_write(&s, pattern.pick(&pattern));
	counts = (struct counts){
		.written = s.counts.written - before.written,
		.cleaned = s.counts.cleaned - before.cleaned,
		.read = s.counts.read - before.read,
		.compacted = s.counts.compacted - before.compacted,
	};
	sim_destroy(&s);
	pattern_destroy(&pattern);
	return counts;
}

static void sim_print(const struct settings *set, const struct counts *counts)
{
	double written = counts->written;

	printf("{\"pattern\": \"%s\", \"policy\": \"%s\", \"seed\": %llu",
	       set->pattern, set->policy->name, (unsigned long long)set->seed);
	printf(", \"utilization\": %g, \"segments\": %u, \"seglets\": %u, \"backup\": %g",
	       set->utilization, set->segments, set->seglets, set->backup);
	printf(", \"two_level\": %s, \"tail\": %s, \"tick\": %u",
	       set->two_level ? "true" : "false", set->tail ? "true" : "false", set->tick);
	printf(", \"write_cost\": %.4f, \"copied\": %.4f, \"compacted\": %.4f}\n",
	       (written + counts->cleaned + (double)counts->read * OBJECTS) / written,
	       counts->cleaned / written, counts->compacted / written);
}

static void usage(FILE *to)
{
	size_t i;

	fprintf(to, "usage: lfs [OPTION]...\n"
		"  --pattern NAME      (hot-cold) one of: %s\n"
		"  --policy NAME       (lfs-segment) one of:", pattern_names());
	for (i = 0; i < sizeof(policies) / sizeof(*policies); i++)
		fprintf(to, " %s", policies[i].name);
	fprintf(to, "\n"
		"  --utilization PCT   (75) share of memory that live objects fill\n"
		"  --segments N        (100) size of all live objects, in segments\n"
		"  --pass N            (%u) most survivors of a pass\n"
		"  --seglets N         (1) seglets of a segment\n"
		"  --backup X          (1) segments of the log for each segment that fits into memory\n"
		"  --two-level         compact in memory, clean when the balancer says so\n"
		"  --balancer NAME     (adaptive) or tombstone-ratio, fixed\n"
		"  --price N           (%u) of the balancer adaptive: per mille, as cleaner/clean_price\n"
		"  --share N           (%u) of the balancer fixed: per mille of copies by cleaning\n"
		"  --tail              a second survivor head; needs --seglets\n"
		"  --tick N            (1) writes in the unit of ages\n"
		"  --warm X            (20) writes of each object before the measurement, on average\n"
		"  --measure X         (40) writes of each object in the measurement, on average\n"
		"  --seed N            (1) of the random numbers\n"
		"Prints one line of JSON.  For each object written: write_cost as in LFS (new objects,\n"
		"survivors and segments read), objects copied by cleaning, objects copied by compaction.\n",
		PASS, LSMEM_CLEAN_PRICE_DURABLE, LSMEM_FIXED_CLEAN_DEFAULT);
}

static const struct policy *find_policy(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(policies) / sizeof(*policies); i++)
		if (!strcmp(policies[i].name, name))
			return &policies[i];
	error(2, 0, "%s: no such policy", name);
	return NULL;
}

static uint32_t find_balancer(const char *name)
{
	static const char *const names[] = {
		[LSMEM_BALANCER_ADAPTIVE] = "adaptive",
		[LSMEM_BALANCER_TOMBSTONES] = "tombstone-ratio",
		[LSMEM_BALANCER_FIXED] = "fixed",
	};
	uint32_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(names[i], name))
			return i;
	error(2, 0, "%s: no such balancer", name);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "pattern", required_argument, NULL, 'p' },
		{ "policy", required_argument, NULL, 'r' },
		{ "utilization", required_argument, NULL, 'u' },
		{ "segments", required_argument, NULL, 'n' },
		{ "pass", required_argument, NULL, 'P' },
		{ "seglets", required_argument, NULL, 'l' },
		{ "backup", required_argument, NULL, 'b' },
		{ "two-level", no_argument, NULL, '2' },
		{ "balancer", required_argument, NULL, 'B' },
		{ "price", required_argument, NULL, 'c' },
		{ "share", required_argument, NULL, 'f' },
		{ "tail", no_argument, NULL, 'T' },
		{ "tick", required_argument, NULL, 't' },
		{ "warm", required_argument, NULL, 'w' },
		{ "measure", required_argument, NULL, 'm' },
		{ "seed", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	struct settings set = {
		.pattern = "hot-cold",
		.policy = find_policy("lfs-segment"),
		.seed = 1,
		.utilization = 75,
		.backup = 1,
		.warm = 20,
		.measure = 40,
		.segments = 100,
		.seglets = 1,
		.pass = PASS,
		.tick = 1,
		.price = LSMEM_CLEAN_PRICE_DURABLE,
		.share = LSMEM_FIXED_CLEAN_DEFAULT,
	};
	struct counts counts;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'p':
			set.pattern = optarg;
			break;
		case 'r':
			set.policy = find_policy(optarg);
			break;
		case 'u':
			set.utilization = number_parse(optarg, 1, 99);
			break;
		case 'n':
			set.segments = number_parse(optarg, 20, 100000);
			break;
		case 'P':
			set.pass = number_parse(optarg, OBJECTS, PASS * 4);
			break;
		case 'l':
			set.seglets = number_parse(optarg, 1, OBJECTS);
			break;
		case 'b':
			set.backup = number_parse(optarg, 1, 16);
			break;
		case '2':
			set.two_level = true;
			break;
		case 'B':
			set.balancer = find_balancer(optarg);
			break;
		case 'c':
			set.price = number_parse(optarg, 0, 1000000);
			break;
		case 'f':
			set.share = number_parse(optarg, 0, 1000);
			break;
		case 'T':
			set.tail = true;
			break;
		case 't':
			set.tick = number_parse(optarg, 1, 1 << 20);
			break;
		case 'w':
			set.warm = number_parse(optarg, 0, 10000);
			break;
		case 'm':
			set.measure = number_parse(optarg, 1, 10000);
			break;
		case 's':
			set.seed = number_parse(optarg, 0, 1e15);
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind != argc || OBJECTS % set.seglets || (set.tail && set.seglets == 1)) {
		usage(stderr);
		return 2;
	}
	counts = sim_run(&set);
	sim_print(&set, &counts);
	return 0;
}
