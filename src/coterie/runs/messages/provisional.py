"""The provisional reply to a message of a run without an owner, from a fold of its journal; nothing is changed.

The next owner decides, by the same functions; until then this is the best that can be said.
"""

from collections.abc import Sequence

import msgspec

from coterie import files
from coterie.engines.commands import Emit, Reply
from coterie.formats.bounds import decode_json
from coterie.journal.records import AttemptFailed
from coterie.runs.driver.fold import Fold, refusal
from coterie.runs.kinds import Kind, kind_of
from coterie.runs.messages import WAITS, RunMessage, Verdict
from coterie.runs.messages.inbox import LARGEST
from coterie.runs.messages.tokens import Tokens
from coterie.runs.messages.verdicts import not_asking, sender_of, unknown_outputs
from coterie.runs.note_files import NoteFiles
from coterie.runs.repository import Runs

PROVISIONAL = f"provisional: no process is running it; {WAITS}"


def verdict(runs: Runs, run: str, said: RunMessage) -> Verdict:
    """What the root run *run* would say to the emit *said*, whose attempt may have outlived its owner.

    One that no owner could ever take, since its attempt is over, is taken out of the inbox.

    Raises:
        JournalUnreadable, ReplayMismatch: If the run cannot be folded.
    """
    if said.attempt and (problem := sender_of(said, run, Tokens(runs.folder(run))).problem):
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
    return Verdict(status="accepted", detail=f"({PROVISIONAL})")


def unusable(runs: Runs, run: str, message: RunMessage) -> str:
    """Why the next owner of the root run *run* cannot use the answer *message*; empty if it may be of use.

    Checked only for a run that waits for people, and whose inbox holds nothing but answers. An answer that cannot be
    used is taken out of the inbox; the first of two answers for one turn counts.

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
    below, _, turn = message.turn.rpartition("/")
    found = _fold(runs, f"{run}/{below}" if below else run)
    earlier = [one.turn.rpartition("/")[2] for one in waiting if one.id != message.id and _below(one) == below]
    why = _unusable(found[0], turn, message, earlier) if found is not None else f"{below!r} is not an active child run"
    if why:
        (inbox / f"{message.id}.json").unlink(missing_ok=True)
    return why


def _below(message: RunMessage) -> str:
    return message.turn.rpartition("/")[0]


def _unusable(fold: Fold, turn: str, message: RunMessage, earlier: Sequence[str]) -> str:
    """The problem with *message* as the answer for *turn*; *earlier* answers name their turns."""
    open_turns = [one for one in fold.turns.values() if one.status != "ended"]
    if any(fold.kind(one.ask.agent) != "human" for one in open_turns):
        return ""  # a child run may ask, or an attempt that was cut off may be waiting for a decision
    asking = {one.ask.turn: one for one in open_turns}
    only = next(iter(asking)) if len(asking) == 1 else ""
    turn = turn or only
    if turn not in asking:
        next_turn = earlier and turn not in fold.turns and turn.rpartition("#")[0] in fold.agents
        return "" if next_turn else not_asking(turn, asking)  # an earlier answer may lead to it
    if turn in [name or only for name in earlier]:
        return f"{turn} has an answer already; it waits in the inbox for `coterie resume {fold.run.partition('/')[0]}`"
    if problem := unknown_outputs(fold, asking[turn], message):
        return problem
    reply = Reply(turn=turn, attempt=asking[turn].attempt, text=message.text, outputs=message.outputs)
    judged = fold.engine.judge(reply)
    return judged.reason if isinstance(judged, AttemptFailed) else ""


def _refused(fold: Fold, kind: Kind, runs: Runs, turn: str, said: RunMessage) -> str:
    if not said.event and said.outputs:
        return ""
    emit = Emit(turn=turn, attempt=said.attempt, event=said.event, payload=said.payload)
    if kind.needs_open_tasks(emit):
        tasks = NoteFiles(runs).blocking(fold.run, kind.notes)
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
