#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# lsmemcached: a client that knows what each answer has to be (cached.py), commands of operators (cached_operate.py), logs
# (cached_watch.py), a restart, and a kill; a store that is full,
# in both modes; what is refused.  Then those of memcached's own tests that apply (cached/tests), in a short run
# (LSMEM_SCALE below 100) a few of them.
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$top/tests/guest/cached-lib.sh"
memcached=$top/tests/bench/build/memcached

# memcached_test NAME: one of memcached's own, with a store of its own
memcached_test()
{
	local ret=0

	store_create --size 256M
	(
		cd "$scratch/memcached" || exit 1
		echo 0 >tables
		# maxconns opens more connections than it may have descriptors
		ulimit -n 4096
		LSMEM_CACHED=$cached LSMEM_STORE=/dev/$store timeout 300 perl "t/$1.t"
	) || ret=$?
	# A server that its test has not waited for can have the store open for a moment
	store_destroy && return $ret
}

store_create --size 256M
ok 'the server starts' server_start
ok 'answers of all commands are those of the model' model mix $((200 * scale)) "$seed"
ok 'a hundred connections: sums are right, none is starved' model crowd $((scale / 2)) "$seed"
is 'flush_all' "$(client flush_all)" $'OK\r'
ok 'dumps have all items once, while others change them' operate dump $((50 * scale)) "$seed"
is 'flush_all' "$(client flush_all)" $'OK\r'
ok 'items are set' model fill $((20 * scale)) "$seed"
ok 'SIGTERM ends it' server_end TERM
ok 'it starts again, in store mode' server_start --mode store -t 2
ok 'the items are there' model check $((20 * scale)) "$seed"
server_end KILL
ok 'it starts again after it was killed' server_start
ok 'the items are there' model check $((20 * scale)) "$seed"
is 'flush_all' "$(client flush_all)" $'OK\r'
ok 'no item is there' model flushed $((20 * scale)) "$seed"
server_end TERM
ok 'it starts again after a flush' server_start
ok 'no item is there' model flushed $((20 * scale)) "$seed"
for tries in $(seq 100); do
	items=$(stat_of curr_items)
	[ "$items" = 0 ] && break
	sleep 0.1
done
is 'items that were flushed have been removed' "$items" 0
server_end TERM
store_destroy

