// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/lsmem-control and sysfs: to create and destroy stores and to attach to them, the
 * permissions for that, and every value that is out of range.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include <lsmem/lsmem_format.h>

#include "store.h"

#define NOBODY		65534u

static const struct lsmem_create good_create = {
	.size = sizeof(good_create),
	.kind = LSMEM_KIND_OBJECT,
	.bytes = STORE_BYTES,
};

static int destroy_named(const void *name, uint32_t flags)
{
	struct lsmem_destroy destroy = { .size = sizeof(destroy), .flags = flags };

	memcpy(destroy.name, name, sizeof(destroy.name));
	return control_call(LSMEM_CTL_DESTROY, &destroy);
}

static long long available_kib(void)
{
	long long kib = -1;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "re");

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1)
			break;
	}
	if (file)
		fclose(file);
	return kib;
}

/* An empty fixture: the harness has a parameter for the time limit only in TEST_F_TIMEOUT(). */
FIXTURE(slow) {
	int unused;
};

FIXTURE_SETUP(slow)
{
	self->unused = 0;
}

FIXTURE_TEARDOWN(slow)
{
	self->unused = 0;
}

TEST(create_bad_fields)
{
	struct lsmem_create create;

#define CREATE_REFUSED(error, field, value) do {				\
	create = good_create;							\
	create.field = (value);							\
	EXPECT_EQ(-(error), control_call(LSMEM_CTL_CREATE, &create))		\
		TH_LOG("%s = %s", #field, #value);				\
} while (0)
	CREATE_REFUSED(EINVAL, size, 0);
	CREATE_REFUSED(EINVAL, size, LSMEM_CREATE_SIZE_VER0 - 1);
	CREATE_REFUSED(E2BIG, size, ~0u);
	CREATE_REFUSED(EINVAL, flags, 4);
	CREATE_REFUSED(EINVAL, flags, 1u << 31);
	CREATE_REFUSED(EINVAL, kind, 0);
	CREATE_REFUSED(EINVAL, kind, 3);
	CREATE_REFUSED(EINVAL, kind, ~0u);
	CREATE_REFUSED(EINVAL, mode, 01000);
	CREATE_REFUSED(EINVAL, mode, ~0u);
	CREATE_REFUSED(EINVAL, bytes, 0);
	CREATE_REFUSED(EINVAL, bytes, 120 * MIB);
	CREATE_REFUSED(EINVAL, bytes, STORE_BYTES + 1);
	CREATE_REFUSED(EINVAL, bytes, STORE_BYTES + 4 * MIB);
	CREATE_REFUSED(EINVAL, bytes, (1ull << 40) + 8 * MIB);
	CREATE_REFUSED(EINVAL, bytes, ~0ull - 8 * MIB + 1);
	CREATE_REFUSED(EINVAL, handles_max, 1ull << 31);
	CREATE_REFUSED(EINVAL, handles_max, ~0ull);
	CREATE_REFUSED(EINVAL, uid, ~0u);
	CREATE_REFUSED(EINVAL, gid, ~0u);
	CREATE_REFUSED(EINVAL, name[0], 'x');
	CREATE_REFUSED(EINVAL, name[31], 'x');
	CREATE_REFUSED(EINVAL, reserved, 1);
	CREATE_REFUSED(EINVAL, segments, 2 * STORE_BYTES / LSMEM_SEGMENT_BYTES - 1);
	CREATE_REFUSED(EINVAL, segments, 16 * STORE_BYTES / LSMEM_SEGMENT_BYTES + 1);
	CREATE_REFUSED(EINVAL, uuid[15], 1);	/* a volatile store is of no log */
	create = good_create;
	create.kind = LSMEM_KIND_BLOCK;
	create.handles_max = 1;
	EXPECT_EQ(-EINVAL, control_call(LSMEM_CTL_CREATE, &create));
}

/* A store that is made for a log has its uuid before a daemon attaches, and another one may then. */
TEST(create_for_a_log)
{
	struct lsmem_create create = good_create;
	struct lsmem_attach attach = { .size = sizeof(attach) };
	char path[128], text[64] = "";
	FILE *file;
	int i;

	create.flags = LSMEM_STORE_DURABLE;
	for (i = 0; i < 16; i++)
		create.uuid[i] = 0x11 * (i & 15);
	ASSERT_EQ(0, control_call(LSMEM_CTL_CREATE, &create));
	snprintf(path, sizeof(path), "/sys/class/lsmem/%s/uuid", create.name);
	file = fopen(path, "re");
	ASSERT_NE(NULL, file);
	EXPECT_NE(NULL, fgets(text, sizeof(text), file));
	fclose(file);
	EXPECT_STREQ("00112233-4455-6677-8899-aabbccddeeff\n", text);
	memcpy(attach.name, create.name, sizeof(attach.name));
	memset(attach.uuid, 7, sizeof(attach.uuid));
	EXPECT_EQ(0, control_call(LSMEM_CTL_ATTACH, &attach));
	close(attach.fd);
	EXPECT_EQ(0, destroy_named(create.name, 0));
}

/*
 * A program that was built with the first version of a structure, and one that was built with a
 * later version than that of this kernel.  Two structures have grown since their first version.
 */
