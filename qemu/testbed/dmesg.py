# SPDX-License-Identifier: GPL-2.0
"""What a kernel log may not say at the end of a test."""

import re

BAD = re.compile(
    r"\bWARNING:|\bBUG:|\bBUG at|\bOops\b|\bKASAN:|\bKCSAN:|\bUBSAN\b|kernel panic|Call Trace|\bRIP:|"
    r"general protection|unable to handle|scheduling while atomic|sleeping function called|"
    r"INFO: task|hung task|blocked for more than|soft lockup|hard LOCKUP|rcu.*(stall|detected)|"
    r"possible (circular|recursive) locking|refcount_t|use-after-free|list_(add|del) corruption|"
    r"page allocation failure|Out of memory|bad page|stack segment|double fault|"
    r"I/O error|critical (medium|target) error|nvme .*(timeout|resetting)|"
    r"memory leak|kmem_cache_destroy|objects remaining|"
    # Debug kernels: a checker that finds something, or that gives up.
    r"\bBUG [\w-]+ ?(\(|:)|memory corruption|overwritten|\bODEBUG\b|kmemleak: .*disabled|"
    r"trying to register non-static key|turning off the locking correctness validator",
    re.IGNORECASE)

# What kernels say under emulation in a healthy state. Each line says why it is harmless.
ALLOWED = (
    # Stock configuration lines that merely contain the words.
    re.compile(r"rcu: .*(RCU CPU stall warnings|debug is enabled|Offload|Adjusting|srcu)",
               re.IGNORECASE),
    # Checkers that say they are there.
    re.compile(r"kmemleak: Kernel memory leak detector initialized|"
               r"kasan: KernelAddressSanitizer initialized|"
               r"kcsan: (enabled early|(non-)?strict mode configured|selftest: .* passed)",
               re.IGNORECASE),
    # The option that asks for the check, echoed back.
    re.compile(r"Command line:|Unknown kernel command line parameters", re.IGNORECASE),
    # The guest's init on programs that a small system lacks.
    re.compile(r"virtme-ng-init: WARNING: failed to run"),
    # How many, not whose: tests/debug/leaks reads the reports.
    re.compile(r"kmemleak: \d+ new suspected memory leaks"),
    # Out-of-tree and unsigned: this is what lsmem is.
    re.compile(r"(loading out-of-tree module|module verification failed)", re.IGNORECASE),
)


def problems(log: str) -> list[str]:
    """The lines of @log that a healthy guest does not print."""
    return [line for line in log.splitlines()
            if BAD.search(line) and not any(allowed.search(line) for allowed in ALLOWED)]
