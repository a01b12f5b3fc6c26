#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Atomic ranges of pages of durable stores, in a guest: TAP.  Transactions of up to 2000 pages, each
# ended by msync(), while the daemon is killed, and while it is killed and the store's memory is lost;
# after each of them the range is as a whole transaction has left it, and no acknowledged one is missing.
# With a store that loads at a recovery, one that restarts at once, and one that is larger than its
# memory.
#
#	qemu/run --drive backup:1G -- tests/daemon/guest-pages.sh
#
# LOSSES: how often the memory is lost, with each kind.
. "$(dirname "$0")/guest-lib.sh"
losses=${LOSSES:-3}
pages=$here/build/pages
transactions=$scratch/transactions

# run_pages SECONDS: transactions in the background
run_pages()
{
	"$pages" run "$transactions" "/dev/$store" "$1" >"$scratch/run" 2>&1 &
	load_pid=$!
}

# check NAME: the range is whole
check()
{
	run "$pages" verify "$transactions" "/dev/$store"
	sed 's/^/# /' "$scratch/out" "$scratch/err"
	is "$1" "$status" 0
}

for kind in 'restart = load' 'restart = instant' 'capacity = 256M'; do
	configure "$drive" "kind = object\nsize = 128M\n$kind\n"
	ok "$kind: formatted and active" start format --format --force
	rm -f "$transactions"
	run_pages 2
	wait "$load_pid"
	is "$kind: transactions" "$?" 0
	check "$kind: the last one is there"
	run_pages 6
	nap 1
	slay
	nap 0
	ok "$kind: resumes" start resume
	wait "$load_pid"
	is "$kind: transactions, the daemon killed meanwhile" "$?" 0
	check "$kind: the last one is there after that"
	for ((i = 0; i < losses; i++)); do
		run_pages 60
		nap 1
		slay
		slay_load
		run "$ctl" destroy --force "$store"
		is "$kind: loss $i: the memory is lost" "$status" 0
		ok "$kind: loss $i: recovers" start "loss $i" || break
		check "$kind: loss $i: whole, and none that was acknowledged is missing"
	done
	run "$pages" remove "$transactions" "/dev/$store"
	is "$kind: removed" "$status" 0
	is "$kind: nothing is left of it" "$(cat "/sys/class/lsmem/$store/handles_used")" 0
	drained "$kind: "
	forget
done
[ "$failed" -eq 0 ] || tail -60 "$log" | sed 's/^/# /'
tap_end
