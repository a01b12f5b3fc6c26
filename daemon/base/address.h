/* SPDX-License-Identifier: GPL-2.0 */
/* Addresses of other hosts, as URLs. */
#ifndef LSMEMD_ADDRESS_H
#define LSMEMD_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#define ADDRESS_PORT	6u	/* bytes, with the final zero */
#define ADDRESS_HOST	256u

/**
 * struct address - SCHEME://HOST[:PORT][/PATH][?QUERY]; a part that is missing is ""
 * @scheme: in lower case
 * @host: without the brackets of IPv6
 * @port: 1 to 65535
 * @path: without the slash
 * @query: without the question mark
 */
struct address {
	char scheme[16];
	char host[ADDRESS_HOST];
	char port[ADDRESS_PORT];
	char path[256];
	char query[32];
};

bool address_parse(const char *url, struct address *address);
bool address_number(const struct address *address, struct sockaddr_storage *number,
		    socklen_t *length);

#endif
