#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the guest of qemu/demo-tier: a tiered object store on the drive "objects", and a tiered disk
# on the drive "blocks".
#
# usage: tier.sh verify		serve both, and read every object and block once: compare it with the
#				journals outside; the first time, only serve
#        tier.sh load		fill both, then read and write until the power is cut
#
# $SIZE and $CAPACITY are those of the object store, $DISK_SIZE and $DISK_CAPACITY those of the disk;
# $LIVE is the live share of the object store's capacity, per mille; $SLOTS is the number of objects at
# most, $LENGTHS their bytes: MIN-MAX; $BLOCKS is the number of blocks.
#
# Files on the host that get a line a second: host/tier.jsonl, from lsmemctl; host/load.jsonl, from the
# program that reads and writes. The power may be cut at any time, so the last line may be torn.
# host/started is the time when the daemons were started, in seconds since the boot.
set -eu
here=$(dirname "$(readlink -f "$0")")
seconds=300
. "$here/lib.sh"
stores="--objects /dev/lsmem --object-slots $SLOTS --lengths $LENGTHS --blocks /dev/lsmemb0
	--block-slots $BLOCKS"

case ${1:-} in
load)
	exec "$acked" load $stores --live "$LIVE" --batch 32 --zipf --readers 4 \
		--fill --block-readers 2 \
		--figures "$LSMEM_HOST_DIR/load.jsonl" \
		--ready "$LSMEM_HOST_DIR/ready" --state $run/state ;;
verify)
	load_module
	configure objects object "$SIZE" objects "capacity = $CAPACITY" "handles = $SLOTS"
	configure blocks block "$DISK_SIZE" blocks "capacity = $DISK_CAPACITY"
	sample lsmem lsmemb0 > "$LSMEM_HOST_DIR/tier.jsonl" 2> /dev/null &
	if [ "$LSMEM_ROUND" = 0 ]; then
		format objects
		format blocks
		started
		serve objects
		serve blocks
		serves objects
		serves blocks
		exit
	fi
	# Before the daemon starts, the program has read the journals: it can read the first object
	# as soon as the store serves it.
	"$acked" verify $stores --threads 16 --wait $seconds \
		--figures "$LSMEM_HOST_DIR/load.jsonl" \
		--journals "$LSMEM_HOST_DIR/journals" --ready $run/ready --state $run/state \
		--report "$LSMEM_HOST_DIR/verify.json" &
	serve_for $! objects blocks
	cp $run/../lsmem/*.json "$LSMEM_HOST_DIR" ;;
*)
	echo "usage: tier.sh load|verify" >&2
	exit 2 ;;
esac
