// SPDX-License-Identifier: GPL-2.0
/*
 * The erasure code against a slow one: GF(2^8) by shifts, matrices by Gauss. The reference knows the definition alone,
 * parity shard i = sum over j of data shard j / ((k + i) ^ j), and nothing of ISA-L but for its polynomial.
 */
#include <errno.h>
#include <isa-l.h>
#include <stdlib.h>
#include <string.h>

#include "stripe/code.h"
#include "../common/random.h"
#include "../common/tap.h"

#define BYTES	1000u	/* of a shard: not a multiple of what a vector instruction takes */
#define POLYNOMIAL	0x11du

static const struct {
	uint32_t k, m;
} kinds[] = { { 2, 1 }, { 3, 2 }, { 5, 4 }, { 8, 4 } };

static uint64_t rng = 1;

static uint8_t slow_mul(uint8_t a, uint8_t b)
{
	uint32_t product = 0, i;

	for (i = 0; i < 8; i++)
		if (b >> i & 1)
			product ^= (uint32_t)a << i;
	for (i = 15; i >= 8; i--)
		if (product >> i & 1)
			product ^= POLYNOMIAL << (i - 8);
	return (uint8_t)product;
}

static uint8_t slow_inverse(uint8_t a)
{
	uint32_t b;

	for (b = 1; b < 256 && slow_mul(a, (uint8_t)b) != 1; b++)
		;
	return (uint8_t)b;
}

static uint8_t slow_coefficient(uint32_t k, uint32_t shard, uint32_t from)
{
	return shard < k ? shard == from : slow_inverse((uint8_t)(shard ^ from));
}

/* Are the rows @from of the matrix independent? */
static bool slow_regular(const uint8_t *matrix, uint32_t k, uint32_t from)
{
	uint8_t part[CODE_SHARDS][CODE_SHARDS], factor, row[CODE_SHARDS];
	static uint8_t inverse[256];
	uint32_t n = 0, i, j, c;

	if (!inverse[1])
		for (i = 1; i < 256; i++)
			inverse[i] = slow_inverse((uint8_t)i);
	for (i = 0; i < CODE_SHARDS; i++)
		if (from >> i & 1)
			memcpy(part[n++], matrix + k * i, k);
	for (c = 0; c < k; c++) {
		for (i = c; i < k && !part[i][c]; i++)
			;
		if (i == k)
			return false;
		memcpy(row, part[i], k);
		memcpy(part[i], part[c], k);
		memcpy(part[c], row, k);
		for (i = c + 1; i < k; i++) {
			if (!part[i][c])
				continue;
			factor = gf_mul(part[i][c], inverse[row[c]]);
			for (j = c; j < k; j++)
				part[i][j] ^= gf_mul(factor, row[j]);
		}
	}
	return true;
}

struct stripe {
	uint32_t k, n;
	uint8_t right[CODE_SHARDS][BYTES], bytes[CODE_SHARDS][BYTES];
	void *shards[CODE_SHARDS];
};

/* Random data, and parity by the reference. */
static void stripe_fill(struct stripe *s, uint32_t k, uint32_t m)
{
	uint32_t i, j, x;

	s->k = k;
	s->n = k + m;
	for (i = 0; i < s->n; i++) {
		s->shards[i] = s->bytes[i];
		for (x = 0; x < BYTES; x++) {
			s->right[i][x] = 0;
			if (i < k)
				s->right[i][x] = (uint8_t)random_next(&rng);
		}
		for (j = 0; i >= k && j < k; j++) {
			uint8_t c = slow_coefficient(k, i, j);

			for (x = 0; x < BYTES; x++)
				s->right[i][x] ^= slow_mul(c, s->right[j][x]);
		}
	}
	memcpy(s->bytes, s->right, sizeof(s->right));
}

static bool stripe_right(const struct stripe *s, uint32_t of)
{
	uint32_t i;

	for (i = 0; i < s->n; i++)
		if (of >> i & 1 && memcmp(s->bytes[i], s->right[i], BYTES))
			return false;
	return true;
}

static bool test_encode(struct code *code, struct stripe *s)
{
	const void *data[CODE_SHARDS];
	uint32_t i;

	for (i = 0; i < s->k; i++)
		data[i] = s->bytes[i];
	for (i = s->k; i < s->n; i++)
		memset(s->bytes[i], 0xee, BYTES);
	code_encode(code, BYTES, data, s->shards + s->k);
	return stripe_right(s, (1u << s->n) - 1);
}

