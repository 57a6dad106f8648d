"""Pi: one process for turn after turn, each in a clean session."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import asking
import pytest
from asking import Heard, agent
from bundles import bundle
from elsewhere import NEEDS_PROC
from fake_models import FakeModels, Refuse
from until import soon

from coterie.agents.backends.base import Answer, Failure, Launched, Result, SessionOpened, Used
from coterie.agents.backends.coding import pi_process
from coterie.agents.backends.coding.attempt import Deadlines
from coterie.agents.backends.coding.pi import PiBackend
from coterie.agents.backends.processes import end_orphans, started
from coterie.agents.backends.sandbox import choice

FAKE = Path(__file__).parents[3] / "support" / "fake_agents" / "pi_agent.py"
ARGV = (sys.executable, str(FAKE))
PATIENT = Deadlines(handshake=60.0, cancel=60.0, end=60.0)
"""An agent that is late on a busy machine would be replaced."""


class Turns:
    """The turns of one run, with one backend."""

    def __init__(self, backend: PiBackend, folder: Path) -> None:
        self.backend, self.folder = backend, folder
        self.count = 0

    async def start(self, prompt: str, **values: Any) -> tuple[Any, Heard]:
        """Start the next turn; *values* are of its plan."""
        self.count += 1
        turn = values.pop("turn", f"iteration#{self.count}")
        heard = Heard()
        asked = {name: values.pop(name) for name in ("session", "root") if name in values}
        plan = agent("pi", backend="pi", **{"argv": ARGV, **values})
        request = asking.request(plan, prompt=prompt, turn=turn, cwd=self.folder, **asked)
        return await self.backend.start(request, heard), heard

    async def play(self, prompt: str, **values: Any) -> tuple[Result, Heard]:
        """Play the next turn."""
        session, heard = await self.start(prompt, **values)
        return await asyncio.wait_for(session.result(), 120), heard


def playing(folder: Path, work: Callable[[Turns], Awaitable[object]]) -> None:
    """Do *work* with the turns of a run in *folder*; at the end no process of them is left."""

    async def main() -> None:
        turns = Turns(PiBackend(PATIENT), folder)
        try:
            await work(turns)
        finally:
            await turns.backend.close()
        assert await end_orphans(f"{asking.RUN}/", ()) == []

    asyncio.run(main())


def pid(heard: Heard) -> int:
    """The process that served an attempt."""
    (launched,) = [event for event in heard if isinstance(event, Launched)]
    return launched.pid


def running(word: str) -> list[Path]:
    """The processes that were started with the argument *word*."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if word.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(process)
    return found


def text(played: tuple[Result, Heard]) -> str:
    """The answer."""
    assert isinstance(played[0], Answer), played[0]
    return played[0].text


def test_turns_share_a_process_and_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn knows nothing of the one before; the process is the same, and each attempt says so. No file is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def work(turns: Turns) -> None:
        first, second = await turns.play("first remembers"), await turns.play("second remembers")
        assert [text(first), text(second)] == ["first remembers", "second remembers"]
        assert pid(first[1]) == pid(second[1])
        sessions = [event.id for _, heard in (first, second) for event in heard if isinstance(event, SessionOpened)]
        assert len(set(sessions)) == 2

    playing(tmp_path, work)
    assert list(tmp_path.iterdir()) == []


def test_usage_is_that_of_the_turn(tmp_path: Path) -> None:
    """Input tokens include those of the cache; a second turn begins at nothing."""

    async def work(turns: Turns) -> None:
        for _ in range(2):
            result, heard = await turns.play("answers")
            usage = result.usage
            assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cost) == (10, 5, 3, 0.25)
            assert (usage.context_tokens, usage.context_window) == (158, 200_000)
            assert [event.usage.cost for event in heard if isinstance(event, Used)] == [0.25, 0.25]

    playing(tmp_path, work)


