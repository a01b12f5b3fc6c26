// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: changes that depend on what an object has: parts of it, sums, comparisons.
 *
 * The kernel replaces objects as a whole.  So an object is read, changed in memory, and replaced if it still has the
 * version that was read; else all of it is done again.  Each further round means that another client has changed the
 * object meanwhile, so that of all clients one always gets on.
 */
#include <errno.h>
#include <stdlib.h>

#include "aggregate.h"
#include "internal.h"

#define SMALL_BYTES	4096u	/* of an object that is changed on the stack */
#define RULES		(LSM_EXPECT | LSM_OLDER | LSM_NEWER)

/* May an object with the version @present be changed? */
static bool allowed(unsigned int flags, uint64_t present, uint64_t given)
{
	switch (flags & RULES) {
	case LSM_EXPECT:
		return present == given;
	case LSM_OLDER:
		return present < given;
	case LSM_NEWER:
		return present > given;
	}
	return true;
}

static bool flags_valid(unsigned int flags, const uint64_t *version)
{
	unsigned int rule = flags & RULES;

	return !(flags & ~(RULES | LSM_DURABLE)) && !(rule & (rule - 1)) && (!rule || version);
}

/**
 * lsm_change_by_rule() - replace or free an object if LSM_OLDER or LSM_NEWER allow it
 * @lsm: store
 * @handle: object
 * @frees: free it
 * @data: as lsm_replace(), if not @frees
 * @length: likewise
 * @flags: with one of the two
 * @version: as lsm_replace()
 *
 * Return: as lsm_replace() and lsm_free().
 */
int lsm_change_by_rule(struct lsm *lsm, uint64_t handle, bool frees, const void *data, size_t length,
		       unsigned int flags, uint64_t *version)
{
	unsigned int rest = (flags & ~RULES) | LSM_EXPECT;
	struct lsm_object object;
	uint64_t given;
	int ret;

	if (!flags_valid(flags, version))
		return -EINVAL;
	given = *version;
	do {
		ret = (int)lsm_read(lsm, handle, NULL, 0, 0, &object);
		if (ret < 0)
			return ret;
		*version = object.version;
		if (!allowed(flags, object.version, given))
			return -EILSEQ;
		ret = frees ? lsm_free(lsm, handle, rest, version) :
			      lsm_replace(lsm, handle, data, length, rest, version);
	} while (ret == -EILSEQ);
	return ret;
}

/**
 * struct edit - an object in memory that is being changed
 * @object: as it was read
 * @data: its bytes, @small or from malloc()
 * @room: at @data
 * @small: for most objects
 */
struct edit {
	struct lsm_object object;
	uint8_t *data;
	size_t room;
	uint8_t small[SMALL_BYTES];
};

static void edit_free(struct edit *edit)
{
	if (edit->data != edit->small)
		free(edit->data);
}

/* Reads an object whole, with room for @more bytes, as far as an object can have them. */
static int edit_read(struct lsm *lsm, uint64_t handle, size_t more, struct edit *edit)
{
	size_t need;
	ssize_t got;

	for (;;) {
		got = lsm_read(lsm, handle, edit->data, edit->room, 0, &edit->object);
		if (got < 0)
			return (int)got;
		need = more > LSMEM_OBJECT_MAX - edit->object.length ? LSMEM_OBJECT_MAX :
								       edit->object.length + more;
		if (need <= edit->room)
			return 0;
		edit_free(edit);
		edit->data = malloc(need);
		if (!edit->data)
			return -ENOMEM;
		edit->room = need;
	}
}

int lsm_update(struct lsm *lsm, uint64_t handle, size_t more, lsm_change_fn change, void *context,
	       unsigned int flags, uint64_t *version)
{
	uint64_t given, present;
	struct edit edit;
	size_t length;
	int ret;

	if (!flags_valid(flags, version))
		return -EINVAL;
	given = version ? *version : 0;
	edit.data = edit.small;
	edit.room = sizeof(edit.small);
	do {
		ret = edit_read(lsm, handle, more, &edit);
		if (ret)
			break;
		present = edit.object.version;
		if (version)
			*version = present;
		ret = -EILSEQ;
		if (!allowed(flags, present, given))
			break;
		length = edit.object.length;
		ret = change(context, &edit.object, edit.data, edit.room, &length);
		if (!ret && length > edit.room)
			ret = -EINVAL;
		if (ret)
			break;
		ret = lsm_replace(lsm, handle, edit.data, length, (flags & LSM_DURABLE) | LSM_EXPECT, &present);
		if (version && (!ret || ret == -ETIMEDOUT))
			*version = present;
	} while (ret == -EILSEQ);
	edit_free(&edit);
	return ret;
}

/* ---- Bytes ------------------------------------------------------------------ */

/**
 * struct bytes - bytes that are to be in an object
 * @data: bytes; NULL: zeroes, or the object ends here
 * @expected: bytes that must be there, or that are; NULL: any
 * @length: of @data and @expected
 * @offset: where; out, of an append
 */
struct bytes {
	const void *data;
	void *expected;
	size_t length;
	size_t offset;
};

