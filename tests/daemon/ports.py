# SPDX-License-Identifier: GPL-2.0
"""Ports of this machine, for the daemon's tests in Python."""

import errno
import random
import socket

# Below those that the kernel gives to outgoing connections: none of them takes the port before its user does.
PORTS = range(10000, 32768)


def free_port(host: str) -> int:
    """A port that no socket of @host uses at present."""
    family = socket.AF_INET6 if host[0] == "[" else socket.AF_INET
    while True:
        with socket.socket(family) as sock:
            port = random.choice(PORTS)
            try:
                sock.bind((host.strip("[]"), port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            return port
