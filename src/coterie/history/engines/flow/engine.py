"""The flow engine: when a turn ends, it evaluates the arrows of its node, then starts the marked nodes that are ready.

The rules are those of the flow notation. `readiness` decides which marked nodes may start, `counters` how often a group
may fire; `coterie.team.topology.graph` has the graph.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from coterie.base.ids import set_id, turn_id
from coterie.history.engines.commands import Ask, Cancel, Command, Emit, Finish, Item, Note, Reply
from coterie.history.engines.flow.counters import Counters
from coterie.history.engines.flow.readiness import Readiness
from coterie.history.engines.replies import judge_reply, shown
from coterie.history.engines.sets import Given, OpenSet, joined
from coterie.history.engines.versions import rules_of
from coterie.history.journal import records
from coterie.history.journal.records import (
    Record,
    RunOwned,
    RunStarted,
    SetEnded,
    SetStarted,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
)
from coterie.team.planning.on_max import ON_MAX, human_agent
from coterie.team.planning.plan import AgentPlan, FlowPlan
from coterie.team.topology.model import RUN_INPUT
from coterie.team.topology.typed.values import RESULT

Arrows = tuple[str, tuple[str, ...]]
"""A group as records name it: its source and its targets."""

_ENDS = (TurnFinished, TurnFailed, TurnCancelled)
_HEARD = frozenset({*_ENDS, SetStarted, SetEnded, RunOwned, RunStarted})
"""The records from which something follows."""


class Decision(Struct, frozen=True, kw_only=True, gc=False):
    """The arrows that the end of a turn fired.

    Attributes:
        turn: The turn, or the set, that ended.
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
    set: str = ""
    item: int = 0  # of the set, from 0


