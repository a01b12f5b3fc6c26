// SPDX-License-Identifier: GPL-2.0
/*
 * Random calls: the processes, the watchdog, and the results.
 *
 * Two processes without privilege and one of root, each with a few threads, make $LSMEM_CALLS
 * calls in all.  The unprivileged processes have opened descriptors before they dropped their
 * privilege.  A fourth process uses the stores as a correct program does, and checks that its
 * calls succeed (calls_load.c).  The parent is the daemon of the durable store and the watchdog: it
 * reports a call that does not return.  One more store, the canary, is unknown to the callers; it
 * must not change.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <dirent.h>
#include <grp.h>

#include "kselftest.h"

#include "../guest/follower.h"
#include "../guest/keeper.h"
#include "../guest/store.h"
#include "calls.h"

#define CALLS_DEFAULT	1000000u
#define SECONDS_DEFAULT	600u	/* without $TEST_SECONDS, which tests/run sets */
#define HANG_SECONDS	60u
#define END_SECONDS	60u	/* for all processes to end */
/* To destroy all stores: a closed range whose pages cannot be written holds its store for 60 tries. */
#define DESTROY_SECONDS	100u
#define PLACED_SEGMENTS	24u
#define CANARIES	64u
#define CANARY_BYTES	3000u
#define FAILURES_SHOWN	8

struct shared *shared;

/* ---- A process of callers ----------------------------------------------- */

static void on_fault(int number)
{
	if (touching)
		siglongjmp(touching->at, 1);
	failed(VERDICT_DEATH, "signal %d outside of a look at a window", number);
	_exit(1);
}

static void *anonymous(size_t length, int prot)
{
	void *got = mmap(NULL, length, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (got == MAP_FAILED) {
		failed(VERDICT_DEATH, "no memory for buffers: %s", strerror(errno));
		_exit(1);
	}
	return got;
}

static struct io_uring rings[THREADS];

static void caller_init(struct caller *me, struct process *process, uint32_t number)
{
	memset(me, 0, sizeof(*me));
	me->process = process;
	me->progress = &shared->progress[number];
	me->progress->root = process->root;
	me->counts = me->progress->counts;
	me->random = test_seed * CALLERS + number;
	me->heap = anonymous(HEAP_BYTES, PROT_READ | PROT_WRITE);
	me->edge = anonymous(AREA_BYTES + PAGE, PROT_READ | PROT_WRITE);
	me->edge += AREA_BYTES;
	mprotect(me->edge, PAGE, PROT_NONE);
	me->constant = anonymous(AREA_BYTES, PROT_READ);
	me->flip = anonymous(AREA_BYTES, PROT_READ | PROT_WRITE);
	me->arena = anonymous(MAPS * MAP_ROOM, PROT_NONE);
	me->ranges = anonymous(RANGE_MAPS * RANGE_ROOM, PROT_NONE);
	me->ring = &rings[number % THREADS];
	/* User-mode Linux 7.2 corrupts the pages of a ring that a child process has, too. */
	if (io_uring_queue_init(4, me->ring, 0) || io_uring_ring_dontfork(me->ring))
		me->ring = NULL;
}

struct start {
	struct caller *me;
	int kcov;
};

static void *caller_thread(void *argument)
{
	const struct start *start = argument;

	atomic_store(&start->me->progress->tid, (int)syscall(SYS_gettid));
	if (start->kcov >= 0)
		cover_start(start->me, start->kcov);
	caller_main(start->me);
	return NULL;
}

static int open_store(uint32_t store, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/%.31s", shared->store[store].name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0) {
		failed(VERDICT_DEATH, "%s: %s", path, strerror(errno));
		_exit(1);
	}
	return fd;
}

/* Open the descriptors of a process, before it drops its privilege. */
static void process_init(struct process *process, bool root)
{
	uint32_t store;
	int mode;

	process->root = root;
	for (store = 0; store < STORE_BLOCK; store++)
		for (mode = 0; mode < MODES; mode++)
			process->pinned[store][mode] = open_store(store, mode);
	process->block[0] = open_store(STORE_BLOCK, O_RDWR);
	process->block[1] = open_store(STORE_BLOCK, O_RDWR | O_DIRECT);
	process->control = open("/dev/lsmem-control", O_RDWR);
	process->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	process->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	for (store = 0; store < FD_SLOTS + RANGE_SLOTS; store++)
		atomic_store(&process->fds[store].fd, -1);
}

