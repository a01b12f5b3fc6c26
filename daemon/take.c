// SPDX-License-Identifier: GPL-2.0
/*
 * The target of a migration: move/target.h decides, and this file does what it says, in etcd, on the backups, in the kernel
 * and, by remote/move_caller.h, to the source. Documentation/migration.rst, The target's daemon.
 *
 *	take_attempt()		at a start, before the backups are held: until this host has the store, or it is as without a
 *				move (standby.c)
 *	take_told()		for the recovery: what the source has told
 *	take_stale()		.. and it does not count
 *	take_served()		the store is served
 *	take_run(), take_tick()	in the steady state, until the source knows that nothing is needed from it
 *	take_pull(), take_bulk()	for serve_fetch.c: what is read from the source's memory meanwhile
 *	take_close()		the end
 *
 * The backups are read beside the source's daemon, before anything is asked of it, and again for the newest digest; they are
 * held, and the source is fenced, when this host has the store. What is asked for in the beginning is read from the source's
 * memory (move/pull.h), and behind it all that has room here (move/bulk.h); all else comes from the backups.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/notify.h"
#include "base/secret.h"
#include "lsmemd.h"
#include "made.h"
#include "move/bulk.h"
#include "move/pull.h"
#include "move/target.h"
#include "remote/move_caller.h"

#define MS		1000000u
#define SAY_NS		1000000000ull	/* between messages of progress */
#define AGAIN_S		5u		/* standby: between two attempts */
#define READ_MEMORY	((size_t)PULL_MEMORY + BULK_MEMORY)

/**
 * struct take - the target
 * @d: the daemon; NULL: there is no move
 * @target: decides
 * @caller: the connection
 * @super: of the backups
 * @frames: that the backups have
 * @key: the secret of moves
 * @tick: timer, until the store is recovered
 * @ticking: @tick is running
 * @prepared: cluster_prepare() was called
 * @wants_digest: the newest digest is to be read
 * @wants_take: the transaction is to be done, with @consent
 * @consent: of the source
 * @told: for the recovery; NULL: from the backups
 * @made: the store in this kernel
 * @memory: for what is read there
 * @pull: reads the source's memory, by @target's @known, when the kernel asks; NULL: nothing is read there
 * @bulk: .. all of it; NULL with @pull
 * @bringing: the kernel was not told yet that no more comes by @bulk
 * @pull_error: why its memory could not be registered, a negative errno, and is not tried again; 0: it was, or is to be
 * @all: nothing of the store is on the backups alone
 * @here: the source is only told that nothing is needed from it: this host had the store at its start, or begins without a move
 * @moved_ns: when MOVE was said, by clock_now_ns(); 0: it was not
 * @ended_ns: when the store was served, or the move given up, likewise
 * @said: TARGET_ASK_MOST_S is over, and it is in the log
 * @stood: the host stands by, and it is in the log
 * @read_again: the backups were read once more, since an operator wants the move
 */
struct take {
	struct lsmemd *d;
	struct target target;
	struct move_caller caller;
	struct lsmem_super super;
	uint32_t frames;
	struct secret key;
	struct loop_timer tick;
	bool ticking;
	bool prepared;
	bool wants_digest, wants_take;
	struct cluster_consent consent;
	const struct recover_told *told;
	struct made made;
	void *memory;
	struct pull *pull;
	struct bulk *bulk;
	bool bringing;
	int pull_error;
	bool all;
	bool here;
	uint64_t moved_ns, ended_ns;
	bool said;
	bool stood, read_again;
};

static struct take the_take;

static struct take *of_target(const struct target *target)
{
	return (struct take *)((char *)target - offsetof(struct take, target));
}

static struct take *of_connection(const struct move_target *connection)
{
	return of_target(target_of(connection));
}

static struct take *of_caller(struct move_caller *caller)
{
	return (struct take *)((char *)caller - offsetof(struct take, caller));
}

/* ---- The connection ------------------------------------------------------------- */

static void do_connect(struct target *target)
{
	move_caller_connect(&of_target(target)->caller);
}

