#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A store goes on with each of two backups alone, after recoveries that accepted the loss of the
# other. lsmemd reports the split brain and refuses both together; a command decides which backup is
# kept.  Then replicas are damaged, and a new backup is filled from the sound one; damaged replicas are
# found by scrubbing.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-split.sh
. "$(dirname "$0")/guest-lib.sh"
. "$here/several-lib.sh"

# ---- Split brain -------------------------------------------------------------------------
# alone NAME OTHER: serve the store from one backup, without the other, and drain it
alone()
{
	uncut "$2"
	refuses "$1 alone" 3 'accept-missing'
	ok "$1 alone: accepted" start "$1" --accept-missing
	verify "$1 alone: all there"
	load 2
	wait "$load_pid"
	stop
	is "$1 alone: drains" "$status" 0
	run "$ctl" destroy "$store"
}
# prints DEVICE ..: checksums of superblocks and digests
prints() { for device in "$@"; do dd if="$device" bs=1M count=8 iflag=direct status=none | sha256sum; done; }

several 2 1 0 a b
ok 'two: formatted and active' start two --init
load 2
wait "$load_pid"
stop
run "$ctl" destroy "$store"
cp "$model" "$scratch/both"
alone a b
cp "$model" "$scratch/only-a"
cut_device b "$drive" 1
cp "$scratch/both" "$model"
alone b a
cut_device a "$drive" 0
before=$(prints /dev/mapper/a /dev/mapper/b)
refuses 'both have gone on' 3 'split brain: /dev/mapper/[ab] has gone on to digest [0-9]* without the others'
refuses 'both have gone on, whatever is accepted' 3 'lsmemctl format --force' --accept-missing
is 'both have gone on: nothing is changed' "$(prints /dev/mapper/a /dev/mapper/b)" "$before"
run "$ctl" format --force /dev/mapper/b
is 'one is discarded' "$status" 0
cp "$scratch/only-a" "$model"
ok 'one is discarded: the other recovers' start decided
verify 'one is discarded: all of the other is there'
ok 'one is discarded: it joins' until_is used backup b state
ok 'one is discarded: nothing is short' until_is 0 daemon segments_short
stop
run "$ctl" destroy "$store"

# ---- Damaged replicas --------------------------------------------------------------------
# Each segment is on all three backups, so that the third can be filled from either of two.
# rot DEVICE: write a mark into the middle of the log of each closed segment; print how many
rot()
{
	python3 - "$1" <<- 'END'
		import mmap, os, struct, sys
		SEGMENT, BLOCK = 8 << 20, 4096
		fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
		block, chunk = mmap.mmap(-1, BLOCK), mmap.mmap(-1, 1 << 20)
		size, start, rotten = os.lseek(fd, 0, os.SEEK_END), None, 0
		for at in range(0, 4 * SEGMENT, 1 << 20):
		    os.preadv(fd, [chunk], at)
		    found = [at + i for i in range(0, 1 << 20, BLOCK) if chunk[i:i + 8] == b"LMSSEG01"]
		    if found:
		        start = found[0] % SEGMENT
		        break
		for frame in range(start, size - SEGMENT + 1, SEGMENT):
		    os.preadv(fd, [block], frame + SEGMENT - BLOCK)
		    if block[:8] != b"LMSFOT01":
		        continue
		    length, = struct.unpack_from("<I", block, 44)
		    at = frame + BLOCK + length // 2 // BLOCK * BLOCK
		    os.preadv(fd, [block], at)
		    block[2048:2064] = b"ROTTEN__ROTTEN__"
		    os.pwritev(fd, [block], at)
		    rotten += 1
		print(rotten)
	END
}
# rotten DEVICE: the number of marks on the device
rotten() { dd if="$1" bs=1M iflag=direct status=none | grep -ao ROTTEN__ROTTEN__ | wc -l; }

for name in a b c; do
	dd if=/dev/zero of="/dev/mapper/$name" bs=1M count=8 oflag=direct status=none
