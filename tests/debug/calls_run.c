// SPDX-License-Identifier: GPL-2.0
/* Random calls: those that are not a single ioctl with a fixed structure. */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/fs.h>
#include <linux/hdreg.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"

/* 0 or a negative errno, for a system call that returns -1 on error. */
static long outcome(long ret)
{
	return ret < 0 ? -errno : 0;
}

/* ---- Vectors ------------------------------------------------------------ */

/*
 * Make one operation of a vector at @to, with its own genes.  Returns false if its data are the
 * operations themselves.
 */
static bool make_op(struct making *m, struct making *sub, uint32_t stride, uint8_t *to,
		    const uint8_t *ops)
{
	struct gene genes[OP_FIELDS];
	uint32_t op = random_below(&m->random, OPS), i;
	struct lsmem_op made;

	for (i = 0; i < OP_FIELDS; i++)
		random_gene(&m->random, &genes[i]);
	genes[3].how = 0;	/* the kernel ignores the result field */
	if (genes[6].small % 8)
		genes[6].small |= 1;	/* most operations have little data */
	memset(sub, 0, offsetof(struct making, bytes) + 256);
	sub->me = m->me;
	sub->call = m->call;
	sub->fd = m->fd;
	sub->store = m->store;
	sub->durable = m->durable;
	sub->slot = -1;
	sub->guards = 2;	/* no guards: the data of the operations overlap */
	sub->size = sizeof(made);
	sub->random = m->random;
	make_fields(sub, op_fields[op], OP_FIELDS, genes, sub->bytes);
	memcpy(&made, sub->bytes, sizeof(made));
	if (made.op != op + 1 || made.size > stride) {
		sub->wrong++;
		sub->expected = 0;
	}
	if (op + 1 == LSMEM_OP_CHECK)	/* whatever it is, if the vector is no group */
		sub->expected = 0;
	memset(to, 0, stride);
	memcpy(to, sub->bytes, sub->size < stride ? sub->size : stride);
	if (genes[2].at)
		return true;
	/* The data are the operations themselves. */
	made.data = (uintptr_t)ops;
	memcpy(to, &made, sizeof(made));
	return false;
}

struct told {
	bool sure;
	int expected;
};

static void vector_judge(struct making *m, const struct told *told, uint32_t nr, uint32_t stride,
			 const uint8_t *ops)
{
	struct lsmem_op op;
	uint32_t i;

	for (i = 0; i < nr; i++) {
		if (!touch_copy(&op, ops + (size_t)i * stride, sizeof(op)))
			return;
		op_done(m, &op, op.result);
		if (!told[i].sure || !m->sure || m->wrong)
			continue;
		atomic_fetch_add_explicit(&shared->refusals, 1, memory_order_relaxed);
		if (op.result != -told[i].expected)
			failed(VERDICT_REFUSED, "operation %u in a vector, one field wrong: %d, not -%d",
			       op.op, op.result, told[i].expected);
	}
}

long run_vector(struct making *m)
{
	static const uint32_t bad_strides[] = { 0, 48, 65, 60, 4104, ~0u };
	static __thread struct told told[1024];
	const struct gene *gene = m->call->gene;
	struct lsmem_vector vector = { .size = sizeof(vector), .stride = sizeof(struct lsmem_op) };
	static __thread struct making sub;
	uint32_t nr, i;
	bool apart;
	uint8_t *ops;
	long ret;

	pick_fd(m, &gene[0], FD_OBJECT);
	m->random = gene[6].bits | 1;
	nr = 1 + gene[3].bits % (gene[3].small % 128 == 0 ? 1024 : gene[3].small % 8 ? 8 : 48);
	/* Groups are mostly small, or none of them would be made. */
	if (gene[2].small % 4 == 1 && gene[3].small % 8)
		nr = 1 + nr % 3;
	if (gene[4].small % 8 == 0)
		vector.stride += 8 * (gene[4].bits % 9);
	ops = place(m, &gene[5], HEAP_VECTOR, nr * vector.stride, true);
	apart = ops + nr * vector.stride != m->me->edge;	/* data may be there, too */
	for (i = 0; i < nr; i++) {
		apart &= make_op(m, &sub, vector.stride,
				 m->me->heap + HEAP_ARRAY + (size_t)i * vector.stride, ops);
		told[i].sure = sub.wrong == 1 && sub.expected;
		told[i].expected = sub.expected;
		m->random = sub.random;
	}
	touch_copy(ops, m->me->heap + HEAP_ARRAY, (size_t)nr * vector.stride);
	vector.ops = (uintptr_t)ops;
	vector.nr = nr;
	if (how_of(&gene[3]) != VALID) {
		vector.nr = gene[3].bits % 2 ? 0 : 1025 + gene[3].bits;
		is_wrong(m, EINVAL);
	}
	if (how_of(&gene[4]) != VALID) {
		vector.stride = bad_strides[gene[4].bits % 6];
		is_wrong(m, EINVAL);
	}
	if (how_of(&gene[2]) != VALID) {
		vector.flags = 2u << gene[2].bits % 31;
		if (vector.flags == LSMEM_OPF_ATOMIC)
			vector.flags <<= 1;
		is_wrong(m, EINVAL);
	} else {
		if (m->durable && gene[2].small % 32 == 0)
			vector.flags |= LSMEM_OPF_DURABLE;
		if (gene[2].small % 4 == 1)
			vector.flags |= LSMEM_OPF_ATOMIC;
	}
	m->size = sizeof(vector);
	memcpy(m->bytes, &vector, sizeof(vector));
	m->argument = place_argument(m, &gene[1]);
	note(m, m->fd, LSMEM_IOC_VECTOR, m->argument, m->bytes, m->size);
	ret = outcome(syscall(SYS_ioctl, m->fd, LSMEM_IOC_VECTOR, m->argument));
	if (!apart) {	/* data that were read may have overwritten operations and guards */
		m->sure = false;
		m->guards = 0;
	}
	judge(m, &descriptions[m->call->kind], ret);
	if (!ret && apart && !m->wrong)
		vector_judge(m, told, nr, vector.stride, ops);
	return ret;
}

