# SPDX-License-Identifier: GPL-2.0
# What the shell tests of the guest share: sourced, not run.
top=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../..
lsmemctl=$top/tools/lsmemctl/lsmemctl
[ -x "$lsmemctl" ] || { echo "Bail out! $lsmemctl is not built"; exit 1; }
scratch=$(mktemp -d /tmp/lsmem-test.XXXXXX) || exit 1
count=0
failed=0

at_exit()
{
	local mounted

	for mounted in "$scratch"/*/; do
		! mountpoint -q "$mounted" || umount "$mounted"
	done
	rm -rf "$scratch"
}
trap at_exit EXIT

# ok NAME COMMAND ..: a test; what the command says is shown when it fails
ok()
{
	local name=$1 status=0

	shift
	count=$((count + 1))
	"$@" > "$scratch/log" 2>&1 || status=$?
	if [ $status = 0 ]; then
		echo "ok $count - $name"
	else
		echo "not ok $count - $name"
		echo "# $* returned $status"
		tail -40 "$scratch/log" | sed 's/^/# /'
		failed=$((failed + 1))
	fi
	return $status
}

# is NAME GOT WANTED: a test
is()
{
	count=$((count + 1))
	if [ "$2" = "$3" ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		printf '# got:    %s\n# wanted: %s\n' "$2" "$3"
		failed=$((failed + 1))
	fi
}

# refused NAME STATUS TEXT ARGUMENT ..: lsmemctl fails so, and says that
refused()
{
	local name=$1 wanted=$2 text=$3 status=0

	shift 3
	"$lsmemctl" "$@" > "$scratch/out" 2> "$scratch/err" || status=$?
	is "$name: exit status" "$status" "$wanted"
	ok "$name: says \"$text\"" grep -q -- "$text" "$scratch/err" ||
		sed 's/^/# said: /' "$scratch/err"
	is "$name: nothing on standard output" "$(cat "$scratch/out")" ""
}

tap_end()
{
	echo "1..$count"
	[ "$failed" -eq 0 ]
}

# store_create OPTION ..: a store; its name in $store, its directory of sysfs in $sys
store_create()
{
	store=$("$lsmemctl" create "$@") || { echo "Bail out! no store"; exit 1; }
	sys=/sys/class/lsmem/$store
	udevadm settle --timeout=10
}

# udev may be looking at the disk: try for a while
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
