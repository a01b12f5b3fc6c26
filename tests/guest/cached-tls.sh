#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# lsmemcached with TLS and with a file of users: the client that knows all answers (cached.py), through TLS; pymemcache
# with a context of TLS; clients that are refused; certificates and users that are read again.
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$top/tests/guest/cached-lib.sh"
keys=$scratch/keys
port=11411
tunnel=
silent=

# certificate NAME [CA]: a key and a certificate in $keys/NAME.pem, signed by itself or by CA
certificate()
{
	local name=$1 ca=${2-}

	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 9 -subj "/CN=$name" \
		-addext subjectAltName=DNS:localhost,IP:127.0.0.1 ${ca:+-CA "$keys/$ca.pem" -CAkey "$keys/$ca.pem"} \
		${ca:+-addext basicConstraints=critical,CA:false} -keyout "$keys/key" -out "$keys/cert" 2>"$scratch/err" &&
		cat "$keys/key" "$keys/cert" >"$keys/$name.pem"
}

# tunnel_start CERTIFICATE ..: $scratch/socket leads to the server, through TLS
tunnel_start()
{
	rm -f "$scratch/socket"
	python3 "$here/cached_tls.py" "$scratch/socket" $port "$keys/ca.pem" "$@" 2>"$scratch/tunnel" &
	tunnel=$!
	timeout 30 bash -c "until [ -S $scratch/socket ]; do sleep 0.05; done"
}

tunnel_end()
{
	kill $tunnel
	wait $tunnel 2>/dev/null
}

# client_of CERTIFICATE ..: the answer to version, with these, or none
client_of()
{
	local answer

	tunnel_start "$@"
	answer=$(client version)
	tunnel_end
	echo "$answer"
}

# served_name: the name in the server's certificate
served_name()
{
	openssl s_client -connect 127.0.0.1:$port -CAfile "$keys/ca.pem" </dev/null 2>/dev/null |
		sed -n 's/^subject=CN = //p'
}

# refuses WANTED OPTION ..: the server does not start, and says so
refuses()
{
	local wanted=$1

	shift
	timeout 20 "$cached" --store "/dev/$store" -p $port "$@" 2>&1 | grep -q -e "$wanted"
}

# silent_start WHERE: a connection to a port, or a socket, on which nothing is sent; $silent ends when the server closes it
silent_start()
{
	python3 - "$1" "$scratch/silent" <<-'PYTHON' &
	import socket, sys
	client = socket.socket(socket.AF_UNIX) if sys.argv[1][0] == "/" else socket.socket()
	client.settimeout(100)
	client.connect(sys.argv[1] if sys.argv[1][0] == "/" else ("127.0.0.1", int(sys.argv[1])))
	open(sys.argv[2], "w").close()
	sys.exit(client.recv(1) != b"")
	PYTHON
	silent=$!
	timeout 20 bash -c "until [ -e $scratch/silent ]; do sleep 0.05; done"
	rm "$scratch/silent"
}

# plain TEXT: what a client without TLS gets
plain()
{
	printf '%b' "$1" | timeout 20 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; cat >&3; head -c 100 <&3" 2>/dev/null | tr -d '\0'
}

# talk LINE ..: sends each on one connection, when the one before is answered, and prints the answers
talk()
{
	timeout 60 perl -MSocket -e '
		socket(my $socket, PF_UNIX, SOCK_STREAM, 0);
		connect($socket, sockaddr_un(shift)) or die "$!\n";
		for (@ARGV) {
			send($socket, "$_\r\n", 0);
			sysread($socket, $_, 4096) or last;
			print;
		}' "$scratch/socket" "$@"
}

mkdir "$keys"
version='^VERSION '
ok 'certificates' eval 'certificate ca && certificate one ca && certificate two ca && certificate other'
store_create --size 256M
ok 'no certificate, no server' refuses 'need each other' -Z
ok 'certificates without TLS are refused' refuses 'need each other' --ssl-chain-cert "$keys/one.pem"
ok 'a file that is none' refuses 'ssl-chain-cert' -Z --ssl-chain-cert /dev/null
ok 'a key of another certificate' refuses 'ssl-key' -Z --ssl-chain-cert "$keys/one.pem" --ssl-key "$keys/two.pem"
ok 'TLS on a unix socket is refused' refuses 'unix socket' -Z --ssl-chain-cert "$keys/one.pem" -s "$scratch/none"

# ---- TLS -----------------------------------------------------------------------------------------

# OpenSSL would do all that it can: what is refused, the server refuses
cat >"$scratch/weak" <<-'END'
	openssl_conf = all
	[all]
	ssl_conf = ssl
	[ssl]
	system_default = weak
	[weak]
	MinProtocol = TLSv1
	CipherString = ALL@SECLEVEL=0
END
cp "$keys/one.pem" "$keys/served.pem"
OPENSSL_CONF=$scratch/weak ok 'a server with TLS' listen_start $port -Z --ssl-chain-cert "$keys/served.pem" -t 2 \
	--debug-time
