// SPDX-License-Identifier: GPL-2.0
/*
 * make-seeds DIRECTORY: writes the seeds of the fuzzers: unchanged parts of the backups of bases.c,
 * and one edit of each kind.
 */
#include <endian.h>
#include <errno.h>
#include <error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "remote/ahead.h"
#include "remote/wire.h"
#include "edits.h"

static const char *top;

static FILE *seed(const char *target, const char *name, uint32_t n)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", top, target);
	if (mkdir(path, 0777) && errno != EEXIST)
		error(1, errno, "%s", path);
	snprintf(path, sizeof(path), "%s/%s/%s-%u", top, target, name, n);
	file = fopen(path, "w");
	if (!file)
		error(1, errno, "%s", path);
	return file;
}

static void put(FILE *file, const void *data, size_t length)
{
	if (fwrite(data, 1, length, file) != length)
		error(1, errno, "write");
}

static void put_range(FILE *file, const struct base *base, uint64_t offset, uint32_t length)
{
	uint8_t *data = malloc(length);

	image_read(base->image, offset, data, length);
	put(file, data, length);
	free(data);
}

/* See fuzz_super.c. */
static void super_seed(const struct base *base, uint32_t n)
{
	FILE *file = seed("super", "base", n);

	put(file, (uint8_t []){ n % 4, 12, 0 }, 3);
	put_range(file, base, 0, 176);
	put_range(file, base, LSMEM_BLOCK, 176);
	fclose(file);
}

/* See fuzz_digest.c, which has another uuid: the seed sets the flag that seals all records. */
static void digest_seed(const struct base *base, uint32_t n)
{
	uint64_t half = __le64_to_cpu(base->super.digest_bytes), at;
	FILE *file = seed("digest", "base", n);

	put(file, (uint8_t []){ 1, half / LSMEM_BLOCK - 1 }, 2);
	for (at = 0; at < 2 * half; at += LSMEM_BLOCK) {
		uint8_t block[LSMEM_BLOCK];
		struct lsmem_digest *digest = (void *)block;
		uint32_t length;

		image_read(base->image, format_half_offset(&base->super, 0) + at, block,
			   sizeof(block));
		length = sizeof(*digest) + __le32_to_cpu(digest->items) *
			 sizeof(struct lsmem_digest_item);
		if (__le64_to_cpu(digest->magic) != LSMEM_DIGEST_MAGIC || length > 255 * 4)
			continue;
		memset(digest->uuid, 0x5a, sizeof(digest->uuid));
		put(file, (uint8_t []){ at / LSMEM_BLOCK, length / 4 }, 2);
		put(file, block, length);
	}
	fclose(file);
}

/* Digests of a coded store: stripes, segments in their lanes, a shard that gets another frame. */
static void coded_seed(void)
{
	static uint8_t block[LSMEM_BLOCK] __attribute__((aligned(8)));
	struct lsmem_digest *digest = (void *)block;
	struct lsmem_super super = { .features.incompat = __cpu_to_le32(LSMEM_INCOMPAT_BACKUPS) };
	struct digest_map map = { .term = 1, .era = 1, .members = { 1, 2, 3, 4 }, .mask = 15, .floor = 3 };
	const struct digest_item item = { .segment = 5, .generation = 1, .length = 80 };
	FILE *file = seed("digest", "coded", 0);
	uint32_t n, shard, length;

	memset(super.uuid, 0x5a, sizeof(super.uuid));
	put(file, (uint8_t []){ 3, 7 }, 2);
	for (n = 0; n < 3; n++) {
		map.sequence = n + 1;
		memset(block, 0, sizeof(block));
		digest_head(digest, &map, &super, n ? LSMEM_DIGEST_DELTA : LSMEM_DIGEST_FULL);
		for (shard = 0; shard < 3 && n < 2; shard++)
			digest_add_shard(digest, shard << LSMEM_ITEM_FRAME_BITS | n, n, lsmem_code_make(2, 1, shard),
					 LSMEM_ITEM_STRIPE);
		if (n == 2) {
			digest_add_shard(digest, 0, 0, lsmem_code_make(2, 1, 0), LSMEM_ITEM_REMOVED);
			digest_add_shard(digest, 3 << LSMEM_ITEM_FRAME_BITS, 0, lsmem_code_make(2, 1, 0), LSMEM_ITEM_STRIPE);
		}
		digest_add_lane(digest, 1, &item, n ? LSMEM_ITEM_CLOSED : LSMEM_ITEM_OPEN);
		length = sizeof(*digest) + __le32_to_cpu(digest->items) * sizeof(struct lsmem_digest_item);
		put(file, (uint8_t []){ n, length / 4 }, 2);
		put(file, block, length);
	}
	fclose(file);
}

