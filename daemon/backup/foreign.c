// SPDX-License-Identifier: GPL-2.0
/* What else a backup may hold: see foreign.h. */
#include <blkid/blkid.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "foreign.h"

/* The value of one of libblkid's names; NULL: there is none. */
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

/* A file of the backup's length with its two ends in it: libblkid reads nothing else. */
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
 * foreign_name - say what a backup holds that is not lsmem's
 * @head: its first @length bytes
 * @tail: its last @length bytes; the two may overlap
 * @length: at most @bytes
 * @bytes: its size
 * @name: out, for a message
 *
 * Returns whether libblkid knows what it is. A backup that another host keeps is known as well as
 * a drive of this one.
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
