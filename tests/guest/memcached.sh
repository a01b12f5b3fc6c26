#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Debian's memcached with tests/bench/ssdalloc/memcached.patch, whose items are in a pool with a page buffer
# that holds a fraction of them: values are right after sets, gets and deletes, and memcached's own tests pass.
# And how many lines the patch changes.
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
here=$(dirname "$(readlink -f "$0")")
bench=$top/tests/bench
memcached=$bench/build/memcached

MOST=21		# lines that the patch changes: as many as SSDAlloc changed
items=$((40 * ${LSMEM_SCALE:-100}))
seed=${LSMEM_SEED:-$RANDOM}
[ -e "$memcached/made" ] || { echo "1..0 # SKIP no memcached when the tests were built"; exit 0; }
echo "# seed $seed"

changed()
{
	awk '/^@@/ { within = 1; next } within && /^[-+].*[^[:space:]]/ { lines++ } END { print lines + 0 }' \
		"$bench/ssdalloc/memcached.patch"
}

# as_client: the server on the socket ends with the client
as_client()
{
	local server ret=0

	"$memcached/memcached-debug" -u root -s "$scratch/socket" -m 64 &
	server=$!
	timeout 120 python3 "$here/memcached.py" "$scratch/socket" "$items" "$seed" || ret=$?
	kill $server && wait $server
	[ $? = 0 ] && return $ret
}

lines=$(changed)
ok "$lines lines are changed, $MOST at most" [ "$lines" -gt 0 -a "$lines" -le $MOST ]
store_create --size 192M
handles=$(value handles_used)
before=$(value stats/appended_bytes)
export LSMEM_STORE=/dev/$store LSMEM_BUFFER=1048576
run as_client
is 'the client and the server: exit status' "$status" 0
sed 's/^/# /' "$scratch/err"
# What the client has told
hits=0 misses=0 evictions=none bytes=0 held=0
while read -r name number; do
	case $name in
	hits) hits=$number ;;
	misses) misses=$number ;;
	evictions) evictions=$number ;;
	bytes) bytes=$number ;;
	items) held=$number ;;
	esac
done <"$scratch/out"
ok 'items were read' [ "$hits" -gt 0 ]
ok 'deleted items were not there' [ "$misses" -gt 0 ]
is 'no item was evicted' "$evictions" 0
ok "all items together ($bytes bytes) are more than the page buffer" [ "$bytes" -gt $LSMEM_BUFFER ]
ok 'they are in the store' [ "$(value stats/appended_bytes)" -ge $((before + bytes)) ]
ok "and are objects, $held at least" [ "$(value handles_used)" -ge $((handles + held)) ]

# memcached's own tests
cd "$memcached" || exit 1
for name in evictions incrdecr; do
	ok "$name.t" perl "t/$name.t"
done
ok 'no store, no server' eval '! LSMEM_STORE=/dev/null timeout 20 ./memcached -u root -s "$scratch/none"'
cd /
ok 'the store is free' store_destroy
tap_end
