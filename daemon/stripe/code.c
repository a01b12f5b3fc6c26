// SPDX-License-Identifier: GPL-2.0
/*
 * Coding by ISA-L. The matrix is gf_gen_cauchy1_matrix(): the identity above a Cauchy matrix, all of whose square parts
 * are regular (Blömer and others, "An XOR-Based Erasure-Resilient Coding Scheme", 1995), so every k rows of it can be
 * inverted. gf_gen_rs_matrix() has no such guarantee beyond a few parities.
 *
 * To decode, the rows of k shards that are there are inverted: the data are the inverse times these shards. A parity
 * shard is its row times the data. ISA-L expands a coefficient to a table of 32 bytes; the tables of the last CACHE
 * pairs of sets are kept, since a store with a lost backup decodes with the same few again and again.
 */
#include <errno.h>
#include <isa-l.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"

#define CACHE	8u	/* tables for decoding that are kept */
#define EXPANDED	32u	/* bytes of the table of a coefficient */

/**
 * struct code_tables - how some shards are made from others
 * @from: the k shards that are used, as a mask; 0: the entry is not in use
 * @want: the shards that are made
 * @used: time of the last use
 * @tables: for each shard of @want, k expanded coefficients
 */
struct code_tables {
	uint32_t from, want;
	uint64_t used;
	uint8_t tables[CODE_SHARDS * CODE_SHARDS * EXPANDED];
};

/**
 * struct code - a code
 * @k: data shards
 * @m: parity shards
 * @clock: uses of @cache
 * @matrix: k + m rows of k coefficients; the first k rows are the identity
 * @encode: expanded rows of the parity shards
 * @cache: for decoding
 */
struct code {
	uint32_t k, m;
	uint64_t clock;
	uint8_t matrix[CODE_SHARDS * CODE_SHARDS];
	uint8_t encode[CODE_SHARDS * CODE_SHARDS * EXPANDED];
	struct code_tables cache[CACHE];
};

/**
 * code_new - make a code
 * @k: data shards, at least 1
 * @m: parity shards, at least 1; @k + @m is at most CODE_SHARDS
 *
 * Return: the code, to be given to code_free(); NULL: a number is out of range, or no memory.
 */
struct code *code_new(uint32_t k, uint32_t m)
{
	struct code *code;

	if (!k || !m || k > CODE_SHARDS || m > CODE_SHARDS - k)
		return NULL;
	code = calloc(1, sizeof(*code));
	if (!code)
		return NULL;
	code->k = k;
	code->m = m;
	gf_gen_cauchy1_matrix(code->matrix, (int)(k + m), (int)k);
	ec_init_tables((int)k, (int)m, code->matrix + k * k, code->encode);
	return code;
}

/**
 * code_free - free a code
 * @code: the code, or NULL
 */
void code_free(struct code *code)
{
	free(code);
}

/**
 * code_k - the number of data shards
 * @code: the code
 *
 * Return: k.
 */
uint32_t code_k(const struct code *code)
{
	return code->k;
}

/**
 * code_m - the number of parity shards
 * @code: the code
 *
 * Return: m.
 */
uint32_t code_m(const struct code *code)
{
	return code->m;
}

/**
 * code_encode - compute parity
 * @code: the code
 * @bytes: columns: of each shard, less than 2 GiB
 * @data: k data shards
 * @parity: m parity shards, overwritten
 */
void code_encode(const struct code *code, size_t bytes, const void *const *data, void *const *parity)
{
	ec_encode_data((int)bytes, (int)code->k, (int)code->m, (uint8_t *)code->encode, (uint8_t **)data,
		       (uint8_t **)parity);
}

/**
 * code_update - add bytes of one data shard to parity
 * @code: the code
 * @shard: number of the data shard
 * @bytes: columns, less than 2 GiB
 * @data: the bytes; for the parity so far these columns of @shard were zero
 * @parity: m parity shards, the same columns; all zero for k shards of zeroes
 *
 * When each byte of all data shards was added once, in any order, the parity is that of code_encode().
 */
void code_update(const struct code *code, uint32_t shard, size_t bytes, const void *data, void *const *parity)
{
	if (bytes)
		ec_encode_data_update((int)bytes, (int)code->k, (int)code->m, (int)shard, (uint8_t *)code->encode,
				      (uint8_t *)data, (uint8_t **)parity);
}

/* The coefficients by which each shard of @want is the sum of the k shards @from. False: not regular. */
static bool code_solve(const struct code *code, uint32_t from, uint32_t want, uint8_t *rows)
{
	uint8_t part[CODE_SHARDS * CODE_SHARDS], inverse[CODE_SHARDS * CODE_SHARDS];
	uint32_t k = code->k, shard, i, j, n = 0;

	for (shard = 0; shard < k + code->m; shard++)
		if (from >> shard & 1)
			memcpy(part + k * n++, code->matrix + k * shard, k);
	if (gf_invert_matrix(part, inverse, (int)k))
		return false;
	for (shard = 0; shard < k + code->m; shard++) {
		const uint8_t *row = code->matrix + k * shard;

		if (!(want >> shard & 1))
			continue;
		for (j = 0; j < k; j++, rows++)
			for (i = 0, *rows = 0; i < k; i++)
				*rows ^= gf_mul(row[i], inverse[k * i + j]);
	}
	return true;
}

static const struct code_tables *code_tables(struct code *code, uint32_t from, uint32_t want)
{
	uint8_t rows[CODE_SHARDS * CODE_SHARDS];
	struct code_tables *t, *oldest = code->cache;

	for (t = code->cache; t < code->cache + CACHE; t++) {
		if (t->from == from && t->want == want) {
			t->used = ++code->clock;
			return t;
		}
		if (t->used < oldest->used)
			oldest = t;
	}
	if (!code_solve(code, from, want, rows))
		return NULL;
	oldest->from = from;
	oldest->want = want;
	oldest->used = ++code->clock;
	ec_init_tables((int)code->k, __builtin_popcount(want), rows, oldest->tables);
	return oldest;
}

/**
 * code_decode - make shards from others
 * @code: the code; it is changed: only one thread uses it
 * @there: shards whose bytes are right; the first k of them are read, data shards before parity
 * @want: shards to be made, data or parity, none of @there; 0: nothing is done
 * @bytes: columns, less than 2 GiB
 * @shards: by number of the shard; those of @want are overwritten, those in neither set may be NULL
 *
 * Return: 0, or -ENODATA: fewer than k shards are there, and nothing was done.
 */
int code_decode(struct code *code, uint32_t there, uint32_t want, size_t bytes, void *const *shards)
{
	uint8_t *from[CODE_SHARDS], *to[CODE_SHARDS];
	const struct code_tables *tables;
	uint32_t shard, used = 0, n = 0, made = 0;

	if (!want)
		return 0;
	for (shard = 0; shard < code->k + code->m; shard++) {
		if (there >> shard & 1 && n < code->k) {
			used |= 1u << shard;
			from[n++] = shards[shard];
		}
		if (want >> shard & 1)
			to[made++] = shards[shard];
	}
	if (n < code->k)
		return -ENODATA;
	tables = code_tables(code, used, want);
	if (!tables)
		return -ENODATA;
	ec_encode_data((int)bytes, (int)code->k, (int)made, (uint8_t *)tables->tables, from, to);
	return 0;
}
