#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# lsmemd with several backups: one fails, one is missing, they come back at a start, and nothing
# that was acknowledged is lost.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-several.sh
. "$(dirname "$0")/guest-lib.sh"
. "$here/several-lib.sh"

# ---- Three backups, two replicas of each segment -------------------------------
several 2 1 0 a b c
ok 'three: formatted and active' start three --init
load 3
wait "$load_pid"
verify 'three: all there'
for name in a b c; do
	is "three: $name is used" "$(backup $name state)" used
	ok "three: $name has segments" [ "$(backup $name 'frames - .frames_free')" -gt 0 ]
done
"$ctl" backups | sed 's/^/# /'
is 'three: in top' "$("$ctl" top "$store" --count 1 --interval 0.1 --json |
			  jq -r '[.stores[0].backups[].name] | join(" ")')" 'a b c'
load 600
nap 1
lose_memory
ok 'three: recovers' start again
verify 'three: all there from the backups'

# ---- One fails, and comes back ---------------------------------------------------
load 600
nap 1
mark
spoil c "$other" 0
ok 'it fails: the others go on without it' until_is lost backup c state
ok 'it fails: says what' since '/dev/mapper/c: .* failed: Input/output error'
is 'it fails: and in the table' "$(backup c error | cut -d: -f2)" ' Input/output error'
before=$(daemon log_bytes)
ok 'it fails: writers go on' until_is 0 eval 'rises; echo $?'
ok 'it fails: replicas are made anew' until_is 0 daemon segments_short
ok 'it fails: some were copied' [ "$(daemon replicas_copied)" -gt 0 ]
mend c
lose_memory
ok 'it comes back: recovers' start back
ok 'it comes back: was left behind' since '/dev/mapper/c was left behind'
verify 'it comes back: all there'
ok 'it comes back: is used again' until_is used backup c state
load 600
ok 'it comes back: nothing is short' until_is 0 daemon segments_short

slay_load
verify 'all three again: all there'
stop
is 'all three again: drains' "$status" 0

# ---- One is missing, and a new one takes its place ---------------------------------
uncut b
several 2 1 0 a d c
mark
ok 'a new one: the store lives: resumes' start new
ok 'a new one: joins' since '/dev/mapper/d: has joined the others\|/dev/mapper/d: joins'
ok 'a new one: is used' until_is used backup d state
ok 'a new one: has what it should have' until_is 0 daemon segments_short
load 600
ok 'a new one: has segments' until_is true eval '[ "$(backup d "frames - .frames_free")" -gt 0 ] && echo true'
lose_memory
uncut a
mark
ok 'one of three is missing: recovers' start missing
ok 'one of three is missing: says so' since '/dev/mapper/a: is not there'
is 'one of three is missing: in the table' "$(backup a state)" missing
verify 'one of three is missing: all there'
stop
run "$ctl" destroy "$store"

# ---- Too few ---------------------------------------------------------------------------
uncut c
refuses 'one of two' 3 'only 2 can tell'
refuses 'one of two' 3 'accept-missing'
mark
sed -i 's/^size = .*/&\nwait = 120/' "$conf"
launch
ok 'one of two, wait: waits' until_true 30 since 'waiting for /dev/mapper/a: No such file or directory; /dev/mapper/c: No'
ok 'one of two, wait: has not ended' kill -0 "$daemon_pid"
cut_device c "$other" 0
ok 'one of two, wait: serves when two are there' serves wait
is 'one of two, wait: without the third' "$(backup a state)" missing
stop
run "$ctl" destroy "$store"
cut_device a "$drive" 0
ok 'all are back' start all
verify 'all are back: all there'
load 600
nap 1
spoil a "$drive" 0
spoil c "$other" 0
spoil d "$other" 1
status=0
wait "$daemon_pid" || status=$?
is 'none is left: exit status' "$status" 6
slay_load
verify 'none is left: the store is readable'
for name in a c d; do
	mend "$name"
done
ok 'all are mended: resumes' start mended
verify 'all are mended: all there'
run "$ctl" backups lsmem7
ok 'no such store' [ "$status" -ne 0 ]
stop
is 'drains' "$status" 0
run "$ctl" destroy "$store"
is 'all of it is on the backups' "$status" 0
several 1 1 0 a d
refuses 'two of three are named' 2 'name them all'
several 2 1 0 a d c
run "$lsmemd" -c "$conf" --check
is 'which are sound' "$status" 0
sed 's/^/# /' "$scratch/out"
run "$ctl" check /dev/mapper/a /dev/mapper/d /dev/mapper/c
is 'lsmemctl check says so too' "$status" 0
run "$ctl" check /dev/mapper/a
is 'one of them says little' "$status" 1
ok 'one of them: says why' grep -q 'has 3 backups: name them all' "$scratch/err"
for name in a c d; do
	dmsetup remove "$name"
done

rmmod lsmem
is 'the module can be unloaded' "$?" 0
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log"
tap_end
