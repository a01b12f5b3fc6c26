// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges of pages: a root, a tree, and an object for each page.
 *
 * What a range is in the log changes by groups, each of which takes it from one whole state to the next:
 * pages, nodes of the tree, root; or, where that is too small for what is to be whole, by a journal.  What is to become of pages until the next group is in
 * memory: their bytes in the page cache (pages.c), and here, in @pending, by page,
 *
 *	FREED		its object is to be freed
 *	a new object	of a pool: its handle is given out, and its object not in the log yet
 *
 * A page of a region is written without the zeroes at its end; one that is all zeroes has no object.
 * A page of a pool has the length that its object has.
 *
 * Source of the idea of pages that are objects: Badam and Pai, "SSDAlloc: Hybrid SSD/RAM Memory
 * Management Made Easy", NSDI 2011.
 *
 * Locks: range->lock; shared to look, exclusive to load a node and to write; see store.h for the order.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "../uapi/lsmem.h"
#include "durable.h"
#include "fetch.h"
#include "handle.h"
#include "journal.h"
#include "object.h"
#include "range.h"
#include "store.h"
#include "trace.h"

#define LSMEM_PAGE_FREED	xa_mk_value(0)
#define LSMEM_RANGE_NODES	32u	/* dirty nodes that a group takes beside those of its pages */
/* Nodes that one more page may make dirty: its tree grows, and those above it. */
#define LSMEM_RANGE_ADDS	(2 * LSMEM_TREE_LEVELS)

/* A new object of a pool. */
struct lsmem_range_new {
	u64 handle;
	u32 length;
};

/* ---- Open, close --------------------------------------------------------- */

/**
 * lsmem_range_open - begin to use a range
 * @range: zeroed, or closed
 * @store: active, object kind; held by the caller
 * @root: handle of its root
 *
 * Context: sleeps.  Return: 0; -EBADMSG: it is no root; as lsmem_object_get(), lsmem_journal_open().
 */
int lsmem_range_open(struct lsmem_range *range, struct lsmem_store *store, u64 root)
{
	struct lsmem_pages_root payload;
	u32 length;
	int ret;

	ret = lsmem_object_get(store, root, &payload, sizeof(payload), &length);
	if (ret)
		return ret;
	if (!lsmem_range_root_sane(&payload, length))
		return -EBADMSG;
	range->store = store;
	range->root = root;
	range->flags = le32_to_cpu(payload.flags);
	range->table = le32_to_cpu(payload.table);
	range->length = le64_to_cpu(payload.length);
	range->logged = payload;
	init_rwsem(&range->lock);
	xa_init_flags(&range->pending, XA_FLAGS_ACCOUNT);
	lsmem_tree_init(&range->tree, store, range->table, le32_to_cpu(payload.levels),
			le64_to_cpu(payload.top));
	ret = lsmem_journal_open(range);
	if (ret)
		lsmem_range_close(range);
	return ret;
}

/**
 * lsmem_range_close - forget a range
 * @range: opened; what has not been written is lost.  It can be closed again
 */
void lsmem_range_close(struct lsmem_range *range)
{
	unsigned long page;
	void *entry;

	xa_for_each(&range->pending, page, entry) {
		if (xa_is_value(entry))
			continue;
		lsmem_handle_free(range->store, ((struct lsmem_range_new *)entry)->handle);
		kfree(entry);
	}
	xa_destroy(&range->pending);
	lsmem_journal_close(range);
	lsmem_tree_destroy(&range->tree);
}

/* ---- Look ---------------------------------------------------------------- */

/* The handle of a page, and what is pending for it. */
static int lsmem_range_look(struct lsmem_range *range, u64 page, u64 *handle, void **pending)
{
	int ret;

	if (down_read_killable(&range->lock))
		return -EINTR;
	ret = lsmem_tree_peek(&range->tree, page, handle);
	*pending = xa_load(&range->pending, page);
	up_read(&range->lock);
	if (ret != -EAGAIN)
		return ret;
	if (down_write_killable(&range->lock))
		return -EINTR;
	ret = lsmem_tree_find(&range->tree, page, handle);
	*pending = xa_load(&range->pending, page);
	up_write(&range->lock);
	return ret;
}

