"""Who may speak to the page's server: its own session and page; who may act: a browser of this user."""

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from marking import marked
from page_stage import ACTS, client_of, serving, trade

from coterie.agents.backends.processes import MARK
from coterie.errors import CannotStart, UsageError
from coterie.interfaces.ui import peers
from coterie.interfaces.ui.access import VALID_FOR, SessionAccess
from coterie.interfaces.ui.serve import PageOptions, check

ACT = {"do": "stop"}


async def test_what_another_page_or_agent_sends_is_refused_and_learns_nothing(tmp_path: Path) -> None:
    """Secret, host, origin, method, header and content type each have to be right."""
    async with serving(tmp_path) as server, httpx.AsyncClient(base_url=server.address) as client:
        own = {"authorization": f"Bearer {await trade(server, client)}"}
        json = {"content-type": "application/json"}
        host = server.address.removeprefix("http://").rstrip("/")
        port = host.rpartition(":")[2]
        cases: list[tuple[str, str, str, dict[str, str], int]] = [
            ("the page itself", "GET", "/", {}, 200),
            ("its modules", "GET", "/app.js", {}, 200),
            ("with the secret", "GET", "/api/about", own, 200),
            ("by another name of loopback", "GET", "/api/about", own | {"host": f"localhost:{port}"}, 200),
            ("without a secret", "GET", "/api/about", {}, 401),
            ("an old secret", "GET", "/api/about", {"authorization": "Bearer " + "x" * 43}, 401),
            ("a secret of no other scheme", "GET", "/api/about", {"authorization": own["authorization"][7:]}, 401),
            ("a secret in a cookie", "GET", "/api/about", {"cookie": own["authorization"]}, 401),
            ("a path that is not there, without a secret", "GET", "/api/nothing", {}, 401),
            ("a run, without a secret", "GET", "/api/runs/r", {}, 401),
            ("a foreign host", "GET", "/api/about", own | {"host": "evil.example"}, 421),
            ("a foreign host, for the page", "GET", "/", {"host": f"evil.example:{port}"}, 421),
            ("another port", "GET", "/api/about", own | {"host": "127.0.0.1:1"}, 421),
            ("a foreign origin", "GET", "/api/about", own | {"origin": "http://evil.example"}, 403),
            ("an origin of another port", "GET", "/api/about", own | {"origin": "http://127.0.0.1:1"}, 403),
            ("no origin", "GET", "/api/about", own | {"origin": "null"}, 403),
            ("its own origin", "GET", "/api/about", own | {"origin": f"http://{host}"}, 200),
            ("from another site", "GET", "/api/about", own | {"sec-fetch-site": "cross-site"}, 403),
            ("from another port of this site", "GET", "/api/about", own | {"sec-fetch-site": "same-site"}, 403),
            ("a form", "POST", "/api/runs/r/act", own | {"content-type": "text/plain"}, 403),
            ("a form with the secret", "POST", "/api/runs/r/act", own | ACTS | {"content-type": "text/plain"}, 415),
            ("an action without the header", "POST", "/api/runs/r/act", own | json, 403),
            ("an action without a secret", "POST", "/api/runs/r/act", ACTS | json, 401),
            ("an action on no run", "POST", "/api/runs/r/act", own | ACTS | json, 404),
            ("a trade without the header", "POST", "/api/session", json, 403),
            ("a trade of nothing", "POST", "/api/session", ACTS | json, 422),
            ("a stream without a secret", "POST", "/api/stream", ACTS | json, 401),
            ("a write to the page", "POST", "/", own | ACTS | json, 405),
            ("a file beside the page", "GET", "/../serve.py", {}, 404),
            ("a module that is not there", "GET", "/nothing.js", {}, 404),
            ("an address of the page", "GET", "/runs/r/plan", {}, 200),
            ("a file beside the page, encoded", "GET", "/%2e%2e/%2e%2e/errors.py", {}, 404),
        ]
        faults = []
        for name, method, path, headers, wanted in cases:
            body = b"{" if name == "a trade of nothing" else b"{}" if method == "POST" else None
            got = await client.request(method, path, headers=headers, content=body)
            if got.status_code != wanted:
                faults.append(f"{name}: {got.status_code}, not {wanted}: {got.text[:100]}")
            if b"class PageServer" in got.content or b"class CoterieError" in got.content:
                faults.append(f"{name}: it has the file")
            policy = got.headers["content-security-policy"]
            if "default-src 'self'" not in policy or "frame-ancestors 'none'" not in policy or "unsafe" in policy:
                faults.append(f"{name}: the policy is {policy}")
            if wanted in (401, 421) and set(got.json()) != {"error"}:
                faults.append(f"{name}: it learns {got.text}")
            if "set-cookie" in got.headers or "access-control-allow-origin" in got.headers:
                faults.append(f"{name}: {got.headers}")

    assert faults == []


