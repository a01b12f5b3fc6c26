# SPDX-License-Identifier: GPL-2.0
# Figures of a tiered store, for the guest tests: sourced, after guest-lib.sh, not run.

figure() { cat "/sys/class/lsmem/$store/$1"; }

# tier: what is live, and where
tier()
{
	echo "# $(($(figure live_bytes) >> 20)) MiB live, $(($(figure tier/cold_bytes) >> 20)) MiB cold," \
		"$(($(figure tier/cached_bytes) >> 20)) MiB cached, $(figure tier/fetches) fetches" \
		"($(figure tier/fetch_failures) failures), $(figure tier/evicted) evicted," \
		"$(figure cleaner/segments_cleaned) segments cleaned"
}
