"""What only ACP has: settings of the session, logins, steering by two requests, what a session costs."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asking
import pytest
from asking import Heard

from coterie.agents.backends.base import (
    Answer,
    Asking,
    Failure,
    Launched,
    Permission,
    Result,
    Session,
    SessionOpened,
    Tool,
)
from coterie.agents.backends.coding import acp_messages as messages
from coterie.agents.backends.coding.acp import AcpBackend
from coterie.agents.backends.coding.acp_messages import AgentAbout, ToolCall
from coterie.agents.backends.coding.attempt import Deadlines
from coterie.agents.backends.coding.command_policy import REASONS, refusal
from coterie.agents.backends.processes import alive

pytestmark = pytest.mark.extras("acp")
TESTS = Path(__file__).parents[3]
AGENT = TESTS / "support" / "fake_agents" / "acp_agent.py"


def play(
    tmp_path: Path, mood: str, *, fake: str = "", session: str = "", extra: Mapping[str, str] = {}, **values: Any
) -> tuple[Result, Heard]:
    """One attempt with the fake agent; *fake*: another mood before the prompt; *extra*: more of its environment."""
    env = {"FAKE_MOOD": fake or mood, **extra}
    plan = asking.agent(f"acp-{mood}", backend="acp", argv=(sys.executable, str(AGENT)), env=env, **values)
    return asyncio.run(
        asking.asked_alone(AcpBackend(), asking.request(plan, prompt=mood, session=session, cwd=tmp_path))
    )


def failed(tmp_path: Path, mood: str, **values: Any) -> Failure:
    """The failure of an attempt."""
    result, _ = play(tmp_path, mood, **values)
    assert isinstance(result, Failure)
    return result


def test_the_mode_and_the_model_are_set_before_the_prompt(tmp_path: Path) -> None:
    """The mode by its request, the model by its option."""
    result, _ = play(tmp_path, "settings", model="large", options={"agent": "plan", "provider": "any label"})

    assert isinstance(result, Answer)
    assert result.text == "plan model=large"


def test_a_provider_that_has_no_such_setting_works_without(tmp_path: Path) -> None:
    """And the log says so."""
    result, heard = play(tmp_path, "settings", fake="old", model="large")

    assert isinstance(result, Answer)
    assert "it has no `session/set_model`" in heard.said("log")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"options": {"agent": "planer"}}, "does not take the mode 'planer'"),
        ({"model": "huge"}, "does not take the model 'huge'"),
    ],
)
def test_a_setting_that_the_agent_does_not_offer_is_a_failure(
    tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    """With what it offers instead."""
    reason = failed(tmp_path, "settings", **values).reason

    assert message in reason
    assert "it offers" in reason
    assert "plan" in reason or "small, large" in reason


def test_a_missing_login_says_how_to_log_in(tmp_path: Path) -> None:
    """By the methods that the agent named in its handshake."""
    failure = failed(tmp_path, "unauthorized")

    assert failure.kind == "auth"
    assert "Run `fake login` in the terminal" in failure.reason


@pytest.mark.parametrize(
    ("mood", "kind", "reason"),
    [
        ("refusal", "refused", "I would rather not"),
        ("max_tokens", "failed", "max_tokens"),
        ("cancelled", "failed", "cancelled its turn"),
        ("future", "failed", "version 2 of the protocol"),
    ],
)
def test_a_turn_that_ends_early_is_a_failure(tmp_path: Path, mood: str, kind: str, reason: str) -> None:
    """A turn that nothing here interrupted is never called interrupted."""
    failure = failed(tmp_path, mood)

    assert failure.kind == kind
    assert reason in failure.reason


@pytest.mark.parametrize("mood", ["steered", "queued"])
def test_guidance_reaches_an_agent_that_takes_it(tmp_path: Path, mood: str) -> None:
    """By the request for it, or by a prompt that is queued; the answer is the one after it."""

    async def main() -> None:
        heard = Heard()
        plan = asking.agent(f"acp-{mood}", backend="acp", argv=(sys.executable, str(AGENT)), env={"FAKE_MOOD": mood})
        backend = AcpBackend()
        session: Session = await backend.start(asking.request(plan, prompt=mood, cwd=tmp_path), heard)
        assert await session.steer("that") is True  # it waits until the agent has the prompt
        result = await session.result()
        assert isinstance(result, Answer)
        assert result.text == "working on that"
        assert result.usage.output_tokens == (5 if mood == "steered" else 10)
        assert await session.steer("too late") is False
        await backend.close()

    asyncio.run(main())


def test_a_call_that_only_its_request_describes_is_judged_by_that(tmp_path: Path) -> None:
    """No update of the session named it before: what it would run is in the request."""
    result, _ = play(
        tmp_path,
        "asks-unannounced",
        extra={"FAKE_ASKS": '["make test", "rm -rf /"]'},
        options={"trust_all_tools": True},
    )

    assert isinstance(result, Answer)
    assert result.text == "option-2 option-3"


def test_a_use_of_a_tool_is_told_before_its_end(tmp_path: Path) -> None:
    """With what it is about, which some agents say only after they announced it."""
    _, heard = play(tmp_path, "RUN: echo done")

    told = [(event.name, event.state, event.detail) for event in heard if isinstance(event, Tool)]
    assert told == [("Bash", "started", "echo done"), ("Bash", "finished", "")]


def test_what_a_person_says_with_a_denial_is_guidance(tmp_path: Path) -> None:
    """The protocol has no place for it; an agent that takes none is not given it, and its log says so."""

    async def main() -> None:
        heard = Heard()
        argv, options = (sys.executable, str(AGENT)), {"attention": "ask"}
        plan = asking.agent("acp-deny", backend="acp", argv=argv, options=options)
        backend = AcpBackend()
        session = await backend.start(asking.request(plan, prompt="asks", cwd=tmp_path), heard)
        await heard.until(lambda heard: any(isinstance(event, Permission) for event in heard))
        [question] = [event for event in heard if isinstance(event, Permission)]
        assert question.rule == "Bash(make test)"
        assert isinstance(session, Asking)
        passed: list[str] = []
        steer = session.steer

        async def noted(text: str) -> bool:
            passed.append(text)
            return await steer(text)

        session.steer = noted  # type: ignore[method-assign]
        assert await session.permit(question.id, False, "use make build") is True
        result = await session.result()
        assert isinstance(result, Answer)
        assert passed == ["use make build"]
        assert "the agent takes no guidance, so it was not given: use make build" in heard.said("log")
        await backend.close()

    asyncio.run(main())


def test_a_queued_prompt_that_the_agent_drops_is_not_taken_up(tmp_path: Path) -> None:
    """So the guidance does not count as delivered."""

    async def main() -> None:
        heard = Heard()
        plan = asking.agent(
            "acp-dropped", backend="acp", argv=(sys.executable, str(AGENT)), env={"FAKE_MOOD": "dropped"}
        )
        backend = AcpBackend()
        session = await backend.start(asking.request(plan, prompt="dropped", cwd=tmp_path), heard)
        assert await session.steer("that") is False
        await session.result()
        await backend.close()

    asyncio.run(main())


def test_an_agent_that_stops_at_the_cancellation_is_heard_to_the_end(tmp_path: Path) -> None:
    """What it has used is in its last words."""

    async def main() -> Result:
        heard = Heard()
        plan = asking.agent("acp-cut", backend="acp", argv=(sys.executable, str(AGENT)))
        backend = AcpBackend(Deadlines(cancel=60.0))
        session = await backend.start(asking.request(plan, prompt="waits", cwd=tmp_path), heard)
        await heard.until(lambda heard: heard.said() == "on it")
        await session.interrupt()
        await backend.close()
        return await session.result()

    result = asyncio.run(main())
    assert isinstance(result, Failure)
    assert (result.kind, result.usage.output_tokens) == ("interrupted", 5)


def test_an_agent_that_cannot_be_ended_is_killed(tmp_path: Path) -> None:
    """After its deadline, with a word in the log."""

    async def main() -> Heard:
        heard = Heard()
        plan = asking.agent("acp-ignores", backend="acp", argv=(sys.executable, str(AGENT)))
        backend = AcpBackend(Deadlines(cancel=0.1, grace=600.0, end=0.3))
        session = await backend.start(asking.request(plan, prompt="ignores", cwd=tmp_path), heard)
        await heard.until(lambda heard: heard.said() == "on it")
        await asyncio.wait_for(session.interrupt(), 60)
        await backend.close()
        return heard

    heard = asyncio.run(main())
    assert "the agent did not end within 0.3 s: its processes were killed" in heard.said("log")
    [launched] = [one for one in heard if isinstance(one, Launched)]
    assert not alive(launched.pid, launched.started)


@pytest.mark.parametrize(("name", "takes", "kind"), [("npx", 600, Failure), ("agent", 0.4, Answer)])
def test_an_agent_that_npx_runs_has_a_deadline_of_its_own(
    tmp_path: Path, name: str, takes: float, kind: type[Result]
) -> None:
    """A long one, for the download; the others have that of a handshake.

    The file of the agent is an argument, so that the sandbox lets it be read wherever the checkout is.
    """
    program = tmp_path / name
    program.write_text(f'#!/bin/sh\nsleep {takes}\nexec "$@"\n')
    program.chmod(0o755)
    plan = asking.agent("acp-npx", backend="acp", argv=(str(program), sys.executable, str(AGENT)))
    backend = AcpBackend(Deadlines(download=0.2))

    result, _ = asyncio.run(asking.asked_alone(backend, asking.request(plan, prompt="answers", cwd=tmp_path)))
    assert isinstance(result, kind)


@pytest.mark.parametrize("mood", ["window", "unnamed"])
def test_a_window_that_is_used_up_is_a_quota(tmp_path: Path, mood: str) -> None:
    """Whether the text says it, or the limit that was reported before an error without a kind."""
    failure = failed(tmp_path, mood)

    assert failure.kind == "quota"
    assert (failure.wait > 3500) is (mood == "unnamed")


def test_the_end_of_a_long_answer_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.agents.backends.coding.attempt.ANSWER_MOST", 6)
    result, heard = play(tmp_path, "answers")

    assert (getattr(result, "text", ""), heard.said()) == ("answer", "an answer")


def test_an_agent_that_takes_no_guidance_says_so(tmp_path: Path) -> None:
    """Nothing is sent to it."""

    async def main() -> None:
        heard = Heard()
        plan = asking.agent("acp-none", backend="acp", argv=(sys.executable, str(AGENT)))
        backend = AcpBackend()
        session = await backend.start(asking.request(plan, prompt="waits", cwd=tmp_path), heard)
        await heard.until(lambda heard: heard.said() == "on it")
        assert await session.steer("that") is False
        await backend.close()

    asyncio.run(main())


def test_a_continued_session_costs_what_the_turn_adds(tmp_path: Path) -> None:
    """The agent reports the cost of the session, of which earlier turns spent a part."""
    result, heard = play(tmp_path, "answers", session="session-1")

    assert [event.resumed for event in heard if isinstance(event, SessionOpened)] == [True]
    assert result.usage.cost == pytest.approx(0.25)


def test_what_a_session_replays_is_not_the_answer(tmp_path: Path) -> None:
    """`session/load` sends the messages of the session again."""
    result, heard = play(tmp_path, "answers", fake="loads", session="session-1")

    assert isinstance(result, Answer)
    assert heard.said() == "an answer"
    assert [(event.resumed, event.turns) for event in heard if isinstance(event, SessionOpened)] == [(True, 1)]


def test_a_session_without_messages_is_reported_as_new(tmp_path: Path) -> None:
    """An agent may take the id and begin afresh."""
    result, heard = play(tmp_path, "answers", fake="fresh", session="session-1")

    assert isinstance(result, Answer)
    assert [(event.id, event.resumed) for event in heard if isinstance(event, SessionOpened)] == [("session-2", False)]
    assert "no turn of the session" in heard.said("log")


def test_the_library_is_loaded_in_a_thread() -> None:
    """It takes half a second, in which the event loop has other work."""
    program = """
