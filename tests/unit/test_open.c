// SPDX-License-Identifier: GPL-2.0
/*
 * A daemon that starts before its backups, or before the way to them: daemon/open.c with backups
 * that fail to open, for each error.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "lsmemd.h"
#include "../common/tap.h"

#define FAILURES	2u

uint64_t lsmem_mutation;

/* The next openings of backups: @failures of them fail with @error. */
static struct {
	unsigned int opened, closed, failures;
	int error;
} drive;

/* None of these tests reads it beside its holder first. */
int backup_hold(struct backup *backup, const struct backup_options *options)
{
	(void)backup;
	(void)options;
	return -EOPNOTSUPP;
}

int backup_open(struct backup *backup, struct loop *loop, const struct backup_options *options)
{
	(void)loop;
	(void)options;
	drive.opened++;
	if (drive.failures) {
		drive.failures--;
		return drive.error;
	}
	*backup = (struct backup){
		.private = &drive, .limits = { .bytes = 1u << 30, .io_bytes = CORE_IO_BYTES },
	};
	return 0;
}

void backup_close(struct backup *backup)
{
	(void)backup;
	drive.closed++;
}

void signals_poll(struct signals *signals)
{
	(void)signals;
}

void expect_missing(const struct lsmemd *d)
{
	(void)d;
}

bool take_has(const struct lsmemd *d)
{
	(void)d;
	return false;
}

bool config_any_remote(const struct config *config)
{
	(void)config;
	return false;
}

/* ---- Not called: no store is read -------------------------------------------- */

int expect_store(const struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES])
{
	(void)d;
	(void)uuid;
	return STATUS_ERROR;
}

int own(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES])
{
	(void)d;
	(void)uuid;
	return STATUS_ERROR;
}

void restore_env(struct lsmemd *d, struct recover_env *env)
{
	(void)d;
	memset(env, 0, sizeof(*env));
}

/* ---- Tests --------------------------------------------------------------------- */

/* Start with "wait = forever" and a backup that fails @failures times with @error. */
static int begin(struct lsmemd *d, int error, unsigned int failures)
{
	memset(d, 0, sizeof(*d));
	d->config.nr_backups = 1;
	strcpy(d->config.backups[0].path, "rdma://10.0.0.1/data");
	d->config.store.wait = CONFIG_FOREVER;
	d->config.store.wait_line = 1;
	/* Always readable, as if signals came: no second passes between two attempts. */
	d->signals.fd = open("/dev/zero", O_RDONLY);
	memset(&drive, 0, sizeof(drive));
	drive.error = error;
	drive.failures = failures;
	error = wait_backups(d);
	close(d->signals.fd);
	return error;
}

/* A server or a network that is not there yet says one of these. */
static bool test_late(struct lsmemd *d)
{
	static const int errors[] = {
		ENOENT, ENODEV, ENXIO, ENOMEDIUM, ECONNREFUSED, ECONNRESET, ECONNABORTED, ENOTCONN,
		ENETDOWN, ENETUNREACH, EHOSTDOWN, EHOSTUNREACH, EADDRNOTAVAIL, ETIMEDOUT, EAGAIN,
	};
	unsigned int i;

	for (i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		int status = begin(d, -errors[i], FAILURES);

		if (status || d->nr_open != 1 || drive.opened != FAILURES + 1)
			tap_note("%s: status %d after %u attempts", strerror(errors[i]), status,
				 drive.opened);
		CHECK(!status && d->nr_open == 1 && drive.opened == FAILURES + 1);
	}
	return true;
}

/* These do not go away: the start ends at once. */
static bool test_never(struct lsmemd *d)
{
	static const struct {
		int error, status;
	} errors[] = {
		{ EACCES, STATUS_ERROR }, { EPERM, STATUS_ERROR }, { EIO, STATUS_ERROR },
		{ EINVAL, STATUS_ERROR }, { ENOMEM, STATUS_ERROR }, { ENOSPC, STATUS_ERROR },
		{ ENODATA, STATUS_ERROR }, { EISDIR, STATUS_ERROR }, { EBUSY, STATUS_BUSY },
		{ ESTALE, STATUS_REFUSED }, { ELOOP, STATUS_REFUSED }, { EKEYREJECTED, STATUS_REFUSED },
	};
	unsigned int i;

	for (i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		int status = begin(d, -errors[i].error, FAILURES);

		if (status != errors[i].status || drive.opened != 1)
			tap_note("%s: status %d after %u attempts", strerror(errors[i].error),
				 status, drive.opened);
		CHECK(status == errors[i].status && !d->nr_open && drive.opened == 1);
	}
	return true;
}

/* "wait = 0", and no wait for --init: one attempt. */
static bool test_no_wait(struct lsmemd *d)
{
	memset(d, 0, sizeof(*d));
	d->config.nr_backups = 1;
	d->config.store.wait_line = 1;
	drive.failures = FAILURES;
	drive.error = -ECONNREFUSED;
	drive.opened = 0;
	CHECK(wait_backups(d) == STATUS_ERROR && drive.opened == 1);
	d->config.store.wait = CONFIG_FOREVER;
	d->options.init = true;
	CHECK(wait_backups(d) == STATUS_ERROR && drive.opened == 2);
	return true;
}

int main(void)
{
	static struct lsmemd d;

	log_setup(getenv("VERBOSE") ? LOG_PRI_INFO : -1);
	tap_ok(test_late(&d), "a backup whose server, network or drive is not there yet: waits");
	tap_ok(test_never(&d), "a backup with an error that stays: does not wait");
	tap_ok(test_no_wait(&d), "without \"wait =\": does not wait");
	return tap_end();
}
