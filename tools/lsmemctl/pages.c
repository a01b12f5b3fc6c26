// SPDX-License-Identifier: GPL-2.0
/* lsmemctl pages: show the ranges of pages of object stores and what they do, once or repeatedly. */
#include "ctl.h"

static const struct ctl_column totals[] = {
	{ "STORE",	"name",		CTL_TEXT },
	{ "RANGES",	"ranges",	CTL_NUMBER },
	{ "BUFFER",	"buffered_bytes", CTL_BYTES },
	{ "DIRTY",	"dirty_bytes",	CTL_BYTES },
	{ "FAULTS",	"faults",	CTL_NUMBER },
	{ "READ",	"read_pages",	CTL_NUMBER },
	{ "FETCHED",	"fetched_pages", CTL_NUMBER },
	{ "WRITTEN",	"written_pages", CTL_NUMBER },
	{ "BYTES",	"written_bytes", CTL_BYTES },
	{ "GROUPS",	"groups",	CTL_NUMBER },
	{ "SYNCS",	"syncs",	CTL_NUMBER },
	{ "SYNC MEAN",	"sync_us",	CTL_MICROSECONDS },
};

static const struct ctl_column rates[] = {
	{ "STORE",	"name",		CTL_TEXT },
	{ "RANGES",	"ranges",	CTL_NUMBER },
	{ "BUFFER",	"buffered_bytes", CTL_BYTES },
	{ "DIRTY",	"dirty_bytes",	CTL_BYTES },
	{ "FAULTS/s",	"faults_per_second", CTL_DECIMAL },
	{ "READ/s",	"read_pages_per_second", CTL_DECIMAL },
	{ "FETCHED/s",	"fetched_pages_per_second", CTL_DECIMAL },
	{ "WRITTEN/s",	"written_pages_per_second", CTL_DECIMAL },
	{ "BYTES/s",	"written_bytes_per_second", CTL_BYTES },
	{ "GROUPS/s",	"groups_per_second", CTL_DECIMAL },
	{ "SYNCS/s",	"syncs_per_second", CTL_DECIMAL },
	{ "SYNC MEAN",	"sync_us",	CTL_MICROSECONDS },
};

static const struct ctl_watched watched = {
	.key = "pages.ranges",
	.kind = "object",
	.without = "has no ranges of pages: it is no object store",
	.figures = ctl_pages_figures,
	.totals = totals,
	.nr_totals = sizeof(totals) / sizeof(*totals),
	.rates = rates,
	.nr_rates = sizeof(rates) / sizeof(*rates),
};

static int run(int argc, char **argv)
{
	return ctl_watch(argc, argv, &watched);
}

const struct ctl_command ctl_pages = {
	.name = "pages",
	.summary = "Show ranges of pages of object stores, and what they do; with --interval, their rates",
	.usage = "pages [STORE...] [--interval SECONDS] [--count N] [--json]",
	.run = run,
};
