// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: stores by their given names and uuids.
 *
 * udev has links by both, but only where udev runs, and only while the store can be used; sysfs has them of all stores.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "internal.h"

#define ATTRIBUTE_BYTES	128u	/* a given name or a uuid, and more */

/* Is @wanted in the file @attribute of the store @name? */
static bool store_has(int stores, const char *name, const char *attribute, const char *wanted)
{
	char path[ATTRIBUTE_BYTES + 256], text[ATTRIBUTE_BYTES];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", name, attribute);
	fd = openat(stores, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length < 0)
		return false;
	text[length] = 0;
	text[strcspn(text, "\n")] = 0;
	return !strcmp(text, wanted);
}

/**
 * lsm_path_in() - as lsm_path(), for tests
 * @class: directory with a directory for each store
 * @store: as there
 * @path: out
 * @size: room at @path
 *
 * Return: as there.
 */
int lsm_path_in(const char *class, const char *store, char *path, size_t size)
{
	const char *attribute = NULL, *wanted = NULL, *found = store ? store : LSM_DEFAULT_STORE;
	const struct dirent *entry;
	int length, ret = -ENOENT;
	DIR *stores;

	if (!strncmp(found, "name:", 5)) {
		attribute = "given_name";
		wanted = found + 5;
	} else if (!strncmp(found, "uuid:", 5)) {
		attribute = "uuid";
		wanted = found + 5;
	}
	if (!wanted) {
		length = snprintf(path, size, "%s", found);
		return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
	}
	if (!*wanted)	/* stores without a name have an empty one */
		return -EINVAL;
	stores = opendir(class);
	if (!stores)
		return -errno;
	while (ret == -ENOENT && (entry = readdir(stores))) {
		if (*entry->d_name == '.' || !store_has(dirfd(stores), entry->d_name, attribute, wanted))
			continue;
		length = snprintf(path, size, "/dev/%s", entry->d_name);
		ret = length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
	}
	closedir(stores);
	return ret;
}

int lsm_path(const char *store, char *path, size_t size)
{
	return lsm_path_in("/sys/class/lsmem", store, path, size);
}
