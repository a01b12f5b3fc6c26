// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: calls that make a system call.
 *
 * The kernel checks all arguments.  These functions check only what does not fit into the
 * arguments of the ioctl, so the kernel alone defines the errors.
 */
#include <errno.h>

#include "internal.h"

/* Fields of a flags argument: operation flags in the low bits, table id above them. */
#define FLAGS_MASK	0xffffu
#define TABLE_SHIFT	16

static int set_source(struct lsmem_op *op, const void *data, size_t length)
{
	if (length > UINT32_MAX)
		return -EINVAL;
	op->data = (uintptr_t)data;
	op->length = (uint32_t)length;
	return 0;
}

/* Only a call with LSM_EXPECT passes *version to the kernel. */
static int set_version(struct lsmem_op *op, const uint64_t *version)
{
	if (!(op->flags & LSM_EXPECT))
		return 0;
	if (!version)
		return -EINVAL;
	op->version = *version;
	return 0;
}

/* The structure is the caller's, of an older or a newer header than the library's: its size alone is certain. */
int lsm_query_sized(struct lsm *lsm, struct lsmem_query *query, size_t size)
{
	if (size < LSMEM_QUERY_SIZE_VER0)
		return -EINVAL;
	memset(query, 0, size);
	query->size = (uint32_t)size;
	return lsm->call(lsm, LSMEM_IOC_QUERY, query);
}

int lsm_stat_sized(struct lsm *lsm, struct lsmem_stat *stat, size_t size)
{
	if (size < LSMEM_STAT_SIZE_VER0)
		return -EINVAL;
	memset(stat, 0, size);
	stat->size = (uint32_t)size;
	return lsm->call(lsm, LSMEM_IOC_STAT, stat);
}

int lsm_sync(struct lsm *lsm, uint32_t timeout_ms)
{
	struct lsmem_sync sync = { .size = sizeof(sync), .timeout_ms = timeout_ms };

	return lsm->call(lsm, LSMEM_IOC_SYNC, &sync);
}

int lsm_alloc(struct lsm *lsm, const void *data, size_t length, unsigned int flags,
	      uint64_t *handle, uint64_t *version)
{
	struct lsmem_op op = {
		.size = sizeof(op),
		.op = LSMEM_OP_ALLOC,
		.flags = flags & FLAGS_MASK,
		.table = flags >> TABLE_SHIFT,
	};
	int ret;

	ret = set_source(&op, data, length);
	if (ret)
		return ret;
	ret = lsm->call(lsm, LSMEM_IOC_ALLOC, &op);
	/* After a timeout the object exists: the caller needs its handle, as after success. */
	if (ret && ret != -ETIMEDOUT)
		return ret;
	*handle = op.handle;
	if (version)
		*version = op.version;
	return ret;
}

int lsm_replace(struct lsm *lsm, uint64_t handle, const void *data, size_t length,
		unsigned int flags, uint64_t *version)
{
	struct lsmem_op op = {
		.size = sizeof(op),
		.op = LSMEM_OP_REPLACE,
		.flags = flags,
		.handle = handle,
	};
	int ret;

	if (flags & (LSM_OLDER | LSM_NEWER))
		return lsm_change_by_rule(lsm, handle, false, data, length, flags, version);
	ret = set_source(&op, data, length);
	if (ret)
		return ret;
	ret = set_version(&op, version);
	if (ret)
		return ret;
	ret = lsm->call(lsm, LSMEM_IOC_REPLACE, &op);
	if (version && (!ret || ret == -ETIMEDOUT || ret == -EILSEQ))
		*version = op.version;
	return ret;
}

int lsm_free(struct lsm *lsm, uint64_t handle, unsigned int flags, uint64_t *version)
{
	struct lsmem_op op = {
		.size = sizeof(op),
		.op = LSMEM_OP_FREE,
		.flags = flags,
		.handle = handle,
	};
	int ret;

	if (flags & (LSM_OLDER | LSM_NEWER))
		return lsm_change_by_rule(lsm, handle, true, NULL, 0, flags, version);
	ret = set_version(&op, version);
	if (ret)
		return ret;
	ret = lsm->call(lsm, LSMEM_IOC_FREE, &op);
	if (version && (!ret || ret == -ETIMEDOUT || ret == -EILSEQ))
		*version = op.version;
	return ret;
}

/**
 * lsm_index_read() - read the object that an index has, by system call
 * @lsm: store
 * @index: any number; of a reserved one, too
 * @data: out: the first bytes of the object
 * @length: room at @data, at least 1
 * @handle: out: of the object
 * @object: out
 *
 * Return: bytes copied; -ENOENT: it has none; -EINVAL: an older kernel; as lsm_read().
 */
int lsm_index_read(struct lsm *lsm, uint64_t index, void *data, uint32_t length, uint64_t *handle,
		   struct lsm_object *object)
{
	struct lsmem_op op = lsm_op_read(index, data, length, 0);
	int ret;

	op.flags = LSMEM_OPF_INDEX;
	ret = lsm->call(lsm, LSMEM_IOC_READ, &op);
	if (ret)
		return ret;
	*handle = op.handle;
	*object = (struct lsm_object){ .version = op.version, .length = op.object_length, .table = op.table };
	return (int)op.length;
}

/**
 * lsm_kernel_read() - read by system call
 * @lsm: store
 * @handle: object
 * @data: out: payload bytes
 * @length: room at @data in bytes; 0: read only the attributes of the object
 * @offset: first byte to read, from the start of the object
 * @object: out: attributes of the object; may be NULL
 *
 * Return: number of bytes copied, or a negative errno.
 */
int lsm_kernel_read(struct lsm *lsm, uint64_t handle, void *data, uint32_t length,
		    uint32_t offset, struct lsm_object *object)
{
	struct lsmem_op op = {
		.size = sizeof(op),
		.op = LSMEM_OP_READ,
		.handle = handle,
		.offset = offset,
	};
	char none;
	int ret;

	op.data = (uintptr_t)(length ? data : &none);
	op.length = length ? length : sizeof(none);
	ret = lsm->call(lsm, LSMEM_IOC_READ, &op);
	if (ret)
		return ret;
	if (object)
		*object = (struct lsm_object){ .version = op.version, .length = op.object_length, .table = op.table };
	return length ? (int)op.length : 0;
}

int lsm_vector(struct lsm *lsm, struct lsmem_op *ops, size_t nr, unsigned int flags,
	       size_t *done)
{
	struct lsmem_vector vector;
	size_t tried = 0;
	uint32_t sent;
	int ret = 0;

	if (!lsm->vector_max || (flags & LSM_ATOMIC && !lsm->group_max))
		ret = -EOPNOTSUPP;
	else if (flags & LSM_ATOMIC && nr > lsm->group_max)
		ret = -E2BIG;
	while (!ret && tried < nr) {
		sent = nr - tried < lsm->vector_max ? (uint32_t)(nr - tried) : lsm->vector_max;
		memset(&vector, 0, sizeof(vector));
		vector.size = sizeof(vector);
		vector.flags = flags;
		vector.ops = (uintptr_t)lsm_op_at(ops, lsm_op_stride(ops), tried);
		vector.nr = sent;
		vector.stride = (uint32_t)lsm_op_stride(ops);
		ret = lsm->call(lsm, LSMEM_IOC_VECTOR, &vector);
		/* If the kernel refuses the whole call, it leaves nr unchanged. */
		if (!ret)
			tried += sent;
		else if (vector.nr < sent)
			tried += vector.nr;
	}
	if (done)
		*done = tried;
	return ret;
}
