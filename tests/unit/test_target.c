// SPDX-License-Identifier: GPL-2.0
/*
 * The order of a move at its target: daemon/move/target.h, connected to the source's, daemon/move/source.h, by both real
 * ends of the connection. Kernels, etcd, backups and both daemons are simulated here; etcd loses answers, and does
 * transactions late. Random lives; what must always hold is looked at after each step. Of several targets at once, and of
 * what concerns the source alone, see test_source.c; of bytes, test_moved.c.
 *
 *	build/test_target [--seed N]
 */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "move/source.h"
#include "move/target.h"
#include "../common/random.h"
#include "../common/tap.h"

#define SECOND		1000000000ull
#define LEASE_NS	(15 * SECOND)
#define TRUST_NS	(12 * SECOND)	/* an owner stops before etcd lets another one in */
#define TERM		7u
#define REVISION	99u
#define DIGEST		1234u
#define THINGS		6u		/* objects of the store */
#define SEGLETS		256u
#define QUEUE		64u
#define ROOM		16u
#define REQUESTS	16u

static const struct secret key = { 16, "sixteen letters." };

struct queue {
	union wire_message messages[QUEUE];
	uint32_t first, nr;
};

/**
 * struct link - the connection
 * @connected: @peer is used
 * @keyed: the target has keys to the source's memory
 * @ended: an end has said that it is over
 * @reads: RDMA READs on their way
 */
static struct link {
	struct move_peer peer;
	struct queue to_source, to_target;
	struct { uint32_t slot, length; } reads[MOVE_SLOTS];
	uint32_t nr_reads;
	bool connected, keyed, ended;
} wire;

static uint8_t source_memory[MOVE_SLOTS * AHEAD_BYTES], target_memory[MOVE_SLOTS * AHEAD_BYTES];

/**
 * struct request - a transaction of host B on its way
 * @term: that it compares with, as is @revision
 * @lease: of the daemon that has asked
 * @wanted: it waits for the answer
 * @done: .. which is @result
 */
struct request {
	uint64_t term, revision, lease;
	bool wanted, done;
	int result;
};

/**
 * struct etcd - as etcd has it
 * @term: of the store; @host: that took it; @lease: of B's daemon, if it did
 * @revision: of the owner's key; 0: there is none
 * @seen: by A's daemon; @renewed_ns: when A's lease was
 * @wants_void: A's daemon wants its consent to be void; @looks: .. to know which host has the store
 * @lost: A's daemon knows that it is not the owner
 * @away_a: A does not reach it, @away_b: B
 */
struct etcd {
	uint64_t term, revision, changes, lease, leases, seen, renewed_ns;
	char host;
	bool wants_void, looks, lost, away_a, away_b;
	struct request requests[REQUESTS];
	uint32_t nr;
};

/**
 * struct host_a - the source's host
 * @alive: its daemon runs; @offers: .. with @source
 * @image: its kernel has the store; @asked: to freeze it; @frozen: and it is
 * @versions: of the objects; @segments: that they are in; @changed: .. and that are to be told
 * @retired: segments that the stream has not told yet
 * @unsettled: until core is settled
 * @damaged: an object that is not told; @volatile_: the store has no digest
 * @gave_up: what the target has said of its error, and @cause in words
 */
struct host_a {
	struct source source;
	struct move_store store;
	bool alive, offers, image, asked, frozen, damaged, volatile_;
	uint32_t left, unsettled;
	uint64_t versions[THINGS], segments[THINGS], next;
	bool changed[THINGS];
	uint64_t retired[1000];
	uint32_t nr_retired;
	int gave_up;
	char cause[300];
};

/**
 * struct host_b - the target's host
 * @alive: its daemon runs, with @target
 * @lease: of its daemon; 0: none yet. @renewed_ns: when it was
 * @serves: the store, with @versions
 * @old: its kernel has the store of an earlier time; @frozen: .. which is kept for another host
 * @words: its kernel may have what was told
 * @connects: @connect was called; likewise @reads and @recovers, by 2 if from the backups
 * @needs: from the source; @busy: the kernel drops nothing; @far: no backup is reached
 * @full: the kernel has no memory for the store; @slow: .. and is making it; @made: it has made it
 * @wanted: an operator has wanted the move
 * @closes: CLOSEs that it has said; @taken: transactions that it has asked for
 */
struct host_b {
	struct target target;
	bool alive, serves, old, frozen, words, connects, reads, needs, busy, far, full, slow, made, wanted;
	int recovers;
	uint64_t lease, renewed_ns, versions[THINGS];
	uint32_t closes, taken, drops;
};

static struct life {
	uint64_t random, now_ns;
	struct host_a a;
	struct host_b b;
	struct etcd etcd;
	uint64_t digest, digest_term, backups[THINGS];
	uint32_t faults;
	bool third;			/* host C has the store */
	bool quiet;			/* no fault happens */
	const char *wrong;
} life;

/* B's daemon stands by until an operator wants it. */
static bool standing;

/* Over all lives: that they have what they are for. */
static struct count {
	uint64_t moved, given_up, ended, closed, third, asked_again, lost, late, from_backups, back, killed, again, refused, stood, stood_moved;
} count;

static bool chance(uint32_t percent)
{
	return random_chance(&life.random, percent);
}

static bool fault(uint32_t percent)
{
	return !life.quiet && chance(life.faults) && chance(percent);
}

static void wrong(const char *what)
{
	if (!life.wrong)
		life.wrong = what;
}

/* ---- The network ------------------------------------------------------------ */

static void push(struct queue *queue, const union wire_message *message)
{
	if (queue->nr == QUEUE)
		abort();
	queue->messages[(queue->first + queue->nr++) % QUEUE] = *message;
}

static union wire_message pop(struct queue *queue)
{
	union wire_message message = queue->messages[queue->first];

	queue->first = (queue->first + 1) % QUEUE;
	queue->nr--;
	return message;
}

/* Both ends lose the connection, whatever they know of each other; its keys are void. */
static void cut(const char *why)
{
	bool was = wire.connected;

	wire.to_source.nr = wire.to_target.nr = wire.nr_reads = 0;
	wire.connected = wire.keyed = wire.ended = false;
	if (was && life.a.offers)
		source_gone(&wire.peer);
	if (was && life.b.alive)
		target_gone(&life.b.target, why);
}

static bool to_source(void)
{
	union wire_message message;

	if (!wire.to_source.nr)
		return false;
	message = pop(&wire.to_source);
	move_source_message(&wire.peer, &message, le32toh(message.head.length));
	return true;
}

static bool to_target(void)
{
	union wire_message message;

	if (!wire.to_target.nr)
		return false;
	message = pop(&wire.to_target);
	move_target_message(&life.b.target.connection, &message, le32toh(message.head.length));
	move_source_more(&wire.peer);
	return true;
}

static bool to_memory(void)
{
	uint32_t slot = wire.reads[0].slot, length = wire.reads[0].length;

	if (!wire.nr_reads)
		return false;
	memmove(wire.reads, wire.reads + 1, --wire.nr_reads * sizeof(wire.reads[0]));
	memcpy(target_memory + (size_t)slot * AHEAD_BYTES, source_memory + (size_t)slot * AHEAD_BYTES, length);
	move_target_read(&life.b.target.connection, slot);
	return true;
}

