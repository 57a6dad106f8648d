"""Explore the events of a loop: every reachable state, and the shortest path to each.

A state consists of the routing event and the events still required; a step emits one of the events allowed there.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import cached_property

from coterie.history.engines.loop.default_event import events_of
from coterie.proofs.witness import Script
from coterie.team.planning.loop import GLOBAL, LoopPlan
from coterie.team.topology.events import JOINED, PARALLEL, START, allowed, matches, suggested

State = tuple[str, frozenset[str]]
"""The routing event, and the required events that were not accepted yet."""


class Paths:
    """All reachable states of a loop, and the shortest path to each.

    Args:
        most: The maximum number of states to explore.

    Attributes:
        way: The state and the event from which each state was first reached; None at the start.
        whole: Whether all states were explored.
        teams: The roles that are teams, each with the events that its outputs may select.
    """

    def __init__(self, plan: LoopPlan, most: int) -> None:
        self.plan = plan
        self.ids = [role.id for role in plan.roles]
        self._emits = {role.id: role.emits for role in plan.roles}
        self.teams = {
            role.id: tuple(event for event, _ in role.events) for role in plan.roles if role.events is not None
        }
        self.start: State = (START, frozenset(plan.required))
        self.way: dict[State, tuple[State, str] | None] = {self.start: None}
        self.whole = True
        front = deque([self.start])
        while front:
            state = front.popleft()
            for event, follows in self.steps(state):
                if follows in self.way:
                    continue
                if len(self.way) >= most:
                    self.whole = False
                    return
                self.way[follows] = (state, event)
                front.append(follows)

    def roles(self, event: str) -> tuple[str, ...]:
        """The roles that *event* leads to."""
        return suggested(self.plan.handoff, self.ids, event)

    def asked(self, event: str) -> str:
        """The agent that runs after *event*."""
        return next(iter(self.roles(event)), GLOBAL)

    def events(self, position: str) -> tuple[str, ...]:
        """The events that a turn after *position* may emit."""
        asked = self.asked(position)
        if asked in self.teams:
            return events_of(self.plan, self.teams[asked])
        return events_of(self.plan, allowed(self._emits, self.roles(position)), not self.ids)

    def completes(self, state: State) -> bool:
        """Whether a turn in *state* may emit the event that completes the loop."""
        return not state[1] and self.plan.completion in self.events(state[0])

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """The events that a turn in *state* may emit to continue, and the states that follow."""
        position, missing = state
        for event in self.events(position):
            if event == self.plan.completion:
                continue
            yield event, (event, missing - {event})
            joined = event + JOINED
            if self.plan.parallel is None or self.asked(position) in self.teams:
                continue  # a team selects single events and opens no wave
            if any(matches(key, joined) for key, _ in self.plan.handoff):
                yield event + PARALLEL, (joined, missing - {event + PARALLEL})

    def events_to(self, state: State) -> list[tuple[str, str]]:
        """The agents on the shortest path to *state*, each with the event that it emits."""
        found = []
        while (step := self.way[state]) is not None:
            state, event = step
            found.append((self.asked(state[0]), event))
        return found[::-1]

    def script(self, state: State) -> Script | None:
        """The script of the shortest path to *state*; None at the start, or if a team would have to choose an event."""
        steps = self.events_to(state)
        return None if any(agent in self.teams for agent, _ in steps) else script_of(steps) or None

    @cached_property
    def before(self) -> dict[str, int]:
        """Every agent that may run, with the fewest iterations before its first turn."""
        if not self.whole:
            return dict.fromkeys(self.ids or [GLOBAL], 0)
        found: dict[str, int] = {}
        for state in self.way:  # nearest first
            if (agent := self.asked(state[0])) not in found:
                found[agent] = len(self.events_to(state))
        return found

    @cached_property
    def ends(self) -> list[State]:
        """The states in which the loop may complete by its event, nearest first."""
        return [state for state in self.way if self.completes(state)]

    @cached_property
    def hopeful(self) -> set[State]:
        """The states from which the loop can still complete, by its event or its promise."""
        back: dict[State, list[State]] = {}
        for state in self.way:
            for _, follows in self.steps(state):
                back.setdefault(follows, []).append(state)
        front = [state for state in self.way if self.completes(state) or (self.plan.promise and not state[1])]
        found = set(front)
        while front:
            for before in back.get(front.pop(), ()):
                if before not in found:
                    found.add(before)
                    front.append(before)
        return found


def script_of(steps: Iterable[tuple[str, str]]) -> Script:
    """The script of a rehearsal in which the agents emit the events of *steps* in turn."""
    script: Script = {}
    for agent, event in steps:
        emitted = {"topic": event, **({"payload": "- one part"} if event.endswith(PARALLEL) else {})}
        script.setdefault(agent, []).append({"emits": [emitted]})
    return script
