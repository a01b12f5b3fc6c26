// SPDX-License-Identifier: GPL-2.0
/* The keys of lsmemd.conf(5), and what each sets. */
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/nvmf_address.h"
#include "format/format.h"
#include "private.h"

/* Could @name be a device node: lsmem, lsmem1 .., lsmemb0 .., lsmem-control? */
static bool is_node(const char *name)
{
	static const char digits[] = "0123456789";

	if (strncmp(name, "lsmem", 5))
		return false;
	name += 5;
	return !name[strspn(name, digits)] || !strcmp(name, "-control") ||
	       (name[0] == 'b' && name[1] && !name[1 + strspn(name + 1, digits)]);
}

/* The same rule as in the kernel: see lsmem_store_give(). */
static bool is_name(const char *name)
{
	return config_word(name, CONFIG_NAME_BYTES) && *name != '.' && *name != '-' && !is_node(name);
}

static int set_name(struct config_parser *p, struct config *c, const char *value)
{
	if (is_node(value))
		return config_fail(p, p->line,
				   "name = %s: is the name of a device node, which the kernel gives; \"node = %s\" is for a store that has this node",
				   value, value);
	if (!is_name(value))
		return config_fail(p, p->line,
				   "name = %s: allowed are 1 to %u letters, digits, dots, dashes and underscores, no dot or dash first",
				   value, CONFIG_NAME_BYTES - 1);
	strcpy(c->store.name, value);
	return 0;
}

/**
 * config_default_name - name the store after its file
 * @c: the configuration
 * @path: of the file: ".../data.conf" gives the name "data"; lsmemd.conf gives none
 */
void config_default_name(struct config *c, const char *path)
{
	const char *base = strrchr(path, '/'), *end;
	size_t length;

	base = base ? base + 1 : path;
	end = strrchr(base, '.');
	length = end ? (size_t)(end - base) : 0;
	if (!end || strcmp(end, ".conf") || length >= sizeof(c->store.name))
		return;
	memcpy(c->store.name, base, length);
	if (!is_name(c->store.name) || !strcmp(c->store.name, "lsmemd"))
		memset(c->store.name, 0, sizeof(c->store.name));
}

static int set_node(struct config_parser *p, struct config *c, const char *value)
{
	const char *s;

	for (s = value; *s; s++)
		if (!isalnum((unsigned char)*s))
			break;
	if (*s || strncmp(value, "lsmem", 5) || strlen(value) >= sizeof(c->store.node))
		return config_fail(p, p->line,
				   "node = %s: not the node of a store; allowed are lsmem, lsmem1 .. or lsmemb0, lsmemb1 ..",
				   value);
	strcpy(c->store.node, value);
	return 0;
}

static int set_kind(struct config_parser *p, struct config *c, const char *value)
{
	if (!strcmp(value, "object"))
		c->store.kind = LSMEM_KIND_OBJECT;
	else if (!strcmp(value, "block"))
		c->store.kind = LSMEM_KIND_BLOCK;
	else
		return config_fail(p, p->line, "kind = %s: allowed are object and block", value);
	return 0;
}

static int set_store_size(struct config_parser *p, struct config *c, const char *value)
{
	if (!config_size(value, &c->store.bytes) || c->store.bytes < CONFIG_STORE_BYTES_MIN ||
	    c->store.bytes > CONFIG_STORE_BYTES_MAX || c->store.bytes % LSMEM_SEGMENT_BYTES)
		return config_fail(p, p->line,
				   "size = %s: allowed is a multiple of 8M from 128M to 1T", value);
	return 0;
}

static int set_capacity(struct config_parser *p, struct config *c, const char *value)
{
	if (!config_size(value, &c->store.capacity) ||
	    c->store.capacity < CONFIG_STORE_BYTES_MIN ||
	    c->store.capacity > CONFIG_STORE_BYTES_MAX ||
	    c->store.capacity % LSMEM_SEGMENT_BYTES)
		return config_fail(p, p->line,
				   "capacity = %s: allowed is a multiple of 8M from 128M to 1T, at least size",
				   value);
	return 0;
}

