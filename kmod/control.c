// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/lsmem-control: create and destroy stores, attach a daemon.
 *
 * For tasks with CAP_SYS_ADMIN, which each call checks: a descriptor that is passed on conveys no
 * rights.  No locks.
 */
#include <linux/capability.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

#include "control.h"
#include "ioctl.h"
#include "repl.h"
#include "store.h"

static bool lsmem_name_ends(const __u8 *name)
{
	return strnlen((const char *)name, LSMEM_NAME_BYTES) < LSMEM_NAME_BYTES;
}

static long lsmem_control_create(void *context, void *arg)
{
	struct lsmem_create *create = arg;
	struct lsmem_store *store;
	int ret;

	if (memchr_inv(create->name, 0, sizeof(create->name)))
		return -EINVAL;
	ret = lsmem_store_create(create, &store);
	if (!ret)
		strscpy((char *)create->name, store->name, sizeof(create->name));
	return ret;
}

static long lsmem_control_destroy(void *context, void *arg)
{
	const struct lsmem_destroy *destroy = arg;

	if (destroy->flags & ~LSMEM_DESTROY_FORCE || !lsmem_name_ends(destroy->name))
		return -EINVAL;
	return lsmem_store_destroy((const char *)destroy->name,
				   destroy->flags & LSMEM_DESTROY_FORCE);
}

static long lsmem_control_attach(void *context, void *arg)
{
	struct lsmem_attach *attach = arg;

	if (!lsmem_name_ends(attach->name))
		return -EINVAL;
	return lsmem_repl_attach(attach);
}

static const struct lsmem_ioctl lsmem_control_ioctls[] = {
	LSMEM_IOCTL(LSMEM_CTL_CREATE, struct lsmem_create, LSMEM_CREATE_SIZE_VER0,
		    lsmem_control_create),
	LSMEM_IOCTL(LSMEM_CTL_DESTROY, struct lsmem_destroy, LSMEM_DESTROY_SIZE_VER0,
		    lsmem_control_destroy),
	LSMEM_IOCTL(LSMEM_CTL_ATTACH, struct lsmem_attach, LSMEM_ATTACH_SIZE_VER0,
		    lsmem_control_attach),
};

static long lsmem_control_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	return lsmem_ioctl_call(lsmem_control_ioctls, ARRAY_SIZE(lsmem_control_ioctls), NULL, cmd,
				arg);
}

static const struct file_operations lsmem_control_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = lsmem_control_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice lsmem_control = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "lsmem-control",
	.fops = &lsmem_control_fops,
	.mode = 0600,
};

/**
 * lsmem_control_init - make /dev/lsmem-control
 *
 * Context: sleeps.  Return: 0 or an error of misc_register().
 */
int lsmem_control_init(void)
{
	return misc_register(&lsmem_control);
}

/**
 * lsmem_control_exit - undo lsmem_control_init()
 *
 * Context: sleeps.
 */
void lsmem_control_exit(void)
{
	misc_deregister(&lsmem_control);
}
