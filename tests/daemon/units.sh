#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The units of lsmemd and lsmemcached: systemd verifies them without complaints, and rates each below 3.  TAP.
# LSMEMD is the program.  Skipped without a systemd-analyze that rates unit files.
set -u
. "$(dirname "$0")/lib.sh"
top=$(readlink -f "$(dirname "$0")/../..")

if ! systemd-analyze security --help 2>/dev/null | grep -q -e --offline; then
	echo '1..0 # SKIP no systemd-analyze that rates unit files'
	exit 0
fi
lsmemd=$(readlink -f "$lsmemd")
for unit in "$top"/daemon/*.service "$top"/tools/cached/*.service; do
	name=$(basename "$unit")
	# systemd-analyze verify needs the program.
	sed "s|^ExecStart=/usr/sbin/lsmemd|ExecStart=$lsmemd|; s|^ExecStart=/usr/bin/lsmemcached|ExecStart=$top/tools/cached/lsmemcached|" \
		"$unit" >"$scratch/$name"
	run systemd-analyze verify --man=no "$scratch/${name/@./@example.}"
	is "$name: verified" "$status" 0
	is "$name: no complaints" "$(cat "$scratch/out" "$scratch/err")" ''
	run systemd-analyze security --offline=true --threshold=29 "$unit"
	is "$name: exposure below 3.0" "$status" 0
	[ "$status" -eq 0 ] || grep -h -e '✗' -e Overall "$scratch/out" | sed 's/^/# /'
done
tap_end
