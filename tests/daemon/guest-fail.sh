#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# lsmemd with the module: it reports failures and does not try again, and it names what is lost.
# In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-fail.sh
. "$(dirname "$0")/guest-lib.sh"

stores() { ls /sys/class/lsmem 2>/dev/null | tr '\n' ' '; }

# ---- A backup that fails ---------------------------------------------------
modprobe -a dm-mod dm-flakey
mkdir -p "$scratch/mnt"
sectors=$(blockdev --getsz $other)
linear="0 $sectors linear $(realpath $other) 0"
dmsetup create shaky --table "$linear"
configure /dev/mapper/shaky 'size = 128M\n'
rm -f "$model"
ok 'a shaky backup' start shaky --format --force
load 60
sleep 2
dmsetup suspend --noflush shaky
# Writes and flushes fail. Reads do not, because udev reads the device meanwhile, and its errors
# would be in the kernel's log.
dmsetup load shaky --table "0 $sectors flakey $(realpath "$other") 0 0 3600 1 error_writes"
dmsetup resume shaky
status=0
wait "$daemon_pid" || status=$?
is 'it fails: exit status' "$status" 6
ok 'it fails: the message names the failure' grep -q 'at [0-9]* failed: Input/output error' "$log"
ok 'it fails: the message tells what to do' grep -q 'Do not destroy it' "$log"
ok 'it fails: in the status file' grep -q '"state": "failed"' /run/lsmem/lsmem.json
slay_load
ok 'it fails: the store is readable' "$load" verify "$model" /dev/lsmem
run "$ctl" destroy lsmem
ok 'it fails: destroy refuses, the backup is incomplete' [ "$status" -ne 0 ]
dmsetup suspend --noflush shaky
dmsetup load shaky --table "$linear"
dmsetup resume shaky
ok 'repaired: resumes' start repaired
verify 'repaired: all there'
stop
is 'repaired: drains' "$status" 0
run "$ctl" destroy lsmem
is 'repaired: all of it is on the backup' "$status" 0
ok 'repaired: recovers' start again
verify 'repaired: all there from the backup'
stop
run "$ctl" destroy lsmem

# recovered: what the last recovery found
recovered() { sed -n 's/.*recovered \([0-9]* objects\), .*/\1/p' "$log" | tail -n 1; }

# ---- Losses are named -------------------------------------------------------
# Destroy blocks in the log data of each frame: how many hold what is live, depends on the load.  Of 22 frames with one each
# no live one was hit, once: a sixteenth of the log was live.
frames=$(od -A n -t u8 -j 80 -N 8 $other | tr -d ' ')
for at in {0..255}; do
	dd if=/dev/zero of=/dev/mapper/shaky bs=4096 count=1 conv=notrunc status=none \
		seek=$(((frames + at / 8 * 8388608 + 4096 + 40960 + at % 8 * 524288) / 4096))
done
blockdev --flushbufs /dev/mapper/shaky
run "$lsmemd" -c "$conf" --check
is 'damaged: --check: exit status' "$status" 3
refuses 'damaged' 3 'LOST: '
ok 'damaged: in the status file' grep -q '"lost_count": [1-9]' /run/lsmem/lsmem.json
is 'damaged: no store is left' "$(stores)" ''
ok 'damaged: goes on with the option for it' start accept --accept-loss
ok 'damaged: still names the losses' grep -q '"lost_count": [1-9]' /run/lsmem/lsmem.json
accepted=$(recovered)
stop
run "$ctl" destroy lsmem
ok 'damaged: after an accepted loss the backup is sound' start sound
is 'damaged: nothing older comes back later' "$(recovered)" "$accepted"
stop
run "$ctl" destroy lsmem

# ---- A file ----------------------------------------------------------------
dmsetup remove shaky
mkfs.ext4 -q -F $other && mount $other "$scratch/mnt"
configure "$scratch/mnt/backup" 'size = 128M\n' 'size = 512M\n'
rm -f "$model"
forget
ok 'a file: created, active' start file --init
load 2
wait "$load_pid"
stop
run "$ctl" destroy lsmem
ok 'a file: recovers' start file
verify 'a file: all there'
stop
run "$ctl" destroy lsmem
umount "$scratch/mnt"

rmmod lsmem
is 'the module can be unloaded' "$?" 0
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log"
tap_end
