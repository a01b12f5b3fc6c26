// SPDX-License-Identifier: GPL-2.0
/*
 * The parser of lsmemd.conf(5): lines of [section], key = value, comments
 * beginning with # or ;.  Every key is one row of config_keys; what is not
 * there is refused, as is what comes twice.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lsmem_format.h"

#include "config.h"
#include "backup/nvmf_address.h"

struct parser {
	const char *path;
	unsigned int line;
	char *error;
};

static int fail(struct parser *p, unsigned int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(struct parser *p, unsigned int line, const char *format, ...)
{
	va_list args;
	int n;

	if (line)
		n = snprintf(p->error, CONFIG_ERROR_BYTES, "%s:%u: ", p->path, line);
	else
		n = snprintf(p->error, CONFIG_ERROR_BYTES, "%s: ", p->path);
	if (n < 0 || n >= CONFIG_ERROR_BYTES)
		return -EINVAL;
	va_start(args, format);
	vsnprintf(p->error + n, CONFIG_ERROR_BYTES - (size_t)n, format, args);
	va_end(args);
	return -EINVAL;
}

static char *strip(char *text)
{
	char *end;

	while (isspace((unsigned char)*text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char)end[-1]))
		end--;
	*end = 0;
	return text;
}

/* A name that needs no quotes anywhere. */
static bool is_word(const char *text, size_t room)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n && n < room && !text[n];
}

/* A number with an optional suffix K, M, G or T: powers of 1024. */
static bool parse_size(const char *text, uint64_t *value)
{
	static const char suffixes[] = "KMGT";
	unsigned int shift = 0;
	const char *suffix;
	uint64_t n;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return false;
	if (*end) {
		suffix = strchr(suffixes, toupper((unsigned char)*end));
		if (!suffix || end[1])
			return false;
		shift = 10 * (unsigned int)(suffix - suffixes + 1);
	}
	if (n > UINT64_MAX >> shift)
		return false;
	*value = n << shift;
	return true;
}

/* Is it the name of a device node: lsmem, lsmem1 .., lsmemb0 .., lsmem-control? */
static bool is_node(const char *name)
{
	static const char digits[] = "0123456789";

	if (strncmp(name, "lsmem", 5))
		return false;
	name += 5;
	return !name[strspn(name, digits)] || !strcmp(name, "-control") ||
	       (name[0] == 'b' && name[1] && !name[1 + strspn(name + 1, digits)]);
}

/* As the kernel takes it: see lsmem_store_give(). */
static bool is_name(const char *name)
{
	return is_word(name, CONFIG_NAME_BYTES) && *name != '.' && *name != '-' && !is_node(name);
}

static int set_name(struct parser *p, struct config *c, const char *value)
{
	if (is_node(value))
		return fail(p, p->line,
			    "name = %s: is that of a device node, which the kernel gives; \"node = %s\" is for a store that is there under it",
			    value, value);
	if (!is_name(value))
		return fail(p, p->line,
			    "name = %s: allowed are 1 to %u letters, digits, dots, dashes and underscores, no dot or dash first",
			    value, CONFIG_NAME_BYTES - 1);
	strcpy(c->store.name, value);
	return 0;
}

/* That of the file, unless it is the one for all: ".../data.conf" is of the store data. */
static void default_name(struct config *c, const char *path)
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

static int set_node(struct parser *p, struct config *c, const char *value)
{
	const char *s;

	for (s = value; *s; s++)
		if (!isalnum((unsigned char)*s))
			break;
	if (*s || strncmp(value, "lsmem", 5) || strlen(value) >= sizeof(c->store.node))
		return fail(p, p->line,
			    "node = %s: not the node of a store; allowed are lsmem, lsmem1 .. or lsmemb0, lsmemb1 ..",
			    value);
	strcpy(c->store.node, value);
	return 0;
}

static int set_kind(struct parser *p, struct config *c, const char *value)
{
	if (!strcmp(value, "object"))
		c->store.kind = LSMEM_KIND_OBJECT;
	else if (!strcmp(value, "block"))
		c->store.kind = LSMEM_KIND_BLOCK;
	else
		return fail(p, p->line, "kind = %s: allowed are object and block", value);
	return 0;
}

static int set_store_size(struct parser *p, struct config *c, const char *value)
{
	if (!parse_size(value, &c->store.bytes) || c->store.bytes < CONFIG_STORE_BYTES_MIN ||
	    c->store.bytes > CONFIG_STORE_BYTES_MAX || c->store.bytes % LSMEM_SEGMENT_BYTES)
		return fail(p, p->line,
			    "size = %s: allowed is a multiple of 8M from 128M to 1T", value);
	return 0;
}

static int set_handles(struct parser *p, struct config *c, const char *value)
{
	if (!parse_size(value, &c->store.handles) || !c->store.handles ||
	    c->store.handles > INT32_MAX)
		return fail(p, p->line, "handles = %s: allowed is a number from 1 to %d",
			    value, INT32_MAX);
	return 0;
}

