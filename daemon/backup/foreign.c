// SPDX-License-Identifier: GPL-2.0
/* Other contents of a backup: see foreign.h. */
#include <blkid/blkid.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "foreign.h"

/* Return: the value of a libblkid tag, or NULL. */
static const char *value(blkid_probe probe, const char *name)
{
	const char *text;

	return blkid_probe_lookup_value(probe, name, &text, NULL) ? NULL : text;
}

static bool describe(blkid_probe probe, char name[FOREIGN_BYTES])
{
	const char *type = value(probe, "TYPE"), *table = value(probe, "PTTYPE");
	const char *label = value(probe, "LABEL");

	if (type && label)
		snprintf(name, FOREIGN_BYTES, "%s, labelled \"%s\"", type, label);
	else if (type)
		snprintf(name, FOREIGN_BYTES, "%s", type);
	else if (table)
		snprintf(name, FOREIGN_BYTES, "a partition table (%s)", table);
	return type || table;
}

/* Make a sparse file as long as the backup, with its two ends: libblkid reads nothing else. */
static int make_file(const void *head, const void *tail, size_t length, uint64_t bytes)
{
	int fd = memfd_create("backup", MFD_CLOEXEC);

	if (fd < 0)
		return -1;
	if (!ftruncate(fd, (off_t)bytes) && pwrite(fd, head, length, 0) == (ssize_t)length &&
	    pwrite(fd, tail, length, (off_t)(bytes - length)) == (ssize_t)length)
		return fd;
	close(fd);
	return -1;
}

/**
 * foreign_name - recognize contents of a backup that are not lsmem's
 * @head: the first @length bytes of the backup
 * @tail: the last @length bytes; @head and @tail may cover the same bytes
 * @length: bytes, at most @bytes
 * @bytes: size of the backup
 * @name: out: a description for messages; unchanged if nothing is recognized
 *
 * Works on copies of the two ends, and so for backups on other hosts, too.
 *
 * Return: whether libblkid recognizes the contents.
 */
bool foreign_name(const void *head, const void *tail, size_t length, uint64_t bytes,
		  char name[FOREIGN_BYTES])
{
	int fd = make_file(head, tail, length, bytes);
	blkid_probe probe = blkid_new_probe();
	bool known = false;

	if (fd >= 0 && probe && !blkid_probe_set_device(probe, fd, 0, 0) &&
	    !blkid_probe_enable_superblocks(probe, 1) && !blkid_probe_enable_partitions(probe, 1) &&
	    !blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL) &&
	    !blkid_do_fullprobe(probe))
		known = describe(probe, name);
	blkid_free_probe(probe);
	if (fd >= 0)
		close(fd);
	return known;
}
