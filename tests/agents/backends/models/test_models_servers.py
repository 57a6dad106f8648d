import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import mcp_server
import pytest
from asking import Heard, pids, request
from asking_models import answered, failed, plan, put, results_of, tools_of
from fake_models import FakeModels, Say
from msgspec.structs import replace

from coterie.agents.backends import log_file
from coterie.agents.backends.base import Answer, Text, Tool
from coterie.agents.backends.models.backend import ModelBackend
from coterie.agents.backends.processes import alive, started
from coterie.base import agent_writes

SERVER = str(Path(__file__).parents[3] / "support" / "mcp_server.py")


def tiny(folder: Path | None = None, **said: Any) -> dict[str, Any]:
    """The server, as a file declares it."""
    words = [SERVER, str(folder)] if folder is not None else [SERVER]
    return {"mcp_servers": {"tiny": {"type": "stdio", "command": sys.executable, "args": words, **said}}}


def dead(folder: Path) -> bool:
    """Whether every process that wrote its pid into *folder* is gone."""
    found = pids(folder)
    return bool(found) and not any(alive(pid, started(pid)) for pid in found)


def test_a_server_gives_its_tools(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Named `SERVER_TOOL`; what they give or fail with goes to the model, and the server ends with the attempt.

    Its log messages are kept in its log, and nothing is printed.
    """
    calls = [("tiny_add", {"a": 2, "b": 3}), ("tiny_break", {})]
    with FakeModels(Say(calls=calls), Say("Five.")) as models:
        result, heard = put(models, plan(options=tiny(tmp_path)), folder=tmp_path / "attempt")

    assert isinstance(result, Answer)
    assert result.text == "Five."
    assert set(tools_of(models.requests[0])) == {"tiny_add", "tiny_whose", "tiny_break"}
    told = results_of(models.requests[1])
    assert told[0] == str([{"text": "5", "type": "text"}])
    assert "it is broken" in told[1]
    states = sorted((event.name, event.state) for event in heard if isinstance(event, Tool))
    assert ("tiny_add", "finished") in states
    assert ("tiny_break", "failed") in states
    assert dead(tmp_path)
    log = "the tiny server is up\nwarning: it is called\nwarning: it is called\n"
    assert (tmp_path / "attempt" / "mcp-tiny.log").read_text() == log
    assert capfd.readouterr() == ("", "")


def test_a_server_knows_its_turn_and_no_more_than_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt's variables, and those that the file gives it: no key of the user's is in its environment."""
    monkeypatch.setenv("HIDDEN", "from everybody")
    monkeypatch.setenv("TASTE", "sweet")
    with FakeModels(Say(calls=[("tiny_whose", {})]), Say("Mine.")) as models:
        answered(models, plan(options=tiny(env={"FLAVOUR": "${TASTE}"})), run="run", attempt=2)

    assert "run/a#1 2 sweet -" in results_of(models.requests[1])[0]


def test_a_server_that_an_agent_could_have_written_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would have the keys of its file, and no sandbox."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    with agent_writes.noted(tmp_path / "attempt", [tmp_path / "work"], {}):
        (tmp_path / "work" / "server.py").write_text(Path(SERVER).read_text())
    said = {"mcp_servers": {"tiny": {"type": "stdio", "command": sys.executable, "args": ["server.py"]}}}
    with FakeModels(Say("hi")) as models:
        result = failed(models, plan(options=said), cwd=tmp_path / "work")
    assert "the MCP server 'tiny' is not started: it executes" in result.reason
    assert models.requests == []


def test_only_the_named_tools_are_offered() -> None:
    """A pattern may stand for several."""
    with FakeModels(Say("hi")) as models:
        answered(models, plan(options=tiny(only=["wh*", "add"])))

    assert set(tools_of(models.requests[0])) == {"tiny_add", "tiny_whose"}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"command": "no-such-program-here"}, "the MCP server 'tiny' could not be started"),
        ({"command": "true", "args": []}, "the MCP server 'tiny' could not be started"),
        ({"env": {"A": "${NOT_SET_ANYWHERE}"}}, "the MCP server 'tiny' needs the variable NOT_SET_ANYWHERE"),
        (
            {"type": "http", "command": "", "url": "http://127.0.0.1:1/mcp"},
            "the MCP server 'tiny' could not be reached",
        ),
    ],
)
def test_a_server_that_does_not_come_up_fails_the_turn(said: dict[str, Any], why: str) -> None:
    """Before the model is asked."""
    with FakeModels(Say("hi")) as models:
        failure = failed(models, plan(options=tiny(**said)))

    assert failure.kind == "not_found"
    assert why in failure.reason
    assert models.requests == []


