// SPDX-License-Identifier: GPL-2.0
/* lsmemd makes log-structured memory durable: see lsmemd(8). lsmemd.h lists its parts. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "lsmemd.h"
#include "base/notify.h"
#include "base/thread.h"
#include "record.h"
#include "remote/remote.h"

#define CONFIG_DEFAULT	"/etc/lsmem/lsmemd.conf"
#define DRAIN_DEFAULT	60u
#define END_MS		1000u	/* wait for requests that are in flight at the end */
#define GONE_TRIES	20	/* to destroy a store that another host has */
#define GONE_US		100000u	/* between them */

/*
 * Operations in flight: requests of core or a recovery to all backups, reads of fetching, a few polls
 * and timers.
 */
#define RING_ENTRIES	(2 * CORE_IOS * CORE_BACKUPS)

static const char usage_text[] =
"usage: lsmemd [options]\n"
"Makes a store of log-structured memory durable.\n"
"\n"
"  -c, --config FILE     configuration (default: " CONFIG_DEFAULT ")\n"
"      --check-config    check the configuration file, and exit\n"
"      --check           read the backup, print what it holds, write nothing, and exit\n"
"      --accept-loss     recover without the data that the backup lost\n"
"      --accept-missing  continue without backups that are gone for good\n"
"      --verify-first    read and verify all objects before the store is served\n"
"      --take-over       take the backup from a daemon on another host\n"
"      --move-from HOST  move the store from that host, as \"from\" in [move]\n"
"      --init            first use: format blank backups, create files, and exit\n"
"      --format          format a backup that holds a store\n"
"      --force           with --format: whatever the backup holds\n"
"      --again           wait for the only backup of a store that is active\n"
"      --status-file FILE  (default: /run/lsmem/STORE.json)\n"
"      --state-directory DIR  (default: $STATE_DIRECTORY, else " RECORD_DIRECTORY ")\n"
"      --drain SECONDS   bound on the shutdown (default: 60)\n"
"  -v, --verbose         log more; twice: much more\n"
"  -V, --version         print the version, and exit\n"
"  -h, --help            print this text, and exit\n"
"\n"
"See lsmemd(8) and lsmemd.conf(5).\n";

enum {
	OPT_STATUS_FILE = 256,
	OPT_STATE_DIRECTORY,
	OPT_DRAIN,
	OPT_MOVE_FROM,
	OPT_FLAGS,		/* and the offset of a bool in struct options */
};

#define FLAG(name, member)	\
	{ name, no_argument, NULL, OPT_FLAGS + (int)offsetof(struct options, member) }

static const struct option long_options[] = {
	{ "config", required_argument, NULL, 'c' },
	FLAG("check-config", check_config),
	FLAG("check", check),
	FLAG("accept-loss", accept_loss),
	FLAG("accept-missing", accept_missing),
	FLAG("verify-first", verify_first),
	FLAG("take-over", take_over),
	FLAG("init", init),
	FLAG("format", format),
	FLAG("force", force),
	FLAG("again", again),
	{ "status-file", required_argument, NULL, OPT_STATUS_FILE },
	{ "state-directory", required_argument, NULL, OPT_STATE_DIRECTORY },
	{ "drain", required_argument, NULL, OPT_DRAIN },
	{ "move-from", required_argument, NULL, OPT_MOVE_FROM },
	{ "verbose", no_argument, NULL, 'v' },
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int parse_drain(const char *text, unsigned int *seconds)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || n < 1 || n > 3600) {
		log_err("--drain %s: allowed are seconds from 1 to 3600", text);
		return -EINVAL;
	}
	*seconds = (unsigned int)n;
	return 0;
}

