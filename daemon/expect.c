// SPDX-License-Identifier: GPL-2.0
/*
 * Which store a start expects to find (record.h), and what it does when that is not there.
 * An empty store never stands in for a missing one: a backup is formatted, and a missing
 * file created, by --init and --format only.
 *
 *	on the backups	    recorded		    start		--init
 *	nothing		    nothing		    refuse		format
 *	nothing		    formatting		    refuse		format
 *	nothing		    a store		    refuse		refuse
 *	a store		    nothing		    record, serve	refuse
 *	a store		    formatting, the same    record, serve	record
 *	a store		    the same		    serve		refuse
 *	a store		    another		    refuse		refuse
 *
 * --init ends after that; --format formats in any case, but for a store other than the
 * recorded one, which takes --force, and serves.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "lsmemd.h"

/**
 * expect_open - read what is recorded of the configuration's store
 * @d: the daemon; its options and configuration are known
 *
 * Return: a STATUS_*; one that is not STATUS_OK was said.
 */
int expect_open(struct lsmemd *d)
{
	const struct record *record = &d->record;
	int err = record_read(&d->record, d->options.state_directory, d->options.config_path);

	if (err)
		return err == -EBADMSG ? STATUS_REFUSED : STATUS_ERROR;
	if (!d->options.init || !record->there || !record->ready)
		return STATUS_OK;
	/* Before a file is created. */
	log_err("--init is for a new store, and %s records store %s, last seen on %s: start lsmemd without it; if that store is given up for good, --format makes a new one",
		record->path, record->uuid, record->where);
	return STATUS_REFUSED;
}

/* What is to be done about a store that is recorded and not there. */
static void say_recorded(const struct lsmemd *d)
{
	const struct record *record = &d->record;

	if (!record->there)
		return;
	if (!record->ready)
		log_err("%s: the formatting of store %s was cut off: start lsmemd --init again",
			record->path, record->uuid);
	else
		log_err("%s records store %s%s%s%s, last seen on %s: mount the filesystem or connect the drive that holds it, or name it in %s as it is called now; if that store is given up for good, --format makes a new one",
			record->path, record->uuid, *record->name ? " (" : "", record->name,
			*record->name ? ")" : "", record->where, d->options.config_path);
}

/**
 * expect_missing - too few backups could be opened: say what was expected of them
 * @d: the daemon
 */
void expect_missing(const struct lsmemd *d)
{
	if (d->options.init || d->options.format)
		return;
	log_notice("nothing was created or formatted");
	say_recorded(d);
}

/**
 * expect_blank - may the backups, which hold nothing, be formatted?
 * @d: the daemon
 *
 * Return: a STATUS_*; one that is not STATUS_OK was said.
 */
int expect_blank(const struct lsmemd *d)
{
	if (d->options.format || d->options.init)
		return STATUS_OK;
	if (d->record.there)
		log_err("%s: there is no store here, and nothing was formatted", d->where);
	else
		log_err("%s: there is no store here, and nothing was formatted; for a new store, start lsmemd once with --init",
			d->where);
	say_recorded(d);
	return STATUS_REFUSED;
}

/**
 * expect_store - is the store on the backups the one that is to be served?
 * @d: the daemon
 * @uuid: of the store on the backups
 *
 * Return: a STATUS_*; one that is not STATUS_OK was said.
 */
int expect_store(const struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES])
{
	const struct record *record = &d->record;
	char text[STATUS_UUID_BYTES];
	bool same;

	uuid_text(uuid, text);
	same = record->there && !strcmp(record->uuid, text);
	if (d->options.init && !same) {
		log_err("%s: holds store %s already, and --init is for a new one: start lsmemd without it; if that store is given up for good, --format makes a new one",
			d->where, text);
		return STATUS_REFUSED;
	}
	if (!record->there || same || (d->options.format && d->options.force))
		return STATUS_OK;
	log_err("%s: holds store %s, and not the one that was served from %s", d->where, text,
		d->options.config_path);
	say_recorded(d);
	log_notice("if store %s is to be served from %s from now on, remove %s", text,
		   d->options.config_path, record->path);
	return STATUS_REFUSED;
}

/**
 * expect_formatting - record a store before its backups are formatted
 * @d: the daemon
 * @uuid: of the store
 *
 * Return: a STATUS_*; one that is not STATUS_OK was said.
 */
int expect_formatting(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES])
{
	char text[STATUS_UUID_BYTES];
	int err = record_write(&d->record, uuid_text(uuid, text), d->kernel.name, d->where, false);

	if (!err)
		return STATUS_OK;
	log_err("%s: cannot be written: %s; nothing was formatted. --state-directory names another directory",
		d->record.path, strerror(-err));
	return STATUS_ERROR;
}

/**
 * expect_ready - record the store that the backups hold
 * @d: the daemon; its store is attached
 * @uuid: of the store
 *
 * A store is served without its record too: the next start takes what it finds.
 *
 * Return: a STATUS_*; one that is not STATUS_OK was said.
 */
int expect_ready(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES])
{
	struct record *record = &d->record;
	char text[STATUS_UUID_BYTES];
	int err;

	uuid_text(uuid, text);
	if (record->there && record->ready && !strcmp(record->uuid, text) &&
	    !strcmp(record->name, d->kernel.name) && !strcmp(record->where, d->where))
		return STATUS_OK;
	err = record_write(record, text, d->kernel.name, d->where, true);
	if (!err) {
		log_info("store %s is recorded in %s", text, record->path);
		return STATUS_OK;
	}
	if (d->options.init || d->options.format) {
		log_err("%s: cannot be written: %s; start lsmemd --init again", record->path,
			strerror(-err));
		return STATUS_ERROR;
	}
	log_warn("%s: cannot be written: %s; a later start cannot tell this store from another",
		 record->path, strerror(-err));
	return STATUS_OK;
}
