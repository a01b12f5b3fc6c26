/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The connection over which a store moves to another host: two ends without I/O, clocks or allocations
 * (Documentation/migration.rst; rules in capitals are named there). The caller passes in each message and each
 * end of an RDMA READ, and does what the callbacks say. Its daemon alone talks to etcd and to the kernel.
 *
 *	move_source.c	the source: targets that read blocks, and the one that gets the store
 *	move_target.c	the target
 *
 * What the source guarantees, whatever it receives:
 *  - it makes and tells keys to its memory only for the target whose MOVE it has taken, after
 *    move_source_ready() (KEYS_AT_READY, KEYS_TO_ONE), or for the host that etcd names as the owner, if that
 *    is the host that it told READY (KEYS_TO_OWNER, OFFER_AGAIN). The connection that had keys is gone before
 *    another one gets any;
 *  - READY follows all blocks (DELTA);
 *  - it does not resume, and does not say that memory can be freed, while a connection may have keys
 *    (REVOKE_TO_RESUME, REVOKE_TO_FREE);
 *  - CLOSE counts only if etcd says that its sender has the store (CLOSE_CHECKED).
 *
 * What the target guarantees:
 *  - blocks reach its daemon in order, none is missing, and ahead_check() has accepted each;
 *  - READY reaches it once, after MOVE, when all blocks have come and AHEAD_MARK was one of them;
 *  - a connection that it ends before TAKEN is not ended without a word: GIVE_UP tells why, if the source knows it.
 *
 * Every wait has a bound, below. A peer costs MOVE_SLOTS * AHEAD_BYTES of memory after its proof, nothing before.
 * A peer that reads no blocks delays no other one: the source makes a block when a READ asks for it.
 */
#ifndef LSMEMD_MOVE_H
#define LSMEMD_MOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "ahead.h"
#include "base/secret.h"
#include "session.h"
#include "wire.h"

#define MOVE_SLOTS	8u	/* blocks on their way to a target, at most */
#define MOVE_TARGETS	4u	/* targets with a proof, at most .. */
#define MOVE_STRANGERS	8u	/* .. and without; the oldest gives way */
#define MOVE_ENDING	8u	/* connections that end and are not gone yet, at most */

/* Seconds, at most. The caller ticks once a second: a wait may take one more. */
#define MOVE_PROOF_S	5u	/* from a connection to its proof */
#define MOVE_ASK_S	10u	/* until etcd has said whether a target has the store */
#define MOVE_IDLE_S	30u	/* a target says nothing, and no READ waits; a source tells no block, not even the MARK again */
#define MOVE_READY_S	60u	/* from MOVE to READY: no client is served */
#define MOVE_TAKEN_S	10u	/* from READY until etcd has said that the target has the store: likewise */
#define MOVE_ANSWER_S	25u	/* the target: until STORE, until keys come again, until CLOSE is answered */

/**
 * struct move_store - a store that moves, as its source has it
 * @name: by which targets ask for it
 * @uuid: of the store
 * @term: of the source's ownership
 * @indices: format_indices()
 * @seglets: of the source's memory
 */
struct move_store {
	char name[WIRE_NAME];
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint64_t term, indices;
	uint32_t seglets;
};

/**
 * struct move_region - memory of the source that the target may read
 * @address: RDMA address
 * @bytes: its length
 * @key: RDMA key
 */
struct move_region {
	uint64_t address, bytes;
	uint32_t key;
};

/**
 * struct move_keys - all memory of the source that the target may read
 * @seglets: struct move_store's @seglets, one after the other
 * @table: their seglet table
 */
struct move_keys {
	struct move_region seglets, table;
};

/**
 * struct move_ready - what READY says
 * @term: of the source
 * @revision: of the owner's key in etcd: with @term the source's consent. 0: keys again, no consent
 * @digest: sequence number of the newest digest; 0: the store is volatile, or keys again
 * @last: number of the last block; 0: keys again
 * @objects: how many objects the store has, as the source's kernel counts them; 0: also keys again. What was told counts
 *	only if as many were told (known_told())
 * @keys: to the source's memory
 */
struct move_ready {
	uint64_t term, revision, digest, last, objects;
	struct move_keys keys;
};

/* ---- The source -------------------------------------------------------- */

enum move_phase {
	MOVE_SERVES,	/* the source serves clients; targets read blocks */
	MOVE_STOPS,	/* a target has said MOVE; it reads the rest */
	MOVE_TOLD,	/* READY is out: the target may take the store */
	MOVE_MOVED,	/* another host has the store; the memory is kept for it */
	MOVE_CLOSED,	/* no host needs the memory any more */
};

struct move_source;
struct move_peer;

