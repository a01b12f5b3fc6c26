#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The runner itself (qemu/guest-programs).  The first program leaves one object of each kind behind
# and is killed: the runner must name each object and remove it before it starts the second program.
# tests/testbed/offline tests, without a guest, that the runner kills a program that hangs and all
# processes that it started.
. "$(dirname "$0")/lib.sh"
fixtures=$(dirname "$(readlink -f "$0")")/fixtures

status=0
"$top/qemu/guest-programs" "$fixtures/leaves.sh" "$fixtures/clean.sh" >"$scratch.out" 2>&1 ||
	status=$?
is 'all is cleared, and both have their turn' "$status" 0
ok 'it is killed' grep -qx '# end leaves.sh exit=137' "$scratch.out"
ok 'the next one finds a clean slate' grep -qx '# end clean.sh exit=0' "$scratch.out"
ok 'its own turn is in order' test "$(sed '1,/^# begin clean.sh.unload/d' "$scratch.out" |
	grep -c '^ok')" = 2
while read -r what; do
	ok "named: $what" grep -q "^# $what" "$scratch.out"
done < <(sed -n 's/^# left: //p' "$scratch.out")
[ "$failed" = 0 ] || sed 's/^/# /' "$scratch.out"
rm -f "$scratch.out"
tap_end
