// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/lsmem/<store>/, for developers; names and contents can change at any time.
 *
 *	segments	each segment of the log, by index
 *	heads		the heads of the log
 *	retires		groups of victims that wait for a digest or a view
 *	clients		open files with windows, and the views they hold
 *	livemap		the live bitmap, compared with the handle table: at rest @missing and @beyond are 0
 *
 * and the faults of fault.c.
 *
 * Locks: each file copies what it shows under the lock that protects it, and prints after;
 * segments are copied one at a time, so a large store does not stop its writers.  The files are
 * removed before the store: debugfs waits for their readers.
 */
#include <linux/debugfs.h>
#include <linux/math64.h>
#include <linux/seq_file.h>

#include "debugfs.h"
#include "epoch.h"
#include "store.h"

static struct dentry *lsmem_debugfs;

static const char * const lsmem_segment_states[] = {
	[LSMEM_SEGMENT_FREE] = "free",
	[LSMEM_SEGMENT_OPENING] = "opening",
	[LSMEM_SEGMENT_SPARE] = "spare",
	[LSMEM_SEGMENT_HEAD] = "head",
	[LSMEM_SEGMENT_CLOSED] = "closed",
	[LSMEM_SEGMENT_COMPACTING] = "compacting",
	[LSMEM_SEGMENT_VICTIM] = "victim",
};

/* ---- segments: position 0 is the title, n + 1 index n -------------------- */

static void *segments_start(struct seq_file *s, loff_t *pos)
{
	const struct lsmem_store *store = s->private;

	return *pos <= store->segments.nr ? pos : NULL;
}

static void *segments_next(struct seq_file *s, void *v, loff_t *pos)
{
	++*pos;
	return segments_start(s, pos);
}

static void segments_stop(struct seq_file *s, void *v)
{
}

static int segments_show(struct seq_file *s, void *v)
{
	struct lsmem_store *store = s->private;
	u64 now = lsmem_store_time(store), index = *(loff_t *)v;
	struct lsmem_segment seg;

	if (!index) {
		seq_puts(s, "id state generation seglets reserved committed emitted acked live tombstones entries barrier age_ms flags\n");
		return 0;
	}
	spin_lock(&store->segments.lock);
	seg = store->segments.table[index - 1];
	spin_unlock(&store->segments.lock);
	if (seg.state == LSMEM_SEGMENT_FREE)
		return SEQ_SKIP;
	seq_printf(s, "%llu %s %u %u %u %u %u %u %d %d %u %llu %llu %s%s%s%s\n", seg.id,
		   lsmem_segment_states[seg.state], seg.generation, seg.nr_seglets, seg.reserved,
		   seg.committed, seg.emitted, seg.acked, atomic_read(seg.live),
		   atomic_read(seg.tombstones), seg.entries, seg.barrier,
		   now > seg.open_time ?	/* units of 1024 ns */
		   div_u64((now - seg.open_time) * 1024, NSEC_PER_MSEC) : 0,
		   seg.open_acked ? "o" : "-", seg.close_acked ? "c" : "-",
		   seg.survivor ? "s" : "-", seg.damaged ? "d" : "-");
	return 0;
}

static const struct seq_operations segments_sops = {
	.start = segments_start,
	.next = segments_next,
	.stop = segments_stop,
	.show = segments_show,
};

DEFINE_SEQ_ATTRIBUTE(segments);

/* ---- heads -------------------------------------------------------------- */

