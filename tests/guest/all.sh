#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# In the guest: runs every test program (executables here and in build/, or in the directories
# $TEST_DIRS), each with the module freshly loaded, and unloads it afterwards: a program that leaves
# something behind which holds the module fails by that, under its own name. $TESTS, if set, names
# those to run. $LSMEM_MODULE: the module, where it is not built for the stock kernel.
here=$(dirname "$(readlink -f "$0")")
top=$here/../..
module=${LSMEM_MODULE:-$top/kmod/lsmem.ko}

# What the module needs from other modules; insmod does not look for it.
depends=$(modinfo -F depends "$module" | tr , ' ')
[ -z "$depends" ] || modprobe -a -q $depends

loaded() {
	[ -d /sys/module/lsmem ]
}

# Reports whether the module could be unloaded after a program, as a test of its own.
unload() {
	echo "# begin $1.unload"
	echo "1..1"
	if ! loaded || rmmod lsmem; then
		echo "ok 1 the module can be unloaded"
	else
		echo "not ok 1 the module can be unloaded"
		grep . /sys/module/lsmem/refcnt /sys/module/lsmem/holders/* 2>/dev/null |
			sed 's/^/# /'
	fi
	echo "# end $1.unload exit=0"
}

run() {
	name=$(basename "$1")
	ran="$ran $name"
	echo "lsmem-test: begin $name" > /dev/kmsg
	loaded || insmod "$module" || echo "# cannot load $module before $name"
	udevadm settle --timeout=10
	"$top/tests/tap-run" "$name" "$1"
	# A program that was killed leaves the drives to others.
	dmsetup remove_all > /dev/null 2>&1
	unload "$name" 2>&1
}

ran=
for directory in ${TEST_DIRS:-"$here" "$here/build"}; do
	for program in "$directory"/*; do
		[ -f "$program" ] && [ -x "$program" ] && [ "$program" != "$here/all.sh" ] ||
			continue
		case " ${TESTS:-$(basename "$program")} " in
		*" $(basename "$program") "*) run "$program" ;;
		esac
	done
done

for name in $TESTS; do
	case "$ran " in
	*" $name "*) ;;
	*) printf '# begin %s\n1..1\nnot ok 1 it is built\n# end %s exit=1\n' "$name" "$name" ;;
	esac
done
