"""The details of one turn; its prompt is rendered again from the journal."""

from collections.abc import Collection, Container, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from coterie.agents.backends.base import Tool
from coterie.agents.workspace.base import Workspace
from coterie.agents.workspace.trees.workspace import read_below
from coterie.base.ids import child_run_id
from coterie.errors import NoSuchTurn
from coterie.execution.kernel.commands import Gather, NextAttempt, Part, Turn
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.prompts import gather, outside, parts_of, tail_of
from coterie.execution.kinds import Kind, kind_of
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.note_files import NoteFiles
from coterie.execution.runs.repository import Runs
from coterie.history.engines.commands import Ask
from coterie.history.journal.codec import text_hash
from coterie.history.journal.records import AttemptSession, GateChecked, PlanReloaded, RunReopened, TurnStarted
from coterie.history.journal.rules import root_of
from coterie.history.journal.runs import Journal
from coterie.history.views.run import TurnView, fold
from coterie.history.views.tree import notes_of
from coterie.history.views.why import Reason
from coterie.history.views.why import fold as explain
from coterie.team.planning.plan import Plan

T = TypeVar("T")
CAUSES = 100
"""How many turns the causes of a turn list; `coterie inspect RUN why T` lists all."""


class TurnPrompt(Struct, frozen=True, kw_only=True):
    """The prompt of an attempt.

    Attributes:
        same: Whether it is exactly the prompt that was sent. If that was not kept, files that an agent reads and the
            memory of a loop may have changed since.
        parts: The origins of its text; empty if only the whole text is known.
    """

    turn: str
    attempt: int
    prompt: str
    same: bool
    parts: tuple[Part, ...] = ()


class UsedTool(Struct, kw_only=True):
    """A tool that an attempt used; see `coterie.agents.backends.base.Tool`."""

    attempt: int
    id: str
    name: str
    state: str
    detail: str
    result: str


class ReadOutput(Struct, frozen=True, kw_only=True):
    """A condition that reads an output of the turn's node. *held*: None if the output had no value."""

    output: str
    arrow: str
    condition: str
    held: bool | None


class TurnDetail(Struct, frozen=True, kw_only=True):
    """All known facts about one turn.

    Attributes:
        view: Its state, its attempts and its answer.
        question: The prompt of its latest attempt.
        child: The child run of its latest attempt, if it has one.
        run_started: When its run began.
        read_by: The conditions of the flow that read its outputs.
        session: The agent's session in its latest attempt; empty without one.
        causes: Why it ran, the nearest cause first.
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
        """The gates that ran on its reply or emits."""
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
            "attempts": [
                msgspec.structs.asdict(one) | {"usage": msgspec.structs.asdict(one.usage)} for one in found.attempts
            ],
            "notes": notes_of(found),
            "prompt": question.prompt,
            "prompt_is_exact": question.same,
            "parts": [msgspec.structs.asdict(part) for part in question.parts],
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
        ReplayMismatch: If the present engine disagrees with the journal.
    """
    facts = _Facts(runs, runs.journal(run), (turn,))
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
    """Every turn of *run*, in the order in which the latest attempts began; the journal is folded once.

    Raises:
        NoSuchRun, JournalUnreadable: If the run cannot be read.
        ReplayMismatch: If the present engine disagrees with the journal.
    """
    journal = runs.journal(run)
    facts = _Facts(runs, journal)
    for question in _prompts(journal, runs, facts.cwd):
        if (found := facts.view.turn(question.turn)) is not None:
            yield facts.detail(found, question)


def prompts(runs: Runs, run: str, turns: Collection[str]) -> dict[str, str]:
    """The prompts of the latest attempts of *turns*; the journal is folded once.

    Raises:
        NoSuchRun, JournalUnreadable: If the run cannot be read.
        ReplayMismatch: If the present engine disagrees with the journal.
    """
    cwd = Path(runs.first(root_of(run)).cwd or ".")
    return {one.turn: one.prompt for one in _prompts(runs.journal(run), runs, cwd, turns)}


