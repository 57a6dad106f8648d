"""A fork shares the first records of a run, goes on by itself, and leaves the original as it is."""

import asyncio
import errno
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from random_flows import random_flow_plan
from sampled import sampled

from coterie.agents.backends.base import (
    NO_ABILITIES,
    Abilities,
    Answer,
    AttemptRef,
    Launched,
    OnEvent,
    Request,
    Text,
    Unknown,
)
from coterie.base.clock import SystemClock, VirtualClock
from coterie.errors import JournalFailed, NoSuchRun, ReplayMismatch, UsageError
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.turns import CompletedSession
from coterie.execution.kinds import kind_of
from coterie.execution.runs import index, launch, run_copy
from coterie.execution.runs.fork import PARTS, Forked, fork
from coterie.execution.runs.outcome import EXIT_WAITING, Outcome
from coterie.execution.runs.replay import replay
from coterie.execution.runs.repository import Runs
from coterie.history.journal import commits, lines
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import (
    AttemptInterrupted,
    AttemptLaunched,
    PlanReloaded,
    Record,
    RunStarted,
    RunStopped,
    TurnFinished,
    TurnStarted,
)
from coterie.history.views.timeline import sentence
from coterie.team.planning.plan import AgentPlan, FlowPlan, Limits, Plan, Wanted
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import ArrowGroup

AGAIN = Condition("critic", "verdict", Operator.EQ, "revise")


def chain(*names: str) -> tuple[ArrowGroup, ...]:
    return tuple(ArrowGroup(source=a, targets=(b,)) for a, b in pairwise(names))


def plan(name: str, agents: Sequence[AgentPlan], groups: tuple[ArrowGroup, ...]) -> Plan:
    mentions = tuple(dict.fromkeys(one for group in groups for one in (group.source, *group.targets)))
    return Plan(
        name=name, agents={one.name: one for one in agents}, coordination=FlowPlan(mentions=mentions, groups=groups)
    )


INNER = plan(
    "inner",
    [AgentPlan(name="draft"), AgentPlan(name="critic", outputs=(Wanted(name="verdict"),)), AgentPlan(name="polish")],
    (
        *chain("draft", "critic", "polish"),
        ArrowGroup(source="critic", targets=("draft",), when=AGAIN, max=1),
    ),
)
TEAM = plan(
    "team",
    [
        AgentPlan(name="ask"),
        AgentPlan(name="inner", kind="topology", child=INNER),
        AgentPlan(name="side", retry=1),
        AgentPlan(name="tell"),
    ],
    (ArrowGroup(source="ask", targets=("inner", "side")), *chain("inner", "tell"), *chain("side", "tell")),
)


@dataclass
class Actors:
    """Answer at once, and write down who was started. Whoever is in *silent* never answers."""

    silent: frozenset[str] = frozenset()
    started: list[tuple[str, str, int]] = field(default_factory=list)
    hangs: asyncio.Event = field(default_factory=asyncio.Event)
    prompts: dict[str, str] = field(default_factory=dict)

    async def start(self, request: Request, on_event: OnEvent) -> Any:
        self.started.append((request.run, request.turn, request.attempt))
        self.prompts[request.turn] = request.prompt
        on_event(Launched(pid=1, group=1, started="1"))
        on_event(Text(text=f"{request.turn} speaks"))
        if request.agent.name in self.silent:
            self.hangs.set()
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(0)
        verdict = "revise" if request.turn == "critic#1" else "approve"
        return CompletedSession(
            Answer(text=f"by {request.turn}", outputs={"verdict": verdict} if request.agent.outputs else None)
        )

    def uses_context(self, agent: AgentPlan) -> bool:
        return False

    def abilities(self, agent: AgentPlan) -> Abilities:
        return NO_ABILITIES

    async def find(self, request: Request, on_event: OnEvent) -> Unknown:
        return Unknown()

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        self.reaped = list(launched)

    async def close(self) -> None:
        return None


def start(state: Path, team: Plan = TEAM, run: str = "first", **options: Any) -> Actors:
    actors = Actors(options.pop("silent", frozenset()))

    async def main() -> None:
        task = asyncio.ensure_future(
            launch.start(team, {"prompt": "x"}, state_dir=state, run_id=run, turns=actors, **options)
        )
        if not actors.silent:
            await task
            return
        await actors.hangs.wait()
        task.cancel()
        await task

    asyncio.run(main())
    return actors


def resume(state: Path, run: str) -> tuple[Outcome, Actors]:
    actors = Actors()
    return asyncio.run(launch.resume(run, state_dir=state, turns=actors)), actors


def records(state: Path, run: str) -> list[Record]:
    return list(JsonlStore(state).read(run))


