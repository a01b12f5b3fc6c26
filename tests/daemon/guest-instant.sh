#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Instant restarts of stores without a capacity, in a guest: TAP.  A store that was written by a daemon
# that loads is recovered by one that does not, with 70 % and with 93 % of its capacity live, and then by
# one that loads again; objects and a disk.  What was acknowledged is there each time.
#
# LSMEM_SCALE: below 100 without the 93 %.
#
#	qemu/run --drive backup:1G -- tests/daemon/guest-instant.sh
. "$(dirname "$0")/guest-lib.sh"
. "$here/tier-lib.sh"

# lose NAME: the daemon, the load and the memory of the store are gone
lose()
{
	slay
	[ -z "$load_pid" ] || slay_load
	load_pid=
	run "$ctl" destroy --force "$store"
	is "$1: the memory is lost" "$status" 0
}

# use KIND RESTART: configure
use() { configure "$drive" "kind = $1\nsize = 128M\nrestart = $2\n"; }

# recovers NAME: without loading
recovers()
{
	mark
	ok "$1: recovers" start "$1" || return
	ok "$1: the log says how long it took" since 'instant: active [0-9.]* s after'
	grep 'instant: active' "$log" | tail -1 | sed 's/^.*instant/# instant/'
}

# whole: of the last recovery, how many open segments were read to the ends of their frames; and all open ones
whole()
{
	sed -n 's/.* MiB read, \([0-9]*\) of \([0-9]*\) open ones to the end.*/\1 \2/p' "$log" | tail -1
}
# spares_unread: there were open segments that were not read to the end
spares_unread() { set -- $(whole); echo "# $1 of $2"; [ "$1" -ge 1 ] && [ "$1" -lt "$2" ]; }
# all_unread: none was
all_unread() { set -- $(whole); echo "# $1 of $2"; [ "$1" -eq 0 ] && [ "$2" -ge 3 ]; }

# A killed process waits for its requests of a disk for flush_ms.
few_seconds() { echo 5000 >"/sys/class/lsmem/$store/limits/flush_ms"; }

resident() { [ $(($(figure tier/cold_bytes) - $(figure tier/cached_bytes))) -lt $((1 << 20)) ]; }

load_pid=
for kind in object block; do
	slots=40000
	[ $kind = object ] || slots=19000	# of 27904: when fuller, not all has room in memory (status.rst)
	[ $kind = object ] || store=lsmemb0
	use $kind load
	ok "$kind: formatted and active" start format --format --force
	ok "$kind: without a tier" [ ! -e "/sys/class/lsmem/$store/tier/cold_bytes" ]
	capacity=$(figure capacity_bytes)
	if [ $kind = object ]; then
		objects "$kind: filled to 70 %" fill 70 $slots
	else
		few_seconds
		load 10
		nap 4
	fi
	lose "$kind"
	use $kind instant
	recovers "$kind: first"
	is "$kind: it admits what it did" "$(figure capacity_bytes)" "$capacity"
	ok "$kind: all comes into memory" until_true 60 resident
	tier
	verify "$kind: all there"
	is "$kind: nothing has left memory" "$(figure tier/evicted)" 0
	few_seconds
	load 60
	nap 3
	lose "$kind: under load"
	recovers "$kind: after the load"
	ok "$kind: after the load: of the spares only the next was read to the end" spares_unread
	verify "$kind: after the load: all that was acknowledged"
	if [ $kind = object ] && [ "${LSMEM_SCALE:-100}" -ge 100 ]; then	# --ci has no time for it
		objects 'filled to 93 %' fill 93 200000
		objects 'overwritten' overwrite 20
		tier
		lose 'full'
		recovers 'full'
		verify 'full: all there'
		tier
		objects 'full: overwritten' overwrite 20
		tier
		verify 'full: all there after that'
	fi
	is "$kind: no fetch has failed" "$(figure tier/fetch_failures)" 0
	load 60
	nap 2
	slay_load
	stop
	is "$kind: drains under load" "$status" 0
	run "$ctl" destroy --force "$store"
	load_pid=
	recovers "$kind: after a stop"
	ok "$kind: after a stop: no open segment was read to the end" all_unread
	verify "$kind: after a stop: all that was acknowledged"
	drained "$kind: "
	use $kind load
	ok "$kind: loads again" start again
	ok "$kind: without a tier again" [ ! -e "/sys/class/lsmem/$store/tier/cold_bytes" ]
	verify "$kind: all there, loaded"
	stop
	run "$ctl" destroy "$store"
	is "$kind: destroyed" "$status" 0
	forget
	rm -f "$model"
done
[ "$failed" -eq 0 ] || tail -60 "$log" | sed 's/^/# /'
tap_end
