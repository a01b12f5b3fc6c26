// SPDX-License-Identifier: GPL-2.0
/* A backup in memory: see image.h. */
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sanitizer/asan_interface.h>

#include "image.h"
#include "base/memory.h"

/* Report holes in pieces of this size only, as file systems do with large extents. */
#define HOLE_BYTES	(64u << 10)

/* An allocation of a forged size returns NULL; recovery must handle that error. */
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1:max_allocation_size_mb=1024:quarantine_size_mb=16";
}

/* ISA-L's CRC is in assembly, which ASan does not check: check the range here. */
uint32_t __wrap_lsmem_crc32c(uint32_t seed, const void *data, size_t length)
{
	if (length && __asan_region_is_poisoned((void *)data, length))
		fuzz_fail("a checksum over %zu bytes that are not all there", length);
	return __real_lsmem_crc32c(seed, data, length);
}

/*
 * Replaces daemon/base/memory.c.  Large buffers are kept, because ASan's allocation of 8 MiB takes
 * longer than everything else.  ASan checks smaller buffers to the byte.
 */
#define KEPT 5u

static void *kept[KEPT];

void *memory_get(size_t bytes)
{
	uint32_t i;

	for (i = 0; i < KEPT && bytes == LSMEM_SEGMENT_BYTES; i++) {
		void *memory = kept[i];

		kept[i] = NULL;
		if (memory)
			return memory;
	}
	/* memory_put() distinguishes the buffers by malloc_usable_size(). */
	return aligned_alloc(LSMEM_BLOCK, (bytes + LSMEM_BLOCK - 1) & ~(size_t)(LSMEM_BLOCK - 1));
}

void *memory_table(size_t bytes, bool dense)
{
	(void)dense;
	return calloc(1, bytes);
}

void memory_touch(void *memory, size_t bytes)
{
	(void)memory;
	(void)bytes;
}

void memory_put(void *memory)
{
	uint32_t i;

	for (i = 0; i < KEPT && memory && malloc_usable_size(memory) == LSMEM_SEGMENT_BYTES; i++) {
		if (kept[i])
			continue;
		kept[i] = memory;
		return;
	}
	free(memory);
}

void fuzz_fail_at(const char *file, int line, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: ", file, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	abort();
}

struct image *image_new(uint64_t bytes)
{
	struct image *image = calloc(1, sizeof(*image));

	image->bytes = image->full_bytes = bytes;
	image->nr_blocks = bytes / LSMEM_BLOCK;
	image->blocks = calloc(image->nr_blocks, sizeof(*image->blocks));
	image->ours = calloc(image->nr_blocks, 1);
	image->dirty = calloc(image->nr_blocks, sizeof(*image->dirty));
	image->fault = UINT64_MAX;
	return image;
}

struct image *image_copy(const struct image *base)
{
	struct image *image = image_new(base->full_bytes);

	image->base = base->blocks;
	memcpy(image->blocks, base->blocks, image->nr_blocks * sizeof(*image->blocks));
	return image;
}

void image_reset(struct image *image)
{
	while (image->nr_dirty) {
		uint64_t number = image->dirty[--image->nr_dirty];

		free(image->blocks[number]);
		image->blocks[number] = image->base ? image->base[number] : NULL;
		image->ours[number] = 0;
	}
	image->bytes = image->full_bytes;
	image->fault = UINT64_MAX;
}

void image_free(struct image *image)
{
	image_reset(image);
	free(image->blocks);
	free(image->ours);
	free(image->dirty);
	free(image);
}

/* A block of @image that may be written: a copy of the base's block or a new one. */
static uint8_t *image_block(struct image *image, uint64_t number)
{
	uint8_t *block = image->blocks[number];

	if (image->ours[number])
		return block;
	image->blocks[number] = calloc(1, LSMEM_BLOCK);
	if (block)
		memcpy(image->blocks[number], block, LSMEM_BLOCK);
	image->ours[number] = 1;
	image->dirty[image->nr_dirty++] = number;
	return image->blocks[number];
}

