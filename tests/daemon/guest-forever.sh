#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A durable store that is 90 % live, with one cold object in every segment, accepts any number of
# overwrites.  In a guest: TAP.  The module has no more segments than a backup of twice the store's
# size can hold, however large the drive is.
#
#	TIMES=100 qemu/run --timeout 3600 --drive backup:288M -- tests/daemon/guest-forever.sh
#
# TIMES: how often the live bytes are overwritten.
#
# Then the writer is stopped in the middle, and the daemon, too: all that the cleaner was moving
# must be on the backup when the daemon has ended.
. "$(dirname "$0")/guest-lib.sh"

figure() { cat "/sys/class/lsmem/$store/$1"; }
cleaned() { echo $(($(figure cleaner/segments_cleaned) + $(figure cleaner/compactions))); }
tell() { grep -o '"\(passes\|segments_retired\|written\|log_\)[a-z_]*": [0-9]*' "/run/lsmem/$store.json" | sed 's/^/# /'; }

printf '[store]\nkind = object\nsize = 128M\n[backup]\npath = %s\n' "$drive" >"$conf"
ok 'formatted and active' start format --format --force -v
"$here/build/forever" "/dev/$store" "${TIMES:-1}" >"$scratch/out" 2>"$scratch/err"
status=$?
sed 's/^/# /' "$scratch/out" "$scratch/err"
is 'all overwrites succeed, all objects are right' "$status" 0
echo "# $(figure cleaner/segments_cleaned) segments cleaned, $(figure cleaner/compactions) compacted," \
	"$(figure cleaner/write_cost_permille) write cost per mille," \
	"$(figure stats/stalls) stalls, $(figure cleaner/forced_rolls) forced rolls"
ok 'more segments have been cleaned or compacted than there are' \
	[ "$(cleaned)" -gt "$(figure segments)" ]
stop
is 'drained' "$status" 0
tell
run "$ctl" destroy $store
ok 'recovers' start recovery
ok 'all of it' [ "$(figure handles_used)" -gt 90000 ]
stop
run "$ctl" destroy $store
is 'destroyed' "$status" 0

for round in 1 2; do
	start "format $round" --format --force -v || break
	"$here/build/forever" "/dev/$store" 100000 >"$scratch/out" 2>"$scratch/err" &
	writer=$!
	while [ "$(cleaned)" -lt 100 ] && kill -0 $writer; do
		sleep 0.$((RANDOM % 9 + 1))
	done
	kill -KILL $writer
	wait $writer
	stop
	is "round $round: drained while the cleaner works" "$status" 0
	tell
	run "$ctl" destroy $store
	is "round $round: nothing is in memory alone" "$status" 0
	[ "$status" -eq 0 ] || sed 's/^/# /' "$scratch/err"
done
grep -c 'cleaning.*segments chosen' "$log" | sed 's/^/# choices: /'
grep 'cleaning.*segments chosen' "$log" | tail -3 | sed 's/^/# /'
[ "$failed" -eq 0 ] || tail -100 "$log" | sed 's/^/# /'
tap_end
