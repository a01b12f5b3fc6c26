// SPDX-License-Identifier: GPL-2.0
/*
 * Codecs: sealed bytes are accepted, and are refused if any single bit differs.  Sealed bytes with
 * invalid values are refused with the right error.
 */
#include <stdlib.h>
#include <string.h>

#include <lsmem.h>

#include "../common/random.h"
#include "../common/tap.h"
#include "format/digest.h"
#include "recover/recover.h"
#include "base/rule.h"

uint64_t lsmem_mutation;

#define BACKUP_BYTES	((4ull << 20) + 40ull * LSMEM_SEGMENT_BYTES)

/* CRC-32C by its definition, one bit at a time. */
static uint32_t slow_crc(uint32_t crc, const uint8_t *data, size_t length)
{
	size_t i;
	int bit;

	for (i = 0; i < length; i++) {
		crc ^= data[i];
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return crc;
}

static bool test_crc(void)
{
	uint8_t data[300];
	uint64_t random;
	uint32_t length, seed;

	CHECK(~lsmem_crc32c(~0u, "123456789", 9) == 0xe3069283);
	random = 5;
	for (length = 0; length < sizeof(data); length++) {
		data[length] = random_next(&random);
		seed = random_next(&random);
		CHECK(lsmem_crc32c(seed, data, length) == slow_crc(seed, data, length));
		CHECK(lsmem_crc32c(lsmem_crc32c(seed, data, length / 3), data + length / 3,
				   length - length / 3) == lsmem_crc32c(seed, data, length));
	}
	return true;
}

static void make_super(struct lsmem_super *super)
{
	memset(super, 0, sizeof(*super));
	super->magic = __cpu_to_le64(LSMEM_SUPER_MAGIC);
	super->format = __cpu_to_le32(LSMEM_FORMAT);
	memset(super->uuid, 0x5a, sizeof(super->uuid));
	super->incarnation = __cpu_to_le64(77);
	super->sequence = __cpu_to_le64(1);
	super->digest_start = __cpu_to_le64(2 * LSMEM_BLOCK);
	super->digest_bytes = __cpu_to_le64(format_half_bytes(40));
	super->frames_start = __cpu_to_le64(2 << 20);
	super->frames = __cpu_to_le64(40);
	super->kind = __cpu_to_le32(LSMEM_KIND_OBJECT);
	super->store_bytes = __cpu_to_le64(128 << 20);
	super->max_handles = __cpu_to_le64(1000);
	format_super_seal(super);
}

#define REFUSED(change, wanted)							\
	do {									\
		make_super(&super);						\
		super.change;							\
		format_super_seal(&super);					\
		CHECK(format_super_check(&super, BACKUP_BYTES) == (wanted));	\
	} while (0)

static bool test_super(void)
{
	struct lsmem_super super;
	uint32_t bit;

	make_super(&super);
	CHECK(format_super_check(&super, BACKUP_BYTES) == FORMAT_OK);
	CHECK(format_super_check(&super, BACKUP_BYTES - (4 << 20)) == FORMAT_RANGE);
	for (bit = 0; bit < 8 * sizeof(super); bit++) {
		((uint8_t *)&super)[bit / 8] ^= 1u << bit % 8;
		CHECK(format_super_check(&super, BACKUP_BYTES) != FORMAT_OK);
		((uint8_t *)&super)[bit / 8] ^= 1u << bit % 8;
	}
	REFUSED(format = __cpu_to_le32(LSMEM_FORMAT - 1), FORMAT_OLD);
	REFUSED(format = 0, FORMAT_VERSION);
	REFUSED(format = __cpu_to_le32(LSMEM_FORMAT + 1), FORMAT_VERSION);
	REFUSED(features.incompat = __cpu_to_le32(~FORMAT_INCOMPAT), FORMAT_INCOMPATIBLE);
	REFUSED(features.ro_compat = __cpu_to_le32(1), FORMAT_READ_ONLY);
	REFUSED(features.compat = __cpu_to_le32(~0u), FORMAT_OK);
	REFUSED(incarnation = 0, FORMAT_RANGE);
	REFUSED(kind = __cpu_to_le32(3), FORMAT_RANGE);
	REFUSED(max_handles = 0, FORMAT_RANGE);
	REFUSED(max_handles = __cpu_to_le64(1ull << 31), FORMAT_OK);
	REFUSED(max_handles = __cpu_to_le64((1ull << 31) + 1), FORMAT_RANGE);
	REFUSED(store_bytes = 0, FORMAT_RANGE);
	REFUSED(frames = 0, FORMAT_RANGE);
	REFUSED(frames = __cpu_to_le64(41), FORMAT_RANGE);
	REFUSED(frames = __cpu_to_le64(~0ull), FORMAT_RANGE);
	REFUSED(digest_start = __cpu_to_le64(LSMEM_BLOCK), FORMAT_RANGE);
	REFUSED(digest_start = __cpu_to_le64(2 * LSMEM_BLOCK + 8), FORMAT_RANGE);
	REFUSED(digest_start = __cpu_to_le64(~0ull << 12), FORMAT_RANGE);
	REFUSED(digest_bytes = __cpu_to_le64(~0ull << 12), FORMAT_RANGE);
	REFUSED(digest_bytes = 0, FORMAT_RANGE);
	REFUSED(digest_bytes = __cpu_to_le64(2 << 20), FORMAT_RANGE);
	REFUSED(frames_start = __cpu_to_le64(~0ull << 12), FORMAT_RANGE);
	/* A capacity, and the bit that says that there is one. */
	REFUSED(capacity = __cpu_to_le64(1ull << 40), FORMAT_RANGE);
	REFUSED(features.incompat = __cpu_to_le32(LSMEM_INCOMPAT_TIER), FORMAT_RANGE);
	make_super(&super);
	super.features.incompat = __cpu_to_le32(LSMEM_INCOMPAT_TIER);
	super.capacity = super.store_bytes;
	format_super_seal(&super);
	CHECK(format_super_check(&super, BACKUP_BYTES) == FORMAT_OK);
	super.capacity = __cpu_to_le64(__le64_to_cpu(super.store_bytes) - LSMEM_SEGMENT_BYTES);
	format_super_seal(&super);
	CHECK(format_super_check(&super, BACKUP_BYTES) == FORMAT_RANGE);
	memset(&super, 0, sizeof(super));
	CHECK(format_super_check(&super, BACKUP_BYTES) == FORMAT_ZERO);
	return true;
}

/* Which codes a superblock can name, and that only the one of a coded store does. */
static bool test_super_code(void)
{
	static const struct {
		bool coded;
		uint32_t k, m, shard, backups;
		enum format_error error;
	} codes[] = {
		{ true, 2, 1, 0, 3, FORMAT_OK }, { true, 3, 2, 0, 5, FORMAT_OK }, { true, 5, 4, 0, 16, FORMAT_OK },
		{ true, 15, 1, 0, 16, FORMAT_OK }, { false, 0, 0, 0, 3, FORMAT_OK },
		{ true, 0, 0, 0, 3, FORMAT_RANGE }, { false, 2, 1, 0, 3, FORMAT_RANGE },
		{ true, 1, 0, 0, 3, FORMAT_RANGE }, { true, 1, 1, 0, 3, FORMAT_RANGE },
		{ true, 2, 0, 0, 3, FORMAT_RANGE }, { true, 2, 2, 0, 4, FORMAT_RANGE },
		{ true, 2, 1, 0, 2, FORMAT_RANGE }, { true, 3, 2, 0, 4, FORMAT_RANGE },
		{ true, 2, 1, 1, 3, FORMAT_RANGE },
	};
	struct lsmem_super super;
	size_t i;

	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		make_super(&super);
		super.backups = __cpu_to_le32(codes[i].backups);
		super.features.incompat = __cpu_to_le32(LSMEM_INCOMPAT_BACKUPS |
							(codes[i].backups > 8 ? LSMEM_INCOMPAT_MANY : 0) |
							(codes[i].coded ? LSMEM_INCOMPAT_CODE : 0));
		super.code = __cpu_to_le32(lsmem_code_make(codes[i].k, codes[i].m, codes[i].shard));
		super.digest_bytes = __cpu_to_le64(255 * LSMEM_BLOCK);
		format_super_seal(&super);
		if (format_super_check(&super, BACKUP_BYTES) != codes[i].error) {
			printf("# code %u+%u, shard %u, %u backups: %s\n", codes[i].k, codes[i].m, codes[i].shard,
			       codes[i].backups, format_strerror(format_super_check(&super, BACKUP_BYTES)));
			return false;
		}
	}
	return true;
}

