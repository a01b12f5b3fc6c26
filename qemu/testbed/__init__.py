# SPDX-License-Identifier: GPL-2.0
"""The test bed: kernels built and booted in QEMU, drives that lose power, and what they leave behind.

One concern a file; each uses only those named before it:

  errors      the one exception that is shown to a user as a message
  paths       where things are: the repository, the cache, scratch directories
  process     children in process groups of their own, bounded waits, sure death
  source      the kernel sources that Debian offers
  newest      the newest kernel that Debian has, with what builds for it
  build       kernels of our own, and the module for any kernel
  kernel      which kernel to boot
  drive       emulated NVMe drives, with or without a write cache that is lost
  unflushed   what a drive may lose when the power goes
  virtme      the QEMU command line, as virtme-ng makes it
  dmesg       what a kernel log may not say
  guest       one guest from start to exit code, or to power cut
  uml         the same in User-mode Linux
  cli         what the commands that start a guest share
  accel       which accelerator really boots a guest here
  powercut    workload, cut, verify, again
  tap         TAP as test programs write it
  network     the switch between guests
  agent       commands given to a guest that runs
  cluster     several guests on one network, with soft RoCE
  program     one test program under a limit, with all that it started
  leftovers   in a guest: what programs leave, cleared
  programs    test programs in a guest, and in another one after one that broke it
  jobs        commands beside one another, counted
  times       how long test programs took
  replicated  a store in a cluster, its load, and what must be in it
"""