def fingerprint(folder: Path) -> dict[str, str]:
    """What every file below *folder* holds."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def as_history(record: Record) -> Record:
    match record:
        case AttemptLaunched():
            return replace(record, started="")
        case RunStarted():
            return replace(record, run="", parent="", forked_from=None)
    return record


def finished(state: Path, run: str) -> set[tuple[str, str]]:
    """The turns with a result, each with its run below the root."""
    found = Runs(state).history(run)
    return {(one.partition("/")[2], record.turn) for one, record in found if isinstance(record, TurnFinished)}


def test_a_run_can_be_forked_at_every_record(tmp_path: Path) -> None:
    """The fork completes; it shares what stood there, does nothing again that was finished, and replays."""
    start(tmp_path)
    original = records(tmp_path, "first")
    before = fingerprint(tmp_path / "runs" / "first")
    whole = finished(tmp_path, "first")

    for seq in range(1, len(original)):
        made = fork("first", state_dir=tmp_path, at=seq, run_id=f"fork-{seq}")
        shared = records(tmp_path, made.run)[:seq]
        assert [*map(as_history, shared)] == [*map(as_history, original[:seq])]
        assert (shared[0].forked_from.run, shared[0].forked_from.seq) == ("first", seq)  # type: ignore[attr-defined]
        done = finished(tmp_path, made.run)
        outcome, actors = resume(tmp_path, made.run)

        assert outcome.status == "completed"
        assert outcome.result == original[-1].result  # type: ignore[attr-defined]
        ran = {(run.partition("/")[2], turn) for run, turn, _ in actors.started}
        assert not ran & done
        assert ran | done | {("", "inner#1")} == finished(tmp_path, made.run) == whole
        assert replay(made.run, state_dir=tmp_path).left == ()

    assert fingerprint(tmp_path / "runs" / "first") == before
    assert not (tmp_path / PARTS).exists()


@sampled(12, 100, seed=st.integers(0, 2000), part=st.floats(0, 1))
def test_any_flow_can_be_forked_anywhere(seed: int, part: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nested ones and failing ones too: the fork ends, repeats nothing that was finished, and replays."""
    state, team = tmp_path_factory.mktemp("state"), random_flow_plan(seed)
    start(state, team)
    length = len(records(state, "first"))
    made = fork("first", state_dir=state, at=max(1, round(part * (length - 1))))
    done = finished(state, made.run)
    outcome, actors = resume(state, made.run)

    assert outcome.status == records(state, "first")[-1].outcome  # type: ignore[attr-defined]
    assert not done & {(run.partition("/")[2], turn) for run, turn, _ in actors.started}
    assert done <= finished(state, made.run)
    assert replay(made.run, state_dir=state).left == ()


def test_a_child_run_comes_along_as_far_as_it_had_come(tmp_path: Path) -> None:
    """Whole when its turn had ended; else what it had done before the record's time, and goes on from there."""
    start(tmp_path)
    original = records(tmp_path, "first")
    child = records(tmp_path, "first/inner#1.1")
    over = next(one.seq for one in original if isinstance(one, TurnFinished) and one.turn == "inner#1")

    fork("first", state_dir=tmp_path, at=over, run_id="after")
    assert [*map(as_history, records(tmp_path, "after/inner#1.1"))] == [*map(as_history, child)]
    assert records(tmp_path, "after/inner#1.1")[0].run == "after/inner#1.1"  # type: ignore[attr-defined]
    assert records(tmp_path, "after/inner#1.1")[0].parent == "after"  # type: ignore[attr-defined]

    began = next(one.seq for one in original if isinstance(one, TurnStarted) and one.turn == "inner#1")
    made = fork("first", state_dir=tmp_path, at=began, run_id="before")
    with pytest.raises(NoSuchRun):
        records(tmp_path, "before/inner#1.1")
    assert "inner#1" in made.again

    side = next(one for one in original if isinstance(one, TurnFinished) and one.turn == "side#1")
    fork("first", state_dir=tmp_path, at=side.seq, run_id="between")
    had = [one for one in child if one.at < side.at]
    try:
        shared = records(tmp_path, "between/inner#1.1")[: len(had)]
    except NoSuchRun:
        shared = []
    assert [*map(as_history, shared)] == [*map(as_history, had)]


class Standing(SystemClock):
    """A clock that stands still."""

    def now(self) -> float:
        return 1000.0