static int set_handles(struct config_parser *p, struct config *c, const char *value)
{
	if (!config_size(value, &c->store.handles) || !c->store.handles ||
	    c->store.handles > INT32_MAX)
		return config_fail(p, p->line, "handles = %s: allowed is a number from 1 to %d",
				   value, INT32_MAX);
	return 0;
}

static int set_mode(struct config_parser *p, struct config *c, const char *value)
{
	unsigned long mode;
	char *end;

	mode = strtoul(value, &end, 8);
	if (*end || !isdigit((unsigned char)*value) || !mode || mode > 0777)
		return config_fail(p, p->line,
				   "mode = %s: allowed are octal permissions from 0001 to 0777", value);
	c->store.mode = (mode_t)mode;
	return 0;
}

static int set_owner(struct config_parser *p, struct config *c, const char *value)
{
	char user[256], *group;
	struct passwd *passwd;
	struct group *entry;
	uint32_t id;

	if (strlen(value) >= sizeof(user))
		return config_fail(p, p->line, "owner: longer than %zu characters", sizeof(user) - 1);
	strcpy(user, value);
	group = strchr(user, ':');
	if (group)
		*group++ = 0;
	passwd = getpwnam(user);
	if (passwd) {
		c->store.uid = passwd->pw_uid;
		c->store.gid = passwd->pw_gid;
	} else if (config_number(user, &id)) {
		c->store.uid = id;
		c->store.gid = 0;
	} else {
		return config_fail(p, p->line,
				   "owner = %s: no user \"%s\"; allowed is USER or USER:GROUP, names or numbers",
				   value, user);
	}
	if (!group)
		return 0;
	entry = getgrnam(group);
	if (entry)
		c->store.gid = entry->gr_gid;
	else if (config_number(group, &id))
		c->store.gid = id;
	else
		return config_fail(p, p->line,
				   "owner = %s: no group \"%s\"; allowed is USER or USER:GROUP, names or numbers",
				   value, group);
	return 0;
}

static int set_replicas(struct config_parser *p, struct config *c, const char *value)
{
	uint32_t n;

	(void)c;
	if (!config_number(value, &n) || !n || n > LSMEM_BACKUPS)
		return config_fail(p, p->line, "%s = %s: allowed is a number from 1 to %u",
				   p->key->key, value, LSMEM_BACKUPS);
	*(unsigned int *)p->to = n;
	return 0;
}

static int set_code(struct config_parser *p, struct config *c, const char *value)
{
	char k[4] = "", m[4] = "";
	int end = 0;

	if (sscanf(value, "%3[0-9]+%3[0-9]%n", k, m, &end) != 2 || value[end] || !config_number(k, &c->store.code.k) ||
	    !config_number(m, &c->store.code.m) || !format_code(c->store.code.k, c->store.code.m, LSMEM_BACKUPS))
		return config_fail(p, p->line,
				   "code = %s: allowed is K+M, as 3+2: data shards K, at least 2, and parity shards M, at least 1 and fewer than K, together at most %u",
				   value, LSMEM_BACKUPS);
	return 0;
}

static int set_min_parity(struct config_parser *p, struct config *c, const char *value)
{
	if (!config_number(value, &c->store.min_parity) || c->store.min_parity >= LSMEM_BACKUPS)
		return config_fail(p, p->line, "min_parity = %s: allowed is a number from 0 to the M of code = K+M",
				   value);
	return 0;
}

static int set_batch_us(struct config_parser *p, struct config *c, const char *value)
{
	if (!config_number(value, &c->store.batch_us) || c->store.batch_us > CONFIG_BATCH_US_MAX)
		return config_fail(p, p->line, "batch_us = %s: allowed are microseconds from 0 to %u", value,
				   CONFIG_BATCH_US_MAX);
	return 0;
}

static int set_rate(struct config_parser *p, struct config *c, const char *value)
{
	uint64_t rate;

	(void)c;
	if (!config_size(value, &rate) || rate < 1u << 20 || rate > CONFIG_STORE_BYTES_MAX)
		return config_fail(p, p->line, "%s = %s: allowed are bytes a second from 1M to 1T", p->key->key, value);
	*(uint64_t *)p->to = rate;
	return 0;
}

