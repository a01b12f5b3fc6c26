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

#define LSMEM_RULES(X)								\
	X(ACK_AFTER_FLUSH, "2: acknowledged before the flush")			\
	X(ACK_AFTER_LISTED, "2: opened before it is listed")			\
	X(HEADER_BEFORE_LISTED, "2: listed before its header is durable")	\
	X(FLUSH_FAILED, "3: a failed flush is tried again")			\
	X(CLOSE_AFTER_FLUSH, "8: closed before footer and directory are durable") \
	X(FOOTER_AFTER_DATA, "8: footer written before the data are durable")	\
	X(RETIRE_BARRIER, "9: retired before its superseders are durable")	\
	X(FRAME_REUSE, "10: frame reused before a digest without it is durable") \
	X(ERA, "14: recovery does not raise the era")				\
	X(GENERATION, "14: recovery does not raise the generations")		\
	X(SEAL, "15: recovery leaves an open tail open")			\
	X(ONE_IN_FLIGHT, "16: a block is written twice at once")		\
	X(TAIL_ZERO, "16: the tail block is written with what lies behind it")	\
	X(FLUSH_COVERS, "16: a flush covers what completes after its issue")	\
	X(FORMAT_FORCE, "18: a full backup is formatted")			\
	X(DIGEST_FLUSH, "10: a digest counts before its flush")			\
	X(DIGEST_HALF, "1: a full digest overwrites the chain it continues")	\
	X(SUPER_OLDER, "the newer superblock slot is overwritten")		\
	X(COMMIT_FLUSH, "20: recovery does not flush its commit point")		\
	X(CEILING_DURABLE, "14: a generation ceiling counts before it is durable") \
	X(WHOLE_RANGES, "2: half an entry is acknowledged")			\
	X(RESUME_FLUSH, "what a killed daemon wrote is built on unflushed")	\
	X(RESUME_HOLD, "a resumed tail is written shorter than it was")	\
	X(PROOF_RECORD, "a commit record beyond the cut is ignored")		\
	X(PROOF_LENGTH, "a digest's length beyond the cut is ignored")		\
	X(PROOF_FOOTER, "a footer beyond the cut is ignored")			\
	X(PROOF_DIGEST, "a digest beyond the end of the chain is ignored")	\
	X(PROOF_HEADER, "a segment's wrong header is ignored")			\
	/* of the model of the kernel in tests/unit */				\
	X(K_LOSER_PADDED, "7: the loser of an exchange is not padded")		\
	X(K_VERSION_ORDER, "6: versions not in the order of exchanges")		\
	X(K_CLOSE_SUCCESSOR, "8: a head rolls over to what is not listed")	\
	X(K_SURVIVORS, "9: retired before its survivors are given out")	\
	X(K_DELETE_BARRIER, "13: a delete record goes with its object's segment") \
	X(K_RELOCATE_DELETE, "13: a delete record is not relocated")

enum lsmem_rule {
#define LSMEM_RULE_NAME(name, text) RULE_##name,
	LSMEM_RULES(LSMEM_RULE_NAME)
#undef LSMEM_RULE_NAME
	RULE_COUNT
};

#ifdef LSMEM_MUTATIONS
extern uint64_t lsmem_mutation;
#define RULE(name) (!(lsmem_mutation >> RULE_##name & 1))
#else
#define RULE(name) true
#endif

#endif