TEST(structures_of_other_versions)
{
	struct {
		struct lsmem_create create;
		uint64_t tail[2];
	} newer = { .create = good_create };
	struct lsmem_create create = good_create;
	struct lsmem_stat stat, all;
	struct store store;
	uint8_t *page;

	_Static_assert(sizeof(stat) > LSMEM_STAT_SIZE_VER0, "it has grown");
	_Static_assert(sizeof(create) > LSMEM_CREATE_SIZE_VER0, "it has grown");
	page = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	ASSERT_EQ(0, munmap(page + 4096, 4096));

	/* The kernel neither reads nor writes memory behind the program's structure. */
	ASSERT_EQ(0, store_create(&store, STORE_BYTES, 0, 0));
	memset(&stat, 0xa5, sizeof(stat));
	stat.size = LSMEM_STAT_SIZE_VER0;
	stat.flags = 0;
	EXPECT_EQ(0, ioctl(store.fd, LSMEM_IOC_STAT, &stat));
	EXPECT_EQ(LSMEM_STAT_SIZE_VER0, stat.size);
	EXPECT_EQ(STORE_BYTES / (64 << 10), stat.seglets);
	EXPECT_EQ(0, stat.stall_ns);
	EXPECT_EQ(0xa5a5a5a5a5a5a5a5ull, stat.segments_compacted);
	memset(page, 0, 4096);
	memcpy(page + 4096 - LSMEM_STAT_SIZE_VER0, &(uint32_t){ LSMEM_STAT_SIZE_VER0 }, 4);
	EXPECT_EQ(0, ioctl(store.fd, LSMEM_IOC_STAT, page + 4096 - LSMEM_STAT_SIZE_VER0));
	stat.size = LSMEM_STAT_SIZE_VER0 - 1;
	EXPECT_EQ(-1, ioctl(store.fd, LSMEM_IOC_STAT, &stat));
	EXPECT_EQ(EINVAL, errno);
	all = (struct lsmem_stat){ .size = sizeof(all) };
	EXPECT_EQ(0, ioctl(store.fd, LSMEM_IOC_STAT, &all));
	EXPECT_EQ(sizeof(all), all.size);
	EXPECT_EQ(0, all.segments_compacted);
	EXPECT_EQ(0, store_destroy(&store));

	/* The kernel takes zero for fields that the program's structure does not have. */
	create.size = LSMEM_CREATE_SIZE_VER0;
	create.segments = ~0u;
	create.reserved = ~0u;
	ASSERT_EQ(0, control_call(LSMEM_CTL_CREATE, &create));
	EXPECT_EQ(~0u, create.segments);
	EXPECT_EQ(0, destroy_named(create.name, 0));

	newer.create.size = sizeof(newer);
	newer.tail[1] = 1;
	EXPECT_EQ(-E2BIG, control_call(LSMEM_CTL_CREATE, &newer));
	newer.tail[1] = 0;
	newer.tail[0] = 1ull << 63;
	EXPECT_EQ(-E2BIG, control_call(LSMEM_CTL_CREATE, &newer));
	newer.tail[0] = 0;
	ASSERT_EQ(0, control_call(LSMEM_CTL_CREATE, &newer));
	EXPECT_EQ(sizeof(newer), newer.create.size) TH_LOG("the caller's size stays");
	EXPECT_EQ(0, destroy_named(newer.create.name, 0));
	munmap(page, 4096);
}

TEST(control_unknown_calls)
{
	struct lsmem_create create = good_create;
	int fd = open("/dev/lsmem-control", O_RDWR | O_CLOEXEC);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, ioctl(fd, LSMEM_IOC_STAT, &create));
	EXPECT_EQ(ENOTTY, errno);
	EXPECT_EQ(-1, ioctl(fd, _IOWR(LSMEM_IOC_MAGIC, 0xdf, struct lsmem_create), &create));
	EXPECT_EQ(ENOTTY, errno);
	EXPECT_EQ(-1, ioctl(fd, LSMEM_CTL_CREATE, NULL));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0));
	EXPECT_EQ(ENODEV, errno);
	close(fd);
}

/* ---- Too little memory -------------------------------------------------- */

/* Pages that the kernel has allocated since the boot, from /proc/vmstat. */
static long long pages_allocated(void)
{
	FILE *file = fopen("/proc/vmstat", "re");
	long long sum = 0, value;
	char name[64];

	while (file && fscanf(file, "%63s %lld", name, &value) == 2) {
		if (!strncmp(name, "pgalloc_", 8))
			sum += value;
	}
	if (file)
		fclose(file);
	return sum;
}

/*
 * A store for which there is too little memory is refused before any memory is allocated, with a
 * message that says how much it takes.  For the last two shapes the log alone would fit, but
 * the table of handles is too large.
 */
TEST(create_without_memory)
{
	struct lsmem_create create = good_create;
	uint64_t available = (uint64_t)available_kib() << 10;
	const struct {
		uint64_t bytes, handles;
	} shapes[] = {
		{ 1ull << 40, 0 },		/* the largest size that is accepted */
		{ 1ull << 40, 0x7fffffff },
		{ 256ull << 30, 0 },		/* by default, a bitmap of 2^30 handles */
		{ STORE_BYTES, 0x7fffffff },	/* 16 GiB of handles */
		{ available / 2 & ~(8 * MIB - 1),
		  available / 8 * 5 / sizeof(struct lsmem_handle) },
	};
	size_t i;

	if (available > 15ull << 30)
		SKIP(return, "there is memory for what is to be refused");
	for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		int said = log_says("lsmem: no store was made: it takes ");
		int failed = log_says("vmalloc error");
		long long before;

		create = good_create;
		create.bytes = shapes[i].bytes;
		create.handles_max = shapes[i].handles;
		before = pages_allocated();
		EXPECT_EQ(-ENOMEM, control_call(LSMEM_CTL_CREATE, &create)) TH_LOG("%zu", i);
		EXPECT_GT(STORE_BYTES / 4 / 4096, pages_allocated() - before)
			TH_LOG("%zu: memory was taken before", i);
		EXPECT_EQ(said + 1, log_says("lsmem: no store was made: it takes "))
			TH_LOG("%zu: nothing says why", i);
		EXPECT_EQ(failed, log_says("vmalloc error")) TH_LOG("%zu", i);
	}
}

/*
 * Half of the available memory, but at most 1 GiB, which is zeroed in seconds under emulation;
 * LSMEM_LARGE_MIB in the environment says another size.
 */
TEST_F_TIMEOUT(slow, create_large, 600)
{
	uint64_t half = ((uint64_t)available_kib() << 10) / 2 & ~(8 * MIB - 1);
	const char *asked = getenv("LSMEM_LARGE_MIB");
	uint64_t bytes = asked ? strtoull(asked, NULL, 10) * MIB :
				 half < 1024 * MIB ? half : 1024 * MIB;
	char data[] = "the last byte", back[sizeof(data)] = "";
	struct store store;
	struct lsmem_op op;

	ASSERT_EQ(0, store_create(&store, bytes, 0, 0));
	EXPECT_EQ(bytes >> 16, store_attribute(&store, "seglets"));
	EXPECT_EQ(bytes >> 8, store_attribute(&store, "handles_max"));
	op = lsm_op_alloc(data, sizeof(data), 0);
	EXPECT_EQ(0, ioctl(store.fd, LSMEM_IOC_ALLOC, &op));
	op = lsm_op_read(op.handle, back, sizeof(back), 0);
	EXPECT_EQ(0, ioctl(store.fd, LSMEM_IOC_READ, &op));
	EXPECT_STREQ(data, back);
	EXPECT_EQ(0, store_destroy(&store));
}

/* ---- Memory of clients --------------------------------------------------- */

