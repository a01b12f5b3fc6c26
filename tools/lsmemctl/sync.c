// SPDX-License-Identifier: GPL-2.0
/* lsmemctl sync: make durable what users wrote to a store. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl.h"

enum { TIMEOUT };

static const struct ctl_option options[] = {
	[TIMEOUT]	= { "timeout", 't', true },
	{ 0 }
};

/* A block store takes fsync(), an object store its own ioctl.  Return: 0 or a positive errno. */
static int sync_store(int fd, uint32_t timeout_ms)
{
	struct lsmem_sync sync = { .size = sizeof(sync), .timeout_ms = timeout_ms };
	struct stat status;

	if (fstat(fd, &status))
		return errno;
	if (S_ISBLK(status.st_mode))
		return fsync(fd) ? errno : 0;
	return ioctl(fd, LSMEM_IOC_SYNC, &sync) ? errno : 0;
}

static int report(const char *name, int error)
{
	switch (error) {
	case EOPNOTSUPP:
		ctl_error("%s is volatile: it has no backup", name);
		break;
	case EAGAIN:
		ctl_error("%s is not active: its daemon has not activated it (systemctl status lsmemd)",
			  name);
		break;
	case ETIMEDOUT:
		ctl_error("%s: not durable in time: is its daemon running? (systemctl status lsmemd)",
			  name);
		break;
	default:
		ctl_system_error(error, "%s", name);
	}
	return CTL_FAILED;
}

static int run(int argc, char **argv)
{
	char name[LSMEM_NAME_BYTES];
	struct json_object *out;
	const char *text, *value;
	uint64_t timeout_ms = 0;
	double begin;
	int fd, option, error;

	while ((option = ctl_next_option(argc, argv, options, &value)) != -1) {
		if (option != TIMEOUT)
			return CTL_USAGE;
		if (!ctl_parse_seconds(value, &timeout_ms) || timeout_ms > UINT32_MAX)
			return ctl_usage_error("--timeout %s: write 5, 0.5 or 250ms", value);
	}
	text = ctl_one_argument(argc, argv, "STORE");
	if (!text)
		return CTL_USAGE;
	if (!ctl_store_name(text, name))
		return CTL_USAGE;
	fd = ctl_open_store(name, O_RDWR);
	if (fd < 0)
		return CTL_FAILED;
	begin = ctl_now();
	error = sync_store(fd, (uint32_t)timeout_ms);
	close(fd);
	if (error)
		return report(name, error);
	if (ctl_json) {
		out = json_object_new_object();
		json_object_object_add(out, "name", json_object_new_string(name));
		ctl_add_number(out, "microseconds", (int64_t)((ctl_now() - begin) * 1e6));
		ctl_print_json(out);
		json_object_put(out);
	}
	return CTL_OK;
}

const struct ctl_command ctl_sync = {
	.name = "sync",
	.summary = "Wait until everything written to a store is durable",
	.usage = "sync STORE [--timeout SECONDS] [--json]",
	.run = run,
};
