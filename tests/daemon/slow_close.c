// SPDX-License-Identifier: GPL-2.0
/*
 * For guest-rdma.sh, by LD_PRELOAD: to give memory back to an RDMA device takes longer than a tick of lsmemd, so that its
 * timers run out while it closes its backups.
 */
#include <dlfcn.h>
#include <time.h>

#include <infiniband/verbs.h>

#define SLOW_MS	1200

int ibv_dereg_mr(struct ibv_mr *mr)
{
	int (*real)(struct ibv_mr *mr) = dlsym(RTLD_NEXT, "ibv_dereg_mr");
	const struct timespec slow = { SLOW_MS / 1000, SLOW_MS % 1000 * 1000000 };

	nanosleep(&slow, NULL);
	return real(mr);
}