static int set_flag(struct config_parser *p, struct config *c, const char *value)
{
	bool *flag = p->to;

	(void)c;
	*flag = !strcmp(value, "yes");
	if (!*flag && strcmp(value, "no"))
		return config_fail(p, p->line, "%s = %s: allowed are yes and no", p->key->key, value);
	return 0;
}

static int set_restart(struct config_parser *p, struct config *c, const char *value)
{
	c->store.instant = !strcmp(value, "instant");
	if (!c->store.instant && strcmp(value, "load"))
		return config_fail(p, p->line, "restart = %s: allowed are load and instant", value);
	return 0;
}

static int set_warm(struct config_parser *p, struct config *c, const char *value)
{
	c->store.cold = !strcmp(value, "no");
	if (!c->store.cold && strcmp(value, "yes"))
		return config_fail(p, p->line, "warm = %s: allowed are yes and no", value);
	return 0;
}

static int set_verify(struct config_parser *p, struct config *c, const char *value)
{
	static const char *const names[] = {
		[CONFIG_VERIFY_BEHIND] = "yes",
		[CONFIG_VERIFY_FIRST] = "first",
		[CONFIG_VERIFY_NEVER] = "no",
	};
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]))
			continue;
		c->store.verify = i;
		return 0;
	}
	return config_fail(p, p->line, "verify = %s: allowed are yes, first and no", value);
}

static int set_seconds(struct config_parser *p, struct config *c, const char *value)
{
	const struct config_key *k = p->key;
	uint32_t n;

	(void)c;
	if (!config_number(value, &n) || n < k->min || n > k->max)
		return config_fail(p, p->line, "%s = %s: allowed are seconds from %u to %u", k->key,
				   value, k->min, k->max);
	*(unsigned int *)p->to = n;
	return 0;
}

static int set_scrub(struct config_parser *p, struct config *c, const char *value)
{
	uint32_t n = 0;

	if (strcmp(value, "no") &&
	    (!config_time(value, &n) || n < CONFIG_SCRUB_MIN || n > CONFIG_SCRUB_MAX))
		return config_fail(p, p->line,
				   "scrub = %s: allowed are times from 10s to 365d (s, m, h, d), and no",
				   value);
	c->store.scrub = n;
	return 0;
}

static int set_wait(struct config_parser *p, struct config *c, const char *value)
{
	uint32_t n = CONFIG_FOREVER;

	if (strcmp(value, "forever") && (!config_number(value, &n) || n > CONFIG_WAIT_MAX))
		return config_fail(p, p->line,
				   "wait = %s: allowed are seconds from 0 to %u, and forever", value,
				   CONFIG_WAIT_MAX);
	c->store.wait = n;
	return 0;
}

static int set_failover(struct config_parser *p, struct config *c, const char *value)
{
	uint32_t n = CONFIG_FOREVER;

	if (strcmp(value, "no") && (!config_number(value, &n) || n > CONFIG_FAILOVER_MAX))
		return config_fail(p, p->line, "failover = %s: allowed are seconds from 0 to %u, and no", value,
				   CONFIG_FAILOVER_MAX);
	c->move.failover = n;
	return 0;
}

/* Set the path of a file or a device. */
static int copy_path(struct config_parser *p, const char *key, const char *value, char path[PATH_MAX])
{
	if (*value != '/' || strlen(value) >= PATH_MAX)
		return config_fail(p, p->line, "%s = %s: allowed is the absolute path of a %sfile", key,
				   value, !strcmp(key, "path") ? "block device or a " : "");
	strcpy(path, value);
	return 0;
}

static int set_path(struct config_parser *p, struct config *c, const char *value)
{
	(void)c;
	return copy_path(p, p->key->key, value, p->to);
}

/**
 * config_last_backup - the backup whose section is being parsed
 * @c: the configuration, with at least one backup
 */
struct config_backup *config_last_backup(struct config *c)
{
	return &c->backups[c->nr_backups - 1];
}

