// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl format: prepare a backup for a new store.
 *
 * With --size, this command formats the backup for an object store.  Without --size, it makes the
 * backup blank, and lsmemd formats the backup for the store that it serves: only the store knows
 * how many blocks a block store has.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup.h"
#include "ctl.h"

enum { SIZE, CAPACITY, HANDLES, CREATE, FORCE };

static const struct ctl_option options[] = {
	[SIZE]		= { "size", 's', true },
	[CAPACITY]	= { "capacity", 'C', true },
	[HANDLES]	= { "handles", 'n', true },
	[CREATE]	= { "create", 'c', true },
	[FORCE]		= { "force", 'f', false },
	{ 0 }
};

#define BYTES_PER_HANDLE	256	/* without --handles; the kernel has the same default */

static int random_bytes(void *bytes, size_t length)
{
	return getrandom(bytes, length, 0) == (ssize_t)length ? 0 : -EIO;
}

/* Chooses a random UUID, version 4, and a random incarnation that is not 0. */
static int make_identity(struct recover_geometry *geometry)
{
	int ret;

	ret = random_bytes(geometry->uuid, sizeof(geometry->uuid));
	if (ret)
		return ret;
	geometry->uuid[6] = (geometry->uuid[6] & 0x0f) | 0x40;
	geometry->uuid[8] = (geometry->uuid[8] & 0x3f) | 0x80;
	do {
		ret = random_bytes(&geometry->incarnation, sizeof(geometry->incarnation));
	} while (!ret && !geometry->incarnation);
	return ret;
}

/* Return: the bytes that the store may hold. */
static uint64_t live_bytes(const struct recover_geometry *geometry)
{
	return geometry->capacity ? geometry->capacity : geometry->store_bytes;
}

/* Return: 0, or an exit code when an error has been printed. */
static int parse(int argc, char **argv, struct recover_geometry *geometry, uint64_t *create)
{
	const char *value;
	uint64_t number;
	int option;

	geometry->kind = LSMEM_KIND_OBJECT;
	while ((option = ctl_next_option(argc, argv, options, &value)) != -1) {
		switch (option) {
		case SIZE:
			if (!ctl_parse_size(value, &number))
				return ctl_usage_error("--size %s: write 256M or 1G", value);
			geometry->store_bytes = number;
			break;
		case CAPACITY:
			if (!ctl_parse_size(value, &number) || !number)
				return ctl_usage_error("--capacity %s: write 1G or 4G", value);
			geometry->capacity = number;
			break;
		case HANDLES:
			if (!ctl_parse_size(value, &number) || !number || number > INT32_MAX)
				return ctl_usage_error("--handles %s: 1 to 2147483647", value);
			geometry->max_handles = number;
			break;
		case CREATE:
			if (!ctl_parse_size(value, create) || !*create)
				return ctl_usage_error("--create %s: write 512M or 2G", value);
			break;
		case FORCE:
			geometry->force = true;
			break;
		default:
			return CTL_USAGE;
		}
	}
	if (geometry->store_bytes % LSMEM_SEGMENT_BYTES)
		return ctl_usage_error("--size: the size of the store, a multiple of 8M");
	if (!geometry->store_bytes && (geometry->max_handles || geometry->capacity))
		return ctl_usage_error("--handles and --capacity need --size");
	if (geometry->capacity % LSMEM_SEGMENT_BYTES ||
	    (geometry->capacity && geometry->capacity < geometry->store_bytes) ||
	    geometry->capacity / LSMEM_CAPACITY_MOST > geometry->store_bytes)
		return ctl_usage_error("--capacity: a multiple of 8M, at least --size and at most %u times that",
				       LSMEM_CAPACITY_MOST);
	if (geometry->store_bytes && !geometry->max_handles)
		geometry->max_handles = live_bytes(geometry) / BYTES_PER_HANDLE;
	return 0;
}

static void report(const struct ctl_backup *backup, const struct recover_geometry *geometry,
		   int error)
{
	char is[16], wanted[16];

	switch (error) {
	case EBUSY:	/* in_use() has printed it */
		break;
	case EEXIST:
		ctl_error("%s is not blank (lsmemctl check shows what it holds); --force gives that up for good",
			  backup->path);
		break;
	case ENOSPC:
		ctl_bytes_text(backup->env.backup_bytes[0], is, sizeof(is));
		ctl_bytes_text(2 * live_bytes(geometry), wanted, sizeof(wanted));
		ctl_error("%s is too small with %s: it needs twice the size of the store, or twice its capacity, %s",
			  backup->path, is, wanted);
		break;
	default:
		ctl_system_error(error, "%s", backup->path);
	}
}