/*
 * What earlier versions of lsmem know of @incompat, and how many backups they serve: they refuse a store of more
 * backups as one with a feature that they do not know, and find nothing new in any other.
 */
#define EARLIER_INCOMPAT	3u
#define EARLIER_BACKUPS		8u

static int zero_read(void *context, uint64_t offset, void *data, uint32_t length);
static int ignore_write(void *context, uint64_t offset, const void *data, uint32_t length);
static int ignore_flush(void *context, uint32_t slot);

static bool test_many(void)
{
	uint32_t nr, b, incompat;

	CHECK(LSMEM_BACKUPS_FEW == EARLIER_BACKUPS);
	for (nr = 2; nr <= LSMEM_BACKUPS; nr++) {
		struct recover_geometry g = {
			.incarnation = 1, .kind = LSMEM_KIND_OBJECT, .store_bytes = 1, .max_handles = 1, .frames = 40,
		};
		struct recover_env env = { .backups = nr, .read = zero_read, .write = ignore_write, .flush = ignore_flush };
		struct lsmem_super super;
		enum recover_state state;
		struct recover *r;

		for (b = 0; b < nr; b++)
			env.backup_bytes[b] = BACKUP_BYTES;
		r = recover_new(&env);
		CHECK(!recover_open(r, &state) && state == RECOVER_BLANK && !recover_format(r, &g));
		for (b = 0; b < nr; b++) {
			super = *recover_slot_super(r, b);
			incompat = __le32_to_cpu(super.features.incompat);
			CHECK(format_super_check(&super, BACKUP_BYTES) == FORMAT_OK && format_backups(&super) == nr);
			CHECK(!!(incompat & ~EARLIER_INCOMPAT) == (nr > EARLIER_BACKUPS));
			/* The bit and the number must agree. */
			super.features.incompat = __cpu_to_le32(incompat ^ LSMEM_INCOMPAT_MANY);
			format_super_seal(&super);
			CHECK(format_super_check(&super, BACKUP_BYTES) == FORMAT_RANGE);
			super.features.incompat = __cpu_to_le32(incompat | LSMEM_INCOMPAT_MANY);
			super.backups = __cpu_to_le32(LSMEM_BACKUPS + 1);
			format_super_seal(&super);
			CHECK(format_super_check(&super, BACKUP_BYTES) == FORMAT_RANGE);
		}
		recover_free(r);
	}
	return true;
}