void image_read(const struct image *image, uint64_t offset, void *data, uint64_t length)
{
	uint8_t *to = data;

	while (length) {
		uint64_t in = offset % LSMEM_BLOCK;
		uint64_t part = LSMEM_BLOCK - in < length ? LSMEM_BLOCK - in : length;
		const uint8_t *block = image->blocks[offset / LSMEM_BLOCK];

		if (block)
			memcpy(to, block + in, part);
		else
			memset(to, 0, part);
		to += part;
		offset += part;
		length -= part;
	}
}

void image_write(struct image *image, uint64_t offset, const void *data, uint64_t length)
{
	const uint8_t *from = data;

	while (length) {
		uint64_t in = offset % LSMEM_BLOCK;
		uint64_t part = LSMEM_BLOCK - in < length ? LSMEM_BLOCK - in : length;

		/* A hole stays a hole when zeroes are written. */
		if (image->blocks[offset / LSMEM_BLOCK] || !format_is_zero(from, part))
			memcpy(image_block(image, offset / LSMEM_BLOCK) + in, from, part);
		from += part;
		offset += part;
		length -= part;
	}
}

/* ---- The environment of recovery --------------------------------------- */

static void io_check(const struct image *image, uint64_t offset, const void *data, uint32_t length)
{
	if (offset % LSMEM_BLOCK || length % LSMEM_BLOCK || length > LSMEM_SEGMENT_BYTES ||
	    (uintptr_t)data % LSMEM_BLOCK)
		fuzz_fail("I/O of %u bytes at %llu: not in blocks", length,
			  (unsigned long long)offset);
	if (offset > image->bytes || length > image->bytes - offset)
		fuzz_fail("I/O of %u bytes at %llu: the backup has %llu", length,
			  (unsigned long long)offset, (unsigned long long)image->bytes);
}

/* Recovery must not use the buffer before it reads it. */
static void env_ahead(void *context, uint64_t offset, void *data, uint32_t length)
{
	struct attempt *a = context;

	io_check(a->image, offset, data, length);
	if (a->nr_ahead == RECOVER_AHEAD)
		fuzz_fail("too many reads ahead, the last at %llu", (unsigned long long)offset);
	a->ahead[a->nr_ahead++] = data;
	__asan_poison_memory_region(data, length);
}

static int env_read(void *context, uint64_t offset, void *data, uint32_t length)
{
	struct attempt *a = context;
	struct image *image = a->image;

	io_check(image, offset, data, length);
	if (a->nr_ahead && a->ahead[0] == data) {
		__asan_unpoison_memory_region(data, length);
		memmove(a->ahead, a->ahead + 1, --a->nr_ahead * sizeof(*a->ahead));
	}
	if (image->fault >= offset / LSMEM_BLOCK &&
	    image->fault < (offset + length) / LSMEM_BLOCK) {
		image->faulted = true;
		return -EIO;
	}
	image_read(image, offset, data, length);
	return 0;
}

static int env_write(void *context, uint64_t offset, const void *data, uint32_t length)
{
	struct attempt *a = context;

	io_check(a->image, offset, data, length);
	image_write(a->image, offset, data, length);
	a->writes++;
	return 0;
}

static int env_flush(void *context, uint32_t slot)
{
	(void)context;
	(void)slot;
	return 0;
}

static bool env_hole(void *context, uint64_t offset, uint32_t length)
{
	const struct image *image = ((struct attempt *)context)->image;
	uint64_t from = offset / HOLE_BYTES * HOLE_BYTES / LSMEM_BLOCK, block;
	uint64_t to = (offset + length + HOLE_BYTES - 1) / HOLE_BYTES * HOLE_BYTES / LSMEM_BLOCK;

	for (block = from; block < to && block < image->nr_blocks; block++)
		if (image->blocks[block] || block == image->fault)
			return false;
	return true;
}

static void env_report(void *context, enum recover_severity severity, const char *text)
{
	struct attempt *a = context;

	a->reports++;
	a->damages += severity == RECOVER_DAMAGE;
	snprintf(a->last, sizeof(a->last), "%s", text);
}

static void found_index(struct attempt *a, uint64_t key)
{
	if (a->nr_indices == a->room_indices) {
		a->room_indices = a->room_indices ? 2 * a->room_indices : 64;
		a->indices = realloc(a->indices, a->room_indices * sizeof(*a->indices));
	}
	a->indices[a->nr_indices++] = lsmem_handle_index(key);
}

