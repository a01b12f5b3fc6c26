// SPDX-License-Identifier: GPL-2.0
/*
 * The synchronous calls that recover/ needs (struct recover_env). A long transfer becomes many
 * requests in flight together. A signal ends the recovery at its next call; the next start repeats
 * it.
 *
 * The kernel copies and checks the entries, which takes longer than all other steps. So a thread of
 * io_uring does it, and restore_load() returns while it does. A thread of the daemon instead would
 * return to user space after each load, and in User-mode Linux the threads of a process take turns
 * there.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <lsmem_format.h>

#include "backup/foreign.h"
#include "base/clock.h"
#include "base/log.h"
#include "lsmemd.h"
#include "base/notify.h"

#define PARTS		(LSMEM_SEGMENT_BYTES / LSMEM_SEGLET_BYTES)
#define PROBE_BYTES	(1u << 20)	/* read at both ends of a backup, to find other contents */

/**
 * struct transfer - the transfer of a range, in as many requests as needed
 * @offset: an address, as in recover/recover.h
 * @data: @length bytes
 * @length: bytes
 * @parts: the requests
 * @left: requests in flight
 * @error: of the first request that failed; 0: none has failed
 */
struct transfer {
	uint64_t offset;
	void *data;
	uint32_t length;
	struct part {
		struct backup_io io;
		struct iovec iov;
		struct transfer *transfer;
	} parts[PARTS];
	unsigned int left;
	int error;
};

/* Transfers under way, which end in this order: [ahead_first, ahead_next) modulo RECOVER_AHEAD. */
static struct transfer aheads[RECOVER_AHEAD];
static unsigned int ahead_first, ahead_next;
static uint64_t read_bytes;	/* for the progress */

static void part_done(struct backup_io *io, int error)
{
	struct transfer *transfer = ((struct part *)io)->transfer;

	transfer->left--;
	if (error && !transfer->error)
		transfer->error = error;
}

static void transfer_begin(struct lsmemd *d, struct transfer *transfer, enum backup_what what,
			   uint64_t offset, void *data, uint32_t length)
{
	struct backup *backup = &d->backups[recover_address_slot(offset)];
	uint32_t step = backup->limits.io_bytes, done, part;
	unsigned int i = 0;

	transfer->offset = offset;
	transfer->data = data;
	transfer->length = length;
	transfer->error = length > (uint64_t)step * PARTS ? -EINVAL : 0;
	transfer->left = 0;
	for (done = 0; done < length && !transfer->error; done += part, i++) {
		struct part *p = &transfer->parts[i];

		part = length - done < step ? length - done : step;
		memset(p, 0, sizeof(*p));
		p->transfer = transfer;
		p->iov.iov_base = (char *)data + done;
		p->iov.iov_len = part;
		p->io.what = what;
		p->io.offset = recover_address_offset(offset) + done;
		p->io.length = part;
		p->io.iov = &p->iov;
		p->io.nr_iov = 1;
		p->io.done = part_done;
		transfer->left++;
		backup_submit(&p->io, backup);
	}
}

/* Wait for all requests of a transfer. Only an error of the loop leaves requests in flight. */
static int transfer_end(struct lsmemd *d, struct transfer *transfer)
{
	int err;

	while (transfer->left) {
		err = loop_run(&d->loop, true);
		if (err < 0)
			return err;
	}
	return transfer->error;
}

static int transfer(struct lsmemd *d, enum backup_what what, uint64_t offset, void *data,
		    uint32_t length)
{
	static struct transfer one;	/* large; there is one call at a time */
	struct transfer *ahead = &aheads[ahead_first % RECOVER_AHEAD];
	int err;

	signals_poll(&d->signals);
	if (ahead_first != ahead_next && ahead->offset == offset && ahead->data == data &&
	    ahead->length == length && what == BACKUP_READ) {
		ahead_first++;
		err = transfer_end(d, ahead);
		return d->signals.stop ? -ECANCELED : err;
	}
	if (d->signals.stop)
		return -ECANCELED;
	transfer_begin(d, &one, what, offset, data, length);
	return transfer_end(d, &one);
}

static void restore_ahead(void *context, uint64_t offset, void *data, uint32_t length)
{
	struct transfer *ahead = &aheads[ahead_next++ % RECOVER_AHEAD];
	struct lsmemd *d = context;

	transfer_begin(d, ahead, BACKUP_READ, offset, data, length);
	loop_run(&d->loop, false);	/* transfer_end() sees an error again */
}

static int say(const struct lsmemd *d, const char *what, uint64_t address, uint32_t length, int err)
{
	if (err && err != -ECANCELED)
		log_err("%s: %s %" PRIu32 " bytes at %" PRIu64 ": %s",
			d->backups[recover_address_slot(address)].path, what, length,
			recover_address_offset(address), strerror(-err));
	return err;
}

