// SPDX-License-Identifier: GPL-2.0
/*
 * CRC-32C of entries: short ones without a call through the kernel's crypto layer, long ones by
 * three streams at a time.
 *
 * On x86-64 an instruction takes 8 bytes each cycle but answers after three, so that one
 * stream of them is bound by their latency.  A block of LSMEM_CRC_BLOCK bytes is cut into three
 * lanes whose CRCs are computed side by side.  They are joined with a table for "append one
 * lane of zeroes", which is linear in the CRC: CRC(a b c) = Z(Z(CRC(a)) ^ CRC(b)) ^ CRC(c), where
 * the CRCs of b and c begin at 0.  No vector registers are used, so that it may be called
 * anywhere.  Elsewhere it is the kernel's crc32c().
 *
 * lsmem_crc32c_copy() copies in the same pass: a word is loaded once, goes into the CRC and is
 * stored past the caches.  The log is written from end to end and rarely read soon; an ordinary
 * store would first fetch the line that it overwrites.  So copy and CRC of a block take less time
 * than a memcpy().
 *
 * Source: Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction",
 * Intel, 2011; the join by tables instead of a carry-less multiplication.
 *
 * No locks: the table is constant after lsmem_crc32c_init().
 */
#include <linux/cache.h>
#include <linux/crc32c.h>
#include <linux/init.h>
#include <linux/instrumented.h>
#include <linux/string.h>

#include "crc32c.h"

#ifdef CONFIG_X86_64

#include <asm/cpufeature.h>

#define LSMEM_CRC_LANE		256u	/* bytes, a multiple of 8 */
#define LSMEM_CRC_BLOCK		(3 * LSMEM_CRC_LANE)

bool lsmem_crc_fast __ro_after_init;
/* What a CRC becomes after LSMEM_CRC_LANE bytes of zeroes, by each of its bytes */
static u32 lsmem_crc_zeroes[4][256] __ro_after_init;

static u32 lsmem_crc_append_zeroes(u32 crc)
{
	return lsmem_crc_zeroes[0][crc & 0xff] ^ lsmem_crc_zeroes[1][crc >> 8 & 0xff] ^
	       lsmem_crc_zeroes[2][crc >> 16 & 0xff] ^ lsmem_crc_zeroes[3][crc >> 24];
}

static u32 lsmem_crc_block(u32 crc, const void *data)
{
	u64 a = crc, b = 0, c = 0;
	u32 i;

	for (i = 0; i < LSMEM_CRC_LANE; i += sizeof(u64)) {
		a = lsmem_crc_word(a, *(const u64 *)(data + i));
		b = lsmem_crc_word(b, *(const u64 *)(data + LSMEM_CRC_LANE + i));
		c = lsmem_crc_word(c, *(const u64 *)(data + 2 * LSMEM_CRC_LANE + i));
	}
	return lsmem_crc_append_zeroes(lsmem_crc_append_zeroes(a) ^ b) ^ c;
}

/**
 * lsmem_crc32c - the CRC-32C of some bytes
 * @crc: seed, or the CRC of the bytes before
 * @data: the bytes
 * @length: how many
 *
 * Context: any.
 * Return: the CRC, without final inversion.
 */
u32 lsmem_crc32c(u32 crc, const void *data, size_t length)
{
	u64 wide;

	if (!lsmem_crc_fast)
		return crc32c(crc, data, length);
	for (; length >= LSMEM_CRC_BLOCK; length -= LSMEM_CRC_BLOCK, data += LSMEM_CRC_BLOCK)
		crc = lsmem_crc_block(crc, data);
	for (wide = crc; length >= sizeof(u64); length -= sizeof(u64), data += sizeof(u64))
		wide = lsmem_crc_word(wide, *(const u64 *)data);
	crc = wide;
	if (length & sizeof(u32)) {
		crc = lsmem_crc_half(crc, *(const u32 *)data);
		data += sizeof(u32);
	}
	for (length %= sizeof(u32); length; length--, data++)
		asm("crc32b %1, %0" : "+r" (crc) : "m" (*(const u8 *)data));
	return crc;
}

/* Take a word on its way: what is stored is what the CRC has seen, also if the source changes. */
static __always_inline u64 lsmem_crc_move(u64 crc, void *to, const void *from)
{
	u64 word = READ_ONCE(*(const u64 *)from);

	asm volatile("movnti %1, %0" : "=m" (*(u64 *)to) : "r" (word));
	return lsmem_crc_word(crc, word);
}

static u32 lsmem_crc_move_block(u32 crc, void *to, const void *from)
{
	u64 a = crc, b = 0, c = 0;
	u32 i;

	for (i = 0; i < LSMEM_CRC_LANE; i += sizeof(u64)) {
		a = lsmem_crc_move(a, to + i, from + i);
		b = lsmem_crc_move(b, to + LSMEM_CRC_LANE + i, from + LSMEM_CRC_LANE + i);
		c = lsmem_crc_move(c, to + 2 * LSMEM_CRC_LANE + i, from + 2 * LSMEM_CRC_LANE + i);
	}
	return lsmem_crc_append_zeroes(lsmem_crc_append_zeroes(a) ^ b) ^ c;
}

/**
 * lsmem_crc32c_copy - copy bytes, and compute their CRC-32C
 * @crc: seed, or the CRC of the bytes before
 * @to: where
 * @from: the bytes; they may change meanwhile
 * @length: how many
 *
 * The caller orders its stores with wmb() before it lets other processors find them: those made
 * here are not ordered by smp_wmb() or a release.
 *
 * Context: any.
 * Return: the CRC of the bytes at @to, without final inversion.
 */
u32 lsmem_crc32c_copy(u32 crc, void *to, const void *from, size_t length)
{
	size_t words = lsmem_crc_fast ? length - length % sizeof(u64) : 0, done = 0;
	u64 wide;

	instrument_write(to, words);
	for (; words - done >= LSMEM_CRC_BLOCK; done += LSMEM_CRC_BLOCK)
		crc = lsmem_crc_move_block(crc, to + done, from + done);
	for (wide = crc; done < words; done += sizeof(u64))
		wide = lsmem_crc_move(wide, to + done, from + done);
	if (done == length)
		return wide;
	memcpy(to + done, from + done, length - done);
	return lsmem_crc32c(wide, to + done, length - done);
}

/**
 * lsmem_crc32c_init - make the table
 *
 * Context: once, before any lsmem_crc32c().
 */
void __init lsmem_crc32c_init(void)
{
	static const u8 zeroes[LSMEM_CRC_LANE];
	u32 byte, value;

	for (byte = 0; byte < 4; byte++)
		for (value = 0; value < 256; value++)
			lsmem_crc_zeroes[byte][value] = crc32c(value << (8 * byte), zeroes,
							       sizeof(zeroes));
	lsmem_crc_fast = boot_cpu_has(X86_FEATURE_XMM4_2);
}

#else

u32 lsmem_crc32c(u32 crc, const void *data, size_t length)
{
	return crc32c(crc, data, length);
}

u32 lsmem_crc32c_copy(u32 crc, void *to, const void *from, size_t length)
{
	memcpy(to, from, length);
	return lsmem_crc32c(crc, to, length);
}

void __init lsmem_crc32c_init(void)
{
}

#endif
