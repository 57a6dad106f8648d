"""Turn a path through a flow into a rehearsal script: replies, and durations if the order matters.

A rehearsal runs turns side by side, one second each. A path in this natural order needs no durations; in any other,
each turn that ends late has one.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from coterie.proofs.shape import FlowShape
from coterie.proofs.state import Started, Step
from coterie.team.planning.plan import AgentPlan, Plan

Script = dict[str, list[dict[str, Any]]]
"""The entries of each attempt, by agent, `node/agent` in the team at a node."""

FAILS = {"fail": "it fails"}


class PlayedTurn(Struct, frozen=True):
    """A turn of an agent in a play.

    Attributes:
        entries: The entry of each attempt; all but the last take no time.
        begin: Its start, in seconds from the start of the play.
        length: Its duration.
        limit: The time-out of its agent.
        ends: Whether it ends; a turn that still runs when the run fails does not.
    """

    path: str
    entries: tuple[dict[str, Any], ...]
    begin: float
    length: float
    limit: float | None = None
    ends: bool = True


class Play(Struct, frozen=True):
    """The turns of a run with their times.

    Attributes:
        parts: The turns, in the order in which they end.
        length: The total duration.
    """

    parts: tuple[PlayedTurn, ...] = ()
    length: float = 0.0

    def script(self) -> Script:
        """The script of a rehearsal that plays these turns, without entries that are the default."""
        unit = self._unit()
        entries: Script = {}
        for part in sorted(self.parts, key=lambda part: part.begin):
            *failed, last = part.entries
            took = {} if unit == 1 and part.length == 1 else {"seconds": part.length * unit}
            entries.setdefault(part.path, []).extend([*({**entry, "seconds": 0} for entry in failed), {**last, **took}])
        return {path: shortened for path, each in entries.items() if (shortened := _shortened(each)) != [{}]}

    def saying(self, outputs: Mapping[str, Any]) -> "Play":
        """The play with *outputs* in the last text, for a parent that searches it."""
        ended = [n for n, part in enumerate(self.parts) if part.ends and "fail" not in part.entries[-1]]
        if not ended or not outputs:
            return self
        parts = list(self.parts)
        last = parts[ended[-1]]
        text = "\n".join(f"{name}: {json.dumps(value)}" for name, value in outputs.items())
        said = {"outputs": {}, **last.entries[-1], "text": text}
        parts[ended[-1]] = replace(last, entries=(*last.entries[:-1], said))
        return replace(self, parts=tuple(parts))

    def later(self, seconds: float) -> "Play":
        """The play with every turn *seconds* later."""
        return replace(self, parts=tuple(replace(part, begin=part.begin + seconds) for part in self.parts))

    def stretched(self, seconds: float) -> "Play":
        """The play extended by *seconds*: its last turn takes longer, and so do the turns that it cuts off."""
        if not self.parts or not seconds:
            return self
        last = max((n for n, part in enumerate(self.parts) if part.ends), default=0)
        parts = tuple(
            replace(part, length=part.length + seconds) if n == last or not part.ends else part
            for n, part in enumerate(self.parts)
        )
        return Play(parts, self.length + seconds)

    def _unit(self) -> float:
        """The length of a unit of time in seconds: 1, or less if a turn would reach its agent's time-out."""
        unit = 1.0
        for part in self.parts:
            while part.limit is not None and part.limit > 0 and part.length * unit >= part.limit:
                unit /= 10
        return unit


class Stage:
    """Schedules the turns of one run so that they end in a given order.

    Args:
        path: The prefix of its agents' names.
        begins: The turns that start with the run.
    """

    def __init__(self, path: str, shape: FlowShape, begins: Sequence[Started]) -> None:
        self._path, self._shape = path, shape
        self._parts: list[PlayedTurn] = []
        self._now = 0.0
        self._last = -1  # the position of the last turn that ended, in start order
        self._count = 0
        self._running: dict[int, tuple[int, float, Started]] = {}  # node -> position in start order, begin, turn
        self._exact = not shape.maps and not any(agent.child is not None for agent in shape.agents.values())
        self._start(begins)

    def end(self, step: Step, does: "list[Play] | dict[str, Any]") -> None:
        """Schedule the end of the turn that *step* ends; *does* has its outputs, or the child runs that answer it."""
        order, begin, turn = self._running.pop(step.node)
        agent = self._shape.agent(self._shape.asked(turn.node, turn.place))
        least = sum(play.length for play in does) if isinstance(does, list) else 1.0
        # Of turns that end at the same time, the first started one counts first; with child runs this is not certain.
        soonest = self._now if self._exact and order > self._last else self._now + 1.0
        end = max(begin + least, soonest) if self._last >= 0 else begin + least
        if isinstance(does, list):
            self._add_runs(does, begin, end)
        else:
            self._add(agent, step, does, begin, end - begin)
        self._now, self._last = end, order
        if step.over == "failed":
            for _, began, left in self._running.values():
                self._cut_off(left, began)
            self._running.clear()
        self._start(step.started)

    def play(self) -> Play:
        """The scheduled turns."""
        return Play(tuple(self._parts), self._now)

    def _start(self, started: Sequence[Started]) -> None:
        for turn in started:
            self._running[turn.node] = self._count, self._now, turn
            self._count += 1

    def _add(self, agent: AgentPlan, step: Step, outputs: dict[str, Any], begin: float, length: float) -> None:
        # Without outputs here, a rehearsal gives the outputs that the agent declares, also for a fallback.
        entries: tuple[dict[str, Any], ...] = ({"outputs": outputs} if outputs or step.place > 0 else {},)
        if step.how == "failure":
            entries = (FAILS,) * (agent.retry + 1)
        self._parts.append(PlayedTurn(self._path + agent.name, entries, begin, length, agent.timeout))

    def _add_runs(self, plays: Sequence[Play], begin: float, end: float) -> None:
        *before, last = plays
        for play in before:
            self._parts += play.later(begin).parts
            begin += play.length
        self._parts += last.later(begin).stretched(end - begin - last.length).parts

    def _cut_off(self, turn: Started, begin: float) -> None:
        """Let *turn*, which began at *begin*, outlast the run."""
        agent = self._shape.agent(self._shape.asked(turn.node, turn.place))
        for path, limit in _first_asked(agent, self._path):
            self._parts.append(PlayedTurn(path, ({},), begin, self._now - begin + 2.0, limit, ends=False))


def _first_asked(agent: AgentPlan, path: str) -> Iterator[tuple[str, float | None]]:
    """The first agents that run for *agent*: itself, or the entries of its flow."""
    if agent.child is None:
        yield path + agent.name, agent.timeout
        return
    for first in _entries(agent.child):
        yield from _first_asked(first, f"{path}{agent.name}/")


def _entries(plan: Plan) -> list[AgentPlan]:
    if plan.flow is None:
        return []
    shape = FlowShape(plan.flow, plan.agents)
    return [shape.agent(name) for name in shape.entries]


def _shortened(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """*entries* without repetitions at the end: the last entry repeats by default."""
    while len(entries) > 1 and entries[-1] == entries[-2]:
        entries = entries[:-1]
    return entries
