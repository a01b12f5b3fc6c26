#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Runs rust/src/main.rs, which says what it tests, with a store of its own.
here=$(dirname "$(readlink -f "$0")")
program=$here/build/rust/release/rust-store
[ -x "$program" ] || { echo "1..0 # SKIP not built: there was no cargo"; exit 0; }
. "$here/lib.sh"
store_create --size 128M --handles 20000
export LD_LIBRARY_PATH=$top/tools/lib LSMEMCTL=$lsmemctl
"$program" "$store"
status=$?
store_destroy
exit $status
