// SPDX-License-Identifier: GPL-2.0
/*
 * A backup in a file or on a block device: io_uring and O_DIRECT.
 *
 * The hold is a flock() on the file description that does the I/O; for a block device it also
 * includes O_EXCL. The kernel drops both with the last reference to the file description, and
 * each request in flight of a killed daemon has a reference. So when another daemon gets the
 * lock, no write of the former holder can reach the backup any more.
 *
 * A new file is filled with zeroes under another name, and renamed when it is durable. So later
 * writes change no metadata of the filesystem, and an incomplete file is never used as a backup.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "lsmem_format.h"

#include "backup.h"
#include "base/clock.h"
#include "base/log.h"
#include "stacked.h"

#define LOCK_STEP_MS	50		/* between attempts to lock */
#define LOCK_SAY_MS	5000		/* between messages about the wait */
#define TRIES_MAX	100000		/* of a request that makes no progress */

/**
 * struct file_backup - an open file or device
 * @fd: opened with O_DIRECT
 * @index: of @fd in the ring's table of files
 */
struct file_backup {
	int fd;
	int index;
};

/* ---- Creation ---------------------------------------------------------- */

static int sync_directory(const char *path)
{
	char copy[PATH_MAX];
	int fd, err = 0;

	strcpy(copy, path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fsync(fd))
		err = -errno;
	close(fd);
	return err;
}

static int write_zeroes(int fd, const struct backup_options *options)
{
	uint64_t done = 0, all = options->bytes;
	size_t part;
	void *zeroes;
	ssize_t n;
	int err = 0;

	if (posix_memalign(&zeroes, LSMEM_BLOCK, BACKUP_IO_BYTES))
		return -ENOMEM;
	memset(zeroes, 0, BACKUP_IO_BYTES);
	while (done < all && !err) {
		part = all - done < BACKUP_IO_BYTES ? (size_t)(all - done) : BACKUP_IO_BYTES;
		n = pwrite(fd, zeroes, part, (off_t)done);
		if (n > 0)
			done += (uint64_t)n & ~(uint64_t)(LSMEM_BLOCK - 1);
		else if (n == 0)
			err = -ENOSPC;
		else if (errno != EINTR && errno != EAGAIN)
			err = -errno;
		if (!err && options->progress)
			err = options->progress("preallocated", done, all);
	}
	free(zeroes);
	if (!err && fsync(fd))
		err = -errno;
	return err;
}

static int refuse_stacked(const struct backup_options *options, int fd)
{
	char via[NAME_MAX + 8];

	if (!stacked_on_lsmem(fd, via, sizeof(via)))
		return 0;
	log_err("%s: lies on %s: a backup on lsmem itself would wait for itself; use another device",
		options->path, via);
	return -ELOOP;
}

