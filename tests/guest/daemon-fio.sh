#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The jobs of tests/fio: see there.
exec "$(dirname "$(readlink -f "$0")")/../daemon/guest-fio.sh"
