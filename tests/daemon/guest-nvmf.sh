#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A backup in a namespace of NVMe over Fabrics, within one guest: the kernel's own target, over TCP
# (IPv6) and over RDMA (soft RoCE).  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-nvmf.sh
. "$(dirname "$0")/guest-lib.sh"
slots=${SLOTS:-2000}
address=10.99.0.1
key=$scratch/key
timeout=5

# ---- The target ---------------------------------------------------------------
modprobe -a nvme-fabrics nvmet nvmet-tcp nvmet-rdma dm-mod
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
soft_roce "$address"
target=/sys/kernel/config/nvmet
nqn=nqn.2026-11.org.example:backup
subsystem=$target/subsystems/$nqn
host=nqn.2026-11.org.example:host
echo "$host" >/etc/nvme/hostnqn
linear="0 $(blockdev --getsz "$drive") linear $(realpath "$drive") 0"
dmsetup create shaky --table "$linear"
mkdir "$target/hosts/$host" "$subsystem" "$subsystem/namespaces/1" "$target/ports/1" "$target/ports/2"
echo /dev/mapper/shaky >"$subsystem/namespaces/1/device_path"
echo 1 >"$subsystem/namespaces/1/enable"

# port NUMBER TRANSPORT FAMILY ADDRESS
port()
{
	echo "$2" >"$target/ports/$1/addr_trtype"
	echo "$3" >"$target/ports/$1/addr_adrfam"
	echo "$4" >"$target/ports/$1/addr_traddr"
	echo 4420 >"$target/ports/$1/addr_trsvcid"
}
port 1 tcp ipv6 ::1
port 2 rdma ipv4 "$address"

serve() { ln -s "$subsystem" "$target/ports/$1/subsystems/$nqn"; }
unserve() { rm "$target/ports/$1/subsystems/$nqn"; }
allow() { ln -s "$target/hosts/$host" "$subsystem/allowed_hosts/$host"; }
disallow() { rm "$subsystem/allowed_hosts/$host"; }

# ---- The host -----------------------------------------------------------------
# namespace TRANSPORT [QUERY [KEYS]]: write the configuration
namespace()
{
	local where="[::1]:4420"
	[ "$1" = tcp ] || where=$address
	configure "nvmf+$1://$where/$nqn${2-}" 'size = 128M\n' "timeout = $timeout\n${3-}"
}
connections() { grep -lx "$nqn" /sys/class/nvme/*/subsysnqn 2>/dev/null | wc -l; }
connected() { [ "$(connections)" -eq "$1" ]; }

# goes NAME SECONDS COMMAND ..: after the command the daemon fails, and no connection stays
goes()
{
	fails "$1" "$2" 'bytes at [0-9]* failed' "${@:3}"
	# When its namespace is removed, the target of Linux 6.1 forgets requests. The kernel waits for
	# their timeout before it ends the connection.
	ok "$1: the connection is over" until_true 150 connected 0
}

# ---- Access control -------------------------------------------------------------
namespace tcp
refuses 'no target' 1 'not connected'
serve 1
refuses 'a host that the target does not allow' 1 "let in this host ($host)"
allow
namespace tcp '?ns=7'
refuses 'no such namespace' 1 'no namespace 7'
ok 'none of them leaves a connection' connected 0
(umask 077; head -c 32 /dev/urandom >"$key")
namespace tcp '' "key = $key\n"
refuses 'no secret' 1 'no secret of NVMe'
if [ -e "$target/hosts/$host/dhchap_key" ]; then
	nvme gen-dhchap-key -n "$host" >"$target/hosts/$host/dhchap_key"
	nvme gen-dhchap-key -n "$host" >"$key"
	refuses 'another secret' 1 'not connected'
	cat "$target/hosts/$host/dhchap_key" >"$key"
else
	echo "DHHC-1:00:$(head -c 36 /dev/urandom | base64):" >"$key"
	refuses 'a kernel that proves no secrets' 5 'no CONFIG_NVME_HOST_AUTH'
	namespace tcp
fi
ok 'secrets: no connection is left' connected 0
nvme connect -t tcp -a ::1 -s 4420 -n "$nqn" >/dev/null
refuses 'connected already' 4 'and not by lsmemd'
ok 'that connection stays' connected 1
nvme disconnect -n "$nqn" >/dev/null
dd if=/dev/zero of=/dev/mapper/shaky bs=1M count=4 oflag=direct status=none

# ---- A store, over each transport -----------------------------------------------
ok 'tcp: formatted and active' start format --init
for transport in tcp rdma; do
	if [ "$transport" = rdma ]; then
		serve 2
		namespace rdma
		ok 'rdma: resumes what was served over tcp' start rdma
	fi
	load 3
	nap 1
	slay
	ok "$transport: resumes after a SIGKILL" start resume
	ok "$transport: over the connection that was there" connected 1
	wait "$load_pid"
	is "$transport: load, the daemon killed meanwhile" "$?" 0
	verify "$transport: all there after a SIGKILL"
	load 60
	nap 1
	slay_load
	slay
	run "$ctl" destroy --force "$store"
	is "$transport: the memory is lost" "$status" 0
	ok "$transport: recovers" start recovery
	verify "$transport: all that was acknowledged is there"
	[ "$transport" = rdma ] && break
	conf=$scratch/second.conf
	namespace tcp '' 'lock_wait = 1\n'
	refuses 'tcp: a second daemon' 4 'still held'
	conf=$scratch/lsmemd.conf
	ok 'tcp: its connection is that of the first' connected 1
	stop
	is "$transport: drains" "$status" 0
	ok "$transport: nothing stays connected" connected 0
done

# ---- The target is removed -----------------------------------------------------
goes 'rdma: the port goes' 10 unserve 2
namespace tcp
ok 'resumes over tcp' start resume
verify 'all there'
cut_off() { disallow; unserve 1; serve 1; }
goes 'cut off at the target' 10 cut_off
refuses 'it does not come back' 1 'let in this host'
allow
ok 'allowed again: resumes' start resume
verify 'let in again: all there'
disable() { echo 0 >"$subsystem/namespaces/1/enable"; }
goes 'the namespace goes' 10 disable
echo 1 >"$subsystem/namespaces/1/enable"
ok 'enabled again: resumes' start resume
verify 'enabled again: all there'
goes "the target's drive hangs" $((timeout + 10)) dmsetup suspend --noflush shaky
dmsetup resume shaky
ok 'the drive goes on: resumes' start resume
verify 'the drive goes on: all there'
stop
is 'drains' "$status" 0
run "$ctl" destroy "$store"
is 'all of it is on the backup' "$status" 0
ok 'nothing stays connected' connected 0
ok 'the modules of the host can go' modprobe -r nvme-tcp nvme-rdma nvme-fabrics
target_end()
{
	unserve 1
	disallow
	disable
	rmdir "$subsystem/namespaces/1" "$subsystem" "$target"/ports/* "$target/hosts/$host" &&
		modprobe -r nvmet-rdma nvmet-tcp nvmet && dmsetup remove shaky && soft_roce_end
}
ok 'those of the target too' target_end
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log"
tap_end
