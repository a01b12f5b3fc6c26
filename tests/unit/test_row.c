// SPDX-License-Identifier: GPL-2.0
/*
 * Rows of coded segments on simulated drives: the writer (stripe/row.h), the end of a segment, and the reader
 * (stripe/row_read.h). The log has entries as the kernel makes them, with their CRCs.
 *
 * A write in flight reads the writer's memory when it reaches the drive, at any time before it is done, in any order. When
 * the power fails, each of its sectors of 512 bytes is on the drive or not. What must hold: with any shards lost or bad, up
 * to those that count less k, all that was acknowledged is found, and nothing else than what was in the log.
 *
 *	test_row [--lives N] [--seed N] [--rules N]	N lives at most without each rule
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stripe/row.h"
#include "stripe/row_read.h"
#include "stripe/rule.h"
#include "../common/nth.h"
#include "../common/random.h"
#include "../common/tap.h"

#define SECTOR	512u
#define SECTORS	(LSMEM_BLOCK / SECTOR)
#define FLIGHTS	(ROW_BATCHES * ROW_WRITES)

/**
 * struct flight - a write that is not done
 * @used: there is one
 * @number: of its batch
 * @write: its blocks
 */
struct flight {
	bool used;
	uint64_t number;
	struct row_write write;
};

/**
 * struct world - a segment, its writer, its drives
 * @lane: of each shard; after a segment the next one finds what it left
 * @log: log data, as in memory; @committed: bytes of them
 * @ends: where entries end, @nr_ends of them
 * @acked: so many were acknowledged
 * @back: block at which directory and footer begin
 * @told: what the newest record that is on all shards says of that; @telling: what the one in flight says, which is
 *	there when @telling_end is durable
 * @stream: what was read; @sealed: with what the segment was closed or sealed
 * @dir: directory and footer, random bytes
 * @anew: a shard that is made anew
 * @lost: shards whose backup is lost; @gone: those that a recovery does not use, because no digest lists them
 * @adding: of @gone, one that is made anew; @filled: its @fill rows that are not on the drive yet
 * @joined: of @gone, one that counts, and that the next digest lists
 * @tries: recoveries
 * @error: the first one
 */
struct world {
	uint64_t random;
	struct code *code;
	struct shard_geometry g;
	struct shard_id id;
	uint32_t n, all, least;
	uint8_t *lane[CODE_SHARDS], *spare[CODE_SHARDS];
	uint8_t *log, *stream, *sealed, *dir, *anew;
	uint32_t committed, acked;
	uint32_t *ends, nr_ends;
	uint32_t back;
	uint32_t told, telling, telling_end;
	uint32_t lost, gone, adding, joined, fill;
	uint8_t *filled;
	struct row_writer *writer;
	struct flight flights[FLIGHTS];
	uint64_t tries;
	char error[160];
};

#define FAIL(w, ...)								\
	do {									\
		if (!*(w)->error)						\
			snprintf((w)->error, sizeof((w)->error), __VA_ARGS__);	\
	} while (0)

static const void *log_block(void *arg, uint32_t n)
{
	const struct world *w = arg;

	return w->log + (size_t)n * LSMEM_BLOCK;
}

static size_t lane_bytes(const struct world *w)
{
	return (size_t)w->g.blocks * LSMEM_BLOCK;
}

static struct world *world_new(uint32_t k, uint32_t m, uint32_t frame, uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	uint32_t i;

	w->random = seed;
	w->code = code_new(k, m);
	if (!shard_geometry(&w->g, k, m, frame))
		abort();
	w->n = k + m;
	w->all = (1u << w->n) - 1;
	w->least = k;
	for (i = 0; i < w->n; i++) {
		w->lane[i] = calloc(1, lane_bytes(w));
		w->spare[i] = calloc(1, lane_bytes(w));
	}
	w->log = calloc(1, shard_room(&w->g));
	w->stream = calloc(1, shard_room(&w->g));
	w->sealed = calloc(1, shard_room(&w->g));
	w->dir = calloc(1, shard_room(&w->g));
	w->anew = calloc(1, lane_bytes(w));
	w->filled = calloc(1, lane_bytes(w));
	w->ends = calloc(shard_room(&w->g) / LSMEM_LONG_BYTES, sizeof(*w->ends));
	memcpy(w->id.uuid, "a coded store ..", sizeof(w->id.uuid));
	w->id.segment = 17;
	return w;
}

static void world_free(struct world *w)
{
	uint32_t i;

	for (i = 0; i < w->n; i++) {
		free(w->lane[i]);
		free(w->spare[i]);
	}
	row_free(w->writer);
	free(w->log);
	free(w->stream);
	free(w->dir);
	free(w->sealed);
	free(w->anew);
	free(w->filled);
	free(w->ends);
	code_free(w->code);
	free(w);
}

static struct row_writer *world_writer(struct world *w, uint32_t shards, uint32_t from, uint64_t record, uint64_t last)
{
	const struct row_params params = {
		.code = w->code, .g = &w->g, .id = w->id, .shards = shards, .least = w->least, .from = from,
		.record = record, .last = last, .block = log_block, .arg = w,
	};

	return row_open(&params);
}

/* A new segment in the same lanes. */
static void world_begin(struct world *w)
{
	row_free(w->writer);
	w->id.generation++;
	w->committed = 0;
	w->acked = 0;
	w->nr_ends = 0;
	w->told = 0;
	w->telling = 0;
	w->telling_end = 0;
	w->back = w->g.rows * w->g.k - 1 - random_below(&w->random, 2 * w->g.k);
	w->lost = 0;
	w->gone = 0;
	w->adding = 0;
	w->joined = 0;
	memset(w->log, 0xa5, shard_room(&w->g));
	memset(w->flights, 0, sizeof(w->flights));
	w->writer = world_writer(w, w->all, 0, 0, 0);
}