static bool lsmem_range_cold(struct lsmem_store *store, u64 handle)
{
	struct lsmem_handle *h;

	return store->tier.on && !lsmem_handle_find(store, handle, &h) &&
	       lsmem_word_state(READ_ONCE(h->word)) == LSMEM_WORD_COLD;
}

/**
 * lsmem_range_read - what a page holds
 * @range: open
 * @page: its number
 * @to: LSMEM_BLOCK bytes
 * @asked: lsmem_range_ask() had its object fetched, which may have come meanwhile
 *
 * Context: sleeps, also for an object that is on backups only.
 * Return: 0; -ENXIO: a page of a pool that has no object; -EIO: its object, or a node, is missing, or
 * no backup has it; -ETIMEDOUT, -EINTR, -ENOMEM.
 */
int lsmem_range_read(struct lsmem_range *range, u64 page, void *to, bool asked)
{
	u64 handle = 0, last;
	bool cold = false;
	void *pending;
	u32 length;
	int ret;

	do {
		last = handle;
		ret = lsmem_range_look(range, page, &handle, &pending);
		if (ret)
			return ret;
		length = 0;
		if (!handle || pending)
			break;
		cold |= asked || lsmem_range_cold(range->store, handle);
		ret = lsmem_object_get(range->store, handle, to, LSMEM_BLOCK, &length);
		/* Freed meanwhile, and perhaps written anew: look again. */
	} while ((ret == -ENOENT || ret == -ESTALE) && handle != last);
	if (!ret && length > LSMEM_BLOCK)
		ret = -EBADMSG;
	if (ret == -ENOENT || ret == -ESTALE || ret == -EBADMSG) {
		pr_err_ratelimited("%s: a range of pages (root %llx): the object of page %llu (%llx) is %s\n",
				   range->store->name, range->root, page, handle,
				   ret == -EBADMSG ? "too long" : "missing");
		return -EIO;
	}
	if (ret)
		return ret;
	if (range->flags & LSMEM_PAGES_POOL && (pending ? xa_is_value(pending) : !handle))
		return -ENXIO;
	if (length && cold)
		lsmem_count(range->store, pages_fetched, 1);
	else if (length)
		lsmem_count(range->store, pages_read, 1);
	memset(to + length, 0, LSMEM_BLOCK - length);
	return 0;
}

/**
 * lsmem_range_ask - a page will be read: have its object brought into memory
 * @range: open
 * @page: its number
 *
 * Return: true if the object was on backups only: its read is then counted as fetched, also if it is
 * in memory by then.
 */
bool lsmem_range_ask(struct lsmem_range *range, u64 page)
{
	struct lsmem_store *store = range->store;
	struct lsmem_handle *h;
	u64 handle, word;
	bool cold;
	int ret;

	if (!store->tier.on)
		return false;
	down_read(&range->lock);
	ret = lsmem_tree_peek(&range->tree, page, &handle);
	up_read(&range->lock);
	if (ret || !handle || lsmem_handle_find(store, handle, &h))
		return false;
	rcu_read_lock();
	word = READ_ONCE(h->word);
	cold = lsmem_word_state(word) == LSMEM_WORD_COLD;
	if (cold)
		lsmem_fetch_ask(store, lsmem_handle_index(handle), word);
	rcu_read_unlock();
	return cold;
}

/* ---- Write --------------------------------------------------------------- */

/**
 * struct lsmem_range_group - a group that is being made
 * @range: locked
 * @pages: which are to be written
 * @taken: of them, how many are in the group
 * @whole: it takes all that is to be written, or is not made
 * @names: it has more than new versions of pages: later groups may name what it names
 * @nr: changes
 * @bytes: of @changes, by lsmem_group_bytes()
 * @freed: of @range->nr_freed, how many are in the group
 * @set: pages whose handle in the tree was changed
 * @undone: of them, how many are to be set back after an error
 * @changes: one for each page, for each that is freed, for nodes, and for the root
 * @undo: see @set
 * @root: payload that the root has after the group
 */