static int set_mode(struct parser *p, struct config *c, const char *value)
{
	unsigned long mode;
	char *end;

	mode = strtoul(value, &end, 8);
	if (*end || !isdigit((unsigned char)*value) || !mode || mode > 0777)
		return fail(p, p->line,
			    "mode = %s: allowed are octal permissions from 0001 to 0777", value);
	c->store.mode = (mode_t)mode;
	return 0;
}

static bool parse_id(const char *text, uint32_t *id)
{
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || *end || n >= UINT32_MAX)
		return false;
	*id = (uint32_t)n;
	return true;
}

static int set_owner(struct parser *p, struct config *c, const char *value)
{
	char user[256], *group;
	struct passwd *passwd;
	struct group *entry;
	uint32_t id;

	if (strlen(value) >= sizeof(user))
		return fail(p, p->line, "owner: longer than %zu characters", sizeof(user) - 1);
	strcpy(user, value);
	group = strchr(user, ':');
	if (group)
		*group++ = 0;
	passwd = getpwnam(user);
	if (passwd) {
		c->store.uid = passwd->pw_uid;
		c->store.gid = passwd->pw_gid;
	} else if (parse_id(user, &id)) {
		c->store.uid = id;
		c->store.gid = 0;
	} else {
		return fail(p, p->line,
			    "owner = %s: no user \"%s\"; allowed is USER or USER:GROUP, names or numbers",
			    value, user);
	}
	if (!group)
		return 0;
	entry = getgrnam(group);
	if (entry)
		c->store.gid = entry->gr_gid;
	else if (parse_id(group, &id))
		c->store.gid = id;
	else
		return fail(p, p->line,
			    "owner = %s: no group \"%s\"; allowed is USER or USER:GROUP, names or numbers",
			    value, group);
	return 0;
}

static int parse_replicas(struct parser *p, const char *key, const char *value,
			  unsigned int *replicas)
{
	uint32_t n;

	if (!parse_id(value, &n) || !n || n > LSMEM_BACKUPS)
		return fail(p, p->line, "%s = %s: allowed is a number from 1 to %u", key, value,
			    LSMEM_BACKUPS);
	*replicas = n;
	return 0;
}

static int set_replicas(struct parser *p, struct config *c, const char *value)
{
	return parse_replicas(p, "replicas", value, &c->store.replicas);
}

static int set_min_replicas(struct parser *p, struct config *c, const char *value)
{
	return parse_replicas(p, "min_replicas", value, &c->store.min_replicas);
}

static int set_copy_rate(struct parser *p, struct config *c, const char *value)
{
	if (!parse_size(value, &c->store.copy_rate) || c->store.copy_rate < 1u << 20 ||
	    c->store.copy_rate > CONFIG_STORE_BYTES_MAX)
		return fail(p, p->line,
			    "copy_rate = %s: allowed are bytes a second from 1M to 1T", value);
	return 0;
}

static int set_charge(struct parser *p, struct config *c, const char *value)
{
	c->store.charge = !strcmp(value, "yes");
	if (!c->store.charge && strcmp(value, "no"))
		return fail(p, p->line, "charge = %s: allowed are yes and no", value);
	return 0;
}

static int set_rejoin(struct parser *p, struct config *c, const char *value)
{
	unsigned int n;

	if (!parse_id(value, &n) || n > CONFIG_REJOIN_MAX)
		return fail(p, p->line, "rejoin = %s: allowed are seconds from 0 to %u", value,
			    CONFIG_REJOIN_MAX);
	c->store.rejoin = n;
	return 0;
}

static int set_wait(struct parser *p, struct config *c, const char *value)
{
	uint32_t n = CONFIG_FOREVER;

	if (strcmp(value, "forever") && (!parse_id(value, &n) || n > CONFIG_WAIT_MAX))
		return fail(p, p->line,
			    "wait = %s: allowed are seconds from 0 to %u, and forever", value,
			    CONFIG_WAIT_MAX);
	c->store.wait = n;
	return 0;
}

/* Of a file or a device, copied to @path. */
static int copy_path(struct parser *p, const char *key, const char *value, char path[PATH_MAX])
{
	if (*value != '/' || strlen(value) >= PATH_MAX)
		return fail(p, p->line, "%s = %s: allowed is the absolute path of a %sfile", key,
			    value, !strcmp(key, "path") ? "block device or a " : "");
	strcpy(path, value);
	return 0;
}

static struct config_backup *last_backup(struct config *c)
{
	return &c->backups[c->nr_backups - 1];
}

static int set_path(struct parser *p, struct config *c, const char *value)
{
	struct config_backup *backup = last_backup(c);
	struct nvmf_address namespace;
	struct wire_address address;

	if (nvmf_scheme(value)) {
		if (strlen(value) >= sizeof(backup->path) || !nvmf_address(value, &namespace))
			return fail(p, p->line, "path = %s: allowed is %s, ADDRESS a number",
				    value, NVMF_FORM);
		strcpy(backup->path, value);
		return 0;
	}
	if (!wire_scheme(value))
		return copy_path(p, "path", value, backup->path);
	if (strlen(value) >= sizeof(backup->path) || !wire_address(value, &address) ||
	    !*address.name)
		return fail(p, p->line,
			    "path = %s: allowed is rdma://HOST[:PORT]/NAME, where NAME is an export of the server there",
			    value);
	strcpy(backup->path, value);
	return 0;
}

