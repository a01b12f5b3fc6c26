#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Coded stores of which only a part is in memory, in a guest with two drives: TAP. 3+2 with a capacity of three times its memory:
# two backups are lost, all objects are read back and compared, half of them are overwritten, and segments with cold objects are
# cleaned; memory is lost with these two missing, and is recovered without reading objects; new backups get their shards; two
# others are lost. Then 2+1 with instant restarts.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-coded-tier.sh
#
# EVERY: one of so many objects is looked at.
. "$(dirname "$0")/guest-lib.sh"
. "$here/tier-lib.sh"
. "$here/coded-lib.sh"
every=${EVERY:-1}
capacity=384

coded "code = 3+2\nmin_parity = 0\ncapacity = ${capacity}M\n" a b c d e
ok '3+2, tiered: formatted and active' start 3+2 --format --force
is 'its capacity' "$(figure capacity_bytes)" $((capacity << 20))
objects 'filled to 85 %' fill 85 200000
ok 'the rest is not in memory' [ "$(figure tier/cold_bytes)" -gt $((capacity * 85 / 100 - 128 - 30 << 20)) ]
tier
verify 'all there'
ok 'objects were fetched' [ "$(daemon fetches)" -gt 100 ]
# On a busy machine a backup can be late: until it has answered, others are asked in its place.
ok 'and nothing was decoded while no backup was late' \
	[ "$(daemon fetch_degraded)" -eq 0 -o "$(daemon fetch_second)" -gt 0 ]
for name in a d; do
	spoil_one "$name"
done
objects 'overwritten while a and d are being lost' overwrite 10
ok 'a and d are lost' lost_all a d
verify 'all there without a and d'
ok 'some of it was decoded' [ "$(daemon fetch_degraded)" -gt 20 ]
is 'nothing has failed' "$(daemon fetch_failures)" 0
overwrite_until_cleaned
slay
for name in a d; do
	uncut "$name"
done
run "$ctl" destroy --force "$store"
mark
ok 'memory is lost, and a and d are missing: recovers' start recovery
ok 'the log says how long it took' since 'tiered: active [0-9.]* s after'
grep 'tiered: active' "$log" | tail -1 | sed 's/^.*tiered/# tiered/'
verify 'all there, of three shards'
is 'nothing has failed since' "$(daemon fetch_failures)" 0
for name in a d; do
	renew "$name"
done
ok 'new ones are used, and have their shards' used_all a d
for name in b e; do
	spoil_one "$name"
done
objects 'overwritten while b and e are being lost' overwrite 10
ok 'b and e are lost' lost_all b e
verify 'all there, with new shards'
is 'nothing has failed in the end' "$(daemon fetch_failures)" 0
slay
for name in b e; do
	uncut "$name"
	renew "$name"
done
ok 'goes on' start again
ok 'b and e are new, and have their shards' used_all b e
stop
is 'drains' "$status" 0
run "$ctl" destroy "$store"
sound '3+2' a b c d e
forget

# ---- Instant restarts ------------------------------------------------------------------------------
rm -f "$model"
slots=4000
coded 'code = 2+1\nrestart = instant\n' a b c
ok '2+1, instant: formatted and active' start instant --format --force
load 900
ok 'something is written' until_true 60 eval '[ "$(daemon segments_closed)" -gt 3 ]'
lose_memory
uncut b
mark
ok 'memory is lost, and b is missing: recovers' start restart
ok 'objects come from the backups' since 'instant: active [0-9.]* s after'
verify 'all there, of two shards'
stop
run "$ctl" destroy "$store"
bring_back b
coded_end
