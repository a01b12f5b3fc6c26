// SPDX-License-Identifier: GPL-2.0
/*
 * Fetching from coded segments: see fetch.h, and Documentation/stripes.rst, S10. A request wants some blocks of the log, which
 * lie in rows. These are read in steps of up to FETCH_ROWS rows, one step after the other, so that no call works on more
 * than a step, and decoding a segment does not delay a group commit.
 *
 * A step asks the data shards that have what is wanted: one or two for an object of up to a block. If one of them is on a
 * backup that is lost, has failed, or is late, it asks others, until it has the wanted blocks or k blocks of each row; then the
 * wanted ones are decoded. The kernel checks the entry. If it refuses what it got, some block is wrong: all is read again, now
 * with the tables of all shards, and a block with another checksum than its table says counts as lost. When k blocks of a
 * row are not to be had, rows are tried one by one, and then the request has failed.
 *
 * A backup that is late with a read is not asked while it is, if there are k others. A read that is late stays in flight, and its
 * buffer with it: so a backup has reads for a part of the buffers at most, and m that do not answer leave some.
 */
#include <errno.h>
#include <string.h>

#include "fetch_private.h"
#include "base/memory.h"
#include "stripe/rule.h"

static const uint32_t class_bytes[FETCH_CLASSES] = {
	[FETCH_SMALL] = FETCH_SMALL_BYTES,
	[FETCH_MEDIUM] = FETCH_MEDIUM_BYTES,
	[FETCH_LARGE] = LSMEM_SEGMENT_BYTES,
};

/* ---- Buffers ----------------------------------------------------------- */

/* Return: buffers of a class. One backup that hangs has one of FETCH_LARGE. */
static uint32_t rows_buffers(const struct fetch *f, uint32_t class)
{
	return class == FETCH_SMALL ? FETCH_SMALL_NR : class == FETCH_MEDIUM ? FETCH_MEDIUM_NR : f->core->shards.m + 1;
}

/* Return: reads of a class that a backup may have in flight. If m backups hang, half of the buffers are left. */
static uint32_t rows_reads(const struct fetch *f, uint32_t class)
{
	uint32_t nr = rows_buffers(f, class) / (2 * f->core->shards.m);

	return nr ? nr : 1;
}

/* Return: rows that the blocks of a request can lie in. */
static uint32_t rows_most(const struct fetch *f, uint32_t class)
{
	uint32_t k = f->core->shards.k, nr = (class_bytes[class] / LSMEM_BLOCK + k - 2) / k + 1;

	return nr < f->core->shards.rows ? nr : f->core->shards.rows;
}

static size_t rows_stream_bytes(const struct fetch *f, uint32_t class)
{
	return (size_t)rows_most(f, class) * f->core->shards.row_bytes;
}

static uint32_t rows_stride(const struct fetch *f, uint32_t class)
{
	uint32_t most = rows_most(f, class);

	return most < FETCH_ROWS ? most : FETCH_ROWS;
}

static size_t rows_lanes_bytes(const struct fetch *f, uint32_t blocks)
{
	return (size_t)(f->core->shards.k + f->core->shards.m) * blocks * LSMEM_BLOCK;
}

/**
 * fetch_rows_buffers - allocate the buffers for coded segments
 * @f: zeroed, but for the backups
 *
 * Return: 0 or -ENOMEM.
 */
int fetch_rows_buffers(struct fetch *f)
{
	struct fetch_rows *rows = f->rows;
	uint32_t class, shard, i;
	size_t bytes = 0;
	uint8_t *at;

	for (class = 0; class < FETCH_CLASSES; class++)
		bytes += rows_buffers(f, class) * (rows_stream_bytes(f, class) +
			 rows_lanes_bytes(f, rows_stride(f, class) + f->core->shards.tables));
	f->rows_memory = memory_get(bytes);
	if (!f->rows_memory)
		return -ENOMEM;
	at = f->rows_memory;
	for (class = 0; class < FETCH_CLASSES; class++) {
		for (i = 0; i < rows_buffers(f, class); i++, rows++) {
			rows->class = (uint8_t)class;
			rows->stride = rows_stride(f, class);
			rows->stream = at;
			rows->lanes = rows->stream + rows_stream_bytes(f, class);
			rows->table = rows->lanes + rows_lanes_bytes(f, rows->stride);
			at = rows->table + rows_lanes_bytes(f, f->core->shards.tables);
			for (shard = 0; shard < CODE_SHARDS; shard++) {
				rows->columns[shard].rows = rows;
				rows->columns[shard].shard = (uint8_t)shard;
			}
			rows->next = f->spare_rows[class];
			f->spare_rows[class] = rows;
		}
	}
	return 0;
}

