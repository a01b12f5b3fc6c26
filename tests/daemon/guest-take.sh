#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A store moves between two hosts (hosts-lib.sh): first there and back, then with daemons killed at random.  In a guest with two
# drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-take.sh
#
# $ROUNDS: number of moves with a kill (4); $SEED: repeat them, but for the time from a step to the kill
. "$(dirname "$0")/guest-lib.sh"
. "$(dirname "$0")/etcd-lib.sh"
. "$(dirname "$0")/hosts-lib.sh"

rounds=${ROUNDS:-4}
RANDOM=${SEED:=$((RANDOM))}
echo "# SEED=$SEED ROUNDS=$rounds"
ip link set lo up
ok 'etcd starts' etcd_start
server
# Sometimes one that does not know HOLD: then the backup is opened again.
if [ $((RANDOM % 4)) = 0 ]; then
	sed -i 's/^\[server\]/&\nwire_max = 7/' "$scratch/server.conf"
	echo '# the server of the backup speaks version 7'
fi
ok 'the server of the backup starts' serve
configure_host a
configure_host b
marks
host a --format
ok 'a: formatted and active' until_true 60 since_host a 'serving, backup' || bail
uuid=$(cat "/sys/class/lsmem/$(named a)/uuid")
ok 'a: listens' until_true 30 since_host a 'listening for moves'
write_bulk a

# ---- There and back -----------------------------------------------------------------
# moves FROM TO NAME [LOAD]: TO moves the store to itself
moves()
{
	local from=$1 to=$2 name=$3
	write_on "$from"
	nap 1
	[ -n "${4-}" ] || write_ends
	marks
	host "$to"
	ok "$name: $to has the store" until_true 60 since_host "$to" 'this host has the store, term' || bail
	[ -z "${4-}" ] || write_ends
	ok "$name: $to serves it" until_true 60 since_host "$to" 'serving, backup' || bail
	ok "$name: by what $from told" since_host "$to" "moved from host $remote: served .* by what that host told"
	ok "$name: words were placed ahead" since_host "$to" 'the words of [1-9][0-9]* objects are placed'
	ok "$name: times of the steps" since_host "$to" 'time until it was served, ms: source .*, words .*, activation'
	ok "$name: what was acknowledged can be read at once" all_there "$to"
	# On a busy machine a READ can be late: then a backup answers.
	ok "$name: and was read from the memory of $from" \
		[ "$(move_of "$to" '.pulled + .brought - .pulls_late')" -gt 0 ]
	is "$name: nothing else was there" "$(move_of "$to" .pulls_failed)" 0
	ends "$from"
	is "$name: the daemon of $from ends" "$status" 0
	ok "$name: $from has let go" since_host "$from" 'needs nothing of this one: its memory is freed'
	ok "$name: $to knows" until_true 20 since_host "$to" 'keeps nothing of the store any more'
	ok "$name: ahead of what asks for it" [ "$(move_of "$to" .brought)" -gt 0 ]
	is "$name: all was read" "$(move_of "$to" '"\(.bring_left_bytes) \(.brought_wrong)"')" '0 0'
	is "$name: nothing is on the backups alone" "$(cold_of "$to")" 0
	ok "$name: what a writer had open can go" until_true 40 vanishes "$from"
	ok "$name: $to can be moved from" until_true 30 since_host "$to" 'listening for moves'
	is "$name: one owner" "$(owners)" 1
	ok "$name: what was acknowledged is there" all_there "$to"
	sed -n "$((mark[$to] + 1)),\$s/^.*\(this host has the store\|time until it was served\|moved from host\|[0-9]* objects, .* came from\)/# \1/p" \
		"$scratch/log.$to"
}
name='another secret'
head -c 32 /dev/urandom >"$secret.other"
chmod 600 "$secret.other"
cp "$scratch/b.conf" "$scratch/right.conf"
sed -i 's/^secret = .*/&.other/' "$scratch/b.conf"
marks
host b
ok "$name: is not moved" until_true 30 since_host b 'was not moved from host'
ok "$name: starts as without a move" until_true 60 since_host b 'host a owns the store, term 1, and is alive'
ends b
is "$name: ends" "$status" 4
ok "$name: a serves it" is_served a
ok "$name: a's clients were not stopped" eval '! since_host a "its clients wait"'
cp "$scratch/right.conf" "$scratch/b.conf"

