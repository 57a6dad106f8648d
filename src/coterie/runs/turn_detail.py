"""One turn in detail; its prompt is rendered again from the journal."""

import hashlib
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from coterie.engines.commands import Ask
from coterie.errors import NoSuchTurn
from coterie.ids import child_run_id
from coterie.journal.records import TurnStarted
from coterie.journal.runs import Journal
from coterie.kernel.commands import Gather, NextAttempt, Turn
from coterie.kernel.fold import Fold
from coterie.kernel.prompts import gather, outside, render
from coterie.kinds import kind_of
from coterie.runs.attempt_folders import AttemptFolders
from coterie.runs.note_files import NoteFiles
from coterie.runs.repository import Runs
from coterie.views.run import TurnView, fold
from coterie.workspace.base import SharedWorkspace
from coterie.workspace.trees.workspace import read_below

T = TypeVar("T")


class TurnPrompt(Struct, frozen=True, kw_only=True):
    """The prompt of an attempt.

    Attributes:
        same: Whether it is exactly the prompt that was sent. Where that was not kept, files that an agent reads, and
            the memory of a loop, may have changed since.
    """

    turn: str
    attempt: int
    prompt: str
    same: bool


class TurnDetail(Struct, frozen=True, kw_only=True):
    """All that is known of one turn.

    Attributes:
        view: Its state, its attempts and its answer.
        question: The prompt of its latest attempt.
        child: The child run that its latest attempt is, if it is one.
        run_started: When its run began.
    """

    run: str
    view: TurnView
    question: TurnPrompt
    child: str | None
    run_started: float


def detail(runs: Runs, run: str, turn: str) -> TurnDetail:
    """The prompt, answer and attempts of *turn* of *run*.

    Raises:
        NoSuchRun, JournalUnreadable: If the run cannot be read.
        NoSuchTurn: If the turn never started there.
        ReplayMismatch: If today's engine decides otherwise than the journal says.
    """
    journal = runs.journal(run)
    view = fold(journal.records)
    found = view.turn(turn)
    if found is None:
        raise NoSuchTurn(run, turn, [one.id for one in view.turns])
    child = child_run_id(run, turn, found.attempt)
    return TurnDetail(
        run=run,
        view=found,
        question=asked(journal, turn, runs, Path(view.cwd or ".")),
        child=child if runs.has(child) else None,
        run_started=view.started or 0.0,
    )


def asked(journal: Journal, turn: str, runs: Runs | None = None, cwd: Path = Path()) -> TurnPrompt:
    """The prompt of the latest attempt of *turn* in the run of *journal*, which may be a child run.

    Raises:
        NoSuchTurn: If the turn never started there.
        ReplayMismatch: If today's engine decides otherwise than the journal says.
    """
    run = journal.run
    files = AttemptFolders(runs) if runs is not None else None
    starts = [record for record in journal.records if isinstance(record, TurnStarted)]
    start = next((record for record in reversed(starts) if record.turn == turn), None)
    if start is None or start.cause is None:
        raise NoSuchTurn(run, turn, dict.fromkeys(record.turn for record in starts))
    kept = files.kept_question(run, turn, start.attempt) if files is not None else ""
    if kept and _digest(kept) == start.prompt:
        return TurnPrompt(turn=turn, attempt=start.attempt, prompt=kept, same=True)
    kind = kind_of(journal.plan(start.seq))
    before = Fold(run, kind)
    before.fold(record for record in journal.records if record.seq < start.seq)
    asked = _turn(before, start)
    asked.used = start.used
    if not start.used and runs is not None and files is not None and (names := outside(before, asked)):
        wanted = Gather(turn=turn, attempt=start.attempt, names=names)  # of an earlier coterie: as they are today
        workspace = _Folder(cwd)
        reading = gather(wanted, run, kind.notes, files, NoteFiles(runs), workspace)
        asked.used = _at_once(reading)
    prompt = render(before, asked)
    return TurnPrompt(turn=turn, attempt=start.attempt, prompt=prompt, same=_digest(prompt) == start.prompt)


class _Folder(SharedWorkspace):
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


def _digest(prompt: str) -> str:
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


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
