// SPDX-License-Identifier: GPL-2.0
/*
 * Operations on a store, and a check of the store against them.
 *
 *	load run MODEL STORE SECONDS SLOTS	operate until the time is over or a signal comes
 *	load verify MODEL STORE [EVERY]		the store has all that was acknowledged, and
 *						nothing else; of slots with nothing under way, one of EVERY
 *						is looked at
 *	load fill MODEL STORE PERCENT SLOTS	objects until the store has so much of its capacity
 *	load overwrite MODEL STORE PERCENT	so many of the objects, chosen at random; those that a full store
 *						does not take are freed
 *	load read MODEL STORE SECONDS		objects at random, but those under way; no other
 *						program writes
 *	load trickle MODEL STORE NR US		NR objects of TRICKLE bytes, one by one, each US microseconds
 *						after the one before; of a model that has so many slots
 *
 * fill, overwrite and trickle are not durable operations, and end with a sync.
 *
 * MODEL is a file (model.h) that survives a SIGKILL of this program, but not a crash of the machine: it
 * should be on tmpfs.  Each slot belongs to one thread.  A verification accepts either state of a slot
 * and makes it @last.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <lsmem.h>

#include "../common/content.h"
#include "../common/random.h"
#include "model.h"

#define THREADS 16u
#define BLOCK		4096u
#define TRICKLE		100u

static struct model *model;
static struct lsm *lsm;
static int block_fd = -1;
static uint64_t blocks;
static _Atomic bool stop;
static _Atomic uint64_t errors;
static _Atomic uint64_t timeouts;
static _Atomic uint64_t full;
static _Atomic uint64_t reads;
static _Atomic uint64_t verified, wrong, live, newer;	/* found by a verification */
static unsigned int percent;
static uint64_t every;			/* for verify */
static uint64_t stride;			/* see jump() */
static uint64_t target;			/* live bytes, for fill */

static uint32_t random_length(uint64_t r)
{
	if (r % 100 == 0)
		return 65536 + (uint32_t)(r >> 8) % 200000;
	if (r % 10 == 0)
		return 8 + (uint32_t)(r >> 8) % 20000;
	return 8 + (uint32_t)(r >> 8) % 1000;
}

/* Execute slot->next, with LSM_DURABLE or no flags. Returns 0, -ETIMEDOUT (applied) or another error (not applied). */
static int operate(struct slot *slot, uint64_t index, uint8_t *data, unsigned int flags)
{
	struct state *next = &slot->next;
	uint64_t version;

	if (next->what == WRITTEN)
		content_fill(data, next->length, index, next->sequence);
	if (block_fd >= 0) {
		struct iovec iov = { .iov_base = data, .iov_len = BLOCK };

		if (pwritev2(block_fd, &iov, 1, (off_t)(index % blocks) * BLOCK, RWF_DSYNC) !=
		    BLOCK)
			return -errno;
		return 0;
	}
	if (next->what == NOTHING)
		return lsm_free(lsm, next->handle, flags, &version);
	if (slot->last.what == NOTHING)
		return lsm_alloc(lsm, data, next->length, flags, &next->handle, &version);
	return lsm_replace(lsm, next->handle, data, next->length, flags, &version);
}

static void *worker(void *argument)
{
	uint64_t thread = (uintptr_t)argument, state, dice, index;
	uint8_t *data;
	struct slot *slot;
	int err;

	state = (uint64_t)time(NULL) << 8 ^ thread;
	if (posix_memalign((void **)&data, BLOCK, 1 << 20))
		exit(1);
	while (!stop) {
		index = random_below(&state, model->slots / THREADS) * THREADS + thread;
		slot = &model->slot[index];
		slot->next = slot->last;
		slot->next.sequence = model->sequence++;
		dice = random_next(&state);
		if (block_fd < 0 && slot->last.what == WRITTEN && dice % 8 == 0) {
			slot->next.what = NOTHING;
		} else {
			slot->next.what = WRITTEN;
			slot->next.length = block_fd >= 0 ? BLOCK : random_length(dice >> 8);
		}
		slot->under_way = 1;
		err = operate(slot, index, data, LSM_DURABLE);
		while (err == -ETIMEDOUT) {
			timeouts++;
			err = block_fd >= 0 ? -EIO : lsm_sync(lsm, 0);
		}
		if (err == -ENOSPC) {
			full++;
			slot->under_way = 0;
			continue;
		}
		if (err) {
			if (!errors++)
				fprintf(stderr, "slot %" PRIu64 ": %s\n", index, strerror(-err));
			if (err == -EAGAIN || err == -EINTR)
				continue;
			break;
		}
		slot->last = slot->next;
		slot->under_way = 0;
		model->acknowledged++;
	}
	return NULL;
}

