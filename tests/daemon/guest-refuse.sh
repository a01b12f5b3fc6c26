#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# lsmemd with the module: it refuses stores, backups and configurations that do not belong together.
# In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-refuse.sh
. "$(dirname "$0")/guest-lib.sh"

stores() { ls /sys/class/lsmem 2>/dev/null | tr '\n' ' '; }

dd if=/dev/zero of=$drive bs=1M count=2 status=none
dd if=/dev/zero of=$other bs=1M count=2 status=none

# ---- Before there is a store ----------------------------------------------
configure $drive 'size = 520M\n'
refuses 'a backup that is too small' 5 'are needed' --init
is 'nothing is left of a start that failed' "$(stores)" ''
mkfs.ext4 -q -F $drive
configure $drive 'size = 128M\n'
refuses 'a filesystem on the backup' 5 '--format --force'
refuses 'a filesystem on the backup, --format alone' 5 '--format --force' --format
mkdir -p "$scratch/mnt"
mount $drive "$scratch/mnt"
configure $drive 'size = 128M\n' 'lock_wait = 1\n'
refuses 'a mounted backup' 4 'held by another process' --format --force
umount "$scratch/mnt"
configure $drive 'size = 128M\nnode = lsmem7\n'
refuses 'an unsuitable node name' 5 'node = lsmem7' --format --force
is 'an unsuitable node name: no store is left' "$(stores)" ''

# Record the messages to the service manager, and the state of the store at each.
notify=$scratch/notify
python3 -u -c '
import socket, os, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
open(sys.argv[1] + ".bound", "w")
while True:
    text = s.recv(4096).decode()
    state = open("/sys/class/lsmem/lsmem/state").read().strip() if os.path.exists("/sys/class/lsmem/lsmem") else "none"
    print(text.replace("\n", " "), "state", state, flush=True)
' "$notify" >"$scratch/notified" &
listener=$!
for i in $(seq 50); do [ -e "$notify.bound" ] && break; sleep 0.1; done