/* Append an object, or padding, of @length bytes. False: the segment is full. */
static bool world_entry(struct world *w, uint32_t type, uint32_t length)
{
	uint32_t at = lsmem_entry_start(w->committed), i;
	struct lsmem_entry entry = lsmem_entry_make(type, length, lsmem_handle_make(at / 8, 1), at + 1, 0, 0, at);
	uint8_t *payload = w->log + at + lsmem_entry_header(&entry);

	if (at + lsmem_entry_bytes(&entry) > w->back * LSMEM_BLOCK)
		return false;
	memset(payload, 0, length);
	for (i = 0; type == LSMEM_TYPE_OBJECT && i < length; i++)
		payload[i] = (uint8_t)random_next(&w->random);
	entry.crc = __cpu_to_le32(lsmem_entry_crc(&entry, lsmem_crc32c(~0u, payload, lsmem_entry_covers(&entry) ? length : 0),
						  lsmem_segment_salt(w->id.uuid, w->id.segment, w->id.generation)));
	memcpy(w->log + at, &entry, lsmem_entry_header(&entry));
	w->committed = at + lsmem_entry_bytes(&entry);
	/* Padding and gaps are zero; behind them memory has anything. */
	at += lsmem_entry_header(&entry) + length;
	memset(w->log + at, 0, lsmem_entry_start(w->committed) - at);
	w->ends[w->nr_ends++] = w->committed;
	return true;
}

static bool world_append(struct world *w, uint32_t length)
{
	return world_entry(w, LSMEM_TYPE_OBJECT, length);
}

/* What is acknowledged: whole entries. */
static void world_acks(struct world *w)
{
	uint32_t i, durable = 0;

	for (i = w->nr_ends; i && w->ends[i - 1] > row_durable(w->writer); i--)
		;
	if (i)
		durable = w->ends[i - 1];
	if (durable > w->acked && (uint32_t)__builtin_popcount(w->all & ~w->gone) < w->least)
		FAIL(w, "acknowledged on too few shards");
	if (durable > w->acked)
		w->acked = durable;
	if (row_durable(w->writer) >= w->telling_end)
		w->told = w->telling;
}

static bool world_flies(const struct world *w, uint64_t number, uint32_t shard)
{
	uint32_t i;

	for (i = 0; i < FLIGHTS; i++)
		if (w->flights[i].used && w->flights[i].number == number && w->flights[i].write.shard == shard)
			return true;
	return false;
}

/* Are the bytes behind the end of a batch zero, in the block in which it ends? */
static bool zero_behind(const struct world *w, const struct row_batch *batch)
{
	uint32_t end = batch->end, last = end / LSMEM_BLOCK, i, at;

	for (i = 0; end % LSMEM_BLOCK && i < batch->nr; i++) {
		const struct row_write *write = &batch->writes[i];

		if (write->shard != last % w->g.k || write->block + write->blocks - 1 != shard_row(last / w->g.k))
			continue;
		for (at = end % LSMEM_BLOCK; at < LSMEM_BLOCK; at++)
			if (((const uint8_t *)write->from[write->blocks - 1])[at])
				return false;
	}
	return true;
}

static bool world_batch(struct world *w, bool partial)
{
	const struct row_batch *batch = row_batch(w->writer, w->committed, w->acked, partial);
	uint64_t number;
	uint32_t i, at = 0;

	if (!batch)
		return false;
	number = batch->number;
	/* Of a batch without new log data it is not known when it is durable. */
	if (batch->end % w->g.row_bytes && batch->end > row_durable(w->writer)) {
		w->telling = w->acked;
		w->telling_end = batch->end;
	}
	if (!zero_behind(w, batch)) {
		FAIL(w, "bytes behind the log were sent");
		return false;
	}
	for (i = 0; i < batch->nr; i++) {
		while (at < FLIGHTS && w->flights[at].used)
			at++;
		if (at == FLIGHTS || w->lost >> batch->writes[i].shard & 1) {
			FAIL(w, "a write that should not be");
			return false;
		}
		w->flights[at] = (struct flight) { .used = true, .number = number, .write = batch->writes[i] };
	}
	for (i = 0; i < w->n; i++)
		if (!(w->lost >> i & 1) && !world_flies(w, number, i))
			row_done(w->writer, number, i);
	world_acks(w);
	return true;
}

/* Bring the sectors of a write to a drive for which @keep says so: all, or by chance. */
static void write_apply(struct world *w, uint8_t *const *lane, const struct row_write *write, int keep)
{
	uint32_t n, s;

	for (n = 0; n < write->blocks; n++) {
		uint8_t *to = lane[write->shard] + (size_t)(write->block + n) * LSMEM_BLOCK;
		const uint8_t *from = write->from[n];

		for (s = 0; s < SECTORS; s++)
			if (keep == 100 || random_chance(&w->random, (uint32_t)keep))
				memcpy(to + s * SECTOR, from + s * SECTOR, SECTOR);
	}
}

static void flight_done(struct world *w, struct flight *flight)
{
	flight->used = false;
	if (!world_flies(w, flight->number, flight->write.shard))
		row_done(w->writer, flight->number, flight->write.shard);
	world_acks(w);
}

/* Any write that is in flight; NULL: there is none. */
static struct flight *any_flight(struct world *w)
{
	uint32_t i, nr = 0, nth;

