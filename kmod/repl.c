// SPDX-License-Identifier: GPL-2.0
/*
 * Replication: the stream of events to the daemon of a durable store, and its
 * acknowledgements.
 *
 * The stream is not a queue.  The events follow from the state of the segments (opened,
 * committed, closed) compared with what was told and acknowledged.  So nothing is
 * allocated, ranges coalesce while the daemon is busy (group commit), and after the death
 * of a daemon the next one is told everything that was not acknowledged.
 *
 * Acknowledged means durable.  A separate acknowledgement, LSMEM_ACK_RECEIVED, tells what
 * each backup has, if only in memory.  Waits for either are in durable.c.
 *
 * Order within a batch: OPEN, RANGE, CLOSE, then groups of RETIRE.  A group is
 * told only after everything before the end of its cleaning pass: the daemon makes durable
 * what precedes the group in the stream, then writes the digest without it (invariant 9).
 *
 * The range [acked, emitted) of a segment is leased to the daemon, which does I/O from it.
 * Segments are cleaned and freed only when durably closed, and then have no lease.  The
 * leases of a daemon that dies last until the next one attaches, which has waited for the
 * I/O of its predecessor to end.
 *
 * Every field of an acknowledgement is checked against what was told.
 *
 * FETCH and FILL (fetch.c) are calls of their own: readers wait for them.
 *
 * LOAD is also a command of io_uring: a daemon reads and checks the next segment meanwhile, and
 * needs no thread for that.
 *
 * Locks: attachment->mutex for NEXT, ACK, LOAD and WORDS, user copies included (none
 * of its pages are lsmem's: a fault takes mmap_lock, never this mutex);
 * segments.lock for the state.
 */
#include <linux/anon_inodes.h>
#include <linux/fs.h>
#include <linux/nospec.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "clean.h"
#include "freeze.h"
#include "ioctl.h"
#include "load.h"
#include "log.h"
#include "parked.h"
#include "registry.h"
#include "repl.h"
#include "retire.h"
#include "space.h"
#include "store.h"
#include "uring.h"
#include "warm.h"
#include "window.h"
#include "words.h"

#ifdef CONFIG_IO_URING
#include "compat/uring.h"
#endif

#define LSMEM_BATCH		256	/* events copied to user space at a time */
#define LSMEM_NEXT_MIN		128	/* room that a caller must have */
#define LSMEM_ACKS_MAX		4096
#define LSMEM_GENERATIONS	4096	/* a ceiling is raised by this much ... */
#define LSMEM_GENERATIONS_LOW	2048	/* ... when fewer are left */

/**
 * struct lsmem_attachment - an attached daemon
 * @store: its store
 * @mutex: held for each call
 * @resume: segments with higher ids are still to be told by RESUME; ~0: none
 * @broken: events were lost while they were copied out; the daemon must attach again
 * @batch: events to be copied out
 * @telling: of LSMEM_REPL_WORDS
 */
struct lsmem_attachment {
	struct lsmem_store *store;
	struct mutex mutex;
	u64 resume;
	bool broken;
	struct lsmem_event batch[LSMEM_BATCH];
	struct lsmem_telling telling;
};

/* ---- Telling ------------------------------------------------------------ */

static u32 lsmem_generation_wanted(const struct lsmem_store *store)
{
	u32 max = READ_ONCE(store->handles.max), ceiling = READ_ONCE(store->handles.ceiling);

	if (store->kind == LSMEM_KIND_BLOCK || ceiling - max >= LSMEM_GENERATIONS_LOW)
		return ceiling;
	return min(max + LSMEM_GENERATIONS, LSMEM_GENERATION_MAX);
}

