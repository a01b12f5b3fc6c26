#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A backup on another host, within one guest: access control, a store, a second daemon,
# acknowledgements from memory.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-rdma.sh
. "$(dirname "$0")/guest-lib.sh"
. "$here/rdma-lib.sh"

# ---- Access control ----------------------------------------------------------
remote
refuses 'no server' 1 'nothing listens there'
(umask 077; head -c 32 /dev/urandom >"$key.other")
# The secret of the export "other", the last one in the file.
echo "secret = $key.other" >>"$server_conf"
ok 'the server starts' server_start
remote "$key.other"
refuses 'the secret of another export' 5 'the secrets differ'
configure "rdma://$address/other" '' "key = $key\n"
refuses 'the common secret for an export with its own' 5 'the secrets differ'
cp "$key" "$key.open"
chmod 644 "$key.open"
remote "$key.open"
refuses 'a secret that others can read' 1 'only its owner'
configure "rdma://$address/date" '' "key = $key\n"
refuses 'no such export' 1 'no export of this name'
remote
status=0
timeout 150 "$here/build/rdma" "rdma://$address/other" "$key.other" >"$scratch/out" 2>"$scratch/err" ||
	status=$?
sed 's/^/# /' "$scratch/out"
ok 'requests, fence, hostile peers (build/rdma)' [ "$status" -eq 0 ]

# ---- A store ------------------------------------------------------------------
ok 'formatted and active' start format --init
load 4
wait "$load_pid"
is 'load' "$?" 0
sed 's/^/# /' "$scratch/load"
verify 'all there'
ok 'log memory is registered' eval '! said "cannot be registered" "$log"'
grep -h 'registered' "$log" | sed 's/^/# /'
load 8
nap 1
slay
ok 'resumes after a SIGKILL' start resume
wait "$load_pid"
is 'load, the daemon killed meanwhile' "$?" 0
verify 'all there after a SIGKILL'
load 60
nap 1
slay_load
slay
run "$ctl" destroy --force "$store"
is 'the memory is lost' "$status" 0
ok 'recovers' start recovery
verify 'all that was acknowledged is on the server'"'"'s drive'
grep -h 'recovered' "$log" | tail -1 | sed 's/^/# /'
# A daemon that starts before its server.
stop
server_end TERM
sed -i 's/^\[store\]$/&\nwait = forever/' "$conf"
mark
launch
ok 'started before its server: waits' until_true 60 since "waiting for rdma://$address/data: Connection refused"
ok 'started before its server: the server starts' server_start
ok 'started before its server: serves' serves wait
verify 'started before its server: all there'

# ---- A second daemon waits, checks, takes over -------------------------------
cp "$conf" "$scratch/own.conf"
conf=$scratch/second.conf
remote "$key" 1
refuses 'a second daemon' 4 'still held by'
refuses 'a check beside it' 4 'held by another client' --check
conf=$scratch/own.conf
# When the first daemon has ended, the second finds the store in the kernel and serves it.
take_over()
{
	"$lsmemd" -c "$scratch/second.conf" --take-over -v 2>"$scratch/second.log" &
	second_pid=$!
}
fails 'fenced' 25 'another primary took it over' take_over
ok 'fenced: the second daemon has the store' said 'taking over with term' "$scratch/second.log"
kill -TERM "$second_pid"
wait "$second_pid"
verify 'fenced: its memory is readable'
ok 'fenced: the server reports it' said 'taken from' "$scratch/server.log"

# ---- Acknowledged from the server's memory -------------------------------------
conf=$scratch/own.conf
echo 'ack = memory' >>"$conf"
ok 'held again, resumes, ack = memory' start resume
# A daemon that resumes is attached before it serves.
told() { "$ctl" backups "$store" --json >"$scratch/backups" && jq -e "$1" "/run/lsmem/$store.json" >/dev/null; }
ok 'lsmemctl backups shows ack = memory' until_true 20 eval 'told . && [ "$(jq -r ".[0].ack" "$scratch/backups")" = memory ]'
load 4
nap 1
slay
ok 'ack = memory: resumes after a SIGKILL' start resume
wait "$load_pid"
is 'ack = memory: load, the daemon killed meanwhile' "$?" 0
verify 'ack = memory: all there after a SIGKILL'
# The primary fails while its last writes are only in the memory of the server.
dmsetup suspend --noflush slow
# returned: the number of operations that have returned, from struct model of load.c
returned() { od -An -t u8 -j 16 -N 8 "$model" | tr -d ' '; }
before=$(returned)
load 60
ok 'the drive is suspended: acknowledged' until_true 5 told '.memory_bytes > 0'
ok 'the drive is suspended: durable operations return' until_true 5 eval '[ "$(returned)" -gt "$before" ]'
jq .memory_bytes "/run/lsmem/$store.json" | sed 's/^/# bytes: /'
run "$ctl" sync "$store" --timeout 1
ok 'the drive is suspended: a sync waits for it' [ "$status" -ne 0 ]
slay_load
slay
run "$ctl" destroy --force "$store"
is 'the primary is lost' "$status" 0
dmsetup resume slow
ok 'recovers' start recovery
verify 'all that was acknowledged from memory is there'
load 4
wait "$load_pid"
is 'load' "$?" 0
run "$ctl" sync "$store"
is 'a sync' "$status" 0
ok 'after the sync all is on the drive' told '.memory_bytes == 0'
stop
is 'drains' "$status" 0
run "$ctl" destroy "$store"
is 'all of it is on the backup' "$status" 0
server_end TERM
is 'the server ends' "$status" 0

# ---- Two backups are closed, slowly, one after the other -----------------------
for device in "$drive" "$other"; do
	dd if=/dev/zero of="$device" bs=1M count=4 conv=fsync status=none
done
forget
ok 'the server starts, with blank drives' server_start
printf '[store]\nsize = 128M\nreplicas = 2\n' >"$conf"
printf '[backup %s]\npath = rdma://'"$address"'/%s\nkey = %s\n' one data "$key" two other "$key.other" >>"$conf"
"$lsmemd" -c "$conf" --init 2>>"$log"
ok 'two backups: active' eval 'LD_PRELOAD="$here/build/slow_close.so" MALLOC_PERTURB_=165 launch; serves two'
stop
is 'two backups: drains, and ends' "$status" 0
run "$ctl" destroy "$store"
is 'two backups: all of it is on them' "$status" 0
server_end TERM
ok 'the drive is not kept' until_true 5 dmsetup remove slow
ok 'the RDMA modules can go' soft_roce_end
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log" "$scratch/server.log"
tap_end