async def test_a_code_is_good_for_one_trade_within_a_minute(tmp_path: Path) -> None:
    """A second trade, a late one and a wrong one give nothing."""
    now = [0.0]
    access = SessionAccess(lambda: now[0])
    first, second = access.new_code(), access.new_code()

    assert access.trade("") == ""
    assert access.knows(f"Bearer {access.trade(first)}")
    assert access.trade(first) == ""
    assert access.trade(second)
    code = access.new_code()
    now[0] = VALID_FOR + 1
    assert access.trade(code) == ""
    assert not access.knows("Bearer ")
    async with serving(tmp_path) as server, httpx.AsyncClient(base_url=server.address) as client:
        secret = await trade(server, client)
        again = await client.post("/api/session", json={"code": secret}, headers=ACTS)
    assert again.status_code == 401
    async with serving(tmp_path) as other, httpx.AsyncClient(base_url=other.address) as client:
        old = await client.get("/api/about", headers={"authorization": f"Bearer {secret}"})
    assert old.status_code == 401


async def test_a_read_only_server_has_no_actions(tmp_path: Path) -> None:
    """They are not refused but absent."""
    async with serving(tmp_path, read_only=True) as server, client_of(server) as client:
        about = (await client.get("/api/about")).json()
        tried = await client.post("/api/runs/r/act", json=ACT, headers=ACTS)

    assert about["read_only"] is True
    assert tried.status_code == 404


SENDS = """
import encodings.idna, http.client, json, os, sys
host, secret, run, uid = sys.argv[1:]
if uid:
    os.setuid(int(uid))
headers = {"authorization": "Bearer " + secret, "x-coterie": "1", "content-type": "application/json"}
to = http.client.HTTPConnection(host)
to.request("POST", f"/api/runs/{run}/act", json.dumps({"do": "stop"}), headers)
answer = to.getresponse()
print(answer.status, answer.read().decode())
"""


async def _sent_by(
    server: Any, client: httpx.AsyncClient, run: str, how: dict[str, Any], mark: str = "", uid: str = ""
) -> str:
    secret = client.headers["authorization"][7:]
    host = server.address.removeprefix("http://").rstrip("/")
    words = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-I", "-c", SENDS, host, secret, run, uid]

    def send() -> str:
        if not mark:
            return subprocess.run(words, capture_output=True, text=True, timeout=60, **how).stdout
        with marked(mark):
            process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True, **how)
        return process.communicate(timeout=60)[0]

    return await asyncio.to_thread(send)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who is behind a connection")
async def test_an_attempt_that_has_the_secret_may_not_act(tmp_path: Path, at_rest: Any) -> None:
    """Its environment or its limits give it away; a process of the user without them may."""
    state_dir, run = at_rest
    async with serving(state_dir) as server, client_of(server) as client:
        by_variable = await _sent_by(server, client, run, {"env": os.environ | {MARK: "other/writer#1.1"}})
        by_limit = await _sent_by(server, client, run, {}, mark="other/writer#1.1")
        by_user = await _sent_by(server, client, run, {})

    assert by_variable.startswith("403 ")
    assert "belongs to an attempt" in by_variable
    assert f"coterie control stop {run}" in by_variable
    assert by_limit.startswith("403 ")
    assert by_user.startswith("200")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="only root can be another user")