/* RESUME events for segments above @at->resume; segments.lock held. */
static u32 lsmem_tell_resume(struct lsmem_attachment *at, struct lsmem_event *events, u32 room)
{
	struct lsmem_store *store = at->store;
	struct lsmem_segment *seg;
	u32 nr = 0;

	lockdep_assert_held(&store->segments.lock);
	if (at->resume == ~0ull)
		return 0;
	list_for_each_entry(seg, &store->segments.log, node) {
		/* No durable digest lists it; a view still holds its seglets. */
		if (seg->id <= at->resume || seg->retire_acked)
			continue;
		if (nr == room)
			return nr;
		events[nr++] = (struct lsmem_event){
			.type = LSMEM_EVENT_RESUME,
			.flags = (seg->open_acked ? LSMEM_EVENT_OPENED : 0) |
				 (seg->close_acked ? LSMEM_EVENT_CLOSED : 0) |
				 (seg->survivor ? LSMEM_EVENT_SURVIVOR : 0) |
				 (seg->retire_emitted ? LSMEM_EVENT_RETIRED : 0),
			.segment = seg->id,
			.generation = seg->generation,
			.first_seglet = seg->nr_seglets ? seg->seglets[0] : LSMEM_NO_SEGLET,
			.from = seg->close_acked ? seg->home : seg->acked,
			.to = seg->close_acked ? seg->home : READ_ONCE(seg->committed),
			.time = seg->open_time,
		};
		at->resume = seg->id;
	}
	if (nr < room) {
		events[nr++] = (struct lsmem_event){
			.type = LSMEM_EVENT_RESUME,
			.segment = ~0ull,
		};
		at->resume = ~0ull;
	}
	return nr;
}

/* OPEN, RANGE and CLOSE of one segment; segments.lock held. */
static u32 lsmem_tell_segment(struct lsmem_segment *seg, struct lsmem_event *events)
{
	struct lsmem_event event = {
		.segment = seg->id,
		.generation = seg->generation,
		.flags = seg->survivor ? LSMEM_EVENT_SURVIVOR : 0,
		.time = seg->open_time,
	};
	/* Pairs with lsmem_head_advance(): the daemon reads what lies below. */
	u32 committed = smp_load_acquire(&seg->committed), nr = 0;

	if (!seg->open_emitted) {
		event.type = LSMEM_EVENT_OPEN;
		events[nr++] = event;
		seg->open_emitted = true;
	}
	if (committed > seg->emitted) {
		event.type = LSMEM_EVENT_RANGE;
		event.from = seg->emitted;
		event.to = committed;
		event.first_seglet = seg->seglets[seg->emitted / LSMEM_SEGLET_BYTES];
		events[nr++] = event;
		WRITE_ONCE(seg->emitted, committed);
	}
	if (seg->state == LSMEM_SEGMENT_CLOSED && !seg->close_emitted) {
		event.type = LSMEM_EVENT_CLOSE;
		event.from = 0;
		event.to = seg->committed;
		event.first_seglet = seg->nr_seglets ? seg->seglets[0] : LSMEM_NO_SEGLET;
		event.entries = seg->entries;
		events[nr++] = event;
		seg->close_emitted = true;
	}
	return nr;
}

#define LSMEM_TELL_MAX	3	/* events of one segment in one batch */

static u32 lsmem_tell(struct lsmem_attachment *at, struct lsmem_event *events, u32 room)
{
	struct lsmem_store *store = at->store;
	struct lsmem_segment *seg;
	unsigned int i;
	u32 nr;

	lockdep_assert_held(&at->mutex);
	for (i = 0; i < store->heads.nr; i++) {
		spin_lock(&store->heads.table[i].lock);
		lsmem_head_commit_record(store, &store->heads.table[i]);
		spin_unlock(&store->heads.table[i].lock);
	}
	spin_lock(&store->segments.lock);
	nr = lsmem_tell_resume(at, events, room);
	if (at->resume == ~0ull) {
		list_for_each_entry(seg, &store->segments.todo, todo) {
			if (room - nr < LSMEM_TELL_MAX)
				break;
			nr += lsmem_tell_segment(seg, events + nr);
		}
		nr += lsmem_retire_tell(store, events + nr, room - nr);
	}
	spin_unlock(&store->segments.lock);
	return nr;
}

/* Is there anything to tell? Called for each poll. */
static bool lsmem_tell_pending(struct lsmem_attachment *at)
{
	struct lsmem_store *store = at->store;
	const struct lsmem_segment *seg;
	bool pending;

	if (!lsmem_store_active(store))
		return false;
	spin_lock(&store->segments.lock);
	pending = at->resume != ~0ull;
	list_for_each_entry(seg, &store->segments.todo, todo) {
		if (!seg->open_emitted || READ_ONCE(seg->committed) > seg->emitted ||
		    (seg->state == LSMEM_SEGMENT_CLOSED && !seg->close_emitted))
			pending = true;
		if (pending)
			break;
	}
	pending = pending || lsmem_retire_pending(store);
	spin_unlock(&store->segments.lock);
	return pending || lsmem_generation_wanted(store) > READ_ONCE(store->handles.ceiling);
}