/* A connection that B's daemon wants is made, or not. */
static void connects(bool refused)
{
	struct session_setup at_target = { .link = { 17, 23 }, .nonce = "target" };
	struct session_setup at_source = { .link = { 17, 23 }, .nonce = "source" };

	if (!life.b.connects)
		return;
	life.b.connects = false;
	if (refused || wire.connected || !life.a.offers || !source_connect(&life.a.source, &wire.peer, &at_source)) {
		target_gone(&life.b.target, "the source cannot be reached");
		return;
	}
	wire.connected = true;
	target_connected(&life.b.target, &at_target);
}

/* ---- Host A -------------------------------------------------------------------- */

static void push_to_target(struct move_peer *peer, const union wire_message *message)
{
	(void)peer;
	push(&wire.to_target, message);
}

static int a_slots(struct move_peer *peer, struct session_export *offer)
{
	peer->memory = source_memory;
	offer->address = 0x10000;
	offer->key = 5;
	return 0;
}

static unsigned int a_room(const struct move_peer *peer)
{
	(void)peer;
	return ROOM - (wire.to_target.nr < ROOM ? wire.to_target.nr : ROOM);
}

static void a_end(struct move_peer *peer, const char *why)
{
	life.a.gave_up = peer->error;
	snprintf(life.a.cause, sizeof(life.a.cause), "%s", why);
	wire.ended = true;
}

static int a_keys(struct move_peer *peer, struct move_keys *keys)
{
	(void)peer;
	if (!life.a.frozen || wire.keyed)
		wrong("keys to a store that is not frozen, or twice");
	wire.keyed = true;
	*keys = (struct move_keys){
		.seglets = { 0x200000, SEGLETS * LSMEM_SEGLET_BYTES, 8 },
		.table = { 0x900000, SEGLETS * sizeof(struct lsmem_seglet), 9 },
	};
	return 0;
}

static int a_freeze(struct source *source, uint64_t *objects)
{
	struct host_a *a = &life.a;

	(void)source;
	*objects = THINGS;
	if (life.b.alive && life.b.target.call.stands_by && !life.b.wanted)
		wrong("clients are stopped, and no operator has wanted that");
	if (!a->asked)
		a->left = random_below(&life.random, 3);
	a->asked = true;
	if (a->left) {
		a->left--;
		return 0;
	}
	a->unsettled += !a->frozen;
	a->frozen = true;
	return 1;
}

static int a_thaw(struct source *source)
{
	(void)source;
	life.a.asked = life.a.frozen = false;
	return 0;
}

/* Each object has a segment of its own. */
static int a_words(struct source *source, struct lsmem_words *words)
{
	struct lsmem_listing *to = (struct lsmem_listing *)(uintptr_t)words->listings;
	struct host_a *a = &life.a;
	uint32_t i, first = THINGS;

	(void)source;
	words->left = 0;
	for (i = 0; i < THINGS; i++) {
		if (words->flags & LSMEM_WORDS_BEGIN)
			a->changed[i] = true;
		if (a->changed[i] && first == THINGS)
			first = i;
		else
			words->left += a->changed[i];
	}
	words->nr = 0;
	if (first == THINGS)
		return 0;
	a->changed[first] = false;
	words->segment = a->segments[first];
	words->generation = 1;
	words->end = 4096;
	if (a->damaged && !first)
		return 0;
	words->nr = 1;
	*to = (struct lsmem_listing){
		__cpu_to_le64(lsmem_handle_make(first, 1)), __cpu_to_le64(a->versions[first]),
		__cpu_to_le64(lsmem_listing_make(100, LSMEM_TYPE_OBJECT, 0, 0, 0)), __cpu_to_le64(LSMEM_PLACE_COLD),
	};
	return 0;
}

static void a_directory(struct source *source, uint64_t segment)
{
	(void)source;
	(void)segment;
	wrong("nothing is cold, and a directory is read");
}

/* What A's log has reaches the backups. */
static void a_settles(void)
{
	struct host_a *a = &life.a;
	uint32_t i;

	for (i = 0; i < a->nr_retired; i++)
		source_retired(&a->source, a->retired[i]);
	a->nr_retired = 0;
	a->unsettled = 0;
	if (life.digest_term == a->store.term)		/* the next owner's fence */
		memcpy(life.backups, a->versions, sizeof(life.backups));
}

static bool a_drained(struct source *source, uint64_t *digest)
{
	struct host_a *a = &life.a;

	(void)source;
	*digest = a->volatile_ ? 0 : life.digest;
	return !a->nr_retired && !a->unsettled;
}

static bool a_holds(struct source *source)
{
	(void)source;
	return !life.etcd.lost && life.now_ns < life.etcd.renewed_ns + TRUST_NS;
}

static bool a_consent(struct source *source, uint64_t *revision)
{
	(void)source;
	*revision = life.etcd.seen;
	return life.etcd.seen;
}

static bool a_withdraw(struct source *source)
{
	if (life.etcd.seen != source->moves.revision)
		return true;
	life.etcd.wants_void = true;
	return false;
}

static void a_look(struct source *source)
{
	(void)source;
	life.etcd.looks = true;
}

static bool a_lets_go(struct move_source *moves)
{
	(void)moves;
	return true;
}

static const struct source_user a_user = {
	.slots = a_slots, .send = push_to_target, .room = a_room, .end = a_end, .keys = a_keys, .freeze = a_freeze,
	.thaw = a_thaw, .words = a_words, .directory = a_directory, .drained = a_drained, .holds = a_holds,
	.consent = a_consent, .withdraw = a_withdraw, .look = a_look, .let_go = a_lets_go,
};

static void a_begins(const char *host)
{
	struct source_store store = { .store = &life.a.store, .key = &key, .here = "A", .host = host };

	life.a.alive = life.a.offers = true;
	source_begin(&life.a.source, &a_user, &store, life.now_ns);
}

static bool a_serves(void)
{
	const struct host_a *a = &life.a;

	return a->alive && a->image && !a->asked && a->source.state == SOURCE_SERVES && a_holds(NULL);
}

/* A client writes. */
static void a_writes(void)
{
	struct host_a *a = &life.a;
	uint32_t i = random_below(&life.random, THINGS);

	if (!a_serves() || a->nr_retired == 1000)
		return;
	a->retired[a->nr_retired++] = a->segments[i];
	a->segments[i] = ++a->next;
	a->versions[i]++;
	a->changed[i] = true;
}

/* ---- etcd ---------------------------------------------------------------------- */

static void etcd_set(char host, uint64_t term, uint64_t lease)
{
	life.etcd.host = host;
	life.etcd.term = term;
	life.etcd.lease = lease;
	life.etcd.revision = ++life.etcd.changes;
}

static bool b_has(void)
{
	return life.etcd.host == 'B' && life.etcd.revision && life.etcd.lease == life.b.lease;
}

/* B's transaction arrives. */
static int etcd_take(const struct request *request)
{
	struct etcd *e = &life.etcd;

	if (request->lease != life.b.lease || life.now_ns >= life.b.renewed_ns + LEASE_NS)
		return -ESTALE;		/* there is no such lease */
	if (b_has())
		return 0;
	if (e->term != request->term || e->revision != request->revision)
		return -ESTALE;
	if (life.a.image && (!life.a.asked || !life.a.frozen))
		wrong("a store is taken that is not frozen");
	etcd_set('B', e->term + 1, request->lease);
	count.moved++;
	count.stood_moved += life.b.target.call.stands_by;
	count.late += !request->wanted;
	return 0;
}

