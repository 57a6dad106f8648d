"""The details of one set, the start of a mapped node: its items, its outputs, and why it started."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from coterie.errors import UsageError
from coterie.execution.kernel.fold import Fold
from coterie.execution.kinds import kind_of
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import SetEnded, SetStarted, TurnFinished
from coterie.history.journal.runs import Journal
from coterie.history.views.run import RunView, fold
from coterie.history.views.why import Reason, why

CAUSES = 100
"""How many turns the causes of a set list."""


class SetItem(Struct, frozen=True, kw_only=True):
    """An item that has begun: its number from 1, what people call it, and its turn."""

    n: int
    name: str
    turn: str
    state: str
    reason: str


class SetDetail(Struct, frozen=True, kw_only=True):
    """All known facts about one set, with the fields of a turn.

    Attributes:
        turn: Its id, and *agent* its node.
        size: How many items it has; *items* are those that have begun.
        outputs: Its outputs, lists in the items' order, and *text* the texts of its items, once it has ended.
        causes: Why it started, the nearest cause first.
    """

    run: str
    turn: str
    agent: str
    state: str
    inputs: tuple[str, ...]
    started: float
    finished: float | None
    size: int
    items: tuple[SetItem, ...]
    outputs: dict[str, Any]
    text: str
    causes: tuple[Reason, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many of its items are in each state, `not begun` included."""
        found: dict[str, int] = {}
        for one in self.items:
            found[one.state] = found.get(one.state, 0) + 1
        left = self.size - len({one.n for one in self.items})
        return found | ({"not begun": left} if left else {})

    def data(self) -> dict[str, Any]:
        """The set as `coterie inspect RUN turn SET --json` prints it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found | {"counts": self.counts}


def detail(runs: Runs, run: str, name: str) -> SetDetail | None:
    """The set *name* of *run*; None if it is not one.

    Raises:
        NoSuchRun, JournalUnreadable: If the run cannot be read.
        ReplayMismatch: If the present engine disagrees with the journal.
    """
    if not _may_be_set(name):
        return None
    journal = runs.journal(run)
    view = fold(journal.records, ())
    if (start := view.sets.get(name)) is None:
        return None
    end = next((one for one in journal.records if isinstance(one, SetEnded) and one.set == name), None)
    result = _result(journal, end) if end is not None else None
    return SetDetail(
        run=run,
        turn=name,
        agent=start.node,
        state=view.state_of_set(name),
        inputs=start.inputs,
        started=start.at,
        finished=end.at if end is not None else _last_end(view, name),
        size=start.items,
        items=tuple(_items(view, name)),
        outputs=result.outputs if result is not None else {},
        text=result.text if result is not None else "",
        causes=tuple(why(journal.records, name)[:CAUSES]),
    )


def check_turn(runs: Runs, run: str, name: str, what: str) -> None:
    """Check that *name* is not a set, which has no *what*, though its items have.

    Raises:
        UsageError: If it is a set.
    """
    if not _may_be_set(name):
        return
    starts = (one for one in runs.read(run) if isinstance(one, SetStarted) and one.set == name)
    if (start := next(starts, None)) is not None:
        which = f"name the turn of one, such as {start.node}#{start.first}" if start.items else "it has no items"
        raise UsageError(f"{name} is a set, whose items have {what}: {which}")


def _may_be_set(name: str) -> bool:
    return "@" in name


def _items(view: RunView, name: str) -> Iterator[SetItem]:
    for turn in view.items_of(name):
        number = turn.item[0] if turn.item is not None else 0
        yield SetItem(n=number, name=turn.item_name, turn=turn.id, state=turn.state, reason=turn.reason)


def _last_end(view: RunView, name: str) -> float | None:
    """When the last item of a set ended that the run left open; None while it runs."""
    if view.state_of_set(name) == "running":
        return None
    return max((turn.finished for turn in view.items_of(name) if turn.finished is not None), default=view.finished)


def _result(journal: Journal, end: SetEnded) -> TurnFinished | None:
    upto = Fold(journal.run, kind_of(journal.plan(end.seq)))
    upto.fold(journal.records[: end.seq])
    return upto.sets[end.set].result
