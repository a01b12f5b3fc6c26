// SPDX-License-Identifier: GPL-2.0
/* The ownership of a store: see cluster.h. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <json-c/json.h>

#include "cluster.h"
#include "base/log.h"
#include "base/thread.h"

#define KEYS		"/lsmem/stores/"
#define NS_PER_S	((uint64_t)1000000000)
#define STEP_US		250000u		/* between attempts */
#define SLACK_S		5u		/* etcd may end a lease so much later */
#define TERM_MAX	(UINT64_MAX >> 1)

/**
 * struct seen - the owner and the term, as etcd has them
 * @owner: the owner's key; its @revision is 0 if there is no owner
 * @term: the key with the term
 * @host: of the owner
 * @boot: id of the boot of the owner's host
 * @pid: of the owner
 * @seconds: length of the owner's lease
 * @cut: the host that fenced the owner; "": none
 * @number: the owner's term
 * @highest: the store's term; 0: it never had an owner
 * @taken: which host took @highest
 */
struct seen {
	struct etcd_value owner, term;
	char host[WIRE_NAME], boot[40], cut[WIRE_NAME];
	pid_t pid;
	unsigned int seconds;
	uint64_t number, highest;
	struct cluster_taken taken;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* ---- What is in etcd --------------------------------------------------- */

/* Replace all but the characters of a host name in lsmemd.conf(5): JSON need not quote them. */
static void clean_text(char *text)
{
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr("._-", *text))
			*text = '?';
}

static void take_text(struct json_object *json, const char *key, char *text, size_t room)
{
	struct json_object *value;

	if (json_object_object_get_ex(json, key, &value) && json_object_get_string(value))
		snprintf(text, room, "%s", json_object_get_string(value));
	clean_text(text);
}

static int64_t number(struct json_object *json, const char *key)
{
	struct json_object *value;

	return json_object_object_get_ex(json, key, &value) ? json_object_get_int64(value) : 0;
}

/* Parse the owner. If its text is not valid, the store has an owner, but nothing is known of it. */
static void read_owner(struct seen *seen)
{
	struct json_object *json = json_tokener_parse(seen->owner.text);
	int64_t seconds;

	take_text(json, "host", seen->host, sizeof(seen->host));
	take_text(json, "boot", seen->boot, sizeof(seen->boot));
	take_text(json, "cut", seen->cut, sizeof(seen->cut));
	seen->pid = (pid_t)number(json, "pid");
	seen->number = (uint64_t)number(json, "term");
	seconds = number(json, "lease");
	json_object_put(json);
	seen->seconds = seconds >= ETCD_LEASE_MIN && seconds <= ETCD_LEASE_MAX ?
			(unsigned int)seconds : ETCD_LEASE_MAX;
}

/* The text that read_owner() parses. */
static void write_owner(char text[ETCD_TEXT_BYTES], const struct seen *who)
{
	snprintf(text, ETCD_TEXT_BYTES,
		 "{\"host\":\"%s\",\"boot\":\"%s\",\"pid\":%d,\"lease\":%u,\"term\":%" PRIu64 "%s%s%s}",
		 who->host, who->boot, who->pid, who->seconds, who->number,
		 *who->cut ? ",\"cut\":\"" : "", who->cut, *who->cut ? "\"" : "");
}

/*
 * Which host took the term? Only a key that was written in the transaction that wrote the term tells: an older
 * daemon leaves this key as it is, and so does an operator who corrects the term.
 */
static void read_taken(const struct cluster *c, struct seen *seen, const struct etcd_value *value)
{
	struct cluster_taken *taken = &seen->taken;
	struct json_object *json;
	char boot[40] = "";

	taken->term = seen->highest;
	if (value->revision != seen->term.revision)
		return;
	json = json_tokener_parse(value->text);
	take_text(json, "host", taken->host, sizeof(taken->host));
	take_text(json, "boot", boot, sizeof(boot));
	json_object_put(json);
	taken->here = *boot && !strcmp(boot, c->boot) && !strcmp(taken->host, c->host);
}

