#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Unchanged programs with liblsmem-preload.so: what they write is what they write without it, their large
# allocations are in the store, and nothing is left there when they have ended.
. "$(dirname "$0")/lib.sh"
preload=$top/tools/preload/liblsmem-preload.so
allocate=$(dirname "$(readlink -f "$0")")/build/preload/allocate
[ -e "$preload" ] || { echo "Bail out! $preload is not built"; exit 1; }
seed=${LSMEM_SEED:-$RANDOM}
echo "# seed $seed"
# User-mode Linux with several processors loses stores to mapped files: see regions.c
pinned=()
! grep -q 'User Mode Linux' /proc/cpuinfo || pinned=(taskset -c 0)
store_create --size 256M
used=$(value handles_used)
python=/usr/bin/python3

# with COMMAND ..: run it with the library; $in_place: in place of this shell
with()
{
	${in_place:+exec} env LSMEM_PRELOAD_STORE="${shim_store-/dev/$store}" LSMEM_PRELOAD_MIN="${least-1M}" \
		LSMEM_PRELOAD_BUFFER="${buffer-8M}" LD_PRELOAD="$preload" "${pinned[@]}" "$@"
}

appended() { value stats/appended_bytes; }

# gone: no object of a region is left, after a while: the process that removes it has its own time
gone()
{
	local i

	for ((i = 0; i < 300; i++)); do
		[ "$(value handles_used)" != "$used" ] || return 0
		sleep 0.1
	done
	echo "handles: $(value handles_used), and were $used"
	return 1
}

# in_store NAME BYTES: since $before at least so many bytes have been written to the log
in_store()
{
	local grown=$(($(appended) - before))

	ok "$1: its memory was in the store ($((grown >> 20)) MiB written)" test "$grown" -ge "$2"
}

# same NAME BYTES COMMAND ..: it writes the same with and without the library, silently
same()
{
	local name=$1 bytes=$2
	shift 2
	"$@" >"$scratch/plain"
	before=$(appended)
	with "$@" >"$scratch/shimmed" 2>"$scratch/err"
	is "$name: exit status" $? 0
	ok "$name: the same output" cmp "$scratch/plain" "$scratch/shimmed"
	is "$name: says nothing" "$(cat "$scratch/err")" ""
	in_store "$name" "$bytes"
	ok "$name: nothing is left" gone
}

awk -v seed="$seed" 'BEGIN { srand(seed); for (i = 0; i < 400000; i++) print int(rand() * 1e9), i }' \
	>"$scratch/numbers"
same sort $((8 << 20)) sort --parallel=1 -S 24M -n "$scratch/numbers"
same xz 1 xz -T1 -1 -c "$scratch/numbers"	# it frees all, so most is not written
cat >"$scratch/program.py" <<'END'
import hashlib, sys
data = bytearray()
for i in range(3000):
    data += hashlib.sha256(b"%d" % i).digest() * 256
numbers = list(range(1000000))
numbers.sort(key=lambda n: n * 7919 % 1000003)
empty = bytearray(16 << 20)
assert not any(empty)
print(len(data), hashlib.sha256(data).hexdigest(), sum(i * n for i, n in enumerate(numbers[:5000])))
del data[1000:]
print(len(data), hashlib.sha256(data).hexdigest())
END
same python $((8 << 20)) "$python" "$scratch/program.py"

# A program of our own, which knows what each byte has to be
before=$(appended)
least=256K buffer=4M run with "$allocate" 3 "$seed"
is 'allocate' "$status" 0
grep '^not ok' "$scratch/out" | sed 's/^/# /'
is 'allocate: what a child says' "$(grep -c 'a child of fork()' "$scratch/err")" 2
in_store allocate $((4 << 20))
ok 'allocate: nothing is left' gone

# While it runs; and when it is killed
in_place=1 with "$python" -c 'import time
a = bytearray(64 << 20)
for i in range(0, len(a), 4096): a[i] = 1 + i % 255
print(sum(a), flush=True)
time.sleep(600)' >"$scratch/out" 2>"$scratch/err" &
pid=$!
for ((i = 0; i < 600 && !$(wc -c <"$scratch/out"); i++)); do sleep 0.1; done
ok 'while it runs: the pages are in the store' test $(($(value handles_used) - used)) -ge 12000
resident=$(awk '/lsmem_pages/ { on = 1 } on && /^Rss:/ { print $2; exit }' "/proc/$pid/smaps")
ok "and at most the buffer of them in its memory ($resident KiB)" test "$resident" -le 10240
kill -KILL $pid
wait $pid 2>/dev/null
ok 'killed: nothing is left' gone

# What cannot be done
shim_store=/dev/none run with "$python" -c 'print(len(bytearray(4 << 20)))'
is 'no store: it runs' "$(cat "$scratch/out")" 4194304
ok 'no store: says which' grep -q '/dev/none: the store cannot be opened: no such store' "$scratch/err"
shim_store='' run with true
ok 'no name: says so' grep -q 'LSMEM_PRELOAD_STORE is not set' "$scratch/err"
least=7X run with true
ok 'no number: says which' grep -q 'LSMEM_PRELOAD_MIN=7X: not a number' "$scratch/err"
run with "$python" -c 'print(len(bytearray(300 << 20)))'
is 'more than the store: it runs' "$(cat "$scratch/out")" 314572800
ok 'more than the store: says so' grep -q 'no room in the store for' "$scratch/err"
ok 'more than the store: nothing is left' gone
ok 'the store can be destroyed' store_destroy
tap_end
