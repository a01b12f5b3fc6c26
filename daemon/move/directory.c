// SPDX-License-Identifier: GPL-2.0
/* The listings of a segment, from any of its replicas: see directory.h. */
#include <errno.h>

#include "directory.h"

/* The next replica; what is known of the segment may have changed since the last one. */
static int next_replica(struct directory *d)
{
	struct core_listed listed;
	struct digest_log log;
	uint32_t left, from, to;

	if (!core_listed(d->core, d->segment, &listed))
		return -ENOENT;
	left = listed.replicas & ~d->tried;
	if (!left)
		return -EIO;
	d->backup = (uint32_t)__builtin_ctz(left);
	d->tried |= 1u << d->backup;
	d->of = (struct listings){
		.super = core_super(d->core, &log), .indices = d->indices, .segment = d->segment,
		.generation = listed.generation, .length = listed.length, .closed = listed.closed,
	};
	listings_range(&d->of, &from, &to);
	d->offset = listed.offset[d->backup] + from;
	d->length = to - from;
	return 1;
}

/**
 * directory_begin - begin to read the listings of a segment
 * @directory: out: what to read; @core, @indices, @bytes and @listings are filled in. No read is under way
 * @segment: id
 *
 * Return: 1: read what @directory says, then call directory_read(); -ENOENT: the segment is not closed, or retired; -EIO: no
 * replica of it can be read.
 */
int directory_begin(struct directory *directory, uint64_t segment)
{
	directory->segment = segment;
	directory->tried = 0;
	return next_replica(directory);
}

/**
 * directory_read - a read has ended
 * @directory: out: what to read next
 * @error: 0; or a negative errno
 * @nr: out, with the result 0: number of @listings of @directory, as source_directory() takes them
 *
 * Return: 0: all is read; 1, -ENOENT or -EIO as directory_begin().
 */
int directory_read(struct directory *directory, int error, uint32_t *nr)
{
	int ret = error ? error : listings_make(&directory->of, directory->bytes, directory->listings);

	if (ret < 0)
		return next_replica(directory);
	*nr = (uint32_t)ret;
	return 0;
}
