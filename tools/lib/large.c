// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: objects of more than 1 MiB.
 *
 * A write makes new parts, replaces the index object if it still has the version that was read, and frees the old
 * parts.  A crash in between leaves the old index object or the new one, each with all of its parts, because each step
 * is durable before the next one, if the store is: the log has several heads, so that without that a later change could
 * survive, and not an earlier one.  What a crash leaves behind are parts that no index object names: see
 * large_sweep.c.
 *
 * Readers take no lock.  Parts do not change, so those of one version of the index object are what was written; if one
 * of them is gone, the index object has changed.
 */
#include <errno.h>
#include <stdlib.h>

#include "large.h"

#define PART_DEFAULT	(256u << 10)
#define BATCH_BYTES	(1u << 20)	/* of parts that are made in one vector */
#define MANY		64u		/* parts that are freed or read at once */

/* Checks the numbers of an index object; @bytes: its length. */
static int check_index(const struct lsm_large_index *index, uint32_t bytes)
{
	uint32_t part = __le32_to_cpu(index->part);
	uint64_t length = __le64_to_cpu(index->length);

	if (bytes < sizeof(*index) || __le64_to_cpu(index->magic) != LSM_LARGE_MAGIC ||
	    __le32_to_cpu(index->format) != LSM_LARGE_FORMAT || part < LSM_LARGE_PART_MIN ||
	    part > LSM_LARGE_PART_MAX || length > LSM_LARGE_PARTS * part ||
	    bytes != sizeof(*index) + lsm_large_nr(length, part) * sizeof(*index->parts))
		return -EBADMSG;
	return 0;
}

/**
 * lsm_large_index_read() - read an index object
 * @lsm: store
 * @handle: of it
 * @object: out
 * @index: out: the caller frees it
 *
 * Return: 0; -EBADMSG: it is none; -ENOMEM; as lsm_read().
 */
int lsm_large_index_read(struct lsm *lsm, uint64_t handle, struct lsm_object *object,
			 struct lsm_large_index **index)
{
	size_t room = sizeof(**index);
	ssize_t got;
	int ret;

	for (;;) {
		*index = calloc(1, room);
		if (!*index)
			return -ENOMEM;
		got = lsm_read(lsm, handle, *index, room, 0, object);
		if (got >= 0 && object->length <= room)
			break;
		free(*index);
		if (got < 0)
			return (int)got;
		room = object->length;
	}
	ret = check_index(*index, object->length);
	if (ret)
		free(*index);
	return ret;
}

int lsm_large_create(struct lsm *lsm, uint32_t part, unsigned int flags, uint64_t *handle)
{
	_Static_assert(sizeof(struct lsm_large_part) + LSM_LARGE_PART_MAX == LSMEM_OBJECT_MAX, "a part is an object");
	struct lsm_large_index index = {
		.magic = __cpu_to_le64(LSM_LARGE_MAGIC),
		.format = __cpu_to_le32(LSM_LARGE_FORMAT),
		.part = __cpu_to_le32(part ? part : PART_DEFAULT),
	};
	int ret = check_index(&index, sizeof(index));

	if (ret || flags & 0xffffu)
		return -EINVAL;
	return lsm_alloc(lsm, &index, sizeof(index), flags | lsm->durable, handle, NULL);
}

/* Frees parts.  What fails is left to lsm_large_sweep(). */
static void free_parts(struct lsm *lsm, const __le64 *parts, uint64_t nr)
{
	struct lsmem_op ops[MANY];
	uint64_t i;
	size_t n;

	for (i = 0; i < nr;) {
		for (n = 0; i < nr && n < MANY; i++)
			if (parts[i])
				ops[n++] = lsm_op_free(__le64_to_cpu(parts[i]), 0, 0);
		lsm_vector(lsm, ops, n, 0, NULL);
	}
}

/* ---- Reading ---------------------------------------------------------------- */

/* Has the index object another version than @version? Else a part is missing that it names. */
static int gone(struct lsm *lsm, uint64_t handle, uint64_t version)
{
	struct lsm_object object;
	int ret = (int)lsm_read(lsm, handle, NULL, 0, 0, &object);

	if (ret < 0)
		return ret;
	return object.version == version ? -EUCLEAN : -EILSEQ;
}

