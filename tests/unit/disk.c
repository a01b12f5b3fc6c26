// SPDX-License-Identifier: GPL-2.0
/* A simulated disk with a volatile cache: see disk.h. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "disk.h"

#define BLOCK		4096u
#define CHUNK		(64u << 10)
#define REQUESTS	1024u	/* CORE_IOS for each of LSMEM_BACKUPS */
#define VECTORS		20u

/**
 * struct version - the contents that a write gave to a block
 * @serial: of the write, once @complete of its completion
 */
struct version {
	struct version *next;
	uint64_t serial;
	bool complete;
	uint8_t data[BLOCK];
};

/**
 * struct block - a block that was written at least once
 * @durable: its durable version; NULL: zero
 * @first, @last: versions that are not durable, oldest first
 */
struct block {
	uint64_t number;
	struct version *durable;
	struct version *first, *last;
	struct block *next;		/* in its hash chain */
	struct block *dirty;		/* next block with versions */
	bool is_dirty;
};

struct request {
	bool used, flush, applied, durable;
	uint64_t serial;		/* of the request: a flush covers lower serials */
	uint32_t drive;			/* of a flush */
	uint64_t offset;
	struct iovec iov[VECTORS];
	uint32_t nr_iov;
};

struct disk {
	uint64_t *random;
	uint64_t blocks;		/* number of blocks of a drive */
	uint32_t drives;
	struct block **hash;
	uint32_t mask;
	uint8_t *chunks;		/* by chunk: does it have any block? */
	struct block *dirty;
	struct version *spare;
	struct request requests[REQUESTS];
	uint32_t order[REQUESTS];	/* in flight, by age */
	uint32_t in_flight;
	uint64_t serial;
};

struct disk *disk_new(uint64_t bytes, uint32_t drives, uint64_t *random)
{
	struct disk *disk = calloc(1, sizeof(*disk));

	disk->random = random;
	disk->blocks = bytes / BLOCK;
	disk->drives = drives;
	disk->mask = 4095;
	disk->hash = calloc(disk->mask + 1, sizeof(*disk->hash));
	disk->chunks = calloc(bytes * drives / CHUNK + 1, 1);
	return disk;
}

static struct version *version_get(struct disk *disk)
{
	struct version *version = disk->spare;

	if (version)
		disk->spare = version->next;
	else
		version = malloc(sizeof(*version));
	version->next = NULL;
	version->complete = false;
	return version;
}

static void version_put(struct disk *disk, struct version *version)
{
	version->next = disk->spare;
	disk->spare = version;
}

void disk_free(struct disk *disk)
{
	struct version *version;
	struct block *block;
	uint32_t i;

	if (!disk)
		return;
	for (i = 0; i <= disk->mask; i++) {
		while ((block = disk->hash[i])) {
			disk->hash[i] = block->next;
			while ((version = block->first)) {
				block->first = version->next;
				free(version);
			}
			free(block->durable);
			free(block);
		}
	}
	while ((version = disk->spare)) {
		disk->spare = version->next;
		free(version);
	}
	free(disk->hash);
	free(disk->chunks);
	free(disk);
}

static struct block *block_find(const struct disk *disk, uint64_t number)
{
	struct block *block = disk->hash[(number * 0x9e3779b97f4a7c15ull >> 40) & disk->mask];

	while (block && block->number != number)
		block = block->next;
	return block;
}

static struct block *block_get(struct disk *disk, uint64_t number)
{
	struct block **bucket = &disk->hash[(number * 0x9e3779b97f4a7c15ull >> 40) & disk->mask];
	struct block *block = block_find(disk, number);

	if (number >= disk->blocks * disk->drives)
		abort();
	if (block)
		return block;
	block = calloc(1, sizeof(*block));
	block->number = number;
	block->next = *bucket;
	*bucket = block;
	disk->chunks[number / (CHUNK / BLOCK)] = 1;
	return block;
}

static void block_push(struct disk *disk, struct block *block, struct version *version)
{
	if (block->last)
		block->last->next = version;
	else
		block->first = version;
	block->last = version;
	if (!block->is_dirty) {
		block->is_dirty = true;
		block->dirty = disk->dirty;
		disk->dirty = block;
	}
}