/* Does the store have @state in a slot? Returns 1 or 0. */
static int holds(const struct state *state, uint64_t index, uint8_t *data)
{
	struct lsm_object object;
	ssize_t n;

	if (block_fd >= 0) {
		if (pread(block_fd, data, BLOCK, (off_t)(index % blocks) * BLOCK) != BLOCK)
			return 0;
		if (state->what == NOTHING) {
			for (n = 0; n < (ssize_t)BLOCK; n++)
				if (data[n])
					return 0;
			return 1;
		}
		return content_is(data, BLOCK, index, state->sequence);
	}
	if (!state->handle)
		return state->what == NOTHING;
	n = lsm_read(lsm, state->handle, data, 1 << 20, 0, &object);
	if (state->what == NOTHING)
		return n == -ESTALE || n == -ENOENT;
	return n == (ssize_t)state->length &&
	       content_is(data, state->length, index, state->sequence);
}

/* The greatest common divisor. */
static uint64_t divisor(uint64_t a, uint64_t b)
{
	return b ? divisor(b, a % b) : a;
}

/* Slot number @i of a thread, in an order that jumps about and takes each one once. */
static struct slot *jump(uint64_t thread, uint64_t i, uint64_t *index)
{
	*index = i * stride % (model->slots / THREADS) * THREADS + thread;
	return &model->slot[*index];
}

/*
 * Write a slot without waiting until that is durable: settle() does. If the store is full, an object that is
 * there is freed instead. Returns 0 or an error.
 */
static int write_slot(struct slot *slot, uint64_t index, uint8_t *data, uint32_t length)
{
	int err;

	slot->next = slot->last;
	slot->next.sequence = model->sequence++;
	slot->next.what = WRITTEN;
	slot->next.length = length;
	slot->under_way = 1;
	err = operate(slot, index, data, 0);
	if (err == -ENOSPC && slot->last.what == WRITTEN) {
		slot->next.what = NOTHING;
		err = operate(slot, index, data, 0);
	}
	if (err)
		fprintf(stderr, "slot %" PRIu64 ": %s\n", index, strerror(-err));
	errors += err != 0;
	return err;
}

static void *filler(void *argument)
{
	uint64_t thread = (uintptr_t)argument, state = time(NULL) << 8 ^ thread, index;
	struct lsmem_stat stat;
	uint8_t *data = malloc(1 << 20);

	for (index = thread; index < model->slots && !stop; index += THREADS) {
		if (index / THREADS % 16 == 0 &&
		    (lsm_stat(lsm, &stat) || stat.live_bytes >= target))
			break;
		if (write_slot(&model->slot[index], index, data, random_length(random_next(&state))))
			break;
	}
	free(data);
	return NULL;
}

static void *overwriter(void *argument)
{
	uint64_t thread = (uintptr_t)argument, state = time(NULL) << 8 ^ thread, index, i;
	uint8_t *data = malloc(1 << 20);
	struct slot *slot;

	for (i = 0; i < model->slots / THREADS && !stop; i++) {
		slot = jump(thread, i, &index);
		if (slot->last.what == WRITTEN && random_below(&state, 100) < percent &&
		    write_slot(slot, index, data, random_length(random_next(&state))))
			break;
	}
	free(data);
	return NULL;
}

/* Make what filler() or overwriter() has written durable. */
static void settle(void)
{
	uint64_t index;
	int err;

	do {
		err = lsm_sync(lsm, 0);
	} while (err == -ETIMEDOUT);
	if (err) {
		fprintf(stderr, "sync: %s\n", strerror(-err));
		errors++;
	}
	for (index = 0; index < model->slots && !errors; index++) {
		struct slot *slot = &model->slot[index];

		if (!slot->under_way)
			continue;
		slot->last = slot->next;
		slot->under_way = 0;
		model->acknowledged++;
	}
}

