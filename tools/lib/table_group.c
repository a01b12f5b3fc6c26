// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: groups of keys: several items are put, removed or checked, all or none.
 *
 * The kernel changes and checks objects all or none (LSM_ATOMIC); the index says which objects.  A key that is
 * there is replaced or checked without a lock, as by lsm_table_put(): if its object is freed meanwhile, the kernel
 * refuses the group, and all begins anew.  A key that comes, goes or must not be there needs the lock of its
 * stripe, from the look at it until the index is as the store is.  Stripes are locked in the order of tables, then
 * of stripes.
 *
 * Before the kernel is asked, each key that comes has a slot, with LSM_SLOT_PENDING for its object: then the index
 * has room, and nothing can fail once the kernel has made the group.  Who looks for such a key waits for the lock of
 * its stripe: who has seen one change of a group sees all keys that it adds.  A process that dies in between leaves
 * its stripes locked: the next client makes them anew from the objects, of which all of the group are there or none.
 */
#include <errno.h>
#include <stdlib.h>

#include "table.h"

#define MOST		256u		/* operations of a group */
#define AGAIN		1

/**
 * struct member - an item of a group
 * @item: of the caller
 * @key: its key
 * @object: LSM_ITEM_PUT: bytes of the object
 * @bytes: of @object
 * @locks: the lock of its stripe is needed
 * @found: if @there
 * @there: the key is
 * @pending: it has a slot, but no object
 * @op: its operation; NULL: none
 */
struct member {
	struct lsm_item_op *item;
	struct lsm_key key;
	uint8_t *object;
	size_t bytes;
	bool locks;
	struct lsm_item found;
	bool there;
	bool pending;
	struct lsmem_op *op;
};

struct stripe {
	struct lsm_table *table;
	uint32_t number;
};

/**
 * struct group - a group of keys
 * @lsm: store
 * @members: items, @nr
 * @nr: see @members
 * @stripes: to be locked, or locked, @nr_stripes
 * @nr_stripes: see @stripes
 * @ops: for the kernel: first those of the caller, @given, then those of members; @nr_ops
 * @nr_ops: see @ops
 * @given: see @ops
 * @callers: the first of the caller's
 * @stride: bytes from one of these to the next
 * @objects: all of members
 */
struct group {
	struct lsm *lsm;
	struct member members[MOST];
	size_t nr;
	struct stripe stripes[MOST];
	size_t nr_stripes;
	struct lsmem_op ops[MOST];
	size_t nr_ops;
	size_t given;
	struct lsmem_op *callers;
	size_t stride;
	uint8_t *objects;
};

/* ---- Begin --------------------------------------------------------------------- */

static int check_item(const struct group *group, const struct lsm_item_op *item)
{
	static const uint32_t allowed[] = {
		[LSM_ITEM_PUT] = LSM_EXPECT | LSM_NEW | LSM_OLD,
		[LSM_ITEM_REMOVE] = LSM_EXPECT,
		[LSM_ITEM_CHECK] = LSM_EXPECT | LSM_NEW,
	};

	if (!item->table || item->table->lsm != group->lsm || !item->op || item->op > LSM_ITEM_CHECK ||
	    item->flags & ~allowed[item->op] || (item->op != LSM_ITEM_PUT && item->length))
		return -EINVAL;
	return lsm_table_check_put(item->table, item->key_length, item->length, item->flags);
}

static bool same_key(const struct member *a, const struct member *b)
{
	return a->key.hash == b->key.hash && a->item->table->id == b->item->table->id &&
	       a->key.length == b->key.length && !memcmp(a->key.bytes, b->key.bytes, a->key.length);
}

