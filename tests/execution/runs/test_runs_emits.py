"""What agents say to their run: judged once, in one place, and never lost between two owners."""

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from doorbell import control
from loop_play import killed, loop_plan, plan_of, review
from posted import send
from stage import Cast, flow

from coterie.agents.backends.agentside import delivery
from coterie.agents.backends.base import Answer, Failure, Request, Result
from coterie.agents.workspace.notes import entries
from coterie.execution.runs import launch
from coterie.execution.runs.messages import RunMessage, provisional
from coterie.execution.runs.messages.tokens import Tokens
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.replay import replay
from coterie.execution.runs.repository import run_in
from coterie.history.journal import records as r
from coterie.history.journal.jsonl import JsonlStore
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import AgentPlan, Plan, Wanted

Say = Callable[..., tuple[str, str]]
Part = Callable[[Say], None]
"""What an agent does in its turn: it says things, and hears the verdict."""


class Speakers(Cast):
    """Agents that speak to their run while they work, as another process would: from a thread.

    Attributes:
        failed: What went wrong in the threads.
    """

    def __init__(self, folder: Path, parts: dict[str, Part]) -> None:
        super().__init__({}, seconds=0)
        self._folder, self._speeches = folder, parts
        self.failed: list[BaseException] = []

    async def start(self, request, on_event):  # type: ignore[no-untyped-def]
        part = self._speeches.get(request.turn)
        if part is not None:
            while not control(self._folder):  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0)
            try:
                await asyncio.to_thread(part, self.voice(request))
            except BaseException as error:
                self.failed.append(error)
        return await super().start(request, on_event)

    def voice(self, request: Request) -> Say:
        tokens = Tokens.of(self._folder)

        def say(event: str = "", *, id: str = "", payload: str = "", **message: Any) -> tuple[str, str]:
            name = id or f"{threading.get_ident():x}{event}{len(message)}{message.get('note', {}).get('text', '')}"
            epoch = message.pop("epoch", request.epoch)
            token = tokens.attempt("r", request.turn, request.attempt, epoch)
            sender = {"turn": request.turn, "attempt": request.attempt, "epoch": epoch, "token": token}
            whole = {"kind": "emit", "event": event, "payload": payload, **sender, **message}
            return delivery.send(str(self._folder), name, whole)

        return say


def place(tmp_path: Path) -> RunPlace:
    return RunPlace(
        work_dir=str(tmp_path), memory_file=str(tmp_path / "memory.jsonl"), tasks_file=str(tmp_path / "tasks.jsonl")
    )


def run(tmp_path: Path, plan: Plan, parts: dict[str, Part]) -> Outcome:
    cast = Speakers(tmp_path / "runs" / "r", parts)
    outcome = asyncio.run(
        launch.start(plan, {"prompt": "go"}, state_dir=tmp_path, turns=cast, run_id="r", cwd=tmp_path)
    )
    assert cast.failed == []
    return outcome


def loop(tmp_path: Path, parts: dict[str, Part], **fields: Any) -> Outcome:
    fields = {"max_iterations": 2, "place": place(tmp_path)} | fields
    return run(tmp_path, plan_of(loop_plan(**fields)), parts)


def journal(tmp_path: Path, *kinds: type[r.Record]) -> list[Any]:
    return [record for record in JsonlStore(tmp_path).read("r") if not kinds or isinstance(record, kinds)]


def test_an_event_is_judged_while_the_agent_waits(tmp_path: Path) -> None:
    """Whatever the backend: rejected with what would be accepted, accepted, and noted."""
    said: list[tuple[str, str]] = []

    def planner(say: Say) -> None:
        said.extend(say(event) for event in ("task.done", "issue.discovered", "tasks.ready"))

    loop(tmp_path, {"iteration#1": planner})

    assert [status for status, _ in said] == ["refused", "accepted", "accepted"]
    assert said[0][1].splitlines()[1:] == [
        "recent event: loop.start",
        "suggested roles: planner",
        "allowed events: tasks.ready, task.complete",
    ]
    found = journal(tmp_path, r.EventInvalid, r.EventNoted, r.EventEmitted, r.MessageRefused)
    assert [type(one) for one in found] == [r.EventInvalid, r.EventNoted, r.EventEmitted]
    assert [one.role for one in journal(tmp_path, r.IterationStarted)] == ["planner", "builder"]
    assert not list((tmp_path / "runs/r/inbox").iterdir())


def test_an_event_that_comes_twice_counts_once(tmp_path: Path) -> None:
    """Its sender lost the answer and repeats the id: the same verdict, one record."""
    said: list[tuple[str, str]] = []

    def planner(say: Say) -> None:
        said.extend(say("nothing", id="m1") for _ in range(2))
        said.extend(say("tasks.ready", id="m2") for _ in range(2))

    loop(tmp_path, {"iteration#1": planner})

    assert [status for status, _ in said] == ["refused", "refused", "accepted", "accepted"]
    assert said[0] == said[1]
    assert len(journal(tmp_path, r.EventInvalid, r.EventEmitted)) == 2


