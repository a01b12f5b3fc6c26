// SPDX-License-Identifier: GPL-2.0
/*
 * Loading: what a recovery brings back into a durable store.
 *
 * The daemon gives the entries that won, segment by segment, in the order of
 * segment ids.  Each becomes part of a segment with its old id, closed and
 * fully acknowledged: the log on the backup is adopted where it lies, nothing
 * is written.  In memory such a segment holds winners only, so offsets here
 * and on the backup differ; each entry keeps its home offset, and with it the
 * CRC of its header.
 *
 * Nothing that is given is trusted: headers and payloads are checked by their
 * CRCs, keys and lengths against the store.  A store is loaded by one daemon
 * or not at all: if it goes before activation, all is forgotten (invariant 20).
 *
 * Locks: attachment->mutex for a call, store->mutex for state; the store is
 * not active, so nobody else touches log and handles.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "handle.h"
#include "repl.h"

#define LSMEM_SEGMENT_ID_END	(1ull << 62)	/* far from where ids would wrap */

/* The segment that entries go to: the newest, or a new one after it. */
static struct lsmem_segment *lsmem_load_segment(struct lsmem_store *store,
						const struct lsmem_load *load)
{
	struct lsmem_segment *seg = NULL;

	spin_lock(&store->segment_lock);
	if (!list_empty(&store->log))
		seg = list_last_entry(&store->log, struct lsmem_segment, node);
	if (!seg || seg->id < load->segment) {
		seg = lsmem_segment_new(store, load->segment, load->generation);
		if (seg) {
			seg->open_emitted = true;
			seg->open_acked = true;
			seg->close_emitted = true;
			seg->final = true;
			seg->state = LSMEM_SEGMENT_CLOSED;
			seg->home = load->sealed;
			lsmem_segment_done(seg);
			store->next_segment = seg->id + 1;
			store->barrier = seg->id + 1;
		} else {
			seg = ERR_PTR(-ENOSPC);
		}
	} else if (seg->id != load->segment || seg->generation != load->generation ||
		   seg->home != load->sealed) {
		seg = ERR_PTR(-EINVAL);
	}
	spin_unlock(&store->segment_lock);
	return seg;
}

/* Is this a header that the store can take? */
static int lsmem_load_check(struct lsmem_store *store, const struct lsmem_segment *seg,
			    const struct lsmem_entry *e, u32 left)
{
	u64 key = le64_to_cpu(e->key);
	u32 length = lsmem_entry_length(e), generation = lsmem_handle_generation(key);

	if (!lsmem_entry_valid(e, seg->salt))
		return -EBADMSG;
	if (lsmem_entry_size(length) > left)
		return -EINVAL;
	if (lsmem_handle_index(key) >= store->nr_handles || !generation)
		return -EINVAL;
	if (store->kind == LSMEM_KIND_BLOCK && generation != 1)
		return -EINVAL;
	switch (lsmem_entry_type(e)) {
	case LSMEM_TYPE_OBJECT:
		if (store->kind == LSMEM_KIND_BLOCK)
			return length == LSMEM_BLOCK ? 0 : -EINVAL;
		return length ? 0 : -EINVAL;
	case LSMEM_TYPE_DELETE:
		return length == sizeof(struct lsmem_delete) ? 0 : -EINVAL;
	default:
		return -EINVAL;
	}
}

/* Append one entry as it is; its payload comes from user space. */
static int lsmem_load_append(struct lsmem_store *store, struct lsmem_segment *seg,
			     const struct lsmem_entry *e, const void __user *payload, u32 *at)
{
	u32 offset = lsmem_entry_start(seg->reserved), length = lsmem_entry_length(e);
	u32 size = lsmem_entry_size(length), bytes = size - LSMEM_ENTRY_BYTES, done = 0;
	u32 crc = ~0u, counted = length;

	if (offset + size > LSMEM_SEGMENT_BYTES)
		return -EINVAL;
	if (lsmem_segment_grow(store, seg, offset + size, false))
		return -ENOSPC;
	if (offset > seg->reserved)
		lsmem_segment_write(store, seg, seg->reserved, NULL, offset - seg->reserved);
	lsmem_segment_write(store, seg, offset, e, sizeof(*e));
	while (done < bytes) {
		u32 to = offset + LSMEM_ENTRY_BYTES + done;
		u32 piece = min(bytes - done, LSMEM_SEGLET_BYTES - to % LSMEM_SEGLET_BYTES);
		void *address = lsmem_segment_at(store, seg, to);

		if (copy_from_user(address, payload + done, piece))
			return -EFAULT;
		crc = lsmem_crc32c(crc, address, min(piece, counted));
		counted -= min(piece, counted);
		done += piece;
	}
	if (crc != le32_to_cpu(e->pcrc))
		return -EBADMSG;
	seg->reserved = offset + size;
	seg->committed = seg->reserved;
	seg->emitted = seg->reserved;
	seg->acked = seg->reserved;
	seg->entries++;
	*at = offset;
	return 0;
}

