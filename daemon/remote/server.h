/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The server of backups: it exports files and drives of this host to daemons on other hosts.
 *
 *	server.c	exports, connections, the loop
 *	peer.c		one connection: its session (session.h), its slots, its I/O
 *	hold.c		the right to write to an export
 *
 * The server has one thread. It allocates the slots of a connection when the client has proved
 * the secret and has got the hold, or only reads. After that it allocates nothing for this
 * connection.
 */
#ifndef LSMEMD_SERVER_H
#define LSMEMD_SERVER_H

#include <limits.h>

#include "backup/backup.h"
#include "base/signals.h"
#include "hold.h"
#include "session.h"
#include "verbs.h"

#define SERVER_SLOT_BYTES	(256u << 10)
#define SERVER_PEERS		64u	/* connections, at most */
#define SERVER_STRANGERS	24u	/* of these, without a proof yet, at most .. */
#define SERVER_STRANGERS_HOST	8u	/* .. and of these from one address */
#define SERVER_PEERS_HOST	32u	/* connections from one address, at most */
#define SERVER_EXPORTS		16u
#define SERVER_ENDING		64u	/* connections that are cut and not freed yet, at most */

struct peer;

/**
 * struct export_options - the configuration of an export
 * @name: name by which clients ask for it
 * @path: path of the file or device
 * @size: bytes of the file; 0: not configured
 * @secret: path of the file with its own secret; "": the server's @key
 */
struct export_options {
	char name[WIRE_NAME];
	char path[PATH_MAX];
	uint64_t size;
	char secret[PATH_MAX];
};

/**
 * struct server_options - the configuration of a server
 * @listen: address that it listens on
 * @key: path of the file with the secret of all exports without their own; "": none
 * @wire_min: lowest version of the protocol that it speaks
 * @wire_max: highest version of the protocol that it speaks
 * @exports: the exports
 * @nr_exports: number of @exports
 */
struct server_options {
	struct wire_address listen;
	char key[PATH_MAX];
	uint16_t wire_min, wire_max;
	struct export_options exports[SERVER_EXPORTS];
	unsigned int nr_exports;
};

/**
 * struct export - a file or device that the server exports
 * @options: its configuration
 * @backup: the file or device
 * @hold: the right to write to it
 * @key: its own secret; NULL: it uses the server's
 * @who: name of the client that last got the hold, or last began to fence its holder
 */
struct export {
	const struct export_options *options;
	struct backup backup;
	struct hold hold;
	struct secret *key;
	char who[WIRE_NAME];
};

/**
 * struct server - a server; one thread uses it
 * @loop: carries its I/O
 * @options: its configuration
 * @key: the secret of exports without their own; random bytes if none is configured
 * @exports: the exports that are open
 * @nr_exports: number of @exports
 * @events: event channel of the connection manager
 * @listener: NULL: it does not listen
 * @events_op: the poll of @events
 * @tick: expires every second
 * @peers: all connections that are not freed yet, the youngest first
 * @nr_peers: number of @peers
 * @lost: the RDMA device is being removed
 */
struct server {
	struct loop *loop;
	const struct server_options *options;
	struct secret key;
	struct export exports[SERVER_EXPORTS];
	unsigned int nr_exports;
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	struct loop_op events_op;
	struct loop_timer tick;
	struct peer *peers;
	unsigned int nr_peers;
	bool lost;
};

/**
 * struct peer_slot - a request of a peer
 * @io: its request to the export's backup; the first member
 * @iov: the memory of @io
 * @peer: the peer that sent it
 * @turn: of a write: number of writes that this peer sent before it
 * @busy: the request is not done
 * @waits: an older write of the same blocks must end first; @io is not submitted yet
 * @instead: a younger write that covers all blocks of this one; @io is never submitted, and this
 *	request ends with the younger one; NULL: none
 * @receipt: RECEIVED must be sent
 * @answer: the request is done, DONE must be sent
 * @error: of @answer: 0 or a negative errno
 */
struct peer_slot {
	struct backup_io io;
	struct iovec iov;
	struct peer *peer;
	uint64_t turn;
	bool busy, waits;
	struct peer_slot *instead;
	bool receipt, answer;
	int error;
};

/**
 * struct peer - a connection of a client
 * @verbs: the RDMA connection
 * @session: state of the protocol
 * @server: the server
 * @next: in @peers of the server
 * @address: address of the client, for messages
 * @from: address of the client
 * @export: the export that the client asks for, once it has proved the secret; NULL: none
 * @memory: memory of the slots, from grant() to peer_gone()
 * @mr: registration of @memory, until the peer is @cut
 * @slots: requests, by slot
 * @in_flight: requests that are not done, including the ones that wait for an older write
 * @turns: number of writes that have come
 * @since_ns: when the client connected
 * @closing: no message is taken any more; the peer is cut when its last message has been sent
 * @cut: the queue pair and the keys are destroyed
 * @gone: @cut, and no request is in flight
 */
struct peer {
	struct verbs verbs;
	struct session session;
	struct server *server;
	struct peer *next;
	char address[64];
	struct sockaddr_storage from;
	struct export *export;
	uint8_t *memory;
	struct ibv_mr *mr;
	struct peer_slot slots[WIRE_SLOTS];
	unsigned int in_flight;
	uint64_t turns;
	uint64_t since_ns;
	bool closing, cut, gone;
};

void peer_new(struct server *server, struct rdma_cm_id *id);
void peer_tick(struct peer *peer);
void peer_end(struct peer *peer, const char *why);
bool peer_free(struct peer *peer);

const struct secret *server_secret(void *server, const char *name);
int server_open(struct server *server, struct loop *loop, const struct server_options *options,
		const struct backup_options *how);
int server_listen(struct server *server);
int server_run(struct server *server, struct signals *signals);
void server_close(struct server *server);

#endif