static int restore_read(void *context, uint64_t address, void *data, uint32_t length)
{
	read_bytes += length;
	return say(context, "reading", address, length,
		   transfer(context, BACKUP_READ, address, data, length));
}

static int restore_write(void *context, uint64_t address, const void *data, uint32_t length)
{
	if (!owned(context, "nothing more is written"))
		return -EPERM;
	return say(context, "writing", address, length,
		   transfer(context, BACKUP_WRITE, address, (void *)data, length));
}

static int restore_flush(void *context, uint32_t slot)
{
	struct lsmemd *d = context;
	int err = backup_transfer(&d->backups[slot], BACKUP_FLUSH, 0, NULL, 0);

	if (err)
		log_err("%s: flushing its cache: %s", d->backups[slot].path, strerror(-err));
	return err;
}

/**
 * struct loader - the segment that the kernel loads
 * @op: completes the load
 * @load: the segment and its entries
 * @busy: the load is in flight
 * @told: @error was logged
 * @error: of the last load
 */
struct loader {
	struct loop_op op;
	struct lsmem_load load;
	bool busy, told;
	int error;
};

static struct loader loader;

static void loader_done(struct loop_op *op, int res)
{
	struct loader *l = (struct loader *)op;

	l->error = res;
	l->busy = false;
}

/* Wait until the last segment is loaded. Return: the error of that load. */
static int loader_wait(struct lsmemd *d, struct loader *l)
{
	int err;

	while (l->busy) {
		err = loop_run(&d->loop, true);
		if (err < 0)
			return err;
	}
	if (l->error && !l->told)
		log_err("%s: the kernel does not take %" PRIu32 " bytes of segment %" PRIu64 ": %s",
			d->kernel.name, (uint32_t)l->load.length, (uint64_t)l->load.segment,
			strerror(-l->error));
	l->told = l->error;
	return l->error;
}

static int restore_load(void *context, uint64_t segment, uint32_t generation, uint32_t sealed,
			const void *data, uint32_t length)
{
	struct lsmemd *d = context;
	struct loader *l = &loader;
	int err;

	signals_poll(&d->signals);
	if (d->signals.stop)
		return -ECANCELED;
	err = loader_wait(d, l);
	if (err)
		return err;
	l->load = (struct lsmem_load) {
		.segment = segment, .generation = generation, .sealed = sealed,
		.data = (uintptr_t)data, .length = length,
	};
	l->op.done = loader_done;
	l->busy = true;
	kernel_load(&d->kernel, &d->loop, &l->op, &l->load);
	err = loop_run(&d->loop, false);
	return err < 0 ? err : 0;
}

static int restore_place(void *context, uint64_t segment, uint32_t generation, uint32_t sealed,
			 const struct lsmem_directory_entry *entries, uint32_t nr)
{
	struct lsmem_placement place = {
		.segment = segment, .generation = generation, .sealed = sealed,
		.entries = (uintptr_t)entries, .nr = nr,
	};
	struct lsmemd *d = context;
	int err;

	signals_poll(&d->signals);
	if (d->signals.stop)
		return -ECANCELED;
	err = loader_wait(d, &loader);
	if (err)
		return err;
	err = kernel_place(&d->kernel, &place);
	if (err)
		log_err("%s: the kernel does not take the places of %" PRIu32 " objects of segment %" PRIu64 ": %s",
			d->kernel.name, nr, segment, strerror(-err));
	return err;
}

static int restore_loaded(void *context)
{
	struct loader *l = &loader;
	int err = loader_wait(context, l);

	l->error = 0;	/* another recovery can follow */
	l->told = false;
	return err;
}

static void restore_report(void *context, enum recover_severity severity, const char *text)
{
	struct lsmemd *d = context;

	if (severity != RECOVER_DAMAGE) {
		log_notice("%s: %s", d->where, text);
		return;
	}
	log_err("%s: LOST: %s", d->where, text);
	status_lost(&d->status, text);
}

static void restore_progress(void *context, uint64_t done, uint64_t all)
{
	static uint64_t start, said;
	struct lsmemd *d = context;
	uint64_t now = clock_now_ns();

	if (!start)
		start = said = now;
	d->status.read_bytes = read_bytes;
	d->status.recovery_ms = (now - start) / 1000000;
	d->status.recovery_done = done;
	d->status.recovery_all = all;
	http_tell(&d->http, &d->status);
	if (now - said < 1000000000u)
		return;
	said = now;
	log_notice("%s: %" PRIu64 " of %" PRIu64 " segments, %" PRIu64 " MiB read, %" PRIu64 " s",
		   d->where, done, all, read_bytes >> 20, (now - start) / 1000000000u);
	notify_send("WATCHDOG=1\nSTATUS=Recovering: %" PRIu64 " of %" PRIu64 " segments", done, all);
}