# ---- An empty store never stands in for a missing one ------------------------
forget
: >"$log"
mark
dd if=/dev/zero of=$drive bs=1M count=2 status=none
record=$STATE_DIRECTORY/lsmemd.store
recorded() { sed -n "s/^$1 = //p" "$record"; }
is_blank() { cmp -s -n 8192 "$1" /dev/zero; }
configure $drive 'size = 128M\n'
refuses 'a blank backup at the first start' 5 'with --init'
ok 'a blank backup at the first start: stays blank' is_blank $drive
ok 'a blank backup at the first start: not recorded' [ ! -e "$record" ]
configure "$scratch/mnt/backup" 'size = 128M\n' 'size = 320M\n'
refuses 'a file that is missing at the first start' 1 'lsmemd --init creates a file'
is 'a file that is missing at the first start: stays missing' "$(ls "$scratch/mnt")" ''
mkfs.ext4 -q -F $other
mount $other "$scratch/mnt"
status=0
"$lsmemd" -c "$conf" --init 2>"$scratch/err" || status=$?
is 'first use' "$status" 0
ok 'first use: the message tells the next step' grep -q 'start lsmemd without --init' "$scratch/err"
is 'first use: recorded' "$(recorded state), $(recorded backups)" "ready, $scratch/mnt/backup"
is 'first use: no store is left' "$(stores)" ''
uuid=$(recorded uuid)
refuses 'a second --init' 5 "records store $uuid" --init
ok 'first start' start first
is 'the store that is recorded' "$(cat /sys/class/lsmem/lsmem/uuid)" "$uuid"
load 2
wait "$load_pid"
stop
run "$ctl" destroy lsmem
umount "$scratch/mnt"
refuses 'its filesystem is not mounted' 1 "records store $uuid (lsmem), last seen on $scratch/mnt/backup: mount"
refuses 'its filesystem is not mounted, --init' 5 "records store $uuid" --init
is 'its filesystem is not mounted: nothing is created' "$(ls "$scratch/mnt") $(stores)" ' '
configure $drive 'size = 128M\n'
refuses 'its drive has another name, this one is blank' 5 "records store $uuid"
ok 'its drive has another name: the blank one stays blank' is_blank $drive
mkdir "$scratch/elsewhere"
run "$lsmemd" -c "$conf" --init --state-directory "$scratch/elsewhere"
is 'a store of another configuration' "$status" 0
refuses 'its drive has another name, this one is the backup of another store' 5 'not the one that was served'
refuses 'its drive has another name: --format is refused' 5 'not the one that was served' --format
is 'its drive has another name: no store, the same record' "$(stores)$(recorded uuid)" "$uuid"
dd if=/dev/zero of=$drive bs=1M count=2 status=none
# With "wait", or under a service manager, lsmemd waits for a missing backup, and for nothing else.
configure "$scratch/mnt/backup" 'wait = 1\n' 'size = 320M\n'
refuses 'wait = 1' 1 "waiting for $scratch/mnt/backup: No such file"
configure $drive 'wait = forever\n'
refuses 'a blank drive is not waited for' 5 "records store $uuid"
configure "$scratch/mnt/backup" '' 'size = 320M\n'
NOTIFY_SOCKET=$notify launch
ok 'under a service manager: waits' until_true 30 since "waiting for $scratch/mnt/backup: No such file"
ok 'under a service manager: notifies it' grep -q "STATUS=Waiting for $scratch/mnt/backup: No such" "$scratch/notified"
ok 'under a service manager: the status names the store' since "records store $uuid"
stop
is 'under a service manager: can be stopped' "$status" 0
configure "$scratch/mnt/backup" 'wait = forever\n' 'size = 320M\n'
mark
launch
ok 'wait = forever: waits' until_true 30 since "waiting for $scratch/mnt/backup: No such file"
mount $other "$scratch/mnt"
ok 'wait = forever: serves the store when the backup is there' serves wait
verify 'its filesystem is mounted: all there'
stop
run "$ctl" destroy lsmem
# Interrupted after the formatting, and before.
sed -i 's/^state = .*/state = formatting/' "$record"
run "$lsmemd" -c "$conf" --init
is 'a formatting that was cut off at its end is ended' "$status $(recorded state) $(recorded uuid)" "0 ready $uuid"
ok 'a formatting that was cut off at its end: nothing is lost' start ended
verify 'which loses nothing: all there'
stop
run "$ctl" destroy lsmem
umount "$scratch/mnt"
sed -i 's/^state = .*/state = formatting/' "$record"
configure $drive 'size = 128M\n'
refuses 'a formatting that was cut off' 5 'was cut off: start lsmemd --init again'
run "$lsmemd" -c "$conf" --init
is 'a formatting that was cut off is repeated' "$status $(recorded state)" '0 ready'
echo nonsense >"$record"
refuses 'an invalid record' 5 'is not a record'
forget
dd if=/dev/zero of=$other bs=1M count=2 status=none
rm -f "$model"

# ---- A store, and things that do not belong to it --------------------------
configure $drive 'size = 128M\nmode = 0640\nowner = nobody\n'
printf '[metrics]\nlisten = 127.0.0.1:9469\n' >>"$conf"
# Another program has the port of the metrics for a while.
python3 -u -c '
import socket, time
s = socket.create_server(("127.0.0.1", 9469))
time.sleep(1000)
' &
holder=$!
until_true 20 eval '(exec 3<>/dev/tcp/127.0.0.1/9469) 2>"$scratch/err"'
# lsmemd sends READY=1 when the store is active, not before.
export NOTIFY_SOCKET=$notify
export WATCHDOG_USEC=2000000
ok 'active' start first --format --force
load 3
wait "$load_pid"
is 'load' "$?" 0
ok 'metrics: the port is in use: reported' said 'serving without metrics' "$log"
# answers PORT: does the port serve metrics?
answers()
{
	python3 -c 'import sys, urllib.request
sys.exit(b"lsmem" not in urllib.request.urlopen(sys.argv[1], timeout=5).read())' \
		"http://127.0.0.1:$1/metrics" 2>"$scratch/err"
}
kill $holder
wait $holder 2>/dev/null
ok 'metrics: the port is free: served' until_true 15 answers 9469

