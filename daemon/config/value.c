// SPDX-License-Identifier: GPL-2.0
/* Values of the configuration file, and messages about wrong ones. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "private.h"

/**
 * config_fail - write the message about an error
 * @p: the parser; its @error is written
 * @line: line of the error; 0: the whole file
 * @format: what is wrong, and what is allowed
 *
 * Return: -EINVAL.
 */
int config_fail(struct config_parser *p, unsigned int line, const char *format, ...)
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

/**
 * config_strip - remove the white space around a text
 * @text: changed: ends before the white space at its end
 *
 * Return: its first character that is no white space.
 */
char *config_strip(char *text)
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

/**
 * config_word - is a text a name of letters, digits, dots, dashes and underscores?
 * @text: the text
 * @room: bytes for the name, with the final zero
 *
 * Such a name needs no quotes in JSON, in metrics and in paths.
 *
 * Return: true: it is such a name, not empty, and fits.
 */
bool config_word(const char *text, size_t room)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n && n < room && !text[n];
}

/**
 * config_size - parse a number of bytes
 * @text: digits, and then K, M, G or T (powers of 1024) or nothing
 * @value: out
 *
 * Return: true: @text is such a number, and it fits.
 */
bool config_size(const char *text, uint64_t *value)
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

/**
 * config_time - parse a time
 * @text: digits, and then s, m, h or d (seconds, minutes, hours, days)
 * @seconds: out
 *
 * Return: true: @text is such a time, of less than UINT32_MAX seconds.
 */
bool config_time(const char *text, uint32_t *seconds)
{
	unsigned long long n, unit;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	unit = *end == 's' ? 1 : *end == 'm' ? 60 : *end == 'h' ? 3600 : *end == 'd' ? 86400 : 0;
	if (errno || !unit || end[1] || n >= UINT32_MAX / unit)
		return false;
	*seconds = (uint32_t)(n * unit);
	return true;
}

/**
 * config_number - parse a number
 * @text: digits
 * @number: out
 *
 * Return: true: @text is a number below UINT32_MAX.
 */
bool config_number(const char *text, uint32_t *number)
{
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || *end || n >= UINT32_MAX)
		return false;
	*number = (uint32_t)n;
	return true;
}
