/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A backup in memory, sparse, that recovery reads: what the fuzzers share.
 *
 * Recovery's side of the contract in daemon/recover/recover.h is checked at each call:
 * whatever the bytes are, it never asks for a place that is not there, and
 * never hands on what the kernel would have to refuse.
 */
#ifndef FUZZ_IMAGE_H
#define FUZZ_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recover/recover.h"

/* Says what is wrong and ends the process, so that the fuzzer keeps the input. */
#define fuzz_fail(...) fuzz_fail_at(__FILE__, __LINE__, __VA_ARGS__)
void fuzz_fail_at(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));

/* Known to the sanitizer, and to the linker: see image.c. */
const char *__asan_default_options(void);
uint32_t __real_lsmem_crc32c(uint32_t seed, const void *data, size_t length);
uint32_t __wrap_lsmem_crc32c(uint32_t seed, const void *data, size_t length);

/**
 * struct image - a backup
 * @bytes: its size; may be made smaller
 * @full_bytes: its size when it was made
 * @blocks: NULL: a hole
 * @base: of another image: what blocks were before they were written, or NULL
 * @dirty: numbers of blocks that are ours
 * @fault: reading this block fails, UINT64_MAX: none; @faulted: it was read
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
/* As it was copied. */
void image_reset(struct image *image);
/* Any range; holes are zero.  Writing makes blocks. */
void image_read(const struct image *image, uint64_t offset, void *data, uint64_t length);
void image_write(struct image *image, uint64_t offset, const void *data, uint64_t length);

/**
 * struct found - what a recovery handed on
 * @objects, @tombstones: how many
 * @sum: of all objects, whatever their order
 * @object: called for each object, may be NULL
 */
struct found {
	uint64_t objects, tombstones, sum;
	void (*object)(void *context, uint64_t key, uint64_t version, const uint8_t *data,
		       uint32_t length);
	void *context;
};

/**
 * struct attempt - a recovery and what it did
 * @r: open while attempt_*() runs only
 * @reports, @damages: lines for the operator; @last: the last of them
 * @writes: calls of write and flush
 * @ahead: buffers that are being read to, in the order of the beginnings
 */
struct attempt {
	struct image *image;
	struct found found;
	struct recover_activation activation;
	struct recover_result result;
	enum recover_state state;
	uint32_t reports, damages, writes;
	char last[256];
	uint64_t last_segment;
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
};

/* recover_open() and, when it is full, the recovery.  What it returned. */
int attempt(struct attempt *a, struct image *image, enum attempt_how how);
/* A recovery's error is one that it may return for bad bytes, and it is explained. */
void attempt_judge(const struct attempt *a, int ret);

/* Puts right the CRCs of entries from @at on, as far as they follow each other. */
void fuzz_seal_entries(uint8_t *data, uint32_t length, uint32_t salt, bool payloads);
/* And of digest records, wherever a magic number is. */
void fuzz_seal_digests(uint8_t *log, uint64_t length);

#endif
