#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# lsmemd --check-config: accepts good files, and refuses bad ones with the line, the error and the
# allowed values.  TAP.  LSMEMD is the program.
set -u
. "$(dirname "$0")/lib.sh"

conf=$scratch/lsmemd.conf

# good NAME TEXT
good()
{
	printf '%b' "$2" >"$conf"
	run "$lsmemd" -c "$conf" --check-config
	is "$1: accepted" "$status" 0
}

# bad NAME TEXT MESSAGE: MESSAGE follows the name of the file
bad()
{
	printf '%b' "$2" >"$conf"
	run "$lsmemd" -c "$conf" --check-config
	is "$1: exit status" "$status" 2
	is "$1: message" "$(sed 's/^<[0-9]>//' "$scratch/err")" "$conf:$3"
}

path='[backup]\npath = /dev/null\n'

good 'the least' "$path"
good 'all of an object store' "[store]\nname = db-1.example_x\nnode = lsmem1\nkind = object\nsize = 1G\nhandles = 1M\nmode = 0640\nowner = root:root\n$path"'size = 512M\nlock_wait = 5\n'
good 'a tiered store' "[store]\nsize = 128M\ncapacity = 512M\n$path"
good 'a tiered store of the default size' "[store]\ncapacity = 264M\n$path"
good 'a tiered block store' "[store]\nkind = block\nsize = 128M\ncapacity = 512M\n$path"
good 'a capacity of the size' "[store]\nsize = 512M\ncapacity = 512M\n$path"
good 'the largest capacity' "[store]\ncapacity = 1T\nsize = 16G\n$path"
good 'a block store' "[store]\nkind = block\nname = 7\nnode = lsmemb0\nsize = 128M\n$path"
good 'numbers for an owner' "[store]\nowner = 12345:54321\n$path"
good 'comments and blanks' "# one\n\n ; two\n\t[ store ]\n  kind=object  \n$path"
good 'no newline at the end' '[backup]\npath = /dev/null'
good 'a path with # and blanks' '[backup]\npath = /srv/a b#c\n'
good 'carriage returns' '[backup]\r\npath = /dev/null\r\n'
good 'sections in any order' "$path"'[store]\nkind = block\n'
good 'metrics, IPv4' "$path[metrics]\nlisten = 127.0.0.1:9469\n"
good 'metrics, IPv6' "$path[metrics]\nlisten = [2001:db8::1]:65535\n"
good 'metrics, everywhere' "$path[metrics]\nlisten=[::]:1\n"
good 'metrics, nowhere' "$path[metrics]\n"
cluster="$path[cluster]\netcd = "
good 'a cluster' "${cluster}http://10.0.0.1:2379\n"
good 'all of a cluster' "${cluster}https://10.0.0.1:2379,https://[::1]:2379 , https://10.0.0.3:2379\nlease = 300\nhost = db-1.example_x\nca = /ca\ncert = /cert\nkey = /key\n"
uuid=6f1c0a52-9a3e-4c4b-8d0e-2b7f5a1c9e44
taken="[cluster]\netcd = http://10.0.0.1:1\nstore = "
good 'backups that etcd knows' "$taken$uuid\n"
good 'backups that etcd knows, and their secret' "$taken$uuid\nsecret = /key\n[store]\nmin_replicas = 2\n"
instant='[store]\nrestart = instant\n'
move="${cluster}http://10.0.0.1:2379\n[move]\nlisten = rdma://10.0.0.5\nsecret = /move\n"
good 'moves' "$instant$move"
good 'moves of a tiered store, a port' "[store]\ncapacity = 1G\n${cluster}http://10.0.0.1:2379\n[move]\nlisten = rdma://[::]:7472\nsecret = /move\n"
good 'moves, backups that etcd knows' "$instant$taken$uuid\nsecret = /key\n[move]\nlisten = rdma://10.0.0.5\nsecret = /move\n"
good 'moves to this host' "$instant${cluster}http://10.0.0.1:2379\n[move]\nfrom = rdma://host\nsecret = /move\n"
good 'moves to this host, at a rate' "$instant${cluster}http://10.0.0.1:2379\n[move]\nfrom = rdma://host\nsecret = /move\nbring_rate = 100M\n"
good 'moves to this host and away' "$instant${move}from = rdma://10.0.0.6:7472/data\n"
good 'lower-case suffix' "[store]\nsize = 128m\n$path"

