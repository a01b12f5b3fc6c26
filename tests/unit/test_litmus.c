// SPDX-License-Identifier: GPL-2.0
/* The named scenarios, each a test. */
#include "litmus.h"
#include "../common/tap.h"

uint64_t lsmem_mutation;

int main(void)
{
	uint32_t i;

	for (i = 0; i < nr_litmus; i++)
		tap_ok(litmus[i].run(), "%s", litmus[i].name);
	return tap_end();
}
