#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The ownership of a store: lsmemd, etcd and the module, with a drive of this host and over soft
# RoCE.  Another host is this host with another name.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-etcd.sh
. "$(dirname "$0")/guest-lib.sh"
. "$(dirname "$0")/etcd-lib.sh"

# ends NAME: the daemon ends by itself, because it may have lost the store
ends()
{
	local begun
	begun=$(now_ms)
	until_true 60 ended "$daemon_pid" || kill -KILL "$daemon_pid"
	status=0
	wait "$daemon_pid" || status=$?
	is "$1: the daemon's exit status" "$status" 8
	took=$(($(now_ms) - begun))
	echo "# after $took ms"
	ok "$1: says why" since 'etcd no longer says that the store is ours'
}

# ---- A drive of this host -------------------------------------------------------
lease=5 config a "$drive" ''
refuses 'no etcd' 8 'without etcd the owner of the store is not known' --init
is 'no etcd: no store is made' "$(ls /sys/class/lsmem)" ''
ok 'etcd starts' etcd_start
config a "$drive" ''
ok 'formatted and active' start format --format
uuid=$(cat "/sys/class/lsmem/$store/uuid")
is 'the term' "$(has term)" 1
ok 'the owner' grep -q '"host":"a"' <(has owner)
put a 1
slay
mark
ok 'resumes after a SIGKILL' start resume
ok 'resumes without a wait for its own lease' eval '! since "waiting for the end"'
ok 'resumes: this host was the last one that took it' eval '! since "was the last one"'
is 'resumes with a new term' "$(has term)" 2
run "$ctl" backups "$store"
ok 'lsmemctl backups shows the owner' grep -q "^$store: host a owns it, term 2; its lease ends in" "$scratch/out"
is 'lsmemctl backups --json shows the term' "$("$ctl" backups "$store" --json | jq '.[0].cluster_term')" 2
ok 'the status file has the term' grep -q '"cluster_term": 2' "/run/lsmem/$store.json"

# The daemon is suspended for longer than the lease, while another host waits for the store.
mark
kill -STOP "$daemon_pid"
put b 2 &
put_pid=$!
ok 'suspended: its lease ends' until_true 60 free
kill -CONT "$daemon_pid"
ends 'suspended'
ok 'suspended: nothing was acknowledged' eval '! ended "$put_pid"'
ok 'suspended: the store is readable' holds a 1
ok 'started again' start again
wait "$put_pid"
is 'started again: the write is durable now' "$?" 0

mark
etcd_kill
ok 'no etcd: noticed' until_true $lease since 's more'
ok 'no etcd: writes go on' put c 3
ends 'no etcd'
ok 'etcd is back' etcd_start

# Another host has the drive now.
ok 'started again' start again
slay
mark
config b "$drive" ''
ok 'another host' start b
ok 'waits until the lease is over' since 'host a owns the store, term 4; waiting'
ok 'another host: says that the store in memory may be older' since 'host a was the last one that took the store, term 4'
ok 'the owner is the other host' grep -q '"host":"b"' <(has owner)
ok 'what was acknowledged is there' eval 'holds a 1 && holds b 2 && holds c 3'
stop
is 'drains' "$status" 0
is 'gives the store back' "$(has owner)" ''
run "$ctl" destroy "$store"

# ---- A backup on another host -------------------------------------------------
server
ok 'the server starts' serve
config_remote a
ok 'remote: formatted and active' start format --format
uuid=$(cat "/sys/class/lsmem/$store/uuid")
put d 1
slay
ok 'remote: resumes after a SIGKILL' start resume
ok 'remote: cuts off what was left, by the term of etcd' until_true 10 said 'term 2' "$scratch/server.log"
forget
config_remote b
refuses 'remote: its owner is alive' 4 'host a owns the store, term 2, and is alive'
ok 'remote: the owner is not disturbed' put e 2
mark
begun=$(now_ms)
"$lsmemd" -c "$conf" --take-over -v 2>"$scratch/second.log" &
second_pid=$!
ends 'remote: cut off'
daemon_pid=$second_pid
ok 'remote: the new owner serves' until_true 60 said 'serving, backup' "$scratch/second.log"
ok 'remote: not before the lease was over' [ $(($(now_ms) - begun)) -gt $((lease * 1000)) ]
is 'remote: its term' "$(has term)" 3
ok 'remote: the server knows it' said 'term 3' "$scratch/server.log"
ok 'remote: what was acknowledged is there' eval 'holds d 1 && holds e 2'
stop
is 'remote: drains' "$status" 0
run "$ctl" destroy "$store"

server_end
is 'the server ends' "$?" 0
etcd_kill
ok 'the RDMA modules can go' soft_roce_end
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log" "$scratch/second.log" "$scratch/server.log"
tap_end
