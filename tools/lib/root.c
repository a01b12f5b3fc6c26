// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: roots: names of handles, by which a program finds its objects again.
 *
 * All roots of a store are one object (struct lsmem_roots), whose index is reserved: it is found without its handle.
 * Who changes a root replaces the object if it has still the version that was read, and begins again if it has not.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

#define NAMES_MAX	LSMEM_OBJECT_MAX

/**
 * struct roots - the object, read
 * @bytes: struct lsmem_roots and what follows; room for one more root
 * @length: of it
 * @handle: of the object; 0: there is none
 * @version: of the object
 */
struct roots {
	uint8_t *bytes;
	size_t length;
	uint64_t handle;
	uint64_t version;
};

/* A root in the object. */
struct found {
	size_t at;
	size_t size;
	uint64_t handle;
	const char *name;
	size_t length;
};

static uint64_t index_of(const struct lsm *lsm)
{
	return lsm->handles_max + LSMEM_RESERVED_ROOTS;
}

static int check_name(const char *name)
{
	size_t length = name ? strlen(name) : 0;

	return length && length <= LSM_ROOT_NAME ? 0 : -EINVAL;
}

/* The root at @at.  False: it ends before. */
static bool root_at(const struct roots *roots, size_t at, struct found *found)
{
	struct lsmem_root root;

	if (at > roots->length || roots->length - at < sizeof(root))
		return false;
	memcpy(&root, roots->bytes + at, sizeof(root));
	found->at = at;
	found->length = __le16_to_cpu(root.length);
	found->size = sizeof(root) + found->length;
	found->handle = __le64_to_cpu(root.handle);
	found->name = (const char *)roots->bytes + at + sizeof(root);
	return found->length && found->length <= LSM_ROOT_NAME && found->size <= roots->length - at;
}

static int check_roots(const struct roots *roots)
{
	const struct lsmem_roots *header = (const void *)roots->bytes;
	struct found found;
	size_t at = sizeof(*header);
	uint32_t nr;

	if (roots->length < sizeof(*header) || __le32_to_cpu(header->magic) != LSMEM_ROOTS_MAGIC)
		return -EBADMSG;
	for (nr = __le32_to_cpu(header->nr); nr; nr--) {
		if (!root_at(roots, at, &found))
			return -EBADMSG;
		at += found.size;
	}
	return at == roots->length ? 0 : -EBADMSG;
}

/* Reads all roots; none: those of a store that has had none. */
static int get_roots(struct lsm *lsm, struct roots *roots)
{
	struct lsmem_roots *header;
	struct lsm_object object;
	int ret;

	roots->bytes = malloc(NAMES_MAX + sizeof(struct lsmem_root) + LSM_ROOT_NAME);
	if (!roots->bytes)
		return -ENOMEM;
	ret = lsm_index_read(lsm, index_of(lsm), roots->bytes, NAMES_MAX, &roots->handle, &object);
	if (ret > 0) {
		roots->length = (size_t)ret;
		roots->version = object.version;
		ret = check_roots(roots);
	} else if (ret == -ENOENT) {
		header = (void *)roots->bytes;
		*header = (struct lsmem_roots){ .magic = __cpu_to_le32(LSMEM_ROOTS_MAGIC) };
		roots->length = sizeof(*header);
		roots->handle = 0;
		ret = 0;
	}
	if (ret) {
		free(roots->bytes);
		return ret == -EINVAL ? -EOPNOTSUPP : ret;
	}
	return 0;
}

static bool find_root(const struct roots *roots, const char *name, struct found *found)
{
	size_t length = strlen(name), at = sizeof(struct lsmem_roots);

	for (; root_at(roots, at, found); at += found->size)
		if (found->length == length && !memcmp(found->name, name, length))
			return true;
	return false;
}

/* Changes the roots in memory: @handle 0 removes the name. */
static int change_root(struct roots *roots, const char *name, uint64_t handle)
{
	struct lsmem_roots *header = (void *)roots->bytes;
	struct lsmem_root root = { .handle = __cpu_to_le64(handle) };
	uint32_t nr = __le32_to_cpu(header->nr);
	struct found found;

	if (find_root(roots, name, &found)) {
		memmove(roots->bytes + found.at, roots->bytes + found.at + found.size,
			roots->length - found.at - found.size);
		roots->length -= found.size;
		nr--;
	}
	if (handle) {
		root.length = __cpu_to_le16((uint16_t)strlen(name));
		memcpy(roots->bytes + roots->length, &root, sizeof(root));
		memcpy(roots->bytes + roots->length + sizeof(root), name, strlen(name));
		roots->length += sizeof(root) + strlen(name);
		nr++;
	}
	header->nr = __cpu_to_le32(nr);
	return roots->length > NAMES_MAX ? -ENOSPC : 0;
}

/* Writes the roots, if they have not changed since. */
static int put_roots(struct lsm *lsm, struct roots *roots, unsigned int flags)
{
	struct lsmem_op op = {
		.size = sizeof(op), .op = LSMEM_OP_ALLOC, .flags = LSMEM_OPF_INDEX | (flags & LSM_DURABLE),
		.handle = index_of(lsm), .data = (uintptr_t)roots->bytes, .length = (uint32_t)roots->length,
	};

	if (!roots->handle)
		return lsm->call(lsm, LSMEM_IOC_ALLOC, &op);
	return lsm_replace(lsm, roots->handle, roots->bytes, roots->length,
			   (flags & LSM_DURABLE) | LSM_EXPECT, &roots->version);
}

/* Did another caller come first? */
static bool lost_race(const struct roots *roots, int error)
{
	return error == -EILSEQ || error == -ESTALE || error == -EEXIST || (error == -EBUSY && !roots->handle);
}

int lsm_root_set(struct lsm *lsm, const char *name, uint64_t handle, unsigned int flags, const uint64_t *expected)
{
	struct roots roots;
	struct found found;
	int ret = check_name(name);
	uint64_t present;

	if (ret || flags & ~LSM_DURABLE)
		return -EINVAL;
	do {
		ret = get_roots(lsm, &roots);
		if (ret)
			return ret;
		present = find_root(&roots, name, &found) ? found.handle : 0;
		if (expected && present != *expected)
			ret = -EILSEQ;
		else if (present == handle && !(flags & LSM_DURABLE))
			ret = 0;	/* it is so */
		else
			ret = change_root(&roots, name, handle) ?: put_roots(lsm, &roots, flags);
		free(roots.bytes);
		if (expected && present != *expected)
			return ret;
	} while (lost_race(&roots, ret));	/* each time another caller has made progress */
	return ret;
}

int lsm_root_get(struct lsm *lsm, const char *name, uint64_t *handle)
{
	struct roots roots;
	struct found found;
	int ret = check_name(name);

	if (!ret)
		ret = get_roots(lsm, &roots);
	if (ret)
		return ret;
	ret = find_root(&roots, name, &found) ? 0 : -ENOENT;
	if (!ret)
		*handle = found.handle;
	free(roots.bytes);
	return ret;
}

ssize_t lsm_root_list(struct lsm *lsm, struct lsm_root *list, size_t nr)
{
	size_t at = sizeof(struct lsmem_roots), found_nr = 0;
	struct roots roots;
	struct found found;
	int ret = get_roots(lsm, &roots);

	if (ret)
		return ret;
	for (; root_at(&roots, at, &found); at += found.size, found_nr++) {
		if (found_nr >= nr)
			continue;
		list[found_nr] = (struct lsm_root){ .handle = found.handle };
		memcpy(list[found_nr].name, found.name, found.length);
	}
	free(roots.bytes);
	return (ssize_t)found_nr;
}
