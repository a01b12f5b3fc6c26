#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A store moves between two hosts, with etcd, its backup on a server, all over soft RoCE.  Both hosts are this one, with two
# names, and the daemon of each does not see the other one's store in sysfs.  First there and back, then with daemons killed at
# random.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-take.sh
#
# $ROUNDS: number of moves with a kill (4); $SEED: repeat them, but for the time from a step to the kill
. "$(dirname "$0")/guest-lib.sh"
. "$(dirname "$0")/etcd-lib.sh"

rounds=${ROUNDS:-4}
RANDOM=${SEED:=$((RANDOM))}
echo "# SEED=$SEED ROUNDS=$rounds"
secret=$scratch/move
acked=$scratch/acked		# lines "BLOCK BYTE": acknowledged, the last one of a block counts
tried=$scratch/tried		# likewise, before they are written
(umask 077; head -c 32 /dev/urandom >"$secret")
touch "$acked" "$tried"
bulk_mib=24
declare -A pids
bail() { tail -n 60 "$scratch"/log.? | sed 's/^/# /'; echo "Bail out! nothing else can be tested"; exit 1; }
other() { [ "$1" = a ] && echo b || echo a; }
move_port() { [ "$1" = a ] && echo 7481 || echo 7482; }

# configure_host HOST: its store is called store-HOST
configure_host()
{
	conf=$scratch/$1.conf
	configure "rdma://$remote/data" "name = store-$1\nkind = object\nsize = 256M\nhandles = 1500000\nrestart = ${restart:-instant}\nwarm = no\n" \
		"key = $scratch/key\n$(cluster "$1")\n[move]\nlisten = rdma://$remote:$(move_port "$1")\nfrom = rdma://$remote:$(move_port "$(other "$1")")/store-$(other "$1")\nsecret = $secret\n"
}

