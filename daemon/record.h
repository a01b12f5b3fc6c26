/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The record of a configuration's store on this host: its uuid, in a file of the state directory
 * with the name of the configuration. A start compares the record with the backups, so that an
 * empty or another store never replaces a missing one.
 *
 * The file is written before a backup is formatted (state = formatting) and afterwards (state =
 * ready): an interrupted formatting can be repeated, a complete one cannot. Each write replaces the
 * whole file and is durable when the call returns.
 */
#ifndef LSMEMD_RECORD_H
#define LSMEMD_RECORD_H

#include <limits.h>
#include <stdbool.h>

#define RECORD_DIRECTORY	"/var/lib/lsmem"
#define RECORD_UUID_BYTES	37u

/**
 * struct record - the record of a store
 * @path: of the file
 * @there: the file exists; if not, the other members are empty
 * @ready: the store was formatted; false: a formatting has begun and was not completed
 * @uuid: of the store, as text
 * @name: last node of the store in the kernel; "": not known
 * @where: its backups when they were last used, as text
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
