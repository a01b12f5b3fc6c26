// SPDX-License-Identifier: GPL-2.0
/*
 * on_region STORE FILE DESCRIPTOR COMMAND ..: run a command that inherits a descriptor of a region, as
 * DESCRIPTOR.  FILE has the region's handle; if it does not exist, the region is made, of no bytes, and
 * then FILE.
 * on_region STORE FILE: remove the region, and FILE.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lsmem.h>

#define BUFFER	(1u << 20)	/* less than the databases of the tests */

static int fail(const char *what, int error)
{
	fprintf(stderr, "on_region: %s: %s\n", what, strerror(error));
	return 125;
}

int main(int argc, char **argv)
{
	uint64_t root = 0;
	struct lsm *lsm;
	FILE *file;
	int ret, fd;

	if (argc != 3 && argc < 5) {
		fprintf(stderr, "usage: on_region STORE FILE [DESCRIPTOR COMMAND ..]\n");
		return 125;
	}
	ret = lsm_open(argv[1], LSM_NO_WINDOWS, &lsm);
	if (ret)
		return fail(argv[1], -ret);
	file = fopen(argv[2], "r");
	if (file && fscanf(file, "%" SCNx64, &root) != 1)
		return fail(argv[2], EINVAL);
	if (argc == 3) {
		ret = lsm_pages_remove(lsm, root);
		if (ret)
			return fail("remove", -ret);
		return remove(argv[2]) ? fail(argv[2], errno) : 0;
	}
	fd = file ? lsm_pages_open(lsm, root, BUFFER) : lsm_pages_create(lsm, 0, BUFFER, 0, &root);
	if (fd < 0)
		return fail("the region", -fd);
	if (!file) {
		file = fopen(argv[2], "w");
		if (!file || fprintf(file, "%" PRIx64 "\n", root) < 0)
			return fail(argv[2], errno);
	}
	fclose(file);
	lsm_close(lsm);
	if (dup2(fd, atoi(argv[3])) < 0)
		return fail("dup2", errno);
	if (fd != atoi(argv[3]))
		close(fd);
	else
		fcntl(fd, F_SETFD, 0);
	execvp(argv[4], argv + 4);
	return fail(argv[4], errno);
}
