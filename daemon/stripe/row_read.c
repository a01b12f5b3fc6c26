// SPDX-License-Identifier: GPL-2.0
/*
 * The reader of rows.
 *
 * An open segment has three kinds of proof. Entries have CRCs, which say of any decoded bytes whether they are right: so
 * sets of shards can be tried. Parity records have CRCs of the data blocks of their row: what they give is right without a
 * trial; it is decoded first (struct row_fixed), and put over what a trial gives for the row. And records say how much was
 * durable when they were written. What no CRC of an entry covers, padding and gaps, is zero in the log, and is made zero: so
 * the result is the log, byte by byte, and can be coded again.
 *
 * A trial decodes a window of rows from one set of k shards. The default set is the data shards, and parity for those that
 * are not there. Where entries end, all other sets are tried, and reading goes on with the one that reaches farthest.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "row_read.h"
#include "rule.h"

/* Bytes of a window: the largest object fits, wherever in the first row it begins, and the gap before it. */
#define ROW_WINDOW	(LSMEM_OBJECT_MAX + 2 * LSMEM_SEGLET_BYTES)
#define ROW_RECORDS	(CODE_SHARDS * SHARD_SIDES)

/**
 * struct row_fixed - the bytes of a row that a parity record gives
 * @row: its number
 * @bytes: of log data from its beginning on
 * @data: row_bytes bytes
 */
struct row_fixed {
	uint32_t row, bytes;
	uint8_t *data;
};

/**
 * struct row_search - the reading of an open segment
 * @r: what is read
 * @salt: of the CRCs of entries
 * @trial: shard_room() bytes that one set gives
 * @nr: elements of @fixed
 * @fixed: what records give
 */
struct row_search {
	struct row_read *r;
	uint32_t salt;
	uint8_t *trial;
	uint32_t nr;
	struct row_fixed fixed[ROW_RECORDS];
};

static const uint8_t *lane_block(const struct row_read *r, uint32_t shard, uint32_t block)
{
	return r->lane[shard] + (size_t)block * LSMEM_BLOCK;
}

/* A record that is valid, without its parity; NULL: there is none. */
static const struct lsmem_shard_record *record_of(const struct row_read *r, uint32_t shard, uint32_t side)
{
	const struct lsmem_shard_record *record;

	if (shard < r->g->k || !(r->there >> shard & 1))
		return NULL;
	record = (const void *)lane_block(r, shard, shard_side(r->g, side));
	return shard_record_check(record, r->g, &r->id, shard) ? NULL : record;
}

/* Are two records of the same time? */
static bool record_same(const struct lsmem_shard_record *a, const struct lsmem_shard_record *b)
{
	return a->number == b->number && a->head.length == b->head.length &&
	       !memcmp(a->data_crc, b->data_crc, sizeof(a->data_crc));
}

/* The row of the record @of from data blocks and all records of its time. False: too few of them are right. */
static bool fixed_make(struct row_read *r, const struct lsmem_shard_record *of, struct row_fixed *fixed)
{
	const struct shard_geometry *g = r->g;
	uint32_t length = __le32_to_cpu(of->head.length), bytes = __le32_to_cpu(of->bytes), row = length / g->row_bytes;
	uint32_t shard, side, good = 0, data = (1u << g->k) - 1;
	void *shards[CODE_SHARDS] = { NULL };

	memset(fixed->data, 0, g->row_bytes);
	for (shard = 0; shard < g->k; shard++) {
		uint32_t have = shard_below(g, length, shard);

		shards[shard] = fixed->data + (size_t)shard * LSMEM_BLOCK;
		if (!have)
			good |= 1u << shard;	/* zero */
		if (!have || !(r->there >> shard & 1))
			continue;
		if (!STRIPE_RULE(CUT_DATA))
			memcpy(shards[shard], lane_block(r, shard, shard_row(row)), LSMEM_BLOCK);
		memcpy(shards[shard], lane_block(r, shard, shard_row(row)), have);
		if (!STRIPE_RULE(RECORD_DATA) ||
		    lsmem_crc32c(~0u, shards[shard], have) == __le32_to_cpu(of->data_crc[shard]))
			good |= 1u << shard;
	}
	for (; shard < g->k + g->m; shard++) {
		for (side = 0; side < SHARD_SIDES; side++) {
			const struct lsmem_shard_record *record = record_of(r, shard, side);
			const uint8_t *parity = record && record_same(record, of) ? shard_record_parity(record) : NULL;

			if (parity) {
				good |= 1u << shard;
				shards[shard] = (void *)parity;
			}
		}
	}
	if (code_decode(r->code, good, data & ~good, bytes, shards))
		return false;
	for (shard = 0; shard < g->k; shard++)
		if (STRIPE_RULE(RECORD_DATA) && lsmem_crc32c(~0u, shards[shard], shard_below(g, length, shard)) !=
		    __le32_to_cpu(of->data_crc[shard]))
			return false;
	fixed->row = row;
	fixed->bytes = length - row * g->row_bytes;
	return true;
}

