# SPDX-License-Identifier: GPL-2.0
# Figures and operations of a tiered store, for the guest tests: sourced, after guest-lib.sh, not run.

figure() { cat "/sys/class/lsmem/$store/$1"; }

# tier: what is live, and where
tier()
{
	echo "# $(($(figure live_bytes) >> 20)) MiB live, $(($(figure tier/cold_bytes) >> 20)) MiB cold," \
		"$(($(figure tier/cached_bytes) >> 20)) MiB cached, $(figure tier/fetches) fetches" \
		"($(figure tier/fetch_failures) failures), $(figure tier/evicted) evicted," \
		"$(figure cleaner/segments_cleaned) segments cleaned"
}

# objects NAME COMMAND PERCENT [SLOTS]: load fills or overwrites
objects()
{
	local name=$1 command=$2

	shift 2
	"$load" "$command" "$model" "/dev/$store" "$@" >"$scratch/out" 2>"$scratch/err"
	status=$?
	sed 's/^/# /' "$scratch/err" "$scratch/out"
	is "$name" "$status" 0
}

# reads NAME SECONDS COMMAND ..: objects are read at random while the command is carried out
reads()
{
	local name=$1 pid

	"$load" read "$model" "/dev/$store" "$2" >"$scratch/reads" 2>&1 &
	pid=$!
	shift 2
	"$@"
	wait "$pid"
	status=$?
	sed 's/^/# /' "$scratch/reads"
	is "$name" "$status" 0
	ok "$name: no reader has waited in vain" grep -q ' 0 timed out' "$scratch/reads"
}

# overwrite_until_cleaned: half of the objects, again and again, until cleaning has to go on
overwrite_until_cleaned()
{
	local round

	for round in $(seq 12); do
		objects "half of the objects overwritten, $round" overwrite 50
		[ "$(figure cleaner/segments_cleaned)" -eq 0 ] || break
	done
	ok 'segments were cleaned' [ "$(figure cleaner/segments_cleaned)" -gt 0 ]
	tier
	verify 'all there after cleaning'
}
