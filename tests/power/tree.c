// SPDX-License-Identifier: GPL-2.0
/*
 * tree: a B+tree in an atomic range of pages; each commit is an msync().
 *
 *	tree load   --store PATH --pages N --keys N ...	until the power is cut
 *	tree verify --store PATH --pages N --keys N ...	after recovery
 *
 * The first "load" fills the tree with the even keys 2 .. 2 * --keys, in order; leaves are two thirds full
 * then, as after insertions at random.  Then, and in each later "load", commits replace values, some more
 * often than others, by Zipf's law, and insert and remove keys, while other threads look keys up.  A
 * journal outside the guest records each commit that was issued and acknowledged (oracle.h, kind 't').
 * What a commit changes follows from its number and the random bits in its record.
 *
 * "verify" reads the whole tree: it must show the last acknowledged commit or the one that was issued after
 * it, with each key of the tree after this commit, its value of that time, and no other key.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <lsmem.h>

#include "../common/zipf.h"
#include "acked.h"
#include "commits.h"

#define READERS		2u

struct options {
	const char *store;
	const char *journals;
	const char *state;
	const char *report;
	const char *ready;
	const char *figures;
	uint32_t pages;
	uint32_t keys;
	uint32_t most;
	double hot;
	double halt;
	double wait;
};

/* What the threads share. @lock: of the tree, for changes and look-ups. */
static struct {
	struct btree tree;
	struct oracle oracle;
	pthread_rwlock_t lock;
	uint64_t *marked;	/* bits: pages that the commit under way has changed */
	uint32_t nr_marked;
	uint32_t limit;
	_Atomic uint64_t commits, reads, changes, checked, page_bytes;
	const char *path;
	int store;
} all;

static double deadline;

double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

bool wait_store(void)
{
	usleep(1000);
	return seconds_now() < deadline;
}

static void die(const char *what)
{
	fprintf(stderr, "tree: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void touch(const char *path)
{
	int fd = path ? open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644) : -1;

	if (path && fd < 0)
		die(path);
	if (path)
		close(fd);
}

/* ---- The range ----------------------------------------------------------- */

static void mark(void *context, uint32_t page)
{
	uint64_t bit = 1ull << page % 64;

	(void)context;
	if (all.marked[page / 64] & bit)
		return;
	all.marked[page / 64] |= bit;
	all.nr_marked++;
}

static void note(struct record *r, uint8_t what)
{
	r->what = what;
	record_seal(r);
	journal_write(r, 1);
	oracle_take(&all.oracle, r);
}

static void record_begin(struct record *r, uint8_t op)
{
	record_fill(r, 't', ISSUED, op, 0);
	r->sequence = all.oracle.sequence + 1;
	r->handle = all.oracle.slots[0].base.handle;
}

/* Map the tree.  Returns false if it is not there. */
static bool tree_open(const struct options *opt, bool create)
{
	uint64_t length = (uint64_t)opt->pages * BTREE_PAGE, root;
	struct state now = slot_now(&all.oracle.slots[0]);
	struct lsm *lsm;
	struct record r;
	int ret, fd;

	do {
		ret = lsm_open(opt->store, 0, &lsm);
	} while (ret && wait_store());
	errno = -ret;
	if (ret)
		die(opt->store);
	root = now.handle;
	do {
		fd = root ? lsm_pages_open(lsm, root, 0) : -ENOENT;
	} while (root && fd == -EAGAIN && wait_store());
	if (fd == -ENOENT && create) {
		record_begin(&r, OP_ALLOC);
		note(&r, ISSUED);
		fd = lsm_pages_create(lsm, length, 0, LSM_PAGES_ATOMIC, &r.handle);
		if (fd >= 0 && fsync(fd))
			die("fsync");
		if (fd >= 0)
			note(&r, DURABLE);
	}
	if (fd < 0 && !create && (fd == -ENOENT || fd == -ESTALE))
		return false;
	errno = -fd;
	if (fd < 0)
		die("the range");
	all.path = opt->store;
	all.store = open(opt->store, O_RDWR | O_CLOEXEC);
	all.tree = (struct btree){ .pages = opt->pages, .mark = mark };
	all.tree.at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	all.marked = calloc(opt->pages / 64 + 1, sizeof(*all.marked));
	if (all.store < 0 || all.tree.at == MAP_FAILED || !all.marked)
		die("the mapping");
	return true;
}

/* ---- Figures ------------------------------------------------------------- */

/* Bytes that cleaning has moved and written again. */
static unsigned long long relocated_bytes(const char *store)
{
	const char *name = strrchr(store, '/');
	unsigned long long bytes = 0;
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/lsmem/%s/cleaner/relocated_bytes", name ? name + 1 : store);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%llu", &bytes) != 1)
		die(path);
	fclose(file);
	return bytes;
}

