// SPDX-License-Identifier: GPL-2.0
/*
 * The source of a migration in the steady state: move/source.h decides, and this file does what it says, in the kernel, in
 * etcd, on the backups and, by remote/move_listen.h, to the targets. Documentation/migration.rst, The source's order.
 *
 * Until a target says MOVE, the daemon serves as ever. From the blocks of the rest on, nothing here or in serve.c leads to
 * another digest (serve_move_ticks()). When READY was told, the daemon goes on although another host may own the store
 * (serve_move_goes_on()); when that is so, nothing is written to the backups and nothing acknowledged any more
 * (serve_move_has_moved()).
 *
 * All memory is taken when the store begins to be served: about 24 MiB, and the copy of the seglet table.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lsmem_format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/notify.h"
#include "move/directory.h"
#include "move/source.h"
#include "remote/move_listen.h"
#include "serve.h"

#define STEP_NS		2000000u	/* while clients wait, and the kernel is asked again */
#define STEP_ETCD_NS	20000000u	/* while etcd is */
#define DRAIN_TICK_NS	20000000u	/* between ticks of core while clients wait */
#define MS		1000000u

/**
 * struct serve_move - the source
 * @d: the daemon
 * @s: the steady state; NULL: serve_kept()
 * @source: decides
 * @listener: the connections
 * @store: what moves
 * @key: the secret of moves
 * @consent: that READY tells
 * @looking: etcd was asked which host has the store
 * @owner: its name, once it is another host; "": none
 * @came: the stream had events when it was to be empty
 * @directory: a segment whose listings are read
 * @io: a read for it
 * @iov: its memory
 * @at: bytes that have been read
 * @begun_ns: when @io was started, by clock_now_ns(); 0: it is not in flight
 * @answer: @result and @nr are to be told
 * @result: of directory_begin() or directory_read()
 * @nr: number of listings
 * @step: timer
 * @stepping: @step is running
 * @stopped_ns: when the daemon was told to end, by clock_now_ns(); 0: it was not
 * @frozen_ns: when clients were stopped, by clock_now_ns()
 * @served_ns: when they were served again, or another host had the store; 0: neither is so yet
 * @ticked_ns: when core had its last tick while clients wait
 * @told: READY was told, and it is in the log
 */
struct serve_move {
	struct lsmemd *d;
	struct serve *s;
	struct source source;
	struct move_listener listener;
	struct move_store store;
	struct secret key;
	struct cluster_consent consent;
	bool looking, came;
	char owner[WIRE_NAME];
	struct directory directory;
	struct backup_io io;
	struct iovec iov;
	uint32_t at;
	uint64_t begun_ns;
	bool answer;
	int result;
	uint32_t nr;
	struct loop_timer step;
	bool stepping;
	uint64_t stopped_ns, frozen_ns, served_ns, ticked_ns;
	bool told;
};

static struct serve_move the_move;

static struct serve_move *of_source(const struct source *source)
{
	return (struct serve_move *)((char *)source - offsetof(struct serve_move, source));
}

/* ---- What the source asks of the kernel and of core ------------------------------- */

static int do_freeze(struct source *source, uint64_t *objects)
{
	struct serve_move *m = of_source(source);
	int ret = kernel_freeze(&m->d->kernel, m->store.term, objects);

	if (ret < 0)
		log_err("%s: cannot be frozen: %s", m->d->kernel.name, strerror(-ret));
	return ret;
}

/* A daemon after this one may find the store in the kernel: it was killed, or the store is open. */
static bool do_let_go(struct move_source *moves)
{
	struct serve_move *m = of_source((struct source *)((char *)moves - offsetof(struct source, moves)));
	uint64_t objects;
	int ret = kernel_freeze(&m->d->kernel, CLUSTER_LET_GO, &objects);

	if (ret < 0)
		log_err("%s: host %s needs its memory no more, and the kernel does not take that: %s", m->d->kernel.name,
			m->source.moves.host, strerror(-ret));
	return ret >= 0;
}

