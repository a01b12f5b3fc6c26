// SPDX-License-Identifier: GPL-2.0
/* lsmemctl: parsing of command lines. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

#define OPTIONS_MAX	16
#define OPTION_JSON	1000
#define OPTION_FIRST	1001

/**
 * ctl_next_option() - get the next option of a command
 * @argc: of the command
 * @argv: of the command
 * @options: all options of the command; an entry without a name ends the array
 * @value: out: value of the option, NULL if it has none
 *
 * This function handles --json itself.  Options may follow arguments.
 * Return: index in @options; -1 at the end: optind is the index of the first argument;
 * -2: an error has been printed.
 */
int ctl_next_option(int argc, char **argv, const struct ctl_option *options, const char **value)
{
	struct option longs[OPTIONS_MAX] = { { "json", no_argument, NULL, OPTION_JSON } };
	char letters[2 * OPTIONS_MAX + 2] = ":";
	int i, found;

	for (i = 0; options[i].name; i++) {
		longs[i + 1].name = options[i].name;
		longs[i + 1].has_arg = options[i].has_value ? required_argument : no_argument;
		longs[i + 1].val = OPTION_FIRST + i;
		if (options[i].letter) {
			strncat(letters, &options[i].letter, 1);
			if (options[i].has_value)
				strcat(letters, ":");
		}
	}
	for (;;) {
		found = getopt_long(argc, argv, letters, longs, NULL);
		if (found < 0)
			return -1;
		if (found == OPTION_JSON) {
			ctl_json = true;
			continue;
		}
		if (found == ':') {
			ctl_usage_error("%s needs a value", argv[optind - 1]);
			return -2;
		}
		if (found == '?') {
			ctl_usage_error("unknown option %s", argv[optind - 1]);
			return -2;
		}
		*value = optarg;
		for (i = 0; options[i].name; i++) {
			if (found == OPTION_FIRST + i || found == options[i].letter)
				return i;
		}
	}
}

/**
 * ctl_one_argument - get the only argument of a command, after all options
 * @argc: of the command
 * @argv: of the command
 * @what: name of the argument, for messages
 *
 * Return: the argument; NULL: there is none or more than one, and an error has been printed.
 */
const char *ctl_one_argument(int argc, char **argv, const char *what)
{
	if (optind >= argc) {
		ctl_usage_error("%s is missing", what);
		return NULL;
	}
	if (argc > optind + 1) {
		ctl_usage_error("too many arguments: '%s'", argv[optind + 1]);
		return NULL;
	}
	return argv[optind];
}

/* Parses digits: no sign and no blanks before them.  @end: out: what follows them. */
static bool parse_digits(const char *text, uint64_t *number, const char **end)
{
	char *after;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*number = strtoull(text, &after, 10);
	*end = after;
	return !errno;
}

/**
 * ctl_parse_size() - parse a number of bytes: 4096, 64K, 256M, 1G, 2T, 1GiB
 * @text: from the command line
 * @bytes: out
 *
 * Return: false if @text is not a size.
 */
bool ctl_parse_size(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMGT";
	const char *end, *unit;
	unsigned int shift;

	if (!parse_digits(text, bytes, &end))
		return false;
	if (!*end)
		return true;
	unit = strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end);
	if (!unit || (end[1] && strcmp(end + 1, "iB") && strcmp(end + 1, "B")))
		return false;
	shift = 10 * (unsigned int)(unit - units + 1);
	if (*bytes > UINT64_MAX >> shift)
		return false;
	*bytes <<= shift;
	return true;
}

/**
 * ctl_parse_number - parse a decimal number
 * @text: from the command line
 * @max: largest number allowed
 * @number: out
 *
 * Return: false if @text is not a number, or is larger than @max.
 */
bool ctl_parse_number(const char *text, uint64_t max, uint64_t *number)
{
	const char *end;

	return parse_digits(text, number, &end) && !*end && *number <= max;
}

/**
 * ctl_parse_mode - parse octal permissions as of chmod(1), 001 to 0777
 * @text: from the command line
 * @mode: out
 *
 * Return: false if @text is not such a mode.
 */
bool ctl_parse_mode(const char *text, uint32_t *mode)
{
	char *end;
	unsigned long value;

	if (*text < '0' || *text > '7')
		return false;
	value = strtoul(text, &end, 8);
	if (*end || !value || value > 0777)
		return false;
	*mode = (uint32_t)value;
	return true;
}

/**
 * ctl_parse_seconds - parse a time: 5, 0.5, 250ms, 30s
 * @text: from the command line
 * @milliseconds: out, 1 to 4000000000
 *
 * Return: false if @text is not such a time.
 */
bool ctl_parse_seconds(const char *text, uint64_t *milliseconds)
{
	double value;
	char *end;

	if ((*text < '0' || *text > '9') && *text != '.')
		return false;
	value = strtod(text, &end);
	if (!strcmp(end, "ms"))
		value /= 1000;
	else if (*end && strcmp(end, "s"))
		return false;
	if (!(value >= 0.001 && value <= 4000000))
		return false;
	*milliseconds = (uint64_t)(value * 1000);
	return true;
}

/**
 * ctl_parse_kind - parse a kind of store: object, block
 * @text: from the command line
 * @kind: out, LSMEM_KIND_*
 *
 * Return: false if @text is not a kind.
 */
bool ctl_parse_kind(const char *text, uint32_t *kind)
{
	if (!strcmp(text, "object"))
		*kind = LSMEM_KIND_OBJECT;
	else if (!strcmp(text, "block"))
		*kind = LSMEM_KIND_BLOCK;
	else
		return false;
	return true;
}