# ---- SIGHUP --------------------------------------------------------------------
cp "$conf" "$scratch/before.conf"
sed -i 's/^size = 128M/size = 256M\nrejoin = 7/; s/9469/9470/' "$conf"
mark
kill -HUP "$daemon_pid"
ok 'SIGHUP: the file is read again' until_true 15 since 'read again; settings that keep their old value: 1'
ok 'SIGHUP: what can change does' since ':3: \[store\] rejoin: changed'
ok 'SIGHUP: what cannot is named' since ':2: \[store\] size: cannot change'
ok 'SIGHUP: metrics at the new port' answers 9470
ok 'SIGHUP: and not at the old one' eval '! answers 9469'
ok 'SIGHUP: the manager is told' until_true 5 grep -q '^RELOADING=1 MONOTONIC_USEC=[0-9]' "$scratch/notified"
ok 'SIGHUP: and READY afterwards' until_true 5 eval 'grep -A9 "^RELOADING=1" "$scratch/notified" | grep -q "^READY=1"'
mark
echo 'nonsense' >>"$conf"
kill -HUP "$daemon_pid"
ok 'SIGHUP: a file with an error changes nothing' until_true 15 since 'nothing is changed'
ok 'SIGHUP: the daemon goes on' kill -0 "$daemon_pid"
sed '/^\[metrics\]/,$d' "$scratch/before.conf" >"$conf"
unset NOTIFY_SOCKET WATCHDOG_USEC
ok 'READY when active' grep -q '^READY=1 .* state active$' "$scratch/notified"
ok 'never READY before' bash -c "! grep READY=1 '$scratch/notified' | grep -qv 'state active'"
ok 'the watchdog is fed' grep -q '^WATCHDOG=1' "$scratch/notified"
is 'mode and owner of the node' "$(stat -c '%a %U' /dev/lsmem)" '640 nobody'
ok 'protected from the OOM killer' grep -qx -- -1000 "/proc/$daemon_pid/oom_score_adj"
ok 'locked in memory' bash -c "[ \$(awk '/VmLck/ { print \$2 }' /proc/$daemon_pid/status) -gt 1000 ]"

cp "$conf" "$scratch/first.conf"
configure $drive 'size = 128M\n' 'lock_wait = 1\n'
refuses 'a second daemon on the backup' 4 'held by another process'
configure $other 'node = lsmem\nsize = 128M\n'
refuses 'a second daemon for the store' 4 'another lsmemd serves it' --format
slay
refuses 'an active store, a blank backup, by node' 5 'never stands for an active store' --format
configure $other 'size = 128M\n'
refuses 'an active store without daemon, a blank backup' 5 'no daemon serves it' --format
is 'no other store is made' "$(stores)" 'lsmem '
configure $drive 'size = 128M\n'
refuses 'formatting the backup of an active store' 5 'is active in the kernel' --format --force
for text in 'size = 136M' 'handles = 5' 'kind = block'; do
	configure $drive "$text\n"
	refuses "$text, and the backup says otherwise" 2 "^<3>$conf:2: ${text%%=*}"
done
cp "$scratch/first.conf" "$conf"
ok 'resumes' start resume
verify 'all there after the refusals'
slay

# The backup of another store for an active store.
run "$ctl" destroy --force lsmem
configure $other 'size = 128M\n'
forget
ok 'another store' start other --init
stop
forget
configure $drive 'node = lsmem\n'
refuses 'an active store, the backup of another' 5 'is the backup of another store'
run "$ctl" destroy lsmem
is 'the other store is destroyed' "$status" 0

# An empty store never replaces a full backup: it gets the contents of the backup. All segments of the backup
# can hold some: LSMEM_CTL_CREATE without a number of segments makes a store for the least.
cp "$scratch/first.conf" "$conf"
python3 - >"$scratch/made" <<'EOF'
import fcntl, struct
create = struct.Struct("4I2Q2I32s2IQ")
with open("/dev/lsmem-control") as control:
    number = 3 << 30 | create.size << 16 | ord("L") << 8 | 0xd0
    made = fcntl.ioctl(control, number, create.pack(create.size, 1, 1, 0, 128 << 20, 0, 0, 0, b"", 0, 0, 0))