/* See fuzz_segment.c, which has another segment id: the seed sets the flags that seal all. */
static void segment_seeds(const struct base *base, uint32_t n)
{
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint32_t i, nr = 0;

	memset(uuid, 0x5a, sizeof(uuid));
	for (i = base->first[PART_LISTED]; i < base->first[PART_LISTED + 1] && nr < 2; i++) {
		uint64_t frame = base->parts[i].offset;
		struct lsmem_segment_header header;
		struct lsmem_segment_footer footer;
		uint32_t entries, length, head[3];
		FILE *file;

		image_read(base->image, frame, &header, sizeof(header));
		image_read(base->image, frame + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK, &footer,
			   sizeof(footer));
		length = __le32_to_cpu(footer.length);
		entries = __le32_to_cpu(footer.entries) * sizeof(struct lsmem_directory_entry);
		if (!length || length > 8192)
			continue;
		memcpy(header.uuid, uuid, sizeof(uuid));
		memcpy(footer.uuid, uuid, sizeof(uuid));
		header.incarnation = __cpu_to_le64(1);
		header.segment = footer.segment = __cpu_to_le64(7);
		header.generation = footer.generation = __cpu_to_le32(1);
		header.digest_sequence = __cpu_to_le64(1);
		head[0] = 0x1f | (nr & 1) << 8;		/* all sealed; closed or open */
		head[1] = length;
		head[2] = length;
		file = seed("segment", "base", 2 * n + nr++);
		put(file, head, sizeof(head));
		put(file, &header, 124);
		put(file, &footer, 64);
		put_range(file, base, frame + LSMEM_BLOCK, length);
		put_range(file, base, frame + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK -
			  lsmem_directory_bytes(__le32_to_cpu(footer.entries)), entries);
		fclose(file);
		file = seed("entries", "log", 2 * n + nr);
		put(file, (uint8_t []){ 1 }, 1);
		put_range(file, base, frame + LSMEM_BLOCK, length);
		fclose(file);
		file = seed("entries", "directory", 2 * n + nr);
		put(file, (uint8_t []){ 4 }, 1);
		put_range(file, base, frame + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK -
			  lsmem_directory_bytes(__le32_to_cpu(footer.entries)), entries);
		fclose(file);
	}
}

static void edit_seeds(const char *target, uint32_t n)
{
	struct edit edit = { 0 };
	FILE *file = seed(target, "base", n);
	uint8_t base = n;

	put(file, &base, 1);
	fclose(file);
	for (edit.op = 0; edit.op < EDIT_OPS; edit.op++) {
		file = seed(target, "edit", n * EDIT_OPS + edit.op);
		edit.kind = (n * 7 + edit.op) % PART_KINDS;
		edit.seal = n & 3;
		edit.which = 3 * n;
		edit.at = 8 * n;
		edit.value = 1 + edit.op;
		put(file, &base, 1);
		put(file, &edit, sizeof(edit));
		fclose(file);
	}
}

/* See fuzz_wire.c: the messages of a correct handshake and a few requests. */
static void wire_seeds(void)
{
	union wire_message message;
	struct { uint8_t flags, type; } steps[] = {
		{ 2, WIRE_HELLO }, { 3, WIRE_CHALLENGE }, { 6, WIRE_PROOF }, { 7, WIRE_ACCEPT },
		{ 2, WIRE_WRITE }, { 74, WIRE_FLUSH }, { 10, WIRE_READ }, { 19, WIRE_DONE },
		{ 51, WIRE_RECEIVED }, { 3, WIRE_DONE }, { 3, WIRE_REFUSE },
	}, reader[] = {
		{ 2, WIRE_HELLO }, { 3, WIRE_CHALLENGE }, { 6, WIRE_PROOF }, { 7, WIRE_ACCEPT },
		{ 2, WIRE_READ }, { 10, WIRE_HOLD }, { 51, WIRE_GRANTED }, { 2, WIRE_WRITE }, { 51, WIRE_RECEIVED },
	};
	uint32_t n, i;

	for (n = 0; n < 3; n++) {
		FILE *file = seed("wire", "talk", n);

		if (n == 2)
			memcpy(steps, reader, sizeof(reader));
		for (i = n % 2; i < (n < 2 ? sizeof(steps) : sizeof(reader)) / sizeof(steps[0]); i++) {
			uint32_t length = wire_length(steps[i].type) - sizeof(message.head);

			memset(&message, 0, sizeof(message));
			if (steps[i].type == WIRE_HELLO) {
				strcpy(message.hello.name, "data");
				strcpy(message.hello.who, "db1");
				message.hello.flags = htole32(n < 2 ? WIRE_RECEIPTS : WIRE_READ_ONLY);
				message.hello.lowest = htole16(WIRE_VERSION_MIN);
				message.hello.features = htole64(WIRE_FEATURES);
			} else if (steps[i].type == WIRE_CHALLENGE) {
				message.challenge.lowest = htole16(WIRE_VERSION_MIN);
				message.challenge.highest = htole16(WIRE_VERSION_MAX);
				message.challenge.features = htole64(WIRE_FEATURES);
			} else if (steps[i].type == WIRE_ACCEPT) {
				message.accept.slots = htole32(4);
				message.accept.slot_bytes = htole32(LSMEM_SEGLET_BYTES);
			} else if (steps[i].type == WIRE_WRITE || steps[i].type == WIRE_READ) {
				message.request.length = htole32(LSMEM_BLOCK);
			}
			put(file, (uint8_t []){ steps[i].flags, steps[i].type, length }, 3);
			put(file, message.bytes + sizeof(message.head), length);
		}
		fclose(file);
	}
}

