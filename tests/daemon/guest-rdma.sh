#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A backup on another host, as far as one guest goes: daemon and server meet over
# soft RoCE on one device.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-rdma.sh
. "$(dirname "$0")/guest-lib.sh"
slots=${SLOTS:-8000}
server_conf=$scratch/server.conf
key=$scratch/key
address=10.99.0.1

soft_roce $address

server_pid=
server_start()
{
	: >"$scratch/server.log"
	"$lsmemd" -c "$server_conf" -v 2>>"$scratch/server.log" &
	server_pid=$!
	until_true 30 said 'serving 2 backups' "$scratch/server.log"
}
server_end()
{
	kill "-$1" "$server_pid"
	status=0
	wait "$server_pid" 2>/dev/null || status=$?
}
remote() { configure "rdma://$address/data" 'size = 128M\n' "key = ${1:-$key}\nlock_wait = ${2:-60}\ntimeout = 10\n"; }

(umask 077; head -c 32 /dev/urandom >"$key"; head -c 32 /dev/urandom >"$key.other")
cp "$key" "$key.open"
chmod 644 "$key.open"
printf '[server]\nlisten = rdma://%s\nkey = %s\n[export data]\npath = %s\n[export other]\npath = %s\n' \
	"$address" "$key" "$drive" "$other" >"$server_conf"
dd if=/dev/zero of="$drive" bs=1M count=4 conv=fsync status=none

# ---- Who gets nothing --------------------------------------------------------
remote
refuses 'no server' 1 'nobody listens there'
ok 'the server starts' server_start
remote "$key.other"
refuses 'another secret' 5 'the secrets differ'
remote "$key.open"
refuses 'a secret that others can read' 1 'only its owner'
configure "rdma://$address/date" '' "key = $key\n"
refuses 'no such export' 1 'no export of this name'
remote
status=0
timeout 150 "$here/build/rdma" "rdma://$address/other" "$key" >"$scratch/out" 2>"$scratch/err" ||
	status=$?
sed 's/^/# /' "$scratch/out"
ok 'requests, fence, hostile peers (build/rdma)' [ "$status" -eq 0 ]

# ---- A store ------------------------------------------------------------------
ok 'formatted and active' start format
load 4
wait "$load_pid"
expect 'load' "$?" 0
sed 's/^/# /' "$scratch/load"
verify 'all there'
ok 'log memory is registered' eval '! said "cannot be registered" "$log"'
grep -h 'registered' "$log" | sed 's/^/# /'
load 8
nap 1
slay
ok 'resumes after a SIGKILL' start resume
wait "$load_pid"
expect 'load, the daemon killed meanwhile' "$?" 0
verify 'all there after a SIGKILL'
load 60
nap 1
slay_load
slay
run "$ctl" destroy --force "$store"
expect 'the memory is lost' "$status" 0
ok 'recovers' start recovery
verify 'all that was acknowledged is on the server'"'"'s drive'
grep -h 'recovered' "$log" | tail -1 | sed 's/^/# /'

# ---- A second one waits, looks, takes over ----------------------------------
cp "$conf" "$scratch/own.conf"
conf=$scratch/second.conf
remote "$key" 1
refuses 'a second daemon' 4 'still held by'
refuses 'a check beside it' 4 'held by somebody' --check
conf=$scratch/own.conf
load 60
nap 1
mark
# When the first has ended, the second finds the store in the kernel and serves it.
begun=$(now_ms)
"$lsmemd" -c "$scratch/second.conf" --take-over -v 2>"$scratch/second.log" &
second_pid=$!
status=0
wait "$daemon_pid" || status=$?
expect 'fenced: the first ends, its exit status' "$status" 6
echo "# fenced after $(($(now_ms) - begun)) ms"
ok 'fenced: says by whom' since 'another primary took it over'
ok 'fenced: the second took it' said 'taking over with epoch' "$scratch/second.log"
kill -TERM "$second_pid"
wait "$second_pid"
slay_load
verify 'fenced: its memory is readable'
ok 'fenced: the server says so' said 'taken from' "$scratch/server.log"

# ---- The server goes ----------------------------------------------------------
conf=$scratch/own.conf
ok 'held again, resumes' start resume
load 60
nap 1
mark
begun=$(now_ms)
server_end KILL
status=0
wait "$daemon_pid" || status=$?
expect 'the server killed: exit status' "$status" 6
took=$(($(now_ms) - begun))
echo "# noticed after $took ms"
ok 'the server killed: noticed in time' [ "$took" -lt 15000 ]
ok 'the server killed: says what' since 'the connection is over'
slay_load
ok 'the server is back' server_start
ok 'resumes' start resume
verify 'all there'
load 60
nap 1
mark
begun=$(now_ms)
kill -STOP "$server_pid"
status=0
wait "$daemon_pid" || status=$?
expect 'the server stands still: exit status' "$status" 6
took=$(($(now_ms) - begun))
echo "# noticed after $took ms"
ok 'the server stands still: noticed in time' [ "$took" -lt 25000 ]
ok 'the server stands still: says what' since 'has not answered'
slay_load
kill -CONT "$server_pid"
ok 'resumes' start resume
verify 'all there'
# The device is taken away.
load 60
nap 1
mark
begun=$(now_ms)
rdma link delete rxe0 &
delete_pid=$!
status=0
wait "$daemon_pid" || status=$?
expect 'the device goes: exit status' "$status" 6
status=0
wait "$server_pid" || status=$?
expect 'the device goes: the server lets go of it' "$status" 1
wait "$delete_pid"
took=$(($(now_ms) - begun))
echo "# gone after $took ms"
ok 'the device goes: in time' [ "$took" -lt 15000 ]
slay_load
rdma link add rxe0 type rxe netdev rdma0
ok 'the server is back' server_start
ok 'resumes' start resume
verify 'all there'
stop
expect 'drains' "$status" 0
run "$ctl" destroy "$store"
expect 'all of it is on the backup' "$status" 0
run "$lsmemd" -c "$conf" --check
expect 'which is sound' "$status" 0
sed 's/^/# /' "$scratch/out"
begun=$(now_ms)
server_end TERM
expect 'the server ends' "$status" 0
ok 'within its bound' [ $(($(now_ms) - begun)) -lt 10000 ]
ok 'the RDMA modules can go' soft_roce_end
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log" "$scratch/server.log"
tap_end