bad 'empty' '' ' no path in [backup]: a block device or a file is needed'
good 'stands by' "$instant${cluster}http://10.0.0.1:2379\n[move]\nfrom = rdma://host\nsecret = /move\nstandby = yes\nfailover = 30\n"
good 'stands by, and does not take it by itself' "$instant${cluster}http://10.0.0.1:2379\n[move]\nfrom = rdma://host\nsecret = /move\nfailover = no\nstandby = yes\n"
bad 'unknown section' '[stoer]\n' '1: unknown section [stoer], allowed are [store], [backup], [metrics], [cluster] and [move], or [server] and [export NAME]'
bad 'open section' '[store\n' '1: "[store": a section ends with ]'
bad 'section twice' "$path[store]\n[store]\n" '4: [store] a second time, first on line 3: a file describes one store; use one file and one daemon (lsmemd@NAME.service) for each'
bad 'key without section' 'kind = block\n' '1: kind: before any section, begin with [store] or [backup]'
bad 'unknown key' '[store]\nsice = 1G\n' '2: unknown key "sice" in [store], allowed are name, node, kind, size, capacity, handles, mode, owner, charge, restart, warm, verify, replicas, min_replicas, code, min_parity, batch_us, copy_rate, convert_rate, rejoin, scrub and wait'
bad 'key of the other section' '[backup]\nkind = block\n' '2: unknown key "kind" in [backup], allowed are path, size, lock_wait, key, timeout, domain and ack'
bad 'key twice' "${path}path = /dev/zero\n" '3: path a second time, first on line 2'
bad 'no value' '[store]\nkind =\n' '2: kind: no value'
bad 'not a key' '[store]\nkind\n' '2: "kind": neither [section], key = value nor # comment'
bad 'kind' '[store]\nkind = blok\n' '2: kind = blok: allowed are object and block'
etcd_allowed='allowed are 1 to 7 endpoints, comma between them: http://ADDRESS:PORT or https://ADDRESS:PORT, numbers only'
for etcd in 10.0.0.1:2379 http://etcd:2379 http://10.0.0.1 http://10.0.0.1:0 ftp://10.0.0.1:1 http://10.0.0.1:1/v3 http://10.0.0.1:1,; do
	bad "etcd $etcd" "$cluster$etcd\n" "4: etcd = $etcd: $etcd_allowed"
done
for lease in 0 4 301 -1 1m; do
	bad "lease $lease" "${cluster}http://10.0.0.1:1\nlease = $lease\n" "5: lease = $lease: allowed are seconds from 5 to 300"
done
bad 'host' "${cluster}http://10.0.0.1:1\nhost = a\"b\n" '5: host = a"b: allowed are 1 to 63 letters, digits, dots, dashes and underscores'
bad 'a cluster without etcd' "$path[cluster]\nlease = 5\n" '3: no etcd in [cluster]: "etcd = http://ADDRESS:PORT" is needed'
bad 'no ca' "${cluster}https://10.0.0.1:1\n" '4: etcd: https:// needs "ca =", the file of the certificate authority of etcd'
bad 'http with a ca' "${cluster}http://10.0.0.1:1\nca = /ca\n" '4: etcd: ca, cert and key are for https://'
bad 'http and https' "${cluster}http://10.0.0.1:1, https://10.0.0.1:1\nca = /ca\n" '4: etcd: http:// and https:// cannot be mixed'
bad 'cert without key' "${cluster}https://10.0.0.1:1\nca = /ca\ncert = /cert\n" '6: cert and key: each needs the other'
for bad in x "${uuid%4}" "${uuid}4" "${uuid^^}" "${uuid//-/a}" "${uuid/6/\x2f}"; do
	bad "store $bad" "$taken$bad\n" "3: store = $bad: allowed is a uuid, as in /sys/class/lsmem/STORE/uuid"
