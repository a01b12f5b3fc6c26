#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the guest of a power-cut test: an object store on the drive "objects" and a block store on
# the drive "blocks", each with its daemon.
#
# usage: stores.sh up			load the module, start the daemons, wait until both serve
#        stores.sh load			write to both stores until the power is cut
#        stores.sh verify		"up", then check every slot against the journals outside
#
# If $FIO is set, fio uses the rest of the block device: "load" writes at random with checksums,
# "verify" reads and checks all of it (host/fio.json). If $STATS is set, "load" writes figures of
# both stores to host/stat-STORE.json once a second.
#
# $OBJECTS_SIZE and $BLOCKS_SIZE are the sizes of the stores (128M each); $LIVE is the live share of
# the object store, per mille of its capacity (900). With $CAPACITY both stores are tiered, of that
# capacity, and the objects larger: each takes a fetch.
#
# $RANGES is the number of atomic ranges of pages in the object store (0), of $RANGE_PAGES pages each
# (1024), with transactions of up to $MOST pages (2048); there is one more range, which is not atomic.
# $ITEMS is the number of keys of a table in the object store (0).
# With $PAGES_ONLY there are neither objects nor a block store.
#
# With $CODE, K+M, both stores are coded, on the drives objects0, objects1 .. and blocks0, blocks1 .. . $MISSING are numbers of
# drives that are not there in this boot; without it "up" waits until all shards are there.
set -eu
here=$(dirname "$(readlink -f "$0")")
. "$here/lib.sh"

slots() {
	if [ -n "${CAPACITY:-}" ]; then
		echo $((${CAPACITY%M} * 128))
	else
		echo $((${OBJECTS_SIZE%M} * 512))
	fi
}

# Run fio on the part of the block device that `acked` does not use; each block has a checksum.
fio_rest() {	# name options...
	name=$1; shift
	fio --name="$name" --filename=/dev/lsmemb0 --direct=1 --bs=4k --offset=$((BLOCK_SLOTS * 4096)) \
		--size=100% --ioengine=libaio --iodepth=16 --verify=crc32c --verify_state_save=0 \
		--thread --randseed="$LSMEM_SEED" "$@"
}

# Write figures of both stores. Each file is renamed when it is complete, because the power may be
# cut at any time.
stats() {
	while :; do
		for store in lsmem lsmemb0; do
			"$top/tools/lsmemctl/lsmemctl" stat --json $store > $run/stat
			cp $run/stat "$LSMEM_HOST_DIR/stat-$store.new"
			mv "$LSMEM_HOST_DIR/stat-$store.new" "$LSMEM_HOST_DIR/stat-$store.json"
		done
		sleep 1
	done
}

# The drives of a store.
drives() {	# name
	[ -n "${CODE:-}" ] || { echo "$1"; return; }
	i=0
	while [ $i -lt $(($CODE)) ]; do	# K+M
		echo "$1$i"
		i=$((i + 1))
	done
}

up() {
	load_module
	configure object object "$OBJECTS_SIZE" "$(drives objects)" ${CAPACITY:+"capacity = $CAPACITY"} \
		${CODE:+"code = $CODE" "copy_rate = 1G"}
	configure block block "$BLOCKS_SIZE" "$(drives blocks)" ${CAPACITY:+"capacity = $CAPACITY"} \
		${CODE:+"code = $CODE" "copy_rate = 1G"}
	for i in ${MISSING:-}; do
		rm -f /dev/drive/objects"$i" /dev/drive/blocks"$i"
	done
	for name in $stores; do
		[ -n "${MISSING:-}" ] || format $name
		serve $name
	done
	for name in $stores; do
		serves $name
	done
	[ -n "${CODE:-}" ] && [ -z "${MISSING:-}" ] || return 0
	for name in $stores; do
		[ $name = object ] && whole lsmem || whole lsmemb0
	done
}

: "${OBJECTS_SIZE:=128M}" "${BLOCKS_SIZE:=128M}" "${LIVE:=900}" "${BLOCK_SLOTS:=8192}" \
	"${RANGES:=0}" "${ITEMS:=0}" "${RANGE_PAGES:=1024}" "${MOST:=2048}"
stores="object block"
[ -z "${PAGES_ONLY:-}" ] || stores=object
case ${1:-} in
up)
	up
	exit ;;
load)
	if [ -n "${FIO:-}" ]; then
		[ "$LSMEM_ROUND" != 0 ] || fio_rest fill --rw=write --do_verify=0 --end_fsync=1 \
			--output="$LSMEM_HOST_DIR/fio-fill"
		fio_rest load --rw=randwrite --do_verify=0 --norandommap --time_based \
			--runtime=1h --fdatasync=32 --output="$LSMEM_HOST_DIR/fio-load" &
	fi
	[ -z "${STATS:-}" ] || stats &
	set -- load --ready "$LSMEM_HOST_DIR/ready" ;;
verify)
	up
	cp $run/../lsmem/*.json "$LSMEM_HOST_DIR" 2> /dev/null || true
	[ -z "${FIO:-}" ] || [ "$LSMEM_ROUND" = 0 ] || fio_rest check --rw=read \
		--continue_on_error=verify --output-format=json \
		--output="$LSMEM_HOST_DIR/fio.json" || true
	set -- verify --threads 16 --journals "$LSMEM_HOST_DIR/journals" \
		--report "$LSMEM_HOST_DIR/verify.json" ;;
*)
	echo "usage: stores.sh up|load|verify" >&2
	exit 2 ;;
esac
[ -n "${PAGES_ONLY:-}" ] ||
	set -- "$@" --objects /dev/lsmem --object-slots "$(slots)" --live "$LIVE" \
		${CAPACITY:+--lengths 32-16384} --items "$ITEMS" --blocks /dev/lsmemb0 --block-slots "$BLOCK_SLOTS"
[ "$RANGES" = 0 ] ||
	set -- "$@" --pages /dev/lsmem --ranges "$RANGES" --range-pages "$RANGE_PAGES" --most "$MOST"
exec "$here/build/acked" "$@" --state $run/state
