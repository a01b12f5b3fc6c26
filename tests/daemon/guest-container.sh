#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Containers of the standard library move with the store that they are in (hosts-lib.sh, container.cpp): there and back, each
# time changed by the host that has them, without being written to another form.  While a program has their region open, the store
# stays where it is.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-container.sh
. "$(dirname "$0")/guest-lib.sh"
. "$(dirname "$0")/etcd-lib.sh"
. "$(dirname "$0")/hosts-lib.sh"

keys=20000
rounds=0
kind=object
own_run=yes
container() { "$here/build/container" "$1" "/dev/$(named "$2")" "${@:3}"; }
# is_there HOST: it has them, as they were changed
is_there()
{
	run container check "$1" $keys $rounds
	is "$name: all is there" "$status $(cat "$scratch/err")" '0 '
	read -r opened_us copied_us opened copied <"$scratch/out"
	echo "# $name: opened in $opened_us us, copied in $copied_us us; $opened and $copied page faults"
	ok "$name: opening them walks through nothing" [ "$opened" -lt $((copied / 10)) ]
}
# migrates FROM TO: as an operator of TO wants it
migrates()
{
	marks
	run at "$2" "$ctl" migrate "store-$2"
	is "$name: done" "$status $(cat "$scratch/err")" '0 '
	ok "$name: $2 serves it" until_true 30 is_served "$2" || bail
	sed 's/^/# /' "$scratch/out"
}

ip link set lo up
ok 'etcd starts' etcd_start
server
ok 'the server of the backup starts' serve
for h in a b; do
	configure_host $h
	echo 'standby = yes' >>"$scratch/$h.conf"
done
marks
name='made on a'
host a --format
ok "$name: a serves the store" until_true 60 since_host a 'serving, backup' || bail
uuid=$(cat "/sys/class/lsmem/$(named a)/uuid")
ok "$name: a listens" until_true 30 since_host a 'listening for moves'
run container make a $keys
is "$name: made" "$status $(cat "$scratch/err")" '0 '
is_there a
host b
stands_by b

name='open'
mkfifo "$scratch/held"
container hold a <"$scratch/held" >"$scratch/hold.out" &
holder=$!
exec 6>"$scratch/held"
ok "$name: a program has it open" until_true 10 grep -q open "$scratch/hold.out"
marks
run at b "$ctl" migrate store-b
is "$name: is not moved" "$status" 1
ok "$name: a serves it again" until_true 10 is_served a
ok "$name: a's log says why" since_host a 'a range of pages of the store is open'
exec 6>&-
wait $holder
stands_by b

name='moved to b'
migrates a b
is_there b
rounds=1
run container change b $keys 1
is "$name: b changes it" "$status $(cat "$scratch/err")" '0 '
stands_by a
name='moved back'
migrates b a
rounds=1
is_there a

for h in a b; do
	kill -TERM "${pids[$h]}"
	ends $h
done
run "$ctl" destroy --force "$(named a)"
server_end
etcd_kill
ok 'the RDMA modules can go' soft_roce_end
[ "$failed" -eq 0 ] || sed 's/^/# /' "$scratch"/log.?
tap_end