/* Reads bytes of a part, zeroes where it has none. */
static int read_part(struct lsm *lsm, uint64_t part, uint8_t *data, uint32_t length, uint32_t offset)
{
	ssize_t got = 0;

	if (part)
		got = lsm_read(lsm, part, data, length, (uint32_t)sizeof(struct lsm_large_part) + offset, NULL);
	if (got == -EINVAL)	/* the part is shorter */
		got = 0;
	if (got < 0)
		return (int)got;
	memset(data + got, 0, length - (size_t)got);
	return 0;
}

/* Reads bytes of one version.  -EILSEQ: the index object has another version meanwhile. */
static int read_version(struct lsm *lsm, uint64_t handle, const struct lsm_large *large, uint8_t *data,
			size_t length, uint64_t offset)
{
	uint64_t number = offset / large->part, end = lsm_large_nr(offset + length, large->part), handles[MANY];
	uint32_t from = (uint32_t)(offset % large->part), bytes;
	struct lsm_object object;
	__le64 parts[MANY];
	ssize_t got;
	size_t n, i;
	int ret;

	if (!length)
		return 0;
	for (; number < end; number += n) {
		n = end - number < MANY ? (size_t)(end - number) : MANY;
		got = lsm_read(lsm, handle, parts, n * sizeof(*parts),
			       (uint32_t)(sizeof(struct lsm_large_index) + number * sizeof(*parts)), &object);
		if (got < 0 && got != -EINVAL)
			return (int)got;
		if (got < 0 || object.version != large->version)
			return -EILSEQ;
		for (i = 0; i < n; i++)
			handles[i] = __le64_to_cpu(parts[i]);
		if (n > 1 && lsm->touched)	/* of a tiered store */
			lsm_prefetch(lsm, handles, n);
		for (i = 0; i < n; i++, from = 0) {
			bytes = length < large->part - from ? (uint32_t)length : large->part - from;
			ret = read_part(lsm, handles[i], data, bytes, from);
			if (ret == -ESTALE || ret == -ENOENT)
				return gone(lsm, handle, large->version);
			if (ret)
				return ret;
			data += bytes;
			length -= bytes;
		}
	}
	return 0;
}

ssize_t lsm_large_read(struct lsm *lsm, uint64_t handle, void *data, size_t length, uint64_t offset,
		       struct lsm_large *large)
{
	struct lsm_large_index index;
	struct lsm_object object;
	struct lsm_large now;
	size_t found;
	ssize_t got;
	int ret;

	do {
		memset(&index, 0, sizeof(index));
		got = lsm_read(lsm, handle, &index, sizeof(index), 0, &object);
		if (got < 0)
			return got;
		ret = check_index(&index, object.length);
		if (ret)
			return ret;
		now = (struct lsm_large){
			.version = object.version,
			.length = __le64_to_cpu(index.length),
			.part = __le32_to_cpu(index.part),
			.table = object.table,
		};
		if (offset > now.length)
			return -EINVAL;
		found = length < now.length - offset ? length : (size_t)(now.length - offset);
		ret = read_version(lsm, handle, &now, data, found, offset);
	} while (ret == -EILSEQ);
	if (ret)
		return ret;
	if (large)
		*large = now;
	return (ssize_t)found;
}

/* ---- Writing ---------------------------------------------------------------- */

/**
 * struct writing - a write that is under way
 * @lsm: store
 * @handle: of the index object
 * @object: the index object, as it was read
 * @index: its bytes, with the handles of new parts
 * @part: bytes of a part
 * @data: to be written
 * @offset: of the first byte
 * @end: offset behind the last
 * @first: number of the first part that changes
 * @nr: parts that change
 * @made: of these, those that are made
 * @old: their handles, as they were
 */
struct writing {
	struct lsm *lsm;
	uint64_t handle;
	struct lsm_object object;
	struct lsm_large_index *index;
	uint32_t part;
	const uint8_t *data;
	uint64_t offset;
	uint64_t end;
	uint64_t first;
	uint64_t nr;
	uint64_t made;
	__le64 *old;
};

