/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where kernels differ in what an eventfd takes.  See compat.h.
 */
#ifndef LSMEM_COMPAT_EVENTFD_H
#define LSMEM_COMPAT_EVENTFD_H

#include <linux/eventfd.h>

#include "probed.h"

/* Add 1 to an eventfd. */
static inline void lsmem_eventfd_signal(struct eventfd_ctx *eventfd)
{
#ifdef LSMEM_HAVE_EVENTFD_ONE
	eventfd_signal(eventfd);
#else
	eventfd_signal(eventfd, 1);
#endif
}

#endif
