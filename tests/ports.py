# SPDX-License-Identifier: Apache-2.0
"""Ports for servers and groups of ranks that tests start."""

import contextlib
import random
import socket


def free_port():
    """Below those that the kernel gives to connections and to port 0: no one else takes it before it is listened on."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        below = max(int(f.read().split()[0]), 12000)
    while True:
        port = random.SystemRandom().randrange(10000, below)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port
