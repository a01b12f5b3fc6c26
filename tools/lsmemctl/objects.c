// SPDX-License-Identifier: GPL-2.0
/* lsmemctl: which objects of a store a command is about. */
#include <errno.h>
#include <stdio.h>

#include <lsmem/lsmem_format.h>

#include "objects.h"

#define PERCENT_EACH	0.1	/* seconds between two lines of progress */

/**
 * ctl_objects_option() - parse an option that says which objects
 * @objects: out
 * @option: below CTL_OBJECTS_OPTIONS, else an error has been printed
 * @value: of the option
 *
 * Return: enum ctl_exit.
 */
int ctl_objects_option(struct ctl_objects *objects, int option, const char *value)
{
	uint64_t number;

	switch (option) {
	case CTL_TABLE:
		if (!ctl_parse_number(value, LSMEM_TABLES - 1, &number))
			return ctl_usage_error("--table %s: write a number below %u", value, LSMEM_TABLES);
		objects->scan.one_table = 1;
		objects->scan.table = (uint32_t)number;
		return CTL_OK;
	case CTL_WHERE:
		if (objects->nr_ranges == CTL_RANGES_MAX)
			return ctl_usage_error("--where: at most %u", CTL_RANGES_MAX);
		if (!ctl_parse_where(value, &objects->ranges[objects->nr_ranges]))
			return ctl_usage_error("--where %s: write 'u32@4<100', with <, <=, >, >= or =", value);
		objects->nr_ranges++;
		return CTL_OK;
	case CTL_THREADS:
		if (!ctl_parse_number(value, 64, &number) || !number)
			return ctl_usage_error("--threads %s: write a number from 1 to 64", value);
		objects->scan.threads = (uint32_t)number;
		return CTL_OK;
	default:
		return CTL_USAGE;
	}
}

/**
 * ctl_objects_store() - get the only argument of a command, an object store
 * @argc: of the command
 * @argv: of the command
 * @name: out: of the store's node, LSMEM_NAME_BYTES
 *
 * Return: enum ctl_exit; not CTL_OK: an error has been printed.
 */
int ctl_objects_store(int argc, char **argv, char *name)
{
	const char *text = ctl_one_argument(argc, argv, "STORE");

	if (!text || !ctl_store_name(text, name))
		return CTL_USAGE;
	return ctl_store_exists(name) ? CTL_OK : CTL_FAILED;
}

/**
 * ctl_objects_open() - open a store by liblsmem
 * @name: of the store's node
 * @flags: as lsm_open()
 * @lsm: out
 *
 * Return: as lsm_open().
 */
int ctl_objects_open(const char *name, unsigned int flags, struct lsm **lsm)
{
	char path[256];

	snprintf(path, sizeof(path), "/dev/%s", name);
	return lsm_open(path, flags, lsm);
}

/**
 * ctl_objects_error() - print why a call of liblsmem has failed, and what to do
 * @name: of the store's node
 * @error: a positive errno
 *
 * Return: CTL_FAILED, always.
 */
int ctl_objects_error(const char *name, int error)
{
	switch (error) {
	case ENOTTY:
		ctl_error("%s is no object store", name);
		break;
	case EAGAIN:
		ctl_error("%s is not active: its daemon has not activated it (systemctl status lsmemd)", name);
		break;
	case EOPNOTSUPP:
		ctl_error("%s cannot be scanned that way: it is tiered, or the module is older than this program",
			  name);
		break;
	case EBUSY:
		ctl_error("%s has as many snapshots as it may have (limits/snapshots_max): try again", name);
		break;
	default:
		ctl_error("%s: %s", name, lsm_strerror(error));
	}
	return CTL_FAILED;
}

/**
 * ctl_objects_progress() - show on a terminal how far a command is
 * @context: struct ctl_objects
 * @done: part of @total
 * @total: not 0
 */
void ctl_objects_progress(void *context, uint64_t done, uint64_t total)
{
	struct ctl_objects *objects = context;
	double now = ctl_now();

	if (now - objects->shown < PERCENT_EACH)
		return;
	objects->shown = now;
	fprintf(stderr, "\r%3.0f %%", 100.0 * (double)done / (double)total);
}

/**
 * ctl_objects_finished() - wipe out the last line of progress, if there was one
 * @objects: which
 */
void ctl_objects_finished(const struct ctl_objects *objects)
{
	if (objects->shown > 0)
		fprintf(stderr, "\r\033[K");
}
