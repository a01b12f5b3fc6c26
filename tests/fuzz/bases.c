// SPDX-License-Identifier: GPL-2.0
/* Backups for the fuzzers to damage: see bases.h. */
#include <stdlib.h>
#include <string.h>

#include "bases.h"

static struct base bases[BASES];

static void part_add(struct base *base, const struct part *part)
{
	base->parts = realloc(base->parts, (base->nr_parts + 1) * sizeof(*base->parts));
	base->parts[base->nr_parts++] = *part;
}

static void add_digests(struct base *base, const struct digest_map *map)
{
	uint64_t half = format_half_offset(&base->super, map->half), at = 0;
	struct lsmem_digest digest;

	while (at < map->at) {
		image_read(base->image, half + at, &digest, sizeof(digest));
		struct part part = {
			.kind = PART_DIGEST, .class = CLASS_TOLD, .offset = half + at,
			.length = format_digest_bytes(__le32_to_cpu(digest.items)),
		};

		at += part.length;
		/* Nothing else proves that the newest record existed. */
		if (at == map->at)
			part.class = CLASS_PROOF;
		part_add(base, &part);
	}
}

/* The length of an open segment that digest, commit records or footer prove to be acknowledged. */
static uint32_t proven_length(const struct base *base, const struct digest_item *item,
			      const uint8_t *frame, uint32_t salt)
{
	const struct lsmem_segment_footer *footer =
		(const void *)(frame + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK);
	struct format_walk walk = { .salt = salt, .end = LSMEM_SEGMENT_BYTES - 2 * LSMEM_BLOCK };
	uint32_t proven = item->length;

	for (;;) {
		const struct lsmem_entry *entry =
			(const void *)(frame + LSMEM_BLOCK + walk.at);

		if (walk.end - walk.at < LSMEM_LONG_BYTES || format_walk_step(&walk, entry))
			break;
		if (lsmem_entry_type(entry) == LSMEM_TYPE_COMMIT &&
		    lsmem_entry_value(entry) > proven)
			proven = lsmem_entry_value(entry);
	}
	if (!format_footer_check(footer, &base->super, item->segment, item->generation) &&
	    __le32_to_cpu(footer->length) > proven)
		proven = __le32_to_cpu(footer->length);
	return proven;
}

static void add_entries(struct base *base, const struct part *frame,
			const struct digest_item *item, const uint8_t *data)
{
	bool open = item->state == LSMEM_ITEM_OPEN;
	struct format_walk walk = {
		.salt = frame->salt,
		.end = open ? LSMEM_SEGMENT_BYTES - 2 * LSMEM_BLOCK : item->length,
	};
	uint32_t proven = proven_length(base, item, data, frame->salt);
	struct part part = *frame;

	for (;;) {
		const struct lsmem_entry *entry = (const void *)(data + LSMEM_BLOCK + walk.at);
		uint32_t home = walk.at;

		if (walk.end - walk.at < LSMEM_LONG_BYTES || format_walk_step(&walk, entry))
			break;
		part.class = open && (lsmem_entry_type(entry) == LSMEM_TYPE_COMMIT ||
				      walk.at > proven) ? CLASS_PROOF : CLASS_TOLD;
		base->groups += lsmem_entry_type(entry) == LSMEM_TYPE_GROUP;
		part.kind = PART_ENTRY;
		part.offset = frame->offset + LSMEM_BLOCK + home;
		part.length = part.header = lsmem_entry_header(entry);
		part_add(base, &part);
		part.kind = PART_PAYLOAD;
		part.offset += part.header;
		part.length = lsmem_entry_bytes(entry) - part.header;
		if (part.length)
			part_add(base, &part);
	}
}

static void add_segment(struct base *base, uint32_t frame, const struct digest_item *item)
{
	uint8_t *data = malloc(LSMEM_SEGMENT_BYTES);
	const struct lsmem_segment_footer *footer =
		(const void *)(data + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK);
	struct part all = {
		.offset = format_frame_offset(&base->super, frame), .frame = frame,
		.salt = lsmem_segment_salt(base->super.uuid, item->segment, item->generation),
	}, part = all;
	uint32_t i, bytes;

	image_read(base->image, all.offset, data, LSMEM_SEGMENT_BYTES);
	part.kind = PART_HEADER;
	part.class = CLASS_TOLD;
	part.length = LSMEM_BLOCK;
	part_add(base, &part);
	part.kind = PART_FOOTER;
	if (item->state != LSMEM_ITEM_CLOSED)
		part.class = CLASS_PROOF;
	part.offset = all.offset + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK;
	part_add(base, &part);
	if (!format_footer_check(footer, &base->super, item->segment, item->generation)) {
		bytes = lsmem_directory_bytes(__le32_to_cpu(footer->entries));
		part.kind = PART_DIRECTORY;
		part.length = sizeof(struct lsmem_directory_entry);
		for (i = 0; i < __le32_to_cpu(footer->entries); i++) {
			part.offset = all.offset + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK - bytes +
				      i * part.length;
			part_add(base, &part);
		}
	}
	add_entries(base, &all, item, data);
	free(data);
}

