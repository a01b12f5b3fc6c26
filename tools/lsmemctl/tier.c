// SPDX-License-Identifier: GPL-2.0
/* lsmemctl tier: show memory, cold bytes and fetching of tiered stores, once or repeatedly. */
#include "ctl.h"

static const struct ctl_column totals[] = {
	{ "STORE",	"name",		CTL_TEXT },
	{ "MEMORY",	"memory_bytes",	CTL_BYTES },
	{ "CAPACITY",	"capacity_bytes", CTL_BYTES },
	{ "RESIDENT",	"resident_bytes", CTL_BYTES },
	{ "COLD",	"cold_bytes",	CTL_BYTES },
	{ "CACHED",	"cached_bytes",	CTL_BYTES },
	{ "UNVERIFIED",	"unverified_segments", CTL_NUMBER },
	{ "UNREADABLE",	"unreadable_segments", CTL_NUMBER },
	{ "REQUESTS",	"requests",	CTL_NUMBER },
	{ "FETCHES",	"fetches",	CTL_NUMBER },
	{ "NEAR",	"fetches_near",	CTL_NUMBER },
	{ "FETCHED",	"fetched_bytes", CTL_BYTES },
	{ "EVICTED",	"evicted_bytes", CTL_BYTES },
	{ "FAILURES",	"failures",	CTL_NUMBER },
	{ "MEAN",	"mean_us",	CTL_MICROSECONDS },
	{ "99%",	"p99_us",	CTL_MICROSECONDS },
};

static const struct ctl_column rates[] = {
	{ "STORE",	"name",		CTL_TEXT },
	{ "RESIDENT",	"resident_bytes", CTL_BYTES },
	{ "COLD",	"cold_bytes",	CTL_BYTES },
	{ "CACHED",	"cached_bytes",	CTL_BYTES },
	{ "REQUESTS",	"requests",	CTL_NUMBER },
	{ "FETCHES/s",	"fetches_per_second", CTL_DECIMAL },
	{ "FETCHED/s",	"fetched_bytes_per_second", CTL_BYTES },
	{ "EVICTED/s",	"evicted_bytes_per_second", CTL_BYTES },
	{ "FAILURES",	"failures",	CTL_NUMBER },
	{ "MEAN",	"mean_us",	CTL_MICROSECONDS },
	{ "99%",	"p99_us",	CTL_MICROSECONDS },
};

static const struct ctl_watched watched = {
	.key = "tier.resident_bytes",
	.kind = "tiered",
	.without = "is not tiered: all its data are in memory",
	.figures = ctl_tier_figures,
	.totals = totals,
	.nr_totals = sizeof(totals) / sizeof(*totals),
	.rates = rates,
	.nr_rates = sizeof(rates) / sizeof(*rates),
};

static int run(int argc, char **argv)
{
	return ctl_watch(argc, argv, &watched);
}

const struct ctl_command ctl_tier = {
	.name = "tier",
	.summary = "Show memory, cold bytes and fetching of tiered stores; with --interval, their rates",
	.usage = "tier [STORE...] [--interval SECONDS] [--count N] [--json]",
	.run = run,
};
