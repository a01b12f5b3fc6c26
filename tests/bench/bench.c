// SPDX-License-Identifier: GPL-2.0
/* Bench programs: options, rounds, threads.  See bench.h. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define ARGUMENTS	8u

/* What the processes of a round share. */
static struct shared {
	struct bench bench;
	struct worker workers[BENCH_THREADS];
} *shared;

void fail(const char *what, int error)
{
	fprintf(stderr, "bench: %s: %s\n", what, strerror(error));
	exit(1);
}

void *get_memory(uint64_t bytes, uint64_t align)
{
	void *memory = aligned_alloc(align, (bytes + align - 1) / align * align);

	if (!memory)
		fail("memory", ENOMEM);
	memset(memory, 0x5a, bytes);	/* no page faults during the measurement */
	return memory;
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Each worker has its own processor, so that two writers have two heads. */
void use_cpu(unsigned int nr)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(nr % (unsigned int)cpus, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static const struct mode *working;

static void *worker_main(void *argument)
{
	struct worker *worker = argument;

	use_cpu(worker->nr);
	worker->begin = now_ns();
	worker->cpu_ns = thread_ns();
	worker->operations = working->work(worker);
	worker->cpu_ns = thread_ns() - worker->cpu_ns;
	worker->end = now_ns();
	return NULL;
}

/* A worker, and how to wait for it: by its process, or if that is 0 by its thread. */
struct begun {
	pid_t process;
	pthread_t thread;
};

static struct begun worker_begin(struct worker *worker)
{
	struct begun begun = { 0 };

	if (working->processes && worker->bench->threads > 1) {
		begun.process = fork();
		if (begun.process < 0)
			fail("fork", errno);
		if (begun.process)
			return begun;
		worker_main(worker);
		_exit(0);
	}
	if (pthread_create(&begun.thread, NULL, worker_main, worker))
		fail("thread", EAGAIN);
	return begun;
}

static void worker_wait(struct begun begun)
{
	int status;

	if (!begun.process)
		pthread_join(begun.thread, NULL);
	else if (waitpid(begun.process, &status, 0) != begun.process || status)
		fail("worker", ECHILD);
}

/* Run a round. Returns operations a second of all workers. @cpu_ns: out, their processor time. */
static double run_round(struct bench *bench, double seconds, uint64_t *cpu_ns)
{
	struct worker *workers = shared->workers;
	struct timespec length = {
		.tv_sec = (time_t)seconds,
		.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9),
	};
	struct begun begun[BENCH_THREADS];
	double rate = 0;
	unsigned int i;

	atomic_store(&bench->stop, false);
	for (i = 0; i < bench->threads; i++) {
		workers[i].bench = bench;
		workers[i].nr = i;
		workers[i].state += 0x9e3779b97f4a7c15ull * (i + 1);
		begun[i] = worker_begin(&workers[i]);
	}
	nanosleep(&length, NULL);
	atomic_store(&bench->stop, true);
	*cpu_ns = 0;
	for (i = 0; i < bench->threads; i++) {
		worker_wait(begun[i]);
		rate += (double)workers[i].operations * 1e9 /
			(double)(workers[i].end - workers[i].begin);
		*cpu_ns += workers[i].cpu_ns;
	}
	return rate;
}

static const struct mode *find_mode(const char *name)
{
	const struct mode *const *modes, *mode;

	for (modes = bench_modes; *modes; modes++)
		for (mode = *modes; mode->name; mode++)
			if (!strcmp(mode->name, name))
				return mode;
	fprintf(stderr, "bench: no mode '%s'\n", name);
	exit(2);
}

static void usage(void)
{
	fprintf(stderr,
		"usage: bench [-s BYTES] [-b BATCH] [-m STORE_MIB] [-n OBJECTS] [-l LIVE_PER_MILLE] [-w WRITES_PER_MILLE] [-r | -z | -Z EXPONENT] [-c] [-p PATH] MODE\n");
	exit(2);
}

static void obey(struct bench *bench, char *line)
{
	double arguments[ARGUMENTS], seconds, rate;
	static const char blank[] = { ' ', '\n', 0 };
	char *word, *rest = NULL;
	unsigned int nr = 0;
	uint64_t cpu_ns;

	if (sscanf(line, "%lf %u", &seconds, &nr) == 2) {
		if (!working->work || !nr || nr > BENCH_THREADS)
			usage();
		bench->threads = nr;
		rate = run_round(bench, seconds, &cpu_ns);
		printf("%.1f %.6f\n", rate, (double)cpu_ns / 1e9);
		return;
	}
	line = strtok_r(line, blank, &rest);
	while ((word = strtok_r(NULL, blank, &rest)) && nr < ARGUMENTS)
		arguments[nr++] = strtod(word, NULL);
	if (line && !strcmp(line, "batch") && nr == 1 && arguments[0] >= 1) {
		bench->batch = (uint32_t)arguments[0];
		printf("{\"batch\": %u}\n", bench->batch);
		return;
	}
	if (line && !strcmp(line, "writes") && nr == 1) {
		bench->writes = (uint32_t)arguments[0];
		printf("{\"writes\": %u}\n", bench->writes);
		return;
	}
	if (!line || !working->order || !working->order(bench, line, arguments, nr))
		usage();
}

int main(int argc, char **argv)
{
	struct bench *bench;
	char line[256];
	int option;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("memory", errno);
	bench = &shared->bench;
	*bench = (struct bench){ .bytes = 256u << 20, .live = 500, .size = 100, .batch = 64,
				 .writes = 50, .skew = ZIPF_EXPONENT };
	while ((option = getopt(argc, argv, "s:b:m:n:l:w:rzZ:cp:")) != -1) {
		switch (option) {
		case 's':
			bench->size = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'b':
			bench->batch = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'm':
			bench->bytes = strtoull(optarg, NULL, 0) << 20;
			break;
		case 'n':
			bench->handles = strtoull(optarg, NULL, 0);
			break;
		case 'l':
			bench->live = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'w':
			bench->writes = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'r':
			bench->random = true;
			break;
		case 'z':
			bench->zipf = true;
			break;
		case 'Z':
			bench->zipf = true;
			bench->skew = strtod(optarg, NULL);
			break;
		case 'c':
			bench->chain = true;
			break;
		case 'p':
			bench->path = optarg;
			break;
		default:
			usage();
		}
	}
	if (optind + 1 != argc || !bench->size || !bench->batch)
		usage();
	working = find_mode(argv[optind]);
	bench->threads = 1;
	working->setup(bench);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		obey(bench, line);
		fflush(stdout);
	}
	return 0;
}
