#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Runs python.py, which says what it tests, with the packages that qemu/setup python installs.
python=${LSMEM_PYTHON:-$HOME/.cache/lsmem/python/bin/python3}
[ -x "$python" ] || { echo "1..0 # SKIP no Python packages: qemu/setup python has not been run"; exit 0; }
exec "$python" -X faulthandler "$(dirname "$(readlink -f "$0")")/python.py"
