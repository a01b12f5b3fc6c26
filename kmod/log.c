// SPDX-License-Identifier: GPL-2.0
/*
 * The log: a few heads, each with an open segment, and appends to them.
 *
 * An append is
 *
 *	begin	reserve bytes under the head's lock; wait for space if there is none
 *	copy	the payload, with page faults disabled and no lock held
 *	stamp	the header: key, version, place, CRCs
 *	commit	the entry is whole; the committed prefix passes it in order
 *
 * Cleaner and replication read the committed prefix only.  An append that fails is
 * turned into padding (abort) and committed, so that the prefix always advances
 * (invariant 19) and a refused operation never becomes a valid entry (invariant 7).
 * Between begin and commit nothing sleeps and preemption is off: an unfinished append
 * holds up every durable wait of its head, so it lasts no longer than a copy and a
 * checksum of LSMEM_OBJECT_MAX bytes.  The caller handles page faults after an abort,
 * with nothing held.
 *
 * A segment ends where the next entry, a last commit record and the directory would not
 * fit what it has on backups (lsmem_segment_fits_into()).  The head then takes a spare,
 * which is already listed in a durable digest (invariant 8).
 *
 * Locks: head->lock, for reservation and commit; see store.h for the order.
 */
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "entry.h"
#include "log.h"
#include "snapshot.h"
#include "space.h"
#include "store.h"

/* Kept at the end of each segment: a commit record and the gap before it. */
#define LSMEM_RECORD_ROOM	(2 * LSMEM_LONG_BYTES)

/**
 * lsmem_log_init - make the heads of a store
 * @store: has memory for them, zeroed
 */
void lsmem_log_init(struct lsmem_store *store)
{
	unsigned int i;

	for (i = 0; i < store->heads.nr; i++)
		spin_lock_init(&store->heads.table[i].lock);
}

/**
 * lsmem_log_head_of - the head that a writer uses
 * @store: the store
 * @writer: a number; neighbouring numbers map to different heads
 * Return: 1 .. nr_heads - 1.
 */
unsigned int lsmem_log_head_of(const struct lsmem_store *store, unsigned int writer)
{
	return 1 + writer % (store->heads.nr - 1);
}

/**
 * lsmem_log_head - the head that writers on this CPU use
 * @store: the store
 * Return: 1 .. heads.nr - 1.
 */
unsigned int lsmem_log_head(const struct lsmem_store *store)
{
	return lsmem_log_head_of(store, raw_smp_processor_id());
}

/**
 * lsmem_log_head_at - the head of writers that appends to a segment
 * @store: the store
 * @segment: id
 * Return: 1 .. heads.nr - 1; 0: there is none, or none any more.
 */
unsigned int lsmem_log_head_at(struct lsmem_store *store, u64 segment)
{
	unsigned int i, found = 0;

	for (i = 1; i < store->heads.nr && !found; i++) {
		struct lsmem_head *head = &store->heads.table[i];

		spin_lock(&head->lock);
		if (head->segment && head->segment->id == segment)
			found = i;
		spin_unlock(&head->lock);
	}
	return found;
}

/* Advance the committed prefix over the appends that are whole, in order. */
static void lsmem_head_advance(struct lsmem_store *store, struct lsmem_head *head)
{
	while (head->first != head->next) {
		u32 i = head->first % LSMEM_RING;
		struct lsmem_segment *seg = head->ring[i].segment;

		if (!head->ring[i].whole)
			break;
		/* Pairs with lsmem_tell_segment(): all below is whole. */
		smp_store_release(&seg->committed, head->ring[i].end);
		head->first++;
		if (seg->final && seg->committed == seg->reserved)
			lsmem_segment_close(store, seg);
	}
}

/* Returns where @nr entries of these sizes would end; the start of the first in @start. */
static u32 lsmem_head_end(const struct lsmem_segment *seg, const u32 *sizes, u32 nr, u32 *start)
{
	u32 end = seg->reserved, i;

	*start = lsmem_entry_start(end);
	for (i = 0; i < nr; i++)
		end = lsmem_entry_start(end) + sizes[i];
	return end;
}

