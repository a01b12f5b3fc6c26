// SPDX-License-Identifier: GPL-2.0
/*
 * Journals: a write of more pages of a range than a group takes, whole or not at all.
 *
 * The pages get new objects, in as many groups as it takes, which nothing names yet; the write is made by
 * the one group that says in the root that they are valid:
 *
 *	plan	handles for the new objects; nodes that the tree lacks are written, empty
 *	prepare	a journal, an object with the handles, and its name in the root		durable
 *	data	the new objects								durable
 *	make	the root says so							durable
 *	apply	nodes with the new handles; the old objects are freed			durable
 *	clear	the journal is freed, and its name in the root
 *
 * Each step begins when the one before it is durable, so a crash leaves one of three: a root without a
 * journal; one that is prepared, whose new objects go, those that are there; one that is made, which
 * is applied, as often as it takes.  A handle is never given out twice, also after a crash: so an object
 * that is to go and is not there has gone.
 *
 * In memory the tree has the new handles from "make" on.  Where a step fails the journal stays, and
 * lsmem_journal_settle() goes on, before anything else of the range is written.
 *
 * Source of the idea of an msync() that is whole: Park, Kelly and Shen, "Failure-atomic msync()", EuroSys
 * 2013.  It writes the bytes twice there; here the log has both versions anyway.
 *
 * Locks: range->lock, exclusive, for a group that has nodes or the root; not while it waits.  One task
 * at a time writes a range.
 */
#include <linux/slab.h>

#include "../uapi/lsmem.h"
#include "durable.h"
#include "handle.h"
#include "journal.h"
#include "object.h"
#include "store.h"
#include "trace.h"

/**
 * struct lsmem_journal - a journal in memory
 * @handle: of its object
 * @stage: as in the root; 0: not in the log yet
 * @logged: of its pages, the first of which the new objects may be in the log
 * @nr: pages
 * @payload: of its object
 */
struct lsmem_journal {
	u64 handle;
	u32 stage;
	u32 logged;
	u32 nr;
	struct lsmem_pages_journal payload;
};

/* Bytes of a journal with @nr pages. */
static u32 lsmem_journal_bytes(u32 nr)
{
	return sizeof(struct lsmem_pages_journal) + nr * sizeof(struct lsmem_page_move);
}

static struct lsmem_journal *lsmem_journal_new(u32 nr)
{
	struct lsmem_journal *journal = kvzalloc(offsetof(struct lsmem_journal, payload) +
						 lsmem_journal_bytes(nr), GFP_NOFS | __GFP_ACCOUNT);

	if (!journal)
		return NULL;
	journal->nr = nr;
	journal->payload.magic = cpu_to_le64(LSMEM_JOURNAL_MAGIC);
	journal->payload.nr = cpu_to_le64(nr);
	return journal;
}

/* Wait until what was written last is durable. */
static int lsmem_journal_wait(struct lsmem_range *range)
{
	return lsmem_wait_durable(range->store, &range->last,
				  READ_ONCE(range->store->repl.flush_ms));
}

/* Make a group, with @pages pages. Changes of objects that are gone are left out. */
static int lsmem_journal_group(struct lsmem_range *range, struct lsmem_change *changes, u32 nr,
			       u32 pages)
{
	struct lsmem_place place = { };
	u32 i, left, bytes = 0;
	int ret;

	for (; nr; nr = left) {
		ret = lsmem_group_change(range->store, changes, nr, &place);
		if (!ret) {
			if (place.segment)
				range->last = place;
			for (i = 0; i < nr; i++)
				bytes += lsmem_group_bytes(changes[i].length);
			lsmem_count(range->store, pages_bytes, bytes);
			lsmem_count(range->store, pages_groups, 1);
			lsmem_count(range->store, pages_written, pages);
			trace_lsmem_pages_write(range->store->name, range->root, pages, nr, bytes);
			return 0;
		}
		if (!lsmem_range_gone(ret))
			return ret;
		for (i = left = 0; i < nr; i++)
			if (!lsmem_range_gone(changes[i].result) ||
			    changes[i].op != LSMEM_OP_FREE)
				changes[left++] = changes[i];
		if (left < nr)
			continue;
		for (i = 0; !lsmem_range_gone(changes[i].result); i++)
			;
		pr_err_ratelimited("%s: a range of pages (root %llx): its root or node %llx is missing (error %d)\n",
				   range->store->name, range->root, changes[i].handle,
				   changes[i].result);
		return -EIO;
	}
	return 0;
}

