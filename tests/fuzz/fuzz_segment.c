// SPDX-License-Identifier: GPL-2.0
/*
 * One segment in a backup of two frames with sound superblock and digest.  Input: struct input, log
 * data, a directory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <lsmem.h>

#include "image.h"

#define UUID		0x5a
#define SEGMENT		7u
#define GENERATION	1u
#define HANDLES		1000u
#define FRAMES_START	(64u << 10)

#define SEAL_HEADER	1u
#define SEAL_FOOTER	2u
#define SEAL_ENTRIES	4u
#define FIT_DIRECTORY	16u	/* its CRC, too */

/**
 * struct input - the beginning of the input
 * @state, @length: values in the digest
 * @data: number of bytes of log data in the input
 */
struct input {
	uint8_t seal;
	uint8_t state;
	uint8_t reserved[2];
	uint32_t length;
	uint32_t data;
	uint8_t header[124];
	uint8_t footer[64];
};

static void image_begin(struct image *image, const struct input *in)
{
	struct lsmem_super super = {
		.magic = __cpu_to_le64(LSMEM_SUPER_MAGIC), .format = __cpu_to_le32(LSMEM_FORMAT),
		.incarnation = __cpu_to_le64(1), .sequence = __cpu_to_le64(1),
		.digest_start = __cpu_to_le64(2 * LSMEM_BLOCK),
		.digest_bytes = __cpu_to_le64(LSMEM_BLOCK),
		.frames_start = __cpu_to_le64(FRAMES_START), .frames = __cpu_to_le64(2),
		.kind = __cpu_to_le32(LSMEM_KIND_OBJECT), .store_bytes = __cpu_to_le64(64u << 20),
		.max_handles = __cpu_to_le64(HANDLES),
	};
	struct digest_map map;
	uint8_t record[LSMEM_BLOCK] = { 0 };

	memset(super.uuid, UUID, sizeof(super.uuid));
	format_super_seal(&super);
	image_write(image, 0, &super, sizeof(super));
	if (digest_map_init(&map, 1, 2))
		abort();
	map.term = map.sequence = map.era = 1;
	map.generation_ceiling = 4096;
	map.next_segment = SEGMENT + 1;
	map.nr = 1;
	map.items[1] = (struct digest_item) {
		.segment = SEGMENT, .generation = GENERATION,
		.state = LSMEM_ITEM_OPEN + in->state % 3, .length = in->length,
	};
	digest_full((void *)record, &map, &super);
	image_write(image, 2 * LSMEM_BLOCK, record, sizeof(record));
	digest_map_destroy(&map);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	uint64_t frame = FRAMES_START + LSMEM_SEGMENT_BYTES;
	struct attempt check = { 0 }, run = { 0 }, accept = { 0 }, again = { 0 };
	struct lsmem_segment_header header = { 0 };
	struct lsmem_segment_footer footer = { 0 };
	struct image *image;
	struct input in;
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint32_t length, directory;
	uint8_t *data;
	int checked, ret;

	if (size < sizeof(in))
		return 0;
	memcpy(&in, bytes, sizeof(in));
	size -= sizeof(in);
	length = in.data < size ? in.data : size;
	directory = size - length;
	data = malloc(size);
	memcpy(data, bytes + sizeof(in), size);
	memset(uuid, UUID, sizeof(uuid));
	if (in.seal & SEAL_ENTRIES)
		fuzz_seal_entries(data, length, lsmem_segment_salt(uuid, SEGMENT, GENERATION));
	memcpy(&header, in.header, sizeof(in.header));
	memcpy(&footer, in.footer, sizeof(in.footer));
	if (in.seal & FIT_DIRECTORY)
		footer.directory_crc =
			__cpu_to_le32(lsmem_crc32c(~0u, data + length, directory));
	if (in.seal & SEAL_HEADER)
		format_header_seal(&header);
	if (in.seal & SEAL_FOOTER)
		format_footer_seal(&footer);

	image = image_new(FRAMES_START + 2 * LSMEM_SEGMENT_BYTES);
	image_begin(image, &in);
	image_write(image, frame, &header, sizeof(header));
	if (length > LSMEM_SEGMENT_BYTES - 2 * LSMEM_BLOCK)
		length = LSMEM_SEGMENT_BYTES - 2 * LSMEM_BLOCK;
	image_write(image, frame + LSMEM_BLOCK, data, length);
	if (lsmem_block_round(directory) <= LSMEM_SEGMENT_BYTES - 2 * LSMEM_BLOCK)
		image_write(image, frame + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK -
			    lsmem_block_round(directory), data + size - directory, directory);
	image_write(image, frame + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK, &footer, sizeof(footer));

	checked = attempt(&check, image, ATTEMPT_CHECK);
	attempt_judge(&check, checked);
	ret = attempt(&run, image, ATTEMPT_RUN);
	attempt_judge(&run, ret);
	if (!checked && ret)
		fuzz_fail("sound, and its recovery returns %d: %s", ret, run.last);
	if (!checked && check.result.objects != run.result.objects)
		fuzz_fail("a check finds %llu objects, a recovery %llu",
			  (unsigned long long)check.result.objects,
			  (unsigned long long)run.result.objects);
	if (ret && !attempt(&accept, image, ATTEMPT_ACCEPT)) {
		ret = attempt(&again, image, ATTEMPT_ACCEPT);
		if (ret != -EOVERFLOW && (ret || again.found.sum != accept.found.sum))
			fuzz_fail("losses accepted (%s): the second recovery returns %d, %llu objects, not %llu: %s",
				  accept.last, ret, (unsigned long long)again.found.objects,
				  (unsigned long long)accept.found.objects, again.last);
		ret = -ENODATA;
	}
	if (!ret && (attempt(&again, image, ATTEMPT_RUN) || again.found.sum != run.found.sum))
		fuzz_fail("the second recovery finds something else than the first: %s", again.last);
	image_free(image);
	free(data);
	return 0;
}