#define CHARGED_FILES	400
#define DAEMON_BYTES	(256 * (long long)sizeof(struct lsmem_event))	/* events of an attachment */
#define SLOTS_BYTES	(4096 + 2048)	/* the page of slots, and the kernel's record of them */
#define SNAPSHOT_BYTES	((long long)STORE_BYTES / 256)	/* the bitmap in a snapshot, at least */

/* What a child reports: memory.current, number of mappings, errno. */
struct charged {
	long long opened, mapped;
	int maps, error;
};

static int write_text(const char *directory, const char *name, const char *text)
{
	char path[128];
	int fd, ret;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

static long long read_number(const char *directory, const char *name)
{
	long long value = -1;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%lld", &value) != 1)
		value = -1;
	if (file)
		fclose(file);
	return value;
}

/* The offset of the window of slots of a store; 0 on error. */
static off_t slots_offset(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	const struct lsmem_info *info;
	off_t offset = 0;

	info = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, LSMEM_WINDOW_INFO);
	if (info != MAP_FAILED) {
		offset = (off_t)info->slots.offset;
		munmap((void *)info, 4096);
	}
	close(fd);
	return offset;
}

/* Map the slots at @at, in place of any other mapping; anywhere if @at is NULL. */
static void *map_slots(int fd, off_t offset, void *at)
{
	return mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd,
		    offset);
}

/*
 * In a cgroup of its own, open many files and map the slots of each; the limit of the cgroup
 * does not permit the slots of the second half.  All mappings use one address: further mappings
 * would take memory for which the kernel kills tasks.
 */
static void charged_child(const char *group, const char *path, struct charged *charged)
{
	struct rlimit files = { 3 * CHARGED_FILES, 3 * CHARGED_FILES };
	off_t offset = slots_offset(path);
	static int fds[2 * CHARGED_FILES];
	void *at = map_slots(open(path, O_RDWR | O_CLOEXEC), offset, NULL);
	char limit[32];
	int i;

	if (at == MAP_FAILED || write_text(group, "cgroup.procs", "0") || setrlimit(RLIMIT_NOFILE, &files))
		_exit(1);
	for (i = 0; i < 2 * CHARGED_FILES; i++) {
		fds[i] = open(path, O_RDWR | O_CLOEXEC);
		if (fds[i] < 0)
			_exit(2);
	}
	charged->opened = read_number(group, "memory.current");
	for (i = 0; i < CHARGED_FILES; i++)
		if (map_slots(fds[i], offset, at) == MAP_FAILED)
			_exit(3);
	charged->mapped = read_number(group, "memory.current");
	snprintf(limit, sizeof(limit), "%lld", charged->mapped + CHARGED_FILES * SLOTS_BYTES / 4);
	if (write_text(group, "memory.max", limit))
		_exit(4);
	for (; i < 2 * CHARGED_FILES; i++) {
		if (map_slots(fds[i], offset, at) == MAP_FAILED) {
			charged->error = errno;
			break;
		}
		charged->maps++;
	}
	_exit(0);
}

/* Make a cgroup (v2) at @group, on a new mount at @root. Returns NULL, or why that failed. */
static const char *group_make(char *root, char *group, size_t room)
{
	if (!mkdtemp(root))
		return "no directory in /tmp";
	if (mount("none", root, "cgroup2", 0, NULL)) {
		rmdir(root);
		return "no cgroup2";
	}
	snprintf(group, room, "%s/lsmem-test", root);
	if (write_text(root, "cgroup.subtree_control", "+memory") || mkdir(group, 0700)) {
		umount2(root, MNT_DETACH);
		rmdir(root);
		return "no memory controller";
	}
	return NULL;
}

/* The memory of slots is charged to the task that maps them, so a cgroup bounds it. */
TEST(clients_are_charged)
{
	struct charged *charged = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char root[] = "/tmp/lsmem-cgroup-XXXXXX", group[64];
	struct store store;
	const char *missing;
	int status = 0;
	pid_t pid;

	ASSERT_NE(MAP_FAILED, charged);
	missing = group_make(root, group, sizeof(group));
	if (missing)
		SKIP(return, "%s", missing);
	ASSERT_EQ(0, store_create(&store, STORE_BYTES, 0, 0));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		charged_child(group, store.path, charged);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_LE(CHARGED_FILES * SLOTS_BYTES / 4 * 3, charged->mapped - charged->opened)
		TH_LOG("slots: %lld bytes charged", charged->mapped - charged->opened);
	EXPECT_GT(CHARGED_FILES, charged->maps) TH_LOG("more than the limit of the cgroup");
	EXPECT_EQ(ENOMEM, charged->error);
	EXPECT_EQ(0, store_destroy(&store));
	EXPECT_EQ(0, rmdir(group));
	EXPECT_EQ(0, umount2(root, MNT_DETACH));
	rmdir(root);
	munmap(charged, 4096);
}

#define NO_USERFAULTFD	77	/* exit code of a child */

/* What a child reports that makes calls in a cgroup. */
struct charged_calls {
	long long bounce[2];		/* growth of memory.current during ALLOC and READ */
	long long plain, attached, detached;	/* bytes of slab, from memory.stat */
	int errors[2], attach_error;
};

/*
 * The bytes of slab that memory.stat of the caller's cgroup shows; -1 on error.  The kernel adds up
 * the numbers of its CPUs every two seconds, or when a reader comes after large changes: make some.
 */
static long long slab_charged(const char *group)
{
	long long value = -1;
	char line[128];
	FILE *file;

	munmap(mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0), 8 * MIB);
	snprintf(line, sizeof(line), "%s/memory.stat", group);
	file = fopen(line, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "slab_unreclaimable %lld", &value) == 1)
			break;
	}
	if (file)
		fclose(file);
	return value;
}

/* A call in a thread of its own. */
struct slow_call {
	pthread_t thread;
	int fd, error;
	unsigned long request;
	struct lsmem_op op;
	atomic_bool done;
};

static void *call_slowly(void *argument)
{
	struct slow_call *slow = argument;

	slow->error = ioctl(slow->fd, slow->request, &slow->op) ? errno : 0;
	atomic_store(&slow->done, true);
	return NULL;
}

/*
 * Make a call on @length bytes of @pages, of which the first or the last page is always absent:
 * when one of them is brought in, the other one is dropped.  So the kernel never finds all pages
 * and copies by a bounce buffer.  Returns by how much memory.current grows meanwhile; -1 on error.
 */
