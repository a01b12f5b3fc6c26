#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# lsmemd with three backups, into all of which the log has grown: one is lost, so there is room for fewer segments.
# Writers go on, with it and after it has come back, and in the end no segment is short of replicas.  In a guest
# with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-room.sh
#
# $ROOM_MIB: how much writers write after it has come back (256)
. "$(dirname "$0")/guest-lib.sh"
sectors=$((320 << 11))
. "$here/several-lib.sh"

# attribute NAME: of the store
attribute() { cat "/sys/class/lsmem/$store/$1"; }
grown() { [ $(($(attribute segments) * 10)) -ge $(($(attribute segments_max) * 8)) ]; }
# written BYTES: so many more become durable
written()
{
	local wanted=$(($(daemon log_bytes) + $1))

	until_true 180 eval '[ "$(daemon log_bytes)" -gt '$wanted' ]'
}

several 2 1 0 a b c
ok 'formatted and active' start room --init
load 900
ok 'the log has grown into all backups' until_true 300 grown
is 'there is room for all segments' "$(attribute segments_limit)" "$(attribute segments_max)"
# Memory is lost, and a backup with it: the log has more segments than the others have room for.
lose_memory
uncut c
ok 'one is missing: recovers' start missing
grep ' recovered ' "$log" | sed 's/^/# /'
verify 'one is missing: all there'
load 900
ok 'one is missing: there is room for fewer' until_true 30 eval '[ "$(attribute segments_limit)" -lt "$(attribute segments_max)" ]'
ok 'one is missing: writers go on' written $((16 << 20))
lose_memory
cut_device c "$other" 0
ok 'it is there again: recovers' start again
verify 'it is there again: all there'
load 900
ok 'it is there again: is used' until_is used backup c state
ok 'the log has grown again' until_true 300 grown
"$ctl" backups | sed 's/^/# /'
spoil c "$other" 0
ok 'one is lost' until_is lost backup c state
ok 'there is room for fewer' until_true 30 eval '[ "$(attribute segments_limit)" -lt "$(attribute segments_max)" ]'
ok 'writers go on' written $((64 << 20))
ok 'all replicas are made anew' until_is 0 daemon segments_short
"$ctl" backups | sed 's/^/# /'
echo "# $(attribute segments) segments of $(attribute segments_limit), $(attribute segments_max) with all"
mend c
lose_memory
ok 'it comes back: recovers' start back
verify 'it comes back: all there'
load 900
ok 'it comes back: is used again' until_is used backup c state
ok 'it comes back: writers go on' written $((${ROOM_MIB:-256} << 20))
ok 'it comes back: nothing is short' until_is 0 daemon segments_short
ok 'there is room for all segments again' until_true 60 eval '[ "$(attribute segments_limit)" = "$(attribute segments_max)" ]'
"$ctl" backups | sed 's/^/# /'
slay_load
verify 'all there'
stop
is 'drains' "$status" 0
run "$ctl" destroy "$store"
for name in a b c d; do
	uncut $name
done
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log" | tail -60
tap_end