/* See fuzz_ahead.c: a block of each kind, with the numbers of its store. */
static void ahead_seeds(void)
{
	static union {
		struct ahead_head head;
		uint8_t bytes[AHEAD_BYTES];
	} block;
	struct ahead_stream stream = { .uuid = "fuzz", .term = 1, .sequence = 1 };
	FILE *file = seed("ahead", "blocks", 0);
	uint32_t i, home;
	size_t length;

	for (i = 0; i < 4; i++) {
		if (!i) {
			ahead_begin_segment(&block.head, 7, 1, LSMEM_BLOCK);
			for (home = 0; home < 256; home += 128) {
				struct lsmem_directory_entry entry = {
					__cpu_to_le64(lsmem_handle_make(9, 1)), __cpu_to_le64(5 + home),
					__cpu_to_le64(home ? lsmem_listing_make(0, LSMEM_TYPE_TOMBSTONE, home, 0, 0) :
						      lsmem_listing_make(100, LSMEM_TYPE_OBJECT, home, 0, 0)),
				};

				ahead_add_listing(&block.head, &entry, home ? 3 : 1);
			}
		} else {
			ahead_begin(&block.head, i == 1 ? AHEAD_GONE : i == 2 ? AHEAD_MARK : AHEAD_COME);
			if (i == 1)
				ahead_add_gone(&block.head, 3);
		}
		length = ahead_seal(&stream, &block.head);
		put(file, (uint8_t []){ 15, length / 8 }, 2);
		put(file, block.bytes, length);
	}
	fclose(file);
}

/* See fuzz_move.c: a move, and keys again after the connection was lost. */
static void move_seeds(void)
{
	static const uint8_t whole[][3] = {
		{ 1, 0 }, { 1, 14 }, { 1, 11 }, { 1, 2 }, { 1, 14 }, { 1, 3 }, { 1, 14 }, { 1, 6 }, { 1, 14 },
		{ 1, 4 }, { 1, 7 }, { 1, 14 }, { 1, 4 }, { 1, 14 },
	}, again[][3] = {
		{ 1, 0 }, { 9, 0 }, { 1, 14 }, { 1, 2 }, { 1, 14 }, { 1, 3 }, { 1, 14 }, { 1, 9 }, { 1, 1 },
		{ 1, 14 }, { 1, 4 }, { 1, 14 }, { 2, WIRE_CLOSE }, { 1, 4 }, { 1, 14 },
	}, says[][3] = {
		{ 1, 0 }, { 0, 1 }, { 4, 1 }, { 0, 1 }, { 4, 2 }, { 6, WIRE_BLOCK }, { 1, 14 }, { 2, WIRE_MOVE },
		{ 6, WIRE_READY }, { 18, WIRE_TAKEN },
	}, gives_up[][3] = {
		{ 1, 0 }, { 1, 14 }, { 1, 2 }, { 1, 14 }, { 1, 28 }, { 0, 255 }, { 1, 14 }, { 1, 10 },
		{ 9, 0 }, { 9, 14 }, { 10, WIRE_GIVE_UP }, { 9, 14 },
	};
	FILE *file = seed("move", "whole", 0);

	put(file, whole, sizeof(whole));
	fclose(file);
	file = seed("move", "again", 0);
	put(file, again, sizeof(again));
	fclose(file);
	file = seed("move", "says", 0);
	put(file, says, sizeof(says));
	fclose(file);
	file = seed("move", "gives-up", 0);
	put(file, gives_up, sizeof(gives_up));
	fclose(file);
}

