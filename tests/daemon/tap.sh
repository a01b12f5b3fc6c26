# SPDX-License-Identifier: GPL-2.0
# What the tests of the daemon share: sourced, not run.
lsmemd=$(realpath "${LSMEMD:-$(dirname "$0")/../../daemon/lsmemd}")
[ -x "$lsmemd" ] || { echo "Bail out! $lsmemd is not built"; exit 1; }
scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/lsmemd-test.XXXXXX") || exit 1
# Which store a configuration serves is recorded here: see lsmemd(8), FILES.
export STATE_DIRECTORY=$scratch/state
trap 'rm -rf "$scratch"' EXIT
count=0
failed=0
status=0

# run COMMAND ..: its exit status in $status, its output in out and err
run()
{
	status=0
	timeout 60 "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
}

# ok NAME CONDITION ..: a test
ok()
{
	local name=$1
	shift
	count=$((count + 1))
	if "$@"; then
		echo "ok $count - $name"
	else
		echo "not ok $count - $name"
		sed 's/^/# /' "$scratch/err"
		failed=$((failed + 1))
	fi
}

# expect NAME GOT WANTED: a test
expect()
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

tap_end()
{
	echo "1..$count"
	[ "$failed" -eq 0 ]
}