/* ---- Nodes, root --------------------------------------------------------- */

/* The root as it is to be in the log now, with tree and length of the last time. */
static struct lsmem_pages_root lsmem_journal_root(const struct lsmem_range *range)
{
	const struct lsmem_journal *journal = range->journal;
	struct lsmem_pages_root root = range->logged;

	root.stage = cpu_to_le32(journal ? journal->stage : 0);
	root.journal = cpu_to_le64(journal && journal->stage ? journal->handle : 0);
	return root;
}

/* Make a group with the root @root, and perhaps one more change of an object before it. */
static int lsmem_journal_name(struct lsmem_range *range, const struct lsmem_pages_root *root,
			      const struct lsmem_change *before)
{
	struct lsmem_change changes[2];
	u32 nr = 0;
	int ret;

	if (before)
		changes[nr++] = *before;
	changes[nr++] = (struct lsmem_change){
		.op = LSMEM_OP_REPLACE, .handle = range->root,
		.data = root, .length = sizeof(*root),
	};
	ret = lsmem_journal_group(range, changes, nr, 0);
	if (!ret)
		range->logged = *root;
	return ret;
}

/*
 * Write all dirty nodes; range->lock is held, but for the waits.  @wait: the nodes of a group may name
 * new ones of the group before.
 */
static int lsmem_journal_nodes(struct lsmem_range *range, struct lsmem_change *changes, bool wait)
{
	struct lsmem_tree *tree = &range->tree;
	int ret = 0;

	while (!ret && (tree->nr_dirty || tree->root_dirty)) {
		struct lsmem_pages_root root = lsmem_journal_root(range);
		u32 nr = 0;

		if (wait) {
			up_write(&range->lock);
			ret = lsmem_journal_wait(range);
			down_write(&range->lock);
		}
		if (!ret)
			ret = lsmem_tree_changes(tree, changes, &nr, LSMEM_GROUP_MAX - 1);
		if (ret)
			break;
		if (tree->nr_taken == tree->nr_dirty && tree->root_dirty) {
			root.top = cpu_to_le64(tree->top);
			root.levels = cpu_to_le32(tree->levels);
			changes[nr++] = (struct lsmem_change){
				.op = LSMEM_OP_REPLACE, .handle = range->root,
				.data = &root, .length = sizeof(root),
			};
		}
		ret = lsmem_journal_group(range, changes, nr, 0);
		if (!ret) {
			lsmem_tree_done(tree);
			range->logged = root;
		}
	}
	return ret;
}

/* ---- Plan ---------------------------------------------------------------- */

static int lsmem_journal_plan_page(struct lsmem_range *range, struct lsmem_page_move *move, u64 page,
				   u32 length, struct lsmem_change *changes)
{
	u64 old, new = 0;
	int ret;

	ret = lsmem_tree_find(&range->tree, page, &old);
	if (!ret && length && !old) {
		ret = lsmem_tree_make(&range->tree, page);
		if (!ret && range->tree.nr_dirty >= LSMEM_GROUP_MAX / 2)
			ret = lsmem_journal_nodes(range, changes, true);
	}
	if (!ret && length)
		ret = lsmem_handle_alloc(range->store, &new);
	move->page = cpu_to_le64(page);
	move->old = cpu_to_le64(old);
	move->new = cpu_to_le64(new);
	return ret;
}

/* What pages get which objects: @pages, and those that are to be freed. */
static int lsmem_journal_plan(struct lsmem_range *range, const struct lsmem_range_page *pages, u32 nr,
			      struct lsmem_change *changes)
{
	struct lsmem_journal *journal = range->journal;
	u32 i, next = 0;
	unsigned long freed;
	void *entry;
	int ret;

