// SPDX-License-Identifier: GPL-2.0
/* Damage to a backup: see edits.h. */
#include <string.h>

#include "edits.h"

/* For copies of whole frames: an allocation each time would be too slow. */
static uint8_t scratch[LSMEM_SEGMENT_BYTES];

static uint32_t min_u32(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void change(struct edited *e, uint64_t offset, const void *data, uint32_t length)
{
	enum part_class class = base_class(e->base, offset, length);

	if (class > e->class)
		e->class = class;
	image_write(e->image, offset, data, length);
}

static void change_copy(struct edited *e, uint64_t to, uint64_t from, uint32_t length)
{
	image_read(e->image, from, scratch, length);
	change(e, to, scratch, length);
	/* Bytes that were sound elsewhere may be sound here, too. */
	if (e->class == CLASS_FREE)
		e->class = CLASS_TOLD;
}

static void change_zero(struct edited *e, uint64_t offset, uint32_t length)
{
	memset(scratch, 0, length);
	change(e, offset, scratch, length);
}

/* ---- Sealing ----------------------------------------------------------- */

/* Seal the segment in the frame of @part: footer and directory match the entries. */
static void seal_segment(struct edited *e, const struct part *part)
{
	uint64_t frame = format_frame_offset(&e->base->super, part->frame);
	uint8_t *data = scratch;
	struct lsmem_segment_footer *footer = (void *)(data + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK);
	struct lsmem_directory_entry *directory;
	struct format_walk walk = { .salt = part->salt };
	uint32_t sums = ~0u, nr = 0, entries;

	image_read(e->image, frame, data, LSMEM_SEGMENT_BYTES);
	entries = __le32_to_cpu(footer->entries);
	walk.end = __le32_to_cpu(footer->length);
	if (lsmem_segment_fits(walk.end, entries)) {
		directory = (void *)((uint8_t *)footer - lsmem_directory_bytes(entries));
		while (walk.end - walk.at >= LSMEM_LONG_BYTES) {
			const struct lsmem_entry *entry =
				(const void *)(data + LSMEM_BLOCK + walk.at);
			uint32_t home = walk.at;

			if (format_walk_step(&walk, entry) || walk.at > walk.end)
				break;
			sums = lsmem_crc32c(sums, &entry->crc, sizeof(entry->crc));
			if (format_is_listed(entry) && nr < entries)
				directory[nr++] = lsmem_entry_listing(entry, home);
		}
		footer->entries_crc = __cpu_to_le32(sums);
		footer->directory_crc =
			__cpu_to_le32(lsmem_crc32c(~0u, directory, entries * sizeof(*directory)));
		image_write(e->image, frame + ((uint8_t *)directory - data), directory,
			    lsmem_directory_bytes(entries));
	}
	format_footer_seal(footer);
	image_write(e->image, frame + ((uint8_t *)footer - data), footer, sizeof(*footer));
}

/* Seal the entry at @offset. */
static void seal_entry(struct edited *e, uint64_t offset, uint32_t salt)
{
	struct lsmem_entry entry;
	uint32_t bytes;

	image_read(e->image, offset, &entry, sizeof(entry));
	if (!lsmem_entry_sane(&entry))
		return;
	bytes = lsmem_entry_bytes(&entry);
	if (bytes > sizeof(scratch) || offset + bytes > e->image->full_bytes)
		return;
	image_read(e->image, offset, scratch, bytes);
	fuzz_seal_entries(scratch, bytes, salt);
	image_write(e->image, offset, scratch, sizeof(entry.crc));
}

static void seal(struct edited *e, const struct part *part, uint8_t how)
{
	union {
		struct lsmem_super super;
		struct lsmem_segment_header header;
		struct lsmem_segment_footer footer;
		uint8_t bytes[LSMEM_BLOCK];
	} block;

	switch (part->kind) {
	case PART_SUPER:
		image_read(e->image, part->offset, &block, LSMEM_BLOCK);
		format_super_seal(&block.super);
		image_write(e->image, part->offset, &block, LSMEM_BLOCK);
		break;
	case PART_DIGEST:
	case PART_LOG:
		image_read(e->image, part->offset, scratch, part->length);
		fuzz_seal_digests(scratch, part->length);
		image_write(e->image, part->offset, scratch, part->length);
		break;
	case PART_HEADER:
		image_read(e->image, part->offset, &block, LSMEM_BLOCK);
		format_header_seal(&block.header);
		image_write(e->image, part->offset, &block, LSMEM_BLOCK);
		break;
	case PART_FOOTER:
		image_read(e->image, part->offset, &block, LSMEM_BLOCK);
		format_footer_seal(&block.footer);
		image_write(e->image, part->offset, &block, LSMEM_BLOCK);
		break;
	case PART_ENTRY:
		seal_entry(e, part->offset, part->salt);
		break;
	case PART_PAYLOAD:
		seal_entry(e, part->offset - part->header, part->salt);
		break;
	default:
		break;
	}
	if (how & SEAL_SEGMENT && part->kind >= PART_DIRECTORY && part->kind <= PART_PAYLOAD)
		seal_segment(e, part);
}

/* ---- Edits ------------------------------------------------------------- */

static void edit_apply(struct edited *e, const struct edit *edit)
{
	uint32_t kind = edit->kind % PART_KINDS, first = e->base->first[kind];
	uint32_t nr = e->base->first[kind + 1] - first;
	const struct part *part, *other;
	uint64_t offset, word = 0, block;
	uint32_t left;

	if (!nr)
		return;
	part = &e->base->parts[first + edit->which % nr];
	offset = part->offset + edit->at % part->length;
	left = part->length - edit->at % part->length;
	block = offset / LSMEM_BLOCK * LSMEM_BLOCK;
	switch (edit->op % EDIT_OPS) {
	case EDIT_FLIP:
		image_read(e->image, offset, &word, 1);
		word ^= (uint8_t)edit->value ?: 1;
		change(e, offset, &word, 1);
		break;
	case EDIT_SET8:
		change(e, offset, &edit->value, 1);
		break;
	case EDIT_SET32:
		change(e, offset, &edit->value, min_u32(4, left));
		break;
	case EDIT_SET64:
		change(e, offset, &edit->value, min_u32(8, left));
		break;
	case EDIT_ADD:
		image_read(e->image, offset, &word, min_u32(8, left));
		word += edit->value;
		change(e, offset, &word, min_u32(8, left));
		break;
	case EDIT_ZERO:
		change_zero(e, part->offset, part->length);
		break;
	case EDIT_ZERO_BLOCK:
		change_zero(e, block, LSMEM_BLOCK);
		break;
	case EDIT_COPY:
		other = &e->base->parts[first + edit->value % nr];
		change_copy(e, part->offset, other->offset, min_u32(part->length, other->length));
		break;
	case EDIT_COPY_BLOCK:
		change_copy(e, block, edit->value % e->image->nr_blocks * LSMEM_BLOCK, LSMEM_BLOCK);
		break;
	case EDIT_TRUNCATE:
		e->image->bytes = edit->value % (e->image->nr_blocks + 1) * LSMEM_BLOCK;
		if (e->class == CLASS_FREE)
			e->class = CLASS_TOLD;
		break;
	case EDIT_FAULT:
		e->image->fault = block / LSMEM_BLOCK;
		break;
	}
	if (edit->seal & (SEAL_PART | SEAL_SEGMENT)) {
		e->forged = true;
		seal(e, part, edit->seal);
	}
}

bool edits_apply(struct edited *e, const uint8_t *data, size_t size)
{
	static struct image *images[BASES];
	uint32_t nr, i, n, places = 0;
	struct edit edit;

	if (!size)
		return false;
	n = data[0] % BASES;
	e->base = base_get(n);
	if (!images[n])
		images[n] = image_copy(e->base->image);
	e->image = images[n];
	e->forged = false;
	e->class = CLASS_FREE;
	nr = min_u32((size - 1) / sizeof(edit), EDITS_MAX);
	for (i = 0; i < nr; i++) {
		memcpy(&edit, data + 1 + i * sizeof(edit), sizeof(edit));
		places += edit.op % EDIT_OPS == EDIT_SET32 || edit.op % EDIT_OPS == EDIT_SET64;
		edit_apply(e, &edit);
	}
	/* Two such edits may be a change and its checksum. */
	if (places > 1)
		e->forged = true;
	return true;
}