print(create.unpack(made)[8].rstrip(b"\0").decode())
EOF
is 'an empty store for few segments' "$(cat "$scratch/made") $(cat /sys/class/lsmem/lsmem/segments_max)" 'lsmem 30'
configure $drive 'node = lsmem\n'
refuses 'an empty store for few segments, and a full backup' 5 'its log can have 30 segments; that of the store on'
is 'an empty store for few segments: stays empty' "$(cat /sys/class/lsmem/lsmem/state)" new
run "$ctl" destroy lsmem
run "$ctl" create --durable --size 128M
is 'an empty store' "$(cat /sys/class/lsmem/lsmem/state)" new
configure $drive 'node = lsmem\n'
ok 'an empty store and a full backup: recovers' start full
verify 'an empty store and a full backup: all there'
ok 'a recovery is in the status file' grep -q '"recovered": true' /run/lsmem/lsmem.json

# A backup on lsmem itself.
configure $other 'kind = block\nsize = 128M\n'
"$lsmemd" -c "$conf" --format --force 2>>"$log" &
block_pid=$!
for i in $(seq 100); do [ -b /dev/lsmemb0 ] && break; sleep 0.1; done
configure /dev/lsmemb0 'size = 128M\n'
refuses 'a backup on lsmem' 5 'lies on /dev/lsmemb0' --format --force
mkfs.ext4 -q -F /dev/lsmemb0 && mount /dev/lsmemb0 "$scratch/mnt"
configure "$scratch/mnt/backup" 'size = 128M\n' 'size = 512M\n'
refuses 'a file on a filesystem on lsmem' 5 'lies on /dev/lsmemb0' --format
modprobe loop
truncate -s 64M "$scratch/mnt/image"
loop=$(losetup -f --show "$scratch/mnt/image")
configure "$loop" 'size = 128M\n'
refuses 'a loop device on a filesystem on lsmem' 5 'lies on /dev/lsmemb0' --format --force
udevadm settle --timeout=30 2>/dev/null	# a rule that reads the device meanwhile would fail
losetup -d "$loop"

# A filesystem on a store whose daemon is killed and started again.
dd if=/dev/urandom of="$scratch/random" bs=1M count=20 status=none
(cp "$scratch/random" "$scratch/mnt/random" && sync "$scratch/mnt/random") &
copy=$!
sleep 0.5
kill -KILL $block_pid
wait $block_pid 2>/dev/null
sleep 0.5
configure $other 'kind = block\n'
"$lsmemd" -c "$conf" 2>>"$log" &
block_pid=$!
wait $copy
is 'a filesystem lives through SIGKILL' "$?" 0
ok 'its files are whole' cmp "$scratch/random" "$scratch/mnt/random"
umount "$scratch/mnt"
kill -TERM $block_pid
wait $block_pid
is 'its daemon drains' "$?" 0
run "$ctl" destroy lsmemb0
configure $other 'kind = block\n'
"$lsmemd" -c "$conf" 2>>"$log" &
block_pid=$!
for i in $(seq 100); do [ -b /dev/lsmemb0 ] && break; sleep 0.1; done
ok 'the filesystem comes back from the backup' mount /dev/lsmemb0 "$scratch/mnt"
ok 'with its files' cmp "$scratch/random" "$scratch/mnt/random"
umount "$scratch/mnt"
run fsck.ext4 -fn /dev/lsmemb0
is 'and is sound' "$status" 0
kill -TERM $block_pid
wait $block_pid
run "$ctl" destroy lsmemb0
is 'the block store is destroyed' "$status" 0

# SIGTERM before the store is active leaves nothing.
stop
run "$ctl" destroy lsmem
is 'the object store is destroyed' "$status" 0
forget
configure $drive ''
"$lsmemd" -c "$conf" 2>>"$log" &
pid=$!
# Wait until the process is lsmemd: the shell before its exec would lose the signal.
for ((i = 0; i < 1000; i++)); do
	[ "$(readlink /proc/$pid/exe)" = "$lsmemd" ] && break
done
kill -TERM $pid
wait $pid
status=$?
ok 'stopped early' [ "$status" -eq 0 -o "$status" -eq 143 ]
is 'stopped early: nothing is left' "$(stores)" ''

kill $listener
rmmod lsmem
is 'the module can be unloaded' "$?" 0
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log"
tap_end