/* Is this the head of survivors? */
static bool lsmem_head_cleaners(const struct lsmem_store *store, const struct lsmem_head *head)
{
	return head == &store->heads.table[LSMEM_CLEANER_HEAD];
}

/*
 * Reserve @nr entries of these sizes, with one place in the ring; the directory will list
 * @listed of them.  -EXFULL: the segment is full, -EBUSY: too many appends under way, -ENOSPC:
 * no seglet.
 */
static int lsmem_head_reserve(struct lsmem_store *store, struct lsmem_head *head,
			      const u32 *sizes, u32 nr, u32 listed, u32 room,
			      struct lsmem_append *ap)
{
	struct lsmem_segment *seg = head->segment;
	/* A commit record may use the last place in the ring. */
	u32 places = room ? LSMEM_RING - 1 : LSMEM_RING;
	enum lsmem_taker taker = lsmem_head_cleaners(store, head) ? LSMEM_TAKER_CLEANER :
				 room ? LSMEM_TAKER_WRITER : LSMEM_TAKER_RECORD;
	u32 start, end, i, held;
	int ret;

	lockdep_assert_held(&head->lock);
	if (!seg || (taker == LSMEM_TAKER_WRITER && seg->reserved &&
		     lsmem_fault(&store->faults, LSMEM_FAULT_ROLL)))
		return -EXFULL;
	end = lsmem_head_end(seg, sizes, nr, &start);
	if (!lsmem_segment_fits_into(store->segments.bytes, end + room, seg->entries + listed))
		return -EXFULL;
	if (head->next - head->first >= places)
		return -EBUSY;
	held = seg->nr_seglets;
	ret = lsmem_segment_grow(store, seg, end, taker);
	if (ret) {
		lsmem_snapshots_press(store);
		return ret;
	}
	if (seg->nr_seglets != held && taker != LSMEM_TAKER_CLEANER)
		lsmem_space_taken(store, head);
	if (seg->nr_seglets != held &&
	    lsmem_seglets_free(&store->seglets) < READ_ONCE(store->space.throttle_below))
		lsmem_snapshots_press(store);
	if (start > seg->reserved)
		lsmem_segment_write(store, seg, seg->reserved, NULL, start - seg->reserved);
	WRITE_ONCE(seg->reserved, end);	/* see lsmem_log_oldest() */
	seg->entries += listed;
	i = head->next++ % LSMEM_RING;
	head->ring[i].segment = seg;
	head->ring[i].end = end;
	head->ring[i].whole = false;
	*ap = (struct lsmem_append){
		.head = head,
		.segment = seg,
		.offset = start,
		.size = end - start,
		.index = i,
		.position = lsmem_segment_position(seg, start),
		.listed = listed,
	};
	return 0;
}

/**
 * lsmem_head_commit_record - end what is in a head's segment with a record
 * @store: durable
 * @head: lock held
 *
 * The record holds the acknowledged offset: if a recovery finds the record but not the bytes
 * below that offset, data were lost, and not merely torn.  A record that would need a seglet
 * which the cleaner has claimed is left out; the next one gives the proof.
 * Return: false if there is nothing to end, or no room.
 */
bool lsmem_head_commit_record(struct lsmem_store *store, struct lsmem_head *head)
{
	struct lsmem_segment *seg = head->segment;
	u32 size = lsmem_entry_size(0);
	struct lsmem_append ap;

	if (!seg || seg->reserved == READ_ONCE(seg->emitted))
		return false;
	if (lsmem_head_reserve(store, head, &size, 1, 0, 0, &ap))
		return false;
	lsmem_entry_stamp(store, &ap, lsmem_entry_make(LSMEM_TYPE_COMMIT, READ_ONCE(seg->acked), 0,
						       lsmem_store_time(store), 0, 0, ap.offset),
			  ~0u);
	head->ring[ap.index].whole = true;
	lsmem_head_advance(store, head);
	return true;
}

