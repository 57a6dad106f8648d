"""The flow: when a turn ends, the arrows of its node are evaluated, and marked nodes start once nothing can mark them.

The rules are those of the flow notation. `readiness` decides which marked nodes may start, `counters` how often a group
may fire; `coterie.topology.graph` has the graph.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from coterie.engines.commands import Ask, Cancel, Command, Emit, Finish, Note, Reply
from coterie.engines.flow.counters import Counters
from coterie.engines.flow.readiness import Readiness
from coterie.engines.replies import judge_reply, shown
from coterie.ids import turn_id
from coterie.journal import records
from coterie.journal.records import Record, RunStarted, TurnCancelled, TurnFailed, TurnFinished
from coterie.planning.on_max import ON_MAX, human_agent
from coterie.planning.plan import AgentPlan, FlowPlan

Arrows = tuple[str, tuple[str, ...]]
"""A group as records name it: its source and its targets."""

_ENDS = (TurnFinished, TurnFailed, TurnCancelled)


class Decision(Struct, frozen=True, kw_only=True, gc=False):
    """The arrows that the end of a turn fired.

    Attributes:
        turn: The turn that ended.
        node: The node whose arrows were evaluated; for the turn of a fallback the node it replaces.
        fired: The groups that fired, in source order, including a forced one.
        exhausted: The spent groups whose conditions held, if no other group fired.
        forced: The forward group that fired regardless of its condition.
        fired_at: The places of *fired* among the groups of the flow, and *exhausted_at* those of *exhausted*.
    """

    turn: str
    node: str
    fired: tuple[Arrows, ...] = ()
    exhausted: tuple[Arrows, ...] = ()
    forced: Arrows | None = None
    fired_at: tuple[int, ...] = ()
    exhausted_at: tuple[int, ...] = ()


class _Turn(Struct, frozen=True, gc=False):
    """A running turn, or one that waits until its fallback is free."""

    node: str
    agent: str
    inputs: tuple[str, ...]
    tried: tuple[str, ...] = ()  # the agents that failed before
    spent: tuple[int, ...] = ()  # the groups that a human decides about


class FlowEngine:
    """Decides what runs next in a flow.

    Args:
        plan: The arrows.
        agents: The plans of its nodes, and of those that only a fallback names.
    """

    name: ClassVar[str] = "flow"
    version: ClassVar[int] = 3
    """Since 2 conditions compare texts without case and a closing full stop, and the end of a path names the values.
    Since 3 a reply must give the outputs that conditions on its agent's arrows need.
    """

    def __init__(self, plan: FlowPlan, agents: Mapping[str, AgentPlan]) -> None:
        self._decided: tuple[str, str, Sequence[int], Sequence[int]] | None = None
        self._agents = agents
        self._groups = plan.groups
        self._arrows: list[Arrows] = [(group.source, group.targets) for group in plan.groups]
        self._graph = plan.graph
        self._leaving = {node: plan.graph.groups_of(node) for node in plan.graph.nodes}
        self._entries = plan.entries or self._graph.entries
        self._exit = plan.exit
        self._exit_text = ""
        self._ready = Readiness(self._graph)
        self._counters = Counters(plan.groups, {n: a.phase for n, a in agents.items() if a.phase is not None})
        self._turns: dict[str, _Turn] = {}  # running, in start order
        self._busy: set[str] = set()  # agents that run
        self._postponed: list[_Turn] = []  # until their agent, a fallback, is free
        self._outputs: dict[str, dict[str, Any]] = {}
        self._latest: dict[str, str] = {}  # node -> its latest turn with a result
        self._text = ""
        self._ends: set[str] = set()  # nodes whose latest turn fired nothing
        self._commands: list[Command] = []  # of this step
        self._over = False
        self._exact = True
        """Whether the run was begun by version 1."""
        self._checks_needed = True

    def judge(self, said: Reply | Emit) -> Record:
        """The record of a reply, checked against the outputs of its node; emits are rejected."""
        if isinstance(said, Emit):
            name, event, why = said.turn, said.event, "a flow takes no events"
            return records.EventInvalid(turn=name, event=event, reason=why, attempt=said.attempt, message=said.message)
        turn = self._turns[said.turn]
        plan = self._plan(turn.agent if turn.spent else turn.node)
        return judge_reply(said, plan.outputs, plan.kind == "human", checks_needed=self._checks_needed)

    def step(self, record: Record) -> Sequence[Command]:
        """Take *record* in, and return the commands that follow from it."""
        self._decided, self._commands = None, []
        if self._over:
            return ()
        if isinstance(record, _ENDS):
            if (turn := self._turns.pop(record.turn, None)) is None:
                return ()
            self._end(record, turn)
        elif isinstance(record, RunStarted):
            self._exact, self._checks_needed = record.engine_version < 2, record.engine_version >= 3
            for node in self._entries:
                self._ready.mark(node)
        else:
            return ()
        if not self._over:
            self._go_on()
        return self._commands

    def _end(self, record: TurnFinished | TurnFailed | TurnCancelled, turn: _Turn) -> None:
        self._busy.discard(turn.agent)
        if turn.agent != turn.node:
            self._ready.check_again(turn.agent)
        match record:
            case TurnFinished() if turn.spent:
                self._at_max(record.turn, turn.node, turn.spent, record.outputs["decision"])
            case TurnFinished():
                self._outputs[turn.node] = record.outputs
                self._latest[turn.node] = record.turn
                self._text = record.text
                if turn.node == self._exit:
                    self._exit_text = record.text
                self._judge(record.turn, turn.node)
            case TurnFailed():
                self._fail(record, turn)
            case TurnCancelled():  # by an operator: the engine's own cancellations end the run
                self._settle(record.turn, turn.node, spent=turn.spent, reason="failed")

    def _fail(self, record: TurnFailed, turn: _Turn) -> None:
        """Rule 9. A fallback that fails follows its own `on_fail`; no agent is tried twice for one failure."""
        plan, tried = self._plan(turn.agent), (*turn.tried, turn.agent)
        match plan.on_fail:
            case "skip":
                self._settle(record.turn, turn.node, reason="failed")
            case "continue":
                self._latest.setdefault(turn.node, record.turn)
                self._judge(record.turn, turn.node)
            case "fallback" if plan.fallback not in tried:
                self._postponed.append(_Turn(turn.node, plan.fallback, turn.inputs, tried))
            case _:
                self._halt(f"{record.turn} failed ({record.kind}): {record.reason}", record)

    def _judge(self, turn: str, node: str) -> None:
        """Rules 4 to 6: all groups of *node*, once, on one snapshot."""
        held = self._held(turn, node)
        fire = [i for i in held if self._groups[i].max is None or not self._counters.is_spent(i)]
        if fire or not held:
            self._settle(turn, node, fire)
        else:
            self._at_max(turn, node, held, self._groups[held[0]].on_max)

    def _held(self, turn: str, node: str) -> list[int]:
        """The groups of *node* without a condition, or with one that holds. Each missing output is noted once."""
        held: list[int] = []
        missing: list[tuple[str, str]] = []
        for i in self._leaving[node]:
            when = self._groups[i].when
            if when is None:
                held.append(i)
            elif when.field not in (outputs := self._outputs.get(when.agent, {})):
                missing.append((when.agent, when.field))
            elif when.holds(outputs[when.field], exact=self._exact):
                held.append(i)
        for agent, field in dict.fromkeys(missing):
            self._note(records.ConditionUnknown(turn=turn, agent=agent, field=field))
        return held

    def _read_by(self, node: str) -> dict[str, str]:
        """The values that the conditions of *node* read, as JSON: `{"critic.verdict": '"maybe"'}`."""
        read = [when for i in self._leaving[node] if (when := self._groups[i].when) is not None]
        return {
            f"{when.agent}.{when.field}": shown(outputs[when.field])
            for when in read
            if when.field in (outputs := self._outputs.get(when.agent, {}))
        }

    def _at_max(self, turn: str, node: str, spent: Sequence[int], way: str) -> None:
        """Go the *way* of the first group's `on-max`, or of a human, when only spent groups would fire."""
        match way:
            case "human":
                self._decided = (turn, node, (), spent)
                self._ask(_Turn(node, ON_MAX + node, (turn,), spent=tuple(spent)))
            case "again":
                self._settle(turn, node, spent)
            case "end":
                self._settle(turn, node, spent=spent, reason="end")
            case "fail":
                self._decide(turn, node, (), spent)
                self._halt(f"{turn}: {self._groups[spent[0]]} has fired as often as its max allows")
            case _:
                is_loop, is_spent = self._graph.is_loop_group, self._counters.is_spent
                forward = [i for i in self._leaving[node] if not is_loop(i) and not is_spent(i)]
                self._settle(turn, node, forward[:1], spent, reason="exhausted")

    def _settle(
        self, turn: str, node: str, fire: Sequence[int] = (), spent: Sequence[int] = (), reason: str = "no_match"
    ) -> None:
        """Mark the targets of the groups in *fire*; without any, the path ends for *reason*."""
        self._decide(turn, node, fire, spent)
        for i in fire:
            if self._groups[i].max is not None:
                self._counters.fire(i)
            for target in self._groups[i].targets:
                self._ready.mark(target, i)
        if fire:
            self._ends.discard(node)
        else:
            self._ends.add(node)
            if self._leaving[node]:
                found = self._read_by(node) if reason == "no_match" and not self._exact else {}
                self._note(records.PathEnded(turn=turn, reason=reason, found=found))
        self._ready.end(node)

    def _go_on(self) -> None:
        """Start ready turns, fallbacks first. When no turn is running, the run is complete."""
        if self._postponed:
            postponed, self._postponed = self._postponed, []
            for turn in postponed:
                if turn.agent in self._busy:
                    self._postponed.append(turn)
                else:
                    self._ask(turn)
        for node, sources in self._ready.start(self._busy):
            self._counters.start_node(node, sources)
            self._ask(_Turn(node, node, tuple([self._latest[source] for source in sources])))
        if not self._turns:
            self._finish(Finish(outcome="completed", result=self._result()))

    def _result(self) -> dict[str, Any]:
        """The outputs of the exit, or else of the nodes where paths ended, with the last text."""
        if self._exit in self._outputs:
            return {"outputs": {self._exit: self._outputs[self._exit]}, "text": self._exit_text}
        ends = sorted(self._ends & self._outputs.keys(), key=self._graph.rank.__getitem__)
        return {"outputs": {node: self._outputs[node] for node in ends}, "text": self._text}

    def _ask(self, turn: _Turn) -> None:
        name = turn_id(turn.agent, self._counters.start_agent(turn.agent))
        self._turns[name] = turn
        self._busy.add(turn.agent)
        instead_of = turn.node if turn.tried else ""
        self._commands.append(Ask(turn=name, agent=turn.agent, inputs=turn.inputs, instead_of=instead_of))

    def _halt(self, reason: str, failed: TurnFailed | None = None) -> None:
        self._commands += [Cancel(turn=turn, reason=reason) for turn in self._turns]
        if failed is None:
            self._finish(Finish(outcome="failed", reason=reason))
        else:
            result = {"kind": failed.kind} if failed.kind else None
            self._finish(Finish(outcome="failed", reason=reason, result=result, at_fault=(failed.turn,)))

    def _finish(self, finish: Finish) -> None:
        self._over = True
        self._commands.append(finish)

    @property
    def decision(self) -> Decision | None:
        """The decision of the last step if a turn ended in it; else None."""
        if self._decided is None:
            return None
        turn, node, fire, spent = self._decided
        fired, exhausted = self._named(fire), self._named(spent)
        forced = fired[0] if fired and exhausted else None
        return Decision(
            turn=turn,
            node=node,
            fired=fired,
            exhausted=exhausted,
            forced=forced,
            fired_at=tuple(fire),
            exhausted_at=tuple(spent),
        )

    def node_of(self, turn: str) -> str:
        """The node that *turn* runs for, which its agent may replace as a fallback; empty if it does not run."""
        running = self._turns.get(turn)
        return running.node if running is not None else ""

    def _decide(self, turn: str, node: str, fire: Sequence[int], spent: Sequence[int]) -> None:
        """Keep the decision; groups that are *spent* are noted."""
        self._decided = (turn, node, fire, spent)
        if spent and (decided := self.decision) is not None:
            self._note(records.LoopExhausted(turn=turn, exhausted=decided.exhausted, forced=decided.forced))

    def _note(self, record: Record) -> None:
        self._commands.append(Note(record=record))

    def _named(self, groups: Sequence[int]) -> tuple[Arrows, ...]:
        return tuple([self._arrows[i] for i in groups])

    def _plan(self, agent: str) -> AgentPlan:
        return self._agents.get(agent) or human_agent(agent, self._groups)
