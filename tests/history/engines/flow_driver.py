"""Drives the flow engine in virtual time: no run, no asyncio, only records in and commands out."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.history.engines.commands import Ask, Cancel, Command, Finish, Note
from coterie.history.engines.flow import FlowEngine
from coterie.history.journal.records import Record, RunStarted, TurnCancelled, TurnFailed, TurnFinished, TurnStarted
from coterie.team.planning.plan import AgentPlan, FlowPlan, Wanted
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import ArrowGroup

Answer = Callable[[Ask, int], Record]
"""Gives the record that ends a turn, whose number among its agent's turns is the second argument."""


def condition(text: str) -> Condition:
    """`r.verdict == revise`, `a.n >= 1`."""
    left, op, value = text.split()
    agent, _, name = left.partition(".")
    return Condition(agent, name, Operator(op), int(value) if value.isdigit() else value)


def group(arrow: str, when: str = "", **attributes: Any) -> ArrowGroup:
    """`group("a -> b c", "a.verdict == go", max=2)`: one source, its targets, and attributes by name."""
    source, _, *targets = arrow.split()
    return ArrowGroup(source=source, targets=tuple(targets), when=condition(when) if when else None, **attributes)


def make_plan(groups: Iterable[ArrowGroup]) -> FlowPlan:
    """The plan of *groups*; names count in the order they come."""
    groups = tuple(groups)
    return FlowPlan(mentions=tuple(dict.fromkeys(n for g in groups for n in (g.source, *g.targets))), groups=groups)


def make_flow(*groups: ArrowGroup, **agents: AgentPlan) -> FlowEngine:
    """An engine for *groups*; agents that are not given have plain plans."""
    plan = make_plan(groups)
    return FlowEngine(plan, {name: AgentPlan(name=name) for name in plan.mentions} | agents)


def agent(name: str, **fields: Any) -> AgentPlan:
    return AgentPlan(name=name, **fields)


def enum(name: str, *values: str) -> Wanted:
    return Wanted(name=name, type="enum", values=values)


def start() -> RunStarted:
    return RunStarted(run="r", engine="flow")


def finished(turn: str, **outputs: Any) -> TurnFinished:
    return TurnFinished(turn=turn, attempt=1, text=f"said by {turn}", outputs=outputs)


def failed(turn: str) -> TurnFailed:
    return TurnFailed(turn=turn, kind="exit", reason="status 3")


def asks(commands: Sequence[Command]) -> list[tuple[str, list[str]]]:
    """The turns that *commands* start, with their inputs."""
    return [(command.turn, list(command.inputs)) for command in commands if isinstance(command, Ask)]


def asked(commands: Sequence[Command]) -> list[str]:
    """The turns that *commands* start."""
    return [command.turn for command in commands if isinstance(command, Ask)]


def notes(commands: Sequence[Command]) -> list[Record]:
    """The records that *commands* note."""
    return [command.record for command in commands if isinstance(command, Note)]


@dataclass
class Played:
    """What a run was: every record the engine heard with its answer to it, and how it ended."""

    heard: list[tuple[int, Record, list[Command]]] = field(default_factory=list)
    finish: Finish | None = None
    most: dict[str, int] = field(default_factory=dict)
    """The most turns of each agent that ran at once."""


def play(
    flow: FlowEngine,
    answer: Answer,
    seconds: Callable[[Ask, int], int] = lambda ask, n: 1,
    begun: RunStarted | None = None,
) -> Played:
    """Run *flow* to its end. Of turns that end together, the one that started first is heard first."""
    played = Played()
    running: dict[str, tuple[Ask, int]] = {}
    ends: list[tuple[int, int, str]] = []
    now = started = 0

    def hear(record: Record) -> None:
        nonlocal started
        commands = list(flow.step(record))
        played.heard.append((now, record, commands))
        for command in commands:
            assert played.finish is None, f"{command} after the end"
            match command:
                case Ask():
                    n = int(command.turn.rpartition("#")[2])
                    started += 1
                    running[command.turn] = (command, n)
                    at_once = sum(other.agent == command.agent for other, _ in running.values())
                    played.most[command.agent] = max(at_once, played.most.get(command.agent, 0))
                    heapq.heappush(ends, (now + seconds(command, n), started, command.turn))
                    hear(TurnStarted(turn=command.turn, agent=command.agent, inputs=command.inputs))
                case Cancel():
                    del running[command.turn]
                    hear(TurnCancelled(turn=command.turn))
                case Note():
                    hear(command.record)
                case Finish():
                    played.finish = command

    hear(begun or start())
    while ends:
        now, _, turn = heapq.heappop(ends)
        if turn in running:
            hear(answer(*running.pop(turn)))
    return played