static int do_slots(struct move_target *connection)
{
	return move_caller_slots(&of_connection(connection)->caller);
}

static void do_send(struct move_target *connection, const union wire_message *message)
{
	move_caller_send(&of_connection(connection)->caller, message);
}

static void do_read(struct move_target *connection, uint32_t slot, uint32_t length, uint64_t address, uint32_t key)
{
	move_caller_read(&of_connection(connection)->caller, slot, length, address, key);
}

static void do_end(struct move_target *connection, const char *why)
{
	move_caller_end(&of_connection(connection)->caller, why);
}

static void connected(struct move_caller *caller, const struct session_setup *setup)
{
	target_connected(&of_caller(caller)->target, setup);
}

static void pulled(struct move_caller *caller, uint32_t tag)
{
	struct take *t = of_caller(caller);

	if (tag < PULL_TAGS)
		pull_done(t->pull, tag);
	else
		bulk_done(t->bulk, tag - PULL_TAGS);
}

static void gone(struct move_caller *caller, const char *why)
{
	struct take *t = of_caller(caller);

	if (t->pull) {
		pull_cut(t->pull);
		bulk_cut(t->bulk);
	}
	target_gone(&t->target, why);
}

static const struct move_caller_user caller_user = { .connected = connected, .pulled = pulled, .gone = gone };

/* ---- The backups, read beside the source's daemon --------------------------------- */

static void look_report(void *context, enum recover_severity severity, const char *text)
{
	(void)severity;
	log_debug("%s: while its owner may write to it: %s", ((struct lsmemd *)context)->where, text);
}

/* Nothing relies on what is read here to be durable: the recovery reads it again. */
static int look_flush(void *context, uint32_t slot)
{
	(void)context;
	(void)slot;
	return 0;
}

/* Read the newest digest. Return: a recovery, for recover_free(); NULL: @err says why not. */
static struct recover *read_digest(struct lsmemd *d, int *err)
{
	struct recover_env env;
	enum recover_state state;
	struct recover *r;

	restore_env(d, &env);
	env.report = look_report;
	env.flush = look_flush;
	r = recover_new(&env);
	if (!r) {
		*err = -ENOMEM;
		return NULL;
	}
	*err = recover_open(r, &state);
	if (!*err && state != RECOVER_FULL)
		*err = -ENODATA;
	if (!*err)
		*err = recover_map(r, d->options.accept_missing);
	if (!*err)
		return r;
	recover_free(r);
	return NULL;
}

/* ---- The store ---------------------------------------------------------------------- */

/* The geometry was compared with the configuration before the source was asked (look()). */
static int is_store(struct target *target, const struct move_store *store)
{
	struct take *t = of_target(target);
	const char *where = t->d->where;

	if (memcmp(store->uuid, t->super.uuid, sizeof(store->uuid))) {
		log_err("host %s: its store %s is not the one on %s", t->d->config.move.from.host, target->call.name, where);
		return -EXDEV;
	}
	if (store->indices != format_indices(&t->super) ||
	    (uint64_t)store->seglets * LSMEM_SEGLET_BYTES != le64toh(t->super.store_bytes)) {
		log_err("host %s: its store %s is not of the size that %s says", t->d->config.move.from.host,
			target->call.name, where);
		return -EINVAL;
	}
	if (target->term)
		return 0;
	target->known = known_new(store->indices, t->frames);
	if (!target->known) {
		log_err("no memory for what the source tells of the store");
		return -ENOMEM;
	}
	made_knows(&t->made, target->known);
	log_hush(false);	/* of standby.c */
	log_notice("%s: host %s has store %s, term %" PRIu64 ": reading what it has", where, t->d->config.move.from.host,
		   target->call.name, store->term);
	return 0;
}

/* What this host has no memory or no name for, it must not take (MADE_FIRST). If little is left to be told, MOVE follows. */
static int is_made(struct target *target)
{
	struct take *t = of_target(target);
	int ret = made_step(&t->made);
	char uuid[UUID_TEXT_BYTES];

	if (ret > 0 && target->marked && !t->prepared && (target->asked || !target->call.stands_by)) {
		t->prepared = true;
		cluster_prepare(&t->d->cluster, uuid_text(t->super.uuid, uuid));
	}
	return ret;
}

