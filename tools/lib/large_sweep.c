// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: what is left of large objects after a crash.
 *
 * Each part says which index object it was made for, and which version of it its writer was going to replace.  A part
 * that is not named there, and can no longer be, is an orphan: the index object is gone, or has another version than
 * the writer expects.  If it still has that version, the writer may be at work: the index object is replaced by itself,
 * so that the writer comes too late and begins again.  So a sweep can run beside all other calls.
 */
#include <errno.h>
#include <stdlib.h>

#include "large.h"

/**
 * struct found - what a scan has found
 * @handle: of the object
 * @part: what it begins with, of an index object as well
 */
struct found {
	uint64_t handle;
	struct lsm_large_part part;
};

/**
 * struct sweep - a sweep that is under way
 * @found: index objects and parts
 * @nr: entries of @found
 * @room: for so many
 */
struct sweep {
	struct found *found;
	size_t nr;
	size_t room;
};

static int find_objects(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	struct sweep *sweep = context;
	struct found *more;
	size_t i, room;

	(void)thread;	/* there is one */
	for (i = 0; i < nr; i++) {
		if (rows[i].bytes < sizeof(sweep->found->part))
			continue;
		if (sweep->nr == sweep->room) {
			room = sweep->room ? 2 * sweep->room : 1024;
			more = realloc(sweep->found, room * sizeof(*more));
			if (!more)
				return -ENOMEM;
			sweep->found = more;
			sweep->room = room;
		}
		sweep->found[sweep->nr].handle = rows[i].handle;
		memcpy(&sweep->found[sweep->nr].part, rows[i].data, sizeof(sweep->found->part));
		switch (__le64_to_cpu(sweep->found[sweep->nr].part.magic)) {
		case LSM_LARGE_MAGIC:
		case LSM_PART_MAGIC:
			sweep->nr++;
		}
	}
	return 0;
}

/**
 * lsm_large_orphan() - tell whether no index object names a part, nor will
 * @lsm: store
 * @handle: of the part
 * @part: what it begins with
 *
 * Return: 1, 0; an error as lsm_replace(), of the index object.
 */
int lsm_large_orphan(struct lsm *lsm, uint64_t handle, const struct lsm_large_part *part)
{
	uint64_t owner = __le64_to_cpu(part->owner), number = __le64_to_cpu(part->number), version;
	struct lsm_large_index *index;
	struct lsm_object object;
	int ret;

	do {
		ret = lsm_large_index_read(lsm, owner, &object, &index);
		if (ret == -ESTALE || ret == -ENOENT)
			return 1;
		if (ret)
			return ret;
		version = object.version;
		if (number < lsm_large_nr(__le64_to_cpu(index->length), __le32_to_cpu(index->part)) &&
		    __le64_to_cpu(index->parts[number]) == handle)
			ret = 0;
		else if (version != __le64_to_cpu(part->base))
			ret = 1;
		else
			ret = lsm_replace(lsm, owner, index, object.length, LSM_EXPECT | lsm->durable, &version) ?: 1;
		free(index);
	} while (ret == -EILSEQ);
	/* After a crash, which ends the writer, either version may be there: neither names the part. */
	return ret == -ETIMEDOUT || ret == -ESTALE ? 1 : ret;
}

/* Are all parts of an index object there? -EILSEQ: it has changed meanwhile. */
static int check_parts(struct lsm *lsm, uint64_t handle, struct lsm_large_report *report)
{
	struct lsm_large_index *index;
	struct lsm_object object, now;
	struct lsm_large_part part;
	uint64_t nr, i, there = 0;
	ssize_t got;
	int ret;

	ret = lsm_large_index_read(lsm, handle, &object, &index);
	if (ret == -ESTALE)
		return 0;	/* freed since the scan */
	if (ret)
		return ret;
	nr = lsm_large_nr(__le64_to_cpu(index->length), __le32_to_cpu(index->part));
	for (i = 0; i < nr && !ret; i++) {
		if (!index->parts[i])
			continue;
		got = lsm_read(lsm, __le64_to_cpu(index->parts[i]), &part, sizeof(part), 0, NULL);
		if (got == sizeof(part) && __le64_to_cpu(part.magic) == LSM_PART_MAGIC &&
		    __le64_to_cpu(part.owner) == handle && __le64_to_cpu(part.number) == i)
			there++;
		else if (got < 0 && got != -ESTALE && got != -ENOENT)
			ret = (int)got;
		else
			ret = -EUCLEAN;
	}
	free(index);
	if (ret == -EUCLEAN) {
		got = lsm_read(lsm, handle, NULL, 0, 0, &now);
		if (got == -ESTALE)
			return 0;
		if (got < 0)
			return (int)got;
		if (now.version != object.version)
			return -EILSEQ;
		report->broken++;
		ret = 0;
	}
	if (ret)
		return ret;
	report->objects++;
	report->parts += there;
	return 0;
}

static int sweep_found(struct lsm *lsm, const struct found *found, struct lsm_large_report *report)
{
	int ret;

	if (__le64_to_cpu(found->part.magic) == LSM_LARGE_MAGIC) {
		do
			ret = check_parts(lsm, found->handle, report);
		while (ret == -EILSEQ);
		return ret;
	}
	ret = lsm_large_orphan(lsm, found->handle, &found->part);
	if (ret == 1) {
		ret = lsm_free(lsm, found->handle, 0, NULL);
		report->orphans += !ret;
		ret = ret == -ESTALE ? 0 : ret;		/* its writer was faster */
	}
	return ret;
}

int lsm_large_sweep(struct lsm *lsm, uint32_t table, struct lsm_large_report *report)
{
	struct sweep sweep = { .nr = 0 };
	/* No snapshot: what has changed since is looked at again. */
	const struct lsm_scan scan = {
		.plan = LSM_PLAN_TABLE,
		.threads = 1,
		.prefix = sizeof(struct lsm_large_part),
		.one_table = 1,
		.table = table,
		.length_min = sizeof(struct lsm_large_part),
		.batch = find_objects,
		.context = &sweep,
	};
	struct lsm_scan_result result;
	size_t i;
	int ret;

	memset(report, 0, sizeof(*report));
	/* What a crash must not bring back is durable before a part is freed for it. */
	ret = lsm->durable ? lsm_sync(lsm, 0) : 0;
	if (!ret)
		ret = lsm_scan(lsm, &scan, &result);
	for (i = 0; i < sweep.nr && !ret; i++)
		ret = sweep_found(lsm, &sweep.found[i], report);
	if (!ret)
		report->unseen = result.cold;
	free(sweep.found);
	return ret;
}
