#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# lsmemd with twelve backups, three replicas of each segment: some fail, some are missing, they come back, and nothing
# that was acknowledged is lost.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-many.sh
sectors=$((160 << 11))
. "$(dirname "$0")/guest-lib.sh"
. "$here/several-lib.sh"

# Where each is: six on each drive, of which several-lib.sh has cut the first two.
declare -A place=([a]="$drive 0" [b]="$drive 1" [c]="$other 0" [d]="$other 1"
		  [e]="$drive 2" [f]="$drive 3" [g]="$drive 4" [h]="$drive 5"
		  [i]="$other 2" [j]="$other 3" [k]="$other 4" [l]="$other 5")
for name in e f g h i j k l; do
	cut_device "$name" ${place[$name]}
	dd if=/dev/zero of="/dev/mapper/$name" bs=1M count=8 oflag=direct status=none
	dd if=/dev/zero of="/dev/mapper/$name" bs=1M count=1 seek=$(((sectors >> 11) - 1)) oflag=direct status=none
done
names='a b c d e f g h i j k l'
paths=$(printf '/dev/mapper/%s ' $names)

# states: how many backups have which state
states() { "$ctl" backups "$store" --json | jq -r 'group_by(.state) | map("\(length) \(.[0].state)") | join(", ")'; }

# ---- Twelve ------------------------------------------------------------------------
several 3 2 0 $names
ok 'twelve: formatted and active' start twelve --init
load 3
wait "$load_pid"
verify 'twelve: all there'
is 'twelve: all are used' "$(states)" '12 used'
for name in $names; do
	ok "twelve: $name has segments" [ "$(backup "$name" 'frames - .frames_free')" -gt 0 ]
done
is 'twelve: in top' "$("$ctl" top "$store" --count 1 --interval 0.1 --json |
			   jq -r '[.stores[0].backups[].name] | join(" ")')" "$names"

# ---- Three fail, one after the other -------------------------------------------------
load 600
for name in b h l; do
	spoil "$name" ${place[$name]}
	ok "$name fails: the others go on without it" until_is lost backup "$name" state
	ok "$name fails: replicas are made anew" until_is 0 daemon segments_short
done
is 'three fail: the others are used' "$(states)" '3 lost, 9 used'
nap 1
lose_memory
for name in b h l; do
	uncut "$name"
done
ok 'three failed: recovers' start nine
verify 'three failed: all there'
stop
run "$ctl" destroy "$store"
for name in b h l; do
	cut_device "$name" ${place[$name]}
done
ok 'three come back: recovers' start back
ok 'three come back: all are used' until_is '12 used' states
load 600
ok 'three come back: nothing is short' until_is 0 daemon segments_short
nap 1

# ---- Two are lost together with the power, then too many ---------------------------------
lose_memory
for name in i k; do
	uncut "$name"
done
ok 'ten of twelve: recovers' start ten
verify 'ten of twelve: all there'
is 'ten of twelve: two are missing' "$(states)" '2 missing, 10 used'
load 3
wait "$load_pid"
ok 'ten of twelve: nothing is short' until_is 0 daemon segments_short
stop
run "$ctl" destroy "$store"
for name in a c e g j; do
	uncut "$name"
done
refuses 'five of ten' 3 '5 of 10 backups .* only 6 can tell'
for name in a c e g i j k; do
	cut_device "$name" ${place[$name]}
done
ok 'all are back: recovers' start all
verify 'all are back: all there'
ok 'all are back: all are used' until_is '12 used' states
ok 'all are back: nothing is short' until_is 0 daemon segments_short
stop
is 'all are back: drains' "$status" 0
run "$ctl" destroy "$store"
run "$lsmemd" -c "$conf" --check
is 'they are sound' "$status" 0
run "$ctl" check $paths
is 'lsmemctl check says so too' "$status" 0
for name in $names; do
	dmsetup remove "$name"
done

rmmod lsmem
is 'the module can be unloaded' "$?" 0
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log"
tap_end
