/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Contents of objects and blocks that can be checked.  They are 8-byte words: the first is the
 * serial number of the write, the second the id of the object or block, and each other word
 * depends on both and on its place.  So bytes of another write, of another object or from
 * another place are found to be wrong.
 */
#ifndef TESTS_COMMON_CONTENT_H
#define TESTS_COMMON_CONTENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CONTENT_MIN	16u	/* bytes that hold serial and id */

/* Word @i */
static inline uint64_t content_word(uint64_t id, uint64_t serial, uint32_t i)
{
	if (i < 2)
		return i ? id : serial;
	return (id * 0x9e3779b97f4a7c15ull + serial) * 0xd6e8feb86659fd93ull +
	       i * 0x0101010101010101ull;
}

/* Byte @i, as content_fill() stores it on a little-endian machine */
static inline uint8_t content_byte(uint64_t id, uint64_t serial, uint32_t i)
{
	return (uint8_t)(content_word(id, serial, i / 8) >> i % 8 * 8);
}

static inline void content_fill(void *data, uint32_t length, uint64_t id, uint64_t serial)
{
	uint8_t *bytes = (uint8_t *)data;	/* a cast for C++ */
	uint64_t word;
	uint32_t i;

	for (i = 0; i < length; i += 8) {
		word = content_word(id, serial, i / 8);
		memcpy(bytes + i, &word, length - i < 8 ? length - i : 8);
	}
}

/* Is every byte the one that content_fill() writes? */
static inline bool content_is(const void *data, uint32_t length, uint64_t id, uint64_t serial)
{
	const uint8_t *bytes = (const uint8_t *)data;
	uint64_t word;
	uint32_t i;

	for (i = 0; i < length; i += 8) {
		word = content_word(id, serial, i / 8);
		if (memcmp(bytes + i, &word, length - i < 8 ? length - i : 8))
			return false;
	}
	return true;
}

/*
 * Is every byte right for @id and the serial number in the first word?
 * @length: in bytes; false below CONTENT_MIN.  @serial: out, the first word.
 */
static inline bool content_right(const void *data, uint32_t length, uint64_t id, uint64_t *serial)
{
	if (length < CONTENT_MIN)
		return false;
	memcpy(serial, data, sizeof(*serial));
	return content_is(data, length, id, *serial);
}

#endif