/* Is this a backup of an active store on this host?  Then prints its name. */
static bool in_use(const struct recover *recover)
{
	struct json_object *described = json_object_new_object(), *stores, *store;
	const char *name = NULL;
	size_t i;

	ctl_describe_super(described, recover);
	stores = ctl_module_loaded() ? ctl_stores_read() : NULL;
	for (i = 0; stores && !name && i < json_object_array_length(stores); i++) {
		store = json_object_array_get_idx(stores, i);
		if (json_object_equal(ctl_find(store, "uuid"), ctl_find(described, "uuid")) &&
		    !strcmp(ctl_word(store, "state"), "active"))
			name = ctl_word(store, "name");
	}
	if (name)
		ctl_error("it is the backup of %s, which is active: destroy the store first (lsmemctl destroy %s)",
			  name, name);
	json_object_put(stores);
	json_object_put(described);
	return name;
}

/* May the backup be overwritten?  Return: 0 or a negative errno. */
static int look(struct ctl_backup *backup, struct recover *recover, bool force)
{
	enum recover_state state;
	bool blank = false;
	int ret;

	ret = recover_open(recover, &state);
	if (!ret && state == RECOVER_FULL && in_use(recover))
		return -EBUSY;
	if (!ret && state == RECOVER_BLANK)
		ret = ctl_backup_blank(backup, &blank);
	if (ret && ret != -EBADMSG)
		return ret;
	return blank || force ? 0 : -EEXIST;
}

static int format(struct ctl_backup *backup, const struct recover_geometry *geometry,
		  struct json_object *out)
{
	struct recover *recover = recover_new(&backup->env);
	int ret = -ENOMEM;

	if (!recover)
		goto out;
	/* On a smaller backup, the daemon would have too few frames when the store is full. */
	ret = -ENOSPC;
	if (backup->env.backup_bytes[0] < 2 * live_bytes(geometry))
		goto out;
	ret = look(backup, recover, geometry->force);
	if (ret)
		goto out;
	/* Wipe in any case, so that no earlier content remains at the ends. */
	ret = ctl_backup_wipe(backup);
	if (!ret && geometry->store_bytes)
		ret = recover_format(recover, geometry);
	if (!ret && geometry->store_bytes)
		ctl_describe_super(out, recover);
	else if (!ret)
		json_object_object_add(out, "verdict", json_object_new_string("blank"));
out:
	if (ret)
		report(backup, geometry, -ret);
	recover_free(recover);
	return ret ? CTL_FAILED : CTL_OK;
}

static int run(int argc, char **argv)
{
	struct recover_geometry geometry = { 0 };
	struct ctl_backup backup;
	struct json_object *out;
	uint64_t create = 0;
	const char *path;
	int ret;

	ret = parse(argc, argv, &geometry, &create);
	if (ret)
		return ret;
	path = ctl_one_argument(argc, argv, "BACKUP");
	if (!path)
		return CTL_USAGE;
	ret = make_identity(&geometry);
	if (ret) {
		ctl_system_error(-ret, "random numbers");
		return CTL_FAILED;
	}
	if (create && !ctl_backup_create(path, create))
		return CTL_FAILED;
	if (!ctl_backup_open(&backup, path, true)) {
		if (create)
			unlink(path);
		return CTL_FAILED;
	}
	out = json_object_new_object();
	json_object_object_add(out, "backup", json_object_new_string(path));
	ret = format(&backup, &geometry, out);
	if (ret && create)
		unlink(path);	/* this command has created it */
	if (ret)
		ctl_print_reports(&backup);
	else if (ctl_json)
		ctl_print_json(out);
	else
		ctl_print_fields(out);
	json_object_put(out);
	ctl_backup_close(&backup);
	return ret;
}

const struct ctl_command ctl_format = {
	.name = "format",
	.summary = "Make a backup blank, or format it for an object store (--size)",
	.usage = "format BACKUP [--size SIZE [--capacity SIZE] [--handles N]] [--create BYTES] [--force] [--json]",
	.run = run,
};
