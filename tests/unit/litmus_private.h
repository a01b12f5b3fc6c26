/* SPDX-License-Identifier: GPL-2.0 */
/* Scenarios: declarations common to all litmus*.c. */
#ifndef UNIT_LITMUS_PRIVATE_H
#define UNIT_LITMUS_PRIVATE_H

#include "litmus.h"
#include "sim.h"

extern uint64_t lsmem_mutation;

struct run {
	struct sim *sim;
	uint32_t left;
	bool young;
	bool over;
};

extern struct run run;

#define STEPS		150u	/* more completions than the story of lit_tell() has */
#define ALL(sim)	((1u << (sim)->options.backups) - 1)

void lit_put(uint32_t index, uint32_t head, uint32_t length);
void lit_delete(uint32_t index, uint32_t head);
void lit_race(uint32_t index, uint32_t first);
void lit_roll(uint32_t head);
void lit_clean(uint32_t victims);
void lit_compact(void);
void lit_pass(void);
void lit_tick(void);
void lit_step(uint32_t n);
void lit_settle(void);
void lit_kill(void);
bool sweep(void (*script)(void), const struct sim_options *options);

/* litmus_recover.c */
int lit_recover(struct sim *sim, bool accept_loss, bool check, struct recover_result *result);
uint64_t lit_frame(struct sim *sim, uint64_t segment, struct digest_item *item);
bool litmus_recovery_steps(void);
bool litmus_format_steps(void);
bool litmus_full_backup(void);
bool litmus_torn_full(void);
bool litmus_torn_again(void);
bool litmus_resumed_tail(void);
bool litmus_places(void);
bool litmus_lost_record(void);
bool litmus_lost_spare(void);
bool litmus_stopped(void);
bool litmus_closes(void);
bool litmus_lost_length(void);
bool litmus_lost_footer(void);
bool litmus_lost_header(void);
bool litmus_lost_digest(void);
bool litmus_lost_ceiling(void);
bool litmus_lost_closed(void);
bool litmus_lost_buried(void);
bool litmus_stale_frame(void);
bool litmus_check(void);

/* litmus_groups.c */
bool litmus_groups(void);
bool litmus_group_races(void);
bool litmus_group_ranges(void);
bool litmus_group_torn(void);
bool litmus_group_lies(void);
bool litmus_group_gaps(void);
bool litmus_group_end(void);
bool litmus_group_lost(void);

/* litmus_replicas.c */
bool lit_complain(const struct sim *sim, const char *what);
int lit_start_from(struct sim *sim, uint32_t drives, bool accept_missing);
int lit_again(struct sim *sim, uint32_t drives, bool accept_missing);
void lit_lose(struct sim *sim, uint32_t backup);
bool lit_tell(const struct sim_options *options, uint32_t left);
void lit_go_on(struct sim *sim);
struct recover *lit_newest(struct sim *sim);
bool litmus_deaf(void);
bool litmus_lost_backup(void);
bool litmus_shrink(void);
bool litmus_quorum(void);
bool litmus_last_drive(void);
bool litmus_promise(void);
bool litmus_min_replicas(void);
bool litmus_wait(void);
bool litmus_add_quiet(void);
bool litmus_bad_copy(void);
bool litmus_format_all(void);
bool litmus_domains(void);
bool litmus_domain_lost(void);
bool litmus_join(void);
bool litmus_join_steps(void);
bool litmus_received(void);
bool litmus_memory_only(void);
bool litmus_extend_received(void);
bool litmus_split(void);

/* litmus_copies.c */
uint32_t lit_listed(struct sim *sim, uint64_t segment);
bool litmus_forget(void);
bool litmus_copy(void);
bool litmus_copy_leaves(void);
bool litmus_copy_rot(void);
bool litmus_copy_memory(void);
bool litmus_keep(void);
bool litmus_scrub(void);

#endif