static int do_thaw(struct source *source)
{
	struct serve_move *m = of_source(source);
	int err = kernel_thaw(&m->d->kernel, m->store.term);

	if (err)
		log_err("%s: is frozen, and cannot be thawed: %s", m->d->kernel.name, strerror(-err));
	return err;
}

static int do_words(struct source *source, struct lsmem_words *words)
{
	struct serve_move *m = of_source(source);
	int err = kernel_words(&m->d->kernel, words);

	if (err && err != -ENOENT)	/* the segment has been retired meanwhile */
		log_err("%s: does not tell what is live: %s", m->d->kernel.name, strerror(-err));
	return err;
}

static bool is_drained(struct source *source, uint64_t *digest)
{
	struct serve_move *m = of_source(source);
	struct serve *s = m->s;
	uint64_t events = s->d->status.events;
	bool quiet = serve_is_quiet(s);

	m->came |= s->d->status.events != events;
	if (!quiet || !core_settled(s->core))
		return false;
	core_stats(s->core, &s->d->status.core);
	*digest = s->d->status.core.sequence;
	return true;
}

/**
 * serve_move_retired - the stream has told RETIRE
 * @s: the steady state
 * @segment: id
 */
void serve_move_retired(struct serve *s, uint64_t segment)
{
	if (s->move)
		source_retired(&s->move->source, segment);
}

/* ---- What it asks of etcd ------------------------------------------------------------ */

static bool does_hold(struct source *source)
{
	return cluster_holds(&of_source(source)->d->cluster);
}

static bool do_consent(struct source *source, uint64_t *revision)
{
	struct serve_move *m = of_source(source);

	if (!cluster_consent(&m->d->cluster, &m->consent))
		return false;
	*revision = (uint64_t)m->consent.revision;
	return true;
}

static bool do_withdraw(struct source *source)
{
	struct serve_move *m = of_source(source);

	return cluster_void(&m->d->cluster, &m->consent);
}

static void do_look(struct source *source)
{
	struct serve_move *m = of_source(source);

	m->looking = true;
	cluster_look(&m->d->cluster);
}

static void tell_owner(struct serve_move *m)
{
	struct cluster_taken taken;

	if (!m->looking || !cluster_looked(&m->d->cluster, &taken))
		return;
	m->looking = false;
	if (taken.term > m->store.term)
		snprintf(m->owner, sizeof(m->owner), "%s", *taken.host ? taken.host : "?");
	source_owner(&m->source, taken.host, taken.term);
}

/* ---- What it asks of the backups ------------------------------------------------------- */

static void read_next(struct serve_move *m)
{
	struct lsmemd *d = m->d;
	struct directory *directory = &m->directory;
	struct backup *backup = &d->backups[d->slots[directory->backup]];
	uint32_t left = directory->length - m->at, most = backup->limits.io_bytes & ~(LSMEM_BLOCK - 1);

	m->iov.iov_base = directory->bytes + m->at;
	m->iov.iov_len = left < most ? left : most;
	m->io.what = BACKUP_READ;
	m->io.offset = directory->offset + m->at;
	m->io.length = (uint32_t)m->iov.iov_len;
	m->io.iov = &m->iov;
	m->io.nr_iov = 1;
	m->begun_ns = clock_now_ns();
	backup_submit(&m->io, backup);
}

/* @result says what is next. */
static void go_on(struct serve_move *m)
{
	m->at = 0;
	if (m->result == 1)
		read_next(m);
	else
		m->answer = true;
}

static void read_done(struct backup_io *io, int error)
{
	struct serve_move *m = (struct serve_move *)((char *)io - offsetof(struct serve_move, io));

	m->begun_ns = 0;
	m->at += io->length;
	if (!error && m->at < m->directory.length) {
		read_next(m);
		return;
	}
	/* A lost connection says nothing of the replica. */
	if (error && io->backup->error)
		serve_lose_gone(m->s);
	m->result = directory_read(&m->directory, error, &m->nr);
	go_on(m);
}

static void do_directory(struct source *source, uint64_t segment)
{
	struct serve_move *m = of_source(source);

	m->result = directory_begin(&m->directory, segment);
	go_on(m);
}

