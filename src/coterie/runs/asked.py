"""What a turn was asked, told again: the journal up to its start, through the engine that decided it."""

import hashlib
from functools import partial

import msgspec
from msgspec import Struct

from coterie.engines.commands import Ask
from coterie.errors import NoSuchTurn
from coterie.journal.records import TurnStarted
from coterie.runs.commands import Again, Turn
from coterie.runs.fold import Fold
from coterie.runs.kinds import kind_of
from coterie.runs.live import Place
from coterie.runs.prompts import Sources, render
from coterie.runs.repository import Runs


class Asked(Struct, frozen=True, kw_only=True):
    """A question as it was put.

    Attributes:
        same: Whether it is to the letter what was asked then; where that was not kept, files that an agent reads may
            have changed since, and so may what a loop remembers.
    """

    turn: str
    attempt: int
    prompt: str
    same: bool


def asked(runs: Runs, run: str, turn: str, place: Place | None = None) -> Asked:
    """The question of the latest attempt of *turn* in *run*, which may be a child run.

    Raises:
        NoSuchTurn: If the turn never started there.
        ReplayMismatch: If today's engine decides otherwise than the journal says.
    """
    place = place or Place()
    journal = runs.journal(run)
    starts = [record for record in journal.records if isinstance(record, TurnStarted)]
    start = next((record for record in reversed(starts) if record.turn == turn), None)
    if start is None or start.cause is None:
        raise NoSuchTurn(run, turn, dict.fromkeys(record.turn for record in starts))
    kept = place.question(run, turn, start.attempt)
    if kept and _digest(kept) == start.prompt:
        return Asked(turn=turn, attempt=start.attempt, prompt=kept, same=True)
    fold = Fold(run, kind_of(journal.plan(start.seq)))
    fold.fold(record for record in journal.records if record.seq < start.seq)
    sources = Sources(read=place.read_file, how_far=partial(place.how_far, run), notes=partial(place.notes, run))
    prompt = render(fold, _turn(fold, start), sources)
    return Asked(turn=turn, attempt=start.attempt, prompt=prompt, same=_digest(prompt) == start.prompt)


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
