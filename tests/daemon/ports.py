# SPDX-License-Identifier: GPL-2.0
"""Ports of this machine, for the daemon's tests in Python."""

import socket


def free_port(host: str) -> int:
    """A port that no socket of @host uses at present."""
    family = socket.AF_INET6 if host[0] == "[" else socket.AF_INET
    with socket.socket(family) as sock:
        sock.bind((host.strip("[]"), 0))
        return sock.getsockname()[1]