static void tell_directory_read(struct serve_move *m)
{
	if (!m->answer)
		return;
	m->answer = false;
	source_directory(&m->source, m->directory.listings, m->result ? 0 : m->nr, m->result);
}

/* Lose a backup that has not answered for its timeout, as serve_lose_slow() does. */
static void lose_slow(struct serve_move *m, uint64_t now)
{
	struct lsmemd *d = m->d;
	uint32_t index = m->directory.backup, slot = d->slots[index];
	unsigned int timeout;

	if (!m->begun_ns || d->config.nr_backups == 1 || slot == LSMEM_BACKUPS ||
	    core_backup(m->s->core, index) != CORE_BACKUP_MEMBER)
		return;
	timeout = d->config.backups[slot].timeout;
	if (loop_stood_still(&m->s->tick))
		m->begun_ns = now;
	if (now - m->begun_ns < timeout * 1000000000ull)
		return;
	log_err("%s: read of %" PRIu32 " bytes at %" PRIu64 " failed: no answer for %u s", d->config.backups[slot].path,
		m->io.length, m->io.offset, timeout);
	m->s->io_error = -ETIMEDOUT;
	core_lose(m->s->core, index, "no answer to a read");
}

/* ---- The connections ---------------------------------------------------------------------- */

static struct serve_move *of_listener(struct move_listener *listener)
{
	return (struct serve_move *)((char *)listener - offsetof(struct serve_move, listener));
}

static bool connects(struct move_listener *listener, struct move_peer *peer, const struct session_setup *setup)
{
	return source_connect(&of_listener(listener)->source, peer, setup);
}

/* One that was told the store took part in a move. */
static void has_gone(struct move_listener *listener, struct move_peer *peer, const char *why)
{
	struct serve_move *m = of_listener(listener);

	if (peer->memory)
		status_move_ended(&m->d->status.move, peer->session.hello.who, peer->error, why);
	source_gone(peer);
}

static const struct move_listener_user listener_user = { .connect = connects, .gone = has_gone };

static const struct source_user source_user = {
	.slots = move_listen_slots,
	.send = move_listen_send,
	.room = move_listen_room,
	.end = move_listen_end,
	.keys = move_listen_keys,
	.freeze = do_freeze,
	.thaw = do_thaw,
	.words = do_words,
	.directory = do_directory,
	.drained = is_drained,
	.holds = does_hold,
	.consent = do_consent,
	.withdraw = do_withdraw,
	.look = do_look,
	.let_go = do_let_go,
};

/* ---- The order ------------------------------------------------------------------------------- */

static void set_status(struct serve_move *m, const char *state, const char *text)
{
	m->d->status.state = state;
	notify_send("STATUS=%s", text);
}

/* Log that the source has come from one state to another one. */
static void tell_change(struct serve_move *m, enum source_state from)
{
	const char *name = m->d->kernel.name, *host = m->source.moves.host;
	uint64_t ms;

	if (from == SOURCE_SERVES) {
		m->told = false;
		m->served_ns = 0;
		set_status(m, "moving", "Moving");
		log_notice("%s: host %s moves it to itself: its clients wait", name, host);
	}
	if (m->source.state == SOURCE_SERVES || m->source.state == SOURCE_KEEPS)
		m->served_ns = clock_now_ns();
	ms = (clock_now_ns() - m->frozen_ns) / MS;
	switch (m->source.state) {
	case SOURCE_SERVES:
		set_status(m, m->s->few ? "waiting" : "active", "Serving");
		log_notice("%s: was not moved: its clients are served again, after %" PRIu64 " ms", name, ms);
		break;
	case SOURCE_ASKS:
		log_warn("%s: may be another host's by now: asking etcd", name);
		break;
	case SOURCE_KEEPS:
		set_status(m, "moved", "The store is another host's; its memory is kept for it");
		log_notice("%s: host %s has the store, %" PRIu64 " ms after its clients were stopped: its memory is kept until that host needs it no more",
			   name, m->owner, ms);
		break;
	default:
		break;
	}
}

static void step_done(struct loop_op *op, int res)
{
	struct serve_move *m = (struct serve_move *)((char *)op - offsetof(struct serve_move, step.op));

	(void)res;
	m->stepping = false;
}