static long long call_with_bounce(const char *group, struct slow_call *slow, int uffd,
				  uint8_t *pages, size_t length)
{
	uint8_t *ends[] = { pages, pages + length - 4096 };
	struct uffdio_zeropage zero = { .range = { (uintptr_t)pages, length } };
	struct pollfd wait = { .fd = uffd, .events = POLLIN };
	long long most = 0, before, current;
	struct uffd_msg message;

	/* Only the ends are absent. */
	if (madvise(pages, length, MADV_DONTNEED) || ioctl(uffd, UFFDIO_ZEROPAGE, &zero) ||
	    madvise(ends[0], 4096, MADV_DONTNEED) || madvise(ends[1], 4096, MADV_DONTNEED))
		return -1;
	memset(pages + 4096, 1, length - 2 * 4096);	/* READ allocates no pages */
	before = read_number(group, "memory.current");
	atomic_store(&slow->done, false);
	if (pthread_create(&slow->thread, NULL, call_slowly, slow))
		return -1;
	while (!atomic_load(&slow->done)) {
		if (poll(&wait, 1, 20) != 1 || read(uffd, &message, sizeof(message)) < 0)
			continue;
		current = read_number(group, "memory.current");
		most = current - before > most ? current - before : most;
		zero.range.start = message.arg.pagefault.address & ~4095ull;
		zero.range.len = 4096;
		madvise(ends[zero.range.start == (uintptr_t)pages], 4096, MADV_DONTNEED);
		if (ioctl(uffd, UFFDIO_ZEROPAGE, &zero))
			_exit(5);
	}
	pthread_join(slow->thread, NULL);
	return most;
}

/* In a cgroup of its own: attach to @durable, and make calls that need bounce buffers on @store. */
static void charged_calls_child(const char *group, const struct store *store,
				const struct store *durable, struct charged_calls *seen)
{
	struct lsmem_attach attach = { .size = sizeof(attach) };
	struct slow_call slow = { .fd = store->fd };
	void *pages;
	int i, uffd;

	uffd = slow_pages(&pages, OBJECT_MAX);
	if (uffd < 0)
		_exit(NO_USERFAULTFD);
	if (write_text(group, "cgroup.procs", "0"))
		_exit(1);
	memcpy(attach.name, durable->name, sizeof(attach.name));
	seen->plain = slab_charged(group);
	seen->attach_error = -control_call(LSMEM_CTL_ATTACH, &attach);
	seen->attached = slab_charged(group);
	close(attach.fd);
	seen->detached = slab_charged(group);
	/* In the first round, with two pages, the CPUs charge some pages in advance. */
	for (i = 0; i < 2; i++) {
		const size_t length = i ? OBJECT_MAX : 2 * 4096;

		slow.request = LSMEM_IOC_ALLOC;
		slow.op = lsm_op_alloc(pages, (uint32_t)length, 0);
		seen->bounce[0] = call_with_bounce(group, &slow, uffd, pages, length);
		seen->errors[0] = slow.error;
		slow.request = LSMEM_IOC_READ;
		slow.op = lsm_op_read(slow.op.handle, pages, (uint32_t)length, 0);
		seen->bounce[1] = call_with_bounce(group, &slow, uffd, pages, length);
		seen->errors[1] = slow.error;
	}
	_exit(0);
}

/*
 * The bounce buffer of a call whose pages are absent and the buffer for the events of a daemon are
 * charged to the cgroup of the caller.
 */
TEST_F_TIMEOUT(slow, calls_are_charged, 60)
{
	struct charged_calls *seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char root[] = "/tmp/lsmem-cgroup-XXXXXX", group[64];
	struct store store, durable;
	const char *missing;
	int status = 0, i;
	pid_t pid;

	ASSERT_NE(MAP_FAILED, seen);
	missing = group_make(root, group, sizeof(group));
	if (missing)
		SKIP(return, "%s", missing);
	ASSERT_EQ(0, store_create(&store, STORE_BYTES, 0, 0));
	ASSERT_EQ(0, store_create(&durable, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		charged_calls_child(group, &store, &durable, seen);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, store_destroy(&durable));
	EXPECT_EQ(0, store_destroy(&store));
	EXPECT_EQ(0, rmdir(group));
	EXPECT_EQ(0, umount2(root, MNT_DETACH));
	rmdir(root);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_USERFAULTFD)
		SKIP(return, "this kernel has no userfaultfd");
	ASSERT_EQ(0, status);
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, seen->errors[i]);
		EXPECT_LE((long long)OBJECT_MAX / 2, seen->bounce[i])
			TH_LOG("%s: %lld bytes charged", i ? "READ" : "ALLOC", seen->bounce[i]);
	}
	EXPECT_EQ(0, seen->attach_error);
	EXPECT_LE(DAEMON_BYTES, seen->attached - seen->plain);
	EXPECT_LE(DAEMON_BYTES, seen->attached - seen->detached);
	munmap(seen, 4096);
}

/* What a child reports that makes snapshots in a cgroup. */
struct charged_snapshot {
	long long before, with, after;	/* memory.current: without one, with one, and when that is closed */
	long long left;			/* and behind a call that failed */
	int errors[2];			/* of a call with room for a snapshot, and of one without */
};

/* How often something has happened to a cgroup: a line of memory.events; -1 on error. */
static long long group_event(const char *group, const char *name)
{
	long long value = -1, number;
	char line[128], key[64];
	FILE *file;

	snprintf(line, sizeof(line), "%s/memory.events", group);
	file = fopen(line, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%63s %lld", key, &number) == 2 && !strcmp(key, name))
			value = number;
	}
	if (file)
		fclose(file);
	return value;
}

/* In a cgroup of its own: a snapshot for which there is room, and one for which there is too little. */
static void charged_snapshot_child(const char *group, const struct store *store, struct charged_snapshot *seen)
{
	struct lsmem_snapshot snapshot = { .size = sizeof(snapshot) };
	char limit[32];

	if (write_text(group, "cgroup.procs", "0"))
		_exit(1);
	seen->before = read_number(group, "memory.current");
	seen->errors[0] = ioctl(store->fd, LSMEM_IOC_SNAPSHOT, &snapshot) ? errno : 0;
	seen->with = read_number(group, "memory.current");
	if (!seen->errors[0])
		close(snapshot.fd);
	seen->after = read_number(group, "memory.current");
	snprintf(limit, sizeof(limit), "%lld", seen->after + SNAPSHOT_BYTES / 8);
	if (write_text(group, "memory.max", limit))
		_exit(2);
	snapshot = (struct lsmem_snapshot){ .size = sizeof(snapshot) };
	seen->errors[1] = ioctl(store->fd, LSMEM_IOC_SNAPSHOT, &snapshot) ? errno : 0;
	seen->left = read_number(group, "memory.current");
	_exit(0);
}