	for (i = 0; i < FLIGHTS; i++)
		nr += w->flights[i].used;
	if (!nr)
		return NULL;
	nth = random_below(&w->random, nr);
	for (i = 0; !w->flights[i].used || nth--; i++)
		;
	return &w->flights[i];
}

static bool world_complete(struct world *w)
{
	struct flight *flight = any_flight(w);

	if (!flight)
		return false;
	write_apply(w, w->lane, &flight->write, 100);
	flight_done(w, flight);
	return true;
}

/* All writes in flight end. @whole: none is torn. */
static void world_land(struct world *w, bool whole)
{
	static const int keep[] = { 0, 100, 100, 50, 85 };
	struct flight *flight;

	while ((flight = any_flight(w))) {
		write_apply(w, w->lane, &flight->write, keep[random_below(&w->random, whole ? 2 : 5)]);
		flight->used = false;
	}
}

static void lose(struct world *w, uint32_t shard)
{
	uint32_t i;

	row_lost(w->writer, shard);
	w->lost |= 1u << shard;
	w->adding &= ~(1u << shard);
	for (i = 0; i < FLIGHTS; i++) {
		if (!w->flights[i].used || w->flights[i].write.shard != shard)
			continue;
		write_apply(w, w->lane, &w->flights[i].write, random_chance(&w->random, 50) ? 100 : 50);
		w->flights[i].used = false;
	}
	world_acks(w);
}

static void world_lose(struct world *w)
{
	uint32_t shard = random_below(&w->random, w->n);

	if (w->lost >> shard & 1 || (uint32_t)__builtin_popcount(w->all & ~w->lost) < w->g.k)
		return;
	lose(w, shard);
	/* The one that is made anew is given up. */
	if (w->adding)
		lose(w, (uint32_t)__builtin_ctz(w->adding));
}

/* A lost backup comes back, or another one does: the next step of that. */
static void world_return(struct world *w)
{
	uint32_t shard = random_below(&w->random, w->n), rows;
	size_t at;

	if (w->joined & ~w->lost) {
		shard = (uint32_t)__builtin_ctz(w->joined);
		w->gone &= ~w->joined;
		w->joined = 0;
		row_listed(w->writer, shard);
	} else if (w->adding) {
		if (!row_whole(w->writer))
			return;
		shard = (uint32_t)__builtin_ctz(w->adding);
		memcpy(w->lane[shard] + LSMEM_BLOCK, w->filled, (size_t)w->fill * LSMEM_BLOCK);
		w->joined = w->adding;
		w->adding = 0;
		row_join(w->writer, shard);
	} else if (w->lost == w->gone && w->gone >> shard & 1 && row_may_add(w->writer)) {
		for (at = 0; at < lane_bytes(w) && random_chance(&w->random, 50); at++)
			w->lane[shard][at] = (uint8_t)random_next(&w->random);
		memset(w->lane[shard] + (size_t)w->g.side * LSMEM_BLOCK, 0, SHARD_SIDES * SHARD_SIDE * LSMEM_BLOCK);
		rows = row_add(w->writer, shard);
		row_fill(w->writer, shard, rows, w->filled, w->anew);
		w->fill = rows;
		w->adding = 1u << shard;
		w->lost &= ~w->adding;
		/* It may have no record. */
		w->told = 0;
		w->telling = 0;
		w->telling_end = 0;
	}
	world_acks(w);
}

static void world_shrink(struct world *w)
{
	uint32_t shard;

	for (shard = 0; shard < w->n; shard++) {
		if (!((w->lost & (~w->gone | w->joined)) >> shard & 1))
			continue;
		w->gone |= 1u << shard;
		w->joined &= ~(1u << shard);
		row_shrunk(w->writer, shard);
		world_acks(w);
	}
}

static struct row_read reader(struct world *w, uint8_t *const *lane, uint32_t there)
{
	struct row_read r = {
		.code = w->code, .g = &w->g, .id = w->id, .there = there, .stream = w->stream,
	};
	uint32_t i;

	for (i = 0; i < w->n; i++)
		r.lane[i] = lane[i];
	return r;
}

/* Read an open segment from @lane. Return: is all there that was acknowledged, and nothing else than the log? */
static bool read_open(struct world *w, struct row_read *r, uint8_t *const *lane)
{
	int ret = row_read_open(r);

	w->tries++;
	if (ret)
		FAIL(w, "there %#x: error %d", r->there, ret);
	else if (r->length < w->acked)
		FAIL(w, "there %#x: %u bytes were acknowledged, %u found", r->there, w->acked, r->length);
	else if (r->length > lsmem_entry_start(w->committed) || memcmp(w->stream, w->log, r->length))
		FAIL(w, "there %#x: found what was not in the log", r->there);
	else if (lane == w->lane && r->there >> w->g.k && r->proven < w->told)
		FAIL(w, "there %#x: a record says %u, %u are proven", r->there, w->told, r->proven);
	else if (r->proven > r->length)
		FAIL(w, "there %#x: %u are proven, %u found", r->there, r->proven, r->length);
	return !*w->error;
}