static void rows_put(struct fetch *f, struct fetch_rows *rows)
{
	rows->next = f->spare_rows[rows->class];
	f->spare_rows[rows->class] = rows;
}

static uint8_t *rows_block(const struct fetch_rows *rows, uint32_t shard, uint32_t i)
{
	return rows->lanes + ((size_t)shard * rows->stride + i) * LSMEM_BLOCK;
}

static struct lsmem_shard_table *rows_table(const struct fetch *f, const struct fetch_rows *rows, uint32_t shard)
{
	return (void *)(rows->table + (size_t)shard * f->core->shards.tables * LSMEM_BLOCK);
}

/* ---- A step ------------------------------------------------------------ */

/* A shard is not to be read any more, though it has been asked for. */
static void rows_cancel(struct fetch *f, struct fetch_column *column)
{
	if (!column->waiting)
		return;
	TAILQ_REMOVE(&f->backups[column->backup].columns[column->rows->class], column, link);
	column->waiting = false;
	column->rows->asked &= ~(1u << column->shard);
}

static void rows_cancel_all(struct fetch *f, struct fetch_rows *rows)
{
	uint32_t shard;

	for (shard = 0; shard < CODE_SHARDS; shard++)
		rows_cancel(f, &rows->columns[shard]);
}

/* Begin a step; reads of the one before that are in flight do not count for it. */
static void rows_step(struct fetch *f, struct fetch_rows *rows)
{
	uint32_t k = f->core->shards.k, left = (rows->end + k - 1) / k - rows->row;

	rows_cancel_all(f, rows);
	rows->nr = rows->narrow ? 1 : left < rows->stride ? left : rows->stride;
	rows->step++;
	rows->asked = 0;
	rows->here = 0;
	rows->failed = 0;
	rows->late = 0;
	memset(rows->bad, 0, sizeof(rows->bad));
}

/* Return: data shards whose block is wanted, of row @i of the step. */
static uint32_t rows_want(const struct fetch *f, const struct fetch_rows *rows, uint32_t i)
{
	uint32_t k = f->core->shards.k, block = (rows->row + i) * k, want = 0, shard;

	for (shard = 0; shard < k; shard++, block++)
		if (block >= rows->first && block < rows->end)
			want |= 1u << shard;
	return want;
}

/* Return: shards whose block is there, and not known to be wrong. */
static uint32_t rows_good(const struct fetch_rows *rows, uint32_t i)
{
	uint32_t good = rows->here, shard;

	core_each_backup(shard, rows->here)
		good &= ~((rows->bad[shard] >> i & 1u) << shard);
	return good;
}

/* Return: shards of the step that may soon be there. */
static uint32_t rows_coming(const struct fetch_rows *rows)
{
	return rows->asked & ~(rows->here | rows->failed | rows->late);
}

/* How many shards does the step need, beside those that are there and @coming? Return: 0: none. */
static uint32_t rows_lack(const struct fetch *f, const struct fetch_rows *rows, uint32_t coming)
{
	uint32_t k = f->core->shards.k, lack = 0, i;

	for (i = 0; i < rows->nr; i++) {
		uint32_t have = rows_good(rows, i) | coming, nr = (uint32_t)__builtin_popcount(have);

		if (rows_want(f, rows, i) & ~have && nr < k && k - nr > lack)
			lack = k - nr;
	}
	return lack;
}

