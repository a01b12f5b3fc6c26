/* SPDX-License-Identifier: GPL-2.0 */
/* Reading what a snapshot has of a tiered store that is on backups only.  See through.c; frozen.c has the descriptor. */
#ifndef LSMEM_THROUGH_H
#define LSMEM_THROUGH_H

long lsmem_through_ioctl(void *context, void *arg);

#endif