static long lsmem_repl_next(void *context, void *arg)
{
	struct lsmem_attachment *at = context;
	struct lsmem_store *store = at->store;
	struct lsmem_next *next = arg;
	u32 room = min_t(u32, next->nr, LSMEM_BATCH), nr;

	if (next->flags || next->nr < LSMEM_NEXT_MIN)
		return -EINVAL;
	if (!lsmem_store_active(store))
		return -EAGAIN;
	if (at->broken)
		return -EIO;
	nr = lsmem_tell(at, at->batch, room);
	if (copy_to_user(u64_to_user_ptr(next->events), at->batch, nr * sizeof(*at->batch))) {
		at->broken = true;	/* told, but not received: attach again */
		return -EFAULT;
	}
	next->nr = nr;
	next->generation_wanted = lsmem_generation_wanted(store);
	next->store_time = lsmem_store_time(store);
	spin_lock(&store->segments.lock);
	next->next_segment = store->segments.next_id;
	spin_unlock(&store->segments.lock);
	return 0;
}

/* ---- Acknowledgements --------------------------------------------------- */

/* Take one acknowledgement. Returns false if it answers no event. segments.lock held. */
static bool lsmem_ack_one(struct lsmem_store *store, const struct lsmem_ack_one *ack)
{
	struct lsmem_segment *seg;

	lockdep_assert_held(&store->segments.lock);
	if (ack->type == LSMEM_EVENT_RETIRE)
		return lsmem_retire_ack(store, ack->segment);
	seg = lsmem_segment_find(store, ack->segment);
	if (!seg)
		return false;
	switch (ack->type) {
	case LSMEM_EVENT_OPEN:
		if (!seg->open_emitted || seg->open_acked)
			return seg->open_acked;
		lsmem_segment_listed(store, seg);
		return true;
	case LSMEM_EVENT_RANGE:
		if (!seg->open_acked || ack->to > seg->emitted || ack->to < seg->acked)
			return false;
		store->repl.durable_bytes += ack->to - seg->acked;
		WRITE_ONCE(seg->acked, ack->to);
		return true;
	case LSMEM_ACK_RECEIVED:
		if (!seg->open_acked || ack->to > seg->emitted || ack->to < seg->acked)
			return false;
		seg->received = max(seg->received, ack->to);
		return true;
	case LSMEM_EVENT_CLOSE:
		if (!seg->close_emitted || seg->acked != seg->committed)
			return false;
		if (!seg->close_acked)
			lsmem_segment_done(seg);
		return true;
	default:
		return false;
	}
}

static long lsmem_repl_ack(void *context, void *arg)
{
	struct lsmem_attachment *at = context;
	struct lsmem_store *store = at->store;
	struct lsmem_ack *ack = arg;
	struct lsmem_ack_one chunk[32];
	u32 done = 0, taken, i;
	long ret = 0;

	if (ack->flags || ack->nr > LSMEM_ACKS_MAX ||
	    ack->generation_ceiling > LSMEM_GENERATION_MAX)
		return -EINVAL;
	if (!lsmem_store_active(store))
		return -EAGAIN;
	if (ack->generation_ceiling && ack->generation_ceiling < store->handles.ceiling)
		return -EINVAL;
	if (ack->generation_ceiling)
		WRITE_ONCE(store->handles.ceiling, ack->generation_ceiling);
	while (done < ack->nr && !ret) {
		const struct lsmem_ack_one __user *user = u64_to_user_ptr(ack->acks);
		u32 nr = min_t(u32, ack->nr - done, ARRAY_SIZE(chunk));

		if (copy_from_user(chunk, user + done, nr * sizeof(*chunk))) {
			ret = -EFAULT;
			break;
		}
		taken = 0;
		spin_lock(&store->segments.lock);
		while (taken < nr && lsmem_ack_one(store, &chunk[taken]))
			taken++;
		spin_unlock(&store->segments.lock);
		for (i = 0; i < taken; i++)
			if (chunk[i].type == LSMEM_EVENT_RANGE ||
			    chunk[i].type == LSMEM_ACK_RECEIVED)
				lsmem_parked_acked(store, chunk[i].segment, chunk[i].to);
		done += taken;
		if (taken < nr)
			ret = -EINVAL;
	}
	ack->nr = done;
	wake_up_all(&store->repl.acks);
	lsmem_space_came(store);
	return ret;
}