/* Parse the members. No owner can have written those of a term above @highest. */
static int read_members(struct cluster *c, const struct etcd_value *value, uint64_t highest)
{
	char error[MEMBERS_ERROR_BYTES];

	memset(&c->members, 0, sizeof(c->members));
	if (!value->revision)
		return 0;
	if (members_parse(value->text, &c->members, error)) {
		if (c->members.term <= highest)
			return 0;
		snprintf(error, sizeof(error), "term %" PRIu64 ", and that of the store is %" PRIu64,
			 c->members.term, highest);
	}
	log_err("etcd: %s: %s: not written by lsmemd; find out what has written it, then delete it with etcdctl del: the next owner writes it again",
		c->members_key, error);
	return -EBADMSG;
}

/* Parse the term, and which host took it. Return: 0 also if there is none; -EBADMSG: it is none. */
static int read_term(const struct cluster *c, struct seen *seen, const struct etcd_value *taken)
{
	char *end;

	if (!seen->term.revision)
		return 0;
	errno = 0;
	seen->highest = strtoull(seen->term.text, &end, 10);
	if (errno || *end || !seen->highest || seen->highest >= TERM_MAX)
		return -EBADMSG;
	read_taken(c, seen, taken);
	return 0;
}

static void tell_no_term(const struct cluster *c, const struct seen *seen)
{
	log_err("etcd: %s: \"%.32s\" is no term, and was not written by lsmemd; correct it with etcdctl put",
		c->term_key, seen->term.text);
}

static int look(struct cluster *c, struct seen *seen)
{
	const char *const keys[] = { c->members_key, c->owner, c->term_key, c->taken_key };
	struct etcd_value values[ETCD_KEYS];
	int err;

	memset(seen, 0, sizeof(*seen));
	err = etcd_get_all(&c->etcd, keys, ETCD_KEYS, values);
	if (err)
		return err;
	seen->owner = values[1];
	seen->term = values[2];
	if (seen->owner.revision)
		read_owner(seen);
	seen->taken.owned = seen->owner.revision;
	if (!read_term(c, seen, &values[3])) {
		c->taken = seen->taken;
		return read_members(c, &values[0], seen->highest);
	}
	tell_no_term(c, seen);
	return -EBADMSG;
}

/* ---- Taking a store ---------------------------------------------------- */

/* @asked_ns: out: when it was asked for. */
static int take_lease(struct cluster *c, int64_t *lease, uint64_t *asked_ns)
{
	uint64_t now = now_ns();
	unsigned int granted;
	int64_t id;
	int err = etcd_grant(&c->etcd, c->options->etcd.lease, &id, &granted);

	if (err)
		return err;
	*lease = id;
	*asked_ns = now;
	c->seconds = granted < c->options->etcd.lease ? granted : c->options->etcd.lease;
	return 0;
}

/* Is the lease that cluster_prepare() has taken for this claim, and nearly as long as a new one? */
static bool is_ahead(const struct cluster *c)
{
	return c->prepared.lease && now_ns() - c->prepared.asked_ns < c->seconds * NS_PER_S / 5;
}

static void set_owned(struct cluster *c, uint64_t term, int64_t revision)
{
	c->term = term;
	atomic_store(&c->revision, revision);
	atomic_store(&c->void_wanted, false);
}

/*
 * Become the owner. The store has no owner, its owner is a dead daemon of this host, or it has given
 * its consent. That is tried with one lease only: a transaction whose answer was lost may be done late, and
 * must not be taken for that of another host.
 */
static int take(struct cluster *c, const struct cluster_claim *claim, const struct seen *seen, uint64_t above)
{
	struct seen we = {
		.pid = getpid(), .number = 1 + (seen->highest > above ? seen->highest : above),
	};
	char owner[ETCD_TEXT_BYTES], term[24];
	int err = claim->found ? claim->found(&seen->taken) : 0;

	if (!err && !(claim->consent && c->lease)) {
		if (is_ahead(c)) {
			c->lease = c->prepared.lease;
			c->asked_ns = c->prepared.asked_ns;
		} else {
			err = take_lease(c, &c->lease, &c->asked_ns);
		}
	}
	if (err)
		return err;
	c->prepared.lease = 0;
	c->known = seen->term.revision;
	strcpy(we.host, c->host);
	strcpy(we.boot, c->boot);
	we.seconds = c->seconds;
	write_owner(owner, &we);
	snprintf(term, sizeof(term), "%" PRIu64, we.number);
	err = etcd_put(&c->etcd, (struct etcd_put[]) {
		{ .key = c->owner, .text = owner, .seen = seen->owner.revision, .lease = c->lease },
		{ .key = c->term_key, .text = term, .seen = seen->term.revision },
		{ .key = c->taken_key, .text = owner, .seen = ETCD_ANY },
	}, 3, NULL, 0);
	if (!err)
		set_owned(c, we.number, c->etcd.revision);
	return err;
}

