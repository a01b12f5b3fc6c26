# SPDX-License-Identifier: GPL-2.0
# Functions for the guest of a power-cut test, sourced: stores and their daemons. A store has a name,
# which is that of its kind if there is one store of each. The caller sets $here, its directory; $seconds
# is the time to recover, more for a demo.

top=$here/../..
run=/run/lsmem-power	# in the guest
acked=$here/build/acked
ctl=$top/tools/lsmemctl/lsmemctl
export STATE_DIRECTORY=$run/records
: "${seconds:=90}"	# with TCG on a busy machine

load_module() {
	mkdir -p "$run"
	modprobe -q libcrc32c || true
	[ -d /sys/module/lsmem ] || insmod "${LSMEM_MODULE:-$top/kmod/lsmem.ko}"
}

# Write the configuration of a store: its kind, its size, the name of its drive, or the names of several; more lines of
# [store].
configure() {	# name kind size drives [line]...
	name=$1 kind=$2 size=$3 drives=$4; shift 4
	printf '%s\n' '[store]' "kind = $kind" "size = $size" "$@" > "$run/$name.conf"
	for drive in $drives; do
		[ "$drive" = "$drives" ] && printf '[backup]\n' || printf '[backup %s]\n' "$drive"
		echo "path = /dev/drive/$drive"
	done >> "$run/$name.conf"
}

# Format the drive of a store, unless it already has the store, from an earlier round.
format() {	# name
	"$top/daemon/lsmemd" --init -c "$run/$1.conf" > "$LSMEM_HOST_DIR/lsmemd-$1.init" 2>&1 ||
		[ $? = 5 ]
}

# Start a daemon. It logs to the directory on the host, which survives the cut.
serve() {	# name [option]...
	name=$1; shift
	setsid "$top/daemon/lsmemd" -v -c "$run/$name.conf" "$@" > "$LSMEM_HOST_DIR/lsmemd-$name.log" 2>&1 &
	echo $! > "$run/$name.pid"
}

# Wait until the daemon serves the store; the device can be opened then. Fail if the daemon has
# ended or takes too long.
serves() {	# name
	deadline=$(($(date +%s) + seconds))
	until grep -q ': serving, backup' "$LSMEM_HOST_DIR/lsmemd-$1.log"; do
		if ! kill -0 "$(cat "$run/$1.pid")" 2> /dev/null ||
		   [ "$(date +%s)" -ge $deadline ]; then
			echo "$0: the $1 store did not come up:" >&2
			cat "$LSMEM_HOST_DIR/lsmemd-$1.log" >&2
			return 1
		fi
		sleep 0.1
	done
}

# Wait until a store uses all of its backups, and no segment has too few replicas or shards.
whole() {	# store
	deadline=$(($(date +%s) + seconds))
	until jq -e '.segments_short == 0 and all(.backups[]; .state == "used")' "/run/lsmem/$1.json" > /dev/null 2>&1; do
		if [ "$(date +%s)" -ge $deadline ]; then
			echo "$0: $1 does not become whole:" >&2
			cat "/run/lsmem/$1.json" >&2
			return 1
		fi
		sleep 0.2
	done
}

# Write the figures of the tier from the creation of the stores on, a line a second.
sample() {	# store...
	for store; do
		until [ -e "/sys/class/lsmem/$store/tier/resident_bytes" ]; do
			sleep 0.5
		done
	done
	exec "$ctl" tier "$@" --interval 1 --json
}

# Note when the daemons are started.
started() {
	cut -d ' ' -f 1 /proc/uptime > "$LSMEM_HOST_DIR/started"
}

# Wait until a program that waits for the stores has read its journals, and has made $run/ready; the daemons are started
# then.
await_ready() {	# pid
	while [ ! -e $run/ready ] && kill -0 $1; do
		sleep 0.1
	done
	started
}

# Start the daemons of stores for a program that waits for them; then wait for its end.
serve_for() {	# pid name...
	verifier=$1; shift
	await_ready $verifier
	for name; do
		serve $name
	done
	wait $verifier
}
