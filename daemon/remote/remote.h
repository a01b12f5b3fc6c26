/* SPDX-License-Identifier: GPL-2.0 */
/* The make of backups (backup/backup.h) that another host keeps, reached by RDMA. */
#ifndef LSMEMD_REMOTE_H
#define LSMEMD_REMOTE_H

#include "backup/backup.h"

extern const struct backup_make remote_backup_make;

#endif