/* All that records give. */
static int search_records(struct row_search *s)
{
	struct row_read *r = s->r;
	const struct lsmem_shard_record *seen[ROW_RECORDS];
	uint32_t shard, side, nr_seen = 0, i;

	for (shard = r->g->k; shard < r->g->k + r->g->m; shard++) {
		for (side = 0; side < SHARD_SIDES; side++) {
			const struct lsmem_shard_record *record = record_of(r, shard, side);

			if (!record)
				continue;
			if (r->proven < __le32_to_cpu(record->durable))
				r->proven = __le32_to_cpu(record->durable);
			for (i = 0; i < nr_seen && !record_same(seen[i], record); i++)
				;
			if (i < nr_seen)
				continue;
			seen[nr_seen++] = record;
			s->fixed[s->nr].data = malloc(r->g->row_bytes);
			if (!s->fixed[s->nr].data)
				return -ENOMEM;
			if (fixed_make(r, record, &s->fixed[s->nr]))
				s->nr++;
			else
				free(s->fixed[s->nr].data);
		}
	}
	return 0;
}

/* Decode rows [@row, @end) from the k shards of @set. */
static void search_decode(struct row_search *s, uint32_t set, uint32_t row, uint32_t end)
{
	const struct shard_geometry *g = s->r->g;
	uint32_t shard, i;

	for (; row < end; row++) {
		uint8_t *to = s->trial + (size_t)row * g->row_bytes;
		void *shards[CODE_SHARDS] = { NULL };

		for (shard = 0; shard < g->k + g->m; shard++) {
			const uint8_t *from = set >> shard & 1 ? lane_block(s->r, shard, shard_row(row)) : NULL;

			shards[shard] = shard < g->k ? to + (size_t)shard * LSMEM_BLOCK : (void *)from;
			if (from && shard < g->k)
				memcpy(shards[shard], from, LSMEM_BLOCK);
		}
		code_decode(s->r->code, set, ((1u << g->k) - 1) & ~set, LSMEM_BLOCK, shards);
		for (i = 0; i < s->nr; i++)
			if (s->fixed[i].row == row)
				memcpy(to, s->fixed[i].data, s->fixed[i].bytes);
	}
}

/* Step over whole entries in [@from, @to) of the trial. Return: where they end. */
static uint32_t search_entries(struct row_search *s, uint32_t from, uint32_t to)
{
	struct format_walk walk = { .salt = s->salt, .at = from, .end = to };

	while (walk.at < to && to - walk.at >= LSMEM_LONG_BYTES) {
		const struct lsmem_entry *entry = (const void *)(s->trial + walk.at);
		uint32_t covered = walk.at;

		if (format_walk_step(&walk, entry))
			break;
		covered += lsmem_entry_header(entry);
		if (lsmem_entry_covers(entry))
			covered += lsmem_entry_length(entry);
		memset(s->trial + covered, 0, walk.at - covered);
	}
	return walk.at;
}

