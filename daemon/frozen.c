// SPDX-License-Identifier: GPL-2.0
/*
 * A frozen store that a former daemon of this host has left in the kernel (Documentation/migration.rst, rules 4 and 8).
 *
 * Another host may have taken the store since: only etcd says so (cluster_frozen()). Before a claim's transaction, which
 * changes the term, the store that is the newest gets the term that etcd has, and any other one is dropped: it is durable,
 * and is recovered from its backups (CURRENT, NAMED, DROP_FIRST). The transaction makes void what the former daemon
 * has consented to. The store is thawed when this daemon is the owner, and has found that store and backups belong together.
 *
 * If another host owns the store, the memory stays as it is while that host may read it. It may if its term is the one
 * after that of the frozen store; the kernel does not know to which host its daemon has said READY. A host with a later
 * term got the store from another one, or from the backups, where all of a durable store is that was moved.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "lsmemd.h"

/* A former daemon's descriptor may be open for a moment, by its io_uring, and its disk by udev. */
#define BUSY_TRIES	20
#define BUSY_US		100000u	/* between them */
#define WHY_BYTES	192u

/*
 * Attach to the store of this daemon, if it is in the kernel and frozen. Return: 1: kernel_detach() detaches; 0: there is
 * none; -EBUSY: another daemon is attached; or another negative errno of kernel_attach().
 */
static int attach(const struct lsmemd *d, struct kernel *kernel)
{
	char name[LSMEM_NAME_BYTES];
	int err = -EBUSY, tries;
	uint64_t frozen;

	if (kernel_find(d->status.uuid, name) || !kernel_number(name, "frozen", &frozen) || !frozen)
		return 0;
	for (tries = 0; tries < BUSY_TRIES && err == -EBUSY; tries++) {
		if (tries)
			usleep(BUSY_US);
		err = kernel_attach(kernel, d->control, name, d->status.uuid);
	}
	if (err == -EBUSY)
		log_err("%s: is frozen, and another lsmemd is attached to it", name);
	else if (err)
		log_err("%s: is frozen, and cannot be attached: %s", name, strerror(-err));
	return err ? err : 1;
}

/* Since when it is frozen, and who took the store, for messages. */
static const char *taker(const struct cluster_taken *taken, uint64_t term, char why[WHY_BYTES])
{
	int n = term == CLUSTER_LET_GO ? snprintf(why, WHY_BYTES, "was frozen, its memory was let go, and ") :
					 snprintf(why, WHY_BYTES, "was frozen in term %" PRIu64 ", and ", term);
	char *to = why + n;
	size_t room = WHY_BYTES - (size_t)n;

	if (*taken->host)
		snprintf(to, room, "host %s took the store, term %" PRIu64, taken->host, taken->term);
	else
		snprintf(to, room, "etcd does not say which host took the store, term %" PRIu64, taken->term);
	return why;
}

/* Detach from a frozen store that is not the newest, and drop it. Return: 0 or -EREMCHG, which is logged. */
static int drop(const struct lsmemd *d, struct kernel *kernel, const struct cluster_taken *taken)
{
	char name[LSMEM_NAME_BYTES], why[WHY_BYTES];
	int err = -EBUSY, tries;

	memcpy(name, kernel->name, sizeof(name));
	taker(taken, kernel->term, why);
	kernel_detach(kernel);
	if (d->options.again) {
		log_err("%s: %s: it is not the newest, and --again recovers no store; start lsmemd without it", name, why);
		return -EREMCHG;
	}
	for (tries = 0; tries < BUSY_TRIES && err == -EBUSY; tries++) {
		if (tries)
			usleep(BUSY_US);
		err = kernel_destroy(d->control, name, true);
	}
	if (!err) {
		log_notice("%s: %s: dropped, what is newest is on the backups", name, why);
		return 0;
	}
	log_err("%s: %s: it is not the newest, and cannot be dropped: %s; close and unmount it, then start lsmemd again", name,
		why, strerror(-err));
	return -EREMCHG;
}

/**
 * frozen_claim - before each transaction of a claim: keep the frozen store in the kernel, or drop it
 * @d: the daemon; out: @newest. @status.uuid is that of the store
 * @taken: as etcd has it
 *
 * Logs errors, and what is dropped.
 *
 * Return: 0, also if there is no such store; -EREMCHG: it cannot be dropped; or another negative errno, for
 * struct cluster_claim's @found.
 */
int frozen_claim(struct lsmemd *d, const struct cluster_taken *taken)
{
	struct kernel kernel;
	uint64_t objects;
	int ret = attach(d, &kernel);

	d->newest = false;
	if (ret <= 0)
		return ret;
	if (cluster_frozen(taken, kernel.term) != CLUSTER_NEWEST)
		return drop(d, &kernel, taken);
	ret = kernel_freeze(&kernel, taken->term, &objects);
	if (ret < 0)
		log_err("%s: its term cannot be set: %s", kernel.name, strerror(-ret));
	d->newest = ret >= 0;
	kernel_detach(&kernel);
	return ret < 0 ? -EREMCHG : 0;
}

