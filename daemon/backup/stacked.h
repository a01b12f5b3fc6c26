/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finds out whether a backup lies on lsmem itself. That is refused: the daemon would wait for a
 * store that waits for the daemon.
 *
 * The search follows partitions, device mapper, md and bcache (slaves), loop devices, the
 * writeback device of zram, and the filesystem of a file, including btrfs on several devices and
 * the upper layer of an overlay. It does not see a device that reaches this host by a network.
 */
#ifndef LSMEMD_STACKED_H
#define LSMEMD_STACKED_H

#include <stdbool.h>
#include <stddef.h>

bool stacked_on_lsmem(int fd, char *via, size_t room);

#endif
