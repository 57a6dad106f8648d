"""The gate of an attempt on the node of the attempt, which waits for it."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asking import agent, request
from cluster_stage import Server, coterie, serving
from loop_projects import project
from repositories import commit, repository
from sealing import performance
from stage import Cast
from temporalio.converter import DataConverter
from temporalio.testing import ActivityEnvironment
from until import soon

from coterie.agents.backends.base import Answer, Failure, OnEvent, Request, Result, Text
from coterie.execution.cluster.activities import TurnActivities
from coterie.execution.cluster.files import pack
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.orders import _PERFORMED
from coterie.execution.cluster.wire import MsgspecConverter, TurnDone
from coterie.history.journal.export import FolderExport
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import EventEmitted, GateChecked, TurnFinished


class Session:
    """A session whose result comes when it is set."""

    def __init__(self) -> None:
        self.ends: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    async def result(self) -> Result:
        return await asyncio.shield(self.ends)

    async def interrupt(self) -> None:
        if not self.ends.done():
            self.ends.set_result(Failure(kind="interrupted", reason="it was interrupted"))

    async def steer(self, text: str) -> bool:
        return not self.ends.done()


class Started(Cast):
    """Turns whose attempts end when the test says so."""

    def __init__(self) -> None:
        super().__init__({})
        self.sessions: list[Session] = []

    async def start(self, request: Request, on_event: OnEvent) -> Any:
        self.asked.append(request)
        on_event(Text(text=f"{request.agent.kind}\n"))
        self.sessions.append(session := Session())
        return session


class Marks:
    """A guard that says which marks it has."""

    def __init__(self, has_ended: bool = False) -> None:
        self.now: list[str] = []
        self._has_ended = has_ended

    @contextmanager
    def over(self, mark: str) -> Iterator[None]:
        self.now.append(mark)
        yield
        self.now.remove(mark)

    def has_ended(self, mark: str) -> bool:
        return self._has_ended


async def beat(asked: object, retry: bool) -> None:
    """Take a sign of life."""


CLIENT: Any = SimpleNamespace(
    namespace="default",
    workflow_service=SimpleNamespace(record_activity_task_heartbeat=beat),
    data_converter=DataConverter(payload_converter_class=MsgspecConverter),
    get_workflow_handle=lambda run: None,
)
"""A client of a server that takes signs of life."""


@pytest.mark.parametrize("order", [(1, 0), (0, 1)], ids=["gate first", "attempt first"])
def test_an_attempt_and_its_gate_on_one_node_leave_each_other_alone(tmp_path: Path, order: tuple[int, int]) -> None:
    """The gate runs while the attempt waits for its verdict: neither has the other's processes or output.

    Both have the files of the attempt, which commits them. The gate does not wait until the messages of the attempt are
    judged: it decides on them.
    """
    (tmp_path / "submitted").mkdir()
    export, turns, guard = FolderExport(tmp_path / "export"), Started(), Marks()
    attempt = request(agent(steps=(("work",),)))
    gate = request(agent(kind="gate", steps=(("check",),)), clean=True)

    async def main() -> list[TurnDone]:
        files, _ = await pack(tmp_path / "submitted", export)
        node = TurnActivities(CLIENT, export, turns, tmp_path / "home", "node", guard, KeyRing.of_user())  # type: ignore[arg-type]
        opened: list[str] = []
        of = node._relay.of
        node._relay.of = lambda asked: opened.append(asked.marker) or of(asked)  # type: ignore[method-assign,func-returns-value]
        doing = []
        for n, one in enumerate((attempt, gate), 1):
            _PERFORMED.set(performance(one.marker))
            doing.append(asyncio.create_task(ActivityEnvironment().run(node.turn, one, files)))
            await soon(lambda n=n: len(turns.sessions) == n)  # type: ignore[misc]
        here = [one.cwd for one in turns.asked if one.cwd is not None]
        assert [folder.is_dir() for folder in here] == [True, True]
        assert (here[0], len({one.folder for one in turns.asked})) == (here[1], 2)
        assert (guard.now, opened) == ([attempt.ref.marker, f"{attempt.ref.marker}/gate"], [attempt.ref.marker])
        assert (node.running(), bool(turns.asked[0].token), turns.asked[1].token) == (2, True, "")
        first, last = order
        turns.sessions[first].ends.set_result(Answer(text=str(first)))
        found = {first: await asyncio.wait_for(doing[first], 30)}
        assert (node.running(), len(guard.now), here[last].is_dir()) == (1, 1, True)
        assert await node.steer(attempt.ref.marker, "go on") is (last == 0)
        turns.sessions[last].ends.set_result(Answer(text=str(last)))
        found[last] = await asyncio.wait_for(doing[last], 30)
        assert (node.running(), guard.now) == (0, [])
        printed = await export.output(attempt.ref.marker, 0)
        assert (printed.count(b"agent"), printed.count(b"gate")) == (1, 0)
        assert [found[n].head is None for n in (0, 1)] == [False, True]
        return [found[0], found[1]]

    assert [one.answer and one.answer.text for one in asyncio.run(main())] == ["0", "1"]


@pytest.mark.parametrize(
    ("has_ended", "answer", "kind"),
    [
        (True, Answer(text="half"), "lost"),
        (True, Failure(kind="exit", reason="killed"), "lost"),
        (True, Failure(kind="interrupted", reason="it was interrupted"), "interrupted"),
        (False, Failure(kind="exit", reason="status 3"), "exit"),
    ],
)
def test_an_attempt_that_the_guard_of_a_frozen_node_ended_is_lost(
    tmp_path: Path, has_ended: bool, answer: Result, kind: str
) -> None:
    """Whatever its agent still said; an interruption, which the workflow wanted, remains one."""
    export, turns, asked = FolderExport(tmp_path / "export"), Started(), request(agent(steps=(("work",),)))

    async def main() -> TurnDone:
        node = TurnActivities(CLIENT, export, turns, tmp_path / "home", "node", Marks(has_ended), KeyRing.of_user())  # type: ignore[arg-type]
        _PERFORMED.set(performance(asked.marker))
        doing = asyncio.create_task(ActivityEnvironment().run(node.turn, asked, None))
        await soon(lambda: bool(turns.sessions))
        turns.sessions[0].ends.set_result(answer)
        return await asyncio.wait_for(doing, 30)

    done = asyncio.run(main())
    assert done.failure is not None
    assert done.failure.kind == kind


EMITS = """
pathlib.Path("notes.txt").write_text("written before the gate")
subprocess.run([emit, "emit", "done"], check=True)
print(pathlib.Path("notes.txt").read_text())
"""


@pytest.mark.slow
def test_an_event_is_accepted_by_a_gate_on_the_only_node(temporal_server: Server, tmp_path: Path) -> None:
    """The agent goes on in its own files, where it was before the gate."""
    home = repository(tmp_path / "user")
    project(home / "loop", EMITS, f"event_loop.gates = {json.dumps([['sh', '-c', 'echo checked; pwd']])}")
    commit(home, "the loop")
    cluster = f"{temporal_server.url}?export={tmp_path / 'export'}"
    with serving(tmp_path, cluster):
        done = coterie("submit", "loop", "go", "--id", "gated-1", "--wait", cwd=home, cluster=cluster)
    assert done.returncode == 0, done.stdout + done.stderr
    records = list(JsonlStore(tmp_path / "export").read("gated-1"))
    assert [one.event for one in records if isinstance(one, EventEmitted)] == ["done"]
    assert [(one.passed, one.output[:7]) for one in records if isinstance(one, GateChecked)] == [(True, "checked")]
    assert [one.text.splitlines()[-1] for one in records if isinstance(one, TurnFinished)] == [
        "written before the gate"
    ]
