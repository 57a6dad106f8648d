"""A gateway turns requests into messages, and what becomes of them into status codes."""

import asyncio
import contextlib
import functools
import gzip
import json
import logging
import os
import shutil
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from bundles import bundle
from free_ports import free_port
from gateways import Echo, events, gateway
from http_clients import OPEN, client, close_all, connect, get_over_http3, tls_files, trusting
from until import soon

from coterie.agents.actors.declared import AgentNode, HTTPGateway, Supervisor
from coterie.agents.actors.runtime import Runtime
from coterie.errors import CannotStart, ClassNotFound

ROUTES = (
    {"path": "/v1/chat", "agent": "echo", "method": "POST"},
    {"path": "/v1/users/{id}", "agent": "echo", "method": "GET"},
    {"path": "/v1/users/{id}", "agent": "odd", "method": "DELETE"},
    {"path": "/v1/notes", "agent": "echo", "method": "PUT", "mode": "cast"},
    {"path": "/v1/count", "agent": "counter", "method": "GET"},
    {"path": "/v1/users/me", "agent": "counter", "method": "GET"},
)
TO_ECHO = [route for route in ROUTES if route["agent"] == "echo"]
SECRET = "a secret of thirty-two bytes or more"


@pytest.mark.parametrize("http2", [False, True])
def test_a_call_is_an_ask_with_body_query_and_path(http2: bool) -> None:
    """The path is stronger than the body and the body than the query; the reply's payload is the response."""

    async def scene() -> None:
        async with gateway(http2, routes=ROUTES) as api:
            answer = await api.post("/v1/chat?text=no&also=1&also=2", json={"text": "hello"})
            assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/json"
            assert answer.json()["payload"] == {"text": "hello", "also": ["1", "2"]}
            answer = await api.get("/v1/users/a%2Fb?id=no")
            assert answer.json()["payload"] == {"id": "a/b"}
            assert (await api.get("/v1/users/me")).json()["payload"] == {"id": "me"}

    asyncio.run(scene())


@pytest.mark.extras("http3")
def test_a_call_over_http_3(tmp_path: Path) -> None:
    """The same routes, on the UDP port beside TLS."""
    files = tls_files(tmp_path)
    tls = {"tls_cert": str(files.cert), "tls_key": str(files.key), "enable_http3": True, "port_quic": 0}

    async def scene() -> None:
        async with gateway(options={"verify": trusting(files)}, routes=ROUTES, **tls) as api:
            state = (await api.runtime.ask("api", {"__op__": "state"})).payload
            status, body = await get_over_http3(state["port_quic"], "/v1/users/7?a=1", files)
            assert (status, json.loads(body)["payload"]) == (200, {"id": "7", "a": "1"})
            answer = await api.get(f"https://127.0.0.1:{api.port}/v1/users/7")
            assert answer.json()["payload"] == {"id": "7"}

    asyncio.run(scene())


def test_a_cast_is_accepted_before_it_is_handled() -> None:
    """202 says that the message is in the mailbox; its type is `cast`."""

    async def scene() -> None:
        async with gateway(routes=ROUTES) as api:
            answer = await api.client.put("/v1/notes", json={"hang": 0.05})
            assert (answer.status_code, answer.json()) == (202, {})
            assert (await api.runtime.ask("echo", {})).payload["as"] == "message"
            assert (await api.runtime.ask("echo", {"__op__": "state"})).payload == {"seen": 2}

    asyncio.run(scene())


def test_default_routes_reach_agents_only() -> None:
    """Without routes every agent has three; gateways, supervisors and unknown names are not found."""

    async def scene() -> None:
        async with gateway() as api:
            assert (await api.post("/agents/echo", json={"a": 1})).json()["payload"] == {"a": 1}
            assert (await api.post("/agents/echo/cast", json={})).status_code == 202
            assert (await api.get("/agents/echo/state")).json() == {"seen": 2}
            for name in ("api", "root", "nobody", "_runtime"):
                assert (await api.post(f"/agents/{name}", json={})).status_code == 404
                assert (await api.get(f"/agents/{name}/state")).status_code == 404

    asyncio.run(scene())


def test_agents_are_reached_only_by_declared_routes() -> None:
    """With routes the default ones are gone, and no path, header or key of a body leads around them."""

    async def scene() -> None:
        async with gateway(routes=ROUTES[:1]) as api:
            for method, path in (("POST", "/agents/echo"), ("GET", "/agents/echo/state"), ("POST", "/v1/chat/")):
                assert (await api.client.request(method, path)).status_code == 404
            for key in ("__op__", "__op__"):
                assert (await api.post("/v1/chat", json={key: "state"})).status_code == 422
                assert (await api.post(f"/v1/chat?{key}=state", json={})).status_code == 422
            headers = {"x-coterie-type": "_correction", "x-civitas-type": "turn.interrupt"}
            answer = await api.post("/v1/chat", json={"type": "_terminated", "recipient": "odd"}, headers=headers)
            reply = answer.json()
            assert (reply["as"], reply["agent"], reply["from"]) == ("message", "echo", "api")

    asyncio.run(scene())


