/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How long each step of a longer work has taken: for the log, so that what costs time is seen where it is spent.
 *
 *	stages_begin(); after each step stages_end() with its name; stages_text()
 */
#ifndef LSMEMD_STAGES_H
#define LSMEMD_STAGES_H

#include <stddef.h>
#include <stdint.h>

#define STAGES		16u
#define STAGES_TEXT	512u

/**
 * struct stages - steps that are over
 * @begin_ns: of the first one, by clock_now_ns()
 * @end_ns: of the last one
 * @nr: how many there are
 * @name: what each did
 * @ns: how long
 */
struct stages {
	uint64_t begin_ns, end_ns;
	unsigned int nr;
	const char *name[STAGES];
	uint64_t ns[STAGES];
};

void stages_begin(struct stages *stages);
void stages_end(struct stages *stages, const char *name);
const char *stages_text(const struct stages *stages, char text[STAGES_TEXT]);

#endif