def test_fifty_speak_at_once(tmp_path: Path) -> None:
    """Defect P: each gets its own verdict and its own task; nothing is written over."""
    heard: list[tuple[str, str]] = []

    def planner(say: Say) -> None:
        with ThreadPoolExecutor(50) as pool:
            notes = [{"do": "add", "text": f"task {n}"} for n in range(50)]
            heard.extend(pool.map(lambda note: say(kind="task", note=note, id=f"{note['text'][5:]:0>16}"), notes))
            heard.extend(pool.map(lambda n: say("tasks.ready" if n % 2 else "no", id=f"e{n}"), range(50)))

    loop(tmp_path, {"iteration#1": planner}, max_iterations=1)

    assert [status for status, _ in heard[:50]] == ["accepted"] * 50
    assert [status for status, _ in heard[50:]] == ["refused", "accepted"] * 25
    assert len(journal(tmp_path, r.TaskChanged)) == 50
    tasks = entries.read(tmp_path / "runs/r/tasks.jsonl")
    assert len({one["id"] for one in tasks}) == len({one["text"] for one in tasks}) == 50
    assert not list((tmp_path / "runs/r/inbox").iterdir())


def test_what_an_attempt_says_that_is_over_is_stale(tmp_path: Path) -> None:
    """From an earlier turn, from an earlier owner, and from nobody's turn at all; a review cannot emit events."""
    voices: list[Say] = []
    said: list[tuple[str, str]] = []

    def builder(say: Say) -> None:
        said.append(voices[0]("tasks.ready", id="m1"))
        said.append(say("review.ready", id="m2", epoch=7))
        said.append(voices[0](kind="task", note={"do": "add", "text": "x"}, id="m3"))

    parts = {
        "iteration#1": lambda say: voices.append(say) or say("tasks.ready"),
        "iteration#2": builder,
        "review#1": lambda say: said.append(say("tasks.ready", id="m4")),
    }
    loop(tmp_path, parts, review=review())  # type: ignore[arg-type]

    assert [status for status, _ in said] == ["refused"] * 4
    assert "a review cannot emit events" in said[0][1]
    assert all("stale" in detail for _, detail in said[1:])
    assert journal(tmp_path, r.TaskChanged) == []


def test_what_an_attempt_of_a_child_run_says_does_not_count_for_a_turn_of_that_name_elsewhere(tmp_path: Path) -> None:
    """It names a child run that is over, and a turn of the root has the same name and number."""
    said: list[tuple[str, str]] = []

    def planner(say: Say) -> None:
        token = Tokens.of(tmp_path / "runs/r").attempt("r/team#1.1", "iteration#1", 1, 1)
        said.append(say("tasks.ready", turn="team#1.1/iteration#1", token=token))

    loop(tmp_path, {"iteration#1": planner}, max_iterations=1)
    assert said == [("refused", "attempt team#1.1/iteration#1.1 is over (stale)")]
    assert journal(tmp_path, r.EventEmitted) == []


def test_an_event_without_a_turn_belongs_to_the_one_that_runs(tmp_path: Path) -> None:
    """As from a terminal beside the run; the record says that an operator emitted it."""

    def planner(say: Say) -> None:
        assert send(tmp_path / "runs/r", RunMessage(id="m1", kind="emit", event="tasks.ready")).status == "accepted"

    loop(tmp_path, {"iteration#1": planner})
    [emitted] = journal(tmp_path, r.EventEmitted)
    assert (emitted.turn, emitted.source) == ("iteration#1", "operator")


def test_open_tasks_hold_the_end_up_until_they_are_done(tmp_path: Path) -> None:
    """Of this run and of the project; soft ones do not."""
    entries.add(tmp_path / "tasks.jsonl", [{"id": "task-old", "type": "task", "text": "old", "status": "open"}])
    said: list[tuple[str, str]] = []

    def planner(say: Say) -> None:
        said.append(say(kind="task", note={"do": "add", "text": "mine"}, id="0" * 16))
        said.append(say(kind="task", note={"do": "add", "text": "soft", "soft": True}, id="1" * 16))
        said.append(say("task.complete", id="e1"))
        said.append(say(kind="task", note={"do": "complete", "target": "task-old"}, id="2" * 16))
        said.append(say(kind="task", note={"do": "complete", "target": "task-00"}, id="3" * 16))
        said.append(say("task.complete", id="e2"))

    outcome = loop(tmp_path, {"iteration#1": planner})

    assert (outcome.status, outcome.reason) == ("completed", "completion_event")
    assert [status for status, _ in said] == ["accepted", "accepted", "refused", *["accepted"] * 3]
    assert "task-old (old), task-0000000000000000 (mine)" in said[2][1]
    assert entries.in_force(entries.read(tmp_path / "tasks.jsonl"))["task-old"]["status"] == "done"