/* A request goes on, is answered, or is not. */
static void etcd_answers(void)
{
	struct etcd *e = &life.etcd;
	struct request *request;
	uint32_t i;
	int result;

	if (!e->nr)
		return;
	i = random_below(&life.random, e->nr);
	request = &e->requests[i];
	if (request->wanted && (e->away_b || fault(30))) {
		request->wanted = false;
		count.lost++;
		target_answer(&life.b.target, -EAGAIN, 0);
		return;
	}
	if (!request->done) {
		if (e->away_b)
			return;
		request->result = etcd_take(request);
		request->done = true;
		return;
	}
	result = request->result;
	if (request->wanted) {
		memmove(request, request + 1, (--e->nr - i) * sizeof(*request));
		count.refused += result != 0;
		target_answer(&life.b.target, result, e->term);
		return;
	}
	memmove(request, request + 1, (--e->nr - i) * sizeof(*request));
}

static bool a_owns(void)
{
	return life.etcd.host == 'A' && life.etcd.revision;
}

static const char *name_of(char host)
{
	return host == 'A' ? "A" : host == 'B' ? "B" : "C";
}

/* The thread of A's daemon. */
static void a_renews(void)
{
	struct etcd *e = &life.etcd;

	if (e->away_a || !life.a.alive)
		return;
	if (!a_owns()) {
		e->lost = true;
	} else if (!e->lost) {
		if (e->wants_void && e->revision == e->seen)
			e->revision = ++e->changes;
		e->wants_void = false;
		e->seen = e->revision;
		e->renewed_ns = life.now_ns;
	}
	if (!e->looks)
		return;
	e->looks = false;
	source_owner(&life.a.source, name_of(e->host), e->term);
}

static bool b_holds(struct target *target)
{
	(void)target;
	return b_has() && life.now_ns < life.b.renewed_ns + TRUST_NS;
}

/* Leases are renewed, or end. */
static void etcd_passes(void)
{
	struct etcd *e = &life.etcd;

	a_renews();
	if (a_owns() && life.now_ns >= e->renewed_ns + LEASE_NS)
		e->revision = 0;
	if (b_has() && life.b.alive && !e->away_b && life.now_ns < life.b.renewed_ns + LEASE_NS)
		life.b.renewed_ns = life.now_ns;
	if (e->host == 'B' && e->revision && life.now_ns >= life.b.renewed_ns + LEASE_NS)
		e->revision = 0;
}

/* ---- Host B --------------------------------------------------------------------- */

static void b_connect(struct target *target)
{
	(void)target;
	if (life.b.connects || wire.connected)
		wrong("two connections at a time");
	life.b.connects = true;
}

static int b_slots(struct move_target *connection)
{
	connection->memory = target_memory;
	return 0;
}

/* CLOSE_COMPLETE */
static void b_send(struct move_target *connection, const union wire_message *message)
{
	struct host_b *b = &life.b;

	(void)connection;
	if (le16toh(message->head.type) == WIRE_CLOSE) {
		b->closes++;
		if (!b->serves || b->needs)
			wrong("CLOSE of a host that needs the source");
	}
	push(&wire.to_source, message);
}

static void b_read(struct move_target *connection, uint32_t slot, uint32_t length, uint64_t address, uint32_t rkey)
{
	(void)connection;
	if (wire.nr_reads == MOVE_SLOTS || address != 0x10000 + (uint64_t)slot * AHEAD_BYTES || rkey != 5)
		abort();
	wire.reads[wire.nr_reads].slot = slot;
	wire.reads[wire.nr_reads++].length = length;
}

static void b_end(struct move_target *connection, const char *why)
{
	(void)connection;
	(void)why;
	if (wire.ended && !wire.connected)
		wrong("a connection ends twice");
	wire.ended = true;
}

static int b_store(struct target *target, const struct move_store *store)
{
	if (memcmp(store->uuid, life.a.store.uuid, sizeof(store->uuid)) || fault(5))
		return -EMEDIUMTYPE;
	if (target->term)
		return 0;
	known_free(target->known);
	target->known = known_new(store->indices, 1000);
	return target->known ? 0 : -ENOMEM;
}

static int b_drop(struct target *target)
{
	struct host_b *b = &life.b;

	b->drops++;
	if (b->frozen)
		return -EPERM;
	if (b->slow && target->clear)
		return -EAGAIN;
	if (b->busy || fault(20))
		return -EBUSY;
	b->old = b->words = false;
	return 0;
}

static int b_reached(struct target *target)
{
	(void)target;
	life.b.words = true;
	if (fault(1))
		return -EIO;
	return !life.b.far && (life.quiet || chance(30));
}

/* The memory of the store. */
static int b_made(struct target *target)
{
	(void)target;
	life.b.made = false;
	if (life.b.full || fault(1))
		return -ENOMEM;
	life.b.made = !life.b.slow && (life.quiet || chance(30));
	return life.b.made;
}

static void b_digest(struct target *target)
{
	(void)target;
	if (life.b.reads)
		wrong("two digests are read at a time");
	life.b.reads = true;
}

static void reads_digest(int error)
{
	if (!life.b.reads)
		return;
	life.b.reads = false;
	target_digest(&life.b.target, error, life.digest_term, life.digest);
}

/* CONSENT */
static void b_take(struct target *target, uint64_t term, uint64_t revision)
{
	struct etcd *e = &life.etcd;
	struct host_b *b = &life.b;
	uint32_t i;

	for (i = 0; i < e->nr; i++)
		if (e->requests[i].wanted)
			wrong("two transactions at a time");
	if (term != target->ready.term || revision != target->ready.revision || !revision)
		wrong("a transaction that compares with something else than READY's");
	if (known_objects(target->known) != THINGS)
		wrong("a transaction, and not all was told");
	if (!b->lease) {
		b->lease = ++e->leases;
		b->renewed_ns = life.now_ns;
	}
	count.asked_again += b->taken;
	b->taken++;
	if (e->nr == REQUESTS) {
		target_answer(target, -EAGAIN, 0);
		return;
	}
	e->requests[e->nr++] = (struct request){ term, revision, b->lease, true, false, 0 };
}

/* TAKE_FIRST, DROP_FIRST */
static void b_recover(struct target *target, const struct recover_told *told)
{
	(void)told;
	if (life.b.recovers)
		wrong("two recoveries at a time");
	if (!b_has() || target->term != life.etcd.term)
		wrong("a store is recovered that another host may have");
	if (!life.b.made)
		wrong("a store is taken that the kernel has not made");
	if (life.b.old)
		wrong("the kernel has the store of an earlier time");
	life.b.recovers = told ? 1 : 2;
}

static bool b_needs(struct target *target)
{
	(void)target;
	return life.b.needs;
}

static const struct target_user b_user = {
	.connect = b_connect, .slots = b_slots, .send = b_send, .read = b_read, .end = b_end, .store = b_store,
	.drop = b_drop, .reached = b_reached, .made = b_made, .digest = b_digest, .take = b_take, .holds = b_holds,
	.recover = b_recover, .needs = b_needs,
};

static void b_begins(uint64_t term)
{
	struct target_call call = { .key = &key, .name = "data", .who = "B", .term = term, .stands_by = !term && standing };

	life.b.alive = true;
	target_begin(&life.b.target, &b_user, &call, life.now_ns);
}

