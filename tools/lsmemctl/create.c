// SPDX-License-Identifier: GPL-2.0
/* lsmemctl create: make a store. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <lsmem_format.h>

#include "ctl.h"

enum { KIND, SIZE, CAPACITY, HANDLES, DURABLE, INSTANT, CHARGE, MODE, OWNER };

static const struct ctl_option options[] = {
	[KIND]		= { "kind", 'k', true },
	[SIZE]		= { "size", 's', true },
	[CAPACITY]	= { "capacity", 'c', true },
	[HANDLES]	= { "handles", 'n', true },
	[DURABLE]	= { "durable", 'd', false },
	[INSTANT]	= { "instant", 'i', false },
	[CHARGE]	= { "charge", 'C', false },
	[MODE]		= { "mode", 'm', true },
	[OWNER]		= { "owner", 'o', true },
	{ 0 }
};

/* Parses USER, USER:GROUP or :GROUP; each is a name or a number. */
static bool parse_owner(const char *text, struct lsmem_create *create)
{
	const char *colon = strchr(text, ':');
	char user[64];
	const struct passwd *account;
	const struct group *group;
	uint64_t number;

	snprintf(user, sizeof(user), "%.*s", (int)(colon ? colon - text : (long)strlen(text)),
		 text);
	if (*user) {
		account = getpwnam(user);
		if (account)
			create->uid = account->pw_uid;
		else if (ctl_parse_number(user, UINT32_MAX - 1, &number))
			create->uid = (uint32_t)number;
		else
			return false;
	}
	if (colon && colon[1]) {
		group = getgrnam(colon + 1);
		if (group)
			create->gid = group->gr_gid;
		else if (ctl_parse_number(colon + 1, UINT32_MAX - 1, &number))
			create->gid = (uint32_t)number;
		else
			return false;
	}
	return true;
}

/* Return: 0, or an exit code when an error has been printed. */
static int parse(int argc, char **argv, struct lsmem_create *create)
{
	const char *value;
	uint64_t number;
	int option;

	create->kind = LSMEM_KIND_OBJECT;
	while ((option = ctl_next_option(argc, argv, options, &value)) != -1) {
		switch (option) {
		case KIND:
			if (!ctl_parse_kind(value, &create->kind))
				return ctl_usage_error("--kind %s: object or block", value);
			break;
		case SIZE:
			if (!ctl_parse_size(value, &number))
				return ctl_usage_error("--size %s: write 256M or 1G", value);
			create->bytes = number;
			break;
		case CAPACITY:
			if (!ctl_parse_size(value, &number) || !number)
				return ctl_usage_error("--capacity %s: write 1G or 4G", value);
			create->capacity = number;
			break;
		case HANDLES:
			if (!ctl_parse_size(value, &number) || !number || number > INT32_MAX)
				return ctl_usage_error("--handles %s: 1 to 2147483647", value);
			create->handles_max = number;
			break;
		case DURABLE:
			create->flags |= LSMEM_STORE_DURABLE;
			break;
		case INSTANT:
			create->flags |= LSMEM_STORE_INSTANT;
			break;
		case CHARGE:
			create->flags |= LSMEM_STORE_CHARGED;
			break;
		case MODE:
			if (!ctl_parse_mode(value, &create->mode))
				return ctl_usage_error("--mode %s: write 0600 or 0660", value);
			break;
		case OWNER:
			if (!parse_owner(value, create))
				return ctl_usage_error("--owner %s: no such user or group", value);
			break;
		default:
			return CTL_USAGE;
		}
	}
	if (optind < argc)
		return ctl_usage_error("too many arguments: '%s'; the kernel chooses the name of a store",
				       argv[optind]);
	if (!create->bytes)
		return ctl_usage_error("--size is missing");
	if (create->bytes % LSMEM_SEGMENT_BYTES)
		return ctl_usage_error("--size: a multiple of 8M, at least 128M");
	if (create->capacity && !(create->flags & LSMEM_STORE_DURABLE))
		return ctl_usage_error("--capacity is for stores with --durable");
	if (create->flags & LSMEM_STORE_INSTANT && !(create->flags & LSMEM_STORE_DURABLE))
		return ctl_usage_error("--instant is for stores with --durable");
	if (create->capacity % LSMEM_SEGMENT_BYTES ||
	    (create->capacity && create->capacity < create->bytes))
		return ctl_usage_error("--capacity: a multiple of 8M, at least --size");
	if (create->kind == LSMEM_KIND_BLOCK && create->handles_max)
		return ctl_usage_error("--handles is for object stores");
	/* Whatever the backups have room for: lsmemd tells the kernel how many segments that is. */
	if (create->flags & LSMEM_STORE_DURABLE)
		create->segments = (create->capacity ? create->capacity : create->bytes) / LSMEM_SEGMENT_BYTES *
				   LSMEM_SEGMENTS_MOST;
	return 0;
}

