# SPDX-License-Identifier: GPL-2.0
# Several backups on parts of two drives; a test can make each part fail.  Sourced after
# guest-lib.sh.  A test can set $sectors, the size of each, before.
sectors=${sectors:-$((448 << 11))}

modprobe -a dm-mod dm-flakey

# cut NAME DEVICE NUMBER: make a device of a part of a drive
declare -A table
cut_device()
{
	table[$1]="0 $sectors linear $(realpath "$2") $(($3 * sectors))"
	dmsetup create "$1" --table "${table[$1]}"
}

# turn NAME TABLE: replace the table of a device
turn()
{
	dmsetup suspend --noflush "$1"
	dmsetup load "$1" --table "$2"
	dmsetup resume "$1"
}

# spoil NAME DRIVE NUMBER: all writes to the device fail from now on; mend NAME: undo this
spoil() { turn "$1" "0 $sectors flakey $(realpath "$2") $(($3 * sectors)) 0 3600 1 error_writes"; }
mend() { turn "$1" "${table[$1]}"; }

# uncut NAME: remove the device, when the I/O of a killed daemon has ended
uncut()
{
	flock --timeout 60 "/dev/mapper/$1" true
	dmsetup remove --retry "$1"
}

# several REPLICAS MINIMUM REJOIN NAME ..: write the configuration
several()
{
	local name
	printf '[store]\nsize = 128M\nreplicas = %d\nmin_replicas = %d\nrejoin = %d\ncopy_rate = 1G\n' \
		"$1" "$2" "$3" >"$conf"
	shift 3
	for name in "$@"; do
		printf '[backup %s]\npath = /dev/mapper/%s\ntimeout = 5\n' "$name" "$name" >>"$conf"
	done
}

# lose_memory: kill the daemon and destroy the store
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
	dd if=/dev/zero of="/dev/mapper/$name" bs=1M count=1 seek=$(((sectors >> 11) - 1)) oflag=direct status=none
done