def test_a_child_run_whose_turn_had_ended_comes_along_whole_however_coarse_the_clock(tmp_path: Path) -> None:
    """All records bear one time; what counts is that the turn had ended."""
    start(tmp_path, clock=Standing())
    original = records(tmp_path, "first")
    over = next(one.seq for one in original if isinstance(one, TurnFinished) and one.turn == "inner#1")
    made = fork("first", state_dir=tmp_path, at=over)

    assert len(records(tmp_path, f"{made.run}/inner#1.1")) == len(records(tmp_path, "first/inner#1.1"))


def test_what_was_under_way_in_a_child_run_is_asked_again_too(tmp_path: Path) -> None:
    """Here the owner was killed: nothing was written behind the attempt that ran."""
    start(tmp_path, silent=frozenset({"polish"}))
    for run in ("first", "first/inner#1.1"):
        journal = JsonlStore(tmp_path).folder(run) / "journal.jsonl"
        lines = journal.read_text().splitlines(keepends=True)
        journal.write_text("".join(line for line in lines if '"reason":"interrupted"' not in line))
    made = fork("first", state_dir=tmp_path)

    assert made.again == ("inner#1.1/polish#1",)
    cuts = [one for one in records(tmp_path, f"{made.run}/inner#1.1") if isinstance(one, AttemptInterrupted)]
    assert [one.reason for one in cuts] == ["forked"]
    outcome, actors = resume(tmp_path, made.run)
    assert outcome.status == "completed"
    assert [turn for _, turn, _ in actors.started] == ["polish#1", "tell#1"]


def test_a_stopped_run_forked_at_its_end_takes_its_child_runs_as_they_are(tmp_path: Path) -> None:
    """Nothing of what was finished in them is done again; what was under way is told that it was cut off."""
    start(tmp_path, silent=frozenset({"polish"}))
    done = finished(tmp_path, "first")
    assert ("inner#1.1", "critic#2") in done

    made = fork("first", state_dir=tmp_path)
    outcome, actors = resume(tmp_path, made.run)

    assert outcome.status == "completed"
    assert [turn for _, turn, _ in actors.started] == ["polish#1", "tell#1"]
    assert "An earlier attempt was interrupted" in actors.prompts["polish#1"]


def test_what_was_under_way_is_asked_again_and_told_so(tmp_path: Path) -> None:
    """The attempt belongs to the original: its process is not ended, and what it went on to say is not told."""
    start(tmp_path)
    launched = next(one for one in records(tmp_path, "first") if isinstance(one, AttemptLaunched))
    made = fork("first", state_dir=tmp_path, at=launched.seq)

    assert made.again == ("ask#1",)
    *_, cut, stopped = records(tmp_path, made.run)
    assert cut == AttemptInterrupted(seq=cut.seq, at=cut.at, turn="ask#1", attempt=1, reason="forked")
    assert isinstance(stopped, RunStopped)
    assert not (tmp_path / "runs" / made.run / "turns").exists()

    _, actors = resume(tmp_path, made.run)
    assert [one.started for one in actors.reaped] == [""]
    assert actors.started[0] == (made.run, "ask#1", 2)
    assert "An earlier attempt was interrupted" in actors.prompts["ask#1"]
    assert "ask#1 speaks" not in actors.prompts["ask#1"]


def test_what_an_attempt_left_comes_along_when_it_was_over(tmp_path: Path) -> None:
    """Its stream, and what it put into its folder; what is too large or unreadable is named, in its journal, too."""
    start(tmp_path)
    left = tmp_path / "runs" / "first" / "turns" / "ask#1.1"
    (left / "notes.txt").write_text("kept")
    (left / "link").symlink_to("nowhere")
    os.mkfifo(left / "pipe")
    (left / "sparse").touch()
    os.truncate(left / "sparse", run_copy.LARGEST_FILE + 1)
    for name in ("unreadable", "folder") if os.geteuid() else ():  # root reads everything
        (left / name).mkdir(mode=0) if name == "folder" else (left / name).touch(mode=0)
    made = fork("first", state_dir=tmp_path)

    copied = tmp_path / "runs" / made.run / "turns" / "ask#1.1"
    assert {path.name for path in copied.iterdir()} == {"notes.txt", "link", "stream.jsonl"}
    assert os.readlink(copied / "link") == "nowhere"
    place = "turns/ask#1.1"
    unread = {f"{place}/{name} (it cannot be read)" for name in ("unreadable", "folder") if os.geteuid()}
    assert {*made.left_out} == {f"{place}/sparse (larger than 256 MB)", *unread}
    first = records(tmp_path, made.run)[0]
    assert isinstance(first, RunStarted)
    assert first.forked_from is not None
    assert first.forked_from.left_out == made.left_out
    assert f"without {made.left_out[0]}" in sentence(first)


