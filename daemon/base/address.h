/* SPDX-License-Identifier: GPL-2.0 */
/* Addresses of other hosts as the configuration has them: HOST[:PORT]. */
#ifndef LSMEMD_ADDRESS_H
#define LSMEMD_ADDRESS_H

#include <stddef.h>

#define ADDRESS_PORT	6u	/* bytes, a final zero among them */

const char *address_host(const char *text, char *host, size_t room, char port[ADDRESS_PORT]);

#endif
