#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs tests/daemon/guest-container.sh; that file says what it tests.
exec "$(dirname "$(readlink -f "$0")")/../daemon/guest-container.sh"