static long lsmem_repl_load(void *context, void *arg)
{
	struct lsmem_attachment *at = context;

	return lsmem_load(at->store, arg);
}

static long lsmem_repl_place(void *context, void *arg)
{
	struct lsmem_attachment *at = context;

	return lsmem_load_place(at->store, arg);
}

static long lsmem_repl_activate(void *context, void *arg)
{
	struct lsmem_attachment *at = context;

	return lsmem_load_activate(at->store, arg);
}

static long lsmem_repl_clean(void *context, void *arg)
{
	struct lsmem_attachment *at = context;
	struct lsmem_store *store = at->store;
	struct lsmem_clean *clean = arg;
	u64 ids[LSMEM_VICTIMS];

	if (clean->flags & ~(LSMEM_CLEAN_LAST | LSMEM_CLEAN_DAMAGED) || clean->reserved ||
	    clean->nr > LSMEM_VICTIMS || !clean->nr == !(clean->flags & LSMEM_CLEAN_LAST))
		return -EINVAL;
	clean->nr = array_index_nospec(clean->nr, LSMEM_VICTIMS + 1);
	if (!lsmem_store_active(store))
		return -EAGAIN;
	if (clean->flags & LSMEM_CLEAN_LAST) {
		lsmem_clean_stop(store, true);
		return 0;
	}
	if (copy_from_user(ids, u64_to_user_ptr(clean->segments), clean->nr * sizeof(*ids)))
		return -EFAULT;
	return lsmem_clean_ask(store, ids, &clean->nr, clean->flags & LSMEM_CLEAN_DAMAGED);
}

static long lsmem_repl_fetch(void *context, void *arg)
{
	struct lsmem_attachment *at = context;

	return lsmem_fetch_take(at->store, arg);
}

static long lsmem_repl_near(void *context, void *arg)
{
	struct lsmem_attachment *at = context;

	return lsmem_near_tell(at->store, arg);
}

static long lsmem_repl_fill(void *context, void *arg)
{
	struct lsmem_attachment *at = context;

	return lsmem_fetch_fill(at->store, arg);
}

static long lsmem_repl_bring(void *context, void *arg)
{
	struct lsmem_attachment *at = context;

	return lsmem_warm_bring(at->store, arg);
}

static long lsmem_repl_freeze(void *context, void *arg)
{
	struct lsmem_attachment *at = context;

	return lsmem_freeze(at->store, arg);
}

static long lsmem_repl_words(void *context, void *arg)
{
	struct lsmem_attachment *at = context;

	return lsmem_words(at->store, &at->telling, arg);
}

static long lsmem_repl_room(void *context, void *arg)
{
	struct lsmem_attachment *at = context;
	struct lsmem_room *room = arg;

	if (room->flags || room->reserved || !room->segments)
		return -EINVAL;
	lsmem_segments_bound(at->store, room->segments);
	return 0;
}

/* ---- The descriptor ----------------------------------------------------- */

