// SPDX-License-Identifier: GPL-2.0
/*
 * The registry: all stores, how often each is held open, and the names they were given.
 *
 * A store that is held cannot be destroyed; one that only lingers, because the module itself still writes
 * what a closed range of pages has left, can be by force.  To be destroyed, a store that is not held is
 * sealed, checked for other users while its disk cannot be opened, and taken out for ever.
 *
 * Lock: lsmem_stores_lock for the set, opens, seals and given names.  Order: store.h.
 */
#include <linux/blkdev.h>
#include <linux/ctype.h>

#include "registry.h"
#include "store.h"

static LIST_HEAD(lsmem_stores);
static DEFINE_MUTEX(lsmem_stores_lock);

/* ---- Holding ------------------------------------------------------------ */

static void lsmem_store_hold(struct lsmem_store *store)
{
	lockdep_assert_held(&lsmem_stores_lock);
	store->opens++;
	get_device(&store->dev);
}

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
		lsmem_store_hold(store);
		ret = 0;
	}
	mutex_unlock(&lsmem_stores_lock);
	return ret;
}

/**
 * lsmem_store_release - undo lsmem_store_open()
 * @store: invalid afterwards
 */
void lsmem_store_release(struct lsmem_store *store)
{
	mutex_lock(&lsmem_stores_lock);
	store->opens--;
	mutex_unlock(&lsmem_stores_lock);
	put_device(&store->dev);
}

/**
 * lsmem_store_linger - hold a store only until it is destroyed by force
 * @store: held; from now on lingering
 */
void lsmem_store_linger(struct lsmem_store *store)
{
	mutex_lock(&lsmem_stores_lock);
	store->opens--;
	store->lingering++;
	mutex_unlock(&lsmem_stores_lock);
}

/**
 * lsmem_store_linger_end - undo lsmem_store_linger()
 * @store: lingering; after an error it still is
 * Return: 0, or -ENODEV when it is being destroyed.
 */
int lsmem_store_linger_end(struct lsmem_store *store)
{
	int ret = -ENODEV;

	mutex_lock(&lsmem_stores_lock);
	if (!store->sealed) {
		store->lingering--;
		store->opens++;
		ret = 0;
	}
	mutex_unlock(&lsmem_stores_lock);
	return ret;
}

/**
 * lsmem_store_linger_release - as lsmem_store_release()
 * @store: lingering; invalid afterwards
 */
void lsmem_store_linger_release(struct lsmem_store *store)
{
	mutex_lock(&lsmem_stores_lock);
	store->lingering--;
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
	if (store)
		lsmem_store_hold(store);
	mutex_unlock(&lsmem_stores_lock);
	return store ?: ERR_PTR(-ENODEV);
}

/* ---- The set ------------------------------------------------------------ */

/**
 * lsmem_registry_add - add a store
 * @store: complete; can be found from now on
 *
 * Context: sleeps.
 */
void lsmem_registry_add(struct lsmem_store *store)
{
	mutex_lock(&lsmem_stores_lock);
	list_add_tail(&store->node, &lsmem_stores);
	mutex_unlock(&lsmem_stores_lock);
}

/**
 * lsmem_registry_take - take a store out, to be destroyed
 * @name: LSMEM_NAME_BYTES, from a user
 * @force: also one that lingers
 * @busy: is it in use in another way than by an open file? Called with the store sealed and
 *	lsmem_stores_lock held
 *
 * Context: sleeps.  Return: the store, sealed; or an ERR_PTR: -ENODEV; -EBUSY.
 */
struct lsmem_store *lsmem_registry_take(const char *name, bool force,
					bool (*busy)(struct lsmem_store *store))
{
	struct lsmem_store *store;
	int ret = 0;

	mutex_lock(&lsmem_stores_lock);
	store = lsmem_store_find(name);
	if (!store) {
		ret = -ENODEV;
	} else if (store->opens || (store->lingering && !force)) {
		ret = -EBUSY;
	} else {
		store->sealed = true;	/* also for openers of the block device */
		if (busy(store)) {
			store->sealed = false;
			ret = -EBUSY;
		} else {
			list_del_init(&store->node);
		}
	}
	mutex_unlock(&lsmem_stores_lock);
	return ret ? ERR_PTR(ret) : store;
}

/**
 * lsmem_registry_pop - take any store out, because the module is unloaded
 * Return: a store, or NULL if there is none.
 */
struct lsmem_store *lsmem_registry_pop(void)
{
	struct lsmem_store *store;

	mutex_lock(&lsmem_stores_lock);
	store = list_first_entry_or_null(&lsmem_stores, struct lsmem_store, node);
	if (store)
		list_del_init(&store->node);
	mutex_unlock(&lsmem_stores_lock);
	return store;
}

/**
 * lsmem_registry_next - iterate over all stores
 * @store: the previous one, which is released; NULL to begin
 *
 * A held store stays in the registry, so the iteration can continue from it.
 *
 * Context: sleeps.  Return: the next store, held; NULL at the end.
 */
struct lsmem_store *lsmem_registry_next(struct lsmem_store *store)
{
	struct list_head *node;
	struct lsmem_store *next = NULL;

	mutex_lock(&lsmem_stores_lock);
	node = store ? store->node.next : lsmem_stores.next;
	if (node != &lsmem_stores) {
		next = list_entry(node, struct lsmem_store, node);
		lsmem_store_hold(next);
	}
	mutex_unlock(&lsmem_stores_lock);
	if (store)
		lsmem_store_release(store);
	return next;
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

/* Could it be the name of a node: lsmem, lsmem1 .., lsmemb0 .., lsmem-control? */
static bool lsmem_name_of_node(const char *name, size_t length)
{
	if (length < 5 || memcmp(name, "lsmem", 5))
		return false;
	if (lsmem_digits(name + 5, length - 5))
		return true;
	return (name[5] == 'b' && length > 6 && lsmem_digits(name + 6, length - 6)) ||
	       (length == 13 && !memcmp(name + 5, "-control", 8));
}

/* It becomes the name of a link and of a unit. See LSMEM_GIVEN_BYTES and sysfs-class-lsmem. */
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
 * lsmem_store_give - give a store a name, for the links that udev makes
 * @store: has its device
 * @name: @length bytes, not terminated
 * @length: of @name; 0 removes the name
 *
 * Sends KOBJ_CHANGE events for the store's device and its disk.
 *
 * Context: may sleep; takes lsmem_stores_lock.
 * Return: 0; -EINVAL: not allowed; -EEXIST: another store has it; -ENODEV: the store is being
 * created or destroyed.
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
		 * Acquire: see lsmem_block_add().  The disk of a listed store is not removed.  A
		 * disk that is being added may have sent its events with the old name, so a daemon
		 * gives the name before it activates the store.
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
