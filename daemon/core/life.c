// SPDX-License-Identifier: GPL-2.0
/*
 * core: see core.h. This file makes a core from parameters and the newest digest, and frees it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "private.h"
#include "base/memory.h"

static int core_alloc_all(struct core *core, const struct core_params *params)
{
	const struct digest_map *map = params->map;
	size_t segments = core->nr_segments, buckets = 1, i;

	if (core_stripes_alloc(core, params))
		return -ENOMEM;
	while (buckets < 2 * segments)
		buckets *= 2;
	core->hash_mask = buckets - 1;
	core->queue = calloc(CORE_QUEUE, sizeof(*core->queue));
	core->waiting = calloc(CORE_QUEUE, sizeof(*core->waiting));
	core->segments = calloc(segments, sizeof(*core->segments));
	core->hash = malloc(buckets * sizeof(*core->hash));
	core->free_segments = calloc(segments, sizeof(*core->free_segments));
	core->dirty = calloc(segments, sizeof(*core->dirty));
	core->gone = calloc(CORE_GONE, sizeof(*core->gone));
	core->record.segments = calloc(segments, sizeof(*core->record.segments));
	core->record.states = calloc(segments, sizeof(*core->record.states));
	core->record.on = calloc(segments, sizeof(*core->record.on));
	core->blocks = memory_get((size_t)CORE_OPENS * core->nr_backups * LSMEM_BLOCK);
	for (i = 0; i < core->nr_backups; i++) {
		core->free_frames[i] = calloc(map->frames, sizeof(**core->free_frames));
		core->record.buffers[i] = memory_get(core_record_bytes(core));
		if (!core->free_frames[i] || !core->record.buffers[i])
			return -ENOMEM;
	}
	for (i = 0; i < CORE_CLOSES; i++) {
		core->closes[i].buffer = memory_get(CORE_CLOSE_BYTES);
		if (!core->closes[i].buffer)
			return -ENOMEM;
	}
	core->copy.buffer = memory_get(LSMEM_SEGMENT_BYTES);
	if (!core->copy.buffer || !core->queue || !core->waiting || !core->segments || !core->hash ||
	    !core->free_segments || !core->dirty || !core->gone || !core->record.segments ||
	    !core->record.states || !core->record.on || !core->blocks)
		return -ENOMEM;
	memset(core->hash, 0xff, buckets * sizeof(*core->hash));
	while (segments--)
		core->free_segments[core->nr_free_segments++] = segments;
	return 0;
}

/* Take over a listed replica. Return: false: it contradicts another replica of its segment. */
static bool core_adopt_item(struct core *core, const struct digest_item *item, uint32_t backup,
			    uint32_t frame)
{
	struct core_segment *seg = core_segment_find(core, item->segment);

	if (!seg)
		seg = core_segment_put(core, item, item->state == LSMEM_ITEM_CLOSED ? CORE_CLOSED :
				       item->state == LSMEM_ITEM_SEALED ? CORE_SEALED : CORE_OPEN);
	if (seg->on >> backup & 1u || seg->item.generation != item->generation ||
	    seg->item.state != item->state || seg->item.length != item->length)
		return false;
	seg->on |= 1u << backup;
	seg->listed |= 1u << backup;
	seg->frame[backup] = frame;
	return true;
}

static bool core_adopt(struct core *core, const struct digest_map *map)
{
	uint32_t b, frame;

	core->map = *map;
	core->map.items = NULL;
	core->map.stripes = NULL;
	core->store_time = map->store_time;
	core->next_segment = map->next_segment;
	core_each_backup(b, map->mask) {
		/* From the highest frame, so that the lowest free frame is used first. */
		for (frame = map->frames; frame-- > 0;) {
			const struct digest_item *item = &map->items[b * map->frames + frame];

			if (item->state && !core_adopt_item(core, item, b, frame))
				return false;
			if (!item->state && !(map->stripes && map->stripes->of[b * map->frames + frame]) && frame < __le64_to_cpu(core->super[b].frames))
				core_frame_free(core, b, frame);
		}
	}
	core->copies = true;
	return core_stripes_adopt(core, map);
}

/* Return: why core cannot code as @params say, or read what is coded; NULL: it can, or need not. */
static const char *core_check_code(const struct core_params *params)
{
	const struct digest_stripes *s = params->map->stripes;
	struct shard_geometry g;

	if (!params->k)
		return s && s->k && params->min_parity > s->m ? "there are fewer parity shards than are needed" : NULL;
	if (!s)
		return "the store is not coded";
	if (!shard_geometry(&g, params->k, params->m, SHARD_FRAME) || params->m >= params->k ||
	    params->min_parity > params->m)
		return "there is no such code";
	if (s->k && (s->k != params->k || s->m != params->m))
		return "the store has segments of another code";
	return NULL;
}