store_create --size 128M
ok 'a cache starts' server_start
ok 'the crawler, the limit of memory, what is refused' operate limits 0 0
server_end TERM
ok 'a cache that obeys debugtime starts' server_start --debug-time
ok 'all connections are listed, while others come and go' operate conns $((2 * scale)) 0
server_end TERM
ok 'a cache that counts by prefix starts' server_start -D -
ok 'its counters are those of the model' model detail $((50 * scale)) "$seed"
server_end TERM
ok 'a cache starts' server_start
ok 'stats detail: what is counted, what has no room' operate prefixes 0 0
server_end TERM
ok 'a cache starts' server_start --debug-time --idle-timeout 100
ok 'watch: lines of each log, watchers that end, and one that does not read' logs
server_end TERM
ok 'a cache without watch starts' server_start -W
is 'watch' "$(client watch)" $'CLIENT_ERROR watch commands not allowed\r'
server_end TERM
ok 'a cache starts' server_start --memory 60
big=$(head -c 500000 /dev/zero | tr '\0' x)
fill_store()
{
	python3 - "$scratch/socket" <<-'PYTHON'
	import socket, sys
	client = socket.socket(socket.AF_UNIX)
	client.connect(sys.argv[1])
	answers = client.makefile("rb")
	stored = refused = 0
	for number in range(500):
	    client.sendall(b"set big%d 0 0 500000\r\n%s\r\n" % (number, b"x" * 500000))
	    line = answers.readline()
	    stored += line == b"STORED\r\n"
	    refused += line == b"SERVER_ERROR out of memory storing object\r\n"
	print(stored, refused)
	PYTHON
}
is 'a cache takes more than the store' "$(fill_store)" '500 0'
ok 'items were evicted' [ "$(stat_of evictions)" -gt 0 ]
ok 'the last item is there' grep -q VALUE <<<"$(client 'get big499')"
server_end TERM
ok 'store mode' server_start --mode store --table 2
filled=$(fill_store)
ok "a store refuses what has no room: stored, refused: $filled" [ "${filled% *}" -gt 0 -a "${filled#* }" -gt 0 -a \
	$((${filled% *} + ${filled#* })) = 500 ]
is 'no item was evicted' "$(stat_of evictions)" 0
ok 'the first item is there' grep -q VALUE <<<"$(client 'get big0')"
server_end TERM

# talk PORT LINE: sends it to 127.0.0.1, and prints the answers
talk()
{
	exec 3<>"/dev/tcp/127.0.0.1/$1"
	printf '%s\r\nquit\r\n' "$2" >&3
	timeout 60 tr -d '\r' <&3
	exec 3<&-
}
ok 'the server listens on TCP' listen_start 11312 --table 3
addresses=$(talk 11312 'stats conns' | grep -c 'addr tcp:127\.0\.0\.1:[1-9][0-9]*$')
is 'stats conns has addresses of TCP' "$addresses" 3
server_end TERM

store_destroy
store_create --size 128M
ok 'calls of the C library fail, from the start to the end' timeout 400 env LSMEM_SEED="$seed" \
	python3 "$top/tests/cached/nth.py" --preload "$top/tests/daemon/build/nth.so" --store "/dev/$store" \
	--step $((1000 / scale)) "$cached" malloc calloc
ok 'threads and timers of the C library fail' timeout 400 python3 "$top/tests/cached/nth.py" \
	--preload "$top/tests/daemon/build/nth.so" --store "/dev/$store" "$cached" pthread_create timerfd_settime

# A volatile store
refuses()
{
	"$cached" --store "/dev/$store" -s "$scratch/other" "$@" 2>&1 | grep -q "$wanted"
}
wanted='lsmemctl create --durable' ok 'durable, on a volatile store' refuses --durable
wanted='give a size' ok 'items that are too large' refuses -I 2m
wanted='give one character' ok 'a delimiter of two' refuses -D ab
wanted='there is no UDP' ok 'UDP' refuses -U 1
wanted='lsmemctl create' ok 'no store' refuses --store /dev/lsmem-none
store_destroy

# The tests of a client in Python. test_touch gives items a
# second, which with a clock of seconds, as memcached's, can be over at once. One thread: test_errors ends without
# waiting for its flush, which another thread could carry out in the midst of the next test
pymemcache=$("$python" -c 'import pytest, pymemcache.test; print(pymemcache.test.__path__[0])' 2>/dev/null)
if [ -n "$pymemcache" ]; then
	store_create --size 256M
	ok 'the server listens on TCP' listen_start 11311 -t 1
	ok 'tests of pymemcache' timeout 300 "$python" -B -m pytest -q -W ignore -p no:cacheprovider -c /dev/null \
		"$pymemcache/test_integration.py" --server 127.0.0.1 --port 11311 -k 'not test_touch'
	server_end TERM
	store_destroy
else
	echo '# no pymemcache: its tests are left out'
fi

[ -e "$memcached/made" ] || { echo "# no memcached when the tests were built: its own tests are left out"; tap_end; exit; }
mkdir "$scratch/memcached"
ln -s "$memcached/timedrun" "$here/cached/memcached-debug" "$scratch/memcached/"
cp -r "$memcached/t" "$scratch/memcached/"
# One item over the limit evicts at once in memcached; here evictions are 1 MiB at least, and cached_watch.py has them
sed -i -e 's/tests => 30;/tests => 26;/' -e '/^# test combined logs/,/^}/d' "$scratch/memcached/t/watcher.t"
for file in "$memcached"/t/*.t; do
	name=$(basename "$file" .t)
	mark=$(awk -v name="$name" '$2 == name { print $1 }' "$here/cached/tests")
	[ -n "$mark" ] || ok "cached/tests names $name.t" false
	[ "$mark" = + ] || continue
	case $scale-$name in
	100-* | *-metaget | *-cas | *-incrdecr | *-noreply | *-stats-detail) ok "$name.t" memcached_test "$name" ;;
	esac
done
tap_end
