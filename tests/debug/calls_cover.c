// SPDX-License-Identifier: GPL-2.0
/*
 * Random calls: programs, and the code that they reach.
 *
 * KCOV records the basic blocks that a thread executes in its system calls; the kernel is built so
 * that only blocks of the module are recorded.  A program that executes a block that no program
 * has executed before is kept.  Half of all programs are kept ones with changes.
 */
#include <fcntl.h>
#include <linux/kcov.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"

#define KCOV_WORDS	(64u << 10)

static uint64_t text_base, text_bytes;

/* Open KCOV for @nr threads. Returns false if the kernel has none, or the module is too large. */
bool cover_open(int *fds, uint32_t nr)
{
	FILE *modules = fopen("/proc/modules", "re");
	char line[256];
	uint32_t i;

	while (modules && fgets(line, sizeof(line), modules))
		if (sscanf(line, "lsmem %lu %*d %*s %*s %lx", &text_bytes, &text_base) == 2)
			break;
	if (modules)
		fclose(modules);
	for (i = 0; i < nr; i++) {
		fds[i] = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);
		if (fds[i] < 0)
			return false;
	}
	return text_base && text_bytes <= COVER_BITS;
}

void cover_start(struct caller *me, int fd)
{
	void *words;

	if (ioctl(fd, KCOV_INIT_TRACE, KCOV_WORDS))
		return;
	words = mmap(NULL, KCOV_WORDS * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (words != MAP_FAILED && !ioctl(fd, KCOV_ENABLE, KCOV_TRACE_PC))
		me->kcov = words;
}

/* Has the program executed a block that no program has executed before? */
static bool cover_new(struct caller *me)
{
	uint64_t nr = __atomic_load_n(&me->kcov[0], __ATOMIC_RELAXED), i;
	bool found = false;

	for (i = 1; i <= nr && i < KCOV_WORDS; i++) {
		uint64_t at = me->kcov[i] - text_base, bit = 1ull << at % 64;
		_Atomic uint64_t *word = &shared->cover[at / 64];

		if (at >= text_bytes ||
		    atomic_load_explicit(word, memory_order_relaxed) & bit)
			continue;
		if (atomic_fetch_or(word, bit) & bit)
			continue;
		atomic_fetch_add(&shared->covered, 1);
		found = true;
	}
	return found;
}

/* ---- Programs ----------------------------------------------------------- */

static void random_call(struct caller *me, struct call *call)
{
	static uint32_t total[2];
	uint32_t pick, i, root = me->process->root;

	if (!total[root])
		for (i = 0; i < nr_descriptions; i++)
			total[root] += descriptions[i].weight[root];
	pick = random_below(&me->random, total[root]);
	for (i = 0; pick >= descriptions[i].weight[root]; i++)
		pick -= descriptions[i].weight[root];
	call->kind = i;
	for (i = 0; i < GENES; i++)
		random_gene(&me->random, &call->gene[i]);
}

static void random_program(struct caller *me, struct program *program)
{
	uint32_t i;

	program->nr = 1 + random_below(&me->random, PROGRAM);
	for (i = 0; i < program->nr; i++)
		random_call(me, &program->call[i]);
}

static void change(struct caller *me, struct program *program)
{
	uint32_t at = random_below(&me->random, program->nr);
	struct call *call = &program->call[at];

	switch (random_below(&me->random, 8)) {
	case 0:		/* remove a call */
		if (program->nr > 1)
			*call = program->call[--program->nr];
		break;
	case 1:		/* add a call */
		if (program->nr < PROGRAM)
			call = &program->call[program->nr++];
		random_call(me, call);
		break;
	case 2:		/* repeat a call */
		if (program->nr < PROGRAM)
			program->call[program->nr++] = *call;
		break;
	default:	/* change a field */
		random_gene(&me->random, &call->gene[random_below(&me->random, GENES)]);
	}
}

static void kept_program(struct caller *me, struct program *program, uint32_t nr)
{
	uint32_t i;

	/* Prefer recent programs: the code that they reach is the least explored. */
	if (random_chance(&me->random, 50) && nr > 32)
		i = nr - 1 - random_below(&me->random, 32);
	else
		i = random_below(&me->random, nr);
	*program = shared->corpus[i];
	/* Another caller may be writing this program at the same time: check the copy. */
	if (!program->nr || program->nr > PROGRAM) {
		random_program(me, program);
		return;
	}
	for (i = 0; i < program->nr; i++)
		if (program->call[i].kind >= nr_descriptions ||
		    !descriptions[program->call[i].kind].weight[me->process->root])
			random_call(me, &program->call[i]);
	for (i = 1 + random_below(&me->random, 3); i; i--)
		change(me, program);
}

/* Run programs until shared->stop is set. */
void caller_main(struct caller *me)
{
	struct program program;
	uint32_t i, nr;

	while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
		nr = atomic_load(&shared->corpus_nr);
		if (nr > CORPUS)
			nr = CORPUS;
		if (nr && random_chance(&me->random, 50))
			kept_program(me, &program, nr);
		else
			random_program(me, &program);
		if (me->kcov)
			__atomic_store_n(&me->kcov[0], 0, __ATOMIC_RELAXED);
		for (i = 0; i < program.nr; i++)
			call_make(me, &program.call[i]);
		if (!me->kcov || !cover_new(me))
			continue;
		nr = atomic_fetch_add(&shared->corpus_nr, 1);
		shared->corpus[nr % CORPUS] = program;
	}
}
