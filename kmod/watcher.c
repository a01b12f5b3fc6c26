// SPDX-License-Identifier: GPL-2.0
/*
 * The descriptor of a watcher: an anonymous file that reads the ring of a table.
 *
 * It holds the ring, and not the store: a watcher does not keep a store from being destroyed, nor its memory.
 *
 * When notes are lost, the watcher is told a version that all of them exceed.  A change takes its version and is noted in
 * one RCU reader.  So once a grace period has passed that began at the time T, all notes that come have versions from T on.
 * A watcher that then finds no note knows that this holds of all that it has not read.
 *
 * Lock: watcher->mutex, one read at a time; user memory is accessed under it.
 */
#include <linux/anon_inodes.h>
#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/freezer.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "compat/eventfd.h"
#include "store.h"
#include "watch.h"
#include "watcher.h"

#define LSMEM_WATCH_DEFAULT	1024u	/* entries of a ring */
#define LSMEM_WATCH_BATCH	16u	/* notes copied together, on the stack */

/**
 * struct lsmem_watcher - an open descriptor
 * @ring: what it watches
 * @mutex: see above
 * @cursor: sequence number of the next note; under @mutex, but poll() reads it
 * @least: what comes has at least this version
 * @next: what comes after the grace period of @cookie has at least this version
 * @cookie: of start_poll_synchronize_rcu()
 * @eventfd: or NULL
 * @signal: in the queue of @ring, with @eventfd
 */
struct lsmem_watcher {
	struct lsmem_ring *ring;
	struct mutex mutex;
	u64 cursor;
	u64 least;
	u64 next;
	unsigned long cookie;
	struct eventfd_ctx *eventfd;
	wait_queue_entry_t signal;
};

/* The version of a change that would happen now, at least. */
static u64 lsmem_watcher_now(const struct lsmem_ring *ring)
{
	return lsmem_version_make(ring->era, ring->clock + ((ktime_get_ns() - ring->clock_base) >> 10));
}

static void lsmem_watcher_mark(struct lsmem_watcher *watcher)
{
	watcher->next = lsmem_watcher_now(watcher->ring);
	watcher->cookie = start_poll_synchronize_rcu();
}

/* ---- Read --------------------------------------------------------------- */

/* Is there something to be told? If not, the next note wakes. */
static bool lsmem_watcher_ready(const struct lsmem_watcher *watcher)
{
	lsmem_ring_arm(watcher->ring);
	return lsmem_ring_head(watcher->ring) != READ_ONCE(watcher->cursor) || READ_ONCE(watcher->ring->dead);
}

/* What was overwritten is lost, and all else that is there, which is visible by now. */
static u32 lsmem_watcher_skip(const struct lsmem_watcher *watcher, struct lsmem_note *note)
{
	*note = (struct lsmem_note){
		.cursor = lsmem_ring_head(watcher->ring),
		.version = watcher->least ? watcher->least - 1 : 0,
		.kind = LSMEM_NOTE_LOST,
	};
	return 1;
}

/* Copy what there is. Returns bytes; 0: nothing is there; -EFAULT: nothing was copied. */
static ssize_t lsmem_watcher_take(struct lsmem_watcher *watcher, struct iov_iter *to)
{
	struct lsmem_note notes[LSMEM_WATCH_BATCH];
	ssize_t done = 0;
	size_t bytes;
	bool lost;
	u32 nr;

	lockdep_assert_held(&watcher->mutex);
	while (iov_iter_count(to) >= sizeof(*notes)) {
		/* Before the head is loaded: the grace period has ended before what is not there yet. */
		bool passed = poll_state_synchronize_rcu(watcher->cookie);

		nr = lsmem_ring_read(watcher->ring, watcher->cursor, notes,
				     min_t(size_t, LSMEM_WATCH_BATCH, iov_iter_count(to) / sizeof(*notes)), &lost);
		if (lost)
			nr = lsmem_watcher_skip(watcher, notes);
		if (!nr) {
			if (passed) {
				watcher->least = watcher->next;
				lsmem_watcher_mark(watcher);
			}
			lsmem_ring_arm(watcher->ring);
			if (lsmem_ring_head(watcher->ring) == watcher->cursor)
				break;
			continue;
		}
		bytes = nr * sizeof(*notes);
		if (copy_to_iter(notes, bytes, to) != bytes)
			return done ?: -EFAULT;
		WRITE_ONCE(watcher->cursor, notes[nr - 1].cursor);
		done += bytes;
	}
	return done;
}

static ssize_t lsmem_watcher_read(struct kiocb *iocb, struct iov_iter *to)
{
	struct lsmem_watcher *watcher = iocb->ki_filp->private_data;
	bool nowait = iocb->ki_flags & IOCB_NOWAIT, dead;
	ssize_t ret;

	if (iov_iter_count(to) < sizeof(struct lsmem_note))
		return -EINVAL;
	for (;;) {
		if (nowait ? !mutex_trylock(&watcher->mutex) : mutex_lock_interruptible(&watcher->mutex))
			return nowait ? -EAGAIN : -ERESTARTSYS;
		dead = READ_ONCE(watcher->ring->dead);	/* then no note comes after this */
		ret = lsmem_watcher_take(watcher, to);
		mutex_unlock(&watcher->mutex);
		if (ret || dead)
			return ret;
		if (nowait || iocb->ki_filp->f_flags & O_NONBLOCK)
			return -EAGAIN;
		ret = wait_event_freezable(watcher->ring->wait, lsmem_watcher_ready(watcher));
		if (ret)
			return ret;
	}
}

