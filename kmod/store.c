// SPDX-License-Identifier: GPL-2.0
/*
 * Stores: creation, destruction, and draining before a suspend.
 *
 * A store that is open, mapped or attached cannot be destroyed, so code below the interfaces can
 * rely on it.  Before a suspend every durable store is drained.
 *
 * No locks of its own.  The order of all others: store.h.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/idr.h>
#include <linux/kdev_t.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/suspend.h>
#include <linux/uuid.h>
#include <linux/vmalloc.h>

#include "activate.h"
#include "balance.h"
#include "block.h"
#include "chardev.h"
#include "clean.h"
#include "compact.h"
#include "compat/compat.h"
#include "debugfs.h"
#include "durable.h"
#include "epoch.h"
#include "handle.h"
#include "registry.h"
#include "shared.h"
#include "sizes.h"
#include "store.h"
#include "sysfs.h"
#include "watch.h"
#include "window.h"

#define LSMEM_MINORS		256
#define LSMEM_HEADS_MIN		3	/* one of the cleaner and two of writers */
#define LSMEM_HEAD_SEGMENTS	5	/* full segments per head */
/* Live share of the seglets that writers may take, in percent. */
#define LSMEM_OBJECT_PERCENT	98
#define LSMEM_BLOCK_PERCENT	96
/*
 * The same of what stays in the memory of a tiered store as long as no more is live.  It is less, because
 * what was fetched has a trailer, and because the closer to full the dearer is each byte: objects that
 * are not read leave then.
 */
#define LSMEM_TIER_PERCENT	90

#define LSMEM_VIEW_MS		1000
#define LSMEM_DURABLE_MS	30000
#define LSMEM_FLUSH_MS		120000
#define LSMEM_STALL_MS		30000

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

/* The last reference is gone: free everything, in reverse order. */
static void lsmem_store_device_release(struct device *dev)
{
	struct lsmem_store *store = container_of(dev, struct lsmem_store, dev);

	lsmem_shared_destroy(store);
	lsmem_watches_destroy(store);
	lsmem_window_destroy(store);
	lsmem_fetches_destroy(store);
	lsmem_tier_destroy(store);
	lsmem_handles_destroy(store);
	lsmem_cleaner_destroy(store);
	lsmem_compactors_destroy(store);
	lsmem_balance_destroy(store);
	lsmem_segments_destroy(store);
	lsmem_seglets_destroy(&store->seglets);
	kvfree(store->heads.table);
	free_percpu(store->counters);
	percpu_counter_destroy(&store->handles.used);
	percpu_counter_destroy(&store->live);
	if (store->minor >= 0)
		ida_free(lsmem_store_ids(store), store->minor);
	kfree(store);
}

/* ---- Creation ----------------------------------------------------------- */

/* Can memory be charged to a memory cgroup? */
static bool lsmem_charge_possible(void)
{
	return IS_ENABLED(CONFIG_MEMCG) && !mem_cgroup_disabled();
}

/* The lowest limit of the memory cgroup of the caller and its ancestors, in bytes. */
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

static bool lsmem_capacity_valid(const struct lsmem_create *create)
{
	return !create->capacity ||
	       (create->flags & LSMEM_STORE_DURABLE &&
		create->capacity % LSMEM_SEGMENT_BYTES == 0 && create->capacity >= create->bytes &&
		create->capacity <= min(create->bytes * LSMEM_CAPACITY_MOST, LSMEM_BYTES_MAX));
}

