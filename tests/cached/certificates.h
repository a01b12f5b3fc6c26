/* SPDX-License-Identifier: GPL-2.0 */
/* Keys and certificates of the tests. */
#ifndef TESTS_CACHED_CERTIFICATES_H
#define TESTS_CACHED_CERTIFICATES_H

#include <openssl/x509.h>

/**
 * struct certificate - a key, and a certificate that it has signed itself
 * @key: of Ed25519, whose signatures all have one length: a seed gives records of the same lengths each time
 * @certificate: of @key
 */
struct certificate {
	EVP_PKEY *key;
	X509 *certificate;
};

/* Make one, valid now, for @name.  Ends the program if it cannot. */
struct certificate certificate_make(const char *name);
/* Write key and certificate to a file. */
void certificate_write(const struct certificate *certificate, const char *path);
void certificate_free(struct certificate *certificate);

#endif