static __poll_t lsmem_watcher_poll(struct file *file, poll_table *wait)
{
	struct lsmem_watcher *watcher = file->private_data;

	poll_wait(file, &watcher->ring->wait, wait);
	if (!lsmem_watcher_ready(watcher))
		return 0;
	return EPOLLIN | EPOLLRDNORM | (READ_ONCE(watcher->ring->dead) ? EPOLLHUP : 0);
}

/* ---- Life --------------------------------------------------------------- */

static int lsmem_watcher_signal(wait_queue_entry_t *entry, unsigned int mode, int sync, void *key)
{
	struct lsmem_watcher *watcher = container_of(entry, struct lsmem_watcher, signal);

	lsmem_eventfd_signal(watcher->eventfd);
	return 0;
}

/* Add 1 to an eventfd whenever a poll() of the descriptor would be woken. */
static int lsmem_watcher_eventfd(struct lsmem_watcher *watcher, int fd)
{
	struct eventfd_ctx *eventfd = eventfd_ctx_fdget(fd);

	if (IS_ERR(eventfd))
		return PTR_ERR(eventfd);
	watcher->eventfd = eventfd;
	init_waitqueue_func_entry(&watcher->signal, lsmem_watcher_signal);
	add_wait_queue(&watcher->ring->wait, &watcher->signal);
	if (lsmem_watcher_ready(watcher))
		lsmem_eventfd_signal(eventfd);
	return 0;
}

static void lsmem_watcher_free(struct lsmem_watcher *watcher)
{
	if (watcher->eventfd) {
		remove_wait_queue(&watcher->ring->wait, &watcher->signal);
		eventfd_ctx_put(watcher->eventfd);
	}
	lsmem_ring_put(watcher->ring);
	kfree(watcher);
}

static int lsmem_watcher_release(struct inode *inode, struct file *file)
{
	lsmem_watcher_free(file->private_data);
	return 0;
}

static const struct file_operations lsmem_watcher_fops = {
	.owner = THIS_MODULE,
	.release = lsmem_watcher_release,
	.read_iter = lsmem_watcher_read,
	.poll = lsmem_watcher_poll,
	.llseek = noop_llseek,
};

/* Returns a watcher of the table, or an ERR_PTR(). */
static struct lsmem_watcher *lsmem_watcher_new(struct lsmem_store *store, struct lsmem_watch *watch)
{
	struct lsmem_watcher *watcher = kzalloc(sizeof(*watcher), GFP_KERNEL_ACCOUNT);
	int ret = 0;

	if (!watcher)
		return ERR_PTR(-ENOMEM);
	mutex_init(&watcher->mutex);
	watcher->ring = lsmem_ring_get(store, watch->table, watch->entries ?: LSMEM_WATCH_DEFAULT);
	if (IS_ERR(watcher->ring)) {
		ret = PTR_ERR(watcher->ring);
		kfree(watcher);
		return ERR_PTR(ret);
	}
	watcher->cursor = watch->cursor ?: lsmem_ring_head(watcher->ring);
	lsmem_watcher_mark(watcher);
	if (watch->flags & LSMEM_WATCH_EVENTFD)
		ret = lsmem_watcher_eventfd(watcher, watch->eventfd);
	if (ret) {
		lsmem_watcher_free(watcher);
		return ERR_PTR(ret);
	}
	watch->cursor = watcher->cursor;
	watch->entries = watcher->ring->entries;
	return watcher;
}

/**
 * lsmem_watcher_ioctl - LSMEM_IOC_WATCH
 * @store: held by the caller's descriptor
 * @mode: of that descriptor
 * @watch: as there
 *
 * Context: sleeps.  Return: 0 or an error as there.
 */
long lsmem_watcher_ioctl(struct lsmem_store *store, fmode_t mode, struct lsmem_watch *watch)
{
	int flags = O_RDONLY | (watch->flags & LSMEM_WATCH_NONBLOCK ? O_NONBLOCK : 0), fd;
	struct lsmem_watcher *watcher;
	struct file *file;

	if (store->kind != LSMEM_KIND_OBJECT)
		return -EOPNOTSUPP;
	if (watch->flags & ~(LSMEM_WATCH_NONBLOCK | LSMEM_WATCH_EVENTFD) || watch->table >= LSMEM_TABLES ||
	    watch->fd || (watch->eventfd && !(watch->flags & LSMEM_WATCH_EVENTFD)) ||
	    watch->entries > LSMEM_WATCH_ENTRIES || (watch->entries & (watch->entries - 1)))
		return -EINVAL;
	if (!(mode & FMODE_READ))
		return -EBADF;
	if (!lsmem_store_active(store))
		return -EAGAIN;
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	watcher = lsmem_watcher_new(store, watch);
	if (IS_ERR(watcher)) {
		put_unused_fd(fd);
		return PTR_ERR(watcher);
	}
	file = anon_inode_getfile("[lsmem-watch]", &lsmem_watcher_fops, watcher, flags);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		lsmem_watcher_free(watcher);
		return PTR_ERR(file);
	}
	stream_open(file_inode(file), file);
	file->f_mode |= FMODE_NOWAIT;
	watch->fd = fd;
	fd_install(fd, file);
	return 0;
}