/* Puts a new part together, from what it had and what is written.  Returns its bytes, or an error. */
static int fill_part(const struct writing *writing, uint64_t nr, struct lsm_large_part *made)
{
	uint64_t start = (writing->first + nr) * writing->part;
	uint32_t low = writing->offset > start ? (uint32_t)(writing->offset - start) : 0;
	uint32_t high = writing->end - start < writing->part ? (uint32_t)(writing->end - start) : writing->part;
	uint8_t *bytes = (uint8_t *)(made + 1);
	uint64_t old = __le64_to_cpu(writing->old[nr]);
	struct lsm_object object;
	uint32_t had = 0;
	int ret;

	*made = (struct lsm_large_part){
		.magic = __cpu_to_le64(LSM_PART_MAGIC),
		.owner = __cpu_to_le64(writing->handle),
		.number = __cpu_to_le64(writing->first + nr),
		.base = __cpu_to_le64(writing->object.version),
	};
	if (old) {
		ret = (int)lsm_read(writing->lsm, old, NULL, 0, 0, &object);
		if (ret < 0)
			return ret;
		if (object.length <= sizeof(*made) || object.length - sizeof(*made) > writing->part)
			return -EUCLEAN;
		had = object.length - (uint32_t)sizeof(*made);
	}
	if (low || high < had) {
		ret = read_part(writing->lsm, old, bytes, low > had ? low : had, 0);
		if (ret)
			return ret;
	}
	memcpy(bytes + low, writing->data + (start + low - writing->offset), high - low);
	return (int)((high > had ? high : had) + sizeof(*made));
}

/* Makes @nr parts in one call, with room for them at @rows. */
static int make_batch(struct writing *writing, uint64_t nr, uint8_t *rows, struct lsmem_op *ops)
{
	size_t row_bytes = sizeof(struct lsm_large_part) + writing->part, done = 0;
	unsigned int table = LSM_TABLE(writing->object.table);
	uint64_t i;
	int ret;

	for (i = 0; i < nr; i++) {
		ret = fill_part(writing, writing->made + i, (void *)(rows + i * row_bytes));
		if (ret < 0)
			return ret;
		ops[i] = lsm_op_alloc(rows + i * row_bytes, (uint32_t)ret, table | writing->lsm->durable);
	}
	ret = lsm_vector(writing->lsm, ops, nr, 0, &done);
	for (i = 0; i < done; i++) {
		if (!ops[i].result || ops[i].result == -ETIMEDOUT)
			writing->index->parts[writing->first + writing->made++] = __cpu_to_le64(ops[i].handle);
		if (ops[i].result && !ret)	/* a time-out of a write would mean that it is made */
			ret = ops[i].result == -ETIMEDOUT ? -EBUSY : ops[i].result;
	}
	return ret;
}

static int make_parts(struct writing *writing)
{
	size_t row_bytes = sizeof(struct lsm_large_part) + writing->part;
	uint64_t most = BATCH_BYTES / row_bytes ? BATCH_BYTES / row_bytes : 1, nr;
	struct lsmem_op *ops;
	uint8_t *rows;
	int ret = 0;

	if (most > writing->nr)
		most = writing->nr;
	rows = malloc(most * row_bytes);
	ops = malloc(most * sizeof(*ops));
	if (!rows || !ops)
		ret = -ENOMEM;
	while (!ret && writing->made < writing->nr) {
		nr = writing->nr - writing->made < most ? writing->nr - writing->made : most;
		ret = make_batch(writing, nr, rows, ops);
	}
	free(rows);
	free(ops);
	if (ret == -ESTALE || ret == -ENOENT)
		ret = gone(writing->lsm, writing->handle, writing->object.version);
	return ret;
}

/* Makes room for new parts in the index, and notes what will be old. */
static int prepare(struct writing *writing, size_t length)
{
	uint64_t had = __le64_to_cpu(writing->index->length), nr;
	struct lsm_large_index *index;

	writing->part = __le32_to_cpu(writing->index->part);
	if (writing->offset > LSM_LARGE_PARTS * writing->part ||
	    length > LSM_LARGE_PARTS * writing->part - writing->offset)
		return -EFBIG;
	writing->end = writing->offset + length;
	nr = lsm_large_nr(writing->end, writing->part);
	if (writing->end > had) {
		had = lsm_large_nr(had, writing->part);
		index = realloc(writing->index, sizeof(*index) + nr * sizeof(*index->parts));
		if (!index)
			return -ENOMEM;
		memset(index->parts + had, 0, (nr - had) * sizeof(*index->parts));
		index->length = __cpu_to_le64(writing->end);
		writing->index = index;
	}
	writing->first = writing->offset / writing->part;
	writing->nr = nr - writing->first;
	writing->made = 0;
	writing->old = malloc(writing->nr * sizeof(*writing->old));
	if (!writing->old)
		return -ENOMEM;
	memcpy(writing->old, writing->index->parts + writing->first, writing->nr * sizeof(*writing->old));
	return 0;
}

