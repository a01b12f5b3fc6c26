#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# lsmemctl on stores, the example program, and the shared library.  If there is a drive at
# /dev/drive/log0, a durable store too.  tests/tools tests what needs no module.
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
drive=/dev/drive/log0

# field EXPRESSION: read JSON from standard input into v, and print the Python expression
field()
{
	python3 -c "import json, sys; v = json.load(sys.stdin); print($1)"
}

# clean_objects OPTION ..: write 800 objects to lsmem, free three quarters of them, run "lsmemctl
# clean", and check the others. Print the level, then True or False for each of: the request was
# done in full, segments were freed, bytes were freed, more seglets are free than before
clean_objects()
{
	python3 - "$top/tools/lib/liblsmem.so.1" "$lsmemctl" "$@" <<- 'END'
		import ctypes, json, subprocess, sys
		library, lsmemctl, *options = sys.argv[1:]
		lib = ctypes.CDLL(library)
		lsm = ctypes.c_void_p()
		assert lib.lsm_open(b"/dev/lsmem", 0, ctypes.byref(lsm)) == 0
		size = 60000
		handles = []
		for i in range(800):
		    handle = ctypes.c_uint64()
		    data = i.to_bytes(4, "little") * (size // 4)
		    assert lib.lsm_alloc(lsm, data, size, 0, ctypes.byref(handle), None) == 0
		    handles.append(handle)
		for i, handle in enumerate(handles):
		    assert i % 4 == 0 or lib.lsm_free(lsm, handle, 0, None) == 0
		lib.lsm_sync(lsm, 0)
		gain = json.loads(subprocess.check_output([lsmemctl, "clean", "lsmem", "--json", *options]))
		back = ctypes.create_string_buffer(size)
		for i, handle in list(enumerate(handles))[::4]:
		    assert lib.lsm_read(lsm, handle, back, size, 0, None) == size
		    assert back.raw == i.to_bytes(4, "little") * (size // 4), i
		    assert lib.lsm_free(lsm, handle, 0, None) == 0
		lib.lsm_close(lsm)
		print("#", gain, file=sys.stderr)
		print(gain["level"], gain["left"] == 0, gain["segments"] > 0, gain["freed_bytes"] > 0,
		      gain["free_seglets_after"] > gain["free_seglets_before"])
	END
}

# make_orders: write 150 objects to lsmem: number, region, price, and 0 to 3 quantities; some are too short
make_orders()
{
	python3 - "$top/tools/lib/liblsmem.so.1" <<- 'END'
		import ctypes, struct, sys
		lib = ctypes.CDLL(sys.argv[1])
		lsm = ctypes.c_void_p()
		assert lib.lsm_open(b"/dev/lsmem", 0, ctypes.byref(lsm)) == 0
		for i in range(150):
		    handle = ctypes.c_uint64()
		    data = struct.pack("<IIdi", i, i % 7, i / 4, -1)[:16 if i % 50 else 8]
		    data += struct.pack("<q", -i * 2**40) * (i % 4 if i % 50 else 0)
		    table = (5 if i % 10 else 6) << 16
		    assert lib.lsm_alloc(lsm, data, len(data), table, ctypes.byref(handle), None) == 0
		lib.lsm_close(lsm)
	END
}

# scanned EXPRESSION OPTION ..: scan lsmem with these options, and print the Python expression; v is the result
scanned()
{
	local expression=$1

	shift
	"$lsmemctl" scan lsmem --json "$@" | field "$expression"
}

# spread EXPRESSION OPTION ..: the same with spread
spread()
{
	local expression=$1

	shift
	"$lsmemctl" spread lsmem --json "$@" 2> "$scratch/spread" | field "$expression"
}

# prices OPTION ..: number and price of each order, as they are at one version
prices()
{
	scanned "[(r['group'], float(r['sum'])) for r in v['rows']]" --exact --sum f64@8 --group-by u32@0 "$@"
}

# lose_race OPTION ..: "lsmemctl spread" of all prices, while two orders are replaced between its choice of objects and its
# first change. Print its exit status and result, what it says, and the prices of these orders
lose_race()
{
	python3 - "$top/tools/lib/liblsmem.so.1" "$lsmemctl" "$@" <<- 'END'
		import array, ctypes, fcntl, json, os, struct, subprocess, sys, termios, time
		lib = ctypes.CDLL(sys.argv[1])
		lsm = ctypes.c_void_p()
		assert lib.lsm_open(b"/dev/lsmem", 0, ctypes.byref(lsm)) == 0
		scan = [sys.argv[2], "scan", "lsmem", "--json", "--exact", "--sum", "f64@8", "--top", "2"]
		handles = [int(top["handle"], 16) for top in json.loads(subprocess.check_output(scan))["top"]]
		# Standard error takes the program's name, and the rest of the note that precedes the changes waits.
		reader, writer = os.pipe()
		size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
		name = len("lsmemctl spread: ")
		os.write(writer, b"." * (size - name))
		spread = subprocess.Popen([sys.argv[2], "spread", "lsmem", "--json", "--add", "f64@8=1", *sys.argv[3:]],
					  stderr=writer, stdout=subprocess.PIPE)
		there = array.array("i", [0])
		end = time.monotonic() + 60
		while there[0] < size and time.monotonic() < end:
		    fcntl.ioctl(reader, termios.FIONREAD, there)
		    os.sched_yield()
		assert there[0] == size and spread.poll() is None
		data = struct.pack("<IIdi", 1, 1, 5000, -1)
		for handle in handles:
		    assert lib.lsm_replace(lsm, ctypes.c_uint64(handle), data, len(data), 0, None) == 0
		os.close(writer)
		said = b""
		while part := os.read(reader, 4096):
		    said += part
		result = json.load(spread.stdout)
		lib.lsm_close(lsm)
		print(spread.wait(), result["selected"], result["changed"], result["lost"],
		      b"2 objects were changed by others" in said,
		      [float(top["value"]) for top in json.loads(subprocess.check_output(scan))["top"]])
	END
}

# memory_cgroups: does the kernel have them?  /proc/cgroups does not tell of those of version 2.
memory_cgroups()
{
	local root has
	awk '$1 == "memory" && $4 == 1 { found = 1 } END { exit !found }' /proc/cgroups && return 0
	root=$(mktemp -d)
	mount -t cgroup2 none "$root" || return 1
	grep -qw memory "$root/cgroup.controllers"
	has=$?
	umount "$root" && rmdir "$root"
	return "$has"
}

# ---- Volatile stores --------------------------------------------------------

refused "create, size too small for the kernel" 1 "128M to 1T" create --size 8M
refused "stat of no store" 1 "no such store" stat lsmem77
refused "destroy of no store" 1 "no such store" destroy lsmem77
is "list of nothing" "$("$lsmemctl" list)" ""
is "list of nothing, JSON" "$("$lsmemctl" list --json | field v)" "[]"
store_create --size 128M --handles 1000 --owner daemon:users --mode 0640
is "the first object store" "$store" lsmem
is "its node" "$(stat -c '%U:%G %a' /dev/lsmem)" "daemon:users 640"
is "create, JSON" "$("$lsmemctl" create --json --kind block --size 128M |
	field "'%s %s %s %d' % (v['name'], v['kind'], v['durability'], v['size_bytes'])")" \
	"lsmemb0 block volatile 134217728"
if memory_cgroups; then
	charged=$("$lsmemctl" create --charge --size 128M --json)
	is "create, charged" "$(field "v['name'], v['charged']" <<< "$charged") $(
		cat /sys/class/lsmem/lsmem1/charged)" "lsmem1 True 1"
	ok "destroy of it" "$lsmemctl" destroy lsmem1