/* Make a version durable and free the versions before it. */
static void block_settle(struct disk *disk, struct block *block, struct version *to)
{
	for (;;) {
		struct version *version = block->first;

		block->first = version->next;
		if (!block->first)
			block->last = NULL;
		if (version == to)
			break;
		version_put(disk, version);
	}
	if (block->durable)
		version_put(disk, block->durable);
	block->durable = to;
	to->next = NULL;
}

static void block_forget(struct disk *disk, struct block *block)
{
	while (block->first) {
		struct version *version = block->first;

		block->first = version->next;
		version_put(disk, version);
	}
	block->last = NULL;
}

static uint32_t request_get(struct disk *disk)
{
	uint32_t i;

	for (i = 0; i < REQUESTS && disk->requests[i].used; i++)
		;
	if (i == REQUESTS)
		abort();
	memset(&disk->requests[i], 0, offsetof(struct request, iov));
	disk->requests[i].used = true;
	disk->order[disk->in_flight++] = i;
	return i;
}

static void request_put(struct disk *disk, uint32_t request)
{
	uint32_t i;

	disk->requests[request].used = false;
	for (i = 0; disk->order[i] != request; i++)
		;
	disk->in_flight--;
	memmove(&disk->order[i], &disk->order[i + 1],
		(disk->in_flight - i) * sizeof(*disk->order));
}

uint32_t disk_write(struct disk *disk, uint64_t offset, const struct iovec *iov, uint32_t nr_iov)
{
	uint32_t i = request_get(disk), n;

	if (nr_iov > VECTORS || offset % BLOCK)
		abort();
	/* As drives that are opened with O_DIRECT. */
	for (n = 0; n < nr_iov; n++)
		if ((uintptr_t)iov[n].iov_base % BLOCK || iov[n].iov_len % BLOCK)
			abort();
	disk->requests[i].serial = ++disk->serial;
	disk->requests[i].offset = offset;
	disk->requests[i].nr_iov = nr_iov;
	memcpy(disk->requests[i].iov, iov, nr_iov * sizeof(*iov));
	return i;
}

void disk_durable(struct disk *disk, uint32_t request)
{
	disk->requests[request].durable = true;
}

uint32_t disk_flush(struct disk *disk, uint32_t drive)
{
	uint32_t i = request_get(disk);

	/* The flush covers versions with a lower serial: those of completed writes. */
	disk->requests[i].flush = true;
	disk->requests[i].drive = drive;
	disk->requests[i].serial = ++disk->serial;
	return i;
}

uint32_t disk_in_flight(const struct disk *disk)
{
	return disk->in_flight;
}

uint32_t disk_nth(const struct disk *disk, uint32_t n)
{
	return disk->order[n];
}

static void apply_blocks(struct disk *disk, const struct request *r, uint32_t percent)
{
	uint64_t number = r->offset / BLOCK;
	uint32_t i;
	size_t at;

	for (i = 0; i < r->nr_iov; i++) {
		for (at = 0; at < r->iov[i].iov_len; at += BLOCK, number++) {
			struct version *version;

			if (percent < 100 && !random_chance(disk->random, percent))
				continue;
			version = version_get(disk);
			version->serial = r->serial;
			memcpy(version->data, (uint8_t *)r->iov[i].iov_base + at, BLOCK);
			block_push(disk, block_get(disk, number), version);
		}
	}
}

void disk_apply(struct disk *disk, uint32_t request)
{
	struct request *r = &disk->requests[request];

	if (r->flush || r->applied)
		return;
	r->applied = true;
	apply_blocks(disk, r, 100);
}

/* Complete the versions of all blocks of a write. */
static void complete_write(struct disk *disk, struct request *r)
{
	uint64_t number = r->offset / BLOCK;
	struct version *version;
	uint32_t i;
	size_t at;

	/*
	 * Versions of the write that are not durable yet become so with the next flush: they get
	 * the serial of now.
	 */
	disk->serial++;
	for (i = 0; i < r->nr_iov; i++) {
		for (at = 0; at < r->iov[i].iov_len; at += BLOCK, number++) {
			struct block *block = block_find(disk, number);
			struct version *last = NULL;

			for (version = block->first; version; version = version->next) {
				if (version->serial != r->serial || version->complete)
					continue;
				version->complete = true;
				version->serial = disk->serial;
				last = version;
			}
			if (last && r->durable)
				block_settle(disk, block, last);
		}
	}
}

