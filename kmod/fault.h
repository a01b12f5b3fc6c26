/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fault injection.  See fault.c.  lsmem_fault() decides whether a call fails; log.c and load.c ask
 * it.  debugfs.c adds the files that set the faults.
 */
#ifndef LSMEM_FAULT_H
#define LSMEM_FAULT_H

#include <linux/types.h>
#include <linux/fault-inject.h>

struct dentry;

enum lsmem_fault {
	LSMEM_FAULT_SPACE,	/* an append finds no space, and waits */
	LSMEM_FAULT_ROLL,	/* an append finds its segment full */
	LSMEM_FAULT_CRC,	/* a recovery finds a wrong CRC */
	LSMEM_FAULTS,
};

/**
 * struct lsmem_faults - which faults a store has
 * @attrs: by enum lsmem_fault; set through debugfs, as the framework has it
 */
struct lsmem_faults {
#ifdef CONFIG_FAULT_INJECTION_DEBUG_FS
	struct fault_attr attrs[LSMEM_FAULTS];
#endif
};

#ifdef CONFIG_FAULT_INJECTION_DEBUG_FS
void lsmem_faults_init(struct lsmem_faults *faults);
void lsmem_faults_add(struct lsmem_faults *faults, struct dentry *directory);

/**
 * lsmem_fault - should this fail?
 * @faults: of the store
 * @fault: which
 *
 * Does not count for the fail-nth of a task, which is for allocations and user copies.
 *
 * Context: any.
 */
static inline bool lsmem_fault(struct lsmem_faults *faults, enum lsmem_fault fault)
{
	return faults->attrs[fault].probability && should_fail(&faults->attrs[fault], 1);
}
#else
static inline void lsmem_faults_init(struct lsmem_faults *faults)
{
}

static inline void lsmem_faults_add(struct lsmem_faults *faults, struct dentry *directory)
{
}

static inline bool lsmem_fault(struct lsmem_faults *faults, enum lsmem_fault fault)
{
	return false;
}
#endif

#endif
