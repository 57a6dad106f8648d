"""Find the snapshots that show the files that a turn changed."""

from collections.abc import Iterable

from msgspec import Struct

from coterie.base.ids import attempt_id
from coterie.errors import NoSuchTurn
from coterie.history.journal import records as r

_ENDS = (r.TurnFinished, r.TurnFailed, r.TurnCancelled)


class TurnSnapshots(Struct, frozen=True, kw_only=True):
    """The snapshots around a turn.

    Attributes:
        before: The commit with the files at its beginning; empty: no earlier turn left a commit, so the parent of
            *after* is used.
        after: The commit with the files at its end; empty: there is none, and *problem* says why.
        shared_with: Turns that worked on the same files at the same time, whose changes are included.
    """

    before: str = ""
    after: str = ""
    shared_with: tuple[str, ...] = ()
    problem: str = ""


def snapshots_of(history: Iterable[tuple[str, r.Record]], run: str, turn: str) -> TurnSnapshots:
    """The snapshots around *turn* of *run*; *history* has the records of its root run and all child runs.

    Raises:
        NoSuchTurn: If the turn never started there.
    """
    spans: dict[tuple[str, str], list[float]] = {}
    saved: list[tuple[float, str, r.TreeSaved]] = []
    made: dict[str, str] = {}
    for name, record in history:
        match record:
            case r.TurnStarted():
                spans.setdefault((name, record.turn), [record.at, float("inf")])
            case r.TreeSaved():
                saved.append((record.at, name, record))
            case r.TreeMade():
                made[record.run] = record.base
        if isinstance(record, _ENDS) and (name, record.turn) in spans:
            spans[name, record.turn][1] = record.at
    if (run, turn) not in spans:
        raise NoSuchTurn(run, turn, dict.fromkeys(one for where, one in spans if where == run))
    began, ended = spans[run, turn]
    tree = _tree(run, made)
    saved.sort(
        key=lambda one: (one[0], -one[1].count("/"))
    )  # the last snapshot of a child run precedes that of its parent
    same = [(at, name, one) for at, name, one in saved if _tree(name, made) == tree]
    own = [one for _, name, one in same if _is_within(name, one.turn, run, turn)]
    left = next((one.commit for one in reversed(own) if one.commit), "")
    earlier = [one.commit for at, name, one in same if at <= began and one not in own and one.commit]
    problem = next((one.problem for one in reversed(own) if one.problem), "") if own else "no snapshot was kept"
    return TurnSnapshots(
        before=earlier[-1] if earlier else made.get(tree, "") if tree != run.partition("/")[0] else "",
        after=left,
        shared_with=tuple(
            f"{name}/{other}".partition("/")[2]
            for (name, other), (start, end) in spans.items()
            if start < ended and end > began and _tree(name, made) == tree
            if not _is_within(name, other, run, turn) and not _is_within(run, turn, name, other)
        ),
        problem=problem,
    )


def _tree(run: str, made: Iterable[str]) -> str:
    """The run whose work tree *run* works in: itself or a run above it; the root run may use the checkout."""
    while run not in made and "/" in run:
        run = run.rpartition("/")[0]
    return run


def _is_within(run: str, turn: str, above: str, outer: str) -> bool:
    """Whether *turn* of *run* is *outer* of *above*, or in a child run of it."""
    return (run, turn) == (above, outer) or f"{run}/".startswith(f"{above}/{attempt_id(outer, 0)[:-1]}")
