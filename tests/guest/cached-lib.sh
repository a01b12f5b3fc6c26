# SPDX-License-Identifier: GPL-2.0
# For tests of lsmemcached in a guest: sourced, not run, after lib.sh. The store is $store.
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
cached=$top/tools/cached/lsmemcached
python=${LSMEM_PYTHON:-$HOME/.cache/lsmem/python/bin/python3}
seed=${LSMEM_SEED:-$RANDOM}
scale=${LSMEM_SCALE:-100}
server=
echo "# seed $seed"

# server_start OPTION ..: on $scratch/socket; it can be connected to when this returns
server_start()
{
	local tries

	"$cached" --store "/dev/$store" -s "$scratch/socket" "$@" 2>"$scratch/err" &
	server=$!
	for tries in $(seq 600); do
		client quit >/dev/null 2>&1 && return 0
		kill -0 $server 2>/dev/null || return 1
		sleep 0.05
	done
	return 1
}

# server_end SIGNAL: its exit status is that of this
server_end()
{
	kill -"$1" $server
	wait $server 2>/dev/null
}

# port_open PORT: waits until something on 127.0.0.1 listens
port_open()
{
	timeout 30 bash -c "until (exec 3<>/dev/tcp/127.0.0.1/$1) 2>/dev/null; do sleep 0.05; done"
}

# listen_start PORT OPTION ..: on 127.0.0.1
listen_start()
{
	local port=$1

	shift
	ip link set lo up
	"$cached" --store "/dev/$store" -l 127.0.0.1 -p "$port" "$@" 2>"$scratch/err" &
	server=$!
	port_open "$port"
}

# client LINE ..: sends each on a connection of its own, and prints the answers. Perl, because it starts faster
client()
{
	timeout 60 perl -MSocket -e '
		my $to = sockaddr_un(shift);
		for (@ARGV) {
			my $socket;
			socket($socket, PF_UNIX, SOCK_STREAM, 0) && connect($socket, $to) or die "$!\n";
			send($socket, "$_\r\nquit\r\n", 0);
			print while sysread($socket, $_, 4096);
		}' "$scratch/socket" "$@"
}

# stat_of NAME
stat_of()
{
	client stats | tr -d '\r' | awk -v name="$1" '$2 == name { print $3 }'
}

switches()
{
	grep ^voluntary "/proc/$server/task/"*/status
}

# woken TIMES: how many threads of the server wake before one of them has woken so often
woken()
{
	switches >"$scratch/before"
	until switches | awk -v times="$1" 'NR == FNR { before[$1] = $2; next }
		{ more = $2 - before[$1]; threads += more > 0; enough += more >= times }
		END { if (enough) print threads; exit !enough }' "$scratch/before" -; do
		sleep 0.1
	done
}

# idle: no thread wakes in one and a half seconds, but that of upkeep.c, which does ten times a second
idle()
{
	local tries

	# The first time a thread may still have to come to rest
	for tries in 1 2 3; do
		[ "$(woken 15)" != 1 ] || return 0
	done
	return 1
}

model()
{
	timeout 300 python3 "$here/cached.py" "$scratch/socket" "$@"
}

operate()
{
	timeout 300 python3 "$here/cached_operate.py" "$scratch/socket" "$@"
}

# logs PART ..: of a server that was started with --debug-time --idle-timeout 100
logs()
{
	timeout 300 python3 "$here/cached_watch.py" "$scratch/socket" "$@"
}
