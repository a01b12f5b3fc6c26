// SPDX-License-Identifier: GPL-2.0
/*
 * The file backup: creation, limits, requests, the hold.  TAP.  Needs neither root nor the module.
 * The argument is a scratch directory on a filesystem with direct I/O.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backup/backup.h"
#include "base/log.h"
#include "../common/tap.h"
#include "lsmem_format.h"

#define BYTES	(64u << 20)
#define MANY	64u
#define CUT	4u

static struct loop loop;
static char path[PATH_MAX];
static unsigned int progressed;
static int progress_result;

static int progress(const char *what, uint64_t done, uint64_t all)
{
	(void)what;
	progressed++;
	return done <= all ? progress_result : -EIO;
}

static int open_backup(struct backup *backup, uint64_t create, unsigned int wait, bool read_only)
{
	struct backup_options options = {
		.path = path,
		.bytes = create,
		.create = create,
		.lock_wait = wait,
		.read_only = read_only,
		.progress = progress,
	};

	return backup_open(backup, &loop, &options);
}

static bool all_zero(void)
{
	static uint8_t block[1 << 16];
	int fd = open(path, O_RDONLY);
	bool zero = fd >= 0;
	ssize_t n;

	while (zero && (n = read(fd, block, sizeof(block))) > 0)
		while (n && zero)
			zero = !block[--n];
	close(fd);
	return zero;
}

static void test_create(void)
{
	struct backup backup;
	struct stat st;
	char temporary[PATH_MAX + 8];

	snprintf(temporary, sizeof(temporary), "%s.new", path);
	tap_is(open_backup(&backup, 0, 0, false), -ENOENT, "no file, no size: refused");
	progress_result = -ECANCELED;
	tap_is(open_backup(&backup, BYTES, 0, false), -ECANCELED, "a creation can be stopped");
	tap_ok(access(path, F_OK) && access(temporary, F_OK), "a stopped creation leaves nothing");
	progress_result = 0;
	close(open(temporary, O_WRONLY | O_CREAT, 0600));
	tap_is(truncate(temporary, 12345), 0, "the remains of a killed creation");
	tap_is(open_backup(&backup, BYTES, 0, false), 0, "creation");
	tap_ok(progressed > 10, "progress is reported");
	tap_is(backup.limits.bytes, BYTES, "its size");
	tap_is(backup.limits.io_bytes, BACKUP_IO_BYTES, "its longest request");
	backup_close(&backup);
	tap_ok(!stat(path, &st) && st.st_size == BYTES && st.st_blocks * 512 >= BYTES,
	    "all blocks are allocated");
	tap_is(st.st_mode & 0777, 0600, "no other user may read it");
	tap_ok(all_zero(), "all of it is zero");
	tap_ok(access(temporary, F_OK), "no other file is left");
	tap_is(open_backup(&backup, 2 * BYTES, 0, false), -EINVAL, "another size: refused");
	tap_is(open_backup(&backup, BYTES, 0, false), 0, "the same size: accepted");
	backup_close(&backup);
}

static unsigned int completed;
static int last_error;
static unsigned int too_big;

static void done(struct backup_io *io, int error)
{
	(void)io;
	completed++;
	if (error)
		last_error = error;
	too_big += error == -EFBIG;
}

static void test_io(void)
{
	static struct backup_io ios[MANY];
	static struct iovec iovs[MANY][16];
	uint8_t *data, *back;
	struct backup backup;
	unsigned int i, j;

	if (posix_memalign((void **)&data, LSMEM_BLOCK, MANY * 65536) ||
	    posix_memalign((void **)&back, LSMEM_BLOCK, MANY * 65536))
		exit(1);
	for (i = 0; i < MANY * 65536; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	if (open_backup(&backup, 0, 0, false))
		exit(1);
	memset(ios, 0, sizeof(ios));
	for (i = 0; i < MANY; i++) {
		for (j = 0; j < 16; j++) {
			/* Pieces in reverse order, so that the order of the vector matters. */
			iovs[i][j].iov_base = data + i * 65536 + (15 - j) * 4096;
			iovs[i][j].iov_len = 4096;
		}
		ios[i].what = BACKUP_WRITE;
		ios[i].offset = (uint64_t)i * 65536;
		ios[i].length = 65536;
		ios[i].iov = iovs[i];
		ios[i].nr_iov = 16;
		ios[i].done = done;
		backup_submit(&ios[i], &backup);
	}
	tap_is(completed, 0, "nothing completes before the loop runs");
	while (completed < MANY && loop_run(&loop, true) >= 0)
		;
	tap_is(last_error, 0, "many writes in flight");
	tap_is(backup.in_flight, 0, "none is left");
	tap_is(backup_transfer(&backup, BACKUP_FLUSH, 0, NULL, 0), 0, "flush");
	tap_is(backup_transfer(&backup, BACKUP_READ, 0, back, MANY * 65536), 0,
	       "a read longer than a request");
	for (i = 0; i < MANY * 16; i++)
		if (memcmp(back + (i / 16) * 65536 + (i % 16) * 4096,
			   data + (i / 16) * 65536 + (15 - i % 16) * 4096, 4096))
			break;
	tap_is(i, MANY * 16, "the bytes read are those written");
	tap_is(backup_transfer(&backup, BACKUP_READ, BYTES - 4096, back, 4096), 0, "the last block");
	/* If another program shortens the file, a read fails and is not repeated for ever. */
	tap_is(truncate(path, BYTES / 2), 0, "the file is cut short");
	tap_ok(backup_transfer(&backup, BACKUP_READ, BYTES / 2, back, 4096) < 0,
	    "a read beyond the end fails");
	tap_is(truncate(path, BYTES), 0, "the file is as long again");
	backup_close(&backup);
	tap_is(open_backup(&backup, 0, 0, true), 0, "read only");
	tap_is(backup_transfer(&backup, BACKUP_READ, 0, back, 4096), 0, "can be read");
	backup_close(&backup);
	free(data);
	free(back);
}

