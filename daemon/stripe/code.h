/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The erasure code of a coded store: systematic Reed-Solomon over GF(2^8), by ISA-L. Of k data shards m parity shards
 * are computed; any k of the k + m shards give the others. See Documentation/stripes.rst, The code.
 *
 * Shards are numbered, the data shards first; a set of them is a mask. Column x of a shard depends on column x of the
 * others only, so any range of columns can be coded by itself.
 */
#ifndef LSMEMD_CODE_H
#define LSMEMD_CODE_H

#include <stddef.h>
#include <stdint.h>

#define CODE_SHARDS	16u	/* most shards, k + m */

struct code;

struct code *code_new(uint32_t k, uint32_t m);
void code_free(struct code *code);
uint32_t code_k(const struct code *code);
uint32_t code_m(const struct code *code);
void code_encode(const struct code *code, size_t bytes, const void *const *data, void *const *parity);
void code_update(const struct code *code, uint32_t shard, size_t bytes, const void *data, void *const *parity);
int code_decode(struct code *code, uint32_t there, uint32_t want, size_t bytes, void *const *shards);

#endif
