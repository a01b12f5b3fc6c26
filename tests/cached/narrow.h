/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A socket through which only so many bytes pass until more are allowed: as one whose buffer is full, or that has not
 * received more.  A BIO of OpenSSL, between TLS and its socket.
 */
#ifndef TESTS_CACHED_NARROW_H
#define TESTS_CACHED_NARROW_H

#include <openssl/ssl.h>
#include <stdint.h>

#define NARROW_WIDE	(1ull << 40)	/* bytes: no bound */

/**
 * struct narrow - what may pass
 * @in: bytes that may still be read
 * @out: bytes that may still be written
 * @read: bytes that were read so far
 * @written: bytes that were written so far
 */
struct narrow {
	uint64_t in;
	uint64_t out;
	uint64_t read;
	uint64_t written;
};

/* Put it between @ssl, which has a socket, and that.  @narrow outlives @ssl. */
void narrow_insert(struct narrow *narrow, SSL *ssl);

#endif
