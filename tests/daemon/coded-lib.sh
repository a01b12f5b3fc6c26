# SPDX-License-Identifier: GPL-2.0
# Coded stores on six parts of two drives, a to f, for the guest tests: sourced, after guest-lib.sh, not run.
sectors=$((320 << 11))
. "$here/several-lib.sh"
cut_device e "$drive" 2
cut_device f "$other" 2
dd if=/dev/zero of=/dev/mapper/e bs=1M count=8 oflag=direct status=none
dd if=/dev/zero of=/dev/mapper/f bs=1M count=8 oflag=direct status=none
declare -A drive_of=([a]=$drive [b]=$drive [c]=$other [d]=$other [e]=$drive [f]=$other)
declare -A number_of=([a]=0 [b]=1 [c]=0 [d]=1 [e]=2 [f]=2)

# coded TEXT NAME ..: write the configuration, with TEXT in [store]
coded()
{
	local name text=$1
	shift
	printf '[store]\nsize = 128M\nrejoin = 1\ncopy_rate = 1G\nscrub = no\n%b' "$text" >"$conf"
	for name in "$@"; do
		printf '[backup %s]\npath = /dev/mapper/%s\ntimeout = 5\n' "$name" "$name" >>"$conf"
	done
}

# lost_all NAME ..: these backups are lost
lost_all()
{
	local name
	for name in "$@"; do
		until_is lost backup "$name" state || return 1
	done
}

# used_all NAME ..: these backups are used, and no segment has too few shards
used_all()
{
	local name
	for name in "$@"; do
		until_is used backup "$name" state || return 1
	done
	until_is 0 daemon segments_short
}

# sound NAME BACKUP ..: lsmemctl check of all backups
sound()
{
	local name=$1
	shift
	run "$ctl" check "${@/#//dev/mapper/}" --json
	is "$name: check: sound" "$(jq -r .verdict "$scratch/out")" sound
	[ "$status" -eq 0 ] || sed 's/^/# /' "$scratch/err"
}

# goes_on NAME: more becomes durable, with what is left. A daemon that has just begun counts from 0.
goes_on()
{
	until_is "$daemon_pid" daemon pid
	before=$(daemon log_bytes)
	ok "$1: writers go on" until_is 0 eval 'rises; echo $?'
}

# spoil_one NAME: all writes to a backup fail from now on
spoil_one() { spoil "$1" "${drive_of[$1]}" "${number_of[$1]}"; }

# bring_back NAME: a backup that was uncut is there again, as it was; renew NAME: a new one is in its place
bring_back() { cut_device "$1" "${drive_of[$1]}" "${number_of[$1]}"; }
renew()
{
	dd if=/dev/zero of="${drive_of[$1]}" bs=1M count=8 seek=$((${number_of[$1]} * (sectors >> 11))) \
		oflag=direct status=none
	bring_back "$1"
}

# coded_end: the parts and the module go; if a test has failed, what lsmemd has said
coded_end()
{
	local name

	for name in a b c d e f; do
		uncut "$name"
	done
	rmmod lsmem
	is 'the module can be unloaded' "$?" 0
	[ "$failed" -eq 0 ] || sed 's/^/# /' "$log" | tail -80
	tap_end
}
