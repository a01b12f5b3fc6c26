// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemcached: TLS, by OpenSSL.
 *
 * A connection's handshake is a part of its first reads.  Sessions are not resumed: no tickets, no cache.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>

#include "cached.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static SSL_CTX *context;		/* of new connections, under the lock */

static int wrong(const char *option, const char *file)
{
	unsigned long error = ERR_get_error();

	fprintf(stderr, "lsmemcached: %s %s: %s\n", option, file, ERR_reason_error_string(error) ?: "no memory");
	ERR_clear_error();
	return -1;
}

static int load_files(SSL_CTX *new)
{
	const char *chain = cached.options.ssl_chain_cert, *ca = cached.options.ssl_ca_cert;
	const char *key = cached.options.ssl_key ? cached.options.ssl_key : chain;

	if (SSL_CTX_use_certificate_chain_file(new, chain) != 1)
		return wrong("--ssl-chain-cert", chain);
	if (SSL_CTX_use_PrivateKey_file(new, key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(new) != 1)
		return wrong("--ssl-key", key);
	if (!ca)
		return 0;
	if (SSL_CTX_load_verify_locations(new, ca, NULL) != 1)
		return wrong("--ssl-ca-cert", ca);
	SSL_CTX_set_client_CA_list(new, SSL_load_client_CA_file(ca));
	SSL_CTX_set_verify(new, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return 0;
}

/**
 * tls_load - read the certificates, at the start and again
 *
 * If they cannot be read new connections have those that there were.
 *
 * Return: 0, also without TLS; -1: an error was printed.
 */
int tls_load(void)
{
	SSL_CTX *new, *old;

	if (!cached.options.ssl)
		return 0;
	new = SSL_CTX_new(TLS_server_method());
	if (!new)
		return wrong("-Z", "");
	SSL_CTX_set_min_proto_version(new, TLS1_2_VERSION);
	SSL_CTX_set_session_cache_mode(new, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(new, 0);
	SSL_CTX_set_options(new, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
	/* A buffer to be sent can move and grow before it is tried again */
	SSL_CTX_set_mode(new, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
			 SSL_MODE_RELEASE_BUFFERS);
	if (load_files(new)) {
		SSL_CTX_free(new);
		return -1;
	}
	pthread_mutex_lock(&lock);
	old = context;
	context = new;
	pthread_mutex_unlock(&lock);
	SSL_CTX_free(old);
	return 0;
}

/**
 * tls_begin - a connection speaks TLS
 * @connection: new
 *
 * Return: false: no memory.
 */
bool tls_begin(struct cached_connection *connection)
{
	pthread_mutex_lock(&lock);
	connection->tls = SSL_new(context);
	pthread_mutex_unlock(&lock);
	if (!connection->tls)
		return false;
	SSL_set_accept_state(connection->tls);
	return SSL_set_fd(connection->tls, connection->fd) == 1;
}

/**
 * tls_is_ready - whether the handshake is over
 * @connection: with TLS or without
 *
 * Return: it is, or there is none.
 */
bool tls_is_ready(const struct cached_connection *connection)
{
	return !connection->tls || connection->tls_ready;
}

/*
 * The result of a call as that of recv() and send().  After an error, and while keys change, OpenSSL calls the handshake
 * unfinished again: only tls_ready tells what never got through it.
 */
static ssize_t result(struct cached_connection *connection, int ret)
{
	if (ret > 0)
		return ret;
	switch (SSL_get_error(connection->tls, ret)) {
	case SSL_ERROR_WANT_WRITE:
	case SSL_ERROR_WANT_READ:
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	}
	if (!tls_is_ready(connection))
		connection->worker->counters.ssl_handshake_errors++;
	errno = EPROTO;
	return -1;
}

/**
 * tls_receive - read as recv() does
 * @connection: with TLS
 * @to: where to
 * @room: bytes there
 *
 * connection->tls_full tells whether the socket must have room before there can be more to read.
 *
 * Return: bytes; 0: the end; -1: errno is EAGAIN or tells that the connection is lost.
 */
ssize_t tls_receive(struct cached_connection *connection, void *to, size_t room)
{
	int got = 1;

	ERR_clear_error();
	if (!connection->tls_ready) {
		got = SSL_do_handshake(connection->tls);
		connection->tls_ready = got == 1;
	}
	if (got == 1)
		got = SSL_read(connection->tls, to, room > INT32_MAX ? INT32_MAX : (int)room);
	connection->tls_full = got <= 0 && SSL_want_write(connection->tls);
	return result(connection, got);
}

/**
 * tls_pending - bytes that were received with others, and that no poll tells of
 * @connection: with TLS or without
 *
 * Return: bytes; without TLS 0.
 */
size_t tls_pending(const struct cached_connection *connection)
{
	return connection->tls ? (size_t)SSL_pending(connection->tls) : 0;
}

/**
 * tls_send - write as send() does
 * @connection: with TLS
 * @from: what
 * @length: bytes, at least 1
 *
 * Return: bytes; -1: errno is EAGAIN or tells that the connection is lost.
 */
ssize_t tls_send(struct cached_connection *connection, const void *from, size_t length)
{
	ssize_t sent;

	ERR_clear_error();
	sent = result(connection, SSL_write(connection->tls, from, length > INT32_MAX ? INT32_MAX : (int)length));
	if (!sent)
		errno = EPIPE;
	return sent ? sent : -1;
}

/**
 * tls_end - end TLS of a connection, whose socket is still open
 * @connection: with TLS or without
 */
void tls_end(struct cached_connection *connection)
{
	if (!connection->tls)
		return;
	/* The answer of the client is not waited for */
	if (SSL_is_init_finished(connection->tls))
		SSL_shutdown(connection->tls);
	ERR_clear_error();
	SSL_free(connection->tls);
}