/*
 * The memory of a snapshot is charged to the cgroup of the task that makes it.  At the limit the call fails, and no
 * task is killed: neither the caller nor a writer.
 */
TEST(snapshots_are_charged)
{
	struct charged_snapshot *seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char root[] = "/tmp/lsmem-cgroup-XXXXXX", group[64];
	struct store store;
	const char *missing;
	int status = 0;
	pid_t pid;

	ASSERT_NE(MAP_FAILED, seen);
	memset(seen, 0, sizeof(*seen));
	missing = group_make(root, group, sizeof(group));
	if (missing)
		SKIP(return, "%s", missing);
	ASSERT_EQ(0, store_create(&store, STORE_BYTES, 0, 0));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		charged_snapshot_child(group, &store, seen);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, group_event(group, "oom_kill"));
	EXPECT_LT(0, group_event(group, "max")) TH_LOG("the limit was never reached");
	EXPECT_EQ(0, seen->errors[0]);
	EXPECT_EQ(ENOMEM, seen->errors[1]);
	/* The kernel charges up to 64 pages of each CPU in advance. */
	EXPECT_LE(SNAPSHOT_BYTES / 2, seen->with - seen->before);
	EXPECT_LE(SNAPSHOT_BYTES / 2, seen->with - seen->after);
	EXPECT_GT(SNAPSHOT_BYTES / 2, seen->left - seen->after);
	TH_LOG("%lld bytes charged for a snapshot", seen->with - seen->before);
	EXPECT_EQ(0, store_attribute(&store, "cleaner/snapshots"));
	EXPECT_EQ(0, store_destroy(&store));
	EXPECT_EQ(0, rmdir(group));
	EXPECT_EQ(0, umount2(root, MNT_DETACH));
	rmdir(root);
	munmap(seen, 4096);
}

/* Does the kernel have memory cgroups, of either version? */
static bool memory_controller(void)
{
	FILE *file = fopen("/proc/cgroups", "re");
	char line[128];
	bool has = false;
	int enabled;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "memory %*d %*d %d", &enabled) == 1)
			has = enabled;
	}
	if (file)
		fclose(file);
	return has;
}

/* What a child reports that creates stores in a cgroup. */
struct charged_store {
	long long before, plain, charged, destroyed;	/* memory.current */
	long long attributes[2];			/* "charged", of both stores */
	int error, shown;				/* errno: of the creation, of show_log() */
	int over_limit, taken_for_it;			/* errno; pages allocated by that call */
	int over_use;					/* errno */
	long long left;					/* memory.current after all */
};

/* Attach as a daemon, and map and read each page of the log, as lsmemd does. 0 or an errno. */
static int show_log(const struct store *store)
{
	struct lsmem_attach attach = { .size = sizeof(attach) };
	const struct lsmem_info *info;
	uint64_t sum = 0, at;
	const uint8_t *log;
	int ret;

	memcpy(attach.name, store->name, sizeof(attach.name));
	ret = control_call(LSMEM_CTL_ATTACH, &attach);
	if (ret)
		return -ret;
	info = mmap(NULL, 4096, PROT_READ, MAP_SHARED, attach.fd, LSMEM_WINDOW_INFO);
	log = info == MAP_FAILED ? MAP_FAILED :
	      mmap(NULL, info->seglets.length, PROT_READ, MAP_SHARED, attach.fd,
		   (off_t)info->seglets.offset);
	if (log != MAP_FAILED) {
		for (at = 0; at < info->seglets.length; at += 4096)
			sum += log[at];
		ret = sum ? EBADMSG : munmap((void *)log, info->seglets.length) ? errno : 0;
		munmap((void *)info, 4096);
	} else {
		ret = errno;
	}
	close(attach.fd);
	return ret;
}

/* Handles; the other tables are small. */
#define STORE_TABLES	(STORE_BYTES / 256 * sizeof(struct lsmem_handle))

/* In a cgroup of its own: a store that is not charged, one that is, and two that do not fit. */
static void charged_store_child(const char *group, struct charged_store *seen)
{
	struct lsmem_create create = good_create;
	struct store store;
	char limit[32];
	void *used;

	if (write_text(group, "cgroup.procs", "0"))
		_exit(1);
	seen->before = read_number(group, "memory.current");
	if (store_create(&store, STORE_BYTES, 0, 0))
		_exit(2);
	seen->plain = read_number(group, "memory.current");
	seen->attributes[0] = store_attribute(&store, "charged");
	if (store_destroy(&store))
		_exit(3);
	seen->error = -store_create(&store, STORE_BYTES, 0,
				    LSMEM_STORE_DURABLE | LSMEM_STORE_CHARGED);
	if (seen->error)
		_exit(0);
	seen->charged = read_number(group, "memory.current");
	seen->attributes[1] = store_attribute(&store, "charged");
	seen->shown = show_log(&store);
	if (store_destroy(&store))
		_exit(4);
	seen->destroyed = read_number(group, "memory.current");

	create.flags = LSMEM_STORE_CHARGED;
	snprintf(limit, sizeof(limit), "%llu", STORE_BYTES);
	if (write_text(group, "memory.max", limit))
		_exit(5);
	seen->taken_for_it = -(int)pages_allocated();
	seen->over_limit = -control_call(LSMEM_CTL_CREATE, &create);
	seen->taken_for_it += (int)pages_allocated();
	/* The limit would suffice for the store, but a part of it is in use. */
	used = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
	snprintf(limit, sizeof(limit), "%llu", STORE_BYTES + STORE_TABLES + 16 * MIB);
	if (used == MAP_FAILED || write_text(group, "memory.max", limit))
		_exit(6);
	seen->over_use = -control_call(LSMEM_CTL_CREATE, &create);
	munmap(used, 64 * MIB);
	seen->left = read_number(group, "memory.current");
	_exit(0);
}

/*
 * With LSMEM_STORE_CHARGED the memory of a store is charged to the cgroup of the task that creates
 * it.  A store that exceeds the limit is refused, and no task is killed.
 */