static void env_entry(struct attempt *a, const struct lsmem_entry *entry)
{
	uint64_t key = lsmem_entry_handle(entry), version = lsmem_entry_version(entry);
	uint32_t length = lsmem_entry_length(entry);
	const void *payload = format_payload(entry);

	found_index(a, key);
	if (lsmem_entry_type(entry) == LSMEM_TYPE_TOMBSTONE) {
		a->found.tombstones++;
		return;
	}
	a->found.objects++;
	a->found.sum += (key * 31 + version) * 0x9e3779b97f4a7c15ull +
			(length * 31ull + lsmem_crc32c(~0u, payload, length)) * 0xff51afd7ed558ccdull;
	if (a->found.object)
		a->found.object(a->found.context, key, version, payload, length);
}

static int env_load(void *context, uint64_t segment, uint32_t generation, uint32_t sealed,
		    const void *data, uint32_t length)
{
	struct attempt *a = context;
	const struct lsmem_super *super = recover_super(a->r);
	uint32_t salt = lsmem_segment_salt(super->uuid, segment, generation), at, end = 0;
	bool buried = false;

	if (segment <= a->last_segment || !length || length > sealed ||
	    sealed > LSMEM_SEGMENT_BYTES - 2 * LSMEM_BLOCK)
		fuzz_fail("segment %llu loaded after %llu: %u bytes, sealed at %u",
			  (unsigned long long)segment, (unsigned long long)a->last_segment, length,
			  sealed);
	a->last_segment = segment;
	for (at = 0; at < length;) {
		const struct lsmem_entry *entry = (const void *)((const uint8_t *)data + at);
		uint32_t home, bytes;

		if (length - at < LSMEM_LONG_BYTES || !lsmem_entry_sane(entry) ||
		    lsmem_entry_bytes(entry) > length - at ||
		    !lsmem_entry_valid(entry, format_payload(entry), salt))
			fuzz_fail("segment %llu: what is loaded is no entry",
				  (unsigned long long)segment);
		/* An entry names only the block of its place: this is the first that it can be. */
		home = lsmem_entry_home(entry) * LSMEM_BLOCK;
		/* Those in place of lost entries come last. */
		buried |= a->damages && lsmem_entry_type(entry) == LSMEM_TYPE_TOMBSTONE && home < end;
		if (buried)
			end = 0;
		if (home < end && home + LSMEM_BLOCK > end)
			home = end;
		home = lsmem_entry_start(home);
		bytes = lsmem_entry_bytes(entry);
		if (!format_is_listed(entry) || home < end || home > sealed ||
		    bytes > sealed - home ||
		    lsmem_handle_index(lsmem_entry_handle(entry)) >= format_indices(super) ||
		    !lsmem_handle_generation(lsmem_entry_handle(entry)))
			fuzz_fail("segment %llu: an entry that is out of range is loaded",
				  (unsigned long long)segment);
		env_entry(a, entry);
		end = home + bytes;
		at += bytes;
	}
	return 0;
}

static int env_place(void *context, uint64_t segment, uint32_t generation, uint32_t sealed,
		     const struct lsmem_directory_entry *entries, uint32_t nr)
{
	struct attempt *a = context;
	const struct lsmem_super *super = recover_super(a->r);
	uint32_t i;

	(void)generation;
	if (segment < a->last_placed || segment <= a->last_segment || !nr || nr > 65536 ||
	    sealed > LSMEM_SEGMENT_BYTES - 2 * LSMEM_BLOCK)
		fuzz_fail("segment %llu: %u objects placed after %llu, sealed at %u",
			  (unsigned long long)segment, nr, (unsigned long long)a->last_placed, sealed);
	a->last_placed = segment;
	for (i = 0; i < nr; i++) {
		uint64_t key = __le64_to_cpu(entries[i].key), meta = __le64_to_cpu(entries[i].meta);
		uint32_t length = LSMEM_LISTING_GET(meta, LENGTH);
		uint32_t home = LSMEM_LISTING_GET(meta, HOME) * LSMEM_ALIGN;

		if (LSMEM_LISTING_GET(meta, TYPE) != LSMEM_TYPE_OBJECT || !length ||
		    length > LSMEM_OBJECT_MAX || home > sealed ||
		    lsmem_entry_size(length) > sealed - home ||
		    lsmem_handle_index(key) >= format_indices(super) ||
		    !lsmem_handle_generation(key))
			fuzz_fail("segment %llu: an object that is out of range is placed",
				  (unsigned long long)segment);
		found_index(a, key);
		a->found.objects++;
		if (a->found.object)
			a->found.object(a->found.context, key, __le64_to_cpu(entries[i].version), NULL,
					length);
	}
	return 0;
}

