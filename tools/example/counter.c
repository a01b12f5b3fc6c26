// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * A counter in a range of pages: counter [FILE [STORE]].  FILE remembers the root, the only way back to the
 * range.
 */
#include <error.h>
#include <inttypes.h>
#include <lsmem.h>
#include <stdio.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/tmp/demo.root";
	const char *node = argc > 2 ? argv[2] : "/dev/lsmem";
	FILE *file = fopen(path, "a+");
	unsigned long *counter;
	struct lsm *lsm;
	uint64_t root;
	int ret, fd;

	ret = lsm_open(node, 0, &lsm);
	if (ret || !file)
		error(1, -ret, "%s, %s", node, path);
	rewind(file);
	if (fscanf(file, "%" SCNx64, &root) == 1) {
		fd = lsm_pages_open(lsm, root, 0);
	} else {
		fd = lsm_pages_create(lsm, 4096, 0, 0, &root);
		if (fd >= 0 && (fprintf(file, "%" PRIx64 "\n", root) < 0 || fflush(file)))
			error(1, 0, "%s cannot be written", path);
	}
	if (fd < 0)
		error(1, -fd, "range %" PRIx64, root);
	counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counter == MAP_FAILED)
		error(1, 0, "the range cannot be mapped");
	++*counter;					/* a store to memory */
	ret = msync(counter, 4096, MS_SYNC);		/* 0: it is on the backup */
	printf("%lu\n", *counter);
	lsm_close(lsm);
	return ret;
}
