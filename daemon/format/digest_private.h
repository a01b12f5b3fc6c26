/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the digest map share; digest.h describes it as a whole. */
#ifndef LSMEMD_DIGEST_PRIVATE_H
#define LSMEMD_DIGEST_PRIVATE_H

#include "digest.h"

/* Find the place of the frame that an item names. Return: false: it is on no member, or there is no such frame. */
static inline bool digest_place(const struct digest_map *map, const struct lsmem_digest_item *item, uint32_t *place)
{
	uint32_t backup = __le32_to_cpu(item->frame) >> LSMEM_ITEM_FRAME_BITS;
	uint32_t frame = __le32_to_cpu(item->frame) & ((1u << LSMEM_ITEM_FRAME_BITS) - 1);

	*place = backup * map->frames + frame;
	return frame < map->frames && backup < map->backups && map->mask >> backup & 1u;
}

/* format/digest.c */
enum format_error digest_update(struct digest_item *to, const struct lsmem_digest_item *item, uint32_t *nr);

/* format/digest_stripe.c */
void digest_stripes_free(struct digest_map *map);
void digest_stripes_clear(struct digest_map *map);
void digest_stripes_drop(struct digest_map *map, uint32_t place);
enum format_error digest_apply_stripe(struct digest_map *map, const struct lsmem_digest_item *item);
void digest_add_stripes(struct lsmem_digest *digest, const struct digest_map *map);

#endif