static int set_domain(struct parser *p, struct config *c, const char *value)
{
	if (!is_word(value, sizeof(last_backup(c)->domain)))
		return fail(p, p->line,
			    "domain = %s: allowed are 1 to %zu letters, digits, dots, dashes and underscores",
			    value, sizeof(last_backup(c)->domain) - 1);
	strcpy(last_backup(c)->domain, value);
	return 0;
}

static bool parse_backup_size(const char *value, uint64_t *size)
{
	return parse_size(value, size) && *size >= 2 * CONFIG_STORE_BYTES_MIN &&
	       *size <= CONFIG_STORE_BYTES_MAX * 16 && *size % LSMEM_BLOCK == 0;
}

static int set_backup_size(struct parser *p, struct config *c, const char *value)
{
	if (!parse_backup_size(value, &last_backup(c)->size))
		return fail(p, p->line,
			    "size = %s: allowed is a multiple of 4K from 256M to 16T", value);
	return 0;
}

static int set_backup_key(struct parser *p, struct config *c, const char *value)
{
	return copy_path(p, "key", value, last_backup(c)->key);
}

static int set_timeout(struct parser *p, struct config *c, const char *value)
{
	uint32_t seconds;

	if (!parse_id(value, &seconds) || seconds < 5 || seconds > 3600)
		return fail(p, p->line, "timeout = %s: allowed are seconds from 5 to 3600", value);
	last_backup(c)->timeout = seconds;
	return 0;
}

static int set_ack(struct parser *p, struct config *c, const char *value)
{
	last_backup(c)->ack_memory = !strcmp(value, "memory");
	if (!last_backup(c)->ack_memory && strcmp(value, "durable"))
		return fail(p, p->line, "ack = %s: allowed are durable and memory", value);
	return 0;
}

static int set_server_listen(struct parser *p, struct config *c, const char *value)
{
	if (!wire_address(value, &c->server.options.listen) || *c->server.options.listen.name)
		return fail(p, p->line, "listen = %s: allowed is rdma://ADDRESS[:PORT]", value);
	return 0;
}

static int set_server_key(struct parser *p, struct config *c, const char *value)
{
	return copy_path(p, "key", value, c->server.options.key);
}

static int parse_wire(struct parser *p, const char *key, const char *value, uint16_t *version)
{
	uint32_t n;

	if (!parse_id(value, &n) || n < WIRE_VERSION_MIN || n > WIRE_VERSION_MAX)
		return fail(p, p->line, "%s = %s: allowed is a version of the protocol from %u to %u",
			    key, value, WIRE_VERSION_MIN, WIRE_VERSION_MAX);
	*version = (uint16_t)n;
	return 0;
}

static int set_wire_min(struct parser *p, struct config *c, const char *value)
{
	return parse_wire(p, "wire_min", value, &c->server.options.wire_min);
}

static int set_wire_max(struct parser *p, struct config *c, const char *value)
{
	return parse_wire(p, "wire_max", value, &c->server.options.wire_max);
}

static struct export_options *last_export(struct config *c)
{
	return &c->server.options.exports[c->server.options.nr_exports - 1];
}

static int set_export_secret(struct parser *p, struct config *c, const char *value)
{
	return copy_path(p, "secret", value, last_export(c)->secret);
}

static int set_export_path(struct parser *p, struct config *c, const char *value)
{
	return copy_path(p, "path", value, last_export(c)->path);
}

static int set_export_size(struct parser *p, struct config *c, const char *value)
{
	if (!parse_backup_size(value, &last_export(c)->size))
		return fail(p, p->line,
			    "size = %s: allowed is a multiple of 4K from 256M to 16T", value);
	return 0;
}

static int set_lock_wait(struct parser *p, struct config *c, const char *value)
{
	uint32_t seconds;

	if (!parse_id(value, &seconds) || seconds > 3600)
		return fail(p, p->line, "lock_wait = %s: allowed are seconds from 0 to 3600",
			    value);
	last_backup(c)->lock_wait = seconds;
	return 0;
}

/* Numbers only: a name would have to be looked up, on a network that may lie on the store. */
static bool parse_address(const char *text, struct sockaddr_storage *address, socklen_t *length)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)address;
	struct sockaddr_in *in = (struct sockaddr_in *)address;
	bool brackets = *text == '[';
	char host[INET6_ADDRSTRLEN];
	const char *end;
	uint32_t port;

	text += brackets;
	end = strchr(text, brackets ? ']' : ':');
	if (!end || end - text >= (ptrdiff_t)sizeof(host))
		return false;
	memcpy(host, text, (size_t)(end - text));
	host[end - text] = 0;
	end += brackets;
	if (*end != ':' || !parse_id(end + 1, &port) || !port || port > UINT16_MAX)
		return false;
	if (brackets) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
		*length = sizeof(*in6);
		return inet_pton(AF_INET6, host, &in6->sin6_addr) == 1;
	}
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	*length = sizeof(*in);
	return inet_pton(AF_INET, host, &in->sin_addr) == 1;
}

