#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# liblsmem-preload.so with a file in memory in place of a region: all bytes that tests/guest/allocate.c
# allocates in several threads are right, and what children of fork() do.  tests/guest/preload.sh has stores.
here=$(dirname "$(readlink -f "$0")")
. "$here/../common/tap.sh"
build=$here/build/preload
seed=${LSMEM_SEED:-$RANDOM}

run env LSMEM_SCALE=600 LSMEM_PRELOAD_STORE=/dev/null LSMEM_PRELOAD_MIN=256K LD_PRELOAD="$build/liblsmem-preload.so" \
	"$build/allocate" 4 "$seed"
sed 's/^/# /' "$scratch/out"
is 'allocate' "$status" 0
is 'what a child says' "$(grep -c 'a child of fork()' "$scratch/err")" 2
is 'what is too much' "$(grep -c 'no room in the store' "$scratch/err")" 1
is 'nothing else is said' "$(grep -cv 'a child of fork()\|no room in the store' "$scratch/err")" 0
tap_end