/* Try a set from @from on. Return: where whole entries end. */
static uint32_t search_try(struct row_search *s, uint32_t set, uint32_t from)
{
	const struct shard_geometry *g = s->r->g;
	uint32_t row = from / g->row_bytes, rows = (ROW_WINDOW + g->row_bytes - 1) / g->row_bytes + 1;
	uint32_t end = rows < g->rows - row ? row + rows : g->rows, more, to;
	struct format_walk walk = { .salt = s->salt, .at = from, .end = shard_room(g) };
	const struct lsmem_entry *entry = (const void *)(s->trial + from);

	search_decode(s, set, row, end);
	to = search_entries(s, from, end * g->row_bytes);
	if (to != from || end == g->rows || format_walk_look(&walk, entry))
		return to;
	/* Padding can be longer than an object. */
	more = (from + lsmem_entry_bytes(entry) + g->row_bytes - 1) / g->row_bytes;
	if (more <= end)
		return to;
	search_decode(s, set, end, more);
	return search_entries(s, from, more * g->row_bytes);
}

/* The next set of k bits among those of @there, after @set in the order of numbers; 0: there is none. */
static uint32_t next_set(uint32_t set, uint32_t there, uint32_t k)
{
	while (++set <= there)
		if (!(set & ~there) && (uint32_t)__builtin_popcount(set) == k)
			return set;
	return 0;
}

static uint32_t first_set(uint32_t there, uint32_t k)
{
	uint32_t set = 0;

	for (; k; k--) {
		uint32_t shard = there & -there;

		set |= shard;
		there &= ~shard;
	}
	return set;
}

/* Find the set that reaches farthest from @from; leave its bytes in @s->trial. Return: where it ends. */
static uint32_t search_sets(struct row_search *s, uint32_t *set, uint32_t from)
{
	uint32_t best = *set, reach = from, other, to;

	for (other = next_set(0, s->r->there, s->r->g->k); other;
	     other = next_set(other, s->r->there, s->r->g->k)) {
		to = search_try(s, other, from);
		if (to > reach) {
			reach = to;
			best = other;
		}
	}
	if (reach == from)
		return from;
	*set = best;
	return search_try(s, best, from);
}

/* Of how many shards is the block of @row that which the row in the trial gives? */
static uint32_t search_agree(const struct row_search *s, uint32_t row, uint8_t *buffer)
{
	const struct shard_geometry *g = s->r->g;
	const void *blocks[CODE_SHARDS];
	void *parity[CODE_SHARDS];
	uint32_t shard, agree = 0;

	for (shard = 0; shard < g->k + g->m; shard++) {
		blocks[shard] = shard < g->k ? s->trial + (size_t)row * g->row_bytes + (size_t)shard * LSMEM_BLOCK :
				buffer + (size_t)(shard - g->k) * LSMEM_BLOCK;
		if (shard >= g->k)
			parity[shard - g->k] = buffer + (size_t)(shard - g->k) * LSMEM_BLOCK;
	}
	code_encode(s->r->code, LSMEM_BLOCK, blocks, parity);
	for (shard = 0; shard < g->k + g->m; shard++)
		agree += s->r->there >> shard & 1 &&
			 !memcmp(blocks[shard], lane_block(s->r, shard, shard_row(row)), LSMEM_BLOCK);
	return agree;
}

/*
 * What follows the log data in their last row, for row_finish. If a record has given the row up to their end, nothing that
 * was acknowledged needs its parity at home, and zeros follow. If not, the row may be a full one, in which the data that
 * were durable ended within an entry: then its parity at home protects the entries before, and must not change. So the bytes
 * are those with which most shards agree.
 */
