// SPDX-License-Identifier: GPL-2.0
/*
 * Namespaces of NVMe over Fabrics: see backup/nvmf_address.h.  What is taken here goes to the
 * kernel in one line of options between commas, so none may have a comma.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf_address.h"

/**
 * nvmf_scheme - is a path meant to be such a namespace?
 * @path: of a backup
 */
bool nvmf_scheme(const char *path)
{
	return !strncmp(path, NVMF_SCHEME, strlen(NVMF_SCHEME));
}

static const char *take_transport(const char *text, struct nvmf_address *address)
{
	static const char *const schemes[][2] = {
		{ NVMF_SCHEME "+tcp://", "tcp" }, { NVMF_SCHEME "+rdma://", "rdma" },
	};
	unsigned int i;

	for (i = 0; i < 2; i++) {
		if (strncmp(text, schemes[i][0], strlen(schemes[i][0])))
			continue;
		address->transport = schemes[i][1];
		return text + strlen(schemes[i][0]);
	}
	return NULL;
}

/* Numbers only, and written as the kernel will tell it back. */
static bool make_number(char host[INET6_ADDRSTRLEN])
{
	int family = strchr(host, ':') ? AF_INET6 : AF_INET;
	struct in6_addr number;

	return inet_pton(family, host, &number) == 1 &&
	       inet_ntop(family, &number, host, INET6_ADDRSTRLEN);
}

static bool take_nsid(const char *text, uint32_t *nsid)
{
	unsigned long n;
	char *end;

	if (*text < '1' || *text > '9')
		return false;
	errno = 0;
	n = strtoul(text, &end, 10);
	*nsid = (uint32_t)n;
	return !errno && !*end && n < UINT32_MAX;
}

static bool take_nqn(const char *text, struct nvmf_address *address)
{
	size_t length = strcspn(text, "?"), i;

	if (!length || length >= sizeof(address->nqn))
		return false;
	for (i = 0; i < length; i++)
		if (text[i] <= ' ' || text[i] > '~' || text[i] == ',')
			return false;
	memcpy(address->nqn, text, length);
	text += length;
	return !*text || (!strncmp(text, "?ns=", 4) && take_nsid(text + 4, &address->nsid));
}

/**
 * nvmf_address - parse an address
 * @text: see struct nvmf_address
 * @address: out
 *
 * Returns whether it is one.
 */
bool nvmf_address(const char *text, struct nvmf_address *address)
{
	memset(address, 0, sizeof(*address));
	strcpy(address->port, NVMF_PORT);
	address->nsid = 1;
	text = take_transport(text, address);
	if (text)
		text = address_host(text, address->host, sizeof(address->host), address->port);
	return text && *text == '/' && make_number(address->host) && take_nqn(text + 1, address);
}

/* DHHC-1:0N:BASE64:, then blanks or nothing. */
static const char *take_secret(const char *text, char secret[NVMF_SECRET])
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
	size_t length, blanks;

	if (strncmp(text, "DHHC-1:0", 8) || text[8] < '0' || text[8] > '3' || text[9] != ':')
		return NULL;
	length = 10 + strspn(text + 10, letters);
	if (length == 10 || length + 1 >= NVMF_SECRET || text[length++] != ':')
		return NULL;
	memcpy(secret, text, length);
	secret[length] = 0;
	text += length;
	blanks = strspn(text, " \t\r\n");
	return blanks || !*text ? text + blanks : NULL;
}

/**
 * nvmf_secrets - parse the file of "key ="
 * @text: one secret, or two with blanks or lines between: the host's, the target's
 * @length: of it
 * @secrets: out
 *
 * Returns whether it is that.
 */
bool nvmf_secrets(const uint8_t *text, size_t length, struct nvmf_secrets *secrets)
{
	char copy[2 * NVMF_SECRET + 16];
	const char *rest;
	bool ok;

	memset(secrets, 0, sizeof(*secrets));
	if (length >= sizeof(copy))
		return false;
	memcpy(copy, text, length);
	copy[length] = 0;
	rest = take_secret(copy, secrets->host);
	if (rest && *rest)
		rest = take_secret(rest, secrets->target);
	ok = rest && rest == copy + length;
	explicit_bzero(copy, sizeof(copy));
	return ok;
}
