/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A backup: a range of bytes that can be read, written and flushed, held by one daemon at a time.
 * core/ and recover/ decide what the bytes mean; the loop decides when they move; a make moves them.
 *
 * Every make guarantees:
 *  - One holder. backup_open() for writing succeeds only when no I/O of a predecessor can reach the
 *    backup any more, however the predecessor ended: writes of a killed daemon may still be on their
 *    way, so the hold belongs to the requests in flight, not to the process.
 *  - A request completes once, whole or with an error. The make handles short transfers and transient
 *    conditions (EAGAIN, EINTR); it reports other errors and never repeats the request (invariant 3).
 *  - A flush covers the writes that had completed when the flush was submitted (invariant 16).
 *    Requests in flight together are not ordered, but a write submitted after @received of another
 *    write of the same blocks lands after that write.
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
 * struct backup_io - a request; the caller owns the memory, and keeps it until @done
 * @what: read, write or flush
 * @durable: of a write: it is complete only when it is durable, as if flushed
 * @offset: in the backup, a multiple of LSMEM_BLOCK
 * @length: bytes, a multiple of LSMEM_BLOCK, at most the limits' @io_bytes; 0
 *	for a flush
 * @iov: where the bytes are, @length in all, in multiples of LSMEM_BLOCK; the
 *	array is the caller's and is changed
 * @nr_iov: elements at @iov, at most the limits' @io_vectors
 * @done: called from the loop, @error is 0 or a negative errno
 * @received: of a write, before @done, at most once and only if the backup was opened
 *	with @receipts: the bytes are in the memory of the host that keeps the backup,
 *	which writes them even if this daemon dies; may be NULL
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
	struct loop_op op;
	struct backup *backup;
	uint32_t left;
	uint32_t tries;
	struct backup_io *next;
};

/**
 * struct backup_options - how a backup is to be opened
 * @path: where it is
 * @bytes: length that a file has, 0: any
 * @create: make a file of @bytes where there is none
 * @lock_wait: seconds to wait for a predecessor's I/O
 * @read_only: to look at only: shared with other readers
 * @beside: with @read_only: also while another daemon writes, where the make supports it
 * @fence_term: take the hold from a holder with a lower term, and refuse the same and
 *	lower terms from then on (-ESTALE); 0: wait until the backup is free. Only for
 *	makes that several hosts reach: the kernel knows the holder of a local file or
 *	device
 * @key: file of the secret shared with the host that keeps the backup, or NULL
 * @timeout: seconds after which a request that is not answered has failed
 * @receipts: @received is wanted of writes; for makes that can
 * @progress: called now and then during what takes long, may be NULL; what it
 *	returns other than 0 ends the opening with this error
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
 * @logical: smallest unit of I/O
 * @physical: unit that is written as one, as far as it tells
 * @io_bytes: longest request
 * @io_vectors: most elements of a request
 * @volatile_cache: a flush is needed for anything to last
 * @term: the highest of all its holders so far; 0: none is known
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
 * struct backup_make - one way of reaching a backup
 * @name: of the make, for messages
 * @takes: whether @path is one of its
 * @open: fills in @limits; errors are logged.  Uses no loop
 * @attach: from now on I/O goes through @backup->loop
 * @detach: no more; nothing is in flight
 * @submit: starts a request that backup_submit() has checked
 * @close: after @detach
 * @memory: most writes will come from here; may be NULL.  An error means that
 *	they are copied
 */
struct backup_make {
	const char *name;
	bool (*takes)(const char *path);
	int (*open)(struct backup *backup, const struct backup_options *options);
	int (*attach)(struct backup *backup);
	void (*detach)(struct backup *backup);
	void (*submit)(struct backup *backup, struct backup_io *io);
	void (*close)(struct backup *backup);
	int (*memory)(struct backup *backup, const void *base, size_t bytes);
};

struct backup {
	const struct backup_make *make;
	struct loop *loop;
	const char *path;
	struct backup_limits limits;
	unsigned int in_flight;
	int error;		/* it is over, as the make has seen without a request */
	bool read_only;
	void *private;
	void *below;		/* a make's that does its I/O by another make */
};

#define BACKUP_IO_BYTES		(1u << 20)	/* no make takes longer requests */

extern const struct backup_make backup_file_make, backup_nvmf_make;

void backup_register(const struct backup_make *make);
int backup_open(struct backup *backup, struct loop *loop, const struct backup_options *options);
int backup_move(struct backup *to, struct loop *loop, struct backup *from);
void backup_detach(struct backup *backup);
void backup_close(struct backup *backup);
void backup_memory(struct backup *backup, const void *base, size_t bytes);
void backup_submit(struct backup_io *io, struct backup *backup);
int backup_transfer(struct backup *backup, enum backup_what what, uint64_t offset, void *data,
		    uint32_t length);
void backup_io_complete(struct backup_io *io, int error);

#endif
