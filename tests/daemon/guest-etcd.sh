#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Who owns a store: lsmemd, etcd and the module, with a drive of this host's and over soft
# RoCE.  Another host is played by another name.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-etcd.sh
. "$(dirname "$0")/guest-lib.sh"
store=lsmemb0
conf=$scratch/a.conf
lease=10
port=23790
remote=10.99.0.1

etcd_pid=
etcd_start()
{
	GOMAXPROCS=1 etcd --data-dir "$scratch/etcd" --listen-client-urls "http://127.0.0.1:$port" \
		--advertise-client-urls "http://127.0.0.1:$port" \
		--listen-peer-urls http://127.0.0.1:23791 \
		--initial-advertise-peer-urls http://127.0.0.1:23791 --log-level error \
		--initial-cluster default=http://127.0.0.1:23791 2>>"$scratch/etcd.log" >&2 &
	etcd_pid=$!
	until_true 60 answers
}
etcd_kill() { kill -KILL "$etcd_pid"; wait "$etcd_pid" 2>/dev/null; }
# ask KEY: what etcd says of it (etcdctl takes seconds to begin here)
ask()
{
	local text
	text=$(printf '{"key":"%s"}' "$(printf %s "$1" | base64 -w 0)")
	exec 3<>/dev/tcp/127.0.0.1/$port || return 1
	printf 'POST /v3/kv/range HTTP/1.0\r\nContent-Length: %s\r\n\r\n%s' "${#text}" "$text" >&3
	timeout 10 cat <&3
	exec 3>&-
}
answers() { ask x 2>/dev/null | grep -q raft_term; }
# has KEY: its value
has()
{
	ask "/lsmem/stores/$uuid/$1" | sed -n 's/.*"value":"\([^"]*\)".*/\1/p' | base64 -d
}
free() { answers && [ -z "$(has owner)" ]; }

