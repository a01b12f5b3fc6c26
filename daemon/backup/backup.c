// SPDX-License-Identifier: GPL-2.0
/* The common part of all makes of backups: see backup.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lsmem_format.h"

#include "backup.h"
#include "base/log.h"

#define MAKES	4u

/* The first make that takes a path opens it. If none does, the path is a file or a device. */
static const struct backup_make *makes[MAKES] = { &backup_nvmf_make };

/**
 * backup_register - add a make that another folder defines
 * @make: must stay; nothing happens if it was added before
 *
 * Aborts if there are more than MAKES makes.
 *
 * Context: before the first backup_open(), and before other threads start.
 */
void backup_register(const struct backup_make *make)
{
	unsigned int i = 0;

	while (makes[i] && makes[i] != make)
		if (++i == MAKES)
			abort();
	makes[i] = make;
}

static const struct backup_make *find_make(const char *path)
{
	unsigned int i;

	for (i = 0; i < MAKES && makes[i]; i++)
		if (makes[i]->takes(path))
			return makes[i];
	return &backup_file_make;
}

/**
 * backup_open - find and hold a backup, and read its limits
 * @backup: out
 * @loop: carries its I/O
 * @options: how to open it; @options->path must stay until backup_close()
 *
 * Logs why it fails.
 *
 * Return: 0; -EBUSY: another process or host holds it; -ELOOP: it lies on lsmem itself; -ESTALE:
 * the same or a higher term was asked for; -EKEYREJECTED: the secrets differ; -ECANCELED or
 * another error that @progress returned; -EINVAL; or another negative errno of the make.
 */
int backup_open(struct backup *backup, struct loop *loop, const struct backup_options *options)
{
	int err;

	memset(backup, 0, sizeof(*backup));
	backup->make = find_make(options->path);
	backup->loop = loop;
	backup->path = options->path;
	backup->read_only = options->read_only;
	if (backup->make == &backup_file_make && *options->path != '/') {
		log_err("%s: a file or drive of another host, which only that host can reach",
			options->path);
		return -EHOSTUNREACH;
	}
	err = backup->make->open(backup, options);
	if (err)
		return err;
	err = backup->make->attach(backup);
	if (err) {
		backup->make->close(backup);
		return err;
	}
	if (backup->limits.logical > LSMEM_BLOCK) {
		log_err("%s: its smallest unit of I/O is %u bytes, and lsmem writes units of %u; use another backup",
			backup->path, backup->limits.logical, LSMEM_BLOCK);
		backup_close(backup);
		return -EINVAL;
	}
	if (backup->limits.io_bytes > BACKUP_IO_BYTES)
		backup->limits.io_bytes = BACKUP_IO_BYTES;
	return 0;
}

/**
 * backup_hold - hold a backup that was opened to read beside its holder
 * @backup: attached to its loop, with nothing in flight
 * @options: to write, as for backup_open()
 *
 * It is faster than to open it again, and guarantees the same.
 *
 * Context: runs the loop, which hands out other completions.
 * Return: 0: it can be written; -EOPNOTSUPP: it cannot be had so; or another negative errno of the make. After an error close it, and
 * open it again.
 */
int backup_hold(struct backup *backup, const struct backup_options *options)
{
	int err = backup->make->hold ? backup->make->hold(backup, options) : -EOPNOTSUPP;

	backup->read_only &= err != 0;
	return err;
}

/**
 * backup_close - release a backup
 * @backup: with nothing in flight; in its loop or in none
 */
void backup_close(struct backup *backup)
{
	if (backup->loop)
		backup_detach(backup);
	backup->make->close(backup);
}

/**
 * backup_detach - take a backup out of its loop
 * @backup: with nothing in flight
 *
 * After it, another thread may call backup_move().
 *
 * Context: the thread that runs the loop; may run the loop, which hands out other completions.
 */
void backup_detach(struct backup *backup)
{
	backup->make->detach(backup);
	backup->loop = NULL;
}