async def test_another_user_that_has_the_secret_may_not_act(tmp_path: Path, at_rest: Any) -> None:
    """The kernel says whose connection it is."""
    state_dir, run = at_rest
    async with serving(state_dir) as server, client_of(server) as client:
        sent = await _sent_by(server, client, run, {}, uid="65534")

    assert sent.startswith("403 ")
    assert "another user (uid 65534)" in sent


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who is behind a connection")
async def test_a_process_that_cannot_be_seen_may_act_only_while_no_attempt_is_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel knows its user, and nobody knows its process."""
    monkeypatch.setattr(peers, "_owners", lambda inode: iter(()))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    client = writer.get_extra_info("sockname")
    assert peers.refusal(client, port, lambda: "") == ""
    assert "writer#1 of run r may run outside a sandbox" in peers.refusal(client, port, lambda: "writer#1 of run r")
    assert "does not know this connection" in peers.refusal(("127.0.0.1", 1), port, lambda: "")
    monkeypatch.setattr(peers.os, "getuid", lambda: os.geteuid() + 1)
    assert f"belongs to another user (uid {os.geteuid()})" in peers.refusal(client, port, lambda: "")
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


def test_other_machines_are_let_in_only_with_tls_or_a_word_typed_out() -> None:
    """`--insecure` is that word."""
    check(PageOptions(host="localhost"))
    check(PageOptions(host="0.0.0.0", insecure=True))
    check(PageOptions(host="0.0.0.0", tls=(Path("c"), Path("k"))))
    with pytest.raises(UsageError, match="--tls-cert FILE --tls-key FILE, or --insecure"):
        check(PageOptions(host="192.0.2.1"))


@pytest.mark.slow
async def test_the_page_is_served_with_tls_or_in_the_clear_when_that_is_typed_out(tmp_path: Path) -> None:
    """On real sockets: the secret is only taken at the address that the page has."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("openssl is not installed")
    making = await asyncio.create_subprocess_exec(
        openssl, *made.split(), "-keyout", key, "-out", certificate, stderr=subprocess.DEVNULL
    )
    assert await making.wait() == 0
    async with serving(tmp_path, tls=(certificate, key)) as server:
        assert server.address.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(certificate))
        async with httpx.AsyncClient(base_url=server.address, verify=trusted) as client:
            own = {"authorization": f"Bearer {await trade(server, client)}"}
            found = (await client.get("/api/about", headers=own)).status_code
            clear = own | {"origin": server.address.replace("https", "http").rstrip("/")}
            other = (await client.get("/api/about", headers=clear)).status_code
        with pytest.raises(httpx.ConnectError):
            async with httpx.AsyncClient(base_url=server.address) as client:
                await client.get("/")
        with pytest.raises(httpx.TransportError):
            async with httpx.AsyncClient(base_url=server.address.replace("https", "http")) as client:
                await client.get("/")
    assert (found, other) == (200, 403)

    async with serving(tmp_path, host="0.0.0.0", insecure=True) as server:
        port = server.address.rstrip("/").rpartition(":")[2]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            own = {"authorization": f"Bearer {await trade(server, client)}"}
            statuses = [
                (await client.get("/api/about", headers=headers)).status_code
                for headers in (own, {}, own | {"host": f"evil.example:{port}"})
            ]
    assert statuses == [200, 401, 421]


async def test_a_busy_port_is_an_error_and_a_free_one_is_kept(tmp_path: Path) -> None:
    """The next start takes the same port, so that open pages find it again."""
    async with serving(tmp_path) as first:
        port = int(first.address.rstrip("/").rpartition(":")[2])
        with pytest.raises(CannotStart, match="cannot listen"):
            async with serving(tmp_path, port=port):
                pass
    async with serving(tmp_path) as second:
        assert second.address == first.address
