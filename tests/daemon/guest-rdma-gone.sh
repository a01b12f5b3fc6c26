#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A backup on another host, within one guest: its server fails, its device is removed.  In a guest
# with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-rdma-gone.sh
. "$(dirname "$0")/guest-lib.sh"
. "$here/rdma-lib.sh"

remote
ok 'the server starts' server_start
ok 'formatted and active' start format --init

# The connection to the only backup is lost: the daemon waits for it, and so do the writers.
# waits NAME SECONDS TEXT COMMAND ..: run the command in the middle of writes; the connection is
# lost, and a message with TEXT comes within SECONDS
waits()
{
	local name=$1 most=$2 text=$3
	shift 3
	load 600
	nap 1
	mark
	begun=$(now_ms)
	"$@"
	ok "$name: says what, in time" until_true "$most" since "$text"
	echo "# noticed after $(($(now_ms) - begun)) ms"
	ok "$name: waits" until_true 10 since 'waiting for it'
}
# goes_on NAME: the connection is back, the daemon serves as before, and nothing is missing
goes_on()
{
	ok "$1: is there again" until_true 60 since 'is there again'
	ok "$1: resumes" until_true 60 since "$store: serving"
	before=$(daemon log_bytes)
	ok "$1: writers go on" until_is 0 eval 'rises; echo $?'
	ok "$1: the same daemon" kill -0 "$daemon_pid"
	slay_load
	verify "$1: all there"
}

# ---- The server fails ----------------------------------------------------------
waits 'the server killed' 15 'the connection is over' server_end KILL
ok 'the server is back' server_start
goes_on 'the server killed'
waits 'the server is suspended' 25 'has not answered' kill -STOP "$server_pid"
kill -CONT "$server_pid"
goes_on 'the server is suspended'
waits 'told to end' 15 'the connection is over' server_end KILL
stop
is 'told to end while it waits: it has not drained' "$status" 7
slay_load
ok 'told to end: the server is back' server_start
ok 'told to end: resumes' start resume
verify 'told to end: all there'

# ---- Both are suspended ----------------------------------------------------------
# Answers come long after the daemon's timeouts.
load 600
nap 1
kill -STOP "$server_pid"
nap 1
kill -STOP "$daemon_pid"
sleep 12
kill -CONT "$daemon_pid" "$server_pid"
before=$(daemon log_bytes)
ok 'both were suspended: go on' until_is 0 eval 'rises; echo $?'
slay_load
verify 'both were suspended: all there'

# ---- The device is removed ------------------------------------------------------
take_away()
{
	rdma link delete rxe0 &
	delete_pid=$!
}
# taken_away NAME: daemon and server let go of the device
taken_away()
{
	status=0
	wait "$server_pid" || status=$?
	is "$1: the server lets go of it" "$status" 1
	ok "$1: it is gone in time" until_true $((15 - ($(now_ms) - begun) / 1000)) ended "$delete_pid"
	echo "# gone after $(($(now_ms) - begun)) ms"
	ok "$1: the modules can go too" soft_roce_end
}
# The kernel removes the device from its users in the reverse order of their modules.
first=ib_uverbs
for next in rdma_cm ib_uverbs; do
	name="the device goes, $first is the older"
	waits "$name" 15 'the connection is over' take_away
	taken_away "$name"
	first=$next
	soft_roce "$address" "$first"
	ok "$name: the server is back" server_start
	goes_on "$name"
done
stop
is 'drains' "$status" 0
run "$ctl" destroy "$store"
is 'all of it is on the backup' "$status" 0
run "$lsmemd" -c "$conf" --check
is 'the backup is sound' "$status" 0
sed 's/^/# /' "$scratch/out"
begun=$(now_ms)
server_end TERM
is 'the server ends' "$status" 0
ok 'the server ends within its bound' [ $(($(now_ms) - begun)) -lt 10000 ]