static void process_main(uint32_t number, bool root)
{
	static struct process process;
	static struct caller callers[THREADS];
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	struct start starts[THREADS];
	pthread_t threads[THREADS];
	int kcov[THREADS];
	bool covered = cover_open(kcov, THREADS);
	uint32_t i;

	process_init(&process, root);
	process.callers = callers;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < THREADS; i++) {
		caller_init(&callers[i], &process, number * THREADS + i);
		starts[i] = (struct start){ &callers[i], covered ? kcov[i] : -1 };
	}
	if (!root && (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)))
		_exit(1);
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, caller_thread, &starts[i]))
			_exit(1);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}

/* The program that a child of run_fork() executes: descriptors stay open, windows do not. */
static int child_program(void)
{
	struct lsmem_query query = { .size = sizeof(query) };
	int fd;

	for (fd = 3; fd < 64; fd++)
		ioctl(fd, LSMEM_IOC_QUERY, &query);
	return 0;
}

/* ---- Stores ------------------------------------------------------------- */

/* The daemon of STORE_TIER. */
struct tier {
	struct follower follower;
	struct keeper keeper;
};

static int slot_create(uint32_t slot, uint32_t kind, uint32_t flags, uint64_t handles,
		       uint64_t capacity)
{
	struct store_slot *store = &shared->store[slot];
	struct lsmem_create create = {
		.size = sizeof(create),
		.kind = kind,
		.flags = flags,
		.bytes = STORE_BYTES,
		.handles_max = handles,
		.uid = NOBODY,
		.gid = NOBODY,
		.capacity = capacity,
	};
	int ret = control_call(LSMEM_CTL_CREATE, &create);

	if (ret)
		return ret;
	memcpy(store->name, create.name, sizeof(store->name));
	store->block = kind == LSMEM_KIND_BLOCK;
	store->durable = flags & LSMEM_STORE_DURABLE;
	store->tiered = capacity;
	atomic_store(&store->state, SLOT_THERE);
	return 0;
}

static long long slot_attribute(uint32_t slot, const char *name)
{
	struct store store = { 0 };

	memcpy(store.name, shared->store[slot].name, sizeof(store.name));
	return store_attribute(&store, name);
}

static int slot_set(uint32_t slot, const char *name, unsigned long value)
{
	struct store store = { 0 };

	memcpy(store.name, shared->store[slot].name, sizeof(store.name));
	return store_set_attribute(&store, name, value);
}

/* Copy the info page of a store. */
static int info_get(uint32_t slot, struct lsmem_info *info)
{
	int fd = open_store(slot, O_RDONLY);
	void *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, LSMEM_WINDOW_INFO);

	close(fd);
	if (page == MAP_FAILED)
		return -errno;
	memcpy(info, page, sizeof(*info));
	munmap(page, PAGE);
	return 0;
}

/*
 * A tiered store that has objects on backups, and no daemon yet: callers attach to it, and make up what
 * its backups have.
 */
static int placed_create(void)
{
	struct lsmem_attach attach = { .size = sizeof(attach) };
	struct lsmem_activate activate = {
		.size = sizeof(activate),
		.era = 1,
		.generation_floor = 10,
		.generation_ceiling = 1u << 20,
		.next_segment = PLACED_SEGMENTS + 1,
	};
	uint32_t i;
	int ret = slot_create(STORE_PLACED, LSMEM_KIND_OBJECT, LSMEM_STORE_DURABLE, WORK_HANDLES,
			      TIER_CAPACITY);

	if (ret)
		return ret;
	memcpy(attach.name, shared->store[STORE_PLACED].name, sizeof(attach.name));
	memset(attach.uuid, 7, sizeof(attach.uuid));
	ret = control_call(LSMEM_CTL_ATTACH, &attach);
	if (ret)
		return ret;
	for (i = 1; i <= PLACED_SEGMENTS && !ret; i++)
		ret = segment_place(attach.fd, i);
	if (!ret && ioctl(attach.fd, LSMEM_REPL_ACTIVATE, &activate))
		ret = -errno;
	close(attach.fd);
	limits_lower(shared->store[STORE_PLACED].name);
	return ret;
}

