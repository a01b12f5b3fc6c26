#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Backups come back while lsmemd serves: a slow one, a bad one, a missing one, and backups without
# which nothing may be acknowledged.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-rejoin.sh
. "$(dirname "$0")/guest-lib.sh"
. "$here/several-lib.sh"

# ---- A slow one ------------------------------------------------------------------------
several 2 1 2 a b c
ok 'three: formatted and active' start three --init
load 600
nap 1
mark
dmsetup suspend --noflush b
ok 'it is slow: lost' until_is lost backup b state
ok 'it is slow: says so' since '/dev/mapper/b: .* no answer for 5 s'
before=$(daemon log_bytes)
ok 'it is slow: writers go on' until_is 0 eval 'rises; echo $?'
dmsetup resume b
ok 'it is fast again: is used' until_is used backup b state
ok 'it is fast again: says so' since '/dev/mapper/b: has joined the others'
is 'it is fast again: no error is shown' "$(backup b error)" ''
ok 'it is fast again: nothing is short' until_is 0 daemon segments_short
# All segments have two replicas on the other backups: this one gets new segments only.
ok 'it is fast again: has segments' until_is true eval '[ "$(backup b "frames - .frames_free")" -gt 0 ] && echo true'

# With the timeout that is the default no durable call ends before the backup is lost
sed -i '/^timeout/d' "$conf"
kill -HUP "$daemon_pid"
kill -TERM "$load_pid"
wait "$load_pid"
load 600
mark
dmsetup suspend --noflush b
ok 'the default timeout: lost' until_is lost backup b state
ok 'the default timeout: says so' since '/dev/mapper/b: .* no answer for 10 s'
dmsetup resume b
kill -TERM "$load_pid"
wait "$load_pid"
sed 's/^/# /' "$scratch/load"
ok 'the default timeout: no durable call timed out' grep -q ', 0 timed out, 0 errors' "$scratch/load"
ok 'the default timeout: is used again' until_is used backup b state
several 2 1 2 a b c
kill -HUP "$daemon_pid"
load 600

# ---- No backup is slow: the daemon itself was ---------------------------------------------
# Requests in flight complete long after the daemon's timeouts.
mark
dmsetup suspend --noflush b
nap 1
kill -STOP "$daemon_pid"
sleep 7
dmsetup resume b
kill -CONT "$daemon_pid"
before=$(daemon log_bytes)
ok 'the daemon was suspended: writers go on' until_is 0 eval 'rises; echo $?'
is 'the daemon was suspended: no backup is lost' "$(backup b state)" used
ok 'the daemon was suspended: none was lost' eval '! since lost'

# ---- A bad one -------------------------------------------------------------------------
mark
spoil c "$other" 0
ok 'it fails: lost' until_is lost backup c state
ok 'it fails: is tried again' until_true 60 since '/dev/mapper/c: cannot join the others'
# A new drive takes its place.
dd if=/dev/zero of="$other" bs=1M count=8 oflag=direct status=none
mend c
ok 'it is replaced: is used' until_is used backup c state
ok 'it is replaced: nothing is short' until_is 0 daemon segments_short

# ---- A missing one -----------------------------------------------------------------------
lose_memory
uncut a
# So slowly that the replicas of the missing one are not all made anew before it is there
sed -i 's/^copy_rate = .*/copy_rate = 1M/' "$conf"
ok 'one is missing: recovers' start missing
verify 'one is missing: all there'
cut_device a "$drive" 0
ok 'it is there: is used' until_is used backup a state
ok 'it is there: what it still had is kept' until_true 60 eval '[ "$(daemon replicas_kept)" -gt 0 ]'
jq -c '{replicas_kept, replicas_copied, replicas_copied_bytes, segments}' "/run/lsmem/$store.json" | sed 's/^/# /'
load 600
ok 'it is there: nothing is short' until_is 0 daemon segments_short
slay_load
verify 'it is there: all there'
stop
is 'it is there: drains' "$status" 0

# ---- Too few -----------------------------------------------------------------------------
several 2 2 2 a b c
ok 'two are needed: resumes' start two
load 600
nap 1
spoil c "$other" 0
ok 'two are needed: two are left' until_is lost backup c state
ok 'two are needed: replicas are made anew' until_is 0 daemon segments_short
mark
spoil b "$drive" 1
ok 'one is left: waits' until_is waiting daemon state
ok 'one is left: says so' since 'left: 1, and min_replicas = 2: nothing more is acknowledged'
before=$(daemon log_bytes)
nap 1
is 'one is left: nothing becomes durable' "$(daemon log_bytes)" "$before"
mend b
ok 'two are left again: goes on' until_is active daemon state
before=$(daemon log_bytes)
ok 'two are left again: more becomes durable' until_is 0 eval 'rises; echo $?'
mend c
ok 'three are left again: nothing is short' until_is 0 daemon segments_short
ok 'three are left again: what they still had is kept' [ "$(daemon replicas_kept)" -gt 0 ]
jq -c '{replicas_kept, replicas_copied, replicas_copied_bytes, segments}' "/run/lsmem/$store.json" | sed 's/^/# /'
lose_memory
ok 'three are left again: recovers' start again
verify 'three are left again: all there'
stop
is 'drains' "$status" 0
run "$ctl" destroy "$store"
for name in a b c d; do
	uncut "$name"
done
rmmod lsmem
is 'the module can be unloaded' "$?" 0
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log"
tap_end
