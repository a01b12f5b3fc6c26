#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# lsmemd --check of backups with all sorts of content; it writes nothing and needs no module.  TAP.
# LSMEMD and MKBACKUP are programs.
set -u
. "$(dirname "$0")/lib.sh"
lsmemctl=$(realpath "$(dirname "$0")/../../tools/lsmemctl/lsmemctl")
mkbackup=$(realpath "${MKBACKUP:-$(dirname "$0")/build/mkbackup}")

image=$scratch/image
conf=$scratch/lsmemd.conf
printf '[backup]\npath = %s\nlock_wait = 0\n' "$image" >"$conf"

blank() { rm -f "$image"; head -c 160M /dev/zero >"$image"; }
# shellcheck disable=SC2059 # the format is the data
bytes() { printf "$2" | dd of="$image" bs=1 seek="$1" conv=notrunc status=none; }
patch() { printf '%s' "$2" | dd of="$image" bs=1 seek="$1" conv=notrunc status=none; }
check() { run "$lsmemd" -c "$conf" --check; }

# refused NAME [WHAT]: other content: exit status 5; the message tells how to overwrite it, and
# calls it WHAT
refused()
{
	local before after
	before=$(cksum <"$image")
	check
	after=$(cksum <"$image")
	is "$1: exit status" "$status" 5
	ok "$1: --format --force is named" grep -q -- '--format --force' "$scratch/err"
	is "$1: nothing is written" "$after" "$before"
	[ -z "${2:-}" ] || ok "$1: called $2" grep -qF "$image: holds $2" "$scratch/err"
}

blank
check
is 'blank: exit status' "$status" 0
is 'blank: said' "$(cat "$scratch/out")" "$image: blank"

blank
mkfs.ext4 -q -F -L books "$image"
refused 'an ext4 filesystem' 'ext4, labelled "books"'
if command -v mkfs.xfs >/dev/null; then
	rm -f "$image"
	truncate -s 512M "$image"
	mkfs.xfs -q -f "$image"
	refused 'an xfs filesystem' xfs
fi
blank
mkswap -q "$image" 2>/dev/null || mkswap "$image" >/dev/null 2>&1
refused 'swap space' swap
blank
# One partition: type 83h, from sector 1 on
bytes 446 '\0\0\2\0\203\377\377\377\1\0\0\0\377\17\0\0'
bytes 510 '\125\252'
refused 'a partition table' 'a partition table (dos)'
blank
patch 65600 _BHRfS_M
refused 'what leaves the first 64 KiB alone (btrfs)'
blank
patch 1048575 x
refused 'the last byte of the first MiB'
blank
patch $((160 * 1048576 - 65536)) 'md superblock'
refused 'what lies at the end (md 1.0)'

blank
run "$mkbackup" "$image" 64
is 'an empty backup: made' "$status" 0
cp "$image" "$scratch/good"
check
is 'an empty backup: exit status' "$status" 0
ok 'an empty backup: what it is' grep -q 'kind = object, size = 64M, handles = 262144' "$scratch/out"
ok 'an empty backup: nothing lost' grep -q '^lost: *0$' "$scratch/out"

# One superblock copy of two is enough; without both it is not a backup.
for slot in 0 1; do
	cp "$scratch/good" "$image"
	patch $((slot * 4096 + 20)) 'damaged'
	check
	is "slot $slot damaged: exit status" "$status" 0
done
cp "$scratch/good" "$image"
patch 20 'damaged'
patch 4116 'damaged'
refused 'both slots damaged'
cp "$scratch/good" "$image"
dd if=/dev/zero of="$image" bs=4096 count=2 conv=notrunc status=none
check
is 'a formatting cut off before the superblock: exit status' "$status" 0
ok 'a formatting cut off before the superblock: blank' grep -q ': blank$' "$scratch/out"
cp "$scratch/good" "$image"
truncate -s 80M "$image"
check
ok 'cut short: refused' [ "$status" -ne 0 ]

