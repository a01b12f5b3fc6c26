#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# lsmemd with the module, in a guest with a drive at /dev/drive/backup: TAP.
# Each kind of store is loaded with durable operations while its daemon is
# stopped, killed and started again; then its memory is lost (the store is
# destroyed by force) and comes back from the backup.
#
#	qemu/run --drive backup:1G -- tests/daemon/guest.sh
#
# KILLS and LOSSES: how often.
set -u
here=$(realpath "$(dirname "$0")")
top=$here/../..
LSMEMD=${LSMEMD:-$top/daemon/lsmemd}
. "$here/tap.sh"
ctl=$top/tools/lsmemctl/lsmemctl
load=$here/build/load
drive=/dev/drive/backup
kills=${KILLS:-5}
losses=${LOSSES:-3}

modprobe -a libcrc32c
grep -q '^lsmem ' /proc/modules || insmod "$top/kmod/lsmem.ko" || exit 1

daemon_pid=
# start NAME OPTION ..: the daemon of $conf; waits until the store is active
start()
{
	local i name=$1
	shift
	"$lsmemd" -c "$conf" -v "$@" 2>>"$scratch/daemon.log" &
	daemon_pid=$!
	for ((i = 0; i < 600; i++)); do
		[ "$(cat /sys/class/lsmem/$store/attached 2>/dev/null)" = 1 ] &&
			[ "$(cat /sys/class/lsmem/$store/state)" = active ] &&
			[ -e "/dev/$store" ] && return 0
		kill -0 "$daemon_pid" 2>/dev/null || break
		sleep 0.1
	done
	echo "# $name: the store does not become active"
	return 1
}

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

verify()
{
	"$load" verify "$model" "/dev/$store" >"$scratch/out" 2>"$scratch/err"
	status=$?
	cat "$scratch/err" | head -30 | sed 's/^/# /'
	sed 's/^/# /' "$scratch/out"
	expect "$1" "$status" 0
}

nap() { sleep "$1.$((RANDOM % 90 + 10))"; }

kind_test()
{
	local kind=$1 i
	store=$2
	slots=$3
	model=$scratch/model.$kind
	conf=$scratch/$kind.conf
	rm -f "$model"
	printf '[store]\nkind = %s\nsize = 128M\n[backup]\npath = %s\n' "$kind" "$drive" >"$conf"
	ok "$kind: formatted and active" start format --format --force
	load 8
	wait "$load_pid"
	expect "$kind: load" "$?" 0
	sed 's/^/# /' "$scratch/load"
	run cat "/run/lsmem/$store.json"
	kill -USR1 "$daemon_pid"
	sleep 1
	ok "$kind: status on SIGUSR1" grep -q '"state": "active"' "/run/lsmem/$store.json"
	verify "$kind: all there"
	stop
	expect "$kind: shutdown drains" "$status" 0
	ok "$kind: nothing lags" grep -q '"lag_bytes": 0,' "/run/lsmem/$store.json"
	sed 's/^/# /' "/run/lsmem/$store.json"
	ok "$kind: resumes" start resume
	verify "$kind: all there after a restart"

	load $((kills * 4 + 4))
	for ((i = 0; i < kills; i++)); do
		nap $((RANDOM % 3))
		slay
		nap $((RANDOM % 2))
		start "kill $i" || break
	done
	expect "$kind: restarted after each SIGKILL" "$i" "$kills"
	wait "$load_pid"
	expect "$kind: load, the daemon killed meanwhile" "$?" 0
	sed 's/^/# /' "$scratch/load"
	verify "$kind: all there after SIGKILLs"
	stop
	expect "$kind: shutdown after SIGKILLs" "$status" 0
	run "$ctl" destroy "$store"
	expect "$kind: drained, so it can be destroyed" "$status" 0
	ok "$kind: recovers after SIGKILLs" start recovery
	verify "$kind: all there from the backup"

	for ((i = 0; i < losses; i++)); do
		load 60
		nap $((RANDOM % 4 + 1))
		if ((i % 2)); then
			slay
			slay_load
		else
			slay_load
			slay
		fi
		run "$ctl" destroy --force "$store"
		expect "$kind: loss $i: the memory is lost" "$status" 0
		ok "$kind: loss $i: recovers" start "loss $i" || break
		verify "$kind: loss $i: all that was acknowledged"
		run grep -o '"recovered_objects": [0-9]*' "/run/lsmem/$store.json"
		sed 's/^/# /' "$scratch/out"
	done
	stop
	expect "$kind: the end" "$status" 0
	run "$ctl" destroy "$store"
	expect "$kind: destroyed" "$status" 0
}

kind_test object lsmem "${SLOTS:-40000}"
kind_test block lsmemb0 20000
[ "$failed" -eq 0 ] || sed 's/^/# /' "$scratch/daemon.log"
tap_end
