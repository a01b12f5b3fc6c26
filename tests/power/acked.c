// SPDX-License-Identifier: GPL-2.0
/*
 * acked: are all acknowledged operations still there?
 *
 *	acked load   [--objects PATH] [--blocks PATH] ...	until the power is cut
 *	acked verify [--objects PATH] [--blocks PATH] ...	after recovery
 *
 * "load" writes to an object store and a block store from several threads, and records in a journal
 * outside the guest which operations were issued and acknowledged.  "verify" checks every slot
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

#define COMPLAINTS	20u	/* most errors that are printed; all are counted */
#define READERS		16u

struct options {
	const char *objects;
	const char *blocks;
	const char *journals;
	const char *state;
	const char *report;
	const char *ready;
	char *figures;
	uint64_t object_slots;
	uint64_t block_slots;
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

static bool state_equal(const struct state *want, const struct state *found)
{
	bool there = want->op == OP_ALLOC || want->op == OP_REPLACE;

	if (!there || found->op == OP_FREE)
		return !there && found->op == OP_FREE;
	return want->sequence == found->sequence && want->length == found->length;
}

void verify_slot(struct oracle *o, uint64_t number, const struct state *found, bool corrupt,
		 struct verdict *v)
{
	struct slot *slot = &o->slots[number];
	bool right = state_equal(&slot->base, found);
	struct record r;
	uint32_t i;