static int heads_show(struct seq_file *s, void *v)
{
	struct lsmem_store *store = s->private;
	unsigned int i;

	seq_puts(s, "head segment reserved committed underway\n");
	for (i = 0; i < store->heads.nr; i++) {
		struct lsmem_head *head = &store->heads.table[i];
		u32 reserved = 0, committed = 0, underway;
		u64 id = 0;

		spin_lock(&head->lock);
		if (head->segment) {
			id = head->segment->id;
			reserved = head->segment->reserved;
			committed = head->segment->committed;
		}
		underway = head->next - head->first;
		spin_unlock(&head->lock);
		seq_printf(s, "%u %llu %u %u %u\n", i, id, reserved, committed, underway);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(heads);

/* ---- retires ------------------------------------------------------------ */

static int retires_show(struct seq_file *s, void *v)
{
	struct lsmem_store *store = s->private;
	u64 now = ktime_get_ns();
	u32 i;

	seq_puts(s, "segments first last epoch emitted acked waited_ms\n");
	for (i = 0; i < LSMEM_RETIRES; i++) {
		const struct lsmem_retire *retire = &store->retires.ring[i];
		u64 first = 0, last = 0, epoch, begun;
		bool emitted, acked;
		u32 nr;

		spin_lock(&store->segments.lock);
		nr = retire->nr;
		if (nr) {
			first = retire->victims[0]->id;
			last = retire->victims[nr - 1]->id;
		}
		epoch = retire->epoch;
		begun = retire->begun;
		emitted = retire->emitted;
		acked = retire->acked;
		spin_unlock(&store->segments.lock);
		if (!nr)
			continue;
		seq_printf(s, "%u %llu %llu %llu %d %d %llu\n", nr, first, last, epoch, emitted,
			   acked, now > begun ? div_u64(now - begun, NSEC_PER_MSEC) : 0);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(retires);

/* ---- clients ------------------------------------------------------------ */

static int clients_show(struct seq_file *s, void *v)
{
	struct lsmem_store *store = s->private;
	const struct lsmem_client *client;
	u32 nr = 0;

	seq_puts(s, "client views revoked oldest\n");
	mutex_lock(&store->views.lock);
	list_for_each_entry(client, &store->views.clients, node) {
		u32 views = 0, revoked = 0, i;
		u64 oldest = LSMEM_SLOT_REVOKED;

		for (i = 0; i < LSMEM_SLOTS; i++) {
			u64 epoch = READ_ONCE(client->slots[i].epoch);

			if (epoch == LSMEM_SLOT_REVOKED) {
				revoked++;
			} else if (epoch != LSMEM_SLOT_IDLE) {
				views++;
				oldest = min(oldest, epoch);
			}
		}
		seq_printf(s, "%u %u %u %llu\n", nr++, views, revoked, views ? oldest : 0);
		if (seq_has_overflowed(s))
			break;	/* it will be called again, with a larger buffer */
	}
	mutex_unlock(&store->views.lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(clients);

/* ---- livemap ------------------------------------------------------------ */

static int livemap_show(struct seq_file *s, void *v)
{
	const struct lsmem_store *store = s->private;
	const struct lsmem_livemap *livemap = &store->handles.livemap;
	u64 live = 0, missing = 0, bits = 0, i;

	for (i = 0; i < store->handles.nr; i++) {
		u64 word = READ_ONCE(store->handles.table[i].word);

		if (lsmem_word_state(word) == LSMEM_WORD_LIVE) {
			live++;
			missing += !test_bit(lsmem_livemap_bit(lsmem_word_position(word)), livemap->bits);
		}
		if (i % 4096 == 0)
			cond_resched();
	}
	for (i = 0; i < livemap->bytes / sizeof(long); i++) {
		bits += hweight_long(READ_ONCE(livemap->bits[i]));
		if (i % 4096 == 0)
			cond_resched();
	}
	seq_puts(s, "live missing beyond\n");
	seq_printf(s, "%llu %llu %lld\n", live, missing, (s64)(bits + missing - live));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(livemap);

/* ---- The directories ---------------------------------------------------- */

/**
 * lsmem_debugfs_add - add the directory of a store
 * @store: complete
 *
 * Errors are ignored: the store works without debugfs.
 */
void lsmem_debugfs_add(struct lsmem_store *store)
{
	store->debugfs = debugfs_create_dir(store->name, lsmem_debugfs);
	debugfs_create_file("segments", 0400, store->debugfs, store, &segments_fops);
	debugfs_create_file("heads", 0400, store->debugfs, store, &heads_fops);
	debugfs_create_file("retires", 0400, store->debugfs, store, &retires_fops);
	debugfs_create_file("clients", 0400, store->debugfs, store, &clients_fops);
	debugfs_create_file("livemap", 0400, store->debugfs, store, &livemap_fops);
	lsmem_faults_add(&store->faults, store->debugfs);
}

/**
 * lsmem_debugfs_del - remove the directory of a store
 * @store: still complete
 *
 * Returns when no reader uses the files.
 */
void lsmem_debugfs_del(struct lsmem_store *store)
{
	debugfs_remove_recursive(store->debugfs);
	store->debugfs = NULL;
}

/**
 * lsmem_debugfs_init - make the directory for those of the stores
 *
 * Context: sleeps.
 */
void lsmem_debugfs_init(void)
{
	lsmem_debugfs = debugfs_create_dir("lsmem", NULL);
}

/**
 * lsmem_debugfs_exit - undo lsmem_debugfs_init()
 *
 * Context: sleeps.
 */
void lsmem_debugfs_exit(void)
{
	debugfs_remove_recursive(lsmem_debugfs);
}