/*
 * Fence the owner: attach its key to a new lease as long as its own. The owner cannot renew any
 * more, and its key ends with the new lease even if this daemon ends before.
 */
static int cut_off(struct cluster *c, struct seen *seen)
{
	char owner[ETCD_TEXT_BYTES];
	unsigned int granted;
	int64_t lease;
	int err;

	err = etcd_grant(&c->etcd, seen->seconds, &lease, &granted);
	if (err)
		return err;
	strcpy(seen->cut, c->host);
	write_owner(owner, seen);
	err = etcd_put(&c->etcd, &(struct etcd_put) {
		.key = c->owner, .text = owner, .seen = seen->owner.revision, .lease = lease,
	}, 1, NULL, 0);
	if (err)
		return err;
	log_notice("etcd: host %s is fenced, and may believe for up to %u s that it owns the store",
		   seen->host, seen->seconds);
	(void)etcd_revoke(&c->etcd, seen->owner.lease);	/* its next renewal fails */
	return 0;
}

/**
 * struct wait - the wait for the end of an owner's lease, or for an answer of etcd
 * @end_ns: when the wait ends, by CLOCK_BOOTTIME
 * @revision: of the owner's key: identifies the owner; 0: none yet
 * @since_ns: when the wait for this owner began
 * @first: seconds that its lease had left then
 * @said: the log has that etcd does not answer
 */
struct wait {
	uint64_t end_ns;
	int64_t revision;
	uint64_t since_ns;
	unsigned int first;
	bool said;
};

/* Return: -EBUSY: the owner has renewed its lease; -EAGAIN: it may be dead; or an error of etcd. */
static int wait_for_owner(struct cluster *c, const struct seen *seen, struct wait *wait)
{
	uint64_t now = now_ns();
	unsigned int left;
	int err = etcd_left(&c->etcd, seen->owner.lease, &left);

	if (err)
		return err;
	if (wait->revision != seen->owner.revision) {
		wait->revision = seen->owner.revision;
		wait->since_ns = now;
		wait->first = left;
		wait->end_ns = now + (2 * seen->seconds + SLACK_S) * NS_PER_S;
		log_notice("etcd: host %s owns the store, term %" PRIu64 "; waiting for the end of its lease, %u s",
			   seen->host, seen->number, left);
	}
	/* etcd may end the lease a little late. */
	if (left <= 1 || left + (now - wait->since_ns) / NS_PER_S <= wait->first + 1)
		return -EAGAIN;
	log_err("etcd: host %s owns the store, term %" PRIu64 ", and is alive: stop lsmemd there; if it cannot be reached, take the store over: see --take-over in lsmemd(8)",
		seen->host, seen->number);
	return -EBUSY;
}

/* Was the owner a daemon of this boot of this host, and has its process ended? */
static bool has_died(const struct cluster *c, const struct seen *seen)
{
	return !*seen->cut && !strcmp(seen->host, c->host) && !strcmp(seen->boot, c->boot) &&
	       seen->pid > 0 && kill(seen->pid, 0) && errno == ESRCH;
}

/*
 * Has cluster_prepare() seen what the owner has named, and was no transaction tried since?  Then a transaction that succeeds finds
 * all as it was then: it compares the revisions of owner and term, with which the host that took it was written.
 */
static bool is_seen(struct cluster *c, const struct cluster_claim *claim, struct seen *seen)
{
	const struct cluster_prepared *prepared = &c->prepared;
	bool same = claim->consent && !c->lease && prepared->owner && prepared->owner == claim->consent->revision &&
		    prepared->taken.term == claim->consent->term;

	memset(seen, 0, sizeof(*seen));
	if (same) {
		seen->owner.revision = prepared->owner;
		seen->term.revision = prepared->term;
		seen->highest = prepared->taken.term;
		seen->taken = c->taken = prepared->taken;
	}
	c->prepared.owner = 0;
	return same;
}

/* Return: 0: done; -EAGAIN, -EHOSTUNREACH: try again; or another error of cluster_claim(). */
static int try_claim(struct cluster *c, const struct cluster_claim *claim, uint64_t above,
		     struct wait *wait)
{
	struct seen seen;
	int err;

