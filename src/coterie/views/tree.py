"""A run as a tree: the run, its turns, and the runs that those turns are."""

from collections.abc import Mapping

from msgspec import Struct

from coterie.ids import child_run_id
from coterie.views.run import RunView, TurnView


class RunNode(Struct, frozen=True, kw_only=True):
    """One line of the tree.

    Attributes:
        id: Of the run or the turn.
        label: What to show: the team's name, or `reviewer#2`.
        state: As `RunView` and `TurnView` name it.
        seconds: How long it has taken.
        cost: US dollars, what lies below it included.
        detail: Why it failed or stopped, which attempt it is in, or why nothing follows; often empty.
        children: In start order.
    """

    id: str
    label: str
    state: str
    seconds: float = 0.0
    cost: float = 0.0
    detail: str = ""
    children: tuple["RunNode", ...] = ()


def tree(run: RunView, children: Mapping[str, RunView], now: float) -> RunNode:
    """*run* at the time *now*; *children* are the child runs that are known, by id, at any depth."""
    turns = tuple(_turn_node(run.id, turn, children, now) for turn in run.turns)
    return RunNode(
        id=run.id,
        label=run.topology or run.id,
        state=run.state,
        seconds=run.seconds(now),
        cost=sum(turn.cost for turn in turns),
        detail=run.reason,
        children=turns,
    )


def _turn_node(run: str, turn: TurnView, children: Mapping[str, RunView], now: float) -> RunNode:
    """A turn; each child run that it is or was lies below it, the failed ones too."""
    ids = [child_run_id(run, turn.id, attempt.n) for attempt in turn.attempts]
    below = tuple(tree(children[id], children, now) for id in ids if id in children)
    return RunNode(
        id=turn.id,
        label=turn.id,
        state=turn.state,
        seconds=turn.seconds(now),
        cost=max(turn.usage.cost, sum(node.cost for node in below)),  # the turn knows its child's cost once it ended
        detail=_detail(turn),
        children=below,
    )


def _detail(turn: TurnView) -> str:
    last = turn.attempts[-1] if turn.attempts else None
    if turn.state in ("failed", "cancelled"):
        return turn.reason
    if turn.state == "waiting" and last:
        return f"attempt {last.n} {last.state}: {last.reason}"
    return "; ".join(filter(None, (f"attempt {turn.attempt}" if turn.attempt > 1 else "", turn.note)))
