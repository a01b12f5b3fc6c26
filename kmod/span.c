// SPDX-License-Identifier: GPL-2.0
/*
 * Spans: changes of several objects in one append.
 *
 * A vector call names many objects.  Operations beside each other that allocate or replace
 * small objects share one reservation, one place in the ring, one commit, one look at the
 * clock, and one update of each counter:
 *
 *	gather	take operations that are likely to succeed; admit what they need
 *	begin	reserve the entries side by side
 *	copy	all payloads
 *	look	at each object, and stamp its new entry; the cache misses overlap
 *	publish	exchange the words in order; if one has changed, look, stamp and exchange
 *		again, as object.c does
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
#include "livemap.h"
#include "log.h"
#include "object.h"
#include "span.h"
#include "store.h"
#include "trace.h"
#include "watch.h"

/**
 * struct lsmem_span - a span, on its caller's stack
 * @ap: the append of all entries
 * @ops: the operations; the handle of an allocation is owned by the span until it is published
 * @nr: operations
 * @admitted: live bytes that were admitted
 * @growth: of these, what published entries have taken
 * @live: bytes by which published entries have changed the live bytes
 * @lost: bytes of entries that became padding after they were counted
 * @sizes: bytes of each entry
 * @offsets: of each entry in the segment
 * @crcs: of each payload
 * @words: of each object to be replaced, for which its entry is stamped; 0: none is
 * @olds: bytes of the entry that each of these words points to
 * @dead: bits of replaced entries, to be cleared
 */
struct lsmem_span {
	struct lsmem_append ap;
	struct lsmem_op *ops;
	u32 nr;
	u32 admitted;
	u32 growth;
	s32 live;
	u32 lost;
	u32 sizes[LSMEM_SPAN_MAX];
	u32 offsets[LSMEM_SPAN_MAX];
	u32 crcs[LSMEM_SPAN_MAX];
	u64 words[LSMEM_SPAN_MAX];
	u32 olds[LSMEM_SPAN_MAX];
	struct lsmem_livemap_bits dead;
};

/* ---- Gather ------------------------------------------------------------- */

/*
 * Is it possible that the store admits no more than @bytes?  Then nothing may be written before it
 * is admitted.  The sum of the CPUs' counts is not exact, and need not be.
 */
static bool lsmem_span_near(struct lsmem_store *store, u32 bytes)
{
	return percpu_counter_read(&store->live) + bytes +
	       (s64)LSMEM_LIVE_BATCH * num_online_cpus() > (s64)store->capacity;
}

/*
 * Will this operation probably succeed?  @growth: grows by the live bytes that are to be admitted
 * before the span begins: those of allocations, and of all operations if the store is @near its
 * capacity.
 */
static bool lsmem_span_likely(struct lsmem_store *store, const struct lsmem_op *op, u32 size,
			      bool near, u32 *growth)
{
	struct lsmem_look look;

	if (op->op == LSMEM_OP_ALLOC) {
		*growth += size;
		return true;
	}
	if (lsmem_handle_find(store, op->handle, &look.h))
		return false;
	if (!near)
		return lsmem_word_state(READ_ONCE(look.h->word)) == LSMEM_WORD_LIVE;
	if (lsmem_look(store, op->handle, &look))
		return false;
	*growth += lsmem_growth(size, lsmem_entry_size(look.length));
	return true;
}

/* Take operations up to the first that may fail. Returns what is to be admitted. */
static u32 lsmem_span_gather(struct lsmem_store *store, struct lsmem_span *span, u32 nr)
{
	bool near = lsmem_span_near(store, LSMEM_SPAN_BYTES);
	u32 bytes = 0, growth = 0;

	rcu_read_lock();
	for (span->nr = 0; span->nr < nr; span->nr++) {
		const struct lsmem_op *op = &span->ops[span->nr];
		u32 size = lsmem_entry_size(op->length);

		bytes += size;
		if (bytes > LSMEM_SPAN_BYTES - LSMEM_LONG_BYTES ||	/* a gap before a seglet */
		    !lsmem_span_likely(store, op, size, near, &growth))
			break;
		span->sizes[span->nr] = size;
	}
	rcu_read_unlock();
	return growth;
}

