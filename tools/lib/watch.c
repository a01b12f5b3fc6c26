// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* liblsmem: notes of the changes of a table, from a descriptor of the kernel's (LSMEM_IOC_WATCH). */
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "internal.h"

int lsm_watch_open(struct lsm *lsm, uint32_t table, uint32_t entries, uint64_t cursor, unsigned int flags)
{
	struct lsmem_watch watch = {
		.size = sizeof(watch),
		.flags = flags,
		.table = table,
		.entries = entries,
		.cursor = cursor,
	};
	int ret;

	if (flags & ~LSM_NONBLOCK)
		return -EINVAL;
	ret = lsm->call(lsm, LSMEM_IOC_WATCH, &watch);
	if (ret)
		return ret == -ENOTTY ? -EOPNOTSUPP : ret;
	return watch.fd;
}

ssize_t lsm_watch_read(int watch, struct lsmem_note *notes, size_t nr)
{
	ssize_t ret;

	if (nr > SSIZE_MAX / sizeof(*notes))
		nr = SSIZE_MAX / sizeof(*notes);
	ret = read(watch, notes, nr * sizeof(*notes));
	return ret < 0 ? -errno : ret / (ssize_t)sizeof(*notes);
}
