#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A disk with lsmemd, in a guest, with memory for a quarter of it: TAP.  fio writes all of it and reads it
# back.  Then it has a filesystem, whose files are compared while the daemon is killed, after some of them
# are gone and their blocks discarded, and after the memory of the store is lost.
#
#	qemu/run --drive backup:1G -- tests/daemon/guest-tier-disk.sh
#
# KILLS: how often.  TIER_MIB: the capacity.
. "$(dirname "$0")/guest-lib.sh"
. "$here/tier-lib.sh"
kills=${KILLS:-2}
capacity=${TIER_MIB:-512}
store=lsmemb0
files=$((capacity * 7 / 64))	# of 4 MiB
mnt=$scratch/mnt

# verified NAME OPTION ..: fio writes and reads back
verified()
{
	local name=$1

	shift
	# Without the time limit of run(): an emulated guest takes minutes.
	fio --name=verify --filename=/dev/$store --direct=1 --ioengine=libaio --iodepth=32 \
		--rw=randwrite --verify=crc32c --verify_fatal=1 --verify_state_save=0 --randseed=7 \
		--output-format=terse "$@" >"$scratch/out" 2>"$scratch/err"
	status=$?
	head -5 "$scratch/err" | sed 's/^/# /'
	is "$name" "$status" 0
}

# compare: the files are as they were written; not from the page cache
compare()
{
	echo 3 >/proc/sys/vm/drop_caches
	(cd "$mnt" && sha256sum --quiet -c "$scratch/sums")
}

mounts() { mount /dev/$store "$mnt"; }

kill_often()
{
	local i

	for ((i = 0; i < kills; i++)); do
		nap 0
		slay
		nap 1
		start "kill $i" || return
	done
}

make_files()
{
	local i

	for ((i = 0; i < files; i++)); do
		head -c 4M /dev/urandom >"$mnt/$i" || return
	done
	(cd "$mnt" && sha256sum [0-9]* >"$scratch/sums") && sync
}

# Half of the files go, and all they had.
drop_files()
{
	rm -f "$mnt"/*[13579] && sed -i '/[13579]$/d' "$scratch/sums" && sync && fstrim "$mnt"
}

configure "$drive" 'kind = block\nsize = 128M\ncapacity = '$capacity'M\n'
ok 'formatted and active' start format --format --force
is 'its capacity' "$(figure capacity_bytes)" $((capacity << 20))
is 'its memory' "$(figure size_bytes)" $((128 << 20))
ok 'the disk follows the capacity' [ "$(blockdev --getsize64 /dev/$store)" -gt $((capacity * 15 << 16)) ]
verified 'all of it written and read' --bsrange=4k-64k
ok 'most of it is not in memory' [ "$(figure tier/cold_bytes)" -gt $(((capacity - 212) << 20)) ]
ok 'blocks were fetched' [ "$(figure tier/fetches)" -gt $((capacity * 15)) ]
tier
verified 'a quarter of it written again and read' --bs=4k --io_size=$((capacity / 4))M --verify_backlog=512
tier

mkdir "$mnt"
ok 'a filesystem' mkfs.ext4 -q -F /dev/$store	# discards what fio has left
ok 'mounted' mounts
ok 'files' make_files
tier
ok 'the files are right' compare
compare >"$scratch/compared" 2>&1 &
pid=$!
ok 'the daemon killed meanwhile' kill_often
wait "$pid"
is 'the files are right' "$?" 0
head -5 "$scratch/compared" | sed 's/^/# /'
ok 'half of them removed' drop_files
ok 'the others are right' compare
ok 'unmounted' umount "$mnt"
tier

slay
ok 'the memory is lost' until_true 10 "$ctl" destroy --force $store
ok 'recovers' start loss
ok 'blocks were not read' \
	[ "$(jq .recovery_read_bytes "/run/lsmem/$store.json")" -lt $((200 << 20)) ]
run fsck.ext4 -fn /dev/$store
is 'the filesystem is sound' "$status" 0
ok 'mounted again' mounts
ok 'the files are right, from the backup' compare
tier
ok 'unmounted again' umount "$mnt"
is 'nothing has failed' "$(figure tier/fetch_failures)" 0
stop
is 'shutdown drains' "$status" 0
ok 'destroyed' until_true 10 "$ctl" destroy $store
run "$ctl" check "$drive" --json
is 'check: sound' "$(jq -r .verdict "$scratch/out")" sound
[ "$failed" -eq 0 ] || tail -60 "$log" | sed 's/^/# /'
tap_end
