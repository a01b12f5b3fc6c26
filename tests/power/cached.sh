#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the guest of qemu/demo-cached, and of tests/power/cached: a durable object store on the drive "objects", with
# lsmemcached over it.
#
# usage: cached.sh verify	serve the store, and get every item: compare it with the journals outside; then compare
#				lsmemcached with memcached, unless $ROUNDS is 0; the first time, only serve
#        cached.sh load		set items until the power is cut
#
# $SIZE is the memory of the store, of a volatile one, and of memcached, $ITEMS the number of items.  Servers are compared
# in $ROUNDS rounds of $TURN seconds each, with $CONNECTIONS connections and $KEYS items of $VALUE bytes, $GETS percent gets:
# "cache" is lsmemcached over the volatile store, "durable" over the other one.
#
# Files on the host that get a line a second: host/load.jsonl, from the program that sets or gets; a line for each
# measurement: host/rates.jsonl, host/kept.jsonl.  host/started is the time when the daemon was started, in seconds since
# the boot.
set -eu
here=$(dirname "$(readlink -f "$0")")
seconds=300
. "$here/lib.sh"
requests=$top/tests/bench/build/load
cached=$top/tools/cached/lsmemcached
options="--server $run/durable --server-items $ITEMS --wait $seconds --figures $LSMEM_HOST_DIR/load.jsonl
	--state $run/state"

# Start a server on the socket $run/NAME; its clients wait until they can connect.
listen() {	# name command...
	name=$1; shift
	setsid "$@" -s "$run/$name" > "$LSMEM_HOST_DIR/$name.log" 2>&1 &
	echo $! > "$run/$name.pid"
}

hang_up() {	# name
	kill "$(cat "$run/$1.pid")"
	wait "$(cat "$run/$1.pid")" || true
}

serve_items() {
	serve objects
	serves objects
	listen durable "$cached" --store /dev/lsmem --mode store --durable -t 16
}

# A volatile store for items of $VALUE bytes: each takes more than 128. Prints its name.
volatile() {
	"$ctl" create --size "$SIZE" --handles $((${SIZE%M} * 8192))
}

# A line of JSON: the server, what the caller gives, and lines "NAME VALUE".
line() {	# server members
	printf '{"server": "%s"%s' "$1" "$2"
	awk '{ printf ", \"%s\": %s", $1, $2 } END { print "}" }'
}

# The same load for all three, in turns.
rates() {
	store=$(volatile)
	listen cache "$cached" --store "/dev/$store"
	listen memcached memcached -u root -m "${SIZE%M}"
	order="cache durable memcached"
	for round in $(seq "$ROUNDS"); do
		for server in $order; do
			"$requests" "$run/$server" "$CONNECTIONS" "$TURN" "$KEYS" "$VALUE" "$GETS" \
				$((LSMEM_SEED + round)) > $run/rate
			line "$server" ", \"round\": $round" < $run/rate
		done
		order="${order#* } ${order%% *}"
	done
	hang_up cache
	hang_up memcached
	"$ctl" destroy "$store" >&2
}

# Set items until the first one is refused.
keeps() {	# server command...
	server=$1; shift
	listen "$server" "$@"
	"$requests" "$run/$server" "$VALUE" > $run/kept
	line "$server" "" < $run/kept
	hang_up "$server"
}

kept() {
	keeps memcached memcached -u root -m "${SIZE%M}" -M
	store=$(volatile)
	keeps cache "$cached" --store "/dev/$store" --mode store
	"$ctl" destroy "$store" >&2
}

case ${1:-} in
load)
	exec "$acked" load $options --ready "$LSMEM_HOST_DIR/ready" ;;
verify)
	load_module
	configure objects object "$SIZE" objects "handles = $((2 * ITEMS + 2 * KEYS))"
	if [ "$LSMEM_ROUND" = 0 ]; then
		format objects
		serve_items
		exit
	fi
	# Before the daemon starts, the program has read the journals: it can get the first item as
	# soon as the server listens.
	"$acked" verify $options --journals "$LSMEM_HOST_DIR/journals" --ready $run/ready \
		--report "$LSMEM_HOST_DIR/verify.json" &
	verifier=$!
	await_ready $verifier
	serve_items
	# 3: the report has what is lost or corrupt
	wait $verifier || [ $? = 3 ]
	cp $run/../lsmem/*.json "$LSMEM_HOST_DIR"
	[ "$ROUNDS" != 0 ] || exit 0
	rates > "$LSMEM_HOST_DIR/rates.jsonl"
	kept > "$LSMEM_HOST_DIR/kept.jsonl" ;;
*)
	echo "usage: cached.sh load|verify" >&2
	exit 2 ;;
esac
