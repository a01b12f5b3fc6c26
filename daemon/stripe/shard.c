// SPDX-License-Identifier: GPL-2.0
/* Where the parts of a shard are, and its blocks with checksums. */
#include <string.h>

#include "shard.h"
#include "rule.h"

#ifdef LSMEM_MUTATIONS
uint64_t stripe_mutation;
#endif

/**
 * shard_geometry - find where the parts of a shard are
 * @g: out
 * @k: data shards, at least 2
 * @m: parity shards, at least 1; @k + @m is at most CODE_SHARDS
 * @frame: blocks of a frame: SHARD_FRAME; tests have smaller ones
 *
 * Return: false: there is no such code, or no row fits.
 */
bool shard_geometry(struct shard_geometry *g, uint32_t k, uint32_t m, uint32_t frame)
{
	const uint32_t sides = SHARD_SIDES * SHARD_SIDE;
	uint32_t blocks;

	if (k < 2 || !m || k > CODE_SHARDS || m > CODE_SHARDS - k || frame > SHARD_FRAME)
		return false;
	*g = (struct shard_geometry) { .k = k, .m = m, .blocks = frame / k, .row_bytes = k * LSMEM_BLOCK };
	blocks = g->blocks;
	for (g->tables = 1; blocks > 1 + sides + g->tables; g->tables++) {
		g->rows = blocks - 1 - sides - g->tables;
		if (sizeof(struct lsmem_shard_table) + g->rows * sizeof(__le32) > g->tables * LSMEM_BLOCK)
			continue;
		g->side = 1 + g->rows;
		g->table = g->side + sides;
		return true;
	}
	return false;
}

/**
 * shard_below - how much of a row's block is log data
 * @g: geometry
 * @length: home offset at which the log data end, which is in the row or at its end
 * @shard: data shard
 *
 * Return: bytes of the block of @shard in the row of the byte before @length that are below @length.
 */
uint32_t shard_below(const struct shard_geometry *g, uint32_t length, uint32_t shard)
{
	uint32_t in = length ? (length - 1) % g->row_bytes + 1 : 0, from = shard * LSMEM_BLOCK;

	if (in <= from)
		return 0;
	return in - from < LSMEM_BLOCK ? in - from : LSMEM_BLOCK;
}

/* Compute the CRC of a record or table of @bytes bytes. */
static uint32_t head_crc(const struct lsmem_shard_head *head, size_t bytes)
{
	const size_t field = offsetof(struct lsmem_shard_head, crc);
	static const __le32 zero;
	uint32_t crc = lsmem_crc32c(~0u, head, field);

	crc = lsmem_crc32c(crc, &zero, sizeof(zero));
	return lsmem_crc32c(crc, &head->length, bytes - field - sizeof(zero));
}

static void head_seal(struct lsmem_shard_head *head, uint64_t magic, size_t bytes)
{
	head->magic = __cpu_to_le64(magic);
	head->crc = __cpu_to_le32(head_crc(head, bytes));
}

/* Check what a record and a table have in common. @any: of any segment. */
static enum format_error head_check(const struct lsmem_shard_head *head, uint64_t magic, size_t bytes,
				    const struct shard_geometry *g, const struct shard_id *id, uint32_t shard, bool any)
{
	if (__le64_to_cpu(head->magic) != magic)
		return FORMAT_MAGIC;
	if (__le32_to_cpu(head->crc) != head_crc(head, bytes))
		return FORMAT_CRC;
	if (!any && (memcmp(head->uuid, id->uuid, sizeof(id->uuid)) || __le64_to_cpu(head->segment) != id->segment ||
		     __le32_to_cpu(head->generation) != id->generation))
		return FORMAT_FOREIGN;
	return head->k == g->k && head->m == g->m && head->shard == shard ? FORMAT_OK : FORMAT_FOREIGN;
}

/**
 * shard_record_seal - set magic and CRC of a record
 * @record: all else is set
 */
void shard_record_seal(struct lsmem_shard_record *record)
{
	head_seal(&record->head, LSMEM_RECORD_MAGIC, sizeof(*record));
}

/**
 * shard_record_check - check a record, without its parity
 * @record: the block
 * @g: geometry
 * @id: the segment
 * @shard: the parity shard that the block was read from
 *
 * Return: FORMAT_OK, or what is wrong.
 */
enum format_error shard_record_check(const struct lsmem_shard_record *record, const struct shard_geometry *g,
				     const struct shard_id *id, uint32_t shard)
{
	enum format_error error = head_check(&record->head, LSMEM_RECORD_MAGIC, sizeof(*record), g, id, shard,
					     !STRIPE_RULE(RECORD_SEGMENT));
	uint32_t length = __le32_to_cpu(record->head.length);

	if (error)
		return error;
	if (length > shard_room(g) || length % g->row_bytes == 0 || __le32_to_cpu(record->durable) > length ||
	    __le32_to_cpu(record->bytes) != shard_below(g, length, 0))
		return FORMAT_RANGE;
	return FORMAT_OK;
}

/**
 * shard_record_parity - find the parity of a record
 * @record: shard_record_check() found nothing wrong; the next block follows in memory
 *
 * Return: the parity; NULL: its CRC is wrong.
 */
const uint8_t *shard_record_parity(const struct lsmem_shard_record *record)
{
	uint32_t bytes = __le32_to_cpu(record->bytes);
	const uint8_t *parity = bytes <= LSMEM_PARITY_INSIDE ? record->parity : (const uint8_t *)(record + 1);

	if (STRIPE_RULE(RECORD_PARITY) &&
	    lsmem_crc32c(~0u, parity, bytes) != __le32_to_cpu(record->parity_crc))
		return NULL;
	return parity;
}

/**
 * shard_table_seal - set magic and CRC of a table
 * @table: all else is set, up to the end of its blocks
 * @g: geometry
 */
void shard_table_seal(struct lsmem_shard_table *table, const struct shard_geometry *g)
{
	head_seal(&table->head, LSMEM_TABLE_MAGIC, g->tables * LSMEM_BLOCK);
}

/**
 * shard_table_check - check a table
 * @table: all of its blocks
 * @g: geometry
 * @id: the segment
 * @shard: the shard that it was read from
 *
 * Return: FORMAT_OK, or what is wrong.
 */
enum format_error shard_table_check(const struct lsmem_shard_table *table, const struct shard_geometry *g,
				    const struct shard_id *id, uint32_t shard)
{
	enum format_error error = head_check(&table->head, LSMEM_TABLE_MAGIC, g->tables * LSMEM_BLOCK, g, id, shard, false);
	uint32_t front = __le32_to_cpu(table->front), back = __le32_to_cpu(table->back);

	if (error)
		return error;
	if (front > g->rows || back > g->rows - front ||
	    ((uint64_t)__le32_to_cpu(table->head.length) + g->row_bytes - 1) / g->row_bytes > front + back)
		return FORMAT_RANGE;
	return FORMAT_OK;
}