/**
 * struct move_source_user - what a source asks of its caller; no callback calls back into the source
 * @slots: make zeroed memory for MOVE_SLOTS blocks that only the target of @peer can read, by RDMA: fill in @peer's
 *	@memory and @offer's @address and @key. Return: 0 or a negative errno
 * @send: send a message; is copied
 * @room: how many more messages can be sent now
 * @end: the connection is over: when the messages so far are sent, or after a second, destroy its queue pair and
 *	its keys, then call move_source_gone()
 * @block: make the next block for this target, all but ahead_seal(). Return: 1; 0: there is none now; or a
 *	negative errno, which ends the connection. After a 0, move_source_more() asks again. In MOVE_STOPS 0
 *	counts as the end once move_source_ready() was called
 * @keys: let the target of @peer read the store's memory. Return: 0 or a negative errno
 * @stop: serve no client any more, make all durable, then call move_source_ready() (FREEZE, DRAIN)
 * @look: read in etcd which host has the store, then call move_source_owner()
 * @left: no connection has keys any more, and what @phase says goes on without one. MOVE_STOPS: clients may be
 *	served again, then call move_source_resume(). MOVE_TOLD: take the consent back first (ABORT_IN_ETCD), or
 *	call move_source_owner(). MOVE_MOVED: a target may come for keys again. MOVE_CLOSED: free the memory
 * @let_go: the owner needs this memory no more, and says so once: from now on this host's next daemon has to know it, whatever
 *	happens. Return: false: it may not; the owner is told nothing, and says it again
 */
struct move_source_user {
	int (*slots)(struct move_peer *peer, struct session_export *offer);
	void (*send)(struct move_peer *peer, const union wire_message *message);
	unsigned int (*room)(const struct move_peer *peer);
	void (*end)(struct move_peer *peer, const char *why);
	int (*block)(struct move_peer *peer, struct ahead_head *block);
	int (*keys)(struct move_peer *peer, struct move_keys *keys);
	void (*stop)(struct move_source *source);
	void (*look)(struct move_source *source);
	void (*left)(struct move_source *source);
	bool (*let_go)(struct move_source *source);
};

/**
 * struct move_peer - the connection of a target, in memory of the caller
 * @session: state of the protocol
 * @source: its source
 * @next: in @peers of the source
 * @stream: its blocks
 * @memory: of the slots, AHEAD_BYTES each
 * @wanted: slots of READs that wait for a block, the oldest first
 * @nr_wanted: number of @wanted
 * @since_ns: when it connected; later, when the target last said something
 * @close_term: of its CLOSE; 0: it has not said CLOSE
 * @marked: AHEAD_MARK was told
 * @taken: it has said TAKEN
 * @over: nothing is taken from it any more
 * @error: why its target does not take the store, a negative errno; the text is that of @end. 0: it has not said GIVE_UP
 * @bytes: of the blocks that were told
 */
struct move_peer {
	struct session session;
	struct move_source *source;
	struct move_peer *next;
	struct ahead_stream stream;
	uint8_t *memory;
	uint8_t wanted[MOVE_SLOTS];
	uint32_t nr_wanted;
	uint64_t since_ns, close_term;
	bool marked, taken, over;
	int error;
	uint64_t bytes;
};

/**
 * struct move_source - a store that its targets can take
 * @user: callbacks
 * @store: the store
 * @key: the secret of moves
 * @phase: how far the move is
 * @peers: all connections that are not gone yet, the youngest first
 * @chosen: the one that has said MOVE, or has keys again; NULL: none
 * @heir: gets keys when @chosen is gone; NULL: none
 * @host: name of the host that may take the store, or has it; "": none
 * @ready: move_source_ready() was called
 * @revision: of the consent
 * @digest: sequence number of the newest digest
 * @objects: how many objects the store has
 * @now_ns: of the last tick
 * @since_ns: since when the source is in @phase
 */
struct move_source {
	const struct move_source_user *user;
	const struct move_store *store;
	const struct secret *key;
	enum move_phase phase;
	struct move_peer *peers, *chosen, *heir;
	char host[WIRE_NAME];
	bool ready;
	uint64_t revision, digest, objects;
	uint64_t now_ns, since_ns;
};

void move_source_begin(struct move_source *source, const struct move_source_user *user,
		       const struct move_store *store, const struct secret *key, const char *host,
		       uint64_t now_ns);
bool move_source_connect(struct move_source *source, struct move_peer *peer,
			 const struct session_setup *setup);
void move_source_message(struct move_peer *peer, const union wire_message *message, size_t length);
void move_source_more(struct move_peer *peer);
void move_source_gone(struct move_peer *peer);
void move_source_tick(struct move_source *source, uint64_t now_ns);