	if (is_seen(c, claim, &seen))
		return take(c, claim, &seen, above);
	err = look(c, &seen);
	if (err || claim->look)
		return err;
	if (c->lease && seen.owner.lease == c->lease) {
		set_owned(c, seen.number, seen.owner.revision);	/* take()'s answer was lost */
		return 0;
	}
	/* With what the owner has named, not with what etcd has now: it may have taken its consent back. */
	if (claim->consent)
		return seen.owner.revision == claim->consent->revision &&
		       seen.highest == claim->consent->term ? take(c, claim, &seen, above) : -ESTALE;
	if (!seen.owner.revision || (claim->alone && has_died(c, &seen)))
		return take(c, claim, &seen, above);
	if (!claim->take_over || *seen.cut)
		return wait_for_owner(c, &seen, wait);
	err = cut_off(c, &seen);
	return err ? err : -EAGAIN;
}

static int keep_trying(struct cluster *c, const struct cluster_claim *claim, uint64_t above)
{
	struct wait wait = { .end_ns = now_ns() + (c->options->etcd.lease + SLACK_S) * NS_PER_S };
	int err, stop;

	for (;;) {
		err = try_claim(c, claim, above, &wait);
		if (err != -EAGAIN && err != -EHOSTUNREACH)
			return err;
		if (now_ns() >= wait.end_ns)
			break;
		if (err == -EHOSTUNREACH && !wait.said)
			log_warn("etcd: %s; asking again", c->etcd.why);
		wait.said |= err == -EHOSTUNREACH;
		stop = claim->progress ? claim->progress("waited", 0, 0) : 0;
		if (stop)
			return stop;
		usleep(STEP_US);
	}
	if (err == -EAGAIN) {
		log_err("etcd: %s does not become free", c->owner);
		return -EBUSY;
	}
	log_err("etcd: %s; without etcd the owner of the store is not known", c->etcd.why);
	return err;
}

/* ---- Keeping it -------------------------------------------------------- */

/* Own the store for four fifths of the granted time: the rest is for clocks that differ. */
static void extend(struct cluster *c, uint64_t from_ns)
{
	atomic_store(&c->until_ns, from_ns + c->seconds * NS_PER_S / 5 * 4);
}

static void explain(struct cluster *c, const char *format, const char *what)
{
	pthread_mutex_lock(&c->lock);
	snprintf(c->why, sizeof(c->why), format, what);
	pthread_mutex_unlock(&c->lock);
}

static int renew(struct cluster *c)
{
	uint64_t from_ns = now_ns();
	struct seen seen = { .seconds = 0 };
	unsigned int granted;
	int64_t raft_term;
	int err;

	err = etcd_renew(&c->etcd, c->lease, &granted);
	raft_term = c->etcd.raft_term;
	if (err == -ENOENT)
		explain(c, "%s", "the lease has expired, or was revoked");
	/* A daemon that fenced this one may have failed to revoke the lease as well. */
	if (!err)
		err = etcd_get(&c->etcd, c->owner, &seen.owner);
	/*
	 * A member of etcd that does not know the new leader yet may renew a lease that the leader
	 * lets expire (etcd before 3.4.31 and 3.5.13). A quorum answers the read of the key, so its
	 * Raft term is current: if the renewal has another one, it does not count.
	 */
	if (!err && c->etcd.raft_term != raft_term) {
		snprintf(c->etcd.why, sizeof(c->etcd.why), "an election just now");
		err = -EHOSTUNREACH;
	}
	if (!err && seen.owner.lease != c->lease) {
		read_owner(&seen);
		explain(c, "host %s has taken it", *seen.cut ? seen.cut : seen.host);
		err = -ENOENT;
	}
	if (err == -EHOSTUNREACH)
		explain(c, "%s", c->etcd.why);
	if (err)
		return err;
	atomic_store(&c->revision, seen.owner.revision);
	if (granted < c->seconds)
		c->seconds = granted;
	extend(c, from_ns);
	return 0;
}

/* Write the owner's key again: consent to its former revision is void. The next renewal tells whether it is done. */
static void void_consent(struct cluster *c)
{
	int64_t revision = atomic_load(&c->revision);
	struct etcd_value owner;
	int err = etcd_get(&c->etcd, c->owner, &owner);

	if (!err && owner.lease == c->lease && owner.revision == revision)
		err = etcd_put(&c->etcd, &(struct etcd_put) {
			.key = c->owner, .text = owner.text, .seen = revision, .lease = c->lease,
		}, 1, NULL, 0);
	if (!err)
		atomic_store(&c->void_wanted, false);
	atomic_fetch_add(&c->failures, err == -EHOSTUNREACH);
}

