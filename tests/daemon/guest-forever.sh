#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A durable store at 90 % live, one cold object in every segment: overwrites
# without end.  In a guest: TAP.  The module lists no more segments than a backup
# of twice the store's size holds, however large the drive is.
#
#	TIMES=100 qemu/run --timeout 3600 --drive backup:288M -- tests/daemon/guest-forever.sh
#
# TIMES: the live bytes that are overwritten.
set -u
here=$(realpath "$(dirname "$0")")
top=$here/../..
LSMEMD=${LSMEMD:-$top/daemon/lsmemd}
. "$here/tap.sh"
. "$here/guest-lib.sh"
store=lsmem
conf=$scratch/forever.conf

figure() { cat "/sys/class/lsmem/$store/$1"; }

printf '[store]\nkind = object\nsize = 128M\n[backup]\npath = %s\n' "$drive" >"$conf"
ok 'formatted and active' start format --format --force
"$here/build/forever" "/dev/$store" "${TIMES:-1}" >"$scratch/out" 2>"$scratch/err"
status=$?
sed 's/^/# /' "$scratch/out" "$scratch/err"
expect 'all overwrites were taken, all objects are right' "$status" 0
echo "# $(figure cleaner/segments_cleaned) segments cleaned, $(figure cleaner/compactions) compacted," \
	"$(figure cleaner/write_cost_permille) write cost per mille," \
	"$(figure stats/stalls) stalls, $(figure cleaner/forced_rolls) forced rolls"
ok 'more segments have been cleaned or compacted than there are' \
	[ $(($(figure cleaner/segments_cleaned) + $(figure cleaner/compactions))) -gt "$(figure segments)" ]
stop
expect 'drained' "$status" 0
run "$ctl" destroy $store
ok 'recovers what is live' start recovery
ok 'all of it' [ "$(figure handles_used)" -gt 90000 ]
stop
run "$ctl" destroy $store
expect 'destroyed' "$status" 0
tap_end
