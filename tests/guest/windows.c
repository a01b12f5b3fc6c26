// SPDX-License-Identifier: GPL-2.0
/*
 * Windows: what a client may map and how, what the kernel must refuse, and that a client cannot
 * harm other clients or the store through its windows.  Views: their bytes stay, and a view that is
 * held longer than view_ms is revoked.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "store.h"

#define PAGE		4096u
#define SEGLET		65536u
#define HUGE_PAGE	(2u << 20)

FIXTURE(window) {
	struct store store;
	struct lsmem_info info;
	uint64_t handle;
	uint8_t bytes[3000];
};

/* Poll until a condition holds. False if that takes longer than @limit_ms. */
#define WAIT_FOR(condition, limit_ms) ({					\
	uint64_t wait_end = now_ms() + test_limit(limit_ms);				\
	bool wait_met;								\
										\
	while (!(wait_met = (condition)) && now_ms() < wait_end)		\
		usleep(10000);							\
	wait_met;								\
})

/* A read that the compiler does not remove. */
static void touch(const void *address)
{
	(void)__atomic_load_n((const uint8_t *)address, __ATOMIC_RELAXED);
}

static void *map(int fd, uint64_t offset, size_t length, int protection, int flags)
{
	void *address = mmap(NULL, length, protection, flags, fd, (off_t)offset);

	return address == MAP_FAILED ? NULL : address;
}

FIXTURE_SETUP(window)
{
	void *page;

	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, 0));
	page = map(self->store.fd, LSMEM_WINDOW_INFO, PAGE, PROT_READ, MAP_SHARED);
	ASSERT_NE(NULL, page);
	memcpy(&self->info, page, sizeof(self->info));
	munmap(page, PAGE);
	content_fill(self->bytes, sizeof(self->bytes), 1, 1);
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, self->bytes, sizeof(self->bytes), 0,
			       &self->handle, NULL));
}

FIXTURE_TEARDOWN(window)
{
	EXPECT_EQ(0, store_destroy(&self->store));
}

/* ---- Windows and their contents ----------------------------------------- */

TEST_F(window, info_page)
{
	const struct lsmem_info *info = &self->info;
	struct lsmem_query query;

	ASSERT_EQ(0, lsm_query(self->store.lsm, &query));
	EXPECT_EQ(LSMEM_INFO_MAGIC, info->magic);
	EXPECT_EQ(LSMEM_ABI, info->abi);
	EXPECT_GE(LSMEM_ABI, info->compat);
	EXPECT_LE(sizeof(*info), info->length);
	EXPECT_EQ(LSMEM_KIND_OBJECT, info->kind);
	EXPECT_EQ(STORE_BYTES / SEGLET, info->nr_seglets);
	EXPECT_EQ(query.handles_max, info->nr_handles);
	EXPECT_EQ(64, info->nr_slots);
	EXPECT_LT(0, info->view_ms);
	EXPECT_LT(0, info->epoch);
	EXPECT_EQ(0, memcmp(info->uuid, query.uuid, sizeof(query.uuid)));
	EXPECT_LE(info->nr_seglets * SEGLET, info->seglets.length);
	EXPECT_LE(info->nr_seglets * sizeof(struct lsmem_seglet), info->seglet_table.length);
	EXPECT_LE(info->nr_handles * sizeof(struct lsmem_handle), info->handles.length);
	EXPECT_LE(info->nr_slots * sizeof(struct lsmem_slot), info->slots.length);
	EXPECT_LE(info->nr_seglets * SEGLET / 32 / 8, info->livemap.length);
}

/* mmap2() as a 32-bit program calls it; its offset is a 32-bit number of pages. NULL on error. */
static void *map_32(int fd, uint64_t offset, int protection, int flags)
{
	uint32_t result = -1u;
#ifdef __x86_64__
	register uint32_t pages asm("r13") = (uint32_t)(offset / PAGE);

	asm volatile("mov %%rbp, %%r12\n\tmov %%r13d, %%ebp\n\tint $0x80\n\tmov %%r12, %%rbp"
		     : "=a"(result)
		     : "a"(192), "b"(0), "c"(PAGE), "d"(protection), "S"(flags), "D"(fd),
		       "r"(pages)
		     : "memory", "cc", "r8", "r9", "r10", "r11", "r12");
#endif
	return result > -PAGE ? NULL : (void *)(uintptr_t)result;
}

static void give_up(int signal)
{
	_exit(signal);
}

/*
 * Does the kernel have the system calls of 32-bit programs?  A kernel without them sends SIGSEGV,
 * which it logs unless there is a handler.
 */
static bool has_32(void)
{
	int status = -1;
	pid_t child = fork();

	if (!child) {
		signal(SIGSEGV, give_up);
		_exit(!map_32(-1, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS));
	}
	return child > 0 && waitpid(child, &status, 0) == child && !status;
}

