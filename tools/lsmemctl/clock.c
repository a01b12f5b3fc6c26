// SPDX-License-Identifier: GPL-2.0
/* lsmemctl: what commands that repeat themselves know of time. */
#include <errno.h>
#include <time.h>

#include "ctl.h"

/**
 * ctl_now - seconds since some moment, by a clock that does not jump
 */
double ctl_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/**
 * ctl_pause - sleep
 * @seconds: how long; not at all if it is not positive
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