/* Close the head's segment, if it has one. */
static void lsmem_head_close(struct lsmem_store *store, struct lsmem_head *head)
{
	struct lsmem_segment *old = head->segment;

	lockdep_assert_held(&head->lock);
	if (!old)
		return;
	if (store->durable)
		lsmem_head_commit_record(store, head);
	old->rolled = atomic64_inc_return(&store->heads.rolls);
	smp_store_release(&old->final, true);	/* see lsmem_log_before() */
	if (old->committed == old->reserved)
		lsmem_segment_close(store, old);
}

/* Close the head's segment and take a spare; -EAGAIN when there is none. */
static int lsmem_head_next(struct lsmem_store *store, struct lsmem_head *head)
{
	struct lsmem_segment *seg;

	lockdep_assert_held(&head->lock);
	seg = lsmem_segment_take(store, lsmem_head_cleaners(store, head));
	if (!seg)
		return -EAGAIN;
	lsmem_head_close(store, head);
	head->segment = seg;
	return 0;
}

/**
 * lsmem_head_roll - close a head's segment, whatever is in it
 * @store: the store
 * @head: number of the head
 *
 * For the cleaner, when the remaining garbage lies in open segments.
 * Return: 0, or -EAGAIN when no spare is ready, or the segment is empty.
 */
int lsmem_head_roll(struct lsmem_store *store, unsigned int head)
{
	struct lsmem_head *h = &store->heads.table[head];
	int ret = -EAGAIN;

	spin_lock(&h->lock);
	if (h->segment && h->segment->reserved)
		ret = lsmem_head_next(store, h);
	spin_unlock(&h->lock);
	if (!ret)
		wake_up(&store->repl.events);	/* a segment to be closed, another to be opened */
	return ret;
}

/**
 * lsmem_log_close - close the segments of all heads
 * @store: frozen, durable; neither cleaner works
 *
 * The heads have none then: no spare is needed, which a full table would not have.
 */
void lsmem_log_close(struct lsmem_store *store)
{
	unsigned int i;

	for (i = 0; i < store->heads.nr; i++) {
		struct lsmem_head *head = &store->heads.table[i];

		spin_lock(&head->lock);
		if (head->segment && head->segment->reserved) {
			lsmem_head_close(store, head);
			head->segment = NULL;
		}
		spin_unlock(&head->lock);
	}
	wake_up(&store->repl.events);
}

/*
 * Reserve entries, without waiting.  With 0 preemption is off.  Otherwise -EXFULL: no spare is
 * ready; -EREMCHG: the store is frozen; -EBUSY, -ENOSPC: as lsmem_head_reserve() says.
 */
static int lsmem_append_try(struct lsmem_store *store, struct lsmem_head *head, const u32 *sizes,
			    u32 nr, u32 listed, struct lsmem_append *ap)
{
	bool cleaners = lsmem_head_cleaners(store, head);
	bool fails = !cleaners && lsmem_fault(&store->faults, LSMEM_FAULT_SPACE);
	int ret;

	lsmem_append_pin();
	if (!cleaners && lsmem_store_frozen(store)) {
		lsmem_append_unpin();
		return -EREMCHG;
	}
	spin_lock(&head->lock);
	do {
		ret = fails ? -ENOSPC : lsmem_head_reserve(store, head, sizes, nr, listed,
							   LSMEM_RECORD_ROOM, ap);
	} while (ret == -EXFULL && !lsmem_head_next(store, head));
	if (ret == -EBUSY)
		head->crowded = true;	/* the next commit wakes us up */
	spin_unlock(&head->lock);
	if (ret) {
		lsmem_append_unpin();
		return ret;
	}
	if (READ_ONCE(store->seglets.nr_free) < store->space.clean_below &&
	    READ_ONCE(store->plan.idle) && wq_has_sleeper(&store->plan.work))
		wake_up_all(&store->plan.work);
	return 0;
}

