/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How the configuration names a namespace of NVMe over Fabrics, and how the
 * secrets that are shared with its target are written.  Nothing here does I/O:
 * see backup/nvmf.c.
 */
#ifndef LSMEMD_NVMF_H
#define LSMEMD_NVMF_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"

#define NVMF_SCHEME	"nvmf"	/* and +tcp or +rdma */
#define NVMF_PORT	"4420"	/* unless the address says otherwise */
#define NVMF_NQN	224u	/* bytes, a final zero among them */
#define NVMF_SECRET	128u	/* likewise */

#define NVMF_FORM	"nvmf+tcp://ADDRESS[:PORT]/SUBNQN[?ns=N] or nvmf+rdma://.."

/**
 * struct nvmf_address - nvmf+TRANSPORT://HOST[:PORT]/NQN[?ns=NSID]
 * @transport: "tcp" or "rdma"
 * @host: a number, in the one way in which the kernel writes it
 * @port: NVMF_PORT unless it is said
 * @nqn: of the subsystem
 * @nsid: of the namespace, 1 unless it is said
 */
struct nvmf_address {
	const char *transport;
	char host[INET6_ADDRSTRLEN];
	char port[ADDRESS_PORT];
	char nqn[NVMF_NQN];
	uint32_t nsid;
};

/**
 * struct nvmf_secrets - of DH-HMAC-CHAP
 * @host: by which the host proves itself to the target
 * @target: by which the target proves itself, "": it need not
 */
struct nvmf_secrets {
	char host[NVMF_SECRET];
	char target[NVMF_SECRET];
};

bool nvmf_scheme(const char *path);
bool nvmf_address(const char *text, struct nvmf_address *address);
bool nvmf_secrets(const uint8_t *text, size_t length, struct nvmf_secrets *secrets);

#endif