# gave_up CAUSE ERRNO: a knows why
gave_up()
{
	ok "$name: in a's log" until_true 10 since_host a "b at .* has gone: it gives up: $1"
	is "$name: in a's status" "$(move_of a .last.cause)" "it gives up: $1"
	is "$name: in a's status: the error" "$(move_of a .last.error)" "$2"
	is "$name: in a's status: the host" "$(move_of a .last.host)" b
	is "$name: in a's status: its state" "$(move_of a .role) $(move_of a .state)" 'source serves'
}
# What cannot be made here is not taken: its source goes on, and its clients were not stopped.
name='a name in use'
in_use=$("$ctl" create --size 128M)
echo store-c >"/sys/class/lsmem/$in_use/given_name"
sed -i 's/^name = store-b/name = store-c/' "$scratch/b.conf"
marks
host b
ok "$name: is not moved" until_true 30 since_host b 'was not moved from host .*the store cannot be made here (File exists)'
ok "$name: says which" since_host b 'name = store-c: another store has this name'
gave_up 'the store cannot be made here (File exists)' 17
ends b
is "$name: ends" "$status" 4
ok "$name: a serves it" is_served a
ok "$name: a's clients were not stopped" eval '! since_host a "its clients wait"'
ok "$name: nothing is left" eval '[ "$(ls /sys/class/lsmem | wc -l)" = 2 ]'
run "$ctl" destroy --force "$in_use"
cp "$scratch/right.conf" "$scratch/b.conf"
is "$name: in b's status" "$(jq -r .move.last.cause "/run/lsmem/$uuid.json")" 'the store cannot be made here'

# A thread that cannot be started: the daemon says so and ends, whichever it is; the one that makes the store is among them.
name='no thread'
said=0
for nth in 1 2 3 4 5; do
	marks
	through="env LD_PRELOAD=$here/build/nth.so LSMEM_NTH=pthread_create:$nth" host b
	ends b
	ok "$name: call $nth: ends with an error" [ "$status" != 0 ]
	ok "$name: call $nth: says why" since_host b 'Resource temporarily unavailable'
	ok "$name: call $nth: a serves it" is_served a
	! since_host b 'the store cannot be made here (Resource temporarily unavailable)' || { said=1; break; }
done
is "$name: that makes the store" "$said" 1
ok "$name: a's clients were not stopped" eval '! since_host a "its clients wait"'
ok "$name: nothing is left" eval '[ "$(ls /sys/class/lsmem | wc -l)" = 1 ]'

# A memory cgroup that is smaller than the store.
name='no memory'
group=$scratch/cgroup
if { mkdir "$group" && mount -t cgroup2 none "$group" && echo +memory >"$group/cgroup.subtree_control" && mkdir "$group/b"; } 2>/dev/null; then
	echo 120M >"$group/b/memory.max"
	sed -i 's/^restart = instant/&\ncharge = yes/' "$scratch/b.conf"
	marks
	cgroup=$group/b/cgroup.procs
	host b
	cgroup=
	ok "$name: is not moved" until_true 30 since_host b 'was not moved from host .*the store cannot be made here (Cannot allocate memory)'
	gave_up 'the store cannot be made here (Cannot allocate memory)' 12
	ends b
	is "$name: ends" "$status" 4
	ok "$name: a serves it" is_served a
	ok "$name: a's clients were not stopped" eval '! since_host a "its clients wait"'
	cp "$scratch/right.conf" "$scratch/b.conf"
	ok "$name: the cgroup can go" until_true 10 rmdir "$group/b"
	umount "$group"
else
	umount "$group" 2>/dev/null
	echo '# no memory: not tested, there is no memory controller'
fi

# ---- An operator watches, and cancels ----------------------------------------------------
hold_fifo=$scratch/hold
mkfifo "$hold_fifo"
exec 6<>"$hold_fifo"
# holds_on: b's daemon reads what a has, and waits in the kernel's answer to CREATE
holds_on()
{
	marks
	hold=$hold_fifo
	host b
	hold=
	ok "$name: b makes the store" until_true 60 since_host b 'held: the kernel has made a store'
}
goes_on() { printf x >&6; }
moving() { "$ctl" move "$1" --json | jq -r ".[] | $2"; }
# is_cancelled: all is as before
is_cancelled()
{
	ok "$name: b gives up" until_true 30 since_host b 'was not moved from host .*an operator has cancelled the move'
	ends b
	is "$name: b ends" "$status" 4
	ok "$name: a serves it" is_served a
	ok "$name: a's clients were not stopped" eval '! since_host a "its clients wait"'
	is "$name: nothing is left" "$(ls /sys/class/lsmem | grep -c '^lsmemb')" 1
	is "$name: b's status has the cause" "$(moving "$uuid" 'select(.role == "target").last.cause')" 'an operator has cancelled the move'
}
name='nothing to cancel'
run "$ctl" move --cancel store-a
is "$name: refused" "$status $(grep -o 'is not cancelled: .*' "$scratch/err")" '1 is not cancelled: no host moves the store'
run "$ctl" move --cancel store-z
is "$name: no such store" "$status $(grep -c 'no lsmemd on this host moves it' "$scratch/err")" '1 1'
run "$ctl" move
ok "$name: a is shown" grep -q '^store-a  *source  *serves  *yes ' "$scratch/out"

