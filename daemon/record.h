/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What this host remembers of a configuration's store: its uuid, in a file of the state
 * directory that is named after the configuration.  A start compares it with what is on the
 * backups, so that an empty store, or another one, never stands in for one that is missing.
 *
 * The file is written before a backup is formatted (state = formatting) and after that
 * (state = ready): a formatting that was cut off can be repeated, one that ended cannot.
 * Each write replaces the whole file and is durable when the call returns.
 */
#ifndef LSMEMD_RECORD_H
#define LSMEMD_RECORD_H

#include <limits.h>
#include <stdbool.h>

#define RECORD_DIRECTORY	"/var/lib/lsmem"
#define RECORD_UUID_BYTES	37u

/**
 * struct record - what a file says
 * @path: of the file
 * @there: it exists; else what follows is empty
 * @ready: the store was formatted; false: a formatting has begun and its end is not recorded
 * @uuid: of the store, as text
 * @name: that the store had in the kernel, "" if it is not known
 * @where: its backups when they were last used, in words
 */
struct record {
	char path[PATH_MAX];
	bool there, ready;
	char uuid[RECORD_UUID_BYTES];
	char name[32];
	char where[PATH_MAX];
};

int record_read(struct record *record, const char *directory, const char *config);
int record_write(struct record *record, const char *uuid, const char *name, const char *where,
		 bool ready);

#endif
