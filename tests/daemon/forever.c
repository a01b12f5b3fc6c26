// SPDX-License-Identifier: GPL-2.0
/*
 * forever: a store that is 90 % live accepts any number of overwrites, although one object in each
 * segment is never overwritten.
 *
 *	forever DEVICE TIMES	overwrite TIMES the live bytes, then check all objects
 *
 * In the order of allocation, the distance of cold objects is the length of a segment; the others
 * are overwritten uniformly.  $LSMEM_SEED repeats a run.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <lsmem.h>
#include <lsmem/lsmem_format.h>

#include "../common/content.h"
#include "../common/random.h"

#define LENGTH	1000u
#define BATCH	64u
#define COLD	(LSMEM_SEGMENT_BYTES / lsmem_entry_size(LENGTH))	/* objects in a segment */
#define LIVE	90u	/* percent of the store's capacity */

struct object {
	uint64_t handle;
	uint64_t serial;
};

static uint64_t state;

static void die(const char *what, int error)
{
	fprintf(stderr, "forever: %s: %s\n", what, strerror(error));
	exit(1);
}

/* Execute a batch; no operation may fail. */
static void run(struct lsm *lsm, struct lsmem_op *ops, uint32_t nr)
{
	struct lsmem_vector vector = {
		.size = sizeof(vector),
		.ops = (uintptr_t)ops,
		.nr = nr,
		.stride = sizeof(*ops),
	};
	uint32_t i;

	if (ioctl(lsm_fd(lsm), LSMEM_IOC_VECTOR, &vector))
		die("vector", errno);
	for (i = 0; i < nr; i++)
		if (ops[i].result)
			die("operation", -ops[i].result);
}

static void write_batch(struct lsm *lsm, struct object *objects, const uint64_t *which, uint32_t nr)
{
	static uint64_t data[BATCH][LENGTH / sizeof(uint64_t)];
	struct lsmem_op ops[BATCH];
	uint32_t i;

	for (i = 0; i < nr; i++) {
		struct object *o = &objects[which[i]];

		content_fill(data[i], LENGTH, which[i], ++o->serial);
		ops[i] = (struct lsmem_op){
			.size = sizeof(ops[i]),
			.op = o->handle ? LSMEM_OP_REPLACE : LSMEM_OP_ALLOC,
			.handle = o->handle,
			.data = (uintptr_t)data[i],
			.length = LENGTH,
		};
	}
	run(lsm, ops, nr);
	for (i = 0; i < nr; i++)
		objects[which[i]].handle = ops[i].handle;
}

static uint64_t wrong(struct lsm *lsm, const struct object *objects, uint64_t nr)
{
	uint64_t got[LENGTH / sizeof(uint64_t)], i, bad = 0;

	for (i = 0; i < nr; i++) {
		if (lsm_read(lsm, objects[i].handle, got, sizeof(got), 0, NULL) != LENGTH ||
		    !content_is(got, LENGTH, i, objects[i].serial))
			bad++;
	}
	return bad;
}

int main(int argc, char **argv)
{
	const char *seed = getenv("LSMEM_SEED");
	struct lsmem_query query = { .size = sizeof(query) };
	uint64_t which[BATCH], nr, i, done, writes, bad;
	struct object *objects;
	struct lsm *lsm;
	uint32_t n;
	int ret;

	if (argc != 3) {
		fprintf(stderr, "usage: forever DEVICE TIMES\n");
		return 2;
	}
	state = seed ? strtoull(seed, NULL, 0) : 1;
	ret = lsm_open(argv[1], 0, &lsm);
	if (ret)
		die(argv[1], -ret);
	ret = lsm_query(lsm, &query);
	if (ret)
		die("query", -ret);
	nr = query.capacity / 100 * LIVE / lsmem_entry_size(LENGTH);
	objects = calloc(nr, sizeof(*objects));
	if (!objects)
		die("memory", ENOMEM);
	for (i = 0; i < nr; i += n) {
		for (n = 0; n < BATCH && i + n < nr; n++)
			which[n] = i + n;
		write_batch(lsm, objects, which, n);
	}
	writes = nr * strtoull(argv[2], NULL, 0);
	for (done = 0; done < writes; done += n) {
		for (n = 0; n < BATCH;) {
			which[n] = random_below(&state, nr);
			if (which[n] % COLD)
				n++;	/* twice in a batch is fine: the last one counts */
		}
		write_batch(lsm, objects, which, n);
	}
	if (fsync(lsm_fd(lsm)))
		die("fsync", errno);
	bad = wrong(lsm, objects, nr);
	printf("%llu objects, %llu cold, %llu overwrites, %llu wrong\n", (unsigned long long)nr,
	       (unsigned long long)(nr + COLD - 1) / COLD, (unsigned long long)writes,
	       (unsigned long long)bad);
	lsm_close(lsm);
	return bad ? 3 : 0;
}