else
	refused "create, charged, no cgroups" 1 "no memory cgroups" create --charge --size 128M
fi
is "memory by node" "$(tr ' ' '\n' < "$sys/node_bytes" | awk -F= '{ sum += $2 } END { print sum }')" \
	134217728
udevadm settle --timeout=10
is "list" "$("$lsmemctl" list | awk '{ print $1, $2, $3, $4, $5 }')" \
	"NAME KIND DURABILITY STATE SIZE
lsmem object volatile active 128M
lsmemb0 block volatile active 128M"
is "list, JSON" "$("$lsmemctl" list --json | field "[s['name'] for s in v]")" "['lsmem', 'lsmemb0']"
is "stat is what sysfs says" "$("$lsmemctl" stat lsmem --json |
	field "v['handles_max'], v['seglets'], v['cleaner']['free_low'], v['stats']['appends']")" \
	"1000 $(value seglets) $(value cleaner/free_low) 0"
ok "stat, /dev/ before the name" "$lsmemctl" stat /dev/lsmem
ok "stat as a table" sh -c "'$lsmemctl' stat lsmem | grep -q '^cleaner.free_low '"
is "the example program" "$("$top/tools/example/example")" "hello hello"
is "it left no object" "$(value handles_used)" 0
is "stat --watch ends when its reader has gone" \
	"$("$lsmemctl" stat lsmem --watch --interval 50ms | head -3 | wc -l)" 3
