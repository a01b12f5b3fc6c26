/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rules that a test can switch off, to prove that it detects the violation. RULE(name) is true in
 * the daemon. In tests/unit it is false if the test has switched the rule off. Each RULE() stands
 * in the code that enforces the rule; rules.h has the number of the invariant.
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
