// SPDX-License-Identifier: GPL-2.0
/* Signals: see signals.h. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "log.h"
#include "signals.h"

/**
 * signals_poll - read the pending signals, without waiting
 * @signals: updated
 */
void signals_poll(struct signals *signals)
{
	struct signalfd_siginfo info;

	while (read(signals->fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR1)
			signals->dump = true;
		else if (info.ssi_signo == SIGUSR2)
			signals->cancel = true;
		else if ((int)info.ssi_signo == SIGRTMIN)
			signals->ask = true;
		else if (info.ssi_signo == SIGHUP)
			signals->reload = true;
		else
			signals->stop++;
	}
}

static void signals_done(struct loop_op *op, int res)
{
	struct signals *signals = (struct signals *)((char *)op - offsetof(struct signals, op));

	if (res < 0 && res != -EINTR && res != -EAGAIN) {
		log_err("signals cannot be waited for: %s", strerror(-res));
		return;
	}
	signals_poll(signals);
	loop_poll(signals->loop, &signals->op, signals->fd, POLLIN);
}

/**
 * signals_open - deliver signals through the loop from now on
 * @signals: out
 * @loop: the loop
 *
 * Context: before other threads start: they must inherit the signal mask.
 * Return: 0 or a negative errno.
 */
int signals_open(struct signals *signals, struct loop *loop)
{
	sigset_t set;

	memset(signals, 0, sizeof(*signals));
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGRTMIN);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals->fd < 0)
		return -errno;
	signals->loop = loop;
	signals->op.done = signals_done;
	loop_poll(loop, &signals->op, signals->fd, POLLIN);
	return 0;
}

/**
 * signals_close - close the signalfd
 * @signals: the signals; their loop is closed already
 */
void signals_close(struct signals *signals)
{
	close(signals->fd);
}
