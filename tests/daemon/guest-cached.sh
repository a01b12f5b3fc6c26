#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# lsmemcached on a durable store, in a guest: TAP.  In the middle of sets the daemon, the server and the memory of the
# store are lost; every set that was acknowledged is there when the store has been recovered.  Likewise a flush_all.
#
#	qemu/run --drive backup:1G -- tests/daemon/guest-cached.sh
. "$(dirname "$0")/guest-lib.sh"

cached=$top/tools/cached/lsmemcached
socket=$scratch/socket
items=500
seed=${LSMEM_SEED:-$RANDOM}
server=
echo "# seed $seed"

# client WHAT FILE
client() { timeout 120 python3 "$top/tests/guest/cached.py" "$socket" "$1" $items "$seed" "${2-}"; }

# say LINE: to the server; prints the answer
say()
{
	timeout 60 python3 - "$socket" "$1" <<-'PYTHON'
	import socket, sys
	client = socket.socket(socket.AF_UNIX)
	client.connect(sys.argv[1])
	client.sendall(sys.argv[2].encode() + b"\r\nquit\r\n")
	while got := client.recv(4096):
	    sys.stdout.write(got.decode().replace("\r", ""))
	PYTHON
}

listens() { say version 2>/dev/null | grep -q VERSION; }

serve()
{
	"$cached" --store "/dev/$store" -s "$socket" --mode store --durable -t 2 2>"$scratch/server.log" &
	server=$!
	until_true 30 listens
}

# lose NAME: the daemon, the server and the memory of the store are gone
lose()
{
	slay
	kill -KILL $server
	wait $server 2>/dev/null
	run "$ctl" destroy --force "$store"
	is "$1: the memory is lost" "$status" 0
}

durable_bytes() { cat "/sys/class/lsmem/$store/stats/durable_bytes"; }
grown() { [ "$(durable_bytes)" -gt $(($1 + 1000000)) ]; }

configure "$drive" "kind = object\nsize = 128M\n"
ok 'formatted and active' start format --format --force
for round in 1 2; do
	ok "$round: the server listens" serve
	before=$(durable_bytes)
	client load "$scratch/acked" >"$scratch/count" &
	loader=$!
	ok "$round: sets are durable" until_true 60 grown "$before"
	lose "$round"
	wait $loader
	is "$round: the client ends well" $? 0
	ok "$round: $(cat "$scratch/count") sets were acknowledged" [ "$(cat "$scratch/count")" -gt 0 ]
	ok "$round: recovered" start "$round"
	ok "$round: the server listens again" serve
	ok "$round: all that was acknowledged is there" client verify "$scratch/acked"
	[ $round = 2 ] || is "$round: flush_all" "$(say flush_all)" OK
	lose "$round, after that"
	ok "$round: recovered again" start "$round"
done
ok 'the server listens' serve
ok 'after the flush items are those of the last round' client verify "$scratch/acked"

# No daemon: a set cannot become durable
slay
echo 2000 >"/sys/class/lsmem/$store/limits/flush_ms"
is 'a set without a daemon is not acknowledged' "$(say $'set a 0 0 1\r\nx')" ''
ok 'the server says why' grep -q 'may not be durable' "$scratch/server.log"
ok 'a daemon continues' start again
is 'a set is acknowledged' "$(say $'set a 0 0 1\r\nx')" STORED
ok 'SIGTERM ends the server' eval 'kill -TERM $server && wait $server'
stop
run "$ctl" destroy "$store"
is 'the store can be destroyed' "$status" 0
tap_end
