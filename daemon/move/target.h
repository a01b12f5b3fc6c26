/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The target of a migration: the order of a move, from its first connection until nothing is needed from the source any
 * more, and the way back from each failure. The twin of source.h: no I/O, no clock, no allocations: the callbacks do that.
 * Documentation/migration.rst, The target's order; rules in capitals are named there.
 *
 *	target_begin()				this host wants the store, or has taken it already
 *	target_connected(), target_gone()	the connection; move_target_message() and move_target_read() are called as
 *						they are, with @connection
 *	target_digest()				what @digest has read
 *	target_answer()				what etcd has said to @take
 *	target_recovered()			the recovery that @recover began is over
 *	target_tick()				once a second
 *	target_ask(), target_stands_by()	an operator wants the move now
 *	target_stop(), target_is_over()		cancelled, or the daemon is to end
 *	target_run()				after all these, and after each round of the daemon's loop
 *
 * What it guarantees, whatever happens:
 *  - a transaction compares with what READY has named, and with nothing else (CONSENT); none is made before all was told,
 *    and the newest digest on the backups is the one that READY named;
 *  - nothing is recovered or served before etcd has said that this host has the store (TAKE_FIRST). An answer that is lost
 *    is asked for again, until there is one, or the caller gives its lease back;
 *  - what the kernel has of the store from before goes before words come, and what was given up goes before
 *    TARGET_GIVEN_UP (DROP_FIRST). A frozen store that is kept for another host does not, and ends the move (CLOSED_FIRST);
 *  - a target that stands by says MOVE only when an operator wants that, of this host or of the source;
 *  - MOVE is said only when the kernel has made the store: what cannot be made here is refused while the source serves;
 *  - CLOSE is said only when the store is served, and needs nothing from the source (CLOSE_COMPLETE); it is said again until
 *    the source knows (ASK);
 *  - while the state is TARGET_GIVEN_UP this host does not have the store by this move, and no transaction of it is on its
 *    way that could succeed.
 */
#ifndef LSMEMD_TARGET_H
#define LSMEMD_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "known.h"
#include "recover/recover.h"
#include "remote/move.h"

/* Seconds, at most; a wait may take one more */
#define TARGET_REACH_S	60u	/* from the MARK until the backups are reached */
#define TARGET_CHECK_S	10u	/* until the newest digest has been read: the source waits as long */
#define TARGET_DROP_S	10u	/* until the kernel drops what was given up */
#define TARGET_ASK_S	5u	/* the store is served: between a connection that is gone and the next one .. */
#define TARGET_ASK_MOST_S	600u	/* .. until the source has not answered for so long .. */
#define TARGET_SLOW_S	60u	/* .. and then */

enum target_state {
	TARGET_READS,		/* connects; segments and words come, until little is left and the backups are reached, and it is wanted */
	TARGET_MOVES,		/* MOVE is said; until READY */
	TARGET_CHECKS,		/* all was told; the newest digest is being read */
	TARGET_TAKES,		/* the transaction; until etcd has said which host has the store */
	TARGET_RECOVERS,	/* the store is this host's; its words come from what is known, or from the backups */
	TARGET_SERVES,		/* until the source knows that nothing is needed from it */
	TARGET_DONE,		/* the store is this host's as any other one */
	TARGET_DROPS,		/* given up: until the connection is gone, and the kernel has nothing of the store */
	TARGET_GIVEN_UP,	/* .. and it is so: as if there had been no move */
	TARGET_ENDED,		/* the daemon is to end, and to give its lease back; the next one claims the store */
};

struct target;

/**
 * struct target_user - what the order needs of its caller; no callback calls back
 * @connect: connect to the source, then call target_connected(), or target_gone() if there is no connection in a bounded
 *	time. One at a time
 * @slots: as in struct move_target_user, as are the next two
 * @send: send a message
 * @read: do an RDMA READ
 * @end: destroy the connection, also one that @connect is making, then call target_gone()
 * @store: is this the store? Can it be taken by what is told of it: is it made for this, are its backups configured?
 *	@term of @target is 0: fill in its @known. Return: 0 or a negative errno
 * @drop: drop what the kernel has of the store. Return: 0, also if it has nothing; -EBUSY: the store is in use; -EAGAIN: it is
 *	being made; or another
 *	negative errno, also if it is frozen, for its owner may read it
 * @reached: are the backups there that a recovery needs? It is asked again when an operator wants the move. Return: 1; 0: not
 *	yet; or a negative errno: they will not be
 * @made: is the store in this kernel, with all its memory, and not served? Begins to make it when it is called first. Return: 1;
 *	0: not yet; or a negative errno: it cannot be made
 * @digest: read the newest digest on the backups, then call target_digest()
 * @take: take the store in etcd, if it has this term, and the owner's key this revision, then call target_answer(). First
 *	find out whether an earlier call has done so. One at a time
 * @holds: cluster_holds(): after a transaction that succeeded
 * @recover: recover the store, from @told, or from the backups if it is NULL, and serve it, then call target_recovered()
 * @needs: is something of the store in the source's memory alone?
 */