@pytest.mark.parametrize("mood", ["stays", "cancels", "stuck", "leaks"])
def test_a_process_that_does_not_begin_anew_is_replaced(
    mood: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses, an extension prevents it, it does not answer, or its new session is not empty."""
    if mood == "stuck":  # only the answer that never comes is not awaited for long
        awaits = pi_process.in_time
        short = {"new_session": 0.5}
        monkeypatch.setattr(pi_process, "in_time", lambda work, what, time: awaits(work, what, short.get(what, time)))

    root = tmp_path / "runs" / "r"

    async def work(turns: Turns) -> None:
        values: dict[str, Any] = {"env": {"FAKE_MOOD": mood}, "root": root}
        session, before = await turns.start("busy", **values)
        await before.until(lambda heard: heard.said() == "on it")
        steering = asyncio.create_task(session.steer("earlier guidance"))
        await asyncio.sleep(0.05)
        await session.interrupt()
        assert await steering is False
        played = await turns.play("second remembers", **values)
        assert text(played) == "second remembers"
        assert pid(played[1]) != pid(before)
        assert not started(pid(before))
        assert "is replaced" in played[1].said("log")
        assert len(list(root.glob("agents/*/**/tmp-*"))) == (choice.working() is not None)  # one's sandbox

    playing(tmp_path, work)


def test_what_comes_late_from_an_earlier_turn_is_not_heard(tmp_path: Path) -> None:
    """The next turn begins with its session."""
    (tmp_path / "go").touch()

    async def work(turns: Turns) -> None:
        for _ in range(2):
            result, heard = await turns.play("slow", env={"FAKE_MOOD": "echoes"})
            assert heard.said() == "an answer"
            assert result.usage.output_tokens == 5

    playing(tmp_path, work)


def test_a_process_that_died_is_replaced(tmp_path: Path) -> None:
    """In its turn, which fails, or while it was idle."""

    async def work(turns: Turns) -> None:
        failed, _ = await turns.play("dies")
        assert isinstance(failed, Failure)
        assert (failed.kind, failed.text) == ("exit", "half")
        assert "something broke" in failed.reason
        exited = await turns.play("exits")
        assert [text(exited), text(await turns.play("answers"))] == ["an answer", "an answer"]
        bare = {"options": {"sandbox": "off"}}  # else the killed process is the sandbox, and the agent may still answer
        idle = await turns.play("answers", **bare)
        os.kill(pid(idle[1]), 9)
        assert text(await turns.play("answers", **bare)) == "an answer"

    playing(tmp_path, work)


def test_an_interruption_leaves_the_process_alive(tmp_path: Path) -> None:
    """And guidance that was queued before it is not delivered, then or later."""

    async def work(turns: Turns) -> None:
        session, heard = await turns.start("busy")
        await heard.until(lambda heard: heard.said() == "on it")
        steering = asyncio.create_task(session.steer("too late"))
        await asyncio.sleep(0.05)
        await session.interrupt()
        result = await session.result()
        assert isinstance(result, Failure)
        assert (result.kind, result.text) == ("interrupted", "on it")
        assert await steering is False
        played = await turns.play("second remembers")
        assert text(played) == "second remembers"
        assert pid(played[1]) == pid(heard)

    playing(tmp_path, work)


def test_guidance_counts_once_it_is_taken_up(tmp_path: Path) -> None:
    """`steer` is true when the model's next call has it; text that begins with a slash is no command of pi's."""

    async def work(turns: Turns) -> None:
        session, heard = await turns.start("waits")
        assert await asyncio.wait_for(session.steer("faster"), 60) is True
        assert await asyncio.wait_for(session.steer("/quit"), 60) is True
        await heard.until(lambda heard: "/quit" in heard.said())
        assert "on faster" in heard.said()
        assert "on \n/quit" in heard.said()
        await session.interrupt()
        assert await session.steer("hello") is False
        assert text(await turns.play("/x remembers")) == "\n/x remembers"

    playing(tmp_path, work)


def test_attempts_at_once_have_a_process_each(tmp_path: Path) -> None:
    """Later ones use those that are idle; at most a few idle ones are kept."""

    async def work(turns: Turns) -> None:
        most = pi_process.IDLE_MOST
        running = [await turns.start("waits") for _ in range(most + 2)]
        for _, heard in running:
            await heard.until(lambda heard: heard.said() == "on it")
        pids = {pid(heard) for _, heard in running}
        assert len(pids) == most + 2
        for session, _ in running:
            await session.interrupt()
        again = await turns.play("answers")
        assert pid(again[1]) in pids
        await soon(lambda: sum(bool(started(one)) for one in pids) <= most)

    playing(tmp_path, work)


def test_what_differs_has_another_process(tmp_path: Path) -> None:
    """A review, another model, other variables, another folder, no sandbox."""

    async def work(turns: Turns) -> None:
        (tmp_path / "below").mkdir()
        different: list[dict[str, Any]] = [
            {},
            {"turn": "review#1"},
            {"model": "m"},
            {"env": {"A": "b"}},
            {"cwd": "below"},
            {"options": {"sandbox": "off"}},
        ]
        pids = [pid((await turns.play("answers", **values))[1]) for values in different]
        assert len(set(pids)) == len(pids)
        assert pid((await turns.play("answers", **different[-1]))[1]) == pids[-1]

    playing(tmp_path, work)


@NEEDS_PROC
def test_the_model_is_passed_on(tmp_path: Path) -> None:
    """With the flags of the RPC mode, after the arguments of the plan."""

    async def work(turns: Turns) -> None:
        show = 'RUN: tr "\\\\0" " " < /proc/$PPID/cmdline'
        values = {"argv": (*ARGV, "--thinking", "high"), "model": "anthropic/m"}
        _, heard = await turns.play(f"{show}\nanswers", **values)
        (result,) = [event.result for event in heard if getattr(event, "result", "")]
        assert f"{FAKE} --thinking high --model anthropic/m --mode rpc --session-dir " in result

    playing(tmp_path, work)


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_what_a_turn_left_running_is_ended_with_it(sandbox: str, tmp_path: Path) -> None:
    """In the background, in a session apart, with a cleared environment; pi goes on."""

    async def work(turns: Turns) -> None:
        seconds = f"600.{os.getpid()}"
        left = f"RUN: exec > /dev/null 2>&1; setsid env -i sleep {seconds} & sleep {seconds} & echo > both"
        values = {"options": {"sandbox": sandbox}}
        first = await turns.play(f"{left}\nanswers", **values)
        assert (tmp_path / "both").exists()
        assert running(seconds) == []
        assert pid((await turns.play("answers", **values))[1]) == pid(first[1])

    playing(tmp_path, work)


@pytest.mark.skipif(choice.working() is None, reason="no sandbox works here")
def test_the_sandbox_of_a_process_is_cleared_with_it(tmp_path: Path) -> None:
    """It lasts as long as the process, and its temporary files, too; git's are restored after each attempt."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    left, root = tmp_path / ".git" / "config.worktree", tmp_path / "runs" / "r"

    async def work(turns: Turns) -> None:
        for _ in range(2):
            await turns.play(f"RUN: echo x > {left}; test -e {left} && touch was-there\nanswers", root=root)
            assert (tmp_path / "was-there").exists()
            assert not left.exists()
            (tmp_path / "was-there").unlink()
        assert len(list(root.glob("agents/*/**/tmp-*"))) == 1

    playing(tmp_path, work)
    assert list(root.glob("agents/*/**/tmp-*")) == []


@NEEDS_PROC
def test_a_shell_has_the_variables_of_its_turn(tmp_path: Path) -> None:
    """The process has none of them, and a user's own file for shells is read, too."""
    (tmp_path / "users").write_text("export USERS=own\n")

    async def work(turns: Turns) -> None:
        show = "RUN: echo $COTERIE_TURN $COTERIE_ATTEMPT_ID $USERS > shown; tr '\\0' '\\n' < /proc/$PPID/environ > env"
        for n in (1, 2):
            await turns.play(f"{show}\nanswers", env={"BASH_ENV": str(tmp_path / "users")})
            marker = f"{asking.RUN}/iteration#{n}.1"
            assert (tmp_path / "shown").read_text() == f"iteration#{n} {marker} own\n"
            assert "iteration#" not in (tmp_path / "env").read_text()

    playing(tmp_path, work)


def test_a_retry_of_pi_is_stopped(tmp_path: Path) -> None:
    """The run retries by itself; the process is used again."""

    async def work(turns: Turns) -> None:
        failed, heard = await turns.play("limited")
        assert isinstance(failed, Failure)
        assert (failed.kind, failed.wait) == ("rate_limited", 90)
        assert pid((await turns.play("answers"))[1]) == pid(heard)

    playing(tmp_path, work)


@pytest.mark.parametrize(
    ("mood", "kind", "reason"),
    [
        ("refused", "auth", "No API key"),
        ("spent", "quota", "usage limit"),
        ("length", "failed", "limit of output tokens"),
        ("fails", "quota", "credit balance"),
    ],
)
def test_a_failure_of_the_model_is_one_of_the_turn(mood: str, kind: str, reason: str, tmp_path: Path) -> None:
    """As pi reports it."""

    async def work(turns: Turns) -> None:
        failed, _ = await turns.play(mood)
        assert isinstance(failed, Failure)
        assert failed.kind == kind
        assert reason in failed.reason

    playing(tmp_path, work)


BROKEN = {
    "a lost connection": "terminated",
    "a closed socket": "other side closed",
    "Anthropic's events": "Could not parse Anthropic SSE event message_start: Expected property name at position 1",
    "OpenAI's chunks": "Expected property name or '}' in JSON at position 1",
    "an end too early": "Stream ended without finish_reason",
    "half a document": "Unexpected end of JSON input",
}


@bundle("error", BROKEN.values(), ids=list(BROKEN))
def test_a_stream_that_breaks_off_is_transient(error: str, tmp_path: Path) -> None:
    """The texts are those of pi 0.74."""

    async def work(turns: Turns) -> None:
        failed, _ = await turns.play("breaks", env={"FAKE_ERROR": error})
        assert isinstance(failed, Failure)
        assert (failed.kind, failed.reason) == ("transient", error)

    playing(tmp_path, work)


def test_an_answer_of_nothing_is_transient(tmp_path: Path) -> None:
    """Pi takes an empty body for an answer; a model that says nothing has used tokens for it."""

    async def work(turns: Turns) -> None:
        failed, _ = await turns.play("empty")
        assert isinstance(failed, Failure)
        assert failed.kind == "transient"

    playing(tmp_path, work)


LIMITS = {"3600": "retry after 3600 s: ", "Wed, 21 Oct 2099 07:28:00 GMT": "retry after ", "soon": "", "": ""}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="the extension of pi runs in node, which is not on the PATH")
@bundle("after,begins", LIMITS.items(), ids=[name or "nothing" for name in LIMITS])
def test_the_extension_passes_a_refusal_on(after: str, begins: str, tmp_path: Path) -> None:
    """The client is to repeat nothing, and the time to wait is in the text; other requests are left alone."""
    (tmp_path / "e.mjs").write_text(pi_process.EXTENSION)
    program = """
        await import(process.argv[1]);
        const key = {"x-api-key": process.argv[3]};
        const asked = async (headers) => {
          const one = await fetch(process.argv[2], {method: "POST", headers, body: "{}"});
          return [one.status, one.headers.get("x-should-retry"), await one.text()];
        };
        console.log(JSON.stringify([await asked({...key, "x-stainless-lang": "js"}), await asked(key)]));
    """
    argv = ["node", "--input-type=module", "-e", program, str(tmp_path / "e.mjs")]
    with FakeModels(Refuse(429, "rate_limit_error", "slow down", {"retry-after": after} if after else {})) as models:
        done = subprocess.run(
            [*argv, f"{models.url}/v1/messages", models.key], capture_output=True, text=True, check=True
        )
    [ours, other] = json.loads(done.stdout)

    assert ours[:2] == [429, "false"]
    assert ours[2].startswith(begins)
    assert ours[2].endswith(other[2])
    assert ("retry after" in ours[2]) == bool(begins)
    assert other[:2] == [429, None]