static int set_listen(struct parser *p, struct config *c, const char *value)
{
	if (strlen(value) >= sizeof(c->metrics.listen) ||
	    !parse_address(value, &c->metrics.address, &c->metrics.length))
		return fail(p, p->line,
			    "listen = %s: allowed is ADDRESS:PORT, numbers only, as 127.0.0.1:9469 or [::1]:9469",
			    value);
	strcpy(c->metrics.listen, value);
	return 0;
}

/* Of one endpoint: https?://ADDRESS:PORT. */
static bool parse_url(const char *text)
{
	struct sockaddr_storage address;
	const char *rest = strstr(text, "://");
	socklen_t length;

	return rest && strlen(text) < ETCD_URL_BYTES &&
	       (!strncmp(text, "http://", 7) || !strncmp(text, "https://", 8)) &&
	       parse_address(rest + 3, &address, &length);
}

static int set_etcd(struct parser *p, struct config *c, const char *value)
{
	char copy[ETCD_URLS * (ETCD_URL_BYTES + 2)], *rest = copy, *url;

	if (strlen(value) >= sizeof(copy))
		return fail(p, p->line, "etcd: longer than %zu characters", sizeof(copy) - 1);
	strcpy(copy, value);
	while ((url = strsep(&rest, ","))) {
		url = strip(url);
		if (!parse_url(url) || c->cluster.options.etcd.nr_urls == ETCD_URLS)
			return fail(p, p->line,
				    "etcd = %s: allowed are 1 to %u endpoints, comma between them: http://ADDRESS:PORT or https://ADDRESS:PORT, numbers only",
				    value, ETCD_URLS);
		strcpy(c->cluster.options.etcd.urls[c->cluster.options.etcd.nr_urls++], url);
	}
	return 0;
}

static int set_lease(struct parser *p, struct config *c, const char *value)
{
	uint32_t seconds;

	if (!parse_id(value, &seconds) || seconds < ETCD_LEASE_MIN || seconds > ETCD_LEASE_MAX)
		return fail(p, p->line, "lease = %s: allowed are seconds from %u to %u", value,
			    ETCD_LEASE_MIN, ETCD_LEASE_MAX);
	c->cluster.options.etcd.lease = seconds;
	return 0;
}

static int set_host(struct parser *p, struct config *c, const char *value)
{
	if (!is_word(value, sizeof(c->cluster.options.host)))
		return fail(p, p->line,
			    "host = %s: allowed are 1 to %zu letters, digits, dots, dashes and underscores",
			    value, sizeof(c->cluster.options.host) - 1);
	strcpy(c->cluster.options.host, value);
	return 0;
}

static int set_uuid(struct parser *p, struct config *c, const char *value)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	size_t i;

	for (i = 0; value[i] && i < sizeof(form) - 1; i++)
		if (form[i] == '-' ? value[i] != '-' :
		    !isxdigit((unsigned char)value[i]) || isupper((unsigned char)value[i]))
			break;
	if (value[i] || form[i])
		return fail(p, p->line,
			    "store = %s: allowed is a uuid, as in /sys/class/lsmem/STORE/uuid",
			    value);
	strcpy(c->cluster.store, value);
	return 0;
}

static int set_secret(struct parser *p, struct config *c, const char *value)
{
	return copy_path(p, "secret", value, c->cluster.secret);
}

static int set_ca(struct parser *p, struct config *c, const char *value)
{
	return copy_path(p, "ca", value, c->cluster.options.etcd.ca);
}

static int set_cert(struct parser *p, struct config *c, const char *value)
{
	return copy_path(p, "cert", value, c->cluster.options.etcd.cert);
}

static int set_cluster_key(struct parser *p, struct config *c, const char *value)
{
	return copy_path(p, "key", value, c->cluster.options.etcd.key);
}

