# SPDX-License-Identifier: GPL-2.0
# The programs as a kselftest collection, for the kernel's lib.mk and runner (make kselftest).
# build/kselftest stands for tools/testing/selftests of a kernel tree; its lsmem is a link to this
# directory. Programs that need drives or lsmemd are not included; tests/run runs them in a guest.
TEST_CUSTOM_PROGS := $(patsubst %.c,build/%,$(filter-out store.c follower.c keeper.c on_region.c allocate.c,$(wildcard *.c))) \
		     build/cpp_pages
TEST_PROGS	  := block.sh lsmemctl.sh

include build/kselftest/lib.mk