TEST_F_TIMEOUT(slow, store_is_charged, 60)
{
	struct charged_store *seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int said = log_says("the limit of its memory cgroup is "), status = 0;
	int had = log_says("MiB of seglets could be had of ");
	char root[] = "/tmp/lsmem-cgroup-XXXXXX", group[64];
	struct lsmem_create create = good_create;
	const long long small = 8 * MIB;
	const char *missing;
	pid_t pid;

	ASSERT_NE(MAP_FAILED, seen);
	missing = group_make(root, group, sizeof(group));
	if (missing) {
		create.flags = LSMEM_STORE_CHARGED;
		status = memory_controller() ? -EOPNOTSUPP :
					       control_call(LSMEM_CTL_CREATE, &create);
		EXPECT_EQ(-EOPNOTSUPP, status) TH_LOG("a kernel without memory cgroups");
		munmap(seen, 4096);
		SKIP(return, "%s", missing);
	}
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		charged_store_child(group, seen);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, rmdir(group));
	EXPECT_EQ(0, umount2(root, MNT_DETACH));
	rmdir(root);
	EXPECT_GT(small, seen->plain - seen->before) TH_LOG("charged, and not asked for");
	EXPECT_EQ(0, seen->attributes[0]);
	ASSERT_EQ(0, seen->error);
	EXPECT_LE((long long)(STORE_BYTES + STORE_TABLES), seen->charged - seen->before);
	EXPECT_GT((long long)(STORE_BYTES + STORE_TABLES) + 2 * small,
		  seen->charged - seen->before);
	EXPECT_EQ(1, seen->attributes[1]);
	EXPECT_EQ(0, seen->shown);
	EXPECT_GT(small, seen->destroyed - seen->before) TH_LOG("still charged");
	EXPECT_EQ(ENOMEM, seen->over_limit);
	EXPECT_GT(STORE_BYTES / 4 / 4096, seen->taken_for_it) TH_LOG("memory was taken before");
	EXPECT_EQ(said + 1, log_says("the limit of its memory cgroup is "));
	EXPECT_EQ(ENOMEM, seen->over_use);
	EXPECT_EQ(had + 1, log_says("MiB of seglets could be had of "));
	EXPECT_GT(small, seen->left - seen->before) TH_LOG("still charged");
	munmap(seen, 4096);
}

#define MAPS	1000
#define TRIES	10

/* limits/clients_max bounds the number of files with slots, because a scan reads all of them. */
TEST(clients_max)
{
	struct store store;
	long long pages, least = LLONG_MAX;
	off_t offset;
	void *slots;
	int fd[2];
	int i, round;

	ASSERT_EQ(0, store_create(&store, STORE_BYTES, 0, 0));	/* liblsmem's file has slots */
	offset = slots_offset(store.path);
	ASSERT_EQ(0, store_set_attribute(&store, "limits/clients_max", 2));
	fd[0] = open(store.path, O_RDWR | O_CLOEXEC);
	fd[1] = open(store.path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd[1]) TH_LOG("files without slots are not counted");
	slots = map_slots(fd[0], offset, NULL);
	ASSERT_NE(MAP_FAILED, slots);
	EXPECT_EQ(MAP_FAILED, map_slots(fd[1], offset, NULL));
	EXPECT_EQ(ENFILE, errno);
	munmap(slots, 4096);
	slots = map_slots(fd[0], offset, NULL);
	EXPECT_NE(MAP_FAILED, slots) TH_LOG("the same file's, once more");
	/*
	 * Further mappings of the same slots, and refused mappings, allocate no slots.  Others allocate, too: each
	 * round has what they allocate, the least of them has what each mapping does.
	 */
	for (round = 0; round < TRIES; round++) {
		pages = -pages_allocated();
		for (i = 0; i < MAPS && slots != MAP_FAILED; i++) {
			slots = map_slots(fd[0], offset, slots);
			EXPECT_EQ(MAP_FAILED, map_slots(fd[1], offset, NULL));
		}
		pages += pages_allocated();
		EXPECT_EQ(MAPS, i);
		if (pages < least)
			least = pages;
	}
	EXPECT_GT(MAPS / 2, least) TH_LOG("pages for %d mappings, and as many refused", MAPS);
	munmap(slots, 4096);
	close(fd[0]);
	EXPECT_NE(MAP_FAILED, slots = map_slots(fd[1], offset, NULL));
	munmap(slots, 4096);
	close(fd[1]);
	EXPECT_EQ(0, store_destroy(&store));
}

TEST(create_cannot_tell_its_name)
{
	long long before, after;
	struct lsmem_create *create = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, create);
	*create = good_create;
	ASSERT_EQ(0, mprotect(create, 4096, PROT_READ));
	before = available_kib();
	EXPECT_EQ(-EFAULT, control_call(LSMEM_CTL_CREATE, create));
	after = available_kib();
	EXPECT_GT(64 * 1024, before - after) TH_LOG("a store was made that is not known");
	munmap(create, 4096);
}

TEST_F_TIMEOUT(slow, create_and_destroy_leak_nothing, 60)
{
	struct store stores[3];
	long long before = 0, after;
	int round, rounds = 2 + (int)test_scaled(6), i;

	for (round = 0; round < rounds; round++) {
		if (round == 1)		/* the first one warms caches up */
			before = available_kib();
		for (i = 0; i < 3; i++)
			ASSERT_EQ(0, store_create(&stores[i], STORE_BYTES, 0, 0));
		EXPECT_STRNE(stores[0].name, stores[1].name);
		EXPECT_STRNE(stores[1].name, stores[2].name);
		for (i = 0; i < 3; i++) {
			uint64_t handle;

			ASSERT_EQ(0, lsm_alloc(stores[i].lsm, "x", 1, 0, &handle, NULL));
			ASSERT_EQ(0, store_destroy(&stores[i]));
			EXPECT_EQ(-1, access(stores[i].path, F_OK));
			EXPECT_EQ(-1, store_attribute(&stores[i], "seglets"));
		}
	}
	after = available_kib();
	EXPECT_GT(100 * 1024, before - after)
		TH_LOG("of 2.7 GB in all, %lld KiB did not come back", before - after);
}

