#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A store moves away: the source's daemon, with etcd, over soft RoCE.  The target (build/target) reads what the
# source tells and its memory, and takes nothing into a kernel; another host is what etcd says.  In a guest with a
# drive: TAP.
#
#	qemu/run --drive backup:1G -- tests/daemon/guest-move.sh
. "$(dirname "$0")/guest-lib.sh"
. "$(dirname "$0")/etcd-lib.sh"

secret=$scratch/move
export ASAN_OPTIONS=detect_leaks=0
(umask 077; head -c 32 /dev/urandom >"$secret"; head -c 32 /dev/urandom >"$secret.other")

# moves HOST: write the configuration of a host whose store can be moved
moves()
{
	conf=$scratch/$1.conf
	configure "$drive" 'name = data\nkind = block\nsize = 128M\nrestart = instant\nwarm = no\n' \
		"$(cluster "$1")\n[move]\nlisten = rdma://$remote\nsecret = $secret\n"
}

# target HOST [SECRET [STORE [TERM]]]: start a target; say COMMAND: tell it; hears SECONDS TEXT: wait for its line
targets=0
target()
{
	heard=$scratch/target.$((++targets))
	rm -f "$scratch/say"
	mkfifo "$scratch/say"
	"$here/build/target" "rdma://$remote/${3-data}" "${2-$secret}" "$1" ${4-} <"$scratch/say" >"$heard" 2>&1 &
	target_pid=$!
	exec 7>"$scratch/say"
}
say() { echo "$*" >&7; }
hears() { until_true "$1" said "^$2" "$heard"; }
# gone: the target leaves; its process ends without a word
gone() { kill -KILL "$target_pid" 2>/dev/null; wait "$target_pid" 2>/dev/null; exec 7>&-; }
bail() { sed 's/^/# /' "$log" "$heard"; echo "Bail out! nothing else can be tested"; exit 1; }
frozen() { [ "$(cat /sys/class/lsmem/$store/frozen)" = "$1" ]; }
all_there() { holds a 1 && holds b 2 && holds c 3 && holds d 4; }
# ready NAME: a target reads all, and says MOVE, until READY
ready()
{
	mark
	target b
	ok "$1: reads blocks to the mark" hears 30 mark
	say move
	ok "$1: READY" hears 30 "ready [1-9][0-9]* $blocks " || bail
	ok "$1: all that READY counts was told" eval '! said ^other "$heard"'
	ok "$1: frozen" frozen 1
	ok "$1: the log says after how long" until_true 10 since 'frozen, durable and told [0-9]\{1,4\} ms after its clients were stopped: host b'
	sed -n 's/^ready [0-9]* [0-9]* /# ms from MOVE to READY: /p' "$heard"
}

ip link set lo up
ok 'etcd starts' etcd_start
moves a
ok 'formatted and active' start format --format
uuid=$(cat "/sys/class/lsmem/$store/uuid")
ok 'listens' until_true 30 said "listening for moves at $remote port 7471" "$log"
put a 1
put b 2
put c 3
blocks=3

# ---- Access control ------------------------------------------------------------
target b "$secret.other"
ok 'another secret: refused' hears 15 'refused 2'
gone
target b "$secret" other
ok 'another store: refused' hears 15 'refused 3'
gone
target b "$secret" data 1
ok 'keys of a store that it has not: refused' hears 15 'refused 5'
gone
target b
ok 'reads blocks to the mark' hears 30 'mark 3'
first_pid=$target_pid
exec 8>&7
target c
ok 'a second one: its connection ends' hears 15 end
ok 'the first one goes on' kill -0 "$first_pid"
kill -KILL "$first_pid"
wait "$first_pid" 2>/dev/null
exec 8>&-
ok 'is served' put c 3

cp "$conf" "$scratch/old.conf"
sed -i "s/^secret = .*/&.other/; s/^listen = .*/&:7472/" "$conf"
mark
kill -HUP "$daemon_pid"
ok 'SIGHUP: says that the address stays' until_true 15 since '\[move\] listen: cannot change while the store is served'
ok 'SIGHUP: says that the secret stays' until_true 15 since '\[move\] secret: cannot change while the store is served'
cp "$scratch/old.conf" "$conf"

# ---- The source serves again ------------------------------------------------------
name='the target is killed'
ready "$name"
put d 4 &
put_pid=$!
say read abcd
ok "$name: its keys open the memory" hears 60 'found a b c$'
ok "$name: a write waits" eval '! ended "$put_pid"'
mark
gone
ok "$name: served again" until_true 30 since 'was not moved: its clients are served again'
wait "$put_pid"
is "$name: the write is durable" "$?" 0
ok "$name: nothing is lost" all_there
ok "$name: not frozen" frozen 0
blocks=4
name='the target does not take it'
ready "$name"
run "$ctl" move --cancel "$store"
is "$name: an operator cannot cancel it" "$status $(grep -o 'is not cancelled: READY was told' "$scratch/err")" '1 is not cancelled: READY was told'
is "$name: lsmemctl shows it" "$("$ctl" move data --json | jq -r '.[0] | "\(.role) \(.state) \(.host) \(.stopped_seconds > 0)"')" \
	'source waits b true'
