// SPDX-License-Identifier: GPL-2.0
/*
 * The store that a start expects (record.h), compared with the store on the backups. An empty store
 * never replaces a missing one: only --init and --format format a backup, or create a missing file.
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
 * --init then exits. --format formats and serves in all of these cases, except if the backups hold
 * another store than the recorded one: that takes --force as well.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "lsmemd.h"

/**
 * expect_open - read the record of the configuration's store
 * @d: the daemon; its options and configuration are known
 *
 * Logs errors.
 *
 * Return: a STATUS_*.
 */
int expect_open(struct lsmemd *d)
{
	const struct record *record = &d->record;
	int err = record_read(&d->record, d->options.state_directory, d->options.config_path);

	if (err)
		return err == -EBADMSG ? STATUS_REFUSED : STATUS_ERROR;
	if (!d->options.init || !record->there || !record->ready)
		return STATUS_OK;
	/* Refuse --init here, before it creates a file. */
	log_err("--init is for a new store, and %s records store %s, last seen on %s: start lsmemd without it; if that store is given up for good, --format makes a new one",
		record->path, record->uuid, record->where);
	return STATUS_REFUSED;
}

/* Log what the operator can do about a store that is recorded and missing. */
static void say_recorded(const struct lsmemd *d)
{
	const struct record *record = &d->record;

	if (!record->there)
		return;
	if (!record->ready)
		log_err("%s: the formatting of store %s was cut off: start lsmemd --init again",
			record->path, record->uuid);
	else
		log_err("%s records store %s%s%s%s, last seen on %s: mount the filesystem or connect the drive that holds it, or correct its path in %s; if that store is given up for good, --format makes a new one",
			record->path, record->uuid, *record->name ? " (" : "", record->name,
			*record->name ? ")" : "", record->where, d->options.config_path);
}

/**
 * expect_missing - log the expected store, because too few backups could be opened
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
 * expect_blank - may the blank backups be formatted?
 * @d: the daemon; all its backups are blank
 *
 * Logs why not.
 *
 * Return: STATUS_OK or STATUS_REFUSED.
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
 * expect_store - may the store on the backups be served, or formatted?
 * @d: the daemon
 * @uuid: of the store on the backups
 *
 * Logs why not.
 *
 * Return: STATUS_OK or STATUS_REFUSED.
 */
int expect_store(const struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES])
{
	const struct record *record = &d->record;
	char text[UUID_TEXT_BYTES];
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
 * Logs errors.
 *
 * Return: a STATUS_*.
 */
int expect_formatting(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES])
{
	char text[UUID_TEXT_BYTES];
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
 * Logs errors. The daemon serves the store even if it cannot be recorded.
 *
 * Return: STATUS_OK; STATUS_ERROR: it cannot be recorded after --init or --format.
 */
int expect_ready(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES])
{
	struct record *record = &d->record;
	char text[UUID_TEXT_BYTES];
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