static int limits_raise(uint32_t slot)
{
	uint32_t i;
	int ret = 0;

	for (i = 0; i < nr_limits && !ret; i++)
		ret = slot_set(slot, limits[i].name, limits[i].high);
	return ret;
}

/* The tiered store, with a daemon that has a backup. */
static int tier_create(struct tier *tier)
{
	int ret = slot_create(STORE_TIER, LSMEM_KIND_OBJECT, LSMEM_STORE_DURABLE, WORK_HANDLES,
			      TIER_CAPACITY);

	keeper_init(&tier->keeper);
	return ret ?: keeper_follow(&tier->keeper, &tier->follower, shared->store[STORE_TIER].name);
}

static int stores_create(struct follower *follower, struct tier *tier)
{
	struct lsmem_info info;
	uint32_t i;
	int ret;

	ret = slot_create(STORE_WORK, LSMEM_KIND_OBJECT, 0, WORK_HANDLES, 0);
	if (!ret)
		ret = slot_create(STORE_DURABLE, LSMEM_KIND_OBJECT, LSMEM_STORE_DURABLE, WORK_HANDLES, 0);
	if (!ret)
		ret = slot_create(STORE_BLOCK, LSMEM_KIND_BLOCK, 0, 0, 0);
	if (!ret)
		ret = follower_start(follower, shared->store[STORE_DURABLE].name);
	if (!ret)
		ret = tier_create(tier);
	if (!ret)
		ret = placed_create();
	for (i = 0; i < LOADED_STORES && !ret; i++)
		ret = limits_raise(i);
	if (!ret)
		ret = info_get(STORE_WORK, &shared->info) ?: info_get(STORE_TIER, &info);
	if (ret)
		return ret;
	shared->info.touched = info.touched;
	shared->block_bytes = (uint64_t)slot_attribute(STORE_BLOCK, "handles_max") * LSMEM_BLOCK;
	return 0;
}

/* Destroy a store. udev may have its disk open, and descriptors may still be closing: wait. */
static int destroy_named(const char *name)
{
	uint64_t end = now_ms() + DESTROY_SECONDS * 1000;
	struct lsmem_destroy destroy;
	int ret;

	do {
		destroy = (struct lsmem_destroy){
			.size = sizeof(destroy),
			.flags = LSMEM_DESTROY_FORCE,
		};
		memcpy(destroy.name, name, sizeof(destroy.name) - 1);
		ret = control_call(LSMEM_CTL_DESTROY, &destroy);
	} while (ret == -EBUSY && now_ms() < end && !usleep(10000));
	return ret;
}

/* Destroy all stores that are left. Returns how many could not be destroyed. */
static uint32_t stores_destroy(void)
{
	DIR *dir = opendir("/sys/class/lsmem");
	const struct dirent *entry;
	uint32_t left = 0;
	int ret;

	while (dir && (entry = readdir(dir))) {
		char name[LSMEM_NAME_BYTES] = "";

		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%.31s", entry->d_name);
		ret = destroy_named(name);
		if (ret) {
			ksft_print_msg("store %s: %s\n", name, strerror(-ret));
			left++;
		}
	}
	if (dir)
		closedir(dir);
	return left;
}

/* ---- The canary --------------------------------------------------------- */

struct canary {
	struct store store;
	uint64_t handle[CANARIES];
	struct lsmem_stat stat;
};

static int canary_create(struct canary *canary)
{
	uint8_t data[CANARY_BYTES];
	uint32_t i;
	int ret = store_create(&canary->store, STORE_BYTES, 1000, 0);

	for (i = 0; i < CANARIES && !ret; i++) {
		content_fill(data, sizeof(data), i, test_seed);
		ret = lsm_alloc(canary->store.lsm, data, sizeof(data), 0, &canary->handle[i], NULL);
	}
	canary->stat.size = sizeof(canary->stat);
	if (!ret && ioctl(canary->store.fd, LSMEM_IOC_STAT, &canary->stat))
		ret = -errno;
	return ret;
}

