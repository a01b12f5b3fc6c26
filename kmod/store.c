// SPDX-License-Identifier: GPL-2.0
/*
 * Stores: made, opened, activated, destroyed.
 *
 * A volatile store is active as soon as it is made.  A durable one is NEW until
 * its daemon has brought it up (load.c), and only then takes data calls and, if
 * it is a block store, has a block device (invariant 18).  While it is active
 * it holds the module: its memory may be the only copy of what its daemon has
 * not written yet.  A store that is open, mapped or attached cannot be
 * destroyed, so nothing below a face ever finds it gone.
 *
 * Lock: lsmem_stores_lock for the set of stores, opens and seals.  Order: store.h.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/ctype.h>
#include <linux/idr.h>
#include <linux/kdev_t.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/suspend.h>
#include <linux/uuid.h>
#include <linux/vmalloc.h>

#include "balance.h"
#include "block.h"
#include "chardev.h"
#include "clean.h"
#include "compact.h"
#include "compat/compat.h"
#include "epoch.h"
#include "handle.h"
#include "durable.h"
#include "sizes.h"
#include "sysfs.h"
#include "window.h"

#define LSMEM_MINORS		256
#define LSMEM_HEADS_MIN		3	/* the cleaner's and two for writers */
#define LSMEM_HEAD_SEGMENTS	5	/* full segments for which there is one head */
/* Of the frames that writers may take, what may be live.  A disk is used as if all were. */
#define LSMEM_OBJECT_PERCENT	98
#define LSMEM_BLOCK_PERCENT	96

#define LSMEM_VIEW_MS		1000
#define LSMEM_DURABLE_MS	30000
#define LSMEM_FLUSH_MS		120000
#define LSMEM_STALL_MS		30000

static LIST_HEAD(lsmem_stores);
static DEFINE_MUTEX(lsmem_stores_lock);
static DEFINE_IDA(lsmem_object_ids);
static DEFINE_IDA(lsmem_block_ids);
static dev_t lsmem_devt;

/* ---- The device --------------------------------------------------------- */

static struct class lsmem_class = {
	.name = KBUILD_MODNAME,
};

static char *lsmem_devnode(LSMEM_DEVNODE_CONST struct device *dev, umode_t *mode, kuid_t *uid,
			   kgid_t *gid)
{
	LSMEM_DEVNODE_CONST struct lsmem_store *store =
		container_of(dev, LSMEM_DEVNODE_CONST struct lsmem_store, dev);

	if (mode)
		*mode = store->mode;
	if (uid)
		*uid = make_kuid(&init_user_ns, store->uid);
	if (gid)
		*gid = make_kgid(&init_user_ns, store->gid);
	return NULL;
}

static const struct device_type lsmem_device_type = {
	.name = KBUILD_MODNAME,
	.devnode = lsmem_devnode,
	.groups = lsmem_store_groups,
};

static struct ida *lsmem_store_ids(const struct lsmem_store *store)
{
	return store->kind == LSMEM_KIND_BLOCK ? &lsmem_block_ids : &lsmem_object_ids;
}

/* The last reference has gone: free whatever has been made, in reverse. */
static void lsmem_store_device_release(struct device *dev)
{
	struct lsmem_store *store = container_of(dev, struct lsmem_store, dev);

	lsmem_window_destroy(store);
	lsmem_handles_destroy(store);
	lsmem_cleaner_destroy(store);
	lsmem_compactors_destroy(store);
	lsmem_balance_destroy(store);
	lsmem_segments_destroy(store);
	lsmem_frames_destroy(&store->frames);
	kvfree(store->heads);
	free_percpu(store->counters);
	percpu_counter_destroy(&store->handles_used);
	percpu_counter_destroy(&store->live);
	if (store->minor >= 0)
		ida_free(lsmem_store_ids(store), store->minor);
	kfree(store);
}

/* ---- Making ------------------------------------------------------------- */

/* Can memory be charged to a memory cgroup? */
static bool lsmem_charge_possible(void)
{
	return IS_ENABLED(CONFIG_MEMCG) && !mem_cgroup_disabled();
}

