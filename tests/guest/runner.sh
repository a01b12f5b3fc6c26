#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The runner itself (qemu/guest-programs): a program that is killed and leaves one of each behind is
# named for it, and the next one finds a clean slate.  (That one that hangs is killed, with all that
# it started, is tested without a guest: tests/testbed/offline.)
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