/* Read which host has the store; until it is known, the next round reads again. */
static void look_up(struct cluster *c)
{
	const char *const keys[] = { c->term_key, c->taken_key };
	struct seen seen = { .seconds = 0 };
	struct etcd_value values[2];
	int err;

	atomic_store(&c->look_wanted, false);
	err = etcd_get_all(&c->etcd, keys, 2, values);
	atomic_fetch_add(&c->failures, err == -EHOSTUNREACH);
	if (!err) {
		seen.term = values[0];
		err = read_term(c, &seen, &values[1]);
	}
	if (err == -EBADMSG && c->look_failed != err)
		tell_no_term(c, &seen);
	c->look_failed = err;
	if (err) {
		atomic_store(&c->look_wanted, true);
		return;
	}
	pthread_mutex_lock(&c->lock);
	c->seen = seen.taken;
	c->looked = true;
	pthread_mutex_unlock(&c->lock);
}

static bool same(const struct members *a, const struct members *b)
{
	return a->term == b->term && a->nr == b->nr &&
	       !memcmp(a->member, b->member, sizeof(a->member));
}

/* Write the members. This fails if another host owns the store; the next renewal finds that out. */
static void put_members(struct cluster *c)
{
	char term[24], text[MEMBERS_TEXT_BYTES];
	struct members members;
	int err;

	pthread_mutex_lock(&c->lock);
	members = c->wanted;
	pthread_mutex_unlock(&c->lock);
	snprintf(term, sizeof(term), "%" PRIu64, c->term);
	members_print(&members, text);
	err = etcd_put(&c->etcd, &(struct etcd_put) {
		.key = c->members_key, .text = text, .seen = ETCD_ANY,
	}, 1, (struct etcd_guard[]) {
		{ .key = c->owner, .lease = c->lease },
		{ .key = c->term_key, .text = term },
	}, 2);
	atomic_fetch_add(&c->failures, err == -EHOSTUNREACH);
	if (err && !c->members_failed)
		log_warn("etcd: %s: cannot be written: %s; trying again", c->members_key,
			 err == -EAGAIN ? "another host owns the store" : c->etcd.why);
	else if (!err && c->members_failed)
		log_notice("etcd: %s: written", c->members_key);
	c->members_failed = err;
	if (err)
		return;
	pthread_mutex_lock(&c->lock);
	atomic_store(&c->stale, !same(&members, &c->wanted));
	pthread_mutex_unlock(&c->lock);
}

/* Not, or not any more, an owner: only look, until @etcd is stopped. */
static void *watch(void *context)
{
	struct cluster *c = context;
	struct timespec next;

	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &next);
		next.tv_sec++;
		if (!sem_clockwait(&c->wake, CLOCK_MONOTONIC, &next) &&
		    atomic_load(&c->etcd.stop))
			return NULL;
		if (atomic_load(&c->look_wanted))
			look_up(c);
	}
}

static void *watch_only(void *context)
{
	thread_begin();
	return watch(context);
}

static void *keep(void *context)
{
	struct cluster *c = context;
	struct timespec next;
	uint64_t wait_ns;
	int err = 0;

	thread_begin();
	while (err != -ENOENT) {
		/* Renew five times during a lease; after a failure, five times as often. */
		wait_ns = c->seconds * NS_PER_S / 5 / (err ? 5 : 1);
		clock_gettime(CLOCK_MONOTONIC, &next);
		if (!err && atomic_load(&c->stale))
			put_members(c);
		next.tv_sec += (time_t)((next.tv_nsec + wait_ns) / NS_PER_S);
		next.tv_nsec = (long)((next.tv_nsec + wait_ns) % NS_PER_S);
		if (!sem_clockwait(&c->wake, CLOCK_MONOTONIC, &next) &&
		    atomic_load(&c->etcd.stop))
			return NULL;
		if (atomic_load(&c->void_wanted))
			void_consent(c);
		err = renew(c);
		atomic_store(&c->failing, err);
		atomic_fetch_add(&c->failures, err == -EHOSTUNREACH);
		if (atomic_load(&c->look_wanted))
			look_up(c);
	}
	atomic_store(&c->until_ns, 0);
	return watch(c);	/* a former owner */
}