/* Is something asked again and again? */
static bool is_waiting(const struct serve_move *m)
{
	return m->looking || (m->source.state > SOURCE_SERVES && m->source.state < SOURCE_KEEPS);
}

static void tick_core(struct serve_move *m)
{
	uint64_t now = clock_now_ns();

	if (m->source.state != SOURCE_DRAINS || now - m->ticked_ns < DRAIN_TICK_NS)
		return;
	m->ticked_ns = now;
	core_tick(m->s->core);
	m->came = true;
}

/**
 * serve_move - do what the move of the store needs now
 * @s: the steady state; without [move] nothing is done
 *
 * Context: after each round of events and requests. Nothing waits.
 * Return: true: something has changed, and another round is needed.
 */
bool serve_move(struct serve *s)
{
	static const char *const steps[] = {
		[SOURCE_FREEZES] = "freezing", [SOURCE_DRAINS] = "making durable", [SOURCE_TELLS] = "telling",
	};
	struct serve_move *m = s->move;
	uint64_t now = clock_now_ns();
	enum source_state from;
	char text[STAGES_TEXT];

	if (!m)
		return false;
	from = m->source.state;
	m->came = false;
	move_listen_run(&m->listener);
	tell_owner(m);
	tell_directory_read(m);
	source_run(&m->source);
	move_listen_run(&m->listener);
	tick_core(m);
	if (from == SOURCE_SERVES && m->source.state != from) {
		m->frozen_ns = now;
		stages_begin(&s->d->stages);
	}
	if (m->source.state != from) {
		if (from >= SOURCE_FREEZES && from <= SOURCE_TELLS)
			stages_end(&s->d->stages, steps[from]);
		tell_change(m, from);
	}
	if (m->source.moves.phase == MOVE_TOLD && !m->told) {
		m->told = true;
		log_notice("%s: frozen, durable and told %" PRIu64 " ms after its clients were stopped: host %s can take it",
			   s->d->kernel.name, (clock_now_ns() - m->frozen_ns) / MS, m->source.moves.host);
		log_info("%s: time until it was told, ms: %s", s->d->kernel.name, stages_text(&s->d->stages, text));
	}
	if (is_waiting(m) && !m->stepping) {
		m->stepping = true;
		loop_timer_start(&s->d->loop, &m->step, m->source.state <= SOURCE_TELLS ? STEP_NS : STEP_ETCD_NS);
	}
	return m->came || m->source.state != from;
}

/**
 * serve_move_tick - do the periodic work of a move
 * @s: the steady state; without [move] nothing is done
 * @now: the time, by clock_now_ns()
 *
 * Context: in the tick.
 */
void serve_move_tick(struct serve *s, uint64_t now)
{
	struct serve_move *m = s->move;

	if (!m)
		return;
	lose_slow(m, now);
	source_tick(&m->source, now);
	move_listen_tick(&m->listener, now);
	if (m->stopped_ns && now - m->stopped_ns > s->d->options.drain * 1000000000ull)
		s->late = true;
}

/* The connection that a status is about; NULL: there is none. */
static const struct move_peer *told_peer(const struct source *source)
{
	return source->moves.chosen ? source->moves.chosen : source->reader;
}

static void gather(struct serve_move *m)
{
	static const char *const states[] = {
		[SOURCE_SERVES] = "serves", [SOURCE_FREEZES] = "freezes", [SOURCE_DRAINS] = "drains",
		[SOURCE_TELLS] = "tells", [SOURCE_WAITS] = "waits", [SOURCE_VOIDS] = "voids", [SOURCE_ASKS] = "asks",
		[SOURCE_KEEPS] = "keeps", [SOURCE_CLOSED] = "closed", [SOURCE_ENDED] = "ended",
	};
	const struct source *source = &m->source;
	const struct move_peer *peer = told_peer(source);
	struct status_move *move = &m->d->status.move;

	move->role = "source";
	move->state = states[source->state];
	snprintf(move->host, sizeof(move->host), "%s", peer ? peer->session.hello.who : source->moves.host);
	move->standby = source->state == SOURCE_SERVES && source->reader && source->reader->marked;
	if (peer && peer->memory) {
		move->bytes = peer->bytes;
		move->blocks = peer->stream.sequence - 1;
		move->left = peer == source->reader ? source->tell.left : 0;
	}
	move->objects = source->state == SOURCE_SERVES ? 0 : source->objects;
	if (m->frozen_ns)
		move->stopped_ns = (m->served_ns ? m->served_ns : clock_now_ns()) - m->frozen_ns;
}

