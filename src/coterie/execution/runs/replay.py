"""Replay a run: check that the present engines decide as its journal says."""

from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from coterie.execution.kernel.commands import phrase
from coterie.execution.kernel.fold import Fold
from coterie.execution.kinds import kind_of
from coterie.execution.runs.repository import Runs


class ReplayReport(Struct, frozen=True, kw_only=True):
    """The result of a replay in which the present engine agrees with every record.

    Attributes:
        records: How many records were fed to the engine, including those of child runs.
        left: Descriptions of the commands left to do; empty for a finished run.
    """

    run: str
    records: int
    left: tuple[str, ...] = ()


def replay(run: str, *, state_dir: Path) -> ReplayReport:
    """Feed the journal of *run* in *state_dir* and of its child runs to the present engines; see `replay_in`."""
    return replay_in(Runs(state_dir), run)


def replay_in(runs: Runs, run: str) -> ReplayReport:
    """Feed the journal of *run* and of its child runs to the present engines, without writes or calls of backends.

    Raises:
        ReplayMismatch: If an engine disagrees with its journal.
    """
    records = 0
    open_below: dict[str, tuple[str, Collection[str]]] = {}
    """The runs that are not over, with the prefix for their phrases and the turns that are open in them."""
    left: list[str] = []
    for journal in runs.tree(run):
        name, above = journal.run, journal.above
        fold = Fold(name, kind_of(journal.plan()))
        fold.fold(journal.records)
        records += fold.seq
        prefix, turns = open_below.get(above.run, ("", ())) if above is not None else ("", ("",))
        if journal.turn in turns:
            prefix += f"{name}: " if above is not None else ""
            open_below[name] = prefix, {*fold.open}
            left += [prefix + phrase(what) for what in fold.todo.values()]
    return ReplayReport(run=run, records=records, left=tuple(left))
