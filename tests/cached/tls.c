// SPDX-License-Identifier: GPL-2.0
/*
 * TLS of lsmemcached (tls.c and connection.c of tools/cached) against a client that speaks it in memory.  In each life of
 * a connection the bytes of both directions come in pieces of random lengths, the socket has room for so many bytes at a
 * time, and one of enum trouble happens.  The test stands in for the worker: it polls as that does, and each byte of the
 * client is answered by some.  What must hold:
 *
 *	- what either side decrypts is the beginning of what the other one has said, and in the end all of it, if no
 *	  trouble has come between;
 *	- the connection never waits for an event that does not come, and no event finds nothing to do;
 *	- it ends when it must, and only then; what ends before its handshake is over is counted, and nothing else.
 *
 * A life follows from its seed: random bytes of TLS differ, but none of its lengths.
 *
 *	tls [--seed N] [--lives N]	many lives
 *	tls --life N			one of them
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../common/random.h"
#include "../common/tap.h"
#include "cached.h"
#include "narrow.h"
#include "peer.h"

#define LIVES		600u
#define STEPS_MAX	2000000u
#define BUFFER		65536u	/* bytes that are moved at a time */
#define UNIT_MAX	70000u	/* bytes of a command, which the server wants whole */
#define HELLO		700u	/* about as many bytes as a client sends in its handshake */
#define GARBAGE_MAX	2000u

enum trouble {
	NONE,
	EARLY,
	QUIT,
	CUT,
	RESET,
	STALL,
	GARBAGE,
	DAMAGE,
	RENEGOTIATE,
	STRANGER,
	TROUBLES,
};

static const char *const names[TROUBLES] = {
	[NONE] = "the client ends TLS when it has all answers",
	[EARLY] = "the client ends TLS before it has all answers",
	[QUIT] = "the server ends TLS",
	[CUT] = "the client sends no more, at any byte, without an end of TLS",
	[RESET] = "the client is gone, at any byte",
	[STALL] = "the client falls silent, at any byte",
	[GARBAGE] = "the client speaks no TLS",
	[DAMAGE] = "a bit changes on the way to the server",
	[RENEGOTIATE] = "the client wants another handshake",
	[STRANGER] = "the client has not the certificate that is wanted",
};

/**
 * struct life - of a connection
 * @random: state of random numbers
 * @trouble: of this life
 * @peer: the client
 * @connection: of the server; NULL: it has ended
 * @narrow: what the server may read and write
 * @far: the client's end of the socket, -1: closed
 * @grain: longest piece in bytes
 * @total: bytes that the client says, at most
 * @times: bytes of the answer to each
 * @served: bytes of the client that were carried out
 * @unit: bytes that the server carries out next, together; 0: not known yet
 * @longest: @unit at most
 * @most: bytes to be sent from which on nothing is carried out
 * @at: when the trouble comes: bytes of the wire (CUT, RESET, STALL, DAMAGE), or of the client
 * @wire: bytes that the client has sent
 * @garbage: bytes that it sends instead, @nr_garbage
 * @reload: steps until the certificates are read again
 * @updates: keys change
 * @handshakes: of the server: 0: none is over
 * @was_ready: tls_is_ready() has said so
 * @over: the last move of the trouble was made
 * @wide: nothing is held back, because nothing moved
 * @error: what was wrong first; NULL: nothing
 */
struct life {
	uint64_t random;
	enum trouble trouble;
	struct peer peer;
	struct cached_connection *connection;
	struct narrow narrow;
	int far;
	uint32_t grain;
	uint64_t total;
	uint32_t times;
	uint64_t served;
	size_t unit;
	size_t longest;
	size_t most;
	uint64_t at;
	uint64_t wire;
	uint8_t garbage[GARBAGE_MAX];
	size_t nr_garbage;
	uint32_t reload;
	bool updates;
	unsigned int handshakes;
	bool was_ready;
	bool over;
	bool wide;
	const char *error;
};

struct cached cached;

static struct cached_worker worker;
static struct certificate certificates[2], client, stranger;
static char directory[32];
static char paths[2][64], client_path[64], broken_path[64];

void worker_poll_out(struct cached_connection *connection, bool out)
{
	connection->waits_out = out;
}

static void wrong(struct life *life, const char *what)
{
	if (!life->error)
		life->error = what;
}

/* Bytes of the next piece; often none */
static uint64_t piece(struct life *life)
{
	return life->wide ? NARROW_WIDE : random_below(&life->random, life->grain + 1);
}