@pytest.mark.parametrize(
    ("mood", "seen"),
    [
        ("noisy", "'5'"),
        ("dies", "Connection closed"),
        ("huge", f"{'x' * 60}\\n(these are 60,000 of 1,000,001 characters: ask for less)"),
    ],
)
def test_a_server_that_misbehaves_harms_no_turn(mood: str, seen: str, tmp_path: Path) -> None:
    """It prints what is no message, dies in a call, or gives more than fits a prompt: the model goes on."""
    with FakeModels(Say(calls=[("tiny_add", {"a": 2, "b": 3})]), Say("Done.")) as models:
        answer = answered(models, plan(options=tiny(tmp_path, env={"MOOD": mood})))

    assert answer.text == "Done."
    [told] = results_of(models.requests[1])
    assert seen in told
    assert len(told) < 61_000
    assert dead(tmp_path)


SECRET = "correct-horse-battery"


def test_a_secret_of_a_server_reaches_no_model(tmp_path: Path) -> None:
    """Neither in a result nor in an error: only its file names the secret, and this process does not have it."""
    for mood in ("leaks", "fails with a secret"):
        with FakeModels(Say(calls=[("tiny_add", {"a": 2, "b": 3})]), Say("Done.")) as models:
            answered(models, plan(options=tiny(env={"MOOD": mood, "PASSWORD": SECRET})))
        [told] = results_of(models.requests[1])
        assert "***" in told
        assert SECRET not in json.dumps(models.requests)


def test_what_a_python_function_gives_has_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nor does its error."""
    monkeypatch.setenv("MY_TOKEN", SECRET)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "leaky_tools.py").write_text(
        "import os\n"
        "def get() -> dict[str, list[str]]:\n    return {'is': [os.environ['MY_TOKEN']]}\n"
        "def fail() -> str:\n    raise ValueError(os.environ['MY_TOKEN'])\n"
        "def odd() -> object:\n    return object()\n"
    )
    tools = {name: f"leaky_tools:{name}" for name in ("get", "fail", "odd")}
    with FakeModels(Say(calls=[(name, {}) for name in tools]), Say("Done.")) as models:
        answered(models, plan(options={"python_tools": tools}))
    told = results_of(models.requests[1])
    assert "***" in told[0]
    assert "ValueError: ***" in told[1]
    assert "Unable to serialize" in told[2]
    assert SECRET not in json.dumps(models.requests)


@pytest.mark.parametrize(
    ("mood", "seen"),
    [
        ("no base64", "Error: "),
        ("no image", "8 bytes of 'image/png' are left out: it is no image"),
        ("of no type", "8 bytes of 'image/x-"),
        ("no result", "validation error"),
    ],
)
def test_what_is_no_result_is_told_to_the_model(mood: str, seen: str) -> None:
    """It goes on: a provider would refuse the whole conversation with an image that is none."""
    with FakeModels(Say(calls=[("tiny_add", {"a": 2, "b": 3})]), Say("Done.")) as models:
        assert answered(models, plan(options=tiny(env={"MOOD": mood}))).text == "Done."
    [told] = results_of(models.requests[1])
    assert seen in told
    assert len(told) < 2000


def test_tools_that_no_model_can_be_offered_are_left_out() -> None:
    """Each with its reason in the log; the others are offered."""
    with FakeModels(Say("hi")) as models:
        result, heard = put(models, plan(options=tiny(env={"MOOD": "odd tools"})))
    assert isinstance(result, Answer)
    assert set(tools_of(models.requests[0])) == {"tiny_add", "tiny_whose", "tiny_break"}
    log = "".join(event.text for event in heard if isinstance(event, Text) and event.channel == "log")
    names = ("deep", "long", "sp ace", "n" * 100)
    assert [name for name in names if f"the tool 'tiny_{name}' is left out: " not in log] == []


@pytest.mark.parametrize("mood", ["no list", "no tools", "no schemas"])
def test_a_server_without_a_list_of_tools_fails_the_turn(mood: str) -> None:
    """As one that does not start, and not as a crash."""
    with FakeModels(Say("hi")) as models:
        failure = failed(models, plan(options=tiny(env={"MOOD": mood})))
    assert failure.kind == "not_found"
    assert failure.reason.startswith("the MCP server 'tiny' gives no list of tools: ")
    assert models.requests == []


def test_the_log_of_a_server_is_bounded_and_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how much is left out, and the server is not held up."""
    with FakeModels(Say(calls=[("tiny_add", {"a": 2, "b": 3})]), Say("Done.")) as models:
        environment = {"MOOD": "floods", "PASSWORD": SECRET}
        result, _ = put(models, plan(options=tiny(env=environment)), folder=tmp_path / "attempt")
    assert isinstance(result, Answer)
    log = (tmp_path / "attempt" / "mcp-tiny.log").read_bytes()
    assert log_file.MOST < len(log) < log_file.MOST + 100
    assert b"bytes of this log are left out)" in log[-80:]
    assert SECRET.encode() not in log