/* Copy what is wanted into the stream, or decode it. */
static void rows_make(struct fetch *f, struct fetch_rows *rows)
{
	const struct shard_geometry *g = &f->core->shards;
	uint32_t i, shard;

	for (i = 0; i < rows->nr; i++) {
		uint8_t *to = rows->stream + (size_t)(rows->row + i - rows->first / g->k) * g->row_bytes;
		uint32_t good = rows_good(rows, i), want = rows_want(f, rows, i);
		void *shards[CODE_SHARDS] = { NULL };

		core_each_backup(shard, good)
			shards[shard] = rows_block(rows, shard, i);
		core_each_backup(shard, want) {
			if (good >> shard & 1u)
				memcpy(to + (size_t)shard * LSMEM_BLOCK, shards[shard], LSMEM_BLOCK);
			else
				shards[shard] = to + (size_t)shard * LSMEM_BLOCK;
		}
		if (!(want & ~good))
			continue;
		(void)code_decode(f->core->code, good, want & ~good, LSMEM_BLOCK, shards);
		rows->decoded = true;
	}
}

/* All that was wanted is there. */
static void rows_finish(struct fetch *f, struct fetch_rows *rows)
{
	uint8_t *data = rows->stream + (size_t)(rows->first % f->core->shards.k) * LSMEM_BLOCK;
	uint32_t length = lsmem_block_round(rows->used);

	/* Beyond the cut of a sealed segment there can be whole entries: the kernel must not see them. */
	if (STRIPE_RULE(READ_CUT))
		memset(data + rows->used, 0, length - rows->used);
	rows->done = true;
	rows_cancel_all(f, rows);
	fetch_give(f, rows->request, data, length);
}

/* ---- Which shards ------------------------------------------------------ */

/* Find the shards that can be asked for, and their backups. Return: they, as a mask. */
static uint32_t rows_places(const struct fetch *f, const struct core_segment *seg, const struct fetch_rows *rows,
			    uint32_t *places)
{
	uint32_t shards = 0, b;

	core_each_backup(b, seg->on & core_alive(f->core)) {
		uint32_t shard = seg->shard[b];

		/* Into its place in the buffer a read of an earlier step may still write. */
		if ((rows->asked | rows->failed) >> shard & 1u || rows->columns[shard].reading)
			continue;
		if (rows->request->checked && !rows->tables && !(rows->sound >> shard & 1u))
			continue;
		places[shard] = b;
		shards |= 1u << shard;
	}
	return shards;
}

static void rows_add(struct fetch *f, struct fetch_rows *rows, uint32_t shard, uint32_t backup)
{
	struct fetch_column *column = &rows->columns[shard];

	column->backup = (uint8_t)backup;
	column->waiting = true;
	rows->asked |= 1u << shard;
	TAILQ_INSERT_TAIL(&f->backups[backup].columns[rows->class], column, link);
}

/* Ask for what is needed. Return: false: it is not to be had. */
static bool rows_ask(struct fetch *f, const struct core_segment *seg, struct fetch_rows *rows)
{
	uint32_t places[CODE_SHARDS], shards = rows_places(f, seg, rows, places), want = 0, best, shard, i;

	if (rows->tables) {
		core_each_backup(shard, shards)
			if (!f->backups[places[shard]].late)
				rows_add(f, rows, shard, places[shard]);
		core_each_backup(shard, shards & ~rows->asked)
			if ((uint32_t)__builtin_popcount(rows->asked & ~rows->failed) < f->core->shards.k)
				rows_add(f, rows, shard, places[shard]);
		return true;
	}
	for (i = 0; i < rows->nr && !rows->asked; i++)
		want |= rows_want(f, rows, i);
	core_each_backup(shard, want & shards)
		if (!f->backups[places[shard]].late)
			rows_add(f, rows, shard, places[shard]);
	while (rows_lack(f, rows, rows_coming(rows))) {
		shards &= ~rows->asked;
		if (!shards)
			return false;
		best = (uint32_t)__builtin_ctz(shards);
		core_each_backup(shard, shards)
			if (fetch_better(f, seg, places[shard], places[best]))
				best = shard;
		rows_add(f, rows, best, places[best]);
	}
	return true;
}

/* Is the step complete? */
static bool rows_complete(const struct fetch *f, const struct fetch_rows *rows)
{
	if (!rows->tables)
		return !rows_lack(f, rows, 0);
	return rows->asked && !rows_coming(rows) && (uint32_t)__builtin_popcount(rows->sound) >= f->core->shards.k;
}

