#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The record of a store's backups: lsmemd writes it to etcd, and another host uses it. Another host
# is this host with another name.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-members.sh
. "$(dirname "$0")/guest-lib.sh"
. "$(dirname "$0")/etcd-lib.sh"

# config_two HOST: a configuration with a drive of this host and one of the other host
config_two()
{
	conf=$scratch/$1.conf
	printf '[store]\nkind = block\nsize = 128M\nmin_replicas = 1\nrejoin = 1\n' >"$conf"
	printf '[backup near]\npath = %s\n[backup far]\npath = rdma://%s/data\nkey = %s/key\n%s\n' \
		"$drive" "$remote" "$scratch" "$(cluster "$1")" >>"$conf"
}
# config_none HOST: a configuration without backups: they come from etcd
config_none()
{
	conf=$scratch/$1.conf
	printf '%s\nstore = %s\nsecret = %s/key\n' "$(cluster "$1")" "$uuid" "$scratch" >"$conf"
}
# are STATE ..: does etcd have backups with these states?
are() { [ "$(has members | grep -o '"state":"[a-z]*"' | cut -d '"' -f 4 | xargs)" = "$*" ]; }
# whole: no segment has too few replicas
whole()
{
	"$ctl" backups "$store" >"$scratch/out" && grep -q '"segments_short": 0,' "/run/lsmem/$store.json"
}

ok 'etcd starts' etcd_start
server
ok 'the server starts' serve
config_remote a
ok 'one: formatted and active' start format --init
uuid=$(cat "/sys/class/lsmem/$store/uuid")
put d 1
stop
is 'one: drains' "$status" 0
run "$ctl" destroy "$store"
config_none c
ok 'one in etcd: recovered' start none
ok 'one in etcd: all is there' holds d 1
stop
is 'one in etcd: drains' "$status" 0
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
ok 'two: it has joined again, and etcd knows' until_true 60 are used used
ok 'two: it has its replicas' until_true 60 whole
stop
mark
config_two b
ok 'two: another host, with a drive of its own' start b
ok 'two: the message names the backup that it does not have' since "backup near, a:$drive .* was used in term"
ok 'two: etcd knows where they are now' until_true 30 eval 'has members | grep -q "b:$drive"'
stop
is 'two: drains' "$status" 0
run "$ctl" destroy "$store"
forget
config_none c
refuses 'one of two' 3 "b:$drive: a file or drive of another host"
is 'one of two: no store is made' "$(ls /sys/class/lsmem)" ''
ok 'one of two: accepted as all that is left' start c --accept-missing
ok 'one of two: all is there' eval 'holds f 1 && holds g 2'
ok 'one of two: etcd knows' until_true 30 are missing used
stop
is 'one of two: drains' "$status" 0
run "$ctl" destroy "$store"
server_end
is 'the server ends' "$?" 0
etcd_kill
ok 'the RDMA modules can go' soft_roce_end
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log" "$scratch/server.log"
tap_end