/**
 * config_set_path - set the path of the last backup
 * @p: the parser
 * @c: the configuration
 * @value: a path, or the address of a backup on another host
 *
 * Return: 0, or -EINVAL with the message in @p->error.
 */
int config_set_path(struct config_parser *p, struct config *c, const char *value)
{
	struct config_backup *backup = config_last_backup(c);
	struct nvmf_address namespace;
	struct wire_address address;

	if (nvmf_scheme(value)) {
		if (strlen(value) >= sizeof(backup->path) || !nvmf_address(value, &namespace))
			return config_fail(p, p->line, "path = %s: allowed is %s, ADDRESS a number",
					   value, NVMF_FORM);
		strcpy(backup->path, value);
		return 0;
	}
	if (!wire_scheme(value))
		return copy_path(p, "path", value, backup->path);
	if (strlen(value) >= sizeof(backup->path) || !wire_address(value, &address) ||
	    !*address.name)
		return config_fail(p, p->line,
				   "path = %s: allowed is rdma://HOST[:PORT]/NAME, where NAME is an export of the server there",
				   value);
	strcpy(backup->path, value);
	return 0;
}

/**
 * config_set_domain - set the failure domain of the last backup
 * @p: the parser
 * @c: the configuration
 * @value: the name of the domain
 *
 * Return: 0, or -EINVAL with the message in @p->error.
 */
int config_set_domain(struct config_parser *p, struct config *c, const char *value)
{
	if (!config_word(value, sizeof(config_last_backup(c)->domain)))
		return config_fail(p, p->line,
				   "domain = %s: allowed are 1 to %zu letters, digits, dots, dashes and underscores",
				   value, sizeof(config_last_backup(c)->domain) - 1);
	strcpy(config_last_backup(c)->domain, value);
	return 0;
}

static int set_backup_size(struct config_parser *p, struct config *c, const char *value)
{
	uint64_t *size = p->to;

	(void)c;
	if (!config_size(value, size) || *size < 2 * CONFIG_STORE_BYTES_MIN ||
	    *size > CONFIG_STORE_BYTES_MAX * 16 || *size % LSMEM_BLOCK)
		return config_fail(p, p->line,
				   "size = %s: allowed is a multiple of 4K from 256M to 16T", value);
	return 0;
}

static int set_ack(struct config_parser *p, struct config *c, const char *value)
{
	config_last_backup(c)->ack_memory = !strcmp(value, "memory");
	if (!config_last_backup(c)->ack_memory && strcmp(value, "durable"))
		return config_fail(p, p->line, "ack = %s: allowed are durable and memory", value);
	return 0;
}

static int set_server_listen(struct config_parser *p, struct config *c, const char *value)
{
	if (!wire_address(value, &c->server.options.listen) || *c->server.options.listen.name)
		return config_fail(p, p->line, "listen = %s: allowed is rdma://ADDRESS[:PORT]", value);
	return 0;
}

/* Not a name: the daemon listens again while it serves the store, and must not wait for a resolver then. */
static int set_move_listen(struct config_parser *p, struct config *c, const char *value)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct wire_address *listen = &c->move.listen;
	struct addrinfo *info;

	if (!wire_address(value, listen) || *listen->name || getaddrinfo(listen->host, listen->port, &hints, &info))
		return config_fail(p, p->line,
				   "listen = %s: allowed is rdma://ADDRESS[:PORT], numbers only, as rdma://10.0.0.1 or rdma://[::]:7472",
				   value);
	freeaddrinfo(info);
	return 0;
}

static int set_move_from(struct config_parser *p, struct config *c, const char *value)
{
	if (!wire_address(value, &c->move.from))
		return config_fail(p, p->line, "from = %s: allowed is rdma://HOST[:PORT][/STORE]", value);
	return 0;
}

static int set_wire(struct config_parser *p, struct config *c, const char *value)
{
	uint32_t n;

	(void)c;
	if (!config_number(value, &n) || n < WIRE_VERSION_MIN || n > WIRE_VERSION_MAX)
		return config_fail(p, p->line, "%s = %s: allowed is a version of the protocol from %u to %u",
				   p->key->key, value, WIRE_VERSION_MIN, WIRE_VERSION_MAX);
	*(uint16_t *)p->to = (uint16_t)n;
	return 0;
}

