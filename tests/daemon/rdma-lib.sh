# SPDX-License-Identifier: GPL-2.0
# Common to the guest tests of a backup on another host: daemon and server, connected by soft RoCE
# on one device.  Source after guest-lib.sh.
slots=${SLOTS:-8000}
server_conf=$scratch/server.conf
key=$scratch/key
address=10.99.0.1

soft_roce "$address"
modprobe dm-mod
dmsetup create slow --table "0 $(blockdev --getsz "$drive") linear $drive 0"

# Run the server with the capabilities of its unit only.
capabilities=$(sed -n 's/^CapabilityBoundingSet=//p' "$here/../../daemon/lsmemd-server.service" |
	       tr A-Z a-z | sed 's/ *cap_/,+/g')
server_pid=
server_start()
{
	: >"$scratch/server.log"
	(
		ulimit -l unlimited
		exec setpriv --no-new-privs --inh-caps=-all --bounding-set="-all$capabilities" \
			"$lsmemd" -c "$server_conf" -v
	) 2>>"$scratch/server.log" &
	server_pid=$!
	until_true 30 said 'serving [12] backup' "$scratch/server.log"
}
server_end()
{
	kill "-$1" "$server_pid"
	status=0
	wait "$server_pid" 2>/dev/null || status=$?
}
# serve NAME PATH ..: write the configuration of the server
serve()
{
	printf '[server]\nlisten = rdma://%s\nkey = %s\n' "$address" "$key" >"$server_conf"
	printf '[export %s]\npath = %s\n' "$@" >>"$server_conf"
}
remote() { configure "rdma://$address/data" 'size = 128M\n' "key = ${1:-$key}\nlock_wait = ${2:-60}\ntimeout = 10\n"; }

(umask 077; head -c 32 /dev/urandom >"$key")
serve data /dev/mapper/slow other "$other"
dd if=/dev/zero of="$drive" bs=1M count=4 conv=fsync status=none
