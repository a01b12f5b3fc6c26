/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ownership of a store that several hosts could serve: a lease in etcd, and a term.
 *
 *	/lsmem/stores/UUID/owner	JSON: the owner; deleted with the owner's lease
 *	/lsmem/stores/UUID/term	a number; stays, and only rises
 *	/lsmem/stores/UUID/taken	JSON: the owner that took the term, as in its key; stays
 *	/lsmem/stores/UUID/members	JSON: the store's backups (members.h); stays
 *
 * One transaction takes the store and raises the term. So no two owners ever have the same term,
 * and if two daemons want the store at the same time, one gets it. It also writes which host took the
 * term: so a daemon that finds the store in its kernel can tell, after all leases are over, whether another
 * host had it since (struct cluster_taken).
 *
 * The owner trusts its ownership until @until_ns: the time just before it asked for the lease or
 * the renewal, plus four fifths of the time that etcd granted. So it stops before etcd lets another
 * daemon in, however late an answer is. The clock, CLOCK_BOOTTIME, runs while the process or the
 * machine is suspended. The owner reads the clock after the I/O that makes bytes durable, and
 * before it acknowledges them.
 *
 * A renewal counts if the lease is alive and the owner's key is still attached to it. A daemon that
 * takes the store over attaches that key to a lease of the same length, which is never renewed, and
 * then waits, like every other daemon, until the key is gone.
 *
 * A migration does not wait: the owner consents, and names its term and the revision of its key. The
 * other host's transaction compares both. The owner takes its consent back by writing its key again:
 * so one of the two transactions fails.
 *
 * Only the owner writes the members, in a transaction whose condition is that the owner's key is
 * attached to its lease and the term is its own. A failed write is repeated after each renewal;
 * nothing waits for it or depends on it.
 *
 * A former owner may keep memory for the host that has the store now. It goes on asking which host that is, until it is
 * told to stop: cluster_look().
 *
 * A thread renews the lease, writes the members, and reads which host has the store. The daemon waits for this thread only
 * when it gives the ownership back.
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
 * struct cluster_options - the etcd that keeps the ownership of the store
 * @etcd: how to reach it
 * @host: name of this host; "": the system's host name
 */
struct cluster_options {
	struct etcd_options etcd;
	char host[WIRE_NAME];
};

/**
 * struct cluster_consent - an owner lets one other host take the store, at once (Documentation/migration.rst)
 * @term: of the owner
 * @revision: of the owner's key; the consent is void when the key has another one
 */
struct cluster_consent {
	uint64_t term;
	int64_t revision;
};

/**
 * struct cluster_taken - which host took a store's term, as etcd has it (Documentation/migration.rst, rule 4)
 * @term: the store's; 0: it never had an owner
 * @host: that took @term; "": not known, since an older daemon took it, or the key is not valid. That proves
 *	neither that the store in the kernel is the newest, nor that it is not
 * @here: it was this host, in this boot. A store in its kernel with the term @term, or the one before, is the
 *	newest
 * @owned: a daemon owns the store, or its lease is not over yet; not known to cluster_looked()
 */
struct cluster_taken {
	uint64_t term;
	char host[WIRE_NAME];
	bool here, owned;
};

/* The term of a frozen store whose owner needs it no more; etcd's revisions, of which terms are, are below 2^63. */
#define CLUSTER_LET_GO	UINT64_MAX

/* What etcd says of a frozen store in this host's kernel: cluster_frozen() */
enum cluster_image {
	CLUSTER_UNKNOWN,	/* not which host took the store */
	CLUSTER_NEWEST,		/* that no other host took it: its bytes are the newest, and no host has its consent */
	CLUSTER_FOLLOWED,	/* that another host took it next, which may read this memory */
	CLUSTER_PASSED,		/* that a host took it later, and got it from another one; or CLUSTER_LET_GO */
};

/**
 * struct cluster_figures - figures for the status and the metrics
 * @host: this host's name in etcd; NULL: no cluster is configured
 * @term: of this daemon's ownership
 * @left_ns: time until the ownership ends if the lease is not renewed
 * @failures: calls to etcd without an answer
 * @stale: etcd does not have the newest list of the backups yet
 */
struct cluster_figures {
	const char *host;
	uint64_t term, left_ns, failures;
	bool stale;
};

/**
 * struct cluster_prepared - what cluster_prepare() has for the next claim
 * @lease: id of a lease; 0: none
 * @asked_ns: when it was asked for, by CLOCK_BOOTTIME
 * @owner: revision of the owner's key; 0: nothing is known
 * @term: revision of the term's key
 * @taken: which host took the term
 */
struct cluster_prepared {
	int64_t lease;
	uint64_t asked_ns;
	int64_t owner, term;
	struct cluster_taken taken;
};

