// SPDX-License-Identifier: GPL-2.0
/* A client that speaks TLS in memory. */
#include <openssl/err.h>
#include <stdlib.h>

#include "../common/random.h"
#include "peer.h"

#define PIECE	16384u	/* the longest record of TLS */

uint8_t peer_byte(uint64_t key, uint64_t place)
{
	uint64_t state = key + place / 8 * 0x9e3779b97f4a7c15ull;

	return (uint8_t)(random_next(&state) >> place % 8 * 8);
}

uint8_t server_byte(uint64_t key, uint64_t place)
{
	return peer_byte(~key, place);
}

static int resumable(SSL *ssl, SSL_SESSION *session)
{
	struct peer *peer = SSL_get_app_data(ssl);

	(void)session;
	peer->tickets++;
	return 0;
}

static SSL_CTX *context(void)
{
	static SSL_CTX *made;

	if (made)
		return made;
	made = SSL_CTX_new(TLS_client_method());
	if (!made)
		abort();
	SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(made, resumable);
	return made;
}

static void informed(const SSL *ssl, int where, int ret)
{
	struct peer *peer = SSL_get_app_data(ssl);

	(void)ret;
	if (where & SSL_CB_HANDSHAKE_DONE)
		peer->handshakes++;
}

void peer_open(struct peer *peer, int version, const struct certificate *own, uint64_t key)
{
	*peer = (struct peer){ .key = key, .ssl = SSL_new(context()), .to = BIO_new(BIO_s_mem()),
			       .from = BIO_new(BIO_s_mem()) };
	if (!peer->ssl || !peer->to || !peer->from || !SSL_set_min_proto_version(peer->ssl, version) ||
	    !SSL_set_max_proto_version(peer->ssl, version) ||
	    (own && (SSL_use_certificate(peer->ssl, own->certificate) != 1 ||
		     SSL_use_PrivateKey(peer->ssl, own->key) != 1)))
		abort();
	BIO_set_mem_eof_return(peer->from, -1);
	SSL_set_bio(peer->ssl, peer->from, peer->to);
	SSL_set_connect_state(peer->ssl);
	SSL_set_app_data(peer->ssl, peer);
	SSL_set_info_callback(peer->ssl, informed);
}

/* The result of a call.  Return: whether it has done something. */
static bool result(struct peer *peer, int ret)
{
	if (ret > 0)
		return true;
	switch (SSL_get_error(peer->ssl, ret)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return false;
	case SSL_ERROR_ZERO_RETURN:
		peer->ended = true;
		return true;
	}
	peer->failed = true;
	ERR_clear_error();
	return true;
}

bool peer_step(struct peer *peer)
{
	uint8_t piece[PIECE];
	bool done = false;
	int got, i;

	if (peer->failed || peer->ended)
		return false;
	if (!peer->ready) {
		if (!result(peer, SSL_do_handshake(peer->ssl)) || peer->failed || peer->ended)
			return peer->failed || peer->ended;
		peer->ready = done = true;
		peer->unexpected = X509_cmp(SSL_get0_peer_certificate(peer->ssl), peer->expected->certificate);
	}
	while (result(peer, got = SSL_read(peer->ssl, piece, sizeof(piece)))) {
		done = true;
		if (got <= 0)
			break;
		for (i = 0; i < got; i++)
			peer->wrong |= piece[i] != server_byte(peer->key, peer->heard + (uint64_t)i);
		peer->heard += (uint64_t)got;
	}
	return done;
}

bool peer_say(struct peer *peer, size_t length)
{
	uint8_t piece[PIECE];
	size_t i;

	if (!peer->ready || peer->failed || peer->ended)
		return false;
	if (length > sizeof(piece))
		length = sizeof(piece);
	for (i = 0; i < length; i++)
		piece[i] = peer_byte(peer->key, peer->said + i);
	if (!result(peer, SSL_write(peer->ssl, piece, (int)length)) || peer->failed || peer->ended)
		return false;
	peer->said += length;
	return true;
}

void peer_update_keys(struct peer *peer)
{
	if (peer->ready && !peer->failed && !peer->ended &&
	    (!SSL_key_update(peer->ssl, SSL_KEY_UPDATE_REQUESTED) || SSL_do_handshake(peer->ssl) != 1))
		abort();
}

void peer_renegotiate(struct peer *peer)
{
	if (peer->ready && !peer->failed && !peer->ended && SSL_renegotiate(peer->ssl))
		result(peer, SSL_do_handshake(peer->ssl));
}

void peer_end(struct peer *peer)
{
	if (peer->ready && !peer->failed)
		SSL_shutdown(peer->ssl);
}

void peer_close(struct peer *peer)
{
	SSL_free(peer->ssl);
	peer->ssl = NULL;
	ERR_clear_error();
}
