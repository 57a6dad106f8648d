"""Addresses of loopback that are free."""

import os
import socket
from contextlib import suppress
from itertools import count

_NUMBERS = count(os.getpid() * 997)  # processes of tests that run side by side try different ports


def free_port() -> int:
    """A free port below those that the system gives to others, so that it is still free when it is used."""
    while True:
        port = 10_000 + next(_NUMBERS) % 20_000
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


def free_address() -> str:
    return f"tcp://127.0.0.1:{free_port()}"