/* The most that the memory cgroup of the caller and those above it may have, in bytes. */
static u64 lsmem_charge_limit(void)
{
	u64 limit = U64_MAX;
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg;

	rcu_read_lock();
	for (memcg = mem_cgroup_from_task(current); memcg; memcg = parent_mem_cgroup(memcg))
		limit = min(limit, (u64)READ_ONCE(memcg->memory.max) << PAGE_SHIFT);
	rcu_read_unlock();
#endif
	return limit;
}

static int lsmem_create_check(const struct lsmem_create *create)
{
	u64 full = create->bytes / LSMEM_SEGMENT_BYTES;

	if (create->flags & ~(LSMEM_STORE_DURABLE | LSMEM_STORE_CHARGED))
		return -EINVAL;
	if (create->kind != LSMEM_KIND_OBJECT && create->kind != LSMEM_KIND_BLOCK)
		return -EINVAL;
	if (create->bytes % LSMEM_SEGMENT_BYTES || create->bytes < LSMEM_BYTES_MIN ||
	    create->bytes > LSMEM_BYTES_MAX)
		return -EINVAL;
	if (create->handles_max > LSMEM_HANDLES_MAX ||
	    (create->kind == LSMEM_KIND_BLOCK && create->handles_max))
		return -EINVAL;
	if (create->reserved || (create->segments &&
				 (create->segments < LSMEM_SEGMENTS_LEAST * full ||
				  create->segments > LSMEM_SEGMENTS_MOST * full)))
		return -EINVAL;
	if (create->mode & ~0777 || !uid_valid(make_kuid(&init_user_ns, create->uid)) ||
	    !gid_valid(make_kgid(&init_user_ns, create->gid)))
		return -EINVAL;
	if (create->flags & LSMEM_STORE_CHARGED && !lsmem_charge_possible())
		return -EOPNOTSUPP;
	return 0;
}

/*
 * Is there memory for a store?  Asked before anything is taken and zeroed.  What a cgroup
 * uses by now is not asked for: caches, which give way, are part of it.
 */
static int lsmem_create_fits(const struct lsmem_sizes *sizes, bool charged)
{
	u64 wanted = sizes->frame_bytes + sizes->table_bytes;
	u64 available = (u64)max(si_mem_available(), 0l) << PAGE_SHIFT;
	u64 limit = charged ? lsmem_charge_limit() : U64_MAX;

	if (wanted > limit) {
		pr_err("no store was made: it takes %llu MiB; the limit of its memory cgroup is %llu MiB\n",
		       wanted >> 20, limit >> 20);
		return -ENOMEM;
	}
	if (wanted <= available && sizes->largest <= INT_MAX)
		return 0;
	pr_err("no store was made: it takes %llu MiB (%llu MiB for the log, %llu MiB for the tables of %llu handles, %llu segments and their frames); %llu MiB of %llu MiB are available\n",
	       wanted >> 20, sizes->frame_bytes >> 20, sizes->table_bytes >> 20, sizes->handles,
	       sizes->segments, available >> 20, (u64)totalram_pages() << PAGE_SHIFT >> 20);
	return -ENOMEM;
}

static int lsmem_store_name(struct lsmem_store *store)
{
	store->minor = ida_alloc_max(lsmem_store_ids(store), LSMEM_MINORS - 1, GFP_KERNEL);
	if (store->minor < 0)
		return store->minor;
	if (store->kind == LSMEM_KIND_BLOCK)
		snprintf(store->name, sizeof(store->name), "lsmemb%d", store->minor);
	else if (store->minor)
		snprintf(store->name, sizeof(store->name), "lsmem%d", store->minor);
	else
		strscpy(store->name, "lsmem", sizeof(store->name));
	return 0;
}