/* @line: where the line is kept: in struct config, of a section with a name in its own structure. */
static const struct config_key {
	const char *section, *key;
	int (*set)(struct parser *p, struct config *c, const char *value);
	size_t line;
} config_keys[] = {
	{ "store", "name", set_name, offsetof(struct config, store.name_line) },
	{ "store", "node", set_node, offsetof(struct config, store.node_line) },
	{ "store", "kind", set_kind, offsetof(struct config, store.kind_line) },
	{ "store", "size", set_store_size, offsetof(struct config, store.size_line) },
	{ "store", "handles", set_handles, offsetof(struct config, store.handles_line) },
	{ "store", "mode", set_mode, offsetof(struct config, store.mode_line) },
	{ "store", "owner", set_owner, offsetof(struct config, store.owner_line) },
	{ "store", "charge", set_charge, offsetof(struct config, store.charge_line) },
	{ "store", "replicas", set_replicas, offsetof(struct config, store.replicas_line) },
	{ "store", "min_replicas", set_min_replicas,
	  offsetof(struct config, store.min_replicas_line) },
	{ "store", "copy_rate", set_copy_rate, offsetof(struct config, store.copy_rate_line) },
	{ "store", "rejoin", set_rejoin, offsetof(struct config, store.rejoin_line) },
	{ "store", "wait", set_wait, offsetof(struct config, store.wait_line) },
	{ "metrics", "listen", set_listen, offsetof(struct config, metrics.listen_line) },
	{ "cluster", "etcd", set_etcd, offsetof(struct config, cluster.etcd_line) },
	{ "cluster", "lease", set_lease, offsetof(struct config, cluster.lease_line) },
	{ "cluster", "host", set_host, offsetof(struct config, cluster.host_line) },
	{ "cluster", "store", set_uuid, offsetof(struct config, cluster.store_line) },
	{ "cluster", "secret", set_secret, offsetof(struct config, cluster.secret_line) },
	{ "cluster", "ca", set_ca, offsetof(struct config, cluster.ca_line) },
	{ "cluster", "cert", set_cert, offsetof(struct config, cluster.cert_line) },
	{ "cluster", "key", set_cluster_key, offsetof(struct config, cluster.key_line) },
	{ "server", "listen", set_server_listen, offsetof(struct config, server.listen_line) },
	{ "server", "key", set_server_key, offsetof(struct config, server.key_line) },
	{ "server", "wire_min", set_wire_min, offsetof(struct config, server.wire_min_line) },
	{ "server", "wire_max", set_wire_max, offsetof(struct config, server.wire_max_line) },
	{ "backup", "path", set_path, offsetof(struct config_backup, path_line) },
	{ "backup", "size", set_backup_size, offsetof(struct config_backup, size_line) },
	{ "backup", "lock_wait", set_lock_wait, offsetof(struct config_backup, lock_wait_line) },
	{ "backup", "key", set_backup_key, offsetof(struct config_backup, key_line) },
	{ "backup", "timeout", set_timeout, offsetof(struct config_backup, timeout_line) },
	{ "backup", "domain", set_domain, offsetof(struct config_backup, domain_line) },
	{ "backup", "ack", set_ack, offsetof(struct config_backup, ack_line) },
	{ "export", "path", set_export_path, offsetof(struct config_export, path_line) },
	{ "export", "size", set_export_size, offsetof(struct config_export, size_line) },
	{ "export", "secret", set_export_secret, offsetof(struct config_export, secret_line) },
};

#define NR_KEYS (sizeof(config_keys) / sizeof(config_keys[0]))

/* Those that come once: of a store's daemon, then a server's. */
static const char *const config_sections[] = { "store", "metrics", "cluster", "server" };

#define SECTION_CLUSTER	2
#define SECTION_SERVER	3

#define NR_SECTIONS (sizeof(config_sections) / sizeof(config_sections[0]))

/* "kind, size and owner": the keys of a section, for messages. */
static const char *allowed_keys(const char *section, char *text, size_t room)
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

/* [export NAME]: as many as there are. */
static int parse_export(struct parser *p, struct config *c, const char *name)
{
	struct server_options *server = &c->server.options;
	struct export_options *export = &server->exports[server->nr_exports];
	unsigned int i;

	if (server->nr_exports == SERVER_EXPORTS)
		return fail(p, p->line, "more than %u exports", SERVER_EXPORTS);
	memcpy(export->name, name, strnlen(name, sizeof(export->name)));
	if (wire_check_name(export->name))
		return fail(p, p->line,
			    "[export %s]: a name has 1 to %u characters, printable, no blanks",
			    name, WIRE_NAME - 1);
	for (i = 0; i < server->nr_exports; i++)
		if (!strcmp(server->exports[i].name, export->name))
			return fail(p, p->line, "[export %s] a second time, first on line %u",
				    name, c->exports[i].line);
	c->exports[server->nr_exports++].line = p->line;
	return 0;
}

/* [backup], or [backup NAME]: several. */
static int parse_backup(struct parser *p, struct config *c, const char *name)
{
	struct config_backup *backup = &c->backups[c->nr_backups];
	unsigned int i;

	if (*name && !is_word(name, sizeof(backup->name)))
		return fail(p, p->line,
			    "[backup %s]: a name has 1 to %zu letters, digits, dots, dashes and underscores",
			    name, sizeof(backup->name) - 1);
	for (i = 0; i < c->nr_backups; i++)
		if (!strcmp(c->backups[i].name, name) || !*name || !*c->backups[i].name)
			return fail(p, p->line,
				    "[backup%s%s] beside that on line %u: each of several backups has a name of its own, [backup NAME]; another store has another file and another daemon (lsmemd@NAME.service)",
				    *name ? " " : "", name, c->backups[i].line);
	if (c->nr_backups == LSMEM_BACKUPS)
		return fail(p, p->line, "more than %u backups", LSMEM_BACKUPS);
	strcpy(backup->name, name);
	backup->line = p->line;
	backup->lock_wait = CONFIG_LOCK_WAIT_DEFAULT;
	backup->timeout = CONFIG_TIMEOUT_DEFAULT;
	c->nr_backups++;
	return 0;
}

