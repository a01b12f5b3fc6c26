// SPDX-License-Identifier: GPL-2.0
/*
 * The parser of lsmemd.conf(5): lines of [section], key = value, and comments that begin with # or
 * a semicolon. Every key is one row of config_keys. The parser refuses unknown keys, and keys that
 * come twice.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "private.h"

const char *const config_sections[NR_SECTIONS] = {
	[SECTION_STORE] = "store",
	[SECTION_METRICS] = "metrics",
	[SECTION_CLUSTER] = "cluster",
	[SECTION_MOVE] = "move",
	[SECTION_SERVER] = "server",
};

/* Begin a section [export NAME]. */
static int parse_export(struct config_parser *p, struct config *c, const char *name)
{
	struct server_options *server = &c->server.options;
	struct export_options *export = &server->exports[server->nr_exports];
	unsigned int i;

	if (server->nr_exports == SERVER_EXPORTS)
		return config_fail(p, p->line, "more than %u exports", SERVER_EXPORTS);
	memcpy(export->name, name, strnlen(name, sizeof(export->name)));
	if (wire_check_name(export->name))
		return config_fail(p, p->line,
				   "[export %s]: a name has 1 to %u characters, printable, no blanks",
				   name, WIRE_NAME - 1);
	for (i = 0; i < server->nr_exports; i++)
		if (!strcmp(server->exports[i].name, export->name))
			return config_fail(p, p->line, "[export %s] a second time, first on line %u",
					   name, c->exports[i].line);
	c->exports[server->nr_exports++].line = p->line;
	return 0;
}

/* Begin a section [backup], or [backup NAME] if there are several backups. */
static int parse_backup(struct config_parser *p, struct config *c, const char *name)
{
	struct config_backup *backup = &c->backups[c->nr_backups];
	unsigned int i;

	if (*name && !config_word(name, sizeof(backup->name)))
		return config_fail(p, p->line,
				   "[backup %s]: a name has 1 to %zu letters, digits, dots, dashes and underscores",
				   name, sizeof(backup->name) - 1);
	for (i = 0; i < c->nr_backups; i++)
		if (!strcmp(c->backups[i].name, name) || !*name || !*c->backups[i].name)
			return config_fail(p, p->line,
					   "[backup%s%s]: another one is on line %u: each of several backups has a name of its own, [backup NAME]; another store has another file and another daemon (lsmemd@NAME.service)",
					   *name ? " " : "", name, c->backups[i].line);
	if (c->nr_backups == LSMEM_BACKUPS)
		return config_fail(p, p->line, "more than %u backups", LSMEM_BACKUPS);
	strcpy(backup->name, name);
	backup->line = p->line;
	backup->lock_wait = CONFIG_LOCK_WAIT_DEFAULT;
	backup->timeout = CONFIG_TIMEOUT_DEFAULT;
	c->nr_backups++;
	return 0;
}

/* Return: the name in "@kind NAME", "" for "@kind"; NULL: another kind of section. */
static char *section_name(char *text, const char *kind)
{
	size_t n = strlen(kind);

	return !strncmp(text, kind, n) && (!text[n] || isspace((unsigned char)text[n])) ?
	       config_strip(text + n) : NULL;
}

static int parse_section(struct config_parser *p, struct config *c, char *text, const char **section,
			 unsigned int seen[NR_SECTIONS])
{
	size_t n = strlen(text), i;
	char *name;

	if (text[n - 1] != ']')
		return config_fail(p, p->line, "\"%s\": a section ends with ]", text);
	text[n - 1] = 0;
	text = config_strip(text + 1);
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
		return config_fail(p, p->line, "unknown section [%s], allowed are [store], [backup], [metrics], [cluster] and [move], or [server] and [export NAME]",
				   text);
	if (seen[i])
		return config_fail(p, p->line,
				   "[%s] a second time, first on line %u: a file describes one store; use one file and one daemon (lsmemd@NAME.service) for each",
				   text, seen[i]);
	seen[i] = p->line;
	*section = config_sections[i];
	return 0;
}