class Tomorrow(SystemClock):
    """A day later than it is."""

    def now(self) -> float:
        return super().now() + 86400.0


def test_the_time_between_a_record_and_its_fork_is_nobodys(tmp_path: Path) -> None:
    """A loop that may run for an hour would stop at once when it is forked the next day."""
    start(tmp_path)
    made = fork("first", state_dir=tmp_path, at=6, clock=Tomorrow())
    fold = Fold(made.run, kind_of(TEAM))
    fold.fold(records(tmp_path, made.run))

    assert fold.time.seconds < 3600.0
    assert isinstance(records(tmp_path, made.run)[-1], RunStopped)


def test_a_fork_can_be_forked(tmp_path: Path) -> None:
    """It says which run it comes from: the fork, not the first."""
    start(tmp_path)
    once = fork("first", state_dir=tmp_path, at=6)
    resume(tmp_path, once.run)
    twice = fork(once.run, state_dir=tmp_path)
    resume(tmp_path, twice.run)

    first = records(tmp_path, twice.run)[0]
    assert isinstance(first, RunStarted)
    assert first.forked_from is not None
    assert (first.forked_from.run, first.forked_from.seq) == (once.run, twice.seq)
    assert finished(tmp_path, twice.run) == finished(tmp_path, "first")


@settings(max_examples=12)
@given(seed=st.integers(0, 500), turns=st.integers(0, 6))
def test_a_fork_at_the_end_stands_where_the_original_does(
    seed: int, turns: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Without changes: the same results, the same turns, the same left to do."""
    state, team = tmp_path_factory.mktemp("state"), random_flow_plan(seed)
    start(state, team, limits=Limits(max_turns=turns))
    made = fork("first", state_dir=state)

    def folded(run: str) -> Any:
        fold = Fold(run, kind_of(team))
        all_records = records(state, run)
        fold.fold(all_records[: made.seq])
        before = (
            [*map(str, fold.todo.values())],
            {name: (turn.attempt, turn.status, str(turn.retry_count)) for name, turn in fold.turns.items()},
        )
        return before, {agent: result.text for agent, result in fold.latest.items()}, all_records[made.seq :]

    *there, _ = folded("first")
    *here, own = folded(made.run)
    assert there == here
    assert not [one for one in own if not isinstance(one, RunStopped)]


def retries(n: int) -> Any:
    def change(recorded: Plan) -> Plan:
        return replace(recorded, agents={**recorded.agents, "side": replace(recorded.agents["side"], retry=n)})

    return change


def test_a_fork_goes_on_under_the_changed_plan(tmp_path: Path) -> None:
    """It is recorded, and holds from the fork on; a further fork begins with it."""
    start(tmp_path)
    made = fork("first", state_dir=tmp_path, at=4, change=retries(7))
    resume(tmp_path, made.run)

    reloaded = [one for one in records(tmp_path, made.run) if isinstance(one, PlanReloaded)]
    assert [msgspec.json.decode(one.plan)["agents"]["side"]["retry"] for one in reloaded] == [7]
    plans: list[Plan] = []
    fork(made.run, state_dir=tmp_path, change=lambda recorded: plans.append(recorded) or recorded)  # type: ignore[func-returns-value]
    fork(made.run, state_dir=tmp_path, at=3, change=lambda recorded: plans.append(recorded) or recorded)  # type: ignore[func-returns-value]
    assert [one.agents["side"].retry for one in plans] == [7, 1]


def without_way_back(recorded: Plan) -> Plan:
    inner = recorded.agents["inner"].child
    assert inner is not None
    assert inner.coordination is not None
    straight = replace(inner, coordination=replace(inner.coordination, groups=chain("draft", "critic", "polish")))
    return replace(recorded, agents={**recorded.agents, "inner": replace(recorded.agents["inner"], child=straight)})


def test_changes_that_the_shared_records_contradict_are_refused(tmp_path: Path) -> None:
    """The error names the record and where to fork instead; there it works. Nothing is left of the refused one."""
    start(tmp_path)
    with pytest.raises(
        ReplayMismatch, match=r"'first/inner#1.1', record \d+: .* fork the run at (\d+) or earlier"
    ) as told:
        fork("first", state_dir=tmp_path, change=without_way_back)
    assert {path.name for path in tmp_path.iterdir()} == {".gitignore", "runs"}
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["first"]

    earlier = int(str(told.value).split("fork the run at ")[1].split()[0])
    made = fork("first", state_dir=tmp_path, at=earlier, change=without_way_back)
    outcome, actors = resume(tmp_path, made.run)
    assert outcome.status == "completed"
    assert "draft#2" not in [turn for _, turn, _ in actors.started]


def test_a_fork_is_no_crash(tmp_path: Path) -> None:
    """A turn that was cut off by two crashes before is asked again all the same."""
    lone = plan("lone", [AgentPlan(name="a"), AgentPlan(name="b")], chain("a", "b"))
    start(tmp_path, lone, silent=frozenset({"b"}))
    crashed = records(tmp_path, "first")
    begun = next(one.seq for one in crashed if isinstance(one, TurnStarted) and one.turn == "b#1")
    run = "first"
    for _ in range(4):
        made = fork(run, state_dir=tmp_path, at=None if run != "first" else begun)
        assert made.again in (("b#1",), ())
        run = made.run
    outcome, _ = resume(tmp_path, run)
    assert outcome.status == "completed"


def test_who_must_be_asked_before_a_turn_is_repeated_is_asked_in_a_fork_too(tmp_path: Path) -> None:
    """`on-interrupt: ask`: what the attempt does outside may be done by the original."""
    lone = plan("lone", [AgentPlan(name="a", on_interrupt="ask"), AgentPlan(name="b")], chain("a", "b"))
    start(tmp_path, lone)
    outcome, actors = resume(tmp_path, fork("first", state_dir=tmp_path, at=3).run)

    assert outcome.exit == EXIT_WAITING
    assert [one.turn for one in outcome.waiting] == ["a#1"]
    assert actors.started == []


@pytest.mark.parametrize(
    ("run", "at", "told"),
    [
        ("first", 0, "has no record 0 to be forked at: the last one is"),
        ("first", 999, "has no record 999"),
        ("first", -1, "the end of run 'first', nothing follows from it: fork it at"),
        ("first/inner#1.1", None, "fork 'first'"),
    ],
)
def test_where_no_way_goes_on_a_run_is_not_forked(run: str, at: int | None, told: str, tmp_path: Path) -> None:
    """The error says how far it can be forked."""
    start(tmp_path)
    with pytest.raises(UsageError, match=told):
        fork(run, state_dir=tmp_path, at=len(records(tmp_path, "first")) if at == -1 else at)


def test_a_fork_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """The state directory is as before."""
    start(tmp_path)
    (tmp_path / PARTS).write_text("in the way")
    with pytest.raises(JournalFailed):
        fork("first", state_dir=tmp_path)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["first"]


@pytest.mark.parametrize("run", ["copy", "copy/inner#1.1"])
def test_a_fork_whose_journal_cannot_be_synced_is_no_run(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own, or that of a child run: a fork that was reported survives a power cut."""
    start(tmp_path)
    sync, journal = lines.sync_data, Runs(tmp_path / PARTS / "copy").file(run)

    def full(fd: int) -> None:
        if journal.exists() and os.path.samestat(os.fstat(fd), journal.stat()):
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(fd)

    monkeypatch.setattr(commits, "sync_data", full)
    with pytest.raises(JournalFailed, match="No space left"):
        fork("first", state_dir=tmp_path, run_id="copy")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["first"]


def test_a_run_that_is_not_there_cannot_be_forked(tmp_path: Path) -> None:
    """As everywhere."""
    with pytest.raises(NoSuchRun):
        fork("nobody", state_dir=tmp_path)


def test_a_fork_says_what_it_is(tmp_path: Path) -> None:
    """Its origin, the record, and whom it will ask again."""
    start(tmp_path)
    assert fork("first", state_dir=tmp_path, at=2, run_id="second") == Forked(run="second", origin="first", seq=2)


@pytest.mark.parametrize(
    ("run", "seq", "told"),
    [
        ("first", 7, "`coterie fork first --at 6` goes on from the last record on which both agree"),
        ("first/inner#1.1", 7, "`coterie inspect first` shows where to fork it before that child run began"),
        ("first", 1, "the run was decided by another version or plan"),
    ],
)
def test_a_mismatch_names_the_fork_that_goes_on(run: str, seq: int, told: str) -> None:
    """Where there is one: nothing can be forked before its first record."""
    assert str(ReplayMismatch(run, seq, "this", "that")).endswith(told)


def test_forks_are_newer_than_their_origin_also_where_no_index_names_them(tmp_path: Path) -> None:
    """As for an agent, who cannot write the index: `last` is the latest fork, whatever their ids are."""
    start(tmp_path)
    made = [
        fork("first", state_dir=tmp_path, at=3, run_id=run, clock=VirtualClock(9e9 + n)) for n, run in enumerate("cba")
    ]
    index.path().unlink()
    assert [one.run for one in made] == ["c", "b", "a"]
    assert [entry.run for entry in index.newest(tmp_path)] == ["a", "b", "c", "first"]