done
forget
several 3 1 2 a b c
sed -i 's/^size = .*/&\nkind = block/' "$conf"
store=lsmemb0
data=$scratch/data
dd if=/dev/urandom of="$data" bs=1M count=64 status=none
# write COUNT: write so many MiB of the data, durably
write() { dd if="$data" of="/dev/$store" bs=1M count="$1" oflag=direct conv=fsync,notrunc status=none; }
ok 'rotten: three replicas of each' start rotten --init
ok 'rotten: data are written' write 64
spoil c "$other" 0
ok 'rotten: writes go on' write 1
ok 'rotten: without the third' until_is lost backup c state
dd if=/dev/zero of="$other" bs=1M count=8 oflag=direct status=none
nr=$(rot /dev/mapper/a)
ok "rotten: $nr replicas" [ "$nr" -gt 4 ]
mark
mend c
ok 'rotten: a blank one takes its place' until_is used backup c state
ok 'rotten: it is filled' until_is 0 daemon segments_short
ok 'rotten: the bad one is named' since '/dev/mapper/a: frame [0-9]*: the replica of segment [0-9]* is bad: .*another source is taken'
ok 'rotten: and counted' [ "$(daemon replicas_bad)" -gt 0 ]
is 'rotten: no segment is given up' "$(daemon replicas_failed)" 0
is 'rotten: nothing of it was copied' "$(rotten /dev/mapper/c)" 0
slay
run "$ctl" destroy --force "$store"
ok 'rotten: recovers' start again
ok 'rotten: all there' cmp -n $((64 << 20)) "$data" "/dev/$store"

# ---- Damaged replicas that no copy is made of --------------------------------------------
# checks COUNT: so many more replicas have been checked than $checked
checks() { [ "$(daemon replicas_checked)" -ge $((checked + $1)) ]; }
# cleaned: the segments without a sound replica that were named have been cleaned
cleaned()
{
	tail -n +$((mark + 1)) "$log" | grep 'what is live of it is in memory\|damaged segments have been cleaned' |
		tail -n 1 | grep -q 'have been cleaned'
}
bad=$(daemon replicas_bad) checked=$(daemon replicas_checked)
is 'scrub: not yet' "$checked" 0
mark
ok 'scrub: replicas are damaged' [ "$(rot /dev/mapper/b)" -gt 4 ]
sed -i 's/^size = .*/&\nscrub = 10s/' "$conf"
kill -HUP "$daemon_pid"
ok 'scrub: by a reload' until_true 60 since '\[store\] scrub: changed'
ok 'scrub: a bad one is named' until_true 120 since '/dev/mapper/b: frame [0-9]*: the replica of segment [0-9]* is bad'
ok 'scrub: all are read' until_true 120 checks $((3 * $(daemon segments)))
ok 'scrub: all are restored' until_is 0 daemon segments_short
ok 'scrub: bad ones are counted' [ "$(daemon replicas_bad)" -gt "$bad" ]
bad=$(daemon replicas_bad) checked=$(daemon replicas_checked)
ok 'scrub: all are read again' until_true 120 checks $((3 * $(daemon segments)))
is 'scrub: all are sound' "$(daemon replicas_bad)" "$bad"
stop
is 'drains' "$status" 0
run "$ctl" destroy "$store"

# With one backup there is no other replica, but what is live is in memory.
dd if=/dev/zero of=/dev/mapper/d bs=1M count=8 oflag=direct status=none
forget
printf '[store]\nsize = 128M\nkind = block\nscrub = 10s\n[backup]\npath = /dev/mapper/d\n' >"$conf"
ok 'scrub of one: starts' start single --init
ok 'scrub of one: data are written' write 64
mark
ok 'scrub of one: replicas are damaged' [ "$(rot /dev/mapper/d)" -gt 4 ]
ok 'scrub of one: a bad one is named' until_true 120 since 'the replica of segment [0-9]* is bad'
ok 'scrub of one: it is written elsewhere' until_true 120 since 'none of its replicas is sound; what is live of it is in memory'
checked=$(daemon replicas_checked)
ok 'scrub of one: all are read twice' until_true 120 checks $((2 * $(daemon segments)))
ok 'scrub of one: no damaged segment is left' until_true 120 cleaned
slay
run "$ctl" destroy --force "$store"
ok 'scrub of one: recovers without losses' start again
ok 'scrub of one: all there' cmp -n $((64 << 20)) "$data" "/dev/$store"
stop
is 'scrub of one: drains' "$status" 0
run "$ctl" destroy "$store"
for name in a b c d; do
	uncut "$name"
done
rmmod lsmem
is 'the module can be unloaded' "$?" 0
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log"
tap_end
