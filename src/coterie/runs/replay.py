"""Replay a run: check that today's engines decide what its journal says."""

from pathlib import Path

from msgspec import Struct

from coterie.kernel.commands import phrase
from coterie.kernel.fold import Fold
from coterie.kinds import kind_of
from coterie.runs.repository import Runs


class ReplayReport(Struct, frozen=True, kw_only=True):
    """The result of a replay: today's engine agrees with every record.

    Attributes:
        records: How many records were fed to the engine, those of child runs included.
        left: What is left to do, one phrase each; nothing in a finished run.
    """

    run: str
    records: int
    left: tuple[str, ...] = ()


def replay(run: str, *, state_dir: Path) -> ReplayReport:
    """Feed the journal of *run* in *state_dir* and of its child runs to today's engines; see `replay_in`."""
    return replay_in(Runs(state_dir), run)


def replay_in(runs: Runs, run: str) -> ReplayReport:
    """Feed the journal of *run* and of its child runs to today's engines; nothing is written, and no backend is called.

    Raises:
        ReplayMismatch: If an engine decides otherwise than its journal says.
    """
    folds: dict[str, Fold] = {}
    open_below: dict[str, str] = {}  # runs that are not over: what is said before a phrase of theirs
    left: list[str] = []
    for journal in runs.tree(run):
        name, above = journal.run, journal.above
        folds[name] = fold = Fold(name, kind_of(journal.plan()))
        fold.fold(journal.records)
        if above is None:
            open_below[name] = ""
        elif above.run in open_below and folds[above.run].turns[journal.turn].status != "ended":
            open_below[name] = f"{open_below[above.run]}{name}: "
        if name in open_below:
            left += [open_below[name] + phrase(what) for what in fold.todo.values()]
    return ReplayReport(run=run, records=sum(fold.seq for fold in folds.values()), left=tuple(left))
