#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# LMDB, unchanged, with its database in a region: data.mdb is a link to an inherited descriptor.  LMDB's
# own tests, and its tools, of which a dump is compared with that of a file.  The Makefile has built LMDB
# from Debian's source.
. "$(dirname "$0")/lib.sh"
lmdb=$(dirname "$(readlink -f "$0")")/build/lmdb
[ -x "$lmdb/mtest" ] || { echo "1..0 # SKIP no source of LMDB when the tests were built"; exit 0; }
export LSMEM_SEED=${LSMEM_SEED:-$RANDOM}
echo "# seed $LSMEM_SEED"
store_create --size 256M
used=$(value handles_used)
cd "$scratch" || exit 1

# on COMMAND ..: run a command that has the region as descriptor 9
on() { "$lmdb/on_region" "/dev/$store" "$scratch/root" 9 "$@"; }

# in_file COMMAND ..: run a command where the database is in a file
in_file() { (cd plain && "$@"); }

# fresh: an empty region, and a directory testdb for it
fresh()
{
	remove_region
	rm -rf testdb
	mkdir testdb && ln -s /proc/self/fd/9 testdb/data.mdb
}

remove_region() { [ ! -e root ] || "$lmdb/on_region" "/dev/$store" root; }

# unplaced: a dump without the address where LMDB has mapped the database
unplaced() { grep -v '^mapaddr='; }

dump() { "$lmdb/mdb_dump" "$@" | unplaced; }

drop() { echo 3 >/proc/sys/vm/drop_caches; }

# Each of LMDB's tests, and the option of mdb_dump for what it leaves in the database
while read -r name option; do
	fresh
	rm -rf plain
	mkdir -p plain/testdb
	run in_file "$lmdb/$name"
	is "$name in a file" "$status" 0
	run on "$lmdb/$name"
	is "$name in a region" "$status" 0
	drop
	ok "$name: what mdb_stat says" eval 'in_file "$lmdb/mdb_stat" -a testdb >of-file &&
		on "$lmdb/mdb_stat" -a testdb >of-region && cmp of-file of-region'
	ok "$name: the same database" eval 'in_file dump $option testdb >of-file &&
		on "$lmdb/mdb_dump" $option testdb | unplaced >of-region && cmp of-file of-region'
	rm -rf copy
	mkdir copy
	ok "$name: a copy in a file" eval 'on "$lmdb/mdb_copy" testdb copy &&
		dump $option copy >of-copy && cmp of-file of-copy'
	echo "# $(grep -c '^ ' of-region) lines"
done <<- 'END'
	mtest
	mtest2 -sid1
	mtest3 -sid2
	mtest4 -sid4
	mtest5 -sid2
	mtest6 -sid6
END

# input NR: entries for mdb_load
input()
{
	printf 'VERSION=3\nformat=print\ntype=btree\nmapsize=67108864\nHEADER=END\n'
	seq "$1" | awk '{ printf " key %08d\n value %d of %s\n", $1, $1 * 7919, substr("'"$(printf '%0200d' 0)"'", $1 % 200) }'
	echo 'DATA=END'
}
input 20000 >text
rm -rf plain
mkdir plain
fresh
run "$lmdb/mdb_load" -f text plain
is 'loaded into a file' "$status" 0
run on "$lmdb/mdb_load" -f text testdb
is 'loaded into a region' "$status" 0
drop
dump plain >of-file
on "$lmdb/mdb_dump" testdb >of-region
ok 'the dumps are equal' cmp of-file of-region
is 'with all entries' "$(grep -c '^ 6b6579' of-region)" 20000
fresh
run on "$lmdb/mdb_load" -f of-file testdb
is 'loaded from the dump' "$status" 0
on "$lmdb/mdb_dump" testdb >again
ok 'the same again' cmp of-file again
length=$(on stat -L -c %s /proc/self/fd/9)
is 'as long as the file' "$length" "$(stat -c %s plain/data.mdb)"
pages=$(($(value handles_used) - used))
ok "its pages are in the store ($pages objects)" test "$pages" -ge $((length / 4096 / 2))
ok 'removed' remove_region
is 'nothing is left of it' "$(value handles_used)" "$used"
cd /
ok 'the store can be destroyed' store_destroy
tap_end