/* It has what the source had: told, or from the backups. */
static void recovers(int error)
{
	struct host_b *b = &life.b;
	const struct recover_told *told = &b->target.told;
	bool known = b->recovers == 1;
	struct lsmem_directory_entry listing;
	uint32_t i, nr;

	if (!b->recovers)
		return;
	b->recovers = 0;
	if (!error && known && (told->term != life.digest_term || told->sequence != life.digest))
		error = -ESTALE;
	if (error) {
		target_recovered(&b->target, error);
		return;
	}
	count.from_backups += !known;
	for (i = 0; i < THINGS; i++) {
		b->versions[i] = life.backups[i];
		if (known)
			b->versions[i] = told->listing(told->context, i, &listing, &nr) ?
					 __le64_to_cpu(listing.version) : 0;
		if (b->versions[i] != life.a.versions[i])
			wrong("it serves something else than the source had");
	}
	if (b_holds(&b->target)) {
		life.digest_term = b->target.term;
		life.digest++;
		b->serves = true;
		b->words = false;
	}
	target_recovered(&b->target, b->serves ? 0 : -EPERM);
}

/* B's daemon ends, in any way: its kernel keeps what it has served. */
static void b_leaves(void)
{
	struct etcd *e = &life.etcd;
	uint32_t i;

	life.b.alive = false;
	cut("");
	life.b.connects = life.b.reads = false;
	life.b.recovers = 0;
	for (i = 0; i < e->nr; i++)
		e->requests[i].wanted = false;
	known_free(life.b.target.known);
	life.b.target.known = NULL;
	life.b.words = false;
	life.b.taken = 0;
}

static void a_leaves(void)
{
	life.a.alive = life.a.offers = false;
	if (wire.connected)
		cut("the source has gone");
	life.etcd.looks = life.etcd.wants_void = false;
	life.etcd.lost = true;
}

/* ---- The next daemons -------------------------------------------------------------- */

/* A's next daemon: rules 4 and 8 of migration.rst. */
static void a_starts(void)
{
	struct etcd *e = &life.etcd;
	struct host_a *a = &life.a;
	bool free = !e->revision || e->host == 'A';

	if (a->alive || e->away_a)
		return;
	if (!free) {
		if (a->image && a->frozen && e->term == a->store.term + 1)
			a_begins(name_of(e->host));
		else
			a->image = a->asked = a->frozen = false;
		return;
	}
	if (!a->image || e->host != 'A') {
		memcpy(a->versions, life.backups, sizeof(a->versions));
		a->image = true;
	}
	etcd_set('A', e->term + 1, 0);
	e->seen = e->revision;
	e->renewed_ns = life.now_ns;
	e->lost = false;
	a->asked = a->frozen = false;
	a->nr_retired = 0;
	a->unsettled = 1;
	a->store.term = life.digest_term = e->term;
	life.digest++;
	memcpy(life.backups, a->versions, sizeof(life.backups));
	count.back++;
	a_begins(NULL);
}

/* B's next daemon claims the store, and asks the source. */
static void b_starts(void)
{
	struct etcd *e = &life.etcd;
	struct host_b *b = &life.b;

	if (b->alive || e->away_b || (e->revision && e->host != 'B'))
		return;
	b->lease = ++e->leases;
	b->renewed_ns = life.now_ns;
	etcd_set('B', e->term + 1, b->lease);
	b->old = false;
	if (!b->serves)
		memcpy(b->versions, life.backups, sizeof(b->versions));
	b->serves = true;
	life.digest_term = e->term;
	life.digest++;
	count.again++;
	b_begins(e->term);
}

static void c_claims(void)
{
	if (life.etcd.revision)
		return;
	etcd_set('C', life.etcd.term + 1, 0);
	life.third = true;
	life.digest_term = life.etcd.term;
}

/* ---- What must always hold ------------------------------------------------------- */

static bool b_is_serving(void)
{
	return life.b.alive && life.b.serves && b_holds(NULL);
}

static void look_at(void)
{
	const struct target *t = &life.b.target;
	enum target_state state = t->state;
	const struct host_a *a = &life.a;
	const struct host_b *b = &life.b;
	uint32_t i;

	if (a_serves() + b_is_serving() > 1)
		wrong("two hosts serve the store");
	if (wire.keyed && !a->frozen)
		wrong("a key is valid, and its memory is not frozen");
	if (a->offers && a->source.state == SOURCE_CLOSED && (wire.keyed || !b->serves) && !life.third)
		wrong("memory is freed, and its owner does not serve yet");
	if (!b->alive)
		return;
	count.stood += target_stands_by(t);
	if (target_stands_by(t) && b->taken)
		wrong("it stands by, and has asked for the store");
	if (b->serves && state < TARGET_RECOVERS)
		wrong("it serves before it has the store");
	if (state == TARGET_SERVES && !b->serves)
		wrong("the order says that it serves, and it does not");
	if (state != TARGET_GIVEN_UP)
		return;
	if (t->linked || t->connecting)
		wrong("it was given up, and there is a connection");
	if (b->words)
		wrong("it was given up, and the kernel has words of it");
	if (b_has())
		wrong("it was given up, and the host has the store");
	for (i = 0; i < life.etcd.nr; i++) {
		const struct request *request = &life.etcd.requests[i];

		if (!request->done && request->lease == b->lease && request->term == life.etcd.term &&
		    request->revision == life.etcd.revision)
			wrong("it was given up, and a transaction can succeed");
	}
}

/* ---- Steps ------------------------------------------------------------------------ */

static void run(void)
{
	if (life.a.offers)
		source_run(&life.a.source);
	if (life.b.alive)
		target_run(&life.b.target);
	if (wire.ended && !wire.to_target.nr && !(wire.connected && wire.to_source.nr))
		cut("an end has ended it");
	else if (wire.ended && !wire.connected)	/* it was being made */
		wire.ended = false;
	if (life.b.alive && life.b.connects && life.b.target.ending)
		connects(true);
	if (life.a.offers && life.a.source.state == SOURCE_CLOSED) {
		life.a.image = life.a.asked = life.a.frozen = false;
		life.a.nr_retired = 0;
	}
	look_at();
}

static void second(void)
{
	life.now_ns += SECOND;
	if (wire.ended)		/* whatever is under way */
		cut("an end has ended it");
	if (life.a.offers)
		source_tick(&life.a.source, life.now_ns);
	if (life.b.alive)
		target_tick(&life.b.target, life.now_ns);
	etcd_passes();
	run();
}

static void begin(uint64_t seed)
{
	uint32_t i;

	known_free(life.b.target.known);
	memset(&wire, 0, sizeof(wire));
	memset(&life, 0, sizeof(life));
	life.random = seed;
	life.etcd = (struct etcd){
		.term = TERM, .host = 'A', .revision = REVISION, .seen = REVISION, .changes = REVISION,
	};
	life.digest = DIGEST;
	life.digest_term = TERM;
	life.a.store = (struct move_store){
		.name = "data", .uuid = "a store", .term = TERM, .indices = 1000, .seglets = SEGLETS,
	};
	life.a.image = true;
	for (i = 0; i < THINGS; i++) {
		life.a.segments[i] = ++life.a.next;
		life.a.versions[i] = life.backups[i] = 1;
	}
	life.b.old = true;
	a_begins(NULL);
	b_begins(0);
}

static bool network(void)
{
	return (wire.connected && to_source()) | to_target() | to_memory();
}

/* All that is under way in the network arrives; the digest of A's core is written. */
static void settle(void)
{
	uint32_t i;

	for (i = 0; i < 300; i++) {
		if (life.a.offers && (life.a.unsettled || life.a.nr_retired))
			a_settles();
		run();
		(void)network();
	}
}

/* An operator of either host wants the move. Return: why not, or NULL. */
static const char *is_asked(bool at_source)
{
	const char *refused = "its daemon does not run";

	if (at_source && life.a.offers)
		refused = source_ask(&life.a.source);
	else if (!at_source && life.b.alive)
		refused = target_ask(&life.b.target);
	life.b.wanted |= !refused;
	return refused;
}

