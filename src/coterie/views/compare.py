"""Two runs side by side, up to the first turn in which they differ and beyond."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from coterie.journal import records as r
from coterie.topology.patterns.inputs import task_of
from coterie.views.run import RunView, TurnView, fold
from coterie.views.usage import UsageView


class RunSide(Struct, frozen=True, kw_only=True):
    """One of two runs."""

    run: str
    topology: str
    state: str
    reason: str
    prompt: str
    turns: int
    cost: float
    started: float | None
    finished: float | None


class TurnSide(Struct, frozen=True, kw_only=True):
    """A turn of one of two runs. *events*: what it emitted; *prompt*: the hash of its last attempt's prompt."""

    agent: str
    inputs: tuple[str, ...]
    state: str
    reason: str
    text: str
    outputs: dict[str, Any]
    events: tuple[str, ...]
    cost: float
    seconds: float
    attempts: int
    prompt: str


class TurnPair(Struct, frozen=True, kw_only=True):
    """The turn of that id in both runs; None where it did not begin.

    Attributes:
        differs: In what: `inputs`, `prompt`, `state`, `text`, `outputs`, `events`, or `missing`.
    """

    turn: str
    a: TurnSide | None
    b: TurnSide | None
    differs: tuple[str, ...] = ()


class Comparison(Struct, frozen=True, kw_only=True):
    """Two runs, aligned by turn.

    Attributes:
        differs: What of the runs differs before any turn: `plan`, `input`.
        pairs: All turns, in the order of *a*; those of *b* alone come where *b* has them.
        same: So many turns in a row are the same from the first on.
        first: The first turn in which they differ; empty: in none.
        prompts: The prompts of *first* in *a* and *b*, where they are at hand.
    """

    a: RunSide
    b: RunSide
    differs: tuple[str, ...]
    pairs: tuple[TurnPair, ...]
    same: int
    first: str = ""
    prompts: tuple[str, str] = ("", "")


_COMPARED = ("inputs", "prompt", "state", "text", "outputs", "events")


def compare(a: Sequence[r.Record], b: Sequence[r.Record]) -> Comparison:
    """The runs with the records *a* and *b*, without their child runs.

    The prompts of a loop contain the path of its command, which no two runs share: they are not compared.
    """
    sides = [_Side(records) for records in (a, b)]
    order = dict[str, None]()
    left = iter(sides[0].turns)
    for turn in sides[1].turns:
        while turn in sides[0].turns and turn not in order:
            order[next(left)] = None
        order[turn] = None
    order |= dict.fromkeys(left)
    pairs = tuple(_pair(turn, *(side.turns.get(turn) for side in sides)) for turn in order)
    first = next((n for n, pair in enumerate(pairs) if pair.differs), len(pairs))
    heads = zip(*((("plan", side.plan), ("input", side.view.input)) for side in sides), strict=True)
    return Comparison(
        a=sides[0].head(),
        b=sides[1].head(),
        differs=tuple(one[0] for one, other in heads if one != other),
        pairs=pairs,
        same=first,
        first=pairs[first].turn if first < len(pairs) else "",
    )


class _Side:
    """One of the two runs."""

    def __init__(self, records: Sequence[r.Record]) -> None:
        self.view: RunView = fold(records)
        started = [record for record in records if isinstance(record, r.RunStarted | r.PlanReloaded)]
        self.plan = (started[-1].plan_hash or started[-1].plan) if started else ""
        prompts = {record.turn: record for record in records if isinstance(record, r.TurnStarted)}
        self.turns = {turn.id: _turn(turn, prompts[turn.id]) for turn in self.view.turns}
        usage = UsageView()
        for record in records:
            usage.apply(record)
        self.cost = usage.total.cost

    def head(self) -> RunSide:
        """The run without its turns."""
        view = self.view
        return RunSide(
            run=view.id,
            topology=view.topology,
            state=view.state,
            reason=view.reason,
            prompt=task_of((), view.input),
            turns=len(self.turns),
            cost=self.cost,
            started=view.started,
            finished=view.finished,
        )


def _turn(turn: TurnView, started: r.TurnStarted) -> TurnSide:
    return TurnSide(
        agent=turn.agent,
        inputs=turn.inputs,
        state=turn.state,
        reason=turn.reason,
        text=turn.text,
        outputs=turn.outputs,
        events=tuple(one.event for one in turn.noted if isinstance(one, r.EventEmitted)),
        cost=turn.usage.cost,
        seconds=turn.seconds(turn.started),
        attempts=len(turn.attempts),
        prompt="" if "tool" in started.used else started.prompt,
    )


def _pair(turn: str, a: TurnSide | None, b: TurnSide | None) -> TurnPair:
    if a is None or b is None:
        return TurnPair(turn=turn, a=a, b=b, differs=("missing",))
    differs = tuple(name for name in _COMPARED if getattr(a, name) != getattr(b, name))
    return TurnPair(turn=turn, a=a, b=b, differs=differs)
