// SPDX-License-Identifier: GPL-2.0
/* The order of a move at its target: see target.h. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "target.h"

#define SECOND_NS	1000000000ull

static bool enter(struct target *t, enum target_state state)
{
	t->state = state;
	t->since_ns = t->now_ns;
	t->answered_ns = t->now_ns;
	t->due = true;
	return true;
}

static bool is_late(const struct target *t, unsigned int seconds)
{
	return t->now_ns - t->since_ns > seconds * SECOND_NS;
}

/* ---- The connection -------------------------------------------------------- */

static void connection_ends(struct move_target *connection, const char *why)
{
	struct target *t = target_of(connection);

	t->cut = why;
	t->ending = true;
	t->user->end(connection, why);
}

static void hang_up(struct target *t, const char *why)
{
	if (t->linked)
		move_target_end(&t->connection, why);
	else if (t->connecting)
		connection_ends(&t->connection, why);
}

static bool is_same(const struct move_store *a, const struct move_store *b)
{
	return a->term == b->term && a->indices == b->indices && a->seglets == b->seglets &&
	       !memcmp(a->uuid, b->uuid, sizeof(a->uuid));
}

/* Words of an earlier time go before others come. */
static int take_store(struct move_target *connection, const struct move_store *store)
{
	struct target *t = target_of(connection);

	if (t->store.term)
		return is_same(store, &t->store) ? 0 : -ESTALE;
	t->error = t->user->store(t, store);
	if (!t->error && !t->term)
		t->error = t->user->drop(t);
	if (t->error)
		return t->error;
	t->clear = true;
	t->store = *store;
	return 0;
}

static int take_block(struct move_target *connection, const struct ahead_head *block)
{
	struct target *t = target_of(connection);

	t->error = known_block(t->known, block);
	return t->error;
}

static void take_ready(struct move_target *connection, const struct move_ready *ready)
{
	struct target *t = target_of(connection);

	if (t->term)	/* keys again, which are in @connection */
		return;
	t->ready = *ready;
	t->complete = true;
}

static void take_close(struct move_target *connection)
{
	target_of(connection)->closed = true;
}

/**
 * target_begin - this host wants a store, or tells its source that it needs nothing any more
 * @target: out, without a connection: target_run() makes one
 * @user: callbacks; must stay as long as @target
 * @call: which store
 * @now_ns: as for target_tick()
 */
void target_begin(struct target *target, const struct target_user *user, const struct target_call *call, uint64_t now_ns)
{
	memset(target, 0, sizeof(*target));
	target->user = user;
	target->network = (struct move_target_user){
		.slots = user->slots, .send = user->send, .read = user->read, .end = connection_ends,
		.store = take_store, .block = take_block, .ready = take_ready, .closed = take_close,
	};
	target->call = *call;
	target->term = call->term;
	target->now_ns = now_ns;
	enter(target, call->term ? TARGET_SERVES : TARGET_READS);
}

/**
 * target_connected - there is a connection to the source
 * @target: @connect was called, and not @end
 * @setup: as for move_target_begin()
 */
void target_connected(struct target *target, const struct session_setup *setup)
{
	const struct target_call *has = &target->call;
	struct move_call call = {
		.setup = *setup, .key = has->key, .name = has->name, .who = has->who, .term = target->term,
	};

	target->connecting = false;
	target->linked = true;
	move_target_begin(&target->connection, &target->network, &call, target->now_ns);
}

/* ---- Ways out -------------------------------------------------------------- */

/* This host does not have the store, and will not get it by this move. */
static bool give_up(struct target *t, int error, const char *why)
{
	t->error = error;
	t->why = why;
	if (t->linked)
		move_target_give_up(&t->connection, error, why);
	hang_up(t, why);
	return enter(t, TARGET_DROPS);
}

static bool end(struct target *t, int error, const char *why)
{
	t->error = error;
	t->why = why;
	hang_up(t, why);
	return enter(t, TARGET_ENDED);
}

