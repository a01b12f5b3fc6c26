#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A host stands by for a store (hosts-lib.sh), and takes it when an operator of either host wants that (lsmemctl migrate), or when
# no daemon owns it any more; then the other one stands by.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-standby.sh
#
# $SEED: repeat what is random, but for times
. "$(dirname "$0")/guest-lib.sh"
. "$(dirname "$0")/etcd-lib.sh"
. "$(dirname "$0")/hosts-lib.sh"

RANDOM=${SEED:=$((RANDOM))}
echo "# SEED=$SEED"

own_run=yes
# state_of HOST: as it is shown there
state_of() { at "$1" "$ctl" move "store-$1" --json | jq -r '.[] | "\(.role) \(.state) \(.running)"'; }
# knows HOST: it knows all objects of the store that the other one serves
knows()
{
	[ "$(at "$1" "$ctl" move "store-$1" --json | jq -r '.[] | .objects')" = \
	  "$(cat "/sys/class/lsmem/$(named "$(other "$1")")/handles_used")" ]
}
# migrates FROM TO WHERE: an operator on host WHERE wants TO to have the store, under load
migrates()
{
	local from=$1 to=$2 pid=${pids[$1]}
	write_on "$from"
	nap 1
	marks
	run at "$3" "$ctl" migrate "store-$3" --json
	write_ends
	is "$name: done" "$status $(cat "$scratch/err")" '0 '
	ok "$name: how long its clients waited" [ "$(jq '.stopped_seconds > 0 and .stopped_seconds < 30' "$scratch/out")" = true ]
	ok "$name: $to serves it" until_true 30 is_served "$to" || bail
	ok "$name: by what $from told" since_host "$to" "moved from host $remote: served .* by what that host told"
	ok "$name: what was acknowledged is there" all_there "$to"
	is "$name: one owner" "$(owners)" 1
	ok "$name: $from has let go" until_true 60 since_host "$from" 'needs nothing of this one: its memory is freed'
	is "$name: the daemon of $from is the same process" "$pid $(ended "$pid" || echo runs)" "${pids[$from]} runs"
	stands_by "$from"
	is "$name: and is shown so" "$(state_of "$from")" 'target stands by true'
}
# is_refused WHERE [HOST]: lsmemctl migrate fails there
is_refused()
{
	run at "$1" "$ctl" migrate "store-$1" ${2-}
	is "$name: is refused" "$status" 1
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
name='the first start'
host a --format
ok "$name: a serves the store" until_true 60 since_host a 'serving, backup' || bail
uuid=$(cat "/sys/class/lsmem/$(named a)/uuid")
ok "$name: a listens" until_true 30 since_host a 'listening for moves'
write_bulk a

name='no host stands by'
is_refused a
ok "$name: says so" grep -q 'is not moved: no host stands by to take the store' "$scratch/err"

name='standing by'
host b
stands_by b
is "$name: it is shown" "$(state_of b)" 'target stands by true'
is "$name: on a, too" "$(at a "$ctl" move store-a --json | jq -r '.[] | "\(.role) \(.standby) \(.host)"')" 'source true b'
ok "$name: in the list of stores of b" grep -q '^lsmemb.* standby .* store-b' <(at b "$ctl" list)
run at b "$ctl" backups
is "$name: its store has no backups to show" "$status $(cat "$scratch/out" "$scratch/err")" '0 '
is_refused a c
ok "$name: another host does not" grep -q 'host b stands by for it, not c' "$scratch/err"
write_on a
nap 2
write_ends
ok "$name: it goes on to know all" until_true 30 knows b
ok "$name: a serves the store" is_served a
ok "$name: its clients were not stopped" eval '! since_host a "its clients wait"'
kill -HUP "${pids[b]}"
ok "$name: nothing changes by SIGHUP" until_true 10 since_host b 'nothing changes before the store is served'

name='asked on the source'
migrates a b a
name='asked on the target'
migrates b a a

# A next daemon of the source keeps the memory, as long as the target needs it, and stands by then.
name='the source killed while it keeps the memory'
echo 'bring_rate = 1M' >>"$scratch/b.conf"
slay_host b
marks
host b
stands_by b
run at b "$ctl" migrate store-b
is "$name: done" "$status $(cat "$scratch/err")" '0 '
slay_host a
host a
ok "$name: it is kept" until_true 30 since_host a 'its memory is kept until host b needs it no more'
sed -i '/^bring_rate = /d' "$scratch/b.conf"
kill -HUP "${pids[b]}"
stands_by a
ok "$name: what was acknowledged is there" all_there b
migrates b a a

# The source's daemon waits for its only backup, and the connection between both ends with it.
name='the server of the backup was away'
marks
server_end
ok "$name: the server starts again" serve
ok "$name: a serves the store again" until_true 60 since_host a 'serving, backup' || bail
stands_by b
migrates a b b

name='another secret'
marks
kill -TERM "${pids[a]}"
ends a
is "$name: a's daemon ends" "$status" 0
head -c 32 /dev/urandom >"$secret.other"
chmod 600 "$secret.other"
sed -i 's/^secret = .*/&.other/' "$scratch/a.conf"
host a
ok "$name: a tries again and again" until_true 30 since_host a "stands by for host $remote: trying again"
is_refused a
ok "$name: a is told why" grep -q 'is not moved: the host that may own it cannot be read, and its lease is not over' "$scratch/err"
ok "$name: b serves it" is_served b
slay_host a
sed -i 's/\.other$//' "$scratch/a.conf"

# An owner that ends gives its lease back: only an operator wants another host to have the store then.
name='the source ends'
marks
host a
stands_by a
write_on b
nap 1
write_ends
kill -TERM "${pids[b]}"
ends b
is "$name: its daemon ends" "$status" 0
ok "$name: a tries again and again" until_true 30 since_host a "stands by for host $remote: trying again"
nap 7
is "$name: a does not take it" "$(owners)" 0
run at a "$ctl" migrate store-a
is "$name: asked to" "$status $(cat "$scratch/err")" '0 '
ok "$name: a serves it" until_true 60 is_served a || bail
ok "$name: what was acknowledged is there" all_there a
ok "$name: what b had can go" until_true 40 vanishes b

# A move that etcd holds up is done, or is not: one host serves the store in the end, and has all of it.
name='etcd does not answer for 3 s'
marks
host b
stands_by b
write_on a
nap 1
kill -STOP "$etcd_pid"
at b "$ctl" migrate store-b >"$scratch/out" 2>"$scratch/err" &
asked=$!
nap 3
kill -CONT "$etcd_pid"
status=0
wait $asked || status=$?
write_ends
echo "# $name: lsmemctl migrate ends with $status: $(cat "$scratch/err")"
has=a
[ "$status" != 0 ] || has=b
ok "$name: $has serves it" until_true 60 is_served $has || bail
is "$name: one owner" "$(owners)" 1
ok "$name: what was acknowledged is there" all_there $has
if [ $has = b ]; then
	stands_by a
	migrates b a a
fi
kill -TERM "${pids[b]}"
ends b

name='the source dies'
echo 'failover = 2' >>"$scratch/b.conf"
marks
host b
stands_by b
slay_host a
ok "$name: b takes it" until_true 60 since_host b 'no daemon has owned the store for' || bail
ok "$name: b serves it" until_true 60 is_served b || bail
ok "$name: what was acknowledged is there" all_there b
ok "$name: what a had can go" until_true 40 vanishes a

kill -TERM "${pids[b]}"
wait "${pids[b]}" 2>/dev/null
run "$ctl" destroy "$(named b)"
server_end
etcd_kill
ok 'the RDMA modules can go' soft_roce_end
[ "$failed" -eq 0 ] || sed 's/^/# /' "$scratch"/log.?
tap_end