struct lsmem_range_group {
	struct lsmem_range *range;
	struct lsmem_range_page *pages;
	u32 taken;
	bool whole;
	bool names;
	u32 nr;
	u32 bytes;
	u64 freed;
	u32 set;
	u32 undone;
	struct lsmem_change changes[LSMEM_GROUP_MAX];
	struct {
		u64 page;
		u64 handle;
		u64 given;	/* handle that was given out for this group, 0: none */
	} undo[LSMEM_GROUP_MAX];
	struct lsmem_pages_root root;
};

/* Is there room for one more change of @length bytes, and for all dirty nodes and the root? */
static bool lsmem_range_fits(const struct lsmem_range_group *group, u32 length)
{
	u32 nodes = group->range->tree.nr_dirty + LSMEM_RANGE_ADDS;

	return group->nr + 1 + nodes + 1 <= LSMEM_GROUP_MAX &&
	       group->bytes + lsmem_group_bytes(length) + nodes * lsmem_group_bytes(LSMEM_BLOCK) +
	       lsmem_group_bytes(sizeof(group->root)) <= lsmem_group_room();
}

static void lsmem_range_add(struct lsmem_range_group *group, u32 op, u64 handle, const void *data,
			    u32 length)
{
	group->changes[group->nr++] = (struct lsmem_change){
		.op = op,
		.table = op == LSMEM_OP_ALLOC ? group->range->table : 0,
		.handle = handle,
		.data = data,
		.length = length,
	};
	group->bytes += lsmem_group_bytes(length);
}

/* Change the handle of a page from @old, so that it can be undone. */
static int lsmem_range_set(struct lsmem_range_group *group, u64 page, u64 old, u64 new, u64 given)
{
	int ret = lsmem_tree_set(&group->range->tree, page, new);

	if (ret)
		return ret;
	group->undo[group->undone].page = page;
	group->undo[group->undone].handle = old;
	group->undo[group->undone].given = given;
	group->undone++;
	return 0;
}

/* Set back what the last changes of handles were, down to @to. */
static void lsmem_range_undo(struct lsmem_range_group *group, u32 to)
{
	while (group->undone > to) {
		u32 i = --group->undone;

		/* Its node is loaded. */
		WARN_ON_ONCE(lsmem_tree_set(&group->range->tree, group->undo[i].page,
					    group->undo[i].handle));
		if (group->undo[i].given)
			lsmem_handle_free(group->range->store, group->undo[i].given);
	}
}

/* Add a page of a pool. */
static int lsmem_range_add_object(struct lsmem_range_group *group, struct lsmem_range_page *page,
				  u64 handle, void *pending)
{
	struct lsmem_range *range = group->range;
	struct lsmem_range_new *new = pending;
	u32 length;
	int ret;

	if (pending && !xa_is_value(pending)) {
		ret = lsmem_range_set(group, page->page, handle, new->handle, 0);
		if (!ret)
			lsmem_range_add(group, LSMEM_OP_ALLOC, new->handle, page->data, new->length);
		return ret;
	}
	if (pending || !handle) {	/* freed since it was written to */
		page->error = -EIO;
		return 0;
	}
	ret = lsmem_object_get(range->store, handle, NULL, 0, &length);
	if (lsmem_range_gone(ret) || (!ret && length > LSMEM_BLOCK)) {
		page->error = -EIO;	/* another client, that knows the handle, has freed it */
		return 0;
	}
	if (!ret)
		lsmem_range_add(group, LSMEM_OP_REPLACE, handle, page->data, length);
	return ret;
}