/* Is @text a section "@kind", or "@kind NAME"? */
static char *section_name(char *text, const char *kind)
{
	size_t n = strlen(kind);

	return !strncmp(text, kind, n) && (!text[n] || isspace((unsigned char)text[n])) ?
	       strip(text + n) : NULL;
}

static int parse_section(struct parser *p, struct config *c, char *text, const char **section,
			 unsigned int seen[NR_SECTIONS])
{
	size_t n = strlen(text), i;
	char *name;

	if (text[n - 1] != ']')
		return fail(p, p->line, "\"%s\": a section ends with ]", text);
	text[n - 1] = 0;
	text = strip(text + 1);
	name = section_name(text, "export");
	if (name) {
		*section = "export";
		return parse_export(p, c, name);
	}
	name = section_name(text, "backup");
	if (name) {
		*section = "backup";
		return parse_backup(p, c, name);
	}
	for (i = 0; i < NR_SECTIONS; i++)
		if (!strcmp(text, config_sections[i]))
			break;
	if (i == NR_SECTIONS)
		return fail(p, p->line, "unknown section [%s], allowed are [store], [backup], [metrics] and [cluster], or [server] and [export NAME]",
			    text);
	if (seen[i])
		return fail(p, p->line,
			    "[%s] a second time, first on line %u: a file describes one store; use one file and one daemon (lsmemd@NAME.service) for each",
			    text, seen[i]);
	seen[i] = p->line;
	*section = config_sections[i];
	return 0;
}

static int parse_key(struct parser *p, struct config *c, const char *section, char *text)
{
	const struct config_key *k = NULL;
	char *key, *value, keys[256];
	unsigned int *line;
	size_t i;

	value = strchr(text, '=');
	if (!value)
		return fail(p, p->line, "\"%s\": neither [section], key = value nor # comment",
			    text);
	*value++ = 0;
	key = strip(text);
	value = strip(value);
	if (!section)
		return fail(p, p->line, "%s: before any section, begin with [store] or [backup]",
			    key);
	for (i = 0; i < NR_KEYS; i++) {
		k = &config_keys[i];
		if (!strcmp(k->section, section) && !strcmp(k->key, key))
			break;
	}
	if (i == NR_KEYS)
		return fail(p, p->line, "unknown key \"%s\" in [%s], allowed are %s", key, section,
			    allowed_keys(section, keys, sizeof(keys)));
	line = (unsigned int *)((char *)(
		!strcmp(section, "backup") ? (void *)last_backup(c) :
		!strcmp(section, "export") ? (void *)&c->exports[c->server.options.nr_exports - 1] : c) + k->line);
	if (*line)
		return fail(p, p->line, "%s a second time, first on line %u", key, *line);
	*line = p->line;
	if (!*value)
		return fail(p, p->line, "%s: no value", key);
	return k->set(p, c, value);
}

static int check_server(struct parser *p, struct config *c, const unsigned int seen[NR_SECTIONS])
{
	unsigned int i;

	for (i = 0; i < SECTION_SERVER; i++)
		if (seen[i])
			return fail(p, seen[i],
				    "a server of backups ([server], [export]) has no [%s]; use another file and another daemon",
				    config_sections[i]);
	if (c->nr_backups)
		return fail(p, c->backups[0].line,
			    "a server of backups ([server], [export]) has no [backup]; use another file and another daemon");
	if (!c->server.listen_line)
		return fail(p, 0, "no listen in [server]: \"listen = rdma://ADDRESS[:PORT]\" is needed");
	if (c->server.options.wire_min > c->server.options.wire_max)
		return fail(p, c->server.wire_min_line ? c->server.wire_min_line :
			    c->server.wire_max_line, "wire_min = %u is above wire_max = %u",
			    c->server.options.wire_min, c->server.options.wire_max);
	if (!c->server.options.nr_exports)
		return fail(p, 0, "no [export NAME]: a server keeps what it is told of");
	for (i = 0; i < c->server.options.nr_exports; i++)
		if (!c->exports[i].path_line)
			return fail(p, c->exports[i].line, "no path in [export %s]",
				    c->server.options.exports[i].name);
	for (i = 0; i < c->server.options.nr_exports; i++)
		if (!c->exports[i].secret_line && !c->server.key_line)
			return fail(p, c->exports[i].line,
				    "no secret in [export %s], and no key in [server] for those without one: \"secret = FILE\" or \"key = FILE\" is needed",
				    c->server.options.exports[i].name);
	return 0;
}

/**
 * config_domain - which backups may fail together with one?
 * @config: the configuration
 * @backup: place of the one
 *
 * Returns the first place of such a one: a number of the domain.
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

/**
 * config_domains - are the backups in several failure domains?
 * @config: the configuration
 */
bool config_domains(const struct config *config)
{
	unsigned int i;

	for (i = 0; i < config->nr_backups; i++)
		if (config_domain(config, i))
			return true;
	return false;
}

/**
 * config_any_remote - is one of the backups on another host?
 * @config: the configuration
 */
