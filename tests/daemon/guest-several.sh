#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# lsmemd with several backups: one fails, one is slow, one is not there, they come back,
# and nothing that was acknowledged is missing.  In a guest with two drives, each of
# which is cut in two: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-several.sh
set -u
here=$(realpath "$(dirname "$0")")
top=$here/../..
LSMEMD=${LSMEMD:-$top/daemon/lsmemd}
. "$here/tap.sh"
. "$here/guest-lib.sh"
store=lsmem
slots=${SLOTS:-4000}
model=$scratch/model
conf=$scratch/lsmemd.conf
log=$scratch/daemon.log
sectors=$((448 << 11))

modprobe -a dm-mod dm-flakey

# cut NAME DEVICE NUMBER: a part of a device
declare -A table
cut_device()
{
	table[$1]="0 $sectors linear $(realpath "$2") $(($3 * sectors))"
	dmsetup create "$1" --table "${table[$1]}"
}

# turn NAME TABLE: the device does something else from now on
turn()
{
	dmsetup suspend --noflush "$1"
	dmsetup load "$1" --table "$2"
	dmsetup resume "$1"
}

# several REPLICAS MINIMUM NAME ..: the configuration
several()
{
	local name
	printf '[store]\nsize = 128M\nreplicas = %d\nmin_replicas = %d\ncopy_rate = 1G\n' "$1" "$2" >"$conf"
	shift 2
	for name in "$@"; do
		printf '[backup %s]\npath = /dev/mapper/%s\ntimeout = 5\n' "$name" "$name" >>"$conf"
	done
}

# Of a backup, or of the daemon, now.
backup() { "$ctl" backups "$store" --json | jq -r ".[] | select(.name == \"$1\") | .$2"; }
daemon() { "$ctl" backups "$store" >/dev/null && jq -r ".$1" "/run/lsmem/$store.json"; }

# until_is WANTED COMMAND ..: until it says so, for a minute
until_is()
{
	local i wanted=$1
	shift
	for ((i = 0; i < 600; i++)); do
		[ "$("$@")" = "$wanted" ] && return 0
		kill -0 "$daemon_pid" 2>/dev/null || break
		sleep 0.1
	done
	echo "# $*: $("$@"), wanted $wanted"
	return 1
}

# lose_memory: daemon and store are gone
lose_memory()
{
	slay_load
	slay
	run "$ctl" destroy --force "$store"
}


cut_device a "$drive" 0
cut_device b "$drive" 1
cut_device c "$other" 0
cut_device d "$other" 1
for name in a b c d; do
	dd if=/dev/zero of="/dev/mapper/$name" bs=1M count=8 oflag=direct status=none
done

# ---- Three, two replicas of each segment ---------------------------------------
several 2 1 a b c
ok 'three: formatted and active' start three
load 3
wait "$load_pid"
verify 'three: all there'
for name in a b c; do
	expect "three: $name is used" "$(backup $name state)" used
	ok "three: $name has segments" [ "$(backup $name 'frames - .frames_free')" -gt 0 ]
done
"$ctl" backups | sed 's/^/# /'
expect 'three: in top' "$("$ctl" top "$store" --count 1 --interval 0.1 --json |
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
turn c "0 $sectors flakey $(realpath "$other") 0 0 3600 1 error_writes"
ok 'it fails: the others go on without it' until_is lost backup c state
ok 'it fails: says what' since '/dev/mapper/c: .* failed: Input/output error'
expect 'it fails: and in the table' "$(backup c error | cut -d: -f2)" ' Input/output error'
before=$(daemon log_bytes)
rises() { [ "$(daemon log_bytes)" -gt "$before" ]; }
ok 'it fails: writers go on' until_is 0 eval 'rises; echo $?'
ok 'it fails: replicas are made anew' until_is 0 daemon segments_short
ok 'it fails: some were copied' [ "$(daemon replicas_copied)" -gt 0 ]
turn c "${table[c]}"
lose_memory
ok 'it comes back: recovers' start back
ok 'it comes back: was left behind' since '/dev/mapper/c was left behind'
verify 'it comes back: all there'
ok 'it comes back: is used again' until_is used backup c state
load 600
ok 'it comes back: nothing is short' until_is 0 daemon segments_short

# ---- One is slow -------------------------------------------------------------------
mark
dmsetup suspend --noflush b
ok 'it is slow: the others go on without it' until_is lost backup b state
ok 'it is slow: says so' since '/dev/mapper/b: .* no answer for 5 s'
before=$(daemon log_bytes)
ok 'it is slow: writers go on' until_is 0 eval 'rises; echo $?'
dmsetup resume b
slay_load
verify 'it is slow: all there'
ok 'it is slow: it is let go of' until_is '' eval 'dmsetup info -c --noheadings -o open b | grep -v "^0"'
stop
expect 'it is slow: drains' "$status" 0

# ---- One is not there, and a new one takes its place -------------------------------
dmsetup remove b
several 2 1 a d c
mark
ok 'a new one: the store lives: resumes' start new
ok 'a new one: joins' since '/dev/mapper/d: has joined the others\|/dev/mapper/d: joins'
ok 'a new one: is used' until_is used backup d state
ok 'a new one: has what it should have' until_is 0 daemon segments_short
load 600
ok 'a new one: has segments' until_is true eval '[ "$(backup d "frames - .frames_free")" -gt 0 ] && echo true'
lose_memory
dmsetup remove a
mark
ok 'one of three is missing: recovers' start missing
ok 'one of three is missing: says so' since '/dev/mapper/a: is not there'
expect 'one of three is missing: in the table' "$(backup a state)" missing
verify 'one of three is missing: all there'
stop
run "$ctl" destroy "$store"

# ---- Too few ---------------------------------------------------------------------------
dmsetup remove c
refuses 'one of two' 3 'only 2 can tell'
refuses 'one of two' 3 'accept-missing'
cut_device c "$other" 0
cut_device a "$drive" 0
ok 'all are back' start all
verify 'all are back: all there'
stop
run "$ctl" destroy "$store"
several 1 1 a d
refuses 'two of three are named' 2 'name them all'
several 2 2 a d c
ok 'a minimum of two' start two
load 600
nap 1
turn c "0 $sectors flakey $(realpath "$other") 0 0 3600 1 error_writes"
turn d "0 $sectors flakey $(realpath "$other") $sectors 0 3600 1 error_writes"
status=0
wait "$daemon_pid" || status=$?
expect 'a minimum of two: one is left: exit status' "$status" 6
slay_load
verify 'a minimum of two: the store is readable'
turn c "${table[c]}"
turn d "${table[d]}"
ok 'a minimum of two: resumes' start repaired
verify 'a minimum of two: all there'
run "$ctl" backups lsmem7
ok 'no such store' [ "$status" -ne 0 ]
stop
expect 'drains' "$status" 0
run "$ctl" destroy "$store"
expect 'all of it is on the backups' "$status" 0
run "$lsmemd" -c "$conf" --check
expect 'which are sound' "$status" 0
sed 's/^/# /' "$scratch/out"
run "$ctl" check /dev/mapper/a /dev/mapper/d /dev/mapper/c
expect 'lsmemctl check says so too' "$status" 0
run "$ctl" check /dev/mapper/a
expect 'one of them says little' "$status" 1
ok 'one of them: says why' grep -q 'has 3 backups: name them all' "$scratch/err"
for name in a c d; do
	dmsetup remove "$name"
done
rmmod lsmem
expect 'the module can be unloaded' "$?" 0
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log"
tap_end