/**
 * serve_move_gather - bring the move's part of the daemon's status up to date
 * @s: the steady state; without [move] nothing is done
 */
void serve_move_gather(struct serve *s)
{
	if (s->move)
		gather(s->move);
}

static void cancel(struct lsmemd *d, const char *refused)
{
	d->signals.cancel = false;
	status_move_cancel(&d->status.move, refused);
	log_notice("%s: its move is cancelled by an operator (SIGUSR2)%s%s", d->kernel.name, refused ? ", which is refused: " : "",
		   refused ? refused : "");
}

/**
 * serve_move_cancel - an operator cancels the move: answer in the status
 * @s: the steady state
 *
 * Context: then another round is needed.
 */
void serve_move_cancel(struct serve *s)
{
	cancel(s->d, s->move ? move_source_cancel(&s->move->source.moves) :
			       take_is_open(s->d) ? "this host has the store" : "the store cannot be moved from here");
}

static void answer_ask(struct lsmemd *d, const char *refused)
{
	d->signals.ask = false;
	status_move_ask(&d->status.move, d->kernel.name, refused);
}

/**
 * serve_move_ask - an operator wants the host that stands by to move the store now: answer in the status
 * @s: the steady state
 *
 * Context: then another round is needed.
 */
void serve_move_ask(struct serve *s)
{
	answer_ask(s->d, s->move ? source_ask(&s->move->source) :
				   take_is_open(s->d) ? "this host has the store, and all of it has not come yet" :
							"the store cannot be moved from here: \"listen\" in [move] is not set");
}

/**
 * serve_move_ticks - may core have its tick, and backups join?
 * @s: the steady state
 *
 * Return: false: a move names the newest digest, and there must be no other one.
 */
bool serve_move_ticks(const struct serve *s)
{
	return !s->move || source_ticks(&s->move->source);
}

/**
 * serve_move_goes_on - does the daemon go on although another host may own the store?
 * @s: the steady state
 *
 * Return: true: READY was told, and which host has the store is not known, or its memory is kept for that host.
 */
bool serve_move_goes_on(const struct serve *s)
{
	return s->move && s->move->source.state >= SOURCE_WAITS && s->move->source.state < SOURCE_ENDED;
}

/**
 * serve_move_has_moved - is the store another host's, by its consent?
 * @s: the steady state
 *
 * Return: true: nothing is written to the backups any more, or acknowledged.
 */
bool serve_move_has_moved(const struct serve *s)
{
	return s->move && s->move->source.state >= SOURCE_KEEPS;
}

/**
 * serve_move_stop - the daemon is to end
 * @s: the steady state
 *
 * Context: in each round from then on. No target is served any more; a consent is taken back first.
 * Return: true: the store is served as if it could not be moved, or there is no [move]; false: not yet, or
 * serve_move_is_over().
 */
bool serve_move_stop(struct serve *s)
{
	struct serve_move *m = s->move;

	if (!m)
		return true;
	if (!m->stopped_ns) {
		m->stopped_ns = clock_now_ns();
		move_listen_stop(&m->listener);
		source_stop(&m->source);
		move_listen_run(&m->listener);
		source_run(&m->source);
	}
	return source_is_over(&m->source) && m->source.state == SOURCE_SERVES;
}

/**
 * serve_move_is_over - is there nothing left to do for this daemon, since the store is another host's?
 * @s: the steady state
 *
 * Return: true: the memory is free, or the store is not this host's, or the daemon is to end.
 */
bool serve_move_is_over(const struct serve *s)
{
	const struct serve_move *m = s->move;

	return m && (m->source.state >= SOURCE_CLOSED ||
		     (m->source.state == SOURCE_KEEPS && m->stopped_ns && source_is_over(&m->source)));
}