# ---- The device is removed, and the daemon has another backup ---------------------
# A soft RoCE device that could not send a message of the connection manager, because its link or
# its address was away, may take none any more (Linux 6.1: the responder of queue pair 1 stays in
# its error state).  rping, which has nothing to do with lsmem, tells whether it does.
hears()
{
	local server heard=0
	rping -s -a "$address" -C 1 >/dev/null 2>&1 &
	server=$!
	timeout 10 rping -c -a "$address" -C 1 >"$scratch/rping" 2>&1 || heard=1
	kill "$server" 2>/dev/null
	wait "$server" 2>/dev/null
	return "$heard"
}
# is_back NAME: the backup is used again; a device that became deaf is made anew for that, as
# lsmemd(8) says
is_back()
{
	if ! hears; then
		echo "# $1: rping is not heard either: the device is made anew"
		begun=$(now_ms)
		take_away
		taken_away "$1"
		soft_roce "$address"
		ok "$1: the server is back" server_start
	fi
	ok "$1: is used" until_is used backup far state
}
serve data /dev/mapper/slow
ok 'two: the server starts' server_start
printf '[store]\nsize = 128M\nmin_replicas = 1\nrejoin = 1\n[backup far]\npath = rdma://%s/data\nkey = %s\n[backup near]\npath = %s\n' \
	"$address" "$key" "$other" >"$conf"
rm "$model"
ok 'two: formatted and active' start two --format --force
load 600
nap 1
mark
echo 'timeout = 20' >>"$conf"
kill -HUP "$daemon_pid"
ok 'two: SIGHUP: a timeout changes' until_true 15 since '\[backup near\] timeout: changed'
ok 'two: SIGHUP: a timeout above half of durable_ms is reported' until_true 5 since 'more than half of durable_ms'
ok 'two: nothing is short' until_is 0 daemon segments_short
# The address goes and comes back, $FLAPS more times, and then the link. By default once: after each
# loss the daemon waits twice as long before it connects.
ip addr del "$address/24" dev rdma0
ok 'two: the address goes: lost' until_is lost backup far state
before=$(daemon log_bytes)
ok 'two: the address goes: writers go on' until_is 0 eval 'rises; echo $?'
ip addr add "$address/24" dev rdma0
is_back 'two: the address is back'
if [ "${FLAPS:-0}" -gt 0 ]; then
	# While the server cannot be reached, each attempt to connect fails at once, perhaps before the
	# daemon's loop goes on. The state of the queue pairs at a loss is also a matter of chance.
	for ((flap = 1; flap <= FLAPS; flap++)); do
		ip addr del "$address/24" dev rdma0
		ok "two: the address goes again, $flap: lost" until_is lost backup far state
		sleep 8
		ip addr add "$address/24" dev rdma0
		is_back "two: the address is back again, $flap"
	done
	ip link set rdma0 down
	ok 'two: the link goes: lost' until_is lost backup far state
	sleep 8
	ip link set rdma0 up
	is_back 'two: the link is back'
fi
begun=$(now_ms)
take_away
taken_away 'two: the device goes'
slay_load
verify 'two: all there'
stop
is 'two: drains' "$status" 0

# ---- The device is removed between two attempts to connect ------------------------
# The daemon has no connection that could notice. It is a new one: the former waits long now before
# it connects, because it has lost its backup so often.
# unconnected NAME TEXT [COMMAND ..]: run the command and end the server; attempts fail with TEXT
unconnected()
{
	local name=$1 text=$2
	shift 2
	soft_roce "$address"
	ok "$name: the server is back" server_start
	ended "$daemon_pid" && ok "$name: a new daemon" start resume
	ok "$name: the backup is used" until_is used backup far state
	mark
	"$@"
	server_end KILL
	ok "$name: attempts fail" until_true 40 since "$text"
	begun=$(now_ms)
	take_away
	ok "$name: the device is gone in time" until_true 10 eval 'ended "$delete_pid" && wait "$delete_pid"'
	echo "# gone after $(($(now_ms) - begun)) ms"
}
unconnected 'two: nothing listens' 'nothing listens there'
unconnected 'two: no way there' 'Network is unreachable' ip addr del "$address/24" dev rdma0
stop
is 'two: drains without it' "$status" 0
ok 'two: the modules can go without a device' soft_roce_end
run "$ctl" destroy "$store"
is 'two: all of it is on the other' "$status" 0
ok 'the drive is not kept' until_true 5 dmsetup remove slow
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log" "$scratch/server.log"
tap_end