/* Add a page to the group. */
static int lsmem_range_add_page(struct lsmem_range_group *group, struct lsmem_range_page *page)
{
	struct lsmem_range *range = group->range;
	void *pending = xa_load(&range->pending, page->page);
	u64 handle, new;
	u32 length;
	int ret;

	page->error = 0;
	ret = lsmem_tree_find(&range->tree, page->page, &handle);
	if (ret)
		return ret;
	if (range->flags & LSMEM_PAGES_POOL)
		return lsmem_range_add_object(group, page, handle, pending);
	if (pending) {		/* it was freed, and written to since */
		xa_erase(&range->pending, page->page);
		range->nr_freed--;
	}
	length = lsmem_page_bytes(page->data);
	if (length && handle) {
		lsmem_range_add(group, LSMEM_OP_REPLACE, handle, page->data, length);
		return 0;
	}
	if (!length) {
		if (!handle)
			return 0;
		ret = lsmem_range_set(group, page->page, handle, 0, 0);
		if (!ret)
			lsmem_range_add(group, LSMEM_OP_FREE, handle, NULL, 0);
		return ret;
	}
	ret = lsmem_handle_alloc(range->store, &new);
	if (ret)
		return ret;
	ret = lsmem_range_set(group, page->page, 0, new, new);
	if (ret) {
		lsmem_handle_free(range->store, new);
		return ret;
	}
	lsmem_range_add(group, LSMEM_OP_ALLOC, new, page->data, length);
	return 0;
}

/* Take pages until there is no room. */
static int lsmem_range_add_pages(struct lsmem_range_group *group, u32 nr)
{
	for (group->taken = 0; group->taken < nr; group->taken++) {
		u32 changes = group->nr, bytes = group->bytes, undone = group->undone;
		int ret;

		if (!lsmem_range_fits(group, LSMEM_BLOCK))
			break;
		ret = lsmem_range_add_page(group, &group->pages[group->taken]);
		if (ret)
			return ret;
		/* It may have made more nodes dirty than there is room for. */
		if (group->nr > changes && group->taken && !lsmem_range_fits(group, 0)) {
			lsmem_range_undo(group, undone);
			group->nr = changes;
			group->bytes = bytes;
			break;
		}
	}
	return 0;
}

/* Add pages that are to be freed, while there is room. */
static int lsmem_range_add_freed(struct lsmem_range_group *group)
{
	struct lsmem_range *range = group->range;
	unsigned long page;
	void *entry;
	u64 handle;
	int ret;

	if (!range->nr_freed)
		return 0;
	xa_for_each(&range->pending, page, entry) {
		if (!xa_is_value(entry))
			continue;
		if (!lsmem_range_fits(group, 0))
			break;
		ret = lsmem_tree_find(&range->tree, page, &handle);
		if (!ret && handle)
			ret = lsmem_range_set(group, page, handle, 0, 0);
		if (ret)
			return ret;
		if (handle) {
			lsmem_range_add(group, LSMEM_OP_FREE, handle, NULL, 0);
			group->freed++;
		} else {	/* its object is gone: lsmem_range_forget() */
			xa_erase(&range->pending, page);
			range->nr_freed--;
		}
	}
	return 0;
}

/*
 * Plan the group.  Nodes that a group left which failed go first, alone, if they are many.  A shorter
 * length comes with the last of the pages that it frees: what is behind it never comes back.
 */
