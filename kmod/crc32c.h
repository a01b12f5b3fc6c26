/* SPDX-License-Identifier: GPL-2.0 */
/*
 * CRC-32C of entries.  See crc32c.c.  lsmem_crc32c() chooses between the processor's instruction
 * and the kernel's crc32c(); log.c and entry.c call it for payloads, blockio.c
 * lsmem_crc32c_copy().  entry.c computes the CRC of a header from lsmem_crc_word().
 */
#ifndef LSMEM_CRC32C_H
#define LSMEM_CRC32C_H

#include <linux/types.h>

#ifdef CONFIG_X86_64

/* Does this processor have the instructions? */
extern bool lsmem_crc_fast;

/* The next 8 bytes of a CRC. */
static __always_inline u64 lsmem_crc_word(u64 crc, u64 word)
{
	asm("crc32q %1, %0" : "+r" (crc) : "rm" (word));
	return crc;
}

/* The next 4 bytes. */
static __always_inline u32 lsmem_crc_half(u32 crc, u32 word)
{
	asm("crc32l %1, %0" : "+r" (crc) : "rm" (word));
	return crc;
}

#endif

u32 lsmem_crc32c(u32 crc, const void *data, size_t length);
u32 lsmem_crc32c_copy(u32 crc, void *to, const void *from, size_t length);
void lsmem_crc32c_init(void);

#endif