/* Return: why core cannot work on @params; NULL: it can. */
static const char *core_check_params(const struct core_params *params)
{
	const struct digest_map *map = params->map;
	uint32_t left = 0, b;

	if (core_check_code(params))
		return core_check_code(params);
	if (params->io_bytes % LSMEM_BLOCK || params->io_bytes < LSMEM_SEGLET_BYTES ||
	    params->io_bytes > CORE_IO_BYTES || !params->log.nr_seglets ||
	    map->backups > CORE_BACKUPS || map->mask >> map->backups ||
	    params->min_replicas > map->backups)
		return "parameters are out of range";
	for (b = 0; b < map->backups; b++) {
		const struct lsmem_super *joining = params->joining[b];

		if (joining && (params->super[b] ||
				__le64_to_cpu(joining->frames) > map->frames))
			return "parameters are out of range";
		if (!(map->mask >> b & 1u) || !params->super[b])
			continue;
		if (__le64_to_cpu(params->super[b]->frames) > map->frames)
			return "parameters are out of range";
		left |= 1u << b;
	}
	if (!digest_counts(map, left))
		return "too few of the backups are there to go on from the last digest";
	return NULL;
}

static void core_set_params(struct core *core, const struct core_params *params)
{
	uint32_t b;

	core->nr_backups = params->map->backups;
	core->nr_segments = digest_places(params->map);
	core->members = core->was_member = params->map->mask;
	core->replicas = params->replicas;
	core->min_replicas = params->min_replicas ? params->min_replicas : 1;
	core->copy_bytes = core->copy_left = params->copy_bytes;
	core->copy.segment = CORE_NONE;
	core->log = params->log;
	core->io_bytes = params->io_bytes;
	core->state = params->resume ? CORE_RESUMING : CORE_RUNNING;
	core->domains = params->domains;
	for (b = 0; b < core->nr_backups; b++) {
		core->domain[b] = core->domains ? params->domain[b] : b;
		if (params->super[b]) {
			core->super[b] = *params->super[b];
			memcpy(core->uuid, params->super[b]->uuid, sizeof(core->uuid));
		} else {
			core->lost |= core->members & 1u << b;
		}
		if (params->joining[b]) {
			core->super[b] = *params->joining[b];
			core->joining |= 1u << b;
		}
	}
	core->urgent = core->lost;
	core->coding = params->k;
}

struct core *core_new(const struct core_params *params, char error[CORE_ERROR_BYTES])
{
	const char *wrong = core_check_params(params);
	const struct digest_stripes *stripes = params->map->stripes;
	struct core *core;
	uint32_t place, b;

	error[0] = '\0';
	if (wrong) {
		snprintf(error, CORE_ERROR_BYTES, "core: %s", wrong);
		return NULL;
	}
	for (place = 0; !params->resume && place < digest_places(params->map); place++) {
		const struct digest_item *item = &params->map->items[place];

		if (item->state != LSMEM_ITEM_OPEN && stripes)
			item = &stripes->lanes[place];
		/* Invariant 15: a recovery seals all open segments. */
		if (item->state == LSMEM_ITEM_OPEN) {
			snprintf(error, CORE_ERROR_BYTES, "core: segment %llu is listed as open: recover first",
				 (unsigned long long)item->segment);
			return NULL;
		}
	}
	core = calloc(1, sizeof(*core));
	if (core)
		core_set_params(core, params);
	if (!core || core_alloc_all(core, params)) {
		snprintf(error, CORE_ERROR_BYTES, "core: no memory for %u frames",
			 digest_places(params->map));
		core_free(core);
		return NULL;
	}
	if (!core_adopt(core, params->map)) {
		snprintf(error, CORE_ERROR_BYTES,
			 "core: the digest contradicts itself: replicas of a segment differ");
		core_free(core);
		return NULL;
	}
	core_each_backup(b, core->joining)
		if (params->past[b])
			core_keep_past(core, b, params->past[b]);
	return core;
}

void core_free(struct core *core)
{
	uint32_t i;

	if (!core)
		return;
	for (i = 0; i < CORE_CLOSES; i++)
		memory_put(core->closes[i].buffer);
	for (i = 0; i < CORE_BACKUPS; i++) {
		free(core->free_frames[i]);
		free(core->kept[i]);
		memory_put(core->record.buffers[i]);
	}
	memory_put(core->copy.buffer);
	free(core->queue);
	free(core->waiting);
	free(core->segments);
	free(core->hash);
	free(core->free_segments);
	free(core->dirty);
	free(core->gone);
	free(core->record.segments);
	free(core->record.states);
	free(core->record.on);
	memory_put(core->blocks);
	core_rows_free(core);
	core_stripes_free(core);
	free(core);
}