/**
 * target_gone - the connection is destroyed, or could not be made
 * @target: @connect was called
 * @why: if @end was not called
 *
 * From READY on the move goes on without it: whether the source has taken its consent back, etcd says.
 */
void target_gone(struct target *target, const char *why)
{
	uint32_t refused = target->linked ? le32toh(target->connection.session.refused.reason) : 0;

	if (target->linked)
		target->answered_ns = target->now_ns;
	why = target->ending ? target->cut : why;
	target->connecting = target->linked = target->ending = false;
	target->connection.step = MOVE_OVER;
	target->gone_ns = target->now_ns;
	if (target->state <= TARGET_MOVES && !target->complete)
		give_up(target, target->error ? target->error : -ENOTCONN, why);
	if (target->state != TARGET_SERVES)
		return;
	target->due = false;
	/* It has let the store go: the answer to CLOSE was lost. */
	target->closed |= refused == WIRE_REASON_EXPORT;
}

/* ---- The order -------------------------------------------------------------- */

static bool call_source(struct target *t)
{
	t->due = false;
	t->connecting = true;
	t->user->connect(t);
	return false;
}

/* An operator wants the move: it may have stood by for long. */
static void want(struct target *t)
{
	if (!t->asked)
		t->since_ns = t->now_ns;
	t->asked = true;
}

/* Clients of the source are stopped only for what can be taken, and when that is wanted. */
static bool read_words(struct target *t)
{
	bool waits;
	int ret, made;

	if (t->due && !t->connecting && !t->linked)
		return call_source(t);
	if (!t->store.term || t->connection.step != MOVE_READS)
		return false;
	if (t->call.stands_by && t->connection.session.version < WIRE_VERSION_STANDBY)
		return give_up(t, -EPROTONOSUPPORT, "the lsmemd of the source is older, and no host can stand by for it");
	if (t->connection.wanted)
		want(t);
	waits = t->call.stands_by && !t->asked;
	ret = t->user->reached(t);
	if (ret < 0)
		return give_up(t, ret, "the backups cannot be reached");
	if (!t->marked && t->connection.marked) {
		t->marked = true;
		t->since_ns = t->now_ns;
	}
	if (t->marked && !ret && !waits && is_late(t, TARGET_REACH_S))
		return give_up(t, -ETIMEDOUT, "the backups are not reached in time");
	made = t->user->made(t);
	if (made < 0)
		return give_up(t, made, "the store cannot be made here");
	t->ready_by = t->marked && ret && made;
	return t->ready_by && !waits && move_target_move(&t->connection) && enter(t, TARGET_MOVES);
}

/* What is known to be wrong ends the move here: a recovery from the backups would take longer than the way back. */
static bool check_words(struct target *t)
{
	if (!t->complete)
		return false;
	if (!t->ready.digest)
		return give_up(t, -EOPNOTSUPP, "the store is volatile");
	if (t->ready.objects != known_objects(t->known))
		return give_up(t, -EUCLEAN, "the source has not told all its objects: its memory may be damaged");
	t->reading = true;
	t->user->digest(t);
	return enter(t, TARGET_CHECKS);
}

static bool check_digest(struct target *t)
{
	return is_late(t, TARGET_CHECK_S) && give_up(t, -ETIMEDOUT, "the newest digest is not read in time");
}

/* From here on only etcd's answer tells which host has the store. */
static bool take(struct target *t)
{
	if (t->asking || !t->due)
		return false;
	if (t->stopping)
		return end(t, -EAGAIN, "etcd has not said which host has the store");
	t->due = false;
	t->asking = true;
	t->user->take(t, t->ready.term, t->ready.revision);
	return false;
}

