// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem-preload.so: large allocations of an unchanged program in a store.  lsmem-preload(7) is its manual.
 *
 *	LSMEM_PRELOAD_STORE=/dev/lsmem LD_PRELOAD=liblsmem-preload.so sort large.txt
 *
 * The first large allocation makes a region of pages, which is mapped once, larger than the store, and cut
 * into extents of whole pages (extents.c).  An allocation is an extent; an extent that is freed becomes a
 * hole, so all free ones are zeroes.  Small allocations, and what does not fit, are those of the next
 * library in line: dlsym(RTLD_NEXT).
 *
 * Nothing can use the region when the program has ended: a process of its own, end.c, waits for that and
 * removes it.  It is started by clone() like a child of vfork(), because malloc() may be called by any thread, and
 * without a signal to the program, which does not know it.
 *
 * A region is shared between a process and its children, and malloc()'s memory must not be.  So a child of
 * fork() has what it inherited read-only, does not free it, and allocates from the next library.
 *
 * Locks: one, for all extents; fork() holds it.  The region itself never changes once it is there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lsmem/lsmem_format.h>

#include "../lib/lsmem.h"
#include "extents.h"

#define PAGE		((size_t)LSMEM_BLOCK)
#define LEAST		(1u << 20)	/* default of LSMEM_PRELOAD_MIN */
#define TIMES		16u	/* addresses for each byte of the store: fragments of them are no loss */
#define EARLY		4096u	/* bytes for dlsym(), which allocates before it finds the allocator */
#define END_STACK	(64u << 10)
#define MESSAGE		400u

/* The next library's functions. */
static struct {
	void *(*malloc)(size_t length);
	void *(*calloc)(size_t nr, size_t size);
	void *(*realloc)(void *object, size_t length);
	void (*free)(void *object);
	void *(*memalign)(size_t align, size_t length);
	size_t (*usable)(void *object);
} next;

static _Atomic bool found;		/* all of @next is set */
static __thread bool finding __attribute__((tls_model("initial-exec")));
static __thread bool opening __attribute__((tls_model("initial-exec")));
static char early[EARLY] __attribute__((aligned(16)));
static size_t early_used;

/**
 * struct region - the region that allocations are in
 * @at: where it is mapped
 * @length: of the mapping, bytes; 0: there is none; set last, once
 * @most: pages that may be in use
 * @lock: of @extents
 * @extents: of it
 */
struct region {
	uint8_t *at;
	_Atomic size_t length;
	uint32_t most;
	pthread_mutex_t lock;
	struct extents extents;
};

static struct region region = { .lock = PTHREAD_MUTEX_INITIALIZER };

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* Options, as the program began: it may change its environment. */
static size_t least = SIZE_MAX;		/* bytes of the smallest allocation in the store */
static size_t buffer;			/* bytes of the page buffer, 0: the store's default */
static char store[PATH_MAX];

static pid_t owner;			/* of the region */
static pid_t parent;			/* of a child that fork() has made: whose region it is */

/* One line on standard error. It allocates nothing. */
__attribute__((format(printf, 1, 2)))
static void say(const char *format, ...)
{
	char line[MESSAGE];
	int n = snprintf(line, sizeof(line), "lsmem-preload: process %d: ", (int)getpid());
	va_list arguments;

	va_start(arguments, format);
	n += vsnprintf(line + n, sizeof(line) - n - 1, format, arguments);
	va_end(arguments);
	n = n < (int)sizeof(line) - 1 ? n : (int)sizeof(line) - 2;
	line[n++] = '\n';
	(void)!write(STDERR_FILENO, line, n);
}

__attribute__((format(printf, 2, 3)))
static void say_once(atomic_flag *said, const char *format, ...)
{
	char text[MESSAGE / 2];
	va_list arguments;

	if (atomic_flag_test_and_set(said))
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	say("%s", text);
}

/* ---- The next library ------------------------------------------------------ */

static void find_next(void)
{
	finding = true;
	next.malloc = dlsym(RTLD_NEXT, "malloc");
	next.calloc = dlsym(RTLD_NEXT, "calloc");
	next.realloc = dlsym(RTLD_NEXT, "realloc");
	next.free = dlsym(RTLD_NEXT, "free");
	next.memalign = dlsym(RTLD_NEXT, "memalign");
	next.usable = dlsym(RTLD_NEXT, "malloc_usable_size");
	finding = false;
	if (!next.malloc || !next.calloc || !next.realloc || !next.free || !next.memalign ||
	    !next.usable) {
		say("no allocator behind this library: %s", dlerror());
		abort();
	}
	found = true;
}

