"""What follows when a run is begun, asked, stopped or removed once more."""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import value_agents as values
from msgspec.structs import replace
from page_runs import ASKS, FAILS, played
from stage import Cast, flow

import coterie
from coterie.errors import NoSuchRun, RunExists
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.runs import (
    attention,
    control,
    finalizers,
    given_ids,
    index,
    messages,
    named_runs,
    removal,
    statistics,
)
from coterie.execution.runs.attention import AttentionChange
from coterie.execution.runs.control import RemoteRuns
from coterie.execution.runs.finalizers import LocalFinalizers
from coterie.execution.runs.fork import _place
from coterie.execution.runs.messages import RunMessage, Verdict
from coterie.execution.runs.notify_process import Channels
from coterie.execution.runs.outcome import exit_of
from coterie.execution.runs.recovery import goes_on
from coterie.execution.runs.removal import prune, remove
from coterie.execution.runs.repository import LocalRuns, Runs
from coterie.history.journal import records as r
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.views.attention import QUOTA
from coterie.team.planning.place import RunPlace

# -- begun ------------------------------------------------------------------------------------------------------------


def test_a_run_that_had_a_secret_is_found_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its journal hides the secret, and the same input hides it as well; another text is another input."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_API_KEY", "s3cr3t-of-the-shop")
    one = coterie.agent(values.sees_prompt)
    team: Any = coterie.flow("one", [one], result=one)
    first = asyncio.run(coterie.run(team, "use s3cr3t-of-the-shop", id="order-1"))

    assert asyncio.run(coterie.run(team, "use s3cr3t-of-the-shop", id="order-1")).result == first.result
    with pytest.raises(RunExists, match="another input: prompt"):
        asyncio.run(coterie.run(team, "use another", id="order-1"))


