/* SPDX-License-Identifier: GPL-2.0 */
/* Recognizes other contents of a backup with libblkid: filesystems, RAIDs, partition tables. */
#ifndef LSMEMD_FOREIGN_H
#define LSMEMD_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FOREIGN_BYTES	128u

bool foreign_name(const void *head, const void *tail, size_t length, uint64_t bytes,
		  char name[FOREIGN_BYTES]);

#endif
