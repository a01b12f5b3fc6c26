# SPDX-License-Identifier: GPL-2.0
#
# lsmem: log-structured memory for Linux. `make help` lists the targets.

# The kernel to build for and to boot: the newest stock 6.1 that is installed
# whole. `make install` is for the kernel that runs. Both are overridden by
# `make KVER=…`.
ifeq ($(origin KVER),undefined)
KVER	 = $(shell qemu/run --print-kernel)
INSTALL_KVER = $(shell uname -r)
else
INSTALL_KVER = $(KVER)
endif
KDIR	?= /lib/modules/$(KVER)/build
KBUILD	 = $(MAKE) -C $(KDIR) M=$(CURDIR)

DESTDIR	?=
PREFIX	?= /usr

TOOLS	:= tools/lsmemctl tools/example
SUITES	:= $(dir $(wildcard tests/*/Makefile))

# KVER is not exported: on a new machine it is empty until setup has run.

all: modules tools daemon ## module, tools and daemon

modules: ## kmod/lsmem.ko (W=1: more warnings; C=1: sparse as well)
	@test -d $(KDIR) || { echo "no headers in $(KDIR): install linux-headers-$(KVER)," \
		"or run make setup for the kernel that tests boot" >&2; exit 1; }
	$(KBUILD) modules

lib: ## liblsmem
	$(MAKE) -C tools/lib

tools: lib daemon ## lsmemctl and the example
	@set -e; for tool in $(TOOLS); do $(MAKE) -C $$tool; done

daemon: ## lsmemd
	$(MAKE) -C daemon

setup: ## packages, kernel, virtme-ng: all that a Debian 12 machine needs (as root)
	@qemu/setup

# What follows may be the first thing that is run on a machine, so setup must
# have ended before make looks for the kernel: hence the make inside.
demo: setup ## the main job end to end, in guests; writes out/demo/summary.json
	@$(MAKE) --no-print-directory all test-programs
	qemu/demo

demo-cluster: setup ## the loss of a host: three guests; writes out/demo/cluster.json; SEED=N
	@$(MAKE) --no-print-directory all test-programs
	qemu/demo-cluster $(if $(SEED),--seed $(SEED))

test: setup ## every test; the last line is "N passed, N failed"
	@$(MAKE) --no-print-directory all test-programs
	@tests/run

ci: setup ## make test and kunit, debug-uml and fuzz in short, beside one another; UNTIL=TIME
	@qemu/setup base lab fuzz
	@$(MAKE) --no-print-directory all test-programs
	@$(MAKE) --no-print-directory -C tests/fuzz programs
	@tests/run --ci $(if $(UNTIL),--until $(UNTIL))

test-user: setup ## tests in user space, under sanitizers
	@$(MAKE) --no-print-directory tools daemon test-programs
	@tests/run user

test-guest: setup ## tests of the module and the daemon in a guest
	@$(MAKE) --no-print-directory all test-programs
	@tests/run guest

test-power: setup ## power cuts
	@$(MAKE) --no-print-directory all test-programs
	@tests/run power

torture: setup ## hosts, daemons, drives, links fail at random; ROUNDS=N (50) SEED=N as printed by a run
	@$(MAKE) --no-print-directory all test-programs
	@LSMEM_ROUNDS=$(or $(ROUNDS),50) tests/run $(if $(SEED),--seed $(SEED)) cluster

kselftest: ## the guest's tests on this machine, which runs the module, by the kernel's runner: KTAP
	@test -d /sys/module/lsmem || { echo "kselftest: the module is not loaded" >&2; exit 1; }
	@$(MAKE) --no-print-directory -C tests/guest
	@cd tests/guest/build/kselftest/lsmem && $(MAKE) --no-print-directory -f kselftest.mk run_tests

kunit: setup ## KUnit suites in User-mode Linux with KASAN; SEED=N as printed by a run
	@qemu/setup base lab
	@qemu/kunit $(if $(SEED),--seed $(SEED))

sim: setup ## cleaning policies, and fleets of hosts, by simulation: tables, plots in out/sim/ (6 minutes)
	@qemu/setup base sim
	@tools/sim/run
	@tools/sim/fleet

.PHONY: sim

lab: setup ## User-mode Linux and the module for it: what make bench measures in
	@qemu/setup base lab
	@qemu/build-kernel uml
	@qemu/build-module uml

bench: setup ## what it costs: ratios, in a guest; writes out/bench/summary.json
	@qemu/setup base bench lab
	@$(MAKE) --no-print-directory all test-programs
	@tests/bench/run

test-debug: setup ## the guest's tests, failing allocations, torture, on a debug kernel
	@qemu/setup base lab
	@$(MAKE) --no-print-directory all test-programs
	@qemu/build-kernel debug
	@tests/run debug

calls: setup ## random callers of everything, a million calls, under KASAN and lockdep; CALLS=N SEED=N
	@qemu/setup base lab
	@$(MAKE) --no-print-directory test-programs
	@qemu/build-kernel uml-kasan
	@$(if $(CALLS),LSMEM_CALLS=$(CALLS)) tests/run $(if $(SEED),--seed $(SEED)) calls

test-kcsan: setup ## races: some of them on a kernel that looks for them
	@qemu/setup base lab
	@$(MAKE) --no-print-directory all test-programs
	@qemu/build-kernel kcsan
	@tests/run kcsan

test-units: setup ## the daemon's units, under systemd in a guest
	@qemu/setup base units
	@$(MAKE) --no-print-directory all test-programs
	@tests/run units

matrix: setup ## the module on several kernels: built, checked by sparse, booted, tested
	@qemu/setup base check matrix
	@$(MAKE) --no-print-directory all test-programs
	@qemu/matrix

test-programs: lib daemon ## the test programs that are compiled
	@set -e; for suite in $(SUITES); do $(MAKE) -C $$suite; done

fuzz: setup ## fuzzers of what reads backups, $FUZZ_SECONDS (60) each
	@qemu/setup base fuzz
	@$(MAKE) --no-print-directory -C tests/fuzz programs
	@tests/fuzz/run

check: ## sparse, checkpatch, kernel-doc, and the memory ordering by herd7
	@qemu/setup base check
	@$(MAKE) --no-print-directory sparse
	@tests/checkpatch
	@tests/kernel-doc
	@tests/litmus/run

docs: ## the pages as a site: out/docs/Documentation/index.html
	@qemu/setup docs
	@$(MAKE) --no-print-directory -C Documentation

sparse: ## the module through sparse, all files
	$(KBUILD) C=2 CF="-Wsparse-error" modules

install: ## to $(DESTDIR), for the running kernel or KVER=…: module, headers, library, tools, daemon
	@$(MAKE) --no-print-directory KVER=$(INSTALL_KVER) install-built

install-built: all
	$(KBUILD) INSTALL_MOD_PATH=$(DESTDIR) INSTALL_MOD_DIR=extra modules_install
	$(MAKE) -C uapi install
	$(MAKE) -C tools/lib install
	$(MAKE) -C tools/lsmemctl install
	$(MAKE) -C daemon install

clean: ## remove what was built and what tests left
	-$(KBUILD) clean
	-for part in tools/lib tools/sim $(TOOLS) daemon $(SUITES); do $(MAKE) -C $$part clean; done
	rm -rf out

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile
	@echo "first: make demo, or make test, as root on Debian 12"

.PHONY: all modules lab lib tools daemon setup demo demo-cluster bench kselftest kunit calls matrix \
	ci test test-user test-guest test-power torture test-debug test-kcsan test-units fuzz test-programs \
	check docs sparse install install-built clean help