/* Give out the handles of allocations; the first that gets none, or one that cannot be used yet, ends the span. */
static void lsmem_span_allocate(struct lsmem_store *store, struct lsmem_span *span)
{
	u32 i;

	for (i = 0; i < span->nr; i++) {
		u64 *handle = &span->ops[i].handle;

		if (span->ops[i].op != LSMEM_OP_ALLOC)
			continue;
		if (lsmem_handle_alloc(store, handle))
			break;
		if (lsmem_word_unsettled(&store->handles, lsmem_handle_index(*handle), 0, 0)) {
			lsmem_handle_free(store, *handle);
			*handle = 0;
			break;
		}
	}
	span->nr = i;
}

/* Take the handles of allocations back, of the operations [@from, @to) that had no turn. */
static void lsmem_span_free(struct lsmem_store *store, struct lsmem_op *ops, u32 from, u32 to)
{
	for (; from < to; from++) {
		if (ops[from].op != LSMEM_OP_ALLOC)
			continue;
		lsmem_handle_free(store, ops[from].handle);
		ops[from].handle = 0;
	}
}

/* ---- Copy --------------------------------------------------------------- */

/* The entry of an operation as an append of its own, to copy and stamp it. */
static struct lsmem_append lsmem_span_entry(const struct lsmem_span *span, u32 i)
{
	return (struct lsmem_append){
		.segment = span->ap.segment,
		.offset = span->offsets[i],
		.size = span->sizes[i],
		.position = lsmem_segment_position(span->ap.segment, span->offsets[i]),
	};
}

/* Copy the payloads. The first that faults ends the span: the rest becomes padding. */
static void lsmem_span_copy(struct lsmem_store *store, struct lsmem_span *span)
{
	u32 end = span->ap.offset, i;

	pagefault_disable();
	for (i = 0; i < span->nr; i++) {
		const struct lsmem_op *op = &span->ops[i];
		struct lsmem_source source = { .user = u64_to_user_ptr(op->data) };
		struct lsmem_append ap;

		span->offsets[i] = lsmem_entry_start(end);
		if (span->offsets[i] > end)
			lsmem_segment_write(store, span->ap.segment, end, NULL,
					    span->offsets[i] - end);
		ap = lsmem_span_entry(span, i);
		if (lsmem_append_copy(store, &ap, &source, op->length, &span->crcs[i]))
			break;
		end = span->offsets[i] + span->sizes[i];
	}
	pagefault_enable();
	if (i < span->nr)
		lsmem_append_pad(store, &span->ap, end, span->ap.offset + span->ap.size - end,
				 span->nr - i);
	span->nr = i;
}

/* ---- Look --------------------------------------------------------------- */

/*
 * Look at the objects that are to be replaced, and stamp their new entries.  No operation that
 * orders memory is in between, so that the cache misses overlap.  Operations that expect a version
 * are left to lsmem_span_replace(): earlier ones of the span may change it; and so are objects that a
 * group holds, or has changed.
 */
static void lsmem_span_look(struct lsmem_store *store, struct lsmem_span *span, u64 now)
{
	u32 growth = 0, i;

	for (i = 0; i < span->nr; i++) {
		struct lsmem_op *op = &span->ops[i];
		struct lsmem_append ap;
		struct lsmem_look look;

		span->words[i] = 0;
		if (op->op == LSMEM_OP_ALLOC) {
			growth += span->sizes[i];
			continue;
		}
		look.h = lsmem_handle_at(&store->handles, lsmem_handle_index(op->handle));
		if (op->flags & LSMEM_OPF_EXPECT || lsmem_look(store, op->handle, &look) ||
		    lsmem_word_held(&store->handles, lsmem_handle_index(op->handle)) ||
		    lsmem_word_unsettled(&store->handles, lsmem_handle_index(op->handle),
					 span->ap.segment->id, span->offsets[i]))
			continue;
		span->words[i] = look.word;
		lsmem_livemap_prefetch(&store->handles.livemap, lsmem_word_position(look.word));
		span->olds[i] = lsmem_entry_size(look.length);
		growth += lsmem_growth(span->sizes[i], span->olds[i]);
		op->version = lsmem_version_after(&store->handles, now, look.version);
		ap = lsmem_span_entry(span, i);
		lsmem_object_stamp(store, &ap, op->handle, op->version, op->length,
				   lsmem_look_interval(&look, op->version), look.table,
				   span->crcs[i]);
	}
	/* If that is too much, lsmem_span_replace() finds out for which. */
	if (lsmem_admit_to(store, growth, &span->admitted))
		memset(span->words, 0, sizeof(span->words));
}

/* ---- Publish ------------------------------------------------------------ */

