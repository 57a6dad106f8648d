"""Signs of life of an attempt: each that is missing is recorded, and only all together need a person."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stage import Cast, Part, Stage, flow

from coterie.agents.backends.base import Launched, OnEvent, Request, Text
from coterie.agents.backends.processes import activity, started
from coterie.execution.kernel.stall import SIGNS, StallWatch, newest, stall_after
from coterie.execution.runs.messages import permission
from coterie.execution.runs.messages.verdicts import Sender, take
from coterie.history.journal import records as r
from coterie.team.planning.plan import AgentPlan


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Quiet(Cast):
    """Agents that take *seconds*; *cpu* gives what their processes have computed, *says* when they say something."""

    def __init__(self, seconds: float, cpu: Any = None, says: tuple[float, ...] = ()) -> None:
        super().__init__({}, seconds)
        self._cpu, self._says = cpu or (lambda now: 1.0), says

    async def start(self, request: Request, on_event: OnEvent) -> Part:
        for at in self._says:
            asyncio.get_running_loop().call_later(at, on_event, Text(text="still here"))
        return await super().start(request, on_event)

    def activity(self, launched: Any) -> tuple[float, frozenset[int]] | None:
        cpu = self._cpu(asyncio.get_running_loop().time())
        return None if cpu is None else (cpu, frozenset({1}))


def watched(cast: Cast, after: float = 100.0, **options: Any) -> Stage:
    stage = Stage(flow("a -> b", a=AgentPlan(name="a", options={"stall_after": after, **options})), cast)
    assert stage.start().status == "completed"
    return stage


def test_an_attempt_without_any_sign_needs_a_person_and_goes_on() -> None:
    """It is never ended for that: it answers when it is done."""
    stage = watched(Quiet(1000.0))

    [quiet] = stage.records(r.AttemptQuiet)
    assert (quiet.signs, quiet.seconds) == (SIGNS, 105.0)  # it looks every 15 s
    [asked] = stage.records(r.AttentionAsked)
    assert (asked.kind, asked.policy, asked.turn, asked.attempt) == ("stall", "wait", "a#1", 1)
    assert "no file in its working directory changed" in asked.detail
    [answered] = stage.records(r.AttentionAnswered)
    assert (answered.answer, answered.message) == ("wait", "")
    assert [one.turn for one in stage.cast.asked] == ["a#1", "b#1"]


@pytest.mark.parametrize(
    ("cast", "signs"),
    [
        (Quiet(1000.0, cpu=lambda now: now), ("event", "process", "file")),
        (Quiet(1000.0, cpu=lambda now: now / 1000), SIGNS),  # a timer here and there computes nothing
        (Quiet(1000.0, cpu=lambda now: None), ("event", "file")),  # what is not known counts as seen
        (Quiet(1000.0, says=tuple(float(n) for n in range(50, 1000, 50))), ("cpu", "process", "file")),
    ],
    ids=["computes", "idles", "elsewhere", "speaks"],
)
def test_each_missing_sign_is_recorded_and_only_all_need_a_person(cast: Cast, signs: tuple[str, ...]) -> None:
    stage = watched(cast)
    assert stage.records(r.AttemptQuiet)[0].signs == signs
    assert len(stage.records(r.AttentionAsked)) == (signs == SIGNS)


def test_a_sign_that_comes_back_is_recorded_and_a_second_stall_asks_again() -> None:
    stage = watched(Quiet(1000.0, says=(300.0,)), attention_timeout=20.0)

    assert [one.signs for one in stage.records(r.AttemptQuiet)] == [SIGNS, SIGNS[1:], SIGNS]
    assert len(stage.records(r.AttentionAsked)) == 2


def test_an_operator_interrupts_a_stalled_attempt() -> None:
    cast = Quiet(1000.0)
    stage = Stage(flow("a -> b", a=AgentPlan(name="a", options={"stall_after": 100.0})), cast)
    stage.shell = shell = stage._shell(None)

    async def operate() -> None:
        task = asyncio.ensure_future(shell.start("r", stage.plan, {"prompt": "go"}))
        await asyncio.sleep(150.0)
        cast._seconds = 1.0
        shell.post(lambda: take(shell, permission("interrupt"), stage.clock.now(), Sender("operator")))
        await task

    stage.clock.run(operate())
    assert [one.reason for one in stage.records(r.AttemptInterrupted)] == ["interrupted"]
    assert [one.turn for one in cast.asked] == ["a#1", "a#1", "b#1"]


def test_who_is_watched() -> None:
    assert stall_after(AgentPlan(name="a", backend="acp")) == 600.0
    assert stall_after(AgentPlan(name="a", backend="pi", options={"stall_after": 60})) == 60.0
    assert stall_after(AgentPlan(name="a", backend="pi", options={"stall_after": 0})) is None
    assert stall_after(AgentPlan(name="a", backend="command")) is None
    assert stall_after(AgentPlan(name="a", backend="command", options={"stall_after": 60})) == 60.0


def test_waiting_for_a_person_or_a_gate_is_no_stall() -> None:
    watch = StallWatch(0.0, 100.0)
    for now in range(0, 400, 25):
        watch.restart(now)
        assert not watch.look(now, {"event": 0, "cpu": 1.0, "process": frozenset(), "file": (0, 0)})


def test_a_file_that_changes_is_a_sign(here: Path) -> None:
    (here / "deep").mkdir()
    (here / "deep" / "a.txt").write_text("1")
    (here / ".hidden").mkdir()
    before = newest(here)
    (here / ".hidden" / "b.txt").write_text("1")
    assert newest(here) == before
    os.utime(here / "deep" / "a.txt", ns=(1, 2**62))
    assert newest(here) == (2**62, 2)
    assert newest(here / "gone") is None


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[str]]:
    """A program that starts a child, which computes once it is asked to."""
    child = "import sys; sys.stdin.read(1); n = 0\nwhile True: n += 1"
    code = f"import subprocess, sys; print('up', flush=True); subprocess.run([sys.executable, '-c', {child!r}])"
    program = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    yield program
    os.killpg(program.pid, 9)
    program.wait()
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.close()
    program.stdout.close()


def test_what_processes_compute_is_a_sign(busy: subprocess.Popen[str]) -> None:
    """That of a child counts, and of a process that has ended nothing is known."""
    assert busy.stdout is not None
    assert busy.stdin is not None
    busy.stdout.readline()
    launched = Launched(pid=busy.pid, group=busy.pid, started=started(busy.pid))
    while (found := activity([launched])) is None or len(found[1]) < 2:
        pass
    busy.stdin.write("x")
    busy.stdin.flush()
    while (now := activity([launched])) is not None and now[0] < found[0] + 0.1:
        pass
    assert now is not None
    assert activity([Launched(pid=busy.pid, group=busy.pid, started="another")]) is None
