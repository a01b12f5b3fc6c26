#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A tiered store with lsmemd, in a guest: TAP.  Memory for a part of its data.  All objects are read
# back, from memory or the backup, also while the daemon is killed; half of them are overwritten, so
# that segments with cold objects are cleaned.  Then the memory of the store is lost, and recovered
# without reading its objects.
#
#	qemu/run --drive backup:2G -- tests/daemon/guest-tier.sh
#
# LOSSES, KILLS: how often.  EVERY: one of so many objects is looked at.  TIER_MIB: the capacity.
. "$(dirname "$0")/guest-lib.sh"
. "$here/tier-lib.sh"
losses=${LOSSES:-1}
kills=${KILLS:-3}
slots=${SLOTS:-200000}
every=${EVERY:-1}
capacity=${TIER_MIB:-512}

kill_often()
{
	local i

	for ((i = 0; i < kills; i++)); do
		nap $((RANDOM % 2 + 1))
		slay
		nap 0
		start "kill $i" || return
	done
}

# scan NAME: all objects are seen
scan() { is "$1 sees each object" "$("$ctl" scan "$store" --exact --json | jq .objects)" "$(figure handles_used)"; }

# daemon_figure NAME: a counter of the daemon, as it is now
daemon_figure()
{
	rm -f "/run/lsmem/$store.json"
	kill -USR1 "$daemon_pid"
	until_true 10 test -e "/run/lsmem/$store.json"
	jq ".$1" "/run/lsmem/$store.json"
}

configure "$drive" "kind = object\nsize = 128M\ncapacity = ${capacity}M\n"
ok 'formatted and active' start format --format --force
is 'its capacity' "$(figure capacity_bytes)" $((capacity << 20))
is 'its memory' "$(figure size_bytes)" $((128 << 20))
is 'lsmemctl list shows both' \
	"$("$ctl" list --json | jq -r '.[0] | "\(.size_bytes) \(.capacity_bytes)"')" \
	"$((128 << 20)) $((capacity << 20))"
objects 'filled to 90 %' fill 90 "$slots"
# 90 % of the capacity, less the memory
ok 'the rest is not in memory' [ "$(figure tier/cold_bytes)" -gt $(((capacity - 200) << 20)) ]
tier
verify 'all there'
ok 'objects were fetched' [ "$(figure tier/fetches)" -gt $((capacity * 2)) ]
ok 'most of them by the kernel alone' [ "$(figure tier/fetches_near)" -gt $(($(figure tier/fetches) / 2)) ]
fetches=$(figure tier/fetches)
through=$(figure tier/fetches_through)
requests=$(daemon_figure fetches)
reads=$(daemon_figure fetch_reads)
scan 'a scan of all'
is 'what is on the backup stays there' "$(figure tier/fetches)" "$fetches"
through=$(($(figure tier/fetches_through) - through))
requests=$(($(daemon_figure fetches) - requests))
reads=$(($(daemon_figure fetch_reads) - reads))
echo "# $through objects were read there, by $requests requests, in $reads reads"
ok 'and is read there' [ "$through" -gt $((capacity * 2)) ]
ok 'neighbours by one request' [ $((2 * requests)) -lt "$through" ]
ok 'and by one read' [ $((2 * reads)) -lt "$through" ]
tier
overwrite_until_cleaned
reads 'reads, the daemon killed meanwhile' $((kills * 3 + 2)) kill_often
tier
reads 'reads, the last daemon' 2 true
kill -USR1 "$daemon_pid"
ok 'the status has fetches' until_true 10 grep -q '"fetches": [1-9]' "/run/lsmem/$store.json"
grep -o '"fetch[a-z_]*": [0-9]*' "/run/lsmem/$store.json" | tr '\n' ' ' | sed 's/^/# /; s/$/\n/'
is 'nothing has failed' "$(jq .fetch_failures "/run/lsmem/$store.json")" 0

for ((i = 0; i < losses; i++)); do
	load 60
	nap 3
	slay
	slay_load
	run "$ctl" destroy --force "$store"
	is "loss $i: the memory is lost" "$status" 0
	mark
	ok "loss $i: recovers" start "loss $i" || break
	ok "loss $i: the log says how long it took" since 'tiered: active [0-9.]* s after'
	grep 'tiered: active' "$log" | tail -1 | sed 's/^.*tiered/# tiered/'
	ok "loss $i: objects were not read" \
		[ "$(jq .recovery_read_bytes "/run/lsmem/$store.json")" -lt $(($(figure segments) * 8 * 2 / 5 << 20)) ]
	scan "loss $i: a scan of a store that was just recovered"
	reads "loss $i: reads of a store that was just recovered" 3 true
	verify "loss $i: all that was acknowledged"
	tier
done
objects 'overwritten after recoveries' overwrite 30
drained
is 'check: the capacity' "$(jq -r .capacity "$scratch/out")" $((capacity << 20))
ok 'recovers after the shutdown' start recovery
verify 'all there from the backup'
stop
is 'the end' "$status" 0
run "$ctl" destroy "$store"
is 'destroyed' "$status" 0
[ "$failed" -eq 0 ] || tail -60 "$log" | sed 's/^/# /'
tap_end