static bool test_header(void)
{
	struct lsmem_segment_header header = { 0 };
	struct lsmem_super super, other;
	uint32_t bit;

	make_super(&super);
	CHECK(format_header_check(&header, &super, 5, 1) == FORMAT_ZERO);
	header.magic = __cpu_to_le64(LSMEM_SEGMENT_MAGIC);
	header.format = __cpu_to_le32(LSMEM_FORMAT);
	memcpy(header.uuid, super.uuid, sizeof(header.uuid));
	header.incarnation = super.incarnation;
	header.segment = __cpu_to_le64(5);
	header.generation = __cpu_to_le32(1);
	format_header_seal(&header);
	CHECK(format_header_check(&header, &super, 5, 1) == FORMAT_OK);
	CHECK(format_header_check(&header, &super, 6, 1) == FORMAT_FOREIGN);
	CHECK(format_header_check(&header, &super, 5, 2) == FORMAT_FOREIGN);
	other = super;
	other.uuid[0]++;
	CHECK(format_header_check(&header, &other, 5, 1) == FORMAT_FOREIGN);
	other = super;
	other.incarnation++;
	CHECK(format_header_check(&header, &other, 5, 1) == FORMAT_FOREIGN);
	for (bit = 0; bit < 8 * sizeof(header); bit++) {
		((uint8_t *)&header)[bit / 8] ^= 1u << bit % 8;
		CHECK(format_header_check(&header, &super, 5, 1) != FORMAT_OK);
		((uint8_t *)&header)[bit / 8] ^= 1u << bit % 8;
	}
	header.key_id = __cpu_to_le32(1);
	format_header_seal(&header);
	CHECK(format_header_check(&header, &super, 5, 1) == FORMAT_INCOMPATIBLE);
	return true;
}

static bool test_footer(void)
{
	struct lsmem_segment_footer footer = { 0 };
	struct lsmem_super super;
	uint32_t bit;

	make_super(&super);
	CHECK(format_footer_check(&footer, &super, 5, 1) == FORMAT_ZERO);
	footer.magic = __cpu_to_le64(LSMEM_FOOTER_MAGIC);
	footer.format = __cpu_to_le32(LSMEM_FORMAT);
	memcpy(footer.uuid, super.uuid, sizeof(footer.uuid));
	footer.segment = __cpu_to_le64(5);
	footer.generation = __cpu_to_le32(1);
	footer.length = __cpu_to_le32(LSMEM_SEGMENT_BYTES - 3 * LSMEM_BLOCK);
	footer.entries = __cpu_to_le32(170);
	format_footer_seal(&footer);
	CHECK(format_footer_check(&footer, &super, 5, 1) == FORMAT_OK);
	CHECK(format_footer_check(&footer, &super, 4, 1) == FORMAT_FOREIGN);
	for (bit = 0; bit < 8 * sizeof(footer); bit++) {
		((uint8_t *)&footer)[bit / 8] ^= 1u << bit % 8;
		CHECK(format_footer_check(&footer, &super, 5, 1) != FORMAT_OK);
		((uint8_t *)&footer)[bit / 8] ^= 1u << bit % 8;
	}
	footer.entries = __cpu_to_le32(171);	/* one block more */
	format_footer_seal(&footer);
	CHECK(format_footer_check(&footer, &super, 5, 1) == FORMAT_RANGE);
	footer.entries = __cpu_to_le32(0xffffffff);
	format_footer_seal(&footer);
	CHECK(format_footer_check(&footer, &super, 5, 1) == FORMAT_RANGE);
	return true;
}

static void make_directory(struct lsmem_directory_entry *d, struct lsmem_segment_footer *footer,
			   uint64_t key, uint32_t home, uint32_t length, uint32_t type)
{
	d[0] = (struct lsmem_directory_entry) {
		.key = __cpu_to_le64(lsmem_handle_make(3, 1)),
		.meta = __cpu_to_le64(lsmem_listing_make(100, LSMEM_TYPE_OBJECT, 0, 0, 31)),
	};
	d[1] = (struct lsmem_directory_entry) {
		.key = __cpu_to_le64(key),
		.meta = __cpu_to_le64(lsmem_listing_make(length, type, home, 0, 0)),
	};
	memset(footer, 0, sizeof(*footer));
	footer->entries = __cpu_to_le32(2);
	footer->length = __cpu_to_le32(400);
	footer->directory_crc = __cpu_to_le32(lsmem_crc32c(~0u, d, 2 * sizeof(*d)));
}

