// SPDX-License-Identifier: GPL-2.0
/* Checks of the configuration file that need more than one key. */
#include <string.h>

#include "backup/nvmf_address.h"
#include "module/kernel.h"
#include "private.h"

static int check_server(struct config_parser *p, struct config *c, const unsigned int seen[NR_SECTIONS])
{
	unsigned int i;

	for (i = 0; i < SECTION_SERVER; i++)
		if (seen[i])
			return config_fail(p, seen[i],
					   "a server of backups ([server], [export]) has no [%s]; use another file and another daemon",
					   config_sections[i]);
	if (c->nr_backups)
		return config_fail(p, c->backups[0].line,
				   "a server of backups ([server], [export]) has no [backup]; use another file and another daemon");
	if (!c->server.listen_line)
		return config_fail(p, 0, "no listen in [server]: \"listen = rdma://ADDRESS[:PORT]\" is needed");
	if (c->server.options.wire_min > c->server.options.wire_max)
		return config_fail(p, c->server.wire_min_line ? c->server.wire_min_line :
				   c->server.wire_max_line, "wire_min = %u is above wire_max = %u",
				   c->server.options.wire_min, c->server.options.wire_max);
	if (!c->server.options.nr_exports)
		return config_fail(p, 0, "no [export NAME]: a server needs at least one");
	for (i = 0; i < c->server.options.nr_exports; i++)
		if (!c->exports[i].path_line)
			return config_fail(p, c->exports[i].line, "no path in [export %s]",
					   c->server.options.exports[i].name);
	for (i = 0; i < c->server.options.nr_exports; i++)
		if (!c->exports[i].secret_line && !c->server.key_line)
			return config_fail(p, c->exports[i].line,
					   "no secret in [export %s], and no key in [server] for exports without a secret: \"secret = FILE\" or \"key = FILE\" is needed",
					   c->server.options.exports[i].name);
	return 0;
}

/**
 * config_domain - the failure domain of a backup, as a number
 * @config: the configuration
 * @backup: place of the backup in the configuration
 *
 * Return: the place of the first backup in the same domain.
 */
unsigned int config_domain(const struct config *config, unsigned int backup)
{
	const char *domain = config->backups[backup].domain;
	unsigned int first;

	for (first = 0; first < backup; first++)
		if (*domain && !strcmp(domain, config->backups[first].domain))
			break;
	return first;
}

/* The number of failure domains. */
static unsigned int count_domains(const struct config *c)
{
	unsigned int count = 0, i;

	for (i = 0; i < c->nr_backups; i++)
		count += config_domain(c, i) == i;
	return count;
}

/**
 * config_domains - are the backups in several failure domains?
 * @config: the configuration
 *
 * Return: true: two backups or more are in different domains.
 */
bool config_domains(const struct config *config)
{
	return count_domains(config) > 1;
}

/**
 * config_any_remote - does the lsmemd of another host keep one of the backups?
 * @config: the configuration
 *
 * Return: true: the path of a backup is rdma://...
 */
bool config_any_remote(const struct config *config)
{
	unsigned int i;

	for (i = 0; i < config->nr_backups; i++)
		if (wire_scheme(config->backups[i].path))
			return true;
	return false;
}

static int check_backup(struct config_parser *p, const struct config *c,
			const struct config_backup *backup)
{
	bool server = wire_scheme(backup->path), remote = server || nvmf_scheme(backup->path);
	const struct config_backup *other;

	if (!backup->path_line)
		return config_fail(p, *backup->name ? backup->line : 0,
				   "no path in [backup%s%s]: a block device or a file is needed",
				   *backup->name ? " " : "", backup->name);
	if (server && !backup->key_line)
		return config_fail(p, backup->path_line,
				   "path = %s: a backup on another host needs \"key =\", the file of the secret shared with it",
				   backup->path);
	if (remote && backup->size_line)
		return config_fail(p, backup->size_line,
				   "size: not for a backup on another host, whose server creates it");
	if (!remote && backup->key_line)
		return config_fail(p, backup->key_line,
				   "key: only for a backup on another host (path = rdma://.. or nvmf+..)");
	if (!remote && backup->timeout_line && c->nr_backups == 1)
		return config_fail(p, backup->timeout_line,
				   "timeout: only for a backup on another host (path = rdma://.. or nvmf+..), or one of several");
	if (!server && backup->ack_memory)
		return config_fail(p, backup->ack_line,
				   "ack = memory: only for a backup that the lsmemd of another host keeps (path = rdma://..); use ack = durable, or leave it out");
	if (backup->ack_memory && c->store.kind == LSMEM_KIND_BLOCK)
		return config_fail(p, backup->ack_line,
				   "ack = memory: not for kind = block, which waits only for FLUSH and FUA, and these promise durable data; use ack = durable, or leave it out");
	if (backup->domain_line && c->nr_backups == 1)
		return config_fail(p, backup->domain_line, "domain: only for one of several backups");
	for (other = c->backups; other < backup; other++)
		if (!strcmp(other->path, backup->path))
			return config_fail(p, backup->path_line, "path = %s: [backup %s] has the same path",
					   backup->path, other->name);
	return 0;
}

