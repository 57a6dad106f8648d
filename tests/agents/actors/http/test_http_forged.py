"""Forged requests over HTTP/3: none passes the token, and none is read as another request."""

import asyncio
from pathlib import Path

import pytest
from gateways import gateway
from http_clients import get_over_http3, tls_files, trusting

pytestmark = pytest.mark.extras("http3")

ROUTES = ({"method": "GET", "path": "/v1/users/{id}", "agent": "echo"},)
TOKEN = b"bearer-of-the-user"
Head = list[tuple[bytes, bytes]]


def head(
    method: bytes = b"GET", path: bytes = b"/v1/users/7", authority: bytes = b"localhost", *more: tuple[bytes, bytes]
) -> Head:
    """The head of a request, as HTTP/3 sends it."""
    return [(b":method", method), (b":scheme", b"https"), (b":authority", authority), (b":path", path), *more]


FORGED: dict[str, Head] = {
    "no token": head(),
    "an empty token": head(b"GET", b"/v1/users/7", b"localhost", (b"authorization", b"Bearer ")),
    "half a token": head(b"GET", b"/v1/users/7", b"localhost", (b"authorization", b"Bearer " + TOKEN[:-1])),
    "a token in the query": head(path=b"/v1/users/7?authorization=Bearer%20" + TOKEN),
    "a token in a cookie": head(b"GET", b"/v1/users/7", b"localhost", (b"cookie", b"authorization=Bearer " + TOKEN)),
    "a token in a name of its own": head(b"GET", b"/v1/users/7", b"localhost", (b":authorization", b"Bearer " + TOKEN)),
    "no path": [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"localhost")],
    "no method": [(b":scheme", b"https"), (b":authority", b"localhost"), (b":path", b"/v1/users/7")],
    "two methods": head(b"GET", b"/v1/users/7", b"localhost", (b":method", b"POST")),
    "two paths": head(b"GET", b"/openapi.json", b"localhost", (b":path", b"/v1/users/7")),
    "a name behind the head": [*head(), (b"x", b"1"), (b":path", b"/v1/users/8")],
    "a path that is none": head(path=b"v1/users/7"),
    "an empty path": head(path=b""),
    "a path with a line": head(path=b"/v1/users/7 HTTP/1.1\r\nauthorization: Bearer " + TOKEN),
    "a path above": head(path=b"/openapi.json/../v1/users/7"),
    "an encoded path above": head(path=b"/openapi.json/%2e%2e/v1/users/7"),
    "a doubled slash": head(path=b"//v1/users/7"),
    "a foreign path": head(path=b"https://evil.example/v1/users/7"),
    "a tunnel": [(b":method", b"CONNECT"), (b":authority", b"127.0.0.1:22")],
    "a web socket": [*head(b"CONNECT"), (b":protocol", b"websocket")],
    "chunks": head(b"POST", b"/v1/users/7", b"localhost", (b"transfer-encoding", b"chunked")),
    "a false length": head(b"POST", b"/v1/users/7", b"localhost", (b"content-length", b"1")),
    "an upgrade": head(b"GET", b"/v1/users/7", b"localhost", (b"connection", b"upgrade"), (b"upgrade", b"h2c")),
    "two hosts": head(b"GET", b"/v1/users/7", b"localhost", (b"host", b"evil.example")),
    "a name in capitals": head(b"GET", b"/v1/users/7", b"localhost", (b"Authorization", b"Bearer x")),
    "a line in a value": head(b"GET", b"/v1/users/7", b"localhost", (b"x", b"1\r\nauthorization: Bearer " + TOKEN)),
}


@pytest.mark.slow
def test_no_forged_request_passes_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets an error or nothing at all; the gateway serves the true client after it."""
    files = tls_files(tmp_path)
    monkeypatch.setenv("THE_TOKEN", TOKEN.decode())
    options = {"tls_cert": str(files.cert), "tls_key": str(files.key), "enable_http3": True, "port_quic": 0}

    async def scene() -> None:
        known = {"routes": ROUTES, "auth": {"token_env": "THE_TOKEN"}, **options}
        async with gateway(options={"verify": trusting(files)}, **known) as api:
            port = (await api.runtime.ask("api", {"__op__": "state"})).payload["port_quic"]
            for what, forged in FORGED.items():
                body = b"{}" if forged[0][1] == b"POST" else b""
                status, said = await get_over_http3(port, "", files, forged, body)
                assert status == 0 or status >= 400, (what, status, said)
                assert b'"id":"7"' not in said, (what, said)
            true = head(b"GET", b"/v1/users/7", b"localhost", (b"authorization", b"Bearer " + TOKEN))
            status, said = await get_over_http3(port, "", files, true)
            assert (status, b'"7"' in said) == (200, True), said

    asyncio.run(scene())