static int do_drop(struct target *target)
{
	struct take *t = of_target(target);
	int err = made_undo(&t->made);

	return err ? err : frozen_drop(t->d);
}

/* They were read before the source was asked; if that may be long ago, they are again before its clients are stopped. */
static int is_reached(struct target *target)
{
	struct take *t = of_target(target);
	struct recover *r;
	int err;

	if (!target->call.stands_by || !target->asked || t->read_again)
		return 1;
	r = read_digest(t->d, &err);
	recover_free(r);
	t->read_again = r;
	return r ? 1 : err;
}

static void do_digest(struct target *target)
{
	of_target(target)->wants_digest = true;
}

static void do_take(struct target *target, uint64_t term, uint64_t revision)
{
	struct take *t = of_target(target);

	t->consent = (struct cluster_consent){ .term = term, .revision = (int64_t)revision };
	t->wants_take = true;
}

static bool does_hold(struct target *target)
{
	return cluster_holds(&of_target(target)->d->cluster);
}

static void do_recover(struct target *target, const struct recover_told *told)
{
	of_target(target)->told = told;
}

/* Nothing more is read before it is asked for. */
static void bring_ends(struct take *t)
{
	struct bulk_stats stats;

	t->bringing = false;
	bulk_stats(t->bulk, &stats);
	log_notice("%s: %" PRIu64 " objects, %" PRIu64 " MiB, came from the memory of host %s, %" PRIu64 " ms after the store was served%s",
		   t->d->kernel.name, stats.objects, stats.bytes >> 20, t->d->config.move.from.host,
		   (clock_now_ns() - t->ended_ns) / MS, bulk_is_all(t->bulk) ? "" : "; what else there is stays on the backups");
	(void)kernel_bring(&t->d->kernel, NULL, 0);	/* it warms by segments, if anything is left */
}

/* What the source has in its memory is on the backups, too: the store is durable (check_words()). It is the faster replica. */
static bool does_need(struct target *target)
{
	struct take *t = of_target(target);
	uint64_t now = clock_now_ns();

	return t->pull && (bulk_wants(t->bulk, now) || pull_wants(t->pull, t->all || bulk_is_all(t->bulk), now));
}

static const struct target_user target_user = {
	.connect = do_connect, .slots = do_slots, .send = do_send, .read = do_read, .end = do_end, .store = is_store,
	.drop = do_drop, .reached = is_reached, .made = is_made, .digest = do_digest, .take = do_take, .holds = does_hold,
	.recover = do_recover, .needs = does_need,
};

/* ---- Before the recovery ------------------------------------------------------------- */

static void answer_digest(struct take *t)
{
	struct recover *r;
	int err;

	t->wants_digest = false;
	r = read_digest(t->d, &err);
	target_digest(&t->target, err, r ? recover_digest(r)->term : 0, r ? recover_digest(r)->sequence : 0);
	recover_free(r);
	stages_end(&t->d->stages, "digest");
}

static void answer_take(struct take *t)
{
	struct lsmemd *d = t->d;
	int err;

	t->wants_take = false;
	err = own_consented(d, t->super.uuid, &t->consent);
	target_answer(&t->target, err, d->cluster.term);
	stages_end(&d->stages, "transaction");
	if (!err)
		log_notice("%s: this host has the store, term %" PRIu64 ", %" PRIu64 " ms after its source was told to stop",
			   d->where, d->cluster.term, (clock_now_ns() - t->moved_ns) / MS);
}

