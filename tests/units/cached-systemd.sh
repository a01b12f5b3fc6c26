#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The unit of lsmemcached under a systemd that is the init of its own namespaces: it is started, stopped and killed,
# and serves a port, TLS and users, and a unix socket, with no right but those that the unit leaves it.  TAP.
set -u
. "$(dirname "$(readlink -f "$0")")/../guest/lib.sh"
. "$top/tests/guest/cached-lib.sh"
. "$top/tests/common/systemd.sh"
log=$scratch/cached.log
settings=/etc/default/lsmemcached
port=11211
item='VALUE one 0 3 111 END'

# one_line: answers of the server in one line
one_line() { tr -d '\r' | xargs -d '\n'; }

# ask TEXT: the answers to commands, of which the last is quit
ask()
{
	printf '%b' "$1" | timeout 20 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; cat >&3; cat <&3" | one_line
}

# ask_tls PASSWORD: the answers to a password and a get, through TLS
ask_tls()
{
	printf 'set any 0 0 %d\r\napp %s\r\nget one\r\nquit\r\n' $((4 + ${#1})) "$1" |
		timeout 20 openssl s_client -quiet -connect "127.0.0.1:$port" -CAfile "$certificate" -verify_return_error \
			2>"$scratch/err" | one_line
}

# process FIELD: of the server, from its status
process()
{
	in_it awk -v field="$1:" '$1 == field { print $2 }' "/proc/$(property lsmemcached MainPID)/status"
}

# restart OPTION ..: with these
restart()
{
	echo "OPTIONS=\"$*\"" >"$settings"
	ctl_in restart lsmemcached
}

useradd --system --no-create-home lsmemcached
certificate=$scratch/certificate
mkdir -p /etc/lsmem "$scratch/installed"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 9 -subj /CN=localhost \
	-addext subjectAltName=IP:127.0.0.1 -keyout /etc/lsmem/cached.pem -out "$certificate" 2>"$scratch/err" &&
	cat "$certificate" >>/etc/lsmem/cached.pem || { echo 'Bail out! no certificate'; exit 1; }
echo app:secret >/etc/lsmem/cached-users
chown lsmemcached /etc/lsmem/cached.pem /etc/lsmem/cached-users
chmod 400 /etc/lsmem/cached.pem /etc/lsmem/cached-users
make -s -C "$top/tools/cached" install DESTDIR="$scratch/installed" >"$scratch/out" 2>"$scratch/err" ||
	{ echo 'Bail out! lsmemcached cannot be installed'; exit 1; }
systemd_units
mkdir "$units/lsmemcached.service.d"
unit lsmemcached.service.d/test.conf "[Service]\nStandardError=append:$log\nExecStopPost=/bin/sh -c 'echo \$SERVICE_RESULT \$EXIT_CODE \$EXIT_STATUS >&2'\n"
ip link set lo up
systemd_start
store_create --size 128M --owner lsmemcached

# ---- A port, without settings --------------------------------------------------------------------

is 'the store that the unit serves' "$store" lsmem
run ctl_in start lsmemcached
is 'started' "$status" 0
ok 'listens' port_open $port
is 'an item is set, and got' "$(ask 'set one 0 0 3\r\n111\r\nget one\r\nquit\r\n')" "STORED $item"
is 'user, capabilities, no new ones, a filter of system calls' \
	"$(process Uid) $(process CapBnd) $(process NoNewPrivs) $(process Seccomp)" \
	"$(id -u lsmemcached) 0000000000000000 1 2"
run ctl_in stop lsmemcached
is 'stopped: it has ended by itself' "$status $(cat "$log")" '0 success exited 0'
ctl_in start lsmemcached
ok 'started again' port_open $port
is 'the item is there' "$(ask 'get one\r\nquit\r\n')" "$item"
in_it kill -KILL "$(property lsmemcached MainPID)"
for tries in $(seq 100); do
	[ "$(property lsmemcached NRestarts) $(property lsmemcached SubState)" != '1 running' ] || break
	sleep 0.1
done
is 'killed: is started again' "$(property lsmemcached NRestarts)" 1
ok 'killed: listens' port_open $port
is 'killed: the item is there' "$(ask 'get one\r\nquit\r\n')" "$item"

# ---- TLS and users -------------------------------------------------------------------------------

ok 'TLS and users' restart -l 127.0.0.1 -Z --ssl-chain-cert /etc/lsmem/cached.pem -Y /etc/lsmem/cached-users
ok 'TLS and users: listens' port_open $port
is 'TLS and users: the item is there' "$(ask_tls secret)" "STORED $item"
main=$(property lsmemcached MainPID)
echo app:another >/etc/lsmem/cached-users
run ctl_in reload lsmemcached
is 'reloaded' "$status" 0
for tries in $(seq 100); do
	[ "$(ask_tls another)" != "STORED $item" ] || break
	sleep 0.1
done
is 'reloaded: the new password' "$(ask_tls another)" "STORED $item"
is 'reloaded: not the old one' "$(ask_tls secret)" \
	'CLIENT_ERROR authentication failure CLIENT_ERROR unauthenticated'
is 'reloaded: the same process' "$(property lsmemcached MainPID)" "$main"

# ---- A unix socket -------------------------------------------------------------------------------

socket=/run/lsmemcached/socket
ok 'a unix socket' restart -s "$socket"
ln -s "/proc/$(pgrep -P "$systemd_pid")/root$socket" "$scratch/socket"
ok 'a unix socket: is there' timeout 20 bash -c "until [ -S $scratch/socket ]; do sleep 0.1; done"
is 'a unix socket: the item is there' "$(client 'get one' | one_line)" "$item"
systemd_end
ok 'turned off: the server has ended, so that the store can be destroyed' store_destroy
is 'it has ended by itself each time, but when it was killed, and has said nothing' "$(uniq -c "$log" | xargs)" \
	'1 success exited 0 1 signal killed KILL 3 success exited 0'
rm "$settings" /etc/lsmem/cached.pem /etc/lsmem/cached-users
userdel lsmemcached
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log" "$scratch/systemd.log"
tap_end
