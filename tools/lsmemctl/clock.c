// SPDX-License-Identifier: GPL-2.0
/* lsmemctl: the clock of commands that wait or repeat. */
#include <errno.h>
#include <time.h>

#include "ctl.h"

/**
 * ctl_now - read the monotonic clock
 *
 * Return: seconds since an unspecified time.
 */
double ctl_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/**
 * ctl_pause - sleep
 * @seconds: to sleep; returns at once if not positive
 */
void ctl_pause(double seconds)
{
	struct timespec time;

	if (seconds <= 0)
		return;
	time.tv_sec = (time_t)seconds;
	time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
	while (nanosleep(&time, &time) && errno == EINTR)
		;
}