/* Return: a STATUS_*, or -1: continue. */
static int parse_options(int argc, char **argv, struct options *o)
{
	int c;

	o->config_path = CONFIG_DEFAULT;
	o->drain = DRAIN_DEFAULT;
	o->state_directory = getenv("STATE_DIRECTORY");
	if (!o->state_directory || !*o->state_directory)
		o->state_directory = RECORD_DIRECTORY;
	while ((c = getopt_long(argc, argv, "c:vVh", long_options, NULL)) != -1) {
		switch (c) {
		case 'c':
			o->config_path = optarg;
			break;
		case OPT_STATUS_FILE:
			o->status_file = optarg;
			break;
		case OPT_STATE_DIRECTORY:
			o->state_directory = optarg;
			break;
		case OPT_DRAIN:
			if (parse_drain(optarg, &o->drain))
				return STATUS_USAGE;
			break;
		case OPT_MOVE_FROM:
			o->move_from = optarg;
			break;
		case 'v':
			o->verbose++;
			break;
		case 'V':
			puts("lsmemd " LSMEMD_VERSION);
			return STATUS_OK;
		case 'h':
			fputs(usage_text, stdout);
			return STATUS_OK;
		default:
			if (c >= OPT_FLAGS) {
				*(bool *)((char *)o + c - OPT_FLAGS) = true;
				break;
			}
			fputs("lsmemd --help lists the options\n", stderr);
			return STATUS_USAGE;
		}
	}
	if (optind < argc) {
		log_err("%s: lsmemd takes options only", argv[optind]);
		return STATUS_USAGE;
	}
	if (o->force && !o->format) {
		log_err("--force: only with --format");
		return STATUS_USAGE;
	}
	if (o->move_from && (o->check || o->check_config || o->init || o->again || o->format || o->take_over)) {
		log_err("--move-from: not with --check, --check-config, --init, --again, --format or --take-over");
		return STATUS_USAGE;
	}
	if (o->check + o->check_config + o->init + o->again +
	    (o->format || o->accept_loss || o->accept_missing || o->verify_first ||
	     o->take_over) > 1) {
		log_err("--check, --check-config, --init, --again: only one of them, and none with --format, --accept-loss, --accept-missing, --verify-first or --take-over");
		return STATUS_USAGE;
	}
	return -1;
}

static void protect_from_oom(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "-1000", 5) != 5)
		log_warn("the OOM killer may choose lsmemd: /proc/self/oom_score_adj: %s",
			 strerror(errno));
	if (fd >= 0)
		close(fd);
}

static int lock_memory(int flags)
{
	if (!mlockall(flags))
		return STATUS_OK;
	log_err("memory cannot be locked: %s; lsmemd needs CAP_IPC_LOCK or LimitMEMLOCK=infinity",
		strerror(errno));
	return STATUS_ERROR;
}

/**
 * prepare_ahead - do what takes long of prepare(), while clients need not wait for it
 *
 * What the process has is read and locked. What it takes from now on is locked as soon as it is used, but for tables of which
 * little is. lock_rest() locks that. Logs errors.
 *
 * Return: a STATUS_*.
 */
int prepare_ahead(void)
{
	int status = lock_memory(MCL_CURRENT);

	return status ? status : lock_memory(MCL_FUTURE | MCL_ONFAULT);
}

static void *lock_all(void *unused)
{
	(void)unused;
	(void)thread_begin();	/* the main thread's prepare() has told if it cannot */
	(void)lock_memory(MCL_CURRENT | MCL_FUTURE);
	return NULL;
}

/**
 * lock_rest - lock all memory, also what was not used yet
 *
 * A thread does it, so that the store is served meanwhile. Afterwards no page of the process has to be read or taken. Logs errors.
 */
void lock_rest(void)
{
	pthread_t thread;

	if (thread_start(&thread, lock_all, NULL))
		lock_all(NULL);
	else
		pthread_detach(thread);
}

/**
 * prepare - prepare the process to serve a filesystem
 * @ahead: prepare_ahead() was called: lock_rest() follows
 *
 * From now on no allocation in the kernel for the main thread waits for I/O, and no page of the
 * process has to be read. Logs errors.
 *
 * Context: all memory of the daemon is allocated.
 * Return: a STATUS_*.
 */
int prepare(bool ahead)
{
	int err;

	protect_from_oom();
	err = thread_begin();
	if (err)
		log_warn("PR_SET_IO_FLUSHER: %s; a filesystem on this store may wait for itself when memory is short",
			 strerror(-err));
	return ahead ? STATUS_OK : lock_memory(MCL_CURRENT | MCL_FUTURE);
}