done
bad 'store and backups' "$path$taken$uuid\n" '5: store: the backups come from etcd, or from [backup]; leave one of them out'
bad 'store without etcd' "[cluster]\nstore = $uuid\n" '1: no etcd in [cluster]: "etcd = http://ADDRESS:PORT" is needed'
bad 'moves: nowhere' "$instant${cluster}http://10.0.0.1:1\n[move]\nsecret = /s\n" '7: no listen and no from in [move]: "listen = rdma://ADDRESS[:PORT]", "from = rdma://HOST[:PORT]" or both are needed'
bad 'stands by for no host' "$instant${cluster}http://10.0.0.1:1\n[move]\nlisten = rdma://10.0.0.5\nstandby = yes\nsecret = /s\n" '9: standby = yes: needs "from", the host to stand by for'
bad 'failover without standby' "$instant${cluster}http://10.0.0.1:1\n[move]\nfrom = rdma://10.0.0.5\nfailover = 10\nsecret = /s\n" '9: failover: only with "standby = yes"'
bad 'standby = maybe' '[move]\nstandby = maybe\n' '2: standby = maybe: allowed are yes and no'
bad 'failover = 86401' '[move]\nfailover = 86401\n' '2: failover = 86401: allowed are seconds from 0 to 86400, and no'
bad 'moves without a secret' "$instant${cluster}http://10.0.0.1:1\n[move]\nlisten = rdma://10.0.0.5\n" '7: no secret in [move]: "secret = FILE" is needed, the secret of the hosts that can move the store'
bad 'moves without etcd' "$instant$path[move]\nlisten = rdma://10.0.0.5\nsecret = /s\n" '5: [move] needs [cluster]: etcd says which host has the store'
bad 'moves of a store that is loaded' "$move" '5: [move] needs "restart = instant" or "capacity =" in [store]: a store that moves leaves objects on its backups'
for listen in rdma://host rdma://10.0.0.5/name 10.0.0.5 rdma:// rdma://10.0.0.5:0; do
	bad "moves, listen $listen" "[move]\nlisten = $listen\n" "2: listen = $listen: allowed is rdma://ADDRESS[:PORT], numbers only, as rdma://10.0.0.1 or rdma://[::]:7472"
done
for from in 10.0.0.5 rdma:// rdma://10.0.0.5:0 'rdma://a/b c'; do
	bad "moves, from $from" "[move]\nfrom = $from\n" "2: from = $from: allowed is rdma://HOST[:PORT][/STORE]"
done
bad 'moves, a relative secret' '[move]\nsecret = s\n' '2: secret = s: allowed is the absolute path of a file'
bad 'moves, the key of a backup' "$instant[backup]\npath = rdma://a/b\nkey = /k\n[cluster]\netcd = http://10.0.0.1:1\n[move]\nlisten = rdma://10.0.0.5\nsecret = /k\n" '10: secret = /k: is the key of a backup; moves need a secret of their own'
bad 'moves, the secret of the backups' "$instant$taken$uuid\nsecret = /k\n[move]\nlisten = rdma://10.0.0.5\nsecret = /k\n" '9: secret = /k: is the secret of the backups, in [cluster]; moves need a secret of their own'
bad 'a server whose exports move' "[server]\nlisten = rdma://a\nkey = /k\n[export a]\npath = /a\n[move]\n" '6: a server of backups ([server], [export]) has no [move]; use another file and another daemon'
bad 'secret of nothing' "${cluster}http://10.0.0.1:1\nsecret = /key\n" '5: secret: only for backups from etcd, with "store ="; others have "key =" in [backup]'
bad 'secret' "$taken$uuid\nsecret = key\n" '4: secret = key: allowed is the absolute path of a file'
bad 'zero byte' '[store]\nkind = bl\0ck\n' '2: a zero byte: not a text file'
for size in 0 1M 64M 120M 129M 2T 12X 12MB -1 1e9 '' 18446744073709551616 99999999999999999999T; do
	[ -n "$size" ] || continue
	bad "store size $size" "[store]\nsize = $size\n" "2: size = $size: allowed is a multiple of 8M from 128M to 1T"
done
for capacity in 0 120M 516M 1025G 12X; do
	bad "capacity $capacity" "[store]\ncapacity = $capacity\n" "2: capacity = $capacity: allowed is a multiple of 8M from 128M to 1T, at least size"
done
bad 'capacity below the size' "[store]\nsize = 512M\ncapacity = 504M\n$path" '3: capacity = 504M: allowed is at least size, 512M, and at most 64 times that'
bad 'capacity below the default size' "[store]\ncapacity = 248M\n$path" '2: capacity = 248M: allowed is at least size, 256M, and at most 64 times that'
bad 'too much capacity' "[store]\nsize = 128M\ncapacity = 8200M\n$path" '3: capacity = 8200M: allowed is at least size, 128M, and at most 64 times that'
for handles in 0 2G 4G -1 many; do
	bad "handles $handles" "[store]\nhandles = $handles\n" "2: handles = $handles: allowed is a number from 1 to 2147483647"
done
for mode in 0 1000 0888 rw -1; do
	bad "mode $mode" "[store]\nmode = $mode\n" "2: mode = $mode: allowed are octal permissions from 0001 to 0777"