/**
 * cluster_members - set the members that etcd should have
 * @cluster: open, or zero; without a claim nothing is written
 * @members: with the term of @cluster; unused bytes are zero
 *
 * Does not wait: the thread writes them.
 *
 * Context: the main thread.
 */
void cluster_members(struct cluster *cluster, const struct members *members)
{
	/* Only this thread changes @wanted. */
	if (!cluster->term || same(&cluster->wanted, members))
		return;
	pthread_mutex_lock(&cluster->lock);
	cluster->wanted = *members;
	atomic_store(&cluster->stale, true);
	pthread_mutex_unlock(&cluster->lock);
	sem_post(&cluster->wake);
}

/**
 * cluster_holds - does this daemon own the store now?
 * @cluster: open, or zero
 *
 * Bytes that were durable before this call may be acknowledged after it, even if much later.
 *
 * Context: any thread.
 * Return: true: the daemon owns the store, or it has claimed none.
 */
bool cluster_holds(const struct cluster *cluster)
{
	return !cluster->term || now_ns() < atomic_load(&cluster->until_ns);
}

/**
 * cluster_consent - let one other host take the store, at once
 * @cluster: open
 * @consent: out: for that host. The caller serves nothing any more until cluster_void() returns true
 *
 * Context: the main thread.
 * Return: false: there is nothing to consent to, or it is not known yet: the daemon owns no store, or
 * its key has not been read since it got the store.
 */
bool cluster_consent(const struct cluster *cluster, struct cluster_consent *consent)
{
	consent->term = cluster->term;
	consent->revision = atomic_load(&cluster->revision);
	return cluster->term && consent->revision && cluster_holds(cluster);
}

/**
 * cluster_void - take a consent back
 * @cluster: open
 * @consent: from cluster_consent()
 *
 * Does not wait: the thread writes to etcd. The caller calls again until the result is true, or
 * cluster_holds() is false: then another host may have the store.
 *
 * Context: the main thread.
 * Return: true: no host can take the store by this consent any more.
 */
bool cluster_void(struct cluster *cluster, const struct cluster_consent *consent)
{
	if (atomic_load(&cluster->revision) != consent->revision)
		return true;
	if (!atomic_exchange(&cluster->void_wanted, true))
		sem_post(&cluster->wake);
	return false;
}

/**
 * cluster_look - ask which host has the store
 * @cluster: has owned the store, and may not own it any more; or after cluster_watch()
 *
 * Does not wait: the thread reads etcd, until it has an answer, also when the ownership is over. Until cluster_looked() has
 * been true do not ask again: the answer could be older than the question.
 *
 * Context: the main thread.
 */
void cluster_look(struct cluster *cluster)
{
	pthread_mutex_lock(&cluster->lock);
	cluster->looked = false;
	pthread_mutex_unlock(&cluster->lock);
	atomic_store(&cluster->look_wanted, true);
	sem_post(&cluster->wake);
}

/**
 * cluster_looked - which host has the store?
 * @cluster: open
 * @taken: out, if etcd has answered: which host took the term that the store had then
 *
 * Context: the main thread; takes @cluster->lock.
 * Return: true: etcd has answered the last cluster_look(); false: not yet.
 */
bool cluster_looked(struct cluster *cluster, struct cluster_taken *taken)
{
	bool looked;

	pthread_mutex_lock(&cluster->lock);
	looked = cluster->looked;
	*taken = cluster->seen;
	pthread_mutex_unlock(&cluster->lock);
	return looked;
}

/**
 * cluster_tell - get the figures of the ownership
 * @cluster: open, or zero
 * @figures: out
 */
void cluster_tell(const struct cluster *cluster, struct cluster_figures *figures)
{
	uint64_t now = now_ns(), until = atomic_load(&cluster->until_ns);

	figures->host = cluster->options ? cluster->host : NULL;
	figures->term = cluster->term;
	figures->left_ns = until > now ? until - now : 0;
	figures->failures = atomic_load(&cluster->failures);
	figures->stale = atomic_load(&cluster->stale);
}

/**
 * cluster_why - tell why the daemon may not own the store any more
 * @cluster: open
 * @text: out
 * @room: bytes at @text
 *
 * Context: any thread; takes @cluster->lock.
 */