static int search_tail(struct row_search *s)
{
	struct row_read *r = s->r;
	uint32_t row = r->length / r->g->row_bytes, begin = row * r->g->row_bytes, set, agree, most = 0, i;
	uint8_t *buffer;

	if (r->length == begin)
		return 0;
	memset(r->stream + r->length, 0, begin + r->g->row_bytes - r->length);
	for (i = 0; i < s->nr; i++)
		if (s->fixed[i].row == row && begin + s->fixed[i].bytes >= r->length)
			return 0;
	if (!STRIPE_RULE(FINISH_TAIL))
		return 0;
	buffer = malloc((size_t)r->g->m * LSMEM_BLOCK);
	if (!buffer)
		return -ENOMEM;
	for (set = next_set(0, r->there, r->g->k); set; set = next_set(set, r->there, r->g->k)) {
		search_decode(s, set, row, row + 1);
		if (memcmp(s->trial + begin, r->stream + begin, r->length - begin))
			continue;
		agree = search_agree(s, row, buffer);
		if (agree <= most)
			continue;
		most = agree;
		memcpy(r->stream + r->length, s->trial + r->length, begin + r->g->row_bytes - r->length);
	}
	free(buffer);
	return 0;
}

/**
 * row_read_open - read an open segment
 * @r: all members up to @stream are set
 *
 * Return: 0; -ENODATA: fewer than k shards are there; -ENOMEM.
 */
int row_read_open(struct row_read *r)
{
	struct row_search s = { .r = r };
	uint32_t set, to;
	int ret;

	s.salt = lsmem_segment_salt(r->id.uuid, r->id.segment, r->id.generation);
	r->length = 0;
	r->proven = r->least;
	if ((uint32_t)__builtin_popcount(r->there) < r->g->k)
		return -ENODATA;
	s.trial = calloc(1, shard_room(r->g));
	if (!s.trial)
		return -ENOMEM;
	ret = search_records(&s);
	set = first_set(r->there, r->g->k);
	while (!ret && r->length < shard_room(r->g)) {
		to = search_try(&s, set, r->length);
		if (to == r->length && STRIPE_RULE(OTHER_SETS))
			to = search_sets(&s, &set, r->length);
		if (to == r->length)
			break;
		memcpy(r->stream + r->length, s.trial + r->length, to - r->length);
		r->length = to;
	}
	if (!ret)
		ret = search_tail(&s);
	while (s.nr)
		free(s.fixed[--s.nr].data);
	free(s.trial);
	return ret;
}

static const struct lsmem_shard_record *side_of(const uint8_t *sides, uint32_t side)
{
	return (const void *)(sides + (size_t)side * SHARD_SIDE * LSMEM_BLOCK);
}

static bool parity_there(const struct shard_geometry *g, const uint8_t *const *sides)
{
	uint32_t shard;

	for (shard = g->k; shard < g->k + g->m; shard++)
		if (sides[shard])
			return true;
	return false;
}

/* Have all parity shards that are there a record of the same time, with right parity? */
static bool sides_agree(const struct shard_geometry *g, const struct shard_id *id, const uint8_t *const *sides,
			const struct lsmem_shard_record *of)
{
	uint32_t shard, side;

	for (shard = g->k; shard < g->k + g->m; shard++) {
		bool same = !sides[shard];

		for (side = 0; !same && side < SHARD_SIDES; side++) {
			const struct lsmem_shard_record *record = side_of(sides[shard], side);

			same = !shard_record_check(record, g, id, shard) && record_same(record, of) &&
			       shard_record_parity(record);
		}
		if (!same)
			return false;
	}
	return true;
}

/**
 * row_next - find the number of the next parity record of a writer that goes on
 * @g: geometry
 * @id: the segment
 * @sides: by shard: both sides of a parity shard, one after the other; NULL: it is not there
 * @from: bytes of log data that are durable on all shards; what is behind was not acknowledged
 * @last: out: number of the record that all of them have of the row up to @from; SHARD_NO_RECORD: there is none
 *
 * The number is higher than all that are there, and of the other side than the record that may protect the bytes before
 * @from.
 *
 * Return: the number.
 */