/*
 * Durable writes, of 8 KiB each, in a ring that has room for few of them, with a read in between, so that
 * the end of the ring comes after each half of a pair. Return: how many were not as they should be.
 */
static unsigned int durable_writes(struct backup *backup, uint8_t *data)
{
	static struct backup_io ios[MANY];
	static struct iovec iovs[MANY];
	static uint8_t back[MANY * 8192] __attribute__((aligned(LSMEM_BLOCK)));
	unsigned int i, bad;

	completed = 0;
	last_error = 0;
	memset(ios, 0, sizeof(ios));
	for (i = 0; i < MANY; i++) {
		iovs[i].iov_base = i % 4 == 3 ? back : data + i * 8192;
		iovs[i].iov_len = 8192;
		ios[i].what = i % 4 == 3 ? BACKUP_READ : BACKUP_WRITE;
		ios[i].durable = true;
		ios[i].offset = i * 8192;
		ios[i].length = 8192;
		ios[i].iov = &iovs[i];
		ios[i].nr_iov = 1;
		ios[i].done = done;
		backup_submit(&ios[i], backup);
	}
	while (completed < MANY && loop_run(&loop, true) >= 0)
		;
	bad = (completed != MANY) + !!last_error + backup->in_flight + loop.in_flight;
	if (backup_transfer(backup, BACKUP_READ, 0, back, sizeof(back)))
		bad++;
	for (i = 0; i < MANY; i++)
		bad += i % 4 != 3 && memcmp(back + i * 8192, data + i * 8192, 8192);
	return bad;
}

/*
 * Durable writes of 8 KiB, of which the file takes 4 KiB, and a read before them, so that a pair comes to the
 * end of the ring. Return: how many have failed with EFBIG; -1: one did not end once.
 */
static int durable_writes_cut(struct backup *backup, uint8_t *data)
{
	static uint8_t back[8192] __attribute__((aligned(LSMEM_BLOCK)));
	struct rlimit limit = { .rlim_cur = MANY * 8192 + 4096, .rlim_max = RLIM_INFINITY };
	struct backup_io ios[CUT + 1];
	struct iovec iovs[CUT + 1];
	unsigned int i;

	signal(SIGXFSZ, SIG_IGN);
	completed = 0;
	too_big = 0;
	if (setrlimit(RLIMIT_FSIZE, &limit))
		return -1;
	memset(ios, 0, sizeof(ios));
	for (i = 0; i <= CUT; i++) {
		iovs[i] = (struct iovec) { .iov_base = i ? data : back, .iov_len = 8192 };
		ios[i].what = i ? BACKUP_WRITE : BACKUP_READ;
		ios[i].durable = i;
		ios[i].offset = i ? MANY * 8192 : 0;
		ios[i].length = 8192;
		ios[i].iov = &iovs[i];
		ios[i].nr_iov = 1;
		ios[i].done = done;
		backup_submit(&ios[i], backup);
	}
	while (completed <= CUT && loop_run(&loop, true) >= 0)
		;
	limit.rlim_cur = RLIM_INFINITY;
	if (setrlimit(RLIMIT_FSIZE, &limit))
		return -1;
	/* What is left of the requests would be handed out now. */
	if (backup_transfer(backup, BACKUP_FLUSH, 0, NULL, 0))
		return -1;
	return completed == CUT + 1 && !backup->in_flight && !loop.in_flight ? (int)too_big : -1;
}

