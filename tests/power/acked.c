// SPDX-License-Identifier: GPL-2.0
/*
 * acked: are all acknowledged operations still there?
 *
 *	acked load   [--objects PATH] [--blocks PATH] [--pages PATH] [--server SOCKET] ...   until the power is cut
 *	acked verify [--objects PATH] [--blocks PATH] [--pages PATH] [--server SOCKET] ...   after recovery
 *
 * "load" writes to an object store, a block store, ranges of pages and a server from several threads, and records in
 * a journal outside the guest which operations were issued and acknowledged.  "verify" checks every slot
 * against the journal (oracle.h), and saves the state of all slots in --state.  The next "load"
 * starts from that file, and so does the next "verify", with the journals written since.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "../common/zipf.h"
#include "acked.h"

#define READERS		16u
#define RANGES_MOST	16u
#define SERVED_LEAST	64u	/* items of a server: a pipeline of each connection has different ones */

struct options {
	const char *objects;
	const char *blocks;
	const char *pages;
	const char *server;
	const char *journals;
	const char *state;
	const char *report;
	const char *ready;
	char *figures;
	uint64_t object_slots;
	uint64_t block_slots;
	uint64_t items;
	uint64_t server_items;
	uint32_t ranges;
	uint32_t range_pages;
	uint32_t most;
	unsigned int live;
	uint32_t shortest;
	uint32_t longest;
	uint32_t batch;
	unsigned int readers;
	unsigned int threads;
	unsigned int block_readers;
	bool zipf;
	bool fill;
};

struct figures figures;
static double deadline;		/* of --wait */

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

static void touch(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY, 0644);

	if (fd < 0) {
		perror(path);
		exit(1);
	}
	close(fd);
}

/* Writes a line with the time and the figures once a second. */
static void *write_figures(void *path)
{
	FILE *file = fopen(path, "w");
	struct timespec now;

	while (file) {
		clock_gettime(CLOCK_REALTIME, &now);
		fprintf(file, "{\"time\": %lld.%03ld, \"reads\": %llu, \"changes\": %llu, \"checked\": %llu}\n",
			(long long)now.tv_sec, now.tv_nsec / 1000000,
			(unsigned long long)figures.reads, (unsigned long long)figures.changes,
			(unsigned long long)figures.checked);
		if (fflush(file))
			break;
		sleep(1);
	}
	perror(path);
	exit(1);
}

/* ---- Loading ------------------------------------------------------------ */

