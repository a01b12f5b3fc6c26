// SPDX-License-Identifier: GPL-2.0
/* Times of steps: see stages.h. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/stages.h"

/**
 * stages_begin - the first step begins now
 * @stages: out
 */
void stages_begin(struct stages *stages)
{
	stages->nr = 0;
	stages->begin_ns = stages->end_ns = clock_now_ns();
}

/**
 * stages_end - a step is over, and the next one begins
 * @stages: begun; if not, nothing is done
 * @name: what it did; stays valid. After STAGES steps it counts for the last one
 */
void stages_end(struct stages *stages, const char *name)
{
	uint64_t now = clock_now_ns();

	if (!stages->begin_ns)
		return;
	if (stages->nr == STAGES) {
		stages->ns[STAGES - 1] += now - stages->end_ns;
	} else {
		stages->name[stages->nr] = name;
		stages->ns[stages->nr++] = now - stages->end_ns;
	}
	stages->end_ns = now;
}

/**
 * stages_text - name the steps and their times, in milliseconds
 * @stages: steps
 * @text: out: "freezing 1.20, reading 0.31"
 *
 * Return: @text.
 */
const char *stages_text(const struct stages *stages, char text[STAGES_TEXT])
{
	size_t n = 0;
	unsigned int i;

	text[0] = 0;
	for (i = 0; i < stages->nr && n < STAGES_TEXT; i++)
		n += (size_t)snprintf(text + n, STAGES_TEXT - n, "%s%s %" PRIu64 ".%02" PRIu64, i ? ", " : "",
				      stages->name[i], stages->ns[i] / 1000000u, stages->ns[i] / 10000u % 100u);
	return text;
}
