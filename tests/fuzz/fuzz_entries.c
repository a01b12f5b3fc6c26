// SPDX-License-Identifier: GPL-2.0
/*
 * Entries and directories.  Input: a byte of flags (1: seal the entries, 4: the input is a
 * directory), then log data or a directory.
 */
#include <stdlib.h>
#include <string.h>

#include "image.h"

#define SALT	0x12345678u

static void walk(const uint8_t *data, uint32_t length)
{
	struct format_walk walk = { .salt = SALT, .end = length };

	while (walk.at < length && length - walk.at >= LSMEM_LONG_BYTES) {
		const struct lsmem_entry *entry = (const void *)(data + walk.at);
		uint32_t home = walk.at;

		if (format_walk_step(&walk, entry))
			break;
		if (lsmem_entry_home(entry) != home / LSMEM_BLOCK ||
		    walk.at < home + lsmem_entry_bytes(entry) ||
		    lsmem_entry_bytes(entry) > length - home ||
		    !lsmem_entry_valid(entry, format_payload(entry), SALT))
			fuzz_fail("a step over the entry at %u goes to %u", home, walk.at);
	}
}

static void directory(const uint8_t *data, uint32_t length)
{
	const struct lsmem_directory_entry *entries = (const void *)data;
	struct lsmem_segment_footer footer = { 0 };
	uint32_t nr = length / sizeof(*entries), i;

	footer.entries = __cpu_to_le32(nr);
	footer.length = __cpu_to_le32(LSMEM_SEGMENT_BYTES / 2);
	footer.directory_crc = __cpu_to_le32(lsmem_crc32c(~0u, entries, nr * sizeof(*entries)));
	if (format_directory_check(entries, &footer, 1000))
		return;
	for (i = 0; i < nr; i++)
		if (lsmem_handle_index(__le64_to_cpu(entries[i].key)) >= 1000)
			fuzz_fail("a handle that is out of range is sound");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	if (!size)
		return 0;
	/* A copy of exactly this length, so that ASan finds an access behind it. */
	copy = malloc(size);
	memcpy(copy, data + 1, size - 1);
	if (data[0] & 4) {
		directory(copy, size - 1);
	} else {
		if (data[0] & 1)
			fuzz_seal_entries(copy, size - 1, SALT);
		walk(copy, size - 1);
	}
	free(copy);
	return 0;
}
