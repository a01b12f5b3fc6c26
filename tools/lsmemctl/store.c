// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl: stores in sysfs and their device nodes.
 *
 * /sys/class/lsmem/STORE/ has one file for each value; some are in subdirectories.  This file reads
 * all of them without knowing their names, so stat and --json also show attributes that a later
 * module adds.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lsmem.h>

#include "ctl.h"

#define SYSFS		"/sys/class/lsmem"
#define CONTROL		"/dev/lsmem-control"

/* Entries that the driver core of the kernel adds to the attributes of the module. */
static const char *const not_ours[] = { "uevent", "dev", "power", "subsystem", "device", "queue" };

static bool is_ours(const char *name)
{
	size_t i;

	if (*name == '.')
		return false;
	for (i = 0; i < sizeof(not_ours) / sizeof(*not_ours); i++) {
		if (!strcmp(name, not_ours[i]))
			return false;
	}
	return true;
}

/* Parses numbers with a blank between them.  NULL: @text is something else. */
static struct json_object *make_numbers(const char *text)
{
	struct json_object *numbers = json_object_new_array();
	int64_t number;
	char *end;

	do {
		errno = 0;
		number = strtoll(text, &end, 10);
		if (end == text || errno || (*end && *end != ' ')) {
			json_object_put(numbers);
			return NULL;
		}
		json_object_array_add(numbers, json_object_new_int64(number));
		text = end;
	} while (*end);
	return numbers;
}

/* Returns a number, an array of several numbers, or else a string. */
static struct json_object *make_value(char *text)
{
	struct json_object *numbers, *number;
	size_t length = strlen(text);

	while (length && isspace((unsigned char)text[length - 1]))
		text[--length] = 0;
	numbers = make_numbers(text);
	if (!numbers)
		return json_object_new_string(text);
	if (json_object_array_length(numbers) > 1)
		return numbers;
	number = json_object_get(json_object_array_get_idx(numbers, 0));
	json_object_put(numbers);
	return number;
}

static struct json_object *read_attribute(int directory, const char *name)
{
	char text[4096];
	ssize_t length;
	int fd;

	fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length < 0)
		return NULL;
	text[length] = 0;
	if (!strcmp(name, "given_name")) {	/* always a string, even if it has only digits */
		text[strcspn(text, "\n")] = 0;
		return json_object_new_string(text);
	}
	return make_value(text);
}

/* Reads the attributes in a directory and in @depth levels below it.  Closes @fd. */
static struct json_object *read_directory(int fd, int depth)
{
	struct json_object *object, *value;
	struct dirent **entries;
	struct stat status;
	int i, nr, below;

	nr = scandirat(fd, ".", &entries, NULL, alphasort);
	if (nr < 0) {
		close(fd);
		return NULL;
	}
	object = json_object_new_object();
	for (i = 0; i < nr; i++) {
		const char *name = entries[i]->d_name;

		value = NULL;
		if (is_ours(name) && !fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW)) {
			if (S_ISREG(status.st_mode) && status.st_mode & 0444) {
				value = read_attribute(fd, name);
			} else if (S_ISDIR(status.st_mode) && depth) {
				below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
				if (below >= 0)
					value = read_directory(below, depth - 1);
			}
		}
		if (value)
			json_object_object_add(object, name, value);
		free(entries[i]);
	}
	free(entries);
	close(fd);
	return object;
}

/**
 * ctl_store_read() - read all attributes of a store from sysfs
 * @name: from ctl_store_name()
 *
 * Return: an object with the attributes, "name" first, and "used_percent" of the capacity if
 * the capacity is known; NULL: no such store.
 */
struct json_object *ctl_store_read(const char *name)
{
	struct json_object *store, *all;
	char path[256], text[32];
	int64_t capacity;
	double used;
	int fd;

