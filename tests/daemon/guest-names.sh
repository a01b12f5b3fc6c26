#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Two daemons, started in either order: each store is found by its name and by its uuid, whatever
# the name of its device node is.  In a guest with two drives: TAP.
#
#	qemu/run --drive backup:1G --drive other:1G -- tests/daemon/guest-names.sh
. "$(dirname "$0")/guest-lib.sh"

rules=/run/udev/rules.d/60-lsmem.rules
mkdir -p "${rules%/*}"
cp "$top/tools/udev/60-lsmem.rules" "$rules"
udevadm control --reload
declare -A pid uuid
for each in "$drive" "$other"; do
	dd if=/dev/zero of="$each" bs=1M count=4 conv=fsync status=none
done

# conf_of NAME DRIVE KIND TEXT
conf_of() { printf '[store]\nkind = %s\nsize = 128M\n%b[backup]\npath = %s\n' "$3" "${4-}" "$2" >"$scratch/$1.conf"; }

# begin NAME: start the daemon of a store, and wait until it serves
begin()
{
	local lines

	lines=$(wc -l <"$log")
	conf=$scratch/$1.conf
	launch
	pid[$1]=$daemon_pid
	until_true 60 serves_or_gone "$1" "$lines"
	kill -0 "${pid[$1]}"
}
serves_or_gone()
{
	tail -n +$(($2 + 1)) "$log" | grep -q 'serving' || ! kill -0 "${pid[$1]}" 2>/dev/null
}

# end NAME: stop the daemon of a store, and destroy the store
end()
{
	daemon_pid=${pid[$1]}
	stop
	"$ctl" destroy "$1" && udevadm settle --timeout=20
}

# node PLACE: the target of the link, without /dev/
node() { udevadm settle --timeout=20; basename "$(readlink -f "/dev/lsmem-$1")"; }
# put NAME, get PLACE: write and read bytes that distinguish the stores
put() { printf '%-4096s' "$1" | dd of="/dev/lsmem-by-name/$1" oflag=direct bs=4096 status=none; }
get() { dd if="/dev/lsmem-$1" iflag=direct bs=4096 count=1 status=none | tr -d ' '; }

conf_of alpha "$drive" block
conf_of beta "$other" block
for name in alpha beta; do
	"$lsmemd" -c "$scratch/$name.conf" --init 2>>"$log"
	is "$name: --init" "$?" 0
done
ok 'alpha first: alpha' begin alpha
ok 'alpha first: beta' begin beta
is 'alpha first: the node of alpha' "$(node by-name/alpha)" lsmemb0
is 'alpha first: the node of beta' "$(node by-name/beta)" lsmemb1
for name in alpha beta; do
	uuid[$name]=$("$ctl" stat "$name" --json | jq -r .uuid)
	put "$name"
done
is 'lsmemctl by uuid' "$("$ctl" stat "${uuid[beta]}" --json | jq -r '.name + " " + .given_name')" \
	'lsmemb1 beta'
is 'lsmemctl by link' "$("$ctl" stat /dev/lsmem-by-name/beta --json | jq -r .name)" lsmemb1
is 'lsmemctl backups by name' "$("$ctl" backups beta --json | jq -r '.[0].store')" lsmemb1
run "$ctl" stat gamma
ok 'lsmemctl by a name that no store has' grep -q 'gamma: no such store' "$scratch/err"

# Invalid names, and the name of another store
given=/sys/class/lsmem/lsmemb0/given_name
for name in lsmem lsmemb1 lsmem-control .a -a a/b 'a b' "$(printf '%032d' 0)"; do
	ok "no name: $name" eval '! printf %s "$name" 2>/dev/null >$given'
done
ok 'a name in use' eval '! echo beta 2>/dev/null >$given'
is 'the name is unchanged' "$(cat $given)" alpha
echo omega >$given
is 'another name' "$(node by-name/omega) $(ls /dev/lsmem-by-name | xargs)" 'lsmemb0 beta omega'
addpart /dev/lsmemb1 1 2048 4096
is 'a partition by name' "$(node by-name/beta-part1)" lsmemb1p1
is 'a partition by uuid' "$(node "by-uuid/${uuid[beta]}-part1")" lsmemb1p1
delpart /dev/lsmemb1 1
echo alpha >$given

ok 'alpha ends' end alpha
ok 'beta ends' end beta
is 'no links are left' "$(ls /dev/lsmem-by-name /dev/lsmem-by-uuid 2>/dev/null | grep -v :$ | xargs)" ''
ok 'beta first: beta' begin beta
ok 'beta first: alpha' begin alpha
is 'beta first: the node of beta' "$(node by-name/beta)" lsmemb0
is 'beta first: the node of alpha' "$(node by-name/alpha)" lsmemb1
for name in alpha beta; do
	is "beta first: $name by name" "$(get "by-name/$name")" "$name"
	is "beta first: $name by uuid" "$(get "by-uuid/${uuid[$name]}")" "$name"
done
ok 'beta ends again' end beta

# An object store; its name is in use, in the configuration or by default
conf_of gamma "$other" object 'name = alpha\n'
conf=$scratch/gamma.conf
refuses 'a name that another store has' 5 'name = alpha: another store has this name' --format --force
is 'no store is left behind' "$(ls /sys/class/lsmem)" lsmemb1
conf_of gamma "$other" object 'name = delta\ncharge = yes\n'
"$lsmemd" -c "$conf" --format --force -v 2>>"$log" &
pid[delta]=$!
ok 'objects: active' until_true 60 eval '[ "$(cat /sys/class/lsmem/lsmem/state 2>/dev/null)" = active ]'
is 'objects: charged to the memory cgroup, as asked' "$(cat /sys/class/lsmem/lsmem/charged)" 1
is 'objects: by name' "$(node by-name/delta)" lsmem
is 'objects: by uuid' "$(node "by-uuid/$(cat /sys/class/lsmem/lsmem/uuid)")" lsmem
is 'objects: systemd is told' "$(udevadm info -q property /dev/lsmem | grep SYSTEMD_READY)" ''
ok 'objects: ends' end delta
ok 'alpha ends again' end alpha
rm "$rules"
udevadm control --reload
[ "$failed" -eq 0 ] || sed 's/^/# /' "$log"
tap_end
