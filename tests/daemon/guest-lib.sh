# SPDX-License-Identifier: GPL-2.0
# Daemons in a guest, for the guest tests: sourced, not run.  The tests overwrite the first two
# drives.  A test may change the variables set here.
set -u
here=$(realpath "$(dirname "$0")")
top=$here/../..
LSMEMD=${LSMEMD:-$top/daemon/lsmemd}
. "$here/lib.sh"
drives=(/dev/drive/*)
drive=${drives[0]}
other=${drives[1]-}
[ -b "$drive" ] || { echo "Bail out! no drive in /dev/drive"; exit 1; }
store=lsmem
conf=$scratch/lsmemd.conf
log=$scratch/daemon.log
model=$scratch/model		# the model of load.c
slots=${SLOTS:-4000}
every=1				# verify looks at one of so many slots
ctl=$top/tools/lsmemctl/lsmemctl
load=$here/build/load

modprobe -a libcrc32c
grep -q '^lsmem ' /proc/modules || insmod "${LSMEM_MODULE:-$top/kmod/lsmem.ko}" || exit 1

# The runner ends a test after its time limit: print the last messages of the daemons.
tell()
{
	tail -qn 40 "$scratch/said" "$log" "$scratch/server.log" 2>/dev/null | sed 's/^/# /' >&3
	exit 1
}
exec 3>&1	# standard output, which ok() redirects
trap tell TERM

daemon_pid=
# launch OPTION ..: start the daemon of $conf
launch()
{
	"$lsmemd" -c "$conf" -v "$@" 2>>"$log" &
	daemon_pid=$!
}

# serves NAME: wait until the store is active
serves()
{
	local i name=$1
	for ((i = 0; i < 600; i++)); do
		[ "$(cat /sys/class/lsmem/$store/attached 2>/dev/null)" = 1 ] &&
			[ "$(cat /sys/class/lsmem/$store/state)" = active ] &&
			[ -e "/dev/$store" ] && return 0
		kill -0 "$daemon_pid" 2>/dev/null || break
		sleep 0.1
	done
	echo "# $name: the store does not become active; the daemon's last messages:"
	tail -n 15 "$log" | sed 's/^/# /'
	return 1
}

# start NAME OPTION ..: start the daemon of $conf, and wait until the store is active. With --init
# format the backups first.
start()
{
	local name=$1
	shift
	if [ "${1-}" = --init ]; then
		shift
		"$lsmemd" -c "$conf" -v --init 2>>"$log" ||
			{ echo "# $name: --init ends with status $?"; tail -3 "$log" | sed 's/^/# /'; return 1; }
	fi
	launch "$@"
	serves "$name"
}

# forget: remove the records of stores, so that configurations may be for other stores
forget() { rm -rf "$STATE_DIRECTORY"; }

stop()
{
	kill -TERM "$daemon_pid"
	status=0
	wait "$daemon_pid" || status=$?
}

slay()
{
	kill -KILL "$daemon_pid"
	wait "$daemon_pid" 2>/dev/null
}

slay_load()
{
	kill -KILL "$load_pid"
	wait "$load_pid" 2>/dev/null
}

load()
{
	"$load" run "$model" "/dev/$store" "$1" "$slots" >"$scratch/load" 2>&1 &
	load_pid=$!
}

# verify NAME: all that was acknowledged is there
verify()
{
	"$load" verify "$model" "/dev/$store" "$every" >"$scratch/out" 2>"$scratch/err"
	status=$?
	cat "$scratch/err" | head -30 | sed 's/^/# /'
	sed 's/^/# /' "$scratch/out"
	is "$1" "$status" 0
}

# until_true SECONDS COMMAND ..: repeat the command until it succeeds, for SECONDS at most
until_true()
{
	local i tenths=$(($1 * 10))
	shift
	for ((i = 0; i < tenths; i++)); do
		"$@" && return 0
		sleep 0.1
	done
	return 1
}

# backup NAME FIELD, daemon FIELD: a field of the status of a backup or of the daemon
backup() { "$ctl" backups "$store" --json | jq -r ".[] | select(.name == \"$1\") | .$2"; }
daemon() { "$ctl" backups "$store" >/dev/null && jq -r ".$1" "/run/lsmem/$store.json"; }

# until_is WANTED COMMAND ..: repeat the command until it prints WANTED, for two minutes at most
until_is()
{
	local end=$((SECONDS + 120)) wanted=$1
	shift
	while [ $SECONDS -lt $end ]; do
		[ "$("$@")" = "$wanted" ] && return 0
		kill -0 "$daemon_pid" 2>/dev/null || break
		sleep 0.1
	done
	echo "# $*: $("$@"), wanted $wanted"
	return 1
}

port=9469	# of the metrics
# http METHOD PATH: the answer to a request
http()
{
	exec 9<>"/dev/tcp/127.0.0.1/$port" || return
	printf '%s %s HTTP/1.0\r\n\r\n' "$1" "$2" >&9
	cat <&9
	exec 9<&-
}

# figure NAME: the value of a metric; NAME is a regular expression for all before the value
figure() { http GET /metrics | sed -n "s/^$1 //p"; }

# rises: more bytes are durable than $before
rises() { [ "$(daemon log_bytes)" -gt "$before" ]; }

said() { grep -q -- "$1" "$2"; }
# mark: since() looks only at lines of the daemon's log from now on
mark() { mark=$(wc -l <"$log"); }
since() { tail -n +$((mark + 1)) "$log" | grep -q -- "$1"; }
now_ms() { date +%s%3N; }

ended() { ! kill -0 "$1" 2>/dev/null; }
nap() { sleep "$1.$((RANDOM % 90 + 10))"; }

# configure BACKUP [STORE-TEXT [BACKUP-TEXT]]: write the configuration
configure() { printf '[store]\n%b[backup]\npath = %s\n%b' "${2-}" "$1" "${3-}" >"$conf"; }

# refuses NAME STATUS TEXT OPTION ..: lsmemd exits with STATUS, and its message has TEXT
refuses()
{
	local name=$1 wanted=$2 text=$3
	shift 3
	run "$lsmemd" -c "$conf" "$@"
	is "$name: exit status" "$status" "$wanted"
	ok "$name: says why" grep -q -- "$text" "$scratch/err"
}

# fails NAME SECONDS TEXT COMMAND ..: run the command in the middle of writes; the daemon ends within
# SECONDS, and its message has TEXT
fails()
{
	local name=$1 most=$2 text=$3 took
	shift 3
	load 60
	nap 1
	mark
	begun=$(now_ms)
	"$@"
	status=0
	wait "$daemon_pid" || status=$?
	took=$(($(now_ms) - begun))
	is "$name: exit status" "$status" 6
	echo "# noticed after $took ms"
	ok "$name: in time" [ "$took" -lt $((most * 1000)) ]
	ok "$name: says what" since "$text"
	slay_load
}

# livemap: is the live bitmap that of the handle table?  While entries move, not quite.
livemap()
{
	mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
	awk 'NR == 2 && !$2 && !$3 { fits = 1 } END { exit !fits }' "/sys/kernel/debug/lsmem/$store/livemap"
}

# drained [PREFIX]: after the daemon is stopped all is on the backup, which is sound, and the store can go
drained()
{
	stop
	is "${1-}shutdown drains" "$status" 0
	ok "${1-}live bitmap as the handle table" until_true 10 livemap
	run "$ctl" destroy "$store"
	is "${1-}drained, so it can be destroyed" "$status" 0
	run "$ctl" check "$drive" --json
	is "${1-}check: sound" "$(jq -r .verdict "$scratch/out")" sound
}

# soft_roce ADDRESS [MODULE]: make a soft RoCE device that reaches itself; load MODULE first
soft_roce()
{
	soft_roce_end 2>/dev/null	# the device of an earlier test
	modprobe -a veth "${2-ib_uverbs}" rdma_rxe rdma_ucm
	ip link set lo up
	ip link add rdma0 type veth peer name rdma1 && ip link set rdma1 up &&
		ip addr add "$1/24" dev rdma0 && ip link set rdma0 up &&
		rdma link add rxe0 type rxe netdev rdma0 ||
		{ echo 'Bail out! no soft RoCE'; exit 1; }
}

soft_roce_end() { ip link delete rdma0 && modprobe -r rdma_rxe rdma_ucm; }