/* Writes once.  @version: of the index object, before and after. */
static int write_once(struct writing *writing, size_t length, uint64_t *version)
{
	uint64_t bytes;
	int ret = prepare(writing, length);

	if (ret)
		return ret;
	ret = make_parts(writing);
	if (!ret) {
		bytes = lsm_large_nr(__le64_to_cpu(writing->index->length), writing->part) *
			sizeof(*writing->index->parts);
		ret = lsm_replace(writing->lsm, writing->handle, writing->index, sizeof(*writing->index) + bytes,
				  LSM_EXPECT | writing->lsm->durable, version);
	}
	if (!ret)
		free_parts(writing->lsm, writing->old, writing->nr);
	else if (ret != -ETIMEDOUT)	/* then either may be what a crash leaves */
		free_parts(writing->lsm, writing->index->parts + writing->first, writing->made);
	return ret;
}

static int write_large(struct lsm *lsm, uint64_t handle, const void *data, size_t length, bool append,
		       uint64_t *offset, unsigned int flags, uint64_t *version)
{
	struct writing writing = { .lsm = lsm, .handle = handle, .data = data };
	uint64_t given, present;
	int ret;

	if (!length || flags & ~LSM_EXPECT || (flags & LSM_EXPECT && !version))
		return -EINVAL;
	given = flags & LSM_EXPECT ? *version : 0;
	do {
		ret = lsm_large_index_read(lsm, handle, &writing.object, &writing.index);
		if (ret)
			return ret;
		present = writing.object.version;
		if (flags & LSM_EXPECT && present != given) {
			*version = present;
			free(writing.index);
			return -EILSEQ;
		}
		writing.offset = append ? __le64_to_cpu(writing.index->length) : *offset;
		writing.old = NULL;
		ret = write_once(&writing, length, &present);
		free(writing.index);
		free(writing.old);
	} while (ret == -EILSEQ);
	if (!ret || ret == -ETIMEDOUT) {
		*offset = writing.offset;
		if (version)
			*version = present;
	}
	return ret;
}

int lsm_large_write(struct lsm *lsm, uint64_t handle, const void *data, size_t length, uint64_t offset,
		    unsigned int flags, uint64_t *version)
{
	return write_large(lsm, handle, data, length, false, &offset, flags, version);
}

int lsm_large_append(struct lsm *lsm, uint64_t handle, const void *data, size_t length, unsigned int flags,
		     uint64_t *offset, uint64_t *version)
{
	uint64_t at;
	int ret = write_large(lsm, handle, data, length, true, &at, flags, version);

	if (offset && (!ret || ret == -ETIMEDOUT))
		*offset = at;
	return ret;
}

int lsm_large_free(struct lsm *lsm, uint64_t handle, unsigned int flags, uint64_t *version)
{
	struct lsm_large_index *index;
	struct lsm_object object;
	uint64_t present;
	int ret;

	if (flags & ~LSM_EXPECT || (flags & LSM_EXPECT && !version))
		return -EINVAL;
	do {
		ret = lsm_large_index_read(lsm, handle, &object, &index);
		if (ret)
			return ret;
		present = flags & LSM_EXPECT ? *version : object.version;
		ret = lsm_free(lsm, handle, LSM_EXPECT | lsm->durable, &present);
		if (!ret)
			free_parts(lsm, index->parts,
				   lsm_large_nr(__le64_to_cpu(index->length), __le32_to_cpu(index->part)));
		free(index);
	} while (ret == -EILSEQ && !(flags & LSM_EXPECT));
	if (version && (!ret || ret == -EILSEQ || ret == -ETIMEDOUT))
		*version = present;
	return ret;
}
