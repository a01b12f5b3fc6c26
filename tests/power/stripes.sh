#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the guest of qemu/demo-stripes: a coded object store, 3+2, on the drives backup0 .. backup4; new0 and new1 are
# blank.
#
# usage: stripes.sh load	write; the drives $LOST are unplugged while the load goes on, then the new ones take their
#				places; goes on until the power is cut
#        stripes.sh verify	serve the store, without the drives $MISSING, and compare it with the journals outside; then
#				the same load with three replicas on the drives that are there; the first time, only serve
#
# $LOST and $MISSING are numbers of drives. $SIZE is the memory of the store, $SLOTS the number of objects at most, $LIVE its
# live share, per mille. $BEFORE, $WITHOUT: seconds of load before drives are lost, and without them.
#
# Files on the host: host/events.jsonl, when something has happened; host/backups.jsonl, with a line a second from the
# daemon, and host/load.jsonl, from the loading program; figures of the daemon: host/before.json, when drives were lost,
# host/whole.json, when the new ones had their shards, host/after.json, when all was compared, host/replicas.json, of the
# store with replicas. host/started is the time when the daemon was started, in seconds since the boot.
set -eu
here=$(dirname "$(readlink -f "$0")")
seconds=300
. "$here/lib.sh"
options="--objects /dev/lsmem --object-slots $SLOTS --live $LIVE --lengths 32-4096"
names="backup0 backup1 backup2 backup3 backup4"

# The daemon's figures, with the time, and with what a segment has on backups.
figures() {
	"$ctl" backups lsmem > /dev/null &&
		jq -c --argjson time "$(date +%s.%3N)" --argjson bytes "$(cat /sys/class/lsmem/lsmem/segment_bytes)" \
			'. + { time: $time, segment_bytes: $bytes }' /run/lsmem/lsmem.json
}

keep() {	# name
	figures > "$LSMEM_HOST_DIR/$1.json"
}

note() {	# what
	echo "{\"time\": $(date +%s.%3N), \"what\": \"$1\"}" >> "$LSMEM_HOST_DIR/events.jsonl"
}

watch_backups() {
	while :; do
		figures | jq -c '{ time, log_bytes, written_bytes, segments_short,
			used: ([.backups[] | select(.state == "used")] | length) }'
		sleep 1
	done >> "$LSMEM_HOST_DIR/backups.jsonl" 2> /dev/null
}

# Take a drive out of the machine.
unplug() {	# drive
	for controller in /sys/class/nvme/nvme*; do
		# The other one may be on its way.
		read -r serial < "$controller/serial" || continue
		[ "$serial" = "$1" ] || continue
		rm -f "/dev/drive/$1"
		echo 1 > "$controller/device/remove"
		return
	done
	echo "$0: there is no drive $1" >&2
	return 1
}

# The new drives take the places of the lost ones.
replace() {
	new=0
	for number in $LOST; do
		ln -sf "$(readlink -f "/dev/drive/new$new")" "/dev/drive/backup$number"
		new=$((new + 1))
	done
}

# Wait until so many backups are used.
used() {	# number
	deadline=$(($(date +%s) + seconds))
	until figures | jq -e "[.backups[] | select(.state == \"used\")] | length == $1" > /dev/null; do
		[ "$(date +%s)" -lt $deadline ] || return 1
		sleep 0.1
	done
}

# Begin to write; the program is $!
write() {	# state options...
	state=$1; shift
	rm -f $run/loading
	"$acked" load $options --readers 0 --ready $run/loading --state $run/"$state" "$@" &
	while [ ! -e $run/loading ]; do
		kill -0 $!
		sleep 0.1
	done
}

load() {
	write state --figures "$LSMEM_HOST_DIR/load.jsonl"
	writer=$!
	watch_backups &
	sleep "$BEFORE"
	keep before
	note lost
	for number in $LOST; do
		unplug backup"$number" &
	done
	used 3
	note without
	sleep "$WITHOUT"
	note new
	replace
	whole lsmem
	note whole
	keep whole
	touch "$LSMEM_HOST_DIR/ready"
	wait $writer
}

# The same load, from an empty store on, with three replicas.
replicas() {
	kill -KILL "$(cat $run/objects.pid)"
	wait "$(cat $run/objects.pid)" || true
	"$ctl" destroy --force lsmem >&2
	rm -rf "$STATE_DIRECTORY"
	there=
	for name in $names; do
		[ ! -b "/dev/drive/$name" ] || there="$there $name"
	done
	configure replicas object "$SIZE" "$there" "handles = $SLOTS" 'replicas = 3'
	serve replicas --format --force
	serves replicas
	write other
	sleep "$BEFORE"
	keep replicas
	kill -KILL $!
}

case ${1:-} in
load)
	load ;;
verify)
	load_module
	configure objects object "$SIZE" "$names" "handles = $SLOTS" 'code = 3+2' 'min_parity = 0' 'rejoin = 1' 'copy_rate = 1G'
	if [ "$LSMEM_ROUND" = 0 ]; then
		format objects
		serve objects
		serves objects
		exit
	fi
	replace
	for number in $MISSING; do
		rm -f /dev/drive/backup"$number"
	done
	"$acked" verify $options --threads 16 --wait $seconds --figures "$LSMEM_HOST_DIR/load.jsonl" \
		--journals "$LSMEM_HOST_DIR/journals" --ready $run/ready --state $run/state \
		--report "$LSMEM_HOST_DIR/verify.json" &
	# 3: the report has what is lost or corrupt
	serve_for $! objects || [ $? = 3 ]
	# Objects can be read before the daemon has said so.
	serves objects
	keep after
	replicas ;;
*)
	echo "usage: stripes.sh load|verify" >&2
	exit 2 ;;
esac