/* Detach from the store. If this start has created it and it holds nothing yet, destroy it. */
static void undo(struct lsmemd *d)
{
	char name[LSMEM_NAME_BYTES];
	int err;

	memcpy(name, d->kernel.name, sizeof(name));
	kernel_detach(&d->kernel);
	if (!d->created)
		return;
	err = kernel_destroy(d->control, name, false);
	if (err)
		log_warn("%s: created by this start, cannot be destroyed: %s", name, strerror(-err));
}

/*
 * Another host has the store, and needs nothing of it here: destroy it. The loop, which is closed, may keep the descriptor for
 * a moment.
 */
static void let_go(struct lsmemd *d)
{
	const char *name = d->status.store;
	int err = -EBUSY, tries;

	for (tries = 0; tries < GONE_TRIES && err == -EBUSY; tries++) {
		if (tries)
			usleep(GONE_US);
		err = kernel_destroy(d->control, name, true);
	}
	if (err)
		log_warn("%s: cannot be destroyed: %s; it stays here, frozen: close and unmount it, then: lsmemctl destroy --force %s",
			 name, strerror(-err), name);
}

/*
 * The only backup was lost with its connection. A daemon that starts while its store is active
 * resumes the store: it writes again all that was not acknowledged, and the backup's server, etcd
 * and the digests check whether it may (invariants 17 and 18). So this daemon executes itself with
 * --again. One that has given its store away executes itself to stand by. No state of this process stays, and no request in
 * flight; its process id stays, which a service manager knows. Options for a single start (--format, --take-over ..) are not
 * repeated.
 */
static void become_successor(const struct options *o, bool again)
{
	char drain[16], *argv[16] = {
		(char *)"lsmemd", (char *)"--config", (char *)o->config_path, (char *)"--drain", drain,
	};
	unsigned int n = 5, i;

	snprintf(drain, sizeof(drain), "%u", o->drain);
	if (again)
		argv[n++] = (char *)"--again";
	if (o->move_from && !again) {
		argv[n++] = (char *)"--move-from";
		argv[n++] = (char *)o->move_from;
	}
	if (o->status_file) {
		argv[n++] = (char *)"--status-file";
		argv[n++] = (char *)o->status_file;
	}
	if (o->state_directory) {
		argv[n++] = (char *)"--state-directory";
		argv[n++] = (char *)o->state_directory;
	}
	for (i = 0; i < o->verbose && i < 2; i++)
		argv[n++] = (char *)"-v";
	execv("/proc/self/exe", argv);
	log_err("lsmemd cannot start itself again: %s", strerror(errno));
}

/*
 * Wait for the requests in flight: those of a backup that has failed end soon, with errors, and only
 * then can a connection to it be ended. Returns false if they do not.
 */
static bool requests_end(struct lsmemd *d)
{
	uint64_t end = clock_now_ms() + END_MS;
	uint32_t slot;

	for (slot = 0; slot < d->config.nr_backups; slot++)
		while (d->backups[slot].in_flight)
			if (clock_now_ms() >= end || loop_run(&d->loop, true) < 0)
				return false;
	return true;
}