is "stat --watch, JSON" "$("$lsmemctl" stat lsmem --watch -i 0.05 --json | head -2 |
	tail -1 | field "v['name']")" lsmem
is "top, JSON" "$("$lsmemctl" top lsmem lsmemb0 --count 1 --interval 0.05 --json | field \
	"[(s['name'], s['balancer'], s['level'], s['append'], s['clean']['time_percent'],
	   s['compact']['copied_per_freed'], s['throttles']['per_second'], s['waits']['max_us'],
	   len(s['segments_by_memory']), len(s['segments_by_backup'])) for s in v['stores'][:1]]")" \
	"[('lsmem', 'adaptive', 'none', {'bytes_per_second': 0.0, 'operations_per_second': 0.0}, 0.0, \
None, 0.0, None, 10, 10)]"
ok "top, all stores" sh -c "'$lsmemctl' top -n 1 -i 0.05 | grep -q '^lsmemb0: block, volatile, active'"
is "tier of no tiered store" "$("$lsmemctl" tier --json | field v)" "[]"
refused "tier of a store without a tier" 1 "lsmem: is not tiered" tier lsmem
is "pages of all object stores" "$("$lsmemctl" pages --json |
	field "[(s['name'], s['ranges'], s['buffered_bytes'], s['sync_us']) for s in v]")" \
	"[('lsmem', 0, 0, None)]"
refused "pages of a block store" 1 "lsmemb0: has no ranges of pages" pages lsmemb0
make_orders
for plan in table log; do
	is "scan, plan $plan" "$(scanned "(v['objects'], v['short'], v['selected'], v['rows'][0]['sum'],
		v['rows'][0]['max'], v['explain']['plan'], bool(v['version']))" --plan $plan --sum f64@8 --threads 2)" \
		"$(python3 -c "print((150, 3, 147, sum(i / 4 for i in range(150) if i % 50), 149 / 4, '$plan', '$plan' == 'log'))")"
	is "scan of groups, plan $plan" "$(scanned "[(r['group'], r['objects'], r['sum'], r['min'], float(r['average']))
		for r in v['rows']]" --plan $plan --sum u32@0 --group-by u32@4 --table 5 --where 'u32@0<100' --where 'u32@0>=10')" \
		"$(python3 -c "
rows = [[i for i in range(10, 100) if i % 10 and i % 7 == g] for g in range(7)]
print([(g, len(r), sum(r), min(r), sum(r) / len(r)) for g, r in enumerate(rows)])")"
done
is "scan of all values of an object, and the top" "$(scanned "(v['selected'], v['rows'][0]['count'],
	v['rows'][0]['sum'], [t['value'] for t in v['top']])" --exact --sum i64@16x* --top 2)" "$(python3 -c "
values = [-i * 2**40 for i in range(150) if i % 50 for j in range(i % 4)]
print((len([i for i in range(150) if i % 50 and i % 4]), len(values), sum(values), sorted(values)[:-3:-1]))")"
is "scan, a histogram" "$(scanned "[(h['from'] and float(h['from']), h['below'] and float(h['below']), h['values'])
	for h in v['histogram']]" --exact --histogram -1e2,10,10.25,30 --sum f64@8 --sum u32@0)" "$(python3 -c "
values = [i / 4 for i in range(150) if i % 50]
bounds = [-100, 10, 10.25, 30]
number = lambda bound: None if bound is None else float(bound)
print([(number(a), number(b), sum((a is None or v >= a) and (b is None or v < b) for v in values))
       for a, b in zip([None] + bounds, bounds + [None])])")"
is "scan, a histogram of integers" "$(scanned "[(h['from'], h['below'], h['values']) for h in v['histogram']]" \
	--sum u32@0 --histogram 100 --where 'u32@0>=90')" "$(python3 -c "
