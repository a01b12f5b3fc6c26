/* SPDX-License-Identifier: GPL-2.0 */
/* Random numbers by Zipf's law.  See zipf.c. */
#ifndef TESTS_COMMON_ZIPF_H
#define TESTS_COMMON_ZIPF_H

#include <stdint.h>

#define ZIPF_EXPONENT	0.99	/* of zipf_setup() */

void zipf_setup(uint64_t nr);
void zipf_setup_skewed(uint64_t nr, double exponent);
uint64_t zipf_next(uint64_t *state);

#endif