/* The move's part of the status. A host that had the store at its start only says CLOSE, which is no move. */
static void gather(struct take *t)
{
	static const char *const states[] = {
		[TARGET_READS] = "reads", [TARGET_MOVES] = "moves", [TARGET_CHECKS] = "checks", [TARGET_TAKES] = "takes",
		[TARGET_RECOVERS] = "recovers", [TARGET_SERVES] = "serves", [TARGET_DONE] = "done",
		[TARGET_DROPS] = "drops", [TARGET_GIVEN_UP] = "given up", [TARGET_ENDED] = "ended",
	};
	struct status_move *move = &t->d->status.move;
	const struct move_target *connection = &t->target.connection;

	move->role = "target";
	move->standby = target_stands_by(&t->target);
	move->state = move->standby ? "stands by" : states[t->target.state];
	snprintf(move->host, sizeof(move->host), "%s", t->d->config.move.from.host);
	move->bytes = connection->bytes;
	move->blocks = connection->stream.sequence ? connection->stream.sequence - 1 : 0;
	if (t->target.known)
		move->objects = known_objects(t->target.known);
	if (t->pull) {
		pull_stats(t->pull, &move->pull);
		bulk_stats(t->bulk, &move->bulk);
	}
	if (t->moved_ns)
		move->stopped_ns = (t->ended_ns ? t->ended_ns : clock_now_ns()) - t->moved_ns;
}

static void ticked(struct loop_op *op, int res)
{
	struct take *t = (struct take *)((char *)op - offsetof(struct take, tick.op));
	uint64_t now = clock_now_ns();

	t->ticking = false;
	if (res != -ETIME || t->told || (t->target.state > TARGET_RECOVERS && t->target.state != TARGET_DROPS))
		return;
	move_caller_tick(&t->caller, now);
	target_tick(&t->target, now);
	verbs_release();
	notify_send("WATCHDOG=1");
	if (target_stands_by(&t->target)) {
		notify_send("READY=1\nSTATUS=Standing by for %s: %" PRIu64 " objects are known", t->d->config.move.from.host,
			    known_objects(t->target.known));
		gather(t);
		http_tell(&t->d->http, &t->d->status);
	} else if (t->target.state == TARGET_READS && t->target.known) {
		notify_send("STATUS=Moving from %s: %" PRIu64 " objects are known", t->d->config.move.from.host,
			    known_objects(t->target.known));
		log_info("%s: %" PRIu64 " objects are known", t->d->where, known_objects(t->target.known));
	}
	t->ticking = true;
	loop_timer_start(&t->d->loop, &t->tick, SAY_NS);
}

/* There are keys: objects can be read from the source's memory. */
static void open_pull(struct take *t)
{
	const struct move_target *connection = &t->target.connection;

	if (!t->pull || t->pull_error || pull_is_open(t->pull) || !t->target.linked || t->caller.over ||
	    connection->step != MOVE_HAS)
		return;
	t->pull_error = move_caller_memory(&t->caller, t->memory, READ_MEMORY);
	if (t->pull_error) {
		log_warn("%s: nothing more is read from the memory of host %s: %s", t->d->where, t->d->config.move.from.host,
			 strerror(-t->pull_error));
		bulk_end(t->bulk);
		return;
	}
	pull_open(t->pull, &connection->ready.keys);
	bulk_open(t->bulk, &connection->ready.keys);
}

static void tell_status(struct take *t)
{
	gather(t);
	status_write(&t->d->status);
}

static void run(struct take *t)
{
	enum target_state from = t->target.state;

	move_caller_run(&t->caller);
	open_pull(t);
	target_run(&t->target);
	if (t->target.state <= TARGET_MOVES)
		made_place(&t->made);
	move_caller_run(&t->caller);
	if (from == TARGET_MOVES && t->target.state == TARGET_CHECKS)
		stages_end(&t->d->stages, "source");
	if (!t->stood && target_stands_by(&t->target)) {
		t->stood = true;
		tell_status(t);
		log_notice("%s: stands by for host %s: %" PRIu64 " objects are known", t->d->where, t->d->config.move.from.host,
			   known_objects(t->target.known));
	}
	if (from == TARGET_READS && t->target.state == TARGET_MOVES) {
		stages_begin(&t->d->stages);
		t->moved_ns = t->d->stages.begin_ns;
		log_notice("%s: %" PRIu64 " objects are known; host %s is told to stop its clients", t->d->where,
			   known_objects(t->target.known), t->d->config.move.from.host);
	}
}

