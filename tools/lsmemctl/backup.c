// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl: access to backups, for the commands check and format.
 *
 * The recovery code of the daemon does the work (daemon/recover/recover.h).  This file implements
 * the I/O that this code needs.  It takes the lock that daemons take, on the file description that
 * does the I/O: shared for check, exclusive for format.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup.h"
#include "ctl.h"
#include "backup/stacked.h"

#define ZERO_BYTES	(1u << 20)
#define END_BYTES	(1u << 20)	/* at each end; a blank backup holds nothing there */
#define UDEV_STEPS	250
#define UDEV_STEP_US	20000

static int backup_read(void *context, uint64_t offset, void *data, uint32_t length)
{
	struct ctl_backup *backup = context;
	uint32_t done = 0;

	while (done < length) {
		ssize_t got = pread(backup->fd, (char *)data + done, length - done,
				    (off_t)(offset + done));

		if (got > 0)
			done += (uint32_t)got;
		else if (!got)
			return -ENODATA;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static int write_all(int fd, uint64_t offset, const void *data, size_t length)
{
	size_t done = 0;

	while (done < length) {
		ssize_t put = pwrite(fd, (const char *)data + done, length - done,
				     (off_t)(offset + done));

		if (put > 0)
			done += (size_t)put;
		else if (!put)
			return -ENOSPC;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static int backup_write(void *context, uint64_t offset, const void *data, uint32_t length)
{
	struct ctl_backup *backup = context;

	return write_all(backup->fd, offset, data, length);
}

static int backup_flush(void *context, uint32_t slot)
{
	struct ctl_backup *backup = context;

	(void)slot;
	return fdatasync(backup->fd) ? -errno : 0;
}

static void backup_report(void *context, enum recover_severity severity, const char *text)
{
	struct ctl_backup *backup = context;
	struct json_object *report = json_object_new_object();

	json_object_object_add(report, "severity", json_object_new_string(
		severity == RECOVER_DAMAGE ? "damage" : "info"));
	json_object_object_add(report, "text", json_object_new_string(text));
	json_object_array_add(backup->reports, report);
}

static void backup_progress(void *context, uint64_t done, uint64_t all)
{
	struct ctl_backup *backup = context;
	unsigned int percent = all ? (unsigned int)(done * 100 / all) : 100;

	if (!backup->progress || percent == backup->percent)
		return;
	backup->percent = percent;
	fprintf(stderr, "\r%3u %%%s", percent, percent == 100 ? "\r     \r" : "");
}

static int backup_bytes(int fd, const struct stat *status, uint64_t *bytes)
{
	if (S_ISBLK(status->st_mode))
		return ioctl(fd, BLKGETSIZE64, bytes) ? -errno : 0;
	if (!S_ISREG(status->st_mode))
		return -ENOTBLK;
	*bytes = (uint64_t)status->st_size;
	return 0;
}

/*
 * udev reads a drive that was open for writing and is closed, under a shared lock: an exclusive one
 * waits for it.  A running lsmemd has the drive open with O_EXCL, so it is never waited for.
 */
static bool hold(int fd, const struct stat *status, const char *path, bool writable)
{
	int steps = writable && S_ISBLK(status->st_mode) ? UDEV_STEPS : 0;
	char via[256];
	int ret;

	while ((ret = flock(fd, (writable ? LOCK_EX : LOCK_SH) | LOCK_NB)) && errno == EWOULDBLOCK &&
	       steps--)
		usleep(UDEV_STEP_US);
	if (ret) {
		if (errno == EWOULDBLOCK && writable && S_ISBLK(status->st_mode))
			ctl_error("%s is locked by another process: lslocks names it", path);
		else if (errno == EWOULDBLOCK)
			ctl_error("%s is held by a running lsmemd: stop it first (systemctl stop lsmemd)",
				  path);
		else
			ctl_system_error(errno, "%s: lock", path);
		return false;
	}
	if (writable && stacked_on_lsmem(fd, via, sizeof(via))) {
		ctl_error("%s lies on %s: a backup on lsmem itself would wait for itself", path,
			  via);
		return false;
	}
	return true;
}

/**
 * ctl_backup_open() - open and lock a backup
 * @backup: out
 * @path: block device or file
 * @writable: open for writing, with an exclusive lock
 *
 * Return: false when an error has been printed.
 */
bool ctl_backup_open(struct ctl_backup *backup, const char *path, bool writable)
{
	int flags = (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_DIRECT;
	struct stat status;
	int ret;

	memset(backup, 0, sizeof(*backup));
	backup->path = path;
	if (stat(path, &status)) {
		ctl_system_error(errno, "%s", path);
		return false;
	}
	/* O_EXCL on a device: open() fails while the device is mounted. */
	if (writable && S_ISBLK(status.st_mode))
		flags |= O_EXCL;
	backup->fd = open(path, flags);
	if (backup->fd < 0 && errno == EINVAL)	/* a filesystem without direct I/O */
		backup->fd = open(path, flags & ~O_DIRECT);
	if (backup->fd < 0) {
		if (errno == EBUSY)
			ctl_error("%s is mounted, or held by a running lsmemd", path);
		else
			ctl_system_error(errno, "%s", path);
		return false;
	}
	if (!hold(backup->fd, &status, path, writable))
		goto fail;
	ret = backup_bytes(backup->fd, &status, &backup->env.backup_bytes[0]);
	if (ret == -ENOTBLK) {
		ctl_error("%s is neither a block device nor a file", path);
		goto fail;
	}
	if (ret) {
		ctl_system_error(-ret, "%s: cannot get its size", path);
		goto fail;
	}
	backup->env.backup_bytes[0] &= ~(uint64_t)(LSMEM_BLOCK - 1);
	backup->reports = json_object_new_array();
	backup->progress = isatty(STDERR_FILENO);
	backup->percent = 100;
	backup->env.context = backup;
	backup->env.read = backup_read;
	backup->env.write = backup_write;
	backup->env.flush = backup_flush;
	backup->env.report = backup_report;
	backup->env.progress = backup_progress;
	return true;
fail:
	close(backup->fd);
	return false;
}

/**
 * ctl_backup_close - undo ctl_backup_open()
 * @backup: open; not used afterwards
 */
void ctl_backup_close(struct ctl_backup *backup)
{
	close(backup->fd);
	json_object_put(backup->reports);
}

/**
 * ctl_backup_create() - make a file of zeroes
 * @path: of the file, which must not exist
 * @bytes: size of the file
 *
 * The file is not sparse, so that later writes change only data of the filesystem, no metadata.
 * Return: false when an error has been printed; then the file does not exist.
 */
bool ctl_backup_create(const char *path, uint64_t bytes)
{
	uint64_t done = 0;
	void *zeroes;
	int fd, ret = 0;

	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		ctl_system_error(errno, "%s", path);
		return false;
	}
	zeroes = calloc(1, ZERO_BYTES);
	if (!zeroes)
		ret = -ENOMEM;
	while (!ret && done < bytes) {
		size_t piece = bytes - done < ZERO_BYTES ? (size_t)(bytes - done) : ZERO_BYTES;

		ret = write_all(fd, done, zeroes, piece);
		done += piece;
	}
	free(zeroes);
	if (!ret && fsync(fd))
		ret = -errno;
	if (close(fd) && !ret)
		ret = -errno;
	if (!ret)
		return true;
	ctl_system_error(-ret, "%s", path);
	unlink(path);
	return false;
}

static uint32_t end_length(const struct ctl_backup *backup)
{
	return backup->env.backup_bytes[0] < END_BYTES ? (uint32_t)backup->env.backup_bytes[0] : END_BYTES;
}

/**
 * ctl_backup_blank() - check whether a backup is blank
 * @backup: open
 * @blank: out
 *
 * A backup is blank if format_is_blank() is true for all blocks of END_BYTES at each end.  That a
 * superblock is missing is not enough: some filesystems and RAIDs do not use the first blocks.
 * lsmemd makes the same check before it formats a backup.
 *
 * Return: 0 or a negative errno.
 */
int ctl_backup_blank(struct ctl_backup *backup, bool *blank)
{
	uint32_t length = end_length(backup), i;
	uint8_t *data;
	int ret = 0, end;

	if (posix_memalign((void **)&data, LSMEM_BLOCK, END_BYTES))
		return -ENOMEM;
	*blank = true;
	for (end = 0; end < 2 && !ret && *blank; end++) {
		ret = backup_read(backup, end ? backup->env.backup_bytes[0] - length : 0, data, length);
		for (i = 0; i < length && !ret && *blank; i += LSMEM_BLOCK)
			*blank = format_is_blank(data + i);
	}
	free(data);
	return ret;
}

/**
 * ctl_backup_wipe() - make a backup blank: write zeroes to both ends, over the superblocks last
 * @backup: open for writing
 *
 * Return: 0 or a negative errno.
 */
int ctl_backup_wipe(struct ctl_backup *backup)
{
	uint32_t length = end_length(backup);
	void *zeroes;
	int ret;

	if (posix_memalign(&zeroes, LSMEM_BLOCK, END_BYTES))
		return -ENOMEM;
	memset(zeroes, 0, END_BYTES);
	ret = backup_write(backup, backup->env.backup_bytes[0] - length, zeroes, length);
	if (!ret)
		ret = backup_flush(backup, 0);
	if (!ret)
		ret = backup_write(backup, 0, zeroes, length);
	if (!ret)
		ret = backup_flush(backup, 0);
	free(zeroes);
	return ret;
}

static void add_hex(struct json_object *object, const char *key, const uint8_t *bytes, size_t nr)
{
	char text[64];
	size_t i, at = 0;

	for (i = 0; i < nr; i++) {
		if (nr == LSMEM_UUID_BYTES && (i == 4 || i == 6 || i == 8 || i == 10))
			text[at++] = '-';
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%02x", bytes[i]);
	}
	json_object_object_add(object, key, json_object_new_string(text));
}

/**
 * ctl_describe_super() - add the fields of a superblock to a JSON object
 * @object: gets the fields
 * @recover: recover_open() found RECOVER_FULL
 */
void ctl_describe_super(struct json_object *object, const struct recover *recover)
{
	const struct lsmem_super *super = recover_super(recover);
	char text[32];

	add_hex(object, "uuid", super->uuid, LSMEM_UUID_BYTES);
	snprintf(text, sizeof(text), "%016llx",
		 (unsigned long long)__le64_to_cpu(super->incarnation));
	json_object_object_add(object, "incarnation", json_object_new_string(text));
	json_object_object_add(object, "kind", json_object_new_string(
		__le32_to_cpu(super->kind) == LSMEM_KIND_BLOCK ? "block" : "object"));
	ctl_add_number(object, "store_bytes", (int64_t)__le64_to_cpu(super->store_bytes));
	if (super->capacity)
		ctl_add_number(object, "capacity", (int64_t)__le64_to_cpu(super->capacity));
	if (super->code) {
		snprintf(text, sizeof(text), "%u+%u", lsmem_code_k(__le32_to_cpu(super->code)),
			 lsmem_code_m(__le32_to_cpu(super->code)));
		json_object_object_add(object, "code", json_object_new_string(text));
	}
	ctl_add_number(object, "max_handles", (int64_t)__le64_to_cpu(super->max_handles));
	ctl_add_number(object, "frames", (int64_t)__le64_to_cpu(super->frames));
}

/**
 * ctl_print_reports - print the reports of the recovery code on standard error
 * @backup: has the reports; reports of damage are printed as errors
 */
void ctl_print_reports(const struct ctl_backup *backup)
{
	size_t i;

	for (i = 0; i < json_object_array_length(backup->reports); i++) {
		struct json_object *report = json_object_array_get_idx(backup->reports, i);
		const char *severity = json_object_get_string(ctl_find(report, "severity"));
		const char *text = json_object_get_string(ctl_find(report, "text"));

		if (!strcmp(severity, "damage"))
			ctl_error("%s: %s", backup->path, text);
		else
			fprintf(stderr, "%s: %s\n", backup->path, text);
	}
}
