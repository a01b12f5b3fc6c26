#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A tiered store with lsmemd, in a guest: TAP.  Memory for a quarter of its data.  All objects are read
# back, from memory or the backup, also while the daemon is killed; half of them are overwritten, so
# that segments with cold objects are cleaned.  Then the memory of the store is lost, and recovered
# without reading its objects.  At last segments are damaged, which is found before the store is served,
# or behind.
#
#	qemu/run --drive backup:2G -- tests/daemon/guest-tier.sh
#
# LOSSES, KILLS: how often.
. "$(dirname "$0")/guest-lib.sh"
. "$here/tier-lib.sh"
losses=${LOSSES:-1}
kills=${KILLS:-3}
slots=${SLOTS:-200000}

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

kill_often()
{
	local i

	for ((i = 0; i < kills; i++)); do
		nap $((RANDOM % 2 + 1))
		slay
		nap 0
		start "kill $i" || return
	done
}

# blocks: the block in the middle of each eighth frame of the drive
blocks()
{
	local frame=$(od -A n -t u8 -j 80 -N 8 "$drive" | tr -d ' ') end=$(blockdev --getsize64 "$drive")

	for ((; frame + (8 << 20) <= end; frame += 64 << 20)); do
		echo $(((frame + (4 << 20)) / 4096))
	done
}

# damage, undamage: destroy these blocks, and bring them back
damage()
{
	local block

	for block in $(blocks); do
		dd if="$drive" of="$scratch/block.$block" bs=4096 count=1 skip="$block" iflag=direct status=none
		dd if=/dev/zero of="$drive" bs=4096 count=1 seek="$block" oflag=direct conv=notrunc status=none
	done
}

undamage()
{
	local block

	for block in $(blocks); do
		dd if="$scratch/block.$block" of="$drive" bs=4096 seek="$block" oflag=direct conv=notrunc status=none
	done
}

named() { dmesg | grep -c 'is not whole on any backup'; }

configure "$drive" 'kind = object\nsize = 128M\ncapacity = 320M\n'
ok 'formatted and active' start format --format --force
is 'its capacity' "$(figure capacity_bytes)" $((320 << 20))
is 'its memory' "$(figure size_bytes)" $((128 << 20))
is 'lsmemctl list shows both' \
	"$("$ctl" list --json | jq -r '.[0] | "\(.size_bytes) \(.capacity_bytes)"')" \
	"$((128 << 20)) $((320 << 20))"
objects 'filled to 90 %' fill 90 "$slots"
ok 'most of it is not in memory' [ "$(figure tier/cold_bytes)" -gt $((150 << 20)) ]
tier
verify 'all there'
ok 'objects were fetched' [ "$(figure tier/fetches)" -gt 1000 ]
tier
for round in 1 2 3; do		# until cleaning has to go on
	objects "half of the objects overwritten, $round" overwrite 50
	[ "$(figure cleaner/segments_cleaned)" -eq 0 ] || break
done
ok 'segments were cleaned' [ "$(figure cleaner/segments_cleaned)" -gt 0 ]
tier
verify 'all there after cleaning'
reads 'reads, the daemon killed meanwhile' $((kills * 3 + 2)) kill_often
tier
kill -USR1 "$daemon_pid"
sleep 1
ok 'the status has fetches' grep -q '"fetches": [1-9]' "/run/lsmem/$store.json"
grep -o '"fetch[a-z_]*": [0-9]*' "/run/lsmem/$store.json" | tr '\n' ' ' | sed 's/^/# /; s/$/\n/'
is 'nothing has failed' "$(jq .fetch_failures "/run/lsmem/$store.json")" 0

for ((i = 0; i < losses; i++)); do
	load 60
	nap 3
	slay
	slay_load
	run "$ctl" destroy --force "$store"
	is "loss $i: the memory is lost" "$status" 0
	mark
	ok "loss $i: recovers" start "loss $i" || break
	ok "loss $i: the log says how long it took" since 'tiered: active [0-9.]* s after'
	grep 'tiered: active' "$log" | tail -1 | sed 's/^.*tiered/# tiered/'
	ok "loss $i: objects were not read" \
		[ "$(jq .recovery_read_bytes "/run/lsmem/$store.json")" -lt $((120 << 20)) ]
	reads "loss $i: reads of a store that was just recovered" 3 true
	verify "loss $i: all that was acknowledged"
	tier
done
objects 'overwritten after recoveries' overwrite 30
stop
is 'shutdown drains' "$status" 0
run "$ctl" destroy "$store"
is 'drained, so it can be destroyed' "$status" 0
run "$ctl" check "$drive" --json
is 'check: sound' "$(jq -r .verdict "$scratch/out")" sound
is 'check: the capacity' "$(jq -r .capacity "$scratch/out")" $((320 << 20))
ok 'recovers after the shutdown' start recovery
verify 'all there from the backup'
ok 'all of it is verified' until_is 0 figure tier/unverified_segments
is 'and whole' "$(figure tier/unreadable_segments)" 0
stop
run "$ctl" destroy "$store"

damage
refuses 'damaged, verified first' 3 'LOST: segment [0-9]* (frame [0-9]*): .* objects or tombstones are lost' \
	--verify-first
ok 'damaged, verified first: what can be done' grep -q 'with --accept-loss' "$scratch/err"
is 'damaged, verified first: no store is left' "$(ls /sys/class/lsmem)" ''
before=$(named)
ok 'damaged, verified behind: is served' start behind
ok 'damaged, verified behind: all of it is read' until_is 0 figure tier/unverified_segments
bad=$(figure tier/unreadable_segments)
echo "# $bad segments are not whole"
ok 'damaged, verified behind: segments are counted' [ "$bad" -gt 0 ]
is 'damaged, verified behind: each is named once' $(($(named) - before)) "$bad"
is 'damaged, verified behind: lsmemctl tier shows them' \
	"$("$ctl" tier --json | jq -r '.[0].unreadable_segments')" "$bad"
stop
run "$ctl" destroy "$store"
undamage
printf '[store]\nkind = object\nverify = first\n[backup]\npath = %s\n' "$drive" >"$conf"
ok 'whole again, verified first: is served' start first
is 'whole again, verified first: once is enough' "$(figure tier/unverified_segments)" 0
ok 'whole again, verified first: all has been read' \
	[ "$(jq .recovery_read_bytes "/run/lsmem/$store.json")" -gt "$(figure live_bytes)" ]
reads 'whole again, verified first: reads' 2 true
stop
is 'the end' "$status" 0
run "$ctl" destroy "$store"
is 'destroyed' "$status" 0
[ "$failed" -eq 0 ] || tail -60 "$log" | sed 's/^/# /'
tap_end
