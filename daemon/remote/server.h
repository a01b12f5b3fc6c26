/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The server of backups: what a file or a drive of this host keeps for daemons
 * on others.
 *
 *	server.c	exports, connections, the loop
 *	peer.c		one connection: its conversation (session.h), its slots, its I/O
 *	hold.c		the right to write to an export
 *
 * One thread.  A connection gets memory when it has proved the secret and has
 * the hold, all of it at once; after that nothing is allocated for it.
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
#define SERVER_PEERS		64u	/* connections */
#define SERVER_STRANGERS	24u	/* of these, how many may have proved nothing yet .. */
#define SERVER_STRANGERS_HOST	8u	/* .. from one address */
#define SERVER_PEERS_HOST	32u	/* connections from one address */
#define SERVER_EXPORTS		16u
#define SERVER_ENDING		64u	/* beside SERVER_PEERS: cut, and not freed yet */

struct peer;

/**
 * struct export_options - what is kept for others
 * @name: by which they ask for it
 * @path: of the file or device
 * @size: of the file to create; 0: not given
 * @secret: file of the secret that this one wants proof of, "": the server's
 */
struct export_options {
	char name[WIRE_NAME];
	char path[PATH_MAX];
	uint64_t size;
	char secret[PATH_MAX];
};

/**
 * struct server_options - what a server keeps, and how it is reached
 * @listen: where
 * @key: file of the secret of exports without one of their own, "": none
 * @wire_min: lowest version of the protocol that it speaks
 * @wire_max: highest version
 * @exports: what it keeps
 * @nr_exports: how many
 */
struct server_options {
	struct wire_address listen;
	char key[PATH_MAX];
	uint16_t wire_min, wire_max;
	struct export_options exports[SERVER_EXPORTS];
	unsigned int nr_exports;
};

/**
 * struct export - a backup kept for others
 * @options: of the configuration
 * @backup: the file or device
 * @hold: the right to write to it
 * @key: its own secret; NULL: the server's
 * @who: name of the client that has the hold, or had it with the highest term
 */
struct export {
	const struct export_options *options;
	struct backup backup;
	struct hold hold;
	struct secret *key;
	char who[WIRE_NAME];
};

/**
 * struct server - all of it
 * @loop: through which its I/O goes
 * @options: as they were given
 * @key: the secret of exports without one of their own; if there is none, random bytes
 * @exports: open
 * @nr_exports: how many
 * @events: of the connection manager
 * @listener: NULL: it does not listen, or no more
 * @events_op: the poll of @events
 * @tick: every second
 * @peers: all connections; gone ones too, until they can be freed
 * @nr_peers: how many
 * @lost: the device is being removed
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
 * @io: to the export's backup
 * @iov: of @io
 * @peer: that asked
 * @turn: of a write: how many came before it
 * @busy: there is one
 * @waits: an older write of the same blocks must end first
 * @instead: a younger write that covers all of this one, which ends with it
 * @receipt: RECEIVED is to be sent
 * @answer: it is done, and DONE is to be sent
 * @error: with @answer
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
 * struct peer - a connection
 * @verbs: the connection
 * @session: the protocol
 * @server: the server
 * @next: in the server's list
 * @address: of the client, as text
 * @from: of the client
 * @export: that the client asks for, and has proved the secret of
 * @memory: of its slots, from its acceptance on
 * @mr: registration of @memory
 * @slots: requests
 * @in_flight: of these, requests given to the drive
 * @turns: writes that have come
 * @since_ns: when it connected
 * @closing: it is cut when its last message has been sent
 * @cut: its queue pair and keys are destroyed
 * @gone: and its requests have ended: it can be freed
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