static void lsmem_span_alloc(struct lsmem_store *store, struct lsmem_span *span, u32 i,
			     u64 version)
{
	struct lsmem_append ap = lsmem_span_entry(span, i);
	struct lsmem_op *op = &span->ops[i];
	struct lsmem_handle *h = &store->handles.table[lsmem_handle_index(op->handle)];
	struct lsmem_ring *ring;

	lsmem_object_stamp(store, &ap, op->handle, version, op->length, 0, op->table,
			   span->crcs[i]);
	ring = lsmem_watch_begin(&store->handles, op->table);
	/* Pairs with lsmem_look() and with clients: the entry is whole. */
	smp_store_release(&h->word, lsmem_word_next(h->word, LSMEM_WORD_LIVE, ap.position));
	lsmem_watch_end(ring, true, op->handle, version, LSMEM_NOTE_NEW);
	span->growth += ap.size;
	span->live += ap.size;
	op->version = version;
}

/* Exchange the word of an object that is replaced, whose entry is stamped. */
static bool lsmem_span_swap(struct lsmem_store *store, const struct lsmem_append *ap, const struct lsmem_op *op,
			    u64 word)
{
	struct lsmem_handle *h = lsmem_handle_at(&store->handles, lsmem_handle_index(op->handle));
	struct lsmem_ring *ring;
	bool done;

	ring = lsmem_watch_begin(&store->handles,
				 lsmem_entry_table(lsmem_segment_at(store, ap->segment, ap->offset)));
	done = lsmem_word_swap(h, word, lsmem_word_next(word, LSMEM_WORD_LIVE, ap->position));
	return lsmem_watch_end(ring, done, op->handle, op->version, LSMEM_NOTE_REPLACED);
}

/* Replace an object whose entry is not stamped, or no more right. As lsmem_object_replace(). */
static int lsmem_span_retry(struct lsmem_store *store, struct lsmem_span *span, u32 i, u64 now)
{
	struct lsmem_append ap = lsmem_span_entry(span, i);
	struct lsmem_op *op = &span->ops[i];
	struct lsmem_look look = {
		.h = lsmem_handle_at(&store->handles, lsmem_handle_index(op->handle)),
	};
	int ret;

	do {
		ret = lsmem_look_from(store, op, &look, &ap);
		if (ret)
			return ret;
		span->olds[i] = lsmem_entry_size(look.length);
		ret = lsmem_admit_to(store, span->growth + lsmem_growth(ap.size, span->olds[i]),
				     &span->admitted);
		if (ret)
			return ret;
		op->version = lsmem_version_after(&store->handles, now, look.version);
		lsmem_object_stamp(store, &ap, op->handle, op->version, op->length,
				   lsmem_look_interval(&look, op->version), look.table, span->crcs[i]);
	} while (!lsmem_span_swap(store, &ap, op, look.word));
	span->words[i] = look.word;
	return 0;
}

/* Return: 0, or an error as lsmem_object_replace(). */
static int lsmem_span_replace(struct lsmem_store *store, struct lsmem_span *span, u32 i, u64 now)
{
	struct lsmem_append ap = lsmem_span_entry(span, i);
	u64 word = span->words[i];
	int ret;

	if (!word || !lsmem_span_swap(store, &ap, &span->ops[i], word)) {
		ret = lsmem_span_retry(store, span, i, now);
		if (ret)
			return ret;
	}
	lsmem_word_save(&store->handles, lsmem_handle_at(&store->handles, lsmem_handle_index(span->ops[i].handle)),
			span->words[i], span->ops[i].version);
	lsmem_livemap_gather(&store->handles.livemap, &span->dead, lsmem_word_position(span->words[i]),
			     false);
	lsmem_entry_dead(store, lsmem_word_position(span->words[i]), span->olds[i]);
	span->growth += lsmem_growth(ap.size, span->olds[i]);
	span->live += (s32)ap.size - (s32)span->olds[i];
	return 0;
}

static void lsmem_span_trace(struct lsmem_store *store, const struct lsmem_span *span, u32 i)
{
	const struct lsmem_segment *seg = span->ap.segment;
	const struct lsmem_op *op = &span->ops[i];

	if (trace_lsmem_append_enabled())
		trace_lsmem_append(store->name, op->handle,
				   lsmem_entry_table(lsmem_segment_at(store, seg, span->offsets[i])),
				   seg->id, span->offsets[i], op->length);
}

/*
 * End the span before operation @from: the rest becomes padding, each entry by itself.  Their bits were set, and a
 * snapshot that has copied them must find an entry there.
 */