uint64_t row_next(const struct shard_geometry *g, const struct shard_id *id, const uint8_t *const *sides, uint32_t from,
		  uint64_t *last)
{
	uint64_t newest = 0, next = 0;
	bool protects = false;
	uint32_t shard, side;

	*last = 0;
	if (!parity_there(g, sides))
		return 1;	/* a new parity shard gets record 0 */
	*last = SHARD_NO_RECORD;
	for (shard = g->k; shard < g->k + g->m; shard++) {
		for (side = 0; sides[shard] && side < SHARD_SIDES; side++) {
			const struct lsmem_shard_record *record = side_of(sides[shard], side);
			uint64_t number = __le64_to_cpu(record->number);

			if (shard_record_check(record, g, id, shard))
				continue;
			if (next <= number)
				next = number + 1;
			if (__le32_to_cpu(record->head.length) == from && sides_agree(g, id, sides, record))
				*last = number;
			if (__le32_to_cpu(record->head.length) <= from && (!protects || newest < number)) {
				newest = number;
				protects = true;
			}
		}
	}
	return next + (STRIPE_RULE(RESUME_SIDE) && protects && (next - newest) % SHARD_SIDES == 0);
}

/**
 * row_read_next - as row_next(), of lanes that have been read
 * @r: all members up to @there and @lane are set
 * @from: as in row_next()
 * @last: as in row_next()
 *
 * Return: the number.
 */
uint64_t row_read_next(const struct row_read *r, uint32_t from, uint64_t *last)
{
	const uint8_t *sides[CODE_SHARDS] = { NULL };
	uint32_t shard;

	for (shard = r->g->k; shard < r->g->k + r->g->m; shard++)
		if (r->there >> shard & 1)
			sides[shard] = lane_block(r, shard, r->g->side);
	return row_next(r->g, &r->id, sides, from, last);
}

static const struct lsmem_shard_table *table_of(const struct row_read *r, uint32_t shard)
{
	return (const void *)lane_block(r, shard, r->g->table);
}

/**
 * row_read_closed - begin to read a closed or sealed segment
 * @r: all members up to @lane are set
 *
 * Return: 0; -ENODATA: fewer than k shards have a whole table, or their tables differ.
 */
int row_read_closed(struct row_read *r)
{
	const struct lsmem_shard_table *first = NULL;
	uint32_t shard;

	r->whole = 0;
	r->bad = 0;
	for (shard = 0; shard < r->g->k + r->g->m; shard++) {
		const struct lsmem_shard_table *table;

		if (!(r->there >> shard & 1))
			continue;
		table = table_of(r, shard);
		if (shard_table_check(table, r->g, &r->id, shard))
			continue;
		if (!first)
			first = table;
		if (table->head.length != first->head.length || table->front != first->front || table->back != first->back)
			return -ENODATA;
		r->whole |= 1u << shard;
	}
	if ((uint32_t)__builtin_popcount(r->whole) < r->g->k)
		return -ENODATA;
	r->length = __le32_to_cpu(first->head.length);
	r->front = __le32_to_cpu(first->front);
	r->back = __le32_to_cpu(first->back);
	return 0;
}

/**
 * row_make - make blocks of a row of a closed or sealed segment
 * @r: row_read_closed() returned 0
 * @row: below @r->front, or one of the last @r->back
 * @want: mask of the shards whose blocks are wanted, data or parity, whether they are there or not
 * @to: by shard: LSMEM_BLOCK bytes for each of @want
 *
 * A block that is there is checked by its table, and copied. All blocks of the row are checked, so that @r->bad is complete.
 *
 * Return: 0; -ENODATA: fewer than k blocks are right; -EINVAL: there is no such row.
 */
int row_make(struct row_read *r, uint32_t row, uint32_t want, void *const *to)
{
	uint32_t shard, good = 0;
	void *shards[CODE_SHARDS] = { NULL };

	if (row >= r->g->rows || (row >= r->front && row < r->g->rows - r->back))
		return -EINVAL;
	for (shard = 0; shard < r->g->k + r->g->m; shard++) {
		const uint8_t *block;

		if (!(r->whole >> shard & 1))
			continue;
		block = lane_block(r, shard, shard_row(row));
		if (STRIPE_RULE(TABLE_BLOCK) && lsmem_crc32c(~0u, block, LSMEM_BLOCK) !=
		    __le32_to_cpu(table_of(r, shard)->block_crc[row])) {
			r->bad |= 1u << shard;
			continue;
		}
		good |= 1u << shard;
		shards[shard] = (void *)block;
	}
	if ((uint32_t)__builtin_popcount(good) < r->g->k)
		return -ENODATA;
	for (shard = 0; shard < r->g->k + r->g->m; shard++) {
		if (want & good & 1u << shard)
			memcpy(to[shard], shards[shard], LSMEM_BLOCK);
		else if (want >> shard & 1)
			shards[shard] = to[shard];
	}
	return code_decode(r->code, good, want & ~good, LSMEM_BLOCK, shards);
}

