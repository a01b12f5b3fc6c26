// SPDX-License-Identifier: GPL-2.0
/*
 * Superblocks.  Input: a byte of flags (1: seal copy 0, 2: copy 1), two bytes with the size of the
 * backup in segments, then the first bytes of the two copies.
 */
#include <string.h>

#include "image.h"

#define HEAD	3u
#define SLOT	176u		/* bytes of a copy: all fields and some reserved bytes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lsmem_super slots[2] = { 0 };
	struct attempt check = { 0 };
	struct image *image;
	uint64_t bytes;
	int ret, i;

	if (size < HEAD)
		return 0;
	for (i = 0; i < 2; i++) {
		size_t from = HEAD + i * SLOT;

		if (size > from)
			memcpy(&slots[i], data + from, size - from < SLOT ? size - from : SLOT);
		if (data[0] >> i & 1)
			format_super_seal(&slots[i]);
	}
	bytes = (data[1] | (uint64_t)data[2] << 8) % 3 * LSMEM_SEGMENT_BYTES + (1u << 20);
	image = image_new(bytes);
	image_write(image, 0, slots, sizeof(slots));
	ret = attempt(&check, image, ATTEMPT_CHECK);
	attempt_judge(&check, ret);
	/* The backup has no digest. */
	if (!ret && check.state == RECOVER_FULL)
		fuzz_fail("a backup without a digest is sound");
	if (!ret && !format_is_zero(slots, sizeof(slots)))
		fuzz_fail("superblocks that are not zero are taken for blank");
	for (i = 0; i < 2; i++) {
		const struct lsmem_super *s = &slots[i];

		if (format_super_check(s, bytes))
			continue;
		if (format_frame_offset(s, __le64_to_cpu(s->frames)) > bytes ||
		    format_half_offset(s, 2) > format_frame_offset(s, 0) ||
		    format_half_offset(s, 0) < 2 * LSMEM_BLOCK)
			fuzz_fail("slot %d is sound, and what it tells of lies outside", i);
	}
	image_free(image);
	return 0;
}
