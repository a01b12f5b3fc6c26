#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# lsmemctl without the module: command lines, backups in files, imaginary stores.
set -u
. "$(dirname "$(readlink -f "$0")")/../guest/lib.sh"

# field EXPRESSION: evaluate a Python expression; v is the JSON on standard input
field()
{
	python3 -c "import json, sys; v = json.load(sys.stdin); print($1)"
}

# ---- Command lines ----------------------------------------------------------

refused "no command" 2 "usage: lsmemctl"
refused "unknown command" 2 "unknown command 'frobnicate'" frobnicate
for command in create destroy list stat top clean sync scan spread backups move tier pages check format; do
	ok "$command --help" sh -c "'$lsmemctl' $command --help | grep -q '^usage: lsmemctl $command'"
	refused "$command with an unknown option" 2 "unknown option --frobnicate" \
		"$command" --frobnicate
done
refused "move, cancel nothing" 2 "STORE" move --cancel
refused "create without a size" 2 "size is missing" create
refused "create with an odd size" 2 "multiple of 8M" create --size 100M
refused "create, no number" 2 "write 256M or 1G" create --size lots
refused "create, wrong kind" 2 "object or block" create --size 128M --kind file
refused "create, wrong mode" 2 "write 0600" create --size 128M --mode rw
refused "create, no such user" 2 "no such user" create --size 128M --owner nobody-of-that-name
refused "create, handles for blocks" 2 "object stores" create --size 128M --kind block --handles 5
refused "create, capacity of a volatile store" 2 "with --durable" create --size 128M --capacity 256M
refused "create, instant restarts of a volatile store" 2 "with --durable" create --size 128M --instant
refused "create, capacity below the size" 2 "at least --size" \
	create --durable --size 256M --capacity 128M
refused "create, odd capacity" 2 "multiple of 8M" create --durable --size 128M --capacity 260M
refused "stat without a store" 2 "STORE is missing" stat
refused "destroy of what is no store" 2 "is not a store" destroy /dev/null
refused "sync, no time" 2 "write 5, 0.5" sync lsmem --timeout soon
refused "scan without a store" 2 "STORE is missing" scan --sum u32@0
for column in "" u16@0 u32 u32@ u32@-4 u32@0y u32@4x0 u32@4x f64@1048576; do
	refused "scan, column '$column'" 2 "write u32@4" scan lsmem --sum "$column"
done
for column in f64@0 u32@4x2 i64@; do
	refused "scan, group '$column'" 2 "write u32@4" scan lsmem --group-by "$column"
done
for where in u32@4 "u32@4!5" "u32@4<" "u32@4<x" "u32@4=4294967296" "u64@0>-1" "i64@0<9223372036854775808" "f64@0=nan"; do
	refused "scan, where '$where'" 2 "write 'u32@4<100'" scan lsmem --where "$where"
done
refused "scan, no table" 2 "below 4096" scan lsmem --table 4096
refused "scan, no plan" 2 "auto, table or log" scan lsmem --plan lookup
refused "scan, no threads" 2 "from 1 to 64" scan lsmem --threads 0
refused "scan, top of nothing" 2 "of which --sum" scan lsmem --top 3
refused "scan, histogram of nothing" 2 "of which --sum" scan lsmem --histogram 3
for bounds in "" 1, ,1 1,,2 1,1 2,1 1x -1 4294967296 1.5; do
	refused "scan, histogram '$bounds'" 2 "ascending numbers" scan lsmem --histogram "$bounds" --sum u32@0
done
refused "scan, histogram without a number" 2 "ascending numbers" scan lsmem --sum f64@0 --histogram nan
refused "scan, histogram of 65 bounds" 2 "at most 64" scan lsmem --sum u32@0 --histogram "$(seq -s , 65)"
refused "spread of nothing" 2 "what is to become of the values" spread lsmem
refused "spread, twice" 2 "one of --set" spread lsmem --set u32@0=1 --add u32@0=1
for change in u32@0 u32@0=-1 u32@0=4294967296 u64@0=x "f64@0=" f64@0=inf u32@0x2=1 u16@0=1; do
	refused "spread, set '$change'" 2 "write u32@4=1" spread lsmem --set "$change"
done
refused "spread, scale by no number" 2 "write u32@4=1" spread lsmem --scale u32@0=nan
refused "spread, share beyond the type" 2 "write u32@4=1" spread lsmem --share u64@0=9223372036854775808
refused "spread, no weight" 2 "write u32@4, i64@0" spread lsmem --share f64@0=1 --weight f64@0x2
refused "spread, weight without shares" 2 "only with --share" spread lsmem --add f64@0=1 --weight f64@8
refused "spread, weight of decimals" 2 "a weight of integers" spread lsmem --share u32@0=1 --weight f64@8
for resume in 0 5/5 /5 x 5x; do
	refused "spread, resume '$resume'" 2 "has printed" spread lsmem --add f64@0=1 --resume "$resume"
