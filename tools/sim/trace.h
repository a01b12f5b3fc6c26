/* SPDX-License-Identifier: GPL-2.0 */
/* Requests of the simulator of eviction. */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <stdbool.h>
#include <stdint.h>

/**
 * enum request_op - what a request does
 * @REQUEST_READ: reads an object
 * @REQUEST_WRITE: replaces an object, without reading it
 * @REQUEST_SCAN: reads an object because a scan reads all; counted apart
 */
enum request_op { REQUEST_READ, REQUEST_WRITE, REQUEST_SCAN };

/**
 * struct request - one request
 * @object: its number
 * @op: enum request_op
 */
struct request {
	uint32_t object : 30;
	uint32_t op : 2;
};

/**
 * struct trace - all requests of a simulation; they are known before it begins, as MIN needs them
 * @requests: in order
 * @nr: number of requests
 * @measured: index of the first request that counts; those before warm the memory up
 * @objects: number of objects
 */
struct trace {
	struct request *requests;
	uint64_t nr;
	uint64_t measured;
	uint32_t objects;
};

/**
 * struct counts - what a simulation has counted since @trace->measured
 * @reads: reads, those of scans included
 * @missed: of these, reads of objects that were not in memory
 * @own: reads, those of scans not included
 * @own_missed: of these, reads of objects that were not in memory
 * @writes: objects written
 */
struct counts {
	uint64_t reads;
	uint64_t missed;
	uint64_t own;
	uint64_t own_missed;
	uint64_t writes;
};

int trace_init(struct trace *t, const char *name, uint32_t objects, uint32_t memory, uint32_t warm,
	       uint32_t measure, uint64_t seed);
void trace_destroy(struct trace *t);
void trace_count(const struct trace *t, uint64_t i, bool hit, struct counts *counts);
const char *trace_names(void);

#endif