bool move_source_ready(struct move_source *source, uint64_t revision, uint64_t digest, uint64_t objects);
void move_source_owner(struct move_source *source, const char *host, uint64_t term);
bool move_source_resume(struct move_source *source);
void move_source_end(struct move_source *source, const char *why);
const char *move_source_cancel(struct move_source *source);
bool move_source_close(struct move_source *source);

/* ---- The target -------------------------------------------------------- */

enum move_step {
	MOVE_CALLS,	/* until STORE has come */
	MOVE_READS,	/* blocks come, or keys again */
	MOVE_WAITS,	/* it has said MOVE */
	MOVE_HAS,	/* READY has come, and all blocks */
	MOVE_CLOSES,	/* it has said CLOSE */
	MOVE_OVER,
};

struct move_target;

/**
 * struct move_target_user - what a target asks of its caller; no callback but @ready may call back into the target
 * @slots: make memory for MOVE_SLOTS blocks that the source cannot reach: fill in @target's @memory.
 *	Return: 0 or a negative errno
 * @send: send a message; is copied
 * @read: read @length bytes at @address into the memory of a slot, by RDMA READ with @key, then call
 *	move_target_read(), for one READ after the other in this order
 * @end: the connection is over; destroy its queue pair. The last callback. If the source has refused, @session has
 *	its REFUSE
 * @store: is this the store, and can it be taken? Return: 0, or a negative errno, which ends the connection
 * @block: take a block. Return: 0, or a negative errno, which ends the connection
 * @ready: all has come: take the store in etcd (CONSENT), then call move_target_taken(). Or keys have come again
 * @closed: the source needs no CLOSE any more; @end follows
 */
struct move_target_user {
	int (*slots)(struct move_target *target);
	void (*send)(struct move_target *target, const union wire_message *message);
	void (*read)(struct move_target *target, uint32_t slot, uint32_t length, uint64_t address, uint32_t key);
	void (*end)(struct move_target *target, const char *why);
	int (*store)(struct move_target *target, const struct move_store *store);
	int (*block)(struct move_target *target, const struct ahead_head *block);
	void (*ready)(struct move_target *target, const struct move_ready *ready);
	void (*closed)(struct move_target *target);
};

/**
 * struct move_call - what a target wants
 * @setup: queue pairs and nonce; the versions are filled in
 * @key: the secret of moves; must stay as long as the target
 * @name: of the store
 * @who: name of this host, as in etcd
 * @term: with which this host has taken the store already, and wants keys again; 0: it has not
 */
struct move_call {
	struct session_setup setup;
	const struct secret *key;
	const char *name, *who;
	uint64_t term;
};

/**
 * struct move_target - the connection to a source
 * @session: state of the protocol
 * @user: callbacks
 * @step: how far the move is
 * @store: as STORE described it
 * @stream: its blocks
 * @memory: of the slots, AHEAD_BYTES each
 * @slots: number of slots in use
 * @reading: slots of RDMA READs under way, the oldest first
 * @lengths: bytes of these blocks
 * @bytes: of the blocks that have come
 * @nr_reading: number of @reading
 * @announced: number of the newest block that the source has told
 * @marked: AHEAD_MARK has come
 * @wanted: AHEAD_COME has come
 * @told: READY has come
 * @taken: TAKEN was said
 * @ready: what it said
 * @close_term: of CLOSE
 * @now_ns: of the last tick
 * @since_ns: when the last block came, or since when it is in @step
 */
struct move_target {
	struct session session;
	const struct move_target_user *user;
	enum move_step step;
	struct move_store store;
	struct ahead_stream stream;
	uint8_t *memory;
	uint32_t slots;
	uint8_t reading[MOVE_SLOTS];
	uint32_t lengths[MOVE_SLOTS];
	uint32_t nr_reading;
	uint64_t announced, bytes;
	bool marked, wanted, told, taken;
	struct move_ready ready;
	uint64_t close_term;
	uint64_t now_ns, since_ns;
};

void move_target_begin(struct move_target *target, const struct move_target_user *user,
		       const struct move_call *call, uint64_t now_ns);
void move_target_message(struct move_target *target, const union wire_message *message, size_t length);
void move_target_read(struct move_target *target, uint32_t slot);
void move_target_tick(struct move_target *target, uint64_t now_ns);

bool move_target_move(struct move_target *target);
void move_target_taken(struct move_target *target, uint64_t term);
void move_target_close(struct move_target *target, uint64_t term);
void move_target_end(struct move_target *target, const char *why);
void move_target_give_up(struct move_target *target, int error, const char *why);

#endif
