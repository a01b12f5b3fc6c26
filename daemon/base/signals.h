/* SPDX-License-Identifier: GPL-2.0 */
/* Signals, delivered through the loop. */
#ifndef LSMEMD_SIGNALS_H
#define LSMEMD_SIGNALS_H

#include <stdbool.h>

#include "loop.h"

/**
 * struct signals - requests that arrived as signals
 * @op: the poll of @fd
 * @loop: that polls it
 * @fd: a signalfd
 * @stop: how often SIGTERM or SIGINT arrived
 * @dump: SIGUSR1 arrived; cleared by the code that writes the status
 * @reload: SIGHUP arrived; cleared by the code that reads the configuration
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