/* A line with the time and all figures, at most once a second, or if @now. */
static void write_figures(FILE *file, bool filled, bool now)
{
	static double last;
	struct lsmem_stat stat = { .size = sizeof(stat) };
	struct rusage usage;
	struct timespec time;

	if (!file || (!now && seconds_now() < last + 1))
		return;
	last = seconds_now();
	if (ioctl(all.store, LSMEM_IOC_STAT, &stat) || getrusage(RUSAGE_SELF, &usage))
		die("figures");
	clock_gettime(CLOCK_REALTIME, &time);
	fprintf(file, "{\"time\": %lld.%03ld, \"filled\": %s, \"commits\": %llu, \"reads\": %llu, \"changes\": %llu, \"checked\": %llu, \"faults\": %ld, \"minor_faults\": %ld, \"appended_bytes\": %llu, \"relocated_bytes\": %llu, \"page_granular_bytes\": %llu, \"pages\": %u}\n",
		(long long)time.tv_sec, time.tv_nsec / 1000000, filled ? "true" : "false",
		(unsigned long long)all.commits, (unsigned long long)all.reads,
		(unsigned long long)all.changes, (unsigned long long)all.checked,
		usage.ru_majflt, usage.ru_minflt, (unsigned long long)stat.appended_bytes,
		relocated_bytes(all.path), (unsigned long long)all.page_bytes,
		btree_head(&all.tree)->used);
	if (fflush(file))
		die("figures");
}

static FILE *figures_open(const char *path)
{
	FILE *file = path ? fopen(path, "w") : NULL;

	if (path && !file)
		die(path);
	return file;
}

/* ---- Loading ------------------------------------------------------------- */

/*
 * A commit: all its changes, then msync() until they are durable.  @bits: 0: fill.  @half: only two of
 * its changes, and no msync(); look-ups wait.
 */
static void commit(uint32_t bits, bool half)
{
	uint32_t changes = half ? 2 : UINT32_MAX;
	struct record r;

	record_begin(&r, OP_REPLACE);
	r.length = bits;
	note(&r, ISSUED);
	pthread_rwlock_wrlock(&all.lock);
	if (commit_store(&all.tree, &all.oracle, r.sequence, bits, &changes)) {
		errno = ENOSPC;
		die("the tree");
	}
	atomic_fetch_add(&all.changes, changes);
	if (all.nr_marked > all.limit) {
		fprintf(stderr, "tree: a commit of %u pages\n", all.nr_marked);
		exit(1);
	}
	if (half)
		return;
	pthread_rwlock_unlock(&all.lock);
	atomic_fetch_add(&all.page_bytes, (uint64_t)all.nr_marked * BTREE_PAGE);
	memset(all.marked, 0, (all.tree.pages / 64 + 1) * sizeof(*all.marked));
	all.nr_marked = 0;
	note(&r, DONE);
	if (msync_durable(all.tree.at, (uint64_t)all.tree.pages * BTREE_PAGE))
		die("msync");
	note(&r, DURABLE);
	atomic_fetch_add(&all.commits, 1);
}