static bool test_directory(void)
{
	struct lsmem_directory_entry d[2];
	struct lsmem_segment_footer footer;
	uint64_t key = lsmem_handle_make(4, 2);
	uint32_t bit;

	make_directory(d, &footer, key, 128, 248, LSMEM_TYPE_OBJECT);
	CHECK(format_directory_check(d, &footer, 10) == FORMAT_OK);
	for (bit = 0; bit < 8 * sizeof(d); bit++) {
		((uint8_t *)d)[bit / 8] ^= 1u << bit % 8;
		CHECK(format_directory_check(d, &footer, 10) == FORMAT_CRC);
		((uint8_t *)d)[bit / 8] ^= 1u << bit % 8;
	}
	CHECK(format_directory_check(d, &footer, 4) == FORMAT_RANGE);
	make_directory(d, &footer, key, 120, 248, LSMEM_TYPE_OBJECT);	/* overlaps */
	CHECK(format_directory_check(d, &footer, 10) == FORMAT_RANGE);
	make_directory(d, &footer, key, 128, 249, LSMEM_TYPE_OBJECT);	/* beyond the end */
	CHECK(format_directory_check(d, &footer, 10) == FORMAT_RANGE);
	make_directory(d, &footer, key, 128, 0, LSMEM_TYPE_OBJECT);
	CHECK(format_directory_check(d, &footer, 10) == FORMAT_RANGE);
	make_directory(d, &footer, key, 400 - 32, 0, LSMEM_TYPE_TOMBSTONE);
	CHECK(format_directory_check(d, &footer, 10) == FORMAT_OK);
	make_directory(d, &footer, key, 400 - 24, 0, LSMEM_TYPE_TOMBSTONE);
	CHECK(format_directory_check(d, &footer, 10) == FORMAT_RANGE);
	make_directory(d, &footer, key, 128, 8, LSMEM_TYPE_TOMBSTONE);
	CHECK(format_directory_check(d, &footer, 10) == FORMAT_RANGE);
	make_directory(d, &footer, key, 128, 0, LSMEM_TYPE_COMMIT);
	CHECK(format_directory_check(d, &footer, 10) == FORMAT_RANGE);
	/* A version has 62 bits. */
	make_directory(d, &footer, key, 128, 248, LSMEM_TYPE_OBJECT);
	d[1].version = __cpu_to_le64(1ull << 62);
	footer.directory_crc = __cpu_to_le32(lsmem_crc32c(~0u, d, sizeof(d)));
	CHECK(format_directory_check(d, &footer, 10) == FORMAT_RANGE);
	return true;
}

static const uint8_t entry_uuid[LSMEM_UUID_BYTES] = { 1, 2, 3 };

#define ENTRY_SALT	lsmem_segment_salt(entry_uuid, 9, 1)
#define ENTRY_BLOCK	700u	/* its number has low and high bits */
#define ENTRY_AT	(ENTRY_BLOCK * LSMEM_BLOCK + 64)

/* An entry in one piece, with its payload. */
struct whole {
	struct lsmem_entry entry;
	uint8_t rest[3 * LSMEM_BLOCK];
};

static void whole_make(struct whole *w, uint32_t type, uint64_t value)
{
	const struct lsmem_entry entry = lsmem_entry_make(type, value, lsmem_handle_make(1, 1),
							  lsmem_version_make(1, 500), 5, 7,
							  ENTRY_AT);
	uint8_t *payload = (uint8_t *)w + lsmem_entry_header(&entry);
	uint32_t length = lsmem_entry_length(&entry), i;

	memset(w, 0, sizeof(*w));
	memcpy(w, &entry, lsmem_entry_header(&entry));
	for (i = 0; i < length; i++)
		payload[i] = i * 13 + 1;
	w->entry.crc = __cpu_to_le32(lsmem_entry_crc(&entry, lsmem_entry_covers(&entry) ?
						     lsmem_crc32c(~0u, payload, length) : ~0u,
						     ENTRY_SALT));
}

/* One step over @w as the last entry of a segment. */
static enum format_error whole_step(const struct whole *w, uint32_t size)
{
	struct format_walk walk = { .salt = ENTRY_SALT, .at = ENTRY_AT, .end = ENTRY_AT + size };
	enum format_error error = format_walk_step(&walk, &w->entry);

	if (walk.at != (error ? ENTRY_AT : lsmem_entry_start(ENTRY_AT + size)))
		return FORMAT_MAGIC;
	return error;
}

