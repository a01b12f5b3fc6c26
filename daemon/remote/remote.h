/* SPDX-License-Identifier: GPL-2.0 */
/* Backups on other hosts, as their user sees them: a make of backups (backup/backup.h). */
#ifndef LSMEMD_REMOTE_H
#define LSMEMD_REMOTE_H

#include "backup/backup.h"

extern const struct backup_make remote_backup_make;

#endif
