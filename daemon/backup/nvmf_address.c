// SPDX-License-Identifier: GPL-2.0
/*
 * Addresses and secrets of NVMe over Fabrics: see backup/nvmf_address.h. libnvme passes the parts
 * of an address to the kernel as one line of options separated by commas, so no part may have a
 * comma.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf_address.h"

/**
 * nvmf_scheme - does a path begin with "nvmf"?
 * @path: of a backup
 */
bool nvmf_scheme(const char *path)
{
	return !strncmp(path, NVMF_SCHEME, strlen(NVMF_SCHEME));
}

static const char *transport_of(const char *scheme)
{
	static const char * const transports[] = { "tcp", "rdma" };
	unsigned int i;

	for (i = 0; i < 2; i++)
		if (!strcmp(scheme + strlen(NVMF_SCHEME "+"), transports[i]))
			return transports[i];
	return NULL;
}

/* Accept only a numeric address, and rewrite it in the form that the kernel writes to sysfs. */
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

static bool is_nqn(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~' || *text == ',')
			return false;
	return true;
}

/**
 * nvmf_address - parse an address
 * @text: see struct nvmf_address
 * @address: out
 *
 * Return: whether @text is such an address.
 */
bool nvmf_address(const char *text, struct nvmf_address *address)
{
	struct address url;

	memset(address, 0, sizeof(*address));
	if (strncmp(text, NVMF_SCHEME "+", strlen(NVMF_SCHEME "+")) || !address_parse(text, &url) ||
	    strlen(url.host) >= sizeof(address->host) || !*url.path ||
	    strlen(url.path) >= sizeof(address->nqn) || !is_nqn(url.path))
		return false;
	address->transport = transport_of(url.scheme);
	strcpy(address->host, url.host);
	strcpy(address->port, *url.port ? url.port : NVMF_PORT);
	strcpy(address->nqn, url.path);
	address->nsid = 1;
	return address->transport && make_number(address->host) &&
	       (!*url.query ||
		(!strncmp(url.query, "ns=", 3) && take_nsid(url.query + 3, &address->nsid)));
}

/*
 * Parse "DHHC-1:0N:BASE64:", then blanks or the end.
 * Return: the text after it, or NULL.
 */
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
 * nvmf_secrets - parse the contents of the file of "key ="
 * @text: the host's secret, then, optionally, blanks or newlines and the target's secret
 * @length: bytes of @text
 * @secrets: out
 *
 * Return: whether @text has this form.
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