/* Look keys up: each value must be that of a commit, if the key is there. */
static void *look_up(void *arg)
{
	const struct commits *commits = all.oracle.model;
	uint64_t random = (uintptr_t)arg, serial;

	for (;;) {
		uint32_t key = random_chance(&random, 50) ?
			       commit_key(&random, commits->keys) : random_below(&random, commits->keys);
		const void *value;
		bool right;

		pthread_rwlock_rdlock(&all.lock);
		key = 2 * (key + 1);
		value = btree_find(&all.tree, key);
		right = !value || content_right(value, BTREE_VALUE, key, &serial);
		pthread_rwlock_unlock(&all.lock);
		if (!right) {
			fprintf(stderr, "tree: key %u has a value that was not written\n", key);
			exit(1);
		}
		atomic_fetch_add(&all.reads, 1);
	}
	return NULL;
}

static int load(const struct options *opt)
{
	struct oracle *oracles[] = { &all.oracle };
	const struct commits *commits = all.oracle.model;
	const char *seed = getenv("LSMEM_SEED");
	uint64_t random = seed ? strtoull(seed, NULL, 0) : 1;
	FILE *figures = figures_open(opt->figures);
	pthread_rwlockattr_t kind;
	pthread_t thread;
	unsigned int i;
	double begin;

	oracle_load(oracles, 1, opt->state);
	tree_open(opt, true);
	write_figures(figures, commits->filled == commits->keys, true);
	/* Else look-ups, of which one is always under way, would keep commits out. */
	pthread_rwlockattr_init(&kind);
	pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	if (pthread_rwlock_init(&all.lock, &kind))
		die("lock");
	while (commits->filled < commits->keys) {
		commit(0, false);
		write_figures(figures, false, false);
	}
	for (i = 0; i < READERS; i++)
		if (pthread_create(&thread, NULL, look_up, (void *)(random + i + 1)))
			die("thread");
	write_figures(figures, true, true);
	touch(opt->ready);
	begin = seconds_now();
	while (!opt->halt || seconds_now() < begin + opt->halt) {
		uint32_t bits = random_next(&random) | 1;
		bool hot = opt->hot && seconds_now() >= begin + opt->hot;

		commit(hot ? bits | COMMIT_HOT : bits & ~COMMIT_HOT, false);
		write_figures(figures, true, false);
	}
	/* Between two commits, with changes of the second in memory */
	commit(random_next(&random) >> 32 | 1, true);
	write_figures(figures, true, true);
	for (;;)
		pause();
	return 0;
}

/* ---- Verification -------------------------------------------------------- */

/* A key was compared. */
static void checked(void *figures)
{
	if (atomic_fetch_add(&all.checked, 1) % 1024 == 0)
		write_figures(figures, true, false);
}

static int verify(const struct options *opt)
{
	struct oracle *oracles[] = { &all.oracle }, *o = &all.oracle;
	struct slot *slot = &o->slots[0];
	struct state found = { .op = OP_FREE };
	const struct state *last;
	struct verdict v = { 0 };
	FILE *figures, *report;
	uint64_t torn = 0, commits;
	bool there;

	if (oracle_read(oracles, 1, opt->journals))
		return 1;
	touch(opt->ready);
	deadline = seconds_now() + opt->wait;
	there = tree_open(opt, false);
	if (there) {
		figures = figures_open(opt->figures);
		__atomic_load_n((uint64_t *)all.tree.at, __ATOMIC_RELAXED);
		v.first_read = seconds_now();
		torn = commits_look(&all.tree, o, &found, checked, figures);
		write_figures(figures, true, true);
	}
	v.all_read = seconds_now();
	last = slot->nr_pending ? &slot->pending[slot->nr_pending - 1] : NULL;
	v.in_msync = last && last->done;
	v.before_msync = last && !last->done;
	v.kept = v.in_msync && found.sequence == last->sequence;
	/* Of a commit that is missing no key can be right. */
	verify_slot(o, 0, &found, false, &v);
	oracle_save(oracles, 1, opt->state);
	commits = o->acknowledged ? o->acknowledged - 1 : 0;	/* the range was made */
	report = fopen(opt->report, "w");
	if (!report)
		die(opt->report);
	fprintf(report, "{\"commits\": %llu, \"checked\": %llu, \"lost\": %llu, \"torn\": %llu, \"in_msync\": %llu, \"before_msync\": %llu, \"kept\": %llu, \"first_read_at\": %.3f, \"all_read_at\": %.3f}\n", (unsigned long long)commits,
		(unsigned long long)all.checked, (unsigned long long)v.lost,
		(unsigned long long)(v.lost ? 0 : torn), (unsigned long long)v.in_msync,
		(unsigned long long)v.before_msync, (unsigned long long)v.kept, v.first_read, v.all_read);
	if (fclose(report))
		die(opt->report);
	return v.lost || torn ? 3 : 0;
}