/* Create the file. Return: a descriptor that has the lock, or a negative errno. */
static int file_create(const struct backup_options *options)
{
	char temporary[PATH_MAX];
	int fd, n, err, flags;

	strcpy(temporary, options->path);
	fd = open(dirname(temporary), O_PATH | O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
		log_err("%s: its directory: %s", options->path, strerror(-err));
		return err;
	}
	err = refuse_stacked(options, fd);
	close(fd);
	if (err)
		return err;

	n = snprintf(temporary, sizeof(temporary), "%s.new", options->path);
	if (n >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	fd = open(temporary, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		err = -errno;
		log_err("%s: cannot be created: %s%s", temporary, strerror(-err),
			err == -EINVAL ? " (the filesystem must support O_DIRECT)" : "");
		return err;
	}
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		log_err("%s: another lsmemd is just creating it", temporary);
		close(fd);
		return -EBUSY;
	}
	/* An interrupted creation may have left a part of the file: start again. */
	if (ftruncate(fd, 0)) {
		err = -errno;
		goto fail;
	}
	/* btrfs: disable copy on write. Other filesystems may ignore the flag. */
	if (!ioctl(fd, FS_IOC_GETFLAGS, &flags)) {
		flags |= FS_NOCOW_FL;
		(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
	}
	log_notice("%s: creating the backup, %" PRIu64 " MiB of zeroes", options->path,
		   options->bytes >> 20);
	err = write_zeroes(fd, options);
	if (err)
		goto fail;
	if (renameat2(AT_FDCWD, temporary, AT_FDCWD, options->path, RENAME_NOREPLACE)) {
		err = -errno;
		goto fail;
	}
	err = sync_directory(options->path);
	if (err) {
		log_err("%s: its directory cannot be synced: %s", options->path, strerror(-err));
		close(fd);
		return err;
	}
	return fd;
fail:
	if (err != -ECANCELED)
		log_err("%s: creating a backup of %" PRIu64 " bytes: %s", options->path,
			options->bytes, strerror(-err));
	unlink(temporary);
	close(fd);
	return err;
}

/* ---- The hold ---------------------------------------------------------- */

/* Log what holds the lock: /proc/locks names the process that took it, even if it has ended. */
static void say_holder(const struct backup_options *options, const struct stat *st)
{
	char line[256], wanted[64], process[64];
	long pid = 0, holder = 0;
	FILE *f;

	snprintf(wanted, sizeof(wanted), "%02x:%02x:%ju ", major(st->st_dev), minor(st->st_dev),
		 (uintmax_t)st->st_ino);
	f = fopen("/proc/locks", "re");
	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, " FLOCK ") && strstr(line, wanted) &&
		    sscanf(line, "%*s %*s %*s %*s %ld", &pid) == 1)
			holder = pid;
	if (f)
		fclose(f);
	snprintf(process, sizeof(process), "/proc/%ld", holder);
	if (!holder)
		log_notice("%s: waiting up to %u s: it is mounted or in use", options->path,
			   options->lock_wait);
	else if (!access(process, F_OK))
		log_notice("%s: waiting up to %u s for process %ld, which holds it",
			   options->path, options->lock_wait, holder);
	else
		log_notice("%s: waiting up to %u s for the I/O in flight of process %ld, which is gone",
			   options->path, options->lock_wait, holder);
}

/* Open and lock an existing file or device; wait for up to @lock_wait while it is held. */
static int file_hold(const struct backup_options *options)
{
	int flags = (options->read_only ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC;
	uint64_t start = clock_now_ms(), said = 0;
	struct stat st;
	int fd, err;

	for (;;) {
		if (stat(options->path, &st))
			return -errno;
		if (!S_ISBLK(st.st_mode) && !S_ISREG(st.st_mode)) {
			log_err("%s: neither a block device nor a file", options->path);
			return -ENOTBLK;
		}
		fd = open(options->path,
			  flags | (S_ISBLK(st.st_mode) && !options->read_only ? O_EXCL : 0));
		if (fd < 0 && errno != EBUSY) {
			err = -errno;
			log_err("%s: cannot be opened: %s%s", options->path, strerror(-err),
				err == -EINVAL ? " (the filesystem must support O_DIRECT)" : "");
			return err;
		}
		if (fd >= 0 && !flock(fd, (options->read_only ? LOCK_SH : LOCK_EX) | LOCK_NB))
			break;
		if (fd >= 0)
			close(fd);
		if (clock_now_ms() - start >= options->lock_wait * 1000ull) {
			log_err("%s: still held by another process after %u s: mounted, used by another daemon, or with I/O in flight that does not end",
				options->path, options->lock_wait);
			return -EBUSY;
		}
		if (clock_now_ms() - start >= 4 * LOCK_STEP_MS && (!said || clock_now_ms() - said >= LOCK_SAY_MS)) {
			said = clock_now_ms();
			say_holder(options, &st);
		}
		if (options->progress) {
			err = options->progress("waited", (clock_now_ms() - start) / 1000,
						options->lock_wait);
			if (err)
				return err;
		}
		usleep(LOCK_STEP_MS * 1000);
	}
	if (clock_now_ms() - start >= 4 * LOCK_STEP_MS)
		log_notice("%s: free after %" PRIu64 " ms", options->path, clock_now_ms() - start);
	return fd;
}

/* ---- Limits ------------------------------------------------------------ */

/* Read a queue attribute of a block device; for a partition, of its whole device. */
static bool queue_attribute(dev_t dev, const char *name, char *value, int room)
{
	static const char *const formats[] = { "/sys/dev/block/%u:%u/queue/%s",
					       "/sys/dev/block/%u:%u/../queue/%s" };
	char path[128];
	unsigned int i;
	FILE *f;

	for (i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), formats[i], major(dev), minor(dev), name);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (!fgets(value, room, f))
			value[0] = 0;
		fclose(f);
		value[strcspn(value, "\n")] = 0;
		return true;
	}
	return false;
}

