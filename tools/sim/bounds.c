// SPDX-License-Identifier: GPL-2.0
/*
 * Two caches of single objects, without segments, to compare with: LRU, and MIN, which knows the
 * future (Belady, "A study of replacement algorithms for a virtual-storage computer", 1966).
 */
#include <errno.h>
#include <stdlib.h>

#include "tier.h"

/**
 * bounds_lru - simulate LRU; reads and writes are uses
 * @trace: requests
 * @memory: objects that fit into memory
 * @counts: out
 * Return: 0 or -ENOMEM.
 */
int bounds_lru(const struct trace *trace, uint32_t memory, struct counts *counts)
{
	const uint32_t end = trace->objects;	/* of the list */
	struct { uint32_t before, after; bool in; } *list = calloc(end + 1, sizeof(*list));
	uint32_t used = 0;
	uint64_t i;

	if (!list)
		return -ENOMEM;
	*counts = (struct counts){ };
	list[end].before = end;
	list[end].after = end;
	for (i = 0; i < trace->nr; i++) {
		uint32_t id = trace->requests[i].object, last;

		trace_count(trace, i, list[id].in, counts);
		if (list[id].in) {
			list[list[id].before].after = list[id].after;
			list[list[id].after].before = list[id].before;
		} else if (used < memory) {
			used++;
		} else {
			last = list[end].before;
			list[last].in = false;
			list[list[last].before].after = end;
			list[end].before = list[last].before;
		}
		list[id].in = true;
		list[id].before = end;
		list[id].after = list[end].after;
		list[list[end].after].before = id;
		list[end].after = id;
	}
	free(list);
	return 0;
}

#define NEVER	0xffffffffu

/* For each request, the index of the next request of its object if that is a read, else NEVER. */
static uint32_t *bounds_next(const struct trace *trace)
{
	uint32_t *next = calloc(trace->nr, sizeof(*next));
	uint32_t *latest = calloc(trace->objects, sizeof(*latest));
	uint64_t i;

	for (i = 0; latest && i < trace->objects; i++)
		latest[i] = NEVER;
	for (i = trace->nr; next && latest && i-- > 0;) {
		const struct request *r = &trace->requests[i];

		next[i] = latest[r->object];
		latest[r->object] = r->op == REQUEST_WRITE ? NEVER : i;
	}
	if (!latest) {
		free(next);
		next = NULL;
	}
	free(latest);
	return next;
}

/* A heap whose root is the object that is read last. Keys: time of the read, then the object. */
static void heap_push(uint64_t *heap, uint64_t *nr, uint64_t key)
{
	uint64_t i = (*nr)++;

	for (; i && heap[(i - 1) / 2] < key; i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = key;
}

static uint64_t heap_pop(uint64_t *heap, uint64_t *nr)
{
	uint64_t root = heap[0], key = heap[--*nr], i = 0, child;

	for (child = 1; child < *nr; child = 2 * i + 1) {
		if (child + 1 < *nr && heap[child + 1] > heap[child])
			child++;
		if (heap[child] <= key)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = key;
	return root;
}

/**
 * bounds_min - simulate MIN: drops the object that is read last, or is written before it is read
 * @trace: requests, fewer than 2^32
 * @memory: objects that fit into memory
 * @counts: out
 * Return: 0 or -ENOMEM.
 */
int bounds_min(const struct trace *trace, uint32_t memory, struct counts *counts)
{
	/* The heap has a key for each request; a key is stale if the object was used since. */
	uint64_t *heap = calloc(trace->nr, sizeof(*heap)), nr = 0, i;
	uint32_t *read_at = calloc(trace->objects, sizeof(*read_at));
	bool *in = calloc(trace->objects, sizeof(*in));
	uint32_t *next = bounds_next(trace);
	uint32_t used = 0;
	int ret = heap && read_at && in && next ? 0 : -ENOMEM;

	*counts = (struct counts){ };
	for (i = 0; !ret && i < trace->nr; i++) {
		uint32_t id = trace->requests[i].object;

		trace_count(trace, i, in[id], counts);
		used += !in[id];
		in[id] = true;
		read_at[id] = next[i];
		heap_push(heap, &nr, (uint64_t)next[i] << 32 | id);
		while (used > memory) {
			uint64_t key = heap_pop(heap, &nr);

			id = key & 0xffffffff;
			if (in[id] && read_at[id] == key >> 32) {
				in[id] = false;
				used--;
			}
		}
	}
	free(heap);
	free(read_at);
	free(in);
	free(next);
	return ret;
}
