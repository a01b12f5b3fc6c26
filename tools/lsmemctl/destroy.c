// SPDX-License-Identifier: GPL-2.0
/* lsmemctl destroy: destroy a store. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ctl.h"

enum { FORCE };

static const struct ctl_option options[] = {
	[FORCE]		= { "force", 'f', false },
	{ 0 }
};

#define PATIENCE	2	/* seconds */
#define STEP		0.02	/* seconds between attempts */

/*
 * udev opens a disk for a short time when the disk appears and after writes to it.  So try again
 * for PATIENCE while the store is busy.
 * Return: 0 or a positive errno.
 */
static int destroy_patiently(int fd, struct lsmem_destroy *destroy)
{
	double end = ctl_now() + PATIENCE;

	while (ioctl(fd, LSMEM_CTL_DESTROY, destroy)) {
		if (errno != EBUSY || ctl_now() >= end)
			return errno;
		ctl_pause(STEP);
	}
	return 0;
}

static int run(int argc, char **argv)
{
	struct lsmem_destroy destroy = { .size = sizeof(destroy) };
	char name[LSMEM_NAME_BYTES];
	struct json_object *out;
	const char *text, *value;
	int fd, option, ret;

	while ((option = ctl_next_option(argc, argv, options, &value)) != -1) {
		if (option != FORCE)
			return CTL_USAGE;
		destroy.flags |= LSMEM_DESTROY_FORCE;
	}
	text = ctl_one_argument(argc, argv, "STORE");
	if (!text)
		return CTL_USAGE;
	if (!ctl_store_name(text, name))
		return CTL_USAGE;
	memcpy(destroy.name, name, sizeof(name));
	fd = ctl_open_control();
	if (fd < 0)
		return CTL_FAILED;
	ret = destroy_patiently(fd, &destroy);
	close(fd);
	if (ret == EBUSY)
		ctl_error("%s is open, mapped, mounted or attached to its daemon%s", name,
			  destroy.flags ? "" :
			  ", or has data that are not on its backup (--force discards them)");
	else if (ret == ENODEV)
		ctl_error("%s: no such store (lsmemctl list shows them)", name);
	else if (ret)
		ctl_system_error(ret, "%s", name);
	if (ret)
		return CTL_FAILED;
	if (ctl_json) {
		out = json_object_new_object();
		json_object_object_add(out, "destroyed", json_object_new_string(name));
		ctl_print_json(out);
		json_object_put(out);
	}
	return CTL_OK;
}

const struct ctl_command ctl_destroy = {
	.name = "destroy",
	.summary = "Destroy a store and free its memory; its backup remains",
	.usage = "destroy STORE [--force] [--json]",
	.run = run,
};
