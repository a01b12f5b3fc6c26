// SPDX-License-Identifier: GPL-2.0
/*
 * Random ranks by Zipf's law, cheap enough not to disturb a measurement.
 *
 * Ranks are grouped into classes: each of the first 64 ranks is a class, then each octave has 32.
 * Vose's alias method draws a class by its weight; the rank in the class is uniform, where weights
 * differ by 3 % at most.  The table of classes stays in the cache; a table of all ranks would not.
 */
#include <math.h>
#include <stdlib.h>

#include "random.h"
#include "zipf.h"

#define SINGLE		64u
#define PER_OCTAVE	32u
#define CLASSES		(SINGLE + 40 * PER_OCTAVE)

/*
 * struct class - a range of ranks
 * @first: first rank
 * @width: number of ranks
 * @keep: probability to use this class when it was drawn, in units of 2^-32; else use @alias
 */
struct class {
	uint64_t first;
	uint64_t width;
	uint32_t keep;
	uint32_t alias;
};

static struct class classes[CLASSES];
static uint32_t nr_classes;

/* The sum of the weights of ranks @from to @to - 1, counted from 0. */
static double weight(uint64_t from, uint64_t to, double exponent)
{
	const double power = 1 - exponent;

	if (to - from == 1)
		return pow((double)to, -exponent);
	return (pow((double)to + 0.5, power) - pow((double)from + 0.5, power)) / power;
}

static double make_classes(uint64_t nr, double exponent, double *weights)
{
	uint64_t first = 0, width = 1, octave = SINGLE;
	double sum = 0;

	for (nr_classes = 0; first < nr; nr_classes++, first += width) {
		if (first == octave) {
			width = octave / PER_OCTAVE;
			octave *= 2;
		}
		if (width > nr - first)
			width = nr - first;
		classes[nr_classes] = (struct class){ .first = first, .width = width };
		weights[nr_classes] = weight(first, first + width, exponent);
		sum += weights[nr_classes];
	}
	return sum;
}

/* Draw ranks from 0 to @nr - 1 from now on; 0 is the most frequent. @exponent: above 0, and not 1. */
void zipf_setup_skewed(uint64_t nr, double exponent)
{
	uint32_t small[CLASSES], large[CLASSES], nr_small = 0, nr_large = 0, i;
	double weights[CLASSES], sum = make_classes(nr, exponent, weights);

	for (i = 0; i < nr_classes; i++) {
		weights[i] *= nr_classes / sum;
		if (weights[i] < 1)
			small[nr_small++] = i;
		else
			large[nr_large++] = i;
		classes[i].keep = UINT32_MAX;
		classes[i].alias = i;
	}
	while (nr_small && nr_large) {
		uint32_t less = small[--nr_small], more = large[nr_large - 1];

		classes[less].keep = (uint32_t)(weights[less] * UINT32_MAX);
		classes[less].alias = more;
		weights[more] -= 1 - weights[less];
		if (weights[more] < 1) {
			nr_large--;
			small[nr_small++] = more;
		}
	}
}

void zipf_setup(uint64_t nr)
{
	zipf_setup_skewed(nr, ZIPF_EXPONENT);
}

uint64_t zipf_next(uint64_t *state)
{
	uint64_t first = random_next(state), second = random_next(state);
	const struct class *class = &classes[(first >> 32) * nr_classes >> 32];

	if ((uint32_t)first > class->keep)
		class = &classes[class->alias];
	return class->first + ((second >> 32) * class->width >> 32);
}
