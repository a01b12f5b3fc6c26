#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Coded stores: 2+1 and 3+2 on parts of two drives. lsmemd is killed and goes on; any M backups are lost under load, and
# writers go on; memory is lost, and M other backups are missing; shards are made anew on new backups; in the end lsmemctl
# check finds all shards whole, and parity that belongs to its data. With batch_us small writes cost fewer blocks, and durable
# ones end in time. In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-coded.sh
. "$(dirname "$0")/guest-lib.sh"
. "$here/coded-lib.sh"

# life NAME LOST.. / MISSING.. / ALL..: see the top of this file
life()
{
	local name=$1 one lost=$2 missing=$3 all=$4

	load 900
	ok "$name: something is written" until_true 60 eval '[ "$(daemon segments_closed)" -gt 2 ]'
	slay
	ok "$name: killed, and goes on" start "$name"
	goes_on "$name: killed"
	mark
	for one in $lost; do
		spoil_one "$one"
	done
	ok "$name: $lost are lost" lost_all $lost
	goes_on "$name: $lost are lost"
	slay
	for one in $lost; do
		uncut "$one"
	done
	ok "$name: killed without $lost, and goes on" start "$name"
	goes_on "$name: killed without $lost"
	# New drives take their places.
	for one in $lost; do
		renew "$one"
	done
	ok "$name: new ones are used, and have their shards" used_all $lost
	"$ctl" backups | sed 's/^/# /'
	lose_memory
	for one in $missing; do
		uncut "$one"
	done
	ok "$name: memory is lost, and $missing are missing: recovers" start "$name"
	grep ' recovered ' "$log" | tail -n 1 | sed 's/^/# /'
	verify "$name: all there"
	load 900
	goes_on "$name: $missing are missing"
	for one in $missing; do
		bring_back "$one"
	done
	ok "$name: they come back, and have their shards" used_all $missing
	goes_on "$name: all are there"
	slay_load
	verify "$name: all there in the end"
	stop
	is "$name: drains" "$status" 0
	run "$ctl" destroy "$store"
	sound "$name" $all
}

# blocks: blocks that rows have cost so far, by the metrics
blocks() { echo $(($(figure 'lsmem_data_blocks_total{.*}') + $(figure 'lsmem_parity_blocks_total{.*}'))); }

# trickle NR: so many small objects, a millisecond apart, and a sync; $cost is what they cost in blocks, $took how long, in ms
trickle()
{
	local before begun status
	# The metrics are of the last tick.
	until_true 10 metrics_are_new || return 1
	before=$(blocks)
	begun=$(now_ms)
	"$load" trickle "$model" "/dev/$store" "$1" 1000
	status=$?
	took=$(($(now_ms) - begun))
	until_true 10 metrics_are_new || return 1
	cost=$(($(blocks) - before))
	return $status
}

# metrics_are_new: do the metrics have what the daemon has now?
metrics_are_new() { [ "$(blocks)" -eq "$(($(daemon data_blocks) + $(daemon parity_blocks)))" ]; }

# waits TEXT: have batch_us changed by a reload
waits()
{
	mark
	sed -i "s/^size = .*/&\nbatch_us = $1/; /^batch_us/d" "$conf"
	kill -HUP "$daemon_pid"
	until_true 60 since '\[store\] batch_us: changed'
}

# batches: rows that wait for more
batches()
{
	local at_once
	ok 'batch_us 0: a stream of small writes' trickle 500
	at_once=$cost
	ok 'batch_us 0: mostly partial rows' [ "$cost" -gt 300 ]
	ok 'batch_us 50000: by a reload' waits 50000
	ok 'batch_us 50000: a stream of small writes' trickle 500
	echo "# $at_once blocks at once, $cost with batch_us = 50000"
	ok 'batch_us 50000: costs fewer blocks' [ $((cost * 3)) -lt "$at_once" ]
	ok 'batch_us 50000: a sync with a writer that has stopped' trickle 1
	echo "# it took $took ms"
	ok 'batch_us 50000: it waited' [ "$took" -ge 50 ]
	ok 'batch_us 50000: it ended in time' [ "$took" -lt 5000 ]
	ok 'batch_us 0: by a reload' waits 0
	verify 'batch_us: all there'
}

# ---- 2+1 -----------------------------------------------------------------------------------------
coded 'code = 2+1\n' a b c
ok '2+1: formatted and active' start 2+1 --init
is '2+1: the kernel knows what a segment has' "$(cat "/sys/class/lsmem/$store/segment_bytes")" $((4096 + 2 * 1017 * 4096))
is '2+1: its backups are those of this code' "$(backup b code)" 2+1
life 2+1 c a 'a b c'
coded '' a b c
refuses 'without code' 2 'is coded: "code = 2+1" is needed in \[store\]'
coded 'code = 3+2\n' a b c d e
refuses 'another code' 2 'names 5 backups, and the store has 3'
# After a drain all of it is on the backups.
coded 'code = 2+1\n' a b c
ok '2+1: starts again' start again
verify '2+1: all there again'
stop
printf '[metrics]\nlisten = 127.0.0.1:%s\n' "$port" >>"$conf"
ok '2+1: starts, with metrics' start again
batches
stop
is 'batch_us: drains' "$status" 0
run "$ctl" destroy "$store"
forget

# ---- 3+2 -----------------------------------------------------------------------------------------
rm -f "$model"
coded 'code = 3+2\nmin_parity = 0\n' a b c d e
ok '3+2: formatted and active' start 3+2 --format --force
is '3+2: the kernel knows what a segment has' "$(cat "/sys/class/lsmem/$store/segment_bytes")" $((4096 + 3 * 676 * 4096))
life 3+2 'a d' 'b e' 'a b c d e'
forget
coded 'replicas = 2\n' a b c d f
ok 'replicas: formatted and active' start replicas --format --force
stop
run "$ctl" destroy "$store"
coded 'code = 3+2\n' a b c d f
refuses 'a code for replicas' 2 'has replicas: leave code out; or add convert_rate'
coded_end