/* Are the next library's functions known?  If not, dlsym() is looking for them, and has called. */
static bool ready(void)
{
	if (!found && !finding)
		find_next();
	return found;
}

static void *early_alloc(size_t length)
{
	size_t at = early_used;

	if (length > EARLY - at)	/* a multiple of 16 */
		return NULL;
	early_used += (length + 15) & ~(size_t)15;
	return early + at;
}

static bool is_early(const void *object)
{
	return (uintptr_t)object - (uintptr_t)early < EARLY;
}

/* ---- The region ------------------------------------------------------------ */

/* Bytes, with K, M or G behind; @otherwise, if a variable is not set. */
static size_t option_bytes(const char *name, size_t otherwise)
{
	const char *text = getenv(name), *units = "KMG", *unit;
	unsigned long long n;
	char *end;

	if (!text || !*text)
		return otherwise;
	errno = 0;
	n = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	if (unit && !end[1] && n <= SIZE_MAX >> 10 * (unit - units + 1)) {
		n <<= 10 * (unit - units + 1);
		end++;
	}
	if (errno || *end || *text < '0' || *text > '9') {
		say("%s=%s: not a number of bytes; using %zu", name, text, otherwise);
		return otherwise;
	}
	return n;
}

/**
 * struct end - what end.c is started with
 * @argv: its arguments
 * @fds: of the store and of this process, which it inherits
 * @stack: for the process that becomes it
 * @error: of the start
 */
struct end {
	char *argv[5];
	int fds[2];
	char *stack;
	int error;
};

/* The child of clone(), which shares all memory with this process, and nothing else of it. */
static int end_child(void *context)
{
	struct end *end = context;
	char *none = NULL;	/* the environment */

	if (fcntl(end->fds[0], F_SETFD, 0) || fcntl(end->fds[1], F_SETFD, 0)) {
		end->error = errno;
	} else {
		execve(end->argv[0], end->argv, &none);
		end->error = errno;
	}
	_exit(127);
}

/* A child in between, which does not exec, so that it is the one that the program never sees. */
static int end_between(void *context)
{
	struct end *end = context;

	if (clone(end_child, end->stack, CLONE_VM | CLONE_VFORK, end) < 0)
		end->error = errno;
	_exit(0);
}

/* Where end.c's program is: beside this library, or where it is installed. */
static void end_path(char *path, size_t size)
{
	Dl_info info;
	const char *slash = NULL;

	if (dladdr(&region, &info))
		slash = strrchr(info.dli_fname, '/');
	if (slash) {
		snprintf(path, size, "%.*s/lsmem-preload-end", (int)(slash - info.dli_fname),
			 info.dli_fname);
		if (!access(path, X_OK))
			return;
	}
	snprintf(path, size, "%s/lsmem-preload-end", LIBEXEC);
}