/* Read what a snapshot of a tiered store has that was not in memory; of others EOPNOTSUPP. */
long run_through(struct making *m)
{
	const struct gene *gene = m->call->gene;
	struct lsmem_snapshot_read read = { .size = sizeof(read), .prefix = gene[4].small % 2 ? gene[4].bits : 0 };
	struct lsmem_op *made = (void *)(m->me->heap + HEAP_ARRAY);
	uint32_t nr = 1 + gene[3].bits % (gene[3].small % 8 ? 8 : LSMEM_SNAPSHOT_READ_MAX), i;
	uint64_t random = gene[6].bits | 1;
	uint8_t *ops;
	long ret;

	pick_fd(m, &gene[0], FD_SNAPSHOT);
	ops = place(m, &gene[5], HEAP_VECTOR, nr * sizeof(*made), true);
	for (i = 0; i < nr; i++) {
		made[i] = (struct lsmem_op){
			.size = sizeof(*made), .op = random_below(&random, 16) ? LSMEM_OP_READ : LSMEM_OP_CHECK,
			.flags = random_below(&random, 16) ? LSMEM_OPF_INDEX : 3,
			.handle = random_below(&random, 4000), .length = random_below(&random, 5000),
			.data = (uintptr_t)(m->me->heap + random_below(&random, 1u << 16)),
		};
	}
	touch_copy(ops, (const uint8_t *)made, nr * sizeof(*made));
	read.ops = (uintptr_t)ops;
	read.nr = nr;
	if (how_of(&gene[3]) != VALID) {
		read.nr = gene[3].bits % 2 ? 0 : LSMEM_SNAPSHOT_READ_MAX + 1 + gene[3].bits % 1000;
		is_wrong(m, EINVAL);
	}
	if (how_of(&gene[2]) != VALID) {
		read.flags = 1u << gene[2].bits % 32;
		is_wrong(m, EINVAL);
	}
	m->size = sizeof(read);
	memcpy(m->bytes, &read, sizeof(read));
	m->argument = place_argument(m, &gene[1]);
	note(m, m->fd, LSMEM_IOC_SNAPSHOT_READ, m->argument, m->bytes, m->size);
	ret = outcome(syscall(SYS_ioctl, m->fd, LSMEM_IOC_SNAPSHOT_READ, m->argument));
	m->sure = false;	/* what was read may have overwritten operations and guards */
	m->guards = 0;
	judge(m, &descriptions[m->call->kind], ret);
	return ret;
}

/* ---- Commands of io_uring ----------------------------------------------- */

#define URING_SECONDS	100	/* then a command has been lost */

/* A command, and its end. */
static long uring_command(struct making *m, unsigned long request)
{
	const struct gene *gene = &m->call->gene[GENES - 1];
	struct lsmem_command command = { .structure = (uintptr_t)m->argument };
	struct __kernel_timespec limit = { .tv_sec = URING_SECONDS };
	struct io_uring_sqe *sqe = io_uring_get_sqe(m->me->ring);
	struct io_uring_cqe *cqe;
	long ret;

	if (how_of(gene) == GARBAGE) {
		command.reserved = gene->bits | 1;
		is_wrong(m, EINVAL);
		m->expected = m->wrong == 1 ? EINVAL : 0;
	}
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, m->fd, NULL, 0, 0);
	sqe->cmd_op = (uint32_t)request;
	sqe->flags = gene->small % 4 ? 0 : IOSQE_ASYNC;
	memcpy(sqe->cmd, &command, sizeof(command));
	do {
		ret = io_uring_submit(m->me->ring);
	} while (ret == -EAGAIN || ret == -EINTR);
	do {
		ret = io_uring_wait_cqe_timeout(m->me->ring, &cqe, &limit);
	} while (ret == -EINTR);
	if (ret) {
		failed(VERDICT_HANG, "a command of io_uring has not ended: %ld", ret);
		return ret;
	}
	ret = cqe->res;
	io_uring_cqe_seen(m->me->ring, cqe);
	return ret;
}

/* An object call as a command of io_uring: it must end as the ioctl does. */
long run_uring(struct making *m)
{
	uint32_t which = m->call->gene[GENES - 2].bits % nr_descriptions, i;

	if (!m->me->ring || m->me->child)
		return -ENOSYS;
	for (i = 0; i < nr_descriptions; i++) {
		const struct description *d = &descriptions[(which + i) % nr_descriptions];

		if (d->on == FD_OBJECT && !d->run)
			return run_fixed(m, d, uring_command);
	}
	return -ENOSYS;
}

/* ---- Descriptors -------------------------------------------------------- */

/* ioctls that no file of lsmem has: unknown numbers, of lsmem's type and of a type near it. */
long run_unknown(struct making *m)
{
	static const enum fd_kind kinds[] = { FD_OBJECT, FD_CONTROL, FD_REPL, FD_BLOCK };
	const struct gene *gene = m->call->gene;
	unsigned long request = (gene[2].bits & 0xffff0000ul) | gene[2].small % 0xc0;

	request |= gene[2].at % 4 ? LSMEM_IOC_MAGIC << 8 : 0xee00;
	pick_fd(m, &gene[0], kinds[gene[3].small % 4]);
	m->size = 64;
	m->argument = place_argument(m, &gene[1]);
	note(m, m->fd, request, m->argument, NULL, 0);
	return outcome(syscall(SYS_ioctl, m->fd, request, m->argument));
}

