// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl check of a damaged backup in a file: its exit code must agree with the result of
 * recovery for the same bytes.
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "edits.h"
#include "../../tools/lsmemctl/ctl.h"

bool ctl_json = true;

/* Replace lsmemctl's own functions, which print. */
static uint32_t errors;

void ctl_error(const char *format, ...)
{
	(void)format;
	errors++;
}

void ctl_system_error(int error, const char *format, ...)
{
	(void)format;
	(void)error;
	errors++;
}

int ctl_usage_error(const char *format, ...)
{
	fuzz_fail("usage: %s", format);
}

static int file_of(const struct image *image)
{
	int fd = memfd_create("backup", MFD_CLOEXEC);
	uint64_t i;

	if (fd < 0 || ftruncate(fd, (off_t)image->bytes))
		fuzz_fail("no file: %s", strerror(errno));
	for (i = 0; i < image->bytes / LSMEM_BLOCK; i++)
		if (image->blocks[i] &&
		    pwrite(fd, image->blocks[i], LSMEM_BLOCK, (off_t)(i * LSMEM_BLOCK)) !=
		    LSMEM_BLOCK)
			fuzz_fail("no file: %s", strerror(errno));
	return fd;
}

/* Discard the output of lsmemctl. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	if (!freopen("/dev/null", "w", stdout))
		fuzz_fail("/dev/null: %s", strerror(errno));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct attempt direct = { 0 };
	struct edited e;
	char path[32], *argv[] = { "check", path, NULL };
	uint64_t bytes;
	int fd, ret, code;

	if (!edits_apply(&e, data, size))
		return 0;
	e.image->fault = UINT64_MAX;
	ret = attempt(&direct, e.image, ATTEMPT_CHECK);
	fd = file_of(e.image);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	errors = 0;
	optind = 0;
	code = ctl_check.run(2, argv);
	close(fd);
	bytes = e.image->bytes;
	image_reset(e.image);
	if (!ret && direct.state == RECOVER_BLANK) {
		/* Both superblock copies are gone, but lsmemctl must see the rest. */
		if (bytes == e.image->full_bytes && code != CTL_DAMAGED)
			fuzz_fail("exit code %d for a backup without superblocks", code);
		return 0;
	}
	if (ret == -EBADMSG && (strstr(direct.last, "a backup of format ") || strstr(direct.last, "of a coded store"))) {
		if (code != CTL_FAILED)
			fuzz_fail("exit code %d for a backup of an older format, or of a coded store", code);
		return 0;
	}
	if (code != (!ret ? CTL_OK : ret == -ENOMEM ? CTL_FAILED : CTL_DAMAGED))
		fuzz_fail("recovery says %d, and lsmemctl check exits with %d", ret, code);
	if (code == CTL_FAILED && !errors)
		fuzz_fail("exit code %d without a message", code);
	return 0;
}