name='cancelled on the target'
holds_on
is "$name: the target is shown" "$(moving store-b '"\(.role) \(.state) \(.running) \(.host)"')" "target reads true $remote"
is "$name: the source is shown" "$(moving store-a '"\(.role) \(.state) \(.host)"')" 'source serves b'
ok "$name: what was told is counted" eval '[ "$(moving store-a .bytes)" -gt 0 ] && [ "$(moving store-b .bytes)" = "$(moving store-a .bytes)" ]'
run "$ctl" move --cancel store-b
is "$name: done" "$status" 0
gave_up 'an operator has cancelled the move (Operation canceled)' 125
goes_on
is_cancelled

name='cancelled on the source'
holds_on
run "$ctl" move --cancel store-a
is "$name: done" "$status" 0
ok "$name: in a's log" until_true 10 since_host a 'b at .* has gone: an operator has cancelled the move'
goes_on
is_cancelled

# ---- Killed before the transaction -------------------------------------------------------
# stores: each store of this uuid that no daemon is attached to, and its state
stores_left()
{
	local s
	for s in /sys/class/lsmem/lsmem*; do
		[ "$(cat "$s/uuid" "$s/attached" 2>/dev/null | xargs)" != "$uuid 0" ] || cat "$s/state"
	done
}
name='killed between CREATE and ATTACH'
operators=$("$ctl" create --size 128M --kind block --durable)	# an operator's, which no daemon has had either
operators_uuid=$(cat "/sys/class/lsmem/$operators/uuid")
holds_on
slay_host b
is "$name: leaves a store, new, of this uuid" "$(stores_left)" new
ok "$name: a serves it" is_served a

# left: b has a store that is new, and no daemon
left() { [ -n "$(named b)" ] && [ "$(cat "/sys/class/lsmem/$(named b)/state" "/sys/class/lsmem/$(named b)/attached" | xargs)" = 'new 0' ]; }
name='killed before the transaction'
marks
host b
timeout 60 tail -n "+$((mark[b] + 1))" -f "$scratch/log.b" 2>/dev/null | grep -qm1 'is here for what the source has'
slay_host b
ok "$name: leaves an empty store" until_true 10 left
ok "$name: what the one before has left is destroyed" since_host b 'was left by a start that did not end, and was empty: destroyed'
is "$name: one is left" "$(stores_left)" new
is "$name: an operator's store stays" "$(cat "/sys/class/lsmem/$operators/uuid" "/sys/class/lsmem/$operators/state" | xargs)" "$operators_uuid new"
run "$ctl" destroy "$operators"
exec 6>&-
ok "$name: a serves it" until_true 60 is_served a

moves a b 'a move'
ok 'a move: what was left is destroyed' since_host b 'was left by a start that did not end, and was empty: destroyed'
moves b a 'back, with load' load

# The source dies while its memory is read: the rest comes from the backups.
name='the source killed while it is read'
write_on a
nap 1
write_ends
marks
sed -i '/^from = /d' "$scratch/a.conf"	# started again, it would move the store back
echo 'bring_rate = 1M' >>"$scratch/b.conf"
host b
ok "$name: b serves the store" until_true 60 since_host b 'serving, backup' || bail
store=$(named b)
read -r block byte < <(tail -n 1 "$acked")
maybe=$(awk -v block="$block" '$1 == block { byte = $2 } END { print byte }' "$tried")
ok "$name: a block is read" eval 'holds "$byte" "$block" || holds "$maybe" "$block"'
ok "$name: from a's memory" [ "$(move_of b '.pulled + .brought')" -gt 0 ]
slay_host a
pulled=$(move_of b '"\(.pulled) \(.brought)"')
ok "$name: in the midst" [ "$(move_of b .bring_left_bytes)" -gt 0 ]
ok "$name: what was acknowledged is there" all_there b
is "$name: from the backups" "$(move_of b '"\(.pulled) \(.brought)"')" "$pulled"
ok "$name: the kernel is told that no more comes" until_true 20 since_host b 'what else there is stays on the backups'
sed -i '/^bring_rate = /d' "$scratch/b.conf"
kill -HUP "${pids[b]}"
host a
ok "$name: its next daemon lets go" until_true 60 since_host a 'needs nothing of this one: its memory is freed'
ends a
is "$name: and ends" "$status" 0
ok "$name: b knows" until_true 30 since_host b 'keeps nothing of the store any more'
ok "$name: its memory can go" until_true 40 vanishes a
configure_host a

