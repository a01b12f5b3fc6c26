#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the guest of qemu/demo-pages: a tiered object store on the drive "objects", with a B+tree in a
# range of pages.
#
# usage: tree.sh verify		serve the store, and read the whole tree: compare it with the journals
#				outside; the first time, only serve
#        tree.sh load		fill the tree, the first time; then commits until the power is cut
#
# $SIZE and $CAPACITY are those of the store, $PAGES the pages of the range, $KEYS the keys that the tree is
# filled with, $MOST the pages of a commit at most. After $TURN seconds the commits change
# only what is in memory, so that the cut is mostly in an msync(); in each second boot the load ends then,
# between two commits.
#
# Files on the host that get a line a second: host/tier.jsonl, from lsmemctl; host/verify.jsonl and
# host/load.jsonl, from the program. The power may be cut at any time, so the last line may be torn.
# host/started is the time when the daemon was started, in seconds since the boot.
set -eu
here=$(dirname "$(readlink -f "$0")")
seconds=300
. "$here/lib.sh"
tree=$here/build/tree
options="--store /dev/lsmem --pages $PAGES --keys $KEYS --most $MOST --state $run/state"

case ${1:-} in
load)
	[ $((LSMEM_ROUND % 2)) = 0 ] && turn=--hot || turn=--halt
	exec "$tree" load $options $turn "$TURN" --figures "$LSMEM_HOST_DIR/load.jsonl" \
		--ready "$LSMEM_HOST_DIR/ready" ;;
verify)
	load_module
	configure objects object "$SIZE" objects "capacity = $CAPACITY" "handles = $((PAGES * 11 / 10))"
	sample lsmem > "$LSMEM_HOST_DIR/tier.jsonl" 2> /dev/null &
	if [ "$LSMEM_ROUND" = 0 ]; then
		format objects
		started
		serve objects
		serves objects
		exit
	fi
	# Before the daemon starts, the program has read the journals: it can read the first page as
	# soon as the store serves it.
	"$tree" verify $options --wait $seconds --figures "$LSMEM_HOST_DIR/verify.jsonl" \
		--journals "$LSMEM_HOST_DIR/journals" --ready $run/ready \
		--report "$LSMEM_HOST_DIR/verify.json" &
	serve_for $! objects
	cp $run/../lsmem/*.json "$LSMEM_HOST_DIR" ;;
*)
	echo "usage: tree.sh load|verify" >&2
	exit 2 ;;
esac