/* Go on with a request, as far as that is possible now. */
static void rows_go(struct fetch *f, struct fetch_rows *rows)
{
	const struct core_segment *seg;

	for (;;) {
		if (rows_complete(f, rows)) {
			if (!rows->tables) {
				rows_make(f, rows);
				rows->row += rows->nr;
			}
			if (rows->row * f->core->shards.k >= rows->end) {
				rows_finish(f, rows);
				return;
			}
			rows->tables = false;
			rows_step(f, rows);
		}
		seg = fetch_segment(f, rows->request);
		if (!seg) {
			fetch_answer(f, rows->request, -ESTALE);
			return;
		}
		if (rows_ask(f, seg, rows) && rows_coming(rows))
			return;
		/* What is late may still come. */
		if (rows->in_flight || rows_coming(rows))
			return;
		if (rows->tables || rows->nr == 1) {
			fetch_answer(f, rows->request, -EIO);
			return;
		}
		/* Of each shard another row may have failed. */
		rows->narrow = true;
		rows_step(f, rows);
	}
}

/* ---- Requests ---------------------------------------------------------- */

/**
 * fetch_rows_source - begin to read for a request
 * @f: fetching
 * @r: the request, in no list; its segment is there, and coded
 */
void fetch_rows_source(struct fetch *f, struct fetch_request *r)
{
	uint32_t bytes;

	if (!fetch_extent(fetch_segment(f, r), r, &bytes)) {
		fetch_answer(f, r, -EIO);
		return;
	}
	r->class = r->one.flags & LSMEM_FETCH_SEGMENT ? FETCH_LARGE : bytes <= FETCH_SMALL_BYTES ? FETCH_SMALL : FETCH_MEDIUM;
	r->state = FETCH_WAITING;
	TAILQ_INSERT_TAIL(&f->waiting[r->class], r, link);
}

static void rows_begin(struct fetch *f, struct fetch_request *r, uint32_t bytes)
{
	struct fetch_rows *rows = f->spare_rows[r->class];

	f->spare_rows[r->class] = rows->next;
	rows->request = r;
	rows->done = false;
	rows->decoded = false;
	rows->narrow = false;
	rows->tables = r->checked;
	rows->first = r->one.block;
	rows->used = bytes;
	rows->end = rows->first + lsmem_block_round(bytes) / LSMEM_BLOCK;
	rows->row = rows->first / f->core->shards.k;
	rows->sound = 0;
	r->rows = rows;
	rows_step(f, rows);
	rows_go(f, rows);
}

/**
 * fetch_rows_begin - begin with the requests that wait, as far as there are buffers
 * @f: fetching
 */
void fetch_rows_begin(struct fetch *f)
{
	const struct core_segment *seg;
	struct fetch_request *r;
	uint32_t class, bytes;

	for (class = 0; class < FETCH_CLASSES; class++) {
		while (f->spare_rows[class] && (r = TAILQ_FIRST(&f->waiting[class]))) {
			TAILQ_REMOVE(&f->waiting[class], r, link);
			r->state = FETCH_READING;
			seg = fetch_segment(f, r);
			if (!seg || !fetch_extent(seg, r, &bytes))
				fetch_answer(f, r, seg ? -EIO : -ESTALE);
			else
				rows_begin(f, r, bytes);
		}
	}
}

/**
 * fetch_rows_release - a request does not need what is read for it any more
 * @f: fetching
 * @r: the request; the buffers are free when the reads have ended
 */
void fetch_rows_release(struct fetch *f, struct fetch_request *r)
{
	struct fetch_rows *rows = r->rows;

	r->rows = NULL;
	rows->request = NULL;
	rows_cancel_all(f, rows);
	if (!rows->in_flight)
		rows_put(f, rows);
}

/**
 * fetch_rows_wrong - the kernel did not find the object in what was read
 * @f: fetching
 * @r: the request, in no list
 */
void fetch_rows_wrong(struct fetch *f, struct fetch_request *r)
{
	if (r->checked || !STRIPE_RULE(READ_CHECKED)) {
		fetch_answer(f, r, fetch_segment(f, r) ? -EIO : -ESTALE);
		return;
	}
	fetch_rows_release(f, r);
	r->checked = true;
	r->blocks = fetch_blocks(&r->one);
	f->stats.replaced++;
	fetch_source(f, r);
}

