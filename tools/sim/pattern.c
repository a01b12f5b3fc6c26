// SPDX-License-Identifier: GPL-2.0
/*
 * Access patterns of the simulator.  The patterns uniform, hot-cold, zipf and exponential are those
 * of RAMCloud's LFS simulator.  The others find weaknesses of policies that were tuned to these.
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"

/* Zipf: 90 % of the writes go to 14.5 % to 15.5 % of the objects. */
#define ZIPF_WRITES	0.90
#define ZIPF_OBJECTS	15.0
#define ZIPF_CLOSE	0.5
#define ZIPF_MODERATE	0.80
#define ZIPF_YCSB	0.99	/* skew of YCSB's Zipf: 90 % of the requests go to about a third */
/* Exponential: Rosenblum's mean; about 90 % of the writes go to 2 %. */
#define EXP_MEAN	0.02172
#define EXP_RANGE	2.5
#define SHIFT_WRITES	10u	/* between two shifts: writes of each object, on average */
#define PHASE_WRITES	5u	/* in a phase: writes of each object, on average */
#define DRIFT_WRITES	200u	/* the hot objects move by one object after so many writes */

/* A random number between 0 and 1, never 0. */
static double pattern_unit(struct pattern *p)
{
	double unit;

	do
		unit = (random_next(&p->random) >> 11) * 0x1p-53;
	while (unit == 0);
	return unit;
}

static uint32_t pick_uniform(struct pattern *p)
{
	return random_below(&p->random, p->objects);
}

/* @writes percent of the writes go to @percent of the objects. */
static uint32_t pick_hot(struct pattern *p, uint32_t writes, uint32_t percent)
{
	uint32_t hot = p->objects / 100 * percent;

	if (random_chance(&p->random, writes))
		return random_below(&p->random, hot);
	return hot + random_below(&p->random, p->objects - hot);
}

static uint32_t pick_hot_cold(struct pattern *p)
{
	return pick_hot(p, 90, 10);
}

static uint32_t pick_hot_99(struct pattern *p)
{
	return pick_hot(p, 99, 1);
}

static uint32_t pick_hot_70(struct pattern *p)
{
	return pick_hot(p, 70, 30);
}

/* From time to time another tenth of the objects becomes the hot one, at once. */
static uint32_t pick_shift(struct pattern *p)
{
	uint64_t turn = p->written / ((uint64_t)SHIFT_WRITES * p->objects);

	return (pick_hot(p, 90, 10) + turn * (p->objects / 10)) % p->objects;
}

/* The hot tenth of the objects moves gradually. */
static uint32_t pick_drift(struct pattern *p)
{
	return (pick_hot(p, 90, 10) + p->written / DRIFT_WRITES) % p->objects;
}

static uint32_t pick_sequential(struct pattern *p)
{
	return p->written % p->objects;
}

/* Half of the writes write one half of the objects sequentially; the others are hot-cold. */
static uint32_t pick_mixed(struct pattern *p)
{
	uint32_t half = p->objects / 2;

	if (p->written & 1)
		return half + p->written / 2 % half;
	if (random_chance(&p->random, 90))
		return random_below(&p->random, half / 10);
	return random_below(&p->random, half);
}

static uint32_t pick_zipf(struct pattern *p)
{
	double unit = pattern_unit(p);
	uint32_t low = 0, high = p->objects - 1;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (p->cdf[middle] > unit)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Phases of zipf and of uniform alternate. */
static uint32_t pick_phases(struct pattern *p)
{
	if (p->written / ((uint64_t)PHASE_WRITES * p->objects) & 1)
		return pick_uniform(p);
	return pick_zipf(p);
}

static uint32_t pick_exponential(struct pattern *p)
{
	double value;

	do
		value = -log(pattern_unit(p)) * EXP_MEAN;
	while (value >= EXP_RANGE);
	return value / EXP_RANGE * p->objects;
}

/* Fills the CDF.  Returns the percentage of the objects that ZIPF_WRITES of the writes go to. */
static double zipf_fill(struct pattern *p, double skew)
{
	double sum = 0, part = 0;
	uint32_t i, hot = 0;

	for (i = 0; i < p->objects; i++)
		sum += pow(i + 1, -skew);
	for (i = 0; i < p->objects; i++) {
		part += pow(i + 1, -skew);
		p->cdf[i] = part / sum;
		if (!hot && p->cdf[i] >= ZIPF_WRITES)
			hot = i + 1;
	}
	p->cdf[p->objects - 1] = 1;
	return 100.0 * hot / p->objects;
}

/* Finds the skew by bisection from the same bounds as RAMCloud, so that the result is the same. */
static void zipf_fit(struct pattern *p)
{
	double low = 0.01, high = 10;

	for (;;) {
		double skew = (low + high) / 2, hot = zipf_fill(p, skew);

		if (fabs(hot - ZIPF_OBJECTS) < ZIPF_CLOSE)
			return;
		if (hot > ZIPF_OBJECTS)
			low = skew;
		else
			high = skew;
	}
}

static void zipf_moderate(struct pattern *p)
{
	zipf_fill(p, ZIPF_MODERATE);
}

static void zipf_ycsb(struct pattern *p)
{
	zipf_fill(p, ZIPF_YCSB);
}

static const struct {
	const char *name;
	uint32_t (*pick)(struct pattern *p);
	void (*fill)(struct pattern *p);	/* fills the CDF, where there is one */
} patterns[] = {
	{ "uniform", pick_uniform, NULL },
	{ "hot-cold", pick_hot_cold, NULL },
	{ "zipf", pick_zipf, zipf_fit },
	{ "zipf-80", pick_zipf, zipf_moderate },
	{ "zipf-99", pick_zipf, zipf_ycsb },
	{ "exponential", pick_exponential, NULL },
	{ "hot-99-1", pick_hot_99, NULL },
	{ "hot-70-30", pick_hot_70, NULL },
	{ "shift", pick_shift, NULL },
	{ "drift", pick_drift, NULL },
	{ "sequential", pick_sequential, NULL },
	{ "mixed", pick_mixed, NULL },
	{ "phases", pick_phases, zipf_fit },
};

/**
 * pattern_init - begin a stream of writes
 * @p: out: the stream; the caller gets the objects from @p->pick
 * @name: one of pattern_names()
 * @objects: number of objects, at least 1000
 * @seed: the same seed gives the same stream
 * Return: 0, -EINVAL for an unknown name or -ENOMEM.
 */
int pattern_init(struct pattern *p, const char *name, uint32_t objects, uint64_t seed)
{
	size_t i;

	*p = (struct pattern){ .objects = objects };
	p->random = seed;
	for (i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		if (strcmp(patterns[i].name, name))
			continue;
		p->pick = patterns[i].pick;
		if (!patterns[i].fill)
			return 0;
		p->cdf = calloc(objects, sizeof(*p->cdf));
		if (!p->cdf)
			return -ENOMEM;
		patterns[i].fill(p);
		return 0;
	}
	return -EINVAL;
}

/**
 * pattern_destroy - free the memory that pattern_init() has allocated
 * @p: not used afterwards
 */
void pattern_destroy(struct pattern *p)
{
	free(p->cdf);
}

/**
 * pattern_names - get the names of all patterns, for a usage text
 */
const char *pattern_names(void)
{
	return "uniform hot-cold zipf zipf-80 zipf-99 exponential hot-99-1 hot-70-30 shift drift sequential mixed phases";
}