/* A loaded version supersedes what the handle pointed to. */
static void lsmem_load_drop(struct lsmem_store *store, struct lsmem_handle *h)
{
	const struct lsmem_entry *old = lsmem_word_entry(store, h->word);
	u32 length = lsmem_entry_length(old);

	lsmem_entry_dead(store, lsmem_word_position(h->word), length);
	lsmem_live_add(store, -(s64)lsmem_entry_size(length));
	h->word = lsmem_word_next(h->word, LSMEM_WORD_FREE, 0);
}

/* Does the table know something newer than generation and version of @e? */
static bool lsmem_load_older(struct lsmem_store *store, const struct lsmem_handle *h,
			     const struct lsmem_entry *e)
{
	u32 generation = lsmem_handle_generation(le64_to_cpu(e->key));
	u64 version = le64_to_cpu(e->version);

	if (lsmem_word_state(h->word) == LSMEM_WORD_LIVE) {
		const struct lsmem_entry *old = lsmem_word_entry(store, h->word);
		u32 old_generation = lsmem_handle_generation(le64_to_cpu(old->key));

		if (generation != old_generation)
			return generation < old_generation;
		return version <= le64_to_cpu(old->version);
	}
	if (store->kind == LSMEM_KIND_BLOCK)
		return version <= h->info;
	return generation <= lsmem_info_generation(h->info);	/* deleted */
}

/* An entry is in its segment: let the handle table know. */
static void lsmem_load_apply(struct lsmem_store *store, struct lsmem_segment *seg, u32 offset,
			     const struct lsmem_entry *e)
{
	u64 key = le64_to_cpu(e->key), version = le64_to_cpu(e->version);
	u64 index = lsmem_handle_index(key);
	struct lsmem_handle *h = &store->handles[index];
	bool object = lsmem_entry_type(e) == LSMEM_TYPE_OBJECT, older = lsmem_load_older(store, h, e);
	bool live = lsmem_word_state(h->word) == LSMEM_WORD_LIVE;
	u32 size = lsmem_entry_size(lsmem_entry_length(e));
	u32 generation = lsmem_handle_generation(key);
	struct lsmem_delete record;

	if (!object) {
		lsmem_segment_read(store, seg, offset + LSMEM_ENTRY_BYTES, &record,
				   sizeof(record));
		seg->barrier = max(seg->barrier, le64_to_cpu(record.barrier));
		atomic_add(size, seg->deletes);
	}
	if (!object || !older) {
		atomic_add(size, seg->live);
		lsmem_live_add(store, size);
	}
	store->generation_max = max(store->generation_max, generation);
	store->era = max_t(u32, store->era, version >> LSMEM_VERSION_TIME_BITS);
	if (older)
		return;
	if (live)
		lsmem_load_drop(store, h);
	if (store->kind == LSMEM_KIND_BLOCK)
		h->info = object ? 0 : version;
	else
		h->info = (u64)lsmem_entry_table(e) << LSMEM_INFO_TABLE_SHIFT | generation;
	if (object)
		h->word = lsmem_word_next(h->word, LSMEM_WORD_LIVE,
					  lsmem_segment_position(seg, offset));
	if (live != object)
		percpu_counter_add(&store->handles_used, object ? 1 : -1);
	if (store->kind == LSMEM_KIND_OBJECT) {
		if (object)
			sbitmap_set_bit(&store->handle_map, index);
		else
			sbitmap_clear_bit(&store->handle_map, index);
	}
}

