// SPDX-License-Identifier: GPL-2.0
/*
 * Torture: worker processes with several threads carry out all operations on one store, and check
 * every result against a model (torture.h).  The supervisor kills workers at any time, and starts
 * another worker that continues with the slots of the killed one.  Where the kernel can inject
 * failures, calls fail.  A second test does the same with a durable store; there the supervisor
 * also kills the daemon and destroys the store, so that its memory is lost.
 *
 *	torture [--seed N]	$LSMEM_TORTURE_SECONDS: how long, both tests together
 *
 * The program runs the lsmemd of its own tree, with the drive /dev/drive/log0.  Everything on
 * that drive is lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kselftest.h>
#include <lsmem.h>

#include "store.h"
#include "torture.h"

#define DEBUGFS		"/sys/kernel/debug/"
#define SECONDS		120u
#define END_SECONDS	60u	/* most time for a worker to end */
#define START_SECONDS	60u	/* most time for a daemon to activate its store */
#define DRIVE		"/dev/drive/log0"

struct model *model;

static pid_t workers[WORKERS];
static pid_t daemon_pid;
static uint64_t lives, kills, random_state;
static char lsmemd[512], conf[64], conf_name[LSMEM_NAME_BYTES];

void wrong(const char *format, ...)
{
	char text[512];
	va_list args;
	int length;

	va_start(args, format);
	length = snprintf(text, sizeof(text), "# wrong: ");
	length += vsnprintf(text + length, sizeof(text) - length - 1, format, args);
	va_end(args);
	if (length > (int)sizeof(text) - 2)
		length = sizeof(text) - 2;
	text[length++] = '\n';
	if (atomic_fetch_add(&model->failures, 1) < 20 && write(1, text, (size_t)length) < 0)
		_exit(1);
}

void count(enum count what, uint64_t n)
{
	atomic_fetch_add_explicit(&model->counts[what], n, memory_order_relaxed);
}

/* ---- Injection --------------------------------------------------------- */

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

/* Make one in some hundred allocations and user copies fail, in tasks that have called inject(). */
bool inject_setup(void)
{
	static const char *const what[] = { "failslab", "fail_page_alloc", "fail_usercopy" };
	static const char *const settings[][2] = {	/* first exclude this task */
		{ "task-filter", "Y" }, { "verbose", "0" }, { "interval", "20" },
		{ "times", "-1" }, { "probability", "10" },
	};
	char path[128];
	uint32_t i, j;

	if (access("/proc/self/make-it-fail", W_OK))
		return false;
	for (i = 0; i < 3; i++) {
		for (j = 0; j < 5; j++) {
			snprintf(path, sizeof(path), DEBUGFS "%s/%s", what[i], settings[j][0]);
			if (!put(path, settings[j][1]))
				return false;
		}
	}
	return put(DEBUGFS "failslab/ignore-gfp-wait", "N") &&
	       put(DEBUGFS "fail_page_alloc/ignore-gfp-wait", "N") &&
	       put(DEBUGFS "fail_page_alloc/min-order", "0");
}

void inject(bool on)
{
	static __thread int fd = -1;
	static __thread bool is;
	int error = errno, tries;

	if (!model->inject || on == is)
		return;
	if (fd < 0)
		fd = open("/proc/thread-self/make-it-fail", O_RDWR | O_CLOEXEC);
	/* The write that switches it off may fail by injection, too. */
	for (tries = 0; tries < 1000 && pwrite(fd, on ? "1" : "0", 1, 0) != 1; tries++)
		;
	if (tries == 1000)
		wrong("make-it-fail: %s", strerror(errno));
	is = on;
	errno = error;
}

/* ---- Workers ----------------------------------------------------------- */

static void worker_start(uint32_t number)
{
	pid_t pid;

	fflush(stdout);
	lives++;
	pid = fork();
	if (!pid)
		_exit(worker(number, lives));
	if (pid < 0)
		wrong("fork: %s", strerror(errno));
	workers[number] = pid;
}