/* ---- Certificates -------------------------------------------------------------- */

static void load(struct life *life, unsigned int which)
{
	cached.options.ssl_chain_cert = paths[which];
	if (tls_load())
		wrong(life, "the certificates cannot be read");
}

/* A file that is none changes nothing. */
static void load_broken(struct life *life)
{
	const char *path = cached.options.ssl_chain_cert;
	int errors = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);

	cached.options.ssl_chain_cert = broken_path;
	dup2(null, STDERR_FILENO);
	if (!tls_load())
		wrong(life, "a file without a certificate was read");
	dup2(errors, STDERR_FILENO);
	close(errors);
	close(null);
	cached.options.ssl_chain_cert = path;
}

static void reload(struct life *life)
{
	if (!life->reload || --life->reload)
		return;
	if (random_chance(&life->random, 50))
		load_broken(life);
	else
		load(life, random_below(&life->random, 2));
}

static void make_path(char *path, const char *name)
{
	snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
}

static void make_certificates(void)
{
	strcpy(directory, "/tmp/lsmem-tls-XXXXXX");
	if (!mkdtemp(directory))
		abort();
	certificates[0] = certificate_make("one");
	certificates[1] = certificate_make("two");
	client = certificate_make("client");
	stranger = certificate_make("stranger");
	make_path(paths[0], "one");
	make_path(paths[1], "two");
	make_path(client_path, "client");
	make_path(broken_path, "broken");
	certificate_write(&certificates[0], paths[0]);
	certificate_write(&certificates[1], paths[1]);
	certificate_write(&client, client_path);
	close(open(broken_path, O_WRONLY | O_CREAT, 0600));
}

static void remove_certificates(void)
{
	certificate_free(&certificates[0]);
	certificate_free(&certificates[1]);
	certificate_free(&client);
	certificate_free(&stranger);
	unlink(paths[0]);
	unlink(paths[1]);
	unlink(client_path);
	unlink(broken_path);
	rmdir(directory);
}

/* ---- The server's side ---------------------------------------------------------- */

static void informed(const SSL *ssl, int where, int ret)
{
	struct life *life = SSL_get_app_data(ssl);

	(void)ret;
	/* Keys that change, and another handshake that was refused, come here, too */
	if (where & SSL_CB_HANDSHAKE_DONE)
		life->handshakes++;
}

/*
 * Carries out what is there, as command_run() does: in units, each of which is wanted whole.  Return: there is more, for
 * which there is no room yet.
 */
static bool serve(struct life *life)
{
	struct cached_connection *c = life->connection;

	while (!c->closing && c->in_end > c->in_begin) {
		uint64_t left = life->total - life->served, answer = life->served * life->times;
		char *room;
		size_t i;

		if (c->out_end - c->out_begin > life->most)
			return true;
		if (!life->unit)
			life->unit = 1 + random_below(&life->random, left < life->longest ? left : life->longest);
		if (!left || life->unit > left) {
			wrong(life, "the server has more bytes than the client has");
			c->dead = true;
			return false;
		}
		c->need = life->unit;
		if (c->in_end - c->in_begin < life->unit)
			return false;
		for (i = 0; i < life->unit; i++) {
			if ((uint8_t)c->in[c->in_begin + i] != peer_byte(life->peer.key, life->served + i))
				wrong(life, "the server has bytes that the client has not said");
		}
		room = connection_room(c, life->unit * life->times);
		if (!room)
			abort();
		for (i = 0; i < life->unit * life->times; i++)
			room[i] = (char)server_byte(life->peer.key, answer + i);
		c->out_end += life->unit * life->times;
		c->in_begin += life->unit;
		life->served += life->unit;
		life->unit = c->need = 0;
		c->closing = life->trouble == QUIT && life->served >= life->at;
	}
	return false;
}

/* Passes on at most @length bytes of the server.  Return: how many. */
static size_t collect(struct life *life, uint64_t length)
{
	char copy[BUFFER];
	ssize_t got;

	if (length > sizeof(copy))
		length = sizeof(copy);
	if (!length || life->far < 0)
		return 0;
	got = recv(life->far, copy, length, MSG_DONTWAIT);
	if (got <= 0)
		return 0;
	if (BIO_write(life->peer.from, copy, (int)got) != got)
		abort();
	return (size_t)got;
}

static void end(struct life *life)
{
	/* The last message of TLS has room: the server does not wait for it */
	life->narrow.out = NARROW_WIDE;
	while (collect(life, NARROW_WIDE))
		;
	connection_free(life->connection);
	life->connection = NULL;
	if (ERR_peek_error())
		wrong(life, "errors are left for the next connection of the thread");
}