/* Start the process that removes range @root of a store when this process has ended. */
static int end_start(struct lsm *lsm, uint64_t root)
{
	char path[4096], fds[2][12], name[20];
	struct end end = { .argv = { path, fds[0], fds[1], name, NULL } };
	sigset_t all, old;
	void *stack;
	int status = 0;
	pid_t pid;

	end_path(path, sizeof(path));
	stack = mmap(NULL, END_STACK, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return -errno;
	end.fds[0] = lsm_fd(lsm);
	end.fds[1] = (int)syscall(SYS_pidfd_open, getpid(), 0);
	snprintf(fds[0], sizeof(fds[0]), "%d", end.fds[0]);
	snprintf(fds[1], sizeof(fds[1]), "%d", end.fds[1]);
	snprintf(name, sizeof(name), "%llx", (unsigned long long)root);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	/* No exit signal: the program's wait() and SIGCHLD do not see it. */
	end.stack = (char *)stack + END_STACK / 2;
	pid = clone(end_between, (char *)stack + END_STACK, CLONE_VM | CLONE_VFORK, &end);
	if (pid < 0)
		end.error = errno;
	else	/* it has started the other, and ended */
		while (waitpid(pid, &status, __WCLONE) < 0 && errno == EINTR)
			;
	if (status && !end.error)
		end.error = EAGAIN;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	munmap(stack, END_STACK);
	if (end.fds[1] >= 0)
		close(end.fds[1]);
	if (end.error)
		say("%s: cannot be started: %s", path, strerror(end.error));
	return -end.error;
}

static void before_fork(void)
{
	pthread_mutex_lock(&region.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&region.lock);
}

static void in_child(void)
{
	pthread_mutex_unlock(&region.lock);
	if (!region.length || parent)
		return;
	parent = owner;
	/* Without this a store would change the parent's memory. */
	mprotect(region.at, region.length, PROT_READ);
}

/* Make the region, map it, and start what removes it. Returns 0 or a negative errno, and says why. */
static int region_make(struct lsm *lsm)
{
	size_t length;
	struct lsmem_stat stat = { };
	uint64_t root;
	void *at = MAP_FAILED;
	int fd, ret;

	ret = lsm_stat(lsm, &stat);
	if (ret) {
		say("%s: cannot be asked for its capacity: %s", store, lsm_strerror(ret));
		return ret;
	}
	length = stat.capacity < LSMEM_PAGES_LENGTH_MAX / 2 / TIMES ? stat.capacity * TIMES :
		 LSMEM_PAGES_LENGTH_MAX / 2;
	length -= length % PAGE;
	fd = lsm_pages_create(lsm, length, buffer, 0, &root);
	if (fd < 0) {
		say("%s: a region cannot be made: %s", store, lsm_strerror(fd));
		return fd;
	}
	ret = extents_init(&region.extents, length / PAGE);
	if (!ret) {
		at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		ret = at == MAP_FAILED ? -errno : 0;
	}
	close(fd);	/* the mapping holds the region */
	if (ret)
		say("%s: a region of %zu bytes cannot be mapped: %s", store, length, strerror(-ret));
	else
		ret = end_start(lsm, root);
	if (ret) {
		if (at != MAP_FAILED)
			munmap(at, length);
		lsm_pages_remove(lsm, root);
		return ret;
	}
	/* An eighth is for the heads of the log, nodes, and what is replaced before it is cleaned. */
	region.most = (stat.capacity - stat.capacity / 8) / PAGE;
	region.at = at;
	owner = getpid();
	region.length = length;
	return 0;
}

static void region_open(void)
{
	struct lsm *lsm;
	int ret;

	opening = true;
	ret = lsm_open(store, LSM_NO_WINDOWS, &lsm);
	if (ret) {
		say("%s: the store cannot be opened: %s", store, lsm_strerror(ret));
	} else {
		ret = region_make(lsm);
		lsm_close(lsm);
	}
	if (ret)
		say("all memory is the next allocator's");
	opening = false;
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("LSMEM_PRELOAD_STORE");

	ready();
	if (!path || !*path) {
		say("LSMEM_PRELOAD_STORE is not set: all memory is the next allocator's");
		return;
	}
	snprintf(store, sizeof(store), "%s", path);
	buffer = option_bytes("LSMEM_PRELOAD_BUFFER", 0);
	least = option_bytes("LSMEM_PRELOAD_MIN", LEAST);
	if (least < PAGE)
		least = PAGE;
	pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- Allocations ----------------------------------------------------------- */

static bool in_region(const void *object)
{
	size_t length = region.length;

	return length && (uintptr_t)object - (uintptr_t)region.at < length;
}

static uint32_t first_page(const void *object)
{
	return (uint32_t)(((uintptr_t)object - (uintptr_t)region.at) / PAGE);
}

static void say_child(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	say_once(&said, "a child of fork(): large allocations of process %d are read-only here, and new ones are the next allocator's",
		 (int)parent);
}

/* Is an allocation of @length bytes for the store? */
static bool is_large(size_t length)
{
	if (length < least || length > PTRDIFF_MAX || opening)
		return false;
	if (parent) {
		say_child();
		return false;
	}
	pthread_once(&once, region_open);
	return region.length;
}

static void say_full(size_t length)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	say_once(&said, "no room in the store for %zu bytes: they, and others, are the next allocator's",
		 length);
}

/* Zeroes. Returns NULL if there is no room. */
static void *region_alloc(size_t length, size_t align)
{
	size_t pages = (length + PAGE - 1) / PAGE;
	uint32_t first = EXTENTS_NONE;

	align = align < PAGE ? 1 : align / PAGE;
	pthread_mutex_lock(&region.lock);
	if (pages <= region.most - region.extents.used && align <= region.extents.pages)
		first = extents_take(&region.extents, pages, align,
				     -((uintptr_t)region.at / PAGE));
	pthread_mutex_unlock(&region.lock);
	if (first != EXTENTS_NONE)
		return region.at + first * PAGE;
	say_full(length);
	return NULL;
}

/* Pages become holes, and then free. */
static void region_give(uint32_t first, uint32_t pages)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (madvise(region.at + first * PAGE, pages * PAGE, MADV_REMOVE)) {
		say_once(&said, "%zu bytes cannot be freed, and are lost: %s", pages * PAGE,
			 strerror(errno));
		return;
	}
	pthread_mutex_lock(&region.lock);
	extents_give(&region.extents, first);
	pthread_mutex_unlock(&region.lock);
}