/* See fuzz_stripe.c: open and closed segments, with an edit of each kind of block. */
static void stripe_seeds(void)
{
	static const uint8_t blocks[] = { 0, 1, 2, 5, 6, 7, 8, 9 };
	uint32_t n, i;

	for (n = 0; n < 4; n++) {
		FILE *file = seed("stripe", "edits", n);

		put(file, (uint8_t []){ n, n & 1 ? 1 : 0, 0 }, 3);
		for (i = 0; i < sizeof(blocks); i++)
			put(file, (uint8_t []){ 0x70 | i, blocks[i], 4 * (n + 1), 4, 1, 0, 0, 0 }, 8);
		fclose(file);
	}
}

/* See fuzz_cached.c: commands, each with all that follow it, to a server without users and to one with. */
static void cached_seeds(void)
{
	static const char *const commands[] = {
		"set a 1 0 3\r\nabc\r\nget a b\r\ngets a\r\n", "add a 0 0 1 noreply\r\nx\r\nreplace a 0 0 1\r\ny\r\n",
		"append a 0 0 1\r\nz\r\nprepend a 0 0 1\r\nw\r\n", "cas a 0 0 1 104\r\nv\r\n", "delete a\r\n",
		"set n 0 0 2\r\n10\r\nincr n 5\r\ndecr n 9\r\n", "touch n 100\r\ngat 0 n a\r\ngats 9 n\r\n",
		"ms m 2 c k O1 F5 T30\r\nhi\r\nmg m s v t f c h l k q\r\nmn\r\n", "mg w N30 t v c\r\nmg w R60 T90\r\n",
		"md m I T30\r\nmg m v\r\nms m 1 I C1 ME\r\nx\r\n", "ma n N0 J5 D3 MD v c t\r\n",
		"ms YWI= 1 b MA\r\n1\r\nmg YWI= b k v\r\nme YWI= b\r\n", "flush_all 5\r\nverbosity 1\r\nversion\r\n",
		"set big 0 0 9000\r\n", "stats\r\nstats settings\r\nstats cachedump 1 9\r\nquit\r\n",
		"set d 0 9 1\r\nx\r\nms YWIg 1 b\r\n1\r\nlru_crawler metadump all\r\nlru_crawler mgdump 1,2\r\nget d\r\n",
		"lru_crawler tocrawl 5\r\nlru_crawler sleep 9\r\nlru_crawler crawl 1\r\nlru_crawler disable\r\n",
		"cache_memlimit 64\r\nslabs automove 0\r\nslabs reassign 1 2\r\nlru mode flat\r\n",
		"version\r\nstats conns\r\nget a\r\nset a 0 0 1\r\n",
		"stats detail on\r\nset p:a 0 0 1\r\nx\r\nget p:a q:a\r\nmg cDpx b v T9\r\nmd p:a\r\nstats detail dump\r\n",
	};
	static const char *const passwords[] = {
		"set x 0 0 3\r\nu p\r\n", "get x\r\nset x 0 0 15\r\nname a password\r\n", "set x 0 0 3\r\nu q\r\n",
	};
	uint32_t n, i;

	for (n = 0; n < sizeof(commands) / sizeof(*commands); n++) {
		FILE *file = seed("cached", "text", n);

		put(file, "\7", 1);
		for (i = n; i < sizeof(commands) / sizeof(*commands); i++)
			put(file, commands[i], strlen(commands[i]));
		fclose(file);
	}
	for (n = 0; n < sizeof(passwords) / sizeof(*passwords); n++) {
		FILE *file = seed("cached", "users", n);

		put(file, "\347", 1);
		put(file, passwords[n], strlen(passwords[n]));
		put(file, commands[n], strlen(commands[n]));
		fclose(file);
	}
}

int main(int argc, char **argv)
{
	uint32_t n;

	if (argc != 2) {
		fprintf(stderr, "usage: make-seeds DIRECTORY\n");
		return 2;
	}
	top = argv[1];
	if (mkdir(top, 0777) && errno != EEXIST)
		error(1, errno, "%s", top);
	for (n = 0; n < BASES; n++) {
		const struct base *base = base_get(n);

		printf("base %u: %u parts, %u listed segments, %u digests in the chain\n", n,
		       base->nr_parts, base->first[PART_LISTED + 1] - base->first[PART_LISTED],
		       base->first[PART_DIGEST + 1] - base->first[PART_DIGEST]);
		super_seed(base, n);
		digest_seed(base, n);
		segment_seeds(base, n);
		edit_seeds("backup", n);
		edit_seeds("check", n);
	}
	wire_seeds();
	ahead_seeds();
	move_seeds();
	stripe_seeds();
	coded_seed();
	cached_seeds();
	return 0;
}
