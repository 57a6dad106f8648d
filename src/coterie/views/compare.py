"""Two runs side by side, up to the first turn in which they differ and beyond."""

from typing import Any

from msgspec import Struct

from coterie.journal import records as r
from coterie.views.known_run import KnownRun
from coterie.views.rows import RunRow, run_row
from coterie.views.run import TurnView


class TurnPair(Struct, frozen=True, kw_only=True):
    """The turn of that id in both runs; None where it did not begin.

    Attributes:
        differs: In what: `inputs`, `prompt`, `state`, `text`, `outputs`, `events`, or `missing`.
    """

    turn: str
    a: TurnView | None
    b: TurnView | None
    differs: tuple[str, ...] = ()


class RunComparison(Struct, frozen=True, kw_only=True):
    """Two runs, aligned by turn.

    Attributes:
        differs: What of the runs differs before any turn: `plan`, `input`.
        pairs: All turns, in the order of *b*; those of *a* alone come where *a* has them.
        same: So many turns in a row are the same from the first on.
        first: The first turn in which they differ; empty: in none.
        prompts: The prompts of *first* in *a* and *b*, where they are at hand.
    """

    a: RunRow
    b: RunRow
    differs: tuple[str, ...]
    pairs: tuple[TurnPair, ...]
    same: int
    first: str = ""
    prompts: tuple[str, str] = ("", "")


def compare(a: KnownRun, b: KnownRun) -> RunComparison:
    """The runs *a* and *b*; the turns of their child runs are not compared, but count."""
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
