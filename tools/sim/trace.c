// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of the simulator of eviction: patterns of pattern.c with reads and writes, and what
 * these do not have: scans, loops, popularity that moves.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"
#include "trace.h"

#define SCAN_EVERY	4u	/* from one scan to the next: requests for each object */
#define SCAN_PERCENT	50u	/* of the requests, while a scan is under way */
#define SCAN_STRIDE	7919u	/* a prime: scans do not meet objects in order of popularity */
#define LOOP_PERCENT	110u	/* of the memory */
#define NEWS_EVERY	32u	/* another object becomes the most popular after so many requests */

/**
 * struct maker - state while requests are made
 * @pattern: chooses the objects
 * @memory: objects that fit into memory
 * @scanned: objects that the present scan has read; the number of objects between scans
 */
struct maker {
	struct pattern pattern;
	uint32_t memory;
	uint32_t scanned;
};

/* Writes are popular where reads are not. */
static void change_apart(struct maker *m, uint64_t i, struct request *r)
{
	(void)i;
	if (r->op == REQUEST_WRITE)
		r->object = m->pattern.objects - 1 - r->object;
}

static void change_scan(struct maker *m, uint64_t i, struct request *r)
{
	uint32_t objects = m->pattern.objects;

	if (i % ((uint64_t)SCAN_EVERY * objects) == SCAN_EVERY / 2 * objects)
		m->scanned = 0;
	if (m->scanned == objects || !random_chance(&m->pattern.random, SCAN_PERCENT))
		return;
	r->op = REQUEST_SCAN;
	r->object = (uint64_t)m->scanned++ * SCAN_STRIDE % objects;
}

static void change_loop(struct maker *m, uint64_t i, struct request *r)
{
	r->object = i % ((uint64_t)m->memory * LOOP_PERCENT / 100);
}

/* Each object is at some time the most popular one, and then slowly loses its popularity. */
static void change_news(struct maker *m, uint64_t i, struct request *r)
{
	uint32_t objects = m->pattern.objects;

	r->object = (r->object + objects - i / NEWS_EVERY % objects) % objects;
}

static const struct {
	const char *name;
	const char *pattern;
	uint32_t writes;	/* percent */
	uint32_t speed;		/* the pattern moves at so many times its own speed */
	void (*change)(struct maker *m, uint64_t i, struct request *r);
} workloads[] = {
	{ "zipf-100", "zipf-99", 0, 1, NULL },
	{ "zipf-95", "zipf-99", 5, 1, NULL },
	{ "zipf-50", "zipf-99", 50, 1, NULL },
	{ "apart", "zipf-99", 50, 1, change_apart },
	{ "uniform", "uniform", 5, 1, NULL },
	{ "scan", "zipf-99", 5, 1, change_scan },
	{ "loop", "uniform", 0, 1, change_loop },
	{ "news", "zipf-99", 5, 1, change_news },
	{ "shift", "shift", 5, 5, NULL },
	{ "jump", "shift", 5, 10, NULL },
};

/**
 * trace_names - get the names of all workloads, for a usage text
 */
const char *trace_names(void)
{
	return "zipf-100 zipf-95 zipf-50 apart uniform scan loop news shift jump";
}

/**
 * trace_init - make the requests of a workload
 * @t: out
 * @name: one of trace_names()
 * @objects: number of objects, from 1000 to 2^30
 * @memory: number of objects that fit into memory, at most 0.9 of @objects: the size of the loop
 *	depends on it
 * @warm: requests for each object before the measurement, on average
 * @measure: requests for each object in the measurement, on average
 * @seed: the same seed gives the same requests
 * Return: 0, -EINVAL for an unknown name or -ENOMEM.
 */
int trace_init(struct trace *t, const char *name, uint32_t objects, uint32_t memory, uint32_t warm,
	       uint32_t measure, uint64_t seed)
{
	struct maker m = { .memory = memory, .scanned = objects };
	size_t w = 0;
	uint64_t i;
	int ret;

	while (w < sizeof(workloads) / sizeof(*workloads) && strcmp(workloads[w].name, name))
		w++;
	if (w == sizeof(workloads) / sizeof(*workloads))
		return -EINVAL;
	*t = (struct trace){
		.nr = ((uint64_t)warm + measure) * objects,
		.measured = (uint64_t)warm * objects,
		.objects = objects,
	};
	ret = pattern_init(&m.pattern, workloads[w].pattern, objects, seed);
	if (ret)
		return ret;
	t->requests = calloc(t->nr, sizeof(*t->requests));
	for (i = 0; t->requests && i < t->nr; i++) {
		struct request *r = &t->requests[i];

		r->object = m.pattern.pick(&m.pattern);
		m.pattern.written += workloads[w].speed;
		if (random_chance(&m.pattern.random, workloads[w].writes))
			r->op = REQUEST_WRITE;
		if (workloads[w].change)
			workloads[w].change(&m, i, r);
	}
	pattern_destroy(&m.pattern);
	return t->requests ? 0 : -ENOMEM;
}

/**
 * trace_destroy - free the memory that trace_init() has allocated
 * @t: not used afterwards
 */
void trace_destroy(struct trace *t)
{
	free(t->requests);
}

/**
 * trace_count - count a request, if it counts
 * @t: its trace
 * @i: its index
 * @hit: its object was in memory
 * @counts: in and out
 */
void trace_count(const struct trace *t, uint64_t i, bool hit, struct counts *counts)
{
	enum request_op op = t->requests[i].op;

	if (i < t->measured)
		return;
	if (op == REQUEST_WRITE) {
		counts->writes++;
		return;
	}
	counts->reads++;
	counts->missed += !hit;
	if (op == REQUEST_READ) {
		counts->own++;
		counts->own_missed += !hit;
	}
}