# cluster HOST: that part of its configuration
cluster()
{
	printf '[cluster]\netcd = http://127.0.0.1:%d\nlease = %d\nhost = %s' "$port" "$lease" "$1"
}
# config HOST BACKUP MORE: its configuration
config()
{
	conf=$scratch/$1.conf
	configure "$2" 'kind = block\nsize = 128M\n' "$3$(cluster "$1")\n"
}
# config_two HOST: a drive of its own, and one on the other side
config_two()
{
	conf=$scratch/$1.conf
	printf '[store]\nkind = block\nsize = 128M\nmin_replicas = 1\nrejoin = 1\n' >"$conf"
	printf '[backup near]\npath = %s\n[backup far]\npath = rdma://%s/data\nkey = %s/key\n%s\n' \
		"$drive" "$remote" "$scratch" "$(cluster "$1")" >>"$conf"
}
# config_none HOST: etcd knows the backups
config_none()
{
	conf=$scratch/$1.conf
	printf '%s\nstore = %s\nsecret = %s/key\n' "$(cluster "$1")" "$uuid" "$scratch" >"$conf"
}
# are STATE ..: the backups by what etcd has of them
are() { [ "$(has members | grep -o '"state":"[a-z]*"' | cut -d '"' -f 4 | xargs)" = "$*" ]; }
# whole: nothing is on fewer backups than it should be
whole()
{
	"$ctl" backups "$store" >"$scratch/out" && grep -q '"segments_short": 0,' "/run/lsmem/$store.json"
}
config_remote() { config "$1" "rdma://$remote/data" "key = $scratch/key\\n"; }
# put BYTE BLOCK: a block of it, durable.  holds BYTE BLOCK: is it there?
put()
{
	head -c 4096 /dev/zero | tr '\0' "$1" |
		dd of="/dev/$store" bs=4096 seek="$2" oflag=direct,dsync conv=notrunc status=none
}
holds()
{
	[ "$(dd if="/dev/$store" bs=4096 skip="$2" count=1 iflag=direct status=none |
	     tr -d "$1" | wc -c)" = 0 ]
}
# ends NAME: the daemon does, by itself, since the store may be another's
ends()
{
	local begun
	begun=$(now_ms)
	until_true 60 ended "$daemon_pid" || kill -KILL "$daemon_pid"
	status=0
	wait "$daemon_pid" || status=$?
	expect "$1: the daemon ends, its exit status" "$status" 8
	took=$(($(now_ms) - begun))
	echo "# after $took ms"
	ok "$1: says why" since 'etcd no longer says that the store is ours'
}

soft_roce "$remote"
for backup in "$drive" "$other"; do
	dd if=/dev/zero of="$backup" bs=1M count=4 conv=fsync status=none
done

# ---- A drive of this host's ---------------------------------------------------
lease=5 config a "$drive" ''
refuses 'no etcd' 8 'without it nobody knows who owns the store'
expect 'no etcd: no store is made' "$(ls /sys/class/lsmem)" ''
ok 'etcd starts' etcd_start
config a "$drive" ''
ok 'formatted and active' start format
uuid=$(cat "/sys/class/lsmem/$store/uuid")
expect 'its epoch' "$(has epoch)" 1
ok 'its owner' grep -q '"host":"a"' <(has owner)
put a 1
slay
mark
ok 'resumes after a SIGKILL' start resume
ok 'without waiting for its own lease' eval '! since "waiting for the end"'
expect 'with a new epoch' "$(has epoch)" 2
ok 'told in the status file' grep -q '"cluster_epoch": 2' "/run/lsmem/$store.json"

# Suspended for longer than the lease, while somebody waits for it.
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
expect 'started again: now it is' "$?" 0

mark
etcd_kill
ok 'no etcd: noticed' until_true $lease since 's more'
ok 'no etcd: writes go on' put c 3
ends 'no etcd'
ok 'etcd is back' etcd_start

# Another host, which has the drive now.
ok 'started again' start again
slay
mark
config b "$drive" ''
ok 'another host' start b
ok 'waits until the lease is over' since 'host a owns the store, epoch 4; waiting'
ok 'the owner is that' grep -q '"host":"b"' <(has owner)
ok 'what was acknowledged is there' eval 'holds a 1 && holds b 2 && holds c 3'
stop
expect 'drains' "$status" 0
expect 'gives the store back' "$(has owner)" ''
run "$ctl" destroy "$store"

# ---- A backup on another host -------------------------------------------------
(umask 077; head -c 32 /dev/urandom >"$scratch/key")
serve()
{
	"$lsmemd" -c "$scratch/server.conf" -v 2>"$scratch/server.log" &
	server_pid=$!
	until_true 30 said 'serving 1 backup' "$scratch/server.log"
}
printf '[server]\nlisten = rdma://%s\nkey = %s/key\n[export data]\npath = %s\n' "$remote" \
	"$scratch" "$other" >"$scratch/server.conf"
ok 'the server starts' serve
config_remote a
ok 'remote: formatted and active' start format
uuid=$(cat "/sys/class/lsmem/$store/uuid")
put d 1
slay
ok 'remote: resumes after a SIGKILL' start resume
ok 'remote: cuts off what was left, by the epoch of etcd' said 'epoch 2' "$scratch/server.log"
config_remote b
refuses 'remote: its owner is alive' 4 'host a owns the store, epoch 2, and is alive'
ok 'remote: and is left alone' put e 2
mark
begun=$(now_ms)
"$lsmemd" -c "$conf" --take-over -v 2>"$scratch/second.log" &
second_pid=$!
ends 'remote: cut off'
daemon_pid=$second_pid
ok 'remote: the new owner serves' until_true 60 said 'serving, backup' "$scratch/second.log"
ok 'remote: not before the lease was over' [ $(($(now_ms) - begun)) -gt $((lease * 1000)) ]
expect 'remote: its epoch' "$(has epoch)" 3
ok 'remote: the server knows it' said 'epoch 3' "$scratch/server.log"
ok 'remote: what was acknowledged is there' eval 'holds d 1 && holds e 2'
stop
expect 'remote: drains' "$status" 0
run "$ctl" destroy "$store"

# ---- Backups that the next host is not told of ---------------------------------
config_none c
ok 'one in etcd: recovered' start none
ok 'one in etcd: all is there' eval 'holds d 1 && holds e 2'
stop
expect 'one in etcd: drains' "$status" 0
run "$ctl" destroy "$store"
config_two a
ok 'two: formatted and active' start two --format --force
uuid=$(cat "/sys/class/lsmem/$store/uuid")
ok 'two: etcd knows them' until_true 30 are used used
put f 1
kill -KILL "$server_pid"
wait "$server_pid" 2>/dev/null
ok 'two: one is lost, and etcd knows' until_true 30 are used lost
put g 2
ok 'two: its server is back' serve
ok 'two: it has joined, and etcd knows' until_true 60 are used used
ok 'two: it has what it should' until_true 60 whole
stop
mark
config_two b
ok 'two: another host, with a drive of its own' start b
ok 'two: told which it does not have' since "backup near, a:$drive .* was used in epoch"
ok 'two: etcd knows where they are now' until_true 30 eval 'has members | grep -q "b:$drive"'
stop
expect 'two: drains' "$status" 0
run "$ctl" destroy "$store"
config_none c
refuses 'one of two' 3 "b:$drive: a file or drive of that host"
expect 'one of two: no store is made' "$(ls /sys/class/lsmem)" ''
ok 'one of two: taken for all that is left' start c --accept-missing
ok 'one of two: all is there' eval 'holds f 1 && holds g 2'
ok 'one of two: etcd knows' until_true 30 are missing used
stop
expect 'one of two: drains' "$status" 0
run "$ctl" destroy "$store"
kill -TERM "$server_pid"
wait "$server_pid"
expect 'the server ends' "$?" 0
etcd_kill
ok 'the RDMA modules can go' soft_roce_end
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log" "$scratch/second.log" "$scratch/server.log"
tap_end