done
bad 'user' '[store]\nowner = no-such-user\n' '2: owner = no-such-user: no user "no-such-user"; allowed is USER or USER:GROUP, names or numbers'
bad 'group' '[store]\nowner = root:no-such-group\n' '2: owner = root:no-such-group: no group "no-such-group"; allowed is USER or USER:GROUP, names or numbers'
for name in lsmem lsmem1 lsmemb0 lsmemb12 lsmem-control; do
	bad "name $name" "[store]\nname = $name\n" "2: name = $name: is the name of a device node, which the kernel gives; \"node = $name\" is for a store that has this node"
done
for name in .a -a a/b 'a b' a\\\\x2fb "$(printf %032d 0)"; do
	bad "name $name" "[store]\nname = $name\n" "2: name = $(printf %b "$name"): allowed are 1 to 31 letters, digits, dots, dashes and underscores, no dot or dash first"
done
good 'the longest name' "[store]\nname = $(printf %031d 0)\n$path"
good 'a name like that of a node' "[store]\nname = lsmembers\n$path"
for node in store lsmem/1 lsmem1234567890123456789012345678901234567890; do
	bad "node $node" "[store]\nnode = $node\n" "2: node = $node: not the node of a store; allowed are lsmem, lsmem1 .. or lsmemb0, lsmemb1 .."
done
bad 'node of the other kind' "[store]\nnode = lsmem\nkind = block\n$path" '2: node = lsmem: the node of a store of kind = block is lsmemb0, lsmemb1 ..'
bad 'handles of a block store' "[store]\nkind = block\nhandles = 5\n$path" '3: handles: not for kind = block, whose size gives their number'
bad 'mode of a block store' "[store]\nmode = 0600\nkind = block\n$path" '2: mode: not for kind = block; use udev rules for its node'
bad 'owner of a block store' "[store]\nowner = root\nkind = block\n$path" '2: owner: not for kind = block; use udev rules for its node'
bad 'relative path' '[backup]\npath = backup.img\n' '2: path = backup.img: allowed is the absolute path of a block device or a file'
for size in 0 64M 268435457 17T x; do
	bad "backup size $size" "[backup]\nsize = $size\n" "2: size = $size: allowed is a multiple of 4K from 256M to 16T"
done
for wait in -1 3601 soon; do
	bad "lock_wait $wait" "[backup]\nlock_wait = $wait\n" "2: lock_wait = $wait: allowed are seconds from 0 to 3600"
done

for listen in 127.0.0.1 :9469 9469 127.0.0.1: 127.0.0.1:0 127.0.0.1:65536 127.0.0.1:http \
	127.0.0.1:-1 127.0.0.1:+1 '127.0.0.1:1 ,' 127.1:9469 256.0.0.1:9469 localhost:9469 ::1:9469 '[::1]' '[::1]9469' \
	'[::1:9469' '[]:9469' '[127.0.0.1]:9469' '[::1%lo]:9469' 'http://127.0.0.1:9469' \
	[2001:0db8:0000:0000:0000:0000:0000:00000000000000000000000001]:9469 \
	127.0.0.1:00000000000000000000000000000000000000000000000000000009469; do
	bad "listen $listen" "[metrics]\nlisten = $listen\n" "2: listen = $listen: allowed is ADDRESS:PORT, numbers only, as 127.0.0.1:9469 or [::1]:9469"
done
bad 'listen twice' "[metrics]\nlisten = [::]:1\nlisten = [::]:2\n" '3: listen a second time, first on line 2'

# Backups on other hosts, from both sides.
server='[server]\nlisten = rdma://10.0.0.1\nkey = /etc/key\n'
export='[export data]\npath = /dev/null\n'
good 'a backup on another host' '[backup]\npath = rdma://10.0.0.1/data\nkey = /etc/key\ntimeout = 5\n'
good 'ack = memory' '[backup]\npath = rdma://10.0.0.1/data\nkey = /etc/key\nack = memory\n'
good 'ack = durable' "${path}ack = durable\n"
good 'an address of IPv6, a port' '[backup]\npath = rdma://[fe80::1]:7000/data\nkey = /etc/key\n'
good 'a server' "$server$export"
good 'a secret for each export' "[server]\nlisten = rdma://10.0.0.1\n${export}secret = /s\n[export other]\npath = /dev/zero\nsecret = /t\n"
good 'one secret for an export, one for the others' "$server${export}secret = /s\n[export other]\npath = /dev/zero\n"
good 'versions' "${server}wire_min = 3\nwire_max = 3\n$export"
good 'two exports' "$server$export[ export  other ]\npath = /dev/zero\nsize = 256M\n"
for remote in rdma:// rdma://host rdma://host/ rdma:///data rdma://host:0/data rdma://host:65536/data \
	rdma://host:/data 'rdma://host/two words' rdma://[::1/data rdma://[::1]x/data \
	rdma://host/1234567890123456789012345678901234567890123456789012345678901234; do
	bad "path $remote" "[backup]\npath = $remote\n" "2: path = $remote: allowed is rdma://HOST[:PORT]/NAME, where NAME is an export of the server there"