/* Is a closed or sealed segment there, and can all of its shards be made? */
static bool read_closed(struct world *w, uint8_t *const *lane, uint32_t there, uint32_t length, uint32_t back)
{
	static uint8_t made[CODE_SHARDS][LSMEM_BLOCK], right[CODE_SHARDS][LSMEM_BLOCK];
	struct row_read r = reader(w, lane, there);
	uint32_t row, shard, front = (length + w->g.row_bytes - 1) / w->g.row_bytes;
	uint32_t anew = random_below(&w->random, w->n);
	uint8_t *lane_anew = w->anew;
	void *to[CODE_SHARDS], *parity[CODE_SHARDS];
	const void *data[CODE_SHARDS];

	w->tries++;
	for (shard = 0; shard < w->n; shard++) {
		to[shard] = made[shard];
		data[shard] = right[shard];
		if (shard >= w->g.k)
			parity[shard - w->g.k] = right[shard];
	}
	if (row_read_closed(&r) || r.length != length || r.front != front) {
		FAIL(w, "there %#x: no tables", there);
		return false;
	}
	if (row_rebuild(&r, anew, lane_anew) ||
	    shard_table_check((void *)(lane_anew + (size_t)w->g.table * LSMEM_BLOCK), &w->g, &w->id, anew)) {
		FAIL(w, "there %#x: shard %u cannot be made", there, anew);
		return false;
	}
	for (row = 0; row < w->g.rows; row++) {
		if (row >= front && row < w->g.rows - r.back)
			continue;
		memset(right, 0, sizeof(right));
		for (shard = 0; shard < w->g.k; shard++) {
			uint32_t n = row * w->g.k + shard, at = n * LSMEM_BLOCK;

			if (row < front)
				memcpy(right[shard], w->sealed + at, LSMEM_BLOCK);
			if (n >= back)
				memcpy(right[shard], w->dir + at, LSMEM_BLOCK);
		}
		code_encode(w->code, LSMEM_BLOCK, data, parity);
		if (row_make(&r, row, w->all, to) || memcmp(made, right, (size_t)w->n * LSMEM_BLOCK) ||
		    memcmp(lane_anew + (size_t)shard_row(row) * LSMEM_BLOCK, right[anew], LSMEM_BLOCK)) {
			FAIL(w, "there %#x: row %u of %u is not what was written", there, row, front);
			return false;
		}
	}
	return true;
}

static uint32_t any_shards(struct world *w, uint32_t of, uint32_t nr)
{
	uint32_t set = 0;

	while (nr && of) {
		uint32_t shard = 1u << random_below(&w->random, w->n);

		if (!(of & shard))
			continue;
		set |= shard;
		of &= ~shard;
		nr--;
	}
	return set;
}

/* A copy of the drives, on which the shards @bad have damage of some kind. */
static uint8_t *const *damaged(struct world *w, uint32_t bad)
{
	uint32_t shard, times;
	size_t at;

	for (shard = 0; shard < w->n; shard++) {
		memcpy(w->spare[shard], w->lane[shard], lane_bytes(w));
		if (!(bad >> shard & 1))
			continue;
		switch (random_below(&w->random, 4)) {
		case 0:
			memset(w->spare[shard], 0, lane_bytes(w));
			break;
		case 1:
			for (at = 0; at < lane_bytes(w); at += LSMEM_BLOCK)
				w->spare[shard][at + random_below(&w->random, LSMEM_BLOCK)] ^= 4;
			break;
		case 2:
			/* Only the sides, in their first or second block */
			at = (size_t)(w->g.side + random_below(&w->random, 4)) * LSMEM_BLOCK;
			w->spare[shard][at + random_below(&w->random, LSMEM_BLOCK)] ^= 1;
			w->spare[shard][at] ^= 1;
			break;
		default:
			for (times = 0; times < 8; times++)
				w->spare[shard][random_below(&w->random, lane_bytes(w))] ^= 1;
		}
	}
	return w->spare;
}

/* Read with shards lost and bad, some times. @back: see read_closed(); 0: the segment is open. */
static bool world_read(struct world *w, uint32_t of, uint32_t times, uint32_t length, uint32_t back)
{
	while (times--) {
		uint32_t most = (uint32_t)__builtin_popcount(of) - w->g.k, lost = random_below(&w->random, most + 1);
		uint32_t there = of & ~any_shards(w, of, lost), bad = any_shards(w, there, most - lost);
		uint8_t *const *lane = bad ? damaged(w, bad) : w->lane;
		struct row_read r = reader(w, lane, there);

		if (random_chance(&w->random, 30))
			r.least = w->acked;
		if (back ? !read_closed(w, lane, there, length, back) : !read_open(w, &r, lane))
			return false;
	}
	return true;
}

static const void *stream_block(void *arg, uint32_t n)
{
	const struct world *w = arg;

	return w->stream + (size_t)n * LSMEM_BLOCK;
}

static const void *closed_block(void *arg, uint32_t n)
{
	const struct world *w = arg;

	return (n < w->back ? w->log : w->dir) + (size_t)n * LSMEM_BLOCK;
}

/* Write the end of a segment. @crash: the power may fail. Return: it is whole. */
static bool world_finish(struct world *w, struct row_finish *f, uint32_t there, bool crash)
{
	bool cut = false;
	uint32_t i;

	if (!row_finish_begin(f))
		abort();
	while (!cut && row_finish_next(f)) {
		/* Any order: from a random one on, around. */
		uint32_t begin = f->nr ? random_below(&w->random, f->nr) : 0;

		for (i = 0; i < f->nr && !cut; i++) {
			const struct row_write *write = &f->writes[(begin + i) % f->nr];

			if (!(there >> write->shard & 1))
				continue;
			cut = crash && random_chance(&w->random, 8);
			write_apply(w, w->lane, write, cut ? 50 : 100);
		}
	}
	row_finish_end(f);
	return !cut;
}