/* Data arrive in pieces, of any shard, of any length. */
static bool test_update(struct code *code, struct stripe *s)
{
	uint32_t at[CODE_SHARDS] = { 0 }, left = s->k, i, p;

	for (i = s->k; i < s->n; i++)
		memset(s->bytes[i], 0, BYTES);
	while (left) {
		uint32_t shard = random_below(&rng, s->k), bytes = random_below(&rng, 90);
		void *parity[CODE_SHARDS];

		if (at[shard] == BYTES)
			continue;
		if (bytes > BYTES - at[shard])
			bytes = BYTES - at[shard];
		for (p = 0; p < s->n - s->k; p++)
			parity[p] = s->bytes[s->k + p] + at[shard];
		code_update(code, shard, bytes, s->bytes[shard] + at[shard], parity);
		at[shard] += bytes;
		left -= at[shard] == BYTES;
	}
	return stripe_right(s, (1u << s->n) - 1);
}

/* All sets of up to m lost shards. Return: their number; 0: one was not decoded. */
static uint32_t test_decode(struct code *code, struct stripe *s)
{
	uint32_t all = (1u << s->n) - 1, lost, i, sets = 0;

	for (lost = 0; lost <= all; lost++) {
		if ((uint32_t)__builtin_popcount(lost) > s->n - s->k)
			continue;
		for (i = 0; i < s->n; i++)
			if (lost >> i & 1)
				memset(s->bytes[i], 0xee, BYTES);
		if (code_decode(code, all & ~lost, lost, BYTES, s->shards) || !stripe_right(s, all)) {
			tap_note("%u+%u, lost %#x", s->k, s->n - s->k, lost);
			return 0;
		}
		sets++;
	}
	return sets;
}

/* One lost shard from each set of k others, also of parity alone. */
static bool test_sets(struct code *code, struct stripe *s)
{
	uint32_t all = (1u << s->n) - 1, there, i;

	for (there = 0; there <= all; there++) {
		if ((uint32_t)__builtin_popcount(there) != s->k)
			continue;
		for (i = 0; i < s->n; i++) {
			if (there >> i & 1)
				continue;
			memset(s->bytes[i], 0xee, BYTES);
			CHECK(!code_decode(code, there, 1u << i, BYTES, s->shards));
			CHECK(stripe_right(s, all));
		}
	}
	return true;
}

static bool test_too_few(struct code *code, struct stripe *s)
{
	uint32_t all = (1u << s->n) - 1, there;

	for (there = 0; there <= all; there++) {
		uint32_t want = all & ~there & -(all & ~there);

		if ((uint32_t)__builtin_popcount(there) >= s->k)
			continue;
		CHECK(code_decode(code, there, want, BYTES, s->shards) == -ENODATA);
		CHECK(!code_decode(code, there, 0, BYTES, s->shards));
	}
	return stripe_right(s, all);
}

static bool test_bounds(void)
{
	CHECK(!code_new(0, 1));
	CHECK(!code_new(1, 0));
	CHECK(!code_new(16, 1));
	CHECK(!code_new(1, 16));
	CHECK(!code_new(~0u, 2));
	CHECK(!code_new(2, ~0u));
	return true;
}

/* Is every set of k rows regular, for all codes up to 16 shards? Return: number of sets that are not. */
static uint32_t singular(void (*make)(uint8_t *matrix, int n, int k), uint32_t *first_k, uint32_t *first_m)
{
	uint32_t k, n, from, bad = 0;

	for (n = 2; n <= CODE_SHARDS; n++) {
		for (k = 1; k < n; k++) {
			uint8_t matrix[CODE_SHARDS * CODE_SHARDS];

			make(matrix, (int)n, (int)k);
			for (from = 0; from < 1u << n; from++) {
				if ((uint32_t)__builtin_popcount(from) != k || slow_regular(matrix, k, from))
					continue;
				if (!bad++) {
					*first_k = k;
					*first_m = n - k;
				}
			}
		}
	}
	return bad;
}

int main(void)
{
	static struct stripe s;
	uint32_t i, sets, bad, k = 0, m = 0;

	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct code *code = code_new(kinds[i].k, kinds[i].m);

		stripe_fill(&s, kinds[i].k, kinds[i].m);
		tap_ok(test_encode(code, &s), "%u+%u: parity is that of the definition", s.k, s.n - s.k);
		tap_ok(test_update(code, &s), "%u+%u: parity of data that arrive in pieces", s.k, s.n - s.k);
		sets = test_decode(code, &s);
		tap_ok(sets, "%u+%u: all %u sets of up to %u lost shards are decoded", s.k, s.n - s.k, sets, s.n - s.k);
		tap_ok(test_sets(code, &s), "%u+%u: each shard from each set of %u others", s.k, s.n - s.k, s.k);
		tap_ok(test_too_few(code, &s), "%u+%u: fewer than %u shards are too few", s.k, s.n - s.k, s.k);
		code_free(code);
	}
	tap_ok(test_bounds(), "codes that cannot be");
	bad = singular(gf_gen_cauchy1_matrix, &k, &m);
	tap_is(bad, 0, "any k shards suffice, for all codes of up to 16 shards");
	bad = singular(gf_gen_rs_matrix, &k, &m);
	tap_ok(bad, "that is not so for ISA-L's other matrix: the first is %u+%u", k, m);
	return tap_end();
}
