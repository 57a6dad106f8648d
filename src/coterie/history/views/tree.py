"""A run as a tree: the run, its turns, notes about them, and their child runs."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from coterie.base.ids import child_run_id
from coterie.base.waits import SILENCE
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptQuiet,
    EventEmitted,
    GuidanceDelivered,
    Record,
    TreeAttested,
)
from coterie.history.views.actors import ActorView
from coterie.history.views.attention import attention_of
from coterie.history.views.run import RunView, TurnView
from coterie.history.views.timeline import cause, sentence
from coterie.history.views.words import answer, plural, promise_refused, respond_command, without_causes, worker_command
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import AgentPlan, Plan

FAILED_ITEMS = 3
"""How many failed items of a set have a line below it; `coterie inspect RUN turn SET` lists all."""
_COUNTED = ("finished", "failed", "cancelled", "running", "waiting", "pending")


class RunNode(Struct, frozen=True, kw_only=True):
    """One line of the tree.

    Attributes:
        id: The id of the run or the turn; empty for a node that has not started and for a note.
        label: The text to show: the team's name, or `reviewer#2`.
        state: As in `RunView` and `TurnView`; `pending` for a node of a flow that has not started, `note` for another
            event.
        seconds: How long it has taken.
        cost: US dollars, including everything below it.
        detail: The answer, the last printed line, the reason for a failure or stop, …; often empty.
        children: The lines below it, in start order.
    """

    id: str
    label: str
    state: str
    seconds: float = 0.0
    cost: float = 0.0
    detail: str = ""
    children: tuple["RunNode", ...] = ()


def tree(
    run: RunView,
    children: Mapping[str, RunView],
    now: float,
    plan: Plan | None = None,
    printed: Mapping[str, str] | None = None,
) -> RunNode:
    """The tree of *run* at the time *now*.

    Args:
        children: The known child runs, by id, at any depth.
        plan: The plan of *run*; without it no pending nodes, humans and limits are shown.
        printed: The last line that each attempt printed, by its mark; None if that is unknown.
    """
    return _Tree(children, now, printed).run(run, plan)


class _Tree:
    """The tree of all runs at one time."""

    def __init__(self, children: Mapping[str, RunView], now: float, printed: Mapping[str, str] | None) -> None:
        self._children, self._now, self._printed = children, now, printed

    def run(self, run: RunView, plan: Plan | None) -> RunNode:
        lines = list(self._lines(run, plan))
        turns = [line for line in lines if line is not None]
        reason = without_causes(run.reason, (turn.reason for turn in run.turns if turn.state == "failed"))
        pending = list(_pending(run, plan)) if run.state in ("running", "waiting") else []
        states = [*(self._state(run, turn, plan) for turn in run.turns), *(node.state for node in pending)]
        detail = reason or (_counts(states) if run.state == "running" else "")
        children = (*_with_notes(lines, run.noted), *pending)
        if run.actors.by_name or run.actors.awaited:
            detail, children = self._system(run, turns, reason)
        return RunNode(
            id=run.id,
            label=run.topology or run.id,
            state=run.state,
            seconds=run.seconds(self._now),
            cost=sum(turn.cost for turn in turns),
            detail=detail,
            children=children,
        )

    def _lines(self, run: RunView, plan: Plan | None) -> Iterator[RunNode | None]:
        """A line for each turn; a set has one, at the place of its first turn, and None at those of the others."""
        seen = set[str]()
        for turn in run.turns:
            its = run.set_of.get(turn.id, "")
            if its not in run.sets:
                yield self._turn(run, turn, plan)
            else:
                yield self._set(run, its, plan) if its not in seen else None
            seen.add(its)

    def _set(self, run: RunView, id: str, plan: Plan | None) -> RunNode:
        """One line, `2 finished, 1 running, 1 failed of 12`, with the items below it that need a person or failed."""
        turns, state = run.items_of(id), run.state_of_set(id)
        ends = [turn.finished for turn in turns if turn.finished is not None]
        states = [self._state(run, turn, plan) for turn in turns]
        shown = [turn for turn in turns if turn.state == "running" and self._asks(run, turn, plan)]
        shown += [turn for turn in turns if turn.state == "failed"][:FAILED_ITEMS]
        return RunNode(
            id=id,
            label=id,
            state=state,
            seconds=(self._now if state == "running" else max(ends, default=run.at)) - run.sets[id].at,
            cost=sum(self._cost(run, turn) for turn in turns),
            detail=f"{_counts(states)} of {run.sets[id].items}",
            children=tuple(self._turn(run, turn, plan) for turn in shown),
        )

    def _state(self, run: RunView, turn: TurnView, plan: Plan | None) -> str:
        """The state of *turn*: `waiting` also if it is a person's, or its attempt needs one."""
        is_human = plan is not None and turn.agent in plan.agents and plan.agents[turn.agent].kind == "human"
        return "waiting" if turn.asked or (turn.state == "running" and is_human) else turn.state

    def _asks(self, run: RunView, turn: TurnView, plan: Plan | None) -> bool:
        """Whether *turn*, or a turn of its team, needs a person."""
        if self._state(run, turn, plan) == "waiting":
            return True
        agent = plan.agents.get(turn.agent) if plan is not None else None
        child = self._children.get(child_run_id(run.id, turn.id, turn.attempt))
        inner = agent.child if agent is not None else None
        open = (one for one in child.turns if one.finished is None) if child is not None else ()
        return child is not None and any(self._asks(child, one, inner) for one in open)

    def _cost(self, run: RunView, turn: TurnView) -> float:
        """What *turn* cost; it knows the cost of its team once it has ended."""
        ids = [child_run_id(run.id, turn.id, attempt.n) for attempt in turn.attempts]
        below = [self._children[id] for id in ids if id in self._children]
        return max(turn.usage.cost, sum(self._cost(child, one) for child in below for one in child.turns))

    def _system(self, run: RunView, turns: list[RunNode], reason: str) -> tuple[str, tuple[RunNode, ...]]:
        """The detail of a supervised system, and its supervision tree, each turn below the actor that requested it."""
        asked: dict[str, list[RunNode]] = {}
        for turn, node in zip(run.turns, turns, strict=True):
            asked.setdefault(turn.agent, []).append(node)
        lost = sum(run.actors.letters.values())
        awaited = [f"waits for a worker: {worker_command(process)}" for process in run.actors.awaited]
        parts = (reason, *awaited, f"{plural(lost, 'message')} not handled" if lost else "")
        return "; ".join(filter(None, parts)), tuple(self._actor(run, one, asked) for one in run.actors.below(""))

    def _actor(self, run: RunView, actor: ActorView, asked: Mapping[str, list[RunNode]]) -> RunNode:
        """An actor, with its running turn or else its last one."""
        turns = asked.get(actor.name, [])
        parts = [actor.kind if actor.kind != "agent" else "", f"@{actor.process}" if actor.process else ""]
        parts.append(actor.address if actor.state == "running" else "")
        parts.append(f"restarted {actor.restarts}x" if actor.restarts else "")
        return RunNode(
            id=actor.name,
            label=actor.name,
            state=actor.state,
            seconds=actor.seconds(self._now),
            cost=sum(turn.cost for turn in turns),
            detail="  ".join(filter(None, (*parts, actor.reason))),
            children=(*turns[-1:], *(self._actor(run, one, asked) for one in run.actors.below(actor.name))),
        )

    def _turn(self, run: RunView, turn: TurnView, plan: Plan | None) -> RunNode:
        """A turn, with all its child runs below it, including failed ones."""
        ids = [child_run_id(run.id, turn.id, attempt.n) for attempt in turn.attempts]
        agent = plan.agents.get(turn.agent) if plan is not None else None
        inner = agent.child if agent is not None else None
        below = [self.run(self._children[id], inner) for id in ids if id in self._children]
        asks = turn.state == "running" and agent is not None and agent.kind == "human"
        detail = f"answer with: {respond_command(run.id, turn.id)}" if asks else detail_of(turn)
        if turn.asked:
            detail = "; ".join(attention_of(run.id, one).command for one in turn.asked.values())
            detail, asks = f"answer with: {detail}", True
        if turn.state == "running" and not asks and not below and ids and self._printed is not None:
            line = self._printed.get(ids[-1]) or self._silence(run, turn, agent)
            detail = "; ".join(filter(None, (detail, line)))
        if turn.state == "failed" and ids and (child := self._children.get(ids[-1])):
            detail = without_causes(detail, (one.reason for one in child.turns if one.state == "failed"))
        return RunNode(
            id=turn.id,
            label=_label(run, turn, plan),
            state="waiting" if asks else turn.state,
            seconds=turn.seconds(self._now),
            cost=self._cost(run, turn),
            detail=detail,
            children=(*map(_note, notes_of(turn)), *below),
        )

    def _silence(self, run: RunView, turn: TurnView, agent: AgentPlan | None) -> str:
        """What a turn without recent output waits for."""
        if run.state != "running" or turn.seconds(self._now) < SILENCE:
            return ""
        return f"waiting for {'the model' if agent is not None and agent.backend == 'model' else 'its first output'}"