/**
 * restore_env - set up the calls and parameters that recovery needs
 * @d: the daemon, its backups open
 * @env: out
 */
void restore_env(struct lsmemd *d, struct recover_env *env)
{
	uint32_t slot;

	memset(env, 0, sizeof(*env));
	env->context = d;
	env->backups = d->config.nr_backups;
	for (slot = 0; slot < env->backups; slot++) {
		env->names[slot] = d->config.backups[slot].path;
		env->domain[slot] = config_domain(&d->config, slot);
		if (d->backups[slot].private)
			env->backup_bytes[slot] = d->backups[slot].limits.bytes;
	}
	env->read = restore_read;
	env->write = restore_write;
	env->ahead = restore_ahead;
	env->flush = restore_flush;
	env->load = restore_load;
	env->place = restore_place;
	env->loaded = restore_loaded;
	env->report = restore_report;
	env->progress = restore_progress;
}

/* The two ends of a backup, @length bytes each, in one allocation at @head. */
struct ends {
	uint8_t *head, *tail;
	uint32_t length;
};

static int read_ends(const struct recover_env *env, uint32_t slot, struct ends *ends)
{
	uint64_t bytes = env->backup_bytes[slot];
	int err;

	ends->length = bytes < PROBE_BYTES ? (uint32_t)bytes : PROBE_BYTES;
	if (posix_memalign((void **)&ends->head, LSMEM_BLOCK, 2 * PROBE_BYTES))
		return -ENOMEM;
	ends->tail = ends->head + PROBE_BYTES;
	err = env->read(env->context, recover_address(slot, 0), ends->head, ends->length);
	if (!err)
		err = env->read(env->context, recover_address(slot, bytes - ends->length),
				ends->tail, ends->length);
	if (err)
		free(ends->head);
	return err;
}

static bool blank_ends(const struct ends *ends)
{
	uint32_t i;

	for (i = 0; i < ends->length; i += LSMEM_BLOCK)
		if (!format_is_blank(ends->head + i) || !format_is_blank(ends->tail + i))
			return false;
	return true;
}

static void tell_foreign(const struct recover_env *env, uint32_t slot, const struct ends *ends)
{
	char name[FOREIGN_BYTES];

	if (foreign_name(ends->head, ends->tail, ends->length, env->backup_bytes[slot], name))
		log_err("%s: holds %s", env->names[slot], name);
}

/**
 * restore_blank - look for other contents at both ends of a backup without a superblock
 * @env: reads the backup
 * @slot: of the backup
 * @blank: out: both ends are zero; if not, contents that libblkid knows are logged
 *
 * Some filesystems and RAIDs do not use the first blocks. So a backup without a superblock is
 * formatted only if both its ends are zero.
 *
 * Return: 0, -ENOMEM, or a negative errno of @env->read.
 */
int restore_blank(const struct recover_env *env, uint32_t slot, bool *blank)
{
	struct ends ends;
	int err = read_ends(env, slot, &ends);

	if (err)
		return err;
	*blank = blank_ends(&ends);
	if (!*blank)
		tell_foreign(env, slot, &ends);
	free(ends.head);
	return 0;
}

/**
 * restore_foreign - log other contents of the backups that libblkid knows
 * @d: the daemon, its backups open
 */
void restore_foreign(struct lsmemd *d)
{
	struct recover_env env;
	struct ends ends;
	uint32_t slot;

	restore_env(d, &env);
	for (slot = 0; slot < env.backups; slot++) {
		if (!env.backup_bytes[slot] || read_ends(&env, slot, &ends))
			continue;
		tell_foreign(&env, slot, &ends);
		free(ends.head);
	}
}

/**
 * restore_wipe - make a backup blank
 * @d: the daemon, with --format
 * @slot: of the backup
 *
 * Overwrites both ends only: without them the bytes between belong to no store. Logs errors.
 *
 * Return: 0; -ENOMEM; -EPERM: this daemon does not own the store; or another negative errno of
 * the backup.
 */
int restore_wipe(struct lsmemd *d, uint32_t slot)
{
	uint64_t bytes = d->backups[slot].limits.bytes;
	uint32_t length = bytes < PROBE_BYTES ? (uint32_t)bytes : PROBE_BYTES;
	void *zeroes;
	int err;

	if (posix_memalign(&zeroes, LSMEM_BLOCK, length))
		return -ENOMEM;
	memset(zeroes, 0, length);
	err = restore_write(d, recover_address(slot, 0), zeroes, length);
	if (!err)
		err = restore_write(d, recover_address(slot, bytes - length), zeroes, length);
	if (!err)
		err = restore_flush(d, slot);
	free(zeroes);
	return err;
}
