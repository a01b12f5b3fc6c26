// SPDX-License-Identifier: GPL-2.0
/*
 * Settings that change while the store is served: SIGHUP reads the configuration file again.
 *
 * A thread reads the file, because it may lie on a filesystem that waits for this daemon. The main
 * thread takes over the new configuration: it copies settings that can change into @config of
 * struct lsmemd, and logs those that cannot. A file with an error changes nothing.
 *
 * The port of the metrics is here as well, because it may open late: if another program has the
 * port, the daemon serves the store without metrics and tries again.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "lsmemd.h"
#include "base/notify.h"
#include "base/thread.h"

#define PORT_AGAIN_NS	2000000000u	/* between attempts to open the port of the metrics */

/**
 * struct reload - a reading of the configuration, by a thread, and the port of the metrics
 * @thread: the thread
 * @running: the thread was started and not joined yet
 * @over: the thread has ended, or is about to end
 * @path: of the file
 * @config: the configuration that the thread has read
 * @error: the message if the file has an error
 * @err: result of the thread: 0 or a negative errno
 * @port_due_ns: when to try the port of the metrics again; 0: it is open, or not configured
 * @port_err: error of opening the port that was logged last; 0: none
 */
static struct reload {
	pthread_t thread;
	bool running;
	atomic_bool over;
	const char *path;
	struct config config;
	char error[CONFIG_ERROR_BYTES];
	int err;
	uint64_t port_due_ns;
	int port_err;
} reload;

/* ---- The port of the metrics -------------------------------------------- */

/**
 * port_open - open the port of the metrics, or let reload_tick() try again later
 * @d: the daemon; the port is not open
 * @now: the time, by clock_now_ns()
 */
void port_open(struct lsmemd *d, uint64_t now)
{
	const struct config *c = &d->config;
	int err;

	reload.port_due_ns = 0;
	if (!c->metrics.listen_line)
		return;
	err = http_open(&d->http, (const struct sockaddr *)&c->metrics.address,
			c->metrics.length);
	if (!err) {
		log_notice("metrics are at http://%s/metrics", c->metrics.listen);
		reload.port_err = 0;
		return;
	}
	reload.port_due_ns = now + PORT_AGAIN_NS;
	if (err != reload.port_err)
		log_warn("%s:%u: listen = %s: %s%s; serving without metrics, and trying again each %u s",
			 d->options.config_path, c->metrics.listen_line, c->metrics.listen,
			 strerror(-err), err == -EADDRINUSE ?
			 "; another program has this port, each daemon needs its own" : "",
			 PORT_AGAIN_NS / 1000000000u);
	reload.port_err = err;
}

/* ---- The settings ------------------------------------------------------- */

/**
 * struct setting - a value in struct config, or in struct config_backup
 * @section: as in the file
 * @key: as in the file
 * @offset: of the value
 * @bytes: length of the value; the bytes after a string are zero
 * @line: offset of the number of its line, which is copied with the value
 * @live: the value can change while the store is served
 */
struct setting {
	const char *section, *key;
	size_t offset, bytes, line;
	bool live;
};

#define AT(section, key, type, member, line, live)						\
	{ section, key, offsetof(struct type, member), sizeof(((struct type *)0)->member),	\
	  offsetof(struct type, line), live }
#define VALUE(section, key, type, member, live)	AT(section, key, type, member, member##_line, live)
#define STORE(key, live)	VALUE("store", #key, config, store.key, live)
#define CLUSTER(key, member)	AT("cluster", #key, config, cluster.member, cluster.key##_line, false)
#define BACKUP(key, live)	VALUE("backup", #key, config_backup, key, live)

static const struct setting settings[] = {
	STORE(name, false),
	STORE(node, false),
	STORE(kind, false),
	AT("store", "size", config, store.bytes, store.size_line, false),
	STORE(capacity, false),
	STORE(handles, false),
	STORE(mode, false),
	{ "store", "owner", offsetof(struct config, store.uid),
	  offsetof(struct config, store.mode) - offsetof(struct config, store.uid),
	  offsetof(struct config, store.owner_line), false },
	STORE(charge, false),
	AT("store", "restart", config, store.instant, store.restart_line, false),
	AT("store", "warm", config, store.cold, store.warm_line, false),
	STORE(verify, false),
	STORE(replicas, false),
	STORE(min_replicas, false),
	STORE(code, false),
	STORE(min_parity, false),
	STORE(batch_us, true),
	STORE(copy_rate, false),
	STORE(convert_rate, true),
	STORE(rejoin, true),
	STORE(scrub, true),
	STORE(wait, true),
	VALUE("metrics", "listen", config, metrics.listen, true),
	CLUSTER(etcd, options.etcd.urls),
	CLUSTER(lease, options.etcd.lease),
	CLUSTER(host, options.host),
	CLUSTER(store, store),
	CLUSTER(secret, secret),
	CLUSTER(ca, options.etcd.ca),
	CLUSTER(cert, options.etcd.cert),
	CLUSTER(key, options.etcd.key),
	VALUE("move", "listen", config, move.listen, false),
	VALUE("move", "from", config, move.from, false),
	VALUE("move", "secret", config, move.secret, false),
	VALUE("move", "standby", config, move.standby, true),
	VALUE("move", "failover", config, move.failover, true),
	VALUE("move", "bring_rate", config, move.bring_rate, true),
};