TEST(destroy_while_in_use)
{
	struct store store;
	char name[LSMEM_NAME_BYTES] = "lsmem999";
	void *window;
	int fd;

	EXPECT_EQ(-ENODEV, destroy_named(name, 0));
	memset(name, 0, sizeof(name));
	EXPECT_EQ(-ENODEV, destroy_named(name, 0));
	memset(name, 'x', sizeof(name));
	EXPECT_EQ(-EINVAL, destroy_named(name, 0)) TH_LOG("a name with no end");

	ASSERT_EQ(0, store_create(&store, STORE_BYTES, 0, 0));
	EXPECT_EQ(-EBUSY, destroy_named(store.name, 0)) TH_LOG("open");
	EXPECT_EQ(-EBUSY, destroy_named(store.name, LSMEM_DESTROY_FORCE)) TH_LOG("open, forced");
	EXPECT_EQ(-EINVAL, destroy_named(store.name, 2)) TH_LOG("an unknown flag");
	lsm_close(store.lsm);
	store.lsm = NULL;
	window = mmap(NULL, 4096, PROT_READ, MAP_SHARED, store.fd, LSMEM_WINDOW_INFO);
	ASSERT_NE(MAP_FAILED, window);
	close(store.fd);
	store.fd = -1;
	EXPECT_EQ(-EBUSY, destroy_named(store.name, 0)) TH_LOG("mapped");
	EXPECT_EQ(LSMEM_INFO_MAGIC, __atomic_load_n((uint64_t *)window, __ATOMIC_RELAXED));
	munmap(window, 4096);
	fd = open(store.path, O_RDONLY | O_CLOEXEC);
	EXPECT_LE(0, fd) TH_LOG("a refusal has changed nothing");
	close(fd);
	EXPECT_EQ(0, destroy_named(store.name, 0));
	EXPECT_EQ(-ENODEV, destroy_named(store.name, 0)) TH_LOG("twice");
	fd = open(store.path, O_RDONLY | O_CLOEXEC);
	EXPECT_EQ(-1, fd);
}

/*
 * As the user nobody, open @path, or, if that is NULL, create a store through the descriptor
 * @handed_on.  Returns 0, an errno, or -1.
 */
