/* SPDX-License-Identifier: GPL-2.0 */
/* Signals, delivered through the loop. */
#ifndef LSMEMD_SIGNALS_H
#define LSMEMD_SIGNALS_H

#include <stdbool.h>

#include "loop.h"

/**
 * struct signals - requests that arrived as signals
 * @op: the poll of @fd
 * @loop: polls @fd
 * @fd: a signalfd
 * @stop: number of SIGTERM and SIGINT that arrived
 * @dump: SIGUSR1 arrived; the code that writes the status clears it
 * @reload: SIGHUP arrived; the code that reads the configuration clears it
 * @cancel: SIGUSR2 arrived; the code that answers it in the status clears it
 * @ask: SIGRTMIN arrived; likewise
 */
struct signals {
	struct loop_op op;
	struct loop *loop;
	int fd;
	unsigned int stop;
	bool dump, reload, cancel, ask;
};

int signals_open(struct signals *signals, struct loop *loop);
void signals_close(struct signals *signals);
void signals_poll(struct signals *signals);

#endif
