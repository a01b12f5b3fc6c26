/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the parts of the parser:
 *
 *	config.c	lines, sections
 *	keys.c		the keys, and what each sets
 *	value.c		numbers, sizes, words, error messages
 *	check.c		checks that need more than one key
 */
#ifndef LSMEMD_CONFIG_PRIVATE_H
#define LSMEMD_CONFIG_PRIVATE_H

#include "config.h"

/**
 * struct config_parser - the state of the parser
 * @path: of the file, for messages
 * @line: line that is being parsed, from 1
 * @key: key that is being set
 * @to: the member at @key->value, in the structure of the section
 * @error: out: the message, of CONFIG_ERROR_BYTES
 */
struct config_parser {
	const char *path;
	unsigned int line;
	const struct config_key *key;
	void *to;
	char *error;
};

/**
 * struct config_key - a key of a section
 * @section: kind of the section, without a name
 * @key: as it is written
 * @set: sets the value; returns 0, or a negative errno with the message in @error of the parser
 * @line: offset of the member for its line: in struct config_backup for [backup], in struct
 *	config_export for [export], else in struct config
 * @value: offset of the member that a setter of several keys writes: in struct config_backup, in
 *	struct export_options, or in struct config
 * @min: for set_seconds()
 * @max: for set_seconds()
 */
struct config_key {
	const char *section, *key;
	int (*set)(struct config_parser *p, struct config *c, const char *value);
	size_t line, value;
	unsigned int min, max;
};

/* Sections that come at most once: those for the daemon of a store, then that for a server. */
enum config_section {
	SECTION_STORE,
	SECTION_METRICS,
	SECTION_CLUSTER,
	SECTION_MOVE,
	SECTION_SERVER,
	NR_SECTIONS
};

extern const char *const config_sections[NR_SECTIONS];

const struct config_key *config_key(const char *section, const char *key);
const char *config_key_names(const char *section, char *text, size_t room);
struct config_backup *config_last_backup(struct config *c);
int config_set_path(struct config_parser *p, struct config *c, const char *value);
int config_set_domain(struct config_parser *p, struct config *c, const char *value);
void config_default_name(struct config *c, const char *path);

int config_fail(struct config_parser *p, unsigned int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
char *config_strip(char *text);
bool config_word(const char *text, size_t room);
bool config_size(const char *text, uint64_t *value);
bool config_time(const char *text, uint32_t *seconds);
bool config_number(const char *text, uint32_t *number);

int config_check(struct config_parser *p, struct config *c,
		 const unsigned int seen[NR_SECTIONS]);
int config_check_backups(struct config_parser *p, struct config *c);
int config_check_replicas(struct config_parser *p, struct config *c);

#endif
