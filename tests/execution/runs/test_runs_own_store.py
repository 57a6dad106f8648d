"""A store of journals of one's own, given to `Runs`: runs are driven, resumed and answered as with files."""

import asyncio
from pathlib import Path

from sqlite_store import SqliteStore
from stage import Cast, flow

from coterie.execution.runs import control, launch, messages
from coterie.execution.runs.replay import replay_in
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import RunFinished, TurnStarted
from coterie.team.planning.plan import AgentPlan, Limits

RUN = "in-a-store-of-its-own"
"""Unlike that of any other run: an answer is refused while a process of an attempt with this name lives."""
PLAN = flow("a -> b", "b -> c", c=AgentPlan(name="c", kind="human"))


def opened(root: Path) -> Runs:
    """The runs of *root* as a further process opens them."""
    return Runs(root, store=SqliteStore(root))


def test_a_run_is_stopped_resumed_and_answered_in_another_store(tmp_path: Path) -> None:
    """The journal is in the database alone; the lock, the inbox and the token's secret are in the run's folder."""
    how = {"state_dir": tmp_path, "turns": Cast({}, seconds=0.0)}
    first = opened(tmp_path)
    stopped = asyncio.run(
        launch.start(PLAN, {"prompt": "go"}, run_id=RUN, runs=first, limits=Limits(max_turns=1), **how)  # type: ignore[arg-type]
    )
    assert (stopped.status, stopped.reason) == ("stopped", "max_turns")
    assert first.status(RUN) == "stopped: max_turns"

    waits = asyncio.run(launch.resume(RUN, runs=opened(tmp_path), limits=Limits(max_turns=-1), **how))  # type: ignore[arg-type]
    assert [one.turn for one in waits.waiting] == ["c#1"]
    assert control.send(opened(tmp_path), RUN, messages.answer("c#1", "yes")).status == "queued"

    ended = asyncio.run(launch.resume(RUN, runs=opened(tmp_path), **how))  # type: ignore[arg-type]
    assert (ended.status, ended.result.text) == ("completed", "yes")
    last = opened(tmp_path)
    records = list(last.read(RUN))
    assert isinstance(records[-1], RunFinished)
    assert [one.turn for one in records if isinstance(one, TurnStarted)] == ["a#1", "b#1", "c#1"]
    assert replay_in(last, RUN).records == len(records)
    assert "".join(last.text(RUN)).count("\n") == len(records)
    left = {path.name for path in last.folder(RUN).iterdir()}
    assert {"lock", "secret", "inbox"} <= left
    assert not list(tmp_path.rglob("journal.jsonl"))


def test_a_run_has_one_owner_whatever_the_store(tmp_path: Path) -> None:
    """The lock in the run's folder is what a second process meets."""
    first, second = SqliteStore(tmp_path), SqliteStore(tmp_path)
    writer = first.claim(RUN)

    assert second.owned(RUN)
    assert Runs(tmp_path, store=second).status(RUN) == "running"
    asyncio.run(writer.close())
    assert not second.owned(RUN)