# Segments with objects: all are found; a damaged object is reported by name.
blank
run "$mkbackup" "$image" 64 1000 60
is 'a full backup: made' "$status" 0
cp "$image" "$scratch/good"
check
is 'a full backup: exit status' "$status" 0
ok 'a full backup: segments' grep -q '^segments: 15 (15 closed' "$scratch/out"
objects=$(sed -n 's/^objects: *\([0-9]*\), .*/\1/p' "$scratch/out")
ok "a full backup: $objects objects" [ "${objects:-0}" -gt 60000 ]
patch $((100 * 1048576)) 'damaged'
check
is 'a full backup, damaged: exit status' "$status" 3
ok 'a full backup, damaged: what is lost' grep -q 'LOST: segment [0-9]* ' "$scratch/err"
cp "$scratch/good" "$image"
# A backup of the format before this one: whole, but for another version.
run "$mkbackup" "$image" format 1
is 'format 1: made' "$status" 0
refused 'format 1'
older='a backup of format 1, and this version of lsmem reads format 2'
ok 'format 1: lsmemd says so' grep -q "$older" "$scratch/err"
run "$lsmemctl" check "$image"
is 'format 1: lsmemctl check: exit status' "$status" 1
ok 'format 1: lsmemctl check says so' grep -q "$older" "$scratch/err"
ok 'format 1: lsmemctl check does not call it damaged' grep -q "^verdict *unreadable" "$scratch/out"
run "$lsmemctl" format "$image"
is 'format 1: lsmemctl format: exit status' "$status" 1
run "$mkbackup" "$image" format 3
refused 'format 3'
ok 'format 3: lsmemd says so' grep -q 'unknown format version' "$scratch/err"
cp "$scratch/good" "$image"
# A backup alone is not mistaken for one of a coded store, which has several.
run "$mkbackup" "$image" feature 8
is 'coded: made' "$status" 0
refused 'coded'
ok 'coded: lsmemd says so' grep -q 'superblock copy 0: a field is out of range' "$scratch/err"
run "$lsmemctl" check "$image"
is 'coded: lsmemctl check: exit status' "$status" 3
ok 'coded: lsmemctl check says so' grep -q 'superblock copy 0: a field is out of range' "$scratch/err"
cp "$scratch/good" "$image"
run "$mkbackup" "$image" feature 1073741824
refused 'an unknown feature'
ok 'an unknown feature: lsmemd says so' grep -q 'uses a feature that this version does not know' "$scratch/err"
cp "$scratch/good" "$image"
run "${RECOVERY:-$(dirname "$0")/build/recovery}" "$image"
is 'a full backup, recovered: exit status' "$status" 0
ok 'a full backup, recovered: all objects' grep -q "\"segments\": 15, \"objects\": $objects, " \
	"$scratch/out"

# The same as the backup of a tiered store: the kernel gets places, and objects are not read.
read_bytes() { sed -n 's/.*"read_bytes": \([0-9]*\).*/\1/p' "$scratch/out"; }
whole=$(read_bytes)
cp "$scratch/good" "$image"
run "$mkbackup" "$image" capacity 96
is 'tiered: made' "$status" 0
check
is 'tiered: exit status' "$status" 0
ok 'tiered: what it is' grep -q 'size = 64M, handles = [0-9]*, capacity = 96M$' "$scratch/out"
ok 'tiered: all objects' grep -q "^objects: *$objects, " "$scratch/out"
run "${RECOVERY:-$(dirname "$0")/build/recovery}" "$image"
is 'tiered, recovered: exit status' "$status" 0
ok 'tiered, recovered: all objects, by their places' grep -q \
	"\"objects\": $objects, .*\"loaded_bytes\": 0, \"loads\": 0, \"placed\": $objects, " "$scratch/out"
echo "# $(read_bytes) bytes read, $whole otherwise"
ok 'tiered, recovered: a twentieth is read' [ $(($(read_bytes) * 20)) -lt "$whole" ]
run "$mkbackup" "$image" capacity 32
is 'tiered, capacity below the size: made' "$status" 0
refused 'tiered, capacity below the size'

# Few objects among many handles: recovery's table has 384 MiB, but uses little memory.
blank
run "$mkbackup" "$image" 64 100000 100 16777216
is 'few objects, many handles: made' "$status" 0
run "${RECOVERY:-$(dirname "$0")/build/recovery}" "$image"
is 'few objects, many handles: exit status' "$status" 0
ok 'few objects, many handles: objects' grep -Eq '"objects": [0-9]{3,4},' "$scratch/out"
peak=$(sed -n 's/.*"peak_bytes": \([0-9]*\).*/\1/p' "$scratch/out")
echo "# peak: $((peak >> 20)) MiB"
ok 'few objects, many handles: little memory' [ "$peak" -lt $((160 << 20)) ]
cp "$scratch/good" "$image"

# Backups that do not exist, are not files, or are not accessible.
rm -f "$image"
check
is 'no file: exit status' "$status" 1
ok 'no file: the way out' grep -q 'size = ..' "$scratch/err"
mkdir "$image"
check
is 'a directory: exit status' "$status" 1
rmdir "$image"
cp "$scratch/good" "$image"
flock "$image" sleep 60 &
holder=$!
sleep 0.3
check
is 'held by another: exit status' "$status" 4
kill "$holder"
wait "$holder" 2>/dev/null

tap_end