void cluster_why(struct cluster *cluster, char *text, size_t room)
{
	pthread_mutex_lock(&cluster->lock);
	snprintf(text, room, "%s", *cluster->why ? cluster->why :
		 "the daemon was delayed for longer than its lease");
	pthread_mutex_unlock(&cluster->lock);
}

/**
 * cluster_tick - log that renewals fail, or succeed again
 * @cluster: open, or zero
 *
 * Context: the main thread, every second or so.
 */
void cluster_tick(struct cluster *cluster)
{
	bool failing = atomic_load(&cluster->failing);
	struct cluster_figures figures;
	char why[ETCD_WHY_BYTES];

	if (failing == cluster->told)
		return;
	cluster->told = failing;
	cluster_tell(cluster, &figures);
	cluster_why(cluster, why, sizeof(why));
	if (failing)
		log_warn("etcd: %s; the store is ours for %" PRIu64 " s more", why,
			 figures.left_ns / NS_PER_S);
	else
		log_notice("etcd: answers again");
}

/* ---- Life -------------------------------------------------------------- */

/**
 * cluster_open - prepare the client of etcd
 * @cluster: out
 * @options: must stay until cluster_close()
 *
 * Asks etcd nothing yet. Logs why it fails.
 *
 * Return: 0 or a negative errno, as etcd_open().
 */
int cluster_open(struct cluster *cluster, const struct cluster_options *options)
{
	size_t n = 0;
	FILE *f;
	int err;

	memset(cluster, 0, sizeof(*cluster));
	err = etcd_open(&cluster->etcd, &options->etcd);
	if (err)
		return err;
	cluster->options = options;
	strcpy(cluster->host, options->host);
	if (!*cluster->host)
		(void)gethostname(cluster->host, sizeof(cluster->host) - 1);
	clean_text(cluster->host);
	f = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (f) {
		n = fread(cluster->boot, 1, 36, f);
		fclose(f);
	}
	if (n != 36)
		log_warn("boot_id: cannot be read; a daemon that is started again after a crash waits for the end of its lease");
	pthread_mutex_init(&cluster->lock, NULL);
	sem_init(&cluster->wake, 0, 0);
	return 0;
}

/**
 * cluster_frozen - is the frozen store in this host's kernel the newest? (Documentation/migration.rst, rules 4 and 8)
 * @taken: what etcd says
 * @term: of the owner when the store was frozen, or what a claim of this host has read since (CURRENT), or CLUSTER_LET_GO
 *
 * A claim of this host changes the term. So it gives the store the term before it, or drops it: the next daemon finds one
 * that has the term, or the one before, which are both of this host if the later one is.
 *
 * Return: what is known.
 */
enum cluster_image cluster_frozen(const struct cluster_taken *taken, uint64_t term)
{
	if (term == CLUSTER_LET_GO)
		return CLUSTER_PASSED;
	/* The last: by a name that this host had before. */
	if (!*taken->host || taken->term < term || (taken->term == term && !taken->here))
		return CLUSTER_UNKNOWN;
	if (taken->here)
		return taken->term - term <= 1 ? CLUSTER_NEWEST : CLUSTER_PASSED;
	return taken->term - term == 1 ? CLUSTER_FOLLOWED : CLUSTER_PASSED;
}

/* Give the ownership back: end the call under way, a second or so, and revoke the lease. */
static void release(struct cluster *c)
{
	if (!c->term && !c->watching)
		return;
	etcd_stop(&c->etcd, true);
	sem_post(&c->wake);
	pthread_join(c->thread, NULL);
	etcd_stop(&c->etcd, false);
	while (!sem_trywait(&c->wake))
		;
	c->watching = false;
	if (!c->term)
		return;
	if (etcd_revoke(&c->etcd, c->lease))
		log_warn("etcd: %s; the store is free in %u s", c->etcd.why, c->seconds);
	c->term = 0;
	c->lease = 0;
	atomic_store(&c->stale, false);
}

static void name_keys(struct cluster *c, const char *uuid)
{
	snprintf(c->owner, sizeof(c->owner), KEYS "%s/owner", uuid);
	snprintf(c->term_key, sizeof(c->term_key), KEYS "%s/term", uuid);
	snprintf(c->taken_key, sizeof(c->taken_key), KEYS "%s/taken", uuid);
	snprintf(c->members_key, sizeof(c->members_key), KEYS "%s/members", uuid);
}