static void step(void)
{
	uint32_t what = random_below(&life.random, 1000);
	struct target *t = &life.b.target;

	if (what < 250) {
		if (wire.connected)
			(void)to_source();
	} else if (what < 450) {
		(void)to_target();
	} else if (what < 600) {
		(void)to_memory();
	} else if (what < 650) {
		a_writes();
	} else if (what < 700) {
		if (life.a.offers && chance(50))
			a_settles();
	} else if (what < 730) {
		if (life.a.offers && source_ticks(&life.a.source) && life.digest_term == life.a.store.term && a_serves())
			life.digest++;
	} else if (what < 760) {
		connects(fault(30));
	} else if (what < 790) {
		reads_digest(fault(10) ? -EIO : 0);
	} else if (what < 830) {
		etcd_answers();
	} else if (what < 850) {
		recovers(fault(5) ? -EIO : 0);
	} else if (what < 870) {
		a_renews();
	} else if (what < 880) {
		life.b.needs = !life.b.needs && chance(50);
	} else if (what < 884) {
		if (fault(50))
			cut("a fault");
	} else if (what < 886) {
		if (fault(20) && life.a.alive) {
			a_leaves();
			count.killed++;
		}
	} else if (what < 888) {
		if (fault(20) && life.b.alive) {
			b_leaves();
			count.killed++;
		}
	} else if (what < 890) {
		if (fault(20) && life.b.alive)
			target_stop(t);
	} else if (what < 892) {
		life.etcd.away_a = !life.etcd.away_a && fault(50);
	} else if (what < 894) {
		life.etcd.away_b = !life.etcd.away_b && fault(50);
	} else if (what < 896) {
		if (a_owns() && life.a.frozen && fault(20))
			life.digest++;			/* a backup is lost */
	} else if (what < 900) {
		if (fault(50))
			a_starts();
		if (fault(50))
			b_starts();
	} else if (what < 902) {
		if (fault(20) && !life.a.image)
			c_claims();
	} else if (what < 906) {
		is_asked(chance(50));
	} else if (what < 960) {
		second();
	}
	run();
}

/* A daemon whose part is over ends; its host's next one starts. */
static void go_on(void)
{
	struct host_a *a = &life.a;
	struct host_b *b = &life.b;

	if (a->alive && (a->source.state == SOURCE_ENDED || (a->source.state == SOURCE_CLOSED && !wire.connected)))
		a_leaves();
	if (a->alive && a->source.state == SOURCE_SERVES && !a_holds(NULL) && !a_owns())
		a_leaves();
	if (b->alive && (b->target.state == TARGET_ENDED || b->target.state == TARGET_GIVEN_UP) &&
	    target_is_over(&b->target)) {
		count.ended += b->target.state == TARGET_ENDED;
		count.given_up += b->target.state == TARGET_GIVEN_UP;
		if (b_has())
			life.etcd.revision = 0;		/* it gives its lease back */
		b_leaves();
		b->lease = 0;
		b->serves = false;
	}
	if (b->alive && b->target.state >= TARGET_SERVES && !b_holds(NULL) && b->target.state <= TARGET_DONE &&
	    !b_has()) {
		b_leaves();
		b->serves = false;
	}
}

/* A host serves the store, all of it, and no memory is kept in vain. */
static bool is_settled(void)
{
	const struct host_a *a = &life.a;
	const struct host_b *b = &life.b;

	if (life.third)
		return !a->alive || a->source.state >= SOURCE_KEEPS;
	if (a_serves())
		return !b->alive;
	if (!b_is_serving())
		return false;
	return b->target.state == TARGET_DONE ? !a->image : b->target.state == TARGET_SERVES && !a->image;
}

/* Faults end, and time passes. */
static bool rest(void)
{
	uint32_t i;

	life.quiet = true;
	life.etcd.away_a = life.etcd.away_b = life.b.needs = false;
	for (i = 0; i < 400 && !life.wrong; i++) {
		second();
		connects(false);
		settle();
		(void)is_asked(i % 2);
		reads_digest(0);
		etcd_answers();
		etcd_answers();
		recovers(0);
		settle();
		a_renews();
		settle();
		go_on();
		if (is_settled() && i > 30)
			break;
		if (i % 20 == 19) {
			b_starts();
			a_starts();
		}
	}
	if (!is_settled())
		wrong("no host serves the store");
	return !life.wrong;
}

static bool test_life(uint64_t seed)
{
	static const uint32_t faults[] = { 0, 10, 30, 100 };
	uint32_t steps;

	standing = seed & 1;
	begin(seed);
	standing = false;
	life.faults = faults[random_below(&life.random, 4)];
	steps = 200 + random_below(&life.random, 5000);
	while (steps-- && !life.wrong) {
		step();
		if (chance(20))
			go_on();
	}
	(void)rest();
	count.closed += life.b.alive && target_is_closed(&life.b.target);
	count.third += life.third;
	if (life.wrong)
		tap_note("seed %llu, source %d, target %d: %s", (unsigned long long)seed, life.a.source.state,
			 life.b.target.state, life.wrong);
	return !life.wrong;
}

static bool lives(uint64_t first, uint64_t nr)
{
	uint64_t seed;

	for (seed = first; seed < first + nr; seed++)
		CHECK(test_life(seed));
	tap_note("%llu moved, %llu of them by a late transaction, %llu given up, %llu ended, %llu closed, %llu to a third host",
		 (unsigned long long)count.moved, (unsigned long long)count.late, (unsigned long long)count.given_up,
		 (unsigned long long)count.ended, (unsigned long long)count.closed, (unsigned long long)count.third);
	tap_note("%llu answers lost, %llu asked again, %llu refused, %llu from the backups, %llu killed, %llu and %llu claimed",
		 (unsigned long long)count.lost, (unsigned long long)count.asked_again,
		 (unsigned long long)count.refused, (unsigned long long)count.from_backups,
		 (unsigned long long)count.killed, (unsigned long long)count.back, (unsigned long long)count.again);
	tap_note("%llu of %llu that have stood by", (unsigned long long)count.stood_moved, (unsigned long long)count.moved);
	CHECK(count.stood && count.stood_moved && count.stood_moved < count.moved);
	CHECK(count.moved && count.late && count.given_up && count.closed && count.lost && count.asked_again &&
	      count.refused && count.from_backups && count.killed && count.back && count.again);
	return true;
}

/* ---- Each failure, alone ----------------------------------------------------------- */

/* What is asked for is answered, and arrives, until the target is in @state. */
static bool go(enum target_state state)
{
	struct target *t = &life.b.target;
	uint32_t i;

	for (i = 0; i < 5000; i++) {
		run();
		if (t->state == state)
			return true;
		if (life.a.offers && (life.a.unsettled || life.a.nr_retired))
			a_settles();
		else if (life.b.connects)
			connects(false);
		else if (network())
			continue;
		else if (life.b.reads)
			reads_digest(0);
		else if (life.etcd.nr)
			etcd_answers();
		else if (life.b.recovers)
			recovers(0);
		else
			second();
	}
	return false;
}

/* As an operator begins it, until the target is in @state for the first time. */
static bool reach(enum target_state state)
{
	begin(1);
	life.quiet = true;
	a_writes();
	return go(state) && !life.wrong;
}

static void pass(unsigned int seconds)
{
	while (seconds--) {
		second();
		settle();
	}
}

