# SPDX-License-Identifier: GPL-2.0
# Common to the guest tests with etcd: etcd, configurations with it, blocks of the store, and a
# backup on another host, which is the drive $other over soft RoCE, unless no_remote is set.  Source
# after guest-lib.sh.
store=lsmemb0
conf=$scratch/a.conf
lease=10
port=23790
remote=10.99.0.1

etcd_pid=
etcd_start()
{
	GOMAXPROCS=1 etcd --data-dir "$scratch/etcd" --listen-client-urls "http://127.0.0.1:$port" \
		--advertise-client-urls "http://127.0.0.1:$port" \
		--listen-peer-urls http://127.0.0.1:23791 \
		--initial-advertise-peer-urls http://127.0.0.1:23791 --log-level error \
		--initial-cluster default=http://127.0.0.1:23791 2>>"$scratch/etcd.log" >&2 &
	etcd_pid=$!
	until_true 60 answers
}
etcd_kill() { kill -KILL "$etcd_pid"; wait "$etcd_pid" 2>/dev/null; }
b64() { printf %s "$1" | base64 -w 0; }
# post WHAT TEXT: etcd's answer to a request (etcdctl takes seconds to start here)
post()
{
	exec 4<>/dev/tcp/127.0.0.1/$port || return 1
	printf 'POST /v3/%s HTTP/1.0\r\nContent-Length: %s\r\n\r\n%s' "$1" "${#2}" "$2" >&4
	timeout 10 cat <&4
	exec 4>&-
}
# ask KEY: etcd's answer about a key
ask() { post kv/range "$(printf '{"key":"%s"}' "$(b64 "$1")")"; }
# tell_etcd KEY VALUE ..: write keys of the store in one transaction. VALUE "-": delete the key. That
# of the owner is attached to the lease $lease_id
tell_etcd()
{
	local all= key id
	while [ $# -gt 0 ]; do
		key=$(b64 "/lsmem/stores/$uuid/$1")
		id=
		[ "$1" != owner ] || id=$(printf ',"lease":"%s"' "${lease_id:-0}")
		if [ "$2" = - ]; then
			all="$all,{\"request_delete_range\":{\"key\":\"$key\"}}"
		else
			all="$all,{\"request_put\":{\"key\":\"$key\",\"value\":\"$(b64 "$2")\"$id}}"
		fi
		shift 2
	done
	post kv/txn "{\"success\":[${all#,}]}" | grep -q '"succeeded":true'
}
# owner_text HOST TERM: what another host writes when it takes the store
owner_text() { printf '{"host":"%s","boot":"another","pid":1,"lease":5,"term":%s}' "$1" "$2"; }
answers() { ask x 2>/dev/null | grep -q raft_term; }
# has KEY: the value of a key
has()
{
	ask "/lsmem/stores/$uuid/$1" | sed -n 's/.*"value":"\([^"]*\)".*/\1/p' | base64 -d
}
free() { answers && [ -z "$(has owner)" ]; }

# cluster HOST: the cluster section of a host's configuration
cluster()
{
	printf '[cluster]\netcd = http://127.0.0.1:%d\nlease = %d\nhost = %s' "$port" "$lease" "$1"
}
# config HOST BACKUP MORE: write the configuration of a host
config()
{
	conf=$scratch/$1.conf
	configure "$2" 'kind = block\nsize = 128M\n' "$3$(cluster "$1")\n"
}
config_remote() { config "$1" "rdma://$remote/data" "key = $scratch/key\\n"; }
# put BYTE BLOCK: write a durable block of BYTE.  holds BYTE BLOCK: is it there?
put()
{
	head -c 4096 /dev/zero | tr '\0' "$1" |
		dd of="/dev/$store" bs=4096 seek="$2" oflag=direct,dsync conv=notrunc status=none
}
holds()
{
	[ "$(dd if="/dev/$store" bs=4096 skip="$2" count=1 iflag=direct status=none |
	     tr -d "$1" | wc -c)" = 0 ]
}
# server: write the configuration of the server.  serve: start the server
server()
{
	(umask 077; head -c 32 /dev/urandom >"$scratch/key")
	printf '[server]\nlisten = rdma://%s\nkey = %s/key\n[export data]\npath = %s\n' "$remote" \
		"$scratch" "$other" >"$scratch/server.conf"
}
serve()
{
	"$lsmemd" -c "$scratch/server.conf" -v 2>"$scratch/server.log" &
	server_pid=$!
	until_true 30 said 'serving 1 backup' "$scratch/server.log"
}
server_end()
{
	kill -TERM "$server_pid"
	wait "$server_pid"
}

[ -n "${no_remote-}" ] || soft_roce "$remote"
for backup in "$drive" ${other:+"$other"}; do
	dd if=/dev/zero of="$backup" bs=1M count=4 conv=fsync status=none
done
