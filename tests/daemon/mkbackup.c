// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a backup in a file, without the kernel, for tests of lsmemd and measurements of recovery.
 *
 *	mkbackup FILE STORE-MIB				empty
 *	mkbackup FILE STORE-MIB OBJECT-BYTES LIVE [HANDLES]	filled
 *	mkbackup FILE format NUMBER				call what is there another format
 *	mkbackup FILE capacity MIB				make it that of a tiered store
 *	mkbackup FILE feature BITS				say that a reader must know these features
 *
 * A filled backup has only closed segments, in all frames but four.  LIVE percent of its entries
 * are new objects, the others replace some; the order looks random.  The objects are scattered over
 * HANDLES handles; without HANDLES there are as many handles as objects.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recover/recover.h"
#include "lsmem.h"

static int file_read(void *context, uint64_t offset, void *data, uint32_t length)
{
	return pread(*(int *)context, data, length, (off_t)offset) == length ? 0 : -EIO;
}

static int file_write(void *context, uint64_t offset, const void *data, uint32_t length)
{
	return pwrite(*(int *)context, data, length, (off_t)offset) == length ? 0 : -EIO;
}

static int file_flush(void *context, uint32_t slot)
{
	(void)slot;
	return fdatasync(*(int *)context) ? -errno : 0;
}

static void file_report(void *context, enum recover_severity severity, const char *text)
{
	(void)context;
	fprintf(stderr, "%s%s\n", severity == RECOVER_DAMAGE ? "damage: " : "", text);
}

/* ---- Content ----------------------------------------------------------- */

#define SEGMENTS_LEFT	4u
#define STRIDE		7368787u	/* a prime: visits all keys in a scattered order */

/* The number of entries with @length bytes that a segment can hold. */
static uint32_t per_segment(uint32_t length)
{
	uint32_t at = 0, n = 0;

	for (;;) {
		at = lsmem_entry_start(at) + lsmem_entry_size(length);
		if (!lsmem_segment_fits(at, n + 1))
			return n;
		n++;
	}
}

static void fill_segment(uint8_t *frame, const struct lsmem_super *super, uint64_t id,
			 uint32_t length, uint64_t first, uint32_t nr, uint64_t keys,
			 uint32_t percent, uint32_t *bytes)
{
	struct lsmem_segment_header *header = (void *)frame;
	struct lsmem_segment_footer *footer = (void *)(frame + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK);
	struct lsmem_directory_entry *directory = (void *)((uint8_t *)footer -
							   lsmem_directory_bytes(nr));
	uint32_t salt = lsmem_segment_salt(super->uuid, id, 1), at = 0, sums = ~0u, i;

	memset(frame, 0, LSMEM_SEGMENT_BYTES);
	header->magic = __cpu_to_le64(LSMEM_SEGMENT_MAGIC);
	header->format = __cpu_to_le32(LSMEM_FORMAT);
	memcpy(header->uuid, super->uuid, sizeof(header->uuid));
	header->incarnation = super->incarnation;
	header->term = __cpu_to_le64(1);
	header->segment = __cpu_to_le64(id);
	header->generation = __cpu_to_le32(1);
	header->replica_generation = __cpu_to_le32(1);
	header->digest_sequence = __cpu_to_le64(1);
	format_header_seal(header);
	for (i = 0; i < nr; i++) {
		uint64_t n = first + i, key, index;
		struct lsmem_entry e;
		uint8_t *to;

		/* Replacements are spread evenly over the log. */
		index = n * percent / 100;
		if (n && index == (n - 1) * percent / 100)
			index = n * STRIDE % (index ? index : 1);
		key = lsmem_handle_make(index * STRIDE % keys, 1);
		at = lsmem_entry_start(at);
		to = frame + LSMEM_BLOCK + at;
		e = lsmem_entry_make(LSMEM_TYPE_OBJECT, length, key, lsmem_version_make(1, n + 1),
				     0, 0, at);
		memset(to + lsmem_entry_header(&e), (int)n, length);
		e.crc = __cpu_to_le32(lsmem_entry_crc(&e, lsmem_crc32c(~0u, to + lsmem_entry_header(&e),
								       length), salt));
		memcpy(to, &e, lsmem_entry_header(&e));
		sums = lsmem_crc32c(sums, &e.crc, sizeof(e.crc));
		directory[i] = lsmem_entry_listing(&e, at);
		at += lsmem_entry_bytes(&e);
	}
	footer->magic = __cpu_to_le64(LSMEM_FOOTER_MAGIC);
	footer->format = __cpu_to_le32(LSMEM_FORMAT);
	memcpy(footer->uuid, super->uuid, sizeof(footer->uuid));
	footer->segment = __cpu_to_le64(id);
	footer->generation = __cpu_to_le32(1);
	footer->length = __cpu_to_le32(at);
	footer->entries = __cpu_to_le32(nr);
	footer->entries_crc = __cpu_to_le32(sums);
	footer->directory_crc = __cpu_to_le32(lsmem_crc32c(~0u, directory,
							   nr * sizeof(*directory)));
	format_footer_seal(footer);
	*bytes = at;
}

