// SPDX-License-Identifier: GPL-2.0
/*
 * How fast one processor codes. Bytes of log data a second of processor time, in turns with ISA-L's own loop: ec_encode_data() of shards of
 * 1 MiB, as its erasure_code_perf does. Medians of the turns, and the least and the most. One line of JSON for each code.
 *
 *	coding [SECONDS]	about so much processor time, default 10
 */
#include <isa-l.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stripe/code.h"
#include "stripe/row.h"

#define DATA	(32u << 20)	/* bytes of log data of a turn: more than a processor's cache */
#define TURNS	32u
#define PIECE	128u		/* bytes that an append of 100 bytes adds */

static const struct {
	uint32_t k, m;
} kinds[] = { { 2, 1 }, { 3, 2 }, { 5, 4 }, { 8, 4 } };

static uint8_t *data, *parity;
static uint32_t k, m;
static struct code *code;
static struct shard_geometry geometry;

/* The data shards of ISA-L's loop: parts of 1 MiB of the data. */
static void isal(void)
{
	static uint8_t tables[CODE_SHARDS * CODE_SHARDS * 32], matrix[CODE_SHARDS * CODE_SHARDS];
	uint8_t *from[CODE_SHARDS], *to[CODE_SHARDS];
	uint32_t at, i, bytes = 1u << 20;

	gf_gen_cauchy1_matrix(matrix, (int)(k + m), (int)k);
	ec_init_tables((int)k, (int)m, matrix + k * k, tables);
	for (at = 0; at + k * bytes <= DATA; at += k * bytes) {
		for (i = 0; i < k; i++)
			from[i] = data + at + i * bytes;
		for (i = 0; i < m; i++)
			to[i] = parity + i * bytes;
		ec_encode_data((int)bytes, (int)k, (int)m, tables, from, to);
	}
}

/* Row by row; parity goes to the buffers of a few rows in turn, as in the writer. */
static void rows(void)
{
	const void *from[CODE_SHARDS];
	void *to[CODE_SHARDS];
	uint32_t at, i;

	for (at = 0; at + k * LSMEM_BLOCK <= DATA; at += k * LSMEM_BLOCK) {
		for (i = 0; i < k; i++)
			from[i] = data + at + i * LSMEM_BLOCK;
		for (i = 0; i < m; i++)
			to[i] = parity + (at / (k * LSMEM_BLOCK) % ROW_ROWS * m + i) * LSMEM_BLOCK;
		code_encode(code, LSMEM_BLOCK, from, to);
	}
}

static void pieces(void)
{
	void *to[CODE_SHARDS];
	uint32_t at, i;

	for (at = 0; at + PIECE <= DATA; at += PIECE) {
		for (i = 0; i < m; i++)
			to[i] = parity + i * LSMEM_BLOCK + at % LSMEM_BLOCK;
		code_update(code, at / LSMEM_BLOCK % k, PIECE, data + at, to);
	}
}

/* As many data shards as there are parities are lost. */
static void decode(void)
{
	uint32_t lost = m < k ? m : k, there = ((1u << (k + m)) - 1) & ~((1u << lost) - 1), at, i;
	void *shards[CODE_SHARDS];

	for (at = 0; at + k * LSMEM_BLOCK <= DATA; at += k * LSMEM_BLOCK) {
		for (i = 0; i < k; i++)
			shards[i] = i < lost ? parity + DATA / 2 + i * LSMEM_BLOCK : data + at + i * LSMEM_BLOCK;
		for (; i < k + m; i++)
			shards[i] = parity + (at / k * m + i * LSMEM_BLOCK) % (DATA / 2);
		code_decode(code, there, (1u << lost) - 1, LSMEM_BLOCK, shards);
	}
}

static const void *block(void *arg, uint32_t n)
{
	return data + *(uint32_t *)arg + (size_t)n * LSMEM_BLOCK;
}

/* The writer: batches of full rows, counted at once. */
static void writer(void)
{
	uint32_t at, shard, room = shard_room(&geometry);

	for (at = 0; at + room <= DATA; at += room) {
		const struct row_params params = {
			.code = code, .g = &geometry, .shards = (1u << (k + m)) - 1, .least = k, .block = block, .arg = &at,
		};
		struct row_writer *w = row_open(&params);
		const struct row_batch *batch;

		while ((batch = row_batch(w, room, row_durable(w), false)))
			for (shard = 0; shard < k + m; shard++)
				row_done(w, batch->number, shard);
		row_free(w);
	}
}

static void checksum(void)
{
	uint32_t at, crc;

	for (at = 0; at < DATA; at += LSMEM_BLOCK) {
		crc = lsmem_crc32c(~0u, data + at, LSMEM_BLOCK);
		memcpy(parity, &crc, sizeof(crc));
	}
}

static void copy(void)
{
	memcpy(parity, data, DATA);
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
	{ "isal", isal }, { "encode", rows }, { "writer", writer }, { "update", pieces }, { "decode", decode },
	{ "crc", checksum }, { "memcpy", copy },
};

#define WAYS	(sizeof(ways) / sizeof(*ways))

/* Processor time, so that other programs do not count. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	double until, seconds = argc > 1 ? atof(argv[1]) : 10;
	uint32_t kind, i, turn;

	data = aligned_alloc(LSMEM_BLOCK, DATA);
	parity = aligned_alloc(LSMEM_BLOCK, DATA);
	for (i = 0; i < DATA; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	memset(parity, 1, DATA);
	for (kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++) {
		static double speed[WAYS][TURNS];

		k = kinds[kind].k;
		m = kinds[kind].m;
		code = code_new(k, m);
		if (!code || !shard_geometry(&geometry, k, m, SHARD_FRAME))
			return 1;
		until = now() + seconds / (sizeof(kinds) / sizeof(*kinds));
		for (turn = 0; turn < TURNS && (turn < 3 || now() < until); turn++) {
			for (i = 0; i < WAYS; i++) {
				double begin = now();

				ways[i].run();
				speed[i][turn] = DATA / (now() - begin) / 1e9;
			}
		}
		printf("{\"code\": \"%u+%u\", \"turns\": %u", k, m, turn);
		for (i = 0; i < WAYS; i++) {
			qsort(speed[i], turn, sizeof(double), order);
			printf(", \"%s\": [%.2f, %.2f, %.2f]", ways[i].name, speed[i][turn / 2], speed[i][0],
			       speed[i][turn - 1]);
		}
		printf("}\n");
		code_free(code);
	}
	return 0;
}