def _prompts(journal: Journal, runs: Runs, cwd: Path, turns: Collection[str] | None = None) -> Iterator[TurnPrompt]:
    """The prompt of each turn, or of *turns*, in the order in which the latest attempts began."""
    folders, kind = AttemptFolders(runs), kind_of(journal.plan(1))
    starts = (one for one in journal.records if isinstance(one, TurnStarted) and (turns is None or one.turn in turns))
    latest = {record.turn: record.seq for record in starts}
    before = Fold(journal.run, kind)
    for record in journal.records:
        if isinstance(record, TurnStarted) and latest.get(record.turn) == record.seq and record.cause is not None:
            parts = _parts_after(before, record, kind, runs, cwd)
            kept, rendered = folders.kept_question(journal.run, record.turn, record.attempt), _joined(parts)
            prompt = kept if kept and text_hash(kept) == record.prompt else rendered
            same = text_hash(prompt) == record.prompt
            parts = parts if rendered == prompt else ()
            yield TurnPrompt(turn=record.turn, attempt=record.attempt, prompt=prompt, same=same, parts=parts)
        if isinstance(record, PlanReloaded | RunReopened):  # earlier records count differently
            kind = kind_of(journal.plan(record.seq))
            before = Fold(journal.run, kind)
            before.fold(journal.records[: record.seq])
        else:
            before.apply(record)


class _Facts:
    """The data for the details of all turns of a run."""

    def __init__(self, runs: Runs, journal: Journal, answers: Container[str] | None = None) -> None:
        self._runs, self.journal = runs, journal
        self.view = fold(journal.records, answers)
        self.cwd = Path(self.view.cwd or ".")
        self._plan, self._reasons = journal.plan_now(), explain(journal.records)
        self._sessions = {one.turn: one.session for one in journal.records if isinstance(one, AttemptSession)}

    def detail(self, found: TurnView, question: TurnPrompt) -> TurnDetail:
        """The details of the turn *found*."""
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
            held = when.compares(turn.outputs[when.field]) if when.field in turn.outputs else None
            yield ReadOutput(output=when.field, arrow=str(group), condition=str(when), held=held)


def _tools(runs: Runs, mark: str) -> list[UsedTool]:
    """The tools that an attempt used, from its stored output."""
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
    """The prompt of the latest attempt of *turn* in the run of *journal*, possibly a child run.

    Raises:
        NoSuchTurn: If the turn never started there.
        ReplayMismatch: If the present engine disagrees with the journal.
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
    """The record that began the latest attempt of *turn*."""
    starts = [record for record in journal.records if isinstance(record, TurnStarted)]
    start = next((record for record in reversed(starts) if record.turn == turn), None)
    if start is None or start.cause is None:
        raise NoSuchTurn(journal.run, turn, dict.fromkeys(record.turn for record in starts))
    return start


def _parts(journal: Journal, start: TurnStarted, runs: Runs | None, cwd: Path) -> tuple[Part, ...]:
    """The prompt of the attempt that *start* began, rendered again."""
    kind = kind_of(journal.plan(start.seq))
    before = Fold(journal.run, kind)
    before.fold(journal.records[: start.seq - 1])
    return _parts_after(before, start, kind, runs, cwd)


def _parts_after(before: Fold, start: TurnStarted, kind: Kind, runs: Runs | None, cwd: Path) -> tuple[Part, ...]:
    """The prompt after the records in *before*, which precede *start*."""
    asked = _turn(before, start)
    asked.used = start.used
    if not start.used and runs is not None and (names := outside(before, asked)):
        wanted = Gather(
            turn=start.turn, attempt=start.attempt, names=names
        )  # from an earlier version of Coterie: read as they are now
        reading = gather(wanted, before.run, kind.project.notes, AttemptFolders(runs), NoteFiles(runs), _Folder(cwd))
        asked.used = _at_once(reading)
    return tuple(parts_of(before, asked, tail_of(before, asked)))


def _joined(parts: tuple[Part, ...]) -> str:
    return "\n\n".join(part.text for part in parts)


class _Folder(Workspace):
    """The files below a folder."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd

    async def read(self, name: str) -> str | None:
        return read_below(self._cwd, name)


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run *work*, which does not wait for anything, and return its result."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("files on disk are read without waiting")


def _turn(fold: Fold, start: TurnStarted) -> Turn:
    """The state of the turn when *start* was about to be written."""
    assert start.cause is not None
    match fold.todo[start.cause]:
        case Ask() as ask:
            return Turn(ask=ask, attempt=1, resumes=start.session)
        case NextAttempt() as again:
            known = fold.turns[again.turn]
            return msgspec.structs.replace(known, attempt=again.attempt, resumes=start.session)
        case other:
            raise AssertionError(f"{other} starts no turn")
