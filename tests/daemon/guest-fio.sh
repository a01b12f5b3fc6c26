#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The jobs of tests/fio, each for a second, in a guest: TAP. On a volatile block store, and on a
# durable one; the daemon's count of written bytes is compared with that of the NVMe drive.
#
#	qemu/run --drive backup:1G -- tests/daemon/guest-fio.sh
. "$(dirname "$0")/guest-lib.sh"
store=lsmemb0
UNIT=512000	# bytes in a unit of the drive's counter

# jobs NAME FILE ..: run all jobs of each file
jobs()
{
	local name=$1 file
	shift
	for file; do
		ok "$name: $file" env DEV=/dev/$store SIZE=32M RUNTIME=1 SEED=1 \
			fio "$top/tests/fio/$file"
	done
}

# written: bytes written to the drive, by its own counter
written()
{
	echo $(($(nvme smart-log "$drive" -o json | jq -r .data_units_written) * UNIT))
}

run "$ctl" create --kind block --size 256M
is 'volatile: a store' "$status" 0
jobs volatile random.fio sequential.fio uring.fio durable.fio	# verify.fio: guest/block.sh
ok 'volatile: destroyed' until_true 10 "$ctl" destroy $store

configure "$drive" 'kind = block\nsize = 256M\n'
ok 'durable: a store' start durable --format --force	# other tests used the drive
drive_before=$(written) daemon_before=$(daemon written_bytes)
jobs durable durable.fio random.fio verify.fio
ok 'durable: all of it is on the backup' "$ctl" sync $store
by_daemon=$(($(daemon written_bytes) - daemon_before))
by_drive=$(($(written) - drive_before))
echo "# written: $by_daemon bytes by the daemon, $by_drive by the drive's count"
ok 'durable: drive and daemon count the same bytes' \
	[ "$by_daemon" -gt 0 -a $((by_drive + UNIT)) -ge "$by_daemon" -a \
	$((by_drive - UNIT)) -le $((by_daemon + by_daemon / 50)) ]
stop
is 'durable: drains' "$status" 0
ok 'durable: destroyed' until_true 10 "$ctl" destroy $store
tap_end
