// SPDX-License-Identifier: GPL-2.0
/*
 * Spans: changes of several objects in one append.
 *
 * A vector call names many objects.  Operations beside each other that allocate or replace
 * small objects share one reservation, one place in the ring, one commit, one look at the
 * clock, and one update of each counter:
 *
 *	gather	look at each object; admit the growth of all
 *	begin	reserve the entries side by side
 *	copy	all payloads
 *	publish	for each in order: look, stamp, exchange, as object.c does for one
 *	commit	all entries at once
 *
 * A span never waits and never fails: what it cannot do, it leaves to the caller, which
 * carries out the next operation by itself and then tries a span again.  So errors of a
 * single operation, waits for space, and page faults are in object.c alone.  Only an
 * operation that loses a race after it was gathered fails here; its entry becomes padding.
 *
 * The exchanges are made in the order of the operations, so that the order of changes is
 * that of single calls (invariant 6).  Preemption is off from begin to commit, for at most
 * LSMEM_SPAN_MAX entries and LSMEM_SPAN_BYTES.
 *
 * No locks; rcu_read_lock() as in object.c.
 */
#include <linux/uaccess.h>

#include "entry.h"
#include "handle.h"
#include "log.h"
#include "object.h"
#include "span.h"
#include "store.h"
#include "trace.h"

/**
 * struct lsmem_change - one operation of a span
 * @op: the operation
 * @h: entry of its object in the handle table
 * @handle: of its object; an allocation's is owned by the span until it is published
 * @table: of its object
 * @offset: of its entry in the segment
 * @pcrc: CRC of its payload
 */
struct lsmem_change {
	struct lsmem_op *op;
	struct lsmem_handle *h;
	u64 handle;
	u32 table;
	u32 offset;
	u32 pcrc;
};

/**
 * struct lsmem_span - a span, on its caller's stack
 * @ap: the append of all entries
 * @sizes: bytes of each entry
 * @changes: see struct lsmem_change
 * @nr: operations
 * @admitted: live bytes that were admitted
 * @growth: of these, what published entries have taken
 * @live: bytes by which published entries have changed the live bytes
 * @lost: bytes of entries that became padding after they were counted
 */
struct lsmem_span {
	struct lsmem_append ap;
	u32 sizes[LSMEM_SPAN_MAX];
	struct lsmem_change changes[LSMEM_SPAN_MAX];
	u32 nr;
	u32 admitted;
	u32 growth;
	s32 live;
	u32 lost;
};

/* ---- Gather ------------------------------------------------------------- */

/* Take the operations that are likely to succeed, up to the first that is not. */
static u32 lsmem_span_gather(struct lsmem_store *store, struct lsmem_span *span,
			     struct lsmem_op *ops, u32 nr)
{
	u32 bytes = 0, growth = 0;

	rcu_read_lock();
	for (span->nr = 0; span->nr < nr; span->nr++) {
		struct lsmem_change *change = &span->changes[span->nr];
		struct lsmem_op *op = &ops[span->nr];
		u32 size = lsmem_entry_size(op->length), old = 0;
		struct lsmem_look look;

		bytes += size;
		if (bytes > LSMEM_SPAN_BYTES - LSMEM_ENTRY_BYTES)	/* a gap before a seglet */
			break;
		change->op = op;
		change->table = op->table;
		if (op->op == LSMEM_OP_REPLACE) {
			if (lsmem_handle_find(store, op->handle, &look.h) ||
			    lsmem_look(store, op->handle, &look))
				break;
			change->h = look.h;
			change->handle = op->handle;
			change->table = look.table;
			old = lsmem_entry_size(look.length);
		}
		span->sizes[span->nr] = size;
		growth += lsmem_growth(size, old);
	}
	rcu_read_unlock();
	return growth;
}

/* Free the handles of allocations from @from on. */
static void lsmem_span_free(struct lsmem_store *store, const struct lsmem_span *span, u32 from,
			    u32 to)
{
	for (; from < to; from++)
		if (span->changes[from].op->op == LSMEM_OP_ALLOC)
			lsmem_handle_free(store, span->changes[from].handle);
}

/* Give out the handles of allocations; the first that gets none ends the span. */
static void lsmem_span_allocate(struct lsmem_store *store, struct lsmem_span *span)
{
	u32 i;

	for (i = 0; i < span->nr; i++) {
		struct lsmem_change *change = &span->changes[i];

		if (change->op->op != LSMEM_OP_ALLOC)
			continue;
		if (lsmem_handle_alloc(store, change->table, &change->handle))
			break;
		change->h = &store->handles.table[lsmem_handle_index(change->handle)];
	}
	span->nr = i;
}

/* ---- Copy --------------------------------------------------------------- */

/* The entry of a change as an append of its own, to copy, stamp and count it. */
static struct lsmem_append lsmem_span_entry(const struct lsmem_span *span, u32 i)
{
	struct lsmem_append ap = span->ap;

	ap.offset = span->changes[i].offset;
	ap.size = span->sizes[i];
	ap.position = lsmem_segment_position(ap.segment, ap.offset);
	return ap;
}

/* Copy the payloads. The first that faults ends the span: the rest becomes padding. */
static void lsmem_span_copy(struct lsmem_store *store, struct lsmem_span *span)
{
	u32 end = span->ap.offset, i;

	pagefault_disable();
	for (i = 0; i < span->nr; i++) {
		struct lsmem_change *change = &span->changes[i];
		struct lsmem_source source = { .user = u64_to_user_ptr(change->op->data) };
		struct lsmem_append ap;

		change->offset = lsmem_entry_start(end);
		if (change->offset > end)
			lsmem_segment_write(store, span->ap.segment, end, NULL,
					    change->offset - end);
		ap = lsmem_span_entry(span, i);
		if (lsmem_append_copy(store, &ap, &source, change->op->length, &change->pcrc))
			break;
		end = change->offset + span->sizes[i];
	}
	pagefault_enable();
	if (i < span->nr)
		lsmem_append_pad(store, &span->ap, end, span->ap.offset + span->ap.size - end,
				 span->nr - i);
	span->nr = i;
}