static int lsmem_range_plan(struct lsmem_range_group *group, u32 nr)
{
	struct lsmem_range *range = group->range;
	int ret = 0;
	u64 length;

	group->nr = 0;
	group->bytes = 0;
	group->undone = 0;
	group->taken = 0;
	group->freed = 0;
	if (range->tree.nr_dirty <= LSMEM_RANGE_NODES) {
		ret = lsmem_range_add_pages(group, nr);
		if (!ret)
			ret = lsmem_range_add_freed(group);
	}
	if (!ret)
		ret = lsmem_tree_changes(&range->tree, group->changes, &group->nr,
					 LSMEM_GROUP_MAX - 1);
	if (ret)
		return ret;
	group->names = group->undone || range->tree.nr_taken;
	if (range->tree.nr_taken < range->tree.nr_dirty) {
		group->root = range->logged;
		return 0;
	}
	length = group->freed == range->nr_freed ? range->length :
		 max(range->length, le64_to_cpu(range->logged.length));
	group->root = range->logged;
	group->root.length = cpu_to_le64(length);
	group->root.top = cpu_to_le64(range->tree.top);
	group->root.levels = cpu_to_le32(range->tree.levels);
	if (memcmp(&group->root, &range->logged, sizeof(group->root))) {
		group->names = true;
		lsmem_range_add(group, LSMEM_OP_REPLACE, range->root, &group->root,
				sizeof(group->root));
	}
	return 0;
}

/* Another client was faster than a change of the group that has been made. */
static void lsmem_range_lost(struct lsmem_range_group *group, const struct lsmem_change *change)
{
	struct lsmem_range *range = group->range;
	u32 i;

	if (change->op == LSMEM_OP_FREE)
		return;
	for (i = 0; i < group->taken; i++) {
		if (group->pages[i].data != change->data)
			continue;
		group->pages[i].error = -EAGAIN;	/* to be written again, as a new object */
		if (lsmem_range_gone(change->result))
			lsmem_tree_set(&range->tree, group->pages[i].page, 0);
		return;
	}
	pr_err_ratelimited("%s: a range of pages (root %llx): another client has changed its object %llx (error %d)\n",
			   range->store->name, range->root, change->handle, change->result);
}

/* The pages of the group are in the log: nothing is pending for them. */
static void lsmem_range_settle(struct lsmem_range_group *group)
{
	struct lsmem_range *range = group->range;
	void *entry;
	u32 i;

	lsmem_tree_done(&range->tree);
	range->logged = group->root;
	for (i = 0; i < group->nr; i++)
		if (group->changes[i].result)
			lsmem_range_lost(group, &group->changes[i]);
	for (i = 0; i < group->taken + group->undone && !xa_empty(&range->pending); i++) {
		entry = xa_erase(&range->pending, i < group->taken ? group->pages[i].page :
				 group->undo[i - group->taken].page);
		if (xa_is_value(entry))
			range->nr_freed--;
		else
			kfree(entry);	/* NULL: nothing was pending */
	}
}

/*
 * Forget the object of a change that another client has freed, or that cannot be read: a page of a region
 * gets a new one.  Returns false if there is none.
 */
static bool lsmem_range_forget(struct lsmem_range_group *group)
{
	struct lsmem_range *range = group->range;
	u32 i;

	for (i = 0; i < group->nr; i++) {
		const struct lsmem_change *change = &group->changes[i];
		u32 page;

		if (!lsmem_range_gone(change->result) || change->handle == range->root)
			continue;
		if (change->result != -ENOENT && change->result != -ESTALE)
			pr_err_ratelimited("%s: a range of pages (root %llx): its object %llx cannot be read, or is named twice, and is given up\n",
					   range->store->name, range->root, change->handle);
		for (page = 0; page < group->taken; page++)
			if (group->pages[page].data == change->data && change->data)
				return !lsmem_tree_set(&range->tree, group->pages[page].page, 0);
		for (page = 0; page < group->set; page++)
			if (change->op == LSMEM_OP_FREE &&
			    group->undo[page].handle == change->handle)
				return !lsmem_tree_set(&range->tree, group->undo[page].page, 0);
	}
	return false;
}

/* Does the group take all that is to be written? */
static bool lsmem_range_all(const struct lsmem_range_group *group, u32 nr)
{
	const struct lsmem_range *range = group->range;

	return group->taken == nr && group->freed == range->nr_freed &&
	       range->tree.nr_taken == range->tree.nr_dirty;
}

