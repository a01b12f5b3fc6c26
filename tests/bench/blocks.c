// SPDX-License-Identifier: GPL-2.0
/* Writes to a block device, each followed by fdatasync; and reads of all of it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
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

/* An object of up to a block costs a device one block. */
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

const struct mode block_modes[] = {
	{ "sync-write", device_setup, sync_work, NULL },
	{ 0 }
};