# The source dies frozen, before READY.  The target has begun as without a move, and recovers the store from the backup; nothing but
# its word lets the memory go.
name='the source killed before READY'
write_on b	# so that something is to be made durable: the end of a segment
nap 1
write_ends
sed -i '/^from = /d' "$scratch/b.conf"
marks
exec 6<>"$hold_fifo"
hold=$hold_fifo
host a
hold=
ok "$name: a makes the store" until_true 60 since_host a 'held: the kernel has made a store'
known=$(cat "/sys/class/lsmem/$(named b)/handles_used")
ok "$name: a knows all of it" until_true 60 since_host a ": $known objects are known"
kill -STOP "$server_pid"	# b cannot make all durable
goes_on
ok "$name: b stops its clients" until_true 30 since_host b 'its clients wait'
store=$(named b)
ok "$name: b is frozen" until_true 10 eval '[ "$(cat "/sys/class/lsmem/$store/frozen")" = 1 ]'
slay_host b
kill -CONT "$server_pid"
goes_on			# it makes another one, without a move
ok "$name: a gives the move up" until_true 30 since_host a 'was not moved from host'
ok "$name: a serves the store" until_true 60 since_host a 'serving, backup' || bail
exec 6>&-
host b
ok "$name: b keeps the memory" until_true 60 since_host b 'its memory is kept until host a needs it no more'
ok "$name: b lets go" until_true 60 since_host b 'needs nothing of this one: its memory is freed'
ends b
is "$name: b ends" "$status" 0
ok "$name: a knows" until_true 30 since_host a 'keeps nothing of the store any more'
ok "$name: b's memory can go" until_true 40 vanishes b
ok "$name: what was acknowledged is there" all_there a
configure_host b

# ---- Daemons killed at random steps ----------------------------------------------------------
# restarts HOST: its daemon has ended by itself, and is started again
restarts() { ! ended "${pids[$1]}" || { wait "${pids[$1]}"; tidy; host "$1"; }; }
# gets HOST SECONDS: it serves the store; its daemon is started again while the other one may be alive
gets()
{
	local end=$((SECONDS + $2))
	until is_served "$1"; do
		[ $SECONDS -lt $end ] || return 1
		[ "$(owners)" -le 1 ] || return 1
		restarts "$1"
		sleep 0.3
	done
}
# lets_go HOST: it has no store and no daemon any more
lets_go()
{
	local end=$((SECONDS + 60))
	while [ -n "$(named "$1")" ] || ! ended "${pids[$1]}"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.3
	done
	wait "${pids[$1]}" 2>/dev/null || :	# another host's, if it was killed after the move
}
# What the target logs at the steps: STORE, MOVE, the transaction, the recovery, CLOSE
steps=('reading what it has' 'is told to stop its clients' 'this host has the store' 'recovering' 'serving, backup')
from=a
for ((round = 1; round <= rounds; round++)); do
	to=$(other $from)
	victim=$([ $((RANDOM % 2)) = 0 ] && echo "$from" || echo "$to")
	step=${steps[RANDOM % ${#steps[@]}]}
	name="round $round: $from to $to, $victim killed at \"$step\""
	write_on $from
	nap 1
	write_ends
	marks
	configure_host $to
	sed -i '/^from = /d' "$scratch/$from.conf"	# started again, it would move the store back
	host $to
	ok "$name: it comes" until_true 40 since_host $to "$step"
	slay_host $victim
	echo "# $name: the last word of $to: $(tail -n +$((mark[$to] + 1)) "$scratch/log.$to" | tail -n 1 | cut -c 1-100)"
	# A host sees its own stores only: of the other one none may be made once it has looked.
	if [ $victim = $from ]; then
		until_true 10 eval '[ -n "$(named $to)" ]'
	else
		nap 1
	fi
	tidy
	host $victim
	ok "$name: is moved in the end" gets $to 90 || bail
	# Started again after the end of its lease: the other one has taken the store over, and what is here is left to the operator
	if [ $victim = "$from" ] && since_host $to 'starting as without a move' && ! since_host $to 'this host has the store'; then
		ok "$name: the old one can go" until_true 60 eval 'ended "${pids[$from]}" && vanishes $from'
	fi
	ok "$name: the other one lets go" lets_go $from || bail
	is "$name: one owner" "$(owners)" 1
	ok "$name: what was acknowledged is there" all_there $to
	from=$to
done

for h in a b; do
	kill -TERM "${pids[$h]}" 2>/dev/null
done
wait "${pids[a]}" "${pids[b]}" 2>/dev/null
run "$ctl" destroy "$(named $from)"
server_end
etcd_kill
ok 'the RDMA modules can go' soft_roce_end
[ "$failed" -eq 0 ] || sed 's/^/# /' "$scratch"/log.?
tap_end