/* Everything that grows with the store, but for the memory of the log. */
static int lsmem_store_tables(struct lsmem_store *store, const struct lsmem_sizes *sizes)
{
	gfp_t gfp = store->charged ? LSMEM_GFP_CHARGED : LSMEM_GFP;
	u32 usable;
	int ret;

	ret = percpu_counter_init(&store->live, 0, GFP_KERNEL);
	if (!ret)
		ret = percpu_counter_init(&store->handles_used, 0, GFP_KERNEL);
	if (ret)
		return ret;
	store->counters = alloc_percpu(struct lsmem_counters);
	/* Open segments and spares must leave most of a small log to closed ones. */
	store->nr_heads = min_t(u64, num_possible_cpus() + 1,
				store->bytes / LSMEM_SEGMENT_BYTES / LSMEM_HEAD_SEGMENTS);
	store->nr_heads = clamp_t(unsigned int, store->nr_heads, LSMEM_HEADS_MIN, LSMEM_HEADS);
	store->heads = kvcalloc(store->nr_heads, sizeof(*store->heads), gfp);
	if (!store->counters || !store->heads)
		return -ENOMEM;
	lsmem_log_init(store);
	ret = lsmem_frames_init(&store->frames, store->bytes, gfp);
	if (!ret)
		ret = lsmem_segments_init(store);
	if (!ret)
		ret = lsmem_balance_init(store);
	if (!ret)
		ret = lsmem_compactors_init(store);
	if (!ret)
		ret = lsmem_cleaner_init(store);
	if (ret)
		return ret;
	/* As if there were all heads: what a store holds does not depend on CPUs. */
	usable = store->frames.nr - store->frames.base - LSMEM_HEADS;
	store->capacity = (u64)usable * LSMEM_SEGLET_BYTES / 100 *
			  (store->kind == LSMEM_KIND_BLOCK ? LSMEM_BLOCK_PERCENT :
							     LSMEM_OBJECT_PERCENT);
	if (store->kind == LSMEM_KIND_BLOCK)
		store->nr_handles = lsmem_block_capacity(store);
	else
		store->nr_handles = sizes->handles;
	ret = lsmem_handles_init(store);
	return ret ?: lsmem_window_init(store);
}

/*
 * Everything that is memory, that of the log last: it takes the longest.  On error
 * the release of the device frees what there is.
 */
static int lsmem_store_memory(struct lsmem_store *store, const struct lsmem_sizes *sizes)
{
	int ret = lsmem_store_tables(store, sizes);

	if (ret) {
		pr_err("no store was made: its tables could not be had, %llu MiB (error %d)\n",
		       sizes->table_bytes >> 20, ret);
		return ret;
	}
	return lsmem_frames_fill(&store->frames);
}

static struct lsmem_store *lsmem_store_alloc(const struct lsmem_create *create)
{
	struct lsmem_store *store = kzalloc(sizeof(*store), GFP_KERNEL);

	if (!store)
		return NULL;
	store->kind = create->kind;
	store->durable = create->flags & LSMEM_STORE_DURABLE;
	store->charged = create->flags & LSMEM_STORE_CHARGED;
	store->state = LSMEM_STATE_NEW;
	store->bytes = create->bytes;
	store->nr_segments = create->segments;
	store->uid = create->uid;
	store->gid = create->gid;
	store->mode = create->mode ?: 0600;
	store->minor = -1;
	store->view_ms = LSMEM_VIEW_MS;
	store->clients_max = LSMEM_CLIENTS_MAX;
	store->durable_ms = LSMEM_DURABLE_MS;
	store->flush_ms = LSMEM_FLUSH_MS;
	store->stall_ms = LSMEM_STALL_MS;
	store->clock_base = ktime_get_ns();
	generate_random_uuid(store->uuid);
	mutex_init(&store->mutex);
	INIT_LIST_HEAD(&store->node);
	INIT_LIST_HEAD(&store->clients);
	mutex_init(&store->epoch_lock);
	init_waitqueue_head(&store->space);
	init_waitqueue_head(&store->acks);
	init_waitqueue_head(&store->work);
	init_waitqueue_head(&store->events);
	device_initialize(&store->dev);
	store->dev.class = &lsmem_class;
	store->dev.type = &lsmem_device_type;
	store->dev.release = lsmem_store_device_release;
	return store;
}

/* Show a store to the world: sysfs, and a node for an object store. */
static int lsmem_store_show(struct lsmem_store *store)
{
	int ret;

	ret = dev_set_name(&store->dev, "%s", store->name);
	if (ret)
		return ret;
	if (store->kind == LSMEM_KIND_BLOCK)
		return device_add(&store->dev);
	store->dev.devt = MKDEV(MAJOR(lsmem_devt), store->minor);
	cdev_init(&store->cdev, &lsmem_chardev_fops);
	store->cdev.owner = THIS_MODULE;
	return cdev_device_add(&store->cdev, &store->dev);
}

