// SPDX-License-Identifier: GPL-2.0
/*
 * The root of a range of pages, and what the bytes of a page become in an object.
 */
#include "../uapi/lsmem.h"
#include "handle.h"
#include "root.h"
#include "store.h"

/**
 * lsmem_range_create - make a range that is all holes
 * @store: active, object kind
 * @flags: LSMEM_PAGES_POOL, LSMEM_PAGES_ATOMIC
 * @table: table id of its objects
 * @length: bytes, at most LSMEM_PAGES_LENGTH_MAX
 * @root: out: handle of its root
 *
 * Context: sleeps.  Return: 0, or an error of lsmem_handle_alloc() or lsmem_group_change().
 */
int lsmem_range_create(struct lsmem_store *store, u32 flags, u32 table, u64 length, u64 *root)
{
	struct lsmem_pages_root payload = {
		.magic = cpu_to_le64(LSMEM_PAGES_MAGIC),
		.flags = cpu_to_le32(flags),
		.table = cpu_to_le32(table),
		.length = cpu_to_le64(length),
	};
	struct lsmem_change change = {
		.op = LSMEM_OP_ALLOC, .table = table, .data = &payload, .length = sizeof(payload),
	};
	struct lsmem_place place = { };
	int ret;

	ret = lsmem_handle_alloc(store, &change.handle);
	if (ret)
		return ret;
	ret = lsmem_group_change(store, &change, 1, &place);
	if (ret)
		lsmem_handle_free(store, change.handle);
	*root = change.handle;
	return ret;
}

/**
 * lsmem_range_forget_root - undo lsmem_range_create()
 * @store: active
 * @root: of a range that never was open
 *
 * Context: sleeps.
 */
void lsmem_range_forget_root(struct lsmem_store *store, u64 root)
{
	struct lsmem_change change = { .op = LSMEM_OP_FREE, .handle = root };
	struct lsmem_place place = { };
	int ret = lsmem_group_change(store, &change, 1, &place);

	if (ret)
		pr_err_ratelimited("%s: the root %llx of a range of pages could not be freed (error %d)\n",
				   store->name, root, ret);
}

/**
 * lsmem_range_root_sane - is an object a root?
 * @root: its payload
 * @length: of it, bytes
 */
bool lsmem_range_root_sane(const struct lsmem_pages_root *root, u32 length)
{
	u32 known = LSMEM_PAGES_POOL | LSMEM_PAGES_ATOMIC;

	return length == sizeof(*root) && le64_to_cpu(root->magic) == LSMEM_PAGES_MAGIC &&
	       !(le32_to_cpu(root->flags) & ~known) && le32_to_cpu(root->table) < LSMEM_TABLES &&
	       le64_to_cpu(root->length) <= LSMEM_PAGES_LENGTH_MAX &&
	       le32_to_cpu(root->levels) <= LSMEM_TREE_LEVELS && !root->levels == !root->top &&
	       le32_to_cpu(root->stage) <= LSMEM_JOURNAL_MADE && !root->stage == !root->journal;
}

/**
 * lsmem_page_bytes - bytes of a page of a region that its object has
 * @data: LSMEM_BLOCK bytes
 * Return: without the zeroes at the end.
 */
u32 lsmem_page_bytes(const void *data)
{
	const u64 *words = data;
	u32 nr = LSMEM_BLOCK / sizeof(*words), length;

	while (nr && !words[nr - 1])
		nr--;
	length = nr * sizeof(*words);
	while (length && !((const u8 *)data)[length - 1])
		length--;
	return length;
}