	snprintf(path, sizeof(path), SYSFS "/%s", name);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	all = read_directory(fd, 1);
	if (!all)
		return NULL;
	store = json_object_new_object();
	json_object_object_add(store, "name", json_object_new_string(name));
	json_object_object_foreach(all, key, value)
		json_object_object_add(store, key, json_object_get(value));
	json_object_put(all);
	capacity = ctl_number(store, "capacity_bytes");
	if (capacity > 0) {
		used = 100.0 * (double)ctl_number(store, "live_bytes") / (double)capacity;
		snprintf(text, sizeof(text), "%.1f", used);
		json_object_object_add(store, "used_percent", json_object_new_double_s(used, text));
	}
	return store;
}

static bool is_store(const char *name)
{
	return !strncmp(name, "lsmem", 5) && strcmp(name, "lsmem-control") &&
	       strlen(name) < LSMEM_NAME_BYTES;
}

static int select_stores(const struct dirent *entry)
{
	return is_store(entry->d_name);
}

/**
 * ctl_stores_read() - read the attributes of all stores
 *
 * Return: an array of objects of ctl_store_read(), sorted by name; NULL: the module is not loaded,
 * and an error has been printed.
 */
struct json_object *ctl_stores_read(void)
{
	struct json_object *stores, *store;
	struct dirent **entries;
	int i, nr;

	nr = scandir(SYSFS, &entries, select_stores, versionsort);
	if (nr < 0) {
		ctl_error(SYSFS " does not exist: the module is not loaded (modprobe lsmem)");
		return NULL;
	}
	stores = json_object_new_array();
	for (i = 0; i < nr; i++) {
		store = ctl_store_read(entries[i]->d_name);
		if (store)	/* NULL: destroyed in the meantime */
			json_object_array_add(stores, store);
		free(entries[i]);
	}
	free(entries);
	return stores;
}

/* Finds the store with @text as its uuid or given name.  @name: out, of its node. */
static bool find_store(const char *text, char *name)
{
	static const char *const kinds[] = { "uuid", "name" };
	char store[256], path[5 + LSMEM_NAME_BYTES];
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		snprintf(store, sizeof(store), "%s:%s", kinds[i], text);
		if (!lsm_path(store, path, sizeof(path))) {
			strcpy(name, path + 5);		/* behind /dev/ */
			return true;
		}
	}
	return false;
}

/**
 * ctl_store_name() - get the name of a store's node from the command line
 * @text: name of the node such as lsmem1, given name, uuid, or a path of these in /dev
 * @name: out, LSMEM_NAME_BYTES: name of the node, or the last part of @text if no store is found;
 *	ctl_store_exists() tells
 *
 * Return: false when an error has been printed.
 */
bool ctl_store_name(const char *text, char *name)
{
	static const char *const places[] = { "lsmem-by-name/", "lsmem-by-uuid/" };
	const char *base = strncmp(text, "/dev/", 5) ? text : text + 5;
	char path[256];
	size_t i;

	for (i = 0; base != text && i < sizeof(places) / sizeof(*places); i++)
		if (!strncmp(base, places[i], strlen(places[i])))
			base += strlen(places[i]);
	memset(name, 0, LSMEM_NAME_BYTES);
	if (!*base || *base == '.' || strchr(base, '/') ||
	    (base == text + 5 && !is_store(base))) {
		ctl_error("'%s' is not a store: write lsmem1, lsmemb0 or /dev/lsmem1, its given name or its uuid",
			  text);
		return false;
	}
	snprintf(path, sizeof(path), SYSFS "/%s", base);
	if (ctl_module_loaded() && access(path, F_OK) && find_store(base, name))
		return true;
	if (strlen(base) >= LSMEM_NAME_BYTES) {
		ctl_error("%s: no such store (lsmemctl list shows them)", base);
		return false;
	}
	memcpy(name, base, strlen(base));
	return true;
}

/**
 * ctl_module_loaded - check whether the module is loaded
 */
bool ctl_module_loaded(void)
{
	return !access(SYSFS, F_OK);
}

/**
 * ctl_store_exists - check whether a store exists
 * @name: of its node
 *
 * Return: false when an error has been printed.
 */
