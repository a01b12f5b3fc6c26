#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The block device under fio, filesystems and discards. disk.c tests what these cannot: races, FUA,
# bounds on waiting.
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"

MIB=1048576
BLOCK=4096

mib()		# NUMBER: so many MiB, or $LSMEM_SCALE percent of them
{
	echo $((($1 * ${LSMEM_SCALE:-100} + 99) / 100))M
}

verified()	# NAME JOB MIB: fio writes at random, reads back and compares (tests/fio/verify.fio)
{
	ok "fio verifies: $1" env DEV="$dev" SIZE="$(mib "$3")" SEED="${LSMEM_SEED:-1}" \
		fio --section="$2" "$top/tests/fio/verify.fio"
}

zeroes()	# OFFSET LENGTH, in bytes: the device reads as zeroes there
{
	cmp -n "$2" -i "$1:0" "$dev" /dev/zero
}

contents()	# OFFSET: the block there is not zero
{
	! cmp -s -n $BLOCK -i "$1:0" "$dev" /dev/zero
}

# mounted DIRECTORY COMMAND ..: run the command; fail without it if nothing is mounted there
mounted()
{
	mountpoint -q "$1" && "${@:2}"
}

refused()	# FILE VALUE ERROR: and the value stays
{
	local before after said

	before=$(value "$1")
	said=$( (echo "$2" > "$sys/$1") 2>&1)
	after=$(value "$1")
	is "$1 refuses '$2'" "${said##*: } $after" "$3 $before"
}

files()		# DIRECTORY: one large file and many small ones
{
	cp -r "$scratch/tree" "$1" && head -c $((12 * MIB)) /dev/urandom > "$1/large" &&
		sync -f "$1/large"
}

same()		# DIRECTORY: the small ones are as they were
{
	diff -r "$scratch/tree" "$1/tree"
}

mkdir "$scratch/mnt" "$scratch/tree"
head -c $((6 * MIB)) /dev/urandom | split -b 30011 -a 3 - "$scratch/tree/"

store_create --kind block --size 128M
dev=/dev/$store
size=$(blockdev --getsize64 "$dev")
is "as many blocks as handles" "$((size / BLOCK))" "$(value handles_max)"
ok "unwritten, it reads as zeroes" zeroes 0 $((8 * MIB))

# ---- fio ----------------------------------------------------------------------------------------

verified "4 KiB, eight at a time" eight 24
verified "64 KiB by two writers, beside one another" two 24
verified "mixed sizes, through the page cache" mixed 16
ok "FLUSH on a volatile store" blockdev --flushbufs "$dev"

# ---- Deleting -----------------------------------------------------------------------------------

dd if=/dev/urandom of="$dev" bs=1M count=16 oflag=direct status=none
before=$(value handles_used)
ok "blkdiscard" blkdiscard -o $((2 * MIB)) -l $((4 * MIB)) "$dev"
ok "what was discarded reads as zeroes" zeroes $((2 * MIB)) $((4 * MIB))
ok "write-zeroes" blkdiscard -z -o $((8 * MIB)) -l $((2 * MIB)) "$dev"
ok "what was zeroed reads as zeroes" zeroes $((8 * MIB)) $((2 * MIB))
is "both give their room back" $((before - $(value handles_used))) $((6 * MIB / BLOCK))
ok "what lies before it stays" contents $((2 * MIB - BLOCK))
ok "what lies after it stays" contents $((6 * MIB))

# ---- Full, and overwritten ----------------------------------------------------------------------

for from in urandom zero; do	# zeroes that are written are blocks like any other
	ok "all of it is written, from $from" dd if=/dev/$from of="$dev" bs=1M oflag=direct \
		count=$((size / MIB))
done
verified "at random, all blocks live" full 32
is "all blocks are live" "$(value handles_used)" "$(value handles_max)"
ok "the cleaner has been at work" [ $(($(value cleaner/segments_cleaned) + $(value cleaner/compactions))) -gt 0 ]
ok "all of it is discarded" blkdiscard "$dev"
is "nothing is live" "$(value live_bytes)" 0

# ---- Filesystems --------------------------------------------------------------------------------

ok "mkfs.ext4" mkfs.ext4 -q -b 4096 "$dev"
ok "ext4 mounts" mount "$dev" "$scratch/mnt"
ok "ext4 takes files" mounted "$scratch/mnt" files "$scratch/mnt"
is "a mounted store is busy" "$("$lsmemctl" destroy "$store" > /dev/null 2>&1; echo $?)" 1
umount "$scratch/mnt"
ok "e2fsck finds nothing" e2fsck -f -n "$dev"
ok "ext4 mounts again" mount "$dev" "$scratch/mnt"
ok "ext4 has the files" mounted "$scratch/mnt" same "$scratch/mnt"
umount "$scratch/mnt"

ok "it can be destroyed" store_destroy
is "the disk has gone" "$([ -e "$dev" ] || echo gone)" gone
store_create --kind block --size 400M	# mkfs.xfs wants 300 MiB
dev=/dev/$store
ok "mkfs.xfs" mkfs.xfs -q -f "$dev"
ok "xfs mounts" mount "$dev" "$scratch/mnt"
ok "xfs takes files" mounted "$scratch/mnt" files "$scratch/mnt"
before=$(value handles_used)
rm "$scratch/mnt/large"
sync -f "$scratch/mnt"
ok "fstrim" fstrim "$scratch/mnt"
ok "what was trimmed is free" [ $((before - $(value handles_used))) -ge $((11 * MIB / BLOCK)) ]
ok "xfs has the other files" mounted "$scratch/mnt" same "$scratch/mnt"
umount "$scratch/mnt"
ok "xfs_repair finds nothing" xfs_repair -n "$dev"

# ---- sysfs --------------------------------------------------------------------------------------

erange="Numerical result out of range"
einval="Invalid argument"
refused limits/view_ms 9 "$erange"
refused limits/stall_ms 3600001 "$erange"
refused limits/durable_ms 4294967296 "$erange"
refused cleaner/free_low 501 "$erange"
refused cleaner/tombstones_max -1 "$einval"
refused cleaner/tombstones_max "" "$einval"
ok "a good value is taken" bash -c "echo 0x64 > $sys/cleaner/free_low"
is "and shown" "$(value cleaner/free_low)" 100
is "one value a file" "$(find "$sys/" -maxdepth 2 -type f ! -name uevent ! -path '*/power/*' \
	! -path "*/$store/$store/*" -exec wc -l {} + | awk '$2 != "total" && $1 != 1')" ""
ok "debugfs shows the segments" grep -q closed "/sys/kernel/debug/lsmem/$store/segments"

ok "that one can be destroyed" store_destroy
tap_end