done
for listen in 10.0.0.1:7471 rdma://10.0.0.1/data rdma://:7471; do
	bad "listen $listen" "[server]\nlisten = $listen\n" "2: listen = $listen: allowed is rdma://ADDRESS[:PORT]"
done
nqn=nqn.2026-11.org.example:backup
good 'a namespace over TCP' "[backup]\npath = nvmf+tcp://10.0.0.1/$nqn\n"
good 'a namespace over RDMA, all of it' "[backup]\npath = nvmf+rdma://[2001:db8::1]:4421/$nqn?ns=4294967294\nkey = /etc/key\ntimeout = 5\n"
nqn223=$(printf 'nqn.%0219d' 0)
good 'the longest name of a subsystem' "[backup]\npath = nvmf+tcp://10.0.0.1/$nqn223\n"
for namespace in nvmf://10.0.0.1/$nqn nvmf+fc://10.0.0.1/$nqn nvmf+tcp:10.0.0.1/$nqn nvmf+tcp:///$nqn \
	nvmf+tcp://host/$nqn nvmf+tcp://10.0.0.256/$nqn nvmf+tcp://10.1/$nqn nvmf+tcp://2001:db8::1/$nqn \
	nvmf+tcp://[::1/$nqn nvmf+tcp://[::1%lo]/$nqn nvmf+tcp://10.0.0.1:0/$nqn \
	nvmf+tcp://10.0.0.1:65536/$nqn nvmf+tcp://10.0.0.1 nvmf+tcp://10.0.0.1/ nvmf+tcp://10.0.0.1/${nqn223}0 \
	"nvmf+tcp://10.0.0.1/two words" nvmf+tcp://10.0.0.1/nqn.x,queue_size=1 'nvmf+tcp://10.0.0.1/nqn.\303\244' \
	nvmf+tcp://10.0.0.1/$nqn? nvmf+tcp://10.0.0.1/$nqn?ns= nvmf+tcp://10.0.0.1/$nqn?ns=0 \
	nvmf+tcp://10.0.0.1/$nqn?ns=-1 nvmf+tcp://10.0.0.1/$nqn?ns=1x nvmf+tcp://10.0.0.1/$nqn?ns=4294967295 \
	nvmf+tcp://10.0.0.1/$nqn?ns=18446744073709551617 nvmf+tcp://10.0.0.1/$nqn?nsid=1; do
	bad "path $namespace" "[backup]\npath = $namespace\n" "2: path = $(printf %b "$namespace"): allowed is nvmf+tcp://ADDRESS[:PORT]/SUBNQN[?ns=N] or nvmf+rdma://.., ADDRESS a number"
done
for timeout in 4 3601 never; do
	bad "timeout $timeout" "[backup]\ntimeout = $timeout\n" "2: timeout = $timeout: allowed are seconds from 5 to 3600"
done
for ack in Memory 1 'memory, durable'; do
	bad "ack $ack" "[backup]\nack = $ack\n" "2: ack = $ack: allowed are durable and memory"
done
for far in /dev/null "nvmf+tcp://10.0.0.1/$nqn"; do
	bad "ack = memory of $far" "[backup]\npath = $far\nack = memory\n" '3: ack = memory: only for a backup that the lsmemd of another host keeps (path = rdma://..); use ack = durable, or leave it out'
