// SPDX-License-Identifier: GPL-2.0
/* Durable writes to a block device: each followed by fdatasync, or many in flight. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <unistd.h>

#include "bench.h"

#define BLOCK	4096u

static int fd;
static uint64_t blocks;

static void device_setup(struct bench *bench)
{
	uint64_t bytes;

	if (!bench->path)
		fail("-p PATH", EINVAL);
	fd = open(bench->path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &bytes))
		fail(bench->path, errno);
	blocks = (bytes < bench->bytes ? bytes : bench->bytes) / BLOCK;
}

/* On a block device an object of up to a block needs a write of one block. */
static uint64_t sync_work(struct worker *worker)
{
	uint8_t *data = get_memory(BLOCK, BLOCK);
	uint64_t operations = 0;

	while (worker_goes_on(worker, operations)) {
		off_t at = (off_t)worker_next(worker, blocks) * BLOCK;

		if (pwrite(fd, data, BLOCK, at) != BLOCK || fdatasync(fd))
			fail(worker->bench->path, errno);
		operations++;
	}
	free(data);
	return operations;
}

static void submit(aio_context_t queue, struct iocb **writes, long nr)
{
	if (nr && syscall(SYS_io_submit, queue, nr, writes) != nr)
		fail("io_submit", errno);
}

/* One thread with @batch writes in flight, each durable when it completes. */
static uint64_t queue_work(struct worker *worker)
{
	uint32_t depth = worker->bench->batch, i;
	struct iocb *writes = calloc(depth, sizeof(*writes)), **again;
	struct io_event *events = calloc(depth, sizeof(*events));
	uint8_t *data = get_memory(BLOCK, BLOCK);
	uint64_t operations = 0;
	aio_context_t queue = 0;
	long under_way = depth, ended, nr, j;

	again = calloc(depth, sizeof(*again));
	if (!writes || !again || !events)
		fail("memory", ENOMEM);
	if (syscall(SYS_io_setup, depth, &queue))
		fail("io_setup", errno);
	for (i = 0; i < depth; i++) {
		again[i] = &writes[i];
		writes[i].aio_lio_opcode = IOCB_CMD_PWRITE;
		writes[i].aio_rw_flags = RWF_DSYNC;
		writes[i].aio_fildes = (uint32_t)fd;
		writes[i].aio_buf = (uintptr_t)data;
		writes[i].aio_nbytes = BLOCK;
		writes[i].aio_offset = (int64_t)worker_next(worker, blocks) * BLOCK;
	}
	submit(queue, again, depth);
	while (under_way) {
		ended = syscall(SYS_io_getevents, queue, 1, depth, events, NULL);
		if (ended < 1)
			fail("io_getevents", errno);
		for (j = nr = 0; j < ended; j++) {
			if (events[j].res != BLOCK)
				fail(worker->bench->path, EIO);
			if (!worker_goes_on(worker, ++operations))
				continue;
			again[nr] = (struct iocb *)(uintptr_t)events[j].obj;
			again[nr++]->aio_offset = (int64_t)worker_next(worker, blocks) * BLOCK;
		}
		submit(queue, again, nr);
		under_way += nr - ended;
	}
	syscall(SYS_io_destroy, queue);
	free(data);
	free(events);
	free(again);
	free(writes);
	return operations;
}

const struct mode block_modes[] = {
	{ "sync-write", device_setup, sync_work, NULL, true },
	{ "queue-write", device_setup, queue_work, NULL, true },
	{ 0 }
};