def test_the_ids_of_all_removed_runs_are_kept_for_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of runs whose callers gave the ids; each for as long as it was promised, counted from its own removal."""
    now = time.time()
    days = [0.0, 60.0, 89.9]
    for n, day in enumerate(days):
        assert given_ids.claim(f"order-{n}", tmp_path)
        assert not given_ids.claim(f"order-{n}", tmp_path)
        monkeypatch.setattr("time.time", lambda day=day: now + day * 86400)
        given_ids.keep_id(f"order-{n}", tmp_path)
        for path in (folder := Runs(tmp_path).folder(f"order-{n}")).iterdir():
            path.unlink()
        folder.rmdir()
    for n in range(len(days)):
        with pytest.raises(RunExists, match=r"it was removed on .*, and its id is kept for 90 days"):
            given_ids.claim(f"order-{n}", tmp_path)
    monkeypatch.setattr("time.time", lambda: now + 90.1 * 86400)
    assert given_ids.claim("order-0", tmp_path)
    for n in (1, 2):
        with pytest.raises(RunExists):
            given_ids.claim(f"order-{n}", tmp_path)


def test_the_outcome_of_a_run_that_is_found_is_that_of_its_journal(tmp_path: Path) -> None:
    """With what its turns used; without the end of its owner it is cut off, or running while a process has it."""
    failed = played(tmp_path / "state", flow("a -> b"), "r2", FAILS)
    found = named_runs.outcome_at(failed.runs, "r2")
    assert (found.status, found.usage.cost, found.usage.turns) == ("failed", 0.25, 2)
    asks = played(tmp_path / "state", ASKS)
    journal = asks.runs.file("r1")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    assert named_runs.outcome_at(asks.runs, "r1").reason == "cut off"
    owner = JsonlStore(asks.runs.root).claim("r1")
    assert named_runs.outcome_at(asks.runs, "r1").reason == "running"
    owner.give_up()


# -- stopped ----------------------------------------------------------------------------------------------------------

LATER = time.time() + 3600


STOPS: dict[str, tuple[list[r.Record], bool]] = {
    "killed": ([], True),
    "its process ended": ([r.RunStopped(reason="interrupted", by="process")], True),
    "a person": ([r.RunStopped(reason="interrupted", by="operator")], False),
    "a limit": ([r.RunStopped(reason="max_turns", by="limit")], False),
    "waits": ([r.RunStopped(reason="waiting")], False),
    "the quota is closed": ([r.RunStopped(reason="quota", until=LATER)], False),
    "the quota has opened": ([r.RunStopped(reason="quota", until=1000.0)], True),
    "owned since": ([r.RunStopped(reason="waiting", by="operator"), r.RunOwned(epoch=2)], True),
    "stopped again": (
        [
            r.RunStopped(reason="interrupted", by="process"),
            r.RunOwned(epoch=2),
            r.RunStopped(reason="interrupted", by="operator"),
        ],
        False,
    ),
    "ended": ([r.RunFinished(outcome="completed")], False),
}


@pytest.mark.parametrize("how", STOPS)
def test_a_run_goes_on_by_itself_unless_a_person_or_a_limit_stopped_it(tmp_path: Path, how: str) -> None:
    """The last stop counts, if no owner came after it; an answer that waits makes a waiting run go on."""
    more, wanted = STOPS[how]
    records = [r.RunStarted(run="r", engine="flow"), r.RunOwned(epoch=1), *more]
    runs = journal(tmp_path, records)

    assert goes_on(runs, "r") is wanted
    (runs.inbox("r") / "m1.json").write_bytes(b"{}")
    assert goes_on(runs, "r") is (wanted or how in ("waits", "the quota is closed"))


def journal(folder: Path, records: list[r.Record]) -> Runs:
    """A run with *records* that nothing drives."""

    async def write() -> None:
        writer = JsonlStore(folder).claim("r")
        writer.append([replace(record, seq=seq, at=float(seq)) for seq, record in enumerate(records, 1)])
        await writer.durable(len(records))
        await writer.close()

    asyncio.run(write())
    runs = Runs(folder)
    runs.inbox("r").mkdir()
    return runs


# -- asked ------------------------------------------------------------------------------------------------------------


def test_a_question_whose_answer_waits_is_not_asked_again(tmp_path: Path) -> None:
    """Neither in a list nor by a follower, which says that it is no longer open; other requests stay."""
    place = played(tmp_path / "state", ASKS)

    async def main() -> list[AttentionChange]:
        async with aclosing(attention.follow(tmp_path / "state")) as changes:
            first = await asyncio.wait_for(anext(changes), 30)
            sent = await asyncio.to_thread(control.answer, place.runs, "r1", "boss#1", "fine", {"verdict": "yes"})
            assert sent.status == "queued", sent
            return [first, await asyncio.wait_for(anext(changes), 30)]

    assert [one.id for one in attention.open_in(place.runs, "r1")] == ["boss#1"]
    found = asyncio.run(main())
    assert [(one.is_open, one.attention.id) for one in found] == [(True, "boss#1"), (False, "boss#1")]
    assert attention.open_in(place.runs, "r1") == []
    assert list(attention.find(tmp_path / "state")) == []
    assert control.withdraw(place.runs, "r1").status == "accepted"
    assert [one.id for one in attention.open_in(place.runs, "r1")] == ["boss#1"]


class Far(RemoteRuns):
    """Runs elsewhere that give one verdict on whatever they are sent."""

    def __init__(self, folder: Path, status: str) -> None:
        super().__init__(folder)
        self._status, self.sent = status, list[tuple[str, str]]()

    def send(self, run: str, message: RunMessage) -> Verdict:
        self.sent.append((message.kind, message.turn))
        return Verdict(status=self._status, detail="so it is")

    def notes(self, run: str, settings: Any, kind: str) -> Any:
        raise NotImplementedError

    async def resume(self, run: str, **how: Any) -> Any:
        raise NotImplementedError

    def fork(self, run: str, **how: Any) -> Any:
        raise NotImplementedError

    def here(self, run: str, tell: Callable[[str], object]) -> Runs:
        raise NotImplementedError


@pytest.mark.parametrize("interrupt", [True, False])
@pytest.mark.parametrize("status", ["accepted", "refused", "queued"])
def test_only_guidance_that_was_taken_interrupts(tmp_path: Path, status: str, interrupt: bool) -> None:
    """An attempt whose guidance was refused works on, and the verdict is that on the guidance."""
    far = Far(tmp_path, status)
    said = control.guide(far, "r1", "be brief", "a#1", interrupt=interrupt)

    assert (said.status, said.detail) == (status, "so it is")
    also = [("interrupt", "a#1")] if interrupt and status == "accepted" else []
    assert far.sent == [(messages.guidance("x").kind, "a#1"), *also]


# -- forked -----------------------------------------------------------------------------------------------------------

MERGED = r.TreeMerged(status="merged", path="/w", branch="b")
CLEARED = r.TreeCleared(path="/w", branch="b")
NOTIFIED = r.RunNotified(status="completed")
CLOSING = {
    "none": ([], 2),
    "notified": ([NOTIFIED], 2),
    "all": ([MERGED, CLEARED, NOTIFIED], 2),
    "notified before": ([NOTIFIED, r.RunOwned(epoch=2), NOTIFIED], 4),
}


@pytest.mark.parametrize("closing", CLOSING)
def test_a_fork_of_a_run_that_has_ended_takes_its_own_closing_steps(closing: str) -> None:
    """So it begins before those of the original; a run that has not ended is forked at its end."""
    done, at = CLOSING[closing]
    records = [r.RunStarted(run="r", engine="flow"), r.RunOwned(epoch=1), *done, r.RunFinished(outcome="completed")]
    assert _place("r", records, None) == at
    assert _place("r", records[:-1], None) == len(records) - 1


# -- removed ----------------------------------------------------------------------------------------------------------


def test_a_run_is_removed_once(tmp_path: Path) -> None:
    """The second time it is not there, and a process that prunes at the same time goes on with the others."""
    for run in ("r1", "r2", "r3"):
        place = played(tmp_path / "state", flow("a -> b"), run, Cast({}, seconds=0))
    pruning = prune(tmp_path / "state", time.time() + 60)
    found = [next(pruning)]
    other = next(run for run in place.runs.list() if run != found[0][0])
    remove(place.runs, other)
    with pytest.raises(NoSuchRun, match=other):
        remove(place.runs, other)

    found += pruning
    assert sorted(found) == [(run, "") for run in ("r1", "r2", "r3") if run != other]
    assert place.runs.list() == []


@pytest.mark.parametrize("elsewhere", [False, True])
def test_snapshots_of_another_run_with_the_same_id_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    """They are in one repository by the id alone."""
    gone: list[str] = []
    monkeypatch.setattr(removal, "_repository", lambda *run: "the repository")
    monkeypatch.setattr(removal, "forget", lambda repository, run: gone.append(run))
    place = played(tmp_path / "state", flow("a -> b"), "r1", Cast({}, seconds=0))
    if elsewhere:
        other = played(tmp_path / "other", flow("a -> b"), "r1", Cast({}, seconds=0))
        assert index.is_shared("r1")
    remove(place.runs, "r1")
    assert gone == ([] if elsewhere else ["r1"])
    if elsewhere:
        remove(other.runs, "r1")
        assert gone == ["r1"]


# -- looked at --------------------------------------------------------------------------------------------------------


def test_a_run_that_is_driven_has_worked_until_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks its time grows; that of a run at rest does not."""
    place = played(tmp_path / "state", ASKS)

    def worked() -> float:
        [found] = statistics.newest(LocalRuns(tmp_path / "state"), 9)
        return found.seconds

    async def main() -> None:
        writer = JsonlStore(tmp_path / "state").claim("r1")
        last = [*place.runs.read("r1")][-1]
        monkeypatch.setattr(statistics, "SystemClock", lambda: SimpleNamespace(now=lambda: last.at + 3600))
        owned = r.RunOwned(seq=last.seq + 1, at=last.at, epoch=2)
        await writer.durable(writer.append([owned]))
        assert worked() - at_rest == pytest.approx(3600)
        await writer.close()

    at_rest = worked()
    assert at_rest < 60
    asyncio.run(main())


