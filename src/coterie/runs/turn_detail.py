"""One turn in detail; its prompt is rendered again from the journal."""

from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from coterie.backends.base import Tool
from coterie.engines.commands import Ask
from coterie.errors import NoSuchTurn
from coterie.ids import child_run_id
from coterie.journal.codec import text_hash
from coterie.journal.records import AttemptSession, GateChecked, PlanReloaded, RunReopened, TurnStarted
from coterie.journal.runs import Journal
from coterie.kernel.commands import Gather, NextAttempt, Part, Turn
from coterie.kernel.fold import Fold
from coterie.kernel.prompts import gather, outside, parts_of
from coterie.kinds import Kind, kind_of
from coterie.planning.plan import Plan
from coterie.runs.attempt_folders import AttemptFolders
from coterie.runs.note_files import NoteFiles
from coterie.runs.repository import Runs
from coterie.views.run import TurnView, fold
from coterie.views.tree import notes_of
from coterie.views.why import Reason
from coterie.views.why import fold as explain
from coterie.workspace.base import Workspace
from coterie.workspace.trees.workspace import read_below

T = TypeVar("T")
CAUSES = 100
"""Turns whose part in the causes of a turn is given; `coterie inspect RUN why T` gives all."""


class TurnPrompt(Struct, frozen=True, kw_only=True):
    """The prompt of an attempt.

    Attributes:
        same: Whether it is exactly the prompt that was sent. Where that was not kept, files that an agent reads, and
            the memory of a loop, may have changed since.
        parts: Where its text comes from; empty where only the whole text is known.
    """

    turn: str
    attempt: int
    prompt: str
    same: bool
    parts: tuple[Part, ...] = ()


class UsedTool(Struct, kw_only=True):
    """A tool that an attempt used; see `coterie.backends.base.Tool`."""

    attempt: int
    id: str
    name: str
    state: str
    detail: str
    result: str


class ReadOutput(Struct, frozen=True, kw_only=True):
    """A condition that reads an output of the turn's node. *held*: None without a value of it."""

    output: str
    arrow: str
    condition: str
    held: bool | None


class TurnDetail(Struct, frozen=True, kw_only=True):
    """All that is known of one turn.

    Attributes:
        view: Its state, its attempts and its answer.
        question: The prompt of its latest attempt.
        child: The child run that its latest attempt is, if it is one.
        run_started: When its run began.
        read_by: The conditions of the flow that read its outputs.
        session: The agent's session of its latest attempt; empty without one.
        causes: Why it ran, nearest first.
    """

    run: str
    view: TurnView
    question: TurnPrompt
    child: str | None
    run_started: float
    read_by: tuple[ReadOutput, ...] = ()
    tools: tuple[UsedTool, ...] = ()
    session: str = ""
    causes: tuple[Reason, ...] = ()

    @property
    def gates(self) -> list[GateChecked]:
        """The gates that were run on what it said."""
        return [one for one in self.view.noted if isinstance(one, GateChecked)]

    def data(self) -> dict[str, Any]:
        """The turn as `coterie inspect RUN turn T --json` prints it."""
        found, question = self.view, self.question
        return {
            "run": self.run,
            "turn": found.id,
            "agent": found.agent,
            "state": found.state,
            "reason": found.reason,
            "inputs": found.inputs,
            "started": found.started,
            "finished": found.finished,
            "attempts": [asdict(one) | {"usage": msgspec.structs.asdict(one.usage)} for one in found.attempts],
            "notes": notes_of(found),
            "prompt": question.prompt,
            "prompt_is_exact": question.same,
            "parts": [part._asdict() for part in question.parts],
            "read_by": self.read_by,
            "gates": self.gates,
            "tools": self.tools,
            "session": self.session,
            "causes": self.causes,
            "outputs": found.outputs,
            "text": found.text,
            "usage": msgspec.structs.asdict(found.usage),
            "child": self.child,
        }