static void look_ready(struct life *life)
{
	bool ready = tls_is_ready(life->connection);

	if (ready && !life->handshakes)
		wrong(life, "the handshake is called over before it is");
	if (!ready && life->was_ready)
		wrong(life, "the handshake is no longer over");
	if (!ready && life->served)
		wrong(life, "bytes were served before the handshake was over");
	life->was_ready = ready;
}

/* Whether the worker's next pass has this connection: an event, or commands that are left */
static bool has_pass(struct life *life, short *events)
{
	struct cached_connection *c = life->connection;
	struct pollfd event = { .fd = c->fd, .events = c->waits_out ? POLLOUT : POLLIN };

	life->narrow.in = piece(life);
	life->narrow.out = piece(life);
	if (poll(&event, 1, 0) < 0)
		abort();
	if (!life->narrow.in)
		event.revents &= ~(POLLIN | POLLHUP | POLLERR);
	if (!life->narrow.out)
		event.revents &= ~POLLOUT;
	*events = event.revents;
	return *events || c->active;
}

/* One pass of the worker, as it is there.  Return: whether there was one. */
static bool pass(struct life *life)
{
	struct cached_connection *c = life->connection;
	uint64_t before = life->narrow.read + life->narrow.written + life->served;
	bool waited_out, was_active;
	short events;

	if (!c || !has_pass(life, &events))
		return false;
	waited_out = c->waits_out;
	was_active = c->active;
	/* What another connection of the thread has left, say */
	if (random_chance(&life->random, 20))
		ERR_raise(ERR_LIB_USER, 1);
	if (!c->active && (events & (POLLIN | POLLHUP | POLLERR) || c->tls_full) && !connection_receive(c))
		c->dead = true;
	c->active = false;
	c->more = !c->dead && serve(life);
	if (!c->dead)
		connection_send(c);
	if (!c->dead)
		look_ready(life);
	if (c->dead || (c->closing && !c->out_end)) {
		end(life);
		ERR_clear_error();
		return true;
	}
	ERR_clear_error();
	c->active = c->more && !c->out_end;
	if (!was_active && before == life->narrow.read + life->narrow.written + life->served && waited_out == c->waits_out)
		wrong(life, "an event found nothing to do");
	return true;
}

/* ---- The client's side ----------------------------------------------------------- */

static void close_far(struct life *life)
{
	if (life->far >= 0)
		close(life->far);
	life->far = -1;
}

/* What the client says and does.  Return: whether it has done something. */
static bool act(struct life *life)
{
	struct peer *peer = &life->peer;
	uint64_t left = life->total - peer->said, length = random_below(&life->random, life->grain) + 1;

	if (life->trouble == GARBAGE || (life->over && life->trouble != STALL))
		return false;
	if (life->updates && random_chance(&life->random, 5))
		peer_update_keys(peer);
	if (life->trouble == RENEGOTIATE && peer->said >= life->at) {
		peer_renegotiate(peer);
		life->over = true;
		return true;
	}
	if (life->trouble == EARLY && peer->said >= life->at && peer->ready) {
		peer_end(peer);
		life->over = true;
		return true;
	}
	if (!life->wide && random_chance(&life->random, 50))
		return false;
	return left && peer_say(peer, length < left ? length : left);
}

/* Passes on bytes of the client.  Return: how many. */
static size_t deliver(struct life *life)
{
	bool bounded = life->trouble == CUT || life->trouble == RESET || life->trouble == STALL;
	bool garbage = life->trouble == GARBAGE;
	char *from, copy[BUFFER];
	uint64_t length = piece(life);
	size_t there = garbage ? life->nr_garbage - life->wire : (size_t)BIO_get_mem_data(life->peer.to, &from);
	ssize_t sent;

	if (garbage)
		from = (char *)life->garbage + life->wire;
	if (length > there)
		length = there;
	if (length > sizeof(copy))
		length = sizeof(copy);
	if (bounded && life->wire + length > life->at)
		length = life->at - life->wire;
	if (!length || life->far < 0)
		return 0;
	memcpy(copy, from, length);
	if (life->trouble == DAMAGE && life->at >= life->wire && life->at - life->wire < length)
		copy[life->at - life->wire] ^= (char)(1 << random_below(&life->random, 8));
	sent = send(life->far, copy, length, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent <= 0)
		return 0;
	if (!garbage)
		BIO_read(life->peer.to, copy, (int)sent);
	life->wire += (uint64_t)sent;
	return (size_t)sent;
}