static void test_durable(void)
{
	uint8_t *data, back[4096] __attribute__((aligned(LSMEM_BLOCK)));
	struct backup backup;
	unsigned int pass, i;

	if (posix_memalign((void **)&data, LSMEM_BLOCK, MANY * 8192))
		exit(1);
	loop_close(&loop);
	if (loop_open(&loop, 8) || open_backup(&backup, 0, 0, false))
		exit(1);
	for (pass = 0; pass < 2; pass++) {
		const char *cache = pass ? "no cache" : "a cache";

		for (i = 0; i < MANY * 8192; i++)
			data[i] = (uint8_t)((i + pass * 12345) * 2654435761u >> 13);
		backup.limits.volatile_cache = !pass;
		tap_is(durable_writes(&backup, data), 0, "durable writes, %s", cache);
		tap_is(durable_writes_cut(&backup, data), CUT, "those that are short, and then fail, %s",
		       cache);
		tap_is(backup_transfer(&backup, BACKUP_READ, MANY * 8192, back, 4096), 0, "their first half");
		tap_ok(!memcmp(back, data, 4096), "is there");
	}
	backup_close(&backup);
	loop_close(&loop);
	if (loop_open(&loop, 256))
		exit(1);
	free(data);
}

/* What the kernel does if it has memory for one request only. */
static void take_one(void)
{
	io_uring_smp_store_release(loop.ring.sq.ktail, loop.ring.sq.sqe_tail);
	if (io_uring_enter((unsigned int)loop.ring.ring_fd, 1, 0, 0, NULL) != 1)
		_exit(2);
}

static bool parts;	/* io_uring_submit() takes one request */

int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);

int __wrap_io_uring_submit(struct io_uring *ring)
{
	if (!parts)
		return __real_io_uring_submit(ring);
	take_one();
	return 1;
}

/*
 * If the kernel takes a write and not its flush, the flush must not be submitted by itself: neither when the loop runs, nor
 * when a request that comes makes room.
 */
static void test_parted(bool runs)
{
	struct backup_io io = { .what = BACKUP_WRITE, .durable = true, .length = 4096, .nr_iov = 1 };
	static uint8_t data[4096] __attribute__((aligned(LSMEM_BLOCK)));
	static struct loop_op op;
	struct iovec iov = { .iov_base = data, .iov_len = 4096 };
	struct backup backup;
	unsigned int i;
	int wait_status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		log_setup(-1);
		if (loop_open(&loop, 8) || open_backup(&backup, 0, 10, false))
			_exit(1);
		io.iov = &iov;
		io.done = done;
		backup_submit(&io, &backup);
		parts = !runs;
		for (i = 0; !runs && i < 7; i++)
			io_uring_prep_nop(loop_sqe(&loop, &op));
		if (runs) {
			take_one();
			loop_run(&loop, true);
		}
		_exit(0);
	}
	waitpid(pid, &wait_status, 0);
	tap_ok(WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGABRT,
	       "a flush is never sent without its write, when %s", runs ? "the loop runs" : "there is no room");
}

/* A request out of bounds must abort the daemon before it damages anything. */
static void test_bounds(void)
{
	static const struct {
		const char *name;
		uint64_t offset;
		uint32_t length;
		enum backup_what what;
		bool read_only;
	} cases[] = {
		{ "beyond the end", BYTES, 4096, BACKUP_WRITE, false },
		{ "across the end", BYTES - 4096, 8192, BACKUP_WRITE, false },
		{ "so far that it wraps", ~0ull << 12, 8192, BACKUP_WRITE, false },
		{ "misaligned", 512, 4096, BACKUP_WRITE, false },
		{ "odd length", 0, 100, BACKUP_WRITE, false },
		{ "a write to what is open for reading", 0, 4096, BACKUP_WRITE, true },
	};
	struct backup_io io;
	struct backup backup;
	struct iovec iov = { .iov_base = NULL, .iov_len = 4096 };
	unsigned int i;
	int wait_status;
	pid_t pid;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fflush(stdout);
		pid = fork();
		if (!pid) {
			log_setup(-1);
			if (loop_open(&loop, 8) || open_backup(&backup, 0, 10, cases[i].read_only))
				_exit(1);
			memset(&io, 0, sizeof(io));
			io.what = cases[i].what;
			io.offset = cases[i].offset;
			io.length = cases[i].length;
			io.iov = &iov;
			io.nr_iov = 1;
			backup_submit(&io, &backup);
			_exit(0);
		}
		waitpid(pid, &wait_status, 0);
		tap_ok(WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGABRT,
		    "a request %s is never sent", cases[i].name);
	}
}

