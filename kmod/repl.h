/* SPDX-License-Identifier: GPL-2.0 */
/* Replication: the stream to the daemon, and its acknowledgements.  See repl.c. */
#ifndef LSMEM_REPL_H
#define LSMEM_REPL_H

struct lsmem_attach;

int lsmem_repl_attach(struct lsmem_attach *attach);

#endif
