# SPDX-License-Identifier: GPL-2.0
# TAP for tests in bash: sourced, not run. $scratch is a directory that goes when the test ends.
scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/lsmem-test.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
count=0
failed=0
status=0

# result NAME: a test, by the exit status of the last command
result()
{
	local good=$?

	count=$((count + 1))
	[ $good = 0 ] || failed=$((failed + 1))
	[ $good = 0 ] || printf 'not '
	echo "ok $count - $1"
	return $good
}

# ok NAME COMMAND ..: a test; what it and the last "run" said is shown when it fails
ok()
{
	local name=$1

	shift
	"$@" >"$scratch/said" 2>&1
	result "$name" && return
	tail -qn 40 "$scratch/said" "$scratch/err" 2>/dev/null | sed 's/^/# /'
	return 1
}

# is NAME GOT WANTED: a test
is()
{
	[ "$2" = "$3" ]
	result "$1" || printf '# got:    %s\n# wanted: %s\n' "$2" "$3"
}

# run COMMAND ..: its exit status in $status, its output in $scratch/out and $scratch/err; a program
# has a minute for it
run()
{
	status=0
	[ "$(type -t "$1")" = function ] || set -- timeout 60 "$@"
	"$@" >"$scratch/out" 2>"$scratch/err" || status=$?
}

# tap_end: the plan; last, as its exit status is the test's
tap_end()
{
	echo "1..$count"
	[ "$failed" -eq 0 ]
}