/* A flipped bit anywhere makes the entry invalid, whatever its length says then. */
static bool whole_bits(uint32_t type, uint64_t value, uint32_t size)
{
	static struct whole w;
	uint32_t bytes, bit;

	whole_make(&w, type, value);
	CHECK(lsmem_entry_type(&w.entry) == type && lsmem_entry_bytes(&w.entry) == size);
	CHECK(lsmem_entry_home(&w.entry) == ENTRY_BLOCK && lsmem_entry_table(&w.entry) == 7 &&
	      lsmem_entry_interval(&w.entry) == 5 &&
	      lsmem_entry_handle(&w.entry) == lsmem_handle_make(1, 1) &&
	      lsmem_entry_version(&w.entry) == lsmem_version_make(1, 500));
	CHECK(whole_step(&w, size) == FORMAT_OK);
	bytes = lsmem_entry_header(&w.entry) +
		(lsmem_entry_covers(&w.entry) ? lsmem_entry_length(&w.entry) : 0);
	for (bit = 0; bit < 8 * bytes; bit++) {
		((uint8_t *)&w)[bit / 8] ^= 1u << bit % 8;
		CHECK(whole_step(&w, size) != FORMAT_OK);
		((uint8_t *)&w)[bit / 8] ^= 1u << bit % 8;
	}
	/* The bytes after it are none of its business. */
	((uint8_t *)&w)[size] ^= 1;
	CHECK(whole_step(&w, size) == FORMAT_OK);
	CHECK(whole_step(&w, size - 1) == FORMAT_RANGE);
	return true;
}

static bool test_entries(void)
{
	CHECK(whole_bits(LSMEM_TYPE_OBJECT, 1, 32));
	CHECK(whole_bits(LSMEM_TYPE_OBJECT, 1000, 24 + 1000));
	CHECK(whole_bits(LSMEM_TYPE_OBJECT, 2047, 24 + 2048));
	CHECK(whole_bits(LSMEM_TYPE_OBJECT, 2048, 32 + 2048));
	CHECK(whole_bits(LSMEM_TYPE_OBJECT, 5001, 32 + 5008));
	CHECK(whole_bits(LSMEM_TYPE_TOMBSTONE, LSMEM_SEGMENT_ID_END - 1, 32));
	CHECK(whole_bits(LSMEM_TYPE_COMMIT, 123456, 32));
	CHECK(whole_bits(LSMEM_TYPE_GROUP, 32, 32));
	CHECK(whole_bits(LSMEM_TYPE_GROUP, LSMEM_SEGMENT_BYTES - 1, 32));
	CHECK(whole_bits(LSMEM_TYPE_PAD, 0, 32));
	CHECK(whole_bits(LSMEM_TYPE_PAD, 100, 32 + 104));
	CHECK(whole_bits(9 | LSMEM_TYPE_SKIPPABLE, 10, 32 + 16));
	CHECK(lsmem_entry_start(LSMEM_SEGLET_BYTES - 32) == LSMEM_SEGLET_BYTES - 32);
	CHECK(lsmem_entry_start(LSMEM_SEGLET_BYTES - 24) == LSMEM_SEGLET_BYTES);
	return true;
}

/* Sound entries that are not here, and headers that are none. */
static bool test_refused(void)
{
	static struct whole w;
	struct format_walk walk, before = { .salt = ENTRY_SALT, .at = ENTRY_AT, .end = ENTRY_AT + 5000 };
	const uint32_t lengths[] = { 0, 2047, 1u << 20, (1u << 20) + 1, LSMEM_SEGMENT_BYTES - 1,
				     LSMEM_SEGMENT_BYTES, ~0u };
	uint32_t type, i;

	whole_make(&w, LSMEM_TYPE_OBJECT, 1000);
	walk = before;
	CHECK(format_walk_step(&walk, &w.entry) == FORMAT_OK);
	walk = before;
	walk.salt = lsmem_segment_salt(entry_uuid, 9, 2);
	CHECK(format_walk_step(&walk, &w.entry) == FORMAT_CRC);
	walk.salt = lsmem_segment_salt(entry_uuid, 10, 1);
	CHECK(format_walk_step(&walk, &w.entry) == FORMAT_CRC);
	/* Of another block, as in a copy of old bytes: each bit of its number counts. */
	for (i = 0; i < 11; i++) {
		walk = before;
		walk.at ^= LSMEM_BLOCK << i;
		walk.end = LSMEM_SEGMENT_BYTES;
		CHECK(format_walk_step(&walk, &w.entry) == FORMAT_FOREIGN);
	}
	whole_make(&w, 9, 1000);
	CHECK(whole_step(&w, 32 + 1000) == FORMAT_INCOMPATIBLE);
	/* Whatever a header claims, it is not followed beyond the end, nor taken for an entry. */
	for (type = 0; type < 1u << LSMEM_MORE_TYPE_BITS; type++) {
		for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			whole_make(&w, LSMEM_TYPE_PAD, 100);
			w.entry.more = __cpu_to_le64(type | (uint64_t)lengths[i] <<
						     LSMEM_MORE_VALUE_SHIFT);
			CHECK(whole_step(&w, 32 + 104) != FORMAT_OK);
		}
	}
	/* An object with a long header is not one that would have had a short one. */
	whole_make(&w, LSMEM_TYPE_PAD, 100);
	w.entry.more = __cpu_to_le64(LSMEM_TYPE_OBJECT | 2047u << LSMEM_MORE_VALUE_SHIFT);
	w.entry.crc = __cpu_to_le32(lsmem_entry_crc(&w.entry,
						    lsmem_crc32c(~0u, w.rest, 2047), ENTRY_SALT));
	CHECK(whole_step(&w, 32 + 2048) == FORMAT_CRC);
	return true;
}

