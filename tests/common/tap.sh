# SPDX-License-Identifier: GPL-2.0
# TAP for tests in bash: sourced, not run. $scratch is a directory; the trap on EXIT removes it.
scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/lsmem-test.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
count=0
failed=0
status=0

# result NAME: one test; it passes if the exit status of the command before it is 0
result()
{
	local good=$?

	count=$((count + 1))
	[ $good = 0 ] || failed=$((failed + 1))
	[ $good = 0 ] || printf 'not '
	echo "ok $count - $1"
	return $good
}

# ok NAME COMMAND ..: one test; it passes if the command succeeds. If it fails, print the output of
# the command, and the standard error of the last "run"
ok()
{
	local name=$1

	shift
	"$@" >"$scratch/said" 2>&1
	result "$name" && return
	tail -qn 40 "$scratch/said" "$scratch/err" 2>/dev/null | sed 's/^/# /'
	return 1
}

# is NAME GOT WANTED: one test; it passes if both are equal
is()
{
	[ "$2" = "$3" ]
	result "$1" || printf '# got:    %s\n# wanted: %s\n' "$2" "$3"
}

# run COMMAND ..: run a command; its exit status is in $status, its output in $scratch/out and
# $scratch/err. A program is killed after a minute; a function is not
run()
{
	status=0
	[ "$(type -t "$1")" = function ] || set -- timeout 60 "$@"
	"$@" >"$scratch/out" 2>"$scratch/err" || status=$?
}

# tap_end: print the plan. The last command of a test: its exit status becomes that of the test
tap_end()
{
	echo "1..$count"
	[ "$failed" -eq 0 ]
}