/* Make a group of the first of @nr pages. Returns -E2BIG if it is to be whole, and is not. */
static int lsmem_range_try(struct lsmem_range_group *group, u32 nr, struct lsmem_place *place)
{
	int ret;

	do {
		ret = lsmem_range_plan(group, nr);
		if (!ret && group->whole && !lsmem_range_all(group, nr))
			ret = -E2BIG;
		if (!ret && group->nr)
			ret = lsmem_group_change(group->range->store, group->changes, group->nr,
						 place);
		group->set = group->undone;
		if (!ret)
			break;
		lsmem_range_undo(group, 0);
	} while (lsmem_range_gone(ret) && lsmem_range_forget(group));
	if (!ret)
		lsmem_range_settle(group);
	return ret;
}

/**
 * lsmem_range_whole - is a write of up to LSMEM_RANGE_WHOLE pages whole after a crash?
 * @range: open
 */
bool lsmem_range_whole(const struct lsmem_range *range)
{
	return range->store->durable && range->flags & LSMEM_PAGES_ATOMIC &&
	       !(range->flags & LSMEM_PAGES_POOL);
}

/* Write as one group, or, if that is too small for what is to be whole, by a journal. */
static int lsmem_range_write_group(struct lsmem_range_group *group, u32 nr)
{
	struct lsmem_range *range = group->range;
	struct lsmem_place place = { };
	int ret;

	down_write(&range->lock);
	/* More than it could take is not tried. */
	ret = group->whole && nr > LSMEM_RANGE_BATCH ? -E2BIG : lsmem_range_try(group, nr, &place);
	if (ret == -ENOSPC && nr && range->nr_freed) {
		group->whole = false;
		ret = lsmem_range_try(group, 0, &place);
	}
	up_write(&range->lock);
	if (!ret) {
		lsmem_count(range->store, pages_written, group->taken);
		lsmem_count(range->store, pages_bytes, group->bytes);
		lsmem_count(range->store, pages_groups, group->nr ? 1 : 0);
		trace_lsmem_pages_write(range->store->name, range->root, group->taken, group->nr,
					group->bytes);
	}
	if (place.segment && (group->names || range->flags & LSMEM_PAGES_ATOMIC))
		range->last = place;
	if (ret != -E2BIG)
		return ret ?: group->taken;
	ret = lsmem_journal_write(range, group->pages, nr);
	if (ret != -E2BIG)
		return ret ?: nr;
	group->whole = false;
	return lsmem_range_write_group(group, nr);
}

/**
 * lsmem_range_write - write pages, and what else is to be written
 * @range: open
 * @pages: in order; their bytes do not change until the call returns
 * @nr: how many, at most LSMEM_RANGE_WHOLE; 0: what else is to be written
 *
 * As one group, which takes up to LSMEM_RANGE_BATCH pages.  Of an atomic region of a durable store all is
 * written, whole, if there is not more than a journal takes.
 *
 * A group may name objects of one before, or have versions of them, and lie in another segment: so in a
 * durable store none is begun before the last one with new names is durable.  Those of an atomic range are
 * all in order.
 *
 * Context: sleeps; one task at a time.
 * Return: how many pages were written, the first; the others are to be written by further calls.  Or an
 * error: then nothing has changed.
 */
int lsmem_range_write(struct lsmem_range *range, struct lsmem_range_page *pages, u32 nr)
{
	struct lsmem_store *store = range->store;
	struct lsmem_range_group *group;
	int ret;
	u32 i;

	if (!lsmem_store_active(store))
		return -EAGAIN;		/* it was destroyed by force */
	ret = lsmem_journal_settle(range);
	if (!ret && store->durable && range->last.segment)
		ret = lsmem_wait_durable(store, &range->last, READ_ONCE(store->repl.flush_ms));
	if (ret)
		return ret;
	group = kvmalloc(sizeof(*group), GFP_NOFS);
	if (!group)
		return -ENOMEM;
	group->range = range;
	group->pages = pages;
	group->whole = lsmem_range_whole(range);
	for (i = 0; i < nr; i++)	/* what is on backups only comes together */
		lsmem_range_ask(range, pages[i].page);
	ret = lsmem_range_write_group(group, nr);
	kvfree(group);
	return ret;
}