	ret = lsmem_handle_alloc(range->store, &journal->handle);
	/* Nodes of a group that failed; then each step has those of its own. */
	if (!ret)
		ret = lsmem_journal_nodes(range, changes, true);
	for (i = 0; !ret && i < nr; i++)
		ret = lsmem_journal_plan_page(range, &journal->payload.moves[i], pages[i].page,
					      lsmem_page_bytes(pages[i].data), changes);
	if (!ret)
		ret = lsmem_journal_nodes(range, changes, true);
	if (ret)
		return ret;
	xa_for_each(&range->pending, freed, entry) {
		if (i == journal->nr)	/* it was freed since the journal got its size */
			break;
		while (next < nr && pages[next].page < freed)
			next++;
		if (next < nr && pages[next].page == freed)
			continue;
		ret = lsmem_journal_plan_page(range, &journal->payload.moves[i++], freed, 0, changes);
		if (ret)
			return ret;
	}
	journal->nr = i;
	journal->payload.nr = cpu_to_le64(i);
	return 0;
}

/* ---- Prepare, data, make ------------------------------------------------- */

static int lsmem_journal_prepare(struct lsmem_range *range)
{
	struct lsmem_journal *journal = range->journal;
	const struct lsmem_change alloc = {
		.op = LSMEM_OP_ALLOC, .table = range->table, .handle = journal->handle,
		.data = &journal->payload, .length = lsmem_journal_bytes(journal->nr),
	};
	struct lsmem_pages_root root;
	int ret;

	ret = lsmem_journal_wait(range);
	if (ret)
		return ret;
	journal->stage = LSMEM_JOURNAL_PREPARED;
	root = lsmem_journal_root(range);
	down_write(&range->lock);
	ret = lsmem_journal_name(range, &root, &alloc);
	up_write(&range->lock);
	if (ret)
		journal->stage = 0;
	return ret ?: lsmem_journal_wait(range);
}

static int lsmem_journal_data(struct lsmem_range *range, const struct lsmem_range_page *pages, u32 nr,
			      struct lsmem_change *changes)
{
	struct lsmem_journal *journal = range->journal;
	u32 i, n = 0;
	int ret = 0;

	for (i = 0; !ret && i < nr; i++) {
		u64 new = le64_to_cpu(journal->payload.moves[i].new);

		if (new)
			changes[n++] = (struct lsmem_change){
				.op = LSMEM_OP_ALLOC, .table = range->table, .handle = new,
				.data = pages[i].data, .length = lsmem_page_bytes(pages[i].data),
			};
		if (n < LSMEM_RANGE_BATCH && i + 1 < nr)
			continue;
		ret = lsmem_journal_group(range, changes, n, n);
		if (!ret)
			journal->logged = i + 1;
		n = 0;
	}
	/* The groups may lie in several segments. */
	return ret ?: lsmem_sync(range->store, 0);
}

/* The tree gets the new objects of all pages, or the old ones back. */
static int lsmem_journal_set(struct lsmem_range *range, bool new)
{
	const struct lsmem_page_move *moves = range->journal->payload.moves;
	int ret = 0;
	u32 i;

	for (i = 0; !ret && i < range->journal->nr; i++)
		if (moves[i].new != moves[i].old)
			ret = lsmem_tree_set(&range->tree, le64_to_cpu(moves[i].page),
					     le64_to_cpu(new ? moves[i].new : moves[i].old));
	return ret;
}

static int lsmem_journal_make(struct lsmem_range *range)
{
	struct lsmem_journal *journal = range->journal;
	struct lsmem_pages_root root;
	u64 freed = 0, length;
	u32 i;
	int ret;

	down_write(&range->lock);
	for (i = 0; i < journal->nr; i++)
		freed += !!xa_load(&range->pending,
				   le64_to_cpu(journal->payload.moves[i].page));
	/* As in range.c: a shorter length comes with the last of the pages that it frees. */
	length = freed == range->nr_freed ? range->length :
		 max(range->length, le64_to_cpu(range->logged.length));
	journal->stage = LSMEM_JOURNAL_MADE;
	root = lsmem_journal_root(range);
	root.length = cpu_to_le64(length);
	/* Cannot fail: the plan has loaded the nodes, or made them. */
	WARN_ON_ONCE(lsmem_journal_set(range, true));
	ret = lsmem_journal_name(range, &root, NULL);
	if (ret) {
		WARN_ON_ONCE(lsmem_journal_set(range, false));
		journal->stage = LSMEM_JOURNAL_PREPARED;
	}
	for (i = 0; !ret && i < journal->nr; i++)
		range->nr_freed -= !!xa_erase(&range->pending,
					      le64_to_cpu(journal->payload.moves[i].page));
	up_write(&range->lock);
	return ret;
}

