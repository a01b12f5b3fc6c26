// SPDX-License-Identifier: GPL-2.0
/*
 * Random calls: ranges of pages.  Ranges are made, opened, forged and removed by all processes, which
 * find each other's by their roots; their descriptors are used as files, as pools and mapped, by threads
 * that close, cut and unmap them meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "calls.h"

#define NR(x)		(sizeof(x) / sizeof(*(x)))
#define PAGES		(RANGE_ROOM / PAGE)
#define FORGED_LEVELS	6u	/* one more than the kernel accepts */

static long outcome(long ret)
{
	return ret < 0 ? -errno : 0;
}

/* Choose a descriptor of a range.  Of another file, what the calls below do could hit the load's data. */
static bool pick_range(struct making *m)
{
	pick_fd(m, &m->call->gene[0], FD_PAGES);
	return how_of(&m->call->gene[0]) == VALID && m->fd >= 0;
}

/* An offset in a range, most often in the first pages, where callers meet. */
static uint64_t some_offset(const struct gene *gene)
{
	switch (how_of(gene)) {
	case VALID:
		return gene->small % 4 ? gene->bits % PAGES * PAGE : gene->bits % RANGE_ROOM;
	case BOUNDARY:	/* the longest range that there can be */
		return LSMEM_PAGES_LENGTH_MAX - gene->bits % (2 * PAGE);
	case STALE:	/* the first and last pages of a node */
		return (uint64_t)(1 + gene->bits % 8) * LSMEM_NODE_SLOTS * PAGE - gene->small % 2 * PAGE;
	case FOREIGN:
		return (uint64_t)gene->bits * PAGE;
	case GARBAGE:
		return 1ull << 63 | gene->bits;
	default:
		return 0;
	}
}

static uint64_t some_bytes(const struct gene *gene)
{
	if (how_of(gene) == VALID)
		return 1 + gene->bits % (gene->small % 8 ? 3 * PAGE : RANGE_ROOM);
	return how_of(gene) == GARBAGE ? (uint64_t)gene->bits << 12 : PAGE;
}

/* ---- Ranges ------------------------------------------------------------- */

void pages_done(struct making *m, const uint8_t *bytes, long ret)
{
	struct lsmem_pages pages;

	memcpy(&pages, bytes, sizeof(pages));
	if (ret)
		return;
	if (pages.flags & LSMEM_PAGES_REMOVE) {
		if (m->store >= 0)
			pool_update(&shared->store[m->store].roots, pages.root, 0, 0);
		return;
	}
	keep_fd(m->me->process, pages.fd, FD_PAGES, m->store);
	if (m->store < 0)
		return;
	pool_put(&shared->store[m->store].roots, pages.root, 0);
	if (m->call->gene[0].at % 8 == 0)	/* others change the root as an object */
		pool_put(&shared->store[m->store].live, pages.root, 0);
}

void page_done(struct making *m, const uint8_t *bytes, long ret)
{
	struct lsmem_page page;

	memcpy(&page, bytes, sizeof(page));
	if (!ret && page.op != LSMEM_PAGE_FREE && m->store >= 0 && m->call->gene[0].at % 4 == 0)
		pool_put(&shared->store[m->store].live, page.handle, 0);
}

/* Handles for a node or a root that is forged; none is the load's. */
static uint64_t some_object(const struct making *m, uint32_t which)
{
	uint64_t handle = 0, version;

	pool_get(&shared->store[m->store].live, which, &handle, &version);
	return is_owned(handle) ? 0 : handle;
}

static long object_alloc(const struct making *m, const void *data, uint32_t length,
			 __u64 *handle)
{
	struct lsmem_op op = {
		.size = sizeof(op), .op = LSMEM_OP_ALLOC, .data = (uintptr_t)data, .length = length,
	};
	long ret = outcome(ioctl(m->fd, LSMEM_IOC_ALLOC, &op));

	*handle = op.handle;
	return ret;
}

