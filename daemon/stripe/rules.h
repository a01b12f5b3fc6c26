/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rules of Documentation/stripes.rst that a test can switch off, like those of base/rules.h. A text has the number
 * of the section and the fault that a coded store then has.
 */
STRIPE_RULE_ENTRY(ALL_SHARDS, "S1: a batch counts when k shards have it")
STRIPE_RULE_ENTRY(BATCH_ORDER, "S1: a batch counts without the batches before it")
STRIPE_RULE_ENTRY(LEAST_SHARDS, "S1: a batch counts on any number of shards")
STRIPE_RULE_ENTRY(OTHER_SIDE, "S2: the newest durable record is overwritten")
STRIPE_RULE_ENTRY(SIDE_FREE, "S2: a side is overwritten before the rows up to the next record are durable")
STRIPE_RULE_ENTRY(RESUME_SIDE, "S2: a writer that goes on overwrites the record that protects")
STRIPE_RULE_ENTRY(PARTIAL_ALONE, "S3: a data block is written twice at once")
STRIPE_RULE_ENTRY(RECORD_SEGMENT, "S4: a record of an earlier segment is used")
STRIPE_RULE_ENTRY(RECORD_PARITY, "S4: the parity of a record is not checked")
STRIPE_RULE_ENTRY(RECORD_DATA, "S4: data blocks are not checked against a record")
STRIPE_RULE_ENTRY(CUT_DATA, "S4: data blocks are decoded with the bytes behind the length of a record")
STRIPE_RULE_ENTRY(OTHER_SETS, "S6: rows are read from the first k shards only")
STRIPE_RULE_ENTRY(FINISH_ROWS, "S7: a log is sealed whose last rows differ among shards")
STRIPE_RULE_ENTRY(FINISH_TAIL, "S7: a row that its parity at home protects is filled with zeros")
STRIPE_RULE_ENTRY(ADD_WHOLE, "S9: a shard of an open segment counts without its last row")
STRIPE_RULE_ENTRY(ADD_LISTED, "S9: acknowledged on a shard that no digest lists")
STRIPE_RULE_ENTRY(TABLE_BLOCK, "S8: blocks of a closed segment are not checked")
STRIPE_RULE_ENTRY(ADD_SIDES, "S9: the frame of a shard made anew keeps the records that it had")
STRIPE_RULE_ENTRY(KEEP_BLOCK, "S8: a shard that a backup still has counts without a look at its blocks")
STRIPE_RULE_ENTRY(READ_CUT, "S10: a reader gets what is behind the end of a segment")
STRIPE_RULE_ENTRY(READ_CHECKED, "S10: what the kernel refuses is not read again by the tables")
STRIPE_RULE_ENTRY(CODE_FIRST, "S11: a digest lists stripes before the superblocks have the code")
STRIPE_RULE_ENTRY(CODE_LAST, "S11: the superblocks lose the code before a digest without stripes is durable")
