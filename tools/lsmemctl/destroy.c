// SPDX-License-Identifier: GPL-2.0
/* lsmemctl destroy: unmake a store. */
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
	ret = ioctl(fd, LSMEM_CTL_DESTROY, &destroy) ? errno : 0;
	close(fd);
	if (ret == EBUSY)
		ctl_error("%s is open, mapped, mounted or attached to its daemon%s", name,
			  destroy.flags ? "" :
			  ", or has data that are not on its backup (then --force loses them)");
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
	.summary = "Unmake a store; its memory is free, its backup stays",
	.usage = "destroy STORE [--force] [--json]",
	.run = run,
};