/* Recover the open segment, with recoveries that crash, until it is sealed, and read that. */
static void world_recover(struct world *w)
{
	uint32_t of = w->all & ~w->gone, there, most, tries, shard, bad;
	struct row_read r;
	struct row_finish f;

	/* Some shards get bad for good. */
	most = (uint32_t)__builtin_popcount(of) - w->g.k;
	bad = random_chance(&w->random, 30) ? any_shards(w, of, random_below(&w->random, most + 1)) : 0;
	(void)damaged(w, bad);
	for (shard = 0; shard < w->n; shard++)
		memcpy(w->lane[shard], w->spare[shard], lane_bytes(w));
	most -= (uint32_t)__builtin_popcount(bad);
	for (tries = 0; !*w->error; tries++) {
		there = of & ~any_shards(w, of, tries < 3 ? random_below(&w->random, most + 1) : 0);
		if (!bad && !world_read(w, of, 3, 0, 0))
			return;
		r = reader(w, w->lane, there);
		if (!read_open(w, &r, bad ? w->spare : w->lane))
			return;
		f = (struct row_finish) {
			.code = w->code, .g = &w->g, .id = w->id, .length = r.length, .back = w->g.rows * w->g.k,
			.block = stream_block, .arg = w, .whole = true,
		};
		for (shard = 0; shard < w->n; shard++)
			f.lane[shard] = there >> shard & 1 ? w->lane[shard] : NULL;
		memcpy(w->sealed, w->stream, shard_room(&w->g));
		if (world_finish(w, &f, there, tries < 4)) {
			(void)world_read(w, there, 4, r.length, f.back);
			return;
		}
	}
}

static void world_close(struct world *w)
{
	struct row_finish f = {
		.code = w->code, .g = &w->g, .id = w->id, .block = closed_block, .arg = w,
		.back = w->back,
	};
	uint32_t i, of;

	for (i = 0; i < shard_room(&w->g); i++)
		w->dir[i] = (uint8_t)random_next(&w->random);
	while (w->acked < w->committed) {
		if (!world_batch(w, true) && !world_complete(w)) {
			FAIL(w, "%u of %u bytes, and nothing to do", w->acked, w->committed);
			return;
		}
		if (*w->error)
			return;
	}
	of = w->all & ~w->gone & ~w->lost;
	f.length = w->committed;
	f.from = f.length / w->g.row_bytes;
	memset(w->sealed, 0, shard_room(&w->g));
	memcpy(w->sealed, w->log, f.length);
	if (world_finish(w, &f, of, random_chance(&w->random, 50)))
		(void)world_read(w, of, 4, f.length, f.back);
	else
		world_recover(w);
}

/* The daemon is killed, and goes on; writes in flight have reached drives, or not. */
static void world_kill(struct world *w)
{
	uint32_t shards = w->all & ~w->gone;
	uint64_t record, last;
	struct row_read r;

	if (w->lost & ~w->gone)
		return;
	world_land(w, true);
	w->lost = w->gone;
	w->adding = 0;
	w->joined = 0;
	/* The next record may overwrite the newest one that all shards have, if full rows protect what is acknowledged. */
	w->told = 0;
	w->telling = 0;
	r = reader(w, w->lane, shards);
	row_free(w->writer);
	record = row_read_next(&r, w->acked, &last);
	w->writer = world_writer(w, shards, w->acked, record, last);
}

static void world_step(struct world *w)
{
	uint32_t what = random_below(&w->random, 100), most = random_chance(&w->random, 20) ? 3 * w->g.row_bytes : 3000;

	if (what < 33)
		(void)world_entry(w, random_chance(&w->random, 95) ? LSMEM_TYPE_OBJECT : LSMEM_TYPE_PAD,
				  1 + random_below(&w->random, most));
	else if (what < 57)
		(void)world_batch(w, random_chance(&w->random, 60));
	else if (what < 90)
		(void)world_complete(w);
	else if (what < 92)
		world_kill(w);
	else if (w->lost & (~w->gone | w->joined))
		world_shrink(w);
	else if (w->gone && random_chance(&w->random, 90))
		world_return(w);
	else if (random_chance(&w->random, 12))
		world_lose(w);
}

/* Segments one after the other in the same lanes. */
static void world_life(struct world *w)
{
	uint32_t segments, steps;

	for (segments = 0; segments < 4 && !*w->error; segments++) {
		w->least = w->g.k + random_below(&w->random, 2);
		world_begin(w);
		for (steps = 10 + random_below(&w->random, 150); steps && !*w->error; steps--)
			world_step(w);
		if ((uint32_t)__builtin_popcount(w->all & ~w->lost & ~w->gone) < w->g.k)
			continue;	/* more were lost than may be */
		if (random_chance(&w->random, 30)) {
			if (w->adding)
				lose(w, (uint32_t)__builtin_ctz(w->adding));
			world_shrink(w);
			if (w->joined)
				world_return(w);
			if ((uint32_t)__builtin_popcount(w->all & ~w->lost) >= w->least)
				world_close(w);
		} else {
			world_land(w, false);
			world_recover(w);
		}
	}
}

static const struct {
	uint32_t k, m;
} kinds[] = { { 2, 1 }, { 3, 2 }, { 5, 4 }, { 8, 4 } };

/* One life, by its seed. Return: it went well. */
static bool life(uint64_t seed, uint64_t *tries, char *why, size_t room)
{
	uint32_t kind = seed % 8, rows = 3 + (uint32_t)(seed / 8 % 15);
	struct world *w;
	bool ok;

	kind = kind < 3 ? 0 : kind < 6 ? 1 : kind - 4;
	w = world_new(kinds[kind].k, kinds[kind].m, kinds[kind].k * (rows + 6), seed);
	world_life(w);
	ok = !*w->error;
	*tries += w->tries;
	snprintf(why, room, "%u+%u, %s", w->g.k, w->g.m, w->error);
	world_free(w);
	return ok;
}

