"""Nothing here reaches further than this machine."""

import socket
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One certificate instead of the world's 150, which every client reads anew; and the libraries, which take seconds
    to be loaded: no test's time.
    """
    import certifi

    from coterie.agents.backends.models import anthropic, openai, servers  # noqa: F401

    end = "-----END CERTIFICATE-----\n"
    file = tmp_path_factory.mktemp("authority") / "one.pem"
    file.write_text(Path(certifi.where()).read_text().partition(end)[0] + end)
    return file


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch, authority: Path) -> None:
    """A connection to anywhere else fails, and no name is looked up; no key of the user's is in reach."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
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