static bool canary_right(struct canary *canary)
{
	struct lsmem_stat stat = { .size = sizeof(stat) };
	uint8_t data[CANARY_BYTES + 1];
	uint64_t serial;
	uint32_t i;

	for (i = 0; i < CANARIES; i++)
		if (lsm_read(canary->store.lsm, canary->handle[i], data, sizeof(data), 0, NULL) !=
		    CANARY_BYTES || !content_right(data, CANARY_BYTES, i, &serial) ||
		    serial != test_seed) {
			ksft_print_msg("object %u is not what it was\n", i);
			return false;
		}
	if (ioctl(canary->store.fd, LSMEM_IOC_STAT, &stat) ||
	    memcmp(&stat, &canary->stat, sizeof(stat))) {
		ksft_print_msg("its counters have moved\n");
		return false;
	}
	return true;
}

/* ---- The watchdog ------------------------------------------------------- */

/* Print a file of /proc of a task. */
static void show_task(int tid, const char *name)
{
	char path[64], line[512];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, name);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		ksft_print_msg("%s: %s%s", name, line, strchr(line, '\n') ? "" : "\n");
	if (file)
		fclose(file);
}

/*
 * Print the call of a caller that does not return, its state, number of faults, and its stack in the kernel,
 * or, in User-mode Linux, which has no stacks, where it waits.
 */
static void show_hang(uint32_t caller)
{
	const struct progress *p = &shared->progress[caller];
	uint32_t i;

	ksft_print_msg("caller %u (%s): %s, descriptor %d, request %#llx, argument %#llx\n", caller,
		       p->root ? "root" : "unprivileged", descriptions[p->kind].name, p->fd,
		       (unsigned long long)p->request, (unsigned long long)p->argument);
	printf("#");
	for (i = 0; i < p->nr_bytes; i++)
		printf(" %02x", p->bytes[i]);
	printf("\n");
	show_task(atomic_load(&p->tid), "stat");
	show_task(atomic_load(&p->tid), "wchan");
	show_task(atomic_load(&p->tid), "stack");
}

/* Wait until all calls are made. False if that takes too long, a call hangs or a process ends. */
static bool watch(const pid_t *children, uint64_t seconds)
{
	uint64_t end = now_ms() + seconds * 1000, seen[CALLERS] = { 0 }, since[CALLERS];
	uint32_t i;

	for (i = 0; i < CALLERS; i++)
		since[i] = now_ms();
	while (calls_made() < shared->budget) {
		usleep(200000);
		for (i = 0; i < PROCESSES + 1; i++) {
			siginfo_t info = { .si_pid = 0 };

			waitid(P_PID, (id_t)children[i], &info, WEXITED | WNOHANG | WNOWAIT);
			if (info.si_pid) {
				failed(VERDICT_DEATH, "process %u ended before its time", i);
				return false;
			}
		}
		for (i = 0; i < CALLERS; i++) {
			uint64_t calls = atomic_load(&shared->progress[i].calls);

			if (calls != seen[i]) {
				seen[i] = calls;
				since[i] = now_ms();
			} else if (now_ms() > since[i] + HANG_SECONDS * 1000) {
				failed(VERDICT_HANG, "a call has not returned for %u s",
				       HANG_SECONDS);
				show_hang(i);
				return false;
			}
		}
		if (now_ms() > end)
			return false;
	}
	return true;
}

/* Tell all processes to end, and wait for them; kill those that take too long. */
static void processes_end(const pid_t *children)
{
	uint64_t end = now_ms() + END_SECONDS * 1000;
	uint32_t i;
	int status;

	atomic_store(&shared->stop, true);
	for (i = 0; i < PROCESSES + 1; i++) {
		while (!waitpid(children[i], &status, WNOHANG)) {
			if (now_ms() > end) {
				failed(VERDICT_HANG, "process %u has not ended after %u s", i,
				       END_SECONDS);
				if (i < PROCESSES) {
					show_hang(i * THREADS);
					show_hang(i * THREADS + 1);
				}
				kill(children[i], SIGKILL);
				waitpid(children[i], &status, 0);
				break;
			}
			usleep(10000);
		}
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			failed(VERDICT_DEATH, "process %u: status %#x", i, status);
	}
}