def test_outputs_of_a_flow_are_given_while_the_turn_runs(tmp_path: Path) -> None:
    """They count before what its text seems to say; the last one given for a name does."""
    wanted = (Wanted(name="score", type="number", declared=True), Wanted(name="verdict", type="string", declared=True))

    def judge(say: Say) -> None:
        assert say(outputs={"score": "2", "verdict": "revise"}, id="m1") == ("accepted", "")
        assert say(outputs={"score": 3}, id="m2") == ("accepted", "")
        assert say("an.event", id="m3")[0] == "refused"

    plan = flow("judge -> end", judge=AgentPlan(name="judge", outputs=wanted))
    run(tmp_path, plan, {"judge#1": judge})

    finished = {one.turn: one.outputs for one in journal(tmp_path, r.TurnFinished)}
    assert finished["judge#1"] == {"score": 3, "verdict": "revise"}


def test_outputs_that_a_failed_attempt_gave_do_not_count_in_the_next(tmp_path: Path) -> None:
    """Each attempt gives its own."""
    gives = iter(({"id": "m1", "outputs": {"score": 1}}, {"id": "m2", "outputs": {"verdict": "go"}}))
    plan = flow("judge -> end", judge=AgentPlan(name="judge", retry=1))
    cast = Speakers(tmp_path / "runs/r", {"judge#1": lambda say: say(**next(gives))})  # type: ignore[dict-item,return-value]
    cast._parts = {"judge": [Failure(kind="exit", reason="no"), Answer(text="done")]}
    asyncio.run(launch.start(plan, {"prompt": "go"}, state_dir=tmp_path, turns=cast, run_id="r", cwd=tmp_path))

    assert len(journal(tmp_path, r.OutputsGiven)) == 2
    finished = {one.turn: one.outputs for one in journal(tmp_path, r.TurnFinished)}
    assert finished["judge#1"] == {"verdict": "go"}