/* Does this daemon keep the store for the host that took it next? Then it stays attached. Return: false: it does not. */
static bool keep(struct lsmemd *d, struct kernel *kernel)
{
	if (!d->config.move.listen_line || d->options.again || d->options.format ||
	    cluster_frozen(&d->cluster.taken, kernel->term) != CLUSTER_FOLLOWED)
		return false;
	d->kernel = *kernel;
	d->keeps = true;
	return true;
}

/**
 * frozen_lost - another host owns the store: keep the frozen one in the kernel for it, or drop it
 * @d: the daemon; its claim has failed. out: @keeps: with [move], serve_kept() is to give that host keys; @kernel is attached
 *
 * Logs what is done.
 */
void frozen_lost(struct lsmemd *d)
{
	const struct cluster_taken *taken = &d->cluster.taken;
	struct kernel kernel;
	char why[WHY_BYTES];

	if (attach(d, &kernel) <= 0)
		return;
	if (cluster_frozen(taken, kernel.term) == CLUSTER_PASSED) {
		(void)drop(d, &kernel, taken);
		return;
	}
	log_notice("%s: %s: stays frozen, that host may read its memory", kernel.name, taker(taken, kernel.term, why));
	if (!keep(d, &kernel))
		kernel_detach(&kernel);
}

/**
 * frozen_drop - before a move to this host: drop what the kernel has of the store from before
 * @d: the daemon; @status.uuid is that of the store, and @taken of its cluster was read at this start
 *
 * What is on no backup is not dropped, nor is a frozen store that another host may read: the one that took it next. Logs
 * errors, and what is dropped.
 *
 * Return: 0, also if there is nothing; -EBUSY: it is in use; -EREMCHG: it is frozen, and may be read; or another negative errno
 * of kernel_destroy().
 */
int frozen_drop(const struct lsmemd *d)
{
	struct kernel kernel;
	char name[LSMEM_NAME_BYTES];
	int err = attach(d, &kernel);

	if (err < 0)
		return err;
	if (err) {
		if (cluster_frozen(&d->cluster.taken, kernel.term) == CLUSTER_PASSED)
			return drop(d, &kernel, &d->cluster.taken);
		log_err("%s: is frozen here: the host that took it may need its memory, and lets go of it first", kernel.name);
		kernel_detach(&kernel);
		return -EREMCHG;
	}
	if (kernel_find(d->status.uuid, name))
		return 0;
	err = kernel_destroy(d->control, name, false);
	if (err)
		log_err("%s: is in memory here from before, and cannot be dropped: %s; close, unmount and destroy it", name,
			strerror(-err));
	else
		log_notice("%s: was in memory here from before: dropped", name);
	return err;
}

/**
 * frozen_is_kept - is a frozen store in this kernel that a claim has to keep, or to drop?
 * @d: the daemon; as for frozen_drop()
 *
 * Return: true: another host may read it; false: there is none, or no host needs it any more.
 */
bool frozen_is_kept(const struct lsmemd *d)
{
	struct kernel kernel;
	bool kept;
	int ret = attach(d, &kernel);

	if (ret <= 0)
		return ret;
	kept = cluster_frozen(&d->cluster.taken, kernel.term) != CLUSTER_PASSED;
	kernel_detach(&kernel);
	return kept;
}

/**
 * frozen_check - may the store that was attached be served?
 * @d: the daemon, its store attached
 *
 * Return: STATUS_OK; STATUS_REFUSED: it is frozen, and not known to be the newest, which is logged.
 */
int frozen_check(const struct lsmemd *d)
{
	if (!d->kernel.frozen || d->newest)
		return STATUS_OK;
	log_err("%s: was frozen in term %" PRIu64 ", so that another host can take the store over, and only etcd says whether one has: name it in [cluster] of %s",
		d->kernel.name, d->kernel.term, d->options.config_path);
	return STATUS_REFUSED;
}

/**
 * frozen_thaw - serve clients of the store again
 * @d: the daemon; it has claimed the store, whose backups belong to it
 *
 * Return: 0, also if the store is not frozen; -ESTALE: the daemon may not own the store any more; or another negative errno
 * of kernel_thaw(), which is logged.
 */
int frozen_thaw(struct lsmemd *d)
{
	uint64_t term = d->kernel.term;
	int err;

	if (!d->kernel.frozen)
		return 0;
	if (!cluster_holds(&d->cluster))
		return -ESTALE;
	err = kernel_thaw(&d->kernel, d->cluster.term);
	if (err) {
		log_err("%s: is frozen, and cannot be thawed: %s", d->kernel.name, strerror(-err));
		return err;
	}
	log_notice("%s: was frozen, and no other host took the store since term %" PRIu64 ": thawed, term %" PRIu64,
		   d->kernel.name, term, d->cluster.term);
	return 0;
}