/* What is appended before each batch of test_all(), and whether the batch is partial. */
static const struct {
	uint32_t length;
	bool partial;
	bool stays;		/* it is in flight with the next one */
} script[] = {
	{ 100, true, false }, { 3000, true, false }, { 2500, true, false }, { 9000, false, true }, { 700, true, false },
	{ 4000, true, false }, { 20000, false, true }, { 5000, true, false }, { 60, true, false }, { 30000, false, true },
	{ 9000, false, false },
};

/* Read with all sets of shards lost, up to m. */
static bool read_all(struct world *w, uint8_t *const *lane)
{
	uint32_t lost;

	for (lost = 0; lost <= w->all; lost++) {
		struct row_read r;

		if ((uint32_t)__builtin_popcount(lost) > w->g.m)
			continue;
		r = reader(w, lane, w->all & ~lost);
		if (!read_open(w, &r, lane))
			return false;
	}
	return true;
}

/* Each of the writes in flight is on its drive or not, or parity in its first or its last sectors; all cases. */
static bool cut_all(struct world *w)
{
	const struct flight *flights[FLIGHTS];
	uint32_t nr = 0, total = 1, i, n, s, c;

	for (i = 0; i < FLIGHTS; i++)
		if (w->flights[i].used) {
			bool data = w->flights[i].write.shard < w->g.k;

			flights[nr++] = &w->flights[i];
			total *= data ? 2 : 3;
		}
	for (c = 0; c < total; c++) {
		uint32_t left = c;

		for (i = 0; i < w->n; i++)
			memcpy(w->spare[i], w->lane[i], lane_bytes(w));
		for (i = 0; i < nr; i++) {
			const struct row_write *write = &flights[i]->write;
			uint32_t ways = write->shard < w->g.k ? 2 : 3, way = left % ways, all = write->blocks * SECTORS;

			left /= ways;
			for (s = 0; s < all; s++) {
				if (!way || (way == 2 && (s < all / 2) == (c & 1)))
					continue;
				n = write->block * SECTORS + s;
				memcpy(w->spare[write->shard] + (size_t)n * SECTOR,
				       (const uint8_t *)write->from[s / SECTORS] + s % SECTORS * SECTOR, SECTOR);
			}
		}
		if (!read_all(w, w->spare))
			return false;
	}
	return true;
}

/* The power fails in each batch of the script, before and after the shards have it, in all ways, with all sets lost. */
static uint64_t test_all(uint32_t k, uint32_t m, uint32_t batches)
{
	struct world *w = world_new(k, m, k * (16 + 6), 1);
	uint64_t tries = 0;
	uint32_t i;

	world_begin(w);
	for (i = 0; i < batches && !*w->error; i++) {
		if (!world_append(w, script[i].length))
			FAIL(w, "no room");
		if (!world_batch(w, script[i].partial))
			FAIL(w, "no batch %u", i);
		if (!*w->error)
			(void)cut_all(w);
		while (!*w->error && !script[i].stays && world_complete(w))
			;
		if (script[i].partial && !script[i].stays && w->acked != w->committed)
			FAIL(w, "not all is durable");
		if (!*w->error)
			(void)read_all(w, w->lane);
	}
	tries = w->tries;
	if (*w->error) {
		tap_note("%u+%u, batch %u: %s", k, m, i, w->error);
		tries = 0;
	}
	world_free(w);
	return tries;
}

/* A segment of full size, with the largest objects, to its end. */
static bool test_large(uint32_t k, uint32_t m)
{
	struct world *w = world_new(k, m, SHARD_FRAME, 5);
	bool ok;

	world_begin(w);
	(void)world_entry(w, LSMEM_TYPE_PAD, 3u << 20);
	while (world_append(w, random_chance(&w->random, 20) ? LSMEM_OBJECT_MAX : random_below(&w->random, 200000) + 1)) {
		while (world_batch(w, random_chance(&w->random, 30)) ||
		       (random_chance(&w->random, 97) && world_complete(w)))
			;
	}
	if (w->committed < 6u << 20 || w->acked < 3u << 20)
		FAIL(w, "%u bytes fill the segment, %u are acknowledged", w->committed, w->acked);
	(void)world_read(w, w->all, 2, 0, 0);
	if (!*w->error)
		world_close(w);
	ok = !*w->error;
	if (!ok)
		tap_note("%u+%u: %s", k, m, w->error);
	world_free(w);
	return ok;
}

