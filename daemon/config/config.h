/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The configuration file: sections, keys, bounds. A file describes one store and its backups, or a
 * server of backups and its exports; each file has a daemon of its own. The parser reads only the
 * file. The caller checks what depends on the machine: does a path exist, is a backup large enough.
 */
#ifndef LSMEMD_CONFIG_H
#define LSMEMD_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "lsmem.h"
#include "lsmem_format.h"

#include "cluster/cluster.h"
#include "cluster/members.h"
#include "remote/server.h"

#define CONFIG_ERROR_BYTES	(PATH_MAX + 512)

#define CONFIG_NAME_BYTES	32u	/* as LSMEM_GIVEN_BYTES of the kernel */

/**
 * struct config_cluster - the etcd that keeps the ownership of the store
 * @options: how to reach etcd, and this host's name there
 * @store: uuid of the store whose backups etcd knows; "": the file names the backups
 * @secret: file of the secret that these backups ask proof of; "": none
 */
struct config_cluster {
	struct cluster_options options;
	char store[37];
	char secret[PATH_MAX];
	/* private: line of each key in the file; 0: the key is not there */
	unsigned int etcd_line, lease_line, host_line, store_line, secret_line, ca_line,
		     cert_line, key_line;
};

/**
 * struct config_move - the store moves between hosts (Documentation/migration.rst)
 * @listen: address that the daemon listens on for hosts that move the store to themselves, a number
 * @from: address of a host that has the store, and from which this host moves it to itself at a start
 * @secret: file of the secret that both hosts must prove
 * @standby: this host stands by until it is wanted, instead of moving the store at its start
 * @failover: .. or until no daemon has owned the store for so many seconds; CONFIG_FOREVER: not by itself
 * @bring_rate: bytes a second, to read the source's memory before anything asks for it; 0: as fast as it goes
 */
struct config_move {
	struct wire_address listen, from;
	char secret[PATH_MAX];
	bool standby;
	unsigned int failover;
	uint64_t bring_rate;
	/* private: line of each key in the file; 0: the key is not there */
	unsigned int listen_line, from_line, secret_line, standby_line, failover_line, bring_rate_line;
};

/**
 * struct config_backup - a backup of the store
 * @name: of its section; "": it is the only backup
 * @path: a file, a device, an export of another host or an NVMe-oF namespace
 * @domain: its failure domain; "": it is a domain of its own
 * @size: bytes of the file to create; 0: not given
 * @lock_wait: seconds to wait for the I/O of a killed daemon
 * @key: file of the secret; "": none
 * @timeout: seconds that a request may take, if the backup is on another host or one of several
 * @ack_memory: the daemon acknowledges bytes that are in the memory of the backup's host
 * @line: of its section in the file
 */
struct config_backup {
	char name[16];
	char path[PATH_MAX];
	char domain[32];
	uint64_t size;
	unsigned int lock_wait;
	char key[PATH_MAX];
	unsigned int timeout;
	bool ack_memory;
	unsigned int line;
	/* private: line of each key in the file; 0: the key is not there */
	unsigned int path_line, domain_line, size_line, lock_wait_line, key_line, timeout_line,
		     ack_line;
};

/* When all is verified that a recovery has left on the backups. */
enum config_verify {
	CONFIG_VERIFY_BEHIND,		/* while it is served */
	CONFIG_VERIFY_FIRST,		/* before it is served */
	CONFIG_VERIFY_NEVER,
};

/**
 * struct config - what a configuration file says
 * @store: section [store]; a member KEY_line is the line of the key, 0: the key is not there
 * @store.name: name of the store, for links and metrics; without @store.name_line it comes from the
 *	name of the file; "": none
 * @store.node: node of the store to be served; "": that of the store that the backups hold
 * @store.kind: enum lsmem_store_kind
 * @store.bytes: memory of the log; 0: not given
 * @store.capacity: live bytes of a tiered store; 0: the store is not tiered
 * @store.handles: most objects; 0: not given
 * @store.charge: the kernel charges the store's memory to the memory cgroup of the daemon that
 *	creates it
 * @store.instant: a recovery leaves objects on the backups; that of a tiered store always does
 * @store.cold: after such a recovery only what is used comes into memory
 * @store.verify: after such a recovery
 * @store.replicas: of each segment
 * @store.min_replicas: with fewer replicas the daemon acknowledges nothing
 * @store.code: of a coded store: data and parity shards of each segment, which has no replicas; 0 and 0: not coded
 * @store.min_parity: of a coded store: with fewer shards than @store.code.k and so many the daemon acknowledges nothing
 * @store.batch_us: of a coded store: microseconds that a partial row waits for more
 * @store.copy_rate: bytes a second, to restore lost replicas
 * @store.convert_rate: bytes a second, to convert segments that have not the kind of new ones; 0: the store has that kind only
 * @store.scrub: seconds in which each replica is read and checked once; 0: none is
 * @store.wait: seconds that a start waits for missing backups, or CONFIG_FOREVER; without
 *	@store.wait_line the caller chooses
 * @store.rejoin: seconds between attempts to let a lost backup join; 0: only at the next start
 * @backups: sections [backup]
 * @nr_backups: how many
 * @metrics: section [metrics]
 * @metrics.listen: @metrics.address as it is written, for messages
 * @cluster: section [cluster]
 * @move: section [move]; without @move.listen_line the store cannot be moved
 * @server: section [server]; with @server.listen_line the file describes a server of backups
 * @exports: lines of the keys of @server.options.exports
 */