/**
 * serve_move_finish - log how it has ended
 * @s: the steady state, serve_move_is_over(); out: @unowned or @error, if this host has lost the store
 *
 * Return: STATUS_OK: another host has the store; if it needs nothing of this one, @moved of struct lsmemd says so; or -1:
 * @unowned or @error says what has happened.
 */
int serve_move_finish(struct serve *s)
{
	struct serve_move *m = s->move;
	const char *name = s->d->kernel.name;

	switch (m->source.state) {
	case SOURCE_CLOSED:
		log_notice("%s: host %s has the store, and needs nothing of this one: its memory is freed", name,
			   m->owner);
		s->d->moved = true;
		break;
	case SOURCE_KEEPS:
		log_notice("%s: host %s has the store: it stays here, frozen, until lsmemd runs again or it is destroyed (lsmemctl destroy --force %s)",
			   name, m->owner, name);
		break;
	default:
		s->error = m->source.error;
		s->unowned = !s->error;
		return -1;
	}
	s->d->status.state = "moved";
	return STATUS_OK;
}

/**
 * serve_move_close - end all connections, at the end of the daemon
 * @s: the steady state, ended
 *
 * When it returns, their targets can read nothing any more. Runs the loop.
 */
void serve_move_close(struct serve *s)
{
	if (!s->move)
		return;
	move_listen_close(&s->move->listener);
	explicit_bzero(&s->move->key, sizeof(s->move->key));
	s->move = NULL;
}

/* What is the same with and without a core. Return: whether the store can be moved; if not, why is logged. */
static bool offer(struct serve_move *m, struct lsmemd *d, const struct source_store *what)
{
	struct move_memory memory = {
		.seglets = d->kernel.seglets,
		.seglets_bytes = (size_t)d->kernel.nr_seglets * LSMEM_SEGLET_BYTES,
		.table = d->kernel.table,
		.table_bytes = d->kernel.nr_seglets * sizeof(*d->kernel.table),
	};

	m->d = d;
	if (secret_read(d->config.move.secret, &m->key)) {
		log_warn("%s: cannot be moved", d->kernel.name);
		return false;
	}
	if (move_listen_open(&m->listener, &listener_user, &d->loop, &d->config.move.listen, &memory)) {
		log_warn("%s: cannot be moved: no memory", d->kernel.name);
		return false;
	}
	kernel_attribute(d->kernel.name, "given_name", m->store.name, sizeof(m->store.name));
	if (!*m->store.name)
		snprintf(m->store.name, sizeof(m->store.name), "%s", d->kernel.name);
	memcpy(m->store.uuid, d->status.uuid, sizeof(m->store.uuid));
	m->store.seglets = d->kernel.nr_seglets;
	m->step.op.done = step_done;
	source_begin(&m->source, &source_user, what, clock_now_ns());
	move_listen_tick(&m->listener, clock_now_ns());
	return true;
}

/**
 * serve_move_begin - let other hosts move the store, if the configuration says so
 * @s: the steady state; the store is served. out: @move
 *
 * If that cannot be, it says why, and the store is served as ever.
 */
void serve_move_begin(struct serve *s)
{
	struct lsmemd *d = s->d;
	struct serve_move *m = &the_move;
	struct source_store what = { .store = &m->store, .key = &m->key, .here = d->cluster.host };
	struct digest_log log;

	if (!d->config.move.listen_line)
		return;
	if (!d->kernel.instant) {
		log_warn("[move] of %s: %s was made with \"restart = load\", and cannot be moved before it was recovered with \"restart = instant\"",
			 d->options.config_path, d->kernel.name);
		return;
	}
	m->directory.core = s->core;
	m->directory.indices = format_indices(core_super(s->core, &log));
	m->directory.bytes = memory_get(LSMEM_SEGMENT_BYTES);
	m->directory.listings = memory_get(LISTINGS_MAX * sizeof(*m->directory.listings));
	if (!m->directory.bytes || !m->directory.listings) {
		log_warn("%s: cannot be moved: no memory", d->kernel.name);
		return;
	}
	m->store.term = d->cluster.term;
	m->store.indices = m->directory.indices;
	m->io.done = read_done;
	m->s = s;
	if (offer(m, d, &what))
		s->move = m;
}