static bool test_geometry(void)
{
	struct shard_geometry g;
	uint32_t k, m;

	for (k = 2; k < CODE_SHARDS; k++)
		for (m = 1; k + m <= CODE_SHARDS; m++) {
			CHECK(shard_geometry(&g, k, m, SHARD_FRAME));
			CHECK(g.table + g.tables == g.blocks && g.blocks * k <= SHARD_FRAME);
			CHECK(g.side == shard_row(g.rows) && g.table == shard_side(&g, SHARD_SIDES));
			CHECK(sizeof(struct lsmem_shard_table) + g.rows * sizeof(__le32) <= g.tables * LSMEM_BLOCK);
			CHECK(shard_room(&g) / LSMEM_BLOCK >= 1900);
		}
	/* Those of stripes.rst */
	CHECK(shard_geometry(&g, 2, 1, SHARD_FRAME) && g.blocks == 1024 && g.rows == 1017);
	CHECK(shard_geometry(&g, 3, 2, SHARD_FRAME) && g.blocks == 682 && g.rows == 676);
	CHECK(shard_geometry(&g, 5, 4, SHARD_FRAME) && g.blocks == 409 && g.rows == 403);
	CHECK(shard_geometry(&g, 8, 4, SHARD_FRAME) && g.blocks == 256 && g.rows == 250);
	CHECK(!shard_geometry(&g, 1, 1, SHARD_FRAME));
	CHECK(!shard_geometry(&g, 2, 0, SHARD_FRAME));
	CHECK(!shard_geometry(&g, 9, 8, SHARD_FRAME));
	CHECK(!shard_geometry(&g, 2, ~0u, SHARD_FRAME));
	CHECK(!shard_geometry(&g, 2, 1, 12));
	CHECK(shard_geometry(&g, 2, 1, 14) && g.rows == 1);
	CHECK(!shard_geometry(&g, 2, 1, SHARD_FRAME + 1));
	return true;
}

/* Blocks that the writer sends for batches of one kind. */
static bool test_blocks(void)
{
	struct world *w = world_new(3, 2, 3 * 26, 1);
	const struct row_batch *batch;
	uint32_t i, blocks;
	static const struct {
		uint32_t to, blocks;
	} steps[] = { { 3000, 1 + 2 }, { 3800, 1 + 2 }, { 5000, 2 + 2 * 2 }, { 6000, 1 + 2 * 2 }, { 8192, 1 + 2 * 2 },
		      { 12288, 1 + 2 }, { 12288 * 3, 2 * 5 }, { 12288 * 4 + 100, 5 + 1 + 2 } };

	world_begin(w);
	for (i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		w->committed = steps[i].to;
		batch = row_batch(w->writer, w->committed, 0, true);
		CHECK(batch && batch->end == steps[i].to);
		for (blocks = 0; batch->nr; ((struct row_batch *)batch)->nr--)
			blocks += batch->writes[batch->nr - 1].blocks;
		CHECK(blocks == steps[i].blocks);
		CHECK(!row_batch(w->writer, w->committed, 0, true));
		for (blocks = 0; blocks < 5; blocks++)
			row_done(w->writer, batch->number, blocks);
		CHECK(row_durable(w->writer) == steps[i].to);
	}
	world_free(w);
	return true;
}

/*
 * A full row whose last entry goes on in the next one, which is not durable; one shard is bad behind the end of the log; the
 * recovery that seals crashes in its first write of parity, after one sector; then the shard with the log is lost.
 */
static bool test_tail(void)
{
	struct world *w = world_new(3, 2, 3 * 22, 1);
	struct row_finish f;
	struct row_read r;
	uint32_t i, sector;

	world_begin(w);
	CHECK(world_append(w, 3000) && world_append(w, 20000) && world_batch(w, false));
	while (world_complete(w))
		;
	CHECK(w->acked == w->ends[0]);
	w->lane[2][LSMEM_BLOCK + 100] ^= 1;
	w->lane[2][LSMEM_BLOCK + 1000] ^= 1;
	r = reader(w, w->lane, w->all);
	CHECK(!row_read_open(&r) && r.length == w->acked);
	f = (struct row_finish) {
		.code = w->code, .g = &w->g, .id = w->id, .length = r.length, .back = w->g.rows * w->g.k,
		.block = stream_block, .arg = w, .whole = true,
	};
	for (i = 0; i < w->n; i++)
		f.lane[i] = w->lane[i];
	CHECK(row_finish_begin(&f) && row_finish_next(&f));
	for (i = 0; i < f.nr && f.writes[i].shard < w->g.k; i++)
		write_apply(w, w->lane, &f.writes[i], 100);
	for (sector = 0; i < f.nr && sector < 1; sector++)
		memcpy(w->lane[f.writes[i].shard] + LSMEM_BLOCK, f.writes[i].from[0], SECTOR);
	row_finish_end(&f);
	r = reader(w, w->lane, w->all & ~1u);
	CHECK(!row_read_open(&r) && r.length >= w->acked);
	world_free(w);
	return true;
}

