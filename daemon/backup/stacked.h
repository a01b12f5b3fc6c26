/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Does a backup lie on lsmem itself?  It must not: the daemon would wait for
 * a store that waits for the daemon.  Looked through are partitions, device
 * mapper, md and bcache (slaves), loop devices, zram's writeback device, and a
 * file's filesystem, btrfs with several devices and the upper layer of an
 * overlay included.  What a network brings back to this machine is not seen.
 */
#ifndef LSMEMD_STACKED_H
#define LSMEMD_STACKED_H

#include <stdbool.h>
#include <stddef.h>

bool stacked_on_lsmem(int fd, char *via, size_t room);

#endif