/* The check of a segment, byte by byte: an entry that is not all there waits. */
static bool test_verify(void)
{
	const struct { uint32_t type; uint64_t value; } entries[] = {
		{ LSMEM_TYPE_OBJECT, 100 }, { LSMEM_TYPE_TOMBSTONE, 3 }, { LSMEM_TYPE_PAD, 64 },
		{ LSMEM_TYPE_OBJECT, 3000 }, { LSMEM_TYPE_COMMIT, 77 }, { LSMEM_TYPE_OBJECT, 1 },
		{ LSMEM_TYPE_GROUP, 64 }, { LSMEM_TYPE_TOMBSTONE, 4 }, { LSMEM_TYPE_OBJECT, 8 },
	};
	static uint8_t data[2 * LSMEM_BLOCK] __attribute__((aligned(8)));
	uint32_t salt = ENTRY_SALT, at = 0, crc = ~0u, ends[9], i, have, nr = 0;
	struct format_verify verify, again;

	for (i = 0; i < 9; i++) {
		struct lsmem_entry e = lsmem_entry_make(entries[i].type, entries[i].value,
							lsmem_handle_make(i, 1), i, 0, 0, at);
		uint8_t *payload = data + at + lsmem_entry_header(&e);

		memset(payload, i + 1, lsmem_entry_length(&e));
		e.crc = __cpu_to_le32(lsmem_entry_crc(&e, lsmem_entry_covers(&e) ?
						      lsmem_crc32c(~0u, payload,
								   lsmem_entry_length(&e)) : ~0u,
						      salt));
		memcpy(data + at, &e, lsmem_entry_header(&e));
		crc = lsmem_crc32c(crc, &e.crc, sizeof(e.crc));
		at += lsmem_entry_bytes(&e);
		ends[i] = at;
	}
	format_verify_begin(&verify, entry_uuid, 9, 1, at);
	for (have = 0; have <= at; have++) {
		CHECK(format_verify_data(&verify, data, have) == FORMAT_OK);
		nr += nr < 9 && have == ends[nr];
		CHECK(verify.walk.at == (nr ? ends[nr - 1] : 0));
		CHECK(format_verify_length(&verify) == (have < at ? FORMAT_RANGE : FORMAT_OK));
	}
	CHECK(verify.entries == 6 && verify.entries_crc == crc);
	for (i = 0; i < 8 * at; i++) {
		data[i / 8] ^= 1u << i % 8;
		format_verify_begin(&again, entry_uuid, 9, 1, at);
		if (format_verify_data(&again, data, at) == FORMAT_OK &&
		    format_verify_length(&again) == FORMAT_OK)
			/* The padding, and up to 7 bytes after a payload, have no meaning. */
			CHECK((i / 8 >= ends[1] + 32 && i / 8 < ends[2]) ||
			      (i / 8 >= 24 + 100 && i / 8 < ends[0]) ||
			      (i / 8 >= ends[5] - 7 && i / 8 < ends[5]));
		data[i / 8] ^= 1u << i % 8;
	}
	return true;
}

/* A digest log of two halves of 16 blocks; the tests write its records. */
struct log {
	struct lsmem_super super;
	struct digest_map map;
	uint8_t halves[32 * LSMEM_BLOCK] __attribute__((aligned(4096)));
};

static void log_put(struct log *log, uint32_t block, uint32_t kind, uint64_t term,
		    uint64_t sequence, uint32_t frame, uint32_t state, uint32_t length)
{
	struct lsmem_digest *digest = (void *)(log->halves + block * LSMEM_BLOCK);
	struct digest_map map = { .term = term, .sequence = sequence, .era = 1 };
	struct digest_item item = { .segment = frame + 100, .generation = 1, .length = length };

	memset(digest, 0, LSMEM_BLOCK);
	digest_head(digest, &map, &log->super, kind);
	if (state)
		digest_add(digest, frame, &item, state);
	format_digest_seal(digest);
}

static enum format_error log_read(struct log *log)
{
	digest_map_destroy(&log->map);
	digest_map_init(&log->map, 1, 40);
	return digest_read(&log->map, &log->super, log->halves);
}

static struct log *log_new(void)
{
	struct log *log = aligned_alloc(4096, (sizeof(*log) + 4095) & ~4095ul);

	memset(log, 0, sizeof(*log));
	make_super(&log->super);
	log->super.digest_bytes = __cpu_to_le64(16 * LSMEM_BLOCK);
	return log;
}