def test_a_server_that_hangs_ends_with_the_time_out(tmp_path: Path) -> None:
    """Of the turn; nothing is left of it."""
    slow = replace(plan(options=tiny(tmp_path, env={"MOOD": "hangs"})), timeout=1.5)
    with FakeModels(Say(calls=[("tiny_add", {"a": 2, "b": 3})]), Say("Done.")) as models:
        assert failed(models, slow).kind == "timeout"

    assert dead(tmp_path)


@contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """The tiny server behind an address, and the values of the header `x-flavour` that it was sent."""
    flavours: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            flavours.append(self.headers.get("x-flavour", ""))
            content = b""
            if "id" in asked:
                result = mcp_server.answer(asked["method"], asked.get("params", {}))
                said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "not known"}}
                content = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}).encode()
            self.send_response(200 if content else 202)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self.send_error(405)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp", flavours
    finally:
        server.shutdown()
        server.server_close()


def test_a_server_may_listen_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tools are those of a server of ours; its headers may name variables."""
    monkeypatch.setenv("TASTE", "sweet")
    with listening() as (url, flavours), FakeModels(Say(calls=[("web_add", {"a": 1, "b": 1})]), Say("Two.")) as models:
        server = {"type": "http", "url": url, "headers": {"x-flavour": "${TASTE}"}}
        assert answered(models, plan(options={"mcp_servers": {"web": server}})).text == "Two."

    assert results_of(models.requests[1])[0] == str([{"text": "2", "type": "text"}])
    assert set(flavours) == {"sweet"}


def test_what_a_server_started_ends_with_the_attempt(tmp_path: Path) -> None:
    """Also what left its group, and when the attempt is interrupted."""
    heard = Heard()

    async def main(models: FakeModels) -> None:
        backend = ModelBackend(environment=models.environment)
        agent = plan(options=tiny(tmp_path, env={"SLEEPER": "1"}))
        session = await backend.start(request(agent), heard)
        await heard.until(lambda heard: heard.said() != "")
        await session.interrupt()
        assert getattr(await session.result(), "kind", "") == "interrupted"
        await backend.close()

    with FakeModels(Say("slow", hold=lambda: threading.Event().wait(0.01))) as models:
        asyncio.run(main(models))

    assert len(pids(tmp_path)) == 2
    assert dead(tmp_path)