/* Make a root and a node that no kernel has written.  The node may be its own child. */
long run_range_forge(struct making *m)
{
	const struct gene *gene = m->call->gene;
	struct lsmem_pages_root root = {
		.magic = LSMEM_PAGES_MAGIC,
		.flags = gene[2].bits & (LSMEM_PAGES_POOL | LSMEM_PAGES_ATOMIC),
		.table = gene[2].small % LSMEM_TABLES,
		.length = some_offset(&gene[3]),
		.levels = gene[4].bits % (FORGED_LEVELS + 1),
	};
	uint64_t node[LSMEM_NODE_SLOTS];
	__u64 handle;
	struct lsmem_op op = {
		.size = sizeof(op), .op = LSMEM_OP_REPLACE, .data = (uintptr_t)node,
		.length = sizeof(node),
	};
	uint32_t nr = 1 + gene[6].bits % LSMEM_NODE_SLOTS, i;
	long ret;

	pick_fd(m, &gene[0], FD_OBJECT);
	if (!m->sure)	/* it may be another file by now */
		return -EBADF;
	if (how_of(&gene[5]) != VALID) {
		root.journal = some_object(m, gene[5].bits);
		root.stage = gene[5].small % 4;
	}
	note(m, m->fd, LSMEM_PAGES_MAGIC, NULL, &root, sizeof(root));
	memset(node, 0, sizeof(node));
	for (i = 0; i < nr; i++)
		node[i] = some_object(m, gene[7].bits + i);
	ret = object_alloc(m, node, nr * sizeof(*node), &op.handle);
	if (ret)
		return ret;
	if (gene[6].small % 4 == 0) {
		node[gene[6].small % nr] = op.handle;
		(void)ioctl(m->fd, LSMEM_IOC_REPLACE, &op);
	}
	root.top = root.levels ? op.handle : 0;
	ret = object_alloc(m, &root, sizeof(root), &handle);
	if (!ret)
		pool_put(&shared->store[m->store].roots, handle, 0);
	return ret;
}

/* ---- Files -------------------------------------------------------------- */

/* Data of a read or a write: memory of the caller's, or pages of a range, perhaps of this one. */
static uint8_t *some_data(struct making *m, const struct gene *gene, uint32_t length, bool out)
{
	if (gene->small % 8 == 0)
		return m->me->ranges + gene->bits % (RANGE_MAPS * RANGE_ROOM - AREA_BYTES);
	return place(m, gene, HEAP_DATA, length, out);
}

static long range_read(struct making *m, uint64_t offset)
{
	uint32_t length = some_length(&m->call->gene[3]);
	uint8_t *data = some_data(m, &m->call->gene[1], length, true);
	struct iovec iov[2] = { { data, length / 2 }, { data + length / 2, length - length / 2 } };
	long ret;

	if ((off_t)offset < 0)
		is_wrong(m, EINVAL);
	note(m, m->fd, offset, data, &length, sizeof(length));
	ret = outcome(preadv(m->fd, iov, 2, (off_t)offset));
	judge(m, &descriptions[m->call->kind], ret);
	return ret;
}

static long range_write(struct making *m, uint64_t offset)
{
	uint32_t length = some_length(&m->call->gene[3]);
	uint8_t *data = some_data(m, &m->call->gene[1], length, false);
	struct iovec iov[2] = { { data, length / 2 }, { data + length / 2, length - length / 2 } };

	note(m, m->fd, offset, data, &length, sizeof(length));
	return outcome(pwritev(m->fd, iov, 2, (off_t)offset));
}

static long range_allocate(struct making *m, uint64_t offset, uint64_t bytes)
{
	static const int modes[] = {
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_ZERO_RANGE, FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE,
	};

	return outcome(fallocate(m->fd, modes[m->call->gene[4].small % NR(modes)], (off_t)offset,
				 (off_t)bytes));
}