/* Start a process that holds the backup until it is killed; a writer writes all the time. */
static pid_t holder(bool read_only)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe(ready))
		exit(1);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		static struct backup_io ios[MANY];
		static struct iovec iovs[MANY];
		struct backup backup;
		unsigned int i;
		void *data;

		if (loop_open(&loop, 256) || open_backup(&backup, 0, 5, read_only) ||
		    posix_memalign(&data, 4096, BACKUP_IO_BYTES))
			_exit(1);
		memset(data, 0x5a, BACKUP_IO_BYTES);
		(void)!write(ready[1], "", 1);
		while (read_only)
			pause();
		for (;;) {
			completed = 0;
			memset(ios, 0, sizeof(ios));
			for (i = 0; i < MANY; i++) {
				iovs[i].iov_base = data;
				iovs[i].iov_len = i < MANY - 1 ? BACKUP_IO_BYTES : 0;
				ios[i].what = i < MANY - 1 ? BACKUP_WRITE : BACKUP_FLUSH;
				ios[i].offset = i < MANY - 1 ? i * (uint64_t)BACKUP_IO_BYTES : 0;
				ios[i].length = (uint32_t)iovs[i].iov_len;
				ios[i].iov = &iovs[i];
				ios[i].nr_iov = 1;
				ios[i].done = done;
				backup_submit(&ios[i], &backup);
			}
			while (completed < MANY && loop_run(&loop, true) >= 0)
				;
		}
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		exit(1);
	close(ready[0]);
	return pid;
}

static void test_hold(void)
{
	static uint8_t seen[1 << 16], again[1 << 16];
	struct backup backup;
	unsigned int i, same = 0;
	pid_t pid;
	int fd;

	pid = holder(false);
	log_setup(-1);
	tap_is(open_backup(&backup, 0, 0, false), -EBUSY, "held by another: refused");
	tap_is(open_backup(&backup, 0, 1, true), -EBUSY, "held by another: a reader is refused, too");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	tap_is(open_backup(&backup, 0, 30, false), 0, "the holder is killed: the next one gets it");
	backup_close(&backup);

	for (i = 0; i < 20; i++) {
		pid = holder(false);
		usleep(i * 3000);
		kill(pid, SIGKILL);
		if (open_backup(&backup, 0, 30, false)) {
			waitpid(pid, NULL, 0);
			break;
		}
		/* From now on no write of the killed process may reach the file. */
		fd = open(path, O_RDWR);
		memset(seen, (int)i + 1, sizeof(seen));
		if (pwrite(fd, seen, sizeof(seen), 0) < 0)
			break;
		usleep(20000);
		if (pread(fd, again, sizeof(again), 0) == sizeof(again) &&
		    !memcmp(seen, again, sizeof(seen)))
			same++;
		close(fd);
		backup_close(&backup);
		waitpid(pid, NULL, 0);
	}
	tap_is(same, 20, "with the hold, no write of a killed holder lands any more");

	pid = holder(true);
	tap_is(open_backup(&backup, 0, 0, true), 0, "two readers");
	backup_close(&backup);
	tap_is(open_backup(&backup, 0, 0, false), -EBUSY, "no writer beside a reader");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	log_setup(LOG_PRI_NOTICE);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	snprintf(path, sizeof(path), "%s/backup.%ld", argv[1], (long)getpid());
	log_setup(-1);
	if (loop_open(&loop, 256)) {
		printf("1..0 # SKIP no io_uring here\n");
		return 0;
	}
	test_create();
	test_io();
	test_durable();
	test_parted(true);
	test_parted(false);
	test_bounds();
	test_hold();
	unlink(path);
	loop_close(&loop);
	return tap_end();
}
