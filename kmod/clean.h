/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The cleaner: merges the live entries of several segments and frees these.  See clean.c.
 * lsmem_clean_choose() chooses the victims, or the daemon does through lsmem_clean_ask(), which
 * repl.c calls; lsmem_clean_take() checks both, lsmem_clean_move() decides whether an entry moves.
 * activate.c starts and stops the thread.
 */
#ifndef LSMEM_CLEAN_H
#define LSMEM_CLEAN_H

#include <linux/types.h>

struct lsmem_pass;
struct lsmem_store;
struct lsmem_survivor;
struct task_struct;

/* Statistics; only the cleaner writes them. */
struct lsmem_cleaner_stats {
	u64 passes;
	u64 segments_cleaned;
	u64 relocated_bytes;
	u64 relocated_entries;
	u64 freed_bytes;
	u64 clean_ns;
};

/**
 * struct lsmem_cleaner - the cleaner of a store
 * @task: its thread; NULL while there is none
 * @pass: the pass; under plan.mutex while victims are chosen, then the thread's own
 * @survivors: the entries of @pass to be moved; the thread's own
 * @stats: statistics
 * @last: begin no pass, because the daemon is about to end; plan.mutex for writing
 * @barren: the last choice of victims gained nothing
 */
struct lsmem_cleaner {
	struct task_struct *task;
	struct lsmem_pass *pass;
	struct lsmem_survivor *survivors;
	struct lsmem_cleaner_stats stats;
	bool last;
	bool barren;
};

int lsmem_cleaner_init(struct lsmem_store *store);
int lsmem_cleaner_make(struct lsmem_store *store);
void lsmem_cleaner_run(struct lsmem_store *store);
void lsmem_cleaner_stop(struct lsmem_store *store);
void lsmem_cleaner_destroy(struct lsmem_store *store);
bool lsmem_clean_due(const struct lsmem_store *store);
void lsmem_clean_forget(struct lsmem_store *store);
void lsmem_clean_stop(struct lsmem_store *store, bool last);
int lsmem_clean_ask(struct lsmem_store *store, const u64 *ids, u32 *nr, bool damaged);

#endif
