// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
#include <error.h>
#include <lsmem.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	const char *node = argc > 1 ? argv[1] : "/dev/lsmem";
	struct lsm_view view;
	struct lsm *lsm;
	uint64_t handle;
	char copy[8];
	int ret;

	ret = lsm_open(node, 0, &lsm) ?: lsm_alloc(lsm, "hello", 5, 0, &handle, NULL);
	if (ret)
		error(1, -ret, "%s", node);
	lsm_read(lsm, handle, copy, 5, 0, NULL);	/* copies, no system call */
	if (lsm_view_begin(lsm, handle, &view))		/* in place, no system call */
		return 1;
	lsm_replace(lsm, handle, "world!", 6, 0, NULL);	/* the view does not change */
	printf("%.5s %.5s\n", copy, (char *)view.iov[0].iov_base);
	ret = lsm_view_end(lsm, &view);			/* 0: the view was valid until now */
	lsm_free(lsm, handle, 0, NULL);
	lsm_close(lsm);
	return ret;
}