@pytest.mark.parametrize(
    ("status", "reason", "again"),
    [
        ("stopped", "waiting", False),
        ("stopped", "max_turns", True),
        ("failed", "waiting", True),
        ("completed", "", True),
    ],
)
def test_a_stop_for_a_person_is_no_further_message(tmp_path: Path, status: str, reason: str, again: bool) -> None:
    """That about the question was sent; each other end and stop is."""
    closing = LocalFinalizers(tmp_path, "r1", tmp_path, Channels(desktop=True))
    ended = RunExit(run="r1", status=status, reason=reason)
    assert (closing.step(flow("a -> b"), [], ended) is not None) is again
    assert closing.step(flow("a -> b"), [NOTIFIED], ended) is None


@pytest.mark.parametrize(
    ("status", "reason", "event", "what", "answer"),
    [
        ("completed", "", "end", "run r1 completed", ""),
        ("failed", "b failed", "end", "run r1 failed: b failed", "coterie inspect r1"),
        ("stopped", "limit", "end", "run r1 stopped: limit", "coterie resume r1"),
        ("stopped", f"{QUOTA} until noon", "quota", f"stopped: {QUOTA} until", "coterie resume --when-open r1"),
        ("failed", f"{QUOTA} until noon", "end", f"failed: {QUOTA} until", "coterie inspect r1"),
    ],
    ids=["completed", "failed", "stopped", "quota", "failed by quota"],
)
def test_the_message_of_an_end_has_the_line_that_goes_on(
    tmp_path: Path, status: str, reason: str, event: str, what: str, answer: str
) -> None:
    """A quota is waited for; a completed run needs nothing."""
    ended = RunExit(run="r1", status=status, reason=reason)
    found = finalizers.message(flow("a -> b"), RunPlace(), ended, tmp_path, None)
    assert (found["event"], what in found["what"], found["answer"]) == (event, True, answer)


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (RunExit(run="r", status="completed"), 0),
        (RunExit(run="r", status="completed", unread=("a#1",)), 1),
        (RunExit(run="r", status="failed"), 1),
        (RunExit(run="r", status="failed", reason="waiting"), 1),
        (RunExit(run="r", status="stopped", reason="waiting"), 4),
        (RunExit(run="r", status="stopped", reason="interrupted"), 130),
        (RunExit(run="r", status="stopped", reason="stuck"), 1),
        (RunExit(run="r", status="stopped", reason="max_turns"), 3),
    ],
    ids=[
        "completed",
        "a condition read nothing",
        "failed",
        "failed by a question",
        "waiting",
        "interrupted",
        "stuck",
        "limit",
    ],
)
def test_each_end_has_its_exit_status(ended: RunExit, status: int) -> None:
    """A flow that ended because a condition read nothing did not do what it was to."""
    assert exit_of(ended) == status