def test_a_context_that_overflows_is_no_end(tmp_path: Path) -> None:
    """Pi compacts it, and goes on."""

    async def work(turns: Turns) -> None:
        assert text(await turns.play("overflow")) == "an answer"

    playing(tmp_path, work)


async def cut_off(turns: Turns, **values: Any) -> str:
    """The session of a turn that is interrupted once the model has spoken."""
    session, heard = await turns.start("first busy", on_interrupt="resume", **values)
    await heard.until(lambda heard: heard.said() == "on it")
    await session.interrupt()
    return opened(heard).id


def kept(folder: Path) -> list[Path]:
    """The files of sessions that are kept."""
    return list(folder.rglob("*.jsonl"))


def opened(heard: Heard) -> SessionOpened:
    """The session of an attempt."""
    (event,) = [event for event in heard if isinstance(event, SessionOpened)]
    return event


@pytest.mark.parametrize("same", [True, False])
def test_a_turn_that_was_cut_off_goes_on_in_its_session(same: bool, tmp_path: Path) -> None:
    """In the process that began it, or in one of a later owner; its usage is what it adds, and then it is removed."""

    async def work(turns: Turns) -> None:
        values: dict[str, Any] = {"root": tmp_path / "run"}
        first = await cut_off(turns, **values)
        if not same:
            await turns.backend.close()
            turns.backend = PiBackend(PATIENT)
            await turns.start("waits", turn="first", **values)  # has the folder of the process that began the session
        played = await turns.play("second remembers", session=first, **values)
        assert text(played) == "first busy | on it | second remembers"
        assert (opened(played[1]).id, opened(played[1]).turns) == (first, 1)
        assert played[0].usage.output_tokens == 5
        again = await turns.play("third remembers", session=first, **values)
        assert text(again) == "third remembers"
        assert opened(again[1]).resumed is False

    playing(tmp_path, work)
    assert kept(tmp_path) == []


@pytest.mark.parametrize("fault", ["unreadable", "refused"])
def test_a_session_that_does_not_go_on_is_reported(fault: str, tmp_path: Path) -> None:
    """Pi begins anew in silence, or refuses: the turn has a clean session, and the log says so."""

    async def work(turns: Turns) -> None:
        values: dict[str, Any] = {"root": tmp_path, "env": {"FAKE_MOOD": "keeps" if fault == "refused" else ""}}
        first = await cut_off(turns, **values)
        if fault == "unreadable":
            (path,) = kept(tmp_path)
            path.write_text("{")
        played = await turns.play("second remembers", session=first, **values)
        assert text(played) == "second remembers"
        assert opened(played[1]).resumed is False
        assert f"session {first} could not be continued" in played[1].said("log")

    playing(tmp_path, work)


def test_a_turn_that_failed_leaves_no_session(tmp_path: Path) -> None:
    """Except one that waits for its quota."""

    async def work(turns: Turns) -> None:
        for mood in ("fails", "length"):
            await turns.play(mood, root=tmp_path, on_interrupt="resume")
            assert len(kept(tmp_path)) == 1

    playing(tmp_path, work)
    assert len(kept(tmp_path)) == 1
    assert not list(tmp_path.rglob("variables.sh"))
