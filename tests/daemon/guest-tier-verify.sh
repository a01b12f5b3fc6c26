#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Verification of a tiered store after a restart, in a guest: TAP.  Its objects are verified while it is
# served, or before; segments that are damaged are found either way, and named.
#
#	qemu/run --drive backup:1G -- tests/daemon/guest-tier-verify.sh
. "$(dirname "$0")/guest-lib.sh"
. "$here/tier-lib.sh"
slots=${SLOTS:-60000}

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

configure "$drive" 'kind = object\nsize = 128M\ncapacity = 192M\n'
ok 'formatted and active' start format --format --force
objects 'filled to 90 %' fill 90 "$slots"
objects 'a third of the objects overwritten' overwrite 33
stop
run "$ctl" destroy "$store"
ok 'recovers' start recovery
ok 'all of it is verified' until_is 0 figure tier/unverified_segments
is 'and whole' "$(figure tier/unreadable_segments)" 0
verify 'all there'
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