def test_each_fault_of_a_request_has_its_status() -> None:
    """404, 405 with the methods that there are, 413, 415 and 422."""

    async def scene() -> None:
        async with gateway(routes=ROUTES, max_body=100) as api:
            assert (await api.get("/nothing")).status_code == 404
            answer = await api.client.patch("/v1/users/7")
            assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET")
            assert (await api.get("/v1/chat")).headers["allow"] == "POST"
            assert (await api.post("/v1/chat", content=b"x" * 101)).status_code == 413

            async def parts() -> Any:
                for _ in range(10):
                    yield b"x" * 20

            assert (await api.post("/v1/chat", content=parts())).status_code == 413
            assert (await api.post("/v1/chat", content=b"a=1")).status_code == 415
            form = {"content-type": "application/x-www-form-urlencoded"}
            assert (await api.post("/v1/chat", content=b"a=1", headers=form)).status_code == 415
            plain = {"content-type": "application/json; charset=utf-8"}
            for body in (b"{", b"[1]", b'"text"', b'{"a": "\xff"}', b"[" * 100):
                answer = await api.post("/v1/chat", content=body, headers=plain)
                assert (answer.status_code, "error" in answer.json()) == (422, True), body
            assert (await api.get("/v1/users/%ff")).status_code == 422
            assert (await api.get("/v1/users/7?a=%ff")).status_code == 422
            assert (await api.post("/v1/chat", content=b"{}", headers=plain)).status_code == 200
            assert (await api.post("/v1/chat")).status_code == 200

    asyncio.run(scene())


@bundle(
    ("header", "value", "status"),
    [
        ("content-encoding", "gzip", 415),
        ("content-encoding", "identity, br", 415),
        ("content-encoding", "Identity", 200),
        ("content-type", "application/json; charset=latin-1", 415),
        ("content-type", 'application/json; a=b; Charset="ISO-8859-1"', 415),
        ("content-type", 'application/json;charset="UTF-8"', 200),
        ("content-type", "application/ld+json; charset=us-ascii", 200),
    ],
)
def test_a_body_is_json_in_utf_8_without_an_encoding(header: str, value: str, status: int) -> None:
    """Any other is refused by its headers, and never read as if it were plain."""

    async def scene() -> None:
        async with gateway(routes=ROUTES) as api:
            answer = await api.post(
                "/v1/chat", content=b'{"a": 1}', headers={"content-type": "application/json", header: value}
            )
            assert answer.status_code == status
            if status == 415:
                assert answer.json() == {"error": "the body must be JSON in UTF-8, without a content encoding"}

    asyncio.run(scene())


def test_each_failure_of_an_agent_has_its_status() -> None:
    """A crash is 502 at once, no answer in time 504, a stopped agent 503, a reply that is no JSON 500."""

    async def scene() -> None:
        async with gateway(routes=ROUTES, request_timeout=0.3) as api:
            assert (await api.post("/v1/chat", json={"hang": 600})).status_code == 504
        async with gateway(routes=ROUTES) as api:
            answer = await api.post("/v1/chat", json={"boom": "secret detail"})
            assert (answer.status_code, answer.json()) == (502, {"error": "agent 'echo' crashed", "kind": "crashed"})
            assert (await api.client.delete("/v1/users/7")).status_code == 500
            await api.runtime.stop_agent("counter")
            answer = await api.get("/v1/count")
            assert (answer.status_code, answer.json()["kind"]) == (503, "stopped")

    asyncio.run(scene())


def test_half_a_surrogate_pair_is_escaped() -> None:
    """Where no journal can keep it, as a key, it fails the stream that it is for, and the system goes on."""

    async def scene() -> None:
        async with gateway() as api:
            answer = await api.post("/agents/odd", json={"half": 1})
            assert (answer.status_code, answer.text) == (200, r'{"value": "\ud800"}')
            found = await read_post(api, "/agents/odd", {"half": 1})
            assert [one["data"] for one in found[1:]] == [r'["\ud800"]', r'{"value": "\ud800"}']
            found = await read_post(api, "/agents/odd", {"piece": 1})
            assert [one["event"] for one in found] == ["open", "error"]

    asyncio.run(scene())


