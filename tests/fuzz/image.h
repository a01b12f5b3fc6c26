/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A sparse backup in memory that recovery reads; common to the fuzzers.
 *
 * Each call checks recovery's side of the contract in daemon/recover/recover.h: for any bytes,
 * recovery must not access an offset outside the backup, and must not load entries that the kernel
 * refuses.
 */
#ifndef FUZZ_IMAGE_H
#define FUZZ_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recover/recover.h"

/* Print an error and abort, so that libFuzzer keeps the input. */
#define fuzz_fail(...) fuzz_fail_at(__FILE__, __LINE__, __VA_ARGS__)
void fuzz_fail_at(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));

/* Called by the sanitizer and, with --wrap, by the linker: see image.c. */
const char *__asan_default_options(void);
uint32_t __real_lsmem_crc32c(uint32_t seed, const void *data, size_t length);
uint32_t __wrap_lsmem_crc32c(uint32_t seed, const void *data, size_t length);

/**
 * struct image - a backup
 * @bytes: its size; an edit can make it smaller
 * @full_bytes: its original size
 * @blocks: by number; NULL: a hole
 * @base: blocks of the image that this is a copy of, or NULL
 * @ours: by number: the block belongs to this image, not to @base
 * @dirty: numbers of the blocks with @ours
 * @fault: reads of this block fail, UINT64_MAX: none; @faulted: it was read
 */
struct image {
	uint64_t bytes, full_bytes;
	uint64_t nr_blocks;
	uint8_t **blocks;
	uint8_t **base;
	uint8_t *ours;
	uint64_t *dirty;
	uint64_t nr_dirty;
	uint64_t fault;
	bool faulted;
};

struct image *image_new(uint64_t bytes);
void image_free(struct image *image);
/* A copy that shares blocks with @base until it writes them. */
struct image *image_copy(const struct image *base);
/* Undo all changes since image_copy(). */
void image_reset(struct image *image);
/* Read or write any range; a hole reads as zero. */
void image_read(const struct image *image, uint64_t offset, void *data, uint64_t length);
void image_write(struct image *image, uint64_t offset, const void *data, uint64_t length);

/**
 * struct found - the objects that a recovery loaded or placed
 * @objects, @tombstones: their numbers
 * @sum: checksum of all objects that were loaded, independent of their order
 * @object: called for each object, may be NULL; @data is NULL of one that was placed
 */
struct found {
	uint64_t objects, tombstones, sum;
	void (*object)(void *context, uint64_t key, uint64_t version, const uint8_t *data,
		       uint32_t length);
	void *context;
};

/**
 * struct attempt - a recovery and its results
 * @r: valid only during attempt()
 * @reports, @damages: numbers of messages for the operator; @last: the last message
 * @last_segment, @last_placed: the last ones that entries were loaded of, and objects placed in
 * @writes: number of calls of write and flush
 * @ahead: buffers of reads ahead, in their order
 */
struct attempt {
	struct image *image;
	struct found found;
	struct recover_activation activation;
	struct recover_result result;
	enum recover_state state;
	uint32_t reports, damages, writes;
	char last[256];
	uint64_t last_segment, last_placed;
	uint64_t *indices;
	uint32_t nr_indices, room_indices;
	struct recover *r;
	void *ahead[RECOVER_AHEAD];
	uint32_t nr_ahead;
};

enum attempt_how {
	ATTEMPT_CHECK,		/* recover_check() */
	ATTEMPT_RUN,		/* recover_run() */
	ATTEMPT_ACCEPT,		/* recover_run(), losses accepted */
	ATTEMPT_INSTANT,	/* recover_run(), which places objects and does not read them */
};

/* recover_open() and, if the backup is full, the recovery. Returns its result. */
int attempt(struct attempt *a, struct image *image, enum attempt_how how);
/* Check that recovery may return @ret for bad bytes, and that it has reported a reason. */
void attempt_judge(const struct attempt *a, int ret);

/* Make the CRCs of entries valid, as far as the entries are contiguous. */
void fuzz_seal_entries(uint8_t *data, uint32_t length, uint32_t salt);
/* Make the CRCs of digest records valid, wherever there is a magic number. */
void fuzz_seal_digests(uint8_t *log, uint64_t length);

#endif