done
for resume in 5 5/ 5/x /1.5 0/1.5; do
	refused "spread, resume '$resume' of shares" 2 "has printed" spread lsmem --share f64@0=1 --resume "$resume"
done

if [ ! -e /sys/module/lsmem ]; then
	refused "list, no module" 1 "modprobe lsmem" list
	refused "create, no module" 1 "modprobe lsmem" create --size 128M
	refused "stat, no module" 1 "modprobe lsmem" stat lsmem
	refused "top, no module" 1 "modprobe lsmem" top
	refused "tier, no module" 1 "modprobe lsmem" tier
	refused "tier of a store, no module" 1 "modprobe lsmem" tier lsmem
	refused "pages, no module" 1 "modprobe lsmem" pages
	refused "clean, no module" 1 "modprobe lsmem" clean lsmem
	refused "sync, no module" 1 "modprobe lsmem" sync lsmem
	refused "scan, no module" 1 "modprobe lsmem" scan lsmem
	refused "spread, no module" 1 "modprobe lsmem" spread lsmem --set u32@0=1
	refused "destroy, no module" 1 "modprobe lsmem" destroy lsmem
fi

# ---- Stores in files --------------------------------------------------------

cleaning=$(dirname "$(readlink -f "$0")")/cleaning.py

# apart COMMAND ..: run a command with a private /run, and a private /sys with only an empty class/
apart()
{
	local options=-m

	[ "$(id -u)" = 0 ] || options=-rm
	unshare $options sh -c 'mount -t tmpfs none /run && mount -t tmpfs none /sys &&
		mkdir /sys/class && exec "$@"' sh "$@"
}

for name in $("$cleaning" --list); do
	ok "$name" apart "$cleaning" "$lsmemctl" "$name"
done

# ---- Backups in files -------------------------------------------------------

backup=$scratch/backup
refused "check of nothing" 1 "No such file" check "$backup"
refused "format, too small" 1 "too small" format "$backup" --create 128M --size 128M
ok "a file that could not be formatted is not left" [ ! -e "$backup" ]
is "format, blank" "$("$lsmemctl" format "$backup" --create 256M --json | field "v['verdict']")" blank
is "check, blank" "$("$lsmemctl" check "$backup" --json | field "v['verdict']")" blank
is "format" "$("$lsmemctl" format "$backup" --size 128M --json | field "v['kind'], v['store_bytes']")" \
	"object 134217728"
is "check" "$("$lsmemctl" check "$backup" --json | field "v['verdict'], v['losses']")" "sound 0"
refused "format, unforced" 1 "gives that up for good" format "$backup" --size 128M
exec 9< "$backup"
flock 9
refused "check of a backup in use" 1 "held by a running lsmemd" check "$backup"
refused "format of what is in use" 1 "held by a running lsmemd" format "$backup" --force
exec 9<&-
dd if=/dev/urandom of="$backup" bs=4096 count=1 conv=notrunc status=none
is "check, one superblock damaged" "$("$lsmemctl" check "$backup" --json | field "v['verdict']")" sound
dd if=/dev/urandom of="$backup" bs=4096 count=2 conv=notrunc status=none
is "check, both damaged" "$("$lsmemctl" check "$backup" --json | field "v['verdict']")" damaged
"$lsmemctl" check "$backup" > /dev/null 2>&1
is "check, both damaged: exit status" $? 3
refused "format of the damaged, unforced" 1 "gives that up" format "$backup"
ok "format of the damaged, forced" "$lsmemctl" format "$backup" --force
dd if=/dev/urandom of="$backup" bs=4096 seek=16 count=1 conv=notrunc status=none
is "check, contents of another program" "$("$lsmemctl" check "$backup" --json 2> /dev/null |
	field "v['verdict']")" damaged
refused "format over contents of another program" 1 "is not blank" format "$backup"
ok "format of it, forced" "$lsmemctl" format "$backup" --force --size 128M
is "check of that" "$("$lsmemctl" check "$backup" --json | field "v['verdict']")" sound
refused "format, too small for the capacity" 1 "twice its capacity" \
	format "$backup" --force --size 128M --capacity 256M
refused "format, too much capacity" 2 "64 times" format "$backup" --force --size 128M --capacity 10G
rm -f "$backup"
is "format, tiered" "$("$lsmemctl" format "$backup" --create 512M --size 128M --capacity 256M --json |
	field "v['store_bytes'], v['capacity'], v['max_handles']")" "134217728 268435456 1048576"
is "check of that" "$("$lsmemctl" check "$backup" --json | field "v['verdict'], v['capacity']")" \
	"sound 268435456"
rm -f "$backup"

tap_end