static void flush_blocks(struct disk *disk, const struct request *r, bool fail)
{
	struct block **link = &disk->dirty, *block;

	while ((block = *link)) {
		struct version *version, *last = NULL;

		for (version = block->number / disk->blocks == r->drive ? block->first : NULL;
		     version; version = version->next)
			if (version->complete && version->serial < r->serial)
				last = version;
		if (last && fail && random_chance(disk->random, 50))
			block_forget(disk, block);
		else if (last)
			block_settle(disk, block, last);
		if (block->first) {
			link = &block->dirty;
			continue;
		}
		*link = block->dirty;
		block->is_dirty = false;
	}
}

void disk_complete(struct disk *disk, uint32_t request)
{
	struct request *r = &disk->requests[request];

	if (r->flush) {
		flush_blocks(disk, r, false);
	} else {
		disk_apply(disk, request);
		complete_write(disk, r);
	}
	request_put(disk, request);
}

void disk_drop(struct disk *disk, uint32_t request)
{
	request_put(disk, request);
}

void disk_fail_flush(struct disk *disk, uint32_t request)
{
	flush_blocks(disk, &disk->requests[request], true);
	request_put(disk, request);
}

void disk_read(struct disk *disk, uint64_t offset, void *data, uint32_t length)
{
	uint32_t at;

	for (at = 0; at < length; at += BLOCK) {
		const struct block *block = block_find(disk, (offset + at) / BLOCK);
		const struct version *version = block ? block->last : NULL;

		if (block && !version)
			version = block->durable;
		if (version)
			memcpy((uint8_t *)data + at, version->data, BLOCK);
		else
			memset((uint8_t *)data + at, 0, BLOCK);
	}
}

bool disk_hole(const struct disk *disk, uint64_t offset, uint32_t length)
{
	uint64_t chunk;

	for (chunk = offset / CHUNK; chunk <= (offset + length - 1) / CHUNK; chunk++)
		if (disk->chunks[chunk])
			return false;
	return true;
}

void disk_cut(struct disk *disk, enum disk_cut kind)
{
	struct block *block;

	while (disk->in_flight) {
		struct request *r = &disk->requests[disk->order[0]];

		if (!r->flush && !r->applied && kind != DISK_CUT_DROP)
			apply_blocks(disk, r, kind == DISK_CUT_KEEP ? 100 : 50);
		request_put(disk, disk->order[0]);
	}
	while ((block = disk->dirty)) {
		struct version *version;
		uint32_t nr = 0, pick;

		disk->dirty = block->dirty;
		block->is_dirty = false;
		for (version = block->first; version; version = version->next)
			nr++;
		switch (kind) {
		case DISK_CUT_DROP:
			pick = 0;
			break;
		case DISK_CUT_KEEP:
			pick = nr;
			break;
		case DISK_CUT_LATE:
			pick = nr &&
			       random_below(disk->random, disk->serial) < block->last->serial * 2 / 3 ?
			       nr : random_below(disk->random, nr + 1);
			break;
		default:
			pick = random_below(disk->random, nr + 1);
		}
		if (pick) {
			for (version = block->first; --pick; version = version->next)
				;
			block_settle(disk, block, version);
		}
		block_forget(disk, block);
	}
}

void disk_land(struct disk *disk)
{
	while (disk->in_flight) {
		uint32_t request = disk->order[random_below(disk->random, disk->in_flight)];

		if (disk->requests[request].flush)
			request_put(disk, request);
		else
			disk_complete(disk, request);
	}
}

void disk_settle(struct disk *disk)
{
	disk_land(disk);
	disk_cut(disk, DISK_CUT_KEEP);
}

static uint8_t *durable_data(struct disk *disk, uint64_t offset)
{
	struct block *block = block_get(disk, offset / BLOCK);

	if (!block->durable) {
		block->durable = version_get(disk);
		memset(block->durable->data, 0, BLOCK);
	}
	return block->durable->data;
}

void disk_zero(struct disk *disk, uint64_t offset)
{
	memset(durable_data(disk, offset), 0, BLOCK);
}

void disk_flip(struct disk *disk, uint64_t offset, uint32_t bit)
{
	durable_data(disk, offset)[bit / 8] ^= 1u << bit % 8;
}