static void cancel(struct take *t)
{
	const char *refused = target_cancel(&t->target);

	t->d->signals.cancel = false;
	status_move_cancel(&t->d->status.move, refused);
	log_notice("%s: cancelled by an operator (SIGUSR2)%s%s", t->d->where, refused ? ", and goes on: " : "",
		   refused ? refused : "");
}

/**
 * take_answer - answer an operator who wants the store to be moved here now
 * @d: the daemon: SIGRTMIN has come
 * @refused: why it is not; NULL: it will be
 */
void take_answer(struct lsmemd *d, const char *refused)
{
	d->signals.ask = false;
	status_move_ask(&d->status.move, d->where, refused);
}

/* A host that stands by, and does not reach its source, may be wanted as the owner: standby.c answers. */
static bool can_answer(const struct take *t)
{
	return !t->target.call.stands_by || (t->target.store.term && t->target.state < TARGET_DROPS);
}

/**
 * take_refuse_reload - SIGHUP before there is a store: nothing but the next start reads the configuration
 * @d: the daemon
 */
void take_refuse_reload(struct lsmemd *d)
{
	d->signals.reload = false;
	log_warn("%s: nothing changes before the store is served: start lsmemd again", d->options.config_path);
}

/* Until this host has the store, or the move is over. Return: 0 or a negative errno of the loop. */
static int move(struct take *t)
{
	struct lsmemd *d = t->d;
	int err = 0;

	while (t->target.state < TARGET_RECOVERS || (t->target.state == TARGET_DROPS)) {
		signals_poll(&d->signals);
		if (d->signals.dump) {
			d->signals.dump = false;
			tell_status(t);
		}
		if (d->signals.cancel)
			cancel(t);
		if (d->signals.ask && can_answer(t))
			take_answer(d, target_ask(&t->target));
		if (d->signals.reload && t->target.call.stands_by)
			take_refuse_reload(d);
		if (d->signals.stop && !t->target.stopping)
			target_stop(&t->target);
		run(t);
		if (t->wants_digest)
			answer_digest(t);
		else if (t->wants_take)
			answer_take(t);
		else if (t->target.state < TARGET_RECOVERS || t->target.state == TARGET_DROPS)
			err = loop_run(&d->loop, !made_waits(&t->made));
		if (err < 0)
			return err;
	}
	target_run(&t->target);		/* @told, or ENDED */
	t->told = made_told(&t->made, t->told);
	stages_end(&d->stages, "words");
	return 0;
}

/* What the backups hold, read beside their owner. Return: a STATUS_*; STATUS_BACKUP: nothing that can be moved. */
static int look(struct take *t)
{
	struct lsmemd *d = t->d;
	uint64_t frames;
	struct recover *r;
	int status = open_backups(d, OPEN_LOOK, 0), err;

	if (status || !d->nr_open)
		return STATUS_BACKUP;
	r = read_digest(d, &err);
	if (!r)
		return STATUS_BACKUP;
	t->super = *recover_super(r);
	frames = recover_room(r, 1);
	t->frames = frames < UINT32_MAX ? (uint32_t)frames : UINT32_MAX;
	store_plan(d, r, &t->super, &t->made.plan);
	made_begin(&t->made, d, t->super.uuid);
	recover_free(r);
	status = expect_store(d, t->super.uuid);
	return status ? status : store_check_geometry(d, &t->super);
}

/* Has this host the store already, or had it last? Its memory may be here, and the source has what is older. */
static int is_here(struct take *t)
{
	int status = own_look(t->d, t->super.uuid);

	t->here = t->d->cluster.taken.here || !strcmp(t->d->cluster.taken.host, t->d->cluster.host);
	return status;
}

static void forget(struct take *t)
{
	pull_free(t->pull);
	bulk_free(t->bulk);
	memory_put(t->memory);
	t->pull = NULL;
	t->bulk = NULL;
	t->memory = NULL;
	made_end(&t->made);
	if (t->target.known)
		known_free(t->target.known);
	t->target.known = NULL;
	t->told = NULL;
}