/* ---- Apply, clear -------------------------------------------------------- */

/* May the object be there?  One that is COLD only its entry knows. */
static bool lsmem_journal_there(struct lsmem_store *store, u64 handle)
{
	struct lsmem_look look;
	int ret;

	if (lsmem_handle_find(store, handle, &look.h))
		return false;
	rcu_read_lock();
	ret = lsmem_look(store, handle, &look);
	rcu_read_unlock();
	return !ret || ret == -LSMEM_ECOLD;
}

/* Free the new objects, or the old ones, of the first @nr pages. */
static int lsmem_journal_free(struct lsmem_range *range, u32 nr, bool new,
			      struct lsmem_change *changes)
{
	const struct lsmem_page_move *moves = range->journal->payload.moves;
	u32 i, n = 0;
	int ret = 0;

	for (i = 0; !ret && i < nr; i++) {
		u64 handle = le64_to_cpu(new ? moves[i].new : moves[i].old);

		if (handle && lsmem_journal_there(range->store, handle))
			changes[n++] = (struct lsmem_change){
				.op = LSMEM_OP_FREE, .handle = handle,
			};
		if (n < LSMEM_GROUP_MAX && i + 1 < nr)
			continue;
		ret = lsmem_journal_group(range, changes, n, 0);
		n = 0;
	}
	return ret;
}

/* What is in the log of a journal comes to an end. */
static int lsmem_journal_end(struct lsmem_range *range, struct lsmem_change *changes)
{
	struct lsmem_journal *journal = range->journal;
	const struct lsmem_change clear = { .op = LSMEM_OP_FREE, .handle = journal->handle };
	struct lsmem_pages_root root;
	u32 stage = journal->stage;
	int ret;

	ret = lsmem_journal_wait(range);
	if (!ret && stage == LSMEM_JOURNAL_MADE) {
		down_write(&range->lock);
		ret = lsmem_journal_nodes(range, changes, false);
		up_write(&range->lock);
		if (!ret)
			ret = lsmem_journal_free(range, journal->nr, false, changes);
	} else if (!ret) {
		ret = lsmem_journal_free(range, journal->logged, true, changes);
	}
	if (!ret)
		ret = lsmem_sync(range->store, 0);
	if (ret)
		return ret;
	journal->stage = 0;
	root = lsmem_journal_root(range);
	down_write(&range->lock);
	ret = lsmem_journal_name(range, &root, &clear);
	up_write(&range->lock);
	if (ret) {
		journal->stage = stage;
		return ret;
	}
	journal->handle = 0;
	return 0;
}

/**
 * lsmem_journal_settle - have nothing left of a journal: what it has made is applied, or it is undone
 * @range: open
 *
 * Context: sleeps; one task at a time.
 * Return: 0, or an error of lsmem_wait_durable() or lsmem_group_change(): then call it again.
 */
int lsmem_journal_settle(struct lsmem_range *range)
{
	struct lsmem_change *changes;
	int ret = 0;

	if (!range->journal)
		return 0;
	if (range->journal->stage) {
		changes = kvmalloc_array(LSMEM_GROUP_MAX, sizeof(*changes), GFP_NOFS);
		ret = changes ? lsmem_journal_end(range, changes) : -ENOMEM;
		kvfree(changes);
	}
	if (!ret)
		lsmem_journal_close(range);
	return ret;
}

/**
 * lsmem_journal_write - write pages, and free those that are to be freed, whole or not at all
 * @range: open, a region of a durable store, without a journal
 * @pages: in order; their bytes do not change until the call returns
 * @nr: how many; with range->nr_freed at most LSMEM_JOURNAL_MAX
 *
 * Context: sleeps; one task at a time.
 * Return: 0: made, and durable with range->last.  Or an error: then nothing has changed, but what
 * lsmem_journal_settle() has to undo.
 */