static const struct lsmem_ioctl lsmem_repl_ioctls[] = {
	LSMEM_IOCTL(LSMEM_REPL_NEXT, struct lsmem_next, LSMEM_NEXT_SIZE_VER0,
		    lsmem_repl_next),
	LSMEM_IOCTL(LSMEM_REPL_ACK, struct lsmem_ack, LSMEM_ACK_SIZE_VER0,
		    lsmem_repl_ack),
	LSMEM_IOCTL(LSMEM_REPL_LOAD, struct lsmem_load, LSMEM_LOAD_SIZE_VER0,
		    lsmem_repl_load),
	LSMEM_IOCTL(LSMEM_REPL_PLACE, struct lsmem_placement, LSMEM_PLACEMENT_SIZE_VER0,
		    lsmem_repl_place),
	LSMEM_IOCTL(LSMEM_REPL_ACTIVATE, struct lsmem_activate, LSMEM_ACTIVATE_SIZE_VER0,
		    lsmem_repl_activate),
	LSMEM_IOCTL(LSMEM_REPL_CLEAN, struct lsmem_clean, LSMEM_CLEAN_SIZE_VER0,
		    lsmem_repl_clean),
	LSMEM_IOCTL(LSMEM_REPL_FREEZE, struct lsmem_freeze, LSMEM_FREEZE_SIZE_VER0,
		    lsmem_repl_freeze),
	LSMEM_IOCTL(LSMEM_REPL_WORDS, struct lsmem_words, LSMEM_WORDS_SIZE_VER0,
		    lsmem_repl_words),
	LSMEM_IOCTL(LSMEM_REPL_ROOM, struct lsmem_room, LSMEM_ROOM_SIZE_VER0,
		    lsmem_repl_room),
};

/* Calls that do not wait for the others, as readers wait for them. */
static const struct lsmem_ioctl lsmem_repl_fetches[] = {
	LSMEM_IOCTL(LSMEM_REPL_FETCH, struct lsmem_fetch, LSMEM_FETCH_SIZE_VER0,
		    lsmem_repl_fetch),
	LSMEM_IOCTL(LSMEM_REPL_FILL, struct lsmem_fill, LSMEM_FILL_SIZE_VER0,
		    lsmem_repl_fill),
	LSMEM_IOCTL(LSMEM_REPL_NEAR, struct lsmem_near, LSMEM_NEAR_SIZE_VER0,
		    lsmem_repl_near),
	LSMEM_IOCTL(LSMEM_REPL_BRING, struct lsmem_bring, LSMEM_BRING_SIZE_VER0,
		    lsmem_repl_bring),
};

static long lsmem_repl_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct lsmem_attachment *at = file->private_data;
	long ret;

	ret = lsmem_ioctl_call(lsmem_repl_fetches, ARRAY_SIZE(lsmem_repl_fetches), at, cmd, arg);
	if (ret != -ENOTTY)
		return ret;
	if (mutex_lock_killable(&at->mutex))
		return -EINTR;
	ret = lsmem_ioctl_call(lsmem_repl_ioctls, ARRAY_SIZE(lsmem_repl_ioctls), at, cmd, arg);
	mutex_unlock(&at->mutex);
	return ret;
}

#ifdef CONFIG_IO_URING
static int lsmem_repl_uring_cmd(struct io_uring_cmd *cmd, unsigned int flags)
{
	unsigned long user;
	int ret;

	if (_IOC_NR(cmd->cmd_op) != _IOC_NR(LSMEM_REPL_LOAD))
		return -ENOTTY;
	/* It takes milliseconds: io_uring calls again in one of its threads. */
	if (flags & IO_URING_F_NONBLOCK)
		return -EAGAIN;
	ret = lsmem_uring_user(cmd, &user);
	return ret ?: lsmem_repl_ioctl(cmd->file, cmd->cmd_op, user);
}
#endif

static __poll_t lsmem_repl_poll(struct file *file, poll_table *wait)
{
	struct lsmem_attachment *at = file->private_data;
	__poll_t mask = 0;

	poll_wait(file, &at->store->repl.events, wait);
	if (lsmem_clean_due(at->store))
		mask |= EPOLLPRI;
	if (lsmem_tell_pending(at))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (lsmem_fetch_pending(at->store))
		mask |= EPOLLRDBAND;
	return mask;
}

static int lsmem_repl_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct lsmem_attachment *at = file->private_data;

	return lsmem_window_mmap_daemon(at->store, vma);
}

static int lsmem_repl_release(struct inode *inode, struct file *file)
{
	struct lsmem_attachment *at = file->private_data;
	struct lsmem_store *store = at->store;

	lsmem_near_forget(store);
	mutex_lock(&store->mutex);
	if (store->state == LSMEM_STATE_RECOVERING)
		lsmem_load_forget(store);	/* drop what an unfinished recovery has loaded */
	WRITE_ONCE(store->repl.attached, NULL);
	mutex_unlock(&store->mutex);
	lsmem_store_release(store);
	kvfree(at);
	return 0;
}

