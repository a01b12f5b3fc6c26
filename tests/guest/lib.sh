# SPDX-License-Identifier: GPL-2.0
# Functions for the shell tests in a guest: sourced, not run.
top=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../..
. "$top/tests/common/tap.sh"
lsmemctl=$top/tools/lsmemctl/lsmemctl
[ -x "$lsmemctl" ] || { echo "Bail out! $lsmemctl is not built"; exit 1; }

at_exit()
{
	local mounted

	for mounted in "$scratch"/*/; do
		! mountpoint -q "$mounted" || umount "$mounted"
	done
	rm -rf "$scratch"
}
trap at_exit EXIT

# refused NAME STATUS TEXT ARGUMENT ..: three tests: lsmemctl with these arguments exits with
# STATUS, writes TEXT, a regular expression, to standard error, and nothing to standard output
refused()
{
	local name=$1 wanted=$2 text=$3

	shift 3
	run "$lsmemctl" "$@"
	is "$name: exit status" "$status" "$wanted"
	ok "$name: says \"$text\"" grep -q -- "$text" "$scratch/err"
	is "$name: nothing on standard output" "$(cat "$scratch/out")" ""
}

# store_create OPTION ..: create a store; its name is in $store, its directory in sysfs in $sys
store_create()
{
	store=$("$lsmemctl" create "$@") || { echo "Bail out! no store"; exit 1; }
	sys=/sys/class/lsmem/$store
	udevadm settle --timeout=10
}

# store_destroy: destroy $store. udev may have the disk open for a moment: try for some seconds
store_destroy()
{
	local tries

	for tries in $(seq 50); do
		udevadm settle --timeout=10
		"$lsmemctl" destroy "$store" && return 0
		sleep 0.1
	done
	return 1
}

# value FILE: of the store's directory in sysfs
value()
{
	cat "$sys/$1"
}