def test_what_closing_steps_left_or_removed_is_said(tmp_path: Path) -> None:
    """What stays of a work tree and why, what went with it, and a command that failed; nothing of what went well."""
    said = [
        r.TreeCleared(path="/w", branch="b"),
        r.TreeCleared(path="/w", branch="b", problem="it is in use"),
        r.TreeCleared(path="/w", branch="b", ignored="build/ and 2 more"),
        r.RunNotified(status="completed"),
        r.RunNotified(status="completed", problem="`hook` ended with status 1"),
    ]
    assert list(finalizers.notices(tmp_path, "r1", said, tmp_path)) == [
        "the work tree /w stays: it is in use",
        "with the work tree these ignored files were removed: build/ and 2 more",
        "notify.command: `hook` ended with status 1",
    ]


@pytest.mark.parametrize(("state_dir", "project"), [(".coterie", "."), (".autoloop", "."), ("kept", "kept")])
def test_a_state_directory_belongs_to_the_project_around_it(tmp_path: Path, state_dir: str, project: str) -> None:
    """If it has one of the usual names; any other is a place of its own."""
    (place := tmp_path / state_dir / "runs").mkdir(parents=True)
    assert index.project_of(place.parent) == tmp_path / project
    if state_dir != ".autoloop":  # of a project the other one is meant
        assert index.state_dir_of(index.project_of(place.parent)) == place.parent
