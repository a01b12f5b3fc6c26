// SPDX-License-Identifier: GPL-2.0
/* Where the parts of a shard are, and its blocks with checksums. */
#include <string.h>

#include "shard.h"
#include "rule.h"

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
		if (sizeof(struct shard_table) + g->rows * sizeof(__le32) > g->tables * LSMEM_BLOCK)
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

static uint32_t crc_without(const void *bytes, size_t length, size_t field)
{
	static const __le32 zero;
	uint32_t crc = lsmem_crc32c(~0u, bytes, field);

	crc = lsmem_crc32c(crc, &zero, sizeof(zero));
	return lsmem_crc32c(crc, (const uint8_t *)bytes + field + sizeof(zero), length - field - sizeof(zero));
}

/**
 * shard_record_seal - set magic and CRC of a record
 * @record: all else is set
 */
void shard_record_seal(struct shard_record *record)
{
	record->magic = __cpu_to_le64(SHARD_RECORD_MAGIC);
	record->crc = __cpu_to_le32(crc_without(record, sizeof(*record), offsetof(struct shard_record, crc)));
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
enum format_error shard_record_check(const struct shard_record *record, const struct shard_geometry *g,
				     const struct shard_id *id, uint32_t shard)
{
	uint32_t length = __le32_to_cpu(record->length);

	if (__le64_to_cpu(record->magic) != SHARD_RECORD_MAGIC)
		return FORMAT_MAGIC;
	if (__le32_to_cpu(record->crc) !=
	    crc_without(record, sizeof(*record), offsetof(struct shard_record, crc)))
		return FORMAT_CRC;
	if (STRIPE_RULE(RECORD_SEGMENT) &&
	    (memcmp(record->uuid, id->uuid, sizeof(id->uuid)) || __le64_to_cpu(record->segment) != id->segment ||
	     __le32_to_cpu(record->generation) != id->generation))
		return FORMAT_FOREIGN;
	if (record->k != g->k || record->m != g->m || record->shard != shard)
		return FORMAT_FOREIGN;
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
const uint8_t *shard_record_parity(const struct shard_record *record)
{
	uint32_t bytes = __le32_to_cpu(record->bytes);
	const uint8_t *parity = bytes <= SHARD_PARITY_INSIDE ? record->parity : (const uint8_t *)(record + 1);

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
void shard_table_seal(struct shard_table *table, const struct shard_geometry *g)
{
	table->magic = __cpu_to_le64(SHARD_TABLE_MAGIC);
	table->crc = __cpu_to_le32(crc_without(table, g->tables * LSMEM_BLOCK, offsetof(struct shard_table, crc)));
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
enum format_error shard_table_check(const struct shard_table *table, const struct shard_geometry *g,
				    const struct shard_id *id, uint32_t shard)
{
	uint32_t front = __le32_to_cpu(table->front), back = __le32_to_cpu(table->back);

	if (__le64_to_cpu(table->magic) != SHARD_TABLE_MAGIC)
		return FORMAT_MAGIC;
	if (__le32_to_cpu(table->crc) !=
	    crc_without(table, g->tables * LSMEM_BLOCK, offsetof(struct shard_table, crc)))
		return FORMAT_CRC;
	if (memcmp(table->uuid, id->uuid, sizeof(id->uuid)) || __le64_to_cpu(table->segment) != id->segment ||
	    __le32_to_cpu(table->generation) != id->generation || table->k != g->k || table->m != g->m ||
	    table->shard != shard)
		return FORMAT_FOREIGN;
	if (front > g->rows || back > g->rows - front ||
	    ((uint64_t)__le32_to_cpu(table->length) + g->row_bytes - 1) / g->row_bytes > front + back)
		return FORMAT_RANGE;
	return FORMAT_OK;
}
