"""Compare two runs turn by turn, and find the first turn in which they differ."""

from typing import Any

from msgspec import Struct

from coterie.history.journal import records as r
from coterie.history.views.known_run import KnownRun
from coterie.history.views.rows import RunRow, run_row
from coterie.history.views.run import TurnView


class TurnPair(Struct, frozen=True, kw_only=True):
    """The turn with the same id in both runs; None where it did not begin.

    Attributes:
        differs: The differences: `inputs`, `prompt`, `state`, `text`, `outputs`, `events`, or `missing`.
    """

    turn: str
    a: TurnView | None
    b: TurnView | None
    differs: tuple[str, ...] = ()


class RunComparison(Struct, frozen=True, kw_only=True):
    """Two runs, aligned by turn.

    Attributes:
        differs: Differences before any turn: `plan`, `input`.
        pairs: All turns, in the order of *b*; turns only in *a* keep their position in *a*.
        same: How many turns from the first on are equal.
        first: The first turn in which they differ; empty: none.
        prompts: The prompts of *first* in *a* and *b*, if available.
    """

    a: RunRow
    b: RunRow
    differs: tuple[str, ...]
    pairs: tuple[TurnPair, ...]
    same: int
    first: str = ""
    prompts: tuple[str, str] = ("", "")


def compare(a: KnownRun, b: KnownRun) -> RunComparison:
    """Compare the runs *a* and *b*; turns of their child runs are counted but not compared."""
    turns = [{turn.id: turn for turn in side.view.turns} for side in (a, b)]
    order, left = dict[str, None](), iter(turns[0])
    for turn in turns[1]:
        while turn in turns[0] and turn not in order:
            order[next(left)] = None
        order[turn] = None
    order |= dict.fromkeys(left)
    pairs = tuple(_pair(turn, *(side.get(turn) for side in turns)) for turn in order)
    same = next((n for n, pair in enumerate(pairs) if pair.differs), len(pairs))
    plans = [side.plan.plan.content_hash() if side.plan.plan is not None else "" for side in (a, b)]
    heads = {"plan": plans[0] != plans[1], "input": a.view.input != b.view.input}
    return RunComparison(
        a=run_row(a),
        b=run_row(b),
        differs=tuple(name for name, differs in heads.items() if differs),
        pairs=pairs,
        same=same,
        first=pairs[same].turn if same < len(pairs) else "",
    )


def _pair(turn: str, a: TurnView | None, b: TurnView | None) -> TurnPair:
    if a is None or b is None:
        return TurnPair(turn=turn, a=a, b=b, differs=("missing",))
    one, other = _compared(a), _compared(b)
    return TurnPair(turn=turn, a=a, b=b, differs=tuple(name for name in one if one[name] != other[name]))


def _compared(turn: TurnView) -> dict[str, Any]:
    return {
        "inputs": turn.inputs,
        "prompt": turn.attempts[-1].prompt_hash if turn.attempts else "",
        "state": turn.state,
        "text": turn.text,
        "outputs": turn.outputs,
        "events": [one.event for one in turn.noted if isinstance(one, r.EventEmitted)],
    }
