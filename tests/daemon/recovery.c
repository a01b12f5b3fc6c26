// SPDX-License-Identifier: GPL-2.0
/*
 * Measures lsmemd's part of the recovery of a backup: its reads and its recovery, with a function
 * that accepts everything in place of the kernel.
 *
 *	recovery FILE		print bytes and seconds as JSON; writes to the file.
 *				peak_bytes: memory of the whole process
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "lsmemd.h"

void __wrap_kernel_load(struct kernel *kernel, struct loop *loop, struct loop_op *op,
			struct lsmem_load *load);

__typeof__(kernel_place) __wrap_kernel_place;

static uint64_t loaded, loads, placed;

void __wrap_kernel_load(struct kernel *kernel, struct loop *loop, struct loop_op *op,
			struct lsmem_load *load)
{
	(void)kernel;
	loaded += load->length;
	loads++;
	io_uring_prep_nop(loop_sqe(loop, op));
}

int __wrap_kernel_place(struct kernel *kernel, struct lsmem_placement *place)
{
	(void)kernel;
	placed += place->nr;
	return 0;
}

static double seconds(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	static struct lsmemd d;
	struct recover_result result;
	struct backup_options options;
	struct recover_env env;
	enum recover_state state;
	struct rusage usage;
	struct recover *r;
	uint64_t start;
	double took;
	int err;

	if (argc != 2)
		return 2;
	log_setup(LOG_PRI_WARNING);
	memset(&options, 0, sizeof(options));
	options.path = argv[1];
	d.kernel.fd = -1;
	if (status_open(&d.status) || loop_open(&d.loop, 256) ||
	    signals_open(&d.signals, &d.loop) || backup_open(&d.backups[0], &d.loop, &options))
		return 1;
	d.config.nr_backups = 1;
	restore_env(&d, &env);
	r = recover_new(&env);
	if (!r || recover_open(r, &state) || state != RECOVER_FULL)
		return 1;
	start = clock_now_ns();
	err = recover_run(r, &(struct recover_options){ .instant = recover_super(r)->capacity }, &result);
	took = (double)(clock_now_ns() - start) / 1e9;
	getrusage(RUSAGE_SELF, &usage);
	printf("{\"error\": %d, \"segments\": %" PRIu64 ", \"objects\": %" PRIu64 ", \"live_bytes\": %" PRIu64 ", \"loaded_bytes\": %" PRIu64 ", \"loads\": %" PRIu64 ", \"placed\": %" PRIu64 ", \"read_bytes\": %" PRIu64 ", \"seconds\": %.3f, \"user\": %.3f, \"system\": %.3f, \"peak_bytes\": %" PRIu64 "}\n",
	       err, result.segments, result.objects, result.live_bytes, loaded, loads,
	       placed,
	       result.read_bytes, took, seconds(&usage.ru_utime), seconds(&usage.ru_stime),
	       (uint64_t)usage.ru_maxrss << 10);
	recover_free(r);
	backup_close(&d.backups[0]);
	loop_close(&d.loop);
	return err != 0;
}