/* ---- Publish ------------------------------------------------------------ */

static void lsmem_span_alloc(struct lsmem_store *store, struct lsmem_span *span, u32 i,
			     u64 version)
{
	struct lsmem_append ap = lsmem_span_entry(span, i);
	struct lsmem_change *change = &span->changes[i];
	struct lsmem_op *op = change->op;

	lsmem_entry_stamp(store, &ap, change->handle, version, op->length, LSMEM_TYPE_OBJECT,
			  change->table, change->pcrc);
	/* Pairs with lsmem_look() and with clients: the entry is whole. */
	smp_store_release(&change->h->word,
			  lsmem_word_next(change->h->word, LSMEM_WORD_LIVE, ap.position));
	span->growth += ap.size;
	span->live += ap.size;
	op->handle = change->handle;
	op->version = version;
}

/* Return: 0, or an error as lsmem_object_replace(). */
static int lsmem_span_replace(struct lsmem_store *store, struct lsmem_span *span, u32 i, u64 now)
{
	struct lsmem_append ap = lsmem_span_entry(span, i);
	struct lsmem_change *change = &span->changes[i];
	struct lsmem_look look = { .h = change->h };
	struct lsmem_op *op = change->op;
	u32 old, growth;
	u64 version;
	int ret;

	do {
		ret = lsmem_look_for(store, op, &look);
		if (ret)
			return ret;
		/* Another call may have replaced it by another size since it was gathered. */
		old = lsmem_entry_size(look.length);
		growth = lsmem_growth(ap.size, old);
		ret = lsmem_admit_to(store, span->growth + growth, &span->admitted);
		if (ret)
			return ret;
		version = max(now, look.version + 1);
		lsmem_entry_stamp(store, &ap, op->handle, version, op->length,
				  LSMEM_TYPE_OBJECT, look.table, change->pcrc);
	} while (!lsmem_word_exchange(look.h, look.word,
				      lsmem_word_next(look.word, LSMEM_WORD_LIVE, ap.position)));
	lsmem_entry_dead(store, lsmem_word_position(look.word), look.length);
	span->growth += growth;
	span->live += (s32)ap.size - (s32)old;
	op->version = version;
	return 0;
}

/* Make the changes, in order. Returns how many replaced an object. */
static u32 lsmem_span_publish(struct lsmem_store *store, struct lsmem_span *span)
{
	struct lsmem_segment *seg = span->ap.segment;
	u64 now = lsmem_handle_version(store, 0);
	u32 replaced = 0, bytes = 0, i;

	for (i = 0; i < span->nr; i++)
		bytes += span->sizes[i];
	/* Before the exchanges: a racing change may count an entry of the span as dead. */
	atomic_add(bytes, seg->live);
	rcu_read_lock();
	for (i = 0; i < span->nr; i++) {
		struct lsmem_change *change = &span->changes[i];
		struct lsmem_op *op = change->op;

		op->result = 0;
		if (op->op == LSMEM_OP_ALLOC)
			lsmem_span_alloc(store, span, i, now);
		else
			op->result = lsmem_span_replace(store, span, i, now);
		if (op->result) {
			lsmem_append_pad(store, &span->ap, change->offset, span->sizes[i], 1);
			span->lost += span->sizes[i];
			continue;
		}
		replaced += op->op == LSMEM_OP_REPLACE;
		trace_lsmem_append(store->name, op->handle, change->table, seg->id,
				   change->offset, op->length);
	}
	rcu_read_unlock();
	if (span->lost)
		atomic_sub(span->lost, seg->live);
	lsmem_count(store, appends, span->nr);
	lsmem_count(store, appended_bytes, bytes);
	return replaced;
}

/**
 * lsmem_span_change - carry out the first of some operations as one span
 * @store: active, object kind
 * @ops: checked: LSMEM_OP_ALLOC and LSMEM_OP_REPLACE; their results are filled in
 * @nr: how many, at most LSMEM_SPAN_MAX
 *
 * Context: may sleep; holds nothing.
 * Return: how many were carried out; 0: carry out the first one by itself.
 */
u32 lsmem_span_change(struct lsmem_store *store, struct lsmem_op *ops, u32 nr)
{
	struct lsmem_span span;
	u32 gathered, replaced;

	span.admitted = lsmem_span_gather(store, &span, ops, nr);
	if (span.nr < 2 || lsmem_admit(store, span.admitted))
		return 0;
	span.growth = 0;
	span.live = 0;
	span.lost = 0;
	lsmem_span_allocate(store, &span);
	gathered = span.nr;
	if (gathered < 2 || lsmem_append_begin_span(store, lsmem_log_head(store), span.sizes,
						    gathered, &span.ap)) {
		span.nr = 0;
	} else {
		lsmem_span_copy(store, &span);
		replaced = lsmem_span_publish(store, &span);
		lsmem_append_commit(store, &span.ap);
		lsmem_count(store, replaced, replaced);
	}
	lsmem_live_add(store, (s64)span.live - span.admitted);	/* never more than was admitted */
	lsmem_span_free(store, &span, span.nr, gathered);
	return span.nr;
}