/**
 * lsmem_range_unwritten - is something to be written besides pages, and what a journal has made?
 * @range: open
 */
bool lsmem_range_unwritten(struct lsmem_range *range)
{
	bool unwritten;

	down_read(&range->lock);
	unwritten = range->nr_freed || range->length != le64_to_cpu(range->logged.length) ||
		    (!range->journal && (range->tree.nr_dirty || range->tree.root_dirty));
	up_read(&range->lock);
	return unwritten;
}

/* ---- Free, allocate ------------------------------------------------------ */

/**
 * lsmem_range_free - free pages
 * @range: open
 * @from: the first page
 * @to: behind the last; none of them is in the page cache
 *
 * The next lsmem_range_write() frees their objects.
 *
 * Context: sleeps, killable.  Return: 0; -ENOMEM, -EINTR, -EIO: some of the pages are freed.
 */
int lsmem_range_free(struct lsmem_range *range, u64 from, u64 to)
{
	unsigned long page;
	void *entry;
	u64 handle;
	int ret = 0;

	if (from >= to)
		return 0;
	down_write(&range->lock);
	xa_for_each_range(&range->pending, page, entry, from, to - 1) {
		if (xa_is_value(entry))
			continue;
		/* Its object never was in the log. */
		xa_erase(&range->pending, page);
		lsmem_handle_free(range->store, ((struct lsmem_range_new *)entry)->handle);
		kfree(entry);
	}
	while (!ret) {
		ret = lsmem_tree_next(&range->tree, &from, to, &handle);
		if (ret || !handle)
			break;
		entry = xa_store(&range->pending, from, LSMEM_PAGE_FREED, GFP_KERNEL_ACCOUNT);
		if (xa_is_err(entry))
			ret = xa_err(entry);
		else
			range->nr_freed += !entry;
		from++;
		if (fatal_signal_pending(current))
			ret = -EINTR;
		cond_resched();
	}
	up_write(&range->lock);
	return ret;
}

/**
 * lsmem_range_resize - change the length
 * @range: open; no page behind the shorter end is in the page cache
 * @length: bytes
 *
 * Context: sleeps, killable.
 * Return: 0; -ENOMEM, -EINTR, -EIO: it has the new length, and objects behind the end, which do not come
 * back: they are freed before it grows again.
 */
int lsmem_range_resize(struct lsmem_range *range, u64 length)
{
	u64 old = range->length;
	int ret = 0;

	if (length != old)
		ret = lsmem_range_free(range, DIV_ROUND_UP_ULL(min(length, old), LSMEM_BLOCK),
				       length < old ? LSMEM_PAGES_LENGTH_MAX / LSMEM_BLOCK :
				       DIV_ROUND_UP_ULL(length, LSMEM_BLOCK));
	if (ret && length > old)
		return ret;
	down_write(&range->lock);
	range->length = length;
	up_write(&range->lock);
	return ret;
}

/* The first page from @page on that has no object, and is to have none. */
static int lsmem_range_hole(struct lsmem_range *range, u64 *page, u64 to)
{
	u64 handle;
	int ret;

	for (; *page < to; (*page)++) {
		void *pending = xa_load(&range->pending, *page);

		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
		if (pending)	/* also one that is to be freed: its node has it still */
			continue;
		ret = lsmem_tree_find(&range->tree, *page, &handle);
		if (ret || !handle)
			return ret;
	}
	return -ENOSPC;
}

/**
 * lsmem_range_alloc - a new object of a pool
 * @range: open, a pool
 * @page: in: where to begin; out: its page
 * @length: of the object, 1 .. LSMEM_BLOCK bytes
 * @handle: out
 *
 * It is zeroes, until its page is written; then it is in the log.
 *
 * Context: sleeps, killable.
 * Return: 0; -ENOSPC: no page is free; -ENOMEM, -EINTR, -EIO; as lsmem_handle_alloc().
 */
