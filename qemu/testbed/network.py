# SPDX-License-Identifier: GPL-2.0
"""The network of the guests: an Ethernet switch in a thread of this process.

Each guest is connected by a unix socket (-netdev stream of QEMU: four bytes with the length before
each frame). If two QEMUs were connected directly, they would have to be restarted together. The
switch remains when a guest ends, and the guest connects again when it boots again.

A port can be cut: the switch then drops frames in both directions, and neither end notices, as if a
cable between two switches were pulled. If a guest does not read its frames, the switch drops them.
"""

import selectors
import socket
import struct
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from . import process

# Most bytes that wait for a guest before the switch drops frames; soft RoCE has less in flight.
WAITING_BYTES = 16 << 20
READ_BYTES = 1 << 18
LENGTH = struct.Struct(">I")
MAC_BYTES = 6


@dataclass
class Port:
    """The port of a guest. Only the thread of the switch uses it, except for @up."""

    mac: bytes
    listener: socket.socket
    up: bool = True
    cable: Optional[socket.socket] = None
    received: bytearray = field(default_factory=bytearray)
    waiting: bytearray = field(default_factory=bytearray)


class Switch:
    """An Ethernet switch with a port for each guest."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports: dict[str, Port] = {}
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def add(self, name: str) -> None:
        """Adds a port for a guest; only before start()."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path(name)))
        listener.listen()
        mac = bytes((0x52, 0x54, 0, 0, 0, len(self._ports) + 1))
        port = self._ports[name] = Port(mac, listener)
        self._selector.register(listener, selectors.EVENT_READ, port)

    def start(self) -> None:
        """Starts the switch: guests can connect."""
        self._thread.start()

    def mac(self, name: str) -> str:
        """The MAC address of a guest."""
        return self._ports[name].mac.hex(":")

    def qemu_args(self, name: str) -> list[str]:
        """QEMU arguments that connect a guest."""
        return ["-netdev", f"stream,id=net,server=off,addr.type=unix,addr.path={self._path(name)}",
                "-device", f"virtio-net-pci,netdev=net,mac={self.mac(name)},romfile="]

    def cut(self, name: str) -> None:
        """Drops all frames to and from a guest."""
        self._ports[name].up = False

    def mend(self, name: str) -> None:
        """Undoes cut()."""
        self._ports[name].up = True

    def close(self) -> None:
        """Stops the switch and closes all sockets; guests lose their link."""
        self._wake.close()
        if self._thread.is_alive():
            self._thread.join(process.KILL_WAIT_SECONDS)
        for port in self._ports.values():
            self._unplug(port)
            port.listener.close()
        self._selector.close()
        self._woken.close()

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.net"

    def _run(self) -> None:
        while True:
            for key, events in self._selector.select():
                port = key.data
                if port is None:
                    return
                if key.fileobj is port.listener:
                    self._plug(port)
                elif key.fileobj is port.cable:
                    self._serve(port, events)

    def _plug(self, port: Port) -> None:
        self._unplug(port)
        port.cable, _ = port.listener.accept()
        port.cable.setblocking(False)
        self._selector.register(port.cable, selectors.EVENT_READ, port)

    def _unplug(self, port: Port) -> None:
        if port.cable is not None:
            self._selector.unregister(port.cable)
            port.cable.close()
            port.cable = None
            port.received.clear()
            port.waiting.clear()

    def _serve(self, port: Port, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._send(port)
            if events & selectors.EVENT_READ:
                self._receive(port)
        except OSError:
            self._unplug(port)

    def _receive(self, port: Port) -> None:
        assert port.cable is not None
        data = port.cable.recv(READ_BYTES)
        if not data:
            self._unplug(port)
            return
        port.received += data
        at = 0
        while len(port.received) - at >= LENGTH.size:
            end = at + LENGTH.size + LENGTH.unpack_from(port.received, at)[0]
            if end > len(port.received):
                break
            self._forward(port, port.received[at:end])
            at = end
        del port.received[:at]

    def _forward(self, source: Port, frame: bytearray) -> None:
        """Sends a frame to its destination; a multicast frame to all ports except its source."""
        to = frame[LENGTH.size:LENGTH.size + MAC_BYTES]
        several = to[0] & 1
        for port in self._ports.values():
            if port is source or port.cable is None or not (several or port.mac == to):
                continue
            if source.up and port.up and len(port.waiting) + len(frame) <= WAITING_BYTES:
                port.waiting += frame
                self._send(port)

    def _send(self, port: Port) -> None:
        assert port.cable is not None
        try:
            del port.waiting[:port.cable.send(port.waiting)]
        except BlockingIOError:
            pass
        except OSError:
            port.waiting.clear()	# disconnected: _serve() unplugs it
        more = selectors.EVENT_WRITE if port.waiting else 0
        self._selector.modify(port.cable, selectors.EVENT_READ | more, port)
