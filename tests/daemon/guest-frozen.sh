#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A daemon finds a frozen store of a former one in the kernel, and asks etcd what has become of it:
# the store is thawed, kept, or dropped and recovered.  Another host is what etcd says.  In a guest
# with a drive: TAP.
#
#	qemu/run --drive backup:1G -- tests/daemon/guest-frozen.sh
. "$(dirname "$0")/guest-lib.sh"
no_remote=1
. "$(dirname "$0")/etcd-lib.sh"

# The daemon is killed, and another one has frozen the store with the term: then etcd says what becomes of it.
frozen()
{
	slay
	is "$1: the objects of the frozen store" "$("$here/build/frozen" "$store" "$uuid" "$2")" "$blocks"
	is "$1: frozen" "$(cat /sys/class/lsmem/$store/frozen)" 1
	flush_ms=$(cat "/sys/class/lsmem/$store/limits/flush_ms")
	echo 300 >"/sys/class/lsmem/$store/limits/flush_ms"
	ok "$1: is not served" eval '! put x 9 2>"$scratch/err"'
	echo "$flush_ms" >"/sys/class/lsmem/$store/limits/flush_ms"
	mark
}
# serves_it NAME: the next daemon serves the store, with what was acknowledged
serves_it()
{
	ok "$1: the next daemon starts" start "$1"
	ok "$1: serves" until_true 60 since 'serving, backup'
	is "$1: not frozen" "$(cat /sys/class/lsmem/$store/frozen)" 0
	ok "$1: what was acknowledged is there" eval 'holds a 1 && holds b 2'
	ok "$1: takes writes" put c 3
}
# taken HOST: another host took the store, and its lease is over.  has_it HOST: has it, and renews its
# lease until lost
taken()
{
	local term=$(($(has term) + 1))
	ok "$name: etcd says: $1, term $term" \
		tell_etcd owner - term "$term" taken "$(owner_text "$1" "$term")"
}
has_it()
{
	local term=$(($(has term) + 1))
	lease_id=$(post lease/grant '{"TTL":"600"}' | sed -n 's/.*"ID":"\([0-9]*\)".*/\1/p')
	ok "$name: etcd says: $1 has it, term $term" \
		tell_etcd owner "$(owner_text "$1" "$term")" term "$term" taken "$(owner_text "$1" "$term")"
	while post lease/keepalive "{\"ID\":\"$lease_id\"}" >"$scratch/renewed"; do sleep 0.5; done &
	renews=$!
}
lost() { kill "$renews"; wait "$renews" 2>/dev/null; }

ip link set lo up
ok 'etcd starts' etcd_start
config a "$drive" ''
ok 'formatted and active' start format --format
uuid=$(cat "/sys/class/lsmem/$store/uuid")
put a 1
put b 2
put c 3
blocks=3
name=newest
frozen "$name" 1
serves_it "$name"
ok "$name: says so" since 'no other host took the store since term 1: thawed, term 2'
ok "$name: resumes" eval '! since recovered'
ok "$name: what it has written is durable" "$ctl" sync $store
name='its daemon was killed after a claim'
frozen "$name" 1
serves_it "$name"
ok "$name: says so" since 'no other host took the store since term 2: thawed, term 3'

name='another host took it'
frozen "$name" 3
taken b
serves_it "$name"
ok "$name: says so" since "$store: was frozen in term 3, and host b took the store, term 4: dropped"
ok "$name: recovers" since recovered
is "$name: a new term" "$(has term)" 5
name='not known which host took it'
frozen "$name" 5
ok "$name: only the term is written" tell_etcd owner - term 6
serves_it "$name"
ok "$name: says so" since "$store: was frozen in term 5, and etcd does not say which host took the store, term 6: dropped"

name='another host has it'
frozen "$name" 7
has_it b
refuses "$name" 4 'host b took the store, term 8: stays frozen'
lost
is "$name: kept" "$(cat /sys/class/lsmem/$store/frozen)" 1
name='a third host has it'
has_it c
refuses "$name" 4 'host c took the store, term 9: dropped'
lost
is "$name: is gone" "$(ls /sys/class/lsmem)" ''
ok "$name: gives it back" tell_etcd owner -
mark
serves_it "$name"
ok "$name: recovers" since recovered

name='it cannot be dropped'
frozen "$name" 10
taken b
exec 9<"/dev/$store"
refuses "$name" 5 'cannot be dropped: Device or resource busy'
is "$name: stays frozen" "$(cat /sys/class/lsmem/$store/frozen)" 1
is "$name: the term is that of before" "$(has term)" 11
exec 9<&-
serves_it "$name"
ok "$name: dropped when it is closed" since 'host b took the store, term 11: dropped'

name='without etcd'
frozen "$name" 12
configure "$drive" 'kind = block\nsize = 128M\n' ''
refuses "$name" 5 'only etcd says whether one has'
is "$name: stays frozen" "$(cat /sys/class/lsmem/$store/frozen)" 1
config a "$drive" ''
serves_it "$name"
ok "$name: with it, thawed" since 'since term 12: thawed, term 13'
# Its next daemon has [move]: it keeps the memory for the host that has the store. There is no RDMA here.
name='kept'
frozen "$name" 13
has_it b
(umask 077; head -c 32 /dev/urandom >"$scratch/move")
configure "$drive" 'kind = block\nsize = 128M\nrestart = instant\n' \
	"$(cluster a)\n[move]\nlisten = rdma://127.0.0.1\nsecret = $scratch/move\n"
launch
ok "$name: says so" until_true 60 since 'its memory is kept until host b needs it no more'
kill -HUP "$daemon_pid"
ok "$name: SIGHUP changes nothing" until_true 10 since 'nothing can change'
stop
is "$name: the daemon is told to end" "$status" 0
is "$name: the memory stays" "$(cat /sys/class/lsmem/$store/frozen)" 1
name='kept, and a third host takes it'
mark
launch
ok "$name: kept by the next daemon" until_true 60 since 'its memory is kept until host b needs it no more'
lost
has_it c
ok "$name: the daemon ends" until_true 30 ended "$daemon_pid"
status=0
wait "$daemon_pid" || status=$?
is "$name: exit status" "$status" 0
ok "$name: says why" since 'host c has the store, and needs nothing of this one'
is "$name: the memory is free" "$(ls /sys/class/lsmem)" ''
lost
ok "$name: c gives it back" tell_etcd owner -
config a "$drive" ''
mark
serves_it "$name"
ok "$name: recovers" since recovered

stop
is 'after all that: drains' "$status" 0
run "$ctl" destroy "$store"
etcd_kill
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log" "$scratch/err"
tap_end