/* Live changes count from the next request (timeout) or the next opening of the backup. */
static const struct setting backup_settings[] = {
	BACKUP(path, false),
	BACKUP(size, false),
	BACKUP(lock_wait, true),
	BACKUP(key, true),
	BACKUP(timeout, true),
	BACKUP(domain, false),
	AT("backup", "ack", config_backup, ack_memory, ack_line, false),
};

/* Copy the settings that can change, and log the others. Return: number of the others. */
static unsigned int take_settings(const struct setting *list, size_t nr, void *to,
				  const void *from, const char *path, const char *name)
{
	unsigned int refused = 0;
	size_t i;

	for (i = 0; i < nr; i++) {
		const struct setting *s = &list[i];
		const char *new = (const char *)from + s->offset;
		char *old = (char *)to + s->offset;
		unsigned int line;

		memcpy(&line, (const char *)from + s->line, sizeof(line));
		if (!memcmp(old, new, s->bytes)) {
			if (s->live)
				memcpy((char *)to + s->line, &line, sizeof(line));
			continue;
		}
		if (!s->live) {
			log_warn("%s:%u: [%s%s%s] %s: cannot change while the store is served, and keeps its value; restart lsmemd to change it",
				 path, line, s->section, *name ? " " : "", name, s->key);
			refused++;
			continue;
		}
		memcpy(old, new, s->bytes);
		memcpy((char *)to + s->line, &line, sizeof(line));
		log_notice("%s:%u: [%s%s%s] %s: changed", path, line, s->section,
			   *name ? " " : "", name, s->key);
	}
	return refused;
}

static bool same_backups(const struct config *a, const struct config *b)
{
	unsigned int i;

	if (a->nr_backups != b->nr_backups)
		return false;
	for (i = 0; i < a->nr_backups; i++)
		if (strcmp(a->backups[i].name, b->backups[i].name))
			return false;
	return true;
}

static void take(struct lsmemd *d, uint64_t now)
{
	struct config *new = &reload.config, *old = &d->config;
	const char *path = d->options.config_path;
	char listen[sizeof(old->metrics.listen)];
	unsigned int scrub = old->store.scrub, batch_us = old->store.batch_us, refused, i;

	if (new->server.listen_line) {
		log_warn("%s: describes a server of backups now: nothing is changed", path);
		return;
	}
	if (*old->cluster.store && !new->store.replicas_line)
		new->store.replicas = old->store.replicas;
	if (*old->cluster.store && !new->store.min_parity_line)
		new->store.min_parity = old->store.min_parity;
	if (*old->cluster.store && !new->store.min_replicas_line)
		new->store.min_replicas = old->store.min_replicas;
	memcpy(listen, old->metrics.listen, sizeof(listen));
	refused = take_settings(settings, sizeof(settings) / sizeof(settings[0]), old, new, path,
				"");
	/* With "store =" the backups come from etcd: the file has none. */
	if (!*old->cluster.store && !same_backups(old, new)) {
		log_warn("%s: the sections [backup] have other names or another order: their settings cannot change while the store is served; restart lsmemd to change them",
			 path);
		refused++;
	} else if (!*old->cluster.store) {
		for (i = 0; i < old->nr_backups; i++)
			refused += take_settings(backup_settings, sizeof(backup_settings) /
						 sizeof(backup_settings[0]), &old->backups[i],
						 &new->backups[i], path, old->backups[i].name);
	}
	if (strcmp(listen, old->metrics.listen)) {
		old->metrics.address = new->metrics.address;
		old->metrics.length = new->metrics.length;
		http_close(&d->http);
		reload.port_err = 0;
		port_open(d, now);
	}
	if (old->store.scrub != scrub)
		serve_scrub(d);
	if (old->store.batch_us != batch_us)
		serve_batch(d);
	warn_slow(d);
	log_notice("%s: read again; settings that keep their old value: %u", path, refused);
}

/* ---- The thread --------------------------------------------------------- */

static void *reload_run(void *context)
{
	struct reload *r = context;

	thread_begin();
	r->err = config_read(r->path, &r->config, r->error);
	r->over = true;
	return NULL;
}

/**
 * reload_tick - begin and end reloads, and open the port of the metrics
 * @d: the daemon, serving a store
 * @now: the time, by clock_now_ns()
 */
void reload_tick(struct lsmemd *d, uint64_t now)
{
	int err;

	if (reload.port_due_ns && now >= reload.port_due_ns)
		port_open(d, now);
	/* The thread of rejoin.c reads the configuration: change it between two attempts. */
	if (reload.running && reload.over && !rejoin_running()) {
		pthread_join(reload.thread, NULL);
		reload.running = false;
		if (reload.err)
			log_err("%s; nothing is changed", reload.error);
		else
			take(d, now);
		notify_send("READY=1");
	}
	if (!d->signals.reload || reload.running)
		return;
	d->signals.reload = false;
	notify_send("RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now / 1000);
	reload.path = d->options.config_path;
	reload.over = false;
	err = thread_start(&reload.thread, reload_run, &reload);	/* it sets reload.err */
	reload.running = !err;
	if (!err)
		return;
	log_err("%s: cannot be read again: %s", reload.path, strerror(-err));
	notify_send("READY=1");
}