int lsmem_range_alloc(struct lsmem_range *range, u64 *page, u32 length, u64 *handle)
{
	struct lsmem_range_new *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	void *entry;
	int ret;

	if (!new)
		return -ENOMEM;
	new->length = length;
	ret = lsmem_handle_alloc(range->store, &new->handle);
	if (ret)
		goto err_free;
	down_write(&range->lock);
	ret = lsmem_range_hole(range, page, DIV_ROUND_UP_ULL(range->length, LSMEM_BLOCK));
	if (!ret) {
		entry = xa_store(&range->pending, *page, new, GFP_KERNEL_ACCOUNT);
		if (xa_is_err(entry))
			ret = xa_err(entry);
	}
	up_write(&range->lock);
	if (ret)
		goto err_handle;
	*handle = new->handle;
	return 0;
err_handle:
	lsmem_handle_free(range->store, new->handle);
err_free:
	kfree(new);
	return ret;
}

/**
 * lsmem_range_find - the first page of some that has an object
 * @range: open, a pool
 * @page: in: the first; out: that which has one
 * @to: behind the last
 * @handle: out
 * @length: out: of the object, bytes; 0: another client has freed it, or no backup has it
 *
 * Context: sleeps.  Return: 0; -ENOENT: none has one; -EIO, -ETIMEDOUT, -EINTR, -ENOMEM.
 */
int lsmem_range_find(struct lsmem_range *range, u64 *page, u64 to, u64 *handle, u32 *length)
{
	struct lsmem_range_new *new = NULL;
	unsigned long first = *page;
	void *entry;
	int ret;

	down_write(&range->lock);
	entry = xa_find(&range->pending, &first, to - 1, XA_PRESENT);
	while (entry && xa_is_value(entry))
		entry = xa_find_after(&range->pending, &first, to - 1, XA_PRESENT);
	for (;;) {
		ret = lsmem_tree_next(&range->tree, page, entry ? first : to, handle);
		if (ret || !*handle || !xa_load(&range->pending, *page))
			break;
		(*page)++;	/* is to be freed */
	}
	if (!ret && !*handle && entry) {
		new = entry;
		*page = first;
		*handle = new->handle;
		*length = new->length;
	}
	up_write(&range->lock);
	if (ret || new)
		return ret;
	if (!*handle)
		return -ENOENT;
	ret = lsmem_object_get(range->store, *handle, NULL, 0, length);
	if (!lsmem_range_gone(ret))
		return ret;
	*length = 0;
	return 0;
}

/**
 * lsmem_range_remove - free all of a range, the root last
 * @range: open, without other users
 *
 * After an error or a crash it can be opened and removed again.
 *
 * Context: sleeps, killable.  Return: 0, or an error.
 */
int lsmem_range_remove(struct lsmem_range *range)
{
	struct lsmem_change change = { .op = LSMEM_OP_FREE, .handle = range->root };
	struct lsmem_place place = { };
	u64 from = 0, handle;
	int ret;

	/* Begin with what is in the log: what was to be written may have no room there. */
	lsmem_range_close(range);
	range->nr_freed = 0;
	ret = lsmem_range_open(range, range->store, range->root);
	if (!ret)
		ret = lsmem_journal_settle(range);
	if (ret)
		return ret;
	for (;;) {
		down_write(&range->lock);
		ret = lsmem_tree_next(&range->tree, &from, LSMEM_PAGES_LENGTH_MAX / LSMEM_BLOCK,
				      &handle);
		up_write(&range->lock);
		if (ret)
			return ret;
		if (!handle)
			break;
		ret = lsmem_range_free(range, from, from + LSMEM_RANGE_BATCH);
		while (!ret && lsmem_range_unwritten(range))
			ret = lsmem_range_write(range, NULL, 0);
		if (ret < 0)
			return ret;
	}
	ret = lsmem_tree_remove(&range->tree);
	return ret ?: lsmem_group_change(range->store, &change, 1, &place);
}
