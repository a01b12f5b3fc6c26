/* SPDX-License-Identifier: GPL-2.0 */
/* Secrets that two hosts share, each in a file that only its owner can read; and random bytes. */
#ifndef LSMEMD_SECRET_H
#define LSMEMD_SECRET_H

#include <stddef.h>
#include <stdint.h>

#define SECRET_MIN	16u	/* bytes */
#define SECRET_MAX	4096u

/**
 * struct secret - the content of a secret's file
 * @length: bytes of the secret, SECRET_MIN to SECRET_MAX; a newline at the end is a part of it
 * @bytes: the secret
 */
struct secret {
	size_t length;
	uint8_t bytes[SECRET_MAX];
};

int secret_read(const char *path, struct secret *secret);
int secret_random(uint8_t *bytes, size_t length);

#endif