/* ---- Main ---------------------------------------------------------------- */

static void usage(FILE *to)
{
	fputs("usage: tree load|verify --store PATH --pages N --keys N --state FILE [options]\n"
	      "  --store PATH      device of an object store\n"
	      "  --pages N         pages of the range\n"
	      "  --keys N          keys that are filled in\n"
	      "  --most N          pages of a commit (default 256)\n"
	      "  --hot SECONDS     load: then only change keys whose pages are in memory\n"
	      "  --halt SECONDS    load: then begin a commit without an msync(), and wait for the cut\n"
	      "  --wait SECONDS    wait until the store can be opened and read (default 0)\n"
	      "  --figures FILE    a line of JSON each second: the counts until then\n"
	      "  --journals DIR    verify: journals of all boots\n"
	      "  --state FILE      verify leaves it, load goes on from it\n"
	      "  --report FILE     verify: figures, as JSON\n"
	      "  --ready FILE      made when the tree is filled; verify: when the journals have been read\n"
	      "The journal goes to $LSMEM_JOURNAL; random numbers come from $LSMEM_SEED.\n"
	      "Exit: 0, 1 error, 2 usage or a journal that makes no sense, 3 lost or torn\n", to);
}

static bool parse(int argc, char **argv, struct options *opt)
{
	static const struct option options[] = {
		{ "store", required_argument, NULL, 's' },
		{ "pages", required_argument, NULL, 'p' },
		{ "keys", required_argument, NULL, 'k' },
		{ "most", required_argument, NULL, 'm' },
		{ "hot", required_argument, NULL, 'H' },
		{ "halt", required_argument, NULL, 'h' },
		{ "wait", required_argument, NULL, 'w' },
		{ "figures", required_argument, NULL, 'f' },
		{ "journals", required_argument, NULL, 'j' },
		{ "state", required_argument, NULL, 'S' },
		{ "report", required_argument, NULL, 'r' },
		{ "ready", required_argument, NULL, 'R' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			opt->store = optarg;
			break;
		case 'p':
			opt->pages = strtoul(optarg, NULL, 0);
			break;
		case 'k':
			opt->keys = strtoul(optarg, NULL, 0);
			break;
		case 'm':
			opt->most = strtoul(optarg, NULL, 0);
			break;
		case 'H':
			opt->hot = strtod(optarg, NULL);
			break;
		case 'h':
			opt->halt = strtod(optarg, NULL);
			break;
		case 'w':
			opt->wait = strtod(optarg, NULL);
			break;
		case 'f':
			opt->figures = optarg;
			break;
		case 'j':
			opt->journals = optarg;
			break;
		case 'S':
			opt->state = optarg;
			break;
		case 'r':
			opt->report = optarg;
			break;
		case 'R':
			opt->ready = optarg;
			break;
		default:
			return false;
		}
	}
	return argc - optind == 1 && opt->store && opt->pages && opt->keys && opt->most >= 16 && opt->state;
}

int main(int argc, char **argv)
{
	struct options opt = { .most = 256 };
	bool loads, verifies;

	if (!parse(argc, argv, &opt)) {
		usage(stderr);
		return 2;
	}
	loads = !strcmp(argv[optind], "load");
	verifies = !strcmp(argv[optind], "verify") && opt.journals && opt.report;
	if (!loads && !verifies) {
		usage(stderr);
		return 2;
	}
	all.limit = opt.most;
	zipf_setup(opt.keys);
	if (commits_init(&all.oracle, opt.keys, opt.most) || journal_open())
		return 1;
	return loads ? load(&opt) : verify(&opt);
}
