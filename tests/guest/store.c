// SPDX-License-Identifier: GPL-2.0
/* Functions for the guest tests: stores, their attributes and faults, time, scaling. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "store.h"

#define DISK_CLOSED_MS	5000	/* by udev */
#define LIVEMAP_MS	5000	/* that cleaners take to rest */

#undef alarm	/* the Makefile defines it as test_alarm(); this file needs the C library's */
unsigned int alarm(unsigned int seconds);

uint64_t test_seed;

/* A constructor, because the main() of the harness does not pass its arguments to the tests. */
__attribute__((constructor)) static void choose_seed(int argc, char **argv)
{
	const char *text = getenv("LSMEM_SEED");

	if (argc == 3 && !strcmp(argv[1], "--seed"))
		text = argv[2];
	if (text)
		test_seed = strtoull(text, NULL, 0);
	else if (getrandom(&test_seed, sizeof(test_seed), 0) != sizeof(test_seed))
		test_seed = (uint64_t)getpid();
	printf("# seed %llu\n", (unsigned long long)test_seed);
	fflush(stdout);
}

int control_call(unsigned long request, void *argument)
{
	int fd = open("/dev/lsmem-control", O_RDWR | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = ioctl(fd, request, argument) ? -errno : 0;
	close(fd);
	return ret;
}

/**
 * store_create() - create an object store and open it
 * @store: out; @store->lsm is NULL if the store is durable, because lsm_open() fails until a
 *	daemon has activated the store
 * @bytes: size of its memory, a multiple of 8 MiB, at least STORE_BYTES
 * @handles: most objects that it can hold; 0 for the default
 * @flags: LSMEM_STORE_*
 *
 * Return: 0 or a negative errno.
 */
int store_create(struct store *store, uint64_t bytes, uint64_t handles, uint32_t flags)
{
	return store_create_tiered(store, bytes, 0, handles, flags);
}

/* Create a store; its device is not opened. */
static int store_make(struct store *store, struct lsmem_create *create)
{
	int ret;

	memset(store, 0, sizeof(*store));
	store->fd = -1;
	ret = control_call(LSMEM_CTL_CREATE, create);
	if (ret)
		return ret;
	memcpy(store->name, create->name, sizeof(store->name));
	snprintf(store->path, sizeof(store->path), "/dev/%s", store->name);
	return 0;
}

int store_create_tiered(struct store *store, uint64_t bytes, uint64_t capacity, uint64_t handles,
			uint32_t flags)
{
	struct lsmem_create create = {
		.size = sizeof(create),
		.flags = flags,
		.kind = LSMEM_KIND_OBJECT,
		.bytes = bytes,
		.handles_max = handles,
		.capacity = capacity,
	};
	int ret = store_make(store, &create);

	if (ret)
		return ret;
	store->fd = open(store->path, O_RDWR | O_CLOEXEC);
	if (store->fd < 0)
		return -errno;
	return flags & LSMEM_STORE_DURABLE ? 0 : lsm_open(store->path, 0, &store->lsm);
}

int store_forget_index(const struct store *store, uint32_t id)
{
	struct lsmem_shared shared = { .size = sizeof(shared), .id = id };
	uint64_t *magic;

	if (ioctl(store->fd, LSMEM_IOC_SHARED, &shared))
		return -errno;
	magic = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared.fd, 0);
	close(shared.fd);
	if (magic == MAP_FAILED)
		return -errno;
	*magic = 0;
	munmap(magic, 4096);
	return 0;
}

int store_livemap(const struct store *store, uint64_t *live)
{
	uint64_t end = now_ms() + test_limit(LIVEMAP_MS);
	unsigned long long found = 0, missing = 0;
	long long beyond = 0;
	char path[128];
	FILE *file;
	int fields;

	snprintf(path, sizeof(path), "/sys/kernel/debug/lsmem/%s/livemap", store->name);
	for (;;) {
		file = fopen(path, "re");
		if (!file)
			return -errno;
		fields = fscanf(file, "live missing beyond %llu %llu %lld", &found, &missing, &beyond);
		fclose(file);
		if (fields == 3 && !missing && !beyond)
			break;
		if (now_ms() > end) {
			printf("# %s: live bitmap: of %llu objects %llu missing; %lld bits beyond\n",
			       store->name, found, missing, beyond);
			return -EUCLEAN;
		}
		usleep(10000);
	}
	if (live)
		*live = found;
	return 0;
}