static int report(const struct lsmem_create *create, int error)
{
	char size[16];

	ctl_bytes_text(create->bytes, size, sizeof(size));
	switch (error) {
	case ENOMEM:
		if (create->flags & LSMEM_STORE_CHARGED)
			ctl_error("cannot allocate %s and its tables, or the limit of the memory cgroup is lower: see the kernel log",
				  size);
		else
			ctl_error("cannot allocate %s in large pieces: try a smaller --size, or try soon after boot",
				  size);
		break;
	case EOPNOTSUPP:
		ctl_error("--charge: this kernel has no memory cgroups");
		break;
	case EINVAL:
		ctl_error("the kernel refuses a store of %s with these options: the size must be 128M to 1T, the capacity at most %u times that and 1T, and the handles must leave room for data",
			  size, LSMEM_CAPACITY_MOST);
		break;
	case ENOSPC:
		ctl_error("the largest possible number of stores exists: destroy one first");
		break;
	default:
		ctl_system_error(error, "/dev/lsmem-control");
	}
	return CTL_FAILED;
}

static int run(int argc, char **argv)
{
	struct lsmem_create create = { .size = sizeof(create), .uid = getuid(), .gid = getgid() };
	bool durable;
	struct json_object *out;
	const char *name;
	int fd, ret;

	ret = parse(argc, argv, &create);
	if (ret)
		return ret;
	durable = create.flags & LSMEM_STORE_DURABLE;
	fd = ctl_open_control();
	if (fd < 0)
		return CTL_FAILED;
	ret = ioctl(fd, LSMEM_CTL_CREATE, &create) ? errno : 0;
	close(fd);
	if (ret)
		return report(&create, ret);
	create.name[sizeof(create.name) - 1] = 0;
	name = (const char *)create.name;
	if (!ctl_json) {
		printf("%s\n", name);
		if (durable)
			fprintf(stderr, "%s accepts data after its daemon has attached: see lsmemd(8)\n",
				name);
		return CTL_OK;
	}
	out = json_object_new_object();
	json_object_object_add(out, "name", json_object_new_string(name));
	json_object_object_add(out, "kind", json_object_new_string(
		create.kind == LSMEM_KIND_BLOCK ? "block" : "object"));
	json_object_object_add(out, "durability", json_object_new_string(
		durable ? "durable" : "volatile"));
	json_object_object_add(out, "charged", json_object_new_boolean(
		create.flags & LSMEM_STORE_CHARGED));
	ctl_add_number(out, "size_bytes", (int64_t)create.bytes);
	if (create.capacity)
		ctl_add_number(out, "capacity_bytes", (int64_t)create.capacity);
	ctl_print_json(out);
	json_object_put(out);
	return CTL_OK;
}

const struct ctl_command ctl_create = {
	.name = "create",
	.summary = "Make a store and print its name",
	.usage = "create --size SIZE [--kind object|block] [--handles N] [--durable]\n"
		 "                       [--capacity SIZE] [--instant] [--charge] [--owner USER[:GROUP]] [--mode MODE] [--json]",
	.run = run,
};