static int set_listen(struct config_parser *p, struct config *c, const char *value)
{
	char url[sizeof("tcp://") + sizeof(c->metrics.listen)];
	struct address address;

	if (strlen(value) >= sizeof(c->metrics.listen) ||
	    snprintf(url, sizeof(url), "tcp://%s", value) < 0 || !address_parse(url, &address) ||
	    !address_number(&address, &c->metrics.address, &c->metrics.length) || *address.path)
		return config_fail(p, p->line,
				   "listen = %s: allowed is ADDRESS:PORT, numbers only, as 127.0.0.1:9469 or [::1]:9469",
				   value);
	strcpy(c->metrics.listen, value);
	return 0;
}

/* Is @text an endpoint, https?://ADDRESS:PORT? A name is none: the client must not resolve it. */
static bool parse_url(const char *text)
{
	struct sockaddr_storage number;
	struct address address;
	socklen_t length;

	return strlen(text) < ETCD_URL_BYTES && address_parse(text, &address) &&
	       (!strcmp(address.scheme, "http") || !strcmp(address.scheme, "https")) &&
	       address_number(&address, &number, &length) && !*address.path && !*address.query;
}

static int set_etcd(struct config_parser *p, struct config *c, const char *value)
{
	char copy[ETCD_URLS * (ETCD_URL_BYTES + 2)], *rest = copy, *url;

	if (strlen(value) >= sizeof(copy))
		return config_fail(p, p->line, "etcd: longer than %zu characters", sizeof(copy) - 1);
	strcpy(copy, value);
	while ((url = strsep(&rest, ","))) {
		url = config_strip(url);
		if (!parse_url(url) || c->cluster.options.etcd.nr_urls == ETCD_URLS)
			return config_fail(p, p->line,
					   "etcd = %s: allowed are 1 to %u endpoints, comma between them: http://ADDRESS:PORT or https://ADDRESS:PORT, numbers only",
					   value, ETCD_URLS);
		strcpy(c->cluster.options.etcd.urls[c->cluster.options.etcd.nr_urls++], url);
	}
	return 0;
}

static int set_host(struct config_parser *p, struct config *c, const char *value)
{
	if (!config_word(value, sizeof(c->cluster.options.host)))
		return config_fail(p, p->line,
				   "host = %s: allowed are 1 to %zu letters, digits, dots, dashes and underscores",
				   value, sizeof(c->cluster.options.host) - 1);
	strcpy(c->cluster.options.host, value);
	return 0;
}

static int set_uuid(struct config_parser *p, struct config *c, const char *value)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	size_t i;

	for (i = 0; value[i] && i < sizeof(form) - 1; i++)
		if (form[i] == '-' ? value[i] != '-' :
		    !isxdigit((unsigned char)value[i]) || isupper((unsigned char)value[i]))
			break;
	if (value[i] || form[i])
		return config_fail(p, p->line,
				   "store = %s: allowed is a uuid, as in /sys/class/lsmem/STORE/uuid",
				   value);
	strcpy(c->cluster.store, value);
	return 0;
}