static int device_open(const char *path, int flags)
{
	int fd;

	do {
		fd = open(path, flags | O_CLOEXEC);
	} while (fd < 0 && wait_store());
	if (fd < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

/* What has an oracle; the numbers of these in load() and verify() */
enum client { OBJECTS, BLOCKS, PAGES, RANGES, ITEMS, SERVED, CLIENTS };

/* The loading threads: @step writers share the slots of a store; readers read all. */
static const struct {
	void *(*run)(void *work);
	enum client client;
	bool reader;
	uint8_t first;
	uint8_t step;
} loaders[] = {
	{ load_objects, OBJECTS, false, 0, WRITERS },
	{ load_objects, OBJECTS, false, 1, WRITERS },
	{ load_blocks, BLOCKS, false, 0, 1 },
	{ load_blocks, PAGES, false, 0, 1 },
	{ load_range, RANGES, false, 0, 1 },	/* and one for each further range */
	{ load_items, ITEMS, false, 0, WRITERS },
	{ load_items, ITEMS, false, 1, WRITERS },
	{ load_served, SERVED, false, 0, 4 },
	{ load_served, SERVED, false, 1, 4 },
	{ load_served, SERVED, false, 2, 4 },
	{ load_served, SERVED, false, 3, 4 },
	{ load_readers, OBJECTS, true, 0, 2 },
	{ load_block_readers, BLOCKS, true, 0, 1 },
};

#define LOADERS	(sizeof(loaders) / sizeof(loaders[0]))

static unsigned int copies_of(const struct options *opt, size_t i)
{
	switch (loaders[i].client) {
	case OBJECTS:
		return !opt->objects ? 0 : loaders[i].reader ? opt->readers : 1;
	case BLOCKS:
		return !opt->blocks ? 0 : loaders[i].reader ? opt->block_readers : 1;
	case PAGES:
		return opt->pages ? 1 : 0;
	case ITEMS:
		return opt->items ? 1 : 0;
	case SERVED:
		return opt->server ? 1 : 0;
	default:
		return opt->ranges;
	}
}

/* Opens what a thread is for, unless the thread does. @copy: of that kind of threads. */
static int loader_open(const struct options *opt, enum client client, unsigned int copy,
		       struct oracle *ranges, _Atomic uint64_t *sequence)
{
	switch (client) {
	case OBJECTS:
	case ITEMS:
		return device_open(opt->objects, O_RDWR);
	case BLOCKS:
		return device_open(opt->blocks, O_RDWR | O_DIRECT);
	case PAGES:
		return range_open(ranges, opt->ranges, opt->pages, sequence);
	case SERVED:
		return -1;
	default:
		return range_open(ranges, copy, opt->pages, sequence);
	}
}

static int load(const struct options *opt, struct oracle **oracles)
{
	static struct work work[LOADERS + 2 * READERS + RANGES_MOST];
	static _Atomic uint64_t sequence;
	static atomic_int ready;
	const char *seed = getenv("LSMEM_SEED");
	unsigned int writers = 0, nr = 0, copy, copies;
	pthread_t thread;
	size_t i;

	oracle_load(oracles, CLIENTS, opt->state);
	for (i = 0; i < CLIENTS; i++)
		if (oracles[i]->sequence > sequence)
			sequence = oracles[i]->sequence;
	for (i = 0; i < LOADERS; i++) {
		copies = copies_of(opt, i);
		for (copy = 0; copy < copies; copy++, nr++) {
			work[nr] = (struct work){
				.thread = nr,
				.first = loaders[i].client == RANGES ? copy : loaders[i].first,
				.step = loaders[i].step,
				.path = loaders[i].client == SERVED ? opt->server : opt->objects,
				.fd = loader_open(opt, loaders[i].client, copy, oracles[RANGES],
						  &sequence),
				.oracle = oracles[loaders[i].client],
				.sequence = &sequence,
				.ready = &ready,
				.live = opt->live,
				.shortest = opt->shortest,
				.longest = opt->longest,
				.batch = opt->batch,
				.zipf = opt->zipf,
				.fill = opt->fill,
				.random = (seed ? strtoull(seed, NULL, 0) : 1) * 1000003 + nr,
			};
			if (pthread_create(&thread, NULL, loaders[i].run, &work[nr])) {
				perror("thread");
				return 1;
			}
			writers += !loaders[i].reader;
		}
	}
	while (atomic_load(&ready) < (int)writers)
		usleep(10000);
	if (opt->ready)
		touch(opt->ready);
	for (;;)
		pause();
}

/* ---- Verifying ---------------------------------------------------------- */

static int verify(const struct options *opt, struct oracle **oracles)
{
	struct verdict v = { 0 };
	uint64_t acknowledged = 0;
	FILE *report;
	size_t i;
	int fd;

	oracles[OBJECTS]->shows = true;
	oracles[ITEMS]->shows = true;
	oracle_load(oracles, CLIENTS, opt->state);
	if (oracle_read(oracles, CLIENTS, opt->journals))
		return 1;
	if (opt->ready)
		touch(opt->ready);
	if (opt->objects) {
		verify_objects(device_open(opt->objects, O_RDWR), oracles[OBJECTS], opt->threads, &v);
		v.corrupt += oracle_torn(oracles[OBJECTS], &v.groups);
	}
	if (opt->items)
		verify_items(opt->objects, oracles[ITEMS], &v);
	if (opt->blocks)
		verify_blocks(device_open(opt->blocks, O_RDONLY | O_DIRECT), oracles[BLOCKS], &v);
	if (opt->pages) {
		fd = verify_ranges(opt->pages, oracles[RANGES], &v);
		if (fd >= 0)
			verify_blocks(fd, oracles[PAGES], &v);
	}
	if (opt->server)
		verify_served(opt->server, oracles[SERVED], &v);
	oracle_save(oracles, CLIENTS, opt->state);
	for (i = 0; i < CLIENTS; i++)
		acknowledged += oracles[i]->acknowledged;
	report = opt->report ? fopen(opt->report, "w") : NULL;
	if (opt->report && !report) {
		perror(opt->report);
		return 1;
	}
	if (report) {
		fprintf(report,
			"{\"acked_writes\": %llu, \"checked\": %llu, \"lost\": %llu, \"corrupt\": %llu, \"resolved\": %llu, \"present\": %llu, \"groups\": %llu, \"checks\": %llu, \"item_groups\": %llu, \"item_checks\": %llu, \"item_asked\": %llu, \"in_msync\": %llu, \"before_msync\": %llu, \"kept\": %llu, \"first_read_at\": %.3f, \"all_read_at\": %.3f}\n",
			(unsigned long long)acknowledged,
			(unsigned long long)v.checked, (unsigned long long)v.lost,
			(unsigned long long)v.corrupt, (unsigned long long)v.resolved,
			(unsigned long long)v.present, (unsigned long long)v.groups,
			(unsigned long long)oracles[OBJECTS]->checks, (unsigned long long)v.item_groups,
			(unsigned long long)oracles[ITEMS]->checks, (unsigned long long)v.item_asked,
			(unsigned long long)v.in_msync, (unsigned long long)v.before_msync,
			(unsigned long long)v.kept, v.first_read, v.all_read);
		fclose(report);
	}
	printf("%llu acknowledged, %llu slots and %llu groups checked, %llu lost, %llu corrupt\n",
	       (unsigned long long)acknowledged,
	       (unsigned long long)v.checked, (unsigned long long)(v.groups + v.item_groups), (unsigned long long)v.lost,
	       (unsigned long long)v.corrupt);
	return v.lost || v.corrupt ? 3 : 0;
}

/* ---- Main --------------------------------------------------------------- */

static void usage(FILE *to)
{
	fputs("usage: acked load|verify [options]\n"
	      "  --objects PATH        device of an object store\n"
	      "  --object-slots N      objects it may hold\n"
	      "  --live PERMILLE       of its capacity to keep live (default 900)\n"
	      "  --lengths MIN-MAX     bytes of an object (default 32-4096)\n"
	      "  --batch N             operations in a vector (default 64)\n"
	      "  --zipf                load: use some objects more often, by Zipf's law\n"
	      "  --readers N           load: threads that read objects (default 1)\n"
	      "  --threads N           verify: threads that read objects (default 1)\n"
	      "  --wait SECONDS        wait until store and server can be used (default 0)\n"
	      "  --figures FILE        a line of JSON each second: the counts until then\n"
	      "  --items N             keys in tables of the object store, objects and roots (default 0)\n"
	      "  --blocks PATH         device of a block store\n"
	      "  --block-slots N       its first N blocks are used\n"
	      "  --block-readers N     load: threads that read blocks (default 0)\n"
	      "  --fill                load: first write all blocks once\n"
	      "  --pages PATH          device of an object store, for ranges of pages\n"
	      "  --ranges N            atomic ranges (default 2), and one that is not\n"
	      "  --range-pages N       pages of each (default 1024)\n"
	      "  --most N              pages that a transaction changes (default 2048)\n"
	      "  --server SOCKET       of a server for clients of memcached\n"
	      "  --server-items N      its items (default 4096)\n"
	      "  --journals DIR        verify: journals of all boots, or of those since --state\n"
	      "  --state FILE          verify leaves it, both go on from it\n"
	      "  --report FILE         verify: figures, as JSON\n"
	      "  --ready FILE          made when all threads load in earnest; verify: when the\n"
	      "                        journals have been read\n"
	      "The journal goes to $LSMEM_JOURNAL; random numbers come from $LSMEM_SEED.\n"
	      "Exit: 0, 1 error, 2 usage or a journal that makes no sense, 3 lost or corrupt\n", to);
}

static bool parse(int argc, char **argv, struct options *opt)
{
	static const struct option options[] = {
		{ "objects", required_argument, NULL, 'o' },
		{ "object-slots", required_argument, NULL, 'O' },
		{ "live", required_argument, NULL, 'l' },
		{ "items", required_argument, NULL, 'i' },
		{ "blocks", required_argument, NULL, 'b' },
		{ "block-slots", required_argument, NULL, 'B' },
		{ "block-readers", required_argument, NULL, 'D' },
		{ "fill", no_argument, NULL, 'F' },
		{ "pages", required_argument, NULL, 'p' },
		{ "ranges", required_argument, NULL, 'P' },
		{ "range-pages", required_argument, NULL, 'g' },
		{ "most", required_argument, NULL, 'm' },
		{ "server", required_argument, NULL, 'S' },
		{ "server-items", required_argument, NULL, 'N' },
		{ "journals", required_argument, NULL, 'j' },
		{ "state", required_argument, NULL, 's' },
		{ "report", required_argument, NULL, 'r' },
		{ "ready", required_argument, NULL, 'R' },
		{ "lengths", required_argument, NULL, 'L' },
		{ "batch", required_argument, NULL, 'n' },
		{ "zipf", no_argument, NULL, 'z' },
		{ "readers", required_argument, NULL, 'd' },
		{ "threads", required_argument, NULL, 't' },
		{ "wait", required_argument, NULL, 'w' },
		{ "figures", required_argument, NULL, 'f' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'o':
			opt->objects = optarg;
			break;
		case 'O':
			opt->object_slots = strtoull(optarg, NULL, 0);
			break;
		case 'l':
			opt->live = strtoul(optarg, NULL, 0);
			break;
		case 'i':
			opt->items = strtoull(optarg, NULL, 0);
			break;
		case 'b':
			opt->blocks = optarg;
			break;
		case 'B':
			opt->block_slots = strtoull(optarg, NULL, 0);
			break;
		case 'D':
			opt->block_readers = strtoul(optarg, NULL, 0);
			break;
		case 'F':
			opt->fill = true;
			break;
		case 'p':
			opt->pages = optarg;
			break;
		case 'P':
			opt->ranges = strtoul(optarg, NULL, 0);
			break;
		case 'g':
			opt->range_pages = strtoul(optarg, NULL, 0);
			break;
		case 'm':
			opt->most = strtoul(optarg, NULL, 0);
			break;
		case 'S':
			opt->server = optarg;
			break;
		case 'N':
			opt->server_items = strtoull(optarg, NULL, 0);
			break;
		case 'j':
			opt->journals = optarg;
			break;
		case 's':
			opt->state = optarg;
			break;
		case 'r':
			opt->report = optarg;
			break;
		case 'R':
			opt->ready = optarg;
			break;
		case 'L':
			if (sscanf(optarg, "%u-%u", &opt->shortest, &opt->longest) != 2)
				return false;
			break;
		case 'n':
			opt->batch = strtoul(optarg, NULL, 0);
			break;
		case 'z':
			opt->zipf = true;
			break;
		case 'd':
			opt->readers = strtoul(optarg, NULL, 0);
			break;
		case 't':
			opt->threads = strtoul(optarg, NULL, 0);
			break;
		case 'w':
			deadline = seconds_now() + strtod(optarg, NULL);
			break;
		case 'f':
			opt->figures = optarg;
			break;
		default:
			return false;
		}
	}
	return argc - optind == 1 && opt->state && opt->live <= 1000 &&
	       opt->shortest >= OBJECT_LENGTH_MIN && opt->shortest <= opt->longest &&
	       opt->longest <= OBJECT_LENGTH_MAX && opt->batch && opt->batch <= BATCH &&
	       opt->readers <= READERS && opt->block_readers <= READERS && opt->threads &&
	       opt->threads <= VERIFIERS && opt->ranges && opt->ranges <= RANGES_MOST &&
	       opt->range_pages && opt->most && opt->server_items >= SERVED_LEAST &&
	       (!opt->items || opt->items >= ITEMS_LEAST);
}

int main(int argc, char **argv)
{
	struct options opt = { .live = 900, .object_slots = 65536, .block_slots = 4096,
			       .shortest = 32, .longest = 4096, .batch = BATCH, .readers = 1,
			       .threads = 1, .ranges = 2, .range_pages = 1024, .most = 2048,
			       .server_items = 4096 };
	struct oracle all[CLIENTS], *oracles[] = { &all[OBJECTS], &all[BLOCKS], &all[PAGES],
						   &all[RANGES], &all[ITEMS], &all[SERVED] };
	bool loads, verifies;
	pthread_t thread;

	if (!parse(argc, argv, &opt)) {
		usage(stderr);
		return 2;
	}
	loads = !strcmp(argv[optind], "load");
	verifies = !strcmp(argv[optind], "verify") && opt.journals;
	if (!loads && !verifies) {
		usage(stderr);
		return 2;
	}
	if (!opt.pages)
		opt.ranges = 0;
	if (!opt.objects)
		opt.items = 0;
	if (oracle_init(&all[OBJECTS], 'o', opt.object_slots) ||
	    oracle_init(&all[BLOCKS], 'b', opt.block_slots) ||
	    oracle_init(&all[PAGES], 'p', opt.pages ? opt.range_pages : 0) ||
	    oracle_init(&all[ITEMS], 'i', opt.items) ||
	    oracle_init(&all[SERVED], 'm', opt.server ? opt.server_items : 0) ||
	    ranges_init(&all[RANGES], opt.ranges, opt.range_pages, opt.most) || journal_open())
		return 1;
	if (opt.zipf)
		zipf_setup(opt.object_slots / WRITERS);
	if (opt.figures && pthread_create(&thread, NULL, write_figures, opt.figures)) {
		perror("thread");
		return 1;
	}
	return loads ? load(&opt, oracles) : verify(&opt, oracles);
}
