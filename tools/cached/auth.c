// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemcached: users and passwords, of a file with lines USER:PASSWORD.
 *
 * A connection is authenticated by its first set that succeeds, whatever its key, whose data are the user, a blank and
 * the password: clients need no command of their own for it.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cached.h"

#define FILE_MAX	(64u << 10)	/* bytes */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *users;			/* the file, under the lock; ends with 0 */

/* Return: its text, to be freed; NULL: errno says why not. */
static char *file_text(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = calloc(1, FILE_MAX + 2);
	size_t length;
	int error = 0;

	if (!file || !text) {
		error = errno;
	} else {
		length = fread(text, 1, FILE_MAX + 1, file);
		error = ferror(file) ? errno : length > FILE_MAX ? EFBIG : 0;
	}
	if (file)
		fclose(file);
	if (!error)
		return text;
	free(text);
	errno = error;
	return NULL;
}

/* Return: the first line without a user and a password, counted from 1; 0: there is none. */
static unsigned int wrong_line(const char *text)
{
	unsigned int line;

	for (line = 1; *text; line++) {
		size_t length = strcspn(text, "\r\n"), user = strcspn(text, ":\r\n");

		if (length && (!user || user >= length))
			return line;
		text += length;
		text += *text == '\r';
		text += *text == '\n';
	}
	return 0;
}

/**
 * auth_load - read the file of users, at the start and again
 *
 * If it cannot be read the users stay as they were.
 *
 * Return: 0, also without such a file; -1: an error was printed.
 */
int auth_load(void)
{
	const char *path = cached.options.auth_file;
	unsigned int line;
	char *text, *old;

	if (!path)
		return 0;
	text = file_text(path);
	if (!text) {
		fprintf(stderr, "lsmemcached: -Y %s: %s\n", path, strerror(errno));
		return -1;
	}
	line = wrong_line(text);
	if (line) {
		fprintf(stderr, "lsmemcached: -Y %s: line %u: give USER:PASSWORD\n", path, line);
		free(text);
		return -1;
	}
	pthread_mutex_lock(&lock);
	old = users;
	users = text;
	pthread_mutex_unlock(&lock);
	free(old);
	return 0;
}

/**
 * auth_check - whether there is a user with a password
 * @data: user, a blank, password
 * @length: bytes
 *
 * The time it takes does not depend on how much of a password is right.
 *
 * Return: there is.
 */
bool auth_check(const char *data, size_t length)
{
	const char *blank = memchr(data, ' ', length), *at;
	bool found = false;
	size_t user;

	if (!blank)
		return false;
	user = (size_t)(blank - data);
	pthread_mutex_lock(&lock);
	for (at = users; *at; at += strspn(at, "\r\n")) {
		size_t bytes = strcspn(at, "\r\n");

		found |= bytes == length && strcspn(at, ":") == user && !CRYPTO_memcmp(at, data, user) &&
			 !CRYPTO_memcmp(at + user + 1, blank + 1, length - user - 1);
		at += bytes;
	}
	pthread_mutex_unlock(&lock);
	return found;
}
