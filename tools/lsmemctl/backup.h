/* SPDX-License-Identifier: GPL-2.0 */
/* lsmemctl: access to backups by the recovery code of the daemon.  See backup.c. */
#ifndef LSMEMCTL_BACKUP_H
#define LSMEMCTL_BACKUP_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "recover/recover.h"

/**
 * struct ctl_backup - an open and locked backup file or device
 * @path: path of the backup
 * @fd: file descriptor of the backup; holds the lock
 * @env: for recover_new()
 * @reports: reports of the recovery code: a JSON array of {"severity", "text"}
 * @progress: print the progress on standard error; true if that is a terminal
 * @percent: progress printed last
 */
struct ctl_backup {
	const char *path;
	int fd;
	struct recover_env env;
	struct json_object *reports;
	bool progress;
	unsigned int percent;
};

bool ctl_backup_open(struct ctl_backup *backup, const char *path, bool writable);
void ctl_backup_close(struct ctl_backup *backup);
int ctl_backup_blank(struct ctl_backup *backup, bool *blank);
int ctl_backup_wipe(struct ctl_backup *backup);
bool ctl_backup_create(const char *path, uint64_t bytes);
void ctl_describe_super(struct json_object *object, const struct recover *recover);
void ctl_print_reports(const struct ctl_backup *backup);

#endif