static int by_kind(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Add all parts of a backup, as recovery finds them. */
static void add_parts(struct base *base)
{
	struct recover *r = recover_new(&base->sim->env);
	enum recover_state state;
	const struct digest_map *map;
	struct part part = { .kind = PART_SUPER, .class = CLASS_TOLD, .length = LSMEM_BLOCK };
	uint32_t frame, i;

	base->sim->io_left = UINT32_MAX;
	if (recover_open(r, &state) || state != RECOVER_FULL || recover_map(r, false))
		fuzz_fail("base: %s", base->sim->last_damage);
	base->super = *recover_super(r);
	map = recover_digest(r);
	part_add(base, &part);
	part.offset = LSMEM_BLOCK;
	part_add(base, &part);
	add_digests(base, map);
	for (frame = 0; frame < map->frames; frame++) {
		part = (struct part) {
			.kind = PART_FRAME, .offset = format_frame_offset(&base->super, frame),
			.length = LSMEM_SEGMENT_BYTES, .frame = frame,
		};
		part_add(base, &part);
		if (!map->items[frame].state)
			continue;
		part.kind = PART_LISTED;
		part_add(base, &part);
		add_segment(base, frame, &map->items[frame]);
	}
	part = (struct part) {
		.kind = PART_LOG, .offset = format_half_offset(&base->super, 0),
		.length = 2 * __le64_to_cpu(base->super.digest_bytes),
	};
	part_add(base, &part);
	recover_free(r);
	qsort(base->parts, base->nr_parts, sizeof(*base->parts), by_kind);
	for (i = base->nr_parts; i--;)
		base->first[base->parts[i].kind] = i;
	base->first[PART_KINDS] = base->nr_parts;
	for (i = PART_KINDS; i--;)
		if (!base->first[i] && i)
			base->first[i] = base->first[i + 1];
}

static void take_image(struct base *base)
{
	uint64_t bytes = base->sim->env.backup_bytes[0], at;
	uint8_t block[LSMEM_BLOCK];

	base->image = image_new(bytes);
	for (at = 0; at < bytes; at += LSMEM_BLOCK) {
		if (disk_hole(base->sim->disk, at, LSMEM_BLOCK))
			continue;
		disk_read(base->sim->disk, at, block, LSMEM_BLOCK);
		if (!format_is_zero(block, LSMEM_BLOCK))
			image_write(base->image, at, block, LSMEM_BLOCK);
	}
}

static void base_make(struct base *base, uint32_t n)
{
	const struct sim_options options = {
		.frames = 12, .size = n % 5 == 4 ? 2 : n % 5 == 3, .steps = 200,
	};
	uint32_t lives = n % 3, i;
	struct sim *sim = sim_new(1000 + n, &options);
	bool ok = sim_start(sim, false);

	for (;;) {
		for (i = 0; i < 500 + 100 * n && ok && !sim->error[0]; i++)
			sim_step(sim);
		if (n % 2)
			sim_settle(sim);
		if (n == 5)
			sim_shutdown(sim);
		sim_cut(sim, n % DISK_CUT_KINDS);
		if (!lives--)
			break;
		ok = ok && sim_start(sim, false);
	}
	if (!ok || sim->error[0] || sim->model->error[0])
		fuzz_fail("base %u: %s %s", n, sim->error, sim->model->error);
	base->sim = sim;
	take_image(base);
	add_parts(base);
	if (!base->groups)
		fuzz_fail("base %u has no group", n);
}

const struct base *base_get(uint32_t n)
{
	struct base *base = &bases[n % BASES];

	if (!base->sim)
		base_make(base, n % BASES);
	return base;
}

enum part_class base_class(const struct base *base, uint64_t offset, uint64_t length)
{
	enum part_class class = CLASS_FREE;
	uint32_t i;

	for (i = 0; i < base->first[PART_LISTED]; i++) {
		const struct part *part = &base->parts[i];

		if (part->offset < offset + length && offset < part->offset + part->length &&
		    part->class > class)
			class = part->class;
	}
	return class;
}
