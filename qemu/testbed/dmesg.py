# SPDX-License-Identifier: GPL-2.0
"""Finds bad lines in the kernel log of a test."""

import re

BAD = re.compile(
    r"\bWARNING:|\bBUG:|\bBUG at|\bOops\b|\bKASAN:|\bKCSAN:|\bUBSAN\b|kernel panic|Call Trace|\bRIP:|"
    r"general protection|unable to handle|scheduling while atomic|sleeping function called|"
    r"INFO: task|hung task|blocked for more than|soft lockup|hard LOCKUP|rcu.*(stall|detected)|"
    r"possible (circular|recursive) locking|refcount_t|use-after-free|list_(add|del) corruption|"
    r"page allocation failure|Out of memory|bad page|stack segment|double fault|"
    r"I/O error|critical (medium|target) error|nvme .*(timeout|resetting)|"
    r"memory leak|kmem_cache_destroy|objects remaining|"
    # Debug kernels: a checker that found something, or that has stopped checking.
    r"\bBUG [\w-]+ ?(\(|:)|memory corruption|overwritten|\bODEBUG\b|kmemleak: .*disabled|"
    r"trying to register non-static key|turning off the locking correctness validator",
    re.IGNORECASE)

# Lines that a healthy kernel prints, each with the reason.
ALLOWED = (
    # Lines about the configuration that contain the words.
    re.compile(r"rcu: .*(RCU CPU stall warnings|debug is enabled|Offload|Adjusting|srcu)",
               re.IGNORECASE),
    # Checkers that print that they are active.
    re.compile(r"kmemleak: Kernel memory leak detector initialized|"
               r"kasan: KernelAddressSanitizer initialized|"
               r"kcsan: (enabled early|(non-)?strict mode configured|selftest: .* passed)",
               re.IGNORECASE),
    # The kernel prints the options that enable a checker.
    re.compile(r"Command line:|Unknown kernel command line parameters", re.IGNORECASE),
    # The guest's init reports programs that a small system does not have.
    re.compile(r"virtme-ng-init: WARNING: failed to run"),
    # The line has a number only: tests/debug/leaks reads the reports.
    re.compile(r"kmemleak: \d+ new suspected memory leaks"),
    # lsmem is built out of tree and is not signed.
    re.compile(r"(loading out-of-tree module|module verification failed)", re.IGNORECASE),
)


def problems(log: str) -> list[str]:
    """The lines of @log that a healthy guest does not print."""
    return [line for line in log.splitlines()
            if BAD.search(line) and not any(allowed.search(line) for allowed in ALLOWED)]