/* Records and tables are of one shard, of one segment, of one code. */
static bool test_checks(void)
{
	static uint8_t block[2 * LSMEM_BLOCK];
	struct lsmem_shard_record *record = (void *)block;
	struct lsmem_shard_table *table = (void *)block;
	const struct shard_id id = { .uuid = "a store", .segment = 7, .generation = 3 };
	struct shard_geometry g;
	uint32_t i;

	CHECK(shard_geometry(&g, 3, 2, SHARD_FRAME) && g.tables == 1);
	for (i = 0; i < 10; i++) {
		struct lsmem_shard_record right = {
			.head = {
				.segment = __cpu_to_le64(7), .generation = __cpu_to_le32(3), .k = 3, .m = 2, .shard = 4,
				.length = __cpu_to_le32(5000),
			},
			.durable = __cpu_to_le32(5000), .bytes = __cpu_to_le32(LSMEM_BLOCK),
		};

		memcpy(right.head.uuid, id.uuid, sizeof(right.head.uuid));
		right.head.uuid[0] ^= i == 1;
		right.head.segment ^= __cpu_to_le64(i == 2);
		right.head.generation ^= __cpu_to_le32(i == 3);
		right.head.k += i == 4;
		right.head.m += i == 5;
		right.head.shard -= i == 6;
		right.head.length = __cpu_to_le32(i == 7 ? g.row_bytes : 5000);
		right.durable = __cpu_to_le32(i == 8 ? 5001 : 5000);
		right.bytes = __cpu_to_le32(i == 9 ? 4000 : LSMEM_BLOCK);
		*record = right;
		shard_record_seal(record);
		CHECK(!shard_record_check(record, &g, &id, 4) == !i);
		record->reserved[7] ^= 1;
		CHECK(shard_record_check(record, &g, &id, 4) == FORMAT_CRC);
	}
	for (i = 0; i < 10; i++) {
		memset(block, 0, sizeof(block));
		memcpy(table->head.uuid, id.uuid, sizeof(table->head.uuid));
		table->head.uuid[0] ^= i == 1;
		table->head.segment = __cpu_to_le64(7 + (i == 2));
		table->head.generation = __cpu_to_le32(3 - (i == 3));
		table->head.k = 3 + (i == 4);
		table->head.m = 2 + (i == 5);
		table->head.shard = 4 - (i == 6);
		table->head.length = __cpu_to_le32(i == 7 ? 4 * g.row_bytes + 1 : 4 * g.row_bytes);
		table->front = __cpu_to_le32(i == 8 ? g.rows : 3);
		table->back = __cpu_to_le32(i == 9 ? g.rows - 2 : 1);
		shard_table_seal(table, &g);
		CHECK(!shard_table_check(table, &g, &id, 4) == !i);
		block[LSMEM_BLOCK - 1] ^= 1;
		CHECK(shard_table_check(table, &g, &id, 4) == FORMAT_CRC);
	}
	return true;
}

static const struct {
	const char *name, *text;
} rules[] = {
#define STRIPE_RULE_ENTRY(name, text) { #name, text },
#include "stripe/rules.h"
#undef STRIPE_RULE_ENTRY
};

/* Without a rule, something must fail. */
static void test_rule(uint32_t rule, uint64_t lives)
{
	uint64_t seed, tries = 0;
	char why[200] = "";

	stripe_mutation = 1ull << rule;
	for (seed = 1; seed <= lives && life(seed, &tries, why, sizeof(why)); seed++)
		;
	stripe_mutation = 0;
	if (tap_ok(seed <= lives, "without %s (%s): seed %llu", rules[rule].name, rules[rule].text,
		   (unsigned long long)seed))
		tap_note("%s", why);
}

/* Each allocation fails in turn, until none has: there is a writer, or none and nothing is left, which ASan sees. */
static bool test_memory(void)
{
	static const char *const functions[] = { "malloc", "calloc", "aligned_alloc" };
	struct world *w = world_new(3, 2, 3 * 26, 1);
	struct row_finish finish = {
		.code = w->code, .g = &w->g, .id = w->id, .length = w->g.row_bytes, .back = w->back, .block = log_block, .arg = w,
	};
	unsigned int i, nth, failures = 0;
	bool hit;

	for (i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		for (nth = 1, hit = true; hit; nth++) {
			struct row_writer *writer;
			bool begun;

			nth_set(functions[i], nth);
			writer = world_writer(w, w->all, 0, 0, SHARD_NO_RECORD);
			hit = nth_hit();
			CHECK(!writer == hit);
			nth_set(functions[i], nth);
			begun = row_finish_begin(&finish);
			CHECK(begun != nth_hit());
			hit |= nth_hit();
			nth_set(NULL, 0);
			if (begun)
				row_finish_end(&finish);
			row_free(writer);
			failures += hit;
		}
	}
	world_free(w);
	CHECK(failures == 1 + 1 + ROW_BATCHES);
	return true;
}

int main(int argc, char **argv)
{
	uint64_t lives = 200, first = 1, without = 0, seed, tries = 0;
	char why[200] = "";
	uint32_t i;

	for (; argc > 2; argc -= 2, argv += 2) {
		if (!strcmp(argv[1], "--lives"))
			lives = strtoull(argv[2], NULL, 0);
		if (!strcmp(argv[1], "--seed"))
			first = strtoull(argv[2], NULL, 0);
		if (!strcmp(argv[1], "--rules"))
			without = strtoull(argv[2], NULL, 0);
	}
	tap_ok(test_geometry(), "all codes have a geometry");
	tap_ok(test_blocks(), "a batch is as many blocks as stripes.rst says");
	tap_ok(test_checks(), "records and tables of other shards");
	tap_ok(test_memory(), "a writer, and the end of a segment, for which there is no memory");
	tap_ok(test_tail(), "a recovery of a full row with a bad shard crashes");
	tries = test_all(2, 1, 11);
	tap_ok(tries, "2+1: power cuts in all batches, all writes, all sets lost: %llu recoveries", (unsigned long long)tries);
	tries = test_all(3, 2, 5);
	tap_ok(tries, "3+2: power cuts in all batches, all writes, all sets lost: %llu recoveries", (unsigned long long)tries);
	for (i = 0; i < 3; i++)
		tap_ok(test_large(kinds[i].k, kinds[i].m), "%u+%u: a whole segment, shards lost and bad", kinds[i].k,
		       kinds[i].m);
	tries = 0;
	for (seed = first; seed < first + lives && life(seed, &tries, why, sizeof(why)); seed++)
		;
	tap_ok(seed == first + lives, "random lives, %llu recoveries; seed %llu", (unsigned long long)tries,
	       (unsigned long long)seed);
	if (seed != first + lives)
		tap_note("%s", why);
	/* What core does with frames, and readers, are in test_coded and test_fetch. */
	for (i = 0; without && i < STRIPE_RULE_ADD_SIDES; i++)
		test_rule(i, without);
	return tap_end();
}