bool ctl_store_exists(const char *name)
{
	char path[256];

	if (!ctl_module_loaded()) {
		ctl_error("%s: the module is not loaded (modprobe lsmem)", name);
		return false;
	}
	snprintf(path, sizeof(path), SYSFS "/%s", name);
	if (access(path, F_OK)) {
		ctl_error("%s: no such store (lsmemctl list shows them)", name);
		return false;
	}
	return true;
}

/**
 * ctl_store_names() - get the names of stores from the command line, after all options
 * @argc: of the command
 * @argv: of the command
 * @names: out: array of the nodes' names; NULL: no store is named, which means all
 *
 * Return: an exit code; an error has been printed if it is not CTL_OK.  The caller puts @names in
 * any case.
 */
int ctl_store_names(int argc, char **argv, struct json_object **names)
{
	char name[LSMEM_NAME_BYTES];

	*names = NULL;
	for (; optind < argc; optind++) {
		if (!ctl_store_name(argv[optind], name))
			return CTL_USAGE;
		if (!ctl_store_exists(name))
			return CTL_FAILED;
		if (!*names)
			*names = json_object_new_array();
		json_object_array_add(*names, json_object_new_string(name));
	}
	return CTL_OK;
}

/**
 * ctl_stores_named - take a snapshot of stores
 * @names: of ctl_store_names(); NULL: all stores
 *
 * Return: an array of objects of ctl_store_read(); a store that does not exist is left out; NULL: the
 * module has just been unloaded, and an error has been printed.
 */
struct json_object *ctl_stores_named(struct json_object *names)
{
	struct json_object *stores, *store;
	size_t i;

	if (!names)
		return ctl_module_loaded() ? ctl_stores_read() : json_object_new_array();
	stores = json_object_new_array();
	for (i = 0; i < json_object_array_length(names); i++) {
		store = ctl_store_read(json_object_get_string(json_object_array_get_idx(names, i)));
		if (store)
			json_object_array_add(stores, store);
	}
	return stores;
}

/**
 * ctl_store_before - find a store in an earlier snapshot
 * @before: of ctl_stores_named(); NULL: there is none
 * @store: the store in the present snapshot
 *
 * Return: the store in @before, with no reference for the caller; NULL: it is not there, or another
 * store had its name.
 */
struct json_object *ctl_store_before(struct json_object *before, struct json_object *store)
{
	struct json_object *found = ctl_find_row(before, "name", ctl_word(store, "name"));

	return found && !strcmp(ctl_word(found, "uuid"), ctl_word(store, "uuid")) ? found : NULL;
}

/**
 * ctl_open_attribute() - open a sysfs file of a store
 * @name: from ctl_store_name()
 * @attribute: path of the file below the directory of the store
 * @flags: of open()
 *
 * Return: a descriptor, or -1 with errno set.
 */
int ctl_open_attribute(const char *name, const char *attribute, int flags)
{
	char path[256];

	snprintf(path, sizeof(path), SYSFS "/%s/%s", name, attribute);
	return open(path, flags | O_CLOEXEC);
}

/**
 * ctl_open_control - open /dev/lsmem-control
 *
 * Return: a descriptor; -1: an error has been printed.
 */
int ctl_open_control(void)
{
	int fd = open(CONTROL, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	if (errno == ENOENT || errno == ENODEV || errno == ENXIO)
		ctl_error(CONTROL " does not exist: the module is not loaded (modprobe lsmem)");
	else if (errno == EACCES || errno == EPERM)
		ctl_error(CONTROL ": not permitted: only root can create and destroy stores");
	else
		ctl_system_error(errno, CONTROL);
	return -1;
}

/**
 * ctl_open_store - open a store's node
 * @name: of its node
 * @flags: as open(2)
 *
 * Return: a descriptor; -1: an error has been printed.
 */
int ctl_open_store(const char *name, int flags)
{
	char path[256];
	int fd;

	if (!ctl_store_exists(name))
		return -1;
	snprintf(path, sizeof(path), "/dev/%s", name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		ctl_system_error(errno, "%s", path);
	return fd;
}
