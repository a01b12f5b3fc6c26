/* SPDX-License-Identifier: GPL-2.0 */
/* lsmemctl: what commands share that read or change objects of a store by liblsmem. */
#ifndef LSMEMCTL_OBJECTS_H
#define LSMEMCTL_OBJECTS_H

#include <lsmem.h>

#include "ctl.h"

#define CTL_RANGES_MAX	16u

/* The first options of such a command. */
enum { CTL_TABLE, CTL_WHERE, CTL_THREADS, CTL_OBJECTS_OPTIONS };

#define CTL_OBJECTS_OPTION_LIST				\
	[CTL_TABLE]	= { "table", 't', true },	\
	[CTL_WHERE]	= { "where", 'w', true },	\
	[CTL_THREADS]	= { "threads", 0, true }

/**
 * struct ctl_objects - which objects
 * @scan: of the store
 * @ranges: all must hold
 * @nr_ranges: at @ranges
 * @shown: time of the last line of progress; 0: there was none
 */
struct ctl_objects {
	struct lsm_scan scan;
	struct lsm_range ranges[CTL_RANGES_MAX];
	size_t nr_ranges;
	double shown;
};

/* objects.c */
int ctl_objects_option(struct ctl_objects *objects, int option, const char *value);
int ctl_objects_store(int argc, char **argv, char *name);
int ctl_objects_open(const char *name, unsigned int flags, struct lsm **lsm);
int ctl_objects_error(const char *name, int error);
void ctl_objects_progress(void *context, uint64_t done, uint64_t total);
void ctl_objects_finished(const struct ctl_objects *objects);

/* values.c */
bool ctl_parse_column(const char *text, bool many, struct lsm_column *column, const char **end);
bool ctl_parse_value(uint32_t type, const char *text, union lsm_value *value);
bool ctl_parse_where(const char *text, struct lsm_range *range);
struct json_object *ctl_value_decimal(double value);
struct json_object *ctl_value_json(uint32_t type, union lsm_value value);

#endif