/* A coded store: each shard of a segment is in a failure domain of its own. */
static int check_shards(struct config_parser *p, struct config *c, unsigned int domains)
{
	unsigned int k = c->store.code.k, m = c->store.code.m;

	if (k + m > domains)
		return config_fail(p, c->store.code_line,
				   "code = %u+%u: each of the %u shards needs a failure domain of its own, and the backups are in %u",
				   k, m, k + m, domains);
	if (!c->store.min_parity_line)
		c->store.min_parity = m - 1;
	if (c->store.min_parity > m)
		return config_fail(p, c->store.min_parity_line, "min_parity = %u: code = %u+%u has %u parity shards",
				   c->store.min_parity, k, m, m);
	return 0;
}

/**
 * config_check_replicas - are there enough failure domains for the replicas, or shards?
 * @p: the parser
 * @c: the configuration; if the file has no numbers of replicas, they are set here
 *
 * Return: 0, or -EINVAL with the message in @p->error.
 */
int config_check_replicas(struct config_parser *p, struct config *c)
{
	unsigned int domains = count_domains(c);

	if (config_coded(c))
		return check_shards(p, c, domains);
	if (!c->store.replicas_line)
		c->store.replicas = domains < CONFIG_REPLICAS_DEFAULT ? domains :
				    CONFIG_REPLICAS_DEFAULT;
	if (c->store.replicas > domains)
		return config_fail(p, c->store.replicas_line,
				   "replicas = %u: each needs a failure domain of its own, and the backups are in %u",
				   c->store.replicas, domains);
	if (!c->store.min_replicas_line)
		c->store.min_replicas = c->store.replicas > 1 ? c->store.replicas - 1 : 1;
	if (c->store.min_replicas > c->store.replicas)
		return config_fail(p, c->store.min_replicas_line,
				   "min_replicas = %u: allowed is at most replicas, %u",
				   c->store.min_replicas, c->store.replicas);
	return 0;
}

/**
 * config_check_backups - does each backup have the keys that it needs, and no others?
 * @p: the parser
 * @c: the configuration, with backups of the file or of etcd
 *
 * Return: 0, or -EINVAL with the message in @p->error.
 */
int config_check_backups(struct config_parser *p, struct config *c)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < c->nr_backups && !err; i++)
		err = check_backup(p, c, &c->backups[i]);
	return err;
}

static int check_capacity(struct config_parser *p, const struct config *c)
{
	uint64_t bytes = c->store.bytes ? c->store.bytes : CONFIG_STORE_BYTES_DEFAULT;

	if (!c->store.capacity_line)
		return 0;
	if (c->store.capacity < bytes || c->store.capacity / LSMEM_CAPACITY_MOST > bytes)
		return config_fail(p, c->store.capacity_line,
				   "capacity = %lluM: allowed is at least size, %lluM, and at most %u times that",
				   (unsigned long long)c->store.capacity >> 20,
				   (unsigned long long)bytes >> 20, LSMEM_CAPACITY_MOST);
	return 0;
}

static int check_restart(struct config_parser *p, const struct config *c)
{
	if (c->store.restart_line && !c->store.instant && c->store.capacity_line)
		return config_fail(p, c->store.restart_line,
				   "restart = load: not for a store with a capacity, which may exceed its memory");
	return 0;
}

/* What a coded store cannot do yet is refused here: see Documentation/stripes.rst. */
static int check_code(struct config_parser *p, const struct config *c)
{
	unsigned int replicas = c->store.replicas_line ? c->store.replicas_line : c->store.min_replicas_line;
	unsigned int coded = c->store.min_parity_line ? c->store.min_parity_line : c->store.batch_us_line, i;

	if (!config_coded(c))
		return !coded ? 0 :
		       config_fail(p, coded, "%s: only with \"code =\"",
				   c->store.min_parity_line ? "min_parity" : "batch_us");
	if (replicas)
		return config_fail(p, replicas,
				   "%s: not with code = %u+%u, whose segments have shards in place of replicas; leave one of them out, \"min_parity =\" says how many shards must be there",
				   c->store.replicas_line ? "replicas" : "min_replicas", c->store.code.k, c->store.code.m);
	for (i = 0; i < c->nr_backups; i++)
		if (c->backups[i].ack_memory)
			return config_fail(p, c->backups[i].ack_line,
					   "ack = memory: not with \"code =\", whose writes count when they are durable on all shards; leave it out, or use replicas");
	return 0;
}

