"""Everything a flow can do: the real engine, driven through every order and every answer, and nothing clever.

It shares nothing with `coterie.proofs`: no reduction, no counting, its own idea of when two situations are the same
(the engine's own memory is), and values instead of truths.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from coterie.history.engines.commands import Ask, Command, Finish, Note
from coterie.history.engines.flow import Decision, FlowEngine
from coterie.history.journal.records import Record, RunStarted, SetEnded, SetStarted, TurnFailed, TurnFinished
from coterie.team.planning.plan import FlowPlan, Plan

ANSWERS: dict[bool, list[dict[str, Any]]] = {
    True: [{"v": "x"}, {"v": "y"}],  # declared
    False: [{"v": "x"}, {"v": "y"}, {"v": "z"}, {"v": "other"}, {}],
}


class TooMany(Exception):
    """The flow can do more than was asked for."""


class Endless(Exception):
    """The flow can come back to where it was."""


@dataclass
class Everything:
    """What a flow can do.

    Attributes:
        worst: The most turns of each agent, and in total under ``""``.
        best: The fewest turns of a run that completes and in which nothing fails.
        ran: The nodes that can run.
        fired: The groups that can fire, by index.
        exhausted: The groups that can be found spent.
        without: The nodes that a run which completes without failures can leave out.
    """

    worst: dict[str, int]
    best: float
    ran: set[str] = field(default_factory=set)
    fired: set[int] = field(default_factory=set)
    exhausted: set[int] = field(default_factory=set)
    without: set[str] = field(default_factory=set)


def everything(plan: Plan, most: int, given: dict[str, Any] | None = None) -> Everything:
    """All that *plan*, which holds no topology, can do with the input *given*; at most *most* steps are looked at.

    Raises:
        TooMany: If there are more.
        Endless: If it can go on for ever.
    """
    return _Walk(plan, most).walk(given or {})


@dataclass
class _Rest:
    """What can come after a situation."""

    worst: dict[str, int]
    best: float
    without: frozenset[frozenset[str]]  # sets of nodes that start, of runs that complete


class _Walk:
    def __init__(self, plan: Plan, most: int) -> None:
        assert isinstance(plan.coordination, FlowPlan)
        self.plan, self.flow, self.left = plan, plan.coordination, most
        self.known: dict[Any, _Rest | None] = {}
        self.found = Everything({}, 0.0)

    def walk(self, given: dict[str, Any]) -> Everything:
        engine = FlowEngine(self.flow, self.plan.agents)
        commands = self.stepped(engine, RunStarted(run="r", engine="flow", input=given))
        asks = [command for command in commands if isinstance(command, Ask)]
        over = next((command.outcome for command in commands if isinstance(command, Finish)), "")
        rest = self.after(engine, asks, over)
        self.found.worst, self.found.best = rest.worst, rest.best
        nodes = set(self.flow.mentions)
        self.found.without = {name for name in nodes if any(name not in ran for ran in rest.without)}
        return self.found

    def after(self, engine: FlowEngine, asks: list[Ask], over: str = "") -> _Rest:
        """What can come from here, with *asks* just started."""
        self.found.ran |= {ask.agent for ask in asks if not ask.instead_of}
        rest = _Rest({}, 0.0 if over == "completed" else float("inf"), frozenset([frozenset()] * (over == "completed")))
        if not over:
            key = self.key(engine)
            if key not in self.known:
                self.known[key] = None  # until it is known what follows
                self.known[key] = self.look(engine)
            known = self.known[key]
            if known is None:
                raise Endless
            rest = known
        worst = dict(rest.worst)
        for ask in asks:
            for name in ("", ask.agent):
                worst[name] = worst.get(name, 0) + 1
        started = frozenset(ask.agent for ask in asks if not ask.instead_of)
        return _Rest(worst, rest.best + len(asks), frozenset(ran | started for ran in rest.without))

    def look(self, engine: FlowEngine) -> _Rest:
        worst: dict[str, int] = {}
        best = float("inf")
        without: set[frozenset[str]] = set()
        for turn in list(engine._turns):
            for record in self.records(engine, turn):
                self.left -= 1
                if self.left < 0:
                    raise TooMany
                then = copied(engine)
                commands = self.stepped(then, record)
                over = next((command.outcome for command in commands if isinstance(command, Finish)), "")
                rest = self.after(then, [command for command in commands if isinstance(command, Ask)], over)
                for name, count in rest.worst.items():
                    worst[name] = max(worst.get(name, 0), count)
                if isinstance(record, TurnFinished):
                    best = min(best, rest.best)
                    without |= rest.without
        return _Rest(worst, best, frozenset(without))

    def stepped(self, engine: FlowEngine, record: Record) -> list[Command]:
        """What follows from *record*; starts and ends of sets are heard at once."""
        commands: list[Command] = []
        heard = [record]
        while heard:
            new = engine.step(heard.pop(0))
            self.note(engine.decision)
            commands += new
            heard += [one.record for one in new if isinstance(one, Note) and isinstance(one.record, _OF_SETS)]
            self.found.ran |= {one.node for one in heard if isinstance(one, SetStarted)}
        return commands

    def records(self, engine: FlowEngine, turn: str) -> Iterator[Record]:
        """Every way in which *turn* can end."""
        node = engine._turns[turn].node
        for outputs in ANSWERS[
            any(wanted.declared and wanted.name == "v" for wanted in self.plan.agents[node].outputs)
        ]:
            for more in self.lists(node):
                yield TurnFinished(turn=turn, attempt=1, outputs={**outputs, **more})
        yield TurnFailed(turn=turn, kind="failed", reason="it fails")

    def lists(self, node: str) -> list[dict[str, Any]]:
        """The lists that *node* can give, if others are mapped over it."""
        of_node = [one for one in self.flow.maps.values() if one.agent == node]
        if not of_node or node in self.flow.maps:
            return [{"l": []} if of_node else {}]
        return [{"l": list(range(n))} for n in range(max(one.at_most * (one.by or 1) for one in of_node) + 1)]

    def note(self, decision: Decision | None) -> None:
        if decision is None:
            return
        for arrows in decision.fired:
            self.found.fired |= {i for i, g in enumerate(self.flow.groups) if (g.source, g.targets) == arrows}
        for arrows in decision.exhausted:
            self.found.exhausted |= {i for i, g in enumerate(self.flow.groups) if (g.source, g.targets) == arrows}

    def key(self, engine: FlowEngine) -> Any:
        """The engine's whole memory, but for the numbers of turns."""
        counters = engine._counters
        return (
            frozenset((turn.node, turn.agent, turn.tried) for turn in engine._turns.values()),
            tuple((turn.node, turn.agent) for turn in engine._postponed),
            frozenset((node, frozenset(marks)) for node, marks in engine._ready._marks.items()),
            tuple(counters._firings(i) for i, group in enumerate(self.flow.groups) if group.max),
            frozenset(
                (node, repr(outputs.get("v")), repr(outputs.get("l"))) for node, outputs in engine._outputs.items()
            ),
            tuple(sorted((one.node, len(one.items), repr(one.given)) for one in engine._sets.values())),
            frozenset((turn.node, turn.item, turn.agent) for turn in engine._turns.values() if turn.set),
            tuple((turn.node, turn.item) for turn in engine._postponed if turn.set),
        )


_OF_SETS = (SetStarted, SetEnded)


def copied(engine: FlowEngine) -> FlowEngine:
    """An engine in the same state; what happens to one does not happen to the other."""
    new = copy.copy(engine)
    new._ready = copy.copy(engine._ready)
    new._ready._marks = {node: set(marks) for node, marks in engine._ready._marks.items()}
    new._ready._waiting = {rank: list(others) for rank, others in engine._ready._waiting.items()}
    new._ready._due = set(engine._ready._due)
    new._counters = copy.copy(engine._counters)
    new._counters._entered = copy.copy(engine._counters._entered)
    new._counters._started = dict(engine._counters._started)
    new._counters._fired = dict(engine._counters._fired)
    new._turns, new._busy = dict(engine._turns), set(engine._busy)
    new._postponed, new._outputs = list(engine._postponed), dict(engine._outputs)
    new._latest, new._ends = dict(engine._latest), set(engine._ends)
    new._sets, new._set_counts = copy.deepcopy(engine._sets), copy.copy(engine._set_counts)
    return new