/* Has the bytes from the end of an object to @end be zeroes, if there are such. */
static void lengthen(uint8_t *data, size_t end, size_t *length)
{
	if (end <= *length)
		return;
	memset(data + *length, 0, end - *length);
	*length = end;
}

static int write_bytes(void *context, const struct lsm_object *object, void *data, size_t room, size_t *length)
{
	const struct bytes *bytes = context;

	(void)object;
	(void)room;
	lengthen(data, bytes->offset, length);
	memcpy((uint8_t *)data + bytes->offset, bytes->data, bytes->length);
	if (*length < bytes->offset + bytes->length)
		*length = bytes->offset + bytes->length;
	return 0;
}

int lsm_write(struct lsm *lsm, uint64_t handle, const void *data, size_t length, uint32_t offset,
	      unsigned int flags, uint64_t *version)
{
	struct bytes bytes = { .data = data, .length = length, .offset = offset };

	if (!length)
		return -EINVAL;
	if (length > LSMEM_OBJECT_MAX || offset > LSMEM_OBJECT_MAX - length)
		return -EFBIG;
	return lsm_update(lsm, handle, offset + length, write_bytes, &bytes, flags, version);
}

static int append_bytes(void *context, const struct lsm_object *object, void *data, size_t room, size_t *length)
{
	struct bytes *bytes = context;

	bytes->offset = object->length;
	return bytes->length > room - object->length ? -EFBIG : write_bytes(bytes, object, data, room, length);
}

int lsm_append(struct lsm *lsm, uint64_t handle, const void *data, size_t length, unsigned int flags,
	       uint32_t *offset, uint64_t *version)
{
	struct bytes bytes = { .data = data, .length = length };
	int ret;

	if (!length)
		return -EINVAL;
	ret = lsm_update(lsm, handle, length, append_bytes, &bytes, flags, version);
	if (offset && (!ret || ret == -ETIMEDOUT))
		*offset = (uint32_t)bytes.offset;
	return ret;
}

static int cut_bytes(void *context, const struct lsm_object *object, void *data, size_t room, size_t *length)
{
	const struct bytes *bytes = context;

	(void)object;
	(void)room;
	lengthen(data, bytes->length, length);
	*length = bytes->length;
	return 0;
}

int lsm_truncate(struct lsm *lsm, uint64_t handle, size_t length, unsigned int flags, uint64_t *version)
{
	struct bytes bytes = { .length = length };

	if (!length)
		return -EINVAL;
	if (length > LSMEM_OBJECT_MAX)
		return -EFBIG;
	return lsm_update(lsm, handle, length, cut_bytes, &bytes, flags, version);
}

static int exchange_bytes(void *context, const struct lsm_object *object, void *data, size_t room, size_t *length)
{
	const struct bytes *bytes = context;
	uint8_t *at = (uint8_t *)data + bytes->offset;

	(void)room;
	(void)length;
	if (bytes->offset > object->length || bytes->length > object->length - bytes->offset)
		return -EINVAL;
	if (memcmp(at, bytes->expected, bytes->length)) {
		memcpy(bytes->expected, at, bytes->length);
		return -EDOM;
	}
	memcpy(at, bytes->data, bytes->length);
	return 0;
}

int lsm_compare_exchange(struct lsm *lsm, uint64_t handle, uint32_t offset, void *expected, const void *desired,
			 size_t length, unsigned int flags, uint64_t *version)
{
	struct bytes bytes = { .data = desired, .expected = expected, .length = length, .offset = offset };
	int ret;

	if (!length)
		return -EINVAL;
	ret = lsm_update(lsm, handle, 0, exchange_bytes, &bytes, flags, version);
	return ret == -EDOM ? 0 : ret ? ret : 1;
}

/* ---- Numbers ---------------------------------------------------------------- */

/**
 * struct sum - a number that is added to one in an object
 * @type: enum lsm_type
 * @offset: of the number in the object
 * @amount: what is added
 * @result: out
 */
struct sum {
	uint32_t type;
	uint32_t offset;
	union lsm_value amount;
	union lsm_value result;
};

static int add_number(void *context, const struct lsm_object *object, void *data, size_t room, size_t *length)
{
	struct sum *sum = context;
	uint8_t *at = (uint8_t *)data + sum->offset;

	(void)room;
	(void)length;
	if (sum->offset > object->length || lsm_type_bytes(sum->type) > object->length - sum->offset)
		return -EINVAL;
	sum->result = lsm_value_read(sum->type, at);
	if (sum->type == LSM_F64)
		sum->result.f64 += sum->amount.f64;
	else if (!lsm_value_set(sum->type, lsm_value_wide(sum->type, sum->result) + sum->amount.i64, &sum->result))
		return -EOVERFLOW;
	lsm_value_write(sum->type, at, sum->result);
	return 0;
}

int lsm_add(struct lsm *lsm, uint64_t handle, uint32_t type, uint32_t offset, union lsm_value *value,
	    unsigned int flags, uint64_t *version)
{
	struct sum sum = { .type = type, .offset = offset, .amount = *value };
	int ret;

	if (type < LSM_U32 || type > LSM_F64)
		return -EINVAL;
	ret = lsm_update(lsm, handle, 0, add_number, &sum, flags, version);
	if (!ret || ret == -ETIMEDOUT)
		*value = sum.result;
	return ret;
}
