/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Journals: a write of more pages of a range than a group takes, whole or not at all.  See journal.c.
 * lsmem_journal_write() decides when such a write is made, lsmem_journal_settle() when nothing is left of
 * its journal.  Caller: range.c.
 */
#ifndef LSMEM_JOURNAL_H
#define LSMEM_JOURNAL_H

#include "root.h"

int lsmem_journal_write(struct lsmem_range *range, const struct lsmem_range_page *pages, u32 nr);
int lsmem_journal_settle(struct lsmem_range *range);
int lsmem_journal_open(struct lsmem_range *range);
void lsmem_journal_close(struct lsmem_range *range);

#endif
