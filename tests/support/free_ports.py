"""Addresses of loopback that are free."""

import socket


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def free_address() -> str:
    return f"tcp://127.0.0.1:{free_port()}"
