// SPDX-License-Identifier: GPL-2.0
/*
 * Fault injection, by the kernel's framework (fault-injection.rst of the kernel), per store.  On a
 * kernel with CONFIG_FAULT_INJECTION_DEBUG_FS, /sys/kernel/debug/lsmem/<store>/ has
 *
 *	no_space	an append finds no space: it waits for some, stall_ms at most
 *	segment_full	an append finds its segment full: its head rolls over
 *	bad_crc		a payload that recovery loads does not have its CRC
 *
 * each with probability, interval, times and the other files that failslab has.  A pass of the
 * cleaner can be requested without a fault: cleaner/request_clean in sysfs.
 */
#include "fault.h"

#ifdef CONFIG_FAULT_INJECTION_DEBUG_FS
static const char * const lsmem_fault_names[LSMEM_FAULTS] = {
	[LSMEM_FAULT_SPACE] = "no_space",
	[LSMEM_FAULT_ROLL] = "segment_full",
	[LSMEM_FAULT_CRC] = "bad_crc",
};

/**
 * lsmem_faults_init - initialise; nothing fails
 * @faults: of a new store
 */
void lsmem_faults_init(struct lsmem_faults *faults)
{
	unsigned int i;

	for (i = 0; i < LSMEM_FAULTS; i++)
		faults->attrs[i] = (struct fault_attr)FAULT_ATTR_INITIALIZER;
}

/**
 * lsmem_faults_add - add the faults of a store to debugfs
 * @faults: of the store
 * @directory: of the store in debugfs; removed before the store
 *
 * Context: sleeps.
 */
void lsmem_faults_add(struct lsmem_faults *faults, struct dentry *directory)
{
	unsigned int i;

	for (i = 0; i < LSMEM_FAULTS; i++)
		fault_create_debugfs_attr(lsmem_fault_names[i], directory, &faults->attrs[i]);
}
#endif
