# SPDX-License-Identifier: GPL-2.0
# The programs as a collection of kselftest, by the kernel's own lib.mk and runner (make kselftest).
# They lie below build/kselftest as they would below tools/testing/selftests: this directory is its
# lsmem. Those that want drives, and the daemon's, are for guests: tests/run.
TEST_CUSTOM_PROGS := $(patsubst %.c,build/%,$(filter-out store.c follower.c,$(wildcard *.c)))
TEST_PROGS	  := block.sh lsmemctl.sh

include build/kselftest/lib.mk