static int device_limits(struct backup *backup, int fd, dev_t dev)
{
	struct backup_limits *limits = &backup->limits;
	int logical = 0;
	unsigned int physical = 0;
	unsigned long kib;
	char value[64];

	if (ioctl(fd, BLKGETSIZE64, &limits->bytes) || ioctl(fd, BLKSSZGET, &logical) ||
	    ioctl(fd, BLKPBSZGET, &physical)) {
		log_err("%s: its limits cannot be read: %s", backup->path, strerror(errno));
		return -errno;
	}
	limits->logical = (uint32_t)logical;
	limits->physical = physical;
	limits->io_bytes = BACKUP_IO_BYTES;
	if (queue_attribute(dev, "max_sectors_kb", value, sizeof(value))) {
		kib = strtoul(value, NULL, 10);
		if (kib >= LSMEM_SEGLET_BYTES / 1024 && kib < BACKUP_IO_BYTES / 1024)
			limits->io_bytes = (uint32_t)(kib * 1024) & ~(LSMEM_BLOCK - 1);
	}
	limits->volatile_cache = !queue_attribute(dev, "write_cache", value, sizeof(value)) ||
				 !strcmp(value, "write back");
	return 0;
}

static int regular_limits(struct backup *backup, const struct stat *st)
{
	struct backup_limits *limits = &backup->limits;

	limits->bytes = (uint64_t)st->st_size;
	limits->logical = LSMEM_BLOCK;
	limits->physical = LSMEM_BLOCK;
	limits->io_bytes = BACKUP_IO_BYTES;
	limits->volatile_cache = true;
	if ((uint64_t)st->st_blocks * 512 < (uint64_t)st->st_size)
		log_warn("%s: the file has holes, and filling them may fail or lose more in a crash than lsmem expects; let lsmemd create it (size = in [backup])",
			 backup->path);
	return 0;
}

static int file_open(struct backup *backup, const struct backup_options *options)
{
	struct file_backup *file;
	struct stat st;
	int fd, err;

	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	if (stat(options->path, &st)) {
		err = -errno;
		if (err != -ENOENT || !options->create || !options->bytes) {
			log_err("%s: %s%s", options->path, strerror(-err), err != -ENOENT ? "" :
				"; lsmemd --init creates a file, if \"size = ..\" says how long");
			goto fail;
		}
		fd = file_create(options);
	} else {
		fd = file_hold(options);
	}
	err = fd;
	if (fd < 0)
		goto fail;
	if (fstat(fd, &st)) {
		err = -errno;
		goto fail_close;
	}
	err = refuse_stacked(options, fd);
	if (err)
		goto fail_close;
	err = S_ISBLK(st.st_mode) ? device_limits(backup, fd, st.st_rdev) :
	      regular_limits(backup, &st);
	if (err)
		goto fail_close;
	if (S_ISBLK(st.st_mode) && options->bytes) {
		log_err("%s: \"size = ..\" in [backup] is for a file, this is a block device of %" PRIu64 " bytes",
			options->path, backup->limits.bytes);
		err = -EINVAL;
		goto fail_close;
	}
	if (options->bytes && options->bytes != backup->limits.bytes) {
		log_err("%s: is a file of %" PRIu64 " bytes, and \"size =\" in [backup] says %" PRIu64 "; a backup does not change its size, correct the configuration",
			options->path, backup->limits.bytes, options->bytes);
		err = -EINVAL;
		goto fail_close;
	}
	backup->limits.bytes &= ~(uint64_t)(LSMEM_BLOCK - 1);
	backup->limits.io_vectors = IOV_MAX;
	file->fd = fd;
	backup->private = file;
	return 0;
fail_close:
	close(fd);
fail:
	free(file);
	return err;
}

static int file_attach(struct backup *backup)
{
	struct file_backup *file = backup->private;

	file->index = loop_file_add(backup->loop, file->fd);
	if (file->index >= 0)
		return 0;
	log_err("%s: io_uring does not take the file: %s", backup->path, strerror(-file->index));
	return file->index;
}

static void file_detach(struct backup *backup)
{
	const struct file_backup *file = backup->private;

	loop_file_remove(backup->loop, file->index);
}