long run_file(struct making *m)
{
	static const uint32_t harmless[] = { 0, 2, 5, 6, 7, 11 };
	const struct gene *gene = m->call->gene;
	uint32_t length = some_length(&gene[2]), what = gene[3].bits % 14;
	uint8_t *data = place(m, &gene[1], HEAP_DATA, length, false);
	struct pollfd pollfd = { .events = (short)gene[3].small };
	struct iovec iov = { data, length };

	pick_fd(m, &gene[0], FD_OBJECT);
	if (how_of(&gene[0]) != VALID)	/* it may be the block device with the load's data */
		what = harmless[gene[3].bits % 6];
	pollfd.fd = m->fd;
	note(m, m->fd, what, data, NULL, 0);
	switch (what) {
	case 0:
		return outcome(read(m->fd, data, length));
	case 1:
		return outcome(write(m->fd, data, length));
	case 2:
		return outcome(pread(m->fd, data, length, gene[4].bits));
	case 3:
		return outcome(pwritev(m->fd, &iov, 1, gene[4].bits));
	case 4:
		return outcome(lseek(m->fd, (int)gene[4].bits, gene[4].small % 6));
	case 5:
		return outcome(poll(&pollfd, 1, 0));
	case 6:
		return outcome(fsync(m->fd));
	case 7:
		return outcome(fdatasync(m->fd));
	case 8:
		return outcome(ftruncate(m->fd, gene[4].bits));
	case 9:
		return outcome(fallocate(m->fd, gene[4].small % 64, 0, gene[4].bits));
	case 10:
		return outcome(fcntl(m->fd, F_SETFL, gene[4].small & (O_NONBLOCK | O_APPEND)));
	case 11:
		return outcome(flock(m->fd, LOCK_SH | LOCK_NB));
	case 12:
		return outcome(syscall(SYS_copy_file_range, m->fd, NULL, m->me->process->null,
				       NULL, length, 0));
	default:
		return outcome(syscall(SYS_sendfile, m->me->process->null, m->fd, NULL, length));
	}
}

long run_open(struct making *m)
{
	static const int odd[] = { O_TRUNC, O_APPEND, O_DIRECTORY, O_PATH, O_EXCL, O_NONBLOCK,
				   O_SYNC, O_NOFOLLOW };
	const struct gene *gene = m->call->gene;
	const struct process *process = m->me->process;
	int store = gene[0].bits % (STORES + 1), flags = gene[1].bits % MODES | O_CLOEXEC, fd;
	enum fd_kind kind = FD_OBJECT;
	char path[64];

	if (gene[1].small % 4 == 0)
		flags = (flags & ~O_CLOEXEC) | odd[gene[1].small / 4 % 8];
	if (store == STORES) {
		snprintf(path, sizeof(path), "/dev/lsmem-control");
		kind = FD_OTHER;	/* FD_CONTROL means the pinned descriptor */
		store = -1;
	} else {
		snprintf(path, sizeof(path), "/dev/%.31s", shared->store[store].name);
		if (shared->store[store].block) {
			/* No write-back of the page cache, which may fail later. */
			flags |= O_DIRECT;
			kind = FD_BLOCK;
		}
	}
	if (flags & O_PATH)
		kind = FD_OTHER;
	note(m, flags, 0, NULL, path, strlen(path));
	fd = open(path, flags);
	if (fd < 0)
		return -errno;
	if (kind == FD_OTHER && store < 0 && !process->root && !(flags & O_PATH))
		failed(VERDICT_PRIVILEGE, "%s could be opened without privilege", path);
	keep_fd(m->me->process, fd, kind, store);
	return 0;
}

/* Take notes of changes, and wait for none. */
long run_watch(struct making *m)
{
	const struct gene *gene = m->call->gene;
	uint32_t length = some_length(&gene[1]);
	uint8_t *data = place(m, &gene[1], HEAP_DATA, length, false);
	struct pollfd pollfd = { .events = (short)gene[2].small };
	struct iovec iov = { data, length };

	pick_fd(m, &gene[0], FD_WATCH);
	pollfd.fd = m->fd;
	note(m, m->fd, length, data, NULL, 0);
	if (gene[2].bits % 4 == 0)
		return outcome(poll(&pollfd, 1, 0));
	return outcome(preadv2(m->fd, &iov, 1, -1, RWF_NOWAIT));
}

long run_close(struct making *m)
{
	const struct gene *gene = m->call->gene;
	struct fd_slot *slot = &m->me->process->fds[gene[0].bits % (FD_SLOTS + RANGE_SLOTS)];
	int fd;

	/* Close replication descriptors seldom, so that some store gets active. */
	if (atomic_load(&slot->kind) == FD_REPL && gene[0].small % 4)
		return -EAGAIN;
	atomic_fetch_add(&slot->begun, 1);
	fd = atomic_exchange(&slot->fd, -1);
	atomic_fetch_add(&slot->done, 1);
	note(m, fd, 0, NULL, NULL, 0);
	return outcome(close(fd));
}

long run_dup(struct making *m)
{
	const struct gene *gene = m->call->gene;
	enum fd_kind kind = gene[1].small % 4 ? FD_OBJECT : gene[1].small % 8 ? FD_REPL : FD_PAGES;
	int fd;

	pick_fd(m, &gene[0], kind);
	if (how_of(&gene[0]) != VALID)
		kind = FD_OTHER;
	note(m, m->fd, 0, NULL, NULL, 0);
	fd = gene[1].bits % 2 ? dup(m->fd) : fcntl(m->fd, F_DUPFD_CLOEXEC, 100);
	if (fd < 0)
		return -errno;
	if (fd_changed(m))	/* it may be of another file */
		kind = FD_OTHER;
	keep_fd(m->me->process, fd, kind, m->store);
	return 0;
}

