# SPDX-License-Identifier: GPL-2.0
"""Shell commands given to a running guest.

The guest runs qemu/guest-agent, which reads command lines from a virtio port and answers each with
an exit code; the output is a file in the directory shared with the host. run() waits for a command.
start() runs a command in the background: its output, process id and exit code are files too, and
the host polls these files, which costs the guest nothing.
"""

import shlex
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

from . import paths, process
from .errors import TestbedError
from .guest import HOST_DIR

PORT = "lsmem.agent"
COMMAND = f"exec {shlex.quote(str(paths.REPO / 'qemu' / 'guest-agent'))}"
RUN_SECONDS = 60.0


class Agent:
    """The host's end of the port of one guest."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path
        self._shared = Path()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._port: Optional[socket.socket] = None
        self._commands = 0

    def qemu_args(self) -> list[str]:
        """QEMU arguments that add the port to a guest, which must have a journal port too."""
        return ["-chardev", f"socket,id=agent,path={self._path}",
                "-device", f"virtserialport,bus=lsmem-ports.0,chardev=agent,name={PORT}"]

    def connect(self, shared: Path) -> None:
        """Accepts the connection of a started guest; @shared: its host_dir."""
        self._shared = shared
        self._listener.settimeout(RUN_SECONDS)
        try:
            self._port, _ = self._listener.accept()
        except TimeoutError as error:
            raise TestbedError(f"{self.name}: QEMU does not open {self._path}") from error

    def run(self, text: str, timeout: float = RUN_SECONDS) -> str:
        """Runs one line of shell; returns its output, raises if it failed."""
        status, output = self.ask(text, timeout)
        if status:
            raise TestbedError(f"{self.name}: '{text}' returned {status}: {output.strip()}")
        return output

    def ask(self, text: str, timeout: float = RUN_SECONDS) -> tuple[int, str]:
        """Runs one line of shell; returns its exit code and its output."""
        assert self._port is not None and "\n" not in text
        self._commands += 1
        self._port.settimeout(timeout)
        answer = b""
        try:
            self._port.sendall(f"{self._commands} {text}\n".encode())
            while not answer.endswith(b"\n"):
                data = self._port.recv(64)
                if not data:
                    raise TestbedError(f"{self.name}: the guest ended during '{text}'")
                answer += data
        except TimeoutError as error:
            raise TestbedError(f"{self.name}: '{text}' did not end within {timeout:.0f} s"
                               ) from error
        number, status = answer.split()
        assert int(number) == self._commands, "one command at a time"
        return int(status), (self._shared / f"command-{self._commands}").read_text(errors="replace")

    def start(self, name: str, text: str) -> "Running":
        """Starts a command in the background, in a session of its own."""
        self._commands += 1		# a unique name
        running = Running(self, f"{name}-{self._commands}", self._shared)
        files = f"{HOST_DIR}/{running.name}"
        self.run(f"(setsid {text} > {files}.log 2>&1 & echo $! > {files}.pid; wait $!; "
                 f"echo $? > {files}.new; mv {files}.new {files}.exit) > {files}.sh 2>&1 &")
        process.wait_until(f"{self.name} to start {name}", running.pid_path.exists, RUN_SECONDS)
        return running

    def hang_up(self) -> None:
        """Closes the port: the agent in the guest ends, and the guest ends in order."""
        if self._port is not None:
            self._port.close()
            self._port = None

    def close(self) -> None:
        """Closes all sockets."""
        self.hang_up()
        self._listener.close()


@dataclass
class Running:
    """A command in the background, running or ended."""

    agent: Agent
    name: str
    shared: Path

    @property
    def pid_path(self) -> Path:
        """The file with its process id."""
        return self.shared / f"{self.name}.pid"

    def log(self) -> str:
        """Its output until now."""
        path = self.shared / f"{self.name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def exit_code(self) -> Optional[int]:
        """Its exit code; None: it is running."""
        path = self.shared / f"{self.name}.exit"
        return int(path.read_text()) if path.exists() else None

    def kill(self, sig: signal.Signals) -> None:
        """Signals all processes of the command; does nothing if it has ended."""
        if self.exit_code() is None:
            self.agent.ask(f"kill -{sig.value} -$(cat {HOST_DIR}/{self.pid_path.name})")

    def wait(self, timeout: float) -> int:
        """Waits for its end; returns its exit code."""
        self._poll("to end", lambda: self.exit_code() is not None, timeout)
        status = self.exit_code()
        assert status is not None
        return status

    def wait_said(self, words: str, timeout: float) -> None:
        """Waits until its output contains @words; raises if it ends before."""
        self.wait_until(f"to say '{words}'", lambda: words in self.log(), timeout)

    def wait_until(self, what: str, condition: Callable[[], bool], timeout: float,
                   interval: float = 0.02) -> None:
        """Waits for @condition, which @what describes; raises if the command ends before."""
        self._poll(what, lambda: condition() or self.exit_code() is not None, timeout, interval)
        if self.exit_code() is not None and not condition():
            raise TestbedError(f"{self.name} on {self.agent.name} ended with {self.exit_code()}, "
                               f"and was {what}: {self._tail()}")

    def _poll(self, what: str, condition: Callable[[], bool], timeout: float,
              interval: float = 0.02) -> None:
        try:
            process.wait_until(f"{self.name} on {self.agent.name} {what}", condition, timeout,
                               interval)
        except TestbedError as error:
            raise TestbedError(f"{error}; it said: {self._tail()}") from error

    def _tail(self, lines: int = 12) -> str:
        return "\n".join(["", *self.log().splitlines()[-lines:]])