done
bad 'ack = memory of a block store' '[store]\nkind = block\n[backup]\npath = rdma://a/b\nkey = /k\nack = memory\n' '6: ack = memory: not for kind = block, which waits only for FLUSH and FUA, and these promise durable data; use ack = durable, or leave it out'
bad 'no key' '[backup]\npath = rdma://a/b\n' '2: path = rdma://a/b: a backup on another host needs "key =", the file of the secret shared with it'
bad 'a size of another host' '[backup]\npath = rdma://a/b\nkey = /k\nsize = 256M\n' '4: size: not for a backup on another host, whose server creates it'
bad 'a key for a file' '[backup]\npath = /dev/null\nkey = /k\n' '3: key: only for a backup on another host (path = rdma://.. or nvmf+..)'
bad 'a timeout for a file' '[backup]\npath = /dev/null\ntimeout = 9\n' '3: timeout: only for a backup on another host (path = rdma://.. or nvmf+..), or one of several'
bad 'a relative key' '[backup]\nkey = key\n' '2: key = key: allowed is the absolute path of a file'
bad 'a server with a store' "[store]\nsize = 128M\n$server$export" '1: a server of backups ([server], [export]) has no [store]; use another file and another daemon'
bad 'a server with a backup' "$server$export[backup]\npath = /dev/null\n" '6: a server of backups ([server], [export]) has no [backup]; use another file and another daemon'
bad 'a server without an address' "[server]\nkey = /k\n$export" ' no listen in [server]: "listen = rdma://ADDRESS[:PORT]" is needed'
bad 'a server without a key' "[server]\nlisten = rdma://a\n$export" '3: no secret in [export data], and no key in [server] for exports without a secret: "secret = FILE" or "key = FILE" is needed'
bad 'one export without a secret' "[server]\nlisten = rdma://a\n${export}secret = /s\n[export other]\npath = /dev/zero\n" '6: no secret in [export other], and no key in [server] for exports without a secret: "secret = FILE" or "key = FILE" is needed'
bad 'a relative secret' "$server${export}secret = s\n" '6: secret = s: allowed is the absolute path of a file'
for wire in 0 2 10 four -1 4.0; do
	bad "wire_max $wire" "${server}wire_max = $wire\n$export" "4: wire_max = $wire: allowed is a version of the protocol from 3 to 9"
	bad "wire_min $wire" "${server}wire_min = $wire\n$export" "4: wire_min = $wire: allowed is a version of the protocol from 3 to 9"
done
bad 'versions the wrong way round' "${server}wire_min = 4\nwire_max = 3\n$export" '4: wire_min = 4 is above wire_max = 3'
bad 'a server without exports' "$server" ' no [export NAME]: a server needs at least one'
bad 'an export without a path' "$server[export data]\n" '4: no path in [export data]'
bad 'an export without a name' '[export]\n' '1: [export ]: a name has 1 to 63 characters, printable, no blanks'
bad 'an export twice' "$export[export data]\n" '3: [export data] a second time, first on line 1'

# Several backups.
a='[backup a]\npath = /srv/a\n' b='[backup b]\npath = /srv/b\n' c='[backup c]\npath = /srv/c\n'
good 'two' "$a$b"
good 'all of several' "[store]\ncharge = yes\nwait = forever\nreplicas = 2\nmin_replicas = 2\ncopy_rate = 1G\nscrub = 12h\nrejoin = 0\n$a"'domain = rack-1\ntimeout = 5\n'"$b"'domain = rack-1\n'"$c"'domain = rack-2\n'
good 'eight, files and other hosts' "$a$b$c"'[backup d]\npath = rdma://h/d\nkey = /k\n[backup e]\npath = /e\n[backup f]\npath = /f\n[backup g]\npath = /g\n[backup  h.1_2-3 ]\npath = /h\n'
more=
for name in d e f g h i j k l m n o p; do
	more="$more[backup $name]\npath = /$name\n"
done
good 'sixteen' "$a$b$c$more"
bad 'seventeen' "$a$b$c$more"'[backup q]\n' '33: more than 16 backups'
several='each of several backups has a name of its own, [backup NAME]; another store has another file and another daemon (lsmemd@NAME.service)'
bad 'two without names' "$path$path" "3: [backup]: another one is on line 1: $several"
bad 'one without a name' "$a$path" "3: [backup]: another one is on line 1: $several"
bad 'a name twice' "$a$a" "3: [backup a]: another one is on line 1: $several"
bad 'a path twice' "$a[backup b]\npath = /srv/a\n" '4: path = /srv/a: [backup a] has the same path'
bad 'one of several without a path' "$a[backup b]\n$c" '3: no path in [backup b]: a block device or a file is needed'
for name in 'two words' a/b 1234567890123456; do
	bad "name $name" "[backup $name]\n" "1: [backup $name]: a name has 1 to 15 letters, digits, dots, dashes and underscores"
done
for replicas in 0 17 -1 all; do
	bad "replicas $replicas" "[store]\nreplicas = $replicas\n" "2: replicas = $replicas: allowed is a number from 1 to 16"
	bad "min_replicas $replicas" "[store]\nmin_replicas = $replicas\n" "2: min_replicas = $replicas: allowed is a number from 1 to 16"
