// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks under power cuts, and pages of a range that is not atomic: FUA writes; plain writes and discards,
 * then fdatasync; readers beside them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "acked.h"

#define BLOCKS_BATCH	32u
#define READ_BLOCKS	64u	/* of a read of verify_blocks() */

static void die(const char *what)
{
	fprintf(stderr, "acked: %s: %s\n", what, strerror(errno));
	exit(1);
}

static bool is_zero(const uint8_t *block)
{
	static const uint8_t zero[BLOCK_BYTES];

	return !memcmp(block, zero, BLOCK_BYTES);
}

static void block_write(struct work *w, void *data, uint64_t slot, bool durable)
{
	struct iovec iov = { data, BLOCK_BYTES };

	if (pwritev2(w->fd, &iov, 1, slot * BLOCK_BYTES, durable ? RWF_DSYNC : 0) != BLOCK_BYTES)
		die("write of a block");
}

static void block_discard(struct work *w, uint64_t slot)
{
	uint64_t range[2] = { slot * BLOCK_BYTES, BLOCK_BYTES };

	if (w->oracle->kind == 'b' ? ioctl(w->fd, BLKDISCARD, range) :
	    fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, range[0], range[1]))
		die("discard");
}

/* Write or discard the blocks @at, @at + @stride ..: of the thread's own, round and round. */
static void blocks_batch(struct work *w, void *data, uint64_t at, uint32_t stride, bool durable)
{
	struct record records[BLOCKS_BATCH], synced;
	uint64_t mine = w->oracle->nr_slots / w->step;
	uint32_t i;

	for (i = 0; i < BLOCKS_BATCH; i++) {
		struct record *r = &records[i];
		bool discard = !durable && stride > 1 && random_next(&w->random) % 16 == 0;

		record_fill(r, w->oracle->kind, ISSUED, discard ? OP_FREE : OP_REPLACE, w->thread);
		r->slot = w->first + (at + i * stride) % mine * w->step;
		r->sequence = atomic_fetch_add(w->sequence, 1) + 1;
		r->length = discard ? 0 : BLOCK_BYTES;
		record_seal(r);
		oracle_take(w->oracle, r);
	}
	journal_write(records, BLOCKS_BATCH);
	for (i = 0; i < BLOCKS_BATCH; i++) {
		struct record *r = &records[i];

		if (r->op == OP_FREE) {
			block_discard(w, r->slot);
		} else {
			content_fill(data, BLOCK_BYTES, r->slot, r->sequence);
			block_write(w, data, r->slot, durable);
		}
		r->what = durable ? DURABLE : DONE;
		record_seal(r);
		oracle_take(w->oracle, r);
	}
	journal_write(records, BLOCKS_BATCH);
	if (stride > 1)
		atomic_fetch_add(&figures.changes, BLOCKS_BATCH);
	if (durable)
		return;
	if (fdatasync(w->fd))
		die("fdatasync");
	record_fill(&synced, w->oracle->kind, SYNCED, OP_NONE, w->thread);
	synced.sequence = atomic_load(w->sequence);
	record_seal(&synced);
	journal_write(&synced, 1);
	oracle_take(w->oracle, &synced);
}

void *load_blocks(void *arg)
{
	struct work *w = arg;
	uint64_t at;
	void *data;

	if (posix_memalign(&data, BLOCK_BYTES, BLOCK_BYTES))
		die("memory");
	for (at = 0; w->fill && at < w->oracle->nr_slots / w->step; at += BLOCKS_BATCH)
		blocks_batch(w, data, at, 1, false);
	atomic_fetch_add(w->ready, 1);
	for (;;) {
		at = random_next(&w->random);
		blocks_batch(w, data, at, 61, random_next(&w->random) % 2);
	}
	return NULL;
}

/* Read blocks, half of the time of an eighth of the disk: each must be one whole version. */
void *load_block_readers(void *arg)
{
	struct work *w = arg;
	uint64_t slot, sequence;
	uint8_t *block;

	if (posix_memalign((void **)&block, BLOCK_BYTES, BLOCK_BYTES))
		die("memory");
	for (;;) {
		slot = random_next(&w->random) % w->oracle->nr_slots;
		if (random_next(&w->random) % 2)
			slot /= 8;
		if (pread(w->fd, block, BLOCK_BYTES, slot * BLOCK_BYTES) != BLOCK_BYTES)
			die("read of blocks");
		if (!is_zero(block) && !content_right(block, BLOCK_BYTES, slot, &sequence)) {
			fprintf(stderr, "acked: block %llu was never written like this\n",
				(unsigned long long)slot);
			exit(1);
		}
		atomic_fetch_add(&figures.reads, 1);
	}
	return NULL;
}

int verify_blocks(int fd, struct oracle *o, struct verdict *v)
{
	uint64_t i, nr, n;
	uint8_t *data;

	if (posix_memalign((void **)&data, BLOCK_BYTES, READ_BLOCKS * BLOCK_BYTES))
		die("memory");
	for (i = 0; i < o->nr_slots; i += nr) {
		nr = o->nr_slots - i < READ_BLOCKS ? o->nr_slots - i : READ_BLOCKS;
		if (pread(fd, data, nr * BLOCK_BYTES, i * BLOCK_BYTES) !=
		    (ssize_t)(nr * BLOCK_BYTES))
			die("read of blocks");
		for (n = 0; n < nr; n++) {
			const uint8_t *block = data + n * BLOCK_BYTES;
			struct state found = { .op = OP_FREE };
			bool corrupt = false;

			if (!is_zero(block)) {
				found = (struct state){ .op = OP_REPLACE, .length = BLOCK_BYTES };
				corrupt = !content_right(block, BLOCK_BYTES, i + n, &found.sequence);
			}
			verify_slot(o, i + n, &found, corrupt, v);
		}
		atomic_fetch_add(&figures.checked, nr);
	}
	v->all_read = seconds_now();
	free(data);
	return 0;
}