def _label(run: RunView, turn: TurnView, plan: Plan | None) -> str:
    """`writer#1` and the name of its item; an iteration with its maximum, role, event, and the emitted events."""
    if (started := turn.iteration) is None:
        return "  ".join(filter(None, (turn.id, turn.item_name)))
    loop = plan.coordination if plan is not None else None
    most = f" of {loop.max_iterations + run.added}" if isinstance(loop, LoopPlan) else ""
    after = f"after {started.event}" if started.event else ""
    emitted = ", ".join(record.event for record in turn.noted if isinstance(record, EventEmitted))
    return "  ".join(filter(None, (f"{turn.id}{most}", started.role, after, emitted and f"→ {emitted}")))


def _pending(run: RunView, plan: Plan | None) -> Iterator[RunNode]:
    """The nodes of a flow that have not started."""
    if plan is not None and plan.flow is not None:
        started = {turn.agent for turn in run.turns}
        for name in plan.flow.mentions:
            if name not in started:
                yield RunNode(id="", label=name, state="pending")


def _counts(states: list[str]) -> str:
    """`2 finished, 1 running, 3 pending`."""
    return ", ".join(f"{states.count(state)} {state}" for state in _COUNTED if state in states)


def _with_notes(lines: list[RunNode | None], noted: list[tuple[int, Record]]) -> Iterator[RunNode]:
    """The *lines* of all turns, with each note after the turns that had started before it."""
    begin = 0
    for before, record in noted:
        yield from filter(None, lines[begin:before])
        yield _note(sentence(record))
        begin = max(begin, before)
    yield from filter(None, lines[begin:])


