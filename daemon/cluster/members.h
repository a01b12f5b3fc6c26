/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The members: the backups of a store, as its owner has written them to etcd (cluster.h). They help
 * to find the backups and to name a missing one. Only the digests tell what the backups hold.
 */
#ifndef LSMEMD_MEMBERS_H
#define LSMEMD_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "lsmem_format.h"

#define MEMBERS_TEXT_BYTES	9216u	/* all members, in JSON */
#define MEMBERS_ERROR_BYTES	96u

/**
 * struct member - a backup
 * @name: of its section in the configuration
 * @domain: its failure domain
 * @path: as in the configuration, or "HOST:/PATH" if only that host can reach it; long enough for
 *	every path that other hosts can reach
 * @state: as in the status file
 * @secret: the host that keeps it asks for proof of a secret
 * @incarnation: low half; 0: not known
 *
 * Members are compared byte by byte: there is no padding, and the bytes after a text are zero.
 */
struct member {
	char name[16], domain[32], path[384], state[11];
	bool secret;
	uint32_t incarnation;
};

/**
 * struct members - all backups of a store, in the order of the configuration
 * @term: of the owner that wrote them
 * @nr: number of backups; 0: nothing is known
 * @member: the backups
 */
struct members {
	uint64_t term;
	unsigned int nr;
	struct member member[LSMEM_BACKUPS];
};

bool members_far(const char *path);
void members_copy(char *to, size_t room, const char *from);
void members_print(const struct members *members, char text[MEMBERS_TEXT_BYTES]);
bool members_parse(const char *text, struct members *members, char error[MEMBERS_ERROR_BYTES]);

#endif