/* Calls of a file that are refused, or do little. */
static long range_other(struct making *m, uint64_t offset, uint64_t bytes)
{
	const struct gene *gene = &m->call->gene[4];
	int null = m->me->process->null;
	loff_t at = (loff_t)offset;

	switch (gene->small % 9) {
	case 0:
		return outcome(lseek(m->fd, (off_t)offset, (int)gene->bits % 6));
	case 1:
		return outcome(sendfile(null, m->fd, &at, bytes));
	case 2:
		return outcome(copy_file_range(m->fd, &at, null, NULL, bytes, 0));
	case 3:
		return -posix_fadvise(m->fd, (off_t)offset, (off_t)bytes, (int)gene->bits % 6);
	case 4:
		return outcome(fcntl(m->fd, F_SETFL, gene->bits & (O_APPEND | O_NONBLOCK | O_DIRECT)));
	case 5:
		return outcome(fchmod(m->fd, gene->bits & 0777));
	case 6:
		return outcome(readahead(m->fd, (off_t)offset, bytes));
	case 7:
		return outcome(syncfs(m->fd));
	default:
		return outcome(sync_file_range(m->fd, (off_t)offset, (off_t)bytes, gene->bits % 8));
	}
}

long run_range_file(struct making *m)
{
	const struct gene *gene = m->call->gene;
	uint64_t offset = some_offset(&gene[2]), bytes = some_bytes(&gene[5]);
	uint32_t what = gene[4].bits % 16;

	if (!pick_range(m))
		return -EBADF;
	note(m, m->fd, offset, NULL, &what, sizeof(what));
	switch (what) {
	case 0 ... 3:
		return range_read(m, offset);
	case 4 ... 7:
		return range_write(m, offset);
	case 8 ... 9:
		return outcome(ftruncate(m->fd, (off_t)offset));
	case 10 ... 11:
		return range_allocate(m, offset, bytes);
	case 12:
		return outcome(fsync(m->fd));
	case 13:
		return outcome(fdatasync(m->fd));
	default:
		return range_other(m, offset, bytes);
	}
}

/* ---- Mappings ----------------------------------------------------------- */

static uint8_t *range_at(const struct caller *me, uint32_t slot)
{
	return me->ranges + (size_t)slot * RANGE_ROOM;
}

long run_range_map(struct making *m)
{
	static const int odd[] = { MAP_PRIVATE, MAP_SHARED_VALIDATE, MAP_SHARED | MAP_POPULATE,
				   MAP_SHARED | MAP_LOCKED, MAP_SHARED_VALIDATE | MAP_SYNC,
				   MAP_SHARED | MAP_NORESERVE, MAP_SHARED | MAP_HUGETLB };
	const struct gene *gene = m->call->gene;
	uint32_t slot = gene[6].bits % RANGE_MAPS;
	uint64_t offset = some_offset(&gene[2]), length = (1 + gene[3].bits % PAGES) * PAGE;
	int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED;
	uint8_t *at = range_at(m->me, slot);
	void *got;

	if (!pick_range(m))
		return -EBADF;
	if (gene[2].at % 16)
		offset &= ~(uint64_t)(PAGE - 1);
	if (how_of(&gene[4]) != VALID || gene[4].small % 8 == 0)
		prot = gene[4].bits % 8;
	if (how_of(&gene[5]) != VALID || gene[5].small % 8 == 0)
		flags = odd[gene[5].bits % NR(odd)];
	note(m, m->fd, offset, at, &length, sizeof(length));
	got = mmap(at, length, prot, flags | MAP_FIXED, m->fd, (off_t)offset);
	if (got == MAP_FAILED) {
		int error = errno;

		reserve(at, RANGE_ROOM);	/* what was there may be unmapped */
		return -error;
	}
	if (prot & PROT_EXEC && !fd_changed(m))
		failed(VERDICT_PRIVILEGE, "mmap made a range executable");
	return 0;
}