static uint32_t region_pages(const void *object)
{
	uint32_t pages;

	pthread_mutex_lock(&region.lock);
	pages = extents_size(&region.extents, first_page(object));
	pthread_mutex_unlock(&region.lock);
	if (!pages || (uintptr_t)object % PAGE) {
		say("free() or realloc() of %p, which malloc() has not returned, or which is free",
		    object);
		abort();
	}
	return pages;
}

static void region_free(void *object)
{
	int error = errno;

	if (parent)
		say_child();
	else
		region_give(first_page(object), region_pages(object));
	errno = error;
}

/* Make an extent longer or shorter where it is. Returns false if that is not possible. */
static bool region_resize(void *object, size_t length)
{
	uint32_t first = first_page(object), old = region_pages(object), rest;
	size_t pages = (length + PAGE - 1) / PAGE;
	bool good = true;

	if (pages > old) {
		pthread_mutex_lock(&region.lock);
		good = pages - old <= region.most - region.extents.used &&
		       extents_grow(&region.extents, first, pages);
		pthread_mutex_unlock(&region.lock);
	} else if (pages < old) {
		pthread_mutex_lock(&region.lock);
		rest = extents_split(&region.extents, first, pages);
		pthread_mutex_unlock(&region.lock);
		region_give(rest, old - pages);
	}
	return good;
}

/* ---- What the program calls ------------------------------------------------ */

void *malloc(size_t length)
{
	void *object;

	if (!ready())
		return early_alloc(length);
	if (is_large(length)) {
		object = region_alloc(length, 1);
		if (object)
			return object;
	}
	return next.malloc(length);
}

void *calloc(size_t nr, size_t size)
{
	size_t length;
	bool over = __builtin_mul_overflow(nr, size, &length);
	void *object;

	if (!ready())
		return over ? NULL : early_alloc(length);
	if (!over && is_large(length)) {
		object = region_alloc(length, 1);
		if (object)
			return object;
	}
	return next.calloc(nr, size);
}

void free(void *object)
{
	if (in_region(object))
		region_free(object);
	else if (!is_early(object) && ready())
		next.free(object);
}

size_t malloc_usable_size(void *object)
{
	if (in_region(object))
		return region_pages(object) * PAGE;
	return is_early(object) || !ready() ? 0 : next.usable(object);
}

void *realloc(void *object, size_t length)
{
	bool inside = in_region(object);
	size_t old;
	void *new;

	if (!object)
		return malloc(length);
	if (inside && !parent && length && length <= PTRDIFF_MAX && region_resize(object, length))
		return object;
	if (!inside && !is_early(object) && !is_large(length))
		return next.realloc(object, length);
	if (inside && !length) {
		region_free(object);
		return NULL;
	}
	old = is_early(object) ? (size_t)(early + early_used - (char *)object) :
	      malloc_usable_size(object);
	new = malloc(length);
	if (!new)
		return NULL;
	memcpy(new, object, old < length ? old : length);
	free(object);
	return new;
}

void *memalign(size_t align, size_t length)
{
	void *object;

	if (!ready())
		return NULL;
	if (align && !(align & (align - 1)) && is_large(length)) {
		object = region_alloc(length, align);
		if (object)
			return object;
	}
	return next.memalign(align, length);
}

void *aligned_alloc(size_t align, size_t length)
{
	return memalign(align, length);
}

int posix_memalign(void **object, size_t align, size_t length)
{
	int old = errno, error = EINVAL;
	void *new;

	if (align && align % sizeof(void *) == 0 && !(align & (align - 1))) {
		new = memalign(align, length);
		errno = old;
		error = new ? 0 : ENOMEM;
		if (new)
			*object = new;
	}
	return error;
}

void *valloc(size_t length)
{
	return memalign(PAGE, length);
}

void *pvalloc(size_t length)
{
	if (length > PTRDIFF_MAX) {
		errno = ENOMEM;
		return NULL;
	}
	return memalign(PAGE, (length + PAGE - 1) / PAGE * PAGE);
}