values = range(90, 150)
print([(None, 100, sum(v < 100 for v in values)), (100, None, sum(v >= 100 for v in values))])")"
ok "scan, a histogram as a table" sh -c "'$lsmemctl' scan lsmem --sum u32@0 --histogram 10 | grep -q '^ *10  *-  *[0-9]'"
# A terminal shows how far it is, from the first step on, and then wipes that out.  Nothing else does.
terminal=$(script -qec "'$lsmemctl' scan lsmem --sum u32@0" /dev/null < /dev/null | tr '\r' '\n')
ok "scan, progress on a terminal" grep -q '^ *[0-9]* %$' <<< "$terminal"
ok "scan, progress is wiped out" grep -q $'^\033\\[K' <<< "$terminal"
is "scan, no progress elsewhere" "$("$lsmemctl" scan lsmem --sum u32@0 2>&1 > /dev/null)" ""
is "scan of nothing" "$(scanned "(v['selected'], v['rows'][0]['sum'], v['rows'][0]['min'])" \
	--sum u32@0 --where 'u32@0>4294967295')" "(0, 0, None)"
ok "scan as a table" sh -c "'$lsmemctl' scan lsmem --sum f64@8 | grep -q '^f64@8  *147 '"
ok "scan, explained" sh -c "'$lsmemctl' scan lsmem --explain | grep -q '^[* ] log '"
is "scan, explained, JSON" "$("$lsmemctl" scan lsmem --explain --json --plan log |
	field "(v['plan'], v['objects'], sorted(v['cost_ns']))")" "('log', 150, ['log', 'table'])"
refused "scan of a block store" 1 "lsmemb0" scan lsmemb0

orders="orders = [i for i in range(150) if i % 50]"
before=$(prices)
is "spread, dry run" "$(spread "(v['dry_run'], v['selected'], v['changed'], v['short'])" --set f64@8=1.5 \
	--where 'u32@4=3' --table 5 --dry-run)" "(True, 19, 0, 0)"
is "spread, dry run, as text" "$("$lsmemctl" spread lsmem --set f64@8=1.5 -w 'u32@4=3' -t 5 -n)" \
	"19 objects would be changed, 0 are too short"
is "a dry run changes nothing" "$(prices)" "$before"
is "spread, set" "$(spread "(v['dry_run'], v['selected'], v['changed'], v['lost'], v['gone'], v['beyond'])" \
	--set f64@8=1.5 --where 'u32@4=3' --table 5 --threads 2)" "(False, 19, 19, 0, 0, 0)"
is "values after it" "$(prices)" "$(python3 -c "$orders
print([(i, 1.5 if i % 7 == 3 and i % 10 else i / 4) for i in orders])")"
is "spread, scale, as text" "$("$lsmemctl" spread lsmem --scale f64@8=-2 --where 'u32@0>=100' 2> "$scratch/err" |
	sed 's/, [0-9.]* s$//')" "49 of 49 objects changed, 0 freed, 3 too short"
ok "it says how to go on" grep -q 'and --resume [1-9][0-9]*$' "$scratch/err"
is "values after it" "$(prices --where 'u32@0>=100')" "$(python3 -c "$orders
print([(i, -2 * (1.5 if i % 7 == 3 and i % 10 else i / 4)) for i in orders if i > 100])")"
spread v --set f64@8=0 > /dev/null
resume=$(spread "v['resume']" --share f64@8=1000 --weight u32@0 --table 5)
is "spread, share" "$(prices)" "$(python3 -c "$orders
all = sum(i for i in orders if i % 10)
print([(i, 1000 * (i / all) if i % 10 else 0.0) for i in orders])")"
is "it goes on with the others" "$(spread "(v['selected'], v['changed'], v['resume'])" --share f64@8=1000 \
	--weight u32@0 --resume "$resume")" "(12, 12, '$resume')"
is "values after it" "$(prices)" "$(python3 -c "$orders
all = sum(i for i in orders if i % 10)
print([(i, 1000 * (i / all)) for i in orders])")"
is "shares of integers are rounded" "$(spread "(v['changed'], v['weights'], v['given'])" --share u32@4=100 --table 6)" \
	"(15, 15, 90)"
