// SPDX-License-Identifier: GPL-2.0
/* lsmemcached: numbers and keys in the text of commands. */
#include <ctype.h>
#include <string.h>

#include "cached.h"

/**
 * token_is - compare a word
 * @token: word of a command
 * @text: to compare with
 *
 * Return: true: they are the same.
 */
bool token_is(const struct cached_token *token, const char *text)
{
	return strlen(text) == token->length && !memcmp(token->at, text, token->length);
}

/**
 * token_u64 - parse decimal digits
 * @token: word of a command
 * @number: out
 *
 * Return: false: it is no number, or does not fit.
 */
bool token_u64(const struct cached_token *token, uint64_t *number)
{
	uint64_t value = 0;
	size_t i;

	for (i = 0; i < token->length; i++) {
		unsigned int digit = (unsigned char)token->at[i] - '0';

		if (digit > 9 || __builtin_mul_overflow(value, 10u, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return false;
	}
	*number = value;
	return i > 0;
}

/**
 * token_u32 - parse decimal digits
 * @token: word of a command
 * @number: out
 *
 * Return: false: it is no number, or does not fit.
 */
bool token_u32(const struct cached_token *token, uint32_t *number)
{
	uint64_t value;

	if (!token_u64(token, &value) || value > UINT32_MAX)
		return false;
	*number = (uint32_t)value;
	return true;
}

/**
 * token_i32 - parse decimal digits, with or without a minus
 * @token: word of a command
 * @number: out
 *
 * Return: false: it is no number, or does not fit.
 */
bool token_i32(const struct cached_token *token, int32_t *number)
{
	bool minus = token->length && *token->at == '-';
	struct cached_token digits = { token->at + minus, token->length - minus };
	uint64_t value;

	if (!token_u64(&digits, &value) || value > (uint64_t)INT32_MAX + minus)
		return false;
	*number = (int32_t)(minus ? -(int64_t)value : (int64_t)value);
	return true;
}

/**
 * put_u64 - write decimal digits
 * @at: room for 20
 * @number: to write
 *
 * Return: what follows them.
 */
char *put_u64(char *at, uint64_t number)
{
	char digits[20], *digit = digits + sizeof(digits);
	size_t length;

	do {
		*--digit = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	length = (size_t)(digits + sizeof(digits) - digit);
	memcpy(at, digit, length);
	return at + length;
}

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/**
 * base64_decode - decode a key
 * @from: text, padded with =
 * @length: bytes of it
 * @to: out
 * @room: bytes at @to
 *
 * Return: bytes written; 0: it is no base64, or longer than @room.
 */
size_t base64_decode(const char *from, size_t length, void *to, size_t room)
{
	unsigned char *out = to;
	size_t i, done = 0, padding = 0;
	uint32_t bits = 0;

	if (!length || length % 4)
		return 0;
	for (i = 0; i < length; i++) {
		const char *found = from[i] ? strchr(base64, from[i]) : NULL;

		if (from[i] == '=' && i + 2 >= length)
			padding++;
		else if (!found || padding)
			return 0;
		bits = bits << 6 | (found ? (uint32_t)(found - base64) : 0);
		if (i % 4 == 3) {
			size_t j, bytes = 3 - padding;

			if (done + bytes > room)
				return 0;
			for (j = 0; j < bytes; j++)
				out[done++] = (unsigned char)(bits >> (16 - 8 * j));
			bits = 0;
		}
	}
	return done;
}

/**
 * base64_encode - encode a key
 * @from: bytes
 * @length: of them
 * @to: out, room for 4 bytes for each 3 of @from, and 4
 *
 * Return: what follows the text.
 */
char *base64_encode(const void *from, size_t length, char *to)
{
	const unsigned char *in = from;
	size_t i;

	for (i = 0; i < length; i += 3) {
		uint32_t bits = (uint32_t)in[i] << 16 | (i + 1 < length ? (uint32_t)in[i + 1] << 8 : 0) |
				(i + 2 < length ? in[i + 2] : 0);

		*to++ = base64[bits >> 18];
		*to++ = base64[bits >> 12 & 63];
		*to++ = i + 1 < length ? base64[bits >> 6 & 63] : '=';
		*to++ = i + 2 < length ? base64[bits & 63] : '=';
	}
	return to;
}

/**
 * is_plain - whether a byte needs no encoding in a URI
 * @byte: it
 *
 * Return: it is a letter, a digit or one of -._~
 */
bool is_plain(unsigned char byte)
{
	return byte < 0x80 && (isalnum(byte) || byte == '-' || byte == '.' || byte == '_' || byte == '~');
}

/**
 * is_of_word - whether a byte can be in a word of a command
 * @byte: it
 *
 * Return: it is no blank and no control character.
 */
bool is_of_word(unsigned char byte)
{
	return byte > ' ' && byte != 0x7f;
}

/**
 * put_encoded - write bytes, some of them as % and two digits
 * @at: out: room for three times as many
 * @bytes: to write
 * @length: of them
 * @as_is: those that are written as they are
 *
 * Return: behind the last one.
 */
char *put_encoded(char *at, const char *bytes, size_t length, bool (*as_is)(unsigned char byte))
{
	static const char digits[] = "0123456789ABCDEF";

	for (; length; length--, bytes++) {
		unsigned char byte = (unsigned char)*bytes;

		if (as_is(byte)) {
			*at++ = (char)byte;
			continue;
		}
		*at++ = '%';
		*at++ = digits[byte >> 4];
		*at++ = digits[byte & 15];
	}
	return at;
}
