"""One turn in detail; its prompt is rendered again from the journal."""

import hashlib
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from coterie.engines.commands import Ask
from coterie.errors import NoSuchTurn
from coterie.ids import child_run_id
from coterie.journal.records import TurnStarted
from coterie.journal.runs import Journal
from coterie.runs.attempt_files import NoAttemptFiles
from coterie.runs.attempt_folders import AttemptFolders
from coterie.runs.commands import Again, Turn
from coterie.runs.fold import Fold
from coterie.runs.kinds import kind_of
from coterie.runs.note_files import NoteFiles
from coterie.runs.notes import NoNotes
from coterie.runs.prompts import render, sources_of
from coterie.runs.repository import Runs
from coterie.runs.trees.workspace import read_below
from coterie.views.run import TurnView, fold


class TurnPrompt(Struct, frozen=True, kw_only=True):
    """A question as it was put.

    Attributes:
        same: Whether it is to the letter what was asked then; where that was not kept, files that an agent reads may
            have changed since, and so may what a loop remembers.
    """

    turn: str
    attempt: int
    prompt: str
    same: bool


class TurnDetail(Struct, frozen=True, kw_only=True):
    """All that is known of one turn.

    Attributes:
        view: Its state, its attempts and its answer.
        question: What its latest attempt was asked.
        child: The child run that its latest attempt is; None if it is none.
        run_started: When its run began.
    """

    run: str
    view: TurnView
    question: TurnPrompt
    child: str | None
    run_started: float


def detail(runs: Runs, run: str, turn: str) -> TurnDetail:
    """What *turn* of *run* was asked, what it answered, and how its attempts went.

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
    """The question of the latest attempt of *turn* in the run of *journal*, which may be a child run.

    Raises:
        NoSuchTurn: If the turn never started there.
        ReplayMismatch: If today's engine decides otherwise than the journal says.
    """
    run = journal.run
    files = AttemptFolders(runs) if runs is not None else NoAttemptFiles()
    notes = NoteFiles(runs) if runs is not None else NoNotes()
    starts = [record for record in journal.records if isinstance(record, TurnStarted)]
    start = next((record for record in reversed(starts) if record.turn == turn), None)
    if start is None or start.cause is None:
        raise NoSuchTurn(run, turn, dict.fromkeys(record.turn for record in starts))
    kept = files.question(run, turn, start.attempt)
    if kept and _digest(kept) == start.prompt:
        return TurnPrompt(turn=turn, attempt=start.attempt, prompt=kept, same=True)
    before = Fold(run, kind_of(journal.plan(start.seq)))
    before.fold(record for record in journal.records if record.seq < start.seq)
    sources = sources_of(run, files, notes, partial(read_below, cwd))
    prompt = render(before, _turn(before, start), sources)
    return TurnPrompt(turn=turn, attempt=start.attempt, prompt=prompt, same=_digest(prompt) == start.prompt)


def _digest(prompt: str) -> str:
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


def _turn(fold: Fold, start: TurnStarted) -> Turn:
    """The turn as it stood when *start* was about to be written."""
    assert start.cause is not None
    match fold.todo[start.cause]:
        case Ask() as ask:
            return Turn(ask=ask, attempt=1)
        case Again() as again:
            return msgspec.structs.replace(fold.turns[again.turn], attempt=again.attempt)
        case other:
            raise AssertionError(f"{other} starts no turn")