static const struct file_operations lsmem_repl_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = lsmem_repl_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
#ifdef CONFIG_IO_URING
	.uring_cmd = lsmem_repl_uring_cmd,
#endif
	.poll = lsmem_repl_poll,
	.mmap = lsmem_repl_mmap,
	.release = lsmem_repl_release,
	.llseek = noop_llseek,
};

/* Tell again what was not acknowledged. */
static void lsmem_repl_rewind(struct lsmem_store *store)
{
	struct lsmem_segment *seg;

	spin_lock(&store->segments.lock);
	list_for_each_entry(seg, &store->segments.todo, todo) {
		WRITE_ONCE(seg->emitted, seg->acked);
		seg->open_emitted = seg->open_acked;
		seg->close_emitted = false;
	}
	lsmem_retire_rewind(store);
	spin_unlock(&store->segments.lock);
}

static int lsmem_repl_begin(struct lsmem_store *store, struct lsmem_attach *attach,
			    struct lsmem_attachment *at)
{
	lockdep_assert_held(&store->mutex);
	if (!store->durable)
		return -EOPNOTSUPP;
	if (store->repl.attached)
		return -EBUSY;
	if (store->state == LSMEM_STATE_ACTIVE) {
		if (memcmp(store->uuid, attach->uuid, sizeof(store->uuid)))
			return -EXDEV;	/* invariant 18: the backup of another log */
		if (store->repl.frozen && attach->size < offsetofend(struct lsmem_attach, frozen))
			return -EREMCHG;	/* a daemon that would not know */
		lsmem_repl_rewind(store);
		lsmem_fetch_rewind(store);
		lsmem_segments_readable(store);
	} else {
		memcpy(store->uuid, attach->uuid, sizeof(store->uuid));
		memcpy(store->views.info->uuid, attach->uuid, sizeof(store->uuid));
		at->resume = ~0ull;
	}
	WRITE_ONCE(store->repl.attached, at);
	lsmem_segments_bound(store, store->segments.nr);	/* until the daemon says otherwise */
	if (store->state == LSMEM_STATE_ACTIVE)
		lsmem_warm_again(store);
	attach->state = store->state;
	attach->kind = store->kind;
	attach->bytes = store->bytes;
	attach->handles_max = store->handles.common;
	attach->instant = store->tier.on;
	attach->capacity = store->tier.on && !store->tier.whole ? store->capacity : 0;
	attach->term = store->repl.term;
	attach->frozen = store->repl.frozen;
	return 0;
}

/**
 * lsmem_repl_attach - LSMEM_CTL_ATTACH
 * @attach: see struct lsmem_attach
 * Return: 0 or an error as there; @attach->fd is the descriptor.
 */
int lsmem_repl_attach(struct lsmem_attach *attach)
{
	struct lsmem_attachment *at;
	struct lsmem_store *store;
	int ret;

	if (attach->flags || attach->instant || attach->term || attach->frozen || attach->reserved)
		return -EINVAL;
	store = lsmem_store_open_name((const char *)attach->name);
	if (IS_ERR(store))
		return PTR_ERR(store);
	ret = -ENOMEM;
	at = kvzalloc(sizeof(*at), GFP_KERNEL_ACCOUNT);
	if (!at)
		goto err_release;
	at->store = store;
	mutex_init(&at->mutex);
	mutex_lock(&store->mutex);
	ret = lsmem_repl_begin(store, attach, at);
	mutex_unlock(&store->mutex);
	if (ret)
		goto err_free;
	lsmem_clean_stop(store, false);
	wake_up_all(&store->plan.work);	/* a daemon is attached: cleaning can continue */
	kobject_uevent(&store->dev.kobj, KOBJ_CHANGE);	/* the uuid is known */
	ret = anon_inode_getfd("[lsmem-repl]", &lsmem_repl_fops, at, O_RDWR | O_CLOEXEC);
	if (ret < 0)
		goto err_detach;
	attach->fd = ret;	/* another thread may have closed it and freed all */
	return 0;
err_detach:
	mutex_lock(&store->mutex);
	WRITE_ONCE(store->repl.attached, NULL);
	mutex_unlock(&store->mutex);
err_free:
	kvfree(at);
err_release:
	lsmem_store_release(store);
	return ret;
}
