# SPDX-License-Identifier: GPL-2.0
"""A guest: it runs one command, and ends with the command or by a power cut.

    with Guest(workdir, drives=[Drive("log0", image, 4 << 30)]) as guest:
        guest.start("nvme list; my-test")
        result = guest.wait(timeout=120)
        result.require_clean()

Files in the work directory: `output` (output of the command), `console` (kernel messages of level
warning and above, written by the host as they arrive), `qemu.log`, the files of the ports, and in
`host/` the files that the guest wrote to /run/lsmem-host, `dmesg` among them.

Journal ports. Each name in @ports is a virtio-serial port; the host's end is the file
<workdir>/<name>. A program in the guest writes records to /dev/virtio-ports/<name>. Guarantee:
after write(2) has returned in the guest, the record is in the host's page cache, and the end of
QEMU does not lose it. The reason is that the device of the ports has ioeventfd=off and
event_idx=off: the guest's write causes an MMIO exit in which QEMU itself calls write(2), before the
next instruction of the guest. If the power is cut during a write, its record may be torn or
missing: a reader must ignore an incomplete last record. tests/power/smoke tests both. The limit of
one write(2) is 32 KiB.
"""

import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Callable, Mapping, Optional, Sequence, Union

from . import accel as accelerators
from . import dmesg, paths, process, virtme
from .drive import Drive
from .errors import TestbedError
from .kernel import Kernel, find

JOURNAL = "lsmem.journal"
HOST_DIR = "/run/lsmem-host"
BOOT_SECONDS = 180.0
# The emulation of QEMU before 8.1 may execute bytes that the kernel's code patching has changed
# already: it reads the bytes of an instruction and looks up their page at different times.  Then the
# guest dies while its kernel boots, mostly of an unknown int3, and not always with a message, or it
# stands still.  A guest that dies before its command begins, or does not come to it, without a word
# of lsmem, is started again, up to BOOTS times in all.  (QEMU commits cb62bd15e14e and deba78709ae8.)
BOOTS = 3
# In the kernel log: a message of the module, a line of its call traces
LSMEM_WORDS = "lsmem:", "[lsmem]"
# Exit code of a guest that did not start its command (see qemu/guest-run)
UNUSABLE = 125

Command = Union[str, Sequence[str]]


@dataclass
class Result:
    """How a guest ended."""

    exit_code: Optional[int]
    seconds: float
    boot_seconds: Optional[float]
    output: str
    problems: list[str] = field(default_factory=list)

    def require_clean(self) -> None:
        """Raises unless the command returned 0 and the kernel log has nothing bad."""
        if self.exit_code is None:
            raise TestbedError("the guest died before its command returned: "
                               + "; ".join(self.problems[:3] or ["nothing on its console"]))
        if self.exit_code != 0:
            raise TestbedError(f"the guest's command returned {self.exit_code}")
        if self.problems:
            raise TestbedError(f"{len(self.problems)} bad kernel messages, first: "
                               f"{self.problems[0]}")


