// SPDX-License-Identifier: GPL-2.0
/*
 * Transactions on an atomic range of pages, and a check of the range against them.
 *
 *	pages run MODEL STORE SECONDS	transactions until the time is over or a signal comes
 *	pages verify MODEL STORE	the range is as the last transaction has left it
 *	pages remove MODEL STORE	remove the range
 *
 * A transaction changes some pages of the range and ends with msync().  What it changes follows from the
 * seed and its number alone.  MODEL is a file that survives a SIGKILL of this program, but not a crash
 * of the machine: it has the root of the range, the seed, the last transaction that was acknowledged and
 * the last that was begun.  After a crash the range must be as one of these has left it, whole: prints
 * "torn" and where, or "lost", otherwise.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <lsmem.h>

#include "../common/transaction.h"

#define PAGE	TRANSACTION_PAGE
#define PAGES	4096u		/* of the range */
#define MOST	2000u		/* pages that a transaction changes */
#define MAGIC	0x6c736d656d706167ull

struct model {
	uint64_t magic;
	uint64_t seed;
	uint64_t root;
	uint64_t begun;
	uint64_t acknowledged;
};

static _Atomic bool stop;

static void on_signal(int number)
{
	(void)number;
	stop = true;
}

static struct transactions transactions_of(const struct model *model)
{
	return (struct transactions){ .seed = model->seed, .pages = PAGES, .most = MOST };
}

static int open_range(struct lsm *lsm, struct model *model, char **range)
{
	const uint64_t length = (uint64_t)PAGES * PAGE;
	uint64_t root = model->root;
	int fd;

	fd = root ? lsm_pages_open(lsm, root, 0) :
	     lsm_pages_create(lsm, length, 0, LSM_PAGES_ATOMIC, &root);
	if (fd < 0)
		return fd;
	if (!model->root && fsync(fd))
		return -errno;
	model->root = root;
	*range = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return *range == MAP_FAILED ? -errno : 0;
}

static int run(struct model *model, char *range, unsigned int seconds)
{
	const struct transactions all = transactions_of(model);
	time_t end = time(NULL) + seconds;

	while (!stop && time(NULL) < end) {
		uint64_t number = model->acknowledged + 1;

		/* One that was begun before a crash, and is there, is done again: the same comes of it. */
		__atomic_store_n(&model->begun, number, __ATOMIC_SEQ_CST);
		transaction_store(&all, number, range);
		if (msync(range, (uint64_t)PAGES * PAGE, MS_SYNC)) {
			fprintf(stderr, "transaction %" PRIu64 ": msync: %s\n", number,
				strerror(errno));
			return 1;
		}
		__atomic_store_n(&model->acknowledged, number, __ATOMIC_SEQ_CST);
	}
	printf("%" PRIu64 " transactions\n", model->acknowledged);
	return 0;
}

static int verify(struct model *model, const char *range)
{
	const struct transactions all = transactions_of(model);
	uint64_t *copy = calloc(PAGES, sizeof(*copy)), number;
	uint32_t old, new, where = 0, there = 0;

	if (!copy)
		return 2;
	for (number = 1; number <= model->acknowledged; number++)
		transaction_note(&all, number, copy);
	old = transaction_differ(&all, range, copy, &where);
	if (old && model->begun > model->acknowledged) {
		transaction_note(&all, model->begun, copy);
		new = transaction_differ(&all, range, copy, &there);
		if (!new)
			model->acknowledged = model->begun;
		else
			printf("torn: %u pages are not as after transaction %" PRIu64
			       " (the first is %u), and %u not as after %" PRIu64 " (%u)\n",
			       old, model->acknowledged, where, new, model->begun, there);
		old = new;
	} else if (old) {
		printf("lost: %u pages are not as after transaction %" PRIu64 ", the first is %u\n",
		       old, model->acknowledged, where);
	}
	free(copy);
	if (!old)
		printf("%" PRIu64 " transactions, %s\n", model->acknowledged,
		       model->begun > model->acknowledged ? "and one that was not" : "the last begun");
	return !!old;
}

int main(int argc, char **argv)
{
	bool runs = argc == 5 && !strcmp(argv[1], "run");
	bool removes = argc == 4 && !strcmp(argv[1], "remove");
	struct sigaction action = { .sa_handler = on_signal };
	struct model *model;
	struct lsm *lsm;
	char *range;
	int fd, ret;

	if (!runs && !removes && (argc != 4 || strcmp(argv[1], "verify"))) {
		fprintf(stderr, "usage: pages run MODEL STORE SECONDS | pages verify|remove MODEL STORE\n");
		return 2;
	}
	sigaction(SIGTERM, &action, NULL);
	fd = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, PAGE))
		goto error;
	model = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (model == MAP_FAILED)
		goto error;
	if (model->magic != MAGIC) {
		if (getrandom(&model->seed, sizeof(model->seed), 0) != sizeof(model->seed))
			goto error;
		model->magic = MAGIC;
	}
	ret = lsm_open(argv[3], 0, &lsm);
	if (!ret && removes)
		ret = lsm_pages_remove(lsm, model->root);
	else if (!ret)
		ret = open_range(lsm, model, &range);
	if (ret) {
		fprintf(stderr, "%s: the range: %s\n", argv[3], strerror(-ret));
		return 2;
	}
	if (removes)
		return 0;
	return runs ? run(model, range, (unsigned int)atoi(argv[4])) : verify(model, range);
error:
	fprintf(stderr, "%s, %s: %s\n", argv[2], argv[3], strerror(errno));
	return 2;
}
