# SPDX-License-Identifier: GPL-2.0
# Common to the tests of the daemon: sourced, not run.
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../common/tap.sh"
lsmemd=$(realpath "${LSMEMD:-$(dirname "$0")/../../daemon/lsmemd}")
[ -x "$lsmemd" ] || { echo "Bail out! $lsmemd is not built"; exit 1; }
# lsmemd records here which store a configuration serves: see lsmemd(8), FILES.
export STATE_DIRECTORY=$scratch/state
