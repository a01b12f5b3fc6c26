#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A store is converted while it is served, under load: from two replicas to 2+1, and back. It is killed and goes on, loses its
# memory, and loses a backup meanwhile; in the end no segment of the other kind is left, and lsmemctl check finds all sound.
# What is asked for without convert_rate is refused. In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-convert.sh
. "$(dirname "$0")/guest-lib.sh"
. "$here/coded-lib.sh"

# kinds: show how many segments have which kind
kinds() { echo "# $(daemon segments_coded) of $(daemon segments) segments are coded, $(daemon segments_unlike) are to be converted"; }

# converts NAME TO BACKUP: the store is served, and has both kinds: turn all of it into TO, shards or replicas
converts()
{
	local name=$1 to=$2 lost=$3

	load 900
	goes_on "$name"
	ok "$name: some are converted" until_true 60 eval '[ "$(daemon converted_bytes)" -gt 0 ]'
	ok "$name: and others are not" [ "$(daemon segments_unlike)" -gt 0 ]
	kinds
	slay
	ok "$name: killed in the middle, and goes on" start "$name"
	goes_on "$name: killed"
	ok "$name: goes on to convert" until_true 60 eval '[ "$(daemon converted_bytes)" -gt 0 ]'
	spoil_one "$lost"
	ok "$name: a backup is lost" lost_all "$lost"
	goes_on "$name: a backup is lost"
	kinds
	lose_memory
	uncut "$lost"
	ok "$name: recovers without it" start "$name"
	verify "$name: all there, without memory and a backup"
	load 900
	renew "$lost"
	ok "$name: a new backup is used, and has what it is to have" used_all "$lost"
	"$ctl" backups | sed 's/^/# /'
	ok "$name: all are converted, under load" until_is 0 daemon segments_unlike
	ok "$name: says so" until_true 10 said "segments have $to now" "$log"
	goes_on "$name: converted"
	slay_load
	verify "$name: all there"
	stop
	is "$name: drains" "$status" 0
	run "$ctl" destroy "$store"
	sound "$name" a b c
}

coded 'replicas = 2\n' a b c
ok 'replicas: formatted and active' start replicas --init
load 900
ok 'replicas: something is written' until_true 60 eval '[ "$(daemon segments_closed)" -gt 12 ]'
is 'replicas: none is coded' "$(daemon segments_coded)" 0
slay_load
slay

# ---- To a code -----------------------------------------------------------------------------------
coded 'code = 2+1\n' a b c
refuses 'a code for replicas' 2 'has replicas: leave code out; or add convert_rate'
coded 'code = 2+1\nconvert_rate = 4M\n' a b c
mark
ok 'active: starts' start active
ok 'active: says that the next recovery begins' since 'gets them until its next recovery'
is 'active: none is coded' "$(daemon segments_coded)" 0
verify 'active: all there'
load 900
goes_on active
lose_memory
ok '2+1: recovers' start 2+1
is '2+1: the kernel knows what a segment has' "$(cat "/sys/class/lsmem/$store/segment_bytes")" $((4096 + 2 * 1017 * 4096))
is '2+1: the store has a code' "$(backup b code)" 2+1
verify '2+1: all there at the beginning'
ok '2+1: all segments are to be converted' [ "$(daemon segments_unlike)" -gt 4 ]
converts 2+1 shards c
coded 'code = 2+1\n' a b c
ok '2+1: starts without convert_rate' start converted
verify '2+1: all there in the end'
is '2+1: all is coded' "$(daemon segments_unlike)" 0
slay

# ---- Back to replicas ----------------------------------------------------------------------------
coded 'replicas = 2\n' a b c
refuses 'replicas for a code' 2 'is coded: "code = 2+1" is needed in \[store\], in place of replicas; or convert_rate'
coded 'code = 3+2\nconvert_rate = 1G\n' a b c d e
refuses 'another code' 2 'names 5 backups, and the store has 3'
coded 'replicas = 2\nconvert_rate = 4M\n' a b c
ok 'back: starts, with the store in memory' start back
ok 'back: segments are to be converted' [ "$(daemon segments_unlike)" -gt 4 ]
converts back replicas b
ok 'back: recovers' start back
is 'back: the store has no code' "$(backup b code)" null
verify 'back: all there in the end'
stop
run "$ctl" destroy "$store"
coded 'replicas = 2\n' a b c
ok 'back: starts without convert_rate' start back
verify 'back: all there, as if nothing had been'
stop
is 'back: drains in the end' "$status" 0
run "$ctl" destroy "$store"
sound 'in the end' a b c
coded_end
