// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* A store for liblsmem-preload.so where there is no module: its region is a file in memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <lsmem.h>

#define CAPACITY	(512u << 20)

struct lsm {
	int fd;
};

static struct lsm fake;

int lsm_open(const char *path, unsigned int flags, struct lsm **lsm)
{
	(void)flags;
	fake.fd = open(path, O_RDWR | O_CLOEXEC);
	if (fake.fd < 0)
		return -errno;
	*lsm = &fake;
	return 0;
}

void lsm_close(struct lsm *lsm)
{
	close(lsm->fd);
}

int lsm_fd(const struct lsm *lsm)
{
	return lsm->fd;
}

int lsm_stat_sized(struct lsm *lsm, struct lsmem_stat *stat, size_t size)
{
	(void)lsm;
	(void)size;
	stat->capacity = CAPACITY;
	return 0;
}

int lsm_pages_create(struct lsm *lsm, uint64_t length, uint64_t buffer, unsigned int flags,
		     uint64_t *root)
{
	int fd = memfd_create("region", MFD_CLOEXEC);

	(void)lsm;
	(void)buffer;
	(void)flags;
	if (fd < 0 || ftruncate(fd, length))
		return -errno;
	*root = 1;
	return fd;
}

int lsm_pages_remove(struct lsm *lsm, uint64_t root)
{
	(void)lsm;
	(void)root;
	return 0;
}
