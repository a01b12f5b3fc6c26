// SPDX-License-Identifier: GPL-2.0
/* The file that remembers which store a configuration serves: see record.h. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "record.h"

#define SUFFIX		".store"
#define LINE_BYTES	(PATH_MAX + 32)

/* Set the path of the record: DIRECTORY/NAME.store for the configuration .../NAME.conf. */
static int record_name(struct record *record, const char *directory, const char *config)
{
	char copy[PATH_MAX];
	const char *base;
	size_t length;
	int n;

	if (strlen(config) >= sizeof(copy))
		return -ENAMETOOLONG;
	strcpy(copy, config);
	base = basename(copy);
	length = strlen(base);
	if (length > 5 && !strcmp(base + length - 5, ".conf"))
		length -= 5;
	/* systemd gives a list with colons if a unit has several directories: use the first. */
	n = snprintf(record->path, sizeof(record->path), "%.*s/%.*s" SUFFIX,
		     (int)strcspn(directory, ":"), directory, (int)length, base);
	return n < 0 || n + 8 > (int)sizeof(record->path) ? -ENAMETOOLONG : 0;
}

/* Return: the value of a line "key = value"; NULL: the line has another key. */
static const char *value_of(char *line, const char *key)
{
	size_t n = strlen(key);

	line[strcspn(line, "\n")] = 0;
	return !strncmp(line, key, n) && !strncmp(line + n, " = ", 3) ? line + n + 3 : NULL;
}

static bool take_line(struct record *record, char *line, bool *state)
{
	const char *value;

	value = value_of(line, "uuid");
	if (value && strlen(value) == RECORD_UUID_BYTES - 1) {
		strcpy(record->uuid, value);
		return true;
	}
	value = value_of(line, "state");
	if (value && (!strcmp(value, "ready") || !strcmp(value, "formatting"))) {
		record->ready = !strcmp(value, "ready");
		*state = true;
		return true;
	}
	value = value_of(line, "name");
	if (value && strlen(value) < sizeof(record->name)) {
		strcpy(record->name, value);
		return true;
	}
	value = value_of(line, "backups");
	if (value && strlen(value) < sizeof(record->where)) {
		strcpy(record->where, value);
		return true;
	}
	return !*line || *line == '#';
}

/**
 * record_read - read the record of a configuration's store
 * @record: out
 * @directory: of the records; of a list with colons the first
 * @config: path of the configuration
 *
 * Logs errors.
 *
 * Context: may sleep; before the store is active.
 * Return: 0, also if there is no record; -EBADMSG: the file is not valid; or another negative
 * errno.
 */
int record_read(struct record *record, const char *directory, const char *config)
{
	bool sound = true, state = false;
	char line[LINE_BYTES];
	FILE *f;
	int err;

	memset(record, 0, sizeof(*record));
	err = record_name(record, directory, config);
	if (err) {
		log_err("%s: the name of its record is too long", config);
		return err;
	}
	f = fopen(record->path, "re");
	if (!f) {
		err = -errno;
		if (err == -ENOENT || err == -ENOTDIR)
			return 0;
		log_err("%s: cannot be opened: %s", record->path, strerror(-err));
		return err;
	}
	while (sound && fgets(line, sizeof(line), f))
		sound = take_line(record, line, &state);
	err = ferror(f) ? -EIO : 0;
	fclose(f);
	if (err) {
		log_err("%s: cannot be read: %s", record->path, strerror(-err));
		return err;
	}
	if (sound && state && *record->uuid) {
		record->there = true;
		return 0;
	}
	log_err("%s: is not a record of lsmemd, or damaged; lsmemd --check tells the uuid of what the backups hold: if that is the right store, remove the file",
		record->path);
	return -EBADMSG;
}

static int write_text(int fd, const struct record *record)
{
	FILE *f = fdopen(fd, "w");
	int err = 0;

	if (!f) {
		err = -errno;
		close(fd);
		return err;
	}
	fprintf(f, "# Written by lsmemd: see lsmemd(8), FILES.\nuuid = %s\nstate = %s\n",
		record->uuid, record->ready ? "ready" : "formatting");
	if (*record->name)
		fprintf(f, "name = %s\n", record->name);
	fprintf(f, "backups = %s\n", record->where);
	if (fflush(f) || fsync(fd))
		err = -errno;
	fclose(f);
	return err;
}

/* Open the directory of a record for fsync(), and create it if needed. */
static int open_directory(const char *path)
{
	char copy[PATH_MAX];
	const char *directory;
	int fd;

	strcpy(copy, path);
	directory = dirname(copy);
	if (mkdir(directory, 0755) && errno != EEXIST)
		return -errno;
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/**
 * record_write - record a store
 * @record: from record_read(); out: the new record
 * @uuid: of the store, as text
 * @name: the store's node in the kernel; "": none yet
 * @where: its backups, as text
 * @ready: the backups are formatted
 *
 * The old file stays until the new one is durable. After the call the change is durable.
 *
 * Context: may sleep; before the store is active.
 * Return: 0 or a negative errno, not logged.
 */
int record_write(struct record *record, const char *uuid, const char *name, const char *where,
		 bool ready)
{
	char temporary[PATH_MAX];
	int directory, fd, err;

	snprintf(record->uuid, sizeof(record->uuid), "%s", uuid);
	snprintf(record->name, sizeof(record->name), "%s", name);
	snprintf(record->where, sizeof(record->where), "%s", where);
	record->ready = ready;
	directory = open_directory(record->path);
	if (directory < 0)
		return directory;
	snprintf(temporary, sizeof(temporary), "%.*s.new", (int)sizeof(temporary) - 5,
		 record->path);
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	err = fd < 0 ? -errno : write_text(fd, record);
	if (!err && rename(temporary, record->path))
		err = -errno;
	if (!err && fsync(directory))
		err = -errno;
	if (err && fd >= 0)
		unlink(temporary);
	close(directory);
	record->there |= !err;
	return err;
}
