// SPDX-License-Identifier: GPL-2.0
/*
 * An ordinary program, for preload.sh: threads allocate, change, move and free memory, of which every byte is
 * checked; a child of fork() reads what it has inherited.  It does not know the library that it runs with.
 *
 * allocate THREADS SEED: TAP.  LSMEM_SCALE is the percentage of the work.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/content.h"
#include "../common/random.h"
#include "../common/tap.h"

#define OBJECTS		24u	/* of a thread */
#define LARGE		(256u << 10)
#define MOST		(3u << 20)
#define STEPS		100u
#define THREADS_MOST	8u

struct object {
	unsigned char *at;
	uint32_t length;
	uint64_t serial;
};

struct worker {
	uint64_t state;
	uint64_t serial;
	unsigned long steps;
	struct object objects[OBJECTS];
	const char *wrong;
};

static uint32_t some_length(struct worker *w)
{
	switch (random_below(&w->state, 4)) {
	case 0:
		return 1 + random_below(&w->state, 2000);
	case 1:		/* next to what is large */
		return LARGE - 2 + random_below(&w->state, 4);
	default:
		return LARGE + random_below(&w->state, MOST - LARGE);
	}
}

static void *take(struct worker *w, uint32_t length)
{
	size_t align = 8ul << random_below(&w->state, 16), i;
	void *at = NULL;

	switch (random_below(&w->state, 5)) {
	case 0:
		at = calloc(length / 7 + 1, 7);
		for (i = 0; at && i < length; i++)
			if (((unsigned char *)at)[i])
				w->wrong = "calloc() returns what is not zeroes";
		return at;
	case 1:
		if (posix_memalign(&at, align, length))
			return NULL;
		break;
	case 2:
		at = aligned_alloc(align, length);
		break;
	default:
		align = 16;
		at = malloc(length);
	}
	if ((uintptr_t)at % align)
		w->wrong = "not aligned";
	return at;
}

static void check(struct worker *w, const struct object *o, uint32_t length)
{
	if (malloc_usable_size(o->at) < o->length)
		w->wrong = "malloc_usable_size() is too small";
	if (!content_is(o->at, length, (uintptr_t)w, o->serial))
		w->wrong = "other bytes than were stored";
}

static void fill(struct worker *w, struct object *o)
{
	o->serial = ++w->serial;
	content_fill(o->at, o->length, (uintptr_t)w, o->serial);
}

static void step(struct worker *w)
{
	struct object *o = &w->objects[random_below(&w->state, OBJECTS)];
	uint32_t length = some_length(w);
	unsigned char *at;

	if (!o->at) {
		o->length = length;
		o->at = take(w, length);
		if (!o->at)
			w->wrong = "no memory";
		else
			fill(w, o);
		return;
	}
	check(w, o, o->length);
	switch (random_below(&w->state, 3)) {
	case 0:
		free(o->at);
		o->at = NULL;
		break;
	case 1:
		at = realloc(o->at, length);
		if (!at) {
			w->wrong = "no memory for realloc()";
			break;
		}
		o->at = at;
		if (length < o->length)
			o->length = length;
		check(w, o, o->length);
		o->length = length;
		fill(w, o);
		break;
	default:
		fill(w, o);
	}
}

static void *work(void *context)
{
	struct worker *w = context;
	unsigned int i;

	for (; w->steps && !w->wrong; w->steps--)
		step(w);
	for (i = 0; i < OBJECTS; i++) {
		if (w->objects[i].at)
			check(w, &w->objects[i], w->objects[i].length);
		free(w->objects[i].at);
	}
	return NULL;
}

/* Run @child in a child; returns how it ended, as of waitpid(). */
static int in_child(void (*child)(unsigned char *object), unsigned char *object)
{
	pid_t pid = fork();
	int status = -1;

	if (!pid) {
		child(object);
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static void child_reads(unsigned char *object)
{
	unsigned char *own;

	if (object[0] != 1 || object[MOST - 1] != 1)
		_exit(1);
	own = malloc(MOST);
	if (!own)
		_exit(2);
	memset(own, 2, MOST);
	own = realloc(own, 2 * MOST);
	if (!own || own[MOST - 1] != 2)
		_exit(3);
	free(own);
	object = realloc(object, 2 * MOST);
	if (!object || object[MOST - 1] != 1)
		_exit(4);
	object[0] = 3;
	free(object);
}

static void child_frees(unsigned char *object)
{
	free(object);
}

static void child_stores(unsigned char *object)
{
	object[0] = 9;
}

/* As another library may do before fork(). */
static void allocate_before_fork(void)
{
	free(malloc(MOST));
}

static void test_fork(void)
{
	unsigned char *object = malloc(MOST);
	int status;

	tap_ok(waitpid(-1, NULL, __WALL) < 0 && errno == ECHILD, "no child that it does not know");
	pthread_atfork(allocate_before_fork, NULL, NULL);
	memset(object, 1, MOST);
	tap_ok(in_child(child_reads, object) == 0, "a child reads, allocates and moves");
	tap_ok(in_child(child_frees, object) == 0, "a child frees");
	status = in_child(child_stores, object);
	tap_ok(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV),
	       "a child's store is its own, or is refused");
	tap_ok(object[0] == 1 && object[MOST - 1] == 1, "nothing of it is seen by the parent");
	free(object);
}

int main(int argc, char **argv)
{
	unsigned int threads = argc > 1 ? atoi(argv[1]) : 1, i;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	const char *scale = getenv("LSMEM_SCALE");
	static struct worker workers[THREADS_MOST];
	pthread_t ids[THREADS_MOST];
	size_t half = argc ? SIZE_MAX / 2 : 0;	/* the compiler warns of what is too much */
	void *nothing;

	printf("# seed %llu\n", (unsigned long long)seed);
	for (i = 0; i < threads && i < THREADS_MOST; i++) {
		workers[i].state = seed + i;
		workers[i].steps = STEPS * (scale ? strtoul(scale, NULL, 10) : 100) / 100 + 1;
		if (pthread_create(&ids[i], NULL, work, &workers[i]))
			return 1;
	}
	while (i--) {
		pthread_join(ids[i], NULL);
		tap_ok(!workers[i].wrong, "thread %u: %s", i,
		       workers[i].wrong ? workers[i].wrong : "all bytes are right");
	}
	tap_ok(!calloc(half, 3) && !malloc(half), "too much is refused");
	tap_ok(posix_memalign(&nothing, 24, 1 << 20), "and an alignment that is none");
	test_fork();
	return tap_end();
}