static void lsmem_store_hide(struct lsmem_store *store)
{
	lsmem_debugfs_del(store);
	if (store->kind == LSMEM_KIND_BLOCK)
		device_del(&store->dev);
	else
		cdev_device_del(&store->cdev, &store->dev);
}

/**
 * lsmem_store_create - make a store
 * @create: see there
 * @out: the store; a volatile one is active
 *
 * Return: 0 or an error as struct lsmem_create says; nothing is left then.
 */
int lsmem_store_create(const struct lsmem_create *create, struct lsmem_store **out)
{
	struct lsmem_store *store;
	struct lsmem_sizes sizes;
	int ret;

	ret = lsmem_create_check(create);
	if (ret)
		return ret;
	lsmem_sizes_of(create, &sizes);
	ret = lsmem_create_fits(&sizes, create->flags & LSMEM_STORE_CHARGED);
	if (ret)
		return ret;
	store = lsmem_store_alloc(create);
	if (!store)
		return -ENOMEM;
	ret = lsmem_store_name(store);
	if (!ret)
		ret = lsmem_store_memory(store, &sizes);
	if (ret)
		goto err_put;
	memcpy(store->info->uuid, store->uuid, sizeof(store->uuid));
	ret = lsmem_store_show(store);
	if (ret)
		goto err_put;
	lsmem_debugfs_add(store);
	if (!store->durable) {
		mutex_lock(&store->mutex);
		ret = lsmem_store_activate(store);
		mutex_unlock(&store->mutex);
		if (ret)
			goto err_hide;
	}
	mutex_lock(&lsmem_stores_lock);
	list_add_tail(&store->node, &lsmem_stores);
	mutex_unlock(&lsmem_stores_lock);
	*out = store;
	return 0;
err_hide:
	lsmem_store_hide(store);
err_put:
	put_device(&store->dev);
	return ret;
}

/* Nobody makes room any more. */
static void lsmem_store_rest(struct lsmem_store *store)
{
	lsmem_cleaner_stop(store);
	lsmem_compactors_stop(store);
}

/* Make what makes room; it does not run yet. */
static int lsmem_store_threads(struct lsmem_store *store)
{
	int ret = lsmem_compactors_make(store);

	if (!ret)
		ret = lsmem_cleaner_make(store);
	if (ret)
		lsmem_store_rest(store);
	return ret;
}

/**
 * lsmem_store_activate - a store takes data calls from now on
 * @store: era, clock, ids and generations are set
 *
 * Context: store->mutex held; may sleep.
 * Return: 0 or an error; then nothing has been moved, and a durable store is
 * RECOVERING, to be forgotten with its attachment.
 */
int lsmem_store_activate(struct lsmem_store *store)
{
	u32 before = store->durable ? LSMEM_STATE_RECOVERING : store->state;
	int ret;

	lockdep_assert_held(&store->mutex);
	spin_lock(&store->segment_lock);
	lsmem_segments_spare(store);
	spin_unlock(&store->segment_lock);
	ret = lsmem_store_threads(store);
	if (ret) {
		WRITE_ONCE(store->state, before);
		return ret;
	}
	smp_store_release(&store->state, LSMEM_STATE_ACTIVE);	/* see lsmem_store_active() */
	if (store->kind == LSMEM_KIND_BLOCK) {
		ret = lsmem_block_add(store);
		if (ret) {
			WRITE_ONCE(store->state, before);
			lsmem_store_rest(store);
			return ret;
		}
	}
	/* Nothing fails any more: or a pass would have begun on segments that are forgotten. */
	lsmem_compactors_run(store);
	lsmem_cleaner_run(store);
	if (store->durable) {
		__module_get(THIS_MODULE);
		kobject_uevent(&store->dev.kobj, KOBJ_CHANGE);	/* it can be used from now on */
	}
	wake_up(&store->events);
	return 0;
}

/* ---- Opening ------------------------------------------------------------ */

/**
 * lsmem_store_open - hold a store
 * @store: from a device node
 * Return: 0, or -ENODEV when it is being destroyed.
 */