def detail(runs: Runs, run: str, turn: str) -> TurnDetail:
    """The prompt, answer and attempts of *turn* of *run*.

    Raises:
        NoSuchRun, JournalUnreadable: If the run cannot be read.
        NoSuchTurn: If the turn never started there.
        ReplayMismatch: If today's engine decides otherwise than the journal says.
    """
    facts = _Facts(runs, runs.journal(run))
    found = facts.view.turn(turn)
    if found is None:
        raise NoSuchTurn(run, turn, [one.id for one in facts.view.turns])
    question = asked(facts.journal, turn, runs, facts.cwd)
    if not question.parts:
        parts = _parts(facts.journal, _start(facts.journal, turn), runs, facts.cwd)
        if _joined(parts) == question.prompt:
            question = msgspec.structs.replace(question, parts=parts)
    return facts.detail(found, question)


def details(runs: Runs, run: str) -> Iterator[TurnDetail]:
    """Every turn of *run*, in the order in which their latest attempts began; its journal is folded once.

    Raises:
        NoSuchRun, JournalUnreadable: If the run cannot be read.
        ReplayMismatch: If today's engine decides otherwise than the journal says.
    """
    journal = runs.journal(run)
    facts, folders, kind = _Facts(runs, journal), AttemptFolders(runs), kind_of(journal.plan(1))
    latest = {record.turn: record.seq for record in journal.records if isinstance(record, TurnStarted)}
    before = Fold(run, kind)
    for record in journal.records:
        if isinstance(record, TurnStarted) and latest[record.turn] == record.seq and record.cause is not None:
            parts = _parts_after(before, record, kind, runs, facts.cwd)
            kept, rendered = folders.kept_question(run, record.turn, record.attempt), _joined(parts)
            prompt = kept if kept and text_hash(kept) == record.prompt else rendered
            same = text_hash(prompt) == record.prompt
            parts = parts if rendered == prompt else ()
            question = TurnPrompt(turn=record.turn, attempt=record.attempt, prompt=prompt, same=same, parts=parts)
            if (found := facts.view.turn(record.turn)) is not None:
                yield facts.detail(found, question)
        if isinstance(record, PlanReloaded | RunReopened):  # what came before it counts otherwise
            kind = kind_of(journal.plan(record.seq))
            before = Fold(run, kind)
            before.fold(journal.records[: record.seq])
        else:
            before.apply(record)


class _Facts:
    """What the details of all turns of a run are made of."""

    def __init__(self, runs: Runs, journal: Journal) -> None:
        self._runs, self.journal = runs, journal
        self.view = fold(journal.records)
        self.cwd = Path(self.view.cwd or ".")
        self._plan, self._reasons = journal.plan_now(), explain(journal.records)
        self._sessions = {one.turn: one.session for one in journal.records if isinstance(one, AttemptSession)}

    def detail(self, found: TurnView, question: TurnPrompt) -> TurnDetail:
        """The detail of the turn *found*."""
        runs, run = self._runs, self.journal.run
        child = child_run_id(run, found.id, found.attempt)
        marks = [child_run_id(run, found.id, attempt.n) for attempt in found.attempts]
        return TurnDetail(
            run=run,
            view=found,
            question=question,
            child=child if runs.has(child) else None,
            run_started=self.view.started or 0.0,
            read_by=tuple(_read_by(self._plan, found)),
            tools=tuple(one for mark in marks for one in _tools(runs, mark)),
            session=self._sessions.get(found.id, ""),
            causes=tuple(self._reasons.explain(found.id, CAUSES)),
        )


def _read_by(plan: Plan, turn: TurnView) -> Iterator[ReadOutput]:
    for group in plan.flow.groups if plan.flow is not None else ():
        when = group.when
        if when is not None and when.agent == turn.agent:
            held = when.holds(turn.outputs[when.field]) if when.field in turn.outputs else None
            yield ReadOutput(output=when.field, arrow=str(group), condition=str(when), held=held)


