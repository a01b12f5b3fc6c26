#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# lsmemd with the module, in a guest: TAP.  Durable operations go on while the daemon is stopped,
# killed and started again. Then the memory of the store is lost (the store is destroyed by force),
# and recovered from the backup.
#
#	qemu/run --drive backup:1G -- tests/daemon/guest.sh [object|block]
#
# KILLS and LOSSES: how often.
wanted=${1:-object block}
. "$(dirname "$0")/guest-lib.sh"
kills=${KILLS:-2}
losses=${LOSSES:-2}

# figure_rises NAME: the value of a metric rises soon
figure_rises()
{
	local first i

	first=$(figure "$1")
	for ((i = 0; i < 300; i++)); do
		[ "$(figure "$1")" -gt "$first" ] && return
		sleep 0.1
	done
	return 1
}

# Metrics while the store is written, with other clients that send nothing or half a request.
metrics_test()
{
	local name said

	exec 7<>"/dev/tcp/127.0.0.1/$port" 8<>"/dev/tcp/127.0.0.1/$port"
	printf 'GET /metrics HTTP/1.1\r\nHost:' >&8
	load 600
	for name in 'lsmem_ack_latency_seconds_count{.*}' 'lsmem_store_appends_total{.*}' \
		'lsmem_backup_written_bytes_total{.*,kind="log"}' 'lsmem_backup_group_bytes_sum{.*}'; do
		ok "$1: metrics: $name rises" figure_rises "$name"
	done
	slay_load
	verify "$1: metrics: all there"		# also settles operations that were under way
	exec 7<&- 8<&-
	for said in 'GET / 200' 'GET /else 404' 'POST /metrics 405'; do
		is "$1: metrics: $said" "$(http ${said% *} | sed -n '1s/.* \([0-9]*\) .*/\1/p')" \
			"${said##* }"
	done
	run "$here/scrape.py" "127.0.0.1:$port"
	is "$1: metrics: sound" "$status" 0
}

# parked NAME RESULT DURABLE_MS COMMAND ..: the daemon is killed while durable commands of io_uring are
# parked; then COMMAND, and all of them end with RESULT.
parked()
{
	local name=$1 pid status

	echo "$3" >"/sys/class/lsmem/$store/limits/durable_ms"
	"$here/build/parked" "/dev/$store" "$daemon_pid" 64 "$2" >"$scratch/parked" 2>"$scratch/err" &
	pid=$!
	until_true 60 grep -q parked "$scratch/parked" || ended "$pid"
	slay
	shift 3
	"$@"
	wait "$pid"
	status=$?
	sed 's/^/# /' "$scratch/err"
	[ $status = 77 ] && { echo "# this kernel has no io_uring"; status=0; }
	is "$name" "$status" 0
}

# Commands that are parked when the daemon is killed are acknowledged to its successor, or end in time.
parked_test()
{
	local ms

	ms=$(cat "/sys/class/lsmem/$store/limits/durable_ms")
	parked "$1: parked commands: the successor acknowledges" 0 100000 start successor
	parked "$1: parked commands: without a daemon they time out" -110 2000 true
	ok "$1: parked commands: resumes" start "after timeouts"
	echo "$ms" >"/sys/class/lsmem/$store/limits/durable_ms"
}

kind_test()
{
	local kind=$1 i
	store=$2
	slots=$3
	model=$scratch/model.$kind
	conf=$scratch/$kind.conf
	rm -f "$model"
	printf '[store]\nkind = %s\nsize = 128M\n[backup]\npath = %s\n[metrics]\nlisten = 127.0.0.1:%s\n' \
		"$kind" "$drive" "$port" >"$conf"
	ok "$kind: formatted and active" start format --format --force
	metrics_test "$kind"
	load 3
	wait "$load_pid"
	is "$kind: load" "$?" 0
	sed 's/^/# /' "$scratch/load"
	run cat "/run/lsmem/$store.json"
	kill -USR1 "$daemon_pid"
	sleep 1
	ok "$kind: status on SIGUSR1" grep -q '"state": "active"' "/run/lsmem/$store.json"
	verify "$kind: all there"
	stop
	is "$kind: shutdown drains" "$status" 0
	ok "$kind: nothing lags" grep -q '"lag_bytes": 0,' "/run/lsmem/$store.json"
	sed 's/^/# /' "/run/lsmem/$store.json"
	ok "$kind: resumes" start resume
	verify "$kind: all there after a restart"
	[ "$kind" = block ] || parked_test "$kind"

	load $((kills * 3 + 3))
	for ((i = 0; i < kills; i++)); do
		nap $((RANDOM % 3))
		slay
		nap $((RANDOM % 2))
		start "kill $i" || break
	done
	is "$kind: restarted after each SIGKILL" "$i" "$kills"
	wait "$load_pid"
	is "$kind: load, the daemon killed meanwhile" "$?" 0
	sed 's/^/# /' "$scratch/load"
	verify "$kind: all there after SIGKILLs"
	load 4
	nap 1
	stop
	is "$kind: shutdown under load" "$status" 0
	ok "$kind: resumes under load" start "resume under load"
	wait "$load_pid"
	is "$kind: load, the daemon stopped meanwhile" "$?" 0
	stop
	is "$kind: shutdown after SIGKILLs" "$status" 0
	ok "$kind: live bitmap as the handle table" until_true 10 livemap
	run "$ctl" destroy "$store"
	is "$kind: drained, so it can be destroyed" "$status" 0
	ok "$kind: recovers after SIGKILLs" start recovery
	verify "$kind: all there from the backup"

	for ((i = 0; i < losses; i++)); do
		load 60
		nap $((RANDOM % 2 + 1))
		# A block write that waits for its daemon outlives its process, up to the bound of
		# the wait: stop the writers of a block store first.
		if [ "$kind" = object ] && ((i % 2)); then
			slay
			slay_load
		else
			slay_load
			slay
		fi
		run "$ctl" destroy --force "$store"
		is "$kind: loss $i: the memory is lost" "$status" 0
		ok "$kind: loss $i: recovers" start "loss $i" || break
		verify "$kind: loss $i: all that was acknowledged"
		is "$kind: loss $i: told in the metrics" \
			"$(figure 'lsmem_recovery_progress_ratio{.*}')" 1.0000
		run grep -o '"recovered_objects": [0-9]*' "/run/lsmem/$store.json"
		sed 's/^/# /' "$scratch/out"
	done
	stop
	is "$kind: the end" "$status" 0
	run "$ctl" destroy "$store"
	is "$kind: destroyed" "$status" 0
}

for kind in $wanted; do
	case $kind in
	object) kind_test object lsmem "${SLOTS:-40000}" ;;
	block) kind_test block lsmemb0 20000 ;;
	*) echo "Bail out! $kind: object or block"; exit 2 ;;
	esac
done
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log"
tap_end
