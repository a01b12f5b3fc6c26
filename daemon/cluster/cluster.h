/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who owns a store, where more than one host could: a lease in etcd, and an epoch.
 *
 *	/lsmem/stores/UUID/owner	JSON: who; goes with the owner's lease
 *	/lsmem/stores/UUID/epoch	a number; stays, and only rises
 *	/lsmem/stores/UUID/members	JSON: where its backups are (members.h); stays
 *
 * One transaction takes the store and raises the epoch.  So no two owners ever have the
 * same epoch, and of two that want the store at once one gets it.
 *
 * The owner believes that it is one until @until_ns: the time just before it asked for the
 * lease, or for its renewal, and what etcd granted, less a fifth.  So it has stopped before
 * etcd lets somebody else in, whatever delays an answer.  The clock goes on while the process or
 * the machine is suspended (CLOCK_BOOTTIME); the owner looks at it after the I/O that proves
 * something, and before it tells anybody.
 *
 * A renewal counts when the lease is alive and, after that, the owner's key still goes with it:
 * who takes a store over makes that key go with a lease that nobody renews and that is as long
 * as the old owner's.  Then it waits, as everybody does, until there is no such key.
 *
 * The owner alone writes the members: each time in a transaction that changes nothing unless
 * the owner's key goes with its lease, and the epoch is its own.  While that fails it is tried
 * after each renewal; nothing else waits for it, or depends on it.
 *
 * A thread renews and writes, and does nothing else; the daemon never waits for it but in
 * cluster_close().
 */
#ifndef LSMEMD_CLUSTER_H
#define LSMEMD_CLUSTER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "etcd.h"
#include "members.h"
#include "remote/wire.h"

#define CLUSTER_KEY_BYTES	80u

/**
 * struct cluster_options - the etcd that says who owns the store
 * @etcd: where it is
 * @host: name of this one, "": the system's
 */
struct cluster_options {
	struct etcd_options etcd;
	char host[WIRE_NAME];
};

/**
 * struct cluster_figures - what there is to tell of it
 * @host: who we are there; NULL: there is no cluster
 * @epoch: of our ownership
 * @left_ns: for which it is ours, if the lease is not renewed
 * @failures: calls to etcd without an answer
 * @stale: where the backups are, or how, is not in etcd yet
 */
struct cluster_figures {
	const char *host;
	uint64_t epoch, left_ns, failures;
	bool stale;
};

/**
 * struct cluster - what this daemon has in etcd
 * @options: NULL: there is no cluster, and the store is ours
 * @host, @boot: who we are, and since which boot of this host
 * @owner, @epoch_key, @members_key: the keys
 * @epoch: of our ownership; 0: there is none, and what follows does not matter
 * @known: etcd has known the store before: whoever is left of former owners may be fenced.
 *	Else who has its backups may be a daemon without a cluster
 * @lease, @seconds: ours, asked for at @asked_ns
 * @thread: renews until @etcd is stopped; @wake: it has something to do
 * @until_ns: the store is ours until then
 * @failing: the last renewal failed, as @failures have; @told: the operator knows
 * @lock: of @why, which tells of that, and @wanted
 * @members: as they were in etcd when the store was claimed
 * @wanted: as they are to be; @stale: they are not yet; @members_failed: as was told
 */
struct cluster {
	const struct cluster_options *options;
	struct etcd etcd;
	char host[WIRE_NAME], boot[40];
	char owner[CLUSTER_KEY_BYTES], epoch_key[CLUSTER_KEY_BYTES], members_key[CLUSTER_KEY_BYTES];
	uint64_t epoch;
	bool known;
	int64_t lease;
	unsigned int seconds;
	uint64_t asked_ns;
	pthread_t thread;
	sem_t wake;
	atomic_uint_least64_t until_ns, failures;
	atomic_bool failing;
	bool told;
	pthread_mutex_t lock;
	char why[ETCD_WHY_BYTES];
	struct members members, wanted;
	atomic_bool stale;
	int members_failed;
};

/**
 * struct cluster_claim - how a store is wanted
 * @uuid: which, as text
 * @look: not at all: only @members is wanted, whoever has it
 * @above: the epoch must be higher
 * @take_over: from an owner that is alive, too
 * @alone: the kernel of this host knows no daemon that serves it: if its owner was on this
 *	host, and is no process any more, its lease need not be waited for
 * @progress: as in struct backup_options
 */
struct cluster_claim {
	const char *uuid;
	uint64_t above;
	bool look, take_over, alone;
	int (*progress)(const char *what, uint64_t done, uint64_t all);
};

int cluster_open(struct cluster *cluster, const struct cluster_options *options);
int cluster_claim(struct cluster *cluster, const struct cluster_claim *claim);
void cluster_members(struct cluster *cluster, const struct members *members);
bool cluster_holds(const struct cluster *cluster);
void cluster_tell(const struct cluster *cluster, struct cluster_figures *figures);
void cluster_tick(struct cluster *cluster);
void cluster_why(struct cluster *cluster, char *text, size_t room);
void cluster_close(struct cluster *cluster);

#endif