done
bad 'restarts how' "[store]\nrestart = fast\n" '2: restart = fast: allowed are load and instant'
bad 'a restart that loads more than memory' "[store]\ncapacity = 1G\nrestart = load\n$a" '3: restart = load: not for a store with a capacity, which may exceed its memory'
bad 'warm or not' "[store]\nwarm = maybe\n" '2: warm = maybe: allowed are yes and no'
bad 'verified when' "[store]\nverify = never\n" '2: verify = never: allowed are yes, first and no'
bad 'charged or not' "[store]\ncharge = maybe\n" '2: charge = maybe: allowed are yes and no'
bad 'more replicas than backups' "[store]\nreplicas = 3\n$a$b" '2: replicas = 3: each needs a failure domain of its own, and the backups are in 2'
bad 'more replicas than domains' "[store]\nreplicas = 2\n${a}domain = x\n${b}domain = x\n" '2: replicas = 2: each needs a failure domain of its own, and the backups are in 1'
# A coded store.
good 'two and one' "[store]\ncode = 2+1\n$a$b$c"
good 'a coded store, tiered' "[store]\nsize = 128M\ncapacity = 384M\ncode = 2+1\n$a$b$c"
good 'a coded store, instant' "[store]\nrestart = instant\ncode = 2+1\n$a$b$c"
good 'no loss is survived without a wait' "[store]\ncode = 2+1\nmin_parity = 1\n$a$b$c"
good 'three and two, of sixteen' "[store]\nkind = block\nmin_parity = 0\ncode = 3+2\n$a$b$c$more"
good 'fifteen and one' "[store]\ncode = 15+1\n$a$b$c$more"
good 'coded, backups that etcd knows' "[store]\ncode = 5+4\nmin_parity = 2\n$taken$uuid\n"
for code in 3 3+ +2 1+1 2+0 2+2 0+0 9+8 15+2 3+2+1 '3 + 2' -3+2 3+2x 999+1 k+m; do
	bad "code $code" "[store]\ncode = $code\n" "2: code = $code: allowed is K+M, as 3+2: data shards K, at least 2, and parity shards M, at least 1 and fewer than K, together at most 16"
done
for parity in -1 16 all; do
	bad "min_parity $parity" "[store]\nmin_parity = $parity\n" "2: min_parity = $parity: allowed is a number from 0 to the M of code = K+M"
done
bad 'more shards than backups' "[store]\ncode = 3+2\n$a$b$c" '2: code = 3+2: each of the 5 shards needs a failure domain of its own, and the backups are in 3'
bad 'more shards than domains' "[store]\ncode = 2+1\n${a}domain = x\n${b}domain = x\n$c" '2: code = 2+1: each of the 3 shards needs a failure domain of its own, and the backups are in 2'
bad 'coded, one backup' "[store]\ncode = 2+1\n$path" '2: code = 2+1: each of the 3 shards needs a failure domain of its own, and the backups are in 1'
bad 'more parity needed than there is' "[store]\ncode = 2+1\nmin_parity = 2\n$a$b$c" '3: min_parity = 2: code = 2+1 has 1 parity shards'
bad 'min_parity alone' "[store]\nmin_parity = 0\n$a$b$c" '2: min_parity: only with "code ="'
for us in 0 400 100000; do
	good "batch_us $us" "[store]\ncode = 2+1\nbatch_us = $us\n$a$b$c"
done
for us in -1 100001 1ms no; do
	bad "batch_us $us" "[store]\nbatch_us = $us\n" "2: batch_us = $us: allowed are microseconds from 0 to 100000"