static int add_member(struct group *group, struct lsm_item_op *item)
{
	struct member *member = &group->members[group->nr];
	size_t i;
	int ret;

	ret = check_item(group, item);
	if (!ret)
		ret = lsm_table_make_key(item->table, item->key, item->key_length, &member->key);
	if (ret)
		return ret;
	member->item = item;
	for (i = 0; i < group->nr; i++)
		if (same_key(&group->members[i], member))
			return -EINVAL;
	member->bytes = item->op == LSM_ITEM_PUT ? item->length + lsm_tail_bytes(item->key_length) : 0;
	group->nr++;
	lsm_index_prefetch(item->table->index, member->key.hash);
	return 0;
}

static int make_objects(struct group *group)
{
	size_t bytes = 0, i;
	uint8_t *at;

	for (i = 0; i < group->nr; i++)
		bytes += group->members[i].bytes;
	if (bytes > LSMEM_OBJECT_MAX)
		return -E2BIG;
	at = group->objects = malloc(bytes + 1);
	if (!at)
		return -ENOMEM;
	for (i = 0; i < group->nr; i++) {
		struct member *member = &group->members[i];

		member->object = at;
		if (member->bytes)
			lsm_table_fill(at, &member->key, member->item->value, member->item->length);
		at += member->bytes;
	}
	return 0;
}

/* ---- Find, and lock -------------------------------------------------------------- */

/* Finds a key, and says whether it is as the operation needs it. */
static int look(struct member *member, bool locked)
{
	struct lsm_item_op *item = member->item;
	struct lsm_probe probe;
	int ret = lsm_table_find(item->table, &member->key, locked, NULL, 0, &member->found, &probe);

	if (ret < 0)
		return ret;
	member->there = ret;
	if (member->there)
		return item->flags & LSM_NEW ? -EEXIST : 0;
	if (item->op == LSM_ITEM_PUT)
		return item->flags & (LSM_OLD | LSM_EXPECT) ? -ENOENT : 0;
	return item->flags & LSM_NEW ? 0 : -ENOENT;
}

/* Looks at all keys, or again at those whose stripes are locked. */
static int look_all(struct group *group, bool locked)
{
	size_t i;
	int ret;

	for (i = 0; i < group->nr; i++) {
		struct member *member = &group->members[i];

		if (locked && !member->locks)
			continue;
		ret = look(member, locked);
		if (ret) {
			member->item->result = ret;
			return ret;
		}
		member->locks = locked || !member->there || member->item->op == LSM_ITEM_REMOVE;
	}
	return 0;
}

static int compare_stripes(const void *a, const void *b)
{
	const struct stripe *one = a, *other = b;

	if (one->table->id != other->table->id)
		return one->table->id < other->table->id ? -1 : 1;
	return one->number < other->number ? -1 : one->number > other->number;
}

static void unlock_all(struct group *group)
{
	while (group->nr_stripes) {
		const struct stripe *stripe = &group->stripes[--group->nr_stripes];

		lsm_index_unlock(stripe->table->index, stripe->number);
	}
}

static int lock_all(struct group *group)
{
	struct stripe *stripes = group->stripes;
	size_t nr = 0, i;
	int ret;

	for (i = 0; i < group->nr; i++)
		if (group->members[i].locks)
			stripes[nr++] = (struct stripe){ group->members[i].item->table,
							 lsm_stripe_of(group->members[i].key.hash) };
	qsort(stripes, nr, sizeof(*stripes), compare_stripes);
	for (i = 0; i < nr; i++) {
		if (group->nr_stripes && !compare_stripes(&stripes[i], &stripes[group->nr_stripes - 1]))
			continue;
		ret = lsm_index_lock(stripes[i].table->index, stripes[i].number);
		if (ret)
			return ret;
		stripes[group->nr_stripes++] = stripes[i];
	}
	return 0;
}

/* ---- The index -------------------------------------------------------------------- */

/* The slot of a key that has this object.  The lock of its stripe is held; slots move when others are entered. */
static _Atomic uint64_t *slot_of(const struct member *member, uint64_t object)
{
	struct lsm_probe probe;

	lsm_probe_begin(&probe, member->item->table->index, member->key.hash, true);
	while (lsm_probe_next(&probe) > 0)
		if ((probe.value & LSM_SLOT_INDEX) == object)
			return probe.slot;
	return NULL;	/* a process has written to the index what it likes */
}

