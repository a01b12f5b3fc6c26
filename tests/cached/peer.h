/* SPDX-License-Identifier: GPL-2.0 */
/* A client that speaks TLS in memory: what it wants to send, and what it has received, are bytes that the test moves. */
#ifndef TESTS_CACHED_PEER_H
#define TESTS_CACHED_PEER_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "certificates.h"

/**
 * struct peer - the client
 * @ssl: its state of TLS
 * @to: bytes that are to be sent to the server
 * @from: bytes that came from the server
 * @key: of the contents of both directions
 * @said: bytes of its own that it has encrypted
 * @heard: bytes of the server that it has decrypted, all of them right
 * @handshakes: that have ended
 * @tickets: sessions that the server would resume
 * @ready: its handshake is over
 * @ended: the server has ended TLS in order
 * @failed: TLS has failed
 * @wrong: bytes of the server are not those that it had to send
 * @expected: certificate that the server has to show
 * @unexpected: it has shown another one
 */
struct peer {
	SSL *ssl;
	BIO *to;
	BIO *from;
	uint64_t key;
	uint64_t said;
	uint64_t heard;
	unsigned int handshakes;
	unsigned int tickets;
	bool ready;
	bool ended;
	bool failed;
	bool wrong;
	const struct certificate *expected;
	bool unexpected;
};

/* The byte at @place of what the client says, and of what the server answers */
uint8_t peer_byte(uint64_t key, uint64_t place);
uint8_t server_byte(uint64_t key, uint64_t place);

/*
 * Begin a client that speaks @version, TLS1_2_VERSION or TLS1_3_VERSION.  @own: its certificate, NULL: none.  @key: of the
 * contents.
 */
void peer_open(struct peer *peer, int version, const struct certificate *own, uint64_t key);
/* Continue the handshake and read what has come.  Return: whether anything has changed. */
bool peer_step(struct peer *peer);
/* Say @length bytes more.  Return: false: not now. */
bool peer_say(struct peer *peer, size_t length);
/* Change the keys; the server's, too.  TLS 1.3 */
void peer_update_keys(struct peer *peer);
/* Want another handshake.  TLS 1.2 */
void peer_renegotiate(struct peer *peer);
/* End TLS in order. */
void peer_end(struct peer *peer);
void peer_close(struct peer *peer);

#endif