/**
 * backup_move - put a detached backup into another loop
 * @to: out
 * @loop: carries its I/O from now on
 * @from: detached; must not be used after the call
 *
 * Context: the thread that runs @loop.
 * Return: 0, or a negative errno of the make; then the backup is closed.
 */
int backup_move(struct backup *to, struct loop *loop, struct backup *from)
{
	int err;

	*to = *from;
	to->loop = loop;
	err = to->make->attach(to);
	if (!err)
		return 0;
	to->loop = NULL;
	backup_close(to);
	to->private = NULL;
	return err;
}

/**
 * backup_memory - announce the memory that most writes come from
 * @backup: open, and no write in flight
 * @base: must stay mapped until backup_close(), or the next call; NULL: no memory any more
 * @bytes: length of the memory
 *
 * The make can then write from it without a copy. An error is only logged.
 */
void backup_memory(struct backup *backup, const void *base, size_t bytes)
{
	int err = backup->make->memory ? backup->make->memory(backup, base, bytes) : 0;

	backup->memory = base;
	if (err)
		log_warn("%s: %zu MiB of log memory cannot be registered (%s): all that is written is copied first",
			 backup->path, bytes >> 20, strerror(-err));
}

/**
 * backup_submit - start a request
 * @io: the request
 * @backup: attached to a loop
 *
 * The loop calls @io->done once, never this function. Aborts if the request is outside the limits.
 */
void backup_submit(struct backup_io *io, struct backup *backup)
{
	/* A write outside the bounds could destroy other data: abort. */
	if ((io->offset | io->length) % LSMEM_BLOCK || io->length > backup->limits.io_bytes ||
	    io->nr_iov > backup->limits.io_vectors || io->offset > backup->limits.bytes ||
	    io->length > backup->limits.bytes - io->offset ||
	    (backup->read_only && io->what == BACKUP_WRITE)) {
		log_err("%s: request of %u bytes at %" PRIu64 " outside its bounds; this is an error in lsmemd",
			backup->path, io->length, io->offset);
		abort();
	}
	io->backup = backup;
	io->left = io->length;
	backup->in_flight++;
	backup->make->submit(backup, io);
}

/**
 * backup_io_complete - complete a request; only makes call it
 * @io: the request; the caller does not use it any more
 * @error: 0 or a negative errno
 */
void backup_io_complete(struct backup_io *io, int error)
{
	io->backup->in_flight--;
	io->done(io, error);
}

struct transfer {
	struct backup_io io;
	struct iovec iov;
	int error;
	bool done;
};

static void transfer_done(struct backup_io *io, int error)
{
	struct transfer *transfer = (struct transfer *)io;

	transfer->error = error;
	transfer->done = true;
}

/**
 * backup_transfer - read, write or flush, and wait until it is done
 * @backup: attached to a loop
 * @what: read, write or flush
 * @offset: bytes from the start of the backup
 * @data: @length bytes, aligned to LSMEM_BLOCK
 * @length: any multiple of LSMEM_BLOCK; 0 for a flush
 *
 * Context: runs the loop, which hands out other completions; not on the loop that serves the store.
 * Return: 0, or the negative errno of a request or of the loop.
 */
int backup_transfer(struct backup *backup, enum backup_what what, uint64_t offset, void *data,
		    uint32_t length)
{
	struct transfer transfer;
	uint32_t part;
	int err;

	do {
		part = length < backup->limits.io_bytes ? length : backup->limits.io_bytes;
		memset(&transfer, 0, sizeof(transfer));
		transfer.iov.iov_base = data;
		transfer.iov.iov_len = part;
		transfer.io.what = what;
		transfer.io.offset = offset;
		transfer.io.length = part;
		transfer.io.iov = &transfer.iov;
		transfer.io.nr_iov = 1;
		transfer.io.done = transfer_done;
		backup_submit(&transfer.io, backup);
		while (!transfer.done) {
			err = loop_run(backup->loop, true);
			if (err < 0)
				return err;
		}
		if (transfer.error)
			return transfer.error;
		data = (char *)data + part;
		offset += part;
		length -= part;
	} while (length);
	return 0;
}
