// SPDX-License-Identifier: GPL-2.0
/* The file with the secrets of an NVMe-oF target. tests/daemon/config.sh tests its addresses. */
#include <string.h>

#include "../common/tap.h"
#include "backup/nvmf_address.h"

#define SECRET	"DHHC-1:00:c2l4dGVlbiBsZXR0ZXJzLg==:"
#define OTHER	"DHHC-1:03:b3RoZXI+bGV0dGVycy8=:"

static bool taken(const char *text, const char *host, const char *target)
{
	struct nvmf_secrets secrets;

	return nvmf_secrets((const uint8_t *)text, strlen(text), &secrets) &&
	       !strcmp(secrets.host, host) && !strcmp(secrets.target, target);
}

static bool refused(const char *text, size_t length)
{
	struct nvmf_secrets secrets;

	return !nvmf_secrets((const uint8_t *)text, length, &secrets);
}

static bool test_good(void)
{
	CHECK(taken(SECRET, SECRET, ""));
	CHECK(taken(SECRET "\n", SECRET, ""));
	CHECK(taken(SECRET "\r\n" OTHER "\n\n", SECRET, OTHER));
	CHECK(taken(SECRET " \t" OTHER, SECRET, OTHER));
	return true;
}

static bool test_bad(void)
{
	static const char *const bad[] = {
		"", "\n", "sixteen letters.", "DHHC-1:", "DHHC-1:00:", " " SECRET, "DHHC-2:00:c2l4dGVlbg==:",
		"DHHC-1:00:c2l4dGVlbiBsZXR0ZXJzLg==", SECRET ",queue_size=1", SECRET "x", SECRET SECRET,
		SECRET "\n" OTHER "\n" OTHER, SECRET "\nmore", "DHHC-1:00:c2l4,dGVlbiBsZXR0ZXJz:",
	};
	char longest[NVMF_SECRET + 2] = "DHHC-1:00:", two[3 * NVMF_SECRET];
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(refused(bad[i], strlen(bad[i])));
	CHECK(refused(SECRET "\0", sizeof(SECRET)));
	CHECK(refused(SECRET "\0" OTHER, sizeof(SECRET OTHER)));
	memset(longest + 10, 'A', NVMF_SECRET - 12);
	longest[NVMF_SECRET - 2] = ':';
	CHECK(taken(longest, longest, ""));
	memset(longest + 10, 'A', NVMF_SECRET - 11);
	longest[NVMF_SECRET - 1] = ':';
	CHECK(refused(longest, NVMF_SECRET));
	memset(two, '\n', sizeof(two));
	memcpy(two, SECRET, strlen(SECRET));
	CHECK(refused(two, sizeof(two)));
	return true;
}

int main(void)
{
	tap_ok(test_good(), "files with one or two secrets are accepted");
	tap_ok(test_bad(), "other files are refused");
	return tap_end();
}