resume=$(spread "v['resume']" --add u32@4=1000 --table 6)
spread v --add u32@4=1000 --resume "$resume" > /dev/null
is "an addition goes on" "$(scanned "(v['rows'][0]['min'] >= 1000, v['rows'][0]['max'] < 2000)" --sum u32@4)" "(True, True)"
run "$lsmemctl" spread lsmem --add u32@4=-2000
is "spread, beyond the type: exit status" "$status" 1
ok "spread, beyond the type: says so" grep -q '150 objects have no number there, or would have one beyond' "$scratch/err"
is "spread, beyond the type: as before" "$(scanned "v['rows'][0]['min'] >= 1000" --sum u32@4)" True
spread v --set f64@8=1000 > /dev/null
is "spread, others change objects meanwhile" "$(lose_race)" "1 147 145 2 True [5000.0, 5000.0]"
spread v --set f64@8=1000 > /dev/null
is "in groups, too" "$(lose_race --groups)" "1 147 145 2 True [5000.0, 5000.0]"
spread v --set u32@4=0 > /dev/null
refused "spread, weights are all 0" 1 "all are 0" spread lsmem --share f64@8=1 --weight u32@4
refused "spread of a block store" 1 "lsmemb0" spread lsmemb0 --set u32@0=1
snapshots=$(value limits/snapshots_max)
echo 0 > "$sys/limits/snapshots_max"
refused "spread without a snapshot" 1 "limits/snapshots_max" spread lsmem --set u32@0=1
echo "$snapshots" > "$sys/limits/snapshots_max"
is "clean of a store without segments" "$("$lsmemctl" clean lsmemb0 --json | field "v['asked']")" 0
is "clean --compact" "$(clean_objects --compact)" "compact True True True True"
is "clean" "$(clean_objects)" "clean True True True True"
ok "stat says what it cost" sh -c "'$lsmemctl' stat lsmem | grep -q '^cleaning.clean.copied_per_freed  *[0-9]'"
is "clean by nobody" "$(setpriv --reuid nobody --clear-groups "$lsmemctl" clean lsmem -n 1 2>&1)" \
	"lsmemctl clean: lsmem: not permitted: only root has segments cleaned"
refused "sync of a volatile store" 1 "is volatile" sync lsmem
exec 9< /dev/lsmem
refused "destroy of an open store" 1 "is open, mapped" destroy lsmem
exec 9<&-
ok "destroy" store_destroy
is "destroy, JSON" "$("$lsmemctl" destroy lsmemb0 --json | field v)" "{'destroyed': 'lsmemb0'}"
is "nothing is left" "$("$lsmemctl" list)" ""

# ---- A durable store --------------------------------------------------------

# write_objects NUMBER: write objects of 5000 bytes with the shared library, sync, and read some of
# them from first to last
write_objects()
{
	python3 - "$top/tools/lib/liblsmem.so.1" "$1" <<- 'END'
		import ctypes, sys
		lib = ctypes.CDLL(sys.argv[1])
		lsm = ctypes.c_void_p()
		assert lib.lsm_open(b"/dev/lsmem", 0, ctypes.byref(lsm)) == 0
		last = int(sys.argv[2]) - 1
		handles = {}
		for i in range(last + 1):
		    data = bytes([i % 251]) * 5000
		    handle = ctypes.c_uint64()
		    assert lib.lsm_alloc(lsm, data, 5000, 0, ctypes.byref(handle), None) == 0
		    if i % 400 == 0 or i == last:
		        handles[i] = handle
		assert lib.lsm_sync(lsm, 0) == 0
		back = ctypes.create_string_buffer(6000)
		for i, handle in handles.items():
		    assert lib.lsm_read(lsm, handle, back, 6000, 0, None) == 5000
		    assert back.raw[:5000] == bytes([i % 251]) * 5000
		lib.lsm_close(lsm)
	END
}

daemon_start()	# on a blank drive
{
	export STATE_DIRECTORY="$scratch/state"
	rm -rf "$STATE_DIRECTORY"
	"$top/daemon/lsmemd" -c "$scratch/conf" --init > "$scratch/daemon.log" 2>&1
	"$top/daemon/lsmemd" -c "$scratch/conf" >> "$scratch/daemon.log" 2>&1 &
	daemon=$!
	for tries in $(seq 600); do
		[ "$(cat /sys/class/lsmem/lsmem/state 2> /dev/null)" = active ] &&
			[ -e /dev/lsmem ] && break
		kill -0 "$daemon" 2> /dev/null || break
		sleep 0.1
	done
}

daemon_stop()
{
	kill -TERM "$daemon" && wait "$daemon"
}

