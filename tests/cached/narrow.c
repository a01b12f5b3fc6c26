// SPDX-License-Identifier: GPL-2.0
/* A BIO that lets only so many bytes pass. */
#include <openssl/bio.h>
#include <stdio.h>
#include <stdlib.h>

#include "narrow.h"

static int narrow_read(BIO *bio, char *to, int room)
{
	struct narrow *narrow = BIO_get_data(bio);
	int got;

	BIO_clear_retry_flags(bio);
	if (!narrow->in) {
		BIO_set_retry_read(bio);
		return -1;
	}
	got = BIO_read(BIO_next(bio), to, (uint64_t)room > narrow->in ? (int)narrow->in : room);
	BIO_copy_next_retry(bio);
	if (got > 0) {
		narrow->in -= (uint64_t)got;
		narrow->read += (uint64_t)got;
	}
	return got;
}

static int narrow_write(BIO *bio, const char *from, int length)
{
	struct narrow *narrow = BIO_get_data(bio);
	int sent;

	BIO_clear_retry_flags(bio);
	if (!narrow->out) {
		BIO_set_retry_write(bio);
		return -1;
	}
	sent = BIO_write(BIO_next(bio), from, (uint64_t)length > narrow->out ? (int)narrow->out : length);
	BIO_copy_next_retry(bio);
	if (sent > 0) {
		narrow->out -= (uint64_t)sent;
		narrow->written += (uint64_t)sent;
	}
	return sent;
}

static long narrow_ctrl(BIO *bio, int command, long number, void *pointer)
{
	return BIO_ctrl(BIO_next(bio), command, number, pointer);
}

static BIO_METHOD *method(void)
{
	static BIO_METHOD *made;

	if (made)
		return made;
	made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_FILTER, "narrow");
	if (!made || !BIO_meth_set_read(made, narrow_read) || !BIO_meth_set_write(made, narrow_write) ||
	    !BIO_meth_set_ctrl(made, narrow_ctrl))
		abort();
	return made;
}

void narrow_insert(struct narrow *narrow, SSL *ssl)
{
	BIO *socket = SSL_get_rbio(ssl), *bio = BIO_new(method());

	if (!bio || !BIO_up_ref(socket))
		abort();
	BIO_set_data(bio, narrow);
	BIO_set_init(bio, 1);
	BIO_push(bio, socket);
	SSL_set_bio(ssl, bio, bio);
}
