// SPDX-License-Identifier: GPL-2.0
/*
 * CRC-32C as lsmem_format.h wants it: raw, like the kernel's crc32c(), no
 * inversion of seed or result.  ISA-L's crc32_iscsi() is the same but for the
 * order and types of its arguments.
 */
#include <isa-l.h>
#include <limits.h>

#include <lsmem_format.h>

/**
 * lsmem_crc32c - continue a CRC
 * @seed: CRC so far
 * @data: the bytes
 * @length: how many
 * Return: the CRC over what @seed covered and @data.
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
