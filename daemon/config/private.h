/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the configuration's parser share:
 *
 *	config.c	lines, sections, whose key it is
 *	keys.c		the keys, and what each does
 *	value.c		numbers, sizes, words, addresses
 *	check.c		keys that belong together
 */
#ifndef LSMEMD_CONFIG_PRIVATE_H
#define LSMEMD_CONFIG_PRIVATE_H

#include "config.h"

/**
 * struct config_parser - a text that is parsed
 * @path: of the file, for messages
 * @line: that is being parsed, from 1 on
 * @error: out, of CONFIG_ERROR_BYTES
 */
struct config_parser {
	const char *path;
	unsigned int line;
	char *error;
};

/**
 * struct config_key - a key of a section
 * @section: without its name
 * @key: as it is written
 * @set: takes its value; 0, or a negative errno with the error told
 * @line: where its line is kept: in struct config, of a section with a name in its own structure
 */
struct config_key {
	const char *section, *key;
	int (*set)(struct config_parser *p, struct config *c, const char *value);
	size_t line;
};

/* Sections that come once: of a store's daemon, then a server's. */
enum config_section {
	SECTION_STORE,
	SECTION_METRICS,
	SECTION_CLUSTER,
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
bool config_number(const char *text, uint32_t *number);

int config_check(struct config_parser *p, struct config *c,
		 const unsigned int seen[NR_SECTIONS]);
int config_check_backups(struct config_parser *p, struct config *c);
int config_check_replicas(struct config_parser *p, struct config *c);

#endif
