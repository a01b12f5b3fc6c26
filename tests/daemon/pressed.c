// SPDX-License-Identifier: GPL-2.0
/*
 * Reads in a full memory cgroup, for guest-tier-pressure.sh.
 *
 *	pressed refused|killed MODEL DEVICE GROUP PID
 *
 * Joins the cgroup GROUP, and reads objects of MODEL (model.h), at first without a limit.  Then the
 * daemon PID is stopped and the limit set, so that requests stay, until the cgroup is full:
 *
 * refused	The OOM killer must spare this program.  Each further read must get ENOMEM, unless the
 *		object is in memory.  Without the limit, and with the daemon, all are read.
 * killed	Threads wait for objects.  The OOM killer must end this program; the daemon stays stopped.
 *
 * The program reads by ioctl and from locked memory only: pages or page tables that it needed would be
 * charged as well.  Status: 0 or 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lsmem.h>

#include "../common/content.h"
#include "../common/random.h"
#include "model.h"

#define THREADS		16u
#define ROOM		(64u << 10)	/* larger objects are not read */
#define READS		64u		/* of a thread */
#define FULL_READS	1u		/* likewise, when the cgroup is full: the kernel logs each refusal */
#define QUIET_US	200000

static const struct model *model;
static int fd;
static unsigned int turns;			/* reads of each thread */
static uint8_t room[THREADS + 1][ROOM];
static pthread_barrier_t begin, end;
static _Atomic unsigned int right, refused, wrong;

static int failed(const char *what, int error)
{
	fprintf(stderr, "pressed: %s: %s\n", what, strerror(error));
	return 1;
}

/* Read slot @index. Returns 0 or an errno; EBADMSG: it is not what was written. */
static int read_slot(uint64_t index, uint8_t *data, uint32_t flags)
{
	const struct state *last = &model->slot[index].last;
	struct lsmem_op op = {
		.size = sizeof(op),
		.op = LSMEM_OP_READ,
		.flags = flags,
		.handle = last->handle,
		.data = (uintptr_t)data,
		.length = ROOM,
	};

	if (ioctl(fd, LSMEM_IOC_READ, &op))
		return errno;
	return op.length == last->length && content_is(data, last->length, index, last->sequence) ?
	       0 : EBADMSG;
}

static bool readable(uint64_t index)
{
	return model->slot[index].last.what == WRITTEN && model->slot[index].last.length <= ROOM;
}

/* Threads read the odd slots at random, @turns each time. */
static void *reader(void *argument)
{
	uint64_t thread = (uintptr_t)argument, state = thread, index;
	unsigned int done;
	int err;

	for (;;) {
		pthread_barrier_wait(&begin);
		for (done = 0; done < turns; done++) {
			do {
				index = random_below(&state, model->slots) | 1;
			} while (!readable(index));
			err = read_slot(index, room[thread], 0);
			right += !err;
			refused += err == ENOMEM;
			if (err && err != ENOMEM && !wrong++)
				failed("a read", err);
		}
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static void begin_reads(unsigned int nr)
{
	turns = nr;
	right = 0;
	refused = 0;
	pthread_barrier_wait(&begin);
}

static void all_read(unsigned int nr)
{
	begin_reads(nr);
	pthread_barrier_wait(&end);
}

/* Ask for the even slots from @index on, without waiting, until one is refused. Returns that one. */
static uint64_t ask(uint64_t index)
{
	int err;

	for (; index < model->slots; index += 2) {
		err = readable(index) ? read_slot(index, room[THREADS], LSMEM_OPF_NOWAIT) : 0;
		if (err == ENOMEM)
			return index;
		if (err && err != EAGAIN && !wrong++)
			failed("a read that does not wait", err);
	}
	return index;
}

static int file(const char *group, const char *name, int flags)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", group, name);
	return open(path, flags | O_CLOEXEC);
}

static bool put(int to, const char *text)
{
	return pwrite(to, text, strlen(text), 0) == (ssize_t)strlen(text);
}

static int read_refused(int limit, pid_t daemon)
{
	uint64_t until;

	if (!put(limit, "4096"))
		return failed("memory.max", errno);
	until = ask(0);
	begin_reads(FULL_READS);
	usleep(QUIET_US);
	if (kill(daemon, SIGCONT))	/* some reads may have found memory, and wait */
		return failed("the daemon", errno);
	pthread_barrier_wait(&end);
	if (!put(limit, "max"))
		return failed("memory.max", errno);
	printf("refused at slot %llu of %llu; of %u reads %u right, %u refused\n",
	       (unsigned long long)until, (unsigned long long)model->slots, THREADS * FULL_READS,
	       right, refused);
	if (until >= model->slots)
		return failed("nothing was refused", 0);
	all_read(READS);
	if (right != THREADS * READS)
		return failed("without the limit not all is read", 0);
	for (; until > 1; until -= 2)
		if (readable(until - 2) && read_slot(until - 2, room[THREADS], 0))
			return failed("what was asked for is not read", errno);
	return wrong ? 1 : 0;
}

static int read_killed(int limit, int use)
{
	char now[32] = "";

	begin_reads(READS);
	usleep(QUIET_US);		/* if they wait only later, the test shows less */
	if (pread(use, now, sizeof(now) - 1, 0) <= 0 || !put(limit, now))
		return failed("memory.max", errno);
	ask(0);
	/* What the kernel had charged ahead can be enough for all. */
	if (!put(limit, "4096"))
		return failed("memory.max", errno);
	return failed("not killed", 0);
}

int main(int argc, char **argv)
{
	int kill_me = argc == 6 && !strcmp(argv[1], "killed"), limit, use, model_fd, score, join;
	pthread_attr_t small;
	pthread_t thread;
	struct stat st;
	uint64_t i;

	if (!kill_me && (argc != 6 || strcmp(argv[1], "refused")))
		return failed("usage: pressed refused|killed MODEL DEVICE GROUP PID", EINVAL);
	fd = open(argv[3], O_RDWR | O_CLOEXEC);
	limit = file(argv[4], "memory.max", O_WRONLY);
	use = file(argv[4], "memory.current", O_RDONLY);
	join = file(argv[4], "cgroup.procs", O_WRONLY);
	score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	model_fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || limit < 0 || use < 0 || join < 0 || score < 0 || model_fd < 0 ||
	    fstat(model_fd, &st))
		return failed("opening", errno);
	model = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, model_fd, 0);
	if (model == MAP_FAILED || !put(join, "0") || (!kill_me && !put(score, "-1000")) ||
	    mlockall(MCL_CURRENT | MCL_FUTURE))
		return failed("joining", errno);
	pthread_barrier_init(&begin, NULL, THREADS + 1);
	pthread_barrier_init(&end, NULL, THREADS + 1);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&thread, &small, reader, (void *)(uintptr_t)i))
			return failed("threads", errno);
	all_read(READS);
	if (right != THREADS * READS)
		return failed("before the limit not all is read", 0);
	if (kill(atoi(argv[5]), SIGSTOP))
		return failed("the daemon", errno);
	usleep(QUIET_US);	/* its threads stop one after the other */
	return kill_me ? read_killed(limit, use) : read_refused(limit, atoi(argv[5]));
}
