#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Runs the commands of the README's section "Ten lines of use" in order, except those that build.
# The backup is on a filesystem on the first drive; everything on that drive is lost.
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
drive=/dev/drive/log0
[ -b $drive ] || { echo "1..0 # SKIP no $drive"; exit 0; }

# Print the literal blocks of the section without the lines that run make, and with the path of the
# module that was built for this kernel
pasted()
{
	python3 - "$top/README.rst" "${LSMEM_MODULE:-kmod/lsmem.ko}" <<- 'END'
		import re, sys
		page, module = sys.argv[1:]
		section = open(page).read().split("\nTen lines of use\n")[1].split("\nHow it works\n")[0]
		for block in re.findall(r"::\n\n((?:    .*\n|\n)+)", section):
		    for line in block.splitlines():
		        if line.startswith("    ") and not line.startswith("    make "):
		            print(line[4:].replace("kmod/lsmem.ko", module))
	END
}

at_end()
{
	umount /srv 2>/dev/null
	rm -f /tmp/demo.conf /tmp/demo.root
	at_exit
}
trap at_end EXIT

pasted > "$scratch/shell"
modprobe -nq libcrc32c || sed -i "s/modprobe -q libcrc32c; //" "$scratch/shell"
ok "there are lines" grep -q 'daemon/lsmemd .* --init' "$scratch/shell"
ok "a filesystem for the backup" eval \
	'mkfs.ext4 -qF $drive && mount $drive /srv && ! grep -q "^lsmem " /proc/modules || rmmod lsmem'
ok "the lines work" eval '(cd "$top" && bash -ex "$scratch/shell") > "$scratch/said"'
is "the program says so, twice" "$(grep -c '^hello hello$' "$scratch/said")" 2
is "the counter goes on after a restart" "$(grep -x "[0-9]" "$scratch/said" | xargs)" "1 2"
is "no store is left" "$("$lsmemctl" list)" ""
ok "the backup is" test -s /srv/lsmem.log
tap_end
