/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The configuration file: sections, keys, bounds.  One store and its backup
 * to a file; a daemon for each.  Nothing but the file is looked at here: what
 * depends on the machine (does the path exist, is the backup large enough) is
 * the caller's.
 */
#ifndef LSMEMD_CONFIG_H
#define LSMEMD_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "../uapi/lsmem.h"

#define CONFIG_ERROR_BYTES	(PATH_MAX + 512)

/**
 * struct config - what a configuration file says
 * @store.name: wanted name, "" for any
 * @store.kind: enum lsmem_store_kind
 * @store.bytes: memory of the log; 0: not given
 * @store.handles: most objects; 0: not given
 * @store.kind_line and the like: line of the key, 0 if it is not there
 * @backup.size: bytes of the file to create; 0: not given
 * @backup.lock_wait: seconds to wait for a predecessor's I/O to end
 * @metrics.listen: @metrics.address as it is written, for messages
 */
struct config {
	struct {
		char name[LSMEM_NAME_BYTES];
		uint32_t kind;
		uint64_t bytes;
		uint64_t handles;
		uid_t uid;
		gid_t gid;
		mode_t mode;
		unsigned int name_line, kind_line, size_line, handles_line, mode_line, owner_line;
	} store;
	struct {
		char path[PATH_MAX];
		uint64_t size;
		unsigned int lock_wait;
		unsigned int path_line, size_line, lock_wait_line;
	} backup;
	struct {
		struct sockaddr_storage address;
		socklen_t length;
		char listen[64];
		unsigned int listen_line;
	} metrics;
};

#define CONFIG_STORE_BYTES_DEFAULT	(256ull << 20)
#define CONFIG_STORE_BYTES_MIN		(128ull << 20)
#define CONFIG_STORE_BYTES_MAX		(1ull << 40)
#define CONFIG_LOCK_WAIT_DEFAULT	60u

int config_read(const char *path, struct config *config, char error[CONFIG_ERROR_BYTES]);

#endif