durable()
{
	printf '[store]\nsize = 128M\n[backup]\npath = %s\n' "$drive" > "$scratch/conf"
	ok "format of a drive" "$lsmemctl" format "$drive" --force
	daemon_start
	is "lsmemd brings the store up" "$("$lsmemctl" list --json |
		field "v[0]['durability'], v[0]['state']")" "durable active"
	sed 's/^/# lsmemd: /' "$scratch/daemon.log"
	ok "the shared library: 3000 objects, then sync" write_objects 3000
	ok "sync" "$lsmemctl" sync lsmem
	ok "sync, JSON" sh -c "'$lsmemctl' sync lsmem --json --timeout 20 | grep -q microseconds"
	refused "check under a daemon" 1 "lsmemd" check "$drive"
	refused "format under a daemon" 1 "lsmemd" format "$drive" --force
	refused "destroy under a daemon" 1 "attached to its daemon" destroy lsmem
	ok "lsmemd stops" daemon_stop
	# As udev does when a drive has been closed
	flock -s "$drive" sh -c 'echo > "$0"; exec sleep 1' "$scratch/locked" &
	until [ -s "$scratch/locked" ]; do sleep 0.05; done
	refused "format of an active store's backup" 1 "which is active" format "$drive" --force
	refused "clean without a daemon" 1 "no daemon is attached" clean lsmem --segments 1
	is "check of what it wrote" "$("$lsmemctl" check "$drive" --json |
		field "v['verdict'], v['objects'], v['losses']")" "sound 3000 0"
	ok "destroy of what is all on its backup" "$lsmemctl" destroy lsmem
	# Change one byte of an object's data; a CRC covers it.
	damage=$(grep -obUaP -m1 '\x64{64}' "$drive" | head -1 | cut -d: -f1)
	printf 'X' | dd of="$drive" bs=1 seek=$((damage + 10)) conv=notrunc,fsync status=none
	"$lsmemctl" check "$drive" > "$scratch/out" 2> "$scratch/err"
	is "check of a flipped byte: exit status" $? 3
	ok "check of a flipped byte: the verdict" grep -q "^verdict .*damaged" "$scratch/out"
	ok "check of a flipped byte: the loss is named" grep -qi "segment" "$scratch/err"
	ok "format makes it blank" "$lsmemctl" format "$drive" --force
	daemon_start
	is "clean of a durable store" "$(clean_objects --wait 60)" "clean True True True True"
	is "clean of more than can be gained" "$("$lsmemctl" clean lsmem --segments 1000 --json |
		field "v['left'], v['segments'] < 1000")" "0 True"
	ok "lsmemd stops after cleaning" daemon_stop
	ok "destroy of what was cleaned" "$lsmemctl" destroy lsmem
}

tiered()	# memory for fewer objects than are written
{
	printf '[store]\nsize = 128M\ncapacity = 320M\n[backup]\npath = %s\n' "$drive" > "$scratch/conf"
	ok "format of a drive, for a tiered store" "$lsmemctl" format "$drive" --force
	daemon_start
	ok "the shared library: 32000 objects" write_objects 32000
	"$lsmemctl" tier lsmem --json > "$scratch/tier"
	is "tier: memory, capacity, failures" \
		"$(field "v[0]['memory_bytes'], v[0]['capacity_bytes'], v[0]['failures']" < "$scratch/tier")" \
		"$((128 << 20)) $((320 << 20)) 0"
	is "tier: objects have left memory" "$(field \
		"v[0]['cold_bytes'] > 16 << 20, v[0]['evicted_bytes'] > 16 << 20" < "$scratch/tier")" "True True"
	is "tier: some were fetched" "$(field "v[0]['fetches'] > 0, v[0]['fetched_bytes'] >= 5000,
		v[0]['mean_us'] > 0, v[0]['p99_us'] > 0" < "$scratch/tier")" "True True True True"
	is "tier: all tiered stores, a line for each interval" \
		"$("$lsmemctl" tier -i 0.05 -n 2 --json | tail -1 |
			field "v['stores'][0]['name'], v['stores'][0]['fetches_per_second']")" "lsmem 0.0"
	ok "tier as a table" sh -c "'$lsmemctl' tier lsmem | grep -q '^lsmem  *128M  *320M '"
	ok "lsmemd of a tiered store stops" daemon_stop
	ok "destroy of a tiered store" "$lsmemctl" destroy lsmem
}

if [ -b "$drive" ] && [ -x "$top/daemon/lsmemd" ]; then
	durable
	tiered
else
	count=$((count + 1))
	echo "ok $count - a durable store # SKIP there is no $drive"
fi
tap_end