ok 'a client with TLS' tunnel_start
ok 'answers of all commands are those of the model' model mix $((25 * scale)) "$seed"
ok 'items are set' model fill $((10 * scale)) "$seed"
ok 'and are there' model check $((10 * scale)) "$seed"
is 'settings' "$(client 'stats settings' | tr -d '\r' | awk '$2 == "ssl_enabled" { print $3 }')" yes
errors=$(stat_of ssl_handshake_errors)
is 'a client without TLS gets no answer' "$(plain 'version\r\n' | grep -c VERSION)" 0
is 'and is counted' "$(stat_of ssl_handshake_errors)" $((errors + 1))
ok 'TLS 1.1 is refused' eval '! OPENSSL_CONF=$scratch/weak openssl s_client -connect 127.0.0.1:$port -tls1_1 </dev/null'
ok 'TLS 1.2 is not' openssl s_client -connect 127.0.0.1:$port -tls1_2 -CAfile "$keys/ca.pem" -verify_return_error </dev/null
if "$python" -c 'import pymemcache' 2>/dev/null; then
	ok 'pymemcache' timeout 60 "$python" -B - $port "$keys/ca.pem" <<-'PYTHON'
	import ssl, sys
	from pymemcache.client.base import Client
	client = Client(("127.0.0.1", int(sys.argv[1])), tls_context=ssl.create_default_context(cafile=sys.argv[2]))
	assert client.set("key", b"x" * 500_000, noreply=False)
	assert client.get("key") == b"x" * 500_000
	assert client.incr("no", 1) is None
	assert client.delete("key", noreply=False)
	assert client.get("key") is None
	PYTHON
else
	echo '# no pymemcache'
fi
is 'the certificate' "$(served_name)" one
cp "$keys/two.pem" "$keys/served.pem"
kill -HUP $server
ok 'another, after SIGHUP' timeout 20 bash -c "$(declare -f served_name); keys=$keys port=$port scratch=$scratch
	until [ \"\$(served_name)\" = two ]; do sleep 0.1; done"
ok 'connections go on' grep -q "$version" <<<"$(client version)"
: >"$keys/served.pem"
kill -HUP $server
ok 'what is no certificate is told' timeout 20 bash -c "until grep -q ssl-chain-cert $scratch/err; do sleep 0.1; done"
is 'and the last one stays' "$(served_name)" two
silent_start $port
kicks=$(stat_of idle_kicks)
ok 'while a connection waits no thread wakes' idle
# Nothing but the bound itself wakes its thread then
is 'half a minute is nearly over' "$(client 'debugtime 26' | head -1)" $'OK\r'
ok 'a connection without a handshake is closed' wait $silent
ok 'and counted' test "$(stat_of idle_kicks)" -gt "$kicks"
is 'one with TLS goes on' "$(talk version 'debugtime 31' 'get x' version | tr -d '\r' | awk '{ print $1 }' | xargs)" 'VERSION OK END VERSION'
tunnel_end
ok 'SIGTERM ends it' server_end TERM

# ---- Certificates of clients ---------------------------------------------------------------------

ok 'a server that wants certificates' listen_start $port -Z --ssl-chain-cert "$keys/one.pem" --ssl-ca-cert "$keys/ca.pem"
ok 'a client with one is served' grep -q "$version" <<<"$(client_of "$keys/two.pem")"
is 'without one it is not' "$(client_of)" ''
is 'with one of another origin neither' "$(client_of "$keys/other.pem")" ''
server_end TERM

# ---- Users ---------------------------------------------------------------------------------------

printf 'one:secret\ntwo:a longer secret\n' >"$scratch/users"
ok 'a file that is not there' refuses 'No such file' -Y "$scratch/none"
echo nobody >"$scratch/wrong"
ok 'a line without a password' refuses 'line 1: give USER:PASSWORD' -Y "$scratch/wrong"
head -c 70000 /dev/zero | tr '\0' 'x' >"$scratch/wrong"
ok 'a file that is too large' refuses 'File too large' -Y "$scratch/wrong"
ok 'a server with users' server_start -Y "$scratch/users" -t 1 --debug-time
# as TEXT: the answers to a set with TEXT as its data, and to a get
as()
{
	client "$(printf 'set any 0 0 %d\r\n%s\r\nget x' ${#1} "$1")" | tr -d '\r' | xargs -d '\n'
}
refused='CLIENT_ERROR authentication failure CLIENT_ERROR unauthenticated'
# later SECONDS: the clock of the server is moved
later()
{
	client "$(printf 'set any 0 0 10\r\none secret\r\ndebugtime %d' "$1")" | grep -q OK
}
is 'the right password' "$(as 'one secret')" 'STORED END'
silent_start "$scratch/socket"
client quit	# the only thread looks at its connections
ok 'a connection without a password goes on' kill -0 $silent
ok 'and no thread wakes' idle
ok 'half a minute is nearly over' later 26
ok 'and it is closed' wait $silent
is 'one with a password goes on' "$(talk $'set any 0 0 10\r\none secret' 'debugtime 31' 'get x' 'get x' |
	tr -d '\r' | xargs)" 'STORED OK END END'
is 'one with blanks' "$(as 'two a longer secret')" 'STORED END'
is 'a wrong password' "$(as 'one secres')" "$refused"
is 'a part of a password' "$(as 'one secre')" "$refused"
is 'the password of another' "$(as 'one a longer secret')" "$refused"
is 'no password' "$(as 'one')" "$refused"
is 'no user' "$(as ' secret')" "$refused"
is 'an empty line' "$(as '')" "$refused"
is 'commands before' "$(client 'get x' 'mn' 'stats' 'flush_all' 'gets x y' 'mg x v' | tr -d '\r' | uniq -c | xargs)" \
	'6 CLIENT_ERROR unauthenticated'
echo 'three:new' >"$scratch/users"
kill -HUP $server
ok 'a new file, after SIGHUP' timeout 20 bash -c "$(declare -f as client); scratch=$scratch
	until [ \"\$(as 'three new')\" = 'STORED END' ]; do sleep 0.1; done"
is 'the old one is gone' "$(as 'one secret')" "$refused"
ok 'SIGTERM ends it' server_end TERM
store_destroy
tap_end
