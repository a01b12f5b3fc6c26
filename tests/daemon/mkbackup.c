// SPDX-License-Identifier: GPL-2.0
/*
 * Formats a file as an empty backup, without the kernel: for tests of what
 * lsmemd says to backups.  mkbackup FILE STORE-MIB
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../daemon/recover.h"
#include "../../uapi/lsmem.h"

static int file_read(void *context, uint64_t offset, void *data, uint32_t length)
{
	return pread(*(int *)context, data, length, (off_t)offset) == length ? 0 : -EIO;
}

static int file_write(void *context, uint64_t offset, const void *data, uint32_t length)
{
	return pwrite(*(int *)context, data, length, (off_t)offset) == length ? 0 : -EIO;
}

static int file_flush(void *context)
{
	return fdatasync(*(int *)context) ? -errno : 0;
}

static void file_report(void *context, enum recover_severity severity, const char *text)
{
	(void)context;
	fprintf(stderr, "%s%s\n", severity == RECOVER_DAMAGE ? "damage: " : "", text);
}

int main(int argc, char **argv)
{
	struct recover_geometry geometry;
	struct recover_env env;
	enum recover_state state;
	struct recover *r;
	struct stat st;
	int fd, err;

	if (argc != 3)
		return 2;
	fd = open(argv[1], O_RDWR);
	if (fd < 0 || fstat(fd, &st)) {
		perror(argv[1]);
		return 1;
	}
	memset(&env, 0, sizeof(env));
	env.context = &fd;
	env.backup_bytes = (uint64_t)st.st_size;
	env.read = file_read;
	env.write = file_write;
	env.flush = file_flush;
	env.report = file_report;
	memset(&geometry, 0, sizeof(geometry));
	memset(geometry.uuid, 0x5a, sizeof(geometry.uuid));
	geometry.incarnation = 12345;
	geometry.kind = LSMEM_KIND_OBJECT;
	geometry.store_bytes = strtoull(argv[2], NULL, 10) << 20;
	geometry.max_handles = geometry.store_bytes / 256;
	geometry.frames = (uint32_t)(geometry.store_bytes / LSMEM_SEGMENT_BYTES);
	r = recover_new(&env);
	if (!r)
		return 1;
	err = recover_open(r, &state);
	if (!err)
		err = recover_format(r, &geometry);
	recover_free(r);
	close(fd);
	if (err)
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-err));
	return err ? 1 : 0;
}
