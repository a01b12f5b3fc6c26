# SPDX-License-Identifier: GPL-2.0
"""The test bed: boots kernels in guests, with drives that lose power, and runs tests there.

Each file has one concern, and imports only files that this list names before it:

  errors      the exception that a command prints as a message
  paths       the repository, the cache, scratch directories
  process     child processes in process groups of their own, waits with a limit
  source      the kernel sources that Debian offers
  newest      the newest kernel that Debian has, with the tools to build for it
  herd        herd7 and the memory model of the kernel
  build       builds of kernels that Debian does not have, and of the module for any kernel
  kernel      choice of the kernel to boot
  drive       emulated NVMe drives, with or without a volatile write cache
  unflushed   loss of unflushed writes in a power cut
  virtme      the QEMU command line, made by virtme-ng
  dmesg       bad lines in a kernel log
  accel       choice of an accelerator with which a guest boots on this host
  guest       a guest from its start to its exit code, or to a power cut
  uml         a guest in User-mode Linux
  cli         common parts of the commands that start a guest
  powercut    repeated load, power cut, verification
  boots       what the guests of power cuts have written, and progress from it
  tiered      likewise of stores that are larger than their memory
  tap         parser and writer of TAP
  network     the Ethernet switch between guests
  agent       commands given to a running guest
  cluster     several guests on one network, with soft RoCE
  backup      a backup in a cluster: a drive and its server
  replicated  a store in a cluster, its load and its verification
  program     a test program with a time limit, and all processes that it started
  leftovers   clearing what test programs leave in a guest
  programs    test programs in a guest; a new guest after a program that broke it
  jobs        commands in parallel, with their results counted
  times       run times of test programs
"""