done
bad 'batch_us alone' "[store]\nbatch_us = 400\n$a$b$c" '2: batch_us: only with "code ="'
bad 'replicas and a code' "[store]\nreplicas = 2\ncode = 2+1\n$a$b$c" '2: replicas: not with code = 2+1, whose segments have shards in place of replicas; leave one of them out, "min_parity =" says how many shards must be there'
bad 'min_replicas and a code' "[store]\ncode = 2+1\nmin_replicas = 2\n$a$b$c" '3: min_replicas: not with code = 2+1, whose segments have shards in place of replicas; leave one of them out, "min_parity =" says how many shards must be there'
bad 'coded and moved' "[store]\ncode = 2+1\n$a$b$c[cluster]\netcd = http://10.0.0.1:2379\n[move]\nlisten = rdma://10.0.0.5\nsecret = /move\n" '11: [move]: not with "code =": this version does not move coded stores; leave [move] out, or use replicas'
bad 'converted and moved' "[store]\nrestart = instant\nconvert_rate = 1M\n$a$b$c[cluster]\netcd = http://10.0.0.1:2379\n[move]\nlisten = rdma://10.0.0.5\nsecret = /move\n" '3: convert_rate: not with [move]: this version does not move stores with coded segments; leave [move] out until the store is converted'
good 'converted to a code' "[store]\ncode = 2+1\nconvert_rate = 1M\n$a$b$c"
good 'converted to replicas' "[store]\nreplicas = 2\nconvert_rate = 1T\n$a$b$c"
bad 'coded, and acknowledged from memory' "[store]\ncode = 2+1\n$a$b[backup c]\npath = rdma://h/c\nkey = /k\nack = memory\n" '10: ack = memory: not with "code =", whose writes count when they are durable on all shards; leave it out, or use replicas'
bad 'more needed than wanted' "[store]\nmin_replicas = 3\nreplicas = 2\n$a$b$c" '2: min_replicas = 3: allowed is at most replicas, 2'
for rate in 0 1K 2T fast; do
	for key in copy_rate convert_rate; do
		bad "$key $rate" "[store]\n$key = $rate\n" "2: $key = $rate: allowed are bytes a second from 1M to 1T"
	done
	bad "bring_rate $rate" "[move]\nbring_rate = $rate\n" "2: bring_rate = $rate: allowed are bytes a second from 1M to 1T"
done
for seconds in -1 3601 soon; do
	bad "wait $seconds" "[store]\nwait = ${seconds}0000\n" "2: wait = ${seconds}0000: allowed are seconds from 0 to 86400, and forever"
	bad "rejoin $seconds" "[store]\nrejoin = $seconds\n" "2: rejoin = $seconds: allowed are seconds from 0 to 3600"
done
for time in 9s 366d 30 1w 49711d yes; do
	bad "scrub $time" "[store]\nscrub = $time\n" "2: scrub = $time: allowed are times from 10s to 365d (s, m, h, d), and no"
done
for time in 10s 5m 365d no; do
	good "scrub $time" "[store]\nscrub = $time\n$path"
done
bad 'domain of the only one' "${path}domain = x\n" '3: domain: only for one of several backups'
for domain in 'two words' a/b 12345678901234567890123456789012; do
	bad "domain $domain" "[backup a]\ndomain = $domain\n" "2: domain = $domain: allowed are 1 to 31 letters, digits, dots, dashes and underscores"
done

rm -f "$conf"
bad_file()
{
	run "$lsmemd" -c "$1" --check-config
	is "$2: exit status" "$status" 2
	is "$2: message" "$(sed 's/^<[0-9]>//' "$scratch/err")" "$3"
}
bad_file "$conf" 'no file' "$conf: cannot be opened: No such file or directory"
bad_file "$scratch" 'a directory' "$scratch: cannot be read: Is a directory"

# The command line.
usage()
{
	local name=$1
	shift
	run "$lsmemd" "$@"
	is "$name: exit status" "$status" 2
}
usage 'unknown option' --frobnicate
usage 'an argument' -c /dev/null argument
usage 'force without format' --force
usage 'two tasks' --check --check-config
usage 'bad drain' --drain never
usage 'first use of what holds a store' --init --format
usage 'first use, and a check' --init --check
printf "$server$export" >"$conf"
usage 'a server is told to format' -c "$conf" --format
printf '[backup]\npath = /dev/null\n' >"$conf"
usage 'a file is taken over' -c "$conf" --take-over
usage 'the only backup is missing' -c "$conf" --accept-missing
usage 'moved without [move]' -c "$conf" --move-from host
printf "$instant$move" >"$conf"
usage 'moved from no host' -c "$conf" --move-from 'a b'
usage 'moved, and taken over' -c "$conf" --move-from host --take-over
usage 'moved, and only checked' -c "$conf" --move-from host --check
printf '[backup]\npath = nvmf+tcp://10.0.0.1/nqn.x\n' >"$conf"
run "$lsmemd" -c "$conf" --take-over
is 'a namespace is taken over: exit status' "$status" 5
ok 'a namespace is taken over: what to do' grep -q 'allowed hosts' "$scratch/err"
run "$lsmemd" --version
is 'version' "$status" 0
run "$lsmemd" --help
is 'help' "$status" 0

# The example that is installed.
run "$lsmemd" -c "$(dirname "$0")/../../daemon/lsmemd.conf" --check-config
is 'the example: taken' "$status" 0

tap_end