/* The source serves as if there had been no move; the target's kernel has nothing. */
static bool is_back(int error)
{
	const struct target *t = &life.b.target;

	settle();
	CHECK(t->state == TARGET_GIVEN_UP && t->error == error && t->why && target_is_over(t) && !life.b.words);
	pass(3);
	CHECK(a_serves() && life.etcd.host == 'A' && life.a.source.state == SOURCE_SERVES && !wire.connected);
	CHECK(!life.b.serves && !target_is_closed(t) && !life.wrong);
	return true;
}

/* The target serves, and the source has let go. */
static bool is_moved(void)
{
	CHECK(go(TARGET_DONE) && target_is_over(&life.b.target) && target_is_closed(&life.b.target));
	settle();
	CHECK(b_is_serving() && !life.a.image && life.b.target.term == TERM + 1 && !life.b.old && !life.wrong);
	return true;
}

static bool test_whole(void)
{
	struct target *t = &life.b.target;

	CHECK(reach(TARGET_MOVES));
	CHECK(t->connection.marked && a_serves() && !life.b.old && !life.b.taken);
	CHECK(go(TARGET_CHECKS) && wire.keyed && life.a.frozen && !life.b.taken && life.b.reads);
	CHECK(go(TARGET_TAKES) && life.b.taken == 1 && life.etcd.host == 'A' && !life.b.recovers);
	CHECK(go(TARGET_RECOVERS) && life.etcd.host == 'B' && life.b.recovers == 1 && !life.b.serves && !life.b.closes);
	settle();			/* TAKEN */
	CHECK(life.etcd.looks);
	a_renews();
	CHECK(life.a.source.state == SOURCE_KEEPS);
	CHECK(go(TARGET_SERVES) && life.b.serves && t->term == TERM + 1 && !target_is_closed(t));
	CHECK(is_moved() && life.b.closes == 1 && life.b.taken == 1);
	return true;
}

/* What is sent ahead counts only with what changed until the freeze. */
static bool test_changes(void)
{
	uint32_t i;

	CHECK(reach(TARGET_READS));
	for (i = 0; i < 2000 && life.b.target.state == TARGET_READS; i++) {
		a_writes();
		if (i % 5 == 0)
			a_settles();
		connects(false);
		(void)network();
		run();
	}
	CHECK(life.b.target.state == TARGET_MOVES);
	a_writes();
	CHECK(is_moved());
	return true;
}

static bool test_link_cut(void)
{
	static const enum target_state before[] = { TARGET_READS, TARGET_MOVES };
	static const enum target_state after[] = { TARGET_CHECKS, TARGET_TAKES, TARGET_RECOVERS, TARGET_SERVES };
	struct target *t = &life.b.target;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		CHECK(reach(before[i]));
		connects(false);
		cut("it was cut");
		CHECK(is_back(-ENOTCONN) && !strcmp(t->why, "it was cut") && !life.b.taken);
	}
	CHECK(reach(TARGET_READS));
	connects(true);
	CHECK(is_back(-ENOTCONN) && !strcmp(t->why, "the source cannot be reached") && !life.b.drops);
	for (i = 0; i < 4; i++) {	/* etcd decides */
		CHECK(reach(after[i]));
		cut("it was cut");
		CHECK(is_moved() && life.b.closes);
	}
	CHECK(reach(TARGET_MOVES));	/* READY has come, and the daemon has not seen it */
	while (!t->complete) {
		source_run(&life.a.source);
		if (life.a.unsettled || life.a.nr_retired)
			a_settles();
		(void)network();
	}
	cut("it was cut");
	CHECK(t->state == TARGET_MOVES && is_moved());
	for (i = 0; i < 2; i++) {	/* the source is first */
		CHECK(reach(after[i]));
		cut("it was cut");
		settle();
		a_renews();
		settle();
		a_renews();
		settle();
		CHECK(a_serves() && t->state == after[i]);
		CHECK(go(TARGET_GIVEN_UP) && is_back(-ESTALE) && life.b.taken == 1);
	}
	return true;
}

/* The source's host dies: from READY on the target needs it no more. */
static bool test_source_dies(void)
{
	enum target_state state;

	CHECK(reach(TARGET_MOVES));
	a_leaves();
	settle();
	CHECK(life.b.target.state == TARGET_GIVEN_UP && !life.b.taken && !life.wrong);
	for (state = TARGET_CHECKS; state <= TARGET_SERVES; state++) {
		CHECK(reach(state));
		a_leaves();
		life.a.image = false;
		CHECK(go(TARGET_SERVES) && b_is_serving());
		pass(20);
CHECK(life.b.target.state == TARGET_SERVES && !life.wrong);
	}
	return true;
}

static bool test_cancelled(void)
{
	enum target_state state;
	struct target *t = &life.b.target;

	for (state = TARGET_READS; state <= TARGET_CHECKS; state++) {
		CHECK(reach(state));
		target_stop(t);
		reads_digest(0);
		CHECK(is_back(-ECANCELED) && !life.b.taken);
		CHECK(state == TARGET_READS || (life.a.gave_up == -ECANCELED && strstr(life.a.cause, "it was cancelled")));
	}
	CHECK(reach(TARGET_READS));	/* while it connects */
	CHECK(life.b.connects);
	target_stop(t);
	CHECK(t->ending && is_back(-ECANCELED) && !life.b.connects);

	CHECK(reach(TARGET_CHECKS));	/* what is under way comes back first */
	target_stop(t);
	settle();
	CHECK(t->state == TARGET_DROPS && !target_is_over(t));
	reads_digest(0);
	CHECK(is_back(-ECANCELED));

	CHECK(reach(TARGET_TAKES));	/* it may have the store */
	target_stop(t);
	settle();
	CHECK(t->state == TARGET_TAKES && !target_is_over(t));
	CHECK(go(TARGET_ENDED));
	settle();
	CHECK(target_is_over(t) && t->error == -ECANCELED && !life.b.recovers && b_has());

	CHECK(reach(TARGET_TAKES));	/* it has not */
	etcd_set('A', TERM, 0);
	target_stop(t);
	CHECK(go(TARGET_GIVEN_UP) && t->error == -ESTALE && !life.b.words);

	CHECK(reach(TARGET_TAKES));	/* etcd does not say */
	life.etcd.away_b = true;
	target_stop(t);
	etcd_answers();
	run();
	CHECK(t->state == TARGET_TAKES);
	second();
	CHECK(t->state == TARGET_ENDED && t->error == -EAGAIN && life.b.taken == 1);

	CHECK(reach(TARGET_RECOVERS));
	target_stop(t);
	settle();
	CHECK(t->state == TARGET_RECOVERS && !target_is_over(t));
	recovers(-ECANCELED);
	settle();
	CHECK(t->state == TARGET_ENDED && target_is_over(t));
	CHECK(reach(TARGET_SERVES));
	target_stop(t);
	settle();
	CHECK(t->state == TARGET_ENDED && target_is_over(t) && !life.wrong);
	return true;
}

/* By an operator: before READY only, at either end. */
static bool test_operator(void)
{
	static const struct { enum target_state state; const char *why; } refused[] = {
		{ TARGET_CHECKS, "READY has come" }, { TARGET_TAKES, "READY has come" },
		{ TARGET_RECOVERS, "this host has the store" }, { TARGET_SERVES, "this host has the store" },
	};
	struct target *t = &life.b.target;
	enum target_state state;
	uint32_t i;

	for (state = TARGET_READS; state <= TARGET_MOVES; state++) {
		CHECK(reach(state) && !target_cancel(t));
		CHECK(is_back(-ECANCELED) && !life.b.taken);
		CHECK(!strcmp(target_cancel(t), "the move has ended already"));
	}
	CHECK(life.a.gave_up == -ECANCELED && strstr(life.a.cause, "an operator has cancelled the move"));
	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		CHECK(reach(refused[i].state) && strstr(target_cancel(t), refused[i].why) && is_moved());
	CHECK(reach(TARGET_MOVES) && !move_source_cancel(&life.a.source.moves));
	CHECK(is_back(-ENOTCONN) && !life.b.taken && !strcmp(t->why, "an operator has cancelled the move"));
	return true;
}