static int begin(struct take *t, uint64_t term)
{
	const struct config_move *config = &t->d->config.move;
	struct target_call call = {
		.key = &t->key, .name = *config->from.name ? config->from.name : t->d->config.store.name,
		.who = t->d->cluster.host, .term = term, .stands_by = !term && config->standby,
	};
	int err = secret_read(config->secret, &t->key);

	if (!err)
		err = move_caller_open(&t->caller, &caller_user, &t->d->loop, &t->target.connection, &config->from);
	if (!err)
		target_begin(&t->target, &target_user, &call, clock_now_ns());
	return err;
}

/* It is over, for this host: it serves the store, or it does not have it. */
static void set_ended(struct take *t, int error, const char *why)
{
	t->ended_ns = clock_now_ns();
	gather(t);
	status_move_ended(&t->d->status.move, t->d->status.move.host, error, why);
}

/* How a move has ended that did not give this host the store. Return: a STATUS_*. */
static int tell_end(struct take *t)
{
	const char *why = t->target.why ? t->target.why : "its connection is over";
	struct lsmemd *d = t->d;

	if (strcmp(d->status.move.last.cause, why))
		log_hush(false);	/* of standby.c */
	set_ended(t, t->target.error, why);
	if (t->target.state == TARGET_GIVEN_UP) {
		log_notice("%s: was not moved from host %s: %s (%s)%s", d->where, d->config.move.from.host, why,
			   strerror(-t->target.error), d->signals.stop || d->config.move.standby ? "" : "; starting as without a move");
		return STATUS_OK;
	}
	log_err("%s: the move from host %s has ended: %s; lsmemd can be started again", d->where, d->config.move.from.host, why);
	return d->signals.stop ? STATUS_OK : STATUS_OWNER;
}

/**
 * take_attempt - try to move the store to this host
 * @d: the daemon, with its control device; its backups are known, and not open
 * @again: out: this host does not have the store, nor had it last: another attempt can follow, or the start goes on as without a
 *	move: it claims the store, which its owner may hold
 *
 * If the source does not have the store, or does not give it, nothing has changed. Logs what is done.
 *
 * Return: a STATUS_*. STATUS_OK: the start goes on, or a signal has come.
 */
int take_attempt(struct lsmemd *d, bool *again)
{
	struct take *t = &the_take;
	int status, err;

	*t = (struct take){ .d = d };
	*again = false;
	status = look(t);
	if (!status && !d->signals.stop)
		status = is_here(t);
	if (status || d->signals.stop || t->here) {
		close_backups(d);
		if (!t->here)
			t->d = NULL;
		*again = status == STATUS_BACKUP;
		return status == STATUS_BACKUP ? STATUS_OK : status;	/* the start waits for them, or says what is wrong */
	}
	/* All libraries are loaded, and the tables of what the source tells are not there yet. */
	status = prepare_ahead();
	if (status) {
		close_backups(d);
		return status;
	}
	memcpy(d->status.uuid, t->super.uuid, sizeof(d->status.uuid));
	err = begin(t, 0);
	if (!err) {
		d->status.state = "taking";
		start_name_status(d);
		tell_status(t);
		http_tell(&d->http, &d->status);
		t->tick.op.done = ticked;
		t->ticking = true;
		loop_timer_start(&d->loop, &t->tick, SAY_NS);
		err = move(t);
	}
	if (!err && t->target.state == TARGET_RECOVERS)
		return STATUS_OK;	/* the backups are open: wait_backups() holds them */
	close_backups(d);
	d->status.state = "starting";
	status = err ? STATUS_OK : tell_end(t);
	status_write(&d->status);	/* why it ended, also if the daemon cannot go on */
	if (err)
		log_warn("%s: cannot be moved from host %s: %s", d->where, d->config.move.from.host, strerror(-err));
	take_close(d);
	/* The source may be frozen for this move, have died since, and keep its memory for the host that has the store. */
	*again = status == STATUS_OK && !d->signals.stop;
	if (*again)
		*t = (struct take){ .d = d, .here = true, .super = t->super };
	return status;
}