static bool check_digests(struct log *log)
{
	uint32_t bit;

	CHECK(log_read(log) == FORMAT_ZERO);
	log_put(log, 0, LSMEM_DIGEST_FULL, 1, 5, 0, LSMEM_ITEM_OPEN, 0);
	log_put(log, 1, LSMEM_DIGEST_DELTA, 1, 6, 1, LSMEM_ITEM_OPEN, 0);
	log_put(log, 2, LSMEM_DIGEST_DELTA, 1, 7, 0, LSMEM_ITEM_CLOSED, 800);
	CHECK(log_read(log) == FORMAT_OK && log->map.sequence == 7 && log->map.nr == 2 &&
	      log->map.half == 0 && log->map.at == 3 * LSMEM_BLOCK &&
	      log->map.items[0].length == 800 && log->map.sequence_seen == 7);
	/* Each bit of the last record: if it differs, the record does not count. */
	for (bit = 0; bit < 8 * (sizeof(struct lsmem_digest) + sizeof(struct lsmem_digest_item)); bit++) {
		log->halves[2 * LSMEM_BLOCK + bit / 8] ^= 1u << bit % 8;
		CHECK(log_read(log) == FORMAT_OK && log->map.sequence == 6);
		log->halves[2 * LSMEM_BLOCK + bit / 8] ^= 1u << bit % 8;
	}
	/* Old records behind the chain do not belong to it. */
	log_put(log, 3, LSMEM_DIGEST_DELTA, 1, 3, 2, LSMEM_ITEM_OPEN, 0);
	CHECK(log_read(log) == FORMAT_OK && log->map.sequence == 7 && log->map.nr == 2);
	/* Nor do records of another term. */
	log_put(log, 3, LSMEM_DIGEST_DELTA, 2, 8, 2, LSMEM_ITEM_OPEN, 0);
	CHECK(log_read(log) == FORMAT_OK && log->map.sequence == 7);
	CHECK(log->map.sequence_seen == 8);
	/* A newer and an older record in the other half. */
	log_put(log, 16, LSMEM_DIGEST_FULL, 1, 8, 4, LSMEM_ITEM_CLOSED, 80);
	CHECK(log_read(log) == FORMAT_OK && log->map.half == 1 && log->map.nr == 1 &&
	      log->map.items[4].segment == 104);
	log_put(log, 16, LSMEM_DIGEST_FULL, 1, 4, 4, LSMEM_ITEM_CLOSED, 80);
	CHECK(log_read(log) == FORMAT_OK && log->map.half == 0);
	log_put(log, 16, LSMEM_DIGEST_FULL, 2, 4, 4, LSMEM_ITEM_CLOSED, 80);
	CHECK(log_read(log) == FORMAT_OK && log->map.half == 1);
	/* A chain begins with a full record. */
	log_put(log, 16, LSMEM_DIGEST_DELTA, 3, 9, 4, LSMEM_ITEM_CLOSED, 80);
	CHECK(log_read(log) == FORMAT_OK && log->map.half == 0);
	return true;
}

static bool check_contradictions(struct log *log)
{
	struct lsmem_digest *digest;
	uint32_t i;

	/* A frame is used for another segment without having been freed (invariant 10). */
	log_put(log, 0, LSMEM_DIGEST_FULL, 1, 5, 0, LSMEM_ITEM_OPEN, 0);
	log_put(log, 1, LSMEM_DIGEST_DELTA, 1, 6, 0, LSMEM_ITEM_OPEN, 80);
	CHECK(log_read(log) == FORMAT_OK);
	format_digest_items((void *)(log->halves + LSMEM_BLOCK))->segment++;
	format_digest_seal((void *)(log->halves + LSMEM_BLOCK));
	CHECK(log_read(log) == FORMAT_RANGE);
	/* The durable length decreases. */
	log_put(log, 1, LSMEM_DIGEST_DELTA, 1, 6, 0, LSMEM_ITEM_OPEN, 80);
	log_put(log, 2, LSMEM_DIGEST_DELTA, 1, 7, 0, LSMEM_ITEM_OPEN, 72);
	CHECK(log_read(log) == FORMAT_RANGE);
	/* An unknown segment is removed; frames and states that do not exist. */
	log_put(log, 2, LSMEM_DIGEST_DELTA, 1, 7, 3, LSMEM_ITEM_REMOVED, 0);
	CHECK(log_read(log) == FORMAT_RANGE);
	log_put(log, 2, LSMEM_DIGEST_DELTA, 1, 7, 40, LSMEM_ITEM_OPEN, 0);
	CHECK(log_read(log) == FORMAT_RANGE);
	log_put(log, 2, LSMEM_DIGEST_DELTA, 1, 7, 3, 5, 0);
	CHECK(log_read(log) == FORMAT_RANGE);
	log_put(log, 2, LSMEM_DIGEST_DELTA, 1, 7, 3, LSMEM_ITEM_OPEN, 4);
	CHECK(log_read(log) == FORMAT_RANGE);
	log_put(log, 2, LSMEM_DIGEST_DELTA, 1, 7, 0, LSMEM_ITEM_REMOVED, 80);
	CHECK(log_read(log) == FORMAT_OK && log->map.nr == 0);
	/* More members than the store has backups; what this version does not support: stripes. */
	digest = (void *)(log->halves + 2 * LSMEM_BLOCK);
	log_put(log, 2, LSMEM_DIGEST_DELTA, 1, 7, 0, LSMEM_ITEM_OPEN, 80);
	CHECK(log_read(log) == FORMAT_OK);
	for (i = 1; i < LSMEM_BACKUPS; i++) {
		digest->members[i] = __cpu_to_le32(1);
		format_digest_seal(digest);
		CHECK(log_read(log) == FORMAT_RANGE);
		digest->members[i] = 0;
	}
	format_digest_items(digest)->stripe = __cpu_to_le32(1);
	format_digest_seal(digest);
	CHECK(log_read(log) == FORMAT_RANGE);
	format_digest_items(digest)->stripe = 0;
	format_digest_items(digest)->live = __cpu_to_le32(1);
	format_digest_seal(digest);
	CHECK(log_read(log) == FORMAT_RANGE);
	format_digest_items(digest)->live = 0;
	digest->next_segment = __cpu_to_le64(LSMEM_SEGMENT_ID_END + 1);
	format_digest_seal(digest);
	CHECK(log_read(log) == FORMAT_RANGE);
	digest->next_segment = 0;
	format_digest_seal(digest);
	CHECK(log_read(log) == FORMAT_OK);
	/* Records of another store do not count. */
	log->super.uuid[0]++;
	CHECK(log_read(log) == FORMAT_ZERO);
	return true;
}