import asyncio, sys, threading
from coterie.agents.backends.coding.acp import AcpBackend
import asking
threads = []

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "acp":
            threads.append(threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Finder())
plan = asking.agent("a", backend="acp", argv=(sys.executable, sys.argv[1]))
result, _ = asyncio.run(asking.asked_alone(AcpBackend(), asking.request(plan, prompt="answers")))
print(result.text, threads)
"""
    paths = [str(TESTS / "support"), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{program}", str(AGENT)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("an answer [False]\n", "")


def wire(name: str) -> list[dict[str, Any]]:
    """The messages that a real agent sent."""
    lines = (TESTS / "data" / "wire" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [line["msg"] for line in map(json.loads, lines) if line["dir"] == "agent->client"]


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("acp_claude_agent_acp", AgentAbout(resumes=True, loads=True, queues=True)),
        ("acp_init_opencode", AgentAbout(resumes=True, loads=True)),
        ("acp_init_gemini", AgentAbout(loads=True)),
        ("acp_init_codexacp_acp", AgentAbout(resumes=True, loads=True, steers=True)),
        ("acp_python_sdk", AgentAbout()),
    ],
)
def test_what_real_agents_can_is_read_from_their_handshake(name: str, about: AgentAbout) -> None:
    """Each adapter says it at its own place."""
    read = AgentAbout.read(wire(name)[0]["result"])

    assert (read.version, read.resumes, read.loads, read.steers, read.queues) == (
        about.version,
        about.resumes,
        about.loads,
        about.steers,
        about.queues,
    )


@pytest.mark.parametrize(
    "update",
    [
        {"rawInput": {"command": ["bash", "-lc", "rm -rf /"]}},
        {"rawInput": {"cmd": "rm -rf /"}},
        {"kind": "execute", "title": "`rm -rf /`"},
        {"kind": "execute", "title": "rm -rf / [current working directory /project] (Clean up)", "rawInput": {}},
    ],
)
def test_the_floor_sees_the_command_however_an_agent_shows_it(update: dict[str, Any]) -> None:
    """As the words of a shell's call, under another name, or in the title alone."""
    call = ToolCall()
    call.add(update)
    assert refusal(call.command) == ("rm-rf-root", REASONS["rm-rf-root"])


