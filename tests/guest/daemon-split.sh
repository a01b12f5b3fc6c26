#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lsmemd with the module: see there.
exec "$(dirname "$(readlink -f "$0")")/../daemon/guest-split.sh"