/* Gives each key that comes a slot. */
static int enter_all(struct group *group)
{
	size_t i;
	int ret;

	for (i = 0; i < group->nr; i++) {
		struct member *member = &group->members[i];

		if (member->item->op != LSM_ITEM_PUT || member->there)
			continue;
		ret = lsm_index_insert(member->item->table->index, member->key.hash, LSM_SLOT_PENDING);
		if (ret) {
			member->item->result = ret;
			return ret;
		}
		member->pending = true;
	}
	return 0;
}

/* The group was not made: keys that were to come have none any more. */
static void leave_all(struct group *group)
{
	_Atomic uint64_t *slot;
	size_t i;

	for (i = 0; i < group->nr; i++) {
		struct member *member = &group->members[i];

		slot = member->pending ? slot_of(member, LSM_SLOT_PENDING) : NULL;
		if (slot)
			lsm_index_clear(member->item->table->index, lsm_stripe_of(member->key.hash), slot);
		member->pending = false;
	}
}

/* A key has come: its slot leads to its object. */
static void arrive(const struct member *member)
{
	struct lsm_item_op *item = member->item;
	_Atomic uint64_t *slot = slot_of(member, LSM_SLOT_PENDING);

	if (slot)
		atomic_store_explicit(slot, (*slot & ~LSM_SLOT_INDEX) | lsmem_handle_index(item->handle),
				      memory_order_release);
	/*
	 * The object is there: one that cannot be replaced keeps its version.  Until it has a higher one, a crash that
	 * loses the removal of an older item of the key brings that back.
	 */
	lsm_table_exceed(item->table, &member->key, item->handle, member->object, member->bytes, &item->version);
}

/* The group was made: the index becomes as the store is. */
static void settle(struct group *group)
{
	size_t i;

	for (i = 0; i < group->nr; i++) {
		struct member *member = &group->members[i];
		struct lsm_item_op *item = member->item;
		_Atomic uint64_t *slot;

		item->version = member->op ? member->op->version : 0;
		item->handle = member->op ? member->op->handle : 0;
		if (member->pending) {
			arrive(member);
		} else if (item->op == LSM_ITEM_REMOVE) {
			slot = slot_of(member, lsmem_handle_index(item->handle));
			if (slot)
				lsm_table_forget(item->table, lsm_stripe_of(member->key.hash), slot, item->version);
		}
	}
}

/* ---- The kernel -------------------------------------------------------------------- */

static struct lsmem_op member_op(const struct member *member)
{
	const struct lsm_item_op *item = member->item;
	unsigned int flags = item->flags & LSM_EXPECT;

	if (item->op == LSM_ITEM_REMOVE)
		return lsm_op_free(member->found.handle, flags, item->version);
	if (item->op == LSM_ITEM_CHECK)
		return lsm_op_check(member->found.handle, flags, item->version);
	if (member->there)
		return lsm_op_replace(member->found.handle, member->object, (uint32_t)member->bytes, flags, item->version);
	return lsm_op_alloc(member->object, (uint32_t)member->bytes, LSM_TABLE(item->table->id));
}

static void make_ops(struct group *group)
{
	size_t i;

	for (i = 0; i < group->given; i++) {
		memset(&group->ops[i], 0, sizeof(group->ops[i]));
		memcpy(&group->ops[i], lsm_op_at(group->callers, group->stride, i), group->stride);
		group->ops[i].size = sizeof(group->ops[i]);
	}
	group->nr_ops = group->given;
	for (i = 0; i < group->nr; i++) {
		struct member *member = &group->members[i];

		member->op = NULL;
		if (!member->there && member->item->op == LSM_ITEM_CHECK)
			continue;
		member->op = &group->ops[group->nr_ops++];
		*member->op = member_op(member);
	}
}