static bool recover(struct target *t)
{
	if (t->recovering)
		return false;
	if (t->stopping)
		return end(t, -ECANCELED, "the daemon ends");
	if (!t->user->holds(t))
		return end(t, 0, "the ownership is over");
	known_told(t->known, t->digest_term, t->ready.digest, t->ready.objects, &t->told);
	t->recovering = true;
	t->user->recover(t, t->stale ? NULL : &t->told);
	return false;
}

static bool serve(struct target *t)
{
	if (t->stopping)
		return end(t, -ECANCELED, "the daemon ends");
	if (!t->user->holds(t))
		return end(t, 0, "the ownership is over");
	if (t->linked) {
		if (t->connection.step == MOVE_HAS && !t->user->needs(t))
			move_target_close(&t->connection, t->term);
		return false;
	}
	if (t->closed)
		return enter(t, TARGET_DONE);
	return t->due && !t->connecting && call_source(t);
}

static bool drop(struct target *t)
{
	int ret;

	if (t->linked || t->connecting || t->reading || !t->due)
		return false;
	t->due = false;
	ret = t->clear ? t->user->drop(t) : 0;
	if (!ret)
		return enter(t, TARGET_GIVEN_UP);
	if (ret == -EAGAIN || (ret == -EBUSY && !is_late(t, TARGET_DROP_S)))
		return false;
	return end(t, ret, "the kernel does not drop what was given up");
}

static bool step(struct target *t)
{
	switch (t->state) {
	case TARGET_READS:
		return read_words(t);
	case TARGET_MOVES:
		return check_words(t);
	case TARGET_CHECKS:
		return check_digest(t);
	case TARGET_TAKES:
		return take(t);
	case TARGET_RECOVERS:
		return recover(t);
	case TARGET_SERVES:
		return serve(t);
	case TARGET_DROPS:
		return drop(t);
	default:
		return false;
	}
}

/**
 * target_run - do what can be done now
 * @target: the target
 *
 * Context: after each other call, and after each round of the daemon's loop: @reached, @holds and @needs are asked again.
 */
void target_run(struct target *target)
{
	while (step(target))
		;
}

/* ---- Answers ----------------------------------------------------------------- */

/**
 * target_digest - the newest digest has been read
 * @target: @digest was called
 * @error: 0, or a negative errno: it could not be read
 * @term: of the digest: that of the last recovery, which is lower than the source's if that has resumed the store since. A
 *	recovery by a later owner has a higher one, and another sequence
 * @sequence: of the digest
 */
void target_digest(struct target *target, int error, uint64_t term, uint64_t sequence)
{
	target->reading = false;
	if (target->state != TARGET_CHECKS)
		return;
	target->digest_term = term;
	if (error)
		give_up(target, error, "the newest digest cannot be read");
	else if (term > target->ready.term || sequence != target->ready.digest)
		give_up(target, -ESTALE, "the newest digest is not the one that the source named");
	else
		enter(target, TARGET_TAKES);
}

/**
 * target_answer - what etcd has said
 * @target: @take was called
 * @error: 0: this host has the store. -EAGAIN: it is not known: no answer has come. Another negative errno: it has not, and
 *	no transaction that was made for @take can succeed any more
 * @term: of this host's ownership
 */
void target_answer(struct target *target, int error, uint64_t term)
{
	target->asking = false;
	if (target->state != TARGET_TAKES || error == -EAGAIN)
		return;		/* the next tick asks again */
	if (error) {
		give_up(target, error, "the source has taken its consent back, or another host has the store");
		return;
	}
	target->term = term;
	enter(target, TARGET_RECOVERS);
	if (target->linked)
		move_target_taken(&target->connection, term);
}

/**
 * target_recovered - a recovery is over
 * @target: @recover was called
 * @error: 0: the store is served. -ESTALE: what was told is not what the newest digest lists, and nothing was written: it is
 *	recovered from the backups. Another negative errno: the daemon ends
 */