static void *reader(void *argument)
{
	uint64_t thread = (uintptr_t)argument, state = time(NULL) << 8 ^ thread, index;
	uint8_t *data = malloc(1 << 20);
	struct lsm_object object;
	const struct state *last;
	ssize_t n;

	while (!stop) {
		index = random_below(&state, model->slots);
		last = &model->slot[index].last;
		if (last->what != WRITTEN || model->slot[index].under_way)
			continue;
		n = lsm_read(lsm, last->handle, data, 1 << 20, 0, &object);
		reads++;
		if (n == -ETIMEDOUT) {
			timeouts++;
		} else if (n != (ssize_t)last->length ||
			   !content_is(data, last->length, index, last->sequence)) {
			if (!errors++)
				fprintf(stderr, "slot %" PRIu64 ": read %zd of %u: %s\n", index, n,
					last->length, n < 0 ? strerror((int)-n) : "wrong");
		}
	}
	free(data);
	return NULL;
}

static void *verifier(void *argument)
{
	uint64_t thread = (uintptr_t)argument, state = time(NULL) << 8 ^ thread, i, turn;
	struct slot *slot;
	uint8_t *data;

	if (posix_memalign((void **)&data, BLOCK, 1 << 20))
		exit(1);
	for (turn = 0; turn < model->slots / THREADS; turn++) {
		slot = jump(thread, turn, &i);
		if (!slot->under_way && random_below(&state, every))
			continue;
		verified++;
		if (slot->under_way && holds(&slot->next, i, data)) {
			newer++;
			slot->last = slot->next;
		} else if (!holds(&slot->last, i, data)) {
			ssize_t n = -1;
			struct lsm_object object = { 0 };

			if (lsm && slot->last.handle)
				n = lsm_read(lsm, slot->last.handle, data, 1 << 20, 0, &object);
			if (wrong++ < 20)
				fprintf(stderr, "slot %" PRIu64 ": wanted %s sequence %" PRIu64 " length %u handle %" PRIx64 ", under way %u sequence %" PRIu64 "; read %zd, sequence %" PRIu64 " version %" PRIx64 "\n",
					i, slot->last.what ? "write" : "nothing",
					slot->last.sequence, slot->last.length, slot->last.handle,
					slot->under_way, slot->next.sequence, n,
					*(uint64_t *)data, object.version);
		}
		slot->under_way = 0;
		live += slot->last.what == WRITTEN;
	}
	free(data);
	return NULL;
}

static int run_threads(void *(*work)(void *), pthread_t threads[THREADS])
{
	uint64_t i;

	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i))
			return 1;
	return 0;
}

