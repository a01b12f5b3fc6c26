// SPDX-License-Identifier: GPL-2.0
/*
 * How many connections the server of backups takes: daemon/remote/peer.c without a network.  The
 * functions of RDMA here do nothing; the test sets the state of a connection.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "remote/server.h"
#include "../common/tap.h"

static const struct secret key = { 16, "sixteen letters." };
static const struct server_options options = {
	.wire_min = WIRE_VERSION_MIN, .wire_max = WIRE_VERSION_MAX,
};
static unsigned int rejected;

/* ---- RDMA and what is below a connection -------------------------------- */

int verbs_open(struct verbs *verbs, struct rdma_cm_id *id, const struct verbs_user *user)
{
	verbs->id = id;
	verbs->user = user;
	return 0;
}

void verbs_cut(struct verbs *verbs)
{
	verbs->over = true;
}

void verbs_close(struct verbs *verbs)
{
	free(verbs->id);
}

int verbs_qps(const struct verbs *verbs, uint32_t *own, uint32_t *other)
{
	(void)verbs;
	*own = *other = 1;
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	(void)id;
	(void)data;
	(void)length;
	rejected++;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	free(id);
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *params)
{
	(void)id;
	(void)params;
	return 0;
}

void verbs_params(const struct verbs *verbs, struct rdma_conn_param *params)
{
	(void)verbs;
	(void)params;
}

void verbs_poll_in(struct verbs *verbs, struct loop *loop)
{
	(void)verbs;
	(void)loop;
}

const struct secret *server_secret(void *server, const char *name)
{
	(void)server;
	(void)name;
	return &key;
}

/* ---- Not called: no message arrives ---------------------------------------- */

void verbs_poll(struct verbs *verbs)
{
	(void)verbs;
	abort();
}

void verbs_tick(struct verbs *verbs)
{
	(void)verbs;
	abort();
}

void verbs_send(struct verbs *verbs, const union wire_message *message, uint32_t tag)
{
	(void)verbs;
	(void)message;
	(void)tag;
	abort();
}

void verbs_break(struct verbs *verbs, int error, const char *why)
{
	(void)verbs;
	(void)error;
	(void)why;
	abort();
}