/**
 * take_has - has this host got the store by a move?
 * @d: the daemon
 *
 * Return: true: etcd has said so, since the start; the backups were read, and are this store's.
 */
bool take_has(const struct lsmemd *d)
{
	(void)d;
	return the_take.d && !the_take.here && the_take.target.term;
}

/**
 * take_told - what a recovery of the store begins with
 * @d: the daemon
 *
 * Return: what the source has told; NULL: the recovery reads the backups.
 */
const struct recover_told *take_told(const struct lsmemd *d)
{
	(void)d;
	return the_take.told;
}

/**
 * take_stale - what the source told is not what the newest digest lists: the store is recovered from the backups
 * @d: the daemon; take_told() was not NULL, and nothing was written
 */
void take_stale(struct lsmemd *d)
{
	struct take *t = &the_take;

	(void)d;
	t->told = NULL;
	made_forget(&t->made);
	target_recovered(&t->target, -ESTALE);
	target_run(&t->target);
}

/* ---- In the steady state ---------------------------------------------------------------- */

/* What reads the source's memory. Without memory for it all comes from the backups. */
static void begin_reads(struct take *t)
{
	const struct move_store *store = &t->target.store;
	uint64_t now = clock_now_ns();

	t->memory = memory_get(READ_MEMORY);
	if (!t->memory)
		return;
	memset(t->memory, 0, READ_MEMORY);
	t->bulk = bulk_new(t->target.known, store->indices, store->seglets, (uint8_t *)t->memory + PULL_MEMORY, now);
	if (t->bulk)
		t->pull = pull_new(t->target.known, store->indices, store->seglets, t->memory, now);
	t->bringing = t->pull;
}

/**
 * take_served - the store is served
 * @d: the daemon
 *
 * From now on objects are read from the source's memory, until take_run() tells it that nothing is needed from it any more.
 */
void take_served(struct lsmemd *d)
{
	struct take *t = &the_take;

	if (!t->d)
		return;
	if (t->here) {
		if (begin(t, d->cluster.term)) {
			log_warn("%s: host %s cannot be told that nothing is needed from it", d->kernel.name,
				 d->config.move.from.host);
			t->d = NULL;
		}
		return;
	}
	target_recovered(&t->target, 0);
	set_ended(t, 0, "this host has the store");
	if (t->moved_ns)
		log_notice("%s: moved from host %s: served %" PRIu64 " ms after its clients were told to stop, %s",
			   d->kernel.name, d->config.move.from.host, (clock_now_ns() - t->moved_ns) / MS,
			   t->target.stale ? "recovered from the backups" : "by what that host told");
	/* What does not count any more is not asked for in the source's memory either. */
	if (!t->target.stale)
		begin_reads(t);
	if (!t->pull)
		forget(t);
}

/**
 * take_pull - what reads the source's memory
 * @d: the daemon
 *
 * Return: for requests of the kernel; NULL: all are for the backups.
 */
struct pull *take_pull(const struct lsmemd *d)
{
	(void)d;
	return the_take.d ? the_take.pull : NULL;
}

/**
 * take_bulk - what reads all of the source's memory
 * @d: the daemon
 *
 * Return: for objects that nothing has asked for; NULL with take_pull().
 */
struct bulk *take_bulk(const struct lsmemd *d)
{
	(void)d;
	return the_take.d ? the_take.bulk : NULL;
}

/**
 * take_pull_start - start READs of the source's memory
 * @d: the daemon; take_pull() is not NULL
 */
void take_pull_start(struct lsmemd *d)
{
	uint64_t now = clock_now_ns();
	struct take *t = &the_take;
	struct pull_read read;

	bulk_step(t->bulk, now);
	while (!t->caller.over && pull_next(t->pull, &read))
		move_caller_pull(&t->caller, read.tag, read.data, read.length, read.address, read.key);
	bulk_pace(t->bulk, d->config.move.bring_rate, pull_held(t->pull), now);
	while (!t->caller.over && bulk_next(t->bulk, now, &read))
		move_caller_pull(&t->caller, PULL_TAGS + read.tag, read.data, read.length, read.address, read.key);
}

