// SPDX-License-Identifier: GPL-2.0
/*
 * Who owns the store, as far as the start is concerned: see cluster.h.
 *
 * A store is claimed as soon as its uuid is known and before anything is written to its
 * backups: one that is on another host's when that has been read there, beside whoever has
 * it; any other when it is held.
 */
#include <errno.h>
#include <string.h>

#include "log.h"
#include "lsmemd.h"

/* progress of cluster_claim() has no context: there is one daemon. */
static struct lsmemd *claiming;

static int claim_progress(const char *what, uint64_t done, uint64_t all)
{
	(void)what, (void)done, (void)all;
	signals_poll(&claiming->signals);
	return claiming->signals.stop ? -ECANCELED : 0;
}

/* Does the kernel of this host know a daemon that serves it? */
static bool is_served(const uint8_t uuid[LSMEM_UUID_BYTES])
{
	char name[LSMEM_NAME_BYTES], attached[8];

	if (kernel_find(uuid, name))
		return false;
	kernel_attribute(name, "attached", attached, sizeof(attached));
	return strcmp(attached, "0");
}

/**
 * own - be the owner of the store
 * @d: the daemon, its backups open; without a cluster nothing is done
 * @uuid: of the store
 *
 * Returns a STATUS_*.  It is STATUS_OK too when a signal has ended it.
 */
int own(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES])
{
	char text[STATUS_UUID_BYTES];
	struct cluster_claim claim = {
		.uuid = text, .above = d->epoch, .take_over = d->options.take_over,
		.alone = !is_served(uuid), .progress = claim_progress,
	};

	claiming = d;
	memcpy(d->status.uuid, uuid, sizeof(d->status.uuid));
	status_uuid(&d->status, text);
	switch (cluster_claim(&d->cluster, &claim)) {
	case 0:
	case -ECANCELED:
		return STATUS_OK;
	case -EBUSY:
		return STATUS_BUSY;
	case -EHOSTUNREACH:
	case -EBADMSG:
		return STATUS_OWNER;
	default:
		return STATUS_ERROR;
	}
}

/**
 * owned - is the store still ours?
 * @d: the daemon
 * @doing: what ends if it is not
 *
 * Says itself that it is not.
 */
bool owned(struct lsmemd *d, const char *doing)
{
	char why[ETCD_WHY_BYTES];

	if (cluster_holds(&d->cluster))
		return true;
	cluster_why(&d->cluster, why, sizeof(why));
	log_err("etcd no longer says that the store is ours: %s; %s", why, doing);
	return false;
}
