"""Provisional verdicts on messages to a run without an owner, from a fold of its journal; nothing is changed.

The next owner decides, with the same functions.
"""

from collections.abc import Iterator

import msgspec

from coterie.base import files
from coterie.base.ids import child_run_id
from coterie.execution.kernel.commands import NextAttempt, Turn, refusal
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.prompts import decisions, how_to_decide, said_with
from coterie.execution.kinds import Kind, kind_of
from coterie.execution.runs.messages import LARGEST, WAITS, RunMessage, Verdict
from coterie.execution.runs.messages.tokens import Tokens
from coterie.execution.runs.messages.verdicts import addressed, not_asking, sender_of, unknown_outputs
from coterie.execution.runs.note_files import NoteFiles
from coterie.execution.runs.repository import Runs
from coterie.history.engines.commands import Emit, Reply
from coterie.history.journal.records import AttemptFailed
from coterie.team.formats.bounds import decode_json

PROVISIONAL = f"provisional: no process is running it; {WAITS}"


def verdict(runs: Runs, run: str, said: RunMessage) -> Verdict:
    """The verdict that the root run *run* would give on the emit *said*, whose attempt may have outlived its owner.

    If no owner could ever accept it, because its attempt is over, it is removed from the inbox.

    Raises:
        JournalUnreadable, ReplayMismatch: If the run cannot be folded.
    """
    if said.attempt and (problem := sender_of(said, run, Tokens.of(runs.folder(run))).problem):
        return Verdict(status="refused", detail=f"{problem}\n({PROVISIONAL})")
    below, _, turn = said.turn.rpartition("/")
    found = _fold(runs, f"{run}/{below}" if below else run)
    if found is None or not found[0].counts(turn, said.attempt, said.epoch):
        (runs.inbox(run) / f"{said.id}.json").unlink(missing_ok=True)
        over = f"attempt {turn}.{said.attempt} is over (stale)"
        return Verdict(
            status="refused", detail=over if turn else "an event must belong to a turn, and no turn is running"
        )
    if refused := _refused(*found, runs, turn, said):
        return Verdict(status="refused", detail=f"{refused}\n({PROVISIONAL})")
    return Verdict(status="accepted", detail=f"({PROVISIONAL})")  # its gates, if any, run then


def unusable(runs: Runs, run: str, message: RunMessage) -> str:
    """Why the next owner of the root run *run* cannot use the answer *message*; empty if it may be usable.

    This is checked only for a run that waits for people and has only answers in its inbox. An unusable answer is
    removed from the inbox; the first of two answers to one turn counts.

    Raises:
        JournalUnreadable, ReplayMismatch: If the run cannot be folded.
    """
    inbox = runs.inbox(run)
    try:
        waiting = [decode_json(files.read(path, LARGEST), RunMessage) for path in sorted(inbox.glob("*.json"))]
    except (OSError, ValueError, RecursionError):
        return ""  # the owner judges
    if runs.status(run) != "stopped: waiting" or any(one.kind != "answer" for one in waiting):
        return ""
    questions = dict(_questions(runs, run))
    # What an agent sends to a run that it began waits under the agent's name, which *message* does not have.
    others = [one for one in waiting if msgspec.structs.replace(one.content, by="") != message.content]
    earlier = {addressed(one.turn, questions) for one in others}
    name = addressed(message.turn, questions)
    if name in earlier:
        why = f"{name} has an answer already; it waits in the inbox for `coterie resume {run}`"
    elif name in questions:
        why = _judged(*questions[name], message)
    elif earlier and _may_start(runs, run, name):
        return ""
    else:
        why = not_asking(run, message.turn, questions)
    if why:
        (inbox / f"{message.id}.json").unlink(missing_ok=True)
    return why


def _questions(runs: Runs, run: str) -> Iterator[tuple[str, tuple[Fold, Turn]]]:
    """The turns of *run* and its child runs, by address, that wait for a human's answer or decision to retry."""
    if (found := _fold(runs, run)) is None:
        return
    for turn in found[0].turns.values():
        if turn.status != "ended":
            below = list(_questions(runs, child_run_id(run, turn.ask.turn, turn.attempt)))
            yield from below or [("/".join([*run.split("/")[1:], turn.ask.turn]), (found[0], turn))]


def _may_start(runs: Runs, run: str, name: str) -> bool:
    """Whether an earlier answer in the inbox may start the turn with the address *name*."""
    below, _, turn = name.rpartition("/")
    found = _fold(runs, f"{run}/{below}" if below else run)
    return found is None or (turn not in found[0].turns and turn.rpartition("#")[0] in found[0].agents)


def _judged(fold: Fold, turn: Turn, message: RunMessage) -> str:
    """The problem with *message* as the answer for *turn*."""
    if fold.kind(turn.ask.agent) != "human":  # it was interrupted, and a human decides whether it is retried
        parked = fold.parked_for(turn.ask.turn)
        unknown = (said_with(message.text)[0] if parked else message.text.strip()) not in decisions(parked)
        again = any(
            isinstance(one, NextAttempt) and one.turn == turn.ask.turn and one.ask for one in fold.todo.values()
        )
        return f"{how_to_decide(turn.ask.turn, parked)} (not {message.text!r})" if again and unknown else ""
    if problem := unknown_outputs(fold, turn, message):
        return problem
    reply = Reply(turn=turn.ask.turn, attempt=turn.attempt, text=message.text, outputs=message.outputs)
    judged = fold.engine.judge(reply)
    return judged.reason if isinstance(judged, AttemptFailed) else ""


def _refused(fold: Fold, kind: Kind, runs: Runs, turn: str, said: RunMessage) -> str:
    if not said.event and said.outputs:
        return ""
    emit = Emit(turn=turn, attempt=said.attempt, event=said.event, payload=said.payload)
    if kind.project.needs_open_tasks(emit):
        tasks = NoteFiles(runs).blocking(fold.run, kind.project.notes)
        emit = msgspec.structs.replace(emit, open_tasks=tasks)
    return refusal(fold.engine.judge(emit))


def _fold(runs: Runs, run: str) -> tuple[Fold, Kind] | None:
    """The fold of *run*, and its kind; None if it has no journal."""
    if not runs.has(run):
        return None
    journal = runs.journal(run)
    kind = kind_of(journal.plan())
    fold = Fold(run, kind)
    fold.fold(journal.records)
    return fold, kind
