#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# libmemcached against lsmemcached: its tools, as Debian has them (memccapable, memcslap, memcp and others), and those of
# its own tests that apply (cached/libmemcached), which make -C tests/guest libmemcached has built; where that was tried, they
# have to be there.  A third of them, by the seed; all with LSMEM_SCALE=300, and in a short run (below 100) two.
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$top/tests/guest/cached-lib.sh"
tests=$top/tests/guest/build/libmemcached
address=127.0.0.1:11311

tool()
{
	timeout 120 "$@" --servers=$address
}

# said WANTED COMMAND ..: it succeeds, and prints this
said()
{
	local wanted=$1

	shift
	[ "$("$@" 2>"$scratch/err")" = "$wanted" ]
}

# load TEST THREADS NR: the server has counted as many commands as memcslap's threads have sent
load()
{
	local test=$1 threads=$2 nr=$3 counter=cmd_get before after

	[ "$test" != set ] || counter=cmd_set
	before=$(stat_tcp $counter)
	tool memcslap --test="$test" --concurrency="$threads" --execute-number="$nr" || return 1
	after=$(stat_tcp $counter)
	echo "$counter: $before, then $after"
	[ $((after - before)) -ge $((threads * nr)) ]
}

stat_tcp()
{
	tool memcstat | awk -v name="$1:" '$1 == name { print $2 }'
}

# noop: what comes after the binary protocol's command noop, and whether the server closes the connection
noop()
{
	timeout 20 bash -c "exec 3<>/dev/tcp/${address/://}; printf '\\200\\012%022d' 0 >&3; wc -c <&3" >"$scratch/noop" &&
		echo "closed $(cat "$scratch/noop")"
}

gone()
{
	timeout 20 bash -c "while memcexist --servers=$address $1; do sleep 0.1; done"
}

# checked: memaslap gets what it has set, and compares all of it.  It overwrites nothing: then it takes new values for
# wrong, memcached's, too
checked()
{
	# Its own defaults: without a file it writes them to the home of root, which is read-only.
	printf 'key\n64 64 1\nvalue\n1024 1024 1\ncmd\n0 0.1\n1 0.9\n' >"$scratch/memaslap.cnf"
	timeout 120 memcaslap -s $address -T 1 -c 16 -x $((100 * scale)) -v 1 -X 1000 -F "$scratch/memaslap.cnf" \
		>"$scratch/checked" 2>&1
	cat "$scratch/checked"
	[ "$(grep -c -e '^get_misses: 0$' -e '^verify_misses: 0$' -e '^verify_failed: 0$' "$scratch/checked")" = 3 ]
}

# library_test NAME SECTION: a test of libmemcached, or one section of it, a path
library_test()
{
	local sections

	mapfile -t -d / sections < <(printf %s "${2-}")
	(
		cd "$scratch/run" || exit 1
		echo 0 >tables
		export LSMEM_CACHED=$cached LSMEM_STORE=/dev/$store MEMCACHED_BINARY=$top/tests/guest/cached/memcached-debug
		timeout 120 "$tests/test/runtests" "$1" "${sections[@]/#/--section=}"
	)
}

if type memccapable memcslap memcaslap >/dev/null 2>&1; then
	store_create --size 256M
	ok 'the server starts' listen_start 11311
	ok 'memccapable finds all of the text protocol' timeout 120 memccapable -a -h 127.0.0.1 -p 11311
	ok 'with 20 results or more' [ "$(grep -c '\[pass\]' "$scratch/said")" -ge 20 ]
	is 'a client that speaks the binary protocol is disconnected' "$(noop)" 'closed 0'
	ok 'memcflush' tool memcflush
	head -c 3000 /dev/urandom | base64 >"$scratch/one"
	head -c 300000 /dev/urandom | base64 >"$scratch/two"
	ok 'memccp' tool memccp --flags=7 "$scratch/one" "$scratch/two"
	ok 'memccat: the first file' said "$(cat "$scratch/one")" tool memccat one
	ok 'memccat: the second' said "$(cat "$scratch/two")" tool memccat two
	is 'memccat: its flags' "$(tool memccat --flags one | head -1)" 7
	ok 'memccp --add of what is there is refused' eval '! tool memccp --add "$scratch/one"'
	is 'memcdump' "$(tool memcdump | sort | xargs)" 'one two'
	ok 'memctouch' tool memctouch --expire=1 one
	ok 'after which it expires' gone one
	ok 'memcexist' tool memcexist two
	ok 'memcrm' tool memcrm two
	ok 'after which it is gone' eval '! tool memcexist two'
	ok 'memcping' tool memcping
	ok 'memcslap sets' load set 4 $((10 * scale))
	ok 'memcslap gets' load get 4 $((10 * scale))
	ok 'memcslap gets many' load mget 4 $((10 * scale))
	ok 'memaslap compares what it gets' checked
	ok 'memcflush' tool memcflush
	is 'after which nothing is there' "$(tool memcdump)" ''
	server_end TERM
	store_destroy
else
	echo '# no tools of libmemcached: they are left out'
fi

if [ ! -e "$tests/made" ]; then
	if [ -e "$tests.wanted" ]; then
		ok 'its own tests were built' false
	else
		echo '# its own tests are left out: make -C tests/guest libmemcached builds them'
	fi
	tap_end
	exit
fi
mkdir "$scratch/run"
ip link set lo up
"$tests/test/runtests" --list-test-names-only | sort >"$scratch/names"
while read -r name; do
	awk -v name="$name" '$2 == name { found = 1 } END { exit !found }' "$top/tests/guest/cached/libmemcached" ||
		ok "cached/libmemcached names $name" false
done <"$scratch/names"
turn=$seed
while read -r mark name section; do
	[ "$mark" = + ] || continue
	turn=$((turn + 1))
	if [ "$scale" -lt 100 ]; then
		[ "$name" = memcached_cas ] || [ "$name" = bin/memcat ] || continue
	elif [ "$scale" -lt 300 ]; then
		[ $((turn % 3)) = 0 ] || continue
	fi
	store_create --size 256M
	ok "$name${section:+: $section}" library_test "$name" "$section"
	ok "$name: its store is free" store_destroy
done <"$top/tests/guest/cached/libmemcached"
tap_end
