"""Forged requests to the page's server: each is refused before a handler runs, and none of two is read as another."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from bundles import bundle
from page_stage import serving, trade

from coterie.interfaces.ui.access import SessionAccess, guarded

ORIGIN = "http://127.0.0.1:7411"
HOST = "127.0.0.1:7411"
Headers = list[tuple[str, str]]


def asked(access: SessionAccess, method: str, path: str, headers: Headers) -> tuple[int, bool]:
    """The status of a request, and whether it reached the application."""
    reached, statuses = [], []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        statuses.append(message.get("status"))

    raw = [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    asyncio.run(guarded(app, access, lambda: [ORIGIN])({**scope, "headers": raw}, receive, send))  # type: ignore[arg-type]
    return statuses[0], bool(reached)


@pytest.fixture
def access() -> SessionAccess:
    return SessionAccess()


def secret_of(access: SessionAccess) -> str:
    return access.trade(access.new_code())


def own(access: SessionAccess) -> dict[str, str]:
    """The headers of the page itself."""
    return {
        "host": HOST,
        "origin": ORIGIN,
        "authorization": f"Bearer {secret_of(access)}",
        "x-coterie": "1",
        "content-type": "application/json",
        "sec-fetch-site": "same-origin",
    }


def test_the_page_itself_may_act(access: SessionAccess) -> None:
    """The control of what follows."""
    assert asked(access, "POST", "/api/runs/r/act", list(own(access).items())) == (200, True)


CHANGED: dict[str, dict[str, str | None]] = {
    "no host": {"host": None},
    "a host without its port": {"host": "127.0.0.1"},
    "another port": {"host": "127.0.0.1:7412"},
    "a host that begins alike": {"host": "127.0.0.1:7411.evil.example"},
    "a host that ends alike": {"host": "evil.example:127.0.0.1:7411"},
    "a user in the host": {"host": "127.0.0.1:7411@evil.example"},
    "a host with a dot": {"host": "127.0.0.1.:7411"},
    "a decimal host": {"host": "2130706433:7411"},
    "a short host": {"host": "127.1:7411"},
    "an unspecified host": {"host": "0.0.0.0:7411"},
    "a mapped host": {"host": "[::ffff:127.0.0.1]:7411"},
    "a rebound host": {"host": "a.evil.example:7411"},
    "two hosts in one": {"host": f"{HOST}, evil.example"},
    "no origin of its own": {"origin": "null"},
    "an empty origin": {"origin": ""},
    "a foreign origin": {"origin": "http://evil.example"},
    "a secure origin": {"origin": "https://127.0.0.1:7411"},
    "an origin that begins alike": {"origin": f"{ORIGIN}.evil.example"},
    "an origin with a path": {"origin": f"{ORIGIN}/"},
    "an origin in capitals": {"origin": ORIGIN.upper()},
    "another port of this host": {"origin": "http://127.0.0.1:1"},
    "an extension": {"origin": "chrome-extension://abcdefgh"},
    "a file": {"origin": "file://"},
    "from another site": {"sec-fetch-site": "cross-site"},
    "from another port": {"sec-fetch-site": "same-site"},
    "from nowhere known": {"sec-fetch-site": "evil"},
    "no secret": {"authorization": None},
    "an empty secret": {"authorization": "Bearer "},
    "no scheme": {"authorization": "x" * 43},
    "a basic secret": {"authorization": "Basic OngK"},
    "not ascii": {"authorization": "Bearer \xe9\xff"},
    "a null": {"authorization": "Bearer \0"},
    "no header of ours": {"x-coterie": None},
    "a form": {"content-type": "application/x-www-form-urlencoded"},
    "a form with files": {"content-type": "multipart/form-data; boundary=x"},
    "plain text": {"content-type": "text/plain"},
    "no type": {"content-type": None},
    "a type that begins alike": {"content-type": "application/jsonx"},
    "a type with a parameter first": {"content-type": "text/plain; application/json"},
    "two types": {"content-type": "text/plain, application/json"},
}


@bundle("what", CHANGED)
def test_a_request_with_one_thing_wrong_reaches_nothing(what: str) -> None:
    """Each header counts by itself, whatever the others say."""
    access = SessionAccess()
    headers = {name: value for name, value in {**own(access), **CHANGED[what]}.items() if value is not None}
    status, reached = asked(access, "POST", "/api/runs/r/act", list(headers.items()))

    assert status in (401, 403, 415, 421)
    assert not reached


@bundle("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "post", "HEAD "])
def test_no_method_acts_without_its_header(method: str) -> None:
    """A method that is not known is one that changes something."""
    access = SessionAccess()
    headers = own(access)
    headers.pop("x-coterie")
    assert asked(access, method, "/api/runs/r/act", list(headers.items())) == (403, False)
    assert asked(access, method, "/runs/r", list(own(access).items())) == (405, False)


@bundle(
    "headers",
    [
        [("x-http-method-override", "GET")],
        [("x-forwarded-host", HOST), ("host", "evil.example")],
        [("x-original-url", "/api/session")],
        [("forwarded", f"host={HOST}")],
        [("cookie", "secret=x")],
        [("origin", "http://evil.example")],
    ],
    ids=["method override", "forwarded host", "original path", "forwarded", "cookie", "origin"],
)
def test_no_further_header_stands_for_a_secret(headers: Headers) -> None:
    """What proxies and frameworks obey is not obeyed."""
    access = SessionAccess()
    known = {"host": HOST, "x-coterie": "1", "content-type": "application/json", **dict(headers)}
    status, reached = asked(access, "POST", "/api/runs/r/act", list(known.items()))
    assert (status in (401, 403, 421), reached) == (True, False)


def test_of_two_values_of_a_header_no_foreign_one_is_hidden(access: SessionAccess) -> None:
    """A second secret, host or origin does not replace a wrong first one."""
    good = own(access)
    for name, wrong in {"host": "evil.example", "origin": "http://evil.example", "authorization": "Bearer x"}.items():
        others = [(key, value) for key, value in good.items() if key != name]
        status, reached = asked(access, "POST", "/api/runs/r/act", [(name, wrong), *others, (name, good[name])])
        assert (status in (401, 403, 421), reached) == (True, False), name


def test_a_secret_of_an_earlier_server_opens_nothing(access: SessionAccess) -> None:
    """Nor half of one, nor one that was traded for no code."""
    old = secret_of(SessionAccess())
    for given in (old, secret_of(access)[:-1], secret_of(access) + "x", access.new_code()):
        headers = {**own(access), "authorization": f"Bearer {given}"}
        assert asked(access, "GET", "/api/about", list(headers.items())) == (401, False)


RAW = {
    "length and chunks": "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /api/about HTTP/1.1\r\n",
    "two lengths": "Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
    "a negative length": "Content-Length: -1\r\n\r\n{}",
    "a length in words": "Content-Length: two\r\n\r\n{}",
    "a length with a sign": "Content-Length: +2\r\n\r\n{}",
    "a huge length": "Content-Length: 99999999999999999999\r\n\r\n{}",
    "chunks twice": "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunks and identity": "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
    "a huge chunk": "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n{}",
    "a chunk of nothing": "Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}",
    "a blank before the colon": "Content-Length : 2\r\n\r\n{}",
    "a folded header": "X-A: b\r\n Authorization: Bearer x\r\nContent-Length: 0\r\n\r\n",
    "a bare newline": "X-A: b\nContent-Length: 0\n\n",
    "a null in a header": "X-A: b\0c\r\nContent-Length: 0\r\n\r\n",
    "an upgrade": "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
    "an upgrade to h2c": "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n\r\n",
    "continue": "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n",
}
TARGETS = ("/api/about", "//api/about", "/api//about", "/./api/about", "/%61pi/about", "http://evil.example/api/about")


async def sent(port: int, data: bytes) -> bytes:
    """What the server answers to *data* until it closes, or has nothing more to say."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = b""
    try:
        writer.write(data)
        await writer.drain()
        writer.write_eof()
        while part := await asyncio.wait_for(reader.read(1 << 16), 30):
            found += part
    except (ConnectionError, TimeoutError):
        pass
    finally:
        writer.close()
    return found


@pytest.mark.slow
def test_malformed_requests_are_no_other_requests(tmp_path: Path) -> None:
    """No bytes of a body, and no form of a path, reach a run without the secret; the server serves on."""

    async def main() -> None:
        async with serving(tmp_path) as server, httpx.AsyncClient(base_url=server.address) as client:
            port = int(server.address.rstrip("/").rpartition(":")[2])
            host = f"Host: 127.0.0.1:{port}\r\n"
            for what, rest in RAW.items():
                data = (
                    f"POST /api/runs/r/act HTTP/1.1\r\n{host}X-Coterie: 1\r\nContent-Type: application/json\r\n{rest}"
                )
                smuggled = f"GET /api/about HTTP/1.1\r\n{host}\r\n"
                got = await sent(port, (data + smuggled).encode())
                assert b" 200 " not in got, (what, got)
                assert b"Traceback" not in got, (what, got)
            for target in TARGETS:
                got = await sent(port, f"GET {target} HTTP/1.1\r\n{host}Connection: close\r\n\r\n".encode())
                assert b'"version"' not in got, (target, got)
            secret = await trade(server, client)
            good = await client.get("/api/about", headers={"authorization": f"Bearer {secret}"})
            assert good.status_code == 200

    asyncio.run(main())