static int as_nobody(const char *path, int flags, int handed_on)
{
	struct lsmem_create create = good_create;
	int status, ret;
	pid_t child = fork();

	if (!child) {
		if (setgid(NOBODY) || setuid(NOBODY))
			_exit(255);
		if (path)
			ret = open(path, flags) < 0 ? errno : 0;
		else
			ret = ioctl(handed_on, LSMEM_CTL_CREATE, &create) ? errno : 0;
		_exit(ret);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

TEST(permissions)
{
	struct lsmem_create create = good_create;
	struct stat status;
	char path[64];
	int fd;

	EXPECT_EQ(EACCES, as_nobody("/dev/lsmem-control", O_RDWR, -1));
	fd = open("/dev/lsmem-control", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(EPERM, as_nobody(NULL, 0, fd)) TH_LOG("a descriptor handed on gives nothing");
	close(fd);

	ASSERT_EQ(0, control_call(LSMEM_CTL_CREATE, &create));
	snprintf(path, sizeof(path), "/dev/%s", (char *)create.name);
	ASSERT_EQ(0, stat(path, &status));
	EXPECT_EQ(S_IFCHR | 0600, status.st_mode);
	EXPECT_EQ(0, status.st_uid);
	EXPECT_EQ(EACCES, as_nobody(path, O_RDONLY, -1));
	EXPECT_EQ(0, destroy_named(create.name, 0));

	create = good_create;
	create.uid = 1;
	create.gid = NOBODY;
	create.mode = 0640;
	ASSERT_EQ(0, control_call(LSMEM_CTL_CREATE, &create));
	ASSERT_EQ(0, stat(path, &status));
	EXPECT_EQ(S_IFCHR | 0640, status.st_mode);
	EXPECT_EQ(1, status.st_uid);
	EXPECT_EQ(NOBODY, status.st_gid);
	EXPECT_EQ(0, as_nobody(path, O_RDONLY, -1));
	EXPECT_EQ(EACCES, as_nobody(path, O_RDWR, -1));
	EXPECT_EQ(0, destroy_named(create.name, 0));
}

/* ---- Durable stores without their daemon -------------------------------- */

TEST(durable_before_its_daemon)
{
	struct lsmem_query query = { .size = sizeof(query) };
	struct lsmem_sync sync = { .size = sizeof(sync) };
	struct lsmem_op op = lsm_op_alloc("x", 1, 0);
	struct lsmem_vector vector = {
		.size = sizeof(vector),
		.ops = (uintptr_t)&op,
		.nr = 1,
		.stride = sizeof(op),
	};
	struct store store;
	struct lsm *lsm;

	ASSERT_EQ(0, store_create(&store, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	EXPECT_EQ(-EAGAIN, lsm_open(store.path, 0, &lsm));
	ASSERT_EQ(0, ioctl(store.fd, LSMEM_IOC_QUERY, &query));
	EXPECT_EQ(LSMEM_STATE_NEW, query.state);
	EXPECT_TRUE(query.features & LSMEM_FEATURE_DURABLE);
	EXPECT_EQ(-1, ioctl(store.fd, LSMEM_IOC_ALLOC, &op));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, ioctl(store.fd, LSMEM_IOC_VECTOR, &vector));
	EXPECT_EQ(-EAGAIN, op.result);
	op = lsm_op_read(1ull << 36, NULL, 0, 0);
	EXPECT_EQ(-1, ioctl(store.fd, LSMEM_IOC_READ, &op));
	EXPECT_EQ(EAGAIN, errno);
	op = lsm_op_free(1ull << 36, 0, 0);
	EXPECT_EQ(-1, ioctl(store.fd, LSMEM_IOC_FREE, &op));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, ioctl(store.fd, LSMEM_IOC_SYNC, &sync));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, fsync(store.fd));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, store_destroy(&store));
}

TEST(attach)
{
	struct lsmem_attach attach = { .size = sizeof(attach) }, again;
	struct store volatile_store, store;

	ASSERT_EQ(0, store_create(&volatile_store, STORE_BYTES, 0, 0));
	memcpy(attach.name, volatile_store.name, sizeof(attach.name));
	EXPECT_EQ(-EOPNOTSUPP, control_call(LSMEM_CTL_ATTACH, &attach));
	EXPECT_EQ(0, store_destroy(&volatile_store));
	EXPECT_EQ(-ENODEV, control_call(LSMEM_CTL_ATTACH, &attach));

	ASSERT_EQ(0, store_create(&store, STORE_BYTES, 1000, LSMEM_STORE_DURABLE));
	memcpy(attach.name, store.name, sizeof(attach.name));
	memset(attach.uuid, 7, sizeof(attach.uuid));
	again = attach;
#define ATTACH_REFUSED(error, field, value) do {				\
	again = attach;								\
	again.field = (value);							\
	EXPECT_EQ(-(error), control_call(LSMEM_CTL_ATTACH, &again))		\
		TH_LOG("%s = %s", #field, #value);				\
} while (0)
	ATTACH_REFUSED(EINVAL, flags, 1);
	ATTACH_REFUSED(EINVAL, instant, 1);
	ATTACH_REFUSED(EINVAL, size, 16);
	ASSERT_EQ(0, control_call(LSMEM_CTL_ATTACH, &attach));
	EXPECT_LE(0, attach.fd);
	EXPECT_EQ(LSMEM_STATE_NEW, attach.state);
	EXPECT_EQ(LSMEM_KIND_OBJECT, attach.kind);
	EXPECT_EQ(STORE_BYTES, attach.bytes);
	EXPECT_EQ(1000, attach.handles_max);
	EXPECT_EQ(0, attach.instant);
	again = attach;
	again.fd = 0;
	again.state = again.kind = 0;
	again.bytes = again.handles_max = 0;
	EXPECT_EQ(-EBUSY, control_call(LSMEM_CTL_ATTACH, &again));
	EXPECT_EQ(1, store_attribute(&store, "attached"));
	EXPECT_EQ(-EBUSY, destroy_named(store.name, 0));
	close(attach.fd);
	EXPECT_EQ(0, store_attribute(&store, "attached"));
	EXPECT_EQ(0, control_call(LSMEM_CTL_ATTACH, &again));
	close(again.fd);
	EXPECT_EQ(0, store_destroy(&store));
}

/* A store for instant restarts admits what others do, and its daemon is told. */
TEST(attach_instant)
{
	struct lsmem_attach attach = { .size = sizeof(attach) };
	struct store plain, store;

	EXPECT_EQ(-EINVAL, store_create(&store, STORE_BYTES, 0, LSMEM_STORE_INSTANT));
	ASSERT_EQ(0, store_create(&plain, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, store_create(&store, STORE_BYTES, 0, LSMEM_STORE_DURABLE | LSMEM_STORE_INSTANT));
	EXPECT_EQ(store_attribute(&plain, "capacity_bytes"), store_attribute(&store, "capacity_bytes"));
	EXPECT_EQ(store_attribute(&plain, "handles_max"), store_attribute(&store, "handles_max"));
	memcpy(attach.name, store.name, sizeof(attach.name));
	memset(attach.uuid, 7, sizeof(attach.uuid));
	ASSERT_EQ(0, control_call(LSMEM_CTL_ATTACH, &attach));
	EXPECT_EQ(1, attach.instant);
	EXPECT_EQ(0, attach.capacity) TH_LOG("it has none of its own");
	close(attach.fd);
	EXPECT_EQ(0, store_destroy(&store));
	EXPECT_EQ(0, store_destroy(&plain));
}

/* ---- Block stores ------------------------------------------------------- */

TEST(block_store)
{
	struct lsmem_create create = good_create;
	struct lsmem_stat stat = { .size = sizeof(stat) };
	uint64_t bytes = 0, end;
	char path[64];
	int fd, ret;

	create.kind = LSMEM_KIND_BLOCK;
	ASSERT_EQ(0, control_call(LSMEM_CTL_CREATE, &create));
	EXPECT_EQ(0, strncmp((char *)create.name, "lsmemb", 6));
	snprintf(path, sizeof(path), "/dev/%s", (char *)create.name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, ioctl(fd, BLKGETSIZE64, &bytes));
	EXPECT_LT(STORE_BYTES / 2, bytes);
	EXPECT_GT(STORE_BYTES, bytes);
	EXPECT_EQ(-1, ioctl(fd, LSMEM_IOC_STAT, &stat));
	EXPECT_EQ(ENOTTY, errno) TH_LOG("a block device knows no object calls");
	EXPECT_EQ(-EBUSY, destroy_named(create.name, 0));
	close(fd);
	/* udev may have a new disk open for a moment. */
	for (end = now_ms() + test_limit(20000); (ret = destroy_named(create.name, 0)) == -EBUSY;) {
		if (now_ms() > end)
			break;
		usleep(10000);
	}
	EXPECT_EQ(0, ret);
}

/* ---- sysfs -------------------------------------------------------------- */

TEST(sysfs_values)
{
	static const struct {
		const char *name;
		unsigned long low, high;
	} limits[] = {
		{ "limits/view_ms", 10, 60000 },
		{ "limits/durable_ms", 100, 3600000 },
		{ "limits/flush_ms", 100, 3600000 },
		{ "limits/stall_ms", 100, 3600000 },
		{ "limits/clients_max", 1, 65536 },
		{ "cleaner/free_low", 1, 500 },
		{ "cleaner/utilization_max", 500, 1000 },
		{ "cleaner/tombstones_max", 1, 500 },
		{ "cleaner/fixed_clean", 0, 1000 },
		{ "cleaner/tombstone_ratio", 1, 1000 },
		{ "cleaner/clean_price", 0, 100000 },
		{ "cleaner/nr_compactors", 0, 4 },
	};
	static const char *const read_only[] = {
		"seglets", "capacity_bytes", "live_bytes", "stats/appends", "cleaner/passes",
	};
	struct store store;
	size_t i;

	ASSERT_EQ(0, store_create(&store, STORE_BYTES, 0, 0));
	for (i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		const char *name = limits[i].name;
		long long before = store_attribute(&store, name);

		EXPECT_LE((long long)limits[i].low, before) TH_LOG("%s", name);
		EXPECT_GE((long long)limits[i].high, before);
		EXPECT_EQ(-ERANGE, store_set_attribute(&store, name, limits[i].low - 1))
			TH_LOG("%s", name);
		EXPECT_EQ(-ERANGE, store_set_attribute(&store, name, limits[i].high + 1));
		EXPECT_EQ(-ERANGE, store_set_attribute(&store, name, 1ul << 32));
		EXPECT_EQ(-ERANGE, store_set_attribute(&store, name, ~0ul));
		EXPECT_EQ(before, store_attribute(&store, name)) TH_LOG("refused, so unchanged");
		EXPECT_EQ(0, store_set_attribute(&store, name, limits[i].low));
		EXPECT_EQ(limits[i].low, store_attribute(&store, name));
		EXPECT_EQ(0, store_set_attribute(&store, name, limits[i].high));
		EXPECT_EQ(limits[i].high, store_attribute(&store, name));
	}
	for (i = 0; i < sizeof(read_only) / sizeof(*read_only); i++) {
		EXPECT_LE(0, store_attribute(&store, read_only[i])) TH_LOG("%s", read_only[i]);
		EXPECT_EQ(-EACCES, store_set_attribute(&store, read_only[i], 1))
			TH_LOG("%s", read_only[i]);
	}
	EXPECT_EQ(0, store_destroy(&store));
}

TEST_HARNESS_MAIN