/* ---- Reads ------------------------------------------------------------- */

/**
 * fetch_rows_issue - get the next read of a backup
 * @f: fetching
 * @b: the backup
 * @class: enum fetch_class of the read
 * @read: out
 * @now: the time, ns
 *
 * Return: false: there is none now.
 */
bool fetch_rows_issue(struct fetch *f, uint32_t b, uint32_t class, struct fetch_read *read, uint64_t now)
{
	struct fetch_backup *backup = &f->backups[b];
	const struct core_segment *seg;
	struct fetch_column *column;
	struct fetch_rows *rows;
	uint32_t length;

	while ((column = TAILQ_FIRST(&backup->columns[class]))) {
		rows = column->rows;
		seg = fetch_segment(f, rows->request);
		if (seg && seg->on >> b & 1u && seg->shard[b] == column->shard)
			break;
		rows_cancel(f, column);		/* the segment has changed meanwhile */
		rows_go(f, rows);
	}
	if (!column || backup->row_reads[class] >= rows_reads(f, class))
		return false;
	length = (rows->tables ? f->core->shards.tables : rows->nr) * LSMEM_BLOCK;
	if (fetch_longest(f, b, class) < length)
		return false;
	TAILQ_REMOVE(&backup->columns[class], column, link);
	column->waiting = false;
	column->reading = true;
	column->slow = false;
	column->table = rows->tables;
	column->step = rows->step;
	column->begun_ns = now;
	column->due_ns = now + fetch_deadline(f, b, length);
	fetch_part_get(f, b, class, length, read, now)->column = column;
	read->offset = core_where(f->core, seg, b) +
		       (uint64_t)(rows->tables ? f->core->shards.table : shard_row(rows->row)) * LSMEM_BLOCK;
	read->data = rows->tables ? (void *)rows_table(f, rows, column->shard) : rows_block(rows, column->shard, 0);
	rows->in_flight++;
	backup->row_reads[class]++;
	return true;
}

/* Is the table that was read whole, and of this segment? */
static bool rows_table_sound(struct fetch *f, const struct fetch_rows *rows, uint32_t shard)
{
	const struct lsmem_shard_table *table = rows_table(f, rows, shard);
	const struct core_segment *seg = fetch_segment(f, rows->request);
	struct shard_id id;

	if (!seg)
		return false;
	memcpy(id.uuid, f->core->uuid, sizeof(id.uuid));
	id.segment = seg->item.segment;
	id.generation = seg->item.generation;
	return !shard_table_check(table, &f->core->shards, &id, shard) &&
	       __le32_to_cpu(table->head.length) == seg->item.length;
}

/* Find the blocks of a shard that have not the checksums of its table. */
static void rows_check(const struct fetch *f, struct fetch_rows *rows, uint32_t shard)
{
	const struct lsmem_shard_table *table = rows_table(f, rows, shard);
	uint32_t i;

	for (i = 0; rows->request->checked && i < rows->nr; i++)
		if (STRIPE_RULE(TABLE_BLOCK) && lsmem_crc32c(~0u, rows_block(rows, shard, i), LSMEM_BLOCK) !=
		    __le32_to_cpu(table->block_crc[rows->row + i]))
			rows->bad[shard] |= 1u << i;
}

/* Take what a read has brought. Return: is it in order? */
static bool rows_take(struct fetch *f, struct fetch_rows *rows, const struct fetch_column *column, int error)
{
	uint32_t shard = column->shard;

	if (column->table && !error && rows_table_sound(f, rows, shard))
		rows->sound |= 1u << shard;
	if (column->step != rows->step)
		return true;
	if (error || (column->table && !(rows->sound >> shard & 1u))) {
		rows->failed |= 1u << shard;
		return false;
	}
	rows->here |= 1u << shard;
	if (!column->table)
		rows_check(f, rows, shard);
	return !rows->bad[shard];
}

/**
 * fetch_rows_done - a read has ended
 * @f: fetching
 * @column: that it was for
 * @error: 0: all of it is there; or a negative errno
 */