/* ---- Results ------------------------------------------------------------ */

/* Print how often each call was made, and its errors. Returns how many calls never succeeded. */
static uint32_t show_counts(void)
{
	uint32_t kind, i, error, useless = 0;

	for (kind = 0; kind < nr_descriptions; kind++) {
		const struct description *d = &descriptions[kind];
		uint32_t counts[ERRNOS] = { 0 }, total = 0;
		uint64_t ns = 0, timed = 0;

		for (i = 0; i < CALLERS; i++) {
			ns += shared->progress[i].ns[kind];
			timed += shared->progress[i].timed[kind];
		}
		for (i = 0; i < CALLERS; i++)
			for (error = 0; error < ERRNOS; error++)
				counts[error] += shared->progress[i].counts[kind][error];
		for (error = 0; error < ERRNOS; error++)
			total += counts[error];
		printf("# %-12s %7u, %5u us each:", d->name, total,
		       (unsigned int)(ns / 1000 / (timed ?: 1)));
		for (error = 0; error < ERRNOS; error++)
			if (counts[error])
				printf(" %s %u", error ? strerrorname_np((int)error) : "ok",
				       counts[error]);
		printf("\n");
		if (!total || (!counts[0] && !d->never)) {
			ksft_print_msg("%s has never succeeded\n", d->name);
			useless++;
		}
	}
	return useless;
}

static bool limits_right(void)
{
	bool right = true;
	uint32_t i, slot;

	for (slot = 0; slot < STORE_DYNAMIC; slot++)
		for (i = 0; i < nr_limits; i++) {
			long long value = slot_attribute(slot, limits[i].name);

			if (value >= (long long)limits[i].min && value <= (long long)limits[i].max)
				continue;
			ksft_print_msg("%s of %s is %lld\n", limits[i].name,
				       shared->store[slot].name, value);
			right = false;
		}
	return right;
}

/* The test for one verdict. */
static void report(enum verdict verdict, const char *name)
{
	if (atomic_load(&shared->failures[verdict]))
		ksft_print_msg("%llu times; first: %.*s\n",
			       (unsigned long long)atomic_load(&shared->failures[verdict]),
			       (int)sizeof(shared->failure[0]), shared->failure[verdict]);
	ksft_test_result(!atomic_load(&shared->failures[verdict]), "%s\n", name);
}

static uint64_t number_of(const char *name, uint64_t fallback)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : fallback;
}

static pid_t start(void (*function)(uint32_t, bool), uint32_t number, bool root)
{
	pid_t child = fork();

	if (child)
		return child;
	if (function)
		function(number, root);
	load_main();
}

/* The stream of a durable store. */
static void stream_report(const struct follower *follower, const char *name)
{
	if (*follower->wrong)
		ksft_print_msg("%s\n", follower->wrong);
	ksft_test_result(!*follower->wrong && atomic_load(&follower->entries),
			 "the stream of the %s store is whole\n", name);
}

static void tier_report(struct tier *tier)
{
	long long evicted = slot_attribute(STORE_TIER, "tier/evicted");
	long long fetched = slot_attribute(STORE_TIER, "tier/fetched_bytes");
	long long failures = slot_attribute(STORE_TIER, "tier/fetch_failures");
	int error = atomic_load(&tier->keeper.error);

	ksft_print_msg("tier: %lld objects evicted, %lld KiB fetched, %lld failures; daemon: %lu answers, %lu late, error %d\n",
		       evicted, fetched >> 10, failures, atomic_load(&tier->keeper.answered),
		       atomic_load(&tier->keeper.late), error);
	ksft_test_result(evicted > 0 && fetched > 0 && !failures && !error,
			 "objects have left memory and come back\n");
}

