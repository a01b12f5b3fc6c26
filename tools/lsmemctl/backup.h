/* SPDX-License-Identifier: GPL-2.0 */
/* lsmemctl: a backup as the daemon's recovery sees it.  See backup.c. */
#ifndef LSMEMCTL_BACKUP_H
#define LSMEMCTL_BACKUP_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "recover/recover.h"

/**
 * struct ctl_backup - a backup file or device, held against daemons
 * @path: its name
 * @fd: of it
 * @env: for recover_new()
 * @reports: array of {"severity", "text"} that recovery made
 * @progress: text on standard error, if that is a terminal
 * @percent: that it says
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