/**
 * struct cluster - the ownership of a store, and its keys in etcd
 * @options: NULL: no cluster is configured, and the daemon owns its store
 * @etcd: the client; only the thread uses it while the thread runs
 * @host: this host's name
 * @boot: id of this boot of the host
 * @owner: name of the owner's key
 * @term_key: name of the key with the term
 * @taken_key: name of the key that tells which host took the term
 * @members_key: name of the key with the members
 * @term: of this daemon's ownership; 0: it owns no store
 * @watching: cluster_watch() has started @thread
 * @taken: which host took the store's term, as the last claim has read it last; @taken.term is 0 if none has
 * @known: etcd knew the store before, so former owners may be fenced. Otherwise the holder of its
 *	backups may be a daemon without a cluster
 * @lease: id of this daemon's lease; 0: none
 * @prepared: for the next claim
 * @tried: consent of the last claim; @term is 0: it had none
 * @revision: of the owner's key, when it was last seen to be ours; 0: not known
 * @void_wanted: the thread is to write the owner's key again, so that its revision changes
 * @look_wanted: the thread is to read which host has the store
 * @seconds: length of the lease, the shortest that etcd has granted
 * @asked_ns: when the daemon asked for the lease, by CLOCK_BOOTTIME
 * @thread: renews the lease and writes the members, and reads which host has the store, until @etcd is stopped
 * @wake: posted when the thread has something to do
 * @until_ns: the daemon owns the store until then, by CLOCK_BOOTTIME
 * @failures: calls without an answer
 * @failing: the last renewal failed
 * @told: the last @failing that was logged
 * @lock: protects @why, @wanted, @looked and @seen
 * @why: why the last renewal failed
 * @looked: @seen answers the last cluster_look()
 * @seen: which host has the store
 * @members: as they were in etcd when the store was claimed
 * @wanted: the members that etcd should have
 * @stale: etcd does not have @wanted yet
 * @members_failed: error of the last attempt to write the members, a negative errno; the thread's
 * @look_failed: error of the last attempt to read which host has the store; likewise
 */
struct cluster {
	const struct cluster_options *options;
	struct etcd etcd;
	char host[WIRE_NAME], boot[40];
	char owner[CLUSTER_KEY_BYTES], term_key[CLUSTER_KEY_BYTES];
	char taken_key[CLUSTER_KEY_BYTES], members_key[CLUSTER_KEY_BYTES];
	uint64_t term;
	bool watching;
	struct cluster_taken taken;
	bool known;
	int64_t lease;
	struct cluster_prepared prepared;
	struct cluster_consent tried;
	atomic_int_least64_t revision;
	atomic_bool void_wanted, look_wanted;
	unsigned int seconds;
	uint64_t asked_ns;
	pthread_t thread;
	sem_t wake;
	atomic_uint_least64_t until_ns, failures;
	atomic_bool failing;
	bool told;
	pthread_mutex_t lock;
	char why[ETCD_WHY_BYTES];
	bool looked;
	struct cluster_taken seen;
	struct members members, wanted;
	atomic_bool stale;
	int members_failed, look_failed;
};

/**
 * struct cluster_claim - a claim to a store
 * @uuid: of the store, as text
 * @above: the term must be higher than this
 * @look: do not claim the store; only read @members, whatever daemon owns it
 * @take_over: fence an owner that is alive
 * @consent: of the owner, to take the store from it without a wait; NULL: none
 * @alone: this host's kernel knows no daemon that serves the store. If the owner was on this host
 *	and its process has ended, the claim does not wait for the end of its lease
 * @progress: as in struct backup_options
 * @found: called before each transaction that takes the store, also before a second one if the answer to the
 *	first was lost; NULL: none. If a transaction succeeds, what it was called with was so until then.
 *	Returns 0, or a negative errno that ends the claim, but not -EAGAIN or -EHOSTUNREACH
 */
struct cluster_claim {
	const char *uuid;
	uint64_t above;
	bool look, take_over, alone;
	const struct cluster_consent *consent;
	int (*progress)(const char *what, uint64_t done, uint64_t all);
	int (*found)(const struct cluster_taken *taken);
};

int cluster_open(struct cluster *cluster, const struct cluster_options *options);
enum cluster_image cluster_frozen(const struct cluster_taken *taken, uint64_t term);
void cluster_prepare(struct cluster *cluster, const char *uuid);
int cluster_claim(struct cluster *cluster, const struct cluster_claim *claim);
void cluster_members(struct cluster *cluster, const struct members *members);
bool cluster_holds(const struct cluster *cluster);
bool cluster_consent(const struct cluster *cluster, struct cluster_consent *consent);
bool cluster_void(struct cluster *cluster, const struct cluster_consent *consent);
void cluster_look(struct cluster *cluster);
int cluster_watch(struct cluster *cluster);
bool cluster_looked(struct cluster *cluster, struct cluster_taken *taken);
void cluster_tell(const struct cluster *cluster, struct cluster_figures *figures);
void cluster_tick(struct cluster *cluster);
void cluster_why(struct cluster *cluster, char *text, size_t room);
void cluster_close(struct cluster *cluster);

#endif
