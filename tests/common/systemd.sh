# SPDX-License-Identifier: GPL-2.0
# A systemd in a guest, which is the init of its own namespaces and has /run and cgroups of its own: sourced, not run,
# after tap.sh. What $scratch/installed/usr/bin and sbin have is in its /usr; its units are those of $units.
units=$scratch/units
systemd_group=/sys/fs/cgroup/lsmem-systemd
systemd_pid=

# unit NAME TEXT
unit() { printf '%b' "$2" >"$units/$1"; }

# systemd_units: those of $scratch/installed, and those of the system that they are ordered by
systemd_units()
{
	local target

	mkdir -p "$units"
	for target in sysinit basic shutdown umount final poweroff network-pre network network-online \
		local-fs-pre local-fs remote-fs-pre remote-fs sockets timers paths slices swap multi-user; do
		cp "/lib/systemd/system/$target.target" "$units"
	done
	cp /lib/systemd/system/systemd-poweroff.service "$scratch/installed/lib/systemd/system"/* "$units"
	unit test.target '[Unit]\nDefaultDependencies=no\n'
	unit modprobe@.service '[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/true\n'
}

# in_it COMMAND ..: run a command in the namespaces of systemd
in_it()
{
	nsenter -t "$(pgrep -P "$systemd_pid")" -p -m -C env SYSTEMD_PAGER= "$@"
}
ctl_in() { in_it systemctl "$@"; }
property() { ctl_in show -P "$2" "$1"; }
systemd_is_up() { ctl_in is-system-running 2>"$scratch/err" | grep -q 'running\|degraded'; }

# systemd_start: the test ends if it does not run after a minute
systemd_start()
{
	local end=$((SECONDS + 60))

	mkdir -p "$scratch/run"
	cat >"$scratch/init" <<-END
	set -x
	mount --make-rprivate / && mount --make-rshared / &&
	mount -t tmpfs none $scratch/run && mkdir $scratch/run/udev $scratch/run/lsmem-host &&
	mount --bind /run/udev $scratch/run/udev && mount --rbind $scratch/run /run &&
	mount -t proc proc /proc && umount /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup || exit
	for directory in bin sbin; do
		[ ! -d $scratch/installed/usr/\$directory ] ||
			mount -t overlay -o lowerdir=$scratch/installed/usr/\$directory:/usr/\$directory none /usr/\$directory || exit
	done
	export container=other SYSTEMD_UNIT_PATH=$units SYSTEMD_LOG_TARGET=console SYSTEMD_LOG_LEVEL=info
	exec /lib/systemd/systemd --system --unit=test.target
	END
	mkdir "$systemd_group"
	(
		echo 0 >"$systemd_group/cgroup.procs"
		exec unshare --pid --fork --mount --cgroup --kill-child sh "$scratch/init"
	) >"$scratch/systemd.log" 2>&1 &
	systemd_pid=$!
	until systemd_is_up; do
		kill -0 "$systemd_pid" && [ "$SECONDS" -lt "$end" ] && sleep 0.5 && continue
		sed 's/^/# /' "$scratch/systemd.log"
		echo 'Bail out! systemd does not run'
		exit 1
	done
}

# systemd_end: the system is turned off
systemd_end()
{
	ctl_in start --no-block --job-mode=replace-irreversibly poweroff.target
	wait "$systemd_pid"
	find "$systemd_group" -depth -type d -exec rmdir {} +
}