void fetch_rows_done(struct fetch *f, struct fetch_column *column, int error)
{
	struct fetch_backup *backup = &f->backups[column->backup];
	struct fetch_rows *rows = column->rows;
	uint32_t step = rows->step, asked = rows->asked;

	column->reading = false;
	backup->late -= column->slow;
	column->slow = false;
	backup->row_reads[rows->class]--;
	rows->in_flight--;
	if (!rows->request) {
		if (!rows->in_flight)
			rows_put(f, rows);
		return;
	}
	if (rows->done)
		return;
	if (!rows_take(f, rows, column, error))
		rows->request->failed |= 1u << column->backup;
	rows_go(f, rows);
	f->stats.replaced += rows->step == step && rows->asked & ~asked ? 1 : 0;
}

/**
 * fetch_rows_gone - go on without a backup that core has lost
 * @f: fetching
 * @backup: its index
 */
void fetch_rows_gone(struct fetch *f, uint32_t backup)
{
	uint32_t shard, i;

	for (i = 0; i < FETCH_ROWS_NR; i++) {
		struct fetch_rows *rows = &f->rows[i];

		for (shard = 0; rows->request && !rows->done && shard < CODE_SHARDS; shard++) {
			struct fetch_column *column = &rows->columns[shard];

			if (column->backup != backup || !(column->waiting || column->reading))
				continue;
			rows_cancel(f, column);
			if (column->reading && column->step == rows->step)
				rows->failed |= 1u << shard;
			rows_go(f, rows);
		}
	}
}

/* ---- Time -------------------------------------------------------------- */

/**
 * fetch_rows_due - when fetch_rows_late() is needed
 * @f: fetching
 *
 * Return: the time, ns; FETCH_NEVER: not until something else happens.
 */
uint64_t fetch_rows_due(const struct fetch *f)
{
	uint64_t due = FETCH_NEVER;
	uint32_t shard, i;

	for (i = 0; i < FETCH_ROWS_NR; i++) {
		const struct fetch_rows *rows = &f->rows[i];

		for (shard = 0; rows->in_flight && shard < CODE_SHARDS; shard++) {
			const struct fetch_column *column = &rows->columns[shard];

			if (column->reading && !column->slow && column->due_ns < due)
				due = column->due_ns;
		}
	}
	return due;
}

/**
 * fetch_rows_avoid - have what waits for a backup read from others, if there are enough
 * @f: fetching
 * @b: the backup, which is late
 */
void fetch_rows_avoid(struct fetch *f, uint32_t b)
{
	struct fetch_backup *backup = &f->backups[b];
	struct fetch_column *column;
	uint32_t class, nr;

	for (class = 0; class < FETCH_CLASSES; class++) {
		nr = 0;
		TAILQ_FOREACH(column, &backup->columns[class], link)
			nr++;
		/* What has no other source comes back, behind these. */
		for (; nr && (column = TAILQ_FIRST(&backup->columns[class])); nr--) {
			rows_cancel(f, column);
			rows_go(f, column->rows);
		}
	}
}

static void rows_late(struct fetch *f, struct fetch_column *column, uint64_t now)
{
	struct fetch_rows *rows = column->rows;
	uint32_t step = rows->step, asked = rows->asked;

	column->slow = true;
	fetch_slow(f, column->backup, now - column->begun_ns);
	if (!rows->request || rows->done || column->step != rows->step)
		return;
	rows->late |= 1u << column->shard;
	rows_go(f, rows);
	f->stats.second += rows->step == step && rows->asked & ~asked ? 1 : 0;
}

/**
 * fetch_rows_late - see to deadlines
 * @f: fetching
 * @now: the time, ns
 */
void fetch_rows_late(struct fetch *f, uint64_t now)
{
	uint32_t shard, i;

	for (i = 0; i < FETCH_ROWS_NR; i++) {
		struct fetch_rows *rows = &f->rows[i];

		for (shard = 0; rows->in_flight && shard < CODE_SHARDS; shard++) {
			struct fetch_column *column = &rows->columns[shard];

			if (column->reading && !column->slow && column->due_ns <= now)
				rows_late(f, column, now);
		}
	}
}
