// SPDX-License-Identifier: GPL-2.0
/* What the programs have in common: puts and gets in the order that the caller asks for.  See program.h. */
#include <inttypes.h>
#include <stdio.h>

#include "program.h"

static uint64_t puts_done;

static void setup(struct bench *bench)
{
	if (!bench->handles)
		fail("-n OBJECTS", EINVAL);
	if (bench->zipf)
		zipf_setup(bench->handles);
	program_make(bench);
}

static uint64_t work(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	uint64_t operations = 0;
	uint32_t i;

	if (bench->threads > 1)
		fail("threads", EINVAL);
	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < bench->batch; i++) {
			uint64_t nr = worker_any(worker, bench->handles);

			if (random_below(&worker->state, 1000) < bench->writes) {
				program_put(nr);
				puts_done++;
			} else {
				program_get(nr);
			}
		}
		operations += bench->batch;
	}
	return operations;
}

static bool order(struct bench *bench, const char *verb, const double *arguments, unsigned int nr)
{
	(void)bench;
	(void)arguments;
	if (nr || strcmp(verb, "check"))
		return false;
	program_check(puts_done);
	printf("{\"puts\": %" PRIu64 "}\n", puts_done);
	return true;
}

static const struct mode modes[] = {
	{ "run", setup, work, order, false },
	{ 0 }
};

const struct mode *const bench_modes[] = { modes, NULL };
