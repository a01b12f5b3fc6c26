// SPDX-License-Identifier: GPL-2.0
/*
 * A daemon that freezes a store and ends, for guest-frozen.sh.
 *
 *	frozen STORE UUID TERM
 *
 * The store has no daemon. Prints how many objects it has.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lsmem/lsmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TRIES	3000u
#define STEP_US	10000u	/* between them */

static int uuid_of(const char *text, uint8_t uuid[16])
{
	unsigned int i;
	int n;

	for (i = 0; i < 16; i++) {
		if (sscanf(text, "%2hhx%n", &uuid[i], &n) != 1)
			return -EINVAL;
		text += n;
		text += *text == '-';
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct lsmem_attach attach = { .size = sizeof(attach) };
	struct lsmem_freeze freeze = { .size = sizeof(freeze) };
	int control = open("/dev/lsmem-control", O_RDWR | O_CLOEXEC);
	unsigned int i;
	int ret = -1;

	if (argc != 4 || uuid_of(argv[2], attach.uuid))
		return 2;
	snprintf((char *)attach.name, sizeof(attach.name), "%s", argv[1]);
	/* The kernel closes the descriptor of a daemon that was killed a moment later: io_uring has it. */
	for (i = 0; i < TRIES && control >= 0 && (ret = ioctl(control, LSMEM_CTL_ATTACH, &attach)) && errno == EBUSY; i++)
		usleep(STEP_US);
	if (ret) {
		perror(argv[1]);
		return 1;
	}
	for (i = 0; i < TRIES && !freeze.frozen; i++) {
		if (i)
			usleep(STEP_US);
		freeze.term = strtoull(argv[3], NULL, 10);
		if (ioctl(attach.fd, LSMEM_REPL_FREEZE, &freeze)) {
			perror("LSMEM_REPL_FREEZE");
			return 1;
		}
	}
	printf("%" PRIu64 "\n", (uint64_t)freeze.objects);
	return !freeze.frozen;
}
