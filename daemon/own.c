// SPDX-License-Identifier: GPL-2.0
/*
 * The ownership of the store, and its backups as etcd has them: see cluster/cluster.h.
 *
 * The daemon claims a store as soon as it knows the store's uuid, and before it writes anything to
 * the backups. If a backup is on another host, the daemon reads the uuid while another daemon may
 * still hold the backups; otherwise it holds them first.
 *
 * If the configuration names no backups, the daemon uses those that the last owner has written to
 * etcd. Otherwise it compares them with the configuration, and logs differences for the operator.
 * Only the digests tell whether the backups that are there are enough.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "lsmemd.h"

/* The calls of cluster_claim() have no context; a process has one daemon. */
static struct lsmemd *claiming;

static int claim_progress(const char *what, uint64_t done, uint64_t all)
{
	(void)what, (void)done, (void)all;
	signals_poll(&claiming->signals);
	return claiming->signals.stop ? -ECANCELED : 0;
}

/*
 * A frozen store is kept or dropped. Of another one it is only logged: it has no term to compare with, and is checked
 * against the digests.
 */
static int claim_found(const struct cluster_taken *taken)
{
	char name[LSMEM_NAME_BYTES];
	int err = frozen_claim(claiming, taken);

	if (err)
		return err;
	if (*taken->host && !taken->here && !kernel_find(claiming->status.uuid, name))
		log_notice("%s: is in memory here, but host %s was the last one that took the store, term %" PRIu64,
			   name, taken->host, taken->term);
	return 0;
}

/* Does a daemon on this host serve the store? */
static bool is_served(const uint8_t uuid[LSMEM_UUID_BYTES])
{
	char name[LSMEM_NAME_BYTES], attached[8];

	if (kernel_find(uuid, name))
		return false;
	kernel_attribute(name, "attached", attached, sizeof(attached));
	return strcmp(attached, "0");
}

/* The exit status for a result of cluster_claim(). */
static int claimed(int err)
{
	switch (err) {
	case 0:
	case -ECANCELED:
		return STATUS_OK;
	case -EBUSY:
		return STATUS_BUSY;
	case -EHOSTUNREACH:
	case -EBADMSG:
		return STATUS_OWNER;
	case -EREMCHG:
		return STATUS_REFUSED;
	default:
		return STATUS_ERROR;
	}
}

/* The path of a backup, as other hosts see it: "HOST:/PATH" if only this host can reach it. */
static void name_path(const struct lsmemd *d, const char *path, char name[PATH_MAX + WIRE_NAME])
{
	snprintf(name, PATH_MAX + WIRE_NAME, "%s%s%s", *path == '/' ? d->cluster.host : "",
		 *path == '/' ? ":" : "", path);
}

/* Take the backups from etcd. Return: a STATUS_*. */
static int find(struct lsmemd *d)
{
	struct cluster_claim claim = {
		.uuid = d->config.cluster.store, .look = true, .progress = claim_progress,
	};
	struct members *members = &d->cluster.members;
	char error[CONFIG_ERROR_BYTES];
	size_t n = strlen(d->cluster.host);
	unsigned int i;
	int err;

	claiming = d;
	err = cluster_claim(&d->cluster, &claim);
	if (err)
		return claimed(err);
	if (!members->nr) {
		log_err("etcd: %s: there is no such key: no owner has written the backups of that store to etcd; name them in %s",
			d->cluster.members_key, d->options.config_path);
		return STATUS_OWNER;
	}
	for (i = 0; i < members->nr; i++) {
		char *path = members->member[i].path;

		if (!strncmp(path, d->cluster.host, n) && path[n] == ':' && path[n + 1] == '/')
			memmove(path, path + n + 1, strlen(path + n));
	}
	if (config_take(&d->config, d->options.config_path, d->cluster.members_key, members, error)) {
		log_err("%s", error);
		return STATUS_OWNER;
	}
	return STATUS_OK;
}

/**
 * own_open - open the cluster; if the configuration names no backups, take them from etcd
 * @d: the daemon; without a cluster nothing is done
 *
 * Logs errors.
 *
 * Return: a STATUS_*; STATUS_OK also if a signal has ended the wait for etcd.
 */
int own_open(struct lsmemd *d)
{
	if (!d->config.cluster.options.etcd.nr_urls)
		return STATUS_OK;
	if (cluster_open(&d->cluster, &d->config.cluster.options))
		return STATUS_ERROR;
	return d->config.nr_backups ? STATUS_OK : find(d);
}

static bool is_configured(const struct lsmemd *d, const struct member *m)
{
	char full[PATH_MAX + WIRE_NAME], path[sizeof(m->path)];
	uint32_t slot;

	for (slot = 0; slot < d->config.nr_backups; slot++) {
		name_path(d, d->config.backups[slot].path, full);
		members_copy(path, sizeof(path), full);
		if (!strcmp(path, m->path))
			return true;
	}
	return false;
}

