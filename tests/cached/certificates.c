// SPDX-License-Identifier: GPL-2.0
/* Keys and certificates of the tests, made by OpenSSL. */
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "certificates.h"

#define VALID_SECONDS	3600

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "certificates: %s\n", what);
	exit(1);
}

struct certificate certificate_make(const char *name)
{
	struct certificate made = { EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), X509_new() };
	X509_NAME *subject;

	check(made.key && made.certificate, "no memory");
	subject = X509_get_subject_name(made.certificate);
	check(X509_set_version(made.certificate, X509_VERSION_3) &&
	      ASN1_INTEGER_set(X509_get_serialNumber(made.certificate), 1) &&
	      X509_gmtime_adj(X509_getm_notBefore(made.certificate), -VALID_SECONDS) &&
	      X509_gmtime_adj(X509_getm_notAfter(made.certificate), VALID_SECONDS) &&
	      X509_set_pubkey(made.certificate, made.key) &&
	      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0) &&
	      X509_set_issuer_name(made.certificate, subject) &&
	      X509_sign(made.certificate, made.key, NULL), name);
	return made;
}

void certificate_write(const struct certificate *certificate, const char *path)
{
	FILE *file = fopen(path, "w");

	check(file && PEM_write_PrivateKey(file, certificate->key, NULL, NULL, 0, NULL, NULL) &&
	      PEM_write_X509(file, certificate->certificate) && !fclose(file), path);
}

void certificate_free(struct certificate *certificate)
{
	EVP_PKEY_free(certificate->key);
	X509_free(certificate->certificate);
}
