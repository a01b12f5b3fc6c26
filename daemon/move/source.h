/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The source of a migration: the order of a move, from MOVE until the memory can be freed, and the way back from each
 * failure. No I/O, no clock, no allocations: the callbacks do that. Documentation/migration.rst, The source's order; rules in
 * capitals are named there.
 *
 *	source_begin()				the store is served, or is kept for the host that has it
 *	source_connect(), source_gone()		connections; move_source_message() and move_source_more() are called as they are
 *	source_retired(), source_directory()	what the stream tells, and what @directory has read
 *	source_owner()				what @look has read
 *	source_tick()				once a second
 *	source_ask()				an operator wants the target that stands by
 *	source_stop(), source_is_over()		the daemon is to end
 *	source_run()				after all these, and after each round of the daemon's loop
 *
 * What it guarantees, whatever happens:
 *  - READY is told only when the kernel has frozen the store, its stream is empty, core is settled, the target was told
 *    all, and the ownership holds (FREEZE, DRAIN, DELTA). From the blocks of the rest on source_ticks() is false;
 *  - clients are served again only if no connection has keys (REVOKE_TO_RESUME), and etcd has answered that no host can
 *    take the store by a consent that was told (ABORT_IN_ETCD);
 *  - the state is SOURCE_CLOSED only if no connection has keys (REVOKE_TO_FREE), and etcd says that the sender of CLOSE has
 *    the store (CLOSE_CHECKED) or that a third host has (KEEP);
 *  - an ownership that is over after READY does not end the daemon before etcd has said which host has the store.
 */
#ifndef LSMEMD_SOURCE_H
#define LSMEMD_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "remote/move.h"
#include "tell.h"

#define SOURCE_REST	8u	/* segments that may be left to tell at the MARK */
#define SOURCE_LOOK_S	5u	/* between two looks into etcd while the memory is kept for the owner */

enum source_state {
	SOURCE_SERVES,	/* clients are served; targets read blocks */
	SOURCE_FREEZES,	/* MOVE has come: LSMEM_REPL_FREEZE, until it is so */
	SOURCE_DRAINS,	/* frozen: until no event is left, and core is settled */
	SOURCE_TELLS,	/* until the target was told all, and the consent is known */
	SOURCE_WAITS,	/* READY follows the last block; then until the target has the store */
	SOURCE_VOIDS,	/* no connection has keys; the consent is being taken back */
	SOURCE_ASKS,	/* the ownership is over, and READY was told: which host has the store? */
	SOURCE_KEEPS,	/* another host has the store; the memory is kept for it */
	SOURCE_CLOSED,	/* the memory can be freed */
	SOURCE_ENDED,	/* the daemon is to end; the store stays in the kernel, frozen */
};

struct source;

/**
 * struct source_user - what the order needs of its caller; no callback but @drained calls back
 * @slots: as in struct move_source_user, as are the next four and @let_go
 * @send: send a message
 * @room: how many more messages can be sent now
 * @end: end a connection, then call source_gone()
 * @keys: let a target read the store's memory
 * @freeze: do LSMEM_REPL_FREEZE. Return: 1: frozen, and @objects is how many objects the store has; 0: not yet; or a
 *	negative errno: this move fails
 * @thaw: do it with LSMEM_FREEZE_THAW. Return: 0 or a negative errno, which ends the daemon
 * @words: as in struct tell_user
 * @directory: read the listings of a segment from a backup, then call source_directory(). One at a time
 * @drained: take all events of the stream, and call source_retired() for those that say so; have some come since the last call, or is core not settled?
 *	Return: false: either is so; true: neither, and @digest is the sequence number of the newest digest
 * @holds: cluster_holds()
 * @consent: cluster_consent(). Return: false: not known yet; true: @revision is that of the owner's key
 * @withdraw: cluster_void(), for that revision. Return: true: done
 * @look: read in etcd which host has the store, then call source_owner(); until etcd has answered. One at a time
 * @let_go: see @slots
 */
struct source_user {
	int (*slots)(struct move_peer *peer, struct session_export *offer);
	void (*send)(struct move_peer *peer, const union wire_message *message);
	unsigned int (*room)(const struct move_peer *peer);
	void (*end)(struct move_peer *peer, const char *why);
	int (*keys)(struct move_peer *peer, struct move_keys *keys);
	int (*freeze)(struct source *source, uint64_t *objects);
	int (*thaw)(struct source *source);
	int (*words)(struct source *source, struct lsmem_words *words);
	void (*directory)(struct source *source, uint64_t segment);
	bool (*drained)(struct source *source, uint64_t *digest);
	bool (*holds)(struct source *source);
	bool (*consent)(struct source *source, uint64_t *revision);
	bool (*withdraw)(struct source *source);
	void (*look)(struct source *source);
	bool (*let_go)(struct move_source *moves);
};

/**
 * struct source - a store that its targets can take
 * @user: callbacks
 * @network: callbacks of @moves
 * @moves: the connections
 * @here: name of this host, as in etcd
 * @state: how far the move is
 * @error: of SOURCE_ENDED: 0: the ownership is over; or a negative errno
 * @tell: the blocks of @reader
 * @reader: the connection that reads blocks; NULL: none
 * @more: there may be a block
 * @stops: MOVE has come
 * @objects: of the frozen store
 * @freezing: the kernel was asked to freeze the store
 * @reading: a directory is being read ..
 * @stale: .. for a connection that is gone
 * @wanted: segment whose directory is to be read; 0: none
 * @look: etcd is to be asked
 * @looking: .. is being asked
 * @alone: no connection had keys when it was asked
 * @stopping: the daemon is to end
 * @now_ns: of the last tick
 * @looked_ns: when etcd was asked last
 */
struct source {
	const struct source_user *user;
	struct move_source_user network;
	struct move_source moves;
	char here[WIRE_NAME];
	enum source_state state;
	int error;
	struct tell tell;
	struct move_peer *reader;
	uint64_t objects;
	bool more, stops, freezing;
	bool reading, stale;
	uint64_t wanted;
	bool look, looking, alone, stopping;
	uint64_t now_ns, looked_ns;
};

/**
 * struct source_store - which store, and for which targets
 * @store: the store; must stay
 * @key: the secret of moves; must stay
 * @here: name of this host, as in etcd
 * @host: NULL: this host serves the store. Else it keeps the frozen memory for this host, which has taken it
 */
struct source_store {
	const struct move_store *store;
	const struct secret *key;
	const char *here, *host;
};

void source_begin(struct source *source, const struct source_user *user, const struct source_store *store,
		  uint64_t now_ns);
bool source_connect(struct source *source, struct move_peer *peer, const struct session_setup *setup);
void source_gone(struct move_peer *peer);
void source_retired(struct source *source, uint64_t segment);
void source_directory(struct source *source, const struct lsmem_listing *listings, uint32_t nr, int error);
void source_owner(struct source *source, const char *host, uint64_t term);
void source_tick(struct source *source, uint64_t now_ns);
const char *source_ask(struct source *source);
void source_stop(struct source *source);
void source_run(struct source *source);
bool source_ticks(const struct source *source);
bool source_is_over(const struct source *source);

#endif