	v->checked++;
	if (found->op != OP_FREE) {
		v->present++;
		v->bytes += found->length;
	}
	for (i = 0; i < slot->nr_pending; i++) {
		const struct state *s = &slot->pending[i];

		/* The handle of an allocation may be unknown: the object cannot be found then. */
		if (!s->refused && (state_equal(s, found) ||
				    (s->op == OP_ALLOC && !s->handle && found->op == OP_FREE)))
			right = true;
	}
	if (corrupt || !right) {
		if (v->lost + v->corrupt < COMPLAINTS)
			fprintf(stderr,
				"%s %llu: %s: found %s sequence %llu, acknowledged %s sequence %llu and %u later\n",
				o->kind == 'o' ? "object" : "block", (unsigned long long)number,
				corrupt ? "corrupt" : "lost",
				found->op == OP_FREE ? "nothing," : "contents",
				(unsigned long long)found->sequence,
				slot->base.op == OP_ALLOC || slot->base.op == OP_REPLACE ?
				"contents" : "nothing,",
				(unsigned long long)slot->base.sequence, slot->nr_pending);
		if (corrupt)
			v->corrupt++;
		else
			v->lost++;
		return;
	}
	if (!slot->nr_pending)
		return;
	v->resolved++;
	record_fill(&r, o->kind, RESOLVED, found->op, slot->thread);
	r.slot = number;
	r.sequence = found->sequence;
	r.handle = found->handle;
	r.length = found->length;
	record_seal(&r);
	journal_write(&r, 1);
	oracle_take(o, &r);
}

/* ---- The state file ------------------------------------------------------ */

static void state_save(const char *path, struct oracle **oracles, size_t nr)
{
	FILE *file = fopen(path, "wb");
	uint64_t i;
	size_t k;

	for (k = 0; file && k < nr; k++) {
		fwrite(&oracles[k]->sequence, sizeof(uint64_t), 1, file);
		for (i = 0; i < oracles[k]->nr_slots; i++)
			fwrite(&oracles[k]->slots[i].base, sizeof(struct state), 1, file);
	}
	if (!file || fclose(file)) {
		perror(path);
		exit(1);
	}
}

static void state_load(const char *path, struct oracle **oracles, size_t nr)
{
	FILE *file = fopen(path, "rb");
	bool whole = true;
	uint64_t i;
	size_t k;

	if (!file)
		return;	/* there was no verification yet */
	for (k = 0; k < nr; k++) {
		whole &= fread(&oracles[k]->sequence, sizeof(uint64_t), 1, file) == 1;
		for (i = 0; i < oracles[k]->nr_slots; i++)
			whole &= fread(&oracles[k]->slots[i].base, sizeof(struct state), 1,
				       file) == 1;
	}
	fclose(file);
	if (!whole) {
		fprintf(stderr, "%s: cut short\n", path);
		exit(1);
	}
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

/* The loading threads: @step writers share the slots of a store; readers read all. */
static const struct {
	void *(*run)(void *work);
	bool object;
	bool reader;
	uint8_t first;
	uint8_t step;
} loaders[] = {
	{ load_objects, true, false, 0, WRITERS },
	{ load_objects, true, false, 1, WRITERS },
	{ load_blocks, false, false, 0, 1 },
	{ load_readers, true, true, 0, 2 },
	{ load_block_readers, false, true, 0, 1 },
};

#define LOADERS	(sizeof(loaders) / sizeof(loaders[0]))

static int load(const struct options *opt, struct oracle **oracles)
{
	static struct work work[LOADERS + 2 * READERS];
	static _Atomic uint64_t sequence;
	static atomic_int ready;
	const char *seed = getenv("LSMEM_SEED");
	unsigned int writers = 0, nr = 0, copies;
	pthread_t thread;
	size_t i;

	state_load(opt->state, oracles, 2);
	sequence = oracles[0]->sequence > oracles[1]->sequence ?
		   oracles[0]->sequence : oracles[1]->sequence;
	for (i = 0; i < LOADERS; i++) {
		const char *path = loaders[i].object ? opt->objects : opt->blocks;

		copies = !path ? 0 : !loaders[i].reader ? 1 :
			 loaders[i].object ? opt->readers : opt->block_readers;
		for (; copies; copies--, nr++) {
			work[nr] = (struct work){
				.thread = nr,
				.first = loaders[i].first,
				.step = loaders[i].step,
				.path = path,
				.fd = device_open(path, loaders[i].object ? O_RDWR :
						  O_RDWR | O_DIRECT),
				.oracle = oracles[!loaders[i].object],
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
	FILE *report;

	state_load(opt->state, oracles, 2);
	if (oracle_read(oracles, 2, opt->journals))
		return 1;
	if (opt->ready)
		touch(opt->ready);
	if (opt->objects)
		verify_objects(device_open(opt->objects, O_RDWR), oracles[0], opt->threads, &v);
	if (opt->blocks)
		verify_blocks(device_open(opt->blocks, O_RDONLY | O_DIRECT), oracles[1], &v);
	state_save(opt->state, oracles, 2);
	report = opt->report ? fopen(opt->report, "w") : NULL;
	if (opt->report && !report) {
		perror(opt->report);
		return 1;
	}
	if (report) {
		fprintf(report,
			"{\"acked_writes\": %llu, \"checked\": %llu, \"lost\": %llu, \"corrupt\": %llu, \"resolved\": %llu, \"present\": %llu, \"bytes\": %llu, \"first_read_at\": %.3f, \"all_read_at\": %.3f}\n",
			(unsigned long long)(oracles[0]->acknowledged + oracles[1]->acknowledged),
			(unsigned long long)v.checked, (unsigned long long)v.lost,
			(unsigned long long)v.corrupt, (unsigned long long)v.resolved,
			(unsigned long long)v.present, (unsigned long long)v.bytes,
			v.first_read, v.all_read);
		fclose(report);
	}
	printf("%llu acknowledged, %llu slots checked, %llu lost, %llu corrupt\n",
	       (unsigned long long)(oracles[0]->acknowledged + oracles[1]->acknowledged),
	       (unsigned long long)v.checked, (unsigned long long)v.lost,
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
	      "  --wait SECONDS        wait until the store can be opened and read (default 0)\n"
	      "  --figures FILE        a line of JSON each second: the counts until then\n"
	      "  --blocks PATH         device of a block store\n"
	      "  --block-slots N       its first N blocks are used\n"
	      "  --block-readers N     load: threads that read blocks (default 0)\n"
	      "  --fill                load: first write all blocks once\n"
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
		{ "blocks", required_argument, NULL, 'b' },
		{ "block-slots", required_argument, NULL, 'B' },
		{ "block-readers", required_argument, NULL, 'D' },
		{ "fill", no_argument, NULL, 'F' },
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
	       opt->readers <= READERS && opt->block_readers <= READERS && opt->threads && opt->threads <= VERIFIERS;
}

int main(int argc, char **argv)
{
	struct options opt = { .live = 900, .object_slots = 65536, .block_slots = 4096,
			       .shortest = 32, .longest = 4096, .batch = BATCH, .readers = 1,
			       .threads = 1 };
	struct oracle objects, blocks, *oracles[] = { &objects, &blocks };
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
	if (oracle_init(&objects, 'o', opt.object_slots) ||
	    oracle_init(&blocks, 'b', opt.block_slots) || journal_open())
		return 1;
	if (opt.zipf)
		zipf_setup(opt.object_slots / WRITERS);
	if (opt.figures && pthread_create(&thread, NULL, write_figures, opt.figures)) {
		perror("thread");
		return 1;
	}
	return loads ? load(&opt, oracles) : verify(&opt, oracles);
}