struct config {
	struct {
		char name[CONFIG_NAME_BYTES];
		char node[LSMEM_NAME_BYTES];
		uint32_t kind;
		uint64_t bytes;
		uint64_t capacity;
		uint64_t handles;
		uid_t uid;
		gid_t gid;
		mode_t mode;
		bool charge;
		bool instant;
		bool cold;
		enum config_verify verify;
		struct {
			unsigned int k, m;
		} code;
		unsigned int replicas, min_replicas, min_parity, batch_us, rejoin, scrub, wait;
		uint64_t copy_rate, convert_rate;
		unsigned int name_line, node_line, kind_line, size_line, capacity_line,
			     handles_line, mode_line, owner_line,
			     charge_line, restart_line, warm_line, verify_line, replicas_line, min_replicas_line, code_line, min_parity_line, batch_us_line, copy_rate_line, convert_rate_line, rejoin_line, scrub_line, wait_line;
	} store;
	struct config_backup backups[LSMEM_BACKUPS];
	unsigned int nr_backups;
	struct {
		struct sockaddr_storage address;
		socklen_t length;
		char listen[64];
		unsigned int listen_line;
	} metrics;
	struct config_cluster cluster;
	struct config_move move;
	struct {
		struct server_options options;
		unsigned int listen_line, key_line, wire_min_line, wire_max_line;
	} server;
	struct config_export {
		unsigned int line, path_line, size_line, secret_line;
	} exports[SERVER_EXPORTS];
};

#define CONFIG_STORE_BYTES_DEFAULT	(256ull << 20)
#define CONFIG_STORE_BYTES_MIN		(128ull << 20)
#define CONFIG_STORE_BYTES_MAX		(1ull << 40)
#define CONFIG_LOCK_WAIT_DEFAULT	60u
/* Seconds: a third of durable_ms, so that a call outlasts the loss of a backup: see warn_slow(). */
#define CONFIG_TIMEOUT_DEFAULT		10u
#define CONFIG_REPLICAS_DEFAULT		3u
#define CONFIG_COPY_RATE_DEFAULT	(64ull << 20)
#define CONFIG_FAILOVER_MAX		86400u
#define CONFIG_REJOIN_DEFAULT		10u
#define CONFIG_REJOIN_MAX		3600u
#define CONFIG_SCRUB_DEFAULT		(30u * 86400)
#define CONFIG_SCRUB_MIN		10u
#define CONFIG_SCRUB_MAX		(365u * 86400)
#define CONFIG_WAIT_MAX			86400u
#define CONFIG_BATCH_US_MAX		100000u
#define CONFIG_FOREVER			UINT32_MAX

/* Return: is the store coded? */
static inline bool config_coded(const struct config *config)
{
	return config->store.code.k;
}

/* Return: on how many backups a segment is to be. */
static inline unsigned int config_wanted(const struct config *config)
{
	return config_coded(config) ? config->store.code.k + config->store.code.m : config->store.replicas;
}

/* Return: with a segment on fewer backups the daemon acknowledges nothing of it. */
static inline unsigned int config_least(const struct config *config)
{
	return config_coded(config) ? config->store.code.k + config->store.min_parity : config->store.min_replicas;
}

bool config_any_remote(const struct config *config);
unsigned int config_domain(const struct config *config, unsigned int backup);
bool config_domains(const struct config *config);
int config_read(const char *path, struct config *config, char error[CONFIG_ERROR_BYTES]);
int config_take(struct config *config, const char *path, const char *source,
		const struct members *members, char error[CONFIG_ERROR_BYTES]);

#endif
