// SPDX-License-Identifier: GPL-2.0
/* Finds backups on lsmem itself: see stacked.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "stacked.h"

#define DEPTH_MAX 16	/* deeper stacks do not exist; ends a circle */

struct walk {
	char *via;	/* out: path of the lsmem device found */
	size_t room;	/* bytes at @via */
	unsigned int depth;	/* layers above the present one */
};

static bool device_stacked(struct walk *walk, dev_t dev);
static bool path_stacked(struct walk *walk, const char *path);
static bool fd_stacked(struct walk *walk, int fd);

/* Read the first line of a file, without its newline. Return: false if there is none. */
static bool read_line(const char *path, char *line, size_t room)
{
	FILE *f = fopen(path, "re");
	bool ok;

	if (!f)
		return false;
	ok = fgets(line, (int)room, f) != NULL;
	fclose(f);
	if (ok)
		line[strcspn(line, "\n")] = 0;
	return ok;
}

/* Read the device number from the "dev" file of a sysfs directory. */
static bool read_dev(const char *directory, const char *name, dev_t *dev)
{
	char path[PATH_MAX], line[64];
	unsigned int major, minor;
	int n;

	n = snprintf(path, sizeof(path), "%s/%s%sdev", directory, name, *name ? "/" : "");
	if (n < 0 || n >= (int)sizeof(path) || !read_line(path, line, sizeof(line)) ||
	    sscanf(line, "%u:%u", &major, &minor) != 2)
		return false;
	*dev = makedev(major, minor);
	return true;
}

static bool major_is_lsmem(unsigned int major)
{
	bool block = false, found = false;
	char line[128], name[64];
	unsigned int n;
	FILE *f = fopen("/proc/devices", "re");

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "Block devices:", 14))
			block = true;
		else if (block && sscanf(line, "%u %63s", &n, name) == 2 && n == major &&
			 !strncmp(name, "lsmem", 5))
			found = true;
	}
	fclose(f);
	return found;
}

/* Check each device in a sysfs directory of links to devices. */
static bool directory_stacked(struct walk *walk, const char *path)
{
	struct dirent *entry;
	bool found = false;
	dev_t dev;
	DIR *d;

	d = opendir(path);
	if (!d)
		return false;
	while (!found && (entry = readdir(d)))
		if (entry->d_name[0] != '.' && read_dev(path, entry->d_name, &dev))
			found = device_stacked(walk, dev);
	closedir(d);
	return found;
}

static bool device_stacked(struct walk *walk, dev_t dev)
{
	char sys[PATH_MAX], path[PATH_MAX + 32], line[PATH_MAX];
	bool found = false;
	char *name;
	dev_t whole;

	if (walk->depth++ >= DEPTH_MAX)
		return false;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(dev), minor(dev));
	if (!realpath(path, sys))
		goto out;
	name = strrchr(sys, '/') + 1;
	if (!strncmp(name, "lsmem", 5) || major_is_lsmem(major(dev))) {
		snprintf(walk->via, walk->room, "/dev/%s", name);
		found = true;
		goto out;
	}
	snprintf(path, sizeof(path), "%s/slaves", sys);
	found = directory_stacked(walk, path);
	if (found)
		goto out;
	snprintf(path, sizeof(path), "%s/loop/backing_file", sys);
	if (read_line(path, line, sizeof(line)))
		found = path_stacked(walk, line);
	snprintf(path, sizeof(path), "%s/backing_dev", sys);
	if (!found && read_line(path, line, sizeof(line)) && line[0] == '/')
		found = path_stacked(walk, line);
	snprintf(path, sizeof(path), "%s/partition", sys);
	if (!found && !access(path, F_OK) && read_dev(dirname(sys), "", &whole))
		found = device_stacked(walk, whole);
out:
	walk->depth--;
	return found;
}

static bool path_stacked(struct walk *walk, const char *path)
{
	int fd = open(path, O_PATH | O_CLOEXEC);
	bool found;

	if (fd < 0)
		return false;
	found = fd_stacked(walk, fd);
	close(fd);
	return found;
}

/* Check all devices of the btrfs filesystem that @dev belongs to. */
static bool btrfs_stacked(struct walk *walk, dev_t dev)
{
	char path[PATH_MAX], sys[64], name[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *d;

	snprintf(sys, sizeof(sys), "/sys/dev/block/%u:%u", major(dev), minor(dev));
	if (!realpath(sys, name))
		return false;
	d = opendir("/sys/fs/btrfs");
	if (!d)
		return false;
	while (!found && (entry = readdir(d))) {
		snprintf(path, sizeof(path), "/sys/fs/btrfs/%s/devices/%s", entry->d_name,
			 strrchr(name, '/') + 1);
		if (access(path, F_OK))
			continue;
		*strrchr(path, '/') = 0;
		found = directory_stacked(walk, path);
	}
	closedir(d);
	return found;
}

/* A filesystem whose device number is no block device: check the source of its mount. */
static bool mount_stacked(struct walk *walk, int fd)
{
	char path[64], type[64], source[PATH_MAX], options[PATH_MAX], *line = NULL, *tail, *upper;
	bool found = false;
	size_t room = 0;
	int want = -1, id;
	struct stat st;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (getline(&line, &room, f) >= 0)
		if (sscanf(line, "mnt_id: %d", &id) == 1)
			want = id;
	fclose(f);
	f = fopen("/proc/self/mountinfo", "re");
	if (!f)
		goto out;
	while (getline(&line, &room, f) >= 0) {
		if (sscanf(line, "%d", &id) != 1 || id != want)
			continue;
		tail = strstr(line, " - ");
		if (!tail || sscanf(tail, " - %63s %4095s %4095s", type, source, options) != 3)
			break;
		upper = !strcmp(type, "overlay") ? strstr(options, "upperdir=") : NULL;
		if (upper) {
			upper += strlen("upperdir=");
			upper[strcspn(upper, ",")] = 0;
			found = path_stacked(walk, upper);
		} else if (!stat(source, &st) && S_ISBLK(st.st_mode)) {
			found = device_stacked(walk, st.st_rdev) ||
				(!strcmp(type, "btrfs") && btrfs_stacked(walk, st.st_rdev));
		}
		break;
	}
	fclose(f);
out:
	free(line);
	return found;
}

static bool fd_stacked(struct walk *walk, int fd)
{
	struct stat st;
	bool found;
	char path[64];

	if (walk->depth++ >= DEPTH_MAX)
		return false;
	found = false;
	if (fstat(fd, &st))
		goto out;
	if (S_ISBLK(st.st_mode)) {
		found = device_stacked(walk, st.st_rdev);
		goto out;
	}
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
	if (!access(path, F_OK))
		found = device_stacked(walk, st.st_dev);
	else
		found = mount_stacked(walk, fd);
out:
	walk->depth--;
	return found;
}

/**
 * stacked_on_lsmem - search all layers below a device or file for an lsmem device
 * @fd: an open block device, file or directory
 * @via: out: path of the lsmem device found
 * @room: bytes at @via
 *
 * Return: whether there is one.
 */
bool stacked_on_lsmem(int fd, char *via, size_t room)
{
	struct walk walk = { .via = via, .room = room };

	return fd_stacked(&walk, fd);
}