# named HOST: the name of its store in the kernel
named()
{
	local s
	for s in /sys/class/lsmem/*; do
		[ "$(cat "$s/given_name" 2>/dev/null)" != "store-$1" ] || basename "$s"
	done
}

# host HOST OPTION ..: start its daemon by the command $through, in $cgroup; with $hold it waits when the kernel has made its
# store (hold.c).  It sees its own stores, and those without a name
host()
{
	local name=$1
	shift
	cgroup=${cgroup-} HOLD=${hold-} hold_so=$here/build/hold.so STATE_DIRECTORY=$scratch/state.$name unshare -m bash -c '
		for s in /sys/class/lsmem/*; do
			given=$(cat "$s/given_name" 2>/dev/null)
			[ -z "$given" ] || [ "$given" = "$0" ] ||
				mount -t tmpfs none "$(realpath "$s")" || exit 99
		done
		[ -z "$cgroup" ] || echo $$ >"$cgroup"
		[ -z "$HOLD" ] || export LD_PRELOAD="$hold_so"
		exec "$@"' "store-$name" ${through-} "$lsmemd" -c "$scratch/$name.conf" -v "$@" 2>>"$scratch/log.$name" &
	pids[$name]=$!
}
slay_host() { kill -KILL "${pids[$1]}" 2>/dev/null; wait "${pids[$1]}" 2>/dev/null; }
# ends HOST: its daemon ends within 30 s: $status
ends()
{
	until_true 30 ended "${pids[$1]}" || kill -KILL "${pids[$1]}"
	status=0
	wait "${pids[$1]}" || status=$?
}
# marks: since_host looks only at lines from now on
marks() { for log in a b; do touch "$scratch/log.$log"; mark[$log]=$(wc -l <"$scratch/log.$log"); done; }
declare -A mark
since_host() { tail -n +$((mark[$1] + 1)) "$scratch/log.$1" | grep -q -- "$2"; }
# is_served HOST: its store is there, and its daemon serves it
is_served()
{
	store=$(named "$1")
	[ -n "$store" ] && [ "$(cat "/sys/class/lsmem/$store/state")" = active ] &&
		[ "$(cat "/sys/class/lsmem/$store/attached")" = 1 ] && [ "$(cat "/sys/class/lsmem/$store/frozen")" = 0 ] &&
		grep -q "\"host\":\"$1\"" <(has owner)
}

# write_on HOST: write blocks one after the other, until write_ends
write_on()
{
	store=$(named "$1")
	echo 5000 >"/sys/class/lsmem/$store/limits/flush_ms"	# a write that waits for a thaw which does not come
	(
		while :; do
			block=$((RANDOM % 30))
			byte=$(printf "\\x$(printf %x $((97 + RANDOM % 26)))")
			echo "$block $byte" >>"$tried"
			put "$byte" "$block" || exit
			echo "$block $byte" >>"$acked"
		done
	) 2>/dev/null &
	writer=$!
}
write_ends()
{
	local children
	children=$(ps -o pid= --ppid "$writer")
	kill -KILL "$writer" $children 2>/dev/null
	wait "$writer" 2>/dev/null
}
# write_bulk HOST: write what nothing else writes to, behind the other blocks
write_bulk()
{
	head -c "${bulk_mib}M" /dev/urandom >"$scratch/bulk"
	dd if="$scratch/bulk" of="/dev/$(named "$1")" bs=1M seek=1 oflag=direct status=none
}
# all_there HOST: each block is as it was acknowledged last, or as it was to be written last
all_there()
{
	local block byte maybe wrong=0 seen=0
	store=$(named "$1")
	while read -r block byte maybe; do
		seen=$((seen + 1))
		holds "$byte" "$block" || holds "$maybe" "$block" || { echo "# block $block: not $byte"; wrong=1; }
	done < <(awk 'NR == FNR { try[$1] = $2; next } { last[$1] = $2 } END { for (b in last) print b, last[b], try[b] }' \
		 "$tried" "$acked")
	echo "# $seen blocks compared, $(wc -l <"$acked") writes acknowledged"
	[ $wrong = 0 ] && cmp "$scratch/bulk" <(dd if="/dev/$store" bs=1M skip=1 count=$bulk_mib iflag=direct status=none)
}
# tidy: what a killed daemon was making
tidy()
{
	local s
	for s in /sys/class/lsmem/*; do
		[ ! -e "$s" ] || [ "$(cat "$s/state")" = active ] || "$ctl" destroy --force "$(basename "$s")" >/dev/null 2>&1
	done
}
# vanishes HOST: it has no store any more
vanishes() { [ -z "$(named "$1")" ] || "$ctl" destroy --force "$(named "$1")" 2>/dev/null; }
# move_of HOST FILTER: of the move, in the status of its daemon
move_of()
{
	store=$(named "$1")
	"$ctl" backups "$store" >/dev/null && jq -r ".move | $2" "/run/lsmem/$store.json"
}
# cold_of HOST: bytes of its store that are on the backups alone
cold_of()
{
	local s=/sys/class/lsmem/$(named "$1")/tier
	echo $(($(cat "$s/cold_bytes") > $(cat "$s/cached_bytes") ? $(cat "$s/cold_bytes") - $(cat "$s/cached_bytes") : 0))
}
# owners: how many stores there are that are served
owners()
{
	local s n=0
	for s in /sys/class/lsmem/*; do
		[ "$(cat "$s/attached" 2>/dev/null)$(cat "$s/frozen" 2>/dev/null)$(cat "$s/state" 2>/dev/null)" != 10active ] || n=$((n + 1))
	done
	echo $n
}


ip link set lo up
ok 'etcd starts' etcd_start
server
ok 'the server of the backup starts' serve
configure_host a
configure_host b
marks
host a --format
ok 'a: formatted and active' until_true 60 since_host a 'serving, backup' || bail
uuid=$(cat "/sys/class/lsmem/$(named a)/uuid")
ok 'a: listens' until_true 30 since_host a 'listening for moves'
printf '1 0.1\n' | $top/tests/bench/build/bench replace -s 136 -n ${N:-1000000} -b 64 -r -p /dev/$(named a) 
cat /sys/class/lsmem/$(named a)/handles_used
move() {
	marks
	host $2
	ok "$2 serves" until_true 120 since_host $2 'serving, backup' || bail
	ok "$2 has all" until_true 120 since_host $2 'keeps nothing of the store any more'
	ends $1
	ok "$1 is gone" until_true 40 vanishes $1
	ok "$2 listens" until_true 30 since_host $2 'listening for moves'
	sed -n "$((mark[$2] + 1)),\$s/^.*\(this host has the store\|moved from host\|time until it\|[0-9]* objects, .* came from\)/# \1/p" "$scratch/log.$2"
	sed -n "$((mark[$1] + 1)),\$s/^/# S /p" "$scratch/log.$1" | tail -25
}
for i in ${ROUND:-1 2}; do
move a b
move b a
done
tail -60 $scratch/log.a | sed 's/^/# A /'
sed -i '/^from = /d' $scratch/b.conf

sed -i 's/^restart = .*/restart = load/; /^\[move\]/,$d' $scratch/b.conf
begin=$(date +%s%N)
kill -TERM ${pids[a]}
ends a
echo "# a ended after $((($(date +%s%N) - begin) / 1000000)) ms"
"$ctl" destroy --force "$(named a)"
marks
host b
ok "b serves" until_true 120 since_host b 'serving, backup' || tail -20 $scratch/log.b | sed 's/^/# /'
echo "# stop and copy $((($(date +%s%N) - begin) / 1000000)) ms"
sed -n "$((mark[b] + 1)),\$s/^.*\(time until it\)/# \1/p" "$scratch/log.b"
server_end; etcd_kill; soft_roce_end; tap_end