static int run(struct lsmemd *d)
{
	int status, err;

	d->control = -1;
	d->kernel.fd = -1;
	name_where(d);
	err = notify_open();
	if (err)
		log_warn("NOTIFY_SOCKET: %s", strerror(-err));
	if (status_open(&d->status)) {
		log_err("no memory");
		return STATUS_ERROR;
	}
	if (loop_open(&d->loop, RING_ENTRIES))
		goto err_status;
	err = signals_open(&d->signals, &d->loop);
	if (err) {
		log_err("signals: %s", strerror(-err));
		goto err_loop;
	}
	status = d->config.server.listen_line ? serve_exports(d) :
		 d->options.check ? check(d) : start(d);
	if (d->keeps && !d->signals.stop)
		status = serve_kept(d);
	else if (!status && d->core)
		status = serve(d);
	else if (status && !d->signals.stop && d->options.again && !d->unconnected)
		d->unconnected = connection_lost(d);	/* lost again during the start */
	else if (!status && d->signals.stop && d->options.again) {
		log_notice("stopped by a signal; bytes that are not on the backup yet stay in memory, and the next lsmemd writes them");
		status = STATUS_DRAIN;
	} else if (!status && d->signals.stop)
		log_notice("stopped by a signal before the store was active");
	take_close(d);
	http_close(&d->http);
	if (d->unconnected && !d->signals.stop) {
		/* Without the connection no write of this daemon can reach the backup any more. */
		cluster_close(&d->cluster);
		become_successor(&d->options, true);
	}
	/*
	 * Requests in flight read memory that would be freed here, and must not write its later
	 * contents to the backup. The same holds for a thread that makes a backup ready; it stops
	 * writing when this daemon does not own the store any more. So exit without more ado.
	 */
	if (!rejoin_end() || !requests_end(d))
		_exit(status);
	fetch_free(d->fetch);
	if (d->core)
		core_free(d->core);
	d->core = NULL;
	free(d->candidates);
	free(d->damaged);
	undo(d);
	close_backups(d);
	if (status == STATUS_ERROR && !cluster_holds(&d->cluster))
		status = STATUS_OWNER;
	cluster_close(&d->cluster);
	loop_close(&d->loop);
	signals_close(&d->signals);
	if (d->moved)
		let_go(d);
	if (d->control >= 0)
		close(d->control);
	if (d->moved && d->config.move.standby && !d->signals.stop) {
		if (!d->options.status_file)
			unlink(d->status.path);		/* the next one's has another name */
		become_successor(&d->options, false);
	}
	status_close(&d->status);
	return status;
err_loop:
	loop_close(&d->loop);
err_status:
	status_close(&d->status);
	return STATUS_ERROR;
}

/* --move-from stands for "from" in [move]. Return: a STATUS_*. */
static int set_move_from(struct lsmemd *d)
{
	char url[PATH_MAX];

	if (!d->options.move_from)
		return STATUS_OK;
	if (!d->config.move.secret_line) {
		log_err("--move-from: %s has no [move], with a secret", d->options.config_path);
		return STATUS_USAGE;
	}
	snprintf(url, sizeof(url), "%s%s", wire_scheme(d->options.move_from) ? "" : "rdma://", d->options.move_from);
	if (!wire_address(url, &d->config.move.from)) {
		log_err("--move-from %s: allowed is HOST[:PORT][/STORE], with or without rdma://", d->options.move_from);
		return STATUS_USAGE;
	}
	d->config.move.from_line = 1;
	return STATUS_OK;
}

/* Refuse options that do not fit the configuration. Return: a STATUS_*. */
static int check_options(const struct lsmemd *d)
{
	const struct options *o = &d->options;

	if (d->config.server.listen_line &&
	    (o->check || o->format || o->accept_loss || o->verify_first || o->take_over ||
	     o->again)) {
		log_err("%s configures a server of backups: --check, --format, --accept-loss, --verify-first, --take-over and --again are for the daemon of a store",
			o->config_path);
		return STATUS_USAGE;
	}
	if (o->accept_missing && d->config.nr_backups == 1) {
		log_err("--accept-missing: only with several backups");
		return STATUS_USAGE;
	}
	if (*d->config.cluster.store) {
		if (!o->format && !o->init)
			return STATUS_OK;
		log_err("%s: not with backups from etcd (store = %s): name them in %s",
			o->init ? "--init" : "--format", d->config.cluster.store, o->config_path);
		return STATUS_USAGE;
	}
	return check_take_over(d);
}

int main(int argc, char **argv)
{
	static struct lsmemd lsmemd;
	char error[CONFIG_ERROR_BYTES];
	struct lsmemd *d = &lsmemd;
	int status;

	backup_register(&remote_backup_make);
	prctl(PR_SET_NAME, "lsmemd");	/* for lsmemctl; after become_successor() it is "exe" */
	log_setup(LOG_PRI_NOTICE);
	status = parse_options(argc, argv, &d->options);
	if (status >= 0)
		return status;
	log_setup(d->options.verbose > 1 ? LOG_PRI_DEBUG :
		  d->options.verbose ? LOG_PRI_INFO : LOG_PRI_NOTICE);
	if (config_read(d->options.config_path, &d->config, error)) {
		log_err("%s", error);
		return STATUS_USAGE;
	}
	status = check_options(d);
	if (!status)
		status = set_move_from(d);
	if (status || d->options.check_config)
		return status;
	return run(d);
}