/**
 * take_pull_waits - can take_pull_start(), or serve_fetch.c with what was read, go on at once?
 * @d: the daemon
 */
bool take_pull_waits(const struct lsmemd *d)
{
	const struct take *t = &the_take;

	(void)d;
	return t->d && t->pull && (pull_has_back(t->pull) || (!t->caller.over && bulk_waits(t->bulk, clock_now_ns())));
}

/**
 * take_is_open - may the source of the store keep memory for this host?
 * @d: the daemon
 *
 * Return: true: this host must not give the store to another one (CLOSED_FIRST). After a start with the store here already it
 * may: a source that has not answered yet keeps no keys when it does not run, and its next daemon finds that the store has moved on.
 */
bool take_is_open(const struct lsmemd *d)
{
	const struct take *t = &the_take;

	(void)d;
	return t->d && !t->here && !target_is_closed(&t->target);
}

/**
 * take_run - tell the source what is to be told
 * @d: the daemon, serving
 *
 * Context: after each round of the loop.
 * Return: true: the store can be given to another host from now on (take_is_open()).
 */
bool take_run(struct lsmemd *d)
{
	struct take *t = &the_take;
	bool closed;

	if (!t->d || t->target.state < TARGET_SERVES)
		return false;
	run(t);
	/* Also when the source is gone for good. */
	if (t->bringing && !bulk_wants(t->bulk, clock_now_ns()))
		bring_ends(t);
	if (!target_is_over(&t->target) || (t->pull && pull_held(t->pull)))
		return false;
	closed = target_is_closed(&t->target);
	take_gather(d);
	if (closed)
		log_notice("%s: host %s keeps nothing of the store any more", d->kernel.name, d->config.move.from.host);
	take_close(d);
	if (!t->here)
		lock_rest();
	return closed && !t->here;
}

/**
 * take_tick - do the periodic work of a target
 * @d: the daemon, serving
 * @now: the time, by clock_now_ns()
 *
 * Context: in the tick.
 */
void take_tick(struct lsmemd *d, uint64_t now)
{
	struct take *t = &the_take;
	uint64_t cold, cached;

	if (!t->d || t->target.state != TARGET_SERVES)
		return;
	/* What was fetched is counted in both, with its trailers in the second. */
	if (t->pull && kernel_number(d->kernel.name, "tier/cold_bytes", &cold) &&
	    kernel_number(d->kernel.name, "tier/cached_bytes", &cached))
		t->all = cold <= cached;
	move_caller_tick(&t->caller, now);
	target_tick(&t->target, now);
	if (t->said || !target_is_slow(&t->target))
		return;
	t->said = true;
	if (t->here)
		target_stop(&t->target);
	else
		log_warn("%s: host %s does not answer, and may keep memory of the store: asking it each %u s from now on. Until it answers, the store cannot be moved from here; if that host is gone for good, start lsmemd again",
			 d->kernel.name, d->config.move.from.host, TARGET_SLOW_S);
}

/**
 * take_gather - bring the move's part of the daemon's status up to date
 * @d: the daemon; if it takes no store nothing is done
 */
void take_gather(struct lsmemd *d)
{
	struct take *t = &the_take;

	(void)d;
	if (t->d && !t->here)
		gather(t);
}

/**
 * take_close - end the connection to the source, without a word
 * @d: the daemon; runs its loop
 */
void take_close(struct lsmemd *d)
{
	struct take *t = &the_take;

	if (!t->d)
		return;
	move_caller_close(&t->caller);
	forget(t);
	if (t->ticking)
		loop_cancel(&d->loop, &t->tick.op);
	while (t->ticking && loop_run(&d->loop, true) >= 0)
		;
	explicit_bzero(&t->key, sizeof(t->key));
	t->d = NULL;
}