/* Is this the descriptor of a range of pages, whose store is not known? */
static bool is_range(int fd)
{
	struct lsmem_page page = { .size = sizeof(page), .op = LSMEM_PAGE_FIND, .page = ~0ull };

	return ioctl(fd, LSMEM_IOC_PAGE, &page) && (errno == ENOENT || errno == EOPNOTSUPP);
}

/* Send a descriptor of a store, or of a range, to any process, or receive one. */
long run_pass(struct making *m)
{
	const struct gene *gene = m->call->gene;
	char kind = FD_OBJECT, control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = { &kind, 1 };
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int fd;

	note(m, gene[1].bits % 2, 0, NULL, NULL, 0);
	if (gene[1].bits % 2) {
		if (recvmsg(shared->passing[1], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
			return -errno;
		header = CMSG_FIRSTHDR(&message);
		if (!header || header->cmsg_type != SCM_RIGHTS)
			return -EBADMSG;
		memcpy(&fd, CMSG_DATA(header), sizeof(fd));
		/* The sender's descriptor may have been closed, and its number used again. */
		if (kind == FD_PAGES && !is_range(fd))
			kind = FD_OTHER;
		keep_fd(m->me->process, fd, kind, -1);
		return 0;
	}
	m->fd = m->me->process->pinned[gene[0].small % OBJECT_STORES][gene[0].bits % MODES];
	/* Not of root: its descriptor may be closed, and its number that of what only root may have. */
	if (gene[1].small % 2 && !m->me->process->root) {
		kind = FD_PAGES;
		pick_fd(m, &gene[0], FD_PAGES);
	}
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &m->fd, sizeof(int));
	return outcome(sendmsg(shared->passing[0], &message, MSG_DONTWAIT));
}

/* ---- Windows ------------------------------------------------------------ */

void reserve(void *at, size_t length)
{
	if (mmap(at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
		 -1, 0) == MAP_FAILED)
		failed(VERDICT_DEATH, "addresses could not be reserved: %s", strerrorname_np(errno));
}

static uint8_t *map_at(const struct caller *me, uint32_t slot)
{
	return me->arena + slot * MAP_ROOM;
}

static void map_release(struct caller *me, uint32_t slot)
{
	size_t length = me->map[slot].length;

	me->map[slot].length = 0;
	if (length)
		reserve(map_at(me, slot), (length + PAGE - 1) & ~(size_t)(PAGE - 1));
}

/* Choose offset and @length of a window, of a part of one, or of an invalid range. */
static uint64_t window_range(const struct making *m, enum window which, uint64_t *length)
{
	const struct lsmem_info *info = &shared->info;
	const struct lsmem_window windows[WINDOWS] = {
		{ LSMEM_WINDOW_INFO, PAGE }, info->seglets, info->seglet_table, info->handles,
		info->slots, info->touched, info->livemap,
	};
	const struct gene *offset = &m->call->gene[3], *size = &m->call->gene[4];
	uint64_t pages = windows[which].length / PAGE, first = 0;

	if (offset->small % 4)
		first = offset->bits % pages;
	*length = size->small % 8 ? 1 + size->bits % 16 : pages;
	if (*length > pages - first)
		*length = pages - first;
	*length *= PAGE;
	first *= PAGE;
	switch (how_of(size)) {
	case VALID:
		break;
	case BOUNDARY:
		*length = windows[which].length - first + PAGE;
		break;
	case STALE:
		*length += 1 + size->bits % (PAGE - 1);
		break;
	case FOREIGN:
		*length = 0;
		break;
	default:
		*length = (uint64_t)size->bits << 12;
	}
	switch (how_of(offset)) {
	case VALID:
		break;
	case BOUNDARY:
		first = windows[which].length;
		break;
	case STALE:
		first += 1 + offset->bits % (PAGE - 1);
		break;
	default:
		first = (uint64_t)offset->bits << (offset->small % 32);
	}
	return windows[which].offset + first;
}

static int some_prot(const struct gene *gene, enum window window, bool daemon)
{
	switch (how_of(gene)) {
	case VALID:
		return window == WINDOW_SLOTS || (!daemon && window == WINDOW_TOUCHED) ||
		       (daemon && window == WINDOW_SEGLETS) ?
		       PROT_READ | PROT_WRITE : PROT_READ;
	case BOUNDARY:
		return PROT_NONE;
	case STALE:
		return PROT_READ | PROT_EXEC;
	default:
		return PROT_READ | PROT_WRITE;
	}
}

/* A client must not get a window executable, nor any writable but its slots and the touched bits. */
static void check_prot(const struct making *m, const struct map_slot *map, int prot,
		       const char *call)
{
	if (prot & PROT_EXEC)
		failed(VERDICT_PRIVILEGE, "%s made window %d executable", call, map->window);
	if (prot & PROT_WRITE && map->window != WINDOW_SLOTS && map->window != WINDOW_TOUCHED &&
	    (!map->daemon || !m->me->process->root || map->window != WINDOW_SEGLETS))
		failed(VERDICT_PRIVILEGE, "%s made window %d writable", call, map->window);
}

long run_mmap(struct making *m)
{
	static const int odd[] = { MAP_PRIVATE, MAP_SHARED_VALIDATE, MAP_SHARED | MAP_POPULATE,
				   MAP_SHARED | MAP_LOCKED, MAP_SHARED | MAP_NORESERVE, 0,
				   MAP_SHARED | MAP_GROWSDOWN, MAP_SHARED | MAP_HUGETLB };
	const struct gene *gene = m->call->gene;
	enum window window = gene[2].small % WINDOWS;
	struct caller *me = m->me;
	uint32_t slot = gene[7].bits % MAPS;
	bool daemon = me->process->root && gene[2].at % 4 == 0;
	struct map_slot map = { .window = window };
	int prot, flags = MAP_SHARED;
	uint64_t offset, length;
	uint8_t *at = map_at(me, slot);
	void *got;

	pick_fd(m, &gene[0], daemon ? FD_REPL : FD_OBJECT);
	map.daemon = me->process->root && (daemon || !m->sure);
	offset = window_range(m, window, &length);
	prot = some_prot(&gene[5], window, daemon);
	if (how_of(&gene[6]) != VALID)
		flags = odd[gene[6].bits % 8];
	if (flags & MAP_POPULATE && length > 64 * PAGE)
		flags &= ~MAP_POPULATE;
	/* A mapping that does not fit into its place should fail; else it is unmapped at once. */
	if (length > MAP_ROOM || (flags & MAP_HUGETLB))
		at = NULL;
	else
		flags |= MAP_FIXED;
	if (me->map[slot].length > length)
		map_release(me, slot);
	note(m, m->fd, offset, at, &length, sizeof(length));
	got = mmap(at, length, prot, flags, m->fd, (off_t)offset);
	if (got == MAP_FAILED) {
		int error = errno;

		if (at) {	/* MAP_FIXED may have unmapped what was there */
			me->map[slot].length = 0;
			reserve(at, MAP_ROOM);
		}
		return -error;
	}
	map.writable = prot & PROT_WRITE;
	/* Only if the file is known, the offset tells which window this is. */
	if (m->sure && (flags & MAP_TYPE) != MAP_PRIVATE && how_of(&gene[3]) == VALID)
		check_prot(m, &map, prot, "mmap");
	if (!at) {
		munmap(got, length);
		return 0;
	}
	map.length = (length + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	/* It is not known which window this is: unmap it. */
	if (!m->sure || how_of(&gene[3]) != VALID) {
		reserve(at, MAP_ROOM);
		map.length = 0;
	}
	me->map[slot] = map;
	return 0;
}

/* A mapping of the caller's, or NULL. */
static struct map_slot *pick_map(struct caller *me, const struct gene *gene, uint8_t **at)
{
	uint32_t i;

	for (i = 0; i < MAPS; i++) {
		uint32_t slot = (gene->small + i) % MAPS;

		if (!me->map[slot].length)
			continue;
		*at = map_at(me, slot);
		return &me->map[slot];
	}
	return NULL;
}

long run_munmap(struct making *m)
{
	const struct gene *gene = m->call->gene;
	struct map_slot *map;
	size_t first = 0, length;
	uint64_t word;
	uint8_t *at;
	long ret;

	map = pick_map(m->me, &gene[0], &at);
	if (!map)
		return -ENOENT;
	length = map->length;
	if (how_of(&gene[1]) != VALID || gene[1].small % 4 == 0) {
		first = gene[1].bits % length;
		if (how_of(&gene[1]) == VALID)
			first &= ~(size_t)(PAGE - 1);
		length = 1 + gene[2].bits % (length - first);
	}
	note(m, -1, length, at + first, NULL, 0);
	ret = outcome(munmap(at + first, length));
	/* Read the rest of the mapping once. */
	touch_copy(&word, at + gene[2].bits % map->length / 8 * 8, sizeof(word));
	map_release(m->me, (uint32_t)(map - m->me->map));
	return ret;
}

long run_mprotect(struct making *m)
{
	const struct gene *gene = m->call->gene;
	int prot = gene[1].bits % 8;
	struct map_slot *map;
	uint8_t *at;
	long ret;

	map = pick_map(m->me, &gene[0], &at);
	if (!map)
		return -ENOENT;
	note(m, prot, map->length, at, NULL, 0);
	ret = outcome(mprotect(at, map->length, prot));
	if (!ret) {
		check_prot(m, map, prot, "mprotect");
		map->writable = prot & PROT_WRITE;
	}
	return ret;
}

long run_mremap(struct making *m)
{
	const struct gene *gene = m->call->gene;
	static const int flags[] = { 0, MREMAP_MAYMOVE, MREMAP_MAYMOVE | MREMAP_FIXED,
				     MREMAP_MAYMOVE | MREMAP_DONTUNMAP };
	int flag = flags[gene[1].bits % 4];
	uint32_t to = gene[2].bits % MAPS;
	struct map_slot *map;
	size_t length, old;
	uint8_t *at;
	void *got;

	map = pick_map(m->me, &gene[0], &at);
	if (!map)
		return -ENOENT;
	old = map->length;
	length = gene[1].small % 4 ? old : (gene[3].bits % (2 * old) & ~(size_t)(PAGE - 1));
	note(m, flag, length, at, NULL, 0);
	got = mremap(at, old, length, flag, map_at(m->me, to));
	if (got == MAP_FAILED) {
		int error = errno;

		if (flag & MREMAP_FIXED) {	/* it unmaps the target first */
			m->me->map[to].length = 0;
			reserve(map_at(m->me, to), MAP_ROOM);
		}
		return -error;
	}
	if (got != at || length > old)
		failed(VERDICT_PRIVILEGE, "mremap %#x moved or grew window %d", flag, map->window);
	if (length < old)
		reserve(at + length, old - length);
	map->length = length;
	return 0;
}

long advise(struct making *m, const struct gene *gene, uint8_t *at, size_t length)
{
	static const int advices[] = {
		MADV_NORMAL, MADV_RANDOM, MADV_WILLNEED, MADV_DONTNEED, MADV_FREE, MADV_REMOVE,
		MADV_DONTFORK, MADV_DOFORK, MADV_MERGEABLE, MADV_HUGEPAGE, MADV_NOHUGEPAGE,
		MADV_DONTDUMP, MADV_DODUMP, MADV_WIPEONFORK, MADV_COLD, MADV_PAGEOUT,
		MADV_POPULATE_READ, MADV_POPULATE_WRITE, 25 /* MADV_COLLAPSE */, 9999,
	};
	int advice = advices[gene->bits % (sizeof(advices) / sizeof(*advices))];

	note(m, advice, length, at, NULL, 0);
	switch (gene->small % 16) {
	case 0:
		return outcome(msync(at, length, MS_SYNC));
	case 1:
		return outcome(mlock(at, length));
	case 2:
		return outcome(mincore(at, length, m->me->heap + HEAP_DATA));
	default:
		return outcome(madvise(at, length, advice));
	}
}

long run_madvise(struct making *m)
{
	const struct gene *gene = m->call->gene;
	struct map_slot *map;
	uint8_t *at;

	map = pick_map(m->me, &gene[0], &at);
	if (!map)
		return -ENOENT;
	return advise(m, &gene[1], at, map->length < 64 * PAGE ? map->length : 64 * PAGE);
}

/* Read a window of this or another thread; or, as a daemon, overwrite seglets. */
long run_touch(struct making *m)
{
	const struct gene *gene = m->call->gene;
	struct caller *of = &m->me->process->callers[gene[1].small % THREADS];
	uint64_t bytes[8];
	struct map_slot *map;
	uint8_t *at;
	uint32_t i;

	map = pick_map(of, &gene[0], &at);
	if (!map)
		return -ENOENT;
	at += (gene[1].bits % (map->length ?: 64)) & ~63ul;
	note(m, map->window, 0, at, NULL, 0);
	if (!map->writable || map->window != WINDOW_SEGLETS || gene[0].at % 4)
		return touch_copy(bytes, at, sizeof(bytes)) ? 0 : -EFAULT;
	for (i = 0; i < 8; i++)
		bytes[i] = random_next(&m->random);
	return touch_copy(at, bytes, 8 << gene[2].bits % 4) ? 0 : -EFAULT;
}

/* Write any value to a slot: idle, revoked, an old, present or future view epoch, or garbage. */
long run_scribble(struct making *m)
{
	const struct gene *gene = m->call->gene;
	uint64_t value = gene[2].bits;
	uint32_t i;

	for (i = 0; i < MAPS; i++) {
		uint32_t slot = (gene[0].small + i) % MAPS;
		struct map_slot *map = &m->me->map[slot];
		uint8_t *at = map_at(m->me, slot);

		if (!map->length || map->window != WINDOW_SLOTS || !map->writable)
			continue;
		switch (how_of(&gene[1])) {
		case VALID:	/* idle, or a small epoch, as at the beginning of a store */
			value = gene[2].bits % 2 ? LSMEM_SLOT_IDLE : gene[2].small % 64;
			break;
		case BOUNDARY:
			value = LSMEM_SLOT_REVOKED;
			break;
		default:
			break;
		}
		note(m, 0, value, at, NULL, 0);
		at += gene[2].small / 64 % 64 * sizeof(struct lsmem_slot);
		return touch_copy(at, &value, sizeof(value)) ? 0 : -EFAULT;
	}
	return -ENOENT;
}

/* Access a window as a debugger does, which ignores the protection of a mapping. */
long run_memory(struct making *m)
{
	const struct gene *gene = m->call->gene;
	struct map_slot *map;
	uint64_t word = 0;
	struct iovec local = { &word, sizeof(word) }, remote = { NULL, sizeof(word) };
	uint8_t *at;
	long ret;
	int fd;

	map = pick_map(m->me, &gene[0], &at);
	if (!map || map->daemon)
		return -ENOENT;
	remote.iov_base = at;
	note(m, 0, 0, at, NULL, 0);
	if (gene[1].bits % 3 == 2)
		return outcome(process_vm_writev(getpid(), &local, 1, &remote, 1, 0));
	fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = outcome(gene[1].bits % 3 ? pwrite(fd, &word, sizeof(word), (off_t)(uintptr_t)at) :
					 pread(fd, &word, sizeof(word), (off_t)(uintptr_t)at));
	close(fd);
	if (!ret && gene[1].bits % 3)
		failed(VERDICT_PRIVILEGE, "window %d could be written by /proc/self/mem",
		       map->window);
	return ret;
}

long run_flip(struct making *m)
{
	static const int prots[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE,
				     PROT_READ | PROT_WRITE };
	const struct gene *gene = m->call->gene;
	/* Other threads of the process use this memory in their calls. */
	uint8_t *at = m->me->process->callers[gene[0].small % THREADS].flip;

	note(m, -1, 0, at, NULL, 0);
	if (gene[1].small % 4 == 0)
		return outcome(madvise(at, AREA_BYTES, MADV_DONTNEED));
	return outcome(mprotect(at, AREA_BYTES, prots[gene[1].bits % 4]));
}

/* ---- Processes ---------------------------------------------------------- */

/* The counts of a child; only the child itself sees them. */
static struct progress lost;

static void child_main(struct caller *me, const struct gene *gene)
{
	struct call call;
	uint32_t i, j;

	me->child = true;
	me->progress = &lost;
	me->counts = lost.counts;
	me->random = gene[1].bits;
	if (gene[1].small % 4 == 0) {
		dup2(me->process->null, 1);
		execl("/proc/self/exe", "calls", "--child", NULL);
		_exit(0);
	}
	for (i = 0; i < 1 + gene[0].bits % 12; i++) {
		call.kind = random_below(&me->random, nr_descriptions);
		if (!descriptions[call.kind].weight[me->process->root])
			continue;
		for (j = 0; j < GENES; j++)
			random_gene(&me->random, &call.gene[j]);
		call_make(me, &call);
	}
	_exit(0);
}

/* Fork a child that makes calls, and that ends or is killed during a call. */
long run_fork(struct making *m)
{
	const struct gene *gene = m->call->gene;
	int status;
	pid_t child;

	if (m->me->child)
		return -EAGAIN;
	note(m, -1, 0, NULL, NULL, 0);
	child = _Fork();
	if (child < 0)
		return -errno;
	if (!child)
		child_main(m->me, gene);
	if (gene[2].bits % 2)
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		failed(VERDICT_DEATH, "a child died of signal %d", WTERMSIG(status));
	return 0;
}

/* ---- sysfs and debugfs -------------------------------------------------- */

static const char *const attributes[] = {
	"kind", "durability", "state", "attached", "uuid", "size_bytes", "capacity_bytes",
	"live_bytes", "seglets", "free_seglets", "reserved_seglets", "handles_max", "handles_used",
	"segments", "segments_max", "spares", "era", "generation", "cleaner/passes",
	"cleaner/segments_cleaned", "cleaner/relocated_bytes", "cleaner/relocated_entries",
	"cleaner/freed_bytes", "cleaner/forced_rolls", "cleaner/views_revoked",
	"cleaner/write_cost_permille", "tier/resident_bytes", "tier/cold_bytes", "tier/cached_bytes",
	"tier/requests", "tier/evicted", "tier/fetches", "tier/fetch_histogram", "stats/appends", "stats/appended_bytes", "stats/replaced",
	"stats/deleted", "stats/stalls", "stats/stall_ns", "stats/durable_waits",
	"stats/durable_bytes", "stats/padding_bytes", "limits/view_ms", "cleaner/free_low",
	"pages/ranges", "pages/buffered_pages", "pages/dirty_pages", "pages/faults", "pages/groups",
	"pages/syncs", "dev", "nothing",
};

#define NR_ATTRIBUTES	(sizeof(attributes) / sizeof(*attributes))

static int attribute_open(const struct making *m, int store, const char *name, int flags,
			  char *path, size_t size)
{
	(void)m;
	snprintf(path, size, "/sys/class/lsmem/%.31s/%s", shared->store[store].name, name);
	return open(path, flags | O_CLOEXEC);
}

long run_sysfs_read(struct making *m)
{
	const struct gene *gene = m->call->gene;
	uint32_t length = some_length(&gene[3]);
	char path[128];
	long ret;
	int fd;

	fd = attribute_open(m, gene[0].bits % STORES, attributes[gene[1].bits % NR_ATTRIBUTES],
			    O_RDONLY, path, sizeof(path));
	note(m, fd, 0, NULL, path, strlen(path));
	if (fd < 0)
		return -errno;
	ret = outcome(pread(fd, place(m, &gene[2], HEAP_DATA, length, false), length,
			    gene[3].at % 8 ? 0 : gene[3].small % 64));
	close(fd);
	return ret;
}

/* Choose a text to write to an attribute, valid or not. Returns its length. */
static size_t some_text(struct making *m, const struct gene *gene, const struct limit *limit,
			bool objects, char *text, size_t size)
{
	static const char *const odd[] = {
		"", "\n", "0x", "-1", "+", "99999999999999999999", "4294967296", "1 2", "12x",
		"0b1", " 12", "08", "%s%n", "on", "0x7fffffffffffffff",
	};
	uint32_t i;

	switch (how_of(gene)) {
	case VALID:
		if (limit->objects && !objects)
			break;
		return (size_t)snprintf(text, size, gene->small % 2 ? "%lu\n" : "0x%lx",
					limit->low + gene->bits % (limit->high - limit->low + 1));
	case BOUNDARY:
		return (size_t)snprintf(text, size, "%lu",
					gene->bits % 2 ? limit->min - 1 : limit->max + 1);
	case GARBAGE:
		for (i = 0; i < size; i++)
			text[i] = (char)(random_next(&m->random) % 26 + 'a');
		return size;
	default:
		break;
	}
	strcpy(text, odd[gene->bits % (sizeof(odd) / sizeof(*odd))]);
	return strlen(text);
}

long run_sysfs_write(struct making *m)
{
	const struct gene *gene = m->call->gene;
	const struct limit *limit = &limits[gene[1].bits % nr_limits];
	int store = gene[0].bits % STORES, fd;
	char path[128], text[5000];
	size_t length;
	long ret;

	fd = attribute_open(m, store, gene[1].small % 8 ? limit->name :
			    attributes[gene[1].bits % NR_ATTRIBUTES], O_WRONLY, path, sizeof(path));
	note(m, fd, 0, NULL, path, strlen(path));
	if (fd < 0)
		return -errno;
	if (!m->me->process->root)
		failed(VERDICT_PRIVILEGE, "%s could be opened for writing", path);
	length = some_text(m, &gene[2], limit, !shared->store[store].block, text,
			   gene[2].small % 2 ? sizeof(text) : 64);
	ret = outcome(write(fd, text, length));
	close(fd);
	return ret;
}

/* Set low limits for a store that a caller has created, so that no call waits long for a daemon. */
void limits_lower(const char *name)
{
	char path[128], text[24];
	uint32_t i;
	int fd;

	for (i = 0; i < nr_limits; i++) {
		snprintf(path, sizeof(path), "/sys/class/lsmem/%.31s/%s", name, limits[i].name);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		snprintf(text, sizeof(text), "%lu", limits[i].low);
		/* Another caller may have destroyed the store by now. */
		if ((fd < 0 || write(fd, text, strlen(text)) < 0) && errno != ENOENT &&
		    errno != ENODEV)
			failed(VERDICT_LOAD, "%s cannot be set: %s", path, strerror(errno));
		close(fd);
	}
}

long run_debugfs(struct making *m)
{
	static const char *const files[] = { "segments", "heads", "retires", "clients", "" };
	const struct gene *gene = m->call->gene;
	uint32_t length = some_length(&gene[2]);
	char path[128];
	long ret;
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/debug/lsmem/%.31s/%s",
		 shared->store[gene[0].bits % STORES].name, files[gene[1].bits % 5]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	note(m, fd, 0, NULL, path, strlen(path));
	if (fd < 0)
		return -errno;
	if (!m->me->process->root)
		failed(VERDICT_PRIVILEGE, "%s could be opened", path);
	ret = outcome(pread(fd, place(m, &gene[3], HEAP_DATA, length, false), length,
			    gene[2].at % 4 ? 0 : gene[2].bits % 8192));
	close(fd);
	return ret;
}

/* ---- Blocks ------------------------------------------------------------- */

/* Choose an offset of I/O in the callers' part of the device, or outside of the device. */
static uint64_t some_blocks(const struct gene *gene, uint32_t length)
{
	uint64_t end = shared->block_bytes - shared->block_bytes / LOAD_BLOCKS;
	uint64_t first = gene->bits * 4099ull % (end - length);

	end &= ~(uint64_t)(PAGE - 1);
	switch (how_of(gene)) {
	case VALID:
		return first & ~(uint64_t)(PAGE - 1);
	case BOUNDARY:
		return shared->block_bytes + (gene->small % 3) * PAGE;
	case STALE:
		return first;
	case FOREIGN:
		return first & ~511ull;
	case GARBAGE:
		return 1ull << 62 | gene->bits;
	default:
		return -4096ull;
	}
}

long run_block_io(struct making *m)
{
	const struct gene *gene = m->call->gene;
	uint32_t length = PAGE << gene[2].small % 4;
	uint64_t offset;
	uint8_t *data;

	if (how_of(&gene[2]) != VALID)
		length = gene[2].bits % (64u << 10);
	pick_fd(m, &gene[0], FD_BLOCK);
	data = place(m, &gene[1], HEAP_DATA, length, false);
	if (gene[1].small % 4)	/* aligned for O_DIRECT */
		data = (uint8_t *)((uintptr_t)data & ~511ul);
	offset = some_blocks(&gene[3], length);
	note(m, m->fd, offset, data, &length, sizeof(length));
	if (gene[4].bits % 2)
		return outcome(pread(m->fd, data, length, (off_t)offset));
	return outcome(pwrite(m->fd, data, length, (off_t)offset));
}

long run_block_range(struct making *m)
{
	static const int modes[] = {
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
		FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE | FALLOC_FL_NO_HIDE_STALE,
		0, FALLOC_FL_COLLAPSE_RANGE,
	};
	const struct gene *gene = m->call->gene;
	uint64_t range[2];
	uint32_t length = PAGE * (1 + gene[2].bits % (gene[2].small % 16 ? 32 : 2048));

	if (how_of(&gene[2]) != VALID)
		length = gene[2].bits % (64u << 10);
	pick_fd(m, &gene[0], FD_BLOCK);
	range[0] = some_blocks(&gene[3], length);
	range[1] = length;
	note(m, m->fd, gene[4].bits % 6, NULL, range, sizeof(range));
	switch (gene[4].bits % 6) {
	case 0:
		return outcome(ioctl(m->fd, BLKDISCARD, range));
	case 1:
		return outcome(ioctl(m->fd, BLKZEROOUT, range));
	case 2:
		return outcome(ioctl(m->fd, BLKSECDISCARD, range));
	default:
		return outcome(fallocate(m->fd, modes[gene[4].small % 6], (off_t)range[0],
					 (off_t)range[1]));
	}
}

long run_block_ioctl(struct making *m)
{
	static const unsigned long requests[] = {
		BLKGETSIZE64, BLKGETSIZE, BLKSSZGET, BLKPBSZGET, BLKBSZGET, BLKIOMIN, BLKIOOPT,
		BLKALIGNOFF, BLKROTATIONAL, BLKRAGET, BLKROGET, BLKDISCARDZEROES, HDIO_GETGEO,
		BLKFLSBUF, BLKROSET,
	};
	const struct gene *gene = m->call->gene;
	unsigned long request = requests[gene[2].bits % (sizeof(requests) / sizeof(*requests))];
	bool root = m->me->process->root;
	long ret;

	pick_fd(m, &gene[0], FD_BLOCK);
	m->size = 64;
	m->argument = place_argument(m, &gene[1]);
	note(m, m->fd, request, m->argument, NULL, 0);
	if (gene[2].small % 4 == 0)
		return outcome(fsync(m->fd));
	if (request == BLKROSET && root)
		request = BLKROGET;	/* as root BLKROSET could make the disk read-only for all */
	ret = outcome(syscall(SYS_ioctl, m->fd, request, m->argument));
	if (!ret && !root && m->sure && (request == BLKROSET || request == BLKFLSBUF))
		failed(VERDICT_PRIVILEGE, "ioctl %#lx of a block device without privilege",
		       request);
	return ret;
}