static bool with_log(bool (*check)(struct log *log))
{
	struct log *log = log_new();
	bool ok = check(log);

	digest_map_destroy(&log->map);
	free(log);
	return ok;
}

static int ignore_write(void *context __attribute__((unused)),
			uint64_t offset __attribute__((unused)),
			const void *data __attribute__((unused)),
			uint32_t length __attribute__((unused)))
{
	return 0;
}

static int zero_read(void *context __attribute__((unused)),
		     uint64_t offset __attribute__((unused)), void *data, uint32_t length)
{
	memset(data, 0, length);
	return 0;
}

static int ignore_flush(void *context __attribute__((unused)),
			uint32_t slot __attribute__((unused)))
{
	return 0;
}

/* A backup of the smallest size for a number of frames has these; one byte less is too small. */
static bool test_sizes(void)
{
	uint64_t frames;

	for (frames = 1; frames < 300000; frames = frames * 3 / 2 + 1) {
		struct recover_geometry g = {
			.incarnation = 1, .kind = LSMEM_KIND_OBJECT, .store_bytes = 1,
			.max_handles = 1, .frames = frames,
		};
		struct recover_env env = {
			.backup_bytes = { recover_backup_bytes(frames) },
			.read = zero_read, .write = ignore_write, .flush = ignore_flush,
		};
		enum recover_state state;
		struct recover *r = recover_new(&env);

		CHECK(!recover_open(r, &state) && state == RECOVER_BLANK);
		CHECK(!recover_format(r, &g));
		CHECK(__le64_to_cpu(recover_super(r)->frames) == frames);
		recover_free(r);
		env.backup_bytes[0] -= LSMEM_BLOCK;
		r = recover_new(&env);
		CHECK(!recover_open(r, &state) && recover_format(r, &g) < 0);
		recover_free(r);
		/* The kernel leaves this much beside the segments of twice a store. */
		CHECK(recover_backup_bytes(frames) - frames * LSMEM_SEGMENT_BYTES <=
		      (2 + frames / 8192) * LSMEM_SEGMENT_BYTES);
	}
	return true;
}

/* Only the blocks that formatting writes before the superblock are taken for blank. */
static bool test_blank(void)
{
	uint8_t block[LSMEM_BLOCK] = { 0 };
	struct lsmem_digest *digest = (void *)block;
	bool ok = format_is_blank(block);

	block[LSMEM_BLOCK - 1] = 1;
	ok = ok && !format_is_blank(block);
	block[LSMEM_BLOCK - 1] = 0;
	digest->magic = __cpu_to_le64(LSMEM_DIGEST_MAGIC);
	digest->term = digest->sequence = __cpu_to_le64(1);
	ok = ok && format_is_blank(block);
	digest->items = __cpu_to_le32(1);
	ok = ok && !format_is_blank(block);
	digest->items = 0;
	digest->sequence = __cpu_to_le64(2);
	return ok && !format_is_blank(block);
}

int main(void)
{
	tap_ok(test_crc(), "CRC-32C equals its definition");
	tap_ok(test_super(), "superblock: every bit, every bound");
	tap_ok(test_super_code(), "superblock: the codes that it can name");
	tap_ok(test_many(), "superblock: what earlier versions see of a store of up to 16 backups");
	tap_ok(test_header(), "segment header: every bit, other segments, other stores");
	tap_ok(test_footer(), "footer: every bit, every bound");
	tap_ok(test_directory(), "directory: every bit, order, overlap, types");
	tap_ok(test_entries(), "entries: every bit of header and payload");
	tap_ok(test_refused(), "entries: other segments, other blocks, false lengths");
	tap_ok(test_verify(), "a segment that arrives byte by byte");
	tap_ok(with_log(check_digests), "digest log: chains, halves, terms, every bit");
	tap_ok(with_log(check_contradictions), "digest log: records that contradict each other");
	tap_ok(test_blank(), "a backup that has lost its superblocks is not blank");
	tap_ok(test_sizes(), "backups of the smallest size");
	return tap_end();
}