static int lsmem_create_check(const struct lsmem_create *create)
{
	u64 full = max(create->bytes, create->capacity) / LSMEM_SEGMENT_BYTES;

	if (create->flags & ~(LSMEM_STORE_DURABLE | LSMEM_STORE_CHARGED | LSMEM_STORE_INSTANT))
		return -EINVAL;
	if (!(create->flags & LSMEM_STORE_DURABLE) &&
	    (create->flags & LSMEM_STORE_INSTANT || memchr_inv(create->uuid, 0, sizeof(create->uuid))))
		return -EINVAL;
	if (create->kind != LSMEM_KIND_OBJECT && create->kind != LSMEM_KIND_BLOCK)
		return -EINVAL;
	if (create->bytes % LSMEM_SEGMENT_BYTES || create->bytes < LSMEM_BYTES_MIN ||
	    create->bytes > LSMEM_BYTES_MAX)
		return -EINVAL;
	if (!lsmem_capacity_valid(create))
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
 * Is there memory for a store?  Asked before anything is allocated and zeroed.  The present use of
 * a cgroup does not count: part of it is page cache, which can be reclaimed.
 */
static int lsmem_create_fits(const struct lsmem_sizes *sizes, bool charged)
{
	u64 wanted = sizes->seglet_bytes + sizes->table_bytes;
	u64 available = (u64)max(si_mem_available(), 0l) << PAGE_SHIFT;
	u64 limit = charged ? lsmem_charge_limit() : U64_MAX;

	if (wanted > limit) {
		pr_err("no store was made: it takes %llu MiB; the limit of its memory cgroup is %llu MiB\n",
		       wanted >> 20, limit >> 20);
		return -ENOMEM;
	}
	if (wanted <= available && sizes->largest <= INT_MAX)
		return 0;
	pr_err("no store was made: it takes %llu MiB (%llu MiB for the log, %llu MiB for the tables of %llu handles, %llu segments and their seglets); %llu MiB of %llu MiB are available\n",
	       wanted >> 20, sizes->seglet_bytes >> 20, sizes->table_bytes >> 20, sizes->handles,
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

/* Allocate all tables that grow with the store. */
static int lsmem_store_tables(struct lsmem_store *store, const struct lsmem_sizes *sizes)
{
	gfp_t gfp = store->charged ? LSMEM_GFP_CHARGED : LSMEM_GFP;
	u32 usable;
	int ret;

	ret = percpu_counter_init(&store->live, 0, GFP_KERNEL);
	if (!ret)
		ret = percpu_counter_init(&store->handles.used, 0, GFP_KERNEL);
	if (ret)
		return ret;
	ret = lsmem_watches_init(store);
	if (ret)
		return ret;
	store->counters = alloc_percpu(struct lsmem_counters);
	/* Open segments and spares must leave most of a small log to closed segments. */
	store->heads.nr = min_t(u64, num_possible_cpus() + 1,
				store->bytes / LSMEM_SEGMENT_BYTES / LSMEM_HEAD_SEGMENTS);
	store->heads.nr = clamp_t(unsigned int, store->heads.nr, LSMEM_HEADS_MIN, LSMEM_HEADS);
	store->heads.table = kvcalloc(store->heads.nr, sizeof(*store->heads.table), gfp);
	if (!store->counters || !store->heads.table)
		return -ENOMEM;
	lsmem_log_init(store);
	ret = lsmem_seglets_init(&store->seglets, store->bytes, gfp);
	if (!ret)
		ret = lsmem_segments_init(store, max(store->bytes, store->capacity),
					  sizes->segments_all - sizes->segments);
	if (!ret)
		ret = lsmem_balance_init(store);
	if (!ret)
		ret = lsmem_compactors_init(store);
	if (!ret)
		ret = lsmem_cleaner_init(store);
	if (ret)
		return ret;
	/* Computed for all heads, so that the capacity does not depend on the number of CPUs. */
	usable = store->seglets.nr - store->seglets.base - LSMEM_HEADS;
	store->tier.fits = (u64)usable * LSMEM_SEGLET_BYTES / 100 * LSMEM_TIER_PERCENT;
	if (!store->capacity)
		store->capacity = (u64)usable * LSMEM_SEGLET_BYTES / 100 *
			  (store->kind == LSMEM_KIND_BLOCK ? LSMEM_BLOCK_PERCENT :
							     LSMEM_OBJECT_PERCENT);
	store->handles.common = store->kind == LSMEM_KIND_BLOCK ? lsmem_block_capacity(store) : sizes->handles;
	ret = lsmem_handles_init(store);
	if (!ret)
		ret = lsmem_tier_init(store);
	if (!ret)
		ret = lsmem_fetches_init(store);
	return ret ?: lsmem_window_init(store);
}

/*
 * Allocate all memory of a store; that of the log last, because it takes longest.  On error the
 * release of the device frees what was allocated.
 */
static int lsmem_store_memory(struct lsmem_store *store, const struct lsmem_sizes *sizes)
{
	int ret = lsmem_store_tables(store, sizes);

	if (ret) {
		pr_err("no store was made: its tables could not be had, %llu MiB (error %d)\n",
		       sizes->table_bytes >> 20, ret);
		return ret;
	}
	return lsmem_seglets_fill(&store->seglets);
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
	store->capacity = create->capacity;
	store->tier.on = lsmem_create_tier(create);
	store->tier.whole = !create->capacity;
	store->segments.nr = create->segments;
	store->uid = create->uid;
	store->gid = create->gid;
	store->mode = create->mode ?: 0600;
	store->minor = -1;
	store->views.view_ms = LSMEM_VIEW_MS;
	store->views.clients_max = LSMEM_CLIENTS_MAX;
	store->repl.durable_ms = LSMEM_DURABLE_MS;
	store->repl.flush_ms = LSMEM_FLUSH_MS;
	store->space.stall_ms = LSMEM_STALL_MS;
	store->clock_base = ktime_get_ns();
	if (memchr_inv(create->uuid, 0, sizeof(create->uuid)))
		memcpy(store->uuid, create->uuid, sizeof(store->uuid));
	else
		generate_random_uuid(store->uuid);
	init_waitqueue_head(&store->activation);
	mutex_init(&store->mutex);
	lsmem_faults_init(&store->faults);
	INIT_LIST_HEAD(&store->node);
	INIT_LIST_HEAD(&store->views.clients);
	INIT_LIST_HEAD(&store->views.shown);
	mutex_init(&store->views.lock);
	init_rwsem(&store->views.hiding);
	lsmem_buffers_init(&store->buffers);
	init_waitqueue_head(&store->space.wait);
	init_waitqueue_head(&store->repl.acks);
	init_waitqueue_head(&store->plan.work);
	init_waitqueue_head(&store->repl.events);
	lsmem_parks_init(store);
	lsmem_near_prepare(store);
	lsmem_snapshots_setup(store);
	lsmem_shared_setup(store);
	device_initialize(&store->dev);
	store->dev.class = &lsmem_class;
	store->dev.type = &lsmem_device_type;
	store->dev.release = lsmem_store_device_release;
	return store;
}

/* Add the device of a store: sysfs, and a node if it is an object store. */
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
 * lsmem_store_create - create a store
 * @create: see there
 * @out: the store; a volatile one is active
 *
 * Return: 0 or an error as struct lsmem_create says; then nothing is left of it.
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
	memcpy(store->views.info->uuid, store->uuid, sizeof(store->uuid));
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
	lsmem_registry_add(store);
	*out = store;
	return 0;
err_hide:
	lsmem_store_hide(store);
err_put:
	put_device(&store->dev);
	return ret;
}

/* ---- Destruction -------------------------------------------------------- */

/* Does the store have data that are on no backup? */
static bool lsmem_store_dirty(struct lsmem_store *store)
{
	struct lsmem_vector_point point;

	if (!store->durable || !lsmem_store_active(store))
		return false;
	lsmem_log_point(store, &point);
	return !lsmem_log_reached(store, &point, LSMEM_REACH_DURABLE);
}

/* Destroy a store that is out of the registry, so that it cannot be found or opened. */
static void lsmem_store_end(struct lsmem_store *store)
{
	bool held = store->durable && lsmem_store_active(store);

	lsmem_near_forget(store);
	lsmem_fetch_stop(store);	/* before the disk goes: bios may wait */
	if (store->disk)
		lsmem_block_del(store);
	WRITE_ONCE(store->state, LSMEM_STATE_DYING);
	wake_up_all(&store->space.wait);
	wake_up_all(&store->repl.acks);
	lsmem_store_rest(store);
	lsmem_parks_stop(store);
	lsmem_watches_end(store);
	lsmem_store_hide(store);
	put_device(&store->dev);
	if (held)
		module_put(THIS_MODULE);
}

/* Is a sealed store in use in another way than by an open file? */
static bool lsmem_store_busy(struct lsmem_store *store)
{
	return store->disk && lsmem_block_busy(store);
}

/* The same, or does it have data that are on no backup? */
static bool lsmem_store_needed(struct lsmem_store *store)
{
	return lsmem_store_busy(store) || lsmem_store_dirty(store);
}

/**
 * lsmem_store_destroy - LSMEM_CTL_DESTROY
 * @name: LSMEM_NAME_BYTES
 * @force: even if it has data that are on no backup
 *
 * Context: sleeps.  Return: 0, -ENODEV, -EBUSY.
 */
int lsmem_store_destroy(const char *name, bool force)
{
	struct lsmem_store *store;

	store = lsmem_registry_take(name, force, force ? lsmem_store_busy : lsmem_store_needed);
	if (IS_ERR(store))
		return PTR_ERR(store);
	lsmem_store_end(store);
	return 0;
}

/* ---- Suspend ------------------------------------------------------------ */

/* Do the backups have all data of a store? Waits for the daemon, at most flush_ms. */
static bool lsmem_store_drained(struct lsmem_store *store)
{
	if (!store->durable || !lsmem_store_active(store))
		return true;
	/* Without a daemon a wait would be in vain. */
	return READ_ONCE(store->repl.attached) ? !lsmem_sync(store, 0) : !lsmem_store_dirty(store);
}

/*
 * Drain every durable store before a suspend, or refuse the suspend.  Stores can be created,
 * attached and destroyed meanwhile, because a wait may end only when a daemon attaches.
 */
static int lsmem_pm_notify(struct notifier_block *nb, unsigned long action, void *data)
{
	struct lsmem_store *store = NULL;

	if (action != PM_SUSPEND_PREPARE && action != PM_HIBERNATION_PREPARE)
		return NOTIFY_DONE;
	while ((store = lsmem_registry_next(store))) {
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
 * lsmem_stores_init - register the device class and the suspend notifier
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
 * lsmem_stores_exit - destroy the remaining stores: volatile or new ones that are not open
 */
void lsmem_stores_exit(void)
{
	struct lsmem_store *store;

	/* Waits for a call that is under way; after this none reads the set. */
	unregister_pm_notifier(&lsmem_pm_notifier);
	while ((store = lsmem_registry_pop()))
		lsmem_store_end(store);
	unregister_chrdev_region(lsmem_devt, LSMEM_MINORS);
	class_unregister(&lsmem_class);
}