/* Reserve entries, as lsmem_append_begin_by() does one. */
static int lsmem_append_wait(struct lsmem_store *store, unsigned int head, const u32 *sizes, u32 nr,
			     u32 listed, u64 *deadline, struct lsmem_append *ap)
{
	struct lsmem_head *h = &store->heads.table[head];
	int ret;

	if (head != LSMEM_CLEANER_HEAD) {
		ret = lsmem_space_throttle(store, h, *deadline);
		if (ret)
			return ret;
	}
	for (;;) {
		int serial = atomic_read_acquire(&store->space.serial);

		if (!lsmem_append_try(store, h, sizes, nr, listed, ap))
			return 0;
		if (head == LSMEM_CLEANER_HEAD)
			return -EAGAIN;
		ret = lsmem_space_wait(store, serial, deadline);
		if (ret == -ETIMEDOUT)
			return lsmem_store_frozen(store) ? -EREMCHG : -ENOSPC;
		if (ret)
			return ret;
	}
}

/**
 * lsmem_append_begin_by - reserve an entry
 * @store: active
 * @head: number of the head
 * @length: payload bytes
 * @type: LSMEM_TYPE_*
 * @deadline: of all waits for space, as lsmem_space_wait() says
 * @ap: filled in
 *
 * Waits for the cleaners, or for a place in the ring, if necessary; the cleaner never waits.
 *
 * Context: may sleep.  On success preemption is off until the commit or abort that follows.
 * Return: 0; -ENOSPC: no space within the bound; -EREMCHG: the store was frozen at its end; -EINTR; -EAGAIN (not
 * active; for the cleaner, no space); -LSMEM_EWAIT: it would wait, and @deadline is LSMEM_NO_WAIT.
 */
int lsmem_append_begin_by(struct lsmem_store *store, unsigned int head, u32 length, u32 type,
			  u64 *deadline, struct lsmem_append *ap)
{
	bool listed = type == LSMEM_TYPE_OBJECT || type == LSMEM_TYPE_TOMBSTONE;
	u32 size = lsmem_entry_size(length);

	return lsmem_append_wait(store, head, &size, 1, listed, deadline, ap);
}

/**
 * lsmem_append_begin_group - reserve the entries of a group side by side
 * @store: active
 * @head: number of a writer's head
 * @sizes: of each entry; in all at most LSMEM_GROUP_BYTES, since preemption is off until they are copied
 * @nr: entries
 * @listed: how many of them are objects and tombstones
 * @deadline: of all waits for space
 * @ap: as for lsmem_append_begin_span()
 *
 * Context and Return: as lsmem_append_begin_by().
 */
int lsmem_append_begin_group(struct lsmem_store *store, unsigned int head, const u32 *sizes, u32 nr,
			     u32 listed, u64 *deadline, struct lsmem_append *ap)
{
	return lsmem_append_wait(store, head, sizes, nr, listed, deadline, ap);
}

/**
 * lsmem_append_begin_span - reserve several entries of objects side by side
 * @store: active
 * @head: number of a writer's head
 * @sizes: of each entry, header and alignment included; in all at most LSMEM_OBJECT_MAX, since
 *	preemption is off until they are copied
 * @nr: entries
 * @deadline: LSMEM_NO_WAIT: do not wait at the gate either
 * @ap: filled in; the first entry begins at its offset, each other one at
 *	lsmem_entry_start() of the end of the one before
 *
 * All of them become readable by one commit.  Does not wait for space.
 *
 * Context: may sleep.  On success preemption is off until the commit or abort that follows.
 * Return: 0, or -EAGAIN: append them one by one, with waits.
 */
int lsmem_append_begin_span(struct lsmem_store *store, unsigned int head, const u32 *sizes,
			    u32 nr, u64 deadline, struct lsmem_append *ap)
{
	struct lsmem_head *h = &store->heads.table[head];

	if (lsmem_space_throttle(store, h, deadline))
		return -EAGAIN;
	return lsmem_append_try(store, h, sizes, nr, nr, ap) ? -EAGAIN : 0;
}

/**
 * lsmem_append_begin - reserve an entry, with waits of stall_ms at most
 * @store: active
 * @head: number of the head
 * @length: payload bytes
 * @type: LSMEM_TYPE_*
 * @ap: filled in
 *
 * Context and Return: as lsmem_append_begin_by().
 */
