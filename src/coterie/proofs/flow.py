"""Prove a flow: explore its states, after those of its child runs, and derive the numbers."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from coterie.proofs.answers import Watch, answers, child_watch
from coterie.proofs.children import ChildAttempts, ChildEnd, ChildReply, Result, meanings
from coterie.proofs.exploration import END, Edge, Space
from coterie.proofs.measures import Measures, larger, plus
from coterie.proofs.sets import set_answers
from coterie.proofs.shape import FlowShape
from coterie.proofs.state import FlowState, Started, Step, TurnAnswer
from coterie.proofs.system import FlowSystem
from coterie.proofs.tempo import unforced
from coterie.proofs.ways import NEVER, Admit, Amounts, Gains, back, descend, fewest, most, so_far
from coterie.proofs.witness import Play, Stage
from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan


class Budget:
    """The limit of states of a flow and all its child runs together."""

    def __init__(self, states: int) -> None:
        self.left = states


class FlowProof:
    """The analysis of one flow.

    Args:
        path: The prefix of its agents' names: `panel/` for the team at node `panel`.
        watch: The outputs that a parent reads; None: it is not a child run.
        may_fail: Whether a parent needs its failures; then turns are explored in every order.

    Attributes:
        space: Its states.
        halts: Whether a run that ends with a failure may be longer than all others, because a failing child run takes
            longer. (Otherwise such a run is the beginning of a longer one.)

    Raises:
        OverBudget: If there are more states than *budget* has left.
    """

    def __init__(
        self,
        plan: Plan,
        measures: Measures,
        budget: Budget,
        *,
        path: str = "",
        watch: Watch | None = None,
        may_fail: bool = False,
    ) -> None:
        assert isinstance(plan.coordination, FlowPlan)
        self.plan, self.path, self.measures = plan, path, measures
        self.shape = FlowShape(plan.coordination, plan.agents)
        self.children: list[FlowProof] = []
        self._attempts: dict[tuple[int, int], ChildAttempts] = {}
        self._weights: dict[int, tuple[Gains, float]] = {}  # by the `id` of a step; the space keeps the steps alive
        ways: dict[tuple[int, int], list[TurnAnswer]] = {}
        fails: dict[tuple[int, int], bool] = {}
        for node, chain in enumerate(self.shape.chains):
            for place in range(len(chain)):
                ways[node, place] = self._answers(node, place, watch, budget)
                at = self._attempts.get((node, place))
                fails[node, place] = at is None or bool(at.fatal())
            if node in self.shape.maps:
                fails[node, 0] = self.shape.set_policy(node) == "halt"
        self.answers = ways
        self.system = FlowSystem(self.shape, ways, fails, observed=watch is not None)
        self.halts = not all(self._outlasts(node, place) for node, place in self._attempts)
        self.space = Space(self.system, budget.left, reduced=not (may_fail or self.halts))
        budget.left -= len(self.space.edges)

    def all(self) -> "Iterator[FlowProof]":
        """This proof, and those of all child runs."""
        yield self
        for child in self.children:
            yield from child.all()

    # -- answers -------------------------------------------------------------------------------------------------------

    def _answers(self, node: int, place: int, watch: Watch | None, budget: Budget) -> list[TurnAnswer]:
        agent = self.shape.agent(self.shape.chains[node][place])
        if node in self.shape.maps:
            self._attempts[node, place] = ChildAttempts(None, None, 0)
            return list(set_answers(self.shape, node, self.path, self.measures))
        if agent.child is None:
            return answers(self.shape, node, place, watch)
        fields = child_watch(self.shape, node, watch)
        below = f"{self.path}{agent.name}/"
        child = FlowProof(agent.child, self.measures, budget, path=below, watch=fields, may_fail=True)
        self.children.append(child)
        if any(proof.space.endless for proof in child.all()):
            return []  # its answers are unknown
        fitting: list[TurnAnswer] = []
        unfit: list[ChildEnd] = []
        for result, ending in child.endings():
            for meaning in meanings(self.shape, node, result, fields, watch or {}):
                if meaning is None:
                    unfit.append(ending)
                    continue
                gave = meaning.gave if watch is not None else None
                said = ChildReply(ending, meaning.text)
                fitting.append(TurnAnswer(holds=meaning.holds, outputs={}, gave=gave, child=said))
        self._attempts[node, place] = ChildAttempts.of(child.failing(), unfit, agent.retry)
        return fitting

    def _outlasts(self, node: int, place: int) -> bool:
        """Whether every answer of a team takes at least as much as its failure."""
        at, ways = self._attempts[node, place], self.answers[node, place]
        if not at.fatal():
            return True
        fatal, before = at.fatal_amounts(), [ending.most for ending in at.before()]
        taken = [plus(answer.child.ending.most, *before) for answer in ways]
        return bool(taken) and all(f <= t for each in taken for f, t in zip(fatal, each, strict=True))

    # -- measures ------------------------------------------------------------------------------------------------------

    def most_of(self, step: Step) -> Gains:
        """The maximum amounts of a step."""
        return self._weigh(step)[0]

    def fewest_of(self, step: Step) -> float:
        """The minimum number of turns of a step."""
        return self._weigh(step)[1]

    def begins(self) -> Amounts:
        """The amounts of the turns that start with a run."""
        return self.measures.turns(self._asked(self.space.begins))

    def _weigh(self, step: Step) -> tuple[Gains, float]:
        known = self._weights.get(id(step))
        if known is None:
            upper = self.measures.gains(self._asked(step.started))
            lower, below = upper.get(0, 0.0), list[Amounts]()
            at = self._attempts.get((step.node, step.place))
            if at is not None and step.how == "answer":
                said = self.answers[step.node, step.place][step.answer].child
                below = [said.ending.most, *(ending.most for ending in at.before())]
                lower += said.ending.fewest
            elif at is not None and step.how == "failure":
                below = [at.fatal_amounts()]
                lower = float("inf")  # minima are computed without failures
            for n, amount in ((n, amount) for amounts in below for n, amount in enumerate(amounts) if amount):
                upper[n] = upper.get(n, 0.0) + amount
            known = self._weights[id(step)] = upper, lower
        return known

    def _asked(self, turns: Iterable[Started]) -> Iterator[tuple[str, AgentPlan, int]]:
        """The agents that start with *turns*, without teams' own turns and sets, whose turns count when they end."""
        for name in (self.shape.asked(one.node, one.place) for one in turns if one.node not in self.shape.maps):
            if (agent := self.shape.agent(name)).child is None:
                yield self.path + name, agent, 1

    def halting(self, state: FlowState) -> Amounts:
        """The amounts of the failure that can end the run in *state*; `NEVER` if none can."""
        return larger(*(self._halted(*turn) for turn in self.system.halting(state)))

    # -- ways ----------------------------------------------------------------------------------------------------------

    def longest(self, ends: Admit = lambda step: True, *, halts: bool = False) -> tuple[Amounts, Callable[[], Play]]:
        """The maximum of each measure over all runs whose end *ends* accepts, and a run with the most turns."""
        space, halting = self.space, self.halting if halts else lambda state: NEVER
        if space.first == END:
            return self.measures.nothing, lambda: Play()
        turns, whole = most(space, self.most_of, self.measures.size, ends, halting)
        if not whole:
            return NEVER, lambda: Play()

        def to_come(edge: Edge) -> float:
            after = turns[edge.to] if edge.to != END else 0.0 if ends(edge.step) else -1.0
            return after if after < 0 else self.most_of(edge.step).get(0, 0.0) + after

        def play() -> Play:
            way: list[Step] = []
            at = space.first
            while at != END:
                halted = halting(space.states[at])
                if halted is not NEVER and halted[0] == turns[at]:
                    return self._perform(way, longest=True, halting=space.states[at])
                # Of equally long ways, take the first one without a failure.
                edge = max(space.edges[at], key=lambda edge: (to_come(edge), edge.step.how != "failure"))
                way.append(edge.step)
                at = edge.to
            return self._perform(way, longest=True)

        return plus(self.begins(), whole), play

    def shortest(self, ends: Admit, admit: Admit | None = None) -> tuple[float, Callable[[], Play]]:
        """The fewest turns of a run without failures whose end *ends* accepts, and such a run."""
        admit = admit or answered
        space = self.space
        if space.first == END:
            return 0.0, lambda: Play()
        rest = fewest(space, self.fewest_of, admit, ends)
        way = self._way(space.first, rest, admit, ends)
        return self.begins()[0] + rest[space.first], lambda: self._perform(way())

    def showing(self, shows: Callable[[Step], Iterator[Any]]) -> dict[Any, Callable[[], Play]]:
        """For each value that *shows* yields for a step, the shortest run without failures that has such a step."""
        space = self.space
        to, before = so_far(space, self.fewest_of, answered)
        rest = fewest(space, self.fewest_of, answered, lambda step: True)
        found: dict[Any, tuple[float, int, Edge]] = {}
        seen: dict[int, list[Any]] = {}
        for state in range(len(space.edges) - 1, -1, -1):
            if to[state] == float("inf"):
                continue
            for edge in space.edges[state]:
                step = edge.step
                if (shown := seen.get(id(step))) is None:
                    shown = seen[id(step)] = list(shows(step)) if answered(step) else []
                if shown:
                    turns = to[state] + self.fewest_of(step) + (0.0 if edge.to == END else rest[edge.to])
                    for what in shown:
                        if turns < float("inf") and (what not in found or turns < found[what][0]):
                            found[what] = turns, state, edge

        def run(state: int, edge: Edge) -> Callable[[], Play]:
            onward = self._way(edge.to, rest, answered, lambda step: True)
            return lambda: self._perform([*back(space, before, state), edge.step, *onward()])

        return {what: run(state, edge) for what, (_, state, edge) in found.items()}

    def endings(self) -> Iterator[tuple[Result, ChildEnd]]:
        """The possible results of a child run, each with its amounts."""
        results = {step.result: None for step in self.space.all_steps() if step.over == "completed"}
        if self.space.first == END:
            yield None, ChildEnd(self.measures.nothing, 0.0, Play, Play)
        for result in results:
            ends = _ends_with(result)
            upper, longest = self.longest(ends)
            lower, shortest = self.shortest(ends)
            if upper is not NEVER:
                yield result, ChildEnd(upper, lower, longest, shortest)

    def failing(self) -> ChildEnd | None:
        """The longest failure of a child run; None if it cannot fail."""
        upper, longest = self.longest(lambda step: step.over == "failed", halts=True)
        return None if upper is NEVER else ChildEnd(upper, float("inf"), longest, longest)

    def _way(self, at: int, rest: list[float], admit: Admit, ends: Admit) -> Callable[[], list[Step]]:
        def to_come(edge: Edge) -> float | None:
            if not admit(edge.step) or (edge.to == END and not ends(edge.step)):
                return None
            return self.fewest_of(edge.step) + (0.0 if edge.to == END else rest[edge.to])

        return lambda: descend(self.space, at, to_come)

    def endless(self) -> Play | None:
        """A path that returns to an earlier state; None if every path ends, or the flow has child runs."""
        return None if self.space.endless is None or self._attempts else self._perform(self.space.endless)

    # -- playing -------------------------------------------------------------------------------------------------------

    def _perform(self, way: list[Step], *, longest: bool = False, halting: FlowState | None = None) -> Play:
        stage = Stage(self.path, self.shape, self.space.begins)
        if halting is None and not self._attempts:
            way = unforced(self.system, way) or way
        for step in way:
            stage.end(step, self._performed(step, longest))
        if halting is not None:
            node, place = max(self.system.halting(halting), key=lambda turn: self._halted(*turn)[0])
            stage.end(
                Step(node, place, "failure", over="failed"), self._performed(Step(node, place, "failure"), longest)
            )
        return stage.play()

    def _halted(self, node: int, place: int) -> Amounts:
        at = self._attempts.get((node, place))
        return self.measures.nothing if at is None else at.fatal_amounts()

    def _performed(self, step: Step, longest: bool) -> list[Play] | dict[str, Any]:
        """The child runs or the outputs of the turn that *step* ends."""
        at = self._attempts.get((step.node, step.place))
        if at is None:
            if step.how == "answer":
                return self.answers[step.node, step.place][step.answer].outputs
            return {} if step.how == "failure" else {"decision": step.how}
        if step.how == "failure":
            ways = at.fatal()
            way = max(ways, key=lambda w: sum(e.most[0] for e in w)) if longest else ways[0]
            return [ending.longest() for ending in way]
        said: ChildReply = self.answers[step.node, step.place][step.answer].child
        last = said.ending.longest() if longest else said.ending.shortest()
        if said.text is not None:
            last = last.saying(said.text)
        return [*([ending.longest() for ending in at.before()] if longest else []), last]


def answered(step: Step) -> bool:
    """Whether the turn that *step* ends was answered, so that it did not fail."""
    return step.how != "failure"


def _ends_with(result: Result) -> Admit:
    return lambda step: step.over == "completed" and step.result == result
