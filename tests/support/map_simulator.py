"""A second simulator of flows with maps, written from the rules alone: slow, naive, and without the engine's ideas.

It shares the static graph (ranks, loop arrows) with the engine, and nothing that happens during a run.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.team.planning.plan import AgentPlan, FlowPlan, MapPlan
from coterie.team.topology.conditions import Condition

NULL = object()
"""What an item without a result gave."""


@dataclass
class Turn:
    """A turn that runs, or that waits for its agent."""

    node: str
    agent: str
    inputs: tuple[str, ...]
    tried: tuple[str, ...] = ()
    of: "Set | None" = None
    k: int = 0


@dataclass
class Set:
    """A set that has not ended."""

    id: str
    node: str
    how: MapPlan
    items: list[Any]
    first: int
    shown: tuple[str, ...]
    given: dict[int, Any] = field(default_factory=dict)
    nulls: set[str] = field(default_factory=set)
    begun: int = 0
    tolerated: int = 0
    found: bool = False


@dataclass
class Trace:
    """What a run was: its events in order, the items of its turns, its outputs at the end, and how it ended."""

    events: list[tuple[Any, ...]] = field(default_factory=list)
    items: dict[str, tuple[int, int, Any]] = field(default_factory=dict)
    outcome: str = ""
    at_fault: tuple[str, ...] = ()


class Simulator:
    """Plays *plan*: `answer(turn)` gives outputs, or `"fail"` or `"cancel"`, and `seconds(turn)` its time."""

    def __init__(
        self,
        plan: FlowPlan,
        agents: Mapping[str, AgentPlan],
        given: Mapping[str, Any],
        answer: Callable[[str], Any],
        seconds: Callable[[str], int],
    ) -> None:
        self.plan, self.agents, self.given, self.answer, self.seconds = plan, agents, given, answer, seconds
        self.graph = plan.graph
        self.order = sorted(self.graph.rank, key=self.graph.rank.__getitem__)
        self.marks: dict[str, set[int]] = {}
        self.nodes: set[str] = set()  # nodes that run
        self.turns: dict[str, Turn] = {}
        self.sets: list[Set] = []
        self.waiting: list[Turn] = []
        self.outputs: dict[str, dict[str, Any]] = {}
        self.latest: dict[str, str] = {}
        self.numbers: Counter[str] = Counter()
        self.starts: Counter[str] = Counter()
        self.set_numbers: Counter[str] = Counter()
        self.fired: Counter[tuple[int, int]] = Counter()
        self.ends: list[tuple[int, int, str]] = []
        self.now = self.begun = 0
        self.trace = Trace()

    def run(self) -> Trace:
        """The whole run."""
        for node in self.graph.entries:
            self.marks.setdefault(node, set())
        self.start_what_is_ready()
        while self.ends and not self.trace.outcome:
            self.now, _, name = heapq.heappop(self.ends)
            if name in self.turns:
                self.end(name, self.answer(name))
                self.start_what_is_ready()
        return self.trace

    # -- starts

    def busy(self, agent: str, of: Set | None = None) -> bool:
        """Whether *agent* works for anything but *of*."""
        at_work = [turn.of for turn in self.turns.values() if turn.agent == agent]
        if of is not None and of in at_work:
            return False
        return bool(at_work) or any(one.node == agent for one in self.sets)

    def start_what_is_ready(self) -> None:
        """Fallbacks first, then nodes by rank, one after the other."""
        while not self.trace.outcome:
            waiting, self.waiting = self.waiting, []
            for turn in waiting:
                if self.busy(turn.agent, turn.of):
                    self.waiting.append(turn)
                else:
                    self.ask(turn)
            node = next((one for one in self.order if one in self.marks and self.is_ready(one)), None)
            if node is None:
                break
            sources = list(dict.fromkeys(self.plan.groups[i].source for i in sorted(self.marks.pop(node))))
            self.nodes.add(node)
            if node in self.plan.maps:
                self.open_set(node, sources)
            else:
                self.ask(Turn(node, node, tuple(self.latest[source] for source in sources)))
        if not self.turns and not self.trace.outcome:
            if self.waiting:
                self.ask(self.waiting.pop(0))  # all sets wait for each other
            elif not self.sets:
                self.trace.outcome = "completed"

    def is_ready(self, node: str) -> bool:
        """The settled rule, for one node."""
        if node in self.nodes or self.busy(node):
            return False
        rank = self.graph.rank
        in_flight = self.nodes | {other for other in self.marks if rank[other] < rank[node]}
        return not any(self.could_mark(other, node) for other in in_flight - {node})

    def could_mark(self, start: str, node: str) -> bool:
        """Whether a path from *start* that avoids *node* ends in a forward arrow into it."""
        seen, front = {start}, [start]
        while front:
            for i in self.graph.groups_of(front.pop()):
                for target in self.plan.groups[i].targets:
                    if target == node:
                        if not self.graph.is_loop(i, node):
                            return True
                    elif target not in seen:
                        seen.add(target)
                        front.append(target)
        return False

    def ask(self, turn: Turn) -> None:
        if turn.of is not None and turn.agent == turn.node:
            name = f"{turn.agent}#{turn.of.first + turn.k}"
        else:
            self.numbers[turn.agent] += 1
            name = f"{turn.agent}#{self.numbers[turn.agent]}"
        if turn.of is None:
            self.starts[turn.agent] += 1
        else:
            self.trace.items[name] = (turn.k + 1, len(turn.of.items), turn.of.items[turn.k])
        self.turns[name] = turn
        self.begun += 1
        heapq.heappush(self.ends, (self.now + self.seconds(name), self.begun, name))
        self.say("start", name, turn.inputs)

    # -- sets

    def open_set(self, node: str, sources: list[str]) -> None:
        how = self.plan.maps[node]
        values = self.given if how.agent == "input" else self.outputs.get(how.agent, {})
        items = values.get(how.field)
        if isinstance(items, list) and how.by:
            rest, items = items, []
            while rest:
                items.append(rest[: how.by])
                rest = rest[how.by :]
        self.set_numbers[node] += 1
        self.starts[node] += 1
        id = f"{node}@{self.set_numbers[node]}"
        if not isinstance(items, list) or (len(items) > how.at_most and how.on_more == "fail"):
            giver = self.latest.get(how.agent) if how.agent != "input" else None
            self.fail((giver or id,))
            return
        items = items[: how.at_most]
        one = Set(
            id,
            node,
            how,
            items,
            self.numbers[node] + 1,
            tuple(self.latest[source] for source in sources if source != how.agent),
        )
        self.numbers[node] += len(items)
        self.sets.append(one)
        self.say("set", id, len(items))
        self.work(one)

    def work(self, one: Set) -> None:
        """Fill the places of *one*, or end it."""
        open_ = one.begun - len(one.given)
        while not one.found and one.begun < len(one.items) and open_ < (one.how.at_once or len(one.items)):
            one.begun += 1
            open_ += 1
            self.ask(Turn(one.node, one.node, one.shown, of=one, k=one.begun - 1))
        if one.found or len(one.given) == len(one.items):
            for name in [name for name, turn in self.turns.items() if turn.of is one]:
                del self.turns[name]
                self.say("cancelled", name)
            self.waiting = [turn for turn in self.waiting if turn.of is not one]
            self.close(one)

    def close(self, one: Set) -> None:
        gave = [one.given.get(k, NULL) for k in range(len(one.items))]
        fields = {want.name for want in self.plan_of(one.node).outputs}
        conditions = [group.when for group in self.plan.groups] + [how.until for how in self.plan.maps.values()]
        fields |= {when.field for when in conditions if when is not None and when.agent == one.node}
        fields |= {name for each in gave if each is not NULL for name in each}
        self.outputs[one.node] = {
            name: [each.get(name) if each is not NULL else None for each in gave] for name in fields
        }
        self.sets.remove(one)
        self.latest[one.node] = one.id
        done = sum(each is not NULL for each in gave)
        self.say("set ended", one.id, done, sorted(fields))
        if one.items and not done and one.nulls == {"skip"}:
            self.nodes.discard(one.node)
        else:
            self.judge(one.node)

    # -- ends

    def end(self, name: str, said: Any) -> None:
        turn = self.turns.pop(name)
        self.say({"fail": "failed", "cancel": "cancelled"}.get(said if isinstance(said, str) else "", "finished"), name)
        if turn.of is not None:
            self.end_item(name, turn, turn.of, said)
        elif said == "cancel":
            self.nodes.discard(turn.node)
        elif said != "fail":
            self.outputs[turn.node], self.latest[turn.node] = said, name
            self.judge(turn.node)
        else:
            match self.after(turn):
                case "skip":
                    self.nodes.discard(turn.node)
                case "continue":
                    self.latest.setdefault(turn.node, name)
                    self.judge(turn.node)
                case "halt":
                    self.fail((name,))

    def end_item(self, name: str, turn: Turn, one: Set, said: Any) -> None:
        if said == "cancel":
            one.given[turn.k] = NULL
            one.nulls.add("skip")
        elif said != "fail":
            one.given[turn.k] = said
            until = one.how.until
            if until is not None and said.get(until.field) is not None:
                one.found = one.found or Condition(until.agent, until.field, until.op, until.value).holds(
                    said[until.field]
                )
        else:
            match self.after(turn):
                case "fallback":
                    return
                case "halt":
                    allowed = one.how.tolerate or 0
                    if isinstance(allowed, str):
                        allowed = len(one.items) * int(allowed[:-1]) // 100
                    if one.tolerated >= allowed:
                        self.fail((name,))
                        return
                    one.tolerated += 1
                    one.nulls.add("tolerate")
                case policy:
                    one.nulls.add(policy)
            one.given[turn.k] = NULL
        self.work(one)

    def after(self, turn: Turn) -> str:
        """What follows a failure of *turn*: a fallback begins to wait here."""
        plan, tried = self.plan_of(turn.agent), (*turn.tried, turn.agent)
        if plan.on_fail == "fallback" and plan.fallback not in tried:
            self.waiting.append(Turn(turn.node, plan.fallback, turn.inputs, tried, turn.of, turn.k))
            return "fallback"
        return plan.on_fail if plan.on_fail in ("skip", "continue") else "halt"

    def judge(self, node: str) -> None:
        """Rules 4 to 6."""
        held = [i for i in self.graph.groups_of(node) if self.holds(self.plan.groups[i].when)]
        fire = [i for i in held if not self.is_spent(i)]
        if held and not fire:
            forward = [
                i for i in self.graph.groups_of(node) if not self.graph.is_loop_group(i) and not self.is_spent(i)
            ]
            fire = forward[:1]
        for i in fire:
            self.fired[i, self.scope(i)] += 1
            for target in self.plan.groups[i].targets:
                self.marks.setdefault(target, set()).add(i)
        self.nodes.discard(node)

    def holds(self, when: Condition | None) -> bool:
        if when is None:
            return True
        if when.field not in self.outputs.get(when.agent, {}):
            return False
        value = self.outputs[when.agent][when.field]
        if not when.over:
            return when.holds(value)
        single = Condition(when.agent, when.field, when.op, when.value)
        held = [each is not None and single.holds(each) for each in value]
        return any(held) if when.over == "any" else all(held)

    def scope(self, i: int) -> int:
        per = self.plan.groups[i].per
        return 0 if per == "run" else self.starts[per]

    def is_spent(self, i: int) -> bool:
        bound = self.plan.groups[i].max
        return bound is not None and self.fired[i, self.scope(i)] >= bound

    def fail(self, at_fault: tuple[str, ...]) -> None:
        self.trace.outcome, self.trace.at_fault = "failed", at_fault
        for name in self.turns:
            self.say("cancelled", name)
        self.turns.clear()

    def plan_of(self, agent: str) -> AgentPlan:
        return self.agents.get(agent) or AgentPlan(name=agent)

    def say(self, *event: Any) -> None:
        self.trace.events.append((self.now, *event))
