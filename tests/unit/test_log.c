// SPDX-License-Identifier: GPL-2.0
/* daemon/base/log.c: when threads log faster than lines are read, each line is read or counted. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "../common/tap.h"

#define THREADS	4
#define LINES	500000	/* with fewer, a race of the count may have no effect */

static unsigned long lines, counted;

static void *say(void *context)
{
	int i;

	(void)context;
	for (i = 0; i < LINES; i++)
		log_notice("a line");
	return NULL;
}

static void *listen_to(void *context)
{
	int fd = *(int *)context;
	unsigned long n;
	char line[2 * LOG_LINE_BYTES];
	ssize_t got;

	while ((got = recv(fd, line, sizeof(line) - 1, 0)) > 0) {
		line[got] = 0;
		if (strstr(line, "a line"))
			lines++;
		else if (sscanf(line, "<4>%lu lines could not be logged", &n) == 1)
			counted += n;
	}
	return NULL;
}

static bool none_uncounted(void)
{
	pthread_t threads[THREADS], listener;
	int fds[2], i;

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds));
	CHECK(dup2(fds[1], STDERR_FILENO) >= 0);
	close(fds[1]);
	log_setup(LOG_PRI_NOTICE);
	CHECK(!pthread_create(&listener, NULL, listen_to, &fds[0]));
	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, say, NULL));
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	/* There is room again: the count of dropped lines is written before this line. */
	while (recv(fds[0], &(char){ 0 }, 1, MSG_DONTWAIT | MSG_PEEK) >= 0)
		usleep(1000);
	log_notice("a line");
	shutdown(STDERR_FILENO, SHUT_RDWR);
	pthread_join(listener, NULL);
	tap_note("%lu lines, %lu counted", lines, counted);
	CHECK(counted);
	CHECK(lines + counted == THREADS * LINES + 1);
	return true;
}

/* This line cannot be written: standard error is shut down. */
static bool errno_stays(void)
{
	errno = EDOM;
	log_notice("a line");
	CHECK(errno == EDOM);
	return true;
}

int main(void)
{
	tap_ok(none_uncounted(), "each line of several threads is written or counted");
	tap_ok(errno_stays(), "a line that cannot be logged does not change errno");
	return tap_end();
}
