/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rules that a test can switch off, to see that it notices: RULE(name) is true
 * in the daemon, and in tests/unit unless the test removed that rule.  Each
 * stands beside what enforces it, with the invariant's number.
 */
#ifndef LSMEMD_RULE_H
#define LSMEMD_RULE_H

#include <stdbool.h>
#include <stdint.h>

enum lsmem_rule {
#define RULE_ENTRY(name, text) RULE_##name,
#include "rules.h"
#undef RULE_ENTRY
	RULE_COUNT
};

#ifdef LSMEM_MUTATIONS
extern uint64_t lsmem_mutation;
#define RULE(name) (!(lsmem_mutation >> RULE_##name & 1))
#else
#define RULE(name) true
#endif

#endif