#define KEY(section, key, set, ...)								\
	{ #section, #key, set, .line = offsetof(struct config, section.key##_line), __VA_ARGS__ }
#define TO(member)	.value = offsetof(struct config, member)
#define BACKUP(key, set, ...)									\
	{ "backup", #key, set, .line = offsetof(struct config_backup, key##_line), __VA_ARGS__ }
#define BACKUP_TO(member)	.value = offsetof(struct config_backup, member)
#define EXPORT(key, set)									\
	{ "export", #key, set, .line = offsetof(struct config_export, key##_line),		\
	  .value = offsetof(struct export_options, key) }

static const struct config_key config_keys[] = {
	KEY(store, name, set_name),
	KEY(store, node, set_node),
	KEY(store, kind, set_kind),
	KEY(store, size, set_store_size),
	KEY(store, capacity, set_capacity),
	KEY(store, handles, set_handles),
	KEY(store, mode, set_mode),
	KEY(store, owner, set_owner),
	KEY(store, charge, set_flag, TO(store.charge)),
	KEY(store, restart, set_restart),
	KEY(store, warm, set_warm),
	KEY(store, verify, set_verify),
	KEY(store, replicas, set_replicas, TO(store.replicas)),
	KEY(store, min_replicas, set_replicas, TO(store.min_replicas)),
	KEY(store, code, set_code),
	KEY(store, min_parity, set_min_parity),
	KEY(store, batch_us, set_batch_us),
	KEY(store, copy_rate, set_rate, TO(store.copy_rate)),
	KEY(store, convert_rate, set_rate, TO(store.convert_rate)),
	KEY(store, rejoin, set_seconds, TO(store.rejoin), .max = CONFIG_REJOIN_MAX),
	KEY(store, scrub, set_scrub),
	KEY(store, wait, set_wait),
	KEY(metrics, listen, set_listen),
	KEY(cluster, etcd, set_etcd),
	KEY(cluster, lease, set_seconds, TO(cluster.options.etcd.lease), .min = ETCD_LEASE_MIN,
	    .max = ETCD_LEASE_MAX),
	KEY(cluster, host, set_host),
	KEY(cluster, store, set_uuid),
	KEY(cluster, secret, set_path, TO(cluster.secret)),
	KEY(cluster, ca, set_path, TO(cluster.options.etcd.ca)),
	KEY(cluster, cert, set_path, TO(cluster.options.etcd.cert)),
	KEY(cluster, key, set_path, TO(cluster.options.etcd.key)),
	KEY(move, listen, set_move_listen),
	KEY(move, from, set_move_from),
	KEY(move, secret, set_path, TO(move.secret)),
	KEY(move, standby, set_flag, TO(move.standby)),
	KEY(move, failover, set_failover),
	KEY(move, bring_rate, set_rate, TO(move.bring_rate)),
	KEY(server, listen, set_server_listen),
	KEY(server, key, set_path, TO(server.options.key)),
	KEY(server, wire_min, set_wire, TO(server.options.wire_min)),
	KEY(server, wire_max, set_wire, TO(server.options.wire_max)),
	BACKUP(path, config_set_path),
	BACKUP(size, set_backup_size, BACKUP_TO(size)),
	BACKUP(lock_wait, set_seconds, BACKUP_TO(lock_wait), .max = 3600),
	BACKUP(key, set_path, BACKUP_TO(key)),
	BACKUP(timeout, set_seconds, BACKUP_TO(timeout), .min = 5, .max = 3600),
	BACKUP(domain, config_set_domain),
	BACKUP(ack, set_ack),
	EXPORT(path, set_path),
	EXPORT(size, set_backup_size),
	EXPORT(secret, set_path),
};

#define NR_KEYS (sizeof(config_keys) / sizeof(config_keys[0]))

/**
 * config_key - find a key
 * @section: kind of the section, without a name
 * @key: as it is written
 *
 * Return: the key, or NULL: the section has no such key.
 */
const struct config_key *config_key(const char *section, const char *key)
{
	size_t i;

	for (i = 0; i < NR_KEYS; i++)
		if (!strcmp(config_keys[i].section, section) && !strcmp(config_keys[i].key, key))
			return &config_keys[i];
	return NULL;
}

/**
 * config_key_names - list the keys of a section, for messages
 * @section: kind of the section, without a name
 * @text: out: "kind, size and owner"
 * @room: bytes at @text
 *
 * Return: @text.
 */
const char *config_key_names(const char *section, char *text, size_t room)
{
	size_t used = 0, i, left = 0;

	for (i = 0; i < NR_KEYS; i++)
		left += !strcmp(config_keys[i].section, section);
	text[0] = 0;
	for (i = 0; i < NR_KEYS; i++) {
		if (strcmp(config_keys[i].section, section))
			continue;
		left--;
		used += (size_t)snprintf(text + used, room - used, "%s%s", config_keys[i].key,
					 left > 1 ? ", " : left ? " and " : "");
	}
	return text;
}
