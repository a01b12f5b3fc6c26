#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Memory cgroups that are full while objects are fetched, in a guest: TAP.  Readers whose requests cannot
# be charged get ENOMEM, or are killed while they wait; others go on.  The daemon fetches without memory
# that is charged.  If it is killed for its cgroup, readers wait for the next daemon.
#
#	qemu/run --drive backup:1G -- tests/daemon/guest-tier-pressure.sh
. "$(dirname "$0")/guest-lib.sh"
. "$here/tier-lib.sh"
pressed=$here/build/pressed
slots=${SLOTS:-100000}
root=$scratch/cgroup
readers=$root/readers
keeper=$root/daemon
patience=60	# seconds, limits/fetch_ms

if ! { mkdir "$root" && mount -t cgroup2 none "$root" && echo +memory >"$root/cgroup.subtree_control" &&
	mkdir "$readers" "$keeper"; } 2>/dev/null; then
	echo '1..0 # SKIP no memory controller'
	exit
fi

# launch OPTION ..: as in guest-lib.sh, with the daemon in its cgroup
launch()
{
	(echo "$BASHPID" >"$keeper/cgroup.procs" && exec "$lsmemd" -c "$conf" -v "$@") 2>>"$log" &
	daemon_pid=$!
}

# outside: begin reading, in no cgroup that has a limit
outside()
{
	"$load" read "$model" "/dev/$store" 300 >"$scratch/reads" 2>&1 &
	reader_pid=$!
}

# went_on NAME: end that reading; all reads were right
went_on()
{
	kill -INT "$reader_pid"
	wait "$reader_pid"
	is "$1" "$?" 0
	sed 's/^/# /' "$scratch/reads"
	ok "$1: in time" grep -q '[1-9][0-9]* reads, .* 0 timed out' "$scratch/reads"
}

fetches_more() { [ "$(figure tier/fetches)" -gt $((fetches + 100)) ]; }
fetching() { fetches=$(figure tier/fetches) && until_true 60 fetches_more; }
requests() { [ "$(figure tier/requests)" -ge "$1" ]; }
nothing_asked() { [ "$(figure tier/requests)" -eq 0 ]; }
killed() { [ "$(sed -n 's/^oom_kill //p' "$1/memory.events")" -eq "$2" ]; }
unlimited() { echo max >"$1/memory.max"; }
over_limit() { [ "$(<"$1/memory.current")" -gt "$(<"$1/memory.max")" ]; }
hold() { kill -STOP "$daemon_pid"; }
alive() { kill -0 "$daemon_pid"; }

configure "$drive" 'kind = object\nsize = 128M\ncapacity = 256M\n'
ok 'formatted and active' start format --format --force || exit
echo $((patience * 1000)) >"/sys/class/lsmem/$store/limits/fetch_ms"
run "$load" fill "$model" "/dev/$store" 90 "$slots"
is 'filled to 90 %' "$status" 0
ok 'half of it is not in memory' [ "$(figure tier/cold_bytes)" -gt $((64 << 20)) ]
tier

outside
ok 'others fetch' fetching
run "$pressed" refused "$model" "/dev/$store" "$readers" "$daemon_pid"
sed 's/^/# /' "$scratch/out" "$scratch/err"
is 'full: reads are refused; with memory they are not' "$status" 0
kill -CONT "$daemon_pid"	# if that failed
ok 'full: no process was killed' killed "$readers" 0
ok 'full: others fetch' fetching
went_on 'full: reads of others'

outside
ok 'others fetch again' fetching
begun=$SECONDS
run "$pressed" killed "$model" "/dev/$store" "$readers" "$daemon_pid"
sed 's/^/# /' "$scratch/out" "$scratch/err"
is 'killed: by the OOM killer' "$status" 137
ok 'killed: it alone' killed "$readers" 1
ok 'killed: its threads did not wait for the daemon' [ $((SECONDS - begun)) -lt $((patience - 10)) ]
ok 'killed: its requests are left' requests 8
kill -CONT "$daemon_pid"
ok 'killed: others fetch' fetching
went_on 'killed: reads of others'
ok 'killed: no request is left' until_true 30 nothing_asked

outside
ok 'the daemon has no memory left' eval 'echo 4096 >"$keeper/memory.max" && over_limit "$keeper"'
ok 'without memory: it fetches' fetching
went_on 'without memory: reads'
run "$load" overwrite "$model" "/dev/$store" 1	# few: the kernel logs each thread that a flush cannot have
is 'without memory: writes are durable' "$status" 0
ok 'without memory: it is alive' alive
ok 'memory again' unlimited "$keeper"

outside
ok 'others fetch for the third time' fetching
echo 0 >"/proc/$daemon_pid/oom_score_adj"
hold
ok 'daemon killed: reads wait' until_true 30 requests 8
echo 4096 >"$keeper/memory.max"
status=0
wait "$daemon_pid" || status=$?
is 'daemon killed: by the OOM killer' "$status" 137
ok 'daemon killed: it alone' killed "$keeper" 1
ok 'daemon killed: reads still wait' requests 8
unlimited "$keeper"
ok 'daemon killed: the next one serves' start next
ok 'daemon killed: it fetches' fetching
went_on 'daemon killed: reads'

verify 'all there'
tier
is 'nothing has failed' "$(figure tier/fetch_failures)" 0
stop
is 'shutdown drains' "$status" 0
run "$ctl" destroy "$store"
is 'destroyed' "$status" 0
ok 'the cgroups are empty' until_true 10 rmdir "$readers" "$keeper"
umount "$root"
[ "$failed" -eq 0 ] || tail -60 "$log" | sed 's/^/# /'
tap_end