int lsmem_store_open(struct lsmem_store *store)
{
	int ret = -ENODEV;

	mutex_lock(&lsmem_stores_lock);
	if (!store->sealed) {
		store->opens++;
		get_device(&store->dev);
		ret = 0;
	}
	mutex_unlock(&lsmem_stores_lock);
	return ret;
}

/**
 * lsmem_store_release - undo lsmem_store_open()
 * @store: not used after
 */
void lsmem_store_release(struct lsmem_store *store)
{
	mutex_lock(&lsmem_stores_lock);
	store->opens--;
	mutex_unlock(&lsmem_stores_lock);
	put_device(&store->dev);
}

static struct lsmem_store *lsmem_store_find(const char *name)
{
	struct lsmem_store *store;

	lockdep_assert_held(&lsmem_stores_lock);
	list_for_each_entry(store, &lsmem_stores, node)
		if (!strncmp(store->name, name, sizeof(store->name)))
			return store;
	return NULL;
}

/**
 * lsmem_store_open_name - hold the store with a name
 * @name: LSMEM_NAME_BYTES, from a user
 * Return: the store, or an ERR_PTR: -ENODEV.
 */
struct lsmem_store *lsmem_store_open_name(const char *name)
{
	struct lsmem_store *store;

	mutex_lock(&lsmem_stores_lock);
	store = lsmem_store_find(name);
	if (store) {
		store->opens++;
		get_device(&store->dev);
	}
	mutex_unlock(&lsmem_stores_lock);
	return store ?: ERR_PTR(-ENODEV);
}

/* ---- Given names -------------------------------------------------------- */

static bool lsmem_digits(const char *text, size_t length)
{
	size_t i;

	for (i = 0; i < length; i++)
		if (!isdigit(text[i]))
			return false;
	return true;
}

/* Is it the name of a node: lsmem, lsmem1 .., lsmemb0 .., lsmem-control? */
static bool lsmem_name_of_node(const char *name, size_t length)
{
	if (length < 5 || memcmp(name, "lsmem", 5))
		return false;
	if (lsmem_digits(name + 5, length - 5))
		return true;
	return (name[5] == 'b' && length > 6 && lsmem_digits(name + 6, length - 6)) ||
	       (length == 13 && !memcmp(name + 5, "-control", 8));
}

/* It becomes the name of a link and of a unit: see LSMEM_GIVEN_BYTES and sysfs-class-lsmem. */
static bool lsmem_given_allowed(const char *name, size_t length)
{
	size_t i;

	if (length >= LSMEM_GIVEN_BYTES || (length && (*name == '.' || *name == '-')))
		return false;
	for (i = 0; i < length; i++)
		if (!isascii(name[i]) || !(isalnum(name[i]) || strchr("._-", name[i])) || !name[i])
			return false;
	return !lsmem_name_of_node(name, length);
}

/* Does another store have the name? */
static bool lsmem_given_taken(const struct lsmem_store *store, const char *name, size_t length)
{
	const struct lsmem_store *other;

	lockdep_assert_held(&lsmem_stores_lock);
	list_for_each_entry(other, &lsmem_stores, node)
		if (other != store && length && strlen(other->given) == length &&
		    !memcmp(other->given, name, length))
			return true;
	return false;
}

/**
 * lsmem_store_give - give a store a name, for links that user space makes
 * @store: its device is there
 * @name: @length bytes, not terminated; none take the name away
 * @length: of @name
 *
 * User space is told (KOBJ_CHANGE) of the store's device and of its disk.
 *
 * Context: may sleep; takes lsmem_stores_lock.
 * Return: 0; -EINVAL: not allowed; -EEXIST: another store has it; -ENODEV: the store goes, or
 * is still being made.
 */
int lsmem_store_give(struct lsmem_store *store, const char *name, size_t length)
{
	struct gendisk *disk = NULL;
	int ret = 0;

	if (!lsmem_given_allowed(name, length))
		return -EINVAL;
	mutex_lock(&lsmem_stores_lock);
	if (list_empty(&store->node)) {
		ret = -ENODEV;
	} else if (lsmem_given_taken(store, name, length)) {
		ret = -EEXIST;
	} else {
		memcpy(store->given, name, length);
		memset(store->given + length, 0, sizeof(store->given) - length);
		/*
		 * Acquire: see lsmem_block_add().  The disk of a listed store does not go.  The
		 * events of one that is being added may have been sent with the old name: a
		 * daemon gives the name before it activates the store.
		 */
		disk = smp_load_acquire(&store->disk);
		if (disk)
			get_device(disk_to_dev(disk));
	}
	mutex_unlock(&lsmem_stores_lock);
	if (ret)
		return ret;
	kobject_uevent(&store->dev.kobj, KOBJ_CHANGE);
	if (disk) {
		kobject_uevent(&disk_to_dev(disk)->kobj, KOBJ_CHANGE);
		put_device(disk_to_dev(disk));
	}
	return 0;
}

