#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# SSDAlloc's programs (tests/bench/ssdalloc), with malloc(), with a mapped file, and with pools of a
# volatile store whose page buffer holds a fraction of the objects: their contents are right after gets and
# puts of any object.  And how many lines of each differ between malloc() and pools.
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"

MOST=36		# lines that differ: of the largest program of SSDAlloc
programs=$top/tests/bench
objects=$((200 * ${LSMEM_SCALE:-100}))
export ARENA=$scratch/arena ARENA_MIB=64

# differing FILE: how many lines are in the one program or the other only, blank lines apart
differing()
{
	diff <(unifdef_lsmem 1 "$1") <(unifdef_lsmem 0 "$1") | grep -c '^[<>] .*[^[:space:]]'
}

# unifdef_lsmem 1|0 FILE: the source with LSMEM, or without
unifdef_lsmem()
{
	awk -v defined="$1" '
		/^#ifdef LSMEM$/ { within = 1; shown = defined; next }
		within && /^#else$/ { shown = !shown; next }
		within && /^#endif$/ { within = 0; next }
		!within || shown' "$2"
}

# checked KIND PROGRAM: two rounds, with a check after each; puts are counted
checked()
{
	printf '0.3 1\ncheck\n0.3 1\ncheck\n' |
		"$programs/build/$2-$1" -n "$objects" -s 512 -m 1 -r -w 300 -p "/dev/$store" run
}

store_create --size 128M
for program in array btree packets hash; do
	lines=$(differing "$programs/ssdalloc/$program.c")
	ok "$program: $lines lines differ, $MOST at most" [ "$lines" -gt 0 -a "$lines" -le $MOST ]
	for kind in malloc mapped lsmem; do
		before=$(value stats/appended_bytes)
		run checked $kind $program
		is "$program with $kind: exit status" "$status" 0
		ok "$program with $kind: was checked twice, after puts" awk '
			/"puts"/ { gsub(/[^0-9]/, ""); grown += $0 + 0 > last; last = $0 + 0 }
			END { exit grown != 2 }' "$scratch/out"
		[ $kind = lsmem ] || continue
		ok "$program with $kind: objects are in the store" \
			[ "$(value stats/appended_bytes)" -gt $((before + objects * 16)) ]
	done
done
ok "the store is free" store_destroy
tap_end
