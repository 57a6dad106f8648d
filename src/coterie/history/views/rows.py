"""The rows of `coterie.history.views.live`: plain values, each with the whole state of one run, node, turn or
attempt."""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct

from coterie.history.journal import records as r
from coterie.history.views.known_run import CUT_OFF, KnownRun, Owner, RunHalt, TurnWait
from coterie.history.views.plan import LastEvent
from coterie.history.views.tree import detail_of
from coterie.history.views.words import state_words
from coterie.team.planning.loop import LoopPlan
from coterie.team.topology.patterns.inputs import task_of

T = TypeVar("T", bound=Struct)
_LONGEST = 500
"""How many characters a row has of a prompt, a reason or a line about a turn; turn details have the whole text."""


class FailedTurn(Struct, frozen=True, kw_only=True):
    """A failed turn of *run*."""

    run: str
    turn: str


class RunRow(Struct, frozen=True, kw_only=True):
    """A run.

    Attributes:
        place: Its team in the table `teams`.
        words: Its state in words, with the reason.
        at: When its last record was written.
        cost: US dollars, including child runs, as reported by backends; see the table `costs`.
        max_cost: The budget, and *max_turns* the limit of turns; None without one.
        turns: Turns of agents that began, including child runs; *done* have ended, of which *failed* failed.
        left: Nodes of a flow or a pattern, and items of sets, that have not begun; 0 once the run has completed.
        failed_first: The first failed turn of a failed root run.
        thread: The thread whose message it is; empty if it has none.
    """

    id: str
    place: str
    parent: str
    topology: str
    kind: str
    state: str
    words: str
    reason: str
    prompt: str
    cwd: str
    epoch: int
    started: float | None
    finished: float | None
    at: float
    seq: int
    owners: tuple[Owner, ...]
    halts: tuple[RunHalt, ...]
    warnings: tuple[str, ...]
    cost: float
    max_cost: float | None
    max_turns: int | None
    turns: int
    done: int
    failed: int
    left: int
    iteration: int
    most_iterations: int | None
    last_event: LastEvent | None
    failed_first: FailedTurn | None
    thread: str


class AttemptRow(Struct, frozen=True, kw_only=True):
    """An attempt of a turn."""

    n: int
    state: str
    started: float
    finished: float | None
    kind: str
    reason: str


class TurnRow(Struct, frozen=True, kw_only=True):
    """A turn. *detail*: its answer, the reason for its failure, …; *event*: the event that an iteration emitted;
    *set*: the set whose *item* it works on, which people call *item_name*."""

    run: str
    id: str
    agent: str
    node: str
    state: str
    started: float
    finished: float | None
    inputs: tuple[str, ...]
    attempts: tuple[AttemptRow, ...]
    waits: tuple[TurnWait, ...]
    detail: str
    kind: str
    reason: str
    cost: float
    input_tokens: int
    output_tokens: int
    children: tuple[str, ...]
    event: str
    asked: int
    set: str
    item: tuple[int, int] | None
    item_name: str


class CostRow(Struct, frozen=True, kw_only=True):
    """The usage of one attempt."""

    run: str
    turn: str
    at: float
    agent: str
    model: str
    cost: float
    input_tokens: int
    output_tokens: int
    seconds: float
    unpriced: int


def run_row(known: KnownRun, _: None = None) -> RunRow:
    """The row of a run."""
    view, plan = known.view, known.plan.plan
    loop = plan.coordination if plan is not None and isinstance(plan.coordination, LoopPlan) else None
    budgets = [known.limits.max_cost, loop.max_cost or None if loop is not None else None]
    counts = known.counts()
    first = known.first_failed() if view.state == "failed" and known.above is None else None
    return _filled(
        RunRow,
        view,
        known,
        parent=known.above.id if known.above is not None else "",
        kind=known.plan.team.kind if known.plan.team is not None else "",
        state=(state := _now(known, view.state)),
        words=_cut(state_words(state, view.reason)),
        reason=_cut(view.reason),
        prompt=_cut(task_of((), view.input)),
        owners=tuple(known.owners),
        halts=tuple(known.halts),
        warnings=tuple(known.warnings),
        **counts._asdict(),
        max_cost=min((one for one in budgets if one is not None), default=None),
        max_turns=known.limits.max_turns,
        iteration=known.plan.iteration,
        most_iterations=loop.max_iterations + view.added if loop is not None else None,
        last_event=known.plan.last_event,
        failed_first=FailedTurn(run=first[1].id, turn=first[2]) if first is not None else None,
    )


def node_row(known: KnownRun, name: str) -> dict[str, Any] | None:
    """The row of a node: `coterie.history.views.plan.NodeState` with its name and state."""
    if (node := known.plan.nodes.get(name)) is None:
        return None
    states = [known.state_of(turn) for turn in sorted(node.open) or [node.turn]]
    state = "running" if "running" in states else "finished" if node.over and not node.open else states[0]
    shown = {field: getattr(node, field) for field in ("starts", "finished", "failed", "cost", "turn", "items", "left")}
    return {"name": name, "state": state, **shown, "open": sorted(node.open)}


def turn_row(known: KnownRun, id: str) -> TurnRow | None:
    """The row of a turn."""
    if (turn := known.view.turn(id)) is None:
        return None
    return _filled(
        TurnRow,
        turn,
        turn.usage,
        run=known.id,
        node=known.plan.node_of(id),
        state=known.state_of(id),
        attempts=tuple(
            _filled(AttemptRow, one, state=_now(known, one.state), reason=_cut(one.reason)) for one in turn.attempts
        ),
        waits=tuple(known.waits.get(id, ())),
        detail=_cut(detail_of(turn)),
        reason=_cut(turn.reason),
        children=tuple(child.id for child in known.children.get(id, ())),
        event=", ".join(one.event for one in turn.noted if isinstance(one, r.EventEmitted)),
        asked=len(turn.asked),
        set=known.view.set_of.get(id, ""),
    )


def _now(known: KnownRun, state: str) -> str:
    """The *state* of a run or an attempt of *known*, which does not work if no process drives it."""
    return CUT_OFF if state == "running" and known.is_cut_off else state


def cost_row(known: KnownRun, record: Any) -> CostRow:
    """The row with the usage of the attempt that *record* ended."""
    agent = getattr(known.view.turn(record.turn), "agent", "")
    plan = known.plan.plan.agents.get(agent) if known.plan.plan is not None else None
    model = plan.model if plan is not None else ""
    return _filled(CostRow, record, record.usage, run=known.id, agent=agent, model=model)


_TAKEN: dict[type[Struct], list[tuple[str, int]]] = {}
"""The fields of each row that a source has, with the number of that source."""


def _filled(row: type[T], /, *sources: object, **values: Any) -> T:
    """Make a *row* from *values*; take each other field from the first source that has an attribute of that name."""
    if (taken := _TAKEN.get(row)) is None:
        names = [name for name in row.__struct_fields__ if name not in values]
        taken = _TAKEN[row] = [(name, next(n for n, one in enumerate(sources) if hasattr(one, name))) for name in names]
    for name, n in taken:
        values[name] = getattr(sources[n], name)
    return row(**values)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


MAKERS: Mapping[str, Any] = {"runs": run_row, "nodes": node_row, "turns": turn_row}
"""The functions that make a row from a run and the name of the row's subject."""