/* ---- A store that a former daemon has frozen ------------------------------------------------- */

static void kept_tick(struct loop_op *op, int res)
{
	struct serve_move *m = (struct serve_move *)((char *)op - offsetof(struct serve_move, step.op));
	uint64_t now = clock_now_ns();

	(void)res;
	source_tick(&m->source, now);
	move_listen_tick(&m->listener, now);
	verbs_release();
	notify_send("WATCHDOG=1");
	loop_timer_start(&m->d->loop, &m->step, serve_tick_ns());
}

static int keep_on(struct serve_move *m)
{
	struct lsmemd *d = m->d;
	int err = 0;

	while (m->source.state == SOURCE_KEEPS && err >= 0) {
		if (d->signals.reload) {
			d->signals.reload = false;
			log_warn("while memory is kept for another host nothing can change: start lsmemd again");
		}
		if (d->signals.cancel)
			cancel(d, move_source_cancel(&m->source.moves));
		if (d->signals.ask)
			answer_ask(d, source_ask(&m->source));
		if (d->signals.dump) {
			d->signals.dump = false;
			gather(m);
			status_write(&d->status);
		}
		if (d->signals.stop && !m->stopped_ns) {
			m->stopped_ns = clock_now_ns();
			source_stop(&m->source);
		}
		move_listen_run(&m->listener);
		tell_owner(m);
		source_run(&m->source);
		move_listen_run(&m->listener);
		if (m->stopped_ns && source_is_over(&m->source))
			break;
		if (m->source.state == SOURCE_KEEPS)
			err = loop_run(&d->loop, true);
	}
	if (m->source.state != SOURCE_CLOSED) {
		log_notice("%s: stays here, frozen, until lsmemd runs again or it is destroyed (lsmemctl destroy --force %s)",
			   d->kernel.name, d->kernel.name);
		return err < 0 ? STATUS_ERROR : STATUS_OK;
	}
	log_notice("%s: host %s has the store, and needs nothing of this one: its memory is freed", d->kernel.name,
		   m->owner);
	strcpy(d->status.store, d->kernel.name);
	d->moved = true;
	return STATUS_OK;
}

/**
 * serve_kept - keep a frozen store for the host that has it, until that host needs it no more
 * @d: the daemon: frozen_lost() has set @keeps
 *
 * It is served by no daemon of this host. Its backups are closed.
 *
 * Return: STATUS_OK: a signal has come, or, with @moved of @d, the store is to be destroyed; STATUS_BUSY: it cannot give keys,
 * which was logged; STATUS_ERROR: the loop has failed.
 */
int serve_kept(struct lsmemd *d)
{
	struct serve_move *m = &the_move;
	struct source_store what = {
		.store = &m->store, .key = &m->key, .here = d->cluster.host, .host = d->cluster.taken.host,
	};
	struct lsmem_super super = {
		.kind = htole32(d->kernel.kind), .store_bytes = htole64(d->kernel.bytes),
		.capacity = htole64(d->kernel.capacity), .max_handles = htole64(d->kernel.handles_max),
	};
	int status;

	close_backups(d);
	m->store.term = d->kernel.term;
	m->store.indices = format_indices(&super);
	if (kernel_map(&d->kernel) || cluster_watch(&d->cluster) || prepare(false) != STATUS_OK || !offer(m, d, &what))
		return STATUS_BUSY;	/* as without [move] */
	m->step.op.done = kept_tick;
	loop_timer_start(&d->loop, &m->step, serve_tick_ns());
	start_name_status(d);
	d->status.state = "moved";
	gather(m);
	status_write(&d->status);
	notify_send("READY=1\nSTATUS=The store is another host's; its memory is kept for it");
	log_notice("%s: its memory is kept until host %s needs it no more", d->kernel.name, d->cluster.taken.host);
	status = keep_on(m);
	move_listen_close(&m->listener);
	explicit_bzero(&m->key, sizeof(m->key));
	return status;
}
