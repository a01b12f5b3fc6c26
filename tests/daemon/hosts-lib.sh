# SPDX-License-Identifier: GPL-2.0
# Two hosts between which a store moves, with etcd, its backup on a server, all over soft RoCE.  Both are this guest, with two
# names, a and b, and the daemon of each does not see the other one's store in sysfs.  Sourced, after guest-lib.sh and etcd-lib.sh.

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

# configure_host HOST: its store, of kind $kind, is called store-HOST
configure_host()
{
	conf=$scratch/$1.conf
	configure "rdma://$remote/data" "name = store-$1\nkind = ${kind:-block}\nsize = 128M\nrestart = instant\nwarm = no\n" \
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
# store (hold.c).  It sees its own stores, and those without a name; with $own_run it has a /run/lsmem of its own
host()
{
	local name=$1
	shift
	run=${own_run:+$scratch/run.$name} cgroup=${cgroup-} HOLD=${hold-} hold_so=$here/build/hold.so STATE_DIRECTORY=$scratch/state.$name unshare -m bash -c '
		for s in /sys/class/lsmem/*; do
			given=$(cat "$s/given_name" 2>/dev/null)
			[ -z "$given" ] || [ "$given" = "$0" ] ||
				mount -t tmpfs none "$(realpath "$s")" || exit 99
		done
		[ -z "$run" ] || { mkdir -p "$run" /run/lsmem && mount --bind "$run" /run/lsmem; } || exit 99
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

# at HOST COMMAND ..: as an operator of that host
at()
{
	local host=$1
	shift
	nsenter -t "${pids[$host]}" -m "$@"
}
# hide HOST: the other one's daemon does not see its store, as if it were elsewhere
hide()
{
	at "$(other "$1")" mount -t tmpfs none "$(realpath "/sys/class/lsmem/$(named "$1")")"
}
# stands_by HOST: it does, from now on
stands_by()
{
	ok "$name: $1 stands by" until_true 60 since_host "$1" "stands by for host $remote: [1-9]" || bail
	hide "$1"
}
