/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The secret that a daemon and the server of its backup share: a file of
 * WIRE_KEY_MIN to WIRE_KEY_MAX bytes, all of which count, that nobody but its
 * owner may read.
 */
#ifndef LSMEMD_SECRET_H
#define LSMEMD_SECRET_H

#include "wire.h"

int secret_read(const char *path, struct wire_key *key);
int secret_nonce(uint8_t nonce[WIRE_NONCE]);

#endif
