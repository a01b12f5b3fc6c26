#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# All of lsmemcached with ASan and UBSan, over a table in memory: its answers and its logs, as tests/guest/cached.sh has
# them with a store.
#
#	whole.sh [PART ..]		of cached_watch.py only
top=$(dirname "$(readlink -f "$0")")/../..
. "$top/tests/common/tap.sh"
. "$top/tests/guest/cached-lib.sh"
cached=${LSMEM_CACHED:-$top/tests/cached/build/whole} store=32
export ASAN_OPTIONS=quarantine_size_mb=32

if [ $# = 0 ]; then
	ok 'a server starts' server_start
	ok 'answers of all commands are those of the model' model mix 3000 "$seed"
	ok 'it ends' server_end TERM
fi
for part in ${*:-lines events ends slow evicted}; do
	ok 'a server starts' server_start --debug-time --idle-timeout 100
	ok "watch: $part" logs "$part"
	ok 'it ends' server_end TERM
done
tap_end