def _tools(runs: Runs, mark: str) -> list[UsedTool]:
    """The tools that an attempt used, by what is kept of its output."""
    found: dict[str, UsedTool] = {}
    for line in runs.printed(mark, 0).splitlines():
        if b'"tool"' not in line:
            continue
        with suppress(msgspec.DecodeError):
            tool = msgspec.json.decode(line, type=Tool)
            key = tool.id or f"{len(found)} {tool.name}"
            if (known := found.get(key)) is None:
                known = found[key] = UsedTool(
                    attempt=int(mark.rpartition(".")[2]), id=tool.id, name=tool.name, state="", detail="", result=""
                )
            known.state, known.detail = tool.state, tool.detail or known.detail
            known.result = tool.result or known.result
    return list(found.values())


def asked(journal: Journal, turn: str, runs: Runs | None = None, cwd: Path = Path()) -> TurnPrompt:
    """The prompt of the latest attempt of *turn* in the run of *journal*, which may be a child run.

    Raises:
        NoSuchTurn: If the turn never started there.
        ReplayMismatch: If today's engine decides otherwise than the journal says.
    """
    start = _start(journal, turn)
    kept = AttemptFolders(runs).kept_question(journal.run, turn, start.attempt) if runs is not None else ""
    if kept and text_hash(kept) == start.prompt:
        return TurnPrompt(turn=turn, attempt=start.attempt, prompt=kept, same=True)
    parts = _parts(journal, start, runs, cwd)
    prompt = _joined(parts)
    return TurnPrompt(
        turn=turn, attempt=start.attempt, prompt=prompt, same=text_hash(prompt) == start.prompt, parts=parts
    )


def _start(journal: Journal, turn: str) -> TurnStarted:
    """The record with which the latest attempt of *turn* began."""
    starts = [record for record in journal.records if isinstance(record, TurnStarted)]
    start = next((record for record in reversed(starts) if record.turn == turn), None)
    if start is None or start.cause is None:
        raise NoSuchTurn(journal.run, turn, dict.fromkeys(record.turn for record in starts))
    return start


def _parts(journal: Journal, start: TurnStarted, runs: Runs | None, cwd: Path) -> tuple[Part, ...]:
    """The prompt of the attempt that *start* began, rendered again."""
    kind = kind_of(journal.plan(start.seq))
    before = Fold(journal.run, kind)
    before.fold(record for record in journal.records if record.seq < start.seq)
    return _parts_after(before, start, kind, runs, cwd)


def _parts_after(before: Fold, start: TurnStarted, kind: Kind, runs: Runs | None, cwd: Path) -> tuple[Part, ...]:
    """The same after the records in *before*, which are those before *start*."""
    asked = _turn(before, start)
    asked.used = start.used
    if not start.used and runs is not None and (names := outside(before, asked)):
        wanted = Gather(turn=start.turn, attempt=start.attempt, names=names)  # of an earlier coterie: as they are today
        reading = gather(wanted, before.run, kind.notes, AttemptFolders(runs), NoteFiles(runs), _Folder(cwd))
        asked.used = _at_once(reading)
    return tuple(parts_of(before, asked))


def _joined(parts: tuple[Part, ...]) -> str:
    return "\n\n".join(part.text for part in parts)


class _Folder(Workspace):
    """The files below a folder."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd

    async def read(self, name: str) -> str | None:
        return read_below(self._cwd, name)


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of *work*, which does not wait for anything."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("files on disk are read without waiting")


def _turn(fold: Fold, start: TurnStarted) -> Turn:
    """The turn as it stood when *start* was about to be written."""
    assert start.cause is not None
    match fold.todo[start.cause]:
        case Ask() as ask:
            return Turn(ask=ask, attempt=1)
        case NextAttempt() as again:
            return msgspec.structs.replace(fold.turns[again.turn], attempt=again.attempt)
        case other:
            raise AssertionError(f"{other} starts no turn")