/* Wait for the end of a worker. @killed: it may have ended by SIGKILL. */
static void worker_end(uint32_t number, bool killed)
{
	uint64_t end = now_ms() + test_limit(END_SECONDS) * 1000;
	int status;
	pid_t pid;

	if (workers[number] <= 0)
		return;
	while (!(pid = waitpid(workers[number], &status, WNOHANG)) && now_ms() < end)
		usleep(2000);
	if (!pid) {
		wrong("worker %u does not end", number);
		kill(workers[number], SIGKILL);
		waitpid(workers[number], &status, 0);
	}
	workers[number] = 0;
	if (status && !(killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
		wrong("worker %u ends with status %#x", number, status);
}

static void workers_start(void)
{
	uint32_t i;

	atomic_store(&model->stop, false);
	for (i = 0; i < WORKERS; i++)
		worker_start(i);
}

static void workers_kill(void)
{
	uint32_t i;

	for (i = 0; i < WORKERS; i++)
		if (workers[i] > 0)
			kill(workers[i], SIGKILL);
	for (i = 0; i < WORKERS; i++)
		worker_end(i, true);
}

static void workers_stop(void)
{
	uint32_t i;

	atomic_store(&model->stop, true);
	for (i = 0; i < WORKERS; i++)
		worker_end(i, false);
}

static void nap(uint32_t ms)
{
	usleep((ms + random_next(&random_state) % ms) * 1000);
}

/* Kill one worker, and start another in its place. */
static void kill_one(void)
{
	uint32_t number = random_next(&random_state) % WORKERS;

	kill(workers[number], SIGKILL);
	worker_end(number, true);
	kills++;
	worker_start(number);
}

static bool going_on(uint64_t end)
{
	return now_ms() < end && !atomic_load(&model->failures);
}

static void say_counts(const char *phase)
{
	static const char *const names[COUNTS] = {
		"operations", "writes", "reads", "views", "revoked", "vectors", "refused", "shared",
		"blocks", "stale", "injected", "full", "timeouts", "resolved", "orphans",
	};
	char text[512] = "";
	uint32_t i, at = 0;

	for (i = 0; i < COUNTS; i++)
		at += snprintf(text + at, sizeof(text) - at, ", %s %llu", names[i],
			       (unsigned long long)atomic_load(&model->counts[i]));
	ksft_print_msg("%s: kills %llu%s\n", phase, (unsigned long long)kills, text);
}

/*
 * The store may have more objects than the model: a killed worker may not have recorded the handle
 * of its last allocation.  COUNT_ORPHANS bounds their number.
 */
static void check_orphans(uint64_t live)
{
	uint64_t orphans = atomic_load(&model->counts[COUNT_ORPHANS]);
	struct lsmem_stat stat = { .size = sizeof(stat) };
	int fd = open(model->path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, LSMEM_IOC_STAT, &stat))
		wrong("stat: %s", strerror(errno));
	else if (stat.handles_used < live || stat.handles_used > live + orphans)
		wrong("%llu handles are in use, for %llu objects and at most %llu not known of",
		      (unsigned long long)stat.handles_used, (unsigned long long)live,
		      (unsigned long long)orphans);
	if (fd >= 0)
		close(fd);
}

static bool model_new(void)
{
	model = mmap(NULL, sizeof(*model), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	kills = 0;
	return model != MAP_FAILED;
}

/* ---- Volatile stores --------------------------------------------------- */

static int disk_create(char name[LSMEM_NAME_BYTES])
{
	struct lsmem_create create = {
		.size = sizeof(create), .kind = LSMEM_KIND_BLOCK, .bytes = STORE_BYTES,
	};
	int ret = control_call(LSMEM_CTL_CREATE, &create), i;

	if (ret)
		return ret;
	memcpy(name, create.name, LSMEM_NAME_BYTES);
	snprintf(model->disk, sizeof(model->disk), "/dev/%s", name);
	for (i = 0; i < 1000 && access(model->disk, R_OK); i++)
		usleep(10000);		/* udev */
	return 0;
}

static int destroy(const char *name, uint32_t flags)
{
	struct lsmem_destroy call = { .size = sizeof(call), .flags = flags };
	int ret, tries;

	snprintf((char *)call.name, sizeof(call.name), "%s", name);
	/* udev may have the disk open for a moment. */
	for (tries = 0; tries < 100; tries++) {
		ret = control_call(LSMEM_CTL_DESTROY, &call);
		if (ret != -EBUSY)
			break;
		usleep(50000);
	}
	return ret;
}

static void shared_verify(void)
{
	uint64_t values[2], done, most;
	struct lsm *lsm;
	uint32_t i;

	if (lsm_open(model->path, 0, &lsm)) {
		wrong("%s cannot be opened", model->path);
		return;
	}
	for (i = 0; i < SHARED; i++) {
		done = atomic_load(&model->shared[i].done);
		most = done + atomic_load(&model->shared[i].unsure) +
		       atomic_load(&model->counts[COUNT_INJECTED]);
		if (lsm_read(lsm, model->shared[i].handle, values, sizeof(values), 0, NULL) !=
		    sizeof(values) || values[0] < done || values[0] > most)
			wrong("shared object %u was replaced %llu times, and not %llu to %llu", i,
			      (unsigned long long)values[0], (unsigned long long)done,
			      (unsigned long long)most);
	}
	lsm_close(lsm);
}

static void volatile_stores(uint64_t seconds)
{
	uint64_t end, wanted = test_scaled(20000), live;
	char disk[LSMEM_NAME_BYTES];
	struct store store;
	int ret;

	if (!model_new())
		ksft_exit_fail_msg("memory: %s\n", strerror(errno));
	model->inject = inject_setup();
	if (!model->inject)
		ksft_print_msg("this kernel injects no failures\n");
	ret = store_create(&store, STORE_BYTES, 0, 0) ?: disk_create(disk);
	memcpy(model->path, store.path, sizeof(store.path));
	if (ret || shared_begin())
		ksft_exit_fail_msg("stores: %s\n", strerror(-ret));
	end = now_ms() + seconds * 1000;
	workers_start();
	while (going_on(end)) {
		nap(150);
		kill_one();
	}
	workers_stop();
	live = verify_all();
	shared_verify();
	check_orphans(live + SHARED);
	say_counts("volatile");
	ksft_test_result(!atomic_load(&model->failures), "every answer is right, whatever is killed\n");
	ksft_test_result(atomic_load(&model->counts[COUNT_OPERATIONS]) >= wanted && kills >= 5,
			 "volatile: %llu operations are done, workers are killed\n",
			 (unsigned long long)wanted);
	ret = store_destroy(&store) ?: destroy(disk, 0);
	ksft_test_result(!ret, "the stores can be destroyed\n");
}

/* ---- A durable store --------------------------------------------------- */

static bool attribute_is(const char *name, const char *wanted)
{
	char path[128], text[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/lsmem/%s/%s", conf_name, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	text[strcspn(text, "\n")] = '\0';
	return !strcmp(text, wanted);
}

/* Start lsmemd, and wait until its store is active. */
static bool daemon_start(bool format)
{
	uint64_t end = now_ms() + test_limit(START_SECONDS) * 1000;
	int status;

	fflush(stdout);
	daemon_pid = fork();
	if (!daemon_pid) {
		execl(lsmemd, "lsmemd", "-c", conf, "--state-directory", "/tmp", format ? "--format" : NULL, "--force", NULL);
		_exit(127);
	}
	while (now_ms() < end) {
		if (attribute_is("attached", "1") && attribute_is("state", "active") &&
		    !access(model->path, R_OK | W_OK))
			return true;
		if (waitpid(daemon_pid, &status, WNOHANG)) {
			wrong("lsmemd ends with status %#x", status);
			daemon_pid = 0;
			return false;
		}
		usleep(10000);
	}
	wrong("lsmemd does not bring the store up");
	return false;
}

static void daemon_end(int signal)
{
	int status;

	if (daemon_pid <= 0)
		return;
	kill(daemon_pid, signal);
	waitpid(daemon_pid, &status, 0);
	if (signal == SIGTERM && status)
		wrong("lsmemd, told to end, ends with status %#x", status);
	daemon_pid = 0;
}

static bool daemon_setup(void)
{
	char here[256];
	ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);
	FILE *file;

	if (n < 0)
		return false;
	here[n] = '\0';
	*strrchr(here, '/') = '\0';
	snprintf(lsmemd, sizeof(lsmemd), "%s/../../../daemon/lsmemd", here);
	snprintf(conf, sizeof(conf), "/tmp/torture.%d.conf", getpid());
	file = fopen(conf, "we");
	if (!file)
		return false;
	fprintf(file, "[store]\nsize = 128M\n[backup]\npath = " DRIVE "\n");
	return !fclose(file);
}

/* Destroy the store. After the recovery, everything that was acknowledged must be there. */
static void lose_memory(uint32_t how)
{
	/* Kill the daemon first, or the workers: different operations are under way then. */
	if (how % 2)
		daemon_end(SIGKILL);
	workers_kill();
	daemon_end(SIGKILL);
	atomic_store(&model->lossy, true);
	if (destroy(conf_name, LSMEM_DESTROY_FORCE)) {
		wrong("the store cannot be destroyed");
		return;
	}
	if (!daemon_start(false))
		return;
	verify_all();
	workers_start();
}

static void durable_store(uint64_t seconds)
{
	uint64_t end, wanted = test_scaled(2000), daemons = 0, losses = 0, live;
	uint32_t step;

	if (!model_new())
		ksft_exit_fail_msg("memory: %s\n", strerror(errno));
	model->durable = true;
	snprintf(conf_name, sizeof(conf_name), "lsmem");
	snprintf(model->path, sizeof(model->path), "/dev/lsmem");
	if (!daemon_setup() || !daemon_start(true))
		ksft_exit_fail_msg("lsmemd: %s\n", strerror(errno));
	end = now_ms() + seconds * 1000;
	workers_start();
	for (step = 1; going_on(end) || (losses < 1 && !atomic_load(&model->failures)); step++) {
		nap(300);
		if (step % 6 == 0) {
			lose_memory(losses++);
		} else if (step % 3 == 0) {
			daemon_end(SIGKILL);
			daemons++;
			nap(100);
			daemon_start(false);
		} else {
			kill_one();
		}
	}
	workers_stop();
	live = verify_all();
	check_orphans(live);
	ksft_print_msg("lsmemd killed %llu times, memory lost %llu times\n",
		       (unsigned long long)daemons, (unsigned long long)losses);
	say_counts("durable");
	ksft_test_result(!atomic_load(&model->failures),
			 "what is acknowledged is there, whatever is killed or lost\n");
	ksft_test_result(atomic_load(&model->counts[COUNT_OPERATIONS]) >= wanted && losses && daemons,
			 "durable: %llu operations are done, daemons killed, memory lost\n",
			 (unsigned long long)wanted);
	daemon_end(SIGTERM);
	unlink(conf);
	ksft_test_result(!destroy(conf_name, 0), "the durable store can be destroyed\n");
}

int main(void)
{
	const char *text = getenv("LSMEM_TORTURE_SECONDS");
	uint64_t seconds = text ? strtoull(text, NULL, 0) : SECONDS;

	ksft_print_header();
	ksft_set_plan(6);
	setvbuf(stdout, NULL, _IOLBF, 0);
	random_state = test_seed;
	volatile_stores(seconds / 2);
	durable_store(seconds / 2);
	ksft_finished();
}
