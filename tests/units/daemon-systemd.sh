#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The units of lsmemd under systemd: see there.
exec "$(dirname "$(readlink -f "$0")")/../daemon/guest-systemd.sh"