bool config_any_remote(const struct config *config)
{
	unsigned int i;

	for (i = 0; i < config->nr_backups; i++)
		if (wire_scheme(config->backups[i].path))
			return true;
	return false;
}

static int check_backup(struct parser *p, const struct config *c,
			const struct config_backup *backup)
{
	bool server = wire_scheme(backup->path), remote = server || nvmf_scheme(backup->path);
	const struct config_backup *other;

	if (!backup->path_line)
		return fail(p, *backup->name ? backup->line : 0,
			    "no path in [backup%s%s]: a block device or a file is needed",
			    *backup->name ? " " : "", backup->name);
	if (server && !backup->key_line)
		return fail(p, backup->path_line,
			    "path = %s: a backup on another host needs \"key =\", the file of the secret shared with it",
			    backup->path);
	if (remote && backup->size_line)
		return fail(p, backup->size_line,
			    "size: not for a backup on another host, whose server makes it");
	if (!remote && backup->key_line)
		return fail(p, backup->key_line,
			    "key: only for a backup on another host (path = rdma://.. or nvmf+..)");
	if (!remote && backup->timeout_line && c->nr_backups == 1)
		return fail(p, backup->timeout_line,
			    "timeout: only for a backup on another host (path = rdma://.. or nvmf+..), or one of several");
	if (!server && backup->ack_memory)
		return fail(p, backup->ack_line,
			    "ack = memory: only for a backup that the lsmemd of another host keeps (path = rdma://..); use ack = durable, or leave it out");
	if (backup->ack_memory && c->store.kind == LSMEM_KIND_BLOCK)
		return fail(p, backup->ack_line,
			    "ack = memory: not for kind = block, which waits for nothing but FLUSH and FUA, and these promise a drive; use ack = durable, or leave it out");
	if (backup->domain_line && c->nr_backups == 1)
		return fail(p, backup->domain_line, "domain: only for one of several backups");
	for (other = c->backups; other < backup; other++)
		if (!strcmp(other->path, backup->path))
			return fail(p, backup->path_line, "path = %s: is that of [backup %s] too",
				    backup->path, other->name);
	return 0;
}

/* Those that can fail apart from each other. */
static unsigned int count_domains(const struct config *c)
{
	unsigned int count = 0, i;

	for (i = 0; i < c->nr_backups; i++)
		count += config_domain(c, i) == i;
	return count;
}

static int check_replicas(struct parser *p, struct config *c)
{
	unsigned int domains = count_domains(c);

	if (!c->store.replicas_line)
		c->store.replicas = domains < CONFIG_REPLICAS_DEFAULT ? domains :
				    CONFIG_REPLICAS_DEFAULT;
	if (c->store.replicas > domains)
		return fail(p, c->store.replicas_line,
			    "replicas = %u: each is in a domain of its own, and the backups are in %u",
			    c->store.replicas, domains);
	if (!c->store.min_replicas_line)
		c->store.min_replicas = c->store.replicas > 1 ? c->store.replicas - 1 : 1;
	if (c->store.min_replicas > c->store.replicas)
		return fail(p, c->store.min_replicas_line,
			    "min_replicas = %u: allowed is at most replicas, %u",
			    c->store.min_replicas, c->store.replicas);
	return 0;
}

/* Those that are known: from the file, or from etcd. */
static int check_backups(struct parser *p, struct config *c)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < c->nr_backups && !err; i++)
		err = check_backup(p, c, &c->backups[i]);
	return err;
}

static int check_cluster(struct parser *p, const struct config *config, unsigned int line)
{
	const struct config_cluster *c = &config->cluster;
	unsigned int i, secure = 0, files = c->ca_line + c->cert_line + c->key_line;

	if (!c->options.etcd.nr_urls)
		return fail(p, line, "no etcd in [cluster]: \"etcd = http://ADDRESS:PORT\" is needed");
	for (i = 0; i < c->options.etcd.nr_urls; i++)
		secure += !strncmp(c->options.etcd.urls[i], "https:", 6);
	if (secure && secure != c->options.etcd.nr_urls)
		return fail(p, c->etcd_line, "etcd: http:// and https:// together");
	if (secure && !c->ca_line)
		return fail(p, c->etcd_line,
			    "etcd: https:// needs \"ca =\", the file of the certificate that etcd's is signed with");
	if (!secure && files)
		return fail(p, c->etcd_line, "etcd: ca, cert and key are for https://");
	if (!c->cert_line != !c->key_line)
		return fail(p, c->cert_line + c->key_line, "cert and key: one without the other");
	if (c->store_line && config->nr_backups)
		return fail(p, c->store_line,
			    "store: the backups are those that etcd has of it, or those of [backup]; leave one of them out");
	if (c->secret_line && !c->store_line)
		return fail(p, c->secret_line,
			    "secret: of the backups that etcd has of \"store =\"; others have \"key =\" in [backup]");
	return 0;
}

