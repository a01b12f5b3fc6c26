# SPDX-License-Identifier: GPL-2.0
#
# lsmem: log-structured memory for Linux. `make help` lists the targets.

# KVER is the kernel to build for and to boot: the newest stock 6.1 that is installed with image,
# modules and headers. `make install` is for the running kernel. `make KVER=…` overrides both.
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

TOOLS	:= tools/lsmemctl tools/cached tools/preload tools/example
SUITES	:= $(dir $(wildcard tests/*/Makefile))

# Do not export KVER: on a new machine it is empty until setup has run.

all: modules tools daemon ## module, tools and daemon

modules: ## kmod/lsmem.ko (W=1: more warnings; C=1: sparse as well)
	@test -d $(KDIR) || { echo "no headers in $(KDIR): install linux-headers-$(KVER)," \
		"or run make setup for the kernel that tests boot" >&2; exit 1; }
	$(KBUILD) modules

rust: setup lib ## the Rust crate, and its tests without a store
	@qemu/setup rust
	@tests/rust/check

lib: ## liblsmem
	$(MAKE) -C tools/lib

tools: lib daemon ## lsmemctl, lsmemcached and the example
	@set -e; for tool in $(TOOLS); do $(MAKE) -C $$tool; done

daemon: ## lsmemd
	$(MAKE) -C daemon

setup: ## install packages, kernel, virtme-ng on a Debian 12 machine (as root)
	@qemu/setup

# The targets below may be the first that a user makes on a machine. Setup must end before make
# evaluates KVER, so these targets call make again.
demo: setup ## power cut under load and recovery, in guests; writes out/demo/summary.json
	@$(MAKE) --no-print-directory all test-programs
	qemu/demo

demo-cluster: setup ## loss of a host, with three guests; writes out/demo/cluster.json; SEED=N
	@$(MAKE) --no-print-directory all test-programs
	qemu/demo-cluster $(if $(SEED),--seed $(SEED))

demo-tier: setup ## power cut of a store larger than its memory; writes out/demo/tier.json; QUICK=1 SEED=N
	@qemu/setup demo
	@$(MAKE) --no-print-directory all test-programs
	qemu/demo-tier $(if $(QUICK),--quick) $(if $(SEED),--seed $(SEED))

demo-pages: setup ## power cuts of a B+tree in a region larger than memory; writes out/demo/pages.json; QUICK=1 SEED=N
	@qemu/setup demo
	@$(MAKE) --no-print-directory all test-programs
	qemu/demo-pages $(if $(QUICK),--quick) $(if $(SEED),--seed $(SEED))

demo-cached: setup ## power cut of lsmemcached under sets, and beside memcached; writes out/demo/cached.json; QUICK=1 SEED=N
	@qemu/setup demo
	@$(MAKE) --no-print-directory all test-programs
	qemu/demo-cached $(if $(QUICK),--quick) $(if $(SEED),--seed $(SEED))

demo-stripes: setup ## two of five backups lost at once, and a power cut; writes out/demo/stripes.json; QUICK=1 SEED=N
	@qemu/setup demo
	@$(MAKE) --no-print-directory all test-programs
	qemu/demo-stripes $(if $(QUICK),--quick) $(if $(SEED),--seed $(SEED))

demo-migrate: setup ## a disk and an object store move between hosts, the source loses its power; writes out/demo/migrate.json; SEED=N
	@qemu/setup demo
	@$(MAKE) --no-print-directory all test-programs
	qemu/demo-migrate $(if $(SEED),--seed $(SEED))

demo-scan: setup tools ## revenue of a table under transactions, by exact scans; writes out/demo/scan.json; QUICK=1
	qemu/demo-scan $(if $(QUICK),--quick)

test: setup ## all tests; the last line is "N passed, N failed"
	@qemu/setup base python
	@$(MAKE) --no-print-directory all test-programs
	@$(MAKE) --no-print-directory -C tests/guest libmemcached
	@tests/run

ci: setup ## make test, kunit, short debug-uml and fuzz, in parallel; UNTIL=TIME
	@qemu/setup base check lab fuzz python rust
	@$(MAKE) --no-print-directory all test-programs
	@$(MAKE) --no-print-directory -C tests/guest libmemcached
	@$(MAKE) --no-print-directory -C tests/fuzz programs
	@LSMEM_CI=1 tests/run --ci $(if $(UNTIL),--until $(UNTIL))

test-user: setup ## tests in user space, under sanitizers
	@qemu/setup base python
	@$(MAKE) --no-print-directory tools daemon test-programs
	@tests/run user

test-guest: setup ## tests of the module and the daemon in a guest
	@qemu/setup base python
	@$(MAKE) --no-print-directory all test-programs
	@$(MAKE) --no-print-directory -C tests/guest libmemcached
	@tests/run guest

test-power: setup ## power cuts
	@$(MAKE) --no-print-directory all test-programs
	@tests/run power

torture: setup ## random failures of hosts, daemons, drives, links; ROUNDS=N (50) SEED=N
	@$(MAKE) --no-print-directory all test-programs
	@LSMEM_ROUNDS=$(or $(ROUNDS),50) tests/run $(if $(SEED),--seed $(SEED)) cluster

kselftest: ## tests of the module, which this machine has loaded, by the kernel's runner: KTAP
	@test -d /sys/module/lsmem || { echo "kselftest: the module is not loaded" >&2; exit 1; }
	@$(MAKE) --no-print-directory -C tests/guest
	@cd tests/guest/build/kselftest/lsmem && $(MAKE) --no-print-directory -f kselftest.mk run_tests

kunit: setup ## KUnit suites in User-mode Linux with KASAN; SEED=N
	@qemu/setup base lab
	@qemu/kunit $(if $(SEED),--seed $(SEED))

sim: setup ## simulate cleaning, eviction, stripes and fleets of hosts: tables, plots in out/sim/ (13 minutes)
	@qemu/setup base sim
	@tools/sim/run
	@tools/sim/fleet
	@tools/sim/stripes

.PHONY: sim

lab: setup ## build User-mode Linux and the module for it, as make bench uses them
	@qemu/setup base lab
	@qemu/build-kernel uml
	@qemu/build-module uml

bench: setup ## benchmarks in a guest, as ratios; writes out/bench/summary.json
	@qemu/setup base bench lab
	@$(MAKE) --no-print-directory all test-programs
	@tests/bench/run

test-debug: setup ## tests of the module, failing allocations, torture, on a debug kernel
	@qemu/setup base lab
	@$(MAKE) --no-print-directory all test-programs
	@qemu/build-kernel debug
	@tests/run debug

calls: setup ## a million random calls of all interfaces, with KASAN and lockdep; CALLS=N SEED=N
	@qemu/setup base lab
	@$(MAKE) --no-print-directory test-programs
	@qemu/build-kernel uml-kasan
	@$(if $(CALLS),LSMEM_CALLS=$(CALLS)) tests/run $(if $(SEED),--seed $(SEED)) calls

test-kcsan: setup ## some tests of the module on a kernel with KCSAN
	@qemu/setup base lab
	@$(MAKE) --no-print-directory all test-programs
	@qemu/build-kernel kcsan
	@tests/run kcsan

test-units: setup ## the systemd units of lsmemd and lsmemcached, in a guest
	@qemu/setup base units
	@$(MAKE) --no-print-directory all test-programs
	@tests/run units

matrix: setup ## build, check with sparse and test the module for several kernels
	@qemu/setup base check matrix
	@$(MAKE) --no-print-directory all test-programs
	@qemu/matrix

test-programs: lib daemon ## compile the test programs
	@set -e; for suite in $(SUITES); do $(MAKE) -C $$suite; done

fuzz: setup ## fuzz the code that reads backups, $FUZZ_SECONDS (60) for each fuzzer
	@qemu/setup base fuzz
	@$(MAKE) --no-print-directory -C tests/fuzz programs
	@tests/fuzz/run

check: ## sparse, checkpatch, kernel-doc, no io_uring, liblsmem's ABI, herd7 on the litmus tests, protocols as models
	@qemu/setup base check
	@$(MAKE) --no-print-directory sparse
	@KDIR=$(KDIR) tests/no-uring
	@tests/checkpatch
	@tests/kernel-doc
	@tests/abi/check
	@tests/litmus/run
	@tests/model/migration.py

abi-baseline: ## record the interface of liblsmem, for a release: tests/abi
	@qemu/setup check
	@tests/abi/check --record

docs: ## build the pages as a site: out/docs/Documentation/index.html
	@qemu/setup docs
	@$(MAKE) --no-print-directory -C Documentation

sparse: ## check all files of the module with sparse
	$(KBUILD) C=2 CF="-Wsparse-error" modules

install: ## install everything to $(DESTDIR), for the running kernel or KVER=…
	@$(MAKE) --no-print-directory KVER=$(INSTALL_KVER) install-built

install-built: all
	$(KBUILD) INSTALL_MOD_PATH=$(DESTDIR) INSTALL_MOD_DIR=extra modules_install
	$(MAKE) -C uapi install
	$(MAKE) -C tools/lib install
	$(MAKE) -C tools/lsmemctl install
	$(MAKE) -C tools/cached install
	$(MAKE) -C tools/preload install
	$(MAKE) -C tools/flight install
	$(MAKE) -C daemon install

clean: ## remove all build and test output
	-$(KBUILD) clean
	-rm -rf tools/rust/build
	-for part in tools/lib tools/python tools/sim $(TOOLS) daemon $(SUITES); do $(MAKE) -C $$part clean; done
	rm -rf out

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile
	@echo "SEED=N repeats the run that printed N"
	@echo "first: make demo, or make test, as root on Debian 12"

.PHONY: all modules lab lib rust tools daemon setup demo demo-cluster demo-tier demo-pages demo-cached demo-stripes demo-migrate demo-scan bench kselftest kunit \
	calls matrix \
	ci test test-user test-guest test-power torture test-debug test-kcsan test-units fuzz test-programs \
	check abi-baseline docs sparse install install-built clean help