/* A 32-bit program can map all windows: their offsets are below 2^32 pages. */
TEST_F(window, within_reach_of_32_bits)
{
	const struct lsmem_window *windows[] = {
		&self->info.seglets, &self->info.seglet_table, &self->info.handles, &self->info.slots,
		&self->info.segments, &self->info.livemap,
	};
	struct lsmem_slot *slots, *same;
	size_t i;

	for (i = 0; i < sizeof(windows) / sizeof(*windows); i++)
		EXPECT_GE(1ull << 44, windows[i]->offset + windows[i]->length)
			TH_LOG("window %zu", i);
	if (!has_32())
		SKIP(return, "this kernel has no calls of 32-bit programs");
	slots = map_32(self->store.fd, self->info.slots.offset, PROT_READ | PROT_WRITE, MAP_SHARED);
	ASSERT_NE(NULL, slots);
	same = map(self->store.fd, self->info.slots.offset, PAGE, PROT_READ, MAP_SHARED);
	ASSERT_NE(NULL, same);
	slots[5].epoch = 7;
	EXPECT_EQ(7, same[5].epoch);
	slots[5].epoch = LSMEM_SLOT_IDLE;
	munmap(slots, PAGE);
	munmap(same, PAGE);
}

TEST_F(window, every_byte_is_readable)
{
	const struct lsmem_window *windows[] = {
		&self->info.seglets, &self->info.seglet_table, &self->info.handles, &self->info.slots,
		&self->info.livemap,
	};
	uint8_t *bytes;
	uint64_t at;
	size_t i;

	for (i = 0; i < sizeof(windows) / sizeof(*windows); i++) {
		bytes = map(self->store.fd, windows[i]->offset, windows[i]->length, PROT_READ,
			    MAP_SHARED);
		ASSERT_NE(NULL, bytes);
		for (at = 0; at < windows[i]->length; at += PAGE)
			touch(bytes + at);
		touch(bytes + windows[i]->length - 1);
		munmap(bytes, windows[i]->length);
	}
	/* A part of a window can be mapped too. */
	bytes = map(self->store.fd, self->info.seglets.offset + 5 * PAGE, PAGE, PROT_READ,
		    MAP_SHARED);
	EXPECT_NE(NULL, bytes);
	munmap(bytes, PAGE);
}

TEST_F(window, read_and_view)
{
	uint8_t back[sizeof(self->bytes)];
	struct lsm_object object;
	struct lsm_view view;
	uint64_t version;
	uint32_t i, at = 0;

	EXPECT_EQ(sizeof(back), lsm_read(self->store.lsm, self->handle, back, sizeof(back), 0,
					 &object));
	EXPECT_EQ(0, memcmp(back, self->bytes, sizeof(back)));
	EXPECT_EQ(sizeof(back), object.length);
	ASSERT_EQ(0, lsm_view_begin(self->store.lsm, self->handle, &view));
	version = view.object.version;
	EXPECT_EQ(version, object.version);
	ASSERT_EQ(0, lsm_replace(self->store.lsm, self->handle, "new", 3, 0, &version));
	for (i = 0; i < view.nr; at += (uint32_t)view.iov[i++].iov_len)
		EXPECT_EQ(0, memcmp(view.iov[i].iov_base, self->bytes + at, view.iov[i].iov_len));
	EXPECT_EQ(sizeof(back), at);
	EXPECT_EQ(0, lsm_view_end(self->store.lsm, &view));
	EXPECT_EQ(3, lsm_read(self->store.lsm, self->handle, back, sizeof(back), 0, &object));
	EXPECT_EQ(version, object.version);
	EXPECT_EQ(0, lsm_free(self->store.lsm, self->handle, 0, NULL));
	EXPECT_EQ(-ESTALE, lsm_read(self->store.lsm, self->handle, back, sizeof(back), 0, NULL));
	EXPECT_EQ(-ESTALE, lsm_view_begin(self->store.lsm, self->handle, &view));
}

/* ---- Mappings that the kernel refuses ----------------------------------- */

#define EXPECT_NO_MAP(error, offset, length, protection, flags) do {		\
	void *refused = map(self->store.fd, offset, length, protection, flags);	\
										\
	EXPECT_EQ(NULL, refused)						\
		TH_LOG("%s %s %s %s", #offset, #length, #protection, #flags);	\
	EXPECT_EQ(error, errno);						\
	if (refused)								\
		munmap(refused, length);					\
} while (0)

