// SPDX-License-Identifier: GPL-2.0
/* The listings of a segment from the bytes of a replica: see listings.h. */
#include <errno.h>

#include "format/format.h"
#include "listings.h"

/**
 * listings_range - which bytes of the frame have to be read
 * @l: the segment
 * @from: out: first byte, of the frame
 * @to: out: behind the last one; both are whole blocks, at most LSMEM_SEGMENT_BYTES
 */
void listings_range(const struct listings *l, uint32_t *from, uint32_t *to)
{
	*from = l->closed ? LSMEM_SEGMENT_BYTES - format_end_bytes(l->length) : LSMEM_BLOCK;
	*to = l->closed ? LSMEM_SEGMENT_BYTES : LSMEM_BLOCK + lsmem_block_round(l->length);
}

static int from_directory(const struct listings *l, const uint8_t *end, struct lsmem_listing *listings)
{
	const struct lsmem_segment_footer *footer = (const void *)(end - LSMEM_BLOCK);
	const struct lsmem_directory_entry *directory;
	uint32_t nr, i;

	if (format_end_check(end, l->super, l->segment, l->generation, l->length, l->indices, &directory))
		return -EBADMSG;
	nr = __le32_to_cpu(footer->entries);
	for (i = 0; i < nr; i++)
		listings[i] = (struct lsmem_listing){
			directory[i].key, directory[i].version, directory[i].meta, __cpu_to_le64(LSMEM_PLACE_NONE),
		};
	return (int)nr;
}

static int from_data(const struct listings *l, const uint8_t *data, struct lsmem_listing *listings)
{
	struct format_walk walk = {
		.salt = lsmem_segment_salt(l->super->uuid, l->segment, l->generation), .end = l->length,
	};
	struct lsmem_directory_entry listing;
	int nr = 0;

	while (walk.at < walk.end) {
		const struct lsmem_entry *entry = (const void *)(data + walk.at);
		uint32_t home = walk.at;

		if (walk.end - home < LSMEM_LONG_BYTES || format_walk_step(&walk, entry))
			return -EBADMSG;
		if (!format_is_listed(entry))
			continue;
		if (lsmem_handle_index(lsmem_entry_handle(entry)) >= l->indices)
			return -EBADMSG;
		listing = lsmem_entry_listing(entry, home);
		listings[nr++] = (struct lsmem_listing){
			listing.key, listing.version, listing.meta, __cpu_to_le64(LSMEM_PLACE_NONE),
		};
	}
	return nr;
}

/**
 * listings_make - make the listings of a segment
 * @l: the segment
 * @bytes: of the range of listings_range(), aligned to 8
 * @listings: out: room for LISTINGS_MAX, as tell_directory() takes them
 *
 * Nothing of the bytes is used that was not checked.
 *
 * Return: how many there are; -EBADMSG: the bytes are not those of the segment, or damaged: another replica may be whole.
 */
int listings_make(const struct listings *l, const uint8_t *bytes, struct lsmem_listing *listings)
{
	uint32_t from, to;

	if (!l->closed)
		return from_data(l, bytes, listings);
	listings_range(l, &from, &to);
	return from_directory(l, bytes + (to - from), listings);
}