mark
ok "$name: served again" until_true 30 since 'was not moved: its clients are served again'
ok "$name: its connection is over" hears 5 end
is "$name: lsmemctl has the cause" "$("$ctl" move data --json | jq -r '.[0].last.cause')" 'it has not taken the store in time'
exec 7>&-
ok "$name: nothing is lost" all_there

name='the daemon is told to end'
ready "$name"
stop
is "$name: drains" "$status" 0
ok "$name: not frozen" frozen 0
ok "$name: the next one starts" start "$name"
ok "$name: nothing is lost" all_there
name='the daemon is killed'
ready "$name"
slay
mark
ok "$name: the next one starts" start "$name"
ok "$name: serves" until_true 60 since 'serving, backup'
ok "$name: the consent is void" since 'no other host took the store since term 2: thawed, term 3'
ok "$name: nothing is lost" all_there

# ---- Another host takes it --------------------------------------------------------
name='moved'
ready "$name"
term=$(($(has term) + 1))
ok "$name: etcd says: b took it, term $term" tell_etcd owner - term "$term" taken "$(owner_text b "$term")"
say taken "$term"
ok "$name: the source knows" until_true 15 since 'host b has the store'
gone
nap 3
ok "$name: the daemon stays" kill -0 "$daemon_pid"
ok "$name: frozen" frozen 1
target c "$secret" data "$term"
ok "$name: another host gets no keys" hears 15 'refused 5'
gone
target b "$secret" data "$term"
ok "$name: the owner gets keys again" hears 15 'ready 0 0 0'
say read abcd
ok "$name: they open the memory" hears 60 'found a b c d$'
say close "$((term + 1))"
ok "$name: a CLOSE of another term ends the connection" hears 15 end
gone
ok "$name: the memory is kept" frozen 1
# ends NAME: the target says CLOSE, and the source's daemon ends
ends()
{
	say close "$term"
	ok "$1: closed" hears 15 closed
	gone
	until_true 30 ended "$daemon_pid" || kill -KILL "$daemon_pid"
	status=0
	wait "$daemon_pid" || status=$?
	is "$1: the daemon ends" "$status" 0
	is "$1: the memory is free" "$(ls /sys/class/lsmem)" ''
	ok "$1: says so" since 'has the store, and needs nothing of this one'
}
name='its next daemon'
stop
is "$name: the former one ends" "$status" 0
ok "$name: the memory is kept" frozen 1
# The host that has it is alive.
lease_id=$(post lease/grant '{"TTL":"600"}' | sed -n 's/.*"ID":"\([0-9]*\)".*/\1/p')
ok "$name: etcd says: b has it" \
	tell_etcd owner "$(owner_text b "$term")" term "$term" taken "$(owner_text b "$term")"
while post lease/keepalive "{\"ID\":\"$lease_id\"}" >"$scratch/renewed"; do sleep 0.5; done &
renews=$!
mark
launch
ok "$name: keeps the memory" until_true 60 since 'its memory is kept until host b needs it no more'
target c "$secret" data "$term"
ok "$name: another host gets no keys" hears 15 'refused 5'
gone
target b "$secret" data "$term"
ok "$name: the owner gets keys again" hears 15 'ready 0 0 0'
say read abcd
ok "$name: they open the memory" hears 60 'found a b c d$'
ends "$name"
kill "$renews"
wait "$renews" 2>/dev/null

name='nothing is in memory'
ok "$name: gives the store back" tell_etcd owner -
moves a
mark
ok "$name: a recovers" start a
is "$name: a later term" "$(has term)" $((term + 1))
ready "$name"
term=$(($(has term) + 1))
ok "$name: etcd says: b took it, term $term" tell_etcd owner - term "$term" taken "$(owner_text b "$term")"
say taken "$term"
ok "$name: the source knows" until_true 15 since 'host b has the store'
ends "$name"
moves a
ok "$name: a recovers" start a
ok "$name: nothing is lost" all_there
stop
is "$name: drains" "$status" 0
run "$ctl" destroy "$store"
etcd_kill
ok 'the RDMA modules can go' soft_roce_end
grep -h 'ms after its clients\|served again, after\|moves it to itself' "$log" | sed 's/^.*lsmemb0/# lsmemb0/'
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log" "$scratch/err" "$scratch"/target.*
tap_end