TEST_F(window, writable_executable_private)
{
	const uint64_t read_only[] = {
		LSMEM_WINDOW_INFO, self->info.seglets.offset, self->info.seglet_table.offset,
		self->info.handles.offset, self->info.livemap.offset,
	};
	const uint64_t slots = self->info.slots.offset;
	void *address;
	size_t i;
	int fd;

	for (i = 0; i < sizeof(read_only) / sizeof(*read_only); i++) {
		EXPECT_NO_MAP(EPERM, read_only[i], PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
		EXPECT_NO_MAP(EPERM, read_only[i], PAGE, PROT_WRITE, MAP_SHARED);
		EXPECT_NO_MAP(EPERM, read_only[i], PAGE, PROT_READ | PROT_EXEC, MAP_SHARED);
		EXPECT_NO_MAP(EINVAL, read_only[i], PAGE, PROT_READ, MAP_PRIVATE);
		EXPECT_NO_MAP(EINVAL, read_only[i], PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
		address = map(self->store.fd, read_only[i], PAGE, PROT_READ, MAP_SHARED);
		ASSERT_NE(NULL, address);
		EXPECT_EQ(-1, mprotect(address, PAGE, PROT_READ | PROT_WRITE));
		EXPECT_EQ(EACCES, errno);
		EXPECT_EQ(-1, mprotect(address, PAGE, PROT_READ | PROT_EXEC));
		EXPECT_EQ(EACCES, errno);
		munmap(address, PAGE);
	}
	EXPECT_NO_MAP(EPERM, slots, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED);
	EXPECT_NO_MAP(EINVAL, slots, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	address = map(self->store.fd, slots, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
	ASSERT_NE(NULL, address);
	EXPECT_EQ(-1, mprotect(address, PAGE, PROT_READ | PROT_EXEC));
	munmap(address, PAGE);

	/* A view holds up seglets, so a file that was opened for reading gets no writable slots. */
	fd = open(self->store.path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(NULL, map(fd, slots, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED));
	EXPECT_EQ(EACCES, errno);
	close(fd);
}

TEST_F(window, outside)
{
	const struct lsmem_info *info = &self->info;

	EXPECT_NO_MAP(ENXIO, PAGE, PAGE, PROT_READ, MAP_SHARED);
	EXPECT_NO_MAP(EINVAL, 0, 2 * PAGE, PROT_READ, MAP_SHARED);
	EXPECT_NO_MAP(ENXIO, info->seglets.offset - PAGE, PAGE, PROT_READ, MAP_SHARED);
	EXPECT_NO_MAP(ENXIO, info->seglets.offset + info->seglets.length, PAGE, PROT_READ,
		      MAP_SHARED);
	EXPECT_NO_MAP(EINVAL, info->seglets.offset, info->seglets.length + PAGE, PROT_READ,
		      MAP_SHARED);
	EXPECT_NO_MAP(EINVAL, info->seglets.offset + PAGE, info->seglets.length, PROT_READ,
		      MAP_SHARED);
	EXPECT_NO_MAP(EINVAL, info->handles.offset + info->handles.length - PAGE, 2 * PAGE,
		      PROT_READ, MAP_SHARED);
	EXPECT_NO_MAP(EINVAL, info->slots.offset, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
	EXPECT_NO_MAP(ENXIO, info->slots.offset + PAGE, PAGE, PROT_READ, MAP_SHARED);
	EXPECT_NO_MAP(ENXIO, info->livemap.offset - PAGE, PAGE, PROT_READ, MAP_SHARED);
	EXPECT_NO_MAP(EINVAL, info->livemap.offset, info->livemap.length + PAGE, PROT_READ,
		      MAP_SHARED);
	EXPECT_NO_MAP(ENXIO, info->livemap.offset + info->livemap.length, PAGE, PROT_READ, MAP_SHARED);
	EXPECT_NO_MAP(ENXIO, 1ull << 62, PAGE, PROT_READ, MAP_SHARED);
}

TEST_F(window, remapped_advised_locked)
{
	uint8_t *address = map(self->store.fd, self->info.seglets.offset, 4 * PAGE, PROT_READ,
			       MAP_SHARED), *moved;

	ASSERT_NE(NULL, address);
	EXPECT_EQ(MAP_FAILED, mremap(address, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE));
	EXPECT_EQ(MAP_FAILED, mremap(address, 4 * PAGE, 8 * PAGE, 0));
	moved = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, moved);
	EXPECT_EQ(MAP_FAILED, mremap(address, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
				     moved));
	EXPECT_EQ(MAP_FAILED, mremap(address, 0, 4 * PAGE, MREMAP_MAYMOVE));
	/* A child does not inherit the mapping, and a core dump leaves it out; both stay so. */
	EXPECT_EQ(-1, madvise(address, 4 * PAGE, MADV_DOFORK));
	EXPECT_EQ(-1, madvise(address, 4 * PAGE, MADV_DODUMP));
	touch(address);
	EXPECT_EQ(0, munmap(address + PAGE, PAGE)) TH_LOG("a hole may be made");
	touch(address + 2 * PAGE);
	munmap(address, 4 * PAGE);
}

/* A handler, because the kernel logs a fatal signal that has none. */
static void exit_with(int number)
{
	_exit(number);
}

/* The number of the signal that a child gets when it reads @address; 0 if it gets none. */
static int touch_in_child(const void *address)
{
	int status;
	pid_t child = fork();

	if (!child) {
		signal(SIGSEGV, exit_with);
		signal(SIGBUS, exit_with);
		touch(address);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

TEST_F(window, fork)
{
	uint8_t *address = map(self->store.fd, self->info.seglets.offset, PAGE, PROT_READ,
			       MAP_SHARED);
	struct lsm_view view;
	uint8_t back[sizeof(self->bytes)];
	int status;
	pid_t child;

	ASSERT_NE(NULL, address);
	EXPECT_EQ(SIGSEGV, touch_in_child(address));
	ASSERT_EQ(0, lsm_view_begin(self->store.lsm, self->handle, &view));
	child = fork();
	if (!child) {
		struct lsm_view other;
		struct lsm *own;

		/* A child reads by system call, without views, unless it opens the store itself. */
		if (lsm_read(self->store.lsm, self->handle, back, sizeof(back), 0, NULL) !=
		    sizeof(back) || memcmp(back, self->bytes, sizeof(back)))
			_exit(1);
		if (lsm_view_begin(self->store.lsm, self->handle, &other) != -ECHILD)
			_exit(2);
		if (lsm_view_end(self->store.lsm, &view) != -ECHILD)
			_exit(3);
		if (lsm_open(self->store.path, 0, &own) ||
		    lsm_view_begin(own, self->handle, &other) || lsm_view_end(own, &other))
			_exit(4);
		lsm_close(self->store.lsm);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, lsm_view_end(self->store.lsm, &view));
	munmap(address, PAGE);
}

/*
 * Direct I/O, vmsplice() and a debugger cannot reach the seglets at @address through the window of a
 * client, which has been touched there.
 */
static void refused(struct __test_metadata *_metadata, uint8_t *address)
{
	struct lsmem_create create = {
		.size = sizeof(create),
		.kind = LSMEM_KIND_BLOCK,
		.bytes = STORE_BYTES,
	};
	struct lsmem_destroy destroy = { .size = sizeof(destroy) };
	struct iovec local, remote = { address, 64 };
	uint8_t bytes[64], *aligned;
	char path[64];
	int fd, pipes[2];

	ASSERT_EQ(0, pipe(pipes));
	EXPECT_EQ(-1, vmsplice(pipes[1], &remote, 1, SPLICE_F_GIFT));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(64, write(pipes[1], address, 64)) TH_LOG("a copy is no harm");
	EXPECT_EQ(64, read(pipes[0], bytes, 64));
	EXPECT_EQ(1, write(pipes[1], "x", 1));
	EXPECT_EQ(-1, read(pipes[0], address, 1));
	EXPECT_EQ(EFAULT, errno);
	close(pipes[0]);
	close(pipes[1]);

	local = (struct iovec){ bytes, sizeof(bytes) };
	EXPECT_EQ(-1, process_vm_readv(getpid(), &local, 1, &remote, 1, 0));
	EXPECT_TRUE(errno == EFAULT || errno == ENOSYS) TH_LOG("errno %d", errno);
	fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, pread(fd, bytes, sizeof(bytes), (off_t)(uintptr_t)address));
	EXPECT_EQ(-1, pwrite(fd, bytes, sizeof(bytes), (off_t)(uintptr_t)address));
	close(fd);

	/* For direct I/O, use a block store of this module: every kernel under test has one. */
	ASSERT_EQ(0, control_call(LSMEM_CTL_CREATE, &create));
	snprintf(path, sizeof(path), "/dev/%s", (char *)create.name);
	fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, fd);
	aligned = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, aligned);
	EXPECT_EQ(PAGE, pwrite(fd, aligned, PAGE, 0)) TH_LOG("from ordinary memory it works");
	EXPECT_EQ(-1, pwrite(fd, address, PAGE, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, pread(fd, address, PAGE, 0));
	EXPECT_EQ(EFAULT, errno);
	close(fd);
	memcpy(destroy.name, create.name, sizeof(destroy.name));
	/* udev may have the disk open for a moment after a write. */
	EXPECT_TRUE(WAIT_FOR(control_call(LSMEM_CTL_DESTROY, &destroy) != -EBUSY, 20000));
	EXPECT_EQ(-ENODEV, control_call(LSMEM_CTL_DESTROY, &destroy)) TH_LOG("it has gone");
	munmap(aligned, PAGE);
}

TEST_F(window, direct_io_splice_debugger)
{
	uint8_t *address = map(self->store.fd, self->info.seglets.offset, SEGLET, PROT_READ,
			       MAP_SHARED);

	ASSERT_NE(NULL, address);
	touch(address);
	refused(_metadata, address);
	munmap(address, SEGLET);
}

/* ---- Page tables of 2 MiB ------------------------------------------------ */

/* Why this kernel maps windows by pages only; NULL if it can map 2 MiB. */
static const char *no_huge_pages(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;
	char enabled[64] = "";
	FILE *file;

	uname(&name);
	if (sscanf(name.release, "%u.%u", &major, &minor) != 2 || major < 6 ||
	    (major == 6 && minor < 12))
		return "before 6.12 the page table of 2 MiB of a window would not keep devices off";
	file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
	if (!file)
		return "this kernel has no transparent huge pages";
	if (!fgets(enabled, sizeof(enabled), file) || strstr(enabled, "[never]"))
		enabled[0] = 0;
	fclose(file);
	return enabled[0] ? NULL : "transparent huge pages are disabled";
}

static long minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* KiB of page tables of this process; -1 if the kernel does not say. */
static long page_table_kib(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	long kib = -1;

	while (file && fgets(line, sizeof(line), file) && sscanf(line, "VmPTE: %ld", &kib) != 1)
		;
	if (file)
		fclose(file);
	return kib;
}

/* Touch each page of @length bytes. How many faults that took. */
static long touch_all(const uint8_t *bytes, size_t length)
{
	long before = minor_faults();
	size_t at;

	for (at = 0; at < length; at += PAGE)
		touch(bytes + at);
	return minor_faults() - before;
}

/*
 * A whole window takes a fault and no page table for each 2 MiB that are contiguous in memory.  The
 * mapping of a client that wants none of this shows the same bytes.
 */
TEST_F(window, huge_pages)
{
	const struct lsmem_window *windows[] = { &self->info.seglets, &self->info.handles };
	const char *why = no_huge_pages();
	unsigned int i;

	if (why)
		SKIP(return, "%s", why);
	for (i = 0; i < 2; i++) {
		const size_t length = windows[i]->length, units = length / HUGE_PAGE;
		long faults[2], kib[2];
		uint8_t *bytes[2];
		unsigned int small;

		for (small = 0; small < 2; small++) {
			bytes[small] = map(self->store.fd, windows[i]->offset, length, PROT_READ,
					   MAP_SHARED);
			ASSERT_NE(NULL, bytes[small]);
			EXPECT_EQ(0, ((uintptr_t)bytes[small] - windows[i]->offset) % HUGE_PAGE);
			if (small)
				ASSERT_EQ(0, madvise(bytes[small], length, MADV_NOHUGEPAGE));
			kib[small] = page_table_kib();
			faults[small] = touch_all(bytes[small], length);
			kib[small] = page_table_kib() - kib[small];
		}
		TH_LOG("%zu MiB: %ld faults, %ld KiB of page tables; by pages %ld, %ld KiB", length >> 20,
		       faults[0], kib[0], faults[1], kib[1]);
		/* Memory of a guest may be fragmented; half of it is not. */
		EXPECT_GE(units / 2 + units / 2 * (HUGE_PAGE / SEGLET), (size_t)faults[0]);
		EXPECT_GE(units / 2 * 4 + 8, (size_t)kib[0]);
		EXPECT_LE(length / SEGLET, (size_t)faults[1]);
		EXPECT_LE(units * 4, (size_t)kib[1]);
		EXPECT_EQ(0, memcmp(bytes[0], bytes[1], length));
		munmap(bytes[0], length);
		munmap(bytes[1], length);
	}
}

/* The first 2 MiB of seglets that a fault maps as a whole; NULL: there are none. */
static uint8_t *huge_page(uint8_t *bytes, size_t length)
{
	size_t at;

	for (at = 0; at < length; at += HUGE_PAGE)
		if (touch_all(bytes + at, HUGE_PAGE) == 1)
			return bytes + at;
	return NULL;
}

/* What is refused is refused there, too, and after it was protected, and when it is in parts. */
TEST_F(window, huge_page_refused)
{
	const size_t length = self->info.seglets.length;
	uint8_t *bytes, *huge, *place;
	struct lsm_view view;

	if (no_huge_pages())
		SKIP(return, "%s", no_huge_pages());
	bytes = map(self->store.fd, self->info.seglets.offset, length, PROT_READ, MAP_SHARED);
	ASSERT_NE(NULL, bytes);
	huge = huge_page(bytes, length);
	ASSERT_NE(NULL, huge);
	refused(_metadata, huge);
	refused(_metadata, huge + HUGE_PAGE / 2 + PAGE);
	EXPECT_EQ(0, touch_all(huge, HUGE_PAGE)) TH_LOG("it is still there");

	EXPECT_EQ(-1, mprotect(huge, HUGE_PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(-1, mprotect(huge, HUGE_PAGE, PROT_READ | PROT_EXEC));
	EXPECT_EQ(-1, madvise(huge, HUGE_PAGE, MADV_DONTNEED));
	EXPECT_EQ(-1, madvise(huge, HUGE_PAGE, MADV_DOFORK));
	EXPECT_EQ(SIGSEGV, touch_in_child(huge));
	place = mmap(NULL, 2 * HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, place);
	EXPECT_EQ(MAP_FAILED, mremap(huge, HUGE_PAGE, HUGE_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
				     place + PAGE));
	touch_all(huge, HUGE_PAGE);

	EXPECT_EQ(0, mprotect(huge, HUGE_PAGE, PROT_NONE));
	EXPECT_EQ(0, mprotect(huge, HUGE_PAGE, PROT_READ));
	touch_all(huge, HUGE_PAGE);
	refused(_metadata, huge);

	/* In parts */
	EXPECT_EQ(0, mprotect(huge + PAGE, PAGE, PROT_NONE));
	EXPECT_EQ(0, munmap(huge + SEGLET, PAGE));
	EXPECT_EQ(1, touch_all(huge, PAGE)) TH_LOG("the kernel has dropped the whole");
	touch_all(huge + 2 * PAGE, SEGLET - 2 * PAGE);
	touch_all(huge + SEGLET + PAGE, HUGE_PAGE - SEGLET - PAGE);
	refused(_metadata, huge);
	refused(_metadata, huge + HUGE_PAGE - PAGE);
	munmap(bytes, length);
	ASSERT_EQ(0, lsm_view_begin(self->store.lsm, self->handle, &view));
	EXPECT_EQ(0, memcmp(view.iov[0].iov_base, self->bytes, view.iov[0].iov_len));
	EXPECT_EQ(0, lsm_view_end(self->store.lsm, &view));
}

/* Addresses that do not fit, and parts of 2 MiB, are mapped by pages, and show the same bytes. */
TEST_F(window, huge_page_does_not_fit)
{
	const size_t length = 4 * HUGE_PAGE;
	uint8_t *bytes, *other, *place;

	bytes = map(self->store.fd, self->info.seglets.offset, length, PROT_READ, MAP_SHARED);
	place = mmap(NULL, length + 2 * HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(NULL, bytes);
	ASSERT_NE(MAP_FAILED, place);
	touch_all(bytes, length);
	other = (uint8_t *)((uintptr_t)place / HUGE_PAGE * HUGE_PAGE) + HUGE_PAGE + SEGLET;
	ASSERT_EQ(other, mmap(other, length, PROT_READ, MAP_SHARED | MAP_FIXED, self->store.fd,
			      (off_t)self->info.seglets.offset));
	EXPECT_EQ(length / SEGLET, touch_all(other, length));
	EXPECT_EQ(0, memcmp(bytes, other, length));
	munmap(place, length + 2 * HUGE_PAGE);
	munmap(bytes, length);

	/* All of it but the first page and the last */
	bytes = map(self->store.fd, self->info.seglets.offset, HUGE_PAGE, PROT_READ, MAP_SHARED);
	other = map(self->store.fd, self->info.seglets.offset + PAGE, HUGE_PAGE - 2 * PAGE, PROT_READ,
		    MAP_SHARED);
	ASSERT_NE(NULL, bytes);
	ASSERT_NE(NULL, other);
	EXPECT_LE(HUGE_PAGE / SEGLET, touch_all(other, HUGE_PAGE - 2 * PAGE));
	EXPECT_EQ(0, memcmp(bytes + PAGE, other, HUGE_PAGE - 2 * PAGE));
	munmap(bytes, HUGE_PAGE);
	munmap(other, HUGE_PAGE - 2 * PAGE);
}

/* ---- Slots -------------------------------------------------------------- */

#define CHURN_OBJECTS	96u
#define CHURN_BYTES	(512u << 10)

/* Replaces objects without end, so that the store needs seglets. */
struct churn {
	struct lsm *lsm;
	uint64_t handles[CHURN_OBJECTS];
	atomic_bool stop;
	int error;
	atomic_ulong replaced;
};

static int churn_fill(struct churn *churn, struct lsm *lsm)
{
	static uint8_t bytes[CHURN_BYTES];
	int i, ret = 0;

	churn->lsm = lsm;
	for (i = 0; i < (int)CHURN_OBJECTS && !ret; i++)
		ret = lsm_alloc(lsm, bytes, sizeof(bytes), 0, &churn->handles[i], NULL);
	return ret;
}

/* Replace objects until @segments more have been cleaned or compacted. 0 or a negative errno. */
static int churn_until(struct churn *churn, uint64_t segments, uint64_t limit_ms)
{
	static uint8_t bytes[CHURN_BYTES];
	uint64_t end = now_ms() + test_limit(limit_ms);
	struct lsmem_stat before, now;
	int i, ret;

	ret = lsm_stat(churn->lsm, &before);
	for (i = 0; !ret; i = (i + 1) % CHURN_OBJECTS) {
		ret = lsm_replace(churn->lsm, churn->handles[i], bytes, sizeof(bytes), 0, NULL);
		if (!ret)
			ret = lsm_stat(churn->lsm, &now);
		churn->replaced++;
		if (!ret && made_room(&now) - made_room(&before) >= segments)
			return 0;
		if (!ret && now_ms() > end)
			ret = -ETIMEDOUT;
	}
	return ret;
}

static void *churn_thread(void *argument)
{
	static uint8_t bytes[CHURN_BYTES];
	struct churn *churn = argument;
	int i;

	for (i = 0; !atomic_load(&churn->stop) && !churn->error; i = (i + 1) % CHURN_OBJECTS) {
		churn->error = lsm_replace(churn->lsm, churn->handles[i], bytes, sizeof(bytes), 0,
					   NULL);
		churn->replaced++;
	}
	return NULL;
}

TEST_F_TIMEOUT(window, view_outlives_its_object, 60)
{
	struct churn churn = { 0 };
	struct lsm_view view;
	unsigned long replaced;
	pthread_t thread;
	uint32_t i, at = 0;

	/* Longer than the test lasts: writers wait, and no view is revoked. */
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/view_ms", 50000));
	EXPECT_EQ(1000, lsm_view_bound(self->store.lsm)) TH_LOG("as it was when it was opened");
	ASSERT_EQ(0, churn_fill(&churn, self->store.lsm));
	ASSERT_EQ(0, lsm_view_begin(self->store.lsm, self->handle, &view));
	EXPECT_EQ(0, lsm_free(self->store.lsm, self->handle, 0, NULL));
	ASSERT_EQ(0, pthread_create(&thread, NULL, churn_thread, &churn));
	/* The writer uses up all free seglets; the view holds up those that are cleaned. */
	EXPECT_TRUE(WAIT_FOR(store_attribute(&self->store, "free_seglets") <=
			     store_attribute(&self->store, "reserved_seglets") + 8, 30000));
	for (i = 0; i < view.nr; at += (uint32_t)view.iov[i++].iov_len)
		EXPECT_EQ(0, memcmp(view.iov[i].iov_base, self->bytes + at, view.iov[i].iov_len));
	replaced = atomic_load(&churn.replaced);
	EXPECT_EQ(0, lsm_view_end(self->store.lsm, &view));
	/* Now they can be used again: the waiting writer continues and replaces every object. */
	EXPECT_TRUE(WAIT_FOR(atomic_load(&churn.replaced) > replaced + CHURN_OBJECTS, 30000));
	atomic_store(&churn.stop, true);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, churn.error);
	EXPECT_EQ(0, store_attribute(&self->store, "cleaner/views_revoked"));
}

TEST_F_TIMEOUT(window, view_too_long_is_revoked, 60)
{
	struct churn churn = { 0 };
	struct lsm_view view, other;
	struct lsm *second;

	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/view_ms", 200));
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &second));
	ASSERT_EQ(0, churn_fill(&churn, self->store.lsm));
	ASSERT_EQ(0, lsm_view_begin(second, self->handle, &view));
	EXPECT_EQ(0, churn_until(&churn, 16, 30000)) TH_LOG("no writer is held up for ever");
	EXPECT_EQ(-ECANCELED, lsm_view_end(second, &view));
	EXPECT_LE(1, store_attribute(&self->store, "cleaner/views_revoked"));
	EXPECT_EQ(0, lsm_view_begin(second, self->handle, &other)) TH_LOG("the slot is good again");
	EXPECT_EQ(0, lsm_view_end(second, &other));
	lsm_close(second);
}

/* A client that writes any values into its slots, without end. */
struct vandal {
	uint64_t *words;
	const struct lsmem_info *info;
	atomic_bool stop;
};

static void *scribble(void *argument)
{
	struct vandal *vandal = argument;
	uint64_t state = test_seed;

	while (!atomic_load(&vandal->stop)) {
		uint64_t value = random_next(&state), at = random_next(&state) % (PAGE / 8);

		switch (value % 8) {
		case 0:
			value = 1;
			break;
		case 1:
			value = LSMEM_SLOT_REVOKED;
			break;
		case 2:
		case 3:
			value = __atomic_load_n(&vandal->info->epoch, __ATOMIC_RELAXED) -
				value / 8 % 4;
			break;
		case 4:
			value = LSMEM_SLOT_IDLE;
			break;
		}
		__atomic_store_n(&vandal->words[at], value, __ATOMIC_RELAXED);
	}
	return NULL;
}

TEST_F_TIMEOUT(window, hostile_slots, 90)
{
	struct churn churn = { 0 };
	struct vandal vandal = { 0 };
	uint8_t back[sizeof(self->bytes)];
	unsigned int i, views = 0;
	struct lsm_view view;
	pthread_t thread;
	void *slots;
	int fd;

	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/view_ms", 20));
	ASSERT_EQ(0, churn_fill(&churn, self->store.lsm));
	fd = open(self->store.path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	slots = map(fd, self->info.slots.offset, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
	vandal.words = slots;
	vandal.info = map(fd, LSMEM_WINDOW_INFO, PAGE, PROT_READ, MAP_SHARED);
	ASSERT_TRUE(vandal.words && vandal.info);
	ASSERT_EQ(0, pthread_create(&thread, NULL, scribble, &vandal));
	/* Cleaning continues, and the views of another file show the right bytes. */
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, churn_until(&churn, 2, 30000));
		ASSERT_EQ(0, lsm_view_begin(self->store.lsm, self->handle, &view));
		memcpy(back, view.iov[0].iov_base, view.iov[0].iov_len);
		if (!lsm_view_end(self->store.lsm, &view)) {
			EXPECT_EQ(0, memcmp(back, self->bytes, view.iov[0].iov_len));
			views++;
		}
	}
	EXPECT_LE(5, views);
	atomic_store(&vandal.stop, true);
	pthread_join(thread, NULL);

	/* The client closes the file with all slots in use: they hold up nothing after that. */
	memset(slots, 1, PAGE);
	munmap(slots, PAGE);
	munmap((void *)vandal.info, PAGE);
	close(fd);
	EXPECT_EQ(0, churn_until(&churn, 4, 30000));
}

/* Change one slot without end between two values that no view publishes any more. */
static void *take_turns(void *argument)
{
	struct vandal *vandal = argument;
	uint64_t turn = 0;

	while (!atomic_load(&vandal->stop))
		__atomic_store_n(&vandal->words[0], 1 + turn++ % 2, __ATOMIC_RELAXED);
	return NULL;
}

TEST_F_TIMEOUT(window, hostile_slot_that_changes, 90)
{
	struct churn churn = { 0 };
	struct vandal vandal = { 0 };
	pthread_t thread;
	int fd;

	/* So long that the scans do not find the same value by chance each time. */
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/view_ms", 500));
	ASSERT_EQ(0, churn_fill(&churn, self->store.lsm));
	fd = open(self->store.path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	vandal.words = map(fd, self->info.slots.offset, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
	ASSERT_NE(NULL, vandal.words);
	ASSERT_EQ(0, pthread_create(&thread, NULL, take_turns, &vandal));
	EXPECT_EQ(0, churn_until(&churn, 20, 60000));
	atomic_store(&vandal.stop, true);
	pthread_join(thread, NULL);
	munmap(vandal.words, PAGE);
	close(fd);
}

/* Opens the store again and again; all slots of each file have the oldest view epoch. */
struct reopener {
	const struct store *store;
	uint64_t offset;		/* of the slots */
	unsigned int pause_ms;
	atomic_bool stop;
	unsigned int opened, failed;
};

static void *reopen(void *argument)
{
	struct reopener *reopener = argument;
	struct lsmem_slot *slots, *before = NULL;
	int fd, fd_before = -1;
	unsigned int i;

	while (!atomic_load(&reopener->stop)) {
		fd = open(reopener->store->path, O_RDWR | O_CLOEXEC);
		slots = fd < 0 ? NULL : map(fd, reopener->offset, PAGE, PROT_READ | PROT_WRITE,
					    MAP_SHARED);
		for (i = 0; slots && i < PAGE / sizeof(*slots); i++)
			__atomic_store_n(&slots[i].epoch, 1, __ATOMIC_SEQ_CST);
		reopener->opened += !!slots;
		reopener->failed += !slots;
		if (before)
			munmap(before, PAGE);
		close(fd_before);
		before = slots;
		fd_before = fd;
		usleep(reopener->pause_ms * 1000);
	}
	if (before)
		munmap(before, PAGE);
	close(fd_before);
	return NULL;
}

#define FULL_BYTES	60000u
#define FULL_PERCENT	90u
#define FULL_REPLACED	(40 * MIB)	/* three times what is free at first */

/* Fill a store. Returns how many objects it has then, or a negative errno. */
static int full_fill(struct lsm *lsm, uint64_t *handles, uint64_t capacity)
{
	static uint8_t bytes[FULL_BYTES];
	int nr, ret = 0;

	for (nr = 0; !ret && nr * (sizeof(bytes) + 32ull) < capacity / 100 * FULL_PERCENT; nr += !ret)
		ret = lsm_alloc(lsm, bytes, sizeof(bytes), 0, &handles[nr], NULL);
	return ret ?: nr;
}

/* Replace some of its objects. Returns after how many ms, or a negative errno. */
static int64_t full_replace(struct lsm *lsm, const uint64_t *handles, uint32_t nr, uint64_t *state)
{
	static uint8_t bytes[FULL_BYTES];
	uint64_t begin = now_ms(), replaced;
	int ret = 0;

	for (replaced = 0; !ret && replaced < FULL_REPLACED; replaced += sizeof(bytes))
		ret = lsm_replace(lsm, handles[random_next(state) % nr], bytes, sizeof(bytes), 0, NULL);
	return ret ?: (int64_t)(now_ms() - begin);
}

/*
 * Each file is closed before view_ms have passed, so no view is revoked, and the next file is open
 * before that.  Seglets may wait for the file that was open when they were emptied, but not for
 * files that were opened later: all that is free is used three times while a few files come and
 * go, and no more of them than this machine needs longer for the same work alone.
 */
TEST_F_TIMEOUT(window, hostile_reopening, 150)
{
	enum { PAUSE_MS = 400, FILES = 120, BUSY = 4 };
	struct reopener reopener = { .store = &self->store, .pause_ms = PAUSE_MS };
	uint64_t *handles, state = test_seed;
	struct lsmem_stat stat;
	int64_t alone, beside;
	pthread_t thread;
	int nr;

	reopener.offset = self->info.slots.offset;
	/* Longer than a file is open on a busy machine, too. */
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/view_ms", 1000));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", test_limit(8000)));
	ASSERT_EQ(0, lsm_stat(self->store.lsm, &stat));
	handles = calloc(stat.capacity / FULL_BYTES + 1, sizeof(*handles));
	ASSERT_NE(NULL, handles);
	nr = full_fill(self->store.lsm, handles, stat.capacity);
	ASSERT_LT(0, nr);
	alone = full_replace(self->store.lsm, handles, (uint32_t)nr, &state);
	ASSERT_LE(0, alone);
	ASSERT_EQ(0, pthread_create(&thread, NULL, reopen, &reopener));
	beside = full_replace(self->store.lsm, handles, (uint32_t)nr, &state);
	atomic_store(&reopener.stop, true);
	pthread_join(thread, NULL);
	TH_LOG("%lld ms alone, %lld ms beside %u files", (long long)alone, (long long)beside, reopener.opened);
	EXPECT_LE(0, beside);
	EXPECT_GE(FILES + BUSY * alone / PAUSE_MS, reopener.opened);
	EXPECT_EQ(0, reopener.failed);
	free(handles);
}

/* ---- Mapping and unmapping while everything moves ----------------------- */

TEST_F_TIMEOUT(window, map_and_unmap_while_cleaning, 90)
{
	struct churn churn = { 0 };
	struct lsmem_stat before, after;
	uint64_t state = test_seed;
	uint8_t back[sizeof(self->bytes)];
	unsigned int rounds = 0;
	pthread_t thread;

	ASSERT_EQ(0, churn_fill(&churn, self->store.lsm));
	ASSERT_EQ(0, lsm_stat(self->store.lsm, &before));
	ASSERT_EQ(0, pthread_create(&thread, NULL, churn_thread, &churn));
	do {
		struct lsm *lsm;
		uint64_t at, length;
		uint8_t *part;

		ASSERT_EQ(0, lsm_open(self->store.path, 0, &lsm));
		ASSERT_EQ(sizeof(back), lsm_read(lsm, self->handle, back, sizeof(back), 0, NULL));
		EXPECT_EQ(0, memcmp(back, self->bytes, sizeof(back)));
		lsm_close(lsm);
		at = random_next(&state) % (self->info.seglets.length / PAGE - 64) * PAGE;
		length = (random_next(&state) % 64 + 1) * PAGE;
		part = map(self->store.fd, self->info.seglets.offset + at, length, PROT_READ,
			   MAP_SHARED);
		ASSERT_NE(NULL, part);
		for (at = 0; at < length; at += PAGE)
			touch(part + at);
		munmap(part, length);
		ASSERT_EQ(0, lsm_stat(self->store.lsm, &after));
		rounds++;
	} while (made_room(&after) - made_room(&before) < 25 && rounds < 100000);
	atomic_store(&churn.stop, true);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, churn.error);
	EXPECT_LE(25, made_room(&after) - made_room(&before));
	TH_LOG("%u times mapped, read, unmapped while %llu segments were worked on", rounds,
	       (unsigned long long)(made_room(&after) - made_room(&before)));
}

TEST_HARNESS_MAIN
