"""A flow as a finite transition system, whose states contain only what determines the future of a run.

The rules are equal to those of `coterie.history.engines.flow`; a property test compares the two step by step. Only the
state differs. Instead of outputs it has the truth of the conditions that read them, instead of counters the remaining
firings, and neither if no later node reads them. So states with the same future are one state, consecutive parts of a
flow add up instead of multiplying, and if every loop is bounded, the system has no cycle.

A step is the end of one of the running turns. No other steps are needed: an engine processes one record at a time, and
a rehearsal can produce every order by the durations of turns.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from coterie.proofs.domains import MISSING
from coterie.proofs.shape import FlowShape
from coterie.proofs.state import HUMAN, FlowState, Gave, Started, Step, TurnAnswer, bits


class FlowSystem:
    """The states of a flow and the steps between them.

    Args:
        answers: The possible answers, by node and place in its chain.
        fails: Whether a turn can fail, by node and place in its chain.
        observed: Whether a parent reads the outputs of the last nodes.

    Attributes:
        effort: The cost of exploring a step of each node; a small flow has 1.
    """

    def __init__(
        self,
        shape: FlowShape,
        answers: Mapping[tuple[int, int], Sequence[TurnAnswer]],
        fails: Mapping[tuple[int, int], bool],
        *,
        observed: bool = False,
    ) -> None:
        self.shape, self.answers, self.fails, self.observed = shape, answers, fails, observed
        bounded = [i for i, group in enumerate(shape.groups) if group.max is not None]
        self._slot = {i: n for n, i in enumerate(bounded)}
        self._max = [shape.groups[i].max or 0 for i in bounded]
        self._nodes = {name: rank for rank, name in enumerate(shape.names)}
        self._phase = [shape.agent(name).phase for name in shape.names]
        self._resets: dict[str, list[int]] = {}  # agent -> the counters that its start resets
        self._phase_resets: dict[float, list[int]] = {}
        for i in bounded:
            group = shape.groups[i]
            if group.per == "phase":
                phase = self._phase[self._nodes[group.source]]
                if phase is not None:
                    self._phase_resets.setdefault(phase, []).append(self._slot[i])
            elif group.per != "run":
                self._resets.setdefault(group.per, []).append(self._slot[i])
        self._loop_groups = {i for i in range(len(shape.groups)) if shape.graph.is_loop_group(i)}
        self.effort = [1 + (len(shape.names) + len(bounded) + len(out)) // 32 for out in shape.out]
        groups = {*bounded, *(i for i, place in enumerate(shape.condition_of) if place >= 0)}
        self._telling = sum(1 << node for node, out in enumerate(shape.out) if not groups.isdisjoint(out))
        """The nodes whose arrows have a condition or a counter."""
        self._alike = dict[int, int]()
        """The nodes that reach the same other ones, by these."""
        for node, reach in enumerate(shape.reach):
            beyond = reach & ~(1 << node)
            self._alike[beyond] = self._alike.get(beyond, 0) | 1 << node
        self._alive: dict[int, tuple[int, int, tuple[int, ...], int]] = {}

    def start(self) -> tuple[tuple[Started, ...], FlowState]:
        """The turns that start with a run, and its first state."""
        shape = self.shape
        draft = _Draft(FlowState(fired=(0,) * len(self._max), gave=(None,) * (len(shape.names) * self.observed)))
        for name in shape.entries:
            draft.marked |= 1 << self._nodes[name]
        started = self._go_on(draft)
        return started, FlowState() if draft.lacks_list else self._frozen(draft)

    def steps(self, state: FlowState, of: Iterable[int] | None = None) -> Iterator[tuple[Step, FlowState]]:
        """Every step from *state*, or only the steps of the running nodes *of*."""
        turns = {node: (place, spent) for node, place, spent in state.turns}
        waiting = {node for node, _ in state.postponed}
        sizes = dict(state.sets)
        empty = [node for node, size in state.sets if size == 0]  # ends before anything else happens
        for node in empty or (bits(state.running) if of is None else of):
            if node in waiting:
                continue
            place, spent = turns.get(node, (0, ()))
            if spent:
                for way in ("forward", "end", "again"):
                    yield self._decided(state, node, spent, way)
                continue
            for n, answer in enumerate(self.answers[node, place]):
                if sizes.get(node, -1) not in (-1, answer.size):
                    continue
                yield self._answered(state, node, place, n, answer)
            if self.fails[node, place] and (policy := self.shape.policy(node, place)) != "halt":
                yield self._failed(state, node, place, policy)

    def halting(self, state: FlowState) -> Iterator[tuple[int, int]]:
        """The running turns whose failure would end the run, each as its node and place in the chain."""
        turns = {node: place for node, place, _ in state.turns}
        waiting = {node for node, _ in state.postponed}
        for node in bits(state.running):
            place = turns.get(node, 0)
            if node in waiting or self.shape.policy(node, place) != "halt":
                continue
            if place == HUMAN or self.fails[node, place]:
                yield node, place

    # -- the end of a turn -------------------------------------------------------------------------------------------

    def _answered(self, state: FlowState, node: int, place: int, n: int, answer: TurnAnswer) -> tuple[Step, FlowState]:
        draft = self._ended(state, node)
        draft.truth = draft.truth & ~self.shape.own[node] | answer.holds
        draft.known |= 1 << node
        if self.observed:
            draft.gave[node] = answer.gave
            draft.ends |= 1 << len(self.shape.names)
        if answer.skipped:
            return self._settle(draft, Step(node, place, "answer", n), (), "failed")
        return self._judge(draft, Step(node, place, "answer", n))

    def _failed(self, state: FlowState, node: int, place: int, policy: str) -> tuple[Step, FlowState]:
        draft, step = self._ended(state, node), Step(node, place, "failure")
        if policy == "skip":
            return self._settle(draft, step, (), "failed")
        if policy == "continue":
            return self._judge(draft, step)
        draft.postponed.append((node, place + 1))
        return self._close(draft, step)

    def _decided(self, state: FlowState, node: int, spent: tuple[int, ...], way: str) -> tuple[Step, FlowState]:
        draft, step = self._ended(state, node), Step(node, HUMAN, way)
        if way == "again":
            return self._settle(draft, step, spent)
        return self._at_max(draft, step._replace(exhausted=spent), way)

    def _ended(self, state: FlowState, node: int) -> "_Draft":
        draft = _Draft(state)
        draft.sets.pop(node, None)
        if state.turns:
            draft.turns = [turn for turn in state.turns if turn[0] != node]
        return draft

    def _judge(self, draft: "_Draft", step: Step) -> tuple[Step, FlowState]:
        held: list[int] = []
        holding = unknown = 0
        for i in self.shape.out[step.node]:
            place = self.shape.condition_of[i]
            if place < 0:
                held.append(i)
            elif draft.truth >> place & 1:
                held.append(i)
                holding |= 1 << place
            elif not self._is_known(draft, self.shape.conditions[place].agent):
                unknown |= 1 << place
        step = step._replace(held=holding, unknown=unknown)
        fire = [i for i in held if not self._is_spent(draft, i)]
        if fire or not held:
            return self._settle(draft, step, fire)
        return self._at_max(draft, step._replace(exhausted=tuple(held)), self.shape.groups[held[0]].on_max)

    def _at_max(self, draft: "_Draft", step: Step, way: str) -> tuple[Step, FlowState]:
        node = step.node
        if way == "human":
            draft.turns.append((node, HUMAN, step.exhausted))
            asked = Started(node, HUMAN)
            self._start_agent(draft, self.shape.asked(node, HUMAN))
            return self._close(draft, step, (asked,))
        if way == "end":
            return self._settle(draft, step, (), "end")
        if way == "fail":
            return step._replace(over="failed"), FlowState()
        forward = [i for i in self.shape.out[node] if i not in self._loop_groups and not self._is_spent(draft, i)]
        return self._settle(draft, step._replace(forced=bool(forward)), forward[:1], "exhausted")

    def _settle(
        self, draft: "_Draft", step: Step, fire: Sequence[int], reason: str = "no_match"
    ) -> tuple[Step, FlowState]:
        node = step.node
        for i in fire:
            if (slot := self._slot.get(i)) is not None:
                draft.fired[slot] = min(draft.fired[slot] + 1, self._max[slot])
            for target in self.shape.targets[i]:
                draft.marked |= 1 << target
                draft.arrows |= self.shape.arrow_bit[i, target]
        if self.observed:
            draft.ends = draft.ends & ~(1 << node) if fire else draft.ends | 1 << node
        draft.running &= ~(1 << node)
        ended = "" if fire or not self.shape.out[node] else reason
        return self._close(draft, step._replace(fired=tuple(fire), ended=ended))

    def _close(self, draft: "_Draft", step: Step, started: tuple[Started, ...] = ()) -> tuple[Step, FlowState]:
        started += self._go_on(draft)
        if draft.lacks_list:
            return step._replace(started=started, over="failed"), FlowState()
        if draft.running:
            return step._replace(started=started), self._frozen(draft)
        return step._replace(over="completed", result=self._result(draft) if self.observed else None), FlowState()

    def _result(self, draft: "_Draft") -> Gave | None:
        """The combined meaning of the last nodes' outputs for the parent; None if no node has answered.

        They are combined as in a run: nodes of higher rank override others.
        """
        if not draft.ends >> len(self.shape.names):
            return None
        merged: list[Hashable] = []
        for node in bits(draft.ends & ~(1 << len(self.shape.names))):
            for n, meaning in enumerate(draft.gave[node] or ()):
                if n == len(merged):
                    merged.append(meaning)
                elif meaning is not MISSING:
                    merged[n] = meaning
        return tuple(merged)

    # -- what starts ---------------------------------------------------------------------------------------------------

    def _go_on(self, draft: "_Draft") -> tuple[Started, ...]:
        if not draft.marked and not draft.postponed:
            return ()
        started: list[Started] = []
        busy = self._busy(draft)
        postponed, draft.postponed = draft.postponed, []
        for node, place in postponed:
            agent = self.shape.asked(node, place)
            if agent in busy:
                draft.postponed.append((node, place))
                continue
            draft.turns.append((node, place, ()))
            busy.add(agent)
            self._start_agent(draft, agent)
            started.append(Started(node, place))
        for node in bits(draft.marked):
            bit = 1 << node
            in_flight = draft.running | draft.marked & (bit - 1)
            if self.shape.upstream[node] & in_flight or draft.running & bit or self.shape.names[node] in busy:
                continue
            if node in self.shape.maps:
                size = self.shape.size_now(node, draft.truth)
                if size is None:
                    draft.lacks_list = True
                    break
                draft.sets[node] = size
            arrows = draft.arrows & self.shape.into[node]
            draft.marked ^= bit
            draft.arrows ^= arrows
            draft.running |= bit
            self._enter(draft, node, arrows)
            self._start_agent(draft, self.shape.names[node])
            started.append(Started(node, 0, arrows))
            if draft.sets.get(node) == 0:
                break  # the others start once it has ended
        return tuple(started)

    def _busy(self, draft: "_Draft") -> set[str]:
        """The busy agents: running fallbacks, and running nodes whose own turn could block a fallback."""
        busy = {self.shape.asked(node, place) for node, place, _ in draft.turns}
        if draft.postponed:
            elsewhere = {node for node, _, _ in draft.turns} | {node for node, _ in draft.postponed}
            busy.update(self.shape.names[node] for node in bits(draft.running) if node not in elsewhere)
        return busy

    def _enter(self, draft: "_Draft", node: int, arrows: int) -> None:
        phase = self._phase[node]
        slots = self._phase_resets.get(phase, ()) if phase is not None else ()
        if slots and any(self._phase[source] != phase for source in self.shape.sources(arrows)):
            for slot in slots:
                draft.fired[slot] = 0

    def _start_agent(self, draft: "_Draft", agent: str) -> None:
        for slot in self._resets.get(agent, ()):
            draft.fired[slot] = 0

    def _is_spent(self, draft: "_Draft", i: int) -> bool:
        slot = self._slot.get(i)
        return slot is not None and draft.fired[slot] >= self._max[slot]

    def _is_known(self, draft: "_Draft", agent: str) -> bool:
        node = self._nodes.get(agent)
        return node is not None and bool(draft.known >> node & 1)

    # -- what of it matters --------------------------------------------------------------------------------------------

    def _frozen(self, draft: "_Draft") -> FlowState:
        """The state of *draft*, without the parts that no later step reads."""
        in_flight = draft.running | draft.marked
        kept = self._alive.get(in_flight)
        if kept is None:
            kept = self._alive[in_flight] = self._looked_at(in_flight)
        truth, known, over, alive = kept
        for slot in over:
            draft.fired[slot] = 0
        gave: tuple[Gave | None, ...] = ()
        if self.observed:
            wanted = alive | draft.ends
            gave = tuple([each if wanted >> node & 1 else None for node, each in enumerate(draft.gave)])
        return FlowState(
            draft.running,
            draft.marked,
            draft.arrows,
            tuple(draft.fired),
            draft.truth & truth,
            draft.known & known,
            tuple(sorted(draft.turns)),
            tuple(draft.postponed),
            gave,
            draft.ends,
            tuple(sorted(draft.sets.items())),
        )

    def _looked_at(self, in_flight: int) -> tuple[int, int, tuple[int, ...], int]:
        """The conditions and agents that the nodes to come read, the counters that they do not use, and these nodes."""
        shape = self.shape
        truth = known = 0
        over = set(self._slot.values())
        left = alive = in_flight
        while left:
            beyond = shape.reach[node := (left & -left).bit_length() - 1] & ~(1 << node)
            alive |= beyond
            left &= ~self._alike[beyond]
        for node in shape.maps:
            if alive >> node & 1:
                truth |= shape.read_by_set(node)
        for node in bits(alive & self._telling):
            judged_anew = "continue" not in shape.policies[node]  # its own outputs are then always new
            for i in shape.out[node]:
                if (slot := self._slot.get(i)) is not None:
                    over.discard(slot)
                place = shape.condition_of[i]
                if place >= 0 and not (judged_anew and shape.own[node] >> place & 1):
                    truth |= 1 << place
                    known |= 1 << self._nodes.get(shape.conditions[place].agent, len(self._nodes))
        return truth, known, tuple(over), alive


class _Draft:
    """A state being changed."""

    __slots__ = (
        "arrows",
        "ends",
        "fired",
        "gave",
        "known",
        "lacks_list",
        "marked",
        "postponed",
        "running",
        "sets",
        "truth",
        "turns",
    )

    def __init__(self, state: FlowState) -> None:
        self.running, self.marked, self.arrows = state.running, state.marked, state.arrows
        self.fired, self.truth, self.known = list(state.fired), state.truth, state.known
        self.turns, self.postponed = list(state.turns), list(state.postponed)
        self.gave, self.ends = list(state.gave), state.ends
        self.sets, self.lacks_list = dict(state.sets), False