/* Log the backups in etcd that had a part of the store and are not in the configuration. */
static void compare(const struct lsmemd *d)
{
	const struct members *members = &d->cluster.members;
	const struct member *m = members->member;

	for (; m < members->member + members->nr; m++) {
		if (!strcmp(m->state, "lost") || !strcmp(m->state, "missing") || is_configured(d, m))
			continue;
		log_warn("etcd: backup %s%s%s (incarnation ..%08" PRIx32 ") was %s in term %" PRIu64 ", and %s does not name it: if it is not gone for good, stop lsmemd and name it there",
			 m->name, *m->name ? ", " : "", m->path, m->incarnation, m->state,
			 members->term, d->options.config_path);
	}
}

/**
 * own_tell - write the backups and their states to etcd
 * @d: the daemon, serving; without a cluster nothing is done
 *
 * Does not wait for etcd.
 */
void own_tell(struct lsmemd *d)
{
	struct members members;
	char full[PATH_MAX + WIRE_NAME];
	uint32_t slot, index;

	if (!d->cluster.options)
		return;
	memset(&members, 0, sizeof(members));
	members.term = d->cluster.term;
	members.nr = d->config.nr_backups;
	core_stats(d->core, &d->status.core);
	for (slot = 0; slot < members.nr; slot++) {
		const struct config_backup *c = &d->config.backups[slot];
		struct member *m = &members.member[slot];

		index = d->status.backups[slot].index;
		members_copy(m->name, sizeof(m->name), c->name);
		members_copy(m->domain, sizeof(m->domain), c->domain);
		name_path(d, c->path, full);
		members_copy(m->path, sizeof(m->path), full);
		members_copy(m->state, sizeof(m->state), status_backup_state(&d->status, slot));
		m->secret = c->key_line;
		m->incarnation = index < LSMEM_BACKUPS ? core_incarnation(d->core, index) : 0;
	}
	cluster_members(&d->cluster, &members);
}

/**
 * own - claim the store
 * @d: the daemon; without a cluster, only @uuid is kept and compared with "store ="
 * @uuid: of the store
 *
 * Logs errors.
 *
 * Return: a STATUS_*; STATUS_OK also if a signal has ended the wait for the ownership.
 */
int own(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES])
{
	char text[UUID_TEXT_BYTES];
	struct cluster_claim claim = {
		.uuid = text, .above = d->term, .take_over = d->options.take_over,
		.alone = !is_served(uuid), .progress = claim_progress, .found = claim_found,
	};
	uint64_t term = d->cluster.term;
	int err;

	claiming = d;
	memcpy(d->status.uuid, uuid, sizeof(d->status.uuid));
	uuid_text(uuid, text);
	if (*d->config.cluster.store && strcmp(d->config.cluster.store, text)) {
		log_err("%s:%u: store = %s: %s holds another store", d->options.config_path,
			d->config.cluster.store_line, d->config.cluster.store, d->where);
		return STATUS_REFUSED;
	}
	err = cluster_claim(&d->cluster, &claim);
	if (err == -EBUSY)
		frozen_lost(d);
	if (!err && d->cluster.term != term)
		compare(d);
	return claimed(err);
}

/**
 * own_look - read which host has the store, whatever daemon owns it
 * @d: the daemon, with a cluster; out: @taken of its cluster. Owns no store
 * @uuid: of the store
 *
 * Logs errors.
 *
 * Return: a STATUS_*; STATUS_OK also if a signal has ended the wait for etcd.
 */
int own_look(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES])
{
	char text[UUID_TEXT_BYTES];
	struct cluster_claim claim = { .uuid = text, .look = true, .progress = claim_progress };

	claiming = d;
	uuid_text(uuid, text);
	return claimed(cluster_claim(&d->cluster, &claim));
}

/**
 * own_consented - take the store from an owner that consents
 * @d: the daemon, with a cluster
 * @uuid: of the store
 * @consent: of the owner
 *
 * Repeat it, with the same @consent, until the result is not -EAGAIN: etcd may do a transaction whose answer was lost. No signal
 * ends it, for the same reason. Logs errors.
 *
 * Context: may sleep for more than the length of the lease.
 * Return: 0: this host has the store; -EAGAIN: etcd has not said so, and has not said the opposite; or another negative errno of
 * cluster_claim(): this host has not the store, and will not get it by this consent.
 */
int own_consented(struct lsmemd *d, const uint8_t uuid[LSMEM_UUID_BYTES], const struct cluster_consent *consent)
{
	char text[UUID_TEXT_BYTES];
	struct cluster_claim claim = { .uuid = text, .consent = consent, .found = claim_found };
	int err;

	claiming = d;
	memcpy(d->status.uuid, uuid, sizeof(d->status.uuid));
	uuid_text(uuid, text);
	err = cluster_claim(&d->cluster, &claim);
	return err == -EHOSTUNREACH ? -EAGAIN : err;
}

/**
 * owned - does this daemon still own the store?
 * @d: the daemon
 * @doing: for the message if not: what the daemon does not do any more
 *
 * Return: true: it does, or there is no cluster; false: it may not, which was logged.
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