def test_a_real_tool_call_is_read_from_its_messages() -> None:
    """Its input comes in the second message, its result in the last."""
    call, details = ToolCall(), []
    for message in wire("acp_claude_agent_acp"):
        update = message.get("params", {}).get("update", {})
        if update.get("sessionUpdate") in ("tool_call", "tool_call_update"):
            call.add(update)
            details.append(call.detail)

    assert (call.name, call.state) == ("Write", "finished")
    assert details[0] == ""
    assert json.loads(details[1]) == {"file_path": "/project", "content": "x"}
    assert call.result.startswith("File created successfully")


def test_a_real_session_names_its_modes_and_its_models() -> None:
    """The model has an option, and the mode a request."""
    session = next(message["result"] for message in wire("acp_claude_agent_acp") if message.get("id") == 2)

    mode, model = messages.mode_setting(session, "plan"), messages.model_setting(session, "opus")
    assert (mode.method, mode.params) == ("session/set_mode", {"modeId": "plan"})
    assert "acceptEdits" in mode.offers
    assert (model.method, model.params) == ("session/set_config_option", {"configId": "model", "value": "opus"})


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (
            {
                "inputTokens": 246,
                "outputTokens": 34,
                "cachedReadTokens": 22,
                "cachedWriteTokens": 14,
                "totalTokens": 316,
            },
            (282, 34, 22),
        ),
        ({"inputTokens": 100, "outputTokens": 10, "cachedReadTokens": 60, "totalTokens": 110}, (100, 10, 60)),
        ({"inputTokens": "many"}, (0, 0, 0)),
        (None, (0, 0, 0)),
    ],
)
def test_cached_tokens_count_once(usage: Any, tokens: tuple[int, int, int]) -> None:
    """Of some agents the input includes what was cached, of others it does not; the total tells which."""
    assert messages.tokens_of({"usage": usage}) == tokens


def test_a_title_says_what_a_named_tool_is_about() -> None:
    """Where the input is not shown; one that only repeats the name says nothing."""
    named = {"_meta": {"claudeCode": {"toolName": "Read"}}}
    (about := ToolCall()).add(named | {"title": "Read config.toml"})
    (bare := ToolCall()).add(named | {"title": "Read"})

    assert (about.name, about.detail) == ("Read", "Read config.toml")
    assert (bare.name, bare.detail) == ("Read", "")


def test_an_option_is_chosen_by_its_kind() -> None:
    """The ids differ between versions; allowed is once, if there is such an option."""
    options = [
        {"kind": "allow_always", "optionId": "1"},
        {"kind": "reject_always", "optionId": "2"},
        {"kind": "allow_once", "optionId": "3"},
        "broken",
    ]

    assert messages.chosen_option(options, True) == "3"
    assert messages.chosen_option(options, False) == "2"
    assert messages.chosen_option(options[:1], False) is None
    assert messages.chosen_option(None, True) is None