static int all_threads(void *(*work)(void *))
{
	pthread_t threads[THREADS];
	uint64_t i;

	if (run_threads(work, threads))
		return 1;
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static int verify(void)
{
	if (all_threads(verifier))
		return 1;
	printf("verified %" PRIu64 " of %" PRIu64 " slots, %" PRIu64 " live, %" PRIu64 " as under way, %" PRIu64 " acknowledged, %" PRIu64 " wrong\n",
	       (uint64_t)verified, model->slots, (uint64_t)live, (uint64_t)newer, (uint64_t)model->acknowledged,
	       (uint64_t)wrong);
	return wrong || !verified ? 1 : 0;
}

/* fill and overwrite. */
static int write_all(void *(*work)(void *))
{
	uint64_t before = model->acknowledged;
	struct lsmem_stat stat;

	if (lsm_stat(lsm, &stat))
		return 1;
	target = stat.capacity / 100 * percent;
	if (all_threads(work))
		return 1;
	settle();
	lsm_stat(lsm, &stat);
	printf("%" PRIu64 " written, %llu MiB live of %llu MiB, %" PRIu64 " errors\n",
	       model->acknowledged - before, (unsigned long long)stat.live_bytes >> 20,
	       (unsigned long long)stat.capacity >> 20, (uint64_t)errors);
	return errors ? 1 : 0;
}

static int trickle(uint64_t nr, uint64_t us)
{
	uint64_t before = model->acknowledged, index;
	struct timespec at;
	uint8_t data[TRICKLE];

	if (nr > model->slots) {
		fprintf(stderr, "%" PRIu64 " objects, and the model has %" PRIu64 " slots\n", nr, model->slots);
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &at);
	for (index = 0; index < nr; index++) {
		if (write_slot(&model->slot[index], index, data, TRICKLE))
			return 1;
		at.tv_nsec += (long)us * 1000;
		at.tv_sec += at.tv_nsec / 1000000000;
		at.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
	settle();
	printf("%" PRIu64 " written, %" PRIu64 " errors\n", model->acknowledged - before, (uint64_t)errors);
	return errors ? 1 : 0;
}

static void on_signal(int signal)
{
	(void)signal;
	stop = true;
}

static int open_store(const char *path)
{
	struct stat st;
	int err;

	if (stat(path, &st)) {
		perror(path);
		return 1;
	}
	if (!S_ISBLK(st.st_mode)) {
		err = lsm_open(path, 0, &lsm);
		if (err)
			fprintf(stderr, "%s: %s\n", path, strerror(-err));
		return err ? 1 : 0;
	}
	block_fd = open(path, O_RDWR | O_DIRECT);
	if (block_fd < 0) {
		perror(path);
		return 1;
	}
	blocks = (uint64_t)lseek(block_fd, 0, SEEK_END) / BLOCK;
	return blocks ? 0 : 1;
}

int main(int argc, char **argv)
{
	bool run = argc == 6 && !strcmp(argv[1], "run"), fill = argc == 6 && !strcmp(argv[1], "fill");
	bool over = argc == 5 && !strcmp(argv[1], "overwrite");
	bool look = argc == 5 && !strcmp(argv[1], "read"), drip = argc == 6 && !strcmp(argv[1], "trickle");
	pthread_t threads[THREADS];
	struct timespec end;
	sigset_t set;
	uint64_t slots, i, begun;
	size_t bytes;
	struct stat st;
	int fd, signal_number;

	if (!run && !fill && !over && !look && !drip && !((argc == 4 || argc == 5) && !strcmp(argv[1], "verify"))) {
		fprintf(stderr, "usage: load run MODEL STORE SECONDS SLOTS | verify MODEL STORE [EVERY] | fill MODEL STORE PERCENT SLOTS | overwrite MODEL STORE PERCENT | read MODEL STORE SECONDS | trickle MODEL STORE NR US\n");
		return 2;
	}
	if (open_store(argv[3]))
		return 1;
	fd = open(argv[2], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || fstat(fd, &st))
		return 1;
	slots = run || fill ? strtoull(argv[5], NULL, 10) / THREADS * THREADS : 0;
	if (block_fd >= 0 && slots > blocks)
		slots = blocks / THREADS * THREADS;
	bytes = st.st_size ? (size_t)st.st_size : sizeof(*model) + slots * sizeof(struct slot);
	if (!st.st_size && ftruncate(fd, (off_t)bytes))
		return 1;
	model = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (model == MAP_FAILED)
		return 1;
	if (!model->slots) {
		model->slots = slots;
		model->sequence = 1;
	}
	for (stride = model->slots / THREADS / 3 + 1; divisor(model->slots / THREADS, stride) != 1;)
		stride++;
	percent = fill || over ? (unsigned int)atoi(argv[4]) : 0;
	if (fill || over)
		return write_all(fill ? filler : overwriter);
	if (drip)
		return trickle(strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10));
	if (!run && !look) {
		every = argc == 5 ? strtoull(argv[4], NULL, 10) ?: 1 : 1;
		return verify();
	}
	signal(SIGTERM, on_signal);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	begun = model->acknowledged;
	if (run_threads(run ? worker : reader, threads))
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec = strtol(argv[4], NULL, 10);
	end.tv_nsec = 0;
	signal_number = sigtimedwait(&set, NULL, &end);
	(void)signal_number;
	stop = true;
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	if (look)
		printf("%" PRIu64 " reads, ", (uint64_t)reads);
	printf("%" PRIu64 " acknowledged, %" PRIu64 " full, %" PRIu64 " timed out, %" PRIu64 " errors\n",
	       model->acknowledged - begun, (uint64_t)full, (uint64_t)timeouts, (uint64_t)errors);
	return errors ? 1 : 0;
}
