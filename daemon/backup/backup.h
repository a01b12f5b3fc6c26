/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A backup: a range of bytes that can be read, written and flushed, held by one daemon at a time.
 * core/ and recover/ define what the bytes mean. A make (struct backup_make) does the I/O for one
 * kind of backup.
 *
 * Every make guarantees:
 *  - One holder. backup_open() for writing succeeds only when no I/O of a former holder can reach
 *    the backup any more, however that daemon ended. Writes of a killed daemon may still be in
 *    flight: the hold lasts as long as they do, not as long as the process.
 *  - A request completes once, whole or with an error. The make handles short transfers and
 *    transient conditions (EAGAIN, EINTR). It reports other errors and never repeats the request
 *    (invariant 3).
 *  - A flush covers the writes that had completed when the flush was submitted (invariant 16).
 *    Requests in flight together are not ordered, with one exception: a write submitted after
 *    @received of another write of the same blocks takes effect after that write.
 *  - backup_submit() allocates nothing.
 */
#ifndef LSMEMD_BACKUP_H
#define LSMEMD_BACKUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/loop.h"

enum backup_what {
	BACKUP_READ,
	BACKUP_WRITE,
	BACKUP_FLUSH,
};

struct backup;

/**
 * struct backup_io - a request; the caller owns the memory and keeps it until @done
 * @what: read, write or flush
 * @durable: of a write: it completes when its bytes are durable, without a flush
 * @offset: in the backup, a multiple of LSMEM_BLOCK
 * @length: bytes, a multiple of LSMEM_BLOCK, at most the limits' @io_bytes; 0 for a flush
 * @iov: the memory, @length bytes in all, in multiples of LSMEM_BLOCK; the make may change
 *	this array
 * @nr_iov: elements of @iov, at most the limits' @io_vectors
 * @done: called once from the loop; @error is 0 or a negative errno
 * @received: of a write: called before @done, at most once and only if the backup was opened
 *	with @receipts: the host that keeps the backup has the bytes in memory and writes them
 *	even if this daemon dies; may be NULL
 */
struct backup_io {
	enum backup_what what;
	bool durable;
	uint64_t offset;
	uint32_t length;
	struct iovec *iov;
	unsigned int nr_iov;
	void (*done)(struct backup_io *io, int error);
	void (*received)(struct backup_io *io);

	/* private: to the make */
	struct loop_op op, flush;
	struct backup *backup;
	uint32_t left;
	uint32_t tries;
	struct backup_io *next;
};

/**
 * struct backup_options - how a backup is to be opened
 * @path: path or URL of the backup
 * @bytes: length that a file must have; 0: any
 * @create: create a file of @bytes if there is none
 * @lock_wait: seconds to wait until the backup is free
 * @read_only: open for reading, together with other readers
 * @beside: with @read_only: also while another daemon writes, if the make supports this
 * @fence_term: take the hold from a holder with a lower term; from then on the same and lower
 *	terms are refused (-ESTALE). 0: wait until the backup is free. Only for makes that
 *	several hosts reach: the kernel knows the holder of a local file or device
 * @key: path of the file with the secret shared with the host that keeps the backup, or NULL
 * @timeout: seconds after which an unanswered request has failed; only for makes that reach
 *	another host
 * @receipts: call @received of writes; ignored by makes without receipts
 * @progress: called from time to time while the opening takes long; a result other than 0 ends
 *	the opening with this error; may be NULL
 */
struct backup_options {
	const char *path;
	uint64_t bytes;
	bool create;
	unsigned int lock_wait;
	bool read_only;
	bool beside;
	uint64_t fence_term;
	const char *key;
	unsigned int timeout;
	bool receipts;
	int (*progress)(const char *what, uint64_t done, uint64_t all);
};

/**
 * struct backup_limits - what the backup can do
 * @bytes: its size
 * @logical: smallest unit of I/O, bytes
 * @physical: unit that the drive says it writes atomically, bytes
 * @io_bytes: longest request, bytes
 * @io_vectors: elements of a request, at most
 * @volatile_cache: writes are durable only after a flush
 * @term: the highest that a daemon has asked for; 0: none is known
 */
struct backup_limits {
	uint64_t bytes;
	uint32_t logical;
	uint32_t physical;
	uint32_t io_bytes;
	uint32_t io_vectors;
	bool volatile_cache;
	uint64_t term;
};

/**
 * struct backup_make - the I/O of one kind of backup
 * @name: of the make
 * @takes: does @path name a backup of this make? NULL: it takes what no other make takes
 * @open: find and hold the backup, fill in @limits; logs errors; uses no loop
 * @attach: begin to do I/O through @backup->loop
 * @detach: end that; called with nothing in flight
 * @submit: start a request that backup_submit() has checked
 * @close: release the backup; called after @detach
 * @hold: hold a backup that was opened to read beside its holder; returns 0, or a negative errno: it is to be closed, and opened
 *	again; may be NULL
 * @memory: prepare to write from this memory without a copy, and from no other; on an error writes are copied; may
 *	be NULL
 */
struct backup_make {
	const char *name;
	bool (*takes)(const char *path);
	int (*open)(struct backup *backup, const struct backup_options *options);
	int (*attach)(struct backup *backup);
	void (*detach)(struct backup *backup);
	void (*submit)(struct backup *backup, struct backup_io *io);
	void (*close)(struct backup *backup);
	int (*hold)(struct backup *backup, const struct backup_options *options);
	int (*memory)(struct backup *backup, const void *base, size_t bytes);
};

/**
 * struct backup - an open backup; one thread uses it at a time
 * @make: how it is reached
 * @loop: carries its I/O; NULL: none
 * @path: path or URL; the memory of the caller of backup_open()
 * @limits: what it can do
 * @in_flight: requests submitted and not completed
 * @error: 0, or the negative errno with which its connection has ended
 * @read_only: opened for reading
 * @memory: backup_memory() was called
 * @private: of the make; callers set it to NULL when they have closed the backup
 * @below: of a make that does its I/O by another make
 */
struct backup {
	const struct backup_make *make;
	struct loop *loop;
	const char *path;
	struct backup_limits limits;
	unsigned int in_flight;
	int error;
	bool read_only;
	bool memory;
	void *private;
	void *below;
};

#define BACKUP_IO_BYTES		(1u << 20)	/* backup_open() limits @io_bytes to this */

extern const struct backup_make backup_file_make, backup_nvmf_make;

void backup_register(const struct backup_make *make);
int backup_open(struct backup *backup, struct loop *loop, const struct backup_options *options);
int backup_hold(struct backup *backup, const struct backup_options *options);
int backup_move(struct backup *to, struct loop *loop, struct backup *from);
void backup_detach(struct backup *backup);
void backup_close(struct backup *backup);
void backup_memory(struct backup *backup, const void *base, size_t bytes);
void backup_submit(struct backup_io *io, struct backup *backup);
int backup_transfer(struct backup *backup, enum backup_what what, uint64_t offset, void *data,
		    uint32_t length);
void backup_io_complete(struct backup_io *io, int error);

#endif