static void file_close(struct backup *backup)
{
	struct file_backup *file = backup->private;

	/* Unlock now: a ring may release its reference to the file a moment later. */
	(void)flock(file->fd, LOCK_UN);
	close(file->fd);
	free(file);
}

/* ---- I/O --------------------------------------------------------------- */

static void file_start(struct backup_io *io);

/* Reduce @io to the part that a short transfer has not moved. */
static void file_advance(struct backup_io *io, uint32_t moved)
{
	io->offset += moved;
	io->left -= moved;
	while (moved) {
		if (moved < io->iov->iov_len) {
			io->iov->iov_base = (char *)io->iov->iov_base + moved;
			io->iov->iov_len -= moved;
			return;
		}
		moved -= (uint32_t)io->iov->iov_len;
		io->iov++;
		io->nr_iov--;
	}
}

/* A read or a write has ended; of a durable write with a flush: the flush does not begin. */
static void file_done(struct loop_op *op, int res)
{
	struct backup_io *io = (struct backup_io *)((char *)op - offsetof(struct backup_io, op));

	if ((res == -EAGAIN || res == -EINTR) && io->tries++ < TRIES_MAX) {
		file_start(io);
		return;
	}
	if (res < 0) {
		backup_io_complete(io, res);
		return;
	}
	if ((uint32_t)res >= io->left) {
		io->left = 0;
		backup_io_complete(io, 0);
		return;
	}
	/* Direct I/O continues at a block boundary: transfer a partial block again. */
	res &= ~(int)(LSMEM_BLOCK - 1);
	if (!res && io->tries++ >= TRIES_MAX) {
		backup_io_complete(io, -EIO);
		return;
	}
	if (!res && io->what == BACKUP_READ && io->offset >= io->backup->limits.bytes) {
		backup_io_complete(io, -ENODATA);
		return;
	}
	file_advance(io, (uint32_t)res);
	file_start(io);
}

static void file_flushed(struct loop_op *op, int res)
{
	struct backup_io *io = (struct backup_io *)((char *)op - offsetof(struct backup_io, flush));

	backup_io_complete(io, res < 0 ? res : 0);
}

/*
 * Do the next step of a request. A durable write is a write and a flush that the kernel begins when
 * the write has completed (invariant 16): RWF_DSYNC relies on FUA alone, and with it
 * tests/power/cuts lost data on the NVMe drives of QEMU 7.2. On a drive without a volatile cache the
 * kernel sends neither flushes nor FUA, so RWF_DSYNC does the same as a flush, with one request and
 * without a thread.
 */
static void file_start(struct backup_io *io)
{
	const struct file_backup *file = io->backup->private;
	bool durable = io->what == BACKUP_WRITE && io->durable;
	bool pair = durable && io->backup->limits.volatile_cache;
	struct loop *loop = io->backup->loop;
	struct io_uring_sqe *sqe;

	io->op.done = file_done;
	io->flush.done = file_flushed;
	if (io->what == BACKUP_READ) {
		sqe = loop_sqe(loop, &io->op);
		io_uring_prep_readv(sqe, file->index, io->iov, io->nr_iov, io->offset);
		sqe->flags |= IOSQE_FIXED_FILE;
	} else if (io->what == BACKUP_WRITE) {
		sqe = pair ? loop_sqe_first(loop, &io->op) : loop_sqe(loop, &io->op);
		io_uring_prep_writev2(sqe, file->index, io->iov, io->nr_iov, io->offset,
				      durable && !pair ? RWF_DSYNC : 0);
		sqe->flags |= IOSQE_FIXED_FILE | (pair ? LOOP_FIRST : 0);
	}
	if (io->what == BACKUP_FLUSH || pair) {
		sqe = loop_sqe(loop, &io->flush);
		io_uring_prep_fsync(sqe, file->index, IORING_FSYNC_DATASYNC);
		sqe->flags |= IOSQE_FIXED_FILE;
	}
}

static void file_submit(struct backup *backup, struct backup_io *io)
{
	(void)backup;
	io->tries = 0;
	file_start(io);
}

const struct backup_make backup_file_make = {
	.name = "file",
	.open = file_open,
	.attach = file_attach,
	.detach = file_detach,
	.submit = file_submit,
	.close = file_close,
};
