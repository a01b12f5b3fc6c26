/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parses the address of a namespace of NVMe over Fabrics, and the secrets shared with its target.
 * Nothing here does I/O: see backup/nvmf.c.
 */
#ifndef LSMEMD_NVMF_H
#define LSMEMD_NVMF_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"

#define NVMF_SCHEME	"nvmf"	/* followed by +tcp or +rdma */
#define NVMF_PORT	"4420"	/* if the address names none */
#define NVMF_NQN	224u	/* bytes, including the final zero */
#define NVMF_SECRET	128u	/* likewise */

#define NVMF_FORM	"nvmf+tcp://ADDRESS[:PORT]/SUBNQN[?ns=N] or nvmf+rdma://.."

/**
 * struct nvmf_address - nvmf+TRANSPORT://HOST[:PORT]/NQN[?ns=NSID]
 * @transport: "tcp" or "rdma"
 * @host: a numeric address, in the form that the kernel writes to sysfs
 * @port: NVMF_PORT if the address names none
 * @nqn: NQN of the subsystem
 * @nsid: id of the namespace; 1 if the address names none
 */
struct nvmf_address {
	const char *transport;
	char host[INET6_ADDRSTRLEN];
	char port[ADDRESS_PORT];
	char nqn[NVMF_NQN];
	uint32_t nsid;
};

/**
 * struct nvmf_secrets - secrets of DH-HMAC-CHAP
 * @host: the host proves it to the target
 * @target: the target proves it to the host; "": the target proves nothing
 */
struct nvmf_secrets {
	char host[NVMF_SECRET];
	char target[NVMF_SECRET];
};

bool nvmf_scheme(const char *path);
bool nvmf_address(const char *text, struct nvmf_address *address);
bool nvmf_secrets(const uint8_t *text, size_t length, struct nvmf_secrets *secrets);

#endif