static void begin_standby(void)
{
	standing = true;
	begin(1);
	standing = false;
	life.quiet = true;
	run();
}

/* The target knows all, and waits. */
static bool reach_standby(void)
{
	begin_standby();
	connects(false);
	pass(5);
	CHECK(target_stands_by(&life.b.target) && a_serves() && !life.a.asked && !life.wrong);
	return true;
}

static bool test_standby(void)
{
	struct target *t = &life.b.target;
	uint32_t i;

	CHECK(reach_standby());
	for (i = 0; i < 1000; i++) {
		a_writes();
		pass(1 + i % 40);	/* longer than MOVE_IDLE_S: the MARK comes again */
	}
	CHECK(target_stands_by(t) && a_serves() && !life.b.taken);
	CHECK(!is_asked(false) && !target_stands_by(t) && is_moved());
	CHECK(!strcmp(is_asked(false), "this host has the store"));
	CHECK(reach_standby() && !is_asked(true) && is_moved());
	/* Before it knows all: then it does not stand by. */
	begin_standby();
	CHECK(!strncmp(is_asked(true), "no host stands by", 17) && !is_asked(false) && is_moved());
	CHECK(reach(TARGET_MOVES));
	settle();
	CHECK(!strcmp(is_asked(true), "a host moves the store already"));
	CHECK(!strcmp(is_asked(false), "the store is being moved already"));
	/* The source's daemon hangs: it tells no MARK. */
	CHECK(reach_standby());
	for (i = 0; i <= MOVE_IDLE_S + 1; i++) {
		life.now_ns += SECOND;
		target_tick(t, life.now_ns);
		run();
	}
	CHECK(is_back(-ENOTCONN) && !strcmp(t->why, "the source does not answer in time"));
	/* The backups are looked at again when it is wanted; clients are not stopped for what cannot be recovered. */
	CHECK(reach_standby());
	life.b.far = true;
	pass(2 * TARGET_REACH_S);
	CHECK(t->state == TARGET_READS && !target_stands_by(t) && !is_asked(false));
	pass(TARGET_REACH_S);
	CHECK(t->state == TARGET_READS && !life.a.asked);
	pass(2);
	CHECK(is_back(-ETIMEDOUT));
	/* An older source does not say when it is wanted. */
	begin_standby();
	connects(false);
	for (i = 0; i < 100 && t->connection.step != MOVE_READS; i++)
		(void)network();
	t->connection.session.version = WIRE_VERSION_HOLD;
	CHECK(is_back(-EPROTONOSUPPORT));
	return true;
}

static bool test_etcd(void)
{
	struct target *t = &life.b.target;

	CHECK(reach(TARGET_TAKES));	/* the answer is lost, and the transaction too */
	target_answer(t, -EAGAIN, 0);
	life.etcd.nr = 0;
	run();
	CHECK(t->state == TARGET_TAKES && life.b.taken == 1);
	CHECK(is_moved() && life.b.taken == 2);

	CHECK(reach(TARGET_TAKES));	/* the answer alone */
	etcd_answers();
	CHECK(life.etcd.host == 'B' && t->state == TARGET_TAKES && !life.b.recovers);
	life.etcd.away_b = true;
	etcd_answers();
	settle();
	CHECK(t->state == TARGET_TAKES && !life.b.recovers);
	life.etcd.away_b = false;
	CHECK(is_moved() && life.b.taken == 2);

	CHECK(reach(TARGET_TAKES));	/* it is done late, after the second one has failed */
	etcd_set('A', TERM, 0);
	target_answer(t, -EAGAIN, 0);
	life.etcd.requests[0].wanted = false;
	second();
	CHECK(life.etcd.nr == 2 && life.b.taken == 2);
	while (life.etcd.nr)
		etcd_answers();
	settle();
	CHECK(t->state == TARGET_GIVEN_UP && t->error == -ESTALE && life.etcd.host == 'A' && !life.wrong);

	CHECK(reach(TARGET_TAKES));	/* the source's lease ends meanwhile, and a third host has the store */
	life.etcd.revision = 0;
	c_claims();
	CHECK(go(TARGET_GIVEN_UP) && t->error == -ESTALE && !life.b.words && !life.wrong);

	CHECK(reach(TARGET_TAKES));	/* an answer of long ago */
	life.etcd.away_b = true;
	for (; life.now_ns < life.b.renewed_ns + LEASE_NS; second())
		etcd_answers();
	life.etcd.away_b = false;
	CHECK(go(TARGET_GIVEN_UP) && t->error == -ESTALE && !b_has() && !life.wrong);
	return true;
}

static bool test_ready(void)
{
	struct target *t = &life.b.target;

	begin(1);			/* a header is damaged in memory */
	life.quiet = life.a.damaged = true;
	CHECK(go(TARGET_GIVEN_UP) && is_back(-EUCLEAN) && !life.b.taken);

	begin(1);
	life.quiet = life.a.volatile_ = true;
	CHECK(go(TARGET_GIVEN_UP) && is_back(-EOPNOTSUPP) && !life.b.taken);

	CHECK(reach(TARGET_CHECKS));	/* the source had resumed the store: no recovery wrote a digest of its term */
	life.digest_term = TERM - 1;
	CHECK(go(TARGET_RECOVERS) && t->told.term == TERM - 1 && go(TARGET_SERVES) && !t->stale && is_moved());
	CHECK(reach(TARGET_CHECKS));	/* another owner has recovered it */
	life.digest_term = TERM + 1;
	CHECK(go(TARGET_GIVEN_UP) && t->error == -ESTALE && !life.b.taken);

	CHECK(reach(TARGET_CHECKS));	/* a backup is lost */
	life.digest++;
	CHECK(go(TARGET_GIVEN_UP) && is_back(-ESTALE) && !life.b.taken);

	CHECK(reach(TARGET_CHECKS));
	reads_digest(-EIO);
	CHECK(is_back(-EIO) && !life.b.taken);

	CHECK(reach(TARGET_CHECKS));
	pass(TARGET_CHECK_S);
	CHECK(t->state == TARGET_CHECKS);
	second();
	CHECK(t->state == TARGET_DROPS && !life.b.taken);
	reads_digest(0);
	CHECK(is_back(-ETIMEDOUT));

	begin(1);			/* clients wait for no backup */
	life.quiet = life.b.far = true;
	pass(1);
	connects(false);
	pass(TARGET_REACH_S);
	CHECK(t->state == TARGET_READS && t->marked && a_serves() && life.a.source.state == SOURCE_SERVES);
	pass(2);
	CHECK(is_back(-ETIMEDOUT));

	CHECK(reach(TARGET_TAKES));	/* after the transaction: the backups count */
	life.digest++;
	CHECK(go(TARGET_RECOVERS) && life.b.recovers == 1);
	recovers(0);
	settle();
	CHECK(t->state == TARGET_RECOVERS && life.b.recovers == 2 && !life.b.serves);
	CHECK(is_moved());

	CHECK(reach(TARGET_RECOVERS));	/* once */
	recovers(-ESTALE);
	settle();
	CHECK(life.b.recovers == 2);
	recovers(-ESTALE);
	settle();
	CHECK(t->state == TARGET_ENDED && t->error == -ESTALE && !life.wrong);
	return true;
}