/**
 * lsmem_store_given - the name that a store was given
 * @store: the store
 * @name: out, terminated; "" if it has none
 *
 * Context: may sleep; takes lsmem_stores_lock.
 */
void lsmem_store_given(struct lsmem_store *store, char name[LSMEM_GIVEN_BYTES])
{
	mutex_lock(&lsmem_stores_lock);
	memcpy(name, store->given, LSMEM_GIVEN_BYTES);
	mutex_unlock(&lsmem_stores_lock);
}

/* ---- Destroying --------------------------------------------------------- */

/* Are there data that only this memory has? */
static bool lsmem_store_dirty(struct lsmem_store *store)
{
	struct lsmem_vector_point point;

	if (!store->durable || !lsmem_store_active(store))
		return false;
	lsmem_log_point(store, &point);
	return !lsmem_log_reached(store, &point, LSMEM_REACH_DURABLE);
}

/* Nobody can find or open it any more. */
static void lsmem_store_end(struct lsmem_store *store)
{
	bool held = store->durable && lsmem_store_active(store);

	if (store->disk)
		lsmem_block_del(store);
	WRITE_ONCE(store->state, LSMEM_STATE_DYING);
	wake_up_all(&store->space);
	wake_up_all(&store->acks);
	lsmem_store_rest(store);
	lsmem_store_hide(store);
	put_device(&store->dev);
	if (held)
		module_put(THIS_MODULE);
}

/**
 * lsmem_store_destroy - LSMEM_CTL_DESTROY
 * @name: LSMEM_NAME_BYTES
 * @force: even when data are not on a backup
 * Return: 0, -ENODEV, -EBUSY.
 */
int lsmem_store_destroy(const char *name, bool force)
{
	struct lsmem_store *store;
	int ret = 0;

	mutex_lock(&lsmem_stores_lock);
	store = lsmem_store_find(name);
	if (!store) {
		ret = -ENODEV;
	} else if (store->opens) {
		ret = -EBUSY;
	} else {
		store->sealed = true;	/* also for openers of the block device */
		if ((store->disk && lsmem_block_busy(store)) ||
		    (!force && lsmem_store_dirty(store))) {
			store->sealed = false;
			ret = -EBUSY;
		}
	}
	if (!ret)
		list_del_init(&store->node);
	mutex_unlock(&lsmem_stores_lock);
	if (!ret)
		lsmem_store_end(store);
	return ret;
}

/* ---- Looking ------------------------------------------------------------ */

/**
 * lsmem_store_time - the store's clock
 * @store: the store
 * Return: units of 1024 ns; never goes back, also across a recovery.
 */
u64 lsmem_store_time(const struct lsmem_store *store)
{
	return store->clock + ((ktime_get_ns() - store->clock_base) >> 10);
}

/**
 * lsmem_store_counters - sum the per-CPU counters
 * @store: the store
 * @sum: filled in
 */
void lsmem_store_counters(struct lsmem_store *store, struct lsmem_counters *sum)
{
	u64 *to = (u64 *)sum;
	unsigned int cpu, i;

	BUILD_BUG_ON(sizeof(*sum) % sizeof(u64));
	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const u64 *from = (const u64 *)per_cpu_ptr(store->counters, cpu);

		for (i = 0; i < sizeof(*sum) / sizeof(u64); i++)
			to[i] += READ_ONCE(from[i]);
	}
}

/**
 * lsmem_store_stat - LSMEM_IOC_STAT
 * @store: the store
 * @stat: filled in but for its size
 */