static void lsmem_span_cut(struct lsmem_store *store, struct lsmem_span *span, u32 from)
{
	u32 i;

	for (i = from; i < span->nr; i++) {
		lsmem_append_pad(store, &span->ap, span->offsets[i], span->sizes[i], 1);
		lsmem_livemap_clear(&store->handles.livemap, lsmem_span_entry(span, i).position);
		span->lost += span->sizes[i];
	}
	span->nr = from;
}

/* The bits of all entries, before any word points to one; those of what becomes padding are cleared. */
static void lsmem_span_livemap(struct lsmem_store *store, const struct lsmem_span *span)
{
	struct lsmem_livemap_bits bits = { };
	u32 i;

	for (i = 0; i < span->nr; i++)
		lsmem_livemap_gather(&store->handles.livemap, &bits,
				     lsmem_span_entry(span, i).position, true);
	lsmem_livemap_apply(&store->handles.livemap, &bits, true);
}

/* Make the changes, in order. Returns how many replaced an object. */
static u32 lsmem_span_publish(struct lsmem_store *store, struct lsmem_span *span)
{
	u64 now = lsmem_handle_version(store, 0);
	u32 replaced = 0, bytes = 0, i;

	for (i = 0; i < span->nr; i++)
		bytes += span->sizes[i];
	/* Before the exchanges: a racing change may count an entry of the span as dead. */
	atomic_add(bytes, span->ap.segment->live);
	rcu_read_lock();
	lsmem_span_look(store, span, now);
	lsmem_span_livemap(store, span);
	for (i = 0; i < span->nr; i++) {
		struct lsmem_op *op = &span->ops[i];

		op->result = 0;
		if (op->op == LSMEM_OP_ALLOC)
			lsmem_span_alloc(store, span, i, now);
		else
			op->result = lsmem_span_replace(store, span, i, now);
		if (op->result == -LSMEM_ECOLD || op->result == -LSMEM_EUNSETTLED) {
			/* It has to be waited for: it and what follows is left to the caller. */
			lsmem_span_cut(store, span, i);
			break;
		}
		if (op->result) {
			lsmem_append_pad(store, &span->ap, span->offsets[i], span->sizes[i], 1);
			lsmem_livemap_clear(&store->handles.livemap,
					    lsmem_span_entry(span, i).position);
			span->lost += span->sizes[i];
			continue;
		}
		replaced += op->op == LSMEM_OP_REPLACE;
		lsmem_span_trace(store, span, i);
	}
	lsmem_livemap_apply(&store->handles.livemap, &span->dead, false);
	rcu_read_unlock();
	if (span->lost)
		atomic_sub(span->lost, span->ap.segment->live);
	lsmem_count(store, appends, span->nr);
	lsmem_count(store, appended_bytes, bytes - span->lost);
	return replaced;
}

/**
 * lsmem_span_change - carry out the first of some operations as one span
 * @store: active, object kind
 * @ops: checked: LSMEM_OP_ALLOC and LSMEM_OP_REPLACE; their results are filled in
 * @nr: how many, at most LSMEM_SPAN_MAX
 * @deadline: LSMEM_NO_WAIT: do not wait at the gate either (space.c)
 *
 * Context: may sleep; holds nothing.
 * Return: how many were carried out; 0: carry out the first one by itself.
 */
u32 lsmem_span_change(struct lsmem_store *store, struct lsmem_op *ops, u32 nr, u64 deadline)
{
	struct lsmem_span span;
	u32 gathered, replaced;

	span.ops = ops;
	span.growth = 0;
	span.live = 0;
	span.lost = 0;
	span.dead.mask = 0;
	span.admitted = lsmem_span_gather(store, &span, nr);
	if (span.nr < 2 || lsmem_admit(store, span.admitted))
		return 0;
	lsmem_span_allocate(store, &span);
	gathered = span.nr;
	if (gathered < 2 || lsmem_append_begin_span(store, lsmem_log_head(store), span.sizes,
						    gathered, deadline, &span.ap)) {
		span.nr = 0;
	} else {
		lsmem_span_copy(store, &span);
		replaced = lsmem_span_publish(store, &span);
		lsmem_append_commit(store, &span.ap);
		lsmem_count(store, replaced, replaced);
	}
	lsmem_live_add(store, (s64)span.live - span.admitted);	/* never more than was admitted */
	lsmem_span_free(store, ops, span.nr, gathered);
	return span.nr;
}
