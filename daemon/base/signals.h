/* SPDX-License-Identifier: GPL-2.0 */
/* Signals, as something that the loop waits for. */
#ifndef LSMEMD_SIGNALS_H
#define LSMEMD_SIGNALS_H

#include <stdbool.h>

#include "loop.h"

/**
 * struct signals - what has been asked for
 * @stop: times that SIGTERM or SIGINT came
 * @dump, @reload: SIGUSR1, SIGHUP came; reset by what has acted on it
 */
struct signals {
	struct loop_op op;
	struct loop *loop;
	int fd;
	unsigned int stop;
	bool dump, reload;
};

int signals_open(struct signals *signals, struct loop *loop);
void signals_close(struct signals *signals);
void signals_poll(struct signals *signals);

#endif
