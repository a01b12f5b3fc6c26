#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The units of lsmemd under a systemd that is the init of its own namespaces: the daemon of a store
# is started, restarted, reloaded and killed. When the system is turned off, the filesystem on the
# store is unmounted first; then the daemon drains and ends; then the network and the mount of its
# backup go.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-systemd.sh
. "$(dirname "$0")/guest-lib.sh"
. "$top/tests/common/systemd.sh"

store=lsmemb0
order=$scratch/order
mkdir -p "$scratch/installed" "$scratch/backups" "$scratch/data" /etc/lsmem
make -s -C "$top/daemon" install DESTDIR="$scratch/installed" >"$scratch/out" 2>"$scratch/err" ||
	{ echo 'Bail out! lsmemd cannot be installed'; exit 1; }
rules=/run/udev/rules.d/60-lsmem.rules
mkdir -p "${rules%/*}"
cp "$scratch/installed/usr/lib/udev/rules.d/60-lsmem.rules" "$rules"
udevadm control --reload

# ---- Units, ours and those of the system that they are ordered by ----------------------------

systemd_units
unit network.service "[Unit]\nBefore=network.target\nWants=network.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\nExecStop=/bin/sh -c 'echo network >>$order'\n"
mkfs.ext4 -q -F "$other"
escaped() { systemd-escape --path "$1"; }
unit "$(escaped "$scratch/backups").mount" "[Unit]\n[Mount]\nWhat=$(realpath "$other")\nWhere=$scratch/backups\nType=ext4\n"
# As the generator makes it from the line in fstab that the admin guide shows.
unit "$(escaped "$scratch/data").mount" "[Unit]\nAfter=lsmemd@data.service remote-fs-pre.target network.target network-online.target\nBefore=remote-fs.target\n[Mount]\nWhat=/dev/lsmem-by-name/data\nWhere=$scratch/data\nType=ext4\nOptions=_netdev\n"
# Settings of an administrator; the log; and a record of the state when the daemon has ended.
mkdir "$units/lsmemd@data.service.d" "$units/lsmemd-server.service.d"
unit lsmemd@data.service.d/test.conf "[Unit]\nRequiresMountsFor=$scratch/backups\nWants=network.service\n[Service]\nStandardError=append:$log\nExecStopPost=/bin/sh -c 'echo lsmemd \$SERVICE_RESULT \$(grep -c \" $scratch/data \" /proc/1/mounts) \$(grep -c \" $scratch/backups \" /proc/1/mounts) >>$order'\n"
unit lsmemd-server.service.d/test.conf "[Service]\nStandardError=append:$scratch/server.log\n"

systemd_start
ok 'systemd runs' true

# ---- A store -----------------------------------------------------------------------------------

printf '[store]\nkind = block\nsize = 128M\n[backup]\npath = %s/backups/data\nsize = 512M\n[metrics]\nlisten = 127.0.0.1:9469\n' \
	"$scratch" >/etc/lsmem/data.conf
unset STATE_DIRECTORY
give_up()
{
	sed 's/^/# /' "$scratch/systemd.log" "$log"
	cat /proc/"$(pgrep -P "$systemd_pid")"/status | head -5
	echo 'Bail out! see above'
	exit 1
}
ok 'what the backup lies on is mounted' ctl_in start "$(escaped "$scratch/backups").mount"
[ "$failed" -eq 0 ] || give_up
run in_it lsmemd -c /etc/lsmem/data.conf --init
is '--init' "$status" 0
run ctl_in start lsmemd@data
is 'started' "$status" 0
[ "$failed" -eq 0 ] || give_up
is 'is active when the start has returned' "$(cat /sys/class/lsmem/$store/state)" active
main=$(property lsmemd@data MainPID)
udevadm settle --timeout=20
mkfs.ext4 -q -F /dev/lsmem-by-name/data
run ctl_in start "$(escaped "$scratch/data").mount"
is 'its filesystem is mounted' "$status" 0
in_it sh -c "echo one >$scratch/data/one && sync $scratch/data/one"
printf '[store]\nkind = block\nsize = 128M\nrejoin = 7\n[backup]\npath = %s/backups/data\nsize = 512M\n' \
	"$scratch" >/etc/lsmem/data.conf
run ctl_in reload lsmemd@data
is 'reloaded' "$status" 0
ok 'reloaded: the daemon says what has changed' until_true 20 said 'metrics' "$log"
is 'reloaded: is the same process' "$(property lsmemd@data MainPID)" "$main"
# systemd starts a killed daemon again, and it resumes.
mark
in_it kill -KILL "$main"
ok 'killed: is started again' until_true 60 since 'serving'
in_it sh -c "echo two >$scratch/data/two && sync $scratch/data/two"
is 'killed: how often' "$(property lsmemd@data NRestarts)" 1
ok 'no system call was refused' eval '! grep -i "not permitted" "$log"'
cp "$log" "$scratch/first.log"

# ---- A server ------------------------------------------------------------------------------------

soft_roce 10.9.0.1
(umask 077; head -c 32 /dev/urandom >/etc/lsmem/key)
printf '[server]\nlisten = rdma://10.9.0.1\nkey = /etc/lsmem/key\n[export far]\npath = %s\n' "$drive" \
	>/etc/lsmem/server.conf
blkdiscard -z "$drive"
run ctl_in start lsmemd-server
is 'server: started' "$status" 0
printf '[store]\nsize = 128M\n[backup]\npath = rdma://10.9.0.1/far\nkey = /etc/lsmem/key\n' >/etc/lsmem/far.conf
run in_it lsmemd -c /etc/lsmem/far.conf --init
is 'server: --init of a store' "$status" 0
run ctl_in start lsmemd@far
is 'server: its store is served' "$status" 0
# The connection is lost: the daemon executes itself again, in the same unit.
far=$(property lsmemd@far MainPID)
run ctl_in restart lsmemd-server
is 'server: restarted' "$status" 0
ok 'server: its store is served again' until_true 90 eval '[ "$(property lsmemd@far SubState) $(cat /sys/class/lsmem/lsmem/attached)" = "running 1" ]'
is 'server: by the same process' "$(property lsmemd@far MainPID) $(property lsmemd@far NRestarts)" "$far 0"
run ctl_in stop lsmemd@far
is 'server: its store is drained' "$(property lsmemd@far Result) $status" 'success 0'
run "$ctl" destroy far
is 'server: and destroyed' "$status" 0
run ctl_in stop lsmemd-server
is 'server: ends' "$(property lsmemd-server Result)" success

# ---- The end ---------------------------------------------------------------------------------------

mark
: >"$order"
systemd_end
is 'turned off: the daemon, its filesystem gone, its backup there, then the network' \
	"$(xargs <"$order")" 'lsmemd success 0 1 network'
ok 'turned off: drained' since 'all that was committed is on'
run "$ctl" destroy --json "$store"
is 'turned off: so that the store can be destroyed' "$status" 0
soft_roce_end
rm "$rules"
udevadm control --reload
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log" "$scratch/systemd.log" "$scratch/server.log" "$order"
tap_end