int lsmem_append_begin(struct lsmem_store *store, unsigned int head, u32 length, u32 type,
		       struct lsmem_append *ap)
{
	u64 deadline = 0;

	return lsmem_append_begin_by(store, head, length, type, &deadline, ap);
}

/**
 * lsmem_append_copy - copy a payload into its entry
 * @store: the store
 * @ap: reserved
 * @source: of the bytes
 * @length: how many
 * @pcrc: out: CRC of the bytes in the log
 *
 * Does not sleep.  Return: 0, or -EFAULT if a user page is not present.
 */
int lsmem_append_copy(struct lsmem_store *store, const struct lsmem_append *ap,
		      const struct lsmem_source *source, u32 length, u32 *pcrc)
{
	u32 offset = ap->offset + lsmem_header_bytes(length), done = 0, crc = ~0u;

	while (done < length) {
		void *to = lsmem_segment_at(store, ap->segment, offset + done);
		u32 piece = min(length - done,
				LSMEM_SEGLET_BYTES - (offset + done) % LSMEM_SEGLET_BYTES);

		if (source->kernel) {
			memcpy(to, source->kernel + done, piece);
		} else {
			unsigned long left;

			pagefault_disable();
			left = __copy_from_user_inatomic(to, source->user + done, piece);
			pagefault_enable();
			if (left)
				return -EFAULT;
		}
		/* Of the copy: the user can change the source meanwhile. */
		crc = lsmem_crc32c(crc, to, piece);
		done += piece;
	}
	/* Zero the alignment: no earlier content of the seglet is replicated. */
	if (length % LSMEM_ALIGN)
		lsmem_segment_write(store, ap->segment, offset + length, NULL,
				    LSMEM_ALIGN - length % LSMEM_ALIGN);
	*pcrc = crc;
	return 0;
}

/**
 * lsmem_append_commit - end an append whose entry is whole
 * @store: the store
 * @ap: stamped; invalid afterwards
 */
void lsmem_append_commit(struct lsmem_store *store, struct lsmem_append *ap)
{
	struct lsmem_head *head = ap->head;
	bool room;

	spin_lock(&head->lock);
	head->ring[ap->index].whole = true;
	ap->segment->entries -= ap->unlisted;	/* before it may be closed */
	lsmem_head_advance(store, head);
	room = head->crowded && head->next - head->first < LSMEM_RING - 1;
	if (room)
		head->crowded = false;
	spin_unlock(&head->lock);
	lsmem_append_unpin();
	if (room)
		lsmem_space_came(store);
	if (store->durable && wq_has_sleeper(&store->repl.events))
		wake_up_poll(&store->repl.events, EPOLLIN | EPOLLRDNORM);
	if (ap->bounce)
		kvfree(ap->bounce);
}

/**
 * lsmem_append_pad - turn the rest of an append into padding
 * @store: the store
 * @ap: reserved
 * @offset: in the segment, where an entry of @ap begins or ends
 * @size: bytes, up to where an entry ends
 * @entries: how many
 *
 * The payload of a refused operation must not reach a backup.
 */
void lsmem_append_pad(struct lsmem_store *store, struct lsmem_append *ap, u32 offset, u32 size,
		      u32 entries)
{
	u32 start = lsmem_entry_start(offset), length = offset + size - start - LSMEM_LONG_BYTES;
	struct lsmem_append pad = *ap;

	pad.offset = start;
	lsmem_segment_write(store, ap->segment, offset, NULL, size);
	lsmem_entry_stamp(store, &pad, lsmem_entry_make(LSMEM_TYPE_PAD, length, 0, 0, 0, 0, start),
			  ~0u);
	lsmem_count(store, padding_bytes, length + LSMEM_LONG_BYTES);
	if (ap->listed)
		ap->unlisted += entries;	/* no directory lists padding */
}

/**
 * lsmem_append_abort - end an append by turning all of it into padding
 * @store: the store
 * @ap: reserved; invalid afterwards
 */