/* The trouble's last move, when nothing else moves, or the wire has so many bytes.  Return: false: there is none left. */
static bool conclude(struct life *life)
{
	if (life->over && (life->trouble != RENEGOTIATE || life->far < 0))
		return false;
	life->over = true;
	switch (life->trouble) {
	case NONE:
		peer_end(&life->peer);
		return true;
	case CUT:
		shutdown(life->far, SHUT_WR);
		return true;
	case EARLY:
	case QUIT:
	case STALL:
		return false;
	default:
		close_far(life);
		return true;
	}
}

/* ---- Lives ------------------------------------------------------------------------ */

/* A record that does not end, an alert, text or noise, and noise behind it */
static void make_garbage(struct life *life)
{
	static const char *const begins[] = { "\x16\x03\x01\x3f", "\x15\x03\x03", "version\r\n", "GET / HTTP/1.1\r\n", "\x80", "" };
	const char *begin = begins[random_below(&life->random, sizeof(begins) / sizeof(*begins))];
	size_t i, length = strlen(begin);

	life->nr_garbage = length + 6 + random_below(&life->random, random_chance(&life->random, 50) ? 20 : GARBAGE_MAX - 30);
	for (i = 0; i < life->nr_garbage; i++)
		life->garbage[i] = i < length ? (uint8_t)begin[i] : (uint8_t)random_next(&life->random);
	/* Where a handshake has the kind of its message: none has this one */
	life->garbage[5] |= 0x40;
}

static void begin(struct life *life, uint64_t seed)
{
	static const uint32_t grains[] = { 1, 5, 40, 300, 3000, 20000 };
	bool old, wants;
	unsigned int which;
	int sockets[2];

	*life = (struct life){ .random = seed, .far = -1 };
	life->trouble = random_below(&life->random, TROUBLES);
	life->grain = grains[random_below(&life->random, sizeof(grains) / sizeof(*grains))];
	life->times = 1 + random_below(&life->random, 5);
	life->total = 1 + random_below(&life->random, random_chance(&life->random, 20) ? life->grain * 30u : 1000u);
	/* Long answers wait in a buffer that grows and moves meanwhile */
	if (life->grain >= 300 && life->total < 5000 && random_chance(&life->random, 30)) {
		life->times = 60;
		life->total += 3000;
	}
	life->most = random_below(&life->random, 40000);
	life->longest = random_chance(&life->random, 50) ? 30 : UNIT_MAX;
	life->reload = random_below(&life->random, 200);
	old = life->trouble == RENEGOTIATE || random_chance(&life->random, 40);
	life->updates = !old && random_chance(&life->random, 60);
	wants = life->trouble == STRANGER || random_chance(&life->random, 30);
	life->at = random_below(&life->random, random_chance(&life->random, 60) ? HELLO : HELLO + life->total);
	if (life->trouble == QUIT || life->trouble == RENEGOTIATE || life->trouble == EARLY)
		life->at = random_below(&life->random, life->total) + (life->trouble == QUIT);
	if (life->trouble == GARBAGE)
		make_garbage(life);

	which = random_below(&life->random, 2);
	cached.options.ssl_ca_cert = wants ? client_path : NULL;
	load(life, which);
	if (random_chance(&life->random, 20))
		load_broken(life);
	memset(&worker.counters, 0, sizeof(worker.counters));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets))
		abort();
	life->far = sockets[1];
	life->connection = connection_new(&worker, sockets[0]);
	if (!life->connection)
		abort();
	SSL_set_app_data(life->connection->tls, life);
	SSL_set_info_callback(life->connection->tls, informed);
	narrow_insert(&life->narrow, life->connection->tls);
	peer_open(&life->peer, old ? TLS1_2_VERSION : TLS1_3_VERSION, life->trouble != STRANGER ? wants ? &client : NULL :
		  random_chance(&life->random, 50) ? &stranger : NULL, random_next(&life->random));
	life->peer.expected = &certificates[which];
}

static bool step(struct life *life)
{
	bool moved = act(life);

	reload(life);
	moved |= deliver(life) > 0;
	if ((life->trouble == CUT || life->trouble == RESET) && !life->over && life->wire == life->at)
		moved |= conclude(life);
	moved |= pass(life);
	moved |= collect(life, piece(life)) > 0;
	moved |= life->trouble != GARBAGE && peer_step(&life->peer);
	return moved;
}