void target_recovered(struct target *target, int error)
{
	bool stale = target->stale;

	target->recovering = false;
	if (target->state != TARGET_RECOVERS)
		return;
	if (error == -ESTALE && !stale)
		target->stale = true;
	else if (error)
		end(target, error, "the store is not recovered");
	else
		enter(target, TARGET_SERVES);
}

/* ---- The loop ------------------------------------------------------------------ */

/**
 * target_tick - some time has passed
 * @target: the target
 * @now_ns: of a clock that only rises
 *
 * Context: call it once a second, then target_run().
 */
void target_tick(struct target *target, uint64_t now_ns)
{
	target->now_ns = now_ns;
	if (target->linked)
		move_target_tick(&target->connection, now_ns);
	if (target->state == TARGET_TAKES || target->state == TARGET_DROPS)
		target->due = true;
	else if (target->state == TARGET_SERVES)
		target->due |= now_ns - target->gone_ns >=
			       (target_is_slow(target) ? TARGET_SLOW_S : TARGET_ASK_S) * SECOND_NS;
}

/**
 * target_ask - an operator wants the move now
 * @target: in any state
 *
 * It begins when all is there for it. Then target_run().
 *
 * Return: NULL; or why not.
 */
const char *target_ask(struct target *target)
{
	if (target->state > TARGET_READS && target->state <= TARGET_TAKES)
		return "the store is being moved already";
	if (target->state > TARGET_READS)
		return target->state < TARGET_DROPS ? "this host has the store" : "the move has ended already";
	want(target);
	return NULL;
}

/**
 * target_stands_by - would the move begin if an operator wanted it?
 * @target: in any state
 */
bool target_stands_by(const struct target *target)
{
	return target->state == TARGET_READS && target->call.stands_by && target->ready_by && !target->asked;
}

/**
 * target_stop - the move is cancelled, or the daemon is to end
 * @target: in any state
 *
 * Before the transaction it is given up. Afterwards etcd's answer is waited for, as long as there is one: then the store is
 * this host's, and the daemon gives it back as every owner.
 */
void target_stop(struct target *target)
{
	target->stopping = true;
	if (target->state <= TARGET_CHECKS)
		give_up(target, -ECANCELED, "it was cancelled");
}

/**
 * target_cancel - an operator cancels the move
 * @target: in any state
 *
 * Before READY it is given up, as by target_stop(). After READY the store may soon be this host's: an operator who wants it
 * elsewhere moves it back.
 *
 * Return: NULL: it is given up; or why not.
 */
const char *target_cancel(struct target *target)
{
	if (target->state <= TARGET_MOVES && !target->complete) {
		give_up(target, -ECANCELED, "an operator has cancelled the move");
		return NULL;
	}
	if (target->state <= TARGET_TAKES)
		return "READY has come: this host takes the store, or the move ends by itself, within seconds";
	return target->state < TARGET_DROPS ? "this host has the store" : "the move has ended already";
}

/**
 * target_is_over - is nothing under way any more?
 * @target: in any state
 *
 * Return: true: @target is not needed any more.
 */
bool target_is_over(const struct target *target)
{
	return target->state >= TARGET_DONE && target->state != TARGET_DROPS && !target->linked &&
	       !target->connecting && !target->reading && !target->asking && !target->recovering;
}

/**
 * target_is_closed - may this host give the store to another one?
 * @target: in any state
 *
 * Return: false: the source keeps its memory for this host (CLOSED_FIRST).
 */
bool target_is_closed(const struct target *target)
{
	return target->state == TARGET_DONE;
}

/**
 * target_is_slow - does the source not answer any more?
 * @target: in any state
 *
 * Return: true: the store is served, there was no connection for TARGET_ASK_MOST_S, and the source is asked each TARGET_SLOW_S
 * only. It may be gone for good.
 */
bool target_is_slow(const struct target *target)
{
	return target->state == TARGET_SERVES && !target->linked &&
	       target->now_ns - target->answered_ns >= TARGET_ASK_MOST_S * SECOND_NS;
}