/* What no single line can tell. */
static int check_whole(struct parser *p, struct config *c, const unsigned int seen[NR_SECTIONS])
{
	bool block = c->store.kind == LSMEM_KIND_BLOCK;
	bool block_node = !strncmp(c->store.node, "lsmemb", 6);
	int err;

	if (seen[SECTION_SERVER] || c->server.options.nr_exports)
		return check_server(p, c, seen);
	if (!c->nr_backups && !c->cluster.store_line)
		return fail(p, 0, "no path in [backup]: a block device or a file is needed");
	err = check_backups(p, c);
	if (!err && c->nr_backups)
		err = check_replicas(p, c);
	if (err)
		return err;
	if (block && c->store.handles_line)
		return fail(p, c->store.handles_line,
			    "handles: not for kind = block, whose size tells");
	if (block && (c->store.mode_line || c->store.owner_line))
		return fail(p, c->store.mode_line ? c->store.mode_line : c->store.owner_line,
			    "%s: not for kind = block, whose node udev rules give away",
			    c->store.mode_line ? "mode" : "owner");
	if (c->store.node_line && block != block_node)
		return fail(p, c->store.node_line,
			    "node = %s: the node of a store of kind = %s is %s",
			    c->store.node, block ? "block" : "object",
			    block ? "lsmemb0, lsmemb1 .." : "lsmem, lsmem1 ..");
	return seen[SECTION_CLUSTER] ? check_cluster(p, c, seen[SECTION_CLUSTER]) : 0;
}

/**
 * config_read - read a configuration file
 * @path: the file
 * @config: out
 * @error: out, why it failed: "file:line: what, what is allowed"
 *
 * Returns 0 or a negative errno.
 */
int config_read(const char *path, struct config *config, char error[CONFIG_ERROR_BYTES])
{
	struct parser p = { .path = path, .error = error };
	unsigned int seen[NR_SECTIONS] = { 0 };
	const char *section = NULL;
	char *line = NULL, *text;
	size_t room = 0;
	ssize_t n;
	FILE *f;
	int err = 0;

	memset(config, 0, sizeof(*config));
	config->store.kind = LSMEM_KIND_OBJECT;
	config->store.mode = 0600;
	config->cluster.options.etcd.lease = ETCD_LEASE_DEFAULT;
	config->server.options.wire_min = WIRE_VERSION_MIN;
	config->server.options.wire_max = WIRE_VERSION_MAX;
	config->store.copy_rate = CONFIG_COPY_RATE_DEFAULT;
	config->store.rejoin = CONFIG_REJOIN_DEFAULT;
	f = fopen(path, "re");
	if (!f) {
		err = -errno;
		fail(&p, 0, "cannot be opened: %s", strerror(-err));
		return err;
	}
	while (!err && (n = getline(&line, &room, f)) >= 0) {
		p.line++;
		if ((size_t)n != strlen(line)) {
			err = fail(&p, p.line, "a zero byte: not a text file");
			break;
		}
		text = strip(line);
		if (!*text || *text == '#' || *text == ';')
			continue;
		if (*text == '[')
			err = parse_section(&p, config, text, &section, seen);
		else
			err = parse_key(&p, config, section, text);
	}
	if (!err && ferror(f)) {
		err = -errno;
		fail(&p, 0, "cannot be read: %s", strerror(-err));
	}
	if (!err)
		err = check_whole(&p, config, seen);
	if (!err && !config->store.name_line && !config->server.listen_line)
		default_name(config, path);
	free(line);
	fclose(f);
	return err;
}

/* One that only another host can reach is named all the same: it is a part of the store. */
static int take_member(struct parser *p, struct config *c, const struct member *m)
{
	struct config_backup *backup = &c->backups[c->nr_backups];
	int err = parse_backup(p, c, m->name);

	if (!err && (members_far(m->path) || *m->path == '/'))
		err = set_path(p, c, m->path);
	else if (!err)
		strcpy(backup->path, m->path);
	if (!err && *m->domain)
		err = set_domain(p, c, m->domain);
	if (err)
		return err;
	backup->path_line = p->line;
	backup->domain_line = *m->domain ? p->line : 0;
	backup->key_line = m->secret && c->cluster.secret_line ? p->line : 0;
	if (m->secret && !backup->key_line)
		return fail(p, p->line,
			    "path = %s: who keeps it wants proof of a secret: \"secret = FILE\" is needed in [cluster]",
			    m->path);
	strcpy(backup->key, m->secret ? c->cluster.secret : "");
	return 0;
}

/**
 * config_take - have backups that the file does not name
 * @config: read from @path
 * @source: where they are named; the line in messages is the place there
 * @members: they
 * @error: out, as of config_read()
 *
 * Returns 0 or a negative errno.
 */
int config_take(struct config *config, const char *path, const char *source,
		const struct members *members, char error[CONFIG_ERROR_BYTES])
{
	struct parser p = { .path = source, .error = error };
	int err = 0;

	while (!err && p.line < members->nr) {
		p.line++;
		err = take_member(&p, config, &members->member[p.line - 1]);
	}
	if (!err)
		err = check_backups(&p, config);
	p.path = path;
	return err ? err : check_replicas(&p, config);
}
