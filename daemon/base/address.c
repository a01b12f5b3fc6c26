// SPDX-License-Identifier: GPL-2.0
/* Addresses of other hosts: see address.h. */
#include <stdlib.h>
#include <string.h>

#include "address.h"

/**
 * address_host - take a host, and a port if there is one, from an address
 * @text: HOST[:PORT], then a slash or nothing; an address of IPv6 is in brackets
 * @host: out, without brackets
 * @room: bytes at @host
 * @port: out, as it was if @text has none
 *
 * Returns what follows in @text, NULL if it is no such thing.
 */
const char *address_host(const char *text, char *host, size_t room, char port[ADDRESS_PORT])
{
	size_t length, digits;
	const char *end;

	if (*text == '[') {
		end = strchr(++text, ']');
		if (!end)
			return NULL;
		length = (size_t)(end++ - text);
	} else {
		length = strcspn(text, ":/");
		end = text + length;
	}
	if (!length || length >= room)
		return NULL;
	memcpy(host, text, length);
	host[length] = 0;
	if (*end == ':') {
		digits = strspn(++end, "0123456789");
		if (!digits || digits >= ADDRESS_PORT || atoi(end) < 1 || atoi(end) > 65535)
			return NULL;
		memcpy(port, end, digits);
		port[digits] = 0;
		end += digits;
	}
	return !*end || *end == '/' ? end : NULL;
}