static int by_index(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

int attempt(struct attempt *a, struct image *image, enum attempt_how how)
{
	const struct recover_options options = { .accept_loss = how == ATTEMPT_ACCEPT,
						 .instant = how == ATTEMPT_INSTANT };
	const struct recover_env env = {
		.context = a, .backup_bytes = { image->bytes }, .read = env_read, .write = env_write,
		.ahead = env_ahead, .flush = env_flush, .load = how == ATTEMPT_CHECK ? NULL : env_load,
		.place = env_place, .hole = env_hole, .report = env_report,
	};
	uint32_t i;
	int ret;

	a->image = image;
	image->faulted = false;
	a->r = recover_new(&env);
	ret = recover_open(a->r, &a->state);
	if (!ret && a->state == RECOVER_FULL)
		ret = how == ATTEMPT_CHECK ? recover_check(a->r, &a->result)
					   : recover_run(a->r, &options, &a->result);
	if (!ret && a->state == RECOVER_FULL)
		recover_activation(a->r, &a->activation);
	recover_free(a->r);
	a->r = NULL;
	if (a->nr_ahead)
		fuzz_fail("%u reads ahead are left", a->nr_ahead);
	if (a->nr_indices)
		qsort(a->indices, a->nr_indices, sizeof(*a->indices), by_index);
	for (i = 1; i < a->nr_indices; i++)
		if (a->indices[i] == a->indices[i - 1])
			fuzz_fail("index %llu is loaded or placed twice", (unsigned long long)a->indices[i]);
	free(a->indices);
	a->indices = NULL;
	if (a->writes && (ret || how == ATTEMPT_CHECK))
		fuzz_fail("a recovery that failed, or a check, has written");
	return ret;
}

void attempt_judge(const struct attempt *a, int ret)
{
	if (a->image->faulted != (ret == -EIO))
		fuzz_fail("a read failed: %d, recovery returns %d", a->image->faulted, ret);
	if (ret && ret != -ENODATA && ret != -EBADMSG && ret != -EIO && ret != -ENOMEM &&
	    ret != -EOVERFLOW)
		fuzz_fail("recovery returns %d", ret);
	if ((ret == -ENODATA || ret == -EBADMSG || ret == -EOVERFLOW) && !a->reports)
		fuzz_fail("recovery returns %d and says nothing", ret);
}

/* ---- Sealing ----------------------------------------------------------- */

void fuzz_seal_entries(uint8_t *data, uint32_t length, uint32_t salt)
{
	uint32_t at = 0;

	while (at < length && length - at >= LSMEM_LONG_BYTES) {
		struct lsmem_entry *entry = (void *)(data + at);
		uint32_t pcrc = ~0u;

		if (!lsmem_entry_sane(entry) || lsmem_entry_bytes(entry) > length - at)
			break;
		if (lsmem_entry_covers(entry))
			pcrc = lsmem_crc32c(pcrc, format_payload(entry), lsmem_entry_length(entry));
		entry->crc = __cpu_to_le32(lsmem_entry_crc(entry, pcrc, salt));
		at = lsmem_entry_start(at + lsmem_entry_bytes(entry));
	}
}

void fuzz_seal_digests(uint8_t *log, uint64_t length)
{
	uint64_t at;

	for (at = 0; at + LSMEM_BLOCK <= length; at += LSMEM_BLOCK) {
		struct lsmem_digest *digest = (void *)(log + at);

		if (__le64_to_cpu(digest->magic) == LSMEM_DIGEST_MAGIC &&
		    format_digest_bytes(__le32_to_cpu(digest->items)) <= length - at)
			format_digest_seal(digest);
	}
}