/* Addresses in a mapping of this thread's or another's, or where one was. */
static uint8_t *some_mapped(struct making *m, uint64_t *length)
{
	const struct gene *gene = m->call->gene;
	struct caller *of = &m->me->process->callers[gene[0].small % THREADS];
	uint64_t first = gene[1].small % 4 ? gene[1].bits % PAGES : 0;

	*length = 1 + (gene[1].small / 4 % 4 ? gene[2].bits % 8 : gene[2].bits % PAGES);
	if (*length > PAGES - first)
		*length = PAGES - first;
	*length *= PAGE;
	return range_at(of, gene[0].bits % RANGE_MAPS) + first * PAGE;
}

/* Store to pages, or load from them. */
long run_range_touch(struct making *m)
{
	const struct gene *gene = m->call->gene;
	uint8_t bytes[2 * PAGE], *at;
	uint64_t length, i;

	at = some_mapped(m, &length);
	at += gene[3].bits % PAGE;
	length = 1 + gene[4].bits % (gene[4].small % 8 ? 64 : PAGE);
	note(m, -1, length, at, NULL, 0);
	if (gene[3].small % 4 == 0)
		return touch_copy(bytes, at, length) ? 0 : -EFAULT;
	for (i = 0; i < length; i++)
		bytes[i] = gene[3].small % 16 ? (uint8_t)random_next(&m->random) : 0;
	return touch_copy(at, bytes, length) ? 0 : -EFAULT;
}

/* Access pages by their addresses from the kernel's side: as a debugger does, and by a device. */
static long range_grab(struct making *m, uint8_t *at)
{
	const struct gene *gene = &m->call->gene[4];
	uint64_t word = gene->bits;
	struct iovec local = { &word, sizeof(word) }, remote = { at, sizeof(word) };

	switch (gene->bits % 4) {
	case 0:
		return outcome(process_vm_readv(getpid(), &local, 1, &remote, 1, 0));
	case 1:
		return outcome(process_vm_writev(getpid(), &local, 1, &remote, 1, 0));
	case 2:		/* a device reads the page */
		return outcome(pwrite(m->me->process->block[1], at, PAGE, gene->small % 64 * PAGE));
	default:	/* a device writes to it */
		return outcome(pread(m->me->process->block[1], at, PAGE, gene->small % 64 * PAGE));
	}
}

long run_range_advise(struct making *m)
{
	static const int syncs[] = { MS_SYNC, MS_SYNC, MS_ASYNC, MS_SYNC | MS_INVALIDATE };
	const struct gene *gene = m->call->gene;
	uint64_t length;
	uint8_t *at = some_mapped(m, &length);

	note(m, gene[4].small % 16, length, at, NULL, 0);
	switch (gene[4].small % 16) {
	case 0 ... 3:
		return outcome(msync(at, length, syncs[gene[4].bits % 4]));
	case 4 ... 5:
		return outcome(mprotect(at, length, gene[4].bits % 4));
	case 6 ... 7:
		reserve(at, length);
		return 0;
	case 8:
		return outcome(munlock(at, length));
	case 9 ... 10:
		return range_grab(m, at);
	default:
		return advise(m, &gene[3], at, length);
	}
}

/* Move, shorten or lengthen a mapping of this thread's. */
long run_range_remap(struct making *m)
{
	const struct gene *gene = m->call->gene;
	uint32_t from = gene[0].bits % RANGE_MAPS, to = gene[1].bits % RANGE_MAPS;
	uint64_t old = (1 + gene[2].bits % PAGES) * PAGE, new = (1 + gene[3].bits % PAGES) * PAGE;
	uint8_t *at = range_at(m->me, from);
	void *got;
	int error;

	if (from == to)
		return -EINVAL;
	note(m, -1, old, at, &new, sizeof(new));
	got = mremap(at, old, new, MREMAP_MAYMOVE | MREMAP_FIXED, range_at(m->me, to));
	error = got == MAP_FAILED ? errno : 0;
	reserve(error ? range_at(m->me, to) : at, error ? RANGE_ROOM : old);
	return -error;
}
