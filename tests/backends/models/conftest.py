"""Nothing here reaches further than this machine."""

import socket
from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="session")
def libraries() -> None:
    """They take seconds to be loaded, which is no test's time."""
    from coterie.backends.models import anthropic, openai, servers  # noqa: F401


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to anywhere else fails, and no name is looked up; no key of the user's is in reach."""
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def connected(self: socket.socket, address: Any) -> None:
        assert self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1"), f"a test wants to reach {address}"
        connect(self, address)

    def looked_up(host: Any, *arguments: Any, **options: Any) -> Any:
        assert host in (None, "127.0.0.1", b"127.0.0.1", "localhost"), f"a test looks up {host}"
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket.socket, "connect", connected)
    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("COTERIE_CASSETTE", raising=False)