class FlowEngine:
    """Decides what runs next in a flow.

    Args:
        plan: The arrows.
        agents: The plans of its nodes, and of those that only a fallback names.
    """

    name: ClassVar[str] = "flow"
    version: ClassVar[int] = 4

    def __init__(self, plan: FlowPlan, agents: Mapping[str, AgentPlan]) -> None:
        self._decided: tuple[str, str, Sequence[int], Sequence[int]] | None = None
        self._agents = agents
        self._groups = plan.groups
        self._arrows: list[Arrows] = [(group.source, group.targets) for group in plan.groups]
        self._graph = plan.graph
        self._leaving = {node: plan.graph.groups_of(node) for node in plan.graph.nodes}
        self._entries = plan.entries or self._graph.entries
        self._exit = plan.exit
        self._maps = plan.maps
        self._read: dict[str, list[str]] = {}  # the outputs of mapped nodes that conditions read
        for when in (*(group.when for group in plan.groups), *(one.until for one in plan.maps.values())):
            if when is not None and when.over:
                self._read.setdefault(when.agent, []).append(when.field)
        self._exit_text = ""
        self._ready = Readiness(self._graph)
        self._counters = Counters(plan.groups, {n: a.phase for n, a in agents.items() if a.phase is not None})
        self._turns: dict[str, _Turn] = {}  # running, in start order
        self._busy: set[str] = set()  # agents that run
        self._postponed: list[_Turn] = []  # until their agent, a fallback, is free
        self._outputs: dict[str, dict[str, Any]] = {}
        self._latest: dict[str, str] = {}  # node -> its latest turn or set with a result
        self._sets: dict[str, OpenSet] = {}  # in start order
        self._set_counts: Counter[str] = Counter()
        self._input: Mapping[str, Any] = {}
        self._max_parallel: int | None = None
        self._text = ""
        self._ends: set[str] = set()  # nodes whose latest turn fired nothing
        self._commands: list[Command] = []  # of this step
        self._over = False
        self._rules = rules_of(self.name, self.version)

    @property
    def marking(self) -> list[str]:
        """The turns and sets that marked those that have not ended, and each node's latest, which may mark others."""
        turns = [turn.inputs for turn in (*self._turns.values(), *self._postponed)]
        sets = [names for one in self._sets.values() for names in (one.inputs, one.shown)]
        return list(dict.fromkeys(chain(self._latest.values(), *turns, *sets)))

    def judge(self, said: Reply | Emit) -> Record:
        """The record of a reply, checked against the outputs of its node; emits are rejected."""
        if isinstance(said, Emit):
            name, event, why = said.turn, said.event, "a flow takes no events"
            return records.EventInvalid(turn=name, event=event, reason=why, attempt=said.attempt, message=said.message)
        turn = self._turns[said.turn]
        plan = self._plan(turn.agent if turn.spent else turn.node)
        return judge_reply(said, plan.outputs, plan.kind == "human", checks_needed=self._rules.checks_needed)

    def step(self, record: Record) -> Sequence[Command]:
        """Take *record* in, and return the commands that follow from it."""
        self._decided, self._commands = None, []
        if self._over or type(record) not in _HEARD:
            return ()
        if isinstance(record, _ENDS):
            if (turn := self._turns.pop(record.turn, None)) is None:
                return ()
            if turn.set:
                self._end_item(record, turn, self._sets[turn.set])
            else:
                self._end(record, turn)
        elif isinstance(record, SetStarted):
            self._sets[record.set].begun = True
            self._work_on(self._sets[record.set])
        elif isinstance(record, SetEnded):
            self._end_set(record)
        elif isinstance(record, RunOwned):
            self._max_parallel = record.limits.max_parallel
            for one in self._sets.values():
                if one.begun:
                    self._work_on(one)
            return self._commands
        elif isinstance(record, RunStarted):
            self._input = record.input
            self._rules = rules_of(self.name, record.engine_version)
            for node in self._entries:
                self._ready.mark(node)
        if not self._over and not (self._sets and any(one.closed for one in self._sets.values())):
            self._go_on()  # an end of a set is heard before anything else starts
        return self._commands

    def _end(self, record: TurnFinished | TurnFailed | TurnCancelled, turn: _Turn) -> None:
        if turn.agent == turn.node:
            self._busy.discard(turn.agent)
        else:
            self._free(turn.agent)
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
        """Apply rule 9. A fallback that fails follows its own `on_fail`; no agent is tried twice for one failure."""
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
        """Apply rules 4 to 6: evaluate all groups of *node*, once, on one snapshot."""
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
            elif when.holds(outputs[when.field], exact=self._rules.exact):
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
        """Go the *way* that the first group's `on-max` or a human chose, when only spent groups would fire."""
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
                found = self._read_by(node) if reason == "no_match" and not self._rules.exact else {}
                self._note(records.PathEnded(turn=turn, reason=reason, found=found))
        self._ready.end(node)

    # -- sets ----------------------------------------------------------------------------------------------------------

    def _open_set(self, node: str, sources: Sequence[str]) -> None:
        """Start a set of *node*, or fail the run if there is no list for it; its items start once that is recorded."""
        plan = self._maps[node]
        giver = self._latest.get(plan.agent, "") if plan.agent != RUN_INPUT else ""
        outputs = self._input if plan.agent == RUN_INPUT else self._outputs.get(plan.agent, {})
        items, name = outputs.get(plan.field), f"{plan.agent}.{plan.field}"
        self._set_counts[node] += 1
        id = set_id(node, self._set_counts[node])
        fault = ""
        if not isinstance(items, list | tuple):
            fault = f"{name} is not a list: {shown(items)}" if plan.field in outputs else f"{name} was never given"
        elif len(items := plan.items(items)) > plan.at_most and plan.on_more != "first":
            fault = f"{name} has {plan.said(len(items))}, at most {plan.at_most} are allowed"
        if fault:
            by = f"{giver or id}: {node!r} cannot start, since {fault}"
            return self._halt(by, at_fault=(giver or id,))
        assert items is not None
        opened = items[: plan.at_most]
        one = OpenSet(id, node, plan, opened, self._counters.start_agent(node, len(opened)))
        one.inputs = tuple([self._latest[source] for source in sources])
        one.shown = tuple([self._latest[source] for source in sources if source != plan.agent])
        self._sets[id] = one
        self._busy.add(node)
        started = SetStarted(set=id, node=node, items=len(opened), first=one.first, inputs=one.inputs, given_by=giver)
        if len(opened) < len(items):
            started = replace(started, found=len(items))
        self._note(started)

    def _work_on(self, one: OpenSet) -> None:
        """Start the items of *one* for which there is a place; end it if nothing is left to do."""
        for item in one.due(self._max_parallel):
            self._ask(_Turn(one.node, one.node, one.shown, set=one.id, item=item))
        if one.ending and not one.closed:
            self._close(one)

    def _end_item(self, record: TurnFinished | TurnFailed | TurnCancelled, turn: _Turn, one: OpenSet) -> None:
        self._release(turn, one)
        match record:
            case TurnFinished():
                one.finish(turn.item, Given(record.text, record.outputs))
            case TurnCancelled():  # by an operator
                one.drop(turn.item, skipped=True)
            case TurnFailed():
                plan, tried = self._plan(turn.agent), (*turn.tried, turn.agent)
                if plan.on_fail == "fallback" and plan.fallback not in tried:
                    self._postponed.append(replace(turn, agent=plan.fallback, tried=tried))
                    return
                if plan.on_fail in ("skip", "continue"):
                    one.drop(turn.item, skipped=plan.on_fail == "skip")
                elif one.tolerates():
                    one.drop(turn.item, skipped=False)
                else:
                    self._halt(f"{record.turn} failed ({record.kind}): {record.reason}", record)
                    return
        self._work_on(one)

    def _close(self, one: OpenSet) -> None:
        """End the open items of *one*, and note its end, which counts once it is recorded."""
        one.closed = True
        for name in [name for name, turn in self._turns.items() if turn.set == one.id]:
            self._commands.append(Cancel(turn=name, reason=f"{one.plan.until} ended {one.id}"))
            self._release(self._turns.pop(name), one)
        self._postponed = [turn for turn in self._postponed if turn.set != one.id]
        plan = self._plan(one.node)
        declared = [want.name for want in plan.outputs]
        names = one.outputs((*declared, *self._read.get(one.node, ())))
        if plan.gives_none and not names and not self._rules.names_nothing:
            names = (RESULT,)
        self._note(SetEnded(set=one.id, outputs=names, done=one.done, early=one.early))

    def _end_set(self, record: SetEnded) -> None:
        one = self._sets.pop(record.set)
        text, self._outputs[one.node] = joined(one.results(), record.outputs)
        self._busy.discard(one.node)
        self._latest[one.node] = one.id
        self._text = text
        if one.node == self._exit:
            self._exit_text = text
        if one.ends_path:
            self._settle(one.id, one.node, reason="failed")
        else:
            self._judge(one.id, one.node)

    def _release(self, turn: _Turn, one: OpenSet) -> None:
        """Let a fallback that has no more items of *one* work for others."""
        if turn.agent != one.node:
            one.helpers[turn.agent] -= 1
            self._free(turn.agent)

    def _free(self, fallback: str) -> None:
        if not any(one.node == fallback or one.helpers[fallback] for one in self._sets.values()):
            self._busy.discard(fallback)
            self._ready.check_again(fallback)

    # -- starts --------------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Start ready turns, fallbacks first. When no turn is running, the run is complete."""
        if self._postponed:
            postponed, self._postponed = self._postponed, []
            for turn in postponed:
                if turn.agent in self._busy and not (turn.set and self._sets[turn.set].helpers[turn.agent]):
                    self._postponed.append(turn)
                else:
                    self._ask(turn)
        for node, sources in self._ready.start(self._busy, self._maps):
            self._counters.start_node(node, sources)
            if node in self._maps:
                self._open_set(node, sources)
            else:
                self._ask(_Turn(node, node, tuple(map(self._latest.__getitem__, sources))))
        if self._turns or self._over:
            return
        if not self._sets:
            self._finish(Finish(outcome="completed", result=self._result()))
        elif self._postponed and all(one.begun and not one.closed for one in self._sets.values()):
            self._ask(self._postponed.pop(0))  # sets whose fallbacks are each other's nodes would wait for ever

    def _result(self) -> dict[str, Any]:
        """The outputs of the exit, or else of the nodes where paths ended, with the last text."""
        if self._exit in self._outputs:
            return {"outputs": {self._exit: self._outputs[self._exit]}, "text": self._exit_text}
        ends = sorted(self._ends & self._outputs.keys(), key=self._graph.rank.__getitem__)
        return {"outputs": {node: self._outputs[node] for node in ends}, "text": self._text}

    def _ask(self, turn: _Turn) -> None:
        item = None
        if turn.set:
            one = self._sets[turn.set]
            own = turn.agent == one.node
            name = turn_id(turn.agent, one.first + turn.item if own else self._counters.number(turn.agent))
            if not own:
                one.helpers[turn.agent] += 1
            k, plan, value = turn.item, one.plan, one.items[turn.item]
            item = Item(set=one.id, k=k + 1, of=len(one.items), agent=plan.agent, field=plan.field, value=value)
            if plan.by is not None:
                item = replace(item, before=k * plan.by, total=(item.of - 1) * plan.by + len(one.items[-1]))
        else:
            name = turn_id(turn.agent, self._counters.start_agent(turn.agent))
        self._turns[name] = turn
        self._busy.add(turn.agent)
        instead_of = turn.node if turn.tried else ""
        self._commands.append(Ask(turn=name, agent=turn.agent, inputs=turn.inputs, instead_of=instead_of, item=item))

    def _halt(self, reason: str, failed: TurnFailed | None = None, at_fault: tuple[str, ...] = ()) -> None:
        self._commands += [Cancel(turn=turn, reason=reason) for turn in self._turns]
        if failed is None:
            self._finish(Finish(outcome="failed", reason=reason, at_fault=at_fault))
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

    def waits_for_earlier(self, turn: str) -> bool:
        """Whether *turn* works on an item of a set, earlier items of which have not ended."""
        own = self._turns.get(turn)
        if own is None or not own.set:
            return False
        return any(one.set == own.set and one.item < own.item for one in (*self._turns.values(), *self._postponed))

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