void backup_submit(struct backup_io *io, struct backup *backup)
{
	(void)io;
	(void)backup;
	abort();
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t length, int access)
{
	(void)pd;
	(void)at;
	(void)length;
	(void)access;
	abort();
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t length, uint64_t iova,
				unsigned int access)
{
	(void)iova;
	return ibv_reg_mr(pd, at, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	(void)mr;
	abort();
}

/* ---- Connections --------------------------------------------------------- */

/* A client at @host connects.  Return: its connection; NULL: it was turned away. */
static struct peer *come(struct server *server, const char *host)
{
	struct rdma_cm_id *id = calloc(1, sizeof(*id));
	struct sockaddr_in *v4 = (void *)rdma_get_peer_addr(id);
	struct sockaddr_in6 *v6 = (void *)v4;
	unsigned int before = rejected;

	v4->sin_family = AF_INET;
	if (inet_pton(AF_INET, host, &v4->sin_addr) != 1) {
		v6->sin6_family = AF_INET6;
		if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
			abort();
	}
	peer_new(server, id);
	return rejected == before ? server->peers : NULL;
}

/* A client connects, and proves the secret. */
static struct peer *come_proven(struct server *server, const char *host)
{
	struct peer *peer = come(server, host);

	if (peer)
		peer->session.state = SESSION_SERVING;
	return peer;
}

/* @silent clients come, and after them @proven, from one host.  Return: all are connected. */
static bool come_many(struct server *server, const char *host, unsigned int silent,
		      unsigned int proven)
{
	bool good = true;

	for (; silent; silent--)
		good &= !!come(server, host);
	for (; proven; proven--)
		good &= !!come_proven(server, host);
	return good;
}

/* Return: connections that are not cut. */
static unsigned int connected(const struct server *server)
{
	const struct peer *peer;
	unsigned int nr = 0;

	for (peer = server->peers; peer; peer = peer->next)
		nr += !peer->cut;
	return nr;
}

static void begin(struct server *server)
{
	struct peer *next;

	for (; server->peers; server->peers = next) {
		next = server->peers->next;
		peer_end(server->peers, "the test is over");
		peer_free(server->peers);
	}
	*server = (struct server){ .options = &options };
}

/* As many proven connections of one address as it may have: it gets no more, others do. */
static bool test_host(struct server *server)
{
	struct peer *peer, *silent;

	begin(server);
	CHECK(come_many(server, "10.0.0.1", 0, SERVER_PEERS_HOST));
	CHECK(!come(server, "10.0.0.1") && connected(server) == SERVER_PEERS_HOST);
	CHECK(come(server, "10.0.0.2"));
	CHECK(!come(server, "10.0.0.1"));
	/* A connection that is cut leaves its place. */
	for (peer = server->peers; peer->next; peer = peer->next)
		;
	peer_end(peer, "for a test");
	silent = come(server, "10.0.0.1");
	/* A silent one goes for the next. */
	CHECK(silent && connected(server) == SERVER_PEERS_HOST + 1);
	peer = come_proven(server, "10.0.0.1");
	CHECK(peer && silent->cut && connected(server) == SERVER_PEERS_HOST + 1);
	CHECK(!come(server, "10.0.0.1") && connected(server) == SERVER_PEERS_HOST + 1);
	return true;
}

/* Hosts with IPv6 have many addresses, of one network; addresses of IPv4 in IPv6 are of one host. */
static bool test_same_host(struct server *server)
{
	begin(server);
	CHECK(come_many(server, "2001:db8::1", 0, SERVER_PEERS_HOST));
	CHECK(!come(server, "2001:db8::ffff:2") && come(server, "2001:db8:0:1::1"));
	begin(server);
	CHECK(come_many(server, "fe80::1", 0, SERVER_PEERS_HOST));
	CHECK(!come(server, "fe80::1") && come(server, "fe80::2"));
	begin(server);
	CHECK(come_many(server, "::ffff:10.0.0.1", 0, SERVER_PEERS_HOST));
	CHECK(!come(server, "::ffff:10.0.0.1") && come(server, "::ffff:10.0.0.2"));
	return true;
}

/* Without a proof: a few of an address, and some of all; the oldest goes. */
static bool test_silent(struct server *server)
{
	struct peer *first, *other;
	char host[16];
	unsigned int i;

	begin(server);
	other = come(server, "10.0.1.1");
	first = come(server, "10.0.0.1");
	CHECK(come_many(server, "10.0.0.1", SERVER_STRANGERS_HOST - 1, 0) && !first->cut);
	CHECK(come(server, "10.0.0.1") && first->cut && !other->cut);
	CHECK(connected(server) == SERVER_STRANGERS_HOST + 1);
	begin(server);
	first = come_proven(server, "10.0.0.1");
	other = come(server, "10.0.0.1");
	for (i = 1; i < SERVER_STRANGERS; i++) {
		snprintf(host, sizeof(host), "10.0.1.%u", i);
		CHECK(come(server, host) && !other->cut);
	}
	CHECK(come(server, "10.0.2.1") && other->cut && !first->cut);
	CHECK(connected(server) == SERVER_STRANGERS + 1);
	return true;
}

/* As many as there may be: one with a proof stays, a silent one goes. */
static bool test_full(struct server *server)
{
	struct peer *silent;

	begin(server);
	CHECK(come_many(server, "10.0.0.1", 0, SERVER_PEERS_HOST));
	silent = come(server, "10.0.0.2");
	CHECK(come_many(server, "10.0.0.2", 0, SERVER_PEERS_HOST - 1));
	CHECK(connected(server) == SERVER_PEERS && !silent->cut);
	CHECK(come_proven(server, "10.0.0.3") && silent->cut);
	CHECK(!come(server, "10.0.0.3") && connected(server) == SERVER_PEERS);
	return true;
}

/* Connections that are cut, and have requests in flight, are kept; there is a limit to them. */
static bool test_ending(struct server *server)
{
	struct peer *peer;
	unsigned int i;

	begin(server);
	for (i = 0; i < SERVER_PEERS + SERVER_ENDING; i++) {
		peer = come_proven(server, "10.0.0.1");
		CHECK(peer);
		peer_end(peer, "for a test");
	}
	CHECK(!connected(server) && !come(server, "10.0.0.1") && !come(server, "10.0.0.2"));
	return true;
}

int main(void)
{
	static struct server server;

	log_setup(getenv("VERBOSE") ? LOG_PRI_INFO : -1);
	tap_ok(test_host(&server), "an address has a limited number of connections");
	tap_ok(test_same_host(&server), "which addresses are one host");
	tap_ok(test_silent(&server), "connections without a proof: the oldest goes");
	tap_ok(test_full(&server), "a full server: connections with a proof stay");
	tap_ok(test_ending(&server), "a full server: connections that end");
	begin(&server);
	return tap_end();
}
