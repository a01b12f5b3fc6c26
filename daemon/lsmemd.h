/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The program: its parts in the order of its life.  As a server of backups it
 * does none of this but its options: see server.h.
 *
 *	main.c		options, preparations, the end
 *	start.c		which store, which backup, do they belong together
 *	restore.c	a backup brought up (recover.h) by the loop's I/O
 *	serve.c		the steady state (core.h), until a signal or a failure
 *
 * Below them, knowing nothing of them: config, backup, kernel, loop, signals,
 * status, metrics, http, log, notify.
 */
#ifndef LSMEMD_LSMEMD_H
#define LSMEMD_LSMEMD_H

#include <stdbool.h>

#include "backup.h"
#include "clean.h"
#include "config.h"
#include "core.h"
#include "http.h"
#include "kernel.h"
#include "loop.h"
#include "recover.h"
#include "signals.h"
#include "status.h"

/* Exit statuses, as lsmemd(8) tells them. */
enum {
	STATUS_OK	= 0,
	STATUS_ERROR	= 1,
	STATUS_USAGE	= 2,
	STATUS_LOST	= 3,
	STATUS_BUSY	= 4,
	STATUS_REFUSED	= 5,
	STATUS_BACKUP	= 6,
	STATUS_DRAIN	= 7,
};

struct options {
	const char *config_path;
	const char *status_file;
	unsigned int drain;
	unsigned int verbose;
	bool check_config, check;
	bool accept_loss, take_over;
	bool format, force;
};

/**
 * struct lsmemd - one daemon, one store, one backup
 * @control: the module's control device, -1 if it is not open
 * @created: the store was made by this start and holds nothing yet: a start
 *	that fails destroys it
 * @core: the state machine, NULL before start() has succeeded
 * @candidates: for clean_choose(), one for each segment that the kernel shows
 */
struct lsmemd {
	struct options options;
	struct config config;
	struct loop loop;
	struct signals signals;
	struct backup backup;
	struct status status;
	struct http http;
	struct kernel kernel;
	int control;
	bool created;
	struct core *core;
	struct lsmem_candidate *candidates;
};

void restore_env(struct lsmemd *d, struct recover_env *env);
int restore_blank(struct lsmemd *d, bool *blank);
int restore_wipe(struct lsmemd *d);

int start(struct lsmemd *d);
int check(struct lsmemd *d);
int prepare(struct lsmemd *d);
int serve(struct lsmemd *d);

#endif