void lsmem_store_stat(struct lsmem_store *store, struct lsmem_stat *stat)
{
	struct lsmem_counters sum;

	lsmem_store_counters(store, &sum);
	*stat = (struct lsmem_stat){
		.size = stat->size,
		.capacity = store->capacity,
		.live_bytes = percpu_counter_sum_positive(&store->live),
		.frames = store->frames.nr,
		.free_frames = READ_ONCE(store->frames.nr_free),
		.handles_max = store->nr_handles,
		.handles_used = percpu_counter_sum_positive(&store->handles_used),
		.segments = READ_ONCE(store->nr_log),
		.segments_cleaned = READ_ONCE(store->cleaned.segments_cleaned),
		.appended_bytes = sum.appended_bytes,
		.relocated_bytes = READ_ONCE(store->cleaned.relocated_bytes) + sum.compacted_bytes,
		.durable_bytes = READ_ONCE(store->durable_bytes),
		.stalls = sum.stalls,
		.stall_ns = sum.stall_ns,
		.segments_compacted = sum.compactions,
	};
}

/* ---- The set ------------------------------------------------------------ */

/*
 * Hold the store after @store in the set, the first after NULL, and release @store.  What is
 * held stays in the set: it cannot be destroyed.  Returns NULL at the end.
 */
static struct lsmem_store *lsmem_store_next(struct lsmem_store *store)
{
	struct list_head *node;
	struct lsmem_store *next = NULL;

	mutex_lock(&lsmem_stores_lock);
	node = store ? store->node.next : lsmem_stores.next;
	if (node != &lsmem_stores) {
		next = list_entry(node, struct lsmem_store, node);
		next->opens++;
		get_device(&next->dev);
	}
	mutex_unlock(&lsmem_stores_lock);
	if (store)
		lsmem_store_release(store);
	return next;
}

/* Is there nothing that only memory has?  Waits for the daemon, up to flush_ms. */
static bool lsmem_store_drained(struct lsmem_store *store)
{
	if (!store->durable || !lsmem_store_active(store))
		return true;
	/* Without a daemon there is nothing to wait for. */
	return READ_ONCE(store->attached) ? !lsmem_sync(store, 0) : !lsmem_store_dirty(store);
}

/*
 * Before a suspend every durable store is drained, or the suspend refused.  Stores are made,
 * attached and destroyed meanwhile: a wait may end only by a daemon that attaches.
 */
static int lsmem_pm_notify(struct notifier_block *nb, unsigned long action, void *data)
{
	struct lsmem_store *store = NULL;

	if (action != PM_SUSPEND_PREPARE && action != PM_HIBERNATION_PREPARE)
		return NOTIFY_DONE;
	while ((store = lsmem_store_next(store))) {
		if (lsmem_store_drained(store))
			continue;
		pr_err("%s: not durable: suspend refused; is lsmemd running?\n", store->name);
		lsmem_store_release(store);
		return NOTIFY_BAD;
	}
	return NOTIFY_DONE;
}

static struct notifier_block lsmem_pm_notifier = {
	.notifier_call = lsmem_pm_notify,
};

/**
 * lsmem_stores_init - make room for stores
 * Return: 0 or an error.
 */
int lsmem_stores_init(void)
{
	int ret;

	ret = class_register(&lsmem_class);
	if (ret)
		return ret;
	ret = alloc_chrdev_region(&lsmem_devt, 0, LSMEM_MINORS, KBUILD_MODNAME);
	if (ret)
		goto err_class;
	ret = register_pm_notifier(&lsmem_pm_notifier);
	if (ret)
		goto err_region;
	return 0;
err_region:
	unregister_chrdev_region(lsmem_devt, LSMEM_MINORS);
err_class:
	class_unregister(&lsmem_class);
	return ret;
}

/**
 * lsmem_stores_exit - destroy what is left: volatile or new stores, not open
 */
void lsmem_stores_exit(void)
{
	struct lsmem_store *store, *next;

	/* Waits for a call that is under way: from here on none looks at the set. */
	unregister_pm_notifier(&lsmem_pm_notifier);
	list_for_each_entry_safe(store, next, &lsmem_stores, node) {
		list_del_init(&store->node);
		lsmem_store_end(store);
	}
	unregister_chrdev_region(lsmem_devt, LSMEM_MINORS);
	class_unregister(&lsmem_class);
}