/* What must be in the end */
static void judge(struct life *life)
{
	uint64_t errors = worker.counters.ssl_handshake_errors;
	bool ended = !life->connection;

	if (life->peer.wrong)
		wrong(life, "the client has bytes that the server has not said");
	if (life->peer.heard > life->served * life->times)
		wrong(life, "the client has more bytes than the server has said");
	if (life->peer.tickets)
		wrong(life, "the client was given a session to resume");
	if (life->peer.unexpected)
		wrong(life, "the client was shown another certificate");
	if (life->trouble == STALL) {
		if (ended)
			wrong(life, "the connection of a silent client has ended");
		else if (life->connection->waits_out)
			wrong(life, "the connection of a silent client waits for room");
		if (errors)
			wrong(life, "a silent client was counted");
		return;
	}
	if (!ended)
		wrong(life, "the connection has not ended");
	switch (life->trouble) {
	case NONE:
		if (life->served != life->total || life->peer.heard != life->served * life->times)
			wrong(life, "not all was served and answered");
		break;
	case QUIT:
		if (life->served < life->at || life->peer.heard != life->served * life->times)
			wrong(life, "not all was answered");
		if (!life->peer.ended)
			wrong(life, "the client was not told of the end");
		break;
	case GARBAGE:
	case STRANGER:
		if (life->handshakes || life->served)
			wrong(life, "a stranger was served");
		break;
	case RENEGOTIATE:
		if (life->peer.handshakes != 1)
			wrong(life, "there was not one handshake");
		break;
	default:
		break;
	}
	if (errors && life->handshakes)
		wrong(life, "what ended after its handshake was counted");
	if (!errors && !life->handshakes && life->trouble != EARLY)
		wrong(life, "what ended before its handshake was not counted");
	if (errors > 1)
		wrong(life, "it was counted more than once");
}

/* @steps_of_all: steps are added to it.  Return: what was wrong; NULL: nothing. */
static const char *live(uint64_t seed, enum trouble *trouble, uint64_t *steps_of_all)
{
	static struct life life;
	unsigned int steps;

	begin(&life, seed);
	for (steps = 0; steps < STEPS_MAX && !life.error; steps++) {
		if (step(&life)) {
			life.wide = false;
			continue;
		}
		if (life.wide && !conclude(&life))
			break;
		life.wide = !life.wide;
	}
	if (steps == STEPS_MAX)
		wrong(&life, "it has no end");
	judge(&life);
	if (life.connection)
		end(&life);
	peer_close(&life.peer);
	close_far(&life);
	*trouble = life.trouble;
	*steps_of_all += steps;
	return life.error;
}

static void lives(uint64_t seed, uint64_t nr)
{
	uint64_t state = seed, done[TROUBLES] = { 0 }, failed[TROUBLES] = { 0 }, steps = 0, i;
	unsigned int trouble;

	tap_note("seed %llu", (unsigned long long)seed);
	for (i = 0; i < nr; i++) {
		uint64_t one = random_next(&state);
		enum trouble of_one;
		const char *error = live(one, &of_one, &steps);

		done[of_one]++;
		if (error && !failed[of_one]++)
			tap_note("%s: %s; build/tls --life %llu", names[of_one], error, (unsigned long long)one);
	}
	tap_note("%llu lives, %llu steps", (unsigned long long)nr, (unsigned long long)steps);
	for (trouble = 0; trouble < TROUBLES; trouble++) {
		tap_note("%llu lives, %llu not right", (unsigned long long)done[trouble], (unsigned long long)failed[trouble]);
		tap_ok(done[trouble] && !failed[trouble], "%s", names[trouble]);
	}
}

int main(int argc, char **argv)
{
	const char *given = getenv("LSMEM_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL), nr = LIVES, steps = 0;
	enum trouble trouble;
	int i;

	signal(SIGPIPE, SIG_IGN);
	cached.options.ssl = true;
	make_certificates();
	for (i = 1; i + 1 < argc; i += 2) {
		uint64_t number = strtoull(argv[i + 1], NULL, 0);

		if (!strcmp(argv[i], "--seed")) {
			seed = number;
		} else if (!strcmp(argv[i], "--lives")) {
			nr = number;
		} else if (!strcmp(argv[i], "--life")) {
			const char *error = live(number, &trouble, &steps);

			tap_ok(!error, "%s: %s", names[trouble], error ?: "right");
			nr = 0;
		}
	}
	if (nr)
		lives(seed, nr);
	remove_certificates();
	return tap_end();
}