/* Write closed segments with objects of @length bytes, and a digest that lists them. */
static int fill(int fd, struct recover *r, uint32_t length, uint64_t keys, uint32_t percent)
{
	const struct lsmem_super *super = recover_super(r);
	uint32_t nr = per_segment(length), frame, bytes;
	uint8_t *buffer = aligned_alloc(LSMEM_BLOCK, LSMEM_SEGMENT_BYTES);
	struct digest_map map = *recover_digest(r);
	uint64_t record = format_digest_bytes(map.frames);
	int err = 0;

	map.items = calloc(map.frames, sizeof(*map.items));
	if (!buffer || !map.items)
		return -ENOMEM;
	for (frame = 0; frame + SEGMENTS_LEFT < map.frames && !err; frame++) {
		fill_segment(buffer, super, frame + 1, length, (uint64_t)frame * nr, nr, keys,
			     percent, &bytes);
		err = file_write(&fd, format_frame_offset(super, frame), buffer,
				 LSMEM_SEGMENT_BYTES);
		map.items[frame] = (struct digest_item) {
			.segment = frame + 1, .generation = 1, .replica_generation = 1,
			.state = LSMEM_ITEM_CLOSED, .length = bytes,
		};
		map.nr++;
	}
	map.sequence++;
	map.next_segment = frame + 1;
	memset(buffer, 0, record);
	digest_full((struct lsmem_digest *)buffer, &map, super);
	if (!err)
		err = file_write(&fd, format_half_offset(super, 1), buffer, (uint32_t)record);
	free(map.items);
	free(buffer);
	return err ? err : file_flush(&fd, 0);
}

/* Change the format, or the capacity, that both superblock copies name; 0: leave it. @incompat: more features. */
static int change(int fd, uint32_t format, uint64_t capacity, uint32_t incompat)
{
	struct lsmem_super super;
	uint64_t at;
	int err = 0;

	for (at = 0; at < 2 * LSMEM_BLOCK && !err; at += LSMEM_BLOCK) {
		err = file_read(&fd, at, &super, sizeof(super));
		if (format)
			super.format = __cpu_to_le32(format);
		super.capacity = __cpu_to_le64(capacity);
		if (capacity)
			super.features.incompat |= __cpu_to_le32(LSMEM_INCOMPAT_TIER);
		super.features.incompat |= __cpu_to_le32(incompat);
		format_super_seal(&super);
		if (!err)
			err = file_write(&fd, at, &super, sizeof(super));
	}
	return err;
}

int main(int argc, char **argv)
{
	struct recover_geometry geometry;
	struct recover_env env;
	enum recover_state state;
	struct recover *r;
	uint32_t length = 0, percent = 0;
	uint64_t keys = 0;
	struct stat st;
	int fd, err;

	if (argc < 3 || argc > 6)
		return 2;
	fd = open(argv[1], O_RDWR);
	if (fd < 0 || fstat(fd, &st)) {
		perror(argv[1]);
		return 1;
	}
	if (argc == 4) {
		if (!strcmp(argv[2], "format"))
			return change(fd, (uint32_t)strtoul(argv[3], NULL, 10), 0, 0) ? 1 : 0;
		if (!strcmp(argv[2], "capacity"))
			return change(fd, 0, strtoull(argv[3], NULL, 10) << 20, 0) ? 1 : 0;
		if (!strcmp(argv[2], "feature"))
			return change(fd, 0, 0, (uint32_t)strtoul(argv[3], NULL, 10)) ? 1 : 0;
		return 2;
	}
	memset(&env, 0, sizeof(env));
	env.context = &fd;
	env.backup_bytes[0] = (uint64_t)st.st_size;
	env.read = file_read;
	env.write = file_write;
	env.flush = file_flush;
	env.report = file_report;
	memset(&geometry, 0, sizeof(geometry));
	memset(geometry.uuid, 0x5a, sizeof(geometry.uuid));
	geometry.incarnation = 12345;
	geometry.kind = LSMEM_KIND_OBJECT;
	geometry.store_bytes = strtoull(argv[2], NULL, 10) << 20;
	geometry.max_handles = geometry.store_bytes / 256;
	geometry.frames = (uint32_t)(geometry.store_bytes / LSMEM_SEGMENT_BYTES);
	if (argc > 3) {
		length = (uint32_t)strtoul(argv[3], NULL, 10);
		percent = (uint32_t)strtoul(argv[4], NULL, 10);
		if (!length || length > LSMEM_OBJECT_MAX || !percent || percent > 100)
			return 2;
		keys = env.backup_bytes[0] / LSMEM_SEGMENT_BYTES * per_segment(length) * percent / 100;
		if (argc == 6)
			keys = strtoull(argv[5], NULL, 10);
		geometry.max_handles = keys;
	}
	r = recover_new(&env);
	if (!r)
		return 1;
	err = recover_open(r, &state);
	if (!err)
		err = recover_format(r, &geometry);
	if (!err && keys)
		err = fill(fd, r, length, keys, percent);
	recover_free(r);
	close(fd);
	if (err)
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-err));
	return err ? 1 : 0;
}