static int lsmem_load_entries(struct lsmem_store *store, struct lsmem_segment *seg,
			      const struct lsmem_load *load)
{
	const void __user *user = u64_to_user_ptr(load->data);
	u32 done = 0, offset;
	int ret;

	while (done < load->length) {
		struct lsmem_entry e;

		if (load->length - done < sizeof(e))
			return -EINVAL;
		if (copy_from_user(&e, user + done, sizeof(e)))
			return -EFAULT;
		ret = lsmem_load_check(store, seg, &e, load->length - done);
		if (!ret)
			ret = lsmem_load_append(store, seg, &e, user + done + sizeof(e), &offset);
		if (ret)
			return ret;
		lsmem_load_apply(store, seg, offset, &e);
		done += lsmem_entry_size(lsmem_entry_length(&e));
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/**
 * lsmem_load - LSMEM_REPL_LOAD
 * @store: attached, not active
 * @load: see there
 * Return: 0 or an error as there; after an error the daemon gives up, and what
 * has been loaded is forgotten with its attachment.
 */
int lsmem_load(struct lsmem_store *store, const struct lsmem_load *load)
{
	struct lsmem_segment *seg;
	int ret = 0;

	if (load->flags || load->reserved || !load->segment ||
	    load->segment >= LSMEM_SEGMENT_ID_END || !load->generation ||
	    load->length % LSMEM_ALIGN || load->length > LSMEM_SEGMENT_BYTES ||
	    load->sealed > LSMEM_SEGMENT_BYTES)
		return -EINVAL;
	mutex_lock(&store->mutex);
	if (store->state == LSMEM_STATE_ACTIVE || store->state == LSMEM_STATE_DYING)
		ret = -EINVAL;
	else
		store->state = LSMEM_STATE_RECOVERING;
	mutex_unlock(&store->mutex);
	if (ret)
		return ret;
	seg = lsmem_load_segment(store, load);
	return IS_ERR(seg) ? PTR_ERR(seg) : lsmem_load_entries(store, seg, load);
}

/**
 * lsmem_load_forget - a recovery has been given up
 * @store: RECOVERING, store->mutex held; becomes NEW
 */
void lsmem_load_forget(struct lsmem_store *store)
{
	struct lsmem_segment *seg, *next;
	u64 i;

	lockdep_assert_held(&store->mutex);
	spin_lock(&store->segment_lock);
	list_for_each_entry_safe(seg, next, &store->log, node)
		lsmem_segment_free(store, seg);
	store->nr_spares = 0;
	store->next_segment = 1;
	store->barrier = 0;
	spin_unlock(&store->segment_lock);
	for (i = 0; i < store->nr_handles; i++) {
		struct lsmem_handle *h = &store->handles[i];

		if (lsmem_word_state(h->word) == LSMEM_WORD_LIVE)
			h->word = lsmem_word_next(h->word, LSMEM_WORD_FREE, 0);
		h->info = 0;
		if (store->kind == LSMEM_KIND_OBJECT)
			sbitmap_clear_bit(&store->handle_map, i);
		if (i % 4096 == 0)
			cond_resched();
	}
	percpu_counter_set(&store->live, 0);
	percpu_counter_set(&store->handles_used, 0);
	store->generation_max = 0;
	store->era = 0;
	store->state = LSMEM_STATE_NEW;
}

/**
 * lsmem_load_activate - LSMEM_REPL_ACTIVATE
 * @store: attached, not active
 * @activate: see there
 * Return: 0; -EINVAL (already active, or something is not above what was
 * loaded) or what lsmem_store_activate() says.
 */
int lsmem_load_activate(struct lsmem_store *store, const struct lsmem_activate *activate)
{
	int ret = -EINVAL;

	if (activate->flags || activate->reserved || !activate->era ||
	    activate->era > LSMEM_ERA_MAX ||
	    activate->generation_ceiling > LSMEM_GENERATION_MAX ||
	    activate->generation_floor > activate->generation_ceiling ||
	    activate->store_time != lsmem_version_time(activate->store_time))
		return -EINVAL;
	mutex_lock(&store->mutex);
	/* Invariant 14: or a handle lost in the crash could name another object, and
	 * a version issued before be higher than one issued after.
	 */
	if ((store->state == LSMEM_STATE_NEW || store->state == LSMEM_STATE_RECOVERING) &&
	    activate->era > store->era &&
	    activate->next_segment >= store->next_segment &&
	    activate->next_segment <= LSMEM_SEGMENT_ID_END &&
	    (store->kind == LSMEM_KIND_BLOCK ||
	     activate->generation_floor >= store->generation_max)) {
		store->era = activate->era;
		store->generation_floor = activate->generation_floor;
		store->generation_max = activate->generation_floor;
		store->generation_ceiling = activate->generation_ceiling;
		store->clock = activate->store_time;
		store->clock_base = ktime_get_ns();
		store->next_segment = activate->next_segment;
		ret = lsmem_store_activate(store);
	}
	mutex_unlock(&store->mutex);
	return ret;
}
