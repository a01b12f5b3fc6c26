// SPDX-License-Identifier: GPL-2.0
/*
 * CRC-32C as lsmem_format.h needs it: like the kernel's crc32c(), without inversion of seed or
 * result. ISA-L's crc32_iscsi() computes the same, with other types and another order of arguments.
 * It is made for long buffers; a recovery computes several CRCs of some bytes for each entry, for
 * which the instruction of x86 processors is faster.
 */
#include <isa-l.h>
#include <limits.h>
#include <string.h>

#include <lsmem_format.h>

#ifdef __x86_64__

#define SHORT_BYTES	255u	/* up to this length the instruction alone is faster */

__attribute__((target("sse4.2")))
static __u32 crc_short(__u32 seed, const unsigned char *from, __kernel_size_t length)
{
	unsigned long long crc = seed, word;

	for (; length >= sizeof(word); length -= sizeof(word), from += sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		crc = __builtin_ia32_crc32di(crc, word);
	}
	seed = (__u32)crc;
	for (; length; length--)
		seed = __builtin_ia32_crc32qi(seed, *from++);
	return seed;
}

static int crc_is_short(__kernel_size_t length)
{
	return length <= SHORT_BYTES && __builtin_cpu_supports("sse4.2");
}

#else

static __u32 crc_short(__u32 seed, const unsigned char *from, __kernel_size_t length)
{
	return crc32_iscsi((unsigned char *)from, (int)length, seed);
}

static int crc_is_short(__kernel_size_t length)
{
	(void)length;
	return 0;
}

#endif

/**
 * lsmem_crc32c - continue a CRC
 * @seed: CRC of the bytes before; ~0: there are none
 * @data: the bytes
 * @length: how many
 *
 * Return: the CRC of the bytes before and @data.
 */
__u32 lsmem_crc32c(__u32 seed, const void *data, __kernel_size_t length)
{
	const unsigned char *from = data;

	if (crc_is_short(length))
		return crc_short(seed, from, length);
	while (length) {
		int part = length < INT_MAX ? (int)length : INT_MAX;

		seed = crc32_iscsi((unsigned char *)from, part, seed);
		from += part;
		length -= part;
	}
	return seed;
}