int lsmem_journal_write(struct lsmem_range *range, const struct lsmem_range_page *pages, u32 nr)
{
	struct lsmem_change *changes;
	int ret;

	changes = kvmalloc_array(LSMEM_GROUP_MAX, sizeof(*changes), GFP_NOFS);
	if (!changes)
		return -ENOMEM;
	down_write(&range->lock);
	ret = -E2BIG;
	if (nr + range->nr_freed <= LSMEM_JOURNAL_MAX) {
		range->journal = lsmem_journal_new(nr + range->nr_freed);
		ret = range->journal ? lsmem_journal_plan(range, pages, nr, changes) : -ENOMEM;
	}
	up_write(&range->lock);
	if (!ret)
		ret = lsmem_journal_prepare(range);
	if (!ret)
		ret = lsmem_journal_data(range, pages, nr, changes);
	if (!ret)
		ret = lsmem_journal_make(range);
	kvfree(changes);
	/* The next write does it if it would be to wait once more for the same. */
	if (ret && ret != -ETIMEDOUT && ret != -EINTR)
		(void)lsmem_journal_settle(range);
	return ret;
}

/* ---- Open, close --------------------------------------------------------- */

static bool lsmem_journal_sane(const struct lsmem_journal *journal)
{
	const struct lsmem_pages_journal *payload = &journal->payload;
	u32 i;

	if (payload->magic != cpu_to_le64(LSMEM_JOURNAL_MAGIC) ||
	    payload->nr != cpu_to_le64(journal->nr))
		return false;
	for (i = 0; i < journal->nr; i++)
		if (le64_to_cpu(payload->moves[i].page) >= LSMEM_PAGES_LENGTH_MAX / LSMEM_BLOCK)
			return false;
	return true;
}

/**
 * lsmem_journal_open - see what a crash has left
 * @range: being opened: range->logged and its tree are there
 *
 * The tree gets what the journal has made; the next write writes it.
 *
 * Context: sleeps.  Return: 0; -EBADMSG: the root's journal is none; as lsmem_object_get(), but -EIO
 * if there is none; -ENOMEM.
 */
int lsmem_journal_open(struct lsmem_range *range)
{
	u64 handle = le64_to_cpu(range->logged.journal);
	struct lsmem_journal *journal;
	u32 length, nr;
	int ret;

	if (!range->logged.stage)
		return 0;
	if (!range->store->durable || range->flags & LSMEM_PAGES_POOL)
		return -EBADMSG;
	ret = lsmem_object_get(range->store, handle, NULL, 0, &length);
	if (ret)
		goto err_gone;
	nr = length / sizeof(struct lsmem_page_move);
	if (nr > LSMEM_JOURNAL_MAX || length != lsmem_journal_bytes(nr))
		return -EBADMSG;
	journal = lsmem_journal_new(nr);
	if (!journal)
		return -ENOMEM;
	ret = lsmem_object_get(range->store, handle, &journal->payload, length, &length);
	if (ret || length != lsmem_journal_bytes(nr) || !lsmem_journal_sane(journal)) {
		kvfree(journal);
		if (ret)
			goto err_gone;
		return -EBADMSG;
	}
	journal->handle = handle;
	journal->stage = le32_to_cpu(range->logged.stage);
	journal->logged = journal->nr;
	range->journal = journal;
	return journal->stage == LSMEM_JOURNAL_MADE ? lsmem_journal_set(range, true) : 0;
err_gone:
	if (!lsmem_range_gone(ret))
		return ret;
	pr_err_ratelimited("%s: a range of pages (root %llx): its journal %llx cannot be read (error %d)\n",
			   range->store->name, range->root, handle, ret);
	return -EIO;
}

/**
 * lsmem_journal_close - forget a journal
 * @range: what is in the log of it the next open finds
 */
void lsmem_journal_close(struct lsmem_range *range)
{
	struct lsmem_journal *journal = range->journal;
	u32 i;

	if (!journal)
		return;
	for (i = journal->logged; i < journal->nr; i++)
		if (journal->payload.moves[i].new)
			lsmem_handle_free(range->store, le64_to_cpu(journal->payload.moves[i].new));
	if (!journal->stage && journal->handle)
		lsmem_handle_free(range->store, journal->handle);
	range->journal = NULL;
	kvfree(journal);
}