struct target_user {
	void (*connect)(struct target *target);
	int (*slots)(struct move_target *connection);
	void (*send)(struct move_target *connection, const union wire_message *message);
	void (*read)(struct move_target *connection, uint32_t slot, uint32_t length, uint64_t address, uint32_t key);
	void (*end)(struct move_target *connection, const char *why);
	int (*store)(struct target *target, const struct move_store *store);
	int (*drop)(struct target *target);
	int (*reached)(struct target *target);
	int (*made)(struct target *target);
	void (*digest)(struct target *target);
	void (*take)(struct target *target, uint64_t term, uint64_t revision);
	bool (*holds)(struct target *target);
	void (*recover)(struct target *target, const struct recover_told *told);
	bool (*needs)(struct target *target);
};

/**
 * struct target_call - which store this host wants
 * @key: the secret of moves; must stay
 * @name: of the store; must stay
 * @who: name of this host, as in etcd; must stay
 * @term: with which this host has the store already, and serves it: it only says CLOSE, if it needs nothing. 0: it wants it
 * @stands_by: it knows all that the source has, and says MOVE when an operator wants it
 */
struct target_call {
	const struct secret *key;
	const char *name, *who;
	uint64_t term;
	bool stands_by;
};

/**
 * struct target - a store that this host takes from another one
 * @user: callbacks
 * @network: callbacks of @connection
 * @connection: to the source
 * @call: which store
 * @state: how far the move is
 * @store: the store, as the source has it; its @term is 0 until STORE has come
 * @known: what was told. Made by the caller at @store, who may free it, and set it to NULL, when the state is neither of
 *	TARGET_READS .. TARGET_RECOVERS
 * @ready: what READY said
 * @digest_term: of the newest digest, once it was read
 * @told: @known, for the recovery
 * @term: of this host's ownership; 0: it has not the store
 * @error: why it was given up, or ended, a negative errno; 0 of TARGET_ENDED: the ownership is over
 * @why: likewise, in words; NULL: nothing has failed
 * @cut: why the connection ended
 * @connecting: @connect was called ..
 * @linked: .. and there is a connection
 * @ending: .. and @end was called
 * @marked: little is left; since @since_ns
 * @complete: READY has come, and all blocks
 * @ready_by: all is there for MOVE, which @call's @stands_by holds back
 * @asked: an operator wants the move now
 * @clear: the kernel has nothing of the store that is not of this move
 * @reading: the newest digest is being read
 * @asking: @take was called; etcd has not answered
 * @recovering: @recover was called
 * @stale: what is known does not count
 * @closed: the source knows that nothing is needed from it
 * @due: what is repeated is to be done
 * @stopping: target_stop() was called
 * @now_ns: of the last tick
 * @since_ns: since when it is in @state, or @marked
 * @gone_ns: when the last connection was gone
 * @answered_ns: when there was a connection last; at first, since when it is in TARGET_SERVES
 */
struct target {
	const struct target_user *user;
	struct move_target_user network;
	struct move_target connection;
	struct target_call call;
	enum target_state state;
	struct move_store store;
	struct known *known;
	struct move_ready ready;
	uint64_t digest_term;
	struct recover_told told;
	uint64_t term;
	int error;
	const char *why, *cut;
	bool connecting, linked, ending;
	bool marked, complete, clear, ready_by, asked;
	bool reading, asking, recovering, stale, closed;
	bool due, stopping;
	uint64_t now_ns, since_ns, gone_ns, answered_ns;
};

/**
 * target_of - the target whose connection that is
 * @connection: of a struct target
 */
static inline struct target *target_of(const struct move_target *connection)
{
	return (struct target *)((char *)connection - offsetof(struct target, connection));
}

void target_begin(struct target *target, const struct target_user *user, const struct target_call *call, uint64_t now_ns);
void target_connected(struct target *target, const struct session_setup *setup);
void target_gone(struct target *target, const char *why);
void target_digest(struct target *target, int error, uint64_t term, uint64_t sequence);
void target_answer(struct target *target, int error, uint64_t term);
void target_recovered(struct target *target, int error);
void target_tick(struct target *target, uint64_t now_ns);
const char *target_ask(struct target *target);
bool target_stands_by(const struct target *target);
void target_stop(struct target *target);
const char *target_cancel(struct target *target);
void target_run(struct target *target);
bool target_is_over(const struct target *target);
bool target_is_closed(const struct target *target);
bool target_is_slow(const struct target *target);

#endif