void lsmem_append_abort(struct lsmem_store *store, struct lsmem_append *ap)
{
	lsmem_append_pad(store, ap, ap->offset, ap->size, ap->listed);
	lsmem_append_commit(store, ap);
}

/**
 * lsmem_log_point - the reserved end of every head
 * @store: the store
 * @point: out: every change applied so far lies before it
 *
 * Reserved, not committed: the entry of a change whose word has been exchanged may still wait
 * for an earlier append before the committed prefix passes it.
 */
void lsmem_log_point(struct lsmem_store *store, struct lsmem_vector_point *point)
{
	unsigned int i;

	for (i = 0; i < store->heads.nr; i++) {
		struct lsmem_head *head = &store->heads.table[i];

		spin_lock(&head->lock);
		point->segment[i] = head->segment ? head->segment->id : 0;
		point->offset[i] = head->segment ? head->segment->reserved : 0;
		spin_unlock(&head->lock);
	}
	/* Last, so that it includes heads that rolled before they were read. */
	point->rolls = atomic64_read(&store->heads.rolls);
}

/*
 * How much of @seg lies before @point: all, when its head had rolled on by
 * then; up to the head's offset, when it was the head's; otherwise nothing.
 */
static u32 lsmem_log_before(const struct lsmem_store *store, const struct lsmem_segment *seg,
			    const struct lsmem_vector_point *point)
{
	unsigned int i;

	for (i = 0; i < store->heads.nr; i++)
		if (seg->id == point->segment[i])
			return point->offset[i];
	/* Pairs with lsmem_head_next(): reserved and rolled are final then. */
	return smp_load_acquire(&seg->final) && seg->rolled <= point->rolls ? seg->reserved : 0;
}

/*
 * Has every segment come as far as @point?  @missing: out unless NULL: with false, the first place
 * before @point that has not.
 */
static bool __lsmem_log_reached(struct lsmem_store *store,
				const struct lsmem_vector_point *point, enum lsmem_reach reach,
				struct lsmem_place *missing)
{
	struct lsmem_segment *seg;

	lockdep_assert_held(&store->segments.lock);
	list_for_each_entry(seg, &store->segments.todo, todo) {
		u32 to = reach == LSMEM_REACH_EMITTED ? seg->emitted :
			 reach == LSMEM_REACH_RECEIVED ? lsmem_segment_received(seg) : seg->acked;
		u32 before = lsmem_log_before(store, seg, point);

		if (to >= before)
			continue;
		if (missing)
			*missing = (struct lsmem_place){ .segment = seg->id, .offset = before };
		return false;
	}
	return true;
}

/**
 * lsmem_log_reached - is the daemon so far with everything before a point?
 * @store: the store
 * @point: from lsmem_log_point()
 * @reach: how far
 *
 * Context: takes segments.lock.
 */
bool lsmem_log_reached(struct lsmem_store *store, const struct lsmem_vector_point *point,
		       enum lsmem_reach reach)
{
	bool reached;

	spin_lock(&store->segments.lock);
	reached = __lsmem_log_reached(store, point, reach, NULL);
	spin_unlock(&store->segments.lock);
	return reached;
}

/**
 * lsmem_log_missing - is there something before a point that a backup has not received?
 * @store: the store
 * @point: from lsmem_log_point()
 * @place: out: if there is, the end of what is missing in one segment
 *
 * Context: takes segments.lock.
 */
bool lsmem_log_missing(struct lsmem_store *store, const struct lsmem_vector_point *point,
		       struct lsmem_place *place)
{
	bool reached;

	spin_lock(&store->segments.lock);
	reached = __lsmem_log_reached(store, point, LSMEM_REACH_RECEIVED, place);
	spin_unlock(&store->segments.lock);
	return !reached;
}

/**
 * lsmem_log_emitted - has the daemon been told everything before a point?
 * @store: segments.lock held
 * @point: from lsmem_log_point()
 */
bool lsmem_log_emitted(struct lsmem_store *store, const struct lsmem_vector_point *point)
{
	return __lsmem_log_reached(store, point, LSMEM_REACH_EMITTED, NULL);
}