def test_a_body_that_does_not_come_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a request begins with its head."""
    monkeypatch.setattr("coterie.agents.actors.http.body.SILENCE", 0.1)

    async def scene() -> None:
        async with gateway(request_timeout=0.2) as api:
            head = b"POST /agents/echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            reader, _ = await connect(api, head + b"content-length: 9\r\n\r\n{")
            assert b" 408 " in await asyncio.wait_for(reader.readline(), 60)

    asyncio.run(scene())


def test_a_body_that_is_cut_off_is_400() -> None:
    """The client may still read, and the fault is not the gateway's."""

    async def scene() -> None:
        async with gateway() as api:
            head = b"POST /agents/echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            for rest in (b"content-length: 9\r\n\r\n{", b"transfer-encoding: chunked\r\n\r\nno size\r\n"):
                reader, writer = await connect(api, head + rest)
                writer.write_eof()
                assert b" 400 " in await asyncio.wait_for(reader.readline(), 60)

    asyncio.run(scene())


def test_middleware_that_takes_too_long_is_504() -> None:
    """The request has arrived, whether its body was read or not."""

    async def scene() -> None:
        async with gateway(request_timeout=0.1, middleware=[f"{__name__}.turn_away"]) as api:
            assert (await api.post("/agents/echo?mood=sleep", json={})).status_code == 504
            assert (await api.get("/agents/echo/state?mood=sleep")).status_code == 504

    asyncio.run(scene())


def test_requests_above_the_limit_get_503() -> None:
    """A request that was refused takes no room."""

    async def scene() -> None:
        async with gateway(max_requests=2) as api:
            held = [asyncio.create_task(api.post("/agents/echo", json={"hold": 1})) for _ in range(2)]
            await soon(lambda: in_hand(api) == 2)
            for _ in range(3):
                answer = await api.post("/agents/echo", json={})
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            Echo.released.set()
            assert [answer.status_code for answer in await asyncio.gather(*held)] == [200, 200]
            await soon(lambda: in_hand(api) == 0)
            assert (await api.post("/agents/echo", json={})).status_code == 200

    asyncio.run(scene())


def test_a_body_of_ten_megabytes_is_refused() -> None:
    """Over both versions of HTTP, and the connection or the server is none the worse."""

    async def scene() -> None:
        for http2 in (False, True):
            async with gateway(http2) as api:
                for _ in range(3):
                    with contextlib.suppress(httpx.ProtocolError if http2 else ()):  # it expects no answer yet
                        answer = await api.post("/agents/echo", content=b"x" * 10_000_000)
                        assert answer.status_code == 413
                    assert (await api.post("/agents/echo", json={})).status_code == 200

    asyncio.run(scene())


def test_a_response_that_needs_no_body_arrives() -> None:
    """Without a reset, on a connection that can be used again."""

    async def scene() -> None:
        async with gateway(routes=ROUTES, max_body=100) as api:

            async def parts() -> Any:
                for _ in range(200):
                    yield b"x" * 1000

            for _ in range(3):
                assert (await api.post("/v1/chat", content=parts())).status_code == 413
                assert (await api.post("/nothing", content=parts())).status_code == 404
                assert (await api.post("/v1/users/7", content=parts())).status_code == 405

    asyncio.run(scene())


def test_a_body_that_comes_slowly_is_read_to_its_end() -> None:
    """Its connection is not closed while the client still sends, which would reset it."""

    async def scene() -> None:
        async with gateway(routes=ROUTES, max_body=100) as api:
            head = b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500\r\n\r\n"
            reader, writer = await connect(api, head)
            for _ in range(5):
                await asyncio.sleep(0.05)
                assert not reader._buffer  # type: ignore[attr-defined]
                writer.write(b"x" * 100)
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
            assert answer.startswith(b"HTTP/1.1 413 ")
            assert b"connection: close" not in answer
            writer.write(b"GET /v1/users/7 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b"HTTP/1.1 200 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)

    asyncio.run(scene())


def test_a_body_that_does_not_end_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that never sends the rest, and one that asks first, are told that the connection is closed."""
    monkeypatch.setattr("coterie.agents.actors.http.body.SILENCE", 0.5)

    async def scene() -> None:
        async with gateway(routes=ROUTES, max_body=100) as api:
            head = b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500000\r\n"
            for rest in (b"\r\n" + b"x" * 1000, b"expect: 100-continue\r\n\r\n"):
                reader, _ = await connect(api, head + rest)
                answer = await asyncio.wait_for(reader.read(), 60)
                assert answer.startswith(b"HTTP/1.1 413 ")
                assert b"connection: close\r\n" in answer

    asyncio.run(scene())


@bundle(
    "sent",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 100,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x05\x01\x05\0\0\0\x01\x80\x80\x80\x80\x80",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n\r\n\r\n\x00",
        b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST /agents/echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n\r\nGET /x",
        b"POST /agents/echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n{}",
        b"GET / HTTP/1.1\r\nhost: localhost\r\na: " + b"x" * 200_000,
    ],
)
def test_malformed_http_does_no_harm(sent: bytes) -> None:
    """The connection ends or gets an error, and others are served."""

    async def scene() -> None:
        async with gateway() as api:
            reader, writer = await connect(api)
            try:
                writer.write(sent)
                await writer.drain()
                writer.write_eof()
                got = await asyncio.wait_for(reader.read(), 60)
            except OSError:
                got = b""
            assert b" 200 " not in got
            assert (await api.post("/agents/echo", json={})).status_code == 200

    asyncio.run(scene())


def test_http_2_streams_that_are_reset_at_once_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that begins requests only to cancel them takes no more room than others, and leaves nothing in hand."""
    monkeypatch.setattr("coterie.agents.actors.http.body.ATTENTION", 0.2)
    from h2.config import H2Configuration
    from h2.connection import H2Connection

    async def scene() -> None:
        async with gateway(routes=ROUTES, max_requests=500) as api:
            attack = H2Connection(H2Configuration())
            attack.initiate_connection()
            head = [
                (":method", "GET"),
                (":scheme", "http"),
                (":authority", "localhost"),
                (":path", "/v1/users/7?hang=0.3"),
            ]
            _, writer = await connect(api, attack.data_to_send())
            with contextlib.suppress(ConnectionError):
                for stream in range(1, 4001, 2):
                    attack.send_headers(stream, head, end_stream=True)
                    attack.reset_stream(stream)
                    writer.write(attack.data_to_send())
                    await writer.drain()
            assert (await api.post("/v1/chat", json={})).status_code == 200
            await soon(lambda: in_hand(api) == 0)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("method", "path", "body"), [("POST", "/v1/chat", {"hold": 1}), ("GET", "/v1/users/7?hold=1", None)]
)
def test_an_ask_ends_when_its_client_has_gone(
    method: str, path: str, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no room any more, and its message is withdrawn if the agent has not begun with it."""
    monkeypatch.setattr("coterie.agents.actors.http.body.ATTENTION", 0.1)

    async def scene() -> None:
        async with gateway(routes=ROUTES, request_timeout=600) as api:
            asks = [asyncio.create_task(api.client.request(method, path, json=body)) for _ in range(3)]
            mailbox = api.runtime._started.node.registry.entries["echo"].mailbox
            await soon(lambda: len(mailbox) == 2)
            for ask in asks:
                ask.cancel()
            await soon(lambda: in_hand(api) == 0)
            assert len(mailbox) == 0
            Echo.released.set()
            assert (await api.post("/v1/chat", json={})).status_code == 200

    asyncio.run(scene())


# ---- who may ask


def signed(claims: dict[str, Any], key: str = SECRET, algorithm: str = "HS256") -> dict[str, str]:
    return {"authorization": f"Bearer {jwt.encode(claims, key, algorithm)}"}


def test_a_bearer_token_is_needed_for_everything_but_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong tokens get 401, also for paths that there are not; a token is the bytes of its variable."""
    monkeypatch.setenv("SHOP_TOKEN", "ríght")

    async def scene() -> None:
        async with gateway(routes=ROUTES, auth={"token_env": "SHOP_TOKEN"}) as api:
            for header in (
                "",
                "Bearer",
                "Bearer wrong",
                "Bearer right",
                "Basic ríght",
                "ríght",
                "Bearer ríght2",
                "Bearer é",
            ):
                answer = await api.get("/v1/users/7", headers={"authorization": header.encode()})
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
            assert (await api.get("/nothing")).status_code == 401
            assert (await api.get("/docs")).status_code == 200
            for path in ("/docs/../v1/users/7", "/docs/%2e%2e/v1/users/7", "/openapi.json/", "//v1/users/7"):
                answer = await api.client.send(api.client.build_request("GET", path))
                assert answer.status_code in (401, 404), path
            assert (await api.get("/v1/users/7", headers={"authorization": "bearer ríght".encode()})).status_code == 200

    asyncio.run(scene())


def test_a_jwt_is_checked_with_one_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must be signed with the key, expire, and be for this audience; `none` is never accepted."""
    monkeypatch.setenv("SHOP_SECRET", SECRET)
    late = time.time() + 60
    good = {"exp": late, "aud": "shop", "iss": "us"}
    auth = {"jwt": {"algorithm": "HS256", "secret_env": "SHOP_SECRET", "audience": "shop", "issuer": "us"}}
    bad = [
        signed(good, "another secret of thirty-two bytes!"),
        signed(good, SECRET * 2, "HS512"),
        signed({**good, "exp": time.time() - 5}),
        signed({"aud": "shop", "iss": "us"}),
        signed({**good, "aud": "other"}),
        signed({**good, "iss": "them"}),
        signed({"exp": late, "iss": "us"}),
        {"authorization": "Bearer " + jwt.encode(good, "", "none")},
        {"authorization": "Bearer a.b.c"},
        {"authorization": "Bearer"},
    ]

    async def scene() -> None:
        async with gateway(routes=ROUTES, auth=auth) as api:
            assert (await api.get("/v1/users/7", headers=signed(good))).status_code == 200
            for headers in bad:
                assert (await api.get("/v1/users/7", headers=headers)).status_code == 401

    asyncio.run(scene())


def test_a_public_key_is_no_secret(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token signed by HMAC with the text of the public key is refused: the file names the algorithm."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    monkeypatch.setenv("SHOP_KEY", public.decode())
    claims = {"exp": time.time() + 60}
    head, body = (jwt.utils.base64url_encode(json.dumps(part).encode()) for part in ({"alg": "HS256"}, claims))
    import hashlib
    import hmac

    mac = jwt.utils.base64url_encode(hmac.digest(public, head + b"." + body, hashlib.sha256))

    async def scene() -> None:
        async with gateway(auth={"jwt": {"algorithm": "ES256", "public_key_env": "SHOP_KEY"}}) as api:
            private = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ).decode()
            assert (await api.post("/agents/echo", headers=signed(claims, private, "ES256"))).status_code == 200
            forged = {"authorization": f"Bearer {b'.'.join((head, body, mac)).decode()}"}
            assert (await api.post("/agents/echo", headers=forged)).status_code == 401

    asyncio.run(scene())


@bundle(
    ("config", "said"),
    [
        ({"auth": {"token_env": "UNSET_TOKEN"}}, "UNSET_TOKEN is not set"),
        ({"auth": {"jwt": {"algorithm": "HS256", "secret_env": "SHORT"}}}, "32 are the least"),
        ({"auth": {"jwt": {"algorithm": "HS512", "secret_env": "LONGER"}}}, "36 bytes, and 64 are the least"),
        ({"auth": {"jwt": {"algorithm": "RS256", "secret_env": "SHORT"}}}, "needs public_key"),
        ({"auth": {}}, "either token_env or jwt"),
        ({"host": "0.0.0.0"}, "needs auth"),
        ({"enable_http3": True}, "set port_quic"),
        ({"tls_cert": "no.pem", "tls_key": "no.pem"}, r"no\.pem"),
    ],
)
def test_a_gateway_that_is_not_safe_does_not_start(
    config: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing token, a short secret, an open host without a word: the start fails and says what is missing."""
    monkeypatch.setenv("SHORT", "short")
    monkeypatch.setenv("LONGER", SECRET)

    async def scene() -> None:
        with pytest.raises(CannotStart, match=said):
            async with gateway(**config):
                pass

    asyncio.run(scene())


def test_a_web_page_of_another_site_cannot_use_an_open_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a name of its own for this address, nor from its origin; with a token, both are the token's matter."""
    monkeypatch.setenv("SHOP_TOKEN", "right")
    foreign = ({"host": "evil.example"}, {"host": "[bad"}, {"origin": "http://evil.example"}, {"origin": "null"})

    async def scene() -> None:
        async with gateway() as api:
            for headers in foreign:
                assert (await api.post("/agents/echo/cast?a=1", headers=headers)).status_code == 403, headers
            for name in ("localhost", f"127.0.0.1:{api.port}", "[::1]:80"):
                own = {"host": name, "origin": f"http://{name}", "sec-fetch-site": "same-origin"}
                assert (await api.post("/agents/echo", headers=own)).status_code == 200, name
            for site in ("cross-site", "same-site", "new-words"):
                for method, path in (
                    ("GET", "/agents/echo/state"),
                    ("POST", "/agents/echo"),
                    ("OPTIONS", "/agents/echo"),
                ):
                    found = await api.client.request(method, path, headers={"sec-fetch-site": site})
                    assert found.status_code == 403, (site, method)
                for path in ("/docs", "/openapi.json"):  # a link may lead there
                    assert (await api.get(path, headers={"sec-fetch-site": site})).status_code == 200, (site, path)
            assert (await api.get("/agents/echo/state", headers={"sec-fetch-site": "none"})).status_code == 200
            assert (await api.get("/docs", headers={"host": "evil.example"})).status_code == 403
        async with gateway(auth="none") as api:  # whatever its name, but not from a page of another site
            assert (await api.get("/agents/echo/state", headers={"host": "api.example"})).status_code == 200
            assert (await api.get("/agents/echo/state", headers={"origin": "http://evil.example"})).status_code == 403
        async with gateway(auth={"token_env": "SHOP_TOKEN"}) as api:
            for headers in foreign[::2]:
                known = {**headers, "authorization": "Bearer right"}
                assert (await api.post("/agents/echo", headers=known)).status_code == 200

    asyncio.run(scene())


# ---- middleware, documentation


async def stamp(request: Any, next: Any) -> Any:
    response = await next(request)
    response.headers["x-stamp"] = response.headers.get("x-stamp", "") + request.url.path
    return response


async def turn_away(request: Any, next: Any) -> Any:
    from starlette.exceptions import HTTPException
    from starlette.responses import PlainTextResponse

    match request.query_params.get("mood"):
        case "refuse":
            return PlainTextResponse("go away", 403)
        case "raise":
            raise HTTPException(429, "slowly", {"retry-after": "7"})
        case "boom":
            raise ValueError("a detail of the code")
        case "forget":
            return None
        case "sleep":
            await asyncio.sleep(60)
    return await next(request)


def test_middleware_surrounds_every_request(caplog: pytest.LogCaptureFixture) -> None:
    """The first is the outermost; its errors are 500 without their text, and are logged."""

    async def scene() -> None:
        here = __name__
        async with gateway(middleware=[f"{here}.stamp", f"{here}.turn_away"]) as api:
            assert (await api.post("/agents/echo")).headers["x-stamp"] == "/agents/echo"
            assert (await api.get("/docs")).headers["x-stamp"] == "/docs"
            answer = await api.post("/agents/echo?mood=refuse")
            assert (answer.status_code, answer.headers["x-stamp"]) == (403, "/agents/echo")
            answer = await api.post("/agents/echo?mood=raise")
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
            with caplog.at_level(logging.ERROR, "coterie"):
                for mood in ("boom", "forget"):
                    answer = await api.post(f"/agents/echo?mood={mood}")
                    assert (answer.status_code, answer.json()) == (500, {"error": "the gateway failed"})
            assert "a detail of the code" in caplog.text
            assert "the middleware turn_away must return a response, not None" in caplog.text

    asyncio.run(scene())


async def lead_on(request: Any, next: Any) -> Any:
    """Lead the documentation's paths to an agent, and `/v1/hidden` to the documentation."""
    ways = {"/docs": "/v1/users/7", "/docs/start.js": "/v1/users/7", "/openapi.json": "/v1/count"}
    path = ways.get(request.scope["path"], request.scope["path"])
    path = "/docs" if path == "/v1/hidden" else path
    request.scope["path"], request.scope["raw_path"] = path, path.encode()
    return await next(request)


def test_middleware_that_changes_a_path_opens_no_way_around_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The documentation is for everybody; an agent is not, by whatever path it is reached."""
    monkeypatch.setenv("SHOP_TOKEN", "right")

    async def scene() -> None:
        async with gateway(routes=ROUTES, auth={"token_env": "SHOP_TOKEN"}, middleware=[f"{__name__}.lead_on"]) as api:
            for path in ("/docs", "/docs/start.js", "/openapi.json"):
                answer = await api.get(path)
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
            assert (await api.runtime.ask("echo", {"__op__": "state"})).payload == {}
            assert (await api.get("/v1/hidden")).status_code == 401
            known = {"authorization": "Bearer right"}
            assert (await api.get("/v1/hidden", headers=known)).status_code == 200
            assert (await api.get("/v1/users/7", headers=known)).status_code == 200

    asyncio.run(scene())


def test_middleware_that_is_missing_fails_before_anything_starts() -> None:
    """Never does a gateway serve without it."""

    async def scene() -> None:
        with pytest.raises(ClassNotFound, match="no function 'guard'"):
            async with gateway(middleware=[f"{__name__}.guard"]):
                pass

    asyncio.run(scene())


def not_async(request: Any, next: Any) -> Any:
    return next(request)


class Stamp:
    """Called as `Stamp()(request, next)`: the class itself is no middleware, its instance is."""

    async def __call__(self, request: Any, next: Any) -> Any:
        return await stamp(request, next)


stamp_by_object = Stamp()
stamp_by_wrapper = functools.wraps(stamp)(lambda request, next: stamp(request, next))


@pytest.mark.parametrize("name", ["not_async", "Stamp"])
def test_middleware_that_cannot_be_awaited_fails_before_anything_starts(name: str) -> None:
    """Not with each request."""

    async def scene() -> None:
        form = rf"the middleware '{__name__}\.{name}' must have the form `async def middleware\(request, next\)`"
        with pytest.raises(CannotStart, match=form):
            async with gateway(middleware=[f"{__name__}.{name}"]):
                pass

    asyncio.run(scene())


def test_middleware_is_whatever_can_be_awaited() -> None:
    """An object, or what a decorator made of a function."""

    async def scene() -> None:
        async with gateway(middleware=[f"{__name__}.stamp_by_object", f"{__name__}.stamp_by_wrapper"]) as api:
            assert (await api.get("/docs")).headers["x-stamp"] == "/docs" * 2

    asyncio.run(scene())


def test_the_documentation_comes_from_the_gateway() -> None:
    """The page, its scripts and the document are local, and can be turned off."""

    async def scene() -> None:
        async with gateway(routes=ROUTES) as api:
            page = await api.get("/docs")
            assert page.headers["content-security-policy"].startswith("default-src 'self'")
            assert "//" not in page.text
            for name, part in (
                ("swagger-ui.css", ".swagger-ui"),
                ("swagger-ui-bundle.js", "SwaggerUIBundle"),
                ("start.js", "SwaggerUIBundle"),
            ):
                assert f"/docs/{name}" in page.text
                assert part in (await api.get(f"/docs/{name}")).text
            assert (await api.get("/docs/other.js")).status_code == 404
            document = (await api.get("/openapi.json")).json()
            assert document["openapi"].startswith("3.1")
            assert set(document["paths"]) == {"/v1/chat", "/v1/users/{id}", "/v1/notes", "/v1/count", "/v1/users/me"}
            assert set(document["paths"]["/v1/users/{id}"]) == {"get", "delete"}
        async with gateway(docs={"enabled": False}) as api:
            assert (await api.get("/docs")).status_code == (await api.get("/openapi.json")).status_code == 404

    asyncio.run(scene())


# ---- a child of the tree


def test_a_busy_port_is_a_failure_of_that_child() -> None:
    """At first start it surfaces, with what had started stopped; later its supervisor tries again."""

    async def scene() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            runtime = Runtime(Supervisor("root", children=[Echo("echo"), HTTPGateway("api", port=port)]))
            with pytest.raises(CannotStart, match="cannot bind"):
                await runtime.start()
        async with gateway() as api:
            for crash in range(3):
                child = api.runtime._started.node.registry.entries["api"]
                child.agent.start_task(fail())
                await soon(lambda one=child, n=crash + 2: (one.incarnation, one.phase.value) == (n, "running"))
                port = (await api.runtime.ask("api", {"__op__": "state"})).payload["port"]
                answer = await api.post(f"http://127.0.0.1:{port}/agents/echo")
                assert answer.status_code == 200

    asyncio.run(scene())


def test_a_port_that_is_busy_at_a_restart_is_tried_again() -> None:
    """Each time is a failure that its supervisor counts; the agents beside it go on."""

    async def scene() -> None:
        port = free_port()
        api = AgentNode(Echo("echo"))
        tree = Supervisor("root", backoff_base=0.05, max_restarts=50, children=[api, HTTPGateway("api", port=port)])
        async with Runtime(tree) as runtime, client() as one:
            child = runtime._started.node.registry.entries["api"]
            child.agent.start_task(fail())
            await soon(lambda: child.phase.value == "restarting")
            with socket.create_server(("127.0.0.1", port)):
                while child.incarnation < 4:
                    assert (await runtime.ask("echo", {"a": 1})).payload["agent"] == "echo"
                    await asyncio.sleep(0.01)
            await soon(lambda: child.phase.value == "running")
            assert (await one.post(f"http://127.0.0.1:{port}/agents/echo")).status_code == 200

    asyncio.run(asyncio.wait_for(scene(), 120))


def in_hand(api: Any) -> int:
    """How many requests the gateway has in hand."""
    number: int = api.runtime._started.node.registry.entries["api"].agent._in_hand
    return number


async def fail() -> None:
    raise ValueError("its own work fails")


# ---- streams


@pytest.mark.parametrize("http2", [False, True])
def test_a_reply_is_streamed_to_those_who_accept_it(http2: bool) -> None:
    """The pieces, then the reply; without the header, the reply alone."""

    async def scene() -> None:
        async with gateway(http2, routes=ROUTES) as api:
            assert (await api.get("/v1/count?to=2")).json() == {"counted": 2}
            answer = await api.get("/v1/count?to=2", headers={"accept": "text/event-stream"})
            assert answer.headers["content-type"].startswith("text/event-stream")
            found = events(answer.text.split("\n"))
            assert [one["event"] for one in found] == ["open", "piece", "piece", "reply"]
            assert [json.loads(one["data"]) for one in found[1:]] == [{"n": 1}, {"n": 2}, {"counted": 2}]
            cursors = [int(one["id"].partition("-")[0]) for one in found]
            assert cursors == sorted(set(cursors))

    asyncio.run(scene())


async def read_some(api: Any, path: str, last: str, most: int) -> list[dict[str, str]]:
    """At most *most* events behind *last*, then disconnect."""
    headers = {"accept": "text/event-stream"} | ({"last-event-id": last} if last else {})
    found: list[dict[str, str]] = []
    async with api.client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        lines: list[str] = []
        async for line in answer.aiter_lines():
            lines.append(line)
            found = [one for one in events(lines) if "data" in one and one["event"] != "open"]
            if not line and len(found) >= most:
                break
            if found and found[-1]["event"] in ("reply", "error"):
                break
    return found


async def disconnect_often(api: Any, times: int) -> None:
    path, last, seen = f"/v1/count?to={times}&pause=0.001", "", []
    first = await read_some(api, path, "", 1)
    seen += first
    while seen[-1]["event"] == "piece":
        last = seen[-1]["id"]
        seen += await read_some(api, path, last, 1)
    assert [json.loads(one["data"]) for one in seen] == [*({"n": n} for n in range(1, times + 1)), {"counted": times}]


def test_a_stream_continues_behind_the_last_event() -> None:
    """Twenty disconnects leave no gap and no repeat."""

    async def scene() -> None:
        async with gateway(routes=ROUTES) as api:
            await disconnect_often(api, 20)

    asyncio.run(scene())


@pytest.mark.long
def test_a_stream_survives_a_thousand_disconnects() -> None:
    """No gap and no repeat."""

    async def scene() -> None:
        async with gateway(routes=ROUTES) as api:
            await disconnect_often(api, 1000)

    asyncio.run(scene())


def test_a_stream_is_found_by_its_own_cursor_only() -> None:
    """Another agent's route, another key and a malformed cursor do not lead to it."""

    async def scene() -> None:
        async with gateway(routes=ROUTES) as api:
            [piece] = await read_some(api, "/v1/count?to=3", "", 1)
            seq, _, key = piece["id"].partition("-")
            sse = {"accept": "text/event-stream"}
            other = await api.get("/v1/users/7", headers={**sse, "last-event-id": piece["id"]})
            assert other.status_code == 404
            unknown = await api.get("/v1/count", headers={**sse, "last-event-id": f"{seq}-{'0' * 32}"})
            assert unknown.status_code == 404
            wrong = await api.get("/v1/count", headers={**sse, "last-event-id": seq})
            assert wrong.status_code == 422
            assert len(await read_some(api, "/v1/count", f"0-{key}", 9)) == 4

    asyncio.run(scene())


def test_a_stream_ends_with_what_became_of_the_ask() -> None:
    """A crash, a time without pieces, and an agent that is not there."""

    async def scene() -> None:
        async with gateway() as api:
            found = await read_post(api, "/agents/counter", {"to": 1, "boom": "bad"})
            assert [one["event"] for one in found] == ["open", "piece", "error"]
            assert json.loads(found[-1]["data"]) == {"error": "agent 'counter' crashed", "kind": "crashed"}
        async with gateway(request_timeout=0.5) as api:
            found = await read_post(api, "/agents/counter", {"to": 9, "pause": 600})
            assert [one["event"] for one in found] == ["open", "piece", "error"]
            found = await read_post(api, "/agents/echo", {"hang": 600})
            assert json.loads(found[-1]["data"])["kind"] == "timeout"
            answer = await api.post("/agents/nobody", headers={"accept": "text/event-stream"})
            assert answer.status_code == 404

    asyncio.run(scene())


async def read_post(api: Any, path: str, payload: Any) -> list[dict[str, str]]:
    answer = await api.post(path, json=payload, headers={"accept": "text/event-stream"})
    return events(answer.text.split("\n"))


def test_a_client_that_does_not_read_does_not_hold_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stream ends after a time, and what it took of the limit is free."""
    monkeypatch.setattr("coterie.agents.actors.http.responses.SLOW_READER", 0.8)

    async def scene() -> None:
        async with gateway(routes=ROUTES, max_requests=1) as api:
            path = b"/v1/count?to=2000&size=10000"
            head = b"GET %s HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n" % path
            _, writer = await connect(api, head)
            writer.transport.pause_reading()
            await soon(lambda: in_hand(api) == 1)
            assert (await api.get("/v1/users/7")).status_code == 503
            await soon(lambda: in_hand(api) == 0)
            assert (await api.get("/v1/users/7")).status_code == 200

    asyncio.run(scene())


def test_open_streams_do_not_delay_the_end() -> None:
    """The system stops within its shutdown time; the client's connection ends."""

    async def scene() -> None:
        sse = {"accept": "text/event-stream"}
        async with (
            gateway() as api,
            api.client.stream("POST", "/agents/counter", json={"to": 2, "pause": 600}, headers=sse) as answer,
        ):
            lines = answer.aiter_lines()
            while "piece" not in await anext(lines):
                pass
            await asyncio.wait_for(api.runtime.stop(), 60)
            async for _ in lines:
                pass

    asyncio.run(scene())


@pytest.mark.long
@pytest.mark.parametrize("config", [{"routes": TO_ECHO}, {}, {"routes": TO_ECHO, "auth": {"token_env": "TOKEN"}}])
def test_schemathesis_finds_nothing(config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the document says is what the gateway does, for requests of every form."""
    pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    monkeypatch.setenv("TOKEN", "secret")
    program = "from schemathesis.cli import schemathesis; schemathesis()"

    async def scene() -> None:
        async with gateway(**config) as api:
            address = f"http://127.0.0.1:{api.port}/openapi.json"
            words = ["run", address, "--max-examples", "50", "--seed", "1", "-H", "Authorization: Bearer secret"]
            checker = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, *words, stdout=PIPE, stderr=STDOUT, cwd=tmp_path
            )
            said, _ = await checker.communicate()
            assert checker.returncode == 0, said.decode()

    asyncio.run(scene())


@pytest.mark.long
def test_the_page_shows_the_routes_in_a_browser(tmp_path: Path) -> None:
    """A real one runs its scripts, which the gateway's own policy must let it do."""
    browser = shutil.which("chromium") or pytest.skip("there is no chromium here")
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    words += ["--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path}"]

    async def scene() -> None:
        async with gateway(routes=ROUTES) as api:
            address = f"http://127.0.0.1:{api.port}/docs"
            shown = await asyncio.create_subprocess_exec(
                browser, *words, "--virtual-time-budget=10000", "--dump-dom", address, stdout=PIPE, stderr=DEVNULL
            )
            page, _ = await asyncio.wait_for(shown.communicate(), 60)
            for route in ROUTES:
                assert f'data-path="{route["path"]}"' in page.decode()

    asyncio.run(scene())


SERVE = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from gateways import gateway

async def main():
    async with gateway() as api:
        print(api.port, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.long
@pytest.mark.parametrize(("files", "count"), [(12_000, 5000), (1024, 2500)])
def test_thousands_of_idle_connections_keep_nobody_out(files: int, count: int) -> None:
    """They say nothing or half a request, and may be more than the process can open files."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 12_000:
        pytest.skip(f"this process may open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (12_000, hard))
    support = os.pathsep.join(part for part in sys.path if part)

    async def scene() -> None:
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVE, str(files), stdout=PIPE, env={**os.environ, "PYTHONPATH": support}
        )
        try:
            assert server.stdout is not None
            address = f"http://127.0.0.1:{int(await server.stdout.readline())}"
            port = int(address.rpartition(":")[2])
            for n in range(count):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                OPEN.append(writer)
                writer.write((b"", b"P", b"GET / HTTP/1.1\r\n")[n % 3])
            began = time.monotonic()
            async with client(timeout=30.0) as one:
                for _ in range(20):
                    assert (await one.post(f"{address}/agents/echo", json={})).status_code == 200
            assert time.monotonic() - began < 20
        finally:
            server.kill()
            await server.wait()
            await close_all()

    try:
        asyncio.run(scene())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.long
def test_slow_senders_keep_nobody_out() -> None:
    """Two hundred clients that send a byte at a time are answered by 408 or closed, while others are served."""
    line = (
        b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{"
    )

    async def scene() -> None:
        async with gateway(routes=ROUTES, request_timeout=5.0) as api:

            async def drip(data: bytes) -> bytes:
                reader, writer = await connect(api)
                with contextlib.suppress(OSError):
                    for byte in data:
                        writer.write(bytes([byte]))
                        await asyncio.sleep(0.05 if data is not line else 0)
                return await asyncio.wait_for(reader.read(), 60)

            slow = [
                asyncio.create_task(drip(line if n % 2 else b"GET /v1/users/7 HTTP/1.1\r\nhost")) for n in range(200)
            ]
            for _ in range(20):
                assert (await api.post("/v1/chat", json={})).status_code == 200
                await asyncio.sleep(0.1)
            bodies = await asyncio.gather(*slow[1::2])
            assert all(b" 408 " in got for got in bodies)
            for task in slow[::2]:
                task.cancel()

    asyncio.run(scene())


def test_gzip_is_in_order() -> None:
    """What is served as compressed can be read without a client that does it."""
    from coterie.agents.actors.http.openapi import asset

    found = asset("start.js")
    assert found is not None
    assert b"SwaggerUIBundle" in gzip.decompress(found[0])