int store_destroy(struct store *store)
{
	struct lsmem_destroy destroy = { .size = sizeof(destroy) };
	int livemap, ret;

	lsm_close(store->lsm);
	store->lsm = NULL;
	if (store->fd >= 0)
		close(store->fd);
	store->fd = -1;
	livemap = store_livemap(store, NULL);
	memcpy(destroy.name, store->name, sizeof(store->name));
	ret = control_call(LSMEM_CTL_DESTROY, &destroy);
	return ret || livemap == -ENOENT ? ret : livemap;
}

int store_create_disk(struct store *store, uint64_t bytes, uint64_t capacity, uint32_t flags)
{
	struct lsmem_create create = {
		.size = sizeof(create),
		.flags = flags,
		.kind = LSMEM_KIND_BLOCK,
		.bytes = bytes,
		.capacity = capacity,
	};

	return store_make(store, &create);
}

int store_destroy_disk(struct store *store)
{
	uint64_t end = now_ms() + test_limit(DISK_CLOSED_MS);
	int ret;

	while ((ret = store_destroy(store)) == -EBUSY && now_ms() < end)
		usleep(20000);
	return ret;
}

static void attribute_path(const struct store *store, const char *name, char *path, size_t size)
{
	snprintf(path, size, "/sys/class/lsmem/%s/%s", store->name, name);
}

long long store_attribute(const struct store *store, const char *name)
{
	long long value;
	char path[128];
	FILE *file;

	attribute_path(store, name, path, sizeof(path));
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%lld", &value) != 1)
		value = -1;
	fclose(file);
	return value;
}

long long tier_attribute(const struct store *store, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "tier/%s", name);
	return store_attribute(store, path);
}

void tier_print(const struct store *store)
{
	printf("# MiB: %lld live, %lld resident, %lld cold, %lld cached; %lld evicted, %lld fetches, %lld segments, %lld cleaned in %lld passes, %lld stalls\n",
	       store_attribute(store, "live_bytes") >> 20, tier_attribute(store, "resident_bytes") >> 20,
	       tier_attribute(store, "cold_bytes") >> 20, tier_attribute(store, "cached_bytes") >> 20,
	       tier_attribute(store, "evicted"), tier_attribute(store, "fetches"),
	       store_attribute(store, "segments"), store_attribute(store, "cleaner/segments_cleaned"),
	       store_attribute(store, "cleaner/passes"), store_attribute(store, "stats/stalls"));
}

int store_set_attribute(const struct store *store, const char *name, unsigned long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%lu", value);
	return store_set_text(store, name, text);
}

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		ret = -errno;
	close(fd);
	return ret;
}

int store_set_text(const struct store *store, const char *name, const char *text)
{
	char path[128];

	attribute_path(store, name, path, sizeof(path));
	return write_text(path, text);
}

bool store_fault(const struct store *store, const char *fault, unsigned int times)
{
	const char * const settings[] = { "verbose", "times", "probability" };
	const unsigned int values[] = { 0, times, 100 };
	char path[128], text[24];
	unsigned int i;

	for (i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/lsmem/%s/%s/%s", store->name, fault,
			 settings[i]);
		snprintf(text, sizeof(text), "%u", values[i]);
		if (write_text(path, text))
			return false;
	}
	return true;
}

int log_says(const char *text)
{
	static char log[1 << 18];
	const char *at;
	int length, count = 0;

	length = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, sizeof(log) - 1);
	if (length < 0)
		return -1;
	log[length] = '\0';
	for (at = log; (at = strstr(at, text)); at += strlen(text))
		count++;
	return count;
}

int slow_pages(void **pages, size_t length)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range;
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		return -1;
	*pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range = (struct uffdio_register){
		.range = { (uintptr_t)*pages, length },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	return *pages == MAP_FAILED || ioctl(fd, UFFDIO_REGISTER, &range) ? -1 : fd;
}

int open_drive(void)
{
	glob_t found;
	int fd = -1;

	if (!glob("/dev/drive/*", 0, NULL, &found))
		fd = open(found.gl_pathv[0], O_RDWR | O_DIRECT | O_CLOEXEC);
	globfree(&found);
	return fd;
}

uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

uint64_t test_scaled(uint64_t amount)
{
	uint64_t scaled = amount * number("LSMEM_SCALE", 100) / 100;

	return scaled ? scaled : 1;
}

uint64_t test_limit(uint64_t time)
{
	return time * number("LSMEM_PATIENCE", 1);
}

unsigned int test_alarm(unsigned int seconds)
{
	return alarm((unsigned int)test_limit(seconds));
}