/**
 * cluster_prepare - get ready for a claim with consent that is to be fast
 * @cluster: open, or zero; it owns no store
 * @uuid: of the store, as text; the next claim is to it
 *
 * Takes a lease, which the claim uses if it comes within a fifth of the lease's length, and reads what the claim would read first,
 * which it does not read again if it still is what the owner has consented to. An error is none: the claim does both.
 *
 * Context: the main thread; sleeps, two fifths of the lease at most.
 */
void cluster_prepare(struct cluster *cluster, const char *uuid)
{
	struct cluster_prepared *prepared = &cluster->prepared;
	struct seen seen;

	if (!cluster->options || cluster->term)
		return;
	name_keys(cluster, uuid);
	prepared->owner = 0;
	if (take_lease(cluster, &prepared->lease, &prepared->asked_ns) || look(cluster, &seen))
		return;
	prepared->owner = seen.owner.revision;
	prepared->term = seen.term.revision;
	prepared->taken = seen.taken;
}

/**
 * cluster_claim - become the owner of a store
 * @cluster: open, or zero: then nothing is done. If it owns another store, it gives that back
 * @claim: which store, and how
 *
 * Fills @cluster->members from etcd, also if @claim->look only reads them. After a claim a thread
 * renews the lease. Logs why it fails.
 *
 * Context: the main thread; may sleep for more than twice the owner's lease.
 * Return: 0; -EBUSY: another owner is alive, or the store does not become free; -ESTALE: @claim->consent
 * is void; -EHOSTUNREACH: etcd does not answer, and a transaction may be done yet: the next claim with the same consent
 * finds that out; -EBADMSG: a key has an invalid value; another error that
 * @claim->progress, @claim->found or thread_start() returned.
 */
int cluster_claim(struct cluster *cluster, const struct cluster_claim *claim)
{
	uint64_t above = claim->above > cluster->term ? claim->above : cluster->term;
	char owner[CLUSTER_KEY_BYTES];
	int err;

	if (!cluster->options)
		return 0;
	snprintf(owner, sizeof(owner), KEYS "%s/owner", claim->uuid);
	if (cluster->term && !strcmp(owner, cluster->owner) && !claim->consent)
		return 0;
	release(cluster);
	if (strcmp(owner, cluster->owner))
		cluster->prepared.owner = 0;
	name_keys(cluster, claim->uuid);
	/* A transaction of an earlier claim with this consent may have been done, or may be done yet: see take(). */
	if (!claim->consent || memcmp(claim->consent, &cluster->tried, sizeof(cluster->tried)))
		cluster->lease = 0;
	cluster->tried = claim->consent ? *claim->consent : (struct cluster_consent){ .term = 0 };
	memset(&cluster->taken, 0, sizeof(cluster->taken));
	err = keep_trying(cluster, claim, above);
	if (err || claim->look)
		return err;
	extend(cluster, cluster->asked_ns);
	atomic_store(&cluster->failing, false);
	err = thread_start(&cluster->thread, keep, cluster);
	if (err) {
		log_err("no thread for etcd: %s", strerror(-err));
		(void)etcd_revoke(&cluster->etcd, cluster->lease);
		cluster->term = 0;
		return err;
	}
	log_notice("etcd: the store is ours (host %s), term %" PRIu64 ", lease of %u s",
		   cluster->host, cluster->term, cluster->seconds);
	return 0;
}

/**
 * cluster_watch - be able to ask which host has a store that this daemon does not own
 * @cluster: cluster_claim() has failed with -EBUSY
 *
 * From now on cluster_look() can be called, until cluster_close(). Logs why it fails.
 *
 * Return: 0 or a negative errno of thread_start().
 */
int cluster_watch(struct cluster *cluster)
{
	int err = thread_start(&cluster->thread, watch_only, cluster);

	cluster->watching = !err;
	if (err)
		log_err("no thread for etcd: %s", strerror(-err));
	return err;
}

/**
 * cluster_close - give the ownership back and close the client
 * @cluster: open, or zero
 *
 * Context: no write to a backup is in flight any more; waits for the thread.
 */
void cluster_close(struct cluster *cluster)
{
	if (!cluster->options)
		return;
	release(cluster);
	sem_destroy(&cluster->wake);
	pthread_mutex_destroy(&cluster->lock);
	etcd_close(&cluster->etcd);
	cluster->options = NULL;
}