/* The kernel has refused the group.  Return: AGAIN: an object of a key has gone; @ret. */
static int refused(struct group *group, int ret)
{
	size_t i;

	for (i = 0; i < group->nr; i++) {
		const struct member *member = &group->members[i];

		if (!member->op || member->op->result != ret)
			continue;
		if (ret == -ESTALE || ret == -ENOENT)
			return AGAIN;
		member->item->result = ret;
		if (ret == -EILSEQ)
			member->item->version = member->op->version;
	}
	return ret;
}

/* What the caller's own operations have become. */
static void give_back(struct group *group, int ret)
{
	size_t i;

	for (i = 0; i < group->given; i++) {
		struct lsmem_op *op = lsm_op_at(group->callers, group->stride, i);
		__u32 size = op->size;

		if (ret && (!group->nr_ops || group->ops[i].result != ret)) {
			op->result = -ECANCELED;
			continue;
		}
		memcpy(op, &group->ops[i], group->stride);
		op->size = size;
		op->result = ret;
	}
}

/* Return: 0; -ETIMEDOUT: made, but not known to be durable; AGAIN; a negative errno. */
static int attempt(struct group *group, unsigned int flags, bool *made)
{
	bool sync = false;
	size_t i;
	int ret;

	ret = look_all(group, false);
	if (!ret)
		ret = lock_all(group);
	if (!ret)
		ret = look_all(group, true);
	if (!ret)
		ret = enter_all(group);
	if (!ret) {
		make_ops(group);
		/* No wait for durability with locks. */
		sync = group->nr_stripes && flags & LSM_DURABLE;
		if (group->nr_ops)
			ret = lsm_vector(group->lsm, group->ops, group->nr_ops, LSM_ATOMIC | (sync ? 0 : flags), NULL);
		if (ret)
			ret = refused(group, ret);
	}
	*made = !ret;
	if (ret)
		leave_all(group);
	else
		settle(group);
	unlock_all(group);
	if (ret)
		return ret;
	for (i = 0; i < group->nr_ops; i++)
		if (group->ops[i].result)
			ret = group->ops[i].result;
	return sync ? lsm_sync(group->lsm, 0) : ret;
}

/* Prepares a group, and makes it. */
static int carry_out(struct group *group, struct lsm_item_op *items, size_t nr, unsigned int flags, bool *made)
{
	size_t i;
	int ret;

	for (i = 0; i < nr; i++) {
		ret = add_member(group, &items[i]);
		if (ret) {
			items[i].result = ret;
			return ret;
		}
	}
	ret = make_objects(group);
	while (!ret && (ret = attempt(group, flags, made)) == AGAIN)
		ret = 0;
	return ret;
}

int lsm_table_group(struct lsm *lsm, struct lsm_item_op *items, size_t nr, struct lsmem_op *ops, size_t nr_ops,
		    unsigned int flags)
{
	struct group *group;
	bool made = false;
	size_t i;
	int ret;

	if (flags & ~LSM_DURABLE)
		return -EINVAL;
	if (flags & LSM_DURABLE && !lsm->durable)
		return -EOPNOTSUPP;
	if (nr > MOST || nr_ops > MOST - nr || (nr_ops && lsm_op_stride(ops) > sizeof(*ops)))
		return -E2BIG;
	group = calloc(1, sizeof(*group));
	if (!group)
		return -ENOMEM;
	group->lsm = lsm;
	group->callers = ops;
	group->given = nr_ops;
	group->stride = nr_ops ? lsm_op_stride(ops) : 0;
	for (i = 0; i < nr; i++)
		items[i].result = -ECANCELED;
	ret = carry_out(group, items, nr, flags, &made);
	for (i = 0; made && i < nr; i++)
		items[i].result = 0;
	give_back(group, made ? 0 : ret);
	free(group->objects);
	free(group);
	return ret;
}
