import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from asking import Heard, pids, request
from asking_models import answered, failed, plan, put, results_of, tools_of
from fake_models import FakeModels, Say

from coterie.backends.base import Answer, Tool
from coterie.backends.models import ModelBackend
from coterie.backends.processes import alive, started

SERVER = str(Path(__file__).parents[2] / "support" / "mcp_server.py")


def tiny(folder: Path | None = None, **said: Any) -> dict[str, Any]:
    """The server, as a file declares it."""
    words = [SERVER, str(folder)] if folder is not None else [SERVER]
    return {"mcp_servers": {"tiny": {"type": "stdio", "command": sys.executable, "args": words, **said}}}


def dead(folder: Path) -> bool:
    """Whether every process that wrote its pid into *folder* is gone."""
    found = pids(folder)
    return bool(found) and not any(alive(pid, started(pid)) for pid in found)


def test_a_server_gives_its_tools(tmp_path: Path) -> None:
    """Named `SERVER_TOOL`; what they give or fail with goes to the model, and the server ends with the attempt."""
    calls = [("tiny_add", {"a": 2, "b": 3}), ("tiny_break", {})]
    with FakeModels(Say(calls=calls), Say("Five.")) as models:
        result, heard = put(models, plan(options=tiny(tmp_path)), folder=tmp_path / "attempt")

    assert isinstance(result, Answer)
    assert result.text == "Five."
    assert set(tools_of(models.requests[0])) == {"tiny_add", "tiny_whose", "tiny_break"}
    told = results_of(models.requests[1])
    assert "5" in told[0]
    assert "it is broken" in told[1]
    states = sorted((event.name, event.state) for event in heard if isinstance(event, Tool))
    assert ("tiny_add", "finished") in states
    assert ("tiny_break", "failed") in states
    assert dead(tmp_path)
    assert (tmp_path / "attempt" / "mcp-tiny.log").read_text() == "the tiny server is up\n"


def test_a_server_knows_its_turn_and_no_more_than_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt's variables, and those that the file gives it: no key of the user's is in its environment."""
    monkeypatch.setenv("HIDDEN", "from everybody")
    monkeypatch.setenv("TASTE", "sweet")
    with FakeModels(Say(calls=[("tiny_whose", {})]), Say("Mine.")) as models:
        answered(models, plan(options=tiny(env={"FLAVOUR": "${TASTE}"})), key="run/a#1", attempt=2)

    assert "run/a#1 2 sweet -" in results_of(models.requests[1])[0]


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
        ({"env": {"A": "${NOT_SET_ANYWHERE}"}}, "the MCP server 'tiny' wants the variable NOT_SET_ANYWHERE"),
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

    with FakeModels(Say("slow", hold=lambda: None)) as models:
        asyncio.run(main(models))

    assert len(pids(tmp_path)) == 2
    assert dead(tmp_path)
