// SPDX-License-Identifier: GPL-2.0
/* Addresses of other hosts: see address.h. */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"

/* Copy a part of @url, "" if the URL does not have it. Return: false: the part is too long. */
static bool take(CURLU *url, CURLUPart part, char *to, size_t room)
{
	char *text = NULL;
	bool fits = true;

	*to = 0;
	if (!curl_url_get(url, part, &text, 0)) {
		fits = strlen(text) < room;
		if (fits)
			strcpy(to, text);
	}
	curl_free(text);
	return fits;
}

/* Does @text say exactly what libcurl reads? libcurl repairs many errors; an address has none. */
static bool is_exact(CURLU *url, const char *text)
{
	size_t length = strlen(text);
	char *whole = NULL;
	bool exact = !curl_url_get(url, CURLUPART_URL, &whole, 0) &&
		     !strncmp(whole, text, length) &&
		     (!whole[length] || !strcmp(whole + length, "/"));

	curl_free(whole);
	return exact;
}

/**
 * address_parse - parse an address
 * @url: as in struct address
 * @address: out
 *
 * Return: true: @url is an address, without user, zone and fragment.
 */
bool address_parse(const char *url, struct address *address)
{
	char zone[2], fragment[2], host[ADDRESS_HOST], path[sizeof(address->path) + 1];
	CURLU *parts = curl_url();
	bool ok;

	ok = parts && !curl_url_set(parts, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME |
				    CURLU_DISALLOW_USER | CURLU_PATH_AS_IS) &&
	     is_exact(parts, url) &&
	     take(parts, CURLUPART_ZONEID, zone, sizeof(zone)) && !*zone &&
	     take(parts, CURLUPART_FRAGMENT, fragment, sizeof(fragment)) && !*fragment &&
	     take(parts, CURLUPART_SCHEME, address->scheme, sizeof(address->scheme)) &&
	     take(parts, CURLUPART_HOST, host, sizeof(host)) &&
	     take(parts, CURLUPART_PORT, address->port, sizeof(address->port)) &&
	     take(parts, CURLUPART_PATH, path, sizeof(path)) &&
	     take(parts, CURLUPART_QUERY, address->query, sizeof(address->query));
	curl_url_cleanup(parts);
	if (!ok || !strcmp(address->port, "0"))
		return false;
	if (*host == '[')	/* IPv6: remove both brackets */
		host[strlen(host) - 1] = 0;
	strcpy(address->host, host + (*host == '['));
	strcpy(address->path, *path ? path + 1 : path);
	return true;
}

/**
 * address_number - convert an address with a numeric host, without a name server
 * @address: from address_parse()
 * @number: out
 * @length: out: bytes of @number
 *
 * Return: true: the host is a number, and the address has a port.
 */
bool address_number(const struct address *address, struct sockaddr_storage *number,
		    socklen_t *length)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)number;
	struct sockaddr_in *in = (struct sockaddr_in *)number;

	memset(number, 0, sizeof(*number));
	if (inet_pton(AF_INET6, address->host, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)atoi(address->port));
		*length = sizeof(*in6);
	} else if (inet_pton(AF_INET, address->host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)atoi(address->port));
		*length = sizeof(*in);
	} else {
		return false;
	}
	return *address->port;
}
