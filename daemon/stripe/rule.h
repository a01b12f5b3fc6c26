/* SPDX-License-Identifier: GPL-2.0 */
/*
 * STRIPE_RULE(name): true in the daemon; false in a test that has switched the rule off. As RULE() of base/rule.h, whose
 * mask is nearly full.
 */
#ifndef LSMEMD_STRIPE_RULE_H
#define LSMEMD_STRIPE_RULE_H

#include <stdbool.h>
#include <stdint.h>

enum stripe_rule {
#define STRIPE_RULE_ENTRY(name, text) STRIPE_RULE_##name,
#include "rules.h"
#undef STRIPE_RULE_ENTRY
	STRIPE_RULE_COUNT
};

#ifdef LSMEM_MUTATIONS
extern uint64_t stripe_mutation;
#define STRIPE_RULE(name) (!(stripe_mutation >> STRIPE_RULE_##name & 1))
#else
#define STRIPE_RULE(name) true
#endif

#endif