/* Return: the row after @row of those that there are; 0 is the first one, unless only the last ones are there. */
static uint32_t row_after(const struct row_read *r, uint32_t row)
{
	return row + 1 == r->front ? r->g->rows - r->back : row + 1;
}

static uint32_t row_first(const struct row_read *r)
{
	return r->front ? 0 : r->g->rows - r->back;
}

/**
 * row_compare - make the data of a closed or sealed segment, and compare all parity with them
 * @r: row_read_closed() returned 0
 * @stream: shard_room() bytes, out: all rows that there are; the others are left as they are
 * @parity: m blocks, overwritten
 *
 * The parity that the data have is compared with the checksums in the tables. If data blocks are missing, they are made of
 * parity, which then fits: so with k shards alone there is nothing to compare, and only the entries in @stream tell.
 *
 * Return: 0; @r->odd are the parity shards that do not fit; -ENODATA: fewer than k blocks of a row are right.
 */
int row_compare(struct row_read *r, uint8_t *stream, uint8_t *parity)
{
	const struct shard_geometry *g = r->g;
	void *data[CODE_SHARDS], *made[CODE_SHARDS];
	uint32_t row, shard;
	int ret;

	r->odd = 0;
	for (shard = 0; shard < g->m; shard++)
		made[shard] = parity + (size_t)shard * LSMEM_BLOCK;
	for (row = row_first(r); row < g->rows; row = row_after(r, row)) {
		for (shard = 0; shard < g->k; shard++)
			data[shard] = stream + (size_t)row * g->row_bytes + (size_t)shard * LSMEM_BLOCK;
		ret = row_make(r, row, (1u << g->k) - 1, data);
		if (ret)
			return ret;
		code_encode(r->code, LSMEM_BLOCK, (const void *const *)data, made);
		for (shard = g->k; shard < g->k + g->m; shard++)
			if (r->whole >> shard & 1 && lsmem_crc32c(~0u, made[shard - g->k], LSMEM_BLOCK) !=
			    __le32_to_cpu(table_of(r, shard)->block_crc[row]))
				r->odd |= 1u << shard;
	}
	return 0;
}

/**
 * row_rebuild - make a shard of a closed or sealed segment anew
 * @r: row_read_closed() returned 0
 * @shard: the shard
 * @lane: its blocks: out, rows and table; header and sides are left as they are
 *
 * Return: 0; -ENODATA: fewer than k blocks of a row are right.
 */
int row_rebuild(struct row_read *r, uint32_t shard, uint8_t *lane)
{
	const struct shard_geometry *g = r->g;
	struct lsmem_shard_table *table = (void *)(lane + (size_t)g->table * LSMEM_BLOCK);
	void *to[CODE_SHARDS] = { NULL };
	uint32_t row;
	int ret;

	memset(table, 0, (size_t)g->tables * LSMEM_BLOCK);
	*table = *table_of(r, (uint32_t)__builtin_ctz(r->whole));
	table->head.shard = (uint8_t)shard;
	for (row = row_first(r); row < g->rows; row = row_after(r, row)) {
		to[shard] = lane + (size_t)shard_row(row) * LSMEM_BLOCK;
		ret = row_make(r, row, 1u << shard, to);
		if (ret)
			return ret;
		table->block_crc[row] = __cpu_to_le32(lsmem_crc32c(~0u, to[shard], LSMEM_BLOCK));
	}
	shard_table_seal(table, g);
	return 0;
}