def _note(text: str) -> RunNode:
    """A note; further lines become notes below it, since a terminal cuts off the end of a line."""
    first, *rest = text.split("\n  ")
    return RunNode(id="", label=first, state="note", children=tuple(map(_note, rest)))


def notes_of(turn: TurnView) -> list[str]:
    """Sentences about *turn* in addition to its state; the cause of its failure is in its reason."""
    own = _last_failure(turn)
    notes = [sentence(one) for one in turn.noted if one is not own and _is_shown(turn, one)]
    return [*notes, promise_refused(turn.promise_refused)] if turn.promise_refused else notes


def _is_shown(turn: TurnView, record: Record) -> bool:
    """Whether *record* is shown as a note below *turn*; only the latest state of its signs of life is."""
    match record:
        case EventEmitted() | GuidanceDelivered(attempt=0):  # the prompt has it
            return False
        case AttemptQuiet(signs=signs):
            last = next(one for one in reversed(turn.noted) if isinstance(one, AttemptQuiet))
            stuck = any(one.kind == "stall" for one in turn.asked.values())
            return turn.state == "running" and record is last and bool(signs) and not stuck
        case TreeAttested(before=before, after=after, problem=problem, notes=notes):
            return before != after or problem != "" or bool(notes)
    return True


def _last_failure(turn: TurnView) -> AttemptFailed | None:
    """The failure that failed *turn*; the turn's own line shows its cause."""
    last = next((record for record in reversed(turn.noted) if isinstance(record, AttemptFailed)), None)
    return last if turn.state == "failed" and last is not None and last.reason == turn.reason else None


def detail_of(turn: TurnView) -> str:
    """A line about *turn*: its answer, the reason for its failure, …; often empty."""
    last = turn.attempts[-1] if turn.attempts else None
    match turn.state:
        case "failed" if (failed := _last_failure(turn)) is not None:
            return cause(failed)
        case "failed" | "cancelled":
            return turn.reason
        case "waiting" if last is not None:
            return f"attempt {last.n} {last.state}: {last.reason}"
        case "finished":
            return "; ".join(filter(None, (turn.note, answer(turn.outputs, turn.text))))
    return "; ".join(filter(None, (f"attempt {turn.attempt}" if turn.attempt > 1 else "", turn.note)))