class Guest:
    """A guest: a kernel of its own, and the file system of the host, read-only."""

    # File with the standard error of QEMU or of the kernel
    log = "qemu.log"
    # Directories of the host that the guest does not see
    hidden: Sequence[str] = paths.HIDDEN

    def __init__(self, workdir: Path, *, drives: Sequence[Drive] = (), mem: str = "2G",
                 cpus: int = 2, kernel: Optional[Kernel] = None, accel: Optional[str] = None,
                 kernel_args: str = "", qemu_args: Sequence[str] = (),
                 ports: Sequence[str] = (JOURNAL,), env: Optional[Mapping[str, str]] = None,
                 files: Optional[Mapping[str, Path]] = None, cwd: Optional[Path] = None,
                 on_line: Optional[Callable[[str], None]] = None) -> None:
        self.workdir = workdir.resolve()
        self.drives = list(drives)
        self.mem = mem
        self.cpus = cpus
        self.kernel = kernel or find()
        self.accel = accel or accelerators.choose(self.kernel)
        self.kernel_args = kernel_args
        self.qemu_args = list(qemu_args)
        self.ports = list(ports)
        self.env = dict(env or {})
        self.files = dict(files or {})
        self.cwd = cwd or paths.REPO
        self.on_line = on_line
        self._qemu: "Optional[subprocess.Popen[bytes]]" = None
        self._reader: Optional[threading.Thread] = None
        self._scratch: Optional[Path] = None
        self._started = 0.0
        self._boots = 0
        self._output: list[str] = []

    def __enter__(self) -> "Guest":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    @property
    def host_dir(self) -> Path:
        """The directory that the guest sees as /run/lsmem-host."""
        return self.workdir / "host"

    @property
    def journal(self) -> Path:
        """The file behind the first port."""
        return self.workdir / self.ports[0]

    def start(self, command: Command) -> None:
        """Boots the guest, which then runs @command (shell text or an argument list) as root."""
        if self._qemu is not None:
            raise TestbedError("this guest has been started; make another one")
        for needed in (paths.REPO, paths.cache_dir()):
            paths.require_visible(needed, self.hidden)
        self._clean_workdir()
        self._give_files()
        self._write_job(command)
        self._scratch = paths.scratch()
        try:
            self._start_drives(self._scratch)
            argv = self._command_line()
            (self.workdir / "qemu.cmd").write_text(shlex.join(argv) + "\n")
            self._spawn(argv)
        except BaseException:
            self.close()
            raise

    def wait_booted(self, timeout: Optional[float] = None) -> float:
        """Waits until the command is about to run; returns the seconds since the guest's start."""
        timeout = timeout or BOOT_SECONDS * self.kernel.patience
        while True:
            try:
                process.wait_until(f"the guest in {self.workdir} to boot; see its files `console` "
                                   "and `qemu.log`", self._booted_or_dead, timeout)
            except TestbedError:
                if not self._boot_again():
                    raise
                continue
            if self._boot_seconds() is not None or not self._boot_again():
                break
        if self._boot_seconds() is None:
            raise TestbedError(f"the guest ended before it had booted, {self._last_words()}; "
                               f"see {self.workdir}/console and {self.workdir}/output")
        return time.monotonic() - self._started

    def wait(self, timeout: float) -> Result:
        """Waits until the guest ends; after @timeout kills it and raises."""
        assert self._qemu is not None, "start() comes first"
        try:
            self._qemu.wait(timeout)
        except subprocess.TimeoutExpired as error:
            self.power_cut()
            raise TestbedError(f"the guest did not end within {timeout:.0f} s and was killed; "
                               f"see {self.workdir}/output and {self.workdir}/console") from error
        return self._finish()

    def power_cut(self) -> Result:
        """Cuts the power: kills QEMU, and the drives lose their volatile caches."""
        assert self._qemu is not None, "start() comes first"
        # QEMU first: the guest must not see its drives fail.
        process.kill_group(self._qemu)
        process.reap(self._qemu)
        for drive in self.drives:
            drive.cut()
        return self._finish()

    def alive(self) -> bool:
        """Whether the guest still runs."""
        return self._qemu is not None and self._qemu.poll() is None

    def cpu_seconds(self) -> float:
        """Processor time that the running guest has used; it does not depend on the host's load."""
        assert self._qemu is not None, "start() comes first"
        fields = Path(f"/proc/{self._qemu.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """Ends the guest and its drives. May be called at any time, and repeatedly."""
        if self._qemu is not None:
            process.kill_group(self._qemu)
            process.reap(self._qemu)
        for drive in self.drives:
            drive.close()
        if self._reader is not None:
            self._reader.join(process.KILL_WAIT_SECONDS)
            self._reader = None
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None

    def _spawn(self, argv: Sequence[str]) -> None:
        """Starts QEMU and the thread that reads its output."""
        with open(self.workdir / self.log, "wb") as log:
            self._qemu = process.spawn(argv, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=log)
        self._boots += 1
        self._started = time.monotonic()
        self._reader = threading.Thread(target=self._read_output, daemon=True)
        self._reader.start()

    def _boot_again(self) -> bool:
        """Starts a guest again that died by itself before its command, or stands still.

        Returns whether it did.
        """
        console = self.workdir / "console"
        if self._boots == BOOTS or self._exit_code() is not None or any(
                word in self.kernel_log() for word in LSMEM_WORDS):
            return False
        assert self._qemu is not None and self._reader is not None
        how = "stood still" if self.alive() else "died"
        process.kill_group(self._qemu)
        process.reap(self._qemu)
        self._reader.join(process.KILL_WAIT_SECONDS)
        kept = self.workdir / f"console.{self._boots}"
        print(f"the guest {how} while it booted, {self._last_words()}; booting again; see {kept}",
              file=sys.stderr, flush=True)
        console.touch()
        console.replace(kept)
        self._spawn(shlex.split((self.workdir / "qemu.cmd").read_text()))
        return True

    def _clean_workdir(self) -> None:
        """Removes the files of an earlier guest."""
        self.workdir.mkdir(parents=True, exist_ok=True)
        for name in ["output", "console", "exit-code", "qemu.log", *self.ports]:
            (self.workdir / name).unlink(missing_ok=True)
        shutil.rmtree(self.host_dir, ignore_errors=True)
        self.host_dir.mkdir()
        self.host_dir.chmod(0o777)

    def _give_files(self) -> None:
        """Copies files to host_dir; the keys of @files are their names in /run/lsmem-host."""
        for name, source in self.files.items():
            target = self.host_dir / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)

    def _write_job(self, command: Command) -> None:
        job = command if isinstance(command, str) else shlex.join(command)
        (self.host_dir / "job").write_text(job + "\n")
        env = {
            "LSMEM_DRIVES": " ".join(drive.name for drive in self.drives),
            "LSMEM_CWD": str(self.cwd),
            "LSMEM_REPO": str(paths.REPO),
            "LSMEM_HOST_DIR": HOST_DIR,
            "KVER": self.kernel.version,
            "LSMEM_MODULE": str(self.kernel.module),
        }
        if self.ports:
            env["LSMEM_JOURNAL"] = f"/dev/virtio-ports/{self.ports[0]}"
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in (env | self.env).items()]
        (self.host_dir / "environment").write_text("".join(lines))

    def _start_drives(self, scratch: Path) -> None:
        for drive in self.drives:
            drive.start(scratch, self.workdir / f"{drive.name}.log")

    def _command_line(self) -> list[str]:
        script = f"exec {shlex.quote(str(paths.REPO / 'qemu' / 'guest-run'))}"
        argv = virtme.command_line(self.kernel, self.accel, self.mem, self.cpus, script,
                                   self.workdir)
        virtme.add_kernel_args(argv, self.kernel_args)
        argv += ["-fsdev", f"local,id=lsmem-host,path={self.host_dir},security_model=none,"
                           "multidevs=remap",
                 "-device", "virtio-9p-pci,fsdev=lsmem-host,mount_tag=lsmem-host"]
        for drive in self.drives:
            argv += drive.qemu_args()
        return argv + self._port_args() + self.qemu_args

    def _port_args(self) -> list[str]:
        if not self.ports:
            return []
        args = ["-device", "virtio-serial-pci,id=lsmem-ports,ioeventfd=off,event_idx=off"]
        for i, name in enumerate(self.ports):
            args += ["-chardev", f"file,id=lsmem-port{i},path={self.workdir / name},append=on",
                     "-device", f"virtserialport,bus=lsmem-ports.0,chardev=lsmem-port{i},name={name}"]
        return args

    def _read_output(self) -> None:
        """Reads QEMU's standard output; keeps it in memory and in `output`, and calls on_line()."""
        assert self._qemu is not None and self._qemu.stdout is not None
        with open(self.workdir / "output", "w", encoding="utf-8") as copy:
            for raw in self._qemu.stdout:
                line = raw.decode(errors="replace").replace("\r\n", "\n")
                copy.write(line)
                copy.flush()
                self._output.append(line)
                if self.on_line is not None:
                    self.on_line(line.rstrip("\n"))

    def _finish(self) -> Result:
        seconds = time.monotonic() - self._started
        self.close()
        return Result(self._exit_code(), seconds, self._boot_seconds(), "".join(self._output),
                      dmesg.problems(self.kernel_log()))

    def kernel_log(self) -> str:
        """The guest's kernel log: all of it after an orderly end, else the lines on the console."""
        for path in (self.host_dir / "dmesg", self.workdir / "console"):
            if path.exists() and path.stat().st_size:
                return path.read_text(errors="replace")
        return ""

    def _exit_code_path(self) -> Path:
        return self.workdir / "exit-code"

    def _exit_code(self) -> Optional[int]:
        path = self._exit_code_path()
        text = path.read_text().strip() if path.exists() else ""
        return int(text) if text.isdigit() else None

    def _boot_seconds(self) -> Optional[float]:
        path = self.host_dir / "booted"
        text = path.read_text().strip() if path.exists() else ""
        return float(text) if text else None

    def _booted_or_dead(self) -> bool:
        return self._boot_seconds() is not None or not self.alive()

    def _last_words(self) -> str:
        """How QEMU ended, and the last lines of its log, the console and the output."""
        assert self._qemu is not None
        words = [f"status {self._qemu.poll()}"]
        for name in dict.fromkeys([self.log, "console", "output"]):
            path = self.workdir / name
            lines = path.read_text(errors="replace").split("\n") if path.exists() else []
            words += [f"{name}: {line.strip()}" for line in lines if line.strip()][-2:]
        return "; ".join(words)


def echo(line: str) -> None:
    """An on_line() that prints the guest's output."""
    print(line, flush=True)


def default_workdir(name: str) -> Path:
    """The default work directory of a guest, under out/."""
    return paths.OUT / "guests" / f"{name}-{os.getpid()}"
