/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * liblsmem: how large objects lie in a store.  See large.c.
 *
 * An index object names the parts, which are objects of the same table: part i has the bytes from i * part on.  A part
 * that is shorter, or not there (handle 0), goes on with zeroes.  Parts are never changed: a write makes new ones, and
 * replaces the index object.  All numbers are little endian.
 */
#ifndef LSMEM_LIB_LARGE_H
#define LSMEM_LIB_LARGE_H

#include "internal.h"

#define LSM_LARGE_MAGIC		0x656772616c6d736cull	/* "lsmlarge" */
#define LSM_PART_MAGIC		0x747261706d736c2eull	/* ".lsmpart" */
#define LSM_LARGE_FORMAT	1u

/**
 * struct lsm_large_index - the index object
 * @magic: LSM_LARGE_MAGIC
 * @format: LSM_LARGE_FORMAT
 * @part: most bytes of a part, LSM_LARGE_PART_MIN .. LSM_LARGE_PART_MAX
 * @length: of the large object, bytes
 * @reserved: 0
 * @parts: handles, as many as @length takes
 */
struct lsm_large_index {
	__le64 magic;
	__le32 format;
	__le32 part;
	__le64 length;
	__le64 reserved;
	__le64 parts[];
};

/**
 * struct lsm_large_part - what a part begins with
 * @magic: LSM_PART_MAGIC
 * @owner: handle of the index object
 * @number: of the part
 * @base: version of the index object that the writer is going to replace, and no other
 */
struct lsm_large_part {
	__le64 magic;
	__le64 owner;
	__le64 number;
	__le64 base;
};

#define LSM_LARGE_PARTS		((uint64_t)(LSMEM_OBJECT_MAX - sizeof(struct lsm_large_index)) / sizeof(__le64))

int lsm_large_index_read(struct lsm *lsm, uint64_t handle, struct lsm_object *object,
			 struct lsm_large_index **index);
int lsm_large_orphan(struct lsm *lsm, uint64_t handle, const struct lsm_large_part *part);

/* How many parts so many bytes take. */
static inline uint64_t lsm_large_nr(uint64_t length, uint32_t part)
{
	return length / part + !!(length % part);
}

#endif