static bool test_kernel(void)
{
	struct target *t = &life.b.target;

	begin(1);			/* a frozen store is kept for another host */
	life.quiet = life.b.frozen = true;
	CHECK(go(TARGET_GIVEN_UP) && is_back(-EPERM) && life.b.drops == 1 && life.b.old);

	begin(1);			/* no memory: the source goes on */
	life.quiet = life.b.full = true;
	pass(1);
	connects(false);
	CHECK(go(TARGET_GIVEN_UP) && is_back(-ENOMEM) && !life.b.taken && !strcmp(t->why, "the store cannot be made here"));
	CHECK(life.a.gave_up == -ENOMEM &&
	      !strcmp(life.a.cause, "it gives up: the store cannot be made here (Cannot allocate memory)"));

	begin(1);			/* memory comes slowly: the source serves meanwhile, and a stop waits */
	life.quiet = life.b.slow = true;
	pass(1);
	connects(false);
	pass(2 * TARGET_REACH_S);
	CHECK(t->state == TARGET_READS && t->marked && a_serves() && life.a.source.state == SOURCE_SERVES);
	target_stop(t);
	pass(2 * TARGET_DROP_S);
	CHECK(t->state == TARGET_DROPS && !target_is_over(t));
	life.b.slow = false;
	second();
	CHECK(is_back(-ECANCELED));

	CHECK(reach(TARGET_MOVES));
	life.b.busy = true;
	target_stop(t);
	pass(TARGET_DROP_S);
	CHECK(t->state == TARGET_DROPS && !target_is_over(t) && life.b.words);
	life.b.busy = false;
	second();
	CHECK(is_back(-ECANCELED));

	CHECK(reach(TARGET_MOVES));
	life.b.busy = true;
	target_stop(t);
	pass(TARGET_DROP_S + 2);
	CHECK(t->state == TARGET_ENDED && t->error == -EBUSY && target_is_over(t) && !life.wrong);
	return true;
}

/* CLOSE, until the source knows. */
static bool test_close(void)
{
	struct target *t = &life.b.target;
	unsigned int seconds;

	CHECK(reach(TARGET_RECOVERS));	/* not while something is needed */
	life.b.needs = true;
	CHECK(go(TARGET_SERVES));
	pass(100);
	CHECK(t->state == TARGET_SERVES && !life.b.closes && wire.keyed && life.a.frozen);
	cut("it was cut");
	CHECK(life.a.frozen);
	pass(TARGET_ASK_S - 1);
	CHECK(!life.b.connects);
	pass(1);
	CHECK(life.b.connects);
	connects(false);
	pass(2);
	CHECK(wire.keyed && t->connection.step == MOVE_HAS && !life.b.closes);
	life.b.needs = false;
	CHECK(is_moved() && life.b.closes == 1);

	CHECK(reach(TARGET_SERVES));	/* CLOSE is lost */
	CHECK(life.b.closes == 1);
	cut("it was cut");
	CHECK(life.a.frozen && is_moved() && life.b.closes == 2);

	CHECK(reach(TARGET_SERVES));	/* its answer is */
	while (life.a.source.moves.phase != MOVE_CLOSED) {
		run();
		(void)to_source();
		a_renews();
	}
	wire.to_target.nr = 0;
	cut("it was cut");
	settle();
	CHECK(t->state == TARGET_SERVES && !life.a.image && is_moved() && life.b.closes == 1);

	CHECK(reach(TARGET_SERVES));	/* another store is at this address */
	cut("it was cut");
	life.a.store.indices++;
	pass(TARGET_ASK_S);
	connects(false);
	pass(2);
	CHECK(life.b.closes == 1 && !wire.connected && t->state == TARGET_SERVES && life.a.frozen);
	life.a.store.indices--;
	CHECK(is_moved() && life.b.closes == 2);

	CHECK(reach(TARGET_SERVES));	/* the source does not know yet which host has the store */
	cut("it was cut");
	pass(TARGET_ASK_S);
	a_renews();
	CHECK(life.b.connects && !life.etcd.looks);
	for (connects(false); !life.etcd.looks; (void)network())
		source_run(&life.a.source);
	life.etcd.looks = false;
	source_owner(&life.a.source, "", TERM + 1);
	settle();
	CHECK(!wire.connected && t->state == TARGET_SERVES && life.a.frozen && life.b.closes == 1);
	CHECK(is_moved() && life.b.closes == 2);

	CHECK(reach(TARGET_SERVES));	/* the source has gone for long, or for good: it is asked less often */
	cut("it was cut");
	for (seconds = TARGET_ASK_S; seconds < TARGET_ASK_MOST_S; seconds += TARGET_ASK_S) {
		CHECK(!target_is_slow(t));
		pass(TARGET_ASK_S);
		CHECK(life.b.connects);
		connects(true);
	}
	pass(TARGET_ASK_S);
	CHECK(target_is_slow(t) && !life.b.connects);
	pass(TARGET_SLOW_S - TARGET_ASK_S - 1);
	CHECK(!life.b.connects);
	pass(1);
	CHECK(life.b.connects);
	connects(false);
	CHECK(!target_is_slow(t) && is_moved() && life.b.closes == 2);

	CHECK(reach(TARGET_SERVES));	/* the next daemon says it */
	cut("it was cut");
	b_leaves();
	b_starts();
	CHECK(t->term == TERM + 2 && t->state == TARGET_SERVES && life.a.frozen);
	CHECK(go(TARGET_DONE));
	settle();
	CHECK(!life.a.image && life.b.closes == 2 && !life.wrong);
	return true;
}

static bool test_ownership(void)
{
	enum target_state state;
	struct target *t = &life.b.target;

	for (state = TARGET_RECOVERS; state <= TARGET_SERVES; state++) {
		CHECK(reach(state));
		life.etcd.revision = 0;
		settle();
		recovers(0);
		settle();
		CHECK(t->state == TARGET_ENDED && target_is_over(t) && !life.wrong);
	}
	CHECK(!t->error);
	CHECK(reach(TARGET_TAKES));	/* before it begins */
	etcd_answers();
	life.etcd.requests[0].wanted = true;
	etcd_answers();
	life.etcd.revision = 0;
	settle();
	CHECK(t->state == TARGET_ENDED && !t->error && !life.b.recovers && !life.wrong);
	return true;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--seed")) {
		tap_ok(test_life(strtoull(argv[2], NULL, 0)), "a life");
		return tap_end();
	}
	tap_ok(test_whole(), "a move, from its beginning to its end");
	tap_ok(test_changes(), "what changes while it is told");
	tap_ok(test_link_cut(), "the link is cut, before READY and after it");
	tap_ok(test_source_dies(), "the source's host dies");
	tap_ok(test_cancelled(), "it is cancelled, in each state");
	tap_ok(test_operator(), "an operator cancels: before READY only, at either end");
	tap_ok(test_standby(), "a host stands by until an operator wants the move, at either end");
	tap_ok(test_etcd(), "etcd loses answers, refuses, is late");
	tap_ok(test_ready(), "what READY has named is not so");
	tap_ok(test_kernel(), "the kernel does not drop what it has");
	tap_ok(test_close(), "CLOSE, until the source knows");
	tap_ok(test_ownership(), "the ownership is over");
	tap_ok(lives(1, 1500), "random lives");
	known_free(life.b.target.known);
	return tap_end();
}