def test_an_owner_that_does_not_answer_is_waited_for_in_vain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandboxed agent: the lock is held, the socket is not reached; the message stays, on the disk."""
    folder = tmp_path / "runs" / "r"
    folder.mkdir(parents=True)
    now = [0.0]
    monkeypatch.setattr(delivery.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(delivery.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    writer = JsonlStore(tmp_path).claim("r")
    try:
        status, _ = delivery.send(str(folder), "m1", {"kind": "emit", "event": "go"})
    finally:
        asyncio.run(writer.close())

    assert status == delivery.UNREACHABLE
    assert 10 <= now[0] < 10.2
    assert json.loads((folder / "inbox/m1.json").read_bytes())["event"] == "go"
    assert delivery.send(str(folder), "m1", {"kind": "emit", "event": "go"})[0] == delivery.UNOWNED


# -- between two owners -----------------------------------------------------------------------------------------------


def emit(folder: Path, event: str, epoch: int = 1, **message: Any) -> dict[str, Any]:
    token = Tokens.of(folder).attempt("r", "iteration#1", 1, epoch)
    sender = {"turn": "iteration#1", "attempt": 1, "epoch": epoch, "token": token}
    return {"kind": "emit", "event": event, **sender, **message}


def resumed(tmp_path: Path, *answers: Result) -> Outcome:
    cast = Cast({"planner": list(answers)} if answers else {}, seconds=0)
    return asyncio.run(launch.resume("r", state_dir=tmp_path, turns=cast))


def test_what_came_before_the_owner_was_killed_counts(tmp_path: Path) -> None:
    """It was put there and not judged: provisionally accepted, then accepted, once, and it completes the run."""
    folder = killed(tmp_path, loop_plan(place=place(tmp_path)))
    message = emit(folder, "task.complete", payload="done")

    assert delivery.send(str(folder), "m1", message)[0] == delivery.UNOWNED
    verdict = provisional.verdict(*run_in(folder), RunMessage(id="m1", **message))
    assert (verdict.status, "provisional" in verdict.detail) == ("accepted", True)

    outcome = resumed(tmp_path)
    assert (outcome.status, outcome.reason) == ("completed", "completion_event")
    assert [one.message for one in journal(tmp_path, r.EventEmitted)] == ["m1"]
    assert journal(tmp_path, r.TurnFinished) == []
    assert replay("r", state_dir=tmp_path).left == ()


def test_what_was_recorded_and_not_yet_deleted_counts_once(tmp_path: Path) -> None:
    """The owner was killed between the two: the next one knows the message."""
    accepted = r.EventEmitted(turn="iteration#1", event="tasks.ready", attempt=1, message="m1", source="agent")
    folder = killed(tmp_path, loop_plan(place=place(tmp_path), max_iterations=2), accepted)
    delivery.put(str(folder), "m1", emit(folder, "tasks.ready"))

    resumed(tmp_path)

    assert len(journal(tmp_path, r.EventEmitted)) == 1
    assert [one.role for one in journal(tmp_path, r.IterationStarted)] == ["planner", "builder"]
    assert not list((folder / "inbox").glob("*.json"))


def test_what_an_orphan_of_an_earlier_owner_says_is_refused(tmp_path: Path) -> None:
    """The fold says so at once, and takes the message away: no owner could ever take it."""
    folder = killed(tmp_path, loop_plan(place=place(tmp_path), max_iterations=1))
    message = emit(folder, "tasks.ready", epoch=9)
    delivery.put(str(folder), "m1", message)

    verdict = provisional.verdict(*run_in(folder), RunMessage(id="m1", **message))
    assert (verdict.status, "stale" in verdict.detail) == ("refused", True)
    assert not (folder / "inbox/m1.json").exists()
    verdict = provisional.verdict(*run_in(folder), RunMessage(id="m2", **emit(folder, "nothing")))
    assert (verdict.status, "allowed events: tasks.ready" in verdict.detail) == ("refused", True)


@pytest.mark.parametrize(("recorded", "written"), [(False, False), (True, False), (True, True)])
def test_a_note_is_neither_lost_nor_doubled_by_a_kill(tmp_path: Path, recorded: bool, written: bool) -> None:
    """Killed before the record, between it and the file, or between the file and the end of the message."""
    entry = {"id": f"task-{'0' * 16}", "type": "task", "text": "x", "status": "open", "source": "manual"}
    change = r.TaskChanged(message="0" * 16, turn="iteration#1", entries=(entry,), source="agent")
    plan = loop_plan(place=place(tmp_path), max_iterations=1)
    folder = killed(tmp_path, plan, *([change] if recorded else []))
    if written:
        entries.add(folder / "tasks.jsonl", [entry])
    delivery.put(str(folder), "0" * 16, emit(folder, "", kind="task", note={"do": "add", "text": "x"}))

    resumed(tmp_path, Answer(text="done"))

    assert [one["text"] for one in entries.read(folder / "tasks.jsonl")] == ["x"]
    assert len(journal(tmp_path, r.TaskChanged)) == 1
    assert not list((folder / "inbox").glob("*.json"))


def test_a_fork_remembers_what_its_records_say(tmp_path: Path) -> None:
    """Its own memory and tasks, as far as it shares the records; those of the original stay as they are."""
    from coterie.execution.runs.fork import fork

    lessons = [{"id": f"mem-{n}", "type": "learning", "text": f"lesson {n}"} for n in (1, 2)]
    changes = [r.MemoryChanged(message=f"m{n}", entries=(one,)) for n, one in enumerate(lessons)]
    killed(tmp_path, loop_plan(place=place(tmp_path), max_iterations=1), *changes)

    forked = fork("r", state_dir=tmp_path, at=6, run_id="f")
    cast = Cast({}, seconds=0)
    asyncio.run(launch.resume(forked.run, state_dir=tmp_path, turns=cast))

    assert [one["text"] for one in entries.read(tmp_path / "runs/f/memory.jsonl")] == ["lesson 1"]
    assert "- lesson 1" in cast.asked[0].prompt
    assert not (tmp_path / "runs/r/memory.jsonl").exists()


def test_what_is_said_to_a_run_is_recorded_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events, outputs, notes, guidance, answers and refusals, in the journal and in every file of the run."""
    monkeypatch.setenv("SHOP_API_KEY", secret := "s3cr3t-of-the-user")
    said: list[tuple[str, str]] = []

    def worker(say: Say) -> None:
        said.append(
            say(kind="memory", note={"do": "add", "type": "learning", "text": f"the key: {secret}"}, id="0" * 16)
        )
        said.append(say(kind="task", note={"do": "add", "text": f"revoke {secret}"}, id="1" * 16))
        said.append(say(kind="task", note={"do": "complete", "target": secret}, id="2" * 16))
        said.append(say(secret, payload=secret, id="e1"))
        said.append(say("tasks.ready", payload=f"with {secret}", outputs={"key": secret}, id="e2"))
        message = RunMessage(id="g1", kind="guide", text=f"use {secret}")
        said.append((send(tmp_path / "runs/r", message).status, ""))

    loop(tmp_path, {"iteration#1": worker})
    assert [status for status, _ in said] == ["accepted", "accepted", "refused", "refused", "accepted", "accepted"]
    [kept] = journal(tmp_path, r.MemoryChanged)
    assert kept.entries[0]["text"] == "the key: ***"
    written = [path for path in tmp_path.rglob("*") if path.is_file() and secret in path.read_text(errors="replace")]
    assert written == []