static int check_cluster(struct config_parser *p, const struct config *config, unsigned int line)
{
	const struct config_cluster *c = &config->cluster;
	unsigned int i, secure = 0, files = c->ca_line + c->cert_line + c->key_line;

	if (!c->options.etcd.nr_urls)
		return config_fail(p, line, "no etcd in [cluster]: \"etcd = http://ADDRESS:PORT\" is needed");
	for (i = 0; i < c->options.etcd.nr_urls; i++)
		secure += !strncmp(c->options.etcd.urls[i], "https:", 6);
	if (secure && secure != c->options.etcd.nr_urls)
		return config_fail(p, c->etcd_line, "etcd: http:// and https:// cannot be mixed");
	if (secure && !c->ca_line)
		return config_fail(p, c->etcd_line,
				   "etcd: https:// needs \"ca =\", the file of the certificate authority of etcd");
	if (!secure && files)
		return config_fail(p, c->etcd_line, "etcd: ca, cert and key are for https://");
	if (!c->cert_line != !c->key_line)
		return config_fail(p, c->cert_line + c->key_line, "cert and key: each needs the other");
	if (c->store_line && config->nr_backups)
		return config_fail(p, c->store_line,
				   "store: the backups come from etcd, or from [backup]; leave one of them out");
	if (c->secret_line && !c->store_line)
		return config_fail(p, c->secret_line,
				   "secret: only for backups from etcd, with \"store =\"; others have \"key =\" in [backup]");
	return 0;
}

/* A secret of moves opens no backup, and that of a backup moves no store. */
static int check_move(struct config_parser *p, const struct config *c, unsigned int line, bool cluster)
{
	unsigned int i;

	if (!c->move.listen_line && !c->move.from_line)
		return config_fail(p, line,
				   "no listen and no from in [move]: \"listen = rdma://ADDRESS[:PORT]\", \"from = rdma://HOST[:PORT]\" or both are needed");
	if (c->move.standby && !c->move.from_line)
		return config_fail(p, c->move.standby_line, "standby = yes: needs \"from\", the host to stand by for");
	if (c->move.failover_line && !c->move.standby)
		return config_fail(p, c->move.failover_line, "failover: only with \"standby = yes\"");
	if (!c->move.secret_line)
		return config_fail(p, line,
				   "no secret in [move]: \"secret = FILE\" is needed, the secret of the hosts that can move the store");
	if (config_coded(c))
		return config_fail(p, line,
				   "[move]: not with \"code =\": this version does not move coded stores; leave [move] out, or use replicas");
	if (c->store.convert_rate_line)
		return config_fail(p, c->store.convert_rate_line,
				   "convert_rate: not with [move]: this version does not move stores with coded segments; leave [move] out until the store is converted");
	if (!cluster)
		return config_fail(p, line, "[move] needs [cluster]: etcd says which host has the store");
	if (!c->store.instant && !c->store.capacity_line)
		return config_fail(p, line,
				   "[move] needs \"restart = instant\" or \"capacity =\" in [store]: a store that moves leaves objects on its backups");
	for (i = 0; i < c->nr_backups; i++)
		if (!strcmp(c->move.secret, c->backups[i].key))
			return config_fail(p, c->move.secret_line,
					   "secret = %s: is the key of a backup; moves need a secret of their own",
					   c->move.secret);
	if (!strcmp(c->move.secret, c->cluster.secret))
		return config_fail(p, c->move.secret_line,
				   "secret = %s: is the secret of the backups, in [cluster]; moves need a secret of their own",
				   c->move.secret);
	return 0;
}

/**
 * config_check - do the keys of the file fit together?
 * @p: the parser
 * @c: the configuration, after the last line
 * @seen: lines of the sections in enum config_section; 0: the section is not there
 *
 * Return: 0, or -EINVAL with the message in @p->error.
 */
int config_check(struct config_parser *p, struct config *c, const unsigned int seen[NR_SECTIONS])
{
	bool block = c->store.kind == LSMEM_KIND_BLOCK;
	bool block_node = !strncmp(c->store.node, "lsmemb", 6);
	int err;

	if (seen[SECTION_SERVER] || c->server.options.nr_exports)
		return check_server(p, c, seen);
	if (!c->nr_backups && !c->cluster.store_line)
		return config_fail(p, 0, "no path in [backup]: a block device or a file is needed");
	err = config_check_backups(p, c);
	if (!err && c->nr_backups)
		err = config_check_replicas(p, c);
	if (err)
		return err;
	err = check_capacity(p, c);
	if (!err)
		err = check_restart(p, c);
	if (!err)
		err = check_code(p, c);
	if (err)
		return err;
	if (block && c->store.handles_line)
		return config_fail(p, c->store.handles_line,
				   "handles: not for kind = block, whose size gives their number");
	if (block && (c->store.mode_line || c->store.owner_line))
		return config_fail(p, c->store.mode_line ? c->store.mode_line : c->store.owner_line,
				   "%s: not for kind = block; use udev rules for its node",
				   c->store.mode_line ? "mode" : "owner");
	if (c->store.node_line && block != block_node)
		return config_fail(p, c->store.node_line,
				   "node = %s: the node of a store of kind = %s is %s",
				   c->store.node, kernel_kind(c->store.kind),
				   block ? "lsmemb0, lsmemb1 .." : "lsmem, lsmem1 ..");
	err = seen[SECTION_CLUSTER] ? check_cluster(p, c, seen[SECTION_CLUSTER]) : 0;
	if (!err && seen[SECTION_MOVE])
		err = check_move(p, c, seen[SECTION_MOVE], seen[SECTION_CLUSTER]);
	return err;
}
