// SPDX-License-Identifier: GPL-2.0
/* What all makes of backups have in common: see backup.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lsmem_format.h"

#include "backup.h"
#include "base/log.h"

#define MAKES	4u

/* The first that takes a path. A path without a scheme is a file or a device. */
static const struct backup_make *makes[MAKES] = { &backup_nvmf_make };

/**
 * backup_register - add a make that lies above this folder
 * @make: stays; MAKES at most
 *
 * Context: before the first backup_open(), and before there are threads.
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
 * backup_open - find, lock and measure a backup
 * @backup: out
 * @loop: through which its I/O goes
 * @options: where it is and what for; @options->path must outlive @backup
 *
 * Says itself why it fails.  Returns 0 or a negative errno, of these -EBUSY:
 * another process or host holds it, -ELOOP: it lies on lsmem itself, -ESTALE: it
 * was held with a higher term, -EKEYREJECTED: the secrets differ.
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
 * backup_close - let go of a backup with nothing in flight
 * @backup: the backup
 */
void backup_close(struct backup *backup)
{
	if (backup->loop)
		backup_detach(backup);
	backup->make->close(backup);
}

/**
 * backup_detach - take a backup with nothing in flight out of its loop
 * @backup: the backup
 *
 * By the thread whose loop that is; another may backup_move() it then.
 */
void backup_detach(struct backup *backup)
{
	backup->make->detach(backup);
	backup->loop = NULL;
}

/**
 * backup_move - take over a backup that is in no loop
 * @to: out
 * @loop: through which its I/O goes from now on
 * @from: not to be used any more
 *
 * Returns 0 or a negative errno; then it is closed.
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
 * backup_memory - tell where most writes will come from
 * @backup: open
 * @base: memory that stays mapped until backup_close()
 * @bytes: its length
 *
 * A make that moves bytes by itself need not copy them then.
 */
void backup_memory(struct backup *backup, const void *base, size_t bytes)
{
	int err = backup->make->memory ? backup->make->memory(backup, base, bytes) : 0;

	if (err)
		log_warn("%s: %zu MiB of log memory cannot be registered (%s): all that is written is copied first",
			 backup->path, bytes >> 20, strerror(-err));
}

/**
 * backup_submit - start a request
 * @io: what to do
 * @backup: where
 *
 * Always calls @io->done in the end, never from within.
 */
void backup_submit(struct backup_io *io, struct backup *backup)
{
	/* A stray write would spoil what is not ours: never go on. */
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
 * backup_io_complete - for makes: a request is over
 * @io: the request
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
 * backup_transfer - read, write or flush and wait for it
 * @backup: the backup
 * @what: read, write or flush
 * @offset: where
 * @data: aligned to LSMEM_BLOCK, of @length bytes
 * @length: any multiple of LSMEM_BLOCK, 0 for a flush
 *
 * For start and end, not for the steady state.  Returns 0 or a negative errno.
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