static void verdicts(struct canary *canary, struct follower *follower, struct tier *tier, bool covered)
{
	long long passes[STORE_DYNAMIC];
	uint32_t i;

	report(VERDICT_HANG, "every call returns");
	report(VERDICT_DEATH, "no caller dies");
	report(VERDICT_PRIVILEGE, "without privilege no caller gets what is root's");
	ksft_print_msg("%llu errors were known before\n",
		       (unsigned long long)atomic_load(&shared->refusals));
	if (!atomic_load(&shared->refusals))
		failed(VERDICT_REFUSED, "no such call was made");
	report(VERDICT_REFUSED, "what is wrong in one field has that field's error");
	report(VERDICT_BEYOND, "nothing is written beyond a buffer");
	report(VERDICT_LOAD, "what others do meanwhile goes well");
	ksft_test_result(canary_right(canary), "a store that no caller knows is as it was\n");
	stream_report(follower, "durable");
	stream_report(&tier->follower, "tiered");
	tier_report(tier);
	ksft_test_result(limits_right(), "limits are within their bounds\n");
	ksft_print_msg("%llu times a store was full and was swept\n",
		       (unsigned long long)atomic_load(&shared->sweeps));
	for (i = 0; i < STORE_DYNAMIC; i++) {
		long long compactions = slot_attribute(i, "cleaner/compactions");

		passes[i] = slot_attribute(i, "cleaner/passes");
		ksft_print_msg("%s: cleaner: %lld passes, %lld compactions\n",
			       shared->store[i].name, passes[i], compactions);
		passes[i] += compactions;
	}
	ksft_test_result(passes[STORE_WORK] > 0 && passes[STORE_DURABLE] > 0 &&
			 (passes[STORE_BLOCK] > 0 || shared->budget < CALLS_DEFAULT), "the cleaner has worked\n");
	/* A short run may miss calls that only root makes, and seldom. */
	ksft_test_result(!show_counts() || shared->budget < CALLS_DEFAULT,
			 "every call has succeeded at least once\n");
	if (!covered)
		ksft_test_result_skip("this kernel has no KCOV\n");
	else
		ksft_test_result(atomic_load(&shared->covered) > 0,
				 "KCOV sees the module: %llu blocks, by %u programs\n",
				 (unsigned long long)atomic_load(&shared->covered),
				 atomic_load(&shared->corpus_nr));
}

int main(int argc, char **argv)
{
	uint64_t seconds = number_of("TEST_SECONDS", SECONDS_DEFAULT) - END_SECONDS - DESTROY_SECONDS,
		 begin, calls;
	static struct follower follower;
	static struct tier tier;
	static struct canary canary;
	pid_t children[PROCESSES + 1];
	int kcov, ret;
	bool covered, done;
	uint32_t i, left;

	if (argc == 2 && !strcmp(argv[1], "--child"))
		return child_program();
	ksft_print_header();
	ksft_set_plan(16);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, shared->passing))
		ksft_exit_fail_msg("memory, sockets: %s\n", strerror(errno));
	shared->budget = number_of("LSMEM_CALLS", CALLS_DEFAULT);
	crc32c(0, "", 1);	/* initialise its table before there are threads */
	ret = canary_create(&canary) ?: stores_create(&follower, &tier);
	if (ret)
		ksft_exit_fail_msg("stores: %s\n", strerror(-ret));
	covered = cover_open(&kcov, 1);
	begin = now_ms();
	fflush(stdout);
	for (i = 0; i < PROCESSES; i++)
		children[i] = start(process_main, i, i + 1 == PROCESSES);
	children[PROCESSES] = start(NULL, 0, true);
	done = watch(children, seconds);
	calls = calls_made();
	ksft_print_msg("%llu calls in %llu s, %llu a second\n", (unsigned long long)calls,
		       (unsigned long long)(now_ms() - begin) / 1000,
		       (unsigned long long)(calls * 1000 / (now_ms() - begin + 1)));
	processes_end(children);
	ksft_test_result(done, "%llu calls are made\n", (unsigned long long)shared->budget);
	verdicts(&canary, &follower, &tier, covered);
	close(shared->passing[0]);
	close(shared->passing[1]);
	follower_stop(&follower);
	follower_free(&follower);
	keeper_stop(&tier.keeper);
	follower_stop(&tier.follower);
	follower_free(&tier.follower);
	keeper_free(&tier.keeper);
	left = store_destroy(&canary.store) ? 1 : 0;
	left += stores_destroy();
	ksft_test_result(!left, "every store can be destroyed\n");
	ksft_finished();
}
