// SPDX-License-Identifier: GPL-2.0
/*
 * CRC-32C as lsmem_format.h needs it: like the kernel's crc32c(), without inversion of seed or
 * result. ISA-L's crc32_iscsi() computes the same, with other types and another order of arguments.
 */
#include <isa-l.h>
#include <limits.h>

#include <lsmem_format.h>

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

	while (length) {
		int part = length < INT_MAX ? (int)length : INT_MAX;

		seed = crc32_iscsi((unsigned char *)from, part, seed);
		from += part;
		length -= part;
	}
	return seed;
}