static int parse_key(struct config_parser *p, struct config *c, const char *section, char *text)
{
	char *key, *value, keys[256], *lines = (char *)c, *values = lines;
	unsigned int *line;

	value = strchr(text, '=');
	if (!value)
		return config_fail(p, p->line, "\"%s\": neither [section], key = value nor # comment",
				   text);
	*value++ = 0;
	key = config_strip(text);
	value = config_strip(value);
	if (!section)
		return config_fail(p, p->line, "%s: before any section, begin with [store] or [backup]",
				   key);
	p->key = config_key(section, key);
	if (!p->key)
		return config_fail(p, p->line, "unknown key \"%s\" in [%s], allowed are %s", key,
				   section, config_key_names(section, keys, sizeof(keys)));
	if (!strcmp(section, "backup")) {
		lines = values = (char *)config_last_backup(c);
	} else if (!strcmp(section, "export")) {
		lines = (char *)&c->exports[c->server.options.nr_exports - 1];
		values = (char *)&c->server.options.exports[c->server.options.nr_exports - 1];
	}
	line = (unsigned int *)(lines + p->key->line);
	p->to = values + p->key->value;
	if (*line)
		return config_fail(p, p->line, "%s a second time, first on line %u", key, *line);
	*line = p->line;
	if (!*value)
		return config_fail(p, p->line, "%s: no value", key);
	return p->key->set(p, c, value);
}

/**
 * config_read - read a configuration file
 * @path: the file
 * @config: out
 * @error: out: why it failed, as "file:line: what is wrong, what is allowed"
 *
 * Context: may sleep on the filesystem of the file; any thread.
 * Return: 0; -EINVAL: the file is not valid; or a negative errno of reading it.
 */
int config_read(const char *path, struct config *config, char error[CONFIG_ERROR_BYTES])
{
	struct config_parser p = { .path = path, .error = error };
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
	config->move.failover = CONFIG_FOREVER;
	config->store.scrub = CONFIG_SCRUB_DEFAULT;
	f = fopen(path, "re");
	if (!f) {
		err = -errno;
		config_fail(&p, 0, "cannot be opened: %s", strerror(-err));
		return err;
	}
	while (!err && (n = getline(&line, &room, f)) >= 0) {
		p.line++;
		if ((size_t)n != strlen(line)) {
			err = config_fail(&p, p.line, "a zero byte: not a text file");
			break;
		}
		text = config_strip(line);
		if (!*text || *text == '#' || *text == ';')
			continue;
		if (*text == '[')
			err = parse_section(&p, config, text, &section, seen);
		else
			err = parse_key(&p, config, section, text);
	}
	if (!err && ferror(f)) {
		err = -errno;
		config_fail(&p, 0, "cannot be read: %s", strerror(-err));
	}
	if (!err)
		err = config_check(&p, config, seen);
	if (!err && !config->store.name_line && !config->server.listen_line)
		config_default_name(config, path);
	free(line);
	fclose(f);
	return err;
}

/*
 * Add a backup from etcd. A backup that only another host can reach, "HOST:/PATH", is added as well:
 * it is a part of the store, and its opening will fail.
 */
static int take_member(struct config_parser *p, struct config *c, const struct member *m)
{
	struct config_backup *backup = &c->backups[c->nr_backups];
	int err = parse_backup(p, c, m->name);

	if (!err && (members_far(m->path) || *m->path == '/'))
		err = config_set_path(p, c, m->path);
	else if (!err)
		strcpy(backup->path, m->path);
	if (!err && *m->domain)
		err = config_set_domain(p, c, m->domain);
	if (err)
		return err;
	backup->path_line = p->line;
	backup->domain_line = *m->domain ? p->line : 0;
	backup->key_line = m->secret && c->cluster.secret_line ? p->line : 0;
	if (m->secret && !backup->key_line)
		return config_fail(p, p->line,
				   "path = %s: the host that keeps it asks for proof of a secret: \"secret = FILE\" is needed in [cluster]",
				   m->path);
	strcpy(backup->key, m->secret ? c->cluster.secret : "");
	return 0;
}

/**
 * config_take - add the backups that etcd has to the configuration
 * @config: read from @path; names no backups
 * @path: of the file, for messages
 * @source: the key in etcd, for messages; their line number is the place in @members
 * @members: the backups
 * @error: out: as of config_read()
 *
 * Return: 0 or -EINVAL.
 */
int config_take(struct config *config, const char *path, const char *source,
		const struct members *members, char error[CONFIG_ERROR_BYTES])
{
	struct config_parser p = { .path = source, .error = error };
	int err = 0;

	while (!err && p.line < members->nr) {
		p.line++;
		err = take_member(&p, config, &members->member[p.line - 1]);
	}
	if (!err)
		err = config_check_backups(&p, config);
	p.path = path;
	return err ? err : config_check_replicas(&p, config);
}
