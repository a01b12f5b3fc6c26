#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Stores by name and by uuid: see there.
exec "$(dirname "$(readlink -f "$0")")/../daemon/guest-names.sh"
